//! Work on all cores. The results come in the order in which they are ready.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::Result;

/// Calls `work` for each item on all cores, and `take` with each result, here.
pub(crate) fn each<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> T + Sync,
    mut take: impl FnMut(&I, T) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    // Pictures are large, and whoever takes the results may wait for the disk.
    let (done, results) = mpsc::sync_channel(64);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            let (done, next, work) = (done.clone(), &next, &work);
            thread::Builder::new().spawn_scoped(scope, move || {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if done.send((item, work(item))).is_err() {
                        return;
                    }
                }
            })?;
        }
        drop(done);
        // An error drops the receiver, and that ends the threads.
        results
            .into_iter()
            .try_for_each(|(item, result)| take(item, result))
    })
}
