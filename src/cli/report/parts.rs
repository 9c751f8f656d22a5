//! The parts of a report, and its two forms for people: text, and one page of HTML that needs nothing else.

use std::fmt::Write as _;

use super::differences::Piece;
use crate::cli::units::told_count;
use crate::plural::counted;

/// A part of a report.
pub(super) enum Part {
    Heading(&'static str),
    Paragraph(String),
    /// What is known, and its value.
    Facts(Vec<[String; 2]>),
    Table(Table),
    /// Two near documents, and how they differ.
    Pair {
        heading: String,
        names: [String; 2],
        pieces: Vec<Piece>,
    },
}

/// A table with a heading. Numbers stand at the right of their columns.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

struct Column {
    heading: &'static str,
    is_number: bool,
}

struct Row {
    cells: Vec<String>,
    /// The number that a bar behind the cells shows. `None` if the table has no bars.
    bar: Option<u64>,
}

impl Table {
    /// A table of these columns, and whether they have numbers.
    pub(super) fn new(columns: &[(&'static str, bool)]) -> Self {
        let columns = columns
            .iter()
            .map(|&(heading, is_number)| Column { heading, is_number });
        Self {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn add<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(Row {
            cells: cells.into(),
            bar: None,
        });
    }

    /// Adds a row with a bar that is as long as the number says, in comparison with the others.
    pub(super) fn add_with_bar<const N: usize>(&mut self, cells: [String; N], bar: u64) {
        self.rows.push(Row {
            cells: cells.into(),
            bar: Some(bar),
        });
    }

    /// The length of the bar of a row. That of the greatest is 1.
    fn bar_length(&self, row: &Row) -> Option<f64> {
        let greatest = self.rows.iter().filter_map(|row| row.bar).max();
        let greatest = greatest.unwrap_or(0).max(1);
        row.bar.map(|bar| bar as f64 / greatest as f64)
    }
}

/// The length of the longest bar of a text.
const LONGEST_BAR: f64 = 40.0;

/// A report as text, without the last line break.
pub(super) fn text_of(title: &str, parts: Vec<Part>) -> String {
    let mut blocks = vec![title.to_owned()];
    for part in parts {
        blocks.push(match part {
            Part::Heading(heading) => heading.to_uppercase(),
            Part::Paragraph(text) => text,
            Part::Facts(facts) => facts_text(&facts),
            Part::Table(table) => table_text(&table),
            Part::Pair {
                heading,
                names: [first, second],
                pieces,
            } => format!("{heading}\n  {first}\n  {second}{}", pieces_text(&pieces)),
        });
    }
    blocks.join("\n\n")
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
        let heading = column.heading.chars().count();
        widths.push(cells.max().unwrap_or(0).max(heading));
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
        let columns = widths.iter().zip(&table.columns);
        for (cell, (width, column)) in row.cells.iter().zip(columns) {
            line += &match column.is_number {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:<width$}  "),
            };
        }
        // What there is at all can be seen.
        let bar = table.bar_length(row).unwrap_or(0.0) * LONGEST_BAR;
        line += &"#".repeat(bar.ceil() as usize);
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

/// The words of a pair on a line of their own, if the texts differ.
fn pieces_text(pieces: &[Piece]) -> String {
    if pieces.is_empty() {
        return String::new();
    }
    let mut words = String::new();
    for piece in pieces {
        words += &match piece {
            Piece::Same(words) => words.clone(),
            Piece::First(words) => marked(words, "[-", "-]"),
            Piece::Second(words) => marked(words, "{+", "+}"),
            Piece::Gap(words) => format!(" {}", gap_text(*words)),
            Piece::More(places) => {
                let places = told_count(*places as u64);
                format!(" … and {}", counted(places, "more place"))
            }
        };
    }
    format!("\n  {}", words.trim_start())
}

/// Words between marks, which stand behind the space before the words.
fn marked(words: &str, before: &str, after: &str) -> String {
    match words.strip_prefix(' ') {
        Some(words) => format!(" {before}{words}{after}"),
        None => format!("{before}{words}{after}"),
    }
}

/// What stands in the place of words that are left out.
fn gap_text(words: usize) -> String {
    match words {
        0 => "…".to_owned(),
        words => format!("… {} …", counted(told_count(words as u64), "word")),
    }
}

/// The look of the page.
const STYLE: &str = include_str!("page.css");

/// A report as a page. It has no scripts, and loads nothing.
pub(super) fn page_of(title: &str, parts: &[Part]) -> String {
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    for part in parts {
        match part {
            Part::Heading(heading) => add(&mut page, &format!("<h2>{}</h2>", escaped(heading))),
            Part::Paragraph(text) => add(&mut page, &format!("<p>{}</p>", escaped(text))),
            Part::Facts(facts) => add_facts(&mut page, facts),
            Part::Table(table) => add_table(&mut page, table),
            Part::Pair {
                heading,
                names,
                pieces,
            } => add_pair(&mut page, heading, names, pieces),
        }
    }
    page += "</main>\n</body>\n</html>\n";
    page
}

fn add(page: &mut String, line: &str) {
    page.push_str(line);
    page.push('\n');
}

fn add_facts(page: &mut String, facts: &[[String; 2]]) {
    add(page, "<dl>");
    for [heading, text] in facts {
        let heading = escaped(heading);
        let text = escaped(text);
        add(
            page,
            &format!("<div><dt>{heading}</dt><dd>{text}</dd></div>"),
        );
    }
    add(page, "</dl>");
}

fn add_table(page: &mut String, table: &Table) {
    let has_bars = table.rows.iter().any(|row| row.bar.is_some());
    add(page, "<div class=\"wide\"><table>\n<thead><tr>");
    for column in &table.columns {
        let heading = escaped(column.heading);
        add(
            page,
            &format!("<th scope=\"col\"{}>{heading}</th>", class(column)),
        );
    }
    if has_bars {
        page.push_str("<th></th>");
    }
    add(page, "</tr></thead>\n<tbody>");
    for row in &table.rows {
        page.push_str("<tr>");
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            // Writing to a string cannot fail.
            _ = write!(page, "<td{}>{}</td>", class(column), escaped(cell));
        }
        if let Some(bar) = table.bar_length(row) {
            let width = if bar > 0.0 {
                (bar * 100.0).max(0.5)
            } else {
                0.0
            };
            _ = write!(
                page,
                "<td class=\"bars\"><span style=\"width:{width:.1}%\"></span></td>"
            );
        }
        add(page, "</tr>");
    }
    add(page, "</tbody>\n</table></div>");
}

fn class(column: &Column) -> &'static str {
    match column.is_number {
        true => " class=\"number\"",
        false => "",
    }
}

fn add_pair(page: &mut String, heading: &str, [first, second]: &[String; 2], pieces: &[Piece]) {
    add(page, &format!("<section>\n<h3>{}</h3>", escaped(heading)));
    add(
        page,
        &format!(
            "<p class=\"key\">{}<br>{}</p>",
            escaped(first),
            escaped(second)
        ),
    );
    if !pieces.is_empty() {
        page.push_str("<p class=\"words\" dir=\"auto\">");
        for piece in pieces {
            *page += &match piece {
                Piece::Same(words) => escaped(words),
                // The marks remain where there are no colours.
                Piece::First(words) => marked(&escaped(words), "<del>[-", "-]</del>"),
                Piece::Second(words) => marked(&escaped(words), "<ins>{+", "+}</ins>"),
                Piece::Gap(words) => format!(" <span class=\"gap\">{}</span>", gap_text(*words)),
                Piece::More(places) => {
                    let places = counted(told_count(*places as u64), "more place");
                    format!(" <span class=\"gap\">… and {places}</span>")
                }
            };
        }
        add(page, "</p>");
    }
    add(page, "</section>");
}

/// A text as HTML shows it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_left_out_are_counted() {
        assert_eq!(
            [0, 5, 1247].map(gap_text),
            ["…", "… 5 words …", "… 1,247 words …"]
        );
    }
}
