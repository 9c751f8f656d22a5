//! Packing what is copied. Each piece is packed on its own, so all cores can.

use std::io::{self, Write as _};
use std::mem;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::work::Written;
use crate::ingest::Packing;
use crate::parallel;

/// Some of what is copied.
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) content: Content,
    /// How far the inputs are read behind it. `None` within a record.
    pub(super) behind: Option<Written>,
}

/// What is in a piece.
pub(super) enum Content {
    /// Records, and where they end in it if each is packed on its own.
    Records(Vec<usize>),
    /// A part of a long record that is packed on its own.
    OfRecord { is_last: bool },
}

/// Packs pieces.
pub(super) struct Packer {
    packing: Packing,
    /// The long record that is being packed.
    long: Option<Part>,
}

impl Packer {
    pub(super) fn new(packing: Packing) -> Self {
        Self {
            packing,
            long: None,
        }
    }

    /// The same pieces, with their bytes packed, on all cores. Those of a long record are packed one after the other.
    pub(super) fn pack(&mut self, pieces: Vec<Piece>) -> impl Iterator<Item = io::Result<Piece>> {
        let packing = self.packing;
        let packed = parallel::map_each(pieces, |mut piece| {
            if let Content::Records(ends) = &piece.content {
                piece.bytes = packed(mem::take(&mut piece.bytes), ends, packing)?;
            }
            Ok(piece)
        });
        packed.into_iter().map(|piece: io::Result<Piece>| {
            let mut piece = piece?;
            if let Content::OfRecord { is_last } = piece.content {
                piece.bytes = self.pack_long(&piece.bytes, is_last)?;
            }
            Ok(piece)
        })
    }

    fn pack_long(&mut self, bytes: &[u8], is_last: bool) -> io::Result<Vec<u8>> {
        let mut part = self
            .long
            .take()
            .map_or_else(|| Part::begin(self.packing), Ok)?;
        part.add(bytes)?;
        if is_last {
            return part.end();
        }
        let packed = part.take();
        self.long = Some(part);
        Ok(packed)
    }
}

/// Packs bytes: in one part, or the bytes up to each of these ends in a part of their own.
fn packed(bytes: Vec<u8>, ends: &[usize], packing: Packing) -> io::Result<Vec<u8>> {
    if packing == Packing::None {
        return Ok(bytes);
    }
    let mut packed = Vec::with_capacity(bytes.len() / 3);
    let mut from = 0;
    for &end in ends.iter().chain([&bytes.len()]) {
        if end > from {
            pack(&bytes[from..end], packing, &mut packed)?;
        }
        from = end;
    }
    Ok(packed)
}

/// A file that holds nothing.
pub(super) fn empty(packing: Packing) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    pack(&[], packing, &mut packed)?;
    Ok(packed)
}

fn pack(bytes: &[u8], packing: Packing, to: &mut Vec<u8>) -> io::Result<()> {
    let mut part = Part::begin(packing)?;
    part.add(bytes)?;
    to.append(&mut part.end()?);
    Ok(())
}

/// A part that is packed piece by piece.
enum Part {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl Part {
    fn begin(packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::None => Self::Plain(Vec::new()),
            Packing::Parquet => unreachable!("its rows are copied, and not its bytes"),
            Packing::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(packed) => packed.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Takes what is packed so far.
    fn take(&mut self) -> Vec<u8> {
        mem::take(match self {
            Self::Plain(packed) => packed,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// What is packed and was not taken, with the end of the part.
    fn end(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(packed) => Ok(packed),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
