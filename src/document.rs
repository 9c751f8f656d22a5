//! Document: what a database stores under a key. The bounds of its parts, and which of two documents is
//! worth more.

use std::fmt;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::unix_seconds::UnixSeconds;

/// A document: its key, its fingerprint, and the caller's data beside them.
///
/// | part | bounds | absent |
/// |---|---|---|
/// | key | 1 to [`MAX_KEY_BYTES`](Self::MAX_KEY_BYTES) bytes, unique, normally the URL | never |
/// | fingerprint | 64 bits | `None`: the text was too short to judge, and nothing matches it |
/// | sketch | 16 or 32 bytes, the size that the database has | `None`: nothing can be said of its similarity |
/// | seen | Unix seconds, in the years -9999 to 9999 | the time of [`Document::new`] |
/// | repeats | how often it was seen again, up to [`MAX_REPEATS`](Self::MAX_REPEATS) | 0 |
/// | rank | up to [`MAX_RANKS`](Self::MAX_RANKS) numbers, compared in order | empty |
/// | scope | text of up to [`MAX_SCOPE_BYTES`](Self::MAX_SCOPE_BYTES) bytes | empty |
/// | payload | up to [`MAX_PAYLOAD_BYTES`](Self::MAX_PAYLOAD_BYTES) bytes | empty |
///
/// The bounds are checked when the document is written, not when it is made.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
///
/// let document = Document::new("https://example.org/", Fingerprint::from_bits(42))
///     .with_seen(1_700_000_000)
///     .with_rank([7])
///     .with_scope("en");
/// assert_eq!(document.key(), b"https://example.org/");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    key: Vec<u8>,
    fingerprint: Option<Fingerprint>,
    sketch: Option<Sketch>,
    seen: UnixSeconds,
    repeats: u32,
    rank: Vec<i64>,
    scope: String,
    payload: Vec<u8>,
}

impl Document {
    /// The longest key, in bytes.
    pub const MAX_KEY_BYTES: usize = 4_096;
    /// The longest scope, in bytes of UTF-8.
    pub const MAX_SCOPE_BYTES: usize = 255;
    /// The longest payload, in bytes.
    pub const MAX_PAYLOAD_BYTES: usize = 60_000;
    /// The most numbers a rank can have.
    pub const MAX_RANKS: usize = 4;
    /// The greatest count of repeats. A count that would be greater stays at this.
    pub const MAX_REPEATS: u64 = u32::MAX as u64;

    /// A document seen now, without rank, scope or payload. A fingerprint of `None` says that the text is
    /// too short to judge.
    pub fn new(key: impl Into<Vec<u8>>, fingerprint: impl Into<Option<Fingerprint>>) -> Self {
        Self {
            key: key.into(),
            fingerprint: fingerprint.into(),
            sketch: None,
            seen: UnixSeconds::now(),
            repeats: 0,
            rank: Vec::new(),
            scope: String::new(),
            payload: Vec::new(),
        }
    }

    /// Sets the sketch, which tells how similar the document is to others. Default: none.
    ///
    /// [`Fingerprinter::document`](crate::Fingerprinter::document) makes documents that have one.
    #[must_use]
    pub fn with_sketch(mut self, sketch: impl Into<Option<Sketch>>) -> Self {
        self.sketch = sketch.into();
        self
    }

    /// Sets when the document was seen: Unix seconds or a [`SystemTime`](std::time::SystemTime). Default: now.
    #[must_use]
    pub fn with_seen(mut self, seen: impl Into<UnixSeconds>) -> Self {
        self.seen = seen.into();
        self
    }

    /// Sets how often the document was seen again. A number above [`MAX_REPEATS`](Self::MAX_REPEATS) becomes that.
    /// Default: 0.
    ///
    /// [`Policy::touch`](crate::Policy::touch) and [`WriteTxn::touch`](crate::WriteTxn::touch) count it.
    #[must_use]
    pub fn with_repeats(mut self, repeats: u64) -> Self {
        self.repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
        self
    }

    /// Sets the worth of the document beside its duplicates: numbers compared in order. More is better,
    /// and a missing number is less than any. Default: none.
    #[must_use]
    pub fn with_rank(mut self, rank: impl Into<Vec<i64>>) -> Self {
        self.rank = rank.into();
        self
    }

    /// Sets the scope (language, site, collection) that queries can be limited to. Default: empty.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Sets the bytes that are kept for the caller. simdb does not look at them. Default: empty.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// The bytes that name the document.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The fingerprint, or `None` if the text was too short to judge.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// The sketch, if the document has one.
    pub fn sketch(&self) -> Option<&Sketch> {
        self.sketch.as_ref()
    }

    /// When the document was seen, in Unix seconds.
    pub fn seen(&self) -> i64 {
        self.seen.unchecked()
    }

    /// How often the document was seen again: 0 if it was seen once.
    pub fn repeats(&self) -> u64 {
        self.repeats.into()
    }

    /// The worth of the document beside its duplicates.
    pub fn rank(&self) -> &[i64] {
        &self.rank
    }

    /// The scope, empty if none was given.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The caller's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether this document is worth more than `other`. Of two documents worth the same, neither outranks
    /// the other.
    pub fn outranks(&self, other: &Self) -> bool {
        self.rank > other.rank
    }

    /// The approximate memory that the document takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.scope.len() + self.payload.len()
    }

    /// Checks the bounds of every part, as the table above gives them.
    ///
    /// Every write does this first. A caller that collects documents can do it earlier, so that one document
    /// out of bounds does not stop the others.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] for an empty or too long key, [`Error::ScopeLength`], [`Error::PayloadLength`] and
    /// [`Error::RankLength`] for a part that is too long, [`Error::NotSeconds`] for a time in another unit.
    pub fn validate(&self) -> Result<()> {
        validate_key(&self.key)?;
        if self.scope.len() > Self::MAX_SCOPE_BYTES {
            return Err(Error::ScopeLength {
                bytes: self.scope.len(),
                max_bytes: Self::MAX_SCOPE_BYTES,
            });
        }
        if self.payload.len() > Self::MAX_PAYLOAD_BYTES {
            return Err(Error::PayloadLength {
                bytes: self.payload.len(),
                max_bytes: Self::MAX_PAYLOAD_BYTES,
            });
        }
        if self.rank.len() > Self::MAX_RANKS {
            return Err(Error::RankLength {
                numbers: self.rank.len(),
                max_numbers: Self::MAX_RANKS,
            });
        }
        self.seen.checked().map(drop)
    }
}

/// Shows the key as text and the payload by its length.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("key", &String::from_utf8_lossy(&self.key))
            .field("fingerprint", &self.fingerprint)
            .field("sketch", &self.sketch)
            .field("seen", &self.seen())
            .field("repeats", &self.repeats)
            .field("rank", &self.rank)
            .field("scope", &self.scope)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

/// Checks the length of a key.
pub(crate) fn validate_key(key: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > Document::MAX_KEY_BYTES {
        return Err(Error::KeyLength {
            bytes: key.len(),
            max_bytes: Document::MAX_KEY_BYTES,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(key: &[u8]) -> Document {
        Document::new(key, None)
    }

    #[test]
    fn bounds_are_inclusive() -> Result<()> {
        document(b"k").validate()?;
        document(&[0xff; 4096]).validate()?;
        document(b"k")
            .with_scope("s".repeat(255))
            .with_payload([0; 60_000])
            .with_rank([0; 4])
            .validate()?;
        assert!(matches!(
            document(b"").validate(),
            Err(Error::KeyLength { bytes: 0, .. })
        ));
        assert!(matches!(
            document(&[0; 4097]).validate(),
            Err(Error::KeyLength { bytes: 4097, .. })
        ));
        let long_scope = document(b"k").with_scope("é".repeat(128));
        assert!(matches!(
            long_scope.validate(),
            Err(Error::ScopeLength { bytes: 256, .. })
        ));
        let long_payload = document(b"k").with_payload([0; 60_001]);
        assert!(matches!(
            long_payload.validate(),
            Err(Error::PayloadLength { bytes: 60_001, .. })
        ));
        assert!(matches!(
            document(b"k").with_rank([0; 5]).validate(),
            Err(Error::RankLength { numbers: 5, .. })
        ));
        document(b"k").with_seen(UnixSeconds::MAX).validate()?;
        let milliseconds = document(b"k").with_seen(1_700_000_000_000);
        assert!(matches!(
            milliseconds.validate(),
            Err(Error::NotSeconds {
                unit: "milliseconds",
                ..
            })
        ));
        Ok(())
    }

    #[test]
    fn a_count_of_repeats_ends_at_the_greatest() {
        let counted = |repeats: u64| document(b"k").with_repeats(repeats).repeats();
        assert_eq!(document(b"k").repeats(), 0);
        assert_eq!([0, 7, u64::MAX].map(counted), [0, 7, Document::MAX_REPEATS]);
        assert_eq!(counted(Document::MAX_REPEATS + 1), Document::MAX_REPEATS);
    }

    #[test]
    fn rank_is_compared_in_order_and_equals_do_not_outrank() {
        let ranked = |rank: &[i64]| document(b"k").with_rank(rank);
        assert!(ranked(&[2, 0]).outranks(&ranked(&[1, 9])));
        assert!(ranked(&[1, 1]).outranks(&ranked(&[1])));
        assert!(ranked(&[i64::MIN]).outranks(&ranked(&[])));
        assert!(!ranked(&[1, 2]).outranks(&ranked(&[1, 2])));
    }
}
