//! Fingerprinter: makes fingerprints, without a database.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use simdb::{Fingerprint, Scheme, SketchSize};

use crate::columns::contents;
use crate::content::{Content, Judged, Page};
use crate::convert::{Text, key_bytes};
use crate::documents::Document;
use crate::errors::{OrRaise, input_error};
use crate::question::Named;
use crate::signals::{Stop, detached, stoppable};

/// Makes fingerprints. It is small, can be pickled, and needs no database.
#[pyclass(module = "simdb", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct Fingerprinter(pub(crate) simdb::Fingerprinter);

/// The size of sketches of so many bytes.
pub(crate) fn sketch_size(py: Python<'_>, bytes: usize) -> PyResult<SketchSize> {
    let size = SketchSize::from_bytes(bytes);
    size.ok_or_else(|| {
        let message = format!("a sketch has 0, 16 or 32 bytes, not {bytes}");
        input_error(py, &message, None)
    })
}

/// The texts that are judged before it is looked whether to stop: so many, or of so many bytes.
const MOST_TEXTS: usize = 10_000;
const MOST_BYTES: usize = 8 << 20;

/// The fingerprints and sketches of many texts and fingerprints, on all cores for texts. They are made until it is to
/// stop.
pub(crate) fn judge_all(
    contents: &[Content],
    fingerprinter: &simdb::Result<simdb::Fingerprinter>,
    stop: &Stop,
) -> simdb::Result<Vec<Judged>> {
    let mut judged = Vec::with_capacity(contents.len());
    while judged.len() < contents.len() {
        stop.ensure_wanted()?;
        let rest = &contents[judged.len()..];
        let part = &rest[..length_of_part(rest)];
        judged.append(&mut judge_part(part, fingerprinter)?);
    }
    Ok(judged)
}

/// The number of contents that are judged together. There is at least one.
fn length_of_part(contents: &[Content]) -> usize {
    let mut bytes = 0;
    for (length, content) in contents.iter().enumerate() {
        if length == MOST_TEXTS || bytes >= MOST_BYTES {
            return length;
        }
        if let Content::Text(text) = content {
            bytes += text.as_ref().len();
        }
    }
    contents.len()
}

fn judge_part(
    contents: &[Content],
    fingerprinter: &simdb::Result<simdb::Fingerprinter>,
) -> simdb::Result<Vec<Judged>> {
    let mut texts = Vec::new();
    for content in contents {
        if let Content::Text(text) = content {
            texts.push(text.as_ref());
        }
    }
    let mut judged_texts = match fingerprinter {
        _ if texts.is_empty() => Vec::new(),
        Ok(fingerprinter) => fingerprinter.fingerprints_and_sketches(&texts),
        Err(error) => return Err(error.clone()),
    }
    .into_iter();
    let mut judged = Vec::with_capacity(contents.len());
    for content in contents {
        judged.push(match content {
            Content::Text(_) => judged_texts.next().expect("each text is judged"),
            content => content.judge(fingerprinter)?,
        });
    }
    Ok(judged)
}

#[pymethods]
impl Fingerprinter {
    #[new]
    #[pyo3(signature = (scheme="minwise-1", *, sketch_bytes=16))]
    fn new(py: Python<'_>, scheme: &str, sketch_bytes: usize) -> PyResult<Self> {
        let scheme: Scheme = scheme.parse().or_raise(py)?;
        let fingerprinter = simdb::Fingerprinter::new(scheme).or_raise(py)?;
        Ok(Self(
            fingerprinter.with_sketch_size(sketch_size(py, sketch_bytes)?),
        ))
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        self.0.scheme().name()
    }

    #[getter]
    fn sketch_bytes(&self) -> usize {
        self.0.sketch_size().bytes()
    }

    /// The fingerprint of a text. None: it is too short to judge.
    fn fingerprint(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let text = Text::new(text)?;
        let fingerprint = py.detach(|| self.0.fingerprint(text.as_ref()));
        Ok(fingerprint.map(Fingerprint::bits))
    }

    /// The fingerprint of the text of an HTML page. The encoding of bytes is looked for in them.
    fn fingerprint_html(&self, py: Python<'_>, html: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let page = Page::new(html)?;
        let fingerprint = py.detach(|| Ok(self.0.fingerprint(&page.text(&self.0)?)));
        Ok(fingerprint.or_raise(py)?.map(Fingerprint::bits))
    }

    /// The fingerprints of many texts, on all cores. Other threads run meanwhile, and Ctrl-C stops it.
    fn fingerprint_many(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Option<u64>>> {
        let contents = contents(texts)?;
        let fingerprinter = Ok(self.0.with_sketch_size(SketchSize::None));
        let judged = stoppable(py, |stop| judge_all(&contents, &fingerprinter, stop))?;
        let mut fingerprints = Vec::with_capacity(contents.len());
        for judged in judged {
            fingerprints.push(judged.map(|(fingerprint, _)| fingerprint.bits()));
        }
        Ok(fingerprints)
    }

    /// The document of a key and a text, with fingerprint and sketch, for insert_many_if_new or for another process.
    #[pyo3(signature = (key, text=None, **named))]
    #[pyo3(
        text_signature = "($self, key, text=None, *, html=None, features=None, seen=None, repeats=0, rank=(), \
                             scope='', payload=b'')"
    )]
    fn document<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        text: Option<&Bound<'py, PyAny>>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Document> {
        let named = Named::new(py, named)?;
        let content = Content::take(text, &named)?;
        if matches!(content, Content::Fingerprint(_)) {
            let message = "a fingerprint is made here: text, html or features is wanted";
            return Err(PyTypeError::new_err(message));
        }
        let parts = named.take_parts(simdb::Document::new(key_bytes(key)?, None))?;
        named.end("document")?;
        let judged = detached(py, || content.judge(&Ok(self.0)))?;
        let document = with_judged(&parts, judged);
        document.validate().or_raise(py)?;
        Ok(Document::of(document))
    }

    /// The text of a page from which its fingerprint is made.
    fn text_of_html(&self, py: Python<'_>, html: &Bound<'_, PyAny>) -> PyResult<String> {
        let page = Page::new(html)?;
        py.detach(|| page.text(&self.0)).or_raise(py)
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.0.scheme().number()) << 8 | self.0.sketch_size().bytes() as u64
    }

    fn __repr__(&self) -> String {
        format!(
            "Fingerprinter({:?}, sketch_bytes={})",
            self.scheme(),
            self.sketch_bytes()
        )
    }

    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<((&'static str,), Bound<'py, PyDict>)> {
        let named = PyDict::new(py);
        named.set_item("sketch_bytes", self.sketch_bytes())?;
        Ok(((self.scheme(),), named))
    }
}

/// The document of a key and what is known of its content.
pub(crate) fn of_judged(key: Vec<u8>, judged: Judged) -> simdb::Document {
    match judged {
        Some((fingerprint, sketch)) => simdb::Document::new(key, fingerprint).with_sketch(sketch),
        None => simdb::Document::new(key, None),
    }
}

/// A document with what is known of its content.
pub(crate) fn with_judged(document: &simdb::Document, judged: Judged) -> simdb::Document {
    of_judged(document.key().to_vec(), judged)
        .with_seen(document.seen())
        .with_repeats(document.repeats())
        .with_rank(document.rank())
        .with_scope(document.scope())
        .with_payload(document.payload())
}
