//! Documents packed into blocks, in the order of their numbers.
//!
//! A block has a column for each part of fixed length, then all keys, then all extras. It is compressed as
//! a whole if that makes it smaller by a sixth. A short block is also compressed if that saves less.

use serde::{Deserialize, Serialize};

use super::bits::{packed_bytes, width_of};
use super::columns::{decode_column, encode_column};
use super::envelope::{self, Fields, Problem};
use super::filter::Filter;
use super::packed::{Packed, checksum};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::store::lookup::partition_point_from;

/// Kind and version of a block of documents.
const KIND: u8 = 17;
const VERSION: u8 = 1;
/// How the rest of the block is encoded.
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// Bit of the flags: the document has a fingerprint.
const HAS_FINGERPRINT: u64 = 1;

/// The most documents of a block, and the most bytes before compression. One document may have 70,000 bytes.
const MAX_DOCUMENTS: usize = 4096;
const MAX_PLAIN_BYTES: usize = 1 << 20;

/// The parts of varying length that most documents do not have.
#[derive(Serialize, Deserialize)]
struct Extras {
    rank: Vec<i64>,
    scope: String,
    payload: Vec<u8>,
}

/// A document in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentRef<'a> {
    pub(crate) number: u64,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) seen: i64,
    pub(crate) key: &'a [u8],
    /// Rank, scope and payload in bincode. Empty if all three are empty.
    extras: &'a [u8],
}

impl DocumentRef<'_> {
    pub(crate) fn to_document(self) -> Result<Document, Problem> {
        let document = Document::new(self.key, self.fingerprint).with_seen(self.seen);
        if self.extras.is_empty() {
            return Ok(document);
        }
        let Extras { rank, scope, payload } = envelope::decode(self.extras)?;
        Ok(document.with_rank(rank).with_scope(scope).with_payload(payload))
    }
}

/// Documents in the order of their numbers: those of a block, or those that a transaction has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentBlock {
    heads: Vec<Head>,
    keys: Vec<u8>,
    extras: Vec<u8>,
    /// The size of the block in the file, in bytes. 0 if the documents do not come from the file.
    stored_bytes: usize,
}

/// The parts of a document that have a fixed length. They are together in memory, since they are read
/// together.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u64,
    fingerprint: Option<Fingerprint>,
    seen: i64,
    /// Where its key and its extras end.
    key_end: usize,
    extras_end: usize,
}

impl DocumentBlock {
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// The number of the last document.
    pub(crate) fn last(&self) -> Option<u64> {
        self.heads.last().map(|head| head.number)
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.len() * size_of::<Head>() + self.keys.len() + self.extras.len()
    }

    /// Adds a document. Its number must be greater than all others.
    pub(crate) fn push(&mut self, number: u64, document: &Document) {
        self.keys.extend(document.key());
        if !(document.rank().is_empty() && document.scope().is_empty() && document.payload().is_empty()) {
            let extras = Extras {
                rank: document.rank().to_vec(),
                scope: document.scope().to_owned(),
                payload: document.payload().to_vec(),
            };
            envelope::encode(&extras, &mut self.extras);
        }
        self.push_head(number, document.fingerprint(), document.seen());
    }

    /// Adds a document of another block. Its number must be greater than all others.
    pub(crate) fn push_copy(&mut self, document: &DocumentRef<'_>) {
        self.keys.extend(document.key);
        self.extras.extend(document.extras);
        self.push_head(document.number, document.fingerprint, document.seen);
    }

    /// Adds the parts of fixed length of a document. Its key and its extras were added before.
    fn push_head(&mut self, number: u64, fingerprint: Option<Fingerprint>, seen: i64) {
        let (key_end, extras_end) = (self.keys.len(), self.extras.len());
        self.heads.push(Head { number, fingerprint, seen, key_end, extras_end });
    }

    /// The index of a document, if it is in this block.
    pub(crate) fn find(&self, number: u64) -> Option<usize> {
        // Most blocks have numbers without gaps.
        let first = self.heads.first()?.number;
        let guess = number.saturating_sub(first).min(self.len() as u64) as usize;
        let index = partition_point_from(&self.heads, guess, |head| head.number < number);
        (self.heads.get(index)?.number == number).then_some(index)
    }

    /// The document at an index below [`len`](Self::len).
    pub(crate) fn get(&self, index: usize) -> DocumentRef<'_> {
        let (key_begin, extras_begin) = match index.checked_sub(1) {
            Some(before) => (self.heads[before].key_end, self.heads[before].extras_end),
            None => (0, 0),
        };
        let Head { number, fingerprint, seen, key_end, extras_end } = self.heads[index];
        let (key, extras) = (&self.keys[key_begin..key_end], &self.extras[extras_begin..extras_end]);
        DocumentRef { number, fingerprint, seen, key, extras }
    }

    pub(crate) fn documents(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Reads a block back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields(bytes);
        let mut block = match fields.take()? {
            [KIND, VERSION, PLAIN] => Self::decode_plain(fields)?,
            [KIND, VERSION, LZ4] => {
                let length = u32::from_le_bytes(fields.take()?) as usize;
                if length > MAX_PLAIN_BYTES {
                    return Err("it claims to be longer than blocks are");
                }
                let plain = lz4_flex::block::decompress(fields.0, length);
                Self::decode_plain(Fields(&plain.map_err(|_| "it cannot be decompressed")?))?
            }
            [KIND, _, _] => return Err("it has a version this release does not know"),
            _ => return Err("another kind of value was expected"),
        };
        block.stored_bytes = bytes.len();
        Ok(block)
    }

    fn decode_plain(mut fields: Fields<'_>) -> Result<Self, Problem> {
        let count = usize::from(u16::from_le_bytes(fields.take()?));
        if count == 0 || count > MAX_DOCUMENTS {
            return Err("it claims an impossible number of documents");
        }
        let least_seen = i64::from_le_bytes(fields.take()?);
        let greatest_seen = i64::from_le_bytes(fields.take()?);
        let numbers = decode_column(&mut fields, count)?;
        let flags = decode_column(&mut fields, count)?;
        if flags.iter().any(|&flags| flags & !HAS_FINGERPRINT != 0) {
            return Err("it has flags this release does not know");
        }
        let seen = decode_column(&mut fields, count)?;
        let seen: Vec<i64> = seen.iter().map(|&later| least_seen.wrapping_add_unsigned(later)).collect();
        if seen.iter().any(|&seen| seen < least_seen || seen > greatest_seen) {
            return Err("a document was seen outside the time of its block");
        }
        let key_ends = decode_ends(&mut fields, count)?;
        let extras_ends = decode_ends(&mut fields, count)?;
        let fingerprints = fields.take_slice(count * 8)?.as_chunks().0;
        let keys = fields.take_slice(key_ends.last().copied().unwrap_or(0))?.to_vec();
        let extras = fields.take_slice(extras_ends.last().copied().unwrap_or(0))?.to_vec();
        fields.finish()?;
        let head = |i: usize| Head {
            number: numbers[i].wrapping_add(i as u64),
            fingerprint: (flags[i] & HAS_FINGERPRINT != 0)
                .then(|| Fingerprint::from_bits(u64::from_le_bytes(fingerprints[i]))),
            seen: seen[i],
            key_end: key_ends[i],
            extras_end: extras_ends[i],
        };
        let heads: Vec<Head> = (0..count).map(head).collect();
        if !heads.is_sorted_by(|a, b| a.number < b.number) {
            return Err("its documents are out of order");
        }
        Ok(Self { heads, keys, extras, stored_bytes: 0 })
    }
}

fn decode_ends(fields: &mut Fields<'_>, count: usize) -> Result<Vec<usize>, Problem> {
    let mut end = 0usize;
    let mut ends = Vec::with_capacity(count);
    for length in decode_column(fields, count)? {
        end = end
            .checked_add(length as usize)
            .filter(|&end| end <= MAX_PLAIN_BYTES)
            .ok_or("it is too short")?;
        ends.push(end);
    }
    Ok(ends)
}

/// Packs documents into blocks of at most `limit` bytes. A document that takes more gets a block of its own.
pub(crate) fn pack_documents(documents: &[DocumentRef<'_>], limit: usize) -> Vec<Packed<u64>> {
    let mut blocks = Vec::new();
    let mut rest = documents;
    // The plain bytes to try for the next block, learned from the block before. `None` once compression
    // has not paid.
    let mut target = Some(2 * limit);
    let mut plain = Vec::new();
    while !rest.is_empty() {
        let (mut bytes, mut count) = (Vec::new(), 0);
        if let Some(wanted) = target {
            (bytes, count, target) = pack_compressed(rest, wanted, limit, &mut plain);
        }
        if count == 0 {
            count = fit(rest, limit - 3);
            bytes = vec![KIND, VERSION, PLAIN];
            encode_plain(&rest[..count], &mut bytes);
        }
        let (block, others) = rest.split_at(count);
        let high = block.last().map_or(0, |document| document.number);
        blocks.push(Packed {
            checksum: checksum(&bytes),
            bytes,
            high,
            puts: count as u16,
            marks: 0,
            filter: Filter::default(),
        });
        rest = others;
    }
    blocks
}

/// A compressed block of about `wanted` plain bytes, the number of its documents, and the plain bytes to
/// try next. The number is 0 if compression does not pay for this block, and there is nothing to try next
/// if it does not pay for the documents as a whole.
fn pack_compressed(
    documents: &[DocumentRef<'_>],
    mut wanted: usize,
    limit: usize,
    plain: &mut Vec<u8>,
) -> (Vec<u8>, usize, Option<usize>) {
    const HEADER: usize = 7;
    for _ in 0..3 {
        let count = fit(documents, wanted.clamp(limit, 32 * limit));
        plain.clear();
        encode_plain(&documents[..count], plain);
        let mut bytes = vec![KIND, VERSION, LZ4];
        bytes.extend((plain.len() as u32).to_le_bytes());
        bytes.extend(lz4_flex::block::compress(plain));
        // If compression saves less than a sixth, it is not worth the slower reading.
        if plain.len() > limit / 2 && bytes.len() * 6 > plain.len() * 5 {
            return (Vec::new(), 0, None);
        }
        let ratio = plain.len() * 64 / bytes.len().max(1);
        let next = ((limit - HEADER) * ratio / 64) * 62 / 64;
        if bytes.len() <= limit || count == 1 {
            let pays = bytes.len() < plain.len();
            return if pays { (bytes, count, Some(next)) } else { (Vec::new(), 0, Some(next)) };
        }
        wanted = next.min(wanted * 7 / 8);
    }
    (Vec::new(), 0, Some(2 * limit))
}

/// The number of documents that fit into `limit` bytes, at least one.
fn fit(documents: &[DocumentRef<'_>], limit: usize) -> usize {
    let first = documents[0];
    let (mut seen, mut keys, mut extras, mut numbers) =
        (Bounds::EMPTY, Bounds::EMPTY, Bounds::EMPTY, Bounds::EMPTY);
    let (mut flags, mut bytes) = (Bounds::EMPTY, 0);
    for (index, document) in documents.iter().enumerate().take(MAX_DOCUMENTS) {
        // The least time is not known yet. So each time becomes an unsigned number, in the same order.
        seen.add((document.seen as u64) ^ (1 << 63));
        keys.add(document.key.len() as u64);
        extras.add(document.extras.len() as u64);
        numbers.add((document.number - first.number) - index as u64);
        flags.add(u64::from(document.fingerprint.is_some()));
        bytes += 8 + document.key.len() + document.extras.len();
        let columns = [&seen, &keys, &extras, &numbers, &flags].map(|column| column.bytes(index + 1));
        if 18 + bytes + columns.iter().sum::<usize>() > limit {
            return index.max(1);
        }
    }
    documents.len().min(MAX_DOCUMENTS)
}

/// The least and greatest value of a column.
struct Bounds {
    low: u64,
    high: u64,
}

impl Bounds {
    const EMPTY: Self = Self { low: u64::MAX, high: 0 };

    fn add(&mut self, value: u64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    fn bytes(&self, count: usize) -> usize {
        9 + packed_bytes(count, width_of(self.high - self.low))
    }
}

fn encode_plain(documents: &[DocumentRef<'_>], bytes: &mut Vec<u8>) {
    let least = documents.iter().map(|document| document.seen).min().unwrap_or(0);
    let greatest = documents.iter().map(|document| document.seen).max().unwrap_or(0);
    bytes.extend((documents.len() as u16).to_le_bytes());
    bytes.extend(least.to_le_bytes());
    bytes.extend(greatest.to_le_bytes());
    encode_column(|| documents.iter().zip(0..).map(|(document, i): (_, u64)| document.number - i), bytes);
    encode_column(|| documents.iter().map(|document| u64::from(document.fingerprint.is_some())), bytes);
    encode_column(|| documents.iter().map(|document| document.seen.wrapping_sub(least) as u64), bytes);
    encode_column(|| documents.iter().map(|document| document.key.len() as u64), bytes);
    encode_column(|| documents.iter().map(|document| document.extras.len() as u64), bytes);
    for document in documents {
        bytes.extend(document.fingerprint.map_or(0, Fingerprint::bits).to_le_bytes());
    }
    documents.iter().for_each(|document| bytes.extend(document.key));
    documents.iter().for_each(|document| bytes.extend(document.extras));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(documents: &[(u64, Document)]) -> DocumentBlock {
        let mut block = DocumentBlock::default();
        documents.iter().for_each(|(number, document)| block.push(*number, document));
        block
    }

    fn read_back(documents: &[(u64, Document)], limit: usize) -> Result<(), Problem> {
        let written = block(documents);
        let refs: Vec<_> = written.documents().collect();
        let mut found = Vec::new();
        for packed in pack_documents(&refs, limit) {
            assert!(packed.bytes.len() <= limit || packed.puts == 1, "{} bytes", packed.bytes.len());
            let block = DocumentBlock::decode(&packed.bytes)?;
            assert_eq!((block.last(), block.len()), (Some(packed.high), packed.puts.into()));
            for document in block.documents() {
                assert_eq!(block.find(document.number).map(|it| block.get(it).number), Some(document.number));
                found.push((document.number, document.to_document()?));
            }
        }
        assert_eq!(found, documents);
        Ok(())
    }

    fn document(key: &str, bits: Option<u64>, seen: i64) -> Document {
        Document::new(key, bits.map(Fingerprint::from_bits)).with_seen(seen)
    }

    proptest! {
        #[test]
        fn documents_read_back_as_they_were(
            parts in prop::collection::vec((1..4u64, ".{1,60}", any::<Option<u64>>(), any::<i64>(), "[a-z]{0,3}"), 1..150),
            limit in 200..5000usize,
        ) {
            let mut number = 0;
            let documents: Vec<_> = parts.into_iter().map(|(gap, key, bits, seen, scope)| {
                number += gap;
                (number, document(&key, bits, seen).with_scope(scope))
            }).collect();
            read_back(&documents, limit).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn the_largest_and_the_smallest_documents_read_back() -> Result<(), Problem> {
        let full = Document::new([0xff; 4096], Fingerprint::from_bits(u64::MAX))
            .with_seen(i64::MIN)
            .with_rank([i64::MIN, 0, 1, i64::MAX])
            .with_scope("zh")
            .with_payload((0..60_000u64).map(|i| ((i * i) >> 7) as u8).collect::<Vec<_>>());
        let bare = document("k", None, i64::MAX);
        read_back(&[(5, bare.clone()), (6, full.clone()), (1 << 39, bare.clone()), (1 << 40, full)], 4080)?;
        read_back(&[(1, bare)], 4080)
    }

    #[test]
    fn keys_that_resemble_each_other_are_compressed() {
        let documents: Vec<_> = (0..5000u64)
            .map(|i| {
                let key = format!("https://www.example.org/archive/{}/page-{i}.html", i / 100);
                (i, document(&key, Some(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1_700_000_000 + i as i64))
            })
            .collect();
        let written = block(&documents);
        let refs: Vec<_> = written.documents().collect();
        let bytes: usize = pack_documents(&refs, 4080).iter().map(|block| block.bytes.len()).sum();
        let plain: usize = documents.iter().map(|(_, document)| document.key().len() + 8).sum();
        assert!(bytes * 2 < plain, "{bytes} of {plain}");
    }

    #[test]
    fn the_worked_example_of_the_format_description_is_what_is_written() {
        let written =
            block(&[(1, document("http://a/", Some(0x0123_4567_89ab_cdef), 1_700_000_000).with_scope("en"))]);
        let refs: Vec<_> = written.documents().collect();
        let mut bytes = vec![KIND, VERSION, PLAIN];
        encode_plain(&refs, &mut bytes);
        assert_eq!(bytes, envelope::worked_example("block of documents"));
        assert_eq!(DocumentBlock::decode(&bytes).map(|block| block.len()), Ok(1));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let written = block(&[(1, document("a", Some(7), 0)), (2, document("b", None, 9).with_scope("en"))]);
        let refs: Vec<_> = written.documents().collect();
        let bytes = &pack_documents(&refs, 4080)[0].bytes;
        for length in 0..bytes.len() {
            assert!(DocumentBlock::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
