//! Claims: what a list says of the removed records, the facts that the inputs have, and whether the two agree.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::audit::MOST;
use super::audit_report::{AuditFault, AuditReport, FaultKind};
use super::removed_list::{ListedRecord, RemovedRecord, RemovedRecords, RemovedRow, RemovedRows};
use super::verdicts::rounded;
use crate::database::Snapshot;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::ingest::{NumberedKey, RecordId, Stop};
use crate::sketch::Sketch;

/// What the list says, in its order.
#[derive(Default)]
pub(super) struct Claims {
    removed: RemovedRows,
    /// The number of the line of each.
    lines: Vec<u64>,
    /// The inputs that are named, in the order of their first lines.
    names: Vec<Vec<u8>>,
}

/// By what a record is known again where it was copied to: the hash of its text or its fingerprint, and of its key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(pub(super) u128);

#[derive(Clone, Copy)]
pub(super) struct Facts {
    judged: Option<(Fingerprint, Option<Sketch>)>,
    /// The hash of the text, or of the fingerprint of a record that has no text. `None` if it has neither.
    content: Option<u128>,
    /// The hash of the key. 0 if there is none, or if the key is the path of the file.
    key: u64,
    pub(super) identity: Identity,
}

fn hash_of_key(key: &[u8]) -> u64 {
    // Never that of no key.
    xxh3_64_with_seed(key, 0).max(1)
}

impl Facts {
    /// The place and the facts of a record, of its document.
    pub(super) fn of(document: &Document) -> Option<(RecordId, Self)> {
        let NumberedKey { id, text, key } = NumberedKey::of_bytes(document.key())?;
        let judged = document
            .fingerprint()
            .map(|fingerprint| (fingerprint, document.sketch().copied()));
        let content = text.or_else(|| {
            let (fingerprint, sketch) = judged?;
            let mut bytes = fingerprint.bits().to_le_bytes().to_vec();
            bytes.extend(sketch.iter().flat_map(Sketch::as_bytes));
            Some(xxh3_128_with_seed(&bytes, 3))
        });
        let key = key.map_or(0, hash_of_key);
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&content.unwrap_or_default().to_le_bytes());
        bytes[16..].copy_from_slice(&key.to_le_bytes());
        let facts = Self {
            judged,
            content,
            key,
            identity: Identity(xxh3_128_with_seed(&bytes, 0)),
        };
        Some((id, facts))
    }

    /// The hash of a text that is too short to judge, if it is known.
    pub(super) fn short_text(&self) -> Option<u128> {
        self.content.filter(|_| self.judged.is_none())
    }

    /// Whether the key is the one that the list says. Of a record that is named by its path, none is known here.
    fn has_key(&self, key: Option<&[u8]>) -> bool {
        self.key == 0 || key.map(hash_of_key) == Some(self.key)
    }
}

impl Claims {
    pub(super) fn read(list: &Path, stop: &Stop) -> Result<Self> {
        let mut claims = Self::default();
        let mut indexes = HashMap::new();
        let mut lines = RemovedRecords::open_until(list, stop)?;
        while let Some(removed) = lines.next() {
            let removed = removed?;
            let line = lines.line();
            if line.is_multiple_of(1 << 16) {
                stop.ensure_wanted()?;
            }
            claims.add(line, &removed, &mut indexes);
        }
        Ok(claims)
    }

    fn add(&mut self, line: u64, removed: &RemovedRecord, indexes: &mut HashMap<Vec<u8>, u32>) {
        let Some(id) = self.id_of(&removed.record, indexes) else {
            unreachable!("a line without a place is refused")
        };
        let survivor = self.id_of(&removed.survivor, indexes);
        self.removed.add(
            id,
            removed.record.key.as_deref(),
            survivor,
            removed.survivor.key.as_deref(),
            removed.distance,
            removed.similarity,
        );
        self.lines.push(line);
    }

    fn id_of(
        &mut self,
        record: &ListedRecord,
        indexes: &mut HashMap<Vec<u8>, u32>,
    ) -> Option<RecordId> {
        let (name, number) = record.place.as_ref()?;
        let input = match indexes.get(name) {
            Some(&index) => index,
            None => {
                let index = self.names.len() as u32;
                self.names.push(name.clone());
                indexes.insert(name.clone(), index);
                index
            }
        };
        Some(RecordId {
            input,
            number: *number,
        })
    }

    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    fn told(&self, claim: &RemovedRow) -> RemovedRecord {
        self.removed
            .told(claim, |id| self.names[id.input as usize].clone())
    }
}

pub(super) struct Evidence {
    /// For each input that is read, the index of its name in the list.
    listed_inputs: Vec<Option<u32>>,
    /// The places that the list names, in order. Their inputs are those of the list.
    places: Vec<RecordId>,
    /// What is there. `None` if there is no record that can be judged.
    facts: Vec<Option<Facts>>,
    /// The places of the removed records, in order.
    removed: Vec<RecordId>,
}

impl Evidence {
    /// No facts yet. `paths` are those of the inputs that are read.
    pub(super) fn new(claims: &Claims, paths: &[PathBuf]) -> Self {
        let mut indexes = HashMap::new();
        for (index, name) in (0u32..).zip(&claims.names) {
            indexes.insert(name.as_slice(), index);
        }
        let mut listed_inputs = Vec::with_capacity(paths.len());
        for path in paths {
            let name = path.as_os_str().as_encoded_bytes();
            // An input that is given twice counts once.
            listed_inputs.push(indexes.remove(name));
        }
        let rows = &claims.removed.rows;
        let mut removed: Vec<RecordId> = rows.iter().map(|claim| claim.id).collect();
        let survivors = rows.iter().filter_map(|claim| claim.survivor);
        let mut places: Vec<RecordId> = removed.iter().copied().chain(survivors).collect();
        removed.sort_unstable();
        removed.dedup();
        places.sort_unstable();
        places.dedup();
        Self {
            listed_inputs,
            facts: vec![None; places.len()],
            places,
            removed,
        }
    }

    /// The place as the list has it. `None` if the list does not name the input.
    fn listed(&self, id: RecordId) -> Option<RecordId> {
        let input = self.listed_inputs[id.input as usize]?;
        Some(RecordId { input, ..id })
    }

    /// Whether the list names the record at a place of the inputs that are read.
    pub(super) fn needs(&self, id: RecordId) -> bool {
        self.listed(id)
            .is_some_and(|id| self.places.binary_search(&id).is_ok())
    }

    pub(super) fn is_removed(&self, id: RecordId) -> bool {
        self.listed(id)
            .is_some_and(|id| self.removed.binary_search(&id).is_ok())
    }

    /// Takes the facts of a record, if the list names it.
    pub(super) fn take(&mut self, id: RecordId, facts: Facts) {
        if let Some(id) = self.listed(id)
            && let Ok(index) = self.places.binary_search(&id)
        {
            self.facts[index] = Some(facts);
        }
    }

    fn of(&self, id: RecordId) -> Option<&Facts> {
        let index = self.places.binary_search(&id).ok()?;
        self.facts[index].as_ref()
    }

    /// The survivors, none of which was found among the kept records yet.
    pub(super) fn survivors(&self, claims: &Claims) -> HashMap<Identity, bool> {
        let mut survivors = HashMap::new();
        for claim in &claims.removed.rows {
            if let Some(facts) = claim.survivor.and_then(|id| self.of(id)) {
                survivors.insert(facts.identity, false);
            }
        }
        survivors
    }
}

struct Check<'c> {
    claims: &'c Claims,
    evidence: &'c Evidence,
    survivors: &'c HashMap<Identity, bool>,
    known: Option<&'c Snapshot>,
    max_distance: u32,
    min_similarity: Option<f64>,
}

enum Found {
    /// It is so.
    Near(u32, Option<f64>),
    Fault(FaultKind, Option<(u32, Option<f64>)>),
    /// The survivor is in a database that was not given.
    Unchecked,
}

impl Claims {
    /// Checks all of them, and adds what is found to the report. `survivors` says which were found among the kept
    /// records.
    pub(super) fn check(
        &self,
        evidence: &Evidence,
        survivors: &HashMap<Identity, bool>,
        known: Option<&Snapshot>,
        report: &mut AuditReport,
        stop: &Stop,
    ) -> Result<()> {
        let check = Check {
            claims: self,
            evidence,
            survivors,
            known,
            max_distance: report.max_distance,
            min_similarity: report.min_similarity,
        };
        let mut is_listed = vec![false; evidence.places.len()];
        let mut kinds: HashMap<FaultKind, usize> = HashMap::new();
        report.removed = self.lines.len() as u64;
        for (claim, &line) in self.removed.rows.iter().zip(&self.lines) {
            if line.is_multiple_of(1 << 16) {
                stop.ensure_wanted()?;
            }
            match check.found(claim, &mut is_listed)? {
                Found::Unchecked => report.unchecked += 1,
                Found::Near(distance, similarity) => {
                    report.greatest_distance = report.greatest_distance.max(distance);
                    let similarities = report.least_similarity.into_iter().chain(similarity);
                    report.least_similarity = similarities.reduce(f64::min);
                }
                Found::Fault(kind, found) => {
                    report.faults += 1;
                    let count = kinds.entry(kind).or_default();
                    *count += 1;
                    if *count <= MOST {
                        report.faulty.push(AuditFault {
                            kind,
                            line,
                            told: self.told(claim),
                            found,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

impl Check<'_> {
    fn found(&self, claim: &RemovedRow, is_listed: &mut [bool]) -> Result<Found> {
        if let Ok(index) = self.evidence.places.binary_search(&claim.id)
            && std::mem::replace(&mut is_listed[index], true)
        {
            return Ok(Found::Fault(FaultKind::ListedTwice, None));
        }
        let key = self.claims.removed.key(claim);
        let record = self
            .evidence
            .of(claim.id)
            .filter(|facts| facts.has_key(key));
        let Some(record) = record else {
            return Ok(Found::Fault(FaultKind::NoRecord, None));
        };
        let key = self.claims.removed.survivor_key(claim);
        let Some(id) = claim.survivor else {
            return self.found_in_known(claim, record, key.unwrap_or_default());
        };
        let survivor = self.evidence.of(id).filter(|facts| facts.has_key(key));
        let Some(survivor) = survivor else {
            return Ok(Found::Fault(FaultKind::NoSurvivor, None));
        };
        let found = self.compared(claim, record, survivor);
        // Texts and pages have no names of their own, so a copy of them that is kept does not make this one a survivor.
        let is_kept = id != claim.id && self.survivors.get(&survivor.identity) == Some(&true);
        Ok(match found {
            Found::Near(distance, similarity) if !is_kept => {
                Found::Fault(FaultKind::SurvivorNotKept, Some((distance, similarity)))
            }
            found => found,
        })
    }

    fn found_in_known(&self, claim: &RemovedRow, record: &Facts, key: &[u8]) -> Result<Found> {
        let Some(known) = self.known else {
            return Ok(Found::Unchecked);
        };
        let Some(document) = known.get(key)? else {
            return Ok(Found::Fault(FaultKind::SurvivorNotKept, None));
        };
        let judged = document
            .fingerprint()
            .map(|fingerprint| (fingerprint, document.sketch().copied()));
        let survivor = Facts {
            judged,
            content: None,
            ..*record
        };
        Ok(self.compared(claim, record, &survivor))
    }

    /// Compares two records with each other, and with what is said of them.
    fn compared(&self, claim: &RemovedRow, record: &Facts, survivor: &Facts) -> Found {
        let (distance, similarity) = match (&record.judged, &survivor.judged) {
            (Some((a, a_sketch)), Some((b, b_sketch))) => {
                let sketches = a_sketch.as_ref().zip(b_sketch.as_ref());
                let similarity = sketches.and_then(|(a, b)| a.similarity(b).ok());
                (a.distance(*b), similarity.map(|both| both.jaccard()))
            }
            // Texts that are too short to judge are near only if they are the same.
            (None, None) if record.content.is_some() && record.content == survivor.content => {
                (0, None)
            }
            _ => return Found::Fault(FaultKind::NotNear, None),
        };
        let is_judged = record.judged.is_some();
        // No similarity is below each that there is.
        let is_near = distance <= self.max_distance
            && (!is_judged || self.min_similarity.is_none() || similarity >= self.min_similarity);
        if !is_near {
            return Found::Fault(FaultKind::NotNear, Some((distance, similarity)));
        }
        let is_as_told = distance == claim.distance
            && claim.similarity.is_none_or(|told| {
                similarity.is_some_and(|similarity| rounded(similarity as f32) == told)
            });
        match is_as_told {
            true => Found::Near(distance, similarity),
            false => Found::Fault(FaultKind::NotAsTold, Some((distance, similarity))),
        }
    }
}
