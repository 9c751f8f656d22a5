//! Web archives: which records are taken, how their pages are decoded, and what is broken.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::Instant;

use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};
use serde_json::Value;

use crate::support::{Folder, Ran, TestResult, assert_has, done, figures, gzip, real_data, run};

const WORDS: &str =
    "Rain fell on the town all night and the river rose above its banks near the old mill";

fn record(kind: &str, address: &str, content_type: &str, block: &[u8]) -> Vec<u8> {
    let mut record = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {address}\r\nWARC-Date: 2014-03-25T12:12:25Z\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        block.len()
    )
    .into_bytes();
    record.extend_from_slice(block);
    record.extend_from_slice(b"\r\n\r\n");
    record
}

/// A response with these fields in its head.
fn response(address: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    record(
        "response",
        address,
        "application/http; msgtype=response",
        &[head.as_bytes(), body].concat(),
    )
}

fn html_page(address: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    response(address, "Content-Type: text/html", body.as_ref())
}

fn ingest(folder: &Folder, name: &str, bytes: &[u8]) -> TestResult<Ran> {
    let (path, input) = (
        folder.path(&format!("{name}.simdb")),
        folder.file(name, bytes)?,
    );
    Ok(run!("ingest", path, input, "--json"))
}

/// The fingerprints of the documents, by their keys.
fn fingerprints(folder: &Folder, name: &str) -> TestResult<Vec<(String, Value)>> {
    let dump = done!("dump", folder.path(&format!("{name}.simdb"))).json()?;
    let text = |it: &Value| it["key"].as_str().unwrap_or_default().to_owned();
    Ok(dump
        .iter()
        .skip(1)
        .map(|it| (text(it), it["fingerprint"].clone()))
        .collect())
}

/// The keys of the documents, in the order in which they were stored.
fn keys(folder: &Folder, name: &str) -> TestResult<Vec<String>> {
    let found = fingerprints(folder, name)?.into_iter();
    Ok(found.map(|(key, _)| key).collect())
}

/// Pages of which nothing could be read counted as empty texts, and all but one of them were removed as equal.
#[test]
fn a_page_that_cannot_be_read_is_no_empty_text() -> TestResult {
    let html = format!("<html><body><p>{WORDS}</p>");
    let response = |head: &str, body: &[u8]| {
        let whole = [head.as_bytes(), body].concat();
        record(
            "response",
            "http://a/1",
            "application/http; msgtype=response",
            &whole,
        )
    };
    let ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
    let packed = |name: &str| format!("{ok}Content-Encoding: {name}\r\n\r\n");
    let (gz, zst) = (
        gzip(html.as_bytes())?,
        zstd::encode_all(html.as_bytes(), 1)?,
    );
    let page = html.as_bytes();
    let cases = [
        (
            "as it should be",
            response(&format!("{ok}\r\n"), page),
            true,
        ),
        ("a space", response(&format!("{ok} \r\n"), page), true),
        ("a tab", response(&format!("{ok}\t\n"), page), true),
        (
            "two returns",
            response(&format!("{ok}\r\n").replace('\r', "\r\r"), page),
            true,
        ),
        (
            "a field that goes on",
            response(&format!("{ok}Link:\r\n <http://a/>\r\n\r\n"), page),
            true,
        ),
        ("no blank line", response(ok, page), false),
        (
            "returns alone",
            response(&format!("{ok}\r\n").replace('\n', ""), page),
            false,
        ),
        ("gzip", response(&packed("gzip"), &gz[..12]), false),
        (
            "zstd",
            response(&packed("zstd"), &zst[..zst.len() - 1]),
            false,
        ),
    ];
    let folder = Folder::new()?;
    for (what, record, is_read) in cases {
        let ran = run!("fingerprint", folder.file("a.warc", &record)?);
        let is_right = match is_read {
            true => ran.code == Some(0) && !ran.out.contains("too short") && !ran.out.is_empty(),
            false => ran.code == Some(2) && ran.out.is_empty(),
        };
        assert!(is_right, "{what}: {}{}", ran.out, ran.err);
    }
    Ok(())
}

#[test]
fn pages_are_taken_and_other_records_are_passed_over() -> TestResult {
    let html = format!("<html><body><p>{WORDS}</p>");
    let gone = [
        &b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"[..],
        html.as_bytes(),
    ]
    .concat();
    let records = [
        record("warcinfo", "", "application/warc-fields", b"software: test"),
        record(
            "request",
            "http://a/1",
            "application/http; msgtype=request",
            b"GET / HTTP/1.1\r\n\r\n",
        ),
        html_page("http://a/1", &html),
        record(
            "metadata",
            "http://a/1",
            "application/warc-fields",
            b"fetchTimeMs: 3",
        ),
        record(
            "revisit",
            "http://a/1",
            "application/http; msgtype=response",
            b"HTTP/1.1 200 OK\r\n\r\n",
        ),
        response("http://a/image", "Content-Type: image/png", b"\x89PNG"),
        record(
            "response",
            "http://a/gone",
            "application/http; msgtype=response",
            &gone,
        ),
        record(
            "resource",
            "<http://a/file>",
            "text/plain",
            WORDS.as_bytes(),
        ),
        record("conversion", "http://a/wet", "text/plain", WORDS.as_bytes()),
        record(
            "response",
            "http://a/headless",
            "application/http; msgtype=response",
            html.as_bytes(),
        ),
    ];
    let plain = records.concat();
    let members = records
        .iter()
        .map(|it| gzip(it))
        .collect::<io::Result<Vec<_>>>()?
        .concat();
    let frames = records
        .iter()
        .map(|it| zstd::encode_all(&it[..], 1))
        .collect::<io::Result<Vec<_>>>()?
        .concat();
    let folder = Folder::new()?;
    for (name, bytes) in [
        ("plain.warc", plain.clone()),
        ("one.warc.gz", gzip(&plain)?),
        ("many.warc.gz", members),
        ("many.warc.zst", frames),
        ("no-name", plain),
    ] {
        ingest(&folder, name, &bytes)?
            .expect(0)
            .counts(["documents", "passed_over", "rejected"], [4, 6, 0]);
        let found = fingerprints(&folder, name)?;
        let keys: Vec<_> = found.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(
            keys,
            [
                "http://a/1",
                "http://a/file",
                "http://a/wet",
                "http://a/headless"
            ],
            "{name}"
        );
        assert!(
            found.iter().all(|it| it.1 == found[0].1),
            "{name}: all have the same words"
        );
        let page = folder
            .run(&format!("get {name}.simdb http://a/1 --json"))?
            .expect(0)
            .object()?;
        assert_eq!(page["seen"], 1_395_749_545, "2014-03-25T12:12:25Z");
    }
    Ok(())
}

#[test]
fn pages_are_unpacked_and_decoded_as_they_say() -> TestResult {
    let html = format!("<html><body><p>{WORDS}</p>");
    let page = html.as_bytes();
    let chunked = format!(
        "5\r\n{}\r\n{:x};x=y\r\n{}\r\n0\r\n\r\n",
        &html[..5],
        html.len() - 5,
        &html[5..]
    );
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(page)?;
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(page)?;
    let pages = [
        ("plain", "", page.to_vec()),
        (
            "chunked",
            "Transfer-Encoding: chunked\r\n",
            chunked.into_bytes(),
        ),
        (
            "joined by the archiver",
            "Transfer-Encoding: chunked\r\n",
            page.to_vec(),
        ),
        ("gzip", "Content-Encoding: gzip\r\n", gzip(page)?),
        (
            "unpacked by the archiver",
            "Content-Encoding: gzip\r\n",
            page.to_vec(),
        ),
        ("zlib", "content-encoding: DEFLATE\r\n", zlib.finish()?),
        (
            "deflate",
            "Content-Encoding: deflate\r\n",
            deflate.finish()?,
        ),
        (
            "zstd",
            "Content-Encoding: zstd\r\n",
            zstd::encode_all(page, 3)?,
        ),
        ("not brotli", "Content-Encoding: br\r\n", page.to_vec()),
    ];
    let responses = pages.iter().map(|(name, fields, body)| {
        response(
            &format!("http://a/{}", name.replace(' ', "-")),
            &format!("{fields}Content-Type: text/html"),
            body,
        )
    });
    let folder = Folder::new()?;
    let totals = ingest(
        &folder,
        "pages.warc",
        &responses.collect::<Vec<_>>().concat(),
    )?
    .expect(0)
    .last()?;
    assert_has!(totals, {"documents": pages.len(), "rejected": 0});
    let found = fingerprints(&folder, "pages.warc")?;
    for (key, fingerprint) in &found {
        assert_eq!(*fingerprint, found[0].1, "{key}");
    }
    Ok(())
}

#[test]
fn encodings_come_from_the_head_the_page_or_a_guess() -> TestResult {
    let russian = "Дождь шёл всю ночь, и река вышла из берегов у старой мельницы, сказал мэр города в понедельник утром.";
    let chinese = "昨天夜里下了一整夜的雨，河水在老磨坊附近漫过了河岸，市长星期一早上对记者这样说道，学校今天不上课。";
    let japanese = "昨夜は一晩中雨が降り、古い水車小屋のそばで川が堤防を越えたと、市長は月曜日の朝に記者団に語りました。";
    let encoded = |label: &str, text: &str| {
        encoding_rs::Encoding::for_label(label.as_bytes())
            .map(|it| it.encode(text).0.into_owned())
            .unwrap_or_default()
    };
    let utf16: Vec<u8> = russian.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let folder = Folder::new()?;
    let html = "Content-Type: text/html";
    let mut records = Vec::new();
    for (name, label, text) in [
        ("ru", "windows-1251", russian),
        ("zh", "gb18030", chinese),
        ("ja", "shift_jis", japanese),
    ] {
        let bytes = encoded(label, text);
        let meta =
            format!("<meta http-equiv=Content-Type content='text/html; charset={label}'><p>");
        records.push(html_page(&format!("{name}-utf-8"), format!("<p>{text}")));
        records.push(response(
            &format!("{name}-head"),
            &format!("{html}; charset=\"{label}\""),
            &bytes,
        ));
        records.push(html_page(
            &format!("{name}-meta"),
            [meta.as_bytes(), &bytes].concat(),
        ));
        records.push(html_page(
            &format!("{name}-guess"),
            [b"<p>", &bytes[..]].concat(),
        ));
    }
    records.push(response(
        "ru-mark",
        &format!("{html}; charset=utf-8"),
        &[b"\xff\xfe", &utf16[..]].concat(),
    ));
    ingest(&folder, "texts.warc", &records.concat())?.expect(0);
    let found = fingerprints(&folder, "texts.warc")?;
    for (key, fingerprint) in &found {
        let of = found
            .iter()
            .find(|it| it.0 == format!("{}-utf-8", &key[..2]))
            .ok_or("it is there")?;
        assert_eq!(*fingerprint, of.1, "{key}");
    }
    assert_eq!(found.len(), 13);
    Ok(())
}

#[test]
fn broken_records_are_told_with_their_place_and_the_next_ones_are_read() -> TestResult {
    let page = |address: &str| html_page(address, WORDS);
    let good = page("http://a/1");
    let bad = page("http://a/bad");
    let too_short = String::from_utf8(bad.clone())?
        .replace("Content-Length: 1", "Content-Length: ")
        .into_bytes();
    const NO_NUMBER: &str = "has a Content-Length that is no number of bytes";
    let folder = Folder::new()?;
    for (name, bad, reason) in [
        ("no length", without_length(&bad)?, "has no Content-Length"),
        (
            "wrong length",
            too_short,
            "does not end where its Content-Length says",
        ),
        (
            "garbage",
            b"what is this\r\nand this\r\n".to_vec(),
            "there is no header of a WARC record here",
        ),
        (
            "long line",
            [&b"WARC/1.0\r\nX: "[..], &vec![b'x'; 100_000], b"\r\n"].concat(),
            "is too long: it has more than 65536 bytes",
        ),
        (
            "huge",
            with_length(&bad, "100000000000000000000")?,
            NO_NUMBER,
        ),
        ("negative", with_length(&bad, "-5")?, NO_NUMBER),
        ("twice", with_length(&bad, "5, 5")?, NO_NUMBER),
    ] {
        let bytes = [&good[..], &bad, &page("http://a/2")].concat();
        let ran = ingest(&folder, &format!("{name}.warc"), &bytes)?
            .expect(0)
            .says(reason);
        let ran = ran.says(&format!("{name}.warc, offset {}: ", good.len()));
        ran.counts(["documents", "rejected"], [2, 1]);
    }
    let cut = [&good[..], &good[..good.len() - 40]].concat();
    ingest(&folder, "cut.warc", &cut)?.expect(0).says(&format!(
        "offset {}: the WARC record ends too early; it is left for the next run",
        good.len()
    ));
    let arc = b"filedesc://a.arc 0.0.0.0 20080430204825 text/plain 77\n1 1 Internet Archive\n";
    ingest(&folder, "a.arc", arc)?.refused("old format ARC");
    Ok(())
}

/// A record with another Content-Length.
fn with_length(record: &[u8], length: impl Display) -> TestResult<Vec<u8>> {
    let text = std::str::from_utf8(record)?;
    let (before, behind) = text.split_once("Content-Length: ").ok_or("a length")?;
    let (_, behind) = behind.split_once('\r').ok_or("it is a line")?;
    Ok(format!("{before}Content-Length: {length}\r{behind}").into_bytes())
}

/// A record whose Content-Length is wrong by so many bytes.
fn with_wrong_length(record: &[u8], wrong_by: i64) -> TestResult<Vec<u8>> {
    let text = std::str::from_utf8(record)?;
    let (_, length) = text.split_once("Content-Length: ").ok_or("a length")?;
    let (length, _) = length.split_once('\r').ok_or("it is a line")?;
    with_length(record, length.parse::<i64>()? + wrong_by)
}

fn without_length(record: &[u8]) -> TestResult<Vec<u8>> {
    let text = std::str::from_utf8(record)?;
    Ok(text.replacen("Content-Length", "X", 1).into_bytes())
}

/// Pages that differ, but for the last two.
fn pages() -> Vec<Vec<u8>> {
    let page = |i: usize, text: usize| {
        // Text may have blank lines.
        let words: String = (0..60)
            .map(|word| format!("w{}\r\n\r\n", (word * 7 + 1) * (text + 3)))
            .collect();
        html_page(&format!("http://a/{i}"), words)
    };
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)]
        .map(|(i, text)| page(i, text))
        .into()
}

/// Ingests records of which the second one is `bad`, which costs at most that one, and copies them. Returns whether it
/// was rejected.
fn costs_at_most_itself(name: &str, bad: &[u8], packs: bool) -> TestResult<bool> {
    let mut records = pages();
    records[1] = bad.to_vec();
    if packs {
        records = records
            .iter()
            .map(|it| gzip(it))
            .collect::<io::Result<_>>()?;
    }
    let folder = Folder::new()?;
    let ran = ingest(&folder, "in.warc", &records.concat())?.expect(0);
    let rejected = ran.last()?["rejected"].as_u64().unwrap_or_default();
    let read = keys(&folder, "in.warc")?;
    let mut expected = [
        "http://a/0",
        "http://a/1",
        "http://a/2",
        "http://a/3",
        "http://a/4",
    ]
    .to_vec();
    if rejected > 0 {
        expected.remove(1);
        ran.says(&format!("in.warc, offset {}: ", records[0].len()));
    }
    assert!(rejected <= 1, "{name}: {rejected} are rejected");
    assert_eq!(read, expected, "{name}");
    // The copy counts records as the reading did: it leaves out the page that is there twice, and no other.
    let copy = folder.path("copy.warc");
    folder
        .run("dedup in.warc -o copy.warc --drop-unjudged")?
        .expect(0);
    let database = folder.path("copy.warc.simdb");
    let ran = done!("ingest", &database, &copy, "--json");
    assert_eq!(ran.last()?["rejected"], 0, "{name}: {}", ran.err);
    expected.pop();
    let copied = keys(&folder, "copy.warc")?;
    assert_eq!(copied, expected, "{name}");
    Ok(rejected > 0)
}

/// A length that reached a few bytes into the next record cost both.
#[test]
fn a_wrong_length_costs_at_most_its_record() -> TestResult {
    let good = &pages()[1];
    let next = pages()[2].len() as i64;
    let mut cases = vec![("none".to_owned(), without_length(good)?, true)];
    for length in ["", "12x", "-5"] {
        cases.push((format!("{length:?}"), with_length(good, length)?, true));
    }
    for by in [-2, -1, 0] {
        cases.push((by.to_string(), with_wrong_length(good, by)?, false));
    }
    // Into the first line of the next record, its header, and its blank lines; to its end, and beyond the input.
    let within = [5, 9, 10, 12, 14, 20, 33, 49, next / 2];
    let to_the_end = [next - 60, next - 59, next - 58, next - 57];
    let beyond = [next + 5, 5_000, 1_000_000_000_000];
    for by in within.into_iter().chain(to_the_end).chain(beyond) {
        cases.push((by.to_string(), with_wrong_length(good, by)?, true));
    }
    for packs in [false, true] {
        for (name, bad, is_rejected) in &cases {
            let what = format!("{name}, packed {packs}");
            assert_eq!(
                costs_at_most_itself(&what, bad, packs)?,
                *is_rejected,
                "{what}"
            );
        }
    }
    Ok(())
}

/// Whether a part of gzip has several records was told by what the same run had read before: a run that went on behind
/// a stop lost the other records of a part that begins with a broken one.
#[test]
fn a_broken_record_costs_the_same_wherever_a_run_has_stopped() -> TestResult {
    let page = |i: usize| {
        let text: String = (0..60)
            .map(|word| format!("w{} ", (word * 7 + 1) * (i + 3)))
            .collect();
        html_page(&format!("http://a/{i}"), text)
    };
    let good: Vec<_> = (0..7).map(page).collect();
    let layouts: [&[&[usize]]; 5] = [
        &[&[0, 1, 2], &[3, 4], &[5, 6]],
        &[&[0, 1], &[2, 3, 4, 5], &[6]],
        // A crawler notes its own work in a part of its own.
        &[&[0], &[1, 2, 3], &[4, 5, 6]],
        &[&[0], &[1, 2, 3, 4, 5, 6]],
        &[&[0], &[1], &[2], &[3], &[4], &[5], &[6]],
    ];
    for layout in layouts {
        for broken in layout.iter().map(|part| part[0]).filter(|&first| first > 0) {
            let bad = [
                without_length(&good[broken])?,
                with_wrong_length(&good[broken], 30)?,
                with_wrong_length(&good[broken], -30)?,
                with_wrong_length(&good[broken], 1_000_000)?,
            ];
            for (way, bad) in bad.into_iter().enumerate() {
                let mut records = good.clone();
                records[broken] = bad;
                let parts: Vec<_> = layout
                    .iter()
                    .map(|part| {
                        gzip(
                            &part
                                .iter()
                                .flat_map(|&i| records[i].clone())
                                .collect::<Vec<_>>(),
                        )
                    })
                    .collect::<io::Result<_>>()?;
                let others = (0..7).filter(|&i| i != broken);
                let expected: BTreeSet<_> = others.map(|i| format!("http://a/{i}")).collect();
                let what = format!("{layout:?}, {broken} is broken in way {way}");
                let assert_all = |folder: &Folder, stop: &str| -> TestResult {
                    let keys = BTreeSet::from_iter(keys(folder, "in.warc.gz")?);
                    assert_eq!(keys, expected, "{what}, {stop}");
                    Ok(())
                };
                for stop in 0..parts.len() {
                    let folder = Folder::new()?;
                    if stop > 0 {
                        ingest(&folder, "in.warc.gz", &parts[..stop].concat())?.expect(0);
                    }
                    ingest(&folder, "in.warc.gz", &parts.concat())?;
                    assert_all(&folder, &format!("stop behind part {stop}"))?;
                }
                let folder = Folder::new()?;
                let input = folder.file("in.warc.gz", parts.concat())?;
                let database = folder.path("in.warc.gz.simdb");
                run!("ingest", &database, &input, "--strict").expect(2);
                _ = run!("ingest", &database, &input);
                assert_all(&folder, "stop behind what is rejected")?;
            }
        }
    }
    Ok(())
}

/// The page of this number.
fn page(i: usize) -> Vec<u8> {
    let text = WORDS.repeat(i + 1);
    html_page(&format!("http://a/{i}"), text)
}

/// A run went on within the record that was being written. The record was lost, and what it quoted came into its place.
#[test]
fn a_record_that_is_being_written_is_read_once_it_is_whole() -> TestResult {
    let forged = String::from_utf8(page(77))?;
    let quotes = html_page("http://a/1", format!("<p>a\n{forged}b\n{forged}"));
    let begin = page(0).len();
    // What is quoted has not been written yet.
    let most = quotes.len() - 2 * forged.len() - 20;
    for (record, cut) in [
        (page(1), 3),
        (page(1), 5),
        (page(1), 40),
        (page(1), page(1).len() - 5),
        (quotes.clone(), 9),
        (quotes, most),
    ] {
        let whole = [page(0), record, page(2)].concat();
        let folder = Folder::new()?;
        let ran = ingest(&folder, "in.warc", &whole[..begin + cut])?.expect(0);
        assert_eq!(ran.last()?["left"], 1, "cut at {cut}: {}", ran.err);
        // Nothing is new.
        ingest(&folder, "in.warc", &whole[..begin + cut])?.expect(0);
        let ran = ingest(&folder, "in.warc", &whole)?.expect(0);
        let in_all = &ran.last()?["in_all"];
        assert_eq!(figures(in_all, ["documents", "rejected"]), [3, 0], "{cut}");
        let keys = keys(&folder, "in.warc")?;
        assert_eq!(
            keys,
            ["http://a/0", "http://a/1", "http://a/2"],
            "cut at {cut}"
        );
    }
    Ok(())
}

/// A crawler that is killed leaves a record that is cut, and the next one goes on in the same line. It was lost too.
#[test]
fn a_record_within_a_line_is_found_behind_one_that_was_cut() -> TestResult {
    let good = &pages()[1];
    // Within the text, behind it, and at its very beginning.
    let content = good.len() - 300;
    for cut in [content, content + 1, content + 150, good.len() - 5] {
        let record = &good[..cut];
        let is_rejected = costs_at_most_itself(&format!("cut at {cut}"), record, false)?;
        assert!(is_rejected, "cut at {cut}");
    }
    let blank = good.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let header = &good[..blank.ok_or("a header ends")? + 4];
    assert!(costs_at_most_itself("empty", header, false)?);
    // What looks like the first line of one is none without its type.
    let page = html_page("http://a/1", b"a WARC/1.0\r\nX: y\r\n\r\nb");
    assert!(costs_at_most_itself(
        "quoted",
        &with_wrong_length(&page, 30)?,
        false
    )?);
    Ok(())
}

/// Some writers put a zero behind each record, and a loss of power leaves many. All records behind the first were lost.
#[test]
fn zeros_and_spaces_between_records_cost_nothing() -> TestResult {
    let block = [0; 5_000];
    for fill in [
        &b"\0"[..],
        b" ",
        b"\0\0\0",
        b"\0\n",
        b"\t \r\n",
        &block[..70],
        &block,
    ] {
        let records: Vec<_> = pages()
            .into_iter()
            .map(|it| [&it[..], fill].concat())
            .collect();
        for (name, bytes) in stored(&records)? {
            let what = format!("{name}, {} bytes {:?}", fill.len(), &fill[..1]);
            let folder = Folder::new()?;
            let input = folder.file(name, &bytes)?;
            for most in ["200", "1MB"] {
                let ran = run!("fingerprint", &input, "--json --max-record", most);
                let read = ran.json()?.len();
                let expected = if most == "1MB" { 5 } else { 0 };
                assert_eq!(read, expected, "{what}, {most}: {}", ran.err);
                assert!(!ran.err.contains("WARC record"), "{what}: {}", ran.err);
            }
            // The last page is there twice. The copy has the same contents, wherever the zeros are in it.
            let copy = folder.path(&format!("copy-{name}"));
            let list = folder.path("removed.jsonl");
            done!("dedup", &input, "-o", &copy, "--removed", &list);
            done!("audit", &copy, "--removed", &list, "--input", &input);
            if name == "plain.warc" {
                let copied = std::fs::read(&copy)?;
                assert!(copied == records[..4].concat(), "{what}");
            }
        }
    }
    Ok(())
}

/// Behind what is no record, only a line could begin the next one. Wherever a run has stopped, the same is read.
#[test]
fn a_record_within_a_line_is_found_behind_damage() -> TestResult {
    let text = String::from_utf8(page(1))?;
    let kind = "WARC-Type: response\r\n";
    let typed_last = text.replacen(kind, "", 1);
    let typed_last = typed_last.replacen("\r\n\r\n", &format!("\r\n{kind}\r\n"), 1);
    for (name, junk) in [
        ("a byte", &b"x"[..]),
        ("a word", b"W junk"),
        ("versions", b"a WARC/1.0 b\r\nc WARC/1.0\r\nd WARC/1.0"),
        ("a header", b"a WARC/1.0\r\nX: y\r\n\r\nb"),
        ("zeros", b"a\0\0\0\0\0\0\0\0\0\0\0"),
    ] {
        for second in [text.as_bytes(), typed_last.as_bytes()] {
            let records = [&page(0)[..], junk, second, junk, &page(2)].concat();
            let begin = page(0).len();
            let all: Vec<_> = (0..3).map(|i| format!("http://a/{i}")).collect();
            let header = second.len() - WORDS.len() * 2;
            for stop in (begin..begin + junk.len() + header).step_by(13) {
                let folder = Folder::new()?;
                ingest(&folder, "in.warc", &records[..stop])?;
                let ran = ingest(&folder, "in.warc", &records)?.expect(0);
                let keys = keys(&folder, "in.warc")?;
                assert_eq!(keys, all, "{name}, stop at {stop}: {}", ran.err);
            }
            let folder = Folder::new()?;
            let ran = ingest(&folder, "in.warc.gz", &gzip(&records)?)?.expect(0);
            ran.counts(["documents", "rejected"], [3, 2]);
        }
    }
    Ok(())
}

#[test]
fn what_is_too_long_is_not_held_packed_or_not() -> TestResult {
    let folder = Folder::new()?;
    let long = "x ".repeat(40_000);
    let records = [
        html_page("http://a/long", &long),
        response(
            "http://a/bomb",
            "Content-Type: text/html\r\nContent-Encoding: gzip",
            &gzip(long.as_bytes())?,
        ),
        record(
            "request",
            "http://a/long",
            "application/http; msgtype=request",
            long.as_bytes(),
        ),
        html_page("http://a/good", WORDS),
    ];
    folder.file("long.warc", records.concat())?;
    let ran = folder
        .run("ingest d.simdb long.warc --max-record 10k --json")?
        .expect(0);
    ran.counts(["documents", "rejected", "passed_over"], [1, 2, 1]);
    assert_eq!(
        ran.err.matches("at most 10000 are allowed").count(),
        2,
        "{}",
        ran.err
    );
    Ok(())
}

/// Each way to store records: plain, each packed, and all packed as one.
fn stored(records: &[Vec<u8>]) -> io::Result<[(&'static str, Vec<u8>); 4]> {
    let mut members = Vec::new();
    let mut frames = Vec::new();
    for record in records {
        members.extend(gzip(record)?);
        frames.extend(zstd::encode_all(&record[..], 1)?);
    }
    Ok([
        ("plain.warc", records.concat()),
        ("many.warc.gz", members),
        ("many.warc.zst", frames),
        ("one.warc.gz", gzip(&records.concat())?),
    ])
}

/// Anybody can write a page. One that was longer than is held could bring a record of its own into an archive: it was
/// stored under any address, and the copy of a cleaning could not be read.
#[test]
fn what_a_page_quotes_is_no_record() -> TestResult {
    const LAST: &str =
        "The mayor opened the new library on Monday and thanked all who had given books to it";
    let forged = String::from_utf8(html_page("https://bank.example/", WORDS.repeat(2)))?;
    let fill = "x ".repeat(2_000);
    let quotes = format!("<p>{fill}\n{forged}{fill}\n{forged}\n{fill}");
    let records = [
        html_page("http://a/first", WORDS.repeat(2)),
        html_page("http://evil/", &quotes),
        html_page("http://a/last", LAST),
    ];
    let folder = Folder::new()?;
    for most in ["1000", "5000", "1MB"] {
        for (name, bytes) in stored(&records)? {
            let what = format!("{name}, {most}");
            let input = folder.file(name, bytes)?;
            let mut expected = vec!["http://a/first", "http://a/last"];
            if most == "1MB" {
                expected.insert(1, "http://evil/");
            }
            let copy = folder.path("copy.warc");
            done!("dedup", &input, "-o", &copy, "--max-record", most);
            for read in [&input, &copy] {
                let ran = run!("fingerprint", read, "--json --max-record", most);
                let mut keys = Vec::new();
                for row in ran.json()? {
                    keys.push(row["key"].as_str().unwrap_or_default().to_owned());
                }
                assert_eq!(keys, expected, "{what}");
                assert_eq!(
                    ran.err.contains("at most"),
                    most != "1MB",
                    "{what}: {}",
                    ran.err
                );
                assert!(!ran.err.contains("Content-Length"), "{what}: {}", ran.err);
            }
            if name == "plain.warc" {
                assert!(std::fs::read(&copy)? == records.concat(), "{what}");
            }
            std::fs::remove_file(&copy)?;
        }
    }
    // A part that a record begins bounds it also if its length is wrong, or if it has none.
    let mut damaged = vec![without_length(&records[1])?];
    for by in [-40, -3, 100, 100_000] {
        damaged.push(with_wrong_length(&records[1], by)?);
    }
    for (index, damaged) in damaged.into_iter().enumerate() {
        let mut records = records.clone();
        records[1] = damaged;
        for (name, bytes) in stored(&records)?.into_iter().skip(1).take(2) {
            let input = folder.file(name, bytes)?;
            for most in ["1000", "1MB"] {
                let what = format!("{name}, {index}, {most}");
                let read = run!("fingerprint", &input, "--json --max-record", most).json()?;
                let has_forged = read.iter().any(|row| row["key"] == "https://bank.example/");
                assert!(!has_forged, "{what}");
                let last = read.last().ok_or("nothing was read")?;
                assert_eq!(last["key"], "http://a/last", "{what}");
            }
        }
    }
    Ok(())
}

/// What came behind its part made a sound page a broken one, and what it quoted a record.
#[test]
fn a_record_by_itself_is_bounded_by_its_part_whatever_follows() -> TestResult {
    let forged = String::from_utf8(page(77))?;
    let quotes = html_page("http://a/3", format!("<p>a\r\n\r\n{forged}b"));
    let mut members = Vec::new();
    for record in [page(0), page(1), page(2), quotes] {
        members.extend(gzip(&record)?);
    }
    let no_record = gzip(b"no record here\r\n\r\n")?;
    let filled = [&[0; 10][..], &gzip(&page(4))?].concat();
    for (name, behind) in [("no_record", &no_record), ("filled", &filled)] {
        let folder = Folder::new()?;
        let input = [&members[..], behind, &gzip(&page(5))?].concat();
        ingest(&folder, "in.warc.gz", &input)?.expect(0);
        let keys = BTreeSet::from_iter(keys(&folder, "in.warc.gz")?);
        let numbers: &[usize] = match name {
            "filled" => &[0, 1, 2, 3, 4, 5],
            _ => &[0, 1, 2, 3, 5],
        };
        let expected: BTreeSet<_> = numbers.iter().map(|i| format!("http://a/{i}")).collect();
        assert_eq!(keys, expected, "{name}");
    }
    Ok(())
}

/// Each line that begins as a record does was looked at with what is behind it: a megabyte took 15 seconds.
#[test]
fn lines_that_begin_as_records_do_cost_no_time() -> TestResult {
    let flood = |line: &str| {
        let page = format!("<p>\n{}", line.repeat(300_000 / line.len()));
        html_page("http://a/flood", page)
    };
    let bare = flood("WARC/1\n");
    let headers = flood("WARC/1.0\nWARC-Type: response\n\n");
    let within = flood("x:WARC/1.0\nWARC-Type: response\n");
    let good = html_page("http://a/good", WORDS);
    // Headers with many lines that may be no end, and with many that may be those of another record.
    let blank_lines = flood(&format!("WARC/1.0\n{}", "\nWARC-a\n".repeat(7_000)));
    let dates = flood(&format!(
        "WARC/1.0\n{}X: WARC/1.0\n{}",
        "x\n".repeat(12_000),
        "WARC-Date:\n".repeat(3_000)
    ));
    let lengths = format!(
        "HTTP/1.1 302 Found\r\n{}\r\n{}",
        "Content-Length: 0\r\n".repeat(1_000),
        " ".repeat(3_000_000)
    );
    let moved = record(
        "response",
        "http://a/moved",
        "application/http",
        lengths.as_bytes(),
    );
    // A line that begins nearly so, in a part of its own whose end tells nothing.
    let nearly = String::from_utf8(flood("WARC/x\n"))?.replacen("Content-Length", "X", 1);
    let folder = Folder::new()?;
    for (name, first, next) in [
        ("headers.warc", headers, good.clone()),
        (
            "within.warc",
            with_wrong_length(&within, -40)?,
            good.clone(),
        ),
        (
            "blank.warc",
            with_wrong_length(&blank_lines, -40)?,
            good.clone(),
        ),
        ("dates.warc", with_wrong_length(&dates, -40)?, good.clone()),
        ("lengths.warc", moved, good.clone()),
        ("whole.warc", bare.clone(), good.clone()),
        ("cut.warc", bare[..bare.len() - 100].to_vec(), good.clone()),
        ("short.warc", with_wrong_length(&bare, -40)?, good.clone()),
        ("nearly.warc.gz", gzip(nearly.as_bytes())?, gzip(&good)?),
    ] {
        let input = folder.file(name, [first, next].concat())?;
        for most in ["1k", "10MB"] {
            let begun = Instant::now();
            run!("fingerprint", &input, "--max-record", most).prints("http://a/good");
            let seconds = begun.elapsed().as_secs_f64();
            assert!(seconds < 15.0, "{name}, {most}: {seconds} s");
        }
    }
    Ok(())
}

/// A crawler that is killed leaves a header without an end. The next record was taken for a part of it.
#[test]
fn a_header_ends_before_the_next_record() -> TestResult {
    let good = html_page("http://a/1", WORDS);
    let next = html_page("http://a/2", WORDS);
    let header = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 500\r\n";
    let folder = Folder::new()?;
    let bytes = [&good[..], header, &next].concat();
    let totals = ingest(&folder, "in.warc", &bytes)?.expect(0).last()?;
    assert_has!(totals, {"documents": 2, "rejected": 1});
    Ok(())
}

/// What crawlers note of their own work is no page. Lines of headers may go on, heads of HTTP may begin with an empty
/// line, and a type may have its encoding behind a space.
#[test]
fn records_are_read_as_all_crawlers_write_them() -> TestResult {
    let mut records = Vec::new();
    for (address, content_type) in [
        ("dns:example.org", "text/dns"),
        ("metadata://gnu.org/wget/warc/wget.log", "text/plain"),
        ("urn:text:https://a/", "text/plain"),
        ("urn:textFinal:https://a/", "text/plain"),
        ("urn:X-wpull:log", "text/plain"),
        ("http://a/dns", "text/dns"),
    ] {
        records.push(record("resource", address, content_type, WORDS.as_bytes()));
    }
    // Some browsers have no status of a response without content.
    let head = b"HTTP/1.1 0 No Content\r\ndate: Wed, 01 May 2024 09:48:35 GMT\r\n\r\n";
    let http = "application/http; msgtype=response";
    records.push(record("response", "http://a/0", http, head));
    let passed_over = records.len();
    let page = html_page("http://a/1", WORDS);
    let page = String::from_utf8(page)?;
    for (address, before, after) in [
        ("http://a/2", "WARC-Target-URI: ", "WARC-Target-URI:\r\n "),
        (
            "http://a/3",
            "WARC-Type: response",
            "WARC-Type:\r\n\tresponse\r\nX: a\r\n WARC-Type: request",
        ),
        ("http://a/4", "HTTP/1.1 200 OK", "\r\nHTTP/1.1 200 OK"),
        ("http://a/5", "text/html", "text/html charset=utf-8"),
        ("http://a/6", "WARC-Type: response", "WARC-Type: RESPONSE"),
    ] {
        let text = page.replace(before, after).replace("http://a/1", address);
        let (head, body) = text.split_once("\r\n\r\n").ok_or("it has a head")?;
        let mut lines = Vec::new();
        for line in head.split("\r\n") {
            lines.push(match line.starts_with("Content-Length") {
                true => format!("Content-Length: {}", body.len() - 4),
                false => line.to_owned(),
            });
        }
        records.push(format!("{}\r\n\r\n{body}", lines.join("\r\n")).into_bytes());
    }
    // In scripts other than the Latin one, UTF-16 has bytes that stand in no other text.
    let words = "灯塔于一八五四年建在岛的北端，夏季每逢星期日开放。".repeat(3);
    let wide: Vec<u8> = words.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fields = "Content-Type: text/plain; charset=utf-16le";
    records.push(response("http://a/wide", fields, &wide));
    let pages = records.len() - passed_over;
    let folder = Folder::new()?;
    let ran = ingest(&folder, "in.warc", &records.concat())?.expect(0);
    let expected = [pages as u64, passed_over as u64, 0];
    ran.counts(["documents", "passed_over", "rejected"], expected);
    let found = fingerprints(&folder, "in.warc")?;
    let keys: Vec<&str> = found.iter().map(|page| page.0.as_str()).collect();
    let expected = [
        "http://a/2",
        "http://a/3",
        "http://a/4",
        "http://a/5",
        "http://a/6",
    ];
    assert_eq!(keys[..5], expected);
    assert!(found[..5].iter().all(|page| page.1 == found[0].1));
    Ok(())
}

/// A record that lacks an address, or has a date that is none, is rejected with what helps.
#[test]
fn what_a_record_lacks_is_told_in_the_words_of_archives() -> TestResult {
    let page = html_page("http://a/1", WORDS);
    let page = String::from_utf8(page)?;
    let archive = [
        page.replace("2014-03-25T12:12:25Z", "2014-02-25 (a Tuesday)"),
        page.replace("WARC-Target-URI: http://a/1\r\n", ""),
        page.replace("2014-03-25T", "2014-03-84T")
            .replace("http://a/1", "http://a/3"),
    ];
    let archive = archive.concat();
    let folder = Folder::new()?;
    ingest(&folder, "in.warc", archive.as_bytes())?
        .expect(0)
        .says("`--ignore-field seen` passes over it")
        .says("`WARC-Target-URI`");
    // The 84th day of the year is the 25th of March.
    done!("get", folder.path("in.warc.simdb"), "http://a/3").prints("1395749545");

    let ran = folder.run("ingest other.simdb in.warc --ignore-field seen --json")?;
    assert_eq!(ran.expect(0).last()?["documents"], 2);
    Ok(())
}

/// Files of several crawlers, some of which are odd. The numbers of responses are those of another reader.
#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn real_archives_are_read() -> TestResult {
    let data = real_data()?;
    let folder = Folder::new()?;
    for (name, documents, records) in [
        ("example.warc.gz", 142, 822),
        ("iana.warc.gz", 18, 343),
        ("dupes.warc.gz", 1, 25),
        (
            "CC-MAIN-20150226074105-00336-ip-10-28-5-156.ec2.internal.warc.gz",
            14,
            56,
        ),
        ("snapshot-wayback-topic-02.warc.gz", 128, 129),
        ("topic-1--20201003083220753-00000.warc.gz", 232, 239),
        (
            "BL-20140325121225068-00000-32090~opera~8443.warc.gz",
            43,
            190,
        ),
    ] {
        let path = folder.path(&format!("{name}.simdb"));
        let totals = done!(
            "ingest",
            &path,
            data.join("warc-samples").join(name),
            "--json"
        )
        .last()?;
        let passed_over = totals["passed_over"].as_u64().unwrap_or_default();
        assert_has!(totals, {"documents": documents, "rejected": 0});
        assert_eq!(passed_over + documents, records, "{name}");
    }
    Ok(())
}

/// From the third record on, each was cut at the end of its first part.
#[test]
fn a_record_in_several_parts_is_read_whole() -> TestResult {
    let folder = Folder::new()?;
    let pages: Vec<Vec<u8>> = (0..6).map(page).collect();
    let mut archives = [(".gz", Vec::new()), (".zst", Vec::new())];
    for page in &pages {
        let head = page
            .windows(4)
            .position(|it| it == b"\r\n\r\n")
            .expect("it has a header")
            + 4;
        for part in [&page[..head], &page[head..]] {
            archives[0].1.extend(gzip(part)?);
            archives[1].1.extend(zstd::encode_all(part, 1)?);
        }
    }
    for (ending, archive) in archives {
        let name = format!("parts.warc{ending}");
        ingest(&folder, &name, &archive)?.expect(0);
        assert_eq!(fingerprints(&folder, &name)?.len(), pages.len(), "{name}");
    }
    Ok(())
}

/// It was said to be too long, and ended a strict run.
#[test]
fn what_is_no_page_is_passed_over_however_long_it_is() -> TestResult {
    let folder = Folder::new()?;
    let long = vec![b'x'; 5_000];
    let gone = [
        &b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"[..],
        &long,
    ]
    .concat();
    let archive = [
        page(0),
        response("http://a/film.mp4", "Content-Type: video/mp4", &long),
        record("response", "http://a/gone", "application/http", &gone),
        record("resource", "urn:view:http://a/", "image/png", &long),
        record("resource", "metadata://a/", "text/plain", &long),
        page(1),
    ];
    let read = |name: &str, archive: &[u8]| -> TestResult {
        let input = folder.file(name, archive)?;
        let database = folder.path(&format!("{name}.simdb"));
        let ran = run!("ingest", database, &input, "--max-record 4000 --strict");
        assert!(ran.expect(0).out.contains("4 passed over"));
        Ok(())
    };
    read("long.warc", &archive.concat())?;
    read("long.warc.gz", &gzip(&archive.concat())?)?;
    // A page is.
    let page = html_page("http://a/long", long);
    let ran = run!(
        "ingest",
        folder.path("d.simdb"),
        folder.file("page.warc", page)?,
        "--max-record 4000"
    );
    ran.says("--max-record");
    Ok(())
}

/// They were one text, with all heads in it.
#[test]
fn an_archive_is_one_whatever_stands_before_its_first_record() -> TestResult {
    let folder = Folder::new()?;
    for (number, before) in ["\r\n", " ", "\0\0", "\u{feff}"].iter().enumerate() {
        let archive = [before.as_bytes(), &page(0), &page(1)].concat();
        for (ending, bytes) in [
            (".dat", archive.clone()),
            (".gz", gzip(&archive)?),
            (".warc.gz", archive),
        ] {
            let name = format!("{number}{ending}");
            ingest(&folder, &name, &bytes)?;
            assert_eq!(fingerprints(&folder, &name)?.len(), 2, "{name}, {before:?}");
        }
    }
    for (bytes, word) in [
        (&b"\xfd7zXZ\0\0\x04"[..], "xz"),
        (b"PK\x03\x04\x14\0\0\0", "zip"),
    ] {
        let ran = ingest(&folder, &format!("{word}.warc.gz"), bytes)?;
        ran.refused(word);
    }
    Ok(())
}

/// They were stored as texts of random letters.
#[test]
fn a_mark_of_unicode_makes_no_text_of_what_is_none() -> TestResult {
    let folder = Folder::new()?;
    let html = format!("<html><body><p>{WORDS}</p>");
    let noise: Vec<u8> = (0..3_000u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8)
        .collect();
    let mark: &[u8] = b"\xef\xbb\xbf";
    for (name, fields, body) in [
        (
            "gzip",
            "Content-Encoding: gzip\r\nContent-Type: text/html",
            [mark, &gzip(html.as_bytes())?].concat(),
        ),
        ("chunks", "Content-Type: text/html", {
            let page = [mark, html.as_bytes()].concat();
            let (first, rest) = page.split_at(40);
            [
                format!("{:x}\r\n", first.len()).as_bytes(),
                first,
                format!("\r\n{:x}\r\n", rest.len()).as_bytes(),
                rest,
                b"\r\n0\r\n\r\n",
            ]
            .concat()
        }),
    ] {
        let archive = [
            response("http://a/1", fields, &body),
            html_page("http://a/2", &html),
        ]
        .concat();
        let name = format!("{name}.warc");
        ingest(&folder, &name, &archive)?.expect(0);
        let found = fingerprints(&folder, &name)?;
        assert_eq!(found[0].1, found[1].1, "{name}");
    }
    for (name, mark) in [("utf8", mark), ("utf16", b"\xff\xfe")] {
        let archive = html_page("http://a/1", [mark, &noise].concat());
        let ran = ingest(&folder, &format!("{name}.warc"), &archive)?;
        assert!(
            ran.code != Some(0) && ran.out.contains("not-text"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
    Ok(())
}

/// Behind the first record that was packed otherwise, all was lost without a word.
#[test]
fn an_archive_that_is_put_together_of_plain_and_packed_ones_says_where_to_cut() -> TestResult {
    let folder = Folder::new()?;
    let page = |number: usize| {
        let address = format!("http://a/{number}");
        let words: Vec<String> = (0..40).map(|word| format!("w{number}x{word}")).collect();
        let page = format!("<p>{}", words.join(" "));
        html_page(&address, page)
    };
    let plain = [page(0), page(1)].concat();
    let more = [page(2), page(3)].concat();
    let packed = [gzip(&more)?, zstd::encode_all(&more[..], 1)?];
    let mut cases = vec![
        (packed[0].clone(), plain.clone(), 2),
        (packed[1].clone(), plain.clone(), 2),
    ];
    for packed in &packed {
        cases.push((plain.clone(), packed.clone(), 2));
    }
    for (number, (first, second, documents)) in cases.into_iter().enumerate() {
        let name = format!("mixed{number}.warc");
        let path = folder.file(&name, [&first[..], &second].concat())?;
        let database = folder.path(&format!("{name}.simdb"));
        let ingested = run!("ingest", &database, &path).expect(2);
        let place = format!("at byte {}", first.len());
        assert!(ingested.err.contains(&place), "{number} {}", ingested.err);
        let ingested = ingested.says("cut the archive in two there");
        let inserted = format!("{documents} inserted");
        ingested.prints(&inserted);
    }
    Ok(())
}

/// A crawler that is killed, or a full disk, cuts a header within a line. The record behind it became a part of the one
/// before, or took its address.
#[test]
fn a_header_that_is_cut_within_a_line_costs_no_other_record() -> TestResult {
    let folder = Folder::new()?;
    let records: Vec<Vec<u8>> = (0..4)
        .map(|number| {
            let page = format!("{WORDS} of page {number}");
            html_page(&format!("http://a/{number}"), page)
        })
        .collect();
    let header = String::from_utf8_lossy(&records[1])
        .find("\r\n\r\n")
        .ok_or("it ends")?;
    for cut in b"WARC/1.0\r\n".len()..=header {
        let name = format!("cut{cut}.warc");
        let bytes = [&records[0], &records[1][..cut], &records[2], &records[3]].concat();
        let totals = ingest(&folder, &name, &bytes)?;
        let keys = keys(&folder, &name)?;
        assert_eq!(
            keys,
            ["http://a/0", "http://a/2", "http://a/3"],
            "{cut}: {}",
            totals.err
        );
    }
    Ok(())
}

/// As ClueWeb09 has it.
#[test]
fn a_blank_line_within_a_header_does_not_end_it() -> TestResult {
    let folder = Folder::new()?;
    let page = html_page("http://a/1", WORDS);
    let next = html_page("http://a/2", format!("{WORDS} and more"));
    let text = String::from_utf8(page.clone())?;
    for (name, field) in [
        ("date.warc", "WARC-Date"),
        ("length.warc", "Content-Length: 1"),
        ("type.warc", "WARC-Type"),
    ] {
        let blank = text.replacen(&format!("\r\n{field}"), &format!("\r\n\r\n{field}"), 1);
        assert_ne!(blank, text);
        let totals = ingest(&folder, name, &[blank.as_bytes(), &next].concat())?
            .expect(0)
            .last()?;
        assert_eq!(totals["inserted"], 2, "{name}");
    }
    Ok(())
}

/// The whole archive was one rejected record.
#[test]
fn an_archive_whose_lengths_are_all_wrong_is_many_records() -> TestResult {
    let folder = Folder::new()?;
    let mut archive = Vec::new();
    let mut short = Vec::new();
    for number in 0..6 {
        let record = html_page(&format!("http://a/{number}"), WORDS);
        // As one that counts characters in place of bytes does.
        short.extend(with_wrong_length(&record, -9)?);
        archive.extend(record);
    }
    let lines = String::from_utf8(archive)?.replace("\r\n", "\n");
    for (name, bytes) in [
        ("lf.warc", lines.clone().into_bytes()),
        ("lf.warc.gz", gzip(lines.as_bytes())?),
        ("short.warc", short.clone()),
        ("short.warc.gz", gzip(&short)?),
    ] {
        let ran = ingest(&folder, name, &bytes)?;
        let rejected = ran.err.matches("rejected: ").count();
        assert!(rejected >= 5, "{name}: {}", ran.err);
    }
    Ok(())
}

/// They were rejected, or words of the page.
#[test]
fn what_is_around_a_packed_page_is_passed_over() -> TestResult {
    let folder = Folder::new()?;
    let page = format!("<p>{WORDS}</p>");
    let packed = gzip(page.as_bytes())?;
    let chunked = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
    let html = "Content-Type: text/html\r\nContent-Encoding: gzip";
    let records = [
        html_page("http://a/plain", &page),
        response("http://a/line", html, &[b"\r\n", &packed[..]].concat()),
        response("http://a/chunks", &format!("{html}\r\nTransfer-Encoding: chunked"), &gzip(chunked.as_bytes())?),
        record("response", "http://a/moved", "application/http", &[
            b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            page.as_bytes(),
        ].concat()),
        record("response", "http://a/chunked", "application/http", &[
            &b"HTTP/1.1 302 Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nmoved\r\n0\r\n\r\nHTTP/1.1 401 x\r\n\r\nno\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            page.as_bytes(),
        ].concat()),
        record("resource", "http://a/letters", "Application/HTTP; msgtype=response", &[
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            page.as_bytes(),
        ].concat()),
        record("response", "http://a/h2", "application/http", &[
            b"h2 200\r\ncontent-type: text/html\r\n\r\n",
            page.as_bytes(),
        ].concat()),
    ];
    ingest(&folder, "in.warc", &records.concat())?.expect(0);
    let found = fingerprints(&folder, "in.warc")?;
    assert_eq!(found.len(), 7);
    for (key, fingerprint) in &found {
        assert_eq!(fingerprint, &found[0].1, "{key}");
    }
    Ok(())
}

/// It was taken for the head before another answer, and the page was passed over.
#[test]
fn a_page_may_begin_with_the_line_of_a_status() -> TestResult {
    let folder = Folder::new()?;
    let records = [
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 404 is the status of a lost page.<p>",
        "HTTP/1.1 200 OK<br>\n<p>",
    ];
    let records: Vec<Vec<u8>> = (0..)
        .zip(records)
        .map(|(number, first)| {
            let page = format!("{first}{WORDS}");
            html_page(&format!("http://a/{number}"), page)
        })
        .collect();
    let totals = ingest(&folder, "in.warc", &records.concat())?
        .expect(0)
        .last()?;
    assert_eq!(totals["inserted"], 3);
    // A header that ends, and has no length, at the end.
    let good = html_page("http://a/1", WORDS);
    let bytes = [&good[..], b"WARC/1.0\r\nWARC-Type: response\r\n\r\n"].concat();
    ingest(&folder, "end.warc", &bytes)?
        .expect(0)
        .says("has no Content-Length");
    Ok(())
}
