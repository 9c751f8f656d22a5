//! Who has a database open, for the error that says so.

use std::fmt;

/// Who has a database open, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// This process, by another handle, or by a snapshot or transaction of one.
    ThisProcess,
    /// This process, by a handle that it inherited when it was forked. The process that opened it is gone.
    /// [`Database::abandon`](crate::Database::abandon) gives it up.
    Inherited,
    /// Another process, with this number.
    Process(u32),
    /// Another process, with this number, which was forked from the one that opened the database. That one is gone.
    Child(u32),
    /// The system does not tell.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str(
                "in use by this process; use the handle that has it open, or close that handle and its snapshots",
            ),
            Self::Inherited => f.write_str(
                "in use by this process, by a handle that it inherited when it was forked; give that handle up with \
                 `Database::abandon`, or drop it",
            ),
            Self::Process(number) => write!(
                f,
                "in use by another process, number {number}; wait until it has closed the database, or stop it"
            ),
            Self::Child(number) => write!(
                f,
                "kept in use by process {number}, which was forked from the one that had it open and is gone; wait \
                 until process {number} ends, or stop it; a process that calls `Database::abandon` keeps nothing in use"
            ),
            Self::Unknown => {
                f.write_str("in use by another process; wait until it has closed the database, or stop it")
            }
        }
    }
}
