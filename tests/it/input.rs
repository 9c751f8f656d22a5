//! Ingestion of the bad records that occur in practice. Each bad record gets a clear message, each good
//! one is stored.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use simdb::Error;
use simdb::ingest::{ReadOptions, Records};

use crate::support::{
    Folder, TestResult, assert_error, assert_has, done, figures, gzip, program, run,
    run_with_input, spread,
};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

#[test]
fn bad_records_are_named_by_line_counted_and_do_not_stop_the_good_ones() -> TestResult {
    let folder = Folder::new()?;
    let mut input = Vec::new();
    let long_key = "k".repeat(5_000);
    let mut line = |content: &[u8]| {
        input.extend_from_slice(content);
        input.push(b'\n');
    };
    line(format!(r#"{{"id":"good 1","text":"{TEXT}"}}"#).as_bytes());
    line(b"{\"id\":\"broken\",\"text\":");
    line(b"{\"id\":\"not utf-8\",\"text\":\"\xff\xfe\"}");
    line(b"{\"text\":\"no key\"}");
    line(b"{\"id\":\"\",\"url\":null,\"text\":\"empty key\"}");
    line(b"{\"id\":\"no content\"}");
    line(format!(r#"{{"id":"{long_key}","text":"{TEXT}"}}"#).as_bytes());
    line(b"[\"not an object\"]");
    line(b"");
    line(b"{\"id\":\"good 2\",\"text\":\"\"}");
    line(b"{\"id\":\"rank\",\"text\":\"x\",\"rank\":[1,2,3,4,5]}");
    line(b"{\"id\":\"seen\",\"text\":\"x\",\"seen\":\"last week\"}");
    let path = folder.file("in.jsonl", input)?;
    let ran = done!("ingest", folder.path("d.simdb"), &path, "--json");
    for (line, reason) in [
        (2, "not a JSON record: EOF while parsing a value"),
        (3, "not UTF-8 (byte 27)"),
        (
            4,
            "no key: field `key`, `id` or `url`, the one that was named, or `WARC-Target-URI` in a web archive",
        ),
        (5, "no key"),
        (
            6,
            "no content: field `fingerprint`, `features`, `text` or `html` is wanted",
        ),
        (7, "the key has 5000 bytes; at most 4096 are allowed"),
        (8, "expected an object"),
        (11, "the rank has 5 numbers; at most 4 are allowed"),
        (12, "field `seen`"),
    ] {
        let start = format!("in.jsonl, line {line}: ");
        let said = ran
            .err
            .lines()
            .any(|said| said.contains(&start) && said.contains(reason));
        assert!(said, "line {line}, {reason:?} is not in:\n{}", ran.err);
    }
    let lines = ran.json()?;
    let told: Vec<_> = lines.iter().filter(|it| it["reason"].is_string()).collect();
    assert_eq!((told.len(), &told[0]["line"]), (9, &2.into()));
    let totals = ran.last()?;
    assert_eq!(
        figures(&totals, ["documents", "inserted", "rejected"]),
        [2, 2, 9]
    );
    assert_eq!(totals["too_short"], 1);
    Ok(())
}

/// Programs whose texts are of 16-bit units cut pairs in half. In JSON each half is an escape, in a file three bytes.
#[test]
fn halves_of_surrogate_pairs_are_told_and_whole_pairs_are_read() -> TestResult {
    let folder = Folder::new()?;
    let lines = [
        format!(r#"{{"id":"whole","text":"{TEXT} \ud83c\udf89"}}"#),
        format!(r#"{{"id":"first half","text":"{TEXT} \ud83c"}}"#),
        format!(r#"{{"id":"second half","text":"\udf89 {TEXT}"}}"#),
        format!(r#"{{"id":"two first halves","text":"{TEXT} \ud83c\ud83c"}}"#),
        format!(r#"{{"id":"in the key \ud83c","text":"{TEXT}"}}"#),
        format!(r#"{{"id":"no escape \ud83","text":"{TEXT}"}}"#),
        format!(r#"{{"id":"not needed","title":"\ud83c","text":"{TEXT} 🎉"}}"#),
        format!(
            r#"{{"id":"NUL","text":"{}"}}"#,
            TEXT.replace(' ', r"\u0000")
        ),
    ];
    folder.file("in.jsonl", lines.join("\n"))?;
    let bytes = |half: &[u8]| [TEXT.as_bytes(), half, b"\n"].concat();
    folder.file("first.txt", bytes(b"\xed\xa0\xbc"))?;
    folder.file("second.html", bytes(b"\xed\xbe\x89"))?;
    let ran = folder
        .run("ingest d.simdb in.jsonl first.txt second.html --json")?
        .expect(0);
    let half = "not a JSON record: an escape is half of a surrogate pair, which is no character";
    for (place, reason) in [
        ("line 2: ", half),
        ("line 3: ", half),
        ("line 4: ", half),
        ("line 5: ", half),
        ("line 6: ", "not a JSON record: invalid escape"),
    ] {
        let said = ran
            .err
            .lines()
            .any(|said| said.contains(&format!("{place}{reason}")));
        assert!(said, "{place}{reason} is not in:\n{}", ran.err);
    }
    // An emoji is no word, and a NUL parts words as a space does: all of these are one text. In pages and plain texts,
    // a half costs one character.
    ran.counts(["inserted", "rejected", "duplicates"], [5, 5, 4]);
    for near in ran.json()?.iter().filter(|it| it["matches"].is_array()) {
        assert_has!(near["matches"][0], {"distance": 0, "similarity": 1.0});
    }
    Ok(())
}

/// The database was taken for an input from the second run on.
#[test]
fn a_database_in_a_directory_that_it_reads_is_no_input() -> TestResult {
    let folder = Folder::new()?;
    let pages = folder.path("pages");
    fs::create_dir(&pages)?;
    fs::write(
        pages.join("a.jsonl"),
        format!(r#"{{"id":"a","text":"{TEXT}"}}"#),
    )?;
    let path = pages.join("index");
    done!("ingest", &path, &pages);
    done!("ingest", &path, &pages);
    // Another one is no input either, and is named.
    fs::copy(&path, pages.join("other"))?;
    run!("ingest", &path, &pages).refused("other: is a database");
    Ok(())
}

#[test]
fn an_ingestion_that_cannot_begin_leaves_no_database() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("a.jsonl");
    fs::write(&input, format!(r#"{{"id":"a","text":"{TEXT}"}}"#))?;
    let path = folder.path("d.simdb");
    run!(
        "ingest",
        &path,
        &input,
        "--verify words --texts payload --unit sentence"
    )
    .expect(2);
    assert!(!path.exists());
    Ok(())
}

#[test]
fn strict_makes_the_first_bad_record_fatal_and_keeps_the_records_before_it() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.file("in.tsv", format!("a\t{TEXT}\nno tab here\nb\t{TEXT}\n"))?;
    run!("ingest", folder.path("d.simdb"), &path, "--strict")
        .refused("in.tsv, line 2: the line has no tab");
    done!("get", folder.path("d.simdb"), "a");
    run!("get", folder.path("d.simdb"), "b")
        .expect(1)
        .says("no such key");
    Ok(())
}

#[test]
fn a_line_of_100_megabytes_is_rejected_without_being_held() -> TestResult {
    let folder = Folder::new()?;
    let mut input = format!("a\t{TEXT}\n").into_bytes();
    input.resize(100_000_000, b'x');
    input.extend_from_slice(format!("\nb\t{TEXT}\n").as_bytes());
    let path = folder.file("in.tsv.gz", gzip(&input)?)?;
    let ran = done!("ingest", folder.path("d.simdb"), &path, "--json");
    let ran = ran
        .says("in.tsv.gz, line 2: the record has 99")
        .says("at most 67108864 are allowed");
    assert_eq!(
        ran.json()?.last().map(|totals| totals["inserted"].clone()),
        Some(2.into())
    );
    // A limit that is set, and the longest record it allows. The limit does not count the end of the line.
    let path = folder.file(
        "limit.tsv",
        "k\t345678\nk\t345678\r\nk\t3456789\nk\t3456789",
    )?;
    let ran = done!(
        "ingest",
        folder.path("e.simdb"),
        &path,
        "--max-record 8 --json"
    );
    for line in [3, 4] {
        let said = format!("limit.tsv, line {line}: the record has 9 bytes; at most 8 are allowed");
        assert!(ran.err.contains(&said), "{}", ran.err);
    }
    assert_eq!(
        (&ran.last()?["documents"], &ran.last()?["rejected"]),
        (&2.into(), &2.into())
    );
    let most = u64::MAX.to_string();
    let text = folder.file("t.txt", TEXT)?;
    let ran = done!(
        "ingest",
        folder.path("f.simdb"),
        &path,
        &text,
        "--max-record",
        most,
        "--json"
    );
    assert_eq!(
        (&ran.last()?["documents"], &ran.last()?["too_short"]),
        (&5.into(), &4.into())
    );
    Ok(())
}

#[test]
fn formats_are_told_by_name_and_content_and_gzip_by_content() -> TestResult {
    let folder = Folder::new()?;
    let json = format!("\u{feff}{{\"id\":\"json\",\"text\":\"{TEXT}\"}}\r\n");
    let inputs = [
        folder.file("named.jsonl", &json)?,
        folder.file(
            "by-content",
            gzip(json.replace("json", "json in gzip").as_bytes())?,
        )?,
        folder.file("tab.tsv", format!("tsv\\ttab\t{TEXT}"))?,
        folder.file("plain.txt", TEXT)?,
        folder.file("braces.txt", format!("{{ {TEXT} }}"))?,
        folder.file(
            "page.html.gz",
            gzip(format!("<p>{TEXT}</p><script>no</script>").as_bytes())?,
        )?,
        folder.file("empty.jsonl", "")?,
    ];
    let mut command = program!("ingest", folder.path("d.simdb"), ..&inputs, "- --json");
    let ran = run_with_input(&mut command, format!("stdin\t{TEXT}\n").as_bytes())?.expect(0);
    // The same text in every form has one fingerprint.
    ran.counts(["documents", "duplicates"], [7, 6]);
    for key in ["json", "json in gzip", "tsv\ttab", "stdin"] {
        done!("get", folder.path("d.simdb"), key);
    }
    for file in [&inputs[3], &inputs[4], &inputs[5]] {
        done!("get", folder.path("d.simdb"), file);
    }
    Ok(())
}

#[test]
fn the_files_of_directories_are_read_where_a_pattern_names_them() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir_all(folder.path("pages/2024/may"))?;
    folder.file("pages/2024/a.txt", TEXT)?;
    folder.file("pages/2024/may/b.txt", TEXT)?;
    folder.file("pages/2024/may/c.tsv", format!("c\t{TEXT}\n"))?;
    folder.file("pages/2024/may/.hidden", "not read")?;
    // A database beside its inputs is none of them.
    let (database, pages) = (folder.path("pages/d.simdb"), folder.path("pages"));
    let key = |name: &str| pages.join("2024").join(name).display().to_string();
    let texts = done!("ingest", &database, &pages, "--glob *.txt");
    assert_eq!(
        texts.out.lines().next().unwrap_or_default(),
        format!(
            "{} is near {} (distance 0, similarity 1.00)",
            key("may/b.txt"),
            key("a.txt")
        )
    );
    done!("ingest", &database, &pages)
        .says("not read again")
        .begins("c is near ");
    run!("ingest", &database, &pages, "--glob 2023/*")
        .refused("has no file in it that the pattern names");
    run!("ingest", &database, &pages, "--glob [x").refused("[x: is not a pattern");
    run!("ingest", &database, &pages, "--source crawl").expect(2);
    Ok(())
}

#[test]
fn inputs_that_cannot_be_read_are_told_and_the_others_are_read() -> TestResult {
    let folder = Folder::new()?;
    let good = folder.file("good.tsv", format!("a\t{TEXT}\n"))?;
    let database = folder.path("d.simdb");
    fs::create_dir(folder.path("empty"))?;
    run!("ingest", &database, &good, folder.path("empty")).refused("empty: has no file in it");
    run!("ingest", &database, &good, folder.path("missing")).refused("missing: no such file");
    let archive = folder.file(
        "crawl.arc",
        "filedesc://crawl.arc 0.0.0.0 20080430204825 text/plain 77\n",
    )?;
    done!("get", &database, "a");
    let none = folder.path("none.simdb");
    run!("ingest", &none, archive).refused("is a web archive of the old format ARC");
    assert!(!none.exists());
    Ok(())
}

#[test]
fn content_that_cannot_be_read_is_named_with_what_to_do() -> TestResult {
    let folder = Folder::new()?;
    let mut tar = vec![b'a'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let cases = [
        (folder.file("a.bz2", b"BZh91AY&SY\x01\x02")?, "bunzip2"),
        (folder.file("a.xz", b"\xfd7zXZ\0\0")?, "unxz"),
        (folder.file("a.lz4", b"\x04\x22\x4d\x18\x64")?, "unlz4"),
        (folder.file("a.Z", b"\x1f\x9d\x90\x61")?, "gunzip"),
        (folder.file("a.zip", b"PK\x03\x04\x14")?, "unzip"),
        (folder.file("a.7z", b"7z\xbc\xaf\x27\x1c")?, "7z archive"),
        (folder.file("a.tar", &tar)?, "tar archive"),
        (folder.file("a.pdf", b"%PDF-1.7\n")?, "pdftotext"),
        (folder.file("a.parquet", b"PAR1\x15\x04")?, "Parquet"),
        (
            folder.file("twice.gz", gzip(&gzip(TEXT.as_bytes())?)?)?,
            "packed twice",
        ),
        (folder.file("wide.tsv", b"\xff\xfet\0e\0x\0t\0")?, "UTF-16"),
        (
            folder.file("a.txt", b"\x89PNG\r\n\x1a\n\0\0")?,
            "an image (PNG)",
        ),
        (
            folder.file("a.csv", "id,text\n1,words\n")?,
            "comma-separated",
        ),
        (
            folder.file("a.csv.gz", gzip(b"id,text\n1,words\n")?)?,
            "comma-separated",
        ),
        (
            folder.file("feed", "<?xml version='1.0'?><rss><item>words</item></rss>")?,
            "is XML",
        ),
        (folder.file("dump.xml", "<mediawiki xmlns='a'>")?, "is XML"),
        (
            folder.file(
                "m.txt",
                "From a Mon 1:00\nTo: b\n\nOne.\n\nFrom b Mon 2:00\nTo: a\n\nTwo.\n",
            )?,
            "a mailbox",
        ),
        (
            folder.file("array.json", b"[\n{\"id\": 1}]")?,
            "jq -c '.[]'",
        ),
        (folder.file("part-0", b"[{\"id\": 1}]")?, "jq -c '.[]'"),
        (
            folder.file("spread.json", b"{\n  \"id\": 1\n}\n")?,
            "jq -c .",
        ),
        (
            folder.file(
                "saved.mhtml",
                "From: a\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related\r\n\r\n<p>a\r\n",
            )?,
            "MHTML",
        ),
        (
            folder.file("f.tsv", b"a\t0123456789abcdef\n")?,
            "--input-format fingerprints",
        ),
        (
            folder.file("f.txt", b"a\t0123456789abcdef\n")?,
            "--input-format fingerprints",
        ),
    ];
    for (input, named) in cases {
        run!("ingest", folder.path("d.simdb"), &input).refused(named);
    }
    Ok(())
}

/// An array was one text, a page with a tab a table, and the lines of a wiki or of a template bad JSON.
#[test]
fn what_has_no_name_is_told_by_how_it_begins() -> TestResult {
    let folder = Folder::new()?;
    let piped = |content: &str| {
        let mut command = program!("fingerprint - --json");
        run_with_input(&mut command, content.as_bytes())
    };
    piped("[{\"id\": 1}]")?.refused("jq -c '.[]'");
    piped("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nwords\n")?
        .refused("--input-format text");
    let words = piped(TEXT)?.expect(0).object()?["fingerprint"].clone();
    let page = format!("<!doctypehtml><title>\t</title><p\tclass=a>{TEXT}");
    assert_eq!(piped(&page)?.expect(0).object()?["fingerprint"], words);
    for text in ["{{Infobox\n|a}}\n", "{% extends 'a' %}\n", "{\\bf a}\n"] {
        let file = folder.file("wiki", format!("{text}{TEXT}"))?;
        let read = done!("fingerprint", &file, "--json").json()?;
        assert_eq!(read.len(), 1, "{text}");
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn pipes_and_names_that_are_not_utf_8_are_read() -> TestResult {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new()?;
    let pipe = folder.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()?
            .success()
    );
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, format!("a\t{TEXT}\n"))
    });
    done!(
        "ingest",
        folder.path("d.simdb"),
        &pipe,
        "--input-format tsv"
    );
    writer.join().expect("the writer does not panic")?;
    done!("get", folder.path("d.simdb"), "a");
    // A stream has no name that could tell its format, however it is named.
    let table = format!("a\t{TEXT}\nb\t{TEXT}\n");
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let lines = |input: Stdio| -> TestResult<usize> {
            let output = program!("fingerprint", name).stdin(input).output()?;
            assert!(output.status.success(), "{name}");
            Ok(String::from_utf8(output.stdout)?.lines().count())
        };
        let file = folder.file("table", &table)?;
        assert_eq!(lines(fs::File::open(&file)?.into())?, 2, "{name}");
        let mut cat = std::process::Command::new("cat")
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()?;
        let piped = cat.stdout.take().ok_or("cat has an output")?;
        assert_eq!(lines(piped.into())?, 2, "{name}");
        assert!(cat.wait()?.success());
        assert_eq!(lines(Stdio::null())?, 0, "{name}");
    }
    // A file has a name, also one in memory, whose path may begin with `/dev`.
    let in_memory = Folder::in_memory()?;
    let text = in_memory.file("text", &table)?;
    assert_eq!(done!("fingerprint", text, "--json").json()?.len(), 1);
    let odd = folder.path("").join(OsStr::from_bytes(b"caf\xe9.txt"));
    fs::write(&odd, TEXT)?;
    done!("ingest", folder.path("d.simdb"), &odd);
    let document = done!("get", folder.path("d.simdb"), &odd, "--json").object()?;
    assert!(document["key_base64"].is_string(), "{document}");
    Ok(())
}

#[test]
fn a_damaged_gzip_file_keeps_what_was_read_before() -> TestResult {
    let folder = Folder::new()?;
    let line = |i: u64| format!("{{\"id\":{i},\"fingerprint\":\"{:016x}\"}}\n", spread(i));
    let whole = gzip((0..50_000).map(line).collect::<String>().as_bytes())?;
    let path = folder.file("cut.jsonl.gz", &whole[..whole.len() / 2])?;
    let ran = run!("ingest", folder.path("d.simdb"), &path).refused("cannot be read further");
    // Every line before the line that is named was stored.
    let after = ran
        .err
        .split("cut.jsonl.gz, line ")
        .nth(1)
        .unwrap_or_default();
    let line: u64 = after.split(':').next().unwrap_or_default().parse()?;
    assert!((10_000..40_000).contains(&line), "{line}");
    let stats = done!("stats", folder.path("d.simdb"), "--json").object()?;
    assert_eq!(stats["documents"], line - 1);
    assert!(ran.out.contains("1 input not read"), "{}", ran.out);
    done!("check", folder.path("d.simdb"));
    // Whole inputs before the damaged one are kept as well.
    let ready = |key: u64| format!("{{\"id\":\"{key}\",\"fingerprint\":\"{key:016x}\"}}\n");
    let (one, two) = (
        folder.file("1.jsonl", ready(1))?,
        folder.file("2.jsonl", ready(2))?,
    );
    let damaged = folder.file("3.jsonl.gz", b"\x1f\x8bnot gzip")?;
    run!("ingest", folder.path("e.simdb"), &one, &two, &damaged)
        .refused("3.jsonl.gz: cannot be read");
    assert_eq!(
        done!("stats", folder.path("e.simdb"), "--json").object()?["documents"],
        2
    );
    Ok(())
}

#[test]
fn nothing_on_standard_input_is_no_document() -> TestResult {
    let folder = Folder::new()?;
    folder.database("d.simdb")?;
    let ran = done!("ingest", folder.path("d.simdb"), "- --json");
    assert_eq!(ran.object()?["documents"], 0);
    run!("ingest", folder.path("d.simdb"), "- -").refused("standard input can be read only once");
    Ok(())
}

#[test]
fn plain_files_that_are_no_text_or_empty_are_counted() -> TestResult {
    let folder = Folder::new()?;
    let binary = folder.file("binary.txt", b"caf\xe9\0\0\x01\x02 au lait")?;
    let empty = folder.file("empty.txt", "")?;
    let ran = done!("ingest", folder.path("d.simdb"), &binary, &empty, "--json");
    let ran = ran.says("binary.txt: is no text: it has bytes that stand in no text");
    ran.counts(["documents", "too_short", "rejected"], [1, 1, 1]);
    Ok(())
}

#[test]
fn the_first_good_record_decides_whether_fingerprints_are_made_here() -> TestResult {
    let folder = Folder::new()?;
    let ready = folder.file(
        "ready.jsonl",
        "not json\n{\"id\":1,\"fingerprint\":\"00000000000000ff\"}\n",
    )?;
    let text = folder.file("text.jsonl", format!("{{\"id\":2,\"text\":\"{TEXT}\"}}\n"))?;
    let external = folder.path("external.simdb");
    done!("ingest", &external, &ready).says("ready.jsonl, line 1");
    assert_eq!(
        done!("stats", &external, "--json").object()?["scheme"],
        "external"
    );
    run!("ingest", &external, &text)
        .refused("fingerprints of the scheme external are made elsewhere");
    let made_here = folder.path("text.simdb");
    done!("ingest", &made_here, &text, "--sketch 0");
    run!("ingest", &made_here, &ready).refused("say so with `--scheme minwise-1`");
    run!("get", &made_here, "1").expect(1);
    done!("ingest", &made_here, &ready, "--scheme minwise-1");
    done!("get", &made_here, "1");
    run!("ingest", &made_here, &ready, "--scheme external")
        .refused("of scheme minwise-1, not external");
    run!("ingest", &made_here, &ready, "--scheme nonesuch").refused("no scheme is called");
    let minwise = folder.path("minwise.simdb");
    done!("ingest", &minwise, &text, "--scheme minwise");
    assert_eq!(
        done!("stats", &minwise, "--json").object()?["scheme"],
        "minwise-1"
    );
    assert_eq!(done!("query", &minwise, "--text", TEXT).out, "0\t1.00\t2\n");
    let content = folder.path("content.simdb");
    done!("ingest", &content, &text, "--scheme content");
    assert_eq!(
        done!("stats", &content, "--json").object()?["scheme"],
        "content-1"
    );
    assert_eq!(done!("query", &content, "--text", TEXT).out, "0\t1.00\t2\n");
    // Documents that are too short and records that are rejected do not decide the scheme.
    let mixed = folder.file(
        "mixed.jsonl",
        concat!(
            "{\"id\":1,\"fingerprint\":null,\"too_short\":true}\n",
            "{\"text\":\"no key\"}\n",
            "{\"id\":2,\"fingerprint\":\"00000000000000ff\"}\n"
        ),
    )?;
    done!("ingest", folder.path("mixed.simdb"), &mixed);
    assert_eq!(
        done!("stats", folder.path("mixed.simdb"), "--json").object()?["scheme"],
        "external"
    );
    Ok(())
}

#[test]
fn standard_input_is_committed_while_it_pauses() -> TestResult {
    use std::process::Stdio;
    let folder = Folder::new()?;
    let mut child = program!("ingest --json", folder.path("d.simdb"), "-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    write!(stdin, "a\t{TEXT}\nb\t{TEXT}\n")?;
    stdin.flush()?;
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line)?;
    assert!(line.contains("\"key\":\"b\""), "{line}");
    drop(stdin);
    assert!(child.wait()?.success());
    Ok(())
}

/// They were appended to the database, which was damaged, and to the input, which had no end.
#[test]
fn rejected_records_do_not_go_into_the_database_or_an_input() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let input = folder.file(
        "a.jsonl",
        "{\"key\":\"a\",\"fingerprint\":\"0000000000000007\"}\nbad\n",
    )?;
    folder
        .run("ingest new.simdb a.jsonl --rejected new.simdb")?
        .refused("into the database");
    assert!(!folder.path("new.simdb").exists());
    done!("ingest", &path, &input, "--rejected", folder.path("r.txt"));
    let before = fs::read(&path)?;
    run!("ingest", &path, &input, "--again --rejected", &path).refused("into the database");
    assert!(before == fs::read(&path)?);
    run!("ingest", &path, &input, "--again --rejected", &input).refused("one of the inputs");
    run!(
        "ingest",
        &path,
        folder.path(""),
        "--rejected",
        folder.path("r.txt")
    )
    .refused("one of the inputs");
    fs::hard_link(&input, folder.path("b.jsonl"))?;
    folder
        .run("ingest d.simdb a.jsonl --rejected b.jsonl")?
        .refused("one of the inputs");
    assert_eq!(fs::read_to_string(&input)?.lines().count(), 2);
    done!("check", &path);
    // Nor into another file that is no list of them.
    let again = |rejected: &std::path::Path| {
        run_with_input(
            &mut program!("ingest", &path, &input, "--again --rejected", rejected),
            b"",
        )
    };
    let copy = folder.path("copy.simdb");
    done!("backup", &path, &copy);
    again(&copy)?.refused("no list of rejected records");
    done!("check", &copy);
    let archive = folder.file("a.warc", "WARC/1.0\r\n")?;
    again(&archive)?.refused("no list of rejected records");
    again(&folder.path("r.txt"))?.expect(0);
    #[cfg(unix)]
    {
        let link = folder.path("link");
        std::os::unix::fs::symlink("later.simdb", &link)?;
        folder
            .run("ingest later.simdb a.jsonl --rejected link")?
            .refused("where nothing is");
        assert!(!folder.path("later.simdb").exists());
    }
    let texts = folder.file("t.jsonl", "{\"key\":\"a\",\"text\":\"one\"}\n")?;
    run!(
        "ingest",
        &path,
        &input,
        "--again --verify words --texts",
        &texts,
        "--rejected",
        &texts
    )
    .refused("one of the inputs");
    Ok(())
}

#[test]
fn where_nothing_is_taken_no_database_is_left() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let empty = folder.file("a.jsonl", "\n\n")?;
    run!("ingest", &path, &empty).refused("no database was created");
    assert!(!path.exists());
    run!("ingest", &path, &empty, "--source", "").refused("--source");
    let long = "n".repeat(4_097);
    run!("ingest", &path, &empty, "--source", &long).refused("has 4097 bytes");
    assert!(!path.exists());
    // Of a record behind a name that no source can have, a writer stored the document, and said nothing of the place.
    for name in ["", &long] {
        let options = ReadOptions::new().source_name(name);
        assert_error!(Records::open([&empty], options) => Error::SourceName { .. });
    }
    // An empty input does no harm to a database that is there.
    folder.database("d.simdb")?;
    done!("ingest", &path, &empty);
    Ok(())
}

/// The mark was once a part of the key, which nobody can see.
#[test]
fn byte_order_marks_of_files_that_were_put_together_are_no_part_of_a_record() -> TestResult {
    let folder = Folder::new()?;
    let text = |key: &str| format!("the text of {key} in several words that are its own");
    let tsv = |key: &str| format!("\u{feff}{key}\t{}\n", text(key));
    let json = |key: &str| format!("\u{feff}{{\"id\":\"{key}\",\"text\":\"{}\"}}\n", text(key));
    let ready = |key: &str| format!("\u{feff}{key}\t00000000000000ff\n");
    for (name, format, line) in [
        ("a.tsv", "auto", &tsv as &dyn Fn(&str) -> String),
        ("a.jsonl", "auto", &json),
        ("a.txt", "fingerprints", &ready),
    ] {
        let database = folder.path(&format!("{name}.simdb"));
        // A file that is empty but for its mark, and one after which a line ends.
        let content = [
            &line("a1"),
            "\u{feff}",
            &line("b1"),
            "\u{feff}\n",
            &line("c1"),
        ]
        .concat();
        let input = folder.file(name, content)?;
        let ran = done!(
            "ingest",
            &database,
            &input,
            "--input-format",
            format,
            "--json"
        );
        assert_eq!(ran.last()?["rejected"], 0, "{name}: {}", ran.err);
        for key in ["a1", "b1", "c1"] {
            done!("get", &database, key);
        }
    }
    Ok(())
}

/// Five thousand sentences were once one document, without a word.
#[test]
fn a_file_of_many_short_lines_is_told_unless_somebody_says_what_it_is() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = (0..5_000)
        .map(|at| format!("sentence {at} of many that stand each on a line\n"))
        .collect();
    let list = folder.file("list.txt", &lines)?;
    let says = "is read as one document of 5000 short lines; `--input-format lines`";
    done!("ingest", folder.path("a.simdb"), &list).says(says);
    folder
        .run("ingest b.simdb list.txt --input-format text")?
        .expect(0)
        .says_no("short lines");
    folder
        .run("dedup list.txt --output clean/")?
        .expect(0)
        .says(says);
    for question in [
        "query a.simdb --input list.txt",
        "overlap a.simdb list.txt",
        "fingerprint list.txt",
        "pairs a.simdb --with list.txt",
    ] {
        folder.run(question)?.says(says);
        folder
            .run(&format!("{question} --input-format text"))?
            .says_no("short lines");
    }
    let read = folder
        .run("ingest c.simdb list.txt --input-format lines --json")?
        .expect(0);
    assert_eq!(read.last()?["documents"], 5_000);
    let paragraphs = folder.file("novel.txt", lines.replace('\n', "\n\n"))?;
    done!("ingest", folder.path("d.simdb"), &paragraphs).says_no("short lines");
    Ok(())
}
