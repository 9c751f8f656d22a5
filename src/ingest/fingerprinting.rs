//! From contents to fingerprints, and which contents a database takes.

use super::parsed::Content;
use super::rejected::Reason;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::text::{Fingerprinter, Scheme};

/// Which contents a database takes. It takes texts if its scheme makes fingerprints from texts. It takes
/// ready fingerprints if its scheme does not, or if the caller has named the scheme that made them.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinting {
    scheme: Scheme,
    fingerprinter: Option<Fingerprinter>,
    takes_ready: bool,
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
            return Err(Error::SchemeMismatch { stored: stored.name(), given: given.name() });
        }
        let fingerprinter = Fingerprinter::new(stored).ok();
        Ok(Self { scheme: stored, fingerprinter, takes_ready: fingerprinter.is_none() || named.is_some() })
    }

    /// The fingerprint of a content, or the reason why the database does not take the content.
    pub(super) fn fingerprint(self, content: &Content) -> Result<Option<Fingerprint>, Reason> {
        match (content, self.fingerprinter) {
            (Content::TooShort, _) => Ok(None),
            (Content::Fingerprint(fingerprint), _) if self.takes_ready => Ok(Some(*fingerprint)),
            (Content::Fingerprint(_), _) => Err(Reason::FingerprintInScheme { scheme: self.scheme }),
            (_, None) => Err(Reason::TextInExternal),
            (Content::Text(text), Some(fingerprinter)) => Ok(fingerprinter.fingerprint(text)),
            (Content::Html(html), Some(fingerprinter)) => Ok(fingerprinter.fingerprint_html(html)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_fingerprints_and_texts_go_only_where_they_belong() -> Result<(), Error> {
        let ready = Content::Fingerprint(Fingerprint::from_bits(255));
        let text = Content::Text("some text".to_owned());
        let external = Fingerprinting::new(Scheme::External, None)?;
        let made_here = Fingerprinting::new(Scheme::Simhash1, None)?;
        let vouched_for = Fingerprinting::new(Scheme::Simhash1, Some(Scheme::Simhash1))?;
        assert!(external.fingerprint(&ready).is_ok());
        assert!(vouched_for.fingerprint(&ready).is_ok());
        assert!(made_here.fingerprint(&text).is_ok());
        assert!(matches!(made_here.fingerprint(&ready), Err(Reason::FingerprintInScheme { .. })));
        assert!(matches!(external.fingerprint(&text), Err(Reason::TextInExternal)));
        assert!(Fingerprinting::new(Scheme::Simhash1, Some(Scheme::External)).is_err());
        Ok(())
    }
}
