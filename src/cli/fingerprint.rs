//! `simdb fingerprint` and `simdb distance`: the fingerprints of texts, and in how many bits two differ.

use std::path::PathBuf;

use crate::ingest::{Fingerprinting, Records};
use crate::{Fingerprint, Fingerprinter, Scheme, SketchSize};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{Reading, parse_scheme};
use super::output::{Output, add_fingerprint, add_sketch, key_fields, printable};
use super::query_arguments::{QueryDocument, TextsAre};
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
    sketch: SketchSize,
}

#[derive(clap::Args)]
pub(super) struct DistanceArguments {
    /// A fingerprint: 16 hexadecimal digits
    #[arg(value_name = "HEX")]
    a: Fingerprint,

    /// Another
    #[arg(value_name = "HEX")]
    b: Fingerprint,
}

/// Prints the fingerprint of each document, a tab and its key, in the order of the checksum programs. What
/// `--input-format fingerprints` reads has the key first.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    Fingerprinter::new(arguments.scheme)?;
    let rule = Fingerprinting::new(arguments.scheme, Some(arguments.scheme))?
        .sketch_size(arguments.sketch);
    let mut records = Records::open(&arguments.files, arguments.reading.options().only_content())?;
    let unit = arguments.reading.unit();
    let read = records.progress();
    let progress = output.console().progress_of("bytes");
    let mut rejected_any = false;
    while !output.is_closed() {
        let chunk = records.next_chunk(|record| {
            QueryDocument::from_record(record, rule, unit, TextsAre::NotNeeded)
        })?;
        if chunk.is_empty() {
            break;
        }
        for record in chunk {
            match record {
                Ok(documents) => {
                    for document in &documents {
                        print_document(output, document);
                    }
                }
                Err(rejected) => {
                    rejected_any = true;
                    output.complain(&rejections::message(&rejected));
                }
            }
        }
        output.flush()?;
        _ = progress.update(read.bytes_read(), read.bytes_total());
    }
    Ok(Answer::yes_unless(rejected_any))
}

fn print_document(output: &mut Output, document: &QueryDocument) {
    let key = document.key.as_deref().unwrap_or_default();
    if output.is_json() {
        let mut object = key_fields(Some(key));
        add_fingerprint(&mut object, document.fingerprint);
        add_sketch(&mut object, document.sketch.as_ref());
        output.print_json(&Value::Object(object));
        return;
    }
    let digits = match document.fingerprint {
        Some(fingerprint) => fingerprint.to_string(),
        None => "too short       ".to_owned(),
    };
    output.print_line(&format!("{digits}\t{}", printable(key)));
}

/// Prints the distance of two fingerprints.
pub(super) fn distance(arguments: &DistanceArguments, output: &mut Output) -> CommandResult {
    let distance = arguments.a.distance(arguments.b);
    output.print_record(&json!({"distance": distance}), &distance.to_string());
    Ok(Answer::Yes)
}
