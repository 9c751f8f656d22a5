//! `simdb expire`: removes documents by time, by scope, or by both.

use std::ops::ControlFlow;

use crate::{Database, Error, Expiry};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::{Output, key_fields, printable};
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Remove documents seen before this time: 2020-01-31, 90d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    before: i64,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Delete nothing, but tell how many documents would be deleted; with --json print them
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let expiry = Expiry::new().before(arguments.before);
    let scopes = &arguments.scope;
    let expiry = if scopes.is_empty() {
        expiry
    } else {
        expiry.scopes(scopes)
    };
    if arguments.dry_run {
        tell(database, &expiry, output)
    } else {
        expire(database, &expiry, output)
    }
}

impl Arguments {
    /// Whether nothing is to be changed.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// Removes documents and prints how many. The same command can be run again after it was stopped.
pub(super) fn expire(database: &Database, expiry: &Expiry, output: &mut Output) -> CommandResult {
    let progress = output.console().progress_of("documents removed");
    let mut was_ended = false;
    let removed = database.expire(expiry, |removed| {
        let next = progress.update(removed, None);
        was_ended = next.is_break();
        next
    })?;
    drop(progress);
    output.print(
        || json!({"removed": removed}),
        || format!("removed {removed} documents"),
    );
    if was_ended {
        output.flush()?;
        output.complain("ended before all were removed; the same command removes the others");
        return Err(Error::Interrupted.into());
    }
    Ok(Answer::Yes)
}

/// Prints what would be removed: in JSON the documents, and in any case how many.
pub(super) fn tell(database: &Database, expiry: &Expiry, output: &mut Output) -> CommandResult {
    let progress = output.console().progress_of("documents found");
    let (mut found, mut failed, mut was_ended) = (0, None, false);
    let count = database.snapshot()?.to_expire(expiry, |document| {
        found += 1;
        if output.is_json() {
            print_would_go(output, document.key());
        }
        if output.is_full() {
            failed = output.flush().err();
        }
        was_ended = progress.update(found, None).is_break();
        if was_ended || failed.is_some() || output.is_closed() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    drop(progress);
    if let Some(error) = failed {
        return Err(error.into());
    }
    if was_ended {
        return Err(Error::Interrupted.into());
    }
    output.print(
        || json!({"would_remove": count}),
        || format!("would remove {count} documents; nothing was changed"),
    );
    Ok(Answer::Yes)
}

/// Prints the key of a document that would be deleted.
pub(super) fn print_would_go(output: &mut Output, key: &[u8]) {
    let object = || {
        let mut object = key_fields(Some(key));
        object.insert("would_delete".to_owned(), true.into());
        Value::Object(object)
    };
    output.print(object, || format!("would delete {}", printable(key)));
}
