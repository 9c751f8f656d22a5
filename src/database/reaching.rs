//! Noting how far sources were read, together with the documents that came from them.

use super::write::WriteTxn;
use crate::error::Result;
use crate::source::{Reached, Source};

impl WriteTxn {
    /// Notes how far a source was read. That becomes durable together with the documents of this transaction.
    ///
    /// # Errors
    ///
    /// * [`Error::SourceName`](crate::Error::SourceName) for a name of no bytes or too many. It changes nothing.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    #[cfg(feature = "ingest")]
    pub(crate) fn set_source(&mut self, source: &Source) -> Result<()> {
        source.validate()?;
        self.writer
            .put_source(&source.name, Some(source.record.clone()))
    }

    /// Notes how far a source was read. It becomes durable together with the documents of this transaction.
    ///
    /// # Errors
    ///
    /// * [`Error::SourceName`](crate::Error::SourceName) for a name of no bytes or too many. It changes nothing.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    pub fn reach(&mut self, reached: &Reached) -> Result<()> {
        let record = self.writer.source(&reached.name)?.unwrap_or_default();
        let source = Source::reached(record, reached);
        source.validate()?;
        self.writer.put_source(&source.name, Some(source.record))
    }

    /// Forgets how far a source was read, so it counts as new. Its documents stay. False if it is not known.
    ///
    /// # Errors
    ///
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    pub fn forget_source(&mut self, name: impl AsRef<[u8]>) -> Result<bool> {
        let known = self.writer.source(name.as_ref())?.is_some();
        if known {
            self.writer.put_source(name.as_ref(), None)?;
        }
        Ok(known)
    }

    /// Forgets all sources that were given last before a time in Unix seconds, as
    /// [`Source::updated`](crate::Source::updated) tells. Their documents stay. Returns how many these were.
    ///
    /// # Errors
    ///
    /// Those of [`forget_source`](Self::forget_source).
    pub fn forget_sources_before(&mut self, seconds: i64) -> Result<u64> {
        let mut forgotten = 0;
        for source in self
            .writer
            .sources()?
            .iter()
            .filter(|it| it.updated() < seconds)
        {
            forgotten += u64::from(self.forget_source(source.name())?);
        }
        Ok(forgotten)
    }
}
