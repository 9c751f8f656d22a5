//! No miss, no false match: the answers of the real path against enumeration and against a linear scan.

use simdb::{Database, Fingerprint, Query};

use crate::support::{Folder, TestResult, bundled, document, fingerprints, insert_all, rows};

/// Every word with at most three bits set: 1 + 64 + 2,016 + 41,664.
fn differences_up_to_three_bits() -> Vec<u64> {
    let bit = |at: u32| 1u64 << at;
    let mut differences = vec![0];
    for a in 0..64 {
        differences.push(bit(a));
        for b in 0..a {
            differences.push(bit(a) | bit(b));
            differences.extend((0..b).map(|c| bit(a) | bit(b) | bit(c)));
        }
    }
    differences
}

#[test]
fn one_stored_fingerprint_is_found_from_every_query_within_three_bits() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("one.simdb")?;
    let stored = 0x0123_4567_89ab_cdef;
    insert_all(&database, [document("it", stored)])?;
    let snapshot = database.snapshot()?;
    let differences = differences_up_to_three_bits();
    assert_eq!(differences.len(), 43_745);
    for max_distance in 0..=3 {
        let queries: Vec<Query> = differences
            .iter()
            .map(|difference| {
                Query::new(Fingerprint::from_bits(stored ^ difference)).max_distance(max_distance)
            })
            .collect();
        for (difference, found) in differences.iter().zip(snapshot.query_batch(&queries)?) {
            let expected = difference.count_ones() <= max_distance;
            assert_eq!(found.total() == 1, expected, "difference {difference:#x} at {max_distance}");
        }
    }
    Ok(())
}

#[test]
fn every_stored_fingerprint_within_three_bits_is_found_from_one_query() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("all.simdb")?;
    let query = 0xfeed_face_cafe_beef;
    let differences = differences_up_to_three_bits();
    // And as many that are just too far.
    let too_far = differences.iter().filter(|it| it.count_ones() == 3).map(|it| it | (it << 1) | (it >> 1));
    let all = differences.iter().copied().chain(too_far);
    insert_all(&database, all.map(|it| document(it.to_le_bytes(), query ^ it)))?;
    let snapshot = database.snapshot()?;
    for (max_distance, expected) in [(0, 1), (1, 65), (2, 2_081), (3, 43_745)] {
        let found = snapshot
            .query(&Query::new(Fingerprint::from_bits(query)).max_distance(max_distance).limit(usize::MAX))?;
        assert_eq!(found.total(), expected);
        assert_eq!(found.iter().count() as u64, expected);
        assert!(found.iter().all(|near| near.distance <= max_distance));
    }
    Ok(())
}

/// How many of `stored` lie within each distance of `query`.
fn counts_by_scan(stored: &[u64], query: u64) -> [u64; 65] {
    let mut counts = [0; 65];
    for bits in stored {
        counts[(bits ^ query).count_ones() as usize] += 1;
    }
    for distance in 1..65 {
        counts[distance] += counts[distance - 1];
    }
    counts
}

#[test]
fn real_fingerprints_give_the_counts_of_a_linear_scan_at_every_distance() -> TestResult {
    let folder = Folder::new()?;
    let database: Database = folder.database("real.simdb")?;
    let stored = fingerprints(&bundled("fp-real/fp.u64le"))?;
    insert_all(&database, stored.iter().enumerate().map(|(i, &bits)| document(i.to_string(), bits)))?;
    let asked = rows(&bundled("fp-real/queries.tsv"))?;
    let asked = asked.iter().map(|row| row[1].parse()).collect::<Result<Vec<Fingerprint>, _>>()?;
    // Queries near stored values too, so that something is found at small distances.
    let asked: Vec<Fingerprint> = asked
        .into_iter()
        .chain(stored.iter().step_by(97).map(|bits| Fingerprint::from_bits(bits ^ 0x8001)))
        .collect();
    let snapshot = database.snapshot()?;
    let mut matched = 0;
    for max_distance in (0..=16).chain([31, 32, 63, 64]) {
        let queries: Vec<Query> =
            asked.iter().map(|&it| Query::new(it).max_distance(max_distance).limit(2)).collect();
        for (query, found) in asked.iter().zip(snapshot.query_batch(&queries)?) {
            let expected = counts_by_scan(&stored, query.bits())[max_distance as usize];
            assert_eq!(found.total(), expected, "query {query} at {max_distance}");
            assert_eq!(found.iter().count() as u64, expected.min(2));
            matched += u64::from(max_distance <= 3) * expected;
        }
    }
    assert!(matched > 400, "the queries must find something, and found {matched}");
    Ok(())
}
