//! Sizes of runs, blocks, chunks and merges.

/// The bytes of a page of the engine.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The sizes of runs, blocks, chunks and merges. A file can be opened with other sizes. Tests make
/// everything tiny.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The operations whose rows are kept in memory before they are merged into levels.
    pub(crate) recent_operations: usize,
    /// Runs of recent rows that have together no more rows than this are merged by whoever adds one. Longer ones
    /// are left to the merging thread.
    pub(crate) short_rows: usize,
    /// The most bytes of a block of rows. With the longest key, 8,167 bytes fill two pages of the engine
    /// exactly. Larger blocks do not make merging faster, and reading one row of them costs more.
    pub(crate) block_bytes: usize,
    /// The most bytes of a block of documents, unless one document alone takes more. With the key,
    /// 4,079 bytes fill a page.
    pub(crate) document_block_bytes: usize,
    /// The most entries of a chunk of a directory, if they fit into a page.
    pub(crate) chunk_entries: usize,
    /// The blocks of a level that a step of a merge reads.
    pub(crate) step_blocks: usize,
    /// The most rows of a part of a table that is compared with another. A core has two such parts in memory.
    pub(crate) part_rows: u64,
    /// The near fingerprints that are compared in the time of a query.
    pub(crate) compared_per_query: usize,
    /// The bytes of documents that a transaction keeps in memory.
    pub(crate) spill_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            recent_operations: 250_000,
            short_rows: 1 << 12,
            block_bytes: 2 * PAGE_BYTES - 25,
            document_block_bytes: PAGE_BYTES - 17,
            chunk_entries: 256,
            step_blocks: 128,
            part_rows: 1 << 18,
            compared_per_query: 1 << 16,
            spill_bytes: 64 << 20,
        }
    }
}
