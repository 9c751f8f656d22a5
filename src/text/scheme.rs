//! Scheme: the numbered recipe from text to fingerprint, with its name, its number in files and its seed.

use std::fmt;
use std::str::FromStr;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::sketch::{Sketch, SketchSize};

/// The whole recipe from text to fingerprint. A database stores its number, because fingerprints of
/// different schemes cannot be compared.
///
/// A scheme never changes. A better recipe is another scheme.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let scheme: Scheme = "minwise-1".parse()?;
/// assert_eq!((scheme, scheme.number()), (Scheme::Minwise1, 2));
/// assert_eq!(scheme, Scheme::default());
/// let database = Database::create(&path, &CreateOptions::new().scheme(Scheme::MinwiseShort1))?;
/// assert_eq!(database.scheme().name(), "minwise-short-1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// Number 0: the caller brings fingerprints, and simdb makes none.
    External,
    /// Number 1: simhash of words, each with a vote for every bit. For texts in any language and script, as the
    /// others. [`schemes`](crate::guide::schemes) gives the recipes.
    Simhash1,
    /// Number 2, the default: one-bit minwise samples of pairs of words, for texts in any language and script.
    #[default]
    Minwise1,
    /// Number 3: as `minwise-1`, but of HTML only the main content, for one story in the pages of several
    /// sites.
    Content1,
    /// Number 4: the same as [`Minwise1`](Self::Minwise1), but texts of four to seven tokens are judged too. For
    /// sentences. A text that both judge has the same fingerprint in both.
    MinwiseShort1,
    /// Number 5: simhash of pairs of words, each with a vote for a few bits. It finds more than
    /// [`Simhash1`](Self::Simhash1), and less of what is not alike.
    Simhash2,
}

impl Scheme {
    /// Every scheme there is, by number.
    pub const ALL: &'static [Self] = &[
        Self::External,
        Self::Simhash1,
        Self::Minwise1,
        Self::Content1,
        Self::MinwiseShort1,
        Self::Simhash2,
    ];

    /// The number of the scheme in a file.
    pub const fn number(self) -> u32 {
        match self {
            Self::External => 0,
            Self::Simhash1 => 1,
            Self::Minwise1 => 2,
            Self::Content1 => 3,
            Self::MinwiseShort1 => 4,
            Self::Simhash2 => 5,
        }
    }

    /// The scheme with this number, or `None` if this release does not know it.
    pub fn from_number(number: u32) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|scheme| scheme.number() == number)
    }

    /// The name in messages and on the command line: `external`, `simhash-1`, `minwise-1`,
    /// `content-1`, `minwise-short-1` or `simhash-2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Simhash1 => "simhash-1",
            Self::Minwise1 => "minwise-1",
            Self::Content1 => "content-1",
            Self::MinwiseShort1 => "minwise-short-1",
            Self::Simhash2 => "simhash-2",
        }
    }

    /// The method, which is the name without its number: `external`, `simhash`, `minwise`,
    /// `content` or `minwise-short`.
    pub fn method(self) -> &'static str {
        match self.name().rsplit_once('-') {
            Some((method, _)) => method,
            None => self.name(),
        }
    }

    /// Whether texts are compared by sketches of this size too. Then every text that has a fingerprint has a sketch.
    pub(crate) fn compares_sketches(self, size: SketchSize) -> bool {
        self != Self::External && size != SketchSize::None
    }

    /// Checks that a document has the sketch that it needs where sketches have this size, and no other.
    ///
    /// A document with a fingerprint but no sketch would be stored, and missed by nearly every question.
    pub(crate) fn check_sketch(self, size: SketchSize, document: &Document) -> Result<()> {
        match document.sketch().map(Sketch::size) {
            Some(given) if given != size => Err(Error::SketchSizes {
                stored: size.bytes(),
                given: given.bytes(),
            }),
            None if document.fingerprint().is_some() && self.compares_sketches(size) => {
                Err(Error::SketchMissing {
                    bytes: size.bytes(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) const fn feature_seed(self) -> u64 {
        match self {
            Self::External => 0,
            // "simdb\0\0" and the number of the scheme, read as a big-endian number. Anyone can see that it
            // was not chosen for its effect.
            Self::Simhash1 => 0x7369_6d64_6200_0001,
            Self::Minwise1 | Self::MinwiseShort1 => 0x7369_6d64_6200_0002,
            Self::Content1 => 0x7369_6d64_6200_0003,
            Self::Simhash2 => 0x7369_6d64_6200_0005,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Error;

    /// Reads the name of a scheme, or that of a method, which stands for its newest scheme.
    fn from_str(name: &str) -> Result<Self> {
        for scheme in Self::ALL.iter().rev() {
            if scheme.name() == name || scheme.method() == name {
                return Ok(*scheme);
            }
        }
        Err(Error::UnknownSchemeName {
            name: name.to_owned(),
            known: Self::ALL.iter().map(|scheme| scheme.name()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_have_names_and_numbers_of_their_own() -> Result<()> {
        for &scheme in Scheme::ALL {
            assert_eq!(Scheme::from_number(scheme.number()), Some(scheme));
            assert_eq!(scheme.name().parse::<Scheme>()?, scheme);
        }
        assert_eq!(Scheme::from_number(99), None);
        assert!("simhash-9".parse::<Scheme>().is_err());
        assert_eq!("simhash".parse::<Scheme>()?, Scheme::Simhash2);
        assert_eq!("minwise".parse::<Scheme>()?, Scheme::Minwise1);
        assert_eq!("minwise-short".parse::<Scheme>()?, Scheme::MinwiseShort1);
        Ok(())
    }
}
