//! Memory in large pages, for what is large and read at random.
//!
//! A processor keeps the places of some two thousand pages at hand. With pages of 4 KB that is the memory of
//! some thousand blocks. For every other block it has to look up first where its page is. In pages of 2 MB, a
//! cache of some gigabytes is at hand. Queries of ten million documents take an eighth less time so.
//!
//! Linux gives large pages to programs that ask for them. The small allocations of a program are spread over
//! pages that other things share. So cells of blocks are cut from chunks here, each of one large page. A chunk has
//! cells of one size, and goes back to the system when its last cell is free.
#![allow(
    unsafe_code,
    reason = "memory is allocated and freed by address, and the system is told about it"
)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::process::PerProcess;

/// The bytes of a large page. Other processors than those of PCs may have larger ones. There, the chunks are of
/// no use, but do no harm.
const PAGE_BYTES: usize = 2 << 20;

/// The sizes of cells are multiples of this up to [`FINE_BYTES`], and of four times this from there on.
const STEP_BYTES: usize = 256;
const FINE_BYTES: usize = 8 << 10;
const MOST_CELL_BYTES: usize = 32 << 10;
const CLASSES: usize = FINE_BYTES / STEP_BYTES + (MOST_CELL_BYTES - FINE_BYTES) / (4 * STEP_BYTES);

/// No chunk is added while more than this part of all chunks is free, and more than these bytes.
const FREE_PART: usize = 8;
const FREE_BYTES: usize = 64 << 20;

/// A chunk is added when the cells of this part of it were asked for in vain. The system takes long to clear a
/// large page. That is not worth it for a size that few blocks have.
const MISSED_PART: usize = 16;

/// All chunks. A forked process begins without any, and leaves those alone that it inherits.
static CHUNKS: PerProcess<Chunks> = PerProcess::new(|| Chunks {
    classes: std::array::from_fn(|_| Mutex::default()),
    bytes: AtomicUsize::new(0),
    unused_bytes: AtomicUsize::new(0),
});

struct Chunks {
    /// The chunks of each size of cells.
    classes: [Mutex<Class>; CLASSES],
    /// The bytes of all chunks, and of their free cells.
    bytes: AtomicUsize,
    unused_bytes: AtomicUsize,
}

/// The chunks with cells of one size.
#[derive(Default)]
struct Class {
    /// By their address, divided by the bytes of a chunk.
    chunks: HashMap<usize, Chunk>,
    /// The chunks that have a free cell.
    open: Vec<usize>,
    /// How often a cell was asked for in vain, since the last chunk was added.
    missed: usize,
}

struct Chunk {
    memory: NonNull<u8>,
    /// The cells from this index on were never given out.
    fresh: usize,
    /// The indexes of the cells that were given back.
    free: Vec<u16>,
}

// SAFETY: the memory of a chunk is reached through its cells, and each cell has one owner.
unsafe impl Send for Chunk {}

/// The size of the cells for so many bytes, as an index and in bytes. `None` if there are no such cells.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let fine = FINE_BYTES / STEP_BYTES;
    if bytes == 0 || bytes > MOST_CELL_BYTES {
        None
    } else if bytes <= FINE_BYTES {
        let steps = bytes.div_ceil(STEP_BYTES);
        Some((steps - 1, steps * STEP_BYTES))
    } else {
        let steps = (bytes - FINE_BYTES).div_ceil(4 * STEP_BYTES);
        Some((fine + steps - 1, FINE_BYTES + steps * 4 * STEP_BYTES))
    }
}

/// The bytes that a cell for so many bytes takes.
pub(super) fn cell_bytes(bytes: usize) -> usize {
    class_of(bytes).map_or(bytes, |(_, cell)| cell)
}

/// A cell of at least so many bytes, aligned to 256 bytes. `None` if there are no cells of this size, if few
/// were asked for, if too many of other sizes are free, or without memory. Then ordinary memory has to do.
pub(super) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let (class, cell) = class_of(bytes)?;
    let chunks = CHUNKS.get();
    let mut class = chunks.classes[class].lock();
    let open = match class.open.last() {
        Some(&open) => open,
        None => class.add_chunk(cell, chunks)?,
    };
    let chunk = class.chunks.get_mut(&open)?;
    let (memory, index, has_room) = (chunk.memory, chunk.take(), chunk.has_room(cell));
    if !has_room {
        class.open.pop();
    }
    chunks.unused_bytes.fetch_sub(cell, Ordering::Relaxed);
    // SAFETY: the index is one of the cells, all of which lie in the chunk.
    Some(unsafe { memory.add(index * cell) })
}

/// Gives a cell back.
///
/// # Safety
///
/// The cell is one that [`allocate`] gave for so many bytes, and nobody uses it any more.
pub(super) unsafe fn free(address: NonNull<u8>, bytes: usize) {
    let Some((class, cell)) = class_of(bytes) else {
        return;
    };
    let chunks = CHUNKS.get();
    let mut class = chunks.classes[class].lock();
    let of = address.addr().get() / PAGE_BYTES;
    // A forked process does not have the chunks of cells that it inherits.
    let Some(chunk) = class.chunks.get_mut(&of) else {
        return;
    };
    let was_full = !chunk.has_room(cell);
    chunk
        .free
        .push((address.addr().get() % PAGE_BYTES / cell) as u16);
    let is_empty = chunk.free.len() == chunk.fresh;
    chunks.unused_bytes.fetch_add(cell, Ordering::Relaxed);
    if was_full {
        class.open.push(of);
    }
    if is_empty {
        class.remove_chunk(of, cell, chunks);
    }
}

impl Class {
    /// Adds a chunk, and returns its name.
    fn add_chunk(&mut self, cell: usize, of: &Chunks) -> Option<usize> {
        self.missed += 1;
        let (all, unused) = (
            of.bytes.load(Ordering::Relaxed),
            of.unused_bytes.load(Ordering::Relaxed),
        );
        let too_many_free = unused > FREE_BYTES && unused > all / FREE_PART;
        if self.missed * MISSED_PART < cells(cell) || too_many_free {
            return None;
        }
        self.missed = 0;
        // SAFETY: the layout has a size.
        let memory = NonNull::new(unsafe { alloc(CHUNK) })?;
        advise(memory, PAGE_BYTES);
        let name = memory.addr().get() / PAGE_BYTES;
        self.chunks.insert(
            name,
            Chunk {
                memory,
                fresh: 0,
                free: Vec::new(),
            },
        );
        self.open.push(name);
        of.bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        of.unused_bytes
            .fetch_add(cells(cell) * cell, Ordering::Relaxed);
        Some(name)
    }

    fn remove_chunk(&mut self, name: usize, cell: usize, of: &Chunks) {
        self.open.retain(|&open| open != name);
        if let Some(chunk) = self.chunks.remove(&name) {
            of.bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
            of.unused_bytes
                .fetch_sub(cells(cell) * cell, Ordering::Relaxed);
            // SAFETY: it was allocated with this layout, and all its cells were given back.
            unsafe { dealloc(chunk.memory.as_ptr(), CHUNK) };
        }
    }
}

impl Chunk {
    fn has_room(&self, cell: usize) -> bool {
        !self.free.is_empty() || self.fresh < cells(cell)
    }

    /// Takes a free cell, and returns its index. The chunk must have room.
    fn take(&mut self) -> usize {
        self.free.pop().map_or_else(
            || {
                self.fresh += 1;
                self.fresh - 1
            },
            usize::from,
        )
    }
}

/// The number of cells in a chunk.
fn cells(cell: usize) -> usize {
    PAGE_BYTES / cell
}

/// A chunk is one large page.
const CHUNK: Layout = match Layout::from_size_align(PAGE_BYTES, PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a page has a size and an alignment"),
};

/// A vector with room for so many items. If it is large, it is in large pages.
pub(crate) fn vec_with_capacity<T>(capacity: usize) -> Vec<T> {
    let mut items: Vec<T> = Vec::with_capacity(capacity);
    let room = items.spare_capacity_mut();
    let (start, bytes) = (NonNull::from(&mut *room).cast::<u8>(), size_of_val(room));
    let aside = start.addr().get().next_multiple_of(PAGE_BYTES) - start.addr().get();
    let whole = bytes.saturating_sub(aside) / PAGE_BYTES * PAGE_BYTES;
    if whole > 0 {
        // SAFETY: what is set aside is shorter than the room.
        advise(unsafe { start.add(aside) }, whole);
    }
    items
}

/// Asks the system to put memory in large pages. It may do so or not.
fn advise(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the pages belong to the caller, and the advice does not change what is in them. It concerns
        // nothing else, since both ends are ends of pages.
        _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_bytes_has_cells_with_little_to_spare() {
        let mut before = 0;
        for bytes in 1..=MOST_CELL_BYTES {
            let (class, cell) = class_of(bytes).expect("a class");
            assert!(
                class < CLASSES && (class == before || class == before + 1),
                "{bytes}"
            );
            assert!(
                cell >= bytes && cell - bytes < STEP_BYTES.max(bytes / 8),
                "{bytes}: {cell}"
            );
            assert!(cell.is_multiple_of(STEP_BYTES) && cells(cell) <= usize::from(u16::MAX));
            before = class;
        }
        assert_eq!(before, CLASSES - 1);
        assert!(class_of(0).is_none() && class_of(MOST_CELL_BYTES + 1).is_none());
    }

    /// Other tests use the chunks too. So this one has a size of its own.
    #[test]
    fn cells_are_apart_and_chunks_go_back() {
        const BYTES: usize = 31 << 10;
        let (class, cell) = class_of(BYTES).expect("a class");
        let mut held: Vec<NonNull<u8>> = Vec::new();
        for round in 0..4 {
            let before = held.len();
            held.extend((0..500).filter_map(|_| allocate(BYTES)));
            // There are 64 cells in a chunk, and some are missed before each.
            assert!((450..500).contains(&(held.len() - before)));
            held.sort_unstable();
            assert!(
                held.windows(2)
                    .all(|pair| pair[1].addr().get() - pair[0].addr().get() >= cell)
            );
            for (index, &memory) in held.iter().enumerate() {
                // SAFETY: the cell has at least these bytes.
                unsafe { memory.write_bytes(index as u8, BYTES) };
            }
            let keep = |index: usize| round < 3 && index % 3 == round;
            for (index, &memory) in held.iter().enumerate() {
                // SAFETY: as above; a cell that is not kept is not used any more.
                unsafe {
                    assert_eq!(
                        (memory.read(), memory.add(BYTES - 1).read()),
                        (index as u8, index as u8)
                    );
                    if !keep(index) {
                        free(memory, BYTES);
                    }
                }
            }
            held = (0..)
                .zip(held)
                .filter(|(index, _)| keep(*index))
                .map(|(_, memory)| memory)
                .collect();
        }
        let class = CHUNKS.get().classes[class].lock();
        assert!(class.chunks.is_empty() && class.open.is_empty());
    }

    #[test]
    fn a_large_vector_is_a_vector() {
        for capacity in [
            0,
            1,
            1000,
            PAGE_BYTES / 8,
            3 * PAGE_BYTES / 8 + 1,
            PAGE_BYTES,
        ] {
            let mut items: Vec<u64> = vec_with_capacity(capacity);
            assert!(items.capacity() >= capacity);
            items.extend(0..capacity as u64);
            assert!((0..capacity as u64).eq(items));
        }
    }
}
