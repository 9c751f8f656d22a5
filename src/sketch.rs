//! Sketch: some bytes beside a fingerprint that estimate how much two texts have in common.

use std::fmt;
use std::num::NonZeroU32;

use crate::error::{Error, Result};
use crate::planted::planted;

/// The size of the sketches of a database, or that there are none. It is chosen when the database is created.
///
/// With more bytes the estimate of a similarity is closer. `docs/benchmarks.md` has the errors.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, SketchSize};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.simdb");
///
/// let database = Database::create(&path, &CreateOptions::new().sketch_size(SketchSize::Bytes32))?;
/// assert_eq!((database.sketch_size(), SketchSize::Bytes32.bytes()), (SketchSize::Bytes32, 32));
/// let sketch = database.fingerprinter()?.sketch("The museum is open from nine to five, but not on Mondays.");
/// assert_eq!(sketch.map(|sketch| sketch.as_bytes().len()), Some(32));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum SketchSize {
    /// No sketches.
    #[cfg_attr(feature = "cli", value(name = "0"))]
    None,
    /// 16 bytes, which are 128 samples.
    #[default]
    #[cfg_attr(feature = "cli", value(name = "16"))]
    Bytes16,
    /// 32 bytes, which are 256 samples.
    #[cfg_attr(feature = "cli", value(name = "32"))]
    Bytes32,
}

impl SketchSize {
    /// Every size there is.
    pub const ALL: &'static [Self] = &[Self::None, Self::Bytes16, Self::Bytes32];

    /// The bytes of a sketch of this size: 0, 16 or 32.
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes16 => 16,
            Self::Bytes32 => 32,
        }
    }

    /// The size with this number of bytes, if there is one.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.iter().copied().find(|size| size.bytes() == bytes)
    }
}

/// The sketch of a text: one-bit minwise samples of its shingles, and the number of its shingles.
///
/// A shingle is four tokens in a row. The sketches of two texts tell about how much of their shingles they
/// share ([`similarity`](Self::similarity)). That is far more than the distance of their fingerprints tells.
/// [`Fingerprinter`](crate::Fingerprinter) makes sketches, the same ones beside every scheme.
///
/// # Example
///
/// ```
/// use simdb::{Fingerprinter, Scheme};
///
/// let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?;
/// let [page, copy, other] = [
///     "The museum is open from nine to five, on Thursdays until eight. Admission is free for children.",
///     "The museum is open from nine to five, on Thursdays until nine. Admission is free for children.",
///     "Trains to the coast leave every hour. Bicycles need a ticket of their own, except on Sundays.",
/// ]
/// .map(|text| fingerprinter.sketch(text).expect("long enough"));
/// assert!(page.similarity(&copy)?.jaccard() > 0.4);
/// assert!(page.similarity(&other)?.jaccard() < 0.3);
/// # Ok::<(), simdb::Error>(())
/// ```
///
/// # References
///
/// Li, König: b-Bit Minwise Hashing, WWW 2010, with b = 1. Broder: On the resemblance and containment of
/// documents, SEQUENCES 1997.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sketch {
    /// The bytes beyond the size are 0.
    bytes: [u8; Self::MAX_BYTES],
    size: SketchSize,
    shingles: NonZeroU32,
}

impl Sketch {
    /// The bytes of the largest sketch.
    pub const MAX_BYTES: usize = 32;

    /// The sketch of these bytes, of a text with this number of distinct shingles.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSketch`] if there are not 16 or 32 bytes, or no shingles.
    pub fn new(bytes: &[u8], shingles: u32) -> Result<Self> {
        let size = SketchSize::from_bytes(bytes.len()).filter(|&size| size != SketchSize::None);
        let (Some(size), Some(shingles)) = (size, NonZeroU32::new(shingles)) else {
            return Err(Error::InvalidSketch {
                bytes: bytes.len(),
                shingles,
            });
        };
        let mut all = [0; Self::MAX_BYTES];
        all[..bytes.len()].copy_from_slice(bytes);
        Ok(Self {
            bytes: all,
            size,
            shingles,
        })
    }

    /// The sketch of these bytes in hexadecimal, as [`Display`](fmt::Display) writes them, of a text with this
    /// number of distinct shingles.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSketchDigits`] if there are not 32 or 64 hexadecimal digits; [`Error::InvalidSketch`] if there
    /// are no shingles.
    pub fn parse(digits: &str, shingles: u32) -> Result<Self> {
        match bytes_of_digits(digits) {
            Some(bytes) if [16, 32].contains(&bytes.len()) => Self::new(&bytes, shingles),
            _ => Err(Error::InvalidSketchDigits {
                text: digits.chars().take(70).collect(),
            }),
        }
    }

    /// The sketch of samples. Sample i is bit i mod 8 of byte i / 8, counted from the least significant.
    #[cfg(feature = "text")]
    pub(crate) fn of_samples<const BINS: usize>(
        samples: &[bool; BINS],
        shingles: NonZeroU32,
    ) -> Self {
        const { assert!(BINS == 128 || BINS == 256) };
        let size = if BINS == 128 {
            SketchSize::Bytes16
        } else {
            SketchSize::Bytes32
        };
        let mut bytes = [0; Self::MAX_BYTES];
        for (i, &sample) in samples.iter().enumerate() {
            bytes[i / 8] |= u8::from(sample) << (i % 8);
        }
        Self {
            bytes,
            size,
            shingles,
        }
    }

    /// The size.
    pub fn size(&self) -> SketchSize {
        self.size
    }

    /// The 16 or 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size.bytes()]
    }

    /// The number of distinct shingles of the text. More than `u32::MAX` count as `u32::MAX`.
    pub fn shingles(&self) -> u32 {
        self.shingles.get()
    }

    /// How much the texts of two sketches have in common.
    ///
    /// # Errors
    ///
    /// [`Error::SketchSizes`] for sketches of different sizes.
    ///
    /// # Cost
    ///
    /// Some nanoseconds.
    pub fn similarity(&self, other: &Self) -> Result<Similarity> {
        if self.size != other.size {
            let [stored, given] = [self.size, other.size].map(SketchSize::bytes);
            return Err(Error::SketchSizes { stored, given });
        }
        Ok(Similarity::new(self, other))
    }
}

/// Shows the bytes in hexadecimal.
impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sketch({self}, {} shingles)", self.shingles)
    }
}

/// The bytes in hexadecimal: 32 or 64 digits. The number of shingles is not among them.
impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The bytes that digits stand for, two for a byte.
fn bytes_of_digits(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        let high = char::from(*high).to_digit(16)?;
        let low = char::from(*low).to_digit(16)?;
        bytes.push((high << 4 | low) as u8);
    }
    Some(bytes)
}

/// How much two texts have in common, as their sketches tell.
///
/// # Example
///
/// ```
/// use simdb::{Fingerprinter, Scheme};
///
/// let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?;
/// let page = "The museum is open from nine to five, on Thursdays until eight. Admission is free for children.";
/// let longer = format!("{page} Trains to the coast leave every hour, and bicycles need a ticket of their own.");
/// let [page, longer] = [page, &longer].map(|text| fingerprinter.sketch(text).expect("long enough"));
/// let similarity = page.similarity(&longer)?;
/// // The longer text has all of the shorter one.
/// assert!(similarity.containment() > 0.9);
/// assert!(similarity.jaccard() < 0.7);
/// # Ok::<(), simdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Similarity {
    differing: u32,
    samples: u32,
    shingles: [u32; 2],
}

impl Similarity {
    fn new(a: &Sketch, b: &Sketch) -> Self {
        let mut differing = 0;
        let compared = match planted("the last byte of each eight of a sketch is not compared") {
            true => u64::MAX >> 8,
            false => u64::MAX,
        };
        for (a, b) in a.bytes.as_chunks().0.iter().zip(b.bytes.as_chunks().0) {
            let differs = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
            differing += (differs & compared).count_ones();
        }
        Self {
            differing,
            samples: a.size.bytes() as u32 * 8,
            shingles: [a.shingles(), b.shingles()],
        }
    }

    /// The estimated Jaccard similarity of the shingles, 0 to 1: those that both texts have, divided by those
    /// that at least one has.
    ///
    /// Half of the samples differ by chance where nothing is shared. So the estimate is one less twice the
    /// share of the samples that differ. It is at most the ratio of the numbers of shingles, which no similarity
    /// exceeds.
    pub fn jaccard(&self) -> f64 {
        let [least, most] = self.least_and_most();
        let estimate = 1.0 - 2.0 * f64::from(self.differing) / f64::from(self.samples);
        estimate.clamp(0.0, least / most)
    }

    /// The estimated containment, 0 to 1: the share of the shingles of the shorter text that the longer one has
    /// too. It follows from [`jaccard`](Self::jaccard) and the numbers of shingles.
    pub fn containment(&self) -> f64 {
        let jaccard = self.jaccard();
        let [least, most] = self.least_and_most();
        (jaccard * (least + most) / (1.0 + jaccard) / least).min(1.0)
    }

    /// The bits of the sketches that differ and those that were compared, and the shingles of both texts: all that
    /// there is to send.
    #[cfg(all(unix, feature = "serve", feature = "ingest"))]
    pub(crate) fn parts(&self) -> ([u32; 2], [u32; 2]) {
        ([self.differing, self.samples], self.shingles)
    }

    /// The other way. `None` if no sketches have these parts.
    #[cfg(all(unix, feature = "serve", feature = "ingest"))]
    pub(crate) fn of_parts(parts: ([u32; 2], [u32; 2])) -> Option<Self> {
        let ([differing, samples], shingles) = parts;
        let is_possible = differing <= samples && samples > 0 && shingles.iter().all(|it| *it > 0);
        is_possible.then_some(Self {
            differing,
            samples,
            shingles,
        })
    }

    fn least_and_most(&self) -> [f64; 2] {
        let [a, b] = self.shingles;
        [a.min(b), a.max(b)].map(f64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(bytes: &[u8], shingles: u32) -> Result<Sketch> {
        Sketch::new(bytes, shingles)
    }

    #[test]
    fn similarity_falls_with_the_bits_that_differ() -> Result<()> {
        let zeros = sketch(&[0; 16], 100)?;
        let similarity = |bytes: [u8; 16]| zeros.similarity(&sketch(&bytes, 100)?);
        for (byte, jaccard) in [
            (0u8, 1.0),
            (1, 0.75),
            (3, 0.5),
            (7, 0.25),
            (15, 0.0),
            (255, 0.0),
        ] {
            assert_eq!(similarity([byte; 16])?.jaccard(), jaccard, "{byte}");
        }
        // a third of the union is shared: half of either text
        let mut bytes = [3; 16];
        bytes[..11].fill(7);
        let third = similarity(bytes)?;
        assert!((third.jaccard() - 1.0 / 3.0).abs() < 0.01, "{third:?}");
        assert!((third.containment() - 0.5).abs() < 0.01, "{third:?}");
        Ok(())
    }

    #[test]
    fn no_estimate_exceeds_what_the_numbers_of_shingles_allow() -> Result<()> {
        let [page, part] = [sketch(&[9; 32], 400)?, sketch(&[9; 32], 100)?];
        let similarity = page.similarity(&part)?;
        assert_eq!(
            (similarity.jaccard(), similarity.containment()),
            (0.25, 1.0)
        );
        assert_eq!(part.similarity(&page)?.jaccard(), 0.25);
        let full = sketch(&[1; 16], u32::MAX)?;
        assert_eq!(full.similarity(&full)?.jaccard(), 1.0);
        assert_eq!(full.similarity(&full)?.containment(), 1.0);
        Ok(())
    }

    #[test]
    fn only_whole_sketches_of_one_size_are_taken() -> Result<()> {
        for bytes in [0, 1, 15, 17, 31, 33, 64] {
            assert!(
                matches!(sketch(&vec![0; bytes], 1), Err(Error::InvalidSketch { .. })),
                "{bytes}"
            );
        }
        assert!(matches!(
            sketch(&[0; 16], 0),
            Err(Error::InvalidSketch { shingles: 0, .. })
        ));
        let sizes = sketch(&[0; 16], 1)?.similarity(&sketch(&[0; 32], 1)?);
        assert!(matches!(
            sizes,
            Err(Error::SketchSizes {
                stored: 16,
                given: 32
            })
        ));
        let written = "0123456789abcdef".repeat(2);
        assert_eq!(Sketch::parse(&written, 9)?.to_string(), written);
        assert_eq!(
            Sketch::parse(&written.to_uppercase(), 9)?,
            Sketch::parse(&written, 9)?
        );
        assert!(matches!(
            Sketch::parse(&written, 0),
            Err(Error::InvalidSketch {
                bytes: 16,
                shingles: 0
            })
        ));
        let odd = format!("{written}0");
        let other = format!("{}g", &written[1..]);
        for digits in [
            "",
            "0",
            &written[1..],
            &odd,
            &other,
            &written[2..],
            "é",
            &written.repeat(3),
        ] {
            let refused = Sketch::parse(digits, 9);
            assert!(
                matches!(refused, Err(Error::InvalidSketchDigits { .. })),
                "{digits}"
            );
        }
        Ok(())
    }
}
