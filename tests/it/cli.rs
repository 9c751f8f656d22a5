//! The command-line program: standard output, standard error and exit code of every command.

use serde_json::json;

use crate::support::{Folder, Ran, TestResult, bundled, run, run_with_input, simdb, spread};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

/// A database with five fingerprints.
fn small(folder: &Folder) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let lines = [
        r#"{"id":"a","fingerprint":"0000000000000000","scope":"en","seen":100,"rank":5,"payload":"p"}"#,
        r#"{"id":"b","fingerprint":"0000000000000001","scope":"en","seen":200}"#,
        r#"{"id":"c","fingerprint":"0000000000000003","scope":"zh","seen":300}"#,
        r#"{"id":"d","fingerprint":"00000000000000ff","seen":400}"#,
        r#"{"key_base64":"/w==","fingerprint":"ffffffffffffffff"}"#,
    ];
    let input = folder.file("small.jsonl", lines.join("\n"))?;
    run!("ingest", folder.path("small.simdb"), input).expect(0);
    Ok(folder.path("small.simdb"))
}

#[test]
fn the_example_of_the_readme_finds_the_same_page_in_other_releases() -> TestResult {
    let folder = Folder::new()?;
    let ran = run!(
        "ingest",
        folder.path("pg.simdb"),
        bundled("pg-docs-html/docs.jsonl.gz")
    )
    .expect(0);
    let line = "pg17-tutorial-views is near pg15-tutorial-views (distance 0, similarity 1.00), \
                pg13-tutorial-views (distance 0, similarity 1.00)";
    assert!(ran.out.lines().any(|it| it == line), "{}", ran.out);
    let last = ran.out.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("368 documents: 231 near-duplicates, 368 inserted, "),
        "{last}"
    );
    assert_eq!(ran.err, "", "no progress where there is no terminal");
    // The second time: the same documents under the same keys.
    let (path, input) = (
        folder.path("pg.simdb"),
        bundled("pg-docs-html/docs.jsonl.gz"),
    );
    let again = run!("ingest", path, input, "--again", "--json").expect(0);
    let totals = again.json()?.pop().unwrap_or_default();
    assert_eq!(
        (&totals["inserted"], &totals["replaced"]),
        (&0.into(), &368.into())
    );
    run!("check", folder.path("pg.simdb")).expect(0);
    Ok(())
}

#[test]
fn ingest_prints_a_line_for_each_near_duplicate_and_the_totals() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file(
        "in.tsv",
        "a\t0000000000000000\nb\t0000000000000001\nc\tffffffffffffffff\n",
    )?;
    let ran = run!(
        "ingest",
        folder.path("d.simdb"),
        &input,
        "--input-format",
        "fingerprints",
        "--json"
    )
    .expect(0);
    let lines = ran.json()?;
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["key"], &lines[0]["fingerprint"]),
        (&json!("b"), &json!("0000000000000001"))
    );
    assert_eq!(
        (&lines[0]["verdict"], &lines[0]["total"]),
        (&json!("inserted"), &json!(1))
    );
    assert_eq!(
        (
            &lines[0]["matches"][0]["key"],
            &lines[0]["matches"][0]["distance"]
        ),
        (&json!("a"), &json!(1))
    );
    let expected = [
        ("documents", 3),
        ("inserted", 3),
        ("replaced", 0),
        ("skipped", 0),
        ("duplicates", 1),
    ];
    for (field, number) in
        expected
            .into_iter()
            .chain([("too_short", 0), ("rejected", 0), ("deleted", 0)])
    {
        assert_eq!(lines[1][field], number, "{field}");
    }
    assert!(
        lines[1]["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    Ok(())
}

#[test]
fn on_duplicate_skips_or_lets_the_better_one_survive() -> TestResult {
    let folder = Folder::new()?;
    let line = |key: &str, fingerprint: u64, rank: i64| {
        format!("{{\"id\":\"{key}\",\"fingerprint\":\"{fingerprint:016x}\",\"rank\":{rank}}}\n")
    };
    let input = folder.file(
        "in.jsonl",
        line("a", 0, 1) + &line("b", 1, 1) + &line("c", 2, 2),
    )?;
    for (action, line, totals) in [
        (
            "skip",
            "b is near a (distance 1), skipped",
            "1 inserted, 2 skipped, ",
        ),
        (
            "replace",
            "c is near a (distance 1), deleted 1",
            "2 inserted, 1 skipped, 1 deleted, ",
        ),
    ] {
        let path = folder.path(&format!("{action}.simdb"));
        let out = run!("ingest", path, &input, "--on-duplicate", action)
            .expect(0)
            .out;
        assert!(out.contains(line) && out.contains(totals), "{out}");
    }
    run!("get", folder.path("replace.simdb"), "a").expect(1);
    run!("get", folder.path("replace.simdb"), "c").expect(0);
    Ok(())
}

#[test]
fn query_prints_the_nearest_first_and_says_how_many_more() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ran = run!("query", &database, "--fingerprint", "0000000000000000").expect(0);
    assert_eq!(ran.out, "0\t-\ta\n1\t-\tb\n2\t-\tc\n");
    let ran = run!(
        "query",
        &database,
        "--fingerprint",
        "0000000000000000",
        "--limit",
        "1"
    )
    .expect(0);
    assert_eq!(ran.out, "0\t-\ta\n");
    let ran = ran.says("1 of 3 matches shown");
    assert!(ran.err.contains("--limit"));
    let ran = run!(
        "query",
        &database,
        "--fingerprint",
        "0000000000000000",
        "--limit",
        "0"
    )
    .expect(0);
    assert_eq!(ran.out, "3\n");
    let ran = run!(
        "query",
        &database,
        "--key",
        "b",
        "--max-distance",
        "1",
        "--json"
    )
    .expect(0);
    let answer = ran.object()?;
    let keys: Vec<_> = answer["matches"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it["key"].clone())
        .collect();
    assert_eq!(
        (&answer["key"], keys),
        (&json!("b"), vec![json!("b"), json!("a"), json!("c")])
    );
    let ran = run!(
        "query",
        &database,
        "--fingerprint",
        "fffffffffffffff0",
        "--max-distance",
        "4",
        "--json"
    )
    .expect(0);
    let answer = ran.object()?;
    assert_eq!(
        (&answer["key"], &answer["matches"][0]["key_base64"]),
        (&json!(null), &json!("/w=="))
    );
    Ok(())
}

#[test]
fn query_can_be_limited_to_scopes_and_times() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ask = |arguments: &[&str]| -> Result<String, Box<dyn std::error::Error>> {
        let mut command = simdb();
        command
            .arg("query")
            .arg(&database)
            .args(["--fingerprint", "0000000000000000"])
            .args(arguments);
        Ok(run_with_input(&mut command, b"")?.out)
    };
    assert_eq!(ask(&["--scope", "zh"])?, "2\t-\tc\n");
    assert_eq!(
        ask(&["--scope", "zh", "--scope", "en"])?,
        "0\t-\ta\n1\t-\tb\n2\t-\tc\n"
    );
    assert_eq!(ask(&["--scope", "fr"])?, "");
    assert_eq!(ask(&["--since", "200"])?, "1\t-\tb\n2\t-\tc\n");
    assert_eq!(ask(&["--since", "1970-01-01T00:05:00Z"])?, "2\t-\tc\n");
    assert_eq!(ask(&["--since=-1"])?, "0\t-\ta\n1\t-\tb\n2\t-\tc\n");
    Ok(())
}

#[test]
fn query_without_a_match_answers_no() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ran = run!("query", &database, "--fingerprint", "00000000ffff0000").expect(1);
    assert_eq!(ran.out, "");
    run!("query", &database, "--key", "nobody")
        .expect(1)
        .says("nobody: no such key");
    run!("query", &database, "--text", TEXT)
        .expect(2)
        .says("scheme external");
    run!("query", &database, "--fingerprint", "xyz")
        .expect(2)
        .says("16 hexadecimal digits");
    run!("query", &database).expect(2).says("required");
    run!("query", &database, "--key", "a", "--text", TEXT)
        .expect(2)
        .says("cannot be used with");
    run!("query", &database, "--key", "a", "--max-distance", "65")
        .expect(2)
        .says("65 is not a number of bits from 0 to 64");
    run!("query", &database, "--key", "a", "--max-distance", "-1")
        .expect(2)
        .says("-1 is not a number of bits from 0 to 64");
    Ok(())
}

#[test]
fn query_asks_with_texts_files_and_whole_inputs() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("text.simdb");
    let input = folder.file("in.tsv", format!("a\t{TEXT}\n"))?;
    run!("ingest", &database, &input).expect(0);
    assert_eq!(
        run!("query", &database, "--text", TEXT.to_uppercase())
            .expect(0)
            .out,
        "0\t1.00\ta\n"
    );
    run!("query", &database, "--text", "too short")
        .expect(1)
        .says("too short to judge");
    let page = folder.file("page.html", format!("<title>t</title><p>{TEXT}"))?;
    assert_eq!(
        run!("query", &database, "--file", page).expect(0).out,
        "0\t1.00\ta\n"
    );
    // What `ingest` makes of a file is what is asked for. A record was looked for with its braces and names.
    let line = folder.file(
        "one.jsonl",
        format!("{{\"key\":\"x\",\"text\":\"{TEXT}\"}}\n"),
    )?;
    assert_eq!(
        run!("query", &database, "--file", line).expect(0).out,
        "0\t1.00\ta\n"
    );
    let mail =
        "From: a@b.c\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n--x\n";
    for verb in ["query", "explain"] {
        run!(verb, &database, "--file", folder.file("page.mhtml", mail)?)
            .expect(2)
            .says("page.mhtml");
    }
    // Once the last of several answered for all.
    std::fs::create_dir(folder.path("two"))?;
    let ends = [("a.txt", TEXT), ("b.txt", "too short")];
    for (name, text) in ends {
        std::fs::write(folder.path("two").join(name), text)?;
    }
    for verb in ["query", "explain"] {
        run!(verb, &database, "--file", folder.path("two"))
            .expect(2)
            .says("it holds several documents; `--input`");
    }
    let two = folder.path("two");
    run!("query", &database, "--file", &two, "--glob=a*").expect(0);
    // What is said of records says nothing of a text. It was passed over, and the answer was that of another text.
    for option in ["--input-format=jsonl", "--key-field=id", "--text-field=a"] {
        run!("query", &database, "--file", &two, option)
            .expect(2)
            .says("is for the records of `--input`");
    }
    let mut command = simdb();
    command.arg("query").arg(&database).args(["--file", "-"]);
    assert_eq!(
        run_with_input(&mut command, TEXT.as_bytes())?.expect(0).out,
        "0\t1.00\ta\n"
    );

    let other = "and now for something that has not one word of it in common, quite different";
    let asked = format!("q1\t{other}\nq2\t{TEXT}\nq3\tshort\nbad line\n");
    let asked = folder.file("asked.tsv", asked)?;
    let ran = run!("query", &database, "--input", &asked)
        .expect(2)
        .says("asked.tsv, line 4: the line has no tab");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "q1 is near nothing",
            "q2 is near a (distance 0, similarity 1.00)",
            "q3 is too short to judge"
        ]
    );
    assert!(
        lines[3].starts_with("rejected: the line has no tab"),
        "a line for each record: {}",
        lines[3]
    );
    let mut answers = run!("query", &database, "--input", &asked, "--json")
        .expect(2)
        .json()?;
    let rejected = answers.pop().unwrap_or_default();
    assert_eq!(
        (&rejected["key"], &rejected["line"]),
        (&json!(null), &json!(4))
    );
    let totals: Vec<_> = answers
        .iter()
        .map(|it| (it["key"].clone(), it["total"].clone()))
        .collect();
    assert_eq!(
        totals,
        [
            ("q1".into(), 0.into()),
            ("q2".into(), 1.into()),
            ("q3".into(), 0.into())
        ]
    );
    assert_eq!(
        (&answers[2]["fingerprint"], &answers[2]["too_short"]),
        (&json!(null), &json!(true))
    );
    let nothing = folder.file("nothing.tsv", format!("q1\t{other}\n"))?;
    run!("query", &database, "--input", nothing).expect(1);
    Ok(())
}

#[test]
fn get_prints_every_part_of_a_document() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let document = run!("get", &database, "a", "--json").expect(0).object()?;
    let expected = json!({
        "key": "a", "fingerprint": "0000000000000000", "seen": 100, "rank": [5], "scope": "en", "payload": "p"
    });
    assert_eq!(document, expected);
    let text = run!("get", &database, "a").expect(0).out;
    assert_eq!(
        text,
        "key\ta\nfingerprint\t0000000000000000\nseen\t100\nrank\t[5]\nscope\ten\npayload\tp\n"
    );
    run!("get", &database, "z").expect(1).says("z: no such key");
    Ok(())
}

#[test]
fn delete_names_the_keys_that_were_not_there() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ran = run!("delete", &database, "a", "nobody", "b")
        .expect(1)
        .says("nobody: no such key");
    assert_eq!(ran.out, "deleted a\ndeleted b\n");
    let ran = run!("delete", &database, "c", "c", "--json").expect(1);
    assert_eq!(
        ran.json()?,
        [
            json!({"key": "c", "deleted": true}),
            json!({"key": "c", "deleted": false})
        ]
    );
    run!("delete", &database, "d").expect(0);
    run!("delete", &database, "")
        .expect(2)
        .says("the key is empty");
    assert_eq!(
        run!("stats", &database, "--json").expect(0).object()?["documents"],
        1
    );
    run!("check", &database).expect(0);
    Ok(())
}

#[test]
fn stats_and_check_say_what_the_file_holds() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let stats = run!("stats", &database, "--json").expect(0).object()?;
    let expected = [
        ("documents", json!(5)),
        ("too_short", json!(0)),
        ("fingerprints", json!(5)),
        ("scheme", json!("external")),
        ("plan", json!("4x16")),
        ("max_distance", json!(3)),
        ("format_version", json!(8)),
        ("sketch_bytes", json!(0)),
        ("min_similarity", json!(0.0)),
        ("marks", json!(0)),
        ("levels", json!(1)),
        ("probed_distance", json!(3)),
    ];
    for (field, value) in expected {
        assert_eq!(stats[field], value, "{field}");
    }
    assert_eq!(stats["file_bytes"], std::fs::metadata(&database)?.len());
    assert!(
        stats["allocated_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 0)
    );
    assert!(
        run!("stats", &database)
            .expect(0)
            .out
            .starts_with("documents         5\n")
    );
    let check = run!("check", &database, "--json").expect(0).object()?;
    assert_eq!(check["pages_verified"], true);
    assert_eq!(
        (&check["sound"], &check["documents"], &check["fingerprints"]),
        (&json!(true), &json!(5), &json!(5))
    );
    assert!(
        run!("check", &database)
            .expect(0)
            .out
            .ends_with("sound; 5 documents, 5 fingerprints\n")
    );
    Ok(())
}

#[test]
fn check_answers_no_where_there_is_damage() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let engine = redb::Database::open(&database)?;
    let txn = engine.begin_write()?;
    txn.open_table(redb::TableDefinition::<(u8, u64), &[u8]>::new("documents"))?
        .pop_last()?;
    txn.commit()?;
    drop(engine);
    let ran = run!("check", &database).expect(1);
    assert!(
        ran.out.contains("table documents") && ran.out.contains("damaged; "),
        "{}",
        ran.out
    );
    let report = run!("check", &database, "--json").expect(1).object()?;
    assert_eq!(report["sound"], json!(false));
    Ok(())
}

#[test]
fn create_makes_an_empty_database_once() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let ran = run!(
        "create",
        &path,
        "--max-distance",
        "2",
        "--scheme",
        "external"
    )
    .expect(0);
    assert!(
        ran.out
            .ends_with("scheme external, plan 3x21, max distance 2\n"),
        "{}",
        ran.out
    );
    run!("create", &path).expect(2).says("already exists");
    run!("create", folder.path("far.simdb"), "--max-distance", "7").expect(0);
    run!("create", folder.path("e.simdb"), "--max-distance", "65").expect(2);
    Ok(())
}

#[test]
fn fingerprint_and_distance_print_what_ingest_would_store() -> TestResult {
    let folder = Folder::new()?;
    let mut command = simdb();
    let ran = run_with_input(command.arg("fingerprint"), TEXT.as_bytes())?.expect(0);
    let (digits, name) = ran.out.trim_end().split_once('\t').unwrap_or_default();
    assert_eq!((digits.len(), name), (16, "-"));
    let text = folder.file("a.txt", TEXT)?;
    let short = folder.file("b.txt", "short")?;
    let ran = run!("fingerprint", &text, &short, "--json")
        .expect(0)
        .json()?;
    assert_eq!(
        (&ran[0]["fingerprint"], &ran[1]["too_short"]),
        (&json!(digits), &json!(true))
    );
    run!("ingest", folder.path("d.simdb"), &text).expect(0);
    let stored = run!("get", folder.path("d.simdb"), &text, "--json")
        .expect(0)
        .object()?;
    assert_eq!(stored["fingerprint"], digits);
    assert_eq!(run!("distance", digits, digits).expect(0).out, "0\n");
    assert_eq!(
        run!("distance", "00000000000000f0", "0000000000000001", "--json")
            .expect(0)
            .out,
        "{\"distance\":5}\n"
    );
    run!("distance", "12", "0000000000000001")
        .expect(2)
        .says("16 hexadecimal digits");
    run!("fingerprint", "--scheme", "external")
        .expect(2)
        .says("scheme external");
    Ok(())
}

#[test]
fn files_that_cannot_be_opened_are_named_with_exit_code_2() -> TestResult {
    let folder = Folder::new()?;
    let missing = folder.path("missing.simdb");
    let text = folder.file("text.simdb", "this is no database\n".repeat(500))?;
    let empty = folder.file("empty.simdb", "")?;
    for command in ["stats", "check"] {
        run!(command, &missing)
            .expect(2)
            .says("missing.simdb: no such database");
        run!(command, &text)
            .expect(2)
            .says("text.simdb: not a simdb database");
        run!(command, &empty)
            .expect(2)
            .says("empty.simdb: not a simdb database");
        run!(command, folder.path(""))
            .expect(2)
            .says("it is a directory");
    }
    let input = folder.file("in.tsv", format!("a\t{TEXT}\n"))?;
    run!("ingest", &text, &input)
        .expect(2)
        .says("not a simdb database");
    assert_eq!(std::fs::read(&text)?, b"this is no database\n".repeat(500));
    run!("ingest", folder.path("no/folder/d.simdb"), &input)
        .expect(2)
        .says("no/folder: ")
        .says("no such directory");
    run!("delete", &missing, "k")
        .expect(2)
        .says("no such database");
    run!("nonesuch").expect(2);
    run!("--version").expect(0);
    run!("--help").expect(0);
    Ok(())
}

#[test]
fn a_file_in_use_is_busy_and_readers_share_it() -> TestResult {
    let folder = Folder::new()?;
    let path = small(&folder)?;
    let writer = simdb::Database::open(&path, &simdb::OpenOptions::new())?;
    for command in ["stats", "check"] {
        run!(command, &path)
            .expect(2)
            .says("in use by another process");
    }
    run!("delete", &path, "a")
        .expect(2)
        .says("in use by another process");
    drop(writer);
    let reader = simdb::Database::open(&path, &simdb::OpenOptions::new().read_only(true))?;
    run!("stats", &path).expect(0);
    run!("query", &path, "--key", "a").expect(0);
    run!("delete", &path, "a")
        .expect(2)
        .says("in use by another process");
    drop(reader);
    Ok(())
}

#[cfg(unix)]
#[test]
fn messages_that_nobody_reads_do_not_stop_the_work() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = (0..20_000)
        .map(|i| format!("{i}\t{:016x}\nbad\n", spread(i)))
        .collect();
    folder.file("in.tsv", lines)?;
    let script = format!(
        "'{0}' ingest d.simdb in.tsv --input-format fingerprints 2>&1 >/dev/null | head -n 1; \
         '{0}' ingest e.simdb in.tsv --input-format fingerprints >/dev/null 2>/dev/full; echo $?",
        env!("CARGO_BIN_EXE_simdb")
    );
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path(""))
        .output()?;
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        out.starts_with("simdb: rejected: in.tsv, line 2: ") && out.ends_with("\n0\n"),
        "{out}"
    );
    for name in ["d.simdb", "e.simdb"] {
        let stats = run!("stats", folder.path(name), "--json")
            .expect(0)
            .object()?;
        assert_eq!(stats["documents"], 20_000);
    }
    Ok(())
}

#[test]
fn a_full_standard_output_is_told_as_such() -> TestResult {
    if !std::path::Path::new("/dev/full").exists() {
        return Ok(());
    }
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    let ran = simdb().arg("stats").arg(&database).stdout(full).output()?;
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(
        said.starts_with("simdb: standard output cannot be written: "),
        "{said}"
    );
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_failure() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = (0..20_000)
        .map(|i| format!("{i}\t0000000000000000\n"))
        .collect();
    let input = folder.file("in.tsv", lines)?;
    let script = format!(
        "{{ '{0}' ingest d.simdb in.tsv --input-format fingerprints; echo $? >ingest; }} | head -n 1; \
         {{ '{0}' query d.simdb --input in.tsv --input-format fingerprints; echo $? >query; }} | head -n 1",
        env!("CARGO_BIN_EXE_simdb")
    );
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path(""))
        .output()?;
    assert_eq!(String::from_utf8_lossy(&status.stderr), "");
    assert_eq!(std::fs::read_to_string(folder.path("ingest"))?, "0\n");
    assert_eq!(std::fs::read_to_string(folder.path("query"))?, "0\n");
    let stats = run!("stats", folder.path("d.simdb"), "--json")
        .expect(0)
        .object()?;
    assert_eq!(stats["documents"], 20_000, "ingestion itself goes on");
    drop(input);
    Ok(())
}

/// Options that would not be used were passed over without a word.
#[test]
fn options_of_reading_are_refused_where_nothing_is_read() -> TestResult {
    let folder = Folder::new()?;
    for name in ["d.simdb", "other.simdb"] {
        drop(folder.tiny_database(name)?);
    }
    let commands = [
        "query d.simdb --key a",
        "query d.simdb --text words",
        "pairs d.simdb",
        "pairs d.simdb --with other.simdb",
        "report d.simdb",
        "overlap d.simdb --text words",
    ];
    let options = [
        "--input-format tsv",
        "--key-field k",
        "--text-field t",
        "--html-field h",
        "--ignore-field i",
        "--glob *.z",
        "--max-record 1k",
    ];
    let refused = |command: &str, option: &str| -> std::io::Result<Ran> {
        let mut program = simdb();
        program.current_dir(folder.path(""));
        program.args(command.split(' ')).args(option.split(' '));
        Ok(Ran::from(program.output()?).expect(2))
    };
    for command in commands {
        for option in options {
            let name = option.split(' ').next().unwrap_or_default();
            refused(command, option)?.says(&format!("{name} is for "));
        }
    }
    refused(commands[0], "--scheme simhash")?.says("--scheme is for ");
    Ok(())
}
