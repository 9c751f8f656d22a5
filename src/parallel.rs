//! Work on all cores, by threads that live as long as one call.
//!
//! Threads of a common pool would do for speed. But a thread of a pool that waits may take up other work of
//! the pool meanwhile. If it holds the right to write, and that work waits for the same right, both wait for
//! ever. The threads here do the work of one call and nothing else, and who waits only waits.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::{iter, mem, thread};

use parking_lot::{Condvar, Mutex};

/// The number of cores that the process may use.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, Into::into));

/// For each core, the number of results that may wait to be taken.
const AHEAD_PER_CORE: usize = 4;

/// The number of threads that a call uses, the calling one included.
pub(crate) fn cores() -> usize {
    *CORES
}

/// Does the parts of some work on all cores, and gives their results to `take` in order, on the calling
/// thread. Nothing more is done when `take` breaks.
///
/// The calling thread works too. So it waits only for parts that others have begun. If there is one part, no
/// thread is started.
pub(crate) fn in_order<T: Send>(
    parts: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    let helpers = cores().min(parts).saturating_sub(1);
    if helpers == 0 {
        _ = (0..parts).try_for_each(|part| take(part, work(part)));
        return;
    }
    let queue = Queue::new(parts, AHEAD_PER_CORE * (helpers + 1));
    let help = || {
        let ended = EndsQueue {
            queue: &queue,
            always: false,
        };
        while let Some(part) = queue.wait_for_work() {
            queue.put(part, work(part));
        }
        drop(ended);
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            let helper = thread::Builder::new().name("simdb-parallel".to_owned());
            // Without the thread, the others do its work.
            _ = helper.spawn_scoped(scope, help);
        }
        let _ended = EndsQueue {
            queue: &queue,
            always: true,
        };
        for part in 0..parts {
            let Some(result) = queue.take(&work) else {
                break;
            };
            if take(part, result).is_break() {
                break;
            }
        }
    });
}

/// Does the parts of some work on all cores, and returns their results in order.
pub(crate) fn map<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut results = Vec::with_capacity(parts);
    in_order(parts, work, |_, result| {
        results.push(result);
        ControlFlow::Continue(())
    });
    results
}

/// Does both works at once, the second on another thread.
pub(crate) fn both<A, B: Send>(here: impl FnOnce() -> A, aside: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("simdb-parallel".to_owned());
        let started = thread.spawn_scoped(scope, &aside);
        let here = here();
        let aside = match started {
            Ok(started) => started.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => aside(),
        };
        (here, aside)
    })
}

/// Does some work with each of `items`, on all cores, and returns the results in order.
pub(crate) fn map_each<I: Send, T: Send>(items: Vec<I>, work: impl Fn(I) -> T + Sync) -> Vec<T> {
    // Items may differ much in the work they make. So each core takes a part many times.
    let together = items.len().div_ceil(16 * cores()).max(1);
    let mut results = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    let parts = iter::from_fn(|| {
        Some(items.by_ref().take(together).collect()).filter(|part: &Vec<I>| !part.is_empty())
    });
    let parts: Vec<Mutex<Vec<I>>> = parts.map(Mutex::new).collect();
    let work = |part: usize| {
        mem::take(&mut *parts[part].lock())
            .into_iter()
            .map(&work)
            .collect::<Vec<T>>()
    };
    in_order(parts.len(), work, |_, part| {
        results.extend(part);
        ControlFlow::Continue(())
    });
    results
}

/// Does what [`map_each`] does, with items of some rows each. A few rows are not worth a thread.
pub(crate) fn map_each_of<I: Send, T: Send>(
    items: Vec<I>,
    rows: usize,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    const WORTH_A_THREAD: usize = 4096;
    if rows < WORTH_A_THREAD {
        items.into_iter().map(work).collect()
    } else {
        map_each(items, work)
    }
}

/// Sorts rows, on all cores.
pub(crate) fn sort<R: Ord + Copy + Send>(rows: &mut [R]) {
    /// Rows that one core sorts in the time that it takes to start a thread.
    const FEW: usize = 1 << 14;
    let share = rows.len().div_ceil(cores());
    if share > FEW {
        let parts: Vec<Mutex<&mut [R]>> = rows.chunks_mut(share).map(Mutex::new).collect();
        map(parts.len(), |part| parts[part].lock().sort_unstable());
        // A stable sort finds the sorted parts, and merges them.
        rows.sort();
    } else {
        rows.sort_unstable();
    }
}

/// The parts of some work, and the results that nobody has taken.
struct Queue<T> {
    parts: usize,
    most_ahead: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The first part that nobody has begun.
    next: usize,
    /// The number of results that were taken.
    taken: usize,
    /// The results from `taken` on that are there.
    ready: VecDeque<Option<T>>,
    /// Whether nobody is to begin another part.
    ended: bool,
}

impl<T> Queue<T> {
    fn new(parts: usize, most_ahead: usize) -> Self {
        let state = State {
            next: 0,
            taken: 0,
            ready: VecDeque::new(),
            ended: false,
        };
        Self {
            parts,
            most_ahead,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// The part to do next, if one may be begun now.
    fn begin(&self, state: &mut State<T>) -> Option<usize> {
        let part = state.next;
        let may_begin = part < self.parts && part < state.taken + self.most_ahead;
        state.next += usize::from(may_begin);
        may_begin.then_some(part)
    }

    /// Waits for a part to do. `None` if there is no more.
    fn wait_for_work(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.ended && state.next < self.parts {
            if let Some(part) = self.begin(&mut state) {
                return Some(part);
            }
            self.changed.wait(&mut state);
        }
        None
    }

    fn put(&self, part: usize, result: T) {
        let mut state = self.state.lock();
        let index = part - state.taken;
        if state.ready.len() <= index {
            state.ready.resize_with(index + 1, || None);
        }
        state.ready[index] = Some(result);
        self.changed.notify_all();
    }

    /// Takes the next result. Works while it is not there. `None` if a thread has panicked.
    fn take(&self, work: impl Fn(usize) -> T) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = state.ready.front_mut().and_then(Option::take) {
                state.ready.pop_front();
                state.taken += 1;
                self.changed.notify_all();
                return Some(result);
            }
            if state.ended {
                return None;
            }
            match self.begin(&mut state) {
                Some(part) => {
                    drop(state);
                    let result = work(part);
                    self.put(part, result);
                    state = self.state.lock();
                }
                None => self.changed.wait(&mut state),
            }
        }
    }
}

/// Ends a queue when it is dropped: always, or if its thread panics. Otherwise the others would wait for ever.
struct EndsQueue<'a, T> {
    queue: &'a Queue<T>,
    always: bool,
}

impl<T> Drop for EndsQueue<'_, T> {
    fn drop(&mut self) {
        if self.always || thread::panicking() {
            self.queue.state.lock().ended = true;
            self.queue.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_come_in_order_and_each_part_is_done_once() {
        for parts in [0, 1, 2, 3, 100, 1_000] {
            let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            let results = map(parts, |part| {
                done[part].fetch_add(1, Ordering::Relaxed);
                if part % 7 == 0 {
                    thread::yield_now();
                }
                part * part
            });
            assert_eq!(
                results,
                (0..parts).map(|part| part * part).collect::<Vec<_>>()
            );
            assert!(done.iter().all(|it| it.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn work_ends_soon_after_a_break_and_is_not_far_ahead() {
        let begun = AtomicUsize::new(0);
        let mut taken = 0;
        let count = |_| begun.fetch_add(1, Ordering::Relaxed);
        in_order(100_000, count, |part, _| {
            taken += 1;
            assert!(begun.load(Ordering::Relaxed) <= part + 1 + AHEAD_PER_CORE * cores());
            if part == 10 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!(taken, 11);
        assert!(begun.into_inner() <= 11 + (AHEAD_PER_CORE + 1) * cores());
    }

    #[test]
    fn items_and_rows_keep_their_order() {
        for count in [0, 1, 31, 32, 33, 5_000, 100_000u64] {
            let items: Vec<String> = (0..count).map(|it| it.to_string()).collect();
            let lengths: Vec<usize> = items.iter().map(String::len).collect();
            assert_eq!(map_each(items, |it| it.len()), lengths);
            let mut rows: Vec<u64> = (0..count)
                .map(|it| it.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
                .collect();
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            sort(&mut rows);
            assert!(rows == sorted, "{count} rows");
        }
    }

    /// Without an end, the other threads would wait for the result for ever.
    #[test]
    fn both_works_are_done_and_a_panic_of_either_reaches_the_caller() {
        assert_eq!(both(|| 1, || "two"), (1, "two"));
        for [here, aside] in [[true, false], [false, true]] {
            let works = || both(|| assert!(!here, "here"), || assert!(!aside, "aside"));
            assert!(catch_unwind(works).is_err(), "{here}, {aside}");
        }
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_caller() {
        for bad in [0, 1, 50, 99] {
            let work = |part: usize| assert!(part != bad, "part {part}");
            assert!(catch_unwind(|| map(100, work)).is_err(), "{bad}");
            let take = |part: usize, ()| {
                assert!(part != bad, "taking part {part}");
                ControlFlow::Continue(())
            };
            assert!(
                catch_unwind(AssertUnwindSafe(|| in_order(100, |_| (), take))).is_err(),
                "{bad}"
            );
        }
    }
}
