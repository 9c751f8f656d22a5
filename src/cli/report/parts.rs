//! The parts of a report, and its two forms for people: text, and one page of HTML that needs nothing else.

use std::fmt::Write as _;

use super::differences::Piece;
use crate::cli::units::told_count;
use crate::plural::counted;

pub(super) enum Part {
    /// The sentence that a report is opened for.
    Lead(String),
    Heading(&'static str),
    Paragraph(String),
    /// What is known, and its value.
    Facts(Vec<[String; 2]>),
    Table(Table),
    /// HTML, on a page alone. A table has its numbers.
    Picture(String),
    /// A cluster: for each of its documents a remark and the key.
    Cluster {
        heading: String,
        rows: Vec<[String; 2]>,
    },
    /// Parts that a page shows to those who open them.
    Folded {
        heading: String,
        parts: Vec<Self>,
        on_paper: OnPaper,
    },
    /// Two near documents, and how they differ.
    Pair {
        heading: String,
        names: [String; 2],
        pieces: Vec<Piece>,
    },
}

/// What becomes of folded parts when a page is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnPaper {
    /// They are printed as if they were open.
    Open,
    LeftOut,
}

/// A table of numbers, which stand at the right of their columns.
pub(super) struct Table {
    headings: Vec<String>,
    /// So many of the last columns have the numbers that the parts of the bars show.
    columns_of_bars: usize,
    rows: Vec<Row>,
}

struct Row {
    cells: Vec<String>,
    /// The numbers that the parts of a bar behind the cells show. Empty if the table has no bars.
    bar: Vec<u64>,
}

impl Table {
    pub(super) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            headings: headings.into_iter().map(Into::into).collect(),
            columns_of_bars: 0,
            rows: Vec::new(),
        }
    }

    /// Adds columns whose numbers the parts of the bars show.
    pub(super) fn add_columns_of_bars(&mut self, headings: &[&str]) {
        self.columns_of_bars = headings.len();
        let headings = headings.iter().copied();
        self.headings.extend(headings.map(str::to_owned));
    }

    pub(super) fn add(&mut self, cells: impl Into<Vec<String>>) {
        self.add_with_bar(cells, []);
    }

    /// Adds a row with a bar. Its parts are as long as the numbers say, in comparison with the others.
    pub(super) fn add_with_bar(&mut self, cells: impl Into<Vec<String>>, bar: impl Into<Vec<u64>>) {
        self.rows.push(Row {
            cells: cells.into(),
            bar: bar.into(),
        });
    }

    fn has_bars(&self) -> bool {
        self.rows.iter().any(|row| !row.bar.is_empty())
    }

    /// The lengths of the parts of the bar of a row. The longest bar has the length 1.
    fn bar_lengths(&self, row: &Row) -> impl Iterator<Item = f64> {
        let greatest = self.rows.iter().map(Row::bar_total).max();
        let greatest = greatest.unwrap_or(0).max(1);
        row.bar
            .iter()
            .map(move |&part| part as f64 / greatest as f64)
    }
}

impl Row {
    fn bar_total(&self) -> u64 {
        self.bar.iter().copied().fold(0, u64::saturating_add)
    }
}

/// The length of the longest bar of a text, and the signs of which the parts of bars are made.
const LONGEST_BAR: f64 = 40.0;
const BAR_SIGNS: [&str; 2] = ["#", "="];

/// A report as text, without the last line break.
pub(super) fn text_of(title: &str, parts: Vec<Part>) -> String {
    let mut blocks = vec![title.to_owned()];
    add_blocks(&mut blocks, parts);
    blocks.join("\n\n")
}

fn add_blocks(blocks: &mut Vec<String>, parts: Vec<Part>) {
    for part in parts {
        blocks.push(match part {
            Part::Heading(heading) => heading.to_uppercase(),
            Part::Lead(text) | Part::Paragraph(text) => text,
            Part::Facts(facts) => facts_text(&facts),
            Part::Table(table) => table_text(&table),
            Part::Picture(_) => continue,
            Part::Cluster { heading, rows } => {
                let rows = facts_text(&rows).replace('\n', "\n  ");
                format!("{heading}\n  {rows}")
            }
            Part::Folded { heading, parts, .. } => {
                blocks.push(heading.to_uppercase());
                add_blocks(blocks, parts);
                continue;
            }
            Part::Pair {
                heading,
                names: [first, second],
                pieces,
            } => format!("{heading}\n  {first}\n  {second}{}", pieces_text(&pieces)),
        });
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
    for (index, heading) in table.headings.iter().enumerate() {
        let cells = table
            .rows
            .iter()
            .map(|row| row.cells[index].chars().count());
        let heading = heading.chars().count();
        widths.push(cells.max().unwrap_or(0).max(heading));
    }
    let headings = Row {
        cells: table.headings.clone(),
        bar: Vec::new(),
    };
    let mut lines = Vec::new();
    for row in [&headings].into_iter().chain(&table.rows) {
        let mut line = String::new();
        for (cell, width) in row.cells.iter().zip(&widths) {
            line += &format!("{cell:>width$}  ");
        }
        for (length, sign) in table.bar_lengths(row).zip(BAR_SIGNS) {
            // What there is at all can be seen.
            let signs = (length * LONGEST_BAR).ceil();
            line += &sign.repeat(signs as usize);
        }
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
            Piece::More(places) => format!(" {}", more_text(*places)),
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

/// What stands in the place of further differences.
fn more_text(places: usize) -> String {
    format!("… and {}", counted(told_count(places as u64), "more place"))
}

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
    add_parts(&mut page, parts);
    page += "</main>\n</body>\n</html>\n";
    page
}

fn add_parts(page: &mut String, parts: &[Part]) {
    for part in parts {
        match part {
            Part::Lead(text) => add(page, &format!("<p class=\"lead\">{}</p>", escaped(text))),
            Part::Heading(heading) => add(page, &format!("<h2>{}</h2>", escaped(heading))),
            Part::Paragraph(text) => add(page, &format!("<p>{}</p>", escaped(text))),
            Part::Facts(facts) => add_facts(page, facts),
            Part::Table(table) => add_table(page, table),
            Part::Picture(html) => *page += html,
            Part::Cluster { heading, rows } => add_cluster(page, heading, rows),
            Part::Folded {
                heading,
                parts,
                on_paper,
            } => {
                let class = match on_paper {
                    OnPaper::Open => "",
                    OnPaper::LeftOut => " class=\"screen\"",
                };
                let heading = escaped(heading);
                add(
                    page,
                    &format!("<details{class}>\n<summary>{heading}</summary>"),
                );
                add_parts(page, parts);
                add(page, "</details>");
            }
            Part::Pair {
                heading,
                names,
                pieces,
            } => add_pair(page, heading, names, pieces),
        }
    }
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
    let has_bars = table.has_bars();
    let class_of_table = if has_bars { " class=\"plot\"" } else { "" };
    add(
        page,
        &format!("<div class=\"wide\"><table{class_of_table}>\n<thead><tr>"),
    );
    let plain_columns = table.headings.len() - table.columns_of_bars;
    for (index, heading) in table.headings.iter().enumerate() {
        let heading = escaped(heading);
        let sample = match index.checked_sub(plain_columns) {
            Some(part) => bar_html("sample", [(part, 1.0)]),
            None => String::new(),
        };
        add(
            page,
            &format!("<th scope=\"col\" class=\"number\">{sample}{heading}</th>"),
        );
    }
    if has_bars {
        page.push_str("<th class=\"bars\"></th>");
    }
    add(page, "</tr></thead>\n<tbody>");
    for row in &table.rows {
        page.push_str("<tr>");
        for cell in &row.cells {
            // Writing to a string cannot fail.
            _ = write!(page, "<td class=\"number\">{}</td>", escaped(cell));
        }
        if has_bars {
            let bar = bar_html("bar", table.bar_lengths(row).enumerate());
            _ = write!(page, "<td class=\"bars\">{bar}</td>");
        }
        add(page, "</tr>");
    }
    add(page, "</tbody>\n</table></div>");
}

/// A bar as a picture, from the numbers and the lengths of its parts.
fn bar_html(class: &str, parts: impl IntoIterator<Item = (usize, f64)>) -> String {
    let mut svg = format!("<svg class=\"{class}\" aria-hidden=\"true\">");
    let mut x = 0.0;
    for (part, length) in parts {
        if length > 0.0 {
            // What there is at all can be seen.
            let width = (length * 100.0).max(0.4);
            _ = write!(
                svg,
                "<rect class=\"part{part}\" x=\"{x:.2}%\" width=\"{width:.2}%\" height=\"100%\"/>"
            );
            x += width;
        }
    }
    svg + "</svg>"
}

fn add_cluster(page: &mut String, heading: &str, rows: &[[String; 2]]) {
    add(
        page,
        &format!(
            "<section>\n<h3>{}</h3>\n<dl class=\"keys\">",
            escaped(heading)
        ),
    );
    for [remark, key] in rows {
        let remark = escaped(remark);
        let key = escaped(key);
        add(page, &format!("<dt>{remark}</dt><dd>{key}</dd>"));
    }
    add(page, "</dl>\n</section>");
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
                    format!(" <span class=\"gap\">{}</span>", more_text(*places))
                }
            };
        }
        add(page, "</p>");
    }
    add(page, "</section>");
}

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
