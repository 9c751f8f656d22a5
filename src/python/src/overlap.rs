//! How much of a text stood elsewhere. The answer is made of the classes of simdb/_overlap.py.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use simdb::{FirstMatch, OverlapQuery, Snapshot, Unit};

use crate::content::Content;
use crate::convert::{key_bytes, key_text};
use crate::errors::{OrRaise, input_error};
use crate::question::{Given as _, Named};
use crate::signals::stoppable;

/// Asks how much of a text stood elsewhere, in what `snapshot` gives.
pub(crate) fn overlap<'py>(
    py: Python<'py>,
    text: Option<&Bound<'py, PyAny>>,
    named: Option<&Bound<'py, PyDict>>,
    snapshot: impl FnOnce() -> simdb::Result<Snapshot> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    overlap_told_by(py, text, named, |text, query| {
        stoppable(py, |stop| {
            snapshot()?.overlap_with(text, query, |_, _| stop.flow())
        })
    })
}

/// What `tell` says of how much of a text stood elsewhere.
pub(crate) fn overlap_told_by<'py>(
    py: Python<'py>,
    text: Option<&Bound<'py, PyAny>>,
    named: Option<&Bound<'py, PyDict>>,
    tell: impl FnOnce(&str, &OverlapQuery) -> PyResult<simdb::Overlap>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = Named::new(py, named)?;
    let content = Content::take(text, &named)?;
    let query = take_query(py, &named)?;
    named.end("overlap")?;
    let text = match content {
        Content::Text(text) => text.as_ref().to_owned(),
        Content::Page(page) => py
            .detach(|| Ok(Unit::text_of_html(&page.decoded()?)))
            .or_raise(py)?,
        _ => return Err(PyTypeError::new_err("text or html is wanted")),
    };
    answer(py, &text, &tell(&text, &query)?)
}

fn take_query(py: Python<'_>, named: &Named<'_>) -> PyResult<OverlapQuery> {
    let mut query = OverlapQuery::new().near(named.take_near()?);
    match named.take_as::<String>("unit")?.as_deref() {
        None | Some("sentence") => {}
        Some("paragraph") => query = query.unit(Unit::Paragraph),
        Some(other) => {
            let message = format!("unit is \"sentence\" or \"paragraph\", not {other:?}");
            return Err(input_error(py, &message, None));
        }
    }
    Ok(query
        .given(named.take_by("without", key_bytes)?, OverlapQuery::without)
        .given(named.take_as("limit")?, OverlapQuery::limit))
}

fn answer<'py>(
    py: Python<'py>,
    text: &str,
    overlap: &simdb::Overlap,
) -> PyResult<Bound<'py, PyAny>> {
    let classes = PyModule::import(py, "simdb._overlap")?;
    let document_class = classes.getattr("OverlapDocument")?;
    let mut documents = Vec::with_capacity(overlap.documents.len());
    for document in &overlap.documents {
        documents.push(document_class.call1((
            key_text(py, &document.key)?,
            document.units,
            document.characters,
            document.share,
            document.first_units,
            document.seen,
        ))?);
    }
    let units = units(py, &classes, text, overlap)?;
    classes.getattr("Overlap")?.call1((
        overlap.share(),
        overlap.judged,
        overlap.too_short,
        overlap.found,
        overlap.characters,
        overlap.found_characters,
        PyTuple::new(py, documents)?,
        overlap.total_documents,
        PyTuple::new(py, units)?,
    ))
}

/// The units of a text. Their places are counted in characters, as Python counts them.
fn units<'py>(
    py: Python<'py>,
    classes: &Bound<'py, PyModule>,
    text: &str,
    overlap: &simdb::Overlap,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let class = classes.getattr("OverlapUnit")?;
    let first_class = classes.getattr("FirstMatch")?;
    let first_match = |first: &FirstMatch| {
        first_class.call1((
            key_text(py, &first.key)?,
            key_text(py, first.document())?,
            first.seen,
            first.distance,
            first.similarity.map(|it| it.jaccard()),
        ))
    };
    let mut units = Vec::with_capacity(overlap.units.len());
    let mut behind = 0;
    let mut characters = 0;
    for unit in &overlap.units {
        let start = characters + text[behind..unit.range.start].chars().count() as u64;
        behind = unit.range.end;
        characters = start + unit.characters;
        units.push(class.call1((
            &text[unit.range.clone()],
            start,
            characters,
            unit.is_too_short,
            unit.first().map(first_match).transpose()?,
        ))?);
    }
    Ok(units)
}
