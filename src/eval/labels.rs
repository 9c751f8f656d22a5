//! Labelled pairs, from a tab-separated file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::corpus::Corpus;
use crate::error::Result;
use crate::ingest::{Stop, TextLines};

/// Which labels mean that two documents are the same, and which that they are different. Other labels judge
/// nothing.
///
/// # Example
///
/// ```
/// use simdb::eval::{Judgements, Labels, Yardstick};
/// # use simdb::eval::Corpus;
/// # use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let [pages, labels] = ["pages.tsv", "labels.tsv"].map(|name| directory.path().join(name));
/// # std::fs::write(&pages, "a\tone page\nb\tanother page\nc\ta third page\n")?;
/// # let corpus = Corpus::read(Records::open([&pages], ReadOptions::new())?, |_| {})?;
///
/// std::fs::write(&labels, "a\tb\tcopy\na\tc\tother\n")?;
/// let judgements = Judgements {
///     same: vec!["copy".to_owned()],
///     different: vec!["other".to_owned()],
/// };
/// let labels = Labels::read(&labels, &corpus, &judgements)?;
/// assert!(Yardstick::new(&corpus, &labels).has_verdicts());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Judgements {
    /// By default `same`, `1`, `yes`, `true` and `duplicate`.
    pub same: Vec<String>,
    /// By default `different`, `0`, `no`, `false` and `distinct`.
    pub different: Vec<String>,
}

impl Default for Judgements {
    fn default() -> Self {
        let same = ["same", "1", "yes", "true", "duplicate"];
        let different = ["different", "0", "no", "false", "distinct"];
        Self {
            same: same.map(str::to_owned).to_vec(),
            different: different.map(str::to_owned).to_vec(),
        }
    }
}

impl Judgements {
    fn judge(&self, label: &str) -> Option<bool> {
        for (names, same) in [(&self.same, true), (&self.different, false)] {
            if names.iter().any(|name| name.eq_ignore_ascii_case(label)) {
                return Some(same);
            }
        }
        None
    }
}

/// Labelled pairs of documents. The default has none.
///
/// # Example
///
/// ```
/// use simdb::eval::{Judgements, Labels};
/// # use simdb::eval::Corpus;
/// # use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let [pages, labels] = ["pages.tsv", "labels.tsv"].map(|name| directory.path().join(name));
/// # std::fs::write(&pages, "a\tone page\nb\tanother page\nc\ta third page\n")?;
/// # let corpus = Corpus::read(Records::open([&pages], ReadOptions::new())?, |_| {})?;
///
/// std::fs::write(&labels, "id_a\tid_b\tlabel\na\tb\tsame\na\tc\tunsure\na\td\tdifferent\n")?;
/// let labels = Labels::read(&labels, &corpus, &Judgements::default())?;
/// assert_eq!(labels.unjudged(), 1);
/// assert_eq!(labels.unknown_keys(), [(4, "d".to_owned())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Labels {
    pairs: Vec<Labelled>,
    unknown_keys: Vec<(u64, String)>,
    unjudged: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Labelled {
    a: usize,
    b: usize,
    /// Whether people call them the same, if they have judged.
    same: Option<bool>,
    /// The Jaccard similarity of their 4-token shingles, if the file has it. Then it has that of all pairs.
    j4: Option<f64>,
}

impl Labels {
    /// Reads a file, also compressed with gzip. The columns of its header are `id_a` and `id_b`, then `label`,
    /// or `j4` or `j4_text` for the Jaccard similarity of 4-token shingles, or both; others are left alone.
    /// Without a header, the columns are two keys and a label. Without a label, the two are the same.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input), with the line, if the file cannot be read, has no pairs, lacks a column,
    /// has a bad similarity or, without a header, an unknown label; if two lines judge a pair otherwise; or if no pair
    /// is of two documents of the corpus.
    pub fn read(path: &Path, corpus: &Corpus, judgements: &Judgements) -> Result<Self> {
        Self::from_lines(TextLines::open(path, Stop::default())?, corpus, judgements)
    }

    fn from_lines(mut lines: TextLines, corpus: &Corpus, judgements: &Judgements) -> Result<Self> {
        let mut labels = Self::default();
        let mut columns = None;
        let mut seen = HashMap::new();
        while let Some(line) = lines.next_line()? {
            let number = lines.number();
            let fields: Vec<&str> = line.trim_end_matches(['\n', '\r']).split('\t').collect();
            let columns = match &columns {
                Some(columns) => columns,
                None => {
                    let found = Columns::find(&fields).map_err(|reason| lines.failed(reason))?;
                    let columns = columns.insert(found);
                    if columns.has_header {
                        continue;
                    }
                    columns
                }
            };
            let (keys, label, j4) = columns
                .read(&fields)
                .map_err(|reason| lines.failed(reason))?;
            let same = if label.is_empty() {
                Some(true)
            } else {
                judgements.judge(label)
            };
            if same.is_none() && !columns.has_header {
                return Err(lines.failed(format!(
                    "the label {label:?} is neither one of same nor one of different"
                )));
            }
            let [Some(a), Some(b)] = keys.map(|key| corpus.index(key.as_bytes())) else {
                let first_is_known = corpus.index(keys[0].as_bytes()).is_some();
                let missing = keys[usize::from(first_is_known)];
                labels.unknown_keys.push((number, missing.to_owned()));
                continue;
            };
            if a == b {
                let key = keys[0];
                return Err(lines.failed(format!("a document is paired with itself: {key:?}")));
            }
            let pair = Labelled {
                a: a.min(b),
                b: a.max(b),
                same,
                j4,
            };
            match seen.entry((pair.a, pair.b)) {
                Entry::Occupied(first) => {
                    let (line, before) = *first.get();
                    if same != before {
                        let (here, there) = (in_words(same), in_words(before));
                        let [a, b] = keys;
                        return Err(lines.failed(
                            format!(
                                "{a:?} and {b:?} are {here} here, and {there} in line {line}; keep one of the two"
                            ),
                        ));
                    }
                }
                Entry::Vacant(free) => {
                    free.insert((number, same));
                    labels.unjudged += usize::from(same.is_none());
                    labels.pairs.push(pair);
                }
            }
        }
        match (labels.pairs.first(), labels.unknown_keys.first()) {
            (Some(_), _) => Ok(labels),
            (None, Some((line, key))) => Err(lines.failed_at(
                Some(*line),
                format!("no pair is of two of the documents; the first unknown key is {key:?}"),
            )),
            (None, None) => Err(lines.failed_at(None, "it has no pairs")),
        }
    }

    /// The pairs that name a document which is not there: the line, and the key.
    pub fn unknown_keys(&self) -> &[(u64, String)] {
        &self.unknown_keys
    }

    /// The number of pairs whose label judges nothing.
    pub fn unjudged(&self) -> usize {
        self.unjudged
    }

    /// Labels of these pairs with their similarities.
    #[cfg(test)]
    pub(super) fn with_j4(pairs: impl Iterator<Item = (usize, usize, f64)>) -> Self {
        let mut labels = Self::default();
        for (a, b, j4) in pairs {
            labels.pairs.push(Labelled {
                a,
                b,
                same: None,
                j4: Some(j4),
            });
        }
        labels
    }

    /// The pairs with their Jaccard similarities. `None` if the file does not give these.
    pub(super) fn similarities(&self) -> Option<Vec<(usize, usize, f64)>> {
        if self.pairs.is_empty() {
            return None;
        }
        let given = self
            .pairs
            .iter()
            .map(|pair| Some((pair.a, pair.b, pair.j4?)));
        given.collect()
    }

    /// The pairs that people have judged, if both judgements occur. Otherwise nothing can be told of precision.
    pub(super) fn judged(&self) -> Vec<(usize, usize, bool)> {
        let mut judged = Vec::new();
        let mut has = [false; 2];
        for pair in &self.pairs {
            if let Some(same) = pair.same {
                judged.push((pair.a, pair.b, same));
                has[usize::from(same)] = true;
            }
        }
        if has != [true; 2] {
            judged.clear();
        }
        judged
    }
}

/// What people have said of a pair.
fn in_words(same: Option<bool>) -> &'static str {
    match same {
        Some(true) => "the same",
        Some(false) => "different",
        None => "not judged",
    }
}

/// Where the fields of a line are.
struct Columns {
    has_header: bool,
    keys: [usize; 2],
    label: Option<usize>,
    j4: Option<usize>,
}

impl Columns {
    fn find(first: &[&str]) -> Result<Self, String> {
        if let (Some(a), Some(b)) = (
            place(first, &["id_a", "key_a"]),
            place(first, &["id_b", "key_b"]),
        ) {
            let label = place(first, &["label"]);
            let j4 = place(first, &["j4", "j4_text"]);
            return match (label, j4) {
                (None, None) => Err("the header has neither label nor j4".to_owned()),
                _ => Ok(Self {
                    has_header: true,
                    keys: [a, b],
                    label,
                    j4,
                }),
            };
        }
        match first.len() {
            2 => Ok(Self { has_header: false, keys: [0, 1], label: None, j4: None }),
            3 => Ok(Self { has_header: false, keys: [0, 1], label: Some(2), j4: None }),
            _ => Err(
                "a header with id_a, id_b and label, or two keys and a label, is wanted, separated by tabs"
                    .to_owned(),
            ),
        }
    }

    /// The keys, the label (empty if there is no such column) and the similarity.
    fn read<'l>(&self, fields: &[&'l str]) -> Result<([&'l str; 2], &'l str, Option<f64>), String> {
        let label = match self.label {
            None => "",
            Some(index) => match field(fields, index)? {
                "" => return Err("the label is empty".to_owned()),
                label => label,
            },
        };
        let j4 = match self.j4 {
            None => None,
            Some(index) => Some(similarity(field(fields, index)?)?),
        };
        let keys = [field(fields, self.keys[0])?, field(fields, self.keys[1])?];
        Ok((keys, label, j4))
    }
}

fn place(header: &[&str], names: &[&str]) -> Option<usize> {
    header.iter().position(|field| names.contains(field))
}

fn field<'l>(fields: &[&'l str], index: usize) -> Result<&'l str, String> {
    match fields.get(index) {
        Some(field) => Ok(field),
        None => Err(format!("column {} is missing", index + 1)),
    }
}

fn similarity(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(similarity) if (0.0..=1.0).contains(&similarity) => Ok(similarity),
        _ => Err(format!("{text:?} is not a similarity from 0 to 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn labels(text: &str) -> Result<Labels> {
        let corpus = Corpus::from_texts(&["a", "b", "c"]);
        Labels::from_lines(TextLines::of(text), &corpus, &Judgements::default())
    }

    /// The line that cannot be read, and why.
    fn refused(text: &str) -> Option<(Option<u64>, String)> {
        match labels(text).err()? {
            Error::Input { line, reason, .. } => Some((line, reason)),
            error => Some((None, error.to_string())),
        }
    }

    #[test]
    fn columns_are_found_by_name_or_by_place() -> Result<()> {
        let named = labels(
            "label\tid_b\tid_a\tj4\nsame\t0\t2\t0.75\ncross\t0\t1\t0.5\ncross\t1\t0\t0.5\n",
        )?;
        let first = Labelled {
            a: 0,
            b: 2,
            same: Some(true),
            j4: Some(0.75),
        };
        let second = Labelled {
            a: 0,
            b: 1,
            same: None,
            j4: Some(0.5),
        };
        assert_eq!(
            (named.pairs.as_slice(), named.unjudged),
            ([first, second].as_slice(), 1)
        );
        let plain = labels("0\t1\tDIFFERENT\n\n1\t2\t1\n1\t9\t1\n")?;
        assert_eq!(
            plain.pairs.iter().map(|pair| pair.same).collect::<Vec<_>>(),
            [Some(false), Some(true)]
        );
        assert_eq!(plain.unknown_keys, [(4, "9".to_owned())]);
        assert_eq!(labels("0\t1\n")?.pairs[0].same, Some(true));
        Ok(())
    }

    /// The first line used to win, and nothing was said.
    #[test]
    fn lines_that_contradict_are_told() {
        assert_eq!(refused("0\t1\tsame\n1\t0\tduplicate\n"), None);
        let head = "id_a\tid_b\tlabel\n";
        for (first, second, here, there) in [
            ("same", "no", "different", "the same"),
            ("0", "1", "the same", "different"),
            ("unsure", "same", "the same", "not judged"),
            ("same", "unsure", "not judged", "the same"),
        ] {
            let text = format!("{head}0\t1\t{first}\n0\t2\tsame\n1\t0\t{second}\n");
            let reason = format!(
                "\"1\" and \"0\" are {here} here, and {there} in line 2; keep one of the two"
            );
            assert_eq!(refused(&text), Some((Some(4), reason)));
        }
    }

    #[test]
    fn bad_files_are_refused_with_their_line() {
        let bad = [
            ("", None),
            ("id_a\tid_b\tj4\n", None),
            ("id_a\tid_b\tc4\n", Some(1)),
            ("0\t1\tperhaps\n", Some(1)),
            ("0\t1\tsame\n0\t1\n", Some(2)),
            ("0\n", Some(1)),
            ("0\t0\tsame\n", Some(1)),
            ("8\t9\tsame\n7\t9\tsame\n", Some(1)),
            ("id_a\tid_b\tj4\n0\t1\t1.5\n", Some(2)),
            ("id_a\tid_b\tlabel\n0\t1\t\n", Some(2)),
        ];
        for (text, line) in bad {
            let refused = refused(text).map(|(line, _)| line);
            assert_eq!(refused, Some(line), "{text:?}");
        }
    }
}
