//! Which documents would be near by another max distance or another least similarity.

use serde_json::{Map, Value, json};

use super::findings::{Section, bits_text};
use super::parts::{Part, Table};
use super::plot::{Line, Plot};
use crate::cli::units::told_count;
use crate::inspect::NearCount;
use crate::plural::counted;

/// The least similarities that are counted beside that of the database.
const SIMILARITIES: [f64; 6] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The near documents by each choice, and the choice that holds.
pub(super) struct Choices {
    /// In the order of the distances, then of the similarities. All distances have the same similarities.
    pub(super) counts: Vec<NearCount>,
    pub(super) min_similarity: f64,
}

impl Choices {
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
    pub(super) fn pairs_by_distance(&self, min_similarity: f64) -> Vec<u64> {
        let mut pairs = Vec::new();
        let mut before = 0;
        for count in self.of_similarity(min_similarity) {
            pairs.push(count.pairs - before);
            before = count.pairs;
        }
        pairs
    }

    /// The counts of one similarity, by distance.
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
    pub(super) fn unlike_sentence(&self) -> Option<String> {
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
    fn add_fields(&self, object: &mut Map<String, Value>) {
        let mut choices = Vec::new();
        for count in &self.counts {
            choices.push(json!({
                "max_distance": count.max_distance,
                "min_similarity": count.min_similarity,
                "documents": count.documents,
                "pairs": count.pairs,
            }));
        }
        object.insert("choices".to_owned(), choices.into());
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
        parts.push(Part::Plot(self.plot()));
        parts.push(Part::Table(self.table()));
        parts
    }
}
