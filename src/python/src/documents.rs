//! What is stored and what is found: plain data, which cannot be changed, and can be pickled and compared.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PySlice, PyString, PyTuple};
use simdb::{Change, Fingerprint, Sketch};

use crate::convert::{self, key_text};
use crate::errors::{OrRaise, input_error, not_taken};

/// A document, as it is stored.
#[pyclass(module = "simdb", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct Document(pub(crate) Arc<simdb::Document>);

impl Document {
    pub(crate) fn of(document: simdb::Document) -> Self {
        Self(Arc::new(document))
    }
}

#[pymethods]
impl Document {
    #[new]
    #[pyo3(signature = (
        key, *, fingerprint=None, sketch=None, shingles=0, seen=None, repeats=None, rank=None, scope=None,
        payload=None
    ))]
    #[pyo3(
        text_signature = "(key, *, fingerprint=None, sketch=None, shingles=0, seen=None, repeats=0, rank=(), \
                             scope='', payload=b'')"
    )]
    #[expect(clippy::too_many_arguments, reason = "the parts of a document")]
    fn new(
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        fingerprint: Option<&Bound<'_, PyAny>>,
        sketch: Option<&[u8]>,
        shingles: u32,
        seen: Option<&Bound<'_, PyAny>>,
        repeats: Option<&Bound<'_, PyAny>>,
        rank: Option<&Bound<'_, PyAny>>,
        scope: Option<&Bound<'_, PyAny>>,
        payload: Option<&[u8]>,
    ) -> PyResult<Self> {
        let fingerprint = fingerprint.map(convert::fingerprint).transpose()?;
        let fingerprint = fingerprint.map(Fingerprint::from_bits);
        let sketch = sketch.map(|bytes| Sketch::new(bytes, shingles));
        let mut document = simdb::Document::new(convert::key_bytes(key)?, fingerprint)
            .with_sketch(sketch.transpose().or_raise(py)?);
        if let Some(repeats) = repeats {
            let repeats: PyResult<u64> = repeats.extract();
            let repeats = repeats.map_err(|error| not_taken(py, "repeats", error))?;
            document = document.with_repeats(repeats);
        }
        if let Some(scope) = scope {
            let scope: PyResult<String> = scope.extract();
            document = document.with_scope(scope.map_err(|error| not_taken(py, "scope", error))?);
        }
        if let Some(seen) = seen {
            document = document.with_seen(convert::seconds(seen)?);
        }
        if let Some(rank) = rank {
            document = document.with_rank(convert::rank(rank)?);
        }
        if let Some(payload) = payload {
            document = document.with_payload(payload);
        }
        document.validate().or_raise(py)?;
        Ok(Self::of(document))
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        key_text(py, self.0.key())
    }

    #[getter]
    fn key_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.key())
    }

    /// None: the text was too short to judge.
    #[getter]
    fn fingerprint(&self) -> Option<u64> {
        self.0.fingerprint().map(Fingerprint::bits)
    }

    #[getter]
    fn sketch<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let sketch = self.0.sketch()?;
        Some(PyBytes::new(py, sketch.as_bytes()))
    }

    /// The number of different sequences of four words, as the sketch counts them. 0 without a sketch.
    #[getter]
    fn shingles(&self) -> u32 {
        self.0.sketch().map_or(0, Sketch::shingles)
    }

    /// When it was seen, in Unix seconds.
    #[getter]
    fn seen(&self) -> i64 {
        self.0.seen()
    }

    /// How often it was seen again: 0 if it was seen once.
    #[getter]
    fn repeats(&self) -> u64 {
        self.0.repeats()
    }

    #[getter]
    fn rank<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.rank())
    }

    #[getter]
    fn scope(&self) -> &str {
        self.0.scope()
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.payload())
    }

    fn __hash__(&self) -> u64 {
        hash_of(&(self.0.key(), self.fingerprint()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = key_text(py, self.0.key())?.repr()?;
        let fingerprint = match self.fingerprint() {
            Some(bits) => format!("{bits:#018x}"),
            None => "None".to_owned(),
        };
        Ok(format!("Document({key}, fingerprint={fingerprint})"))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, Parts<'py>> {
        Ok((unpickle(py, "_document")?, parts(py, &self.0)))
    }
}

/// What an object is pickled as: a function of the module, and its arguments.
pub(crate) type Reduced<'py, T> = PyResult<(Bound<'py, PyAny>, T)>;

/// What a document is pickled as.
type Parts<'py> = (
    Bound<'py, PyBytes>,
    Option<u64>,
    Option<Bound<'py, PyBytes>>,
    u32,
    i64,
    Vec<i64>,
    String,
    Bound<'py, PyBytes>,
    u64,
);

fn parts<'py>(py: Python<'py>, document: &simdb::Document) -> Parts<'py> {
    let sketch = document.sketch();
    (
        PyBytes::new(py, document.key()),
        document.fingerprint().map(Fingerprint::bits),
        sketch.map(|sketch| PyBytes::new(py, sketch.as_bytes())),
        sketch.map_or(0, Sketch::shingles),
        document.seen(),
        document.rank().to_vec(),
        document.scope().to_owned(),
        PyBytes::new(py, document.payload()),
        document.repeats(),
    )
}

/// A function of the module that makes an object of its pickled parts.
pub(crate) fn unpickle<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, "simdb._simdb")?.getattr(name)
}

/// Pickles of earlier releases have no repeats.
#[pyfunction]
#[pyo3(signature = (key, fingerprint, sketch, shingles, seen, rank, scope, payload, repeats=0))]
#[expect(clippy::too_many_arguments, reason = "the parts of a document")]
pub(crate) fn _document(
    py: Python<'_>,
    key: &[u8],
    fingerprint: Option<u64>,
    sketch: Option<&[u8]>,
    shingles: u32,
    seen: i64,
    rank: Vec<i64>,
    scope: &str,
    payload: &[u8],
    repeats: u64,
) -> PyResult<Document> {
    let sketch = sketch.map(|bytes| Sketch::new(bytes, shingles));
    let document = simdb::Document::new(key, fingerprint.map(Fingerprint::from_bits));
    Ok(Document::of(
        document
            .with_sketch(sketch.transpose().or_raise(py)?)
            .with_seen(seen)
            .with_repeats(repeats)
            .with_rank(rank)
            .with_scope(scope)
            .with_payload(payload),
    ))
}

/// A stored document that is near.
#[pyclass(module = "simdb", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct Match {
    document: Arc<simdb::Document>,
    /// The number of bits, 0 to 64, in which the fingerprints differ.
    #[pyo3(get)]
    distance: u32,
    /// The estimated share of four-word sequences that both have, 0 to 1. None without sketches.
    #[pyo3(get)]
    similarity: Option<f64>,
}

impl Match {
    fn of(found: simdb::Match) -> Self {
        Self {
            distance: found.distance,
            similarity: found.similarity.map(|it| it.jaccard()),
            document: Arc::new(found.document),
        }
    }
}

#[pymethods]
impl Match {
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        key_text(py, self.document.key())
    }

    #[getter]
    fn document(&self) -> Document {
        Document(self.document.clone())
    }

    fn __hash__(&self) -> u64 {
        hash_of(&(self.document.key(), self.distance))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = key_text(py, self.document.key())?.repr()?;
        let similarity = match self.similarity {
            Some(similarity) => format!("{similarity:.2}"),
            None => "None".to_owned(),
        };
        Ok(format!(
            "Match({key}, distance={}, similarity={similarity})",
            self.distance
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, (Document, u32, Option<f64>)> {
        let parts = (self.document(), self.distance, self.similarity);
        Ok((unpickle(py, "_match")?, parts))
    }
}

#[pyfunction]
pub(crate) fn _match(
    document: &Bound<'_, Document>,
    distance: u32,
    similarity: Option<f64>,
) -> Match {
    Match {
        document: document.get().0.clone(),
        distance,
        similarity,
    }
}

/// The nearest matches, and how many there are.
#[pyclass(module = "simdb", frozen, eq, sequence)]
#[derive(Clone, PartialEq)]
pub(crate) struct Matches {
    list: Arc<[Match]>,
    /// The number of documents that match, listed or not.
    #[pyo3(get)]
    total: u64,
    /// Whether exactly `total` documents match. Otherwise at least that number match.
    #[pyo3(get)]
    total_is_exact: bool,
}

impl Matches {
    pub(crate) fn of(matches: simdb::Matches) -> Self {
        Self {
            total: matches.total(),
            total_is_exact: matches.total_is_exact(),
            list: matches.into_iter().map(Match::of).collect(),
        }
    }
}

#[pymethods]
impl Matches {
    fn __len__(&self) -> usize {
        self.list.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyTuple::new(py, self.list.iter().cloned())?.try_iter()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        item(py, index, self.list.len(), |at| {
            Ok(Bound::new(py, self.list[at].clone())?.into_any())
        })
    }

    fn __hash__(&self) -> u64 {
        hash_of(&(self.total, self.list.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut shown = Vec::new();
        for found in self.list.iter().take(3) {
            shown.push(found.__repr__(py)?);
        }
        let more = if self.list.len() > 3 { ", …" } else { "" };
        Ok(format!(
            "<Matches [{}{more}], total {}>",
            shown.join(", "),
            self.total
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, (Vec<Match>, u64, bool)> {
        let parts = (self.list.to_vec(), self.total, self.total_is_exact);
        Ok((unpickle(py, "_matches")?, parts))
    }
}

#[pyfunction]
pub(crate) fn _matches(list: Vec<Bound<'_, Match>>, total: u64, total_is_exact: bool) -> Matches {
    Matches {
        list: list.iter().map(|found| found.get().clone()).collect(),
        total,
        total_is_exact,
    }
}

/// The item of a sequence at an index, which may be negative or a slice.
fn item<'py>(
    py: Python<'py>,
    index: &Bound<'py, PyAny>,
    length: usize,
    at: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(slice) = index.cast::<PySlice>() {
        let indices = slice.indices(length as isize)?;
        let mut place = indices.start;
        let mut items = Vec::with_capacity(indices.slicelength);
        for _ in 0..indices.slicelength {
            items.push(at(place as usize)?);
            place += indices.step;
        }
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    let index: isize = index.extract()?;
    let index = if index < 0 {
        index + length as isize
    } else {
        index
    };
    match usize::try_from(index) {
        Ok(index) if index < length => at(index),
        _ => Err(PyIndexError::new_err("the index is out of range")),
    }
}

/// What was done with a document, and what is near to it.
#[pyclass(module = "simdb", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct Verdict {
    change: &'static str,
    /// Whether the text was too short to judge. It is stored, and near to nothing.
    #[pyo3(get)]
    too_short: bool,
    matches: Matches,
    replaced: Option<Arc<simdb::Document>>,
    deleted: Vec<Arc<simdb::Document>>,
}

const CHANGES: [&str; 3] = ["inserted", "replaced", "skipped"];

impl Verdict {
    pub(crate) fn of(verdict: &simdb::Verdict, too_short: bool) -> Self {
        let mut deleted = Vec::with_capacity(verdict.deleted().len());
        for document in verdict.deleted() {
            deleted.push(Arc::new(document.clone()));
        }
        let (change, replaced) = match verdict.change() {
            Change::Replaced(old) => (CHANGES[1], Some(Arc::new(old.clone()))),
            Change::Skipped => (CHANGES[2], None),
            _ => (CHANGES[0], None),
        };
        Self {
            change,
            too_short,
            matches: Matches::of(verdict.matches().clone()),
            replaced,
            deleted,
        }
    }
}

#[pymethods]
impl Verdict {
    /// Whether something near was stored before.
    #[getter]
    fn is_duplicate(&self) -> bool {
        self.matches.total > 0
    }

    /// Whether nothing near was stored before, but for an earlier one of the same key. The opposite of is_duplicate,
    /// except for a text that is too short, which is neither.
    #[getter]
    fn is_new(&self) -> bool {
        !self.is_duplicate() && !self.too_short
    }

    /// "inserted", "replaced" (its key was there) or "skipped".
    #[getter]
    fn change(&self) -> &'static str {
        self.change
    }

    #[getter]
    fn stored(&self) -> bool {
        self.change != CHANGES[2]
    }

    #[getter]
    fn nearest(&self) -> Option<Match> {
        self.matches.list.first().cloned()
    }

    #[getter]
    fn matches(&self) -> Matches {
        self.matches.clone()
    }

    /// The document of the same key that was there before.
    #[getter]
    fn replaced(&self) -> Option<Document> {
        self.replaced.clone().map(Document)
    }

    /// What it outranked, with `on_match="replace"`.
    #[getter]
    fn deleted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.deleted.iter().cloned().map(Document))
    }

    /// Raises TypeError: `if verdict` could mean both. Ask is_new or is_duplicate.
    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "`if verdict` could mean both: ask verdict.is_new or verdict.is_duplicate",
        ))
    }

    fn __hash__(&self) -> u64 {
        hash_of(&(self.change, self.matches.total))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let nearest = match self.nearest() {
            Some(nearest) => nearest.__repr__(py)?,
            None => "None".to_owned(),
        };
        Ok(format!(
            "<Verdict {}, is_new={}, nearest={nearest}>",
            self.change,
            if self.is_new() { "True" } else { "False" }
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, VerdictParts> {
        let deleted = self.deleted.iter().cloned().map(Document).collect();
        let parts = (
            self.change,
            self.too_short,
            self.matches.clone(),
            self.replaced(),
            deleted,
        );
        Ok((unpickle(py, "_verdict")?, parts))
    }
}

type VerdictParts = (&'static str, bool, Matches, Option<Document>, Vec<Document>);

#[pyfunction]
pub(crate) fn _verdict(
    py: Python<'_>,
    change: &str,
    too_short: bool,
    matches: &Bound<'_, Matches>,
    replaced: Option<&Bound<'_, Document>>,
    deleted: Vec<Bound<'_, Document>>,
) -> PyResult<Verdict> {
    let change = CHANGES.into_iter().find(|known| *known == change);
    Ok(Verdict {
        change: change.ok_or_else(|| input_error(py, "no such change", None))?,
        too_short,
        matches: matches.get().clone(),
        replaced: replaced.map(|document| document.get().0.clone()),
        deleted: deleted
            .iter()
            .map(|document| document.get().0.clone())
            .collect(),
    })
}

/// Two fingerprints that are near, and a key of each.
#[pyclass(module = "simdb", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct Pair {
    a: Vec<u8>,
    b: Vec<u8>,
    #[pyo3(get)]
    distance: u32,
    /// The estimated share of four-word sequences that both have, 0 to 1. None if it was not looked at.
    #[pyo3(get)]
    similarity: Option<f64>,
}

impl Pair {
    pub(crate) fn of(pair: simdb::Pair) -> Self {
        Self {
            a: pair.a.newest_key,
            b: pair.b.newest_key,
            distance: pair.distance,
            similarity: pair.similarity,
        }
    }
}

#[pymethods]
impl Pair {
    #[getter]
    fn a<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        key_text(py, &self.a)
    }

    #[getter]
    fn b<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        key_text(py, &self.b)
    }

    fn __hash__(&self) -> u64 {
        hash_of(&(&self.a, &self.b))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let a = self.a(py)?.repr()?;
        let b = self.b(py)?.repr()?;
        Ok(format!("Pair({a}, {b}, distance={})", self.distance))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, PairParts<'py>> {
        let [a, b] = [&self.a, &self.b].map(|key| PyBytes::new(py, key));
        Ok((
            unpickle(py, "_pair")?,
            (a, b, self.distance, self.similarity),
        ))
    }
}

/// What a pair is pickled as.
type PairParts<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, u32, Option<f64>);

#[pyfunction]
pub(crate) fn _pair(a: Vec<u8>, b: Vec<u8>, distance: u32, similarity: Option<f64>) -> Pair {
    Pair {
        a,
        b,
        distance,
        similarity,
    }
}

/// The keys of documents that are near each other, the survivor first.
#[pyclass(module = "simdb", frozen, eq, sequence)]
#[derive(PartialEq)]
pub(crate) struct Cluster {
    keys: Vec<Vec<u8>>,
}

impl Cluster {
    pub(crate) fn of(cluster: simdb::Cluster) -> Self {
        let mut keys = Vec::with_capacity(cluster.documents.len());
        for document in cluster.documents {
            keys.push(document.key);
        }
        keys[..=cluster.survivor].rotate_right(1);
        Self { keys }
    }
}

#[pymethods]
impl Cluster {
    #[getter]
    fn survivor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        key_text(py, &self.keys[0])
    }

    #[getter]
    fn duplicates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        texts(py, &self.keys[1..])
    }

    fn __len__(&self) -> usize {
        self.keys.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        texts(py, &self.keys)?.try_iter()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        item(py, index, self.keys.len(), |at| {
            Ok(key_text(py, &self.keys[at])?.into_any())
        })
    }

    fn __hash__(&self) -> u64 {
        hash_of(&self.keys)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let survivor = self.survivor(py)?.repr()?;
        Ok(format!(
            "<Cluster of {}, survivor {survivor}>",
            self.keys.len()
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Reduced<'py, (Bound<'py, PyTuple>,)> {
        let keys = PyTuple::new(py, self.keys.iter().map(|key| PyBytes::new(py, key)))?;
        Ok((unpickle(py, "_cluster")?, (keys,)))
    }
}

#[pyfunction]
pub(crate) fn _cluster(py: Python<'_>, keys: Vec<Vec<u8>>) -> PyResult<Cluster> {
    match keys.is_empty() {
        true => Err(input_error(py, "a cluster has at least one key", None)),
        false => Ok(Cluster { keys }),
    }
}

/// The texts of keys.
fn texts<'py>(py: Python<'py>, keys: &[Vec<u8>]) -> PyResult<Bound<'py, PyTuple>> {
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys {
        texts.push(key_text(py, key)?);
    }
    PyTuple::new(py, texts)
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
