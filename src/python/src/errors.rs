//! Errors: from those of simdb to the exceptions of the package, which are in simdb/_errors.py.

use std::error::Error as _;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use simdb::{Error, ErrorKind, Holder};

use crate::signals::take_raised;

/// The exception of an error. `index` is the place of what was bad among many.
pub(crate) fn exception(py: Python<'_>, error: &Error, index: Option<usize>) -> PyErr {
    if let Error::InBatch { index, source, .. } = error {
        return exception(py, source, Some(*index));
    }
    let message = message(error);
    let class = match error.kind() {
        ErrorKind::Input => {
            return raised(py, "InputError", (message, index));
        }
        ErrorKind::Busy => {
            let process = match error {
                Error::Busy {
                    holder: Holder::Process(number) | Holder::Child(number),
                    ..
                } => Some(*number),
                _ => None,
            };
            return raised(py, "BusyError", (message, process));
        }
        ErrorKind::Interrupted => {
            return take_raised().unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
        }
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "ExistsError",
        ErrorKind::ReadOnly => "ReadOnlyError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Forked => "ForkedError",
        ErrorKind::Version | ErrorKind::Damaged => "DamagedError",
        ErrorKind::Storage => "StorageError",
        ErrorKind::OutcomeUnknown => "OutcomeUnknownError",
        ErrorKind::NotServed => "NotServedError",
        _ => "Error",
    };
    let raised = raised(py, class, (message,));
    let number = match error {
        Error::NotFound { .. } => Some(2),
        Error::AlreadyExists { .. } => Some(17),
        error => system_error(error),
    };
    if let Some(number) = number {
        _ = raised.value(py).setattr("errno", number);
    }
    raised
}

/// What was given cannot be used.
pub(crate) fn input_error(py: Python<'_>, message: &str, index: Option<usize>) -> PyErr {
    raised(py, "InputError", (message, index))
}

/// Whether code of the caller has raised it, such as an `__index__`. That has a trace.
pub(crate) fn is_of_caller(py: Python<'_>, error: &PyErr) -> bool {
    error.traceback(py).is_some()
}

/// The same exception, with the index of the item among many that it is about, if it says that something cannot be used
/// and does not say which. That of another type than is wanted has it in its message.
pub(crate) fn at(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) && !is_of_caller(py, &error) {
        return PyTypeError::new_err(format!("item {index}: {}", error.value(py)));
    }
    let is_input = class(py, "InputError").is_ok_and(|class| error.is_instance(py, &class));
    if is_input {
        let value = error.value(py);
        let told = value.getattr("index");
        if told.is_ok_and(|told| told.is_none()) {
            _ = value.setattr("index", index);
        }
    }
    error
}

/// The exception for what was given and cannot be taken, from that of Python, which does not say what it was given for.
/// What code of the caller has raised meanwhile stays as it is.
pub(crate) fn not_taken(py: Python<'_>, what: &str, error: PyErr) -> PyErr {
    if is_of_caller(py, &error) {
        return error;
    }
    let message = format!("{what}: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(message),
        false => input_error(py, &message, None),
    }
}

/// The database, or what else is meant, was closed.
pub(crate) fn closed(py: Python<'_>, what: &str) -> PyErr {
    raised(py, "ClosedError", (format!("the {what} is closed"),))
}

/// The process in which something with a lock was made. A lock that another thread had when this process was forked
/// would never be free.
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0 == std::process::id()
    }

    pub(crate) fn ensure_here(&self, py: Python<'_>) -> PyResult<()> {
        match self.is_here() {
            true => Ok(()),
            false => Err(exception(py, &Error::Forked, None)),
        }
    }
}

/// Locks, also what a thread had locked that has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A result for Python.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for simdb::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error, None))
    }
}

/// What happened, and why: the message and those of its causes.
fn message(error: &Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = source.source();
    }
    message
}

/// The number of the system's error, if there is one.
fn system_error(error: &Error) -> Option<i32> {
    let mut cause = error.source();
    while let Some(source) = cause {
        let error = source.downcast_ref::<io::Error>();
        if let Some(number) = error.and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        cause = source.source();
    }
    None
}

/// An exception of the package, by its name.
fn raised<'py>(py: Python<'py>, name: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    match class(py, name).and_then(|class| class.call1(arguments)) {
        Ok(value) => PyErr::from_value(value),
        // The package is not whole.
        Err(error) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// A class of the exceptions of the package.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        PyModule::import(py, "simdb._errors").map(Bound::unbind)
    })?;
    Ok(module.bind(py).getattr(name)?.cast_into::<PyType>()?)
}
