//! Throttling transactions to a pace that merges can follow.

use std::thread;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::due::{self, MOST_WAITING, Pause};
use crate::error::{Error, Result};
use crate::files::available_bytes;
use crate::store::file::Shared;

/// No merge begins if the disk has less room than this. After a write has failed, the engine cannot even
/// read.
const NEEDED_BYTES: u64 = 16 << 20;

/// Refuses to begin something that may need so many bytes and those of a merge, if the disk has less room.
pub(super) fn ensure_room(shared: &Shared, bytes: u64) -> Result<()> {
    let needed = NEEDED_BYTES + bytes;
    let Some(directory) = shared.target.parent() else {
        return Ok(());
    };
    match available_bytes(directory) {
        Ok(available) if available < needed => Err(Error::NoRoom {
            directory: directory.to_owned(),
            needed,
            available,
        }),
        _ => Ok(()),
    }
}

/// Makes a transaction of `operations` operations pause if the merges are behind, or wait until they have
/// caught up.
pub(crate) fn throttle(shared: &Shared, operations: usize) -> Result<()> {
    let limit = shared.sizes.recent_operations as u64;
    let mut waited = false;
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let recent = view.state().recent_operations;
        let frozen = view.state().sets.any_frozen();
        drop(view);
        if recent < MOST_WAITING as u64 * limit {
            // The further behind the merges are, the longer the pause: up to ten microseconds an operation.
            let behind =
                recent.saturating_sub(limit) as f64 / ((MOST_WAITING as u64 - 1) * limit) as f64;
            let pause = Duration::from_secs_f64(behind * 10e-6 * operations as f64);
            if frozen && !waited && pause > Duration::from_micros(100) {
                thread::sleep(pause.min(Duration::from_millis(50)));
            }
            return Ok(());
        }
        waited = true;
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits while a merge of recent rows goes on and as many operations are recent as it began with. A
/// transaction that begins then is not throttled. The caller has no turn to write.
pub(crate) fn wait_for_merges(shared: &Shared) -> Result<()> {
    loop {
        let commits = shared.progress.lock().commits;
        shared.ensure_certain()?;
        let view = shared.view()?;
        let is_behind = view.state().sets.any_frozen()
            && view.state().recent_operations >= shared.sizes.recent_operations as u64;
        drop(view);
        if !is_behind {
            return Ok(());
        }
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until every set has room for one more level. Then keeps the merging thread from working, until the
/// guard is dropped. The caller has the turn to write, and holds a view, so that nobody takes commits back.
pub(crate) fn wait_for_room_for_a_level(shared: &Shared) -> Result<MutexGuard<'_, ()>> {
    loop {
        let commits = shared.progress.lock().commits;
        shared.ensure_certain()?;
        let merging = shared.merging.lock();
        if due::has_room_for_levels(shared.view()?.state()) {
            return Ok(merging);
        }
        drop(merging);
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until no merge is due. For tests and measurements.
pub(crate) fn wait_until_idle(shared: &Shared) -> Result<()> {
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let work = due::next_work(view.state(), &shared.sizes, Pause::Short);
        drop(view);
        if work.is_none() {
            return Ok(());
        }
        shared.ensure_certain()?;
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until there are more than `commits` commits, but not for long. If merging has failed, returns its
/// error.
fn wait_for_commit_after(shared: &Shared, commits: u64) -> Result<()> {
    let mut progress = shared.progress.lock();
    if let Some(failure) = &progress.failure {
        return Err(failure.into());
    }
    if progress.commits == commits {
        shared
            .changed
            .wait_for(&mut progress, Duration::from_millis(100));
    }
    Ok(())
}
