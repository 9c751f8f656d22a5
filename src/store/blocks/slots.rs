//! The slots of the cache: a table of sets that grows by one set at a time, while readers go on.
//!
//! The method is linear hashing. With n sets, let p be the greatest power of two up to n. A hash leads to the
//! set of its last bits, modulo 2p, or modulo p if there is no such set yet. The next set, number n, takes the
//! blocks that it should have from the set n - p. Nothing else moves. Sets are allocated in segments, of which
//! each is twice as long as the one before. A set stays where it is, so readers need no lock to look into it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use super::decoded::Decoded;
use super::entry::BlockId;
use super::large_pages::vec_with_capacity;
use crate::store::lookup::prefetch;

/// The slots of a set. The names of their blocks fill a line of memory.
pub(super) const SLOTS_PER_SET: usize = 8;

/// The sets of the first segment. They take 9 KB.
const FIRST_SETS: usize = 16;

/// With these segments there are 2^28 sets, and the number of a slot fits into a hint.
const SEGMENTS: usize = 24;

pub(super) struct Slots {
    segments: [OnceLock<Box<[SlotSet]>>; SEGMENTS],
    /// The number of sets in use.
    sets: AtomicUsize,
    /// Held while a set is added.
    growing: Mutex<()>,
}

/// The slots of a set, and for each of them the name of its block. The holder of the lock of a slot writes its
/// name.
#[derive(Default)]
#[repr(align(64))]
struct SlotSet {
    names: [AtomicU64; SLOTS_PER_SET],
    slots: [Slot; SLOTS_PER_SET],
}

/// Room for a block. It takes a line of memory. The lock is held while the slot is filled or emptied, and while
/// its block is read.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Slot {
    /// Twice the name of the block. It is odd if the block was used since the hand came by. The holder of
    /// the lock writes it, except for the last bit.
    pub(super) label: AtomicU64,
    pub(super) block: RwLock<Option<Decoded>>,
}

/// The last bit of a label.
pub(super) const USED: u64 = 1;

const _: () = assert!(size_of::<Slot>() == 64);

/// The bytes of a slot and of its name.
pub(super) const SLOT_BYTES: u64 = (size_of::<SlotSet>() / SLOTS_PER_SET) as u64;

/// The name of a block in its set. 0 means no block.
fn name(id: BlockId) -> u64 {
    id.bits() + 1
}

impl Slot {
    #[inline]
    pub(super) fn has(&self, id: BlockId) -> bool {
        self.label.load(Ordering::Relaxed) >> 1 == name(id)
    }
}

/// A hash of a name. Multiples of the golden ratio are spread evenly, also those of neighbouring numbers.
fn hash(name: u64) -> usize {
    let spread = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ spread >> 32) as usize
}

/// The set of a hash, if there are `sets` sets.
fn set_of(hash: usize, sets: usize) -> usize {
    let doubled = sets.next_power_of_two();
    let set = hash & (doubled - 1);
    if set < sets {
        set
    } else {
        set & (doubled / 2 - 1)
    }
}

/// The segment of a set, and where it is there.
#[inline]
fn place_of(set: usize) -> (usize, usize) {
    let number = set + FIRST_SETS;
    let segment = (number.ilog2() - FIRST_SETS.ilog2()) as usize;
    (segment, number - (FIRST_SETS << segment))
}

impl Slots {
    pub(super) fn new() -> Self {
        let slots = Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            sets: FIRST_SETS.into(),
            growing: Mutex::new(()),
        };
        slots.segment(0);
        slots
    }

    /// The number of sets.
    pub(super) fn sets(&self) -> usize {
        self.sets.load(Ordering::Acquire)
    }

    /// The slots of a set.
    pub(super) fn of_set(&self, set: usize) -> std::ops::Range<usize> {
        set * SLOTS_PER_SET..(set + 1) * SLOTS_PER_SET
    }

    /// A slot, if there is one of this number.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&Slot> {
        Some(&self.set(slot / SLOTS_PER_SET)?.slots[slot % SLOTS_PER_SET])
    }

    /// The set that a block belongs to, and the set that takes it if that one is full. Without the second
    /// one, some blocks of a cache with room would have none, and would be read again and again. If the first
    /// set gets room later, the block is not found in the second one any more. It is evicted with time.
    pub(super) fn sets_of_block(&self, id: BlockId) -> [usize; 2] {
        let sets = self.sets();
        let set = set_of(hash(name(id)), sets);
        [set, if set + 1 < sets { set + 1 } else { 0 }]
    }

    /// Fetches the names of the blocks in a set.
    #[inline]
    pub(super) fn prefetch_names(&self, id: BlockId) {
        if let Some(set) = self.set(self.sets_of_block(id)[0]) {
            prefetch(&set.names);
        }
    }

    /// The slot of a block, if it is there. It takes no lock.
    pub(super) fn find(&self, id: BlockId) -> Option<usize> {
        for set in self.sets_of_block(id) {
            let names = &self.set(set)?.names;
            if let Some(index) = names
                .iter()
                .position(|it| it.load(Ordering::Relaxed) == name(id))
            {
                return Some(set * SLOTS_PER_SET + index);
            }
            if names.iter().any(|it| it.load(Ordering::Relaxed) == 0) {
                break;
            }
        }
        None
    }

    /// Puts a block into a slot. Returns the block that was there.
    pub(super) fn fill(&self, slot: usize, id: BlockId, block: Decoded) -> Option<Decoded> {
        let (set, index) = self.place(slot)?;
        let Slot { label, block: held } = &set.slots[index];
        let mut there = held.write();
        label.store(name(id) << 1 | USED, Ordering::Relaxed);
        set.names[index].store(name(id), Ordering::Relaxed);
        there.replace(block)
    }

    /// Removes the block of a slot. If a block is given, only that block.
    pub(super) fn empty(&self, slot: usize, only: Option<BlockId>) -> Option<Decoded> {
        let (set, index) = self.place(slot)?;
        let mut held = set.slots[index].block.write();
        if only.is_some_and(|id| !set.slots[index].has(id)) {
            return None;
        }
        set.slots[index].label.store(0, Ordering::Relaxed);
        set.names[index].store(0, Ordering::Relaxed);
        held.take()
    }

    fn place(&self, slot: usize) -> Option<(&SlotSet, usize)> {
        Some((self.set(slot / SLOTS_PER_SET)?, slot % SLOTS_PER_SET))
    }

    #[inline]
    fn set(&self, set: usize) -> Option<&SlotSet> {
        let (segment, index) = place_of(set);
        self.segments.get(segment)?.get()?.get(index)
    }

    fn segment(&self, segment: usize) -> &[SlotSet] {
        let sets = FIRST_SETS << segment;
        self.segments[segment].get_or_init(|| {
            let mut segment = vec_with_capacity(sets);
            segment.resize_with(sets, SlotSet::default);
            segment.into()
        })
    }

    /// Adds a set. While its blocks move there, readers may not find them.
    pub(super) fn grow(&self) {
        // Another thread is just adding one.
        let Some(_growing) = self.growing.try_lock() else {
            return;
        };
        let new = self.sets();
        let (segment, index) = place_of(new);
        if segment == SEGMENTS {
            return;
        }
        let to = &self.segment(segment)[index];
        let from = new - (1 << new.ilog2());
        let moves = |name: u64| name > 0 && set_of(hash(name), new + 1) == new;
        for slot in self.of_set(from) {
            let Some((set, index)) = self.place(slot) else {
                continue;
            };
            let mut held = set.slots[index].block.write();
            let label = set.slots[index].label.load(Ordering::Relaxed);
            if moves(label >> 1) {
                set.slots[index].label.store(0, Ordering::Relaxed);
                set.names[index].store(0, Ordering::Relaxed);
                // Nobody else knows the new set yet, so its slots are empty.
                *to.slots[index].block.write() = held.take();
                to.slots[index].label.store(label, Ordering::Relaxed);
                to.names[index].store(label >> 1, Ordering::Relaxed);
            }
        }
        self.sets.store(new + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_a_place_of_its_own() {
        let places: Vec<_> = (0..10_000).map(place_of).collect();
        assert!(places.is_sorted() && places.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(
            places
                .iter()
                .all(|&(segment, index)| index < FIRST_SETS << segment)
        );
        assert_eq!(
            (places[0], places[16], places[48]),
            ((0, 0), (1, 0), (2, 0))
        );
        // The number of the last slot fits into a hint.
        assert!(SLOTS_PER_SET * (FIRST_SETS << SEGMENTS) < u32::MAX as usize);
    }

    #[test]
    fn a_new_set_takes_blocks_from_one_other_set() {
        for sets in 16..1_000usize {
            let from = sets - (1 << sets.ilog2());
            for spread in (0..5_000).map(|number| hash(number + 1)) {
                let (before, after) = (set_of(spread, sets), set_of(spread, sets + 1));
                assert!(
                    before == after || (before, after) == (from, sets),
                    "{sets} sets"
                );
                assert!(after <= sets);
            }
        }
    }
}
