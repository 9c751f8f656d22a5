//! Tests the voting step with the values that other implementations publish. Their recipes use other
//! hashes, tokens and tie rules, which this file repeats.

use md5::{Digest, Md5};
use serde_json::Value;

use super::simhash;
use crate::fingerprint::Fingerprint;

/// The value of a bit that has as many votes for it as against it. The schemes have zero.
#[derive(Clone, Copy)]
enum Tie {
    Zero,
    One,
}

fn simhash(features: impl IntoIterator<Item = u64>, tie: Tie) -> Fingerprint {
    let features = features.into_iter();
    match tie {
        Tie::Zero => simhash::fingerprint(features.map(|feature| (feature, 1))),
        Tie::One => {
            let zeros = simhash::fingerprint(features.map(|feature| (!feature, 1)));
            Fingerprint::from_bits(!zeros.bits())
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    let strings = value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    strings.map(str::to_owned).collect()
}

fn hexadecimal(value: &Value) -> Vec<Fingerprint> {
    texts(value)
        .iter()
        .map(|digits| digits.parse().expect("vectors are hexadecimal"))
        .collect()
}

fn fnv_1(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        })
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

/// SipHash-2-4 with keys of zero.
#[expect(deprecated, reason = "the standard library has it under no other name")]
fn sip_2_4(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::SipHasher::new();
    std::hash::Hasher::write(&mut hasher, bytes);
    std::hash::Hasher::finish(&hasher)
}

/// The last 8 bytes of the MD5, big-endian.
fn md5_tail(text: &str) -> u64 {
    Md5::digest(text.as_bytes())[8..]
        .iter()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The string hash of Python 2, without a seed.
fn old_python(bytes: &[u8]) -> u64 {
    let first = bytes.first().map_or(0, |&byte| u64::from(byte) << 7);
    let hash = bytes.iter().fold(first, |hash: u64, &byte| {
        hash.wrapping_mul(1_000_003) ^ u64::from(byte)
    });
    hash ^ bytes.len() as u64
}

/// Matches of `[\w']+(?:://[\w./]+)?` in the lower-cased text.
fn mfonda_words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    let run = |from: usize, more: &str| {
        let end = chars[from..]
            .iter()
            .position(|&c| !(c.is_alphanumeric() || c == '_' || more.contains(c)));
        end.map_or(chars.len(), |length| from + length)
    };
    let mut words = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let mut end = run(at, "'");
        if end == at {
            at += 1;
            continue;
        }
        if chars[end..].starts_with(&[':', '/', '/']) && run(end + 3, "./") > end + 3 {
            end = run(end + 3, "./");
        }
        words.push(chars[at..end].iter().collect());
        at = end;
    }
    words
}

fn mfonda(text: &str) -> Fingerprint {
    simhash(
        mfonda_words(text).iter().map(|word| fnv_1(word.as_bytes())),
        Tie::One,
    )
}

/// All windows of four letters, digits and underscores of the lower-cased text.
fn windows_of_four(text: &str) -> Fingerprint {
    let kept = |c: &char| c.is_alphanumeric() || *c == '_' || ('\u{4e00}'..='\u{9fcc}').contains(c);
    let chars: Vec<char> = text.to_lowercase().chars().filter(kept).collect();
    let count = chars.len().saturating_sub(3).max(1);
    let window = |start: usize| {
        chars[start..chars.len().min(start + 4)]
            .iter()
            .collect::<String>()
    };
    simhash((0..count).map(|start| md5_tail(&window(start))), Tie::Zero)
}

/// Features that add up to the given sums. The first `(total + sum) / 2` of `total` features vote for the
/// bit.
fn features_of_sums(sums: &[i64]) -> Vec<u64> {
    let most = sums.iter().map(|sum| sum.abs()).max().unwrap_or(0);
    let total = if most == 0 { 2 } else { most };
    let votes_for = |feature: i64, sum: i64| u64::from(feature < (total + sum) / 2);
    let feature = |feature| {
        sums.iter()
            .enumerate()
            .map(|(bit, &sum)| votes_for(feature, sum) << bit)
            .sum()
    };
    (0..total).map(feature).collect()
}

fn text_fingerprint(spec: &str, text: &str) -> Fingerprint {
    let with_ff = |word: &str| [word.as_bytes(), &[0xff]].concat();
    let words = text.split_whitespace();
    if spec.starts_with("as mfonda") || spec.contains("FNV-1; weight 1") {
        mfonda(text)
    } else if spec.contains("SipHash-2-4") {
        simhash(words.map(|word| sip_2_4(&with_ff(word))), Tie::Zero)
    } else if spec.contains("FNV-1a 64") {
        simhash(words.map(|word| fnv_1a(&with_ff(word))), Tie::Zero)
    } else if spec.contains("x=b0<<7") {
        let lower = text.to_lowercase();
        let long = lower
            .split_whitespace()
            .filter(|word| word.chars().count() >= 2);
        simhash(long.map(|word| old_python(word.as_bytes())), Tie::One)
    } else if spec.contains("4-character windows") {
        windows_of_four(text)
    } else {
        panic!("no such recipe: {spec}")
    }
}

fn check_vector(vector: &Value) {
    let spec = vector["spec"].as_str().unwrap_or_default();
    let input = &vector["input"];
    let expected = &vector["expected"];
    let expected_text = || expected.as_str().unwrap_or_default().to_owned();
    let expected_number = || expected.as_u64().expect("a number is expected");
    match vector["kind"].as_str().unwrap_or_default() {
        "simhash-from-hashes" => {
            let features = hexadecimal(input).into_iter().map(Fingerprint::bits);
            assert_eq!(simhash(features, Tie::Zero).to_string(), expected_text());
        }
        "hamming" => {
            let pair = hexadecimal(input);
            assert_eq!(u64::from(pair[0].distance(pair[1])), expected_number());
        }
        "within" => {
            let pair = hexadecimal(input);
            let limit: u32 = spec
                .rsplit(' ')
                .next()
                .and_then(|limit| limit.parse().ok())
                .expect("spec ends so");
            assert_eq!(
                pair[0].distance(pair[1]) <= limit,
                expected.as_bool().expect("yes or no")
            );
        }
        "find-all" => {
            let all = hexadecimal(input);
            let near = |&(a, b): &(Fingerprint, Fingerprint)| a.distance(b) <= 3;
            let pairs = all
                .iter()
                .flat_map(|&a| all.iter().map(move |&b| (a, b)))
                .filter(|(a, b)| a < b);
            assert_eq!(
                pairs.filter(near).count(),
                expected.as_array().map_or(0, Vec::len)
            );
        }
        "feature-hash" => {
            let hash = fnv_1(input.as_str().unwrap_or_default().as_bytes());
            assert_eq!(Fingerprint::from_bits(hash).to_string(), expected_text());
        }
        "vector" => {
            let sums: Vec<i64> = expected
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_i64)
                .collect();
            let hashes = || {
                texts(input)
                    .into_iter()
                    .map(|feature| fnv_1(feature.as_bytes()))
            };
            for tie in [Tie::Zero, Tie::One] {
                assert_eq!(
                    simhash(hashes(), tie),
                    simhash(features_of_sums(&sums), tie)
                );
            }
        }
        "fingerprint-from-vector" => {
            let sums: Vec<i64> = input
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_i64)
                .collect();
            assert_eq!(sums.len(), 64);
            assert_eq!(
                simhash(features_of_sums(&sums), Tie::One).to_string(),
                expected_text()
            );
        }
        "tokens" => {
            let tokens = texts(input);
            assert_eq!(
                simhash(tokens.iter().map(|it| md5_tail(it)), Tie::Zero).to_string(),
                expected_text()
            );
        }
        "text" => {
            let text = input.as_str().unwrap_or_default();
            assert_eq!(text_fingerprint(spec, text).to_string(), expected_text());
        }
        "text-distance" => {
            let pair = texts(input);
            let distance =
                text_fingerprint(spec, &pair[0]).distance(text_fingerprint(spec, &pair[1]));
            assert_eq!(u64::from(distance), expected_number());
        }
        kind => panic!("no such kind: {kind}"),
    }
}

#[test]
fn published_vectors_are_reproduced() -> Result<(), serde_json::Error> {
    let mut checked = 0;
    for line in include_str!("../../tests/data/vectors/published.jsonl").lines() {
        let vector: Value = serde_json::from_str(line)?;
        // Of the published vectors, one needs the dictionaries of a word segmenter. Its recipe cannot be
        // repeated here.
        if vector["verified"] == Value::Bool(true) {
            check_vector(&vector);
            checked += 1;
        }
    }
    assert_eq!(checked, 41);
    Ok(())
}

/// 210 real documents, fingerprinted by 1e0ng/simhash itself. They are in the data folder that SIMDB_DATA
/// names.
#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn fingerprints_of_another_implementation_are_reproduced() -> Result<(), Box<dyn std::error::Error>>
{
    use std::io::Read as _;
    let data =
        std::env::var_os("SIMDB_DATA").ok_or("SIMDB_DATA does not name the folder of the data")?;
    let path = std::path::Path::new(&data).join("vectors/derived-1e0ng.jsonl.gz");
    let mut lines = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut lines)?;
    for line in lines.lines() {
        let document: Value = serde_json::from_str(line)?;
        let fingerprint = windows_of_four(document["text"].as_str().unwrap_or_default());
        assert_eq!(
            fingerprint.to_string(),
            document["simhash_1e0ng"].as_str().unwrap_or_default(),
            "{line:.80}"
        );
    }
    assert_eq!(lines.lines().count(), 210);
    Ok(())
}
