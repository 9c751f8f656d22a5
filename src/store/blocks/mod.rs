//! Stored blocks: packing, checksums, filters, and what is kept of them decoded in memory.

mod block_reader;
mod cache;
mod documents;
mod entry;
mod envelope;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../../tests/hostile/blocks.rs"]
pub(crate) mod hostile;
#[cfg(test)]
#[path = "../../../tests/stand/memory_blocks.rs"]
mod memory_blocks;
mod packed;
mod row;
mod segment;

pub(crate) use block_reader::{Blocks, SetBlocks};
pub(crate) use cache::{BlockCache, Residence, Resident};
pub(crate) use documents::{DocumentBlock, DocumentRef, extent_of, pack_documents};
pub(crate) use entry::{
    BlockId, Entry, Extent, Filter, LINE_BYTES, Line, MAX_BLOCK_LINES, decode_lines, encode_lines,
    lines_pass, scope_bit,
};
#[cfg(test)]
pub(crate) use envelope::worked_example;
pub(crate) use envelope::{
    Fields, FileSeed, HEADER_BYTES, Kind, Problem, decode, decode_short, encode, encode_short,
    seal, sealed_checksum, share_of_sum, unseal,
};
#[cfg(test)]
pub(crate) use memory_blocks::MemoryBlocks;
pub(crate) use packed::{MAX_ROWS, Packed, Packer, decode as decode_rows};
pub(crate) use row::{Lists, Row};
#[cfg(test)]
pub(crate) use segment::live::live_segments;
pub(crate) use segment::{Block, CutRows, Kept, ROWS_PER_PREFIX, Segment, Signatures, around};
