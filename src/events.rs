//! Events: what simdb tells those who watch the program, for example in a log. Without the feature `tracing`,
//! it tells nothing.

use std::path::Path;

/// The permuted tables of a database no longer fit into its cache.
pub(crate) fn tables_do_not_fit(path: &Path, limit_bytes: u64, needed_bytes: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        path = %path.display(),
        cache_limit_bytes = limit_bytes,
        tables_need_bytes = needed_bytes,
        "the permuted tables do not fit into the cache, so queries read the file; a larger cache makes them \
         about ten times as fast"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (path, limit_bytes, needed_bytes);
}
