//! The durable store of sketchir as a process: `today_peers.py` runs it and tells it what to do.
//!
//! A command is a line with its name and a number, and so many lines behind it. The answer is a line of JSON.
//!
//!   add N      lines of a number, a tab and a text: stores them, and gives what is near to each
//!   find N     texts: gives what is near to each
//!   delete N   numbers: deletes these documents
//!   compact 0  merges all segments
//!
//! Documents that are added together are made durable together, and then each is searched for.

use std::error::Error;
use std::io::{BufRead, BufReader, Write, stdin, stdout};

use durability::FsDirectory;
use serde_json::{Value, json};
use sketchir::BlockingConfig;
use sketchir::store::UpdatableIndex;

/// The least estimate of a document that is near.
const SIMILARITY: f64 = 0.7;
/// Documents of a segment. Those that are in none yet are described anew for each search.
const SEGMENT: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: sketchir FOLDER")?;
    let config = BlockingConfig {
        num_hashes_per_band: 8,
        num_bands: 16,
        ngram_size: 4,
        char_ngrams: false,
    };
    let directory = FsDirectory::arc(folder)?;
    let mut index = UpdatableIndex::open(directory, SEGMENT, config)?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(command) = lines.next() {
        let command = command?;
        let (name, count) = command
            .split_once(' ')
            .ok_or("a command without a number")?;
        let mut given = Vec::new();
        for _ in 0..count.parse::<usize>()? {
            given.push(lines.next().ok_or("the input ends too early")??);
        }
        let answer = answered(&mut index, name, &given)?;
        println!("{answer}");
        stdout().flush()?;
    }
    index.checkpoint()?;
    Ok(())
}

fn answered(
    index: &mut UpdatableIndex,
    name: &str,
    given: &[String],
) -> Result<Value, Box<dyn Error>> {
    match name {
        "add" => {
            let mut documents = Vec::new();
            for line in given {
                let (number, text) = line.split_once('\t').ok_or("a line without a tab")?;
                documents.push((number.parse::<u32>()?, text.to_owned()));
            }
            index.extend(documents.iter().cloned())?;
            index.compact_tiers()?;
            let texts = documents.iter().map(|(_, text)| text.as_str());
            Ok(near(index, texts))
        }
        "find" => Ok(near(index, given.iter().map(String::as_str))),
        "delete" => {
            for number in given {
                index.delete(number.parse()?)?;
            }
            Ok(json!(given.len()))
        }
        "compact" => {
            index.compact()?;
            Ok(json!(0))
        }
        other => Err(format!("there is no command {other}").into()),
    }
}

/// The documents that are near to each text.
fn near<'a>(index: &UpdatableIndex, texts: impl Iterator<Item = &'a str>) -> Value {
    let mut all = Vec::new();
    for text in texts {
        let mut found = index.near_duplicates_with_similarity(text);
        found.retain(|(_, similarity)| *similarity >= SIMILARITY);
        let numbers = found.iter().map(|(number, _)| *number);
        all.push(json!(numbers.collect::<Vec<_>>()));
    }
    Value::Array(all)
}
