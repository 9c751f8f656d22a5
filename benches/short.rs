//! What the schemes find among short texts: recall and false matches by length and distance. It measures no time.
//!
//! Corpus: the sentences of the sets in the folder that SIMDB_DATA names, those of 4 to 50 tokens, each once. A
//! token is a character of a script without spaces, or a run of letters and digits. Yardstick: j4, the Jaccard
//! similarity of the sets of 4-token shingles.
//!
//! * Pairs by edits: a sentence, and the same with one token changed, deleted, inserted, or added or cut off at an
//!   end. The place and the token are drawn with a fixed seed.
//! * Pairs by versions: a sentence, and the nearest one in the next version of its document, with some edits.
//! * False pairs: sentences of documents of different groups with j4 below 0.5, of 6,000 sentences of a set.
//!
//! A third of the groups was kept aside while the recipe was chosen. The argument `aside` takes these instead, and
//! `sets` gives each set a line.

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::path::Path;

use simdb::{Fingerprint, Fingerprinter, Scheme, Unit};

const SETS: [&str; 9] = [
    "crawl-html",
    "recrawl-html",
    "manpages",
    "pg-docs-html",
    "mail-spam",
    "zh-laws",
    "zh-cctv",
    "zh-docs",
    "terms-versions",
];
const LENGTHS: [(usize, usize); 3] = [(4, 7), (8, 20), (21, 50)];
const DISTANCES: [usize; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const MOST_OF_A_LENGTH: usize = 6_000;

type Text = Vec<String>;

struct Set {
    /// The sentences, each with its group.
    sentences: Vec<(Text, u64)>,
    edited: Vec<(Text, Text)>,
    versions: Vec<(Text, Text)>,
}

/// A splitmix generator: the same numbers on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (hash(&self.0.to_le_bytes()) % end as u64) as usize
    }
}

fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

fn tokens(text: &str) -> Text {
    let unspaced = |c: char| ('\u{2E80}'..='\u{9FFF}').contains(&c) && c.is_alphabetic();
    let mut tokens: Vec<String> = vec![String::new()];
    for c in text.chars().flat_map(char::to_lowercase) {
        let last = tokens.last_mut().expect("there is one");
        if c.is_alphanumeric() && !unspaced(c) {
            last.push(c);
        } else {
            tokens.extend(unspaced(c).then(|| c.to_string()));
            tokens.push(String::new());
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

fn length_of(text: &[String]) -> Option<usize> {
    LENGTHS
        .iter()
        .position(|&(least, most)| (least..=most).contains(&text.len()))
}

fn read(folder: &Path, name: &str, aside: bool) -> Result<Set, Box<dyn std::error::Error>> {
    let mut lines = String::new();
    let file = std::fs::File::open(folder.join(name).join("docs.jsonl.gz"))?;
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut lines)?;
    let mut groups: BTreeMap<u64, Vec<Vec<Text>>> = BTreeMap::new();
    for line in lines.lines() {
        let document: serde_json::Value = serde_json::from_str(line)?;
        let group = document["group"]
            .as_str()
            .or(document["id"].as_str())
            .unwrap_or_default();
        let group = hash(group.as_bytes());
        if group.is_multiple_of(3) != aside {
            continue;
        }
        let text = document["html"]
            .as_str()
            .or(document["text"].as_str())
            .unwrap_or_default();
        let is_html = document["html"].is_string() || ["mail-spam", "zh-cctv"].contains(&name);
        let sentences: Vec<Text> = match is_html {
            true => Unit::Sentence
                .cut_html(text)
                .iter()
                .map(|it| tokens(it))
                .collect(),
            false => Unit::Sentence.cut(text).map(tokens).collect(),
        };
        let short = sentences
            .into_iter()
            .filter(|it| length_of(it).is_some())
            .collect();
        groups.entry(group).or_default().push(short);
    }
    let mut draw = Draw(7);
    let sentences = sample(&groups, &mut draw);
    let edited = sentences
        .iter()
        .flat_map(|(text, _)| edits_of(text, &sentences, &mut draw))
        .collect();
    let versions = groups
        .values()
        .flat_map(|versions| versions.windows(2))
        .flat_map(edits_between)
        .collect();
    Ok(Set {
        sentences,
        edited,
        versions,
    })
}

/// The sentences of a set, each once, at most so many of a length.
fn sample(groups: &BTreeMap<u64, Vec<Vec<Text>>>, draw: &mut Draw) -> Vec<(Text, u64)> {
    let mut seen = HashSet::new();
    let mut by_length: [Vec<(Text, u64)>; LENGTHS.len()] = Default::default();
    for (&group, documents) in groups {
        for text in documents.iter().flatten().filter(|it| seen.insert(*it)) {
            by_length[length_of(text).expect("only short texts are kept")]
                .push((text.clone(), group));
        }
    }
    for texts in &mut by_length {
        (1..texts.len())
            .rev()
            .for_each(|end| texts.swap(end, draw.below(end + 1)));
        texts.truncate(MOST_OF_A_LENGTH);
    }
    by_length.into_iter().flatten().collect()
}

fn edits_of(text: &Text, words: &[(Text, u64)], draw: &mut Draw) -> Vec<(Text, Text)> {
    let mut pairs = Vec::new();
    for kind in 0..4 {
        let mut edited = text.clone();
        let source = &words[draw.below(words.len())].0;
        let word = source[draw.below(source.len())].clone();
        let at = draw.below(edited.len());
        match (kind, draw.below(4)) {
            (0, _) => edited[at] = word,
            (1, _) => _ = edited.remove(at),
            (2, _) => edited.insert(at, word),
            (_, 0) => edited.push(word),
            (_, 1) => edited.insert(0, word),
            (_, 2) => _ = edited.pop(),
            _ => _ = edited.remove(0),
        }
        if edited != *text && edited.len() >= 4 {
            pairs.push((text.clone(), edited));
        }
    }
    pairs
}

/// The sentences of a version that are not in the next, each with the nearest new one, if a few edits lie between.
fn edits_between(versions: &[Vec<Text>]) -> Vec<(Text, Text)> {
    let [before, after] = versions else {
        return Vec::new();
    };
    let (known, still): (HashSet<&Text>, HashSet<&Text>) =
        (before.iter().collect(), after.iter().collect());
    let new: Vec<&Text> = after.iter().filter(|it| !known.contains(it)).collect();
    let old = before.iter().filter(|it| !still.contains(it));
    let nearest = |old: &Text| {
        let near = new
            .iter()
            .filter(|it| it.len().abs_diff(old.len()) <= 1 + old.len() / 8);
        let (edits, new) = near
            .map(|new| (edits(old, new), *new))
            .min_by_key(|it| it.0)?;
        (edits <= 1 + old.len() / 8).then(|| (old.clone(), new.clone()))
    };
    old.filter_map(nearest).collect()
}

/// The edit distance of two texts, in tokens.
fn edits(a: &[String], b: &[String]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for token in a {
        let mut diagonal = row[0];
        row[0] += 1;
        for at in 0..b.len() {
            let above = row[at + 1];
            row[at + 1] = (diagonal + usize::from(*token != b[at]))
                .min(above + 1)
                .min(row[at] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

fn j4(a: &[String], b: &[String]) -> f64 {
    let [a, b] = [a, b].map(|text| text.windows(4).collect::<HashSet<_>>());
    let shared = a.intersection(&b).count();
    shared as f64 / (a.len() + b.len() - shared).max(1) as f64
}

/// How many pairs have each distance.
#[derive(Clone, Default)]
struct Curve(BTreeMap<u32, u64>);

impl Curve {
    fn add(&mut self, distance: u32) {
        *self.0.entry(distance).or_default() += 1;
    }

    fn within(&self, distance: usize) -> f64 {
        self.0
            .range(..=distance as u32)
            .map(|(_, &count)| count)
            .sum::<u64>() as f64
    }

    /// The share of the pairs within each distance in %, or `None` if there are hardly any pairs.
    fn recall(&self) -> Option<Vec<f64>> {
        let pairs = self.within(64);
        (pairs >= 10.0).then(|| {
            DISTANCES
                .iter()
                .map(|&it| 100.0 * self.within(it) / pairs)
                .collect()
        })
    }
}

/// The columns of the table: recall by edits with j4 >= 0.9 and 0.8 to 0.9 and of all edits, recall by versions of
/// the same, false matches for each million pairs.
type Columns = [Option<Vec<f64>>; 7];
const NAMES: [&str; 7] = [
    "edits 0.9",
    "edits 0.8",
    "edits all",
    "vers. 0.9",
    "vers. 0.8",
    "vers. all",
    "F",
];

fn columns(set: &Set, fingerprinter: Fingerprinter, length: usize) -> Columns {
    let made = |text: &Text| fingerprinter.fingerprint(&text.join(" "));
    let mut curves = vec![Curve::default(); 6];
    for (first, pairs) in [(0, &set.edited), (3, &set.versions)] {
        for (a, b) in pairs
            .iter()
            .filter(|(a, b)| length_of(a) == Some(length) && b.len() >= 4)
        {
            let (Some(x), Some(y)) = (made(a), made(b)) else {
                continue;
            };
            let similarity = j4(a, b);
            for (at, least, end) in [(0, 0.9, 1.1), (1, 0.8, 0.9), (2, 0.0, 1.1)] {
                if (least..end).contains(&similarity) {
                    curves[first + at].add(x.distance(y));
                }
            }
        }
    }
    let mut columns: Columns = std::array::from_fn(|at| curves.get(at).and_then(Curve::recall));
    columns[6] = false_matches(set, length, &made);
    columns
}

fn false_matches(
    set: &Set,
    length: usize,
    made: &impl Fn(&Text) -> Option<Fingerprint>,
) -> Option<Vec<f64>> {
    let texts = set
        .sentences
        .iter()
        .filter(|it| length_of(&it.0) == Some(length));
    let texts: Vec<_> = texts
        .filter_map(|(text, group)| Some((text, group, made(text)?)))
        .collect();
    let (mut curve, mut pairs) = (Curve::default(), 0u64);
    for (at, (a, group, x)) in texts.iter().enumerate() {
        for (b, _, y) in texts[at + 1..].iter().filter(|it| it.1 != *group) {
            pairs += 1;
            let distance = x.distance(*y);
            if distance as usize <= DISTANCES[10] && j4(a, b) < 0.5 {
                curve.add(distance);
            }
        }
    }
    let share = |distance: &usize| 1e6 * curve.within(*distance) / pairs as f64;
    (pairs >= 10_000).then(|| DISTANCES.iter().map(share).collect())
}

fn print(name: &str, columns: &Columns) {
    println!(
        "{name:40}{}",
        DISTANCES.map(|it| format!("{it:>7}")).concat()
    );
    for (name, column) in NAMES.iter().zip(columns) {
        let Some(column) = column else { continue };
        let digits = if *name == "F" { 2 } else { 1 };
        println!(
            "    {name:36}{}",
            column
                .iter()
                .map(|it| format!("{it:7.digits$}"))
                .collect::<String>()
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = std::env::var_os("SIMDB_DATA") else {
        println!("skipped without SIMDB_DATA: short texts");
        return Ok(());
    };
    let asked = |name: &str| std::env::args().any(|it| it == name);
    let read = |name: &&str| read(Path::new(&folder), name, asked("aside"));
    let sets: Vec<Set> = SETS.iter().map(read).collect::<Result<_, _>>()?;
    for (length, (least, most)) in LENGTHS.iter().enumerate() {
        for scheme in [Scheme::Simhash1, Scheme::Simhash2, Scheme::MinwiseShort1] {
            let fingerprinter = Fingerprinter::new(scheme)?;
            if fingerprinter.min_tokens() > *least {
                continue;
            }
            let all: Vec<Columns> = sets
                .iter()
                .map(|set| columns(set, fingerprinter, length))
                .collect();
            let mean = |column: usize| {
                let rows: Vec<_> = all.iter().filter_map(|it| it[column].as_ref()).collect();
                let at =
                    |at: usize| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64;
                (!rows.is_empty()).then(|| (0..DISTANCES.len()).map(at).collect())
            };
            print(
                &format!("{scheme}, {least} to {most} tokens, mean"),
                &std::array::from_fn(mean),
            );
            if asked("sets") {
                SETS.iter()
                    .zip(&all)
                    .for_each(|(name, columns)| print(&format!("  {name}"), columns));
            }
        }
    }
    Ok(())
}
