//! The words of two dialects of SQL for the few things that a join needs.

use super::tables::runs;

/// A dialect of SQL.
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
    pub(super) fn xor(self, a: &str, b: &str) -> String {
        match self {
            Self::Spark => format!("{a} ^ {b}"),
            // There `^` is a power.
            Self::DuckDb => format!("xor({a}, {b})"),
        }
    }

    pub(super) fn shifted(self, number: &str, bits: u32) -> String {
        match self {
            Self::Spark => format!("shiftright({number}, {bits})"),
            Self::DuckDb => format!("({number} >> {bits})"),
        }
    }

    /// A row for each item of a list.
    pub(super) fn each(self, items: &[String]) -> String {
        let items = items.join(",\n        ");
        match self {
            Self::Spark => format!("explode(array(\n        {items}))"),
            Self::DuckDb => format!("unnest([\n        {items}])"),
        }
    }

    /// A block of bits and its number, as one value.
    pub(super) fn block(self, number: usize, part: &str) -> String {
        match self {
            Self::Spark => format!("named_struct('number', {number}, 'part', {part})"),
            Self::DuckDb => format!("{{'number': {number}, 'part': {part}}}"),
        }
    }

    /// Asks for a copy of some rows on each machine, behind SELECT. Without it, Spark would send the other side of a
    /// join through the network if it does not know how few these are.
    pub(super) fn broadcast(self, name: &str) -> String {
        match self {
            Self::Spark => format!("/*+ BROADCAST({name}) */ "),
            // There is one machine.
            Self::DuckDb => String::new(),
        }
    }

    /// Gives a name to the rows of a query. With `once`, DuckDB computes them once. Spark computes them when they are
    /// asked for, and sees by itself what is asked for twice.
    pub(super) fn named(self, name: &str, once: bool, query: &str) -> String {
        let kind = match (self, once) {
            (Self::DuckDb, true) => "TABLE",
            (Self::Spark, _) | (Self::DuckDb, false) => "VIEW",
        };
        format!("CREATE OR REPLACE TEMPORARY {kind} {name} AS\n{query};\n")
    }

    /// The key of a fingerprint in a table: the bits of the mask, gathered at the low end, and above `table_at` the
    /// number of the table.
    pub(super) fn key(self, fingerprint: &str, mask: u64, table: usize, table_at: u32) -> String {
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
        key.unwrap_or_else(|| "CAST(0 AS BIGINT)".to_owned())
    }
}

/// Bits as a number with a sign.
pub(super) fn literal(bits: u64) -> String {
    match bits.cast_signed() {
        // Read as the minus of a number that is too large.
        i64::MIN => format!("CAST('{}' AS BIGINT)", i64::MIN),
        number => number.to_string(),
    }
}
