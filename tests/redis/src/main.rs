//! Connects to `simdb serve` by the client of Redis for Rust, as it is, in both versions of the protocol.
//!
//!     cargo run --manifest-path tests/redis/Cargo.toml -- target/debug/simdb

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args_os().nth(1).ok_or("the program is missing")?;
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("d.simdb");
    let mut owner = Command::new(program)
        .arg("serve")
        .arg(&database)
        .args(["--scheme", "external", "--max-distance", "3"])
        .stderr(Stdio::null())
        .spawn()?;
    let checked = check(&folder.path().join("d.simdb.sock"), &mut owner);
    owner.kill()?;
    owner.wait()?;
    checked?;
    println!("the client of Redis for Rust connects, asks and is answered");
    Ok(())
}

fn check(socket: &Path, owner: &mut Child) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        if owner.try_wait()?.is_some() || Instant::now() > end {
            return Err("nobody serves".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    for version in ["resp2", "resp3"] {
        let url = format!("redis+unix://{}?protocol={version}", socket.display());
        let mut connection = redis::Client::open(url)?.get_connection()?;
        ask(&mut connection, version)?;
    }
    Ok(())
}

fn ask(connection: &mut Connection, version: &str) -> Result<(), Box<dyn Error>> {
    let pong: String = redis::cmd("PING").query(connection)?;
    assert_eq!(pong, "PONG");
    let mut pipeline = redis::pipe();
    for number in 0..200u64 {
        let fingerprint = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let key = format!("{version} {number}");
        pipeline
            .cmd("SIM.ADD")
            .arg(key)
            .arg(fingerprint)
            .arg("ONMATCH")
            .arg("link");
    }
    let verdicts: Vec<HashMap<String, Value>> = pipeline.query(connection)?;
    assert_eq!(verdicts.len(), 200);
    assert!(
        verdicts
            .iter()
            .all(|verdict| verdict.contains_key("matches"))
    );

    let document: HashMap<String, Value> = redis::cmd("SIM.GET")
        .arg(format!("{version} 7"))
        .query(connection)?;
    let mut names: Vec<&str> = document.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "fingerprint",
        "key",
        "payload",
        "rank",
        "repeats",
        "scope",
        "seen",
        "shingles",
        "sketch",
    ];
    assert_eq!(names, expected);
    let nothing: Option<HashMap<String, Value>> =
        redis::cmd("SIM.GET").arg("x").query(connection)?;
    assert!(nothing.is_none());
    let refused: RedisResult<Value> = redis::cmd("SET").arg("a").arg("b").query(connection);
    assert!(refused.is_err_and(|error| error.to_string().contains("unknown command")));
    Ok(())
}
