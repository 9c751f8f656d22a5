//! Fingerprinter: text in, fingerprint out. Joins the steps of a scheme.

use super::features::{FeatureKind, Features};
use super::scheme::Scheme;
use super::simhash::Tie;
use super::sketching::{self, SHINGLE_SEED};
use super::{html, minwise, normalize, simhash};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};

/// Makes fingerprints from texts, by one scheme. It costs nothing to make. Its methods may be called from
/// any number of threads.
///
/// The steps of all text schemes, [`Scheme::Simhash1`], [`Scheme::Minwise1`] and [`Scheme::MinwiseShort1`]:
///
/// 1. Of HTML, the visible text: no markup, comments, scripts or styles, and nothing of the head.
/// 2. Unicode normalisation form KC, simple case folding.
/// 3. Tokens: the words of Unicode Standard Annex #29. A text of less than [`min_tokens`](Self::min_tokens)
///    tokens is too short to judge.
///
/// Then `simhash-1`:
///
/// 4. Features: each token. In scripts without spaces (Chinese, Thai, …), where tokens are single
///    characters, each token with the one that follows.
/// 5. Each distinct feature votes for the bits that are one in its xxh3 hash, and against the others. Its
///    weight is one more than the binary logarithm, rounded down, of the number of times it occurs.
/// 6. A bit is one if more weight is for it than against it.
///
/// Or `minwise-1` and `minwise-short-1`:
///
/// 4. Features: each token with the one that follows. Where the first is of a script without spaces, with the
///    two that follow. How often a feature occurs does not count.
/// 5. There are 64 bins. The hash of a feature chooses one of them, and the least hash in a bin is its sample.
///    Features are thrown again, with other hashes, into the bins that are still empty.
/// 6. Each bit is one bit of the sample of its bin. So texts whose features have the Jaccard similarity J
///    differ in about 32 (1 - J) bits.
///
/// `docs/benchmarks.md` says what this finds and misses on labelled texts.
///
/// # Example
///
/// ```
/// use simdb::{Fingerprinter, Scheme};
///
/// let fingerprinter = Fingerprinter::new(Scheme::Simhash1)?;
/// let page = "simdb finds near-duplicates: pages that say the same in almost the same words.";
/// assert_eq!(fingerprinter.fingerprint(page), fingerprinter.fingerprint_html(&format!("<p>{page}</p>")));
/// assert_eq!(fingerprinter.fingerprint("too short to judge"), None);
/// # Ok::<(), simdb::Error>(())
/// ```
///
/// # References
///
/// Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002. Manku, Jain, Das Sarma:
/// Detecting Near-Duplicates for Web Crawling, WWW 2007, section 2. Li, König: b-Bit Minwise Hashing, WWW 2010.
/// Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, FOCS 2017.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinter {
    scheme: Scheme,
    sketch_size: SketchSize,
}

impl Fingerprinter {
    /// A fingerprinter of this scheme. Its sketches have 16 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalScheme`] for [`Scheme::External`], whose fingerprints are made elsewhere.
    pub fn new(scheme: Scheme) -> Result<Self> {
        match scheme {
            Scheme::External => Err(Error::ExternalScheme),
            Scheme::Simhash1 | Scheme::Minwise1 | Scheme::MinwiseShort1 => {
                Ok(Self { scheme, sketch_size: SketchSize::default() })
            }
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The fewest tokens of a text that is judged: eight, or four with [`Scheme::MinwiseShort1`]. In a shorter
    /// text, one changed word moves the fingerprint so far that hardly anything but copies is found.
    pub fn min_tokens(&self) -> usize {
        match self.scheme {
            Scheme::MinwiseShort1 => 4,
            Scheme::Simhash1 | Scheme::Minwise1 | Scheme::External => 8,
        }
    }

    /// Sets the size of the sketches. Default: 16 bytes.
    #[must_use]
    pub fn with_sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = size;
        self
    }

    /// The size of the sketches.
    pub fn sketch_size(&self) -> SketchSize {
        self.sketch_size
    }

    /// The document of a key and a text, with its fingerprint and its sketch. A text that is too short to
    /// judge gives a document that has neither.
    ///
    /// # Cost
    ///
    /// Time linear in the length of the text, apart from a sort of its features. Memory of the order of
    /// the text.
    pub fn document(&self, key: impl Into<Vec<u8>>, text: &str) -> Document {
        match self.fingerprint_and_sketch(text) {
            Some((fingerprint, sketch)) => Document::new(key, fingerprint).with_sketch(sketch),
            None => Document::new(key, None),
        }
    }

    /// As [`document`](Self::document), of the visible text of an HTML page. Broken markup is read as browsers
    /// read it.
    pub fn document_html(&self, key: impl Into<Vec<u8>>, html: &str) -> Document {
        self.document(key, &html::visible_text(html))
    }

    /// The fingerprint of a text, or `None` if the text is too short to judge.
    pub fn fingerprint(&self, text: &str) -> Option<Fingerprint> {
        self.with_sketch_size(SketchSize::None)
            .fingerprint_and_sketch(text)
            .map(|(fingerprint, _)| fingerprint)
    }

    /// The fingerprint of the visible text of an HTML page, or `None` if that text is too short to judge.
    /// Broken markup is read as browsers read it.
    pub fn fingerprint_html(&self, html: &str) -> Option<Fingerprint> {
        self.fingerprint(&html::visible_text(html))
    }

    /// The sketch of a text, or `None` if the text is too short to judge, or sketches have no size.
    pub fn sketch(&self, text: &str) -> Option<Sketch> {
        self.fingerprint_and_sketch(text)?.1
    }

    /// As [`fingerprint_and_sketch`](Self::fingerprint_and_sketch), of the visible text of an HTML page.
    pub fn fingerprint_and_sketch_html(&self, html: &str) -> Option<(Fingerprint, Option<Sketch>)> {
        self.fingerprint_and_sketch(&html::visible_text(html))
    }

    /// The fingerprint and the sketch of a text, or `None` if the text is too short to judge. There is no
    /// sketch if sketches have no size.
    ///
    /// # Cost
    ///
    /// That of [`document`](Self::document). The text is cut into tokens once for both.
    pub fn fingerprint_and_sketch(&self, text: &str) -> Option<(Fingerprint, Option<Sketch>)> {
        let (text, seed) = (normalize::normalize(text), self.scheme.feature_seed());
        let kind = match self.scheme {
            Scheme::Minwise1 | Scheme::MinwiseShort1 => FeatureKind::Pairs,
            Scheme::Simhash1 | Scheme::External => FeatureKind::Words,
        };
        let shingle_seed = (self.sketch_size != SketchSize::None).then_some(SHINGLE_SEED);
        let mut features = Features::of(&text, kind, seed, shingle_seed);
        if features.tokens < self.min_tokens() {
            return None;
        }
        let fingerprint = match self.scheme {
            Scheme::Minwise1 | Scheme::MinwiseShort1 => minwise::fingerprint(&features.hashes, seed),
            Scheme::Simhash1 | Scheme::External => simhash::fingerprint(features.weighted(), Tie::Zero),
        };
        Some((fingerprint, sketching::sketch(features.shingles, self.sketch_size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: [Scheme; 3] = [Scheme::Simhash1, Scheme::Minwise1, Scheme::MinwiseShort1];

    fn of(scheme: Scheme) -> Fingerprinter {
        Fingerprinter::new(scheme).expect("text schemes make fingerprints")
    }

    /// Another value here would be another scheme: existing files would no longer find their documents.
    #[test]
    fn fingerprints_of_fixed_texts_never_change() {
        let pinned = [
            (
                "The quick brown fox jumps over the lazy dog near the river bank.",
                ["53ba652888820c40", "665ccdef04893953"],
            ),
            (
                "the QUICK brown fox jumps over the lazy dog near the river bank",
                ["53ba652888820c40", "665ccdef04893953"],
            ),
            (
                "Ｆull-width, ﬁgures and Ünïcode: Σίσυφος, ПРИВЕТ, 3.14 and naïve café words",
                ["02a291c065e184a0", "bea252a803bd62fe"],
            ),
            ("近似重复检测：两个网页的内容几乎相同。", ["fd429018128097cc", "d3033070d85c5d1a"]),
            ("これは日本語の文章です。カタカナもあります。", ["d9f2474d878ede10", "6ab3f433c0e56166"]),
            ("ภาษาไทยไม่มีช่องว่างระหว่างคำ", ["eba8e6eb8fb9ca5b", "9dac5cffccf35367"]),
            (
                "한국어 문장은 띄어쓰기가 있어서 단어가 그대로 토큰이 된다 그렇지",
                ["494aeebcb27f4ca6", "d7323f948ee76f12"],
            ),
            ("again again again again again again again again", ["805bc0ef11f089c2", "f55a83de3d2ff38c"]),
        ];
        let page = "<html><head><title>t</title></head><body><p>One two three <b>four</b> five</p>\
                    <script>no</script><ul><li>six<li>seven &amp; eight</ul><p>nine&nbsp;ten";
        for (index, scheme) in SCHEMES.into_iter().enumerate() {
            for (text, fingerprints) in pinned {
                let made = of(scheme).fingerprint(text).map(|it| it.to_string());
                assert_eq!(made.as_deref(), Some(fingerprints[index.min(1)]), "{scheme}: {text}");
            }
            let made = of(scheme).fingerprint_html(page).map(|it| it.to_string());
            assert_eq!(
                made.as_deref(),
                Some(["d8e3280443366fa5", "c130f98e7ae4c5df"][index.min(1)]),
                "{scheme}"
            );
        }
    }

    /// Another value here would make the sketches of existing files meaningless.
    #[test]
    fn sketches_of_fixed_texts_never_change() {
        let english = "The quick brown fox jumps over the lazy dog near the river bank.";
        let chinese = "近似重复检测：两个网页的内容几乎相同。";
        for (text, size, pinned, shingles) in [
            (english, SketchSize::Bytes16, "9b8180b0189054be6df716de3817f5e3", 10),
            (
                english,
                SketchSize::Bytes32,
                "59c323d2604940cf810b00cab572d44eb79c9dfe348aed579a0ba72375ef17fc",
                10,
            ),
            (chinese, SketchSize::Bytes16, "709b1ac164e01012f0de67ccb9f7a85b", 14),
            (
                chinese,
                SketchSize::Bytes32,
                "845ecfd3e49905a2b55a21e944165d0502fddcf67f2ca2b55ace2f6dd4e4da77",
                14,
            ),
            (
                "again again again again again again again again",
                SketchSize::Bytes16,
                "b9ee870827fb883ba9cebfc4813ab07a",
                1,
            ),
        ] {
            for fingerprinter in SCHEMES.map(of) {
                let sketch = fingerprinter.with_sketch_size(size).sketch(text);
                let made = sketch.map(|it| (it.to_string(), it.shingles()));
                assert_eq!(made, Some((pinned.to_owned(), shingles)), "{}: {text}", fingerprinter.scheme());
            }
        }
        assert_eq!(of(Scheme::Minwise1).with_sketch_size(SketchSize::None).sketch(english), None);
    }

    /// The error of an estimate with b samples is about the square root of (1 - J) (1 + J) / b, twice over.
    #[test]
    fn estimates_are_as_close_as_their_samples_allow() {
        for (size, most) in [(SketchSize::Bytes16, 0.065), (SketchSize::Bytes32, 0.050)] {
            let fingerprinter = of(Scheme::Minwise1).with_sketch_size(size);
            let words = |from: usize, to: usize| -> String {
                (from..to).map(|word| format!("w{} ", word.wrapping_mul(0x9e37_79b9) >> 7)).collect()
            };
            let (mut squares, mut sum, mut pairs) = (0.0, 0.0, 0.0);
            for i in 0..400 {
                // Of the 300 shingles of either text, some at the ends are not shared.
                let (first, moved) = (i * 1_000, 1 + i % 60);
                let texts = [words(first, first + 303), words(first + moved, first + moved + 303)];
                let [a, b] = texts.map(|text| fingerprinter.sketch(&text).expect("long enough"));
                let jaccard = (300 - moved) as f64 / (300 + moved) as f64;
                let estimate = a.similarity(&b).expect("of one size").jaccard();
                squares += (estimate - jaccard).powi(2);
                sum += estimate - jaccard;
                pairs += 1.0;
            }
            let rmse = f64::sqrt(squares / pairs);
            assert!(rmse < most, "{size:?}: {rmse}");
            assert!(f64::abs(sum / pairs) < 0.01, "{size:?}: {}", sum / pairs);
        }
    }

    #[test]
    fn short_texts_are_not_judged() {
        for fingerprinter in SCHEMES.map(of) {
            assert_eq!(fingerprinter.fingerprint(""), None);
            let words: Vec<&str> = "one two three four five six seven eight".split(' ').collect();
            let shortest = if fingerprinter.scheme() == Scheme::MinwiseShort1 { 4 } else { 8 };
            assert_eq!(fingerprinter.min_tokens(), shortest);
            assert_eq!(fingerprinter.fingerprint(&words[..shortest - 1].join(" ")), None);
            assert!(fingerprinter.fingerprint(&words[..shortest].join(" ")).is_some());
            assert_eq!(fingerprinter.fingerprint("…!? -- \u{0} \u{fffd}"), None);
            assert_eq!(fingerprinter.fingerprint_html("<p>"), None);
        }
    }

    /// Another value here would be another scheme. A text that `minwise-1` judges too is pinned above.
    #[test]
    fn fingerprints_of_fixed_sentences_never_change() {
        let short = of(Scheme::MinwiseShort1);
        for (text, fingerprint) in [
            ("Nothing more is known.", "07e4849806526085"),
            ("nothing MORE is known", "07e4849806526085"),
            ("again again again again", "f55a83de3d2ff38c"),
            ("明天下雨", "bff3f16c8ece8242"),
            ("ไทยไม่มี", "d3f52d134827c57b"),
            ("7 8 9 10 11", "15b776020cd50fab"),
            ("🎉 one 🎉 two 🎉 three four", "d3858b37fb56879f"),
            ("文字 and слова", "765a2dd186cccc8c"),
            ("שלום עולם זה טקסט", "ee5edc9d97084426"),
        ] {
            let made = short.fingerprint(text).map(|it| it.to_string());
            assert_eq!(made.as_deref(), Some(fingerprint), "{text}");
            assert_eq!(of(Scheme::Minwise1).fingerprint(text), None);
        }
    }

    /// Each text has only a few features that differ, or none that a reader sees.
    #[test]
    fn unusual_texts_have_fingerprints() {
        let texts = [
            "7 ".repeat(1 << 20),
            "12345 ".repeat(8),
            "🎉 one 🎉 two 🎉 three 🎉 four 🎉 five 🎉 six 🎉 seven 🎉 eight".to_owned(),
            "שלום עולם זה טקסט שנכתב מימין לשמאל והוא ארוך".to_owned(),
            "mixed 文字 и слова ภาษา 한국어 and שלום in one text".to_owned(),
        ];
        for fingerprinter in SCHEMES.map(of) {
            for text in &texts {
                let made = fingerprinter.fingerprint(text);
                assert!(made.is_some(), "{}: {:.40}", fingerprinter.scheme(), text);
                assert_eq!(fingerprinter.fingerprint(&format!("\u{feff}{text}\n ")), made, "{text:.40}");
                let judged = fingerprinter.fingerprint_and_sketch(text);
                assert_eq!(judged.map(|(fingerprint, _)| fingerprint), made);
                assert!(judged.is_some_and(|(_, sketch)| sketch.is_some()));
            }
        }
    }

    #[test]
    fn external_fingerprints_are_made_elsewhere() {
        assert!(matches!(Fingerprinter::new(Scheme::External), Err(Error::ExternalScheme)));
    }
}
