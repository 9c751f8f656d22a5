//! How fast documents are stored, one durable commit for each batch.
//!
//! Corpus: uniformly random fingerprints from a fixed seed, keys of 8 bytes. Each iteration inserts one batch of new
//! documents into a database that grows from 100,000 documents on, by `insert_if_new` (with its query) or by `insert`.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use simdb::{CreateOptions, Database, Document, Fingerprint, Policy, Scheme};
use support::random;

fn document(n: u64) -> Document {
    Document::new(n.to_le_bytes(), Fingerprint::from_bits(random(n))).with_seen(0)
}

fn insert(database: &Database, numbers: std::ops::Range<u64>, if_new: bool) -> simdb::Result<()> {
    let mut txn = database.begin_write()?;
    for n in numbers {
        if if_new {
            txn.insert_if_new(&document(n), &Policy::link())?;
        } else {
            txn.insert(&document(n))?;
        }
    }
    txn.commit()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert");
    group.sample_size(10);
    for (name, batch, if_new) in
        [("plain", 10_000, false), ("if-new", 10_000, true), ("plain", 1_000, false), ("plain", 1, false)]
    {
        let folder = tempfile::tempdir().expect("a folder for the database");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database =
            Database::create(folder.path().join("d.simdb"), &options).expect("the folder is writable");
        let mut next = 100_000;
        insert(&database, 0..next, false).expect("the disk has room");
        let stored = database.snapshot().and_then(|it| it.stats()).expect("the file can be read").documents;
        assert_eq!(stored, next);
        group.throughput(Throughput::Elements(batch));
        group.bench_function(format!("{name}/uniform/1e5+/batch-{batch}"), |bencher| {
            bencher.iter_batched(
                || {
                    next += batch;
                    next - batch..next
                },
                |numbers| insert(&database, numbers, if_new).expect("the disk has room"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
