//! Rows that several owners share, in ordinary memory or in large pages.
#![allow(
    unsafe_code,
    reason = "`Arc` has no stable way to say where its memory is to be"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::{fmt, slice};

use super::large_pages;
use super::row::Row;

/// A list of rows with any number of owners, as `Arc<[R]>` is one. The last owner frees it.
pub(crate) struct SharedRows<R> {
    start: NonNull<Head>,
    len: usize,
    rows: PhantomData<R>,
}

/// What stands before the rows. With it, rows of both types are aligned.
#[repr(C, align(16))]
struct Head {
    owners: AtomicUsize,
    /// Whether the memory is a cell of a large page.
    in_large_page: bool,
}

// SAFETY: owners only read the rows, as with `Arc`. The count of owners is atomic.
unsafe impl<R: Row> Send for SharedRows<R> {}
// SAFETY: as above.
unsafe impl<R: Row> Sync for SharedRows<R> {}

impl<R: Row> SharedRows<R> {
    const ALIGNED: () = assert!(align_of::<R>() <= align_of::<Head>());

    /// The rows of both lists, one after the other. With `large`, they are put in large pages if there is room.
    pub(super) fn new(first: &[R], second: &[R], large: bool) -> Self {
        let () = Self::ALIGNED;
        let len = first.len() + second.len();
        let layout = Self::layout(len);
        let cell = large
            .then(|| large_pages::allocate(layout.size()))
            .flatten();
        // SAFETY: the layout has a size, that of the head at least.
        let memory = cell.or_else(|| NonNull::new(unsafe { alloc(layout) }));
        let Some(start) = memory.map(NonNull::cast::<Head>) else {
            handle_alloc_error(layout)
        };
        let rows = Self {
            start,
            len,
            rows: PhantomData,
        };
        // SAFETY: the memory has room for the head and for the rows of both lists behind it.
        unsafe {
            start.write(Head {
                owners: AtomicUsize::new(1),
                in_large_page: cell.is_some(),
            });
            let to = rows.first_row();
            to.copy_from_nonoverlapping(NonNull::from(first).cast(), first.len());
            to.add(first.len())
                .copy_from_nonoverlapping(NonNull::from(second).cast(), second.len());
        }
        rows
    }

    /// The memory that the rows take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = Self::layout(self.len).size();
        if self.head().in_large_page {
            large_pages::cell_bytes(bytes)
        } else {
            bytes
        }
    }
}

impl<R> SharedRows<R> {
    fn layout(len: usize) -> Layout {
        let rows = Layout::array::<R>(len).and_then(|rows| Layout::new::<Head>().extend(rows));
        rows.expect("a block is far smaller than the address space")
            .0
    }

    fn head(&self) -> &Head {
        // SAFETY: the head was written when the rows were made, and lives as long as an owner.
        unsafe { self.start.as_ref() }
    }

    fn first_row(&self) -> NonNull<R> {
        // SAFETY: the rows begin behind the head, in the same allocation.
        unsafe { self.start.add(1).cast() }
    }
}

impl<R> Deref for SharedRows<R> {
    type Target = [R];

    #[inline]
    fn deref(&self) -> &[R] {
        // SAFETY: all rows were written when they were made, and nobody changes them.
        unsafe { slice::from_raw_parts(self.first_row().as_ptr(), self.len) }
    }
}

impl<R> Clone for SharedRows<R> {
    fn clone(&self) -> Self {
        let owners = self.head().owners.fetch_add(1, Ordering::Relaxed);
        assert!(
            owners < usize::MAX / 2,
            "more owners than memory has room for"
        );
        Self { ..*self }
    }
}

impl<R> Drop for SharedRows<R> {
    fn drop(&mut self) {
        if self.head().owners.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        // What other owners have read comes before the memory is freed.
        fence(Ordering::Acquire);
        let (layout, in_large_page) = (Self::layout(self.len), self.head().in_large_page);
        // SAFETY: this was the last owner. The memory was allocated in this way with this layout.
        unsafe {
            match in_large_page {
                true => large_pages::free(self.start.cast(), layout.size()),
                false => dealloc(self.start.as_ptr().cast(), layout),
            }
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for SharedRows<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_live_as_long_as_an_owner() {
        for large in [false, true] {
            for (first, second) in [(0, 0), (1, 0), (0, 1), (700, 3), (5000, 1)] {
                let wide: Vec<u128> = (0..first).map(|it| it << 70).collect();
                let marks: Vec<u128> = (0..second).collect();
                let rows = SharedRows::new(&wide, &marks, large);
                let expected: Vec<u128> = wide.iter().chain(&marks).copied().collect();
                assert!(rows.memory_bytes() >= size_of_val(&*expected) + 16);
                let others: Vec<_> = (0..4).map(|_| rows.clone()).collect();
                drop(rows);
                std::thread::scope(|scope| {
                    for other in others {
                        scope.spawn(|| assert_eq!(*{ other }, expected));
                    }
                });
            }
        }
    }
}
