//! `simdb audit`: proves of a cleaned corpus that no two of its records are near, and that each removed record is near
//! to the survivor that it names.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{BoundArguments, Given as _, Reading, ensure_read_once};
use super::commands::{Command, version};
use super::console::Console;
use super::dedup::Steps;
use super::escaping::{path_text, printable};
use super::output::{Output, add_name, name_fields};
use super::units::told_sketches;
use crate::dedup::{
    Audit, AuditFault, AuditReport, AuditVerdict, DedupEvent, FaultKind, InputRecords, KeptPair,
    ListedRecord,
};
use crate::plural::counted;
use crate::{Near, Scheme, SketchSize, Survivor};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The cleaned corpus: what `dedup --output` has written
    #[arg(required = true, value_name = "CLEAN")]
    clean: Vec<PathBuf>,

    /// The list of the removed records: what `dedup --removed` has written, also packed with gzip or zstd
    #[arg(long, value_name = "FILE")]
    removed: PathBuf,

    /// An input of the cleaning; name all inputs to find lost records too
    ///
    /// May be given several times. Without it, only those inputs are read that the list names
    #[arg(long, value_name = "INPUT")]
    input: Vec<PathBuf>,

    /// The directory at which relative paths of inputs begin, also those in the list
    ///
    /// [default: the current directory]
    #[arg(long, value_name = "DIR")]
    inputs_in: Option<PathBuf>,

    /// The database of the cleaning, if it had one
    #[arg(long, value_name = "DB")]
    database: Option<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    bounds: BoundArguments,

    /// How fingerprints are made, or the scheme of those in the inputs
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    /// The size of the sketches, in bytes
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,

    /// How the cleaning chose survivors, if that was told it
    #[arg(long, value_name = "ORDER", value_enum, value_delimiter = ',')]
    survivor: Vec<Survivor>,
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        ensure_read_once(self.clean.iter().chain([&self.removed]).chain(&self.input))?;
        let mut steps = Steps::new(output.console());
        let report = self.audit(output.console()).run(|event| {
            if let DedupEvent::Progress { step, done, all } = event {
                steps.show(step, done, all);
            }
        });
        drop(steps);
        let report = report?;
        match output.is_json() {
            true => output.print_json(&self.object(&report)),
            false => output.print_lines(&self.page(&report)),
        }
        Ok(match report.verdict() {
            AuditVerdict::Proven => Answer::Yes,
            AuditVerdict::Refuted => Answer::No,
            _ => Answer::CouldNotTell,
        })
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some("ended before all was looked at, so nothing is proven")
    }
}

impl Arguments {
    fn audit(&self, console: &Console) -> Audit {
        let console = console.clone();
        let mut audit = Audit::new(&self.clean, &self.removed)
            .options(self.reading.options())
            .near(Near::from(&self.bounds))
            .inputs(&self.input)
            .stop_when(move || console.is_ended());
        if !self.survivor.is_empty() {
            audit = audit.survivor(self.survivor.iter().copied());
        }
        audit
            .given(self.inputs_in.as_ref(), Audit::inputs_in)
            .given(self.database.as_ref(), Audit::database)
            .given(self.scheme, Audit::scheme)
            .given(self.sketch, Audit::sketch_size)
    }

    fn page(&self, report: &AuditReport) -> String {
        let paths = self.clean.iter().chain([&self.removed]);
        let mut paths = paths.map(|path| path_text(path));
        let clean = paths.next().unwrap_or_default();
        let more = match self.clean.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let list = paths.next_back().unwrap_or_default();
        let mut lines = vec![
            format!("Audit of {clean}{more} with {list}, by simdb {}", version()),
            format!(
                "Near means: {}. Scheme {}, {}. The search for near records is exact within these limits.",
                limits(report),
                report.scheme,
                told_sketches(report.sketch_size),
            ),
        ];
        add_kept(report, &mut lines);
        add_removed(report, &mut lines);
        add_inputs(report, &mut lines);
        lines.push(verdict(report).to_owned());
        lines.join("\n")
    }

    fn object(&self, report: &AuditReport) -> Value {
        let clean: Vec<Value> = self
            .clean
            .iter()
            .map(|path| name_fields("input", path.as_os_str().as_encoded_bytes()))
            .collect();
        let removed = name_fields("input", self.removed.as_os_str().as_encoded_bytes());
        let proven = match report.verdict() {
            AuditVerdict::Proven => Some(true),
            AuditVerdict::Refuted => Some(false),
            _ => None,
        };
        json!({
            "proven": proven,
            "simdb": version(),
            "clean": clean,
            "removed_list": removed,
            "max_distance": report.max_distance,
            "min_similarity": report.min_similarity.unwrap_or(0.0),
            "scheme": report.scheme.name(),
            "sketch_bytes": report.sketch_size.bytes(),
            "kept": report.kept,
            "kept_too_short": report.kept_too_short,
            "kept_unjudged": report.kept_unjudged,
            "near_pairs": report.near_pairs,
            "near": report.near.iter().map(pair_object).collect::<Vec<_>>(),
            "removed": report.removed,
            "unchecked": report.unchecked,
            "greatest_distance": report.greatest_distance,
            "least_similarity": report.least_similarity.map(rounded),
            "faults": report.faults,
            "faulty": report.faulty.iter().map(fault_object).collect::<Vec<_>>(),
            "inputs": report.inputs.as_ref().map(inputs_object),
            "seconds": report.elapsed.as_secs_f64(),
        })
    }
}

fn add_kept(report: &AuditReport, lines: &mut Vec<String>) {
    let kept = report.kept;
    let found = match report.near_pairs {
        0 => "no two are near to each other".to_owned(),
        pairs => format!("near to each other: {}", counted(pairs, "pair")),
    };
    let mut line = format!("{}: {found}.", counted(kept, "kept record"));
    if report.kept_too_short > 0 {
        line += &format!(
            " Too short to judge, and near only to the same text: {}.",
            report.kept_too_short
        );
    }
    if report.kept_unjudged > 0 {
        line += &format!(
            " Not judged, so nothing is said of them: {}.",
            report.kept_unjudged
        );
    }
    lines.push(line);
    for pair in &report.near {
        lines.push(format!(
            "    {} is near to {} ({})",
            place(&pair.a),
            place(&pair.b),
            nearness(pair.distance, pair.similarity)
        ));
    }
}

fn add_removed(report: &AuditReport, lines: &mut Vec<String>) {
    let removed = report.removed;
    let checked = removed - report.unchecked;
    let found = match (checked, report.faults) {
        (0, 0) => "none was looked at".to_owned(),
        (_, 0) => format!(
            "each is near to the survivor that it names, as the list says ({}), and that is among the kept records",
            bounds(report)
        ),
        (_, faults) => format!("in {faults} of them something is not as the list says"),
    };
    if removed == 0 {
        lines.push("0 removed records.".to_owned());
    } else {
        lines.push(format!("{}: {found}.", counted(checked, "removed record")));
    }
    for fault in &report.faulty {
        lines.push(format!("    line {}: {}", fault.line, fault_line(fault)));
    }
    if report.unchecked > 0 {
        lines.push(format!(
            "{} NOT looked at: the survivors are documents of a database, which `--database` names.",
            counted(report.unchecked, "removed record")
        ));
    }
}

/// Says what came of the records of the inputs.
fn add_inputs(report: &AuditReport, lines: &mut Vec<String>) {
    let Some(inputs) = &report.inputs else {
        lines.push(
            "It was not checked whether a record of the inputs was lost: for that, name all inputs by `--input`."
                .to_owned(),
        );
        return;
    };
    let records = counted(inputs.records, "record");
    let unjudged = inputs.unjudged;
    if inputs.lost == 0 && inputs.foreign == 0 && report.unjudged_agree() {
        let dropped = match report.kept_unjudged {
            0 if unjudged > 0 => format!(", or one of {unjudged} that cannot be judged"),
            _ => String::new(),
        };
        lines.push(format!(
            "{records} in the inputs: each is either kept, with its key and its text, or removed{dropped}."
        ));
        return;
    }
    lines.push(format!(
        "{records} in the inputs: neither kept nor removed: {}; kept, but in no input or among the removed: {}.",
        inputs.lost, inputs.foreign
    ));
    for record in &inputs.lost_records {
        lines.push(format!("    {} is neither kept nor removed", place(record)));
    }
    for record in &inputs.foreign_records {
        lines.push(format!("    {} should not be there", place(record)));
    }
    if !report.unjudged_agree() {
        lines.push(format!(
            "    kept of {} that cannot be judged: {}",
            counted(unjudged, "record"),
            report.kept_unjudged
        ));
    }
}

fn verdict(report: &AuditReport) -> &'static str {
    match report.verdict() {
        AuditVerdict::Proven => "Proven.",
        AuditVerdict::Refuted => "NOT proven: there are counter-examples.",
        _ => {
            "NOT proven: not all records could be looked at, or none of those that were kept could be judged."
        }
    }
}

/// What is near.
fn limits(report: &AuditReport) -> String {
    let distance = format!(
        "fingerprints differ in at most {}",
        counted(report.max_distance, "bit")
    );
    match report.min_similarity {
        Some(least) => format!("{distance}, and the estimated similarity is {least} or more"),
        None => distance,
    }
}

/// How near the removed records are to their survivors.
fn bounds(report: &AuditReport) -> String {
    let distance = format!("distance {} or less", report.greatest_distance);
    match report.least_similarity {
        Some(similarity) => format!("{distance}, similarity {similarity:.2} or more"),
        None => distance,
    }
}

fn nearness(distance: u32, similarity: Option<f64>) -> String {
    match similarity {
        Some(similarity) => format!("distance {distance}, similarity {similarity:.2}"),
        None => format!("distance {distance}"),
    }
}

fn fault_line(fault: &AuditFault) -> String {
    let told = &fault.told;
    let record = place(&told.record);
    let survivor = place(&told.survivor);
    let found = match fault.found {
        Some((distance, similarity)) => nearness(distance, similarity),
        None => "the two cannot be compared".to_owned(),
    };
    match fault.kind {
        FaultKind::NoRecord => {
            format!("{record} is no record that can be judged, or has another key")
        }
        FaultKind::NoSurvivor => format!(
            "the survivor of {record}, {survivor}, is no record that can be judged, or has another key"
        ),
        FaultKind::NotNear => format!("{record} is not near to its survivor {survivor} ({found})"),
        FaultKind::NotAsTold => format!(
            "{record} and its survivor {survivor} have {found}, and the list says {}",
            nearness(told.distance, told.similarity)
        ),
        FaultKind::SurvivorNotKept => {
            format!("the survivor of {record}, {survivor}, is not among the kept records")
        }
        FaultKind::ListedTwice => format!("{record} was listed before"),
    }
}

/// Where a record is, and its key.
fn place(record: &ListedRecord) -> String {
    let key = record.key.as_ref().map(|key| printable(key));
    match (&record.place, key) {
        (Some((input, number)), Some(key)) => format!("{}:{number} ({key})", printable(input)),
        (Some((input, number)), None) => format!("{}:{number}", printable(input)),
        (None, key) => key.unwrap_or_default().into_owned(),
    }
}

/// A similarity with as many digits as the estimate is worth.
fn rounded(similarity: f64) -> f64 {
    (similarity * 100.0).round() / 100.0
}

fn record_object(record: &ListedRecord) -> Value {
    let mut object = json!({});
    if let Some((input, number)) = &record.place {
        add_name(&mut object, "input", input);
        object["record"] = (*number).into();
    }
    if let Some(key) = &record.key {
        add_name(&mut object, "key", key);
    }
    object
}

fn pair_object(pair: &KeptPair) -> Value {
    json!({
        "a": record_object(&pair.a),
        "b": record_object(&pair.b),
        "distance": pair.distance,
        "similarity": pair.similarity.map(rounded),
    })
}

fn fault_object(fault: &AuditFault) -> Value {
    let mut object = record_object(&fault.told.record);
    object["fault"] = fault.kind.name().into();
    object["list_line"] = fault.line.into();
    object["survivor"] = record_object(&fault.told.survivor);
    object["told_distance"] = fault.told.distance.into();
    object["told_similarity"] = fault.told.similarity.into();
    let distance = fault.found.map(|(distance, _)| distance);
    let similarity = fault.found.and_then(|(_, similarity)| similarity);
    object["distance"] = distance.into();
    object["similarity"] = similarity.map(rounded).into();
    object
}

fn inputs_object(inputs: &InputRecords) -> Value {
    json!({
        "records": inputs.records,
        "unjudged": inputs.unjudged,
        "lost": inputs.lost,
        "lost_records": inputs.lost_records.iter().map(record_object).collect::<Vec<_>>(),
        "foreign": inputs.foreign,
        "foreign_records": inputs.foreign_records.iter().map(record_object).collect::<Vec<_>>(),
    })
}
