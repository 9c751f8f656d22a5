//! Planted bugs: a test switches one of them on, and a part of the suite then has to fail. So the suite is known to be
//! able to fail. docs/reliability.md tells of it.
//!
//! A build without debug assertions, such as a release, has no such switch, and nothing of the bugs.

#[cfg(debug_assertions)]
use std::sync::LazyLock;

/// Whether this bug is the one that the environment variable `SIMDB_PLANTED` names.
#[cfg(debug_assertions)]
pub(crate) fn planted(bug: &str) -> bool {
    static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("SIMDB_PLANTED").ok());
    CHOSEN.as_deref() == Some(bug)
}

/// There are no planted bugs.
#[cfg(not(debug_assertions))]
pub(crate) const fn planted(_: &str) -> bool {
    false
}
