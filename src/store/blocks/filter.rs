//! Filters of blocks: whether a block may have rows with certain leading bits, told without reading it.
//!
//! A Bloom filter whose bits for one row lie in one line of the processor's cache (Putze, Sanders, Singler: Cache-, Hash-
//! and Space-Efficient Bloom Filters, WEA 2007). With about 11 bits a row, one in a hundred of the rows that are not there passes.

const LINE_WORDS: usize = 8;
const LINE_BITS: u64 = 64 * LINE_WORDS as u64;
/// How many rows share a line.
const ROWS_PER_LINE: usize = 48;
/// The most lines of the filter of a block, so that entries fit into chunks. Blocks of so many rows are rare.
pub(crate) const MAX_BLOCK_LINES: usize = 32;
/// How many bits a row sets; each takes nine bits of a mixed word.
const BITS_PER_ROW: u32 = 6;

/// How many bytes a line takes.
pub(crate) const LINE_BYTES: usize = 8 * LINE_WORDS;

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Line([u64; LINE_WORDS]);

/// A filter over leading bits that are themselves a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Box<[Line]>);

impl Filter {
    /// A filter of at most `most` lines that the given leading bits pass.
    pub(crate) fn new(leads: impl Iterator<Item = u64>, count: usize, most: usize) -> Self {
        let lines = count.div_ceil(ROWS_PER_LINE).min(most);
        let mut lines = vec![Line([0; LINE_WORDS]); lines].into_boxed_slice();
        for lead in leads {
            let Line(words) = &mut lines[line_of(lead, lines.len())];
            bits(lead).for_each(|bit| words[(bit / 64) as usize] |= 1 << (bit % 64));
        }
        Self(lines)
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.0
    }

    /// Whether there may be a row with these leading bits; without a filter, always.
    pub(crate) fn passes(&self, lead: u64) -> bool {
        passes(&self.0, lead)
    }
}

/// Whether there may be a row with these leading bits, by the lines of a filter; without any, always.
pub(crate) fn passes(lines: &[Line], lead: u64) -> bool {
    let Some(Line(words)) = lines.get(line_of(lead, lines.len())) else { return true };
    // All bits, without a branch for each: only the last is foreseeable, so that the processor goes on to the next filter
    // while it waits for this line.
    bits(lead).fold(1, |all, bit| all & words[(bit / 64) as usize] >> (bit % 64)) != 0
}

/// The line of a row, by its last bits: the first are the same for all rows of a block.
fn line_of(lead: u64, lines: usize) -> usize {
    ((lead & 0xffff_ffff) as usize * lines) >> 32
}

/// Which bits of its line a row sets.
fn bits(lead: u64) -> impl Iterator<Item = u64> {
    let mixed = lead.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1..=BITS_PER_ROW).map(move |i| (mixed >> (64 - 9 * i)) % LINE_BITS)
}

/// Appends how many lines there are, and the lines.
pub(crate) fn encode(lines: &[Line], bytes: &mut Vec<u8>) {
    bytes.push(lines.len() as u8);
    lines.iter().flat_map(|Line(words)| words).for_each(|word| bytes.extend(word.to_le_bytes()));
}

/// The lines that [`encode`] appended behind their number.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let words = bytes.as_chunks().0.chunks_exact(LINE_WORDS);
    words.map(|words| Line(std::array::from_fn(|i| u64::from_le_bytes(words[i]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_passes_and_little_else() {
        let lead = |i: u64| {
            i.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29).wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        let filter = Filter::new((0..400).map(lead), 400, 99);
        let mut bytes = Vec::new();
        encode(filter.lines(), &mut bytes);
        assert_eq!(bytes.len(), 1 + filter.lines().len() * LINE_BYTES);
        assert!(decode(&bytes[1..]).eq(filter.lines().iter().copied()));
        assert!((0..400).all(|i| filter.passes(lead(i))));
        let passing = (400..100_400).filter(|&i| filter.passes(lead(i))).count();
        assert!(passing < 1_500, "{passing} of 100000");
    }

    #[test]
    fn without_a_filter_everything_passes() {
        assert!(Filter::default().passes(7));
    }
}
