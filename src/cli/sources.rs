//! `simdb sources`: prints which inputs a database was filled from, and how far each was read.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::escaping::printable;
use super::output::{Output, name_fields};
use super::times::time;
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::Database;
use crate::plural::counted;
use crate::source::Source;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Forget how far this source was read, so it counts as new; its documents stay
    #[arg(long, value_name = "NAME")]
    forget: Option<OsString>,

    /// Forget all sources that were not read or given since this time: 2020-01-31, 90d, `2 weeks ago`, Unix seconds;
    /// their documents stay
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    #[arg(conflicts_with = "forget")]
    forget_before: Option<i64>,

    /// Forget nothing, but tell which sources would be forgotten
    #[arg(long, requires = "forget_before", conflicts_with = "forget")]
    dry_run: bool,
}

impl Verb for Arguments {
    fn opening(&self) -> Opening {
        let forgets_old = self.forget_before.is_some() && !self.dry_run;
        Opening::new(self.forget.is_some() || forgets_old)
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        if let Some(time) = self.forget_before {
            return forget_before(database, time, self.dry_run, output);
        }
        if let Some(name) = &self.forget {
            return forget(database, name.as_encoded_bytes(), output);
        }
        for source in database.snapshot()?.sources()? {
            output.print_record(&object(&source), &line(&source));
        }
        Ok(Answer::Yes)
    }
}

fn forget(database: &Database, name: &[u8], output: &mut Output) -> CommandResult {
    let mut txn = database.begin_write()?;
    let mut was_known = txn.forget_source(name)?;
    if !was_known && let Ok(text) = std::str::from_utf8(name) {
        // A source has the whole path, and its input may have been given by a shorter one.
        let place = output.console().place_of(Path::new(text));
        // The input may be gone, and the folder still be there.
        let folder = place.parent().and_then(|folder| folder.canonicalize().ok());
        let in_folder = folder
            .zip(place.file_name())
            .map(|(folder, name)| folder.join(name));
        let place = place.canonicalize().ok().or(in_folder).unwrap_or(place);
        was_known = txn.forget_source(place.as_os_str().as_encoded_bytes())?;
    }
    txn.commit()?;
    let name = printable(name);
    if was_known {
        output.print_record(&json!({"forgotten": true}), &format!("forgot {name}"));
    } else {
        output.complain(&format!(
            "{name}: no such source; `simdb sources` prints their names, which are whole paths"
        ));
    }
    Ok(Answer::yes_if(was_known))
}

/// Forgets the sources that were given last before a time, or prints them.
fn forget_before(
    database: &Database,
    time: i64,
    is_dry_run: bool,
    output: &mut Output,
) -> CommandResult {
    if is_dry_run {
        let mut count = 0u64;
        for source in database.snapshot()?.sources()? {
            if source.updated() < time {
                count += 1;
                let mut object = name_fields("source", source.name());
                object["would_forget"] = true.into();
                let line = format!("would forget {}", line(&source));
                output.print_record(&object, &line);
            }
        }
        let sources = counted(count, "source");
        let line = format!("would forget {sources}; nothing was changed");
        output.print_record(&json!({"would_forget": count}), &line);
        return Ok(Answer::Yes);
    }
    let mut txn = database.begin_write()?;
    let forgotten = txn.forget_sources_before(time)?;
    txn.commit()?;
    let line = format!("forgot {}", counted(forgotten, "source"));
    output.print_record(&json!({"forgotten": forgotten}), &line);
    Ok(Answer::Yes)
}

fn object(source: &Source) -> Value {
    let place = source.place();
    let totals = source.totals();
    let mut object = name_fields("source", source.name());
    object["ended"] = source.has_ended().into();
    object["records"] = place.records.into();
    object["line"] = place.line.into();
    object["offset"] = place.raw_offset.into();
    object["skip"] = place.skip.into();
    object["bytes"] = source.identity().length.into();
    object["read"] = source.updated().into();
    object["documents"] = totals.documents.into();
    object["duplicates"] = totals.duplicates.into();
    object["rejected"] = totals.rejected.into();
    object["failed"] = source.failed().into();
    object
}

fn line(source: &Source) -> String {
    let place = source.place();
    let totals = source.totals();
    let how_far = match (source.has_ended(), place.line) {
        (true, _) => "to its end".to_owned(),
        (false, 0) => format!("up to record {}", place.records),
        (false, line) => format!("up to line {line}"),
    };
    let read = match jiff::Timestamp::from_second(source.updated()) {
        Ok(time) => time.to_string(),
        Err(_) => "-".to_owned(),
    };
    let mut line = format!("{}\tread {how_far}, {read}: ", printable(source.name()));
    let told = totals.documents + totals.rejected + totals.passed_over;
    // Programs that read it themselves do not say what they made of its records.
    if told == 0 && place.records > 0 {
        line += &counted(place.records, "record");
    } else {
        line += &format!(
            "{}, {}",
            counted(totals.documents, "document"),
            counted(totals.duplicates, "near-duplicate")
        );
        if totals.rejected > 0 {
            line += &format!(", {} rejected", totals.rejected);
        }
    }
    if let Some(reason) = source.failed() {
        line += &format!("; {reason}");
    }
    line
}
