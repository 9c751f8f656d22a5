//! Packing documents into blocks.
//!
//! A block is compressed if that makes it smaller by a sixth, its sketches not counted. A short block is also
//! compressed if that saves less.

use super::documents::{DocumentRef, KIND, LZ4, MAX_DOCUMENTS, PLAIN, VERSION};
use super::entry::{Extent, scope_bit};
use super::envelope::FileSeed;
use super::filter::Filter;
use super::packed::{Packed, column_bytes, encode_column};
use crate::fingerprint::Fingerprint;

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
    let of = |document: &DocumentRef<'_>| {
        let unposted = match document.fingerprint {
            Some(_) => 0,
            // If the scope cannot be read, whoever looks for it has to see the document.
            None => document.scope().map_or(u64::MAX, scope_bit),
        };
        Extent {
            least_seen: document.seen,
            greatest_seen: document.seen,
            unposted,
        }
    };
    documents.iter().map(of).fold(Extent::EMPTY, Extent::with)
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
    let (mut seen, mut keys, mut extras, mut numbers) =
        (Bounds::EMPTY, Bounds::EMPTY, Bounds::EMPTY, Bounds::EMPTY);
    let mut flags = Bounds::EMPTY;
    let mut repeats = Bounds::EMPTY;
    let mut shingles = Bounds::EMPTY;
    let mut bytes = 0;
    let mut sketch = 0;
    for (index, document) in documents.iter().enumerate().take(MAX_DOCUMENTS) {
        // The least time is not known yet. So each time becomes an unsigned number, in the same order.
        seen.add((document.seen as u64) ^ (1 << 63));
        keys.add(document.key.len() as u64);
        extras.add(document.extras.len() as u64);
        numbers.add((document.number - first.number) - index as u64);
        flags.add(u64::from(document.fingerprint.is_some()));
        repeats.add(document.repeats.into());
        bytes += 8 + document.key.len() + document.extras.len();
        shingles.add(document.sketch.map_or(0, |sketch| sketch.shingles.into()));
        sketch = sketch.max(document.sketch.map_or(0, |sketch| sketch.bytes.len()));
        let columns = [&seen, &keys, &extras, &numbers, &flags, &repeats, &shingles];
        let columns: usize = columns.iter().map(|column| column.bytes(index + 1)).sum();
        if HEADER_BYTES + 16 + bytes + columns + sketch * (index + 1) > limit {
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
    const EMPTY: Self = Self {
        low: u64::MAX,
        high: 0,
    };

    fn add(&mut self, value: u64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    fn bytes(&self, count: usize) -> usize {
        column_bytes(count, self.low, self.high)
    }
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
    use crate::document::Document;
    use crate::sketch::Sketch;
    use crate::store::blocks::documents::DocumentBlock;
    use crate::store::blocks::envelope::{self, Problem};

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
