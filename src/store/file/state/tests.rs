//! Tests of the state record, of the log and of edits.

use super::super::schema::{KEYS, key_row, permuted, posting_row};
use super::*;
use crate::fingerprint::Fingerprint;
use crate::store::blocks::{BlockCache, MemoryBlocks, Packer, worked_example};
use crate::store::engine::Recording;
use crate::store::file::Change;
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::Run;

#[test]
fn the_state_record_reads_back_and_a_damaged_one_is_refused() -> Result<(), Problem> {
    let plan = "4x16".parse::<Plan>().expect("a plan");
    let mut state = State::new(&plan);
    state.counters.documents = 7;
    state.counters.next_document = 9;
    (
        state.next_block,
        state.first_page,
        state.frozen_pages,
        state.next_page,
    ) = (99, 2, 5, 8);
    let keys = &mut state.sets[KEYS];
    keys.push(Run::new(vec![5, 6], vec![3], keys.rules), 9);
    keys.freeze();
    let level = SetLevel {
        next: 77,
        ..state.sets[permuted(3)].new_level()
    };
    let another = SetLevel {
        level: Arc::new(Level::empty(4)),
        ..level.clone()
    };
    state.sets[permuted(3)].levels = vec![level, another];
    (state.log_sums, state.scopes_sum) = (
        LogSums {
            frozen: 11,
            recent: 12,
        },
        13,
    );
    let file = FileSeed(7);
    let bytes = state.encode(file);
    let StoredState {
        state: read,
        documents,
        sets,
    } = State::decode(file, &plan, &bytes)?;
    assert_eq!((read.counters, read.next_block), (state.counters, 99));
    assert_eq!(
        (read.first_page, read.frozen_pages, read.next_page),
        (2, 5, 8)
    );
    assert_eq!((read.log_sums, read.scopes_sum), (state.log_sums, 13));
    let mut of_documents = Vec::new();
    state.documents.encode(&mut of_documents);
    let has_extents = DOCUMENTS.table.has_extents;
    let expected = StoredDirectory::decode(has_extents, &mut Fields(&of_documents))?;
    assert_eq!(documents, expected);
    assert_eq!(sets.len(), state.sets.sets().count());
    assert_eq!(
        sets.iter().map(|set| set.frozen_from).collect::<Vec<_>>()[..2],
        [Some(3), None]
    );
    let last = sets.last().ok_or("there are no sets")?;
    let levels: Vec<_> = last
        .levels
        .iter()
        .map(|it| (it.number, it.next, &it.directory))
        .collect();
    assert_eq!(levels, [(0, 77, &documents), (4, 77, &documents)]);
    assert!(State::decode(file, &"2x32".parse::<Plan>().expect("a plan"), &bytes).is_err());
    assert!(State::decode(FileSeed(8), &plan, &bytes).is_err());
    assert!(State::decode(file, &plan, &bytes[..bytes.len() - 1]).is_err());
    state.first_page = 6;
    assert!(
        State::decode(file, &plan, &state.encode(file)).is_err(),
        "pages out of order are taken"
    );
    Ok(())
}

fn packed(rows: Range<u64>, file: FileSeed) -> Vec<Packed<u64>> {
    let mut packer = Packer::new(128, false, file);
    packer.waiting.puts.extend(rows.map(|row| row << 40));
    packer.finish()
}

/// The last step of a merge removed all frozen pages, and a transaction waited for it 40 ms.
#[test]
fn old_pages_of_the_log_are_removed_some_at_a_time() {
    let settings = Settings::for_tests();
    let mut state = State::new(&settings.plan);
    (state.frozen_pages, state.next_page) = (700, 705);
    let mut removed = Vec::new();
    for _ in 0..4 {
        let mut edit = Edit::new(state, settings.file, &Sizes::default());
        // Several steps of merges may be in one commit.
        edit.drop_log();
        edit.drop_log();
        assert_eq!(edit.state.first_page, 700);
        removed.push(edit.changes.log_begins_at);
        state = edit.state;
    }
    assert_eq!(removed, [Some(257), Some(513), Some(700), None]);
    assert!(!state.has_old_pages());
    let mut edit = Edit::new(State::new(&settings.plan), settings.file, &Sizes::default());
    edit.empty_log();
    assert!(
        !edit.state.has_old_pages(),
        "a number that is left out is no page"
    );
}

/// Chunks that an edit removes were removed before any was written. So if an edit changed a level twice,
/// a chunk of the first change stayed in the file, and the file could not be opened again.
#[test]
fn a_level_can_be_changed_twice_in_one_edit() -> Result<()> {
    let settings = Settings::for_tests();
    let (block_tables, meta) = first_rows(&settings);
    let engine = Engine::on_backend(Recording::default(), 1 << 20, Some((block_tables, &meta)))?;
    let sizes = Sizes {
        chunk_entries: 3,
        ..Sizes::default()
    };
    let mut edit = Edit::new(State::new(&settings.plan), settings.file, &sizes);
    let cache = || Arc::new(BlockCache::new(0));
    let blocks = Blocks::new(Arc::new(MemoryBlocks::default()), cache(), settings.file);
    let table = permuted(1);
    let mut level = edit.state.sets[table].new_level();
    let name = table.level(level.level.number);
    for rows in [0..200, 50..150, 0..170] {
        let first = rows.start << 40;
        let last = (rows.end - 1) << 40;
        let old = level
            .level
            .overlapping(&(first..=last), blocks.of_table(name.table))?;
        level.level = edit.replace(
            name,
            &level.level,
            old,
            packed(rows, settings.file),
            &blocks,
        )?;
    }
    edit.state.sets[table].levels.push(level.clone());
    edit.write(&engine)?;
    let read = read_state(&engine.begin_read(0)?, &settings)?;
    let stored = engine.begin_read(block_tables.len())?;
    let stored = Blocks::new(Arc::new(stored), cache(), settings.file);
    let entries = |level: &Level<u64>, blocks: &Blocks| -> Result<Vec<_>> {
        Ok(level
            .entries(level.all(), blocks.of_table(name.table))?
            .cloned()
            .collect())
    };
    assert_eq!(
        entries(&read.sets[table].levels[0].level, &stored)?,
        entries(&level.level, &blocks)?
    );
    Ok(())
}

#[test]
fn the_worked_example_of_the_format_description_is_what_is_written() {
    let operation = Operation {
        change: Change::Put,
        number: DocumentNumber(1),
        key_hash: 0x1122_3344_5566_7788,
        fingerprint: Some(Fingerprint::from_bits(0x0123_4567_89ab_cdef)),
        scope: ScopeNumber(1),
    };
    let pages = encode_log(FileSeed(0x0123_4567_89ab_cdef), 1, &[operation]);
    assert_eq!(pages[0].1, worked_example("page of the log"));
    let row = |row: u128| {
        format!(
            "{:016x} {:06x} {:010x}",
            row >> 64,
            row >> 40 & 0xff_ffff,
            row & 0xff_ffff_ffff
        )
    };
    let description = include_str!("../../../../docs/format.md");
    let fingerprint = Fingerprint::from_bits(0x0123_4567_89ab_cdef);
    assert!(description.contains(&row(key_row(operation.key_hash, operation.number))));
    for scope in operation.scope.listing() {
        assert!(description.contains(&row(posting_row(fingerprint, scope, operation.number))));
    }
}

#[test]
fn operations_read_back_from_their_own_page_and_file_only() -> Result<(), Problem> {
    let file = FileSeed(7);
    let changes = [
        Change::Put,
        Change::Remove {
            fingerprint_gone: true,
            unstored: false,
        },
        Change::Remove {
            fingerprint_gone: false,
            unstored: true,
        },
    ];
    let forget = Operation::forget(DocumentNumber(9));
    let operations: Vec<_> = (0..1000)
        .map(|i| Operation {
            change: changes[i % 3],
            number: DocumentNumber((1 << 40) - 1 - i as u64),
            key_hash: u64::MAX - i as u64,
            fingerprint: (i % 2 == 0).then(|| Fingerprint::from_bits(i as u64)),
            scope: if i % 5 == 0 {
                ScopeNumber::ANY
            } else {
                ScopeNumber::EMPTY
            },
        })
        .chain([forget])
        .collect();
    let pages = encode_log(file, 7, &operations);
    assert!(pages.iter().all(|(_, bytes)| bytes.len() <= 4080));
    let mut found = Vec::new();
    for (number, bytes) in &pages {
        decode_page(file, *number, bytes, &mut found)?;
        let refused =
            |file, number, bytes| decode_page(file, number, bytes, &mut Vec::new()).is_err();
        assert!(refused(file, number + 1, bytes));
        assert!(refused(FileSeed(8), *number, bytes));
        assert!(refused(file, *number, &bytes[1..]));
    }
    assert_eq!(found, operations);
    // Nothing goes together with the flag of a document whose block is taken out.
    let odd = Operation {
        fingerprint: Some(Fingerprint::from_bits(1)),
        ..forget
    };
    let (number, bytes) = encode_log(file, 7, &[odd]).remove(0);
    assert!(decode_page(file, number, &bytes, &mut Vec::new()).is_err());
    Ok(())
}

/// A page of another commit is whole, and its own checksum is right. Only the sum of all pages tells that it is not the
/// one that was committed.
#[test]
fn a_whole_page_of_the_log_that_is_not_of_the_last_commit_is_refused() -> Result<()> {
    let settings = Settings::for_tests();
    let (block_tables, meta) = first_rows(&settings);
    let engine = Engine::on_backend(Recording::default(), 1 << 20, Some((block_tables, &meta)))?;
    let put = |number| Operation {
        change: Change::Put,
        number: DocumentNumber(number),
        key_hash: number,
        fingerprint: None,
        scope: ScopeNumber::EMPTY,
    };
    let committed = [put(1), put(2)];
    let mut edit = Edit::new(State::new(&settings.plan), settings.file, &Sizes::default());
    edit.append(&committed, runs_of(&committed, &settings.plan));
    edit.write(&engine)?;
    let read = || read_state(&engine.begin_read(0)?, &settings);
    assert_eq!(read()?.recent_operations, 2);
    let log_of = |operations: &[Operation]| Changes {
        log: encode_log(settings.file, 1, operations),
        ..Changes::default()
    };
    let emptied = Changes {
        log_begins_at: Some(2),
        ..Changes::default()
    };
    for operations in [&committed[..1], &committed[1..], &[]] {
        engine.apply(&emptied, &[])?;
        engine.apply(&log_of(operations), &[])?;
        let refused = read().map(drop);
        assert!(
            matches!(refused, Err(Error::Damaged { table: "log", .. })),
            "{refused:?}"
        );
    }
    engine.apply(&emptied, &[])?;
    engine.apply(&log_of(&committed), &[])?;
    assert_eq!(read()?.recent_operations, 2);
    Ok(())
}
