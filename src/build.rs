//! Tells the program which commit it is built from, for `simdb --version`, and the tests which data are at hand and
//! what the system lets them do. Writes the documents that the library includes, with links that hold there.
//!
//! Only a release build asks for the commit. Otherwise each commit would build the whole library once more.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The documents of docs/ that are modules of `simdb::guide`. `guide` is that module itself.
const PAGES: [&str; 12] = [
    "guide",
    "crawling",
    "corpora",
    "administration",
    "library",
    "commands",
    "format",
    "schemes",
    "reliability",
    "protocol",
    "scale",
    "pictures",
];

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    write_document("README.md");
    for page in PAGES {
        write_document(&format!("docs/{page}.md"));
    }
    tell_of_data("SIMDB_DATA", "simdb_data");
    tell_of_data("SIMDB_HTML5LIB_TESTS", "simdb_html5lib_tests");
    println!("cargo::rustc-check-cfg=cfg(simdb_namespaces, simdb_superuser)");
    let is_of_program = std::env::var_os("CARGO_FEATURE_CLI").is_some();
    let is_release = std::env::var("PROFILE").as_deref() == Ok("release");
    if is_of_program && !is_release {
        tell_of_system();
    }
    if !is_of_program || !is_release {
        return;
    }
    if let Some(commit) = commit_of_package().or_else(commit_of_checkout) {
        println!("cargo::rustc-env=SIMDB_COMMIT={commit}");
    }
}

/// Copies a document to where the library includes it. A link to another file holds in the project only, so in the copy
/// it leads to the module of that file.
fn write_document(path: &str) {
    println!("cargo::rerun-if-changed={path}");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let name = Path::new(path).file_name().expect("a document has a name");
    std::fs::write(folder.join(name), with_links_to_modules(&text))
        .unwrap_or_else(|error| panic!("the copy of {path}: {error}"));
}

fn with_links_to_modules(text: &str) -> String {
    let mut copy = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("](") {
        let (words, label) = before.rsplit_once('[').expect("a link has a beginning");
        let (target, after) = behind.split_once(')').expect("a link has an end");
        match words.strip_suffix('!') {
            // A picture. The package has none.
            Some(words) => copy += words,
            None => copy += &format!("{words}{}", link_to_module(label, target)),
        }
        rest = after;
    }
    copy + rest
}

/// A link as it is in the copy. What is no module is left as plain text.
fn link_to_module(label: &str, target: &str) -> String {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || file.contains("://") {
        return format!("[{label}]({target})");
    }
    let heading = &target[file.len()..];
    let stem = Path::new(file).file_stem().unwrap_or_default();
    match PAGES.into_iter().find(|&page| stem == page) {
        Some("guide") => format!("[{label}](crate::guide)"),
        Some(page) => format!("[{label}](crate::guide::{page}{heading})"),
        None => label.to_owned(),
    }
}

/// Sets `name` if a variable says where the data of some tests are. Tests without their data are ignored, and whether a
/// test is ignored is known when it is built.
fn tell_of_data(variable: &str, name: &str) {
    println!("cargo::rerun-if-env-changed={variable}");
    println!("cargo::rustc-check-cfg=cfg({name})");
    if std::env::var_os(variable).is_some() {
        println!("cargo::rustc-cfg={name}");
    }
}

/// Tells the tests whether anybody may mount a file system in a namespace of their own, and whether this is the
/// superuser.
fn tell_of_system() {
    let mount = [
        "--user",
        "--map-root-user",
        "--mount",
        "mount",
        "-t",
        "tmpfs",
        "none",
        "/proc",
    ];
    let mounted = Command::new("unshare").args(mount).output();
    if mounted.is_ok_and(|mounted| mounted.status.success()) {
        println!("cargo::rustc-cfg=simdb_namespaces");
    }
    let user = Command::new("id").arg("-u").output();
    if user.is_ok_and(|user| user.stdout == b"0\n") {
        println!("cargo::rustc-cfg=simdb_superuser");
    }
}

/// The commit that cargo has written down in a published package.
fn commit_of_package() -> Option<String> {
    let info = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, behind) = info.split_once("\"sha1\"")?;
    let (_, commit) = behind.split_once('"')?;
    short(commit)
}

/// The commit of the checkout, if it is one of this project and not one that holds a copy of it.
fn commit_of_checkout() -> Option<String> {
    let here = Path::new(".").canonicalize().ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != here {
        return None;
    }
    // The first names the branch, or the commit itself. The others hold the commit of the branch.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for file in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", file])?;
        // Cargo runs this again and again for a file that is not there.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    short(&git(&["rev-parse", "HEAD"])?)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}

fn short(commit: &str) -> Option<String> {
    let digits = commit.get(..7)?;
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hexadecimal.then(|| digits.to_owned())
}
