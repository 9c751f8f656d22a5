//! Ticket: the answer to a submission, which comes later.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use crate::documents::Verdict;
use crate::errors::{Home, OrRaise, lock};
use crate::signals::{LOOK, look};

/// The answer to a submission, which comes later. `await` it in a task, or call `result` in a thread. If it is let go,
/// the document is stored all the same.
#[pyclass(module = "simdb", frozen)]
pub(crate) struct Ticket {
    /// Locked by who waits, which is never done with the interpreter.
    state: Mutex<State>,
    waiters: Arc<Waiters>,
    /// Whether it goes to the process that serves the database.
    is_of_client: bool,
    too_short: bool,
    home: Home,
}

enum State {
    Open(simdb::Ticket),
    /// To the process that serves the database. Nobody tells when its answer is there.
    Sent(simdb::ClientTicket),
    Given(Box<simdb::Result<simdb::Verdict>>),
    /// Only within a call.
    Between,
}

impl State {
    /// Waits for the answer, but no longer than `most`. Whether it is there.
    fn wait(&mut self, most: Duration) -> bool {
        match std::mem::replace(self, Self::Between) {
            Self::Open(ticket) => {
                *self = match ticket.wait_for(most) {
                    Ok(answer) => Self::Given(Box::new(answer)),
                    Err(ticket) => Self::Open(ticket),
                };
            }
            Self::Sent(ticket) => {
                *self = match ticket.wait_for(most) {
                    Ok(answer) => Self::Given(Box::new(answer)),
                    Err(ticket) => Self::Sent(ticket),
                };
            }
            state => *self = state,
        }
        matches!(self, Self::Given(_))
    }

    fn is_given_or_wakes(&mut self, waker: &Waker) -> bool {
        if let Self::Open(ticket) = self
            && let Poll::Ready(answer) = Pin::new(ticket).poll(&mut Context::from_waker(waker))
        {
            *self = Self::Given(Box::new(answer));
        }
        matches!(self, Self::Given(_))
    }
}

impl Ticket {
    pub(crate) fn new(ticket: simdb::Ticket, too_short: bool) -> Self {
        Self::of(State::Open(ticket), too_short)
    }

    pub(crate) fn of_client(ticket: simdb::ClientTicket, too_short: bool) -> Self {
        Self::of(State::Sent(ticket), too_short)
    }

    fn of(state: State, too_short: bool) -> Self {
        Self {
            is_of_client: matches!(state, State::Sent(_)),
            state: Mutex::new(state),
            waiters: Arc::default(),
            too_short,
            home: Home::here(),
        }
    }

    /// The answer, which is there.
    fn given(&self, py: Python<'_>) -> PyResult<Verdict> {
        let state = py.detach(|| {
            let state = lock(&self.state);
            match &*state {
                State::Given(answer) => simdb::Result::clone(answer),
                State::Open(_) | State::Sent(_) | State::Between => Err(simdb::Error::WriterClosed),
            }
        });
        Ok(Verdict::of(&state.or_raise(py)?, self.too_short))
    }
}

#[pymethods]
impl Ticket {
    /// Whether the answer is there.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.home.ensure_here(py)?;
        // While nobody is connected, it is tried to connect.
        let is_done = py.detach(|| match self.state.try_lock() {
            Ok(mut state) => state.wait(Duration::ZERO),
            // Somebody waits.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => true,
        });
        look()?;
        Ok(is_done)
    }

    /// Waits for the verdict. Raises TimeoutError if it has not come within `timeout` seconds; the submission goes on.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Verdict> {
        self.home.ensure_here(py)?;
        let end = match timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0))) {
            // A number that is none, or longer than anybody waits.
            None | Some(Err(_)) => None,
            Some(Ok(timeout)) => Instant::now().checked_add(timeout),
        };
        loop {
            let now = Instant::now();
            let most = end.map_or(LOOK, |end| LOOK.min(end.saturating_duration_since(now)));
            let is_given = py.detach(|| lock(&self.state).wait(most));
            if is_given {
                return self.given(py);
            }
            look()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                let message = "the verdict has not come in time; the submission goes on";
                return Err(PyTimeoutError::new_err(message));
            }
        }
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().home.ensure_here(slf.py())?;
        let module = PyModule::import(slf.py(), "simdb._asyncio")?;
        module
            .call_method1("answer", (slf,))?
            .call_method0("__await__")
    }

    /// Whether somebody has to wait for the answer in a thread.
    fn _needs_thread(&self) -> bool {
        self.is_of_client
    }

    /// Whether the answer is there. If not, the waker is told of `number` when it is.
    fn _given_or_wakes(&self, py: Python<'_>, wakers: &Bound<'_, Wakers>, number: u64) -> bool {
        let waiter = Waiter {
            number,
            wakers: wakers.get().0.clone(),
        };
        py.detach(|| {
            let mut state = lock(&self.state);
            self.waiters.add(waiter);
            state.is_given_or_wakes(&self.waiters.clone().into())
        })
    }

    fn __repr__(&self) -> &'static str {
        match self.state.try_lock() {
            Ok(state) if matches!(*state, State::Given(_)) => "<Ticket, answered>",
            _ => "<Ticket, open>",
        }
    }
}

/// Tells an event loop, by a byte into a socket, that tickets have answers. So the thread that answers needs no
/// interpreter.
#[pyclass(module = "simdb._simdb", frozen, name = "_Wakers")]
pub(crate) struct Wakers(Arc<Mutex<Answered>>);

struct Answered {
    numbers: Vec<u64>,
    /// Where a byte tells that there are numbers.
    socket: std::os::unix::net::UnixStream,
}

/// A task that waits for a ticket: its number in its loop.
struct Waiter {
    number: u64,
    wakers: Arc<Mutex<Answered>>,
}

impl Waiter {
    fn wake(self) {
        let mut answered = lock(&self.wakers);
        answered.numbers.push(self.number);
        if answered.numbers.len() == 1 {
            // If the socket is full, the loop is about to look. If it is closed, nobody waits.
            _ = std::io::Write::write(&mut answered.socket, &[0]);
        }
    }
}

/// All tasks that wait for one ticket, of any loops. The ticket itself knows only who asked last.
#[derive(Default)]
struct Waiters(Mutex<Vec<Waiter>>);

impl Waiters {
    fn add(&self, waiter: Waiter) {
        lock(&self.0).push(waiter);
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        for waiter in lock(&self.0).drain(..) {
            waiter.wake();
        }
    }
}

#[pymethods]
impl Wakers {
    /// Of the number of a socket that does not wait. It is closed with this.
    #[new]
    #[expect(unsafe_code, reason = "Python gives the number of a descriptor")]
    fn new(descriptor: std::os::fd::RawFd) -> PyResult<Self> {
        use std::os::fd::{BorrowedFd, OwnedFd};
        // SAFETY: the caller has it open, and keeps it open during this call, in which it is copied.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let owned: OwnedFd = borrowed.try_clone_to_owned()?;
        Ok(Self(Arc::new(Mutex::new(Answered {
            numbers: Vec::new(),
            socket: owned.into(),
        }))))
    }

    /// The numbers of the tickets that have answers since the last call.
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.0).numbers)
    }
}
