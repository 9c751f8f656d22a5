//! `simdb eval`: measures methods on labelled documents. Prints the yardstick, a table for each method, the best of
//! each.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{Reading, ensure_read_once, named_file};
use super::commands::Command;
use super::console::Console;
use super::output::Output;
use super::output_files::{WholeFile, are_same_file};
use super::rejections::Rejections;
use crate::Fingerprint;
use crate::eval::{
    Band, Corpus, Curve, EstimateError, Judgements, Labels, MethodName, Point, Settings, Yardstick,
    plot, plot_over_distance,
};
use crate::ingest::Records;
use crate::plural::counted;

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("pictures").multiple(true),
    after_help = "To choose a distance by looking, with pairs that you have labelled:\n  \
                        simdb eval pages.jsonl.gz --pairs labels.tsv --plot-distance choice.svg\n\n\
                        Methods: see docs/corpora.md. F is the number of false matches in a million pairs of \
                        different groups whose 4-token shingles have a Jaccard similarity below 0.5."
)]
pub(super) struct Arguments {
    /// Documents, in any input format; `-` is standard input
    #[arg(value_name = "DOCUMENTS", required = true)]
    documents: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Labelled pairs, tab-separated; `-` is standard input
    ///
    /// With a header `id_a`, `id_b`, `label` and `j4`, or two keys and a label. Without labelled pairs, all pairs are
    /// judged by their exact Jaccard similarity
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,

    /// Labels of pairs that are the same [default: same,1,yes,true,duplicate]
    #[arg(
        long,
        value_name = "LABEL,...",
        value_delimiter = ',',
        requires = "pairs"
    )]
    same: Vec<String>,

    /// Labels of pairs that are different [default: different,0,no,false,distinct]
    #[arg(
        long,
        value_name = "LABEL,...",
        value_delimiter = ',',
        requires = "pairs"
    )]
    different: Vec<String>,

    /// The methods to measure, or `all` [default: simhash-1,minwise-1,minwise-1+sketch,exact]
    ///
    /// `minwise-1+sketch@0.7` varies the distance, and takes only pairs with a similarity of 0.7 or more by their
    /// sketches. With `--plot-distance`, the default is minwise-1 and its sketches from 0.5 to 0.9
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_methods)]
    method: Vec<Methods>,

    /// The largest distance of fingerprints
    #[arg(long, value_name = "BITS", default_value_t = Settings::default().max_distance,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(Fingerprint::BITS)))]
    max_distance: u32,

    /// The largest distance at which sketches are compared [default: 10 for simhash, otherwise 8]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=i64::from(Fingerprint::BITS)))]
    candidate_distance: Option<u32>,

    /// The functions of minwise-hash, and the hashes of bottom-k
    #[arg(long, value_name = "K", default_value_t = Settings::default().functions,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    functions: u32,

    /// The bits of random-projection
    #[arg(long, value_name = "BITS", default_value_t = Settings::default().bits,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    bits: u32,

    /// The random lexica of i-match-k
    #[arg(long, value_name = "K", default_value_t = Settings::default().lexica,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    lexica: u32,

    /// Draw the curves into this file, an SVG picture
    #[arg(long, value_name = "FILE", value_parser = named_file(), group = "pictures")]
    plot: Option<PathBuf>,

    /// Draw recall and false matches over the distance into this SVG
    ///
    /// This picture shows which max distance and which least similarity find the pairs that are labelled the same, and
    /// how many others they match. Without `--pairs`, it shows the pairs of an exact Jaccard similarity of 0.8 or more
    #[arg(long, value_name = "FILE", value_parser = named_file(), group = "pictures")]
    plot_distance: Option<PathBuf>,

    /// Replace pictures that exist
    #[arg(long, requires = "pictures")]
    replace: bool,
}

/// The methods that are measured if none is named, and those for a choice of a distance.
const METHODS: [&str; 4] = ["simhash-1", "minwise-1", "minwise-1+sketch", "exact"];
const METHODS_BY_DISTANCE: [&str; 6] = [
    "minwise-1",
    "minwise-1+sketch@0.5",
    "minwise-1+sketch@0.6",
    "minwise-1+sketch@0.7",
    "minwise-1+sketch@0.8",
    "minwise-1+sketch@0.9",
];

#[derive(Clone)]
struct Methods(Vec<MethodName>);

fn parse_methods(name: &str) -> Result<Methods, String> {
    match name {
        "all" => Ok(Methods(MethodName::all().collect())),
        name => name.parse().map(|method| Methods(vec![method])),
    }
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        let console = output.console().clone();
        ensure_read_once(self.documents.iter().chain(&self.pairs))?;
        // Before the work, which can take minutes.
        let picture = self.picture(self.plot.as_ref(), &console)?;
        let picture_of_distance = self.picture(self.plot_distance.as_ref(), &console)?;
        if let (Some(one), Some(other)) = (&picture, &picture_of_distance)
            && are_same_file(&one.place, &other.place)
        {
            let path = one.place.display();
            return Err(format!("{path}: two pictures cannot have the same name").into());
        }
        let methods = self.methods()?;
        let any_by_distance = methods.iter().any(|method| method.is_by_distance());
        if picture_of_distance.is_some() && !any_by_distance {
            return Err(
                "--plot-distance: no method has distances as thresholds, so there is nothing to plot: add one such as \
                 minwise-1 to `--method`"
                    .into(),
            );
        }
        let options = self.reading.options().only_content();
        let records = Records::open(&self.documents, options)?;
        let mut rejected = 0u64;
        let mut rejections = Rejections::new(&console);
        let corpus = Corpus::read(records, |record| {
            rejected += 1;
            rejections.show(&record);
        });
        rejections.finish()?;
        let corpus = corpus?;
        let repeated = corpus.repeated();
        if repeated > 0 {
            console.remark(&format!(
                "left out: {} with the key of an earlier one",
                counted(repeated, "document")
            ));
        }
        let labels = match &self.pairs {
            Some(path) => Labels::read(path, &corpus, &self.judgements())?,
            None => Labels::default(),
        };
        warn_of_labels(&labels, &console);

        let yardstick = Yardstick::new(&corpus, &labels);
        print_yardstick(output, &corpus, &yardstick);
        let settings = Settings {
            max_distance: self.max_distance,
            candidate_distance: self.candidate_distance,
            functions: self.functions,
            bits: self.bits,
            lexica: self.lexica,
        };
        let mut curves = Vec::new();
        for name in methods {
            let curve = yardstick.measure(name, &settings);
            print_curve(output, &curve);
            output.flush()?;
            curves.push(curve);
        }
        if !output.is_json() {
            print_bests(output, &curves);
        }
        let title = counted(corpus.len(), "document");
        let mut pictures = Vec::new();
        if let Some(picture) = &picture {
            pictures.push((picture, plot(&curves, &title)?));
        }
        if let Some(picture) = &picture_of_distance {
            let title = format!("Recall and false matches over the distance: {title}");
            pictures.push((picture, plot_over_distance(&curves, &title)?));
        }
        WholeFile::write_together(&pictures)?;
        Ok(Answer::yes_unless(rejected > 0))
    }
}

impl Arguments {
    /// The file for a picture. It is no input, and can be written.
    fn picture(
        &self,
        path: Option<&PathBuf>,
        console: &Console,
    ) -> Result<Option<WholeFile>, Failure> {
        let Some(path) = path else {
            return Ok(None);
        };
        let picture = WholeFile::new("picture", path, self.replace, console);
        picture.ensure_apart(None, self.documents.iter().chain(&self.pairs), console)?;
        picture.ensure_writable(None)?;
        Ok(Some(picture))
    }

    fn judgements(&self) -> Judgements {
        let mut judgements = Judgements::default();
        if !self.same.is_empty() {
            judgements.same.clone_from(&self.same);
        }
        if !self.different.is_empty() {
            judgements.different.clone_from(&self.different);
        }
        judgements
    }

    /// The methods to measure, each once.
    fn methods(&self) -> Result<Vec<MethodName>, Failure> {
        let mut names = Vec::new();
        for &name in self.method.iter().flat_map(|methods| &methods.0) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if !names.is_empty() {
            return Ok(names);
        }
        let defaults = match self.plot_distance {
            Some(_) => &METHODS_BY_DISTANCE[..],
            None => &METHODS,
        };
        for name in defaults {
            names.push(name.parse()?);
        }
        Ok(names)
    }
}

fn warn_of_labels(labels: &Labels, console: &Console) {
    if let Some((line, key)) = labels.unknown_keys().first() {
        let count = labels.unknown_keys().len();
        console.remark(&format!(
            "left out: {} with a document that is not there; the first is {key:?} in line {line}",
            counted(count, "pair")
        ));
    }
    if labels.unjudged() > 0 {
        console.remark(&format!(
            "not judged: {} with a label that is neither one of same nor one of different",
            counted(labels.unjudged(), "pair")
        ));
    }
}

const BANDS: [&str; 4] = [">=0.9", "0.8-0.9", "0.7-0.8", "0.5-0.7"];

fn print_yardstick(output: &mut Output, corpus: &Corpus, yardstick: &Yardstick<'_>) {
    let documents = corpus.len();
    let bands = yardstick.bands();
    let unrelated = yardstick.unrelated();
    let mut line = format!(
        "{}, {}; ",
        counted(documents, "document"),
        counted(unrelated, "unrelated pair")
    );
    line += "pairs by Jaccard similarity: ";
    for (index, (name, count)) in BANDS.iter().zip(bands).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        line += &format!("{comma}{name}: {count}");
    }
    let object = json!({"documents": documents, "pairs": corpus.pairs(), "band_pairs": bands,
                        "unrelated_pairs": unrelated});
    output.print_record(&object, &line);
}

/// A table of a method, or an object for each of its points.
fn print_curve(output: &mut Output, curve: &Curve) {
    if output.is_json() {
        for point in &curve.points {
            output.print_json(&point_object(curve, point));
        }
        return;
    }
    let Curve {
        method,
        bytes,
        describe_us,
        pair_ns,
        ..
    } = curve;
    output.print_line("");
    output.print_line(&format!(
        "{method}: {bytes:.0} bytes a document, {describe_us:.0} us to describe one, {pair_ns:.1} ns a pair"
    ));
    if let Some(EstimateError { pairs, rmse }) = curve.estimate_error {
        output.print_line(&format!(
            "{:>10} {rmse:.3} is the RMSE of the estimated similarity over {}",
            "",
            counted(pairs, "pair")
        ));
    }
    let mut header = format!("{:>10}", curve.threshold_name());
    for band in BANDS {
        header += &format!("{band:>9}");
    }
    header += &format!("{:>10}", "F");
    if curve.points.iter().any(|point| point.verdicts.is_some()) {
        header += &format!("{:>11}{:>8}{:>7}", "precision", "recall", "F1");
    }
    output.print_line(&header);
    for point in &curve.points {
        output.print_line(&point_line(point));
    }
}

fn point_line(point: &Point) -> String {
    let mut line = format!("{:>10}", threshold_text(point));
    for band in &point.bands {
        line += &format!("{:>9}", percent_text(band.recall()));
    }
    line += &format!("{:>10}", rate_text(point.false_per_million()));
    if let Some(verdicts) = point.verdicts {
        let precision = percent_text(verdicts.precision());
        let recall = percent_text(verdicts.same.recall());
        let f1 = f1_text(verdicts.f1());
        line += &format!("{precision:>11}{recall:>8}{f1:>7}");
    }
    line
}

fn point_object(curve: &Curve, point: &Point) -> Value {
    let mut object = json!({
        "method": curve.method,
        "bytes": curve.bytes,
        "describe_us": curve.describe_us,
        "pair_ns": curve.pair_ns,
        "threshold": point.threshold,
        "threshold_name": curve.threshold_name(),
        "band_recall": point.bands.each_ref().map(Band::recall),
        "false_matches": point.unrelated.found,
        "false_per_million": point.false_per_million(),
    });
    if let Some(EstimateError { pairs, rmse }) = curve.estimate_error {
        object["rmse"] = rmse.into();
        object["rmse_pairs"] = pairs.into();
    }
    if let Some(verdicts) = point.verdicts {
        object["precision"] = verdicts.precision().into();
        object["recall"] = verdicts.same.recall().into();
        object["f1"] = verdicts.f1().into();
    }
    object
}

/// For each method, the point with the best F1 and the loosest one with at most one false match in a million.
/// JSON has the points already.
fn print_bests(output: &mut Output, curves: &[Curve]) {
    output.print_line("");
    output.print_line(&format!(
        "{:<25}{:>8}{:>9}{:>9}   at F <= 1:{:>10}{:>9}{:>9}{:>9}",
        "method", "bytes", "best F1", "at", "at", BANDS[0], BANDS[1], "F"
    ));
    for curve in curves {
        let (at, f1) = match curve.best_f1() {
            Some((point, f1)) => (threshold_text(point), f1_text(Some(f1))),
            None => ("-".to_owned(), f1_text(None)),
        };
        let mut line = format!("{:<25}{:>8.0}{f1:>9}{at:>9}", curve.method, curve.bytes);
        line += &match curve.at_one_false() {
            Some(point) => format!(
                "{:>24}{:>9}{:>9}{:>9}",
                threshold_text(point),
                percent_text(point.bands[0].recall()),
                percent_text(point.bands[1].recall()),
                rate_text(point.false_per_million())
            ),
            None => format!("{:>24}", "never"),
        };
        output.print_line(&line);
    }
}

fn threshold_text(point: &Point) -> String {
    ((point.threshold * 1e4).round() / 1e4).to_string()
}

fn percent_text(share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{:.1}%", 100.0 * share),
        None => "-".to_owned(),
    }
}

fn rate_text(rate: Option<f64>) -> String {
    match rate {
        Some(rate @ ..10.0) => format!("{rate:.2}"),
        Some(rate) => format!("{rate:.0}"),
        None => "-".to_owned(),
    }
}

fn f1_text(f1: Option<f64>) -> String {
    match f1 {
        Some(f1) => format!("{f1:.3}"),
        None => "-".to_owned(),
    }
}
