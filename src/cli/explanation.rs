//! How a query was answered, as `simdb explain` prints it.

use std::time::Duration;

use crate::inspect::Explanation;
use crate::plural::counted;
use serde_json::{Value, json};

use super::output::Output;

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}

pub(super) fn print_explanation(explanation: &Explanation, output: &mut Output) {
    if output.is_json() {
        output.print_json(&object(explanation));
        return;
    }
    let Explanation {
        plan,
        max_distance,
        sources,
        probes,
        candidates_expected,
        ..
    } = explanation;
    output.print_line(&format!(
        "plan {plan}, max distance {max_distance}; a range is read in {}",
        counted(sources, "level")
    ));
    if probes.is_empty() {
        output.print_line("all fingerprints are compared");
    }
    for probe in probes {
        output.print_line(&format!(
            "table {}: {} for fingerprints that differ in up to {} of the first {} bits; {:.1} candidates expected, \
             {} found",
            probe.table,
            counted(probe.ranges, "range"),
            probe.flips,
            probe.prefix_bits,
            probe.candidates_expected,
            probe.candidates
        ));
    }
    let Explanation {
        candidates,
        blocks,
        near,
        total,
        ..
    } = explanation;
    output.print_line(&format!(
        "in all {candidates_expected:.1} candidates expected, {candidates} found in {}; near: {}, {}",
        counted(blocks, "block"),
        counted(near, "fingerprint"),
        counted(total, "document")
    ));
    output.print_line(&format!(
        "time: {} us expected, {} us taken, {} us when repeated",
        micros(explanation.expected),
        micros(explanation.first),
        micros(explanation.again)
    ));
}

fn object(explanation: &Explanation) -> Value {
    let mut probes = Vec::new();
    for probe in &explanation.probes {
        probes.push(json!({
            "table": probe.table,
            "prefix_bits": probe.prefix_bits,
            "flips": probe.flips,
            "ranges": probe.ranges,
            "candidates_expected": probe.candidates_expected,
            "candidates": probe.candidates,
        }));
    }
    json!({
        "plan": explanation.plan,
        "max_distance": explanation.max_distance,
        "sources": explanation.sources,
        "probes": probes,
        "candidates_expected": explanation.candidates_expected,
        "candidates": explanation.candidates,
        "blocks": explanation.blocks,
        "near": explanation.near,
        "total": explanation.total,
        "expected_us": micros(explanation.expected),
        "first_us": micros(explanation.first),
        "again_us": micros(explanation.again),
    })
}
