//! Directories among the inputs: the files in them, and in the directories in them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use walkdir::{DirEntry, WalkDir};

use super::opening::is_stdin;
use super::options::ReadOptions;
use crate::error::{Error, Result, path_name};
use crate::files::{are_same_file, leads_in_a_circle};

/// As shells match: `*` does not match `/`, and `**` does.
const AS_SHELLS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// An input, and why it cannot be read if that is known already.
type Listed = (PathBuf, Option<String>);

/// The inputs, with the files of a directory in its place, in the order of their names. What cannot be looked at is
/// among them: links that lead nowhere or in a circle, directories that cannot be listed or have nothing in them.
pub(super) fn with_files_of_directories(
    paths: Vec<PathBuf>,
    options: &ReadOptions,
) -> Result<Vec<Listed>> {
    let patterns = patterns(&options.globs)?;
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        let place = options.place_of(&path);
        if is_stdin(&path) || !place.is_dir() {
            found.push((path, None));
            continue;
        }
        let before = found.len();
        let entries = WalkDir::new(&place)
            .min_depth(1)
            .follow_links(true)
            .sort_by_file_name();
        for entry in entries.into_iter().filter_entry(is_visible) {
            if !is_left_out(&entry, options) {
                found.extend(found_at(&entry, &path, &place, &patterns));
            }
        }
        if found.len() == before {
            let reason = if patterns.is_empty() {
                "has no file in it"
            } else {
                "has no file in it that the pattern names"
            };
            found.push((path, Some(reason.to_owned())));
        }
    }
    Ok(found)
}

/// Whether an entry is the file that is not read.
fn is_left_out(entry: &walkdir::Result<DirEntry>, options: &ReadOptions) -> bool {
    match (entry, &options.left_out) {
        (Ok(entry), Some(left_out)) => {
            left_out.file_name() == Some(entry.file_name()) && are_same_file(left_out, entry.path())
        }
        _ => false,
    }
}

/// What an entry of the directory `path`, which is at `place`, is as an input. Nothing if nobody wants it.
fn found_at(
    entry: &walkdir::Result<DirEntry>,
    path: &Path,
    place: &Path,
    patterns: &[(Pattern, bool)],
) -> Option<Listed> {
    let at = match entry {
        Ok(entry) => entry.path(),
        Err(error) => error.path().unwrap_or(place),
    };
    let below = at.strip_prefix(place).unwrap_or(at);
    match entry {
        Ok(entry) if entry.file_type().is_file() && is_wanted(below, patterns) => {
            Some((path.join(below), None))
        }
        Ok(_) => None,
        Err(error) => {
            let reason = reason_of(error, at);
            // Of a link that leads nowhere its name tells whether it is wanted. What is in a directory is not known.
            let is_link = at.is_symlink() && !at.is_dir();
            if !is_visible_name(below.file_name().unwrap_or_default(), false)
                || is_link && !is_wanted(below, patterns)
            {
                return None;
            }
            let is_directory_itself = below.as_os_str().is_empty();
            let path = if is_directory_itself {
                path.to_owned()
            } else {
                path.join(below)
            };
            Some((path, Some(reason)))
        }
    }
}

/// Why an entry of a directory cannot be looked at.
fn reason_of(error: &walkdir::Error, at: &Path) -> String {
    match (error.loop_ancestor(), error.io_error()) {
        (Some(above), _) => leads_in_a_circle(above),
        (None, Some(source)) if source.kind() == io::ErrorKind::NotFound => match fs::read_link(at)
        {
            Ok(to) => format!("is a link to {}, where nothing is", path_name(&to)),
            Err(_) => "no such file".to_owned(),
        },
        (None, Some(source)) => format!("cannot be read: {source}"),
        (None, None) => format!("cannot be read: {error}"),
    }
}

/// Each pattern, and whether it names paths. Otherwise it names files in any directory.
fn patterns(globs: &[String]) -> Result<Vec<(Pattern, bool)>> {
    let mut patterns = Vec::with_capacity(globs.len());
    for glob in globs {
        match Pattern::new(glob) {
            Ok(pattern) => patterns.push((pattern, glob.contains('/'))),
            Err(error) => {
                let reason = format!("is not a pattern for names of files: {error}");
                return Err(Error::input(Path::new(glob), &reason));
            }
        }
    }
    Ok(patterns)
}

/// What Spark and Hadoop write beside their files: marks, summaries, logs, and what an unfinished job has left. Other
/// names may begin like these, such as `_posts`.
const NOT_DATA: [&[u8]; 6] = [
    b"_SUCCESS",
    b"_metadata",
    b"_common_metadata",
    b"_temporary",
    b"_spark_metadata",
    b"_delta_log",
];
/// How the names of other marks begin.
const MARKS: [&[u8]; 2] = [b"_committed_", b"_started_"];

/// The endings of the names of databases, and of indexes of web archives, which stand beside their inputs.
const NO_INPUTS: [&[u8]; 5] = [b".simdb", b".cdx", b".cdxj", b".cdx.gz", b".cdxj.gz"];

/// Nobody means what is hidden, nor the marks of a job, nor what stands beside the inputs.
fn is_visible(entry: &DirEntry) -> bool {
    is_visible_name(entry.file_name(), entry.file_type().is_dir())
}

fn is_visible_name(name: &OsStr, is_directory: bool) -> bool {
    let name = name.as_encoded_bytes();
    let is_mark = NOT_DATA.contains(&name) || MARKS.iter().any(|mark| name.starts_with(mark));
    let is_no_input = NO_INPUTS.iter().any(|ending| name.ends_with(ending));
    !name.starts_with(b".") && !is_mark && (is_directory || !is_no_input)
}

fn is_wanted(below: &Path, patterns: &[(Pattern, bool)]) -> bool {
    let path = below.to_string_lossy();
    let name = below.file_name().unwrap_or_default().to_string_lossy();
    for (pattern, names_paths) in patterns {
        let matched = if *names_paths { &path } else { &name };
        if pattern.matches_with(matched, AS_SHELLS) {
            return true;
        }
    }
    patterns.is_empty()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(options: &ReadOptions) -> Result<Vec<String>> {
        let files = with_files_of_directories(vec!["pages".into(), "-".into()], options)?;
        let name = |(path, problem): &Listed| {
            let name = path.to_string_lossy().replace('\\', "/");
            problem
                .as_ref()
                .map_or(name.clone(), |problem| format!("{name}: {problem}"))
        };
        Ok(files.iter().map(name).collect())
    }

    #[test]
    fn the_files_of_a_directory_come_in_the_order_of_their_names()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let options = ReadOptions::new().directory(folder.path());
        let refused = |options: &ReadOptions, why: &str| {
            let told =
                names(options).map_or_else(|error| error.to_string(), |names| names.concat());
            assert!(told.contains(why), "{told}");
        };
        fs::create_dir_all(folder.path().join("pages/a/.git"))?;
        refused(&options, "has no file in it");
        fs::create_dir_all(folder.path().join("pages/_temporary"))?;
        let marks = [
            "_SUCCESS",
            "a/_SUCCESS",
            "_metadata",
            "_committed_7",
            "_started_7",
            "_temporary/x.html",
        ];
        for name in [
            "z.html",
            "b.txt",
            "a/x.html",
            "a/.git/x.html",
            ".hidden",
            "d.simdb",
        ]
        .iter()
        .chain(&marks)
        {
            fs::write(folder.path().join("pages").join(name), "text")?;
        }
        assert_eq!(
            names(&options)?,
            ["pages/a/x.html", "pages/b.txt", "pages/z.html", "-"]
        );
        let with = |globs: &[&str]| {
            globs
                .iter()
                .fold(options.clone(), |options, glob| options.glob(*glob))
        };
        assert_eq!(
            names(&with(&["*.html"]))?,
            ["pages/a/x.html", "pages/z.html", "-"]
        );
        assert_eq!(
            names(&with(&["a/*", "*.txt"]))?,
            ["pages/a/x.html", "pages/b.txt", "-"]
        );
        assert_eq!(names(&with(&["**/x.*"]))?, ["pages/a/x.html", "-"]);
        refused(&with(&["*.pdf"]), "that the pattern names");
        refused(&with(&["[a"]), "[a: is not a pattern");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_or_to_nowhere_are_told_and_the_others_are_found()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let pages = folder.path().join("pages");
        fs::create_dir(&pages)?;
        fs::write(pages.join("z.txt"), "text")?;
        std::os::unix::fs::symlink(&pages, pages.join("again"))?;
        for name in ["gone.txt", "gone.pdf", ".gone.txt", "gone.simdb"] {
            std::os::unix::fs::symlink("nowhere", pages.join(name))?;
        }
        let names = names(&ReadOptions::new().directory(folder.path()).glob("*.txt"))?;
        assert!(
            names[0].starts_with("pages/again: is a link to ") && names[0].contains("loop"),
            "{names:?}"
        );
        let others = [
            "pages/gone.txt: is a link to nowhere, where nothing is",
            "pages/z.txt",
            "-",
        ];
        assert_eq!(names[1..], others);
        Ok(())
    }
}
