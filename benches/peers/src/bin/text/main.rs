//! Texts to fingerprints, by simdb and by gaoya. `text.py` and `quality.py` beside this package run it.
//!
//! `visible` prints the text of each document as simdb reads it, so that all peers describe the same texts.
//! `describe` prints what a peer makes of each text, and `time` measures how long that takes on one thread.

mod documents;
mod peers;

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use serde_json::json;

use documents::Document;
use peers::{Describe, Peer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Make fingerprints of texts, by simdb and by gaoya")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the key, the group and the visible text of each document, as JSON Lines
    Visible {
        /// JSON Lines, compressed with gzip or not
        documents: PathBuf,
        /// A field that is read as HTML, whatever its name
        #[arg(long)]
        html_field: Option<String>,
    },
    /// Print the descriptions of all texts, one after the other, each of as many bytes
    Describe {
        peer: Peer,
        /// What `visible` printed
        texts: PathBuf,
    },
    /// Print the seconds that each pass over all texts takes, as one JSON object
    Time {
        peer: Peer,
        /// What `visible` printed
        texts: PathBuf,
        #[arg(long, default_value_t = 1)]
        passes: usize,
    },
}

fn run() -> Result<()> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    match Arguments::parse().command {
        Command::Visible {
            documents,
            html_field,
        } => {
            for document in documents::read(&documents, html_field.as_deref())? {
                let Document { key, group, text } = document;
                writeln!(
                    output,
                    "{}",
                    json!({ "id": key, "group": group, "text": text })
                )?;
            }
        }
        Command::Describe { peer, texts } => {
            let describe = peer.describe()?;
            let mut length = None;
            for document in documents::read(&texts, None)? {
                let description = describe(&document.text);
                if *length.get_or_insert(description.len()) != description.len() {
                    return Err(format!("{:?} is too short to be described", document.key).into());
                }
                output.write_all(&description)?;
            }
        }
        Command::Time {
            peer,
            texts,
            passes,
        } => {
            let texts: Vec<String> = documents::read(&texts, None)?
                .into_iter()
                .map(|it| it.text)
                .collect();
            let seconds = timed(&peer.describe()?, &texts, passes)?;
            let bytes: usize = texts.iter().map(String::len).sum();
            writeln!(
                output,
                "{}",
                json!({ "version": peer.version(), "documents": texts.len(), "bytes": bytes, "seconds": seconds })
            )?;
        }
    }
    Ok(output.flush()?)
}

/// The seconds of each pass. What each pass makes must be equal to what an untimed one made before it.
fn timed(describe: &Describe, texts: &[String], passes: usize) -> Result<Vec<f64>> {
    let described =
        || -> Vec<Vec<u8>> { texts.iter().map(|text| describe(black_box(text))).collect() };
    let expected = described();
    let mut seconds = Vec::new();
    for _ in 0..passes {
        let begin = Instant::now();
        let found = described();
        seconds.push(begin.elapsed().as_secs_f64());
        if found != expected {
            return Err("the same text has two descriptions".into());
        }
    }
    Ok(seconds)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("text: {error}");
            ExitCode::from(2)
        }
    }
}
