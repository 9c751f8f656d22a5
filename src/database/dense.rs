//! Dense files: built at once from documents, or made from a database by compaction.

use std::ops::ControlFlow;
use std::path::Path;

use super::database::Database;
use super::options::CreateOptions;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::absolute_file;
use crate::store::build;

impl Database {
    /// Builds a database at `path`, where nothing may stand yet, from documents with different keys.
    ///
    /// This is much faster than inserting them. The file is as dense as after
    /// [`compact`](Self::compact). Afterwards either the whole database is there or nothing. On some file
    /// systems a crash may leave a temporary file, as with [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// * The first error that `documents` yields.
    /// * [`Error::KeyRepeated`] if two documents have the same key.
    /// * [`Error::KeyLength`] and the other errors of a document that cannot be stored, as for
    ///   [`WriteTxn::insert`](crate::WriteTxn::insert).
    /// * [`Error::TooManyDocuments`] and [`Error::TooManyScopes`], as for
    ///   [`WriteTxn::insert`](crate::WriteTxn::insert).
    /// * The errors of [`create`](Self::create).
    ///
    /// # Cost
    ///
    /// Rows are sorted in about `memory_bytes` of memory. At least 65,536 rows of each set are in memory,
    /// which is 6 MB with six tables. Merging them takes some 20 MB more, and the pages of the new file up
    /// to 64 MiB. Rows that do not fit go to files without a name in the same directory. There a document
    /// takes 32 bytes, 48 with a scope, and 8 more for each table of the plan. While these files are merged
    /// into longer ones, they may take up to twice that size. At the end the new file is read back and
    /// verified.
    pub fn build(
        path: impl AsRef<Path>,
        options: &CreateOptions,
        documents: impl IntoIterator<Item = Result<Document>>,
        memory_bytes: usize,
    ) -> Result<Self> {
        Self::build_with(path, options, documents, memory_bytes, |_, _| {
            ControlFlow::Continue(())
        })
    }

    /// Builds a database as [`build`](Self::build) does, and tells how far the work is that follows when all
    /// documents were read: rows are sorted and packed. `progress` is called with the number of rows packed so
    /// far, and the number of all rows. When it breaks, nothing is built.
    ///
    /// # Errors
    ///
    /// * [`Error::Interrupted`] if `progress` breaks.
    /// * Those of [`build`](Self::build).
    ///
    /// # Cost
    ///
    /// That of [`build`](Self::build).
    pub fn build_with(
        path: impl AsRef<Path>,
        options: &CreateOptions,
        documents: impl IntoIterator<Item = Result<Document>>,
        memory_bytes: usize,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let settings = options.settings()?;
        let path = path.as_ref();
        let path = absolute_file(path).map_err(Error::io(path))?;
        options.open.ensure_new_can_be_served(&path)?;
        let (_, sizes) = options.open.limits();
        let documents = documents.into_iter();
        build(
            &path,
            &settings,
            documents,
            memory_bytes,
            &sizes,
            &mut progress,
        )?;
        Self::open(path, &options.open)
    }

    /// Replaces the file by a dense copy: each sorted set in one level, full blocks, nothing deleted.
    ///
    /// The copy is made beside the file. It is read back and synced before it takes the name of the
    /// file. So a crash at any moment leaves either the old file or the copy. On some file systems it may
    /// also leave a temporary file, as with [`create`](Self::create). The copy has the owner, the group,
    /// the mode and the access list of the file from its first byte on.
    ///
    /// Nobody can write meanwhile. Snapshots can be taken, and older snapshots go on. `progress` is
    /// called now and then with the rows copied so far and the rows in all. When it breaks, the file stays as it
    /// was, and nothing is left of the copy.
    ///
    /// Others wait for their turn to write meanwhile, so `progress` should return soon.
    ///
    /// # Errors
    ///
    /// * [`Error::Interrupted`] if `progress` breaks.
    /// * [`Error::WouldDeadlock`] if this thread has a transaction open.
    /// * [`Error::ReadOnly`] if the database was opened read-only.
    /// * [`Error::OutcomeUnknown`] if an earlier commit or a merge could not be written.
    /// * [`Error::NoRoom`] if the disk may not have enough room. Nothing is done then.
    /// * [`Error::SeveralNames`] if the file has other names (hard links), under which the old file would go
    ///   on as another database.
    /// * [`Error::OwnerNotKept`] if the copy cannot be given to the owner and the group of the file.
    /// * [`Error::Damaged`], [`Error::Corrupted`], [`Error::Io`] and [`Error::Storage`], which leave the
    ///   file as it was. There is one exception: if only the directory cannot be synced in the end, that
    ///   is an [`Error::Io`] too. The copy has then replaced the file, but after a loss of power the old
    ///   file may be back, with the same documents. The next commit fails unless the directory can be synced.
    ///
    /// # Cost
    ///
    /// Reads the whole file, and writes and reads back its live documents and rows. The space of the old
    /// file is free when the last snapshot of it is gone.
    ///
    /// What queries had in memory of the old file is put in memory of the new one before this returns, while others
    /// read and write again. At a hundred million documents that takes some seconds.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()>) -> Result<()> {
        self.store.compact(None, &mut progress)
    }

    /// As [`compact`](Self::compact), with the permuted tables of another plan.
    ///
    /// `plan` is a name that [`CreateOptions::plans`] lists. Another plan is better for a database that
    /// has outgrown its expected number of documents, or is asked at another distance. Answers stay the
    /// same.
    ///
    /// # Errors
    ///
    /// * [`Error::UnknownPlan`] if no plan has this name.
    /// * The errors of [`compact`](Self::compact).
    ///
    /// # Cost
    ///
    /// That of compaction. On top, the rows of each new table are sorted in up to half of the cache.
    /// Rows that do not fit go to files without a name beside the database: 8 bytes a row, for one table
    /// at a time.
    pub fn compact_with_plan(
        &self,
        plan: &str,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<()> {
        self.store.compact(Some(plan.parse()?), &mut progress)
    }
}
