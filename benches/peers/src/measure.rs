//! The common part of all peers: the data, the comparison of answers, the clock, and the report.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The number of fingerprints inserted at a time. A peer on disk makes each batch durable.
pub(crate) const BATCH: usize = 10_000;

/// The fewest queries timed in a pass, however slow the peer.
const LEAST_QUERIES: usize = 10;

/// The number of times that a database is opened again.
const REOPENINGS: usize = 3;

/// A peer that has all fingerprints and answers queries.
pub(crate) trait Peer {
    /// The number of stored fingerprints within `max_distance`. `None` if the peer, as it was set up,
    /// cannot answer for that distance.
    fn count(&mut self, fingerprint: u64, max_distance: u32) -> Result<Option<u64>>;
}

/// The work of a peer.
#[derive(Debug)]
pub(crate) struct Task {
    /// A file of fingerprints. It is read during insertion, so its data take no memory beside the peer.
    pub(crate) fingerprints: PathBuf,
    /// There is at least one distance.
    pub(crate) questions: Vec<Questions>,
    /// The distance for which an index is made, if it has to be told.
    pub(crate) made_for: u32,
    pub(crate) directory: PathBuf,
    /// The time after which insertion stops.
    pub(crate) limit: Duration,
    pub(crate) passes: usize,
    /// About the time of one pass over the queries.
    pub(crate) pass: Duration,
}

/// The queries of one distance, and some answers.
#[derive(Debug)]
pub(crate) struct Questions {
    max_distance: u32,
    queries: Vec<u64>,
    /// For each of the first queries, the exact number of near fingerprints.
    answers: Vec<u64>,
}

impl Questions {
    pub(crate) fn read(max_distance: u32, folder: &Path) -> Result<Self> {
        let queries = folder.join(format!("queries-{max_distance}"));
        let answers = folder.join(format!("answers-{max_distance}"));
        let bytes =
            fs::read(&answers).map_err(|error| format!("{}: {error}", answers.display()))?;
        let answers = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word).into())
            .collect::<Vec<_>>();
        let queries = Words::open(&queries)?.collect::<Result<Vec<_>>>()?;
        if answers.is_empty() || queries.len() < answers.len().max(LEAST_QUERIES) {
            return Err(format!(
                "{} answers to {} queries are too few",
                answers.len(),
                queries.len()
            )
            .into());
        }
        Ok(Self {
            max_distance,
            queries,
            answers,
        })
    }
}

/// The number of fingerprints that were inserted, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inserted {
    pub(crate) fingerprints: u64,
    pub(crate) seconds: f64,
    /// Whether all fingerprints went in before the limit.
    pub(crate) complete: bool,
}

impl Task {
    /// Calls `insert` with the fingerprints, a batch at a time, and the number of the first one.
    pub(crate) fn insert(
        &self,
        mut insert: impl FnMut(u64, &[u64]) -> Result<()>,
    ) -> Result<Inserted> {
        let begin = Instant::now();
        let mut words = Words::open(&self.fingerprints)?;
        let mut fingerprints = 0;
        loop {
            let batch = words.by_ref().take(BATCH).collect::<Result<Vec<u64>>>()?;
            let late = begin.elapsed() > self.limit;
            if batch.is_empty() || late {
                let seconds = begin.elapsed().as_secs_f64();
                return Ok(Inserted {
                    fingerprints,
                    seconds,
                    complete: batch.is_empty(),
                });
            }
            insert(fingerprints, &batch)?;
            fingerprints += batch.len() as u64;
        }
    }

    /// Compares and times the answers of a peer that has all fingerprints. For each distance, the report
    /// holds `null` if the peer cannot answer, the recall if its answers are wrong, and otherwise the
    /// times.
    pub(crate) fn query(&self, peer: &mut impl Peer) -> Result<Value> {
        let mut report = Map::new();
        for questions in &self.questions {
            report.insert(
                format!("k{}", questions.max_distance),
                self.ask(peer, questions)?,
            );
        }
        Ok(Value::Object(report))
    }

    fn ask(&self, peer: &mut impl Peer, questions: &Questions) -> Result<Value> {
        let Questions {
            max_distance,
            queries,
            answers,
        } = questions;
        let max_distance = *max_distance;
        let begin = Instant::now();
        let (mut exact, mut found) = (true, 0);
        for (&query, &expected) in queries.iter().zip(answers) {
            let Some(count) = peer.count(query, max_distance)? else {
                return Ok(Value::Null);
            };
            exact &= count == expected;
            found += count.min(expected);
        }
        if !exact {
            let recall = found as f64 / answers.iter().sum::<u64>() as f64;
            return Ok(json!({ "exact": false, "compared": answers.len(), "recall": recall }));
        }
        let first = begin.elapsed().as_secs_f64() / answers.len() as f64;
        let per_query = self.warm_up(peer, max_distance, queries)?;
        let affordable = (self.pass.as_secs_f64() / per_query) as usize;
        let queries = &queries[..affordable.clamp(LEAST_QUERIES, queries.len())];
        let mut microseconds = Vec::new();
        let mut matches = 0;
        for _ in 0..self.passes {
            let begin = Instant::now();
            matches = 0;
            for &query in queries {
                matches += black_box(peer.count(query, max_distance)?).unwrap_or(0);
            }
            microseconds.push(begin.elapsed().as_secs_f64() * 1e6 / queries.len() as f64);
        }
        microseconds.sort_by(f64::total_cmp);
        Ok(json!({
            "exact": true,
            "compared": answers.len(),
            "first": first * 1e6,
            "queries": queries.len(),
            "passes": self.passes,
            "matches": matches,
            "median": microseconds[microseconds.len() / 2],
            "least": microseconds[0],
            "greatest": microseconds[microseconds.len() - 1],
        }))
    }

    /// Asks all queries, so that what a peer reads into memory with its first queries is there. Does so again until
    /// the time of a query falls no more. Returns this time, in seconds.
    fn warm_up(&self, peer: &mut impl Peer, max_distance: u32, queries: &[u64]) -> Result<f64> {
        const MOST_TURNS: usize = 20;
        let mut per_query = self.ask_in_turn(peer, max_distance, queries)?;
        for _ in 1..MOST_TURNS {
            let before = per_query;
            per_query = self.ask_in_turn(peer, max_distance, queries)?;
            if per_query > 0.95 * before {
                break;
            }
        }
        Ok(per_query)
    }

    /// Asks all queries, or for as long as three passes take. Returns the time of each, in seconds.
    fn ask_in_turn(&self, peer: &mut impl Peer, max_distance: u32, queries: &[u64]) -> Result<f64> {
        let begun = Instant::now();
        let mut asked = 0;
        for some in queries.chunks(LEAST_QUERIES) {
            for &query in some {
                black_box(peer.count(query, max_distance)?);
            }
            asked += some.len();
            if begun.elapsed() >= 3 * self.pass {
                break;
            }
        }
        Ok(begun.elapsed().as_secs_f64() / asked as f64)
    }

    /// The median time to open the file again and answer one query of the least distance.
    pub(crate) fn reopen(
        &self,
        mut first_answer: impl FnMut(u64, u32) -> Result<Option<u64>>,
    ) -> Result<f64> {
        let questions = &self.questions[0];
        let mut seconds = Vec::new();
        for _ in 0..REOPENINGS {
            let begin = Instant::now();
            let count = first_answer(questions.queries[0], questions.max_distance)?;
            seconds.push(begin.elapsed().as_secs_f64());
            if count != Some(questions.answers[0]) {
                return Err("what was opened again answers differently".into());
            }
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[REOPENINGS / 2])
    }
}

/// The first part of the report of a peer, about the whole run. Each state that is measured is added to
/// it.
pub(crate) fn report(
    peer: &str,
    version: &str,
    settings: Value,
    inserted: Inserted,
) -> Map<String, Value> {
    let Inserted {
        fingerprints,
        seconds,
        complete,
    } = inserted;
    let mut report = Map::new();
    report.insert("peer".into(), peer.into());
    report.insert("version".into(), version.into());
    report.insert("settings".into(), settings);
    report.insert("threads".into(), 1.into());
    report.insert("fingerprints".into(), fingerprints.into());
    report.insert("complete".into(), complete.into());
    report.insert("build_seconds".into(), seconds.into());
    report.insert(
        "inserts_per_second".into(),
        (fingerprints as f64 / seconds).into(),
    );
    report
}

/// The memory of this process, now and at its peak.
pub(crate) fn memory() -> Result<Value> {
    let status = fs::read_to_string("/proc/self/status")?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace()
            .nth(1)?
            .parse::<u64>()
            .ok()
            .map(|kibibytes| kibibytes * 1024)
    };
    let (Some(now), Some(peak)) = (bytes("VmRSS"), bytes("VmHWM")) else {
        return Err("the system does not tell how much memory this process takes".into());
    };
    Ok(json!({ "steady_bytes": now, "peak_bytes": peak }))
}

/// The length of a file, and the space it takes on the disk.
pub(crate) fn disk(path: &Path) -> Result<Value> {
    let metadata = fs::metadata(path)?;
    Ok(json!({ "bytes": metadata.len(), "allocated_bytes": metadata.blocks() * 512 }))
}

/// The version of a package in this program.
pub(crate) fn version_of(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    entry
        .and_then(|entry| entry.split('"').nth(3))
        .unwrap_or("unknown")
}

/// The 64-bit little-endian words of a file.
#[derive(Debug)]
pub(crate) struct Words(BufReader<File>);

impl Words {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(BufReader::with_capacity(1 << 16, file)))
    }
}

impl Iterator for Words {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut word = [0; 8];
        match self.0.read_exact(&mut word) {
            Ok(()) => Some(Ok(u64::from_le_bytes(word))),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}
