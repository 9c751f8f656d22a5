//! The command: its arguments, and where its report goes: to the screen or into the file of a page.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::ingest::Fingerprinting;
use crate::{Database, Document, Error, Unit};

use super::survey::Survey;
use crate::cli::answer::{Answer, CommandResult};
use crate::cli::arguments::{Reading, ensure_read_once, max_distance_parser, named_file};
use crate::cli::console::Console;
use crate::cli::escaping::printable;
use crate::cli::output::Output;
use crate::cli::output_files::WholeFile;
use crate::cli::units::count;
use crate::cli::verbs::{LiveDatabase, Verb};
use crate::cli::verification::texts_of;
use crate::plural::counted;

pub(in crate::cli) const SAMPLES: usize = 3;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    pub(in crate::cli) database: LiveDatabase,

    /// Write the report as an HTML page to this file, instead of text
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    html: Option<PathBuf>,

    /// Replace a file that exists
    #[arg(long, requires = "html")]
    replace: bool,

    /// A file with the texts of stored documents; may be given several times [default: the payloads]
    ///
    /// The report then shows in which words sample pairs differ. The file has any input format
    #[arg(long, value_name = "FILE")]
    texts: Vec<PathBuf>,

    /// How many sample pairs are shown of each distance
    #[arg(long, value_name = "COUNT", default_value_t = SAMPLES, value_parser = count::<usize>)]
    #[arg(allow_negative_numbers = true)]
    samples: usize,

    /// The largest distance of near documents [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser, allow_negative_numbers = true)]
    max_distance: Option<u32>,

    #[command(flatten)]
    reading: Reading,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        ensure_read_once(&self.texts)?;
        if self.texts.is_empty() {
            self.reading.ensure_unused("the files of `--texts`")?;
        }
        let console = output.console().clone();
        let mut page = None;
        if let Some(path) = &self.html {
            let new = WholeFile::new("page", path, self.replace, &console);
            new.ensure_apart(Some(database.path()), &self.texts, &console)?;
            new.ensure_writable(Some(BEGIN))?;
            page = Some(new);
        }
        let snapshot = database.snapshot()?;
        let max_distance = self.max_distance.unwrap_or(database.max_distance());
        let survey = Survey::new(&snapshot, max_distance, &console)?;
        let path = &self.database.path;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let title = format!("simdb report of {}", printable(name.as_encoded_bytes()));
        let findings = survey.findings(title, self.samples, |documents| {
            match self.texts.is_empty() {
                true => Ok(payloads(documents)),
                false => self.texts(documents, database, &console),
            }
        })?;

        if let Some(page) = &page {
            page.write(findings.to_html())?;
        }
        if output.is_json() {
            output.print_json(&findings.to_json());
        } else if page.is_none() {
            output.print_lines(&findings.to_text());
        }
        Ok(Answer::Yes)
    }

    fn inputs(&self) -> Vec<&Path> {
        self.texts.iter().map(PathBuf::as_path).collect()
    }
}

fn payloads(documents: &[Document]) -> HashMap<Vec<u8>, String> {
    let mut texts = HashMap::new();
    for document in documents {
        if let Ok(text) = std::str::from_utf8(document.payload())
            && !text.is_empty()
        {
            texts.insert(document.key().to_vec(), text.to_owned());
        }
    }
    texts
}

impl Arguments {
    /// The texts of documents in the files that were named, by key. If a key comes again, the last text counts.
    fn texts(
        &self,
        documents: &[Document],
        database: &Database,
        console: &Console,
    ) -> Result<HashMap<Vec<u8>, String>, Error> {
        let wanted: HashSet<&[u8]> = documents.iter().map(Document::key).collect();
        let rule = Fingerprinting::new(database.scheme(), None)?;
        let is_cut = self.reading.unit() != Unit::Document;
        let mut texts = HashMap::new();
        for path in &self.texts {
            let mut records = console.records(&[path], self.reading.options_of_texts())?;
            let progress = console.progress_of("bytes");
            let read = records.progress();
            let mut unread = 0;
            let mut first_unread = None;
            loop {
                let chunk = records.next_chunk(|record| {
                    // Only what is wanted is turned into text.
                    match is_cut || record.key().is_some_and(|key| wanted.contains(key)) {
                        true => texts_of(record, rule),
                        false => Ok(Vec::new()),
                    }
                })?;
                if chunk.is_empty() {
                    break;
                }
                _ = progress.update(read.bytes_read(), read.bytes_total());
                console.ensure_wanted()?;
                for record in chunk {
                    let units = match record {
                        Ok(units) => units,
                        // What cannot be read has no text. But a file that cannot be read is an error.
                        Err(rejected) if rejected.is_input() => return Err(rejected.into()),
                        Err(rejected) => {
                            unread += 1u64;
                            first_unread.get_or_insert(rejected);
                            continue;
                        }
                    };
                    for unit in units {
                        if let (Some(key), Some(text)) = unit
                            && wanted.contains(&key[..])
                        {
                            texts.insert(key, text);
                        }
                    }
                }
            }
            drop(progress);
            if let Some(first) = first_unread {
                console.complain(&format!(
                    "{} of `--texts` cannot be read as texts, the first: {first}",
                    counted(unread, "record")
                ));
            }
        }
        Ok(texts)
    }
}

const BEGIN: &str = "<!DOCTYPE html>";
