//! Who has a database open, for the error that says so.

use std::fmt;

/// Who has a database open, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// This process, by another handle, or by a snapshot or transaction of one.
    ThisProcess,
    /// Another process, with this number.
    Process(u32),
    /// The system does not tell.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str(
                "in use by this process; use the handle that has it open, or close that handle and its snapshots",
            ),
            Self::Process(number) => write!(
                f,
                "in use by another process, number {number}; wait until it has closed the database, or stop it"
            ),
            Self::Unknown => {
                f.write_str("in use by another process; wait until it has closed the database, or stop it")
            }
        }
    }
}
