//! The words of the command line: names of commands, the version, completions, the manual, colours and silence.

use crate::support::{
    Folder, Piped, Ran, TestResult, document, done, insert_all, program, run, spread,
};

#[test]
fn names_that_mean_the_same_are_taken() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    done!("create", &path, "--scheme external");
    let input = folder.file("in.tsv", "a\t0000000000000000\n")?;
    done!("add", &path, &input, "--input-format fingerprints");
    let expected = done!("stats", &path, "--json").out;
    assert_eq!(done!("info", &path, "--json").out, expected);
    done!("verify", &path);
    done!("vacuum", &path);
    done!("search", &path, "--key a");
    assert_eq!(done!("rm", &path, "a").out, "deleted a\n");
    Ok(())
}

#[test]
fn names_of_other_programs_lead_to_the_right_command() -> TestResult {
    for (name, command) in [
        ("prune", "simdb expire DB --before TIME"),
        ("gc", "simdb compact DB"),
        ("repair", "simdb check DB"),
        ("restore", "simdb load"),
        ("statz", "'stats'"),
        ("pages.simdb", "simdb stats pages.simdb"),
        ("./no/folder", "the command stands before the database"),
    ] {
        let ran = run!(name).expect(2);
        assert!(ran.out.is_empty());
        ran.says(name).says(command);
    }
    run!("pages.simdb stats").refused("the command stands before the database");
    Ok(())
}

#[test]
fn who_gives_the_key_first_is_told_the_order() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    for command in ["get", "delete"] {
        run!(command, folder.path("key"), folder.path("d.simdb"))
            .refused("the database comes before the key");
    }
    run!("create", folder.path("e.simdb"), "--max-distance 3.5")
        .refused("3.5 is not a number of bits from 0 to 64");
    run!("plan --expect 1e18").refused("at most 1.1e12 documents");
    run!("load", folder.path("e.simdb"), folder.path("")).refused("is a directory");
    Ok(())
}

#[test]
fn the_version_names_that_of_the_format() -> TestResult {
    let version = done!("--version").out;
    assert!(
        version.starts_with(concat!("simdb ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
    assert!(
        version.ends_with(&format!("format {})\n", simdb::FORMAT_VERSION)),
        "{version}"
    );
    Ok(())
}

#[test]
fn completions_and_manual_know_every_command() -> TestResult {
    let manual = done!("manual").out;
    assert!(manual.contains(".TH simdb 1"), "{}", &manual[..200]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = done!("completions", shell).out;
        for command in ["ingest", "query", "vacuum", "dry-run", "completions"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let help = done!("--help").out;
    let names: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 15, "{help}");
    for name in names {
        assert!(
            manual.contains(&format!(".SH \"SIMDB {}\"", name.to_uppercase())),
            "{name}"
        );
    }
    run!("completions tcsh").refused("[possible values:");
    Ok(())
}

#[test]
fn colours_come_when_they_are_wanted() -> TestResult {
    let coloured = |words: &str| -> std::io::Result<bool> {
        let mut command = program!(..words.split(' '));
        let ran = Ran::from(command.env_remove("NO_COLOR").output()?);
        Ok((ran.out + &ran.err).contains('\u{1b}'))
    };
    assert!(coloured("--color always nonesuch")?);
    assert!(coloured("--help --color=always")?);
    assert!(!coloured("--color=never --help")?);
    assert!(!coloured("--help")?, "a pipe is no terminal");
    run!("--color sometimes --help").refused("always");
    Ok(())
}

#[test]
fn quiet_leaves_errors_and_data() -> TestResult {
    let folder = Folder::new()?;
    let stored = [document("a", 0), document("b", 1)];
    insert_all(&folder.database("d.simdb")?, stored)?;
    let one = "query d.simdb --fingerprint 0000000000000000 --limit 1";
    folder.run(one)?.expect(0).says("1 of 2 matches shown");
    let quiet = folder.run(&format!("{one} --quiet"))?.expect(0);
    assert_eq!((&quiet.out[..], &quiet.err[..]), ("0\t-\ta\n", ""));
    let none = "query d.simdb --fingerprint ffffffffffffffff";
    folder
        .run(none)?
        .expect(1)
        .says("no match within distance 3");
    assert_eq!(folder.run(&format!("{none} -q"))?.expect(1).err, "");
    run!("-q stats", folder.path("none.simdb")).refused("no such database");
    Ok(())
}

#[test]
fn a_query_that_finds_nothing_says_what_it_asked_for() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let text = "one two three four five six seven eight nine ten eleven twelve";
    let input = folder.file("in.tsv", format!("a\t{text}\n"))?;
    done!("ingest", &path, &input);
    let other = "quite another text that has nothing at all to do with what is in the file";
    let ran = run!("query", &path, "--text", other).expect(1);
    let said = "simdb: no match within distance 8 and of similarity 0.7 or more\n";
    assert_eq!((&ran.out[..], &ran.err[..]), ("", said));
    run!("query", &path, "--scope en --max-distance 2 --text", text)
        .expect(1)
        .says("no match within distance 2");
    run!("query", &path, "--text", text, "--scope en")
        .expect(1)
        .says("in scope en");
    Ok(())
}

#[test]
fn a_limit_of_zero_prints_totals_only() -> TestResult {
    let folder = Folder::new()?;
    let stored = [document("a", 0), document("b", 1)];
    insert_all(&folder.database("d.simdb")?, stored)?;
    folder.file("asked.tsv", "x\t0000000000000003\ny\tffffffffffffffff\n")?;
    let ran = |more: &str| folder.run(&format!("query d.simdb --limit 0 {more}"));
    assert_eq!(ran("--fingerprint 0000000000000000")?.expect(0).out, "2\n");
    assert_eq!(ran("--fingerprint ffffffffffffffff")?.expect(1).out, "0\n");
    let all = "--input asked.tsv --input-format fingerprints";
    assert_eq!(ran(all)?.expect(0).out, "2\tx\n0\ty\n");
    let json = ran(&format!("{all} --json"))?.expect(0).json()?;
    let totals = json.iter().map(|it| (&it["total"], &it["matches"]));
    let none = serde_json::json!([]);
    assert_eq!(
        totals.collect::<Vec<_>>(),
        [(&2.into(), &none), (&0.into(), &none)]
    );
    Ok(())
}

/// Whoever loses the race finds a file that was not there when it looked for it.
#[test]
fn of_several_that_create_one_file_the_losers_say_that_it_is_in_use() -> TestResult {
    let folder = Folder::new()?;
    let lines = (0..5_000_u64).map(|i| format!("{i}\t{:016x}\n", spread(i)));
    folder.file("in.tsv", lines.collect::<String>())?;
    for round in 0..3 {
        let words = format!("ingest {round}.simdb in.tsv --input-format fingerprints");
        let ingest = |_| folder.command(&words).piped();
        let children = (0..4).map(ingest).collect::<Result<Vec<_>, _>>()?;
        let mut done = 0;
        for child in children {
            let ran = Ran::from(child.wait_with_output()?);
            match ran.code {
                Some(0) => done += 1,
                _ => _ = ran.refused("in use by another process"),
            }
        }
        assert!(done > 0);
    }
    Ok(())
}
