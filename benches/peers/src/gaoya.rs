//! gaoya: hash tables of fingerprints under masks. Its index takes fingerprints one by one, lives in
//! memory and cannot be saved. Its distance is fixed when the index is made, and is exclusive there. A
//! fingerprint is cut into blocks. With max distance k, there is a table for each choice of all blocks but
//! k.

use clap::Args;
use gaoya::simhash::SimHashIndex;
use serde_json::{Value, json};

use crate::measure::{self, Peer, Result, Task};

#[derive(Args)]
pub(crate) struct Options {
    /// The greatest distance, inclusive, that can be asked for
    #[arg(long, default_value_t = 3)]
    max_distance: u32,
    /// Into how many blocks a fingerprint is split; at least two more than the max distance
    #[arg(long, default_value_t = 5)]
    blocks: usize,
}

struct Queries {
    index: SimHashIndex<u64, u32>,
    max_distance: u32,
}

impl Peer for Queries {
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>> {
        Ok(
            (max_distance == self.max_distance)
                .then(|| self.index.query(&fingerprint).len() as u64),
        )
    }
}

pub(crate) fn run(options: &Options, task: &Task) -> Result<Value> {
    let exclusive = options.max_distance as usize + 1;
    if options.blocks <= exclusive {
        return Err(format!(
            "max distance {} needs at least {} blocks",
            options.max_distance,
            exclusive + 1
        )
        .into());
    }
    let mut index = SimHashIndex::new(options.blocks, exclusive);
    let inserted = task.insert(|first, fingerprints| {
        for (number, &fingerprint) in (first..).zip(fingerprints) {
            index.insert(u32::try_from(number)?, fingerprint);
        }
        Ok(())
    })?;
    let settings = json!({ "blocks": options.blocks, "max_distance": options.max_distance });
    let mut report = measure::report("gaoya", measure::version_of("gaoya"), settings, inserted);
    let mut queries = Queries {
        index,
        max_distance: options.max_distance,
    };
    let query_us = if inserted.complete {
        task.query(&mut queries)?
    } else {
        Value::Null
    };
    report.insert(
        "steady".into(),
        json!({ "query_us": query_us, "memory": measure::memory()?, "disk": null, "reopen_seconds": null }),
    );
    Ok(Value::Object(report))
}
