//! A million real fingerprints through the command line, compared with answers found by brute force. Runs
//! only if SIMDB_DATA names the data folder when the tests are built.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::support::{Folder, TestResult, done, fingerprints, gunzip, real_data, rows, run};

#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn every_count_and_every_pair_of_the_real_fingerprints_is_found() -> TestResult {
    let data = real_data()?;
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    let stored = fingerprints(&data.join("fp-real/fp.u64le"))?;
    let mut lines = String::new();
    for (i, bits) in stored.iter().enumerate() {
        writeln!(lines, "{i}\t{bits:016x}")?;
    }
    folder.file("fp.tsv", lines)?;

    // Ingestion links each document to all near ones before it. Together these are all pairs.
    let limit = "100000";
    let ran = folder
        .run(&format!(
            "ingest d.simdb fp.tsv --input-format fingerprints --json --limit {limit}"
        ))?
        .expect(0);
    let mut pairs = BTreeSet::new();
    for line in ran.json()? {
        let Some(key) = line["key"].as_str() else {
            assert_eq!(line["inserted"], stored.len() as u64);
            continue;
        };
        for found in line["matches"].as_array().into_iter().flatten() {
            let other: u32 = found["key"].as_str().unwrap_or_default().parse()?;
            pairs.insert((
                other,
                key.parse::<u32>()?,
                found["distance"].as_u64().unwrap_or(99),
            ));
        }
    }
    let known = String::from_utf8(gunzip(&data.join("fp-real/pairs_le_3.tsv.gz"))?)?;
    let mut expected = BTreeSet::new();
    for line in known.lines().skip(1) {
        let mut numbers = line.split('\t').map(str::parse::<u32>);
        let (Some(Ok(a)), Some(Ok(b)), Some(Ok(distance))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return Err(format!("not a pair: {line}").into());
        };
        expected.insert((a.min(b), a.max(b), u64::from(distance)));
    }
    assert_eq!(pairs.len(), 1_334_848);
    assert!(
        pairs == expected,
        "{} pairs found, {} known",
        pairs.len(),
        expected.len()
    );

    let queries = rows(&data.join("fp-real/queries.tsv"))?;
    let lines: String = queries
        .iter()
        .enumerate()
        .map(|(i, row)| format!("q{i}\t{}\n", row[1]))
        .collect();
    let asked = folder.file("queries.tsv", lines)?;
    for max_distance in 0..=10 {
        let ran = run!(
            "query",
            &database,
            "--input",
            &asked,
            "--input-format fingerprints --max-distance",
            max_distance.to_string(),
            "--limit 0 --json"
        );
        let answers = ran.expect(0).json()?;
        assert_eq!(answers.len(), 2_000);
        for (i, (answer, row)) in answers.iter().zip(&queries).enumerate() {
            assert_eq!(answer["key"], format!("q{i}"));
            assert_eq!(
                answer["total"].as_u64(),
                row[2 + max_distance].parse().ok(),
                "q{i} at {max_distance}"
            );
        }
    }
    done!("check", &database);
    Ok(())
}
