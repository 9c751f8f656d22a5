//! The layout of the source, as docs/design.md draws it: imports go one way, and only one floor names
//! the engine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::TestResult;

/// The modules of the library, each of which imports only from those before it.
const MODULES: [&str; 28] = [
    "guide",
    "plural",
    "planted",
    "sync",
    "error",
    "fingerprint",
    "process",
    "files",
    "metrics",
    "parallel",
    "events",
    "memory",
    "unix_seconds",
    "sketch",
    "document",
    "source",
    "text",
    "plan",
    "sql_join",
    "store",
    "database",
    "parquet",
    "ingest",
    "dedup",
    "eval",
    "serve",
    "cli",
    "serving",
];

/// The floors of the store, and the files above them, each of which imports only from those before it.
const FLOORS: [&str; 21] = [
    "numbers",
    "names_in_use",
    "sizes",
    "known_sketches",
    "lookup",
    "engine",
    "blocks",
    "sorted_set",
    "file",
    "merging",
    "dense",
    "checking",
    "salvage",
    "write",
    "read",
    "postings",
    "crowds",
    "scope_names",
    "expiry",
    "store",
    "planting",
];

/// The files of Rust below a folder.
fn rust_files(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// The files below `src`, with their code but not their comments.
fn sources() -> std::io::Result<Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for path in rust_files(&root)? {
        let file = path.strip_prefix(&root).unwrap_or(&path);
        // The package for Python is a crate of its own.
        if file.starts_with("python") {
            continue;
        }
        let mut code = String::new();
        for line in fs::read_to_string(&path)?.lines() {
            code += line.split("//").next().unwrap_or("");
            code.push('\n');
        }
        sources.push((file.to_owned(), code));
    }
    Ok(sources)
}

/// The names that follow `path` in the code, such as `plan` in `crate::plan::Plan`.
fn names_after<'c>(code: &'c str, path: &str) -> impl Iterator<Item = &'c str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.split(path)
        .skip(1)
        .map(move |rest| rest.split(|c| !is_name(c)).next().unwrap_or(""))
}

/// Where the file or folder that a path begins with stands in a list.
fn rank(path: &Path, list: &[&str]) -> Option<usize> {
    let first = path.components().next()?.as_os_str().to_str()?;
    list.iter()
        .position(|it| *it == first.trim_end_matches(".rs"))
}

/// Every import from a module or floor that stands later in the list.
fn upward<'c>(
    file: &Path,
    code: &'c str,
    inside: &Path,
    path: &str,
    list: &[&str],
) -> Vec<&'c str> {
    let Some(own) = file.strip_prefix(inside).ok().and_then(|it| rank(it, list)) else {
        return Vec::new();
    };
    let is_later = |name: &&str| {
        list.iter()
            .position(|it| it == name)
            .is_some_and(|other| other > own)
    };
    names_after(code, path).filter(is_later).collect()
}

/// What has no place in the lists would be passed over.
#[test]
fn every_file_has_a_place() -> TestResult {
    const APART: [&str; 4] = ["lib.rs", "main.rs", "build.rs", "mod.rs"];
    for (file, _) in sources()? {
        let (inside, list) = match file.strip_prefix("store") {
            Ok(inside) => (inside, &FLOORS[..]),
            Err(_) => (file.as_path(), &MODULES[..]),
        };
        let is_apart = APART.iter().any(|name| Path::new(name) == inside);
        let has_place = is_apart || rank(inside, list).is_some();
        assert!(has_place, "{} has no place in the lists", file.display());
    }
    Ok(())
}

#[test]
fn imports_go_downwards_only() -> TestResult {
    let mut seen = 0;
    for (file, code) in sources()? {
        let up = upward(&file, &code, Path::new(""), "crate::", &MODULES);
        assert!(up.is_empty(), "{} imports from {up:?}", file.display());
        let up = upward(&file, &code, Path::new("store"), "crate::store::", &FLOORS);
        assert!(up.is_empty(), "{} imports from {up:?}", file.display());
        // The files above the floors name each other as siblings.
        if file.parent() == Some(Path::new("store")) {
            let up = upward(&file, &code, Path::new("store"), "super::", &FLOORS);
            assert!(up.is_empty(), "{} imports from {up:?}", file.display());
        }
        seen += usize::from(file.starts_with("store"));
    }
    assert!(seen > 40, "only {seen} files of the store were found");
    Ok(())
}

#[test]
fn only_the_engine_floor_names_the_engine() -> TestResult {
    for (file, code) in sources()? {
        let names = code.contains("redb::") || code.contains("use redb");
        assert!(
            !names || file.starts_with("store/engine"),
            "{} names redb",
            file.display()
        );
    }
    Ok(())
}

#[test]
fn a_mod_file_lists_and_defines_nothing() -> TestResult {
    const DEFINITIONS: [&str; 9] = [
        "fn ", "struct ", "enum ", "trait ", "impl ", "impl<", "const ", "static ", "type ",
    ];
    for (file, code) in sources()?.iter().filter(|it| it.0.ends_with("mod.rs")) {
        for line in code.lines() {
            let item = line
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ");
            let defines = DEFINITIONS.iter().any(|it| item.starts_with(it));
            assert!(!defines, "{} defines something: {line}", file.display());
        }
    }
    Ok(())
}

/// A page may leave out the folders above a file, and names that have a star.
#[test]
fn every_file_that_a_page_names_is_there() -> TestResult {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches", "docs"] {
        for file in rust_files(&project.join(folder))? {
            files.push(format!("/{}", file.strip_prefix(project)?.display()));
        }
    }
    // The package of crates.io has no crate for Python.
    let has_python = project.join("src/python").exists();
    let mut missing = Vec::new();
    let mut named = 0;
    for page in [
        "design",
        "security",
        "contributing",
        "reliability",
        "schemes",
    ] {
        let text = fs::read_to_string(project.join(format!("docs/{page}.md")))?;
        for name in text.split('`').skip(1).step_by(2) {
            let is_of_python = name.contains("python/") && !has_python;
            if !name.ends_with(".rs") || name.contains(['*', ' ', '(']) || is_of_python {
                continue;
            }
            named += 1;
            if !files.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                missing.push(format!("docs/{page}.md: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "no such file: {missing:?}");
    assert!(named > 50, "{named} names were found");
    Ok(())
}

#[test]
fn a_wrong_import_would_be_found() {
    let found = |file: &str, code: &'static str| {
        let file = Path::new(file);
        let modules = upward(file, code, Path::new(""), "crate::", &MODULES);
        modules.len() + upward(file, code, Path::new("store"), "crate::store::", &FLOORS).len()
    };
    assert_eq!(found("plan/cost.rs", "use crate::store::Read;"), 1);
    assert_eq!(
        found(
            "store/blocks/cache.rs",
            "use crate::store::file::{View, State};"
        ),
        1
    );
    assert_eq!(
        found(
            "store/blocks/cache.rs",
            "use crate::store::lookup::prefetch;"
        ),
        0
    );
    assert_eq!(
        found("error.rs", "fn f() -> crate::text::Scheme { todo() }"),
        1
    );
}
