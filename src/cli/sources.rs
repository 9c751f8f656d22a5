//! `simdb sources`: prints which inputs a database was filled from, and how far each was read.

use std::ffi::OsString;

use crate::ingest::Totals;
use crate::{Database, Source};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, key_bytes};
use super::output::{Output, name_fields, printable};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Forget how far this source was read, so it counts as new; its documents stay
    #[arg(long, value_name = "NAME")]
    pub(super) forget: Option<OsString>,
}

pub(super) fn run(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    if let Some(name) = &arguments.forget {
        return forget(database, &key_bytes(name), output);
    }
    for source in database.snapshot()?.sources()? {
        output.print(|| object(&source), || line(&source));
    }
    Ok(Answer::Yes)
}

fn forget(database: &Database, name: &[u8], output: &mut Output) -> CommandResult {
    let mut txn = database.begin_write()?;
    let was_known = txn.forget_source(name)?;
    txn.commit()?;
    if was_known {
        output.print(|| json!({"forgotten": true}), || format!("forgot {}", printable(name)));
    } else {
        output.complain(&format!("{}: no such source", printable(name)));
    }
    Ok(Answer::yes_if(was_known))
}

fn object(source: &Source) -> Value {
    let (place, totals) = (source.place(), source.totals());
    let mut object = name_fields("source", source.name());
    let fields = json!({
        "ended": source.has_ended(),
        "records": place.records,
        "line": place.line,
        "offset": place.raw_offset,
        "skip": place.skip,
        "bytes": source.identity().length,
        "read": source.updated(),
        "documents": totals.documents,
        "duplicates": totals.duplicates,
        "rejected": totals.rejected,
    });
    object.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(object)
}

fn line(source: &Source) -> String {
    let (place, totals) = (source.place(), source.totals());
    let how_far = match (source.has_ended(), place.line) {
        (true, _) => "to its end".to_owned(),
        (false, 0) => format!("up to record {}", place.records),
        (false, line) => format!("up to line {line}"),
    };
    let rejected = match totals.rejected {
        0 => String::new(),
        rejected => format!(", {rejected} rejected"),
    };
    let read =
        jiff::Timestamp::from_second(source.updated()).map_or_else(|_| "-".to_owned(), |it| it.to_string());
    // Programs that read it themselves do not tell what they made of its records.
    let counted = match (totals, place.records) {
        (Totals { documents: 0, rejected: 0, passed_over: 0, .. }, records @ 1..) => {
            format!("{records} records")
        }
        _ => format!("{} documents, {} near-duplicates{rejected}", totals.documents, totals.duplicates),
    };
    format!("{}\tread {how_far}, {read}: {counted}", printable(source.name()))
}
