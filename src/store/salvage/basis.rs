//! What everything else of a damaged file is read by: a commit, and what the table meta says.

use std::ops::Range;

use super::salvage::Pace;
use crate::error::{Error, Result};
use crate::store::blocks::FileSeed;
use crate::store::engine::{RawCommit, RawFile, RawPage};
use crate::store::file::{FORMAT, SETTINGS, STATE, Settings, StateHead, check_format, state_head};

/// What the rows of the table meta say, as far as they can be read.
#[derive(Default)]
pub(super) struct Meta {
    pub(super) seed: Option<FileSeed>,
    pub(super) settings: Option<Settings>,
    /// Of the newest state record.
    pub(super) head: Option<StateHead>,
}

impl Meta {
    /// What a commit says. Adds the bytes that are damaged.
    fn of(
        file: &RawFile,
        seed: Option<FileSeed>,
        commit: &RawCommit,
        damaged: &mut Vec<Range<u64>>,
    ) -> Result<Self> {
        let mut meta = Self {
            seed,
            ..Self::default()
        };
        if let Some(root) = commit.root("meta") {
            damaged.extend(file.walk(root, None, &mut |page| meta.take(page))?);
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
        let mut commit = file.last_commit();
        let mut meta = match &commit {
            Some(commit) => Meta::of(file, None, commit, &mut damaged)?,
            None => Meta::default(),
        };
        // All rows of this kind in the file. The seed may come behind what it is needed for.
        let mut all = Meta::default();
        loop {
            let seed = meta.seed.or(all.seed);
            all = Meta {
                seed,
                ..Meta::default()
            };
            file.scan(|page| {
                all.take(page)?;
                pace.read(page.offset)
            })?;
            if all.seed.is_none() || seed.is_some() {
                break;
            }
        }
        if commit.is_none() {
            file.each_commit(|other| {
                let mut lost = Vec::new();
                let said = Meta::of(file, all.seed, &other, &mut lost)?;
                if commit.is_none() || age(said.head.as_ref()) > age(meta.head.as_ref()) {
                    (commit, meta, damaged) = (Some(other), said, lost);
                }
                Ok(())
            })?;
        }
        let newest = all.head.as_ref();
        let is_vouched = commit.as_ref().is_some_and(|commit| commit.is_last);
        let is_behind = match &meta.head {
            Some(head) => age(newest).0 > head.transactions,
            None => !is_vouched,
        };
        let told = newest.map_or(0, |head| head.counters.next_document);
        meta.seed = meta.seed.or(all.seed);
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
