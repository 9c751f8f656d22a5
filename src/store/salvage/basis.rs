//! What everything else of a damaged file is read by: a commit, and what the table meta says.

use std::ops::Range;

use super::salvage::Pace;
use crate::error::{Error, Result};
use crate::store::blocks::FileSeed;
use crate::store::engine::{LevelName, RawCommit, RawFile, RawPage, Widths};
use crate::store::file::{
    DEAD, DOCUMENTS, FORMAT, SETTINGS, STATE, Settings, StateHead, check_format, decode_page,
    state_head,
};
use crate::store::sorted_set::lone_entries;

/// What the rows of the table meta say, as far as they can be read.
#[derive(Default)]
pub(super) struct Meta {
    pub(super) seed: Option<FileSeed>,
    pub(super) settings: Option<Settings>,
    /// Of the newest state record.
    pub(super) head: Option<StateHead>,
}

impl Meta {
    /// Nothing but the seed yet.
    fn with(seed: Option<FileSeed>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// What a commit says. Adds the bytes that are damaged. If the commit has lost the seed of its file, it is one of
    /// these.
    fn of(
        file: &RawFile,
        commit: &RawCommit,
        seeds: &mut Seeds<'_, '_>,
        damaged: &mut Vec<Range<u64>>,
    ) -> Result<Self> {
        let Some(root) = commit.root("meta") else {
            return Ok(Self::with(seeds.of(commit)?));
        };
        let mut meta = Self::default();
        damaged.extend(file.walk(root, Widths::ANY, &mut |page| meta.take(page))?);
        if meta.seed.is_none() {
            meta.seed = seeds.of(commit)?;
            file.walk(root, Widths::ANY, &mut |page| meta.take(page))?;
        }
        Ok(meta)
    }

    /// Takes the rows of a page that is one of the table, or may be.
    fn take(&mut self, page: &RawPage<'_>) -> Result<()> {
        for (name, row, _) in page.pairs(None).unwrap_or_default() {
            if name == FORMAT.as_bytes() && self.seed.is_none() {
                self.seed = match check_format(row) {
                    Err(error @ (Error::FormatVersion { .. } | Error::UnknownFeatures { .. })) => {
                        return Err(error);
                    }
                    seed => seed.ok(),
                };
            }
            let Some(seed) = self.seed else { continue };
            if name == SETTINGS.as_bytes() && self.settings.is_none() {
                self.settings = Settings::of_row(seed, row).ok();
            }
            if name == STATE.as_bytes()
                && let Ok(head) = state_head(seed, row)
                && age(Some(&head)) >= age(self.head.as_ref())
            {
                self.head = Some(head);
            }
        }
        Ok(())
    }
}

/// The greater, the newer.
fn age(head: Option<&StateHead>) -> (u64, u64) {
    head.map_or((0, 0), |head| (head.transactions, head.next_block))
}

/// What everything else is read by: a commit, and what the file says of itself.
pub(super) struct Basis {
    /// The last commit or the newest that is found.
    pub(super) commit: Option<RawCommit>,
    /// What this commit says. What does not change from commit to commit may be of others.
    pub(super) meta: Meta,
    /// Whether something in the file is of a later commit.
    pub(super) is_behind: bool,
    /// The greatest that any commit tells.
    pub(super) next_document: u64,
    pub(super) damaged: Vec<Range<u64>>,
}

impl Basis {
    pub(super) fn find(file: &RawFile, pace: &Pace<'_>) -> Result<Self> {
        let mut damaged = Vec::new();
        let mut seeds = Seeds::new(file, pace);
        let mut commit = file.last_commit();
        let mut meta = match &commit {
            Some(commit) => Meta::of(file, commit, &mut seeds, &mut damaged)?,
            None => Meta::default(),
        };
        if commit.is_none() {
            file.each_commit(|other| {
                let mut lost = Vec::new();
                let said = Meta::of(file, &other, &mut seeds, &mut lost)?;
                if commit.is_none() || age(said.head.as_ref()) > age(meta.head.as_ref()) {
                    (commit, meta, damaged) = (Some(other), said, lost);
                }
                Ok(())
            })?;
        }
        if commit.is_none() {
            meta.seed = seeds.all()?.first().copied();
        }
        // All rows of this kind in the file.
        let mut all = Meta::with(meta.seed);
        if meta.seed.is_some() {
            file.scan(|page| {
                all.take(page)?;
                pace.read(page.offset)
            })?;
        }
        let newest = all.head.as_ref();
        let is_vouched = commit.as_ref().is_some_and(|commit| commit.is_last);
        let is_behind = match &meta.head {
            Some(head) => age(newest).0 > head.transactions,
            None => !is_vouched,
        };
        let told = newest.map_or(0, |head| head.counters.next_document);
        meta.settings = meta.settings.or(all.settings);
        Ok(Self {
            commit,
            meta,
            is_behind,
            next_document: told,
            damaged,
        })
    }

    /// Whether the header vouches for the commit, and nothing is of a later one. The header may be an older one, so
    /// without the state record of the commit that cannot be told.
    pub(super) fn is_last(&self) -> bool {
        let is_vouched = self.commit.as_ref().is_some_and(|commit| commit.is_last);
        is_vouched && !self.is_behind && self.meta.head.is_some()
    }
}

/// The seeds that are told anywhere in a file. Where two files were joined, they have one each.
struct Seeds<'f, 'p> {
    file: &'f RawFile,
    pace: &'f Pace<'p>,
    /// Those that are told, once they were looked for.
    told: Option<Vec<FileSeed>>,
}

impl<'f, 'p> Seeds<'f, 'p> {
    fn new(file: &'f RawFile, pace: &'f Pace<'p>) -> Self {
        Self {
            file,
            pace,
            told: None,
        }
    }

    fn all(&mut self) -> Result<&[FileSeed]> {
        if self.told.is_none() {
            let mut told = Vec::new();
            self.file.scan(|page| {
                let mut meta = Meta::default();
                meta.take(page)?;
                if let Some(seed) = meta.seed.filter(|seed| !told.contains(seed)) {
                    told.push(seed);
                }
                self.pace.read(page.offset)
            })?;
            self.told = Some(told);
        }
        Ok(self.told.as_deref().unwrap_or_default())
    }

    /// The one that some chunk of the directory of a commit, or some page of its log, was written with.
    fn of(&mut self, commit: &RawCommit) -> Result<Option<FileSeed>> {
        let file = self.file;
        let told = self.all()?;
        let mut found = None;
        let chunks = commit.root("directory");
        let pages = commit.root("log");
        for (root, key_bytes) in [(chunks, CHUNK_KEY), (pages, LOG_KEY)] {
            let Some(root) = root.filter(|_| found.is_none()) else {
                continue;
            };
            file.walk(root, Widths::of_keys(Some(key_bytes)), &mut |page| {
                for (key, value, _) in page.pairs(Some(key_bytes)).unwrap_or_default() {
                    let is_one = |seed: &&FileSeed| is_written_with(**seed, key, value);
                    found = found.or_else(|| told.iter().find(is_one).copied());
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Whether a row of the directory or of the log was written in the file that has this seed.
fn is_written_with(seed: FileSeed, key: &[u8], value: &[u8]) -> bool {
    if let Some((level, last)) = chunk_key(key) {
        return lone_entries::<u64>(level, last, Some(seed), value).is_ok();
    }
    let number = key.try_into().map(u64::from_le_bytes);
    number.is_ok_and(|number| decode_page(seed, number, value, &mut Vec::new()).is_ok())
}

/// The bytes of the key of a chunk of the directory, and of that of a page of the log.
pub(super) const CHUNK_KEY: usize = 18;
pub(super) const LOG_KEY: usize = 8;

/// The level and the last row of a chunk, if it is one of the documents or of the dead numbers.
pub(super) fn chunk_key(key: &[u8]) -> Option<(LevelName, u128)> {
    let (id, last) = key.split_first_chunk()?;
    let id = u16::from_le_bytes(*id);
    let dead = DEAD.level(id as u8);
    let level = [DOCUMENTS, dead]
        .into_iter()
        .find(|level| level.id() == id)?;
    Some((level, u128::from_le_bytes(last.try_into().ok()?)))
}
