//! The join of all fingerprints as a job in SQL, for databases that read and write Parquet. Shows [`SqlJob`]. Hides the
//! tables of such a job, and the words of each dialect.

mod job;
#[cfg(test)]
mod job_tests;
mod tables;

pub use job::{SqlDialect, SqlJob, SqlWork};
