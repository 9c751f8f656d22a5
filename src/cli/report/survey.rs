//! Finds the contents of a report of a database: all pairs, all clusters, and how some queries are answered.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::{
    Cluster, ClusterEvent, ClusterTotals, Clustering, Document, Error, Fingerprint, Near, Pair,
    PairEvent, Query, Snapshot,
};
use serde_json::json;

use super::differences::Differences;
use super::findings::{
    Distances, Fact, Findings, LargeCluster, Name, Sample, SizeCounter, Spread, TableSpread,
};
use super::parts::bits_text;
use crate::cli::output::Output;
use crate::cli::units::{told_bytes, told_count};

/// The clusters that are listed.
const MOST_CLUSTERS: usize = 10;
/// The documents that are listed of each, beside the survivor.
pub(super) const MOST_OTHERS: usize = 4;
/// The prefixes that are listed.
const MOST_PREFIXES: usize = 5;
/// The queries that tell how the fingerprints are spread.
const QUERIES: usize = 100;

/// A survey of a database.
pub(super) struct Survey<'a> {
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

/// The clusters, counted.
struct Clusters {
    totals: ClusterTotals,
    /// The greatest distance of two documents of a cluster. `None` if it is not known of some cluster.
    diameter: Option<u32>,
    sizes: SizeCounter,
    largest: Vec<LargeCluster>,
}

impl Survey<'_> {
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
        let spread = self.spread(fingerprints)?;
        let pairs = self.documents_of_pairs(&drawn)?;
        let mut documents = Vec::new();
        for (_, first, second) in &pairs {
            documents.extend([first.clone(), second.clone()]);
        }
        let texts = texts(&documents)?;
        let samples: Vec<Sample> = pairs.into_iter().map(|pair| sample(pair, &texts)).collect();
        let mut remarks = Vec::new();
        let without = samples
            .iter()
            .filter(|sample| sample.differences.is_none())
            .count();
        if without > 0 {
            remarks.push(format!(
                "The words of {without} of {} sample pairs are not shown, as their texts are not at hand. \
                 `--texts FILE` names a file with the keys and the texts; without it, payloads are shown.",
                samples.len()
            ));
        }
        Ok(Findings {
            title,
            facts,
            distances,
            sizes: clusters.sizes.finish(),
            largest: clusters.largest,
            spread: Some(spread),
            samples,
            remarks,
        })
    }

    /// The number of different fingerprints. The statistics only estimate it.
    fn fingerprints(&self) -> Result<u64, Error> {
        let progress = self.output.console().progress();
        self.snapshot
            .count_fingerprints_with(|done, all| progress.update(done, Some(all)))
    }

    fn facts(&self, fingerprints: u64, clusters: &Clusters) -> Result<Vec<Fact>, Error> {
        let totals = &clusters.totals;
        let stats = self.snapshot.stats()?;
        let mut facts = Vec::new();
        for (field, heading, count) in [
            ("documents", "documents", stats.documents),
            ("too_short", "too short to judge", stats.too_short),
            ("fingerprints", "fingerprints", fingerprints),
            ("clusters", "clusters", totals.clusters),
            (
                "clustered_documents",
                "documents in clusters",
                totals.documents,
            ),
            ("duplicates", "duplicates", totals.duplicates()),
            (
                "largest_cluster",
                "documents of the largest",
                totals.largest,
            ),
        ] {
            facts.push(Fact::new(field, heading, told_count(count), count));
        }

        let diameter = match clusters.diameter {
            Some(diameter) => bits_text(diameter),
            None => "unknown: a cluster has too many fingerprints to compare all".to_owned(),
        };
        let heading = "greatest distance in a cluster";
        facts.push(Fact::new("diameter", heading, diameter, clusters.diameter));
        let ClusterTotals {
            connected,
            largest_connected,
            ..
        } = *totals;
        if connected < totals.clusters || largest_connected > totals.largest {
            let text = format!(
                "{} clusters, the largest of {} documents",
                told_count(connected),
                told_count(largest_connected)
            );
            let value = json!({"clusters": connected, "largest": largest_connected});
            facts.push(Fact::new("connected", "joined by chains", text, value));
        }

        let mut near = format!("at most {}", bits_text(self.max_distance));
        let least = stats.min_similarity.filter(|&least| least > 0.0);
        if let Some(least) = least {
            near += &format!(", similarity {least} or more");
        }
        let value = json!({"max_distance": self.max_distance, "min_similarity": least});
        facts.push(Fact::new("near", "near documents differ in", near, value));
        let scheme = stats.scheme.to_string();
        facts.push(Fact::new("scheme", "scheme", scheme.clone(), scheme));
        facts.push(Fact::new("plan", "plan", stats.plan.clone(), stats.plan));
        let size = told_bytes(stats.file_bytes as f64);
        facts.push(Fact::new("file_bytes", "size", size, stats.file_bytes));
        Ok(facts)
    }

    /// Counts the pairs of each distance, and draws some.
    fn distances(&self, fingerprints: u64) -> Result<(Distances, Vec<Vec<Drawn>>), Error> {
        let mut counts = vec![0u64; self.max_distance as usize + 1];
        let mut drawn: Vec<Vec<Drawn>> = vec![Vec::new(); counts.len()];
        let progress = self.output.console().progress();
        // Those that are not similar enough count too: a report is there to judge the least similarity.
        let pairs = self
            .snapshot
            .pairs(Near::within(self.max_distance).min_similarity(0.0));
        pairs.run(|event| {
            let (a, b, distance, pairs) = match event {
                PairEvent::Group(group) => {
                    let pairs = group.documents.saturating_mul(group.documents - 1) / 2;
                    (group.fingerprint, group.fingerprint, 0, pairs)
                }
                PairEvent::Pair(Pair { a, b, distance, .. }) => {
                    let pairs = a.documents.saturating_mul(b.documents);
                    (a.fingerprint, b.fingerprint, distance as usize, pairs)
                }
                PairEvent::Progress { done, all, .. } => return progress.update(done, Some(all)),
            };
            counts[distance] = counts[distance].saturating_add(pairs);
            draw(
                &mut drawn[distance],
                self.samples,
                Drawn {
                    lot: lot_of(a, b),
                    a,
                    b,
                },
            );
            ControlFlow::Continue(())
        })?;
        self.output.console().ensure_wanted()?;
        let stats = self.snapshot.stats()?;
        let distances = Distances {
            what: "pairs of documents",
            counts,
            has_unlike: stats.min_similarity.is_some_and(|least| least > 0.0),
            by_chance: Some(pairs_by_chance(fingerprints, self.max_distance)),
        };
        Ok((distances, drawn))
    }

    fn clusters(&self) -> Result<Clusters, Error> {
        let mut sizes = SizeCounter::default();
        let mut largest = Vec::new();
        let mut diameter = Some(0);
        let progress = self.output.console().progress();
        let clustering = Clustering::new().near(self.max_distance);
        let totals = self.snapshot.clusters(&clustering, |event| {
            match event {
                ClusterEvent::Cluster(cluster) => {
                    sizes.add(cluster.documents.len() as u64);
                    diameter = diameter.zip(cluster.diameter).map(|(a, b)| a.max(b));
                    let documents = cluster.documents.len() as u64;
                    keep_large(&mut largest, documents, || large_cluster(&cluster));
                }
                ClusterEvent::Progress { done, all } => return progress.update(done, Some(all)),
            }
            ControlFlow::Continue(())
        })?;
        self.output.console().ensure_wanted()?;
        Ok(Clusters {
            totals,
            diameter,
            sizes,
            largest,
        })
    }

    /// Queries some stored fingerprints, and counts the candidates.
    fn spread(&self, fingerprints: u64) -> Result<Spread, Error> {
        let fingerprints = fingerprints as f64;
        let mut spread = Spread::default();
        // A table meets what is near only if it agrees on the probed prefix, so not each table does.
        let mut others = 0;
        for document in self.snapshot.sample(QUERIES)? {
            self.output.console().ensure_wanted()?;
            let Some(query) = Query::like(&document) else {
                continue;
            };
            let query = query.near(self.max_distance).limit(0);
            let (_, explanation) = self.snapshot.explain(&query)?;
            spread.queries += 1;
            spread
                .tables
                .resize_with(explanation.probes.len(), TableSpread::default);
            for (table, probes) in spread.tables.iter_mut().zip(&explanation.probes) {
                others += probes.candidates - probes.near;
                table.table = probes.table;
                table.prefix_bits = probes.prefix_bits;
                table.ranges = probes.ranges;
                table.even =
                    probes.ranges as f64 * fingerprints / 2f64.powi(probes.prefix_bits as i32);
                table.expected += probes.candidates_expected;
                table.candidates += probes.candidates as f64;
                table.most = table.most.max(probes.candidates);
            }
        }
        let queries = spread.queries.max(1) as f64;
        spread.others = others as f64 / queries;
        for table in &mut spread.tables {
            table.expected /= queries;
            table.candidates /= queries;
            spread.others_even += table.even;
        }
        for prefix in self.snapshot.fullest_prefixes(MOST_PREFIXES)?.prefixes {
            if prefix.rows > 1 && prefix.times_expected() >= 2.0 {
                spread.fullest.push(prefix);
            }
        }
        Ok(spread)
    }

    /// Two documents of each pair that was drawn, and their distance.
    fn documents_of_pairs(
        &self,
        drawn: &[Vec<Drawn>],
    ) -> Result<Vec<(u32, Document, Document)>, Error> {
        let mut pairs = Vec::new();
        for (distance, drawn) in (0..).zip(drawn) {
            for &Drawn { a, b, .. } in drawn {
                let mut first = self.documents_of(a)?.into_iter();
                let second = match a == b {
                    true => first.clone().nth(1),
                    false => self.documents_of(b)?.pop(),
                };
                if let (Some(first), Some(second)) = (first.next(), second) {
                    pairs.push((distance, first, second));
                }
            }
        }
        Ok(pairs)
    }

    /// Up to two documents of a fingerprint.
    fn documents_of(&self, fingerprint: Fingerprint) -> Result<Vec<Document>, Error> {
        let query = Query::new(fingerprint)
            .near(Near::within(0).min_similarity(0.0))
            .limit(2);
        let matches = self.snapshot.query(&query)?;
        Ok(matches.iter().map(|found| found.document.clone()).collect())
    }
}

fn large_cluster(cluster: &Cluster) -> LargeCluster {
    let mut others = Vec::new();
    for (index, document) in cluster.documents.iter().enumerate() {
        if index != cluster.survivor && others.len() < MOST_OTHERS {
            others.push((Name::Key(document.key.clone()), document.distance));
        }
    }
    LargeCluster {
        documents: cluster.documents.len() as u64,
        diameter: cluster.diameter,
        survivor: Name::Key(cluster.documents[cluster.survivor].key.clone()),
        others,
    }
}

/// A pair, with the words in which its texts differ.
fn sample(pair: (u32, Document, Document), texts: &HashMap<Vec<u8>, String>) -> Sample {
    let (distance, first, second) = pair;
    let similarity = match (first.sketch(), second.sketch()) {
        (Some(a), Some(b)) => a.similarity(b).ok(),
        _ => None,
    };
    let differences = match (texts.get(first.key()), texts.get(second.key())) {
        (Some(first), Some(second)) => Some(Differences::new(first, second)),
        _ => None,
    };
    Sample {
        first: Name::Key(first.key().to_vec()),
        second: Name::Key(second.key().to_vec()),
        distance,
        similarity: similarity.map(|similarity| similarity.jaccard()),
        differences,
    }
}

/// Keeps a cluster of so many documents if it is one of the largest. Of equal ones, those that came first are kept.
pub(super) fn keep_large(
    largest: &mut Vec<LargeCluster>,
    documents: u64,
    cluster: impl FnOnce() -> LargeCluster,
) {
    let place = largest.partition_point(|cluster| cluster.documents >= documents);
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
    let place = drawn.partition_point(|drawn| drawn.lot <= pair.lot);
    if place < most {
        drawn.insert(place, pair);
        drawn.truncate(most);
    }
}

/// The pairs within a distance that are expected among random fingerprints.
fn pairs_by_chance(fingerprints: u64, max_distance: u32) -> f64 {
    let fingerprints = fingerprints as f64;
    let mut near = 0.0;
    let mut patterns = 1.0;
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
        let mut drawn = Vec::new();
        for lot in [5, 1, 9, 3, 7, 0] {
            let a = Fingerprint::from_bits(lot);
            draw(
                &mut drawn,
                3,
                Drawn {
                    lot,
                    a,
                    b: Fingerprint::from_bits(0),
                },
            );
        }
        assert_eq!(
            drawn.iter().map(|pair| pair.lot).collect::<Vec<_>>(),
            [0, 1, 3]
        );
    }
}
