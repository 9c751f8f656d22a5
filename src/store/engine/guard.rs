//! Panics of the engine on a damaged file become errors, quietly.
//!
//! redb trusts its pages once they are open. So a flipped bit can make it panic in any call, and also when
//! it is dropped. For example, an index is out of range or an assertion fails. No such panic may reach a
//! caller of simdb. The crate that reads Parquet files is guarded in the same way.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use crate::error::{Error, Result};
use crate::process::OfProcess;

thread_local! {
    /// The number of guards on the stack of this thread.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
}

/// Runs an operation that may panic on a damaged file. A panic becomes [`Error::Corrupted`], and nothing
/// is printed.
///
/// After a panic, nothing that the operation was changing may be used any more. A transaction can only be
/// dropped.
pub(crate) fn guarded<T>(operation: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(operation).unwrap_or_else(|message| {
        let why = match message.strip_prefix("internal error") {
            // It is an error of a page, and says nothing of it.
            Some(_) => "a page that leads to others is damaged",
            None => &message,
        };
        Err(Error::corrupted(format!(
            "the storage engine gave up: {why}"
        )))
    })
}

/// Runs an operation that may panic on a damaged file. A panic becomes an error with its message, and nothing is
/// printed. What the operation was changing may not be used any more.
pub(crate) fn caught<T>(operation: impl FnOnce() -> T) -> Result<T, String> {
    silence_guarded_panics();
    GUARDS.set(GUARDS.get() + 1);
    let outcome = panic::catch_unwind(AssertUnwindSafe(operation));
    GUARDS.set(GUARDS.get() - 1);
    outcome.map_err(|payload| message_of(payload.as_ref()).to_owned())
}

/// Puts a hook before the panic hook of the process, once. It passes on every panic, except panics under a
/// guard.
fn silence_guarded_panics() {
    static INSTALLED: Once = Once::new();
    // While a thread panics, hooks cannot be changed. This guard is then the guard of a drop. The hook was
    // put there when the file was opened.
    if INSTALLED.is_completed() || thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |information| {
            if GUARDS.get() == 0 {
                previous(information);
            }
        }));
    });
}

fn message_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given")
}

/// A handle of the engine that is dropped under a guard. In a process that was forked from the one that opened it,
/// nobody can enter it, and it is not dropped: it may be locked for ever, and would write to the file.
pub(crate) struct Guarded<T>(Option<OfProcess<T>>);

impl<T> Guarded<T> {
    pub(crate) fn new(handle: T) -> Self {
        Self(Some(OfProcess::new(handle)))
    }

    /// The handle, or [`Error::Forked`].
    pub(crate) fn enter(&self) -> Result<&T> {
        let handle = self.0.as_ref().expect(THERE);
        handle.process().ensure_here()?;
        Ok(handle)
    }

    /// The handle, or [`Error::Forked`].
    pub(crate) fn enter_mut(&mut self) -> Result<&mut T> {
        let handle = self.0.as_mut().expect(THERE);
        handle.process().ensure_here()?;
        Ok(handle)
    }
}

const THERE: &str = "a handle is there until it is dropped";

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // A drop has nobody to tell. The next opening finds what is wrong.
            _ = guarded(|| {
                drop(handle);
                Ok(())
            });
        }
    }
}

/// The error for a failure of the engine. Damage has a variant of its own, since callers can act on it.
pub(crate) fn engine_error(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TypeDefinitionChanged { .. }) => Error::corrupted(error),
        // The engine never reads behind the end of a file that is whole.
        redb::Error::Io(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ) =>
        {
            Error::corrupted(cause)
        }
        redb::Error::Io(cause) => Error::storage(cause),
        error => Error::storage(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }

    #[test]
    fn panics_become_errors_with_their_message() {
        let failed = guarded(|| -> Result<()> { panic!("page {} is odd", 7) });
        let Err(Error::Corrupted(cause)) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(
            cause.to_string(),
            "the storage engine gave up: page 7 is odd"
        );
        assert!(matches!(guarded(|| Ok(5)), Ok(5)));
        assert!(matches!(
            guarded(|| guarded(|| -> Result<()> { panic!("inner") })),
            Err(Error::Corrupted(_))
        ));
        assert_eq!(GUARDS.get(), 0);
    }

    #[test]
    fn dropping_a_guarded_handle_never_panics() {
        drop(Guarded::new(PanicsWhenDropped));
        let outcome = panic::catch_unwind(|| {
            let _handle = Guarded::new(PanicsWhenDropped);
            // Unwinds without the hook, and drops the handle while the thread is panicking.
            panic::resume_unwind(Box::new("outer"));
        });
        assert!(outcome.is_err());
    }
}
