//! `simdb sources`: prints which inputs a database was filled from, and how far each was read.

use std::ffi::OsString;

use crate::ingest::Totals;
use crate::{Database, Source};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{LiveDatabase, key_bytes};
use super::output::{Output, name_fields, printable};
use super::times::time;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Forget how far this source was read, so it counts as new; its documents stay
    #[arg(long, value_name = "NAME")]
    forget: Option<OsString>,

    /// Forget all sources that were given last before this time: 2020-01-31, 90d, `2 weeks ago`, Unix seconds; their
    /// documents stay
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    #[arg(conflicts_with = "forget")]
    forget_before: Option<i64>,

    /// Forget nothing, but tell which sources would be forgotten
    #[arg(long, requires = "forget_before")]
    dry_run: bool,
}

impl Arguments {
    /// Whether sources are to be forgotten.
    pub(super) fn forgets(&self) -> bool {
        self.forget.is_some() || self.forget_before.is_some() && !self.dry_run
    }
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    if let Some(time) = arguments.forget_before {
        return forget_before(database, time, arguments.dry_run, output);
    }
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
        output.print(
            || json!({"forgotten": true}),
            || format!("forgot {}", printable(name)),
        );
    } else {
        output.complain(&format!("{}: no such source", printable(name)));
    }
    Ok(Answer::yes_if(was_known))
}

/// Forgets the sources that were given last before a time, or tells which these are.
fn forget_before(
    database: &Database,
    time: i64,
    is_dry_run: bool,
    output: &mut Output,
) -> CommandResult {
    if is_dry_run {
        let sources = database.snapshot()?.sources()?;
        let mut count = 0u64;
        for source in sources.iter().filter(|it| it.updated() < time) {
            count += 1;
            output.print(
                || {
                    let mut object = name_fields("source", source.name());
                    object.insert("would_forget".to_owned(), true.into());
                    Value::Object(object)
                },
                || format!("would forget {}", line(source)),
            );
        }
        let told = || format!("would forget {count} sources; nothing was changed");
        output.print(|| json!({"would_forget": count}), told);
        return Ok(Answer::Yes);
    }
    let mut txn = database.begin_write()?;
    let forgotten = txn.forget_sources_before(time)?;
    txn.commit()?;
    output.print(
        || json!({"forgotten": forgotten}),
        || format!("forgot {forgotten} sources"),
    );
    Ok(Answer::Yes)
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
        "failed": source.failed(),
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
    let read = jiff::Timestamp::from_second(source.updated())
        .map_or_else(|_| "-".to_owned(), |it| it.to_string());
    // Programs that read it themselves do not tell what they made of its records.
    let counted = match (totals, place.records) {
        (
            Totals {
                documents: 0,
                rejected: 0,
                passed_over: 0,
                ..
            },
            records @ 1..,
        ) => {
            format!("{records} records")
        }
        _ => format!(
            "{} documents, {} near-duplicates{rejected}",
            totals.documents, totals.duplicates
        ),
    };
    let failed = source
        .failed()
        .map(|reason| format!("; {reason}"))
        .unwrap_or_default();
    format!(
        "{}\tread {how_far}, {read}: {counted}{failed}",
        printable(source.name())
    )
}
