//! Packing what is copied. Each piece is packed on its own, so all cores can.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::ingest::Packing;

/// Packs bytes: in one part, or the bytes up to each of these ends in a part of their own.
pub(super) fn packed(bytes: Vec<u8>, ends: &[usize], packing: Packing) -> io::Result<Vec<u8>> {
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
    match packing {
        Packing::None => to.extend_from_slice(bytes),
        #[cfg(feature = "parquet")]
        Packing::Parquet => unreachable!("its rows are copied, and not its bytes"),
        Packing::Gzip => {
            let mut encoder = GzEncoder::new(to, Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()?;
        }
        Packing::Zstd => {
            let mut encoder = zstd::Encoder::new(to, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            encoder.include_checksum(true)?;
            encoder.write_all(bytes)?;
            encoder.finish()?;
        }
    }
    Ok(())
}
