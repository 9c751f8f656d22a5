//! A report as one page of HTML that needs nothing else.

use std::fmt::Write as _;

use super::differences::{Piece, gap_text, without_space};
use super::findings::Findings;
use super::parts::{Column, PairPart, Part, Row, Table};
use crate::cli::units::told_count;

/// The look of the page.
const STYLE: &str = include_str!("page.css");

impl Findings {
    /// The report as a page. It has no scripts, and loads nothing.
    pub(in crate::cli) fn to_html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        );
        for part in &self.parts() {
            match part {
                Part::Heading(heading) => add(&mut page, &format!("<h2>{}</h2>", escaped(heading))),
                Part::Paragraph(text) => add(&mut page, &format!("<p>{}</p>", escaped(text))),
                Part::Facts(facts) => add_facts(&mut page, facts),
                Part::Table(table) => add_table(&mut page, table),
                Part::Pair(pair) => add_pair(&mut page, pair),
            }
        }
        page += "</main>\n</body>\n</html>\n";
        page
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
    for Row { cells, bar } in &table.rows {
        page.push_str("<tr>");
        for (cell, column) in cells.iter().zip(&table.columns) {
            // Writing to a string cannot fail.
            _ = write!(page, "<td{}>{}</td>", class(column), escaped(cell));
        }
        if let Some(bar) = bar {
            let width = if *bar > 0.0 {
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

fn add_pair(page: &mut String, pair: &PairPart) {
    let [first, second] = &pair.names;
    add(
        page,
        &format!("<section>\n<h3>{}</h3>", escaped(&pair.heading)),
    );
    add(
        page,
        &format!(
            "<p class=\"key\">{}<br>{}</p>",
            escaped(first),
            escaped(second)
        ),
    );
    if !pair.pieces.is_empty() {
        page.push_str("<p class=\"words\" dir=\"auto\">");
        for piece in &pair.pieces {
            *page += &match piece {
                Piece::Same(words) => escaped(words),
                Piece::First(words) => marked(words, "<del>[-", "-]</del>"),
                Piece::Second(words) => marked(words, "<ins>{+", "+}</ins>"),
                Piece::Gap(words) => format!(" <span class=\"gap\">{}</span>", gap_text(*words)),
                Piece::More(places) => {
                    let places = told_count(*places as u64);
                    format!(" <span class=\"gap\">… and {places} more places</span>")
                }
            };
        }
        add(page, "</p>");
    }
    add(page, "</section>");
}

/// The marks remain where there are no colours.
fn marked(words: &str, before: &str, after: &str) -> String {
    let (space, words) = without_space(words);
    format!("{space}{before}{}{after}", escaped(words))
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
