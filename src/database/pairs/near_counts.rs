//! How many documents would be near at each distance and each least similarity, counted in one search for all pairs.

use std::collections::HashMap;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;

use super::pairs::PairEvent;
use super::search::{Keys, Member, MemberEvent, PairQuery};
use crate::database::near::{Near, NearBounds};
use crate::database::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::sketch::SketchSize;
use crate::store::DocumentNumber;

/// How many documents of a snapshot are near to another one, by one choice of a max distance and a least similarity.
///
/// See the example of [`Snapshot::count_near`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NearCount {
    /// The largest distance of near documents.
    pub max_distance: u32,
    /// The least similarity of near documents. At 0, the distance alone decides.
    pub min_similarity: f64,
    /// The documents that are near to at least one other.
    pub documents: u64,
    /// The pairs of near documents.
    pub pairs: u64,
}

impl Snapshot {
    /// Counts the near documents by each distance up to the one that is given and by each of some least similarities,
    /// in one search for all pairs. So a choice of these can be made by looking.
    ///
    /// The counts are exact. They are in the order of the distances, then of the similarities. Without sketches, 0 is
    /// the only similarity that is counted. `observe` is given the pairs with their similarities, as
    /// [`Pairs::run`](super::Pairs::run) would give them. If it breaks, only the pairs until then are counted.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::run`](super::Pairs::run) for the distance, the similarities and the file.
    ///
    /// # Cost
    ///
    /// That of all pairs within the distance. For each different document that is near to another, some 30 bytes of
    /// memory, and one for each similarity.
    ///
    /// # Example
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for (key, bits) in [("a", 7), ("b", 6), ("c", 7), ("d", u64::MAX)] {
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
    /// }
    /// txn.commit()?;
    /// let counts = database.snapshot()?.count_near(1, &[0.0], |_| ControlFlow::Continue(()))?;
    /// // At distance 0, "a" and "c" are near. At distance 1, both are near to "b" too.
    /// assert_eq!((counts[0].documents, counts[0].pairs), (2, 1));
    /// assert_eq!((counts[1].documents, counts[1].pairs), (3, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_near(
        &self,
        max_distance: u32,
        min_similarities: &[f64],
        mut observe: impl FnMut(PairEvent) -> ControlFlow<()>,
    ) -> Result<Vec<NearCount>> {
        let mut levels = min_similarities.to_vec();
        for &level in min_similarities {
            NearBounds::new(max_distance, level)?;
        }
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let settings = self.reader()?.settings();
        let has_sketches = settings.sketch_size != SketchSize::None;
        if !has_sketches {
            levels.retain(|&level| level == 0.0);
        }
        let near = Near::within(max_distance).min_similarity(0.0);
        let mut query = PairQuery::new(&near, settings)?;
        query.by_sketch = has_sketches;

        let mut counts = NearCounts::new(levels, max_distance);
        let observe = &mut |event: MemberEvent| {
            counts.add(&event);
            Error::if_broken(observe(PairEvent::from_members(event)))
        };
        Error::unless_interrupted(query.run(self, None, Keys::Newest, observe))?;
        Ok(counts.within())
    }
}

struct NearCounts {
    /// The least similarities, the least first.
    levels: Vec<f64>,
    /// In the order of the distances, then of the levels: the pairs that differ in exactly so many bits, and the
    /// documents whose nearest one does.
    exact: Vec<NearCount>,
    /// For each member that is near to another, the number of its row in `nearest`.
    rows: HashMap<DocumentNumber, u32, RandomState>,
    /// In rows of all levels: the distance of the nearest document, or none.
    nearest: Vec<u8>,
}

const NONE: u8 = u8::MAX;

impl NearCounts {
    fn new(levels: Vec<f64>, max_distance: u32) -> Self {
        let mut exact = Vec::new();
        for max_distance in 0..=max_distance {
            for &min_similarity in &levels {
                exact.push(NearCount {
                    max_distance,
                    min_similarity,
                    documents: 0,
                    pairs: 0,
                });
            }
        }
        Self {
            levels,
            exact,
            rows: HashMap::default(),
            nearest: Vec::new(),
        }
    }

    fn add(&mut self, event: &MemberEvent) {
        match event {
            MemberEvent::Group(member) => {
                let documents = member.group.documents;
                let pairs = documents.saturating_mul(documents - 1) / 2;
                let reached = self.levels_reached(member.sketch.map(|_| 1.0));
                self.add_pairs(pairs, 0, reached);
                self.add_documents(member, 0, reached);
            }
            MemberEvent::Pair {
                a,
                b,
                distance,
                similarity,
            } => {
                let pairs = a.group.documents.saturating_mul(b.group.documents);
                let reached = self.levels_reached(*similarity);
                self.add_pairs(pairs, *distance, reached);
                self.add_documents(a, *distance, reached);
                self.add_documents(b, *distance, reached);
            }
            MemberEvent::Progress { .. } => {}
        }
    }

    /// The number of levels that a similarity reaches. Where it is not known, the distance alone decides.
    fn levels_reached(&self, similarity: Option<f64>) -> usize {
        let similarity = similarity.unwrap_or(0.0);
        self.levels.partition_point(|&level| level <= similarity)
    }

    fn add_pairs(&mut self, pairs: u64, distance: u32, reached: usize) {
        let first = distance as usize * self.levels.len();
        for count in &mut self.exact[first..first + reached] {
            count.pairs = count.pairs.saturating_add(pairs);
        }
    }

    /// Counts the documents of a member among those that have a near one, or moves them to a lesser distance.
    fn add_documents(&mut self, member: &Member, distance: u32, reached: usize) {
        if reached == 0 {
            return;
        }
        let width = self.levels.len();
        let next = self.rows.len() as u32;
        let row = *self.rows.entry(member.newest).or_insert(next);
        if row == next {
            self.nearest.extend(std::iter::repeat_n(NONE, width));
        }
        let first = row as usize * width;
        let nearest = &mut self.nearest[first..first + reached];
        for (level, nearest) in nearest.iter_mut().enumerate() {
            let before = u32::from(*nearest);
            if distance >= before {
                continue;
            }
            if *nearest != NONE {
                self.exact[before as usize * width + level].documents -= member.group.documents;
            }
            self.exact[distance as usize * width + level].documents += member.group.documents;
            *nearest = distance as u8;
        }
    }

    fn within(mut self) -> Vec<NearCount> {
        let width = self.levels.len();
        for index in width..self.exact.len() {
            let nearer = self.exact[index - width];
            let count = &mut self.exact[index];
            count.documents += nearer.documents;
            count.pairs = count.pairs.saturating_add(nearer.pairs);
        }
        self.exact
    }
}
