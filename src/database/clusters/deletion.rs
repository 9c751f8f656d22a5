//! Deleting the near-duplicates of survivors.

use std::ops::ControlFlow;

use super::cluster_set::{ClusterSet, Clustered};
use super::clustering::Clustering;
use crate::database::database::Database;
use crate::database::snapshot::Snapshot;
use crate::database::write::WriteTxn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::{DocumentNumber, Numbered};

/// An event of [`Database::delete_duplicates_with`].
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::{Clustering, DeletionEvent, Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for key in ["a", "b", "c"] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(7)))?;
/// }
/// txn.commit()?;
/// let mut reported = Vec::new();
/// let mut durable = 0;
/// database.delete_duplicates_with(&Clustering::new(), |event| {
///     match event {
///         DeletionEvent::Duplicate(duplicate) => reported.push(duplicate.document.key().to_vec()),
///         DeletionEvent::Committed { deleted, .. } => durable = deleted,
///         _ => {}
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!((reported, durable), (vec![b"b".to_vec(), b"c".to_vec()], 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeletionEvent {
    /// A document that is deleted next, unless somebody else changes it or its survivor before that.
    Duplicate(Box<Duplicate>),
    /// All duplicates of a transaction were reported, and it begins next, unless this breaks. Whoever keeps them on
    /// a disk makes sure of that now. Nobody waits for it.
    Reported,
    /// A document that was reported as a duplicate and is not deleted, since it or its survivor was changed in between.
    Kept(Box<Duplicate>),
    /// All duplicates that were reported, and not reported as kept, are durably deleted.
    #[non_exhaustive]
    Committed {
        /// The number of documents that are deleted so far.
        deleted: u64,
    },
    /// How far a step of the work is. The steps are to find pairs, to read documents, and to delete.
    #[non_exhaustive]
    Progress {
        /// The parts of the step that are done.
        done: u64,
        /// All parts of the step.
        all: u64,
    },
}

/// A document that does not survive.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::{Clustering, DeletionEvent, Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("a", Fingerprint::from_bits(7)))?;
/// txn.insert(&Document::new("b", Fingerprint::from_bits(6)))?;
/// txn.commit()?;
/// let mut duplicates = Vec::new();
/// database.snapshot()?.duplicates(&Clustering::new(), |event| {
///     if let DeletionEvent::Duplicate(duplicate) = event {
///         duplicates.push(duplicate);
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!((duplicates[0].document.key(), &duplicates[0].survivor[..]), (&b"b"[..], &b"a"[..]));
/// assert_eq!((duplicates[0].distance, duplicates[0].similarity), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// The most documents that a transaction deletes.
const TOGETHER: usize = 10_000;

impl Snapshot {
    /// Gives the documents to `observe` that [`Database::delete_duplicates`] would delete, and how far the work is.
    /// Ends when it breaks.
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
        let observe = &mut |event, _| Error::if_broken(observe(event));
        Error::unless_interrupted(self.duplicates_with_reference(None, clustering, observe))
    }

    /// As [`duplicates`](Self::duplicates). Documents that are near to one of `reference` come first, as duplicates of
    /// the nearest of these. They take no part in clusters. `observe` takes each event, and whether it is of such a
    /// document.
    pub(crate) fn duplicates_with_reference(
        &self,
        reference: Option<&Self>,
        clustering: &Clustering,
        observe: &mut dyn FnMut(DeletionEvent, bool) -> Result<()>,
    ) -> Result<()> {
        let progress = &mut |done, all| observe(DeletionEvent::Progress { done, all }, false);
        let set = ClusterSet::find(self, reference, clustering, false, progress)?;
        let mut survivors = Survivors::new(reference.unwrap_or(self));
        for (survivor, document) in set.near_reference() {
            let duplicate = survivors.duplicate(survivor, &document, self)?;
            observe(DeletionEvent::Duplicate(Box::new(duplicate)), true)?;
        }
        let mut survivors = Survivors::new(self);
        for (survivor, clustered) in set.clusters() {
            for document in &clustered {
                if document.number != survivor {
                    let duplicate = survivors.duplicate(survivor, document, self)?;
                    observe(DeletionEvent::Duplicate(Box::new(duplicate)), false)?;
                }
            }
        }
        Ok(())
    }
}

/// Survivors, of which the key of the last one is known: duplicates of one come one after the other.
struct Survivors<'s> {
    snapshot: &'s Snapshot,
    last: Option<(DocumentNumber, Vec<u8>)>,
}

impl<'s> Survivors<'s> {
    fn new(snapshot: &'s Snapshot) -> Self {
        Self {
            snapshot,
            last: None,
        }
    }

    /// The duplicate of a survivor that a document of `snapshot` is.
    fn duplicate(
        &mut self,
        survivor: DocumentNumber,
        document: &Clustered,
        snapshot: &Snapshot,
    ) -> Result<Duplicate> {
        let key = match self.last.take() {
            Some((last, key)) if last == survivor => key,
            _ => self.snapshot.reader()?.linked_key(survivor)?,
        };
        self.last = Some((survivor, key.clone()));
        Ok(Duplicate {
            document: snapshot.reader()?.linked_document(document.number)?,
            survivor: key,
            distance: document.distance,
            similarity: document.similarity,
        })
    }
}

impl Database {
    /// Deletes all documents of each cluster but the one that survives, in many small transactions, and returns their
    /// number.
    ///
    /// Each transaction deletes at most 10,000 documents and is durable when the next begins. The
    /// documents of a [`connected`](Clustering::connected) cluster are deleted in one, however many they are. Others
    /// write in between. What they have replaced or deleted meanwhile is left alone, and so are the duplicates of
    /// such a survivor. Documents that are stored meanwhile are not looked at. If the process is killed, what was
    /// committed is deleted, and the same call deletes the rest.
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
    pub fn delete_duplicates(&self, clustering: &Clustering) -> Result<u64> {
        self.delete_duplicates_with(clustering, |_| ControlFlow::Continue(()))
    }

    /// Deletes as [`delete_duplicates`](Self::delete_duplicates) does, and tells `observe` what is deleted and how far
    /// the work is. What is reported as committed is durable. If `observe` breaks, that is deleted, and the same call
    /// deletes the rest.
    ///
    /// What is deleted was reported before. So `observe` is never called while the right to write is held, and may
    /// take its time. What others change between the report and the deletion is reported once more, as
    /// [`kept`](DeletionEvent::Kept).
    ///
    /// # Errors
    ///
    /// Those of [`delete_duplicates`](Self::delete_duplicates).
    pub fn delete_duplicates_with(
        &self,
        clustering: &Clustering,
        mut observe: impl FnMut(DeletionEvent) -> ControlFlow<()>,
    ) -> Result<u64> {
        // Before the work, so that a database that cannot be written to says so at once.
        drop(self.begin_write()?);
        let snapshot = self.snapshot()?;
        let mut deletion = Deletion {
            database: self,
            snapshot: &snapshot,
            observe: &mut |event| Error::if_broken(observe(event)),
            deleted: 0,
        };
        Error::unless_interrupted(deletion.run(clustering))?;
        Ok(deletion.deleted)
    }
}

/// A document that does not survive, and the one that does.
type Loser = (DocumentNumber, Clustered);

/// All documents that do not survive, and where transactions of them end.
fn in_transactions(set: &ClusterSet, is_connected: bool) -> (Vec<Loser>, Vec<usize>) {
    let mut losers: Vec<Loser> = Vec::new();
    let mut ends = Vec::new();
    for (survivor, clustered) in set.clusters() {
        for document in clustered {
            if document.number != survivor {
                losers.push((survivor, document));
            }
        }
        let begin = ends.last().copied().unwrap_or(0);
        match is_connected {
            // Without some of its documents, a component falls apart. So it goes at once.
            true if losers.len() - begin >= TOGETHER => ends.push(losers.len()),
            true => {}
            false => ends.extend((begin..=losers.len()).step_by(TOGETHER).skip(1)),
        }
    }
    if ends.last().copied().unwrap_or(0) < losers.len() {
        ends.push(losers.len());
    }
    (losers, ends)
}

struct Deletion<'d> {
    database: &'d Database,
    /// Where the duplicates were found.
    snapshot: &'d Snapshot,
    observe: &'d mut dyn FnMut(DeletionEvent) -> Result<()>,
    deleted: u64,
}

impl Deletion<'_> {
    fn run(&mut self, clustering: &Clustering) -> Result<()> {
        let observe = &mut self.observe;
        let progress = &mut |done, all| observe(DeletionEvent::Progress { done, all });
        let set = ClusterSet::find(self.snapshot, None, clustering, false, progress)?;
        let (losers, ends) = in_transactions(&set, clustering.is_connected());
        drop(set);

        let mut begin = 0;
        for end in ends {
            self.step(&losers[begin..end])?;
            begin = end;
            (self.observe)(DeletionEvent::Progress {
                done: end as u64,
                all: losers.len() as u64,
            })?;
        }
        Ok(())
    }

    /// Reports some duplicates, then deletes those that are still what they were.
    ///
    /// Whoever takes the reports may be slow, or may not listen at all. So all is reported before the transaction
    /// begins, and after it has ended.
    fn step(&mut self, losers: &[Loser]) -> Result<()> {
        let reported = self.report(losers)?;
        if reported.is_empty() {
            return Ok(());
        }
        (self.observe)(DeletionEvent::Reported)?;
        let kept = self.delete(&reported)?;
        self.deleted += (reported.len() - kept.len()) as u64;
        let mut survivors = Survivors::new(self.snapshot);
        for (survivor, document) in kept {
            let duplicate = survivors.duplicate(survivor, &document, self.snapshot)?;
            (self.observe)(DeletionEvent::Kept(Box::new(duplicate)))?;
        }
        (self.observe)(DeletionEvent::Committed {
            deleted: self.deleted,
        })
    }

    /// Reports the duplicates that nobody has changed so far, and returns them.
    fn report(&mut self, losers: &[Loser]) -> Result<Vec<Loser>> {
        let now = self.database.snapshot()?;
        let mut survivors = Survivors::new(self.snapshot);
        let mut reported = Vec::with_capacity(losers.len());
        for &(survivor, document) in losers {
            let duplicate = survivors.duplicate(survivor, &document, self.snapshot)?;
            if now.has(survivor, &duplicate.survivor)?
                && now.has(document.number, duplicate.document.key())?
            {
                reported.push((survivor, document));
                (self.observe)(DeletionEvent::Duplicate(Box::new(duplicate)))?;
            }
        }
        Ok(reported)
    }

    /// Deletes duplicates in one transaction, and returns those that were changed since they were reported.
    fn delete(&self, reported: &[Loser]) -> Result<Vec<Loser>> {
        let mut survivors = Survivors::new(self.snapshot);
        let mut kept = Vec::new();
        let mut txn = self.database.begin_write()?;
        for &(survivor, document) in reported {
            let duplicate = survivors.duplicate(survivor, &document, self.snapshot)?;
            let is_there = txn.found_as(survivor, &duplicate.survivor)?.is_some();
            let found = match is_there {
                true => txn.found_as(document.number, duplicate.document.key())?,
                false => None,
            };
            match found {
                Some(found) => txn.writer.remove(&found)?,
                None => kept.push((survivor, document)),
            }
        }
        txn.commit()?;
        Ok(kept)
    }
}

impl Snapshot {
    /// Whether the document of a key is the one of this number.
    fn has(&self, number: DocumentNumber, key: &[u8]) -> Result<bool> {
        let found = self.reader()?.find(key)?;
        Ok(found.is_some_and(|(now, _)| now == number))
    }
}

impl WriteTxn {
    /// The document of a key, if it is still the one of this number.
    fn found_as(&mut self, number: DocumentNumber, key: &[u8]) -> Result<Option<Numbered>> {
        let found = self.writer.find_to_change(key)?;
        Ok(found.filter(|(now, _)| *now == number))
    }
}
