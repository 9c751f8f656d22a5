//! The sorted sets of a file. One line for each set has its name, its rows, its rules and its number.
//!
//! [`PerSet`] holds one thing for each set: the set itself, its name, or the rows that a transaction
//! writes. `per_set[KEYS]` is the thing of the keys, with the right type of rows. `by_row!` does the same
//! with a thing of either type of rows.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, RangeInclusive};

use crate::fingerprint::Fingerprint;
use crate::store::blocks::Row;
use crate::store::engine::{BlockTable, LevelName};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::Rules;

/// Hashes of keys, each with its document: `(hash, 0, document)`, see [`key_row`].
pub(crate) const KEYS: Set<u128> = Set::new(0, "keys", Rules::ONCE_FILTERED);
/// The documents of each fingerprint, by scope: `(fingerprint, scope, document)`, see [`posting_row`].
pub(crate) const POSTINGS: Set<u128> = Set::new(1, "postings", Rules::ONCE);
/// The numbers of dead documents whose bytes are still in their block.
pub(crate) const DEAD: Set<u64> = Set::new(2, "dead", Rules::ONCE);
/// The distinct fingerprints, under the permutation of a table of the plan.
pub(crate) fn permuted(table: usize) -> Set<u64> {
    Set::new((FIXED.len() + table) as u8, "permuted", Rules::REPEATED)
}

/// The sets that every file has, whatever its plan. Each stands at its number.
const FIXED: &[AnySet] = &[
    ByRow::Wide(KEYS),
    ByRow::Wide(POSTINGS),
    ByRow::Narrow(DEAD),
];

/// Those of them whose rows a dense copy of the file has. In the copy, no document is dead.
pub(crate) const COPIED: [AnySet; 2] = [ByRow::Wide(KEYS), ByRow::Wide(POSTINGS)];

/// All sets of a file with that many permuted tables, in the order of their numbers.
pub(crate) fn all_sets(tables: usize) -> impl Iterator<Item = AnySet> {
    FIXED
        .iter()
        .copied()
        .chain((0..tables).map(|table| ByRow::Narrow(permuted(table))))
}

/// The one level of the documents. Their blocks have a table and a directory, but they are no sorted set.
pub(crate) const DOCUMENTS: LevelName = LevelName {
    table: &TABLES[0],
    number: 0,
};

/// The tables of blocks: that of the documents, then that of each set.
static TABLES: [BlockTable; 256] = {
    let mut tables = [BlockTable::new(0, "documents", false).with_extents(); 256];
    let mut number = 1;
    while number < tables.len() {
        let set = number - 1;
        tables[number] = if set >= FIXED.len() {
            BlockTable::new(number as u8, "permuted", false)
                .part((set - FIXED.len()) as u8)
                .with_signatures()
        } else {
            match &FIXED[set] {
                ByRow::Narrow(set) => BlockTable::new(number as u8, set.name, false),
                ByRow::Wide(set) => BlockTable::new(number as u8, set.name, true),
            }
        };
        number += 1;
    }
    tables
};

/// The tables of the blocks of a file with that many permuted tables, in the order of their numbers.
pub(crate) fn block_tables(tables: usize) -> &'static [BlockTable] {
    &TABLES[..=FIXED.len() + tables]
}

/// The row of a document in the set of keys.
pub(crate) fn key_row(hash: u64, number: DocumentNumber) -> u128 {
    u128::from(hash) << 64 | u128::from(number.0)
}

/// The row of a document in the postings.
pub(crate) fn posting_row(
    fingerprint: Fingerprint,
    scope: ScopeNumber,
    number: DocumentNumber,
) -> u128 {
    u128::from(fingerprint.bits()) << 64 | u128::from(scope.0) << 40 | u128::from(number.0)
}

/// The rows of the documents of a fingerprint in all scopes.
pub(crate) fn all_listed(fingerprint: Fingerprint) -> RangeInclusive<u128> {
    let first = posting_row(fingerprint, ScopeNumber::EMPTY, DocumentNumber::MIN);
    first..=posting_row(fingerprint, ScopeNumber::ANY, DocumentNumber::MAX)
}

/// The scope of a row of postings.
pub(crate) fn scope_of(row: u128) -> ScopeNumber {
    ScopeNumber((row >> 40) as u32 & ScopeNumber::ANY.0)
}

/// The fingerprint of a row of postings.
pub(crate) fn fingerprint_of(row: u128) -> Fingerprint {
    Fingerprint::from_bits((row >> 64) as u64)
}

/// The document of a row of keys or postings.
pub(crate) fn number_of(row: u128) -> DocumentNumber {
    DocumentNumber(row as u64 & DocumentNumber::MAX.0)
}

/// The name of a sorted set that has rows of type `R`.
#[derive(Clone, Copy)]
pub(crate) struct Set<R> {
    number: u8,
    name: &'static str,
    pub(crate) rules: Rules,
    rows: PhantomData<R>,
}

impl<R> Set<R> {
    const fn new(number: u8, name: &'static str, rules: Rules) -> Self {
        Self {
            number,
            name,
            rules,
            rows: PhantomData,
        }
    }
}

impl<R: SetRow> Set<R> {
    /// Whether both are the same set.
    pub(crate) fn is<S: SetRow>(self, other: Set<S>) -> bool {
        self.number == other.number
    }

    /// The number of the permuted table that this set is, if it is one.
    pub(crate) fn permuted_number(self) -> Option<usize> {
        usize::from(self.number).checked_sub(FIXED.len())
    }

    pub(crate) fn table(self) -> &'static BlockTable {
        &TABLES[usize::from(self.number) + 1]
    }

    /// A level of this set.
    pub(crate) fn level(self, number: u8) -> LevelName {
        LevelName {
            table: self.table(),
            number,
        }
    }
}

impl<R> fmt::Debug for Set<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (set {})", self.name, self.number)
    }
}

/// A set, whatever its rows are.
pub(crate) type AnySet = ByRow<Names>;

/// A thing that belongs to a set with rows of one of the two types.
pub(crate) enum ByRow<K: RowFamily> {
    Narrow(K::Of<u64>),
    Wide(K::Of<u128>),
}

/// A kind of thing that each set has. Its type depends on the type of the rows.
pub(crate) trait RowFamily {
    type Of<R: SetRow>;
}

/// The sets themselves, as names.
pub(crate) struct Names;

impl RowFamily for Names {
    type Of<R: SetRow> = Set<R>;
}

impl Clone for AnySet {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for AnySet {}

/// Does the same with a [`ByRow`] of either type of rows. With `=> keep`, the result is a [`ByRow`] again.
/// With two values, which must be of the same set, it does something with both.
macro_rules! by_row {
    ($one:expr, $thing:pat => $do:expr) => {
        match $one {
            $crate::store::file::ByRow::Narrow($thing) => $do,
            $crate::store::file::ByRow::Wide($thing) => $do,
        }
    };
    ($one:expr, $thing:pat => keep $do:expr) => {
        match $one {
            $crate::store::file::ByRow::Narrow($thing) => $crate::store::file::ByRow::Narrow($do),
            $crate::store::file::ByRow::Wide($thing) => $crate::store::file::ByRow::Wide($do),
        }
    };
    ($one:expr, $other:expr, ($thing:pat, $other_thing:pat) => $do:expr) => {
        match ($one, $other) {
            (
                $crate::store::file::ByRow::Narrow($thing),
                $crate::store::file::ByRow::Narrow($other_thing),
            ) => $do,
            (
                $crate::store::file::ByRow::Wide($thing),
                $crate::store::file::ByRow::Wide($other_thing),
            ) => $do,
            _ => unreachable!("both are of the same set"),
        }
    };
}
pub(crate) use by_row;

/// A thing for each set of a file, in the order of the numbers of the sets.
pub(crate) struct PerSet<K: RowFamily>(Vec<ByRow<K>>);

impl<K: RowFamily> PerSet<K> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, ByRow<K>> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, ByRow<K>> {
        self.0.iter_mut()
    }

    /// The number of permuted tables.
    pub(crate) fn tables(&self) -> usize {
        self.0.len() - FIXED.len()
    }

    /// The sets, as names.
    pub(crate) fn sets(&self) -> impl Iterator<Item = AnySet> + use<K> {
        all_sets(self.tables())
    }
}

impl<K: RowFamily> FromIterator<ByRow<K>> for PerSet<K> {
    fn from_iter<I: IntoIterator<Item = ByRow<K>>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl<K: RowFamily> IntoIterator for PerSet<K> {
    type Item = ByRow<K>;
    type IntoIter = std::vec::IntoIter<ByRow<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: RowFamily, R: SetRow> Index<Set<R>> for PerSet<K> {
    type Output = K::Of<R>;

    fn index(&self, set: Set<R>) -> &K::Of<R> {
        R::pick(&self.0[usize::from(set.number)])
    }
}

impl<K: RowFamily, R: SetRow> IndexMut<Set<R>> for PerSet<K> {
    fn index_mut(&mut self, set: Set<R>) -> &mut K::Of<R> {
        R::pick_mut(&mut self.0[usize::from(set.number)])
    }
}

/// A type of rows that sets have.
pub(crate) trait SetRow: Row {
    /// The thing in `one`, which must have rows of this type. A caller knows that from the number of the set.
    fn pick<K: RowFamily>(one: &ByRow<K>) -> &K::Of<Self>;
    fn pick_mut<K: RowFamily>(one: &mut ByRow<K>) -> &mut K::Of<Self>;
}

macro_rules! set_row {
    ($row:ty, $variant:ident) => {
        impl SetRow for $row {
            #[inline]
            fn pick<K: RowFamily>(one: &ByRow<K>) -> &K::Of<Self> {
                match one {
                    ByRow::$variant(thing) => thing,
                    _ => unreachable!("the set has rows of another type"),
                }
            }

            #[inline]
            fn pick_mut<K: RowFamily>(one: &mut ByRow<K>) -> &mut K::Of<Self> {
                match one {
                    ByRow::$variant(thing) => thing,
                    _ => unreachable!("the set has rows of another type"),
                }
            }
        }
    };
}

set_row!(u64, Narrow);
set_row!(u128, Wide);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_stands_at_its_number_and_has_a_table_of_its_own() {
        for tables in [1, 4, 32] {
            let sets: PerSet<Names> = all_sets(tables).collect();
            assert_eq!(
                (sets.tables(), sets.sets().count()),
                (tables, FIXED.len() + tables)
            );
            let names = [sets[KEYS].name, sets[POSTINGS].name, sets[DEAD].name];
            assert_eq!(names, ["keys", "postings", "dead"]);
            assert_eq!(
                sets[permuted(tables - 1)].table().to_string(),
                format!("permuted-{}", tables - 1)
            );
            // The tables of blocks are numbered from 0 on.
            let level = |table| LevelName { table, number: 5 }.id();
            let ids: Vec<u16> = block_tables(tables).iter().map(level).collect();
            let right: Vec<u16> = (0..=(FIXED.len() + tables) as u16)
                .map(|number| number << 8 | 5)
                .collect();
            assert_eq!(ids, right);
        }
    }

    #[test]
    fn rows_of_one_fingerprint_stand_together_by_scope_and_document() {
        let fingerprint = Fingerprint::from_bits;
        let row = |bits, scope, number| {
            posting_row(
                fingerprint(bits),
                ScopeNumber(scope),
                DocumentNumber(number),
            )
        };
        let any = ScopeNumber::ANY.0;
        let rows = [
            row(1, 0, 9),
            row(1, 1, 2),
            row(1, 1, 3),
            row(1, any, 1),
            row(2, 0, 0),
        ];
        assert!(rows.is_sorted());
        assert_eq!(rows.map(|row| number_of(row).0), [9, 2, 3, 1, 0]);
        assert!(key_row(5, DocumentNumber::MAX) < key_row(6, DocumentNumber::MIN));
    }
}
