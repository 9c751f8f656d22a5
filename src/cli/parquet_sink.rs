//! Pairs that go into a Parquet file.

use std::path::PathBuf;

use super::answer::Failure;
use super::output::Output;
use super::pair_output::{PairLines, Sink};
use crate::parquet::{KeyColumns, PairFile};
use crate::{Error, FingerprintGroup, Pair, PairPosition};

/// Opens a file for pairs, of two databases if `has_two`.
pub(super) fn open(
    path: PathBuf,
    binary_keys: bool,
    has_two: bool,
    replace: bool,
) -> Result<Box<dyn Sink>, Failure> {
    let keys = match binary_keys {
        true => KeyColumns::Binary,
        false => KeyColumns::Text,
    };
    let file = PairFile::create(path, keys, replace)?;
    Ok(Box::new(match has_two {
        true => file.of_two_databases(),
        false => file,
    }))
}

impl Sink for PairFile {
    fn pair(&mut self, pair: &Pair, _: PairLines, _: &mut Output) -> Result<(), Failure> {
        Ok(PairFile::pair(self, pair).map_err(with_advice)?)
    }

    fn group(
        &mut self,
        group: &FingerprintGroup,
        _: PairLines,
        _: &mut Output,
    ) -> Result<(), Failure> {
        Ok(PairFile::group(self, group).map_err(with_advice)?)
    }

    fn finish(self: Box<Self>, _: &Output) -> Result<(), Failure> {
        Ok(PairFile::finish(*self).map(drop)?)
    }

    fn stop(&self, _: Option<PairPosition>, _: u64) -> Result<String, Failure> {
        Ok("; no file was made, and the same command begins anew".to_owned())
    }
}

fn with_advice(error: Error) -> Error {
    match error {
        Error::Input {
            source_name,
            line,
            reason,
        } => {
            let reason = format!("{reason}: give --binary-keys");
            Error::Input {
                source_name,
                line,
                reason,
            }
        }
        error => error,
    }
}
