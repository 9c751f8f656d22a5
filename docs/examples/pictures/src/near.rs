//! `near`: the stored pictures that are like one.

use std::path::Path;

use simdb::{Database, Near, Query};

use crate::hashing::{self, STORED};
use crate::{Result, files};

/// Prints the stored pictures within a distance of one, the nearest first. False if there are none.
pub(crate) fn near(database: &Database, picture: &Path, max_distance: u32) -> Result<bool> {
    let read = hashing::read(picture).map_err(|error| format!("{}: {error}", picture.display()))?;
    let Some(hash) = hashing::hash(&STORED.hasher(), &read) else {
        return Err(format!("{}: too plain to judge", picture.display()).into());
    };
    let query = Query::new(hash)
        .near(Near::within(max_distance))
        .limit(1_000);
    let matches = database.snapshot()?.query(&query)?;
    for near in matches.iter() {
        let size = files::size(&near.document);
        println!("{}\t{size}\t{}", near.distance, files::name(&near.document));
    }
    if matches.total() > 1_000 {
        eprintln!(
            "pictures: {} are near; these are the nearest",
            matches.total()
        );
    }
    Ok(matches.total() > 0)
}
