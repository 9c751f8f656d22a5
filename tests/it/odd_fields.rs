//! Records whose features and sketches are wrong: what `load`, `ingest` and `query` say of each.

use serde_json::{Value, json};

use crate::support::{Folder, Ran, TestResult, assert_has, done, program, run, run_with_input};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

fn digits(bytes: usize) -> String {
    "0f".repeat(bytes)
}

/// Loads a header and one document, whose fields are replaced by others.
fn load(folder: &Folder, header: &Value, document: &Value) -> TestResult<Ran> {
    let mut lines = [
        json!({"simdb_dump": 2, "scheme": "external", "plan": null, "max_distance": 3, "sketch_bytes": 16,
               "min_similarity": 0.5, "documents": 1}),
        json!({"key": "a", "fingerprint": "00000000000000ff", "sketch": digits(16), "shingles": 9, "seen": 1}),
    ];
    for (line, changes) in lines.iter_mut().zip([header, document]) {
        for (field, value) in changes.as_object().into_iter().flatten() {
            line[field] = value.clone();
        }
    }
    let path = folder.path("loaded.simdb");
    _ = std::fs::remove_file(&path);
    let input = format!("{}\n{}\n", lines[0], lines[1]);
    let ran = run_with_input(&mut program!("load", &path, "-"), input.as_bytes())?;
    assert_eq!(
        path.exists(),
        ran.code == Some(0),
        "a file is left of what cannot be loaded: {input}"
    );
    Ok(ran)
}

#[test]
fn a_dump_with_impossible_sketches_is_refused_by_its_line() -> TestResult {
    let folder = Folder::new()?;
    let none = json!({});
    load(&folder, &none, &none)?.expect(0);
    for (document, says) in [
        (
            json!({"sketch": digits(16) + "0"}),
            "is not a sketch: 32 or 64 hexadecimal digits",
        ),
        (json!({"sketch": digits(15) + "0g"}), "is not a sketch"),
        (json!({"sketch": digits(15) + "é"}), "is not a sketch"),
        (json!({"sketch": ""}), "\"\" is not a sketch"),
        (json!({"sketch": digits(4_000)}), "is not a sketch"),
        (
            json!({"sketch": digits(32)}),
            "sketches of 16 and of 32 bytes cannot be compared",
        ),
        (json!({"sketch": 7}), "expected a string"),
        (
            json!({"shingles": 0}),
            "16 bytes and 0 shingles are no sketch",
        ),
        (json!({"shingles": -1}), "integer `-1`"),
        (
            json!({"shingles": 4_294_967_296u64}),
            "integer `4294967296`",
        ),
        (json!({"shingles": 1.5}), "floating point `1.5`"),
        (json!({"key": "k".repeat(4_097)}), "the key has 4097 bytes"),
        (json!({"rank": [1, 2, 3, 4, 5]}), "the rank has 5 numbers"),
        (json!({"scope": "s".repeat(256)}), "the scope has 256 bytes"),
    ] {
        load(&folder, &none, &document)?
            .refused("line 2: ")
            .says(says);
    }
    for (header, says) in [
        (
            json!({"simdb_dump": 1}),
            "a dump of version 1, and this release reads 2",
        ),
        (
            json!({"sketch_bytes": 17}),
            "a size that sketches cannot have",
        ),
        (
            json!({"sketch_bytes": -1}),
            "does not begin with the header of a dump",
        ),
        (
            json!({"sketch_bytes": 32}),
            "line 2: sketches of 32 and of 16 bytes",
        ),
        (
            json!({"sketch_bytes": 0, "min_similarity": 0.0}),
            "line 2: the database has no sketches",
        ),
        (json!({"sketch_bytes": 0}), "the database has no sketches"),
        (
            json!({"min_similarity": 1.5}),
            "a least similarity of 1.5 was given",
        ),
        (
            json!({"min_similarity": -0.1}),
            "a least similarity of -0.1 was given",
        ),
        (
            json!({"min_similarity": null}),
            "does not begin with the header of a dump",
        ),
    ] {
        load(&folder, &header, &none)?.refused(says);
    }
    // A document may have a sketch and no fingerprint. Then nothing matches it, and it comes back as it was.
    let unjudged = json!({"fingerprint": null, "too_short": true});
    load(&folder, &none, &unjudged)?.expect(0);
    let path = folder.path("loaded.simdb");
    done!("check", &path);
    let dumped = done!("dump", &path).last()?;
    assert_has!(dumped, {"sketch": digits(16), "fingerprint": null});
    Ok(())
}

#[test]
fn features_of_another_shape_are_rejected_and_the_message_says_what_to_do() -> TestResult {
    let folder = Folder::new()?;
    let shape = "field `features`: an object of features with their weights, or a list of features, is wanted; if \
                 it means something else, with `--ignore-field features`";
    let weight = "of a feature cannot be used";
    let records = [
        (r#"{"a":NaN}"#, "`NaN` is no number of JSON; write `null`"),
        (
            r#"{"a":-Infinity}"#,
            "`-Infinity` is no number of JSON; write `null`",
        ),
        (r#"{"a":1e400}"#, "number out of range"),
        (r#"{"a":-1,"b":2}"#, weight),
        (r#"{"a":-0.0}"#, weight),
        (r#"{"a":1e308,"b":1e308}"#, weight),
        (r#"{"a":1048577}"#, weight),
        (r#"{"a":{"b":1}}"#, shape),
        (r#"{"a":"red"}"#, shape),
        (r#"{"a":true}"#, shape),
        (r#"{"a":null}"#, shape),
        (r#"[["a",1]]"#, shape),
        ("[0.25,0.5]", shape),
        ("[null]", shape),
        ("\"words\"", shape),
        ("7", shape),
        (
            r#"["\ud800"]"#,
            "an escape is half of a surrogate pair, which is no character",
        ),
    ];
    // A text beside them is not used instead, unless there are none.
    let line = |features: &str| {
        format!("{{\"id\":\"bad\",\"text\":\"{TEXT}\",\"features\":{features}}}\n")
    };
    let nested = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let mut lines: String = records.iter().map(|(features, _)| line(features)).collect();
    lines += &line(&nested);
    // These are good: no features, too few, and the same word by way of an escape.
    lines += &line("null").replace("bad", "text");
    lines += &line(r#"{"a":1}"#).replace("bad", "few");
    let empty = line("[]").replace("bad", "empty");
    lines += &empty.replace(TEXT, &format!("{TEXT} and other words {TEXT}"));
    lines += &line(r#"["a","b","c","d","e","f","g","h"]"#).replace("bad", "list");
    lines +=
        &line(r#"{"\u0061":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}"#).replace("bad", "object");
    // Where a fingerprint stands, features are not looked at.
    let ready = line("[0.5]")
        .replace("bad", "ready")
        .replace("text", "fingerprint")
        .replace(TEXT, &digits(8));
    let sketch = format!("{{\"sketch\":\"{}\",\"shingles\":9,\"id\"", digits(16));
    let ready = ready.replace("{\"id\"", &sketch);
    let database = folder.path("d.simdb");
    let input = folder.file("in.jsonl", lines + &ready)?;
    let ran = done!("ingest", &database, &input, "--scheme minwise-1 --json");
    let rejected: Vec<_> = ran
        .json()?
        .into_iter()
        .filter(|it| it["reason"].is_string())
        .collect();
    for (at, (features, says)) in records.iter().enumerate() {
        let told = rejected
            .iter()
            .find(|it| it["line"] == at + 1)
            .ok_or("each is told")?;
        assert!(
            told["reason"].as_str().is_some_and(|it| it.contains(says)),
            "{features}: {told}"
        );
    }
    // A person is told the first of a kind.
    let ran = ran.says("more records like this one");
    let ran = ran.says("line 18: not a JSON record: recursion limit exceeded");
    let near = ran
        .json()?
        .into_iter()
        .find(|it| it["matches"].is_array())
        .ok_or("one is near")?;
    assert_eq!(
        (&near["key"], &near["matches"][0]["key"]),
        (&"object".into(), &"list".into())
    );
    ran.counts(["inserted", "rejected", "too_short"], [6, 18, 1]);
    done!("check", &database);
    Ok(())
}

/// With a least similarity, the first record without a sketch once ended the command, and the others had no answer.
#[test]
fn a_question_with_a_wrong_sketch_is_rejected_and_the_others_are_answered() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    done!("create", &database, "--scheme external --sketch 16");
    let line = |key: &str, sketch: Value, shingles: Value| {
        format!(
            "{}\n",
            json!({"id": key, "fingerprint": "00000000000000ff", "sketch": sketch, "shingles": shingles})
        )
    };
    let good = line("good", digits(16).into(), 9.into());
    done!("ingest", &database, folder.file("good.jsonl", &good)?);
    let wrong = [
        line("size", digits(32).into(), 9.into()),
        line("odd", (digits(16) + "0").into(), 9.into()),
        line("none", digits(16).into(), 0.into()),
        line("negative", digits(16).into(), (-4).into()),
        line("huge", digits(16).into(), 4_294_967_296u64.into()),
        line("text", digits(16).into(), "9".into()),
        line("number", 7.into(), 9.into()),
    ];
    let bare = line("bare", Value::Null, 9.into());
    let input = folder.file(
        "asked.jsonl",
        good.clone() + &wrong.concat() + &bare + &good,
    )?;
    let ran = run!("query", &database, "--input", &input).expect(2);
    assert_eq!(
        ran.out.matches("\nrejected: ").count(),
        wrong.len(),
        "{}",
        ran.out
    );
    ran.prints("bare is near good (distance 0)\n");
    for asked in ["--min-similarity 0.5", "--order similarity"] {
        let ran = run!("query", &database, "--input", &input, ..asked.split(' ')).expect(2);
        assert_eq!(
            ran.out.matches("\nrejected: ").count(),
            wrong.len() + 1,
            "{}",
            ran.out
        );
        assert_eq!(
            ran.out
                .matches("good is near good (distance 0, similarity 1.00)\n")
                .count(),
            2,
            "{}",
            ran.out
        );
        ran.says("asked.jsonl, line 9: a similarity is asked for, but no sketch is given");
    }
    for given in ["nan", "NaN", "inf", "1.1", "-0.1", "", "half"] {
        folder
            .run(&format!(
                "query d.simdb --input asked.jsonl --min-similarity {given}"
            ))?
            .refused("from 0 to 1");
    }
    // A database without sketches can answer none of them.
    let plain = folder.path("plain.simdb");
    done!("create", &plain, "--scheme external");
    let input = folder.file("bare.jsonl", bare)?;
    run!("query", &plain, "--input", &input, "--min-similarity 0.5")
        .refused("the database has no sketches");
    Ok(())
}

/// Records of others: one is a copy of another, and in all but one a field means something else than simdb takes it
/// for.
const OF_OTHERS: [&str; 11] = [
    r#""time":"""#,
    r#""seen":1700000000000"#,
    r#""rank":0.5"#,
    r#""rank":[1,2,3,4,5]"#,
    r#""scope":[]"#,
    r#""payload":{"a":1}"#,
    r#""payload_base64":"%""#,
    r#""fingerprint":"d41d8cd98f00b204e9800998ecf8427e""#,
    r#""fingerprint":7"#,
    r#""id":{"$oid":"5f"}"#,
    r#""group":[1]"#,
];

/// Such a field once kept its record from being judged, in a cleaning that needs none of them.
#[test]
fn fields_of_others_do_not_keep_a_corpus_from_being_cleaned() -> TestResult {
    let folder = Folder::new()?;
    let mut lines = String::new();
    for (at, field) in OF_OTHERS.iter().enumerate() {
        let own = format!("of number {at} and nothing else that could be found anywhere");
        lines += &format!("{{{field},\"text\":\"{own} {}\"}}\n", at * 7919);
        lines += &format!("{{\"text\":\"{own} {}\"}}\n", at * 7919);
    }
    let input = folder.file("in.jsonl", &lines)?;
    done!("dedup", &input, "-o", folder.path("out.jsonl"), "--json")
        .counts(["records", "removed", "rejected"], [22, 11, 0]);
    // Where ranks decide because the caller says so, one that cannot be compared is told.
    let ran = folder
        .run("dedup in.jsonl -o ranked.jsonl --survivor rank --json")?
        .expect(0);
    assert_eq!(ran.last()?["rejected"], 2, "{}", ran.err);
    ran.says("field `rank`: a whole number or a list of them is wanted; if it means something else, `--ignore-field rank`");
    Ok(())
}

#[test]
fn a_field_that_means_something_else_can_be_ignored_wherever_records_are_read() -> TestResult {
    let folder = Folder::new()?;
    let fields = r#""time":"","rank":0.5,"scope":[],"payload":7,"features":"red","fingerprint":"00000000000000ff","html":5"#;
    folder.file(
        "in.jsonl",
        format!("{{\"id\":1,{fields},\"text\":\"{TEXT}\"}}\n"),
    )?;
    let names = [
        "time",
        "rank",
        "scope",
        "payload",
        "features",
        "fingerprint",
    ];
    let ignoring = |words: &str, names: &[&str]| {
        let options = names.iter().map(|name| format!(" --ignore-field {name}"));
        folder.run(&format!("{words}{}", options.collect::<String>()))
    };
    let ingest = "ingest d.simdb in.jsonl --scheme minwise-1";
    // Without one of the options the record is rejected, and the message names the option.
    for left_out in names {
        let others: Vec<&str> = names.into_iter().filter(|name| *name != left_out).collect();
        let ran = ignoring(&format!("{ingest} --sketch 16"), &others)?;
        if left_out == "fingerprint" {
            // A fingerprint of the right form is taken for one of the scheme that was named.
            assert!(ran.err.contains("sketch"), "{}", ran.err);
        } else {
            ran.refused(&format!("--ignore-field {left_out}"));
        }
    }
    ignoring(ingest, &names)?.expect(0);
    ignoring("query d.simdb --input in.jsonl", &names[4..])?.expect(0);
    // A field that is named as the text is read all the same.
    folder.file(
        "payload.jsonl",
        format!("{{\"id\":1,\"payload\":\"{TEXT}\"}}\n"),
    )?;
    folder
        .run("ingest named.simdb payload.jsonl --text-field payload --ignore-field payload")?
        .expect(0);
    folder
        .run("dedup payload.jsonl --text-field payload -o out.jsonl")?
        .expect(0)
        .begins("1 record: 1 kept, 0 removed, ");
    Ok(())
}

/// Such a corpus was once cleaned by a field that nobody had named.
#[test]
fn a_corpus_is_cleaned_by_the_field_that_was_named_and_by_no_other() -> TestResult {
    let folder = Folder::new()?;
    let fields = [
        ("fingerprint", json!("00000000000000ff")),
        (
            "features",
            json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1}),
        ),
        ("text", json!(TEXT)),
        ("html", json!(format!("<p>{TEXT}"))),
    ];
    for named in ["--text-field", "--html-field"] {
        for (name, value) in &fields {
            // The named field is another one in each record, and all others are the same.
            let mut lines = String::new();
            for record in 0..3 {
                let words: Vec<String> = (0..12)
                    .map(|word| format!("w{}", record * 7919 + word))
                    .collect();
                lines += &format!(
                    "{}\n",
                    json!({"id": record, *name: value, "body": words.join(" ")})
                );
            }
            lines += &format!("{}\n", json!({"id": 3, *name: value}));
            lines += &format!("{}\n", json!({"id": 4, *name: value, "body": null}));
            let input = folder.file("in.jsonl", &lines)?;
            let output = folder.path(&format!("{named}{name}.jsonl"));
            let ran = done!("dedup", &input, named, "body -o", output, "--json");
            ran.counts(["removed", "rejected"], [0, 2]);
            ran.says(&format!(
                "field `body` is wanted, and it has `id`, `{name}`"
            ));
        }
    }
    Ok(())
}

#[test]
fn a_record_without_content_names_the_fields_that_it_has() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    let input = folder.file("in.jsonl", "{\"id\":1,\"body\":\"a\",\"title\":\"b\"}\n")?;
    run!("ingest", &database, &input).refused(
        "it has `id`, `body`, `title`; `--text-field` or `--html-field` names the one that holds the text",
    );
    let many: String = (0..100).map(|at| format!("\"f{at}\":{at},")).collect();
    run!(
        "ingest",
        &database,
        folder.file("many.jsonl", format!("{{{many}\"id\":1}}\n"))?
    )
    .refused("`f11`; ")
    .says_no("`f12`");
    run!("ingest", &database, folder.file("none.jsonl", "{}\n")?).refused("is wanted\n");
    Ok(())
}

#[test]
fn numbers_that_json_does_not_have_are_named() -> TestResult {
    let folder = Folder::new()?;
    for word in ["NaN", "Infinity", "-Infinity", "nan", "inf"] {
        for line in [
            format!("{{\"id\":1,\"score\":{word},\"text\":\"{TEXT}\"}}\n"),
            format!("{{\"id\":1,\"text\":\"{TEXT}\",\"scores\":[1, {word}]}}\n"),
            format!("{{\"id\":1,\"rank\": {word} , \"text\":\"{TEXT}\"}}\n"),
        ] {
            let input = folder.file("in.jsonl", &line)?;
            run!("ingest", folder.path("d.simdb"), &input)
                .refused(&format!("`{word}` is no number of JSON"));
        }
    }
    // Other words keep the message of the parser.
    let input = folder.file("in.jsonl", "{\"id\":1,\"text\":nothing}\n")?;
    run!("ingest", folder.path("d.simdb"), &input).refused("not a JSON record: expected ident");
    Ok(())
}

/// Shards that each count from 0 replaced the documents of one another, and records without a key could not be stored.
#[test]
fn records_can_be_named_by_their_places() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    for shard in ["s0.jsonl", "s1.jsonl"] {
        let mut lines = String::new();
        for id in 0..3 {
            lines += &format!(
                "{}\n",
                json!({"id": id, "text": format!("{TEXT} of {shard} and {id}")})
            );
        }
        // A key that no document can have is not read.
        lines += &format!("\n{}\n", json!({"id": [1], "text": TEXT}));
        folder.file(shard, lines)?;
    }
    let no_keys = format!("{}\n", json!({"text": TEXT}));
    let no_keys = folder.file("none.jsonl", no_keys)?;
    run!("ingest", &database, &no_keys)
        .refused("has no key: ")
        .says("`--key-by-place`");
    folder.file("t.tsv", format!("a\t{TEXT}\na\t{TEXT} again\n"))?;
    folder.file("whole.txt", TEXT)?;
    let ingest = |more: &str| folder.run(&format!("ingest d.simdb --key-by-place --json {more}"));
    let ran = ingest("s0.jsonl s1.jsonl none.jsonl t.tsv whole.txt")?.expect(0);
    assert_eq!(ran.last()?["inserted"], 12, "{}", ran.out);
    for (key, is_there) in [
        ("s0.jsonl:1", true),
        ("s1.jsonl:1", true),
        ("s1.jsonl:4", false),
        ("s1.jsonl:5", true),
        ("none.jsonl:1", true),
        ("t.tsv:2", true),
        ("whole.txt", true),
        ("a", false),
        ("0", false),
    ] {
        run!("get", &database, key).expect(if is_there { 0 } else { 1 });
    }
    // The same records have the same names.
    let again = ingest("s0.jsonl --again")?.expect(0);
    let totals = again.last()?;
    let counts = [&totals["inserted"], &totals["replaced"]];
    assert_eq!(counts, [&json!(0), &json!(4)], "{}", again.out);
    ingest("s0.jsonl --key-field=id")?.expect(2);
    Ok(())
}

/// Corpora keep addresses and texts in objects within their records.
#[test]
fn a_field_within_others_is_named_by_a_pointer() -> TestResult {
    let folder = Folder::new()?;
    let record = json!({
        "meta": {"url/a": "http://a/", "texts": ["none", {"body": TEXT}], "~": null},
        "text": "another text",
    });
    folder.file("in.jsonl", format!("{record}\n"))?;
    let database = folder.path("d.simdb");
    let pointers = "--key-field /meta/url~1a --text-field /meta/texts/1/body";
    folder
        .run(&format!("ingest d.simdb in.jsonl {pointers}"))?
        .expect(0);
    done!("get", &database, "http://a/");
    let found = done!("query", &database, "--text", TEXT);
    assert_eq!(found.out, "0\t1.00\thttp://a/\n");
    for absent in [
        "/meta",
        "/meta/none",
        "/meta/texts/2",
        "/meta/texts/1/body/x",
        "/meta/~0",
        "/text/x",
        "/",
    ] {
        folder
            .run(&format!(
                "ingest none.simdb in.jsonl --key-by-place --text-field {absent}"
            ))?
            .expect(2);
    }
    // One part is the field itself.
    folder
        .run("ingest one.simdb in.jsonl --key-by-place --text-field /text")?
        .expect(0);
    Ok(())
}

/// A corpus with a field `fingerprint` of another program was cleaned by it without a word.
#[test]
fn a_field_that_is_read_in_place_of_texts_is_told() -> TestResult {
    let folder = Folder::new()?;
    for (field, value) in [
        ("fingerprint", json!("00000000000000ff")),
        ("features", json!(["a", "b", "c", "d", "e", "f", "g", "h"])),
    ] {
        let record = json!({"id": 1, "text": TEXT, field: value});
        let input = folder.file("in.jsonl", format!("{record}\n"))?;
        let advice = format!("`--ignore-field {field}` reads the texts");
        let database = folder.path(&format!("{field}.simdb"));
        done!("ingest", &database, &input).says(&advice);
        let output = folder.path(&format!("{field}.jsonl"));
        done!("dedup", &input, "-o", &output).says(&advice);
        for rest in [&["--ignore-field", field][..], &["--text-field", "text"]] {
            run!(
                "dedup",
                &input,
                "-o",
                folder.path(&format!("{field}{}.jsonl", rest[0])),
                ..rest
            )
            .expect(0)
            .says_no("no text is read");
        }
        let alone = json!({"id": 1, field: value});
        let alone = folder.file("alone.jsonl", format!("{alone}\n"))?;
        done!("ingest", folder.path(&format!("{field}2.simdb")), &alone).says_no("no text is read");
    }
    Ok(())
}
