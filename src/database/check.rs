//! Checks of a database and of a snapshot: every invariant of the file, as one function.

use std::ops::ControlFlow;

use super::database::Database;
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::events::{Event, Operation, Watch};
use crate::store::{CheckReport, check_rows};

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
        let report = CheckReport::default();
        check_rows(self.stored()?, report, &mut progress)
    }
}
