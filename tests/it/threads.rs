//! A system that gives no more threads. The superuser runs a command as somebody who has no other process, and others
//! run it in a namespace of their own, in which nobody else is.
#![cfg(target_os = "linux")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::support::{Folder, Ran, TestResult, bench, simdb, spread};

/// A user who has no process.
const NOBODY_ELSE: u32 = 54_321;

/// The command that sets a limit, run by somebody who has no other process.
fn alone() -> Command {
    let is_superuser = cfg!(simdb_superuser);
    if !is_superuser {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "prlimit"]);
        return command;
    }
    let mut command = Command::new("prlimit");
    command.uid(NOBODY_ELSE).gid(NOBODY_ELSE);
    command
}

/// Once a command without threads ended with a panic, and a backtrace in place of a reason.
#[test]
#[cfg_attr(
    not(any(simdb_superuser, simdb_namespaces)),
    ignore = "this system gives nobody a namespace of their own"
)]
fn a_command_without_threads_does_its_work_alone_or_says_why_not() -> TestResult {
    let folder = Folder::new()?;
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o777))?;
    let program = folder.path("program");
    fs::copy(simdb().get_program(), &program)?;
    let measuring = folder.path("bench");
    fs::copy(bench().get_program(), &measuring)?;
    let lines: String = (0..20_000u64)
        .map(|i| format!("{i}\t{:016x}\n", spread(i) >> (i % 3)))
        .collect();
    folder.file("in.tsv", lines)?;
    folder.file("few.tsv", "a\t0000000000000001\nb\t0000000000000003\n")?;
    let run = |most: usize, command: &str| -> std::io::Result<Ran> {
        let (program, words) = match command.strip_prefix("bench ") {
            Some(words) => (&measuring, words),
            None => (&program, command),
        };
        let mut limited = alone();
        limited.arg(format!("--nproc={most}")).arg(program);
        limited.args(words.split(' ')).current_dir(folder.path("."));
        limited.output().map(Ran::from)
    };
    let commands = [
        "ingest d.simdb in.tsv --batch 1000 --input-format fingerprints",
        "stats d.simdb --json",
        "query d.simdb --input in.tsv --input-format fingerprints",
        "pairs d.simdb",
        "pairs d.simdb --with few.tsv --input-format fingerprints",
        "clusters d.simdb",
        "report d.simdb",
        "dump d.simdb",
        "check d.simdb",
        "backup d.simdb b.simdb",
        "compact d.simdb",
        "delete d.simdb --duplicates",
        "expire d.simdb --before 1980-01-01",
        "dedup in.tsv --output clean.tsv --input-format fingerprints",
        "bench --documents 2000 --queries 10 --phases insert,writer,query,beside,expire",
        "distance 0000000000000001 0000000000000003",
    ];
    let mut refused = 0;
    for most in [1, 2, 3, 4] {
        for name in ["d.simdb", "b.simdb", "clean.tsv"] {
            _ = fs::remove_file(folder.path(name));
        }
        for command in commands {
            let ran = run(most, command)?;
            let what = format!("{most}: {command}: {ran:?}");
            assert!(!ran.err.contains("panicked"), "{what}");
            match ran.code {
                Some(0 | 1) => {}
                Some(2) if ran.err.contains("no such database") => {}
                Some(2) if ran.err.contains("thread") => refused += 1,
                _ => panic!("{what}"),
            }
            assert_nothing_temporary(&folder, most, command)?;
            if command.starts_with("ingest") && ran.code == Some(2) {
                // What follows is asked of a database that was made with threads.
                run(100, command)?.expect(0);
            }
        }
        run(100, "check d.simdb")?.expect(0);
    }
    assert!(refused > 0, "no command has met the limit");
    Ok(())
}

/// A command has left no file that only it knows.
fn assert_nothing_temporary(folder: &Folder, most: usize, command: &str) -> TestResult {
    for entry in fs::read_dir(folder.path("."))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_temporary = [".tmp", ".sock", ".new"]
            .iter()
            .any(|end| name.ends_with(end));
        assert!(!is_temporary, "{most}: {command} has left {name}");
    }
    Ok(())
}
