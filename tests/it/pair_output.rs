//! `simdb pairs --output`: files that survive a kill, and those that are refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{Database, Scheme, SketchSize};

use crate::support::{
    Folder, Ran, TestResult, document, done, external, in_one_of_five_tries, insert_all, program,
    run, scattered, simdb,
};

/// A database with many pairs and groups, in many small parts.
fn database(folder: &Folder, name: &str, count: u64) -> TestResult {
    let options = external().max_distance(3);
    let database = Database::create(folder.path(name), &options)?;
    let bits = |i: u64| {
        (0..i % 4).fold(scattered(i / 16), |bits, j| {
            bits ^ 1 << (scattered(7 * i + j) % 64)
        })
    };
    insert_all(
        &database,
        (0..count).map(|i| document(format!("k{i}"), bits(i))),
    )?;
    Ok(())
}

fn command(folder: &Folder, format: &str, output: &Path) -> Command {
    let mut command = program!(
        "pairs",
        folder.path("d.simdb"),
        "--format",
        format,
        "--output",
        output,
        "--max-distance 6 -q"
    );
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_file_holds_what_standard_output_would() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 2_000)?;
    let path = folder.path("d.simdb");
    for (format, json) in [("tsv", None), ("jsonl", Some("--json"))] {
        let output = folder.path(format);
        let mut printed = simdb();
        let printed = printed.arg("pairs").arg(&path).args(json).output()?;
        done!("pairs", &path, "--format", format, "--output", &output);
        assert!(
            !printed.stdout.is_empty() && fs::read(&output)? == printed.stdout,
            "{format}"
        );
        // A command that was killed at its very end finds its own file.
        done!("pairs", &path, "--format", format, "--output", &output)
            .says("already there and complete");
        done!(
            "pairs",
            &path,
            "--max-distance 0 --format",
            format,
            "--output",
            &output,
            "--replace"
        );
        assert!(fs::read(&output)?.len() < printed.stdout.len());
    }
    // Nothing is left beside them.
    assert_eq!(folder.count()?, 3);
    run!("pairs", &path, "--format parquet").refused("needs a file");
    run!("pairs", &path, "--format tsv --json").refused("--format asks for tsv");
    Ok(())
}

/// By what a search knows its file again.
#[cfg(unix)]
fn number_of(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path)?;
    let made = found
        .created()
        .ok()
        .and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    let made = made.map_or(0, |made| made.as_nanos() as u64);
    Ok((u128::from(found.ino()) << 64 | u128::from(made)).to_string())
}

#[cfg(not(unix))]
fn number_of(_: &Path) -> std::io::Result<String> {
    Ok("-".to_owned())
}

/// Kills a search again and again, each time a little later, until it ends. Returns how often it was killed, and how
/// often there was a position to go on from. `patience` is how long it may work at first.
fn kill_until_it_ends(folder: &Folder, format: &str, patience: Duration) -> TestResult<(u64, u64)> {
    let (killed, sidecar) = (folder.path("killed"), folder.path("killed.position"));
    let (mut kills, mut went_on) = (0, 0);
    for round in 0.. {
        let mut child = command(folder, format, &killed).spawn()?;
        let started = Instant::now();
        while child.try_wait()?.is_none() && started.elapsed() < patience + patience * round / 2 {
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(status) = child.try_wait()? {
            // A search that was killed when it had just ended has left nothing to do.
            let was_done = killed.exists() && !sidecar.exists();
            assert!(
                status.success() || was_done,
                "it failed after {kills} kills"
            );
            break;
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
        went_on += u64::from(
            fs::read_to_string(&sidecar)
                .is_ok_and(|it| !it.ends_with(" 0\n") && it.lines().count() == 4),
        );
    }
    Ok((kills, went_on))
}

/// The file of a search that was killed is that of a search that was never killed.
#[test]
fn a_killed_search_goes_on_and_ends_as_if_it_had_not_been_killed() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 60_000)?;
    for format in ["tsv", "jsonl"] {
        let (whole, killed) = (folder.path("whole"), folder.path("killed"));
        let began = Instant::now();
        assert!(command(&folder, format, &whole).status()?.success());
        let time = began.elapsed();
        // If the machine had other work only while the time was taken, a search ends before it is killed often enough.
        in_one_of_five_tries(|number| {
            let patience = time / 8 / 2u32.pow(number);
            let (kills, went_on) = kill_until_it_ends(&folder, format, patience)?;
            assert!(
                fs::read(&whole)? == fs::read(&killed)?,
                "{format}: the files differ after {kills} kills"
            );
            assert!(!folder.path("killed.position").exists());
            assert!(!folder.path("killed.position.new").exists());
            fs::remove_file(&killed)?;
            let is_enough = kills > 2 && went_on > 0;
            Ok((!is_enough).then(|| format!("{kills} kills, {went_on} of them with a position")))
        })?;
        fs::remove_file(&whole)?;
    }
    Ok(())
}

/// It was overwritten, since the small file of a search that was killed was still there.
#[cfg(unix)]
#[test]
fn a_file_that_has_taken_the_place_of_another_is_left_alone() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 500)?;
    let (path, output) = (folder.path("d.simdb"), folder.path("out"));
    let sidecar = folder.path("out.position");
    let question =
        r#"{"max_distance":3,"min_similarity":null,"since":null,"scope":[],"groups":false}"#;
    fs::write(&output, "half a li")?;
    let number: u128 = number_of(&output)?.parse()?;
    fs::write(&output, "my notes")?;
    for other in [(number ^ 1).to_string(), "-".to_owned()] {
        fs::write(
            &sidecar,
            format!("simdb pairs 3\ntsv {question}\n{other}\n"),
        )?;
        run!("pairs", &path, "--output", &output).refused("another file is in its place");
        assert_eq!(fs::read_to_string(&output)?, "my notes");
    }
    // A search that could not begin leaves nothing that would do so.
    fs::remove_file(&sidecar)?;
    fs::remove_file(&output)?;
    fs::create_dir(&output)?;
    run!("pairs", &path, "--output", &output, "--replace").expect(2);
    assert!(!sidecar.exists());
    Ok(())
}

#[test]
fn another_question_does_not_go_on_with_a_file() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 500)?;
    let (path, output) = (folder.path("d.simdb"), folder.path("out"));
    let sidecar = folder.path("out.position");
    // As a kill leaves it: begun, with something behind the last position.
    fs::write(&output, "half a li")?;
    let question =
        r#"{"max_distance":3,"min_similarity":null,"since":null,"scope":[],"groups":false}"#;
    let begun = |position: &str| -> std::io::Result<()> {
        let number = number_of(&output)?;
        fs::write(
            &sidecar,
            format!("simdb pairs 3\ntsv {question}\n{number}\n{position}"),
        )
    };
    begun("")?;
    run!("pairs", &path, "--max-distance 4 --output", &output)
        .refused("begun for another question");
    run!("pairs", &path, "--json --output", &output).refused("begun for another question");
    // A position of another database, and a file that is too short.
    begun("1:0/0:0/0:0:0.16.0:00000000000000aa 4\n")?;
    run!("pairs", &path, "--output", &output).refused("the database has changed since");
    begun("1:0/0:0/0:0:0.16.0:00000000000000aa 4000\n")?;
    run!("pairs", &path, "--output", &output).refused("shorter than it was");
    fs::write(&sidecar, "nonsense")?;
    run!("pairs", &path, "--output", &output).refused("of another release, or damaged");
    begun("")?;
    done!("pairs", &path, "--output", &output);
    assert_eq!(fs::read_to_string(&output)?, done!("pairs", &path).out);
    assert!(!sidecar.exists());
    Ok(())
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_the_pairs_and_the_groups() -> TestResult {
    use std::collections::BTreeSet;

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Int32Type, Int64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let folder = Folder::new()?;
    database(&folder, "d.simdb", 3_000)?;
    let (path, output) = (folder.path("d.simdb"), folder.path("out.parquet"));
    insert_all(
        &Database::open(&path, &simdb::OpenOptions::new())?,
        [document("x", u64::MAX), document("y", 1 << 63)],
    )?;
    folder
        .run("pairs d.simdb --groups --format parquet --output out.parquet")?
        .expect(0);
    let mut found = BTreeSet::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&output)?)?.build()? {
        let batch = batch?;
        let number = |name: &str| {
            batch
                .column_by_name(name)
                .map(|it| it.as_primitive::<Int64Type>().clone())
        };
        let text = |name: &str| {
            batch
                .column_by_name(name)
                .map(|it| it.as_string::<i32>().clone())
        };
        let distance = batch
            .column_by_name("distance")
            .ok_or("no distance")?
            .as_primitive::<Int32Type>()
            .clone();
        let (a, b) = number("fp_a")
            .zip(number("fp_b"))
            .ok_or("no fingerprints")?;
        let (documents, keys) = number("documents_a").zip(text("key_a")).ok_or("no sides")?;
        for row in 0..batch.num_rows() {
            assert!(a.value(row) <= b.value(row));
            assert_eq!(
                (a.value(row) ^ b.value(row)).count_ones().cast_signed(),
                distance.value(row)
            );
            assert!(documents.value(row) > 0 && keys.value(row).starts_with('k'));
            assert!(
                found.insert((a.value(row), b.value(row), distance.value(row))),
                "a pair came twice"
            );
        }
    }
    let mut expected = BTreeSet::new();
    for line in done!("pairs", &path, "--groups --json").json()? {
        let bits = |side: &serde_json::Value| {
            let digits = side["fingerprint"].as_str().unwrap_or_default();
            u64::from_str_radix(digits, 16).map(u64::cast_signed)
        };
        expected.insert(match line.get("distance") {
            Some(distance) => {
                let (a, b) = (bits(&line["a"])?, bits(&line["b"])?);
                (a.min(b), a.max(b), distance.as_i64().unwrap_or(-1) as i32)
            }
            None => (bits(&line)?, bits(&line)?, 0),
        });
    }
    assert!(
        expected.len() > 1000 && found == expected,
        "{} and {}",
        found.len(),
        expected.len()
    );
    insert_all(
        &Database::open(&path, &simdb::OpenOptions::new())?,
        [document(vec![0xff], 1), document("z", 1)],
    )?;
    insert_all(
        &Database::open(&path, &simdb::OpenOptions::new())?,
        [document(vec![0xfe], 1)],
    )?;
    let again = ["--format", "parquet", "--replace", "--output"];
    let mut command = program!("pairs", &path, ..again, &output);
    let refused = command.output()?;
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is not UTF-8: give --binary-keys"),
        "{refused:?}"
    );
    assert!(command.arg("--binary-keys").status()?.success());
    Ok(())
}

/// An input is read anew each time, so a search for its pairs begins anew with its file. Records may share a key.
#[test]
fn the_pairs_of_an_input_are_found_anew_after_a_kill() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 2_000)?;
    let lines: String = (0..400)
        .map(|i| format!("k{}\t{:016x}\n", i % 3, scattered(i / 4)))
        .collect();
    let input = folder.file("queries.tsv", lines)?;
    let (output, sidecar) = (folder.path("out"), folder.path("out.position"));
    let with = "pairs d.simdb --max-distance 3 --input-format fingerprints --with";
    let ran = Ran::from(folder.command(with).arg(&input).output()?).expect(0);
    // Of each four records of a fingerprint, all match what the first one does.
    let lines: Vec<&str> = ran.out.lines().collect();
    let pairs = lines.len();
    assert!(pairs > 400 && pairs.is_multiple_of(4), "{pairs} pairs");
    let is_of_input = |key: &str| ["k0", "k1", "k2"].contains(&key);
    assert!(
        lines
            .iter()
            .all(|it| it.split('\t').nth(2).is_some_and(is_of_input))
    );
    fs::write(&output, "half a li")?;
    let question = format!(
        r#"{{"max_distance":3,"min_similarity":null,"since":null,"scope":[],"groups":false,"with":{input:?}}}"#
    );
    fs::write(
        &sidecar,
        format!(
            "simdb pairs 3\ntsv {question}\n{}\n1:0/0:0/0:0:0.16.0:00000000000000aa 4\n",
            number_of(&output)?
        ),
    )?;
    let mut found = folder.command(with);
    Ran::from(found.arg(&input).args(["--output", "out"]).output()?).expect(0);
    assert_eq!(fs::read_to_string(&output)?, ran.out);
    assert!(!sidecar.exists());
    folder.run("pairs d.simdb --with queries.tsv --input-format fingerprints --from 1:0/0:0/0:0:0.16.0:00000000000000aa")?
    .refused("an input is read anew");
    Ok(())
}

#[test]
fn a_name_that_says_packed_is_refused() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 5)?;
    let output = folder.path("pairs.tsv.zst");
    run!("pairs", folder.path("d.simdb"), "--output", &output).refused("written as plain text");
    assert!(!output.exists());
    Ok(())
}

/// With `--replace`, the pairs used to be written over the database.
#[test]
fn pairs_are_never_written_over_what_they_are_of() -> TestResult {
    let folder = Folder::new()?;
    for name in ["d.simdb", "e.simdb"] {
        database(&folder, name, 500)?;
    }
    let (path, other) = (folder.path("d.simdb"), folder.path("e.simdb"));
    fs::create_dir(folder.path("in"))?;
    let input = folder.path("in/queries.tsv");
    fs::write(&input, format!("q\t{:016x}\n", scattered(1)))?;
    fs::hard_link(&path, folder.path("other name"))?;
    let before = [&path, &other, &input].map(fs::read);
    let formats = if cfg!(feature = "parquet") {
        &["tsv", "jsonl", "parquet"][..]
    } else {
        &["tsv", "jsonl"]
    };
    for format in formats {
        for name in ["d.simdb", "other name"] {
            run!(
                "pairs",
                &path,
                "--format",
                format,
                "--replace --output",
                folder.path(name)
            )
            .refused("is the database itself");
        }
        for (with, output) in [
            (&other, &other),
            (&input, &input),
            (&folder.path("in"), &input),
        ] {
            let command = [
                "--input-format",
                "fingerprints",
                "--format",
                format,
                "--replace",
            ];
            let mut program = program!(
                "pairs",
                &path,
                "--with",
                with,
                ..command,
                "--output",
                output
            );
            let ran = program.output()?;
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(
                ran.status.code() == Some(2) && told.contains("is one of the inputs"),
                "{told}"
            );
        }
    }
    for (path, before) in [&path, &other, &input].into_iter().zip(before) {
        assert!(fs::read(path)? == before?, "{path:?} was changed");
    }
    assert!(!folder.path("d.simdb.position").exists());
    run!("report", &path, "--html", &path, "--replace").refused("is the database itself");
    Ok(())
}

/// The file was emptied, and a small file stood beside it, before it was seen that there is no answer.
#[test]
fn a_question_without_an_answer_changes_no_file() -> TestResult {
    let folder = Folder::new()?;
    let options = external();
    let without = options.clone().sketch_size(SketchSize::None);
    for (name, options) in [
        ("d.simdb", &without),
        ("other.simdb", &options.scheme(Scheme::Minwise1)),
    ] {
        drop(Database::create(folder.path(name), options)?);
    }
    let old = folder.file("old.tsv", "mine\n")?;
    let other = folder.path("other.simdb").into_os_string();
    for (question, why) in [
        (["--min-similarity".into(), "0.9".into()], "no sketches"),
        (["--with".into(), other], "scheme"),
    ] {
        for output in [&old, &folder.path("new.tsv")] {
            let mut program = program!(
                "pairs",
                folder.path("d.simdb"),
                ..&question,
                "--output",
                output,
                "--replace"
            );
            Ran::from(program.output()?).refused(why);
        }
    }
    assert_eq!(fs::read_to_string(&old)?, "mine\n");
    assert_eq!(folder.count()?, 3);
    Ok(())
}

/// Before the key of a record of an input there was a number, and together they were too long for a key.
#[test]
fn the_longest_key_of_an_input_is_in_its_pair() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, [document("d", 7)])?;
    let keys = [1, 8, 4_088, 4_089, 4_096].map(|length| "k".repeat(length));
    let lines: String = keys
        .iter()
        .map(|key| format!("{key}\t{:016x}\n", 7))
        .collect();
    folder.file("in.tsv", lines)?;
    let ran = folder
        .run("pairs d.simdb --with in.tsv --input-format fingerprints")?
        .expect(0);
    let mut found: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.split('\t').nth(2))
        .collect();
    found.sort_unstable_by_key(|key| key.len());
    assert_eq!(found, keys);
    Ok(())
}

/// An empty file took the place of the last good one.
#[test]
fn an_input_of_which_nothing_can_be_read_leaves_the_file_as_it_was() -> TestResult {
    let folder = Folder::new()?;
    database(&folder, "d.simdb", 100)?;
    let path = folder.path("d.simdb");
    let output = folder.file("pairs.tsv", "what was there\n")?;
    let bad = folder.file("bad.jsonl", "{\"id\":1}\n")?;
    for input in [folder.path("missing.jsonl"), bad] {
        run!(
            "pairs",
            &path,
            "--with",
            &input,
            "--output",
            &output,
            "--replace"
        )
        .expect(2);
        assert_eq!(fs::read_to_string(&output)?, "what was there\n");
        let new = folder.path("new.tsv");
        run!("pairs", &path, "--with", &input, "--output", &new).expect(2);
        assert!(!new.exists());
    }
    Ok(())
}
