//! Measures methods against labelled pairs, and against bands of exact Jaccard similarity.

use std::time::Instant;

use super::corpus::Corpus;
use super::curve::{Band, Curve, Point, Verdicts};
use super::labels::{Labelled, Labels};
use super::method::{Described, Method, Scale};
use super::names::{MethodName, Settings};
use super::overlap::jaccard_pairs;
use crate::parallel;

/// Pairs of different groups below this similarity are unrelated.
const RELATED: f64 = 0.5;

/// What methods are measured against.
///
/// The bands hold the pairs of the labels, by the similarity that the labels give. Without such labels, they
/// hold all pairs of documents by the similarity that is computed. Unrelated pairs are always told by the
/// computed similarity.
#[derive(Debug)]
pub struct Yardstick<'c> {
    corpus: &'c Corpus,
    groups: Vec<u32>,
    /// The pairs in the bands, with the index of the band.
    banded: Vec<(usize, usize, usize)>,
    /// The pairs that people have judged, if they call some the same and others different.
    judged: Vec<(usize, usize, bool)>,
    /// The pairs of different groups that are related all the same.
    related: Vec<(usize, usize)>,
    unrelated: u64,
}

impl<'c> Yardstick<'c> {
    /// A yardstick for these documents.
    ///
    /// # Cost
    ///
    /// The exact similarity of all pairs that have a shingle in common.
    pub fn new(corpus: &'c Corpus, labels: &Labels) -> Self {
        let groups = corpus.groups();
        let near = jaccard_pairs(&corpus.shingles(4), RELATED);
        let near = near.iter().map(|&(a, b, similarity)| (a as usize, b as usize, similarity));
        let band = |(a, b, similarity): (usize, usize, f64)| {
            let band = Band::LEAST.iter().position(|least| similarity >= *least)?;
            Some((a, b, band))
        };
        let banded = if labels.has_j4() {
            labels.pairs.iter().filter_map(|pair| band((pair.a, pair.b, pair.j4?))).collect()
        } else {
            near.clone().filter_map(band).collect()
        };
        let related: Vec<(usize, usize)> =
            near.map(|(a, b, _)| (a, b)).filter(|&(a, b)| groups[a] != groups[b]).collect();
        let unrelated = pairs_of_different_groups(&groups) - related.len() as u64;
        Self { corpus, banded, judged: judged(&labels.pairs), related, unrelated, groups }
    }

    /// Whether people have judged pairs: some the same, some different.
    pub fn has_verdicts(&self) -> bool {
        !self.judged.is_empty()
    }

    /// The number of pairs in each band.
    pub fn bands(&self) -> [u64; 4] {
        let mut bands = [0; 4];
        self.banded.iter().for_each(|it| bands[it.2] += 1);
        bands
    }

    /// The number of unrelated pairs.
    pub fn unrelated(&self) -> u64 {
        self.unrelated
    }

    /// Measures a method at each of its thresholds.
    ///
    /// # Cost
    ///
    /// A method without an index of its own compares all pairs, on all cores.
    pub fn measure(&self, name: MethodName, settings: &Settings) -> Curve {
        let method = name.method(settings);
        self.measured(name.name(), method.as_ref())
    }

    fn measured(&self, name: &str, method: &dyn Method) -> Curve {
        let begin = Instant::now();
        let described = method.describe(self.corpus);
        let tokens = if method.takes_tokens() { self.corpus.tokens_seconds } else { 0.0 };
        let describing = begin.elapsed().as_secs_f64() + tokens;
        let scale = method.scale();
        let scores = scale.scores();
        let begin = Instant::now();
        let (matched, cores) = self.matched(described.as_ref(), &scores);
        let comparing = begin.elapsed().as_secs_f64() * cores as f64;
        let points = self.points(described.as_ref(), &scale, &matched);
        let documents = self.corpus.len() as f64;
        Curve {
            method: name.to_owned(),
            bytes: described.bytes() as f64 / documents,
            describe_us: 1e6 * describing / documents,
            pair_ns: 1e9 * comparing / self.corpus.pairs() as f64,
            points,
            scale,
        }
    }

    /// For each threshold, the pairs of different groups that match there and at no stricter one. And the
    /// number of cores that were used.
    fn matched(&self, described: &dyn Described, scores: &[f64]) -> (Vec<u64>, usize) {
        let Some(&least) = scores.last() else { return (Vec::new(), 1) };
        let mut all = vec![0; scores.len()];
        if let Some(pairs) = described.indexed(least) {
            for (a, b, score) in pairs {
                if self.groups[a as usize] != self.groups[b as usize] {
                    count(&mut all, scores, score);
                }
            }
            return (all, parallel::cores());
        }
        let rows = self.groups.len();
        let parts = rows.min(64 * parallel::cores());
        let counted = parallel::map(parts, |part| {
            let mut matched = vec![0; scores.len()];
            for a in (part..rows).step_by(parts) {
                for b in a + 1..rows {
                    let score = described.score(a, b).filter(|score| *score >= least);
                    if let Some(score) = score.filter(|_| self.groups[a] != self.groups[b]) {
                        count(&mut matched, scores, score);
                    }
                }
            }
            matched
        });
        for part in counted {
            all.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
        }
        (all, parallel::cores().min(parts))
    }

    fn points(&self, described: &dyn Described, scale: &Scale, matched: &[u64]) -> Vec<Point> {
        let scores = scale.scores();
        let steps = scores.len();
        let (mut bands, mut related) = (vec![[0; 4]; steps], vec![0; steps]);
        let mut verdicts = vec![[0; 2]; steps];
        let step = |a, b| described.score(a, b).and_then(|score| step_of(&scores, score));
        for &(a, b, band) in &self.banded {
            step(a, b).into_iter().for_each(|it| bands[it][band] += 1);
        }
        for &(a, b) in &self.related {
            step(a, b).into_iter().for_each(|it| related[it] += 1u64);
        }
        for &(a, b, same) in &self.judged {
            step(a, b).into_iter().for_each(|it| verdicts[it][usize::from(same)] += 1);
        }
        let in_bands = self.bands();
        let same = self.judged.iter().filter(|it| it.2).count() as u64;
        let judged = self.has_verdicts().then_some((self.judged.len() as u64 - same, same));
        let (mut found, mut found_unrelated, mut said) = ([0; 4], 0, [0; 2]);
        let point = |step: usize| {
            (0..4).for_each(|band| found[band] += bands[step][band]);
            (0..2).for_each(|it| said[it] += verdicts[step][it]);
            found_unrelated += matched[step] - related[step];
            Point {
                threshold: scores[step].abs(),
                bands: std::array::from_fn(|it| Band { pairs: in_bands[it], found: found[it] }),
                unrelated: Band { pairs: self.unrelated, found: found_unrelated },
                verdicts: judged.map(|(different, same)| Verdicts {
                    same: Band { pairs: same, found: said[1] },
                    different: Band { pairs: different, found: said[0] },
                }),
            }
        };
        (0..steps).map(point).collect()
    }
}

/// The judged pairs, if both judgements occur. Otherwise nothing can be told of precision.
fn judged(pairs: &[Labelled]) -> Vec<(usize, usize, bool)> {
    let judged: Vec<_> = pairs.iter().filter_map(|it| Some((it.a, it.b, it.same?))).collect();
    let has = |same: bool| judged.iter().any(|it| it.2 == same);
    if has(true) && has(false) { judged } else { Vec::new() }
}

fn pairs_of_different_groups(groups: &[u32]) -> u64 {
    let mut sorted = groups.to_vec();
    sorted.sort_unstable();
    let pairs = |count: usize| (count as u64) * (count as u64 - 1) / 2;
    let within: u64 = sorted.chunk_by(|a, b| a == b).map(|group| pairs(group.len())).sum();
    pairs(groups.len()) - within
}

/// The strictest threshold that a score reaches.
fn step_of(scores: &[f64], score: f64) -> Option<usize> {
    Some(scores.partition_point(|least| *least > score)).filter(|step| *step < scores.len())
}

fn count(counts: &mut [u64], scores: &[f64], score: f64) {
    step_of(scores, score).into_iter().for_each(|step| counts[step] += 1);
}

#[cfg(test)]
mod tests {
    use super::super::overlap::jaccard;
    use super::*;

    /// The definition, pair by pair. Texts share words of a small vocabulary, and most share no shingles.
    #[test]
    fn points_are_those_of_counting_every_pair() {
        let text = |seed: usize| {
            (0..30).map(move |it| format!("w{}", (seed / 4 * it * it + it + seed % 4 * (it / 28)) % 13))
        };
        let texts: Vec<String> = (0..40).map(|seed| text(seed).collect::<Vec<_>>().join(" ")).collect();
        let corpus = Corpus::of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let yardstick = Yardstick::new(&corpus, &Labels::default());
        let settings = Settings { max_distance: 24, ..Settings::default() };
        let shingles = corpus.shingles(4);
        let described = MethodName::Simhash1.method(&settings).describe(&corpus);
        let mut falsely = 0;
        for point in yardstick.measure(MethodName::Simhash1, &settings).points {
            let (mut unrelated, mut first) = (Band::default(), Band::default());
            for (a, b) in (0..40).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let similarity = jaccard(&shingles[a], &shingles[b]);
                let found = u64::from(described.score(a, b).is_some_and(|it| it >= -point.threshold));
                for (band, holds) in [(&mut unrelated, similarity < 0.5), (&mut first, similarity >= 0.9)] {
                    band.pairs += u64::from(holds);
                    band.found += u64::from(holds) * found;
                }
            }
            assert_eq!((point.unrelated, point.bands[0]), (unrelated, first), "distance {}", point.threshold);
            falsely += unrelated.found;
        }
        assert!(falsely > 0, "nothing matched falsely, so nothing was tested");
    }
}
