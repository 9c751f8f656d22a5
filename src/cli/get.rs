//! `simdb get`: prints a stored document.

use std::ffi::{OsStr, OsString};

use crate::Database;
use serde_json::Value;

use super::answer::{Answer, CommandResult};
use super::escaping::printable;
use super::output::{Output, document_fields};
use super::verbs::{LiveDatabase, Verb};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// The key of the document
    key: OsString,
}

impl Verb for Arguments {
    fn key(&self) -> Option<&OsStr> {
        Some(&self.key)
    }

    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let key = self.key.as_encoded_bytes();
        let Some(document) = database.snapshot()?.get(key)? else {
            output.complain(&format!("{}: no such key", printable(key)));
            return Ok(Answer::No);
        };
        let fields = document_fields(&document);
        if output.is_json() {
            output.print_json(&Value::Object(fields));
            return Ok(Answer::Yes);
        }
        for (name, value) in fields {
            let value = match value {
                Value::String(text) => printable(text.as_bytes()).into_owned(),
                value => value.to_string(),
            };
            output.print_line(&format!("{name}\t{value}"));
        }
        Ok(Answer::Yes)
    }
}
