//! The memory of the cache: what it may take, what it takes, and what it would need.

use simdb::inspect::Statistics;
use simdb::{Cache, Database, OpenOptions, Query};

use crate::support::{
    Folder, TestResult, assert_has, document, done, external, go_on, insert_all, keyed, query_of,
    run, spread,
};

const DOCUMENTS: u64 = 30_000;

fn create(folder: &Folder, name: &str) -> simdb::Result<Database> {
    let options = external().plan("4x16").recent_documents(1_000);
    let database = Database::create(folder.path(name), &options.cache(Cache::Bytes(64 << 20)))?;
    insert_all(&database, keyed(0..DOCUMENTS, |i| spread(i + 1)))?;
    database.settle()?;
    Ok(database)
}

/// Opens the database with a cache of so many bytes.
fn open_with(folder: &Folder, cache: u64) -> simdb::Result<Database> {
    let options = OpenOptions::new().cache(Cache::Bytes(cache as usize));
    Database::open(folder.path("d.simdb"), &options)
}

/// Asks for every document, so that all blocks of the tables and of the postings are read.
fn ask_for_all(database: &Database) -> TestResult {
    let snapshot = database.snapshot()?;
    for number in 0..DOCUMENTS {
        let query = query_of(spread(number + 1)).near(3).limit(0);
        assert!(
            snapshot.query(&query)?.total() > 0,
            "document {number} was not found"
        );
    }
    Ok(())
}

fn stats(database: &Database) -> simdb::Result<Statistics> {
    database.snapshot()?.stats()
}

/// All memory of a cache was for as many blocks as it could ever have, and a cache never became smaller.
#[test]
fn a_cache_grows_as_it_fills_and_gives_memory_back_under_a_lower_limit() -> TestResult {
    let folder = Folder::new()?;
    let database = create(&folder, "d.simdb")?;
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    let before = stats(&database)?;
    assert_eq!(before.cache_bytes, before.directory_bytes);
    ask_for_all(&database)?;
    let full = stats(&database)?;
    assert!(
        full.cache_bytes > full.table_bytes + full.posting_bytes,
        "{full:?}"
    );
    database.set_cache(Cache::Bytes(400_000))?;
    let less = stats(&database)?;
    assert!(
        less.cache_limit_bytes == 400_000 && less.cache_bytes <= 400_000,
        "{less:?}"
    );
    ask_for_all(&database)?;
    assert!(stats(&database)?.cache_bytes <= 400_000);
    database.set_cache(Cache::Share(0.1))?;
    ask_for_all(&database)?;
    assert!(stats(&database)?.cache_bytes > full.table_bytes);
    Ok(())
}

/// With the limit that the statistics name, nothing is read twice. With less, they say that it does not fit.
#[test]
fn with_what_the_statistics_ask_for_all_tables_fit() -> TestResult {
    let folder = Folder::new()?;
    drop(create(&folder, "d.simdb")?);
    let needs = stats(&open_with(&folder, 0)?)?;
    assert_eq!(
        (needs.table_bytes, needs.posting_bytes),
        (4 * 8 * DOCUMENTS, 16 * DOCUMENTS)
    );
    assert!(!needs.tables_fit && needs.tables_need_bytes < needs.queries_need_bytes);
    // More than the rows, but not much more.
    let rows = needs.table_bytes + needs.directory_bytes;
    assert!(
        (rows..rows * 2).contains(&needs.tables_need_bytes),
        "{needs:?}"
    );
    let database = open_with(&folder, needs.queries_need_bytes)?;
    ask_for_all(&database)?;
    let full = stats(&database)?;
    assert!(full.tables_fit);
    let blocks = full.cache_bytes - full.directory_bytes;
    assert!(blocks > full.table_bytes + full.posting_bytes, "{full:?}");
    drop(database);
    assert!(stats(&open_with(&folder, needs.tables_need_bytes)?)?.tables_fit);
    assert!(!stats(&open_with(&folder, needs.tables_need_bytes - 1)?)?.tables_fit);
    Ok(())
}

/// With a cache for half of the tables, each query read the file.
#[test]
fn with_room_for_signatures_a_query_near_nothing_reads_nothing() -> TestResult {
    let folder = Folder::new()?;
    drop(create(&folder, "d.simdb")?);
    let needs = stats(&open_with(&folder, 0)?)?;
    let tables = needs.tables_need_bytes - needs.directory_bytes;
    let signatures = needs.signatures_need_bytes - needs.directory_bytes;
    assert!(signatures * 3 < tables * 2, "{needs:?}");
    let database = open_with(&folder, needs.signatures_need_bytes)?;
    assert!(!stats(&database)?.tables_fit);
    let ask = |near: u64| -> simdb::Result<u64> {
        let before = database.metrics().cache_misses;
        let snapshot = database.snapshot()?;
        for number in 0..DOCUMENTS / 10 {
            let fingerprint = simdb::Fingerprint::from_bits(spread(number + 1) ^ near);
            let query = Query::new(fingerprint).near(3).limit(0);
            let total = snapshot.query(&query)?.total();
            assert_eq!(total > 0, near == 0, "document {number}");
        }
        Ok(database.metrics().cache_misses - before)
    };
    // All bits but the first 16 differ: the query meets candidates, and is near to none.
    let far = u64::MAX >> 16;
    for _ in 0..4 {
        ask(far)?;
    }
    assert_eq!(ask(far)?, 0);
    // What is found is read.
    assert_ne!(ask(0)?, 0);
    assert!(stats(&database)?.cache_bytes <= needs.signatures_need_bytes);
    Ok(())
}

/// Blocks that a merge had replaced stayed in the cache until it was full.
#[test]
fn replaced_blocks_leave_the_cache() -> TestResult {
    let folder = Folder::new()?;
    let database = create(&folder, "d.simdb")?;
    for round in 1..=8 {
        ask_for_all(&database)?;
        // Every block of every table gets some of these.
        let more =
            (0..2_000).map(|i| document(format!("{round}-{i}"), spread((i << 20 | round) + 1)));
        insert_all(&database, more)?;
        database.settle()?;
    }
    ask_for_all(&database)?;
    let full = stats(&database)?;
    // The keys were looked up too. Their rows take as much as postings.
    let most = full.queries_need_bytes + 2 * full.posting_bytes;
    assert!(full.cache_bytes < most, "{full:?}");
    database.compact(go_on)?;
    // The new file has as much in memory as queries had of the old one, and nothing of that.
    let compacted = stats(&database)?;
    let most = compacted.queries_need_bytes + 2 * compacted.posting_bytes;
    assert!(compacted.cache_bytes < most, "{compacted:?}");
    Ok(())
}

#[test]
fn the_command_says_what_it_would_take() -> TestResult {
    let folder = Folder::new()?;
    drop(create(&folder, "d.simdb")?);
    let path = folder.path("d.simdb");
    let fits = done!("stats", &path);
    assert!(
        fits.err.is_empty() && fits.out.contains("enough: queries need "),
        "{} {}",
        fits.out,
        fits.err
    );
    let small = done!("stats", &path, "--cache 100000");
    let told = "the tables do not fit into the cache of 100.0 kB";
    assert!(small.out.contains(told), "{}", small.out);
    let object = done!("stats", &path, "--cache 0% --json").object()?;
    assert_has!(object, {"tables_fit": false, "cache_limit_bytes": 0});
    for wrong in ["101%", "-1%", "NaN%", "much"] {
        run!("stats", &path, format!("--cache={wrong}")).refused("a share from 0% to 100%");
    }
    Ok(())
}

#[cfg(feature = "tracing")]
mod events {
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;

    /// Keeps the warnings, as text.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0 += &format!("{field}={value:?} ");
        }
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0
                .lock()
                .expect("no other thread panicked")
                .push(fields.0);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_log_is_told_once_that_the_tables_do_not_fit() -> TestResult {
        let folder = Folder::new()?;
        let warnings = Warnings::default();
        let database = create(&folder, "d.simdb")?;
        tracing::subscriber::with_default(warnings.clone(), || -> TestResult {
            database.set_cache(Cache::Bytes(64 << 20))?;
            assert!(
                warnings
                    .0
                    .lock()
                    .expect("no other thread panicked")
                    .is_empty()
            );
            database.set_cache(Cache::Bytes(100_000))?;
            database.set_cache(Cache::Bytes(90_000))?;
            insert_all(&database, [document("another", 5)]).map_err(Into::into)
        })?;
        let told = warnings.0.lock().expect("no other thread panicked");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("cache_limit_bytes=100000") && told[0].contains("tables_need_bytes=")
        );
        Ok(())
    }
}
