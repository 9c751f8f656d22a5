//! `simdb explain`: tells how a query is answered.

use std::time::Duration;

use crate::{Database, Explanation};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::asking::{Arguments, Asking};
use super::output::Output;

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let asking = Asking::new(arguments, database, &snapshot, output.console())?;
    let Some(question) = asking.question()? else {
        return Ok(Answer::No);
    };
    let Some(query) = asking.query(&question) else {
        output.complain("the text is too short to judge, so nothing is read for it");
        return Ok(Answer::No);
    };
    let (matches, explanation) = snapshot.explain(&query)?;
    if output.is_json() {
        output.print(|| object(&explanation), String::new);
    } else {
        lines(&explanation)
            .into_iter()
            .for_each(|line| output.print(|| Value::Null, || line));
    }
    Ok(asking.answer(matches.total() > 0))
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}

fn lines(it: &Explanation) -> Vec<String> {
    let mut lines = vec![format!(
        "plan {}, max distance {}, {} sources",
        it.plan, it.max_distance, it.sources
    )];
    if it.probes.is_empty() {
        lines.push("all fingerprints are compared".to_owned());
    }
    lines.extend(it.probes.iter().map(|probe| {
        format!(
            "table {}: {} leading bits, {} flips, {} ranges; {:.1} candidates expected, {} met",
            probe.table,
            probe.prefix_bits,
            probe.flips,
            probe.ranges,
            probe.candidates_expected,
            probe.candidates
        )
    }));
    lines.push(format!(
        "{:.1} candidates expected, {} met in {} blocks; {} fingerprints near, {} documents",
        it.candidates_expected, it.candidates, it.blocks, it.near, it.total
    ));
    lines.push(format!(
        "{} us expected, {} us taken, {} us when repeated",
        micros(it.expected),
        micros(it.first),
        micros(it.again)
    ));
    lines
}

fn object(it: &Explanation) -> Value {
    let probes = it.probes.iter().map(|probe| {
        json!({
            "table": probe.table,
            "prefix_bits": probe.prefix_bits,
            "flips": probe.flips,
            "ranges": probe.ranges,
            "candidates_expected": probe.candidates_expected,
            "candidates": probe.candidates,
        })
    });
    json!({
        "plan": it.plan,
        "max_distance": it.max_distance,
        "sources": it.sources,
        "probes": probes.collect::<Vec<_>>(),
        "candidates_expected": it.candidates_expected,
        "candidates": it.candidates,
        "blocks": it.blocks,
        "near": it.near,
        "total": it.total,
        "expected_us": micros(it.expected),
        "first_us": micros(it.first),
        "again_us": micros(it.again),
    })
}
