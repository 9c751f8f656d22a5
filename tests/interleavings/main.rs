//! Interleavings: what threads share, under schedules that a scheduler chooses instead of the system.
//!
//! The files of simdb that have locks and signals of their own are taken from `src` as they are: the queue of a writer
//! and its tickets, the turns to write, the cache, and the work on all cores. [`sync`] puts locks, atomics and threads
//! of the scheduler (shuttle) in the place of those of the system. What else these files name has a small stand-in
//! here. So each lock and each signal is a place at which any other thread may go on, and a signal that is lost ends as
//! a deadlock, which the scheduler finds.
//!
//! `SIMDB_SEED` chooses the schedules, and `SIMDB_INTERLEAVINGS` how many of each test. The file has a `main` of its
//! own, since the unit tests of the files that it takes are for the locks of the system.

#![allow(dead_code, reason = "the files have more than is tested here")]
#![allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "the files stand in another crate here"
)]

#[path = "../stand/child.rs"]
mod child;
mod epochs;
#[path = "../../src/parallel.rs"]
mod parallel;
#[path = "../../src/planted.rs"]
mod planted;
#[path = "../stand/random.rs"]
mod random;
mod sync;

mod cache_tests;
mod parallel_tests;
mod turns_tests;

use libtest_mimic::{Arguments, Failed, Trial};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

// The cache names the crate `sdd`, and finds `epochs` instead.
extern crate self as sdd;
use epochs::{AtomicOwned, Guard, Owned, Tag};

mod error {
    pub(crate) use simdb::{Error, Result};
}

mod process {
    use crate::error::Result;

    /// The process. None is forked here.
    #[derive(Clone, Copy)]
    pub(crate) struct Process;

    impl Process {
        pub(crate) fn here() -> Self {
            Self
        }

        pub(crate) fn is_here(self) -> bool {
            true
        }

        pub(crate) fn ensure_here(self) -> Result<()> {
            Ok(())
        }
    }
}

mod metrics {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// How long the queue was at most.
    #[derive(Default)]
    pub(crate) struct QueueGauge(AtomicUsize);

    impl QueueGauge {
        pub(crate) fn set(&self, length: usize, _bytes: usize) {
            self.0.fetch_max(length, Ordering::Relaxed);
        }

        pub(crate) fn longest(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[derive(Default)]
    pub(crate) struct Meters(pub(crate) Arc<QueueGauge>);

    impl Meters {
        pub(crate) fn queue_gauge(&self) -> Arc<QueueGauge> {
            self.0.clone()
        }

        pub(crate) fn add(&self, _: Count, _: u64) {}
    }

    pub(crate) enum Count {
        Submissions,
    }

    /// What readers count. Nobody reads here.
    pub(crate) struct Tallies;

    impl Tallies {
        pub(crate) fn new() -> Self {
            Self
        }
    }
}

mod document {
    /// A document, of which only the number matters.
    pub struct Document(pub(crate) u64);

    impl Document {
        pub(crate) fn memory_bytes(&self) -> usize {
            1
        }
    }
}

mod source {
    pub struct Reached;

    impl Reached {
        pub(crate) fn memory_bytes(&self) -> usize {
            1
        }
    }
}

#[path = "../../src/store"]
mod store {
    use std::sync::Arc;

    use super::error::Result;
    use super::metrics::Meters;

    /// A store that is open and has no transaction.
    #[derive(Default)]
    pub(crate) struct Store {
        pub(crate) meters: Arc<Meters>,
    }

    impl Store {
        pub(crate) fn is_writing_here(&self) -> bool {
            false
        }

        pub(crate) fn ensure_certain(&self) -> Result<()> {
            Ok(())
        }

        pub(crate) fn ensure_usable(&self) -> Result<()> {
            Ok(())
        }
    }

    pub(crate) mod blocks {
        pub(crate) mod cache;

        pub(crate) mod documents {
            pub(crate) struct DocumentBlock;

            impl DocumentBlock {
                pub(crate) fn memory_bytes(&self) -> usize {
                    1
                }
            }
        }

        pub(crate) mod entry {
            #[derive(Clone, Copy)]
            pub(crate) struct BlockId(pub(crate) u64);

            impl BlockId {
                pub(crate) fn bits(self) -> u64 {
                    self.0
                }
            }
        }

        pub(crate) mod row {
            pub(crate) trait Row: 'static {}

            impl Row for u64 {}
        }

        pub(crate) mod segment {
            use std::marker::PhantomData;

            /// A segment, of which only the number of bytes matters.
            pub(crate) struct Segment<R>(pub(crate) usize, pub(crate) PhantomData<R>);

            impl<R> Segment<R> {
                pub(crate) fn puts(&self) -> &[R] {
                    &[]
                }

                pub(crate) fn memory_bytes(&self) -> usize {
                    self.0
                }
            }

            /// Signatures, which take less than a segment.
            pub(crate) struct Signatures;

            impl Signatures {
                pub(crate) fn new<R>(_: &[R]) -> Self {
                    Self
                }

                pub(crate) fn memory_bytes(&self) -> usize {
                    40
                }
            }

            pub(crate) enum Kept<R> {
                Rows(Segment<R>),
                Signatures(Signatures),
            }

            impl<R> Kept<R> {
                pub(crate) fn memory_bytes(&self) -> u64 {
                    let bytes = match self {
                        Self::Rows(segment) => segment.memory_bytes(),
                        Self::Signatures(signatures) => signatures.memory_bytes(),
                    };
                    bytes as u64
                }
            }
        }
    }

    pub(crate) mod file {
        pub(crate) mod turns;

        pub(crate) mod shared {
            /// A file, of which only the turns matter.
            #[derive(Default)]
            pub(crate) struct Shared {
                pub(super) turns: super::turns::Turns,
            }

            impl Shared {
                pub(crate) fn is_here(&self) -> bool {
                    true
                }
            }
        }
    }
}

#[path = "../../src/database"]
mod database {
    pub(crate) mod submissions;
    pub(crate) mod ticket;

    pub(crate) mod policy {
        pub struct Policy;
    }

    pub(crate) mod verdict {
        /// The place in the order in which documents were decided.
        #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct Verdict(pub(crate) usize);
    }

    pub(crate) mod writer {
        use crate::document::Document;
        use crate::source::Reached;

        pub struct Submission {
            pub(crate) document: Document,
            pub(crate) reached: Option<Reached>,
        }
    }

    #[path = "../../tests/interleavings/queue_tests.rs"]
    pub(crate) mod queue_tests;
}

/// Runs a test under schedules: half of them are random, half have few changes of thread at unlikely moments.
fn explore(usual: usize, test: fn()) -> Result<(), Failed> {
    let schedules = random::amount("SIMDB_INTERLEAVINGS", usual, 50 * usual);
    let seed = random::seed_or(1);
    run(RandomScheduler::new_from_seed(seed, schedules), test);
    run(PctScheduler::new_from_seed(seed, 3, schedules), test);
    Ok(())
}

fn run(scheduler: impl Scheduler + 'static, test: fn()) {
    let mut config = Config::new();
    // The orderings of atomics are not what is tested.
    config.silence_warnings = true;
    // What goes on for so long goes round in circles.
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(scheduler, config).run(test);
}

/// Planted bugs (src/planted.rs), each with the test that has to find it.
const PLANTED: [(&str, &str); 4] = [
    (
        "nobody is told that all wait",
        "queue::a_group_is_committed_when_all_wait_whoever_else_has_submitted",
    ),
    (
        "a turn is given back without a signal",
        "turns::one_writes_at_a_time_and_everybody_gets_a_turn",
    ),
    (
        "a segment is counted after it is there",
        "cache::the_bytes_are_those_of_the_segments_that_are_there",
    ),
    (
        "room for results is made without a signal",
        "parallel::what_parts_find_comes_in_order_while_they_are_under_way",
    ),
];

fn main() {
    let mut tests = Vec::new();
    for (bug, test) in PLANTED {
        let name = format!("planted::{}_is_caught", bug.replace(' ', "_"));
        tests.push(Trial::test(name, move || {
            child::assert_caught(bug, &[test]);
            Ok(())
        }));
    }
    for named in [
        database::queue_tests::all(),
        turns_tests::all(),
        cache_tests::all(),
        parallel_tests::all(),
    ] {
        for (name, schedules, test) in named {
            tests.push(Trial::test(name, move || explore(schedules, test)));
        }
    }
    let mut arguments = Arguments::from_args();
    // The scheduler has one thread. What is static is not shared with that of another test.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, tests).exit();
}
