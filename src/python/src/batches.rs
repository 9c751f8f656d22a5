//! Batches: many documents, of which some at a time are judged, decided and committed together.

use std::collections::VecDeque;
use std::sync::Mutex;

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use simdb::Policy;

use crate::client::Client;
use crate::columns::{Column, Keys, content};
use crate::content::Content;
use crate::convert::key_bytes;
use crate::database::Database;
use crate::documents::{Document, Verdict};
use crate::errors::{at, exception, input_error, lock};
use crate::fingerprinter::{judge_all, of_judged};
use crate::signals::{Stop, look};

/// The most deletions that wait for a commit.
const MOST_DELETIONS: usize = 10_000;

/// Submits the deletion of each key, and counts the documents that were there. What is submitted when it stops is
/// done.
pub(crate) fn delete_many<T>(
    keys: Vec<Vec<u8>>,
    stop: &Stop,
    submit: impl Fn(Vec<u8>) -> simdb::Result<T>,
    wait: impl Fn(T) -> simdb::Result<Option<simdb::Document>>,
) -> simdb::Result<u64> {
    let mut tickets = VecDeque::new();
    let mut deleted = 0;
    for key in keys {
        if stop.flow().is_break() {
            return Err(simdb::Error::Interrupted);
        }
        if tickets.len() == MOST_DELETIONS
            && let Some(first) = tickets.pop_front()
        {
            deleted += u64::from(wait(first)?.is_some());
        }
        tickets.push_back(submit(key)?);
    }
    for ticket in tickets {
        deleted += u64::from(wait(ticket)?.is_some());
    }
    Ok(deleted)
}

/// The verdicts on many documents, in their order.
#[pyclass(module = "simdb._simdb", frozen, name = "_Verdicts")]
pub(crate) struct Verdicts {
    into: Inserter,
    policy: Policy,
    batch: usize,
    /// Locked with the interpreter only, and only for a moment.
    state: Mutex<State>,
}

/// Where documents are inserted.
pub(crate) enum Inserter {
    Database(Py<Database>),
    Client(Py<Client>),
}

struct State {
    source: Source,
    /// How many were read before.
    read: usize,
    verdicts: VecDeque<Verdict>,
    has_begun: bool,
}

/// What is left to read.
enum Source {
    Open(Documents),
    /// Somebody reads a batch: another thread, or code of the caller that is read from.
    InUse,
    /// All was read, or something failed.
    Ended,
}

/// Where the documents come from.
enum Documents {
    Each(Py<PyIterator>),
    Keyed {
        contents: Py<PyIterator>,
        keys: Keys,
    },
    Column {
        column: Column,
        keys: Keys,
    },
}

/// Documents that are not judged yet.
#[derive(Default)]
struct Unjudged {
    contents: Vec<Content>,
    keys: Vec<Vec<u8>>,
    /// Documents that were made before, with their places among the others.
    made: Vec<(usize, simdb::Document)>,
}

impl Unjudged {
    fn len(&self) -> usize {
        self.keys.len() + self.made.len()
    }

    /// Adds a document of which both parts can be taken.
    fn add(&mut self, key: Vec<u8>, content: Content) {
        self.keys.push(key);
        self.contents.push(content);
    }

    /// The documents, in their order.
    fn judge(
        &self,
        fingerprinter: &simdb::Result<simdb::Fingerprinter>,
    ) -> simdb::Result<Vec<simdb::Document>> {
        let judged = judge_all(&self.contents, fingerprinter, &Stop::default())?;
        let mut judged = self.keys.iter().zip(judged);
        let mut made = self.made.iter().peekable();
        let mut documents = Vec::with_capacity(self.len());
        while documents.len() < self.len() {
            if let Some((_, document)) = made.next_if(|(place, _)| *place == documents.len()) {
                documents.push(document.clone());
            } else if let Some((key, judged)) = judged.next() {
                documents.push(of_judged(key.clone(), judged));
            }
        }
        Ok(documents)
    }
}

impl Verdicts {
    pub(crate) fn new(
        py: Python<'_>,
        into: Inserter,
        documents: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        policy: Policy,
        batch: usize,
    ) -> PyResult<Self> {
        if batch == 0 {
            return Err(input_error(py, "a batch has at least one document", None));
        }
        let documents = match (keys, Column::of(documents)?) {
            (Some(keys), Some(column)) => {
                let keys = Keys::of(keys)?;
                let count = keys.count();
                if count != column.len() {
                    let message = format!(
                        "documents: {}, keys: {count}; each document needs a key",
                        column.len()
                    );
                    return Err(input_error(py, &message, None));
                }
                Documents::Column { column, keys }
            }
            (None, Some(_)) => {
                return Err(PyTypeError::new_err("a column of documents needs keys"));
            }
            (Some(keys), None) => Documents::Keyed {
                contents: documents.try_iter()?.unbind(),
                keys: Keys::of(keys)?,
            },
            (None, None) => Documents::Each(documents.try_iter()?.unbind()),
        };
        Ok(Self {
            into,
            policy,
            batch,
            state: Mutex::new(State {
                source: Source::Open(documents),
                read: 0,
                verdicts: VecDeque::new(),
                has_begun: false,
            }),
        })
    }

    /// Reads up to a batch. Whether there may be more.
    fn read(
        &self,
        py: Python<'_>,
        documents: &Documents,
        before: usize,
    ) -> PyResult<(Unjudged, bool)> {
        let mut unjudged = Unjudged::default();
        match documents {
            Documents::Column { column, keys } => {
                let end = column.len().min(before.saturating_add(self.batch));
                for row in before..end {
                    let content = column.content(py, row)?;
                    unjudged.add(keys.next(py, row)?, content);
                }
                Ok((unjudged, end < column.len()))
            }
            Documents::Keyed { contents, keys } => {
                let mut contents = contents.bind(py).clone();
                let count = keys.count();
                while unjudged.len() < self.batch {
                    let index = before + unjudged.len();
                    match contents.next() {
                        Some(given) if index < count => {
                            let content = content(&given?, index)?;
                            unjudged.add(keys.next(py, index)?, content);
                        }
                        None if index == count => return Ok((unjudged, false)),
                        given => {
                            let than = if given.is_some() { "fewer" } else { "more" };
                            let message =
                                format!("keys: {count}, which is {than} than there are documents");
                            return Err(input_error(py, &message, Some(index)));
                        }
                    }
                }
                Ok((unjudged, true))
            }
            Documents::Each(iterator) => {
                let mut iterator = iterator.bind(py).clone();
                while unjudged.len() < self.batch {
                    match iterator.next() {
                        Some(item) => take(&item?, before + unjudged.len(), &mut unjudged)?,
                        None => return Ok((unjudged, false)),
                    }
                }
                Ok((unjudged, true))
            }
        }
    }

    /// Reads up to a batch, and stores it. The verdicts, and whether there may be more.
    fn read_and_insert(
        &self,
        py: Python<'_>,
        documents: &Documents,
        before: usize,
    ) -> PyResult<(Vec<Verdict>, bool)> {
        let (unjudged, has_more) = self.read(py, documents, before)?;
        let inserted = match &self.into {
            Inserter::Database(database) => {
                let handles = database.get().handles();
                py.detach(|| {
                    let documents = unjudged.judge(&handles.fingerprinter)?;
                    let mut txn = handles.database.begin_write()?;
                    let verdicts = txn.insert_batch_if_new(&documents, &self.policy)?;
                    txn.commit()?;
                    Ok(told(&verdicts, &documents))
                })
            }
            Inserter::Client(client) => {
                let connected = client.get().connected(py)?;
                py.detach(|| {
                    let documents = unjudged.judge(&connected.fingerprinter)?;
                    let verdicts = connected.insert_all(&documents, &self.policy)?;
                    Ok(told(&verdicts, &documents))
                })
            }
        };
        match inserted {
            Ok(verdicts) => Ok((verdicts, has_more)),
            Err(simdb::Error::InBatch { index, source, .. }) => {
                Err(exception(py, &source, Some(before + index)))
            }
            Err(error) => Err(exception(py, &error, None)),
        }
    }
}

/// The verdicts on documents, for Python.
fn told(verdicts: &[simdb::Verdict], documents: &[simdb::Document]) -> Vec<Verdict> {
    let mut all = Vec::with_capacity(documents.len());
    for (verdict, document) in verdicts.iter().zip(documents) {
        all.push(Verdict::of(verdict, document.fingerprint().is_none()));
    }
    all
}

/// Adds a document: a pair of a key and a text or a fingerprint, or a Document.
fn take(item: &Bound<'_, PyAny>, index: usize, unjudged: &mut Unjudged) -> PyResult<()> {
    if let Ok(document) = item.cast::<Document>() {
        let document = simdb::Document::clone(&document.get().0);
        unjudged.made.push((unjudged.len(), document));
        return Ok(());
    }
    let pair: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = match item.cast::<PyList>() {
        Ok(pair) => pair.to_tuple().extract().ok(),
        Err(_) => item
            .cast::<PyTuple>()
            .ok()
            .and_then(|pair| pair.extract().ok()),
    };
    let Some((key, given)) = pair else {
        let message = format!(
            "item {index} is neither a pair of a key and a text or fingerprint, nor a Document"
        );
        return Err(PyTypeError::new_err(message));
    };
    let content = content(&given, index)?;
    let key = key_bytes(&key).map_err(|error| at(item.py(), error, index))?;
    unjudged.add(key, content);
    Ok(())
}

#[pymethods]
impl Verdicts {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// What is read from may be a generator that has this iterator.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.into {
            Inserter::Database(database) => visit.call(database)?,
            Inserter::Client(client) => visit.call(client)?,
        }
        // Somebody who has it uses it, so it is no garbage.
        let Ok(state) = self.state.try_lock() else {
            return Ok(());
        };
        match &state.source {
            Source::Open(Documents::Each(documents)) => visit.call(documents),
            Source::Open(Documents::Keyed { contents, keys }) => {
                visit.call(contents)?;
                keys.traverse(&visit)
            }
            Source::Open(Documents::Column { keys, .. }) => keys.traverse(&visit),
            Source::InUse | Source::Ended => Ok(()),
        }
    }

    fn __clear__(&self) {
        let source = std::mem::replace(&mut lock(&self.state).source, Source::Ended);
        drop(source);
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Verdict>> {
        loop {
            let mut state = lock(&self.state);
            state.has_begun = true;
            if let Some(verdict) = state.verdicts.pop_front() {
                return Ok(Some(verdict));
            }
            let documents = match std::mem::replace(&mut state.source, Source::InUse) {
                Source::Open(documents) => documents,
                Source::InUse => {
                    return Err(PyRuntimeError::new_err(
                        "another thread, or what is read from, asks for the next verdict already",
                    ));
                }
                Source::Ended => {
                    state.source = Source::Ended;
                    return Ok(None);
                }
            };
            let before = state.read;
            // What is read may be code of the caller, which may come back here.
            drop(state);
            let done = self.read_and_insert(py, &documents, before);
            let mut state = lock(&self.state);
            state.source = match &done {
                Ok((_, true)) => Source::Open(documents),
                _ => Source::Ended,
            };
            let (verdicts, _) = done?;
            state.read += verdicts.len();
            state.verdicts.extend(verdicts);
            drop(state);
            look()?;
        }
    }
}

impl Drop for Verdicts {
    /// Who did not ask for a verdict has stored nothing, and might not expect that.
    fn drop(&mut self) {
        if lock(&self.state).has_begun {
            return;
        }
        _ = Python::try_attach(|py| {
            // It may be dropped while an exception is on its way, and to warn runs code.
            let pending = PyErr::take(py);
            let message = c"nothing was stored by insert_many_if_new: its verdicts were never asked for; go through \
                            them, or use list()";
            let class = py.get_type::<PyRuntimeWarning>();
            if let Err(error) = PyErr::warn(py, &class, message, 1) {
                // Where warnings are errors.
                error.write_unraisable(py, None);
            }
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}
