//! What of a file is kept decoded in memory, within a limit: segments of rows, and blocks of documents.
//!
//! If the rows of all permuted tables do not fit, signatures of them take their place: where there is no room for more
//! rows, segments that come by are cut to signatures.
//!
//! Segments come first. They are given up as by the hand of a clock: those that were not used since it came by last.
//! If no room is left, what was not used for long makes room for what is read again and again. So the memory that
//! insertions have filled serves queries soon after, and a scan takes nothing from them. Documents get what segments
//! leave, and a sixteenth of the limit in any case.
//!
//! All of it is made from verified blocks and can be made again. So it is never written, and nothing is lost with it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sdd::{AtomicOwned, Guard, Owned, Tag};

use super::documents::DocumentBlock;
use super::entry::BlockId;
use super::row::Row;
use super::segment::{Kept, Segment, Signatures};
use crate::metrics::Tallies;
use crate::planted::planted;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The part of the limit that documents get in any case.
const DOCUMENTS_PART: u64 = 16;

/// A segment is made once this part of its blocks was read for want of it. By then that has taken about the time of
/// making it.
const PART_READ: usize = 4;
/// While the limit is reached, a segment is made once each of its blocks was read this number of times. Another one
/// goes for it that is in use, and most would go before they have paid for themselves. With 8, queries with a small
/// cache took a fourth more time.
const TIMES_READ_WHEN_FULL: usize = 64;
/// Each time so many blocks of a chunk were read as it has, the hand looks at this number of segments for those that
/// nobody has used meanwhile.
const LOOKED_AT: usize = 16;

/// The memory for the decoded rows and documents of an open file.
pub(crate) struct BlockCache {
    capacity: AtomicU64,
    /// The bytes of the segments.
    bytes: AtomicU64,
    /// Whether the rows of all permuted tables fit.
    rows_fit: AtomicBool,
    clock: Mutex<Clock>,
    documents: Cache<u64, Arc<DocumentBlock>, ByMemory>,
    /// What readers of the file count.
    pub(crate) tallies: Tallies,
}

/// Who has a segment, in the order in which the hand comes by.
#[derive(Default)]
struct Clock {
    residents: VecDeque<OnClock>,
    /// With so many, those are left out that are gone.
    most: usize,
    /// The steps of the hand so far.
    steps: u64,
}

struct OnClock {
    resident: Weak<dyn Resident>,
    /// The step with which the hand found it in use last.
    used_at: u64,
}

impl Clock {
    fn add(&mut self, resident: Weak<dyn Resident>) {
        const LEAST: usize = 64;
        if self.residents.len() >= self.most.max(LEAST) {
            self.residents
                .retain(|held| held.resident.strong_count() > 0);
            self.most = 2 * self.residents.len();
        }
        self.residents.push_back(OnClock {
            resident,
            used_at: self.steps,
        });
    }

    /// Goes one step. Whoever has not used its segment since the step `since` gives it up. With `cuts`, whole rows are
    /// cut to signatures instead. `None` if nobody has a segment, and otherwise whether memory was given up.
    fn step(&mut self, since: u64, cuts: bool) -> Option<bool> {
        let mut held = self.residents.pop_front()?;
        self.steps += 1;
        let Some(resident) = held.resident.upgrade() else {
            return Some(false);
        };
        if cuts && resident.cut() {
            self.residents.push_back(held);
            return Some(true);
        }
        if resident.take_use() {
            held.used_at = self.steps;
        }
        let gives_up = held.used_at < since;
        if gives_up {
            resident.give_up();
        } else {
            self.residents.push_back(held);
        }
        Some(gives_up)
    }
}

/// The weight of a block of documents is the memory that it takes.
#[derive(Clone)]
struct ByMemory;

impl Weighter<u64, Arc<DocumentBlock>> for ByMemory {
    fn weight(&self, _: &u64, block: &Arc<DocumentBlock>) -> u64 {
        block.memory_bytes() as u64 + 128
    }
}

/// Something that has a segment, or had one.
pub(crate) trait Resident: Send + Sync {
    /// Whether its segment was used since the last call.
    fn take_use(&self) -> bool;
    /// Keeps only the signatures of its rows, if it has more and signatures serve. Returns whether it did.
    fn cut(&self) -> bool;
    /// Gives the segment up.
    fn give_up(&self);
}

impl BlockCache {
    /// A cache of about `capacity` bytes. It takes memory as blocks are read.
    pub(crate) fn new(capacity: u64) -> Self {
        /// It has no more memory for items than there are.
        const ITEMS: usize = 1_000;
        Self {
            capacity: capacity.into(),
            bytes: 0.into(),
            rows_fit: true.into(),
            clock: Mutex::default(),
            documents: Cache::with_weighter(ITEMS, capacity, ByMemory),
            tallies: Tallies::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The bytes that all of it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.segment_bytes() + self.documents.weight()
    }

    fn segment_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The least capacity in which segments of so many bytes fit.
    pub(crate) fn capacity_for(segment_bytes: u64) -> u64 {
        segment_bytes + segment_bytes.div_ceil(DOCUMENTS_PART - 1)
    }

    /// The bytes that segments may take.
    fn segment_capacity(&self) -> u64 {
        let capacity = self.capacity();
        capacity - capacity / DOCUMENTS_PART
    }

    /// Whether the rows of all permuted tables fit.
    pub(crate) fn rows_fit(&self) -> bool {
        self.rows_fit.load(Ordering::Relaxed)
    }

    /// Says whether the rows of all permuted tables fit.
    pub(crate) fn set_rows_fit(&self, rows_fit: bool) {
        self.rows_fit.store(rows_fit, Ordering::Relaxed);
    }

    /// Whether so many bytes of segments fit beside the others.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.segment_bytes() + bytes <= self.segment_capacity()
    }

    /// Changes the number of bytes that it may take. What does not fit is given up.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.capacity.store(capacity, Ordering::Relaxed);
        self.evict();
    }

    /// The documents of a block, if they are there.
    pub(super) fn documents(&self, id: BlockId) -> Option<Arc<DocumentBlock>> {
        self.documents.get(&id.bits())
    }

    pub(super) fn insert_documents(&self, id: BlockId, block: &Arc<DocumentBlock>) {
        self.documents.insert(id.bits(), block.clone());
    }

    /// Forgets the documents of a block that only old snapshots can still ask for.
    pub(crate) fn forget(&self, id: BlockId) {
        self.documents.remove(&id.bits());
    }

    pub(crate) fn clear(&self) {
        let mut clock = self.clock.lock();
        for held in clock.residents.drain(..) {
            if let Some(resident) = held.resident.upgrade() {
                resident.give_up();
            }
        }
        drop(clock);
        self.documents.clear();
        free_at_once();
    }

    /// Gives segments up until all fit, and gives documents what is left.
    fn evict(&self) {
        // After two rounds, all that were there before are gone. One more may go for cutting them.
        let mut steps = 3 * self.clock.lock().residents.len();
        while self.segment_bytes() > self.segment_capacity() && steps > 0 {
            let mut clock = self.clock.lock();
            let mut has_given_up = false;
            // To cut them takes time, and others may wait for the clock.
            for _ in 0..LOOKED_AT.min(steps) {
                if self.segment_bytes() <= self.segment_capacity() {
                    break;
                }
                steps -= 1;
                let now = clock.steps + 1;
                let Some(gives_up) = clock.step(now, !self.rows_fit()) else {
                    steps = 0;
                    break;
                };
                has_given_up |= gives_up;
            }
            drop(clock);
            if has_given_up {
                free_at_once();
            }
        }
        let _clock = self.clock.lock();
        let capacity = self.capacity();
        let left = capacity.saturating_sub(self.segment_bytes());
        let left = left.max(capacity / DOCUMENTS_PART);
        if left.abs_diff(self.documents.capacity()) > capacity / 64 {
            self.documents.set_capacity(left);
        }
    }

    /// Cuts some segments to signatures, and looks whether so many bytes fit then.
    pub(super) fn cut_for(&self, bytes: u64) -> bool {
        self.find_idle(0, bytes, true).0
    }

    /// Looks whether segments that were not used since a step of the hand leave room for so many bytes, or with `cuts`
    /// those that are cut to signatures. Returns that, and the step of now.
    fn find_idle(&self, since: u64, bytes: u64, cuts: bool) -> (bool, u64) {
        let mut clock = self.clock.lock();
        let mut has_given_up = false;
        let mut has_room = false;
        for _ in 0..LOOKED_AT.min(clock.residents.len()) {
            has_given_up |= clock.step(since, cuts) == Some(true);
            has_room = self.has_room_for(bytes);
            if has_room {
                break;
            }
        }
        let now = clock.steps;
        drop(clock);
        if has_given_up {
            free_at_once();
        }
        (has_room, now)
    }
}

/// What is given up is freed once no search that began before goes on. This does it now, if there is none.
fn free_at_once() {
    /// What is given up in one epoch is freed three later.
    const EPOCHS: usize = 4;
    for _ in 0..EPOCHS {
        Guard::new().accelerate();
    }
}

/// The segment of a chunk, if it is in memory, and what decides whether it is to be. It fills a line of memory.
#[repr(align(64))]
pub(crate) struct Residence<R: 'static> {
    /// The whole rows.
    segment: AtomicOwned<Segment<R>>,
    /// Or their signatures.
    signatures: AtomicOwned<Signatures>,
    /// Whether one of them was used since the hand of the clock came by.
    is_used: AtomicBool,
    /// Whether signatures serve in the place of the rows.
    may_be_cut: AtomicBool,
    /// The number of blocks that were read for want of the segment.
    read: AtomicU32,
    /// The step of the hand when as many blocks had been read as the chunk has. 0 before that.
    looked_at: AtomicU64,
    /// The bytes of the segment that the cache counts, and the cache.
    bytes: AtomicU64,
    cache: OnceLock<Arc<BlockCache>>,
}

impl<R: 'static> fmt::Debug for Residence<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.load(Ordering::Relaxed);
        f.debug_struct("Residence").field("bytes", &bytes).finish()
    }
}

impl<R: Row> Residence<R> {
    pub(crate) fn new() -> Self {
        Self {
            segment: AtomicOwned::null(),
            signatures: AtomicOwned::null(),
            is_used: false.into(),
            may_be_cut: false.into(),
            read: 0.into(),
            looked_at: 0.into(),
            bytes: 0.into(),
            cache: OnceLock::new(),
        }
    }

    /// The segment of whole rows, if it is there.
    #[inline]
    pub(crate) fn segment<'g>(&self, guard: &'g Guard) -> Option<&'g Segment<R>> {
        let segment = self.segment.load(Ordering::Acquire, guard).as_ref()?;
        self.note_use();
        Some(segment)
    }

    /// The signatures of the rows, if they are there.
    #[inline]
    pub(crate) fn signatures<'g>(&self, guard: &'g Guard) -> Option<&'g Signatures> {
        let signatures = self.signatures.load(Ordering::Acquire, guard).as_ref()?;
        self.note_use();
        Some(signatures)
    }

    /// Whether the rows or their signatures are there.
    pub(crate) fn is_resident(&self) -> bool {
        !(self.segment.is_null(Ordering::Relaxed) && self.signatures.is_null(Ordering::Relaxed))
    }

    #[inline]
    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a block that is read for want of the segment. Returns whether the caller is to make the segment now, of
    /// so many blocks and about so many bytes. With `cuts`, others may be cut to signatures for it.
    pub(crate) fn count_read(
        &self,
        blocks: usize,
        bytes: u64,
        cuts: bool,
        cache: &BlockCache,
    ) -> bool {
        if bytes > cache.segment_capacity() {
            return false;
        }
        let read = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        let has_room = cache.has_room_for(bytes)
            || read.is_multiple_of(blocks as u32) && self.finds_idle(bytes, cuts, cache);
        let wanted = match has_room {
            true => blocks.div_ceil(PART_READ),
            false => blocks * TIMES_READ_WHEN_FULL,
        };
        let wanted = wanted as u32;
        // Of several threads one makes it. The others read blocks meanwhile.
        read >= wanted && self.read.swap(0, Ordering::Relaxed) >= wanted
    }

    /// Whether segments have made room that nobody has used while as many blocks were read as the chunk has. So a scan
    /// that comes again and again takes no segment that is used in between.
    #[cold]
    fn finds_idle(&self, bytes: u64, cuts: bool, cache: &BlockCache) -> bool {
        let since = self.looked_at.load(Ordering::Relaxed);
        let (has_room, now) = cache.find_idle(since, bytes, cuts);
        self.looked_at.store(now, Ordering::Relaxed);
        has_room
    }

    /// Keeps rows in memory, or their signatures. Others are given up if there is no room. `resident` has this
    /// residence.
    pub(crate) fn keep(
        &self,
        kept: Kept<R>,
        may_be_cut: bool,
        cache: &Arc<BlockCache>,
        resident: Weak<dyn Resident>,
    ) {
        let bytes = kept.memory_bytes();
        // The segment is counted before it is there. So no thread can subtract what was not added.
        let is_late = planted("a segment is counted after it is there");
        if !is_late {
            cache.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        _ = self.cache.set(cache.clone());
        self.may_be_cut.store(may_be_cut, Ordering::Relaxed);
        let before = {
            let mut clock = cache.clock.lock();
            let before = self.put(kept);
            let bytes_before = self.bytes.swap(bytes, Ordering::Relaxed);
            cache.bytes.fetch_sub(bytes_before, Ordering::Relaxed);
            if bytes_before == 0 {
                clock.add(resident);
            }
            before
        };
        drop(before);
        if is_late {
            cache.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.is_used.store(true, Ordering::Relaxed);
        cache.evict();
    }

    /// Puts rows or signatures in the place of what is there. Searches find the one or the other meanwhile.
    fn put(&self, kept: Kept<R>) -> (Option<Owned<Segment<R>>>, Option<Owned<Signatures>>) {
        match kept {
            Kept::Rows(segment) => {
                let segment = Some(Owned::new(segment));
                let before = self.segment.swap((segment, Tag::None), Ordering::AcqRel).0;
                (before, self.take_signatures())
            }
            Kept::Signatures(signatures) => {
                let signatures = Some(Owned::new(signatures));
                let before = self
                    .signatures
                    .swap((signatures, Tag::None), Ordering::AcqRel)
                    .0;
                (self.take_segment(), before)
            }
        }
    }

    /// Whether the segment was used since the last call.
    pub(crate) fn take_use(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Keeps only the signatures of the rows, if they may be cut and are there. Only the hand of the clock does this,
    /// so nobody keeps anything else meanwhile.
    pub(crate) fn cut(&self) -> bool {
        let guard = Guard::new();
        let segment = self.segment.load(Ordering::Acquire, &guard).as_ref();
        let Some(segment) = segment.filter(|_| self.may_be_cut.load(Ordering::Relaxed)) else {
            return false;
        };
        let Some(cache) = self.cache.get() else {
            return false;
        };
        let kept = Kept::Signatures(Signatures::new(segment.puts()));
        let bytes = kept.memory_bytes();
        cache.bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(self.put(kept));
        let bytes_before = self.bytes.swap(bytes, Ordering::Relaxed);
        cache.bytes.fetch_sub(bytes_before, Ordering::Relaxed);
        true
    }

    /// Gives the segment up.
    pub(crate) fn give_up(&self) {
        drop((self.take_segment(), self.take_signatures()));
        self.read.store(0, Ordering::Relaxed);
        self.looked_at.store(0, Ordering::Relaxed);
        if let Some(cache) = self.cache.get() {
            let bytes = self.bytes.swap(0, Ordering::Relaxed);
            cache.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl<R: 'static> Residence<R> {
    fn take_segment(&self) -> Option<Owned<Segment<R>>> {
        self.segment.swap((None, Tag::None), Ordering::AcqRel).0
    }

    fn take_signatures(&self) -> Option<Owned<Signatures>> {
        self.signatures.swap((None, Tag::None), Ordering::AcqRel).0
    }
}

impl<R: 'static> Drop for Residence<R> {
    fn drop(&mut self) {
        let Some(cache) = self.cache.get() else {
            return;
        };
        let bytes = self.bytes.load(Ordering::Relaxed);
        cache.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // Whoever drops the last level may not search for a long time, and would keep the memory meanwhile.
        let segment = self.take_segment();
        let signatures = self.take_signatures();
        if segment.is_some() || signatures.is_some() {
            drop((segment, signatures));
            free_at_once();
        }
    }
}
