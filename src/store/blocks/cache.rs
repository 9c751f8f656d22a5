//! The cache of verified, decoded blocks, by their number: set-associative, as the caches of processors are.
//!
//! The number of a block decides its *set* of eight slots. The block is in one of these slots, or not in
//! the cache. Only if all eight are taken, it may be in the next set. So a look-up reads two lines of memory,
//! whatever the size of the cache. With a hint it reads one. A hash table with a list of recent use would read
//! many. Threads disturb each other only if they look for the same block. A number is never used for another
//! block. So a cached block is never out of date.
//!
//! The cache begins with a few sets, and gets more of them as blocks come in.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLockReadGuard;

use super::decoded::Decoded;
use super::entry::{BlockId, Hint};
use super::slots::{SLOT_BYTES, SLOTS_PER_SET, Slot, Slots, USED};
use crate::metrics::Tallies;
use crate::store::lookup::prefetch;

/// The number of slots for each block. With four, few sets are full. Before a set is divided, it has up to twice as
/// many blocks as the others.
const SLOTS_PER_BLOCK: u64 = 4;

/// Of the blocks that would take the place of others, one of this number is admitted.
const ADMITTED: u64 = 8;

pub(crate) struct BlockCache {
    slots: Slots,
    capacity: AtomicU64,
    /// The number of blocks.
    blocks: AtomicU64,
    /// The bytes that the blocks and their slots take.
    bytes: AtomicU64,
    /// The number of blocks that asked to be admitted to a full cache.
    asked: AtomicU64,
    /// The set at which the next search for blocks to evict begins.
    hand: AtomicUsize,
    /// What readers of the file count.
    pub(crate) tallies: Tallies,
}

/// A block that cannot be evicted while it is held. The holder must not insert into the cache: two holders
/// could wait for each other's slots.
pub(crate) type Held<'a> = RwLockReadGuard<'a, Option<Decoded>>;

/// The bytes of a cached block beside those of its rows.
pub(crate) const BLOCK_OVERHEAD: u64 = Decoded::OVERHEAD + SLOTS_PER_BLOCK * SLOT_BYTES;

/// The bytes of a block and of its slots.
fn bytes_of(block: &Decoded) -> u64 {
    block.memory_bytes() + SLOTS_PER_BLOCK * SLOT_BYTES
}

impl BlockCache {
    /// A cache for blocks of about `capacity` bytes in all. It takes memory as blocks come in.
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            slots: Slots::new(),
            capacity: capacity.into(),
            blocks: 0.into(),
            bytes: 0.into(),
            asked: 0.into(),
            hand: 0.into(),
            tallies: Tallies::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The bytes that its blocks take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it is so large that its blocks are to be in large pages. The pages of a small one fit into what
    /// the processor has at hand, and it is not to take more memory than it needs.
    pub(crate) fn is_large(&self) -> bool {
        const LARGE: u64 = 32 << 20;
        self.bytes() > LARGE
    }

    /// Changes the number of bytes that its blocks may take. Blocks that do not fit are let go.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.evict();
    }

    /// Whether a block of some 16 KB that was read should be inserted: always if there is room, otherwise one
    /// time in eight.
    ///
    /// If more blocks are read than fit, most of them would be evicted before they are needed again, and so
    /// would the others. To decode a whole block and to let go of another costs more than to decode a few
    /// rows. A block that is needed often is soon admitted.
    pub(crate) fn admits(&self) -> bool {
        const BLOCK_BYTES: u64 = 16 << 10;
        self.bytes() + BLOCK_BYTES <= self.capacity()
            || self
                .asked
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(ADMITTED)
    }

    /// A block, if it is there. The cache then keeps it for longer.
    pub(crate) fn get(&self, id: BlockId) -> Option<Decoded> {
        let slot = self.slots.find(id)?;
        self.note_use(slot);
        self.hold(slot, id).and_then(|block| block.clone())
    }

    /// A block, if it is there.
    pub(crate) fn peek(&self, id: BlockId) -> Option<Decoded> {
        self.hold(self.slots.find(id)?, id)
            .and_then(|block| block.clone())
    }

    /// Fetches what [`find`](Self::find) reads.
    #[inline]
    pub(crate) fn prefetch(&self, id: BlockId, hint: &Hint) {
        match hint.slot().and_then(|slot| self.slots.get(slot)) {
            Some(slot) => prefetch(slot),
            None => self.slots.prefetch_names(id),
        }
    }

    /// The slot of a block, if it is there. It takes no lock. So the processor can do this for many blocks
    /// at a time.
    #[inline]
    pub(crate) fn find(&self, id: BlockId, hint: &Hint) -> Option<usize> {
        let is_there = |&slot: &usize| self.slots.get(slot).is_some_and(|slot| slot.has(id));
        hint.slot().filter(is_there).or_else(|| {
            let slot = self.slots.find(id)?;
            hint.set(slot);
            self.slots.get(slot).map(prefetch);
            Some(slot)
        })
    }

    /// The block that was found in a slot. `None` if it has gone or is about to go.
    #[inline]
    pub(crate) fn hold(&self, slot: usize, id: BlockId) -> Option<Held<'_>> {
        let slot = self.slots.get(slot)?;
        let held = slot.block.try_read()?;
        slot.has(id).then_some(held)
    }

    /// Notes that a block was used. The cache then keeps it for longer.
    #[inline]
    pub(crate) fn note_use(&self, slot: usize) {
        // Threads can share the line of memory while nobody writes to it. So it is written only if that
        // changes it.
        let Some(Slot { label, .. }) = self.slots.get(slot) else {
            return;
        };
        if label.load(Ordering::Relaxed) & USED == 0 {
            label.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Adds a block. Other blocks are evicted if all together are too large.
    pub(crate) fn insert(&self, id: BlockId, hint: &Hint, block: Decoded) {
        // The block is counted before it is there. So no thread can subtract what was not added.
        self.bytes.fetch_add(bytes_of(&block), Ordering::Relaxed);
        let blocks = self.blocks.fetch_add(1, Ordering::Relaxed) + 1;
        if blocks * SLOTS_PER_BLOCK > (self.slots.sets() * SLOTS_PER_SET) as u64 {
            self.slots.grow();
        }
        let slot = self.slots.find(id).unwrap_or_else(|| self.slot_for(id));
        let removed = self.slots.fill(slot, id, block);
        hint.set(slot);
        self.let_go(removed);
        self.evict();
    }

    /// Lets go of a block that only old snapshots can still ask for.
    pub(crate) fn forget(&self, id: BlockId) {
        if let Some(slot) = self.slots.find(id) {
            self.let_go(self.slots.empty(slot, Some(id)));
        }
    }

    pub(crate) fn clear(&self) {
        let slots = self.slots.sets() * SLOTS_PER_SET;
        (0..slots).for_each(|slot| self.let_go(self.slots.empty(slot, None)));
    }

    /// An empty slot for a block that is not there, or else the slot of a block that was not used lately.
    fn slot_for(&self, id: BlockId) -> usize {
        let label = |slot: &usize| {
            self.slots
                .get(*slot)
                .map_or(0, |it| it.label.load(Ordering::Relaxed))
        };
        let [slots, others] = self
            .slots
            .sets_of_block(id)
            .map(|set| self.slots.of_set(set));
        let empty = slots.clone().chain(others).find(|slot| label(slot) == 0);
        let unused = || slots.clone().find(|slot| label(slot) & USED == 0);
        empty.or_else(unused).unwrap_or_else(|| {
            let used = slots.clone().filter_map(|slot| self.slots.get(slot));
            used.for_each(|it| _ = it.label.fetch_and(!USED, Ordering::Relaxed));
            slots.start
        })
    }

    /// Subtracts what a block took that was removed.
    fn let_go(&self, removed: Option<Decoded>) {
        if let Some(block) = removed {
            self.bytes.fetch_sub(bytes_of(&block), Ordering::Relaxed);
            self.blocks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Goes through the sets like the hand of a clock until the blocks fit. It removes each block that was
    /// not used since the hand came by last.
    fn evict(&self) {
        // After two rounds, all blocks that were there before are gone. Another thread may have added more.
        let sets = self.slots.sets();
        let mut steps = 2 * sets;
        while self.bytes() > self.capacity() && steps > 0 {
            steps -= 1;
            let set = self.hand.fetch_add(1, Ordering::Relaxed) % sets;
            for slot in self.slots.of_set(set) {
                let Some(Slot { label, .. }) = self.slots.get(slot) else {
                    continue;
                };
                let before = label.fetch_and(!USED, Ordering::Relaxed);
                if before != 0 && before & USED == 0 {
                    self.let_go(self.slots.empty(slot, None));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoded::Sampled;
    use super::super::shared_rows::SharedRows;
    use super::*;
    use crate::store::lookup::Samples;

    fn block(number: u64) -> Decoded {
        let rows = SharedRows::new(&[number; 1_500], &[], false);
        let samples = Samples::new(rows.iter().copied(), rows.len(), number);
        Decoded::Narrow(Sampled { rows, samples })
    }

    fn id(number: u64) -> BlockId {
        BlockId::new((number % 64) as u8, number)
    }

    fn is_right(found: &Option<Decoded>, number: u64) -> bool {
        matches!(found, Some(Decoded::Narrow(block)) if block.rows[0] == number)
    }

    #[test]
    fn it_keeps_what_fits_and_what_is_used_and_no_more() {
        let each = bytes_of(&block(0));
        let cache = BlockCache::new(1000 * each);
        (0..900).for_each(|number| cache.insert(id(number), &Hint::default(), block(number)));
        let kept = (0..900)
            .filter(|&number| is_right(&cache.get(id(number)), number))
            .count();
        // Blocks that found no slot in their set are gone.
        assert!(kept > 800, "{kept}");
        assert_eq!(cache.bytes(), kept as u64 * each);
        // The hand spares blocks that are used again and again.
        for number in 900..5_000 {
            cache.insert(id(number), &Hint::default(), block(number));
            (0..50).for_each(|hot| drop(cache.get(id(hot))));
        }
        assert!(cache.bytes() <= 1000 * each);
        assert!(
            (0..50)
                .filter(|&number| is_right(&cache.peek(id(number)), number))
                .count()
                > 40
        );
        cache.set_capacity(10 * each);
        assert!(cache.bytes() <= 10 * each);
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(id(4_999)).is_none()), (0, true));
    }

    /// A fortieth of the bytes that a cache could ever take was allocated when it was made.
    #[test]
    fn it_begins_small_and_grows_with_its_blocks() {
        let cache = BlockCache::new(1 << 40);
        let begins_with = cache.slots.sets();
        (0..4_000).for_each(|number| cache.insert(id(number), &Hint::default(), block(number)));
        let kept = (0..4_000)
            .filter(|&number| is_right(&cache.get(id(number)), number))
            .count();
        // Just before the number of sets has doubled, the sets are as uneven as they can be.
        assert!(kept >= 3_997, "{kept}");
        let slots = cache.slots.sets() * SLOTS_PER_SET;
        assert!(
            begins_with < 100 && (15_000..=16_500).contains(&slots),
            "{begins_with}, {slots}"
        );
        // A block in the second of its sets is not found once the first one has room.
        (0..4_000).for_each(|number| cache.forget(id(number)));
        assert!(
            cache.blocks.load(Ordering::Relaxed) < 20,
            "{:?}",
            cache.blocks
        );
        cache.clear();
        assert_eq!(
            (cache.bytes(), cache.blocks.load(Ordering::Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn a_full_cache_admits_one_block_in_eight() {
        let cache = BlockCache::new(100 * bytes_of(&block(0)));
        assert!((0..90).all(|number| {
            cache.insert(id(number), &Hint::default(), block(number));
            cache.admits()
        }));
        (90..101).for_each(|number| cache.insert(id(number), &Hint::default(), block(number)));
        assert_eq!((0..80).filter(|_| cache.admits()).count(), 10);
        cache.clear();
        assert!((0..80).all(|_| cache.admits()));
    }

    #[test]
    fn many_threads_get_the_block_they_ask_for_or_none() {
        let cache = BlockCache::new(60 * bytes_of(&block(0)));
        let hint = Hint::default();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (cache, hint) = (&cache, &hint);
                scope.spawn(move || {
                    for i in 0..20_000u64 {
                        let number = (i * 7 + thread * 13) % 150;
                        match cache.get(id(number)) {
                            None => cache.insert(id(number), &Hint::default(), block(number)),
                            found => assert!(is_right(&found, number)),
                        }
                        // All threads share one hint, so it is mostly wrong.
                        let slot = cache.find(id(number + 1), hint);
                        if let Some(held) = slot.and_then(|slot| cache.hold(slot, id(number + 1))) {
                            assert!(is_right(&held, number + 1));
                        }
                    }
                });
            }
        });
        assert!(cache.bytes() <= 60 * bytes_of(&block(0)));
        cache.clear();
        assert_eq!(cache.bytes(), 0);
    }
}
