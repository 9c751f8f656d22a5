//! What is set for a new database, where there is one already.
//!
//! `Database::open_or_create` opened it as it was, whatever was set: who asked for another scheme, distance or sketch
//! went on with the one of the file, and nothing said so. `simdb ingest --sketch 32` did the same.

use simdb::{CreateOptions, Database, Error, Scheme, SketchSize};

use crate::support::{Folder, TestResult, assert_error, bundled, done, external, go_on, run};

#[test]
fn what_is_set_and_stored_otherwise_is_refused_by_name() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let unset = CreateOptions::new;
    let made = unset()
        .scheme(Scheme::Simhash1)
        .max_distance(4)
        .sketch_size(SketchSize::Bytes32);
    let made = made.min_similarity(0.5).plan("6x21").created(77);
    drop(Database::open_or_create(&path, &made)?);

    let refusals = [
        (unset().max_distance(8), "max distance 4, and 8 "),
        (
            unset().sketch_size(SketchSize::Bytes16),
            "sketch size 32, and 16 ",
        ),
        (
            unset().sketch_size(SketchSize::None),
            "sketch size 32, and 0 ",
        ),
        (unset().min_similarity(0.0), "least similarity 0.5, and 0 "),
        (unset().plan("4x16"), "plan 6x21, and 4x16 "),
        (unset().created(78), "time of creation 77, and 78 "),
    ];
    for (options, told) in refusals {
        let error = Database::open_or_create(&path, &options).expect_err(told);
        assert!(matches!(error, Error::CreatedOtherwise { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.contains(told) && message.contains("leave it out"),
            "{message}"
        );
    }
    assert_error!(
        Database::open_or_create(&path, &unset().scheme(Scheme::Minwise1))
        => Error::SchemeMismatch { stored: "simhash-1", given: "minwise-1", .. }
    );

    // What is the same, or not set, is no reason to refuse it. The others only say how to choose the tables.
    for options in [
        unset(),
        made.clone(),
        unset().max_distance(4),
        unset().expected_documents(7),
    ] {
        let database = Database::open_or_create(&path, &options)?;
        assert_eq!(
            (database.scheme(), database.max_distance()),
            (Scheme::Simhash1, 4)
        );
    }
    // No similarity is a similarity of 0.
    let external = folder.path("e.simdb");
    let options = unset().scheme(Scheme::External).min_similarity(0.0);
    drop(Database::open_or_create(&external, &options)?);
    drop(Database::open_or_create(&external, &options)?);
    Ok(())
}

#[test]
fn the_program_refuses_what_the_database_has_otherwise() -> TestResult {
    let folder = Folder::new()?;
    let (path, input) = (
        folder.path("d.simdb"),
        folder.file("in.tsv", "a\tone two three four five six seven eight")?,
    );
    done!("ingest", &path, &input);
    run!("ingest", &path, &input, "--sketch 32").refused("sketch size 16, and 32 is asked for");
    run!("ingest", &path, &input, "--sketch 0").refused("sketch size 16, and 0 is asked for");
    run!("ingest", &path, &input, "--scheme simhash-1").refused("scheme minwise-1, not simhash-1");
    done!("ingest", &path, &input, "--scheme minwise-1 --sketch 16");
    // These are of the question, and are heeded.
    folder
        .run("ingest d.simdb in.tsv --max-distance 3 --min-similarity 0.5 --again")?
        .expect(0);

    let clean = |more: &str| {
        folder.run(&format!(
            "dedup in.tsv -o out.tsv --database d.simdb --again {more}"
        ))
    };
    clean("--sketch 32")?.refused("sketch size 16, and 32 is asked for");
    clean("--scheme simhash-1")?.refused("scheme minwise-1, not simhash-1");
    clean("--sketch 16")?.expect(0);
    Ok(())
}

/// Every document is stored by default, so none is skipped for another, which `--touch` would touch.
#[test]
fn touching_is_refused_where_nothing_is_skipped() -> TestResult {
    let folder = Folder::new()?;
    let input = bundled("pg-docs-html/docs.jsonl.gz");
    let path = folder.path("d.simdb");
    run!("ingest", &path, &input, "--touch").refused("--on-duplicate skip");
    assert!(!path.exists());
    Ok(())
}

/// The plan of the opening was compared, also after a compaction had made other tables.
#[test]
fn the_plan_is_that_of_the_tables_there_are_now() -> TestResult {
    let folder = Folder::new()?;
    let options = |plan: &str| external().plan(plan);
    let database = Database::create(folder.path("d.simdb"), &options("4x16"))?;
    database.ensure_created_with(&options("4x16"))?;
    database.compact_with_plan("3x21", go_on)?;
    database.ensure_created_with(&options("3x21"))?;
    assert!(database.ensure_created_with(&options("4x16")).is_err());
    Ok(())
}
