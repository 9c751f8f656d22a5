//! `simdb query` and `simdb explain`: the documents near a text, a fingerprint or a document, and how they are found.

use std::time::Duration;

use crate::ingest::{InputFormat, Records};
use crate::inspect::Explanation;
use crate::{Database, Matches, Query, Unit};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::output::{
    Output, Verified, add_fingerprint, add_matches, key_fields, matches_line, printable,
};
use super::query_arguments::{Arguments, QueryDocument, QuerySession, TargetArguments};
use super::rejections;

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let session = QuerySession::new(arguments, database, &snapshot, output.console())?;
    let options = arguments.reading.options().only_content();
    let is_cut = arguments.reading.unit() != Unit::Document;
    match &arguments.target {
        TargetArguments {
            input: Some(path), ..
        } => {
            let records = output.console().records(path, options)?;
            return query_records(&session, records, output);
        }
        TargetArguments {
            file: Some(path), ..
        } if is_cut => {
            let options = options.format(InputFormat::Text);
            let records = output.console().records(path, options)?;
            return query_records(&session, records, output);
        }
        TargetArguments {
            text: Some(text), ..
        } if is_cut => {
            let any_match = query_all(&session, &units_of_text(&session, text)?, output)?;
            return Ok(session.answer(any_match));
        }
        _ => {}
    }

    let Some(document) = session.document()? else {
        return Ok(Answer::No);
    };
    let matches = match session.query(&document) {
        Some(query) => snapshot.query(&query)?,
        None => {
            output.remark("the text is too short to judge, so nothing matches it");
            Matches::default()
        }
    };
    if matches.total() == 0 && document.fingerprint.is_some() {
        output.remark(&session.no_match_message(&document));
    }
    let verified = session.verified(&document, &matches)?;
    print_matches(
        output,
        &document,
        &matches,
        verified.as_ref(),
        arguments.limit,
    )?;
    Ok(session.answer(matches.total() > 0))
}

/// Prints one JSON object, or one line per match: its distance, its similarity, what texts were verified by if they
/// were, and its key, with tabs between them. The similarity is `-` if it is not known. If the limit is 0, the line is
/// the total.
fn print_matches(
    output: &mut Output,
    document: &QueryDocument,
    matches: &Matches,
    verified: Option<&Verified>,
    limit: usize,
) -> Result<(), Failure> {
    if output.is_json() {
        output.print_json(&answer_object(document, matches, verified));
        return Ok(());
    }
    if limit == 0 {
        output.print_line(&total_text(matches));
        return Ok(());
    }
    for (index, found) in matches.iter().enumerate() {
        let similarity = match found.similarity {
            Some(similarity) => format!("{:.2}", similarity.jaccard()),
            None => "-".to_owned(),
        };
        let mut line = format!("{}\t{similarity}\t", found.distance);
        if let Some((_, value)) = verified.and_then(|verified| verified.get(index)) {
            line += &format!("{value:.2}\t");
        }
        line += &printable(found.document.key());
        output.print_line(&line);
    }
    let listed = matches.as_slice().len();
    if matches.total() > listed as u64 {
        output.flush()?;
        let total = total_text(matches);
        output.remark(&format!(
            "{listed} of {total} matches shown; --limit shows more"
        ));
    }
    Ok(())
}

fn total_text(matches: &Matches) -> String {
    match matches.total_is_exact() {
        true => matches.total().to_string(),
        false => format!("at least {}", matches.total()),
    }
}

fn answer_object(
    document: &QueryDocument,
    matches: &Matches,
    verified: Option<&Verified>,
) -> Value {
    let mut object = key_fields(document.key.as_deref());
    add_fingerprint(&mut object, document.fingerprint);
    add_matches(&mut object, matches, verified);
    Value::Object(object)
}

/// The units of a text that are not too short, by their numbers.
fn units_of_text(session: &QuerySession<'_>, text: &str) -> Result<Vec<QueryDocument>, Failure> {
    let fingerprinter = session.database.fingerprinter()?;
    let units = session.arguments.reading.unit().cut(text);
    let mut documents = Vec::new();
    for (number, unit) in (1..).zip(units) {
        let made = fingerprinter.fingerprint_and_sketch(unit);
        if made.is_some() {
            let key = Some(format!("#{number}").into_bytes());
            let text = session.needed(unit);
            let document = QueryDocument {
                key,
                text,
                ..QueryDocument::default()
            };
            documents.push(document.with_fingerprints(made));
        }
    }
    Ok(documents)
}

/// Queries that are answered before the program looks whether somebody wants the others.
const ANSWERED_TOGETHER: usize = 1_024;

/// Looks for documents in order, one line each. Returns whether there was any match.
fn query_all(
    session: &QuerySession<'_>,
    documents: &[QueryDocument],
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut any_match = false;
    for documents in documents.chunks(ANSWERED_TOGETHER) {
        if output.is_closed() {
            break;
        }
        any_match |= query_some(session, documents, output)?;
    }
    Ok(any_match)
}

fn query_some(
    session: &QuerySession<'_>,
    documents: &[QueryDocument],
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut queries: Vec<Query> = Vec::new();
    for document in documents {
        queries.extend(session.query(document));
    }
    let mut answers = session.snapshot.query_batch(&queries)?.into_iter();
    let mut any_match = false;
    for document in documents {
        let matches = match document.fingerprint {
            Some(_) => answers.next().unwrap_or_default(),
            None => Matches::default(),
        };
        any_match |= matches.total() > 0;
        let verified = session.verified(document, &matches)?;
        if output.is_json() {
            output.print_json(&answer_object(document, &matches, verified.as_ref()));
        } else if session.arguments.limit == 0 {
            output.print_line(&total_line(document, &matches));
        } else {
            output.print_line(&answer_line(document, &matches, verified.as_ref()));
        }
    }
    output.flush()?;
    Ok(any_match)
}

/// Looks for all records of a file in order, one line for each record or each of its units. If a record is
/// rejected or a text is missing, the answer of the command is "could not tell". With "no match", a caller would take
/// the rejected record for a new document.
fn query_records(
    session: &QuerySession<'_>,
    mut records: Records,
    output: &mut Output,
) -> CommandResult {
    let rule = session.rule_of_input()?;
    let unit = session.arguments.reading.unit();
    let texts = session.texts();
    let read = records.progress();
    let progress = output.console().progress_of("bytes");
    let mut any_match = false;
    let mut any_rejected = false;
    while !output.is_closed() {
        let chunk =
            records.next_chunk(|record| QueryDocument::from_record(record, rule, unit, texts))?;
        if chunk.is_empty() {
            break;
        }
        let mut waiting = Vec::new();
        for record in chunk {
            match record {
                Ok(documents) => {
                    for mut document in documents {
                        session.find_text(&mut document)?;
                        waiting.push(document);
                    }
                }
                Err(rejected) => {
                    any_rejected = true;
                    any_match |= query_all(session, &std::mem::take(&mut waiting), output)?;
                    output.complain(&rejections::message(&rejected));
                    // Each record has a line. An input that cannot be read is none.
                    if !rejected.is_input() {
                        let line = format!("rejected: {}", rejected.reason);
                        output.print_record(&rejections::object(&rejected), &line);
                    }
                }
            }
        }
        any_match |= query_all(session, &waiting, output)?;
        _ = progress.update(read.bytes_read(), read.bytes_total());
    }
    drop(progress);
    output.console().ensure_wanted()?;
    if session.any_without_text() || any_rejected {
        return Ok(Answer::CouldNotTell);
    }
    Ok(Answer::yes_if(any_match))
}

/// The name of a document in a line.
fn name_text(document: &QueryDocument) -> String {
    match &document.key {
        Some(key) => printable(key).into_owned(),
        None => "(no key)".to_owned(),
    }
}

/// The total, a tab and the key, as the lines of a single document have their keys last.
fn total_line(document: &QueryDocument, matches: &Matches) -> String {
    let total = match document.fingerprint {
        Some(_) => total_text(matches),
        None => "too short".to_owned(),
    };
    format!("{total}\t{}", name_text(document))
}

fn answer_line(document: &QueryDocument, matches: &Matches, verified: Option<&Verified>) -> String {
    let name = name_text(document);
    match document.fingerprint {
        None => format!("{name} is too short to judge"),
        Some(_) if matches.total() == 0 => format!("{name} is near nothing"),
        Some(_) => format!("{name} is near {}", matches_line(matches, verified)),
    }
}

/// `simdb explain`: prints how a query is answered.
pub(super) fn explain(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let session = QuerySession::new(arguments, database, &snapshot, output.console())?;
    let Some(document) = session.document()? else {
        return Ok(Answer::No);
    };
    let Some(query) = session.query(&document) else {
        output.complain("the text is too short to judge, so nothing is read for it");
        return Ok(Answer::No);
    };
    let (matches, explanation) = snapshot.explain(&query)?;
    if output.is_json() {
        output.print_json(&explanation_object(&explanation));
    } else {
        print_explanation(output, &explanation);
    }
    Ok(session.answer(matches.total() > 0))
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}

fn print_explanation(output: &mut Output, explanation: &Explanation) {
    let Explanation {
        plan,
        max_distance,
        sources,
        probes,
        candidates_expected,
        ..
    } = explanation;
    output.print_line(&format!(
        "plan {plan}, max distance {max_distance}, {sources} sources"
    ));
    if probes.is_empty() {
        output.print_line("all fingerprints are compared");
    }
    for probe in probes {
        output.print_line(&format!(
            "table {}: {} leading bits, {} flips, {} ranges; {:.1} candidates expected, {} met",
            probe.table,
            probe.prefix_bits,
            probe.flips,
            probe.ranges,
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
        "{candidates_expected:.1} candidates expected, {candidates} met in {blocks} blocks; {near} fingerprints near, \
         {total} documents"
    ));
    output.print_line(&format!(
        "{} us expected, {} us taken, {} us when repeated",
        micros(explanation.expected),
        micros(explanation.first),
        micros(explanation.again)
    ));
}

fn explanation_object(explanation: &Explanation) -> Value {
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
