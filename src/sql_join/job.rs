//! A join by SQL: the whole job as a text, for a database that reads and writes Parquet.
//!
//! It does what `Join` does, with plain tables. Each fingerprint has a key in each table, and near fingerprints have
//! the same key in one of them. A pair counts in the first table in which its keys are the same; the pair
//! alone tells which that is. Keys that too many fingerprints have are cut further by the same rule.
//!
//! # References
//!
//! Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, sections 3 and 4.

use super::tables::{cheapest, cut};
use crate::fingerprint::Fingerprint;
use crate::plural::counted;

/// The sides of a join.
///
/// # Example
///
/// ```
/// use simdb::sql::{SqlDialect, SqlJob, SqlWork};
///
/// let job = SqlJob::new(1_000_000_000, 3).work(SqlWork::Probe { queries: 10_000 });
/// let text = job.text(SqlDialect::DuckDb).ok_or("there are tables for 3 bits")?;
/// assert!(text.contains("queries.parquet") && text.contains("documents.parquet"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlWork {
    /// All documents with each other.
    SelfJoin,
    /// A small set of this many queries with all documents. The documents stay where they are.
    Probe {
        /// The number of queries.
        queries: u64,
    },
}

/// A job in SQL that finds all pairs of near fingerprints in Parquet files.
///
/// # Example
///
/// ```
/// use simdb::sql::{SqlDialect, SqlJob};
///
/// let job = SqlJob::new(1_000_000, 3).text(SqlDialect::Spark).expect("there are tables for 3 bits");
/// assert!(job.contains("bit_count"));
/// ```
#[derive(Clone, Debug)]
pub struct SqlJob {
    work: SqlWork,
    documents: u64,
    max_distance: u32,
    ids: bool,
    most_of_key: Option<u64>,
}

/// The least bound of the fingerprints of a key.
const LEAST_BOUND: f64 = 2000.0;

impl SqlJob {
    /// A job for this many documents: all pairs of them within a distance. No distance is larger than 64.
    pub fn new(documents: u64, max_distance: u32) -> Self {
        Self {
            work: SqlWork::SelfJoin,
            documents,
            max_distance: max_distance.min(Fingerprint::BITS),
            ids: false,
            most_of_key: None,
        }
    }

    /// The sides that are joined. Default: all documents with each other.
    #[must_use]
    pub fn work(mut self, work: SqlWork) -> Self {
        self.work = work;
        self
    }

    /// Whether the pairs get the ids of documents. Default: false; then they have fingerprints only.
    #[must_use]
    pub fn ids(mut self, ids: bool) -> Self {
        self.ids = ids;
        self
    }

    /// The most fingerprints of a key that are compared each with each. Keys of more are cut further. Default: 2000, or
    /// four times as many as a key is expected to have. At least 1.
    #[must_use]
    pub fn most_of_key(mut self, most: u64) -> Self {
        self.most_of_key = Some(most.max(1));
        self
    }

    /// The job. `None` if no tables are better at this distance than to compare all, and all are too many for that.
    pub fn text(&self, dialect: SqlDialect) -> Option<String> {
        let documents = self.documents.max(1) as f64;
        let queries = match self.work {
            SqlWork::SelfJoin => None,
            SqlWork::Probe { queries } => Some(queries.max(1) as f64),
        };
        let masks = cheapest(documents, queries, self.max_distance)?;
        let lengths = masks.iter().map(|mask| mask.count_ones());
        let prefix_bits = lengths.clone().min().unwrap_or(0);
        let expected = queries.unwrap_or(documents) * 0.5f64.powi(prefix_bits.cast_signed());
        let bound = self
            .most_of_key
            .unwrap_or((4.0 * expected).max(LEAST_BOUND) as u64);
        let table_at = lengths.max().unwrap_or(0);
        let text = Text {
            job: self,
            dialect,
            masks,
            table_at,
            bound,
        };
        Some(match self.work {
            SqlWork::SelfJoin => text.self_join(),
            SqlWork::Probe { .. } => text.probe(),
        })
    }
}

struct Text<'j> {
    job: &'j SqlJob,
    dialect: SqlDialect,
    masks: Vec<u64>,
    /// The bit of a key at which the number of its table begins.
    table_at: u32,
    bound: u64,
}

impl Text<'_> {
    fn self_join(&self) -> String {
        let sql = self.dialect;
        let bound = self.bound;
        let newest = if self.job.ids { ", max(id) AS id" } else { "" };
        let spread = if sql == SqlDialect::Spark {
            "\nDISTRIBUTE BY key"
        } else {
            ""
        };
        let fingerprints = format!(
            "SELECT fp, count(*) AS documents{newest}\nFROM {}\nWHERE fp IS NOT NULL\nGROUP BY fp",
            self.input("documents")
        );
        // Spark sends these rows once if all who read them ask for the same columns and the same conditions. It would
        // add the condition itself where the number of the table is needed.
        let keyed = format!(
            "SELECT key, fp FROM (\n    SELECT {} AS key, fp\n    FROM fingerprints)\nWHERE {} IS NOT NULL{spread}",
            self.keys(),
            self.table_of("key")
        );
        let buckets = "SELECT key, count(fp) AS size FROM keyed GROUP BY key HAVING count(fp) > 1";
        let plain = self.first_table(&format!(
            "        SELECT a.fp AS fp_a, b.fp AS fp_b, {} AS tbl, {} AS x\n        FROM keyed a\n        \
             JOIN buckets s ON a.key = s.key\n        JOIN keyed b ON a.key = b.key\n        \
             WHERE s.size <= {bound} AND a.fp < b.fp",
            self.table_of("a.key"),
            sql.xor("a.fp", "b.fp"),
        ));
        let crowded = self.cut_rows(
            &format!(
                "SELECT k.key, k.fp, {} AS tbl FROM keyed k\n        \
             JOIN buckets s ON k.key = s.key WHERE s.size > {bound}",
                self.table_of("k.key")
            ),
            "fp",
        );
        let cut = self.first_block(&format!(
            "            SELECT a.fp AS fp_a, b.fp AS fp_b, a.tbl AS tbl, a.block AS block, {} AS x\n            \
             FROM crowded a\n            \
             JOIN crowded b ON a.key = b.key AND a.block = b.block AND a.part = b.part\n            \
             WHERE a.fp < b.fp",
            sql.xor("a.fp", "b.fp"),
        ), "");
        let found = "SELECT fp_a, fp_b, x FROM plain_pairs\nUNION ALL\nSELECT fp_a, fp_b, x FROM crowded_pairs";
        [
            self.head("All pairs of documents that are near to each other.", &["documents"]),
            step(1, "Documents of one fingerprint are one row."),
            sql.named("fingerprints", true, &fingerprints),
            step(2, &self.described_keys("Fingerprints")),
            sql.named("keyed", true, &keyed),
            step(3, "How many fingerprints a key has. A key of one has no pair."),
            sql.named("buckets", true, buckets),
            step(4, &format!(
                "Fingerprints of one key are compared, unless the key has more than {bound}. A pair counts in the\n\
                 -- first table in which its keys are the same."
            )),
            sql.named("plain_pairs", false, &plain),
            self.cut_step(),
            sql.named("cuts", true, &self.cuts()),
            sql.named("crowded", true, &crowded),
            sql.named("crowded_pairs", false, &cut),
            step(6, "The pairs. A row in which both fingerprints are the same stands for several documents of it."),
            sql.named("found", false, found),
            self.write(&self.pairs_of_self()),
        ]
        .join("\n")
    }

    fn probe(&self) -> String {
        let sql = self.dialect;
        let bound = self.bound;
        let queries = format!(
            "SELECT fp FROM {} WHERE fp IS NOT NULL GROUP BY fp",
            self.input("queries")
        );
        let keyed = format!("SELECT {} AS key, fp\nFROM query_fingerprints", self.keys());
        let buckets = "SELECT key, count(*) AS size FROM query_keyed GROUP BY key";
        let plain_queries = format!(
            "SELECT k.key, k.fp FROM query_keyed k JOIN query_buckets s ON k.key = s.key WHERE s.size <= {bound}"
        );
        let id = if self.job.ids { ", id" } else { "" };
        let id_b = if self.job.ids { ", d.id AS id_b" } else { "" };
        let documents = format!(
            "SELECT {} AS key, fp{id}\nFROM {}\nWHERE fp IS NOT NULL",
            self.keys(),
            self.input("documents")
        );
        let small = sql.broadcast("q");
        let plain = self.first_table(&format!(
            "        SELECT {small}q.fp AS fp_a, d.fp AS fp_b{id_b}, {} AS tbl, {} AS x\n        \
             FROM document_keyed d\n        JOIN plain_queries q ON d.key = q.key",
            self.table_of("d.key"),
            sql.xor("q.fp", "d.fp"),
        ));
        let cut = self.first_block(
            &format!(
                "            SELECT {small}q.fp AS fp_a, d.fp AS fp_b{id_b}, d.tbl AS tbl, d.block AS block, \
             {} AS x\n            \
             FROM crowded_documents d\n            \
             JOIN crowded_queries q ON d.key = q.key AND d.block = q.block AND d.part = q.part",
                sql.xor("q.fp", "d.fp"),
            ),
            if self.job.ids { ", id_b" } else { "" },
        );
        let id_b = if self.job.ids { ", id_b" } else { "" };
        let found = format!(
            "SELECT fp_a, fp_b{id_b}, x FROM plain_pairs\nUNION ALL\nSELECT fp_a, fp_b{id_b}, x FROM crowded_pairs"
        );
        [
            self.head(
                "All pairs of a query and a document that are near to each other: fp_a is of the query. The queries\n\
                 -- go to all machines, and the documents stay where they are.",
                &["documents", "queries"],
            ),
            step(1, "Queries of one fingerprint are one row."),
            sql.named("query_fingerprints", true, &queries),
            step(2, &self.described_keys("Queries")),
            sql.named("query_keyed", true, &keyed),
            step(3, &format!("How many queries a key has. Those of more than {bound} are left to step 5.")),
            sql.named("query_buckets", true, buckets),
            sql.named("plain_queries", true, &plain_queries),
            step(4, "Documents get keys too, and meet the queries of the same key. A pair counts in the first\n\
                     -- table in which its keys are the same."),
            sql.named("document_keyed", false, &documents),
            sql.named("plain_pairs", false, &plain),
            self.cut_step(),
            sql.named("cuts", true, &self.cuts()),
            sql.named("crowded_queries", true, &self.crowded_rows("query_keyed", "")),
            sql.named("crowded_documents", false, &self.crowded_rows("document_keyed", id)),
            sql.named("crowded_pairs", false, &cut),
            step(6, "The pairs: one row for each query fingerprint and document."),
            sql.named("found", false, &found),
            self.write(&format!("SELECT fp_a, fp_b, CAST(bit_count(x) AS INT) AS distance{id_b} FROM found")),
        ]
        .join("\n")
    }

    /// What the job is for, and the names that its user changes.
    fn head(&self, purpose: &str, inputs: &[&str]) -> String {
        let distance = counted(self.job.max_distance, "bit");
        let mut text = format!(
            "-- {purpose}\n-- Near are fingerprints that differ in at most {distance}. Written by `simdb plan` \
             for {}.\n-- The inputs are as `simdb export` writes them: fp is a number of 64 bits. Change these \
             names:\n",
            counted(self.job.documents, "document")
        );
        if self.dialect == SqlDialect::Spark {
            // There `/*` begins a comment, and quotes become part of the path.
            text += "-- Each is a file or a folder, without quotes. For several files, name their folder: SET does not \
                     take a * behind a /.\n";
        }
        for name in inputs.iter().chain(&["pairs"]) {
            text += &match self.dialect {
                SqlDialect::Spark => format!("SET simdb.{name} = {name}.parquet;\n"),
                SqlDialect::DuckDb => format!("SET VARIABLE {name} = '{name}.parquet';\n"),
            };
        }
        text
    }

    fn input(&self, name: &str) -> String {
        match self.dialect {
            SqlDialect::Spark => format!("parquet.`${{simdb.{name}}}`"),
            SqlDialect::DuckDb => format!("read_parquet(getvariable('{name}'))"),
        }
    }

    fn write(&self, query: &str) -> String {
        match self.dialect {
            SqlDialect::Spark => {
                format!("INSERT OVERWRITE DIRECTORY '${{simdb.pairs}}' USING parquet\n{query};\n")
            }
            SqlDialect::DuckDb => {
                format!("COPY (\n{query}\n) TO (getvariable('pairs')) (FORMAT parquet);\n")
            }
        }
    }

    fn pairs_of_self(&self) -> String {
        if !self.job.ids {
            return "SELECT fp AS fp_a, fp AS fp_b, CAST(0 AS INT) AS distance FROM fingerprints WHERE documents > 1\n\
                    UNION ALL\nSELECT fp_a, fp_b, CAST(bit_count(x) AS INT) AS distance FROM found"
                .to_owned();
        }
        "SELECT fp AS fp_a, fp AS fp_b, CAST(0 AS INT) AS distance, documents AS documents_a,\n    \
         documents AS documents_b, id AS id_a, id AS id_b\nFROM fingerprints WHERE documents > 1\nUNION ALL\n\
         SELECT p.fp_a, p.fp_b, CAST(bit_count(p.x) AS INT) AS distance, a.documents AS documents_a,\n    \
         b.documents AS documents_b, a.id AS id_a, b.id AS id_b\n\
         FROM found p JOIN fingerprints a ON a.fp = p.fp_a JOIN fingerprints b ON b.fp = p.fp_b"
            .to_owned()
    }

    /// The number of the table of a key.
    fn table_of(&self, key: &str) -> String {
        match self.masks.len() {
            // A key of all 64 bits leaves no room for a number. Its sign would be taken for one.
            1 => "0".to_owned(),
            _ => self.dialect.shifted(key, self.table_at),
        }
    }

    fn described_keys(&self, who: &str) -> String {
        match &self.masks[..] {
            [0] => format!("{who} are few, so all have one key, and all are compared."),
            [u64::MAX] => "The fingerprint itself is the key.".to_owned(),
            masks => format!(
                "{who} get a key in each of {}: some of the bits of the fingerprint, gathered at the low end,\n\
                 -- and the number of the table above them. Near fingerprints have the same key in some table.",
                counted(masks.len(), "table")
            ),
        }
    }

    /// The keys of a fingerprint in all tables, each as a row.
    fn keys(&self) -> String {
        let mut keys = Vec::new();
        for (table, &mask) in self.masks.iter().enumerate() {
            keys.push(self.dialect.key("fp", mask, table, self.table_at));
        }
        self.dialect.each(&keys)
    }

    /// Of candidates with `tbl` and `x`, those that are near and have no key in common in an earlier table.
    fn first_table(&self, candidates: &str) -> String {
        format!(
            "SELECT * FROM (\n{candidates})\nWHERE bit_count(x) <= {}{}",
            self.job.max_distance,
            self.in_no_earlier_table()
        )
    }

    fn in_no_earlier_table(&self) -> String {
        let mut conditions = String::new();
        for (table, &mask) in self.masks[..self.masks.len() - 1].iter().enumerate() {
            let mask = literal(mask);
            conditions += &format!("\n    AND (tbl <= {table} OR (x & {mask}) <> 0)");
        }
        conditions
    }

    /// Of rows with keys, with the column `id` if that is not empty, those of keys that many queries have, cut further.
    fn crowded_rows(&self, rows: &str, id: &str) -> String {
        let kept = format!("fp{id}");
        let rows = format!(
            "SELECT {}k.key, k.{}, {} AS tbl FROM {rows} k\n        \
             JOIN query_buckets s ON k.key = s.key WHERE s.size > {}",
            self.dialect.broadcast("s"),
            kept.replace(", ", ", k."),
            self.table_of("k.key"),
            self.bound
        );
        self.cut_rows(&rows, &kept)
    }

    fn cut_step(&self) -> String {
        step(
            5,
            &format!(
                "Keys of more are cut further. The bits that are not in the key are dealt out to {}, and\n\
             -- near fingerprints agree on one of them. A pair counts in the first block on which it agrees.",
                counted(self.job.max_distance + 1, "block")
            ),
        )
    }

    /// For each table, the blocks of the bits that are not in its key.
    fn cuts(&self) -> String {
        let mut rows = Vec::new();
        for (table, &mask) in self.masks.iter().enumerate() {
            let mut row = format!("    ({table}");
            for block in cut(mask, self.job.max_distance) {
                row += &format!(", CAST({} AS BIGINT)", literal(block));
            }
            rows.push(row + ")");
        }
        let mut names = String::new();
        for block in 0..=self.job.max_distance {
            names += &format!(", m{block}");
        }
        format!(
            "SELECT * FROM (VALUES\n{}) AS cuts(tbl{names})",
            rows.join(",\n")
        )
    }

    /// For each of some rows with `key`, `tbl` and the columns `kept`, a row for each block of its table.
    fn cut_rows(&self, rows: &str, kept: &str) -> String {
        let mut blocks = Vec::new();
        for block in 0..=self.job.max_distance {
            let part = format!("k.fp & c.m{block}");
            blocks.push(self.dialect.block(block as usize, &part));
        }
        let k_kept: Vec<String> = kept.split(", ").map(|name| format!("k.{name}")).collect();
        format!(
            "SELECT key, tbl, block.number AS block, block.part AS part, {kept} FROM (\n    \
             SELECT {}k.key, k.tbl, {}, {} AS block\n    FROM (\n        {rows}) k\n    JOIN cuts c ON c.tbl = k.tbl)",
            self.dialect.broadcast("c"),
            k_kept.join(", "),
            self.dialect.each(&blocks)
        )
    }

    /// Of candidates with `tbl`, `block` and `x`, those that are near and agree in no earlier table and block.
    fn first_block(&self, candidates: &str, id: &str) -> String {
        let mut text = format!(
            "SELECT fp_a, fp_b{id}, x FROM (\n    SELECT {}p.*{} FROM (\n        SELECT * FROM (\n\
             {candidates})\n        WHERE bit_count(x) <= {}) p\n    JOIN cuts c ON c.tbl = p.tbl)\nWHERE true",
            self.dialect.broadcast("c"),
            (0..self.job.max_distance)
                .map(|block| format!(", c.m{block}"))
                .collect::<String>(),
            self.job.max_distance
        );
        text += &self.in_no_earlier_table();
        for block in 0..self.job.max_distance {
            text += &format!("\n    AND (block <= {block} OR (x & m{block}) <> 0)");
        }
        text
    }
}

fn step(number: u32, text: &str) -> String {
    format!("-- {number}. {text}")
}

/// A dialect of SQL.
///
/// # Example
///
/// ```
/// use simdb::sql::{SqlDialect, SqlJob};
///
/// let job = SqlJob::new(1_000_000, 3);
/// let spark = job.text(SqlDialect::Spark).ok_or("there are tables for 3 bits")?;
/// assert!(spark.contains("SET simdb.documents = documents.parquet;"));
/// let duckdb = job.text(SqlDialect::DuckDb).ok_or("there are tables for 3 bits")?;
/// assert!(duckdb.contains("SET VARIABLE documents = 'documents.parquet';"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum SqlDialect {
    /// Apache Spark, 3.4 or later.
    #[cfg_attr(feature = "cli", value(name = "spark-sql"))]
    Spark,
    /// DuckDB, 1.1 or later.
    #[cfg_attr(feature = "cli", value(name = "duckdb-sql"))]
    DuckDb,
}

impl SqlDialect {
    fn xor(self, a: &str, b: &str) -> String {
        match self {
            Self::Spark => format!("{a} ^ {b}"),
            // There `^` is a power.
            Self::DuckDb => format!("xor({a}, {b})"),
        }
    }

    fn shifted(self, number: &str, bits: u32) -> String {
        match self {
            Self::Spark => format!("shiftright({number}, {bits})"),
            Self::DuckDb => format!("({number} >> {bits})"),
        }
    }

    /// A row for each item of a list.
    fn each(self, items: &[String]) -> String {
        let items = items.join(",\n        ");
        match self {
            Self::Spark => format!("explode(array(\n        {items}))"),
            Self::DuckDb => format!("unnest([\n        {items}])"),
        }
    }

    /// A block of bits and its number, as one value.
    fn block(self, number: usize, part: &str) -> String {
        match self {
            Self::Spark => format!("named_struct('number', {number}, 'part', {part})"),
            Self::DuckDb => format!("{{'number': {number}, 'part': {part}}}"),
        }
    }

    /// Asks for a copy of some rows on each machine, behind SELECT. Without it, Spark would send the other side of a
    /// join through the network if it does not know how few these are.
    fn broadcast(self, name: &str) -> String {
        match self {
            Self::Spark => format!("/*+ BROADCAST({name}) */ "),
            // There is one machine.
            Self::DuckDb => String::new(),
        }
    }

    /// Gives a name to the rows of a query. With `once`, DuckDB computes them once. Spark computes them when they are
    /// asked for, and sees by itself what is asked for twice.
    fn named(self, name: &str, once: bool, query: &str) -> String {
        let kind = match (self, once) {
            (Self::DuckDb, true) => "TABLE",
            (Self::Spark, _) | (Self::DuckDb, false) => "VIEW",
        };
        format!("CREATE OR REPLACE TEMPORARY {kind} {name} AS\n{query};\n")
    }

    /// The key of a fingerprint in a table: the bits of the mask, gathered at the low end, and above `table_at` the
    /// number of the table.
    fn key(self, fingerprint: &str, mask: u64, table: usize, table_at: u32) -> String {
        let mut parts = Vec::new();
        for run in runs(mask) {
            parts.push(match (run.shift, run.mask) {
                (0, u64::MAX) => fingerprint.to_owned(),
                (0, mask) => format!("({fingerprint} & {})", literal(mask)),
                (shift, mask) => {
                    format!("({} & {})", self.shifted(fingerprint, shift), literal(mask))
                }
            });
        }
        if table > 0 {
            parts.push(literal((table as u64) << table_at));
        }
        let key = parts.into_iter().reduce(|a, b| self.xor(&a, &b));
        match key {
            Some(key) => key,
            None => "CAST(0 AS BIGINT)".to_owned(),
        }
    }
}

/// Bits as a number with a sign.
fn literal(bits: u64) -> String {
    match bits.cast_signed() {
        // Read as the minus of a number that is too large.
        i64::MIN => format!("CAST('{}' AS BIGINT)", i64::MIN),
        number => number.to_string(),
    }
}

/// Bits that a mask has side by side, on their way to the low end: shifted, then masked. A right shift that takes the
/// sign along does no harm, since the mask comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    shift: u32,
    mask: u64,
}

/// The runs of a mask. Together they gather its bits at the low end.
fn runs(mask: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut left = mask;
    let mut gathered = 0;
    while left != 0 {
        let from = left.trailing_zeros();
        let length = (left >> from).trailing_ones();
        let run = u64::MAX >> (64 - length);
        runs.push(Run {
            shift: from - gathered,
            mask: run << gathered,
        });
        left &= !(run << from);
        gathered += length;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(i: u64) -> u64 {
        (i + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn gathered_bits_are_equal_where_the_masked_ones_are() {
        for seed in 0..2000 {
            let bits = random(seed);
            let mask = random(seed + 7) & random(seed + 9);
            let mut expected = 0;
            for (to, from) in (0..64).filter(|bit| mask >> bit & 1 == 1).enumerate() {
                expected |= (bits >> from & 1) << to;
            }
            assert_eq!(gathered(bits, mask), expected, "{bits:x} {mask:x}");
        }
        assert_eq!(gathered(1 << 63, 1 << 63), 1);
        assert_eq!(
            runs(u64::MAX),
            [Run {
                shift: 0,
                mask: u64::MAX
            }]
        );
        assert_eq!(runs(0), []);
    }

    fn gathered(bits: u64, mask: u64) -> u64 {
        let mut gathered = 0;
        for run in runs(mask) {
            let shifted = (bits.cast_signed() >> run.shift).cast_unsigned() & run.mask;
            assert_eq!(gathered & shifted, 0);
            gathered ^= shifted;
        }
        gathered
    }
}
