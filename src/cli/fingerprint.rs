//! `simdb fingerprint`: prints the fingerprints of texts.

use std::path::PathBuf;

use crate::ingest::{Fingerprinting, Records};
use crate::{Fingerprinter, Scheme};
use serde_json::Value;

use super::answer::{Answer, CommandResult};
use super::arguments::{Reading, SketchBytes, parse_scheme};
use super::output::{Output, add_fingerprint, add_sketch, key_fields, printable};
use super::question::{Question, TextsAre};
use super::rejections;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files to read, in any input format; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// How fingerprints are made
    #[arg(long, value_name = "NAME", default_value_t, value_parser = parse_scheme)]
    scheme: Scheme,

    /// The bytes of the sketches, which `--json` prints
    #[arg(long, value_name = "BYTES", value_enum, default_value = "16")]
    sketch: SketchBytes,
}

/// Prints the fingerprint of each document, a tab and its key, in the order of the checksum programs. What
/// `--input-format fingerprints` reads has the key first.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    Fingerprinter::new(arguments.scheme)?;
    let rule = Fingerprinting::new(arguments.scheme, Some(arguments.scheme))?
        .sketch_size(arguments.sketch.into());
    let mut records = Records::open(&arguments.files, arguments.reading.options().only_content())?;
    let mut rejected_any = false;
    let (reading, progress) = (records.progress(), output.console().progress_of("bytes"));
    while !output.is_closed() {
        let unit = arguments.reading.unit();
        let chunk = records
            .next_chunk(|record| Question::of_record(record, rule, unit, TextsAre::NotNeeded))?;
        if chunk.is_empty() {
            break;
        }
        for record in chunk {
            match record {
                Ok(questions) => questions
                    .iter()
                    .for_each(|question| print_one(output, question)),
                Err(rejected) => {
                    rejected_any = true;
                    output.complain(&rejections::message(&rejected));
                }
            }
        }
        output.flush()?;
        _ = progress.update(reading.bytes_read(), reading.bytes_total());
    }
    Ok(if rejected_any {
        Answer::CouldNotTell
    } else {
        Answer::Yes
    })
}

fn print_one(output: &mut Output, question: &Question) {
    let key = question.key.as_deref().unwrap_or_default();
    output.print(
        || {
            let mut object = key_fields(Some(key));
            add_fingerprint(&mut object, question.fingerprint());
            add_sketch(
                &mut object,
                question.judged.and_then(|(_, sketch)| sketch).as_ref(),
            );
            Value::Object(object)
        },
        || {
            let digits = question
                .fingerprint()
                .map_or("too short       ".to_owned(), |it| it.to_string());
            format!("{digits}\t{}", printable(key))
        },
    );
}
