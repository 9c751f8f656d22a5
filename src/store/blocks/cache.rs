//! The cache of verified, decoded blocks, by their number: set-associative, as the caches of processors are.
//!
//! A number leads to a *set* of a few places, and a block is in one of these or not in the cache. So a look-up reads two lines of memory,
//! whatever the size of the cache, where a hash table with a list of what was used last reads many; with a hint, one. Threads meet only
//! where they look for the same block. Numbers are never used again for another block, so that what is cached is never stale.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use crate::store::blocks::reader::Decoded;
use crate::store::lookup::prefetch::prefetch;

/// How many places a set has: the words of a line of memory.
const WAYS: usize = 8;

/// There are twice as many places as blocks of this size, which is typical, fit into the cache: then hardly any set is full
/// before the cache is.
const TYPICAL_BYTES: u64 = 6_000;

pub(crate) struct BlockCache {
    sets: Box<[Set]>,
    /// For each place of each set its block. The lock is held where a place is emptied or filled, and by those who read the block.
    blocks: Box<[Slot]>,
    capacity: AtomicU64,
    /// How many bytes the blocks take.
    bytes: AtomicU64,
    /// The set that is looked through next for blocks to be evicted.
    hand: AtomicUsize,
}

/// For each place the name of its block. Written by whoever holds the lock of the block.
#[derive(Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// A line of memory.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// The name of the block, doubled; odd if the block was asked for since the hand came by.
    /// Written by whoever holds the lock, but for the last bit.
    label: AtomicU64,
    block: RwLock<Option<Decoded>>,
}

const USED: u64 = 1;

/// What a set calls a block: 0 is the name of none.
fn name(number: u64) -> u64 {
    number + 1
}

/// A block that nobody can evict meanwhile. Whoever holds one must not add to the cache, since another may want to do so in its place.
pub(crate) type Held<'a> = RwLockReadGuard<'a, Option<Decoded>>;

/// The place in which a block was seen last; it may be gone from there. Kept beside the number of the block, it saves the way through the set.
/// Any two are equal, since they say nothing of the block.
#[derive(Debug, Default)]
pub(crate) struct Hint(AtomicU32);

impl Hint {
    #[inline]
    fn place(&self) -> Option<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1).map(|place| place as usize)
    }

    fn set(&self, place: usize) {
        self.0.store(u32::try_from(place + 1).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self(self.0.load(Ordering::Relaxed).into())
    }
}

impl PartialEq for Hint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Hint {}

impl BlockCache {
    /// A cache for about so many bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        let sets = (2 * capacity / TYPICAL_BYTES / WAYS as u64 + 1) as usize;
        Self {
            sets: (0..sets).map(|_| Set::default()).collect(),
            blocks: (0..sets * WAYS).map(|_| Slot::default()).collect(),
            capacity: capacity.into(),
            bytes: 0.into(),
            hand: 0.into(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// How many bytes the blocks in it take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes how many bytes its blocks may take; the number of sets stays.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.evict();
    }

    /// A block, if it is there, which is then kept for longer.
    pub(crate) fn get(&self, number: u64) -> Option<Decoded> {
        let place = self.place(number)?;
        self.note_use(place);
        self.hold(place, number).and_then(|block| block.clone())
    }

    /// A block, if it is there.
    pub(crate) fn peek(&self, number: u64) -> Option<Decoded> {
        self.hold(self.place(number)?, number).and_then(|block| block.clone())
    }

    /// Has fetched what tells whether a block is there.
    #[inline]
    pub(crate) fn prefetch(&self, number: u64, hint: &Hint) {
        match hint.place().and_then(|place| self.blocks.get(place)) {
            Some(slot) => prefetch(slot),
            None => prefetch(&self.sets[self.set(number)]),
        }
    }

    /// Where a block is, if it is there. Takes no lock, so that a processor can do so for many blocks at a time.
    #[inline]
    pub(crate) fn find(&self, number: u64, hint: &Hint) -> Option<usize> {
        let is_there = |&place: &usize| self.blocks.get(place).is_some_and(|slot| slot.has(number));
        hint.place().filter(is_there).or_else(|| {
            let place = self.place(number)?;
            hint.set(place);
            prefetch(&self.blocks[place]);
            Some(place)
        })
    }

    fn place(&self, number: u64) -> Option<usize> {
        let set = self.set(number);
        let way = self.sets[set].0.iter().position(|it| it.load(Ordering::Relaxed) == name(number))?;
        Some(set * WAYS + way)
    }

    /// A block that was found at a place, unless it is gone or about to go.
    #[inline]
    pub(crate) fn hold(&self, place: usize, number: u64) -> Option<Held<'_>> {
        let slot = &self.blocks[place];
        let held = slot.block.try_read()?;
        slot.has(number).then_some(held)
    }

    /// Keeps a block for longer.
    #[inline]
    pub(crate) fn note_use(&self, place: usize) {
        // Written only where it changes something, so that threads can share the line.
        let label = &self.blocks[place].label;
        if label.load(Ordering::Relaxed) & USED == 0 {
            label.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Adds a block, for which others have to go if it would be too much.
    pub(crate) fn insert(&self, number: u64, hint: &Hint, block: Decoded) {
        // Before it is there, so that nobody can count out what was not counted in.
        self.bytes.fetch_add(block.memory_bytes(), Ordering::Relaxed);
        let place = self.place(number).unwrap_or_else(|| self.place_for_another(self.set(number)));
        let removed = self.fill(place, name(number), Some(block));
        hint.set(place);
        self.let_go(removed);
        self.evict();
    }

    pub(crate) fn clear(&self) {
        (0..self.blocks.len()).for_each(|place| self.empty(place));
    }

    #[inline]
    fn set(&self, number: u64) -> usize {
        // Multiples of the golden ratio are spread evenly, also those of neighbouring numbers.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(spread) * self.sets.len() as u128) >> 64) as usize
    }

    /// An empty place of a set; if there is none, that of a block not asked for lately.
    fn place_for_another(&self, set: usize) -> usize {
        let slots = &self.blocks[set * WAYS..][..WAYS];
        let labels: [u64; WAYS] = std::array::from_fn(|way| slots[way].label.load(Ordering::Relaxed));
        let empty = labels.iter().position(|&it| it == 0);
        let unused = || labels.iter().position(|it| it & USED == 0);
        let way = empty.or_else(unused).unwrap_or_else(|| {
            slots.iter().for_each(|it| _ = it.label.fetch_and(!USED, Ordering::Relaxed));
            0
        });
        set * WAYS + way
    }

    fn empty(&self, place: usize) {
        let removed = self.fill(place, 0, None);
        self.let_go(removed);
    }

    /// Puts a block of this name in a place, or none, and returns what was there.
    fn fill(&self, place: usize, name: u64, block: Option<Decoded>) -> Option<Decoded> {
        let slot = &self.blocks[place];
        let mut there = slot.block.write();
        slot.label.store(name << 1 | u64::from(block.is_some()), Ordering::Relaxed);
        self.sets[place / WAYS].0[place % WAYS].store(name, Ordering::Relaxed);
        std::mem::replace(&mut there, block)
    }

    /// Counts a block out that has been removed.
    fn let_go(&self, removed: Option<Decoded>) {
        let bytes = removed.map_or(0, |block| block.memory_bytes());
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Goes through the sets, as the hand of a clock does, and removes what was not asked for since it came by last, until the
    /// blocks fit.
    fn evict(&self) {
        // Twice around nothing is left; another thread may have added more.
        let mut steps = 2 * self.sets.len();
        while self.bytes() > self.capacity() && steps > 0 {
            steps -= 1;
            let set = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len();
            for place in set * WAYS..(set + 1) * WAYS {
                let before = self.blocks[place].label.fetch_and(!USED, Ordering::Relaxed);
                if before != 0 && before & USED == 0 {
                    self.empty(place);
                }
            }
        }
    }
}

impl Slot {
    #[inline]
    fn has(&self, number: u64) -> bool {
        self.label.load(Ordering::Relaxed) >> 1 == name(number)
    }
}

const _: () = assert!(size_of::<Slot>() == 64);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::blocks::reader::Sampled;
    use crate::store::lookup::samples::Samples;

    fn block(number: u64) -> Decoded {
        let rows: Arc<[u64]> = Arc::from(vec![number; 1_500]);
        let samples = Samples::new(rows.iter().copied(), rows.len(), number);
        Decoded::Narrow(Sampled { rows, samples })
    }

    fn is_right(found: &Option<Decoded>, number: u64) -> bool {
        matches!(found, Some(Decoded::Narrow(block)) if block.rows[0] == number)
    }

    #[test]
    fn it_keeps_what_fits_and_what_is_used_and_no_more() {
        let each = block(0).memory_bytes();
        let cache = BlockCache::new(1000 * each);
        (0..900).for_each(|number| cache.insert(number, &Hint::default(), block(number)));
        let kept = (0..900).filter(|&number| is_right(&cache.get(number), number)).count();
        // Those that do not fit into their set are gone.
        assert!(kept > 800, "{kept}");
        assert_eq!(cache.bytes(), kept as u64 * each);
        // The hand spares what is asked for again and again.
        for number in 900..5_000 {
            cache.insert(number, &Hint::default(), block(number));
            (0..50).for_each(|hot| drop(cache.get(hot)));
        }
        assert!(cache.bytes() <= 1000 * each);
        assert!((0..50).filter(|&number| is_right(&cache.peek(number), number)).count() > 40);
        cache.set_capacity(10 * each);
        assert!(cache.bytes() <= 10 * each);
        cache.clear();
        assert_eq!((cache.bytes(), cache.get(4_999).is_none()), (0, true));
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
                        match cache.get(number) {
                            None => cache.insert(number, &Hint::default(), block(number)),
                            found => assert!(is_right(&found, number)),
                        }
                        // One hint for all, so that it is mostly wrong.
                        let place = cache.find(number + 1, hint);
                        if let Some(held) = place.and_then(|place| cache.hold(place, number + 1)) {
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
