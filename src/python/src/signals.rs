//! Work without the interpreter, which a signal such as Ctrl-C can end.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::OrRaise;

/// How often it is looked whether there is a signal.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Does short work without the interpreter.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> simdb::Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).or_raise(py)
}

/// Does long work without the interpreter, in a thread of its own, while this one looks for signals. If one raises, the
/// work is told to stop, and the exception is that of the signal.
pub(crate) fn stoppable<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> simdb::Result<T> + Send,
) -> PyResult<T> {
    let stop = Stop::default();
    let stop = &stop;
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, ended) = mpsc::channel::<()>();
            let worker = thread::Builder::new().name("simdb-python".to_owned());
            let worker = worker.spawn_scoped(scope, move || {
                let _sender = sender;
                work(stop)
            });
            let worker = worker.map_err(|error| Python::attach(|_| PyErr::from(error)))?;
            while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
                if has_raised() {
                    stop.set();
                }
            }
            let done = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            match take_raised() {
                Some(error) => Err(error),
                None => Python::attach(|py| done.or_raise(py)),
            }
        })
    })
}

thread_local! {
    /// What a signal has raised while this thread waited without the interpreter.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a signal has raised. A wait that looks here ends, and [`take_raised`] has the exception.
///
/// Nothing may be locked meanwhile: another thread that has the interpreter may wait for it, and what handles the
/// signal may call anything.
pub(crate) fn has_raised() -> bool {
    if RAISED.with_borrow(Option::is_some) {
        return true;
    }
    let raised = Python::attach(|py| py.check_signals().err());
    let has_raised = raised.is_some();
    if has_raised {
        RAISED.set(raised);
    }
    has_raised
}

/// The exception of a signal that has ended a wait of this thread.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Raises what a signal raises.
pub(crate) fn look() -> PyResult<()> {
    has_raised();
    take_raised().map_or(Ok(()), Err)
}

/// Whether work is to stop.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Refuses to go on if the work is to stop.
    pub(crate) fn ensure_wanted(&self) -> simdb::Result<()> {
        match self.is_set() {
            true => Err(simdb::Error::Interrupted),
            false => Ok(()),
        }
    }

    /// What a function that is told of progress returns.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.is_set() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
