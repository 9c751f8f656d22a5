//! Compaction: a dense copy that replaces the file.

use std::fs;
use std::io;
use std::sync::Arc;

use super::copy::{self, Copied, CopyProgress, Memory};
use crate::error::{Error, Result};
use crate::files::{NewFile, Temporary, is_same_file, names_of, sync_name};
use crate::plan::Plan;
use crate::store::engine::OpenFile;
use crate::store::file::{Shared, View};

/// The most memory for sorting. With more, little is gained.
const MOST_SORTING_BYTES: usize = 1 << 30;

/// Makes the copy, with the tables of `plan` if there is one, and replaces the file by it. The caller
/// makes sure that nobody commits. Snapshots go on with the old file. Its space is free when the last of
/// them is gone.
pub(crate) fn compact(
    shared: &Shared,
    plan: Option<Plan>,
    progress: CopyProgress<'_>,
) -> Result<()> {
    let failed = |source: io::Error| Error::Io {
        path: shared.path.clone(),
        source: source.into(),
    };
    let target = &shared.target;
    ensure_in_place(shared)?;
    let view = shared.view()?;
    let mut settings = shared.current_settings().for_another_file();
    if let Some(plan) = plan {
        settings.plan = plan;
    }
    // Only readers need the rest of the memory meanwhile.
    let sorting = (shared.limit.own_bytes() / 2).min(MOST_SORTING_BYTES);
    let memory = Memory {
        engine: shared.limit.page_cache_bytes(),
        sorting,
    };
    let new = NewFile::replacing(target, view.file())?;
    let Copied {
        new,
        engine,
        mut counter,
    } = copy::copy(
        &view,
        &settings,
        new,
        target,
        &shared.sizes,
        memory,
        progress,
    )?;
    let open = Arc::new(OpenFile::new(engine, new.file));
    let copied = copy::view_of(&open, Arc::new(settings), view.blocks().cache.clone())?;
    copy::verify(&copied, &view, &mut || counter.go_on())?;
    // Somebody may have changed the mode meanwhile.
    open.file
        .set_permissions(view.metadata().map_err(failed)?.permissions())
        .map_err(failed)?;
    put_in_place(shared, new.temporary, &open, copied)
}

/// Puts the copy in the place of the file. `copied` is what it holds.
fn put_in_place(shared: &Shared, new: Temporary, open: &Arc<OpenFile>, copied: View) -> Result<()> {
    let failed = |source: io::Error| Error::Io {
        path: shared.path.clone(),
        source: source.into(),
    };
    ensure_in_place(shared)?;
    new.replace(&shared.target)?;
    // From here on the path names the copy, so every handle must use it.
    shared.swap(open.clone(), copied);
    // Some file systems ask for the first sync too, since the file had no name when it was synced.
    open.file.sync_all().map_err(failed)?;
    sync_name(&shared.target).map_err(|error| match error {
        Error::Io { source, .. } => Error::Io {
            path: shared.path.clone(),
            source,
        },
        error => error,
    })
}

/// Refuses to replace a file that is not the open one, or has another name, which would go on to be the old
/// file.
fn ensure_in_place(shared: &Shared) -> Result<()> {
    let failed = |source: io::Error| Error::Io {
        path: shared.target.clone(),
        source: source.into(),
    };
    let open = shared.open()?;
    let metadata = open.file.metadata().map_err(failed)?;
    if !is_same_file(&metadata, &fs::metadata(&shared.target).map_err(failed)?) {
        let reason =
            "another file stands there since this one was opened; open that one, or move it away";
        return Err(failed(io::Error::other(reason)));
    }
    match names_of(&open.file).map_err(failed)? {
        0 | 1 => Ok(()),
        names => Err(Error::SeveralNames {
            path: shared.path.clone(),
            names,
        }),
    }
}
