//! How much of a text stood elsewhere: against counts by hand and by brute force, as a command, and through a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use simdb::ingest::{ReadOptions, Records};
use simdb::{
    CreateOptions, Database, Document, Error, Near, Overlap, OverlapDocument, OverlapQuery, Scheme,
    Snapshot, Unit, WriteTxn,
};

use crate::support::{
    Folder, TestResult, assert_error, assert_has, assert_sound, bundled, done, figures, go_on,
    insert_all, jaccard, program, real_data, run, run_with_input,
};

/// Sentences of 40, 32, 48 and 36 characters.
const RIVER: &str = "The river rose above its banks at night.";
const SCHOOL: &str = "Schools stay closed until Friday";
const HELPERS: &str = "The helpers of the town have worked until seven.";
const BRIDGE: &str = "The old bridge was washed away here.";

fn options() -> CreateOptions {
    CreateOptions::new()
        .scheme(Scheme::MinwiseShort1)
        .max_distance(5)
}

/// Stores a document sentence by sentence, as `ingest --unit sentence` does.
fn store(txn: &mut WriteTxn, database: &Database, new: &Document, text: &str) -> simdb::Result<()> {
    let fingerprinter = database.fingerprinter()?;
    for (number, sentence) in (1..).zip(Unit::Sentence.cut(text)) {
        let key = [new.key(), format!("#{number}").as_bytes()].concat();
        let unit = fingerprinter.document(key, sentence);
        if unit.fingerprint().is_some() {
            txn.insert(&unit.with_seen(new.seen()).with_scope(new.scope()))?;
        }
    }
    Ok(())
}

/// Documents of a key, a time and a text, in a scope that is the first letter of the key.
fn store_all(database: &Database, documents: &[(&str, i64, String)]) -> simdb::Result<()> {
    let mut txn = database.begin_write()?;
    for (key, seen, text) in documents {
        let new = Document::new(*key, None)
            .with_seen(*seen)
            .with_scope(&key[..1]);
        store(&mut txn, database, &new, text)?;
    }
    txn.commit()
}

/// The key, the units, the characters, the units that it had first and the time of each listed document.
fn listed(overlap: &Overlap) -> Vec<(String, u64, u64, u64, i64)> {
    let values = |document: &OverlapDocument| {
        let key = String::from_utf8_lossy(&document.key).into_owned();
        let OverlapDocument {
            units,
            characters,
            first_units,
            seen,
            ..
        } = *document;
        (key, units, characters, first_units, seen)
    };
    overlap.documents.iter().map(values).collect()
}

/// The key of the first match of each unit.
fn firsts(overlap: &Overlap) -> Vec<Option<String>> {
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let units = overlap.units.iter();
    units
        .map(|unit| unit.first().map(|first| key(&first.key)))
        .collect()
}

#[test]
fn totals_over_sentences_are_those_of_a_count_by_hand() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    store_all(
        &database,
        &[
            ("a", 300, format!("{RIVER} {SCHOOL}!")),
            // Twice in one document is once.
            ("b", 200, format!("{SCHOOL}. No. {SCHOOL}? {HELPERS}")),
            (
                "c",
                300,
                format!("Nobody knows anything about that. {RIVER}"),
            ),
            ("me", 100, format!("{RIVER} {SCHOOL}. {HELPERS} {BRIDGE}")),
        ],
    )?;
    // Four sentences are 40, 33, 33 and 36 characters long, and one of 3 is too short: 142 are judged. The first three,
    // 106 characters, stood in a, b and c. Nobody but me has the fourth.
    let text = format!("{RIVER} {SCHOOL}. {SCHOOL}! No. {BRIDGE}");
    let query = OverlapQuery::new().without("me");
    let overlap = database.snapshot()?.overlap(&text, &query)?;
    assert_eq!(
        (overlap.judged, overlap.too_short, overlap.found),
        (4, 1, 3)
    );
    assert_eq!((overlap.characters, overlap.found_characters), (142, 106));
    assert_eq!(overlap.share(), 106.0 / 142.0);
    assert_eq!(overlap.total_documents, 3);
    assert_eq!(
        listed(&overlap),
        [
            // The river, and the school twice, which b had first.
            ("a".to_owned(), 3, 106, 1, 300),
            ("b".to_owned(), 2, 66, 2, 200),
            // a was seen at the same time, and written before.
            ("c".to_owned(), 1, 40, 0, 300),
        ]
    );
    assert_eq!(overlap.documents[1].share, 66.0 / 142.0);
    let expected = [Some("a#1"), Some("b#1"), Some("b#1"), None, None];
    assert_eq!(firsts(&overlap), expected.map(|key| key.map(str::to_owned)));
    let cut: Vec<&str> = overlap
        .units
        .iter()
        .map(|unit| &text[unit.range.clone()])
        .collect();
    assert_eq!(cut, Unit::Sentence.cut(&text).collect::<Vec<_>>());
    let too_short: Vec<bool> = overlap.units.iter().map(|unit| unit.is_too_short).collect();
    assert_eq!(too_short, [false, false, false, true, false]);
    let first = overlap.units[1].first().ok_or("the school was seen")?;
    assert_eq!(
        (first.document(), first.seen, first.distance),
        (&b"b"[..], 200, 0)
    );
    assert_eq!(first.similarity.map(|it| it.jaccard()), Some(1.0));

    // All of it stood in the document itself, and first there.
    let overlap = database.snapshot()?.overlap(&text, &OverlapQuery::new())?;
    assert_eq!(overlap.share(), 1.0);
    assert_eq!(listed(&overlap)[0], ("me".to_owned(), 4, 142, 4, 100));

    // A limit lists the largest. All are counted.
    for limit in [0, 1, 2, 3, 100] {
        let limited = database
            .snapshot()?
            .overlap(&text, &query.clone().limit(limit))?;
        assert_eq!(limited.documents.len(), limit.min(3));
        assert_eq!((limited.total_documents, limited.found), (3, 3));
    }
    // One paragraph is no sentence.
    let paragraph = database
        .snapshot()?
        .overlap(&text, &query.unit(Unit::Paragraph))?;
    assert_eq!((paragraph.judged, paragraph.found), (1, 0));
    Ok(())
}

#[test]
fn times_scopes_and_deletions_count_as_in_queries() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    store_all(
        &database,
        &[
            ("old", 100, RIVER.to_owned()),
            ("mid", 200, format!("{RIVER} {SCHOOL}")),
            ("new", 300, RIVER.to_owned()),
        ],
    )?;
    let keys = |near: Near| -> simdb::Result<Vec<String>> {
        let query = OverlapQuery::new().near(near);
        let overlap = database.snapshot()?.overlap(RIVER, &query)?;
        assert_eq!(overlap.total_documents, overlap.documents.len() as u64);
        Ok(listed(&overlap).into_iter().map(|row| row.0).collect())
    };
    assert_eq!(keys(Near::new())?, ["old", "mid", "new"]);
    assert_eq!(keys(Near::new().since(200))?, ["mid", "new"]);
    assert_eq!(keys(Near::new().since(301))?, [""; 0]);
    assert_eq!(keys(Near::new().scopes(["o", "n"]))?, ["old", "new"]);
    assert_eq!(keys(Near::new().scopes(["unknown"]))?, [""; 0]);
    assert_eq!(keys(Near::new().since(200).scopes(["o", "n"]))?, ["new"]);
    assert_eq!(
        keys(Near::within(0).min_similarity(1.0))?,
        ["old", "mid", "new"]
    );
    let before = database.snapshot()?;
    let mut txn = database.begin_write()?;
    txn.delete("old#1")?;
    txn.commit()?;
    assert_eq!(keys(Near::new())?, ["mid", "new"]);
    let overlap = before.overlap(RIVER, &OverlapQuery::new())?;
    assert_eq!(listed(&overlap).len(), 3, "a snapshot stays as it was");
    Ok(())
}

#[test]
fn of_one_time_it_is_the_one_that_was_written_first() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    let document = |key| (key, 7, RIVER.to_owned());
    store_all(&database, &[document("z"), document("a"), document("m")])?;
    let first = || -> simdb::Result<_> {
        let overlap = database.snapshot()?.overlap(RIVER, &OverlapQuery::new())?;
        Ok((firsts(&overlap).pop().flatten(), listed(&overlap)))
    };
    let (key, rows) = first()?;
    assert_eq!(key.as_deref(), Some("z#1"));
    // Equal shares and times are in the order of their keys.
    let rows: Vec<_> = rows.into_iter().map(|row| (row.0, row.3)).collect();
    assert_eq!(
        rows,
        [
            ("a".to_owned(), 0),
            ("m".to_owned(), 0),
            ("z".to_owned(), 1)
        ]
    );
    // What is written again is written last.
    store_all(&database, &[document("z")])?;
    assert_eq!(first()?.0.as_deref(), Some("a#1"));
    Ok(())
}

#[test]
fn keys_with_a_number_sign_are_taken_apart_at_the_last_one() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    store_all(
        &database,
        &[
            ("http://a/#3", 1, format!("{SCHOOL}. {RIVER}")),
            ("http://a/#top", 2, RIVER.to_owned()),
            ("http://a/", 3, RIVER.to_owned()),
        ],
    )?;
    let fingerprinter = database.fingerprinter()?;
    let whole = |key: &str, seen| fingerprinter.document(key, RIVER).with_seen(seen);
    insert_all(
        &database,
        [whole("http://b/#x", 4), whole("7", 5), whole("#8", 6)],
    )?;
    let without = |key: Option<&str>| -> simdb::Result<Vec<String>> {
        let mut query = OverlapQuery::new();
        if let Some(key) = key {
            query = query.without(key);
        }
        let overlap = database.snapshot()?.overlap(RIVER, &query)?;
        Ok(listed(&overlap).into_iter().map(|row| row.0).collect())
    };
    let all = [
        "http://a/#3",
        "http://a/#top",
        "http://a/",
        "http://b/#x",
        "7",
        "",
    ];
    assert_eq!(without(None)?, all);
    for (key, index) in [
        ("http://a/#3", 0),
        ("http://a/", 2),
        ("http://b/#x", 3),
        ("7", 4),
        ("#8", 5),
    ] {
        let mut others = all.to_vec();
        others.remove(index);
        assert_eq!(without(Some(key))?, others, "{key}");
    }
    assert_eq!(without(Some("http://a/#2"))?, all);
    Ok(())
}

#[test]
fn texts_without_units_and_with_too_many() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    store_all(&database, &[("a", 1, RIVER.to_owned())])?;
    let snapshot = database.snapshot()?;
    let query = OverlapQuery::new();
    for text in ["", " \n\n", "* * *", "\u{0}"] {
        let overlap = snapshot.overlap(text, &query)?;
        assert_eq!(overlap, Overlap::default(), "{text:?}");
        assert_eq!(overlap.share(), 0.0);
    }
    let overlap = snapshot.overlap("No. Never. Not at all.", &query)?;
    assert_eq!(
        (overlap.judged, overlap.too_short, overlap.share()),
        (0, 3, 0.0)
    );
    assert_error!(
        snapshot.overlap(&"A. ".repeat((1 << 20) + 1), &query)
        => Error::TooManyUnits { max_units: 1_048_576, .. }
    );
    // As many as there may be, nearly all of them equal.
    let many = format!("{RIVER} {}", "A b c d e. ".repeat((1 << 20) - 1));
    let overlap = snapshot.overlap(&many, &query)?;
    assert_eq!((overlap.judged, overlap.found), (1 << 20, 1));
    for near in [
        Near::within(65),
        Near::new().min_similarity(2.0),
        Near::new().since(1 << 50),
    ] {
        assert!(snapshot.overlap("", &query.clone().near(near)).is_err());
    }
    assert_error!(
        snapshot.overlap_with(RIVER, &query, |_, _| ControlFlow::Break(())) => Error::Interrupted
    );
    let external = folder.database("e.simdb")?.snapshot()?;
    assert_error!(external.overlap(RIVER, &query) => Error::ExternalScheme);
    let empty = Database::create(folder.path("empty.simdb"), &options())?;
    let overlap = empty.snapshot()?.overlap(RIVER, &query)?;
    assert_eq!((overlap.judged, overlap.found), (1, 0));
    Ok(())
}

/// A sentence that stands in very many documents: all are counted, and the earliest is found wherever it was written.
#[test]
fn every_copy_of_a_common_sentence_counts() -> TestResult {
    const COPIES: u64 = 20_000;
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &options())?;
    let notice = database
        .fingerprinter()?
        .document("", "All rights of this page are reserved.");
    let fingerprint = notice.fingerprint().ok_or("it is long enough")?;
    let copy = |number: u64| {
        let seen = if number == 12_345 {
            5
        } else {
            1_000 + number as i64 % 7
        };
        Document::new(format!("page-{number:06}#9"), fingerprint)
            .with_sketch(notice.sketch().copied())
            .with_seen(seen)
    };
    insert_all(&database, (0..COPIES).map(copy))?;
    let snapshot = database.snapshot()?;
    let query = OverlapQuery::new().limit(3);
    let text = "All rights of this page are reserved!";
    for near in [
        Near::new(),
        Near::new().since(0),
        Near::new().min_similarity(0.0),
    ] {
        let mut told = 0;
        let overlap = snapshot.overlap_with(text, &query.clone().near(near), |_, _| {
            told += 1;
            ControlFlow::Continue(())
        })?;
        assert_eq!((overlap.found, overlap.total_documents), (1, COPIES));
        let keys: Vec<_> = listed(&overlap).into_iter().map(|row| row.0).collect();
        assert_eq!(keys, ["page-012345", "page-000000", "page-000007"]);
        assert_eq!(firsts(&overlap), [Some("page-012345#9".to_owned())]);
        assert!(told > 4, "{told}");
    }
    Ok(())
}

/// What is near to a unit, by a scan.
struct Twin<'a> {
    documents: &'a [Document],
    max_distance: u32,
    min_similarity: f64,
    since: i64,
    scope: Option<&'a str>,
    without: Option<&'a [u8]>,
}

impl Twin<'_> {
    fn near(&self) -> Near {
        let near = Near::within(self.max_distance).min_similarity(self.min_similarity);
        let near = near.since(self.since);
        match self.scope {
            Some(scope) => near.scopes([scope]),
            None => near,
        }
    }

    /// The documents near to one, in the order of their writing, each with its distance.
    fn near_to<'d>(&'d self, unit: &Document) -> impl Iterator<Item = (&'d Document, u32)> {
        self.documents.iter().filter_map(move |document| {
            let distance = document.fingerprint()?.distance(unit.fingerprint()?);
            let is_near = distance <= self.max_distance
                && jaccard(document.sketch()?, unit.sketch()?) >= self.min_similarity
                && document.seen() >= self.since
                && self.scope.is_none_or(|scope| document.scope() == scope)
                && self.without != Some(plain_document_of(document.key()));
            is_near.then_some((document, distance))
        })
    }

    /// Compares all that is told of a text with what a scan finds.
    fn compare(
        &self,
        snapshot: &Snapshot,
        database: &Database,
        text: &str,
        unit: Unit,
    ) -> simdb::Result<Overlap> {
        let mut query = OverlapQuery::new().unit(unit).near(self.near()).limit(5);
        if let Some(key) = self.without {
            query = query.without(key);
        }
        let overlap = snapshot.overlap_with(text, &query, go_on)?;
        let fingerprinter = database.fingerprinter()?;
        let mut found = 0;
        let mut shares = BTreeMap::<&[u8], (u64, u64, i64)>::new();
        let mut first_units = BTreeMap::<&[u8], u64>::new();
        let pieces: Vec<&str> = unit.cut(text).collect();
        assert_eq!(overlap.units.len(), pieces.len());
        for (told, piece) in overlap.units.iter().zip(&pieces) {
            assert_eq!(&text[told.range.clone()], *piece);
            let unit = fingerprinter.document("", piece);
            assert_eq!(told.is_too_short, unit.fingerprint().is_none());
            let first = self
                .near_to(&unit)
                .min_by_key(|(document, _)| document.seen());
            let first =
                first.map(|(document, distance)| (document.key(), document.seen(), distance));
            let told_first = told.first().map(|it| (&it.key[..], it.seen, it.distance));
            assert_eq!(told_first, first, "{piece}");
            let Some((key, ..)) = first else { continue };
            found += 1;
            *first_units.entry(plain_document_of(key)).or_default() += 1;
            let mut of_unit = BTreeSet::new();
            for (document, _) in self.near_to(&unit) {
                let key = plain_document_of(document.key());
                let share = shares.entry(key).or_insert((0, 0, i64::MAX));
                share.2 = share.2.min(document.seen());
                if of_unit.insert(key) {
                    share.0 += 1;
                    share.1 += piece.chars().count() as u64;
                }
            }
        }
        assert_eq!(overlap.found, found);
        assert_eq!(overlap.total_documents, shares.len() as u64);
        let mut rows: Vec<_> = shares
            .into_iter()
            .map(|(key, (units, characters, seen))| {
                let first = first_units.get(key).copied().unwrap_or_default();
                let key = String::from_utf8_lossy(key).into_owned();
                (key, units, characters, first, seen)
            })
            .collect();
        rows.sort_by(|a, b| (b.2, a.4, &a.0).cmp(&(a.2, b.4, &b.0)));
        rows.truncate(5);
        assert_eq!(listed(&overlap), rows);
        Ok(overlap)
    }
}

/// The key without its last number sign and the number behind it.
fn plain_document_of(key: &[u8]) -> &[u8] {
    let sign = key.iter().rposition(|&byte| byte == b'#');
    &key[..sign.expect("all keys are of units")]
}

/// A key and a text.
type KeyedText = (Vec<u8>, String);

/// The keys and the texts of all records.
fn texts(input: &Path) -> TestResult<Vec<KeyedText>> {
    let mut records = Records::open([input], ReadOptions::new())?;
    let mut texts = Vec::new();
    loop {
        let chunk = records.next_chunk(|record| {
            let key = record.key().unwrap_or_default().to_vec();
            Ok::<_, simdb::ingest::Rejected>((key, record.into_text()?))
        })?;
        if chunk.is_empty() {
            return Ok(texts);
        }
        for text in chunk {
            texts.push(text.map_err(Error::from)?);
        }
    }
}

/// Ingests real pages and compares every so many of them with a scan.
fn compare_with_scans(input: &Path, unit: Unit, every: usize) -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let name = unit.to_string();
    done!(
        "ingest",
        &path,
        input,
        "--unit",
        &name,
        "--quiet --max-distance 5"
    );
    let database = Database::open(&path, &simdb::OpenOptions::new())?;
    let snapshot = database.snapshot()?;
    let documents: Vec<Document> = snapshot.documents().collect::<Result<_, _>>()?;
    let mut times: Vec<i64> = documents.iter().map(Document::seen).collect();
    times.sort_unstable();
    let mut found = 0;
    for (index, (key, text)) in texts(input)?.iter().step_by(every).enumerate() {
        let twin = Twin {
            documents: &documents,
            max_distance: [5, 0, 3, 8][index % 4],
            min_similarity: [0.7, 0.0, 0.9][index % 3],
            since: if index % 5 == 4 {
                times[times.len() / 2]
            } else {
                i64::MIN / (1 << 30)
            },
            scope: (index % 7 == 6).then_some(""),
            without: (index % 2 == 0).then_some(&key[..]),
        };
        let overlap = twin.compare(&snapshot, &database, text, unit)?;
        found += overlap.found;
        if twin.without.is_none() && twin.since < 0 {
            assert_eq!(overlap.share(), 1.0, "the document itself has all");
        }
    }
    assert!(found > 100, "{found}");
    drop(snapshot);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn answers_for_pages_are_those_of_a_scan() -> TestResult {
    let input = bundled("pg-docs-html/docs.jsonl.gz");
    compare_with_scans(&input, Unit::Sentence, 23)?;
    compare_with_scans(&input, Unit::Paragraph, 23)
}

/// Terms of service in many versions, each with its time.
#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn answers_for_versions_of_real_terms_are_those_of_a_scan() -> TestResult {
    let input = real_data()?.join("terms-versions/docs.jsonl.gz");
    compare_with_scans(&input, Unit::Sentence, 97)
}

/// The news of docs/corpora.md.
fn news(folder: &Folder) -> TestResult<std::path::PathBuf> {
    let database = folder.path("news.simdb");
    let record = |key: &str, day: u32, text: &str| {
        let seen = format!("2026-11-{day:02}T08:00:00Z");
        serde_json::json!({"id": key, "seen": seen, "text": text}).to_string() + "\n"
    };
    let input = record(
        "https://a.example/flood",
        3,
        "The river rose above its banks on Sunday. The helpers of the town worked all night. Nobody was hurt.",
    ) + &record(
        "https://b.example/schools",
        4,
        "Schools stay closed until Friday. The river rose above its banks on Sunday!",
    );
    let input = folder.file("news.jsonl", input)?;
    done!(
        "ingest",
        &database,
        &input,
        "--unit sentence --max-distance 5"
    );
    Ok(database)
}

const STORY: &str = "The mayor spoke to the press on Monday. The river rose above its banks on Sunday. The helpers of \
                     the town worked all night. Schools stay closed until Friday. No!";

#[test]
fn the_command_tells_of_files_texts_and_records() -> TestResult {
    let folder = Folder::new()?;
    let database = news(&folder)?;
    let story = folder.file("story.txt", STORY)?;
    let told = done!("overlap", &database, &story, "--json --list-units").object()?;
    // Of 39, 41, 41 and 33 characters, the first stood nowhere.
    assert_eq!(
        figures(&told, ["characters", "found_characters"]),
        [154, 115]
    );
    assert_eq!(told["share"], 0.7468);
    assert_eq!(figures(&told, ["judged", "too_short", "found"]), [4, 1, 3]);
    assert_has!(told, {"key": story.display().to_string(), "total_documents": 2});
    let rows = told["documents"].as_array().ok_or("a list")?;
    assert_eq!(
        rows[0],
        serde_json::json!({"key": "https://a.example/flood", "share": 0.5325, "units": 2, "characters": 82,
                           "first_units": 2, "seen": 1_793_692_800})
    );
    assert_has!(rows[1], {"units": 2, "first_units": 1});
    let units = told["units"].as_array().ok_or("a list")?;
    assert_eq!(units[0]["first"], serde_json::Value::Null);
    assert_eq!(units[1]["first"]["key"], "https://a.example/flood#1");
    assert_has!(units[1], {"start": 40, "end": 81});
    assert_has!(units[4], {"text": "No!", "too_short": true});

    // A text has no key, and a page its visible text. Both are asked about as they are.
    let text = done!("overlap", &database, "--text", STORY, "--json").object()?;
    assert_eq!(
        (&text["key"], &text["share"]),
        (&serde_json::Value::Null, &told["share"])
    );
    let page = format!(
        "<title>No</title><p>{}<script>No</script>",
        STORY.replace(". ", ".</p><p>")
    );
    let page = folder.file("page.html", page)?;
    let page = done!("overlap", &database, &page, "--json").object()?;
    assert_eq!(page["documents"], told["documents"]);

    // The document itself does not count, by the key of the record or by --key.
    let record = serde_json::json!({"id": "https://a.example/flood", "text": STORY}).to_string();
    let mut command = program!("overlap --json", &database, "-");
    let told = run_with_input(&mut command, record.as_bytes())?
        .expect(0)
        .object()?;
    assert_eq!(figures(&told, ["total_documents", "found"]), [1, 2]);
    let named = run!(
        "overlap",
        &database,
        "--text",
        STORY,
        "--key https://a.example/flood --json"
    );
    assert_eq!(named.expect(0).object()?["documents"], told["documents"]);

    // Two corpora that number their records alike.
    let both = folder.file(
        "both.jsonl",
        format!("{}\n{}\n", record.trim_end(), record.trim_end()),
    )?;
    let counted = done!("overlap", &database, &both, "--count-own --json");
    for line in counted.json()? {
        assert_eq!(line["documents"][0]["key"], "https://a.example/flood");
    }
    run!("overlap", &database, &both, "--key https://a.example/flood").refused("--count-own");

    // Conditions, and what is found nowhere.
    done!("overlap", &database, &story, "--since 2026-11-04T00:00Z").begins(&format!(
        "48 % of {} was seen before: 48 % in https://b",
        story.display()
    ));
    let nothing = run!(
        "overlap",
        &database,
        "--text",
        ..["Nothing of this was ever seen by anybody."]
    )
    .expect(1);
    assert_eq!(nothing.out, "nothing of the text was seen before\n");
    assert_eq!(
        run!("overlap", &database, "--text No!").expect(1).out,
        "the text is too short to judge\n"
    );
    assert_eq!(
        run!("overlap", &database, "--text", "").expect(1).out,
        "the text is too short to judge\n"
    );
    Ok(())
}

#[test]
fn bad_records_and_databases_of_whole_documents_are_told() -> TestResult {
    let folder = Folder::new()?;
    let database = news(&folder)?;
    let story = serde_json::json!({"id": "s", "text": STORY}).to_string();
    let input = folder.file(
        "in.jsonl",
        format!("{{\"id\":1,\"fingerprint\":\"00000000000000ff\"}}\n{story}\n"),
    )?;
    let ran = run!("overlap", &database, &input).refused("line 1: the record brings no text");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("rejected: "), "{}", ran.out);
    assert!(
        lines[1].starts_with("75 % of s was seen before"),
        "{}",
        ran.out
    );
    run!("overlap", &database, folder.path("missing.txt")).refused("missing.txt");
    run!("overlap", &database).refused("<INPUT...|--text TEXT>");
    run!("overlap", &database, &input, "--text", STORY).refused("cannot be used with");

    let whole = folder.path("whole.simdb");
    let story = folder.file("story.txt", STORY)?;
    done!("ingest", &whole, &story, "--quiet");
    run!("overlap", &whole, "--text", STORY)
        .expect(1)
        .says("seems to hold whole documents");
    let quiet = run!("overlap", &whole, "--text", STORY, "--quiet").expect(1);
    assert_eq!(quiet.err, "");
    Ok(())
}

#[cfg(unix)]
#[test]
fn a_database_in_use_answers_through_its_socket() -> TestResult {
    use simdb::{Client, ClientOptions, ErrorKind, OpenOptions};
    let folder = Folder::new()?;
    let database = news(&folder)?;
    let story = folder.file("story.txt", STORY)?;
    let ask = || -> TestResult<_> {
        let lines = done!("overlap", &database, &story, "--list-units").out;
        let json = done!("overlap", &database, &story, "--json --list-units").out;
        let mut command = program!(
            "overlap --unit sentence --input-format text",
            &database,
            "-"
        );
        let piped = run_with_input(&mut command, STORY.as_bytes())?
            .expect(0)
            .out;
        let nothing = run!(
            "overlap",
            &database,
            "--text",
            ..["Nothing of this was ever seen."]
        )
        .expect(1)
        .out;
        Ok((lines, json, piped, nothing))
    };
    let alone = ask()?;
    let served = Database::open(&database, &OpenOptions::new().serve(true))?;
    assert_eq!(ask()?, alone);

    let client = Client::connect(&database, &ClientOptions::new())?;
    let snapshot = served.snapshot()?;
    let all = OverlapQuery::new();
    let found = snapshot.overlap(STORY, &all)?;
    let of_first = found.documents.first().ok_or("something is found")?;
    let queries = [
        all.clone().unit(Unit::Paragraph),
        all.clone().without(&of_first.key[..]).limit(1),
        all.clone().near(Near::within(64).min_similarity(0.0)),
        all.clone().near(Near::within(0).since(of_first.seen)),
        all.clone().near(Near::new().scopes(["no such scope"])),
        all,
    ];
    for query in &queries {
        for text in ["", "?", STORY] {
            let told = snapshot.overlap(text, query)?;
            assert_eq!(client.overlap(text, query)?, told, "{query:?}");
        }
    }
    let refused = client.overlap(STORY, &OverlapQuery::new().near(Near::within(65)));
    assert!(refused.is_err_and(|error| error.kind() == ErrorKind::Input));
    assert_error!(
        client.overlap(&STORY.repeat(10_000), &OverlapQuery::new()) => Error::TextLength { .. }
    );
    client.close()?;
    drop(snapshot);
    served.close()?;
    Ok(())
}
