//! `simdb delete`: deletes documents by their keys.

use std::ffi::OsString;

use serde_json::Value;

use super::answer::{Answer, CommandResult};
use super::arguments::{DatabaseArgument, key_bytes};
use super::open::open_to_write;
use super::output::{Output, complain, key_fields, printable};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// The keys of the documents
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
}

/// Deletes all keys in one transaction. Keys that are not stored are named, and the answer is then no.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let database = open_to_write(&arguments.database.database)?;
    let mut txn = database.begin_write()?;
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
            complain(&format!("{}: no such key", printable(key)));
        }
    }
    Ok(Answer::yes_if(deleted.iter().all(|(_, was_there)| *was_there)))
}
