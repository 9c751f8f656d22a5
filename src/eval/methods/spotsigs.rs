//! `spotsigs`: short chains of words that follow stop words, compared as multisets.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};
use crate::eval::overlap::{Scored, jaccard, jaccard_pairs};

/// A spot is an antecedent, which is a frequent stop word, with the next two words that are not stop words.
/// The score is the Jaccard similarity of the multisets of spots. The words are English: texts without its
/// stop words have no spots and match nothing.
///
/// The paper measures several sets of antecedents, distances and lengths of chains. Here the distance is 1 and
/// the length 2, as in its example. It can also leave out spots that are rare or frequent in the collection, and
/// texts of few spots. That is not done here: where a page has one copy, the spots that both share are the rare ones.
/// Nor are texts compared in partitions by their lengths: an index of the spots finds the same pairs.
///
/// # References
///
/// Theobald, Siddharth, Paepcke: SpotSigs: Robust and Efficient Near Duplicate Detection in Large Web
/// Collections, SIGIR 2008: spots in section 3.
pub(in crate::eval) struct SpotSigs {
    /// For each document the hashes of its spots, in order. The first occurrence of a spot, the second and so on each
    /// have a hash of their own. So the Jaccard similarity of these sets is that of the multisets.
    spots: Vec<Vec<u64>>,
    /// The number of distinct spots of all documents.
    distinct: usize,
}

/// The stop words that begin a spot: the articles, and the forms of be, can, will, have and do, which were the
/// best in the paper.
const ANTECEDENTS: &str = "a an the am are be been being is was were can could will would had has have having did \
    do does doing done";

/// Stop words that begin no spot. They are left out of chains too.
const OTHERS: &str = "about after all also and any as at because before but by down each for from he her here him \
    his how i if in into it its just like may me more most my no not of off on one only or other our out over \
    same she should so some such than that their them then there these they this those through to too under \
    until up us very we what when where which while who with you your against";

/// The words of a chain.
const CHAIN: usize = 2;

impl SpotSigs {
    pub(in crate::eval) fn new(corpus: &Corpus) -> Self {
        let kinds = kinds(&corpus.words);
        let mut spots = Vec::with_capacity(corpus.len());
        let mut distinct = 0;
        for document in &corpus.documents {
            let mut counts: HashMap<[u32; CHAIN + 1], u64> = HashMap::new();
            let mut hashes = Vec::new();
            for spot in spots_of(&document.tokens, &kinds) {
                let count = counts.entry(spot).or_default();
                let bytes = spot.map(|word| corpus.word_hash(word).to_le_bytes());
                hashes.push(xxh3_64_with_seed(bytes.as_flattened(), *count));
                *count += 1;
            }
            hashes.sort_unstable();
            distinct += counts.len();
            spots.push(hashes);
        }
        Self { spots, distinct }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Antecedent,
    StopWord,
    Other,
}

fn kinds(words: &[String]) -> Vec<Kind> {
    let mut known = HashMap::new();
    for (list, kind) in [(OTHERS, Kind::StopWord), (ANTECEDENTS, Kind::Antecedent)] {
        known.extend(list.split_whitespace().map(|word| (word, kind)));
    }
    let mut kinds = Vec::with_capacity(words.len());
    for word in words {
        kinds.push(*known.get(word.as_str()).unwrap_or(&Kind::Other));
    }
    kinds
}

/// The spots of a text. One whose chain would leave the text is none.
fn spots_of(tokens: &[u32], kinds: &[Kind]) -> Vec<[u32; CHAIN + 1]> {
    let mut spots = Vec::new();
    for (place, &antecedent) in tokens.iter().enumerate() {
        if kinds[antecedent as usize] != Kind::Antecedent {
            continue;
        }
        let mut spot = [antecedent; CHAIN + 1];
        let mut length = 1;
        for &word in &tokens[place + 1..] {
            if kinds[word as usize] == Kind::Other {
                spot[length] = word;
                length += 1;
            }
            if length > CHAIN {
                spots.push(spot);
                break;
            }
        }
    }
    spots
}

impl Method for SpotSigs {
    fn scale(&self) -> Scale {
        Scale::twentieths(6)
    }

    /// A hash and a count for each distinct spot.
    fn bytes(&self) -> usize {
        self.distinct * (size_of::<u64>() + size_of::<u32>())
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(jaccard(&self.spots[a], &self.spots[b])).filter(|&score| score > 0.0)
    }

    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        Some(jaccard_pairs(&self.spots, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(text: &str) -> Vec<String> {
        let corpus = Corpus::from_texts(&[text]);
        let mut spots = Vec::new();
        for spot in spots_of(&corpus.documents[0].tokens, &kinds(&corpus.words)) {
            spots.push(spot.map(|word| &*corpus.words[word as usize]).join(":"));
        }
        spots
    }

    /// The sentence and its spots are those of the paper, section 3.
    #[test]
    fn the_sentence_of_the_paper_has_its_spots() {
        let sentence = "At a rally to kick off a weeklong campaign for the South Carolina primary, Obama tried to \
                        set the record straight from an attack circulating widely on the Internet that is \
                        designed to play into prejudices against Muslims and fears of terrorism.";
        let expected = [
            "a:rally:kick",
            "a:weeklong:campaign",
            "the:south:carolina",
            "the:record:straight",
            "an:attack:circulating",
            "the:internet:designed",
            "is:designed:play",
        ];
        assert_eq!(spots(sentence), expected);
        assert!(spots("the end").is_empty(), "the chain leaves the text");
        assert_eq!(
            spots("He could have run to win"),
            ["could:run:win", "have:run:win"],
            "by hand: two forms of verbs"
        );
    }

    /// By hand: the spots {x, x, y} and {x, y, y, z} have x and y in common, of 2 + 2 + 1.
    #[test]
    fn counts_are_compared_as_multisets() {
        let [x, y, z] = ["the x p ", "the y q ", "the z r "];
        let texts = [[x, x, y].concat(), [x, y, y, z].concat(), String::new()];
        let corpus = Corpus::from_texts(&texts.each_ref().map(String::as_str));
        let described = SpotSigs::new(&corpus);
        assert_eq!(described.score(0, 1), Some(0.4));
        assert_eq!(described.score(2, 2), None);
        assert_eq!(described.indexed(0.3), Some(vec![(0, 1, 0.4)]));
        assert_eq!(described.bytes(), 12 * (2 + 3));
    }
}
