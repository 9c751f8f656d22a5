//! Fingerprinter: text in, fingerprint out. Joins the steps of a scheme.

use super::features::Features;
use super::scheme::Scheme;
use super::simhash::{Tie, Votes};
use super::{html, normalize};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;

/// Makes fingerprints from texts, by one scheme. It costs nothing to make. Its methods may be called from
/// any number of threads.
///
/// The recipe of [`Scheme::Text1`]:
///
/// 1. Of HTML, the visible text: no markup, comments, scripts or styles, and nothing of the head.
/// 2. Unicode normalisation form KC, simple case folding.
/// 3. Tokens: the words of Unicode Standard Annex #29. A text of less than [`MIN_TOKENS`](Self::MIN_TOKENS)
///    tokens is too short to judge.
/// 4. Features: each token. In scripts without spaces (Chinese, Thai, …), where tokens are single
///    characters, each token with the one that follows.
/// 5. Each distinct feature votes for the bits that are one in its xxh3 hash, and against the others. Its
///    weight is one more than the binary logarithm, rounded down, of the number of times it occurs.
/// 6. A bit is one if more weight is for it than against it.
///
/// `docs/benchmarks.md` says what this finds and misses on labelled texts.
///
/// # Example
///
/// ```
/// use simdb::{Fingerprinter, Scheme};
///
/// let fingerprinter = Fingerprinter::new(Scheme::Text1)?;
/// let page = "simdb finds near-duplicates: pages that say the same in almost the same words.";
/// assert_eq!(fingerprinter.fingerprint(page), fingerprinter.fingerprint_html(&format!("<p>{page}</p>")));
/// assert_eq!(fingerprinter.fingerprint("too short to judge"), None);
/// # Ok::<(), simdb::Error>(())
/// ```
///
/// # References
///
/// Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002. Manku, Jain, Das Sarma:
/// Detecting Near-Duplicates for Web Crawling, WWW 2007, section 2.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinter {
    scheme: Scheme,
}

impl Fingerprinter {
    /// The fewest tokens of a text that is judged. In a shorter text, one changed word moves the
    /// fingerprint so far that hardly anything but copies is found.
    pub const MIN_TOKENS: usize = 8;

    /// A fingerprinter of this scheme.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalScheme`] for [`Scheme::External`], whose fingerprints are made elsewhere.
    pub fn new(scheme: Scheme) -> Result<Self> {
        match scheme {
            Scheme::External => Err(Error::ExternalScheme),
            Scheme::Text1 => Ok(Self { scheme }),
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The fingerprint of a text, or `None` if the text is too short to judge.
    ///
    /// # Cost
    ///
    /// Time linear in the length of the text, apart from a sort of its features. Memory of the order of
    /// the text.
    pub fn fingerprint(&self, text: &str) -> Option<Fingerprint> {
        let features = Features::of(&normalize::normalize(text), self.scheme.feature_seed());
        if features.tokens < Self::MIN_TOKENS {
            return None;
        }
        let mut votes = Votes::new();
        for (hash, weight) in features.weighted() {
            votes.vote(hash, weight);
        }
        Some(votes.fingerprint(Tie::Zero))
    }

    /// The fingerprint of the visible text of an HTML page, or `None` if that text is too short to judge.
    /// Broken markup is read as browsers read it.
    pub fn fingerprint_html(&self, html: &str) -> Option<Fingerprint> {
        self.fingerprint(&html::visible_text(html))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_1() -> Fingerprinter {
        Fingerprinter::new(Scheme::Text1).expect("text-1 makes fingerprints")
    }

    /// Another value here would be another scheme: existing files would no longer find their documents.
    #[test]
    fn fingerprints_of_fixed_texts_never_change() {
        let pinned = [
            ("The quick brown fox jumps over the lazy dog near the river bank.", "53ba652888820c40"),
            ("the QUICK brown fox jumps over the lazy dog near the river bank", "53ba652888820c40"),
            (
                "Ｆull-width, ﬁgures and Ünïcode: Σίσυφος, ПРИВЕТ, 3.14 and naïve café words",
                "02a291c065e184a0",
            ),
            ("近似重复检测：两个网页的内容几乎相同。", "fd429018128097cc"),
            ("これは日本語の文章です。カタカナもあります。", "d9f2474d878ede10"),
            ("ภาษาไทยไม่มีช่องว่างระหว่างคำ", "eba8e6eb8fb9ca5b"),
            ("한국어 문장은 띄어쓰기가 있어서 단어가 그대로 토큰이 된다 그렇지", "494aeebcb27f4ca6"),
        ];
        for (text, fingerprint) in pinned {
            let made = text_1().fingerprint(text).map(|it| it.to_string());
            assert_eq!(made.as_deref(), Some(fingerprint), "{text}");
        }
        let page = "<html><head><title>t</title></head><body><p>One two three <b>four</b> five</p>\
                    <script>no</script><ul><li>six<li>seven &amp; eight</ul><p>nine&nbsp;ten";
        assert_eq!(
            text_1().fingerprint_html(page).map(|it| it.to_string()).as_deref(),
            Some("d8e3280443366fa5")
        );
    }

    #[test]
    fn short_texts_are_not_judged() {
        assert_eq!(text_1().fingerprint(""), None);
        assert_eq!(text_1().fingerprint("one two three four five six seven"), None);
        assert!(text_1().fingerprint("one two three four five six seven eight").is_some());
        assert_eq!(text_1().fingerprint("…!? -- \u{0} \u{fffd}"), None);
        assert_eq!(text_1().fingerprint_html("<p>"), None);
    }

    #[test]
    fn external_fingerprints_are_made_elsewhere() {
        assert!(matches!(Fingerprinter::new(Scheme::External), Err(Error::ExternalScheme)));
    }
}
