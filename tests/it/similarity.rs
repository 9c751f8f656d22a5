//! The second look: sketches beside fingerprints, and what they decide.

use simdb::{
    CreateOptions, Database, Document, Error, Fingerprinter, Near, Order, Policy, Query, Scheme,
    Sketch, SketchSize,
};

use crate::support::{
    Folder, TestResult, assert_error, assert_has, assert_sound, bundled, document, done, external,
    figures, insert_all, query_of, run,
};

/// A document whose sketch differs in `differing` of 128 samples from that with 0.
fn like(key: &str, bits: u64, differing: usize) -> simdb::Result<Document> {
    let mut sketch = [0u8; 16];
    (0..differing).for_each(|bit| sketch[bit / 8] |= 1 << (bit % 8));
    Ok(document(key, bits).with_sketch(Sketch::new(&sketch, 100)?))
}

/// Four documents: near and alike, near and unlike, farther and the same, near without a sketch.
fn four(folder: &Folder) -> TestResult<Database> {
    let options = external().sketch_size(SketchSize::Bytes16);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let unsketched = document("unsketched", 0b1);
    insert_all(
        &database,
        [
            like("alike", 0b1, 16)?,
            like("unlike", 0b11, 60)?,
            like("same", 0b111, 0)?,
            unsketched,
        ],
    )?;
    Ok(database)
}

fn keys(matches: &simdb::Matches) -> Vec<String> {
    matches
        .iter()
        .map(|it| String::from_utf8_lossy(it.document.key()).into_owned())
        .collect()
}

#[test]
fn only_documents_that_are_similar_enough_match() -> TestResult {
    let folder = Folder::new()?;
    let database = four(&folder)?;
    let snapshot = database.snapshot()?;
    let query = Query::like(&like("asked", 0, 0)?).ok_or("it has a fingerprint")?;
    let all = snapshot.query(&query)?;
    assert_eq!(
        (keys(&all), all.total()),
        (
            ["unsketched", "alike", "unlike", "same"]
                .map(String::from)
                .into(),
            4
        )
    );
    let similarity: Vec<_> = all
        .iter()
        .map(|it| it.similarity.map(|it| it.jaccard()))
        .collect();
    assert_eq!(similarity, [None, Some(0.75), Some(0.0625), Some(1.0)]);
    let similar =
        |least: f64| snapshot.query(&query.clone().near(Near::new().min_similarity(least)));
    assert_eq!(keys(&similar(0.7)?), ["alike", "same"]);
    assert_eq!(
        keys(&similar(0.75)?),
        ["alike", "same"],
        "the least similarity is inclusive"
    );
    assert_eq!(
        (keys(&similar(0.8)?), similar(0.8)?.total()),
        (vec!["same".to_owned()], 1)
    );
    assert_eq!(similar(0.0)?.total(), 4);
    assert!(snapshot.any_match(&query.clone().near(Near::new().min_similarity(1.0)))?);
    assert!(!snapshot.any_match(&query.clone().near(Near::within(2).min_similarity(0.8)))?);
    let ordered = snapshot.query(&query.clone().order(Order::Similarity))?;
    assert_eq!(keys(&ordered), ["same", "alike", "unlike", "unsketched"]);
    let first = snapshot.query(&query.clone().order(Order::Similarity).limit(1))?;
    assert_eq!(
        (keys(&first), first.total(), first.total_is_exact()),
        (vec!["same".to_owned()], 4, true)
    );
    drop(snapshot);
    Ok(assert_sound(&database)?)
}

#[test]
fn a_similarity_cannot_be_asked_for_without_sketches() -> TestResult {
    let folder = Folder::new()?;
    let database = four(&folder)?;
    let snapshot = database.snapshot()?;
    let bare = query_of(0);
    assert_eq!(snapshot.query(&bare)?.total(), 4);
    let refused = |query: Query| snapshot.query(&query).err();
    assert!(matches!(
        refused(bare.clone().near(Near::new().min_similarity(0.5))),
        Some(Error::NoSketch)
    ));
    assert!(matches!(
        refused(bare.clone().order(Order::Similarity)),
        Some(Error::NoSketch)
    ));
    let large = bare.clone().with_sketch(Sketch::new(&[0; 32], 1)?);
    assert!(matches!(
        refused(large),
        Some(Error::SketchSizes {
            stored: 16,
            given: 32,
            ..
        })
    ));
    for given in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(
            refused(bare.clone().near(Near::new().min_similarity(given))),
            Some(Error::MinSimilarity { .. })
        ));
    }
    // A document that cannot be judged fails alone, and nothing is changed.
    let mut txn = database.begin_write()?;
    let policy = Policy::skip().near(Near::new().min_similarity(0.7));
    assert_error!(txn.insert_if_new(&document("bare", 0), &policy) => Error::NoSketch);
    let large = document("large", 0).with_sketch(Sketch::new(&[0; 32], 1)?);
    assert_error!(txn.insert(&large) => Error::SketchSizes { stored: 16, given: 32, .. });
    assert!(
        !txn.insert_if_new(&Document::new("too short", None), &policy)?
            .is_duplicate()
    );
    assert!(
        !txn.insert_if_new(&like("unlike others", 0b1, 128)?, &policy)?
            .is_duplicate()
    );
    assert_eq!(
        keys(
            txn.insert_if_new(&like("new", 0b1, 10)?, &policy)?
                .matches()
        ),
        ["alike", "same"]
    );
    txn.commit()?;
    // A database without sketches.
    let plain = folder.database("plain.simdb")?;
    insert_all(&plain, [document("a", 0)])?;
    let asked = Query::like(&like("asked", 0, 0)?).ok_or("it has a fingerprint")?;
    let found = plain.snapshot()?.query(&asked)?;
    assert_eq!(
        (found.total(), found.nearest().and_then(|it| it.similarity)),
        (1, None)
    );
    let refused = plain
        .snapshot()?
        .query(&asked.near(Near::new().min_similarity(0.5)))
        .err();
    assert!(
        matches!(refused, Some(Error::SketchSizes { stored: 0, .. })),
        "{refused:?}"
    );
    let options = CreateOptions::new()
        .sketch_size(SketchSize::None)
        .min_similarity(0.7);
    let refused = Database::create(folder.path("e.simdb"), &options).err();
    assert!(
        matches!(refused, Some(Error::SketchSizes { stored: 0, .. })),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn beyond_the_limit_a_total_is_counted_up_to_128() -> TestResult {
    let folder = Folder::new()?;
    let options = external().sketch_size(SketchSize::Bytes16);
    let database = Database::create(folder.path("d.simdb"), &options.min_similarity(0.7))?;
    let documents = (0..300).map(|i| like(&i.to_string(), 7, if i % 2 == 0 { 0 } else { 64 }));
    insert_all(&database, documents.collect::<simdb::Result<Vec<_>>>()?)?;
    let query = Query::like(&like("asked", 7, 0)?).ok_or("it has a fingerprint")?;
    let ask = |query: Query| -> simdb::Result<_> {
        let found = database.snapshot()?.query(&query)?;
        Ok((
            found.as_slice().len(),
            found.total(),
            found.total_is_exact(),
        ))
    };
    assert_eq!(ask(query.clone())?, (10, 129, false));
    assert_eq!(ask(query.clone().limit(0))?, (0, 129, false));
    assert_eq!(ask(query.clone().limit(149))?, (149, 150, false));
    assert_eq!(ask(query.clone().limit(150))?, (150, 150, true));
    assert_eq!(ask(query.clone().limit(usize::MAX))?, (150, 150, true));
    assert_eq!(
        ask(query.order(Order::Similarity).limit(3))?,
        (3, 150, true)
    );
    Ok(())
}

#[test]
fn the_defaults_follow_the_scheme_and_the_sketches() -> TestResult {
    let folder = Folder::new()?;
    let defaults = |scheme, size| -> simdb::Result<_> {
        let mut options = CreateOptions::new().scheme(scheme);
        if let Some(size) = size {
            options = options.sketch_size(size);
        }
        let database = Database::create(folder.path(&format!("{scheme}{size:?}")), &options)?;
        Ok((
            database.max_distance(),
            database.sketch_size().bytes(),
            database.min_similarity(),
        ))
    };
    assert_eq!(defaults(Scheme::default(), None)?, (8, 16, Some(0.7)));
    assert_eq!(defaults(Scheme::Simhash1, None)?, (8, 16, Some(0.7)));
    assert_eq!(defaults(Scheme::Simhash2, None)?, (10, 16, Some(0.7)));
    assert_eq!(
        defaults(Scheme::Minwise1, Some(SketchSize::Bytes32))?,
        (8, 32, Some(0.7))
    );
    assert_eq!(
        defaults(Scheme::Minwise1, Some(SketchSize::None))?,
        (5, 0, None)
    );
    assert_eq!(
        defaults(Scheme::Simhash1, Some(SketchSize::None))?,
        (3, 0, None)
    );
    assert_eq!(
        defaults(Scheme::Simhash2, Some(SketchSize::None))?,
        (5, 0, None)
    );
    assert_eq!(defaults(Scheme::External, None)?, (3, 0, None));
    assert_eq!(
        defaults(Scheme::External, Some(SketchSize::Bytes16))?,
        (3, 16, None)
    );
    Ok(())
}

#[test]
fn a_fingerprinter_makes_documents_that_the_database_compares() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &CreateOptions::new())?;
    let fingerprinter = database.fingerprinter()?;
    let text = |last: &str| {
        format!(
            "The ferry to the island leaves at six in the morning and takes two hours, except {last}."
        )
    };
    let page = fingerprinter.document_html("page", &format!("<p>{}", text("in winter")));
    assert_eq!(
        page.sketch(),
        fingerprinter.sketch(&text("in winter")).as_ref()
    );
    insert_all(&database, [page])?;
    let query =
        Query::like(&fingerprinter.document("other", &text("in summer"))).ok_or("long enough")?;
    let found = database.snapshot()?.query(&query)?;
    let similarity = found
        .nearest()
        .and_then(|it| it.similarity)
        .ok_or("it is found")?;
    assert!((0.7..1.0).contains(&similarity.jaccard()), "{similarity:?}");
    assert!(similarity.containment() >= similarity.jaccard());
    let short = Fingerprinter::new(Scheme::Minwise1)?.document("short", "too short");
    assert_eq!(
        (short.fingerprint(), short.sketch(), Query::like(&short)),
        (None, None, None)
    );
    Ok(())
}

#[test]
fn the_program_shows_similarity_and_takes_a_least_one() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("pg.simdb");
    let input = bundled("pg-docs-html/docs.jsonl.gz");
    done!(
        "ingest",
        &database,
        &input,
        "--sketch 32 --min-similarity 0.6"
    );
    let stats = done!("stats", &database, "--json").object()?;
    assert_has!(stats, {"sketch_bytes": 32, "min_similarity": 0.6});
    let ask = |more: &str| -> TestResult<serde_json::Value> {
        let more = more.split_whitespace();
        run!("query --key pg17-view-pg-locks --json", &database, ..more).object()
    };
    let answer = ask("")?;
    let pages: Vec<_> = answer["matches"].as_array().into_iter().flatten().collect();
    assert_eq!(pages.len(), 3);
    let values = ["similarity", "containment"].map(|it| &pages[0][it]);
    assert_eq!(values, [1.0, 1.0]);
    let similarity = pages[1]["similarity"].as_f64();
    assert!(
        similarity.is_some_and(|it| (0.7..0.95).contains(&it)),
        "{answer}"
    );
    assert!(
        pages[1].get("sketch").is_none(),
        "a list of matches does not need sketches"
    );
    assert_eq!(ask("--min-similarity 0.99")?["total"], 1);
    let sorted = ask("--order similarity --max-distance 20 --min-similarity 0")?;
    let matches = sorted["matches"].as_array().into_iter().flatten();
    let similarities: Vec<_> = matches.map(|it| it["similarity"].as_f64()).collect();
    assert!(similarities.is_sorted_by(|a, b| a >= b), "{sorted}");
    let document = done!("get", &database, "pg17-view-pg-locks --json").object()?;
    assert_eq!(document["sketch"].as_str().map(str::len), Some(64));
    assert!(figures(&document, ["shingles"])[0] > 100);
    folder
        .run("query pg.simdb --key pg17-view-pg-locks --min-similarity 1.5")?
        .refused("0 to 1");
    folder
        .run("query pg.simdb --fingerprint 0000000000000000 --min-similarity 0.5")?
        .refused("no sketch is given");
    Ok(())
}

#[test]
fn features_of_the_caller_are_ingested_and_asked_for() -> TestResult {
    let folder = Folder::new()?;
    let features = |more: &str| {
        format!("{{\"museum\":5,\"opens\":2,\"new\":0.5,\"wing\":3,\"Turner\":5{more}}}")
    };
    let line =
        |key: &str, features: &str| format!("{{\"id\":\"{key}\",\"features\":{features}}}\n");
    let lines = [
        line("a", &features(",\"show\":2,\"paint\":2,\"on\":0.1")),
        line("b", &features(",\"show\":2,\"paint\":2,\"at\":0.1")),
        line("few", "[\"a\",\"b\"]"),
        line("bad", &features(",\"nothing\":0")),
        line("odd", "\"words\""),
    ];
    let input = folder.file("in.jsonl", lines.concat())?;
    for scheme in ["simhash", "minwise"] {
        let database = folder.path(scheme);
        let ran = done!("ingest", &database, &input, "--scheme", scheme)
            .begins("b is near a (distance ")
            .prints("3 documents: 1 near-duplicate,")
            .prints("1 too short");
        ran.says("line 4: the weight 0 of a feature cannot be used")
            .says("line 5: field `features`");
        let asked = folder.file(
            "asked.jsonl",
            line("q", &features(",\"show\":2,\"paint\":2,\"in\":0.1")),
        )?;
        done!("query", &database, "--input", asked)
            .begins("q is near ")
            .prints("b (distance");
    }
    Ok(())
}

#[test]
fn ready_sketches_are_ingested_and_wrong_ones_rejected() -> TestResult {
    let folder = Folder::new()?;
    let line = |key: &str, more: &str| {
        format!("{{\"id\":\"{key}\",\"fingerprint\":\"0000000000000007\"{more}}}\n")
    };
    let sketch = format!(",\"sketch\":\"{}\",\"shingles\":9", "0f".repeat(16));
    let lines = [
        line("a", &sketch),
        line("b", &sketch.replace("0f", "0e")),
        line("bare", ""),
        line("long", &sketch.replace("0f", "0f0f")),
        line("odd", ",\"sketch\":\"0f\",\"shingles\":9"),
        line("countless", &sketch.replace(",\"shingles\":9", "")),
    ];
    let input = folder.file("in.jsonl", lines.concat())?;
    let database = folder.path("d.simdb");
    done!("create", &database, "--scheme external --sketch 16");
    let ran = done!("ingest", &database, &input, "--min-similarity 0.7")
        .begins("b is near a (distance 0, similarity 0.75)\n2 documents: 1 near");
    for problem in [
        "line 3: a similarity is asked for",
        "line 4: sketches of 16",
        "line 5: \"0f\" is not a sketch",
        "line 6: field",
    ] {
        assert!(ran.err.contains(problem), "{problem}: {}", ran.err);
    }
    let plain = folder.path("plain.simdb");
    done!("create", &plain, "--scheme external");
    run!("ingest", &plain, &input, "--min-similarity 0.7").refused("the database has no sketches");
    Ok(())
}
