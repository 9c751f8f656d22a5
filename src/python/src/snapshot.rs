//! Snapshot: what was committed at one moment, and what is found in it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use simdb::{ClusterEvent, Found, PairEvent, Query};

use crate::columns::contents;
use crate::content::Content;
use crate::convert::key_bytes;
use crate::documents::{Cluster, Document, Matches, Pair};
use crate::errors::{Home, closed, lock};
use crate::fingerprinter::judge_all;
use crate::overlap::overlap;
use crate::question::Named;
use crate::signals::{Stop, detached, look, stoppable};

/// What was committed at one moment. Any thread may use it.
#[pyclass(module = "simdb", frozen)]
pub(crate) struct Snapshot {
    /// `None` once it is closed. It is locked with the interpreter only, and only for a moment.
    snapshot: Mutex<Option<simdb::Snapshot>>,
    fingerprinter: simdb::Result<simdb::Fingerprinter>,
}

impl Snapshot {
    pub(crate) fn new(
        snapshot: simdb::Snapshot,
        fingerprinter: simdb::Result<simdb::Fingerprinter>,
    ) -> Self {
        Self {
            snapshot: Mutex::new(Some(snapshot)),
            fingerprinter,
        }
    }

    fn here(&self, py: Python<'_>) -> PyResult<simdb::Snapshot> {
        let snapshot = lock(&self.snapshot).clone();
        snapshot.ok_or_else(|| closed(py, "snapshot"))
    }
}

#[pymethods]
impl Snapshot {
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) {
        _ = (kind, error, trace);
        self.close(py);
    }

    /// Lets go of what was committed then. Iterators that it gave go on. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        let snapshot = lock(&self.snapshot).take();
        py.detach(|| drop(snapshot));
    }

    /// The document of a key, or None.
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Document>> {
        let snapshot = self.here(py)?;
        let key = key_bytes(key)?;
        Ok(detached(py, || snapshot.get(key))?.map(Document::of))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(py, key)?.is_some())
    }

    /// The number of documents.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let snapshot = self.here(py)?;
        Ok(detached(py, || snapshot.stats())?.documents as usize)
    }

    /// A snapshot is there, also of an empty database.
    fn __bool__(&self) -> bool {
        true
    }

    /// All documents, in the order in which they were written. One block of them is in memory at a time.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Documents> {
        let documents = self.here(py)?.documents();
        Ok(Documents(Mutex::new(documents), Home::here()))
    }

    /// As Database.query.
    #[pyo3(signature = (text=None, **named))]
    #[pyo3(
        text_signature = "($self, text=None, *, html=None, fingerprint=None, features=None, max_distance=None, \
                             min_similarity=None, since=None, scopes=None, limit=10, nearest=None)"
    )]
    fn query<'py>(
        &self,
        py: Python<'py>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Matches> {
        let snapshot = self.here(py)?;
        let named = Named::new(py, named)?;
        let content = Content::take(text, &named)?;
        let asked = named.take_query()?;
        named.end("query")?;
        content.matches(py, &self.fingerprinter, |query| {
            snapshot.query(&asked(query))
        })
    }

    /// As Database.overlap.
    #[pyo3(signature = (text=None, **named))]
    #[pyo3(
        text_signature = "($self, text=None, *, html=None, unit='sentence', without=None, max_distance=None, \
                             min_similarity=None, since=None, scopes=None, limit=10)"
    )]
    fn overlap<'py>(
        &self,
        py: Python<'py>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let snapshot = self.here(py)?;
        overlap(py, text, named, || Ok(snapshot))
    }

    /// Answers many questions at once, on all cores: of texts, of fingerprints, or of a column of either. Ctrl-C stops
    /// it.
    #[pyo3(signature = (questions, **named))]
    #[pyo3(
        text_signature = "($self, questions, *, max_distance=None, min_similarity=None, since=None, scopes=None, \
                             limit=10, nearest=None)"
    )]
    fn query_many<'py>(
        &self,
        py: Python<'py>,
        questions: &Bound<'py, PyAny>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Matches>> {
        let snapshot = self.here(py)?;
        let named = Named::new(py, named)?;
        let asked = named.take_query()?;
        named.end("query_many")?;
        let contents = contents(questions)?;
        stoppable(py, |stop| {
            let judged = judge_all(&contents, &self.fingerprinter, stop)?;
            let mut queries = Vec::with_capacity(judged.len());
            for (fingerprint, sketch) in judged.iter().flatten() {
                queries.push(asked(Query::new(*fingerprint).with_sketch(*sketch)));
            }
            let mut answers = answers_in_parts(&snapshot, &queries, stop)?.into_iter();
            let mut all = Vec::with_capacity(judged.len());
            for judged in judged {
                all.push(Matches::of(match judged {
                    Some(_) => answers.next().expect("each query is answered"),
                    None => simdb::Matches::default(),
                }));
            }
            Ok(all)
        })
    }

    /// All pairs that are near, each once. Without limits they are those of the database. With `other`, those of one
    /// document here and one there. To stop early, let the iterator go.
    #[pyo3(signature = (max_distance=None, **named))]
    #[pyo3(
        text_signature = "($self, max_distance=None, *, min_similarity=None, since=None, scopes=None, other=None)"
    )]
    pub(crate) fn pairs<'py>(
        &self,
        py: Python<'py>,
        max_distance: Option<u32>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Pairs> {
        let snapshot = self.here(py)?;
        let named = Named::new(py, named)?;
        named.put("max_distance", max_distance)?;
        let other = named.take("other")?;
        let mut pairs = snapshot.pairs(named.take_near()?).each_document(true);
        named.end("pairs")?;
        if let Some(other) = other {
            pairs = pairs.with(&other.cast::<Self>()?.get().here(py)?);
        }
        Ok(Pairs(Events::new(pairs.into_iter())))
    }

    /// The groups of near-duplicates, and which of each survives.
    #[pyo3(signature = (max_distance=None, **named))]
    #[pyo3(
        text_signature = "($self, max_distance=None, *, min_similarity=None, since=None, scopes=None, survivor=None, \
                             connected=False)"
    )]
    pub(crate) fn clusters<'py>(
        &self,
        py: Python<'py>,
        max_distance: Option<u32>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Clusters> {
        let snapshot = self.here(py)?;
        let named = Named::new(py, named)?;
        named.put("max_distance", max_distance)?;
        let clustering = named.take_clustering(named.take_near()?)?;
        named.end("clusters")?;
        Ok(Clusters(Events::new(snapshot.each_cluster(&clustering))))
    }

    /// What the database holds, in numbers.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = self.here(py)?;
        let stats = detached(py, || snapshot.stats())?;
        let numbers = PyDict::new(py);
        numbers.set_item("documents", stats.documents)?;
        numbers.set_item("too_short", stats.too_short)?;
        numbers.set_item("fingerprints", stats.fingerprints)?;
        numbers.set_item("file_bytes", stats.file_bytes)?;
        numbers.set_item("allocated_bytes", stats.allocated_bytes)?;
        numbers.set_item("cache_bytes", stats.cache_bytes)?;
        numbers.set_item("cache_limit_bytes", stats.cache_limit_bytes)?;
        numbers.set_item("format_version", stats.format_version)?;
        numbers.set_item("scheme", stats.scheme.name())?;
        numbers.set_item("plan", stats.plan)?;
        numbers.set_item("max_distance", stats.max_distance)?;
        numbers.set_item("min_similarity", stats.min_similarity)?;
        numbers.set_item("sketch_bytes", stats.sketch_size.bytes())?;
        numbers.set_item("created", stats.created)?;
        Ok(numbers)
    }

    /// Writes a dense copy to a new file, while others go on writing.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let snapshot = self.here(py)?;
        stoppable(py, |stop| snapshot.backup_with(path, |_, _| stop.flow()))
    }
}

/// The answers to many questions. Between parts of them it is looked whether to stop.
fn answers_in_parts(
    snapshot: &simdb::Snapshot,
    queries: &[Query],
    stop: &Stop,
) -> simdb::Result<Vec<simdb::Matches>> {
    /// A part that takes no longer leaves nobody waiting.
    const SOON: Duration = Duration::from_millis(100);
    let mut answers = Vec::with_capacity(queries.len());
    let mut most = 32;
    let mut seconds_each_before = f64::INFINITY;
    while answers.len() < queries.len() {
        stop.ensure_wanted()?;
        let rest = &queries[answers.len()..];
        let part = &rest[..most.min(rest.len())];
        let begun = Instant::now();
        answers.append(&mut snapshot.query_batch(part)?);
        let took = begun.elapsed();
        // Wide queries have a scan in common, so larger parts are quicker in all. As long as that pays, they grow.
        let seconds_each = took.as_secs_f64() / part.len() as f64;
        if took < SOON || seconds_each < 0.75 * seconds_each_before {
            most *= 2;
        }
        seconds_each_before = seconds_each;
    }
    Ok(answers)
}

/// All documents of a snapshot.
#[pyclass(module = "simdb._simdb", frozen, name = "_Documents")]
pub(crate) struct Documents(Mutex<simdb::Documents>, Home);

#[pymethods]
impl Documents {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Document>> {
        self.1.ensure_here(py)?;
        let next = detached(py, || lock(&self.0).next().transpose());
        Ok(next?.map(Document::of))
    }
}

/// The events of a search, of which some are told to nobody.
struct Events<T: Send + 'static>(Mutex<Option<Found<T>>>, Home);

impl<T: Send + 'static> Events<T> {
    fn new(found: Found<T>) -> Self {
        Self(Mutex::new(Some(found)), Home::here())
    }

    /// The first event of which `wanted` makes something. Signals are looked for between events.
    fn next<U: Send>(
        &self,
        py: Python<'_>,
        wanted: impl Fn(T) -> Option<U> + Send + Sync,
    ) -> PyResult<Option<U>> {
        self.1.ensure_here(py)?;
        loop {
            let next = detached(py, || {
                let mut found = lock(&self.0);
                found.as_mut().and_then(Iterator::next).transpose()
            })?;
            match next.map(&wanted) {
                None => return Ok(None),
                Some(Some(event)) => return Ok(Some(event)),
                Some(None) => look()?,
            }
        }
    }

    fn close(&self, py: Python<'_>) {
        if !self.1.is_here() {
            return;
        }
        py.detach(|| drop(lock(&self.0).take()));
    }
}

impl<T: Send + 'static> Drop for Events<T> {
    /// The thread of the search is waited for, without the interpreter.
    fn drop(&mut self) {
        let found = self.0.get_mut();
        let found = found.unwrap_or_else(PoisonError::into_inner).take();
        _ = Python::try_attach(|py| py.detach(|| drop(found)));
    }
}

/// Pairs of near documents, as they are found.
#[pyclass(module = "simdb._simdb", frozen, name = "_Pairs")]
pub(crate) struct Pairs(Events<PairEvent>);

#[pymethods]
impl Pairs {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        self.0.next(py, |event| match event {
            PairEvent::Pair(pair) => Some(Pair::of(pair)),
            _ => None,
        })
    }

    /// Ends the search.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}

/// Clusters, as they are found.
#[pyclass(module = "simdb._simdb", frozen, name = "_Clusters")]
pub(crate) struct Clusters(Events<ClusterEvent>);

#[pymethods]
impl Clusters {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Cluster>> {
        self.0.next(py, |event| match event {
            ClusterEvent::Cluster(cluster) => Some(Cluster::of(cluster)),
            _ => None,
        })
    }

    /// Ends the search.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }
}
