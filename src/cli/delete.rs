//! `simdb delete`: deletes documents by their keys, by their scope, or because they are near-duplicates.

use std::ffi::OsString;

use crate::{Database, Expiry};
use serde_json::Value;

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{LiveDatabase, key_bytes};
use super::clusters::ClusterArguments;
use super::duplicates::delete_duplicates;
use super::expire::{expire, print_would_go, tell};
use super::output::{Output, key_fields, printable};
use super::times::time;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The keys of the documents to delete
    #[arg(required_unless_present_any = ["scope", "duplicates"], value_name = "KEY")]
    pub(super) keys: Vec<OsString>,

    /// Delete all documents of this scope; with --duplicates only documents of this scope count; may be given several
    /// times
    #[arg(long, value_name = "SCOPE", conflicts_with = "keys")]
    scope: Vec<String>,

    /// Of each cluster of near-duplicates, delete all documents but the best, and print them
    #[arg(long, conflicts_with = "keys")]
    duplicates: bool,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// With --duplicates, only documents count that were seen at this time or later: 2020-01-31, 2d, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// Delete nothing, but tell what would be deleted
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    /// Whether nothing is to be changed.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

/// Deletes all keys in one transaction. Keys that are not stored are named, and the answer is then no. The
/// documents of a scope go in many transactions, and their number is printed.
pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    if arguments.duplicates {
        let clustering = arguments.clusters.among(arguments.since, &arguments.scope);
        let is_connected = arguments.clusters.is_connected();
        return delete_duplicates(
            database,
            &clustering,
            is_connected,
            arguments.dry_run,
            output,
        );
    }
    if arguments.clusters.is_given() || arguments.since.is_some() {
        return Err(Failure::from("these options are for `delete --duplicates`"));
    }
    if !arguments.scope.is_empty() {
        let expiry = Expiry::new().scopes(&arguments.scope);
        return if arguments.dry_run {
            tell(database, &expiry, output)
        } else {
            expire(database, &expiry, output)
        };
    }
    if arguments.dry_run {
        return tell_keys(arguments, database, output);
    }
    let mut txn = database.begin_write()?;
    // Others may have had the turn for long.
    output.console().ensure_wanted()?;
    let mut deleted = Vec::new();
    for key in &arguments.keys {
        let key = key_bytes(key);
        let was_there = txn.delete(&key)?.is_some();
        deleted.push((key, was_there));
    }
    txn.commit()?;
    for (key, was_there) in &deleted {
        if output.is_json() {
            let mut object = key_fields(Some(key));
            object.insert("deleted".to_owned(), (*was_there).into());
            output.print(|| Value::Object(object), String::new);
        } else if *was_there {
            output.print(|| Value::Null, || format!("deleted {}", printable(key)));
        }
        if !was_there {
            output.complain(&format!("{}: no such key", printable(key)));
        }
    }
    Ok(Answer::yes_if(
        deleted.iter().all(|(_, was_there)| *was_there),
    ))
}

/// Prints which of the keys would be deleted.
fn tell_keys(arguments: &Arguments, database: &Database, output: &mut Output) -> CommandResult {
    let snapshot = database.snapshot()?;
    let mut all_are_there = true;
    for key in arguments.keys.iter().map(|it| key_bytes(it)) {
        if snapshot.get(&key)?.is_some() {
            print_would_go(output, &key);
        } else {
            all_are_there = false;
            output.complain(&format!("{}: no such key", printable(&key)));
        }
    }
    Ok(Answer::yes_if(all_are_there))
}
