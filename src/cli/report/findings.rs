//! The contents of a report, apart from how it looks.

use serde_json::{Map, Value, json};

use super::differences::{Differences, Piece};
use crate::cli::output::name_fields;
use crate::inspect::FullPrefix;

/// The contents of a report.
#[derive(Debug)]
pub(in crate::cli) struct Findings {
    pub(super) title: String,
    pub(super) facts: Vec<Fact>,
    pub(super) distances: Distances,
    /// The number of clusters of each size.
    pub(super) sizes: Vec<SizeCount>,
    /// The largest clusters, the largest first.
    pub(super) largest: Vec<LargeCluster>,
    /// How the fingerprints are spread. `None` without a database.
    pub(super) spread: Option<Spread>,
    pub(super) samples: Vec<Sample>,
    /// Why some samples have no differences, or other things that a reader should know.
    pub(super) remarks: Vec<String>,
}

/// A number, or something else that is known of the whole.
#[derive(Debug)]
pub(super) struct Fact {
    /// Its field in JSON.
    field: &'static str,
    pub(super) heading: &'static str,
    /// In words.
    pub(super) text: String,
    value: Value,
}

/// How many pairs there are of each distance.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// What is counted.
    pub(super) what: &'static str,
    /// By distance, from 0.
    pub(super) counts: Vec<u64>,
    /// Whether there may be some that are not near, as their texts are not similar enough.
    pub(super) has_unlike: bool,
    /// How many as many random fingerprints would have, in all. `None` if that does not apply.
    pub(super) by_chance: Option<f64>,
}

/// The clusters whose sizes are in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeCount {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) clusters: u64,
    pub(super) documents: u64,
}

/// A cluster, with some of its documents.
#[derive(Debug)]
pub(super) struct LargeCluster {
    pub(super) documents: u64,
    /// The greatest distance of two of its documents. `None` if it was not computed.
    pub(super) diameter: Option<u32>,
    pub(super) survivor: Name,
    /// Some others, with their distances to the survivor.
    pub(super) others: Vec<(Name, u32)>,
}

/// The name of a document: its key, or the place of its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Key(Vec<u8>),
    Place {
        input: Vec<u8>,
        number: u64,
        key: Option<Vec<u8>>,
    },
}

/// How the fingerprints are spread over the prefixes of the tables.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// The stored fingerprints that were queried.
    pub(super) queries: u64,
    /// By table. Empty if queries compare all fingerprints.
    pub(super) tables: Vec<TableSpread>,
    /// The mean number of other fingerprints that a query meets and that are not near, and what it would be if
    /// fingerprints were evenly spread.
    pub(super) others: f64,
    pub(super) others_even: f64,
    pub(super) fullest: Vec<FullPrefix>,
}

/// How many candidates a query meets in a table, in the mean.
#[derive(Debug, Default)]
pub(super) struct TableSpread {
    pub(super) table: usize,
    pub(super) prefix_bits: u32,
    pub(super) ranges: u64,
    /// If fingerprints were evenly spread.
    pub(super) even: f64,
    /// As the stored fingerprints are spread.
    pub(super) expected: f64,
    pub(super) candidates: f64,
    pub(super) most: u64,
}

/// Two near documents.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) first: Name,
    pub(super) second: Name,
    pub(super) distance: u32,
    /// As the sketches estimate it.
    pub(super) similarity: Option<f64>,
    /// `None` if a text is not at hand.
    pub(super) differences: Option<Differences>,
}

impl Fact {
    pub(super) fn new(
        field: &'static str,
        heading: &'static str,
        text: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        Self {
            field,
            heading,
            text: text.into(),
            value: value.into(),
        }
    }
}

/// Counts clusters by their sizes: up to four each size, then up to each power of two.
#[derive(Debug, Default)]
pub(super) struct SizeCounter {
    /// The clusters and their documents, in the order of the sizes, from two on.
    counts: Vec<(u64, u64)>,
}

/// The first sizes, each of which is counted by itself.
const SINGLE_SIZES: [u64; 3] = [2, 3, 4];

impl SizeCounter {
    pub(super) fn add(&mut self, documents: u64) {
        let index = match SINGLE_SIZES.iter().position(|&size| size == documents) {
            Some(index) => index,
            None => documents.next_power_of_two().trailing_zeros() as usize,
        };
        if self.counts.len() <= index {
            self.counts.resize(index + 1, (0, 0));
        }
        self.counts[index].0 += 1;
        self.counts[index].1 += documents;
    }

    pub(super) fn finish(self) -> Vec<SizeCount> {
        let mut sizes = Vec::new();
        for (index, (clusters, documents)) in self.counts.into_iter().enumerate() {
            // The third power of two is the first that stands for several sizes.
            let (least, most) = match SINGLE_SIZES.get(index) {
                Some(&size) => (size, size),
                None => (1 << index >> 1 | 1, 1 << index),
            };
            sizes.push(SizeCount {
                least,
                most,
                clusters,
                documents,
            });
        }
        sizes
    }
}

impl Findings {
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("title".to_owned(), self.title.clone().into());
        for fact in &self.facts {
            object.insert(fact.field.to_owned(), fact.value.clone());
        }
        let mut distances = Vec::new();
        for (distance, count) in self.distances.counts.iter().enumerate() {
            distances.push(json!({"distance": distance, "pairs": count}));
        }
        object.insert("distances".to_owned(), distances.into());
        if let Some(by_chance) = self.distances.by_chance {
            object.insert("pairs_by_chance".to_owned(), by_chance.into());
        }
        let mut sizes = Vec::new();
        for SizeCount {
            least,
            most,
            clusters,
            documents,
        } in &self.sizes
        {
            sizes.push(
                json!({"least": least, "most": most, "clusters": clusters, "documents": documents}),
            );
        }
        object.insert("cluster_sizes".to_owned(), sizes.into());
        let largest = self.largest.iter().map(LargeCluster::to_json);
        object.insert("largest_clusters".to_owned(), largest.collect());
        if let Some(spread) = &self.spread {
            object.insert("spread".to_owned(), spread.to_json());
        }
        let samples = self.samples.iter().map(Sample::to_json);
        object.insert("samples".to_owned(), samples.collect());
        object.insert("remarks".to_owned(), self.remarks.clone().into());
        Value::Object(object)
    }
}

impl Name {
    fn fields(&self) -> Map<String, Value> {
        match self {
            Self::Key(key) => name_fields("key", key),
            Self::Place { input, number, key } => {
                let mut fields = name_fields("input", input);
                fields.insert("number".to_owned(), (*number).into());
                fields.extend(key.iter().flat_map(|key| name_fields("key", key)));
                fields
            }
        }
    }

    fn to_json(&self) -> Value {
        Value::Object(self.fields())
    }
}

impl LargeCluster {
    fn to_json(&self) -> Value {
        let mut others = Vec::new();
        for (name, distance) in &self.others {
            let mut fields = name.fields();
            fields.insert("distance".to_owned(), (*distance).into());
            others.push(Value::Object(fields));
        }
        json!({
            "documents": self.documents,
            "diameter": self.diameter,
            "survivor": self.survivor.to_json(),
            "others": others,
        })
    }
}

impl Spread {
    fn to_json(&self) -> Value {
        let mut tables = Vec::new();
        for table in &self.tables {
            tables.push(json!({
                "table": table.table,
                "prefix_bits": table.prefix_bits,
                "ranges": table.ranges,
                "candidates_even": table.even,
                "candidates_expected": table.expected,
                "candidates": table.candidates,
                "most_candidates": table.most,
            }));
        }
        let mut fullest = Vec::new();
        for FullPrefix {
            table,
            prefix_bits,
            rows,
            expected,
            ..
        } in &self.fullest
        {
            let prefix = json!({"table": table, "prefix_bits": prefix_bits, "rows": rows,
                                "expected": expected});
            fullest.push(prefix);
        }
        json!({
            "queries": self.queries,
            "others_met": self.others,
            "others_even": self.others_even,
            "tables": tables,
            "fullest_prefixes": fullest,
        })
    }
}

impl Sample {
    fn to_json(&self) -> Value {
        let mut pieces = Vec::new();
        for piece in self
            .differences
            .iter()
            .flat_map(|differences| &differences.pieces)
        {
            pieces.push(match piece {
                Piece::Same(text) => json!({"same": text}),
                Piece::First(text) => json!({"a": text}),
                Piece::Second(text) => json!({"b": text}),
                Piece::Gap(words) => json!({"same_words": words}),
                Piece::More(places) => json!({"more_places": places}),
            });
        }
        let differences = self.differences.is_some().then_some(pieces);
        json!({
            "a": self.first.to_json(),
            "b": self.second.to_json(),
            "distance": self.distance,
            "similarity": self.similarity,
            "differences": differences,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_counted_by_powers_of_two() {
        let mut counter = SizeCounter::default();
        for documents in [2, 2, 3, 4, 5, 8, 9, 1000] {
            counter.add(documents);
        }
        let mut counted = counter.finish();
        counted.retain(|size| size.clusters > 0);
        let size = |least, most, clusters, documents| SizeCount {
            least,
            most,
            clusters,
            documents,
        };
        assert_eq!(
            counted,
            [
                size(2, 2, 2, 4),
                size(3, 3, 1, 3),
                size(4, 4, 1, 4),
                size(5, 8, 2, 13),
                size(9, 16, 1, 9),
                size(513, 1024, 1, 1000)
            ]
        );
    }
}
