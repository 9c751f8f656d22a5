//! mih-rs: multi-index hashing. Its index is made of all fingerprints at once and cannot be changed. So
//! the time to build it stands for insertion, and there is no limit. The index can be saved. The size on
//! disk and the time to open are those of the saved index.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};

use clap::Args;
use mih_rs::Index;
use mih_rs::index::RangeSearcher;
use serde_json::{Value, json};

use crate::measure::{self, Inserted, Peer, Result, Task, Words};

#[derive(Args)]
pub(crate) struct Options {
    /// Into how many blocks a fingerprint is split; what mih-rs finds best where it is not given
    #[arg(long)]
    blocks: Option<usize>,
}

impl Peer for RangeSearcher<'_, u64> {
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>> {
        Ok(Some(
            self.run(fingerprint, max_distance as usize).len() as u64
        ))
    }
}

pub(crate) fn run(options: &Options, task: &Task) -> Result<Value> {
    let begin = std::time::Instant::now();
    let fingerprints = Words::open(&task.fingerprints)?.collect::<Result<Vec<u64>>>()?;
    let index = match options.blocks {
        Some(blocks) => Index::with_blocks(fingerprints, blocks)?,
        None => Index::new(fingerprints)?,
    };
    let inserted = Inserted {
        fingerprints: index.codes().len() as u64,
        seconds: begin.elapsed().as_secs_f64(),
        complete: true,
    };
    let settings = json!({ "blocks": index.num_blocks() });
    let mut report = measure::report("mih", measure::version_of("mih-rs"), settings, inserted);
    let query_us = task.query(&mut index.range_searcher())?;
    let memory = measure::memory()?;
    let path = task.directory.join("peer.mih");
    let mut file = BufWriter::new(File::create(&path)?);
    index.serialize_into(&mut file)?;
    file.flush()?;
    drop((index, file));
    let reopen = |query, max_distance| {
        let index = Index::<u64>::deserialize_from(BufReader::new(File::open(&path)?))?;
        index.range_searcher().count(query, max_distance)
    };
    report.insert(
        "steady".into(),
        json!({
            "query_us": query_us,
            "memory": memory,
            "disk": measure::disk(&path)?,
            "reopen_seconds": task.reopen(reopen)?,
        }),
    );
    Ok(Value::Object(report))
}
