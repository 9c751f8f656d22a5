//! Work on all cores, by threads that live as long as one call. Results come in order, on the calling thread.
//!
//! Threads of a common pool would do for speed. But a thread of a pool that waits may take up other work of
//! the pool meanwhile. If it holds the right to write, and that work waits for the same right, both wait for
//! ever. The threads here do the work of one call and nothing else, and who waits only waits.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use crate::error::{Error, Result};
use crate::planted::planted;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, thread};

/// The number of cores that the process may use.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, Into::into));

/// For each core, the number of parts that may be begun before the results of the first of them are taken.
const AHEAD_PER_CORE: usize = 4;

/// The number of results that may always wait to be taken of the part of a stream that is taken now.
const MOST_WAITING: usize = 16;
/// For each core, the number of results of all parts of a stream that may wait. Each part may have as many of these as
/// it finds. Otherwise all others would soon wait for the one that is taken now. Streams that are under way at once
/// share them.
const MOST_PER_CORE: usize = 64;
/// The number of results that may wait however many streams there are.
const FEWEST: usize = 2 * MOST_WAITING;

/// The streams of the process that are under way.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that a call uses, the calling one included.
pub(crate) fn cores() -> usize {
    *CORES
}

/// Does the parts of some work on all cores, and gives their results to `take` in order. Ends with the first failure of
/// either; nothing more is begun then.
///
/// The calling thread works too. So it waits only for parts that others have begun. If there is one part, no
/// thread is started.
pub(crate) fn in_order<T: Send>(
    parts: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let helpers = cores().min(parts).saturating_sub(1);
    if helpers == 0 {
        return (0..parts).try_for_each(|part| take(part, work(part)?));
    }

    let queue = Queue::new(parts);
    let work = |part| queue.end_part(part, Some(work(part)));

    let taken = thread::scope(|scope| {
        let _guard = EndsIfPanicking(&queue);
        // Without a thread, the others do its work.
        queue.start(scope, helpers, &work);
        queue.take_all(Some(&work), &mut take)
    });
    queue.resume_panic();
    taken
}

/// Does the parts of some work on all cores, and gives what they find to `take` in order, while they are under way. So
/// the memory for it is bounded, however much one part finds. Ends with the first failure of either.
///
/// A part hands over what it finds, some at a time. It ends when that fails, which it does once `take` has failed.
pub(crate) fn stream<T: Send>(
    parts: usize,
    work: impl Fn(usize, &mut dyn FnMut(T) -> Result<()>) -> Result<()> + Sync,
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let queue = Queue::new(parts);
    let _counted = CountedStream::new();
    let work_ahead = |part| {
        let worked = work(part, &mut |found| queue.hand_over(part, found));
        queue.end_part(part, worked.err().map(Err));
    };

    let taken = thread::scope(|scope| {
        let _guard = EndsIfPanicking(&queue);
        // The calling thread only takes: it could not hand over what nobody takes.
        if queue.start(scope, cores().min(parts), &work_ahead) > 0 {
            return queue.take_all(None, &mut take);
        }
        (0..parts).try_for_each(|part| work(part, &mut |found| take(part, found)))
    });
    queue.resume_panic();
    taken
}

/// Does the parts of some work on all cores, and returns their results in order.
pub(crate) fn map<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut results = Vec::with_capacity(parts);
    // Neither can fail.
    _ = in_order(
        parts,
        |part| Ok(work(part)),
        |_, result| {
            results.push(result);
            Ok(())
        },
    );
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
    let count = items.len();
    let mut items = items.into_iter();
    let mut parts = Vec::new();
    while items.len() > 0 {
        let part: Vec<I> = items.by_ref().take(together).collect();
        parts.push(Mutex::new(part));
    }

    let mut results = Vec::with_capacity(count);
    // Neither can fail.
    _ = in_order(
        parts.len(),
        |part| {
            let items = mem::take(&mut *parts[part].lock());
            Ok(items.into_iter().map(&work).collect::<Vec<T>>())
        },
        |_, part| {
            results.extend(part);
            Ok(())
        },
    );
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
    state: Mutex<State<T>>,
    changed: Condvar,
    /// The first panic of a thread that did some of the work.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct State<T> {
    /// The first part that nobody has begun.
    next: usize,
    /// The part whose results are taken now, which is the first of `begun`.
    current: usize,
    begun: VecDeque<Begun<T>>,
    /// The number of results that were handed over and wait, of all parts.
    waiting: usize,
    /// Whether nobody wants more.
    has_ended: bool,
}

/// A part that somebody has begun, and whose results were not all taken.
struct Begun<T> {
    /// What it has handed over.
    waiting: VecDeque<T>,
    /// Its last result, or its failure. There is always room for that, so whoever ends a part need not wait.
    last: Option<Result<T>>,
    has_ended: bool,
}

impl<T: Send> Queue<T> {
    fn new(parts: usize) -> Self {
        let state = State {
            next: 0,
            current: 0,
            begun: VecDeque::new(),
            waiting: 0,
            has_ended: false,
        };
        Self {
            parts,
            state: Mutex::new(state),
            changed: Condvar::new(),
            panic: Mutex::new(None),
        }
    }

    /// Starts threads that do the parts. Returns how many the system has given.
    fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        threads: usize,
        work: &'scope (impl Fn(usize) + Sync),
    ) -> usize {
        let mut started = 0;
        for _ in 0..threads {
            let thread = thread::Builder::new().name("simdb-parallel".to_owned());
            let spawned = thread.spawn_scoped(scope, || {
                let worked = catch_unwind(AssertUnwindSafe(|| {
                    while let Some(part) = self.wait_for_part() {
                        work(part);
                    }
                }));
                if let Err(payload) = worked {
                    self.panic.lock().get_or_insert(payload);
                    self.end();
                }
            });
            started += usize::from(spawned.is_ok());
        }
        started
    }

    /// Gives all results to `take`, then ends the queue.
    fn take_all(
        &self,
        work: Option<&dyn Fn(usize)>,
        take: &mut impl FnMut(usize, T) -> Result<()>,
    ) -> Result<()> {
        let mut taken = Ok(());
        while let Some((part, result)) = self.next(work) {
            taken = result.and_then(|result| take(part, result));
            if taken.is_err() {
                break;
            }
        }
        self.end();
        taken
    }

    /// The next result. Without one, does `work` if any is given, else waits. `None` after the last part, and if a
    /// thread has panicked.
    fn next(&self, work: Option<&dyn Fn(usize)>) -> Option<(usize, Result<T>)> {
        let mut state = self.state.lock();
        while !state.has_ended && state.current < self.parts {
            let current = state.current;
            if let Some(result) = state.take() {
                if !planted("room for results is made without a signal") {
                    self.changed.notify_all();
                }
                return Some((current, result));
            }
            if state.current > current {
                self.changed.notify_all();
                continue;
            }
            let part = work.and_then(|work| Some((work, self.begin(&mut state)?)));
            match part {
                Some((work, part)) => MutexGuard::unlocked(&mut state, || work(part)),
                None => self.changed.wait(&mut state),
            }
        }
        None
    }

    /// The part to do next, if one may be begun now. Parts that wait for an earlier one must not grow in number.
    fn begin(&self, state: &mut State<T>) -> Option<usize> {
        let part = state.next;
        if part >= self.parts || state.begun.len() >= AHEAD_PER_CORE * cores() {
            return None;
        }
        state.next += 1;
        state.begun.push_back(Begun {
            waiting: VecDeque::new(),
            last: None,
            has_ended: false,
        });
        Some(part)
    }

    /// Waits for a part to do. `None` if there is no more, or nobody wants more.
    fn wait_for_part(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.has_ended && state.next < self.parts {
            if let Some(part) = self.begin(&mut state) {
                return Some(part);
            }
            self.changed.wait(&mut state);
        }
        None
    }

    /// Hands over what a part has found, when there is room. [`Error::Interrupted`] if nobody wants more.
    fn hand_over(&self, part: usize, found: T) -> Result<()> {
        let mut state = self.state.lock();
        while !state.has_ended && !state.has_room(part) {
            self.changed.wait(&mut state);
        }
        if state.has_ended {
            return Err(Error::Interrupted);
        }
        state.begun(part).waiting.push_back(found);
        state.waiting += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Ends a part, with its last result or its failure.
    fn end_part(&self, part: usize, last: Option<Result<T>>) {
        let mut state = self.state.lock();
        let begun = state.begun(part);
        begun.last = last;
        begun.has_ended = true;
        self.changed.notify_all();
    }

    /// Goes on with the panic of a thread that did some of the work, so that it is the same wherever it came from.
    fn resume_panic(&self) {
        if let Some(payload) = self.panic.lock().take() {
            resume_unwind(payload);
        }
    }

    /// Ends the work: nobody wants more.
    fn end(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }
}

impl<T> State<T> {
    /// Takes a result of the current part, if one is there. If the part has no more, the next one is current then.
    fn take(&mut self) -> Option<Result<T>> {
        let first = self.begun.front_mut()?;
        if let Some(found) = first.waiting.pop_front() {
            self.waiting -= 1;
            return Some(Ok(found));
        }
        if !first.has_ended {
            return None;
        }
        let last = first.last.take();
        self.begun.pop_front();
        self.current += 1;
        last
    }

    /// Whether a part may hand over something more.
    fn has_room(&mut self, part: usize) -> bool {
        self.waiting < most_waiting()
            || part == self.current && self.begun(part).waiting.len() < MOST_WAITING
    }

    fn begun(&mut self, part: usize) -> &mut Begun<T> {
        let index = part - self.current;
        &mut self.begun[index]
    }
}

/// Ends a queue if its thread panics. Otherwise the others would wait for ever.
struct EndsIfPanicking<'q, T: Send>(&'q Queue<T>);

impl<T: Send> Drop for EndsIfPanicking<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

/// The number of results of one stream that may wait. Eight clients that ask and do not read would otherwise hold eight
/// times the memory of one.
fn most_waiting() -> usize {
    let streams = STREAMS.load(Ordering::Relaxed).max(1);
    (MOST_PER_CORE * cores() / streams).max(FEWEST)
}

/// Counts a stream until it is dropped.
struct CountedStream;

impl CountedStream {
    fn new() -> Self {
        STREAMS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    type HandOver<'h, T> = &'h mut dyn FnMut(T) -> Result<()>;

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
            assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn work_ends_soon_after_a_stop_and_is_not_far_ahead() {
        let begun = AtomicUsize::new(0);
        let mut taken = 0;
        let stopped = in_order(
            100_000,
            |_| Ok(begun.fetch_add(1, Ordering::Relaxed)),
            |part, _| {
                taken += 1;
                assert!(begun.load(Ordering::Relaxed) <= part + 1 + AHEAD_PER_CORE * cores());
                match part {
                    10 => Err(Error::Interrupted),
                    _ => Ok(()),
                }
            },
        );
        assert!(matches!(stopped, Err(Error::Interrupted)));
        assert_eq!(taken, 11);
        assert!(begun.into_inner() <= 11 + (AHEAD_PER_CORE + 1) * cores());
    }

    /// What stands before a failure is taken, what stands behind is not, however early the failure comes.
    #[test]
    fn the_first_failure_in_order_is_the_one_that_is_returned() {
        for parts in [1, 2, 3, 100] {
            for bad in [0, parts / 2, parts - 1] {
                let fail = |part: usize| match part {
                    _ if part < bad => Ok(part),
                    _ if part == bad => Err(Error::KeyRepeated {
                        key: bad.to_string(),
                    }),
                    _ => Err(Error::Aborted),
                };

                let mut taken = Vec::new();
                let failed = in_order(parts, fail, |_, result| {
                    taken.push(result);
                    Ok(())
                });
                assert!(
                    matches!(failed, Err(Error::KeyRepeated { .. })),
                    "{parts}, {bad}"
                );
                assert!(taken.into_iter().eq(0..bad), "{parts}, {bad}");

                let mut taken = Vec::new();
                let work = |part: usize, hand_over: HandOver<'_, usize>| {
                    hand_over(part)?;
                    fail(part).map(drop)
                };
                let failed = stream(parts, work, |_, result| {
                    taken.push(result);
                    Ok(())
                });
                assert!(
                    matches!(failed, Err(Error::KeyRepeated { .. })),
                    "{parts}, {bad}"
                );
                assert!(taken.into_iter().eq(0..=bad), "{parts}, {bad}");
            }
        }
    }

    #[test]
    fn items_and_rows_keep_their_order() {
        for count in [0, 1, 31, 32, 33, 5_000, 100_000u64] {
            let items: Vec<String> = (0..count).map(|item| item.to_string()).collect();
            let lengths: Vec<usize> = items.iter().map(String::len).collect();
            assert_eq!(map_each(items, |item| item.len()), lengths);
            let mut rows: Vec<u64> = (0..count)
                .map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
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
            let said = catch_unwind(works).expect_err("one of them panics");
            let bad = if here { "here" } else { "aside" };
            assert_eq!(said.downcast_ref(), Some(&bad));
        }
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_caller() {
        #[track_caller]
        fn assert_panics_with(bad: usize, works: impl FnOnce()) {
            let panic = catch_unwind(AssertUnwindSafe(works)).expect_err("a part panics");
            assert_eq!(panic.downcast_ref(), Some(&format!("part {bad}")));
        }
        for bad in [0, 1, 50, 99] {
            let panics = |part: usize| assert!(part != bad, "part {part}");
            assert_panics_with(bad, || _ = map(100, panics));

            let take = |part: usize, ()| {
                panics(part);
                Ok(())
            };
            let taken = || in_order(100, |_| Ok(()), take);
            assert_panics_with(bad, || _ = taken());

            let work = |part: usize, hand_over: HandOver<'_, ()>| {
                panics(part);
                hand_over(())
            };
            let streamed = || stream(100, work, |_, ()| Ok(()));
            assert_panics_with(bad, || _ = streamed());

            let work = |_, hand_over: HandOver<'_, ()>| hand_over(());
            let taken = || stream(100, work, take);
            assert_panics_with(bad, || _ = taken());
        }
    }

    #[test]
    fn results_of_a_stream_come_in_order_and_parts_wait_for_room() -> Result<()> {
        for (parts, finds) in [(0, 5), (1, 0), (1, 1_000), (7, 100), (300, 3)] {
            let made = AtomicUsize::new(0);
            let mut taken = Vec::new();
            let work = |part: usize, hand_over: HandOver<'_, usize>| {
                for find in 0..finds * (part % 3) {
                    made.fetch_add(1, Ordering::Relaxed);
                    hand_over(find)?;
                }
                Ok(())
            };
            stream(parts, work, |part, find| {
                taken.push((part, find));
                let most = taken.len() + MOST_PER_CORE * cores() + MOST_WAITING + cores();
                assert!(made.load(Ordering::Relaxed) <= most);
                Ok(())
            })?;
            let expected =
                (0..parts).flat_map(|part| (0..finds * (part % 3)).map(move |find| (part, find)));
            assert!(taken.into_iter().eq(expected), "{parts}, {finds}");
        }
        Ok(())
    }

    #[test]
    fn later_parts_find_much_while_the_first_one_is_under_way() -> Result<()> {
        let handed_over = AtomicUsize::new(0);
        let work = |part: usize, hand_over: HandOver<'_, usize>| {
            // The first one ends when the second has ended.
            while part == 0 && cores() > 1 && handed_over.load(Ordering::Relaxed) < FEWEST {
                thread::yield_now();
            }
            for _ in 0..3 * MOST_WAITING {
                hand_over(part)?;
                handed_over.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let mut taken = Vec::new();
        stream(2, work, |_, found| {
            taken.push(found);
            Ok(())
        })?;
        assert_eq!(
            taken,
            [[0; 3 * MOST_WAITING], [1; 3 * MOST_WAITING]].concat()
        );
        Ok(())
    }

    #[test]
    fn streams_that_are_under_way_share_what_may_wait() {
        let alone = most_waiting();
        let streams: Vec<CountedStream> = (0..MOST_PER_CORE * cores())
            .map(|_| CountedStream::new())
            .collect();
        assert_eq!(most_waiting(), FEWEST);
        drop(streams);
        assert!((FEWEST..=MOST_PER_CORE * cores()).contains(&alone));
    }

    #[test]
    fn the_work_of_a_stream_ends_soon_after_a_stop() {
        let stopped = AtomicUsize::new(0);
        let work = |_, hand_over: HandOver<'_, ()>| {
            while hand_over(()).is_ok() {}
            stopped.fetch_add(1, Ordering::Relaxed);
            Err(Error::Aborted)
        };
        let mut taken = 0;
        let ended = stream(1_000, work, |part, ()| {
            taken += 1;
            match (part, taken) {
                (0, ..100) => Ok(()),
                _ => Err(Error::Interrupted),
            }
        });
        assert!(matches!(ended, Err(Error::Interrupted)));
        assert_eq!(taken, 100);
        assert!(stopped.into_inner() <= cores());
    }
}
