//! Fingerprints without a sketch, where texts are compared by sketches.
//!
//! Such a document was stored, and nothing said that most questions would miss it: a query with its very text found
//! nothing, and its next copy was new. The programs of the guide made such documents.

use std::ops::ControlFlow;

use serde_json::json;
use simdb::{
    CreateOptions, Database, Document, Error, Near, Policy, Query, Sketch, SketchSize,
    WriterOptions,
};

use crate::support::{Folder, TestResult, document, done, external, insert_all, run};

const TEXT: &str =
    "The ferry to the island leaves at six in the morning and takes two hours, except in winter.";

fn is_refused<T>(done: simdb::Result<T>) -> bool {
    let is = |error: &Error| matches!(error, Error::SketchMissing { bytes: 16, .. });
    match done {
        Err(Error::InBatch {
            index: 1, source, ..
        }) => is(&source),
        Err(error) => is(&error),
        Ok(_) => false,
    }
}

#[test]
fn every_way_into_a_database_of_texts_refuses_a_fingerprint_without_its_sketch() -> TestResult {
    let folder = Folder::new()?;
    let options = CreateOptions::new();
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let fingerprinter = database.fingerprinter()?;
    let bare = Document::new("bare", fingerprinter.fingerprint(TEXT));
    let (policy, whole) = (
        Policy::link().near(Near::new().min_similarity(0.0)),
        fingerprinter.document("whole", TEXT),
    );

    assert!(is_refused(database.validate(&bare)));
    assert!(is_refused(options.validate(&bare)));
    let mut txn = database.begin_write()?;
    assert!(is_refused(txn.insert(&bare)));
    assert!(is_refused(txn.insert_if_new(&bare, &policy)));
    assert!(is_refused(
        txn.insert_batch_if_new(&[whole.clone(), bare.clone()], &policy)
    ));
    let mut each = Vec::new();
    txn.insert_each_if_new(&[(&whole, &policy), (&bare, &policy)], |verdict| {
        each.push(is_refused(verdict));
        ControlFlow::Continue(())
    })?;
    assert_eq!(each, [false, true], "it fails alone");
    txn.commit()?;
    let writer = database.writer(WriterOptions::new())?;
    assert!(is_refused(writer.insert_if_new(&bare, &policy)));
    writer.close()?;
    assert!(is_refused(Database::build(
        folder.path("b.simdb"),
        &options,
        [Ok(bare.clone())],
        1
    )));
    assert!(!folder.path("b.simdb").exists());

    // What is stored is found by its text, and the question may still be a fingerprint alone.
    let snapshot = database.snapshot()?;
    let again = Query::like(&fingerprinter.document("again", TEXT)).ok_or("long enough")?;
    let alone = Query::new(bare.fingerprint().ok_or("long enough")?);
    for query in [again, alone] {
        assert_eq!(snapshot.query(&query)?.total(), 1);
    }
    let message = database
        .validate(&bare)
        .expect_err("it is refused")
        .to_string();
    assert!(
        message.contains("Fingerprinter::document") && message.contains("--sketch 0"),
        "{message}"
    );
    Ok(())
}

/// Too short a text has neither fingerprint nor sketch. Who brings fingerprints of another make may bring sketches of
/// some documents only. Without sketches there is nothing to miss.
#[test]
fn a_document_that_nothing_is_missing_of_is_stored() -> TestResult {
    let folder = Folder::new()?;
    let texts = Database::create(folder.path("t.simdb"), &CreateOptions::new())?;
    insert_all(&texts, [Document::new("too short", None)])?;
    let ready = external().sketch_size(SketchSize::Bytes16);
    let sketched = document("sketched", 1).with_sketch(Sketch::new(&[7; 16], 9)?);
    insert_all(
        &Database::create(folder.path("r.simdb"), &ready)?,
        [document("bare", 1), sketched],
    )?;
    let none = CreateOptions::new().sketch_size(SketchSize::None);
    insert_all(
        &Database::create(folder.path("n.simdb"), &none)?,
        [document("bare", 1)],
    )?;
    Ok(())
}

#[test]
fn the_program_names_the_record_that_lacks_its_sketch() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    let sketch = Sketch::new(&[7; 16], 9)?;
    let lines = [
        json!({"key": "bare", "fingerprint": "00000000000000ff", "seen": 1}),
        json!({"key": "whole", "fingerprint": "00000000000000ff", "sketch": sketch.to_string(), "shingles": 9, "seen": 1}),
    ];
    let lines = lines.map(|it| it.to_string());
    let records = folder.file("in.jsonl", lines.join("\n"))?;
    let ran = done!("ingest", &database, &records, "--scheme minwise-1");
    ran.says("in.jsonl, line 1: the document has a fingerprint but no sketch")
        .says("--sketch 0");
    done!("get", &database, "whole");
    run!("get", &database, "bare").expect(1);
    folder
        .run("ingest n.simdb in.jsonl --scheme minwise-1 --sketch 0")?
        .expect(0);
    done!("get", folder.path("n.simdb"), "bare");
    // A question may be a fingerprint alone, also in an input.
    done!("query", &database, "--fingerprint 00000000000000ff");
    folder
        .run("query d.simdb --input in.jsonl --scheme minwise-1")?
        .expect(0);

    let header = done!("dump", &database).out;
    let header = header.lines().next().ok_or("a header")?.to_owned();
    let dump = folder.file("dump.jsonl", format!("{header}\n{}\n", lines[0]))?;
    run!("load", folder.path("l.simdb"), &dump)
        .refused("dump.jsonl, line 2: the document has a fingerprint but no sketch");
    assert!(!folder.path("l.simdb").exists());
    Ok(())
}
