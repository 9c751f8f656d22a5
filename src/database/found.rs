//! Found: what a search finds, by an iterator, for those who cannot give it a function.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::vec;

use crate::error::{Error, Result};
use crate::process::OfProcess;

/// The results that are handed over together, unless they are older than this.
const TOGETHER: usize = 512;
const OLDEST: Duration = Duration::from_millis(50);

/// The number of times that results may be handed over before they are taken.
const AHEAD: usize = 4;

/// What a search finds, in its order. An error is the last item.
///
/// The search goes on in a thread of its own, a few thousand results ahead. It ends when this is dropped. Meanwhile its
/// snapshots are open.
///
/// # Errors
///
/// Those of the search; [`Error::NoThread`] if the system gives no thread; and [`Error::Forked`] in a process that was
/// forked from the one that began the search.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Found, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # for bits in [0, 1, 3] {
/// #     txn.insert(&Document::new(format!("page {bits}"), Fingerprint::from_bits(bits)))?;
/// # }
/// # txn.commit()?;
///
/// let found: Found<PairEvent> = database.snapshot()?.pairs(1).into_iter();
/// let mut distances = Vec::new();
/// for event in found {
///     if let PairEvent::Pair(pair) = event? {
///         distances.push(pair.distance);
///     }
/// }
/// assert_eq!(distances, [1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an iterator does nothing until it is asked"]
pub struct Found<T> {
    here: vec::IntoIter<T>,
    /// `None` when the search has ended, and its result was given.
    search: Option<OfProcess<Running<T>>>,
    /// Why it could not begin.
    failed: Option<Error>,
}

/// A search that goes on.
struct Running<T> {
    /// `None` once nobody wants more.
    batches: Option<Receiver<Vec<T>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl<T: Send + 'static> Found<T> {
    /// Begins a search, which gives what it finds to the function that it gets.
    pub(super) fn by(
        search: impl FnOnce(&mut dyn FnMut(T) -> ControlFlow<()>) -> Result<()> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        let thread = thread::Builder::new().name("simdb-search".to_owned());
        let thread = thread.spawn(move || {
            let mut batch = Batch::new(sender);
            search(&mut |found| batch.push(found))?;
            _ = batch.send();
            Ok(())
        });
        let (search, failed) = match thread {
            Ok(thread) => {
                let running = Running {
                    batches: Some(receiver),
                    thread: Some(thread),
                };
                (Some(OfProcess::new(running)), None)
            }
            Err(error) => (None, Some(Error::no_thread(error))),
        };
        Self {
            here: Vec::new().into_iter(),
            search,
            failed,
        }
    }
}

impl<T> Iterator for Found<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(search) = &self.search
                && let Err(error) = search.process().ensure_here()
            {
                self.search = None;
                self.here = Vec::new().into_iter();
                return Some(Err(error));
            }
            if let Some(found) = self.here.next() {
                return Some(Ok(found));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            let search = self.search.as_mut()?;
            match search.batches.as_ref().map(Receiver::recv) {
                Some(Ok(batch)) => self.here = batch.into_iter(),
                _ => {
                    let mut search = self.search.take().and_then(OfProcess::take)?;
                    let ended = search.end().unwrap_or_else(|panic| resume_unwind(panic));
                    return ended.err().map(Err);
                }
            }
        }
    }
}

impl<T> Running<T> {
    /// Ends the search, which stops when it finds something more, and waits for its thread.
    fn end(&mut self) -> thread::Result<Result<()>> {
        self.batches = None;
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join)
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // A drop has nobody to tell of an error. A panic of the search was printed.
        _ = self.end();
    }
}

impl<T> fmt::Debug for Found<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").finish_non_exhaustive()
    }
}

/// Gathers results, so that a thread is woken for many of them.
struct Batch<T> {
    found: Vec<T>,
    begun: Instant,
    sender: SyncSender<Vec<T>>,
}

impl<T> Batch<T> {
    fn new(sender: SyncSender<Vec<T>>) -> Self {
        Self {
            found: Vec::new(),
            begun: Instant::now(),
            sender,
        }
    }

    /// Breaks when nobody wants more.
    fn push(&mut self, found: T) -> ControlFlow<()> {
        self.found.push(found);
        if self.found.len() >= TOGETHER || self.begun.elapsed() >= OLDEST {
            return self.send();
        }
        ControlFlow::Continue(())
    }

    fn send(&mut self) -> ControlFlow<()> {
        self.begun = Instant::now();
        match self.sender.send(std::mem::take(&mut self.found)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
