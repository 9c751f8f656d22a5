//! A storage that records what reaches it, and makes the files that a power cut could leave (tests only).
//!
//! The assumption about a disk: synced data is there. Each write since the last sync is lost, there, or
//! torn at a sector, independently of the others.

use std::io;
#[cfg(unix)]
use std::ops::Bound;
use std::sync::Arc;

#[cfg(unix)]
use redb::BackendError;
use redb::StorageBackend;
#[cfg(unix)]
use redb::backends::FileBackend;

use super::raw::Source;
use crate::files::disk::{DiskEvent, FileNumber, Journal};
#[cfg(unix)]
use crate::sync::Mutex;

/// Something that reached the storage, or that a test noted.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    SetLength(u64),
    Sync,
    /// The number of commits that may be there from now on, since the caller has begun them.
    Begun(usize),
    /// The number of commits that have been acknowledged to the caller.
    Acknowledged(usize),
}

/// A file in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image(Vec<u8>);

impl Image {
    /// A file with these bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Does to the file what an event says.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { offset, data } => self.write(*offset as usize, data),
            Event::SetLength(length) => self.0.resize(*length as usize, 0),
            Event::Sync | Event::Begun(_) | Event::Acknowledged(_) => {}
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        // The change of length before this write was lost.
        if self.0.len() < offset + data.len() {
            self.0.resize(offset + data.len(), 0);
        }
        self.0[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Does a part of a write: only the sectors before its middle, or only those after it.
    pub(crate) fn apply_torn(&mut self, event: &Event, first_half: bool) {
        const SECTOR: usize = 512;
        match event {
            Event::Write { offset, data } if data.len() > SECTOR => {
                let middle = (data.len() / 2).next_multiple_of(SECTOR).min(data.len());
                let part = if first_half {
                    0..middle
                } else {
                    middle..data.len()
                };
                self.write(*offset as usize + part.start, &data[part]);
            }
            // A single sector arrives or does not.
            _ if first_half => self.apply(event),
            _ => {}
        }
    }
}

/// A storage in memory that records what it is asked to do. Copies share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording(Arc<Mutex<(Image, Vec<Event>)>>);

impl Recording {
    /// A storage that holds a file.
    pub(crate) fn new(image: Image) -> Self {
        Self(Arc::new(Mutex::new((image, Vec::new()))))
    }

    /// The file as it is now.
    pub(crate) fn image(&self) -> Image {
        self.0.lock().0.clone()
    }

    /// Records an event of the caller.
    pub(crate) fn note(&self, event: Event) {
        self.0.lock().1.push(event);
    }

    /// What happened so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().1.clone()
    }

    /// Flips a bit of the file.
    pub(crate) fn flip(&self, offset: usize, bit: u8) {
        self.0.lock().0.0[offset] ^= bit;
    }

    fn happen(&self, event: Event) {
        let mut inner = self.0.lock();
        inner.0.apply(&event);
        inner.1.push(event);
    }
}

impl Source for Image {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl StorageBackend for Recording {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().0.0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.lock().0.read_at(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.happen(Event::SetLength(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.happen(Event::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.happen(Event::Write {
            offset,
            data: data.to_vec(),
        });
        Ok(())
    }
}

/// The storage of a file whose folder a test watches. What is done with it is noted in the journal of the folder, and
/// is not really synced.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Noted {
    storage: FileBackend,
    journal: Journal,
    file: FileNumber,
}

#[cfg(unix)]
impl Noted {
    pub(super) fn new(storage: FileBackend, journal: Journal, file: FileNumber) -> Self {
        Self {
            storage,
            journal,
            file,
        }
    }
}

#[cfg(unix)]
impl StorageBackend for Noted {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.storage.set_len(length)?;
        let file = self.file;
        self.journal.note(DiskEvent::SetLength { file, length });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.journal.note(DiskEvent::Sync(self.file));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.storage.write(offset, data)?;
        self.journal.note(DiskEvent::Write {
            file: self.file,
            offset,
            data: data.to_vec(),
        });
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}
