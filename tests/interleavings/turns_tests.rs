//! The turns to write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::store::file::shared::Shared;
use crate::store::file::turns::{Patience, Turn};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread;

pub(crate) fn all() -> Vec<(&'static str, usize, fn())> {
    vec![
        (
            "turns::one_writes_at_a_time_and_everybody_gets_a_turn",
            3_000,
            everybody_gets_a_turn,
        ),
        (
            "turns::who_waits_is_not_overtaken_by_who_does_not",
            3_000,
            nobody_is_overtaken,
        ),
        (
            "turns::a_turn_of_the_own_thread_is_an_error_at_once",
            200,
            own_turn,
        ),
    ]
}

/// Takes a turn, uses it, and gives it back.
fn write(shared: &Arc<Shared>, patience: Patience, writing: &AtomicUsize) -> bool {
    let taken = Turn::take(shared, patience).expect("no thread waits for itself");
    let Some(turn) = taken else {
        return false;
    };
    assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0, "two write");
    thread::yield_now();
    assert_eq!(writing.fetch_sub(1, Ordering::SeqCst), 1, "two write");
    drop(turn);
    true
}

fn everybody_gets_a_turn() {
    let shared = Arc::new(Shared::default());
    let writing = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for number in 0..4 {
        let (shared, writing) = (shared.clone(), writing.clone());
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                match number {
                    // It does not always get one, and leaves nothing behind in the line.
                    0 => _ = write(&shared, Patience::None, &writing),
                    1 => _ = write(&shared, Patience::Until(Instant::now()), &writing),
                    2 => assert!(write(&shared, far(), &writing)),
                    _ => assert!(write(&shared, Patience::Endless, &writing)),
                }
            }
        }));
    }
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert!(write(&shared, Patience::None, &writing), "the turn is kept");
}

/// A moment that never comes.
fn far() -> Patience {
    Patience::Until(Instant::now() + Duration::from_secs(3_600))
}

/// A thread that gives a turn back and asks again at once would otherwise keep all others from writing.
fn nobody_is_overtaken() {
    let shared = Arc::new(Shared::default());
    let done = Arc::new(AtomicUsize::new(0));
    let first = Turn::wait(&shared).expect("nobody has it");
    let waits = {
        let (shared, done) = (shared.clone(), done.clone());
        thread::spawn(move || {
            let turn = Turn::wait(&shared).expect("it comes");
            done.fetch_add(1, Ordering::SeqCst);
            drop(turn);
        })
    };
    drop(first);
    let mut turns = 0;
    loop {
        let before = done.load(Ordering::SeqCst);
        let turn = Turn::wait(&shared).expect("it comes");
        if done.load(Ordering::SeqCst) == 1 {
            break;
        }
        // It had not asked yet, or else it was first.
        assert_eq!(before, 0);
        turns += 1;
        drop(turn);
        thread::yield_now();
        if turns == 20 {
            break;
        }
    }
    waits.join().expect("no thread panics");
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

fn own_turn() {
    let shared = Arc::new(Shared::default());
    let turn = Turn::wait(&shared).expect("nobody has it");
    assert!(matches!(
        Turn::take(&shared, Patience::Endless),
        Err(Error::WouldDeadlock)
    ));
    let moved = thread::spawn(move || {
        turn.use_here();
        turn
    });
    let turn = moved.join().expect("no thread panics");
    let waits = {
        let shared = shared.clone();
        thread::spawn(move || drop(Turn::wait(&shared).expect("another thread used it last")))
    };
    drop(turn);
    waits.join().expect("no thread panics");
}
