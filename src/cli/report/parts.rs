//! The parts of a report in their order, the words and numbers, for every form in which it is shown; and the report as
//! text.

use super::differences::{Piece, gap_text, without_space};
use super::findings::{Distances, Findings, Name, Sample, SizeCount, Spread};
use crate::cli::escaping::printable;
use crate::cli::units::told_count;

/// A part of a report.
#[derive(Debug)]
pub(super) enum Part {
    Heading(&'static str),
    Paragraph(String),
    /// What is known, and its value.
    Facts(Vec<[String; 2]>),
    Table(Table),
    Pair(PairPart),
}

/// A table with a heading. Numbers stand at the right of their columns.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) is_number: bool,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    /// The length of a bar behind the cells, 0 to 1. `None` if the table has no bars.
    pub(super) bar: Option<f64>,
}

/// Two near documents, and how they differ.
#[derive(Debug)]
pub(super) struct PairPart {
    pub(super) heading: String,
    pub(super) names: [String; 2],
    pub(super) pieces: Vec<Piece>,
}

impl Findings {
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut facts = Vec::new();
        for fact in &self.facts {
            facts.push([fact.heading.to_owned(), fact.text.clone()]);
        }
        let mut parts = vec![Part::Facts(facts)];
        parts.extend(self.remarks.iter().cloned().map(Part::Paragraph));
        parts.extend(self.distances.parts());
        parts.extend(size_parts(&self.sizes));
        parts.extend(self.largest_parts());
        parts.extend(self.spread.iter().flat_map(Spread::parts));
        parts.extend(self.sample_parts());
        parts
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
                name_text(&cluster.survivor),
            ]);
            for (name, distance) in &cluster.others {
                table.add([
                    String::new(),
                    format!("{} from it", bits_text(*distance)),
                    name_text(name),
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

    fn sample_parts(&self) -> Vec<Part> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Part::Heading("Sample pairs")];
        if self
            .samples
            .iter()
            .any(|sample| sample.differences.is_some())
        {
            parts.push(Part::Paragraph(
                "Words that only the first text has stand in [- -], words that only the second has in {+ +}."
                    .to_owned(),
            ));
        }
        parts.extend(self.samples.iter().map(Sample::part));
        parts
    }
}

impl Distances {
    fn parts(&self) -> Vec<Part> {
        let mut table = Table::new(&[("bits", true), (self.what, true)]);
        let bars = bars(&self.counts);
        for ((distance, &count), bar) in self.counts.iter().enumerate().zip(bars) {
            table.add_with_bar([distance.to_string(), told_count(count)], bar);
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
                    "Among as many random fingerprints, about {} pairs would be as near by chance.",
                    told_count(by_chance.round() as u64)
                ),
            };
            parts.push(Part::Paragraph(text));
        }
        parts
    }
}

fn size_parts(sizes: &[SizeCount]) -> Vec<Part> {
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
    let counts: Vec<u64> = sizes.iter().map(|size| size.clusters).collect();
    for (size, bar) in sizes.iter().zip(bars(&counts)) {
        let range = match size.least == size.most {
            true => told_count(size.least),
            false => format!("{} to {}", told_count(size.least), told_count(size.most)),
        };
        table.add_with_bar(
            [range, told_count(size.clusters), told_count(size.documents)],
            bar,
        );
    }
    vec![heading, Part::Table(table)]
}

/// With fewer, a query is fast however the fingerprints are spread.
const FEW_CANDIDATES: f64 = 300.0;

impl Spread {
    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Heading("How the fingerprints are spread")];
        parts.push(Part::Paragraph(self.sentence()));
        if !self.tables.is_empty() {
            let mut table = Table::new(&[
                ("table", true),
                ("leading bits", true),
                ("ranges", true),
                ("candidates if evenly spread", true),
                ("expected", true),
                ("met", true),
                ("most met", true),
            ]);
            for spread in &self.tables {
                table.add([
                    spread.table.to_string(),
                    spread.prefix_bits.to_string(),
                    told_count(spread.ranges),
                    format!("{:.1}", spread.even),
                    format!("{:.1}", spread.expected),
                    format!("{:.1}", spread.candidates),
                    told_count(spread.most),
                ]);
            }
            parts.push(Part::Table(table));
        }
        if !self.fullest.is_empty() {
            let text = "These prefixes have most fingerprints in comparison with what is expected:";
            parts.push(Part::Paragraph(text.to_owned()));
            let mut table = Table::new(&[
                ("table", true),
                ("leading bits", true),
                ("fingerprints", true),
                ("if evenly spread", true),
            ]);
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

    /// What the numbers mean.
    fn sentence(&self) -> String {
        let Self {
            queries,
            others,
            others_even,
            ..
        } = *self;
        if queries == 0 {
            return "There are no fingerprints to ask for.".to_owned();
        }
        if self.tables.is_empty() {
            return "The database is so small that a query compares all fingerprints.".to_owned();
        }
        let counts = format!(
            "{} stored fingerprints were asked for. In the mean, a query met {} fingerprints that are not \
             near, where {} would be met if all were evenly spread.",
            told_count(queries),
            told_count(others.round() as u64),
            told_count(others_even.round() as u64)
        );
        let meaning = match others / others_even {
            _ if others < FEW_CANDIDATES => "These are few, so queries are fast.",
            ..2.0 => "The fingerprints are about as evenly spread as random ones.",
            ..10.0 => {
                "Texts that share words have fingerprints that share bits, so some more are usual, and queries are \
                 that much slower."
            }
            _ => {
                "The fingerprints are skewed: many share the bits of some prefixes, and queries near them are slow. \
                 Mostly these are pages without content of their own, such as errors and log-ins, or texts that have \
                 a long part in common. The largest clusters and the fullest prefixes tell which."
            }
        };
        format!("{counts} {meaning}")
    }
}

impl Sample {
    fn part(&self) -> Part {
        let mut heading = bits_text(self.distance);
        if let Some(similarity) = self.similarity {
            heading += &format!(", estimated similarity {similarity:.2}");
        }
        let mut pieces = Vec::new();
        if let Some(differences) = &self.differences {
            let [first, second, same] = differences.words.map(|words| told_count(words as u64));
            heading += &match differences.pieces.is_empty() {
                true => format!(", the same {first} words"),
                false => format!(", {first} and {second} words, {same} of them in common"),
            };
            pieces.clone_from(&differences.pieces);
        }
        let names = [name_text(&self.first), name_text(&self.second)];
        Part::Pair(PairPart {
            heading,
            names,
            pieces,
        })
    }
}

impl Table {
    fn new(columns: &[(&'static str, bool)]) -> Self {
        let columns = columns
            .iter()
            .map(|&(heading, is_number)| Column { heading, is_number });
        Self {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    fn add<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(Row {
            cells: cells.into(),
            bar: None,
        });
    }

    fn add_with_bar<const N: usize>(&mut self, cells: [String; N], bar: f64) {
        self.rows.push(Row {
            cells: cells.into(),
            bar: Some(bar),
        });
    }
}

/// The lengths of the bars of some counts. That of the greatest is 1.
fn bars(counts: &[u64]) -> impl Iterator<Item = f64> {
    let greatest = counts.iter().max().copied().unwrap_or(0).max(1);
    counts
        .iter()
        .map(move |&count| count as f64 / greatest as f64)
}

pub(super) fn bits_text(bits: u32) -> String {
    format!("{bits} {}", if bits == 1 { "bit" } else { "bits" })
}

/// A name on one line.
fn name_text(name: &Name) -> String {
    match name {
        Name::Key(key) => printable(key).into_owned(),
        Name::Place { input, number, key } => {
            let mut text = format!("{}:{number}", printable(input));
            if let Some(key) = key {
                text += &format!(" {}", printable(key));
            }
            text
        }
    }
}

/// The length of the longest bar of a text.
const LONGEST_BAR: f64 = 40.0;

impl Findings {
    /// The report as text, without the last line break.
    pub(in crate::cli) fn to_text(&self) -> String {
        let mut blocks = vec![self.title.clone()];
        for part in self.parts() {
            blocks.push(match part {
                Part::Heading(heading) => heading.to_uppercase(),
                Part::Paragraph(text) => text,
                Part::Facts(facts) => facts_text(&facts),
                Part::Table(table) => table_text(&table),
                Part::Pair(pair) => pair_text(&pair),
            });
        }
        blocks.join("\n\n")
    }
}

fn facts_text(facts: &[[String; 2]]) -> String {
    let widths = facts.iter().map(|[heading, _]| heading.chars().count());
    let width = widths.max().unwrap_or(0);
    let mut lines = Vec::new();
    for [heading, text] in facts {
        let line = format!("{heading:<width$}  {text}");
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn table_text(table: &Table) -> String {
    let mut widths = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        let cells = table
            .rows
            .iter()
            .map(|row| row.cells[index].chars().count());
        widths.push(cells.max().unwrap_or(0).max(column.heading.chars().count()));
    }
    let headings = Row {
        cells: table
            .columns
            .iter()
            .map(|column| column.heading.to_owned())
            .collect(),
        bar: None,
    };
    let mut lines = Vec::new();
    for row in [&headings].into_iter().chain(&table.rows) {
        let mut line = String::new();
        for ((cell, width), column) in row.cells.iter().zip(&widths).zip(&table.columns) {
            line += &match column.is_number {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            };
        }
        // What there is at all can be seen.
        let bar = row.bar.unwrap_or(0.0) * LONGEST_BAR;
        line += &"#".repeat(bar.ceil() as usize);
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn pair_text(pair: &PairPart) -> String {
    let mut text = format!("{}\n  {}\n  {}", pair.heading, pair.names[0], pair.names[1]);
    if pair.pieces.is_empty() {
        return text;
    }
    let mut words = String::new();
    for piece in &pair.pieces {
        words += &match piece {
            Piece::Same(words) => words.clone(),
            Piece::First(words) => marked(words, "[-", "-]"),
            Piece::Second(words) => marked(words, "{+", "+}"),
            Piece::Gap(words) => format!(" {}", gap_text(*words)),
            Piece::More(places) => format!(" … and {} more places", told_count(*places as u64)),
        };
    }
    text += &format!("\n  {}", words.trim_start());
    text
}

fn marked(words: &str, before: &str, after: &str) -> String {
    let (space, words) = without_space(words);
    format!("{space}{before}{words}{after}")
}
