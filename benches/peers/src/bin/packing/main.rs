//! Ways to pack sorted rows into blocks: the bytes per row, and the time to pack and unpack a row.
//!
//! Each packing fills blocks of at most 4,080 bytes. A header takes 24 of them: the space of a checksum,
//! which is not computed here, the first row, the number of rows and the widths. A block takes rows while
//! they fit. So all blocks have about the same size and differ in the number of rows. Unpacking first
//! copies the block into a buffer where reading past the end of the block is harmless. The time includes
//! this copy. The output stays in the caches of the processor, as it does where rows are compared while
//! they are unpacked.
//!
//! Corpora: `uniform/N` is rows with the gaps of N random numbers, from a fixed seed. There are at most
//! two million rows, which are a part of the range for larger N. `real/N` is a file of N fingerprints in
//! the four rotations by 16 bits, each sorted. `keyed/N` is hashes with the gaps of N random numbers, each
//! with a random number below N, as in a table from hashes to document numbers. Packed rows are unpacked
//! and compared before the timing. Times are medians of seven passes over a whole corpus, with the least
//! and greatest.

mod page;
mod ways;

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;

use page::{BLOCK_BYTES, HEADER_BYTES, Page};
use ways::{KEYED_PACKINGS, Keyed, PACKINGS, Packing};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PASSES: usize = 7;
const ROWS: u64 = 2_000_000;

#[derive(Parser)]
#[command(about = "Compare ways to pack sorted rows into blocks")]
struct Arguments {
    /// A file of real fingerprints, all different: 64-bit little-endian words.
    file: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    println!(
        "| corpus | packing | rows a block | bytes a row | pack, ns a row | unpack, ns a row |"
    );
    println!("|---|---|---|---|---|---|");
    for stored in [1_000_000, 10_000_000, 100_000_000] {
        measure(
            &format!("uniform/{stored:.0e}", stored = stored as f64),
            &[uniform(stored)],
            &PACKINGS,
        )?;
    }
    if let Some(file) = arguments.file {
        let real = rotations(&std::fs::read(file)?);
        measure(&format!("real/{}", real[0].len()), &real, &PACKINGS)?;
    }
    for stored in [1_000_000, 10_000_000, 100_000_000] {
        let keyed: Vec<Keyed> = uniform(stored)
            .into_iter()
            .enumerate()
            .map(|(n, hash)| (hash, random(n as u64) % stored))
            .collect();
        measure(
            &format!("keyed/{stored:.0e}", stored = stored as f64),
            &[keyed],
            &KEYED_PACKINGS,
        )?;
    }
    Ok(())
}

/// SplitMix64: the n-th value of the sequence with seed 0.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Rows with the gaps of `stored` random rows.
fn uniform(stored: u64) -> Vec<u64> {
    let rows = stored.min(ROWS);
    let part_of_range =
        |n| ((u128::from(random(n)) * u128::from(rows)) / u128::from(stored)) as u64;
    let mut sorted: Vec<u64> = (0..rows).map(part_of_range).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// The fingerprints of a file in the order of each of four permuted tables.
fn rotations(bytes: &[u8]) -> Vec<Vec<u64>> {
    let fingerprints = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word));
    let rotated = |by| {
        let mut sorted: Vec<u64> = fingerprints
            .clone()
            .map(|bits| bits.rotate_left(by))
            .collect();
        sorted.sort_unstable();
        sorted
    };
    [0, 16, 32, 48].map(rotated).to_vec()
}

/// Prints a line for each packing of these runs.
fn measure<Row: Copy + PartialEq>(
    corpus: &str,
    runs: &[Vec<Row>],
    packings: &[Packing<Row>],
) -> Result<()> {
    let rows = runs.iter().map(Vec::len).sum::<usize>() as f64;
    let mut page = Page::EMPTY;
    for packing in packings {
        let blocks: Vec<Vec<u8>> = runs.iter().flat_map(|run| packed(packing, run)).collect();
        let mut unpacked = Vec::new();
        for block in &blocks {
            page.fill(block);
            (packing.unpack)(&page, &mut unpacked);
        }
        if unpacked != runs.concat() {
            return Err(format!(
                "{corpus}: {} does not give back what it was given",
                packing.name
            )
            .into());
        }
        let pack = nanoseconds_a_row(rows, || {
            for run in runs {
                pack_run(packing, run, |block| {
                    black_box(block);
                });
            }
        });
        let unpack = nanoseconds_a_row(rows, || {
            for block in &blocks {
                page.fill(block);
                unpacked.clear();
                (packing.unpack)(&page, &mut unpacked);
                black_box(&unpacked);
            }
        });
        let bytes = blocks.iter().map(Vec::len).sum::<usize>() as f64;
        let rows_a_block = rows / blocks.len() as f64;
        println!(
            "| `{corpus}` | {} | {rows_a_block:.0} | {:.2} | {pack} | {unpack} |",
            packing.name,
            bytes / rows
        );
    }
    Ok(())
}

fn packed<Row>(packing: &Packing<Row>, run: &[Row]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    pack_run(packing, run, |block| blocks.push(block.to_vec()));
    blocks
}

/// Packs a run, and calls `each` with every block.
fn pack_run<Row>(packing: &Packing<Row>, mut run: &[Row], mut each: impl FnMut(&[u8])) {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    while !run.is_empty() {
        block.clear();
        block.resize(HEADER_BYTES, 0);
        let rows = (packing.pack)(run, &mut block);
        assert!(
            rows > 0 && block.len() <= BLOCK_BYTES,
            "{} overfills a block",
            packing.name
        );
        each(&block);
        run = &run[rows..];
    }
}

/// The median of the passes, with the least and greatest, as text.
fn nanoseconds_a_row(rows: f64, mut work: impl FnMut()) -> String {
    let mut times = [0.0; PASSES];
    for time in &mut times {
        let begin = Instant::now();
        work();
        *time = begin.elapsed().as_secs_f64() * 1e9 / rows;
    }
    times.sort_by(f64::total_cmp);
    format!(
        "{:.2} ({:.2} to {:.2})",
        times[PASSES / 2],
        times[0],
        times[PASSES - 1]
    )
}
