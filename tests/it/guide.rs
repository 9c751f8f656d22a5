//! The guide: each task that its pages give for the shell prints the output that stands below it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Folder, Ran, TestResult, bundled, example, run};

/// A task of a page, and the output that the page shows.
struct Task {
    script: String,
    output: String,
}

/// A page of the guide.
fn page(name: &str) -> std::io::Result<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name))
}

/// The blocks for the shell behind which the output stands.
fn tasks(page: &str) -> Vec<Task> {
    let mut tasks = Vec::new();
    for part in page.split("\n```sh\n").skip(1) {
        let (script, behind) = part.split_once("\n```\n").expect("a block has an end");
        if let Some(shown) = behind.strip_prefix("\n```text\n") {
            let (output, _) = shown.split_once("\n```\n").expect("a block has an end");
            tasks.push(Task {
                script: script.to_owned(),
                output: output.to_owned(),
            });
        }
    }
    tasks
}

/// The lines of an output, without the time that some of them end in.
fn timeless(output: &str) -> Vec<&str> {
    output.lines().map(without_time).collect()
}

fn without_time(line: &str) -> &str {
    let Some((before, last)) = line.rsplit_once(", ") else {
        return line;
    };
    let seconds = last.strip_suffix(" s").map(str::parse::<f64>);
    if matches!(seconds, Some(Ok(_))) {
        before
    } else {
        line
    }
}

/// Runs each task in a folder of its own, where the data of the project are too.
#[cfg(unix)]
fn assert_tasks_print_what_is_shown(name: &str) -> TestResult {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = Path::new(env!("CARGO_BIN_EXE_simdb")).parent();
    let folders = program
        .map(Path::to_owned)
        .into_iter()
        .chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders)?;
    let page = page(name)?;
    let first = page.find("\n```");
    assert_eq!(first, page.find("\n```sh\n"), "{name} begins with a task");
    let tasks = tasks(&page);
    assert!(!tasks.is_empty(), "{name}");
    for task in tasks {
        let folder = Folder::new()?;
        std::os::unix::fs::symlink(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"),
            folder.path("tests"),
        )?;
        let output = Command::new("sh")
            .args(["-e", "-c", &format!("exec 2>&1\n{}", task.script)])
            .current_dir(folder.path("."))
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()?;
        let ran = Ran::from(output).expect(0);
        assert_eq!(
            timeless(&ran.out),
            timeless(&task.output),
            "{name}: {}\nprinted:\n{}",
            task.script,
            ran.out
        );
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn the_tasks_of_a_crawler_print_what_is_shown() -> TestResult {
    assert_tasks_print_what_is_shown("docs/crawling.md")
}

#[cfg(unix)]
#[test]
fn the_tasks_of_a_corpus_print_what_is_shown() -> TestResult {
    assert_tasks_print_what_is_shown("docs/corpora.md")
}

#[cfg(unix)]
#[test]
fn the_tasks_of_administration_print_what_is_shown() -> TestResult {
    assert_tasks_print_what_is_shown("docs/administration.md")
}

#[cfg(unix)]
#[test]
fn the_session_of_all_commands_prints_what_is_shown() -> TestResult {
    assert_tasks_print_what_is_shown("docs/commands.md")
}

/// The names in code in the rows of the page about a command.
fn fields_of<'p>(rows: &[&'p str], command: &str) -> Vec<&'p str> {
    let names = [format!("`{command}`"), format!("`{command} ")];
    let of_command = rows.iter().filter(|row| {
        let first_cell = row.split('|').nth(1).unwrap_or_default();
        names.iter().any(|name| first_cell.contains(name))
    });
    of_command
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .collect()
}

/// Once `sketch_bytes` and `min_similarity` of `stats`, and the sketches of `get` and `fingerprint`, were in no list.
#[test]
fn each_field_of_json_is_in_the_row_of_its_command() -> TestResult {
    let folder = Folder::new()?;
    let path = |name: &str| folder.path(name).to_string_lossy().into_owned();
    let docs = bundled("pg-docs-html/docs.jsonl.gz");
    let docs = docs.to_string_lossy().into_owned();
    let text = "The river rose above its banks on Sunday, and nobody was hurt.";
    let bad = folder.file(
        "bad.jsonl",
        format!("{{\"id\":\"a\",\"text\":\"{text}\"}}\n{{bad\n"),
    )?;
    let bad = bad.to_string_lossy().into_owned();
    let (pages, removed) = (path("pages.simdb"), path("removed.jsonl"));
    let (sentences, copy) = (path("sentences.simdb"), path("copy.simdb"));
    let calls: [&[&str]; 31] = [
        &["create", &pages],
        &["ingest", &pages, &docs, &bad],
        &["sources", &pages],
        &["query", &pages, "--key", "pg17-sql-commit"],
        &["query", &pages, "--text", "short"],
        &["explain", &pages, "--key", "pg17-sql-commit"],
        &["get", &pages, "pg17-sql-commit"],
        &["pairs", &pages],
        &["pairs", &pages, "--groups"],
        &["clusters", &pages],
        &["clusters", &pages, "--summary"],
        &["report", &pages, "--texts", &docs],
        &["stats", &pages, "--verbose"],
        &["check", &pages],
        &["delete", &pages, "--duplicates", "--dry-run"],
        &["delete", &pages, "a"],
        &["expire", &pages, "--before", "2001-01-01"],
        &["compact", &pages],
        &["backup", &pages, &copy],
        &["salvage", &copy, &path("salvaged.simdb")],
        &["dump", &pages],
        &["plan"],
        &[
            "dedup",
            &docs,
            "-o",
            &path("clean.jsonl.gz"),
            "--removed",
            &removed,
        ],
        &["dedup", &docs, "-o", &path("all.jsonl.gz"), "--annotate"],
        &["dedup", &docs, "--list"],
        &[
            "audit",
            &path("clean.jsonl.gz"),
            "--removed",
            &removed,
            "--input",
            &docs,
        ],
        &["fingerprint", &docs],
        &["distance", "00000000000000ff", "0000000000000000"],
        &["ingest", &sentences, &bad, "--unit", "sentence"],
        &["overlap", &sentences, "--text", text, "--list-units"],
        &["load", &path("loaded.simdb"), &path("dump.jsonl")],
    ];
    let reference = page("docs/commands.md")?;
    let (_, section) = reference
        .split_once("\n## JSON fields\n")
        .ok_or("no section")?;
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    for call in calls {
        let ran = run!(..call, "--json");
        let command = call[0];
        if command == "dump" {
            folder.file("dump.jsonl", &ran.out)?;
            continue;
        }
        let named = fields_of(&rows, command);
        let objects = ran.json()?;
        assert!(!objects.is_empty(), "{call:?}: {}", ran.err);
        for object in &objects {
            for field in object.as_object().ok_or("no object")?.keys() {
                assert!(
                    named.contains(&field.as_str()),
                    "{call:?}: `{field}` is in no row of `{command}`"
                );
            }
        }
    }
    Ok(())
}

/// The options of a command, as its help lists them. None if there is no such command.
fn options_of(command: &str) -> std::io::Result<Vec<String>> {
    let help = run!("help", command);
    let words = help
        .out
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let options = words.filter(|word| word.starts_with("--"));
    Ok(options.map(ToOwned::to_owned).collect())
}

/// What a page says of a command, in code of a line: its name, and what is behind it. A line of a block is such code
/// too.
fn commands_of(page: &str) -> Vec<(&str, &str)> {
    let mut commands = Vec::new();
    for line in page.lines() {
        let in_code = line.split('`').skip(1).step_by(2);
        for code in in_code.chain([line]) {
            let Some((name, behind)) = code.strip_prefix("simdb ").unwrap_or(code).split_once(' ')
            else {
                continue;
            };
            // Behind that, another program begins.
            let behind = behind.split(['|', '>', '#']).next().unwrap_or_default();
            let is_command = name.chars().all(|c| c.is_ascii_lowercase());
            if is_command && behind.contains("--") && (code.starts_with("simdb ") || code != line) {
                commands.push((name, behind));
            }
        }
    }
    commands
}

/// Once a page spoke of `delete --key`.
#[test]
fn each_option_that_a_page_names_with_a_command_is_one_of_it() -> TestResult {
    let mut known: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut checked = 0;
    let mut pages = vec![page("README.md")?, page("src/python/README.md")?];
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(std::fs::read_to_string(path)?);
        }
    }
    for page in &pages {
        for (command, behind) in commands_of(page) {
            if !known.contains_key(command) {
                known.insert(command, options_of(command)?);
            }
            let words = behind
                .split_whitespace()
                .map(|word| word.split('=').next().unwrap_or(word));
            for option in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                // No options: it is no command of this program, or not of this build.
                if !known[command].is_empty() {
                    assert!(
                        known[command].iter().any(|it| it == option),
                        "`{command} {behind}`: {option}"
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
    Ok(())
}

#[test]
fn the_first_program_of_the_library_is_that_of_the_page_and_prints_what_is_shown() -> TestResult {
    let library = page("docs/library.md")?;
    let source = page("docs/examples/first.rs")?;
    let (_, program) = source.split_once("\n\n").ok_or("it has no comment")?;
    assert!(library.contains(&format!("\n```rust,no_run\n{program}```\n")));
    let folder = Folder::new()?;
    for _ in 0..2 {
        let mut command = example("first");
        let ran = Ran::from(command.current_dir(folder.path(".")).output()?).expect(0);
        let shown = format!("\n```text\n{}```\n", ran.out);
        assert!(library.contains(&shown), "{}", ran.out);
    }
    Ok(())
}
