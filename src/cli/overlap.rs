//! `simdb overlap`: how much of a text stood in stored documents, in which of them, and where each unit was first.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::ingest::{Record, Records, Rejected};
use crate::plural::counted;
use crate::{
    Database, Document, FirstMatch, Near, Overlap, OverlapDocument, OverlapQuery, OverlapUnit,
    Snapshot, Unit,
};
use clap::ArgAction;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{NearArguments, Reading};
use super::escaping::printable;
use super::lists::Lists;
use super::match_list::rounded;
use super::output::{Output, key_fields};
use super::rejections::{self, Rejections};
use super::units::count;
use super::verbs::{LiveDatabase, Verb};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The documents that are asked about, as for `ingest`; `-` is standard input
    #[arg(value_name = "INPUT", required_unless_present = "text")]
    inputs: Vec<PathBuf>,

    /// Ask about a text
    #[arg(long, value_name = "TEXT", conflicts_with = "inputs")]
    text: Option<String>,

    /// The key of the document that the text is from; its own units do not count [default: that of the record]
    #[arg(long, value_name = "KEY")]
    key: Option<OsString>,

    /// Count what stands under the key of the record itself too, as where two corpora number their records from 0
    #[arg(long, conflicts_with_all = ["key", "text"], action = ArgAction::SetTrue)]
    count_own: bool,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    near: NearArguments,

    /// How many documents are printed, those with the largest shares
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = count::<usize>, allow_negative_numbers = true)]
    limit: usize,

    /// Print each unit too, and where it was seen first
    #[arg(long, action = ArgAction::SetTrue)]
    list_units: bool,
}

struct Asked {
    key: Option<Vec<u8>>,
    text: String,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let snapshot = database.snapshot()?;
        if self.reading.unit() != Unit::Document && !has_units(&snapshot)? {
            output.remark(
                "the database seems to hold whole documents, so hardly anything can be near to a sentence or a \
                 paragraph: `simdb ingest --unit sentence` stores sentences",
            );
        }
        let asking = Asking {
            arguments: self,
            snapshot,
        };
        let Some(text) = &self.text else {
            let options = self.reading.options().only_content();
            let records = output.console().records(&self.inputs, options)?;
            return asking.ask_all(records, output);
        };
        self.reading
            .ensure_only_unit("an INPUT, and `--text` is none")?;
        let key = self.key.as_ref().map(|key| key.as_encoded_bytes().to_vec());
        let text = text.clone();
        let any_found = asking.ask(&Asked { key, text }, output)?;
        Ok(Answer::yes_if(any_found))
    }

    fn inputs(&self) -> Vec<&Path> {
        self.inputs.iter().map(PathBuf::as_path).collect()
    }
}

/// Whether any of some documents has the key of a unit.
fn has_units(snapshot: &Snapshot) -> Result<bool, Failure> {
    /// So few are read soon, and in a database of units nearly all of them are units.
    const LOOKED_AT: usize = 16;
    let sample = snapshot.sample(LOOKED_AT)?;
    let mut keys = sample.iter().map(Document::key);
    Ok(sample.is_empty() || keys.any(|key| Unit::document_of(key) != key))
}

struct Asking<'a> {
    arguments: &'a Arguments,
    snapshot: Snapshot,
}

impl Asking<'_> {
    /// Asks about all records of the inputs in order. If one is rejected, the answer of the command is "could not
    /// tell".
    fn ask_all(&self, mut records: Records, output: &mut Output) -> CommandResult {
        let mut any_found = false;
        let lists = Lists::new(output.console());
        let mut rejections = Rejections::new(output.console());
        let mut any_rejected = false;
        let mut asked_about = 0;
        while !output.is_closed() {
            let chunk = records.next_chunk(|record| {
                lists.look_at(&record);
                self.asked(record)
            })?;
            if chunk.is_empty() {
                break;
            }
            asked_about += chunk.iter().filter(|asked| asked.is_ok()).count();
            if self.arguments.key.is_some() && asked_about > 1 {
                return Err("--key is that of one text, and the input has several: leave it out, and each record has \
                            its own; with `--count-own`, what stands under that is counted too"
                    .into());
            }
            for asked in chunk {
                match asked {
                    Ok(asked) => any_found |= self.ask(&asked, output)?,
                    Err(rejected) => {
                        any_rejected = true;
                        rejections.show(&rejected);
                        rejections::print(&rejected, output);
                    }
                }
                output.flush()?;
                if output.is_closed() {
                    break;
                }
            }
        }
        lists.finish();
        rejections.finish()?;
        output.console().ensure_wanted()?;
        match any_rejected {
            true => Ok(Answer::CouldNotTell),
            false => Ok(Answer::yes_if(any_found)),
        }
    }

    fn asked(&self, record: Record) -> Result<Asked, Rejected> {
        let key = match &self.arguments.key {
            Some(key) => Some(key.as_encoded_bytes()),
            None => record.key(),
        };
        let key = key.map(<[u8]>::to_vec);
        let text = record.into_text()?;
        Ok(Asked { key, text })
    }

    /// Asks about a document and prints the answer. Returns whether anything of it was found.
    fn ask(&self, asked: &Asked, output: &mut Output) -> Result<bool, Failure> {
        let arguments = self.arguments;
        let mut query = OverlapQuery::new()
            .unit(arguments.reading.unit())
            .near(Near::from(&arguments.near))
            .limit(arguments.limit);
        if let Some(key) = &asked.key
            && !arguments.count_own
        {
            query = query.without(&key[..]);
        }
        let progress = output.console().progress_of("units");
        let steps = progress.steps();
        let overlap = self.snapshot.overlap_with(&asked.text, &query, steps)?;
        drop(progress);
        if output.is_json() {
            output.print_json(&self.object(asked, &overlap));
        } else {
            self.print(asked, &overlap, output);
        }
        Ok(overlap.found > 0)
    }

    fn print(&self, asked: &Asked, overlap: &Overlap, output: &mut Output) {
        output.print_line(&asked.sentence(overlap));
        for document in &overlap.documents {
            output.print_line(&row(document));
        }
        if self.arguments.list_units {
            for (number, unit) in (1..).zip(&overlap.units) {
                output.print_line(&asked.line_of_unit(number, unit));
            }
        }
    }

    fn object(&self, asked: &Asked, overlap: &Overlap) -> Value {
        let mut object = key_fields(asked.key.as_deref());
        object["share"] = rounded(overlap.share()).into();
        object["judged"] = overlap.judged.into();
        object["too_short"] = overlap.too_short.into();
        object["found"] = overlap.found.into();
        object["characters"] = overlap.characters.into();
        object["found_characters"] = overlap.found_characters.into();
        object["total_documents"] = overlap.total_documents.into();
        let documents: Vec<Value> = overlap.documents.iter().map(object_of_document).collect();
        object["documents"] = documents.into();
        if self.arguments.list_units {
            object["units"] = asked.objects_of_units(overlap).into();
        }
        object
    }
}

impl Asked {
    /// How much of it was found, and where most of that was.
    fn sentence(&self, overlap: &Overlap) -> String {
        /// The documents that are named. The rows have more of them.
        const NAMED: usize = 2;
        let name = match &self.key {
            Some(key) => printable(key),
            None => "the text".into(),
        };
        if overlap.judged == 0 {
            return format!("{name} is too short to judge");
        }
        if overlap.found == 0 {
            return format!("nothing of {name} was seen before");
        }
        let mut parts = Vec::new();
        for document in overlap.documents.iter().take(NAMED) {
            let key = printable(&document.key);
            let share = percent(document.share);
            parts.push(format!(
                "{share} in {key}, first on {}",
                date(document.seen)
            ));
        }
        let share = percent(overlap.share());
        let more = overlap.total_documents - parts.len() as u64;
        match (parts.is_empty(), more) {
            (_, 0) => {}
            (true, more) => parts.push(format!("some in {}", counted(more, "document"))),
            (false, more) => parts.push(format!("some in {more} more")),
        }
        format!("{share} of {name} was seen before: {}", parts.join("; "))
    }

    fn line_of_unit(&self, number: usize, unit: &OverlapUnit) -> String {
        let found = match unit.first() {
            _ if unit.is_too_short => "is too short to judge".to_owned(),
            None => "was not seen before".to_owned(),
            Some(first) => {
                let key = printable(&first.key);
                let mut found = format!("was first in {key} on {}", date(first.seen));
                found += &format!(" (distance {}", first.distance);
                if let Some(similarity) = first.similarity {
                    found += &format!(", similarity {:.2}", similarity.jaccard());
                }
                found + ")"
            }
        };
        let text = printable(self.text[unit.range.clone()].as_bytes());
        format!("#{number} {found}\t{text}")
    }

    fn objects_of_units(&self, overlap: &Overlap) -> Vec<Value> {
        let mut objects = Vec::with_capacity(overlap.units.len());
        let mut end = 0;
        let mut characters = 0;
        for (number, unit) in (1..).zip(&overlap.units) {
            characters += self.text[end..unit.range.start].chars().count() as u64;
            end = unit.range.end;
            let mut object = json!({});
            object["unit"] = number.into();
            object["text"] = self.text[unit.range.clone()].into();
            object["start"] = characters.into();
            characters += unit.characters;
            object["end"] = characters.into();
            if unit.is_too_short {
                object["too_short"] = true.into();
            } else {
                let first = unit.first().map(object_of_first);
                object["first"] = first.into();
            }
            objects.push(object);
        }
        objects
    }
}

fn object_of_document(document: &OverlapDocument) -> Value {
    let mut object = key_fields(Some(&document.key));
    object["share"] = rounded(document.share).into();
    object["units"] = document.units.into();
    object["characters"] = document.characters.into();
    object["first_units"] = document.first_units.into();
    object["seen"] = document.seen.into();
    object
}

fn object_of_first(first: &FirstMatch) -> Value {
    let mut object = key_fields(Some(&first.key));
    object["seen"] = first.seen.into();
    object["distance"] = first.distance.into();
    if let Some(similarity) = first.similarity {
        let jaccard = rounded(similarity.jaccard());
        object["similarity"] = jaccard.into();
    }
    object
}

/// The share of a document, its units, how many of them it had first, the time of the first, and its key, with tabs
/// between them.
fn row(document: &OverlapDocument) -> String {
    let share = percent(document.share);
    let time = match Timestamp::from_second(document.seen) {
        Ok(time) => time.to_string(),
        Err(_) => document.seen.to_string(),
    };
    format!(
        "{share}\t{}\t{}\t{time}\t{}",
        document.units,
        document.first_units,
        printable(&document.key)
    )
}

/// A share in whole percent. What is not nothing and not all does not look so.
fn percent(share: f64) -> String {
    let percent = (share * 100.0).round();
    match share {
        ..0.01 if share > 0.0 => "less than 1 %".to_owned(),
        ..1.0 => format!("{:.0} %", percent.min(99.0)),
        _ => format!("{percent:.0} %"),
    }
}

fn date(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => time.to_zoned(TimeZone::UTC).date().to_string(),
        Err(_) => seconds.to_string(),
    }
}
