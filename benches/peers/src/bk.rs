//! bk-tree: a BK-tree in memory, as most programs that compare pictures have. Its keys are fingerprints one by one. It
//! cannot be saved, and nothing can be taken out.

use bk_tree::{BKTree, Metric};
use serde_json::{Value, json};

use crate::measure::{self, Peer, Result, Task};

/// The number of bits in which two fingerprints differ.
struct Hamming;

impl Metric<u64> for Hamming {
    fn distance(&self, a: &u64, b: &u64) -> u32 {
        (a ^ b).count_ones()
    }

    fn threshold_distance(&self, a: &u64, b: &u64, threshold: u32) -> Option<u32> {
        Some(self.distance(a, b)).filter(|&distance| distance <= threshold)
    }
}

impl Peer for BKTree<u64, Hamming> {
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>> {
        Ok(Some(self.find(&fingerprint, max_distance).count() as u64))
    }
}

pub(crate) fn run(task: &Task) -> Result<Value> {
    let mut tree = BKTree::new(Hamming);
    let inserted = task.insert(|_, fingerprints| {
        tree.extend(fingerprints.iter().copied());
        Ok(())
    })?;
    let version = measure::version_of("bk-tree");
    let mut report = measure::report("bk-tree", version, json!({}), inserted);
    let query_us = if inserted.complete {
        task.query(&mut tree)?
    } else {
        Value::Null
    };
    report.insert(
        "steady".into(),
        json!({ "query_us": query_us, "memory": measure::memory()?, "disk": null, "reopen_seconds": null }),
    );
    Ok(Value::Object(report))
}
