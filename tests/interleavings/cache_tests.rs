//! The segments in memory, and the count of their bytes.

use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use crate::epochs::Guard;
use crate::store::blocks::cache::{BlockCache, Residence, Resident};
use crate::store::blocks::segment::{Kept, Segment, Signatures};
use crate::sync::thread;

pub(crate) fn all() -> Vec<(&'static str, usize, fn())> {
    vec![
        (
            "cache::the_bytes_are_those_of_the_segments_that_are_there",
            3_000,
            bytes_are_right,
        ),
        (
            "cache::the_bytes_are_right_while_segments_are_cut",
            3_000,
            bytes_are_right_while_cut,
        ),
        (
            "cache::what_is_dropped_beside_others_is_not_counted_any_more",
            3_000,
            dropped_beside_others,
        ),
    ]
}

/// The capacity for segments of so many bytes in all.
const ROOM: u64 = 300;

/// The parts for segments and for documents are whole numbers of bytes.
const ROUNDED: u64 = 3;

struct Chunk(Residence<u64>);

impl Chunk {
    fn new() -> Arc<Self> {
        Arc::new(Self(Residence::new()))
    }

    fn keep(self: &Arc<Self>, bytes: usize, cache: &Arc<BlockCache>) {
        let weak: Weak<Self> = Arc::downgrade(self);
        let rows = Kept::Rows(Segment(bytes, PhantomData));
        self.0.keep(rows, true, cache, weak);
    }

    /// The bytes of the segment or of the signatures that are there.
    fn bytes(&self) -> u64 {
        let guard = Guard::new();
        let bytes = match self.0.segment(&guard) {
            Some(segment) => segment.memory_bytes(),
            None => {
                let signatures = self.0.signatures(&guard);
                signatures.map_or(0, Signatures::memory_bytes)
            }
        };
        bytes as u64
    }
}

impl Resident for Chunk {
    fn take_use(&self) -> bool {
        self.0.take_use()
    }

    fn cut(&self) -> bool {
        self.0.cut()
    }

    fn give_up(&self) {
        self.0.give_up();
    }
}

/// The count has not gone below nothing.
fn assert_sane(cache: &BlockCache) {
    assert!(cache.bytes() < 1 << 40, "{} bytes", cache.bytes());
}

fn bytes_are_right() {
    keep_and_clear(true);
}

fn bytes_are_right_while_cut() {
    keep_and_clear(false);
}

fn keep_and_clear(rows_fit: bool) {
    let cache = Arc::new(BlockCache::new(BlockCache::capacity_for(ROOM)));
    cache.set_rows_fit(rows_fit);
    let chunks = [Chunk::new(), Chunk::new(), Chunk::new()];
    let mut threads = Vec::new();
    for number in 0..3usize {
        let (cache, chunks) = (cache.clone(), chunks.clone());
        threads.push(thread::spawn(move || {
            for round in 0..3 {
                let chunk = &chunks[(number + round) % 3];
                match (number + 2 * round) % 4 {
                    3 => cache.clear(),
                    2 => cache.set_capacity(BlockCache::capacity_for(ROOM - 10)),
                    _ => chunk.keep(100 + number, &cache),
                }
                _ = chunk.bytes();
                assert_sane(&cache);
            }
        }));
    }
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    let there: u64 = chunks.iter().map(|chunk| chunk.bytes()).sum();
    assert_eq!(cache.bytes(), there);
    assert!(there <= ROOM + ROUNDED, "{there} bytes are kept");
    // Nobody works any more, so now the limit is kept.
    cache.set_capacity(BlockCache::capacity_for(100));
    let there: u64 = chunks.iter().map(|chunk| chunk.bytes()).sum();
    assert!(there <= 100 + ROUNDED, "{there} bytes are kept");
    drop(chunks);
    assert_eq!(cache.bytes(), 0);
}

fn dropped_beside_others() {
    let cache = Arc::new(BlockCache::new(BlockCache::capacity_for(ROOM)));
    let mut threads = Vec::new();
    for number in 0..3 {
        let cache = cache.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                let chunk = Chunk::new();
                chunk.keep(150 + number, &cache);
                assert_sane(&cache);
                drop(chunk);
                assert_sane(&cache);
            }
        }));
    }
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(cache.bytes(), 0);
}
