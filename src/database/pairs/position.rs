//! PairPosition: how far a search for all pairs is, to go on from there.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// How far a search for all pairs is. As text, it can be kept and parsed again.
///
/// It holds for the same question about the same content of the same database, on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairPosition {
    /// The number of units that are done.
    pub(super) done: u64,
    /// Stands for the question and the content.
    pub(super) of: u64,
}

impl fmt::Display for PairPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:016x}", self.done, self.of)
    }
}

impl FromStr for PairPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('@').and_then(|(done, of)| {
            Some(Self { done: done.parse().ok()?, of: u64::from_str_radix(of, 16).ok()? })
        });
        parsed.ok_or(Error::PairPosition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_parsed_as_it_is_printed() {
        for position in [PairPosition { done: 0, of: 0 }, PairPosition { done: 1 << 40, of: u64::MAX }] {
            assert_eq!(position.to_string().parse::<PairPosition>().expect("it is one"), position);
        }
        for wrong in ["", "7", "7@", "@7", "7@x", "-1@0", "1@0@0"] {
            assert!(wrong.parse::<PairPosition>().is_err(), "{wrong}");
        }
    }
}
