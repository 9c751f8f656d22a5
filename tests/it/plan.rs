//! `simdb plan` and `simdb explain`: choices, and what they say of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Folder, Ran, TestResult, assert_has, done, figures, run, spread};

#[test]
fn plan_prints_the_choice_and_what_serves_which_use() -> TestResult {
    // Who names a distance gets the plans alone.
    let ran = done!("plan --max-distance=3 --sketch=0 --expect=100000000");
    let mut lines = ran.out.lines();
    assert!(
        lines.any(|line| line.contains("6x21") && line.ends_with("taken")),
        "{ran:?}"
    );
    let plans = |more: &str| -> TestResult<Vec<Value>> {
        Ok(done!(
            "plan --max-distance=3 --sketch=0 --expect=100000000 --json",
            more
        )
        .json()?)
    };
    let small = plans("--prefer=space")?;
    let taken: Vec<_> = small
        .iter()
        .filter(|it| it["taken"] == json!(true))
        .map(|it| &it["plan"])
        .collect();
    assert_eq!(taken, [&json!("2x32")]);
    for plan in plans("--max-file=4e9")? {
        assert!(
            figures(&plan, ["file_bytes"])[0] <= 4_000_000_000 || plan["taken"] == json!(false)
        );
    }
    run!("plan --max-memory 1 --max-distance 3").expect(1);
    // As `create` takes them: distance 8 for texts.
    let of_eight = run!("plan --max-distance 8 --sketch 16 --expect 200000000 --json");
    let of_eight = of_eight.expect(0).json()?;
    let by_default = done!("plan --expect 200000000 --json").json()?;
    let (plans, uses) = by_default.split_at(of_eight.len());
    assert!(
        plans.iter().all(|it| it["plan"].is_string())
            && uses.iter().all(|it| it["use"].is_string())
    );
    assert_eq!(plans, of_eight);
    let others = |scheme: &str, distance: u32| {
        let it = uses
            .iter()
            .find(|it| it["scheme"] == json!(scheme) && it["max_distance"] == json!(distance));
        it.and_then(|it| it["others"].as_f64())
    };
    assert_eq!(
        (others("minwise-1", 8), others("minwise-1", 12)),
        (Some(0.0), Some(40.0))
    );
    Ok(())
}

#[test]
fn explain_prints_what_is_read() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    run!("create", &path, "--plan 9x99").refused("no plan is called");
    done!("create", &path, "--plan 6x21 --scheme external");
    let lines: String = (0..2000u64)
        .map(|i| format!("{i}\t{:016x}\n", spread(i)))
        .collect();
    let input = folder.file("fingerprints.txt", lines)?;
    done!("ingest", &path, &input, "--input-format fingerprints");
    let explained = done!("explain", &path, "--key 7 --json").object()?;
    assert_has!(explained, {"plan": "6x21", "near": 1, "total": 1});
    let probes = explained["probes"].as_array().ok_or("probes")?;
    let met: u64 = probes
        .iter()
        .filter_map(|it| it["candidates"].as_u64())
        .sum();
    assert_eq!(Some(met), explained["candidates"].as_u64());
    run!("explain", &path, "--fingerprint 0123456789abcdef")
        .expect(1)
        .prints("candidates expected");
    run!("explain", &path, "--input", &input).refused("one fingerprint");
    done!("plan --sample", &path, "--max-distance 3 --expect 1000000");
    Ok(())
}

/// The words that a job may have. What is not among them needs another program than a database, or is slow there: no
/// DISTINCT, which sorts what comes twice, no outer joins, and no shift without the sign, which few have.
const WORDS_OF_JOBS: &str = "
    and array as bigint bit_count broadcast by cast copy count create directory distribute duckdb explode format from
    getvariable group having insert int is join max named_struct not null on or overwrite parquet read_parquet replace
    select set shiftright table temporary to true union all unnest using values variable view where xor";

#[test]
fn jobs_have_plain_words_only() -> TestResult {
    let allowed: BTreeSet<&str> = WORDS_OF_JOBS.split_whitespace().collect();
    // The names that the jobs give, as patterns of words.
    let is_name = |word: &str| {
        let numbered = |letter: char| {
            word.strip_prefix(letter)
                .is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
        };
        const NAMES: &str = "
            a b block buckets c crowded crowded_documents crowded_pairs crowded_queries cuts d distance document_keyed
            documents documents_a documents_b fingerprints found fp fp_a fp_b id id_a id_b k key keyed number p pairs part
            plain_pairs plain_queries q queries query_buckets query_fingerprints query_keyed s simdb size tbl x";
        NAMES.split_whitespace().any(|it| it == word) || numbered('m')
    };
    for dialect in ["spark-sql", "duckdb-sql"] {
        for job in ["self", "probe"] {
            for (distance, ids) in [("0", false), ("3", true), ("5", false), ("7", true)] {
                let ids = ids.then_some("--ids");
                let text = done!(
                    "plan --expect 1e8 --emit",
                    dialect,
                    "--job",
                    job,
                    "--max-distance",
                    distance,
                    ..ids
                )
                .out;
                let code = text.lines().filter(|line| !line.starts_with("--"));
                let code = code.collect::<Vec<_>>().join("\n").to_lowercase();
                let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
                for word in code.split(|c| !is_of_word(c)).filter(|it| !it.is_empty()) {
                    let is_number = word.bytes().all(|b| b.is_ascii_digit());
                    assert!(
                        is_number || allowed.contains(word) || is_name(word),
                        "{dialect} {job} {distance}: {word}"
                    );
                }
                assert!(code.contains("bit_count") && code.contains("union all"));
                assert_eq!(
                    code.contains("broadcast"),
                    dialect == "spark-sql",
                    "{dialect} {job} {distance}"
                );
            }
        }
    }
    Ok(())
}

/// Options that a job does not heed were taken and said nothing.
#[test]
fn jobs_refuse_what_does_not_concern_them_and_say_what_is_wrong() -> TestResult {
    let emit = |options: &str| -> TestResult<Ran> {
        Ok(run!(
            "plan --emit spark-sql --max-distance 3",
            ..options.split(' ')
        ))
    };
    for options in [
        "--sample d.simdb",
        "--prefer speed",
        "--max-file 1GB",
        "--max-memory 1GB",
    ] {
        emit(options)?.refused("cannot be used with");
    }
    emit("--most-of-key 0")?.refused("at least 1");
    // A lesser distance was advised, whatever it was.
    for number in ["0", "1", "100"] {
        emit(&format!("--expect {number}"))?.expect(0);
        emit(&format!("--job probe --queries {number}"))?.expect(0);
    }
    run!("plan --emit spark-sql --max-distance 60 --expect 1e9").refused("a smaller distance");
    Ok(())
}
