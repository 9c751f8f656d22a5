//! What can be asked of a snapshot: its documents, block by block, and a copy of it.

use super::read::Reader;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::file::{StoredSnapshot, damaged_document};
use crate::store::numbers::DocumentNumber;

/// Documents with their numbers. A damaged document does not hide the others.
type NumberedDocuments = Vec<(DocumentNumber, Result<Document>)>;

impl StoredSnapshot {
    /// Reads what is committed.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(self)
    }

    /// The documents of one block with numbers from `from` on, in order, and the number to go on from.
    /// `None` after the last document.
    pub(crate) fn documents(
        &self,
        from: DocumentNumber,
    ) -> Result<Option<(NumberedDocuments, DocumentNumber)>> {
        let Some((last, live)) = self.stored_documents(from.0)? else {
            return Ok(None);
        };
        let last = DocumentNumber(last);
        let mut documents = Vec::new();
        match live {
            Ok(live) => {
                for stored in live.iter() {
                    let number = DocumentNumber(stored.number);
                    let document = stored.to_document();
                    let document = document.map_err(damaged_document(number));
                    documents.push((number, document));
                }
            }
            // The block as a whole counts as one damaged document.
            Err(error) => documents.push((last, Err(error))),
        }
        Ok(Some((documents, last.after(1))))
    }

    /// What `see` makes of the documents of one block whose fingerprints are wanted and whose numbers are `from` or
    /// greater, in order, and the number to go on from. `None` after the last document. `see` is given what `wanted`
    /// makes of the fingerprint. Documents that are not wanted are not decoded.
    pub(crate) fn seen_of_block<W, T>(
        &self,
        from: DocumentNumber,
        wanted: impl Fn(Option<Fingerprint>) -> Option<W>,
        see: impl Fn(W, DocumentNumber, Document) -> Option<T>,
    ) -> Result<Option<(Vec<T>, DocumentNumber)>> {
        let Some((last, live)) = self.stored_documents(from.0)? else {
            return Ok(None);
        };
        let next = DocumentNumber(last).after(1);
        let live = live?;
        // All are looked up before the first is decoded: then a core waits for several looks at memory at once.
        let wanted: Vec<_> = live
            .iter()
            .map(|stored| wanted(stored.fingerprint))
            .collect();
        let mut seen = Vec::new();
        for (stored, wanted) in live.iter().zip(wanted) {
            let Some(wanted) = wanted else { continue };
            let number = DocumentNumber(stored.number);
            let document = stored.to_document();
            let document = document.map_err(damaged_document(number))?;
            seen.extend(see(wanted, number, document));
        }
        Ok(Some((seen, next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::store::sizes::Sizes;
    use crate::store::{Patience, Store};

    /// All snapshots share the numbers of scopes that were looked up.
    #[test]
    fn a_snapshot_does_not_know_a_scope_that_came_later() -> Result<()> {
        let store = Store::for_tests(Sizes::default())?;
        let put = |key: &str, scope: &str| -> Result<()> {
            let mut writer = store
                .begin_write(Patience::Endless)?
                .expect("endless patience ends with a turn");
            let document = Document::new(key, Fingerprint::from_bits(1))
                .with_seen(0)
                .with_scope(scope);
            writer.put(&document, None)?;
            writer.commit()
        };
        put("a", "early")?;
        let before = store.begin_read()?;
        put("b", "late")?;
        let after = store.begin_read()?;
        for _ in 0..2 {
            assert!(
                after.reader().scope_number("late")?.is_some()
                    && after.reader().scope_number("early")?.is_some()
            );
            assert!(
                before.reader().scope_number("late")?.is_none()
                    && before.reader().scope_number("early")?.is_some()
            );
            assert!(after.reader().scope_number("never")?.is_none());
        }
        Ok(())
    }
}
