//! The sketches of the documents of a block, in the order of the documents.

use super::envelope::{Fields, Problem};
use super::packed::decode_column;
use crate::sketch::{Sketch, SketchSize};
use crate::store::lookup::prefetch_at;

/// A sketch in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct SketchRef<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) shingles: u32,
}

impl<'a> SketchRef<'a> {
    pub(super) fn of(sketch: &'a Sketch) -> Self {
        Self {
            bytes: sketch.as_bytes(),
            shingles: sketch.shingles(),
        }
    }

    pub(super) fn to_sketch(self) -> Result<Sketch, Problem> {
        Sketch::new(self.bytes, self.shingles).map_err(|_| "its sketch is impossible")
    }
}

/// The sketches of some documents. Nothing is kept as long as no document has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketches {
    /// The bytes of each.
    size: usize,
    /// Zeros for a document without a sketch.
    bytes: Vec<u8>,
    /// The number of shingles of each. 0 stands for no sketch.
    shingles: Vec<u32>,
}

impl Sketches {
    /// Adds the sketch of a document, after those of `before` documents. All sketches have one size.
    pub(super) fn push(&mut self, before: usize, sketch: Option<SketchRef<'_>>) {
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

    pub(super) fn get(&self, index: usize) -> Option<SketchRef<'_>> {
        let &shingles = self.shingles.get(index).filter(|&&shingles| shingles > 0)?;
        Some(SketchRef {
            bytes: &self.bytes[index * self.size..(index + 1) * self.size],
            shingles,
        })
    }

    /// Fetches what [`get`](Self::get) reads.
    pub(super) fn prefetch(&self, index: usize) {
        prefetch_at(&self.shingles, index);
        prefetch_at(&self.bytes, index * self.size);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.shingles[..])
    }

    /// Reads the column of the numbers of shingles. `bytes` is the sketches themselves.
    pub(super) fn decode(
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
