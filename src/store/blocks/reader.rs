//! Reading blocks: from the cache of verified, decoded blocks, or from the file.

use std::sync::Arc;

use redb::ReadOnlyTable;

use crate::error::{Error, Result};
use crate::store::blocks::cache::BlockCache;
use crate::store::blocks::documents::DocumentBlock;
use crate::store::blocks::envelope::Problem;
use crate::store::blocks::packed::{self as block, Lists, Row, digest};
use crate::store::engine::guard::guarded;
use crate::store::engine::tables::engine_error;
use crate::store::lookup::samples::Samples;
use crate::store::sorted_set::chunk::Entry;

/// A verified and decoded block.
#[derive(Clone, Debug)]
pub(crate) enum Decoded {
    Narrow(Sampled<u64>),
    Wide(Sampled<u128>),
    Documents(Arc<DocumentBlock>),
}

/// The rows of a block, and how those that are put are spread: what is read first of a block leads to the place in it.
#[derive(Clone, Debug)]
pub(crate) struct Sampled<R> {
    /// The rows that are put, then those that are marked.
    pub(crate) rows: Arc<[R]>,
    pub(crate) samples: Samples,
}

/// Rows of which decoded blocks are cached.
pub(crate) trait CachedRow: Row {
    fn wrap(block: Sampled<Self>) -> Decoded;
    fn unwrap(decoded: Decoded) -> Option<Sampled<Self>>;
    fn sampled(decoded: &Decoded) -> Option<&Sampled<Self>>;
}

impl CachedRow for u64 {
    fn wrap(block: Sampled<Self>) -> Decoded {
        Decoded::Narrow(block)
    }

    fn unwrap(decoded: Decoded) -> Option<Sampled<Self>> {
        match decoded {
            Decoded::Narrow(block) => Some(block),
            _ => None,
        }
    }

    fn sampled(decoded: &Decoded) -> Option<&Sampled<Self>> {
        match decoded {
            Decoded::Narrow(block) => Some(block),
            _ => None,
        }
    }
}

impl CachedRow for u128 {
    fn wrap(block: Sampled<Self>) -> Decoded {
        Decoded::Wide(block)
    }

    fn unwrap(decoded: Decoded) -> Option<Sampled<Self>> {
        match decoded {
            Decoded::Wide(block) => Some(block),
            _ => None,
        }
    }

    fn sampled(decoded: &Decoded) -> Option<&Sampled<Self>> {
        match decoded {
            Decoded::Wide(block) => Some(block),
            _ => None,
        }
    }
}

impl Decoded {
    pub(crate) fn memory_bytes(&self) -> u64 {
        /// What the reference counts, the vectors and the allocator take for a block.
        const OVERHEAD: usize = 96;
        let bytes = match self {
            Decoded::Narrow(block) => size_of_val::<[u64]>(&block.rows),
            Decoded::Wide(block) => size_of_val::<[u128]>(&block.rows),
            Decoded::Documents(block) => block.memory_bytes(),
        };
        (OVERHEAD + bytes) as u64
    }
}

/// The rows of a block.
#[derive(Debug)]
pub(crate) struct Block<R> {
    rows: Arc<[R]>,
    puts: usize,
}

impl<R> Block<R> {
    /// With the rows that its directory speaks of.
    fn new(rows: Arc<[R]>, entry: &Entry<R>) -> Self {
        Self { rows, puts: entry.puts.into() }
    }

    pub(crate) fn puts(&self) -> &[R] {
        &self.rows[..self.puts]
    }

    pub(crate) fn marks(&self) -> &[R] {
        &self.rows[self.puts..]
    }
}

/// The blocks of one commit.
pub(crate) struct Blocks {
    pub(crate) table: ReadOnlyTable<u64, &'static [u8]>,
    pub(crate) cache: Arc<BlockCache>,
}

impl Blocks {
    /// The rows of a block, kept in the cache.
    pub(crate) fn rows<R: CachedRow>(&self, set: &'static str, entry: &Entry<R>) -> Result<Block<R>> {
        if let Some(Sampled { rows, .. }) = self.cache.get(entry.id).and_then(R::unwrap) {
            return Ok(Block::new(rows, entry));
        }
        let block = self.rows_once(set, entry)?;
        let leads = block.puts().iter().map(|row| row.lead());
        let samples = Samples::new(leads, block.puts, entry.high.lead());
        self.cache.insert(entry.id, &entry.hint, R::wrap(Sampled { rows: block.rows.clone(), samples }));
        Ok(block)
    }

    /// The rows of a block, from the file.
    pub(crate) fn rows_once<R: CachedRow>(&self, set: &'static str, entry: &Entry<R>) -> Result<Block<R>> {
        let mut lists = Lists::default();
        self.read_rows(set, entry, &mut lists)?;
        lists.puts.append(&mut lists.marks);
        Ok(Block::new(lists.puts.into(), entry))
    }

    /// Adds the rows of a block that is not worth caching to others that come before them.
    pub(crate) fn append_rows<R: CachedRow>(
        &self,
        set: &'static str,
        entry: &Entry<R>,
        rows: &mut Lists<R>,
    ) -> Result<()> {
        match self.cache.peek(entry.id).and_then(R::unwrap) {
            Some(Sampled { rows: cached, .. }) => {
                let block = Block::new(cached, entry);
                rows.extend((block.puts(), block.marks()));
                Ok(())
            }
            None => self.read_rows(set, entry, rows),
        }
    }

    fn read_rows<R: Row>(&self, set: &'static str, entry: &Entry<R>, rows: &mut Lists<R>) -> Result<()> {
        self.read(set, entry, |bytes| {
            let before = (rows.puts.len(), rows.marks.len());
            block::decode(bytes, rows)?;
            let (puts, marks) = (&rows.puts[before.0..], &rows.marks[before.1..]);
            let counted = (puts.len(), marks.len()) == (entry.puts.into(), entry.marks.into());
            let ends = puts.last().max(marks.last()) == Some(&entry.high);
            if counted && ends { Ok(()) } else { Err("it is not the block its directory speaks of") }
        })
    }

    /// The documents of a block, kept in the cache.
    pub(crate) fn documents(&self, entry: &Entry<u64>) -> Result<Arc<DocumentBlock>> {
        if let Some(Decoded::Documents(block)) = self.cache.get(entry.id) {
            return Ok(block);
        }
        let block = self.documents_once(entry)?;
        self.cache.insert(entry.id, &entry.hint, Decoded::Documents(block.clone()));
        Ok(block)
    }

    /// The documents of a block that is not worth caching.
    pub(crate) fn documents_once(&self, entry: &Entry<u64>) -> Result<Arc<DocumentBlock>> {
        self.read("documents", entry, |bytes| {
            let block = DocumentBlock::decode(bytes)?;
            if block.len() == usize::from(entry.puts) && block.last() == Some(entry.high) {
                Ok(Arc::new(block))
            } else {
                Err("it is not the block its directory speaks of")
            }
        })
    }

    fn read<R: Row, T>(
        &self,
        set: &'static str,
        entry: &Entry<R>,
        decode: impl FnOnce(&[u8]) -> Result<T, Problem>,
    ) -> Result<T> {
        let damaged = |problem| Error::Damaged {
            table: set,
            key: format!("block {} up to {:x}", entry.id, entry.high),
            problem,
        };
        guarded(|| {
            let bytes = self.table.get(entry.id).map_err(engine_error)?;
            let bytes = bytes.ok_or_else(|| damaged("it is missing"))?;
            if digest(bytes.value()) != entry.digest {
                return Err(damaged("its checksum is not the one in the directory"));
            }
            decode(bytes.value()).map_err(damaged)
        })
    }
}
