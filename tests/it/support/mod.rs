//! Helpers that several tests need.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::ops::{ControlFlow, Range};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use simdb::{
    CreateOptions, Database, Document, Fingerprint, Matches, OpenOptions, Query, Scheme, Sketch,
    SketchSize, Snapshot,
};
use tempfile::TempDir;

#[allow(dead_code, reason = "the stand has use for more of it")]
#[path = "../../stand/random.rs"]
pub(crate) mod random;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// The longest that a test waits. It only ends what hangs: nothing takes so long, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A folder for one test, which is removed at its end, and the paths in it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// A folder in memory if the system has one with room: for tests that would wait for hundreds of syncs of a disk,
    /// and look at none of its properties.
    pub(crate) fn in_memory() -> std::io::Result<Self> {
        const ENOUGH: u64 = 2 << 30;
        let memory = Path::new("/dev/shm");
        match fs4::available_space(memory) {
            Ok(free) if free >= ENOUGH => TempDir::new_in(memory).map(Self),
            _ => Self::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> std::io::Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, content)?;
        Ok(path)
    }

    /// The program in this folder, with these words.
    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = simdb();
        command.args(words.split(' ')).current_dir(self.0.path());
        command
    }

    pub(crate) fn run(&self, words: &str) -> std::io::Result<Ran> {
        self.command(words).output().map(Ran::from)
    }

    /// How many files and folders are in it.
    pub(crate) fn count(&self) -> std::io::Result<usize> {
        Ok(std::fs::read_dir(self.0.path())?.count())
    }

    /// Creates a [`tiny`] database of ready fingerprints and sketches.
    pub(crate) fn tiny_database(&self, name: &str) -> simdb::Result<Database> {
        let options = external().sketch_size(SketchSize::Bytes16);
        Database::create(self.path(name), &options.recent_documents(8).tiny_blocks())
    }

    /// Creates a database of ready fingerprints.
    pub(crate) fn database(&self, name: &str) -> simdb::Result<Database> {
        Database::create(self.path(name), &external())
    }
}

/// Options for a database of ready fingerprints.
pub(crate) fn external() -> CreateOptions {
    CreateOptions::new().scheme(Scheme::External)
}

/// Options that make everything small. A few documents then take every path that millions take.
pub(crate) fn tiny() -> OpenOptions {
    OpenOptions::new().recent_documents(8).tiny_blocks()
}

/// A document seen at time 0.
pub(crate) fn document(key: impl Into<Vec<u8>>, bits: u64) -> Document {
    Document::new(key, Fingerprint::from_bits(bits)).with_seen(0)
}

/// A fingerprint for each number, far from those of the other numbers.
pub(crate) fn spread(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number for each number that looks random.
pub(crate) fn scattered(i: u64) -> u64 {
    spread(i + 1)
        .rotate_left(31)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A document for each number, with the number as its key and a fingerprint far from the others.
pub(crate) fn numbered(i: u64) -> Document {
    document(i.to_string(), spread(i))
}

/// A document for each number, with the number as its key, and its fingerprint.
pub(crate) fn keyed(
    numbers: Range<u64>,
    bits: impl Fn(u64) -> u64,
) -> impl Iterator<Item = Document> {
    numbers.map(move |i| document(i.to_string(), bits(i)))
}

/// A record of a web archive: a page that was fetched at second 7.
pub(crate) fn web_page(address: &str, text: &str) -> String {
    let body = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{text}");
    let head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Date: 1970-01-01T00:00:07Z\r\n";
    let length = body.len();
    format!("{head}WARC-Target-URI: {address}\r\nContent-Length: {length}\r\n\r\n{body}\r\n\r\n")
}

/// A query with this fingerprint.
pub(crate) fn query_of(bits: u64) -> Query {
    Query::new(Fingerprint::from_bits(bits))
}

/// The estimated similarity of two sketches of one size, plainly.
pub(crate) fn jaccard(a: &Sketch, b: &Sketch) -> f64 {
    let pairs = a.as_bytes().iter().zip(b.as_bytes());
    let differing: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
    let samples = 8.0 * a.as_bytes().len() as f64;
    let (a, b) = (f64::from(a.shingles()), f64::from(b.shingles()));
    (1.0 - 2.0 * f64::from(differing) / samples)
        .max(0.0)
        .min(a.min(b) / a.max(b))
}

/// Inserts all documents in one transaction.
pub(crate) fn insert_all(
    database: &Database,
    documents: impl IntoIterator<Item = Document>,
) -> simdb::Result<()> {
    let mut txn = database.begin_write()?;
    for document in documents {
        txn.insert(&document)?;
    }
    txn.commit()
}

/// Progress that asks for the rest of the work.
pub(crate) fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Takes whatever is told, and asks for the rest.
pub(crate) fn every<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Progress that does something, and asks for the rest of the work.
pub(crate) fn going_on(mut each: impl FnMut(u64, u64)) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    move |done, all| {
        each(done, all);
        ControlFlow::Continue(())
    }
}

/// Runs `work` in another thread, and fails if it takes longer than `limit`. For what must not hang.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (send, receive) = mpsc::channel();
    // A thread that hangs ends with the process.
    let thread = thread::spawn(move || {
        let done = work();
        _ = send.send(());
        done
    });
    match receive.recv_timeout(limit) {
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: {limit:?} are over"),
        // If the thread has panicked, so does this one.
        _ => thread
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic)),
    }
}

/// Waits until something is so. For what others do in their own time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what} does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tries until all is well, five times at most. An attempt gets its number, and returns what was wrong with it.
///
/// For what a busy machine can spoil now and then: a time, or who comes first. What a defect spoils, it spoils each
/// time.
pub(crate) fn in_one_of_five_tries(
    mut attempt: impl FnMut(u32) -> TestResult<Option<String>>,
) -> TestResult {
    let mut wrong = Vec::new();
    for number in 0..5 {
        match attempt(number)? {
            Some(told) => wrong.push(told),
            None => return Ok(()),
        }
    }
    Err(format!("wrong five times: {wrong:#?}").into())
}

/// Drops a database as a panic does. So it is not closed in order, and its log stays in the file.
pub(crate) fn leave_log(database: Database) {
    let dropped = panic::catch_unwind(AssertUnwindSafe(move || {
        let _database = database;
        panic::resume_unwind(Box::new("no message is printed"));
    }));
    assert!(dropped.is_err());
}

/// The number of documents in a file.
pub(crate) fn documents_of(path: impl AsRef<Path>) -> simdb::Result<u64> {
    stored(&Database::open(path, &OpenOptions::new())?)
}

pub(crate) fn stored(database: &Database) -> simdb::Result<u64> {
    Ok(database.snapshot()?.stats()?.documents)
}

/// All documents, in the order in which they were written.
pub(crate) fn all_documents(database: &Database) -> simdb::Result<Vec<Document>> {
    database.snapshot()?.documents().collect()
}

/// Damages a database: its last document is gone, and all else is there.
pub(crate) fn lose_document(database: &Path) -> TestResult {
    let engine = redb::Database::open(database)?;
    let txn = engine.begin_write()?;
    txn.open_table(redb::TableDefinition::<(u8, u64), &[u8]>::new("documents"))?
        .pop_last()?;
    txn.commit()?;
    Ok(())
}

/// The keys of all documents, in order.
pub(crate) fn all_keys(snapshot: &Snapshot) -> simdb::Result<Vec<String>> {
    let key = |document: Document| String::from_utf8_lossy(document.key()).into_owned();
    let mut keys: Vec<String> = snapshot
        .documents()
        .map(|document| document.map(key))
        .collect::<simdb::Result<_>>()?;
    keys.sort_unstable();
    Ok(keys)
}

/// Writes behind the end of a file.
pub(crate) fn append(path: &Path, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    let mut file = std::fs::File::options().append(true).open(path)?;
    file.write_all(bytes.as_ref())
}

/// The keys and distances of matches, in order.
pub(crate) fn listed(matches: &Matches) -> Vec<(String, u32)> {
    let key = |document: &Document| String::from_utf8_lossy(document.key()).into_owned();
    matches
        .iter()
        .map(|found| (key(&found.document), found.distance))
        .collect()
}

/// Asserts that the check of a database finds it sound.
///
/// A snapshot is checked first, with the recent rows that are in memory. The check of a database reads them anew from
/// the file, and so it also forgets what was wrong with them.
pub(crate) fn assert_sound(database: &Database) -> simdb::Result<()> {
    let snapshot = database.snapshot()?;
    let in_memory = snapshot.check_with(go_on)?;
    drop(snapshot);
    for report in [in_memory, database.check()?] {
        assert!(report.is_sound(), "{:?}", report.problems);
    }
    Ok(())
}

/// A file of the bundled data.
pub(crate) fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The folder of real data that SIMDB_DATA names. A test that needs it is ignored if the tests were built without.
pub(crate) fn real_data() -> TestResult<PathBuf> {
    let folder =
        std::env::var_os("SIMDB_DATA").ok_or("SIMDB_DATA does not name the folder of the data")?;
    Ok(folder.into())
}

/// The little-endian fingerprints of a file.
pub(crate) fn fingerprints(path: &Path) -> std::io::Result<Vec<u64>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect())
}

/// Packs bytes as the program gzip does.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// What is packed in a file, in one part or several.
pub(crate) fn gunzip(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    MultiGzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The rows of a tab-separated file with a header, packed with gzip or not.
pub(crate) fn rows(path: &Path) -> std::io::Result<Vec<Vec<String>>> {
    let bytes = match path.extension().is_some_and(|it| it == "gz") {
        true => gunzip(path)?,
        false => std::fs::read(path)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .skip(1)
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect())
}

/// A command that is started with pipes in the places of its input and its outputs.
pub(crate) trait Piped {
    fn piped(&mut self) -> std::io::Result<Child>;
}

impl Piped for Command {
    fn piped(&mut self) -> std::io::Result<Child> {
        self.stdin(Stdio::piped());
        self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
}

/// The program under test.
pub(crate) fn simdb() -> Command {
    with_default_signals(Command::new(env!("CARGO_BIN_EXE_simdb")))
}

/// What ends a program in order.
#[cfg(unix)]
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Lets a program heed the signals that end it, whoever started the tests: what `nohup` starts, or a script in the
/// background, ignores some of them, and so do all that it starts. Tests of Ctrl-C then waited for ever.
#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "a child changes its signals before it is the program"
)]
fn with_default_signals(mut command: Command) -> Command {
    use std::os::unix::process::CommandExt as _;

    if SIGNALS.into_iter().any(is_ignored) {
        // SAFETY: it does nothing that a forked process may not do.
        unsafe { command.pre_exec(heed_signals) };
    }
    command
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library leaves signals alone")]
fn heed_signals() -> std::io::Result<()> {
    for signal in SIGNALS {
        // SAFETY: no handler is set, and a forked process may call it.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

#[cfg(not(unix))]
fn with_default_signals(command: Command) -> Command {
    command
}

/// Whether this process ignores a signal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library does not tell")]
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zero is a value of it, and nothing is changed with a null pointer for the new action.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Waits until a process has its own way of ending when SIGINT comes. Before that, it ends as any other does.
#[cfg(unix)]
pub(crate) fn wait_until_it_ends_in_order(process: &Child) {
    let status = format!("/proc/{}/status", process.id());
    if !Path::new("/proc/self/status").exists() {
        // Nothing tells. So long a program takes to begin, unless the machine is very busy.
        return thread::sleep(Duration::from_secs(1));
    }
    // The last of the signals that it registers.
    wait_until("a handler of signals", || {
        let told = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = told.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (libc::SIGHUP - 1) != 0)
    });
}

/// The program that measures.
pub(crate) fn bench() -> Command {
    example("bench")
}

/// An example. `cargo test` builds all of them; `cargo build --example NAME` builds one.
pub(crate) fn example(name: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_simdb")).with_file_name("examples");
    let program = program.join(name);
    with_default_signals(Command::new(
        program.with_extension(std::env::consts::EXE_EXTENSION),
    ))
}

/// The exit code and the output of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The objects on standard output. Programs that read tables want one type of a field.
    #[track_caller]
    pub(crate) fn json(&self) -> Result<Vec<Value>, serde_json::Error> {
        let lines = self.out.lines();
        let objects: Vec<Value> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        assert_eq!(field_of_two_types(&objects), None, "{}", self.out);
        Ok(objects)
    }

    /// The only object on standard output.
    pub(crate) fn object(&self) -> TestResult<Value> {
        let mut objects = self.json()?;
        match (objects.pop(), objects.is_empty()) {
            (Some(object), true) => Ok(object),
            _ => Err(format!("not one object: {}", self.out).into()),
        }
    }

    /// The last object on standard output. For an ingestion these are the totals.
    pub(crate) fn last(&self) -> TestResult<Value> {
        self.json()?
            .pop()
            .ok_or_else(|| "nothing on standard output".into())
    }

    /// Checks numbers in the last object on standard output.
    #[track_caller]
    pub(crate) fn counts<const N: usize>(&self, fields: [&str; N], expected: [u64; N]) {
        let object = self.last().expect("standard output has objects");
        assert_eq!(figures(&object, fields), expected, "{self:?}");
    }

    /// Checks the exit code, and shows the output if it is another. What is said of one thing has to say so.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        for text in [&self.out, &self.err] {
            assert_eq!(plural_of_one(text), None, "{text}");
        }
        assert_eq!(
            self.code,
            Some(code),
            "standard output:\n{}\nstandard error:\n{}",
            self.out,
            self.err
        );
        self
    }

    /// Checks that the program could not do what was asked, and says why.
    #[track_caller]
    pub(crate) fn refused(self, reason: &str) -> Self {
        self.expect(2).says(reason)
    }

    #[track_caller]
    fn expect_of_output(self, is_right: impl FnOnce(&str) -> bool, what: &str) -> Self {
        assert!(
            is_right(&self.out),
            "standard output does not {what}: {self:?}"
        );
        self
    }

    /// Checks that standard output contains a text.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        self.expect_of_output(|out| out.contains(text), &format!("contain {text:?}"))
    }

    /// Checks that standard output does not contain a text.
    #[track_caller]
    pub(crate) fn prints_no(self, text: &str) -> Self {
        self.expect_of_output(|out| !out.contains(text), &format!("lack {text:?}"))
    }

    /// Checks how standard output begins.
    #[track_caller]
    pub(crate) fn begins(self, text: &str) -> Self {
        self.expect_of_output(|out| out.starts_with(text), &format!("begin with {text:?}"))
    }

    /// Checks how standard output ends.
    #[track_caller]
    pub(crate) fn ends(self, text: &str) -> Self {
        self.expect_of_output(|out| out.ends_with(text), &format!("end with {text:?}"))
    }

    /// Checks that standard error contains a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(
            self.err.contains(text),
            "{text:?} is not in standard error:\n{}",
            self.err
        );
        self
    }

    /// Checks that standard error does not contain a text.
    #[track_caller]
    pub(crate) fn says_no(self, text: &str) -> Self {
        assert!(!self.err.contains(text), "{}", self.err);
        self
    }
}

/// The numbers in these fields of an object.
#[track_caller]
pub(crate) fn figures<const N: usize>(object: &Value, fields: [&str; N]) -> [u64; N] {
    fields.map(|field| match object[field].as_u64() {
        Some(number) => number,
        None => panic!("{field} is no number: {object}"),
    })
}

/// Asserts that an object has these fields, and its objects have theirs.
#[track_caller]
pub(crate) fn assert_fields(object: &Value, wanted: &Value) {
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        match wanted {
            Value::Object(_) => assert_fields(&object[name], wanted),
            _ => assert_eq!(object[name], *wanted, "{name} of {object}"),
        }
    }
}

/// Asserts that an object has these values in these fields.
macro_rules! assert_has {
    ($object:expr, $fields:tt) => {
        $crate::support::assert_fields(&$object, &serde_json::json!($fields))
    };
}
pub(crate) use assert_has;

/// The first field that has values of two types in some objects, or in those within them.
fn field_of_two_types(objects: &[Value]) -> Option<String> {
    let mut types = BTreeMap::new();
    objects
        .iter()
        .find_map(|object| other_type(object, "", &mut types))
}

/// The first field of a value that has another type than it had before.
fn other_type(
    value: &Value,
    path: &str,
    types: &mut BTreeMap<String, &'static str>,
) -> Option<String> {
    let kind = match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(items) => {
            let of_items = format!("{path}[]");
            let mut items = items.iter();
            let other = items.find_map(|item| other_type(item, &of_items, types));
            if other.is_some() {
                return other;
            }
            "array"
        }
        Value::Object(fields) => {
            let mut fields = fields.iter();
            let other =
                fields.find_map(|(name, of)| other_type(of, &format!("{path}.{name}"), types));
            if other.is_some() {
                return other;
            }
            "object"
        }
    };
    let known = types.entry(path.to_owned()).or_insert(kind);
    (*known != kind).then(|| format!("{path}: {known} and {kind}"))
}

/// The first place in messages and lines where one thing is told as several: `1 documents`, `1 kept records`.
pub(crate) fn plural_of_one(text: &str) -> Option<String> {
    /// Words that end in `s` and may follow one thing.
    const VERBS: [&str; 5] = ["is", "was", "has", "its", "repeats"];
    // Objects are for programs, and hold texts of others.
    for line in text.lines().filter(|line| !line.starts_with('{')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (index, word) in words.iter().enumerate() {
            if word.trim_start_matches('(') != "1" {
                continue;
            }
            for next in words[index + 1..].iter().take(2) {
                let bare = next.trim_end_matches([',', ';', ':', '.', ')']);
                // Keys have digits, mostly.
                let is_word = bare
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
                if is_word && bare.len() > 2 && bare.ends_with('s') && !VERBS.contains(&bare) {
                    return Some(format!("1 … {bare}"));
                }
                // A phrase ends there.
                if bare != *next || VERBS.contains(&bare) {
                    break;
                }
            }
        }
    }
    None
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Asserts that something fails with an error of this pattern.
macro_rules! assert_error {
    ($answer:expr => $error:pat $(if $guard:expr)?) => {
        match &$answer {
            answer => assert!(matches!(answer, Err($error) $(if $guard)?), "{answer:?}"),
        }
    };
}
pub(crate) use assert_error;

/// The program with these arguments, which may be strings or paths. A literal is several, with spaces between them,
/// and so is what stands behind two dots: `program!("query", &path, "--limit 1 --json", ..more)`.
macro_rules! program {
    (@ $command:ident $(,)?) => {};
    (@ $command:ident, $words:literal $(, $($others:tt)*)?) => {
        $command.args($words.split(' '));
        $crate::support::program!(@ $command $(, $($others)*)?);
    };
    (@ $command:ident, ..$arguments:expr $(, $($others:tt)*)?) => {
        $command.args($arguments);
        $crate::support::program!(@ $command $(, $($others)*)?);
    };
    (@ $command:ident, $argument:expr $(, $($others:tt)*)?) => {
        $command.arg($argument);
        $crate::support::program!(@ $command $(, $($others)*)?);
    };
    ($($arguments:tt)+) => {{
        let mut command = $crate::support::simdb();
        $crate::support::program!(@ command, $($arguments)+);
        command
    }};
}
pub(crate) use program;

/// Runs the program with these arguments, as [`program`] takes them.
macro_rules! run {
    ($($arguments:tt)+) => {
        $crate::support::Ran::from($crate::support::program!($($arguments)+).output()?)
    };
}
pub(crate) use run;

/// Runs the program, which does what was asked.
macro_rules! done {
    ($($arguments:tt)+) => {
        $crate::support::run!($($arguments)+).expect(0)
    };
}
pub(crate) use done;

/// Runs the program with `input` on standard input.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> std::io::Result<Ran> {
    let mut child = command.piped()?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    // From another thread, because the program may fill standard output before it has read everything.
    let writer = thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output()?;
    writer.join().expect("writing does not panic");
    Ok(output.into())
}
