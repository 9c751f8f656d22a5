//! A file of documents: the names of its columns, and the texts that say which database it is from.

use std::path::Path;
use std::str::FromStr;

use parquet::file::metadata::KeyValue;

use crate::database::CreateOptions;
use crate::document::Document;
use crate::error::Result;
use crate::sketch::SketchSize;
use crate::store::Statistics;
use crate::text::Scheme;

/// The place of the document in the order of writing, from 0.
pub(super) const ID: &str = "id";
pub(super) const KEY: &str = "key";
/// The bits of the fingerprint, as a number with a sign. Spark would read one without a sign as a decimal.
pub(super) const FINGERPRINT: &str = "fp";
pub(super) const SKETCH: &str = "sketch";
pub(super) const SHINGLES: &str = "shingles";
pub(super) const SEEN: &str = "seen";
/// The Unix seconds of a time that does not fit into `SEEN`.
pub(super) const SEEN_SECONDS: &str = "seen_seconds";
/// How often the document was seen again.
pub(super) const REPEATS: &str = "repeats";
pub(super) const SCOPE: &str = "scope";
pub(super) const PAYLOAD: &str = "payload";
/// The numbers of the rank. One that is missing is null, and so are those behind it.
pub(super) const RANKS: [&str; Document::MAX_RANKS] = ["rank_1", "rank_2", "rank_3", "rank_4"];

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
    pub(super) fn new(stats: &Statistics) -> Self {
        Self {
            scheme: stats.scheme,
            plan: stats.plan.clone(),
            max_distance: stats.max_distance,
            sketch_size: stats.sketch_size,
            min_similarity: stats.min_similarity.unwrap_or_default(),
            created: stats.created,
        }
    }

    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        let texts = [
            ("version", VERSION.to_owned()),
            ("scheme", self.scheme.name().to_owned()),
            ("plan", self.plan.clone()),
            ("max_distance", self.max_distance.to_string()),
            ("sketch_bytes", self.sketch_size.bytes().to_string()),
            ("min_similarity", self.min_similarity.to_string()),
            ("created", self.created.to_string()),
        ];
        let mut pairs = Vec::with_capacity(texts.len());
        for (name, text) in texts {
            pairs.push(KeyValue::new(format!("simdb.{name}"), text));
        }
        pairs
    }

    /// Reads the texts of a file. `None` if it has none of simdb, which is the case if another program has written it.
    pub(super) fn read(texts: &[KeyValue]) -> Result<Option<Self>, String> {
        match text_of(texts, "version") {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!(
                    "it was exported as version {other}, and this release reads {VERSION}: use a newer release"
                ));
            }
        }
        let sketch_bytes = parsed(texts, "sketch_bytes")?;
        let Some(sketch_size) = SketchSize::from_bytes(sketch_bytes) else {
            return Err(format!(
                "its metadata has a simdb.sketch_bytes that cannot be: {sketch_bytes}"
            ));
        };
        Ok(Some(Self {
            scheme: parsed(texts, "scheme")?,
            plan: parsed(texts, "plan")?,
            max_distance: parsed(texts, "max_distance")?,
            sketch_size,
            min_similarity: parsed(texts, "min_similarity")?,
            created: parsed(texts, "created")?,
        }))
    }

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
        let ours = self.scheme;
        let theirs = first.scheme;
        if ours != theirs {
            return Err(format!(
                "its fingerprints are of scheme {ours}, and those of {path} of {theirs}; fingerprints of different schemes \
                 cannot be compared: import one of them into another database"
            ));
        }
        let ours = self.sketch_size.bytes();
        let theirs = first.sketch_size.bytes();
        if ours != theirs {
            return Err(format!(
                "its sketches have {ours} bytes, and those of {path} have {theirs}: import one of them into another \
                 database"
            ));
        }
        Ok(())
    }
}

fn text_of<'t>(texts: &'t [KeyValue], name: &str) -> Option<&'t str> {
    let text = texts
        .iter()
        .find(|text| text.key.strip_prefix("simdb.") == Some(name));
    text?.value.as_deref()
}

fn parsed<T: FromStr>(texts: &[KeyValue], name: &str) -> Result<T, String> {
    let Some(text) = text_of(texts, name) else {
        return Err(format!(
            "its metadata has simdb.version, but no simdb.{name}"
        ));
    };
    text.parse()
        .map_err(|_| format!("its metadata has a simdb.{name} that cannot be: {text:?}"))
}
