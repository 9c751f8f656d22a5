//! What is written of a damaged database, as rows of Parquet and as a dump, is all of it as it was, or an error.

use std::fs;

use simdb::parquet::Export;
use simdb::{Database, OpenOptions, SketchSize};

use crate::support::random::{Random, amount, seed_or};
use crate::support::{Folder, TestResult, document, done, external, go_on, insert_all, run};

const PAGE: usize = 4096;

/// Damages a page behind the first, which says where the others are.
fn damage(file: &mut [u8], random: &mut Random) {
    let pages = file.len() / PAGE;
    let page = (1 + random.index(pages - 1)) * PAGE;
    match random.below(4) {
        0 | 1 => file[page + random.index(PAGE)] ^= 1 << random.below(8),
        2 => file[page..page + PAGE].fill(0),
        _ => {
            let other = (1 + random.index(pages - 1)) * PAGE;
            let content = file[other..other + PAGE].to_vec();
            file[page..page + PAGE].copy_from_slice(&content);
        }
    }
}

#[test]
fn what_is_exported_of_a_damaged_file_is_whole_or_an_error() -> TestResult {
    let folder = Folder::in_memory()?;
    let sound = folder.path("sound.simdb");
    let options = external()
        .sketch_size(SketchSize::None)
        .recent_documents(32)
        .tiny_blocks();
    let database = Database::create(&sound, &options)?;
    for first in (0..400).step_by(40) {
        let documents = (first..first + 40).map(|number: u64| {
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            document(format!("page {number}"), bits).with_payload(format!("{bits:0>200}"))
        });
        insert_all(&database, documents)?;
    }
    // Of pages that nothing is in, damage is no matter.
    database.compact(go_on)?;
    drop(database);
    let export = |name: &str| -> simdb::Result<Vec<u8>> {
        let read = OpenOptions::new().read_only(true).tiny_blocks();
        let database = Database::open(folder.path(name), &read)?;
        let exported = folder.path("exported.parquet");
        let export = Export::of(&database.snapshot()?)
            .payloads(true)
            .run(&exported, go_on);
        let written = fs::read(&exported);
        _ = fs::remove_file(&exported);
        assert_eq!(export.is_ok(), written.is_ok(), "{export:?}");
        export.map(|_| written.expect("it was just asked"))
    };
    let whole = export("sound.simdb")?;
    let dumped = done!("dump", &sound).out;
    let file = fs::read(&sound)?;
    let mut random = Random::new(seed_or(31));
    let mut refused = 0;
    for round in 0..amount("SIMDB_EXPORTS", 300, 20_000) {
        let seed = random.clone();
        let mut damaged = file.clone();
        damage(&mut damaged, &mut random);
        let path = folder.file("damaged.simdb", damaged)?;
        match export("damaged.simdb") {
            Ok(written) => assert!(written == whole, "{seed:?}: other rows"),
            Err(_) => refused += 1,
        }
        if round % 10 == 0 {
            let ran = run!("dump", &path);
            match ran.code {
                Some(0) => assert!(ran.out == dumped, "{seed:?}: another dump"),
                _ => _ = ran.refused("damaged.simdb"),
            }
        }
    }
    assert!(refused > 50, "{refused} were refused");
    Ok(())
}
