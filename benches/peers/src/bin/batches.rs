//! Batches from Rust, for comparison with those from Python: `python_index.py` runs this, and gives it the same
//! documents.
//!
//! Reads lines of a key, a tab, and a text (or the 16 digits of a fingerprint with `--fingerprints`), stores them in
//! batches of 10,000, and prints the seconds of the processor and the number of near-duplicates. Reading is left out.

use std::error::Error;
use std::fs;
use std::path::Path;

use simdb::{CreateOptions, Database, Document, Policy, Scheme};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let input = arguments
        .next()
        .ok_or("usage: batches LINES DATABASE [--fingerprints]")?;
    let path = arguments.next().ok_or("the database is missing")?;
    let scheme = match arguments.next().as_deref() {
        Some("--fingerprints") => Scheme::External,
        _ => Scheme::default(),
    };
    let lines = fs::read_to_string(input)?;
    let mut documents = Vec::new();
    for line in lines.lines() {
        documents.push(line.split_once('\t').ok_or("a line without a tab")?);
    }
    let begun = processor_seconds()?;
    let found = store(Path::new(&path), scheme, &documents)?;
    println!("{} {found}", processor_seconds()? - begun);
    Ok(())
}

fn store(path: &Path, scheme: Scheme, documents: &[(&str, &str)]) -> Result<usize, Box<dyn Error>> {
    let database = Database::create(path, &CreateOptions::new().scheme(scheme))?;
    let fingerprinter = database.fingerprinter().ok();
    let mut found = 0;
    for batch in documents.chunks(10_000) {
        let mut ready = Vec::with_capacity(batch.len());
        if let Some(fingerprinter) = &fingerprinter {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
            let judged = fingerprinter.fingerprints_and_sketches(&texts);
            for ((key, _), judged) in batch.iter().zip(judged) {
                ready.push(match judged {
                    Some((fingerprint, sketch)) => {
                        Document::new(*key, fingerprint).with_sketch(sketch)
                    }
                    None => Document::new(*key, None),
                });
            }
        } else {
            for (key, digits) in batch {
                ready.push(Document::new(*key, digits.parse::<simdb::Fingerprint>()?));
            }
        }
        let mut txn = database.begin_write()?;
        let verdicts = txn.insert_batch_if_new(&ready, &Policy::skip())?;
        txn.commit()?;
        found += verdicts
            .iter()
            .filter(|verdict| verdict.is_duplicate())
            .count();
    }
    database.close()?;
    Ok(found)
}

/// The seconds of the processor that this process has taken, on all cores: user and system, in hundredths.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let told = fs::read_to_string("/proc/self/stat")?;
    let behind_name = told.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<&str> = behind_name.split(' ').collect();
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / 100.0)
}
