//! What a report of a database tells, found in the database.

use std::collections::HashMap;

use crate::{
    ClusterEvent, ClusterTotals, Clustering, Document, Error, Fingerprint, FingerprintGroup, Near,
    Pair, PairEvent, Query, Snapshot,
};
use serde_json::json;

use super::differences::Differences;
use super::findings::{
    Distances, Fact, Findings, FullPrefix, LargeCluster, Name, Sample, SizeCounter, Spread,
    TableSpread,
};
use super::parts::told_bits;
use crate::cli::console::Console;
use crate::cli::finds::Finds;
use crate::cli::output::Output;
use crate::cli::units::{told_bytes, told_count};

/// The clusters that are listed.
pub(super) const MOST_CLUSTERS: usize = 10;
/// The documents that are listed of each, beside the survivor.
pub(super) const MOST_OTHERS: usize = 4;
/// The prefixes that are listed.
const MOST_PREFIXES: usize = 5;
/// The queries that tell how the fingerprints are spread.
const QUERIES: usize = 100;

/// What is asked of a database.
pub(super) struct Gathering<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) max_distance: u32,
    /// The sample pairs of each distance.
    pub(super) samples: usize,
    pub(super) output: &'a Output,
}

/// A pair that may be shown, before its documents are looked up.
#[derive(Clone, Copy)]
struct Drawn {
    /// The pairs of the least lots are shown.
    lot: u64,
    a: Fingerprint,
    b: Fingerprint,
}

/// What is told of the clusters.
struct Clusters {
    totals: ClusterTotals,
    /// The greatest distance of two documents of a cluster. `None` if it is not known of some cluster.
    diameter: Option<u32>,
    sizes: SizeCounter,
    largest: Vec<LargeCluster>,
}

impl Gathering<'_> {
    /// Finds all. The texts are found by `texts`, which gets the documents of the sample pairs.
    pub(super) fn findings(
        &self,
        title: String,
        texts: impl FnOnce(&[Document]) -> Result<HashMap<Vec<u8>, String>, Error>,
    ) -> Result<Findings, Error> {
        let fingerprints = self.fingerprints()?;
        let (distances, drawn) = self.distances(fingerprints)?;
        let clusters = self.clusters()?;
        let facts = self.facts(fingerprints, &clusters)?;
        let Clusters { sizes, largest, .. } = clusters;
        let spread = Some(self.spread(fingerprints)?);
        let (samples, remarks) = self.samples(&drawn, texts)?;
        let sizes = sizes.finish();
        Ok(Findings {
            title,
            facts,
            distances,
            sizes,
            largest,
            spread,
            samples,
            remarks,
        })
    }

    fn console(&self) -> &Console {
        self.output.console()
    }

    /// The number of different fingerprints. The statistics only estimate it.
    fn fingerprints(&self) -> Result<u64, Error> {
        let mut finds = Finds::of(self.output);
        self.snapshot.count_fingerprints(|done, all| {
            finds.update(done, all);
            finds.wanted()
        })
    }

    fn facts(&self, fingerprints: u64, clusters: &Clusters) -> Result<Vec<Fact>, Error> {
        let totals = &clusters.totals;
        let stats = self.snapshot.stats()?;
        let count =
            |field, heading, count: u64| Fact::new(field, heading, told_count(count), count);
        let mut facts = vec![
            count("documents", "documents", stats.documents),
            count("too_short", "too short to judge", stats.too_short),
            count("fingerprints", "fingerprints", fingerprints),
            count("clusters", "clusters", totals.clusters),
            count(
                "clustered_documents",
                "documents in clusters",
                totals.documents,
            ),
            count("duplicates", "duplicates", totals.duplicates()),
            count(
                "largest_cluster",
                "documents of the largest",
                totals.largest,
            ),
        ];
        let told = clusters.diameter.map_or_else(
            || "unknown: a cluster has too many fingerprints to compare all".to_owned(),
            told_bits,
        );
        facts.push(Fact::new(
            "diameter",
            "greatest distance in a cluster",
            told,
            clusters.diameter,
        ));
        if totals.connected < totals.clusters || totals.largest_connected > totals.largest {
            let told = format!(
                "{} clusters, the largest of {} documents",
                told_count(totals.connected),
                told_count(totals.largest_connected)
            );
            let value = json!({"clusters": totals.connected, "largest": totals.largest_connected});
            facts.push(Fact::new("connected", "joined by chains", told, value));
        }
        let least = stats.min_similarity.filter(|&it| it > 0.0);
        let near = match least {
            Some(least) => format!(
                "at most {}, similarity {least} or more",
                told_bits(self.max_distance)
            ),
            None => format!("at most {}", told_bits(self.max_distance)),
        };
        let value = json!({"max_distance": self.max_distance, "min_similarity": least});
        facts.push(Fact::new("near", "near documents differ in", near, value));
        let scheme = stats.scheme.to_string();
        facts.push(Fact::new("scheme", "scheme", scheme.clone(), scheme));
        facts.push(Fact::new("plan", "plan", stats.plan.clone(), stats.plan));
        facts.push(Fact::new(
            "file_bytes",
            "size",
            told_bytes(stats.file_bytes as f64),
            stats.file_bytes,
        ));
        Ok(facts)
    }

    /// Counts the pairs of each distance, and draws some.
    fn distances(&self, fingerprints: u64) -> Result<(Distances, Vec<Vec<Drawn>>), Error> {
        let mut counts = vec![0u64; self.max_distance as usize + 1];
        let mut drawn: Vec<Vec<Drawn>> = vec![Vec::new(); counts.len()];
        let mut finds = Finds::of(self.output);
        let mut add = |a: &FingerprintGroup, b: &FingerprintGroup, distance: u32, pairs: u64| {
            let distance = distance as usize;
            counts[distance] = counts[distance].saturating_add(pairs);
            let lot = lot_of(a.fingerprint, b.fingerprint);
            draw(
                &mut drawn[distance],
                self.samples,
                Drawn {
                    lot,
                    a: a.fingerprint,
                    b: b.fingerprint,
                },
            );
        };
        // Those that are not similar enough are told too: a report is there to judge the least similarity.
        self.snapshot
            .pairs(Near::within(self.max_distance).min_similarity(0.0))
            .run(|event| {
                match event {
                    PairEvent::Group(it) => add(
                        &it,
                        &it,
                        0,
                        it.documents.saturating_mul(it.documents - 1) / 2,
                    ),
                    PairEvent::Pair(Pair { a, b, distance, .. }) => {
                        add(&a, &b, distance, a.documents.saturating_mul(b.documents));
                    }
                    PairEvent::Progress { done, all, .. } => finds.update(done, all),
                }
                finds.wanted()
            })?;
        self.console().ensure_wanted()?;
        let stats = self.snapshot.stats()?;
        let by_chance = Some(pairs_by_chance(fingerprints, self.max_distance));
        let has_unlike = stats.min_similarity.is_some_and(|least| least > 0.0);
        Ok((
            Distances {
                what: "pairs of documents",
                counts,
                has_unlike,
                by_chance,
            },
            drawn,
        ))
    }

    fn clusters(&self) -> Result<Clusters, Error> {
        let (mut sizes, mut largest, mut diameter) = (SizeCounter::default(), Vec::new(), Some(0));
        let mut finds = Finds::of(self.output);
        let clustering = Clustering::new().near(self.max_distance);
        let totals = self.snapshot.clusters(&clustering, |event| {
            match event {
                ClusterEvent::Cluster(cluster) => {
                    let documents = cluster.documents.len() as u64;
                    sizes.add(documents);
                    diameter = diameter.zip(cluster.diameter).map(|(a, b)| a.max(b));
                    keep_large(&mut largest, documents, || {
                        let others = cluster.documents.iter().enumerate();
                        let others = others.filter(|&(index, _)| index != cluster.survivor);
                        LargeCluster {
                            documents,
                            diameter: cluster.diameter,
                            survivor: Name::Key(cluster.documents[cluster.survivor].key.clone()),
                            others: others
                                .map(|(_, it)| (Name::Key(it.key.clone()), it.distance))
                                .take(MOST_OTHERS)
                                .collect(),
                        }
                    });
                }
                ClusterEvent::Progress { done, all } => finds.update(done, all),
            }
            finds.wanted()
        })?;
        self.console().ensure_wanted()?;
        Ok(Clusters {
            totals,
            diameter,
            sizes,
            largest,
        })
    }

    /// Asks for some stored fingerprints, and counts the candidates.
    fn spread(&self, fingerprints: u64) -> Result<Spread, Error> {
        let fingerprints = fingerprints as f64;
        let mut spread = Spread::default();
        // A table meets what is near only if it agrees on the probed prefix, so not each table does.
        let mut others = 0;
        for document in self.snapshot.sample(QUERIES)? {
            self.console().ensure_wanted()?;
            let Some(query) = Query::like(&document) else {
                continue;
            };
            let query = query.near(self.max_distance).limit(0);
            let (_, explained) = self.snapshot.explain(&query)?;
            spread.queries += 1;
            others += explained
                .probes
                .iter()
                .map(|it| it.candidates - it.near)
                .sum::<u64>();
            spread
                .tables
                .resize_with(explained.probes.len(), TableSpread::default);
            for (table, probes) in spread.tables.iter_mut().zip(&explained.probes) {
                (table.table, table.prefix_bits, table.ranges) =
                    (probes.table, probes.prefix_bits, probes.ranges);
                table.even =
                    probes.ranges as f64 * fingerprints / 2f64.powi(probes.prefix_bits as i32);
                table.expected += probes.candidates_expected;
                table.met += probes.candidates as f64;
                table.most = table.most.max(probes.candidates);
            }
        }
        let queries = spread.queries.max(1) as f64;
        for table in &mut spread.tables {
            (table.expected, table.met) = (table.expected / queries, table.met / queries);
        }
        spread.others_met = others as f64 / queries;
        // The sum of no numbers would be minus zero.
        spread.others_even = spread.tables.iter().fold(0.0, |sum, it| sum + it.even);
        let fullest = self
            .snapshot
            .fullest_prefixes(MOST_PREFIXES)?
            .prefixes
            .into_iter();
        let fullest = fullest.filter(|it| it.rows > 1 && it.times_expected() >= 2.0);
        spread.fullest = fullest
            .map(|it| FullPrefix {
                table: it.table,
                prefix_bits: it.prefix_bits,
                rows: it.rows,
                expected: it.expected,
            })
            .collect();
        Ok(spread)
    }

    /// Looks up the documents of the pairs that were drawn, and compares their texts.
    fn samples(
        &self,
        drawn: &[Vec<Drawn>],
        texts: impl FnOnce(&[Document]) -> Result<HashMap<Vec<u8>, String>, Error>,
    ) -> Result<(Vec<Sample>, Vec<String>), Error> {
        let mut pairs = Vec::new();
        for (distance, drawn) in drawn.iter().enumerate() {
            for Drawn { a, b, .. } in drawn {
                let first = self.documents_of(*a)?;
                let second = if a == b {
                    first.get(1).cloned()
                } else {
                    self.documents_of(*b)?.pop()
                };
                if let (Some(first), Some(second)) = (first.into_iter().next(), second) {
                    pairs.push((distance as u32, first, second));
                }
            }
        }
        let documents: Vec<Document> = pairs
            .iter()
            .flat_map(|it| [it.1.clone(), it.2.clone()])
            .collect();
        let texts = texts(&documents)?;
        let mut without = 0;
        let samples = pairs.into_iter().map(|(distance, first, second)| {
            let similarity = first.sketch().zip(second.sketch());
            let similarity = similarity
                .and_then(|(a, b)| a.similarity(b).ok())
                .map(|it| it.jaccard());
            let both = texts.get(first.key()).zip(texts.get(second.key()));
            without += usize::from(both.is_none());
            let differences = both.map(|(first, second)| Differences::of(first, second));
            let [first, second] = [first, second].map(|it| Name::Key(it.key().to_vec()));
            Sample {
                first,
                second,
                distance,
                similarity,
                differences,
            }
        });
        let samples: Vec<Sample> = samples.collect();
        let remark = format!(
            "The words of {without} of {} sample pairs are not shown, as their texts are not at hand. `--texts FILE` \
             names a file with the keys and the texts; without it, payloads are shown.",
            samples.len()
        );
        Ok((
            samples,
            if without > 0 {
                vec![remark]
            } else {
                Vec::new()
            },
        ))
    }

    /// Up to two documents of a fingerprint.
    fn documents_of(&self, fingerprint: Fingerprint) -> Result<Vec<Document>, Error> {
        let query = Query::new(fingerprint)
            .near(Near::within(0).min_similarity(0.0))
            .limit(2);
        Ok(self
            .snapshot
            .query(&query)?
            .iter()
            .map(|it| it.document.clone())
            .collect())
    }
}

/// Keeps a cluster if it is one of the largest. Of equal ones, those that came first are kept.
pub(super) fn keep_large(
    largest: &mut Vec<LargeCluster>,
    documents: u64,
    cluster: impl FnOnce() -> LargeCluster,
) {
    let place = largest.partition_point(|it| it.documents >= documents);
    if place < MOST_CLUSTERS {
        largest.insert(place, cluster());
        largest.truncate(MOST_CLUSTERS);
    }
}

/// The lot of a pair: scattered, and always the same for the same pair.
fn lot_of(a: Fingerprint, b: Fingerprint) -> u64 {
    let mixed = (a.bits() ^ b.bits().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Keeps a pair if it has one of the least lots.
fn draw(drawn: &mut Vec<Drawn>, most: usize, pair: Drawn) {
    let place = drawn.partition_point(|it| it.lot <= pair.lot);
    if place < most {
        drawn.insert(place, pair);
        drawn.truncate(most);
    }
}

/// The pairs within a distance that are expected among random fingerprints.
fn pairs_by_chance(fingerprints: u64, max_distance: u32) -> f64 {
    let fingerprints = fingerprints as f64;
    let (mut near, mut patterns) = (0.0, 1.0);
    for distance in 0..=max_distance {
        near += patterns;
        patterns *= f64::from(Fingerprint::BITS - distance) / f64::from(distance + 1);
    }
    fingerprints * (fingerprints - 1.0).max(0.0) / 2.0 * near / 2f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_pairs_are_expected_by_the_number_of_patterns() {
        // 2^32 fingerprints have about 2^63 pairs, so half a pair for each pattern.
        let patterns = 1.0 + 64.0 + 2016.0 + 41_664.0;
        assert!((pairs_by_chance(1 << 32, 3) / (patterns / 2.0) - 1.0).abs() < 1e-6);
        assert_eq!(pairs_by_chance(0, 3), 0.0);
        assert!((pairs_by_chance(1000, 64) / (1000.0 * 999.0 / 2.0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_pairs_of_the_least_lots_are_drawn() {
        let pair = |lot| Drawn {
            lot,
            a: Fingerprint::from_bits(lot),
            b: Fingerprint::from_bits(0),
        };
        let mut drawn = Vec::new();
        [5, 1, 9, 3, 7, 0]
            .into_iter()
            .for_each(|lot| draw(&mut drawn, 3, pair(lot)));
        assert_eq!(drawn.iter().map(|it| it.lot).collect::<Vec<_>>(), [0, 1, 3]);
    }
}
