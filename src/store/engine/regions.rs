//! The storage of a new file, which makes its regions small.
//!
//! redb divides a file into regions. While a file is smaller than a region, it doubles. After that it grows
//! by whole regions. A region has 4 GiB, and redb has no option for another size. So a file would be up to
//! twice as long as what is in it, or 4 GiB longer. But the size of the regions stands in the header of the
//! file. It is fixed when the file is created, and redb then goes by it. So this storage changes it in the
//! header of a new file, before redb reads the header back.
//!
//! It also changes the first length of the file to a power of two, which it then has whenever it doubles. So
//! the new half is one free piece. With redb's length, which is one page more than a power of two, there are small
//! pieces at the end. redb takes these first, and a copy of 48 MB had a length of 67 MB. The length is a megabyte,
//! since redb syncs a file each time it becomes longer.

use std::fs::File;
use std::io;
use std::ops::{Bound, Range};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// The pages of a region: 256 MiB. Every commit stores the state of each region. With regions of 64 MiB, a
/// commit of one document took a quarter longer. With these it takes no longer than with one of 4 GiB.
const REGION_PAGES: u32 = 1 << 16;

/// The pages of a region as redb chooses them: 4 GiB.
const REDB_REGION_PAGES: u32 = 1 << 20;

/// Where the header of a file has the number of pages of a region.
const REGION_PAGES_BYTES: Range<usize> = 20..24;

/// The pages of a new file. The page of the header is not counted.
const FIRST_PAGES: u32 = 256;

/// The most pages that redb gives a new file: 257 before 4.6, 17 since.
const MOST_REDB_FIRST_PAGES: u32 = 257;

/// Where the header of a file has the number of pages in the last region.
const LAST_PAGES_BYTES: Range<usize> = 28..32;

/// The length of a file with this number of pages.
const fn length_of(pages: u32) -> u64 {
    (pages as u64 + 1) * 4096
}

/// The file of a new database.
#[derive(Debug)]
pub(super) struct NewStorage(FileBackend);

impl NewStorage {
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        FileBackend::new(file).map(Self)
    }
}

/// The header with small regions. `None` if this is not a header, or not one that redb has just made.
fn with_small_regions(offset: u64, data: &[u8]) -> Option<Vec<u8>> {
    let (pages, last_pages) = (data.get(REGION_PAGES_BYTES)?, data.get(LAST_PAGES_BYTES)?);
    if offset != 0 || pages != REDB_REGION_PAGES.to_le_bytes() {
        return None;
    }
    let mut changed = data.to_vec();
    changed[REGION_PAGES_BYTES].copy_from_slice(&REGION_PAGES.to_le_bytes());
    if u32::from_le_bytes(last_pages.try_into().ok()?) <= MOST_REDB_FIRST_PAGES {
        changed[LAST_PAGES_BYTES].copy_from_slice(&FIRST_PAGES.to_le_bytes());
    }
    Some(changed)
}

impl StorageBackend for NewStorage {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match with_small_regions(offset, data) {
            Some(changed) => self.0.write(offset, &changed),
            None => self.0.write(offset, data),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let is_new = len <= length_of(MOST_REDB_FIRST_PAGES) && self.0.len()? == 0;
        self.0
            .set_len(if is_new { length_of(FIRST_PAGES) } else { len })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use redb::TableDefinition;

    use super::*;

    /// A file of 276 MB in use had 539 MB, and every copy tool read all of them.
    #[test]
    fn a_new_file_has_small_regions_and_keeps_them() {
        let mut file = tempfile::tempfile().expect("a temporary file can be made");
        let storage =
            NewStorage::new(file.try_clone().expect("it can be cloned")).expect("a new file");
        let engine = redb::Database::builder()
            .create_with_backend(storage)
            .expect("a new database");
        let length = file.metadata().map(|it| it.len());
        assert_eq!(
            length.expect("it has a length"),
            length_of(FIRST_PAGES),
            "redb begins with another length"
        );
        let write = |engine: &redb::Database, key: u64| {
            let txn = engine.begin_write().expect("nobody writes");
            let value = vec![7; 1 << 20];
            let table = TableDefinition::<u64, &[u8]>::new("table");
            txn.open_table(table)
                .and_then(|mut it| Ok(it.insert(key, &value[..]).map(drop)?))
                .expect("there is room");
            txn.commit().expect("it can be committed");
        };
        write(&engine, 1);
        drop(engine);
        let storage = FileBackend::new(file.try_clone().expect("it can be cloned"));
        let storage = storage.expect("the file can be locked");
        let engine = redb::Database::builder().create_with_backend(storage);
        let engine = engine.expect("the file is a database");
        write(&engine, 2);
        drop(engine);
        let mut header = [0; 64];
        io::Seek::rewind(&mut file)
            .and_then(|()| file.read_exact(&mut header))
            .expect("it can be read");
        assert_eq!(header[REGION_PAGES_BYTES], REGION_PAGES.to_le_bytes());
    }
}
