//! Damaged packed inputs: whatever is flipped, cut or put between, nothing is lost without a word.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use simdb::Scheme;
use simdb::ingest::{Fingerprinting, ReadOptions, Record, Records};

use crate::support::{Folder, TestResult, done, gzip, run, web_page};

/// What a reading of an input brings.
#[derive(Debug, Default)]
struct Brought {
    records: Vec<String>,
    rejected: usize,
    error: Option<String>,
}

impl Brought {
    fn of(input: &Path) -> Self {
        let mut brought = Self::default();
        if let Err(error) = brought.read(input) {
            brought.error = Some(error.to_string());
        }
        brought
    }

    fn read(&mut self, input: &Path) -> simdb::Result<()> {
        let rule = Fingerprinting::new(Scheme::Minwise1, None)?;
        let mut records = Records::open([input], ReadOptions::new())?;
        loop {
            let chunk = records.next_chunk(|record: Record| {
                let text = record.text(rule).map(Cow::into_owned);
                record
                    .into_document(rule)
                    .map(|document| format!("{document:?} {text:?}"))
            })?;
            if chunk.is_empty() {
                return Ok(());
            }
            for record in chunk {
                match record {
                    Ok(record) => self.records.push(record),
                    // An input that cannot be read further does not end the reading of others.
                    Err(rejected) if rejected.to_string().contains("cannot be read") => {
                        self.error = Some(rejected.to_string());
                    }
                    Err(_) => self.rejected += 1,
                }
            }
        }
    }

    /// Whether what is missing of a whole reading was told.
    fn is_whole_or_told(&self, whole: &Self) -> bool {
        self.error.is_some() || self.rejected > 0 || self.records == whole.records
    }
}

/// As the program zstd does.
fn zstd(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// It has a time of its own. Without one, it would have that of the reading.
fn line(i: usize) -> Vec<u8> {
    format!(
        "{{\"key\":\"k{i}\",\"seen\":{i},\"text\":\"some words of the text with number {i} and {}\"}}\n",
        i * 7919
    )
    .into_bytes()
}

fn page(i: usize) -> Vec<u8> {
    let text = format!("Page {i} has words, and {}", i * 7919);
    web_page(&format!("http://a/{i}"), &text).into_bytes()
}

type Pack = fn(&[u8]) -> io::Result<Vec<u8>>;
type MakeRecord = fn(usize) -> Vec<u8>;

/// Four records, each packed by itself.
fn parts(record: MakeRecord, pack: Pack) -> io::Result<Vec<Vec<u8>>> {
    (1..=4).map(|i| pack(&record(i))).collect()
}

const INPUTS: [(&str, MakeRecord, Pack); 4] = [
    ("a.jsonl.gz", line, gzip),
    ("a.jsonl.zst", line, zstd),
    ("a.warc.gz", page, gzip),
    ("a.warc.zst", page, zstd),
];

/// An error within the first 4,096 unpacked bytes was met while the format was looked for, and lost.
#[test]
fn a_flipped_or_missing_byte_never_loses_a_record_without_a_word() -> TestResult {
    let folder = Folder::new()?;
    for (name, record, pack) in INPUTS {
        let parts = parts(record, pack)?;
        let whole = parts.concat();
        let input = folder.file(name, &whole)?;
        let good = Brought::of(&input);
        assert_eq!(
            (good.records.len(), good.rejected, &good.error),
            (4, 0, &None),
            "{name}"
        );
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= if at % 2 == 0 { 0x01 } else { 0xff };
            fs::write(&input, &flipped)?;
            let brought = Brought::of(&input);
            assert!(
                brought.is_whole_or_told(&good),
                "{name}: byte {at} flipped: {brought:?}"
            );
            // Of an archive, only the record is lost.
            let is_archive = name.contains("warc") && brought.error.is_none();
            assert!(
                !is_archive || brought.records.len() >= 3,
                "{name}: byte {at} flipped: {brought:?}"
            );
            let is_exact = brought.records.iter().all(|it| good.records.contains(it));
            assert!(
                is_exact || brought.error.is_some(),
                "{name}: byte {at} flipped: {brought:?}"
            );
        }
        let mut ends: Vec<_> = parts.iter().map(Vec::len).collect();
        (1..ends.len()).for_each(|i| ends[i] += ends[i - 1]);
        for length in 1..whole.len() {
            fs::write(&input, &whole[..length])?;
            let brought = Brought::of(&input);
            let is_told = brought.is_whole_or_told(&good) || ends.contains(&length);
            assert!(is_told, "{name}: cut at {length}: {brought:?}");
            let before = ends.iter().filter(|&&end| end <= length).count();
            assert!(
                brought.records.len() >= before,
                "{name}: cut at {length}: {brought:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn what_may_stand_between_parts_is_passed_over_and_other_bytes_are_told() -> TestResult {
    let folder = Folder::new()?;
    for (name, record, pack) in INPUTS {
        let [one, rest @ ..] = &parts(record, pack)?[..] else {
            return Err("there are four".into());
        };
        let rest = rest.concat();
        for between in [&b"\n"[..], b"\r\n\r\n", &[0; 700], b" \n"] {
            let input = folder.file(name, [&one[..], between, &rest, between].concat())?;
            let brought = Brought::of(&input);
            assert_eq!(
                (brought.records.len(), &brought.error),
                (4, &None),
                "{name} {between:?}"
            );
        }
        let input = folder.file(name, [&one[..], b"what is this?", &rest].concat())?;
        let database = folder.path(&format!("{name}.simdb"));
        let ran = run!("ingest", &database, &input, "--json");
        let place = format!(
            "at byte {}, there are bytes that are neither gzip nor zstd",
            one.len()
        );
        if name.contains("warc") {
            let ran = ran
                .expect(0)
                .says(&place)
                .says(&format!("{name}, offset {}: ", one.len()));
            ran.counts(["documents", "rejected"], [4, 1]);
            // The place is behind what was passed over.
            done!("ingest", &database, &input).says("is not read again");
        } else {
            ran.refused(&place);
        }
    }
    Ok(())
}

/// A decoder may read far into the next parts before it notices damage.
#[test]
fn behind_a_damaged_record_the_very_next_one_is_read() -> TestResult {
    let folder = Folder::new()?;
    for pack in [gzip as Pack, zstd] {
        let mut members = parts(page, pack)?;
        // Text that cannot be packed is stored, and the length of what is stored is wrong.
        let noise: Vec<u8> = (0u64..30_000)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
            .collect();
        let mut large = page(9);
        large.truncate(large.len() - 4);
        large.extend(noise);
        members[1] = pack(&large)?;
        for at in 10..60 {
            let mut whole = members.clone();
            whole[1][at] ^= 0x55;
            let input = folder.file("a.warc.gz", whole.concat())?;
            let brought = Brought::of(&input);
            let pages = brought
                .records
                .iter()
                .filter(|it| it.contains(" has words"))
                .count();
            assert!(
                pages >= 3 && brought.error.is_none() && brought.rejected >= 1,
                "byte {at}: {pages} pages"
            );
        }
    }
    Ok(())
}

#[test]
fn a_window_of_zstd_is_bounded_and_a_limit_is_no_damage() -> TestResult {
    let folder = Folder::new()?;
    let long = |bytes: &mut dyn io::Read| -> io::Result<Vec<u8>> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1)?;
        encoder.window_log(31)?;
        io::copy(bytes, &mut encoder)?;
        encoder.finish()
    };
    let lines: Vec<u8> = (0..50).flat_map(line).collect();
    let input = folder.file("a.jsonl.zst", long(&mut &lines[..])?)?;
    assert_eq!(Brought::of(&input).records.len(), 50);
    // What unpacks to thousands of times its size would fill the window.
    let input = folder.file(
        "b.jsonl.zst",
        long(&mut io::Read::take(io::repeat(b' '), 300 << 20))?,
    )?;
    let error = Brought::of(&input).error.unwrap_or_default();
    assert!(
        error.contains("wants a window of 2147483648 bytes"),
        "{error}"
    );
    assert!(
        !error.contains("damaged") && error.contains("zstd -d --long=31"),
        "{error}"
    );
    // A window that no program gives.
    let input = folder.file(
        "c.jsonl.zst",
        [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xb0, 0x01, 0x00, 0x00],
    )?;
    let error = Brought::of(&input).error.unwrap_or_default();
    assert!(
        error.contains("larger than the largest that is read"),
        "{error}"
    );
    Ok(())
}

/// They were one record, and the rest of the file was part of its text.
#[test]
fn lines_that_end_in_carriage_returns_alone_are_refused() -> TestResult {
    let folder = Folder::new()?;
    let cases = [
        ("a.tsv", "1\tone text\r2\tanother text\r", "auto"),
        ("b.tsv", "1\tone text\r\r2\tanother text", "tsv"),
        (
            "c.jsonl",
            "{\"text\": \"one\"}\r{\"text\": \"two\"}\r",
            "auto",
        ),
        ("d.txt", "one\rtwo\r", "lines"),
    ];
    for (name, lines, format) in cases {
        let input = folder.file(name, lines.as_bytes())?;
        let database = folder.path(&format!("{name}.simdb"));
        run!("ingest", &database, &input, "--input-format", format).refused("tr '\\r' '\\n'");
    }
    for (name, lines, format) in [
        ("e.tsv", "1\tone text\rof two lines\r", "auto"),
        ("f.jsonl", "{\"id\":1,\r\"text\":\"one\"}", "auto"),
        ("g.txt", "one\r", "lines"),
        ("h.txt", "one\rtwo\r\nthree", "lines"),
    ] {
        let input = folder.file(name, lines.as_bytes())?;
        let database = folder.path(&format!("{name}.simdb"));
        done!("ingest", &database, &input, "--input-format", format);
    }
    Ok(())
}

/// The key of a line of a table had 512 of them, and a line of JSON was rejected.
#[test]
fn zeros_before_a_line_are_passed_over() -> TestResult {
    let folder = Folder::new()?;
    let zeros = "\0".repeat(512);
    let table = format!("1\tone text\n{zeros}2\tanother text\n");
    let lines = format!("{{\"id\":1,\"text\":\"one\"}}\n{zeros}{{\"id\":2,\"text\":\"two\"}}\n");
    for (name, content) in [("a.tsv", table), ("b.jsonl", lines)] {
        let input = folder.file(name, content.as_bytes())?;
        let database = folder.path(&format!("{name}.simdb"));
        done!("ingest", &database, &input).prints("2 inserted");
        done!("get", &database, "2");
    }
    Ok(())
}

#[test]
fn several_objects_in_a_line_are_told() -> TestResult {
    let folder = Folder::new()?;
    for between in ["", " ", ", "] {
        let line = format!("{{\"text\":\"one\"}}{between}{{\"text\":\"two\"}}");
        let input = folder.file("a.jsonl", line.as_bytes())?;
        run!("ingest", folder.path("d.simdb"), &input).refused("jq -c .");
    }
    Ok(())
}
