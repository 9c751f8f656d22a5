//! Pins: the open snapshots, and what they keep the file from using again.
//!
//! The engine uses the space that a commit frees only when nobody reads an earlier commit any more. So the oldest
//! commit that is still read keeps everything that was freed since. The engine does not tell how much that is. It
//! is reckoned from the blocks that commits remove.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::view::View;
use crate::error::Result;
use crate::metrics::Metrics;
use crate::sync::Mutex;

/// The open snapshots, and the commits that are still read although there are newer ones.
#[derive(Default)]
pub(crate) struct Pins {
    /// The number of open snapshots.
    snapshots: Arc<AtomicUsize>,
    /// The oldest first.
    pins: Mutex<Vec<Pin>>,
}

/// A commit that was still read when a newer one came.
struct Pin {
    view: Weak<View>,
    /// When the newer one came.
    since: Instant,
    keeps: Keeps,
}

/// What a commit that is still read keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// What commits have freed since they had freed this number of bytes.
    FreedSince(u64),
    /// A file of this length, which compaction has replaced. Later commits free space of another file.
    OldFile { number: u64, bytes: u64 },
}

impl Pin {
    fn is_read(&self) -> bool {
        self.view.strong_count() > 0
    }
}

impl Pins {
    /// A snapshot of the commit that `view` gives. It counts before that: whoever finds the view in use is to find
    /// the snapshot counted.
    pub(super) fn snapshot(
        &self,
        view: impl FnOnce() -> Result<Arc<View>>,
    ) -> Result<StoredSnapshot> {
        let open = OpenSnapshot::new(&self.snapshots);
        Ok(StoredSnapshot {
            view: view()?,
            _open: open,
        })
    }

    /// The number of open snapshots.
    pub(super) fn snapshots(&self) -> usize {
        self.snapshots.load(Ordering::Acquire)
    }

    /// Notes that a newer commit took the place of `before`. Until now, commits have freed `freed_bytes`.
    pub(super) fn note(&self, before: &Arc<View>, freed_bytes: u64) {
        let mut pins = self.pins.lock();
        pins.retain(Pin::is_read);
        // The caller holds it too.
        if Arc::strong_count(before) > 1 {
            let keeps = Keeps::FreedSince(freed_bytes);
            pins.push(Pin {
                view: Arc::downgrade(before),
                since: Instant::now(),
                keeps,
            });
        }
    }

    /// Notes that another file took the place of a file of this length. Those that are noted read the old file.
    pub(super) fn file_replaced(&self, bytes: u64) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        for pin in &mut *self.pins.lock() {
            if matches!(pin.keeps, Keeps::FreedSince(_)) {
                pin.keeps = Keeps::OldFile { number, bytes };
            }
        }
    }

    /// Adds the snapshots, and what they keep, to metrics. Until now, commits have freed `freed_bytes`.
    pub(super) fn add_to(&self, metrics: &mut Metrics, freed_bytes: u64) {
        metrics.snapshots = self.snapshots() as u64;
        let mut before = None;
        // The oldest of the pins of a file keeps what the others keep too.
        for pin in self.pins.lock().iter().filter(|pin| pin.is_read()) {
            metrics
                .oldest_pin
                .get_or_insert_with(|| pin.since.elapsed());
            let is_counted = before.is_some_and(|before| match (before, pin.keeps) {
                (Keeps::FreedSince(_), Keeps::FreedSince(_)) => true,
                (before, keeps) => before == keeps,
            });
            if !is_counted {
                metrics.pinned_bytes += match pin.keeps {
                    Keeps::FreedSince(freed_before) => freed_bytes.saturating_sub(freed_before),
                    Keeps::OldFile { bytes, .. } => bytes,
                };
            }
            before = Some(pin.keeps);
        }
    }

    /// Notes that none of them can read any more.
    pub(super) fn forget_all(&self) {
        self.pins.lock().clear();
    }
}

/// A snapshot: what is committed at one moment. It and each clone count as open until they are dropped.
#[derive(Clone)]
pub(crate) struct StoredSnapshot {
    view: Arc<View>,
    _open: OpenSnapshot,
}

/// One of the number of open snapshots.
struct OpenSnapshot(Arc<AtomicUsize>);

impl Clone for OpenSnapshot {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl OpenSnapshot {
    fn new(snapshots: &Arc<AtomicUsize>) -> Self {
        snapshots.fetch_add(1, Ordering::AcqRel);
        Self(snapshots.clone())
    }
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Deref for StoredSnapshot {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl fmt::Debug for StoredSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSnapshot").finish_non_exhaustive()
    }
}
