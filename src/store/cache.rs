//! The cache of verified, decoded blocks, by their number: set-associative, as the caches of processors are.
//!
//! A number leads to one *set* of a few places, and a block is in one of these or not in the cache. So a look-up reads two or three
//! lines of memory that lie together, whatever the size of the cache, where a hash table with a list of what was used last reads many
//! that do not; and threads meet only where they look for blocks of the same set. Numbers are never used again for another
//! block, so that what is cached is never stale.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::blocks::Decoded;

/// How many blocks a set has places for.
const WAYS: usize = 8;

/// There are twice as many places as blocks of this size, which is typical, fit into the cache: then hardly any set is full
/// before the cache is.
const TYPICAL_BYTES: u64 = 12_000;

pub(super) struct BlockCache {
    sets: Box<[RwLock<Set>]>,
    capacity: AtomicU64,
    /// How many bytes the blocks take.
    bytes: AtomicU64,
    /// The set that is looked through next for blocks to be evicted.
    hand: AtomicUsize,
}

/// The numbers of its blocks stand first, in the line that the lock is in.
#[derive(Default)]
#[repr(C)]
struct Set {
    /// For each place whether its block was asked for since the hand came by: a bit each.
    used: AtomicU8,
    /// One more than the number of the block, or 0.
    numbers: [u64; WAYS],
    blocks: [Option<Decoded>; WAYS],
}

impl BlockCache {
    /// A cache for about so many bytes.
    pub(super) fn new(capacity: u64) -> Self {
        let sets = (2 * capacity / TYPICAL_BYTES / WAYS as u64 + 1) as usize;
        Self {
            sets: (0..sets).map(|_| RwLock::default()).collect(),
            capacity: capacity.into(),
            bytes: 0.into(),
            hand: 0.into(),
        }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// How many bytes the blocks in it take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes how many bytes its blocks may take; the number of sets stays.
    pub(super) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.evict();
    }

    /// A block, if it is there, which is then kept for longer.
    pub(super) fn get(&self, number: u64) -> Option<Decoded> {
        let set = self.set(number).read();
        let place = set.place(number)?;
        // Written only where it changes something, so that threads can share the line.
        let bit = 1 << place;
        if set.used.load(Ordering::Relaxed) & bit == 0 {
            set.used.fetch_or(bit, Ordering::Relaxed);
        }
        set.blocks[place].clone()
    }

    /// A block, if it is there.
    pub(super) fn peek(&self, number: u64) -> Option<Decoded> {
        let set = self.set(number).read();
        set.blocks[set.place(number)?].clone()
    }

    /// Adds a block, for which others have to go if it would be too much.
    pub(super) fn insert(&self, number: u64, block: Decoded) {
        // Before it is there, so that nobody can count out what was not counted in.
        self.bytes.fetch_add(block.memory_bytes(), Ordering::Relaxed);
        let removed = {
            let mut set = self.set(number).write();
            let place = set.place(number).unwrap_or_else(|| set.place_for_another());
            *set.used.get_mut() |= 1 << place;
            set.numbers[place] = number + 1;
            set.blocks[place].replace(block)
        };
        self.let_go(removed);
        self.evict();
    }

    pub(super) fn clear(&self) {
        for set in &self.sets {
            let removed = std::mem::take(&mut *set.write());
            self.let_go(removed.blocks.into_iter().flatten());
        }
    }

    fn set(&self, number: u64) -> &RwLock<Set> {
        // Multiples of the golden ratio are spread evenly, also those of neighbouring numbers.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.sets[((u128::from(spread) * self.sets.len() as u128) >> 64) as usize]
    }

    /// Counts blocks out that have been removed.
    fn let_go(&self, removed: impl IntoIterator<Item = Decoded>) {
        let bytes = removed.into_iter().map(|block| block.memory_bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Goes through the sets, as the hand of a clock does, and removes what was not asked for since it came by last, until the
    /// blocks fit.
    fn evict(&self) {
        // Twice around nothing is left; another thread may have added more.
        let mut steps = 2 * self.sets.len();
        while self.bytes() > self.capacity() && steps > 0 {
            steps -= 1;
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len();
            let removed = self.sets[hand].write().remove_unused();
            self.let_go(removed.into_iter().flatten());
        }
    }
}

impl Set {
    fn place(&self, number: u64) -> Option<usize> {
        self.numbers.iter().position(|&it| it == number + 1)
    }

    /// An empty place; if there is none, that of a block not asked for lately.
    fn place_for_another(&mut self) -> usize {
        if let Some(place) = self.numbers.iter().position(|&it| it == 0) {
            return place;
        }
        let used = self.used.get_mut();
        if *used == u8::MAX {
            *used = 0;
        }
        used.trailing_ones() as usize
    }

    fn remove_unused(&mut self) -> [Option<Decoded>; WAYS] {
        let used = std::mem::take(self.used.get_mut());
        std::array::from_fn(|place| {
            let unused = used & (1 << place) == 0 && self.numbers[place] != 0;
            if unused {
                self.numbers[place] = 0;
            }
            self.blocks[place].take_if(|_| unused)
        })
    }
}
