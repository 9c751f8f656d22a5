//! Scheme: the numbered recipe from text to fingerprint, with its name, its number in files and its seed.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The whole recipe from text to fingerprint. A database stores its number, because fingerprints of
/// different schemes cannot be compared.
///
/// A scheme never changes. A better recipe is another scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// Number 0: the caller brings fingerprints, and simdb makes none.
    External,
    /// Number 1, the default, for texts in any language and script.
    /// [`Fingerprinter`](crate::Fingerprinter) gives the recipe.
    #[default]
    Text1,
}

impl Scheme {
    /// Every scheme there is, by number.
    pub const ALL: &'static [Self] = &[Self::External, Self::Text1];

    /// The number of the scheme in a file.
    pub const fn number(self) -> u32 {
        match self {
            Self::External => 0,
            Self::Text1 => 1,
        }
    }

    /// The scheme with this number, or `None` if this release does not know it.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|scheme| scheme.number() == number)
    }

    /// The name in messages and on the command line: `external` or `text-1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Text1 => "text-1",
        }
    }

    /// The seed of the feature hash.
    pub(crate) const fn feature_seed(self) -> u64 {
        match self {
            Self::External => 0,
            // "simdb\0\0\x01" read as a big-endian number. Anyone can see that it was not chosen for its
            // effect.
            Self::Text1 => 0x7369_6d64_6200_0001,
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

    /// Reads the name of a scheme.
    fn from_str(name: &str) -> Result<Self> {
        let named = Self::ALL.iter().copied().find(|scheme| scheme.name() == name);
        named.ok_or_else(|| {
            let known = Self::ALL.iter().map(|scheme| scheme.name()).collect();
            Error::UnknownSchemeName { name: name.to_owned(), known }
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
        assert_eq!(Scheme::from_number(2), None);
        assert!("text-9".parse::<Scheme>().is_err());
        Ok(())
    }
}
