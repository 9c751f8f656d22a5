//! The 64-bit fingerprint: its distance, and its hexadecimal form.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The 64 bits that stand for a text, for example its simhash. Texts that resemble each other have fingerprints
/// that differ in few bits.
///
/// `Display` writes it as 16 hexadecimal digits, most significant first. `FromStr` reads them back.
///
/// # Example
///
/// ```
/// use simdb::Fingerprint;
///
/// let a: Fingerprint = "00000000000000ff".parse()?;
/// let b = Fingerprint::from_bits(0x00ff_0000_0000_00fe);
/// assert_eq!(a.distance(b), 9);
/// # Ok::<(), simdb::Error>(())
/// ```
///
/// # References
///
/// Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

/// The number of distances that two fingerprints may have.
pub(crate) const DISTANCES: usize = Fingerprint::BITS as usize + 1;

impl Fingerprint {
    /// The number of bits of a fingerprint, which is also the largest distance.
    pub const BITS: u32 = 64;

    /// A fingerprint of the given bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits as a number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The Hamming distance: the number of bits in which the two fingerprints differ.
    pub const fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    /// Reads exactly 16 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self> {
        let digits_only = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(bits) if digits_only => Ok(Self(bits)),
            _ => Err(Error::InvalidFingerprint {
                text: text.chars().take(40).collect(),
            }),
        }
    }
}

/// Every word with at most `bits` bits set, the zero word included. These are all differences between two
/// fingerprints within that distance. For the proofs by enumeration.
#[cfg(test)]
pub(crate) fn differences_up_to(bits: u32) -> Vec<u64> {
    let mut differences = vec![0];
    let mut layer = vec![0u64];
    for _ in 0..bits {
        // Only bits above the highest one set are added, so each word is made once.
        let mut next = Vec::new();
        for word in layer {
            next.extend((64 - word.leading_zeros()..64).map(|bit| word | (1 << bit)));
        }
        differences.extend(&next);
        layer = next;
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_differing_bits_from_none_to_all() {
        let zero = Fingerprint::from_bits(0);
        assert_eq!(zero.distance(zero), 0);
        assert_eq!(zero.distance(Fingerprint::from_bits(u64::MAX)), 64);
        assert_eq!(
            Fingerprint::from_bits(0b1011).distance(Fingerprint::from_bits(0b0110)),
            3
        );
    }

    #[test]
    fn hexadecimal_form_is_sixteen_digits_and_reads_back() -> Result<()> {
        for bits in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let fingerprint = Fingerprint::from_bits(bits);
            assert_eq!(fingerprint.to_string().len(), 16);
            assert_eq!(fingerprint.to_string().parse::<Fingerprint>()?, fingerprint);
        }
        assert_eq!(
            "ABCDEF0000000000".parse::<Fingerprint>()?.bits(),
            0xabcd_ef00_0000_0000
        );
        Ok(())
    }

    #[test]
    fn anything_but_sixteen_digits_is_refused() {
        for text in [
            "",
            "0",
            "+123456789abcdef",
            "0x23456789abcdef",
            "00000000000000000",
            "g000000000000000",
        ] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text:?} was read");
        }
    }
}
