//! Salvage: what a damaged file still has, in a new one.

use std::ops::ControlFlow;
use std::path::{self, Path};

use super::database::Database;
use super::options::CreateOptions;
use crate::error::{Error, Result};
use crate::store::{SalvageReport, Salvaging, salvage};

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
        // `progress` may change the directory of the process.
        let new = path::absolute(&new).map_err(Error::io(new.as_ref()))?;
        salvage(damaged.as_ref(), &new, &how, &mut progress)
    }
}
