//! Fingerprinter: text in, fingerprint out. Joins the steps of a scheme.

use super::features::Features;
use super::scheme::Scheme;
use super::simhash::Tie;
use super::{html, main_content, minwise, normalize, simhash};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;

/// Makes fingerprints from texts, by one scheme. It costs nothing to make. Its methods may be called from
/// any number of threads.
///
/// The steps of the text schemes, [`Scheme::Simhash1`], [`Scheme::Minwise1`] and [`Scheme::Content1`]:
///
/// 1. Of HTML, the visible text: no markup, comments, scripts or styles, and nothing of the head. `content-1`
///    takes only the main content of it: the longest run of blocks with many words and few links, and the runs
///    with at least half as many words. Of a page without such a run it takes all but the menus.
/// 2. Unicode normalisation form KC, simple case folding.
/// 3. Tokens: the words of Unicode Standard Annex #29. A text of less than [`MIN_TOKENS`](Self::MIN_TOKENS)
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
/// Or `minwise-1` and `content-1`:
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
/// Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, FOCS 2017. Kohlschütter, Fankhauser, Nejdl: Boilerplate
/// Detection using Shallow Text Features, WSDM 2010.
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
            Scheme::Simhash1 | Scheme::Minwise1 | Scheme::Content1 => Ok(Self { scheme }),
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
        let (text, seed) = (normalize::normalize(text), self.scheme.feature_seed());
        let mut features = match self.scheme {
            Scheme::Minwise1 | Scheme::Content1 => Features::pairs(&text, seed),
            Scheme::Simhash1 | Scheme::External => Features::words(&text, seed),
        };
        (features.tokens >= Self::MIN_TOKENS).then(|| match self.scheme {
            Scheme::Minwise1 | Scheme::Content1 => minwise::fingerprint(&features.hashes, seed),
            Scheme::Simhash1 | Scheme::External => simhash::fingerprint(features.weighted(), Tie::Zero),
        })
    }

    /// The fingerprint of the visible text of an HTML page, by [`Scheme::Content1`] of its main content, or `None`
    /// if that text is too short to judge. Broken markup is read as browsers read it.
    pub fn fingerprint_html(&self, html: &str) -> Option<Fingerprint> {
        self.fingerprint(&match self.scheme {
            Scheme::Content1 => main_content::main_content(html),
            Scheme::Simhash1 | Scheme::Minwise1 | Scheme::External => html::visible_text(html),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: [Scheme; 3] = [Scheme::Simhash1, Scheme::Minwise1, Scheme::Content1];

    fn of(scheme: Scheme) -> Fingerprinter {
        Fingerprinter::new(scheme).expect("text schemes make fingerprints")
    }

    /// Another value here would be another scheme: existing files would no longer find their documents.
    #[test]
    fn fingerprints_of_fixed_texts_never_change() {
        let pinned = [
            (
                "The quick brown fox jumps over the lazy dog near the river bank.",
                ["53ba652888820c40", "665ccdef04893953", "cc4bf8bed7d6474c"],
            ),
            (
                "the QUICK brown fox jumps over the lazy dog near the river bank",
                ["53ba652888820c40", "665ccdef04893953", "cc4bf8bed7d6474c"],
            ),
            (
                "Ｆull-width, ﬁgures and Ünïcode: Σίσυφος, ПРИВЕТ, 3.14 and naïve café words",
                ["02a291c065e184a0", "bea252a803bd62fe", "7bbd91d8a19c2074"],
            ),
            (
                "近似重复检测：两个网页的内容几乎相同。",
                ["fd429018128097cc", "d3033070d85c5d1a", "1a4b91f63dcdcfb0"],
            ),
            (
                "これは日本語の文章です。カタカナもあります。",
                ["d9f2474d878ede10", "6ab3f433c0e56166", "e2951a0fad334b18"],
            ),
            ("ภาษาไทยไม่มีช่องว่างระหว่างคำ", ["eba8e6eb8fb9ca5b", "9dac5cffccf35367", "5ea22919cabc51db"]),
            (
                "한국어 문장은 띄어쓰기가 있어서 단어가 그대로 토큰이 된다 그렇지",
                ["494aeebcb27f4ca6", "d7323f948ee76f12", "e5e76a838b0469cc"],
            ),
            (
                "again again again again again again again again",
                ["805bc0ef11f089c2", "f55a83de3d2ff38c", "c370f5236b8cca33"],
            ),
        ];
        let page = "<html><head><title>t</title></head><body><p>One two three <b>four</b> five</p>\
                    <script>no</script><ul><li>six<li>seven &amp; eight</ul><p>nine&nbsp;ten";
        for (index, scheme) in SCHEMES.into_iter().enumerate() {
            for (text, fingerprints) in pinned {
                let made = of(scheme).fingerprint(text).map(|it| it.to_string());
                assert_eq!(made.as_deref(), Some(fingerprints[index]), "{scheme}: {text}");
            }
            let made = of(scheme).fingerprint_html(page).map(|it| it.to_string());
            assert_eq!(
                made.as_deref(),
                Some(["d8e3280443366fa5", "c130f98e7ae4c5df", "299dd63c1706bd83"][index]),
                "{scheme}"
            );
        }
    }

    #[test]
    fn short_texts_are_not_judged() {
        for fingerprinter in SCHEMES.map(of) {
            assert_eq!(fingerprinter.fingerprint(""), None);
            assert_eq!(fingerprinter.fingerprint("one two three four five six seven"), None);
            assert!(fingerprinter.fingerprint("one two three four five six seven eight").is_some());
            assert_eq!(fingerprinter.fingerprint("…!? -- \u{0} \u{fffd}"), None);
            assert_eq!(fingerprinter.fingerprint_html("<p>"), None);
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
            }
        }
    }

    #[test]
    fn content_finds_a_story_in_the_template_of_another_site() {
        let numbers =
            |first: u32, count| (first..first + count).map(|it| format!("w{it} ")).collect::<String>();
        let page = |site: u32, story: u32| {
            let links = (0..40).map(|it| format!("<li><a href=/{it}>{}</a>", numbers(site + 4 * it, 4)));
            let text = (0..10).map(|it| format!("<p>{}", numbers(story + 30 * it, 30)));
            format!(
                "<ul>{}</ul>{}<footer>{}",
                links.collect::<String>(),
                text.collect::<String>(),
                numbers(site, 60)
            )
        };
        let distance = |scheme, a: &str, b: &str| {
            let made = [a, b].map(|page| of(scheme).fingerprint_html(page).expect("a page is long enough"));
            made[0].distance(made[1])
        };
        let [here, there, other] = [page(0, 10_000), page(5_000, 10_000), page(0, 20_000)];
        assert_eq!(distance(Scheme::Content1, &here, &there), 0);
        assert!(distance(Scheme::Minwise1, &here, &there) > 8);
        assert!(distance(Scheme::Content1, &here, &other) > distance(Scheme::Minwise1, &here, &other));
        assert!(distance(Scheme::Content1, &here, &other) > 16);
    }

    #[test]
    fn external_fingerprints_are_made_elsewhere() {
        assert!(matches!(Fingerprinter::new(Scheme::External), Err(Error::ExternalScheme)));
    }
}
