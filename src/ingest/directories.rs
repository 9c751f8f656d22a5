//! Directories among the inputs: the files in them, and in the directories in them.

use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use walkdir::{DirEntry, WalkDir};

use super::opening::is_stdin;
use super::options::ReadOptions;
use crate::error::{Error, Result};

/// As shells match: `*` does not match `/`, and `**` does.
const AS_SHELLS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The inputs, with the files of a directory in its place, in the order of their names.
pub(super) fn with_files_of_directories(paths: Vec<PathBuf>, options: &ReadOptions) -> Result<Vec<PathBuf>> {
    let patterns = patterns(&options.globs)?;
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let place = options.place_of(&path);
        if is_stdin(&path) || !place.is_dir() {
            files.push(path);
            continue;
        }
        let before = files.len();
        for entry in WalkDir::new(&place)
            .min_depth(1)
            .follow_links(true)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(is_visible)
        {
            let entry = entry.map_err(|error| error_at(&path, format!("cannot be read: {error}")))?;
            let below = entry.path().strip_prefix(&place).unwrap_or(entry.path());
            if entry.file_type().is_file() && is_wanted(below, &patterns) {
                files.push(path.join(below));
            }
        }
        if files.len() == before {
            let reason = if patterns.is_empty() {
                "has no file in it"
            } else {
                "has no file in it that the pattern names"
            };
            return Err(error_at(&path, reason.to_owned()));
        }
    }
    Ok(files)
}

fn error_at(path: &Path, reason: String) -> Error {
    Error::Input { source_name: path.display().to_string(), line: None, reason }
}

/// Each pattern, and whether it names paths. Otherwise it names files in any directory.
fn patterns(globs: &[String]) -> Result<Vec<(Pattern, bool)>> {
    let parse = |glob: &String| match Pattern::new(glob) {
        Ok(pattern) => Ok((pattern, glob.contains('/'))),
        Err(error) => Err(error_at(Path::new(glob), format!("is not a pattern for names of files: {error}"))),
    };
    globs.iter().map(parse).collect()
}

/// What Spark and Hadoop write beside their files: marks, summaries, logs, and what an unfinished job has left. Other
/// names may begin like these, such as `_posts`.
const NOT_DATA: [&[u8]; 6] =
    [b"_SUCCESS", b"_metadata", b"_common_metadata", b"_temporary", b"_spark_metadata", b"_delta_log"];
/// How the names of other marks begin.
const MARKS: [&[u8]; 2] = [b"_committed_", b"_started_"];

/// Nobody means what is hidden, nor the marks of a job, nor the database that stands beside its inputs.
fn is_visible(entry: &DirEntry) -> bool {
    let name = entry.file_name().as_encoded_bytes();
    let is_mark = NOT_DATA.contains(&name) || MARKS.iter().any(|it| name.starts_with(it));
    !name.starts_with(b".") && !is_mark && (entry.file_type().is_dir() || !name.ends_with(b".simdb"))
}

fn is_wanted(below: &Path, patterns: &[(Pattern, bool)]) -> bool {
    let (path, name) = (below.to_string_lossy(), below.file_name().unwrap_or_default().to_string_lossy());
    let fits = |(pattern, of_paths): &(Pattern, bool)| {
        pattern.matches_with(if *of_paths { &path } else { &name }, AS_SHELLS)
    };
    patterns.is_empty() || patterns.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(options: &ReadOptions) -> Result<Vec<String>> {
        let files = with_files_of_directories(vec!["pages".into(), "-".into()], options)?;
        Ok(files.iter().map(|it| it.to_string_lossy().replace('\\', "/")).collect())
    }

    #[test]
    fn the_files_of_a_directory_come_in_the_order_of_their_names()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let options = ReadOptions::new().directory(folder.path());
        let refused = |options: &ReadOptions, why: &str| {
            let error = names(options).expect_err("nothing fits").to_string();
            assert!(error.contains(why), "{error}");
        };
        fs::create_dir_all(folder.path().join("pages/a/.git"))?;
        refused(&options, "has no file in it");
        fs::create_dir_all(folder.path().join("pages/_temporary"))?;
        let marks =
            ["_SUCCESS", "a/_SUCCESS", "_metadata", "_committed_7", "_started_7", "_temporary/x.html"];
        for name in
            ["z.html", "b.txt", "a/x.html", "a/.git/x.html", ".hidden", "d.simdb"].iter().chain(&marks)
        {
            fs::write(folder.path().join("pages").join(name), "text")?;
        }
        assert_eq!(names(&options)?, ["pages/a/x.html", "pages/b.txt", "pages/z.html", "-"]);
        let with = |globs: &[&str]| globs.iter().fold(options.clone(), |options, glob| options.glob(*glob));
        assert_eq!(names(&with(&["*.html"]))?, ["pages/a/x.html", "pages/z.html", "-"]);
        assert_eq!(names(&with(&["a/*", "*.txt"]))?, ["pages/a/x.html", "pages/b.txt", "-"]);
        assert_eq!(names(&with(&["**/x.*"]))?, ["pages/a/x.html", "-"]);
        refused(&with(&["*.pdf"]), "that the pattern names");
        refused(&with(&["[a"]), "[a: is not a pattern");
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_contains_itself_is_an_error() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("pages"))?;
        std::os::unix::fs::symlink(folder.path().join("pages"), folder.path().join("pages/again"))?;
        let error = names(&ReadOptions::new().directory(folder.path())).expect_err("it has no end");
        assert!(error.to_string().contains("loop"), "{error}");
        Ok(())
    }
}
