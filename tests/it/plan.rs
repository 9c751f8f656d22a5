//! `simdb plan` and `simdb explain`: choices, and what they say of them.

use serde_json::{Value, json};

use crate::support::{Folder, TestResult, run};

#[test]
fn plan_prints_the_choice_and_what_serves_which_use() -> TestResult {
    // Who names a distance gets the plans alone.
    const OF_THREE: [&str; 3] = ["--max-distance=3", "--sketch=0", "--expect=100000000"];
    let ran = run!("plan", OF_THREE[0], OF_THREE[1], OF_THREE[2]).expect(0);
    assert!(ran.out.lines().any(|line| line.contains("6x21") && line.ends_with("taken")), "{}", ran.out);
    let plans = |more: &str| -> Result<Vec<Value>, Box<dyn std::error::Error>> {
        Ok(run!("plan", OF_THREE[0], OF_THREE[1], OF_THREE[2], more, "--json").expect(0).json()?)
    };
    let small = plans("--prefer=space")?;
    let taken: Vec<_> = small.iter().filter(|it| it["taken"] == json!(true)).map(|it| &it["plan"]).collect();
    assert_eq!(taken, [&json!("2x32")]);
    let is_small = |it: &Value| it["file_bytes"].as_u64().is_some_and(|bytes| bytes <= 4_000_000_000);
    assert!(plans("--max-file=4e9")?.iter().all(|it| is_small(it) || it["taken"] == json!(false)));
    run!("plan", "--max-memory", "1", "--max-distance", "3").expect(1);
    // As `create` takes them: distance 8 for texts.
    let of_eight = run!("plan", "--max-distance", "8", "--sketch", "16", "--expect", "200000000", "--json");
    let of_eight = of_eight.expect(0).json()?;
    let by_default = run!("plan", "--expect", "200000000", "--json").expect(0).json()?;
    let (plans, uses) = by_default.split_at(of_eight.len());
    assert!(plans.iter().all(|it| it["plan"].is_string()) && uses.iter().all(|it| it["use"].is_string()));
    assert_eq!(plans, of_eight);
    let others = |scheme: &str, distance: u32| {
        let it =
            uses.iter().find(|it| it["scheme"] == json!(scheme) && it["max_distance"] == json!(distance));
        it.and_then(|it| it["others"].as_f64())
    };
    assert_eq!((others("minwise-1", 8), others("minwise-1", 12)), (Some(0.0), Some(80.0)));
    Ok(())
}

#[test]
fn explain_prints_what_is_read() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    run!("create", &path, "--plan", "9x99").expect(2).says("no plan is called");
    run!("create", &path, "--plan", "6x21", "--scheme", "external").expect(0);
    let lines: String =
        (0..2000u64).map(|i| format!("{i}\t{:016x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let input = folder.file("fingerprints.txt", lines)?;
    run!("ingest", &path, &input, "--input-format", "fingerprints").expect(0);
    let explained = run!("explain", &path, "--key", "7", "--json").expect(0).object()?;
    assert_eq!(
        (&explained["plan"], &explained["near"], &explained["total"]),
        (&json!("6x21"), &json!(1), &json!(1))
    );
    let probes = explained["probes"].as_array().ok_or("probes")?;
    let met: u64 = probes.iter().filter_map(|it| it["candidates"].as_u64()).sum();
    assert_eq!(Some(met), explained["candidates"].as_u64());
    let ran = run!("explain", &path, "--fingerprint", "0123456789abcdef").expect(1);
    assert!(ran.out.contains("candidates expected"), "{}", ran.out);
    run!("explain", &path, "--input", &input).expect(2).says("one fingerprint");
    run!("plan", "--sample", &path, "--max-distance", "3", "--expect", "1000000").expect(0);
    Ok(())
}
