//! The near-duplicates among some texts, without a database of one's own.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use simdb::{ClusterEvent, Clustering, CreateOptions, Error, Fingerprinter, Scheme, Survivor};

use crate::columns::contents;
use crate::content::Content;
use crate::errors::input_error;
use crate::fingerprinter::{judge_all, of_judged};
use crate::question::Named;
use crate::signals::stoppable;

/// For each text, the index of the one before it that it nearly repeats and that stays, or None if it stays itself.
///
/// Each is compared with all, exactly. Of texts that are too short to judge, only equal ones are duplicates. It needs
/// no database; for corpora that do not fit in memory use `dedup`, or a database.
#[pyfunction]
#[pyo3(signature = (texts, **named))]
#[pyo3(text_signature = "(texts, *, max_distance=10, min_similarity=0.7)")]
pub(crate) fn duplicates<'py>(
    py: Python<'py>,
    texts: &Bound<'py, PyAny>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Option<usize>>> {
    let named = Named::new(py, named)?;
    // The defaults of `dedup`: all are compared at once, so it looks further than a database that grows.
    named.default("max_distance", 10)?;
    named.default("min_similarity", 0.7)?;
    let near = named.take_bounds()?;
    named.end("duplicates")?;
    let contents = contents(texts)?;
    let not_a_text = contents
        .iter()
        .position(|it| !matches!(it, Content::Text(_)));
    if let Some(index) = not_a_text {
        let message = format!("item {index} is no text");
        return Err(input_error(py, &message, Some(index)));
    }
    let found = stoppable(py, |stop| {
        let judged = judge_all(&contents, &Fingerprinter::new(Scheme::default()), stop)?;
        let mut kept = vec![None; contents.len()];
        let mut short: HashMap<&str, usize> = HashMap::new();
        let mut documents = Vec::with_capacity(judged.len());
        for (index, judged) in judged.into_iter().enumerate() {
            match (&contents[index], judged) {
                (Content::Text(text), None) => {
                    let first = *short.entry(text.as_ref()).or_insert(index);
                    kept[index] = (first != index).then_some(first);
                }
                (_, judged) => {
                    let key = (index as u64).to_be_bytes().to_vec();
                    documents.push(Ok(of_judged(key, judged).with_seen(index as i64)));
                }
            }
        }
        let folder = tempfile::tempdir().map_err(|source| Error::Io {
            path: std::env::temp_dir(),
            source: source.into(),
        })?;
        let path = folder.path().join("texts.simdb");
        let options = CreateOptions::new();
        let database =
            simdb::Database::build_with(&path, &options, documents, 64 << 20, |_, _| stop.flow())?;
        let clustering = Clustering::new().near(near).survivor([Survivor::Earliest]);
        database.snapshot()?.clusters(&clustering, |event| {
            if let ClusterEvent::Cluster(cluster) = event {
                let survivor = index_of(&cluster.documents[cluster.survivor].key);
                for document in &cluster.documents {
                    let index = index_of(&document.key);
                    kept[index] = (index != survivor).then_some(survivor);
                }
            }
            stop.flow()
        })?;
        Ok(kept)
    })?;
    Ok(found)
}

/// The index that a key stands for.
fn index_of(key: &[u8]) -> usize {
    let bytes = key.try_into().expect("each key has eight bytes");
    u64::from_be_bytes(bytes) as usize
}
