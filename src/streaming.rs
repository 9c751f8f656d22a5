//! Streams: what the parts of some work find, given to one thread in order, while the parts are under way. So the
//! memory for it is bounded, however much one part finds.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

use crate::parallel::cores;

/// The number of things that may always wait to be taken of the part that is taken now.
const MOST_WAITING: usize = 16;
/// For each core, the number of things of all parts that may wait. Each part may have as many of these as it finds.
/// Otherwise all others would soon wait for the one that is taken now. Streams that are under way at once share them.
const MOST_PER_CORE: usize = 64;
/// The number of things that may wait however many streams there are.
const FEWEST: usize = 2 * MOST_WAITING;

/// The streams of the process that are under way.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// The number of things of one stream that may wait. Eight clients that ask and do not read would otherwise hold eight
/// times the memory of one.
fn most_waiting() -> usize {
    let streams = STREAMS.load(Ordering::Relaxed).max(1);
    (MOST_PER_CORE * cores() / streams).max(FEWEST)
}

/// Does the parts of some work on all cores, and gives what they find to `take` in order, on the calling thread. A
/// part hands over what it finds, some at a time, and ends soon after its hand-over breaks. It breaks once `take`
/// has.
pub(crate) fn in_order<T: Send>(
    parts: usize,
    work: impl Fn(usize, &mut dyn FnMut(T) -> ControlFlow<()>) + Sync,
    mut take: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    let queue = Queue {
        state: Mutex::new(State::default()),
        changed: Condvar::new(),
        parts,
    };
    let _counted = Counted::new();
    let help = || {
        let _ended = EndsIfPanicking(&queue);
        while let Some(part) = queue.begin() {
            work(part, &mut |found| queue.put(part, found));
            queue.end_of(part);
        }
    };
    thread::scope(|scope| {
        let _ended = Ends(&queue);
        let threads = cores().min(parts);
        let started = (0..threads).filter(|_| {
            let thread = thread::Builder::new().name("simdb-parallel".to_owned());
            thread.spawn_scoped(scope, help).is_ok()
        });
        // Without any thread, this one does the work.
        if started.count() == 0 {
            let mut flow = ControlFlow::Continue(());
            for part in 0..parts {
                work(part, &mut |found| {
                    if flow.is_continue() {
                        flow = take(part, found);
                    }
                    flow
                });
                if flow.is_break() {
                    return;
                }
            }
            return;
        }
        while let Some((part, found)) = queue.take() {
            if take(part, found).is_break() {
                break;
            }
        }
    });
}

/// Counts a stream until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        STREAMS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was found and not taken yet.
struct Queue<T> {
    parts: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The first part that nobody has begun.
    next: usize,
    /// The part whose finds are taken now, which is the first of `found`.
    current: usize,
    found: VecDeque<Found<T>>,
    /// The number of things that wait, of all parts.
    waiting: usize,
    /// Whether nobody wants more.
    ended: bool,
}

/// What a part has found.
struct Found<T> {
    waiting: VecDeque<T>,
    /// Whether the part has ended.
    is_all: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            next: 0,
            current: 0,
            found: VecDeque::new(),
            waiting: 0,
            ended: false,
        }
    }
}

impl<T> Queue<T> {
    /// The part to do next. `None` if there is no more, or nobody wants more.
    fn begin(&self) -> Option<usize> {
        let mut state = self.state.lock();
        // Parts that wait for an earlier one must not grow in number.
        while !state.ended && state.next < self.parts && state.found.len() >= 4 * cores() {
            self.changed.wait(&mut state);
        }
        let part = state.next;
        if state.ended || part >= self.parts {
            return None;
        }
        state.next += 1;
        state.found.push_back(Found {
            waiting: VecDeque::new(),
            is_all: false,
        });
        Some(part)
    }

    /// Hands over what a part has found, when there is room.
    fn put(&self, part: usize, found: T) -> ControlFlow<()> {
        let mut state = self.state.lock();
        while !state.ended && !state.has_room(part) {
            self.changed.wait(&mut state);
        }
        if state.ended {
            return ControlFlow::Break(());
        }
        state.of(part).waiting.push_back(found);
        state.waiting += 1;
        self.changed.notify_all();
        ControlFlow::Continue(())
    }

    fn end_of(&self, part: usize) {
        let mut state = self.state.lock();
        if !state.ended {
            state.of(part).is_all = true;
        }
        self.changed.notify_all();
    }

    /// What comes next. `None` after the last part, and if a thread has panicked.
    fn take(&self) -> Option<(usize, T)> {
        let mut state = self.state.lock();
        loop {
            if state.ended || state.current >= self.parts {
                return None;
            }
            if let Some(first) = state.found.front_mut() {
                if let Some(found) = first.waiting.pop_front() {
                    state.waiting -= 1;
                    self.changed.notify_all();
                    return Some((state.current, found));
                }
                if first.is_all {
                    state.found.pop_front();
                    state.current += 1;
                    self.changed.notify_all();
                    continue;
                }
            }
            self.changed.wait(&mut state);
        }
    }
}

impl<T> State<T> {
    /// Whether a part may hand over something more.
    fn has_room(&mut self, part: usize) -> bool {
        self.waiting < most_waiting()
            || part == self.current && self.of(part).waiting.len() < MOST_WAITING
    }

    fn of(&mut self, part: usize) -> &mut Found<T> {
        let index = part - self.current;
        &mut self.found[index]
    }
}

/// Ends a queue when it is dropped. Otherwise the threads would wait for ever.
struct Ends<'q, T>(&'q Queue<T>);

impl<T> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// Ends a queue if its thread panics. Otherwise the one that takes would wait for ever.
struct EndsIfPanicking<'q, T>(&'q Queue<T>);

impl<T> Drop for EndsIfPanicking<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(Ends(self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn finds_come_in_order_and_parts_wait_for_room() {
        for (parts, finds) in [(0, 5), (1, 0), (1, 1_000), (7, 100), (300, 3)] {
            let (made, mut taken) = (AtomicUsize::new(0), Vec::new());
            let work = |part: usize, hand_over: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                for find in 0..finds * (part % 3) {
                    made.fetch_add(1, Ordering::Relaxed);
                    assert!(hand_over(find).is_continue());
                }
            };
            in_order(parts, work, |part, find| {
                taken.push((part, find));
                let most = taken.len() + MOST_PER_CORE * cores() + MOST_WAITING + cores();
                assert!(made.load(Ordering::Relaxed) <= most);
                ControlFlow::Continue(())
            });
            let expected =
                (0..parts).flat_map(|part| (0..finds * (part % 3)).map(move |find| (part, find)));
            assert!(taken.into_iter().eq(expected), "{parts}, {finds}");
        }
    }

    #[test]
    fn later_parts_find_much_while_the_first_one_is_under_way() {
        let handed_over = AtomicUsize::new(0);
        let work = |part: usize, hand_over: &mut dyn FnMut(usize) -> ControlFlow<()>| {
            // The first one ends when the second has ended.
            while part == 0 && cores() > 1 && handed_over.load(Ordering::Relaxed) < FEWEST {
                thread::yield_now();
            }
            for _ in 0..3 * MOST_WAITING {
                assert!(hand_over(part).is_continue());
                handed_over.fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut taken = Vec::new();
        in_order(2, work, |_, found| {
            taken.push(found);
            ControlFlow::Continue(())
        });
        assert_eq!(
            taken,
            [[0; 3 * MOST_WAITING], [1; 3 * MOST_WAITING]].concat()
        );
    }

    #[test]
    fn streams_that_are_under_way_share_what_may_wait() {
        let alone = most_waiting();
        let streams: Vec<Counted> = (0..MOST_PER_CORE * cores())
            .map(|_| Counted::new())
            .collect();
        assert_eq!(most_waiting(), FEWEST);
        drop(streams);
        assert!((FEWEST..=MOST_PER_CORE * cores()).contains(&alone));
    }

    #[test]
    fn work_ends_soon_after_a_break() {
        let broken = AtomicUsize::new(0);
        let work = |_, hand_over: &mut dyn FnMut(usize) -> ControlFlow<()>| {
            while hand_over(0).is_continue() {}
            broken.fetch_add(1, Ordering::Relaxed);
        };
        let mut taken = 0;
        in_order(1_000, work, |part, _| {
            taken += 1;
            if part == 0 && taken < 100 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        assert_eq!(taken, 100);
        assert!(broken.into_inner() <= cores());
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_caller() {
        for bad in [0, 1, 50, 99] {
            let work = |part: usize, hand_over: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                assert!(part != bad, "part {part}");
                _ = hand_over(part);
            };
            let take = |_, _| ControlFlow::Continue(());
            assert!(
                catch_unwind(AssertUnwindSafe(|| in_order(100, work, take))).is_err(),
                "{bad}"
            );
            let take = |part: usize, _| {
                assert!(part != bad, "taking part {part}");
                ControlFlow::Continue(())
            };
            let work =
                |part, hand_over: &mut dyn FnMut(usize) -> ControlFlow<()>| _ = hand_over(part);
            assert!(
                catch_unwind(AssertUnwindSafe(|| in_order(100, work, take))).is_err(),
                "{bad}"
            );
        }
    }
}
