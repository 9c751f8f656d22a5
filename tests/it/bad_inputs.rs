//! Inputs that cannot be read beside others that can, files that grow, and files that look as they did: nothing is
//! lost, nothing is read twice for nothing, and each is told.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use simdb::Database;
use simdb::ingest::{Ingest, ReadOptions, Records};

use crate::support::{
    Folder, TestResult, assert_has, documents_of, done, figures, gzip, run, run_with_input, spread,
};

fn line(key: &str, bits: u64) -> String {
    format!(
        "{{\"key\":\"{key}\",\"fingerprint\":\"{:016x}\"}}\n",
        spread(bits)
    )
}

fn lines(name: &str, count: u64) -> String {
    (0..count)
        .map(|i| line(&format!("{name}-{i}"), i))
        .collect()
}

/// Two good files of five records each, and between them a PDF, an archive that is cut, and links that lead nowhere.
fn mirror(folder: &Folder) -> std::io::Result<PathBuf> {
    let mirror = folder.path("mirror");
    fs::create_dir(&mirror)?;
    fs::write(mirror.join("a.jsonl"), lines("a", 5))?;
    let packed = gzip(lines("b", 20_000).as_bytes())?;
    fs::write(mirror.join("b.jsonl.gz"), &packed[..packed.len() / 2])?;
    fs::write(
        mirror.join("c.pdf"),
        b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj",
    )?;
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", mirror.join("d.jsonl"))?;
    fs::write(mirror.join("e.jsonl"), lines("e", 5))?;
    Ok(mirror)
}

const FAILED: u64 = if cfg!(unix) { 3 } else { 2 };

/// The PDF ended the run, and no later file was ever read.
#[test]
fn a_folder_is_read_but_for_what_cannot_be_read_and_a_second_run_has_nothing_to_do() -> TestResult {
    let folder = Folder::new()?;
    let (mirror, path) = (mirror(&folder)?, folder.path("d.simdb"));
    let first = run!("ingest", &path, &mirror, "--json").refused("c.pdf: is a PDF file");
    let first = first
        .says("b.jsonl.gz, line ")
        .says("cannot be read further");
    let totals = first.last()?;
    let documents = totals["documents"].as_u64().unwrap_or_default();
    assert!(
        documents > 2_000 && totals["in_all"]["documents"] == documents,
        "{totals}"
    );
    assert_eq!(totals["failed_inputs"], FAILED);
    let told = first
        .json()?
        .iter()
        .filter(|it| it["reason"].is_string())
        .count() as u64;
    assert_eq!(told, FAILED);
    assert!(!first.err.contains("goes on from there"), "{}", first.err);
    for key in ["a-4", "e-4"] {
        done!("get", &path, key);
    }
    let second = run!("ingest", &path, &mirror)
        .refused("c.pdf")
        .says("b.jsonl.gz");
    let told = format!("nothing new, 2 inputs unchanged, {FAILED} inputs not read");
    assert!(second.out.starts_with(&told), "{}", second.out);
    second.prints(&format!("in all: {documents} documents"));
    done!("sources", &path);
    // The whole archive goes on where the cut one has ended.
    let packed = gzip(lines("b", 20_000).as_bytes())?;
    fs::write(mirror.join("b.jsonl.gz"), packed)?;
    let third = run!("ingest", &path, &mirror, "--json").expect(2).last()?;
    assert_has!(third, {"documents": 20_010 - documents, "in_all": {"documents": 20_010}});
    assert_eq!(documents_of(&path)?, 20_010);
    Ok(())
}

#[test]
fn strict_stops_at_the_first_input_that_cannot_be_read() -> TestResult {
    let folder = Folder::new()?;
    let (mirror, path) = (mirror(&folder)?, folder.path("d.simdb"));
    let ran = run!("ingest", &path, &mirror, "--strict --glob [ace]*").refused("is a PDF file");
    let ran = ran.says(
        "5 documents had been stored before this; without --strict, the same command goes on",
    );
    assert!(ran.out.is_empty(), "{}", ran.out);
    run!("get", &path, "e-0").expect(1);
    Ok(())
}

/// What is not in the output must not be why something else is removed: the cut archive has the texts of `z.jsonl`.
#[test]
fn a_corpus_is_cleaned_but_for_what_cannot_be_read() -> TestResult {
    let folder = Folder::new()?;
    let (mirror, output) = (mirror(&folder)?, folder.path("out"));
    fs::write(mirror.join("z.jsonl"), lines("b", 40))?;
    let ran = run!("dedup", &mirror, "-o", &output, "--json").refused("c.pdf: is a PDF file");
    let totals = ran.says("b.jsonl.gz").last()?;
    // Of the records with one fingerprint, those of `a` are the first.
    assert_eq!(
        figures(&totals, ["records", "removed"]),
        [50, 10],
        "{totals}"
    );
    assert_eq!(totals["failed_inputs"], FAILED);
    let mut names: Vec<_> = fs::read_dir(&output)?
        .map(|it| it.map(|it| it.file_name()))
        .collect::<Result<_, _>>()?;
    names.sort();
    assert_eq!(names, ["a.jsonl", "e.jsonl", "z.jsonl"]);
    assert_eq!(
        fs::read_to_string(output.join("z.jsonl"))?.lines().count(),
        35
    );
    run!("dedup", mirror.join("c.pdf"), "-o", folder.path("none")).refused("is a PDF file");
    assert!(!folder.path("none").exists());
    Ok(())
}

#[test]
fn other_commands_read_the_other_inputs_too() -> TestResult {
    let folder = Folder::new()?;
    let (mirror, path) = (mirror(&folder)?, folder.path("d.simdb"));
    done!("ingest", &path, mirror.join("a.jsonl"));
    let asked = run!("query", &path, "--input", &mirror, "--json").refused("c.pdf: is a PDF file");
    assert!(
        asked.json()?.iter().any(|it| it["key"] == "e-4"),
        "{}",
        asked.out
    );
    let words = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let (pdf, good) = (
        mirror.join("c.pdf"),
        folder.file("good.tsv", format!("k\t{words}\n"))?,
    );
    run!("fingerprint", &pdf, folder.path("none"), &good)
        .refused("PDF")
        .says("no such file")
        .ends("\tk\n");
    // What texts are compared with must not be missing.
    run!("query", &path, "--key a-1 --verify words --texts", &pdf).refused("PDF");
    Ok(())
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf_8_are_told_without_loss() -> TestResult {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new()?;
    let pages = folder.path("pages");
    fs::create_dir(&pages)?;
    for name in [&b"\xff.jsonl"[..], b"\xfe.jsonl"] {
        fs::write(
            pages.join(OsStr::from_bytes(name)),
            format!("{}{{}}\n", line("k", 1)),
        )?;
    }
    fs::write(pages.join(OsStr::from_bytes(b"\xfd.pdf")), "%PDF-1.4\n")?;
    let (path, rejected) = (folder.path("d.simdb"), folder.path("rejected"));
    let ran = run!("ingest", &path, &pages, "--json --rejected", &rejected).expect(2);
    let ran = ran
        .says(r"\xff.jsonl, line 2: ")
        .says(r"\xfe.jsonl, line 2: ")
        .says(r"\xfd.pdf: is a PDF");
    assert!(
        ran.json()?
            .iter()
            .any(|it| it["input_base64"].is_string() && it["reason"].is_string())
    );
    let told = fs::read_to_string(rejected)?;
    assert_eq!(told.matches("\"source_base64\"").count(), 2, "{told}");
    done!("sources", &path)
        .prints(r"\xff.jsonl")
        .prints(r"\xfe.jsonl");
    Ok(())
}

/// Ingests a file as it is now.
fn ingest(database: &Database, path: &Path) -> simdb::Result<simdb::ingest::Ingested> {
    let records = Records::open([path], ReadOptions::new())?;
    Ingest::new(database).run(records, |_| std::ops::ControlFlow::Continue(()))
}

/// A file is read while its last line is being written, at every byte of that line. In the end the documents are those
/// of the whole file, and each is counted once.
#[test]
fn a_file_that_grows_byte_by_byte_ends_as_if_it_had_been_read_once() -> TestResult {
    let folder = Folder::new()?;
    let text = |i: u64| {
        format!("text {i} of some wörds one two three four five six seven eight nine ten {i}")
    };
    let json = |i: u64| format!("{{\"key\":\"k{i}\",\"text\":\"{}\",\"seen\":1}}\n", text(i));
    let cases = [
        (
            "in.jsonl",
            (0..3).map(json).collect::<String>(),
            simdb::Scheme::default(),
        ),
        (
            "in.tsv",
            (0..3).map(|i| format!("k{i}\t{}\n", text(i))).collect(),
            simdb::Scheme::default(),
        ),
        ("in.fp.jsonl", lines("f", 3), simdb::Scheme::External),
    ];
    for (name, whole, scheme) in cases {
        let grown = folder.path(name);
        let options = simdb::CreateOptions::new().scheme(scheme);
        let database = Database::create(folder.path(&format!("{name}.simdb")), &options)?;
        let mut last = None;
        // From within the first line on.
        let from = whole.find('\n').unwrap_or_default() - 3;
        fs::write(&grown, &whole.as_bytes()[..from])?;
        for end in from..=whole.len() {
            fs::write(&grown, &whole.as_bytes()[..end])?;
            let ingested = ingest(&database, &grown)?;
            assert_eq!(
                (ingested.now.rejected, ingested.failed),
                (0, 0),
                "{name} at {end}: {ingested:?}"
            );
            last = Some(ingested);
        }
        let other = folder.file(&format!("whole-{name}"), &whole)?;
        let once = Database::create(folder.path(&format!("{name}-once.simdb")), &options)?;
        let expected = ingest(&once, &other)?;
        let documents = |database: &Database| -> simdb::Result<Vec<_>> {
            let mut documents = Vec::new();
            for document in database.snapshot()?.documents() {
                let document = document?;
                documents.push((document.key().to_vec(), document.fingerprint()));
            }
            documents.sort();
            Ok(documents)
        };
        assert_eq!(documents(&database)?, documents(&once)?, "{name}");
        let in_all = last.ok_or("nothing was read")?.in_all;
        assert_eq!(
            (in_all.documents, in_all.left),
            (expected.now.documents, 0),
            "{name}"
        );
    }
    Ok(())
}

/// A file of the same length, with the same beginning and end, was passed over as read.
#[test]
fn a_file_that_was_changed_is_read_again_and_one_that_was_only_touched_is_not() -> TestResult {
    let folder = Folder::new()?;
    let (path, whole) = (folder.path("d.simdb"), lines("k", 5_000));
    let input = folder.file("in.jsonl", &whole)?;
    std::thread::sleep(Duration::from_millis(150));
    done!("ingest", &path, &input, "--json");
    File::options()
        .write(true)
        .open(&input)?
        .set_modified(SystemTime::UNIX_EPOCH)?;
    done!("ingest", &path, &input, "--json").counts(["documents", "unchanged_inputs"], [0, 1]);
    // Between two samples, and with the old time.
    let at = whole.len() / 30;
    let at = at
        + whole[at..]
            .find("fingerprint\":\"")
            .ok_or("a fingerprint")?
        + 14;
    let changed = format!("{}0123456789abcdef{}", &whole[..at], &whole[at + 16..]);
    assert_eq!(changed.len(), whole.len());
    fs::write(&input, &changed)?;
    File::options()
        .write(true)
        .open(&input)?
        .set_modified(SystemTime::UNIX_EPOCH)?;
    let again = done!("ingest", &path, &input, "--json")
        .says("has changed since it was read")
        .last()?;
    assert_has!(again, {"documents": 5_000, "in_all": {"documents": 5_000}});
    Ok(())
}

#[test]
fn sources_that_nobody_gives_any_more_are_forgotten_by_age() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let inputs = [
        folder.file("a.jsonl", lines("a", 2))?,
        folder.file("b.jsonl", lines("b", 2))?,
    ];
    done!("ingest", &path, &inputs[0], &inputs[1]);
    done!("sources", &path, "--forget-before @4102444800 --dry-run")
        .prints("would forget 2 sources");
    // That was forgotten although it was not to be, since options that exclude each other were not required.
    run!("sources", &path, "--forget a.jsonl --dry-run").expect(2);
    // An empty scope would be that of all documents without one.
    run!("delete", &path, "--scope", "").expect(2);
    run!("expire", &path, "--before @1 --scope", "").expect(2);
    done!("sources", &path, "--forget-before 90d");
    assert_eq!(done!("sources", &path).out.lines().count(), 2);
    done!("sources", &path, "--forget-before @4102444800");
    assert_eq!(done!("sources", &path).out.lines().count(), 0);
    run!("sources", &path, "--dry-run").expect(2);
    assert_eq!(done!("stats", &path, "--json").object()?["documents"], 4);
    Ok(())
}

/// Each was a document, without a word.
#[test]
fn what_is_no_text_of_a_corpus_is_told_or_left_out() -> TestResult {
    let folder = Folder::new()?;
    let mirror = folder.path("mirror");
    fs::create_dir(&mirror)?;
    fs::write(mirror.join("a.jsonl"), lines("a", 2))?;
    for index in ["index.cdx", "index.cdxj", "index.cdxj.gz"] {
        fs::write(mirror.join(index), " CDX N b a m s k r M S V g\n")?;
    }
    let totals = done!("ingest", folder.path("d.simdb"), &mirror, "--json").last()?;
    assert_eq!(totals["documents"], 2);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    for name in ["p.txt", "p.jsonl", "p.html", "p"] {
        let pointer = folder.file(name, pointer)?;
        run!("ingest", folder.path("p.simdb"), pointer).refused("git lfs pull");
    }
    let table = "id,text\n1,some words that are long enough\n2,\"other words, with a comma\"\n";
    let input = folder.file("rows", table)?;
    run!("ingest", folder.path("t.simdb"), input).refused("comma-separated");
    // As pandas writes it, with the numbers of the rows, and as spreadsheets do.
    for table in [
        ",id,text\n0,1,some words\n",
        "\"\",\"id\",\"text\"\n\"1\",\"a\",\"some words\"\n",
        "doc-id;text;date.added\n1;some words;2020\n",
    ] {
        let mut command = folder.command("ingest t.simdb -");
        run_with_input(&mut command, table.as_bytes())?.refused("comma-separated");
    }
    folder.file(
        "array",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<U9', }\na\0\0\0b\0\0\0",
    )?;
    folder
        .run("ingest n.simdb array")?
        .refused("array of NumPy");
    let text = folder.file(
        "words",
        "dear reader, text and more\nfollows here, and there\n",
    )?;
    done!("ingest", folder.path("w.simdb"), text);
    Ok(())
}

/// Each was a document without words, and with it the output of a cleaning was a folder.
#[test]
fn empty_parts_of_a_corpus_have_no_records() -> TestResult {
    let folder = Folder::new()?;
    let parts = folder.path("parts");
    fs::create_dir(&parts)?;
    fs::write(parts.join("part-00000"), lines("a", 2))?;
    fs::write(parts.join("part-00001"), "")?;
    fs::write(parts.join("part-00002.gz"), gzip(b"")?)?;
    fs::write(parts.join("part-00003"), lines("b", 1))?;
    let ingest = "ingest d.simdb parts --json";
    folder.run(ingest)?.expect(0).counts(["documents"], [3]);
    folder
        .run("dedup parts/part-00000 parts/part-00001 parts/part-00003 -o clean")?
        .expect(0);
    assert!(folder.path("clean").is_file());
    // What comes into such a file later is read, whatever it is.
    for count in [1, 2] {
        fs::write(parts.join("part-00001"), lines("c", count))?;
        folder.run(ingest)?.expect(0);
    }
    folder.run("get d.simdb c-1")?.expect(0);
    // A text without words is a document all the same.
    folder.file("empty.txt", "")?;
    folder
        .run("ingest other.simdb empty.txt --json")?
        .expect(0)
        .counts(["documents", "too_short"], [1, 1]);
    for content in [
        "",
        "These are words of a plain text that come into the file later on.",
    ] {
        folder.file("later", content)?;
        folder.run("ingest other.simdb later")?.expect(0);
    }
    folder.run("get other.simdb later")?.expect(0);
    Ok(())
}
