//! What a method of comparing documents is to an evaluation.

use super::corpus::Corpus;
use super::overlap::Scored;

/// A method. It describes each document in some bytes, and scores pairs by their descriptions.
pub(super) trait Method {
    /// The thresholds at which it is measured.
    fn scale(&self) -> Scale;

    /// Describes all documents, on one core.
    fn describe(&self, corpus: &Corpus) -> Box<dyn Described>;

    /// Whether it starts from the tokens that the corpus has. Their time is then part of its own.
    fn takes_tokens(&self) -> bool {
        true
    }
}

/// The documents of a corpus as a method describes them.
pub(super) trait Described: Sync {
    /// The bytes of all descriptions.
    fn bytes(&self) -> usize;

    /// The score of two documents, higher if they are more alike. `None` if the method does not match them at
    /// any threshold.
    fn score(&self, a: usize, b: usize) -> Option<f64>;

    /// The Jaccard similarity of the 4-token shingles of two documents, if the descriptions estimate it.
    fn estimate(&self, a: usize, b: usize) -> Option<f64> {
        _ = (a, b);
        None
    }

    /// All pairs that score `least` or more, if the method has an index that is faster than to score every
    /// pair.
    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        _ = least;
        None
    }
}

/// The thresholds of a method, the strictest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    /// Distances from 0 to this one. The score of a pair is its distance below zero.
    Distance(u32),
    /// Similarities.
    Similarity(Vec<f64>),
    /// Equal parts, from this number down to the second.
    Equal(u32, u32),
}

impl Scale {
    /// Similarities from 1 down to `least`, in steps of 0.05.
    pub(super) fn twentieths(least: u32) -> Self {
        Self::Similarity((least..=20).rev().map(|it| f64::from(it) / 20.0).collect())
    }

    /// The least score at each threshold.
    pub(super) fn scores(&self) -> Vec<f64> {
        match self {
            Self::Distance(most) => (0..=*most).map(|it| -f64::from(it)).collect(),
            Self::Similarity(scores) => scores.clone(),
            Self::Equal(most, least) => (*least..=*most).rev().map(f64::from).collect(),
        }
    }
}
