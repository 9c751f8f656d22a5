//! Failing disks: the n-th operation of a history fails, for each n, and what is there then is what was acknowledged.
//!
//! A read, a write, a change of the length or a sync fails, once or from then on. A write may be short. After a failed
//! sync the system may forget what it had not written, show it nonetheless, and say yes to the next sync; that is what
//! PostgreSQL met in 2018.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::history::{
    Content, Ground, History, Home, Operation, Repeat, Runner, SIZES, Write, ask_for_all, write_one,
};
use super::random::{Random, amount, seed_or};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::store::{Image, Settings, Store};
use crate::sync::Mutex;

const PAGE: usize = 4096;

/// The error numbers of Linux.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// One operation fails, whatever it is.
    Once,
    /// The disk is gone from then on.
    Gone,
    /// From then on there is no room. What is there can be read, and synced.
    Full,
    /// A write arrives in part, and then there is no room.
    Short,
    /// A sync fails. What was not written is forgotten, and cannot be read either. Later syncs say yes.
    ForgetfulSync,
    /// The same, but what was not written can still be read, as long as the system runs.
    DeceptiveSync,
}

impl Failure {
    const ALL: [Self; 6] = [
        Self::Once,
        Self::Gone,
        Self::Full,
        Self::Short,
        Self::ForgetfulSync,
        Self::DeceptiveSync,
    ];

    /// Whether operations of this kind are counted, so that one of them can fail.
    fn concerns(self, access: Access) -> bool {
        match self {
            Self::Once | Self::Gone => true,
            Self::Full => matches!(access, Access::Write | Access::SetLength),
            Self::Short => access == Access::Write,
            Self::ForgetfulSync | Self::DeceptiveSync => access == Access::Sync,
        }
    }

    fn lasts(self) -> bool {
        matches!(self, Self::Gone | Self::Full)
    }

    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::Full | Self::Short => ENOSPC,
            _ => EIO,
        })
    }
}

/// What the engine does with its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    SetLength,
    Sync,
}

/// A file as the system shows it, and as it is on the disk.
#[derive(Debug, Default)]
struct Disk {
    shown: Vec<u8>,
    synced: Vec<u8>,
    /// The pages that differ and that the next sync writes, as a whole.
    dirty: BTreeSet<usize>,
    failure: Option<Failure>,
    /// The operations that may still be done before one fails.
    left: u64,
    /// Whether an operation has failed.
    has_failed: bool,
}

impl Disk {
    /// Counts an operation. An error if it is the one that fails, or comes after one.
    fn count(&mut self, access: Access) -> Result<(), Failure> {
        let Some(failure) = self.failure.filter(|failure| failure.concerns(access)) else {
            return Ok(());
        };
        if self.has_failed && !failure.lasts() {
            return Ok(());
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        self.has_failed = true;
        Err(failure)
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if self.shown.len() < end {
            self.shown.resize(end, 0);
        }
        self.shown[offset..end].copy_from_slice(data);
        self.dirty.extend(offset / PAGE..end.div_ceil(PAGE));
    }

    fn sync(&mut self) {
        self.synced.resize(self.shown.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let end = ((page + 1) * PAGE).min(self.shown.len());
            if page * PAGE < end {
                self.synced[page * PAGE..end].copy_from_slice(&self.shown[page * PAGE..end]);
            }
        }
    }

    /// Forgets what was not written.
    fn forget(&mut self, failure: Failure) {
        self.dirty.clear();
        if failure == Failure::ForgetfulSync {
            self.shown = self.synced.clone();
        }
    }
}

/// A storage in memory of which an operation fails. Copies share it.
#[derive(Clone, Debug, Default)]
struct Failing(Arc<Mutex<Disk>>);

impl Failing {
    /// Lets an operation fail after so many.
    fn fail_after(&self, operations: u64, failure: Failure) {
        let mut disk = self.0.lock();
        disk.failure = Some(failure);
        disk.left = operations;
        disk.has_failed = false;
    }

    /// Nothing fails from now on. Whether anything did.
    fn mend(&self) -> bool {
        let mut disk = self.0.lock();
        disk.failure = None;
        disk.has_failed
    }

    /// What a power cut leaves that takes all that is not on the disk.
    fn on_disk(&self) -> Image {
        Image::new(self.0.lock().synced.clone())
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().shown.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.count(Access::Read).map_err(Failure::error)?;
        let bytes = disk.shown.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut disk = self.0.lock();
        // A file can be cut on a full disk.
        if length as usize > disk.shown.len() {
            disk.count(Access::SetLength).map_err(Failure::error)?;
        }
        disk.shown.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        if let Err(failure) = disk.count(Access::Sync) {
            if !failure.lasts() {
                disk.forget(failure);
            }
            return Err(failure.error());
        }
        disk.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock();
        if let Err(failure) = disk.count(Access::Write) {
            if failure == Failure::Short {
                disk.write(offset as usize, &data[..data.len() / 2]);
            }
            return Err(failure.error());
        }
        disk.write(offset as usize, data);
        Ok(())
    }
}

impl Home for Failing {
    fn open(&self, settings: Option<&Settings>) -> Result<Database> {
        let store = Store::on_backend(self.clone(), settings, SIZES)?;
        Ok(Database::of_store(store.into()))
    }
}

/// Panics unless an error says that the disk has failed, or that writing has failed before.
fn ensure_clear(error: &Error, what: &str) {
    let is_clear = matches!(
        error,
        Error::Storage(_) | Error::Io { .. } | Error::OutcomeUnknown { .. } | Error::NoRoom { .. }
    );
    assert!(is_clear, "{what}: {error:?}");
}

/// A history of which one operation of the storage fails.
struct Trial {
    seed: u64,
    failure: Failure,
    /// So many operations come before it.
    after: u64,
}

impl Trial {
    /// Runs the history. Whether anything failed.
    fn run(&self) -> Result<bool> {
        let Self {
            seed,
            failure,
            after,
        } = *self;
        let what = format!("seed {seed}, {failure:?} after {after} operations");
        let home = Failing::default();
        let mut runner = Runner::new(home.clone(), &Settings::for_tests())?;
        let history = History::new(seed, 8, Ground::Memory).operations;
        home.fail_after(after, failure);
        for operation in &history {
            let done = runner.run(operation);
            if let Err(error) = done {
                ensure_clear(&error, &format!("{what}, {operation:?}"));
                self.recover(&home, &mut runner, &what)?;
            }
        }
        // Merges work meanwhile, and may be what has failed.
        if let Err(error) = runner.database().settle() {
            ensure_clear(&error, &what);
            self.recover(&home, &mut runner, &what)?;
        }
        // What fails when nothing is waited for, such as a block that is read for a merge to come, shows when somebody
        // asks.
        let has_failed = home.mend();
        let content = match Content::of(runner.database()) {
            Ok(content) => content,
            Err(error) => {
                ensure_clear(&error, &what);
                self.recover(&home, &mut runner, &what)?;
                Content::of(runner.database())?
            }
        };
        assert!(
            runner.model().is(&content),
            "{what}: at the end {content:?}"
        );
        let mut random = Random::new(seed);
        ask_for_all(&runner.database().snapshot()?, runner.model(), &mut random)?;
        self.cut(&home, &runner, &what)?;
        Ok(has_failed)
    }

    /// What is done after a failure: the cause is removed, and the handle is opened again.
    fn recover(&self, home: &Failing, runner: &mut Runner<Failing>, what: &str) -> Result<()> {
        let before = runner.model().clone();
        if self.failure.lasts() && runner.database.is_some() {
            ensure_refused(runner, what);
            // Who tries too early is told, and can try again.
            if let Err(error) = runner.database().reopen() {
                ensure_clear(&error, what);
            }
        }
        home.mend();
        match runner.database {
            Some(_) => runner.database().reopen()?,
            None => runner.open()?,
        }
        let content = Content::of(runner.database())?;
        let settled = runner.settle_on(&content);
        assert!(settled.is_some(), "{what}: {content:?}, not {before:?}");
        runner.ensure_sound(what)?;
        self.cut(home, runner, what)
    }

    /// After a power cut the file has what was acknowledged, as a whole.
    fn cut(&self, home: &Failing, runner: &Runner<Failing>, what: &str) -> Result<()> {
        let what = format!("{what}, then a power cut");
        let allowed = &runner.models[runner.acknowledged..];
        Runner::recovered(home.on_disk(), allowed, &what)?.ensure_sound(&what)
    }
}

/// Commits writes. Their answers are not compared: whether what has failed before is there is not known yet.
fn commit(database: &Database, writes: &[Write]) -> Result<()> {
    let mut txn = database.begin_write()?;
    for write in writes {
        write_one(&mut txn, write)?;
    }
    txn.commit()
}

/// A handle whose disk has failed for good takes no commit, and what can be read is right.
fn ensure_refused(runner: &mut Runner<Failing>, what: &str) {
    let other = History::new(7, 200, Ground::Memory).operations;
    let writes = other.iter().find_map(|operation| match operation {
        Operation::Commit(writes) => Some(writes),
        _ => None,
    });
    let refused = commit(runner.database(), writes.expect("a history has a commit"));
    let error = refused.expect_err("a disk that has failed takes no commit");
    ensure_clear(&error, what);
    match Content::of(runner.database()) {
        Ok(content) => {
            let mut models = runner.models[runner.acknowledged..].iter();
            assert!(
                models.any(|model| model.is(&content)),
                "{what}: {content:?}"
            );
        }
        Err(error) => ensure_clear(&error, what),
    }
}

/// Lets each operation of a history fail in turn, until the history passes. Returns how many did.
fn fail_each(seed: u64, failure: Failure, step: u64) -> u64 {
    let mut failed = 0;
    for after in (0..).step_by(step as usize) {
        let trial = Trial {
            seed,
            failure,
            after,
        };
        let has_failed = trial.run().unwrap_or_else(|error| {
            panic!("seed {seed}, {failure:?} after {after} operations: {error:?}")
        });
        if !has_failed {
            return failed;
        }
        failed += 1;
    }
    failed
}

/// Whatever operation fails, and however: there is an error that says so, the handle can be opened again, nothing is
/// lost that was acknowledged, and nothing is there in part.
#[test]
fn each_operation_that_fails_is_told_and_loses_nothing() {
    const TEST: &str = "each_operation_that_fails_is_told_and_loses_nothing";
    let first = seed_or(1);
    let histories = amount("SIMDB_FAULTS", 1, 40) as u64;
    for failure in Failure::ALL {
        let mut failed = 0;
        for seed in first..first + histories {
            let _repeat = Repeat { seed, test: TEST };
            failed += fail_each(seed, failure, 1);
        }
        println!("{failure:?}: {failed} operations failed in turn");
        assert!(failed > 5, "{failure:?}: only {failed} operations failed");
    }
}
