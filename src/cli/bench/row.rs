//! What a phase has measured: one row of named numbers.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cli::output::Output;

pub(super) type Row = Map<String, Value>;

/// A phase as an object, or as a line of its numbers.
pub(super) fn print(output: &mut Output, row: &Row) {
    let line = || {
        let fields = row.iter().filter(|(name, _)| *name != "phase");
        let fields = fields.map(|(name, value)| format!("{name} {value}"));
        format!("{}: {}", row["phase"].as_str().unwrap_or(""), fields.collect::<Vec<_>>().join(", "))
    };
    output.print(|| Value::Object(row.clone()), line);
}

/// Median, 99th percentile and longest of some times.
pub(super) fn add_times(row: &mut Row, what: &str, mut times: Vec<Duration>, per_second: f64, unit: &str) {
    times.sort_unstable();
    let at =
        |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    for (name, share) in [("median", 0.5), ("p99", 0.99), ("longest", 1.0)] {
        let time = at(share).copied().unwrap_or_default().as_secs_f64() * per_second;
        row.insert(format!("{what}_{name}_{unit}"), rounded(time));
    }
}

/// Three digits after the point are more than such a measurement is good for.
pub(super) fn rounded(number: f64) -> Value {
    json!((number * 1000.0).round() / 1000.0)
}
