//! `simdb eval`: measures methods on labelled documents.

use simdb::Scheme;

use crate::support::{Folder, Ran, TestResult, assert_has, bundled, done, real_data, run};
#[cfg(unix)]
use crate::support::{LIMIT, within};

/// Five documents in three groups. `a` and `b` have the same text, `c` is the same without the last of its 25
/// words: 21 of 22 shingles. `d` and `e` have nothing in common with these or with each other.
fn documents(folder: &Folder) -> std::io::Result<std::path::PathBuf> {
    let words = |begin: usize, end: usize| {
        (begin..end)
            .map(|it| format!("w{it}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
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
    let ran = done!("eval", documents(&folder)?, "--method exact --json");
    let lines = ran.json()?;
    assert_has!(lines[0], {"documents": 5, "unrelated_pairs": 6, "band_pairs": [3, 0, 0, 0]});
    let recall = |threshold: f64| {
        let point = lines[1..].iter().find(|it| it["threshold"] == threshold);
        point.and_then(|it| it["band_recall"][0].as_f64())
    };
    assert_eq!((recall(1.0), recall(0.95)), (Some(1.0 / 3.0), Some(1.0)));
    assert!(
        lines[1..]
            .iter()
            .all(|it| it["false_matches"] == 0 && it["method"] == "exact")
    );
    Ok(())
}

/// By hand: of the pairs of the bands, a-b has the same text, so its estimate is exact. The two others have the same
/// estimate, whose error e gives the root of 2 e^2 / 3.
#[test]
fn methods_with_sketches_tell_the_error_of_their_estimates() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let lines = done!(
        "eval",
        &documents,
        "--method minwise-1+sketch32,minwise-1 --json"
    )
    .json()?;
    let (with, without): (Vec<_>, Vec<_>) = lines[1..]
        .iter()
        .partition(|it| it["method"] == "minwise-1+sketch32");
    assert!(with.iter().all(|it| it["rmse_pairs"] == 3));
    assert!(without.iter().all(|it| it.get("rmse").is_none()));
    // The estimate is the least threshold at which the pairs match, to the next one.
    let least = with
        .iter()
        .rev()
        .find(|it| it["band_recall"][0] == 1.0)
        .and_then(|it| it["threshold"].as_f64());
    let most = least.map(|it| it + 0.025);
    let error =
        |estimate: Option<f64>| estimate.map(|it| (2.0 / 3.0f64).sqrt() * (it - 21.0 / 22.0).abs());
    let rmse = with[0]["rmse"].as_f64();
    assert!(
        rmse.zip(error(least))
            .zip(error(most))
            .is_some_and(|((it, x), y)| it <= x.max(y) + 1e-9),
        "{rmse:?}"
    );
    done!("eval", &documents, "--method minwise-1+sketch32")
        .prints("is the RMSE of the estimated similarity over 3 pairs");
    Ok(())
}

/// By hand, at 0.95: a-b and a-c match, and people call a-b and d-e the same: precision 1/2, recall 1/2.
#[test]
fn verdicts_of_people_give_precision_and_recall() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let labels = folder.file(
        "labels.tsv",
        "a\tb\tsame\na\tc\tdifferent\nd\te\t1\nc\td\t0\nx\ta\tsame\n",
    )?;
    let ran = done!(
        "eval",
        &documents,
        "--pairs",
        &labels,
        "--method exact --json"
    )
    .says("left out: 1 pair with a document that is not there");
    let lines = ran.json()?;
    let point = lines
        .iter()
        .find(|it| it["threshold"] == 0.95)
        .ok_or("no such threshold")?;
    assert_eq!(
        [&point["precision"], &point["recall"], &point["f1"]],
        [0.5, 0.5, 0.5]
    );
    // Without a header, a label that judges nothing is an error.
    run!(
        "eval",
        &documents,
        "--pairs",
        &labels,
        "--method exact --same same --different x"
    )
    .says("line 2: the label \"different\"");
    Ok(())
}

#[test]
fn all_methods_run_and_are_drawn() -> TestResult {
    let folder = Folder::new()?;
    let plot = folder.path("plot.svg");
    let pages = bundled("pg-docs-html/docs.jsonl.gz");
    let ran = done!("eval", pages, "--method all --plot", &plot);
    let picture = std::fs::read_to_string(plot)?;
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    let schemes = Scheme::ALL
        .iter()
        .filter(|scheme| **scheme != Scheme::External);
    let of_schemes =
        schemes.flat_map(|it| ["", "+sketch", "+sketch32"].map(|sketch| format!("{it}{sketch}")));
    let others = "exact minwise-hash bottom-k supershingles i-match i-match-k random-projection spotsigs henzinger \
                  words cosine";
    for name in of_schemes.chain(others.split(' ').map(str::to_owned)) {
        assert!(
            ran.out.contains(&format!("\n{name}: ")),
            "{name} is not in the text"
        );
        assert!(
            picture.contains(&format!("\n{name}\n")),
            "{name} is not in the legend"
        );
    }
    assert!(picture.contains("false matches in a million"));
    Ok(())
}

/// By hand: a and b have the same text, and c shares 21 of 22 shingles with them. So with a similarity of 1, c matches
/// at no distance.
#[test]
fn recall_and_false_matches_are_drawn_over_the_distance() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let labels = folder.file("labels.tsv", "a\tb\tsame\na\tc\tsame\nd\te\tdifferent\n")?;
    let picture = folder.path("choice.svg");
    let ran = done!(
        "eval",
        &documents,
        "--pairs",
        &labels,
        "--plot-distance",
        &picture
    );
    let drawn = std::fs::read_to_string(&picture)?;
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
    for told in [
        "max distance (bits)",
        "labelled the same",
        "labelled different",
    ] {
        assert!(drawn.contains(told), "{told}");
    }
    for name in ["minwise-1", "minwise-1+sketch@0.5", "minwise-1+sketch@0.9"] {
        assert!(ran.out.contains(&format!("\n{name}: ")), "{}", ran.out);
        assert!(
            drawn.contains(&format!("\n{name}\n")),
            "{name} is not in the legend"
        );
    }
    // Without labels, bands take the place of the verdicts.
    done!("eval", &documents, "--plot-distance", &picture, "--replace");
    let drawn = std::fs::read_to_string(&picture)?;
    assert!(drawn.contains("Jaccard") && drawn.contains("in a million unrelated pairs"));

    let ran = run!(
        "eval",
        &documents,
        "--pairs",
        &labels,
        "--method minwise-1,minwise-1+sketch@0.9,minwise-1+sketch@1",
        "--max-distance 64 --json"
    );
    let lines = ran.expect(0).json()?;
    let recall = |method: &str, distance: u32| {
        let mut points = lines.iter();
        let point =
            points.find(|it| it["method"] == method && it["threshold"] == f64::from(distance));
        point.map(|it| (it["recall"].clone(), it["threshold_name"].clone()))
    };
    for (method, distance, expected) in [
        ("minwise-1+sketch@1", 0, 0.5),
        ("minwise-1+sketch@1", 64, 0.5),
        ("minwise-1+sketch@0.9", 64, 1.0),
        ("minwise-1", 64, 1.0),
    ] {
        let expected = Some((expected.into(), "k".into()));
        assert_eq!(recall(method, distance), expected, "{method} at {distance}");
    }

    // Before the work: the documents are not looked for.
    run!(
        "eval there-is-none.jsonl --method exact --plot-distance",
        folder.path("none.svg")
    )
    .refused("no method has distances");
    run!("eval", &documents, "--method exact@0.5").refused("only a method with sketches");
    Ok(())
}

/// A picture took the place of the documents or the labels, or of anything else that had its name.
#[test]
fn a_picture_takes_the_place_of_nothing_that_was_not_said() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let labels = folder.file("labels.tsv", "a\tb\tsame\nd\te\tdifferent\n")?;
    let other = folder.file("other.svg", "mine")?;
    let before = [&documents, &labels, &other].map(std::fs::read);
    let eval = |pictures: &str| {
        let documents = documents.display();
        let labelled = format!("eval {documents} --pairs labels.tsv --method minwise-1");
        folder.run(&format!("{labelled} {pictures}"))
    };
    for option in ["--plot", "--plot-distance"] {
        for input in ["documents.jsonl", "./labels.tsv"] {
            for replace in ["", " --replace"] {
                let ran = eval(&format!("{option} {input}{replace}"))?;
                let ran = ran.refused("is one of the inputs");
                assert!(ran.out.is_empty(), "told before measuring");
            }
        }
        let ran = eval(&format!("{option} other.svg"))?.refused("exists");
        assert!(ran.out.is_empty(), "told before measuring");
    }
    for same in ["new.svg", "./new.svg"] {
        eval(&format!("--plot new.svg --plot-distance {same}"))?
            .refused("two pictures cannot have the same name");
    }
    eval("--replace")?.expect(2);
    for (path, before) in [&documents, &labels, &other].into_iter().zip(before) {
        assert!(std::fs::read(path)? == before?, "{path:?} was changed");
    }
    assert_eq!(folder.count()?, 3);

    let both = "--plot other.svg --plot-distance new.svg --replace";
    let documents = documents.display();
    folder.run(&format!("eval {documents} {both}"))?.expect(0);
    for name in ["other.svg", "new.svg"] {
        assert!(std::fs::read_to_string(folder.path(name))?.starts_with("<svg"));
    }
    Ok(())
}

/// Spreadsheets write a byte order mark. It made a pair of the header, whose label nobody knew.
/// The first picture stayed when the second could not be written, so the same command then failed by the first.
#[cfg(unix)]
#[test]
fn two_pictures_are_written_or_none() -> TestResult {
    let folder = Folder::new()?;
    documents(&folder)?;
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path("labels"))
        .status()?;
    assert!(made.success());
    let mut command = folder.command(
        "eval documents.jsonl --pairs labels --method minwise-1 --plot first.svg \
         --plot-distance second.svg",
    );
    let running = std::thread::spawn(move || command.output());
    let labels = folder.path("labels");
    // It is opened when the program has found that both can be written, and asks for labels.
    within(LIMIT, move || {
        let mut pipe = std::fs::File::options().write(true).open(&labels)?;
        std::fs::write(labels.with_file_name("second.svg"), "mine")?;
        std::io::Write::write_all(&mut pipe, b"a\tb\tsame\nd\te\tdifferent\n")
    })?;
    let ran = Ran::from(running.join().expect("no panic")?);
    ran.refused("second.svg: already exists");
    assert!(!folder.path("first.svg").exists());
    assert_eq!(std::fs::read(folder.path("second.svg"))?, b"mine");
    Ok(())
}

#[test]
fn labels_that_judge_nothing_are_counted() -> TestResult {
    let folder = Folder::new()?;
    documents(&folder)?;
    let head = "id_a\tid_b\tlabel\n";
    let run = |labels: &str| -> std::io::Result<Ran> {
        folder.file("labels.tsv", format!("{head}{labels}"))?;
        folder.run("eval documents.jsonl --pairs labels.tsv --method minwise-1")
    };
    run("a\tb\tsame\na\tc\tunsure\nd\te\tno\n")?
        .expect(0)
        .says("not judged: 1 pair with a label that is neither one of same nor one of different");
    run("a\tb\tsame\nd\te\tno\n")?
        .expect(0)
        .says_no("not judged");
    run("a\tb\tsame\nb\ta\tdifferent\n")?
        .refused("labels.tsv, line 3: \"b\" and \"a\" are different here, and the same in line 2");
    Ok(())
}

#[test]
fn labels_may_begin_with_a_byte_order_mark() -> TestResult {
    let folder = Folder::new()?;
    let labels = folder.file(
        "labels.tsv",
        "\u{feff}id_a\tid_b\tlabel\na\tb\tsame\nd\te\tdifferent\n",
    )?;
    let ran = done!(
        "eval",
        documents(&folder)?,
        "--pairs",
        labels,
        "--method exact,exact --json"
    );
    let lines = ran.json()?;
    assert_eq!(lines[1]["precision"], 1.0);
    assert_eq!(
        lines.iter().filter(|it| it["threshold"] == 1.0).count(),
        1,
        "a method named twice counts once"
    );
    Ok(())
}

#[test]
fn what_cannot_be_measured_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let documents = documents(&folder)?;
    let refused = |labels: &str, message: &str| -> TestResult {
        let labels = folder.file("labels.tsv", labels)?;
        run!("eval", &documents, "--pairs", &labels).refused(message);
        Ok(())
    };
    refused("", "it has no pairs")?;
    refused("a\tb\tperhaps\n", "line 1: the label \"perhaps\"")?;
    refused(
        "id_a\tid_b\tj4\na\tb\t7\n",
        "line 2: \"7\" is not a similarity",
    )?;
    refused("x\ty\n", "the first unknown key is \"x\"")?;
    run!("eval", &documents, "--method guess").refused("there is no method");
    run!("eval", &documents, "--pairs", folder.path("missing.tsv"))
        .refused("missing.tsv: no such file");
    let ran = run!(
        "eval",
        &documents,
        "--plot",
        folder.path("missing/plot.svg")
    )
    .expect(2);
    assert!(
        ran.err.contains("plot.svg") && ran.out.is_empty(),
        "told before measuring: {}",
        ran.err
    );
    let one = folder.file("one.tsv", "a\tone document alone\n")?;
    run!("eval", &one).refused("two documents or more");
    Ok(())
}

/// The row of the manual pages in docs/benchmarks.md, `minwise-1`: 84/44 at distance 3, none false at distance 5.
#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn minwise_finds_what_the_benchmarks_say() -> TestResult {
    let folder = real_data()?.join("manpages");
    let (documents, pairs) = (folder.join("docs.jsonl.gz"), folder.join("pairs.tsv"));
    let ran = done!(
        "eval",
        documents,
        "--pairs",
        pairs,
        "--method minwise-1 --json"
    );
    let lines = ran.json()?;
    let point = |distance: f64| {
        lines
            .iter()
            .find(|it| it["threshold"] == distance)
            .ok_or("no such distance")
    };
    let recall = |band: usize| {
        Ok::<_, &str>(
            point(3.0)?["band_recall"][band]
                .as_f64()
                .unwrap_or_default(),
        )
    };
    let (first, second) = (recall(0)?, recall(1)?);
    assert!(
        (first - 0.91).abs() < 0.01 && (second - 0.53).abs() < 0.015,
        "{first}, {second}"
    );
    // Of two million pairs.
    let falsely = point(5.0)?["false_matches"].as_u64();
    assert!(falsely.is_some_and(|count| count <= 1), "{falsely:?}");
    Ok(())
}
