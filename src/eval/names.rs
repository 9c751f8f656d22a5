//! The methods by their names, and what can be set.

use std::fmt;
use std::str::FromStr;

use super::method::Method;
use super::methods::{
    BottomK, Exact, Fingerprints, Henzinger, IMatch, MinwiseHash, RandomProjection, Sketches, SpotSigs,
    Supershingles,
};
use crate::text::{Fingerprinter, Scheme};

/// What can be set of the methods.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest distance of fingerprints. 16 by default.
    pub max_distance: u32,
    /// The largest distance of the candidates whose sketches are compared. By default 8 for minwise
    /// fingerprints, 10 for simhash.
    pub candidate_distance: Option<u32>,
    /// The hash functions of minwise hashing, and the hashes that bottom-k keeps. 128 by default.
    pub functions: u32,
    /// The bits of random projection. 384 by default.
    pub bits: u32,
    /// The random lexica of I-Match. 10 by default.
    pub lexica: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_distance: 16, candidate_distance: None, functions: 128, bits: 384, lexica: 10 }
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
    /// The distance of fingerprints of [`Scheme::Simhash2`].
    Simhash2,
    /// The distance of fingerprints of [`Scheme::Minwise1`].
    Minwise1,
    /// The estimate of sketches, for candidates near by [`Scheme::Simhash1`].
    Simhash1Sketch,
    /// The estimate of sketches, for candidates near by [`Scheme::Simhash2`].
    Simhash2Sketch,
    /// The estimate of sketches, for candidates near by [`Scheme::Minwise1`].
    Minwise1Sketch,
    /// Minwise hashing with many functions.
    MinwiseHash,
    /// The least hashes of a document.
    BottomK,
    /// Six supershingles of 14 minwise values each.
    Supershingles,
    /// One signature of the words that are neither frequent nor rare.
    IMatch,
    /// I-Match with random lexica.
    IMatchK,
    /// The signs of random projections of the vector of words.
    RandomProjection,
    /// Spots after stop words.
    SpotSigs,
    /// Supershingles filtered by random projection.
    Henzinger,
}

impl MethodName {
    /// All methods.
    pub const ALL: &'static [Self] = &[
        Self::Exact,
        Self::Simhash1,
        Self::Simhash2,
        Self::Minwise1,
        Self::Simhash1Sketch,
        Self::Simhash2Sketch,
        Self::Minwise1Sketch,
        Self::MinwiseHash,
        Self::BottomK,
        Self::Supershingles,
        Self::IMatch,
        Self::IMatchK,
        Self::RandomProjection,
        Self::SpotSigs,
        Self::Henzinger,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Simhash1 => "simhash-1",
            Self::Simhash2 => "simhash-2",
            Self::Minwise1 => "minwise-1",
            Self::Simhash1Sketch => "simhash-1+sketch",
            Self::Simhash2Sketch => "simhash-2+sketch",
            Self::Minwise1Sketch => "minwise-1+sketch",
            Self::MinwiseHash => "minwise-hash",
            Self::BottomK => "bottom-k",
            Self::Supershingles => "supershingles",
            Self::IMatch => "i-match",
            Self::IMatchK => "i-match-k",
            Self::RandomProjection => "random-projection",
            Self::SpotSigs => "spotsigs",
            Self::Henzinger => "henzinger",
        }
    }

    pub(super) fn method(self, settings: &Settings) -> Box<dyn Method> {
        let Settings { max_distance, candidate_distance, functions, bits, lexica } = *settings;
        let of = |scheme| Fingerprinter::new(scheme).expect("a text scheme makes fingerprints");
        let fingerprints = |scheme| Fingerprints { fingerprinter: of(scheme), max_distance };
        let sketches = |scheme, distance| Sketches {
            fingerprinter: of(scheme),
            candidate_distance: candidate_distance.unwrap_or(distance),
        };
        match self {
            Self::Exact => Box::new(Exact),
            Self::Simhash1 => Box::new(fingerprints(Scheme::Simhash1)),
            Self::Simhash2 => Box::new(fingerprints(Scheme::Simhash2)),
            Self::Minwise1 => Box::new(fingerprints(Scheme::Minwise1)),
            Self::Simhash1Sketch => Box::new(sketches(Scheme::Simhash1, 10)),
            Self::Simhash2Sketch => Box::new(sketches(Scheme::Simhash2, 10)),
            Self::Minwise1Sketch => Box::new(sketches(Scheme::Minwise1, 8)),
            Self::MinwiseHash => Box::new(MinwiseHash { functions }),
            Self::BottomK => Box::new(BottomK { kept: functions }),
            Self::Supershingles => Box::new(Supershingles),
            Self::IMatch => Box::new(IMatch { lexica: 0 }),
            Self::IMatchK => Box::new(IMatch { lexica }),
            Self::RandomProjection => Box::new(RandomProjection { bits }),
            Self::SpotSigs => Box::new(SpotSigs),
            Self::Henzinger => Box::new(Henzinger),
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
