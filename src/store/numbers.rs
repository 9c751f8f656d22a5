//! The numbers of documents and scopes.

use std::ops::Deref;
use std::sync::Arc;

use crate::source::{Ignored, Numbers};

/// The number of a document. Later documents have greater numbers, and no number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DocumentNumber(pub(in crate::store) u64);

impl DocumentNumber {
    /// Not above the number of any document.
    pub(crate) const MIN: Self = Self(0);
    /// Above the numbers of all documents. A row has 40 bits for a number. At a million documents a second
    /// they last two weeks, at a hundred million a day 30 years.
    pub(crate) const MAX: Self = Self((1 << 40) - 1);

    /// The number so many after this one.
    pub(crate) fn after(self, numbers: u64) -> Self {
        Self(self.0.saturating_add(numbers))
    }

    /// The number before this one, if there is one.
    pub(crate) fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    pub(crate) fn is_among(self, numbers: &Numbers) -> bool {
        numbers.range_of(self.0).is_some()
    }

    /// Whether it is not less than the first of those.
    pub(crate) fn is_since(self, numbers: &Numbers) -> bool {
        let first = numbers.ranges().first();
        first.is_some_and(|first| self.0 >= first.start)
    }

    /// Whether the document was stored by a record of its source that comes later.
    pub(crate) fn is_of_later_record(self, ignored: &Ignored, stored: u64) -> bool {
        ignored.is_of_later_record(self.0, stored)
    }

    /// The greatest number up to this one that is not among those. `None` if there is none.
    pub(crate) fn last_outside(self, numbers: &Numbers) -> Option<Self> {
        // Ranges do not adjoin.
        numbers
            .range_of(self.0)
            .map_or(Some(self), |range| Self(range.start).previous())
    }
}

/// The number of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScopeNumber(pub(in crate::store) u32);

impl ScopeNumber {
    /// The scope of documents that have none.
    pub(crate) const EMPTY: Self = Self(0);
    /// Lists the documents of all scopes but the empty one. So a question about all documents does not go
    /// through every scope.
    pub(crate) const ANY: Self = Self((1 << 24) - 1);
    /// The scopes that together list every document once.
    pub(crate) const ALL_DOCUMENTS: &'static [Self] = &[Self::EMPTY, Self::ANY];

    /// The scopes that list a document of this scope.
    pub(crate) fn listing(self) -> impl Iterator<Item = Self> {
        let any = (self != Self::EMPTY).then_some(Self::ANY);
        std::iter::once(self).chain(any)
    }

    /// The number itself.
    pub(crate) fn get(self) -> u32 {
        self.0
    }

    /// Whether this scope lists the documents of `scope`.
    pub(crate) fn covers(self, scope: Self) -> bool {
        scope.listing().any(|listing| listing == self)
    }
}

/// The scopes whose lists are read, in order, each once.
#[derive(Clone, Debug)]
pub(crate) enum ReadScopes {
    /// [`ScopeNumber::ALL_DOCUMENTS`]. Most queries read these, and allocate nothing for it.
    AllDocuments,
    These(Arc<[ScopeNumber]>),
}

impl Deref for ReadScopes {
    type Target = [ScopeNumber];

    fn deref(&self) -> &[ScopeNumber] {
        match self {
            Self::AllDocuments => ScopeNumber::ALL_DOCUMENTS,
            Self::These(scopes) => scopes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_listed_once_among_all_documents() {
        for scope in [ScopeNumber::EMPTY, ScopeNumber(1), ScopeNumber(7)] {
            assert_eq!(
                ScopeNumber::ALL_DOCUMENTS
                    .iter()
                    .filter(|all| all.covers(scope))
                    .count(),
                1
            );
            assert!(scope.covers(scope));
        }
        assert!(!ScopeNumber(1).covers(ScopeNumber(2)));
        assert_eq!(DocumentNumber::MIN.previous(), None);
        assert_eq!(
            DocumentNumber(7).after(1).previous(),
            Some(DocumentNumber(7))
        );
    }
}
