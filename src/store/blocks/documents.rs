//! Blocks of documents, in the order of their numbers: documents in memory, packing, and reading back.
//!
//! A block has a column for each part of fixed length, then all keys, then all extras. These may be compressed
//! as a whole. The sketches come last. They cannot be made smaller.
//!
//! A block is compressed if that makes it smaller by a sixth, its sketches not counted. A short block is also
//! compressed if that saves less.

use serde::{Deserialize, Serialize};

use super::entry::{Extent, Filter, scope_bit};
use super::envelope::{self, Fields, FileSeed, Problem};
use super::packed::{Bounds, Packed, decode_column, encode_column};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::store::lookup::{partition_point_from, prefetch_at};

/// Kind and version of a block of documents.
const KIND: u8 = 17;
const VERSION: u8 = 3;
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
struct Extras<'a> {
    rank: Vec<i64>,
    #[serde(borrow)]
    scope: &'a str,
    payload: &'a [u8],
}

/// A document in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentRef<'a> {
    pub(crate) number: u64,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) seen: i64,
    /// How often it was seen again.
    repeats: u32,
    pub(crate) key: &'a [u8],
    sketch: Option<SketchRef<'a>>,
    /// Rank, scope and payload in bincode. Empty if all three are empty.
    extras: &'a [u8],
}

impl<'a> DocumentRef<'a> {
    /// Its scope. Empty if it has none.
    pub(crate) fn scope(self) -> Result<&'a str, Problem> {
        if self.extras.is_empty() {
            return Ok("");
        }
        let Extras { scope, .. } = envelope::decode(self.extras)?;
        Ok(scope)
    }

    /// Its sketch, if it has one.
    pub(crate) fn sketch(self) -> Result<Option<Sketch>, Problem> {
        self.sketch.map(SketchRef::to_sketch).transpose()
    }

    pub(crate) fn to_document(self) -> Result<Document, Problem> {
        let document = Document::new(self.key, self.fingerprint)
            .with_seen(self.seen)
            .with_repeats(self.repeats.into())
            .with_sketch(self.sketch()?);
        if self.extras.is_empty() {
            return Ok(document);
        }
        let Extras {
            rank,
            scope,
            payload,
        } = envelope::decode(self.extras)?;
        Ok(document
            .with_rank(rank)
            .with_scope(scope)
            .with_payload(payload))
    }
}

/// Documents in the order of their numbers: those of a block, or those that a transaction has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentBlock {
    /// The number of the first document. It is here too, so that to find a document is not to wait for its head.
    first: u64,
    heads: Vec<Head>,
    keys: Vec<u8>,
    extras: Vec<u8>,
    sketches: Sketches,
    /// How often each was seen again, up to the last that was at all. So nothing is kept as long as none was.
    repeats: Vec<u32>,
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
        self.len() * size_of::<Head>()
            + self.keys.len()
            + self.extras.len()
            + self.sketches.memory_bytes()
            + size_of_val(&self.repeats[..])
    }

    /// Adds a document. Its number must be greater than all others.
    pub(crate) fn push(&mut self, number: u64, document: &Document) {
        self.keys.extend(document.key());
        if !(document.rank().is_empty()
            && document.scope().is_empty()
            && document.payload().is_empty())
        {
            let extras = Extras {
                rank: document.rank().to_vec(),
                scope: document.scope(),
                payload: document.payload(),
            };
            envelope::encode(&extras, &mut self.extras);
        }
        self.sketches
            .push(self.heads.len(), document.sketch().map(SketchRef::of));
        self.push_repeats(u32::try_from(document.repeats()).unwrap_or(u32::MAX));
        self.push_head(number, document.fingerprint(), document.seen());
    }

    /// Adds a document of another block. Its number must be greater than all others.
    pub(crate) fn push_copy(&mut self, document: &DocumentRef<'_>) {
        self.keys.extend(document.key);
        self.extras.extend(document.extras);
        self.sketches.push(self.heads.len(), document.sketch);
        self.push_repeats(document.repeats);
        self.push_head(document.number, document.fingerprint, document.seen);
    }

    /// Adds how often a document was seen again. Its head comes after that.
    fn push_repeats(&mut self, repeats: u32) {
        if repeats > 0 {
            self.repeats.resize(self.heads.len(), 0);
            self.repeats.push(repeats);
        }
    }

    /// Adds the parts of fixed length of a document. Its other parts were added before.
    fn push_head(&mut self, number: u64, fingerprint: Option<Fingerprint>, seen: i64) {
        let key_end = self.keys.len();
        let extras_end = self.extras.len();
        if self.heads.is_empty() {
            self.first = number;
        }
        self.heads.push(Head {
            number,
            fingerprint,
            seen,
            key_end,
            extras_end,
        });
    }

    /// The index of a document, if it is in this block.
    pub(crate) fn find(&self, number: u64) -> Option<usize> {
        // Most blocks have numbers without gaps.
        let guess = number.saturating_sub(self.first).min(self.len() as u64) as usize;
        self.prefetch_parts(guess);
        let index = partition_point_from(&self.heads, guess, |head| head.number < number);
        (self.heads.get(index)?.number == number).then_some(index)
    }

    /// Fetches what [`get`](Self::get) reads beside the head, so that the processor waits for all of it together. Where
    /// the key is stands in the head, so it is guessed: keys are about equally long.
    fn prefetch_parts(&self, index: usize) {
        prefetch_at(&self.keys, self.keys.len() * index / self.len().max(1));
        self.sketches.prefetch(index);
    }

    /// The number of documents whose numbers are below `number`.
    pub(crate) fn before(&self, number: u64) -> usize {
        self.heads.partition_point(|head| head.number < number)
    }

    /// The document at an index below [`len`](Self::len).
    pub(crate) fn get(&self, index: usize) -> DocumentRef<'_> {
        let (key_begin, extras_begin) = match index.checked_sub(1) {
            Some(before) => (self.heads[before].key_end, self.heads[before].extras_end),
            None => (0, 0),
        };
        let Head {
            number,
            fingerprint,
            seen,
            key_end,
            extras_end,
        } = self.heads[index];
        let key = &self.keys[key_begin..key_end];
        let extras = &self.extras[extras_begin..extras_end];
        DocumentRef {
            number,
            fingerprint,
            seen,
            repeats: self.repeats.get(index).copied().unwrap_or(0),
            key,
            sketch: self.sketches.get(index),
            extras,
        }
    }

    pub(crate) fn documents(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Reads a block back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields(bytes);
        let [kind, version, encoding, sketch_bytes] = fields.take()?;
        if kind != KIND {
            return Err("another kind of value was expected");
        }
        if version != VERSION {
            return Err("it has a version this release does not know");
        }
        let count = usize::from(u16::from_le_bytes(fields.take()?));
        if count == 0 || count > MAX_DOCUMENTS {
            return Err("it claims an impossible number of documents");
        }
        let size = SketchSize::from_bytes(sketch_bytes.into())
            .ok_or("its sketches have an impossible size")?;
        let (rest, sketches) = fields
            .0
            .len()
            .checked_sub(count * size.bytes())
            .map(|at| fields.0.split_at(at))
            .ok_or("it is too short")?;
        fields = Fields(rest);
        let mut block = match encoding {
            PLAIN => Self::decode_plain(fields, count, size, sketches)?,
            LZ4 => {
                let length = u32::from_le_bytes(fields.take()?) as usize;
                if length > MAX_PLAIN_BYTES {
                    return Err("it claims to be longer than blocks are");
                }
                let plain = lz4_flex::block::decompress(fields.0, length);
                let plain = plain.map_err(|_| "it cannot be decompressed")?;
                Self::decode_plain(Fields(&plain), count, size, sketches)?
            }
            _ => return Err("it has an encoding this release does not know"),
        };
        block.stored_bytes = bytes.len();
        Ok(block)
    }

    fn decode_plain(
        mut fields: Fields<'_>,
        count: usize,
        size: SketchSize,
        sketches: &[u8],
    ) -> Result<Self, Problem> {
        let least_seen = i64::from_le_bytes(fields.take()?);
        let greatest_seen = i64::from_le_bytes(fields.take()?);
        let numbers = decode_column(&mut fields, count)?;
        let flags = decode_column(&mut fields, count)?;
        if flags.iter().any(|&flags| flags & !HAS_FINGERPRINT != 0) {
            return Err("it has flags this release does not know");
        }
        let seen = decode_column(&mut fields, count)?;
        let seen: Vec<i64> = seen
            .iter()
            .map(|&later| least_seen.wrapping_add_unsigned(later))
            .collect();
        if seen
            .iter()
            .any(|&seen| seen < least_seen || seen > greatest_seen)
        {
            return Err("a document was seen outside the time of its block");
        }
        let repeats = decode_repeats(&mut fields, count)?;
        let key_ends = decode_ends(&mut fields, count)?;
        let extras_ends = decode_ends(&mut fields, count)?;
        let sketches = Sketches::decode(&mut fields, count, size, sketches)?;
        let fingerprints = fields.take_slice(count * 8)?.as_chunks().0;
        let keys = fields
            .take_slice(key_ends.last().copied().unwrap_or(0))?
            .to_vec();
        let extras = fields
            .take_slice(extras_ends.last().copied().unwrap_or(0))?
            .to_vec();
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
        Ok(Self {
            first: heads[0].number,
            heads,
            keys,
            extras,
            sketches,
            repeats,
            stored_bytes: 0,
        })
    }
}

/// How often each document was seen again. Nothing if none was.
fn decode_repeats(fields: &mut Fields<'_>, count: usize) -> Result<Vec<u32>, Problem> {
    let column = decode_column(fields, count)?;
    if column.iter().all(|&repeats| repeats == 0) {
        return Ok(Vec::new());
    }
    let repeats: Result<Vec<u32>, _> = column.into_iter().map(u32::try_from).collect();
    repeats.map_err(|_| "a document was seen again more often than is counted")
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

// The sketches of the documents of a block, in the order of the documents.

/// A sketch in a block.
#[derive(Clone, Copy, Debug)]
struct SketchRef<'a> {
    bytes: &'a [u8],
    shingles: u32,
}

impl<'a> SketchRef<'a> {
    fn of(sketch: &'a Sketch) -> Self {
        Self {
            bytes: sketch.as_bytes(),
            shingles: sketch.shingles(),
        }
    }

    fn to_sketch(self) -> Result<Sketch, Problem> {
        Sketch::new(self.bytes, self.shingles).map_err(|_| "its sketch is impossible")
    }
}

/// The sketches of some documents. Nothing is kept as long as no document has one.
#[derive(Clone, Debug, Default)]
struct Sketches {
    /// The bytes of each.
    size: usize,
    /// Zeros for a document without a sketch.
    bytes: Vec<u8>,
    /// The number of shingles of each. 0 stands for no sketch.
    shingles: Vec<u32>,
}

impl Sketches {
    /// Adds the sketch of a document, after those of `before` documents. All sketches have one size.
    fn push(&mut self, before: usize, sketch: Option<SketchRef<'_>>) {
        if let Some(sketch) = sketch {
            debug_assert!(
                self.size == 0 || self.size == sketch.bytes.len(),
                "sketches of two sizes"
            );
            self.size = sketch.bytes.len();
        }
        if self.size == 0 {
            return;
        }
        self.shingles.resize(before, 0);
        self.bytes.resize(before * self.size, 0);
        self.shingles
            .push(sketch.map_or(0, |sketch| sketch.shingles));
        match sketch {
            Some(sketch) => self.bytes.extend(sketch.bytes),
            None => self.bytes.resize((before + 1) * self.size, 0),
        }
    }

    fn get(&self, index: usize) -> Option<SketchRef<'_>> {
        let &shingles = self.shingles.get(index).filter(|&&shingles| shingles > 0)?;
        Some(SketchRef {
            bytes: &self.bytes[index * self.size..(index + 1) * self.size],
            shingles,
        })
    }

    /// Fetches what [`get`](Self::get) reads.
    fn prefetch(&self, index: usize) {
        prefetch_at(&self.shingles, index);
        prefetch_at(&self.bytes, index * self.size);
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.shingles[..])
    }

    /// Reads the column of the numbers of shingles. `bytes` is the sketches themselves.
    fn decode(
        fields: &mut Fields<'_>,
        count: usize,
        size: SketchSize,
        bytes: &[u8],
    ) -> Result<Self, Problem> {
        if size == SketchSize::None {
            return Ok(Self::default());
        }
        let shingles: Result<Vec<u32>, _> = decode_column(fields, count)?
            .into_iter()
            .map(u32::try_from)
            .collect();
        let shingles = shingles.map_err(|_| "it claims more shingles than a sketch counts")?;
        for (&shingles, sketch) in shingles.iter().zip(bytes.chunks(size.bytes())) {
            if shingles == 0 && sketch.iter().any(|&byte| byte != 0) {
                return Err("it has a sketch without shingles");
            }
        }
        Ok(Self {
            size: size.bytes(),
            bytes: bytes.to_vec(),
            shingles,
        })
    }
}

// Packing.

/// Packs documents into blocks of at most `limit` bytes. A document that takes more gets a block of its own.
pub(crate) fn pack_documents(
    documents: &[DocumentRef<'_>],
    limit: usize,
    file: FileSeed,
) -> Vec<Packed<u64>> {
    let mut blocks = Vec::new();
    let mut rest = documents;
    // The plain bytes to try for the next block, learned from the block before. `None` once compression
    // has not paid.
    let mut target = Some(2 * limit);
    let mut plain = Vec::new();
    while !rest.is_empty() {
        let mut bytes = Vec::new();
        let mut count = 0;
        if let Some(wanted) = target {
            (bytes, count, target) = pack_compressed(rest, wanted, limit, &mut plain);
        }
        if count == 0 {
            count = fit(rest, limit);
            bytes = header(&rest[..count], PLAIN);
            encode_plain(&rest[..count], &mut bytes);
            encode_sketches(&rest[..count], &mut bytes);
        }
        let (block, others) = rest.split_at(count);
        let high = block.last().map_or(0, |document| document.number);
        blocks.push(Packed {
            checksum: file.checksum(&bytes),
            bytes,
            high,
            puts: count as u16,
            marks: 0,
            filter: Filter::default(),
            extent: Some(extent_of(block)),
        });
        rest = others;
    }
    blocks
}

/// What the directory says of documents.
pub(crate) fn extent_of(documents: &[DocumentRef<'_>]) -> Extent {
    let mut extent = Extent::EMPTY;
    for document in documents {
        let unposted = match document.fingerprint {
            Some(_) => 0,
            // If the scope cannot be read, whoever looks for it has to see the document.
            None => document.scope().map_or(u64::MAX, scope_bit),
        };
        extent = extent.with(Extent {
            least_seen: document.seen,
            greatest_seen: document.seen,
            unposted,
        });
    }
    extent
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
    for _ in 0..3 {
        let count = fit(documents, wanted.clamp(limit, 32 * limit));
        plain.clear();
        encode_plain(&documents[..count], plain);
        let mut bytes = header(&documents[..count], LZ4);
        bytes.extend((plain.len() as u32).to_le_bytes());
        let compressed = lz4_flex::block::compress(plain);
        // If compression saves less than a sixth, it is not worth the slower reading.
        let sketches = count * sketch_bytes(&documents[..count]);
        if plain.len() + sketches > limit / 2 && compressed.len() * 6 > plain.len() * 5 {
            return (Vec::new(), 0, None);
        }
        bytes.extend(&compressed);
        encode_sketches(&documents[..count], &mut bytes);
        let ratio = (plain.len() + sketches) * 64 / bytes.len();
        let next = ((limit - HEADER_BYTES) * ratio / 64) * 62 / 64;
        if bytes.len() <= limit || count == 1 {
            let pays = compressed.len() + size_of::<u32>() < plain.len();
            return if pays {
                (bytes, count, Some(next))
            } else {
                (Vec::new(), 0, Some(next))
            };
        }
        wanted = next.min(wanted * 7 / 8);
    }
    (Vec::new(), 0, Some(2 * limit))
}

/// The bytes of a block before everything else: its kind, its version, its encoding, the bytes of a sketch, and
/// the number of documents.
fn header(documents: &[DocumentRef<'_>], encoding: u8) -> Vec<u8> {
    let mut bytes = vec![KIND, VERSION, encoding, sketch_bytes(documents) as u8];
    bytes.extend((documents.len() as u16).to_le_bytes());
    bytes
}

const HEADER_BYTES: usize = 6;

/// The number of documents that fit into a block of `limit` bytes that is not compressed, at least one.
fn fit(documents: &[DocumentRef<'_>], limit: usize) -> usize {
    let first = documents[0];
    let mut columns = [Bounds::EMPTY; 7];
    let mut bytes = 0;
    let mut sketch = 0;
    for (index, document) in documents.iter().enumerate().take(MAX_DOCUMENTS) {
        let values = [
            // The least time is not known yet. So each time becomes an unsigned number, in the same order.
            document.seen as u64 ^ 1 << 63,
            document.key.len() as u64,
            document.extras.len() as u64,
            document.number - first.number - index as u64,
            document.fingerprint.is_some().into(),
            document.repeats.into(),
            document.sketch.map_or(0, |sketch| sketch.shingles.into()),
        ];
        bytes += 8 + document.key.len() + document.extras.len();
        sketch = sketch.max(document.sketch.map_or(0, |sketch| sketch.bytes.len()));
        let mut of_columns = 0;
        for (column, value) in columns.iter_mut().zip(values) {
            column.add(value);
            of_columns += column.bytes(index + 1);
        }
        if HEADER_BYTES + 16 + bytes + of_columns + sketch * (index + 1) > limit {
            return index.max(1);
        }
    }
    documents.len().min(MAX_DOCUMENTS)
}

/// Adds a column with a value of each document.
fn encode_values(
    documents: &[DocumentRef<'_>],
    value: impl Fn(&DocumentRef<'_>) -> u64,
    bytes: &mut Vec<u8>,
) {
    encode_column(|| documents.iter().map(&value), bytes);
}

/// The number of each document, less its index. So numbers without gaps are all the same.
fn numbers_beyond_index(documents: &[DocumentRef<'_>]) -> impl Iterator<Item = u64> {
    let indexed = documents.iter().zip(0u64..);
    indexed.map(|(document, index)| document.number - index)
}

fn encode_plain(documents: &[DocumentRef<'_>], bytes: &mut Vec<u8>) {
    let Extent {
        least_seen: least,
        greatest_seen: greatest,
        ..
    } = extent_of(documents);
    bytes.extend(least.to_le_bytes());
    bytes.extend(greatest.to_le_bytes());
    encode_column(|| numbers_beyond_index(documents), bytes);
    encode_values(
        documents,
        |document| document.fingerprint.is_some().into(),
        bytes,
    );
    encode_values(
        documents,
        |document| document.seen.wrapping_sub(least) as u64,
        bytes,
    );
    encode_values(documents, |document| document.repeats.into(), bytes);
    encode_values(documents, |document| document.key.len() as u64, bytes);
    encode_values(documents, |document| document.extras.len() as u64, bytes);
    if sketch_bytes(documents) > 0 {
        encode_values(
            documents,
            |document| document.sketch.map_or(0, |sketch| sketch.shingles.into()),
            bytes,
        );
    }
    for document in documents {
        bytes.extend(
            document
                .fingerprint
                .map_or(0, Fingerprint::bits)
                .to_le_bytes(),
        );
    }
    documents
        .iter()
        .for_each(|document| bytes.extend(document.key));
    documents
        .iter()
        .for_each(|document| bytes.extend(document.extras));
}

/// The bytes of a sketch in the block of these documents. 0 if none of them has a sketch.
fn sketch_bytes(documents: &[DocumentRef<'_>]) -> usize {
    documents
        .iter()
        .find_map(|document| document.sketch)
        .map_or(0, |sketch| sketch.bytes.len())
}

/// Adds the sketches themselves.
fn encode_sketches(documents: &[DocumentRef<'_>], bytes: &mut Vec<u8>) {
    let size = sketch_bytes(documents);
    for document in documents {
        match document.sketch {
            Some(sketch) => bytes.extend(sketch.bytes),
            None => bytes.resize(bytes.len() + size, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(documents: &[(u64, Document)]) -> DocumentBlock {
        let mut block = DocumentBlock::default();
        documents
            .iter()
            .for_each(|(number, document)| block.push(*number, document));
        block
    }

    fn read_back(documents: &[(u64, Document)], limit: usize) -> Result<(), Problem> {
        let written = block(documents);
        let refs: Vec<_> = written.documents().collect();
        let mut found = Vec::new();
        for packed in pack_documents(&refs, limit, FileSeed(7)) {
            assert!(
                packed.bytes.len() <= limit || packed.puts == 1,
                "{} bytes",
                packed.bytes.len()
            );
            let block = DocumentBlock::decode(&packed.bytes)?;
            assert_eq!(
                (block.last(), block.len()),
                (Some(packed.high), packed.puts.into())
            );
            for document in block.documents() {
                assert_eq!(
                    block.find(document.number).map(|it| block.get(it).number),
                    Some(document.number)
                );
                found.push((document.number, document.to_document()?));
            }
        }
        assert_eq!(found, documents);
        Ok(())
    }

    fn sketch(bytes: &[u8], shingles: u32) -> Sketch {
        Sketch::new(bytes, shingles).expect("a sketch")
    }

    fn document(key: &str, bits: Option<u64>, seen: i64) -> Document {
        Document::new(key, bits.map(Fingerprint::from_bits)).with_seen(seen)
    }

    /// The gap to the number before, key, fingerprint, time, repeats, scope and sketch of a document.
    type Parts = (
        u64,
        String,
        Option<u64>,
        i64,
        u32,
        String,
        Option<([u8; 32], u32)>,
    );

    fn parts() -> impl Strategy<Value = Parts> {
        let sketch = prop::option::of((any::<[u8; 32]>(), 1..=u32::MAX));
        let repeats = prop_oneof![6 => Just(0), 1 => 1..9u32, 1 => any::<u32>()];
        (
            1..4u64,
            ".{1,60}",
            any::<Option<u64>>(),
            any::<i64>(),
            repeats,
            "[a-z]{0,3}",
            sketch,
        )
    }

    proptest! {
        #[test]
        fn documents_read_back_as_they_were(
            parts in prop::collection::vec(parts(), 1..150),
            limit in 200..5000usize,
            sketch_bytes in prop::sample::select(vec![0, 16, 32]),
        ) {
            let mut number = 0;
            let documents: Vec<_> = parts.into_iter().map(|(gap, key, bits, seen, repeats, scope, sketched)| {
                number += gap;
                let sketched = sketched.filter(|_| sketch_bytes > 0);
                let sketch = sketched.map(|(bytes, shingles)| sketch(&bytes[..sketch_bytes], shingles));
                let document = document(&key, bits, seen).with_repeats(repeats.into());
                (number, document.with_scope(scope).with_sketch(sketch))
            }).collect();
            read_back(&documents, limit).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn the_largest_and_the_smallest_documents_read_back() -> Result<(), Problem> {
        let full = Document::new([0xff; 4096], Fingerprint::from_bits(u64::MAX))
            .with_seen(i64::MIN)
            .with_repeats(Document::MAX_REPEATS)
            .with_rank([i64::MIN, 0, 1, i64::MAX])
            .with_scope("zh")
            .with_sketch(sketch(&[0xff; 32], u32::MAX))
            .with_payload(
                (0..60_000u64)
                    .map(|i| ((i * i) >> 7) as u8)
                    .collect::<Vec<_>>(),
            );
        let bare = document("k", None, i64::MAX);
        read_back(
            &[
                (5, bare.clone()),
                (6, full.clone()),
                (1 << 39, bare.clone()),
                (1 << 40, full),
            ],
            4080,
        )?;
        read_back(&[(1, bare)], 4080)
    }

    #[test]
    fn keys_that_resemble_each_other_are_compressed() {
        let documents: Vec<_> = (0..5000u64)
            .map(|i| {
                let key = format!("https://www.example.org/archive/{}/page-{i}.html", i / 100);
                (
                    i,
                    document(
                        &key,
                        Some(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                        1_700_000_000 + i as i64,
                    ),
                )
            })
            .collect();
        let written = block(&documents);
        let refs: Vec<_> = written.documents().collect();
        let bytes: usize = pack_documents(&refs, 4080, FileSeed(7))
            .iter()
            .map(|block| block.bytes.len())
            .sum();
        let plain: usize = documents
            .iter()
            .map(|(_, document)| document.key().len() + 8)
            .sum();
        assert!(bytes * 2 < plain, "{bytes} of {plain}");
    }

    #[test]
    fn the_worked_example_of_the_format_description_is_what_is_written() {
        let written = block(&[(
            1,
            document("http://a/", Some(0x0123_4567_89ab_cdef), 1_700_000_000)
                .with_repeats(2)
                .with_scope("en")
                .with_sketch(sketch(&std::array::from_fn::<u8, 16, _>(|i| i as u8), 300)),
        )]);
        let refs: Vec<_> = written.documents().collect();
        let mut bytes = header(&refs, PLAIN);
        encode_plain(&refs, &mut bytes);
        encode_sketches(&refs, &mut bytes);
        assert_eq!(bytes, envelope::worked_example("block of documents"));
        assert_eq!(
            DocumentBlock::decode(&bytes).map(|block| block.len()),
            Ok(1)
        );
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let first = document("a", Some(7), 0).with_sketch(sketch(&[7; 16], 9));
        let written = block(&[(1, first), (2, document("b", None, 9).with_scope("en"))]);
        let refs: Vec<_> = written.documents().collect();
        let bytes = &pack_documents(&refs, 4080, FileSeed(7))[0].bytes;
        for length in 0..bytes.len() {
            assert!(
                DocumentBlock::decode(&bytes[..length]).is_err(),
                "{length} bytes"
            );
        }
    }
}
