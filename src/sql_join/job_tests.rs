//! Tests of jobs in SQL: evaluates the keys, the masks and the conditions of an emitted text, and compares the pairs
//! with those of all fingerprints compared with all.

use std::collections::{BTreeMap, BTreeSet};

use super::{SqlDialect, SqlJob, SqlWork};

type Names<'n> = BTreeMap<&'n str, i64>;

/// An expression of SQL that is evaluated while it is read. Truth is 1.
struct Expression<'t> {
    words: Vec<&'t str>,
    at: usize,
    names: &'t Names<'t>,
}

/// An operator, and what it does.
type Operator = (&'static str, fn(i64, i64) -> i64);

/// The operators, by how they bind: the last bind tightest.
const OPERATORS: [&[Operator]; 5] = [
    &[("OR", |a, b| a | b)],
    &[
        ("<=", |a, b| i64::from(a <= b)),
        ("<>", |a, b| i64::from(a != b)),
    ],
    &[("^", |a, b| a ^ b)],
    &[("&", |a, b| a & b)],
    &[(">>", |a, b| a >> b)],
];

fn evaluated(text: &str, names: &Names<'_>) -> i64 {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'');
        let length = match first {
            _ if is_word(first) || (first == '-' || first == '\'') => rest[1..]
                .find(|c| !is_word(c) && c != '-')
                .map_or(rest.len(), |at| at + 1),
            '<' | '>' => 2,
            _ => 1,
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    let mut expression = Expression {
        words,
        at: 0,
        names,
    };
    let value = expression.value(0);
    assert_eq!(expression.at, expression.words.len(), "{text}");
    value
}

impl Expression<'_> {
    fn next(&mut self) -> &str {
        self.at += 1;
        self.words[self.at - 1]
    }

    fn takes(&mut self, word: &str) -> bool {
        let takes = self.words.get(self.at) == Some(&word);
        self.at += usize::from(takes);
        takes
    }

    /// The value of operators of this level and of those that bind tighter.
    fn value(&mut self, level: usize) -> i64 {
        let Some(operators) = OPERATORS.get(level) else {
            return self.single();
        };
        let mut value = self.value(level + 1);
        while let Some((_, apply)) = operators.iter().find(|(word, _)| self.takes(word)) {
            value = apply(value, self.value(level + 1));
        }
        value
    }

    fn arguments<const N: usize>(&mut self) -> [i64; N] {
        assert!(self.takes("("));
        std::array::from_fn(|index| {
            let value = self.value(0);
            assert!(self.takes(if index + 1 == N { ")" } else { "," }));
            value
        })
    }

    fn single(&mut self) -> i64 {
        match self.next() {
            "(" => {
                self.at -= 1;
                self.arguments::<1>()[0]
            }
            "shiftright" => {
                let [value, bits] = self.arguments();
                value >> bits
            }
            "xor" => self.arguments::<2>().into_iter().fold(0, |a, b| a ^ b),
            "CAST" => {
                assert!(self.takes("("));
                let value = self.value(0);
                assert!(self.takes("AS") && self.takes("BIGINT") && self.takes(")"));
                value
            }
            word => match word.trim_matches('\'').parse() {
                Ok(number) => number,
                Err(_) => {
                    let word = word.to_owned();
                    self.names[&word[..]]
                }
            },
        }
    }
}

fn query<'t>(text: &'t str, name: &str) -> &'t str {
    let query = text
        .split_once(&format!(" {name} AS\n"))
        .expect("the text has the name")
        .1;
    query.split_once(";\n").expect("it has an end").0
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let text = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} is not in {text}"))
        .1;
    text.split_once(after)
        .unwrap_or_else(|| panic!("{after} is not in {text}"))
        .0
}

fn number_behind(text: &str, before: &str) -> usize {
    let text = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} is not in {text}"))
        .1;
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().expect("a number")
}

/// What an emitted job says.
struct Emitted<'t> {
    keys: Vec<&'t str>,
    table: &'t str,
    bound: usize,
    /// The conditions of plain pairs, and of those whose keys are cut.
    plain: Vec<&'t str>,
    crowded: Vec<&'t str>,
    /// The blocks of each table.
    cuts: BTreeMap<i64, Vec<i64>>,
    max_distance: u32,
}

impl<'t> Emitted<'t> {
    fn read(text: &'t str, work: SqlWork, dialect: SqlDialect) -> Self {
        let (before, after) = match dialect {
            SqlDialect::Spark => ("explode(array(\n", ")) AS key"),
            SqlDialect::DuckDb => ("unnest([\n", "]) AS key"),
        };
        let keys_of = |name: &str| between(query(text, name), before, after);
        let keyed = match work {
            SqlWork::SelfJoin => keys_of("keyed"),
            SqlWork::Probe { .. } => keys_of("query_keyed"),
        };
        let plain = query(text, "plain_pairs");
        let crowded = query(text, "crowded_pairs");
        let sized = match work {
            SqlWork::SelfJoin => plain,
            SqlWork::Probe { .. } => {
                assert_eq!(keyed, keys_of("document_keyed"));
                query(text, "plain_queries")
            }
        };
        let bound = number_behind(sized, "s.size <= ");
        assert!(text.contains(&format!("s.size > {bound}")));
        let conditions = |query: &'t str| {
            let lines = query
                .lines()
                .filter_map(|line| line.trim().strip_prefix("AND "));
            lines.filter(|it| it.starts_with('(')).collect()
        };
        let max_distance = number_behind(plain, "WHERE bit_count(x) <= ");
        let cuts = between(query(text, "cuts"), "VALUES\n", ") AS cuts(")
            .lines()
            .map(|line| {
                let row = line
                    .trim()
                    .trim_end_matches(',')
                    .strip_prefix('(')
                    .and_then(|it| it.strip_suffix(')'));
                let (table, masks) = row
                    .and_then(|it| it.split_once(", "))
                    .expect("a table and its blocks");
                let masks = masks.split(", ").map(|mask| evaluated(mask, &Names::new()));
                (table.parse().expect("a number"), masks.collect())
            });
        Self {
            keys: keyed.split(",\n").collect(),
            table: plain
                .split_once(" AS tbl")
                .expect("a table")
                .0
                .rsplit_once("fp_b, ")
                .expect("names")
                .1,
            bound,
            plain: conditions(plain),
            crowded: conditions(crowded),
            cuts: cuts.collect(),
            max_distance: max_distance as u32,
        }
    }

    fn keys_of(&self, fingerprint: i64) -> impl Iterator<Item = i64> {
        self.keys
            .iter()
            .map(move |key| evaluated(key, &Names::from([("fp", fingerprint)])))
    }

    /// The pairs of the job, as often as they come.
    fn pairs(&self, work: SqlWork, left: &BTreeSet<i64>, right: &BTreeSet<i64>) -> Vec<(i64, i64)> {
        let keyed = |side: &BTreeSet<i64>| {
            let mut keyed: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            side.iter().for_each(|&it| {
                self.keys_of(it)
                    .for_each(|key| keyed.entry(key).or_default().push(it));
            });
            keyed
        };
        let left = keyed(left);
        let right = keyed(right);
        let mut pairs = Vec::new();
        for (key, of_left) in &left {
            let table = evaluated(self.table, &Names::from([("a.key", *key), ("d.key", *key)]));
            for &a in of_left {
                for &b in right.get(key).map_or(&[][..], Vec::as_slice) {
                    let x = a ^ b;
                    if x.count_ones() > self.max_distance || work == SqlWork::SelfJoin && a >= b {
                        continue;
                    }
                    let times = match of_left.len() <= self.bound {
                        true => usize::from(holds(
                            &self.plain,
                            &Names::from([("tbl", table), ("x", x)]),
                        )),
                        false => self.cut_times(table, x),
                    };
                    pairs.extend(std::iter::repeat_n((a, b), times));
                }
            }
        }
        pairs
    }

    /// How often a pair comes whose key is cut.
    fn cut_times(&self, table: i64, x: i64) -> usize {
        let blocks = self.cuts.get(&table).map_or(&[][..], Vec::as_slice);
        let names: Vec<String> = (0..blocks.len()).map(|block| format!("m{block}")).collect();
        let mut values: Names<'_> = names
            .iter()
            .map(String::as_str)
            .zip(blocks.iter().copied())
            .collect();
        values.extend([("tbl", table), ("x", x)]);
        let agrees = |&block: &usize| {
            let mut values = values.clone();
            values.insert("block", block as i64);
            x & blocks[block] == 0 && holds(&self.crowded, &values)
        };
        (0..blocks.len()).filter(agrees).count()
    }
}

fn holds(conditions: &[&str], names: &Names<'_>) -> bool {
    conditions.iter().all(|it| evaluated(it, names) != 0)
}

/// Fingerprints with many near pairs, of both signs.
fn fingerprints(seed: u64, max_distance: u32) -> BTreeSet<i64> {
    let mut state = seed;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    let bases: Vec<u64> = (0..6).map(|_| random()).collect();
    let changed = |base: u64, bits: u32, random: &mut dyn FnMut() -> u64| {
        (0..bits).fold(base, |all, _| all ^ 1 << (random() >> 58))
    };
    let mut all = BTreeSet::from([i64::MIN, -1, 0, 1, i64::MAX]);
    for index in 0..84 {
        let bits = index / 6 % (max_distance + 2);
        all.insert(changed(bases[index as usize % bases.len()], bits, &mut random).cast_signed());
    }
    all
}

/// With a bound that no key exceeds, and with some that many keys exceed.
#[test]
fn jobs_find_each_near_pair_once() {
    let mut crowded = 0;
    for dialect in [SqlDialect::Spark, SqlDialect::DuckDb] {
        for (max_distance, documents) in [
            (0, 1e6),
            (1, 1e9),
            (2, 1e5),
            (3, 1e6),
            (3, 1e9),
            (5, 1e7),
            (64, 1e3),
        ] {
            for work in [SqlWork::SelfJoin, SqlWork::Probe { queries: 1000 }] {
                for most in [1, 1000] {
                    let job = SqlJob::new(documents as u64, max_distance)
                        .work(work)
                        .most_of_key(most);
                    let text = job.text(dialect).expect("there are tables");
                    let emitted = Emitted::read(&text, work, dialect);
                    let left = fingerprints(7, max_distance);
                    let right = match work {
                        SqlWork::SelfJoin => left.clone(),
                        // Some are the same, as the bases are.
                        SqlWork::Probe { .. } => fingerprints(7, max_distance + 1),
                    };
                    let is_pair = |&(a, b): &(i64, i64)| {
                        (a ^ b).count_ones() <= max_distance && (work != SqlWork::SelfJoin || a < b)
                    };
                    let all = left
                        .iter()
                        .flat_map(|&a| right.iter().map(move |&b| (a, b)));
                    let expected: Vec<(i64, i64)> = all.filter(is_pair).collect();
                    let mut found = emitted.pairs(work, &left, &right);
                    found.sort_unstable();
                    assert!(
                        found == expected,
                        "{dialect:?} {max_distance} {documents} {work:?} {most}: \
                        {} found, not {}",
                        found.len(),
                        expected.len()
                    );
                    assert!(expected.len() > 15 || max_distance == 0);
                    crowded += usize::from(emitted.bound < 3);
                }
            }
        }
    }
    assert!(crowded > 0);
}

/// With one table there is no room for its number, and the sign of the fingerprint was taken for it.
#[test]
fn one_table_has_the_number_0() {
    for work in [SqlWork::SelfJoin, SqlWork::Probe { queries: 1000 }] {
        let text = SqlJob::new(1_000_000, 0)
            .work(work)
            .most_of_key(0)
            .text(SqlDialect::Spark);
        let text = text.expect("there is a table");
        assert!(
            text.contains("0 AS tbl") && !text.contains("shiftright"),
            "{text}"
        );
        assert!(text.contains("s.size <= 1"), "{text}");
    }
}

/// A table of cuts was sent to the documents by sending the documents to it, where broadcasts are turned off.
#[test]
fn spark_is_asked_to_copy_what_is_small() {
    for (work, joins) in [
        (SqlWork::SelfJoin, 2),
        (SqlWork::Probe { queries: 1000 }, 3),
    ] {
        let job = SqlJob::new(1_000_000_000, 3).work(work);
        let text = job.text(SqlDialect::Spark).expect("there are tables");
        assert_eq!(text.matches("JOIN cuts c ").count(), joins);
        assert_eq!(
            text.matches("JOIN cuts c ").count(),
            text.matches("BROADCAST(c)").count()
        );
        assert!(
            !job.text(SqlDialect::DuckDb)
                .is_some_and(|it| it.contains("BROADCAST"))
        );
    }
}

/// For few documents it was said that a lesser distance would help.
#[test]
fn few_documents_have_a_job_too() {
    let text = |documents, queries, distance| {
        SqlJob::new(documents, distance)
            .work(SqlWork::Probe { queries })
            .text(SqlDialect::Spark)
    };
    for (documents, queries, distance) in
        [(0, 0, 3), (100, 10, 3), (1 << 30, 0, 3), (1000, 1000, 64)]
    {
        assert!(
            text(documents, queries, distance).is_some(),
            "{documents} {queries} {distance}"
        );
    }
    assert_eq!(text(1 << 30, 1 << 20, 60), None);
}
