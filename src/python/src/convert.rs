//! What Python gives, as simdb takes it: keys, texts, times, ranks, fingerprints.

use arrow_array::ArrayRef;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyDelta, PyFloat, PyInt, PyString};

use crate::columns::text_at;
use crate::errors::{at, input_error, is_of_caller, not_taken};

/// The bytes of a key: those of a text, where bytes that are no text stand as `os.fsdecode` gives them.
pub(crate) fn key_bytes(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = key.cast::<PyString>() {
        if let Ok(text) = text.to_str() {
            return Ok(text.as_bytes().to_vec());
        }
        let encoded = text.call_method1(
            intern!(key.py(), "encode"),
            ("utf-8", intern!(key.py(), "surrogateescape")),
        );
        let encoded = encoded.map_err(|error| not_taken(key.py(), "key", error))?;
        return Ok(encoded.cast::<PyBytes>()?.as_bytes().to_vec());
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    Err(wrong_type("a key is a str or bytes", key))
}

/// The bytes of many keys. A single key is refused: its characters would be keys.
pub(crate) fn bytes_of_keys(keys: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
        return Err(wrong_type("keys are a list of str or bytes", keys));
    }
    let mut all = Vec::new();
    for key in keys.try_iter()? {
        let bytes = key_bytes(&key?);
        all.push(bytes.map_err(|error| at(keys.py(), error, all.len()))?);
    }
    Ok(all)
}

/// The text of a key, the opposite of [`key_bytes`].
pub(crate) fn key_text<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
    if let Ok(text) = std::str::from_utf8(key) {
        return Ok(PyString::new(py, text));
    }
    let decoded = PyBytes::new(py, key).call_method1(
        intern!(py, "decode"),
        ("utf-8", intern!(py, "surrogateescape")),
    )?;
    Ok(decoded.cast_into::<PyString>()?)
}

/// A text. Halves of characters, which no encoding has, stand as the character for what is unknown.
#[derive(Debug)]
pub(crate) enum Text {
    OfPython(PyBackedStr),
    Owned(String),
    /// A row of a column of texts.
    Row(ArrayRef, usize),
}

impl Text {
    pub(crate) fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(text) = text.cast::<PyString>() else {
            return Err(wrong_type("a text is a str", text));
        };
        match PyBackedStr::try_from(text.clone()) {
            Ok(text) => Ok(Self::OfPython(text)),
            Err(_) => Ok(Self::Owned(without_halves(text)?)),
        }
    }
}

/// The text with one character for each half of a character. So all others stay in their places.
fn without_halves(text: &Bound<'_, PyString>) -> PyResult<String> {
    let encoded = text.call_method1(intern!(text.py(), "encode"), ("utf-8", "surrogatepass"))?;
    let mut bytes = encoded.cast::<PyBytes>()?.as_bytes().to_vec();
    for at in 0..bytes.len().saturating_sub(2) {
        // What begins so is a half, which UTF-8 does not have. It takes as many bytes as what stands in its place.
        if bytes[at] == 0xed && bytes[at + 1] >= 0xa0 {
            bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        match self {
            Self::OfPython(text) => text,
            Self::Owned(text) => text,
            Self::Row(array, at) => text_at(array, *at),
        }
    }
}

/// Unix seconds: of a number, or of a datetime that knows its zone.
pub(crate) fn seconds(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = time.py();
    if time.is_instance_of::<PyInt>() {
        return time.extract().map_err(|_| too_many_seconds(py));
    }
    let number = if time.is_instance_of::<PyFloat>() {
        time.extract::<f64>()?
    } else if time.hasattr(intern!(py, "timestamp"))? && time.hasattr(intern!(py, "tzinfo"))? {
        let offset = time.call_method0(intern!(py, "utcoffset"))?;
        if !offset.is_instance_of::<PyDelta>() {
            let message =
                "a datetime without a zone could be any of many times: give one with tzinfo";
            return Err(input_error(py, message, None));
        }
        time.call_method0(intern!(py, "timestamp"))?.extract()?
    } else {
        return time.extract().map_err(|error: PyErr| {
            if is_of_caller(py, &error) {
                error
            } else if error.is_instance_of::<PyOverflowError>(py) {
                too_many_seconds(py)
            } else {
                wrong_type("a time is a number of Unix seconds or a datetime", time)
            }
        });
    };
    if !number.is_finite() {
        return Err(input_error(py, &format!("{number} is no time"), None));
    }
    // Both ends are numbers of 64 bits, the first of which is a whole one.
    if !(i64::MIN as f64..i64::MAX as f64).contains(&number) {
        return Err(too_many_seconds(py));
    }
    Ok(number.floor() as i64)
}

fn too_many_seconds(py: Python<'_>) -> PyErr {
    input_error(py, "a time of so many seconds cannot be", None)
}

/// A rank: a number, or several that are compared in order.
pub(crate) fn rank(rank: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    if rank.is_instance_of::<PyInt>() {
        return Ok(vec![number_of_rank(rank)?]);
    }
    // Of texts and bytes, the parts are numbers or are like them.
    if rank.is_instance_of::<PyString>() || rank.is_instance_of::<PyBytes>() {
        return Err(wrong_type("a rank is a number or several", rank));
    }
    match rank.try_iter() {
        Ok(numbers) => numbers.map(|number| number_of_rank(&number?)).collect(),
        // A number of numpy is no `int`.
        Err(_) if rank.hasattr(intern!(rank.py(), "__index__"))? => Ok(vec![number_of_rank(rank)?]),
        Err(error) => Err(error),
    }
}

fn number_of_rank(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = number.py();
    let wanted = "a rank is made of whole numbers of 64 bits";
    number
        .extract()
        .map_err(|error: PyErr| match is_of_caller(py, &error) {
            true => error,
            false => input_error(py, wanted, None),
        })
}

/// The bits of a fingerprint.
pub(crate) fn fingerprint(bits: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = bits.py();
    let wanted = "a fingerprint is a number of 64 bits, from 0 to 2**64 - 1";
    bits.extract().map_err(|error: PyErr| {
        let is_too_large = error.is_instance_of::<PyOverflowError>(py);
        match is_too_large && !is_of_caller(py, &error) {
            true => input_error(py, wanted, None),
            false => error,
        }
    })
}

/// A `TypeError` that names the type that was given.
pub(crate) fn wrong_type(wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let given = given.get_type().name().map_or_else(
        |_| "something else".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    PyTypeError::new_err(format!("{wanted}, not {given}"))
}
