//! Question: what a call says of what is near and what is to happen then, by named arguments.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use simdb::{
    Clustering, Document, Expiry, Near, OnMatch, Policy, Query, Scheme, SketchSize, Survivor,
};

use crate::convert::{self, wrong_type};
use crate::errors::{OrRaise, input_error, not_taken};
use crate::fingerprinter::sketch_size;

/// An option that the caller gave, or not.
pub(crate) trait Given: Sized {
    /// Sets what was given. Otherwise the default stays.
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<O> Given for O {}

/// The named arguments of a call, which are taken one after the other.
pub(crate) struct Named<'py>(Bound<'py, PyDict>);

impl<'py> Named<'py> {
    pub(crate) fn new(py: Python<'py>, named: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        // A copy, since what is taken is taken out.
        let copied = match named {
            Some(named) => named.copy()?,
            None => PyDict::new(py),
        };
        Ok(Self(copied))
    }

    /// Adds an argument that came by its place.
    pub(crate) fn put<T: IntoPyObject<'py>>(&self, name: &str, given: Option<T>) -> PyResult<()> {
        match given {
            Some(given) => self.0.set_item(name, given),
            None => Ok(()),
        }
    }

    /// Adds an argument that did not come.
    pub(crate) fn default(&self, name: &str, value: impl IntoPyObject<'py>) -> PyResult<()> {
        match self.0.contains(name)? {
            true => Ok(()),
            false => self.0.set_item(name, value),
        }
    }

    /// The argument of a name, unless it is None.
    pub(crate) fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(given) = self.0.get_item(name)? else {
            return Ok(None);
        };
        self.0.del_item(name)?;
        Ok((!given.is_none()).then_some(given))
    }

    /// What `convert` makes of the argument of a name.
    pub(crate) fn take_by<T>(
        &self,
        name: &str,
        convert: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let given = self.take(name)?;
        given.as_ref().map(convert).transpose()
    }

    pub(crate) fn take_as<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        let Some(given) = self.take(name)? else {
            return Ok(None);
        };
        let extracted = given.extract::<T>().map_err(Into::into);
        extracted
            .map(Some)
            .map_err(|error| not_taken(self.0.py(), name, error))
    }

    /// How fingerprints are made.
    pub(crate) fn take_scheme(&self) -> PyResult<Option<Scheme>> {
        match self.take_as::<String>("scheme")? {
            Some(scheme) => scheme.parse().map(Some).or_raise(self.0.py()),
            None => Ok(None),
        }
    }

    pub(crate) fn take_sketch_size(&self) -> PyResult<Option<SketchSize>> {
        match self.take_as("sketch_bytes")? {
            Some(bytes) => sketch_size(self.0.py(), bytes).map(Some),
            None => Ok(None),
        }
    }

    /// What the document has beside its key and its content.
    pub(crate) fn take_parts(&self, document: Document) -> PyResult<Document> {
        Ok(document
            .given(self.take_by("seen", convert::seconds)?, Document::with_seen)
            .given(self.take_as("repeats")?, Document::with_repeats)
            .given(self.take_by("rank", convert::rank)?, Document::with_rank)
            .given(self.take_as::<String>("scope")?, Document::with_scope)
            .given(self.take_as::<Vec<u8>>("payload")?, Document::with_payload))
    }

    /// How near documents have to be, of any time and scope.
    pub(crate) fn take_bounds(&self) -> PyResult<Near> {
        Ok(Near::new()
            .given(self.take_as("max_distance")?, Near::max_distance)
            .given(self.take_as("min_similarity")?, Near::min_similarity))
    }

    pub(crate) fn take_near(&self) -> PyResult<Near> {
        Ok(self
            .take_bounds()?
            .given(self.take_by("since", convert::seconds)?, Near::since)
            .given(self.take_by("scopes", names_of_scopes)?, Near::scopes))
    }

    pub(crate) fn take_policy(&self) -> PyResult<Policy> {
        let on_match = match self.take_as::<String>("on_match")?.as_deref() {
            None | Some("skip") => OnMatch::Skip,
            Some("link") => OnMatch::Link,
            Some("replace") => OnMatch::Replace,
            Some(other) => {
                let message =
                    format!("on_match is \"skip\", \"link\" or \"replace\", not {other:?}");
                return Err(input_error(self.0.py(), &message, None));
            }
        };
        Ok(Policy::new(on_match)
            .near(self.take_near()?)
            .given(self.take_as("keep")?, Policy::keep)
            .given(self.take_as("touch")?, Policy::touch)
            .given(self.take_as("limit")?, Policy::limit))
    }

    /// What is asked of a query, whatever its fingerprint.
    pub(crate) fn take_query(&self) -> PyResult<impl Fn(Query) -> Query + use<>> {
        let near = self.take_near()?;
        let limit = self.take_as("limit")?;
        let nearest = self.take_as("nearest")?;
        if limit.is_some() && nearest.is_some() {
            let message = "nearest says how many are listed, so limit cannot stand beside it";
            return Err(input_error(self.0.py(), message, None));
        }
        Ok(move |query: Query| {
            let query = query.near(near.clone());
            match nearest {
                Some(n) => query.nearest(n),
                None => query.limit(limit.unwrap_or(10)),
            }
        })
    }

    /// Which of the documents that are `near` survive.
    pub(crate) fn take_clustering(&self, near: Near) -> PyResult<Clustering> {
        Ok(Clustering::new()
            .near(near)
            .given(self.take_survivors()?, Clustering::survivor)
            .given(self.take_as("connected")?, Clustering::connected))
    }

    /// The order of survivors.
    pub(crate) fn take_survivors(&self) -> PyResult<Option<Vec<Survivor>>> {
        let Some(order) = self.take_as::<Vec<String>>("survivor")? else {
            return Ok(None);
        };
        let mut survivors = Vec::with_capacity(order.len());
        for name in order {
            survivors.push(survivor(self.0.py(), &name)?);
        }
        Ok(Some(survivors))
    }

    /// Refuses what is left: names that the call does not know.
    pub(crate) fn end(&self, call: &str) -> PyResult<()> {
        match self.0.keys().iter().next() {
            None => Ok(()),
            Some(name) => Err(PyTypeError::new_err(format!(
                "{call}() got an unexpected keyword argument '{name}'"
            ))),
        }
    }
}

/// Which documents `expire` removes. Not all, by a slip.
pub(crate) fn expiry(
    before: Option<&Bound<'_, PyAny>>,
    scopes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Expiry> {
    if before.is_none() && scopes.is_none() {
        return Err(PyTypeError::new_err(
            "expire() needs before, scopes or both",
        ));
    }
    let before = before.map(convert::seconds).transpose()?;
    let scopes = scopes.map(names_of_scopes).transpose()?;
    Ok(Expiry::new()
        .given(before, Expiry::before)
        .given(scopes, Expiry::scopes))
}

fn names_of_scopes(scopes: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if scopes.is_instance_of::<PyString>() {
        return Err(wrong_type(
            "scopes are several, as in scopes=[\"en\"]",
            scopes,
        ));
    }
    let mut names = Vec::new();
    for name in scopes.try_iter()? {
        let name = name?.extract::<String>();
        names.push(name.map_err(|error| not_taken(scopes.py(), "scopes", error))?);
    }
    Ok(names)
}

fn survivor(py: Python<'_>, name: &str) -> PyResult<Survivor> {
    Ok(match name {
        "rank" => Survivor::Rank,
        "earliest" => Survivor::Earliest,
        "latest" => Survivor::Latest,
        "longest" => Survivor::Longest,
        "shortest_key" => Survivor::ShortestKey,
        _ => {
            let message = format!(
                "a survivor is chosen by \"rank\", \"earliest\", \"latest\", \"longest\" or \"shortest_key\", not {name:?}"
            );
            return Err(input_error(py, &message, None));
        }
    })
}
