//! Client: a database that another process serves.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use simdb::ClientOptions;

use crate::batches::{Inserter, Verdicts, delete_many};
use crate::content::Content;
use crate::convert::{bytes_of_keys, key_bytes};
use crate::documents::{Document, Matches, Reduced, Verdict, unpickle};
use crate::errors::{Home, OrRaise, closed, input_error, lock};
use crate::fingerprinter::{Fingerprinter, with_judged};
use crate::overlap::overlap_told_by;
use crate::question::{Named, expiry};
use crate::signals::{Stop, detached, has_raised, look};
use crate::ticket::Ticket;

/// A connection to the process that serves a database. Any thread may use it. It can be pickled, and outlives a fork:
/// it connects anew where it is used.
#[pyclass(module = "simdb", frozen, weakref)]
pub(crate) struct Client {
    path: PathBuf,
    timeout: f64,
    /// The command that is started if nobody serves. Empty if none is.
    start: Vec<OsString>,
    /// Locked with the interpreter only, and only for a moment. So nobody has it when the process is forked. There
    /// until the client is dropped.
    state: Option<Mutex<State>>,
}

impl Drop for Client {
    /// Ends the connection without the interpreter: what was submitted is waited for.
    fn drop(&mut self) {
        let state = self.state.take();
        _ = Python::try_attach(|py| py.detach(|| drop(state)));
    }
}

struct State {
    connected: Arc<Connected>,
    is_closed: bool,
}

/// A connection of one process.
pub(crate) struct Connected {
    client: simdb::Client,
    pub(crate) fingerprinter: simdb::Result<simdb::Fingerprinter>,
    home: Home,
}

impl Connected {
    /// Stores many documents. If one is out of bounds, none is.
    pub(crate) fn insert_all(
        &self,
        documents: &[simdb::Document],
        policy: &simdb::Policy,
    ) -> simdb::Result<Vec<simdb::Verdict>> {
        let at = |index: usize| {
            move |source: simdb::Error| simdb::Error::InBatch {
                index,
                source: Box::new(source),
            }
        };
        for (index, document) in documents.iter().enumerate() {
            self.client.validate(document).map_err(at(index))?;
        }
        let verdicts = self.client.insert_each_if_new(documents, policy)?;
        let mut all = Vec::with_capacity(verdicts.len());
        for (index, verdict) in verdicts.into_iter().enumerate() {
            all.push(verdict.map_err(at(index))?);
        }
        Ok(all)
    }
}

/// Connects to the process that has a database open and serves it.
#[pyfunction]
#[pyo3(signature = (path, timeout, start))]
pub(crate) fn _connect(
    py: Python<'_>,
    path: PathBuf,
    timeout: f64,
    start: Vec<OsString>,
) -> PyResult<Bound<'_, Client>> {
    // The process may go to another directory, and be forked there.
    let path = std::path::absolute(path)?;
    let connected = connected(py, &path, timeout, &start)?;
    let state = State {
        connected: Arc::new(connected),
        is_closed: false,
    };
    let client = Bound::new(
        py,
        Client {
            path,
            timeout,
            start,
            state: Some(Mutex::new(state)),
        },
    )?;
    PyModule::import(py, "simdb._exit")?.call_method1("close_at_exit", (&client,))?;
    Ok(client)
}

fn connected(
    py: Python<'_>,
    path: &PathBuf,
    timeout: f64,
    start: &[OsString],
) -> PyResult<Connected> {
    if timeout.is_nan() || timeout < 0.0 {
        let message = "timeout is a number of seconds, 0 or more";
        return Err(input_error(py, message, None));
    }
    // What is longer than any time is no limit.
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    let options = ClientOptions::new()
        .timeout(timeout)
        .start(start)
        .stop_when(has_raised);
    detached(py, || {
        let client = simdb::Client::connect(path, &options)?;
        Ok(Connected {
            fingerprinter: client.fingerprinter(),
            client,
            home: Home::here(),
        })
    })
}

impl Client {
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.state.as_ref().expect("it is not dropped yet");
        lock(state)
    }

    /// The connection of this process.
    pub(crate) fn connected(&self, py: Python<'_>) -> PyResult<Arc<Connected>> {
        let state = self.state();
        if state.is_closed {
            return Err(closed(py, "client"));
        }
        let here = state.connected.clone();
        drop(state);
        if here.home.is_here() {
            return Ok(here);
        }
        let new = connected(py, &self.path, self.timeout, &self.start)?;
        let mut state = self.state();
        // Another thread may have been faster.
        if !state.connected.home.is_here() {
            state.connected = Arc::new(new);
        }
        Ok(state.connected.clone())
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
        let connected = self.connected(py)?;
        let submitted = py.detach(|| {
            let judged = content.judge(&connected.fingerprinter)?;
            let too_short = judged.is_none();
            let document = with_judged(&parts, judged);
            // Out of bounds, it is told here, where it is given.
            connected.client.validate(&document)?;
            Ok((connected.client.submit(&document, &policy)?, too_short))
        });
        let (ticket, too_short) = submitted.or_raise(py)?;
        // A signal that came while somebody who serves was looked for.
        look()?;
        Ok(Ticket::of_client(ticket, too_short))
    }
}

#[pymethods]
impl Client {
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<PathBuf> {
        Ok(self.connected(py)?.client.path().to_owned())
    }

    #[getter]
    fn scheme(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.connected(py)?.client.scheme().name())
    }

    #[getter]
    fn max_distance(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.connected(py)?.client.max_distance())
    }

    #[getter]
    fn min_similarity(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.connected(py)?.client.min_similarity())
    }

    /// The bytes of the sketch that each document has beside its fingerprint. 0 if there are none.
    #[getter]
    fn sketch_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.connected(py)?.client.sketch_size().bytes())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.state().is_closed
    }

    /// Waits until everything that was submitted is answered, and ends the connection. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state();
        let connected = state.connected.clone();
        let was_closed = std::mem::replace(&mut state.is_closed, true);
        drop(state);
        if was_closed || !connected.home.is_here() {
            return Ok(());
        }
        detached(py, || connected.client.close())
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

    /// Where it is unpickled, it connects anew.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, (OsString, f64, Vec<OsString>)> {
        let path = self.path.clone().into_os_string();
        let parts = (path, self.timeout, self.start.clone());
        Ok((unpickle(py, "_connect")?, parts))
    }

    /// As Database.insert_if_new. If the connection is lost, what was not answered is sent again.
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

    /// As Database.insert_many_if_new. Other clients may insert between the documents of a batch.
    #[pyo3(signature = (documents, **named))]
    #[pyo3(
        text_signature = "($self, documents, *, keys=None, on_match='skip', max_distance=None, min_similarity=None, \
                             since=None, scopes=None, keep=1, touch=False, limit=10, batch=1000)"
    )]
    fn insert_many_if_new<'py>(
        slf: &Bound<'py, Self>,
        documents: &Bound<'py, PyAny>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Verdicts> {
        let named = Named::new(slf.py(), named)?;
        let keys = named.take("keys")?;
        let policy = named.take_policy()?;
        let batch = named.take_as("batch")?.unwrap_or(1_000);
        named.end("insert_many_if_new")?;
        slf.get().connected(slf.py())?;
        let into = Inserter::Client(slf.clone().unbind());
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
        let connected = self.connected(py)?;
        content.matches(py, &connected.fingerprinter, |query| {
            connected.client.query(&asked(query))
        })
    }

    /// As Database.overlap, with everything that was answered before.
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
        let connected = self.connected(py)?;
        overlap_told_by(py, text, named, |text, query| {
            detached(py, || connected.client.overlap(text, query))
        })
    }

    /// The document of a key, or None.
    fn get(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Document>> {
        let key = key_bytes(key)?;
        let connected = self.connected(py)?;
        let found = detached(py, || connected.client.get(key))?;
        Ok(found.map(Document::of))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(py, key)?.is_some())
    }

    /// Removes the document of a key and gives it, or None if there was none.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Document>> {
        let key = key_bytes(key)?;
        let connected = self.connected(py)?;
        let deleted = detached(py, || connected.client.delete(key))?;
        Ok(deleted.map(Document::of))
    }

    /// Removes the documents of many keys, and gives how many there were. They share commits. Ctrl-C stops it, and what
    /// was removed before is gone.
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
        let keys = bytes_of_keys(keys)?;
        let client = &self.connected(py)?.client;
        let submit = |key| client.submit_delete(key);
        detached(py, || {
            delete_many(keys, &Stop::default(), submit, simdb::ClientTicket::wait)
        })
    }

    /// Removes the documents that were seen before a time, of some scopes, or both; gives their number. Without either
    /// it raises TypeError, so that nobody removes everything by a slip.
    #[pyo3(signature = (*, before=None, scopes=None))]
    fn expire<'py>(
        &self,
        py: Python<'py>,
        before: Option<&Bound<'py, PyAny>>,
        scopes: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<u64> {
        let expiry = expiry(before, scopes)?;
        let connected = self.connected(py)?;
        detached(py, || connected.client.expire(&expiry))
    }

    /// Waits until everything that was submitted before is durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let connected = self.connected(py)?;
        detached(py, || connected.client.flush())
    }

    /// What makes fingerprints that compare with those in the database.
    fn fingerprinter(&self, py: Python<'_>) -> PyResult<Fingerprinter> {
        let fingerprinter = self.connected(py)?.fingerprinter.clone();
        fingerprinter.or_raise(py).map(Fingerprinter)
    }
}
