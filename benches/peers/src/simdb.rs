//! simdb: documents with keys of eight bytes. Queries count matches and list none.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use simdb::{
    Cache, CreateOptions, Database, Document, Fingerprint, OpenOptions, Prefer, Query, Scheme,
    Snapshot,
};

use crate::measure::{self, Inserted, Peer, Result, Task};

#[derive(Args)]
pub(crate) struct Options {
    /// How much memory what is read of the file may take: enough for all of it, as with the peers in memory
    #[arg(long, default_value_t = 12 << 30)]
    cache_bytes: usize,
    /// The tables; without a name, those that make queries fastest
    #[arg(long)]
    plan: Option<String>,
}

impl Peer for Snapshot {
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>> {
        let query = Query::new(Fingerprint::from_bits(fingerprint))
            .near(max_distance)
            .limit(0);
        Ok(Some(self.query(&query)?.total()))
    }
}

pub(crate) fn run(options: &Options, task: &Task) -> Result<Value> {
    let path = task.directory.join("peer.simdb");
    let documents = std::fs::metadata(&task.fingerprints)?.len() / 8;
    let mut create_options = CreateOptions::new()
        .scheme(Scheme::External)
        .cache(Cache::Bytes(options.cache_bytes))
        .max_distance(task.made_for)
        .expected_documents(documents)
        .prefer(Prefer::Speed);
    if let Some(plan) = &options.plan {
        create_options = create_options.plan(plan);
    }
    let database = Database::create(&path, &create_options)?;
    let inserted = task.insert(|first, fingerprints| {
        let mut txn = database.begin_write()?;
        for (number, &bits) in (first..).zip(fingerprints) {
            let document =
                Document::new(number.to_le_bytes(), Fingerprint::from_bits(bits)).with_seen(0);
            txn.insert(&document)?;
        }
        Ok(txn.commit()?)
    })?;
    let settings = json!({ "cache_bytes": options.cache_bytes });
    let mut report = measure::report("simdb", measure::version_of("simdb"), settings, inserted);
    report.insert(
        "steady".into(),
        state(options, task, inserted, database, &path)?,
    );
    if inserted.complete {
        let database = Database::open(
            &path,
            &OpenOptions::new().cache(Cache::Bytes(options.cache_bytes)),
        )?;
        // What is in use is in memory, and stays there. So it is behind a compaction in a process that goes on.
        task.query(&mut database.snapshot()?)?;
        database.compact(|_, _| std::ops::ControlFlow::Continue(()))?;
        report.insert(
            "compacted".into(),
            state(options, task, inserted, database, &path)?,
        );
    }
    Ok(Value::Object(report))
}

/// Measures queries, memory, disk and reopening of a database in its present state.
fn state(
    options: &Options,
    task: &Task,
    inserted: Inserted,
    database: Database,
    path: &Path,
) -> Result<Value> {
    let query_us = if inserted.complete {
        task.query(&mut database.snapshot()?)?
    } else {
        Value::Null
    };
    let memory = measure::memory()?;
    drop(database);
    let open_options = OpenOptions::new().cache(Cache::Bytes(options.cache_bytes));
    let reopen = |query, max_distance| {
        Database::open(path, &open_options)?
            .snapshot()?
            .count(query, max_distance)
    };
    let reopen_seconds = if inserted.complete {
        Some(task.reopen(reopen)?)
    } else {
        None
    };
    Ok(json!({
        "query_us": query_us,
        "memory": memory,
        "disk": measure::disk(path)?,
        "reopen_seconds": reopen_seconds,
    }))
}
