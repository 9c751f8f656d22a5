//! The stand: it does to a database what disks, systems and power cuts do, and looks at what is left.
//!
//! It is part of the unit tests, since it stands at doors that only the inside has: a storage in memory, sizes so small
//! that every commit merges.

mod answers;
mod child;
#[cfg(all(unix, feature = "ingest"))]
mod cleaning;
mod crashes;
mod cuts;
mod expiring;
mod failing;
mod flips;
mod history;
#[cfg(unix)]
mod names;
mod planted;
mod random;
#[cfg(unix)]
mod refused;
mod reopening;
mod salvage;
mod schedules;
mod seeded_crashes;
