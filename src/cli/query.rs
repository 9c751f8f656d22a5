//! `simdb query`: prints the documents near a text, a fingerprint or a document.

use crate::ingest::{InputFormat, Records};
use crate::{Database, Matches, Query, Unit};
use serde_json::Value;

use super::answer::{Answer, CommandResult, Failure};
use super::asking::{Arguments, Asked, Asking};
use super::output::{
    Output, Verified, add_fingerprint, add_matches, document_fields, key_fields, matches_line,
    printable,
};
use super::question::Question;
use super::rejections;

pub(super) fn run(
    arguments: &Arguments,
    database: &Database,
    output: &mut Output,
) -> CommandResult {
    let snapshot = database.snapshot()?;
    let asking = Asking::new(arguments, database, &snapshot, output.console())?;
    let options = arguments.reading.options().only_content();
    match &arguments.asked {
        Asked {
            input: Some(path), ..
        } => {
            return run_batch(&asking, output.console().records(path, options)?, output);
        }
        Asked {
            file: Some(path), ..
        } if arguments.reading.unit() != Unit::Document => {
            let records = output
                .console()
                .records(path, options.format(InputFormat::Text))?;
            return run_batch(&asking, records, output);
        }
        Asked {
            text: Some(text), ..
        } if arguments.reading.unit() != Unit::Document => {
            let questions = questions_of_text(&asking, text)?;
            let any_match = answer_all(&asking, &questions, output)?;
            return Ok(asking.answer(any_match));
        }
        _ => {}
    }
    let Some(question) = asking.question()? else {
        return Ok(Answer::No);
    };
    let matches = match asking.query(&question) {
        Some(query) => snapshot.query(&query)?,
        None => {
            output.remark("the text is too short to judge, so nothing matches it");
            Matches::default()
        }
    };
    if matches.total() == 0 && question.judged.is_some() {
        output.remark(&asking.told_of_no_match(&question));
    }
    print_one(
        output,
        &question,
        &matches,
        asking.verified(&question, &matches)?.as_ref(),
        arguments.limit,
    )?;
    Ok(asking.answer(matches.total() > 0))
}

/// Prints one JSON object, or one line per match: its distance, its similarity, what texts were verified by if they
/// were, and its key, with tabs between them. The similarity is `-` if it is not known. If the limit is 0, the line is
/// the total.
fn print_one(
    output: &mut Output,
    question: &Question,
    matches: &Matches,
    verified: Option<&Verified>,
    limit: usize,
) -> Result<(), Failure> {
    if output.is_json() || limit == 0 {
        output.print(
            || answer_object(question, matches, verified),
            || total_of(matches),
        );
        return Ok(());
    }
    for (index, found) in matches.iter().enumerate() {
        let similarity = found
            .similarity
            .map_or("-".to_owned(), |it| format!("{:.2}", it.jaccard()));
        let verified = verified
            .and_then(|it| it.of(index))
            .map(|(_, value)| format!("{value:.2}\t"));
        let (key, verified) = (
            printable(found.document.key()),
            verified.unwrap_or_default(),
        );
        let line = || format!("{}\t{similarity}\t{verified}{key}", found.distance);
        output.print(|| Value::Object(document_fields(&found.document)), line);
    }
    if matches.total() > matches.as_slice().len() as u64 {
        let at_least = if matches.total_is_exact() {
            ""
        } else {
            "at least "
        };
        let listed = matches.as_slice().len();
        output.flush()?;
        output.remark(&format!(
            "{listed} of {at_least}{} matches shown; --limit shows more",
            matches.total()
        ));
    }
    Ok(())
}

fn total_of(matches: &Matches) -> String {
    let at_least = if matches.total_is_exact() {
        ""
    } else {
        "at least "
    };
    format!("{at_least}{}", matches.total())
}

fn answer_object(question: &Question, matches: &Matches, verified: Option<&Verified>) -> Value {
    let mut object = key_fields(question.key.as_deref());
    add_fingerprint(&mut object, question.fingerprint());
    add_matches(&mut object, matches, verified);
    Value::Object(object)
}

/// The units of a text that are not too short, by their numbers.
fn questions_of_text(asking: &Asking<'_>, text: &str) -> Result<Vec<Question>, Failure> {
    let fingerprinter = asking.database.fingerprinter()?;
    let units = asking.arguments.reading.unit().cut(text).enumerate();
    let questions = units.filter_map(|(index, unit)| {
        let judged = Some(fingerprinter.fingerprint_and_sketch(unit)?);
        Some(Question {
            key: Some(format!("#{}", index + 1).into_bytes()),
            judged,
            text: asking.needed(|| unit.into()),
        })
    });
    Ok(questions.collect())
}

/// Answers questions in order, one line each. Returns whether there was any match.
fn answer_all(
    asking: &Asking<'_>,
    questions: &[Question],
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut any_match = false;
    for questions in questions.chunks(ANSWERED_TOGETHER) {
        if output.is_closed() {
            break;
        }
        any_match |= answer_some(asking, questions, output)?;
    }
    Ok(any_match)
}

/// Queries that are answered before the program looks whether somebody wants the others.
const ANSWERED_TOGETHER: usize = 1_024;

fn answer_some(
    asking: &Asking<'_>,
    questions: &[Question],
    output: &mut Output,
) -> Result<bool, Failure> {
    let queries: Vec<Query> = questions.iter().filter_map(|it| asking.query(it)).collect();
    let mut answers = asking.snapshot.query_batch(&queries)?.into_iter();
    let mut any_match = false;
    for question in questions {
        let matches = question
            .judged
            .and_then(|_| answers.next())
            .unwrap_or_default();
        any_match |= matches.total() > 0;
        let verified = asking.verified(question, &matches)?;
        let verified = verified.as_ref();
        output.print(
            || answer_object(question, &matches, verified),
            || match asking.arguments.limit {
                0 => total_line(question, &matches),
                _ => answer_line(question, &matches, verified),
            },
        );
    }
    output.flush()?;
    Ok(any_match)
}

/// Answers all records of a file in order, one line for each record or each of its units. If a record is
/// rejected or a text is missing, the answer of the command is "could not tell". With "no match", a caller would take
/// the rejected record for a new document.
fn run_batch(asking: &Asking<'_>, mut records: Records, output: &mut Output) -> CommandResult {
    let rule = asking.rule_of_input()?;
    let unit = asking.arguments.reading.unit();
    let mut any_match = false;
    let mut any_rejected = false;
    let (reading, progress) = (records.progress(), output.console().progress_of("bytes"));
    while !output.is_closed() {
        let texts = asking.texts();
        let chunk = records.next_chunk(|record| Question::of_record(record, rule, unit, texts))?;
        if chunk.is_empty() {
            break;
        }
        let mut questions = Vec::new();
        for record in chunk {
            match record {
                Ok(asked) => {
                    for mut question in asked {
                        asking.find_text(&mut question)?;
                        questions.push(question);
                    }
                }
                Err(rejected) => {
                    any_rejected = true;
                    any_match |= answer_all(asking, &std::mem::take(&mut questions), output)?;
                    output.complain(&rejections::message(&rejected));
                    // Each record has a line. An input that cannot be read is none.
                    if !rejected.is_input() {
                        output.print(
                            || rejections::object(&rejected),
                            || format!("rejected: {}", rejected.reason),
                        );
                    }
                }
            }
        }
        any_match |= answer_all(asking, &questions, output)?;
        _ = progress.update(reading.bytes_read(), reading.bytes_total());
    }
    drop(progress);
    output.console().ensure_wanted()?;
    let any_without_text = asking.any_without_text();
    Ok(if any_rejected || any_without_text {
        Answer::CouldNotTell
    } else {
        Answer::yes_if(any_match)
    })
}

/// The total, a tab and the key, as the lines of a single question have their keys last.
fn total_line(question: &Question, matches: &Matches) -> String {
    let name = question.key.as_deref().map_or("(no key)".into(), printable);
    let total = question
        .judged
        .map_or("too short".to_owned(), |_| total_of(matches));
    format!("{total}\t{name}")
}

fn answer_line(question: &Question, matches: &Matches, verified: Option<&Verified>) -> String {
    let name = question.key.as_deref().map_or("(no key)".into(), printable);
    match question.judged {
        None => format!("{name} is too short to judge"),
        Some(_) if matches.total() == 0 => format!("{name} is near nothing"),
        Some(_) => format!("{name} is near {}", matches_line(matches, verified)),
    }
}
