//! What is found of documents in which some words were changed here and there: recall by the share of changed words,
//! for each choice of scheme, distance and similarity that `simdb plan` names, and some more. It measures no time.
//!
//!     SIMDB_DATA=FOLDER cargo run --release --example changed_words
//!
//! Corpus: the documents of six sets in the folder that SIMDB_DATA names, those of at least 100 words, at most 2,000 of
//! a set. Of pages the text is taken. A word is what stands between white space. Each word of a copy is another word
//! of the same set with the probability of its column. Words and places are drawn with a fixed seed.

use std::io::Read as _;
use std::path::Path;

use simdb::{Fingerprint, Fingerprinter, Scheme, Sketch, SketchSize};

const SETS: [&str; 6] = [
    "manpages",
    "terms-versions",
    "licenses",
    "pg-docs-html",
    "crawl-html",
    "recrawl-html",
];
const LEAST_WORDS: usize = 100;
const MOST_OF_A_SET: usize = 2_000;

/// The changed words of each thousand.
const CHANGED: [u64; 5] = [10, 20, 50, 100, 200];

struct Choice {
    scheme: Scheme,
    max_distance: u32,
    /// `None` if the distance alone decides.
    min_similarity: Option<f64>,
}

const fn choice(scheme: Scheme, max_distance: u32, min_similarity: Option<f64>) -> Choice {
    Choice {
        scheme,
        max_distance,
        min_similarity,
    }
}

const CHOICES: [Choice; 12] = [
    choice(Scheme::Minwise1, 8, Some(0.7)),
    choice(Scheme::Minwise1, 8, Some(0.6)),
    choice(Scheme::Minwise1, 10, Some(0.7)),
    choice(Scheme::Minwise1, 10, Some(0.6)),
    choice(Scheme::Minwise1, 12, Some(0.6)),
    choice(Scheme::Minwise1, 12, Some(0.5)),
    choice(Scheme::Minwise1, 5, None),
    choice(Scheme::Minwise1, 3, None),
    choice(Scheme::Simhash2, 10, Some(0.7)),
    choice(Scheme::Simhash2, 5, None),
    choice(Scheme::Simhash1, 10, Some(0.7)),
    choice(Scheme::Simhash1, 3, None),
];

/// The documents of a set.
struct Set {
    name: &'static str,
    documents: Vec<Vec<String>>,
    /// All words, each as often as it stands there.
    words: Vec<String>,
}

/// What is compared of a text.
type Compared = (Fingerprint, Option<Sketch>);

fn main() {
    let folder = std::env::var("SIMDB_DATA").expect("SIMDB_DATA names the folder of the sets");
    let sets: Vec<Set> = SETS
        .iter()
        .map(|name| read(Path::new(&folder), name))
        .collect();
    for set in &sets {
        let count = set.documents.len();
        println!("{}: {count} documents, {} words", set.name, set.words.len());
    }

    println!("| scheme | distance | similarity | 1 % | 2 % | 5 % | 10 % | 20 % |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut schemes: Vec<Scheme> = CHOICES.iter().map(|choice| choice.scheme).collect();
    schemes.dedup();
    for scheme in schemes {
        let found = found_by(&sets, scheme);
        for (choice, shares) in found {
            let similarity = choice
                .min_similarity
                .map_or("-".to_owned(), |least| least.to_string());
            let shares = shares.map(|share| format!("{share:.1}")).join(" | ");
            let distance = choice.max_distance;
            println!("| {scheme} | {distance} | {similarity} | {shares} |");
        }
    }
}

/// Reads the documents of a set.
fn read(folder: &Path, name: &'static str) -> Set {
    let path = folder.join(name).join("docs.jsonl.gz");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut lines = String::new();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut lines)
        .expect("a set is packed with gzip");
    let fingerprinter =
        Fingerprinter::new(Scheme::Minwise1).expect("it makes fingerprints of texts");
    let mut documents: Vec<Vec<String>> = Vec::new();
    for line in lines.lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let text = match (record["html"].as_str(), record["text"].as_str()) {
            (Some(html), _) => fingerprinter.text_of_html(html),
            (None, text) => text.unwrap_or_default().to_owned(),
        };
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.len() >= LEAST_WORDS && documents.len() < MOST_OF_A_SET {
            documents.push(words);
        }
    }
    let words = documents.concat();
    Set {
        name,
        documents,
        words,
    }
}

/// For each choice of a scheme, the share (%) that is found of the copies with each share of changed words.
fn found_by(sets: &[Set], scheme: Scheme) -> Vec<(&'static Choice, [f64; CHANGED.len()])> {
    let fingerprinter = Fingerprinter::new(scheme)
        .expect("the scheme makes fingerprints of texts")
        .with_sketch_size(SketchSize::Bytes16);
    let compared = |words: &[String]| fingerprinter.fingerprint_and_sketch(&words.join(" "));
    let mut random = Random(1);
    let mut found: Vec<(&Choice, [f64; CHANGED.len()])> = CHOICES
        .iter()
        .filter(|choice| choice.scheme == scheme)
        .map(|choice| (choice, [0.0; CHANGED.len()]))
        .collect();
    let mut all = 0.0;
    for set in sets {
        for document in &set.documents {
            let Some(original) = compared(document) else {
                continue;
            };
            all += 1.0;
            for (index, thousandths) in CHANGED.into_iter().enumerate() {
                let copy = compared(&changed(document, &set.words, thousandths, &mut random));
                for (choice, shares) in &mut found {
                    let is_found = copy
                        .as_ref()
                        .is_some_and(|copy| is_near(&original, copy, choice));
                    shares[index] += f64::from(u8::from(is_found));
                }
            }
        }
    }
    for (_, shares) in &mut found {
        *shares = shares.map(|count| 100.0 * count / all);
    }
    found
}

/// A copy in which some words are others of the set.
fn changed(
    document: &[String],
    words: &[String],
    thousandths: u64,
    random: &mut Random,
) -> Vec<String> {
    let mut copy = document.to_vec();
    for word in &mut copy {
        if random.below(1_000) < thousandths {
            word.clone_from(&words[random.below(words.len() as u64) as usize]);
        }
    }
    copy
}

fn is_near(original: &Compared, copy: &Compared, choice: &Choice) -> bool {
    if original.0.distance(copy.0) > choice.max_distance {
        return false;
    }
    let Some(least) = choice.min_similarity else {
        return true;
    };
    let (Some(original), Some(copy)) = (&original.1, &copy.1) else {
        return false;
    };
    let similarity = original.similarity(copy).expect("both are of one size");
    similarity.jaccard() >= least
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(bits ^ (bits >> 31)) * u128::from(end)) >> 64) as u64
    }
}
