//! What a report tells, apart from how it looks.

use serde_json::{Map, Value, json};

use super::differences::{Differences, Piece};
use crate::cli::output::name_fields;

/// What a report tells.
#[derive(Debug)]
pub(in crate::cli) struct Findings {
    /// What it is about.
    pub(super) title: String,
    pub(super) facts: Vec<Fact>,
    pub(super) distances: Distances,
    /// The number of clusters of each size.
    pub(super) sizes: Vec<SizeCount>,
    /// The largest clusters, the largest first.
    pub(super) largest: Vec<LargeCluster>,
    /// How the fingerprints are spread. `None` if there is no database to tell.
    pub(super) spread: Option<Spread>,
    pub(super) samples: Vec<Sample>,
    /// Why some samples have no differences, or other things that a reader should know.
    pub(super) remarks: Vec<String>,
}

/// A number, or something else that is known of the whole.
#[derive(Debug)]
pub(super) struct Fact {
    /// Its field in JSON.
    pub(super) field: &'static str,
    pub(super) heading: &'static str,
    pub(super) told: String,
    pub(super) value: Value,
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
    /// The stored fingerprints that were asked for.
    pub(super) queries: u64,
    /// By table. Empty if queries compare all fingerprints.
    pub(super) tables: Vec<TableSpread>,
    /// The mean number of other fingerprints that a query meets and that are not near, and what it would be if
    /// fingerprints were evenly spread.
    pub(super) others_met: f64,
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
    pub(super) met: f64,
    pub(super) most: u64,
}

/// A prefix that many fingerprints have.
#[derive(Debug)]
pub(super) struct FullPrefix {
    pub(super) table: usize,
    pub(super) prefix_bits: u32,
    pub(super) rows: u64,
    pub(super) expected: f64,
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
        told: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        Self {
            field,
            heading,
            told: told.into(),
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
        let count = &mut self.counts[index];
        *count = (count.0 + 1, count.1 + documents);
    }

    pub(super) fn finish(self) -> Vec<SizeCount> {
        let range = |(index, (clusters, documents)): (usize, (u64, u64))| {
            // The third power of two is the first that stands for several sizes.
            let (least, most) = SINGLE_SIZES
                .get(index)
                .map_or((1 << index >> 1 | 1, 1 << index), |&size| (size, size));
            SizeCount {
                least,
                most,
                clusters,
                documents,
            }
        };
        self.counts.into_iter().enumerate().map(range).collect()
    }
}

impl Findings {
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("title".to_owned(), self.title.clone().into());
        object.extend(
            self.facts
                .iter()
                .map(|fact| (fact.field.to_owned(), fact.value.clone())),
        );
        let distances = self.distances.counts.iter().enumerate();
        let distances =
            distances.map(|(distance, count)| json!({"distance": distance, "pairs": count}));
        object.insert("distances".to_owned(), distances.collect());
        if let Some(by_chance) = self.distances.by_chance {
            object.insert("pairs_by_chance".to_owned(), by_chance.into());
        }
        let sizes = self.sizes.iter().map(|it| {
            json!({"least": it.least, "most": it.most, "clusters": it.clusters, "documents": it.documents})
        });
        object.insert("cluster_sizes".to_owned(), sizes.collect());
        object.insert(
            "largest_clusters".to_owned(),
            self.largest.iter().map(LargeCluster::to_json).collect(),
        );
        if let Some(spread) = &self.spread {
            object.insert("spread".to_owned(), spread.to_json());
        }
        object.insert(
            "samples".to_owned(),
            self.samples.iter().map(Sample::to_json).collect(),
        );
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
        let other = |(name, distance): &(Name, u32)| {
            let mut fields = name.fields();
            fields.insert("distance".to_owned(), (*distance).into());
            Value::Object(fields)
        };
        json!({
            "documents": self.documents,
            "diameter": self.diameter,
            "survivor": self.survivor.to_json(),
            "others": self.others.iter().map(other).collect::<Vec<_>>(),
        })
    }
}

impl Spread {
    fn to_json(&self) -> Value {
        let tables = self.tables.iter().map(|it| {
            json!({
                "table": it.table,
                "prefix_bits": it.prefix_bits,
                "ranges": it.ranges,
                "candidates_even": it.even,
                "candidates_expected": it.expected,
                "candidates": it.met,
                "most_candidates": it.most,
            })
        });
        let fullest = self.fullest.iter().map(|it| {
            json!({"table": it.table, "prefix_bits": it.prefix_bits, "rows": it.rows, "expected": it.expected})
        });
        json!({
            "queries": self.queries,
            "others_met": self.others_met,
            "others_even": self.others_even,
            "tables": tables.collect::<Vec<_>>(),
            "fullest_prefixes": fullest.collect::<Vec<_>>(),
        })
    }
}

impl Sample {
    fn to_json(&self) -> Value {
        let piece = |piece: &Piece| match piece {
            Piece::Same(text) => json!({"same": text}),
            Piece::First(text) => json!({"a": text}),
            Piece::Second(text) => json!({"b": text}),
            Piece::Gap(words) => json!({"same_words": words}),
            Piece::More(places) => json!({"more_places": places}),
        };
        let differences = self
            .differences
            .as_ref()
            .map(|it| it.pieces.iter().map(piece).collect::<Vec<_>>());
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
        [2, 2, 3, 4, 5, 8, 9, 1000]
            .into_iter()
            .for_each(|documents| counter.add(documents));
        let counted: Vec<_> = counter
            .finish()
            .into_iter()
            .filter(|it| it.clusters > 0)
            .collect();
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
