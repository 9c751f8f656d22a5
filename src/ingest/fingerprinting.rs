//! From contents to fingerprints, and which contents a database takes.

use std::borrow::Cow;

use super::parsed::Content;
use super::rejected::Reason;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::text::{Fingerprinter, Scheme, Syntax, visible_text};

/// Which contents a database takes. It takes texts if its scheme makes fingerprints from texts. It takes
/// ready fingerprints if its scheme does not, or if the caller has named the scheme that made them.
///
/// # Example
///
/// ```
/// use simdb::Scheme;
/// use simdb::ingest::{Fingerprinting, Reason, ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.jsonl");
///
/// let lines = [r#"{"key": "a", "text": "one two"}"#, r#"{"key": "b", "fingerprint": "00000000000000ff"}"#];
/// std::fs::write(&path, lines.join("\n"))?;
/// let rule = Fingerprinting::new(Scheme::Minwise1, None)?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let documents = records.next_chunk(|record| record.into_document(rule))?;
/// assert!(documents[0].is_ok());
/// // Nobody has said how that fingerprint was made.
/// let rejected = documents[1].as_ref().expect_err("a ready fingerprint");
/// assert!(matches!(rejected.reason, Reason::FingerprintInScheme { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinting {
    scheme: Scheme,
    fingerprinter: Option<Fingerprinter>,
    takes_ready: bool,
    sketch_size: SketchSize,
    needs_sketches: bool,
    stores: bool,
}

impl Fingerprinting {
    /// The rule for a database of the scheme `stored`. If `named` is given, ready fingerprints are of that
    /// scheme.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] if `named` is another scheme than `stored`.
    pub fn new(stored: Scheme, named: Option<Scheme>) -> Result<Self, Error> {
        if let Some(given) = named.filter(|&named| named != stored) {
            return Err(Error::SchemeMismatch {
                stored: stored.name(),
                given: given.name(),
            });
        }
        let fingerprinter = Fingerprinter::new(stored).ok();
        let rule = Self {
            scheme: stored,
            fingerprinter,
            takes_ready: fingerprinter.is_none() || named.is_some(),
            sketch_size: SketchSize::None,
            needs_sketches: false,
            stores: false,
        };
        Ok(rule.sketch_size(SketchSize::default()))
    }

    /// The size of the sketches that are made or taken. Default: 16 bytes.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = size;
        self.fingerprinter = self.fingerprinter.map(|made| made.with_sketch_size(size));
        self
    }

    /// Whether a ready fingerprint without a sketch is refused. Default: false.
    #[must_use]
    pub fn needs_sketches(mut self, needs_sketches: bool) -> Self {
        self.needs_sketches = needs_sketches;
        self
    }

    /// Whether what is made is stored. Then a ready fingerprint without a sketch is refused where texts are compared by
    /// sketches. Default: false, for questions.
    #[must_use]
    pub fn stores(mut self, stores: bool) -> Self {
        self.stores = stores;
        self
    }

    /// The text of a content: of a page, what the scheme reads, and the visible text if fingerprints are made
    /// elsewhere. `None` if the content has a fingerprint or features in place of a text.
    pub(super) fn text_of(self, content: &Content) -> Option<Cow<'_, str>> {
        let text = match (content, self.fingerprinter) {
            (Content::Text(text), _) => return Some(Cow::Borrowed(text)),
            (Content::Html(html), Some(made)) => made.text_of_html(html),
            (Content::Html(html), None) => visible_text(html, Syntax::from_beginning(html)),
            (Content::Xhtml(page), Some(made)) => made.text_of_xhtml(page),
            (Content::Xhtml(page), None) => visible_text(page, Syntax::Xhtml),
            (Content::Fingerprint(..) | Content::Features(_) | Content::TooShort, _) => {
                return None;
            }
        };
        Some(Cow::Owned(text))
    }

    /// As [`judge`](Self::judge), of a content that nobody else needs. A page is gone before its text is read, and a
    /// text before its features are compared.
    pub(super) fn judge_owned(
        self,
        content: Content,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>, Reason> {
        let Some(made) = self.fingerprinter else {
            return self.judge(&content);
        };
        let text = match content {
            Content::Text(text) => text,
            Content::Html(html) => made.text_of_html(&html),
            Content::Xhtml(page) => made.text_of_xhtml(&page),
            other => return self.judge(&other),
        };
        Ok(made.fingerprint_and_sketch_of(text))
    }

    /// Whether a fingerprint is made from a content that is a text, whatever text it is.
    pub(super) fn makes_from(self, content: &Content) -> bool {
        let is_text = matches!(
            content,
            Content::Text(_) | Content::Html(_) | Content::Xhtml(_)
        );
        is_text && self.fingerprinter.is_some()
    }

    /// The fingerprint and the sketch of a content, or the reason why the database does not take the content.
    pub(super) fn judge(
        self,
        content: &Content,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>, Reason> {
        match (content, self.fingerprinter) {
            (Content::TooShort, _) => Ok(None),
            (Content::Fingerprint(..), _) if !self.takes_ready => {
                Err(Reason::FingerprintInScheme {
                    scheme: self.scheme,
                })
            }
            (Content::Fingerprint(_, None), _)
                if self.stores && self.scheme.compares_sketches(self.sketch_size) =>
            {
                Err(Reason::Document(Error::SketchMissing {
                    bytes: self.sketch_size.bytes(),
                }))
            }
            (Content::Fingerprint(_, None), _) if self.needs_sketches => {
                Err(Reason::Document(Error::NoSketch))
            }
            (Content::Fingerprint(_, Some(sketch)), _) if sketch.size() != self.sketch_size => {
                Err(Reason::Document(Error::SketchSizes {
                    stored: self.sketch_size.bytes(),
                    given: sketch.size().bytes(),
                }))
            }
            (Content::Fingerprint(fingerprint, sketch), _) => Ok(Some((*fingerprint, *sketch))),
            (_, None) => Err(Reason::TextInExternal),
            (Content::Features(features), Some(fingerprinter)) => {
                let features = features.iter().map(|(feature, weight)| (feature, *weight));
                fingerprinter
                    .fingerprint_and_sketch_features(features)
                    .map_err(Reason::Document)
            }
            (Content::Text(text), Some(fingerprinter)) => {
                Ok(fingerprinter.fingerprint_and_sketch(text))
            }
            (Content::Html(html), Some(fingerprinter)) => {
                Ok(fingerprinter.fingerprint_and_sketch_html(html))
            }
            (Content::Xhtml(page), Some(fingerprinter)) => {
                Ok(fingerprinter.fingerprint_and_sketch(&fingerprinter.text_of_xhtml(page)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_fingerprints_and_texts_go_only_where_they_belong() -> Result<(), Error> {
        let ready = Content::Fingerprint(Fingerprint::from_bits(255), None);
        let text = Content::Text("some text".to_owned());
        let external = Fingerprinting::new(Scheme::External, None)?;
        let made_here = Fingerprinting::new(Scheme::Simhash1, None)?;
        let vouched_for = Fingerprinting::new(Scheme::Simhash1, Some(Scheme::Simhash1))?;
        assert!(external.judge(&ready).is_ok());
        assert!(vouched_for.judge(&ready).is_ok());
        assert!(
            vouched_for
                .sketch_size(SketchSize::None)
                .stores(true)
                .judge(&ready)
                .is_ok()
        );
        assert!(external.stores(true).judge(&ready).is_ok());
        assert!(matches!(
            vouched_for.stores(true).judge(&ready),
            Err(Reason::Document(Error::SketchMissing { bytes: 16 }))
        ));
        assert!(made_here.judge(&text).is_ok());
        assert!(matches!(
            made_here.judge(&ready),
            Err(Reason::FingerprintInScheme { .. })
        ));
        assert!(matches!(external.judge(&text), Err(Reason::TextInExternal)));
        assert!(Fingerprinting::new(Scheme::Simhash1, Some(Scheme::External)).is_err());
        assert!(matches!(
            external.needs_sketches(true).judge(&ready),
            Err(Reason::Document(Error::NoSketch))
        ));
        let sketched =
            Content::Fingerprint(Fingerprint::from_bits(255), Some(Sketch::new(&[0; 32], 1)?));
        assert!(matches!(
            external.judge(&sketched),
            Err(Reason::Document(Error::SketchSizes { .. }))
        ));
        assert!(
            external
                .sketch_size(SketchSize::Bytes32)
                .judge(&sketched)
                .is_ok()
        );
        Ok(())
    }
}
