//! The cost of a fingerprint that a million documents share, beside the cost of fingerprints of one
//! document each.
//!
//! Corpus: a million documents with one fingerprint, and a million with uniformly random fingerprints from
//! a fixed seed. Keys have up to 8 bytes. The database is built at once. A query asks at distance 0 for
//! the total and the first three documents. A verdict is an `insert_if_new` at distance 0, which stores
//! the document. A deletion takes a document that was built. Writes go to one transaction, which is not
//! committed.

mod support;

use std::cell::RefCell;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use simdb::{CreateOptions, Database, Document, Fingerprint, Policy, Query, Scheme};
use support::random;

const DOCUMENTS: u64 = 1_000_000;
const HOT: u64 = 0x0123_4567_89ab_cdef;

/// The documents with odd numbers share a fingerprint.
fn document(n: u64) -> Document {
    let bits = if n % 2 == 1 { HOT } else { random(n) };
    Document::new(n.to_string(), Fingerprint::from_bits(bits)).with_seen(0)
}

fn bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the database");
    let options = CreateOptions::new().scheme(Scheme::External);
    let documents = (0..2 * DOCUMENTS).map(|n| Ok(document(n)));
    let database = Database::build(
        folder.path().join("d.simdb"),
        &options,
        documents,
        256 << 20,
    )
    .expect("the folder is writable");
    let snapshot = database.snapshot().expect("the file can be read");
    let mut group = criterion.benchmark_group("hot");
    for (name, odd, expected) in [("hot", 1, DOCUMENTS), ("cold", 0, 1)] {
        let mut number = odd;
        let mut next = || {
            // The numbers are far from one another and repeat in the same order, so neither kind is cached
            // better.
            number = (number + 2 * 7_919) % (2 * 50_000);
            document(number)
        };
        group.bench_function(format!("total/{name}/1e6"), |bencher| {
            bencher.iter(|| {
                let fingerprint = next().fingerprint().expect("every document has one");
                let found = snapshot.query(&Query::new(fingerprint).near(0).limit(3));
                assert_eq!(found.expect("the file can be read").total(), expected);
            });
        });
        let txn = RefCell::new(database.begin_write().expect("no other transaction writes"));
        let mut fresh = 2 * DOCUMENTS + odd;
        group.bench_function(format!("verdict/{name}/1e6"), |bencher| {
            bencher.iter_batched(
                || {
                    fresh += 2;
                    document(fresh)
                },
                |document| {
                    let policy = Policy::link().near(0).limit(1);
                    txn.borrow_mut()
                        .insert_if_new(&document, &policy)
                        .expect("the file can be read")
                },
                BatchSize::SmallInput,
            );
        });
        let mut gone = odd;
        group.bench_function(format!("delete/{name}/1e6"), |bencher| {
            bencher.iter_batched(
                || {
                    gone += 2;
                    gone.to_string()
                },
                |key| txn.borrow_mut().delete(key).expect("the file can be read"),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
