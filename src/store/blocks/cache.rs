//! The cache of verified, decoded blocks, by their number: set-associative, as the caches of processors are.
//!
//! The number of a block decides its *set* of eight slots. The block is in one of these slots, or not in
//! the cache. So a look-up reads two lines of memory, whatever the size of the cache. With a hint it reads
//! one. A hash table with a list of recent use would read many. Threads disturb each other only if they
//! look for the same block. A number is never used for another block. So a cached block is never out of
//! date.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use super::decoded::Decoded;
use super::entry::{BlockId, Hint};
use crate::store::lookup::prefetch;

/// The slots of a set. The names of their blocks fill a line of memory.
const SLOTS_PER_SET: usize = 8;

/// A typical size of a block. The number of slots is twice the number of such blocks that fit into the
/// cache. So hardly any set is full before the cache is full.
const TYPICAL_BYTES: u64 = 6_000;

pub(crate) struct BlockCache {
    sets: Box<[SlotNames]>,
    /// The slots of all sets, one set after the other. The lock of a slot is held while the slot is filled
    /// or emptied, and while its block is read.
    slots: Box<[Slot]>,
    capacity: AtomicU64,
    /// The bytes that the blocks take.
    bytes: AtomicU64,
    /// The set at which the next search for blocks to evict begins.
    hand: AtomicUsize,
}

/// For each slot, the name of its block. The holder of the lock of the slot writes it.
#[derive(Default)]
#[repr(align(64))]
struct SlotNames([AtomicU64; SLOTS_PER_SET]);

/// Room for a block. It takes a line of memory.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// Twice the name of the block. It is odd if the block was used since the hand came by. The holder of
    /// the lock writes it, except for the last bit.
    label: AtomicU64,
    block: RwLock<Option<Decoded>>,
}

const USED: u64 = 1;

/// The name of a block in its set. 0 means no block.
fn name(id: BlockId) -> u64 {
    id.bits() + 1
}

/// A block that cannot be evicted while it is held. The holder must not insert into the cache: two holders
/// could wait for each other's slots.
pub(crate) type Held<'a> = RwLockReadGuard<'a, Option<Decoded>>;

impl BlockCache {
    /// A cache for blocks of about `capacity` bytes in all.
    pub(crate) fn new(capacity: u64) -> Self {
        let sets = (2 * capacity / TYPICAL_BYTES / SLOTS_PER_SET as u64 + 1) as usize;
        Self {
            sets: (0..sets).map(|_| SlotNames::default()).collect(),
            slots: (0..sets * SLOTS_PER_SET).map(|_| Slot::default()).collect(),
            capacity: capacity.into(),
            bytes: 0.into(),
            hand: 0.into(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The bytes that its blocks take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the number of bytes that its blocks may take. The number of sets stays.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.evict();
    }

    /// A block, if it is there. The cache then keeps it for longer.
    pub(crate) fn get(&self, id: BlockId) -> Option<Decoded> {
        let slot = self.slot_of(id)?;
        self.note_use(slot);
        self.hold(slot, id).and_then(|block| block.clone())
    }

    /// A block, if it is there.
    pub(crate) fn peek(&self, id: BlockId) -> Option<Decoded> {
        self.hold(self.slot_of(id)?, id).and_then(|block| block.clone())
    }

    /// Fetches what [`find`](Self::find) reads.
    #[inline]
    pub(crate) fn prefetch(&self, id: BlockId, hint: &Hint) {
        match hint.slot().and_then(|slot| self.slots.get(slot)) {
            Some(slot) => prefetch(slot),
            None => prefetch(&self.sets[self.set(id)]),
        }
    }

    /// The slot of a block, if it is there. It takes no lock. So the processor can do this for many blocks
    /// at a time.
    #[inline]
    pub(crate) fn find(&self, id: BlockId, hint: &Hint) -> Option<usize> {
        let is_there = |&slot: &usize| self.slots.get(slot).is_some_and(|slot| slot.has(id));
        hint.slot().filter(is_there).or_else(|| {
            let slot = self.slot_of(id)?;
            hint.set(slot);
            prefetch(&self.slots[slot]);
            Some(slot)
        })
    }

    fn slot_of(&self, id: BlockId) -> Option<usize> {
        let set = self.set(id);
        let index = self.sets[set].0.iter().position(|it| it.load(Ordering::Relaxed) == name(id))?;
        Some(set * SLOTS_PER_SET + index)
    }

    /// The block that was found in a slot. `None` if it has gone or is about to go.
    #[inline]
    pub(crate) fn hold(&self, slot: usize, id: BlockId) -> Option<Held<'_>> {
        let slot = &self.slots[slot];
        let held = slot.block.try_read()?;
        slot.has(id).then_some(held)
    }

    /// Notes that a block was used. The cache then keeps it for longer.
    #[inline]
    pub(crate) fn note_use(&self, slot: usize) {
        // Threads can share the line of memory while nobody writes to it. So it is written only if that
        // changes it.
        let label = &self.slots[slot].label;
        if label.load(Ordering::Relaxed) & USED == 0 {
            label.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Adds a block. Other blocks are evicted if all together are too large.
    pub(crate) fn insert(&self, id: BlockId, hint: &Hint, block: Decoded) {
        // The bytes are counted before the block is there. So no thread can subtract bytes that were not
        // added.
        self.bytes.fetch_add(block.memory_bytes(), Ordering::Relaxed);
        let slot = self.slot_of(id).unwrap_or_else(|| self.slot_for_another(self.set(id)));
        let removed = self.fill(slot, name(id), Some(block));
        hint.set(slot);
        self.let_go(removed);
        self.evict();
    }

    pub(crate) fn clear(&self) {
        (0..self.slots.len()).for_each(|slot| self.empty(slot));
    }

    #[inline]
    fn set(&self, id: BlockId) -> usize {
        // Multiples of the golden ratio are spread evenly, also those of neighbouring numbers.
        let spread = id.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(spread) * self.sets.len() as u128) >> 64) as usize
    }

    /// An empty slot of a set, or else the slot of a block that was not used lately.
    fn slot_for_another(&self, set: usize) -> usize {
        let slots = &self.slots[set * SLOTS_PER_SET..][..SLOTS_PER_SET];
        let labels: [u64; SLOTS_PER_SET] =
            std::array::from_fn(|index| slots[index].label.load(Ordering::Relaxed));
        let empty = labels.iter().position(|&it| it == 0);
        let unused = || labels.iter().position(|it| it & USED == 0);
        let index = empty.or_else(unused).unwrap_or_else(|| {
            slots.iter().for_each(|it| _ = it.label.fetch_and(!USED, Ordering::Relaxed));
            0
        });
        set * SLOTS_PER_SET + index
    }

    fn empty(&self, slot: usize) {
        let removed = self.fill(slot, 0, None);
        self.let_go(removed);
    }

    /// Puts a block with this name into a slot, or no block. Returns the block that was there.
    fn fill(&self, slot: usize, name: u64, block: Option<Decoded>) -> Option<Decoded> {
        let Slot { label, block: held } = &self.slots[slot];
        let mut there = held.write();
        label.store(name << 1 | u64::from(block.is_some()), Ordering::Relaxed);
        self.sets[slot / SLOTS_PER_SET].0[slot % SLOTS_PER_SET].store(name, Ordering::Relaxed);
        std::mem::replace(&mut there, block)
    }

    /// Subtracts the bytes of a block that was removed.
    fn let_go(&self, removed: Option<Decoded>) {
        let bytes = removed.map_or(0, |block| block.memory_bytes());
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Goes through the sets like the hand of a clock until the blocks fit. It removes each block that was
    /// not used since the hand came by last.
    fn evict(&self) {
        // After two rounds, all blocks that were there before are gone. Another thread may have added more.
        let mut steps = 2 * self.sets.len();
        while self.bytes() > self.capacity() && steps > 0 {
            steps -= 1;
            let set = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len();
            for slot in set * SLOTS_PER_SET..(set + 1) * SLOTS_PER_SET {
                let before = self.slots[slot].label.fetch_and(!USED, Ordering::Relaxed);
                if before != 0 && before & USED == 0 {
                    self.empty(slot);
                }
            }
        }
    }
}

impl Slot {
    #[inline]
    fn has(&self, id: BlockId) -> bool {
        self.label.load(Ordering::Relaxed) >> 1 == name(id)
    }
}

const _: () = assert!(size_of::<Slot>() == 64);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::decoded::Sampled;
    use super::*;
    use crate::store::lookup::Samples;

    fn block(number: u64) -> Decoded {
        let rows: Arc<[u64]> = Arc::from(vec![number; 1_500]);
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
        let each = block(0).memory_bytes();
        let cache = BlockCache::new(1000 * each);
        (0..900).for_each(|number| cache.insert(id(number), &Hint::default(), block(number)));
        let kept = (0..900).filter(|&number| is_right(&cache.get(id(number)), number)).count();
        // Blocks that found no slot in their set are gone.
        assert!(kept > 800, "{kept}");
        assert_eq!(cache.bytes(), kept as u64 * each);
        // The hand spares blocks that are used again and again.
        for number in 900..5_000 {
            cache.insert(id(number), &Hint::default(), block(number));
            (0..50).for_each(|hot| drop(cache.get(id(hot))));
        }
        assert!(cache.bytes() <= 1000 * each);
        assert!((0..50).filter(|&number| is_right(&cache.peek(id(number)), number)).count() > 40);
        cache.set_capacity(10 * each);
        assert!(cache.bytes() <= 10 * each);
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(id(4_999)).is_none()), (0, true));
    }

    #[test]
    fn many_threads_get_the_block_they_ask_for_or_none() {
        let cache = BlockCache::new(60 * block(0).memory_bytes());
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
        assert!(cache.bytes() <= 60 * block(0).memory_bytes());
        cache.clear();
        assert_eq!(cache.bytes(), 0);
    }
}
