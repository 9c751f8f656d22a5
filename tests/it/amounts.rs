//! Numbers, sizes and times on the command line, as people write them.

use serde_json::json;

use crate::support::{Folder, TestResult, done, program, run};

#[test]
fn counts_and_sizes_are_taken_with_units() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.path("a.simdb");
    done!("create", &database, "--expect 100M --max-distance 3");
    let same = folder.path("b.simdb");
    done!("create", &same, "--expect 1e8 --max-distance 3");
    let plan =
        |path| -> TestResult<_> { Ok(done!("stats", path, "--json").object()?["plan"].clone()) };
    assert_eq!(plan(&database)?, plan(&same)?);
    let stats = done!("stats", &database, "--cache 64MiB --json").object()?;
    assert_eq!(stats["cache_limit_bytes"], 64 << 20);
    folder.file(
        "in.tsv",
        "a\tfar too long a text for such a limit\nb\tshort\n",
    )?;
    let totals = folder.run("ingest a.simdb in.tsv --max-record 0.03k --batch 1_000 --json")?;
    assert_eq!(totals.expect(0).last()?["rejected"], 1);
    run!("plan --expect 1G --max-file 1MB")
        .expect(1)
        .prints("too large");
    done!("plan --expect 1k --max-file 1GB --max-memory 1GiB");
    Ok(())
}

#[test]
fn a_number_that_is_none_is_refused_with_examples() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("a.simdb");
    run!("create", &path, "--expect many").refused("5000, 1_000_000, 10k, 100M or 1e8");
    run!("create", &path, "--expect -5").refused("must not be negative");
    run!("create", &path, "--expect 1e99").refused("too large");
    run!("plan --max-file 1.5").refused("64MiB or 1GB");
    run!("ingest", &path, "- --batch 0").refused("at least 1");
    run!("ingest", &path, "- --max-record 1zB").refused("64MiB or 1GB");
    assert!(!path.exists());
    Ok(())
}

#[test]
fn times_are_dates_spans_or_seconds_in_the_local_zone() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("a.simdb")?;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_secs() as i64;
    let day = 24 * 60 * 60;
    let mut txn = database.begin_write()?;
    // The first is 2020-01-31T12:00 in Berlin.
    for (key, seen) in [("a", 1_580_468_400), ("b", now - 3 * day), ("c", now - day)] {
        txn.insert(&crate::support::document(key, 0).with_seen(seen))?;
    }
    txn.commit()?;
    drop(database);
    let ask = |since: &str| -> std::io::Result<Vec<String>> {
        let mut command = program!("query --fingerprint 0000000000000000 --since", since);
        command.env("TZ", "Europe/Berlin");
        let ran: crate::support::Ran = command.arg(folder.path("a.simdb")).output()?.into();
        let keys = ran
            .out
            .lines()
            .filter_map(|line| line.rsplit('\t').next().map(str::to_owned));
        Ok(keys
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect())
    };
    assert_eq!(ask("2020-01-31T12:00")?, ["a", "b", "c"]);
    assert_eq!(ask("2020-01-31T12:01")?, ["b", "c"]);
    assert_eq!(ask("2020-01-31")?, ["a", "b", "c"]);
    assert_eq!(ask("2d")?, ["c"]);
    assert_eq!(ask("36h")?, ["c"]);
    assert_eq!(ask("2 weeks ago")?, ["b", "c"]);
    assert_eq!(ask("now")?, Vec::<String>::new());
    let removed = done!("expire", folder.path("a.simdb"), "--before 2d --json");
    assert_eq!(removed.object()?, json!({"removed": 2}));
    Ok(())
}

#[test]
fn a_time_that_may_mean_something_else_is_refused() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("a.simdb")?);
    let before = |time: &str| -> std::io::Result<_> {
        Ok(run!("expire", folder.path("a.simdb"), "--before", time))
    };
    before("2020")?.refused("2020-01-01");
    before("20200131")?.refused("2020-01-31");
    before("1700000000000")?.refused("milliseconds");
    before("9999-01-01")?.refused("in the future");
    before("9000000000")?.refused("in the future");
    for minutes_or_months in ["3m", "3 m ago", "1d 3m"] {
        before(minutes_or_months)?.refused("write `min` or `mo`");
    }
    before("last summer")?.refused("such as 2020-01-31, 2020-01-31T12:00, 2d, 36h");
    before("@2020")?.expect(0);
    Ok(())
}
