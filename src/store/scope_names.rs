//! Scope names: the scopes that a query is limited to, and their numbers once these were looked up.
//!
//! To look up a thousand scopes takes ten times as long as the rest of a query. So the numbers stay with the
//! names, for the next query and for all documents of a batch.

use std::sync::{Arc, Weak};

use super::read::Reader;
use crate::error::Result;
use crate::planted::planted;
use crate::store::file::KnownNames;
use crate::store::numbers::ReadScopes;
use crate::sync::RwLock;

/// Names of scopes, with their numbers in the file that was asked last. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ScopeNames(Arc<Names>);

#[derive(Debug)]
struct Names {
    names: Box<[Box<str>]>,
    found: RwLock<Option<Found>>,
}

/// The numbers of the names in an open file.
#[derive(Clone, Debug)]
struct Found {
    /// Those of the file. As long as this stands here, no others are in their place in memory.
    known: Weak<KnownNames>,
    /// The number of the next scope of the commit that was asked. Later commits may have more of the names.
    next_scope: u32,
    /// Whether each name has a number. Then no later commit has more.
    all: bool,
    /// In order, each once.
    numbers: ReadScopes,
}

impl ScopeNames {
    pub(crate) fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(|name| name.into().into()).collect();
        Self(Arc::new(Names {
            names,
            found: RwLock::new(None),
        }))
    }

    /// The names, in the order in which they were given.
    #[cfg(any(feature = "ingest", feature = "serve"))]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.names.iter().map(|name| &**name).collect()
    }

    /// Whether this is one of the names.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.names.iter().any(|own| **own == *name)
    }

    /// The numbers of those scopes that any document has or had, in order, each once. An older commit may not
    /// know some of the numbers. It has no rows of them.
    pub(crate) fn numbers(&self, reader: Reader<'_>) -> Result<ReadScopes> {
        let known = reader.known_names();
        let next_scope = reader.counters().next_scope;
        if let Some(found) = &*self.0.found.read()
            && std::ptr::eq(found.known.as_ptr(), Arc::as_ptr(known))
            && (found.all || found.next_scope == next_scope)
        {
            return Ok(found.numbers.clone());
        }
        let mut numbers = Vec::with_capacity(self.0.names.len());
        for name in &self.0.names {
            numbers.extend(reader.scope_number(name)?);
        }
        let all = numbers.len() == self.0.names.len();
        if numbers.len() > 1 && planted("a scope of a question is left out") {
            numbers.pop();
        }
        numbers.sort_unstable();
        numbers.dedup();
        let numbers = ReadScopes::These(numbers.into());
        // Numbers that a transaction has given are given to other scopes if it is dropped.
        let is_committed = reader.written.is_none_or(|written| {
            let given = &written.scopes;
            given.is_empty() || all && !self.0.names.iter().any(|name| given.contains_key(&**name))
        });
        if is_committed {
            let found = Found {
                known: Arc::downgrade(known),
                next_scope,
                all,
                numbers: numbers.clone(),
            };
            *self.0.found.write() = Some(found);
        }
        Ok(numbers)
    }
}

impl PartialEq for ScopeNames {
    fn eq(&self, other: &Self) -> bool {
        self.0.names == other.0.names
    }
}

impl Eq for ScopeNames {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::fingerprint::Fingerprint;
    use crate::store::file::Turn;
    use crate::store::write::Transaction;
    use crate::store::{Sizes, Store};

    fn put(store: &Store, scope: &str) -> Result<Transaction> {
        let mut writer = Transaction::new(Turn::wait(&store.shared)?)?;
        let document = Document::new(scope, Fingerprint::from_bits(1)).with_scope(scope);
        writer.put(&document, None)?;
        Ok(writer)
    }

    fn numbers(names: &ScopeNames, reader: Reader<'_>) -> Vec<u32> {
        names
            .numbers(reader)
            .expect("the file can be read")
            .iter()
            .map(|number| number.0)
            .collect()
    }

    #[test]
    fn numbers_are_those_of_the_file_and_commit_that_is_asked() -> Result<()> {
        let other = Store::for_tests(Sizes::default())?;
        let store = Store::for_tests(Sizes::default())?;
        for scope in ["b", "a"] {
            put(&store, scope)?.commit()?;
            put(&other, "z")?.commit()?;
        }
        let names = ScopeNames::new(["a", "late", "", "b", "a"]);
        let old = store.begin_read()?;
        for _ in 0..2 {
            assert_eq!(numbers(&names, old.reader()), [0, 1, 2]);
            assert_eq!(numbers(&names, other.begin_read()?.reader()), [0]);
        }
        put(&store, "late")?.commit()?;
        let new = store.begin_read()?;
        for _ in 0..2 {
            assert_eq!(numbers(&names, new.reader()), [0, 1, 2, 3]);
            let of_old = numbers(&names, old.reader());
            assert!(
                of_old.starts_with(&[0, 1, 2]),
                "a number that the old commit has not given may follow"
            );
        }
        Ok(())
    }

    #[test]
    fn a_number_of_a_transaction_that_is_dropped_is_forgotten() -> Result<()> {
        let store = Store::for_tests(Sizes::default())?;
        let names = ScopeNames::new(["kept", "dropped"]);
        put(&store, "kept")?.commit()?;
        let dropped = put(&store, "dropped")?;
        assert_eq!(numbers(&names, dropped.reader()), [1, 2]);
        drop(dropped);
        let other = put(&store, "other")?;
        assert_eq!(
            numbers(&names, other.reader()),
            [1],
            "its number is now that of another scope"
        );
        // All names are committed, so their numbers are kept although the transaction has given another.
        let committed = ScopeNames::new(["kept"]);
        assert_eq!(numbers(&committed, other.reader()), [1]);
        assert!(committed.0.found.read().is_some() && names.0.found.read().is_none());
        other.commit()?;
        assert_eq!(numbers(&names, store.begin_read()?.reader()), [1]);
        Ok(())
    }
}
