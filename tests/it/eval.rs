//! `simdb eval`: measures methods on labelled documents.

use std::io::Write as _;

use crate::support::{Folder, TestResult, bundled, run};

/// Five documents in three groups. `a` and `b` have the same text, `c` is the same without the last of its 25
/// words: 21 of 22 shingles. `d` and `e` have nothing in common with these or with each other.
fn documents(folder: &Folder) -> std::io::Result<std::path::PathBuf> {
    let words =
        |begin: usize, end: usize| (begin..end).map(|it| format!("w{it}")).collect::<Vec<_>>().join(" ");
    let line = |id: &str, group: &str, text: String| {
        format!("{{\"id\":\"{id}\",\"group\":\"{group}\",\"text\":\"{text}\"}}\n")
    };
    let lines = [
        line("a", "one", words(0, 25)),
        line("b", "one", words(0, 25)),
        line("c", "two", words(0, 24)),
        line("d", "two", words(100, 130)),
        line("e", "three", words(200, 230)),
    ];
    folder.file("documents.jsonl", lines.concat())
}

/// By hand: of 10 pairs, a-b and c-d are in one group. Of the 8 others, a-c and b-c have a similarity of 21/22,
/// so 6 are unrelated. Three pairs are in the first band, of which a-b alone is 1.
#[test]
fn bands_and_unrelated_pairs_are_those_worked_out_by_hand() -> TestResult {
    let folder = Folder::new()?;
    let ran = run!("eval", documents(&folder)?, "--method", "exact", "--json").expect(0);
    let lines = ran.json()?;
    assert_eq!(lines[0]["documents"], 5);
    assert_eq!(lines[0]["unrelated_pairs"], 6);
    assert_eq!(lines[0]["band_pairs"], serde_json::json!([3, 0, 0, 0]));
    let recall = |threshold: f64| {
        let point = lines[1..].iter().find(|it| it["threshold"] == threshold);
        point.and_then(|it| it["band_recall"][0].as_f64())
    };
    assert_eq!((recall(1.0), recall(0.95)), (Some(1.0 / 3.0), Some(1.0)));
    assert!(lines[1..].iter().all(|it| it["false_matches"] == 0 && it["method"] == "exact"));
    Ok(())
}

/// By hand, at 0.95: a-b and a-c match, and people call a-b and d-e the same: precision 1/2, recall 1/2.
#[test]
fn verdicts_of_people_give_precision_and_recall() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let labels = folder.file("labels.tsv", "a\tb\tsame\na\tc\tdifferent\nd\te\t1\nc\td\t0\nx\ta\tsame\n")?;
    let ran = run!("eval", &documents, "--pairs", &labels, "--method", "exact", "--json").expect(0);
    assert!(ran.err.contains("1 pairs name a document that is not there"), "{}", ran.err);
    let lines = ran.json()?;
    let point = lines.iter().find(|it| it["threshold"] == 0.95).ok_or("no such threshold")?;
    assert_eq!([&point["precision"], &point["recall"], &point["f1"]], [0.5, 0.5, 0.5]);
    // Without a header, a label that judges nothing is an error.
    let ran = run!(
        "eval",
        &documents,
        "--pairs",
        &labels,
        "--method",
        "exact",
        "--same",
        "same",
        "--different",
        "x"
    );
    assert!(ran.err.contains("line 2: the label \"different\""), "{}", ran.err);
    Ok(())
}

#[test]
fn all_methods_run_and_are_drawn() -> TestResult {
    let folder = Folder::new()?;
    let plot = folder.path("plot.svg");
    let pages = bundled("pg-docs-html/docs.jsonl.gz");
    let ran = run!("eval", pages, "--method", "all", "--plot", &plot).expect(0);
    let picture = std::fs::read_to_string(plot)?;
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for name in [
        "exact",
        "simhash-1",
        "simhash-2",
        "minwise-1",
        "simhash-1+sketch",
        "simhash-2+sketch",
        "minwise-1+sketch",
        "minwise-hash",
        "bottom-k",
        "supershingles",
        "i-match",
        "i-match-k",
        "random-projection",
        "spotsigs",
        "henzinger",
    ] {
        assert!(ran.out.contains(&format!("\n{name}: ")), "{name} is not in the text");
        assert!(picture.contains(name), "{name} is not in the legend");
    }
    assert!(picture.contains("false matches in a million"));
    Ok(())
}

#[test]
fn what_cannot_be_measured_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let refused = |labels: &str, message: &str| -> TestResult {
        let labels = folder.file("labels.tsv", labels)?;
        let ran = run!("eval", &documents, "--pairs", &labels).expect(2);
        assert!(ran.err.contains(message), "{}", ran.err);
        Ok(())
    };
    refused("", "it has no pairs")?;
    refused("a\tb\tperhaps\n", "line 1: the label \"perhaps\"")?;
    refused("id_a\tid_b\tj4\na\tb\t7\n", "line 2: \"7\" is not a similarity")?;
    refused("x\ty\n", "the first unknown key is \"x\"")?;
    let ran = run!("eval", &documents, "--method", "guess").expect(2);
    assert!(ran.err.contains("there is no method"), "{}", ran.err);
    let one = folder.file("one.tsv", "a\tone document alone\n")?;
    assert!(run!("eval", &one).expect(2).err.contains("two documents or more"));
    Ok(())
}

/// The row of the manual pages in docs/benchmarks.md, `minwise-1`: 84/44 at distance 3, none false at distance 5.
#[test]
fn minwise_finds_what_the_benchmarks_say() -> TestResult {
    let Some(data) = std::env::var_os("SIMDB_DATA") else {
        writeln!(std::io::stderr(), "skipped without SIMDB_DATA: the recall of minwise-1")?;
        return Ok(());
    };
    let folder = std::path::Path::new(&data).join("manpages");
    let (documents, pairs) = (folder.join("docs.jsonl.gz"), folder.join("pairs.tsv"));
    let ran = run!("eval", documents, "--pairs", pairs, "--method", "minwise-1", "--json").expect(0);
    let lines = ran.json()?;
    let point = |distance: f64| lines.iter().find(|it| it["threshold"] == distance).ok_or("no such distance");
    let recall = |band: usize| Ok::<_, &str>(point(3.0)?["band_recall"][band].as_f64().unwrap_or_default());
    let (first, second) = (recall(0)?, recall(1)?);
    assert!((first - 0.84).abs() < 0.01 && (second - 0.44).abs() < 0.015, "{first}, {second}");
    assert_eq!(point(5.0)?["false_matches"], 0);
    Ok(())
}
