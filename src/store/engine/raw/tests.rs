//! Tests of the pages that are compared before the engine reads them.

use std::ops::Range;

use std::path::Path;

use redb::StorageBackend as _;

use super::*;
use crate::allocations::largest_of;
use crate::store::engine::open_file::Lent;
use crate::store::engine::{BlockTable, Changes, Engine, Image, LevelChange, LevelName, Recording};
use crate::store::sizes::PAGE_BYTES;

/// The pages of a file.
fn raw(file: &[u8]) -> RawFile<Image> {
    RawFile::new(Image::new(file.to_vec()), file.len() as u64)
}

fn range_of(raw: &RawFile<Image>, root: Root) -> Range<usize> {
    let range = raw.regions.range_of(root.page);
    range.start as usize..range.end as usize
}

/// Where a table of the last commit begins.
fn root_of(raw: &RawFile<Image>, table: &str) -> Root {
    let tables = raw.believed_slot().and_then(|slot| slot.tables);
    let mut commit = RawCommit::new(true);
    let walked = raw.walk(tables.expect("it has tables"), Widths::ANY, &mut |page| {
        commit.add(page).expect("it lists tables of simdb");
        Ok(())
    });
    assert!(walked.expect("it can be read").is_empty());
    commit.root(table).expect("it has rows")
}

/// The first pages of the commit that the header of a file names: of the table of tables, of `meta`, and of the
/// tables that the engine has for itself.
fn first_pages(file: &[u8]) -> [Range<usize>; 3] {
    let raw = raw(file);
    let slot = raw.believed_slot().expect("a header");
    let tables = slot.tables.expect("a table of tables");
    let meta = root_of(&raw, "meta");
    let lists = slot.lists.expect("it has lists");
    [tables, meta, lists].map(|root| range_of(&raw, root))
}

/// The used bytes of all pages of the tables that the engine has for itself.
fn bytes_of_lists(file: &[u8]) -> Vec<usize> {
    let raw = raw(file);
    let lists = raw.believed_slot().and_then(|slot| slot.lists);
    let mut waiting = vec![(lists.expect("it has lists"), Widths::ANY)];
    let mut bytes = Vec::new();
    while let Some((root, widths)) = waiting.pop() {
        let is_table_of_tables = bytes.is_empty();
        let visited = raw.visit::<()>(root, widths, &mut |visited| {
            match visited {
                Visited::Leaf(page) => {
                    let begin = page.offset as usize;
                    let used = page.leaf_bytes(widths).expect("it is a leaf");
                    bytes.extend(begin..begin + used);
                    let tables = page.pairs(None).filter(|_| is_table_of_tables);
                    let tables = tables.unwrap_or_default().into_iter();
                    waiting.extend(tables.filter_map(|(_, table, _)| root_and_widths(table)));
                }
                Visited::Branch(branch) => {
                    // What is used of a branch is before the zeros.
                    let page = range_of(&raw, branch);
                    let end = file[page.clone()].iter().rposition(|&byte| byte != 0);
                    bytes.extend(page.start..=page.start + end.expect("it is not empty"));
                }
                Visited::Damaged(page) => panic!("{page:?} is damaged"),
            }
            Ok(())
        });
        assert_eq!(visited, Ok(()));
    }
    bytes
}

/// The files that several commits leave.
fn files_of_commits() -> Result<Vec<Vec<u8>>> {
    let storage = Recording::default();
    let first: &[_] = &[("state", vec![0; 100])];
    let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[], first)))?;
    let mut files = Vec::new();
    for commit in 1..6 {
        engine.apply(&Changes::default(), &[("state", vec![commit; 100])])?;
        files.push(storage.image().as_bytes().to_vec());
    }
    Ok(files)
}

fn open(storage: Recording) -> Result<()> {
    Engine::on_backend(storage, 1 << 20, None).map(drop)
}

/// The engine reads an older page in the place of a newer one as if it were that one. An older table of tables
/// shows the whole older commit, in which nothing is wrong but that it is not the last.
#[test]
fn pages_of_an_older_commit_where_the_last_begins_are_told() -> Result<()> {
    let mut files = files_of_commits()?;
    let last = files.pop().expect("there are some");
    open(Recording::new(Image::new(last.clone())))?;
    for (which, place) in first_pages(&last).into_iter().enumerate() {
        for older in &files {
            let from = first_pages(older)[which].clone();
            let mut damaged = last.clone();
            damaged[place.clone()].copy_from_slice(&older[from]);
            let storage = Recording::new(Image::new(damaged));
            ensure_told(&open(storage), "an older page");
        }
    }
    Ok(())
}

/// A file whose lists of what is free have branches: each commit replaces pages, which a reader still needs.
fn file_with_long_lists() -> Result<Vec<u8>> {
    let storage = Recording::default();
    let first: &[_] = &[("state", vec![0; 100])];
    let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[], first)))?;
    let reader = engine.begin_read(0)?;
    for commit in 0..80 {
        engine.apply(&Changes::default(), &[("state", vec![commit; 100])])?;
    }
    drop(reader);
    Ok(storage.image().as_bytes().to_vec())
}

/// A damaged number of a page has made the engine ask for gigabytes, while it opened a file. In a commit on such a
/// file it has ended the process, in a destructor that panicked while a panic unwound. It commits also when it is
/// closed, so after the refusal it is not.
#[test]
fn a_changed_byte_of_the_lists_of_free_pages_is_told_before_the_engine_believes_it() -> Result<()> {
    let file = file_with_long_lists()?;
    let places = bytes_of_lists(&file);
    assert!(places.len() > 2 * PAGE_BYTES, "several pages");
    let storage = Recording::new(Image::new(file.clone()));
    let (sound, opened) = largest_of(|| open(storage));
    opened?;
    // The heads of the pages, and a part of the rest: of all it takes minutes.
    let is_tried = |at: &usize| at % PAGE_BYTES < 40 || at.is_multiple_of(97);
    for at in places.into_iter().filter(is_tried) {
        let sound_byte = file[at];
        for byte in [sound_byte ^ 1 << (at % 8), 0] {
            if byte == sound_byte {
                continue;
            }
            let mut damaged = file.clone();
            damaged[at] = byte;
            let storage = Recording::new(Image::new(damaged));
            let (written, opened) = largest_of(|| open(storage.clone()));
            ensure_told(&opened, &format!("byte {at} is {byte}"));
            let (read, _) = largest_of(|| {
                let storage = Lent::of_test(storage);
                Engine::read_only(storage, Path::new("file"), 1 << 20).map(drop)
            });
            let largest = written.max(read);
            assert!(
                largest <= sound + PAGE_BYTES,
                "byte {at}: {largest} bytes at once"
            );
        }
    }
    Ok(())
}

/// What the engine is shown of a page of a file that it has just opened, once it has seen these others.
fn shown(file: &[u8], others: &[Range<u64>], place: &Range<u64>) -> Result<Vec<u8>> {
    let storage = Lent::of_test(Recording::new(Image::new(file.to_vec())));
    let mut page = Vec::new();
    for place in others.iter().chain([place]) {
        page.resize((place.end - place.start) as usize, 0);
        storage.read(place.start, &mut page).expect("it is there");
    }
    Ok(page)
}

/// A file, and where the pages of a table with one branch are.
struct Tree {
    file: Vec<u8>,
    branch: Range<u64>,
    leaves: Vec<Range<u64>>,
}

fn tree() -> Result<Tree> {
    const BLOCKS: BlockTable = BlockTable::new(0, "documents", false);
    let storage = Recording::default();
    let first: &[_] = &[("state", vec![0; 100])];
    let engine = Engine::on_backend(storage.clone(), 1 << 20, Some((&[BLOCKS], first)))?;
    let level = LevelName {
        table: &BLOCKS,
        number: 1,
    };
    let added = (0..100).map(|last| (last, vec![last as u8; 1_000].into()));
    let change = LevelChange {
        added: added.collect(),
        ..LevelChange::none(level)
    };
    let changes = Changes {
        levels: vec![change],
        ..Changes::default()
    };
    engine.apply(&changes, first)?;
    drop(engine);
    let file = storage.image().as_bytes().to_vec();
    let mut branches = Vec::new();
    let mut leaves = Vec::new();
    let raw = raw(&file);
    let root = root_of(&raw, "documents");
    raw.visit::<Error>(root, Widths::of_keys(Some(9)), &mut |visited| {
        match visited {
            Visited::Leaf(page) => leaves.push(page.offset..page.offset + PAGE_BYTES as u64),
            Visited::Branch(branch) => branches.push(raw.regions.range_of(branch.page)),
            Visited::Damaged(page) => panic!("{page:?} is damaged"),
        }
        Ok(())
    })?;
    assert_eq!(branches.len(), 1);
    Ok(Tree {
        file,
        branch: branches.remove(0),
        leaves,
    })
}

/// With the number of another page in a branch, the engine has asked for gigabytes, and has ended the process.
#[test]
fn a_damaged_branch_is_not_shown_and_a_leaf_is_as_it_is() -> Result<()> {
    let Tree {
        file,
        branch,
        leaves,
    } = tree()?;
    let bytes = |place: &Range<u64>| &file[place.start as usize..place.end as usize];
    assert_eq!(shown(&file, &[], &branch)?, bytes(&branch));
    // Up to there the checksums and the numbers of the pages below are. With another first byte, the first page of
    // a tree may be a leaf, which leads nowhere.
    let used = 8 + 24 * leaves.len();
    for at in 1..used {
        let mut damaged = file.clone();
        damaged[branch.start as usize + at] ^= 1 << (at % 8);
        let page = shown(&damaged, &[], &branch)?;
        assert!(page.iter().all(|&byte| byte == 0), "byte {at}");
    }
    for leaf in &leaves {
        let before = [branch.clone()];
        assert_eq!(shown(&file, &before, leaf)?, bytes(leaf));
        let mut damaged = file.clone();
        damaged[leaf.start as usize + 10] ^= 1;
        let page = shown(&damaged, &before, leaf)?;
        assert_ne!(
            page[10],
            bytes(leaf)[10],
            "what is in a leaf has its own checksum"
        );
        let branch = bytes(&branch);
        damaged[leaf.start as usize..leaf.end as usize].copy_from_slice(branch);
        let page = shown(&damaged, &before, leaf)?;
        assert!(page.iter().all(|&byte| byte == 0), "a branch for a leaf");
    }
    Ok(())
}

/// The engine writes other pages where old ones were.
#[test]
fn what_is_written_is_shown() -> Result<()> {
    let Tree {
        file,
        branch,
        leaves,
    } = tree()?;
    let storage = Lent::of_test(Recording::new(Image::new(file)));
    let mut page = vec![0; PAGE_BYTES];
    let new = vec![BRANCH; PAGE_BYTES];
    storage.read(branch.start, &mut page).expect("it is there");
    for place in leaves.iter().chain([&branch]) {
        storage.write(place.start, &new).expect("it can be written");
        storage.read(place.start, &mut page).expect("it is there");
        assert_eq!(page, new);
    }
    Ok(())
}

fn ensure_told(opened: &Result<()>, what: &str) {
    // The engine itself may find that a page is none.
    let is_told = matches!(opened, Err(Error::Damaged { .. } | Error::Corrupted(_)));
    assert!(is_told, "{what}: {opened:?}");
}
