//! What is kept: every file of the corpus is read by its target, as an ordinary test. Also what the corpus began with.

use std::fs;
use std::path::{Path, PathBuf};

use super::{TARGETS, seeds, target};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile")
}

/// Reads every file that is kept for a target, and what the corpus began with.
fn read_all(name: &str) {
    let read = target(name);
    let files = fs::read_dir(folder().join("corpus").join(name)).expect("the corpus is there");
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be read").path();
        let bytes = fs::read(&path).expect("a file can be read");
        // What fails is told with its name.
        let outcome = std::panic::catch_unwind(|| read(&bytes));
        assert!(
            outcome.is_ok(),
            "{} breaks a law, see above",
            path.display()
        );
        count += 1;
    }
    assert!(count >= 2, "the corpus of {name} has {count} files");
    for seed in seeds::seeds(name) {
        read(&seed);
    }
}

/// Makes the file that is changed by the target `file`, and what the corpus begins with. To be run when the format has
/// changed: `cargo test --lib hostile::corpus -- --ignored`.
#[test]
#[ignore = "it writes to the source"]
fn the_corpus_begins_anew() -> Result<(), Box<dyn std::error::Error>> {
    use std::io::Write as _;

    for (name, _) in TARGETS {
        let folder = folder().join("corpus").join(name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds::seeds(name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    let temporary = tempfile::tempdir()?;
    let bytes = super::file::made(&temporary.path().join("base.simdb"))?;
    let packed = fs::File::create(folder().join("base.simdb.gz"))?;
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::best());
    packed.write_all(&bytes)?;
    packed.finish()?;
    Ok(())
}

#[test]
fn a_file_of_which_bytes_are_others_gives_an_error_or_the_right_answer() {
    read_all("file");
}

#[test]
fn blocks_of_any_bytes_are_refused_or_read_as_they_are() {
    read_all("block");
}

#[test]
fn directories_of_any_bytes_are_refused_or_read_as_they_are() {
    read_all("directory");
}

#[test]
fn states_of_any_bytes_are_refused_or_leave_room_for_what_comes_next() {
    read_all("state");
}

#[test]
fn logs_of_any_bytes_are_refused_or_read_as_they_are() {
    read_all("log");
}

#[test]
fn settings_scopes_and_sources_of_any_bytes_are_refused_or_read_as_they_are() {
    read_all("record");
}

#[test]
fn dumps_of_any_bytes_are_refused_or_loaded_as_they_are() {
    read_all("dump");
}

#[test]
fn lines_of_json_of_any_bytes_are_documents_or_rejected() {
    read_all("jsonl");
}

#[test]
fn lines_with_tabs_of_any_bytes_are_documents_or_rejected() {
    read_all("tsv");
}

#[test]
fn web_archives_of_any_bytes_are_read_to_their_end() {
    read_all("warc");
}

#[test]
fn inputs_of_any_bytes_are_read_to_their_end() {
    read_all("input");
}

#[test]
fn responses_of_any_bytes_are_pages_or_rejected() {
    read_all("http");
}

#[test]
fn pages_of_any_bytes_have_a_text_that_is_no_longer() {
    read_all("html");
}

#[test]
fn texts_of_any_bytes_are_decoded_or_rejected() {
    read_all("encodings");
}

#[cfg(unix)]
#[test]
fn requests_of_any_bytes_are_answered() {
    read_all("socket");
}

#[test]
fn lines_of_any_bytes_get_their_fields_or_none() {
    read_all("annotate");
}

#[test]
fn lists_of_removed_records_of_any_bytes_are_refused_or_read_as_they_are() {
    read_all("removed");
}
