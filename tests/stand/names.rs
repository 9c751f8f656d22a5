//! Power cuts of what gets a name: creation, compaction, another plan, a backup, a file that is built, a small file
//! that is written whole. Under each name there is the old file or the new one, and it is whole.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::cuts::{Commits, Unsynced};
use super::history::{
    Content, Ground, History, Home, Model, Operation, Repeat, Runner, SIZES, Write, play,
};
use super::random::{Random, amount, seed_or};
use super::seeded_crashes::examine;
use crate::database::{CreateOptions, Database};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::disk::{DiskEvent, FileNumber, Journal, is_removed};
use crate::files::fail_directory_syncs;
use crate::fingerprint::Fingerprint;
use crate::memory::{Cache, Memory};
use crate::store::{Access, CacheLimit, Event, Image, Settings, Store};

/// A home that is a folder of files. What reaches the file system is in the journal.
pub(super) struct InFolder {
    pub(super) folder: tempfile::TempDir,
    journal: Journal,
}

pub(super) const NAME: &str = "d.simdb";
pub(super) const COPY: &str = "copy.simdb";

impl InFolder {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let journal = Journal::of(folder.path());
        Self { folder, journal }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }
}

impl Home for InFolder {
    fn open(&self, settings: Option<&Settings>) -> Result<Database> {
        let limit = CacheLimit::for_tests();
        let path = self.path();
        let store = match settings {
            Some(settings) => Store::create(&path, settings, limit, SIZES)?,
            None => Store::open(&path, Access::ReadWrite, limit, SIZES)?,
        };
        Ok(Database::of_store(store.into()))
    }

    fn path_of_copy(&self) -> Option<PathBuf> {
        Some(self.folder.path().join(COPY))
    }

    fn remove_copy(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(Error::io(path))?;
        is_removed(path);
        Ok(())
    }

    fn note(&self, event: Event) {
        self.journal.note(match event {
            Event::Begun(commits) => DiskEvent::Begun(commits),
            Event::Acknowledged(commits) => DiskEvent::Acknowledged(commits),
            other => unreachable!("a runner does not note {other:?}"),
        });
    }
}

/// The files that a power cut has left, by their names.
pub(super) type Files = BTreeMap<String, (FileNumber, Image)>;

/// What stands under a name.
#[derive(Clone, Copy, Debug)]
enum Entry {
    File(FileNumber),
    Directory,
}

type Names = BTreeMap<String, Entry>;

/// What is done with names. It is durable once the directory is synced that the first name is in.
#[derive(Debug)]
enum Change {
    Given(String, Entry),
    Taken(String),
    /// The first name is given in the place of the second, for what stands under it.
    Moved(String, String, Entry),
}

impl Change {
    fn name(&self) -> &str {
        let (Self::Given(name, _) | Self::Taken(name) | Self::Moved(name, ..)) = self;
        name
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Given(name, entry) => _ = names.insert(name.clone(), *entry),
            Self::Taken(name) => _ = names.remove(name),
            Self::Moved(to, from, entry) => {
                names.remove(from);
                names.insert(to.clone(), *entry);
                let within = format!("{from}/");
                let all = Vec::from_iter(names.keys().cloned());
                for name in all.iter().filter(|name| name.starts_with(&within)) {
                    let entry = names.remove(name).expect("it is a name");
                    names.insert(name.replacen(from, to, 1), entry);
                }
            }
        }
    }
}

/// The events of a folder, read from the beginning to a moment.
pub(super) struct FolderMoment<'e> {
    events: &'e [DiskEvent],
    at: usize,
    files: BTreeMap<FileNumber, Unsynced>,
    /// The number of commits that were acknowledged when a file got its name.
    named_at: BTreeMap<FileNumber, usize>,
    /// The names as far as they are synced.
    names: Names,
    /// The names that were given and taken since then.
    unsynced: Vec<Change>,
    commits: Commits,
}

impl<'e> FolderMoment<'e> {
    pub(super) fn new(events: &'e [DiskEvent]) -> Self {
        Self {
            events,
            at: 0,
            files: BTreeMap::new(),
            named_at: BTreeMap::new(),
            names: BTreeMap::new(),
            unsynced: Vec::new(),
            commits: Commits::default(),
        }
    }

    /// Goes on to the moment before the event of this number.
    pub(super) fn go_to(&mut self, at: usize) {
        for event in &self.events[self.at..at] {
            self.add(event);
        }
        self.at = at;
    }

    fn add(&mut self, event: &DiskEvent) {
        match event {
            DiskEvent::Created(file) => _ = self.files.insert(*file, Unsynced::default()),
            DiskEvent::Write { file, offset, data } => {
                let offset = *offset;
                let data = data.clone();
                self.file(*file).add(&Event::Write { offset, data });
            }
            DiskEvent::SetLength { file, length } => {
                self.file(*file).add(&Event::SetLength(*length));
            }
            DiskEvent::Sync(file) => self.file(*file).add(&Event::Sync),
            DiskEvent::Named(file, path) => {
                self.named_at.insert(*file, self.commits.acknowledged);
                let change = Change::Given(name_of(path), Entry::File(*file));
                self.unsynced.push(change);
            }
            DiskEvent::Renamed(from, to) => {
                let from = name_of(from);
                let mut now = self.names.clone();
                self.unsynced
                    .iter()
                    .for_each(|change| change.apply(&mut now));
                let moved = Change::Moved(name_of(to), from.clone(), now[&from]);
                self.unsynced.push(moved);
            }
            DiskEvent::Removed(path) => self.unsynced.push(Change::Taken(name_of(path))),
            DiskEvent::MadeDirectory(path) => {
                let change = Change::Given(name_of(path), Entry::Directory);
                self.unsynced.push(change);
            }
            DiskEvent::SyncDirectory(folder) => {
                let names = &mut self.names;
                self.unsynced.retain(|change| {
                    let is_synced = Path::new(change.name()).parent() == Some(folder);
                    if is_synced {
                        change.apply(names);
                    }
                    !is_synced
                });
            }
            DiskEvent::Begun(commits) => self.commits.begun = *commits,
            DiskEvent::Acknowledged(commits) => self.commits.acknowledged = *commits,
        }
    }

    fn file(&mut self, file: FileNumber) -> &mut Unsynced {
        self.files.get_mut(&file).expect("the file was created")
    }

    /// Which commits the file may have as the last one.
    fn commits(&self) -> Range<usize> {
        let mut later = self.events[self.at..].iter();
        let next = later.find_map(|event| match event {
            DiskEvent::Acknowledged(commits) => Some(*commits),
            _ => None,
        });
        self.commits.allowed(next)
    }

    /// The files that a power cut could leave at this moment, by their names, and what has happened.
    pub(super) fn cut(&self, random: &mut Random) -> (Files, String) {
        let (names, mut what) = self.cut_names(random);
        let mut files = BTreeMap::new();
        for (name, entry) in names {
            if let Entry::File(file) = entry {
                let (image, cut) = self.files[&file].cut(random);
                what += &format!("; {name}: {cut}");
                files.insert(name, (file, image));
            }
        }
        (files, what)
    }

    /// Makes a folder as a power cut could leave it at this moment. Returns what has happened.
    #[cfg(feature = "ingest")]
    pub(super) fn cut_into(&self, folder: &Path, random: &mut Random) -> String {
        let (names, mut what) = self.cut_names(random);
        for (name, entry) in names {
            let path = folder.join(&name);
            // What is in a directory comes behind it in the order of names. Without the directory it is lost.
            if !path.parent().is_some_and(Path::is_dir) {
                continue;
            }
            match entry {
                Entry::Directory => std::fs::create_dir(path).expect("there is room"),
                Entry::File(file) => {
                    let (image, cut) = self.files[&file].cut(random);
                    what += &format!("; {name}: {cut}");
                    std::fs::write(path, image.as_bytes()).expect("there is room");
                }
            }
        }
        what
    }

    fn cut_names(&self, random: &mut Random) -> (Names, String) {
        let mut names = self.names.clone();
        let mut what = String::from("names:");
        let is_in_order = random.one_in(2);
        let first = random.below(self.unsynced.len() as u64 + 1) as usize;
        for (index, change) in self.unsynced.iter().enumerate() {
            let has_come = if is_in_order {
                index < first
            } else {
                random.one_in(2)
            };
            if has_come {
                what += &format!(" {change:?}");
                change.apply(&mut names);
            }
        }
        (names, what)
    }
}

fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Moments of a history for power cuts, in order. Half of them are close to a change of names.
pub(super) fn moments(events: &[DiskEvent], count: usize, random: &mut Random) -> Vec<usize> {
    let mut of_names = vec![0];
    for (index, event) in events.iter().enumerate() {
        let is_of_names = !matches!(
            event,
            DiskEvent::Write { .. } | DiskEvent::SetLength { .. } | DiskEvent::Sync(_)
        );
        if is_of_names {
            of_names.push(index);
        }
    }
    let mut moments = Vec::new();
    for index in 0..count as u64 {
        let anywhere = random.below(events.len() as u64 + 1) as usize;
        let close = *random.pick(&of_names) + random.below(4) as usize;
        let at = if index % 2 == 0 { anywhere } else { close };
        moments.push(at.min(events.len()));
    }
    moments.sort_unstable();
    moments
}

/// Looks at a folder as a power cut at a moment leaves it. Returns the number of files in it that were examined.
fn examine_folder(
    moment: &FolderMoment<'_>,
    models: &[Model],
    created: usize,
    random: &mut Random,
    what: &str,
) -> Result<usize> {
    let (mut files, cut) = moment.cut(random);
    let what = format!("{what}, event {}: {cut}", moment.at);
    let mut examined = 0;
    match files.remove(NAME) {
        Some((_, image)) => {
            let allowed = &models[moment.commits()];
            examined += 1 + examine(image, allowed, random, 1, &what)?;
        }
        None => assert!(moment.at < created, "{what}: the database is gone"),
    }
    if let Some((file, image)) = files.remove(COPY) {
        // Perhaps one that was removed since then, which was not synced.
        let copied = &models[moment.named_at[&file]];
        examined += 1 + examine(image, std::slice::from_ref(copied), random, 1, &what)?;
    }
    Ok(examined)
}

/// A history with compactions, other plans and backups, in a folder.
fn cut_folder(seed: u64, cuts: usize) -> Result<usize> {
    let home = InFolder::new();
    let journal = home.journal.clone();
    let mut runner = Runner::new(home, &Settings::for_tests())?;
    let created = journal.events().len();
    let mut operations = History::new(seed, 16, Ground::Folder).operations;
    // So that each history has all kinds of files that get a name.
    operations.insert(6, Operation::Backup);
    operations.insert(9, Operation::Compact);
    operations.insert(12, Operation::Replan("6x21"));
    for operation in &operations {
        runner.run(operation)?;
    }
    let models = runner.end();
    let events = journal.events();
    let mut random = Random::new(!seed);
    let mut moment = FolderMoment::new(&events);
    let mut examined = 0;
    for at in moments(&events, cuts, &mut random) {
        moment.go_to(at);
        let what = format!("seed {seed}");
        examined += examine_folder(&moment, &models, created, &mut random, &what)?;
    }
    Ok(examined)
}

/// Compactions, other plans and backups change no answer.
#[test]
fn histories_in_a_folder_leave_what_the_model_says() -> Result<()> {
    const TEST: &str = "histories_in_a_folder_leave_what_the_model_says";
    let first = seed_or(1);
    for seed in first..first + 12 {
        let _repeat = Repeat { seed, test: TEST };
        play(InFolder::new(), Ground::Folder, seed)?;
    }
    Ok(())
}

/// A file that is made beside the old one, and gets its name when it is whole: it may be there before its name is
/// durable, or its name before all that was done since. There is the old file or the new one, with all commits.
#[test]
fn a_power_cut_leaves_the_old_file_or_the_new_one_under_each_name() -> Result<()> {
    const TEST: &str = "a_power_cut_leaves_the_old_file_or_the_new_one_under_each_name";
    const CUTS: usize = 30;
    let wanted = amount("SIMDB_FOLDERS", 300, 5_000);
    let first = seed_or(1);
    let mut examined = 0;
    for seed in first..first + wanted.div_ceil(CUTS) as u64 {
        let _repeat = Repeat { seed, test: TEST };
        examined += cut_folder(seed, CUTS)?;
    }
    println!("{examined} files");
    assert!(examined >= wanted * 3 / 4, "{examined} files");
    Ok(())
}

/// A file that is built gets its name when all of it is there.
#[test]
fn a_power_cut_leaves_a_file_that_is_built_whole_or_not_at_all() -> Result<()> {
    let home = InFolder::new();
    let options = CreateOptions::new()
        .scheme(crate::Scheme::External)
        .sketch_size(crate::SketchSize::Bytes16);
    let mut model = Model::default();
    let mut documents = Vec::new();
    for number in 0..200u64 {
        let fingerprint = Fingerprint::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let document = Document::new(format!("key {number}"), fingerprint).with_seen(5);
        model.put(&document);
        documents.push(Ok(document));
    }
    let options = options.tiny_blocks();
    drop(Database::build(home.path(), &options, documents, 1 << 16)?);
    let events = home.journal.events();
    let mut random = Random::new(seed_or(1));
    let mut moment = FolderMoment::new(&events);
    let mut examined = 0;
    for at in moments(&events, 80, &mut random) {
        moment.go_to(at);
        let (mut files, cut) = moment.cut(&mut random);
        if let Some((_, image)) = files.remove(NAME) {
            examined += 1;
            examine(image, std::slice::from_ref(&model), &mut random, 1, &cut)?;
        }
        let is_done = at == events.len();
        assert!(files.is_empty() && (!is_done || examined > 0), "{cut}");
    }
    assert!(examined > 10, "{examined} files");
    Ok(())
}

/// The state of a cleaning is a small file that is written again and again.
#[cfg(feature = "ingest")]
#[test]
fn a_power_cut_leaves_a_small_file_as_it_was_or_as_it_is_to_be() -> Result<()> {
    let home = InFolder::new();
    let path = home.folder.path().join("state.json");
    let mut contents = Vec::new();
    for number in 0..20usize {
        let bytes = vec![b'a' + number as u8; 300 + number * 97];
        home.journal.note(DiskEvent::Begun(number + 1));
        crate::files::replace(&path, &bytes)?;
        contents.push(bytes);
        home.journal.note(DiskEvent::Acknowledged(number + 1));
    }
    let events = home.journal.events();
    let mut random = Random::new(seed_or(1));
    let mut moment = FolderMoment::new(&events);
    for at in 0..=events.len() {
        moment.go_to(at);
        for _ in 0..20 {
            let (files, cut) = moment.cut(&mut random);
            let allowed = moment.commits();
            let is_right = match files.get("state.json") {
                None => allowed.start == 0,
                Some((_, image)) => allowed
                    .clone()
                    .any(|commits| commits > 0 && image.as_bytes() == &contents[commits - 1][..]),
            };
            assert!(is_right, "event {at}, {allowed:?}: {cut}");
        }
    }
    Ok(())
}

/// A compaction had replaced the file, and its process was killed, or the directory could not be synced. Whoever opened
/// the copy then could commit to it, and was told that it was durable. But after a power cut the old file was back
/// under the name, without those commits.
#[test]
fn a_commit_makes_the_name_of_its_file_durable_too() -> Result<()> {
    for reopens in [false, true] {
        let home = InFolder::new();
        let journal = home.journal.clone();
        let mut runner = Runner::new(home, &Settings::for_tests())?;
        runner.run(&put("a"))?;
        fail_directory_syncs(true);
        let failed = runner.run(&Operation::Compact);
        fail_directory_syncs(false);
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        if reopens {
            runner.run(&Operation::Drop)?;
        }
        runner.run(&put("b"))?;
        let models = runner.end();
        let events = journal.events();
        let mut moment = FolderMoment::new(&events);
        moment.go_to(events.len());
        let mut random = Random::new(seed_or(1));
        for _ in 0..20 {
            examine_folder(&moment, &models, 0, &mut random, "after a compaction")?;
        }
    }
    Ok(())
}

/// What a folder of files promises when something that gave a file its name has returned: the file was synced again
/// under its name, since some file systems ask for that, and so was the folder.
fn assert_name_is_durable(journal: &Journal, name: &str, what: &str) {
    let events = journal.events();
    let is_named =
        |event: &DiskEvent| matches!(event, DiskEvent::Named(_, path) if name_of(path) == name);
    let named = events.iter().rposition(is_named);
    let named = named.unwrap_or_else(|| panic!("{what} gives no file the name {name}"));
    let DiskEvent::Named(file, _) = events[named] else {
        unreachable!("it is the event of a name");
    };
    let later = &events[named..];
    let is_synced = |event: &DiskEvent| matches!(event, DiskEvent::Sync(synced) if *synced == file);
    assert!(
        later.iter().any(is_synced),
        "{what} does not sync the file under its name"
    );
    let is_folder = |event: &DiskEvent| matches!(event, DiskEvent::SyncDirectory(_));
    assert!(
        later.iter().any(is_folder),
        "{what} does not sync the folder"
    );
}

/// A commit makes the name of its file durable too. So without a commit behind it, a compaction that synced nothing
/// lost nothing, and no power cut showed it. But it had told that the copy was there, and the old plan was back.
#[test]
fn what_gives_a_file_its_name_makes_it_durable_before_it_returns() -> Result<()> {
    let home = InFolder::new();
    let journal = home.journal.clone();
    let copy = home.folder.path().join(COPY);
    let built = home.folder.path().join("built.simdb");
    let mut runner = Runner::new(home, &Settings::for_tests())?;
    assert_name_is_durable(&journal, NAME, "creation");
    runner.run(&put("a"))?;
    // No merge may sync the file by chance.
    runner.run(&Operation::Settle)?;
    runner.run(&Operation::Compact)?;
    assert_name_is_durable(&journal, NAME, "compaction");
    runner.run(&Operation::Replan("6x21"))?;
    assert_name_is_durable(&journal, NAME, "another plan");
    runner.database().snapshot()?.backup(&copy)?;
    assert_name_is_durable(&journal, COPY, "a backup");
    let options = CreateOptions::new().scheme(crate::Scheme::External);
    let one = Document::new("a", Fingerprint::from_bits(1));
    drop(Database::build(&built, &options, [Ok(one)], 1 << 16)?);
    assert_name_is_durable(&journal, "built.simdb", "building");
    Ok(())
}

/// A disk may take what is written and keep something else. So a copy is read back before it replaces the file, which
/// is then the only one. Without a cache, the engine reads it from the disk.
#[test]
fn a_copy_that_the_disk_has_changed_does_not_replace_the_file() -> Result<()> {
    let home = InFolder::new();
    let limit = CacheLimit::new(Cache::Bytes(0), Memory::default());
    let store = Store::create(&home.path(), &Settings::for_tests(), limit, SIZES)?;
    let database = Database::of_store(store.into());
    let mut random = Random::new(7);
    let mut payload = Vec::new();
    for key in 0..20u64 {
        // Such bytes are stored as they are, since they cannot be packed.
        payload = (0..200).map(|_| random.next() as u8).collect();
        let document = Document::new(format!("key {key}"), Fingerprint::from_bits(key));
        let mut txn = database.begin_write()?;
        txn.insert(&document.with_seen(0).with_payload(payload.clone()))?;
        txn.commit()?;
    }
    database.settle()?;
    let before = Content::of(&database)?;
    let mut is_damaged = false;
    let compacted = database.compact(|done, all| {
        // From the first call with all rows on, the copy is there, and is read back. Its documents come last.
        is_damaged = is_damaged || done == all && home.journal.damage_newest(&payload);
        ControlFlow::Continue(())
    });
    assert!(is_damaged, "the copy does not have the payload");
    assert!(
        matches!(compacted, Err(Error::Damaged { .. })),
        "{compacted:?}"
    );
    assert_eq!(Content::of(&database)?, before);
    database.compact(|_, _| ControlFlow::Continue(()))?;
    assert_eq!(Content::of(&database)?, before);
    Ok(())
}

/// A transaction of one document.
pub(super) fn put(key: &str) -> Operation {
    let document = Document::new(key, Fingerprint::from_bits(7)).with_seen(0);
    Operation::Commit(vec![Write::Put(document)])
}
