//! The time of one query, warm, on one thread, and of many queries at once, on all threads.
//!
//! Corpora: `uniform` is 200,000 random fingerprints from a fixed seed. `real` is the bundled 20,000
//! fingerprints of real paragraphs. Half of the queries are stored fingerprints with two bits flipped. The
//! other half are random. Some answers are compared with a linear scan before they are timed. Times are
//! per query. Opening the database is left out.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use simdb::{CreateOptions, Database, Document, Fingerprint, Query, Scheme, Snapshot};
use support::random;

fn real() -> Vec<u64> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fp-real/fp.u64le");
    let bytes = std::fs::read(path).expect("the bundled fingerprints are there");
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect()
}

fn database(folder: &std::path::Path, stored: &[u64]) -> simdb::Result<Database> {
    let database = Database::create(
        folder.join("d.simdb"),
        &CreateOptions::new().scheme(Scheme::External),
    )?;
    let mut txn = database.begin_write()?;
    for (n, &bits) in stored.iter().enumerate() {
        txn.insert(&Document::new(n.to_le_bytes(), Fingerprint::from_bits(bits)).with_seen(0))?;
    }
    txn.commit()?;
    Ok(database)
}

fn queries(stored: &[u64], max_distance: u32) -> Vec<Query> {
    let near = stored
        .iter()
        .step_by(stored.len() / 500)
        .map(|bits| bits ^ 0x0001_0000_0100_0000);
    let anywhere = (0..500).map(|n| random(n + (1 << 40)));
    let query = |bits| Query::new(Fingerprint::from_bits(bits)).near(max_distance);
    near.zip(anywhere)
        .flat_map(|(near, anywhere)| [near, anywhere])
        .map(query)
        .collect()
}

fn assert_exact(snapshot: &Snapshot, stored: &[u64], queries: &[Query], max_distance: u32) {
    for query in queries.iter().take(100) {
        let near = |bits: &&u64| {
            Fingerprint::from_bits(**bits).distance(query.fingerprint()) <= max_distance
        };
        let expected = stored.iter().filter(near).count() as u64;
        assert_eq!(
            snapshot.query(query).expect("the file can be read").total(),
            expected
        );
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("query");
    group.sample_size(20);
    let corpora = [
        (
            "uniform/2e5",
            (0..200_000).map(random).collect::<Vec<u64>>(),
        ),
        ("real/2e4", real()),
    ];
    for (corpus, stored) in corpora {
        let folder = tempfile::tempdir().expect("a folder for the database");
        let database = database(folder.path(), &stored).expect("the disk has room");
        let snapshot = database.snapshot().expect("the file can be read");
        for max_distance in [0, 3, 7] {
            let queries = queries(&stored, max_distance);
            assert_exact(&snapshot, &stored, &queries, max_distance);
            let mut next = queries.iter().cycle();
            group.throughput(Throughput::Elements(1));
            group.bench_function(format!("near/{corpus}/k{max_distance}"), |bencher| {
                bencher.iter(|| {
                    next.next()
                        .map(|query| snapshot.query(query).map(|found| found.total()))
                });
            });
            group.throughput(Throughput::Elements(queries.len() as u64));
            group.bench_function(format!("batch/{corpus}/k{max_distance}"), |bencher| {
                bencher.iter(|| snapshot.query_batch(&queries).map(|found| found.len()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
