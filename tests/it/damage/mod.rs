//! Damaged files give an error or the right answer, never a wrong answer, and no panic.

mod file;
mod rows;
