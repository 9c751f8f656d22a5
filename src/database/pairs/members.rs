//! Members: the documents of near fingerprints, as the search for pairs lists them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::database::crowding::FingerprintGroup;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::{DocumentNumber, Posted, ReadScopes, Reader, ScopeNumber};
use crate::sync::Mutex;

/// Documents of one fingerprint that are listed as one.
#[derive(Clone, Debug)]
pub(in crate::database) struct Member {
    /// The document that was written last. No other member has it.
    pub(in crate::database) newest: DocumentNumber,
    pub(in crate::database) group: FingerprintGroup,
    /// The sketch that all of them have, if sketches are compared.
    pub(in crate::database) sketch: Option<Sketch>,
}

/// Whether the keys of members are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum Keys {
    /// That of the document that was written last.
    Newest,
    /// They are not, where that saves a look-up.
    None,
}

/// The members of some fingerprints.
pub(super) type MembersOf = HashMap<Fingerprint, Arc<[Member]>, RandomState>;

/// What is listed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// All documents of a fingerprint.
    Fingerprint,
    /// The documents of a fingerprint that have the same sketch.
    Sketch,
    /// No two documents.
    Nothing,
}

/// Looks up the members of fingerprints.
pub(super) struct Members<'s> {
    reader: Reader<'s>,
    pub(super) scopes: ReadScopes,
    /// The least time, and a number below which no document is recent enough.
    since: Option<(i64, DocumentNumber)>,
    together: Together,
    keys: Keys,
    known: Mutex<Known>,
}

/// The members of fingerprints that many documents have. They took long to find.
#[derive(Default)]
struct Known {
    members: MembersOf,
    /// The number of members of all of them.
    count: usize,
}

/// Members of more documents than this are remembered.
const MANY: usize = 64;
/// The most members that are remembered.
const MOST_KNOWN: usize = 100_000;
/// The most documents that are listed at a time, unless they are of two fingerprints.
const MOST_LISTED: u64 = 50_000;
/// The documents of a fingerprint that are listed at a time.
const PAGE: usize = 4096;

impl<'s> Members<'s> {
    pub(super) fn new(
        reader: Reader<'s>,
        scopes: ReadScopes,
        since: Option<(i64, DocumentNumber)>,
        together: Together,
        keys: Keys,
    ) -> Self {
        Self {
            reader,
            scopes,
            since,
            together,
            keys,
            known: Mutex::default(),
        }
    }

    /// The members of each fingerprint. Those come first that were written last. `None` if there are so many that fewer
    /// fingerprints should be asked for at a time. Those of two are never too many.
    pub(super) fn look_up(
        &self,
        fingerprints: impl IntoIterator<Item = Fingerprint>,
    ) -> Result<Option<MembersOf>> {
        let mut members = MembersOf::default();
        let mut wanted: Vec<Fingerprint> = fingerprints.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(
            |fingerprint| match self.known.lock().members.get(fingerprint) {
                Some(known) => members.insert(*fingerprint, known.clone()).is_some(),
                None => true,
            },
        );
        let posted = self.posted(&wanted)?;
        let documents: u64 = posted.iter().map(|posted| posted.total).sum();
        if self.together != Together::Fingerprint && documents > MOST_LISTED && wanted.len() > 2 {
            return Ok(None);
        }
        let mut newest: Vec<(DocumentNumber, Fingerprint, u64)> = Vec::new();
        for posted in posted.chunk_by(|a, b| a.index == b.index) {
            let fingerprint = wanted[posted[0].index];
            let documents: u64 = posted.iter().map(|posted| posted.total).sum();
            if self.together == Together::Fingerprint && self.since.is_none() {
                if let Some(number) = self.newest(fingerprint, posted)? {
                    newest.push((number, fingerprint, documents));
                }
                continue;
            }
            let found: Arc<[Member]> = self.listed(fingerprint, posted)?.into();
            if documents > MANY as u64 {
                let mut known = self.known.lock();
                if known.count + found.len() <= MOST_KNOWN {
                    known.count += found.len();
                    known.members.insert(fingerprint, found.clone());
                }
            }
            members.insert(fingerprint, found);
        }
        // In the order of their numbers, documents of one block are read one after the other.
        newest.sort_unstable();
        for (number, fingerprint, documents) in newest {
            let newest_key = match self.keys {
                Keys::Newest => self.reader.linked_key(number)?,
                Keys::None => Vec::new(),
            };
            let member = Member {
                newest: number,
                group: FingerprintGroup {
                    fingerprint,
                    documents,
                    newest_key,
                },
                sketch: None,
            };
            members.insert(fingerprint, [member].into());
        }
        Ok(Some(members))
    }

    fn posted(&self, wanted: &[Fingerprint]) -> Result<Vec<Posted>> {
        let wanted = wanted
            .iter()
            .map(|&fingerprint| (fingerprint, self.scopes.clone()));
        let mut posted = match self.since {
            None => self.reader.posted(&wanted.collect::<Vec<_>>())?,
            Some((_, from)) => {
                let wanted: Vec<_> = wanted.map(|wanted| (wanted, from)).collect();
                self.reader.posted_from(&wanted)?
            }
        };
        posted.retain(|posted| posted.total > 0);
        posted.sort_unstable_by_key(|posted| posted.index);
        Ok(posted)
    }

    /// The document of a fingerprint that was written last.
    fn newest(
        &self,
        fingerprint: Fingerprint,
        posted: &[Posted],
    ) -> Result<Option<DocumentNumber>> {
        let mut newest = None;
        for posted in posted {
            let of_scope = match &posted.numbers {
                Some(numbers) => numbers.first().copied(),
                None => {
                    let page = self.page(fingerprint, posted.scope, DocumentNumber::MAX, 1)?;
                    page.first().copied()
                }
            };
            newest = newest.max(of_scope);
        }
        Ok(newest)
    }

    /// The documents of a fingerprint in a scope with numbers below `end`: the last ones, the newest first.
    fn page(
        &self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        end: DocumentNumber,
        most: usize,
    ) -> Result<Vec<DocumentNumber>> {
        let from = self.since.map_or(DocumentNumber::MIN, |(_, from)| from);
        self.reader.newest(fingerprint, scope, from..end, most)
    }

    /// The members of a fingerprint, from all of its documents.
    fn listed(&self, fingerprint: Fingerprint, posted: &[Posted]) -> Result<Vec<Member>> {
        let mut listed = Listed::default();
        for posted in posted {
            if let Some(numbers) = &posted.numbers {
                for &number in numbers {
                    self.add(&mut listed, fingerprint, number)?;
                }
                continue;
            }
            let mut end = DocumentNumber::MAX;
            loop {
                let page = self.page(fingerprint, posted.scope, end, PAGE)?;
                for &number in &page {
                    self.add(&mut listed, fingerprint, number)?;
                }
                match page.last() {
                    Some(&last) => end = last,
                    None => break,
                }
            }
        }
        // Documents of several scopes come one scope after the other.
        listed.members.sort_by_key(|member| Reverse(member.newest));
        Ok(listed.members)
    }

    /// Adds a document to the members of its fingerprint.
    fn add(
        &self,
        listed: &mut Listed,
        fingerprint: Fingerprint,
        number: DocumentNumber,
    ) -> Result<()> {
        let since = self.since.map_or(i64::MIN, |(since, _)| since);
        let Some(document) = self.reader.linked_if(number, since, |_| true)? else {
            return Ok(());
        };
        let sketch = match self.together {
            Together::Fingerprint => None,
            _ => document.sketch().copied(),
        };
        let same = match self.together {
            Together::Nothing => None,
            _ => listed.by_sketch.get(&sketch),
        };
        if let Some(&index) = same {
            let member = &mut listed.members[index];
            member.group.documents += 1;
            if number > member.newest {
                member.newest = number;
                member.group.newest_key = document.key().to_vec();
            }
            return Ok(());
        }

        listed.by_sketch.insert(sketch, listed.members.len());
        listed.members.push(Member {
            newest: number,
            group: FingerprintGroup {
                fingerprint,
                documents: 1,
                newest_key: document.key().to_vec(),
            },
            sketch,
        });
        Ok(())
    }
}

/// The members of a fingerprint, as far as they are known.
#[derive(Default)]
struct Listed {
    members: Vec<Member>,
    by_sketch: HashMap<Option<Sketch>, usize, RandomState>,
}
