//! A report as text.

use super::differences::{Piece, told_gap, without_space};
use super::findings::Findings;
use super::parts::{PairPart, Part, Table};
use crate::cli::units::told_count;

/// The length of the longest bar.
const LONGEST_BAR: f64 = 40.0;

impl Findings {
    /// The report as text, without the last line break.
    pub(in crate::cli) fn to_text(&self) -> String {
        let mut blocks = vec![self.title.clone()];
        blocks.extend(self.parts().iter().map(|part| match part {
            Part::Heading(heading) => heading.to_uppercase(),
            Part::Paragraph(text) => text.clone(),
            Part::Facts(facts) => {
                let width = facts
                    .iter()
                    .map(|it| it[0].chars().count())
                    .max()
                    .unwrap_or(0);
                lines(
                    facts.iter().map(|[heading, told]| {
                        format!("{}  {told}", padded(heading, width, false))
                    }),
                )
            }
            Part::Table(table) => table_text(table),
            Part::Pair(pair) => pair_text(pair),
        }));
        blocks.join("\n\n")
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|it| it.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn table_text(table: &Table) -> String {
    let headings = table
        .columns
        .iter()
        .map(|it| it.heading.to_owned())
        .collect::<Vec<_>>();
    let all = || {
        [(&headings, None)]
            .into_iter()
            .chain(table.rows.iter().map(|row| (&row.cells, row.bar)))
    };
    let width = |index: usize| {
        all()
            .map(|(cells, _)| cells[index].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    lines(all().map(|(cells, bar)| {
        let cells = cells.iter().zip(&widths).zip(&table.columns);
        let cells: Vec<String> = cells
            .map(|((cell, &width), column)| padded(cell, width, column.is_number))
            .collect();
        // What there is at all can be seen.
        let bar = bar.map_or(0, |bar| (bar * LONGEST_BAR).ceil() as usize);
        format!("{}  {}", cells.join("  "), "#".repeat(bar))
    }))
}

fn padded(text: &str, width: usize, is_number: bool) -> String {
    match is_number {
        true => format!("{text:>width$}"),
        false => format!("{text:<width$}"),
    }
}

fn pair_text(pair: &PairPart) -> String {
    let mut text = format!("{}\n  {}\n  {}", pair.told, pair.names[0], pair.names[1]);
    if !pair.pieces.is_empty() {
        let pieces = pair.pieces.iter().map(|piece| match piece {
            Piece::Same(words) => words.clone(),
            Piece::First(words) => marked(words, "[-", "-]"),
            Piece::Second(words) => marked(words, "{+", "+}"),
            Piece::Gap(words) => format!(" {}", told_gap(*words)),
            Piece::More(places) => format!(" … and {} more places", told_count(*places as u64)),
        });
        text += &format!("\n  {}", pieces.collect::<String>().trim_start());
    }
    text
}

fn marked(words: &str, before: &str, after: &str) -> String {
    let (space, words) = without_space(words);
    format!("{space}{before}{words}{after}")
}
