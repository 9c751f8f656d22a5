//! No match is missed and none is false. The answers of the whole path from the query to the matches are
//! compared with enumeration and with a linear scan.

use simdb::{Cache, Database, Fingerprint, OpenOptions, Query, Snapshot};

use crate::support::{
    Folder, TestResult, assert_sound, bundled, document, external, fingerprints, go_on, insert_all,
    query_of, rows, scattered,
};

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

/// Plans of every family.
const PLANS: [&str; 14] = [
    "2x32", "3x42", "3x21", "7x36", "6x32", "4x16", "6x21", "10x25", "11x28", "14x32", "5x12",
    "9x14", "8x8", "30x16",
];

#[test]
fn one_stored_fingerprint_is_found_from_every_query_within_three_bits_under_every_plan()
-> TestResult {
    let folder = Folder::new()?;
    let stored = 0x0123_4567_89ab_cdef;
    let differences = differences_up_to_three_bits();
    assert_eq!(differences.len(), 43_745);
    for plan in PLANS {
        let options = external().plan(plan).recent_documents(2_000);
        let database = Database::create(folder.path(plan), &options)?;
        insert_all(&database, [document("it", stored)])?;
        // Other fingerprints, far from the first. With them, probes cost less than a scan.
        let others = (0..20_000)
            .map(scattered)
            .filter(|it| (it ^ stored).count_ones() > 12);
        insert_all(&database, others.map(|it| document(it.to_le_bytes(), it)))?;
        let snapshot = database.snapshot()?;
        for max_distance in 0..=3 {
            let query = |difference| query_of(stored ^ difference).near(max_distance);
            let queries: Vec<Query> = differences.iter().map(|&it| query(it)).collect();
            let (_, explanation) = snapshot.explain(&query(0))?;
            assert!(
                !explanation.probes.is_empty(),
                "{plan} at {max_distance}: {explanation:?}"
            );
            for (difference, found) in differences.iter().zip(snapshot.query_batch(&queries)?) {
                let expected = difference.count_ones() <= max_distance;
                assert_eq!(
                    found.total() == 1,
                    expected,
                    "{plan}: difference {difference:#x} at {max_distance}"
                );
            }
        }
    }
    Ok(())
}

/// The counts of queries, alone and together, are those of a linear scan.
fn assert_counts(
    snapshot: &Snapshot,
    plan: &str,
    asked: &[(u64, [u64; 65])],
    distances: impl IntoIterator<Item = u32>,
) -> TestResult {
    for max_distance in distances {
        let query = |bits| query_of(bits).near(max_distance).limit(0);
        let queries: Vec<Query> = asked.iter().map(|(bits, _)| query(*bits)).collect();
        for ((bits, counts), found) in asked.iter().zip(snapshot.query_batch(&queries)?) {
            let expected = counts[max_distance as usize];
            let told = format!("{plan}: {bits:#x} at {max_distance}");
            assert_eq!(found.total(), expected, "{told}");
            assert_eq!(snapshot.query(&query(*bits))?.total(), expected, "{told}");
            assert_eq!(snapshot.any_match(&query(*bits))?, expected > 0, "{told}");
        }
    }
    Ok(())
}

#[test]
fn every_plan_gives_the_counts_of_a_linear_scan_at_every_distance() -> TestResult {
    let folder = Folder::new()?;
    // Uniform fingerprints, a crowded prefix, and clusters of neighbours.
    let uniform = (0..15_000).map(scattered);
    let crowded = (0..1_000).map(|i| 0xabcd << 48 | scattered(i) >> 16);
    let clustered =
        (0..4_000).map(|i| scattered(i / 40) ^ 1 << (i % 64) ^ 1 << (scattered(i) % 64));
    let stored: Vec<u64> = uniform.chain(crowded).chain(clustered).collect();
    let asked: Vec<_> = (0..40)
        .map(|i| stored[i * 500] ^ (1 << i) ^ 3)
        .map(|bits| (bits, counts_by_scan(&stored, bits)))
        .collect();
    for plan in PLANS {
        let options = external().plan(plan).recent_documents(3_000);
        let mut database = Database::create(folder.path(plan), &options)?;
        for (batch, bits) in stored.chunks(1_000).enumerate() {
            insert_all(
                &database,
                bits.iter()
                    .enumerate()
                    .map(|(i, &it)| document(format!("{batch} {i}"), it)),
            )?;
        }
        let snapshot = database.snapshot()?;
        assert_counts(&snapshot, plan, &asked, 0..=16)?;
        drop(snapshot);
        // With signatures of the rows in memory, in levels or one level, and with not even room for these.
        for compacts in [false, true] {
            database.settle()?;
            if compacts {
                database.compact(go_on)?;
            }
            let needs = database.snapshot()?.stats()?;
            for bytes in [needs.signatures_need_bytes, needs.signatures_need_bytes / 2] {
                drop(database);
                let cache = OpenOptions::new().cache(Cache::Bytes(bytes as usize));
                database = Database::open(folder.path(plan), &cache)?;
                let snapshot = database.snapshot()?;
                for _ in 0..3 {
                    assert_counts(&snapshot, plan, &asked[..10], [3, 6, 8])?;
                }
                let stats = snapshot.stats()?;
                let rows = stats.cache_bytes - stats.directory_bytes;
                let has_room = bytes == needs.signatures_need_bytes;
                assert!(
                    !stats.tables_fit && (rows > 0 || !has_room),
                    "{plan}: {stats:?}"
                );
            }
        }
        assert_sound(&database)?;
    }
    Ok(())
}

#[test]
fn every_stored_fingerprint_within_three_bits_is_found_from_one_query() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("all.simdb")?;
    let query = 0xfeed_face_cafe_beef;
    let differences = differences_up_to_three_bits();
    // Beside them, fingerprints at distances 4 to 9, which are too far.
    let too_far = differences
        .iter()
        .filter(|it| it.count_ones() == 3)
        .map(|it| it | (it << 1) | (it >> 1));
    let all = differences.iter().copied().chain(too_far);
    insert_all(
        &database,
        all.map(|it| document(it.to_le_bytes(), query ^ it)),
    )?;
    let snapshot = database.snapshot()?;
    for (max_distance, expected) in [(0, 1), (1, 65), (2, 2_081), (3, 43_745)] {
        let found = snapshot.query(&query_of(query).near(max_distance).limit(usize::MAX))?;
        assert_eq!(found.total(), expected);
        assert_eq!(found.iter().count() as u64, expected);
        assert!(found.iter().all(|near| near.distance <= max_distance));
    }
    Ok(())
}

/// For each distance, the number of fingerprints of `stored` within it of `query`.
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
    insert_all(
        &database,
        stored
            .iter()
            .enumerate()
            .map(|(i, &bits)| document(i.to_string(), bits)),
    )?;
    let asked = rows(&bundled("fp-real/queries.tsv"))?;
    let asked = asked
        .iter()
        .map(|row| row[1].parse())
        .collect::<Result<Vec<Fingerprint>, _>>()?;
    // Queries near stored values too, so small distances have matches.
    let asked: Vec<Fingerprint> = asked
        .into_iter()
        .chain(
            stored
                .iter()
                .step_by(97)
                .map(|bits| Fingerprint::from_bits(bits ^ 0x8001)),
        )
        .collect();
    let counts: Vec<_> = asked
        .iter()
        .map(|query| counts_by_scan(&stored, query.bits()))
        .collect();
    let snapshot = database.snapshot()?;
    let mut matched = 0;
    for max_distance in (0..=16).chain([31, 32, 63, 64]) {
        let queries: Vec<Query> = asked
            .iter()
            .map(|&it| Query::new(it).near(max_distance).limit(2))
            .collect();
        let answers = snapshot.query_batch(&queries)?;
        for ((query, counts), found) in asked.iter().zip(&counts).zip(answers) {
            let expected = counts[max_distance as usize];
            assert_eq!(found.total(), expected, "query {query} at {max_distance}");
            assert_eq!(found.iter().count() as u64, expected.min(2));
            matched += u64::from(max_distance <= 3) * expected;
        }
    }
    assert!(
        matched > 400,
        "the queries must find something, and found {matched}"
    );
    Ok(())
}
