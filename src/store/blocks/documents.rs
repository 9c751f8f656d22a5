//! Blocks of documents, in the order of their numbers: reading, and documents in memory.
//!
//! A block has a column for each part of fixed length, then all keys, then all extras. These may be compressed
//! as a whole. The sketches come last. They cannot be made smaller.

use serde::{Deserialize, Serialize};

use super::envelope::{self, Fields, Problem};
use super::packed::decode_column;
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::store::lookup::{partition_point_from, prefetch_at};

/// Kind and version of a block of documents.
pub(super) const KIND: u8 = 17;
pub(super) const VERSION: u8 = 3;
/// How the rest of the block is encoded.
pub(super) const PLAIN: u8 = 0;
pub(super) const LZ4: u8 = 1;

/// Bit of the flags: the document has a fingerprint.
const HAS_FINGERPRINT: u64 = 1;

/// The most documents of a block, and the most bytes before compression. One document may have 70,000 bytes.
pub(super) const MAX_DOCUMENTS: usize = 4096;
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
    pub(super) repeats: u32,
    pub(crate) key: &'a [u8],
    pub(super) sketch: Option<SketchRef<'a>>,
    /// Rank, scope and payload in bincode. Empty if all three are empty.
    pub(super) extras: &'a [u8],
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
pub(super) struct SketchRef<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) shingles: u32,
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
        let without = shingles
            .iter()
            .zip(bytes.chunks(size.bytes()))
            .filter(|(count, _)| **count == 0);
        if without
            .into_iter()
            .any(|(_, sketch)| sketch.iter().any(|&byte| byte != 0))
        {
            return Err("it has a sketch without shingles");
        }
        Ok(Self {
            size: size.bytes(),
            bytes: bytes.to_vec(),
            shingles,
        })
    }
}
