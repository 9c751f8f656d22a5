//! Documents in paragraphs and sentences: keys, counts, queries, and documents that come again.

use std::path::Path;

use crate::support::{Folder, Ran, TestResult, assert_has, done, program, run, run_with_input};

const FIRST: &str = "The river rose above its banks on Sunday. Nobody was hurt. Dr. Lee thanked the helpers of the \
                     town, who had worked all night.\n\n\n* * *\n\n明天全省大部分地区有大雨。";
const SECOND: &str =
    "Schools stay closed.\n\nThe helpers have slept. The river rose above\nits banks on Sunday!";

/// Two news items in JSON Lines.
fn news(folder: &Folder) -> std::io::Result<std::path::PathBuf> {
    let line = |key: &str, text: &str| {
        let record = serde_json::json!({
            "url": key, "text": text, "seen": 7, "rank": 3, "scope": "news", "payload": "kept"
        });
        format!("{record}\n")
    };
    folder.file(
        "news.jsonl",
        line("http://a/", FIRST) + &line("http://b/", SECOND),
    )
}

/// The keys of all documents with a fingerprint.
fn keys(database: &Path) -> TestResult<Vec<String>> {
    let documents = done!("dump", database).json()?;
    let judged = documents.iter().filter(|it| it["fingerprint"].is_string());
    let mut keys: Vec<String> = judged
        .filter_map(|it| Some(it["key"].as_str()?.to_owned()))
        .collect();
    keys.sort_unstable();
    Ok(keys)
}

#[test]
fn a_repeated_sentence_is_found_with_its_place() -> TestResult {
    let folder = Folder::new()?;
    let (database, news) = (folder.path("d.simdb"), news(&folder)?);
    let ran = done!(
        "ingest",
        &database,
        &news,
        "--unit sentence --max-distance 5"
    );
    let mut lines = ran.out.lines();
    assert_eq!(
        lines.next(),
        Some("http://b/#3 is near http://a/#1 (distance 0, similarity 1.00)")
    );
    let last = lines.next().unwrap_or_default();
    let counts = "2 documents, 8 sentences: 1 near-duplicate, 5 inserted, 3 too short to judge, ";
    assert!(last.starts_with(counts), "{last}");
    assert_eq!(
        keys(&database)?,
        [
            "http://a/#1",
            "http://a/#4",
            "http://a/#5",
            "http://b/#2",
            "http://b/#3"
        ]
    );
    let stored = done!("get", &database, "http://b/#3 --json").object()?;
    assert_has!(stored, {"seen": 7, "rank": [3], "scope": "news"});
    assert_eq!(stored["payload"], "kept");
    assert_eq!(
        done!("stats", &database, "--json").object()?["scheme"],
        "minwise-short-1"
    );
    done!("check", &database);

    // Paragraphs, in HTML and in plain text.
    let page = folder.file(
        "page.html",
        "<h1>River</h1><p>Schools stay\n\nclosed <b>all week</b>, says the town.</p>",
    )?;
    let text = folder.file(
        "text.txt",
        "River\r\n\r\nSchools stay closed all\r\nweek, says the town.\r\n",
    )?;
    let ran = done!(
        "ingest",
        folder.path("p.simdb"),
        &text,
        &page,
        "--unit paragraph --json"
    );
    let near = ran.json()?.swap_remove(0);
    assert_eq!(near["key"], format!("{}#2", page.display()));
    assert_eq!(near["matches"][0]["key"], format!("{}#2", text.display()));
    ran.counts(["units", "too_short", "inserted"], [4, 2, 2]);
    Ok(())
}

#[test]
fn queries_ask_for_each_unit() -> TestResult {
    let folder = Folder::new()?;
    let (database, news) = (folder.path("d.simdb"), news(&folder)?);
    done!("ingest", &database, &news, "--unit sentence");
    let text = "Who knew? The helpers have slept. Nothing else of note happened in this place.";
    let expected = "#2 is near http://b/#2 (distance 0, similarity 1.00)\n#3 is near nothing\n";
    assert_eq!(
        done!("query", &database, "--unit sentence --text", text).out,
        expected
    );
    let file = folder.file("q.txt", text)?;
    let ran = done!("query", &database, "--unit sentence --file", &file);
    assert_eq!(ran.out.lines().count(), 2);
    ran.begins(&format!("{}#2 is near http://b/#2", file.display()));

    let input = format!(
        "{{\"id\":\"q\",\"text\":\"{text}\"}}\n{{\"id\":\"bad\"}}\n{{\"id\":\"r\",\"text\":\"Nobody was hurt.\"}}\n"
    );
    let mut command = program!("query", &database, "--input - --unit sentence --json");
    let ran = run_with_input(&mut command, input.as_bytes())?.expect(2);
    let answers = ran.json()?;
    assert_eq!(answers.len(), 3, "{}", ran.out);
    assert_has!(answers[0], {"key": "q#2", "total": 1});
    assert_has!(answers[1], {"key": "q#3", "total": 0});
    assert_eq!(answers[2]["line"], 2);
    let nothing = run!(
        "query",
        &database,
        "--unit sentence --text",
        ..["Too short."]
    )
    .expect(1);
    assert_eq!(nothing.out, "");

    let ran = done!(
        "fingerprint",
        &file,
        "--unit sentence --scheme minwise-short"
    );
    let printed: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.rsplit('#').next())
        .collect();
    assert_eq!(printed, ["2", "3"]);
    run!("query", &database, "--unit sentence --key http://a/#1").refused("cut into units");
    run!(
        "query",
        &database,
        "--unit sentence --fingerprint 00000000000000ff"
    )
    .refused("cut into units");
    run!("explain", &database, "--unit sentence --text", text).refused("cut into units");
    Ok(())
}

/// A document that comes again loses all its old units, also where units that are too short leave gaps. None of
/// them counts as a near-duplicate of a new one.
#[test]
fn a_document_that_comes_again_has_only_its_new_units() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("d.simdb");
    let sentence =
        |name: &str| format!("This is the sentence that is named {name} by all who read it. ");
    let gap = "No. ".repeat(200);
    let record = |text: &str| serde_json::json!({"id": "a", "text": text}).to_string();
    let ingest = |text: &str, options: &[&str]| -> TestResult<Ran> {
        let input = folder.file("in.jsonl", record(text))?;
        Ok(done!(
            "ingest",
            &database,
            &input,
            "--unit sentence --json",
            ..options
        ))
    };
    let [one, two, three] = ["one", "two", "three"].map(sentence);
    ingest(&format!("{one}{two}{gap}{three}"), &[])?;
    assert_eq!(keys(&database)?, ["a#1", "a#2", "a#203"]);
    let head = done!("get", &database, "a#0 --json").object()?;
    assert_has!(head, {"payload": "{\"units\":203}", "too_short": true});

    // The second sentence moves up, and would be a near-duplicate of itself.
    let ran = ingest(&two, &["--on-duplicate", "skip"])?;
    ran.counts(["duplicates", "inserted", "deleted"], [0, 1, 3]);
    assert_eq!(keys(&database)?, ["a#1"]);

    // The same document several times in one input, in batches of one and of many.
    for batch in ["1", "1000"] {
        let input = [
            format!("{one}{two}{three}"),
            two.clone(),
            format!("{three}{one}"),
        ];
        let input = input.map(|it| record(&it));
        let input = folder.file(&format!("again-{batch}.jsonl"), input.join("\n"))?;
        let ran = done!(
            "ingest --unit sentence --json --batch",
            batch,
            &database,
            &input
        );
        assert_eq!(ran.last()?["documents"], 3);
        assert_eq!(keys(&database)?, ["a#1", "a#2"], "batch {batch}");
        done!("check", &database);
    }
    // Two equal sentences of one document are near-duplicates of each other.
    let near = ingest(&format!("{one}{one}"), &[])?.json()?.swap_remove(0);
    assert_eq!(
        (&near["key"], &near["matches"][0]["key"]),
        (&"a#2".into(), &"a#1".into())
    );
    // An empty text removes the document.
    ingest("", &[])?;
    assert!(keys(&database)?.is_empty());
    Ok(())
}

/// Sentences of four to seven words were left out, and the fingerprints of others were none of the database.
#[test]
fn units_have_the_fingerprints_of_a_new_database() -> TestResult {
    let folder = Folder::new()?;
    let text =
        "a\tSchools stay closed until Friday. Nobody was hurt by the water at all last night.\n";
    let input = folder.file("s.tsv", text)?;
    done!("ingest", folder.path("d.simdb"), &input, "--unit sentence");
    let mut stored = Vec::new();
    for line in done!("dump", folder.path("d.simdb")).json()? {
        if let (Some(key), Some(fingerprint)) = (line["key"].as_str(), line["fingerprint"].as_str())
        {
            stored.push(format!("{fingerprint}\t{key}"));
        }
    }
    let printed = done!("fingerprint", &input, "--unit sentence");
    assert_eq!(printed.out.lines().collect::<Vec<_>>(), stored);
    assert_eq!(stored.len(), 2);
    Ok(())
}

#[test]
fn what_cannot_be_cut_is_rejected() -> TestResult {
    let folder = Folder::new()?;
    let long_key = "k".repeat(4_095);
    let text = "This sentence is long enough to be judged.";
    let record = |key: &str, sentences: usize| {
        serde_json::json!({"id": key, "text": vec![text; sentences].join(" ")}).to_string() + "\n"
    };
    let fingerprint = "{\"id\":\"f\",\"fingerprint\":\"00000000000000ff\"}\n";
    let input =
        record("good", 1) + fingerprint + &record(&long_key, 12) + &record(&long_key[..4_093], 12);
    let input = folder.file("in.jsonl", input)?;
    let ran = done!(
        "ingest",
        folder.path("d.simdb"),
        &input,
        "--unit sentence --json"
    );
    let ran = ran.says("in.jsonl, line 2: the record brings no text, so it cannot be cut");
    let ran = ran.says("in.jsonl, line 3: the key has 4097 bytes; at most 4096 are allowed");
    ran.counts(["documents", "rejected", "units"], [2, 2, 13]);
    Ok(())
}
