//! Blocks as bytes and bits: the header before the rows, reading at any bit, writing numbers of any width.

/// The most bytes a block takes.
pub(crate) const BLOCK_BYTES: usize = 4_080;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const BODY_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;
pub(crate) const BODY_BITS: usize = BODY_BYTES * 8;

/// The header of a block, before its rows. The first eight bytes are left to the checksum.
#[derive(Clone, Copy, Default)]
pub(crate) struct Header {
    pub(crate) first: u64,
    pub(crate) rows: usize,
    /// The width of a row, in the unit of the packing. For keyed rows, the width of the hash.
    pub(crate) width: usize,
    /// For keyed rows, the width of the number.
    pub(crate) number_width: usize,
}

impl Header {
    pub(crate) fn write(self, block: &mut [u8]) {
        block[8..16].copy_from_slice(&self.first.to_le_bytes());
        block[16..18].copy_from_slice(&(self.rows as u16).to_le_bytes());
        block[18] = self.width as u8;
        block[19] = self.number_width as u8;
    }

    pub(crate) fn read(page: &Page) -> Self {
        let [low, high, width, number_width, ..] = page.word(16).to_le_bytes();
        let rows = u16::from_le_bytes([low, high]);
        Self {
            first: page.word(8),
            rows: rows.into(),
            width: width.into(),
            number_width: number_width.into(),
        }
    }
}

/// A block, and room after it. So a word may begin at each of its bytes.
pub(crate) struct Page([u8; 4096 + 16]);

impl Page {
    pub(crate) const EMPTY: Self = Self([0; 4096 + 16]);

    pub(crate) fn fill(&mut self, block: &[u8]) {
        self.0[..block.len()].copy_from_slice(block);
    }

    /// The eight bytes from `byte` on. The mask changes no index of a block, and the compiler leaves out
    /// the check of bounds.
    #[inline(always)]
    pub(crate) fn word(&self, byte: usize) -> u64 {
        let byte = byte & 4095;
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[byte..byte + 8]);
        u64::from_le_bytes(word)
    }

    /// The bits from `bit` on, of which the lowest 57 are always there.
    #[inline(always)]
    pub(crate) fn bits(&self, bit: usize) -> u64 {
        self.word(bit >> 3) >> (bit & 7)
    }

    /// All 64 bits from `bit` on.
    #[inline(always)]
    pub(crate) fn wide_bits(&self, bit: usize) -> u64 {
        let above = self.word((bit >> 3) + 1) >> 56;
        self.bits(bit) | (above << 1) << (63 - (bit & 7))
    }
}

/// The number of bits that one unaligned word always has.
pub(crate) const WORD_BITS: usize = 57;

/// Numbers of any width, written one after the other from the lowest bit up.
pub(crate) struct Bits<'a> {
    bytes: &'a mut Vec<u8>,
    word: u64,
    used: usize,
}

impl<'a> Bits<'a> {
    /// Appends to `bytes`.
    pub(crate) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self {
            bytes,
            word: 0,
            used: 0,
        }
    }

    pub(crate) fn put(&mut self, number: u64, width: usize) {
        self.word |= number.unbounded_shl(self.used as u32);
        self.used += width;
        if self.used >= 64 {
            self.bytes.extend(self.word.to_le_bytes());
            self.used -= 64;
            self.word = number.unbounded_shr((width - self.used) as u32);
        }
    }

    /// Writes `zeros` zeros, then a one.
    pub(crate) fn put_unary(&mut self, zeros: u64) {
        for _ in 0..zeros / 63 {
            self.put(0, 63);
        }
        self.put(1 << (zeros % 63), (zeros % 63) as usize + 1);
    }

    /// Writes the last bits, and fills the last byte with zeros.
    pub(crate) fn finish(self) {
        self.bytes
            .extend(&self.word.to_le_bytes()[..self.used.div_ceil(8)]);
    }
}

/// A word whose lowest `width` bits are set.
pub(crate) fn low_bits(width: usize) -> u64 {
    u64::MAX.unbounded_shr(64 - width as u32)
}

/// The number of bits that `number` needs.
pub(crate) fn width_of(number: u64) -> usize {
    (64 - number.leading_zeros()) as usize
}
