//! Overlap: how much of a text stood elsewhere, unit by unit and by document.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::answering::{self, MOST_FOR_EACH};
use super::near::Near;
use super::query::{Match, Query};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::metrics::Tally;
use crate::sketch::{Similarity, Sketch};
use crate::store::{DocumentNumber, Reader};
use crate::text::{Fingerprinter, MOST_UNITS, Unit};

/// How much of a text stood elsewhere: how many of its units, in which documents, and where each was seen first. From
/// [`Snapshot::overlap`].
///
/// A share is by length, in characters (Unicode scalar values) of the units that are judged. Units that are too short
/// to judge count neither way. A unit that the text has twice counts twice.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Database, OverlapQuery, Scheme};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("sentences.simdb");
/// let database = Database::create(path, &CreateOptions::new().scheme(Scheme::MinwiseShort1))?;
/// let stored = database.fingerprinter()?.document("https://a.example/#1", "Schools stay closed until Friday.");
/// let mut txn = database.begin_write()?;
/// txn.insert(&stored)?;
/// txn.commit()?;
/// let text = "Nobody has told the teachers about that. Schools stay closed until Friday!";
/// let overlap = database.snapshot()?.overlap(text, &OverlapQuery::new())?;
/// assert_eq!(overlap.documents[0].key, b"https://a.example/");
/// let sentence = &overlap.units[1];
/// assert_eq!(&text[sentence.range.clone()], "Schools stay closed until Friday!");
/// assert_eq!(sentence.first().map(|first| &first.key[..]), Some(&b"https://a.example/#1"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Overlap {
    /// The number of units that were judged.
    pub judged: u64,
    /// The number of units that are too short to judge.
    pub too_short: u64,
    /// The number of judged units that stood elsewhere.
    pub found: u64,
    /// The characters of the judged units.
    pub characters: u64,
    /// The characters of the units that stood elsewhere.
    pub found_characters: u64,
    /// The documents with the largest shares of the text, up to the limit: the largest first, of equal ones the one
    /// seen earlier, then by key.
    pub documents: Vec<OverlapDocument>,
    /// The number of all documents that have any unit of the text.
    pub total_documents: u64,
    /// All units of the text, in order.
    pub units: Vec<OverlapUnit>,
}

impl Overlap {
    /// The share of the text that stood elsewhere, 0 to 1. 0 if nothing is judged.
    pub fn share(&self) -> f64 {
        self.found_characters as f64 / self.characters.max(1) as f64
    }
}

/// A document that has units of the text. Units that stood in it several times count once.
///
/// See the example of [`Overlap`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OverlapDocument {
    /// Its key: that of its units without `#` and their number.
    pub key: Vec<u8>,
    /// The number of units of the text that it has.
    pub units: u64,
    /// Their characters, in the text.
    pub characters: u64,
    /// Their share of the text, 0 to 1. The shares of several documents can add up to more than 1.
    pub share: f64,
    /// The number of these units that no other document had before it: those of which [`OverlapUnit::first`] is in this
    /// document.
    pub first_units: u64,
    /// When the earliest of its units was seen that are near to one of the text, in Unix seconds.
    pub seen: i64,
}

/// A unit of the text.
///
/// See the example of [`Overlap`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OverlapUnit {
    /// Where it is in the text, in bytes.
    pub range: Range<usize>,
    /// Its characters.
    pub characters: u64,
    /// Whether it is too short to judge.
    pub is_too_short: bool,
    first: Option<Arc<FirstMatch>>,
}

impl OverlapUnit {
    /// One that another process has found.
    #[cfg(all(unix, feature = "serve"))]
    pub(crate) fn new(
        range: Range<usize>,
        characters: u64,
        is_too_short: bool,
        first: Option<FirstMatch>,
    ) -> Self {
        Self {
            range,
            characters,
            is_too_short,
            first: first.map(Arc::new),
        }
    }

    /// Where it was seen first, or `None` if it stood nowhere else. Of matches that were seen at the same time, it is
    /// the one that was written first.
    pub fn first(&self) -> Option<&FirstMatch> {
        self.first.as_deref()
    }
}

/// The stored unit near to one of the text that was seen before all others.
///
/// See the example of [`Overlap`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FirstMatch {
    /// The key of the stored unit, such as `URL#12`.
    pub key: Vec<u8>,
    /// When it was seen, in Unix seconds.
    pub seen: i64,
    /// The number of bits in which its fingerprint differs.
    pub distance: u32,
    /// How similar it is. `None` without sketches.
    pub similarity: Option<Similarity>,
}

impl FirstMatch {
    /// The key of its document, such as `URL`.
    pub fn document(&self) -> &[u8] {
        Unit::document_of(&self.key)
    }
}

impl Snapshot {
    /// Tells how much of a text stood elsewhere: which of its paragraphs or sentences are near to stored ones, in which
    /// documents these are, and where each was seen first.
    ///
    /// The database must hold units: documents whose keys are the key of a whole document, `#` and a number from 1 to
    /// 1,048,576, as `simdb ingest --unit sentence` and [`ReadOptions::unit`](crate::ingest::ReadOptions::unit) store
    /// them. A key of another form is that of a document of its own. The counts are exact, however many documents have
    /// a unit.
    ///
    /// "First" is by the time at which documents were seen. A document that came again has the time of its last coming,
    /// and so has one that was touched ([`Policy::touch`](crate::Policy::touch)). Of a page, the text is
    /// [`Unit::text_of_html`](crate::Unit::text_of_html).
    ///
    /// # Errors
    ///
    /// * [`Error::ExternalScheme`] if the fingerprints of the database are made elsewhere.
    /// * [`Error::TooManyUnits`] for a text of more than 1,048,576 units.
    /// * Those of [`query`](Self::query).
    ///
    /// # Cost
    ///
    /// That of a query for each distinct unit, and the reading of each document that matches: of a sentence that stands
    /// in a million documents, all of these. Memory: some 150 bytes and a key for each unit, and less than 200 MB
    /// beside the cache. If more documents have units of the text than have room in 64 MiB, all is read several times.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, OverlapQuery, Scheme, Unit};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("d.simdb");
    /// let database = Database::create(path, &CreateOptions::new().scheme(Scheme::MinwiseShort1).max_distance(5))?;
    /// let fingerprinter = database.fingerprinter()?;
    /// let stored = "The river rose above its banks on Sunday. Schools stay closed until Friday.";
    /// let mut txn = database.begin_write()?;
    /// for (number, sentence) in (1..).zip(Unit::Sentence.cut(stored)) {
    ///     txn.insert(&fingerprinter.document(format!("a#{number}"), sentence).with_seen(1_700_000_000))?;
    /// }
    /// txn.commit()?;
    ///
    /// let text = "Who knew? Schools stay closed until Friday! Nobody has told the teachers about that.";
    /// let overlap = database.snapshot()?.overlap(text, &OverlapQuery::new())?;
    /// assert_eq!((overlap.judged, overlap.too_short, overlap.found), (2, 1, 1));
    /// assert_eq!(format!("{:.0} %", 100.0 * overlap.share()), "45 %");
    /// assert_eq!(overlap.documents[0].key, b"a");
    /// let first = overlap.units[1].first().expect("it was found");
    /// assert_eq!((&first.key[..], first.seen), (&b"a#2"[..], 1_700_000_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overlap(&self, text: &str, query: &OverlapQuery) -> Result<Overlap> {
        self.overlap_with(text, query, |_, _| ControlFlow::Continue(()))
    }

    /// As [`overlap`](Self::overlap). `progress` is called now and then with the distinct units that were looked for so
    /// far and those in all. If all is read several times, it begins anew each time.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` breaks, and those of [`overlap`](Self::overlap).
    pub fn overlap_with(
        &self,
        text: &str,
        query: &OverlapQuery,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Overlap> {
        self.overlap_within(text, query, MOST_BYTES, progress)
    }

    /// As [`overlap_with`](Self::overlap_with), with so much memory for documents.
    fn overlap_within(
        &self,
        text: &str,
        query: &OverlapQuery,
        most_bytes: usize,
        progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Overlap> {
        let reader = self.reader()?;
        let settings = reader.settings();
        query.near.checked(settings)?;
        let fingerprinter =
            Fingerprinter::new(settings.scheme)?.with_sketch_size(settings.sketch_size);
        let (units, wanted) = units_of(text, query.unit, &fingerprinter)?;
        let found = Search {
            reader,
            query,
            wanted: &wanted,
            most_bytes,
        }
        .run(progress)?;
        let tallies = self.store.tallies();
        tallies.add(Tally::Queries, wanted.len() as u64);
        tallies.add(Tally::Matches, found.matches);

        let mut overlap = Overlap::default();
        let (documents, total_documents) = found.documents.end();
        overlap.documents = documents;
        overlap.total_documents = total_documents;
        overlap.count_first_units(&wanted, &found.firsts);
        let firsts = found.firsts.into_iter();
        let firsts: Vec<_> = firsts
            .map(|first| first.map(|(_, first)| Arc::new(first)))
            .collect();
        overlap.units.reserve_exact(units.len());
        for unit in units {
            overlap.add(OverlapUnit {
                range: unit.range,
                characters: unit.characters,
                is_too_short: unit.wanted.is_none(),
                first: unit.wanted.and_then(|index| firsts[index].clone()),
            });
        }
        Ok(overlap)
    }
}

impl Overlap {
    fn add(&mut self, unit: OverlapUnit) {
        if unit.is_too_short {
            self.too_short += 1;
        } else {
            self.judged += 1;
            self.characters += unit.characters;
        }
        if unit.first.is_some() {
            self.found += 1;
            self.found_characters += unit.characters;
        }
        self.units.push(unit);
    }

    /// Counts the units that each listed document had first.
    fn count_first_units(&mut self, wanted: &[Wanted], firsts: &[First]) {
        let mut listed = HashMap::with_capacity(self.documents.len());
        for document in &mut self.documents {
            listed.insert(&document.key[..], &mut document.first_units);
        }
        for (wanted, first) in wanted.iter().zip(firsts) {
            if let Some((_, first)) = first
                && let Some(first_units) = listed.get_mut(first.document())
            {
                **first_units += wanted.units;
            }
        }
    }
}

/// The match of a unit that was seen first, so far, with the number of its document.
type First = Option<(DocumentNumber, FirstMatch)>;

fn offer(first: &mut First, number: DocumentNumber, found: &Match) {
    let document = &found.document;
    if let Some((earlier, first)) = first
        && (first.seen, *earlier) <= (document.seen(), number)
    {
        return;
    }
    let found = FirstMatch {
        key: document.key().to_vec(),
        seen: document.seen(),
        distance: found.distance,
        similarity: found.similarity,
    };
    *first = Some((number, found));
}

/// The search for all stored units that are near to those of a text.
struct Search<'a> {
    reader: Reader<'a>,
    query: &'a OverlapQuery,
    wanted: &'a [Wanted],
    /// The memory for the documents of a pass.
    most_bytes: usize,
}

struct Found {
    /// By the index of what is wanted.
    firsts: Vec<First>,
    documents: Largest,
    matches: u64,
}

impl Search<'_> {
    fn run(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()>) -> Result<Found> {
        let mut found = Found {
            firsts: vec![None; self.wanted.len()],
            documents: Largest::new(self.query.limit),
            matches: 0,
        };
        let mut pass = Pass::new(Box::default(), self.most_bytes);
        let mut is_first = true;
        loop {
            self.each_match(&mut progress, |index, number, matching| {
                let document = &matching.document;
                let key = Unit::document_of(document.key());
                if self.query.without.as_deref() == Some(key)
                    || self.query.without.as_deref() == Some(document.key())
                {
                    return;
                }
                pass.add(key, index as u32, document.seen());
                if is_first {
                    found.matches += 1;
                    offer(&mut found.firsts[index], number, matching);
                }
            })?;
            is_first = false;
            match pass.end(self.wanted, &mut found.documents) {
                Some(next) => pass = next,
                None => return Ok(found),
            }
        }
    }

    /// Calls `each` with all matches, and the index of what is wanted.
    fn each_match(
        &self,
        progress: &mut impl FnMut(u64, u64) -> ControlFlow<()>,
        mut each: impl FnMut(usize, DocumentNumber, &Match),
    ) -> Result<()> {
        /// The matches between two calls of the function that is told of the progress.
        const TOLD_AFTER: u64 = 4096;
        let all = self.wanted.len() as u64;
        let mut matches = 0u64;
        let mut done = 0;
        for wanted in self.wanted.chunks(MOST_FOR_EACH) {
            Error::if_broken(progress(done as u64, all))?;
            let queries = self.queries(wanted);
            answering::each_match(self.reader, &queries, |index, number, matching| {
                each(done + index, number, &matching);
                matches += 1;
                match matches.is_multiple_of(TOLD_AFTER) {
                    true => Error::if_broken(progress(done as u64, all)),
                    false => Ok(()),
                }
            })?;
            done += wanted.len();
        }
        Error::if_broken(progress(all, all))
    }

    fn queries(&self, wanted: &[Wanted]) -> Vec<Query> {
        let mut queries = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let query = Query::new(wanted.fingerprint).with_sketch(wanted.sketch);
            queries.push(query.near(self.query.near.clone()));
        }
        queries
    }
}

/// How a text is cut, which stored units are near to its units, and how many documents are listed, for
/// [`Snapshot::overlap`](crate::Snapshot::overlap).
///
/// # Example
///
/// ```
/// use simdb::{Near, OverlapQuery, Unit};
///
/// let query = OverlapQuery::new().unit(Unit::Paragraph).near(Near::within(5).scopes(["news"])).limit(3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OverlapQuery {
    pub(crate) unit: Unit,
    pub(crate) near: Near,
    pub(crate) without: Option<Vec<u8>>,
    pub(crate) limit: usize,
}

impl Default for OverlapQuery {
    fn default() -> Self {
        Self {
            unit: Unit::Sentence,
            near: Near::new(),
            without: None,
            limit: 10,
        }
    }
}

impl OverlapQuery {
    /// The defaults of the methods below.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the text is cut into: that into which the stored documents were cut. Default: sentences.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Which stored units are near. Default: [`Near::new`].
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.near = near.into();
        self
    }

    /// The key of the document that the text is of. Its own units, and a document with this key, do not count. Default:
    /// all count.
    #[must_use]
    pub fn without(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.without = Some(key.into());
        self
    }

    /// The most documents that are listed, those with the largest share of the text. Default: 10. All are counted.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

struct TextUnit {
    range: Range<usize>,
    characters: u64,
    /// Its index among the wanted. `None` if it is too short to judge.
    wanted: Option<usize>,
}

/// What one unit, or several equal ones, are looked for by. Equal units are looked for once.
struct Wanted {
    fingerprint: Fingerprint,
    sketch: Option<Sketch>,
    units: u64,
    /// Their characters together.
    characters: u64,
}

/// The units of a text, and those that are looked for.
fn units_of(
    text: &str,
    unit: Unit,
    fingerprinter: &Fingerprinter,
) -> Result<(Vec<TextUnit>, Vec<Wanted>)> {
    let ranges = unit.ranges(text, MOST_UNITS + 1);
    if ranges.len() > MOST_UNITS {
        return Err(Error::TooManyUnits {
            max_units: MOST_UNITS,
        });
    }
    let pieces: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
    let judged = fingerprinter.fingerprints_and_sketches(&pieces);
    let mut units = Vec::with_capacity(ranges.len());
    let mut wanted = Vec::new();
    let mut indexes = HashMap::new();
    for ((range, piece), judged) in ranges.into_iter().zip(pieces).zip(judged) {
        let characters = piece.chars().count() as u64;
        let index = judged.map(|judged| {
            *indexes.entry(judged).or_insert_with(|| {
                let (fingerprint, sketch) = judged;
                wanted.push(Wanted {
                    fingerprint,
                    sketch,
                    units: 0,
                    characters: 0,
                });
                wanted.len() - 1
            })
        });
        if let Some(index) = index {
            wanted[index].units += 1;
            wanted[index].characters += characters;
        }
        units.push(TextUnit {
            range,
            characters,
            wanted: index,
        });
    }
    Ok((units, wanted))
}

// Which documents have which units of a text: exact for any number of documents, in bounded memory.
//
// A sentence such as a notice of copyright may stand in millions of documents. The documents are counted in passes
// over all matches. A pass counts those of the least keys that were not counted before, as many as there is room for.

/// The memory of a pass.
const MOST_BYTES: usize = 64 << 20;

/// What a document takes beside its key and its units, with what the allocator adds.
const BYTES_OF_DOCUMENT: usize = 112;
const BYTES_OF_UNIT: usize = size_of::<u32>();

struct Pass {
    /// Documents before this one were counted by earlier passes.
    begin: Box<[u8]>,
    /// This document and those after it are left for the next pass.
    end: Option<Box<[u8]>>,
    documents: BTreeMap<Box<[u8]>, Counted>,
    bytes: usize,
    most_bytes: usize,
}

struct Counted {
    /// The indexes of the units that it has. Some may be there repeatedly.
    wanted: Vec<u32>,
    /// When the earliest of the matches was seen.
    seen: i64,
}

impl Pass {
    fn new(begin: Box<[u8]>, most_bytes: usize) -> Self {
        Self {
            begin,
            end: None,
            documents: BTreeMap::new(),
            bytes: 0,
            most_bytes,
        }
    }

    /// Adds a match: a document that has the unit with this index.
    fn add(&mut self, document: &[u8], wanted: u32, seen: i64) {
        let is_left = self.end.as_deref().is_some_and(|end| document >= end);
        if is_left || document < &*self.begin {
            return;
        }
        match self.documents.get_mut(document) {
            Some(counted) => {
                counted.seen = counted.seen.min(seen);
                if counted.wanted.last() == Some(&wanted) {
                    return;
                }
                counted.wanted.push(wanted);
                self.bytes += BYTES_OF_UNIT;
            }
            None => {
                let counted = Counted {
                    wanted: vec![wanted],
                    seen,
                };
                self.bytes += counted.bytes(document);
                self.documents.insert(document.into(), counted);
            }
        }
        if self.bytes > self.most_bytes {
            self.make_room();
        }
    }

    /// Leaves documents for the next pass, until half of the room is free. One document is kept in any case.
    fn make_room(&mut self) {
        self.bytes = 0;
        for (key, counted) in &mut self.documents {
            counted.tidy();
            self.bytes += counted.bytes(key);
        }
        while self.bytes > self.most_bytes / 2 && self.documents.len() > 1 {
            if let Some((key, counted)) = self.documents.pop_last() {
                self.bytes -= counted.bytes(&key);
                self.end = Some(key);
            }
        }
    }

    /// Adds the documents of this pass to those of the others. Returns the next pass, if any document is left.
    fn end(self, wanted: &[Wanted], into: &mut Largest) -> Option<Self> {
        let all: u64 = wanted.iter().map(|wanted| wanted.characters).sum();
        for (key, mut counted) in self.documents {
            counted.tidy();
            let mut document = OverlapDocument {
                key: key.into_vec(),
                units: 0,
                characters: 0,
                share: 0.0,
                first_units: 0,
                seen: counted.seen,
            };
            for index in counted.wanted {
                let wanted = &wanted[index as usize];
                document.units += wanted.units;
                document.characters += wanted.characters;
            }
            document.share = document.characters as f64 / all as f64;
            into.add(document);
        }
        Some(Self::new(self.end?, self.most_bytes))
    }
}

impl Counted {
    /// Each unit once.
    fn tidy(&mut self) {
        self.wanted.sort_unstable();
        self.wanted.dedup();
        self.wanted.shrink_to_fit();
    }

    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.wanted.len() * BYTES_OF_UNIT + BYTES_OF_DOCUMENT
    }
}

/// The documents with the largest shares of the text, and the number of all.
struct Largest {
    list: Vec<OverlapDocument>,
    total: u64,
    limit: usize,
}

impl Largest {
    fn new(limit: usize) -> Self {
        Self {
            list: Vec::new(),
            total: 0,
            limit,
        }
    }

    fn add(&mut self, document: OverlapDocument) {
        /// So many more are held, so that memory grows with the limit and not with the documents.
        const MORE: usize = 64;
        self.total += 1;
        self.list.push(document);
        if self.list.len() >= self.limit.saturating_mul(2).saturating_add(MORE) {
            self.keep_largest();
        }
    }

    fn keep_largest(&mut self) {
        let order = |document: &OverlapDocument| (Reverse(document.characters), document.seen);
        self.list
            .sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
        self.list.truncate(self.limit);
    }

    /// The largest, in order, and the number of all.
    fn end(mut self) -> (Vec<OverlapDocument>, u64) {
        self.keep_largest();
        (self.list, self.total)
    }
}

/// Passes over all matches give the same answer, however little room they have.
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{CreateOptions, Database, Scheme};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// A sentence of a number, like no other.
    fn sentence(number: u64) -> String {
        let mut text = String::new();
        for word in 0..8 {
            let hash = xxhash_rust::xxh3::xxh3_64(&[number.to_le_bytes(), [word; 8]].concat());
            text += &format!("W{hash:x} ");
        }
        text.trim_end().to_owned() + ". "
    }

    /// 300 documents, each with some of 40 sentences, and these sentences as a text.
    fn stored(path: &std::path::Path) -> Result<(Snapshot, String)> {
        let database = Database::create(path, &CreateOptions::new().scheme(Scheme::MinwiseShort1))?;
        let fingerprinter = database.fingerprinter()?;
        let mut txn = database.begin_write()?;
        for document in 0..300u64 {
            for number in 0..40 {
                let lot =
                    xxhash_rust::xxh3::xxh3_64(&[document, number].map(u64::to_le_bytes).concat());
                if lot.is_multiple_of(number + 1) {
                    let unit = fingerprinter
                        .document(format!("{document}#{}", number + 1), &sentence(number));
                    txn.insert(&unit.with_seen((lot >> 40) as i64 % 10))?;
                }
            }
        }
        txn.commit()?;
        Ok((database.snapshot()?, (0..45).map(sentence).collect()))
    }

    /// The answer in passes of so many bytes, and the number of passes.
    fn within(snapshot: &Snapshot, text: &str, most_bytes: usize) -> Result<(Overlap, u64)> {
        let mut passes = 0;
        let query = OverlapQuery::new().limit(7);
        let overlap = snapshot.overlap_within(text, &query, most_bytes, |done, _| {
            passes += u64::from(done == 0);
            ControlFlow::Continue(())
        })?;
        Ok((overlap, passes))
    }

    #[test]
    fn the_answer_does_not_depend_on_the_room_for_documents() -> TestResult {
        let folder = tempfile::tempdir()?;
        let (snapshot, text) = stored(&folder.path().join("d.simdb"))?;
        let (expected, passes) = within(&snapshot, &text, MOST_BYTES)?;
        assert_eq!(passes, 1);
        assert_eq!((expected.found, expected.total_documents), (40, 300));
        for most_bytes in [0, 1, 500, 5_000] {
            let (overlap, passes) = within(&snapshot, &text, most_bytes)?;
            assert_eq!(overlap, expected, "{most_bytes} bytes");
            let most_passes = if most_bytes < 2 { 300..=300 } else { 2..=299 };
            assert!(
                most_passes.contains(&passes),
                "{most_bytes} bytes: {passes} passes"
            );
        }
        Ok(())
    }

    #[test]
    fn units_of_a_document_count_once_in_whatever_order_they_come() {
        let wanted: Vec<Wanted> = (1..=3).map(wanted_of).collect();
        let mut pass = Pass::new(Box::default(), 200);
        for round in 0..100 {
            for (document, index) in [("a", 2), ("a", 0), ("b", 1), ("a", 2), ("a", 1)] {
                pass.add(document.as_bytes(), index, 50 - round);
            }
        }
        let mut largest = Largest::new(10);
        let next = pass.end(&wanted, &mut largest).expect("b has no room");
        assert!(next.end(&wanted, &mut largest).is_none());
        let (list, total) = largest.end();
        assert_eq!(total, 1, "b comes in the next pass");
        assert_eq!(
            (list[0].units, list[0].characters, list[0].seen),
            (6, 60, -49)
        );
        assert_eq!(list[0].share, 1.0);
    }

    fn wanted_of(units: u64) -> Wanted {
        Wanted {
            fingerprint: Fingerprint::from_bits(units),
            sketch: None,
            units,
            characters: 10 * units,
        }
    }

    #[test]
    fn the_largest_are_kept_in_order() {
        let wanted: Vec<Wanted> = (1..=50).map(wanted_of).collect();
        let mut pass = Pass::new(Box::default(), MOST_BYTES);
        let mut expected = BTreeSet::new();
        for number in 0..1_000u32 {
            let hash = number.wrapping_mul(0x9e37_79b9) >> 8;
            let (index, seen) = (hash % 50, i64::from(hash / 50 % 3));
            pass.add(format!("{number}").as_bytes(), index, seen);
            expected.insert((50 - index, seen, format!("{number}").into_bytes()));
        }
        for limit in [0, 1, 10, 999, 1_000, 5_000] {
            let mut largest = Largest::new(limit);
            let mut pass = Pass::new(Box::default(), MOST_BYTES);
            for (left, seen, key) in &expected {
                pass.add(key, 50 - left, *seen);
            }
            assert!(pass.end(&wanted, &mut largest).is_none());
            let (list, total) = largest.end();
            assert_eq!(total, 1_000);
            let listed: Vec<_> = list.into_iter().map(|it| it.key).collect();
            let expected = expected.iter().take(limit).map(|it| it.2.clone());
            assert_eq!(listed, expected.collect::<Vec<_>>());
        }
    }
}
