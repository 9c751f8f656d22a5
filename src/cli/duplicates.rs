//! `simdb delete --duplicates`: keeps the best document of each cluster.

use crate::{Clustering, Database, DeletionEvent, Duplicate, Error};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::finds::Finds;
use super::output::{Output, key_fields, name_fields, printable};

/// Deletes near-duplicates, or tells which would be deleted, and prints them. The lines of a transaction are written
/// before it begins. So none is lost by a kill, and nobody who wants to write waits for whoever reads them.
pub(super) fn delete_duplicates(
    database: &Database,
    clustering: &Clustering,
    is_connected: bool,
    is_dry_run: bool,
    output: &mut Output,
) -> CommandResult {
    let (mut finds, mut told) = (Finds::of(output), 0u64);
    if !is_dry_run {
        // Who reads the output may end early. What is deleted does not depend on that.
        finds.go_on_unread();
    }
    let mut observe = |event| {
        match event {
            DeletionEvent::Duplicate(duplicate) => {
                told += 1;
                print_duplicate(output, &duplicate, is_dry_run, is_connected);
            }
            DeletionEvent::Kept(duplicate) => print_kept(output, &duplicate),
            DeletionEvent::Reported => finds.confirm(output),
            DeletionEvent::Progress { done, all } => finds.update(done, all),
            DeletionEvent::Committed { .. } => {}
        }
        finds.flow(output)
    };
    let deleted = match is_dry_run {
        true => database
            .snapshot()?
            .duplicates(clustering, &mut observe)
            .map(|()| 0)?,
        false => database.delete_duplicates(clustering, &mut observe)?,
    };
    let was_ended = finds.end(output)?;
    match (is_dry_run, was_ended) {
        (true, false) => output.remark(&format!(
            "would delete {told} documents; nothing was changed"
        )),
        (true, true) => {}
        (false, false) => output.remark(&format!("deleted {deleted} documents")),
        (false, true) => {
            output.complain(&format!(
                "ended; {deleted} documents are deleted, and the same command goes on"
            ));
        }
    }
    if was_ended {
        Err(Error::Interrupted.into())
    } else {
        Ok(Answer::Yes)
    }
}

fn print_duplicate(
    output: &mut Output,
    duplicate: &Duplicate,
    is_dry_run: bool,
    is_connected: bool,
) {
    let Duplicate {
        document,
        survivor,
        distance,
        ..
    } = duplicate;
    let object = || {
        object(
            duplicate,
            if is_dry_run {
                "would_delete"
            } else {
                "deleted"
            },
            true,
        )
    };
    let line = || {
        let deleted = if is_dry_run {
            "would delete"
        } else {
            "deleted"
        };
        let [key, survivor] = [document.key(), survivor].map(printable);
        let near = if is_connected {
            "connected with"
        } else {
            "near"
        };
        format!("{deleted} {key}, which is {near} {survivor} (distance {distance})")
    };
    output.print(object, line);
}

/// Takes back the line of a document that was not deleted after all.
fn print_kept(output: &mut Output, duplicate: &Duplicate) {
    let line = || {
        let [key, survivor] = [duplicate.document.key(), &duplicate.survivor].map(printable);
        format!("did not delete {key}: it or {survivor} was changed meanwhile")
    };
    output.print(|| object(duplicate, "deleted", false), line);
}

fn object(duplicate: &Duplicate, deleted: &str, is_deleted: bool) -> Value {
    let Duplicate {
        document,
        survivor,
        distance,
        ..
    } = duplicate;
    let mut object = key_fields(Some(document.key()));
    object.insert(deleted.to_owned(), is_deleted.into());
    object.extend(name_fields("survivor", survivor));
    object.insert("distance".to_owned(), json!(distance));
    Value::Object(object)
}
