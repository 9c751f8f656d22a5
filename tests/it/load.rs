//! `simdb load`: what it keeps of a dump, and what it says of one that is not whole.

use crate::support::{Folder, Ran, TestResult, done, gzip, insert_all, numbered, run};

const HEADER: &str = concat!(
    r#"{"simdb_dump":2,"scheme":"external","max_distance":3,"#,
    r#""sketch_bytes":0,"min_similarity":0,"documents":1,"created":1234567890}"#
);
const DOCUMENT: &str = r#"{"key":"a","fingerprint":"0000000000000001","seen":0}"#;

fn load(folder: &Folder, dump: impl AsRef<[u8]>) -> std::io::Result<Ran> {
    let input = folder.file("dump", dump)?;
    Ok(run!("load", folder.path("l.simdb"), input))
}

#[test]
fn the_time_of_creation_is_kept() -> TestResult {
    let folder = Folder::new()?;
    load(&folder, format!("{HEADER}\n{DOCUMENT}\n"))?.expect(0);
    let stats = done!("stats", folder.path("l.simdb"), "--json").object()?;
    assert_eq!(stats["created"], 1_234_567_890);
    let dump = done!("dump", folder.path("l.simdb")).out;
    assert!(
        dump.lines()
            .next()
            .is_some_and(|it| it.contains("\"created\":1234567890")),
        "{dump}"
    );
    Ok(())
}

#[test]
fn a_dump_that_is_ingested_is_told_what_reads_it() -> TestResult {
    let folder = Folder::new()?;
    folder.file("in.tsv", "a\tone two three four five six seven eight\n")?;
    folder.run("ingest d.simdb in.tsv")?.expect(0);
    let dump = folder.run("dump d.simdb")?.expect(0).out;
    folder.file("dump.jsonl", dump)?;
    folder
        .run("ingest new.simdb dump.jsonl")?
        .refused("`simdb load`")
        .refused("`--scheme minwise-1`");
    folder
        .run("ingest new.simdb dump.jsonl --scheme minwise-1")?
        .expect(0)
        .says("line 1: the first line of a dump");
    let of_new = folder.run("get new.simdb a")?.expect(0).out;
    assert_eq!(of_new, folder.run("get d.simdb a")?.expect(0).out);
    Ok(())
}

#[test]
fn a_packed_dump_is_unpacked() -> TestResult {
    let folder = Folder::new()?;
    let dump = format!("{HEADER}\n{DOCUMENT}\n");
    load(&folder, zstd::encode_all(dump.as_bytes(), 1)?)?.expect(0);
    std::fs::remove_file(folder.path("l.simdb"))?;
    let cut = &zstd::encode_all(dump.as_bytes(), 1)?[..40];
    load(&folder, cut)?.refused("ends too early");
    load(&folder, gzip(dump.as_bytes())?)?.expect(0);
    // So do editors of Windows.
    std::fs::remove_file(folder.path("l.simdb"))?;
    load(&folder, format!("\u{feff}{dump}"))?.expect(0);
    Ok(())
}

#[test]
fn blank_lines_are_passed_over_but_counted() -> TestResult {
    let folder = Folder::new()?;
    load(&folder, format!("\n{HEADER}\n\n  \n{DOCUMENT}\n\n"))?.expect(0);
    std::fs::remove_file(folder.path("l.simdb"))?;
    load(&folder, format!("{HEADER}\n\n\nnonsense\n"))?.refused("dump, line 4: ");
    Ok(())
}

#[test]
fn a_message_has_one_line_number() -> TestResult {
    let folder = Folder::new()?;
    for dump in [
        format!("{HEADER}\n{{\"key\": nonsense}}\n"),
        format!("{HEADER}\n{{\"key\":\"a\",\"sewn\":0}}\n"),
    ] {
        let ran = load(&folder, dump)?.refused("line 2: ");
        assert_eq!(ran.err.matches("line").count(), 1, "{}", ran.err);
        assert!(ran.err.contains("at column"), "{}", ran.err);
    }
    Ok(())
}

#[test]
fn a_document_without_content_is_refused() -> TestResult {
    let folder = Folder::new()?;
    load(&folder, format!("{HEADER}\n{{\"key\":\"a\",\"seen\":0}}\n"))?
        .refused("neither a fingerprint nor");
    load(
        &folder,
        format!(
            "{HEADER}\n{{\"key\":\"a\",\"fingerprint\":null,\"too_short\":false,\"seen\":0}}\n"
        ),
    )?
    .refused("neither a fingerprint nor");
    let both = DOCUMENT.replace("\"seen\"", "\"too_short\":true,\"seen\"");
    load(&folder, format!("{HEADER}\n{both}\n"))?.refused("too short");
    load(
        &folder,
        format!("{HEADER}\n{{\"key\":\"a\",\"fingerprint\":null,\"too_short\":true,\"seen\":0}}\n"),
    )?
    .expect(0);
    Ok(())
}

#[test]
fn damaged_gzip_is_told_with_a_warning_of_what_came_before() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, (0..5_000).map(numbered))?;
    let dump = done!("dump", folder.path("d.simdb")).out;
    let whole = gzip(dump.as_bytes())?;
    let mut wrong_sum = whole.clone();
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &wrong_sum] {
        load(&folder, damaged)?.refused("may be damaged too");
        assert!(!folder.path("l.simdb").exists());
    }
    load(&folder, &whole)?.expect(0);
    Ok(())
}

#[test]
fn what_is_no_dump_is_named() -> TestResult {
    let folder = Folder::new()?;
    let database = std::fs::read({
        folder.database("d.simdb")?;
        folder.path("d.simdb")
    })?;
    load(&folder, b"BZh91AY&SY and more")?.refused("bzip2");
    load(&folder, database)?.refused("is a database of redb or simdb");
    load(&folder, b"\xff\xfe{\0\"\0")?.refused("UTF-16");
    assert!(!folder.path("l.simdb").exists());
    Ok(())
}
