//! Compaction: a dense copy that replaces the file.

use std::fs;
use std::io;
use std::sync::Arc;

use super::copy::{self, Copied, CopyProgress, Memory};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::store::engine::{OpenFile, is_same_file, persist, sync_directory};
use crate::store::file::Shared;

/// Makes the copy, with the tables of `plan` if there is one, and replaces the file by it. The caller
/// makes sure that nobody commits. Snapshots go on with the old file. Its space is free when the last of
/// them is gone.
pub(crate) fn compact(shared: &Shared, plan: Option<Plan>, progress: CopyProgress<'_>) -> Result<()> {
    let failed = |source: io::Error| Error::Io { path: shared.path.clone(), source };
    let target = &shared.target;
    ensure_in_place(shared)?;
    let view = shared.view()?;
    let mut settings = shared.settings().for_another_file();
    if let Some(plan) = plan {
        settings.plan = plan;
    }
    // Only readers need the rest of the memory meanwhile.
    let memory = Memory { engine: shared.page_cache_bytes, sorting: shared.cache_bytes / 2 };
    let Copied { new, engine } = copy::copy(&view, &settings, target, &shared.sizes, memory, progress)?;
    let permissions = fs::metadata(target).map_err(failed)?.permissions();
    new.file.set_permissions(permissions).map_err(failed)?;
    let open = Arc::new(OpenFile { engine, file: new.file });
    let copied = copy::view_of(&open, Arc::new(settings), view.blocks().cache.clone())?;
    copy::verify(&copied, &view)?;
    ensure_in_place(shared)?;
    persist(new.temporary, target, true)?;
    // From here on the path names the copy, so every handle must use it.
    shared.swap(open, copied);
    sync_directory(target).map_err(|error| match error {
        Error::Io { source, .. } => failed(source),
        error => error,
    })
}

/// Refuses to replace a file that is not the open one.
fn ensure_in_place(shared: &Shared) -> Result<()> {
    let failed = |source: io::Error| Error::Io { path: shared.target.clone(), source };
    let open = shared.open().file.metadata().map_err(failed)?;
    if is_same_file(&open, &fs::metadata(&shared.target).map_err(failed)?) {
        return Ok(());
    }
    let reason = "another file stands there since this one was opened; open that one, or move it away";
    Err(failed(io::Error::other(reason)))
}
