//! The methods by their names, and what can be set.

use std::fmt;
use std::str::FromStr;

use super::method::Method;
use super::methods::{Exact, Fingerprints};
use crate::text::{Fingerprinter, Scheme};

/// What can be set of the methods.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest distance of fingerprints. 16 by default.
    pub max_distance: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_distance: 16 }
    }
}

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodName {
    /// The exact Jaccard similarity of 4-token shingles.
    Exact,
    /// The distance of fingerprints of [`Scheme::Simhash1`].
    Simhash1,
    /// The distance of fingerprints of [`Scheme::Minwise1`].
    Minwise1,
}

impl MethodName {
    /// All methods.
    pub const ALL: &'static [Self] = &[Self::Exact, Self::Simhash1, Self::Minwise1];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Simhash1 => "simhash-1",
            Self::Minwise1 => "minwise-1",
        }
    }

    pub(super) fn method(self, settings: &Settings) -> Box<dyn Method> {
        let fingerprints = |scheme| Fingerprints {
            fingerprinter: Fingerprinter::new(scheme).expect("a text scheme makes fingerprints"),
            max_distance: settings.max_distance,
        };
        match self {
            Self::Exact => Box::new(Exact),
            Self::Simhash1 => Box::new(fingerprints(Scheme::Simhash1)),
            Self::Minwise1 => Box::new(fingerprints(Scheme::Minwise1)),
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MethodName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|method| method.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|method| method.name()).collect();
            format!("there is no method {name:?}; there are {}", known.join(", "))
        })
    }
}
