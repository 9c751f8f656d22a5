//! Fingerprinter: text in, fingerprint out. Joins the steps of a scheme.

use super::features::{judge, judge_weighted};
use super::html::{self, Syntax};
use super::scheme::Scheme;
use super::unicode::normalize;
#[cfg(feature = "ingest")]
use super::unicode::normalize_owned;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::sketch::{Sketch, SketchSize};

/// Makes fingerprints from texts, by one scheme. It costs nothing to make. Its methods may be called from
/// any number of threads.
///
/// The steps, of which [`schemes`](crate::guide::schemes) has every byte:
///
/// 1. Of HTML, the visible text. [`Scheme::Content1`] takes only the main content.
/// 2. Normalisation, by Unicode 17.0.0: what nobody sees goes, compatible forms, capitals and small letters become one,
///    and so do letters with two codes.
/// 3. Tokens: words, and single characters of scripts that put no spaces between words. A text of less than
///    [`min_tokens`](Self::min_tokens) tokens is too short to judge, and so is one of few different tokens in nearly
///    every order.
/// 4. Features, each with a hash: of [`Scheme::Simhash1`] the tokens, of the others each token with the one that
///    follows. In scripts without spaces, they are one token longer.
/// 5. Bits. In `simhash-1` each distinct feature votes for or against every bit, with a weight that grows with the
///    logarithm of its count. In `simhash-2` it votes for or against one bit, which its hash chooses. In `minwise-1`,
///    `minwise-short-1` and `content-1` each bit is one of a sample of the features. So texts whose features have the
///    Jaccard similarity J differ in about 32 (1 - J) bits.
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
/// Detecting Near-Duplicates for Web Crawling, WWW 2007, section 2. Li, Hastie, Church: Very Sparse Random
/// Projections, KDD 2006. Li, König: b-Bit Minwise Hashing, WWW 2010.
/// Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, FOCS 2017. Kohlschütter, Fankhauser, Nejdl: Boilerplate
/// Detection using Shallow Text Features, WSDM 2010.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            Scheme::Simhash1
            | Scheme::Minwise1
            | Scheme::MinwiseShort1
            | Scheme::Content1
            | Scheme::Simhash2 => Ok(Self {
                scheme,
                sketch_size: SketchSize::default(),
            }),
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The fewest tokens of a text that is judged: eight, or four with [`Scheme::MinwiseShort1`]. In a shorter
    /// text, one changed word moves the fingerprint so far that hardly anything but copies is found.
    ///
    /// A longer text is too short too if it has few different tokens in nearly every order, since chance makes such
    /// texts alike: a bitmap in noughts and ones of more than 8 tokens, a genome in four letters of more than 128.
    /// Few words again and again, such as a chant, are judged.
    pub fn min_tokens(&self) -> usize {
        match self.scheme {
            Scheme::MinwiseShort1 => 4,
            Scheme::Simhash1
            | Scheme::Minwise1
            | Scheme::Content1
            | Scheme::Simhash2
            | Scheme::External => 8,
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
        self.document(key, &self.text_of_html(html))
    }

    /// The fingerprint of a text, or `None` if the text is too short to judge.
    pub fn fingerprint(&self, text: &str) -> Option<Fingerprint> {
        self.with_sketch_size(SketchSize::None)
            .fingerprint_and_sketch(text)
            .map(|(fingerprint, _)| fingerprint)
    }

    /// The fingerprint of features that the caller has found in a text, each with its weight. `None` if there are
    /// fewer distinct ones than [`min_tokens`](Self::min_tokens).
    ///
    /// So the words of any tokenizer, without stop words, with weights for the kind of word or its rarity, make
    /// fingerprints of either kind. In the simhash schemes a feature votes with its weight. In the minwise
    /// schemes, texts whose features have the weighted Jaccard similarity J differ in about 32 (1 - J) bits. That
    /// is the sum of the lesser weights, divided by the sum of the greater ones. Weights are rounded to
    /// sixteenths, at least one. Those of a feature that comes several times are added. The order of the features
    /// does not matter.
    ///
    /// # Errors
    ///
    /// [`Error::FeatureWeight`] for a weight that is not above 0, and if the sum of the weights exceeds 2^20.
    ///
    /// # Cost
    ///
    /// A sort of the features. The minwise schemes take 16 hashes for a weight of 1.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{Fingerprinter, Scheme};
    ///
    /// let fingerprinter = Fingerprinter::new(Scheme::Simhash1)?;
    /// let words = ["museum", "opens", "new", "wing", "with", "paintings", "by", "Turner"];
    /// let weight = |word: &str| if word.len() > 4 { 3.0 } else { 1.0 };
    /// let features = words.map(|word| (word, weight(word)));
    /// assert!(fingerprinter.fingerprint_features(features)?.is_some());
    /// # Ok::<(), simdb::Error>(())
    /// ```
    pub fn fingerprint_features<F: AsRef<[u8]>>(
        &self,
        features: impl IntoIterator<Item = (F, f64)>,
    ) -> Result<Option<Fingerprint>> {
        let judged = self
            .with_sketch_size(SketchSize::None)
            .fingerprint_and_sketch_features(features)?;
        Ok(judged.map(|(fingerprint, _)| fingerprint))
    }

    /// As [`fingerprint_features`](Self::fingerprint_features), with a sketch. Its similarity is the weighted Jaccard
    /// similarity of the features, and its number of shingles is the sum of the weights in sixteenths.
    ///
    /// # Errors
    ///
    /// Those of [`fingerprint_features`](Self::fingerprint_features).
    pub fn fingerprint_and_sketch_features<F: AsRef<[u8]>>(
        &self,
        features: impl IntoIterator<Item = (F, f64)>,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>> {
        judge_weighted(features, self)
    }

    /// The fingerprint of the visible text of an HTML page, by [`Scheme::Content1`] of its main content, or `None`
    /// if that text is too short to judge. Broken markup is read as browsers read it.
    pub fn fingerprint_html(&self, html: &str) -> Option<Fingerprint> {
        self.fingerprint(&self.text_of_html(html))
    }

    /// The text of an HTML page from which its fingerprint is made: the visible text, by [`Scheme::Content1`] of the
    /// main content. It is there for those who keep texts. A page that begins with an XML declaration is read as
    /// XHTML.
    pub fn text_of_html(&self, html: &str) -> String {
        self.text_of_page(html, Syntax::from_beginning(html))
    }

    /// As [`text_of_html`](Self::text_of_html), of a page that is known to be XHTML by its type. There, a tag that
    /// closes itself, such as `<script/>`, ends its element, and a section of CDATA is text.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{Fingerprinter, Scheme};
    ///
    /// let fingerprinter = Fingerprinter::new(Scheme::Minwise1)?;
    /// let page = "<html><head><script src='a.js'/></head><body>Seen.</body></html>";
    /// assert_eq!(fingerprinter.text_of_xhtml(page).trim(), "Seen.");
    /// assert_eq!(fingerprinter.text_of_html(page).trim(), "");
    /// # Ok::<(), simdb::Error>(())
    /// ```
    pub fn text_of_xhtml(&self, xhtml: &str) -> String {
        self.text_of_page(xhtml, Syntax::Xhtml)
    }

    pub(crate) fn text_of_page(&self, page: &str, syntax: Syntax) -> String {
        match self.scheme {
            Scheme::Content1 => html::main_content(page, syntax),
            Scheme::Simhash1
            | Scheme::Minwise1
            | Scheme::MinwiseShort1
            | Scheme::Simhash2
            | Scheme::External => html::visible_text(page, syntax),
        }
    }

    /// The sketch of a text, or `None` if the text is too short to judge, or sketches have no size.
    pub fn sketch(&self, text: &str) -> Option<Sketch> {
        self.fingerprint_and_sketch(text)?.1
    }

    /// As [`fingerprint_and_sketch`](Self::fingerprint_and_sketch), of the visible text of an HTML page.
    pub fn fingerprint_and_sketch_html(&self, html: &str) -> Option<(Fingerprint, Option<Sketch>)> {
        self.fingerprint_and_sketch(&self.text_of_html(html))
    }

    /// The fingerprint and the sketch of a text, or `None` if the text is too short to judge. There is no
    /// sketch if sketches have no size.
    ///
    /// # Cost
    ///
    /// That of [`document`](Self::document). The text is cut into tokens once for both.
    pub fn fingerprint_and_sketch(&self, text: &str) -> Option<(Fingerprint, Option<Sketch>)> {
        judge(normalize(text), self)
    }

    /// The fingerprints and sketches of many texts, in their order, on all cores.
    ///
    /// Each is that of [`fingerprint_and_sketch`](Self::fingerprint_and_sketch).
    pub fn fingerprints_and_sketches<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
    ) -> Vec<Option<(Fingerprint, Option<Sketch>)>> {
        parallel::map_each(texts.iter().collect(), |text: &T| {
            self.fingerprint_and_sketch(text.as_ref())
        })
    }

    /// As [`fingerprint_and_sketch`](Self::fingerprint_and_sketch), of a text that nobody else needs. Its memory is
    /// free before more is taken.
    #[cfg(feature = "ingest")]
    pub(crate) fn fingerprint_and_sketch_of(
        &self,
        text: String,
    ) -> Option<(Fingerprint, Option<Sketch>)> {
        judge(normalize_owned(text).into(), self)
    }
}

#[cfg(test)]
impl Fingerprinter {
    /// One of each scheme that makes fingerprints.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let all = Scheme::ALL.iter();
        all.filter_map(|&scheme| Self::new(scheme).ok())
    }
}

/// What is made of fixed texts is pinned in `vectors_tests.rs`.
#[cfg(test)]
mod tests {
    use super::*;

    fn of(scheme: Scheme) -> Fingerprinter {
        Fingerprinter::new(scheme).expect("text schemes make fingerprints")
    }

    #[test]
    fn without_a_size_there_is_no_sketch() {
        let text = "The quick brown fox jumps over the lazy dog near the river bank.";
        let fingerprinter = of(Scheme::Minwise1);
        assert!(fingerprinter.sketch(text).is_some());
        let without = fingerprinter.with_sketch_size(SketchSize::None);
        assert_eq!(without.sketch(text), None);
    }

    /// The error of an estimate with b samples is about the square root of (1 - J) (1 + J) / b, twice over.
    #[test]
    fn estimates_are_as_close_as_their_samples_allow() {
        for (size, most) in [(SketchSize::Bytes16, 0.065), (SketchSize::Bytes32, 0.050)] {
            let fingerprinter = of(Scheme::Minwise1).with_sketch_size(size);
            let words = |from: usize, to: usize| -> String {
                (from..to)
                    .map(|word| format!("w{} ", word.wrapping_mul(0x9e37_79b9) >> 7))
                    .collect()
            };
            let mut squares = 0.0;
            let mut sum = 0.0;
            let mut pairs = 0.0;
            for i in 0..400 {
                // Of the 300 shingles of either text, some at the ends are not shared.
                let first = i * 1_000;
                let moved = 1 + i % 60;
                let texts = [
                    words(first, first + 303),
                    words(first + moved, first + moved + 303),
                ];
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
    fn features_of_the_caller_count_by_their_weights() -> Result<()> {
        let words = |range: std::ops::Range<u32>, weight: f64| {
            range.map(move |it| (format!("w{it}"), weight))
        };
        for fingerprinter in Fingerprinter::all() {
            let made = |features: Vec<(String, f64)>| {
                fingerprinter.fingerprint_and_sketch_features(features)
            };
            let all = made(words(0..300, 1.0).collect())?;
            let twice = words(150..300, 0.5)
                .chain(words(0..150, 1.0))
                .chain(words(150..300, 0.5));
            assert_eq!(
                made(twice.collect())?,
                all,
                "the order does not matter, and weights are added"
            );
            assert_eq!(
                made(words(0..7, 1.0).collect())?.is_some(),
                fingerprinter.min_tokens() < 8
            );
            assert!(made(words(0..8, 1.0).collect())?.is_some());
            assert!(made(vec![("w".to_owned(), f64::NAN)]).is_err());
            // What differs has a tenth of the features in either case, but a hundredth or half of the weight.
            let changed =
                |from: u32, weight: f64| words(0..270, 1.0).chain(words(from..from + 30, weight));
            let distance_and_similarity = |weight: f64| -> Result<_> {
                let [a, b] = [
                    made(changed(1_000, weight).collect())?,
                    made(changed(2_000, weight).collect())?,
                ];
                let ((a, sketch), (b, other)) = (a.expect("long enough"), b.expect("long enough"));
                let similarity = sketch
                    .expect("a sketch")
                    .similarity(&other.expect("a sketch"))?;
                Ok((a.distance(b), similarity.jaccard()))
            };
            let ((near, alike), (far, unlike)) =
                (distance_and_similarity(0.1)?, distance_and_similarity(9.0)?);
            assert!(
                near <= 4 && far >= 12,
                "{}: {near}, {far}",
                fingerprinter.scheme()
            );
            assert!(
                alike > 0.9 && (0.1..0.6).contains(&unlike),
                "{alike}, {unlike}"
            );
        }
        Ok(())
    }

    /// The order of sentences leaves all pairs of words but a few. How often a sentence is said leaves them all.
    #[test]
    fn order_and_repetition_hardly_count() {
        let sentence = |number: usize| {
            (0..12)
                .map(|it| format!("s{number}w{it} "))
                .collect::<String>()
        };
        let text =
            |numbers: &mut dyn Iterator<Item = usize>| numbers.map(sentence).collect::<String>();
        let [forward, backward] = [text(&mut (0..40)), text(&mut (0..40).rev())];
        for fingerprinter in Fingerprinter::all() {
            let made = |text: &str| fingerprinter.fingerprint(text).expect("long enough");
            let distance = made(&forward).distance(made(&backward));
            assert!(distance <= 8, "{}: {distance}", fingerprinter.scheme());
            let twice = made(&forward).distance(made(&forward.repeat(2)));
            assert!(twice <= 2, "{}: {twice}", fingerprinter.scheme());
        }
    }

    #[test]
    fn content_finds_a_story_in_the_template_of_another_site() {
        let numbers = |first: u32, count| {
            (first..first + count)
                .map(|it| format!("w{it} "))
                .collect::<String>()
        };
        let page = |site: u32, story: u32| {
            let links =
                (0..40).map(|it| format!("<li><a href=/{it}>{}</a>", numbers(site + 4 * it, 4)));
            let text = (0..10).map(|it| format!("<p>{}", numbers(story + 30 * it, 30)));
            format!(
                "<ul>{}</ul>{}<footer>{}",
                links.collect::<String>(),
                text.collect::<String>(),
                numbers(site, 60)
            )
        };
        let distance = |scheme, a: &str, b: &str| {
            let made = [a, b].map(|page| {
                of(scheme)
                    .fingerprint_html(page)
                    .expect("a page is long enough")
            });
            made[0].distance(made[1])
        };
        let [here, there, other] = [page(0, 10_000), page(5_000, 10_000), page(0, 20_000)];
        assert_eq!(distance(Scheme::Content1, &here, &there), 0);
        assert!(distance(Scheme::Minwise1, &here, &there) > 8);
        assert!(
            distance(Scheme::Content1, &here, &other) > distance(Scheme::Minwise1, &here, &other)
        );
        assert!(distance(Scheme::Content1, &here, &other) > 16);
    }

    #[test]
    fn external_fingerprints_are_made_elsewhere() {
        assert!(matches!(
            Fingerprinter::new(Scheme::External),
            Err(Error::ExternalScheme)
        ));
    }
}
