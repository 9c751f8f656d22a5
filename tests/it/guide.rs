//! The guide: each task that its pages give for the shell prints the output that stands below it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Folder, Ran, TestResult, example};

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
