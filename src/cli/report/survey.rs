//! Finds the contents of a report of a database: all pairs, all clusters, and how some queries are answered.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::plural::counted;
use crate::{
    Cluster, ClusterEvent, ClusterTotals, Clustering, Document, Error, Fingerprint, Near, Pair,
    PairEvent, Query, Snapshot,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::choices::{Choices, Distances};
use super::differences::Samples;
use super::findings::{Clusters, Facts, Findings, Section, bits_text, lead_of};
use super::parts::{Part, Table};
use crate::cli::console::Console;
use crate::cli::plan::found_of_changed;
use crate::cli::units::{told_bytes, told_count};
use crate::dedup::ListedRecord;
use crate::inspect::{FullPrefix, Statistics};

pub(super) struct Survey<'a> {
    snapshot: &'a Snapshot,
    stats: Statistics,
    max_distance: u32,
    /// 0 if the distance alone decides.
    min_similarity: f64,
    console: &'a Console,
}

/// A pair that may be shown, before its documents are looked up.
#[derive(Clone, Copy)]
struct Drawn {
    /// The pairs of the least lots are shown.
    lot: u64,
    a: Fingerprint,
    b: Fingerprint,
}

impl<'a> Survey<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        max_distance: u32,
        console: &'a Console,
    ) -> Result<Self, Error> {
        let stats = snapshot.stats()?;
        Ok(Self {
            snapshot,
            max_distance,
            min_similarity: stats.min_similarity.unwrap_or(0.0),
            stats,
            console,
        })
    }

    /// Finds all, and some sample pairs of each distance. The texts are found by `texts`, which gets the documents of
    /// the sample pairs.
    pub(super) fn findings(
        &self,
        title: String,
        samples: usize,
        texts: impl FnOnce(&[Document]) -> Result<HashMap<Vec<u8>, String>, Error>,
    ) -> Result<Findings, Error> {
        let fingerprints = self.fingerprints()?;
        let (choices, drawn) = self.choices(samples)?;
        let near_documents = choices.current().map_or(0, |count| count.documents);
        let by_chance = pairs_by_chance(fingerprints, self.max_distance);
        let distances = Distances::of_choices(&choices, by_chance);
        let mut facts = Facts::default();
        facts.add_count("documents", "documents", self.stats.documents);
        facts.add_count("too_short", "too short to judge", self.stats.too_short);
        facts.add_count("fingerprints", "fingerprints", fingerprints);
        facts.add_count("near_documents", "near to another one", near_documents);
        let (clusters, duplicates) = self.clusters(&mut facts)?;
        self.add_conditions(&mut facts);
        let spread = Spread::survey(self.snapshot, self.max_distance, fingerprints, self.console)?;

        let pairs = self.documents_of_pairs(&drawn)?;
        let mut documents = Vec::new();
        for (_, first, second) in &pairs {
            documents.extend([first.clone(), second.clone()]);
        }
        let texts = texts(&documents)?;
        let mut samples = Samples::default();
        for pair in &pairs {
            self.add_sample(pair, &texts, &mut samples);
        }
        let mut remarks = Vec::new();
        let (all, without) = samples.counts();
        if without > 0 {
            remarks.push(format!(
                "No words are shown of {without} of {}, since the texts are not known. `--texts FILE` names a file \
                 with keys and texts; without it, the payloads of the documents are taken for their texts.",
                counted(all, "sample pair")
            ));
        }
        let stored = self.stats.documents;
        let lead = lead_of(duplicates, stored, "document", clusters.largest_size());
        Ok(Findings {
            title,
            lead,
            meaning: Some(self.meaning(near_documents)),
            remarks,
            sections: vec![
                Box::new(samples),
                Box::new(clusters),
                Box::new(distances),
                Box::new(choices),
            ],
            facts,
            upkeep: vec![Box::new(self.settings()), Box::new(spread)],
        })
    }

    /// What it means to repeat another one.
    fn meaning(&self, near_documents: u64) -> String {
        let mut near = format!(
            "Documents are near if their fingerprints differ in at most {}",
            bits_text(self.max_distance)
        );
        if self.min_similarity > 0.0 {
            near += &format!(
                " and their estimated similarity is {} or more",
                self.min_similarity
            );
        }
        let others = match near_documents {
            0 => String::new(),
            _ => format!(
                " {} documents are near to at least one other. One of each cluster survives, and the others repeat it.",
                told_count(near_documents)
            ),
        };
        format!("{near}.{others}")
    }

    /// The number of different fingerprints. The statistics only estimate it.
    fn fingerprints(&self) -> Result<u64, Error> {
        let progress = self.console.progress();
        self.snapshot.count_fingerprints_with(progress.steps())
    }

    fn add_conditions(&self, facts: &mut Facts) {
        let mut near = format!("at most {}", bits_text(self.max_distance));
        let least = (self.min_similarity > 0.0).then_some(self.min_similarity);
        if let Some(least) = least {
            near += &format!(", similarity {least} or more");
        }
        let value = json!({"max_distance": self.max_distance, "min_similarity": least});
        facts.add("near", "near documents differ in", near, value);
        let found = found_of_changed(
            self.stats.scheme,
            self.stats.sketch_size,
            self.max_distance,
            self.min_similarity,
        );
        if let Some(found) = found {
            let [two, five, ten] = found.map(|share| format!("{share:.0} %"));
            facts.add(
                "found_of_changed_percent",
                "copies found",
                format!(
                    "{two} with one changed word of 50, {five} with one of 20, {ten} with one of 10"
                ),
                json!(found),
            );
        }
    }

    fn settings(&self) -> Facts {
        let mut settings = Facts::default();
        let scheme = self.stats.scheme.name();
        settings.add("scheme", "scheme", scheme, scheme);
        let plan = &*self.stats.plan;
        settings.add("plan", "plan", plan, plan);
        let bytes = self.stats.file_bytes;
        settings.add("file_bytes", "size", told_bytes(bytes as f64), bytes);
        settings
    }

    /// Counts what would be near by each choice, and draws some pairs of each distance.
    fn choices(&self, samples: usize) -> Result<(Choices, Vec<Vec<Drawn>>), Error> {
        let mut drawn = vec![Vec::<Drawn>::new(); self.max_distance as usize + 1];
        let progress = self.console.progress();
        let similarities = Choices::similarities(self.min_similarity);
        // Pairs that are not similar enough are drawn too: a report is there to judge the least similarity.
        let counts = self
            .snapshot
            .count_near(self.max_distance, &similarities, |event| {
                let (a, b, distance) = match event {
                    PairEvent::Group(group) => (group.fingerprint, group.fingerprint, 0),
                    PairEvent::Pair(Pair { a, b, distance, .. }) => {
                        (a.fingerprint, b.fingerprint, distance as usize)
                    }
                    PairEvent::Progress { done, all, .. } => {
                        return progress.update(done, Some(all));
                    }
                };
                let lot = lot_of(a, b);
                draw(&mut drawn[distance], samples, Drawn { lot, a, b });
                ControlFlow::Continue(())
            })?;
        self.console.ensure_wanted()?;
        Ok((Choices::new(counts, self.min_similarity), drawn))
    }

    /// Counts the clusters and the duplicates, and lists some clusters.
    fn clusters(&self, facts: &mut Facts) -> Result<(Clusters, u64), Error> {
        let mut clusters = Clusters::default();
        let mut diameter = Some(0);
        let progress = self.console.progress();
        let clustering = Clustering::new().near(self.max_distance);
        let totals = self.snapshot.clusters(&clustering, |event| {
            match event {
                ClusterEvent::Cluster(cluster) => {
                    let documents = cluster.documents.len() as u64;
                    diameter = diameter.zip(cluster.diameter).map(|(a, b)| a.max(b));
                    clusters.count(documents);
                    clusters.list(documents, cluster.diameter, || names_of(&cluster));
                }
                ClusterEvent::Progress { done, all } => return progress.update(done, Some(all)),
            }
            ControlFlow::Continue(())
        })?;
        self.console.ensure_wanted()?;
        add_totals(&totals, diameter, facts);
        Ok((clusters, totals.duplicates()))
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

    /// Adds a pair, with the words in which its texts differ.
    fn add_sample(
        &self,
        (distance, first, second): &(u32, Document, Document),
        texts: &HashMap<Vec<u8>, String>,
        samples: &mut Samples,
    ) {
        let similarity = match (first.sketch(), second.sketch()) {
            (Some(a), Some(b)) => a.similarity(b).ok(),
            _ => None,
        };
        let similarity = similarity.map(|similarity| similarity.jaccard());
        let is_near = similarity.unwrap_or(0.0) >= self.min_similarity;
        let names = [first, second].map(|document| named(document.key()));
        let texts = texts.get(first.key()).zip(texts.get(second.key()));
        samples.add(names, *distance, similarity, is_near, texts);
    }

    fn documents_of(&self, fingerprint: Fingerprint) -> Result<Vec<Document>, Error> {
        let query = Query::new(fingerprint)
            .near(Near::within(0).min_similarity(0.0))
            .limit(2);
        let matches = self.snapshot.query(&query)?;
        Ok(matches.iter().map(|found| found.document.clone()).collect())
    }
}

/// Adds the numbers of clusters. The greatest distance of two documents of a cluster is `None` if it is not known of
/// some cluster.
fn add_totals(totals: &ClusterTotals, diameter: Option<u32>, facts: &mut Facts) {
    let ClusterTotals {
        clusters,
        documents,
        largest,
        connected,
        largest_connected,
        ..
    } = *totals;
    facts.add_count("clusters", "clusters", clusters);
    facts.add_count("clustered_documents", "documents in clusters", documents);
    facts.add_count("duplicates", "duplicates", totals.duplicates());
    facts.add_count("largest_cluster", "documents of the largest", largest);
    let text = match diameter {
        Some(diameter) => bits_text(diameter),
        None => "unknown: a cluster has too many fingerprints to compare all".to_owned(),
    };
    let heading = "greatest distance in a cluster";
    facts.add("diameter", heading, text, diameter);
    if connected < clusters || largest_connected > largest {
        let text = format!(
            "{}, the largest with {}",
            counted(told_count(connected), "cluster"),
            counted(told_count(largest_connected), "document")
        );
        let value = json!({"clusters": connected, "largest": largest_connected});
        facts.add("connected", "joined by chains", text, value);
    }
}

fn named(key: &[u8]) -> ListedRecord {
    ListedRecord {
        key: Some(key.to_vec()),
        ..ListedRecord::default()
    }
}

/// The survivor of a cluster, and the others with their distances.
fn names_of(cluster: &Cluster) -> (ListedRecord, impl Iterator<Item = (ListedRecord, u32)>) {
    let survivor = &cluster.documents[cluster.survivor];
    let others = cluster.documents.iter().enumerate();
    let others = others.filter(|(index, _)| *index != cluster.survivor);
    (
        named(&survivor.key),
        others.map(|(_, other)| (named(&other.key), other.distance)),
    )
}

/// The lot of a pair: scattered, and always the same for the same pair.
fn lot_of(a: Fingerprint, b: Fingerprint) -> u64 {
    let mixed = (a.bits() ^ b.bits().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Keeps a pair if it has one of the least lots, and was not drawn before: documents of the same fingerprints may have
/// several sketches.
fn draw(drawn: &mut Vec<Drawn>, most: usize, pair: Drawn) {
    let is_drawn = drawn
        .iter()
        .any(|drawn| (drawn.a, drawn.b) == (pair.a, pair.b));
    let place = drawn.partition_point(|drawn| drawn.lot <= pair.lot);
    if place < most && !is_drawn {
        drawn.insert(place, pair);
        drawn.truncate(most);
    }
}

fn pairs_by_chance(fingerprints: u64, max_distance: u32) -> f64 {
    let fingerprints = fingerprints as f64;
    let mut near = 0.0;
    let mut patterns = 1.0;
    for distance in 0..=max_distance {
        near += patterns;
        patterns *= f64::from(Fingerprint::BITS - distance) / f64::from(distance + 1);
    }
    let pairs = fingerprints * (fingerprints - 1.0).max(0.0) / 2.0;
    pairs * near / 2f64.powi(64)
}

// How the fingerprints are spread over the prefixes of the tables, as some queries meet them.

const MOST_PREFIXES: usize = 5;
/// The queries that tell how the fingerprints are spread.
const QUERIES: usize = 100;
/// With fewer, a query is fast however the fingerprints are spread.
const FEW_CANDIDATES: f64 = 300.0;

/// How the fingerprints are spread over the prefixes of the tables.
#[derive(Default)]
struct Spread {
    /// The stored fingerprints that were queried.
    queries: u64,
    /// By table. Empty if queries compare all fingerprints.
    tables: Vec<TableSpread>,
    /// The mean number of other fingerprints that a query meets and that are not near, and what it would be if
    /// fingerprints were evenly spread.
    others: f64,
    others_even: f64,
    fullest: Vec<FullPrefix>,
}

/// How many candidates a query meets in a table, in the mean, as an object of JSON has it too.
#[derive(Default, Serialize)]
struct TableSpread {
    table: usize,
    prefix_bits: u32,
    ranges: u64,
    /// If fingerprints were evenly spread.
    candidates_even: f64,
    /// As the stored fingerprints are spread.
    candidates_expected: f64,
    candidates: f64,
    most_candidates: u64,
}

impl Spread {
    /// Queries some stored fingerprints, and counts the candidates.
    fn survey(
        snapshot: &Snapshot,
        max_distance: u32,
        fingerprints: u64,
        console: &Console,
    ) -> Result<Self, Error> {
        let fingerprints = fingerprints as f64;
        let mut spread = Self::default();
        // A table meets what is near only if it agrees on the probed prefix, so not each table does.
        let mut others = 0;
        for document in snapshot.sample(QUERIES)? {
            console.ensure_wanted()?;
            let Some(query) = Query::like(&document) else {
                continue;
            };
            let query = query.near(max_distance).limit(0);
            let (_, explanation) = snapshot.explain(&query)?;
            spread.queries += 1;
            spread
                .tables
                .resize_with(explanation.probes.len(), TableSpread::default);
            for (table, probes) in spread.tables.iter_mut().zip(&explanation.probes) {
                others += probes.candidates - probes.near;
                table.table = probes.table;
                table.prefix_bits = probes.prefix_bits;
                table.ranges = probes.ranges;
                table.candidates_even =
                    probes.ranges as f64 * fingerprints / 2f64.powi(probes.prefix_bits as i32);
                table.candidates_expected += probes.candidates_expected;
                table.candidates += probes.candidates as f64;
                table.most_candidates = table.most_candidates.max(probes.candidates);
            }
        }
        let queries = spread.queries.max(1) as f64;
        spread.others = others as f64 / queries;
        for table in &mut spread.tables {
            table.candidates_expected /= queries;
            table.candidates /= queries;
            spread.others_even += table.candidates_even;
        }
        for prefix in snapshot.fullest_prefixes(MOST_PREFIXES)?.prefixes {
            if prefix.rows > 1 && prefix.times_expected() >= 2.0 {
                spread.fullest.push(prefix);
            }
        }
        Ok(spread)
    }

    fn sentence(&self) -> String {
        let Self {
            queries,
            others,
            others_even,
            ..
        } = *self;
        if queries == 0 {
            return "The database has no fingerprints, so nothing was tried.".to_owned();
        }
        if self.tables.is_empty() {
            return "The database is so small that a query compares all of its fingerprints."
                .to_owned();
        }
        let counts = format!(
            "Queries for {} were tried. On average, a query compared {} that turned out not to be near. If all \
             fingerprints were random, it would be {}.",
            counted(told_count(queries), "stored fingerprint"),
            counted(told_count(others.round() as u64), "fingerprint"),
            told_count(others_even.round() as u64)
        );
        let meaning = match others / others_even {
            _ if others < FEW_CANDIDATES => "These are few, so queries are fast.",
            ..2.0 => "So the fingerprints are spread about as evenly as random ones.",
            ..10.0 => {
                "Texts that share words have fingerprints that share bits. So some more are usual, and queries take that \
                 much longer."
            }
            _ => {
                "Many fingerprints begin alike, and queries near these are slow. \
                 Mostly they are pages without content of their own, such as errors and log-ins, or texts that have \
                 a long part in common. The largest clusters show which texts these are."
            }
        };
        format!("{counts} {meaning}")
    }
}

impl Section for Spread {
    fn add_fields(&self, object: &mut Value) {
        let mut fullest = Vec::new();
        for prefix in &self.fullest {
            fullest.push(json!({
                "table": prefix.table,
                "prefix_bits": prefix.prefix_bits,
                "rows": prefix.rows,
                "expected": prefix.expected,
            }));
        }
        let spread = json!({
            "queries": self.queries,
            "others_met": self.others,
            "others_even": self.others_even,
            "tables": self.tables,
            "fullest_prefixes": fullest,
        });
        object["spread"] = spread;
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Heading("How the fingerprints are spread")];
        parts.push(Part::Paragraph(self.sentence()));
        if !self.tables.is_empty() {
            let mut table = Table::new([
                "table",
                "leading bits",
                "ranges",
                "candidates if evenly spread",
                "expected",
                "met",
                "most met",
            ]);
            for spread in &self.tables {
                table.add([
                    spread.table.to_string(),
                    spread.prefix_bits.to_string(),
                    told_count(spread.ranges),
                    format!("{:.1}", spread.candidates_even),
                    format!("{:.1}", spread.candidates_expected),
                    format!("{:.1}", spread.candidates),
                    told_count(spread.most_candidates),
                ]);
            }
            parts.push(Part::Table(table));
        }
        if !self.fullest.is_empty() {
            let text =
                "In these tables, many more fingerprints begin alike than random ones would:";
            parts.push(Part::Paragraph(text.to_owned()));
            let mut table =
                Table::new(["table", "leading bits", "fingerprints", "if evenly spread"]);
            for prefix in &self.fullest {
                table.add([
                    prefix.table.to_string(),
                    prefix.prefix_bits.to_string(),
                    told_count(prefix.rows),
                    format!("{:.2}", prefix.expected),
                ]);
            }
            parts.push(Part::Table(table));
        }
        parts
    }
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
        for lot in [5, 1, 9, 3, 7, 0, 1, 0] {
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
