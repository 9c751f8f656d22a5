//! The command: its arguments, and where its report goes.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::ingest::Fingerprinting;
use crate::{Database, Document, Error, Unit};

use super::findings::Findings;
use super::gathering::Gathering;
use super::page::Page;
use crate::cli::answer::{Answer, CommandResult, Failure};
use crate::cli::apart::ensure_replaceable;
use crate::cli::arguments::{LiveDatabase, Reading, max_distance_parser};
use crate::cli::console::Console;
use crate::cli::output::{Output, printable};
use crate::cli::units::count;
use crate::cli::verification::texts_of;

/// The sample pairs of each distance.
pub(in crate::cli) const SAMPLES: usize = 3;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    pub(in crate::cli) database: LiveDatabase,

    /// Write the report as a page to this file, in place of text
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Put the new page in the place of an old file
    #[arg(long, requires = "html")]
    replace: bool,

    /// Where the texts of stored documents are, to show in which words sample pairs differ: a file in any input format;
    /// may be given several times [default: the payloads]
    #[arg(long, value_name = "FILE")]
    texts: Vec<PathBuf>,

    /// The sample pairs of each distance
    #[arg(long, value_name = "COUNT", default_value_t = SAMPLES, value_parser = count::<usize>)]
    #[arg(allow_negative_numbers = true)]
    samples: usize,

    /// The distance, inclusive, at which documents are near [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let page = arguments
        .html
        .as_ref()
        .map(|path| Page::new(path, arguments.replace, output.console()));
    let page = page.transpose()?;
    if let Some(path) = &arguments.html {
        let place_of = |path: &PathBuf| output.console().place_of(path);
        let texts: Vec<PathBuf> = arguments.texts.iter().map(place_of).collect();
        ensure_replaceable(
            &place_of(path),
            Some(database.path()),
            texts.iter().map(PathBuf::as_path),
        )?;
    }
    let snapshot = database.snapshot()?;
    let gathering = Gathering {
        snapshot: &snapshot,
        max_distance: arguments
            .max_distance
            .unwrap_or_else(|| database.max_distance()),
        samples: arguments.samples,
        output,
    };
    let path = &arguments.database.database;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let title = format!("simdb report of {}", printable(name.as_encoded_bytes()));
    let findings = gathering.findings(title, |documents| match arguments.texts.is_empty() {
        true => Ok(payloads(documents)),
        false => arguments.texts(documents, database, output.console()),
    })?;
    show(&findings, page.as_ref(), output)?;
    Ok(Answer::Yes)
}

/// Prints a report, or writes it as a page.
fn show(findings: &Findings, page: Option<&Page>, output: &mut Output) -> Result<(), Failure> {
    if let Some(page) = page {
        page.write(&findings.to_html())?;
    }
    if output.is_json() {
        output.print_json(&findings.to_json());
    } else if page.is_none() {
        output.print_lines(&findings.to_text());
    }
    Ok(())
}

/// The payloads that are texts, by key.
fn payloads(documents: &[Document]) -> HashMap<Vec<u8>, String> {
    let text = |document: &Document| {
        let text = std::str::from_utf8(document.payload())
            .ok()
            .filter(|it| !it.is_empty())?;
        Some((document.key().to_vec(), text.to_owned()))
    };
    documents.iter().filter_map(text).collect()
}

impl Arguments {
    /// The files with texts.
    #[cfg(unix)]
    pub(in crate::cli) fn inputs(&self) -> impl Iterator<Item = &std::path::Path> {
        self.texts.iter().map(PathBuf::as_path)
    }

    /// The texts of documents in the files that were named, by key. If a key comes again, the last text counts.
    fn texts(
        &self,
        documents: &[Document],
        database: &Database,
        console: &Console,
    ) -> Result<HashMap<Vec<u8>, String>, Error> {
        let wanted: HashSet<&[u8]> = documents.iter().map(Document::key).collect();
        let rule = Fingerprinting::new(database.scheme(), None)?;
        let mut texts = HashMap::new();
        for path in &self.texts {
            let mut records = console.records(path, self.reading.options_of_texts())?;
            let progress = console.progress_of("bytes read");
            let read = records.progress();
            loop {
                let chunk = records.next_chunk(|record| match self.reading.unit() {
                    // Only what is wanted is turned into text.
                    Unit::Document if !record.key().is_some_and(|it| wanted.contains(it)) => {
                        Ok(Vec::new())
                    }
                    _ => texts_of(record, rule),
                })?;
                if chunk.is_empty() {
                    break;
                }
                _ = progress.update(read.bytes_read(), read.bytes_total());
                console.ensure_wanted()?;
                // What cannot be read has no text. But a file that cannot be read is an error.
                let read = chunk
                    .into_iter()
                    .filter(|it| !matches!(it, Err(rejected) if !rejected.is_input()));
                let read = read.collect::<Result<Vec<_>, _>>()?;
                for (key, text) in read.into_iter().flatten() {
                    if let Some((key, text)) =
                        key.zip(text).filter(|(key, _)| wanted.contains(&key[..]))
                    {
                        texts.insert(key, text);
                    }
                }
            }
        }
        Ok(texts)
    }
}
