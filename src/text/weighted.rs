//! Features that the caller brings, with their weights.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};

/// The units of a weight of 1. Weights are whole numbers of units, so that no sum depends on its order, and every
/// machine makes the same fingerprint.
const UNITS: f64 = 16.0;

/// The largest sum of the weights of a text. Minwise samples take a hash for each unit.
pub(super) const MOST_WEIGHT: f64 = (1u64 << 20) as f64;

/// Distinct features by their hash, each with its weight in units.
pub(super) struct Weighted {
    features: Vec<(u64, u32)>,
}

impl Weighted {
    /// These features, hashed with `seed`. The weights of a feature that comes several times are added.
    pub(super) fn of<F: AsRef<[u8]>>(
        features: impl IntoIterator<Item = (F, f64)>,
        seed: u64,
    ) -> Result<Self> {
        let (mut units, mut sum) = (Vec::new(), 0.0);
        for (feature, weight) in features {
            sum += weight;
            // What is not a number fails both comparisons.
            if !(weight > 0.0 && sum <= MOST_WEIGHT) {
                return Err(Error::FeatureWeight {
                    given: weight,
                    most: MOST_WEIGHT,
                });
            }
            let hash = xxh3_64_with_seed(feature.as_ref(), seed);
            units.push((hash, (weight * UNITS).round().max(1.0) as u32));
        }
        units.sort_unstable();
        units.dedup_by(|again, first| {
            let is_same = again.0 == first.0;
            first.1 += if is_same { again.1 } else { 0 };
            is_same
        });
        Ok(Self { features: units })
    }

    /// The number of distinct features.
    pub(super) fn len(&self) -> usize {
        self.features.len()
    }

    /// Each feature with its weight in units.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + Clone {
        self.features.iter().copied()
    }

    /// A hash for each unit of each feature, made with `seed`. The similarity of two sets of units is the weighted
    /// similarity of the features: the sum of the lesser weights, divided by the sum of the greater ones.
    ///
    /// # References
    ///
    /// Haveliwala, Gionis, Indyk: Scalable Techniques for Clustering the Web, WebDB 2000, section 4. It is
    /// consistent weighted sampling (Manasse, McSherry, Talwar 2010) for whole weights, without logarithms, which
    /// differ between machines.
    pub(super) fn units(&self, seed: u64) -> Vec<u64> {
        let unit = |hash: u64, unit: u32| {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&hash.to_le_bytes());
            bytes[8..].copy_from_slice(&unit.to_le_bytes());
            xxh3_64_with_seed(&bytes, seed)
        };
        self.iter()
            .flat_map(|(hash, units)| (0..units).map(move |it| unit(hash, it)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_feature_are_added_and_counted_in_sixteenths() -> Result<()> {
        let made = Weighted::of([("a", 1.0), ("b", 0.5), ("a", 2.0), ("c", 1e-9)], 7)?;
        let mut units: Vec<u32> = made.iter().map(|(_, units)| units).collect();
        units.sort_unstable();
        assert_eq!((units, made.len()), (vec![1, 8, 48], 3));
        let mut units = made.units(9);
        assert_eq!(units.len(), 57);
        units.sort_unstable();
        units.dedup();
        assert_eq!(units.len(), 57, "units differ");
        // What has more weight has the units of what has less.
        let more = Weighted::of([("a", 4.0)], 7)?.units(9);
        assert!(
            Weighted::of([("a", 3.0)], 7)?
                .units(9)
                .iter()
                .all(|unit| more.contains(unit))
        );
        Ok(())
    }

    #[test]
    fn impossible_weights_are_refused() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, MOST_WEIGHT + 1.0] {
            let refused = Weighted::of([("a", 1.0), ("b", weight)], 7).err();
            assert!(
                matches!(refused, Some(Error::FeatureWeight { .. })),
                "{weight}"
            );
        }
        let many = (0..=1 << 20).map(|i: u32| (i.to_le_bytes(), 1.0));
        assert!(matches!(
            Weighted::of(many, 7),
            Err(Error::FeatureWeight { .. })
        ));
    }
}
