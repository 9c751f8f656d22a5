//! Runs some of the tests of this program in a child process in which a bug is planted, and looks whether they fail.

use std::io::{Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// So long a child may take, on a machine that does much else.
const LONGEST: Duration = Duration::from_secs(180);

/// How much tests do in a child, where the usual amount would take long. What fails there need not be made small.
const AMOUNTS: [(&str, &str); 3] = [
    ("SIMDB_IMAGES", "300"),
    ("SIMDB_FOLDERS", "60"),
    ("PROPTEST_MAX_SHRINK_ITERS", "0"),
];

/// Each of these tests fails if the bug is planted: by an assertion or an error, not because it was not found, or the
/// process ended otherwise.
pub(crate) fn assert_caught(bug: &str, tests: &[&str]) {
    let (status, told) = run(Some(bug), tests);
    let failed = format!("test result: FAILED. 0 passed; {} failed;", tests.len());
    assert!(
        status.code() == Some(101) && told.contains(&failed),
        "the bug {bug:?} is not caught by all of {tests:?}: {status}\n{told}"
    );
}

/// Each of these tests passes if no bug is planted.
pub(crate) fn assert_sound(tests: &[&str]) {
    let (status, told) = run(None, tests);
    let passed = format!("test result: ok. {} passed;", tests.len());
    assert!(
        status.success() && told.contains(&passed),
        "{status}\n{told}"
    );
}

/// Runs tests of this program in a child process. Returns how it ended, and what it has told.
fn run(bug: Option<&str>, tests: &[&str]) -> (ExitStatus, String) {
    let program = std::env::current_exe().expect("the system knows this program");
    let mut told = tempfile::tempfile().expect("a temporary file can be made");
    let output = || Stdio::from(told.try_clone().expect("a file can be cloned"));
    let mut command = Command::new(program);
    command
        .args(tests)
        .args(["--exact", "--test-threads", "1"])
        .envs(AMOUNTS)
        .env_remove("SIMDB_SEED")
        .env_remove("SIMDB_STAND")
        .env_remove("SIMDB_PLANTED")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output());
    if let Some(bug) = bug {
        command.env("SIMDB_PLANTED", bug);
    }
    let mut child = command.spawn().expect("this program can be started");
    let status = wait(&mut child);
    let mut text = String::new();
    told.rewind()
        .and_then(|()| told.read_to_string(&mut text))
        .expect("what a child tells can be read");
    let status = status.unwrap_or_else(|| panic!("{tests:?} hang with the bug {bug:?}\n{text}"));
    (status, text)
}

/// Waits until a child ends. `None` if that takes too long. It is ended then.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    _ = child.kill();
    _ = child.wait();
    None
}

#[allow(unused_macros, reason = "one program of tests has no use for it")]
/// Tests each of which names a planted bug, and the tests that have to fail then.
macro_rules! planted_bugs {
    ($($name:ident: $bug:literal => $($test:literal),+;)+) => {
        $(
            #[test]
            fn $name() {
                assert_caught($bug, &[$($test),+]);
            }
        )+
    };
}

pub(crate) use planted_bugs;
