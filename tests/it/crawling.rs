//! The example of a crawler: killed, stopped and run again as a user would.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use simdb::{Database, OpenOptions};

use crate::support::{Folder, Ran, TestResult, assert_sound, done, program, run, run_with_input};

/// Builds the example, and returns its path.
fn crawler() -> TestResult<PathBuf> {
    let tests = std::env::current_exe()?;
    let target = tests
        .ancestors()
        .nth(3)
        .ok_or("the tests are in a folder of the built files")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--example", "crawler"])
        .args(["--features", "cli", "--target-dir"])
        .arg(target);
    Ran::from(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output()?).expect(0);
    Ok(target.join("debug/examples/crawler"))
}

/// A page that is like no other.
fn page(i: usize) -> String {
    let words: String = (0..40)
        .map(|j| format!("word{} ", (i * 41 + j) * 7919))
        .collect();
    format!("<html><title>Page {i}</title><body><p>{words}")
}

#[test]
fn a_crawler_goes_on_where_it_was_killed() -> TestResult {
    let folder = Folder::new()?;
    let pages = folder.path("pages");
    fs::create_dir_all(pages.join("more"))?;
    for i in 0..400 {
        let name = if i % 3 == 0 {
            format!("more/{i}.html")
        } else {
            format!("{i}.html")
        };
        fs::write(pages.join(name), page(i))?;
    }
    let lines = |from: usize| -> String {
        (from..from + 3_000)
            .map(|i| format!("{{\"key\":\"{i}\",\"html\":{:?}}}\n", page(i)))
            .collect()
    };
    let inputs: Vec<PathBuf> = vec![
        pages,
        folder.file("1.jsonl", lines(1_000))?,
        folder.file("2.jsonl", lines(10_000))?,
        folder.file("3.jsonl", lines(20_000) + "not a record\n")?,
    ];
    let (crawler, path) = (crawler()?, folder.path("d.simdb"));
    let (mut kills, mut looked) = (0, 0);
    let last = loop {
        let mut child = Command::new(&crawler);
        let child = child
            .arg(&path)
            .args(&inputs)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = child.spawn()?;
        // A busy machine may need longer to get to its first commit.
        thread::sleep(Duration::from_millis(30 + 23 * (kills % 7) + 5 * kills));
        // It answers for its database while it runs.
        let answered = path.exists() && run!("stats", &path, "--json").code == Some(0);
        if child.try_wait()?.is_some() {
            break Ran::from(child.wait_with_output()?).expect(0);
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
        looked += u32::from(answered);
        assert!(kills < 500, "it does not go on");
    };
    assert!(kills > 0, "it was too fast to be killed");
    assert!(looked > 0, "it never answered");
    last.says(" pages stored, 0 near-duplicates");
    let database = Database::open(&path, &OpenOptions::new())?;
    assert_eq!(
        database.snapshot()?.stats()?.documents,
        9_400,
        "after {kills} kills"
    );
    assert!(
        database
            .snapshot()?
            .sources()?
            .iter()
            .all(simdb::source::Source::has_ended)
    );
    assert_sound(&database)?;
    drop(database);
    // It does not tell what became of the records, so nothing is said of that.
    done!("sources", &path)
        .prints(": 3000 records\n")
        .prints_no("near-duplicates");
    // Nothing is left to do.
    Ran::from(Command::new(&crawler).arg(&path).args(&inputs).output()?)
        .expect(0)
        .says("0 pages stored, 0 near-duplicates");
    done!("ingest", &path, &inputs[1]).says("is not read again");
    Ok(())
}

/// Those that had read their first records when another had created the database lost these: each gave the rest of its
/// input to the other.
#[test]
fn pipes_into_a_database_that_none_has_created_yet_lose_nothing() -> TestResult {
    const EACH: usize = 3_000;
    let folder = Folder::new()?;
    let database = folder.path("new.simdb");
    let ran = thread::scope(|scope| {
        let runs = ["p", "q", "r", "s"].map(|name| {
            let mut command = program!("ingest", &database, "- --input-format jsonl");
            let lines = (0..EACH).map(|number| {
                let text = format!("one two three {name} {number} four five six seven eight nine");
                format!("{{\"key\":\"{name}{number}\",\"text\":\"{text}\"}}\n")
            });
            let lines: String = lines.collect();
            scope.spawn(move || run_with_input(&mut command, lines.as_bytes()))
        });
        runs.map(|run| run.join().expect("no thread panics"))
    });
    for ran in ran {
        ran?.expect(0);
    }
    let opened = Database::open(&database, &OpenOptions::new().read_only(true))?;
    assert_eq!(opened.snapshot()?.stats()?.documents, 4 * EACH as u64);
    Ok(())
}
