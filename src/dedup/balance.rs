//! The balance of two piles of records: whether they hold the same ones, in memory that does not grow with them.
//!
//! Each record goes into the bucket that its hash says. A bucket has the number of its records and the sum of their
//! hashes; what the other pile holds is taken off. If all buckets are empty at the end, both piles hold the same. If
//! some are not, the records of these alone are looked at again.

use std::collections::HashMap;

use super::claims::Identity;
use crate::ingest::RecordId;

const BUCKETS: usize = 1 << 16;

/// The balance of all records.
pub(super) struct Balance {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bucket {
    records: i64,
    /// The sum, which wraps around.
    hashes: u128,
}

/// The pile that a record lies on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pile {
    /// The records of the inputs that were not removed.
    Inputs,
    /// The records that were kept.
    Kept,
}

impl Balance {
    pub(super) fn new() -> Self {
        Self {
            buckets: vec![Bucket::default(); BUCKETS],
        }
    }

    /// Lays a record on a pile.
    pub(super) fn add(&mut self, identity: Identity, pile: Pile) {
        let hash = identity.hash();
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        match pile {
            Pile::Inputs => {
                bucket.records += 1;
                bucket.hashes = bucket.hashes.wrapping_add(hash);
            }
            Pile::Kept => {
                bucket.records -= 1;
                bucket.hashes = bucket.hashes.wrapping_sub(hash);
            }
        }
    }

    /// Whether both piles hold the same records.
    pub(super) fn is_even(&self) -> bool {
        self.buckets
            .iter()
            .all(|bucket| *bucket == Bucket::default())
    }

    /// Whether a record is one of those of which the piles may hold different numbers.
    fn may_differ(&self, identity: Identity) -> bool {
        self.buckets[identity.hash() as usize % BUCKETS] != Bucket::default()
    }
}

/// The records of which two piles hold different numbers.
pub(super) struct Difference<'b> {
    balance: &'b Balance,
    records: HashMap<Identity, Weighed>,
}

/// Records that cannot be told apart.
struct Weighed {
    /// How many more the inputs have than were kept.
    more: i64,
    /// The last one of the inputs.
    of_inputs: Option<RecordId>,
    /// The last one of those that were kept.
    kept: Option<RecordId>,
}

impl<'b> Difference<'b> {
    pub(super) fn new(balance: &'b Balance) -> Self {
        Self {
            balance,
            records: HashMap::new(),
        }
    }

    /// Looks at a record that lies on a pile.
    pub(super) fn add(&mut self, identity: Identity, id: RecordId, pile: Pile) {
        if !self.balance.may_differ(identity) {
            return;
        }
        let weighed = self.records.entry(identity).or_insert(Weighed {
            more: 0,
            of_inputs: None,
            kept: None,
        });
        match pile {
            Pile::Inputs => {
                weighed.more += 1;
                weighed.of_inputs = Some(id);
            }
            Pile::Kept => {
                weighed.more -= 1;
                weighed.kept = Some(id);
            }
        }
    }

    /// How many more records a pile has than the other one, and the places of some, in their order.
    pub(super) fn more_of(&self, pile: Pile) -> (u64, Vec<RecordId>) {
        let mut count = 0;
        let mut places = Vec::new();
        for weighed in self.records.values() {
            let (more, place) = match pile {
                Pile::Inputs => (weighed.more, weighed.of_inputs),
                Pile::Kept => (-weighed.more, weighed.kept),
            };
            if let Ok(more @ 1..) = u64::try_from(more) {
                count += more;
                places.extend(place);
            }
        }
        places.sort_unstable();
        (count, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: u64) -> Identity {
        Identity::of_test(number)
    }

    #[test]
    fn piles_are_even_only_if_they_hold_the_same() {
        let mut balance = Balance::new();
        for number in 0..1_000 {
            balance.add(identity(number), Pile::Inputs);
            balance.add(identity(999 - number), Pile::Kept);
        }
        assert!(balance.is_even());
        // One is lost, one is foreign, and one is there twice.
        balance.add(identity(2_000), Pile::Inputs);
        balance.add(identity(3_000), Pile::Kept);
        balance.add(identity(7), Pile::Kept);
        assert!(!balance.is_even());
        let place = |number| RecordId { input: 0, number };
        let mut difference = Difference::new(&balance);
        for number in (0..1_000).chain([2_000]) {
            difference.add(identity(number), place(number), Pile::Inputs);
        }
        for number in (0..1_000).chain([3_000, 7]) {
            difference.add(identity(number), place(number), Pile::Kept);
        }
        assert_eq!(difference.more_of(Pile::Inputs), (1, vec![place(2_000)]));
        assert_eq!(
            difference.more_of(Pile::Kept),
            (2, vec![place(7), place(3_000)])
        );
    }
}
