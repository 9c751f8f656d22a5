//! Header: what a Parquet file says of the database that its documents are from, as texts under names of simdb.

use std::path::Path;
use std::str::FromStr;

use parquet::file::metadata::KeyValue;

use crate::database::{CreateOptions, Statistics};
use crate::error::Result;
use crate::sketch::SketchSize;
use crate::text::Scheme;

/// The version of the columns and of these texts.
const VERSION: &str = "1";

/// What is needed to make the same database again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) scheme: Scheme,
    plan: String,
    max_distance: u32,
    pub(super) sketch_size: SketchSize,
    min_similarity: f64,
    created: i64,
}

impl Header {
    pub(super) fn of(stats: &Statistics) -> Self {
        Self {
            scheme: stats.scheme,
            plan: stats.plan.clone(),
            max_distance: stats.max_distance,
            sketch_size: stats.sketch_size,
            min_similarity: stats.min_similarity.unwrap_or_default(),
            created: stats.created,
        }
    }

    /// The texts of the file.
    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        let pair = |name: &str, value: String| KeyValue::new(format!("simdb.{name}"), value);
        vec![
            pair("version", VERSION.to_owned()),
            pair("scheme", self.scheme.name().to_owned()),
            pair("plan", self.plan.clone()),
            pair("max_distance", self.max_distance.to_string()),
            pair("sketch_bytes", self.sketch_size.bytes().to_string()),
            pair("min_similarity", self.min_similarity.to_string()),
            pair("created", self.created.to_string()),
        ]
    }

    /// Reads the texts of a file. `None` if it has none of simdb, which is the case if another program has written it.
    pub(super) fn read(texts: &[KeyValue]) -> Result<Option<Self>, String> {
        let found = |name: &str| {
            let text = texts
                .iter()
                .find(|it| it.key.strip_prefix("simdb.") == Some(name));
            text.and_then(|it| it.value.as_deref())
        };
        match found("version") {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!(
                    "it was exported as version {other}, and this release reads {VERSION}: use a newer release"
                ));
            }
        }
        fn parsed<T: FromStr>(name: &str, text: Option<&str>) -> Result<T, String> {
            let text =
                text.ok_or_else(|| format!("its metadata has simdb.version, but no simdb.{name}"))?;
            text.parse()
                .map_err(|_| format!("its metadata has a simdb.{name} that cannot be: {text:?}"))
        }
        let sketch_bytes = parsed("sketch_bytes", found("sketch_bytes"))?;
        Ok(Some(Self {
            scheme: parsed("scheme", found("scheme"))?,
            plan: parsed("plan", found("plan"))?,
            max_distance: parsed("max_distance", found("max_distance"))?,
            sketch_size: SketchSize::from_bytes(sketch_bytes).ok_or_else(|| {
                format!("its metadata has a simdb.sketch_bytes that cannot be: {sketch_bytes}")
            })?,
            min_similarity: parsed("min_similarity", found("min_similarity"))?,
            created: parsed("created", found("created"))?,
        }))
    }

    /// The options with which the database was created.
    pub(super) fn create_options(&self) -> CreateOptions {
        CreateOptions::new()
            .scheme(self.scheme)
            .plan(&self.plan)
            .max_distance(self.max_distance)
            .sketch_size(self.sketch_size)
            .min_similarity(self.min_similarity)
            .created(self.created)
    }

    /// Refuses a file of other fingerprints or sketches than those of `first`.
    pub(super) fn ensure_like(&self, first: &Self, path: &Path) -> Result<(), String> {
        let path = path.display();
        let (ours, theirs) = (self.scheme, first.scheme);
        if ours != theirs {
            return Err(format!(
                "its fingerprints are of scheme {ours}, and those of {path} of {theirs}; fingerprints of different schemes \
                 cannot be compared: import one of them into another database"
            ));
        }
        let [ours, theirs] = [self, first].map(|it| it.sketch_size.bytes());
        if ours != theirs {
            return Err(format!(
                "its sketches have {ours} bytes, and those of {path} have {theirs}: import one of them into another \
                 database"
            ));
        }
        Ok(())
    }
}
