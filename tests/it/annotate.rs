//! `simdb dedup --annotate`: every record stays and is told its group, and nothing else of it changes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use simdb::dedup::{Dedup, DedupEvent, RemovedRecords};
use simdb::{Database, Error, OpenOptions};

use crate::dedup::odd_lines;
use crate::support::random::Random;
use crate::support::{Folder, Ran, TestResult, assert_error, done, gunzip, gzip, program, run};

/// What an annotation says, and the line without it.
fn taken_apart(line: &str) -> Option<(String, Value)> {
    let at = line.find(",\"dedup_group\":")?;
    let end = line.rfind('}')?;
    let said = serde_json::from_str(&format!("{{{}}}", &line[at + 1..end])).ok()?;
    Some((format!("{}{}", &line[..at], &line[end..]), said))
}

/// Lines with their ends.
fn lines_of(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[test]
fn every_record_stays_and_is_told_its_group() -> TestResult {
    let folder = Folder::new()?;
    let (lines, removed) = odd_lines(1_500, &mut Random::new(11))?;
    let text = lines.concat();
    let input = folder.file("in.jsonl", &text)?;
    let [plain, list, annotated, listed] =
        ["plain.jsonl", "list", "annotated.jsonl", "listed"].map(|name| folder.path(name));

    done!(
        "dedup --max-record 20k",
        &input,
        "-o",
        &plain,
        "--removed",
        &list
    );
    let annotate = |input: &Path, output: &Path, more: &[&OsStr]| -> TestResult<Ran> {
        Ok(done!(
            "dedup --max-record 20k --annotate",
            input,
            "-o",
            output,
            ..more
        ))
    };
    let options = ["--json".as_ref(), "--removed".as_ref(), listed.as_os_str()];
    let ran = annotate(&input, &annotated, &options)?;
    // The list is about the same records.
    assert_eq!(fs::read(&list)?, fs::read(&listed)?);
    let totals = ran.last()?;
    assert_eq!(totals["removed"].as_u64(), Some(removed.len() as u64));

    let mut told = HashMap::new();
    for removed in RemovedRecords::open(&list)? {
        let removed = removed?;
        let line = removed.record.place.as_ref().ok_or("no place")?.1;
        told.insert(line, removed);
    }
    let output = fs::read_to_string(&annotated)?;
    let output = lines_of(&output);
    assert_eq!(output.len(), lines.len());
    let mut survivors = String::new();
    let mut groups: BTreeMap<u64, Vec<(u64, Value)>> = BTreeMap::new();
    let mut annotated = 0;
    for (number, (line, before)) in (1..).zip(output.iter().zip(&lines)) {
        let Some((without, said)) = taken_apart(line) else {
            // What cannot be judged stays as it is.
            assert_eq!(line, before);
            survivors += line;
            continue;
        };
        annotated += 1;
        assert_eq!(without, *before);
        let group = said["dedup_group"].as_u64().ok_or("no group")?;
        // Groups are counted as their first records come.
        assert!(group <= groups.len() as u64 + 1, "{line}");
        match told.get(&number) {
            None => {
                assert_eq!(said["dedup_survives"], true);
                assert_eq!(
                    (said["dedup_distance"].as_u64(), &said["dedup_similarity"]),
                    (Some(0), &Value::Null)
                );
                survivors += before;
            }
            Some(removed) => {
                assert_eq!(said["dedup_survives"], false);
                assert_eq!(
                    said["dedup_distance"].as_u64(),
                    Some(removed.distance.into())
                );
                assert_eq!(said["dedup_similarity"].as_f64(), removed.similarity);
            }
        }
        groups.entry(group).or_default().push((number, said));
    }
    assert_eq!(totals["annotated"].as_u64(), Some(annotated));
    // Whoever takes those that survive has what a cleaning without annotations makes.
    assert!(survivors == fs::read_to_string(&plain)?);
    for (group, records) in groups {
        let survivor: Vec<_> = records
            .iter()
            .filter(|(_, said)| said["dedup_survives"] == true)
            .collect();
        let [(survivor, _)] = survivor[..] else {
            panic!("group {group} has {} survivors", survivor.len());
        };
        let key: Value = serde_json::from_str(&lines[*survivor as usize - 1])?;
        let name = match key["id"].as_str() {
            Some(key) => key.to_owned(),
            None => format!("{}:{survivor}", input.display()),
        };
        for (number, said) in &records {
            assert_eq!(said["dedup_size"].as_u64(), Some(records.len() as u64));
            assert_eq!(said["dedup_survivor"], *name, "{number}");
            if let Some(removed) = told.get(number) {
                assert_eq!(
                    removed.survivor.place.as_ref().map(|place| place.1),
                    Some(*survivor)
                );
            }
        }
    }

    // Whatever the packing, and however often.
    let packed = folder.file("in.jsonl.gz", gzip(text.as_bytes())?)?;
    let of_packed = folder.path("annotated.jsonl.gz");
    annotate(&packed, &of_packed, &[])?;
    let unpacked = String::from_utf8(gunzip(&of_packed)?)?;
    let expected = output.concat().replace("in.jsonl:", "in.jsonl.gz:");
    assert!(unpacked == expected);
    // A line that is near to be too long may have become so.
    let again = folder.file("in.jsonl", output.concat())?;
    let twice = folder.path("twice.jsonl");
    annotate(&again, &twice, &[])?;
    assert!(fs::read_to_string(&twice)? == output.concat());
    Ok(())
}

#[test]
fn short_texts_documents_of_a_database_and_dropped_records_have_their_places() -> TestResult {
    let folder = Folder::new()?;
    let text = |word: &str| {
        let words: Vec<String> = (0..40).map(|number| format!("{word}{number}")).collect();
        words.join(" ")
    };
    let known = folder.path("known.simdb");
    folder.file(
        "first.jsonl",
        format!("{{\"id\":\"old\",\"text\":\"{}\"}}\n", text("a")),
    )?;
    folder
        .run("dedup first.jsonl -o first.out --database known.simdb")?
        .expect(0);
    let lines = format!(
        "{{\"id\":\"x\",\"text\":\"{a}\"}}\n{{\"id\":\"y\",\"text\":\"{b}\"}}\n{{\"text\":\"short\"}}\nbad\n\
         {{\"id\":\"z\",\"text\":\"short\"}}\n{{\"id\":\"w\",\"text\":\"{a}\"}}\n{{\"id\":\"v\",\"text\":\"{b}\"}}",
        a = text("a"),
        b = text("b"),
    );
    folder.file("in.jsonl", &lines)?;
    let output = folder.path("out.jsonl");
    let ran = folder
        .run(
            "dedup in.jsonl -o out.jsonl --annotate --database known.simdb --drop-unjudged --json",
        )?
        .expect(0);
    let fields = [
        "records",
        "kept",
        "removed",
        "annotated",
        "dropped_unjudged",
    ];
    ran.counts(fields, [7, 2, 4, 6, 1]);
    let mut said = Vec::new();
    for line in fs::read_to_string(&output)?.lines() {
        let object: Value = serde_json::from_str(line)?;
        let fields = [
            "group",
            "size",
            "survives",
            "survivor",
            "distance",
            "similarity",
        ];
        said.push(
            fields
                .map(|it| object[format!("dedup_{it}")].to_string())
                .join(" "),
        );
    }
    assert_eq!(
        said,
        [
            "1 3 false \"old\" 0 1.0",
            "2 2 true \"y\" 0 null",
            "3 2 true \"in.jsonl:3\" 0 null",
            "3 2 false \"in.jsonl:3\" 0 null",
            "1 3 false \"old\" 0 1.0",
            "2 2 false \"y\" 0 1.0",
        ]
    );
    // What survives is stored, and nothing else. Texts that are too short are too.
    let known = Database::open(&known, &OpenOptions::new())?;
    assert_eq!(known.snapshot()?.stats()?.documents, 3);
    Ok(())
}

/// They were left from an earlier annotation, as if they were of this one.
#[test]
fn records_that_cannot_be_judged_lose_what_was_said_of_them_before() -> TestResult {
    let folder = Folder::new()?;
    let said = r#""dedup_group":7,"dedup_size":2,"dedup_survives":false"#;
    let words = "one two three four five six seven eight nine ten ".repeat(3);
    let long = "long ".repeat(9_000);
    folder.file(
        "in.jsonl",
        format!(
            "{{\"id\":1,\"text\":\"{words}\",{said}}}\n{{\"id\":2,\"text\":null,{said}}}\n\n{{\"id\":3,\"text\":NaN,{said}}}\n\
             {{\"id\":4,\"text\":\"{long}\",{said}}}\nno object\n"
        ),
    )?;
    let output = folder.path("out.jsonl");
    folder
        .run("dedup in.jsonl -o out.jsonl --annotate --max-record 20k")?
        .expect(0);
    let written = fs::read_to_string(&output)?;
    let (first, others) = written.split_once('\n').ok_or("no line")?;
    assert!(
        first.contains("\"dedup_group\":1,\"dedup_size\":1"),
        "{first}"
    );
    // Only of a record that is too long nothing is known.
    let expected = format!(
        "{{\"id\":2,\"text\":null}}\n\n{{\"id\":3,\"text\":NaN}}\n{{\"id\":4,\"text\":\"{long}\",{said}}}\nno object\n"
    );
    assert!(others == expected, "{others:.300}");
    Ok(())
}

#[test]
fn what_has_no_place_for_fields_is_refused_before_the_work() -> TestResult {
    let folder = Folder::new()?;
    let output = folder.path("out");
    for (name, content) in [
        ("a.tsv", "a\tsome text\n"),
        ("a.txt", "some text"),
        ("a.warc", "WARC/1.0\r\n"),
    ] {
        let input = folder.file(name, content)?;
        run!("dedup", &input, "-o", &output, "--annotate")
            .refused("only JSON Lines and Parquet files are annotated");
        assert!(!output.exists() && !Dedup::new([&input], &output).work_folder().exists());
    }
    let input = folder.file("a.jsonl", "{\"text\":\"some text\"}\n")?;
    run!("dedup", &input, "--list --annotate").expect(2);
    Ok(())
}

/// A run that was begun with annotations goes on only with these.
#[test]
fn annotations_go_on_where_they_stopped_and_only_they() -> TestResult {
    let folder = Folder::new()?;
    let (lines, _) = odd_lines(600, &mut Random::new(12))?;
    let input = folder.file("in.jsonl", lines.concat())?;
    let whole = folder.path("whole.jsonl");
    Dedup::new([&input], &whole).annotate(true).run(|_| {})?;
    let output = folder.path("out.jsonl");
    let mut stops = 0;
    for most in 1.. {
        let seen = Arc::new(AtomicU64::new(0));
        let asked = seen.clone();
        let dedup = Dedup::new([&input], &output)
            .annotate(true)
            .stop_when(move || asked.load(Ordering::Relaxed) > most);
        let ran = dedup.run(|event| {
            if let DedupEvent::Progress { .. } = event {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        match ran {
            Err(Error::Interrupted) => stops += 1,
            ran => {
                ran?;
                break;
            }
        }
        assert_error!(Dedup::new([&input], &output).run(|_| {}) => Error::Output { .. });
    }
    assert!(stops > 0);
    assert_eq!(fs::read(&output)?, fs::read(&whole)?);
    Ok(())
}

#[test]
fn killed_again_and_again_annotations_end_as_if_it_had_not_been() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(98);
    let (lines, _) = odd_lines(4_000, &mut random)?;
    let input = folder.file("a.jsonl.gz", gzip(lines.concat().as_bytes())?)?;
    let command = |output: &Path, list: &Path| {
        let mut command = program!(
            "dedup",
            &input,
            "-o",
            output,
            "--removed",
            list,
            "--annotate"
        );
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let [expected, whole, output, list] =
        ["e.jsonl", "e.list", "o.jsonl", "o.list"].map(|name| folder.path(name));
    let begun = Instant::now();
    assert!(command(&expected, &whole).status()?.success());
    let whole_run = begun.elapsed().as_micros() as u64;
    let mut kills = 0;
    let mut most = whole_run / 12 + 1;
    loop {
        let mut child = command(&output, &list).spawn()?;
        thread::sleep(Duration::from_micros(random.below(most)));
        if child.try_wait()?.is_some() {
            break;
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
        most += whole_run / 40 + 1;
        assert!(most < 200 * whole_run, "it does not go on");
    }
    println!("{kills} kills");
    assert!(!Dedup::new([&input], &output).work_folder().exists());
    assert!(gunzip(&output)? == gunzip(&expected)?);
    assert_eq!(fs::read(&list)?, fs::read(&whole)?);
    Ok(())
}

/// What stands between braces somewhere in a line was taken for an object.
#[test]
fn lines_that_are_no_objects_stay_as_they_are() -> TestResult {
    let folder = Folder::new()?;
    let text = "one two three four five six seven eight nine ten";
    let others = "[{\"dedup_group\":1,\"a\":2}]\nlog {\"dedup_size\":1} end\n";
    let input = folder.file(
        "in.jsonl",
        format!("{{\"id\":\"a\",\"text\":\"{text}\"}}\n{others}"),
    )?;
    let output = folder.path("out.jsonl");
    done!("dedup", &input, "-o", &output, "--annotate");
    let written = fs::read_to_string(&output)?;
    assert!(written.ends_with(others), "{written}");
    Ok(())
}
