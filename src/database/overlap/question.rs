//! The question how much of a text stood elsewhere.

use crate::database::near::Near;
use crate::text::Unit;

/// How a text is cut, which stored units are near to its units, and how many documents are listed, for
/// [`Snapshot::overlap`](crate::Snapshot::overlap).
///
/// # Example
///
/// ```
/// use simdb::{Near, OverlapQuery, Unit};
///
/// let query = OverlapQuery::new().unit(Unit::Paragraph).near(Near::within(5).scopes(["news"])).limit(3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OverlapQuery {
    pub(crate) unit: Unit,
    pub(crate) near: Near,
    pub(crate) without: Option<Vec<u8>>,
    pub(crate) limit: usize,
}

impl Default for OverlapQuery {
    fn default() -> Self {
        Self {
            unit: Unit::Sentence,
            near: Near::new(),
            without: None,
            limit: 10,
        }
    }
}

impl OverlapQuery {
    /// The defaults of the methods below.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the text is cut into: that into which the stored documents were cut. Default: sentences.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Which stored units are near. Default: [`Near::new`].
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.near = near.into();
        self
    }

    /// The key of the document that the text is of. Its own units, and a document with this key, do not count. Default:
    /// all count.
    #[must_use]
    pub fn without(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.without = Some(key.into());
        self
    }

    /// The most documents that are listed, those with the largest share of the text. Default: 10. All are counted.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}
