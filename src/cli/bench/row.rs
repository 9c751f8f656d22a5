//! What a phase has measured: one row of named numbers.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::cli::output::Output;

/// The numbers of a phase, in the order in which they are printed.
pub(super) struct Row {
    phase: String,
    fields: Map<String, Value>,
}

impl Row {
    pub(super) fn new(phase: &str) -> Self {
        Self {
            phase: phase.to_owned(),
            fields: Map::new(),
        }
    }

    /// Adds a whole number.
    pub(super) fn add(&mut self, name: &str, number: u64) {
        self.fields.insert(name.to_owned(), number.into());
    }

    /// Adds a number, rounded to three digits after the point. Measurements are not more precise.
    pub(super) fn add_rounded(&mut self, name: &str, number: f64) {
        self.fields
            .insert(name.to_owned(), ((number * 1000.0).round() / 1000.0).into());
    }

    /// Adds the median, the 99th percentile and the longest of some times. A second is `per_second` units.
    pub(super) fn add_times(
        &mut self,
        what: &str,
        mut times: Vec<Duration>,
        per_second: f64,
        unit: &str,
    ) {
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        for (name, share) in [("median", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            let index = ((times.len() as f64 * share) as usize).min(last);
            let time = times.get(index).copied().unwrap_or_default();
            self.add_rounded(
                &format!("{what}_{name}_{unit}"),
                time.as_secs_f64() * per_second,
            );
        }
    }

    /// Prints the row: an object, or a line with the phase and its numbers.
    pub(super) fn print(&self, output: &mut Output) {
        let object = || {
            let phase = ("phase".to_owned(), Value::from(self.phase.as_str()));
            [phase].into_iter().chain(self.fields.clone()).collect()
        };
        let line = || {
            let fields: Vec<String> = self
                .fields
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            format!("{}: {}", self.phase, fields.join(", "))
        };
        output.print(object, line);
    }
}
