//! `spotsigs`: short chains of words that follow stop words, compared as multisets.

use std::collections::{BTreeMap, HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::eval::corpus::Corpus;
use crate::eval::method::{Method, Scale};
use crate::eval::overlap::Scored;

/// A spot is an antecedent, which is a frequent stop word, with the next two words that are not stop words.
/// The score is the Jaccard similarity of the multisets of spots. The words are English: texts without its
/// stop words have no spots and match nothing.
///
/// The paper measures several sets of antecedents, distances and lengths of chains. Here the distance is 1 and
/// the length 2, as in its example. It can also leave out spots that are rare or frequent in the collection, and
/// texts of few spots. That is not done here: where a page has one copy, the spots that both share are the rare ones.
///
/// # References
///
/// Theobald, Siddharth, Paepcke: SpotSigs: Robust and Efficient Near Duplicate Detection in Large Web
/// Collections, SIGIR 2008: spots in section 3, length partitions and pruning in section 4.
pub(in crate::eval) struct SpotSigs {
    /// The distinct spots of each document in order, with the number of times they occur.
    spots: Vec<Vec<(u64, u32)>>,
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
        let mut all = Vec::with_capacity(corpus.len());
        for document in &corpus.documents {
            let mut spots = BTreeMap::new();
            for spot in spots_of(&document.tokens, &kinds) {
                let bytes = spot.map(|word| corpus.word_hash(word).to_le_bytes());
                *spots.entry(xxh3_64(bytes.as_flattened())).or_insert(0) += 1;
            }
            all.push(spots.into_iter().collect());
        }
        Self { spots: all }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Antecedent,
    StopWord,
    Other,
}

/// The kind of each word.
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

    fn bytes(&self) -> usize {
        let spots: usize = self.spots.iter().map(Vec::len).sum();
        spots * (size_of::<u64>() + size_of::<u32>())
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(jaccard(&self.spots[a], &self.spots[b])).filter(|&score| score > 0.0)
    }

    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        Some(similar_pairs(&self.spots, least))
    }
}

/// The Jaccard similarity of two multisets: the sum of the lesser counts by the sum of the greater.
fn jaccard(a: &[(u64, u32)], b: &[(u64, u32)]) -> f64 {
    let mut i = 0;
    let mut j = 0;
    let mut both = 0;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        both += if x.0 == y.0 { x.1.min(y.1) } else { 0 };
        i += usize::from(x.0 <= y.0);
        j += usize::from(y.0 <= x.0);
    }
    let either = length(a) + length(b) - both;
    if either == 0 {
        0.0
    } else {
        f64::from(both) / f64::from(either)
    }
}

/// The number of spots, each as often as it occurs.
fn length(spots: &[(u64, u32)]) -> u32 {
    spots.iter().map(|&(_, count)| count).sum()
}

/// All pairs whose similarity is `least` or more.
///
/// The similarity is at most the shorter length by the longer. So the lengths are cut into partitions, such
/// that a document can only be like those of its own partition and of the next. Each partition has an inverted
/// index. The spots of a document are looked up there, the rarest first. When those that were looked up make
/// more than `1 - least` of its length, no other document can be like it: it would share too few.
fn similar_pairs(spots: &[Vec<(u64, u32)>], least: f64) -> Vec<Scored> {
    let lengths: Vec<u32> = spots.iter().map(|spots| length(spots)).collect();
    let bounds = partition_bounds(lengths.iter().max().copied().unwrap_or(0), least);
    let mut partitions = Vec::with_capacity(spots.len());
    for &length in &lengths {
        partitions.push(bounds.partition_point(|&bound| bound <= length));
    }
    let mut frequencies: HashMap<u64, u32> = HashMap::new();
    let mut indexes: Vec<HashMap<u64, Vec<usize>>> = vec![HashMap::new(); bounds.len() + 2];
    for (number, spots) in spots.iter().enumerate() {
        for (spot, _) in spots {
            *frequencies.entry(*spot).or_default() += 1;
            let index = &mut indexes[partitions[number]];
            index.entry(*spot).or_default().push(number);
        }
    }
    let mut pairs = Vec::new();
    for (first, own) in spots.iter().enumerate() {
        let mut rarest = own.clone();
        rarest.sort_unstable_by_key(|(spot, _)| (frequencies[spot], *spot));
        let mut seen = HashSet::new();
        let mut looked_up = 0;
        for (spot, count) in rarest {
            // Rounding must not end the search too early.
            if f64::from(looked_up) > (1.0 - least) * f64::from(lengths[first]) + 1e-6 {
                break;
            }
            let here = partitions[first];
            let near = indexes[here..here + 2].iter();
            for &second in near.filter_map(|index| index.get(&spot)).flatten() {
                // Of two documents in different partitions, the one in the lower has the turn.
                let has_turn = partitions[second] > here || second > first;
                if !has_turn || !seen.insert(second) {
                    continue;
                }
                let similarity = jaccard(own, &spots[second]);
                if similarity >= least {
                    let a = first.min(second) as u32;
                    let b = first.max(second) as u32;
                    pairs.push((a, b, similarity));
                }
            }
            looked_up += count;
        }
    }
    pairs.sort_unstable_by_key(|&(first, second, _)| (first, second));
    pairs
}

/// The first lengths of the partitions after the first one. Each partition ends where its first length is
/// less than `least` of the next one's.
fn partition_bounds(longest: u32, least: f64) -> Vec<u32> {
    let mut bounds = Vec::new();
    let mut begin = 1u32;
    while begin <= longest {
        begin = ((f64::from(begin) / least).floor() as u32 + 1).max(begin + 1);
        bounds.push(begin);
    }
    bounds
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

    /// By hand: {x, x, y} and {x, y, y, z} have x and y in common, of 2 + 2 + 1.
    #[test]
    fn counts_are_compared_as_multisets() {
        assert_eq!(jaccard(&[(1, 2), (2, 1)], &[(1, 1), (2, 2), (3, 1)]), 0.4);
        assert_eq!(jaccard(&[], &[]), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn partitions_and_pruning_lose_no_pair(
            documents in proptest::collection::vec(
                proptest::collection::btree_map(0u64..25, 1u32..4, 0..25), 0..25,
            ),
        ) {
            let spots: Vec<Vec<(u64, u32)>> =
                documents.iter().map(|spots| spots.clone().into_iter().collect()).collect();
            for least in [0.2, 0.3, 0.5, 0.7, 1.0] {
                let mut expected = Vec::new();
                for a in 0..documents.len() {
                    for b in a + 1..documents.len() {
                        // From the definition: sums of the lesser and of the greater counts, spot by spot.
                        let mut lesser = 0;
                        let mut greater = 0;
                        for spot in 0..25 {
                            let of_a = documents[a].get(&spot).copied().unwrap_or(0);
                            let of_b = documents[b].get(&spot).copied().unwrap_or(0);
                            lesser += of_a.min(of_b);
                            greater += of_a.max(of_b);
                        }
                        let score = f64::from(lesser) / f64::from(greater.max(1));
                        if score >= least {
                            expected.push((a as u32, b as u32, score));
                        }
                    }
                }
                proptest::prop_assert_eq!(similar_pairs(&spots, least), expected);
            }
        }
    }
}
