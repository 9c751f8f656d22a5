//! Commands that were killed just after their output had got its name. The same command finds that output, and is done.
//! It used to end with an error: something exists already. What is not that output stays as it is.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use simdb::{Database, Document, Error, OpenOptions, Sketch, SketchSize};

use crate::support::{
    Folder, TestResult, document, external, insert_all, program, run_with_input, spread,
};

/// 200 documents, some with equal and near fingerprints. `other` is the payload of the last one.
fn documents(other: &str) -> Vec<Document> {
    let made = |i: u64| {
        let sketch = Sketch::new(&[7; 16], 9).ok();
        let payload = if i == 199 { other } else { "p" };
        document(format!("k{i}"), spread(i / 5 + 1) ^ (i % 3))
            .with_sketch(sketch)
            .with_payload(payload)
    };
    (0..200).map(made).collect()
}

fn database(path: &Path, other: &str) -> TestResult {
    let options = external().sketch_size(SketchSize::Bytes16).created(1234);
    insert_all(&Database::create(path, &options)?, documents(other))?;
    Ok(())
}

/// Makes a database what it is after a kill: it was not closed.
fn leave_open(path: &Path) -> TestResult {
    let open = Database::open(path, &OpenOptions::new())?;
    let bytes = fs::read(path)?;
    drop(open);
    fs::write(path, bytes)?;
    let refused = Database::open(path, &OpenOptions::new().read_only(true));
    assert!(
        matches!(refused, Err(Error::NeedsRecovery { .. })),
        "it was closed"
    );
    Ok(())
}

/// The bytes of a file, and when it was changed.
fn state(path: &Path) -> std::io::Result<(Vec<u8>, SystemTime)> {
    Ok((fs::read(path)?, fs::metadata(path)?.modified()?))
}

/// Runs the command that makes `out`, then the same once more, and then beside things that are not its output.
fn assert_done_once_more(folder: &Folder, command: &str, others: &[&str]) -> TestResult {
    let out = folder.path("out");
    folder.run(command)?.expect(0);
    let made = state(&out)?;
    folder.run(command)?.expect(0);
    assert!(state(&out)? == made, "`{command}` has changed its output");
    let (bytes, _) = made;
    let half = bytes.len() / 2;
    let mut files = vec![bytes[..half].to_vec(), b"precious".to_vec(), Vec::new()];
    // A database is compared by its documents, and other files by their bytes.
    if !others.iter().any(|it| it.ends_with(".simdb")) {
        files.push(bytes[..bytes.len() - 1].to_vec());
        files.push([&bytes[..], b"0"].concat());
        files.push([&bytes[..half], b"~", &bytes[half + 1..]].concat());
    }
    for other in others {
        files.push(fs::read(folder.path(other))?);
    }
    for (number, file) in files.iter().enumerate() {
        fs::write(&out, file)?;
        let before = state(&out)?;
        folder.run(command)?.refused("already exists");
        assert!(
            state(&out)? == before,
            "`{command}` has changed file {number}, which is not its own"
        );
    }
    fs::remove_file(&out)?;
    fs::create_dir(&out)?;
    let refused = folder.run(command)?.expect(2);
    assert!(
        refused.err.contains("exists") || refused.err.contains("directory"),
        "{}",
        refused.err
    );
    fs::remove_dir(&out)?;
    assert_eq!(
        fs::read_dir(folder.path(""))?.filter(is_temporary).count(),
        0
    );
    Ok(())
}

fn is_temporary(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry
        .as_ref()
        .is_ok_and(|it| it.file_name().to_string_lossy().contains(".tmp"))
}

#[test]
fn a_search_for_pairs_that_was_killed_after_its_end_is_done() -> TestResult {
    let folder = Folder::new()?;
    database(&folder.path("d.simdb"), "p")?;
    let formats = if cfg!(feature = "parquet") {
        &["tsv", "jsonl", "parquet"][..]
    } else {
        &["tsv", "jsonl"]
    };
    for format in formats {
        for groups in ["", " --groups"] {
            let other = format!("other.{format}");
            let pairs =
                format!("pairs d.simdb --max-distance 1 --format {format}{groups} --output");
            let others = format!("{pairs} {other} --min-similarity 0 --since 5");
            folder.run(&others)?.expect(0);
            assert_done_once_more(&folder, &format!("{pairs} out"), &[&other])?;
            fs::remove_file(folder.path(&other))?;
        }
    }
    Ok(())
}

#[test]
fn a_load_that_was_killed_after_its_end_is_done() -> TestResult {
    let folder = Folder::new()?;
    for (name, payload) in [("d", "p"), ("e", "another")] {
        database(&folder.path(&format!("{name}.simdb")), payload)?;
        let dump = folder.run(&format!("dump {name}.simdb"))?.expect(0).out;
        folder.file(&format!("{name}.jsonl"), &dump)?;
        // Of other settings, and of fewer documents.
        folder.file(
            "settings.jsonl",
            dump.replacen("\"min_similarity\":0.0", "\"min_similarity\":0.5", 1),
        )?;
        let less = dump.replacen("\"documents\":200", "\"documents\":199", 1);
        let last = less.trim_end().rfind('\n').ok_or("no lines")?;
        folder.file("less.jsonl", &less[..=last])?;
    }
    for name in ["e", "settings", "less"] {
        let load = format!("load of-{name}.simdb {name}.jsonl");
        folder.run(&load)?.expect(0);
    }
    let others = ["of-e.simdb", "of-settings.simdb", "of-less.simdb"];
    assert_done_once_more(&folder, "load out d.jsonl", &others)?;
    // From standard input too.
    let dump = fs::read(folder.path("d.jsonl"))?;
    for _ in 0..2 {
        run_with_input(&mut program!("load", folder.path("out")), &dump)?.expect(0);
    }
    leave_open(&folder.path("out"))?;
    folder
        .run("load out d.jsonl")?
        .expect(0)
        .says("already there and complete");
    // A database that was not only loaded, but has the same documents, is not the output.
    fs::remove_file(folder.path("out"))?;
    folder.run("load out d.jsonl")?.expect(0);
    folder.file("more.tsv", "more\t00000000000000ff\n")?;
    folder
        .run("ingest out more.tsv --input-format fingerprints")?
        .expect(0);
    folder.run("delete out more")?.expect(0);
    folder.run("load out d.jsonl")?.refused("already exists");
    Ok(())
}

#[test]
fn a_backup_that_was_killed_after_its_end_is_done() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    database(&path, "p")?;
    database(&folder.path("e.simdb"), "another")?;
    folder.run("backup d.simdb sources.simdb")?.expect(0);
    folder.file("more.tsv", "more\t00000000000000ff\n")?;
    folder
        .run("ingest sources.simdb more.tsv --input-format fingerprints")?
        .expect(0);
    folder.run("delete sources.simdb more")?.expect(0);
    folder.run("backup d.simdb plan.simdb")?.expect(0);
    folder.run("compact plan.simdb --plan 8x8")?.expect(0);
    let others = ["e.simdb", "sources.simdb", "plan.simdb"];
    assert_done_once_more(&folder, "backup d.simdb out", &others)?;
    // The database has the same documents as itself, but it is no backup of itself.
    let before = state(&path)?;
    fs::hard_link(&path, folder.path("link.simdb"))?;
    for itself in ["d.simdb", "link.simdb", "./d.simdb"] {
        let backup = format!("backup d.simdb {itself}");
        folder.run(&backup)?.refused("already exists");
    }
    assert!(state(&path)? == before);
    // What was stored since the backup is not in it.
    folder.run("backup d.simdb out")?.expect(0);
    leave_open(&folder.path("out"))?;
    folder
        .run("backup d.simdb out")?
        .expect(0)
        .says("already there and complete");
    let added = Database::open(&path, &OpenOptions::new())?;
    insert_all(&added, [document("later", 1)])?;
    drop(added);
    folder.run("backup d.simdb out")?.refused("already exists");
    Ok(())
}

#[cfg(feature = "parquet")]
#[test]
fn an_export_and_the_clusters_of_pairs_that_were_killed_after_their_end_are_done() -> TestResult {
    let folder = Folder::new()?;
    database(&folder.path("d.simdb"), "p")?;
    folder.run("export d.simdb bare.parquet")?.expect(0);
    assert_done_once_more(&folder, "export d.simdb out --payload", &["bare.parquet"])?;
    folder
        .run("pairs d.simdb --max-distance 1 --output p.parquet --format parquet")?
        .expect(0);
    let clusters = "clusters p.parquet --pairs --output out";
    assert_done_once_more(&folder, clusters, &["bare.parquet"])
}

#[test]
fn a_report_that_was_killed_after_its_end_is_done() -> TestResult {
    let folder = Folder::new()?;
    database(&folder.path("d.simdb"), "p")?;
    assert_done_once_more(&folder, "report d.simdb --html out", &[])
}
