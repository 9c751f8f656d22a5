//! The records of a file: its format and its settings, which are written at creation, and the counters, which
//! every commit writes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::plan::{Plan, Table};
use crate::sketch::SketchSize;
use crate::store::blocks::{Fields, FileSeed, Kind, Problem, decode, encode, seal, unseal};
use crate::store::engine::Tables;
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::text::Scheme;

/// The version of the file format that this release writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 8;

/// The feature bits this release knows: none yet.
const KNOWN_FEATURES: u64 = 0;

/// The names of the rows of the meta table.
pub(crate) const FORMAT: &str = "format";
pub(crate) const SETTINGS: &str = "settings";

/// What is chosen when a file is created. Compaction makes another file, with another seed and perhaps
/// another plan.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Part of every checksum of the file.
    pub(crate) file: FileSeed,
    pub(crate) scheme: Scheme,
    pub(crate) plan: Plan,
    /// The max distance of queries that name none.
    pub(crate) max_distance: u32,
    pub(crate) sketch_size: SketchSize,
    /// The least similarity of queries that have a sketch and name none. `None` if there is none.
    pub(crate) min_similarity: Option<f64>,
    /// Seeds the hash of keys. So nobody can prepare keys that collide in every file.
    pub(crate) key_seed: u64,
    /// When the file was created, in Unix seconds.
    pub(crate) created: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredSettings {
    scheme: u32,
    feature_seed: u64,
    key_seed: u64,
    max_distance: u32,
    sketch_bytes: u32,
    min_similarity: Option<f64>,
    created: i64,
    tables: Vec<StoredTable>,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    positions: Vec<u8>,
    prefix_bits: u32,
}

/// The counters of a file. They change with every document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// The number of the next document. Numbers are never used again.
    pub(crate) next_document: u64,
    /// The number of the next scope. 0 is the empty scope.
    pub(crate) next_scope: u32,
    pub(crate) documents: u64,
    /// The number of documents without a fingerprint.
    pub(crate) too_short: u64,
}

impl Default for Counters {
    /// Those of an empty file.
    fn default() -> Self {
        Self {
            next_document: 1,
            next_scope: 1,
            documents: 0,
            too_short: 0,
        }
    }
}

impl Counters {
    /// Gives the next document its number.
    pub(crate) fn next_number(&mut self) -> Result<DocumentNumber> {
        let number = DocumentNumber(self.next_document);
        // The greatest number is never given: queries for the newest documents begin below it.
        if number >= DocumentNumber::MAX {
            return Err(Error::TooManyDocuments);
        }
        self.next_document += 1;
        Ok(number)
    }

    /// Gives the next scope its number.
    pub(crate) fn next_scope(&mut self) -> Result<ScopeNumber> {
        let number = ScopeNumber(self.next_scope);
        if number >= ScopeNumber::ANY {
            return Err(Error::TooManyScopes);
        }
        self.next_scope += 1;
        Ok(number)
    }

    pub(crate) fn count(&mut self, document: &Document) {
        self.documents += 1;
        self.too_short += u64::from(document.fingerprint().is_none());
    }

    /// Takes a removed document out of the counts.
    pub(crate) fn uncount(&mut self, document: &Document) {
        self.documents = self.documents.saturating_sub(1);
        if document.fingerprint().is_none() {
            self.too_short = self.too_short.saturating_sub(1);
        }
    }

    /// Whether a scope may have this number.
    pub(crate) fn has_given(&self, number: ScopeNumber) -> bool {
        number != ScopeNumber::EMPTY && number.0 < self.next_scope
    }
}

impl Settings {
    /// Settings for ready fingerprints, with four tables.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let plan = "4x16".parse::<Plan>().expect("a plan");
        Self {
            file: FileSeed::random(),
            scheme: Scheme::External,
            plan,
            max_distance: 3,
            sketch_size: SketchSize::Bytes16,
            min_similarity: None,
            key_seed: 7,
            created: 0,
        }
    }

    /// The hash of a key, by which its document is found.
    pub(crate) fn key_hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.key_seed)
    }

    /// Checks that a document can be stored in the file, and found in it.
    pub(crate) fn validate(&self, document: &Document) -> Result<()> {
        document.validate()?;
        self.scheme.check_sketch(self.sketch_size, document)
    }

    /// Checks the format of a file, then reads its settings.
    pub(super) fn read(tables: &Tables, path: &Path) -> Result<Self> {
        // Without this row, the file has the same engine, but belongs to another program.
        let Some(format) = tables.meta(FORMAT)? else {
            return Err(Error::NotSimdb {
                path: path.to_owned(),
            });
        };
        let file = check_format(&format)?;
        let Some(settings) = tables.meta(SETTINGS)? else {
            return Err(damaged_settings("it is missing"));
        };
        decode_settings(file, &settings)
    }

    /// The same settings for another file, with a seed of its own.
    pub(crate) fn for_another_file(&self) -> Self {
        Self {
            file: FileSeed::random(),
            ..self.clone()
        }
    }
}

pub(super) fn encode_format(file: FileSeed) -> Vec<u8> {
    seal(Kind::Format, FileSeed::NONE, FORMAT.as_bytes(), |bytes| {
        bytes.extend(FORMAT_VERSION.to_le_bytes());
        bytes.extend(KNOWN_FEATURES.to_le_bytes());
        bytes.extend(file.0.to_le_bytes());
    })
}

/// Refuses files of other formats, and returns the seed of the file. The bytes behind the two numbers depend
/// on the version. So nothing else of the file may be read before this check.
pub(crate) fn check_format(bytes: &[u8]) -> Result<FileSeed> {
    let body =
        unseal(Kind::Format, FileSeed::NONE, FORMAT.as_bytes(), bytes).map_err(damaged_format)?;
    let mut fields = Fields(body);
    let version = u32::from_le_bytes(fields.take().map_err(damaged_format)?);
    if version != FORMAT_VERSION {
        return Err(Error::FormatVersion {
            found: version,
            supported: FORMAT_VERSION,
        });
    }
    let features = u64::from_le_bytes(fields.take().map_err(damaged_format)?);
    if features & !KNOWN_FEATURES != 0 {
        return Err(Error::UnknownFeatures {
            bits: features & !KNOWN_FEATURES,
        });
    }
    let file = FileSeed(u64::from_le_bytes(fields.take().map_err(damaged_format)?));
    fields.finish().map_err(damaged_format)?;
    Ok(file)
}

fn damaged_format(problem: Problem) -> Error {
    Error::damaged("meta", FORMAT, problem)
}

pub(super) fn encode_settings(settings: &Settings) -> Vec<u8> {
    let tables = settings.plan.tables().iter().map(|table| StoredTable {
        positions: table.positions().to_vec(),
        prefix_bits: table.prefix_bits,
    });
    let stored = StoredSettings {
        scheme: settings.scheme.number(),
        feature_seed: settings.scheme.feature_seed(),
        key_seed: settings.key_seed,
        max_distance: settings.max_distance,
        sketch_bytes: settings.sketch_size.bytes() as u32,
        min_similarity: settings.min_similarity,
        created: settings.created,
        tables: tables.collect(),
    };
    seal(
        Kind::Settings,
        settings.file,
        SETTINGS.as_bytes(),
        |bytes| encode(&stored, bytes),
    )
}

/// Reads the row of the settings back.
pub(crate) fn decode_settings(file: FileSeed, bytes: &[u8]) -> Result<Settings> {
    let body =
        unseal(Kind::Settings, file, SETTINGS.as_bytes(), bytes).map_err(damaged_settings)?;
    let stored: StoredSettings = decode(body).map_err(damaged_settings)?;
    let scheme = Scheme::from_number(stored.scheme).ok_or(Error::UnknownScheme {
        number: stored.scheme,
    })?;
    if stored.feature_seed != scheme.feature_seed() {
        return Err(damaged_settings("the seed is not that of its scheme"));
    }
    if stored.max_distance > 64 {
        return Err(damaged_settings("the max distance is above 64"));
    }
    let sketch_size = usize::try_from(stored.sketch_bytes)
        .ok()
        .and_then(SketchSize::from_bytes);
    let Some(sketch_size) = sketch_size else {
        return Err(damaged_settings("its sketches have an impossible size"));
    };
    if let Some(similarity) = stored.min_similarity
        && (!(0.0..=1.0).contains(&similarity) || sketch_size == SketchSize::None)
    {
        return Err(damaged_settings("the least similarity is impossible"));
    }
    let tables: Option<Vec<Table>> = stored.tables.into_iter().map(decode_table).collect();
    let Some(plan) = tables.and_then(Plan::new) else {
        return Err(damaged_settings("the plan is impossible"));
    };
    Ok(Settings {
        file,
        scheme,
        plan,
        max_distance: stored.max_distance,
        sketch_size,
        min_similarity: stored.min_similarity,
        key_seed: stored.key_seed,
        created: stored.created,
    })
}

fn damaged_settings(problem: Problem) -> Error {
    Error::damaged("meta", SETTINGS, problem)
}

fn decode_table(stored: StoredTable) -> Option<Table> {
    let positions: [u8; 64] = stored.positions.try_into().ok()?;
    Table::new(positions, stored.prefix_bits)
}

impl Counters {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.next_document.to_le_bytes());
        bytes.extend(self.next_scope.to_le_bytes());
        bytes.extend(self.documents.to_le_bytes());
        bytes.extend(self.too_short.to_le_bytes());
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let counters = Self {
            next_document: u64::from_le_bytes(fields.take()?),
            next_scope: u32::from_le_bytes(fields.take()?),
            documents: u64::from_le_bytes(fields.take()?),
            too_short: u64::from_le_bytes(fields.take()?),
        };
        let scopes = ScopeNumber::EMPTY.0 + 1..=ScopeNumber::ANY.0;
        let numbers = counters.next_document <= DocumentNumber::MAX.0
            && scopes.contains(&counters.next_scope);
        let counts =
            counters.too_short <= counters.documents && counters.documents < counters.next_document;
        if numbers && counts {
            Ok(counters)
        } else {
            Err("it has impossible counts")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            file: FileSeed(77),
            scheme: Scheme::External,
            plan: "4x16".parse::<Plan>().expect("a plan"),
            max_distance: 5,
            sketch_size: SketchSize::Bytes32,
            min_similarity: Some(0.7),
            key_seed: 99,
            created: 1_700_000_000,
        }
    }

    #[test]
    fn settings_and_counters_read_back() -> Result<()> {
        let stored = encode_settings(&settings());
        assert!(decode_settings(FileSeed(78), &stored).is_err());
        let read = decode_settings(FileSeed(77), &stored)?;
        assert_eq!(
            (read.scheme, read.max_distance, read.key_seed),
            (Scheme::External, 5, 99)
        );
        assert_eq!(
            (read.sketch_size, read.min_similarity),
            (SketchSize::Bytes32, Some(0.7))
        );
        assert_eq!(read.plan.to_string(), "4x16");
        let without = Settings {
            sketch_size: SketchSize::None,
            ..settings()
        };
        assert!(
            decode_settings(FileSeed(77), &encode_settings(&without)).is_err(),
            "a similarity of nothing"
        );
        for (read, written) in read
            .plan
            .tables()
            .iter()
            .zip("4x16".parse::<Plan>().expect("a plan").tables())
        {
            assert_eq!(read.positions(), written.positions());
        }
        let counters = Counters {
            next_document: 9,
            next_scope: 2,
            documents: 7,
            too_short: 1,
        };
        let mut bytes = Vec::new();
        counters.encode(&mut bytes);
        assert_eq!(Counters::decode(&mut Fields(&bytes)), Ok(counters));
        // A forged file can have them with the right checksum.
        let scopes = |next_scope| Counters {
            next_scope,
            ..counters
        };
        let few = Counters {
            next_document: 7,
            ..counters
        };
        for impossible in [scopes(0), scopes(1 << 24), few] {
            let mut bytes = Vec::new();
            impossible.encode(&mut bytes);
            assert!(
                Counters::decode(&mut Fields(&bytes)).is_err(),
                "{impossible:?}"
            );
        }
        assert_eq!(check_format(&encode_format(FileSeed(77)))?, FileSeed(77));
        Ok(())
    }

    #[test]
    fn other_versions_features_and_schemes_are_refused_by_name() {
        let format = |version: u32, features: u64| {
            seal(Kind::Format, FileSeed::NONE, FORMAT.as_bytes(), |bytes| {
                bytes.extend(version.to_le_bytes());
                bytes.extend(features.to_le_bytes());
                bytes.extend(b"whatever a later version adds");
            })
        };
        for found in [1, 2, 3, 4, 5, 6, 7, 9] {
            let refused = check_format(&format(found, 0));
            assert!(
                matches!(refused, Err(Error::FormatVersion { found: it, supported: 8 }) if it == found)
            );
        }
        assert!(matches!(
            check_format(&format(8, 4)),
            Err(Error::UnknownFeatures { bits: 4 })
        ));
        assert!(matches!(
            check_format(b"too short"),
            Err(Error::Damaged { table: "meta", .. })
        ));
        let unknown = StoredSettings {
            scheme: 77,
            feature_seed: 0,
            key_seed: 0,
            max_distance: 3,
            sketch_bytes: 0,
            min_similarity: None,
            created: 0,
            tables: Vec::new(),
        };
        let file = FileSeed(77);
        let sealed = seal(Kind::Settings, file, SETTINGS.as_bytes(), |bytes| {
            encode(&unknown, bytes);
        });
        assert!(matches!(
            decode_settings(file, &sealed),
            Err(Error::UnknownScheme { number: 77 })
        ));
    }
}
