//! What fingerprinters make of texts. Their values are pinned in `vectors_tests.rs`.

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
