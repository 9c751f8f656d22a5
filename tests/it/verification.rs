//! The last look: functions of the caller, and texts compared exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use simdb::{
    Change, CreateOptions, Database, Document, Error, Near, Policy, Query, Scheme, WriterOptions,
};

use crate::support::{
    Folder, Ran, TestResult, assert_error, assert_sound, document, done, gzip, insert_all, listed,
    query_of, run,
};

/// Documents whose payloads tell what they are like. All are near to 0.
fn stored(folder: &Folder) -> Result<Database, Error> {
    let database = folder.database("d.simdb")?;
    let named = [
        ("a", 0b1, "red"),
        ("b", 0b10, "blue"),
        ("c", 0b11, "red"),
        ("d", 0b111, "green"),
    ];
    insert_all(
        &database,
        named.map(|(key, bits, payload)| document(key, bits).with_payload(payload)),
    )?;
    Ok(database)
}

fn same(document: &Document, stored: &Document) -> bool {
    document.payload() == stored.payload()
}

fn keys(matches: &simdb::Matches) -> Vec<String> {
    listed(matches).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn only_what_is_verified_matches_a_query() -> TestResult {
    let folder = Folder::new()?;
    let database = stored(&folder)?;
    let snapshot = database.snapshot()?;
    let query = query_of(0);
    let of = |payload: &'static str| {
        query
            .clone()
            .verify(move |it| Ok(it.payload() == payload.as_bytes()))
    };
    let found = snapshot.query(&of("red"))?;
    assert_eq!(
        (keys(&found), found.total(), found.total_is_exact()),
        (vec!["a".into(), "c".into()], 2, true)
    );
    assert_eq!(snapshot.query(&of("black"))?.total(), 0);
    let together = snapshot.query_batch(&[of("blue"), query.clone(), of("green"), of("black")])?;
    let totals: Vec<u64> = together.iter().map(simdb::Matches::total).collect();
    assert_eq!(totals, [1, 4, 1, 0]);
    assert!(snapshot.any_match(&of("green"))?);
    assert!(!snapshot.any_match(&of("black"))?);
    assert!(
        !snapshot.any_match(&of("green").near(2))?,
        "the distance decides first"
    );
    assert_eq!(
        snapshot
            .query(&of("red").near(Near::new().scopes(["other"])))?
            .total(),
        0
    );
    assert_eq!(snapshot.query(&of("red").limit(0))?.total(), 2);
    assert_eq!(snapshot.explain(&of("red"))?.1.total, 2);
    // It is asked only of what matches in everything else.
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let narrow = query.clone().near(1).verify(move |_| {
        counting.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    });
    assert_eq!(
        (
            snapshot.query(&narrow)?.total(),
            asked.load(Ordering::Relaxed)
        ),
        (2, 2)
    );
    let failing = query.clone().verify(|_| Err("no text".into()));
    let failed = |found: Option<Error>| {
        let source = found
            .as_ref()
            .and_then(|it| std::error::Error::source(it))
            .map(ToString::to_string);
        assert!(matches!(found, Some(Error::Verify(_))), "{found:?}");
        assert_eq!(source.as_deref(), Some("no text"));
    };
    failed(snapshot.query(&failing).err());
    failed(snapshot.any_match(&failing).err());
    failed(
        snapshot
            .query_batch(&[query.clone(), failing.clone()])
            .err(),
    );
    assert_eq!(narrow, narrow.clone());
    assert_ne!(narrow, failing);
    Ok(())
}

#[test]
fn totals_of_what_is_verified_are_counted_up_to_128() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    // Many documents of one fingerprint, and more near fingerprints than are kept unread.
    let many = (0..300).map(|i| document(format!("{i:04}"), 7));
    let spread =
        (0..3_000u64).map(|i| document(format!("s{i}"), 1 << (i % 50 + 3) | 1 << (i / 50 + 3) | 7));
    insert_all(&database, many.chain(spread))?;
    let query = query_of(7);
    let even = query
        .clone()
        .verify(|it| Ok(it.key().last().is_some_and(|last| last % 2 == 0)));
    let ask = |query: Query| -> simdb::Result<_> {
        let found = database.snapshot()?.query(&query)?;
        Ok((
            found.as_slice().len(),
            found.total(),
            found.total_is_exact(),
        ))
    };
    assert_eq!(ask(even.clone().near(0))?, (10, 129, false));
    assert_eq!(ask(even.clone().near(0).limit(150))?, (150, 150, true));
    let one = query.verify(|it| Ok(it.key() == b"s2999"));
    assert_eq!(ask(one.clone())?, (1, 1, true));
    assert!(database.snapshot()?.any_match(&one)?);
    Ok(())
}

#[test]
fn policies_store_or_not_by_what_is_verified() -> TestResult {
    let folder = Folder::new()?;
    let database = stored(&folder)?;
    let verified = |policy: Policy| policy.verify(|document, stored| Ok(same(document, stored)));
    let new = |key: &str, payload: &str| document(key, 0).with_payload(payload);
    let mut txn = database.begin_write()?;
    let linked = txn.insert_if_new(&new("e", "red"), &verified(Policy::link()))?;
    assert_eq!(
        (linked.change(), keys(linked.matches())),
        (&Change::Inserted, vec!["a".into(), "c".into()])
    );
    assert!(
        !txn.insert_if_new(&new("f", "black"), &verified(Policy::skip()))?
            .is_duplicate()
    );
    // `f` is of this transaction and not committed yet.
    let skipped = txn.insert_if_new(&new("g", "black"), &verified(Policy::skip()))?;
    assert_eq!(
        (skipped.change(), keys(skipped.matches())),
        (&Change::Skipped, vec!["f".into()])
    );
    // Only the verified matches have to be outranked, and only they are deleted.
    let replaced = txn.insert_if_new(
        &new("h", "red").with_rank([1]),
        &verified(Policy::replace()),
    )?;
    let mut deleted: Vec<&[u8]> = replaced.deleted().iter().map(Document::key).collect();
    deleted.sort_unstable();
    assert_eq!(deleted, [b"a", b"c", b"e"]);
    // The nearest verified match is touched, not the nearest.
    let touching = verified(Policy::skip()).touch(true);
    txn.insert_if_new(&new("i", "green").with_seen(9), &touching)?;
    txn.commit()?;
    let snapshot = database.snapshot()?;
    assert_eq!(snapshot.get("d")?.map(|it| it.seen()), Some(9));
    assert_eq!(snapshot.get("f")?.map(|it| it.seen()), Some(0));
    drop(snapshot);
    let mut txn = database.begin_write()?;
    let batch: Vec<Document> = (0..600)
        .map(|i| new(&format!("n{i}"), ["red", "grey", "pink"][i % 3]))
        .collect();
    let verdicts = txn.insert_batch_if_new(&batch, &verified(Policy::skip()))?;
    let stored = verdicts.iter().filter(|it| !it.is_duplicate()).count();
    assert_eq!(stored, 2, "one grey, one pink, and red is there");
    txn.commit()?;
    Ok(assert_sound(&database)?)
}

#[test]
fn a_document_that_cannot_be_verified_fails_alone() -> TestResult {
    let folder = Folder::new()?;
    let database = stored(&folder)?;
    let policy = Policy::skip().verify(|document, stored| match document.payload() {
        b"" => Err("no text".into()),
        _ => Ok(same(document, stored)),
    });
    let documents = [
        document("e", 0).with_payload("red"),
        document("f", 0),
        document("g", 0).with_payload("x"),
    ];
    let mut txn = database.begin_write()?;
    let asked: Vec<(&Document, &Policy)> = documents.iter().map(|it| (it, &policy)).collect();
    let mut said = Vec::new();
    txn.insert_each_if_new(&asked, |verdict| {
        said.push(
            verdict
                .map(|it| it.is_duplicate())
                .map_err(|error| matches!(error, Error::Verify(_))),
        );
        std::ops::ControlFlow::Continue(())
    })?;
    assert_eq!(said, [Ok(true), Err(true), Ok(false)]);
    drop(txn);
    let writer = database.writer(WriterOptions::new())?;
    let tickets = documents.map(|it| writer.submit(it, &policy));
    let [skipped, failed, inserted] = tickets.map(|it| it.and_then(simdb::Ticket::wait));
    assert_eq!(skipped?.change(), &Change::Skipped);
    assert_error!(failed => Error::Verify(_));
    assert_eq!(inserted?.change(), &Change::Inserted);
    writer.close()?;
    assert_eq!(database.snapshot()?.get("f")?, None);
    Ok(assert_sound(&database)?)
}

/// Texts of twelve words, of which the last ones differ.
fn text(last: &str) -> String {
    format!("the harbour opened again on monday after the long storm {last}")
}

/// A database of three documents near each other: `a` and `b` share most of their words, `c` has others.
fn texts(folder: &Folder) -> TestResult<String> {
    let (a, b) = (text("said the mayor"), text("said a mayor"));
    let c = text("ships ferries trains and planes wait");
    let input = format!("a\t{a}\nb\t{b}\nc\t{c}\n");
    folder.file("in.tsv", &input)?;
    Ok(input)
}

const WIDE: &str = "--max-distance 32 --min-similarity 0";

#[test]
fn ingest_compares_the_texts_of_its_inputs_and_of_a_file() -> TestResult {
    let folder = Folder::new()?;
    texts(&folder)?;
    folder.file("none.tsv", "")?;
    let verify = "--min-similarity 0 --verify words --min-verified 0.8 --texts";
    // Texts of the inputs are known without the file.
    let ingest = format!("ingest d.simdb in.tsv --json --max-distance 32 {verify} none.tsv");
    let ran = folder.run(&ingest)?.expect(0);
    let objects = ran.json()?;
    assert_eq!(objects.len(), 2, "{}", ran.out);
    assert_eq!(objects[0]["key"], "b");
    // Eleven distinct words in common: all of b but `a`, and a has one more `the`.
    let words = objects[0]["matches"][0]["words"]
        .as_f64()
        .ok_or("the value is there")?;
    assert!((words - 11.0 / 12.0).abs() < 1e-4, "{words}");
    assert_eq!(objects[1]["without_text"], 0);
    // In another run, the stored texts come from the file.
    folder.file("d.tsv", format!("d\t{}\n", text("said the mayor")))?;
    let again = |texts: &str| {
        let skipping = "--on-duplicate skip --again";
        folder.run(&format!("ingest d.simdb d.tsv {skipping} {verify} {texts}"))
    };
    again("in.tsv")?
        .expect(0)
        .prints("d is near a (distance 0, similarity 1.00, words 1.00), b ")
        .prints("skipped")
        .prints_no("without text");
    again("none.tsv")?
        .expect(0)
        .says("a: there is no text in")
        .says("c: there is no text in")
        .prints("1 inserted")
        .prints("3 without text");
    Ok(())
}

#[test]
fn a_key_that_comes_again_is_compared_by_the_text_that_is_stored() -> TestResult {
    let folder = Folder::new()?;
    let (first, second) = (
        text("said the mayor"),
        text("ships ferries trains and planes wait"),
    );
    // At its turn, `b` meets the first text of `a`, although the second was read already.
    let lines = format!("a\t{first}\nb\t{first}\na\t{second}\nc\t{second}\n");
    folder.file("in.tsv", lines)?;
    folder.file("none.tsv", "")?;
    folder
        .run(&format!(
            "ingest d.simdb in.tsv {WIDE} --verify cosine --texts none.tsv"
        ))?
        .expect(0)
        .prints("b is near a (distance 0, similarity 1.00, cosine 1.00)")
        .prints("c is near a (distance 0, similarity 1.00, cosine 1.00)");
    Ok(())
}

#[test]
fn query_compares_texts_of_a_compressed_file() -> TestResult {
    let folder = Folder::new()?;
    let input = texts(&folder)?;
    folder
        .run(&format!("ingest d.simdb in.tsv {WIDE}"))?
        .expect(0);
    let packed = "texts.tsv.gz";
    folder.file(packed, gzip(input.as_bytes())?)?;
    let ask = |how: &str, what: &str, texts: &str, more: &str| {
        let mut command = folder.command("query d.simdb --verify words --min-verified 0.8");
        command
            .args([how, what, "--texts", texts, more])
            .output()
            .map(Ran::from)
    };
    let plain = "--limit=10";
    let ran = ask("--key", "c", packed, plain)?.expect(0);
    assert_eq!(ran.out, "0\t1.00\t1.00\tc\n");
    let mayor = text("said the mayor");
    let found = ask("--text", &mayor, packed, "--json")?
        .expect(0)
        .object()?;
    let found = found["matches"].as_array().ok_or("a list")?;
    let keys: Vec<_> = found.iter().map(|it| &it["key"]).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(found[0]["words"], 1.0);
    let other = "nobody has ever told this story of a lamp to anyone";
    ask("--text", other, packed, plain)?.expect(1);
    // Records, of HTML too, with their own texts.
    let page = format!("<html><body><p>{mayor}</p><script>no text</script>");
    let page = serde_json::json!({"id": "p", "html": page}).to_string();
    folder.file("pages.jsonl", page)?;
    ask("--input", "pages.jsonl", packed, plain)?
        .expect(0)
        .begins("p is near a (distance 0, similarity 1.00, words 1.00), b ");
    // What is stored without a text cannot be told.
    folder.file("some.tsv", format!("b\t{}\n", text("said a mayor")))?;
    let ran = ask("--text", &mayor, "some.tsv", plain)?
        .expect(0)
        .says("a: there is no text in")
        .ends("\tb\n");
    assert_eq!(ran.out.lines().count(), 1, "{ran:?}");
    folder.file("none.tsv", "")?;
    ask("--text", &mayor, "none.tsv", plain)?.refused("b: there is no text in");
    ask("--input", "pages.jsonl", "some.tsv", plain)?.expect(2);
    // Pages are found by the texts of pages, and the last of a key counts.
    let a = |html: &str| serde_json::json!({"id": "a", "html": html}).to_string();
    let (old, new) = (a("<p>old"), a(&format!("<p>{mayor}")));
    folder.file("html.jsonl", format!("{old}\n{new}\n"))?;
    ask("--text", &mayor, "html.jsonl", plain)?
        .expect(0)
        .prints("\t1.00\ta\n");
    Ok(())
}

/// The folder was not named, or the database was in its place.
#[cfg(unix)]
#[test]
fn a_folder_for_temporary_files_that_cannot_be_used_is_named() -> TestResult {
    let folder = Folder::new()?;
    texts(&folder)?;
    let path = folder.path("d.simdb");
    done!("ingest", &path, folder.path("in.tsv"));
    let commands = [
        "query d.simdb --key c --verify words --texts in.tsv",
        "pairs d.simdb --with in.tsv",
    ];
    for command in commands {
        let mut command = folder.command(command);
        command.env("TMPDIR", folder.path("gone"));
        Ran::from(command.output()?)
            .refused("gone: this folder for temporary files cannot be used: ")
            .says("; make room there, or let TMPDIR name another one");
    }
    Ok(())
}

#[test]
fn payloads_can_be_the_texts() -> TestResult {
    let folder = Folder::new()?;
    let line = |key: &str, text: &str, payload: &str| {
        serde_json::json!({"id": key, "text": text, "payload": payload}).to_string() + "\n"
    };
    let (a, c) = (
        text("said the mayor"),
        text("ships ferries trains and planes wait"),
    );
    let input = line("a", &a, &a) + &line("b", &a, "") + &line("c", &c, &c) + &line("d", &a, &a);
    folder.file("in.jsonl", input)?;
    let verify = "--verify cosine --texts payload --min-verified 0.95";
    folder
        .run(&format!("ingest d.simdb in.jsonl {WIDE} {verify}"))?
        .expect(0)
        .says("b: there is no text in its payload")
        .begins("d is near a (distance 0, similarity 1.00, cosine 1.00)\n4 doc")
        .prints("1 without text");
    let ran = folder
        .run("query d.simdb --key d --verify words --texts payload")?
        .expect(0);
    assert_eq!(ran.out, "0\t1.00\t1.00\td\n0\t1.00\t1.00\ta\n");
    Ok(())
}

#[test]
fn sentences_are_compared_by_their_own_texts() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let input = folder.file(
        "in.tsv",
        "a\tThe river rose above its banks on Sunday. Nobody was hurt in the town.\n\
         b\tSchools stay closed until Friday. The river rose above its banks on Sunday!\n",
    )?;
    folder.file("none.tsv", "")?;
    folder
        .run("ingest d.simdb in.tsv --unit sentence --verify words --texts none.tsv")?
        .expect(0)
        .begins("b#2 is near a#1 (distance 0, similarity 1.00, words 1.00)\n");
    let asked = "Who knew? Schools stay closed until Friday.";
    let ran = done!(
        "query",
        &path,
        "--unit sentence --verify words --texts",
        &input,
        "--text",
        asked
    );
    assert_eq!(
        ran.out,
        "#2 is near b#1 (distance 0, similarity 1.00, words 1.00)\n"
    );
    folder
        .run("ingest d.simdb in.tsv --unit sentence --verify words --texts payload")?
        .refused("the payload of a unit");
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    Database::create(&path, &CreateOptions::new().scheme(Scheme::Minwise1))?;
    let ask = |more: &str| {
        folder.run(&format!(
            "query d.simdb --fingerprint 00000000000000ff {more}"
        ))
    };
    ask("--verify words --texts payload")?.refused("a fingerprint has none");
    ask("--verify words --limit 3")?.refused("--texts");
    ask("--texts payload --limit 3")?.refused("--verify");
    ask("--min-verified 0.5 --limit 3")?.refused("--verify");
    folder
        .run("query d.simdb --text a --verify words --texts absent")?
        .refused("no such file");
    // Nothing is created before it is known that the texts are there.
    let new = folder.path("new.simdb");
    folder.file("pages.tsv", "a\ttext\n")?;
    folder
        .run("ingest new.simdb pages.tsv --verify words --texts absent")?
        .refused("no such file");
    run!("ingest", &new, "- --verify words --texts -").refused("standard input is read once");
    assert!(!std::fs::exists(&new)?);
    Ok(())
}
