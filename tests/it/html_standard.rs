//! Pages of the tests of the HTML standard, and the text that browsers show of them.
//!
//! The tests are those of <https://github.com/html5lib/html5lib-tests>. Its last commits have no tree tests, so the
//! folder is the commit before "Tree construction tests have moved to WPT". `SIMDB_HTML5LIB_TESTS` names the folder. If
//! it is not set when the tests are built, they are ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;
use simdb::{Fingerprinter, Scheme};

/// Pages whose text has another order in a browser. What may not stand in a table is moved before the table, and we
/// leave it where it is.
const OTHER_ORDER: [&str; 5] = [
    "<table><a>1<td>2</td>3</table>",
    "<table>A<td>B</td>C</table>",
    "<a href=\"blah\">aba<table><tr><td><a href=\"foo\">br</td></tr>x</table>aoe",
    "<table><a href=\"blah\">aba<tr><td><a href=\"foo\">br</td></tr>x</table>aoe",
    "<table><b><tr><td>aaa</td></tr>bbb</table>ccc",
];

/// Pages with a `selectedcontent`, into which a browser copies the chosen option. The option itself is text already.
const WITH_COPIES: [&str; 4] = [
    "<select><button><selectedcontent></button><option>X",
    "<select><button><selectedcontent></button><option>x<i>i<b>ib</i>b",
    "<select><button><selectedcontent></button><option>X<option>Y",
    "<select><button><selectedcontent></button><option>X<option selected>Y",
];

/// The folder of the tests.
fn tests() -> PathBuf {
    let folder = env::var_os("SIMDB_HTML5LIB_TESTS").map(PathBuf::from);
    folder.expect("SIMDB_HTML5LIB_TESTS names the folder of html5lib-tests, as when this was built")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of the tests can be read");
    let paths = entries.map(|entry| entry.expect("an entry of the folder can be read").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no tests", folder.display());
    files
}

/// The text that we read, without white space.
fn text_of(page: &str) -> String {
    let fingerprinter =
        Fingerprinter::new(Scheme::Minwise1).expect("a text scheme makes fingerprints");
    solid(&fingerprinter.text_of_html(page))
}

fn solid(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A node of an expected tree.
struct Node {
    /// `svg path`, `p`, or a text in quotes.
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Node>,
}

impl Node {
    /// Reads the lines of a tree. Each is a node, and the spaces before it tell how deep it is.
    fn tree(lines: &str) -> Self {
        let root = || Self {
            name: "root".to_owned(),
            attributes: BTreeMap::new(),
            children: Vec::new(),
        };
        let mut nodes: Vec<String> = Vec::new();
        for line in lines.lines() {
            match (line.strip_prefix("| "), nodes.last_mut()) {
                (Some(node), _) => nodes.push(node.to_owned()),
                (None, Some(text)) => {
                    text.push('\n');
                    text.push_str(line);
                }
                (None, None) => {}
            }
        }
        let mut open = vec![root()];
        for node in nodes {
            let depth = (node.len() - node.trim_start_matches(' ').len()) / 2;
            close(&mut open, depth + 1);
            let node = node.trim_start_matches(' ');
            match node
                .strip_prefix('<')
                .and_then(|node| node.strip_suffix('>'))
            {
                Some(name) => open.push(Self {
                    name: name.to_owned(),
                    ..root()
                }),
                None if node.starts_with('"') => {
                    let parent = open.last_mut().expect("the root stays open");
                    parent.children.push(Self {
                        name: node.trim_end_matches('\n').to_owned(),
                        ..root()
                    });
                }
                None => {
                    let parent = open.last_mut().expect("the root stays open");
                    if let Some((name, value)) = node.split_once("=\"") {
                        parent
                            .attributes
                            .insert(name.to_owned(), value.trim_end_matches('"').to_owned());
                    } else {
                        open.push(Self {
                            name: "content".to_owned(),
                            ..root()
                        });
                    }
                }
            }
        }
        close(&mut open, 1);
        open.pop().expect("the root stays open")
    }

    fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }

    fn has(&self, attribute: &str) -> bool {
        self.attributes.contains_key(attribute)
    }

    /// Whether neither the node nor what is in it is shown.
    fn is_hidden(&self, parent: &str) -> bool {
        let shadow = self
            .attributes
            .get("shadowrootmode")
            .is_some_and(|mode| mode == "open" || mode == "closed");
        self.is(&[
            "audio", "canvas", "datalist", "iframe", "meter", "noembed", "noframes", "noscript",
            "progress", "rp", "script", "style", "title", "video",
        ]) || self.is(&["template"]) && !shadow
            || self.is(&["object"]) && self.has("data")
            || self.is(&["dialog"]) && !self.has("open")
            || !self.name.contains(' ')
                && !self.is(&["html", "body"])
                && (self.has("hidden") || self.has("popover"))
            || self.is(&[
                "svg title",
                "svg desc",
                "svg metadata",
                "svg style",
                "svg script",
                "svg defs",
                "svg symbol",
                "svg clipPath",
                "svg mask",
                "svg pattern",
                "svg marker",
                "svg linearGradient",
                "svg radialGradient",
                "svg filter",
            ])
            || parent == "math semantics" && self.is(&["math annotation", "math annotation-xml"])
            || self.is(&["math mphantom"])
    }

    /// Whether text in the node is drawn, if text in its parent is.
    fn draws(&self, parent: bool) -> bool {
        match self.name.as_str() {
            "svg svg" => false,
            "svg text" | "svg foreignObject" => true,
            name => parent || !name.starts_with("svg ") && self.name != "content",
        }
    }

    fn text(&self, parent: &str, draws: bool, text: &mut String) {
        if let Some(own) = self.name.strip_prefix('"') {
            text.push_str(if draws {
                own.strip_suffix('"').unwrap_or(own)
            } else {
                ""
            });
        } else if !self.is_hidden(parent) {
            let draws = self.draws(draws);
            for child in &self.children {
                child.text(&self.name, draws, text);
            }
        }
    }
}

/// Closes the innermost nodes until only so many are open.
fn close(open: &mut Vec<Node>, count: usize) {
    while open.len() > count {
        let node = open.pop().expect("a node is open");
        open.last_mut()
            .expect("the root stays open")
            .children
            .push(node);
    }
}

/// A test of trees.
struct Case {
    page: String,
    text: String,
    is_fragment: bool,
    /// Whether the tree is that of a browser without scripts.
    is_without_scripts: bool,
}

fn cases(path: &Path) -> Vec<Case> {
    let tests = fs::read_to_string(path).expect("the tests are UTF-8");
    let tests = format!("\n{tests}");
    tests.split("\n#data\n").skip(1).map(case).collect()
}

fn case(test: &str) -> Case {
    let (page, rest) = test
        .split_once("#errors\n")
        .expect("a test has a list of errors");
    let (head, tree) = rest.split_once("#document\n").expect("a test has a tree");
    let mut text = String::new();
    Node::tree(tree.trim_end_matches('\n')).text("", true, &mut text);
    Case {
        page: page.strip_suffix('\n').unwrap_or(page).to_owned(),
        text: solid(&text),
        is_fragment: head.contains("#document-fragment"),
        is_without_scripts: head.contains("#script-off"),
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut sorted: Vec<char> = text.chars().collect();
    sorted.sort_unstable();
    sorted
}

/// What came of a test.
fn outcome(case: &Case) -> Result<&'static str, String> {
    if case.is_fragment {
        return Ok("a part of a page");
    }
    let (read, page) = (text_of(&case.page), case.page.as_str());
    if read == case.text {
        return Ok(if read.is_empty() {
            "equal, without text"
        } else {
            "equal, with text"
        });
    }
    if OTHER_ORDER.contains(&page) && sorted(&read) == sorted(&case.text) {
        return Ok("in another order");
    }
    if WITH_COPIES.contains(&page) {
        return Ok("with copies");
    }
    // Scripts run in the browsers of readers, and then a `noscript` has no markup.
    if case.is_without_scripts {
        return Ok("as without scripts");
    }
    Err(format!(
        "{page:?}: {read:?}, and browsers show {:?}",
        case.text
    ))
}

#[test]
#[cfg_attr(
    not(simdb_html5lib_tests),
    ignore = "SIMDB_HTML5LIB_TESTS does not name the folder of html5lib-tests"
)]
fn every_tree_that_has_text_gives_that_text() {
    let folder = tests();
    let (mut counts, mut failures) = (BTreeMap::new(), Vec::new());
    for path in files(&folder.join("tree-construction"), "dat") {
        for case in cases(&path) {
            match outcome(&case) {
                Ok(outcome) => *counts.entry(outcome).or_insert(0) += 1,
                Err(failure) => failures.push(format!("{}: {failure}", path.display())),
            }
        }
    }
    println!("{counts:?}");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(counts["equal, with text"] > 600, "{counts:?}");
}

#[test]
#[cfg_attr(
    not(simdb_html5lib_tests),
    ignore = "SIMDB_HTML5LIB_TESTS does not name the folder of html5lib-tests"
)]
fn references_and_text_are_cut_as_the_standard_says() {
    let folder = tests();
    let (mut equal, mut failures) = (0, Vec::new());
    for path in files(&folder.join("tokenizer"), "test") {
        let tests: Value = serde_json::from_slice(&fs::read(&path).expect("a test can be read"))
            .expect("a test is JSON");
        for test in tests["tests"].as_array().into_iter().flatten() {
            let is_of_data = test["initialStates"]
                .as_array()
                .is_none_or(|it| it.iter().any(|it| it == "Data state"));
            let tokens = test["output"].as_array().expect("a test has an output");
            let is_text = tokens
                .iter()
                .all(|token| !matches!(token[0].as_str(), Some("StartTag")));
            if !is_of_data || !is_text || test["doubleEscaped"] == true {
                continue;
            }
            let texts = tokens
                .iter()
                .filter(|token| token[0] == "Character")
                .filter_map(|token| token[1].as_str());
            let text = solid(&texts.collect::<String>()).replace('\0', "");
            let page = test["input"].as_str().expect("a test has an input");
            if text_of(page) == text {
                equal += 1;
            } else {
                failures.push(format!(
                    "{}: {page:?}: {:?} for {text:?}",
                    test["description"],
                    text_of(page)
                ));
            }
        }
    }
    println!("{equal} equal");
    assert!(equal > 6_000, "{equal} equal");
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
