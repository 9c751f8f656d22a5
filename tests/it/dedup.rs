//! `simdb dedup`: what survives is copied byte for byte, whatever the inputs look like, and however often it is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simdb::dedup::{Dedup, DedupEvent, DedupStep};
use simdb::ingest::{InputFormat, ReadOptions};
use simdb::{Clustering, Database, Document, Error, Fingerprinter, OpenOptions, Scheme, Survivor};

use crate::support::random::Random;
use crate::support::{
    Folder, Ran, TestResult, all_documents, assert_error, bundled, done, gunzip, gzip,
    lose_document, program, run, run_with_input,
};

/// What these tests are made of.
impl Random {
    /// A text of which others differ in a few words, or in none.
    pub(crate) fn text(&mut self, bases: u64) -> String {
        let mut words = Self::new(self.below(bases));
        let mut text: Vec<String> = (0..80)
            .map(|_| format!("word{}", words.below(5_000)))
            .collect();
        for _ in 0..self.below(4) {
            text[self.below(80) as usize] = format!("other{}", self.below(5_000));
        }
        text.join(" ")
    }
}

/// The lines of the removed records, by a plain algorithm: the first record survives, and what is near to it goes.
fn plain_removed(texts: &[(usize, String)]) -> simdb::Result<BTreeSet<usize>> {
    let fingerprinter = Fingerprinter::new(Scheme::default())?;
    let documents: Vec<(usize, Document)> = texts
        .iter()
        .map(|(line, text)| (*line, fingerprinter.document("-", text)))
        .collect();
    let near = |a: &Document, b: &Document| {
        let distance = a
            .fingerprint()
            .zip(b.fingerprint())
            .map(|(a, b)| a.distance(b));
        let similarity = a
            .sketch()
            .zip(b.sketch())
            .and_then(|(a, b)| a.similarity(b).ok());
        distance.is_some_and(|it| it <= 10) && similarity.is_some_and(|it| it.jaccard() >= 0.7)
    };
    let (mut kept, mut removed) = (Vec::<&Document>::new(), BTreeSet::new());
    for (line, document) in &documents {
        if kept.iter().any(|it| near(it, document)) {
            removed.insert(*line);
        } else {
            kept.push(document);
        }
    }
    Ok(removed)
}

/// Lines of all kinds with the lines of the records that should go. Some have no key, or one that came before, some
/// cannot be read, some are empty, and one is longer than a record may be.
pub(crate) fn odd_lines(
    count: usize,
    random: &mut Random,
) -> simdb::Result<(Vec<String>, BTreeSet<usize>)> {
    let (mut lines, mut texts) = (Vec::new(), Vec::new());
    for line in 1..=count {
        let end = if line % 5 == 0 { "\r\n" } else { "\n" };
        lines.push(match line % 23 {
            3 => format!("   {end}"),
            7 => format!("{{\"id\":\"bad-{line}\",\"text\":{end}"),
            11 if line > 500 && line < 540 => {
                format!("{{\"id\":1,\"text\":\"{}\"}}{end}", "long ".repeat(5_000))
            }
            _ => {
                let text = random.text(count as u64 / 4);
                texts.push((line, text.clone()));
                let id = match line % 4 {
                    0 => String::new(),
                    1 => "\"id\":\"the same\",".to_owned(),
                    _ => format!("\"id\":\"{line}\","),
                };
                format!("{{{id}  \"text\" : \"{text}\"}}{end}")
            }
        });
    }
    if let Some(last) = lines.last_mut() {
        last.truncate(last.trim_end().len());
    }
    let removed = plain_removed(&texts)?;
    Ok((lines, removed))
}

fn survivors(lines: &[String], removed: &BTreeSet<usize>) -> String {
    let kept = lines
        .iter()
        .enumerate()
        .filter(|(index, _)| !removed.contains(&(index + 1)));
    kept.map(|(_, line)| line.as_str()).collect()
}

/// The lines that a list of removed records names.
fn listed(path: &Path) -> TestResult<BTreeSet<usize>> {
    let mut lines = BTreeSet::new();
    for line in fs::read_to_string(path)?.lines() {
        let object: Value = serde_json::from_str(line)?;
        assert!(
            object["distance"].as_u64().is_some_and(|it| it <= 10),
            "{object}"
        );
        assert!(
            object["similarity"].as_f64().is_some_and(|it| it >= 0.7),
            "{object}"
        );
        assert!(
            object["survivor"]["line"].as_u64() < object["line"].as_u64(),
            "{object}"
        );
        lines.insert(object["line"].as_u64().ok_or("no line")? as usize);
    }
    Ok(lines)
}

#[test]
fn what_survives_is_copied_byte_for_byte_from_every_packing() -> TestResult {
    let folder = Folder::new()?;
    let (lines, removed) = odd_lines(2_000, &mut Random::new(7))?;
    assert!(removed.len() > 200 && removed.len() < 1_800);
    let text = lines.concat();
    let expected = survivors(&lines, &removed);
    let with_mark = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    let marked = [b"\xef\xbb\xbf", expected.as_bytes()].concat();
    let parts = |pack: fn(&[u8]) -> io::Result<Vec<u8>>| -> io::Result<Vec<u8>> {
        Ok(text
            .as_bytes()
            .chunks(30_000)
            .map(pack)
            .collect::<io::Result<Vec<_>>>()?
            .concat())
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1);
    let cases: [(&str, Vec<u8>, &[u8]); 6] = [
        (
            "plain.jsonl",
            text.clone().into_bytes(),
            expected.as_bytes(),
        ),
        ("marked.jsonl", with_mark, &marked),
        (
            "packed.jsonl.gz",
            gzip(text.as_bytes())?,
            expected.as_bytes(),
        ),
        ("members.jsonl.gz", parts(gzip)?, expected.as_bytes()),
        ("one.jsonl.zst", zstd(text.as_bytes())?, expected.as_bytes()),
        ("frames.jsonl.zst", parts(zstd)?, expected.as_bytes()),
    ];
    for (name, content, expected) in cases {
        let (input, list) = (
            folder.file(name, content)?,
            folder.path(&format!("{name}.removed")),
        );
        let output = folder.path(&format!("clean.{name}"));
        let ran = done!(
            "dedup",
            &input,
            "-o",
            &output,
            "--removed",
            &list,
            "--json --max-record 20k"
        );
        let totals = ran.last()?;
        assert_eq!(
            totals["removed"].as_u64(),
            Some(removed.len() as u64),
            "{name}"
        );
        assert_eq!(
            totals["kept"].as_u64(),
            totals["records"]
                .as_u64()
                .map(|it| it - removed.len() as u64)
        );
        let unpacked = match name.rsplit('.').next() {
            Some("gz") => gunzip(&output)?,
            Some("zst") => zstd::decode_all(fs::File::open(&output)?)?,
            _ => fs::read(&output)?,
        };
        assert!(unpacked == expected, "{name}");
        assert_eq!(listed(&list)?, removed, "{name}");
        assert!(!folder.path(&format!("clean.{name}.dedup")).exists());
    }
    // Another name decides on another packing.
    folder
        .run("dedup plain.jsonl -o other.bz2")?
        .refused("ends in .gz or .zst");
    let (input, output) = (folder.path("plain.jsonl"), folder.path("other.gz"));
    done!("dedup", &input, "-o", &output, "--max-record 20k");
    assert!(gunzip(&output)? == expected.as_bytes());
    run!("dedup", &input, "-o", &output).refused("already exists, and nothing is overwritten");
    Ok(())
}

#[test]
fn several_inputs_get_into_one_file_or_into_a_directory() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(3);
    let texts: Vec<(usize, String)> = (1..=300).map(|line| (line, random.text(90))).collect();
    let lines: Vec<String> = texts
        .iter()
        .map(|(line, text)| format!("{line}\t{text}\n"))
        .collect();
    let removed = plain_removed(&texts)?;
    // The first one ends within a line.
    let first = folder.file("a.tsv", lines[..100].concat().trim_end())?;
    let second = folder.file("b.tsv", lines[100..].concat())?;
    let output = folder.path("one.tsv");
    done!("dedup", &first, &second, &first, "-o", &output);
    assert_eq!(fs::read_to_string(&output)?, survivors(&lines, &removed));
    let directory = folder.path("two/");
    fs::create_dir(&directory)?;
    // The first under another name is the same input.
    let named_otherwise = directory.join("../a.tsv");
    done!("dedup", &first, &second, named_otherwise, "-o", &directory);
    let both = [directory.join("a.tsv"), directory.join("b.tsv")];
    let [a, b] = [fs::read_to_string(&both[0])?, fs::read_to_string(&both[1])?];
    let end = if removed.contains(&100) { "" } else { "\n" };
    assert_eq!(format!("{a}{end}{b}"), survivors(&lines, &removed));
    let packed = folder.file("c.jsonl", "{}\n")?;
    run!("dedup", &first, &packed, "-o", folder.path("three"))
        .refused("let the output be a directory");
    Ok(())
}

/// The list said that a cleaning would remove fewer records than it did: copies of short texts were in no group.
#[test]
fn the_list_has_all_that_a_cleaning_removes() -> TestResult {
    let folder = Folder::new()?;
    let mut lines = String::new();
    for i in 0..12 {
        let text = match i % 4 {
            0 => "too short".to_owned(),
            1 => "short too".to_owned(),
            2 => "a page of some words that has enough of them to be judged by what is near"
                .to_owned(),
            _ => format!("short {i}"),
        };
        lines += &format!("{}\n", json!({"id": format!("k{i}"), "text": text}));
    }
    let input = folder.file("in.jsonl", lines)?;
    let listed = done!("dedup", &input, "--list --json").json()?;
    let mut removed = 0;
    for group in &listed {
        removed += group["records"]
            .as_array()
            .ok_or("a group has records")?
            .len()
            - 1;
    }
    assert_eq!((listed.len(), removed), (3, 6));
    done!("dedup", &input, "--list").says("cleaning would remove 6 of them");
    let ran = done!("dedup", &input, "-o", folder.path("out"), "--json");
    assert_eq!(ran.last()?["removed"], 6);
    Ok(())
}

#[test]
fn of_folders_the_files_that_survive_are_copied_or_all_groups_are_listed() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(11);
    fs::create_dir_all(folder.path("in/deep/er"))?;
    let mut texts = Vec::new();
    for number in 1..=60usize {
        let below = if number % 3 == 0 { "deep/er/" } else { "" };
        texts.push((format!("{below}{number:02}.txt"), random.text(20)));
    }
    texts.sort();
    // One is packed, and is copied as it is.
    let last = texts.len() - 1;
    let packed = gzip(texts[last].1.as_bytes())?;
    for (index, (name, text)) in texts.iter().enumerate() {
        match index == last {
            true => folder.file(&format!("in/{name}"), &packed)?,
            false => folder.file(&format!("in/{name}"), text)?,
        };
    }
    // In the order in which the files are read.
    let order: Vec<(usize, String)> = texts
        .iter()
        .enumerate()
        .map(|(index, (_, text))| (index, text.clone()))
        .collect();
    let in_order = done!("fingerprint", folder.path("in"), "--json").json()?;
    let read: Vec<&str> = in_order
        .iter()
        .filter_map(|it| it["key"].as_str())
        .collect();
    let position = |name: &str| read.iter().position(|it| it.ends_with(name));
    let mut order: Vec<_> = order
        .into_iter()
        .map(|(index, text)| (position(&texts[index].0), index, text))
        .collect();
    order.sort();
    let removed = plain_removed(
        &order
            .into_iter()
            .map(|(_, index, text)| (index, text))
            .collect::<Vec<_>>(),
    )?;
    assert!(removed.len() > 5, "{removed:?}");
    let output = folder.path("out");
    done!("dedup", folder.path("in"), "-o", &output);
    for (index, (name, text)) in texts.iter().enumerate() {
        let copy = fs::read(output.join(name));
        match (removed.contains(&index), index == last) {
            (true, _) => assert!(copy.is_err(), "{name}"),
            (false, true) => assert!(copy? == packed),
            (false, false) => assert_eq!(String::from_utf8(copy?)?, *text),
        }
    }
    let groups = done!("dedup", folder.path("in"), "--list --json").json()?;
    let listed: usize = groups
        .iter()
        .filter_map(|it| it["records"].as_array())
        .map(|it| it.len() - 1)
        .sum();
    assert_eq!(listed, removed.len());
    let text = done!("dedup", folder.path("in"), "--list");
    assert!(
        text.out.starts_with(|it: char| it.is_ascii_digit()) && text.out.contains("\n    "),
        "{}",
        text.out
    );
    text.says(&format!("cleaning would remove {listed} of them"));
    Ok(())
}

/// Records of a web archive: requests, pages, and one that is broken.
pub(crate) fn archive(count: usize, random: &mut Random) -> Vec<(Vec<u8>, Option<String>)> {
    (0..count)
        .map(|i| {
            let text = random.text(count as u64 / 5);
            let (kind, body) = match i % 4 {
                0 => ("request", "GET / HTTP/1.1\r\n\r\n".to_owned()),
                _ => (
                    "response",
                    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{text}"),
                ),
            };
            let head = format!(
                "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a/{i}\r\nContent-Length: "
            );
            let record = format!("{head}{}\r\n\r\n{body}\r\n\r\n", body.len());
            (record.into_bytes(), (kind == "response").then_some(text))
        })
        .collect()
}

#[test]
fn web_archives_keep_their_records_and_each_of_them_packed() -> TestResult {
    let folder = Folder::new()?;
    let records = archive(200, &mut Random::new(5));
    let texts: Vec<(usize, String)> = records
        .iter()
        .enumerate()
        .filter_map(|(index, (_, text))| Some((index + 1, text.clone()?)))
        .collect();
    let removed = plain_removed(&texts)?;
    assert!(removed.len() > 20);
    let kept = |records: Vec<Vec<u8>>| -> Vec<u8> {
        let kept = records
            .into_iter()
            .enumerate()
            .filter(|(index, _)| !removed.contains(&(index + 1)));
        kept.flat_map(|(_, record)| record).collect()
    };
    let plain: Vec<Vec<u8>> = records.into_iter().map(|it| it.0).collect();
    let expected = kept(plain.clone());
    let input = folder.file("a.warc", plain.concat())?;
    let output = folder.path("clean.warc");
    done!("dedup", &input, "-o", &output);
    assert!(fs::read(&output)? == expected);
    let packed = plain
        .iter()
        .map(|it| gzip(it))
        .collect::<io::Result<Vec<_>>>()?;
    let input = folder.file("b.warc.gz", packed.concat())?;
    let output = folder.path("clean.warc.gz");
    let list = folder.path("removed");
    done!("dedup", &input, "-o", &output, "--removed", &list);
    assert!(gunzip(&output)? == expected);
    // Each record is a member of its own.
    let bytes = fs::read(&output)?;
    let (mut rest, mut members) = (&bytes[..], 0);
    while !rest.is_empty() {
        let mut member = Vec::new();
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        decoder.read_to_end(&mut member)?;
        assert!(member.starts_with(b"WARC/1.0") && member.ends_with(b"\r\n\r\n"));
        rest = decoder.into_inner();
        members += 1;
    }
    assert_eq!(members, plain.len() - removed.len());
    assert!(
        fs::read_to_string(&list)?
            .lines()
            .all(|it| it.contains("\"record\":") && it.contains("http://a/"))
    );
    Ok(())
}

/// Records of two archives were on one line, which no other program reads, if the first had no line ends behind it.
#[test]
fn archives_that_end_within_a_line_are_parted() -> TestResult {
    let folder = Folder::new()?;
    let record = |kind: &str, text: &str| {
        let length = text.len();
        format!("WARC/1.0\r\nWARC-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{text}")
    };
    let [first, second] = [record("warcinfo", "a"), record("metadata", "b")];
    let (a, b) = (
        folder.file("a.warc", &first)?,
        folder.file("b.warc", &second)?,
    );
    let output = folder.path("both.warc");
    done!("dedup", &a, &b, "-o", &output);
    assert_eq!(
        fs::read_to_string(&output)?,
        format!("{first}\r\n\r\n{second}")
    );
    // Packed, each is a part of its own.
    let packed = folder.path("both.warc.gz");
    done!("dedup", &a, &b, "-o", &packed);
    assert!(gunzip(&packed)? == [first, second].concat().as_bytes());
    Ok(())
}

#[test]
fn texts_that_are_too_short_go_only_if_they_are_the_same() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file(
        "a.tsv",
        "a\tnot found\nb\tNot found\nc\tnot found\nd\t\ne\t\n",
    )?;
    let (output, list) = (folder.path("out.tsv"), folder.path("removed"));
    let ran = done!("dedup", &input, "-o", &output, "--removed", &list, "--json");
    assert_eq!(
        fs::read_to_string(&output)?,
        "a\tnot found\nb\tNot found\nd\t\n"
    );
    let totals = ran.last()?;
    assert_eq!(
        [
            &totals["too_short"],
            &totals["removed"],
            &totals["removed_as_equal"]
        ],
        [5, 2, 2]
    );
    let list = fs::read_to_string(&list)?;
    assert!(
        list.contains("\"key\":\"c\",\"survivor\":{")
            && list.contains("\"key\":\"e\",\"survivor\":{"),
        "{list}"
    );
    Ok(())
}

#[test]
fn survivors_are_chosen_by_the_order_that_is_asked_for() -> TestResult {
    let folder = Folder::new()?;
    let text = Random::new(1).text(1);
    let line = |id: &str, rank: i64, seen: i64| {
        format!("{{\"id\":\"{id}\",\"rank\":{rank},\"seen\":{seen},\"text\":\"{text}\"}}\n")
    };
    let lines = [
        line("first", 1, 5),
        line("ranked", 9, 7),
        line("l", 2, 9),
        line("earliest", 1, 1),
    ];
    let input = folder.file("a.jsonl", lines.concat())?;
    let orders = [
        ("rank", 1),
        ("latest", 2),
        ("earliest", 3),
        ("shortest-key", 2),
        ("longest,latest", 2),
    ];
    for (order, survivor) in orders {
        let output = folder.path(&format!("{order}.jsonl"));
        done!("dedup", &input, "-o", &output, "--survivor", order);
        assert_eq!(fs::read_to_string(&output)?, lines[survivor], "{order}");
    }
    Ok(())
}

/// A key for which there is no room in the folder of the work counted as the shortest, and so did none.
#[test]
fn the_shortest_key_is_the_shortest_be_there_room_for_it_or_not() -> TestResult {
    let folder = Folder::new()?;
    let text = Random::new(1).text(1);
    let with = |length: usize| {
        let key = "k".repeat(length);
        format!("{{\"id\":\"{key}\",\"text\":\"{text}\"}}\n")
    };
    let none = format!("{{\"text\":\"{text}\"}}\n");
    let cases = [
        (vec![none.clone(), with(9_000), with(30), with(4_068)], 2),
        (vec![none.clone(), with(9_000), with(4_068), with(4_069)], 2),
        (vec![none.clone(), with(9_000)], 1),
        (vec![none.clone(), none], 0),
    ];
    for (number, (lines, survivor)) in cases.iter().enumerate() {
        let input = folder.file("a.jsonl", lines.concat())?;
        let output = folder.path(&format!("{number}.jsonl"));
        done!("dedup", &input, "-o", &output, "--survivor shortest-key");
        assert!(fs::read_to_string(&output)? == lines[*survivor], "{number}");
    }
    Ok(())
}

/// What could not be written was told at the end, when everything was delivered and stored.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_reported_is_not_delivered() -> TestResult {
    let folder = Folder::new()?;
    let text = Random::new(1).text(1);
    let lines = format!("{{\"id\":\"a\",\"text\":\"{text}\"}}\nno JSON\n");
    let input = folder.file("a.jsonl", lines)?;
    let [output, database, rejected] = ["out", "d.simdb", "r"].map(|name| folder.path(name));
    let clean = |rejected: &Path| -> TestResult<Ran> {
        Ok(run!(
            "dedup",
            &input,
            "-o",
            &output,
            "--database",
            &database,
            "--rejected",
            rejected
        ))
    };
    clean(Path::new("/dev/full"))?.refused("/dev/full");
    assert!(!output.exists());
    {
        let known = Database::open(&database, &OpenOptions::new())?;
        assert_eq!(known.snapshot()?.stats()?.documents, 0);
    }
    clean(&rejected)?.expect(0);
    assert!(output.exists());
    assert!(fs::read_to_string(&rejected)?.contains("a.jsonl, line 2: "));
    run!("dedup", &input, "--list --rejected /dev/full").refused("/dev/full");
    Ok(())
}

/// Runs a cleaning that is stopped when it has come to a step.
#[track_caller]
fn stop_at(wanted: DedupStep, dedup: &Dedup) {
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let dedup = dedup.clone();
    let dedup = dedup.stop_when(move || is_stopped.load(Ordering::Relaxed));
    let stopped = dedup.run(|event| {
        if matches!(event, DedupEvent::Progress { step, .. } if step == wanted) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert_error!(stopped => Error::Interrupted);
}

/// A run that went on kept what another one had stored in the database and delivered meanwhile.
#[test]
fn a_run_that_goes_on_knows_what_the_database_got_meanwhile() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(5);
    let texts: Vec<String> = (0..20).map(|_| random.text(1_000_000)).collect();
    for has_results in [false, true] {
        for is_directory in [false, true] {
            let name = |name: &str| format!("{name}-{has_results}-{is_directory}");
            let mut inputs = Vec::new();
            for side in ["x", "y"] {
                let input = folder.path(&name(side));
                if is_directory {
                    fs::create_dir(&input)?;
                    for (number, text) in texts.iter().enumerate() {
                        fs::write(input.join(format!("{number}.txt")), text)?;
                    }
                } else {
                    fs::write(&input, texts.join("\n"))?;
                }
                inputs.push(input);
            }
            let format = match is_directory {
                true => ReadOptions::new(),
                false => ReadOptions::new().format(InputFormat::Lines),
            };
            let [output, other] = ["out", "other"].map(|it| folder.path(&name(it)));
            let database = folder.path(&name("d.simdb"));
            let dedup = Dedup::new([&inputs[0]], &output)
                .options(format.clone())
                .database(&database);
            stop_at(DedupStep::Writing, &dedup);
            if has_results {
                // Something is in their place.
                fs::write(&output, "other")?;
                assert_error!(dedup.run(|_| {}) => Error::AlreadyExists { .. });
                fs::remove_file(&output)?;
            }
            let totals = Dedup::new([&inputs[1]], &other)
                .options(format)
                .database(&database)
                .run(|_| {})?;
            assert_eq!(totals.removed, 0);
            let totals = dedup.run(|_| {})?;
            assert_eq!((totals.records, totals.removed_as_known), (20, 20));
            // Of files an empty folder is left, and of lines an empty file.
            let is_empty = match is_directory {
                true => fs::read_dir(&output)?.next().is_none(),
                false => fs::read(&output)?.is_empty(),
            };
            assert!(is_empty, "{has_results}, {is_directory}");
            assert!(!dedup.work_folder().exists());
        }
    }
    Ok(())
}

#[test]
fn a_corpus_is_cleaned_against_those_before_it() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(21);
    let line = |(number, text): &(usize, String)| {
        format!("{{\"id\":\"doc {}\",\"text\":\"{text}\"}}\n", number % 90)
    };
    let all: Vec<(usize, String)> = (1..=400).map(|number| (number, random.text(120))).collect();
    let lines: Vec<String> = all.iter().map(line).collect();
    let removed = plain_removed(&all)?;
    let kept = survivors(&lines, &removed);
    let (months, known) = (
        [&lines[..150], &lines[150..300], &lines[300..]],
        folder.path("known.simdb"),
    );
    let mut cleaned = String::new();
    for (index, month) in months.iter().enumerate() {
        let input = folder.file("month.jsonl", month.concat())?;
        let (output, list) = (
            folder.path(&format!("{index}.jsonl")),
            folder.path(&format!("{index}.removed")),
        );
        done!(
            "dedup",
            &input,
            "-o",
            &output,
            "--database",
            &known,
            "--removed",
            &list
        );
        cleaned += &fs::read_to_string(&output)?;
        if index > 0 {
            assert!(fs::read_to_string(&list)?.contains("\"survivor\":{\"key\":\"doc "));
        }
        run!(
            "dedup",
            &input,
            "-o",
            folder.path("again.jsonl"),
            "--database",
            &known
        )
        .refused("all of its records would be removed");
        let again = folder.path(&format!("again-{index}"));
        done!(
            "dedup",
            &input,
            "-o",
            &again,
            "--database",
            &known,
            "--again"
        );
        assert_eq!(fs::read(again)?, b"");
        assert!(!folder.path("again.jsonl.dedup").exists());
    }
    // As if all had been cleaned at once: the first of near records survives.
    assert_eq!(cleaned, kept);
    let database = Database::open(&known, &OpenOptions::new())?;
    // What was removed is none of what was stored of a source.
    for source in database.snapshot()?.sources()? {
        let totals = source.totals();
        assert!(totals.skipped > 0, "{totals:?}");
        assert_eq!(
            totals.documents,
            totals.inserted + totals.skipped,
            "{totals:?}"
        );
    }
    let documents = all_documents(&database)?;
    assert_eq!(documents.len(), lines.len() - removed.len());
    assert!(
        documents.iter().any(|it| it.key() == b"doc 1")
            && documents.iter().any(|it| it.key() == b"doc 89")
    );
    drop(database);
    // Which of the two it is does not show.
    lose_document(&known)?;
    let damaged = format!("{} or ", known.display());
    run!(
        "dedup",
        folder.path("month.jsonl"),
        "-o",
        folder.path("e.jsonl"),
        "--database",
        &known,
        "--again"
    )
    .refused(&damaged)
    .says("the database is damaged");
    Ok(())
}

/// The other name got an empty file, and one of Parquet ended the cleaning.
#[cfg(unix)]
#[test]
fn a_file_that_a_link_leads_to_is_cleaned_once() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(5);
    let directory = folder.path("shards");
    fs::create_dir(&directory)?;
    let (lines, removed) = odd_lines(200, &mut random)?;
    fs::write(directory.join("b.jsonl"), lines.concat())?;
    std::os::unix::fs::symlink("b.jsonl", directory.join("a.jsonl"))?;
    std::os::unix::fs::symlink("b.jsonl", directory.join("c.jsonl"))?;
    let output = folder.path("out");
    done!("dedup", &directory, "-o", &output);
    let mut names = Vec::new();
    for entry in fs::read_dir(&output)? {
        names.push(entry?.file_name());
    }
    assert_eq!(names, ["a.jsonl"]);
    assert_eq!(
        fs::read_to_string(output.join("a.jsonl"))?,
        survivors(&lines, &removed)
    );
    Ok(())
}

#[test]
fn killed_again_and_again_it_ends_as_if_it_had_not_been() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(99);
    let (lines, removed) = odd_lines(3_000, &mut random)?;
    let jsonl = folder.file("a.jsonl.gz", gzip(lines.concat().as_bytes())?)?;
    let records = archive(600, &mut random);
    let pages = folder.file(
        "b.warc",
        records
            .iter()
            .flat_map(|it| it.0.clone())
            .collect::<Vec<u8>>(),
    )?;
    let mut kills = 0;
    for (name, inputs, packed) in [
        ("one.jsonl", vec![&jsonl], true),
        ("two/", vec![&jsonl, &pages], false),
    ] {
        let expected = folder.path(&format!("expected-{name}"));
        let (whole, known) = (
            folder.path(&format!("{}.removed", name.len())),
            folder.path("expected.simdb"),
        );
        let command = |output: &Path, list: &Path, known: &Path| {
            let mut command = program!(
                "dedup",
                ..&inputs,
                "-o",
                output,
                "--removed",
                list,
                "--database",
                known,
                "--max-record 20k"
            );
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let begun = Instant::now();
        assert!(command(&expected, &whole, &known).status()?.success());
        // As fast as the machine is, so late the kills come.
        let whole_run = begun.elapsed().as_micros() as u64;
        fs::remove_file(&known)?;
        let output = folder.path(&format!("killed-{name}"));
        let (list, known) = (folder.path("list"), folder.path("known.simdb"));
        let mut most = whole_run / 12 + 1;
        loop {
            let mut child = command(&output, &list, &known).spawn()?;
            thread::sleep(Duration::from_micros(random.below(most)));
            if let Some(status) = child.try_wait()? {
                // A run that was killed when it had just ended has left nothing to do.
                let work = Dedup::new([&jsonl], &output).work_folder();
                assert!(
                    status.success() || output.exists() && !work.exists(),
                    "{name}: {status}"
                );
                break;
            }
            child.kill()?;
            child.wait()?;
            kills += 1;
            // Each step takes its time.
            most += whole_run / 40 + 1;
            assert!(most < 200 * whole_run, "{name}: it does not go on");
        }
        assert_eq!(contents(&output)?, contents(&expected)?, "{name}");
        assert_eq!(fs::read(&list)?, fs::read(&whole)?, "{name}");
        if packed {
            assert!(gunzip(&output)? == survivors(&lines, &removed).as_bytes());
        }
        fs::remove_file(&list)?;
        fs::remove_file(&known)?;
    }
    println!("{kills} kills");
    assert!(kills > 4, "{kills}");
    Ok(())
}

/// The unpacked content of a file, or of the files of a directory.
fn contents(path: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    if path.is_dir() {
        let mut files = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        files.sort_by_key(fs::DirEntry::file_name);
        let content =
            |it: fs::DirEntry| Ok((it.file_name().into(), contents(&it.path())?.remove(0).1));
        return files.into_iter().map(content).collect();
    }
    let bytes = fs::read(path)?;
    let unpacked = if bytes.starts_with(&[0x1f, 0x8b]) {
        gunzip(path)?
    } else {
        bytes
    };
    Ok(vec![(PathBuf::new(), unpacked)])
}

#[test]
fn a_stopped_run_goes_on_only_with_the_same_command_and_the_same_inputs() -> TestResult {
    let folder = Folder::new()?;
    let (lines, _) = odd_lines(2_000, &mut Random::new(2))?;
    let input = folder.file("a.jsonl", lines.concat())?;
    let output = folder.path("out.jsonl");
    let dedup = || {
        Dedup::new([&input], &output).clustering(Clustering::new().survivor([Survivor::Earliest]))
    };
    // Stopped when the records have been read.
    stop_at(DedupStep::Comparing, &dedup());
    assert!(!output.exists() && dedup().work_folder().is_dir());
    let other = dedup()
        .options(ReadOptions::new().key_field("text"))
        .run(|_| {});
    assert!(other.is_err_and(|it| it.to_string().contains("give that command again to go on")));
    let time = fs::metadata(&input)?.modified()?;
    fs::write(&input, lines[1..].concat())?;
    let changed = dedup().run(|_| {});
    assert!(changed.is_err_and(|it| {
        it.to_string()
            .contains("it was changed after the run had begun")
    }));
    fs::write(&input, lines.concat())?;
    fs::File::options()
        .write(true)
        .open(&input)?
        .set_modified(time)?;
    dedup().run(|_| {})?;
    assert!(output.exists() && !dedup().work_folder().exists());
    Ok(())
}

/// A run whose only input cannot be read to its end was done, with no output.
#[test]
fn a_run_all_of_whose_inputs_fail_within_is_an_error_and_leaves_nothing() -> TestResult {
    let folder = Folder::new()?;
    let (lines, _) = odd_lines(500, &mut Random::new(4))?;
    let whole = gzip(lines.concat().as_bytes())?;
    let input = folder.file("a.jsonl.gz", &whole[..whole.len() / 2])?;
    let other = folder.file("b.jsonl.gz", &whole[..whole.len() / 3])?;
    let output = folder.path("out.jsonl.gz");
    let mut cases = vec![
        vec![&input],
        vec![&input, &input],
        vec![&input, &other, &input],
    ];
    let link = folder.path("link.jsonl.gz");
    if cfg!(unix) {
        #[cfg(unix)]
        std::os::unix::fs::symlink(&input, &link)?;
        cases.push(vec![&input, &link]);
    }
    for inputs in cases {
        let dedup = Dedup::new(&inputs, &output);
        let mut told = 0;
        let refused =
            dedup.run(|event| told += u64::from(matches!(event, DedupEvent::Failed { .. })));
        assert!(
            matches!(refused, Err(Error::Input { .. })),
            "{inputs:?}: {refused:?}"
        );
        assert!(told > 0 && !output.exists() && !dedup.work_folder().exists());
        let refused = dedup.groups(|_| {}, |_| Ok(()));
        assert!(
            matches!(refused, Err(Error::Input { .. })),
            "{inputs:?}: {refused:?}"
        );
    }
    run!("dedup", &input, "--output", &output).refused("a.jsonl.gz");
    // With one that can be read, it is told of and left out. When it is whole, it is read.
    folder.file("c.jsonl", lines.concat())?;
    folder
        .run("dedup a.jsonl.gz c.jsonl --output good.jsonl")?
        .expect(2);
    assert!(folder.path("good.jsonl").exists());
    fs::write(&input, &whole)?;
    done!("dedup", &input, "--output", &output);
    assert!(!gunzip(&output)?.is_empty());
    Ok(())
}

#[test]
fn what_cannot_be_done_is_told() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("a.tsv", "a\tone two\n")?;
    let output = folder.path("out.tsv");
    let piped = run_with_input(&mut program!("dedup - -o", &output), b"a\tone two\n")?;
    piped.refused("it can be read only once, but has to be read twice");
    run!("dedup", folder.path("none"), "-o", &output).refused("no such file");
    run!("dedup", &input, "-o", &output, "--unit sentence").refused("records are taken whole");
    run!("dedup", &input).refused("--output");
    run!("dedup", &input, "-o", folder.path("no/such/folder/out")).refused("cannot be made");
    done!(
        "dedup",
        bundled("pg-docs-html/docs.jsonl.gz"),
        "-o",
        &output
    )
    .begins("368 records: 138 kept, 230 removed");
    Ok(())
}

/// Once such inputs counted as not read, and were missing from the output without a word.
#[test]
fn inputs_of_which_nothing_can_be_judged_survive() -> TestResult {
    let folder = Folder::new()?;
    let bad = "{\"id\":1}\n{\"id\":2,\"text\":\n";
    let (first, second) = (
        folder.file("a.jsonl", bad)?,
        folder.file("b.jsonl", "{\"text\":\"a few words\"}\n")?,
    );
    let output = folder.path("clean.jsonl");
    done!("dedup", &first, &second, "-o", &output, "--json")
        .counts(["records", "rejected"], [3, 2]);
    assert_eq!(
        fs::read_to_string(&output)?,
        format!("{bad}{{\"text\":\"a few words\"}}\n")
    );
    fs::create_dir(folder.path("in"))?;
    let long = "many words ".repeat(5_000);
    for (name, text) in [("in/a.txt", &long), ("in/b.txt", &"a b c".to_owned())] {
        folder.file(name, text)?;
    }
    let nothing = folder.path("nothing.jsonl");
    run!("dedup", &first, "-o", &nothing).refused("no record could be judged");
    assert_eq!(fs::read_to_string(&nothing)?, bad);
    let database = folder.path("known.simdb");
    for again in [None, Some("--again")] {
        let output = folder.path(if again.is_some() { "again" } else { "once" });
        let mut command = program!(
            "dedup",
            folder.path("in"),
            "-o",
            &output,
            "--max-record 20k"
        );
        assert!(
            command
                .arg("--database")
                .arg(&database)
                .args(again)
                .status()?
                .success()
        );
        assert!(fs::read_to_string(output.join("a.txt"))? == long);
    }
    // What was not judged was not cleaned either, so the right command reads it.
    fs::remove_file(folder.path("in/b.txt"))?;
    let output = folder.path("mended");
    done!(
        "dedup",
        folder.path("in"),
        "-o",
        &output,
        "--database",
        &database
    );
    assert!(fs::read_to_string(output.join("a.txt"))? == long);
    Ok(())
}

/// The database was created where the result was to be. All was done, and the result did not get its name.
#[test]
fn a_database_is_no_result_and_in_none() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("in.txt", "some words")?;
    let (taken, output) = (folder.path("taken"), folder.path("out"));
    let empty = folder.path("empty");
    fs::create_dir(&empty)?;
    let same = "two results cannot have the same name";
    let mut trials = vec![
        (vec!["-o".into(), taken.clone()], taken.clone(), same),
        (
            vec![
                "-o".into(),
                output.clone(),
                "--removed".into(),
                taken.clone(),
            ],
            taken.clone(),
            same,
        ),
        (
            vec![
                "-o".into(),
                output.clone(),
                "--report".into(),
                taken.clone(),
            ],
            folder.path("empty/../taken"),
            same,
        ),
        (
            vec!["-o".into(), output.clone()],
            folder.path("out.dedup"),
            same,
        ),
        (
            vec!["-o".into(), output.clone()],
            folder.path("out.dedup/known.simdb"),
            "name a place outside",
        ),
        (
            vec!["-o".into(), empty.clone()],
            folder.path("empty/known.simdb"),
            "name a place outside",
        ),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(".", folder.path("link"))?;
        let by_link = folder.path("link/taken");
        trials.push((vec!["-o".into(), taken.clone()], by_link, same));
    }
    for (results, database, reason) in &trials {
        let mut command = program!("dedup", &input, ..results, "--database", database);
        let ran = Ran::from(command.stdin(Stdio::null()).output()?);
        ran.refused(reason);
        for made in [&taken, &output, database, &folder.path("taken.dedup")] {
            assert!(!made.exists(), "{results:?} {database:?}: {made:?}");
        }
    }
    // Nobody is told to delete a database that is there.
    drop(folder.database("taken")?);
    let ran = run!("dedup", &input, "-o", &taken, "--database", &taken);
    ran.refused(same);
    assert!(taken.exists());
    let at_work = folder.path("out.dedup");
    let ran = run!("dedup", &input, "-o", &output, "--removed", &at_work);
    ran.refused("the folder for the work has this name");
    Ok(())
}

#[test]
fn a_cleaning_of_no_inputs_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let output = folder.path("out");
    let nothing: [&Path; 0] = [];
    assert_error!(Dedup::new(nothing, &output).run(|_event| {}) => Error::Input { .. });
    assert!(!output.exists());
    Ok(())
}

/// Once a folder was listed twice, and what the run itself had written in between moved all later records by one.
#[test]
fn results_have_to_be_where_they_are_no_inputs_and_can_be_written() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir_all(folder.path("in/deep"))?;
    for name in ["a", "b", "c"] {
        folder.file(&format!("in/{name}.txt"), format!("the words of {name}"))?;
    }
    let (input, output) = (folder.path("in"), folder.path("out"));
    for inside in ["in/clean", "in/deep/clean", "in/deep/../clean"] {
        run!("dedup", &input, "-o", folder.path(inside)).refused("which is an input");
    }
    folder
        .run("dedup in -o out --removed in/r")?
        .refused("which is an input");
    folder
        .run("dedup in -o out --removed no/r")?
        .refused("no/r");
    let same = folder.path("r");
    folder
        .run("dedup in -o out --removed r --report r")?
        .refused("two results cannot have the same name");
    // Each was made, and then it was said that it exists already.
    for result in ["--removed", "--report"] {
        run!(
            "dedup",
            &input,
            "-o",
            &output,
            result,
            &same,
            "--rejected",
            &same
        )
        .refused("choose another file for the rejected records");
    }
    // All the work was done, and then the directory could not be replaced.
    folder
        .run("dedup in -o .")?
        .refused("a new name is wanted here");
    run!("dedup", &input, "-o", folder.path("in/..")).refused("a new name is wanted here");
    folder
        .run("dedup in -o out --sketch 0 --min-similarity 0.8")?
        .refused("no sketches are to be made");
    for rejected in ["in/a.txt", "in/rejected"] {
        let refused = run!(
            "dedup",
            &input,
            "-o",
            &output,
            "--rejected",
            folder.path(rejected)
        );
        refused.refused("is one of the inputs");
    }
    run!("dedup", &input, "-o -").refused("a file is wanted here");
    // Once the message had an empty name before it.
    run!("dedup", &input, "--list --unit sentence").refused("in: records are taken whole");
    // Their names would say that they are packed, and they are not.
    for option in ["--removed", "--rejected"] {
        run!("dedup", &input, "-o", &output, option, folder.path("l.gz"))
            .refused("written as plain text");
    }
    assert_eq!(folder.count()?, 1);
    assert_eq!(fs::read_dir(&input)?.count(), 4);
    let file = folder.path("in/a.txt");
    let lines = folder.file("l.jsonl", "{}\n")?;
    run!("dedup", &lines, "-o", folder.path("l.parquet")).refused("give it another name");
    #[cfg(unix)]
    {
        fs::create_dir(folder.path("empty"))?;
        std::os::unix::fs::symlink(folder.path("empty"), folder.path("link"))?;
        run!("dedup", &input, "-o", folder.path("link/")).refused("exists");
    }
    done!("dedup", &input, &file, &file, "-o", &output);
    Ok(())
}

#[test]
fn a_folder_of_somebody_else_stays() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("a.jsonl", "{\"text\":\"a few words\"}\n")?;
    let theirs = folder.path("out.dedup");
    fs::create_dir(&theirs)?;
    for state in ["{\"mine\":1}", "{\"version\":7}", "nonsense"] {
        fs::write(theirs.join("state.json"), state)?;
        fs::write(theirs.join("precious"), "work of years")?;
        run!("dedup", &input, "-o", folder.path("out")).refused("delete the folder");
        assert_eq!(
            fs::read_to_string(theirs.join("precious"))?,
            "work of years"
        );
    }
    fs::remove_file(theirs.join("state.json"))?;
    run!("dedup", &input, "-o", folder.path("out")).refused("something else is in the place");
    Ok(())
}

/// A run that was killed, or had no room, before it had a state was told that something else is in the place of its
/// folder.
#[test]
fn a_run_that_was_killed_at_its_very_beginning_begins_anew() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("a.jsonl", "{\"text\":\"a few words\"}\n")?;
    let (output, work) = (folder.path("out"), folder.path("out.dedup"));
    // What the beginning has made at each of its moments.
    let moments: [&[(&str, &str)]; 5] = [
        &[],
        &[("inputs.stamps", "")],
        &[("inputs.stamps", "the stamps, or a part of them")],
        &[("inputs.stamps", "the stamps"), ("state.json.new", "")],
        &[
            ("inputs.stamps", "the stamps"),
            ("state.json.new", "{\"version\":1,\"comm"),
        ],
    ];
    for files in moments {
        fs::create_dir(&work)?;
        files
            .iter()
            .try_for_each(|(name, text)| fs::write(work.join(name), text))?;
        done!("dedup", &input, "-o", &output);
        assert_eq!(fs::read(&output)?, fs::read(&input)?);
        assert!(!work.exists(), "the folder is left after {files:?}");
        fs::remove_file(&output)?;
    }
    // A folder with anything else in it is not ours.
    for name in ["state.json.old", "stamps", ".tmpAbCdEf"] {
        fs::create_dir(&work)?;
        fs::write(work.join("inputs.stamps"), "the stamps")?;
        fs::write(work.join(name), "precious")?;
        run!("dedup", &input, "-o", &output).refused("something else is in the place");
        assert_eq!(fs::read_to_string(work.join(name))?, "precious");
        assert!(work.join("inputs.stamps").exists() && !output.exists());
        fs::remove_dir_all(&work)?;
    }
    Ok(())
}

/// A record of a packed web archive is a part of its own, however long it is.
#[test]
fn a_long_record_of_a_web_archive_is_one_part() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(5);
    let mut record = |bytes: u64| {
        let body: String = (0..bytes / 8)
            .map(|_| format!("{:07} ", random.below(10_000_000)))
            .collect();
        format!(
            "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.example/{}\r\n\
             Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}\r\n\r\n",
            random.below(1_000_000),
            body.len()
        )
    };
    let records: Vec<String> = [900, 800, 9 << 20, 700, 5 << 20, 5 << 20, 600]
        .into_iter()
        .map(&mut record)
        .collect();
    let packed: Vec<Vec<u8>> = records
        .iter()
        .map(|it| gzip(it.as_bytes()))
        .collect::<io::Result<_>>()?;
    let zstd: Vec<Vec<u8>> = records
        .iter()
        .map(|it| zstd::encode_all(it.as_bytes(), 1))
        .collect::<io::Result<_>>()?;
    for (name, content) in [
        ("a.warc.gz", packed.concat()),
        ("a.warc.zst", zstd.concat()),
    ] {
        let (input, output) = (
            folder.file(name, content)?,
            folder.path(&format!("clean.{name}")),
        );
        done!("dedup", &input, "-o", &output);
        let bytes = fs::read(&output)?;
        let (mut rest, mut parts) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let mut part = String::new();
            if name.ends_with("gz") {
                flate2::bufread::GzDecoder::new(&mut rest).read_to_string(&mut part)?;
            } else {
                zstd::Decoder::with_buffer(&mut rest)?
                    .single_frame()
                    .read_to_string(&mut part)?;
            }
            parts.push(part);
        }
        assert!(parts == records, "{name}: {} parts", parts.len());
    }
    Ok(())
}

#[test]
fn a_key_for_which_there_is_no_room_is_left_out() -> TestResult {
    let folder = Folder::new()?;
    let text = "these are ten words of which none is too much";
    let lines: Vec<String> = [4_067, 4_068, 4_096, 9_000]
        .iter()
        .map(|&it| format!("{}\t{text}\n", "k".repeat(it)))
        .collect();
    let input = folder.file("a.tsv", lines.concat())?;
    let (output, list) = (folder.path("clean.tsv"), folder.path("removed"));
    done!("dedup", &input, "-o", &output, "--removed", &list, "--json")
        .counts(["removed", "rejected"], [3, 0]);
    let listed = fs::read_to_string(&list)?;
    let keys: Vec<bool> = listed
        .lines()
        .map(|it| it.starts_with("{\"input\"") && it.contains("kk"))
        .collect();
    // The survivor has its key in each line.
    assert_eq!(keys, [true; 3]);
    assert_eq!(listed.matches("\"key\"").count(), 3);
    Ok(())
}

#[test]
fn who_reads_a_few_groups_only_gets_no_error() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = (0..4_000)
        .map(|i| {
            format!(
                "{{\"text\":\"word{} and a few others in a row here\"}}\n",
                i / 2
            )
        })
        .collect();
    let input = folder.file("a.jsonl", lines)?;
    let mut child = program!("dedup", &input, "--list")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut first = [0; 10];
    child
        .stdout
        .take()
        .ok_or("no output")?
        .read_exact(&mut first)?;
    assert!(child.wait()?.success());
    Ok(())
}

/// What is stored in a database is removed from what comes later, so it has to be in an output first.
#[test]
fn the_output_is_in_place_before_anything_is_stored_in_a_database() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(17);
    let text = |i: u64, random: &mut Random| {
        let words: Vec<String> = (0..12)
            .map(|_| format!("w{}", random.below(100_000)))
            .collect();
        format!("{i}\t{}\n", words.join(" "))
    };
    let lines: String = (0..11_000).map(|i| text(i, &mut random)).collect();
    let (input, output) = (folder.file("a.tsv", &lines)?, folder.path("clean.tsv"));
    let path = folder.path("known.simdb");
    let dedup = Dedup::new([&input], &output).database(&path);
    stop_at(DedupStep::Storing, &dedup);
    assert!(fs::read_to_string(&output)? == lines && dedup.work_folder().is_dir());
    // The run ended well although there was no output any more.
    let moved = folder.path("moved");
    fs::rename(&output, &moved)?;
    let gone = dedup.run(|_| {}).map_err(|error| error.to_string());
    assert!(
        gone.as_ref()
            .is_err_and(|told| told.contains("was moved or removed since: put it back")),
        "{gone:?}"
    );
    fs::rename(&moved, &output)?;
    assert_eq!(dedup.run(|_| {})?.removed, 0);
    assert!(fs::read_to_string(&output)? == lines && !dedup.work_folder().is_dir());
    let known = Database::open(&path, &OpenOptions::new())?;
    assert_eq!(known.snapshot()?.stats()?.documents, 11_000);
    Ok(())
}

#[test]
fn an_input_that_is_changed_in_its_middle_is_told() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(23);
    let lines: String = (0..3_000)
        .map(|i| format!("{i}\t{}\n", random.text(800)))
        .collect();
    let (input, output) = (folder.file("a.tsv", &lines)?, folder.path("clean.tsv"));
    let dedup = Dedup::new([&input], &output);
    stop_at(DedupStep::Writing, &dedup);
    let mut changed = lines.clone().into_bytes();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&input, &changed)?;
    let refused = dedup.run(|_| {}).expect_err("it was changed").to_string();
    assert!(
        refused.contains("was changed after the run had begun"),
        "{refused}"
    );
    assert!(!output.exists());
    fs::remove_dir_all(dedup.work_folder())?;
    assert!(dedup.run(|_| {}).is_ok());
    Ok(())
}

/// A field `time` of somebody else, with times in milliseconds or in words, kept every record from being judged, and a
/// corpus from being cleaned. Nothing depends on the times then.
#[test]
fn a_time_that_nothing_depends_on_keeps_no_record_from_being_cleaned() -> TestResult {
    let folder = Folder::new()?;
    let text = "The harbour council met on Tuesday to decide how the old fish market should be rebuilt after the storm.";
    let times = ["1700000000000", "\"2024-01-31 10:00:00\"", "\"\"", "{}"];
    let line = |time: &str| format!("{{\"time\":{time},\"text\":\"{text}\"}}\n");
    folder.file("in.jsonl", times.map(line).concat())?;
    let clean = |more: &str| folder.run(&format!("dedup in.jsonl --json {more}"));
    clean("-o a --report report.html")?
        .expect(0)
        .counts(["kept", "removed", "rejected"], [1, 3, 0]);
    // Where they count, each is rejected by name.
    for more in ["-o b --survivor earliest", "-o c --database d.simdb"] {
        clean(more)?.refused("milliseconds").says("field `time`");
    }
    Ok(())
}

/// What could not be judged was once told as not judged, and nobody saw that it was in the output.
#[test]
fn records_that_cannot_be_judged_are_said_to_be_kept_or_are_dropped() -> TestResult {
    let folder = Folder::new()?;
    let good = |id: u32| {
        format!(
            "{{\"id\":{id},\"text\":\"{}\"}}\n",
            format!("words of {id} ").repeat(5)
        )
    };
    let bad = ["{\"id\":1}\n", "no JSON\n", "{\"id\":3,\"text\":7}\n"];
    let input = [
        &good(1),
        bad[0],
        &good(2),
        &good(1).replacen('1', "9", 1),
        bad[1],
        bad[2],
        &good(4),
    ]
    .concat();
    let path = folder.file("in.jsonl", &input)?;
    let kept = folder.path("kept.jsonl");
    done!("dedup", &path, "-o", &kept)
        .begins("7 records: 6 kept, 1 removed")
        .prints("3 kept unjudged");
    let dropped = folder.path("dropped.jsonl");
    let removed = folder.path("removed.jsonl");
    let ran = folder
        .run("dedup in.jsonl -o dropped.jsonl --drop-unjudged --removed removed.jsonl")?
        .expect(0);
    ran.begins("7 records: 3 kept, 1 removed")
        .prints("3 dropped unjudged");
    assert_eq!(
        fs::read_to_string(&dropped)?,
        [good(1), good(2), good(4)].concat()
    );
    assert_eq!(fs::read_to_string(&removed)?.lines().count(), 1);
    let names = [
        "records",
        "kept",
        "rejected",
        "kept_unjudged",
        "dropped_unjudged",
    ];
    let ran = folder
        .run("dedup in.jsonl -o j.jsonl --drop-unjudged --json")?
        .expect(0);
    ran.counts(names, [7, 3, 3, 0, 3]);
    // What was rejected in an input that is left out is not counted either.
    let (more, _) = odd_lines(500, &mut Random::new(4))?;
    let whole = gzip([bad.concat(), more.concat()].concat().as_bytes())?;
    folder.file("cut.jsonl.gz", &whole[..whole.len() / 2])?;
    let ran = folder
        .run("dedup in.jsonl cut.jsonl.gz -o beside.jsonl --drop-unjudged --json")?
        .expect(2);
    ran.counts(names, [7, 3, 3, 0, 3]);
    ran.counts(["failed_inputs"], [1]);
    // If nothing else is there, nothing is left, and the exit code tells.
    let none = folder.path("none.jsonl");
    let ran = run!(
        "dedup",
        folder.file("bad.jsonl", bad.concat())?,
        "-o",
        &none,
        "--drop-unjudged"
    )
    .expect(2);
    ran.says("no record could be judged, so none was copied");
    assert_eq!(fs::read_to_string(&none)?, "");
    Ok(())
}

/// The list of the removed records once had another name than the file for it.
#[cfg(target_os = "linux")]
#[test]
fn removed_files_whose_names_are_not_utf8_are_told_apart() -> TestResult {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let folder = Folder::new()?;
    let inputs = folder.path("in");
    fs::create_dir(&inputs)?;
    let text = "a text of several words that is long enough to be judged by anyone";
    for name in [&b"a.txt"[..], b"caf\xe8.txt", b"caf\xe9.txt"] {
        fs::write(inputs.join(OsStr::from_bytes(name)), text)?;
    }
    let (removed, report) = (folder.path("removed.jsonl"), folder.path("report.html"));
    let results = [
        "--removed".as_ref(),
        removed.as_os_str(),
        "--report".as_ref(),
        report.as_os_str(),
    ];
    done!("dedup", &inputs, "-o", folder.path("out"), ..results);
    let mut names = Vec::new();
    for line in fs::read_to_string(&removed)?.lines() {
        let object: Value = serde_json::from_str(line)?;
        names.push(
            object["input_base64"]
                .as_str()
                .ok_or("a name in base64")?
                .to_owned(),
        );
        assert!(
            object["survivor"]["input"]
                .as_str()
                .is_some_and(|it| it.ends_with("in/a.txt")),
            "{object}"
        );
    }
    names.dedup();
    assert_eq!(names.len(), 2);
    assert!(fs::read_to_string(&report)?.contains("caf\\xe8.txt"));
    Ok(())
}

/// The second was taken for the first, since nothing is known of the content of either.
#[test]
fn of_survivors_with_one_key_each_is_stored() -> TestResult {
    let folder = Folder::new()?;
    let lines = [
        r#"{"key":"a","text":"good morning"}"#,
        r#"{"key":"a","text":"good night"}"#,
        r#"{"key":"b","text":"one two three four five six seven eight nine ten"}"#,
    ];
    let input = folder.file("in.jsonl", lines.join("\n"))?;
    let database = folder.path("known.simdb");
    let output = folder.path("out.jsonl");
    done!("dedup", &input, "-o", &output, "--database", &database);
    assert_eq!(fs::read_to_string(&output)?.lines().count(), 3);
    let known = Database::open(&database, &OpenOptions::new().read_only(true))?;
    assert_eq!(known.snapshot()?.stats()?.documents, 3);
    Ok(())
}

#[test]
fn a_result_within_another_is_refused_before_any_work() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir(folder.path("in"))?;
    folder.file(
        "in/a.txt",
        "one two three four five six seven eight nine ten",
    )?;
    let output = folder.path("out");
    fs::create_dir(&output)?;
    for option in ["--removed", "--report"] {
        let within = output.join("a.txt");
        run!("dedup", folder.path("in"), "-o", &output, option, &within).refused("would be in");
        assert_eq!(folder.count()?, 2, "{option}");
        assert_eq!(fs::read_dir(&output)?.count(), 0, "{option}");
    }
    Ok(())
}

/// It was known when all was done. Then an empty directory of that name was gone, and the command could not go on.
#[test]
fn a_list_in_the_place_of_a_directory_is_refused_before_any_work() -> TestResult {
    let folder = Folder::new()?;
    let text = "one two three four five six seven eight nine ten";
    folder.file("in.jsonl", format!("{{\"text\":\"{text}\"}}\n"))?;
    fs::create_dir(folder.path("there"))?;
    for option in ["--removed", "--report"] {
        for name in ["there", "there/", "there/.", "missing/", "missing/."] {
            folder
                .run(&format!("dedup in.jsonl -o out.jsonl {option} {name}"))?
                .refused("it is the name of a directory");
            assert_eq!(folder.count()?, 2, "{option} {name}");
        }
    }
    for (number, name) in ["there", "there/", "there/."].into_iter().enumerate() {
        fs::create_dir_all(folder.path("there"))?;
        folder
            .run(&format!(
                "dedup in.jsonl -o {name} --removed {number}.jsonl"
            ))?
            .expect(0);
        assert!(folder.path("there/in.jsonl").exists(), "{name}");
        fs::remove_dir_all(folder.path("there"))?;
    }
    folder.run("dedup in.jsonl -o new/.")?.expect(0);
    assert!(folder.path("new/in.jsonl").exists());
    Ok(())
}

/// With `shortest-key`, a record without a key survived, as one with the shortest.
#[test]
fn an_empty_key_of_a_table_is_none() -> TestResult {
    let folder = Folder::new()?;
    let text = "one two three four five six seven eight nine ten";
    let input = folder.file("in.tsv", format!("\t{text}\na\t{text}\n"))?;
    let output = folder.path("out.tsv");
    done!("dedup", &input, "-o", &output, "--survivor shortest-key");
    assert_eq!(fs::read_to_string(&output)?, format!("a\t{text}\n"));
    Ok(())
}

#[test]
fn a_folder_of_which_nothing_survives_is_an_empty_folder() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("known.simdb");
    for name in ["first", "second"] {
        fs::create_dir(folder.path(name))?;
        folder.file(
            &format!("{name}/a.txt"),
            "one two three four five six seven eight nine ten",
        )?;
        let output = folder.path(&format!("{name}.out"));
        done!(
            "dedup",
            folder.path(name),
            "-o",
            &output,
            "--database",
            &database
        );
        let files = fs::read_dir(&output)?.count();
        assert_eq!(files, usize::from(name == "first"), "{name}");
    }
    Ok(())
}

/// A command with other settings removed what another was about to work in.
#[cfg(unix)]
#[test]
fn a_run_that_has_hardly_begun_is_at_work_too() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file(
        "in.jsonl",
        r#"{"key":"a","text":"one two three four five six"}"#,
    )?;
    let output = folder.path("out.jsonl");
    let work = folder.path("out.jsonl.dedup");
    fs::create_dir(&work)?;
    let lock = fs::File::open(&work)?;
    lock.try_lock()?;
    run!("dedup", &input, "-o", &output).refused("another run is at work");
    assert!(work.exists() && !output.exists());
    drop(lock);
    done!("dedup", &input, "-o", &output);
    Ok(())
}

/// They met only when all was compared, and nothing could mend that.
#[test]
fn inputs_that_would_get_one_place_are_refused_before_the_work() -> TestResult {
    let folder = Folder::new()?;
    for below in ["data/x", "other/data", "other/x/data", "third"] {
        fs::create_dir_all(folder.path(below).parent().ok_or("no folder")?)?;
        fs::write(folder.path(below), "a\tsome words\n")?;
    }
    for inputs in ["data other/data", "other/data data"] {
        folder
            .run(&format!("dedup {inputs} --output out"))?
            .refused("two inputs have this name");
        assert!(!folder.path("out.dedup").exists());
    }
    folder
        .run("dedup data third other/x --output out")?
        .expect(0);
    Ok(())
}

/// The names of all fields of a record came with it.
#[test]
fn the_message_on_a_record_is_short() -> TestResult {
    let folder = Folder::new()?;
    let record = format!("{{\"{}\": 1}}\n", "words of a text ".repeat(10_000));
    folder.file("in.jsonl", record)?;
    let ran = folder.run("dedup in.jsonl --output out.jsonl")?.expect(2);
    assert!(ran.err.len() < 2_000, "{}", ran.err.len());
    Ok(())
}

/// That of the first stood there twice if all failed: as that of an input, and as what ended the run.
#[test]
fn the_error_of_each_input_is_printed_once() -> TestResult {
    let folder = Folder::new()?;
    let (lines, _) = odd_lines(500, &mut Random::new(4))?;
    let whole = gzip(lines.concat().as_bytes())?;
    folder.file("a.jsonl.gz", &whole[..whole.len() / 2])?;
    folder.file("b.jsonl.gz", &whole[..whole.len() / 3])?;
    folder.file("c.jsonl", lines.concat())?;
    for (inputs, failed) in [
        ("a.jsonl.gz", 1),
        ("a.jsonl.gz b.jsonl.gz", 2),
        ("a.jsonl.gz c.jsonl", 1),
    ] {
        for command in ["--output out.jsonl", "--list"] {
            let ran = folder.run(&format!("dedup {inputs} {command}"))?.expect(2);
            let printed = ran.err.matches("cannot be read further").count();
            assert_eq!(printed, failed, "{inputs} {command}: {}", ran.err);
        }
        _ = fs::remove_file(folder.path("out.jsonl"));
        _ = fs::remove_dir_all(folder.path("out.jsonl"));
    }
    Ok(())
}
