//! Which documents would be near by another max distance or another least similarity: a table, and a plot of lines. And
//! how many pairs there are of each distance.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::findings::{Section, bits_text};
use super::parts::{Part, Table};
use crate::cli::units::told_count;
use crate::inspect::NearCount;
use crate::plural::counted;

/// The least similarities that are counted beside that of the database.
const SIMILARITIES: [f64; 6] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The near documents by each choice, and the choice that holds.
pub(super) struct Choices {
    /// In the order of the distances, then of the similarities. All distances have the same similarities.
    counts: Vec<NearCount>,
    min_similarity: f64,
}

impl Choices {
    pub(super) fn new(counts: Vec<NearCount>, min_similarity: f64) -> Self {
        Self {
            counts,
            min_similarity,
        }
    }

    /// The least similarities that are counted if this one holds.
    pub(super) fn similarities(min_similarity: f64) -> Vec<f64> {
        let mut similarities = SIMILARITIES.to_vec();
        similarities.push(min_similarity);
        similarities
    }

    /// The count by the choice that holds. `None` if nothing was counted.
    pub(super) fn current(&self) -> Option<&NearCount> {
        let mut from_last = self.counts.iter().rev();
        from_last.find(|count| count.min_similarity == self.min_similarity)
    }

    /// The pairs of each distance that have this similarity or more.
    fn pairs_by_distance(&self, min_similarity: f64) -> Vec<u64> {
        let mut pairs = Vec::new();
        let mut before = 0;
        for count in self.of_similarity(min_similarity) {
            pairs.push(count.pairs - before);
            before = count.pairs;
        }
        pairs
    }

    fn of_similarity(&self, min_similarity: f64) -> impl Iterator<Item = &NearCount> {
        let counts = self.counts.iter();
        counts.filter(move |count| count.min_similarity == min_similarity)
    }

    /// The similarities that were counted, the least first.
    fn counted_similarities(&self) -> impl Iterator<Item = f64> {
        let of_distance_0 = self.counts.iter().filter(|count| count.max_distance == 0);
        of_distance_0.map(|count| count.min_similarity)
    }

    /// In how many pairs near fingerprints mislead, as far as sketches tell.
    fn unlike_sentence(&self) -> Option<String> {
        let current = self.current()?;
        let all = self.of_similarity(0.0).last()?.pairs;
        if all == 0 {
            return None;
        }
        let distance = bits_text(current.max_distance);
        if self.counted_similarities().count() == 1 {
            return Some(
                "There are no sketches, so nothing tells how many of these pairs are false matches."
                    .to_owned(),
            );
        }
        // Where none is asked for, the usual one tells what it would leave out.
        let least = match self.min_similarity > 0.0 {
            true => self.min_similarity,
            false => 0.7,
        };
        let similar = self.of_similarity(least).last()?.pairs;
        let unlike = all - similar;
        let all = counted(told_count(all), "pair");
        if unlike == 0 {
            return Some(format!(
                "{all} within {distance}: for each, the sketches estimate a similarity of {least} or more."
            ));
        }
        let unlike = format!(
            "For {} of {all} within {distance}, the sketches estimate no similarity of {least} or more.",
            told_count(unlike)
        );
        Some(match self.min_similarity > 0.0 {
            true => format!(
                "{unlike} Such pairs are not near-duplicates. If the distance alone decided, they would be false \
                 matches."
            ),
            false => format!(
                "{unlike} Such pairs count as near, as no least similarity is asked for. They may be false matches."
            ),
        })
    }

    fn table(&self) -> Table {
        let mut headings = vec!["max distance".to_owned()];
        headings.extend(self.counted_similarities().map(similarity_text));
        let mut table = Table::new(headings);
        for counts in self
            .counts
            .chunk_by(|a, b| a.max_distance == b.max_distance)
        {
            let mut cells = vec![counts[0].max_distance.to_string()];
            cells.extend(counts.iter().map(|count| told_count(count.documents)));
            table.add(cells);
        }
        table
    }

    fn plot(&self) -> Plot {
        let mut lines = Vec::new();
        for similarity in self.counted_similarities() {
            let documents = self.of_similarity(similarity).map(|count| count.documents);
            lines.push(Line {
                name: match similarity > 0.0 {
                    true => format!("≥ {similarity}"),
                    false => "any".to_owned(),
                },
                is_current: similarity == self.min_similarity,
                values: documents.collect(),
            });
        }
        Plot { lines }
    }
}

fn similarity_text(similarity: f64) -> String {
    match similarity > 0.0 {
        true => format!("{similarity} or more"),
        false => "any similarity".to_owned(),
    }
}

impl Section for Choices {
    fn add_fields(&self, object: &mut Value) {
        let mut choices = Vec::new();
        for count in &self.counts {
            choices.push(json!({
                "max_distance": count.max_distance,
                "min_similarity": count.min_similarity,
                "documents": count.documents,
                "pairs": count.pairs,
            }));
        }
        object["choices"] = choices.into();
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Heading("With another distance or similarity")];
        if self.counts.iter().all(|count| count.pairs == 0) {
            let text = "No two documents are near by any of these choices.";
            parts.push(Part::Paragraph(text.to_owned()));
            return parts;
        }
        let text = "So many documents would be near to at least one other, by the max distance and by the least \
                    similarity. All pairs were counted, so the numbers are exact.";
        parts.push(Part::Paragraph(text.to_owned()));
        parts.push(Part::Picture(self.plot().to_html()));
        parts.push(Part::Table(self.table()));
        parts
    }
}

pub(super) struct Distances {
    /// What is counted.
    what: &'static str,
    /// By distance, from 0.
    counts: Vec<u64>,
    /// Those of them whose texts are similar enough, by distance. `None` if all are.
    similar: Option<Vec<u64>>,
    /// What more can be said of the pairs.
    remarks: Vec<String>,
    /// How many as many random fingerprints would have, in all. `None` if that does not apply.
    by_chance: Option<f64>,
}

impl Distances {
    pub(super) fn new(what: &'static str, counts: Vec<u64>) -> Self {
        Self {
            what,
            counts,
            similar: None,
            remarks: Vec::new(),
            by_chance: None,
        }
    }

    /// The distances of all pairs of documents, and of those that are similar enough if some least similarity holds.
    /// Among random fingerprints there would be as many as `by_chance`.
    pub(super) fn of_choices(choices: &Choices, by_chance: f64) -> Self {
        let counts = choices.pairs_by_distance(0.0);
        let min_similarity = choices.min_similarity;
        let any_counted = counts.iter().any(|&count| count > 0);
        let mut remarks = Vec::new();
        if any_counted {
            remarks.extend(choices.unlike_sentence());
        }
        remarks.push(match by_chance {
            ..0.5 => "Among as many random fingerprints, no pair would be expected to be as near."
                .to_owned(),
            _ => format!(
                "Among as many random fingerprints, about {} would be as near by chance.",
                counted(told_count(by_chance.round() as u64), "pair")
            ),
        });
        Self {
            similar: (min_similarity > 0.0).then(|| choices.pairs_by_distance(min_similarity)),
            remarks,
            by_chance: Some(by_chance),
            ..Self::new("pairs of documents", counts)
        }
    }
}

impl Section for Distances {
    fn add_fields(&self, object: &mut Value) {
        let mut distances = Vec::new();
        for (distance, count) in self.counts.iter().enumerate() {
            let mut fields = json!({"distance": distance, "pairs": count});
            if let Some(similar) = &self.similar {
                fields["similar_pairs"] = similar[distance].into();
            }
            distances.push(fields);
        }
        object["distances"] = distances.into();
        if let Some(by_chance) = self.by_chance {
            object["pairs_by_chance"] = by_chance.into();
        }
    }

    fn parts(&self) -> Vec<Part> {
        let mut table = Table::new(["bits", self.what]);
        if self.similar.is_some() {
            table.add_columns_of_bars(&["similar", "not similar"]);
        }
        for (distance, &count) in self.counts.iter().enumerate() {
            let mut cells = vec![distance.to_string(), told_count(count)];
            let mut bar = vec![count];
            if let Some(similar) = &self.similar {
                bar = vec![similar[distance], count - similar[distance]];
                cells.extend(bar.iter().copied().map(told_count));
            }
            table.add_with_bar(cells, bar);
        }
        let mut parts = vec![Part::Heading("Distances"), Part::Table(table)];
        parts.extend(self.remarks.iter().cloned().map(Part::Paragraph));
        parts
    }
}

// The plot is an SVG picture that is as wide as the page, with letters of the usual size. Places along the page are
// shares of its width, so no script has to draw the picture anew. The scale at the left and the names of the lines at
// the right are pictures of their own, whose widths are fixed.

/// The documents that are near to another one, over the max distance.
struct Plot {
    lines: Vec<Line>,
}

/// A line of a plot: the documents by one least similarity.
struct Line {
    name: String,
    /// Whether it shows how things are now.
    is_current: bool,
    /// By distance, from 0 on.
    values: Vec<u64>,
}

/// What the picture shows, for those who cannot see it.
const DESCRIPTION: &str =
    "The documents that are near to another one, over the max distance, for each least similarity";
/// What stands over the scale, and over the names of the lines.
const VALUES_NAME: &str = "documents";
const LINES_NAME: &str = "similarity";
/// The measures of the picture (pixels): from its top to the greatest and to the least value, and to its end.
const TOP: f64 = 34.0;
const BOTTOM: f64 = 250.0;
const HEIGHT: f64 = 292.0;
/// The least space between the names of two lines.
const BETWEEN_NAMES: f64 = 15.0;
/// The first and the last distance are at these shares of the width (%).
const LEFT: f64 = 1.5;
const RIGHT: f64 = 98.5;
/// The most distances that are written at the axis, and the most values.
const MOST_TICKS: u64 = 9;
const MOST_VALUES: u64 = 5;
const LOOKS: usize = 7;

impl Plot {
    /// The plot as HTML. Its texts are those of the program alone.
    fn to_html(&self) -> String {
        let step = value_step(self.greatest());
        let top_value = self.greatest().next_multiple_of(step).max(1);
        let mut html =
            format!("<figure class=\"plot\" role=\"img\" aria-label=\"{DESCRIPTION}\">\n");
        html += &self.scale(step, top_value);
        html += &self.drawn_lines(step, top_value);
        html += &self.names(top_value);
        html += "</figure>\n";
        html
    }

    fn greatest(&self) -> u64 {
        let values = self.lines.iter().flat_map(|line| &line.values);
        values.copied().max().unwrap_or(0)
    }

    fn last_distance(&self) -> u64 {
        let lengths = self.lines.iter().map(|line| line.values.len());
        lengths.max().unwrap_or(1).max(2) as u64 - 1
    }

    fn scale(&self, step: u64, top_value: u64) -> String {
        let widest = told_count(top_value).len();
        let width = (widest * 8 + 10).max(30);
        let right = width - 8;
        let mut svg = format!("<svg width=\"{width}\" height=\"{HEIGHT}\">");
        _ = write!(svg, "<text x=\"0\" y=\"14\">{VALUES_NAME}</text>");
        for value in (0..=top_value).step_by(step as usize) {
            let y = height_of(value, top_value) + 4.0;
            let value = told_count(value);
            _ = write!(
                svg,
                "<text class=\"end\" x=\"{right}\" y=\"{y:.1}\">{value}</text>"
            );
        }
        svg + "</svg>\n"
    }

    fn drawn_lines(&self, step: u64, top_value: u64) -> String {
        let mut svg = format!("<svg class=\"lines\" height=\"{HEIGHT}\">");
        for value in (0..=top_value).step_by(step as usize) {
            let y = height_of(value, top_value);
            _ = write!(
                svg,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
        let last = self.last_distance();
        let step = last.div_ceil(MOST_TICKS).max(1);
        for distance in (0..=last).step_by(step as usize) {
            let x = place_of(distance, last);
            let y = BOTTOM + 18.0;
            _ = write!(
                svg,
                "<text class=\"middle\" x=\"{x:.2}%\" y=\"{y}\">{distance}</text>"
            );
        }
        _ = write!(
            svg,
            "<text class=\"middle\" x=\"50%\" y=\"{}\">max distance (bits)</text>",
            HEIGHT - 6.0
        );
        for (index, line) in self.lines.iter().enumerate() {
            svg += &line.drawn(index, last, top_value);
        }
        svg + "</svg>\n"
    }

    /// The names of the lines at the right, as near to the ends of the lines as they have room.
    fn names(&self, top_value: u64) -> String {
        let mut ends = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            let end = line.values.last().copied().unwrap_or(0);
            ends.push((height_of(end, top_value), index));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let longest = self.lines.iter().map(|line| line.name.len()).max();
        let longest = longest.unwrap_or(0).max(LINES_NAME.len());
        let width = longest * 7 + 40;
        let mut svg = format!("<svg width=\"{width}\" height=\"{HEIGHT}\">");
        _ = write!(svg, "<text x=\"34\" y=\"14\">{LINES_NAME}</text>");
        let room = ends.len() as f64 * BETWEEN_NAMES;
        let mut least = TOP;
        for (nth, (end, index)) in ends.into_iter().enumerate() {
            // Those below need room too.
            let most = BOTTOM + BETWEEN_NAMES - room + nth as f64 * BETWEEN_NAMES;
            let y = end.min(most).max(least);
            least = y + BETWEEN_NAMES;
            let line = &self.lines[index];
            let class = line.class(index);
            let text = y + 4.0;
            let name = &line.name;
            _ = write!(
                svg,
                "<line class=\"{class}\" x1=\"2\" y1=\"{end:.1}\" x2=\"10\" y2=\"{y:.1}\"/>\
                 <line class=\"{class}\" x1=\"10\" y1=\"{y:.1}\" x2=\"30\" y2=\"{y:.1}\"/>\
                 <text class=\"{class}\" x=\"34\" y=\"{text:.1}\">{name}</text>"
            );
        }
        svg + "</svg>\n"
    }
}

impl Line {
    fn class(&self, index: usize) -> String {
        let look = index % LOOKS;
        match self.is_current {
            true => format!("look{look} current"),
            false => format!("look{look}"),
        }
    }

    fn drawn(&self, index: usize, last: u64, top_value: u64) -> String {
        let class = self.class(index);
        let mut svg = format!("<g class=\"{class}\">");
        for (distance, two) in (0..).zip(self.values.windows(2)) {
            let x1 = place_of(distance, last);
            let x2 = place_of(distance + 1, last);
            let y1 = height_of(two[0], top_value);
            let y2 = height_of(two[1], top_value);
            _ = write!(
                svg,
                "<line x1=\"{x1:.2}%\" y1=\"{y1:.1}\" x2=\"{x2:.2}%\" y2=\"{y2:.1}\"/>"
            );
        }
        for (distance, &value) in (0..).zip(&self.values) {
            let x = place_of(distance, last);
            let y = height_of(value, top_value);
            let name = &self.name;
            let told = told_count(value);
            _ = write!(
                svg,
                "<circle cx=\"{x:.2}%\" cy=\"{y:.1}\" r=\"3\">\
                 <title>distance {distance}, {name}: {told}</title></circle>"
            );
        }
        svg + "</g>"
    }
}

/// The place of a distance, as a share of the width (%).
fn place_of(distance: u64, last: u64) -> f64 {
    LEFT + (RIGHT - LEFT) * distance as f64 / last as f64
}

/// The place of a value, from the top (pixels).
fn height_of(value: u64, top_value: u64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * value as f64 / top_value as f64
}

/// The step from one value of the scale to the next: 1, 2 or 5, with noughts.
fn value_step(greatest: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for digit in [1, 2, 5] {
            let step = power.saturating_mul(digit);
            if greatest.div_ceil(step) <= MOST_VALUES {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_has_few_round_values() {
        let steps = [0, 1, 5, 6, 10, 11, 25, 26, 368, 11_782].map(value_step);
        assert_eq!(steps, [1, 1, 1, 2, 2, 5, 5, 10, 100, 5000]);
        assert!(value_step(u64::MAX) > u64::MAX / 10);
    }

    /// By hand: of two lines that end together, the second is named 15 pixels lower.
    #[test]
    fn names_of_lines_keep_their_distance() {
        let line = |name: &str, values: &[u64]| Line {
            name: name.to_owned(),
            is_current: name == "second",
            values: values.to_vec(),
        };
        let plot = Plot {
            lines: vec![line("first", &[0, 10]), line("second", &[5, 10])],
        };
        let html = plot.to_html();
        let name = |class: &str, y: &str, name: &str| {
            html.contains(&format!(
                "<text class=\"{class}\" x=\"34\" y=\"{y}\">{name}<"
            ))
        };
        assert!(name("look0", "38.0", "first"), "{html}");
        assert!(name("look1 current", "53.0", "second"), "{html}");
        // Half of the greatest value is in the middle, and the first distance is at the left.
        assert!(
            html.contains(
                "<circle cx=\"1.50%\" cy=\"142.0\" r=\"3\"><title>distance 0, second: 5<"
            ),
            "{html}"
        );
    }

    /// Lines that end at the bottom are named above it.
    #[test]
    fn names_stay_in_the_picture() {
        let mut lines = Vec::new();
        for number in 0..7 {
            lines.push(Line {
                name: format!("line {number}"),
                is_current: false,
                values: vec![if number == 0 { 100 } else { 0 }; 2],
            });
        }
        let names = Plot { lines }.names(100);
        for part in names.split(" y=\"").skip(1) {
            let y = part.split('"').next().and_then(|y| y.parse::<f64>().ok());
            assert!(y.is_some_and(|y| y <= BOTTOM + 5.0), "{names}");
        }
    }
}
