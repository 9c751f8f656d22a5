//! Backup: a dense copy of a snapshot, as a database of its own.

use std::io;
use std::path::{self, Path};
use std::sync::Arc;

use super::copy::{self, Copied, CopyProgress, Memory};
use crate::error::{Error, Result};
use crate::files::{NewFile, directory_of, ensure_nothing_at};
use crate::store::blocks::BlockCache;
use crate::store::engine::OpenFile;
use crate::store::file::View;
use crate::store::sizes::Sizes;

/// The copy is not used after it is made, so a small cache is enough.
const MEMORY: Memory = Memory {
    engine: 16 << 20,
    sorting: 64 << 20,
};

/// Makes a dense copy at `path`, where nothing may be yet.
pub(crate) fn backup(
    view: &View,
    path: &Path,
    sizes: &Sizes,
    progress: CopyProgress<'_>,
) -> Result<()> {
    ensure_nothing_at(path)?;
    let failed = |source: io::Error| Error::Io {
        path: path.to_owned(),
        source: source.into(),
    };
    // `progress` may change the directory of the process.
    let path = &path::absolute(path).map_err(failed)?;
    let settings = view.settings().for_another_file();
    let new = NewFile::copy_of(directory_of(path)?, view.file())?;
    let Copied {
        new,
        engine,
        mut counter,
    } = copy::copy(view, &settings, new, path, sizes, MEMORY, progress)?;
    let open = Arc::new(OpenFile::new(engine, new.file));
    // The file may have given the same numbers to other blocks. So the copy has a cache of its own.
    let copied = copy::view_of(&open, Arc::new(settings), Arc::new(BlockCache::new(0)))?;
    copy::verify(&copied, view, &mut || counter.go_on())?;
    new.temporary.keep_as(path)
}
