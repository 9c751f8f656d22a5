//! Ingestion that goes on where it stopped: killed at any moment, it ends as if it had not been.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use simdb::ingest::{Event, Ingest, Ingested, InputFormat, ReadOptions, Records, Reread, Resumed};
use simdb::{Database, OpenOptions, Policy};

use crate::support::random::Random;
use crate::support::{
    Folder, Ran, TestResult, append, assert_has, assert_sound, done, external, gzip, program, run,
    run_with_input, spread, web_page,
};

/// JSON records with fingerprints of which many are near each other, some bad ones between them. With ranks, some
/// documents outrank others.
fn records(count: u64, name: &str, random: &mut Random) -> String {
    let record = |random: &mut Random, i: u64| {
        if i % 97 == 13 {
            return format!("{{\"key\":\"{name}-{i}\"}}\n");
        }
        let base = spread(random.below(count / 6 + 1));
        let bits = base ^ 1 << random.below(64) ^ 1 << random.below(64);
        // Some keys come again.
        let key = if i % 31 == 7 { random.below(i) } else { i };
        let rank = random.below(4);
        format!(
            "{{\"key\":\"{name}-{key}\",\"fingerprint\":\"{bits:016x}\",\"seen\":{i},\"rank\":{rank}}}\n"
        )
    };
    (0..count).map(|i| record(random, i)).collect()
}

/// Many small packed parts. Their ends do not meet those of lines.
fn in_parts(text: &str, pack: impl Fn(&[u8]) -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    for part in text.as_bytes().chunks(5_000) {
        packed.extend(pack(part)?);
    }
    Ok(packed)
}

fn words(random: &mut Random) -> String {
    (0..40)
        .map(|_| format!("word{} ", random.below(60)))
        .collect()
}

/// What an ingestion leaves: the documents, what it printed, and its totals.
#[derive(Debug, PartialEq)]
struct Outcome {
    documents: Vec<String>,
    lines: BTreeSet<String>,
    totals: Value,
}

impl Outcome {
    fn of(database: &Path, printed: &str) -> TestResult<Self> {
        let mut lines: Vec<&str> = printed.lines().collect();
        let mut totals: Value = serde_json::from_str(lines.pop().unwrap_or_default())?;
        // What was read by the last of several runs is less.
        totals = totals["in_all"].take();
        totals["seconds"] = Value::Null;
        let dump = done!("dump", database);
        let documents = dump.out.lines().skip(1).map(without_now).collect();
        Ok(Self {
            documents,
            lines: lines.into_iter().map(without_now).collect(),
            totals,
        })
    }
}

/// A line without the times of today, which files get that tell no time.
fn without_now(line: &str) -> String {
    let mut parts = line.split("\"seen\":");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let time = if digits < 9 { &part[..digits] } else { "now" };
        whole += &format!("\"seen\":{time}{}", &part[digits..]);
    }
    whole
}

fn ingest(database: &Path, inputs: &[impl AsRef<OsStr>], options: &str) -> Command {
    let options = options.split_whitespace();
    program!("ingest", database, ..inputs, "--max-distance 3", ..options)
}

/// Kills an ingestion again and again until it ends, and compares what it leaves with one that was not killed. Returns
/// the number of kills.
fn kill_until_it_ends(
    name: &str,
    inputs: &[PathBuf],
    options: &str,
    random: &mut Random,
) -> TestResult<u64> {
    let folder = Folder::new()?;
    let options = &format!("{options} --json");
    let whole = folder.path("whole.simdb");
    let ran = Ran::from(ingest(&whole, inputs, options).output()?).expect(0);
    let expected = Outcome::of(&whole, &ran.out)?;

    let (path, printed) = (folder.path("killed.simdb"), folder.path("printed"));
    let mut kills = 0;
    loop {
        let out = File::options().create(true).append(true).open(&printed)?;
        let length = out.metadata()?.len();
        let mut child = ingest(&path, inputs, options)
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()?;
        // A busy machine may need longer to get to its first commit.
        thread::sleep(Duration::from_millis(random.below(60 + 2 * kills)));
        if let Some(status) = child.try_wait()? {
            assert_eq!(status.code(), Some(0), "{name} after {kills} kills");
            break;
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
        // A line may have been cut by the kill. A reader of lines would pass it over.
        let text = fs::read_to_string(&printed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            fs::write(&printed, &text[..text.rfind('\n').map_or(0, |at| at + 1)])?;
        }
        assert!(
            kills < 2_000,
            "{name}: it does not go on ({length} bytes printed)"
        );
    }
    let outcome = Outcome::of(&path, &fs::read_to_string(&printed)?)?;
    assert_eq!(
        outcome.totals, expected.totals,
        "{name} after {kills} kills"
    );
    // The totals of a run that was killed at its very end are printed by each run after that.
    let is_total = |line: &&String| line.contains("\"inserted\":");
    let lines: BTreeSet<String> = outcome
        .lines
        .iter()
        .filter(|it| !is_total(it))
        .cloned()
        .collect();
    let odd: Vec<_> = lines
        .symmetric_difference(&expected.lines)
        .take(5)
        .collect();
    assert!(odd.is_empty(), "{name} after {kills} kills: {odd:#?}");
    let differ = outcome
        .documents
        .iter()
        .zip(&expected.documents)
        .find(|(a, b)| a != b);
    assert!(differ.is_none(), "{name} after {kills} kills: {differ:#?}");
    assert_eq!(
        outcome.documents.len(),
        expected.documents.len(),
        "{name} after {kills} kills"
    );
    assert_sound(&Database::open(&path, &OpenOptions::new())?)?;
    Ok(kills)
}

#[test]
fn killed_two_hundred_times_it_ends_as_if_it_had_not_been() -> TestResult {
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_nanos() as u64;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let folder = Folder::new()?;
    let text = records(6_000, "a", &mut random);
    let plain = folder.file("plain.jsonl", &text)?;
    let packed = folder.file("packed.jsonl.gz", gzip(text.as_bytes())?)?;
    let members = folder.file("members.jsonl.gz", in_parts(&text, gzip)?)?;
    let frames = folder.file(
        "frames.jsonl.zst",
        in_parts(&text, |part| zstd::encode_all(part, 1))?,
    )?;
    let second = folder.file("second.jsonl", records(3_000, "b", &mut random))?;
    let mut files = Vec::new();
    for i in 0..400 {
        files.push(folder.file(&format!("{i:03}.txt"), words(&mut random))?);
    }
    let sentences: String = (0..800)
        .map(|i| {
            let text: Vec<String> = (0..6)
                .map(|_| format!("Word{} is here too, and so on.", random.below(50)))
                .collect();
            format!(
                "{{\"key\":\"s-{}\",\"text\":\"{}\",\"seen\":{i}}}\n",
                i % 700,
                text.join(" ")
            )
        })
        .collect();
    let sentences = folder.file("sentences.jsonl", sentences)?;
    let page = |i| web_page(&format!("http://a/{}", i % 1_300), &words(&mut random));
    let archive: Vec<String> = (0..1_500).map(page).collect();
    let packed_pages = archive
        .iter()
        .map(|it| gzip(it.as_bytes()))
        .collect::<io::Result<Vec<_>>>()?
        .concat();
    let archives = [
        folder.file("a.warc.gz", packed_pages)?,
        folder.file("b.warc", archive[..700].concat())?,
    ];
    let both = [plain.clone(), second, members.clone()];
    let cases: [(&str, &[PathBuf], &str); 9] = [
        ("plain", &[plain], "--batch 20"),
        (
            "one packed part",
            &[packed],
            "--batch 30 --on-duplicate skip --touch",
        ),
        (
            "many members",
            &[members],
            "--batch 25 --on-duplicate replace --keep 2 --touch",
        ),
        ("frames of zstd", &[frames], "--batch 40"),
        ("several inputs", &both, "--batch 70 --on-duplicate replace"),
        (
            "skipping, in large batches",
            &both,
            "--batch 500 --on-duplicate skip --keep 3 --touch",
        ),
        ("many files", &files, "--batch 7"),
        ("web archives", &archives, "--batch 20 --on-duplicate skip"),
        (
            "sentences",
            &[sentences],
            "--batch 30 --unit sentence --on-duplicate skip --touch",
        ),
    ];
    let mut kills = 0;
    while kills < 200 {
        for (name, inputs, options) in cases {
            kills += kill_until_it_ends(name, inputs, options, &mut random)?;
        }
    }
    println!("{kills} kills");
    Ok(())
}

type Pack = fn(&[u8]) -> io::Result<Vec<u8>>;

fn plain(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Ok(bytes.to_vec())
}

/// Records of a web archive, with damage of all kinds between them, each in a part of its own, or all in one.
fn damaged(pages: &[String], pack: Option<Pack>) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for (i, page) in pages.iter().enumerate() {
        let page = match i % 12 {
            3 => page.replace("Content-Length: ", "Content-Length: 1"),
            7 => page.replace("Content-Length", "X-Length"),
            _ => page.clone(),
        };
        let mut part = match pack {
            Some(pack) => pack(page.as_bytes())?,
            None => page.into_bytes(),
        };
        let last = part.len() - 6;
        match i % 12 {
            5 if pack.is_some() => part[last] ^= 1,
            9 => archive.extend(b"rubbish\n"),
            11 if pack.is_some() => part.truncate(last - 20),
            _ => {}
        }
        archive.extend(part);
    }
    Ok(archive)
}

#[test]
fn behind_damage_it_goes_on_as_if_it_had_not_been_killed() -> TestResult {
    let mut random = Random::new(38);
    let page = |i| web_page(&format!("http://a/{i}"), &words(&mut random));
    let pages: Vec<String> = (0..290).map(page).collect();
    let plain = damaged(&pages, None)?;
    let folder = Folder::new()?;
    let archives = [
        folder.file("plain.warc", &plain)?,
        folder.file("one.warc.gz", gzip(&plain)?)?,
        folder.file("members.warc.gz", damaged(&pages, Some(gzip))?)?,
        folder.file(
            "frames.warc.zst",
            damaged(&pages, Some(zstd_with_checksum))?,
        )?,
    ];
    let mut random = Random::new(std::process::id().into());
    for archive in &archives {
        let inputs = std::slice::from_ref(archive);
        let name = archive.display().to_string();
        let options = "--batch 3 --on-duplicate skip";
        let mut kills = 0;
        while kills < 3 {
            kills += kill_until_it_ends(&name, inputs, options, &mut random)?;
        }
        let path = folder.path(&format!("{kills}.simdb"));
        let totals = read(&path, inputs, &format!("{options} --json"))?.last()?;
        let rejected = totals["rejected"].as_u64().unwrap_or_default();
        assert!(rejected >= 50, "{name}: {totals}");
    }
    Ok(())
}

fn zstd_with_checksum(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// A run of `ingest` over one input.
fn ran(database: &Path, inputs: &[impl AsRef<OsStr>], options: &str) -> io::Result<Ran> {
    ingest(database, inputs, options).output().map(Ran::from)
}

/// A run of `ingest` that reads what it is to read.
fn read(database: &Path, inputs: &[impl AsRef<OsStr>], options: &str) -> io::Result<Ran> {
    Ok(ran(database, inputs, options)?.expect(0))
}

/// Lines of a run without those that tell its time.
fn timeless(ran: &Ran) -> Vec<&str> {
    ran.out.lines().filter(|it| !it.contains(" s")).collect()
}

fn line(key: &str, bits: u64, rank: i64) -> String {
    format!("{{\"key\":\"{key}\",\"fingerprint\":\"{bits:016x}\",\"rank\":{rank},\"seen\":1}}\n")
}

fn keys(database: &Path) -> TestResult<Vec<String>> {
    let dump = done!("dump", database).json()?;
    let keys = dump.iter().skip(1).filter_map(|it| it["key"].as_str());
    let mut keys: Vec<String> = keys.map(str::to_owned).collect();
    keys.sort();
    Ok(keys)
}

#[test]
fn an_input_that_was_read_is_passed_over_and_read_again_only_on_demand() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("a.jsonl", records(500, "a", &mut Random::new(1)))?;
    let path = folder.path("d.simdb");
    let first = read(&path, &[&input], "")?;
    let again =
        read(&path, &[&input], "")?.says("was read to its end before, and is not read again");
    // Nothing is read, and what the input holds in all is what was read of it.
    let totals = first
        .out
        .lines()
        .last()
        .and_then(|it| it.rsplit_once(','))
        .ok_or("no totals")?
        .0;
    let told: Vec<&str> = again.out.lines().collect();
    assert!(
        told[0].starts_with("nothing new, 1 input unchanged, "),
        "{told:?}"
    );
    assert_eq!(told[1..], [format!("in all: {totals}")]);
    let sources = done!("sources", &path, "--json").object()?;
    assert_has!(sources, {"ended": true, "records": 500});
    // The same file under another path is another source.
    let copy = folder.path("b.jsonl");
    fs::copy(&input, &copy)?;
    read(&path, &[&copy], "")?;
    assert_eq!(done!("sources", &path).out.lines().count(), 2);
    done!("sources", &path, "--forget", &copy);
    assert_eq!(done!("sources", &path).out.lines().count(), 1);
    run!("sources", &path, "--forget", &copy)
        .expect(1)
        .says("no such source");
    Ok(())
}

/// A repeated `link` reported pairs in both directions. 68,684 duplicates became 102,434.
#[test]
fn reading_again_gives_the_verdicts_of_the_first_time() -> TestResult {
    for policy in ["link", "skip", "replace"] {
        let folder = Folder::new()?;
        // Without bad records and without keys that come again, the second time is like the first.
        let lines: String = (0..2_000)
            .map(|i: u64| {
                let bits = spread(i * 7 % 300) ^ 1 << (i % 64);
                line(&format!("k{i}"), bits, (i * 13 % 5) as i64)
            })
            .collect();
        let input = folder.file("a.jsonl", lines)?;
        let path = folder.path("d.simdb");
        let options = &format!("--on-duplicate {policy} --batch 100");
        let first = read(&path, &[&input], options)?;
        let stored = keys(&path)?;
        for option in ["--again", "--restart"] {
            let again = read(&path, &[&input], &format!("{options} {option}"))?;
            assert_eq!(timeless(&again), timeless(&first), "{policy} {option}");
            assert_eq!(keys(&path)?, stored, "{policy} {option}");
        }
        assert_sound(&Database::open(&path, &OpenOptions::new())?)?;
    }
    Ok(())
}

/// Q outranked nothing and was deleted later, by R. P was not stored because of Q. When the input was read once
/// more, R was there from the beginning, so Q was not stored, and P was.
#[test]
fn a_repeated_replace_ends_with_the_same_documents() -> TestResult {
    let folder = Folder::new()?;
    let (p, q, r) = (0b0000_0111, 0b0000_0000, 0b1110_0000);
    let input = folder.file(
        "a.jsonl",
        [line("q", q, 2), line("p", p, 1), line("r", r, 3)].concat(),
    )?;
    let path = folder.path("d.simdb");
    for options in ["--on-duplicate replace", "--on-duplicate replace --again"] {
        read(&path, &[&input], options)?;
        assert_eq!(keys(&path)?, ["r"], "{options:?}");
    }
    Ok(())
}

/// For each file that was read again, the records of all were read: 10,000 files took 43 seconds, and 20,000 four times
/// as long.
#[test]
fn many_files_are_read_again_about_as_fast_as_the_first_time() -> TestResult {
    const FILES: u64 = 6_000;
    let folder = Folder::new()?;
    let (path, input) = (folder.path("d.simdb"), folder.path("files"));
    fs::create_dir(&input)?;
    for number in 0..FILES {
        fs::write(
            input.join(format!("{number}.txt")),
            format!("the file of number {number}"),
        )?;
    }
    let begun = Instant::now();
    read(&path, &[&input], "")?;
    let first = begun.elapsed();
    let begun = Instant::now();
    let again = read(&path, &[&input], "--again --json")?;
    assert_eq!(again.last()?["documents"], FILES);
    assert!(
        begun.elapsed() < 10 * first + Duration::from_secs(1),
        "{first:?}"
    );
    Ok(())
}

/// A document that is skipped when it comes again keeps its place, so those after it are compared with it.
#[test]
fn what_is_skipped_when_it_is_read_again_counts_from_then_on() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file(
        "a.jsonl",
        [line("d1", 0b111, 0), line("d2", 0b1, 0)].concat(),
    )?;
    let other = folder.file("b.jsonl", line("o", 0b111_0000_0111, 0))?;
    let path = folder.path("d.simdb");
    read(&path, &[&input], "--on-duplicate skip")?;
    assert_eq!(keys(&path)?, ["d1"]);
    // It is near d1 and not near d2.
    read(&path, &[&other], "--on-duplicate link")?;
    let again = read(&path, &[&input], "--on-duplicate skip --again")?;
    assert_eq!(keys(&path)?, ["d1", "o"], "{}", again.out);
    Ok(())
}

#[test]
fn what_was_added_to_an_input_is_read_and_another_content_is_read_from_its_beginning() -> TestResult
{
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    for (name, pack) in [("a.jsonl", plain as Pack), ("a.jsonl.gz", gzip)] {
        let written = |text: &str| pack(text.as_bytes());
        let input = folder.file(
            name,
            written(&[line("a", 1 << 40, 0), line("b", 1 << 50, 0)].concat())?,
        )?;
        read(&path, &[&input], "--json")?;
        append(&input, written(&line("c", 0xff00_0000, 0))?)?;
        let grown = read(&path, &[&input], "--json")?.says("has become longer");
        grown.counts(["documents"], [1]);
        fs::write(
            &input,
            written(&[line("x", 1 << 41, 0), line("y", 1 << 51, 0)].concat())?,
        )?;
        let changed = read(&path, &[&input], "--json")?.says("has changed since it was read");
        changed.counts(["documents"], [2]);
        done!("sources", &path, "--forget", &input);
    }
    Ok(())
}

/// What is one document as a whole was taken for read when it had grown, and never read again.
#[test]
fn a_text_or_a_page_that_has_grown_is_read_from_its_beginning() -> TestResult {
    for (name, pack) in [
        ("a.txt", plain as Pack),
        ("a.html", plain),
        ("a.txt.gz", gzip),
        ("a.html.gz", gzip),
    ] {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let input = folder.file(name, pack(b"one two three four five six seven eight\n")?)?;
        read(&path, &[&input], "--json")?;
        let before = fs::read(&input)?;
        let added = pack(b"nine ten eleven twelve thirteen fourteen\n")?;
        fs::write(&input, [before, added].concat())?;
        let database = Database::open(&path, &OpenOptions::new())?;
        let mut records = Records::open([&input], ReadOptions::new())?;
        let resumed = records.resume(&database.snapshot()?)?;
        assert_eq!(resumed, [Resumed::Changed], "{name}");
        drop(database);
        let grown = read(&path, &[&input], "--json")?.says("has changed since it was read");
        grown.counts(["documents"], [1]);
    }
    Ok(())
}

/// The halves of its last record became two documents, or none.
#[test]
fn standard_input_with_a_name_that_has_grown_loses_no_record() -> TestResult {
    let folder = Folder::new()?;
    let long = |number: u64| {
        format!("a line that has some words, of which this is number {number}, and an end")
    };
    for (format, line) in [
        (
            "lines",
            (|number: u64, long: &str| format!("{long} of {number}\n")) as fn(u64, &str) -> String,
        ),
        ("tsv", |number, long| format!("k{number}\t{long}\n")),
        ("jsonl", |number, long| {
            format!("{{\"id\":\"k{number}\",\"text\":\"{long}\"}}\n")
        }),
    ] {
        let path = folder.path(&format!("{format}.simdb"));
        let feed = |path: &Path, input: &str| {
            let mut command = program!("ingest", path, "- --source feed --input-format", format);
            run_with_input(&mut command, input.as_bytes())
        };
        let all: String = (1..=3).map(|number| line(number, &long(number))).collect();
        let half = all.len() / 2;
        feed(&path, &all[..half])?;
        feed(&path, &all)?.expect(0);
        let whole = folder.path(&format!("{format}2.simdb"));
        feed(&whole, &all)?.expect(0);
        let key = if format == "lines" { "feed:2" } else { "k2" };
        let grown = done!("get", &path, key, "--json").object()?;
        let whole = done!("get", &whole, key, "--json").object()?;
        assert_eq!(grown["fingerprint"], whole["fingerprint"], "{format}");
    }
    let path = folder.path("text.simdb");
    let feed = |input: &str| {
        let mut command = program!("ingest", &path, "- --source feed --input-format text");
        run_with_input(&mut command, input.as_bytes())
    };
    feed(&long(1))?.expect(0);
    feed(&long(1))?.expect(0);
    feed(&(long(1) + &long(2)))?.refused("`--restart`");
    Ok(())
}

#[test]
fn standard_input_goes_on_under_a_name() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let lines: Vec<String> = (0..10)
        .map(|i: u64| line(&format!("k{i}"), i << 30, 0))
        .collect();
    let feed = |input: &str, options: &[&str]| {
        let mut command = program!("ingest", &path, "- --json --max-distance 0", ..options);
        run_with_input(&mut command, input.as_bytes())
    };
    let named = ["--source", "feed"];
    let read = |input: &str, options: &[&str], count: u64| -> TestResult {
        let totals = feed(input, options)?.expect(0).last()?;
        assert_eq!(totals["documents"], count, "{input} {options:?}");
        Ok(())
    };
    read(&lines[..4].concat(), &named, 4)?;
    // What was read is passed over.
    read(&lines.concat(), &named, 6)?;
    let sources = done!("sources", &path, "--json").object()?;
    assert_has!(sources, {"source": "feed", "line": 10});
    feed(&line("other", 7, 0), &named)?.refused("--restart");
    read(&line("other", 7, 0), &["--source", "feed", "--restart"], 1)?;
    // Without a name it is read as it comes.
    for _ in 0..2 {
        read(&lines.concat(), &[], 10)?;
    }
    run!("ingest", &path, "a b --source x").expect(2);
    Ok(())
}

#[test]
fn the_places_of_sources_are_in_copies_too() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("a.jsonl", records(300, "a", &mut Random::new(3)))?;
    let (path, copy) = (folder.path("d.simdb"), folder.path("copy.simdb"));
    read(&path, &[&input], "")?;
    let sources = done!("sources", &path, "--json").out;
    done!("backup", &path, &copy);
    done!("compact", &path);
    for path in [&path, &copy] {
        assert_eq!(done!("sources", path, "--json").out, sources);
        read(path, &[&input], "")?.says("is not read again");
        done!("check", path);
    }
    Ok(())
}

/// One reading had 92 near-duplicates, and the input given twice 232, in both directions.
#[test]
fn an_input_that_is_given_twice_is_read_once() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir(folder.path("sub"))?;
    let input = folder.file("sub/a.jsonl", records(300, "a", &mut Random::new(5)))?;
    let path = folder.path("d.simdb");
    let first = read(&path, &[&input], "--json")?;
    let dotted = folder.path("sub/../sub/a.jsonl");
    let mut others = vec![vec![&input, &dotted], vec![&dotted, &input, &input]];
    let (directory, link) = (folder.path("sub"), folder.path("link.jsonl"));
    others.push(vec![&directory, &input]);
    if cfg!(unix) {
        #[cfg(unix)]
        std::os::unix::fs::symlink(&input, &link)?;
        others.push(vec![&input, &link]);
    }
    for (number, inputs) in others.iter().enumerate() {
        let other = folder.path(&format!("{number}.simdb"));
        let twice = read(&other, &[inputs[0]], "--json")?;
        assert_eq!(twice.out.lines().count(), first.out.lines().count());
        let again = folder.path(&format!("again-{number}.simdb"));
        let both = read(&again, inputs, "--json")?.says("is read once");
        for field in ["documents", "duplicates", "inserted", "replaced"] {
            assert_eq!(
                both.last()?[field],
                first.last()?[field],
                "{field} of {inputs:?}"
            );
        }
        assert_eq!(done!("sources", &again).out.lines().count(), 1);
    }
    Ok(())
}

/// A was not stored at first, and stored later, when it came again. When the input was read once more, it counted from
/// its first record on.
#[test]
fn a_key_that_comes_twice_counts_from_the_record_that_stored_it() -> TestResult {
    let (x, y) = (0b111, 0xff << 40);
    let plain = [
        line("b", x, 0),
        line("a", x, 0),
        line("c", y, 0),
        line("a", y, 1),
    ]
    .concat();
    let mut random = Random::new(9);
    let many: String = (0..3_000)
        .map(|i| {
            let key = if i % 17 == 4 { random.below(i + 1) } else { i };
            let bits = spread(random.below(400)) ^ 1 << random.below(64);
            line(&format!("k{key}"), bits, random.below(4) as i64)
        })
        .collect();
    for (records, batch) in [(&plain, "100"), (&many, "100"), (&many, "1000")] {
        for policy in ["link", "skip", "replace"] {
            let folder = Folder::new()?;
            let input = folder.file("a.jsonl", records)?;
            let path = folder.path("d.simdb");
            let options = &format!("--on-duplicate {policy} --batch {batch}");
            let first = read(&path, &[&input], options)?;
            let stored = keys(&path)?;
            for option in ["--again", "--restart", "--again"] {
                let again = read(&path, &[&input], &format!("{options} {option}"))?;
                assert_eq!(timeless(&again), timeless(&first), "{policy} {option}");
                assert_eq!(keys(&path)?, stored, "{policy} {option}");
            }
        }
    }
    Ok(())
}

/// What the same run had stored from later inputs counted when only the first input was read once more.
#[test]
fn reading_one_of_several_inputs_again_gives_the_verdicts_of_the_first_time() -> TestResult {
    let folder = Folder::new()?;
    let lines = |name: &str, step: u64| -> String {
        let bits = |i: u64| spread(i * step % 300) ^ 1 << (i % 64);
        (0..1_000)
            .map(|i| line(&format!("{name}{i}"), bits(i), 0))
            .collect()
    };
    let (a, b) = (
        folder.file("a.jsonl", lines("a", 7))?,
        folder.file("b.jsonl", lines("b", 11))?,
    );
    let path = folder.path("d.simdb");
    let first = read(&path, &[&a, &b], "")?;
    let of = |ran: &Ran, name: char| -> Vec<String> {
        let lines = ran.out.lines().filter(|it| it.starts_with(name));
        lines.map(str::to_owned).collect()
    };
    for (input, name) in [(&a, 'a'), (&b, 'b')] {
        let again = read(&path, &[input], "--again")?;
        assert!(of(&again, name) == of(&first, name), "{name}");
    }
    Ok(())
}

/// While an input is read again, what the first reading and those after it had stored does not count yet. When the
/// input grew later, that did not count for its new records either.
#[test]
fn what_is_added_behind_a_second_reading_is_compared_with_all_that_is_stored() -> TestResult {
    let added = line("added", 0xff_0001, 0);
    for policy in ["link", "skip", "replace"] {
        let options = &format!("--on-duplicate {policy} --json");
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let input = folder.file("a.jsonl", line("a", 1 << 40, 0))?;
        let other = folder.file("b.jsonl", line("b", 0xff_0000, 0))?;
        read(&path, &[&input, &other], options)?;
        read(&path, &[&input], &format!("{options} --again"))?;
        append(&input, &added)?;
        let grown = read(&path, &[&input], options)?;
        grown.counts(["duplicates"], [1]);

        // Of standard input, what it has no more is stored all the same.
        let feed = |text: &str, restarts: bool| {
            let restart = if restarts { "--restart" } else { "" };
            let options = format!("{options} --source feed {restart}");
            run_with_input(
                &mut ingest(&folder.path("feed.simdb"), &["-"], &options),
                text.as_bytes(),
            )
        };
        feed(&line("b", 0xff_0000, 0), false)?.expect(0);
        let other = line("c", 1 << 50, 0);
        feed(&other, true)?.expect(0);
        let grown = feed(&(other + &added), false)?.expect(0);
        grown.counts(["duplicates"], [1]);

        // One that cannot be read to its end the second time keeps nothing from being compared with others.
        let path = folder.path("failed.simdb");
        let whole = gzip(line("a", 1 << 40, 0).as_bytes())?;
        let input = folder.file("a.jsonl.gz", &whole)?;
        let other = folder.file("b.jsonl", line("b", 0xff_0000, 0))?;
        read(&path, &[&input, &other], options)?;
        fs::write(&input, &whole[..whole.len() - 3])?;
        ran(&path, &[&input], &format!("{options} --again"))?.expect(2);
        let added = folder.file("c.jsonl", &added)?;
        let new = ran(&path, &[&input, &added], options)?.expect(2);
        new.counts(["duplicates"], [1]);
    }
    Ok(())
}

/// An input that could not be opened when its turn came was forgotten, and what it had been counted for was counted
/// once more. So was one that was read in a wrong way.
#[test]
fn an_input_that_cannot_be_read_again_just_now_keeps_what_is_known_of_it() -> TestResult {
    let folder = Folder::new()?;
    let (a, twin, x) = (
        line("a", 0b1, 0),
        line("twin", 0b11, 0),
        line("x", 0xffff_0000, 0),
    );
    let (input, other) = (folder.path("a.jsonl"), folder.file("x.jsonl", x)?);
    let ingest = |database: &Database,
                  inputs: &[&PathBuf],
                  format,
                  reread,
                  is_there: bool|
     -> TestResult<Ingested> {
        fs::write(&input, [&a[..], &twin].concat())?;
        let records = Records::open(inputs, ReadOptions::new().format(format))?;
        let ingest = Ingest::new(database).reread(reread);
        let ingest = ingest.policy(Policy::skip().near(3).touch(true));
        Ok(ingest.run(records, |event| {
            // It is told how all are read before the first one is.
            if matches!(event, Event::Source { .. }) && !is_there {
                _ = fs::remove_file(&input);
            }
            ControlFlow::Continue(())
        })?)
    };
    for (reread, format, is_there) in [
        (Reread::Ended, InputFormat::Jsonl, false),
        (Reread::All, InputFormat::Jsonl, false),
        (Reread::Ended, InputFormat::Tsv, true),
    ] {
        let path = folder.path(&format!("{reread:?}-{is_there}.simdb"));
        let database = Database::create(&path, &external())?;
        let jsonl = InputFormat::Jsonl;
        let first = ingest(&database, &[&other, &input], jsonl, Reread::Nothing, true)?;
        assert_eq!((first.now.documents, first.now.duplicates), (3, 1));
        // It is no run that was stopped. So everything is read again each time.
        for _ in 0..2 {
            let again = ingest(&database, &[&other, &input], format, reread, is_there)?;
            let read = u64::from(!is_there);
            assert_eq!(again.now.documents, read, "{reread:?} {format:?}");
            assert_eq!(again.failed, u64::from(!is_there));
        }
        let back = ingest(&database, &[&input], jsonl, Reread::Nothing, true)?;
        let read = (back.now.documents, back.now.duplicates);
        assert_eq!(read, (2, 1), "{reread:?} {format:?}");
        let stored = database.snapshot()?.get("a")?.ok_or("it is stored")?;
        assert_eq!(stored.repeats(), 1, "{reread:?} {format:?}");
    }
    Ok(())
}

/// What is ignored while one input is read again was ignored while those after it were read, too. So a record that is
/// near to one of an input that was not given any more was stored as new.
#[test]
fn what_is_ignored_for_an_input_counts_for_those_behind_it() -> TestResult {
    for policy in ["link", "skip", "replace"] {
        for batch in ["1", "1000"] {
            let folder = Folder::new()?;
            let path = folder.path("d.simdb");
            let a = folder.file("a.jsonl", line("a", 0xff << 40, 0))?;
            let b = folder.file("b.jsonl", line("b", 0xff_0000, 0))?;
            let records = [
                line("c", 0xff_0001, 0),
                line("d", 0xff << 50, 0),
                line("e", 0x1ff << 50, 0),
            ];
            let c = folder.file("c.jsonl", records.concat())?;
            let f = folder.file("f.jsonl", line("f", 0xff_0011, 0))?;
            let duplicates = |inputs: &[&PathBuf], option: &str| -> TestResult<Value> {
                let options = format!("--on-duplicate {policy} --json --batch {batch} {option}");
                Ok(read(&path, inputs, &options)?.last()?["duplicates"].take())
            };
            assert_eq!(duplicates(&[&a, &b, &c], "")?, 2, "{policy}");
            let stored = keys(&path)?;
            // The first time, c was near to b, and e near to d.
            for option in ["--again", "--restart"] {
                assert_eq!(duplicates(&[&a, &c], option)?, 2, "{policy} {option}");
                assert_eq!(keys(&path)?, stored, "{policy} {option}");
            }
            assert_eq!(duplicates(&[&a, &f], "--again")?, 1, "{policy} {batch}");
        }
    }
    Ok(())
}

/// Each read the same records, and counted them twice: of a job that was started while the one before was at work, and
/// of a command that was begun again before the process that has the database open had ended the first.
#[test]
fn ingestions_of_one_input_at_once_leave_what_one_leaves() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("in.jsonl", records(4_000, "page", &mut Random::new(7)))?;
    let policy = Policy::skip().touch(true);
    let mut left = Vec::new();
    for threads in [1, 3] {
        let path = folder.path(&format!("{threads}.simdb"));
        let database = Database::create(&path, &external())?;
        let ingest = || -> simdb::Result<Ingested> {
            let records = Records::open([&input], ReadOptions::new())?;
            let ingest = Ingest::new(&database).policy(policy.clone()).batch(100);
            ingest.run(records, |_| ControlFlow::Continue(()))
        };
        let inserted = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(ingest)).collect();
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            ended
                .map(|ended| Ok(ended?.now.inserted))
                .sum::<simdb::Result<u64>>()
        })?;
        let snapshot = database.snapshot()?;
        let repeats = snapshot.documents().map(|document| Ok(document?.repeats()));
        let repeats = repeats.sum::<simdb::Result<u64>>()?;
        left.push((inserted, snapshot.stats()?.documents, repeats));
    }
    assert_eq!(left[0], left[1]);
    // Who would wait for itself is told so.
    let database = Database::open(folder.path("1.simdb"), &OpenOptions::new())?;
    let within = Records::open([&input], ReadOptions::new())?;
    let mut within = Some(within);
    let mut refused = None;
    let outer = Records::open([&input], ReadOptions::new())?;
    Ingest::new(&database).reread(Reread::All).run(outer, |_| {
        if let Some(records) = within.take() {
            refused = Ingest::new(&database)
                .run(records, |_| ControlFlow::Continue(()))
                .err();
        }
        ControlFlow::Continue(())
    })?;
    let is_told = matches!(refused, Some(simdb::Error::WouldDeadlock));
    assert!(is_told, "{refused:?}");
    Ok(())
}

/// The line was stored, or had stored nothing, and went or was counted as if it were the other. A document of its key
/// that came before it was lost then, without a word.
#[test]
fn a_last_line_that_is_read_again_takes_away_and_counts_only_what_it_has_left() -> TestResult {
    let texts = [
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu",
        "one two three four five six seven eight nine ten eleven twelve",
    ];
    // The third line has the key of the first and the text of the second, the last one that text and no key of others.
    let lines = [("a", 0), ("b", 1), ("a", 1), ("c", 1)]
        .map(|(key, text)| format!("{key}\t{}\n", texts[text]));
    let whole = lines.concat();
    let ends = [
        lines[..2].concat().len(),
        lines[..3].concat().len(),
        whole.len(),
    ];
    for policy in ["--on-duplicate skip", "--on-duplicate skip --touch"] {
        let folder = Folder::new()?;
        let ingest = |database: &str| folder.run(&format!("ingest {database} in.tsv {policy}"));
        let documents = |database: &str| -> TestResult<Vec<(Value, Value)>> {
            let dump = folder.run(&format!("dump {database}"))?.expect(0).json()?;
            let documents = dump[1..]
                .iter()
                .map(|document| (document["key"].clone(), document["repeats"].clone()));
            Ok(documents.collect())
        };
        folder.file("in.tsv", &whole)?;
        ingest("fresh.simdb")?.expect(0);
        let expected = documents("fresh.simdb")?;
        assert_eq!(expected.len(), 2, "{expected:?}");
        // The line lacks its end; or half of its words, so that it is near to nothing yet.
        for (at, end) in ends.into_iter().enumerate() {
            // Half of a line with the key of an earlier one takes its place, as a whole line would.
            let halves = if at == 1 { &[1][..] } else { &[1, 30] };
            for missing in halves {
                let name = format!("grown-{at}-{missing}.simdb");
                for length in [end - missing, end, whole.len()] {
                    folder.file("in.tsv", &whole[..length])?;
                    ingest(&name)?.expect(0);
                }
                assert_eq!(documents(&name)?, expected, "{policy}, {name}");
            }
        }
    }
    Ok(())
}
