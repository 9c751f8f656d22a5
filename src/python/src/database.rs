//! Database: an open file.

use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use simdb::{Cache, CreateOptions, ErrorKind, Writer, WriterOptions};

use crate::batches::{Inserter, Verdicts, delete_many};
use crate::content::Content;
use crate::convert::{bytes_of_keys, key_bytes};
use crate::documents::{Document, Matches, Verdict};
use crate::errors::{OrRaise, exception, input_error, not_taken};
use crate::fingerprinter::{Fingerprinter, with_judged};
use crate::overlap::overlap;
use crate::question::{Given as _, Named, expiry};
use crate::signals::{detached, stoppable};
use crate::snapshot::{Clusters, Pairs, Snapshot};
use crate::ticket::Ticket;

/// An open file. Any thread may use it. It cannot be pickled, and does not outlive a fork: a process that was forked
/// gets ForkedError, and opens for itself.
#[pyclass(module = "simdb", frozen, weakref)]
pub(crate) struct Database {
    /// `None` only while it is dropped.
    handles: Option<Handles>,
}

pub(crate) struct Handles {
    pub(crate) database: simdb::Database,
    pub(crate) fingerprinter: simdb::Result<simdb::Fingerprinter>,
    /// `None` if the database is read-only.
    writer: Option<Writer>,
}

/// Opens the database at a path, or creates it.
#[pyfunction]
#[pyo3(signature = (path, **named))]
#[pyo3(
    text_signature = "(path, *, create=True, read_only=False, scheme=None, max_distance=None, min_similarity=None, \
                         sketch_bytes=None, expected_documents=None, plan=None, cache=None, serve=False)"
)]
pub(crate) fn open<'py>(
    py: Python<'py>,
    path: PathBuf,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, Database>> {
    let named = Named::new(py, named)?;
    let create = named.take_as("create")?.unwrap_or(true);
    let read_only = named.take_as("read_only")?.unwrap_or(false);
    let options = CreateOptions::new()
        .given(named.take_scheme()?, CreateOptions::scheme)
        .given(named.take_as("max_distance")?, CreateOptions::max_distance)
        .given(
            named.take_as("min_similarity")?,
            CreateOptions::min_similarity,
        )
        .given(named.take_sketch_size()?, CreateOptions::sketch_size)
        .given(
            named.take_as("expected_documents")?,
            CreateOptions::expected_documents,
        )
        .given(named.take_as::<String>("plan")?, CreateOptions::plan);
    let serve = named.take_as("serve")?.unwrap_or(false);
    let cache = named.take_by("cache", cache_of)?;
    named.end("open")?;
    let options = options.serve(serve).given(cache, CreateOptions::cache);
    let open = simdb::OpenOptions::new().read_only(read_only).serve(serve);
    let open = open.given(cache, simdb::OpenOptions::cache);
    let handles = detached(py, move || {
        let database = if create && !read_only {
            simdb::Database::open_or_create(&path, &options)?
        } else {
            let database = simdb::Database::open(&path, &open)?;
            database.ensure_created_with(&options)?;
            database
        };
        let writer = match read_only {
            true => None,
            false => Some(database.writer(WriterOptions::new())?),
        };
        Ok(Handles {
            fingerprinter: database.fingerprinter(),
            writer,
            database,
        })
    })?;
    let database = Bound::new(
        py,
        Database {
            handles: Some(handles),
        },
    )?;
    PyModule::import(py, "simdb._exit")?.call_method1("close_at_exit", (&database,))?;
    Ok(database)
}

fn cache_of(cache: &Bound<'_, PyAny>) -> PyResult<Cache> {
    if cache.is_instance_of::<PyFloat>() {
        let share: f64 = cache.extract()?;
        if !(0.0..=1.0).contains(&share) {
            let message = "a cache is a number of bytes (int), or a share of the memory from 0.0 to 1.0 (float)";
            return Err(input_error(cache.py(), message, None));
        }
        return Ok(Cache::Share(share));
    }
    let bytes = cache.extract();
    Ok(Cache::Bytes(
        bytes.map_err(|error| not_taken(cache.py(), "cache", error))?,
    ))
}

impl Database {
    pub(crate) fn handles(&self) -> &Handles {
        let handles = self.handles.as_ref();
        handles.expect("they are there until the drop")
    }

    fn writer(&self) -> simdb::Result<&Writer> {
        let writer = self.handles().writer.as_ref();
        writer.ok_or(simdb::Error::ReadOnly)
    }

    fn submit_named<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
        call: &str,
    ) -> PyResult<Ticket> {
        let named = Named::new(py, named)?;
        let key = key_bytes(key)?;
        let content = Content::take(text, &named)?;
        let parts = named.take_parts(simdb::Document::new(key, None))?;
        let policy = named.take_policy()?;
        named.end(call)?;
        let submitted = py.detach(|| {
            let judged = content.judge(&self.handles().fingerprinter)?;
            let too_short = judged.is_none();
            let document = with_judged(&parts, judged);
            // Out of bounds, it is told here, where it is given.
            self.handles().database.validate(&document)?;
            Ok((self.writer()?.submit(document, &policy)?, too_short))
        });
        let (ticket, too_short) = submitted.or_raise(py)?;
        Ok(Ticket::new(ticket, too_short))
    }
}

#[pymethods]
impl Database {
    #[getter]
    fn path(&self) -> PathBuf {
        self.handles().database.path().to_owned()
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        self.handles().database.scheme().name()
    }

    #[getter]
    fn max_distance(&self) -> u32 {
        self.handles().database.max_distance()
    }

    #[getter]
    fn min_similarity(&self) -> Option<f64> {
        self.handles().database.min_similarity()
    }

    /// The bytes of the sketch that each document has beside its fingerprint. 0 if there are none.
    #[getter]
    fn sketch_bytes(&self) -> usize {
        self.handles().database.sketch_size().bytes()
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        let snapshot = py.detach(|| self.handles().database.snapshot().map(drop));
        snapshot.is_err_and(|error| error.kind() == ErrorKind::Closed)
    }

    /// Waits until everything that was submitted is durable, and closes. A second call does nothing.
    ///
    /// Raises the first error of a commit since the last flush.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // Another thread may close it at the same time.
        let unless_closed = |closed: simdb::Result<()>| match closed {
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            closed => closed,
        };
        if self.closed(py) {
            return Ok(());
        }
        detached(py, || {
            let written = match &self.handles().writer {
                Some(writer) => unless_closed(writer.close()),
                None => Ok(()),
            };
            unless_closed(self.handles().database.close())?;
            written
        })
    }

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
    ) -> PyResult<()> {
        _ = (kind, error, trace);
        self.close(py)
    }

    /// Stores a document unless one that is nearly the same is stored, and tells.
    ///
    /// The document is one of `text`, `html`, `fingerprint` and `features` (words and their weights). Its `seen` is now
    /// if none is given. What is near is said by `max_distance` and what follows; without them it is what the database
    /// was created with. With `on_match="link"` the document is stored in any case, with `"replace"` if its `rank` is
    /// above that of all that are near, which are deleted then. With `keep=3`, up to three of a group are stored. With
    /// `touch=True`, a document that is not stored is counted in the `repeats` of the nearest.
    ///
    /// A document is never near to the stored one of the same key. If it is stored, it replaces that one. So a call
    /// that was cut off can be made again.
    ///
    /// Other threads run meanwhile. Many threads share one commit. Ctrl-C ends the wait, not the insertion.
    #[pyo3(signature = (key, text=None, **named))]
    #[pyo3(
        text_signature = "($self, key, text=None, *, html=None, fingerprint=None, features=None, seen=None, \
                             repeats=0, rank=(), scope='', payload=b'', on_match='skip', max_distance=None, \
                             min_similarity=None, since=None, scopes=None, keep=1, touch=False, limit=10)"
    )]
    fn insert_if_new<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Verdict> {
        let ticket = self.submit_named(py, key, text, named, "insert_if_new")?;
        ticket.result(py, None)
    }

    /// As insert_if_new, but gives a ticket at once. Answers come in the order of submission.
    ///
    /// Waits only if 20,000 documents or 64 MiB of them are waiting already.
    #[pyo3(signature = (key, text=None, **named))]
    #[pyo3(
        text_signature = "($self, key, text=None, *, html=None, fingerprint=None, features=None, seen=None, \
                             repeats=0, rank=(), scope='', payload=b'', on_match='skip', max_distance=None, \
                             min_similarity=None, since=None, scopes=None, keep=1, touch=False, limit=10)"
    )]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Ticket> {
        self.submit_named(py, key, text, named, "submit")
    }

    /// Stores many documents and gives their verdicts, in order. Nothing is done before the first is asked for.
    ///
    /// A document is a pair of its key and its text or fingerprint, or a Document. Or `documents` is one column of
    /// texts or of fingerprints, from Arrow or a buffer of uint64 such as a numpy array, and `keys` has as many.
    ///
    /// `batch` documents are read, made ready on all cores, decided and committed together; then their verdicts come.
    /// So what is read from the iterator is durable, and a loop that ends early has stored at most one batch more than
    /// it saw. A bad document raises InputError with its `index`; nothing of its batch is stored.
    #[pyo3(signature = (documents, **named))]
    #[pyo3(
        text_signature = "($self, documents, *, keys=None, on_match='skip', max_distance=None, min_similarity=None, \
                             since=None, scopes=None, keep=1, touch=False, limit=10, batch=10000)"
    )]
    fn insert_many_if_new<'py>(
        slf: &Bound<'py, Self>,
        documents: &Bound<'py, PyAny>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Verdicts> {
        let named = Named::new(slf.py(), named)?;
        let keys = named.take("keys")?;
        let policy = named.take_policy()?;
        let batch = named.take_as("batch")?.unwrap_or(10_000);
        named.end("insert_many_if_new")?;
        if slf.get().handles().writer.is_none() {
            return Err(exception(slf.py(), &simdb::Error::ReadOnly, None));
        }
        let into = Inserter::Database(slf.clone().unbind());
        Verdicts::new(slf.py(), into, documents, keys.as_ref(), policy, batch)
    }

    /// The stored documents that are near, the nearest first. No match is missed. A text that is too short to judge is
    /// near to nothing.
    ///
    /// With `nearest` in the place of `limit`, that many documents match, the nearest, however far they are. What the
    /// database was created with does not hold then, but a `max_distance` or `min_similarity` that is given does.
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
        let named = Named::new(py, named)?;
        let content = Content::take(text, &named)?;
        let asked = named.take_query()?;
        named.end("query")?;
        let handles = self.handles();
        content.matches(py, &handles.fingerprinter, |query| {
            handles.database.snapshot()?.query(&asked(query))
        })
    }

    /// How much of a text stood elsewhere, in which documents, and where each of its sentences was seen first.
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
        overlap(py, text, named, || self.handles().database.snapshot())
    }

    /// The document of a key, or None.
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Document>> {
        let key = key_bytes(key)?;
        let found = detached(py, || self.handles().database.snapshot()?.get(key))?;
        Ok(found.map(Document::of))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(py, key)?.is_some())
    }

    /// The number of documents.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let statistics = detached(py, || self.handles().database.snapshot()?.stats())?;
        Ok(statistics.documents as usize)
    }

    /// A database is there, also if it is empty.
    fn __bool__(&self) -> bool {
        true
    }

    /// Removes the document of a key and gives it, or None if there was none.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Document>> {
        let key = key_bytes(key)?;
        let deleted = detached(py, || self.writer()?.submit_delete(key)?.wait())?;
        Ok(deleted.map(Document::of))
    }

    /// Removes the documents of many keys, and gives how many there were. They share commits. Ctrl-C stops it, and what
    /// was removed before is gone.
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
        let keys = bytes_of_keys(keys)?;
        stoppable(py, |stop| {
            let writer = self.writer()?;
            delete_many(
                keys,
                stop,
                |key| writer.submit_delete(key),
                simdb::Ticket::wait,
            )
        })
    }

    /// Removes the documents that were seen before a time, of some scopes, or both; gives their number. Without either
    /// it raises TypeError, so that nobody removes everything by a slip. Ctrl-C stops it between two steps.
    #[pyo3(signature = (*, before=None, scopes=None))]
    fn expire<'py>(
        &self,
        py: Python<'py>,
        before: Option<&Bound<'py, PyAny>>,
        scopes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<u64> {
        let expiry = expiry(before, scopes)?;
        stoppable(py, |stop| {
            self.handles().database.expire(&expiry, |_| stop.flow())
        })
    }

    /// Waits until everything that was submitted before is durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.writer()?.flush())
    }

    /// Serves the database to other processes, until a signal raises, or nobody was connected for so many seconds. This
    /// is all that `python -m simdb serve` does.
    #[pyo3(signature = (until_idle, ready))]
    fn _serve_until(
        &self,
        py: Python<'_>,
        until_idle: Option<f64>,
        ready: Py<PyAny>,
    ) -> PyResult<()> {
        let mut is_new = true;
        stoppable(py, |stop| {
            self.handles().database.serve_until(|server| {
                if std::mem::replace(&mut is_new, false) {
                    Python::attach(|py| {
                        if let Err(error) = ready.call1(py, (server.path(),)) {
                            error.write_unraisable(py, None);
                        }
                    });
                }
                let idle = server.idle_for().as_secs_f64();
                match until_idle.is_some_and(|most| idle >= most) {
                    true => ControlFlow::Break(()),
                    false => stop.flow(),
                }
            })
        })
    }

    /// What makes fingerprints that compare with those in the database.
    fn fingerprinter(&self, py: Python<'_>) -> PyResult<Fingerprinter> {
        let fingerprinter = self.handles().fingerprinter.clone();
        fingerprinter.or_raise(py).map(Fingerprinter)
    }

    /// What is committed now. Later commits do not change it. Close it soon: space that is freed meanwhile is not used
    /// again.
    pub(crate) fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let snapshot = detached(py, || self.handles().database.snapshot())?;
        Ok(Snapshot::new(
            snapshot,
            self.handles().fingerprinter.clone(),
        ))
    }

    /// As Snapshot.pairs, of what is committed now.
    #[pyo3(signature = (max_distance=None, **named))]
    #[pyo3(
        text_signature = "($self, max_distance=None, *, min_similarity=None, since=None, scopes=None)"
    )]
    fn pairs<'py>(
        &self,
        py: Python<'py>,
        max_distance: Option<u32>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Pairs> {
        self.snapshot(py)?.pairs(py, max_distance, named)
    }

    /// As Snapshot.clusters, of what is committed now.
    #[pyo3(signature = (max_distance=None, **named))]
    #[pyo3(
        text_signature = "($self, max_distance=None, *, min_similarity=None, since=None, scopes=None, survivor=None, \
                             connected=False)"
    )]
    fn clusters<'py>(
        &self,
        py: Python<'py>,
        max_distance: Option<u32>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Clusters> {
        self.snapshot(py)?.clusters(py, max_distance, named)
    }

    /// Deletes all of each cluster but the survivor, in steps; gives their number. Ctrl-C stops it between two steps.
    #[pyo3(signature = (max_distance=None, **named))]
    #[pyo3(
        text_signature = "($self, max_distance=None, *, min_similarity=None, since=None, scopes=None, survivor=None, \
                             connected=False)"
    )]
    fn delete_duplicates<'py>(
        &self,
        py: Python<'py>,
        max_distance: Option<u32>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<u64> {
        let named = Named::new(py, named)?;
        named.put("max_distance", max_distance)?;
        let clustering = named.take_clustering(named.take_near()?)?;
        named.end("delete_duplicates")?;
        stoppable(py, |stop| {
            let database = &self.handles().database;
            database.delete_duplicates_with(&clustering, |_| stop.flow())
        })
    }

    /// Writes the file anew, without what was deleted. Others read meanwhile, and wait to write.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        stoppable(py, |stop| {
            self.handles().database.compact(|_, _| stop.flow())
        })
    }

    /// Puts into memory what queries read, as far as there is room. Others read and write meanwhile.
    fn warm(&self, py: Python<'_>) -> PyResult<()> {
        stoppable(py, |stop| self.handles().database.warm(|_, _| stop.flow()))
    }

    /// What is wrong with the file. An empty list: it is sound. Raises BusyError while a snapshot or an iterator is
    /// open.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let report = stoppable(py, |stop| {
            self.handles().database.check_with(|_, _| stop.flow())
        })?;
        Ok(report.problems.iter().map(ToString::to_string).collect())
    }

    /// Writes a dense copy to a new file, while others go on writing.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        stoppable(py, |stop| {
            let snapshot = self.handles().database.snapshot()?;
            snapshot.backup_with(path, |_, _| stop.flow())
        })
    }

    /// Goes on after a StorageError, when its cause is gone.
    fn reopen(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.handles().database.reopen())
    }

    fn __repr__(&self) -> String {
        let path = self.handles().database.path();
        format!("<Database {:?}>", path.display().to_string())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a database cannot be pickled: open it where it is used, or send keys and fingerprints there",
        ))
    }
}

impl Drop for Database {
    /// Closes in order, without the interpreter: merges may be waited for.
    fn drop(&mut self) {
        let handles = self.handles.take();
        _ = Python::try_attach(|py| py.detach(|| drop(handles)));
    }
}
