//! What a directory says of a block, so that blocks are left out without being read.
//!
//! Entry: its last row, its checksum and the numbers of its rows. Extent: the times and the scopes of the documents of
//! a block, or of many. Filter: whether there may be rows with a certain prefix, in a block or in a run.

use xxhash_rust::xxh3::xxh3_64;

use super::envelope::{Fields, Problem};

/// What a directory says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<R> {
    /// The last row of the block.
    pub(crate) high: R,
    pub(crate) id: BlockId,
    /// The checksum of its bytes.
    pub(crate) checksum: u64,
    /// The number of rows it puts.
    pub(crate) puts: u16,
    /// The number of rows it marks.
    pub(crate) marks: u16,
}

const _: () = assert!(size_of::<Entry<u64>>() == 32);

/// The level and the number of a block. No other block of the file has this number, and it is never used
/// again. So the cache knows blocks by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(u64);

impl BlockId {
    const NUMBER_BITS: u32 = 56;
    /// The greatest number that a block may have. Numbers begin at 1, and no file reaches this one.
    pub(crate) const MAX_NUMBER: u64 = (1 << Self::NUMBER_BITS) - 1;
    /// The greatest number of a level. The cache needs the two bits above.
    pub(crate) const MAX_LEVEL: u8 = (1 << (62 - Self::NUMBER_BITS)) - 1;

    /// The block of a level with this number.
    pub(crate) fn new(level: u8, number: u64) -> Self {
        debug_assert!(level <= Self::MAX_LEVEL && number <= Self::MAX_NUMBER);
        Self(u64::from(level) << Self::NUMBER_BITS | number)
    }

    pub(crate) fn level(self) -> u8 {
        (self.0 >> Self::NUMBER_BITS) as u8
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & Self::MAX_NUMBER
    }

    /// Both in one number, below 2^62.
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// What a directory says of the documents of a block, or of the blocks of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The least and the greatest time seen.
    pub(crate) least_seen: i64,
    pub(crate) greatest_seen: i64,
    /// The scopes of its documents without a fingerprint, as [`scope_bit`]s. No posting lists these documents.
    pub(crate) unposted: u64,
}

impl Extent {
    /// The bytes that it takes in a stored value.
    pub(crate) const BYTES: usize = 24;

    /// The extent of nothing.
    pub(crate) const EMPTY: Self = Self {
        least_seen: i64::MAX,
        greatest_seen: i64::MIN,
        unposted: 0,
    };

    /// The extent of what both are the extents of.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            least_seen: self.least_seen.min(other.least_seen),
            greatest_seen: self.greatest_seen.max(other.greatest_seen),
            unposted: self.unposted | other.unposted,
        }
    }

    /// Adds it to a stored value.
    pub(crate) fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.least_seen.to_le_bytes());
        bytes.extend(self.greatest_seen.to_le_bytes());
        bytes.extend(self.unposted.to_le_bytes());
    }

    /// Reads it back.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let extent = Self {
            least_seen: i64::from_le_bytes(fields.take()?),
            greatest_seen: i64::from_le_bytes(fields.take()?),
            unposted: u64::from_le_bytes(fields.take()?),
        };
        if extent.least_seen > extent.greatest_seen {
            Err("its times are out of order")
        } else {
            Ok(extent)
        }
    }
}

/// The bit of a scope in [`Extent::unposted`]. Scopes share bits. It is part of the format.
pub(crate) fn scope_bit(scope: &str) -> u64 {
    1 << (xxh3_64(scope.as_bytes()) >> 58)
}

// Filters. Each is a Bloom filter in which the bits of one row lie in one line of the processor's cache (Putze,
// Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, WEA 2007). With about 11 bits for each row, one in
// a hundred prefixes that are not there passes.

const LINE_WORDS: usize = 8;
const LINE_BITS: u64 = 64 * LINE_WORDS as u64;
/// The rows that share a line.
const ROWS_PER_LINE: usize = 48;
/// The most lines of the filter of a block. With more, entries would not fit into chunks. Few blocks have
/// rows for more.
pub(crate) const MAX_BLOCK_LINES: usize = 32;
/// The number of bits that a row sets. Nine bits of a mixed word choose each of them.
const BITS_PER_ROW: u32 = 6;

/// The bytes of a line.
pub(crate) const LINE_BYTES: usize = 8 * LINE_WORDS;

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Line([u64; LINE_WORDS]);

/// A filter over prefixes. The prefixes must be hashes already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Box<[Line]>);

impl Filter {
    /// A filter of at most `most` lines that these prefixes pass. `count` is their number.
    pub(crate) fn new(prefixes: impl Iterator<Item = u64>, count: usize, most: usize) -> Self {
        let lines = count.div_ceil(ROWS_PER_LINE).min(most);
        let mut lines = vec![Line([0; LINE_WORDS]); lines].into_boxed_slice();
        for prefix in prefixes {
            let Line(words) = &mut lines[line_of(prefix, lines.len())];
            bits(prefix).for_each(|bit| words[(bit / 64) as usize] |= 1 << (bit % 64));
        }
        Self(lines)
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.0
    }

    /// Whether there may be a row with this prefix. An empty filter lets every prefix pass.
    pub(crate) fn passes(&self, prefix: u64) -> bool {
        lines_pass(&self.0, prefix)
    }
}

/// Whether there may be a row with this prefix, by the lines of a filter. If there are no lines, every
/// prefix passes.
pub(crate) fn lines_pass(lines: &[Line], prefix: u64) -> bool {
    let Some(Line(words)) = lines.get(line_of(prefix, lines.len())) else {
        return true;
    };
    // All bits are tested without a branch for each. The processor can predict the one branch that
    // remains. So it goes on to the next filter while it waits for this line.
    bits(prefix).fold(1, |all, bit| all & words[(bit / 64) as usize] >> (bit % 64)) != 0
}

/// The line of a row. The lower half of the prefix chooses it, since the first bits are the same in all
/// rows of a block.
fn line_of(prefix: u64, lines: usize) -> usize {
    ((prefix & 0xffff_ffff) as usize * lines) >> 32
}

/// The bits that a row sets in its line.
fn bits(prefix: u64) -> impl Iterator<Item = u64> {
    let mixed = prefix.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1..=BITS_PER_ROW).map(move |i| (mixed >> (64 - 9 * i)) % LINE_BITS)
}

/// Appends the number of lines, and the lines.
pub(crate) fn encode_lines(lines: &[Line], bytes: &mut Vec<u8>) {
    bytes.push(lines.len() as u8);
    lines
        .iter()
        .flat_map(|Line(words)| words)
        .for_each(|word| bytes.extend(word.to_le_bytes()));
}

/// Reads back the lines that [`encode_lines`] appended. `bytes` begin behind the number of lines.
pub(crate) fn decode_lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let words = bytes.as_chunks().0.chunks_exact(LINE_WORDS);
    words.map(|words| Line(std::array::from_fn(|i| u64::from_le_bytes(words[i]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_passes_and_little_else() {
        let prefix = |i: u64| {
            i.wrapping_mul(0xd6e8_feb8_6659_fd93)
                .rotate_left(29)
                .wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        let filter = Filter::new((0..400).map(prefix), 400, 99);
        let mut bytes = Vec::new();
        encode_lines(filter.lines(), &mut bytes);
        assert_eq!(bytes.len(), 1 + filter.lines().len() * LINE_BYTES);
        assert!(decode_lines(&bytes[1..]).eq(filter.lines().iter().copied()));
        assert!((0..400).all(|i| filter.passes(prefix(i))));
        let passing = (400..100_400).filter(|&i| filter.passes(prefix(i))).count();
        assert!(passing < 1_500, "{passing} of 100000");
    }

    #[test]
    fn without_a_filter_everything_passes() {
        assert!(Filter::default().passes(7));
    }
}
