//! Lists in large pages, for what is large and read at random.
//!
//! A processor keeps the places of some two thousand pages at hand. With pages of 4 KB that is the memory of
//! a few segments. For every other one it has to look up first where its page is. In pages of 2 MB, some gigabytes
//! are at hand.
//!
//! Linux gives large pages to programs that ask for them. A list is shorter than such a page, or ends within one. So
//! lists stand side by side in regions of 32 MB here, each in some neighbouring spans of 16 KB. A page in which no list
//! is left goes back to the system.
#![allow(
    unsafe_code,
    reason = "memory is allocated and freed by address, and the system is told about it"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;

use crate::process::PerProcess;
use crate::sync::Mutex;

/// The bytes of a large page. Other processors than those of PCs may have larger ones. There, the regions are of
/// little use, but do no harm.
const PAGE_BYTES: usize = 2 << 20;
const REGION_BYTES: usize = 32 << 20;
const SPAN_BYTES: usize = 16 << 10;
const SPANS: usize = REGION_BYTES / SPAN_BYTES;
const SPANS_PER_PAGE: usize = PAGE_BYTES / SPAN_BYTES;

/// A shorter list is an ordinary one.
const LEAST_BYTES: usize = 2 * SPAN_BYTES;

const REGION: Layout = match Layout::from_size_align(REGION_BYTES, PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a region has a size and an alignment"),
};

/// All regions by their address. A forked process begins without any, and leaves those alone that it inherits.
static REGIONS: PerProcess<Mutex<BTreeMap<usize, Region>>> = PerProcess::new(Mutex::default);

struct Region {
    memory: NonNull<u8>,
    is_taken: [bool; SPANS],
    /// The number of spans that are not taken.
    free: usize,
}

// SAFETY: the memory of a region is reached through its spans, and each span has one owner.
unsafe impl Send for Region {}

impl Region {
    fn new() -> Option<Self> {
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { alloc(REGION) })?;
        advise(memory, REGION_BYTES, Advice::LargePages);
        Some(Self {
            memory,
            is_taken: [false; SPANS],
            free: SPANS,
        })
    }

    /// Takes so many neighbouring spans. `None` if there are none.
    fn take(&mut self, spans: usize) -> Option<NonNull<u8>> {
        if self.free < spans {
            return None;
        }
        let mut free = 0;
        let end = self.is_taken.iter().position(|&is_taken| {
            free = if is_taken { 0 } else { free + 1 };
            free == spans
        })?;
        let first = end + 1 - spans;
        self.is_taken[first..=end].fill(true);
        self.free -= spans;
        // SAFETY: the span lies in the region.
        Some(unsafe { self.memory.add(first * SPAN_BYTES) })
    }

    /// Gives spans back, and pages that have no taken span any more.
    fn give_back(&mut self, spans: Range<usize>) {
        self.is_taken[spans.clone()].fill(false);
        self.free += spans.len();
        for page in spans.start / SPANS_PER_PAGE..spans.end.div_ceil(SPANS_PER_PAGE) {
            let of_page = page * SPANS_PER_PAGE..(page + 1) * SPANS_PER_PAGE;
            if !self.is_taken[of_page].contains(&true) {
                // SAFETY: the page lies in the region.
                let start = unsafe { self.memory.add(page * PAGE_BYTES) };
                advise(start, PAGE_BYTES, Advice::Unused);
            }
        }
    }
}

/// So many neighbouring spans. `None` without memory.
fn take_spans(spans: usize) -> Option<NonNull<u8>> {
    let mut regions = REGIONS.get().lock();
    for region in regions.values_mut() {
        if let Some(start) = region.take(spans) {
            return Some(start);
        }
    }
    let mut region = Region::new()?;
    let start = region.take(spans)?;
    regions.insert(region.memory.addr().get(), region);
    Some(start)
}

/// Gives back so many spans, which nobody uses any more.
fn give_back_spans(start: NonNull<u8>, spans: usize) {
    let mut regions = REGIONS.get().lock();
    let address = start.addr().get();
    // A forked process does not have the regions of lists that it inherits.
    let Some((&of, region)) = regions.range_mut(..=address).next_back() else {
        return;
    };
    if address >= of + REGION_BYTES {
        return;
    }
    let first = (address - of) / SPAN_BYTES;
    region.give_back(first..first + spans);
    if region.free == SPANS
        && let Some(region) = regions.remove(&of)
    {
        // SAFETY: it was allocated with this layout, and all its spans were given back.
        unsafe { dealloc(region.memory.as_ptr(), REGION) };
    }
}

/// A list that has room for a number of items from the beginning on. If it is long, it is in large pages. What a reader
/// needs stands first, so that it can share a line of memory with what stands before the list.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LargeList<T> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    /// Whether the memory is spans of a region. Otherwise it is that of a vector.
    is_long: bool,
}

// SAFETY: it owns its items, as a vector does.
unsafe impl<T: Send> Send for LargeList<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for LargeList<T> {}

impl<T: Copy> LargeList<T> {
    const ALIGNED: () = assert!(align_of::<T>() <= SPAN_BYTES && size_of::<T>() > 0);

    /// An empty list with room for so many items.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let () = Self::ALIGNED;
        let bytes = capacity * size_of::<T>();
        if Self::is_long(bytes)
            && let Some(start) = take_spans(bytes.div_ceil(SPAN_BYTES))
        {
            return Self {
                start: start.cast(),
                len: 0,
                capacity,
                is_long: true,
            };
        }
        let mut list = ManuallyDrop::new(Vec::<T>::with_capacity(capacity));
        Self {
            // Of all that it has room for: a pointer to what it has would be one to nothing.
            start: NonNull::from(list.spare_capacity_mut()).cast(),
            len: 0,
            capacity: list.capacity(),
            is_long: false,
        }
    }

    /// Adds items, for which there must be room.
    pub(crate) fn extend_from_slice(&mut self, items: &[T]) {
        assert!(items.len() <= self.capacity - self.len, "there is no room");
        // SAFETY: there is room behind the items, and nobody else has the memory.
        unsafe {
            let end = self.start.add(self.len);
            end.copy_from_nonoverlapping(NonNull::from(items).cast(), items.len());
        }
        self.len += items.len();
    }

    /// The memory that a list with room for so many items takes, in bytes.
    pub(crate) fn bytes_for(capacity: usize) -> usize {
        let bytes = capacity * size_of::<T>();
        if Self::is_long(bytes) {
            bytes.next_multiple_of(SPAN_BYTES)
        } else {
            bytes
        }
    }

    fn is_long(bytes: usize) -> bool {
        (LEAST_BYTES..=REGION_BYTES).contains(&bytes)
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.is_long {
            true => self.spans() * SPAN_BYTES,
            false => self.capacity * size_of::<T>(),
        }
    }
}

impl<T> LargeList<T> {
    fn spans(&self) -> usize {
        (self.capacity * size_of::<T>()).div_ceil(SPAN_BYTES)
    }
}

impl<T> Deref for LargeList<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: so many items were written, and nobody changes them while the list is borrowed.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for LargeList<T> {
    fn drop(&mut self) {
        if self.is_long {
            give_back_spans(self.start.cast(), self.spans());
        } else {
            // SAFETY: the memory is that of a vector with this capacity, and so many items were written.
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, self.capacity) });
        }
    }
}

#[derive(Clone, Copy)]
enum Advice {
    /// The memory is to be in large pages.
    LargePages,
    /// Nobody needs what is in the memory.
    Unused,
}

/// Gives the system an advice on whole large pages. It may follow it or not.
fn advise(start: NonNull<u8>, bytes: usize, advice: Advice) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{self, madvise};
        let advice = match advice {
            Advice::LargePages => mm::Advice::LinuxHugepage,
            Advice::Unused => mm::Advice::LinuxDontNeed,
        };
        // SAFETY: the pages belong to the caller, who does not need what an advice loses. It concerns nothing
        // else, since both ends are ends of pages.
        _ = unsafe { madvise(start.as_ptr().cast(), bytes, advice) };
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = (start, bytes, advice);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of many lengths, of which some are dropped while others are made, keep what was put into them. Under Miri,
    /// which goes through them a thousand times as slowly, they are few and short.
    #[test]
    fn lists_keep_their_items_whatever_comes_and_goes_beside_them() {
        let (each, longest) = match cfg!(miri) {
            true => (5, 8_000),
            false => (60, 300_000),
        };
        let length = |number: usize| match number % 7 {
            0 if !cfg!(miri) => REGION_BYTES / 8 + 1,
            1 => 0,
            _ => 1000 + number * 7919 % longest,
        };
        let fill = |number: usize| {
            let mut list = LargeList::with_capacity(length(number));
            let items: Vec<u64> = (0..length(number) as u64)
                .map(|i| i ^ number as u64)
                .collect();
            for part in items.chunks(5000) {
                list.extend_from_slice(part);
            }
            list
        };
        let mut lists: Vec<(usize, LargeList<u64>)> = Vec::new();
        for round in 0..4 {
            let numbers = round * each..(round + 1) * each;
            lists.extend(numbers.map(|number| (number, fill(number))));
            for (number, list) in &lists {
                assert_eq!(list.len(), length(*number));
                assert!(list.memory_bytes() >= size_of_val(&**list));
                assert!(list.memory_bytes() <= LargeList::<u64>::bytes_for(list.len()));
                let is_right = |(i, &item): (usize, &u64)| item == i as u64 ^ *number as u64;
                assert!(list.iter().enumerate().all(is_right), "list {number}");
            }
            lists.retain(|(number, _)| number % 3 == round % 3);
        }
    }

    #[test]
    fn spans_of_a_region_are_used_again() {
        let mut region = Region::new().expect("memory");
        let starts: Vec<_> = (0..SPANS / 4).map_while(|_| region.take(4)).collect();
        assert_eq!((starts.len(), region.free), (SPANS / 4, 0));
        assert!(region.take(1).is_none());
        region.give_back(40..48);
        assert!(region.take(9).is_none());
        assert_eq!(region.take(8), Some(starts[10]));
        region.give_back(0..SPANS);
        assert_eq!(region.take(SPANS), Some(region.memory));
        // SAFETY: it was allocated with this layout, and nobody uses it.
        unsafe { dealloc(region.memory.as_ptr(), REGION) };
    }
}
