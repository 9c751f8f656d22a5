//! Names that one work at a time uses: those of the sources that are being read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sync::thread::{self, ThreadId};

/// The names in use, and the thread that has begun to use each.
#[derive(Default)]
pub(crate) struct NamesInUse(Mutex<HashMap<Arc<[u8]>, ThreadId>>);

impl NamesInUse {
    /// Takes all of these names, or none if any is in use. It is an error if this thread uses one: it would wait for
    /// itself.
    pub(crate) fn take(
        &self,
        names: impl Iterator<Item = Arc<[u8]>> + Clone,
    ) -> Result<Option<NamesTaken<'_>>> {
        let mut in_use = self.0.lock();
        let here = thread::current().id();
        let mut users = names.clone().filter_map(|name| in_use.get(&name).copied());
        if let Some(user) = users.next() {
            let is_here = user == here || users.any(|user| user == here);
            return if is_here {
                Err(Error::WouldDeadlock)
            } else {
                Ok(None)
            };
        }
        in_use.extend(names.clone().map(|name| (name, here)));
        Ok(Some(NamesTaken {
            of: self,
            names: names.collect(),
        }))
    }
}

/// Names that nobody else uses until this is dropped.
pub(crate) struct NamesTaken<'n> {
    of: &'n NamesInUse,
    names: Vec<Arc<[u8]>>,
}

impl fmt::Debug for NamesTaken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamesTaken").finish_non_exhaustive()
    }
}

impl Drop for NamesTaken<'_> {
    fn drop(&mut self) {
        let mut in_use = self.of.0.lock();
        for name in &self.names {
            in_use.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_taken_or_none() -> Result<()> {
        let in_use = NamesInUse::default();
        let names = |texts: &[&str]| -> Vec<Arc<[u8]>> {
            texts.iter().map(|text| text.as_bytes().into()).collect()
        };
        // A name may be given twice.
        let taken = in_use.take(names(&["a", "b", "a"]).into_iter())?;
        assert!(taken.is_some());
        assert!(matches!(
            in_use.take(names(&["b"]).into_iter()),
            Err(Error::WouldDeadlock)
        ));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(
                    in_use
                        .take(names(&["c", "b"]).into_iter())
                        .is_ok_and(|taken| taken.is_none())
                );
                assert!(
                    in_use
                        .take(names(&["c"]).into_iter())
                        .is_ok_and(|taken| taken.is_some())
                );
            });
            assert!(other.join().is_ok());
        });
        drop(taken);
        assert!(in_use.take(names(&["a", "b", "c"]).into_iter())?.is_some());
        Ok(())
    }
}
