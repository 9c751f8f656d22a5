//! The contents of a report in their sections. Each shows itself in words and as JSON.

use serde_json::{Map, Value, json};

use super::differences::{Differences, Piece};
use super::parts::{Part, Table, page_of, text_of};
use crate::cli::escaping::printable;
use crate::cli::output::name_fields;
use crate::cli::units::told_count;
use crate::plural::counted;

/// The clusters that are listed.
const MOST_CLUSTERS: usize = 10;
/// The documents that are listed of each, beside the survivor.
const MOST_OTHERS: usize = 4;

/// A section of a report.
pub(super) trait Section {
    /// Adds its fields to the object of the report.
    fn add_fields(&self, object: &mut Map<String, Value>);

    /// Its parts, the same for every form but JSON.
    fn parts(&self) -> Vec<Part>;
}

/// The contents of a report.
pub(in crate::cli) struct Findings {
    title: String,
    facts: Facts,
    sections: Vec<Box<dyn Section>>,
    /// Why some samples have no differences, or other things that a reader should know.
    remarks: Vec<String>,
}

impl Findings {
    pub(super) fn new(
        title: String,
        facts: Facts,
        sections: Vec<Box<dyn Section>>,
        remarks: Vec<String>,
    ) -> Self {
        Self {
            title,
            facts,
            sections,
            remarks,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("title".to_owned(), self.title.clone().into());
        self.facts.add_fields(&mut object);
        for section in &self.sections {
            section.add_fields(&mut object);
        }
        object.insert("remarks".to_owned(), self.remarks.clone().into());
        Value::Object(object)
    }

    /// The report as text, without the last line break.
    pub(super) fn to_text(&self) -> String {
        text_of(&self.title, self.parts())
    }

    /// The report as a page of HTML.
    pub(in crate::cli) fn to_html(&self) -> String {
        page_of(&self.title, &self.parts())
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = self.facts.parts();
        parts.extend(self.remarks.iter().cloned().map(Part::Paragraph));
        for section in &self.sections {
            parts.extend(section.parts());
        }
        parts
    }
}

/// Numbers, and other things that are known of the whole.
#[derive(Default)]
pub(super) struct Facts(Vec<Fact>);

struct Fact {
    /// Its field in JSON.
    field: &'static str,
    heading: &'static str,
    /// In words.
    text: String,
    value: Value,
}

impl Facts {
    pub(super) fn add(
        &mut self,
        field: &'static str,
        heading: &'static str,
        text: impl Into<String>,
        value: impl Into<Value>,
    ) {
        self.0.push(Fact {
            field,
            heading,
            text: text.into(),
            value: value.into(),
        });
    }

    pub(super) fn add_count(&mut self, field: &'static str, heading: &'static str, count: u64) {
        self.add(field, heading, told_count(count), count);
    }
}

impl Section for Facts {
    fn add_fields(&self, object: &mut Map<String, Value>) {
        for fact in &self.0 {
            object.insert(fact.field.to_owned(), fact.value.clone());
        }
    }

    fn parts(&self) -> Vec<Part> {
        let mut facts = Vec::new();
        for fact in &self.0 {
            facts.push([fact.heading.to_owned(), fact.text.clone()]);
        }
        vec![Part::Facts(facts)]
    }
}

/// How many pairs there are of each distance.
pub(super) struct Distances {
    /// What is counted.
    what: &'static str,
    /// By distance, from 0.
    counts: Vec<u64>,
    /// Whether there may be some that are not near, as their texts are not similar enough.
    has_unlike: bool,
    /// How many as many random fingerprints would have, in all. `None` if that does not apply.
    by_chance: Option<f64>,
}

impl Distances {
    /// The counts by distance, from 0, of what is counted.
    pub(super) fn new(what: &'static str, counts: Vec<u64>) -> Self {
        Self {
            what,
            counts,
            has_unlike: false,
            by_chance: None,
        }
    }

    /// The distances of all pairs of fingerprints, also of those whose texts are not similar enough if `has_unlike`.
    /// Among random fingerprints there would be as many as `by_chance`.
    pub(super) fn of_fingerprints(self, has_unlike: bool, by_chance: f64) -> Self {
        Self {
            has_unlike,
            by_chance: Some(by_chance),
            ..self
        }
    }
}

impl Section for Distances {
    fn add_fields(&self, object: &mut Map<String, Value>) {
        let mut distances = Vec::new();
        for (distance, count) in self.counts.iter().enumerate() {
            distances.push(json!({"distance": distance, "pairs": count}));
        }
        object.insert("distances".to_owned(), distances.into());
        if let Some(by_chance) = self.by_chance {
            object.insert("pairs_by_chance".to_owned(), by_chance.into());
        }
    }

    fn parts(&self) -> Vec<Part> {
        let mut table = Table::new(&[("bits", true), (self.what, true)]);
        for (distance, &count) in self.counts.iter().enumerate() {
            table.add_with_bar([distance.to_string(), told_count(count)], count);
        }
        let mut parts = vec![Part::Heading("Distances"), Part::Table(table)];
        if self.has_unlike && self.counts.iter().any(|&count| count > 0) {
            let text = "Only the fingerprints count here. Pairs are counted too whose sketches tell that their texts \
                        are not similar enough. Those are not near-duplicates.";
            parts.push(Part::Paragraph(text.to_owned()));
        }
        if let Some(by_chance) = self.by_chance {
            let text = match by_chance {
                ..0.5 => {
                    "Among as many random fingerprints, no pair would be expected to be as near."
                        .to_owned()
                }
                _ => format!(
                    "Among as many random fingerprints, about {} would be as near by chance.",
                    counted(told_count(by_chance.round() as u64), "pair")
                ),
            };
            parts.push(Part::Paragraph(text));
        }
        parts
    }
}

/// The clusters: how many there are of each size, and the largest.
#[derive(Default)]
pub(super) struct Clusters {
    /// The clusters and their documents in the order of the sizes: up to four each size from two on, then up to each
    /// power of two.
    counts: Vec<(u64, u64)>,
    /// The largest first.
    largest: Vec<LargeCluster>,
}

/// The first sizes, each of which is counted by itself.
const SINGLE_SIZES: [u64; 3] = [2, 3, 4];

/// The clusters whose sizes are in a range.
#[derive(Debug, PartialEq, Eq)]
struct SizeCount {
    least: u64,
    most: u64,
    clusters: u64,
    documents: u64,
}

/// A cluster, with some of its documents.
struct LargeCluster {
    documents: u64,
    /// The greatest distance of two of its documents. `None` if it was not computed.
    diameter: Option<u32>,
    survivor: Name,
    /// Some others, with their distances to the survivor.
    others: Vec<(Name, u32)>,
}

impl Clusters {
    /// Counts a cluster of so many documents.
    pub(super) fn count(&mut self, documents: u64) {
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

    /// Lists a cluster if it is one of the largest: its survivor, and the others with their distances. Of equal ones,
    /// those that came first are listed.
    pub(super) fn list<O: Iterator<Item = (Name, u32)>>(
        &mut self,
        documents: u64,
        diameter: Option<u32>,
        names: impl FnOnce() -> (Name, O),
    ) {
        let place = self
            .largest
            .partition_point(|cluster| cluster.documents >= documents);
        if place < MOST_CLUSTERS {
            let (survivor, others) = names();
            let others = others.take(MOST_OTHERS).collect();
            let cluster = LargeCluster {
                documents,
                diameter,
                survivor,
                others,
            };
            self.largest.insert(place, cluster);
            self.largest.truncate(MOST_CLUSTERS);
        }
    }

    /// Adds another document to the cluster of a survivor. Returns whether that is listed.
    pub(super) fn add_other(&mut self, survivor: &Name, other: &Name, distance: u32) -> bool {
        let mut listed = self.largest.iter_mut();
        let Some(cluster) = listed.find(|cluster| cluster.survivor == *survivor) else {
            return false;
        };
        if cluster.others.len() < MOST_OTHERS {
            cluster.others.push((other.clone(), distance));
        }
        true
    }

    fn sizes(&self) -> Vec<SizeCount> {
        let mut sizes = Vec::new();
        for (index, &(clusters, documents)) in self.counts.iter().enumerate() {
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

    fn size_parts(&self) -> Vec<Part> {
        let sizes = self.sizes();
        let heading = Part::Heading("Sizes of clusters");
        if sizes.is_empty() {
            return vec![
                heading,
                Part::Paragraph("There are no clusters.".to_owned()),
            ];
        }
        let mut table = Table::new(&[
            ("documents of a cluster", true),
            ("clusters", true),
            ("documents", true),
        ]);
        for size in &sizes {
            let range = match size.least == size.most {
                true => told_count(size.least),
                false => format!("{} to {}", told_count(size.least), told_count(size.most)),
            };
            table.add_with_bar(
                [range, told_count(size.clusters), told_count(size.documents)],
                size.clusters,
            );
        }
        vec![heading, Part::Table(table)]
    }

    fn largest_parts(&self) -> Vec<Part> {
        if self.largest.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(&[("documents", true), ("", false), ("key", false)]);
        for cluster in &self.largest {
            let survives = match cluster.diameter {
                Some(diameter) => format!("survives; two differ in {}", bits_text(diameter)),
                None => "survives".to_owned(),
            };
            table.add([
                told_count(cluster.documents),
                survives,
                cluster.survivor.text(),
            ]);
            for (name, distance) in &cluster.others {
                table.add([
                    String::new(),
                    format!("{} from it", bits_text(*distance)),
                    name.text(),
                ]);
            }
            let more = cluster.documents - 1 - cluster.others.len() as u64;
            if more > 0 {
                table.add([
                    String::new(),
                    String::new(),
                    format!("and {} more", told_count(more)),
                ]);
            }
        }
        vec![Part::Heading("The largest clusters"), Part::Table(table)]
    }
}

impl Section for Clusters {
    fn add_fields(&self, object: &mut Map<String, Value>) {
        let mut sizes = Vec::new();
        for SizeCount {
            least,
            most,
            clusters,
            documents,
        } in self.sizes()
        {
            sizes.push(
                json!({"least": least, "most": most, "clusters": clusters, "documents": documents}),
            );
        }
        object.insert("cluster_sizes".to_owned(), sizes.into());
        let largest = self.largest.iter().map(LargeCluster::to_json);
        object.insert("largest_clusters".to_owned(), largest.collect());
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = self.size_parts();
        parts.extend(self.largest_parts());
        parts
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

    /// The name on one line.
    fn text(&self) -> String {
        match self {
            Self::Key(key) => printable(key).into_owned(),
            Self::Place { input, number, key } => {
                let mut text = format!("{}:{number}", printable(input));
                if let Some(key) = key {
                    text += &format!(" {}", printable(key));
                }
                text
            }
        }
    }
}

/// Some pairs of near documents.
#[derive(Default)]
pub(super) struct Samples(Vec<Sample>);

struct Sample {
    names: [Name; 2],
    distance: u32,
    /// As the sketches estimate it.
    similarity: Option<f64>,
    /// `None` if a text is not at hand.
    differences: Option<Differences>,
}

impl Samples {
    /// Adds a pair, with its texts if both are at hand.
    pub(super) fn add(
        &mut self,
        names: [Name; 2],
        distance: u32,
        similarity: Option<f64>,
        texts: Option<(&String, &String)>,
    ) {
        self.0.push(Sample {
            names,
            distance,
            similarity,
            differences: texts.map(|(first, second)| Differences::new(first, second)),
        });
    }

    /// The number of pairs, and of those whose texts are not at hand.
    pub(super) fn counts(&self) -> (usize, usize) {
        let without = self.0.iter().filter(|sample| sample.differences.is_none());
        (self.0.len(), without.count())
    }
}

impl Section for Samples {
    fn add_fields(&self, object: &mut Map<String, Value>) {
        let samples = self.0.iter().map(Sample::to_json);
        object.insert("samples".to_owned(), samples.collect());
    }

    fn parts(&self) -> Vec<Part> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Part::Heading("Sample pairs")];
        if self.0.iter().any(|sample| sample.differences.is_some()) {
            parts.push(Part::Paragraph(
                "Words that only the first text has stand in [- -], words that only the second has in {+ +}."
                    .to_owned(),
            ));
        }
        parts.extend(self.0.iter().map(Sample::part));
        parts
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
            "a": self.names[0].to_json(),
            "b": self.names[1].to_json(),
            "distance": self.distance,
            "similarity": self.similarity,
            "differences": differences,
        })
    }

    fn part(&self) -> Part {
        let mut heading = bits_text(self.distance);
        if let Some(similarity) = self.similarity {
            heading += &format!(", estimated similarity {similarity:.2}");
        }
        let mut pieces = Vec::new();
        if let Some(differences) = &self.differences {
            let [first, second, same] = differences.words.map(|words| told_count(words as u64));
            heading += &match differences.pieces.is_empty() {
                true => format!(", the same {}", counted(first, "word")),
                false => format!(
                    ", {first} and {}, {same} of them in common",
                    counted(second, "word")
                ),
            };
            pieces.clone_from(&differences.pieces);
        }
        Part::Pair {
            heading,
            names: self.names.each_ref().map(Name::text),
            pieces,
        }
    }
}

pub(super) fn bits_text(bits: u32) -> String {
    counted(bits, "bit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_counted_by_powers_of_two() {
        let mut clusters = Clusters::default();
        for documents in [2, 2, 3, 4, 5, 8, 9, 1000] {
            clusters.count(documents);
        }
        let mut counted = clusters.sizes();
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
