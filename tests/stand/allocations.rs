//! The memory that is asked for at once: the allocator of the unit tests notes the largest piece.
//!
//! A number in a damaged file that is taken for a length shows here. What the engine reserves for the rows of a damaged
//! leaf does not: up to 4 GiB of addresses, none of which it touches before it gives up.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe, and this one only notes sizes"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;

/// The allocator of the system, which notes for each thread the largest piece that was asked for.
struct Noting;

#[global_allocator]
static NOTING: Noting = Noting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// So much is looked at more closely.
const MUCH: usize = 16 << 20;

fn note(bytes: usize) {
    LARGEST.with(|largest| {
        if bytes > largest.get() && (bytes < MUCH || !is_for_a_leaf()) {
            largest.set(bytes);
        }
    });
}

/// Whether it is the code for trees of the engine that asks.
fn is_for_a_leaf() -> bool {
    let callers = Backtrace::force_capture().to_string();
    let mut callers = callers.lines().filter(|line| {
        let is_here = line.contains("allocations::");
        !is_here && (line.contains("simdb::") || line.contains("redb::"))
    });
    let caller = callers.next();
    caller.is_some_and(|caller| caller.contains("redb::tree_store::btree"))
}

/// The bytes of the largest piece of memory that this thread asked for while it ran `operation`.
pub(crate) fn largest_of<T>(operation: impl FnOnce() -> T) -> (usize, T) {
    LARGEST.set(0);
    let outcome = operation();
    (LARGEST.get(), outcome)
}

// SAFETY: each call goes to the allocator of the system as it came. The cell has no drop and is made without memory.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[test]
fn the_largest_piece_is_noted() {
    let (bytes, list) = largest_of(|| [vec![1u8; 100_000], vec![2; 70_000]]);
    assert_eq!((bytes, list[1].len()), (100_000, 70_000));
}
