//! `simdb dump`: from a database to JSON Lines.
//!
//! The first line is a header. Each further line is one document with all its fields.

use crate::Database;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::LiveDatabase;
use super::output::{Output, document_fields};

/// The version of the dump format. It is independent of the version of the file format.
pub(super) const DUMP_VERSION: u32 = 2;

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,
}

/// Prints a header and all documents in the order in which they were written. The output is always JSON.
pub(super) fn run(database: &Database, output: &mut Output) -> CommandResult {
    let snapshot = database.snapshot()?;
    let stats = snapshot.stats()?;
    let header = json!({
        "simdb_dump": DUMP_VERSION,
        "scheme": stats.scheme.name(),
        "plan": stats.plan,
        "max_distance": stats.max_distance,
        "sketch_bytes": stats.sketch_size.bytes(),
        "min_similarity": stats.min_similarity.unwrap_or_default(),
        "created": stats.created,
        "documents": stats.documents,
    });
    output.print_json(&header);
    let progress = output.console().progress_of("documents");
    for (printed, document) in (0u64..).zip(snapshot.documents()) {
        output.print_json(&Value::Object(document_fields(&document?)));
        if output.is_full() {
            output.flush()?;
            _ = progress.update(printed, Some(stats.documents));
        }
        if output.is_closed() {
            break;
        }
    }
    Ok(Answer::Yes)
}
