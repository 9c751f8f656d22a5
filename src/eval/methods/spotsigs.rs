//! `spotsigs`: short chains of words that follow stop words, compared as multisets.

use std::collections::{BTreeMap, HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::eval::corpus::{Corpus, Entry};
use crate::eval::method::{Described, Method, Scale};
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
#[derive(Debug)]
pub(in crate::eval) struct SpotSigs;

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

impl Method for SpotSigs {
    fn scale(&self) -> Scale {
        Scale::twentieths(6)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let kinds = kinds(&corpus.words);
        let of = |document: &Entry| {
            let mut spots = BTreeMap::new();
            for spot in spots_of(&document.tokens, &kinds) {
                let bytes = spot.map(|word| corpus.word_hash(word).to_le_bytes());
                *spots.entry(xxh3_64(bytes.as_flattened())).or_insert(0) += 1;
            }
            spots.into_iter().collect()
        };
        Box::new(Spots(corpus.documents.iter().map(of).collect()))
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
    let set = |words: &'static str| words.split_whitespace().collect::<HashSet<&str>>();
    let (antecedents, others) = (set(ANTECEDENTS), set(OTHERS));
    let kind = |word: &String| match word.as_str() {
        word if antecedents.contains(word) => Kind::Antecedent,
        word if others.contains(word) => Kind::StopWord,
        _ => Kind::Other,
    };
    words.iter().map(kind).collect()
}

/// The spots of a text. One whose chain would leave the text is none.
fn spots_of(tokens: &[u32], kinds: &[Kind]) -> Vec<[u32; CHAIN + 1]> {
    let of_kind = |kind: Kind| move |place: &usize| kinds[tokens[*place] as usize] == kind;
    let spot = |begin: usize| {
        let mut rest = (begin + 1..tokens.len()).filter(of_kind(Kind::Other));
        let mut spot = [tokens[begin]; CHAIN + 1];
        for word in &mut spot[1..] {
            *word = tokens[rest.next()?];
        }
        Some(spot)
    };
    (0..tokens.len())
        .filter(of_kind(Kind::Antecedent))
        .filter_map(spot)
        .collect()
}

/// The distinct spots of each document in order, with the number of times they occur.
struct Spots(Vec<Vec<(u64, u32)>>);

impl Described for Spots {
    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|it| (size_of::<u64>() + size_of::<u32>()) * it.len())
            .sum()
    }

    fn score(&self, a: usize, b: usize) -> Option<f64> {
        Some(jaccard(&self.0[a], &self.0[b])).filter(|it| *it > 0.0)
    }

    fn indexed(&self, least: f64) -> Option<Vec<Scored>> {
        Some(similar_pairs(&self.0, least))
    }
}

/// The Jaccard similarity of two multisets: the sum of the lesser counts by the sum of the greater.
fn jaccard(a: &[(u64, u32)], b: &[(u64, u32)]) -> f64 {
    let (mut i, mut j, mut both) = (0, 0, 0);
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
    spots.iter().map(|it| it.1).sum()
}

/// All pairs whose similarity is `least` or more.
///
/// The similarity is at most the shorter length by the longer. So the lengths are cut into partitions, such
/// that a document can only be like those of its own partition and of the next. Each partition has an inverted
/// index. The spots of a document are looked up there, the rarest first. When those that were looked up make
/// more than `1 - least` of its length, no other document can be like it: it would share too few.
fn similar_pairs(spots: &[Vec<(u64, u32)>], least: f64) -> Vec<Scored> {
    let lengths: Vec<u32> = spots.iter().map(|it| length(it)).collect();
    let bounds = partition_bounds(lengths.iter().max().copied().unwrap_or(0), least);
    let partition = |length: u32| bounds.partition_point(|bound| *bound <= length);
    let mut frequencies: HashMap<u64, u32> = HashMap::new();
    let mut indexes: Vec<HashMap<u64, Vec<usize>>> = vec![HashMap::new(); bounds.len() + 2];
    for (number, spots) in spots.iter().enumerate() {
        for (spot, _) in spots {
            *frequencies.entry(*spot).or_default() += 1;
            indexes[partition(lengths[number])]
                .entry(*spot)
                .or_default()
                .push(number);
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
            let here = partition(lengths[first]);
            for second in indexes[here..here + 2]
                .iter()
                .filter_map(|index| index.get(&spot))
                .flatten()
                .copied()
            {
                // Of two documents in different partitions, the one in the lower has the turn.
                let has_turn = partition(lengths[second]) > here || second > first;
                if has_turn && seen.insert(second) {
                    let similarity = jaccard(own, &spots[second]);
                    if similarity >= least {
                        pairs.push((
                            first.min(second) as u32,
                            first.max(second) as u32,
                            similarity,
                        ));
                    }
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
        let corpus = Corpus::of(&[text]);
        let spots = spots_of(&corpus.documents[0].tokens, &kinds(&corpus.words));
        spots
            .iter()
            .map(|spot| {
                spot.map(|word| corpus.words[word as usize].as_str())
                    .join(":")
            })
            .collect()
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
                documents.iter().map(|it| it.iter().map(|(&spot, &count)| (spot, count)).collect()).collect();
            // From the definition: sums of the lesser and of the greater counts, spot by spot.
            let similarity = |a: &BTreeMap<u64, u32>, b: &BTreeMap<u64, u32>| {
                let counts = (0..25).map(|spot| [a, b].map(|it| it.get(&spot).copied().unwrap_or(0)));
                let (least, most) = counts.fold((0, 0), |(least, most), [x, y]| (least + x.min(y), most + x.max(y)));
                f64::from(least) / f64::from(most.max(1))
            };
            for least in [0.2, 0.3, 0.5, 0.7, 1.0] {
                let mut expected = Vec::new();
                for a in 0..documents.len() {
                    for b in a + 1..documents.len() {
                        let score = similarity(&documents[a], &documents[b]);
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
