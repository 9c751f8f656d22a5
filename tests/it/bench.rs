//! The program in benches/bench refuses what makes no sense, and leaves nothing behind.

/// With its own tests. Those of an example do not run.
#[path = "../../benches/bench/collection.rs"]
mod collection;

use crate::support::{Folder, Ran, TestResult, bench};

#[test]
fn options_that_make_no_sense_are_refused_before_any_work() -> TestResult {
    let folder = Folder::new()?;
    for (options, told) in [
        ("--documents 0", "at least 1"),
        ("--near-duplicates 2", "a share from 0 to 1"),
        ("--near-duplicates NaN", "a share from 0 to 1"),
        ("--queries 0", "at least 1"),
        ("--phases query,insert", "the phase `query` needs documents"),
        ("--phases delete", "the phase `delete` needs documents"),
        ("--phases insert,build", "it is the first phase"),
        ("--phases insert,window", "it is the only phase"),
        ("--phases insert,delete,delete", "so it comes once"),
        ("--phases insert,expire,delete", "it comes before `expire`"),
        ("--phases insert,expire,replace", "it comes before `expire`"),
        (
            "--phases insert,delete,expire",
            "cannot come after `delete`",
        ),
        ("--rate 5", "--rate is for the phases writer"),
        ("--more 5", "--more is for the phases link, writer"),
        ("--together 5", "--together is for the phases link"),
        ("--turnovers 5", "--turnovers is for the phases window"),
        (
            "--query-distance 2 --phases insert",
            "--query-distance is for the phases query",
        ),
        (
            "--scopes 2 --query-scopes 3",
            "cannot be more than --scopes",
        ),
        ("--min-similarity 0.5", "needs sketches"),
        ("--threads 100000", "threads are too many"),
        ("--plan nonesuch", "no plan is called"),
    ] {
        let mut bench = bench();
        bench
            .arg("--directory")
            .arg(folder.path(""))
            .args(options.split(' '));
        let ran: Ran = bench.output()?.into();
        assert_eq!(ran.refused(told).out, "", "{options}");
    }
    let missing = folder.path("missing");
    let ran: Ran = bench().arg("--directory").arg(missing).output()?.into();
    ran.refused("missing");
    assert_eq!(folder.count()?, 0);
    Ok(())
}

#[test]
fn every_phase_runs_after_those_it_needs() -> TestResult {
    let folder = Folder::new()?;
    for phases in [
        "build,query,list,any,nearest,batch,beside,cold,commit,replace,settle,compact,reopen,expire,expire,query",
        "insert,link,writer,delete,replace,query",
        "window",
    ] {
        let mut bench = bench();
        bench.args([
            "--documents",
            "2k",
            "--queries",
            "20",
            "--json",
            "--phases",
            phases,
        ]);
        bench.arg("--directory").arg(folder.path(""));
        if phases == "window" {
            bench.args(["--turnovers", "2"]);
        }
        let ran: Ran = bench.output()?.into();
        assert_eq!(
            ran.expect(0).out.lines().count(),
            phases.split(',').count(),
            "{phases}"
        );
    }
    assert_eq!(folder.count()?, 0);
    Ok(())
}
