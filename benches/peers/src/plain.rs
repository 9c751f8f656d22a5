//! The plain layout on a B-tree, which packed blocks have to beat. In redb, there is a table for each
//! rotation of the fingerprints, with one row per fingerprint. There are also tables of keys, postings and
//! documents, with one row per document.
//!
//! Commits are durable. As in simdb, they leave a file that opens quickly after a crash.

use clap::Args;
use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use serde_json::{Value, json};

use crate::measure::{self, Peer, Result, Task};

/// The tables, and the number of bits by which each rotates fingerprints to the left. A query reads the
/// rows that agree with it on 16 bits.
const ROTATIONS: [(u32, TableDefinition<u64, ()>); 4] = [
    (0, TableDefinition::new("permuted-00")),
    (16, TableDefinition::new("permuted-16")),
    (32, TableDefinition::new("permuted-32")),
    (48, TableDefinition::new("permuted-48")),
];
const PREFIX_BITS: u32 = 16;
/// The largest distance at which two fingerprints always agree on one of four blocks.
const COVERED: u32 = 3;

/// Hash of the key -> number of the document.
const KEYS: TableDefinition<u64, u64> = TableDefinition::new("keys");
/// Fingerprint and number of a document that has it.
const POSTINGS: TableDefinition<(u64, u64), ()> = TableDefinition::new("postings");
/// Number -> fingerprint, time seen, key.
const DOCUMENTS: TableDefinition<u64, (u64, i64, &[u8])> = TableDefinition::new("documents");

#[derive(Args)]
pub(crate) struct Options {
    /// How much memory the pages of the file may take
    #[arg(long, default_value_t = 256 << 20)]
    cache_bytes: usize,
}

struct Reader {
    permuted: Vec<(u32, ReadOnlyTable<u64, ()>)>,
    postings: ReadOnlyTable<(u64, u64), ()>,
}

impl Reader {
    fn new(database: &Database) -> Result<Self> {
        let txn = database.begin_read()?;
        let open =
            |(rotation, definition)| -> Result<_> { Ok((rotation, txn.open_table(definition)?)) };
        Ok(Self {
            permuted: ROTATIONS.into_iter().map(open).collect::<Result<_>>()?,
            postings: txn.open_table(POSTINGS)?,
        })
    }

    /// Adds the fingerprints of one table that agree with `fingerprint` on its first `prefix_bits` bits
    /// and are near.
    fn near(
        &self,
        table: usize,
        prefix_bits: u32,
        fingerprint: u64,
        max_distance: u32,
        near: &mut Vec<u64>,
    ) -> Result<()> {
        let (rotation, rows) = &self.permuted[table];
        let query = fingerprint.rotate_left(*rotation);
        let rest = u64::MAX.unbounded_shr(prefix_bits);
        for row in rows.range(query & !rest..=query | rest)? {
            let permuted = row?.0.value();
            if (permuted ^ query).count_ones() <= max_distance {
                near.push(permuted.rotate_right(*rotation));
            }
        }
        Ok(())
    }
}

impl Peer for Reader {
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>> {
        let mut near = Vec::new();
        if max_distance <= COVERED {
            for table in 0..self.permuted.len() {
                self.near(table, PREFIX_BITS, fingerprint, max_distance, &mut near)?;
            }
        } else {
            self.near(0, 0, fingerprint, max_distance, &mut near)?;
        }
        near.sort_unstable();
        near.dedup();
        let mut documents = 0;
        for fingerprint in near {
            for posting in self
                .postings
                .range((fingerprint, 0)..=(fingerprint, u64::MAX))?
            {
                posting?;
                documents += 1;
            }
        }
        Ok(Some(documents))
    }
}

/// A hash for keys that are numbers: the finalizer of SplitMix64, which maps no two numbers to the same
/// value.
fn hash(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn insert(database: &Database, first: u64, fingerprints: &[u64]) -> Result<()> {
    let mut txn = database.begin_write()?;
    txn.set_quick_repair(true);
    {
        let mut keys = txn.open_table(KEYS)?;
        let mut postings = txn.open_table(POSTINGS)?;
        let mut documents = txn.open_table(DOCUMENTS)?;
        let mut permuted = Vec::new();
        for (rotation, definition) in ROTATIONS {
            permuted.push((rotation, txn.open_table(definition)?));
        }
        for (number, &fingerprint) in (first..).zip(fingerprints) {
            if keys.insert(hash(number), number)?.is_some() {
                return Err("a key occurs twice".into());
            }
            documents.insert(number, (fingerprint, 0, &number.to_le_bytes()[..]))?;
            postings.insert((fingerprint, number), ())?;
            for (rotation, table) in &mut permuted {
                table.insert(fingerprint.rotate_left(*rotation), ())?;
            }
        }
    }
    Ok(txn.commit()?)
}

pub(crate) fn run(options: &Options, task: &Task) -> Result<Value> {
    let path = task.directory.join("peer.redb");
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes);
    let database = builder.create(&path)?;
    let inserted = task.insert(|first, fingerprints| insert(&database, first, fingerprints))?;
    let version = format!("redb {}", measure::version_of("redb"));
    let settings = json!({ "cache_bytes": options.cache_bytes });
    let mut report = measure::report("plain", &version, settings, inserted);
    let query_us = if inserted.complete {
        task.query(&mut Reader::new(&database)?)?
    } else {
        Value::Null
    };
    let memory = measure::memory()?;
    drop(database);
    let reopen =
        |query, max_distance| Reader::new(&builder.open(&path)?)?.count(query, max_distance);
    let reopen_seconds = if inserted.complete {
        Some(task.reopen(reopen)?)
    } else {
        None
    };
    report.insert(
        "steady".into(),
        json!({
            "query_us": query_us,
            "memory": memory,
            "disk": measure::disk(&path)?,
            "reopen_seconds": reopen_seconds,
        }),
    );
    Ok(Value::Object(report))
}
