//! Known sketches: those of the documents of some fingerprints, in bounded memory.
//!
//! Documents of one template can all be near to each other, and hardly any similar. So a fingerprint is asked for by
//! thousands of searches, and its sketches tell each of them that it need not look at the documents.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

/// The most fingerprints. Each takes some 80 bytes.
const MOST: usize = 1 << 17;

/// The most different sketches of a fingerprint.
const MOST_OF_ONE: usize = 16;

/// The sketches of the documents of some fingerprints, and perhaps of documents that are there no more.
#[derive(Debug, Default)]
pub(crate) struct KnownSketches(HashMap<Fingerprint, Sketches, RandomState>);

/// The different sketches of a fingerprint. `None` if they are too many.
type Sketches = Option<SmallVec<[Sketch; 1]>>;

impl KnownSketches {
    /// Whether nothing is known of a fingerprint, and there is room for it.
    pub(crate) fn lacks(&self, fingerprint: Fingerprint) -> bool {
        self.0.len() < MOST && !self.0.contains_key(&fingerprint)
    }

    /// Adds a document of a fingerprint. If there is no room for the first of them, none is known.
    pub(crate) fn add(&mut self, fingerprint: Fingerprint, sketch: Option<&Sketch>) {
        let is_full = self.0.len() >= MOST;
        let sketches = match self.0.get_mut(&fingerprint) {
            Some(sketches) => sketches,
            None if is_full => return,
            None => self.0.entry(fingerprint).or_insert(Some(SmallVec::new())),
        };
        if let Some(known) = sketches
            && let Some(sketch) = sketch
            && !known.contains(sketch)
        {
            match known.len() < MOST_OF_ONE {
                true => known.push(*sketch),
                false => *sketches = None,
            }
        }
    }

    /// Notes that a fingerprint has too many documents to know their sketches.
    pub(crate) fn add_many(&mut self, fingerprint: Fingerprint) {
        if self.lacks(fingerprint) {
            self.0.insert(fingerprint, None);
        }
    }

    /// Whether a document of this fingerprint may have a sketch that is wanted.
    pub(crate) fn may_have(
        &self,
        fingerprint: Fingerprint,
        is_wanted: impl FnMut(&Sketch) -> bool,
    ) -> bool {
        match self.0.get(&fingerprint) {
            Some(Some(sketches)) => sketches.iter().any(is_wanted),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;

    fn sketch(first: u8) -> Result<Sketch> {
        let mut bytes = [0; 16];
        bytes[0] = first;
        Sketch::new(&bytes, 20)
    }

    /// Only a fingerprint of which all documents are known is said to have no sketch that is wanted.
    #[test]
    fn what_is_not_known_as_a_whole_may_have_any_sketch() -> Result<()> {
        let mut known = KnownSketches::default();
        let [one, two, without, unknown] = [1, 2, 3, 4].map(Fingerprint::from_bits);
        known.add(one, Some(&sketch(1)?));
        known.add(one, Some(&sketch(2)?));
        known.add(without, None);
        known.add_many(two);
        known.add(two, Some(&sketch(1)?));
        let wanted = sketch(2)?;
        let other = sketch(9)?;
        let may_have =
            |fingerprint, wanted: Sketch| known.may_have(fingerprint, |it| *it == wanted);
        assert!(may_have(one, wanted) && !may_have(one, other));
        assert!(!may_have(without, wanted));
        assert!(may_have(two, other) && may_have(unknown, other));
        Ok(())
    }

    #[test]
    fn memory_is_bounded() -> Result<()> {
        let mut known = KnownSketches::default();
        let many = Fingerprint::from_bits(u64::MAX);
        for number in 0..=MOST_OF_ONE as u8 {
            assert!(!known.may_have(many, |_| false) || number == 0);
            known.add(many, Some(&sketch(number)?));
        }
        assert!(known.may_have(many, |_| false), "too many sketches");
        for bits in 0..2 * MOST as u64 {
            known.add(Fingerprint::from_bits(bits), None);
        }
        let last = Fingerprint::from_bits(2 * MOST as u64 - 1);
        assert!(known.0.len() == MOST && !known.lacks(last));
        assert!(known.may_have(last, |_| false), "there was no room for it");
        known.add(Fingerprint::from_bits(0), Some(&sketch(1)?));
        assert!(known.may_have(Fingerprint::from_bits(0), |_| true));
        assert!(!known.may_have(Fingerprint::from_bits(1), |_| true));
        Ok(())
    }
}
