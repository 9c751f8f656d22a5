//! `simdb delete` and `simdb expire`: delete documents by their keys, by their scope, by their time, or because they
//! are near-duplicates.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::BoundArguments;
use super::clusters::ClusterArguments;
use super::console::LongSearch;
use super::escaping::printable;
use super::output::{Output, add_name, key_fields};
use super::times::time;
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::plural::counted;
use crate::{Database, DeletionEvent, Duplicate, Error, Expiry};

/// The scope of documents that are removed. The empty one is that of all documents without a scope, which nobody means
/// whose variable is not set.
fn scope() -> impl TypedValueParser<Value = String> {
    NonEmptyStringValueParser::new()
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The keys of the documents to delete
    #[arg(required_unless_present_any = ["scope", "duplicates"], value_name = "KEY")]
    keys: Vec<OsString>,

    /// Delete all documents of this scope; may be given several times
    ///
    /// With --duplicates, only documents of this scope count
    #[arg(long, value_name = "SCOPE", conflicts_with = "keys", value_parser = scope())]
    scope: Vec<String>,

    /// Of each cluster of near-duplicates, delete all documents but the best, and print them
    #[arg(long, conflicts_with = "keys")]
    duplicates: bool,

    #[command(flatten)]
    bounds: BoundArguments,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// With --duplicates: only documents count that were seen at TIME or later, such as 2020-01-31 or 2d
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    since: Option<i64>,

    /// Delete nothing, but tell what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
pub(super) struct ExpireArguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Remove documents seen before this time: 2020-01-31, 90d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    before: i64,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE", value_parser = scope())]
    scope: Vec<String>,

    /// Delete nothing, but tell how many documents would be deleted; with --json print them
    #[arg(long)]
    dry_run: bool,
}

impl Verb for Arguments {
    fn opening(&self) -> Opening {
        Opening::new(!self.dry_run)
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        if self.duplicates {
            return delete_duplicates(self, database, output);
        }
        let is_for_duplicates = self.bounds.is_given() || self.clusters.is_given();
        if is_for_duplicates || self.since.is_some() {
            return Err(Failure::from("these options are for `delete --duplicates`"));
        }
        if !self.scope.is_empty() {
            let expiry = Expiry::new().scopes(&self.scope);
            return remove(database, &expiry, self.dry_run, output);
        }
        if self.dry_run {
            return print_stored_keys(&self.keys, database, output);
        }
        delete_keys(&self.keys, database, output)
    }

    fn key(&self) -> Option<&OsStr> {
        self.keys.last().map(OsString::as_os_str)
    }
}

impl Verb for ExpireArguments {
    fn opening(&self) -> Opening {
        Opening::new(!self.dry_run)
    }

    /// Removes documents by time, by scope, or by both.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let mut expiry = Expiry::new().before(self.before);
        if !self.scope.is_empty() {
            expiry = expiry.scopes(&self.scope);
        }
        remove(database, &expiry, self.dry_run, output)
    }
}

/// Deletes all keys in one transaction. Keys that are not stored are named, and the answer is then no.
fn delete_keys(keys: &[OsString], database: &Database, output: &mut Output) -> CommandResult {
    let mut txn = database.begin_write()?;
    // Others may have had the turn for long.
    output.console().ensure_wanted()?;
    let mut deleted = Vec::new();
    for key in keys {
        let key = key.as_encoded_bytes();
        let was_there = txn.delete(key)?.is_some();
        deleted.push((key, was_there));
    }
    txn.commit()?;
    let mut all_were_there = true;
    for (key, was_there) in deleted {
        if output.is_json() {
            let mut object = key_fields(Some(key));
            object["deleted"] = was_there.into();
            output.print_json(&object);
        } else if was_there {
            output.print_line(&format!("deleted {}", printable(key)));
        }
        if !was_there {
            all_were_there = false;
            output.complain(&format!("{}: no such key", printable(key)));
        }
    }
    Ok(Answer::yes_if(all_were_there))
}

/// Prints which of the keys would be deleted. One that comes again would not be there any more.
fn print_stored_keys(keys: &[OsString], database: &Database, output: &mut Output) -> CommandResult {
    let snapshot = database.snapshot()?;
    let mut deleted = HashSet::new();
    let mut all_are_there = true;
    for key in keys {
        let key = key.as_encoded_bytes();
        if deleted.insert(key) && snapshot.get(key)?.is_some() {
            print_would_delete(output, key);
        } else {
            all_are_there = false;
            output.complain(&format!("{}: no such key", printable(key)));
        }
    }
    Ok(Answer::yes_if(all_are_there))
}

fn print_would_delete(output: &mut Output, key: &[u8]) {
    let mut object = key_fields(Some(key));
    object["would_delete"] = true.into();
    let line = format!("would delete {}", printable(key));
    output.print_record(&object, &line);
}

/// Removes documents and prints how many. The same command can be run again after it was stopped.
fn remove(
    database: &Database,
    expiry: &Expiry,
    is_dry_run: bool,
    output: &mut Output,
) -> CommandResult {
    if is_dry_run {
        return print_expired(database, expiry, output);
    }
    let progress = output.console().progress_of("documents removed");
    let mut was_ended = false;
    let removed = database.expire(expiry, |removed| {
        let flow = progress.update(removed, None);
        was_ended = flow.is_break();
        flow
    })?;
    drop(progress);
    let line = format!("removed {}", counted(removed, "document"));
    output.print_record(&json!({"removed": removed}), &line);
    if was_ended {
        output.flush()?;
        output.complain("stopped before all were removed; the same command removes the others");
        return Err(Error::Interrupted.into());
    }
    Ok(Answer::Yes)
}

/// Prints what would be removed: in JSON the documents, and in any case how many.
fn print_expired(database: &Database, expiry: &Expiry, output: &mut Output) -> CommandResult {
    let mut search = LongSearch::new("documents found", output);
    let mut found = 0;
    let count = database.snapshot()?.to_expire(expiry, |document| {
        found += 1;
        if output.is_json() {
            print_would_delete(output, document.key());
        }
        search.update(found, None);
        search.flow(output)
    })?;
    if search.end(output)? {
        return Err(Error::Interrupted.into());
    }
    let documents = counted(count, "document");
    let line = format!("would remove {documents}; nothing was changed");
    output.print_record(&json!({"would_remove": count}), &line);
    Ok(Answer::Yes)
}

/// Deletes near-duplicates, or finds those that would be deleted, and prints them. The lines of a transaction are
/// written before it begins. So none is lost by a kill, and nobody who wants to write waits for whoever reads them.
fn delete_duplicates(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let near = arguments
        .bounds
        .near_among(arguments.since, &arguments.scope);
    let clustering = arguments.clusters.clustering(near);
    let relation = match arguments.clusters.is_connected() {
        true => "connected with",
        false => "near",
    };
    let is_dry_run = arguments.dry_run;
    let mut search = LongSearch::new("", output);
    if !is_dry_run {
        // Who reads the output may end early. What is deleted does not depend on that.
        search.go_on_unread();
    }
    let mut found = 0u64;
    let mut observe = |event| {
        match event {
            DeletionEvent::Duplicate(duplicate) => {
                found += 1;
                print_duplicate(output, &duplicate, is_dry_run, relation);
            }
            DeletionEvent::Kept(duplicate) => print_kept(output, &duplicate),
            DeletionEvent::Reported => search.confirm(output),
            DeletionEvent::Progress { done, all } => search.update(done, Some(all)),
            DeletionEvent::Committed { .. } => {}
        }
        search.flow(output)
    };

    if is_dry_run {
        database.snapshot()?.duplicates(&clustering, &mut observe)?;
        if search.end(output)? {
            return Err(Error::Interrupted.into());
        }
        if !output.is_closed() {
            output.remark(&format!(
                "would delete {}; nothing was changed",
                counted(found, "document")
            ));
        }
        return Ok(Answer::Yes);
    }
    let deleted = database.delete_duplicates_with(&clustering, &mut observe)?;
    if search.end(output)? {
        output.complain(&format!(
            "stopped after {}; the same command deletes the others",
            counted(deleted, "document")
        ));
        return Err(Error::Interrupted.into());
    }
    output.remark(&format!("deleted {}", counted(deleted, "document")));
    Ok(Answer::Yes)
}

fn print_duplicate(output: &mut Output, duplicate: &Duplicate, is_dry_run: bool, relation: &str) {
    let (field, words) = match is_dry_run {
        true => ("would_delete", "would delete"),
        false => ("deleted", "deleted"),
    };
    let key = printable(duplicate.document.key());
    let survivor = printable(&duplicate.survivor);
    let distance = duplicate.distance;
    output.print_record(
        &duplicate_object(duplicate, field, true),
        &format!("{words} {key}, which is {relation} {survivor} (distance {distance})"),
    );
}

/// Takes back the line of a document that was not deleted after all.
fn print_kept(output: &mut Output, duplicate: &Duplicate) {
    let key = printable(duplicate.document.key());
    let survivor = printable(&duplicate.survivor);
    output.print_record(
        &duplicate_object(duplicate, "deleted", false),
        &format!("did not delete {key}: it or {survivor} was changed meanwhile"),
    );
}

fn duplicate_object(duplicate: &Duplicate, field: &str, is_deleted: bool) -> Value {
    let mut object = key_fields(Some(duplicate.document.key()));
    object[field] = is_deleted.into();
    add_name(&mut object, "survivor", &duplicate.survivor);
    object["distance"] = duplicate.distance.into();
    object
}
