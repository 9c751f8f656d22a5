//! `simdb eval`: measures methods on labelled documents.

use std::path::{Path, PathBuf};

use crate::eval::{Corpus, Judgements, Labels, MethodName, Settings, Yardstick, plot};
use crate::ingest::Records;

use super::answer::{Answer, CommandResult};
use super::arguments::Reading;
use super::console::Console;
use super::evaluation::{print_bests, print_curve, print_yardstick};
use super::output::Output;
use super::rejections;

#[derive(clap::Args)]
#[command(
    after_help = "Methods: see docs/guide.md. F is the number of false matches in a million pairs of \
                        different groups whose 4-token shingles have a Jaccard similarity below 0.5."
)]
pub(super) struct Arguments {
    /// Documents, in any input format; `-` is standard input
    #[arg(value_name = "DOCUMENTS", required = true)]
    documents: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Labelled pairs, tab-separated (`-` is standard input): `id_a`, `id_b`, `label` and `j4` by a header, or
    /// two keys and a label. Without them, all pairs count by their exact Jaccard similarity
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,

    /// Labels that mean the same, if people have judged [default: same,1,yes,true,duplicate]
    #[arg(long, value_name = "LABEL,...", value_delimiter = ',')]
    same: Vec<String>,

    /// Labels that mean different [default: different,0,no,false,distinct]
    #[arg(long, value_name = "LABEL,...", value_delimiter = ',')]
    different: Vec<String>,

    /// The methods to measure, or `all`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_methods)]
    #[arg(default_value = "simhash-1,minwise-1,minwise-1+sketch,exact")]
    method: Vec<Methods>,

    /// The largest distance of fingerprints
    #[arg(long, value_name = "BITS", default_value_t = Settings::default().max_distance,
          value_parser = clap::value_parser!(u32).range(0..=64))]
    max_distance: u32,

    /// The largest distance of candidates whose sketches are compared [default: 10 for simhash, 8 for others]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=64))]
    candidate_distance: Option<u32>,

    /// The functions of minwise-hash, and the hashes that bottom-k keeps
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
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The methods that a name stands for.
#[derive(Clone)]
struct Methods(Vec<MethodName>);

fn parse_methods(name: &str) -> Result<Methods, String> {
    match name {
        "all" => Ok(Methods(MethodName::all().collect())),
        name => name.parse().map(|method| Methods(vec![method])),
    }
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    // Before the work, which can take minutes.
    arguments.plot.as_deref().map_or(Ok(()), check_folder)?;
    let console = output.console().clone();
    let mut rejected = 0u64;
    let records = Records::open(
        &arguments.documents,
        arguments.reading.options().only_content(),
    )?;
    let corpus = Corpus::read(records, |record| {
        rejected += 1;
        console.complain(&rejections::message(&record));
    })?;
    if corpus.repeated() > 0 {
        console.remark(&format!(
            "{} documents have the key of an earlier one, and are left out",
            corpus.repeated()
        ));
    }
    let labels = match &arguments.pairs {
        Some(path) => Labels::read(path, &corpus, &arguments.judgements())?,
        None => Labels::default(),
    };
    warn_of_labels(&labels, &console);
    let yardstick = Yardstick::new(&corpus, &labels);
    print_yardstick(output, &corpus, &yardstick);
    let settings = Settings {
        max_distance: arguments.max_distance,
        candidate_distance: arguments.candidate_distance,
        functions: arguments.functions,
        bits: arguments.bits,
        lexica: arguments.lexica,
    };
    let mut curves = Vec::new();
    let mut names: Vec<MethodName> = Vec::new();
    for name in arguments.method.iter().flat_map(|it| it.0.iter().copied()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let curve = yardstick.measure(name, &settings);
        print_curve(output, &curve);
        output.flush()?;
        curves.push(curve);
    }
    print_bests(output, &curves);
    if let Some(path) = &arguments.plot {
        let picture = plot(&curves, &format!("{} documents", corpus.len()))?;
        std::fs::write(path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(if rejected > 0 {
        Answer::CouldNotTell
    } else {
        Answer::Yes
    })
}

/// Whether a file can be put there, as far as that can be told without doing it.
fn check_folder(file: &Path) -> Result<(), String> {
    let folder = file
        .parent()
        .filter(|it| !it.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match folder.is_dir() {
        true => Ok(()),
        false => Err(format!(
            "{}: there is no folder {}",
            file.display(),
            folder.display()
        )),
    }
}

impl Arguments {
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
}

fn warn_of_labels(labels: &Labels, console: &Console) {
    if let Some((line, key)) = labels.unknown_keys().first() {
        let count = labels.unknown_keys().len();
        console.remark(&format!(
            "{count} pairs name a document that is not there, and are left out; the first is {key:?} in line {line}"
        ));
    }
}
