//! Product: a number that stands for many rows, whatever their order. Equal rows have equal products.
//!
//! The field is that of the numbers modulo the prime 2^127 - 1. A row of two words stands for the factor
//! `r + s * low + high`, with `r` and `s` drawn at random for each check. As polynomials in `r` and `s`,
//! different factors have no common divisor. So different rows have different polynomials. Two different
//! polynomials of degree n agree at a random point with a chance of at most n / 2^127 (Schwartz and
//! Zippel). So if a set of a billion rows is wrong, that stays unnoticed with a chance of at most 2^-97.
//! This holds for all rows that were chosen before `r` and `s` were drawn.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::MulAssign;

use crate::store::blocks::Row;

const PRIME: u128 = (1 << 127) - 1;

/// Rows are dealt into this number of buckets, each with a product of its own. So the rows that differ can
/// be looked for in few of them.
pub(super) const BUCKETS: usize = 1024;

/// The random numbers of a check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret {
    r: u128,
    s: u128,
    spread: u64,
}

impl Secret {
    pub(super) fn new() -> Self {
        // The standard library draws the seeds of its hash tables from the system.
        let state = RandomState::new();
        let mut words = [0; 5];
        for (index, word) in words.iter_mut().enumerate() {
            let mut hasher = state.build_hasher();
            hasher.write_usize(index);
            *word = hasher.finish();
        }
        let [r_high, r_low, s_high, s_low, spread] = words;
        Self {
            r: (u128::from(r_high) << 64 | u128::from(r_low)) & PRIME,
            s: (u128::from(s_high) << 64 | u128::from(s_low)) & PRIME,
            spread: spread | 1,
        }
    }

    /// The bucket of a row. Neighbouring rows are in different buckets.
    pub(super) fn bucket<R: Row>(&self, row: R) -> usize {
        let (high, low) = words(row);
        let mixed = (high ^ low.rotate_left(32)).wrapping_mul(self.spread);
        // The upper half of the product depends on all bits.
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.spread);
        (mixed >> (64 - BUCKETS.ilog2())) as usize
    }
}

/// The product of some rows, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    /// Not above the prime, which stands for 0.
    value: u128,
    pub(super) rows: u64,
}

impl Default for Product {
    /// The product of no rows.
    fn default() -> Self {
        Self { value: 1, rows: 0 }
    }
}

impl MulAssign for Product {
    /// Adds all rows of another product.
    fn mul_assign(&mut self, other: Self) {
        self.value = multiplied(self.value, other.value);
        self.rows += other.rows;
    }
}

impl Product {
    /// Adds a row.
    #[inline]
    pub(super) fn add<R: Row>(&mut self, row: R, secret: &Secret) {
        let (high, low) = words(row);
        let by_high = folded(secret.r + u128::from(high));
        let by_low = multiplied(secret.s, u128::from(low));
        let factor = folded(by_high + by_low);
        self.value = multiplied(self.value, factor);
        self.rows += 1;
    }
}

/// The two words of a row.
#[inline]
fn words<R: Row>(row: R) -> (u64, u64) {
    if R::COLUMNS == 0 {
        (row.prefix(), 0)
    } else {
        (row.prefix(), row.number() as u64)
    }
}

/// A number that is equal modulo the prime, and not above the prime unless `number` is the greatest there
/// is.
#[inline]
const fn folded(number: u128) -> u128 {
    (number & PRIME) + (number >> 127)
}

/// The product of two numbers that are not above the prime, modulo the prime and not above it.
#[inline]
const fn multiplied(a: u128, b: u128) -> u128 {
    const HALF: u128 = u64::MAX as u128;
    let a1 = a >> 64;
    let a0 = a & HALF;
    let b1 = b >> 64;
    let b0 = b & HALF;
    // The upper halves have 63 bits. So no sum below has more than 128 bits.
    let middle = a0 * b1 + a1 * b0;
    // 2^127 is 1 modulo the prime.
    let upper = folded(2 * (a1 * b1) + ((middle << 64) & PRIME));
    folded(folded(upper + folded(a0 * b0)) + (middle >> 63))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The product by the school method, one bit after the other.
    fn slowly(a: u128, b: u128) -> u128 {
        let double = |number: u128| (number << 1) % PRIME;
        (0..127).rev().fold(0, |sum, bit| {
            let sum = double(sum);
            if b >> bit & 1 == 1 {
                (sum + a % PRIME) % PRIME
            } else {
                sum
            }
        })
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_field(a in 0..=PRIME, b in 0..=PRIME) {
            for (a, b) in [(a, b), (a, PRIME), (PRIME, PRIME), (PRIME - 1, PRIME - 1), (a, u128::from(u64::MAX))] {
                let product = multiplied(a, b);
                prop_assert!(product <= PRIME);
                prop_assert_eq!(product % PRIME, slowly(a, b));
            }
        }

        #[test]
        fn the_order_of_rows_does_not_matter_and_every_bit_does(
            rows in prop::collection::vec(any::<u128>(), 1..50), at in any::<prop::sample::Index>(), bit in 0..128,
        ) {
            let secret = Secret::new();
            let product = |rows: &[u128]| {
                let mut product = Product::default();
                rows.iter().for_each(|&row| product.add(row, &secret));
                product
            };
            let mut other = rows.clone();
            other.reverse();
            prop_assert_eq!(product(&rows), product(&other));
            let mut parts = product(&rows[..rows.len() / 2]);
            parts *= product(&rows[rows.len() / 2..]);
            prop_assert_eq!(product(&rows), parts);
            *at.get_mut(&mut other) ^= 1u128 << bit;
            prop_assert_ne!(product(&rows), product(&other));
        }
    }

    #[test]
    fn numbers_in_order_fill_all_buckets_alike() {
        let secret = Secret::new();
        let mut counts = vec![0u32; BUCKETS];
        (0..1u64 << 17).for_each(|row| counts[secret.bucket(row)] += 1);
        let most = counts.iter().max().copied().unwrap_or(0);
        assert!(
            most < 128 * 4,
            "{most} rows in one bucket, where 128 are the mean"
        );
    }
}
