//! A writer on a disk that fails.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::database::submissions::Submissions;
use crate::database::{Answers, Database, Policy, Ticket, WriterOptions};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::{CreateOptions, Scheme};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

fn database(folder: &tempfile::TempDir) -> Result<Arc<Database>> {
    let options = CreateOptions::new().scheme(Scheme::External);
    Database::create(folder.path().join("d.simdb"), &options).map(Arc::new)
}

fn document(number: u64) -> Document {
    let fingerprint = Fingerprint::from_bits(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Document::new(number.to_string(), fingerprint).with_seen(0)
}

/// Whether the documents of these keys are stored.
fn stored(database: &Database, keys: Range<u64>) -> Result<Vec<bool>> {
    let snapshot = database.snapshot()?;
    keys.map(|key| Ok(snapshot.get(key.to_string())?.is_some()))
        .collect()
}

#[test]
fn a_failed_disk_reaches_everybody_who_waits_and_the_writer_goes_on_after_it() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    let options = WriterOptions::new().max_age(Duration::from_secs(3_600));
    let writer = database.writer(options)?;
    writer.insert_if_new(&document(0), &Policy::link())?;
    database.store.set_broken(true);
    let submit = |number| writer.submit(document(number), &Policy::link());
    let tickets: Vec<Ticket> = (1..50).map(submit).collect::<Result<_>>()?;
    let waiting: Vec<_> = tickets
        .into_iter()
        .map(|ticket| thread::spawn(move || ticket.wait()))
        .collect();
    let flushed = writer.flush();
    assert!(matches!(flushed, Err(Error::Storage(_))), "{flushed:?}");
    for waiting in waiting {
        let answer = waiting.join().expect("no thread panics");
        assert!(matches!(answer, Err(Error::Storage(_))), "{answer:?}");
    }
    let refused = [
        submit(60).map(drop),
        writer.submit_delete("0").map(drop),
        writer.flush(),
    ];
    for refused in refused {
        assert!(
            matches!(refused, Err(Error::OutcomeUnknown { .. })),
            "{refused:?}"
        );
    }
    database.store.set_broken(false);
    database.reopen()?;
    writer.insert_if_new(&document(1), &Policy::link())?;
    assert!(writer.submit_delete("1")?.wait()?.is_some());
    assert_eq!(stored(&database, 0..3)?, [true, false, false]);
    // The failure was told by the flush.
    writer.close()
}

/// Their answers had been given before, so only a flush can tell.
#[test]
fn a_flush_tells_of_documents_that_were_decided_and_not_stored() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    let writer = database.writer(WriterOptions::new().answers(Answers::Decided))?;
    writer.insert_if_new(&document(0), &Policy::link())?;
    writer.flush()?;
    database.store.set_broken(true);
    let verdict = writer.insert_if_new(&document(1), &Policy::link())?;
    assert!(!verdict.is_duplicate());
    let told = writer.flush();
    assert!(matches!(told, Err(Error::Storage(_))), "{told:?}");
    database.store.set_broken(false);
    database.reopen()?;
    assert_eq!(stored(&database, 0..2)?, [true, false]);
    Ok(())
}

/// A panic in the thread would leave everybody waiting.
#[test]
fn everybody_is_answered_when_the_thread_ends() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    let writer = database.writer(WriterOptions::new().max_age(Duration::from_secs(3_600)))?;
    let ticket = writer.submit(document(0), &Policy::link())?;
    // As if the thread had panicked.
    writer.handle.submissions.abandon();
    assert!(matches!(ticket.wait(), Err(Error::WriterClosed)));
    assert!(matches!(
        writer.submit(document(0), &Policy::link()),
        Err(Error::WriterClosed)
    ));
    writer.close()
}

#[test]
fn a_callback_that_panics_does_not_end_the_writer() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    let writer = database.writer(WriterOptions::new())?;
    writer.submit_with(document(0), &Policy::link(), |_| {
        std::panic::resume_unwind(Box::new("a callback"))
    })?;
    writer.insert_if_new(&document(1), &Policy::link())?;
    assert_eq!(stored(&database, 0..2)?, [true, true]);
    Ok(())
}

/// A waker is code of the caller too.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new(PanicsToo));
    }
}

/// What a panic brings is the caller's too.
struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("what a panic brings"));
    }
}

/// A waker that cannot be copied.
#[expect(unsafe_code, reason = "safe wakers are always copied")]
fn waker_that_panics_when_it_is_cloned() -> Waker {
    const CALLS: RawWakerVTable = RawWakerVTable::new(
        |_| std::panic::resume_unwind(Box::new("a copy")),
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: No function of it looks at the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &CALLS)) }
}

/// The answer could not be given any more, which ended the thread of the writer.
#[test]
fn a_waker_that_cannot_be_copied_ends_only_who_asked() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    let writer = database.writer(WriterOptions::new())?;
    let mut first = writer.submit(document(0), &Policy::link())?;
    let waker = waker_that_panics_when_it_is_cloned();
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Pin::new(&mut first)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    }));
    assert!(polled.is_err());
    writer.insert_if_new(&document(1), &Policy::link())?;
    assert!(first.wait().is_ok());
    writer.close()
}

#[test]
fn a_waker_that_panics_does_not_end_the_writer() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    // One is in the queue, and one waits in the line before it.
    let writer = database.writer(WriterOptions::new().queue(1))?;
    let waker = Waker::from(Arc::new(Panics));
    let mut context = Context::from_waker(&waker);
    let mut first = writer.submit(document(0), &Policy::link())?;
    _ = Pin::new(&mut first).poll(&mut context);
    let mut second = writer.submit_async(document(1), &Policy::link());
    _ = Pin::new(&mut second).poll(&mut context);
    writer.insert_if_new(&document(2), &Policy::link())?;
    assert_eq!(stored(&database, 0..3)?, [true, true, true]);
    writer.close()
}

/// The thread of such a writer slept for ever.
#[test]
fn a_writer_that_a_closed_database_did_not_know_of_ends() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    // As if its thread had been begun, and the database not been told of it.
    let submissions = Submissions::new(WriterOptions::new(), &database.store);
    database.close()?;
    submissions.close()?;
    assert!(submissions.next_group().is_none());
    Ok(())
}

/// All whose documents were in the queue got no verdict, and no document was taken any more.
#[test]
fn a_verification_that_panics_fails_alone() -> Result<()> {
    let folder = folder();
    let database = database(&folder)?;
    for answers in [Answers::Durable, Answers::Decided] {
        let options = WriterOptions::new().max_age(Duration::from_secs(3_600));
        let writer = database.writer(options.answers(answers))?;
        let panics = Policy::skip().verify(|_, _| std::panic::resume_unwind(Box::new(PanicsToo)));
        let before = writer.submit(document(0), &Policy::link())?;
        let near = Document::new("near", document(0).fingerprint());
        let refused = writer.submit(near, &panics)?;
        let after = writer.submit(document(1), &Policy::link())?;
        writer.flush()?;
        assert!(before.wait().is_ok() && after.wait().is_ok());
        let refused = refused.wait();
        assert!(matches!(refused, Err(Error::Verify(_))), "{refused:?}");
        assert_eq!(stored(&database, 0..2)?, [true, true]);
        writer.close()?;
    }
    Ok(())
}

/// It waited for an answer that would never come.
#[test]
#[should_panic = "a ticket was asked after it had given its answer"]
fn an_answer_that_was_taken_is_not_waited_for() {
    let folder = folder();
    let database = database(&folder).expect("a database can be made");
    let options = WriterOptions::new();
    let writer = database.writer(options).expect("a writer can be made");
    let mut ticket = writer
        .submit(document(0), &Policy::link())
        .expect("it is taken");
    writer.flush().expect("it is stored");
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut ticket).poll(&mut context).is_ready());
    _ = ticket.wait();
}
