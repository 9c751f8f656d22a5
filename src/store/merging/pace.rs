//! Keeping transactions at a pace that merges can follow.

use std::thread;
use std::time::Duration;

use super::policy;
use crate::error::Result;
use crate::store::file::Shared;

/// A transaction waits for the merges once the recent rows are this multiple of their limit.
const MOST_WAITING: usize = 4;

/// Makes a transaction of `operations` operations pause if the merges are behind, or wait until they have
/// caught up.
pub(crate) fn keep_pace(shared: &Shared, operations: usize) -> Result<()> {
    let limit = shared.sizes.recent_rows;
    let mut waited = false;
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let (recent, frozen) = (view.state().sets.recent_rows(), view.state().sets.any_frozen());
        drop(view);
        if recent < limit || !frozen {
            return Ok(());
        }
        if recent < MOST_WAITING * limit {
            // The further behind the merges are, the longer the pause: up to ten microseconds an operation.
            let behind = (recent - limit) as f64 / ((MOST_WAITING - 1) * limit) as f64;
            let pause = Duration::from_secs_f64(behind * 10e-6 * operations as f64);
            if !waited && pause > Duration::from_micros(100) {
                thread::sleep(pause.min(Duration::from_millis(50)));
            }
            return Ok(());
        }
        waited = true;
        wait_for_commit_after(shared, commits)?;
    }
}

/// Waits until no merge is due. For tests and measurements.
pub(crate) fn settle(shared: &Shared) -> Result<()> {
    loop {
        let commits = shared.progress.lock().commits;
        let view = shared.view()?;
        let state = view.state();
        let due = state.sets.any_frozen()
            || policy::is_freezing_due(state, shared.sizes.recent_rows)
            || policy::most_urgent(state, &shared.sizes).is_some();
        drop(view);
        if !due {
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
        return Err(failure.to_error());
    }
    if progress.commits == commits {
        shared.changed.wait_for(&mut progress, Duration::from_millis(100));
    }
    Ok(())
}
