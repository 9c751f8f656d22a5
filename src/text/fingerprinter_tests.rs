//! What fingerprinters make of texts. The values are pinned.

use super::{Fingerprinter, Scheme};
use crate::error::{Error, Result};
use crate::sketch::SketchSize;

const SCHEMES: [Scheme; 5] = [
    Scheme::Simhash1,
    Scheme::Minwise1,
    Scheme::MinwiseShort1,
    Scheme::Content1,
    Scheme::Simhash2,
];
/// Where the value of each of them stands in a list of pinned values. Those of `minwise-1` are those of
/// `minwise-short-1` too.
const PINNED: [usize; 5] = [0, 1, 1, 2, 3];

fn of(scheme: Scheme) -> Fingerprinter {
    Fingerprinter::new(scheme).expect("text schemes make fingerprints")
}

/// Another value here would be another scheme: existing files would no longer find their documents.
#[test]
fn fingerprints_of_fixed_texts_never_change() {
    let pinned = [
        (
            "The quick brown fox jumps over the lazy dog near the river bank.",
            [
                "53ba652888820c40",
                "665ccdef04893953",
                "cc4bf8bed7d6474c",
                "11c3c6b0ecca4ca1",
            ],
        ),
        (
            "the QUICK brown fox jumps over the lazy dog near the river bank",
            [
                "53ba652888820c40",
                "665ccdef04893953",
                "cc4bf8bed7d6474c",
                "11c3c6b0ecca4ca1",
            ],
        ),
        (
            "Ｆull-width, ﬁgures and Ünïcode: Σίσυφος, ПРИВЕТ, 3.14 and naïve café words",
            [
                "86629fd477f184a8",
                "c6c347e450f860df",
                "331b97d1db592072",
                "10a5ebe17c63f16b",
            ],
        ),
        (
            "近似重复检测：两个网页的内容几乎相同。",
            [
                "fd429018128097cc",
                "d3033070d85c5d1a",
                "1a4b91f63dcdcfb0",
                "bc1bffa4b6008237",
            ],
        ),
        (
            "これは日本語の文章です。カタカナもあります。",
            [
                "d9f2474d878ede10",
                "6ab3f433c0e56166",
                "e2951a0fad334b18",
                "9a428b4634b6c544",
            ],
        ),
        (
            "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
            [
                "eba8e6eb8fb9ca5b",
                "9dac5cffccf35367",
                "5ea22919cabc51db",
                "045820f576ee804d",
            ],
        ),
        (
            "한국어 문장은 띄어쓰기가 있어서 단어가 그대로 토큰이 된다 그렇지",
            [
                "494aeebcb27f4ca6",
                "d7323f948ee76f12",
                "e5e76a838b0469cc",
                "16a638c6ca792ede",
            ],
        ),
        (
            "again and again and again and again and",
            [
                "0043c06411f08000",
                "e6a232350f69bfa8",
                "7c9b6a7402c639b2",
                "e2cb321a6a63fc7d",
            ],
        ),
    ];
    let page = "<html><head><title>t</title></head><body><p>One two three <b>four</b> five</p>\
                <script>no</script><ul><li>six<li>seven &amp; eight</ul><p>nine&nbsp;ten";
    for (index, scheme) in SCHEMES.into_iter().enumerate() {
        for (text, fingerprints) in pinned {
            let made = of(scheme).fingerprint(text).map(|it| it.to_string());
            assert_eq!(
                made.as_deref(),
                Some(fingerprints[PINNED[index]]),
                "{scheme}: {text}"
            );
        }
        let made = of(scheme).fingerprint_html(page).map(|it| it.to_string());
        assert_eq!(
            made.as_deref(),
            Some(
                [
                    "d8e3280443366fa5",
                    "c130f98e7ae4c5df",
                    "299dd63c1706bd83",
                    "f315087170b6d7e9"
                ][PINNED[index]]
            ),
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
        (
            english,
            SketchSize::Bytes16,
            "9b8180b0189054be6df716de3817f5e3",
            10,
        ),
        (
            english,
            SketchSize::Bytes32,
            "59c323d2604940cf810b00cab572d44eb79c9dfe348aed579a0ba72375ef17fc",
            10,
        ),
        (
            chinese,
            SketchSize::Bytes16,
            "709b1ac164e01012f0de67ccb9f7a85b",
            14,
        ),
        (
            chinese,
            SketchSize::Bytes32,
            "845ecfd3e49905a2b55a21e944165d0502fddcf67f2ca2b55ace2f6dd4e4da77",
            14,
        ),
        (
            "again and again and again and again and",
            SketchSize::Bytes16,
            "63c93308200a2079f6887e4f4b37e9cf",
            2,
        ),
    ] {
        for fingerprinter in SCHEMES.map(of) {
            let sketch = fingerprinter.with_sketch_size(size).sketch(text);
            let made = sketch.map(|it| (it.to_string(), it.shingles()));
            assert_eq!(
                made,
                Some((pinned.to_owned(), shingles)),
                "{}: {text}",
                fingerprinter.scheme()
            );
        }
    }
    assert_eq!(
        of(Scheme::Minwise1)
            .with_sketch_size(SketchSize::None)
            .sketch(english),
        None
    );
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
    let words =
        |range: std::ops::Range<u32>, weight: f64| range.map(move |it| (format!("w{it}"), weight));
    for fingerprinter in SCHEMES.map(of) {
        let made =
            |features: Vec<(String, f64)>| fingerprinter.fingerprint_and_sketch_features(features);
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

#[test]
fn short_texts_are_not_judged() {
    for fingerprinter in SCHEMES.map(of) {
        assert_eq!(fingerprinter.fingerprint(""), None);
        let words: Vec<&str> = "one two three four five six seven eight"
            .split(' ')
            .collect();
        let shortest = if fingerprinter.scheme() == Scheme::MinwiseShort1 {
            4
        } else {
            8
        };
        assert_eq!(fingerprinter.min_tokens(), shortest);
        assert_eq!(
            fingerprinter.fingerprint(&words[..shortest - 1].join(" ")),
            None
        );
        assert!(
            fingerprinter
                .fingerprint(&words[..shortest].join(" "))
                .is_some()
        );
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
        ("again and again and", "e6a232350f69bfa8"),
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

/// The order of sentences leaves all pairs of words but a few. How often a sentence is said leaves them all.
#[test]
fn order_and_repetition_hardly_count() {
    let sentence = |number: usize| {
        (0..12)
            .map(|it| format!("s{number}w{it} "))
            .collect::<String>()
    };
    let text = |numbers: &mut dyn Iterator<Item = usize>| numbers.map(sentence).collect::<String>();
    let [forward, backward] = [text(&mut (0..40)), text(&mut (0..40).rev())];
    for fingerprinter in SCHEMES.map(of) {
        let made = |text: &str| fingerprinter.fingerprint(text).expect("long enough");
        let distance = made(&forward).distance(made(&backward));
        assert!(distance <= 8, "{}: {distance}", fingerprinter.scheme());
        let twice = made(&forward).distance(made(&forward.repeat(2)));
        assert!(twice <= 2, "{}: {twice}", fingerprinter.scheme());
    }
}

/// Each text has only a few features that differ, or none that a reader sees.
#[test]
fn unusual_texts_have_fingerprints() {
    let texts = [
        "7 8 9 10 11 12 13 14 15 16 17 18 ".repeat(800),
        "12345 67890 ".repeat(4),
        "🎉 one 🎉 two 🎉 three 🎉 four 🎉 five 🎉 six 🎉 seven 🎉 eight".to_owned(),
        "שלום עולם זה טקסט שנכתב מימין לשמאל והוא ארוך".to_owned(),
        "mixed 文字 и слова ภาษา 한국어 and שלום in one text".to_owned(),
    ];
    for fingerprinter in SCHEMES.map(of) {
        for text in &texts {
            let made = fingerprinter.fingerprint(text);
            assert!(made.is_some(), "{}: {:.40}", fingerprinter.scheme(), text);
            assert_eq!(
                fingerprinter.fingerprint(&format!("\u{feff}{text}\n ")),
                made,
                "{text:.40}"
            );
            let judged = fingerprinter.fingerprint_and_sketch(text);
            assert_eq!(judged.map(|(fingerprint, _)| fingerprint), made);
            assert!(judged.is_some_and(|(_, sketch)| sketch.is_some()));
        }
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
    assert!(distance(Scheme::Content1, &here, &other) > distance(Scheme::Minwise1, &here, &other));
    assert!(distance(Scheme::Content1, &here, &other) > 16);
}

#[test]
fn external_fingerprints_are_made_elsewhere() {
    assert!(matches!(
        Fingerprinter::new(Scheme::External),
        Err(Error::ExternalScheme)
    ));
}
