//! What `simdb stats` tells a person: what a database holds in words and units, and what to do if something is off.

use crate::{Database, Error, FullestPrefixes, LargestGroups, Metrics, Snapshot, Statistics};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::escaping::printable;
use super::units::{told_bytes, told_count};

/// The most groups and prefixes that are listed.
const MOST_LISTED: usize = 3;
/// The postings that are read for the groups, at most. With more only the large groups are found.
const MOST_READ: u64 = 1 << 18;

/// What is told of a database.
pub(super) struct Overview {
    pub(super) stats: Statistics,
    pub(super) metrics: Metrics,
    /// `None` if a block was damaged that had to be read for it.
    pub(super) groups: Option<LargestGroups>,
    pub(super) prefixes: Option<FullestPrefixes>,
}

impl Overview {
    pub(super) fn of(database: &Database) -> Result<Self, Error> {
        let metrics = database.metrics();
        let snapshot: Snapshot = database.snapshot()?;
        Ok(Self {
            stats: snapshot.stats()?,
            metrics,
            groups: unless_damaged(snapshot.largest_groups(MOST_LISTED, MOST_READ))?,
            prefixes: unless_damaged(snapshot.fullest_prefixes(MOST_LISTED))?,
        })
    }

    /// The lines: a heading of up to 16 characters, and what is to be said.
    pub(super) fn lines(&self) -> Vec<String> {
        let Statistics {
            documents,
            too_short,
            fingerprints,
            ..
        } = self.stats;
        let mut rows = vec![("documents", told_count(documents))];
        if too_short > 0 {
            rows.push((
                "",
                format!("{} of them too short to judge", told_count(too_short)),
            ));
        }
        rows.push((
            "fingerprints",
            format!("about {} different ones", told_count(fingerprints)),
        ));
        rows.push(("size", self.size()));
        rows.push(("created", told_time(self.stats.created)));
        rows.push(("texts", self.texts()));
        rows.push(("matches", self.matches()));
        rows.push(("tables", self.tables()));
        rows.push(("cache", self.cache()));
        rows.extend(headed("since opened", self.activity()));
        rows.extend(self.pinned().map(|told| ("snapshots", told)));
        rows.extend(headed("largest groups", self.groups()));
        rows.extend(headed("fullest prefixes", self.prefixes()));
        rows.extend(headed("advice", self.advice()));
        rows.into_iter()
            .map(|(heading, told)| format!("{heading:<18}{told}"))
            .collect()
    }

    fn size(&self) -> String {
        let Statistics {
            file_bytes,
            allocated_bytes,
            documents,
            format_version,
            ..
        } = self.stats;
        let each = match documents {
            0 => String::new(),
            documents => format!(
                ", {} a document",
                told_bytes(allocated_bytes as f64 / documents as f64)
            ),
        };
        let sparse = match allocated_bytes < file_bytes / 10 * 9 {
            true => format!(
                ", {} of them on the disk",
                told_bytes(allocated_bytes as f64)
            ),
            false => String::new(),
        };
        format!(
            "{}{sparse}{each}, format version {format_version}",
            told_bytes(file_bytes as f64)
        )
    }

    fn texts(&self) -> String {
        match self.stats.sketch_size.bytes() {
            0 => format!("fingerprints of scheme {}, no sketches", self.stats.scheme),
            bytes => format!(
                "fingerprints of scheme {}, sketches of {bytes} bytes",
                self.stats.scheme
            ),
        }
    }

    fn matches(&self) -> String {
        let least = self.stats.min_similarity.filter(|&it| it > 0.0);
        let least = least.map_or_else(String::new, |least| {
            format!(" and of similarity {least} or more")
        });
        format!(
            "within distance {}{least}, unless a query says otherwise",
            self.stats.max_distance
        )
    }

    fn tables(&self) -> String {
        let Statistics {
            plan,
            probed_distance,
            levels,
            marks,
            ..
        } = &self.stats;
        let waiting = match (levels, marks) {
            (0 | 1, 0) => String::new(),
            (levels, 0) => format!(", in up to {levels} parts that wait to be merged"),
            (levels, marks) => {
                format!(
                    ", in {levels} parts, {} deletions wait to be merged",
                    told_count(*marks)
                )
            }
        };
        format!("plan {plan}, one look at each up to distance {probed_distance}{waiting}")
    }

    fn cache(&self) -> String {
        let Statistics {
            cache_limit_bytes,
            tables_need_bytes,
            queries_need_bytes,
            tables_fit,
            ..
        } = self.stats;
        let [limit, tables, queries] = [cache_limit_bytes, tables_need_bytes, queries_need_bytes]
            .map(|it| told_bytes(it as f64));
        let fit = if tables_fit {
            "the tables fit"
        } else {
            "the tables do not fit"
        };
        format!("at most {limit}: {fit}, which need {tables}, with the postings {queries}")
    }

    /// What the process that has it open has done with it. Nothing is told of one that has only looked.
    fn activity(&self) -> Vec<String> {
        let Metrics {
            open_for,
            documents_stored,
            documents_deleted,
            documents_expired,
            queries,
            ..
        } = self.metrics;
        let Metrics {
            commit_times,
            queue_length,
            waiting_changes,
            ..
        } = &self.metrics;
        let commits = commit_times.count();
        if commits == 0 && queries == 0 {
            return Vec::new();
        }
        let seconds = open_for.as_secs_f64().max(1.0);
        let each_second = |count: u64| told_count((count as f64 / seconds) as u64);
        let gone = documents_deleted + documents_expired;
        let mut told = vec![
            format!(
                "{} documents stored, {} deleted or replaced, {} queries, in {}",
                told_count(documents_stored),
                told_count(gone),
                told_count(queries),
                told_seconds(open_for.as_secs() as i64)
            ),
            format!(
                "{} documents and {} queries a second",
                each_second(documents_stored),
                each_second(queries)
            ),
        ];
        if let Some(median) = commit_times.quantile(0.5) {
            told.push(format!(
                "{} commits, half of them within {median:.1?}",
                told_count(commits)
            ));
        }
        if queue_length + waiting_changes > 0 {
            let (queue, changes) = (told_count(*queue_length), told_count(*waiting_changes));
            told.push(format!(
                "{queue} documents wait to be stored, {changes} changes to be merged"
            ));
        }
        told
    }

    /// What others keep from being used again.
    fn pinned(&self) -> Option<String> {
        let Metrics {
            snapshots,
            pinned_bytes,
            oldest_pin,
            ..
        } = &self.metrics;
        let oldest = oldest_pin.map_or_else(String::new, |it| {
            format!(", for {}", told_seconds(it.as_secs() as i64))
        });
        let pinned = told_bytes(*pinned_bytes as f64);
        (*pinned_bytes > 0).then(|| {
            format!("{snapshots} in use{oldest}; they keep {pinned} from being used again")
        })
    }

    fn groups(&self) -> Vec<String> {
        let groups = self.groups.iter().flat_map(|it| &it.groups);
        let told = groups.map(|group| {
            let key = printable(&group.newest_key);
            format!(
                "{} documents have the fingerprint of {key}",
                told_count(group.documents)
            )
        });
        told.collect()
    }

    fn prefixes(&self) -> Vec<String> {
        let prefixes = self
            .prefixes
            .iter()
            .flat_map(|it| &it.prefixes)
            .filter(|it| it.times_expected() >= 2.0);
        let told = prefixes.map(|prefix| {
            let (rows, expected) = (told_count(prefix.rows), prefix.expected);
            let (table, bits) = (prefix.table, prefix.prefix_bits);
            format!("{rows} fingerprints agree in {bits} bits of table {table}; {expected:.1} were expected")
        });
        let mut told: Vec<String> = told.collect();
        // Prefixes of one table may be equally full.
        told.dedup();
        told
    }

    /// What is off, and what to do.
    pub(super) fn advice(&self) -> Vec<String> {
        let stats = &self.stats;
        let mut advice = Vec::new();
        if self.groups.is_none() || self.prefixes.is_none() {
            advice.push("some of the file is damaged: `simdb check` tells what".to_owned());
        }
        if !stats.tables_fit {
            advice.push(format!(
                "the permuted tables do not fit into the cache of {}, so queries read the file; give the program that \
                 has it open a cache of {}, or of {} for the postings too",
                told_bytes(stats.cache_limit_bytes as f64),
                told_bytes(stats.tables_need_bytes as f64),
                told_bytes(stats.queries_need_bytes as f64)
            ));
        }
        if stats.marks > 10_000 && stats.marks > stats.documents {
            advice.push(
                "there are more deletions than documents: `simdb compact` makes the file smaller"
                    .to_owned(),
            );
        }
        if stats.levels > MANY_LEVELS {
            advice.push(format!(
                "merges are behind, so queries look into {} parts of a table: they are done while a program has the \
                 file open to write, or at once by `simdb compact`",
                stats.levels
            ));
        }
        let crowded = self
            .groups
            .iter()
            .flat_map(|it| &it.groups)
            .any(|it| it.documents > MANY_OF_A_GROUP);
        if crowded {
            advice.push(
                "the largest groups are mostly pages without content of their own, such as errors; every query near \
                 them meets all of them"
                    .to_owned(),
            );
        }
        if self
            .metrics
            .oldest_pin
            .is_some_and(|it| it.as_secs() > 3600)
            && self.metrics.pinned_bytes > 1 << 30
        {
            advice.push(
                "a snapshot is kept for long, and the file grows until it is dropped".to_owned(),
            );
        }
        advice
    }
}

/// With more, merges are behind: the policy of merges keeps fewer.
const MANY_LEVELS: u32 = 24;
/// Some pages that are the same are usual.
const MANY_OF_A_GROUP: u64 = 10_000;

fn unless_damaged<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(Error::Damaged { .. } | Error::Corrupted(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// The lines of a list, the first with the heading.
fn headed(
    heading: &'static str,
    lines: Vec<String>,
) -> impl Iterator<Item = (&'static str, String)> {
    std::iter::once(heading)
        .chain(std::iter::repeat(""))
        .zip(lines)
}

/// A time in the local zone, and how long ago that is.
fn told_time(seconds: i64) -> String {
    let Ok(time) = Timestamp::from_second(seconds) else {
        return format!("{seconds} (Unix seconds)");
    };
    let ago = Timestamp::now().as_second() - seconds;
    let ago = if ago < 0 {
        "in the future".to_owned()
    } else {
        format!("{} ago", told_seconds(ago))
    };
    format!(
        "{} ({ago})",
        time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M")
    )
}

/// A time span in its largest unit.
fn told_seconds(seconds: i64) -> String {
    let units = [
        (365 * 86_400, "year"),
        (30 * 86_400, "month"),
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
    ];
    let (length, unit) = units
        .into_iter()
        .find(|(length, _)| seconds >= *length)
        .unwrap_or((1, "second"));
    let count = seconds / length;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_their_largest_unit() {
        for (seconds, told) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (59, "59 seconds"),
            (7_300, "2 hours"),
            (86_400, "1 day"),
            (40 * 86_400, "1 month"),
        ] {
            assert_eq!(told_seconds(seconds), told);
        }
        assert!(told_time(0).contains("years ago"), "{}", told_time(0));
        assert!(told_time(i64::MAX).contains("Unix seconds"));
    }
}
