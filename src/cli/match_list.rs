//! Matches as they are printed: as fields of an object, or in a line.

use serde_json::Value;

use super::escaping::printable;
use super::output::document_fields;
use crate::plural::counted;
use crate::{Match, Matches};

/// Matches, nearest first, and what their texts were verified by if they were.
pub(super) struct MatchList<'m> {
    matches: &'m Matches,
    measure: &'static str,
    /// By match. Empty if texts were not compared.
    values: Vec<f64>,
}

impl<'m> MatchList<'m> {
    pub(super) fn new(matches: &'m Matches) -> Self {
        Self::verified(matches, "", Vec::new())
    }

    /// Matches with the exact values of their texts, in their order, by a measure of this name.
    pub(super) fn verified(matches: &'m Matches, measure: &'static str, values: Vec<f64>) -> Self {
        Self {
            matches,
            measure,
            values,
        }
    }

    /// Adds `matches`, nearest first, and `total`. Adds `total_is_exact` only if it is false.
    pub(super) fn add_fields(&self, object: &mut Value) {
        let mut list = Vec::new();
        for (index, found) in self.matches.iter().enumerate() {
            list.push(self.fields(index, found));
        }
        object["matches"] = list.into();
        object["total"] = self.matches.total().into();
        if !self.matches.total_is_exact() {
            object["total_is_exact"] = false.into();
        }
    }

    fn fields(&self, index: usize, found: &Match) -> Value {
        let mut fields = document_fields(&found.document);
        fields["distance"] = found.distance.into();
        if let Some(similarity) = found.similarity {
            let jaccard = rounded(similarity.jaccard());
            let containment = rounded(similarity.containment());
            fields["similarity"] = jaccard.into();
            fields["containment"] = containment.into();
        }
        if let Some(&value) = self.values.get(index) {
            fields[self.measure] = rounded(value).into();
        }
        // Payloads can be large, and a list of near-duplicates does not need them. Nor does it need the
        // sketches.
        if let Some(fields) = fields.as_object_mut() {
            for name in ["payload", "payload_base64", "sketch", "shingles"] {
                fields.shift_remove(name);
            }
        }
        fields
    }

    /// The matches on one line, nearest first: `a (distance 1, similarity 0.97), b (distance 3) and 4 more`.
    pub(super) fn line(&self) -> String {
        let mut listed = Vec::new();
        for (index, found) in self.matches.iter().enumerate() {
            let key = printable(found.document.key());
            let mut text = format!("{key} (distance {}", found.distance);
            if let Some(similarity) = found.similarity {
                text += &format!(", similarity {:.2}", similarity.jaccard());
            }
            if let Some(value) = self.values.get(index) {
                text += &format!(", {} {value:.2}", self.measure);
            }
            listed.push(text + ")");
        }
        let more = self.matches.total() - listed.len() as u64;
        let at_least = if self.matches.total_is_exact() {
            ""
        } else {
            "at least "
        };
        match (listed.is_empty(), more) {
            (_, 0) => listed.join(", "),
            (true, more) => format!("{at_least}{}", counted(more, "document")),
            (false, more) => format!("{} and {at_least}{more} more", listed.join(", ")),
        }
    }

    /// A line for each match: its distance, its similarity, what texts were verified by if they were, and its key, with
    /// tabs between them. The similarity is `-` if it is not known.
    pub(super) fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for (index, found) in self.matches.iter().enumerate() {
            let similarity = match found.similarity {
                Some(similarity) => format!("{:.2}", similarity.jaccard()),
                None => "-".to_owned(),
            };
            let mut row = format!("{}\t{similarity}\t", found.distance);
            if let Some(value) = self.values.get(index) {
                row += &format!("{value:.2}\t");
            }
            rows.push(row + &printable(found.document.key()));
        }
        rows
    }
}

/// A similarity to four decimals. An estimate is not known better, and what is exact need not be.
pub(super) fn rounded(similarity: f64) -> f64 {
    (similarity * 1e4).round() / 1e4
}
