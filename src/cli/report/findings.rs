//! The contents of a report in their sections. Each shows itself in words and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use unicode_segmentation::UnicodeSegmentation as _;

use super::parts::{OnPaper, Part, Table, page_of, text_of};
use crate::cli::escaping::printable;
use crate::cli::output::add_name;
use crate::cli::units::told_count;
use crate::dedup::ListedRecord;
use crate::plural::counted;

const MOST_CLUSTERS: usize = 10;
/// The documents that are listed of each, beside the survivor.
const MOST_OTHERS: usize = 4;
/// The most characters of a name in a list.
const LONGEST_IN_LIST: usize = 72;

pub(super) trait Section {
    /// Adds its fields to the object of the report.
    fn add_fields(&self, object: &mut Value);

    /// Its parts, the same for every form but JSON.
    fn parts(&self) -> Vec<Part>;
}

pub(in crate::cli) struct Findings {
    pub(super) title: String,
    /// The sentence that a report is opened for, and those that explain it.
    pub(super) lead: String,
    pub(super) meaning: Option<String>,
    /// Why some samples have no differences, or other things that a reader should know.
    pub(super) remarks: Vec<String>,
    pub(super) sections: Vec<Box<dyn Section>>,
    pub(super) facts: Facts,
    /// For those who look after the database.
    pub(super) upkeep: Vec<Box<dyn Section>>,
}

impl Findings {
    pub(super) fn to_json(&self) -> Value {
        let mut object = json!({ "title": self.title, "lead": self.lead });
        self.facts.add_fields(&mut object);
        for section in self.sections.iter().chain(&self.upkeep) {
            section.add_fields(&mut object);
        }
        object["remarks"] = self.remarks.clone().into();
        object
    }

    /// The report as text, without the last line break.
    pub(super) fn to_text(&self) -> String {
        text_of(&self.title, self.parts())
    }

    pub(in crate::cli) fn to_html(&self) -> String {
        page_of(&self.title, &self.parts())
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Lead(self.lead.clone())];
        let explained = self.meaning.iter().chain(&self.remarks);
        parts.extend(explained.cloned().map(Part::Paragraph));
        for section in &self.sections {
            parts.extend(section.parts());
        }
        parts.push(Part::Heading("In numbers"));
        parts.extend(self.facts.parts());
        let mut upkeep = Vec::new();
        for section in &self.upkeep {
            upkeep.extend(section.parts());
        }
        if !upkeep.is_empty() {
            parts.push(Part::Folded {
                heading: "For those who look after the database".to_owned(),
                parts: upkeep,
                on_paper: OnPaper::LeftOut,
            });
        }
        parts
    }
}

/// How many of all repeat another one, as a sentence.
pub(super) fn lead_of(repeating: u64, all: u64, noun: &str, largest: u64) -> String {
    let told_all = counted(told_count(all), noun);
    if repeating == 0 {
        return format!("None of {told_all} repeats another one.");
    }
    let verb = if repeating == 1 { "repeats" } else { "repeat" };
    format!(
        "{} of {told_all}, {}, {verb} another one; the largest cluster has {}.",
        told_count(repeating),
        percent_text(repeating, all),
        told_count(largest)
    )
}

/// A part of a whole that is not 0, in percent. Nearly all is not all, and hardly any is not none.
fn percent_text(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole as f64;
    match percent.round() {
        0.0 => "less than 1 %".to_owned(),
        100.0 if part < whole => "more than 99 %".to_owned(),
        rounded => format!("{rounded} %"),
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
    fn add_fields(&self, object: &mut Value) {
        for fact in &self.0 {
            object[fact.field] = fact.value.clone();
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

/// The clusters: how many there are of each size, and the largest.
#[derive(Default)]
pub(super) struct Clusters {
    /// The clusters and their documents, by the greatest of the sizes that are counted together.
    counts: BTreeMap<u64, (u64, u64)>,
    /// The largest first.
    largest: Vec<LargeCluster>,
}

/// The greatest size that is counted together with this one: itself up to four, then the next power of two.
fn greatest_with(size: u64) -> u64 {
    match size {
        ..=4 => size,
        _ => size.next_power_of_two(),
    }
}

/// The clusters whose sizes are in a range, as an object of JSON has them too.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct SizeCount {
    least: u64,
    most: u64,
    clusters: u64,
    documents: u64,
}

struct LargeCluster {
    documents: u64,
    /// The greatest distance of two of its documents. `None` if it was not computed.
    diameter: Option<u32>,
    survivor: ListedRecord,
    /// Some others, with their distances to the survivor.
    others: Vec<(ListedRecord, u32)>,
}

impl Clusters {
    pub(super) fn count(&mut self, documents: u64) {
        let count = self.counts.entry(greatest_with(documents)).or_default();
        count.0 += 1;
        count.1 += documents;
    }

    /// Lists a cluster if it is one of the largest: its survivor, and the others with their distances. Of equal ones,
    /// those that came first are listed.
    pub(super) fn list<O: Iterator<Item = (ListedRecord, u32)>>(
        &mut self,
        documents: u64,
        diameter: Option<u32>,
        names: impl FnOnce() -> (ListedRecord, O),
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
    pub(super) fn add_other(
        &mut self,
        survivor: &ListedRecord,
        other: &ListedRecord,
        distance: u32,
    ) -> bool {
        let mut listed = self.largest.iter_mut();
        let Some(cluster) = listed.find(|cluster| cluster.survivor == *survivor) else {
            return false;
        };
        if cluster.others.len() < MOST_OTHERS {
            cluster.others.push((other.clone(), distance));
        }
        true
    }

    /// All sizes from two to the greatest that there is.
    fn sizes(&self) -> Vec<SizeCount> {
        let mut sizes = Vec::new();
        let mut least = 2;
        while self.counts.range(least..).next().is_some() {
            let most = greatest_with(least);
            let (clusters, documents) = self.counts.get(&most).copied().unwrap_or_default();
            sizes.push(SizeCount {
                least,
                most,
                clusters,
                documents,
            });
            least = most + 1;
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
        let mut table = Table::new(["documents of a cluster", "clusters", "documents"]);
        for size in &sizes {
            let range = match size.least == size.most {
                true => told_count(size.least),
                false => format!("{} to {}", told_count(size.least), told_count(size.most)),
            };
            table.add_with_bar(
                [range, told_count(size.clusters), told_count(size.documents)],
                [size.clusters],
            );
        }
        vec![heading, Part::Table(table)]
    }

    /// The documents of the largest cluster, or 0.
    pub(super) fn largest_size(&self) -> u64 {
        self.largest.first().map_or(0, |cluster| cluster.documents)
    }

    fn largest_parts(&self) -> Vec<Part> {
        if self.largest.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Part::Heading("The largest clusters")];
        parts.extend(self.largest.iter().map(LargeCluster::part));
        parts
    }
}

impl Section for Clusters {
    fn add_fields(&self, object: &mut Value) {
        object["cluster_sizes"] = json!(self.sizes());
        let largest = self.largest.iter().map(LargeCluster::to_json);
        object["largest_clusters"] = largest.collect();
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = self.largest_parts();
        parts.extend(self.size_parts());
        parts
    }
}

impl LargeCluster {
    fn to_json(&self) -> Value {
        let mut others = Vec::new();
        for (name, distance) in &self.others {
            let mut fields = fields_of(name);
            fields["distance"] = (*distance).into();
            others.push(fields);
        }
        json!({
            "documents": self.documents,
            "diameter": self.diameter,
            "survivor": fields_of(&self.survivor),
            "others": others,
        })
    }

    fn part(&self) -> Part {
        let mut heading = counted(told_count(self.documents), "document");
        if let Some(diameter) = self.diameter {
            heading += &match diameter {
                0 => ", with one fingerprint".to_owned(),
                diameter => format!(", which differ in up to {}", bits_text(diameter)),
            };
        }
        let mut rows = vec![[
            "survives".to_owned(),
            line_of(&self.survivor, LONGEST_IN_LIST),
        ]];
        for (name, distance) in &self.others {
            rows.push([bits_text(*distance), line_of(name, LONGEST_IN_LIST)]);
        }
        let more = self.documents - 1 - self.others.len() as u64;
        if more > 0 {
            rows.push([String::new(), format!("and {} more", told_count(more))]);
        }
        Part::Cluster { heading, rows }
    }
}

/// The name of a document: its key, and the place of its record.
pub(super) fn fields_of(name: &ListedRecord) -> Value {
    let mut fields = json!({});
    if let Some((input, number)) = &name.place {
        add_name(&mut fields, "input", input);
        fields["number"] = (*number).into();
    }
    if let Some(key) = &name.key {
        add_name(&mut fields, "key", key);
    }
    fields
}

/// The name on one line, each part with its middle left out if it is longer than this number of characters.
pub(super) fn line_of(name: &ListedRecord, longest: usize) -> String {
    let place = name
        .place
        .as_ref()
        .map(|(input, number)| format!("{}:{number}", shortened(&printable(input), longest)));
    let key = name
        .key
        .as_ref()
        .map(|key| shortened(&printable(key), longest));
    let parts: Vec<String> = place.into_iter().chain(key).collect();
    parts.join(" ")
}

pub(super) fn bits_text(bits: u32) -> String {
    counted(bits, "bit")
}

// A long name in short: its beginning and its end, which tell most.

/// What stands in the place of the middle.
const GAP: &str = "…";

/// A name of at most so many characters, as a reader counts them. The middle of a longer one is left out, from one
/// boundary of words to another where there are any near the place.
fn shortened(name: &str, longest: usize) -> String {
    let characters: Vec<&str> = name.graphemes(true).collect();
    let count = characters.len();
    if count <= longest {
        return name.to_owned();
    }
    let room = longest.saturating_sub(1);
    let mut end_of_first = room / 2;
    let mut start_of_last = count - (room - room / 2);
    // A quarter of each part may go for the sake of whole words.
    let near = room / 8;
    let before = &characters[end_of_first - near..=end_of_first];
    let after = &characters[start_of_last..start_of_last + near];
    if let Some(boundary) = before.iter().rposition(|character| is_boundary(character)) {
        end_of_first = end_of_first - near + boundary;
    }
    if let Some(boundary) = after.iter().position(|character| is_boundary(character)) {
        start_of_last += boundary;
    }
    let first = characters[..end_of_first].concat();
    let last = characters[start_of_last..].concat();
    format!("{first}{GAP}{last}")
}

fn is_boundary(character: &str) -> bool {
    !character.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardly_any_is_not_none_and_nearly_all_is_not_all() {
        let told = |repeating, all| lead_of(repeating, all, "document", 2);
        assert_eq!(told(0, 0), "None of 0 documents repeats another one.");
        for (repeating, expected) in [
            (1, "1 of 1,000 documents, less than 1 %, repeats"),
            (5, "5 of 1,000 documents, 1 %, repeat"),
            (995, "995 of 1,000 documents, more than 99 %, repeat"),
        ] {
            assert_eq!(
                told(repeating, 1000),
                format!("{expected} another one; the largest cluster has 2.")
            );
        }
    }

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

    #[test]
    fn the_beginning_and_the_end_of_a_long_name_stay() {
        assert_eq!(shortened("https://a.example/b", 19), "https://a.example/b");
        let address =
            "https://www.example.org/archive/of/many/years/2024/november/28/page-of-the-day.html";
        assert_eq!(
            shortened(address, 48),
            "https://www.example.org…/28/page-of-the-day.html"
        );
        let plain = "a".repeat(100);
        assert_eq!(shortened(&plain, 11), "aaaaa…aaaaa");
        assert_eq!(shortened(&plain, 0), "…");
    }

    /// A letter and its accent are one character for a reader.
    #[test]
    fn no_character_is_cut() {
        let accented = "e\u{301}".repeat(50);
        let short = shortened(&accented, 9);
        assert_eq!(short, format!("{0}…{0}", "e\u{301}".repeat(4)));
    }
}
