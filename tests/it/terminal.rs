//! What comes from outside does nothing to a terminal: keys, paths, records, arguments.

use crate::support::{
    Folder, Ran, TestResult, assert_has, document, done, insert_all, program, run, run_with_input,
};

/// Escape sequence, C1 control, override, mark, isolate, line separator, zero width, byte order mark, tag.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{200f}\u{2066}\u{2028}\u{200b}\u{feff}\u{e0041}";

#[track_caller]
fn assert_harmless(ran: &Ran) {
    let text = format!("{}{}", ran.out, ran.err);
    let is_risky = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || "\u{202e}\u{200f}\u{2066}\u{2028}\u{200b}\u{feff}\u{e0041}".contains(c)
    };
    assert!(!text.contains(is_risky), "{text:?}");
}

#[test]
fn hostile_keys_are_escaped_in_text_and_in_json() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let key = format!("http://a/{HOSTILE}");
    let hostile = document(key.as_bytes(), 0).with_payload(HOSTILE);
    insert_all(&folder.database("d.simdb")?, [hostile, document("b", 1)])?;
    for json in [false, true] {
        let ask = |arguments: &[&str]| -> std::io::Result<Ran> {
            Ok(run!(..arguments, &path, ..json.then_some("--json")))
        };
        for arguments in [
            &["query", "--key", "b"][..],
            &["query", "--key", &key],
            &["dump"],
            &["expire", "--before", "1", "--dry-run"],
        ] {
            let ran = ask(arguments)?.expect(0);
            assert_harmless(&ran);
            let is_escaped = ran.out.contains("u{202e}") || ran.out.contains("u202e");
            assert!(json || arguments[0] == "expire" || is_escaped);
        }
        assert_harmless(&ask(&["query", "--key", HOSTILE])?.expect(1));
    }
    let stored = done!("get", &path, &key, "--json");
    assert_harmless(&stored);
    let stored = stored.object()?;
    assert_has!(stored, {"key": key, "payload": HOSTILE});
    // What was escaped in a dump is the same once more.
    let dump = done!("dump", &path).out;
    run_with_input(&mut folder.command("load e.simdb"), dump.as_bytes())?.expect(0);
    assert_eq!(done!("dump", folder.path("e.simdb")).out, dump);
    assert_harmless(&done!("delete", &path, &key));
    Ok(())
}

#[cfg(unix)]
#[test]
fn hostile_paths_are_escaped_in_answers_and_errors() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path(&format!("{HOSTILE}\n.simdb"));
    for command in ["stats", "check", "compact", "dump"] {
        assert_harmless(&run!(command, &path).expect(2));
    }
    assert_harmless(&done!("create", &path));
    for command in ["check", "compact"] {
        let ran = done!(command, &path);
        assert_harmless(&ran);
        assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    }
    let copy = folder.path(&format!("copy{HOSTILE}.simdb"));
    assert_harmless(&done!("backup", &path, &copy));
    assert_harmless(&done!("backup", &path, &copy).says("already there and complete"));
    std::fs::write(&copy, "mine")?;
    assert_harmless(&run!("backup", &path, &copy).refused("already exists"));
    let input = folder.file(
        &format!("{HOSTILE}.jsonl"),
        format!("{{\"key\": \"{HOSTILE}\", \"rank\": \"{HOSTILE}\"}}\n"),
    )?;
    for command in ["ingest", "load"] {
        assert_harmless(&run!(command, folder.path("new.simdb"), &input));
    }
    assert_harmless(&run!("fingerprint", &input));
    Ok(())
}

#[test]
fn hostile_arguments_are_escaped_in_messages_about_them() -> TestResult {
    let option = format!("--x{HOSTILE}");
    for arguments in [
        &[HOSTILE][..],
        &["stats", "a", HOSTILE],
        &["query", &option],
        &["create", "a", "--expect", HOSTILE],
        &["create", "a", "--scheme", HOSTILE],
        &["expire", "a", "--before", HOSTILE],
        &["distance", HOSTILE, HOSTILE],
        &["completions", HOSTILE],
        &["--color=always", HOSTILE],
    ] {
        let ran: Ran = program!(..arguments).output()?.into();
        assert_harmless(&ran.expect(2));
    }
    Ok(())
}
