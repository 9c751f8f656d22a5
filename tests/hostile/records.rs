//! What is read when a file is opened, and what is read of its names: the state, the log, settings, scopes, sources.

use std::sync::LazyLock;

use super::meta::{Counters, check_format, decode_settings, encode_settings};
use super::names::{decode_scope, decode_source, encode_source};
use super::operation::runs_of;
use super::state::{STATE, State, decode_page, encode_log};
use crate::plan::Plan;
use crate::store::blocks::{FileSeed, Kind, seal};
use crate::store::numbers::DocumentNumber;

static PLAN: LazyLock<Plan> = LazyLock::new(|| "4x16".parse().expect("it is the name of a plan"));

const FILE: FileSeed = FileSeed::NONE;

fn sealed(kind: Kind, row: &[u8], body: &[u8]) -> Vec<u8> {
    seal(kind, FILE, row, |bytes| bytes.extend(body))
}

/// Any bytes as the state record.
pub(crate) fn state(body: &[u8]) {
    let sealed = sealed(Kind::State, STATE.as_bytes(), body);
    let Ok(stored) = State::decode(FILE, &PLAN, &sealed) else {
        return;
    };
    let state = stored.state;
    // A commit gets the numbers behind those of the state.
    assert!(state.generation() < u64::MAX - 1);
    assert!(state.next_block < u64::MAX - 1 && state.log_pages().end < u64::MAX - 1);
    let again = state.encode(FILE);
    let without_levels = State::decode(FILE, &PLAN, &again).expect("a state that was just encoded");
    assert_eq!(without_levels.state.counters, state.counters);
    assert_eq!(without_levels.state.generation(), state.generation());
}

/// Any bytes as a page of the log.
pub(crate) fn log(body: &[u8]) {
    let page = 9u64;
    let sealed = sealed(Kind::Log, &page.to_le_bytes(), body);
    let mut operations = Vec::new();
    if decode_page(FILE, page, &sealed, &mut operations).is_err() {
        assert!(operations.len() <= body.len() / 25);
        return;
    }
    assert_eq!(body.len(), 2 + 25 * operations.len());
    let mut again = Vec::new();
    for (number, bytes) in encode_log(FILE, page, &operations) {
        decode_page(FILE, number, &bytes, &mut again).expect("a page that was just encoded");
    }
    assert_eq!(again, operations);
    drop(runs_of(&operations, &PLAN));
}

/// The first byte chooses what the others are: the format, the settings, a scope or a source.
pub(crate) fn record(bytes: &[u8]) {
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    match choice % 4 {
        0 => _ = check_format(&sealed(Kind::Format, b"format", body)),
        1 => settings(&sealed(Kind::Settings, b"settings", body)),
        2 => _ = decode_scope(FILE, "scope", &sealed(Kind::Scope, b"scope", body)),
        _ => source(&sealed(Kind::Source, b"source", body)),
    }
}

fn settings(bytes: &[u8]) {
    let Ok(settings) = decode_settings(FILE, bytes) else {
        return;
    };
    assert!(settings.plan.tables().len() <= bytes.len() / 64);
    assert_eq!(encode_settings(&settings), bytes);
}

fn source(bytes: &[u8]) {
    let counters = Counters {
        next_document: DocumentNumber::MAX.0,
        ..Counters::default()
    };
    let Ok(record) = decode_source(FILE, counters, b"source", bytes) else {
        return;
    };
    let again = encode_source(FILE, b"source", &record);
    let again = decode_source(FILE, counters, b"source", &again);
    assert!(again.is_ok_and(|again| again == record));
    // What ingestion does with it.
    let mut totals = record.totals;
    totals.add_all(&record.last_line);
    totals.take_out(&record.last_line);
    let mut numbers = record.numbers.clone();
    numbers.add_all(&record.earlier);
    assert!(numbers.count() <= DocumentNumber::MAX.0);
}

#[cfg(test)]
pub(crate) mod seeds {
    use super::*;
    use crate::source::{Numbers, SourceRecord};
    use crate::store::blocks::HEADER_BYTES;
    use crate::store::file::meta::{Settings, encode_format};
    use crate::store::file::operation::{Change, Operation};
    use crate::store::numbers::ScopeNumber;
    use crate::{Fingerprint, SketchSize};

    fn body(envelope: &[u8]) -> &[u8] {
        &envelope[HEADER_BYTES..]
    }

    /// The state of an empty file, the same with directories, and one with a level.
    pub(crate) fn state() -> Vec<Vec<u8>> {
        let empty = State::new(&PLAN).encode(FILE);
        let mut with_documents = body(&empty).to_vec();
        // The directory of the documents has a last chunk.
        let at = 28 + 4 * 8 + 5 * 8 + 8;
        with_documents[at] = 1;
        with_documents.splice(at + 1..at + 1, [7; 60]);
        let mut with_level = body(&empty).to_vec();
        // The first set has a level without chunks.
        with_level[at + 1 + 17] = 1;
        with_level.splice(at + 1 + 18..at + 1 + 18, [0; 26]);
        vec![body(&empty).to_vec(), with_documents, with_level]
    }

    pub(crate) fn log() -> Vec<Vec<u8>> {
        let removes = |fingerprint_gone, unstored| Change::Remove {
            fingerprint_gone,
            unstored,
        };
        let mut operations = Vec::new();
        let changes = [
            Change::Put,
            removes(true, false),
            removes(false, true),
            Change::Forget,
            Change::Put,
        ];
        for (i, change) in (1..).zip(changes) {
            operations.push(Operation {
                change,
                number: DocumentNumber(i),
                key_hash: i << 40,
                fingerprint: (i % 3 != 0).then(|| Fingerprint::from_bits(i << 50)),
                scope: ScopeNumber(i as u32 % 2),
            });
        }
        let mut pages = Vec::new();
        for operations in [&operations[..], &operations[..1]] {
            pages.extend(encode_log(FILE, 9, operations));
        }
        pages.iter().map(|(_, page)| body(page).to_vec()).collect()
    }

    pub(crate) fn record() -> Vec<Vec<u8>> {
        let settings = Settings {
            file: FILE,
            sketch_size: SketchSize::Bytes16,
            min_similarity: Some(0.5),
            ..Settings::for_tests()
        };
        let mut numbers = Numbers::default();
        numbers.add(3..9);
        numbers.add(500..70_000);
        let source = SourceRecord {
            failed: Some("it is cut".to_owned()),
            numbers,
            counted: 700,
            updated: 1_700_000_000,
            ..SourceRecord::default()
        };
        let values = [
            encode_format(FILE),
            encode_settings(&settings),
            [&[0; HEADER_BYTES][..], &7u32.to_le_bytes()].concat(),
            encode_source(FILE, b"source", &source),
            encode_source(FILE, b"source", &SourceRecord::default()),
        ];
        let behind =
            |(choice, value): (usize, &Vec<u8>)| [&[choice.min(3) as u8], body(value)].concat();
        values.iter().enumerate().map(behind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state whose checksum somebody had made anew named the last page that a number can name: the sum of it and of
    /// the commits of sources, and the next page, were no numbers.
    #[test]
    fn a_state_leaves_numbers_for_the_pages_and_commits_that_come_next() {
        let empty = seeds::state().remove(0);
        let refuses = |at: usize, number: u64| {
            let mut changed = empty.clone();
            changed[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let sealed = sealed(Kind::State, STATE.as_bytes(), &changed);
            State::decode(FILE, &PLAN, &sealed).is_err()
        };
        const NEXT_BLOCK: usize = 28;
        const NEXT_PAGE: usize = 28 + 3 * 8;
        const SOURCE_COMMITS: usize = 28 + 8 * 8;
        for at in [NEXT_BLOCK, NEXT_PAGE, SOURCE_COMMITS] {
            assert!(!refuses(at, 7), "{at}");
            assert!(refuses(at, u64::MAX) && refuses(at, u64::MAX / 2), "{at}");
        }
    }
}
