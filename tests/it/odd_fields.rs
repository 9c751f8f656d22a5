//! Records whose features and sketches are wrong: what `load`, `ingest` and `query` say of each.

use serde_json::{Value, json};

use crate::support::{Folder, Ran, TestResult, run, run_with_input, simdb};

const TEXT: &str = "one two three four five six seven eight nine ten eleven twelve";

fn digits(bytes: usize) -> String {
    "0f".repeat(bytes)
}

/// Loads a header and one document, whose fields are replaced by others.
fn load(folder: &Folder, header: &Value, document: &Value) -> Result<Ran, Box<dyn std::error::Error>> {
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
    let ran = run_with_input(simdb().arg("load").arg(&path).arg("-"), input.as_bytes())?;
    assert_eq!(path.exists(), ran.code == Some(0), "a file is left of what cannot be loaded: {input}");
    Ok(ran)
}

#[test]
fn a_dump_with_impossible_sketches_is_refused_by_its_line() -> TestResult {
    let folder = Folder::new()?;
    let none = json!({});
    load(&folder, &none, &none)?.expect(0);
    for (document, says) in [
        (json!({"sketch": digits(16) + "0"}), "is not a sketch: 32 or 64 hexadecimal digits"),
        (json!({"sketch": digits(15) + "0g"}), "is not a sketch"),
        (json!({"sketch": digits(15) + "é"}), "is not a sketch"),
        (json!({"sketch": ""}), "\"\" is not a sketch"),
        (json!({"sketch": digits(4_000)}), "is not a sketch"),
        (json!({"sketch": digits(32)}), "sketches of 16 and of 32 bytes cannot be compared"),
        (json!({"sketch": 7}), "expected a string"),
        (json!({"shingles": 0}), "16 bytes and 0 shingles are no sketch"),
        (json!({"shingles": -1}), "integer `-1`"),
        (json!({"shingles": 4_294_967_296u64}), "integer `4294967296`"),
        (json!({"shingles": 1.5}), "floating point `1.5`"),
        (json!({"key": "k".repeat(4_097)}), "the key has 4097 bytes"),
        (json!({"rank": [1, 2, 3, 4, 5]}), "the rank has 5 numbers"),
        (json!({"scope": "s".repeat(256)}), "the scope has 256 bytes"),
    ] {
        load(&folder, &none, &document)?.expect(2).says("line 2: ").says(says);
    }
    for (header, says) in [
        (json!({"simdb_dump": 1}), "a dump of version 1, and this release reads 2"),
        (json!({"sketch_bytes": 17}), "a size that sketches cannot have"),
        (json!({"sketch_bytes": -1}), "does not begin with the header of a dump"),
        (json!({"sketch_bytes": 32}), "line 2: sketches of 32 and of 16 bytes"),
        (json!({"sketch_bytes": 0, "min_similarity": 0.0}), "line 2: the database has no sketches"),
        (json!({"sketch_bytes": 0}), "the database has no sketches"),
        (json!({"min_similarity": 1.5}), "a least similarity of 1.5 was given"),
        (json!({"min_similarity": -0.1}), "a least similarity of -0.1 was given"),
        (json!({"min_similarity": null}), "does not begin with the header of a dump"),
    ] {
        load(&folder, &header, &none)?.expect(2).says(says);
    }
    // A document may have a sketch and no fingerprint. Then nothing matches it, and it comes back as it was.
    let unjudged = json!({"fingerprint": null, "too_short": true});
    load(&folder, &none, &unjudged)?.expect(0);
    let path = folder.path("loaded.simdb");
    run!("check", &path).expect(0);
    let dumped = run!("dump", &path).expect(0).last()?;
    assert_eq!((&dumped["sketch"], &dumped["fingerprint"]), (&digits(16).into(), &Value::Null));
    Ok(())
}

#[test]
fn features_of_another_shape_are_rejected_and_the_message_says_what_to_do() -> TestResult {
    let folder = Folder::new()?;
    let shape = "field `features`: an object of features with their weights, or a list of features, is wanted; if \
                 the field has another meaning, rename it";
    let weight = "of a feature cannot be used";
    let records = [
        (r#"{"a":NaN}"#, "not a JSON record: expected value"),
        (r#"{"a":-Infinity}"#, "not a JSON record"),
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
        (r#"["\ud800"]"#, "an escape is half of a surrogate pair, which is no character"),
    ];
    // A text beside them is not used instead.
    let line = |features: &str| format!("{{\"id\":\"bad\",\"text\":\"{TEXT}\",\"features\":{features}}}\n");
    let nested = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let mut lines: String = records.iter().map(|(features, _)| line(features)).collect();
    lines += &line(&nested);
    // These are good: no features, too few, and the same word by way of an escape.
    lines += &line("null").replace("bad", "text");
    lines += &line("{}").replace("bad", "few");
    lines += &line(r#"["a","b","c","d","e","f","g","h"]"#).replace("bad", "list");
    lines += &line(r#"{"\u0061":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}"#).replace("bad", "object");
    // Where a fingerprint stands, features are not looked at.
    let ready =
        line("[0.5]").replace("bad", "ready").replace("text", "fingerprint").replace(TEXT, &digits(8));
    let sketch = format!("{{\"sketch\":\"{}\",\"shingles\":9,\"id\"", digits(16));
    let ready = ready.replace("{\"id\"", &sketch);
    let database = folder.path("d.simdb");
    let input = folder.file("in.jsonl", lines + &ready)?;
    let ran = run!("ingest", &database, &input, "--scheme", "minwise-1", "--json").expect(0);
    let rejected: Vec<_> = ran.json()?.into_iter().filter(|it| it["rejected"].is_string()).collect();
    for (at, (features, says)) in records.iter().enumerate() {
        let told = rejected.iter().find(|it| it["line"] == at + 1).ok_or("each is told")?;
        assert!(told["rejected"].as_str().is_some_and(|it| it.contains(says)), "{features}: {told}");
    }
    // A person is told the first of a kind.
    assert!(ran.err.contains("more records like this one"), "{}", ran.err);
    assert!(ran.err.contains("line 18: not a JSON record: recursion limit exceeded"), "{}", ran.err);
    let near = ran.json()?.into_iter().find(|it| it["matches"].is_array()).ok_or("one is near")?;
    assert_eq!((&near["key"], &near["matches"][0]["key"]), (&"object".into(), &"list".into()));
    let totals = ran.last()?;
    assert_eq!(
        (&totals["inserted"], &totals["rejected"], &totals["too_short"]),
        (&5.into(), &18.into(), &1.into())
    );
    run!("check", &database).expect(0);
    Ok(())
}

/// With a least similarity, the first record without a sketch once ended the command, and the others had no answer.
#[test]
fn a_question_with_a_wrong_sketch_is_rejected_and_the_others_are_answered() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    run!("create", &database, "--scheme", "external", "--sketch", "16").expect(0);
    let line = |key: &str, sketch: Value, shingles: Value| {
        format!(
            "{}\n",
            json!({"id": key, "fingerprint": "00000000000000ff", "sketch": sketch, "shingles": shingles})
        )
    };
    let good = line("good", digits(16).into(), 9.into());
    run!("ingest", &database, folder.file("good.jsonl", &good)?).expect(0);
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
    let input = folder.file("asked.jsonl", good.clone() + &wrong.concat() + &bare + &good)?;
    let ran = run!("query", &database, "--input", &input).expect(2);
    assert_eq!(ran.out.matches("\nrejected: ").count(), wrong.len(), "{}", ran.out);
    assert!(ran.out.contains("bare is near good (distance 0)\n"), "{}", ran.out);
    for asked in [["--min-similarity", "0.5"], ["--order", "similarity"]] {
        let ran = run!("query", &database, "--input", &input, asked[0], asked[1]).expect(2);
        assert_eq!(ran.out.matches("\nrejected: ").count(), wrong.len() + 1, "{}", ran.out);
        assert_eq!(
            ran.out.matches("good is near good (distance 0, similarity 1.00)\n").count(),
            2,
            "{}",
            ran.out
        );
        ran.says("asked.jsonl, line 9: a similarity is asked for, but no sketch is given");
    }
    for given in ["nan", "NaN", "inf", "1.1", "-0.1", "", "half"] {
        run!("query", &database, "--input", &input, "--min-similarity", given).expect(2).says("from 0 to 1");
    }
    // A database without sketches can answer none of them.
    let plain = folder.path("plain.simdb");
    run!("create", &plain, "--scheme", "external").expect(0);
    let input = folder.file("bare.jsonl", bare)?;
    run!("query", &plain, "--input", &input, "--min-similarity", "0.5")
        .expect(2)
        .says("the database has no sketches");
    Ok(())
}
