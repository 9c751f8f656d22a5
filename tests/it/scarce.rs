//! A system that has no more to give: no room on the disk, no larger files, no more descriptors. Each command meets
//! each limit at many places of its life. It ends with an error that says so, what was there is there, nothing
//! temporary is left, and the same command does its work once the limit is lifted.
//!
//! Threads are in `threads`.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use simdb::{Database, Fingerprint, OpenOptions};

use crate::support::random::is_long_run;
use crate::support::{
    Folder, LIMIT, Ran, TestResult, assert_sound, document, done, insert_all, program, simdb,
    spread, within,
};

/// The documents of the database before each command.
const DOCUMENTS: u64 = 600;

/// What a system can be short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scarce {
    /// The bytes that are free on the disk.
    Room,
    /// The bytes that a file may have.
    FileSize,
    /// The numbers that descriptors may have.
    Descriptors,
}

impl Scarce {
    /// The limits that are tried, until a command passes.
    fn limits(self) -> Box<dyn Iterator<Item = u64>> {
        let is_long = is_long_run();
        match (self, is_long) {
            // With fewer the program cannot be loaded.
            (Self::Descriptors, _) => Box::new(4..64),
            (_, true) => Box::new((0..).step_by(4 << 10)),
            (_, false) => Box::new(
                [0, 1]
                    .into_iter()
                    .chain((1..).map(|step| (step * step) << 14)),
            ),
        }
    }

    /// What an error says. The system says it, or simdb, which has asked before.
    fn told(self) -> &'static [&'static str] {
        match self {
            Self::Room => &["No space left on device", "bytes may be needed"],
            Self::FileSize => &["File too large"],
            Self::Descriptors => &["Too many open files"],
        }
    }

    /// A command under a limit, with `folder` as its directory.
    fn limited(self, limit: u64, folder: &Path, words: &str) -> Command {
        let mut command = match self {
            Self::Room => on_full_disk(limit, folder),
            Self::FileSize | Self::Descriptors => limited(self, limit),
        };
        command.args(words.split(' ')).current_dir(folder);
        command
    }
}

/// The program, whose process limits itself before.
#[expect(unsafe_code, reason = "a child limits itself before it is the program")]
fn limited(scarce: Scarce, most: u64) -> Command {
    let mut command = simdb();
    let limit = move || limit_this_process(scarce, most);
    // SAFETY: it does nothing that a forked process may not do.
    unsafe { command.pre_exec(limit) };
    command
}

#[expect(unsafe_code, reason = "the standard library sets no limits")]
fn limit_this_process(scarce: Scarce, most: u64) -> std::io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    let resource = match scarce {
        Scarce::Descriptors => libc::RLIMIT_NOFILE,
        Scarce::FileSize | Scarce::Room => libc::RLIMIT_FSIZE,
    };
    // SAFETY: it reads a value of its own, and a forked process may call it.
    match unsafe { libc::setrlimit(resource, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The program on a disk that has a folder's files and so much room. It is a file system in memory, in a namespace of
/// its own, so that nobody has to be the superuser. At the end its files are copied back.
fn on_full_disk(room: u64, folder: &Path) -> Command {
    const SCRIPT: &str = r#"
        room=$1 folder=$2; shift 2
        disk=$folder/../disk
        {
            mkdir -p "$disk" && mount -t tmpfs -o size=64m none "$disk" && cp -a "$folder/." "$disk" || exit 99
            used=$(df -Pk "$disk" | tail -n 1 | { read -r _ _ used _; echo "$used"; })
            mount -o "remount,size=$((used + room))k" none "$disk" && cd "$disk" || exit 99
        } >&2
        "$@"
        code=$?
        cd "$folder" && rm -rf ./* ./.simdb-* && cp -a "$disk/." . || exit 99
        exit $code
    "#;
    let mut command = Command::new("unshare");
    command
        .args("--user --map-root-user --mount sh -c".split(' '))
        .args([SCRIPT, "sh"]);
    command.arg((room >> 10).to_string()).arg(folder);
    command.arg(simdb().get_program());
    command
}

/// A command, and what it makes.
struct Verb {
    words: &'static str,
    /// The names that it may give, with spaces between them.
    makes: &'static str,
}

impl Verb {
    /// Whether it removes documents.
    fn removes(&self) -> bool {
        self.words.starts_with("expire") || self.words.starts_with("delete")
    }
}

const fn verb(words: &'static str, makes: &'static str) -> Verb {
    Verb { words, makes }
}

const VERBS: [Verb; 15] = [
    verb(
        "ingest d.simdb more.tsv --batch=50 --input-format=fingerprints",
        "",
    ),
    verb(
        "ingest new.simdb more.tsv --batch=50 --input-format=fingerprints",
        "new.simdb",
    ),
    verb("create new.simdb", "new.simdb"),
    verb("load new.simdb dump.jsonl", "new.simdb"),
    verb("compact d.simdb", ""),
    verb("compact d.simdb --plan=6x21", ""),
    verb("backup d.simdb new.simdb", "new.simdb"),
    verb("salvage d.simdb new.simdb", "new.simdb"),
    verb(
        "dedup more.tsv --output=clean.tsv --removed=removed.jsonl --input-format=fingerprints",
        "clean.tsv removed.jsonl clean.tsv.dedup",
    ),
    verb("expire d.simdb --before=@100", ""),
    verb("delete d.simdb --duplicates", ""),
    verb(
        "query d.simdb --input=more.tsv --input-format=fingerprints",
        "",
    ),
    verb("pairs d.simdb", ""),
    verb(
        "pairs d.simdb --output=pairs.tsv",
        "pairs.tsv pairs.tsv.position",
    ),
    verb("check d.simdb", ""),
];

/// A file as it is compared: the keys and fingerprints of a database, or the bytes.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Documents(Vec<(Vec<u8>, Option<u64>)>),
    Bytes(Vec<u8>),
}

/// The folder of a command, and the one it is copied from each time.
struct Trials {
    top: Folder,
}

impl Trials {
    fn new() -> TestResult<Self> {
        let top = Folder::new()?;
        fs::create_dir(top.path("before"))?;
        let database = top.database("before/d.simdb")?;
        let bits = |i: u64| spread(i) >> (i % 3);
        let stored = (0..DOCUMENTS).map(|i| document(format!("d{i}"), bits(i)).with_seen(50));
        insert_all(&database, stored)?;
        drop(database);
        let lines = (0..DOCUMENTS).map(|i| format!("m{i}\t{:016x}\n", bits(i + DOCUMENTS / 2)));
        top.file("before/more.tsv", lines.collect::<String>())?;
        top.file(
            "before/dump.jsonl",
            done!("dump", top.path("before/d.simdb")).out,
        )?;
        Ok(Self { top })
    }

    /// Begins anew.
    fn begin(&self) -> std::io::Result<()> {
        let folder = self.top.path("w");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        for entry in fs::read_dir(self.top.path("before"))? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        Ok(())
    }

    /// All that is in the folder. Databases are sound.
    fn kept(&self) -> TestResult<BTreeMap<String, Kept>> {
        let mut kept = BTreeMap::new();
        for entry in fs::read_dir(self.top.path("w"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_directory = entry.file_type()?.is_dir();
            let content = match name.ends_with(".simdb") {
                true => documents(&entry.path())?,
                false if is_directory => Kept::Bytes(Vec::new()),
                false => Kept::Bytes(fs::read(entry.path())?),
            };
            kept.insert(name, content);
        }
        Ok(kept)
    }

    fn run(&self, words: &str) -> std::io::Result<Ran> {
        let mut command = program!(..words.split(' '));
        command
            .current_dir(self.top.path("w"))
            .output()
            .map(Ran::from)
    }

    /// Runs a command without a limit. Returns what it leaves.
    fn unlimited(&self, verb: &Verb, what: &str) -> TestResult<BTreeMap<String, Kept>> {
        let ran = self.run(verb.words)?;
        let has_ended = matches!(ran.code, Some(0 | 1));
        assert!(has_ended, "{what}, and then again: {ran:?}");
        self.kept()
    }

    /// Runs a command under a limit, and looks at what is left. Whether it has met the limit.
    fn meets(
        &self,
        scarce: Scarce,
        limit: u64,
        verb: &Verb,
        wanted: &BTreeMap<String, Kept>,
    ) -> TestResult<bool> {
        self.begin()?;
        let before = self.kept()?;
        let mut command = scarce.limited(limit, &self.top.path("w"), verb.words);
        let ran = Ran::from(within(LIMIT, move || command.output())?);
        let what = format!(
            "{} with {scarce:?} {limit}: {:?} {}",
            verb.words, ran.code, ran.err
        );
        let kept = self.kept()?;
        if ran.err.contains("while loading shared libraries") {
            // The system could not start it: whoever runs the tests has left it no descriptor for that.
            assert!(kept == before, "{what}");
            return Ok(true);
        }
        assert!(matches!(ran.code, Some(0..=2)), "{what}");
        assert!(!ran.err.contains("panicked"), "{what}");
        if ran.code != Some(2) {
            assert!(
                kept == *wanted,
                "{what}: it has not done all, and says that it has"
            );
            return Ok(false);
        }
        let is_clear = scarce.told().iter().any(|told| ran.err.contains(told));
        assert!(is_clear, "{what}");
        // It names a file, and not one that is only read.
        for line in ran.err.lines() {
            assert!(!line.starts_with("simdb: cannot read or write"), "{what}");
        }
        let reads_database = verb.words.starts_with("backup") || verb.words.starts_with("salvage");
        if reads_database && scarce != Scarce::Descriptors {
            assert!(!ran.err.contains("d.simdb: cannot"), "{what}");
        }
        for (name, content) in &kept {
            let is_known = before.contains_key(name) || verb.makes.split(' ').any(|it| it == name);
            assert!(is_known, "{what}: {name} is left");
            // Inputs stay. Of a database, there is all that was there before.
            if let Some(was) = before.get(name) {
                assert!(
                    verb.removes() || has_all(content, was),
                    "{what}: {name} was changed"
                );
            }
        }
        if let Some(told) = number_before(&ran.err, " documents had been stored before this") {
            let stored: usize = [("new.simdb", 0), ("d.simdb", DOCUMENTS as usize)]
                .iter()
                .filter(|(name, _)| verb.words.split(' ').any(|it| it == *name))
                .map(|(name, before)| kept.get(*name).map_or(0, Kept::len) - before)
                .sum();
            assert_eq!(stored, told, "{what}");
        }
        assert!(
            self.unlimited(verb, &what)? == *wanted,
            "{what}: and then again it does something else"
        );
        Ok(true)
    }

    /// Tries a limit of all values with each command. Returns how many runs have met it.
    fn try_all(&self, scarce: Scarce) -> TestResult<u64> {
        let mut met = 0;
        for verb in &VERBS {
            self.begin()?;
            let wanted = self.unlimited(verb, "without a limit")?;
            let mut limits = scarce.limits();
            let mut limit = || limits.next().ok_or("no limit is enough");
            while self.meets(scarce, limit()?, verb, &wanted)? {
                met += 1;
            }
        }
        println!("{scarce:?}: {met} runs met the limit");
        Ok(met)
    }
}

impl Kept {
    fn len(&self) -> usize {
        match self {
            Self::Documents(documents) => documents.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// What a sound database holds.
fn documents(path: &Path) -> TestResult<Kept> {
    let database = Database::open(path, &OpenOptions::new())?;
    assert_sound(&database)?;
    let mut documents = Vec::new();
    for document in database.snapshot()?.documents() {
        let document = document?;
        let bits = document.fingerprint().map(Fingerprint::bits);
        documents.push((document.key().to_vec(), bits));
    }
    documents.sort();
    Ok(Kept::Documents(documents))
}

/// Whether all that was kept before is kept.
fn has_all(now: &Kept, before: &Kept) -> bool {
    match (now, before) {
        (Kept::Documents(now), Kept::Documents(before)) => before
            .iter()
            .all(|document| now.binary_search(document).is_ok()),
        _ => now == before,
    }
}

/// The number that stands before a text.
fn number_before(text: &str, behind: &str) -> Option<usize> {
    let before = text
        .split(behind)
        .next()
        .filter(|before| before.len() < text.len())?;
    before
        .rsplit(|letter: char| !letter.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The limit on the size of files. The system sends a signal too, which ends a program that does not take it. So the
/// program once ended there without a word, and left a copy in the directory.
#[test]
fn each_command_meets_the_limit_on_the_size_of_files() -> TestResult {
    let met = Trials::new()?.try_all(Scarce::FileSize)?;
    assert!(met > 40, "{met}");
    Ok(())
}

/// A command that had no descriptor for the socket of its database left a directory behind: to remove a directory with
/// all in it takes a descriptor.
#[test]
fn each_command_runs_out_of_descriptors() -> TestResult {
    let met = Trials::new()?.try_all(Scarce::Descriptors)?;
    assert!(met > 30, "{met}");
    Ok(())
}

/// A real file system that is full.
#[test]
#[cfg_attr(
    not(simdb_namespaces),
    ignore = "this system lets nobody mount a file system in a namespace of their own"
)]
fn each_command_meets_a_full_disk() -> TestResult {
    let met = Trials::new()?.try_all(Scarce::Room)?;
    assert!(met > 40, "{met}");
    Ok(())
}

/// What is printed onto a full disk is not printed, and no command says that it was.
#[test]
fn an_output_that_cannot_be_written_is_told() -> TestResult {
    let trials = Trials::new()?;
    trials.begin()?;
    for words in [
        "dump d.simdb",
        "pairs d.simdb",
        "clusters d.simdb",
        "query d.simdb --input=more.tsv --input-format=fingerprints",
        "stats d.simdb",
        "get d.simdb d1",
        "report d.simdb",
        "check d.simdb",
        "plan",
        "--help",
        "query -h",
        "--version",
    ] {
        let full = fs::File::options().write(true).open("/dev/full")?;
        let mut command = program!(..words.split(' '));
        command.current_dir(trials.top.path("w"));
        Ran::from(command.stdout(full).output()?).refused("No space left on device");
    }
    // A dump that was cut is known as such, wherever it was.
    let dump = fs::read(trials.top.path("w/dump.jsonl"))?;
    for part in 0..20 {
        let cut = &dump[..dump.len() * part / 20];
        trials.top.file("w/cut.jsonl", cut)?;
        trials.run("load cut.simdb cut.jsonl")?.expect(2);
        assert!(!trials.top.path("w/cut.simdb").exists());
    }
    Ok(())
}
