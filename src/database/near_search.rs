//! Probes -> candidates -> near fingerprints.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::ops::Range;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{
    Candidates, NearFingerprint, Permuted, PricedProbeSet, ProbeSet, ProbedPrefix, Table,
};
use crate::planted::planted;
use crate::store::{AddRanges, CutRows, Reader, Receiver, Scan, Searched, Transaction};

/// A query for the stored fingerprints within a distance of a fingerprint.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearQuery {
    pub(super) fingerprint: Fingerprint,
    pub(super) max_distance: u32,
}

/// The probe sets of the distances that were asked for. Most queries that are answered together have the same distance.
#[derive(Debug, Default)]
struct KnownProbeSets<'a>(SmallVec<[(u32, Cow<'a, PricedProbeSet>); 1]>);

impl<'a> KnownProbeSets<'a> {
    /// Finds the probe set of a distance, unless it is known. Returns the number of ranges that a query reads.
    fn add(&mut self, reader: Reader<'a>, max_distance: u32, together: usize) -> Result<f64> {
        if let Some(priced) = self.of(max_distance) {
            return Ok(priced.ranges);
        }
        let priced = priced_probe_set(reader, max_distance, together)?;
        let ranges = priced.ranges;
        self.0.push((max_distance, priced));
        Ok(ranges)
    }

    /// The probe set of a distance, if it is known.
    fn of(&self, max_distance: u32) -> Option<&PricedProbeSet> {
        let (_, priced) = self.0.iter().find(|known| known.0 == max_distance)?;
        Some(priced)
    }
}

/// Whether each of so many queries reads few ranges. The ranges are narrow then, and hardly any is that of two queries.
/// Where ranges are wide, or all fingerprints are scanned, queries share more the more of them are answered together.
pub(super) fn reads_few_ranges(
    reader: Reader<'_>,
    max_distance: u32,
    together: usize,
) -> Result<bool> {
    const FEW: f64 = 32.0;
    let priced = priced_probe_set(reader, max_distance, together)?;
    Ok(*priced.probe_set != ProbeSet::Scan && priced.ranges < FEW)
}

/// The cheapest probes that answer a distance exactly, for so many queries together, and their expected cost for each
/// of the queries.
pub(super) fn priced_probe_set(
    reader: Reader<'_>,
    max_distance: u32,
    together: usize,
) -> Result<Cow<'_, PricedProbeSet>> {
    let plan = &reader.settings().plan;
    let find = || {
        plan.probe_set(
            max_distance,
            together,
            reader.fingerprints(),
            reader.sources(),
            reader.cache_bytes(),
            || reader.cost_model(false),
        )
    };
    // A thread that asks for one query at a time finds it here, without writing to memory that all threads read.
    let known = reader.probe_sets().filter(|_| together == 1);
    let Some(known) = known.and_then(|known| known.get(max_distance as usize)) else {
        return find().map(Cow::Owned);
    };
    match known.get() {
        Some(priced) => Ok(Cow::Borrowed(priced)),
        None => {
            let priced = find()?;
            Ok(Cow::Borrowed(known.get_or_init(|| priced)))
        }
    }
}

/// The most queries that are given to a thread together.
pub(super) const MOST_TOGETHER: usize = 8192;

/// With so many ranges, no more queries are answered together. Each range takes 16 bytes.
const MOST_RANGES: f64 = (1 << 20) as f64;

/// The most near fingerprints that are held at a time. Before repetitions are removed there may be twice
/// this number. Each takes 24 bytes.
const MOST_NEAR: usize = 1 << 20;

/// The number of rows in memory that can be compared in the time of one probe.
const COMPARED_PER_PROBE: f64 = 64.0;

/// The number of near fingerprints of a query, on average of those that are probed for together, from which on they are
/// a crowd.
const CROWD: usize = 1024;

/// With so many near fingerprints, those that several prefixes find are left out at once, and not sorted first.
const MANY: usize = 256;

/// Near fingerprints, each with the index of its query.
type NearEach = Vec<(usize, NearFingerprint)>;

/// The search for the fingerprints near to each of some queries. It probes for the queries together. The
/// queries that need a scan share one pass over all fingerprints.
///
/// The near fingerprints come in parts of about [`MOST_NEAR`] at most. A part is in order and without
/// repetitions. It has nothing that an earlier part had.
pub(super) struct NearSearch<'a> {
    reader: Reader<'a>,
    queries: &'a [NearQuery],
    known: KnownProbeSets<'a>,
    most: usize,
    /// Queries with more near fingerprints than this are left to the caller.
    most_of_one: usize,
    crowded: Vec<usize>,
    /// The index of the first query that was not probed for.
    next: usize,
    /// The number of queries that are probed for together.
    together: usize,
    /// The indexes of the queries that need a scan.
    scanning: Vec<usize>,
    scan: Option<Scan<'a>>,
    /// The number of scanning queries that were compared with the current part of the scan.
    compared: usize,
}

impl<'a> NearSearch<'a> {
    pub(super) fn new(reader: Reader<'a>, queries: &'a [NearQuery]) -> Self {
        Self {
            reader,
            queries,
            known: KnownProbeSets::default(),
            most: MOST_NEAR,
            most_of_one: usize::MAX,
            crowded: Vec::new(),
            next: 0,
            together: queries.len(),
            scanning: Vec::new(),
            scan: None,
            compared: 0,
        }
    }

    /// Leaves the queries that have very many near fingerprints to the caller. Documents of one template can be such a
    /// crowd.
    pub(super) fn leaving_crowds(mut self) -> Self {
        self.most_of_one = CROWD;
        self
    }

    /// The indexes of the queries that were left to the caller, in order. They are known once there is no next part.
    pub(super) fn crowded(self) -> Vec<usize> {
        self.crowded
    }

    /// The next part. `None` after the last.
    pub(super) fn next_part(&mut self) -> Result<Option<NearEach>> {
        while self.next < self.queries.len() {
            let mut end = self.next;
            let mut ranges = 0.0;
            while end < self.queries.len().min(self.next + self.together) && ranges < MOST_RANGES {
                let max_distance = self.queries[end].max_distance;
                let together = self.queries.len();
                ranges += self.known.add(self.reader, max_distance, together)?;
                end += 1;
            }
            let together = self.next..end;
            let mut probes = Probes::new(self.reader, self.queries);
            let mut not_probed = probes.add_all(&self.known, together);
            let most = self
                .most
                .min(self.most_of_one.saturating_mul(end - self.next));
            match probes.near(most)? {
                Some(near) => {
                    self.scanning.append(&mut not_probed);
                    self.next = end;
                    if !near.is_empty() {
                        return Ok(Some(near));
                    }
                }
                None if most < self.most => {
                    let probed = (self.next..end).filter(|index| !not_probed.contains(index));
                    self.crowded.extend(probed);
                    self.scanning.append(&mut not_probed);
                    self.next = end;
                }
                // Several probes can meet the same fingerprint. So the near fingerprints of one query
                // can come in parts only from a scan.
                None if self.together == 1 => {
                    self.scanning.push(self.next);
                    self.next = end;
                }
                None => self.together = (end - self.next).div_ceil(2),
            }
        }
        if self.scanning.is_empty() {
            Ok(None)
        } else {
            self.next_scanned()
        }
    }

    /// The next part of what is near to the scanning queries, among all fingerprints.
    fn next_scanned(&mut self) -> Result<Option<NearEach>> {
        let table = self.reader.settings().plan.scan_table();
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => {
                let mut scan = self.reader.scan()?;
                scan.advance()?;
                none.insert(scan)
            }
        };
        let mut near = Vec::new();
        while near.len() < self.most {
            let Some(&query_index) = self.scanning.get(self.compared) else {
                // All queries were compared with the part of the scan at hand.
                if !near.is_empty() || !scan.advance()? {
                    break;
                }
                self.compared = 0;
                continue;
            };
            let NearQuery {
                fingerprint,
                max_distance,
            } = self.queries[query_index];
            let query = table.apply(fingerprint);
            let candidates = scan.candidates();
            candidates.each_near(query, max_distance, table, |found| {
                near.push((query_index, found));
            });
            self.compared += 1;
        }
        sort_and_dedup(&mut near);
        Ok((!near.is_empty()).then_some(near))
    }
}

/// The ranges that queries read, by probed prefix. Queries that read the same range share it, so that its rows are read
/// from memory once for all of them.
struct Probes<'a> {
    reader: Reader<'a>,
    queries: &'a [NearQuery],
    /// The indexes of the queries of each distance.
    indexes: SmallVec<[usize; 1]>,
    /// For each prefix the fingerprints of its queries, in the order of its table.
    permuted: SmallVec<[Permuted; FEW_PREFIXES]>,
    /// Those of one prefix in order.
    probes: SmallVec<[Probe; FEW_PREFIXES]>,
    prefixes: SmallVec<[ProbesOfPrefix; FEW_PREFIXES]>,
}

/// Most probe sets have no more prefixes than this.
const FEW_PREFIXES: usize = 6;

struct ProbesOfPrefix {
    prefix: ProbedPrefix,
    max_distance: u32,
    /// Where the indexes of its queries begin.
    indexes: usize,
    /// Where the permuted fingerprints of these begin.
    permuted: usize,
    /// The indexes of its probes.
    probes: Range<usize>,
}

/// A range that a query reads, as a number: the first row, the number of bits that are free behind it, and the index of
/// the query among those of the prefix. Numbers are sorted in a third of the time that it takes to sort their parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Probe(u128);

impl Probe {
    fn new(first: u64, last: u64, query: usize) -> Self {
        let free = u64::BITS - (last - first).leading_zeros();
        Self(u128::from(first) << 64 | u128::from(free) << 32 | query as u128)
    }

    fn range(self) -> (u64, u64) {
        let first = (self.0 >> 64) as u64;
        let free = (self.0 >> 32) as u32;
        let rest = u64::MAX.unbounded_shr(u64::BITS - free);
        (first, first | rest)
    }

    /// What probes of the same range have in common.
    fn shared(self) -> u128 {
        self.0 >> 32
    }

    fn query(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The prefix of a range, and the probes that share the range, by their indexes.
#[derive(Clone, Copy)]
struct Sharing {
    prefix: u32,
    start: u32,
    end: u32,
}

impl<'a> Probes<'a> {
    fn new(reader: Reader<'a>, queries: &'a [NearQuery]) -> Self {
        Self {
            reader,
            queries,
            indexes: SmallVec::new(),
            permuted: SmallVec::new(),
            probes: SmallVec::new(),
            prefixes: SmallVec::new(),
        }
    }

    /// Adds the ranges of some queries. Returns the indexes of those that a scan has to answer.
    fn add_all(&mut self, known: &KnownProbeSets<'_>, together: Range<usize>) -> Vec<usize> {
        let mut not_probed = Vec::new();
        for (max_distance, priced) in &known.0 {
            let of_distance = together
                .clone()
                .filter(|&index| self.queries[index].max_distance == *max_distance);
            match priced.probe_set.prefixes() {
                None => not_probed.extend(of_distance),
                Some(prefixes) => {
                    let indexes = self.indexes.len();
                    self.indexes.extend(of_distance);
                    let left_out = usize::from(planted("a probe is left out"));
                    for &prefix in &prefixes[left_out..] {
                        self.add(prefix, *max_distance, indexes);
                    }
                }
            }
        }
        not_probed
    }

    /// Adds the ranges of a prefix for the queries whose indexes stand from `indexes` on.
    fn add(&mut self, prefix: ProbedPrefix, max_distance: u32, indexes: usize) {
        let table = &self.reader.settings().plan.tables()[prefix.table];
        let start = self.probes.len();
        let permuted = self.permuted.len();
        for (number, &index) in self.indexes[indexes..].iter().enumerate() {
            let query = table.apply(self.queries[index].fingerprint);
            self.permuted.push(query);
            prefix.each_range(query, |first, last| {
                self.probes.push(Probe::new(first, last, number));
            });
        }
        // Those of one query come in order.
        if self.indexes.len() - indexes > 1 {
            self.probes[start..].sort_unstable();
        }
        self.prefixes.push(ProbesOfPrefix {
            prefix,
            max_distance,
            indexes,
            permuted,
            probes: start..self.probes.len(),
        });
    }

    /// The fingerprints near to each query among the candidates, in order and without repetitions. `None` if they are
    /// more than `most`.
    fn near(&self, most: usize) -> Result<Option<NearEach>> {
        let mut comparing = Comparing {
            probes: self,
            are_all_live: self.reader.all_rows_have_documents(),
            candidates: 0,
            near: Vec::new(),
            found: HashMap::new(),
            noted: 0,
            masks: Vec::new(),
            most,
            too_many: false,
        };
        self.reader
            .read_probes(|add| self.each_range(add), &mut comparing)?;
        let Comparing {
            candidates,
            mut near,
            too_many,
            ..
        } = comparing;
        self.reader.count_candidates(candidates);
        sort_and_dedup(&mut near);
        Ok((near.len() <= most && !too_many).then_some(near))
    }

    /// The table of a prefix.
    fn table_of(&self, of: &ProbesOfPrefix) -> &Table {
        &self.reader.settings().plan.tables()[of.prefix.table]
    }

    /// The bits of a fingerprint that make up each prefix.
    fn prefix_masks(&self) -> Vec<u64> {
        let tables = self.reader.settings().plan.tables();
        let prefixes = self.prefixes.iter().map(|of| of.prefix);
        let masks = prefixes.map(|prefix| tables[prefix.table].prefix_mask(prefix.prefix_bits));
        masks.collect()
    }

    /// Whether a prefix before this one finds a fingerprint that differs from its query in these bits.
    fn is_found_before(&self, prefix: usize, masks: &[u64], differing: u64) -> bool {
        let max_distance = self.prefixes[prefix].max_distance;
        let mut before = self.prefixes[..prefix].iter().zip(masks);
        before.any(|(of, mask)| {
            of.max_distance == max_distance && (differing & mask).count_ones() <= of.prefix.flips
        })
    }

    /// Calls `each` with the different ranges of each table.
    fn each_range(&self, each: AddRanges<'_, Sharing>) {
        /// The number of ranges that are given at a time.
        const TOGETHER: usize = 64;
        let mut ranges: ArrayVec<Searched<u64, Sharing>, TOGETHER> = ArrayVec::new();
        for (index, of) in self.prefixes.iter().enumerate() {
            let mut start = of.probes.start;
            while start < of.probes.end {
                let probe = self.probes[start];
                let mut end = start + 1;
                while end < of.probes.end && self.probes[end].shared() == probe.shared() {
                    end += 1;
                }
                let (first, last) = probe.range();
                ranges.push(Searched {
                    of: Sharing {
                        prefix: index as u32,
                        start: start as u32,
                        end: end as u32,
                    },
                    first,
                    last,
                });
                start = end;
                if ranges.is_full() || start == of.probes.end {
                    each(of.prefix.table, &ranges);
                    ranges.clear();
                }
            }
        }
    }
}

/// Queries that are compared with the candidates of their probes.
struct Comparing<'p> {
    probes: &'p Probes<'p>,
    /// Whether each row of a table has a document, and so stands in all tables.
    are_all_live: bool,
    /// The number of candidates that came.
    candidates: u64,
    near: NearEach,
    /// What was found for each query, once somebody has asked for it: the first `noted` of what is near.
    found: HashMap<usize, SmallVec<[Fingerprint; 2]>>,
    noted: usize,
    /// The bits of each prefix, once there are many near fingerprints.
    masks: Vec<u64>,
    /// With more near fingerprints than this, there are too many.
    most: usize,
    too_many: bool,
}

impl Receiver<u64, Sharing> for &mut Comparing<'_> {
    const SIEVES: bool = true;

    fn receive(&mut self, range: &Searched<u64, Sharing>, puts: &[u64], _: &[u64]) {
        self.candidates += puts.len() as u64;
        if self.too_many {
            return;
        }
        let candidates = Candidates::new(puts);
        let Sharing { prefix, start, end } = range.of;
        let probes = self.probes;
        let of = &probes.prefixes[prefix as usize];
        let table = probes.table_of(of);
        let is_shared = end - start > 1;
        let lost = u32::from(is_shared && planted("a range that is shared loses a query"));
        for probe in &probes.probes[start as usize..(end - lost) as usize] {
            let index = probes.indexes[of.indexes + probe.query()];
            let query = probes.permuted[of.permuted + probe.query()];
            candidates.each_near(query, of.max_distance, table, |found| {
                // Most queries find one fingerprint, in several tables.
                if self.near.is_empty() {
                    probes.reader.prefetch_posted(found.fingerprint);
                }
                if self.near.len() >= MANY {
                    if self.masks.is_empty() {
                        self.masks = probes.prefix_masks();
                    }
                    let differing =
                        probes.queries[index].fingerprint.bits() ^ found.fingerprint.bits();
                    if probes.is_found_before(prefix as usize, &self.masks, differing) {
                        return;
                    }
                }
                self.near.push((index, found));
            });
        }
        if self.near.len() > 2 * self.most {
            sort_and_dedup(&mut self.near);
            self.found.clear();
            self.noted = 0;
            self.too_many = self.near.len() > self.most;
        }
    }

    fn sieve(
        &mut self,
        range: &Searched<u64, Sharing>,
        CutRows {
            rows, unknown_bits, ..
        }: CutRows<'_>,
        mut through: impl FnMut(u64),
    ) {
        self.candidates += rows.len() as u64;
        if self.too_many {
            return;
        }
        let candidates = Candidates::new(rows);
        let Sharing { prefix, start, end } = range.of;
        let of = &self.probes.prefixes[prefix as usize];
        for probe in &self.probes.probes[start as usize..end as usize] {
            let query = self.probes.permuted[of.permuted + probe.query()];
            candidates.each_perhaps_near(query, unknown_bits, of.max_distance, &mut through);
        }
    }

    /// A near fingerprint in the range that was found before.
    fn known(&mut self, range: &Searched<u64, Sharing>) -> Option<u64> {
        /// More queries are not looked at, and no query that has found more. To read the blocks of so many takes less
        /// time for each.
        const FEW: usize = 16;
        if self.too_many || !self.are_all_live {
            return None;
        }
        for (query, found) in &self.near[self.noted..] {
            let of_query = self.found.entry(*query).or_default();
            of_query.push(found.fingerprint);
        }
        self.noted = self.near.len();
        let probes = self.probes;
        let Sharing { prefix, start, end } = range.of;
        let within = range.first..=range.last;
        let of = &probes.prefixes[prefix as usize];
        let table = probes.table_of(of);
        let few = &probes.probes[start as usize..end as usize];
        for probe in few.iter().take(FEW) {
            let query = probes.indexes[of.indexes + probe.query()];
            let found = self.found.get(&query);
            let few = found.filter(|found| found.len() <= FEW);
            for &found in few.into_iter().flatten() {
                let row = table.apply(found).bits();
                if within.contains(&row) {
                    return Some(row);
                }
            }
        }
        None
    }
}

/// Whether `is_found` is true for some of the fingerprints near to a query. They come in parts, which may have them
/// repeatedly. Nothing more is read once it is true.
pub(super) fn any(
    reader: Reader<'_>,
    query: NearQuery,
    mut is_found: impl FnMut(&[(usize, NearFingerprint)]) -> Result<bool>,
) -> Result<bool> {
    /// The number of ranges that are read before the answer is looked at. With fewer, the reads wait for memory just as
    /// long.
    const FEW_RANGES: f64 = 16.0;
    let queries = [query];
    let priced = priced_probe_set(reader, query.max_distance, 1)?;
    if let Some(mut prefixes) = priced.probe_set.prefixes() {
        let mut has_all = true;
        while has_all && !prefixes.is_empty() {
            let mut probes = Probes::new(reader, &queries);
            probes.indexes.push(0);
            let mut ranges = 0.0;
            while let [prefix, others @ ..] = prefixes
                && (ranges == 0.0 || ranges + prefix.ranges() <= FEW_RANGES)
            {
                probes.add(*prefix, query.max_distance, 0);
                ranges += prefix.ranges();
                prefixes = others;
            }
            match probes.near(MOST_NEAR)? {
                None => has_all = false,
                Some(near) if is_found(&near)? => return Ok(true),
                Some(_) => {}
            }
        }
        if has_all {
            return Ok(false);
        }
    }
    let mut parts = NearSearch::new(reader, &queries);
    while let Some(near) = parts.next_part()? {
        if is_found(&near)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The number of written fingerprints that are taken first, a few times as many as are counted.
const FIRST_WRITTEN: usize = 512;

/// The search for what is near among the fingerprints that a transaction has written.
///
/// They are taken in parts, the nearest first, since mostly the nearest are enough.
#[derive(Debug, Default)]
pub(super) struct NearWritten {
    /// The probe sets for the fingerprints that were sorted when they were searched last.
    known: KnownProbeSets<'static>,
    /// The binary logarithm of the number of these.
    known_log2: u32,
    /// Those that were found and not taken, in no order and perhaps repeatedly. Some may have no document any more.
    near: Vec<NearFingerprint>,
    /// The number of those that are taken next.
    next: usize,
}

impl NearWritten {
    /// Finds the written fingerprints that are near to a query and wanted.
    pub(super) fn find(
        &mut self,
        writer: &mut Transaction,
        query: NearQuery,
        is_wanted: impl Fn(NearFingerprint) -> bool,
    ) -> Result<()> {
        let Self {
            known,
            known_log2,
            near,
            next,
        } = self;
        near.clear();
        *next = FIRST_WRITTEN;
        let NearQuery {
            fingerprint,
            max_distance,
        } = query;
        writer.index_written();
        let written = writer.written_fingerprints();
        let mut add = |found: NearFingerprint| {
            if is_wanted(found) {
                near.push(found);
            }
        };
        let plan = &writer.reader().settings().plan;
        let tables = plan.tables();
        let first = &tables[0];
        let permuted = first.apply(fingerprint);
        let unsorted = written.unsorted();
        unsorted.each_near(permuted, max_distance, first, &mut add);
        let sorted: usize = written.sorted().map(Candidates::len).sum();
        if sorted == 0 {
            return Ok(());
        }
        // What is best for a few is not for many.
        if *known_log2 != sorted.ilog2() {
            *known_log2 = sorted.ilog2();
            known.0.clear();
        }
        if known.of(max_distance).is_none() {
            let runs = written.sorted().count();
            let priced =
                plan.probe_set(max_distance, 1, sorted as u64, (0, runs), u64::MAX, || {
                    Ok(written.cost_model())
                })?;
            known.0.push((max_distance, Cow::Owned(priced)));
        }
        if let Some(priced) = known.of(max_distance)
            && let Some(prefixes) = priced.probe_set.prefixes()
            && priced.ranges * COMPARED_PER_PROBE < sorted as f64
        {
            for prefix in prefixes {
                let table = &tables[prefix.table];
                let query = table.apply(fingerprint);
                prefix.each_range(query, |first, last| {
                    for candidates in written.within(prefix.table, (first, last)) {
                        candidates.each_near(query, max_distance, table, &mut add);
                    }
                });
            }
        } else {
            for candidates in written.sorted() {
                candidates.each_near(permuted, max_distance, first, &mut add);
            }
        }
        Ok(())
    }

    /// Takes the nearest of those that are left, without those that are not wanted. They come in order. None comes once
    /// none is left.
    pub(super) fn take_nearest(
        &mut self,
        is_wanted: impl Fn(NearFingerprint) -> bool,
    ) -> Vec<NearFingerprint> {
        loop {
            let mut taken = mem::take(&mut self.near);
            if taken.len() > self.next {
                let (_, &mut farthest, rest) = taken.select_nth_unstable(self.next);
                // Nothing is taken twice.
                let left = rest.iter().filter(|near| **near > farthest);
                self.near.extend(left);
                taken.truncate(self.next + 1);
                self.next *= 2;
            }
            taken.retain(|&near| is_wanted(near));
            sort_and_dedup(&mut taken);
            if !taken.is_empty() || self.near.is_empty() {
                return taken;
            }
        }
    }

    /// Whether none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Whether one of those that are left is as near as this one.
    pub(super) fn has_any_within(&self, farthest: NearFingerprint) -> bool {
        self.near.iter().any(|near| *near <= farthest)
    }
}

pub(super) fn sort_and_dedup<T: Ord>(near: &mut Vec<T>) {
    near.sort_unstable();
    near.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{CreateOptions, Database, Policy, Query};
    use crate::document::Document;
    use crate::text::Scheme;

    /// The parts together have each near fingerprint once, whatever the most that may be held at a time.
    #[test]
    fn what_is_near_comes_in_parts() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database = Database::create(folder.path().join("d.simdb"), &options)?;
        let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Some clusters and many other fingerprints, so that probing is cheaper than a scan.
        let clustered = (0..3000).map(|i| spread(i % 3) ^ 1 << (i % 64) ^ 1 << (i / 64));
        let stored: Vec<u64> = clustered
            .chain((0..60_000).map(|i| spread(i) ^ spread(i) >> 29))
            .collect();
        // Some fingerprints are in both commits, and so in two sources.
        for (commit, stored) in [&stored[..], &stored[..12_000]].into_iter().enumerate() {
            let mut txn = database.begin_write()?;
            for (i, &bits) in stored.iter().enumerate() {
                let key = format!("{commit} {i}");
                txn.insert(&Document::new(key, Some(Fingerprint::from_bits(bits))))?;
            }
            txn.commit()?;
        }
        let snapshot = database.store.begin_read()?;
        let reader = snapshot.reader();
        let query = |i: u64| NearQuery {
            fingerprint: Fingerprint::from_bits(spread(i % 3) ^ i),
            max_distance: [0, 2, 3, 5, 20][i as usize % 5],
        };
        let queries: Vec<NearQuery> = (0..10).map(query).collect();
        assert!(
            *priced_probe_set(reader, 3, 1)?.probe_set != ProbeSet::Scan,
            "nothing is probed"
        );
        let mut expected = Vec::new();
        for (query_index, query) in queries.iter().enumerate() {
            for &bits in &stored {
                let fingerprint = Fingerprint::from_bits(bits);
                let distance = fingerprint.distance(query.fingerprint);
                expected.extend((distance <= query.max_distance).then_some((
                    query_index,
                    NearFingerprint {
                        distance,
                        fingerprint,
                    },
                )));
            }
        }
        sort_and_dedup(&mut expected);
        assert!(expected.len() > 3000, "{}", expected.len());
        for most in [1, 40, 1000, 4000, MOST_NEAR] {
            let mut found = Vec::new();
            let mut parts = 0;
            let mut search = NearSearch {
                most,
                ..NearSearch::new(reader, &queries)
            };
            while let Some(near) = search.next_part()? {
                assert!(near.is_sorted_by(|a, b| a < b), "a part has repetitions");
                found.extend(near);
                parts += 1;
            }
            found.sort_unstable();
            assert!(
                found == expected,
                "{most}: {} found, not {}",
                found.len(),
                expected.len()
            );
            assert!(most > 40 || parts > 5, "{most}: {parts} parts");
        }
        Ok(())
    }

    /// What a transaction has written is found by probes, however little is committed, and by other probes once there
    /// is much more of it.
    #[test]
    fn a_transaction_probes_for_what_it_has_written() -> Result<()> {
        for committed in [0, 100] {
            let folder = tempfile::tempdir().expect("a folder");
            let options = CreateOptions::new().scheme(Scheme::External);
            let database = Database::create(folder.path().join("d.simdb"), &options)?;
            let spread = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let fingerprint = |i: u64| Fingerprint::from_bits(spread(i) ^ spread(i) >> 31);
            let policy = Policy::link().near(3);
            let mut txn = database.begin_write()?;
            for i in 0..80_000 {
                let document = Document::new(i.to_string(), Some(fingerprint(i)));
                txn.insert_if_new(&document, &policy)?;
                if i + 1 == committed {
                    txn.commit()?;
                    txn = database.begin_write()?;
                } else if [10_000, 79_999].contains(&i) {
                    let priced = txn.near_written.known.of(3).expect("it was searched");
                    assert_ne!(*priced.probe_set, ProbeSet::Scan, "{i} are compared");
                    let known_for = 1 << txn.near_written.known_log2;
                    assert!(known_for > i / 4, "{i}: chosen for {known_for}");
                    let before = database.metrics().candidates;
                    let matches = txn.query(&Query::new(fingerprint(i)).near(3))?;
                    assert!(matches.total() >= 1, "{i} does not find itself");
                    let candidates = database.metrics().candidates - before;
                    assert!(candidates < i / 10, "{i}: {candidates} are compared");
                }
            }
        }
        Ok(())
    }

    /// Queries of a batch share the ranges that they have in common, also with others of their own kind.
    #[test]
    fn queries_that_share_ranges_find_what_each_finds_alone() -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = CreateOptions::new().scheme(Scheme::External);
        let database = Database::create(folder.path().join("d.simdb"), &options)?;
        let spread = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let stored: Vec<u64> = (0..40_000).map(|i| spread(i) ^ spread(i) >> 31).collect();
        let mut txn = database.begin_write()?;
        for (i, &bits) in stored.iter().enumerate() {
            let document = Document::new(i.to_string(), Some(Fingerprint::from_bits(bits)));
            txn.insert(&document)?;
        }
        txn.commit()?;
        let snapshot = database.store.begin_read()?;
        let reader = snapshot.reader();
        // Many ask for the same, some for its neighbours, at several distances.
        let query = |i: u64| NearQuery {
            fingerprint: Fingerprint::from_bits(stored[i as usize % 7] ^ 1 << (i % 11)),
            max_distance: [3, 1, 4, 3][i as usize % 4],
        };
        let queries: Vec<NearQuery> = (0..300).map(query).collect();
        let mut together = Vec::new();
        let mut parts = NearSearch::new(reader, &queries);
        while let Some(near) = parts.next_part()? {
            together.extend(near);
        }
        let mut alone = Vec::new();
        for (index, query) in queries.iter().enumerate() {
            let mut parts = NearSearch::new(reader, std::slice::from_ref(query));
            while let Some(near) = parts.next_part()? {
                alone.extend(near.into_iter().map(|(_, found)| (index, found)));
            }
        }
        together.sort_unstable();
        assert!(alone.len() >= queries.len(), "{}", alone.len());
        assert!(together == alone);
        Ok(())
    }
}
