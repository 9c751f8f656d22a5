//! Each method once more, from its definition: on words and sets of the standard library, pair by pair, without the
//! helpers of the methods. Only the random functions are the same, since they are part of what a method is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::f64::consts::PI;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::corpus::Corpus;
use super::method::{MethodName, Settings};
use crate::text::{Fingerprinter, Scheme};

/// The words of a text.
pub(super) type Words = Vec<String>;

/// The Jaccard similarity of the sets of shingles of this many words.
pub(super) fn resemblance(a: &Words, b: &Words, size: usize) -> f64 {
    let a = shingles(a, size);
    let b = shingles(b, size);
    let either = a.union(&b).count();
    if either == 0 {
        0.0
    } else {
        a.intersection(&b).count() as f64 / either as f64
    }
}

fn shingles(words: &Words, size: usize) -> HashSet<&[String]> {
    match words.len() {
        0 => HashSet::new(),
        length if length < size => HashSet::from([words.as_slice()]),
        _ => words.windows(size).collect(),
    }
}

/// The random value of each shingle.
fn hashes(words: &Words, size: usize) -> BTreeSet<u64> {
    let mut hashes = BTreeSet::new();
    for shingle in shingles(words, size) {
        let mut bytes = Vec::new();
        for word in shingle {
            bytes.extend(xxh3_64(word.as_bytes()).to_le_bytes());
        }
        hashes.insert(xxh3_64_with_seed(&bytes, size as u64));
    }
    hashes
}

/// The least value of each random function over the shingles. None of a text without words.
fn minwise(words: &Words, size: usize, functions: u64) -> Vec<u64> {
    let hashes = hashes(words, size);
    let mut least = Vec::new();
    for function in 0..functions {
        let values = hashes
            .iter()
            .map(|hash| xxh3_64_with_seed(&hash.to_le_bytes(), function));
        least.extend(values.min());
    }
    least
}

fn minwise_hash(a: &Words, b: &Words, functions: u64) -> f64 {
    let a = minwise(a, 4, functions);
    let b = minwise(b, 4, functions);
    a.iter().zip(&b).filter(|(x, y)| x == y).count() as f64 / functions as f64
}

fn bottom_k(a: &Words, b: &Words, kept: usize) -> f64 {
    let a = hashes(a, 4);
    let b = hashes(b, 4);
    let sample: Vec<&u64> = a.union(&b).take(kept).collect();
    let in_both = |hash: &&&u64| a.contains(*hash) && b.contains(*hash);
    let both = sample.iter().filter(in_both).count();
    if sample.is_empty() {
        0.0
    } else {
        both as f64 / sample.len() as f64
    }
}

/// The groups of 14 functions of which all least values are equal, in a text that has such values.
fn supershingles(a: &Words, b: &Words) -> usize {
    let a = minwise(a, 8, 84);
    let b = minwise(b, 8, 84);
    a.chunks(14)
        .zip(b.chunks(14))
        .filter(|(x, y)| x == y)
        .count()
}

/// For each lexicon, the words that it leaves of a text.
fn left(texts: &[Words], text: &Words, lexica: u64) -> Vec<BTreeSet<String>> {
    let mut first = BTreeSet::new();
    for word in text {
        let documents = texts.iter().filter(|text| text.contains(word)).count();
        let idf = (texts.len() as f64 / documents as f64).log2() / (texts.len() as f64).log2();
        if (0.2..=0.8).contains(&idf) {
            first.insert(word.clone());
        }
    }
    let mut left = vec![first.clone()];
    for lexicon in 1..=lexica {
        let mut words = first.clone();
        words.retain(|word| {
            let hash = xxh3_64(word.as_bytes()).to_le_bytes();
            !xxh3_64_with_seed(&hash, lexicon).is_multiple_of(3)
        });
        left.push(words);
    }
    left
}

/// How many lexica leave the same words of both texts, and some.
fn i_match(a: &[BTreeSet<String>], b: &[BTreeSet<String>]) -> usize {
    a.iter()
        .zip(b)
        .filter(|(x, y)| !x.is_empty() && x == y)
        .count()
}

/// The bit of a text: the sign of the sum of a random sign for each word.
fn projection(text: &Words, bit: u32) -> bool {
    let mut sum = 0;
    for word in text {
        let hash = xxh3_64(word.as_bytes()).to_le_bytes();
        let random = xxh3_64_with_seed(&hash, u64::from(bit / 64));
        sum += if (random >> (bit % 64)) % 2 == 1 {
            1
        } else {
            -1
        };
    }
    sum > 0
}

fn random_projection(a: &Words, b: &Words) -> Option<f64> {
    let different = (0..384)
        .filter(|&bit| projection(a, bit) != projection(b, bit))
        .count();
    (!a.is_empty() && !b.is_empty()).then(|| (PI * different as f64 / 384.0).cos())
}

/// The spots of a text with their counts. Of stop words, the texts of the test have these alone.
fn spots(text: &Words) -> HashMap<[&str; 3], u32> {
    let antecedents = ["the", "was", "has"];
    let stop_words = ["of", "and", "to", "the", "was", "has"];
    let mut spots = HashMap::new();
    for begin in 0..text.len() {
        if antecedents.contains(&text[begin].as_str()) {
            let mut chain: Vec<&str> = text[begin + 1..].iter().map(String::as_str).collect();
            chain.retain(|word| !stop_words.contains(word));
            if chain.len() >= 2 {
                let spot = [text[begin].as_str(), chain[0], chain[1]];
                *spots.entry(spot).or_insert(0) += 1;
            }
        }
    }
    spots
}

fn spotsigs(a: &Words, b: &Words) -> Option<f64> {
    let a = spots(a);
    let b = spots(b);
    let all: HashSet<&[&str; 3]> = a.keys().chain(b.keys()).collect();
    let mut least = 0;
    let mut most = 0;
    for spot in all {
        let of_a = a.get(spot).copied().unwrap_or(0);
        let of_b = b.get(spot).copied().unwrap_or(0);
        least += of_a.min(of_b);
        most += of_a.max(of_b);
    }
    (least > 0).then(|| f64::from(least) / f64::from(most))
}

/// The common words among all words of two texts, and the cosine of their counts.
fn words_and_cosine(a: &Words, b: &Words) -> [Option<f64>; 2] {
    let all: BTreeSet<&String> = a.iter().chain(b).collect();
    let [mut both, mut product, mut square_a, mut square_b] = [0.0; 4];
    for &word in &all {
        let of_a = count(a, word);
        let of_b = count(b, word);
        both += f64::from(of_a * of_b > 0.0);
        product += of_a * of_b;
        square_a += of_a * of_a;
        square_b += of_b * of_b;
    }
    if both == 0.0 {
        return [Some(0.0); 2];
    }
    let cosine: f64 = product / (square_a * square_b).sqrt();
    [Some(both / all.len() as f64), Some(cosine.min(1.0))]
}

fn count(text: &Words, word: &String) -> f64 {
    text.iter().filter(|other| *other == word).count() as f64
}

/// Forty texts: of each four, three are edited copies of the first. Some are short, and two are empty.
fn texts() -> Vec<Words> {
    let mut state = 0u64;
    let mut random = move |bound: u64| {
        state += 1;
        xxh3_64(&state.to_le_bytes()) % bound
    };
    let mut texts: Vec<Words> = vec![Words::new(), Words::new()];
    for number in 0..38 {
        let mut text: Words = if number % 4 == 0 {
            let word = |random: &mut dyn FnMut(u64) -> u64| match random(3) {
                0 => ["of", "and", "to", "the", "was", "has"][random(6) as usize].to_owned(),
                _ => format!("w{}", random(60)),
            };
            (0..3 + random(150)).map(|_| word(&mut random)).collect()
        } else {
            texts[texts.len() - number % 4].clone()
        };
        // The first copy has one word more, the others have other words in one or two places.
        match number % 4 {
            0 => {}
            1 => text.push("w60".to_owned()),
            edits => {
                for _ in 1..edits {
                    let place = random(text.len() as u64) as usize;
                    text[place] = format!("w{}", random(60));
                }
            }
        }
        texts.push(text);
    }
    texts
}

/// The scores that a method gives all pairs must be those of its twin.
fn assert_alike(name: &str, twin: impl Fn(&Words, &Words) -> Option<f64>) -> Result<(), String> {
    let texts = texts();
    let written: Vec<String> = texts
        .iter()
        .map(|text| text.join(" ").to_uppercase())
        .collect();
    let corpus = Corpus::from_texts(&written.iter().map(String::as_str).collect::<Vec<_>>());
    let described = name
        .parse::<MethodName>()?
        .describe(&corpus, &Settings::default());
    let mut scores = BTreeMap::new();
    for a in 0..texts.len() as u32 {
        for b in a + 1..texts.len() as u32 {
            let expected = twin(&texts[a as usize], &texts[b as usize]);
            assert_eq!(
                described.score(a as usize, b as usize),
                expected,
                "{name} of {a} and {b}"
            );
            scores.insert((a, b), expected);
        }
    }
    let distinct: BTreeSet<String> = scores.values().map(|score| format!("{score:?}")).collect();
    assert!(
        distinct.len() > 1,
        "{name} says the same of all pairs, so nothing was tested"
    );
    for least in [0.1, 0.3, 0.5, 0.9] {
        let mut expected = Vec::new();
        for (&(a, b), &score) in &scores {
            expected.extend(
                score
                    .filter(|&score| score >= least)
                    .map(|score| (a, b, score)),
            );
        }
        if let Some(indexed) = described.indexed(least) {
            assert_eq!(indexed, expected, "{name} from {least}");
        }
    }
    Ok(())
}

#[test]
fn methods_of_shingles_are_those_of_their_definitions() -> Result<(), String> {
    assert_alike("exact", |a, b| Some(resemblance(a, b, 4)))?;
    assert_alike("minwise-hash", |a, b| Some(minwise_hash(a, b, 128)))?;
    assert_alike("bottom-k", |a, b| Some(bottom_k(a, b, 128)))?;
    assert_alike("supershingles", |a, b| Some(supershingles(a, b) as f64))
}

#[test]
fn methods_of_words_are_those_of_their_definitions() -> Result<(), String> {
    for (name, lexica) in [("i-match", 0), ("i-match-k", 10)] {
        let texts = texts();
        let left: HashMap<&Words, _> = texts
            .iter()
            .map(|text| (text, left(&texts, text, lexica)))
            .collect();
        assert_alike(name, |a, b| Some(i_match(&left[a], &left[b]) as f64))?;
    }
    assert_alike("random-projection", random_projection)?;
    assert_alike("spotsigs", spotsigs)?;
    assert_alike("words", |a, b| words_and_cosine(a, b)[0])?;
    assert_alike("cosine", |a, b| words_and_cosine(a, b)[1])?;
    assert_alike("henzinger", |a, b| {
        random_projection(a, b).filter(|_| supershingles(a, b) >= 2)
    })
}

#[test]
fn schemes_are_those_of_the_public_interface() -> Result<(), Box<dyn std::error::Error>> {
    for &scheme in Scheme::ALL
        .iter()
        .filter(|scheme| **scheme != Scheme::External)
    {
        let fingerprinter = Fingerprinter::new(scheme)?;
        assert_alike(scheme.name(), |a, b| {
            let a = fingerprinter.fingerprint(&a.join(" "))?;
            let b = fingerprinter.fingerprint(&b.join(" "))?;
            Some(-f64::from(a.distance(b))).filter(|&score| score >= -16.0)
        })?;
    }
    Ok(())
}
