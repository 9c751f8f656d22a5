//! Measures methods against labelled pairs, and against bands of exact Jaccard similarity.

use std::time::Instant;

use super::corpus::Corpus;
use super::curve::{Band, Curve, EstimateError, Point, Verdicts};
use super::labels::Labels;
use super::method::{Method, MethodName, Settings};
use super::overlap::jaccard_pairs;
use crate::parallel;

/// Pairs of different groups below this similarity are unrelated.
const RELATED: f64 = 0.5;

/// The pairs that methods are measured against.
///
/// The bands hold the pairs of the labels, by the similarity that the labels give. Without such labels, they
/// hold all pairs of documents by the similarity that is computed. Unrelated pairs are always told by the
/// computed similarity.
///
/// # Example
///
/// ```
/// use simdb::eval::{Labels, Settings, Yardstick};
/// # use simdb::eval::Corpus;
/// # use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
/// # let page = "one two three four five six seven eight nine ten eleven twelve";
/// # std::fs::write(&path, format!("a\t{page}\nb\t{page}\nc\tnothing of all this is in the third page\n"))?;
/// # let corpus = Corpus::read(Records::open([&path], ReadOptions::new())?, |_| {})?;
///
/// // Two of the three pages have the same text.
/// let yardstick = Yardstick::new(&corpus, &Labels::default());
/// assert_eq!((yardstick.bands(), yardstick.unrelated()), ([1, 0, 0, 0], 2));
/// let curve = yardstick.measure("exact".parse()?, &Settings::default());
/// assert_eq!(curve.points[0].bands[0].recall(), Some(1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Yardstick<'c> {
    corpus: &'c Corpus,
    groups: Vec<u32>,
    /// The pairs in the bands, with the index of the band.
    banded: Vec<(usize, usize, usize)>,
    /// The pairs of the bands whose computed similarity is 0.5 or more, with this similarity.
    computed: Vec<(usize, usize, f64)>,
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
        let mut near = Vec::new();
        let mut related = Vec::new();
        for (a, b, similarity) in jaccard_pairs(&corpus.shingles(4), RELATED) {
            let a = a as usize;
            let b = b as usize;
            near.push((a, b, similarity));
            if groups[a] != groups[b] {
                related.push((a, b));
            }
        }

        let given = labels.similarities();
        let mut banded = Vec::new();
        let mut computed = Vec::new();
        for &(a, b, similarity) in given.as_ref().unwrap_or(&near) {
            let Some(band) = Band::LEAST.iter().position(|&least| similarity >= least) else {
                continue;
            };
            banded.push((a, b, band));
            if let Ok(index) = near.binary_search_by_key(&(a, b), |&(a, b, _)| (a, b)) {
                computed.push(near[index]);
            }
        }
        let unrelated = pairs_of_different_groups(&groups) - related.len() as u64;
        Self {
            corpus,
            banded,
            computed,
            judged: labels.judged(),
            related,
            unrelated,
            groups,
        }
    }

    /// Whether people have judged pairs: some the same, some different.
    pub fn has_verdicts(&self) -> bool {
        !self.judged.is_empty()
    }

    /// The number of pairs in each band.
    pub fn bands(&self) -> [u64; 4] {
        let mut bands = [0; 4];
        for &(_, _, band) in &self.banded {
            bands[band] += 1;
        }
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
        let begin = Instant::now();
        let method = name.describe(self.corpus, settings);
        let tokens = if method.takes_tokens() {
            self.corpus.tokens_seconds
        } else {
            0.0
        };
        let describing = begin.elapsed().as_secs_f64() + tokens;
        let scale = method.scale();
        let scores = scale.scores();
        let begin = Instant::now();
        let (matched, cores) = self.matched(method.as_ref(), &scores);
        let comparing = begin.elapsed().as_secs_f64() * cores as f64;
        let points = self.points(method.as_ref(), &scores, &matched);
        let estimates = self.computed.iter().filter_map(|&(a, b, similarity)| {
            let estimate = method.estimate(a, b)?;
            Some((estimate, similarity))
        });
        let documents = self.corpus.len() as f64;
        Curve {
            method: name.to_string(),
            bytes: method.bytes() as f64 / documents,
            describe_us: 1e6 * describing / documents,
            pair_ns: 1e9 * comparing / self.corpus.pairs() as f64,
            points,
            estimate_error: EstimateError::from_estimates(estimates),
            scale,
        }
    }

    /// For each threshold, the pairs of different groups that match there and at no stricter one. And the
    /// number of cores that were used.
    fn matched(&self, method: &dyn Method, scores: &[f64]) -> (Vec<u64>, usize) {
        let Some(&least) = scores.last() else {
            return (Vec::new(), 1);
        };
        let mut all = vec![0; scores.len()];
        if let Some(pairs) = method.indexed(least) {
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
                    match method.score(a, b) {
                        Some(score) if score >= least && self.groups[a] != self.groups[b] => {
                            count(&mut matched, scores, score);
                        }
                        _ => {}
                    }
                }
            }
            matched
        });
        for part in counted {
            for (sum, count) in all.iter_mut().zip(part) {
                *sum += count;
            }
        }
        (all, parallel::cores().min(parts))
    }

    fn points(&self, method: &dyn Method, scores: &[f64], matched: &[u64]) -> Vec<Point> {
        let steps = scores.len();
        // For each threshold, the pairs that match there and at no stricter one.
        let mut bands = vec![[0; 4]; steps];
        let mut related = vec![0; steps];
        let mut verdicts = vec![[0; 2]; steps];
        for &(a, b, band) in &self.banded {
            if let Some(step) = step_of(scores, method.score(a, b)) {
                bands[step][band] += 1;
            }
        }
        for &(a, b) in &self.related {
            if let Some(step) = step_of(scores, method.score(a, b)) {
                related[step] += 1;
            }
        }
        for &(a, b, same) in &self.judged {
            if let Some(step) = step_of(scores, method.score(a, b)) {
                verdicts[step][usize::from(same)] += 1;
            }
        }

        // Those that match at a threshold, as sums over it and the stricter ones.
        let mut in_bands = self.bands().map(|pairs| Band { pairs, found: 0 });
        let mut unrelated = Band {
            pairs: self.unrelated,
            found: 0,
        };
        let mut judged = Verdicts::default();
        for &(_, _, same) in &self.judged {
            judged.same.pairs += u64::from(same);
            judged.different.pairs += u64::from(!same);
        }
        let mut points = Vec::with_capacity(steps);
        for step in 0..steps {
            for (band, found) in in_bands.iter_mut().zip(bands[step]) {
                band.found += found;
            }
            unrelated.found += matched[step] - related[step];
            let [different, same] = verdicts[step];
            judged.different.found += different;
            judged.same.found += same;
            points.push(Point {
                threshold: scores[step].abs(),
                bands: in_bands,
                unrelated,
                verdicts: self.has_verdicts().then_some(judged),
            });
        }
        points
    }
}

fn pairs_of_different_groups(groups: &[u32]) -> u64 {
    let mut sorted = groups.to_vec();
    sorted.sort_unstable();
    let mut pairs = 0;
    let mut before = 0;
    for group in sorted.chunk_by(|a, b| a == b) {
        pairs += before * group.len() as u64;
        before += group.len() as u64;
    }
    pairs
}

/// The strictest threshold that a score reaches.
fn step_of(scores: &[f64], score: Option<f64>) -> Option<usize> {
    let score = score?;
    let step = scores.partition_point(|&least| least > score);
    (step < scores.len()).then_some(step)
}

fn count(counts: &mut [u64], scores: &[f64], score: f64) {
    if let Some(step) = step_of(scores, Some(score)) {
        counts[step] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::twins_tests::{Words, resemblance};
    use super::*;
    use crate::sketch::SketchSize;
    use crate::text::{Fingerprinter, Scheme};

    /// Forty texts of a small vocabulary. Four each have much in common, and most share no shingles.
    fn texts() -> Vec<Words> {
        let mut texts = Vec::new();
        for seed in 0..40 {
            let mut text = Words::new();
            for i in 0..30 {
                let word = (seed / 4 * i * i + i + seed % 4 * (i / 28)) % 13;
                text.push(format!("w{word}"));
            }
            texts.push(text);
        }
        texts
    }

    fn pairs() -> impl Iterator<Item = (usize, usize)> {
        (0..40).flat_map(|a| (0..a).map(move |b| (b, a)))
    }

    fn corpus(texts: &[Words]) -> Corpus {
        let texts: Vec<String> = texts.iter().map(|text| text.join(" ")).collect();
        Corpus::from_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The definition, pair by pair.
    #[test]
    fn points_are_those_of_counting_every_pair() -> Result<(), Box<dyn std::error::Error>> {
        let texts = texts();
        let corpus = corpus(&texts);
        let yardstick = Yardstick::new(&corpus, &Labels::default());
        let settings = Settings {
            max_distance: 24,
            ..Settings::default()
        };
        let fingerprinter = Fingerprinter::new(Scheme::Simhash1)?;
        let fingerprints: Vec<_> = texts
            .iter()
            .map(|text| fingerprinter.fingerprint(&text.join(" ")))
            .collect();
        let mut falsely = 0;
        for point in yardstick.measure("simhash-1".parse()?, &settings).points {
            let mut unrelated = Band::default();
            let mut first = Band::default();
            for (a, b) in pairs() {
                let similarity = resemblance(&texts[a], &texts[b], 4);
                let distance = fingerprints[a]
                    .zip(fingerprints[b])
                    .map(|(a, b)| a.distance(b));
                let found =
                    u64::from(distance.is_some_and(|bits| f64::from(bits) <= point.threshold));
                for (band, holds) in [
                    (&mut unrelated, similarity < 0.5),
                    (&mut first, similarity >= 0.9),
                ] {
                    band.pairs += u64::from(holds);
                    band.found += u64::from(holds) * found;
                }
            }
            assert_eq!(
                (point.unrelated, point.bands[0]),
                (unrelated, first),
                "distance {}",
                point.threshold
            );
            falsely += unrelated.found;
        }
        assert!(
            falsely > 0,
            "nothing matched falsely, so nothing was tested"
        );
        Ok(())
    }

    /// The definition, pair by pair, for sketches of both sizes. Labels choose the pairs.
    #[test]
    fn the_error_of_the_estimate_is_that_of_every_pair() -> Result<(), Box<dyn std::error::Error>> {
        let texts = texts();
        let corpus = corpus(&texts);
        let some = Labels::with_j4(
            pairs()
                .filter(|(a, _)| a % 4 == 0)
                .map(|(a, b)| (a, b, 0.6)),
        );
        for (labels, step) in [(Labels::default(), 1), (some, 4)] {
            let yardstick = Yardstick::new(&corpus, &labels);
            for (name, size) in [
                ("+sketch", SketchSize::Bytes16),
                ("+sketch32", SketchSize::Bytes32),
            ] {
                let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?.with_sketch_size(size);
                let sketches: Vec<_> = texts
                    .iter()
                    .map(|text| fingerprinter.sketch(&text.join(" ")))
                    .collect();
                let mut squares = 0.0;
                let mut count = 0;
                for (a, b) in pairs().filter(|(a, _)| a % step == 0) {
                    let similarity = resemblance(&texts[a], &texts[b], 4);
                    if let (true, Some(x), Some(y)) = (similarity >= 0.5, sketches[a], sketches[b])
                    {
                        squares += (x.similarity(&y)?.jaccard() - similarity).powi(2);
                        count += 1;
                    }
                }
                let curve =
                    yardstick.measure(format!("minwise-1{name}").parse()?, &Settings::default());
                let error = curve.estimate_error.ok_or("no estimates")?;
                assert!(
                    count > 3 && error.pairs == count,
                    "{} of {count} pairs",
                    error.pairs
                );
                assert!(
                    (error.rmse - (squares / count as f64).sqrt()).abs() < 1e-12,
                    "{}",
                    error.rmse
                );
            }
        }
        let plain = Yardstick::new(&corpus, &Labels::default())
            .measure("minwise-1".parse()?, &Settings::default());
        assert_eq!(
            plain.estimate_error, None,
            "fingerprints estimate another similarity"
        );
        Ok(())
    }
}
