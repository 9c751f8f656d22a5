//! Columns: many texts, fingerprints or keys at once, from Arrow by its capsules, from a buffer of numbers, or one by
//! one.

use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyIterator, PyString, PyTuple};

use crate::content::Content;
use crate::convert::{self, Text};
use crate::errors::{at, input_error, is_of_caller};

/// A column with all its rows in memory.
pub(crate) enum Column {
    Arrow(Chunks),
    Numbers(Vec<u64>),
}

/// The arrays of a column, one behind the other.
pub(crate) struct Chunks {
    arrays: Vec<ArrayRef>,
    /// The row with which each array begins, and behind the last the number of all.
    begins: Vec<usize>,
}

impl Column {
    /// The column that an object gives, or `None` if it is to be gone through one by one.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = given.py();
        if given.hasattr(intern!(py, "__arrow_c_stream__"))? {
            let capsule = given.call_method0(intern!(py, "__arrow_c_stream__"))?;
            return Ok(Some(Self::Arrow(Chunks::of_stream(capsule.cast()?)?)));
        }
        if given.hasattr(intern!(py, "__arrow_c_array__"))? {
            let capsules = given.call_method0(intern!(py, "__arrow_c_array__"))?;
            let array = array_of(capsules.cast()?)?;
            return Ok(Some(Self::Arrow(Chunks::new(py, vec![array])?)));
        }
        if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyString>() {
            return Err(convert::wrong_type("many are wanted", given));
        }
        Self::of_buffer(given)
    }

    fn of_buffer(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = given.py();
        // What is masked is none of the numbers. One by one, it is told.
        if given.hasattr(intern!(py, "mask"))? {
            return Ok(None);
        }
        let Ok(memory) = pyo3::types::PyMemoryView::from(given) else {
            return Ok(None);
        };
        let format: String = memory.getattr(intern!(py, "format"))?.extract()?;
        let dimensions: usize = memory.getattr(intern!(py, "ndim"))?.extract()?;
        if dimensions != 1 {
            let message = format!("a column has one dimension, and this buffer has {dimensions}");
            return Err(input_error(py, &message, None));
        }
        // Objects and texts of a numpy array come one by one.
        if format.ends_with(['O', 'w', 's']) {
            return Ok(None);
        }
        let is_native = !format.starts_with(if cfg!(target_endian = "little") {
            ['>', '!']
        } else {
            ['<', '<']
        });
        let length: usize = memory.getattr(intern!(py, "nbytes"))?.extract()?;
        if length == 0 {
            // What nobody has put anything in is of any type.
            return Ok(Some(Self::Numbers(Vec::new())));
        }
        let buffer = PyBuffer::<u64>::get(given).ok().filter(|_| is_native);
        let Some(buffer) = buffer else {
            let message = format!(
                "a buffer of fingerprints has numbers of 64 bits without a sign, in the order of bytes of this machine \
                 (uint64), not of format {format:?}"
            );
            return Err(PyTypeError::new_err(message));
        };
        Ok(Some(Self::Numbers(buffer.to_vec(py)?)))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Arrow(chunks) => chunks.begins[chunks.arrays.len()],
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// The content of a row: a text or a fingerprint.
    pub(crate) fn content(&self, py: Python<'_>, row: usize) -> PyResult<Content> {
        let chunks = match self {
            Self::Numbers(numbers) => return Ok(Content::Fingerprint(numbers[row])),
            Self::Arrow(chunks) => chunks,
        };
        let (array, at) = chunks.place(row);
        if array.is_null(at) {
            return Err(input_error(
                py,
                &format!("row {row} is null: it has no text"),
                Some(row),
            ));
        }
        Ok(match array.data_type() {
            DataType::UInt64 => Content::Fingerprint(array.as_primitive::<UInt64Type>().value(at)),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let message = "a column of texts (string) or fingerprints (uint64) is wanted, not one of bytes (binary)";
                return Err(PyTypeError::new_err(message));
            }
            _ => Content::Text(Text::Row(array.clone(), at)),
        })
    }

    /// The bytes of a row that is a key.
    pub(crate) fn key(&self, py: Python<'_>, row: usize) -> PyResult<Vec<u8>> {
        let Self::Arrow(chunks) = self else {
            return Err(PyTypeError::new_err(
                "a key is a str or bytes, not a number",
            ));
        };
        let (array, at) = chunks.place(row);
        if array.is_null(at) {
            return Err(input_error(
                py,
                &format!("the key of row {row} is null"),
                Some(row),
            ));
        }
        Ok(match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().value(at).to_vec(),
            DataType::LargeBinary => array.as_binary::<i64>().value(at).to_vec(),
            DataType::BinaryView => array.as_binary_view().value(at).to_vec(),
            DataType::UInt64 => {
                return Err(PyTypeError::new_err(
                    "a key is a str or bytes, not a number",
                ));
            }
            _ => text_at(array, at).as_bytes().to_vec(),
        })
    }
}

impl Chunks {
    fn new(py: Python<'_>, arrays: Vec<ArrayRef>) -> PyResult<Self> {
        let mut begins = vec![0];
        let mut plain = Vec::with_capacity(arrays.len());
        for array in arrays {
            let array = without_dictionary(py, array)?;
            begins.push(begins[begins.len() - 1] + array.len());
            plain.push(array);
        }
        Ok(Self {
            arrays: plain,
            begins,
        })
    }

    #[expect(unsafe_code, reason = "a capsule holds a pointer")]
    fn of_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let py = capsule.py();
        let pointer = pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
        // SAFETY: by its name, the capsule holds a stream, which may be taken out once. What is left releases nothing.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer) };
        let mut arrays = Vec::new();
        let reader = ArrayStreamReader::try_new(stream).map_err(|error| arrow_error(py, &error))?;
        for array in reader {
            arrays.push(array.map_err(|error| arrow_error(py, &error))?);
        }
        Self::new(py, arrays)
    }

    /// The array of a row, and where the row is in it.
    fn place(&self, row: usize) -> (&ArrayRef, usize) {
        let array = self.begins.partition_point(|&begin| begin <= row) - 1;
        (&self.arrays[array], row - self.begins[array])
    }
}

/// Refuses texts that are not UTF-8. Readers of Parquet and others hand over what stands in a file.
fn ensure_utf8(py: Python<'_>, array: &ArrayRef) -> PyResult<()> {
    let values = match array.data_type() {
        DataType::Dictionary(..) => array.as_any_dictionary().values(),
        _ => array,
    };
    if !values.data_type().is_string() {
        return Ok(());
    }
    let valid = values.to_data().validate_full();
    valid.map_err(|error| {
        let message = format!("a text of the column is not UTF-8: {error}");
        input_error(py, &message, None)
    })
}

/// The text of a row.
pub(crate) fn text_at(array: &ArrayRef, at: usize) -> &str {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at),
        _ => array.as_string_view().value(at),
    }
}

/// The array with its values in the place of numbers that stand for them. Refuses what is neither text nor fingerprint.
fn without_dictionary(py: Python<'_>, array: ArrayRef) -> PyResult<ArrayRef> {
    ensure_utf8(py, &array)?;
    match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::UInt64 => {
            Ok(array)
        }
        kind if kind.is_string() => Ok(array),
        DataType::Dictionary(_, values) if values.is_string() => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            // Where there are no values, all rows are null.
            let keys = match values.len() {
                0 => vec![0; array.len()],
                _ => dictionary.normalized_keys(),
            };
            let mut texts = arrow_array::builder::LargeStringBuilder::new();
            for (row, &key) in keys.iter().enumerate() {
                let is_text = !array.is_null(row) && !values.is_null(key);
                texts.append_option(is_text.then(|| text_at(values, key)));
            }
            let texts: ArrayRef = std::sync::Arc::new(texts.finish());
            Ok(texts)
        }
        other => Err(input_error(
            py,
            &format!(
                "a column of texts (string) or fingerprints (uint64) is wanted, not one of {other}"
            ),
            None,
        )),
    }
}

#[expect(unsafe_code, reason = "capsules hold pointers")]
fn array_of(capsules: &Bound<'_, PyTuple>) -> PyResult<ArrayRef> {
    let py = capsules.py();
    let schema = capsules.get_item(0)?;
    let schema = pointer::<FFI_ArrowSchema>(schema.cast()?, c"arrow_schema")?;
    let array = capsules.get_item(1)?;
    let array = pointer::<FFI_ArrowArray>(array.cast()?, c"arrow_array")?;
    // SAFETY: by their names, the capsules hold a schema and an array, which may be taken out once. What is left
    // releases nothing. Both are of one object, which vouches that they fit to each other.
    let data = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema);
        from_ffi(FFI_ArrowArray::from_raw(array), &schema)
    };
    data.map(make_array)
        .map_err(|error| arrow_error(py, &error))
}

/// What a capsule of this name points to.
fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<*mut T> {
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}

fn arrow_error(py: Python<'_>, error: &ArrowError) -> PyErr {
    input_error(py, &format!("the column cannot be read: {error}"), None)
}

/// Keys of many documents: a column, or one by one.
pub(crate) enum Keys {
    Column(Column),
    /// Gone through in order: what stands in brackets behind a series of pandas is a label, and no place.
    Each {
        keys: Py<PyIterator>,
        count: usize,
    },
}

impl Keys {
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match Column::of(given)? {
            Some(column) => Self::Column(column),
            None => Self::Each {
                count: given.len()?,
                keys: given.try_iter()?.unbind(),
            },
        })
    }

    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Column(column) => column.len(),
            Self::Each { count, .. } => *count,
        }
    }

    /// The key of a row. Rows are asked for in their order, each once.
    pub(crate) fn next(&self, py: Python<'_>, row: usize) -> PyResult<Vec<u8>> {
        match self {
            Self::Column(column) => column.key(py, row),
            Self::Each { keys, count } => {
                let Some(key) = keys.bind(py).clone().next() else {
                    let message = format!("keys: {row}, and not {count}, as their length says");
                    return Err(input_error(py, &message, Some(row)));
                };
                convert::key_bytes(&key?).map_err(|error| at(py, error, row))
            }
        }
    }

    /// What is gone through may be a generator that has what goes through it.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Column(_) => Ok(()),
            Self::Each { keys, .. } => visit.call(keys),
        }
    }
}

/// Texts or fingerprints, of a column or one by one.
pub(crate) fn contents(given: &Bound<'_, PyAny>) -> PyResult<Vec<Content>> {
    let py = given.py();
    let mut all = Vec::new();
    if let Some(column) = Column::of(given)? {
        for row in 0..column.len() {
            all.push(column.content(py, row)?);
        }
        return Ok(all);
    }
    for item in given.try_iter()? {
        all.push(content(&item?, all.len())?);
    }
    Ok(all)
}

/// The content that an item is: a text or a fingerprint.
pub(crate) fn content(item: &Bound<'_, PyAny>, index: usize) -> PyResult<Content> {
    if item.is_none() {
        let message = format!("item {index} is None: it has no text");
        return Err(input_error(item.py(), &message, Some(index)));
    }
    if item.is_instance_of::<PyString>() {
        return Ok(Content::Text(Text::new(item)?));
    }
    let py = item.py();
    let wanted = "a text (str) or a fingerprint (int) is wanted";
    let bits = convert::fingerprint(item).map_err(|error| {
        let is_type = error.is_instance_of::<PyTypeError>(py);
        let error = match is_type && !is_of_caller(py, &error) {
            true => convert::wrong_type(wanted, item),
            false => error,
        };
        at(py, error, index)
    });
    bits.map(Content::Fingerprint)
}
