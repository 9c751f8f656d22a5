//! One document is one document: nouns agree with their numbers in all that the program says.
//!
//! Each command is run with one document, one record, one input, one pair, one group and one source.
//! [`Ran::expect`](crate::support::Ran::expect) looks at what all other tests print.

use simdb::Sketch;

use crate::support::{Folder, TestResult, plural_of_one};

const TEXT: &str =
    "the only text of this test says in a few plain words that one thing is one thing and not two";

/// What a command says, with its messages.
fn told(folder: &Folder, line: &str) -> TestResult<String> {
    let ran = folder.run(line)?;
    assert!(matches!(ran.code, Some(0..=2)), "{line}: {}", ran.err);
    assert!(!ran.err.contains("Usage:"), "{line}: {}", ran.err);
    Ok(format!("{}{}", ran.out, ran.err))
}

#[test]
fn one_thing_is_not_told_as_several() -> TestResult {
    let folder = Folder::new()?;
    let record = |key: &str| format!("{{\"key\": \"{key}\", \"text\": \"{TEXT}\"}}\n");
    folder.file("one.jsonl", record("a"))?;
    folder.file("two.jsonl", record("a") + &record("b"))?;
    folder.file("labels.tsv", "a\tb\tsame\na\tnobody\tsame\n")?;
    let list = (1..=7).map(|_| "rejected\n").collect::<String>();
    folder.file("six.jsonl", record("a") + &list[..list.len() - 9])?;
    let mut all = String::new();
    for line in [
        "ingest one.simdb one.jsonl",
        "ingest one.simdb one.jsonl",
        "ingest one.simdb one.jsonl missing.jsonl",
        "ingest one.simdb one.jsonl --restart --on-duplicate skip",
        "ingest units.simdb one.jsonl --unit sentence",
        "ingest two.simdb two.jsonl",
        "ingest rejected.simdb six.jsonl",
        "stats one.simdb",
        "stats two.simdb --verbose",
        "check one.simdb",
        "query two.simdb --key a",
        "query two.simdb --key a --limit 1",
        "query one.simdb --input one.jsonl --limit 0",
        "explain one.simdb --key a",
        "explain one.simdb --key a --max-distance 0",
        "overlap units.simdb one.jsonl",
        "pairs two.simdb",
        "pairs two.simdb --groups",
        "clusters two.simdb",
        "clusters two.simdb --connected",
        "report one.simdb",
        "report two.simdb",
        "sources one.simdb",
        "sources one.simdb --forget-before @9999999999 --dry-run",
        "backup one.simdb copy.simdb",
        "compact copy.simdb",
        "sources copy.simdb --forget-before @9999999999",
        "salvage one.simdb saved.simdb",
        "delete two.simdb --duplicates --dry-run",
        "expire two.simdb --before @9999999999 --scope none",
        "delete two.simdb --duplicates",
        "expire two.simdb --before @9999999999 --dry-run",
        "expire two.simdb --before @9999999999",
        "dedup two.jsonl --list",
        "dedup one.jsonl --output same.jsonl --removed nothing.jsonl",
        "dedup two.jsonl --output clean.jsonl --removed removed.jsonl",
        "dedup two.jsonl missing.jsonl --output without.jsonl",
        "dedup two.jsonl --output marked.jsonl --annotate",
        "audit clean.jsonl --removed removed.jsonl",
        "audit clean.jsonl --removed removed.jsonl --input two.jsonl",
        "audit two.jsonl --removed removed.jsonl",
        "eval two.jsonl --pairs labels.tsv --method simhash-1",
        "fingerprint one.jsonl",
        "plan --expect 1 --max-distance 1",
    ] {
        let text = told(&folder, line)?;
        assert_eq!(plural_of_one(&text), None, "simdb {line}:\n{text}");
        all += &text;
    }
    let dump = told(&folder, "dump one.simdb")?;
    let says_two = dump.replacen("\"documents\":1}", "\"documents\":2}", 1);
    folder.file("dump.jsonl", says_two)?;
    all += &told(&folder, "load cut.simdb dump.jsonl")?;
    let nouns = "document near-duplicate input sentence pair group cluster source record";
    for noun in nouns.split(' ') {
        let is_told = all.contains(&format!("1 {noun}")) || all.contains(&format!("1 kept {noun}"));
        assert!(is_told, "nothing is said of 1 {noun}:\n{all}");
    }
    Ok(())
}

#[test]
fn errors_of_the_library_agree_with_their_numbers_too() {
    let error = Sketch::new(&[0], 1)
        .expect_err("it is too short")
        .to_string();
    assert!(
        error.starts_with("1 byte and 1 shingle are no sketch"),
        "{error}"
    );
}

#[test]
fn the_look_for_plurals_finds_them() {
    for (text, found) in [
        ("d: 1 documents, 2 pairs", Some("1 … documents")),
        ("(1 kept records)", Some("1 … records")),
        ("1 document has 11 words", None),
        ("distance 1, words", None),
        ("{\"text\": \"1 documents\"}", None),
    ] {
        assert_eq!(plural_of_one(text).as_deref(), found, "{text}");
    }
}
