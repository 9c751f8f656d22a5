//! `simdb fingerprint` and `simdb distance`: the fingerprints of texts, and in how many bits two differ.

use std::path::PathBuf;

use crate::ingest::{Fingerprinting, Record, Records, Rejected};
use crate::{Fingerprint, Fingerprinter, Scheme, Sketch, SketchSize, Unit};
use serde_json::json;

use super::answer::{Answer, CommandResult};
use super::arguments::Reading;
use super::commands::Command;
use super::escaping::printable;
use super::lists::Lists;
use super::output::{Output, add_fingerprint, add_sketch, key_fields};
use super::rejections::Rejections;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files to read, in any input format; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// How fingerprints are made [default: minwise-1; for paragraphs and sentences minwise-short-1]
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    /// The size of the sketches that `--json` prints, in bytes [default: 16]
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,
}

#[derive(clap::Args)]
pub(super) struct DistanceArguments {
    /// A fingerprint: 16 hexadecimal digits
    #[arg(value_name = "HEX")]
    a: Fingerprint,

    /// Another fingerprint
    #[arg(value_name = "HEX")]
    b: Fingerprint,
}

impl Command for Arguments {
    /// Prints the fingerprint of each document, a tab and its key, in the order of the checksum programs. What
    /// `--input-format fingerprints` reads has the key first.
    fn run(&self, output: &mut Output) -> CommandResult {
        let unit = self.reading.unit();
        let scheme = self.scheme.unwrap_or(unit.suitable_scheme());
        Fingerprinter::new(scheme)?;
        if self.sketch.is_some() && !output.is_json() {
            return Err("--sketch is for `--json`, which prints sketches".into());
        }
        let size = self.sketch.unwrap_or_default();
        let rule = Fingerprinting::new(scheme, Some(scheme))?.sketch_size(size);
        let mut records = Records::open(&self.files, self.reading.options().only_content())?;
        let read = records.progress();
        let progress = output.console().progress_of("bytes");
        let lists = Lists::new(output.console());
        let mut rejections = Rejections::new(output.console());
        let mut rejected_any = false;
        while !output.is_closed() {
            let chunk = records.next_chunk(|record| {
                lists.look_at(&record);
                described(record, rule, unit)
            })?;
            if chunk.is_empty() {
                break;
            }
            for record in chunk {
                match record {
                    Ok(units) => {
                        for unit in &units {
                            print_unit(output, unit);
                        }
                    }
                    Err(rejected) => {
                        rejected_any = true;
                        rejections.show(&rejected);
                    }
                }
            }
            output.flush()?;
            _ = progress.update(read.bytes_read(), read.bytes_total());
        }
        lists.finish();
        rejections.finish()?;
        Ok(Answer::yes_unless(rejected_any))
    }
}

impl Command for DistanceArguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        let distance = self.a.distance(self.b);
        output.print_record(&json!({"distance": distance}), &distance.to_string());
        Ok(Answer::Yes)
    }
}

/// The key of a unit, with its fingerprint and its sketch, unless its text is too short for them.
type Described = (Vec<u8>, Option<(Fingerprint, Option<Sketch>)>);

/// The units of a record. If it is cut into such, those that are not too short.
fn described(record: Record, rule: Fingerprinting, unit: Unit) -> Result<Vec<Described>, Rejected> {
    let mut all = Vec::new();
    for record in record.into_units()? {
        let key = record.key().unwrap_or_default().to_vec();
        let made = record.fingerprint_and_sketch(rule)?;
        if unit == Unit::Document || made.is_some() {
            all.push((key, made));
        }
    }
    Ok(all)
}

fn print_unit(output: &mut Output, (key, made): &Described) {
    let fingerprint = made.map(|(fingerprint, _)| fingerprint);
    if output.is_json() {
        let mut object = key_fields(Some(key));
        add_fingerprint(&mut object, fingerprint);
        let sketch = made.as_ref().and_then(|(_, sketch)| sketch.as_ref());
        add_sketch(&mut object, sketch);
        output.print_json(&object);
        return;
    }
    let digits = match fingerprint {
        Some(fingerprint) => fingerprint.to_string(),
        None => "too short       ".to_owned(),
    };
    output.print_line(&format!("{digits}\t{}", printable(key)));
}
