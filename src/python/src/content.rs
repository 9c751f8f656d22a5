//! Content: what a document is made of, and its fingerprint and sketch.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use simdb::{Fingerprint, Fingerprinter, Query, Sketch};

use crate::convert::{self, Text};
use crate::documents::Matches;
use crate::question::Named;
use crate::signals::detached;

/// One of the kinds of content that a document may have.
#[derive(Debug)]
pub(crate) enum Content {
    Text(Text),
    Page(Page),
    Fingerprint(u64),
    /// Words of the caller, with their weights.
    Features(Vec<(Vec<u8>, f64)>),
}

/// An HTML page.
#[derive(Debug)]
pub(crate) enum Page {
    Text(Text),
    /// In an encoding that is looked for in them.
    Bytes(Vec<u8>),
}

/// What is known of a content. `None`: it is too short to judge.
pub(crate) type Judged = Option<(Fingerprint, Option<Sketch>)>;

impl Page {
    pub(crate) fn new(page: &Bound<'_, PyAny>) -> PyResult<Self> {
        match page.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::Bytes(bytes.as_bytes().to_vec())),
            Err(_) if page.is_instance_of::<PyString>() => Ok(Self::Text(Text::new(page)?)),
            Err(_) => Err(convert::wrong_type("html is a str or bytes", page)),
        }
    }

    /// The text from which the fingerprint is made.
    pub(crate) fn text(&self, fingerprinter: &Fingerprinter) -> simdb::Result<String> {
        Ok(fingerprinter.text_of_html(&self.decoded()?))
    }

    /// The page with its markup.
    pub(crate) fn decoded(&self) -> simdb::Result<Cow<'_, str>> {
        match self {
            Self::Text(text) => Ok(text.as_ref().into()),
            Self::Bytes(bytes) => {
                let page = simdb::ingest::decode_page(bytes, None);
                page.map(Cow::Owned).map_err(|reason| simdb::Error::Input {
                    source_name: "html".to_owned(),
                    line: None,
                    reason: reason.to_string(),
                })
            }
        }
    }
}

impl Content {
    /// The names of the arguments of which one gives the content, beside the text.
    const NAMES: [&str; 3] = ["html", "fingerprint", "features"];

    /// The one content among the arguments of a call. Takes it out of `named`.
    pub(crate) fn take(text: Option<&Bound<'_, PyAny>>, named: &Named<'_>) -> PyResult<Self> {
        let text = text.map(Text::new).transpose()?;
        let mut content = text.map(Self::Text);
        for name in Self::NAMES {
            let Some(given) = named.take(name)? else {
                continue;
            };
            if content.is_some() {
                let message =
                    "one of text, html, fingerprint and features is wanted, and several are given";
                return Err(PyTypeError::new_err(message));
            }
            content = Some(match name {
                "html" => Self::Page(Page::new(&given)?),
                "fingerprint" => Self::Fingerprint(convert::fingerprint(&given)?),
                _ => Self::Features(features(&given)?),
            });
        }
        content.ok_or_else(|| {
            PyTypeError::new_err("one of text, html, fingerprint and features is wanted")
        })
    }

    /// The fingerprint and the sketch. A fingerprint that is given has no sketch, and needs no fingerprinter.
    pub(crate) fn judge(
        &self,
        fingerprinter: &simdb::Result<Fingerprinter>,
    ) -> simdb::Result<Judged> {
        let fingerprinter = || fingerprinter.as_ref().map_err(Clone::clone);
        match self {
            Self::Fingerprint(bits) => Ok(Some((Fingerprint::from_bits(*bits), None))),
            Self::Text(text) => Ok(fingerprinter()?.fingerprint_and_sketch(text.as_ref())),
            Self::Page(page) => {
                let text = page.text(fingerprinter()?)?;
                Ok(fingerprinter()?.fingerprint_and_sketch(&text))
            }
            Self::Features(features) => fingerprinter()?.fingerprint_and_sketch_features(
                features.iter().map(|(feature, weight)| (feature, *weight)),
            ),
        }
    }

    /// What `answer` finds that is near. A text that is too short to judge is near to nothing.
    pub(crate) fn matches(
        &self,
        py: Python<'_>,
        fingerprinter: &simdb::Result<Fingerprinter>,
        answer: impl FnOnce(Query) -> simdb::Result<simdb::Matches> + Send,
    ) -> PyResult<Matches> {
        let matches = detached(py, || match self.judge(fingerprinter)? {
            Some((fingerprint, sketch)) => answer(Query::new(fingerprint).with_sketch(sketch)),
            None => Ok(simdb::Matches::default()),
        })?;
        Ok(Matches::of(matches))
    }
}

fn features(features: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u8>, f64)>> {
    let mut all = Vec::new();
    for feature in features.try_iter()? {
        let (feature, weight): (Bound<'_, PyAny>, f64) = feature?.extract()?;
        let bytes = match feature.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().to_vec(),
            Err(_) => Text::new(&feature)?.as_ref().as_bytes().to_vec(),
        };
        all.push((bytes, weight));
    }
    Ok(all)
}
