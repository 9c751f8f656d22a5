//! What a binding of another language needs: iterators that own what they read, waits in pieces, kinds of errors.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use simdb::{
    Change, ClusterEvent, Clustering, Database, Document, Error, ErrorKind, Fingerprinter, Match,
    Matches, Near, Pair, PairEvent, Policy, Scheme, Snapshot, Verdict, WriterOptions,
};

use crate::support::random::Random;
use crate::support::{
    Folder, LIMIT, TestResult, document, insert_all, keyed, query_of, spread, within,
};

/// A database with many pairs: each fingerprint has some near ones.
fn crowded(folder: &Folder, documents: u64) -> simdb::Result<Database> {
    let database = folder.database("d.simdb")?;
    let near = |i: u64| spread(i % 97) ^ (1 << (i % 50));
    insert_all(&database, keyed(0..documents, near))?;
    Ok(database)
}

/// The pairs that a search gives to a function.
fn pairs_of_run(snapshot: &Snapshot) -> simdb::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    snapshot.pairs(3).run(|event| {
        if let PairEvent::Pair(pair) = event {
            pairs.push(pair);
        }
        ControlFlow::Continue(())
    })?;
    Ok(pairs)
}

#[test]
fn iterators_give_what_the_calls_give_and_outlive_snapshot_and_database() -> TestResult {
    let folder = Folder::new()?;
    let database = crowded(&folder, 3_000)?;
    let snapshot = database.snapshot()?;
    let expected_pairs = pairs_of_run(&snapshot)?;
    assert!(expected_pairs.len() > 2_000, "{}", expected_pairs.len());
    let clustering = Clustering::new().near(3);
    let mut expected_clusters = Vec::new();
    snapshot.clusters(&clustering, |event| {
        if let ClusterEvent::Cluster(cluster) = event {
            expected_clusters.push(cluster);
        }
        ControlFlow::Continue(())
    })?;
    assert!(expected_clusters.len() > 10, "{}", expected_clusters.len());
    let expected: Vec<Document> = snapshot.documents().collect::<simdb::Result<_>>()?;

    let documents = snapshot.documents();
    let pairs = snapshot.pairs(3).into_iter();
    let clusters = snapshot.each_cluster(&clustering);
    drop((snapshot, database));
    assert_eq!(documents.collect::<simdb::Result<Vec<_>>>()?, expected);
    let mut found = Vec::new();
    for event in pairs {
        if let PairEvent::Pair(pair) = event? {
            found.push(pair);
        }
    }
    assert_eq!(found, expected_pairs);
    let mut found = Vec::new();
    for event in clusters {
        if let ClusterEvent::Cluster(cluster) = event? {
            found.push(cluster);
        }
    }
    assert_eq!(found, expected_clusters);
    Ok(())
}

/// The thread of a search holds the file. So it has to end with its iterator, at the first result or at any later.
#[test]
fn an_iterator_that_is_dropped_ends_its_search_and_lets_the_file_go() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    drop(crowded(&folder, 20_000)?);
    for taken in [0, 1, 700, 5_000] {
        let path = path.clone();
        within(LIMIT, move || {
            let database = Database::open(&path, &simdb::OpenOptions::new())?;
            let mut pairs = database.snapshot()?.pairs(8).into_iter();
            for event in pairs.by_ref().take(taken) {
                event?;
            }
            drop((pairs, database));
            Database::open(&path, &simdb::OpenOptions::new()).map(drop)
        })?;
    }
    Ok(())
}

#[test]
fn an_error_of_a_search_is_the_last_that_its_iterator_gives() -> TestResult {
    let folder = Folder::new()?;
    let snapshot = crowded(&folder, 10)?.snapshot()?;
    let mut pairs = snapshot.pairs(65).into_iter();
    assert!(matches!(
        pairs.next(),
        Some(Err(Error::MaxDistance { given: 65, .. }))
    ));
    assert!(pairs.next().is_none() && pairs.next().is_none());
    let mut clusters = snapshot.each_cluster(&Clustering::new().near(65));
    assert!(matches!(
        clusters.next(),
        Some(Err(Error::MaxDistance { given: 65, .. }))
    ));
    assert!(clusters.next().is_none());
    Ok(())
}

#[test]
fn a_ticket_can_be_waited_for_in_pieces() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.database("d.simdb")?);
    let writer = database.writer(WriterOptions::new())?;
    // The writer waits for its turn as long as a transaction of another thread is open.
    let (begun, is_begun) = std::sync::mpsc::channel();
    let (end, is_to_end) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn({
        let database = database.clone();
        move || {
            let txn = database.begin_write()?;
            begun.send(()).expect("the test goes on");
            is_to_end.recv().expect("the test goes on");
            txn.commit()
        }
    });
    is_begun.recv()?;
    let mut ticket = writer.submit(document("a", 1), &Policy::skip())?;
    for _ in 0..3 {
        let before = Instant::now();
        ticket = match ticket.wait_for(Duration::from_millis(20)) {
            Err(ticket) => ticket,
            Ok(answer) => panic!("an answer before its turn: {answer:?}"),
        };
        assert!(before.elapsed() >= Duration::from_millis(20));
    }
    end.send(())?;
    let verdict = ticket.wait_for(LIMIT).expect("the answer is in time")?;
    assert!(!verdict.is_duplicate());
    other.join().expect("no thread panics")?;
    // Zero takes an answer that is there, and a time without end is one.
    let ticket = writer.submit(document("b", 1), &Policy::skip())?;
    writer.flush()?;
    let verdict = ticket
        .wait_for(Duration::ZERO)
        .expect("the answer is there")?;
    assert!(verdict.is_duplicate());
    let ticket = writer.submit(document("c", u64::MAX), &Policy::skip())?;
    let verdict = ticket.wait_for(Duration::MAX).expect("without an end")?;
    assert!(!verdict.is_duplicate());
    Ok(())
}

/// After random changes, a transaction finds what a snapshot finds behind its commit.
#[test]
fn a_query_of_a_transaction_sees_what_it_has_written_and_removed() -> TestResult {
    let folder = Folder::new()?;
    let database = crowded(&folder, 500)?;
    let mut random = Random::new(7);
    for round in 0..20u64 {
        let mut txn = database.begin_write()?;
        let near = |i: u64| spread(i % 97) ^ (1 << (i % 50));
        // Few changes are compared one by one, many by tables.
        for _ in 0..[3, 40, 2_000][round as usize % 3] {
            let key = random.below(3_000);
            if random.one_in(3) {
                txn.delete(key.to_string())?;
            } else {
                txn.insert(&document(key.to_string(), near(random.below(1 << 40))))?;
            }
        }
        let mut asked = Vec::new();
        for distance in [0, 1, 3, 8, 20, 64] {
            let query = query_of(near(random.below(1 << 40)));
            let query = query.near(Near::within(distance)).limit(usize::MAX);
            asked.push((txn.query(&query)?, query));
        }
        txn.commit()?;
        let snapshot = database.snapshot()?;
        for (found, query) in asked {
            assert_eq!(found, snapshot.query(&query)?, "round {round}, {query:?}");
        }
    }
    Ok(())
}

#[test]
fn fingerprints_of_many_texts_are_those_of_each() -> TestResult {
    let texts: Vec<String> = (0..200)
        .map(|i| {
            format!("{} ", (i * 7919) % 101).repeat(i) + &"many words of a text ".repeat(i % 5)
        })
        .collect();
    for &scheme in Scheme::ALL {
        let Ok(fingerprinter) = Fingerprinter::new(scheme) else {
            continue;
        };
        let each: Vec<_> = texts
            .iter()
            .map(|text| fingerprinter.fingerprint_and_sketch(text))
            .collect();
        assert_eq!(fingerprinter.fingerprints_and_sketches(&texts), each);
        assert!(each.iter().any(Option::is_some) && each.iter().any(Option::is_none));
    }
    Ok(())
}

#[test]
fn verdicts_can_be_made_of_their_parts() -> TestResult {
    let folder = Folder::new()?;
    let database = crowded(&folder, 200)?;
    let mut txn = database.begin_write()?;
    let verdict = txn.insert_if_new(&document("new", 2), &Policy::link().limit(3))?;
    let list = verdict
        .matches()
        .iter()
        .map(|found| Match::new(found.document.clone(), found.distance, found.similarity));
    let matches = Matches::new(
        list.collect(),
        verdict.matches().total(),
        verdict.matches().total_is_exact(),
    );
    let again = Verdict::new(Change::Inserted, matches, verdict.deleted().to_vec());
    assert_eq!(again, verdict);
    Ok(())
}

#[test]
fn errors_say_what_a_caller_can_do() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let open = || Database::open(&path, &simdb::OpenOptions::new());
    assert_eq!(open().map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    let database = folder.database("d.simdb")?;
    assert_eq!(open().map(drop).unwrap_err().kind(), ErrorKind::Busy);
    let exists = folder.database("d.simdb").map(drop).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    let mut txn = database.begin_write()?;
    let no_key = txn.insert(&document("", 1)).unwrap_err();
    assert_eq!(no_key.kind(), ErrorKind::Input);
    drop(txn);
    let snapshot = database.snapshot()?;
    database.close()?;
    assert_eq!(snapshot.get("a").unwrap_err().kind(), ErrorKind::Closed);
    let garbage = folder.file("garbage.simdb", [7; 9_000])?;
    let damaged = Database::open(&garbage, &simdb::OpenOptions::new()).map(drop);
    assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Damaged);
    Ok(())
}
