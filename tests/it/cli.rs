//! The command-line program: standard output, standard error and exit code of every command.

use serde_json::json;

use crate::support::{
    Folder, Ran, TestResult, assert_has, bundled, done, figures, lose_document, program, run,
    run_with_input, simdb, spread,
};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

/// A database with five fingerprints.
fn small(folder: &Folder) -> TestResult<std::path::PathBuf> {
    let lines = [
        r#"{"id":"a","fingerprint":"0000000000000000","scope":"en","seen":100,"rank":5,"payload":"p"}"#,
        r#"{"id":"b","fingerprint":"0000000000000001","scope":"en","seen":200}"#,
        r#"{"id":"c","fingerprint":"0000000000000003","scope":"zh","seen":300}"#,
        r#"{"id":"d","fingerprint":"00000000000000ff","seen":400}"#,
        r#"{"key_base64":"/w==","fingerprint":"ffffffffffffffff"}"#,
    ];
    let input = folder.file("small.jsonl", lines.join("\n"))?;
    done!("ingest", folder.path("small.simdb"), input);
    Ok(folder.path("small.simdb"))
}

#[test]
fn the_example_of_the_readme_finds_the_same_page_in_other_releases() -> TestResult {
    let folder = Folder::new()?;
    let ran = done!(
        "ingest",
        folder.path("pg.simdb"),
        bundled("pg-docs-html/docs.jsonl.gz")
    );
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
    let again = done!("ingest", path, input, "--again --json");
    let totals = again.json()?.pop().unwrap_or_default();
    assert_eq!(figures(&totals, ["inserted", "replaced"]), [0, 368]);
    done!("check", folder.path("pg.simdb"));
    Ok(())
}

#[test]
fn ingest_prints_a_line_for_each_near_duplicate_and_the_totals() -> TestResult {
    let folder = Folder::new()?;
    folder.file(
        "in.tsv",
        "a\t0000000000000000\nb\t0000000000000001\nc\tffffffffffffffff\n",
    )?;
    let ran = folder
        .run("ingest d.simdb in.tsv --input-format fingerprints --json")?
        .expect(0);
    let lines = ran.json()?;
    assert_eq!(lines.len(), 2);
    assert_has!(lines[0], {"key": "b", "fingerprint": "0000000000000001"});
    assert_has!(lines[0], {"verdict": "inserted", "total": 1});
    assert_has!(lines[0]["matches"][0], {"key": "a", "distance": 1});
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
        done!("ingest", path, &input, "--on-duplicate", action)
            .prints(line)
            .prints(totals);
    }
    run!("get", folder.path("replace.simdb"), "a").expect(1);
    done!("get", folder.path("replace.simdb"), "c");
    Ok(())
}

#[test]
fn query_prints_the_nearest_first_and_says_how_many_more() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let zero = "--fingerprint=0000000000000000";
    let ran = done!("query", &database, zero);
    assert_eq!(ran.out, "0\t-\ta\n1\t-\tb\n2\t-\tc\n");
    let ran = done!("query", &database, zero, "--limit 1");
    assert_eq!(ran.out, "0\t-\ta\n");
    ran.says("1 of 3 matches shown").says("--limit");
    assert_eq!(done!("query", &database, zero, "--limit 0").out, "3\n");
    let answer = done!("query", &database, "--key b --max-distance 1 --json").object()?;
    let matches = answer["matches"].as_array().ok_or("a list")?;
    let keys: Vec<_> = matches.iter().map(|it| &it["key"]).collect();
    assert_eq!(answer["key"], "b");
    assert_eq!(keys, ["b", "a", "c"]);
    let far = "--fingerprint=fffffffffffffff0";
    let answer = done!("query", &database, far, "--max-distance 4 --json").object()?;
    assert!(answer["key"].is_null());
    assert_eq!(answer["matches"][0]["key_base64"], "/w==");
    Ok(())
}

#[test]
fn query_can_be_limited_to_scopes_and_times() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ask = |options: &str| -> TestResult<String> {
        let options = options.split(' ');
        Ok(run!(
            "query",
            &database,
            "--fingerprint 0000000000000000",
            ..options
        )
        .out)
    };
    assert_eq!(ask("--scope zh")?, "2\t-\tc\n");
    assert_eq!(ask("--scope zh --scope en")?, "0\t-\ta\n1\t-\tb\n2\t-\tc\n");
    assert_eq!(ask("--scope fr")?, "");
    assert_eq!(ask("--since 200")?, "1\t-\tb\n2\t-\tc\n");
    assert_eq!(ask("--since 1970-01-01T00:05:00Z")?, "2\t-\tc\n");
    assert_eq!(ask("--since=-1")?, "0\t-\ta\n1\t-\tb\n2\t-\tc\n");
    Ok(())
}

#[test]
fn query_without_a_match_answers_no() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let ran = run!("query", &database, "--fingerprint 00000000ffff0000").expect(1);
    assert_eq!(ran.out, "");
    run!("query", &database, "--key nobody")
        .expect(1)
        .says("nobody: no such key");
    run!("query", &database, "--text", TEXT).refused("scheme external");
    run!("query", &database, "--fingerprint xyz").refused("16 hexadecimal digits");
    run!("query", &database).refused("required");
    run!("query", &database, "--key a --text", TEXT).refused("cannot be used with");
    run!("query", &database, "--key a --max-distance 65")
        .refused("65 is not a number of bits from 0 to 64");
    run!("query", &database, "--key a --max-distance -1")
        .refused("-1 is not a number of bits from 0 to 64");
    Ok(())
}

#[test]
fn query_asks_with_texts_files_and_whole_inputs() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("text.simdb");
    let input = folder.file("in.tsv", format!("a\t{TEXT}\n"))?;
    done!("ingest", &database, &input);
    assert_eq!(
        done!("query", &database, "--text", TEXT.to_uppercase()).out,
        "0\t1.00\ta\n"
    );
    run!("query", &database, "--text", ..["too short"])
        .expect(1)
        .says("too short to judge");
    let page = folder.file("page.html", format!("<title>t</title><p>{TEXT}"))?;
    assert_eq!(
        done!("query", &database, "--file", page).out,
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
            .refused("it holds several documents; `--input`");
    }
    let two = folder.path("two");
    done!("query", &database, "--file", &two, "--glob=a*");
    // What is said of records says nothing of a text. It was passed over, and the answer was that of another text.
    for option in ["--input-format=jsonl", "--key-field=id", "--text-field=a"] {
        run!("query", &database, "--text words", option).refused("is for the records of `--input`");
    }
    let table = folder.file("t.csv", TEXT)?;
    let other = folder.file("other.jsonl", format!("{{\"id\":1,\"body\":\"{TEXT}\"}}\n"))?;
    for (path, option) in [(table, "--input-format=text"), (other, "--text-field=body")] {
        run!("query", &database, "--file", &path).expect(2);
        done!("query", &database, "--file", &path, option).prints("0\t1.00\ta\n");
    }
    let mut command = program!("query", &database, "--file -");
    assert_eq!(
        run_with_input(&mut command, TEXT.as_bytes())?.expect(0).out,
        "0\t1.00\ta\n"
    );

    let other = "and now for something that has not one word of it in common, quite different";
    let asked = format!("q1\t{other}\nq2\t{TEXT}\nq3\tshort\nbad line\n");
    let asked = folder.file("asked.tsv", asked)?;
    let ran = run!("query", &database, "--input", &asked)
        .refused("asked.tsv, line 4: the line has no tab");
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
    assert_has!(rejected, {"key": null, "line": 4});
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
    assert_has!(answers[2], {"fingerprint": null, "too_short": true});
    let nothing = folder.file("nothing.tsv", format!("q1\t{other}\n"))?;
    run!("query", &database, "--input", nothing).expect(1);
    Ok(())
}

#[test]
fn get_prints_every_part_of_a_document() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let document = done!("get", &database, "a --json").object()?;
    let expected = json!({
        "key": "a", "fingerprint": "0000000000000000", "seen": 100, "rank": [5], "scope": "en", "payload": "p"
    });
    assert_eq!(document, expected);
    let text = done!("get", &database, "a").out;
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
    let ran = run!("delete", &database, "a nobody b")
        .expect(1)
        .says("nobody: no such key");
    assert_eq!(ran.out, "deleted a\ndeleted b\n");
    let ran = run!("delete", &database, "c c --json").expect(1);
    assert_eq!(
        ran.json()?,
        [
            json!({"key": "c", "deleted": true}),
            json!({"key": "c", "deleted": false})
        ]
    );
    done!("delete", &database, "d");
    run!("delete", &database, "").refused("the key is empty");
    assert_eq!(
        done!("stats", &database, "--json").object()?["documents"],
        1
    );
    done!("check", &database);
    Ok(())
}

#[test]
fn stats_and_check_say_what_the_file_holds() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    let stats = done!("stats", &database, "--json").object()?;
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
    done!("stats", &database).begins("documents         5\n");
    let check = done!("check", &database, "--json").object()?;
    assert_eq!(check["pages_verified"], true);
    assert_has!(check, {"sound": true, "documents": 5, "fingerprints": 5});
    done!("check", &database).ends("sound; 5 documents, 5 fingerprints\n");
    Ok(())
}

#[test]
fn check_answers_no_where_there_is_damage() -> TestResult {
    let folder = Folder::new()?;
    let database = small(&folder)?;
    lose_document(&database)?;
    run!("check", &database)
        .expect(1)
        .prints("table documents")
        .prints("damaged; ");
    let report = run!("check", &database, "--json").expect(1).object()?;
    assert_eq!(report["sound"], json!(false));
    Ok(())
}

#[test]
fn create_makes_an_empty_database_once() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    done!("create", &path, "--max-distance 2 --scheme external")
        .ends("scheme external, plan 3x21, max distance 2\n");
    run!("create", &path).refused("already exists");
    done!("create", folder.path("far.simdb"), "--max-distance 7");
    run!("create", folder.path("e.simdb"), "--max-distance 65").expect(2);
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
    let ran = done!("fingerprint", &text, &short, "--json").json()?;
    assert_eq!(
        (&ran[0]["fingerprint"], &ran[1]["too_short"]),
        (&json!(digits), &json!(true))
    );
    done!("ingest", folder.path("d.simdb"), &text);
    let stored = done!("get", folder.path("d.simdb"), &text, "--json").object()?;
    assert_eq!(stored["fingerprint"], digits);
    assert_eq!(done!("distance", digits, digits).out, "0\n");
    assert_eq!(
        done!("distance 00000000000000f0 0000000000000001 --json").out,
        "{\"distance\":5}\n"
    );
    run!("distance 12 0000000000000001").refused("16 hexadecimal digits");
    run!("fingerprint --scheme external").refused("scheme external");
    Ok(())
}

#[test]
fn files_that_cannot_be_opened_are_named_with_exit_code_2() -> TestResult {
    let folder = Folder::new()?;
    let missing = folder.path("missing.simdb");
    let text = folder.file("text.simdb", "this is no database\n".repeat(500))?;
    let empty = folder.file("empty.simdb", "")?;
    for command in ["stats", "check"] {
        run!(command, &missing).refused("missing.simdb: no such database");
        run!(command, &text).refused("text.simdb: not a simdb database");
        run!(command, &empty).refused("empty.simdb: not a simdb database");
        run!(command, folder.path("")).refused("it is a directory");
    }
    let input = folder.file("in.tsv", format!("a\t{TEXT}\n"))?;
    run!("ingest", &text, &input).refused("not a simdb database");
    assert_eq!(std::fs::read(&text)?, b"this is no database\n".repeat(500));
    run!("ingest", folder.path("no/folder/d.simdb"), &input)
        .refused("no/folder: ")
        .says("no such directory");
    run!("delete", &missing, "k").refused("no such database");
    run!("nonesuch").expect(2);
    done!("--version");
    done!("--help");
    Ok(())
}

#[test]
fn a_file_in_use_is_busy_and_readers_share_it() -> TestResult {
    let folder = Folder::new()?;
    let path = small(&folder)?;
    let writer = simdb::Database::open(&path, &simdb::OpenOptions::new())?;
    for command in ["stats", "check"] {
        run!(command, &path).refused("in use by another process");
    }
    run!("delete", &path, "a").refused("in use by another process");
    drop(writer);
    let reader = simdb::Database::open(&path, &simdb::OpenOptions::new().read_only(true))?;
    done!("stats", &path);
    done!("query", &path, "--key a");
    run!("delete", &path, "a").refused("in use by another process");
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
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path(""));
    Ran::from(shell.output()?)
        .begins("simdb: rejected: in.tsv, line 2: ")
        .ends("\n0\n");
    for name in ["d.simdb", "e.simdb"] {
        let stats = done!("stats", folder.path(name), "--json").object()?;
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
    let ran = Ran::from(program!("stats", &database).stdout(full).output()?).expect(2);
    assert!(
        ran.err
            .starts_with("simdb: standard output cannot be written: "),
        "{ran:?}"
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
    let stats = done!("stats", folder.path("d.simdb"), "--json").object()?;
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
    for command in commands {
        for option in options {
            let name = option.split(' ').next().unwrap_or_default();
            let ran = folder.run(&format!("{command} {option}"))?;
            ran.refused(&format!("{name} is for "));
        }
    }
    let ran = folder.run("query d.simdb --key a --scheme simhash")?;
    ran.refused("--scheme is for ");
    Ok(())
}
