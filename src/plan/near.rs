//! Comparing many rows of a table with a query: with the vector instructions the processor has, chosen when the program runs.
//!
//! The loop is plain, and the compiler makes of it what each set of instructions allows; this module only names them.
#![allow(
    unsafe_code,
    reason = "the calls of functions compiled for other processors, which `multiversion` checks first"
)]

use multiversion::multiversion;

/// So many rows are compared before it is asked whether any was near.
const TOGETHER: usize = 32;

/// Calls `each` with every row that differs from `query` in at most `max_distance` bits, and the distance.
pub(super) fn each_near(rows: &[u64], query: u64, max_distance: u32, mut each: impl FnMut(u64, u32)) {
    for rows in rows.chunks(TOGETHER) {
        if count_near(rows, query, max_distance) > 0 {
            for &row in rows {
                let distance = (row ^ query).count_ones();
                if distance <= max_distance {
                    each(row, distance);
                }
            }
        }
    }
}

/// How many of the rows differ in at most `max_distance` bits.
#[multiversion(targets(
    "x86_64+avx512f+avx512vl+avx512vpopcntdq",
    "x86_64+avx2+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn count_near(rows: &[u64], query: u64, max_distance: u32) -> u32 {
    rows.iter().map(|row| u32::from((row ^ query).count_ones() <= max_distance)).sum()
}
