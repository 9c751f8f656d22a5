//! The inputs of a cleaning that is audited: the facts of the records that the list names, and whether each of the
//! others was kept.

use std::path::PathBuf;

use super::audit::{Audit, MOST};
use super::audit_report::InputRecords;
use super::balance::{Balance, Difference, Pile};
use super::claims::{Claims, Evidence, Facts};
use super::events::{DedupEvent, DedupStep, Observe};
use super::removed_list::ListedRecord;
use crate::database::{Database, Snapshot};
use crate::document::Document;
use crate::error::Result;
use crate::ingest::{Fingerprinting, Record, RecordId, Records, Rejected};

/// The reading of the inputs.
pub(super) struct InputReading<'a> {
    audit: &'a Audit,
    rule: Fingerprinting,
    paths: Vec<PathBuf>,
    pub(super) evidence: Evidence,
    /// Whether each record is either kept or removed, if all inputs are named.
    pub(super) balance: Option<Balance>,
    records: u64,
    unjudged: u64,
}

impl<'a> InputReading<'a> {
    pub(super) fn new(audit: &'a Audit, claims: &Claims, database: &Database) -> Result<Self> {
        let size = database.sketch_size();
        let rule = Fingerprinting::new(database.scheme(), audit.clean.scheme)?
            .sketch_size(size)
            .stores(true);
        let paths = audit.input_paths(claims)?;
        Ok(Self {
            audit,
            rule,
            evidence: Evidence::new(claims, &paths),
            paths,
            balance: (!audit.inputs.is_empty()).then(Balance::new),
            records: 0,
            unjudged: 0,
        })
    }

    /// Reads all records, and makes fingerprints of those that the list names.
    pub(super) fn read(&mut self, observe: Observe<'_>) -> Result<()> {
        let mut records = self.audit.input_records(self.paths.clone())?;
        let progress = records.progress();
        loop {
            let chunk = self.next_chunk(&mut records)?;
            if chunk.is_empty() {
                return Ok(());
            }
            for read in chunk {
                match read {
                    Ok(document) => self.take(document.as_ref()),
                    Err(rejected) if rejected.is_input() => return Err(rejected.into()),
                    Err(_) => {
                        self.records += 1;
                        self.unjudged += 1;
                    }
                }
            }
            observe(DedupEvent::of_bytes(DedupStep::Reading, &progress));
            self.audit.clean.stop.ensure_wanted()?;
        }
    }

    /// The next documents. A record that nothing is to be known of has none.
    fn next_chunk(&self, records: &mut Records) -> Result<Vec<Result<Option<Document>, Rejected>>> {
        let evidence = &self.evidence;
        let rule = self.rule;
        let needs_all = self.balance.is_some();
        records.next_chunk(|record: Record| {
            if record.id().is_some_and(|id| evidence.needs(id)) {
                record.into_document(rule).map(Some)
            } else if needs_all {
                record.into_unjudged(rule).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    fn take(&mut self, document: Option<&Document>) {
        let Some((id, facts)) = document.and_then(Facts::of) else {
            return;
        };
        self.records += 1;
        self.evidence.take(id, facts);
        if let Some(balance) = &mut self.balance
            && !self.evidence.is_removed(id)
        {
            balance.add(facts.identity, Pile::Inputs);
        }
    }

    /// What came of all records, if all inputs are named. Where something is missing, they are read once more.
    pub(super) fn inputs(
        &self,
        snapshot: &Snapshot,
        kept_paths: &[PathBuf],
        observe: Observe<'_>,
    ) -> Result<Option<InputRecords>> {
        let Some(balance) = &self.balance else {
            return Ok(None);
        };
        let mut inputs = InputRecords {
            records: self.records,
            unjudged: self.unjudged,
            ..InputRecords::default()
        };
        if balance.is_even() {
            return Ok(Some(inputs));
        }
        let mut difference = Difference::new(balance);
        self.weigh_inputs(&mut difference, observe)?;
        for document in snapshot.documents() {
            if let Some((id, facts)) = Facts::of(&document?) {
                difference.add(facts.identity, id, Pile::Kept);
            }
        }
        let (lost, places) = difference.more_of(Pile::Inputs);
        inputs.lost = lost;
        inputs.lost_records = listed_places(&places, &self.paths);
        let (foreign, places) = difference.more_of(Pile::Kept);
        inputs.foreign = foreign;
        inputs.foreign_records = listed_places(&places, kept_paths);
        Ok(Some(inputs))
    }

    fn weigh_inputs(&self, difference: &mut Difference<'_>, observe: Observe<'_>) -> Result<()> {
        let mut records = self.audit.input_records(self.paths.clone())?;
        let progress = records.progress();
        loop {
            let rule = self.rule;
            let chunk = records.next_chunk(|record: Record| record.into_unjudged(rule))?;
            if chunk.is_empty() {
                return Ok(());
            }
            for document in chunk.into_iter().flatten() {
                if let Some((id, facts)) = Facts::of(&document)
                    && !self.evidence.is_removed(id)
                {
                    difference.add(facts.identity, id, Pile::Inputs);
                }
            }
            observe(DedupEvent::of_bytes(DedupStep::Reading, &progress));
            self.audit.clean.stop.ensure_wanted()?;
        }
    }
}

/// Where a record is.
pub(super) fn listed_place(id: RecordId, paths: &[PathBuf]) -> ListedRecord {
    let path = paths[id.input as usize].as_os_str().as_encoded_bytes();
    ListedRecord {
        place: Some((path.to_vec(), id.number)),
        key: None,
    }
}

fn listed_places(places: &[RecordId], paths: &[PathBuf]) -> Vec<ListedRecord> {
    let mut listed = Vec::with_capacity(places.len().min(MOST));
    for id in places.iter().take(MOST) {
        listed.push(listed_place(*id, paths));
    }
    listed
}
