//! `simdb audit`: what a cleaning has made is proven, and whatever is changed of it afterwards is found.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use simdb::dedup::{Audit, AuditReport, AuditVerdict, Dedup, FaultKind};
use simdb::{Clustering, Error, Fingerprinter, Near, Scheme};

use crate::dedup::{archive, odd_lines};
use crate::support::random::{Random, amount, seed_or};
use crate::support::{
    Folder, Ran, TestResult, assert_error, assert_has, bundled, done, figures, gzip, run,
};

const NONE: &[PathBuf] = &[];

/// A copy of inputs, the list of what is not in it, and what the run that made it or looked at it has printed.
type Made = (PathBuf, PathBuf, Ran);

/// Cleans inputs with these options.
fn made(
    folder: &Folder,
    name: &str,
    inputs: &[impl AsRef<OsStr>],
    options: &str,
) -> TestResult<Made> {
    let output = folder.path(&format!("clean-{name}"));
    let list = folder.path(&format!("removed-{}.jsonl", name.trim_end_matches('/')));
    let options = options.split_whitespace();
    let ran = done!(
        "dedup --json",
        ..inputs,
        "-o",
        &output,
        "--removed",
        &list,
        ..options
    );
    Ok((output, list, ran))
}

/// Cleans inputs, and audits what was made with these options.
fn cleaned(
    folder: &Folder,
    name: &str,
    inputs: &[impl AsRef<OsStr>],
    options: &str,
) -> TestResult<Made> {
    let (output, list, _) = made(folder, name, inputs, options)?;
    let ran = audited(&output, &list, inputs, options)?;
    Ok((output, list, ran))
}

fn audited(
    output: &Path,
    list: &Path,
    inputs: &[impl AsRef<OsStr>],
    options: &str,
) -> TestResult<Ran> {
    let inputs = inputs
        .iter()
        .flat_map(|it| ["--input".as_ref(), it.as_ref()]);
    let options = options.split_whitespace();
    Ok(run!(
        "audit",
        output,
        "--removed",
        list,
        ..options,
        "--json",
        ..inputs
    ))
}

/// A text of which some words are others.
fn text(base: u64, changes: u64) -> String {
    let words: Vec<String> = (0..80)
        .map(|place| match place < changes {
            true => format!("other{base}x{place}"),
            false => format!("word{}", base * 80 + place),
        })
        .collect();
    words.join(" ")
}

fn line(key: &str, text: &str) -> String {
    format!("{{\"id\":\"{key}\",\"text\":\"{text}\"}}\n")
}

#[test]
fn what_a_cleaning_has_made_is_proven_in_every_format() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(31);
    let (lines, removed) = odd_lines(800, &mut random)?;
    let odd = lines.concat();
    let texts: Vec<String> = (0..300).map(|_| random.text(60)).collect();
    let tabs: String = (1..)
        .zip(&texts)
        .map(|(number, text)| format!("{number}\t{text}\n"))
        .collect();
    let tree = folder.path("tree");
    for (number, text) in texts.iter().enumerate() {
        let below = tree.join(format!("{}", number % 3));
        fs::create_dir_all(&below)?;
        fs::write(below.join(format!("{number}.txt")), text)?;
    }
    let pages: Vec<u8> = archive(400, &mut random)
        .into_iter()
        .flat_map(|record| record.0)
        .collect();
    let (packed, zstd) = (gzip(odd.as_bytes())?, zstd::encode_all(odd.as_bytes(), 1)?);
    let (lines, manual) = (texts.join("\n"), bundled("pg-docs-html/docs.jsonl.gz"));
    let inputs = [
        (
            "plain.jsonl",
            folder.file("a.jsonl", &odd)?,
            "--max-record 20k",
        ),
        ("packed.jsonl.gz", folder.file("a.jsonl.gz", packed)?, ""),
        (
            "packed.jsonl.zst",
            folder.file("a.jsonl.zst", zstd)?,
            "--drop-unjudged",
        ),
        (
            "tabs.tsv",
            folder.file("a.tsv", &tabs)?,
            "--max-distance 5 --min-similarity 0.8",
        ),
        (
            "lines.txt",
            folder.file("a.txt", lines)?,
            "--input-format lines",
        ),
        ("tree/", tree, "--survivor longest"),
        (
            "pages.warc",
            folder.file("a.warc", &pages)?,
            "--scheme simhash",
        ),
        ("manual.jsonl.gz", manual, "--sketch 32"),
    ];
    for (name, input, options) in inputs {
        // This is none of an audit.
        let of_both = options.replace("--drop-unjudged", "");
        let inputs = std::slice::from_ref(&input);
        let (output, list, ran) = made(&folder, name, inputs, options)?;
        let totals = ran.last()?;
        let packed_list = folder.file(&format!("{name}.gz"), gzip(&fs::read(&list)?)?)?;
        for (inputs, list) in [(&[][..], &packed_list), (inputs, &list)] {
            let report = audited(&output, list, inputs, &of_both)?
                .expect(0)
                .object()?;
            assert_eq!(report["proven"], true, "{name}");
            for fact in ["kept", "removed", "kept_unjudged"] {
                assert_eq!(report[fact], totals[fact], "{name}: {fact}");
            }
            assert!(report["removed"].as_u64() > Some(20), "{name}: {report}");
            if !inputs.is_empty() {
                assert_eq!(report["inputs"]["records"], totals["records"], "{name}");
            }
        }
    }
    assert!(removed.len() > 100);
    Ok(())
}

/// A copy was read in the format that its own name and content tell, and refuted.
#[test]
fn a_copy_is_read_as_its_inputs_whatever_its_name_is() -> TestResult {
    let folder = Folder::new()?;
    let mut random = Random::new(7);
    let texts: Vec<String> = (0..60).map(|_| random.text(20)).collect();
    let tabs: Vec<String> = (1..)
        .zip(&texts)
        .map(|(i, text)| format!("{i}\t{text}\n"))
        .collect();
    let lines: Vec<String> = (1..)
        .zip(&texts)
        .map(|(i, text)| line(&i.to_string(), text))
        .collect();
    for (input, content) in [("in.tsv", tabs.concat()), ("in.jsonl", lines.concat())] {
        let input = folder.file(input, content)?;
        for name in [
            "clean",
            "clean.txt",
            "clean.part",
            "clean.tsv",
            "clean.jsonl",
        ] {
            let output = folder.path(name);
            let list = folder.path("removed");
            done!("dedup", &input, "-o", &output, "--removed", &list);
            done!("audit", &output, "--removed", &list, "--input", &input);
            fs::remove_file(&output)?;
            fs::remove_file(&list)?;
        }
    }
    Ok(())
}

/// Texts have no keys but their paths. A record that names itself was taken for the kept one that equals it.
#[test]
fn no_record_is_its_own_survivor() -> TestResult {
    let folder = Folder::new()?;
    let tree = folder.path("tree");
    fs::create_dir(&tree)?;
    for name in ["a.txt", "b.txt"] {
        fs::write(tree.join(name), text(1, 0))?;
    }
    let (output, list, ran) = cleaned(&folder, "tree/", &[&tree], "")?;
    ran.expect(0);
    let told = fs::read_to_string(&list)?;
    fs::write(&list, told.replace("a.txt", "b.txt"))?;
    run!("audit", &output, "--removed", &list).expect(1);
    Ok(())
}

#[test]
fn a_planted_near_duplicate_is_found_with_both_places() -> TestResult {
    let folder = Folder::new()?;
    let texts = line("a", &text(1, 0))
        + &line("b", &text(1, 2))
        + &line("c", &text(2, 0))
        + &line("s", "short");
    let input = folder.file("in.jsonl", texts)?;
    let (output, list, ran) = cleaned(&folder, "a.jsonl", &[&input], "")?;
    ran.expect(0);
    let mut planted = fs::read_to_string(&output)?;
    planted += &(line("planted", &text(2, 1)) + &line("t", "short"));
    fs::write(&output, planted)?;
    let ran = run!("audit", &output, "--removed", &list).expect(1);
    let path = output.display();
    assert!(
        ran.out.contains(&format!("{path}:2 (c)"))
            && ran.out.contains(&format!("{path}:4 (planted)")),
        "{}",
        ran.out
    );
    let ran = ran.prints(&format!("{path}:3 is near to {path}:5"));
    let ran = ran.prints("near to each other: 2 pairs");
    ran.ends("NOT proven: there are counter-examples.\n");
    // With the inputs, it is also seen that they are in none.
    let report = audited(&output, &list, &[input], "")?.expect(1).object()?;
    assert_has!(report["inputs"], {"foreign": 2, "lost": 0});
    // A page of half a million pairs counts them all, and shows ten.
    let copies: String = (0..1_000)
        .map(|number| line(&number.to_string(), &text(9, 0)))
        .collect();
    fs::write(&output, copies)?;
    let report = audited(&output, &list, NONE, "")?.expect(1).object()?;
    assert_eq!(report["near_pairs"], 499_500);
    assert_eq!(report["near"].as_array().map(Vec::len), Some(10));
    Ok(())
}

#[test]
fn what_the_list_says_wrongly_is_found() -> TestResult {
    let folder = Folder::new()?;
    let texts = line("a", &text(1, 0))
        + &line("b", &text(1, 2))
        + &line("c", &text(2, 0))
        + &line("d", &text(2, 1))
        + &line("s", "short")
        + &line("t", "short")
        + &line("u", "other");
    let input = folder.file("in.jsonl", texts)?;
    let (output, list, ran) = cleaned(&folder, "a.jsonl", &[&input], "")?;
    ran.expect(0);
    let told = fs::read_to_string(&list)?;
    let clean = fs::read_to_string(&output)?;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3);
    let first: Value = serde_json::from_str(lines[0])?;
    let distance = first["distance"].as_u64().ok_or("no distance")?;
    let survivor = |line: u64, key: &str| format!("\"line\":{line},\"key\":\"{key}\"}}");
    let cases = [
        // A survivor that is not near, also among the short.
        (
            told.replacen(&survivor(1, "a"), &survivor(3, "c"), 1),
            "not_near",
        ),
        (
            told.replacen(&survivor(5, "s"), &survivor(7, "u"), 1),
            "not_near",
        ),
        (
            told.replacen(&survivor(5, "s"), &survivor(1, "a"), 1),
            "not_near",
        ),
        (
            told.replacen(
                &format!("\"distance\":{distance}"),
                &format!("\"distance\":{}", distance + 1),
                1,
            ),
            "not_as_told",
        ),
        (
            told.replacen("\"similarity\":0.", "\"similarity\":0.0", 1),
            "not_as_told",
        ),
        (
            told.replacen("\"key\":\"b\"", "\"key\":\"e\"", 1),
            "no_record",
        ),
        (told.replacen("\"line\":2", "\"line\":99", 1), "no_record"),
        (
            told.replacen(&survivor(1, "a"), &survivor(1, "z"), 1),
            "no_survivor",
        ),
        (
            told.replacen(&survivor(1, "a"), &survivor(98, "a"), 1),
            "no_survivor",
        ),
        (told.clone() + lines[1] + "\n", "listed_twice"),
    ];
    for (list_now, fault) in cases {
        fs::write(&list, list_now)?;
        let report = audited(&output, &list, NONE, "")?.expect(1).object()?;
        assert_eq!(
            (&report["faults"], &report["faulty"][0]["fault"]),
            (&1.into(), &fault.into()),
            "{report}"
        );
        run!("audit", &output, "--removed", &list)
            .expect(1)
            .prints("    line ");
    }
    // A survivor that is not kept, and a record that is nowhere.
    fs::write(&list, &told)?;
    fs::write(&output, clean.replacen(&line("a", &text(1, 0)), "", 1))?;
    let report = audited(&output, &list, NONE, "")?.expect(1).object()?;
    assert_eq!(report["faulty"][0]["fault"], "survivor_not_kept");
    fs::write(&output, clean.replacen(&line("u", "other"), "", 1))?;
    audited(&output, &list, NONE, "")?.expect(0);
    let report = audited(&output, &list, &[&input], "")?.expect(1).object()?;
    assert_eq!(
        (
            &report["inputs"]["lost"],
            &report["inputs"]["lost_records"][0]["record"]
        ),
        (&1.into(), &7.into())
    );
    // Other limits than those of the cleaning.
    fs::write(&output, &clean)?;
    audited(&output, &list, NONE, "--max-distance 0")?.expect(1);
    Ok(())
}

#[test]
fn what_cannot_be_looked_at_is_told() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.file("in.jsonl", line("a", &text(1, 0)) + &line("b", &text(1, 2)))?;
    let (output, list, ran) = cleaned(&folder, "a.jsonl", &[&input], "")?;
    ran.expect(0);
    let told = fs::read_to_string(&list)?;
    for broken in [
        &told[..told.len() / 2],
        "no JSON\n",
        "{}\n",
        "{\"input\":\"a\",\"line\":1,\"distance\":1}\n",
    ] {
        fs::write(&list, broken)?;
        run!("audit", &output, "--removed", &list).refused("line 1");
    }
    fs::write(&list, &told)?;
    run!("audit", &output, "--removed", folder.path("none")).refused("none");
    run!("audit", folder.path("none"), "--removed", &list).refused("none");
    run!("audit", &output, "--removed", &list, "--unit sentence").refused("units");
    let moved = folder.path("moved");
    fs::create_dir(&moved)?;
    fs::rename(&input, moved.join("in.jsonl"))?;
    run!("audit", &output, "--removed", &list).refused("in.jsonl");
    // Where the paths of the list begin can be said.
    fs::write(
        &list,
        told.replace(&input.display().to_string(), "in.jsonl"),
    )?;
    done!(
        "audit",
        &output,
        "--removed",
        &list,
        "--inputs-in",
        &moved,
        "--input in.jsonl"
    )
    .ends("\nProven.\n");
    // The inputs have to be those of the list.
    run!(
        "audit",
        &output,
        "--removed",
        &list,
        "--input",
        moved.join("in.jsonl")
    )
    .refused("names the input in.jsonl, which is not among");
    // Nobody wants it.
    assert_error!(
        Audit::new([&output], &list).inputs_in(&moved).stop_when(|| true).run(|_| {})
        => Error::Interrupted
    );
    Ok(())
}

#[test]
fn survivors_in_a_database_are_looked_at_if_it_is_given() -> TestResult {
    let folder = Folder::new()?;
    let known = folder.path("known.simdb");
    folder.file("first.jsonl", line("old", &text(1, 0)))?;
    folder
        .run("dedup first.jsonl -o first.out --database known.simdb")?
        .expect(0);
    let input = folder.file(
        "in.jsonl",
        line("b", &text(1, 2)) + &line("c", &text(2, 0)) + &line("d", &text(2, 0)),
    )?;
    let [output, list] = ["out.jsonl", "list"].map(|name| folder.path(name));
    done!(
        "dedup",
        &input,
        "-o",
        &output,
        "--removed",
        &list,
        "--database",
        &known
    );
    run!("audit", &output, "--removed", &list)
        .expect(2)
        .prints("1 removed record NOT looked at")
        .prints("NOT proven: not all");
    let ran = run!("audit", &output, "--removed", &list, "--json")
        .expect(2)
        .object()?;
    assert_has!(ran, {"proven": null, "unchecked": 1});
    done!(
        "audit",
        &output,
        "--removed",
        &list,
        "--database",
        &known,
        "--input",
        &input
    );
    fs::write(
        &list,
        fs::read_to_string(&list)?.replace("\"old\"", "\"c\""),
    )?;
    let ran = run!(
        "audit",
        &output,
        "--removed",
        &list,
        "--database",
        &known,
        "--json"
    )
    .expect(1)
    .object()?;
    assert_eq!(ran["faulty"][0]["fault"], "not_near");
    Ok(())
}

/// With `--connected`, chains bring together what is not near. An audit says so.
#[test]
fn ends_of_chains_are_not_near_to_their_survivors() -> TestResult {
    let folder = Folder::new()?;
    let texts: String = (0..12)
        .map(|number| line(&number.to_string(), &text(1, number * 3)))
        .collect();
    let input = folder.file("in.jsonl", texts)?;
    let [output, list] = ["out.jsonl", "list"].map(|name| folder.path(name));
    let clustering = Clustering::new().connected(true);
    let totals = Dedup::new([&input], &output)
        .clustering(clustering)
        .removed(&list)
        .run(|_| {})?;
    let report = Audit::new([&output], &list).run(|_| {})?;
    assert_eq!(report.near_pairs, 0);
    assert!(
        totals.removed > 5
            && report
                .faulty
                .iter()
                .all(|fault| fault.kind == FaultKind::NotNear),
        "{report:?}"
    );
    assert_eq!(report.verdict(), AuditVerdict::Refuted);
    Ok(())
}

/// A link to the directory in which it is made the audit panic, or name a wrong file.
#[cfg(unix)]
#[test]
fn a_link_in_a_circle_is_told() -> TestResult {
    let folder = Folder::new()?;
    let input = folder.path("in");
    fs::create_dir(&input)?;
    for name in ["a", "b", "z"] {
        let text = text(1, 0);
        fs::write(
            input.join(format!("{name}.tsv")),
            format!("{name}\t{text}\n"),
        )?;
    }
    std::os::unix::fs::symlink(".", input.join("loop"))?;
    let [output, list] = ["out", "list"].map(|name| folder.path(name));
    run!("dedup", &input, "-o", &output, "--removed", &list)
        .refused("that is a loop without an end");
    audited(&output, &list, &[&input], "")?.refused("in/loop: is a link to ");
    audited(&output, &list, NONE, "")?.expect(0);
    Ok(())
}

/// A cleaning reads a file once. The audit read it once for each of its names, and missed the copies.
#[test]
fn an_input_with_two_names_is_one_input() -> TestResult {
    let folder = Folder::new()?;
    fs::create_dir(folder.path("in"))?;
    let lines = [("a", 0), ("b", 1), ("c", 60)].map(|(key, changes)| line(key, &text(1, changes)));
    let input = folder.file("in/a.jsonl", lines.concat())?;
    let again = folder.path("in/../in/a.jsonl");
    let mut inputs = vec![
        vec![input.clone(), again.clone()],
        vec![again, input.clone()],
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a.jsonl", folder.path("in/b.jsonl"))?;
        inputs.push(vec![folder.path("in")]);
    }
    for (number, inputs) in inputs.into_iter().enumerate() {
        let (output, list, ran) = cleaned(&folder, &number.to_string(), &inputs, "")?;
        let report = ran.expect(0).object()?;
        assert_eq!(report["inputs"]["records"], 3);
        assert_eq!(figures(&report, ["kept", "removed"]), [2, 1]);
        // In another order, the name that the list has is not the first.
        let turned: Vec<PathBuf> = inputs.into_iter().rev().collect();
        audited(&output, &list, &turned, "")?.expect(0);
    }
    Ok(())
}

/// A rank that is none is a reason not to judge a record only if ranks are looked at.
#[test]
fn records_are_read_as_the_order_of_survivors_wants() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = [("a", "1"), ("b", "2"), ("c", "\"high\"")]
        .map(|(key, rank)| {
            let text = text(1, 0);
            format!("{{\"id\":\"{key}\",\"rank\":{rank},\"text\":\"{text}\"}}\n")
        })
        .concat();
    let inputs = [folder.file("in.jsonl", lines)?];
    let (output, list, ran) = cleaned(&folder, "out.jsonl", &inputs, "--survivor rank")?;
    let report = ran.expect(0).object()?;
    assert_eq!(figures(&report, ["kept", "kept_unjudged"]), [2, 1]);
    audited(&output, &list, &inputs, "")?.expect(1);
    Ok(())
}

/// Records that are named by their places have other names in the output.
#[test]
fn a_cleaning_by_places_is_proven() -> TestResult {
    let folder = Folder::new()?;
    let lines = line("a", &text(1, 0)) + &line("a", &text(1, 2)) + &line("b", &text(2, 0));
    let pages = archive(100, &mut Random::new(7));
    let pages = pages.into_iter().flat_map(|(record, _)| record).collect();
    for (name, output, content) in [
        ("in.jsonl", "out.jsonl", lines.into_bytes()),
        ("in.warc.gz", "out.warc.gz", pages),
    ] {
        let inputs = [folder.file(name, content)?];
        let (_, _, ran) = cleaned(&folder, output, &inputs, "--key-by-place")?;
        let report = ran.expect(0).object()?;
        assert!(report["removed"].as_u64() > Some(0), "{name}: {report}");
    }
    Ok(())
}

#[test]
fn standard_input_is_read_by_one_argument() -> TestResult {
    let folder = Folder::new()?;
    for command in ["audit - --removed -", "eval - --pairs -"] {
        folder.run(command)?.refused("standard input is read once");
    }
    Ok(())
}

/// A small corpus that was cleaned.
struct Cleaned {
    folder: Folder,
    input: PathBuf,
    output: PathBuf,
    list: PathBuf,
    near: Near,
}

impl Cleaned {
    fn new(random: &mut Random) -> TestResult<Self> {
        let folder = Folder::new()?;
        let count = 20 + random.below(60);
        let lines: String = (0..count)
            .map(|number| line(&format!("k{number}"), &random.text(count / 3)))
            .collect();
        let input = folder.file("in.jsonl", lines)?;
        let [output, list] = ["out.jsonl", "list"].map(|name| folder.path(name));
        let near = match random.below(3) {
            0 => Near::new(),
            1 => Near::within(random.below(12) as u32),
            _ => Near::within(10).min_similarity(0.5),
        };
        Dedup::new([&input], &output)
            .clustering(Clustering::new().near(near.clone()))
            .removed(&list)
            .run(|_| {})?;
        Ok(Self {
            folder,
            input,
            output,
            list,
            near,
        })
    }

    fn audit(&self) -> simdb::Result<AuditReport> {
        Audit::new([&self.output], &self.list)
            .near(self.near.clone())
            .inputs([&self.input])
            .run(|_| {})
    }

    /// Changes something at random, and says what. `None` if that cannot be done here.
    fn tamper(&self, random: &mut Random) -> TestResult<Option<String>> {
        let kept = fs::read_to_string(&self.output)?;
        let told = fs::read_to_string(&self.list)?;
        let inputs = fs::read_to_string(&self.input)?;
        let mut kept: Vec<&str> = kept.lines().collect();
        let mut told: Vec<String> = told.lines().map(str::to_owned).collect();
        if told.is_empty() {
            return Ok(None);
        }
        let place = random.index(kept.len());
        let row = random.index(told.len());
        let mut object: Value = serde_json::from_str(&told[row])?;
        let number = object["line"].as_u64().unwrap_or_default() as usize;
        let changed;
        let what = match random.below(8) {
            0 => {
                kept.insert(place, inputs.lines().nth(number - 1).unwrap_or_default());
                format!("line {number} is kept too")
            }
            1 => format!("{} is lost", kept.remove(place)),
            2 => {
                let distance = object["distance"].as_u64().unwrap_or_default();
                object["distance"] = ((distance + 1 + random.below(20)) % 65).into();
                told[row] = object.to_string();
                format!("line {row} has another distance")
            }
            3 => {
                told.remove(row);
                format!("line {row} is not in the list")
            }
            4 => {
                told.push(told[row].clone());
                format!("line {row} is twice in the list")
            }
            5 => {
                // Another kept record as the survivor.
                let other = kept[place];
                let line = inputs
                    .lines()
                    .position(|line| line == other)
                    .unwrap_or_default()
                    + 1;
                if object["survivor"]["line"] == line {
                    return Ok(None);
                }
                object["survivor"]["line"] = line.into();
                object["survivor"]["key"] = serde_json::from_str::<Value>(other)?["id"].clone();
                told[row] = object.to_string();
                format!("line {row} has another survivor")
            }
            6 => {
                changed = kept[place].replace("word1", "word2");
                if changed == kept[place] {
                    return Ok(None);
                }
                kept[place] = &changed;
                format!("line {place} of the output has another text")
            }
            _ => {
                object["key"] = "another".into();
                told[row] = object.to_string();
                format!("line {row} has another key")
            }
        };
        fs::write(&self.output, kept.join("\n"))?;
        fs::write(&self.list, told.join("\n"))?;
        Ok(Some(what))
    }
}

#[test]
fn whatever_is_changed_after_a_cleaning_is_found() -> TestResult {
    let seed = seed_or(5);
    let mut random = Random::new(seed);
    let mut tampered = 0;
    for corpus in 0..amount("SIMDB_AUDITS", 40, 2_000) {
        let cleaned = Cleaned::new(&mut random)?;
        let before = cleaned.audit()?;
        let told = || {
            format!(
                "SIMDB_SEED={seed}, corpus {corpus} in {}",
                cleaned.folder.path("").display()
            )
        };
        assert_eq!(
            before.verdict(),
            AuditVerdict::Proven,
            "{}: {before:?}",
            told()
        );
        if let Some(what) = cleaned.tamper(&mut random)? {
            tampered += 1;
            let after = cleaned.audit()?;
            assert_eq!(
                after.verdict(),
                AuditVerdict::Refuted,
                "{}: {what}: {after:?}",
                told()
            );
        }
    }
    println!("{tampered} changes were found");
    assert!(tampered > 20, "{tampered}");
    Ok(())
}

/// Ready fingerprints have no text, and are known again by what they are.
#[test]
fn ready_fingerprints_are_audited_too() -> TestResult {
    let folder = Folder::new()?;
    let fingerprinter = Fingerprinter::new(Scheme::default())?;
    let mut lines = String::new();
    for (key, text) in [("a", text(1, 0)), ("b", text(1, 1)), ("c", text(2, 0))] {
        let document = fingerprinter.document(key, &text);
        let fingerprint = document.fingerprint().ok_or("too short")?;
        lines += &format!("{{\"id\":\"{key}\",\"fingerprint\":\"{fingerprint}\"}}\n");
    }
    let input = folder.file("in.jsonl", lines)?;
    let (output, list, ran) = cleaned(&folder, "a.jsonl", &[&input], "--max-distance 12")?;
    let report = ran.expect(0).object()?;
    assert_has!(report, {"kept": 2, "removed": 1, "scheme": "external"});
    fs::write(&output, fs::read_to_string(&input)?)?;
    audited(&output, &list, NONE, "--max-distance 12")?.expect(1);
    Ok(())
}
