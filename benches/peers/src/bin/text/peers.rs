//! What simdb and gaoya make of a text.
//!
//! gaoya is used as its documentation does: `words` are the lower-cased words between white space and
//! punctuation, and a minhash has 42 bands of three hashes. Chinese has no space between words, so there are
//! also the runs of four characters that gaoya offers.

use clap::ValueEnum;
use gaoya::minhash::{MinHasher, MinHasher32};
use gaoya::simhash::{SimHash, SimSipHasher64};
use gaoya::text::{shingle_text, whitespace_split};
use simdb::{Fingerprinter, Scheme, Sketch, SketchSize};

use crate::Result;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Peer {
    #[value(name = "simhash-1")]
    Simhash1,
    #[value(name = "simhash-1+sketch")]
    Simhash1Sketch,
    #[value(name = "simhash-2")]
    Simhash2,
    #[value(name = "simhash-2+sketch")]
    Simhash2Sketch,
    #[value(name = "minwise-1")]
    Minwise1,
    #[value(name = "minwise-1+sketch")]
    Minwise1Sketch,
    GaoyaSimhashWords,
    GaoyaSimhashCharacters,
    GaoyaMinhashWords,
    GaoyaMinhashCharacters,
}

/// Makes the description of a text.
pub(crate) type Describe = Box<dyn Fn(&str) -> Vec<u8>>;

/// The characters of a run.
const RUN: usize = 4;
const MINHASHES: usize = 42 * 3;

impl Peer {
    pub(crate) fn describe(self) -> Result<Describe> {
        let simhash = SimHash::<SimSipHasher64, u64, 64>::new(SimSipHasher64::new(1, 2));
        let minhash = MinHasher32::new(MINHASHES);
        Ok(match self {
            Self::Simhash1 => simdb(Scheme::Simhash1, SketchSize::None)?,
            Self::Simhash1Sketch => simdb(Scheme::Simhash1, SketchSize::Bytes16)?,
            Self::Simhash2 => simdb(Scheme::Simhash2, SketchSize::None)?,
            Self::Simhash2Sketch => simdb(Scheme::Simhash2, SketchSize::Bytes16)?,
            Self::Minwise1 => simdb(Scheme::Minwise1, SketchSize::None)?,
            Self::Minwise1Sketch => simdb(Scheme::Minwise1, SketchSize::Bytes16)?,
            Self::GaoyaSimhashWords => Box::new(move |text| {
                simhash
                    .create_signature(whitespace_split(&text.to_lowercase()))
                    .to_le_bytes()
                    .to_vec()
            }),
            Self::GaoyaSimhashCharacters => Box::new(move |text| {
                simhash
                    .create_signature(shingle_text(&text.to_lowercase(), RUN))
                    .to_le_bytes()
                    .to_vec()
            }),
            Self::GaoyaMinhashWords => Box::new(move |text| {
                to_bytes(&minhash.create_signature(whitespace_split(&text.to_lowercase())))
            }),
            Self::GaoyaMinhashCharacters => Box::new(move |text| {
                to_bytes(&minhash.create_signature(shingle_text(&text.to_lowercase(), RUN)))
            }),
        })
    }

    /// The version of the library.
    pub(crate) fn version(self) -> &'static str {
        let package = match self {
            Self::Simhash1
            | Self::Simhash1Sketch
            | Self::Simhash2
            | Self::Simhash2Sketch
            | Self::Minwise1
            | Self::Minwise1Sketch => "simdb",
            Self::GaoyaSimhashWords
            | Self::GaoyaSimhashCharacters
            | Self::GaoyaMinhashWords
            | Self::GaoyaMinhashCharacters => "gaoya",
        };
        let lock = include_str!("../../../Cargo.lock");
        let entry = lock
            .split("[[package]]")
            .find(|it| it.contains(&format!("name = \"{package}\"\n")));
        entry
            .and_then(|entry| entry.split('"').nth(3))
            .unwrap_or("unknown")
    }
}

/// The fingerprint and the sketch. Nothing if the text is too short to judge.
fn simdb(scheme: Scheme, sketch_size: SketchSize) -> Result<Describe> {
    let fingerprinter = Fingerprinter::new(scheme)?.with_sketch_size(sketch_size);
    Ok(Box::new(move |text| {
        let Some((fingerprint, sketch)) = fingerprinter.fingerprint_and_sketch(text) else {
            return Vec::new();
        };
        let mut bytes = fingerprint.bits().to_le_bytes().to_vec();
        bytes.extend(sketch.iter().flat_map(Sketch::as_bytes));
        bytes
    }))
}

fn to_bytes(minhashes: &[u32]) -> Vec<u8> {
    minhashes.iter().flat_map(|it| it.to_le_bytes()).collect()
}
