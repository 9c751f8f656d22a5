//! Groups of near-duplicates, as they are listed without cleaning anything.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::dedup::Dedup;
use super::delivery::cannot_write;
use super::events::DedupEvent;
use crate::database::{ClusterEvent, Database};
use crate::error::Result;
use crate::ingest::{InputFormat, NumberedKey, Records};

/// Records that are near-duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DedupGroup {
    /// The index of the record that survives.
    pub survivor: usize,
    /// All records, in the order of the inputs. There are at least two.
    pub records: Vec<GroupedRecord>,
}

/// A record of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupedRecord {
    /// The path of its input.
    pub input: PathBuf,
    /// Its line, or its number in a web archive. `None` if the input is one record.
    pub number: Option<u64>,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// The number of bits in which its fingerprint differs from that of the survivor.
    pub distance: u32,
}

impl Dedup {
    /// Finds the groups of near-duplicates, and writes nothing. Records whose texts are too short to judge are in none.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), but the output is not looked at.
    ///
    /// # Cost
    ///
    /// That of storing all documents, in a folder for temporary files, and of
    /// [`Snapshot::clusters`](crate::Snapshot::clusters).
    pub fn groups(
        &self,
        mut observe: impl FnMut(DedupEvent<'_>),
        mut each: impl FnMut(DedupGroup) -> Result<()>,
    ) -> Result<()> {
        self.ensure_whole_records()?;
        let mut stored = self.open_inputs(&mut observe)?;
        let kinds = (0..stored.paths().len())
            .map(|index| stored.kind_of(index))
            .collect::<Result<Vec<_>>>()?;
        let folder =
            tempfile::tempdir().map_err(|source| cannot_write(&std::env::temp_dir(), &source))?;
        let mut unread = Records::open(stored.paths().to_vec(), self.reading())?;
        let options = self.options_of_new(&mut unread)?;
        let database = Database::create(folder.path().join("records.simdb"), &options)?;
        self.ingest(&database, unread, None, &mut observe)?;
        let mut failed = Ok(());
        database.snapshot()?.clusters(&self.clustering, |event| {
            match event {
                ClusterEvent::Cluster(cluster) => {
                    let records = cluster.documents.iter().filter_map(|it| {
                        let NumberedKey { id, key, .. } = NumberedKey::of_bytes(&it.key)?;
                        let index = id.input as usize;
                        Some(GroupedRecord {
                            input: stored.paths()[index].clone(),
                            number: (kinds[index].0 != InputFormat::Text).then_some(id.number),
                            key: key.map(<[u8]>::to_vec),
                            distance: it.distance,
                        })
                    });
                    failed = each(DedupGroup {
                        survivor: cluster.survivor,
                        records: records.collect(),
                    });
                }
                ClusterEvent::Progress { done, all } => observe(DedupEvent::comparing(done, all)),
            }
            match failed {
                Ok(()) => self.stop().flow(),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        failed.and_then(|()| self.stop().ensure_wanted())
    }
}
