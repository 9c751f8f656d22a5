//! Deleting the near-duplicates of survivors.

use std::ops::ControlFlow;

use super::clustering::Clustering;
use super::gathered::{Clustered, Gathered};
use crate::database::database::Database;
use crate::database::snapshot::Snapshot;
use crate::database::write::WriteTxn;
use crate::document::Document;
use crate::error::Result;
use crate::store::DocumentNumber;

/// What [`Database::delete_duplicates`] tells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeletionEvent {
    /// A document that is deleted next, unless somebody else changes it or its survivor before that.
    Duplicate(Box<Duplicate>),
    /// All duplicates of a transaction were told, and it begins next, unless this breaks. Whoever keeps them on a disk
    /// makes sure of that now. Nobody waits for it.
    Reported,
    /// A document that was told as a duplicate and is not deleted, since it or its survivor was changed in between.
    Kept(Box<Duplicate>),
    /// All duplicates that were told, and not told as kept, are durably deleted.
    Committed {
        /// The number of documents that are deleted so far.
        deleted: u64,
    },
    /// How far a step of the work is. The steps are to find pairs, to read documents, and to delete.
    Progress {
        /// The parts of the step that are done.
        done: u64,
        /// All parts of the step.
        all: u64,
    },
}

/// A document that does not survive.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Duplicate {
    /// The document.
    pub document: Document,
    /// The key of the document that survives in its place.
    pub survivor: Vec<u8>,
    /// The number of bits in which their fingerprints differ.
    pub distance: u32,
    /// The similarity of the two by their sketches, 0 to 1. `None` if the least similarity is 0.
    pub similarity: Option<f64>,
}

/// What the search for duplicates tells.
#[derive(Debug)]
pub(crate) enum BesideEvent {
    Duplicate {
        duplicate: Duplicate,
        /// Whether the survivor is a document of the snapshot beside.
        #[cfg_attr(
            not(feature = "ingest"),
            expect(dead_code, reason = "only a cleaning has such a snapshot")
        )]
        is_beside: bool,
    },
    Progress {
        done: u64,
        all: u64,
    },
}

/// The most documents that a transaction deletes.
const TOGETHER: usize = 10_000;

impl Snapshot {
    /// Gives the documents to `observe` that [`Database::delete_duplicates`] would delete, and how far the work is. Ends
    /// when it breaks.
    ///
    /// # Errors
    ///
    /// Those of [`clusters`](Self::clusters).
    ///
    /// # Cost
    ///
    /// That of [`clusters`](Self::clusters).
    pub fn duplicates(
        &self,
        clustering: &Clustering,
        mut observe: impl FnMut(DeletionEvent) -> ControlFlow<()>,
    ) -> Result<()> {
        self.duplicates_beside(None, clustering, &mut |event| match event {
            BesideEvent::Progress { done, all } => observe(DeletionEvent::Progress { done, all }),
            BesideEvent::Duplicate { duplicate, .. } => {
                observe(DeletionEvent::Duplicate(Box::new(duplicate)))
            }
        })
    }

    /// As [`duplicates`](Self::duplicates). Documents that are near to one of `beside` come first, as duplicates of the
    /// nearest of these. They take no part in clusters.
    pub(crate) fn duplicates_beside(
        &self,
        beside: Option<&Self>,
        clustering: &Clustering,
        observe: &mut dyn FnMut(BesideEvent) -> ControlFlow<()>,
    ) -> Result<()> {
        let progress = &mut |done, all| observe(BesideEvent::Progress { done, all });
        let Some(gathered) = Gathered::new(self, beside, clustering, false, progress)? else {
            return Ok(());
        };
        let mut survivors = beside.unwrap_or(self).survivors();
        for (survivor, it) in gathered.beside() {
            let duplicate = survivors.duplicate_of(survivor, &it, self)?;
            if observe(BesideEvent::Duplicate {
                duplicate,
                is_beside: true,
            })
            .is_break()
            {
                return Ok(());
            }
        }
        let mut survivors = self.survivors();
        for (survivor, clustered) in gathered.clusters() {
            for it in clustered.iter().filter(|it| it.number != survivor) {
                let duplicate = survivors.duplicate_of(survivor, it, self)?;
                if observe(BesideEvent::Duplicate {
                    duplicate,
                    is_beside: false,
                })
                .is_break()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn survivors(&self) -> Survivors<'_> {
        Survivors {
            snapshot: self,
            last: None,
        }
    }
}

/// Survivors, of which the key of the last one is known: duplicates of one come one after the other.
struct Survivors<'s> {
    snapshot: &'s Snapshot,
    last: Option<(DocumentNumber, Vec<u8>)>,
}

impl Survivors<'_> {
    /// A duplicate, which is a document of `of`, of a survivor.
    fn duplicate_of(
        &mut self,
        survivor: DocumentNumber,
        it: &Clustered,
        of: &Snapshot,
    ) -> Result<Duplicate> {
        let document = of.reader()?.linked_document(it.number)?;
        let key = match self.last.take().filter(|last| last.0 == survivor) {
            Some((_, key)) => key,
            None => self.snapshot.reader()?.linked_key(survivor)?,
        };
        self.last = Some((survivor, key.clone()));
        Ok(Duplicate {
            document,
            survivor: key,
            distance: it.distance,
            similarity: it.similarity,
        })
    }
}

impl Database {
    /// Deletes all documents of each cluster but the one that survives, in many small transactions, and returns their
    /// number.
    ///
    /// Each transaction deletes at most 10,000 documents and is durable when it is told as committed. The documents of a
    /// [`connected`](Clustering::connected) cluster are deleted in one, however many they are. Others write in
    /// between. What they have replaced or deleted meanwhile is left alone, and so are the duplicates of such a
    /// survivor. Documents that are stored meanwhile are not looked at. If `observe` breaks or the process is killed,
    /// what was committed is deleted, and the same call deletes the rest.
    ///
    /// What is deleted was told before. So `observe` is never called while the right to write is held, and may take its
    /// time. What others change between the telling and the deletion is told once more, as
    /// [`kept`](DeletionEvent::Kept).
    ///
    /// # Errors
    ///
    /// * Those of [`Snapshot::clusters`].
    /// * [`Error::ReadOnly`](crate::Error::ReadOnly) if the database was opened read-only.
    /// * The errors of [`WriteTxn::commit`]. Transactions before the error stay done.
    ///
    /// # Cost
    ///
    /// That of [`Snapshot::clusters`], and of reading each document twice and deleting it. The snapshot is kept until
    /// the end, so space is given back after that.
    pub fn delete_duplicates(
        &self,
        clustering: &Clustering,
        mut observe: impl FnMut(DeletionEvent) -> ControlFlow<()>,
    ) -> Result<u64> {
        // Before the work, so that a database that cannot be written to says so at once.
        drop(self.begin_write()?);
        let snapshot = self.snapshot()?;
        let progress = &mut |done, all| observe(DeletionEvent::Progress { done, all });
        let Some(gathered) = Gathered::new(&snapshot, None, clustering, false, progress)? else {
            return Ok(0);
        };
        let (others, ends) = in_transactions(&gathered, clustering.is_connected());
        drop(gathered);
        let mut deletion = Deletion {
            database: self,
            snapshot: &snapshot,
            observe: &mut observe,
            deleted: 0,
        };
        let (mut begin, all) = (0, others.len() as u64);
        for end in ends {
            if deletion.step(&others[begin..end])?.is_break() {
                break;
            }
            begin = end;
            if (deletion.observe)(DeletionEvent::Progress {
                done: end as u64,
                all,
            })
            .is_break()
            {
                break;
            }
        }
        Ok(deletion.deleted)
    }
}

/// A document that does not survive, and the one that does.
type Other = (DocumentNumber, Clustered);

/// All documents that do not survive, and where transactions of them end.
fn in_transactions(gathered: &Gathered, is_connected: bool) -> (Vec<Other>, Vec<usize>) {
    let (mut others, mut ends): (Vec<Other>, Vec<usize>) = Default::default();
    for (survivor, clustered) in gathered.clusters() {
        others.extend(
            clustered
                .into_iter()
                .filter(|it| it.number != survivor)
                .map(|it| (survivor, it)),
        );
        let begin = ends.last().copied().unwrap_or(0);
        match is_connected {
            // Without some of its documents, a component falls apart. So it goes at once.
            true if others.len() - begin >= TOGETHER => ends.push(others.len()),
            true => {}
            false => ends.extend((begin..=others.len()).step_by(TOGETHER).skip(1)),
        }
    }
    if ends.last().copied().unwrap_or(0) < others.len() {
        ends.push(others.len());
    }
    (others, ends)
}

/// A deletion that is under way.
struct Deletion<'d, F> {
    database: &'d Database,
    /// Where the duplicates were found.
    snapshot: &'d Snapshot,
    observe: F,
    deleted: u64,
}

impl<F: FnMut(DeletionEvent) -> ControlFlow<()>> Deletion<'_, F> {
    /// Tells some duplicates, then deletes those that are still what they were.
    ///
    /// Whoever is told may be slow, or may not listen at all. So all is told before the transaction begins, and after
    /// it has ended.
    fn step(&mut self, others: &[Other]) -> Result<ControlFlow<()>> {
        let Some(told) = self.tell(others)? else {
            return Ok(ControlFlow::Break(()));
        };
        if told.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if (self.observe)(DeletionEvent::Reported).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let kept = self.delete(&told)?;
        self.deleted += (told.len() - kept.len()) as u64;
        let mut survivors = self.snapshot.survivors();
        for (survivor, it) in kept {
            let duplicate = survivors.duplicate_of(survivor, &it, self.snapshot)?;
            if (self.observe)(DeletionEvent::Kept(Box::new(duplicate))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok((self.observe)(DeletionEvent::Committed {
            deleted: self.deleted,
        }))
    }

    /// Tells the duplicates that nobody has changed so far, and returns them. `None` if nobody wants more.
    fn tell(&mut self, others: &[Other]) -> Result<Option<Vec<Other>>> {
        let now = self.database.snapshot()?;
        let mut survivors = self.snapshot.survivors();
        let mut told = Vec::with_capacity(others.len());
        for &(survivor, it) in others {
            let duplicate = survivors.duplicate_of(survivor, &it, self.snapshot)?;
            if now.has(survivor, &duplicate.survivor)?
                && now.has(it.number, duplicate.document.key())?
            {
                told.push((survivor, it));
                if (self.observe)(DeletionEvent::Duplicate(Box::new(duplicate))).is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(told))
    }

    /// Deletes duplicates in one transaction, and returns those that were changed since they were told.
    fn delete(&self, told: &[Other]) -> Result<Vec<Other>> {
        let mut survivors = self.snapshot.survivors();
        let mut kept = Vec::new();
        let mut txn = self.database.begin_write()?;
        for &(survivor, it) in told {
            let duplicate = survivors.duplicate_of(survivor, &it, self.snapshot)?;
            let is_deleted = txn.has(survivor, &duplicate.survivor)?
                && txn.delete_if(it.number, duplicate.document.key())?;
            if !is_deleted {
                kept.push((survivor, it));
            }
        }
        txn.commit()?;
        Ok(kept)
    }
}

impl Snapshot {
    /// Whether the document of a key is the one of this number.
    fn has(&self, number: DocumentNumber, key: &[u8]) -> Result<bool> {
        Ok(self
            .reader()?
            .find(key)?
            .is_some_and(|(now, _)| now == number))
    }
}

impl WriteTxn {
    /// Whether the document of a key is still the one of this number.
    fn has(&mut self, number: DocumentNumber, key: &[u8]) -> Result<bool> {
        Ok(self
            .writer
            .find_to_change(key)?
            .is_some_and(|(now, _)| now == number))
    }

    /// Deletes the document of a key if it is still the one of this number. Whether it was.
    fn delete_if(&mut self, number: DocumentNumber, key: &[u8]) -> Result<bool> {
        let Some(found) = self
            .writer
            .find_to_change(key)?
            .filter(|(now, _)| *now == number)
        else {
            return Ok(false);
        };
        self.writer.remove(&found)?;
        Ok(true)
    }
}
