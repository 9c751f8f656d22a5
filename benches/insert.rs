//! The speed at which documents are stored, with one durable commit for each batch.
//!
//! Corpus: uniformly random fingerprints from a fixed seed, keys of 8 bytes. Each iteration inserts one
//! batch of new documents into a database that has 100,000 documents at first and grows. It inserts by
//! `insert`, by `insert_if_new`, which queries, or by `insert_batch_if_new`.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use simdb::{CreateOptions, Database, Document, Fingerprint, Policy, Scheme, WriteTxn};
use support::random;

fn document(n: u64) -> Document {
    Document::new(n.to_le_bytes(), Fingerprint::from_bits(random(n))).with_seen(0)
}

type Insert = fn(&mut WriteTxn, std::ops::Range<u64>) -> simdb::Result<()>;

fn plain(txn: &mut WriteTxn, numbers: std::ops::Range<u64>) -> simdb::Result<()> {
    numbers
        .map(document)
        .try_for_each(|document| txn.insert(&document).map(drop))
}

fn if_new(txn: &mut WriteTxn, numbers: std::ops::Range<u64>) -> simdb::Result<()> {
    numbers
        .map(document)
        .try_for_each(|document| txn.insert_if_new(&document, &Policy::link()).map(drop))
}

fn batch_if_new(txn: &mut WriteTxn, numbers: std::ops::Range<u64>) -> simdb::Result<()> {
    let documents: Vec<Document> = numbers.map(document).collect();
    txn.insert_batch_if_new(&documents, &Policy::link())
        .map(drop)
}

fn insert(database: &Database, numbers: std::ops::Range<u64>, insert: Insert) -> simdb::Result<()> {
    let mut txn = database.begin_write()?;
    insert(&mut txn, numbers)?;
    txn.commit()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert");
    group.sample_size(10);
    let cases: [(&str, u64, Insert); 5] = [
        ("plain", 10_000, plain),
        ("if-new", 10_000, if_new),
        ("batch-if-new", 10_000, batch_if_new),
        ("plain", 1_000, plain),
        ("plain", 1, plain),
    ];
    for (name, batch, how) in cases {
        let folder = tempfile::tempdir().expect("a folder for the database");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database = Database::create(folder.path().join("d.simdb"), &options)
            .expect("the folder is writable");
        let mut next = 100_000;
        insert(&database, 0..next, plain).expect("the disk has room");
        let stored = database
            .snapshot()
            .and_then(|it| it.stats())
            .expect("the file can be read")
            .documents;
        assert_eq!(stored, next);
        group.throughput(Throughput::Elements(batch));
        group.bench_function(format!("{name}/uniform/1e5+/batch-{batch}"), |bencher| {
            bencher.iter_batched(
                || {
                    next += batch;
                    next - batch..next
                },
                |numbers| insert(&database, numbers, how).expect("the disk has room"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
