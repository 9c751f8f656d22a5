//! The vectors of the schemes, `tests/data/schemes/vectors.jsonl`: inputs of all kinds, with what is made of them. A
//! twin in Python makes them too. Both follow `docs/schemes.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::unicode::{normalize, tokens};
use super::{Fingerprinter, Scheme};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};

type Judged = Option<(Fingerprint, Option<Sketch>)>;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schemes/vectors.jsonl")
}

fn vectors() -> Vec<Value> {
    let lines = fs::read_to_string(path()).expect("the vectors are there");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect()
}

/// The schemes of a vector: those for which it names a fingerprint, or that there is none.
fn schemes_of(vector: &Value) -> Vec<Scheme> {
    let names = vector["fingerprints"].as_object().into_iter().flatten();
    names
        .map(|(name, _)| name.parse().expect("a scheme of this name"))
        .collect()
}

/// What the library makes of the input of a vector, in the form of a vector.
fn made_of(vector: &Value) -> Result<Value> {
    let schemes = schemes_of(vector);
    let mut made = Map::new();
    made.insert("about".into(), vector["about"].clone());
    if let Some(given) = vector["features"].as_array() {
        made.insert("features".into(), vector["features"].clone());
        let features: Vec<(&str, f64)> = given.iter().map(feature).collect();
        let judge = |fingerprinter: Fingerprinter| {
            fingerprinter.fingerprint_and_sketch_features(features.iter().copied())
        };
        insert_results(&mut made, &schemes, judge)?;
        return Ok(Value::Object(made));
    }
    for kind in ["html", "xhtml"] {
        if let Some(page) = vector.get(kind) {
            made.insert(kind.into(), page.clone());
        }
    }
    let text = text_of(vector, &schemes)?;
    made.insert("text".into(), text.clone().into());
    let normalised = normalize(&text);
    made.insert("normalised".into(), normalised.clone().into());
    made.insert("tokens".into(), tokens(&normalised).collect());
    insert_results(&mut made, &schemes, |fingerprinter| {
        Ok(fingerprinter.fingerprint_and_sketch(&text))
    })?;
    Ok(Value::Object(made))
}

fn feature(given: &Value) -> (&str, f64) {
    let name = given[0].as_str().expect("a feature has a name");
    (name, given[1].as_f64().expect("a feature has a weight"))
}

/// The text of a vector. All its schemes take the same from a page.
fn text_of(vector: &Value, schemes: &[Scheme]) -> Result<String> {
    let mut texts = Vec::new();
    for &scheme in schemes {
        let fingerprinter = Fingerprinter::new(scheme)?;
        texts.push(if let Some(page) = vector["html"].as_str() {
            fingerprinter.text_of_html(page)
        } else if let Some(page) = vector["xhtml"].as_str() {
            fingerprinter.text_of_xhtml(page)
        } else {
            vector["text"].as_str().expect("a text").to_owned()
        });
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{vector}");
    Ok(texts.remove(0))
}

/// Adds the fingerprints, and the sketches if some scheme makes them, which are then those of all.
fn insert_results(
    made: &mut Map<String, Value>,
    schemes: &[Scheme],
    judge: impl Fn(Fingerprinter) -> Result<Judged>,
) -> Result<()> {
    let mut fingerprints = Map::new();
    let mut sketches = BTreeMap::new();
    let mut shingles = None;
    for &scheme in schemes {
        for (size, name) in [
            (SketchSize::Bytes16, "sketch16"),
            (SketchSize::Bytes32, "sketch32"),
        ] {
            let judged = judge(Fingerprinter::new(scheme)?.with_sketch_size(size))?;
            let fingerprint = judged.map(|(fingerprint, _)| fingerprint.to_string());
            fingerprints.insert(scheme.to_string(), fingerprint.into());
            if let Some((_, Some(sketch))) = judged {
                let first = *sketches.entry(name).or_insert(sketch);
                assert_eq!(first, sketch, "{scheme}");
                shingles = Some(sketch.shingles());
            }
        }
    }
    made.insert("fingerprints".into(), fingerprints.into());
    for (name, sketch) in sketches {
        made.insert(name.into(), sketch.to_string().into());
    }
    if let Some(shingles) = shingles {
        made.insert("shingles".into(), shingles.into());
    }
    Ok(())
}

/// Another value here would be another scheme: existing files would no longer find their documents.
#[test]
fn the_library_makes_every_vector() -> Result<()> {
    let mut judged: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    let vectors = vectors();
    for (index, vector) in vectors.iter().enumerate() {
        assert_eq!(made_of(vector)?, *vector, "line {}", index + 1);
        for (scheme, fingerprint) in vector["fingerprints"].as_object().into_iter().flatten() {
            judged.entry(scheme).or_default()[usize::from(fingerprint.is_string())] += 1;
        }
    }
    for scheme in Scheme::ALL {
        let [short, long] = judged.get(scheme.name()).copied().unwrap_or_default();
        let has_vectors = short > 5 && long > 80;
        assert!(
            has_vectors || *scheme == Scheme::External,
            "{scheme}: {judged:?}"
        );
    }
    Ok(())
}

/// Writes the file anew, where a scheme or an input was added. An input is a line with `about`, with a `text`, a page
/// as `html` or `xhtml`, or `features`, and with `fingerprints`, in which each scheme has the value `null`. Run it by
/// `cargo test --lib vectors_tests -- --ignored`.
#[test]
#[ignore = "it writes to the source"]
fn the_vectors_are_written_anew() -> Result<()> {
    let mut lines = String::new();
    for vector in vectors() {
        lines.extend([visible(&made_of(&vector)?.to_string()), "\n".to_owned()]);
    }
    fs::write(path(), lines).expect("the source can be written to");
    Ok(())
}

/// JSON in which everything is escaped but letters, numbers and ASCII. So an editor shows what is there.
fn visible(json: &str) -> String {
    let mut visible = String::new();
    for c in json.chars() {
        if c.is_ascii() || c.is_alphanumeric() {
            visible.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            visible += &format!("\\u{unit:04x}");
        }
    }
    visible
}

/// The example of the recipe is made again, step by step.
#[test]
fn the_recipe_has_the_numbers_of_its_example() {
    const RECIPE: &str = include_str!("../../docs/schemes.md");
    let seed = Scheme::MinwiseShort1.feature_seed();
    let words =
        ["nothing", "more", "is", "known"].map(|word| xxh3_64_with_seed(word.as_bytes(), seed));
    let pair = |pair: &[u64]| {
        let bytes = [pair[0].to_le_bytes(), pair[1].to_le_bytes()];
        xxh3_64_with_seed(bytes.as_flattened(), seed)
    };
    let pairs = words.windows(2).map(pair);
    let again = pair(&words[..2]).to_le_bytes();
    let again = xxh3_64_with_seed(&again, seed + 1);
    for number in words.into_iter().chain(pairs).chain([again]) {
        assert!(RECIPE.contains(&format!("{number:016x}")), "{number:016x}");
    }
    let fingerprinter = Fingerprinter::new(Scheme::MinwiseShort1).expect("a scheme of texts");
    let made = fingerprinter.fingerprint_and_sketch("Nothing more is known.");
    let (fingerprint, sketch) = made.expect("four words are enough");
    assert!(RECIPE.contains(&fingerprint.to_string()));
    assert!(RECIPE.contains(&sketch.expect("a sketch").to_string()));
}
