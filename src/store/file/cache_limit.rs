//! CacheLimit: the memory that the cache of an open file may take now.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::memory::{Cache, Memory};
use crate::store::engine::page_cache_bytes;
use crate::sync::Mutex;

/// How often the memory that the process may have is looked at.
const EVERY: Duration = Duration::from_secs(2);

/// The memory that the cache of an open file may take. The limit follows the memory that the process may have.
#[derive(Debug)]
pub(crate) struct CacheLimit {
    memory: Memory,
    cache: Mutex<Cache>,
    bytes: AtomicUsize,
    /// When the memory was looked at last.
    looked: Mutex<Instant>,
    /// The bytes of the limit that the engine got for its pages when the file was opened.
    page_cache_bytes: usize,
}

impl CacheLimit {
    pub(crate) fn new(cache: Cache, memory: Memory) -> Self {
        let bytes = cache.bytes(memory.bytes());
        Self {
            memory,
            cache: Mutex::new(cache),
            bytes: bytes.into(),
            looked: Mutex::new(Instant::now()),
            page_cache_bytes: page_cache_bytes(bytes),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new(Cache::Bytes(1 << 20), Memory::default())
    }

    /// The bytes for directories, decoded blocks and pages together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The bytes for the pages of the engine.
    pub(crate) fn page_cache_bytes(&self) -> usize {
        self.page_cache_bytes
    }

    /// The bytes for directories and decoded blocks.
    pub(crate) fn own_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.page_cache_bytes)
    }

    /// The bytes for decoded blocks, beside directories of this size.
    pub(crate) fn block_bytes(&self, directory_bytes: usize) -> u64 {
        // Blocks always get an eighth. Without a cache, a block that is needed twice is read twice.
        self.own_bytes()
            .saturating_sub(directory_bytes)
            .max(self.own_bytes() / 8) as u64
    }

    pub(crate) fn set(&self, cache: Cache) {
        *self.cache.lock() = cache;
        self.look();
    }

    /// Looks at the memory again, if that was not done in the last two seconds. Returns whether the limit is
    /// another one now.
    pub(crate) fn look_now_and_then(&self) -> bool {
        let Some(mut looked) = self.looked.try_lock() else {
            return false;
        };
        if looked.elapsed() < EVERY {
            return false;
        }
        let changed = self.look();
        *looked = Instant::now();
        changed
    }

    fn look(&self) -> bool {
        let bytes = self.cache.lock().bytes(self.memory.bytes());
        self.bytes.swap(bytes, Ordering::Relaxed) != bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_limit_follows_the_memory_that_the_process_may_have() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let tell = |kibibytes: u64| {
            fs::create_dir_all(folder.path().join("proc")).expect("a directory is made");
            let text = format!("MemTotal: {kibibytes} kB\n");
            fs::write(folder.path().join("proc/meminfo"), text).expect("a file is written");
        };
        tell(1000 << 10);
        let limit = CacheLimit::new(Cache::Share(0.5), Memory::below(folder.path()));
        assert_eq!(
            (limit.bytes(), limit.page_cache_bytes()),
            (500 << 20, 64 << 20)
        );
        tell(100 << 10);
        assert!(!limit.look_now_and_then(), "it was looked at just now");
        let Some(long_ago) = limit.looked.lock().checked_sub(EVERY) else {
            return;
        };
        *limit.looked.lock() = long_ago;
        assert!(limit.look_now_and_then());
        assert_eq!((limit.bytes(), limit.own_bytes()), (50 << 20, 0));
        limit.set(Cache::Bytes(70 << 20));
        assert_eq!((limit.bytes(), limit.own_bytes()), (70 << 20, 6 << 20));
    }
}
