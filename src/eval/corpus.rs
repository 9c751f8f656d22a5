//! The documents of an evaluation: their texts, and their tokens as numbers.

use std::collections::HashMap;
use std::time::Instant;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, Result};
use crate::ingest::{Content, Record, Records, Rejected};
use crate::text;

/// The documents of an evaluation, in memory.
///
/// Tokens are those of the text schemes: words, and single characters in scripts without spaces, of the
/// normalised text: of HTML, of the visible text.
///
/// # Example
///
/// ```
/// use simdb::eval::Corpus;
/// use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nb\tanother page\nc\ta third page\na\tonce more\nno tab\n")?;
///
/// let mut rejected_lines = Vec::new();
/// let records = Records::open([&path], ReadOptions::new())?;
/// let corpus = Corpus::read(records, |rejected| rejected_lines.push(rejected.line))?;
/// assert_eq!((corpus.len(), corpus.pairs()), (3, 3));
/// assert_eq!((corpus.repeated(), rejected_lines), (1, vec![Some(5)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Corpus {
    pub(super) documents: Vec<Entry>,
    by_key: HashMap<Vec<u8>, usize>,
    /// The distinct tokens. Their indexes stand for them.
    pub(super) words: Vec<String>,
    word_hashes: Vec<u64>,
    /// The time that it took to find the tokens of the pages (seconds, one core).
    pub(super) tokens_seconds: f64,
    repeated: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// The page as it came, which some methods read in their own way.
    pub(super) page: Content,
    group: Option<String>,
    /// The tokens in order, as indexes of words.
    pub(super) tokens: Vec<u32>,
}

impl Corpus {
    /// The most documents of an evaluation. All their pairs are compared.
    pub const MAX_DOCUMENTS: usize = 20_000;

    /// Reads documents with their keys, and with their groups where records have a field `group`. Calls
    /// `rejected` with the records that cannot be used. Of documents with the same key, the first counts.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if an input cannot be read, if there are fewer than two documents, or more than
    /// [`MAX_DOCUMENTS`](Self::MAX_DOCUMENTS).
    pub fn read(mut records: Records, mut rejected: impl FnMut(Rejected)) -> Result<Self> {
        let mut corpus = Self::empty();
        let mut numbers = HashMap::new();
        loop {
            let chunk = records.next_chunk(Record::into_page)?;
            if chunk.is_empty() {
                break;
            }
            for record in chunk {
                match record {
                    Ok((key, group, page)) => corpus.add(key, group, page, &mut numbers),
                    Err(reason) => rejected(reason),
                }
            }
            if corpus.len() > Self::MAX_DOCUMENTS {
                let most = Self::MAX_DOCUMENTS;
                return Err(wrong(format!(
                    "there are more than {most} documents: an evaluation compares all pairs, so give it a sample"
                )));
            }
        }
        match corpus.len() {
            0 | 1 => Err(wrong(format!(
                "an evaluation needs two documents or more, not {}",
                corpus.len()
            ))),
            _ => Ok(corpus),
        }
    }

    fn empty() -> Self {
        Self {
            documents: Vec::new(),
            by_key: HashMap::new(),
            words: Vec::new(),
            word_hashes: Vec::new(),
            tokens_seconds: 0.0,
            repeated: 0,
        }
    }

    fn add(
        &mut self,
        key: Vec<u8>,
        group: Option<String>,
        page: Content,
        numbers: &mut HashMap<String, u32>,
    ) {
        if self.by_key.contains_key(&key) {
            self.repeated += 1;
            return;
        }
        let begin = Instant::now();
        let mut tokens = Vec::new();
        let text = page.text(text::visible_text).unwrap_or_default();
        for token in text::tokens(&text::normalized(&text)) {
            let number = numbers.get(token).copied().unwrap_or_else(|| {
                let number = self.words.len() as u32;
                numbers.insert(token.to_owned(), number);
                self.words.push(token.to_owned());
                self.word_hashes.push(xxh3_64(token.as_bytes()));
                number
            });
            tokens.push(number);
        }
        self.tokens_seconds += begin.elapsed().as_secs_f64();
        self.by_key.insert(key, self.documents.len());
        self.documents.push(Entry {
            page,
            group,
            tokens,
        });
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are no documents. An evaluation always has some.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The number of documents that were left out because an earlier one has the same key.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// The number of pairs of documents.
    pub fn pairs(&self) -> u64 {
        let count = self.len() as u64;
        count * (count - 1) / 2
    }

    pub(super) fn index(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// For each document, the number of its group. A document without a group is one of its own.
    pub(super) fn groups(&self) -> Vec<u32> {
        let mut numbers = HashMap::new();
        let mut groups = Vec::with_capacity(self.len());
        for (index, document) in (0u32..).zip(&self.documents) {
            groups.push(match &document.group {
                Some(group) => *numbers.entry(group).or_insert(index),
                None => index,
            });
        }
        groups
    }

    /// The hashes of the distinct shingles of `length` tokens of each document, in order. A text that is
    /// shorter has one shingle, of all its tokens. A text without tokens has none.
    pub(super) fn shingles(&self, length: usize) -> Vec<Vec<u64>> {
        let mut all = Vec::with_capacity(self.len());
        for document in &self.documents {
            let mut hashes = Vec::with_capacity(document.tokens.len());
            for &word in &document.tokens {
                hashes.push(self.word_hash(word).to_le_bytes());
            }
            let windows = hashes.windows(length.min(hashes.len()).max(1));
            let mut shingles: Vec<u64> = windows
                .map(|window| xxh3_64_with_seed(window.as_flattened(), length as u64))
                .collect();
            shingles.sort_unstable();
            shingles.dedup();
            all.push(shingles);
        }
        all
    }

    pub(super) fn word_hash(&self, word: u32) -> u64 {
        self.word_hashes[word as usize]
    }

    /// For each word, the number of documents that have it.
    pub(super) fn document_frequencies(&self) -> Vec<u32> {
        let mut frequencies = vec![0; self.words.len()];
        for document in &self.documents {
            for word in distinct(&document.tokens) {
                frequencies[word as usize] += 1;
            }
        }
        frequencies
    }

    /// A corpus of texts, whose keys are their indexes.
    #[cfg(test)]
    pub(super) fn from_texts(texts: &[&str]) -> Self {
        Self::from_pages(texts.iter().map(|text| Content::Text((*text).to_owned())))
    }

    /// The same, of HTML.
    #[cfg(test)]
    pub(super) fn from_html(pages: &[String]) -> Self {
        Self::from_pages(pages.iter().map(|html| Content::Html(html.clone())))
    }

    #[cfg(test)]
    fn from_pages(pages: impl Iterator<Item = Content>) -> Self {
        let mut corpus = Self::empty();
        let mut numbers = HashMap::new();
        for (index, page) in pages.enumerate() {
            corpus.add(index.to_string().into_bytes(), None, page, &mut numbers);
        }
        corpus
    }
}

pub(super) fn distinct(numbers: &[u32]) -> Vec<u32> {
    let mut distinct = numbers.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

fn wrong(reason: String) -> Error {
    Error::Input {
        source_name: "documents".to_owned(),
        line: None,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shingles_are_distinct_and_short_texts_have_one() {
        let corpus = Corpus::from_texts(&["a b c d a b c d", "A B c d", "a b", ""]);
        let shingles = corpus.shingles(4);
        assert_eq!(
            shingles.iter().map(Vec::len).collect::<Vec<_>>(),
            [4, 1, 1, 0]
        );
        assert!(shingles[0].contains(&shingles[1][0]), "case does not count");
        assert_eq!(corpus.words, ["a", "b", "c", "d"]);
        assert_eq!(corpus.document_frequencies(), [3, 3, 2, 2]);
    }

    /// The texts and the figures are those of Broder, On the Resemblance and Containment of Documents, 1997,
    /// section 2: resembles 60 % for size 1, 50 % for size 2, 42.85 % for size 3, by sets (its option B). Size 4,
    /// by hand, is 1 of 3 + 6 - 1.
    #[test]
    fn resemblance_is_that_of_the_example_of_broder() {
        let corpus = Corpus::from_texts(&[
            "a rose is a rose is a rose",
            "a rose is a flower which is a rose",
        ]);
        for (size, both, either) in [(1, 3, 5), (2, 3, 6), (3, 3, 7), (4, 1, 8)] {
            let shingles = corpus.shingles(size);
            let [a, b] = &shingles[..] else {
                panic!("there are two texts");
            };
            let shared = a.iter().filter(|shingle| b.contains(shingle)).count();
            assert_eq!(shared, both, "{size}");
            assert_eq!(a.len() + b.len() - shared, either, "{size}");
        }
    }
}
