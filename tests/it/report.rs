//! `simdb report` and `simdb dedup --report`: the same numbers in every form, and nothing that acts on a reader.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(unix)]
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use simdb::{Database, Sketch, SketchSize};

use crate::support::{
    Folder, Ran, TestResult, bundled, document, done, external, figures, insert_all, program, run,
    run_with_input, scattered,
};

fn manual(folder: &Folder) -> std::io::Result<(PathBuf, PathBuf)> {
    let texts = bundled("pg-docs-html/docs.jsonl.gz");
    let database = folder.path("d.simdb");
    done!("ingest", &database, &texts);
    Ok((database, texts))
}

/// A page without what is not shown, and that of it which could act.
fn ensure_harmless(page: &str) {
    let lower = page.to_lowercase();
    for risky in "<script <img <link <iframe http: https: url( @import javascript:".split(' ') {
        assert!(!lower.contains(risky), "{risky}");
    }
    assert!(!page.contains(|c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}')));
    let tags = "table section dl p del ins span tbody tr td div svg g figure details summary text";
    for tag in tags.split(' ') {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[track_caller]
fn number(object: &Value, field: &str) -> u64 {
    figures(object, [field])[0]
}

#[track_caller]
fn list<'a>(object: &'a Value, field: &str) -> &'a Vec<Value> {
    object[field].as_array().expect("a list")
}

fn sum<'a>(objects: impl IntoIterator<Item = &'a Value>, field: &str) -> u64 {
    objects.into_iter().map(|it| number(it, field)).sum()
}

/// An input of 60,000 documents with these fingerprints.
fn fingerprints(folder: &Folder, of: impl Fn(u64) -> u64) -> std::io::Result<PathBuf> {
    let lines = (0..60_000).map(|i| format!("k{i}\t{:016x}\n", of(i)));
    folder.file("in.tsv", lines.collect::<String>())
}

fn counts(object: &Value) -> BTreeMap<u64, u64> {
    list(object, "distances")
        .iter()
        .map(|it| (number(it, "distance"), number(it, "pairs")))
        .filter(|it| it.1 > 0)
        .collect()
}

/// The entry of a choice in a report.
fn choice_of(report: &Value, max_distance: u64, min_similarity: f64) -> &Value {
    let mut found = list(report, "choices")
        .iter()
        .filter(|it| it["max_distance"] == max_distance && it["min_similarity"] == min_similarity);
    found.next().expect("a choice that was counted")
}

#[test]
fn the_numbers_are_those_of_pairs_and_clusters() -> TestResult {
    let folder = Folder::new()?;
    let (database, texts) = manual(&folder)?;
    let report = done!("report", &database, "--texts", &texts, "--json").object()?;
    assert_eq!(number(&report, "documents"), 368);

    let mut expected = BTreeMap::new();
    // A report also counts pairs that are not similar enough.
    for pair in done!("pairs", &database, "--min-similarity 0 --json").json()? {
        *expected.entry(number(&pair, "distance")).or_insert(0) += 1;
    }
    assert!(expected.len() > 5);
    assert_eq!(counts(&report), expected);

    let clusters = done!("clusters", &database, "--summary --json").json()?;
    let documents = sum(&clusters, "documents");
    assert_eq!(number(&report, "clusters"), clusters.len() as u64);
    assert_eq!(number(&report, "clustered_documents"), documents);
    assert_eq!(
        number(&report, "duplicates"),
        documents - clusters.len() as u64
    );
    let sizes = list(&report, "cluster_sizes");
    assert_eq!(sum(sizes, "clusters"), clusters.len() as u64);
    assert_eq!(sum(sizes, "documents"), documents);
    let largest = clusters.iter().map(|it| number(it, "documents")).max();
    let told = number(&report["largest_clusters"][0], "documents");
    assert_eq!(Some(told), largest);

    // What would be near by another choice is what the pairs say by that choice.
    assert_eq!(list(&report, "choices").len(), 9 * 6);
    for (max_distance, min_similarity) in [("0", "0"), ("3", "0.9"), ("8", "0.7"), ("8", "0.5")] {
        let near = [
            "--max-distance",
            max_distance,
            "--min-similarity",
            min_similarity,
        ];
        let pairs = done!("pairs", &database, ..near, "--json").json()?;
        let mut documents = BTreeSet::new();
        for pair in &pairs {
            documents.extend([pair["a"]["key"].as_str(), pair["b"]["key"].as_str()]);
        }
        let choice = choice_of(&report, max_distance.parse()?, min_similarity.parse()?);
        assert_eq!(number(choice, "pairs"), pairs.len() as u64);
        assert!(pairs.len() > 100 && !documents.contains(&None));
        assert_eq!(number(choice, "documents"), documents.len() as u64);
    }
    let current = choice_of(&report, 8, 0.7);
    assert_eq!(
        number(&report, "near_documents"),
        number(current, "documents")
    );
    let similar = sum(list(&report, "distances"), "similar_pairs");
    assert_eq!(similar, number(current, "pairs"));

    // The samples are pairs within the distance, up to three of each, and their texts differ as they are said to.
    let samples = list(&report, "samples");
    for (distance, pairs) in &expected {
        let drawn = samples
            .iter()
            .filter(|it| number(it, "distance") == *distance);
        let drawn = drawn.count();
        let is_right = drawn > 0 && drawn <= 3 && drawn <= *pairs as usize;
        assert!(is_right, "{drawn} of distance {distance}");
    }
    assert!(samples.iter().all(|it| it["a"] != it["b"]));
    let differences = samples.iter().map(|it| list(it, "differences").len());
    assert!(differences.max() > Some(2));
    Ok(())
}

#[test]
fn text_and_page_tell_the_same() -> TestResult {
    let folder = Folder::new()?;
    let (database, texts) = manual(&folder)?;
    let text = done!("report", &database, "--texts", &texts).out;
    let page = folder.path("report.html");
    let told = done!("report", &database, "--texts", &texts, "--html", &page);
    assert_eq!(told.out, "");
    let html = fs::read_to_string(&page)?;
    ensure_harmless(&html);
    // Each word and number of the page is in the text, in the same order. The numbers of the plot stand in a table.
    let body = html.split_once("<h1>").expect("a heading").1;
    let (before, plot) = body.split_once("<figure").expect("a plot");
    let (plot, after) = plot.split_once("</figure>").expect("one plot");
    let body = format!("{before}{after}");
    let report = done!("report", &database, "--json").object()?;
    for choice in list(&report, "choices") {
        let name = match choice["min_similarity"].as_f64() {
            Some(least) if least > 0.0 => format!("≥ {least}"),
            _ => "any".to_owned(),
        };
        let distance = number(choice, "max_distance");
        let documents = number(choice, "documents");
        let point = format!("<title>distance {distance}, {name}: {documents}</title>");
        assert_eq!(plot.matches(&point).count(), 1, "{point}");
    }
    let mut shown = String::new();
    for part in body.split('<') {
        shown += part.split_once('>').map_or(part, |it| it.1);
        shown.push(' ');
    }
    for (escaped, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        shown = shown.replace(escaped, c);
    }
    // Headings are in capitals, and bars are made of two signs.
    let plain = |text: &str| -> String {
        text.to_lowercase()
            .chars()
            .filter(|c| !c.is_whitespace() && !matches!(c, '#' | '='))
            .collect()
    };
    let (shown, told) = (plain(&shown), plain(&text));
    let differs = shown
        .char_indices()
        .zip(told.chars())
        .find(|((_, a), b)| a != b)
        .map(|((at, _), _)| at);
    assert!(
        differs.is_none() && shown.len() == told.len(),
        "{:?}",
        differs.map(|at| &shown[at..shown.len().min(at + 80)])
    );
    assert!(text.contains("[-") && text.contains("{+") && html.contains("<del>[-"));
    // What a report is opened for comes first, and what only few need comes last.
    let order = [
        "documents, 62 %, repeat another one; the largest cluster has 3.",
        "SAMPLE PAIRS",
        "PAIRS WHOSE TEXTS ARE NOT SIMILAR ENOUGH",
        "THE LARGEST CLUSTERS",
        "SIZES OF CLUSTERS",
        "DISTANCES",
        "WITH ANOTHER DISTANCE OR SIMILARITY",
        "IN NUMBERS",
        "FOR THOSE WHO LOOK AFTER THE DATABASE",
        "HOW THE FINGERPRINTS ARE SPREAD",
    ];
    let mut rest = &text[..];
    for part in order {
        rest = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part} after\n{text}"))
            .1;
    }

    // What is there is not lost.
    run!("report", &database, "--html", &page).refused("already exists");
    assert_eq!(fs::read_to_string(&page)?, html);
    let told = done!("report", &database, "--html", &page, "--replace --json");
    assert_eq!(number(&told.object()?, "documents"), 368);
    assert!(fs::read_to_string(&page)?.contains("since the texts are not known"));
    // It was found out after all the work, and a temporary file was named.
    let (missing, none) = (folder.path("no/such.html"), folder.path("none.tsv"));
    run!("report", &database, "--html", &missing, "--texts", &none)
        .refused(&format!(
            "{}: the page cannot be written",
            missing.display()
        ))
        .says_no(".simdb-");
    run!("report", &database, "--html", folder.path("."), "--replace").refused("cannot be written");
    assert_eq!(folder.count()?, 2);
    Ok(())
}

#[test]
fn keys_and_texts_do_no_harm() -> TestResult {
    let folder = Folder::new()?;
    let hostile = "</style><script>alert(1)</script> \u{202e}drow \u{1b}[31mred <img src=x onerror=alert(1)> ]] ";
    let mut lines = String::new();
    for i in 0..6 {
        let base: String = (0..120)
            .map(|j| format!("w{} ", (i / 2 * 977 + j * 31) % 1009))
            .collect();
        let text = format!(
            "{base} {} {hostile}",
            if i % 2 == 0 { "even &amp;" } else { "odd <b>" }
        );
        let key = format!("<b onmouseover='x'>{i}</b>\u{202e}\n\u{1b}[2J");
        lines += &format!("{}\n", serde_json::json!({"key": key, "text": text}));
    }
    let input = folder.file("hostile.jsonl", &lines)?;
    let (database, page) = (folder.path("d.simdb"), folder.path("page.html"));
    done!("ingest", &database, &input);
    done!("report", &database, "--texts", &input, "--html", &page);
    let html = fs::read_to_string(&page)?;
    ensure_harmless(&html);
    assert!(html.contains("&lt;b onmouseover"));
    let text = done!("report", &database, "--texts", &input).out;
    assert!(!text.contains(['\u{1b}', '\u{202e}']));
    assert!(text.contains("[-odd <b>-] {+even &amp;+}"), "{text}");

    let page = folder.path("removed.html");
    let output = folder.path("clean.jsonl");
    done!("dedup", &input, "--output", output, "--report", &page);
    ensure_harmless(&fs::read_to_string(&page)?);
    Ok(())
}

#[test]
fn payloads_are_texts_too() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let near = [
        ("a", 0b1, "one two three"),
        ("b", 0b11, "one 2 three"),
        ("c", 0b11, ""),
    ];
    insert_all(
        &database,
        near.map(|(key, bits, payload)| document(key, bits).with_payload(payload)),
    )?;
    drop(database);
    let report = done!("report", folder.path("d.simdb"), "--json --samples 5").object()?;
    let samples = list(&report, "samples");
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0]["differences"], Value::Null);
    assert!(
        report["remarks"][0]
            .as_str()
            .is_some_and(|it| it.contains(" of 2 sample pairs"))
    );
    let none = folder
        .run("report d.simdb --json --samples 0 --max-distance 3")?
        .expect(0)
        .object()?;
    assert_eq!(none["samples"], Value::Array(Vec::new()));
    folder
        .run("report d.simdb --texts none.tsv")?
        .refused("none.tsv");
    // As other amounts are given.
    folder.run("report d.simdb --samples 1k")?.expect(0);
    folder
        .run("report d.simdb --samples -1")?
        .refused("must not be negative");
    Ok(())
}

#[test]
fn skewed_fingerprints_show() -> TestResult {
    // One of two has its first 32 bits in common with many.
    let skewed = |i: u64| {
        if i.is_multiple_of(2) {
            scattered(i) >> 32 | 0xdead_beef << 32
        } else {
            scattered(i)
        }
    };
    let told = |fingerprint: fn(u64) -> u64| -> TestResult<Ran> {
        let folder = Folder::new()?;
        fingerprints(&folder, fingerprint)?;
        folder
            .run("ingest d.simdb in.tsv --input-format fingerprints")?
            .expect(0);
        Ok(folder.run("report d.simdb")?.expect(0))
    };
    told(skewed)?
        .prints("Many fingerprints begin alike")
        .prints("30,000");
    told(scattered)?.prints("queries are fast");
    Ok(())
}

/// The report took an estimate for the number of fingerprints. After a deletion it was 0.
#[test]
fn fingerprints_are_counted_exactly() -> TestResult {
    let folder = Folder::new()?;
    let (database, _) = manual(&folder)?;
    for is_deleted in [false, true] {
        if is_deleted {
            done!("delete", &database, "--duplicates");
        }
        let documents = done!("dump", &database).json()?;
        let fingerprints: BTreeSet<&str> = documents
            .iter()
            .filter_map(|it| it["fingerprint"].as_str())
            .collect();
        let report = done!("report", &database, "--json").object()?;
        assert!(fingerprints.len() > 50, "{}", fingerprints.len());
        assert_eq!(
            number(&report, "fingerprints"),
            fingerprints.len() as u64,
            "deleted: {is_deleted}"
        );
    }
    Ok(())
}

/// What is near was taken off for each table, although not each table meets it. Nothing was left of what else is met.
#[test]
fn what_is_met_and_not_near_is_counted_beside_what_is_near() -> TestResult {
    // Of 60, 40 are near to each other, and 20 have the first 40 bits in common with these.
    let fingerprint = |i: u64| match (i / 60, i % 60) {
        (group, member @ 0..40) => scattered(group) ^ 1 << (member * 64 / 40),
        (group, _) => scattered(group) >> 24 << 24 | scattered(i << 20) >> 40,
    };
    let folder = Folder::new()?;
    fingerprints(&folder, fingerprint)?;
    folder
        .run("ingest d.simdb in.tsv --input-format fingerprints --max-distance 3")?
        .expect(0);
    let report = folder.run("report d.simdb --json")?.expect(0).object()?;
    let spread = &report["spread"];
    let met = spread["others_met"].as_f64().ok_or("a number")?;
    // A query of the 40 meets the 20 in two tables, and one of the 20 meets the 59 others in these.
    assert!((1.0..80.0).contains(&met), "{spread}");
    Ok(())
}

/// Of clusters with many fingerprints no diameter is computed. It was told as 0.
#[test]
fn a_diameter_that_is_not_known_is_told_as_unknown() -> TestResult {
    let folder = Folder::new()?;
    let fingerprints =
        (0..64u64).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| [a, b, c])));
    let of_bits = |bits: [u64; 3]| bits.into_iter().fold(0u64, |all, bit| all | 1 << bit);
    let database = folder.database("d.simdb")?;
    let stored = std::iter::once(0).chain(fingerprints.take(17_000).map(of_bits));
    insert_all(&database, stored.map(|it| document(format!("{it:x}"), it)))?;
    drop(database);
    let report =
        folder.run("report d.simdb --max-distance=3 --samples=0 --json --html page.html")?;
    let report = report.expect(0).object()?;
    assert!(number(&report, "largest_cluster") > 16_384, "{report}");
    assert_eq!(report["diameter"], Value::Null);
    let page = fs::read_to_string(folder.path("page.html"))?;
    assert!(page.contains("<dt>greatest distance in a cluster</dt><dd>unknown"));
    Ok(())
}

/// The name of a file was printed as it is.
#[cfg(unix)]
#[test]
fn the_name_of_a_database_does_no_harm() -> TestResult {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new()?;
    let name = OsStr::from_bytes(b"a\n\x1b[31m\xff.simdb");
    let (database, page) = (folder.path(".").join(name), folder.path("page.html"));
    done!("create", &database);
    done!("report", &database).begins("simdb report of a\\n\\u{1b}[31m\\xff.simdb\n");
    done!("report", &database, "--html", &page);
    let html = fs::read_to_string(&page)?;
    ensure_harmless(&html);
    assert!(
        html.contains("<title>simdb report of a\\n\\u{1b}[31m\\xff.simdb</title>"),
        "{html}"
    );
    Ok(())
}

/// The process that has the database open read its own standard input, so nothing.
#[cfg(unix)]
#[test]
fn standard_input_is_read_for_a_database_in_use() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let options = external().max_distance(3).serve(true);
    let database = Database::create(&path, &options)?;
    insert_all(&database, [document("a", 0b1), document("b", 0b11)])?;
    let report = |texts: &str, input: &[u8]| {
        let mut command = program!("report", &path, "--json --texts", texts);
        run_with_input(&mut command, input)
    };
    let texts = b"{\"key\":\"a\",\"text\":\"one two\"}\n{\"key\":\"b\",\"text\":\"one three\"}\n";
    let report_of_input = report("-", texts)?.expect(0).object()?;
    list(&report_of_input["samples"][0], "differences");
    for own in ["/dev/fd/0", "/dev/stdin", "/proc/self/fd/0"] {
        report(own, texts)?.refused("only this process has it");
    }
    let pairs = |with: &str| {
        let mut command = program!("pairs --with", with, "--input-format fingerprints", &path);
        run_with_input(&mut command, b"c\t0000000000000111\n")
    };
    let pairs_of_input = pairs("-")?.expect(0).out;
    assert_eq!(pairs_of_input.lines().count(), 2, "{pairs_of_input}");
    pairs("/dev/fd/0")?.refused("only this process has it");
    drop(database);
    // Nobody else reads it now.
    assert_eq!(pairs("-")?.expect(0).out, pairs_of_input);
    assert_eq!(pairs("/dev/stdin")?.expect(0).out, pairs_of_input);
    Ok(())
}

#[test]
fn an_empty_database_has_a_report() -> TestResult {
    let folder = Folder::new()?;
    done!("create", folder.path("d.simdb"));
    done!("report", folder.path("d.simdb")).prints_no("not near-duplicates");
    done!("report", folder.path("d.simdb"), "--json")
        .prints("\"others_even\":0.0")
        .prints_no("-0.0");
    let page = folder.path("empty.html");
    done!("report", folder.path("d.simdb"), "--html", &page);
    let html = fs::read_to_string(&page)?;
    ensure_harmless(&html);
    assert!(html.contains("There are no clusters."));
    assert!(html.contains("None of 0 documents repeats another one."));
    Ok(())
}

/// By hand: a and b are the same, and c differs from them in 1 bit and in 16 of the 128 samples of the sketch. So its
/// similarity is 0.75. The others have no sketch: x and y have the fingerprint of a, and z differs in 2 bits from it.
#[test]
fn documents_without_sketches_are_near_by_their_distance_alone() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let options = external()
        .sketch_size(SketchSize::Bytes16)
        .max_distance(3)
        .min_similarity(0.7);
    let database = Database::create(&path, &options)?;
    let sketch = [7; 16];
    let mut other = sketch;
    other[3] = !other[3];
    other[9] = !other[9];
    let documents = [
        document("a", 0b00).with_sketch(Sketch::new(&sketch, 50)?),
        document("b", 0b00).with_sketch(Sketch::new(&sketch, 50)?),
        document("c", 0b01).with_sketch(Sketch::new(&other, 50)?),
        document("x", 0b00),
        document("y", 0b00),
        document("z", 0b11),
    ];
    insert_all(&database, documents)?;
    drop(database);
    let report = done!("report", &path, "--json").object()?;
    for (max_distance, min_similarity, documents, pairs) in [
        (0, 0.0, 4, 6),
        (0, 0.7, 2, 1),
        (1, 0.0, 6, 11),
        (1, 0.7, 3, 3),
        (1, 0.8, 2, 1),
        (3, 0.0, 6, 15),
        (3, 0.7, 3, 3),
        (3, 0.9, 2, 1),
    ] {
        let choice = choice_of(&report, max_distance, min_similarity);
        let counted = (number(choice, "documents"), number(choice, "pairs"));
        assert_eq!(counted, (documents, pairs), "{choice}");
    }
    assert_eq!(number(&report, "near_documents"), 3);
    done!("report", &path)
        .prints("For 12 of 15 pairs within 3 bits, the sketches estimate no similarity of 0.7");
    Ok(())
}

/// The middle of a long key is left out, and JSON has all of it.
#[test]
fn long_keys_are_shortened_in_the_middle() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let key = |end: &str| format!("https://www.example.org/{}/{end}", "folder/".repeat(60));
    insert_all(
        &database,
        [
            document(key("one.html"), 0b1),
            document(key("two.html"), 0b11),
        ],
    )?;
    drop(database);
    let text = done!("report", folder.path("d.simdb")).out;
    assert!(
        text.contains("  survives  https://www.example.org/"),
        "{text}"
    );
    for end in ["one.html", "two.html"] {
        let shown = text.matches(&format!("/folder//{end}\n")).count();
        assert_eq!(shown, 2, "{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() < 240),
        "{text}"
    );
    let json = done!("report", folder.path("d.simdb"), "--json").out;
    assert_eq!(json.matches(&key("one.html")).count(), 2);
    Ok(())
}

#[test]
fn a_cleaning_is_reported_as_its_list_tells() -> TestResult {
    let folder = Folder::new()?;
    let texts = bundled("pg-docs-html/docs.jsonl.gz");
    let [output, page, removed] =
        ["clean.jsonl.gz", "clean.html", "removed.jsonl"].map(|it| folder.path(it));
    let clean = |page: &Path| -> std::io::Result<Ran> {
        Ok(run!(
            "dedup",
            &texts,
            "--output",
            &output,
            "--removed",
            &removed,
            "--report",
            page
        ))
    };
    fs::write(&page, "mine")?;
    clean(&page)?.refused("already exists, and nothing is overwritten");
    assert!(!output.exists() && fs::read(&page)? == b"mine");
    fs::remove_file(&page)?;
    clean(&page)?.expect(0);
    let html = fs::read_to_string(&page)?;
    ensure_harmless(&html);
    let list = fs::read_to_string(&removed)?;
    let list = list.lines().map(serde_json::from_str);
    let list: Vec<Value> = list.collect::<Result<_, _>>()?;
    assert!(html.contains(&format!("<dt>removed</dt><dd>{}</dd>", list.len())));
    let distances: Vec<u64> = list.iter().map(|it| number(it, "distance")).collect();
    for distance in 0..=*distances.iter().max().unwrap_or(&0) {
        let count = distances.iter().filter(|it| **it == distance).count();
        let row = format!("<td class=\"number\">{distance}</td><td class=\"number\">{count}</td>");
        assert!(html.contains(&row), "{row}");
    }
    assert!(html.contains("<del>[-") && html.contains("docs.jsonl.gz:1 pg13-ddl-alter"));
    let lead = format!("<p class=\"lead\">{} of 368 records, ", list.len());
    assert!(html.contains(&lead), "{lead}");

    // Without a list of its own it is the same, but for nothing.
    let (second, other) = (folder.path("second.html"), folder.path("other.jsonl.gz"));
    done!("dedup", &texts, "--output", &other, "--report", &second);
    assert_eq!(fs::read_to_string(&second)?, html);
    assert!(!folder.path("other.jsonl.gz.dedup").exists());
    run!("dedup", &texts, "--list --report", folder.path("x.html")).expect(2);
    Ok(())
}

#[test]
fn a_sample_is_spread_over_all_documents() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    assert!(database.snapshot()?.sample(10)?.is_empty());
    insert_all(&database, (0..1000).map(|i| document(format!("{i:04}"), i)))?;
    let snapshot = database.snapshot()?;
    assert!(snapshot.sample(0)?.is_empty());
    let sample = snapshot.sample(100)?;
    assert_eq!(sample.len(), 100);
    for (index, it) in sample.iter().enumerate() {
        let number: usize = String::from_utf8_lossy(it.key()).parse()?;
        assert!(
            (index * 10..=index * 10 + 10).contains(&(number + 1)),
            "{index}: {number}"
        );
    }
    assert_eq!(snapshot.sample(5000)?.len(), 1000);
    // Of what was deleted nothing is drawn, and nothing comes twice.
    let mut txn = database.begin_write()?;
    for i in (0..1000).filter(|i| i % 50 != 0) {
        txn.delete(format!("{i:04}"))?;
    }
    txn.commit()?;
    let sample = database.snapshot()?.sample(100)?;
    assert!(sample.len() <= 20 && sample.len() > 10, "{}", sample.len());
    Ok(())
}
