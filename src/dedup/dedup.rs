//! Dedup: the settings of a cleaning.

use std::path::{Path, PathBuf};

use super::events::{Removals, Reporter};
use crate::database::{Clustering, CreateOptions};
use crate::error::{Error, Result};
use crate::ingest::{ReadOptions, Records, Stop};
use crate::sketch::SketchSize;
use crate::text::{Scheme, Unit};

/// Cleans a corpus: copies the records of some inputs that are no near-duplicates of others.
#[derive(Clone, Debug)]
pub struct Dedup {
    pub(super) inputs: Vec<PathBuf>,
    pub(super) output: PathBuf,
    pub(super) options: ReadOptions,
    pub(super) clustering: Clustering,
    pub(super) database: Option<PathBuf>,
    pub(super) removed: Option<PathBuf>,
    pub(super) report: Option<(PathBuf, Reporter)>,
    pub(super) scheme: Option<Scheme>,
    pub(super) sketch_size: Option<SketchSize>,
    pub(super) again: bool,
    pub(super) drops_unjudged: bool,
    pub(super) stop: Stop,
}

impl Dedup {
    /// Cleaning of inputs, which are files or directories, with the defaults of the setters below.
    ///
    /// If there are several inputs and `output` is a directory, or one of the inputs is, each file gets a file of its
    /// name below `output`. Otherwise the records of all inputs get into the one file, in order.
    pub fn new(
        inputs: impl IntoIterator<Item = impl Into<PathBuf>>,
        output: impl Into<PathBuf>,
    ) -> Self {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            output: output.into(),
            options: ReadOptions::new(),
            clustering: Clustering::new(),
            database: None,
            removed: None,
            report: None,
            scheme: None,
            sketch_size: None,
            again: false,
            drops_unjudged: false,
            stop: Stop::default(),
        }
    }

    /// How inputs are read. Default: [`ReadOptions::new`]. Records cannot be cut into units here.
    #[must_use]
    pub fn options(mut self, options: ReadOptions) -> Self {
        self.options = options;
        self
    }

    /// Which records are near, and which of them survive. Default: [`Clustering::new`]. Of equal records the first one
    /// survives.
    #[must_use]
    pub fn clustering(mut self, clustering: Clustering) -> Self {
        self.clustering = clustering;
        self
    }

    /// A database of the records that survived in earlier cleanings. Default: none.
    ///
    /// What is near to one of its documents is removed. The records that survive are stored in it at the end, under
    /// their keys. A record without a key, or whose key another document has, gets another one: the path of the input
    /// and the line, or the key, `#` and a number. The database is created if it does not exist. It is in use during
    /// the cleaning.
    #[must_use]
    pub fn database(mut self, path: impl Into<PathBuf>) -> Self {
        self.database = Some(path.into());
        self
    }

    /// A file for the removed records: a line of JSON for each, in the order of the inputs, with its place and its key,
    /// those of its survivor, the distance and the similarity. Default: none.
    #[must_use]
    pub fn removed(mut self, path: impl Into<PathBuf>) -> Self {
        self.removed = Some(path.into());
        self
    }

    /// A file for a report, which `make` makes of the removed records at the end. It gets its name together with the
    /// output. Default: none.
    #[must_use]
    pub fn report(
        mut self,
        path: impl Into<PathBuf>,
        make: impl Fn(&Removals<'_>) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.report = Some((path.into(), Reporter::new(make)));
        self
    }

    /// How fingerprints are made from texts. Default: that of the database, or the one that suits the inputs.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// The size of the sketches. Default: that of the database, or of a new one.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = Some(size);
        self
    }

    /// Whether inputs are cleaned that were cleaned against the database before. Default: false, that is an error. All
    /// of their records would be near to what was stored of them.
    #[must_use]
    pub fn again(mut self, again: bool) -> Self {
        self.again = again;
        self
    }

    /// Whether records that cannot be judged are left out of the output, such as lines that are no JSON or have no
    /// text. Default: false, they are copied. Texts that are too short to judge are copied in any case.
    #[must_use]
    pub fn drop_unjudged(mut self, drop: bool) -> Self {
        self.drops_unjudged = drop;
        self
    }

    /// A function that is asked several times a second whether to end. Default: never.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Stop::when(stop);
        self
    }

    /// What was set and never changes in a database.
    pub(super) fn options_asked_for(&self) -> CreateOptions {
        let mut options = CreateOptions::new();
        if let Some(scheme) = self.scheme {
            options = options.scheme(scheme);
        }
        if let Some(size) = self.sketch_size {
            options = options.sketch_size(size);
        }
        options
    }

    /// The options of a new database for the records.
    pub(super) fn options_of_new(&self, unread: &mut Records) -> Result<CreateOptions> {
        let mut options = match self.scheme {
            Some(_) => self.options_asked_for(),
            None => self.options_asked_for().scheme(unread.suitable_scheme()?),
        };
        if let Some(max_distance) = self.clustering.wanted_distance() {
            options = options.max_distance(max_distance);
        }
        Ok(options)
    }

    /// How the records are read, named by their places. Fields are passed over if nothing depends on them.
    pub(super) fn reading(&self) -> ReadOptions {
        let mut options = self.options.clone().numbered();
        if self.database.is_some() {
            return options;
        }
        for field in self.clustering.fields_not_needed() {
            options = options.ignore_field(field);
        }
        if self.clustering.is_by_default() {
            options.odd_ranks_are_none()
        } else {
            options
        }
    }

    pub(super) fn ensure_whole_records(&self) -> Result<()> {
        match self.options.unit_of_records() {
            Unit::Document => Ok(()),
            _ => Err(Error::output(
                &self.output,
                "records are copied whole: units are for databases only",
            )),
        }
    }

    /// The files that the run makes.
    pub(super) fn results(&self) -> Vec<&Path> {
        let mut results = vec![self.output.as_path()];
        results.extend(self.removed.as_deref());
        results.extend(self.report_path());
        results
    }

    pub(super) fn report_path(&self) -> Option<&Path> {
        self.report.as_ref().map(|(path, _)| path.as_path())
    }
}
