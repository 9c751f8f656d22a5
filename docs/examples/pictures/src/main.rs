//! Near-duplicate pictures: hashes the pictures of folders, stores the hashes, and tells which pictures are alike.
//!
//! ```sh
//! cargo run --release -- add pictures.simdb FOLDER...
//! cargo run --release -- groups pictures.simdb --html groups.html
//! cargo run --release -- near pictures.simdb PICTURE
//! cargo run --release -- distances PICTURE-OR-FOLDER...
//! ```
//!
//! `docs/pictures.md` tells which hash and which distance to choose, and what they miss.

mod adding;
mod cores;
mod distances;
mod files;
mod groups;
mod hashing;
mod near;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use simdb::{CreateOptions, Database, Scheme};

type Failure = Box<dyn Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

/// Nine of ten copies that were resized, packed anew or made grey are within it. Of other pictures, the more are within
/// a distance the larger it is: `docs/pictures.md` has the figures.
const MAX_DISTANCE: u32 = 4;

#[derive(Parser)]
#[command(about = "Finds pictures that are nearly the same")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Hash the pictures in folders, and store the hashes; what is stored and has not changed is not read again
    Add {
        database: PathBuf,
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// Print the stored pictures that are like a picture, which need not be stored
    Near {
        database: PathBuf,
        picture: PathBuf,
        /// The largest distance that counts as near
        #[arg(long, default_value_t = MAX_DISTANCE, value_parser = clap::value_parser!(u32).range(..=64))]
        max_distance: u32,
    },
    /// Print the groups of pictures that are alike, the one with the most pixels first
    Groups {
        database: PathBuf,
        /// The largest distance that counts as near
        #[arg(long, default_value_t = MAX_DISTANCE, value_parser = clap::value_parser!(u32).range(..=64))]
        max_distance: u32,
        /// Also write a page with the pictures, which a browser shows
        #[arg(long)]
        html: Option<PathBuf>,
    },
    /// Change pictures in many ways, and print how far the changed ones are by each kind of hash
    Distances {
        #[arg(required = true)]
        pictures: Vec<PathBuf>,
    },
}

/// Whether there was what was asked for.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Add { database, folders } => {
            let options = CreateOptions::new()
                .scheme(Scheme::External)
                .max_distance(MAX_DISTANCE);
            let database = Database::open_or_create(database, &options)?;
            adding::add(&database, &folders)
        }
        Command::Near {
            database,
            picture,
            max_distance,
        } => near::near(&files::opened(&database)?, &picture, max_distance),
        Command::Groups {
            database,
            max_distance,
            html,
        } => groups::groups(&files::opened(&database)?, max_distance, html.as_deref()),
        Command::Distances { pictures } => distances::distances(&pictures),
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("pictures: {error}");
            ExitCode::from(2)
        }
    }
}
