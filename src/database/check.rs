//! Checks of a database and of a snapshot: every invariant of the file, as one function. And salvage: what a damaged
//! file still has.

use std::ops::ControlFlow;
use std::path::Path;

use super::database::Database;
use super::options::CreateOptions;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::files::absolute_file;
use crate::store::{CheckReport, Findings, SalvageReport, Salvaging, check_rows, salvage};

impl Database {
    /// Checks every invariant of the file.
    ///
    /// It checks the checksum of each page and value, that each document is found by its key and its
    /// fingerprint, and that nothing else is found. Damage is not an error. The report says what is
    /// wrong.
    ///
    /// If a checksum of a page is wrong, the storage engine goes back to the last commit that is whole.
    /// The report says that too. While the pages are checked, threads that want a snapshot, a
    /// transaction or a commit wait. The recent rows that are kept in memory are read anew from the file;
    /// [`Snapshot::check_with`] checks them as they are in memory.
    ///
    /// In a database that is open read-only, everything is checked but the checksums of the pages. See
    /// [`CheckReport::pages_verified`].
    ///
    /// # Errors
    ///
    /// * [`Error::InUse`](crate::Error::InUse) while a snapshot or transaction of this handle is open, unless the
    ///   database is open read-only, and within the progress of a compaction. [`Snapshot::check_with`] checks a
    ///   database that others use.
    /// * [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) if an earlier commit or a merge could not be written.
    /// * [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Reads the whole file twice: once for the checksums of the pages, on one core, and once for
    /// everything else, on all cores. A file with damage is read up to two more times, to say which rows
    /// are wrong.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(|_, _| ControlFlow::Continue(()))
    }

    /// As [`check`](Self::check), with progress.
    ///
    /// `progress` is called now and then, by any thread, with the parts of the file that are checked so
    /// far and the parts in all. It is not called while the pages are checked. If there is damage, the
    /// parts become more. When it breaks, the check ends.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) if `progress` breaks, and those of [`check`](Self::check).
    pub fn check_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send,
    ) -> Result<CheckReport> {
        self.store.ensure_usable()?;
        let watch = Watch::begin(Operation::Check, self.path());
        let (report, took) = watch.end(self.store.check(&mut progress))?;
        let documents = report.documents;
        let problems = report.total_problems;
        Event::Checked {
            documents,
            problems,
        }
        .report(took);
        Ok(report)
    }
}

impl Snapshot {
    /// Checks every invariant of a snapshot, beside everybody who writes and reads.
    ///
    /// It does what [`Database::check`] does with a database that is open read-only: everything is checked but the
    /// checksums of the pages, for which the storage engine needs the file for itself. Damage is not an error, and
    /// the report says what is wrong.
    ///
    /// `progress` is called as by [`Database::check_with`].
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) if `progress` breaks, and
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Reads the whole snapshot, on all cores.
    pub fn check_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send,
    ) -> Result<CheckReport> {
        check_rows(self.stored()?, Findings::default(), &mut progress)
    }
}

// Salvage: what a damaged file still has, in a new one.

/// How [`Database::salvage`] works.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::{Database, SalvageOptions};
/// # use simdb::{CreateOptions, Document, Fingerprint, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let [damaged, new] = ["damaged.simdb", "new.simdb"].map(|name| directory.path().join(name));
/// # let database = Database::create(&damaged, &CreateOptions::new().scheme(Scheme::External))?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
/// # database.close()?;
///
/// let options = SalvageOptions::new().old(true).memory_bytes(64 << 20);
/// let report = Database::salvage(&damaged, &new, &options, |_, _| ControlFlow::Continue(()))?;
/// assert_eq!((report.documents, report.old_documents), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SalvageOptions {
    settings: Option<CreateOptions>,
    old: bool,
    memory_bytes: usize,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self {
            settings: None,
            old: false,
            memory_bytes: 256 << 20,
        }
    }
}

impl SalvageOptions {
    /// The usual: documents of the last commit only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scheme, plan, max distance, size of sketches and least similarity of the new database, if the damaged file does
    /// not tell its own. Without them, such a file is refused.
    #[must_use]
    pub fn settings(mut self, settings: CreateOptions) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Whether documents are taken from blocks of earlier commits too, where those of the last commit are damaged or no
    /// commit can be found. They are what was stored, but may have been deleted or replaced since. Default: no.
    #[must_use]
    pub fn old(mut self, old: bool) -> Self {
        self.old = old;
        self
    }

    /// The memory to sort rows in, as for [`Database::build`]. Default: 256 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }
}

impl Database {
    /// Builds a database at `new`, where nothing may stand yet, of the documents that the file `damaged` still has.
    /// Says exactly what is missing.
    ///
    /// It is for files that cannot be opened, or in which [`check`](Self::check) finds damage. Nothing is written to
    /// the damaged file. Each document is verified by checksums before it is taken, and what was deleted or replaced is
    /// left out as far as that can be read; see [`SalvageReport`]. Documents keep their numbers, and the database its
    /// settings. A file without damage gives a whole copy.
    ///
    /// `progress` is called with how far a part of the work is and the whole of it: first bytes of the file, several
    /// times, then rows. When it breaks, nothing is built. Afterwards either the whole new database is there or
    /// nothing. On some file systems a crash may leave a temporary file, as with [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// * [`Error::AlreadyExists`] if there is something at `new`.
    /// * [`Error::Busy`] while the damaged database is open for writing.
    /// * [`Error::NotSalvaged`] if nothing in the file can be recognised, the settings have to be given, or nothing can
    ///   be taken but what may be old.
    /// * [`Error::FormatVersion`] and [`Error::UnknownFeatures`] if another release has to salvage it.
    /// * [`Error::Damaged`] if the disk gives other bytes each time.
    /// * [`Error::Interrupted`] if `progress` breaks.
    /// * The errors of [`build`](Self::build).
    ///
    /// # Cost
    ///
    /// Reads the whole file once, all documents and their directory twice, and the whole file up to five times more if
    /// they or the header are damaged. Takes some 150 bytes of memory for each block of documents, and for each
    /// document 40 bytes if deletions cannot be read or nothing vouches for the last commit. Then that of
    /// [`build`](Self::build).
    pub fn salvage(
        damaged: impl AsRef<Path>,
        new: impl AsRef<Path>,
        options: &SalvageOptions,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<SalvageReport> {
        let settings = options.settings.as_ref();
        let given = settings.map(CreateOptions::settings).transpose()?;
        let (_, sizes) = settings.unwrap_or(&CreateOptions::new()).open.limits();
        let how = Salvaging {
            settings: given,
            old: options.old,
            memory_bytes: options.memory_bytes,
            sizes,
        };
        let new = absolute_file(new.as_ref()).map_err(Error::io(new.as_ref()))?;
        salvage(damaged.as_ref(), &new, &how, &mut progress)
    }
}
