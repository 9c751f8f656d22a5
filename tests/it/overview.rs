//! `simdb stats`: what it tells a person, and what of it stands in JSON.

use serde_json::json;

use crate::support::{
    Folder, Ran, TestResult, assert_has, document, done, insert_all, program, run, spread,
};

#[test]
fn stats_tell_a_person_in_words_and_units_what_there_is() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..1_500).map(|i| document(format!("k{i}"), spread(i))),
    )?;
    insert_all(
        &database,
        (0..40).map(|i| document(format!("error {i}"), 7)),
    )?;
    drop(database);
    let path = folder.path("d.simdb");
    let told = done!("stats", &path).out;
    let first = "documents         1,540\n\
                 near means        distance 3 or less: two fingerprints differ in at most 3 bits of 64\n\
                 repeats           about 39 documents with the fingerprint of another document\n";
    assert!(told.starts_with(first), "{told}");
    for part in [
        "kB, ",
        " seconds ago)",
        "40 documents have one fingerprint, the newest is error 39\n",
        "memory            enough: queries need ",
    ] {
        assert!(
            told.contains(part) || told.contains(&part.replace("seconds", "second")),
            "{part}: {told}"
        );
    }
    assert!(!told.contains("advice") && !told.contains('\t'), "{told}");
    for matter in ["scheme", "table", "prefix", "level", "plan", "format"] {
        assert!(!told.contains(matter), "{matter}: {told}");
    }

    let all = done!("stats", &path, "--verbose").out;
    let stated = told.lines().filter(|line| !line.starts_with("created"));
    for line in stated {
        assert!(all.contains(line), "{line}: {all}");
    }
    for part in [
        "fingerprints      about 1,501 different fingerprints of scheme external, no sketches\n",
        ", searched by their first ",
        "                  up to distance ",
        "format            version ",
        "cache             ",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let objects = [&[][..], &["--verbose"]].map(|more| {
        let mut command = program!("stats", &path, ..more, "--json");
        command
            .output()
            .map(|output| Ran::from(output).expect(0).out)
    });
    let [brief, verbose] = objects;
    assert_eq!(brief?, verbose?, "an object always has all");
    let object = done!("stats", &path, "--json").object()?;
    let group = json!({"key": "error 39", "fingerprint": "0000000000000007", "documents": 40});
    assert_eq!(object["largest_groups"], json!([group]));
    assert_has!(object, {"pinned_bytes": null, "advice": []});
    assert_eq!(object["fullest_prefixes"].as_array().map(Vec::len), Some(3));
    Ok(())
}

#[test]
fn stats_say_what_to_do_if_something_is_off() -> TestResult {
    let folder = Folder::new()?;
    insert_all(
        &folder.database("d.simdb")?,
        (0..100).map(|i| document(format!("k{i}"), i << 40)),
    )?;
    let told = done!("stats", folder.path("d.simdb"), "--cache 0%").out;
    let advice = "advice            the tables do not fit into the cache of 0 B";
    assert!(
        told.contains(advice) && told.contains("give the program"),
        "{told}"
    );
    let object = done!("stats", folder.path("d.simdb"), "--cache 0% --json").object()?;
    assert_eq!(object["advice"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn statistics_for_prometheus_are_no_json() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, [document("a", 0)])?;
    run!("stats", folder.path("d.simdb"), "--prometheus --json")
        .refused("cannot be used with --json");
    Ok(())
}
