//! What files hold, whatever their names: pages, texts in any encoding, lines, and what is neither.

use std::path::Path;

use crate::support::{Folder, TestResult, done, gzip, program, run, run_with_input};

const ARTICLE: &str = "Совет порта собрался во вторник вечером, чтобы решить, как восстановить старый рыбный рынок после \
    бури, и большинство членов высказалось за железную крышу, которая стоит здесь с прошлого века.";

fn encoded(label: &str, text: &str) -> Vec<u8> {
    let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).expect("the label is known");
    encoding.encode(text).0.into_owned()
}

fn utf_16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn page(head: &str) -> String {
    format!("<!DOCTYPE html><html><head>{head}</head><body><p>{ARTICLE}</p></body></html>")
}

/// All of them hold one article: in old encodings that the page says or nobody says, in UTF-16, and as plain text.
#[test]
fn pages_and_texts_of_a_folder_are_read_in_the_encoding_that_they_are_in() -> TestResult {
    let folder = Folder::new()?;
    std::fs::create_dir(folder.path("site"))?;
    folder.file("site/0.txt", ARTICLE)?;
    for label in [
        "windows-1251",
        "koi8-r",
        "iso-8859-5",
        "x-mac-cyrillic",
        "utf-8",
    ] {
        let said = page(&format!(
            "<!-- <meta charset=gbk> --><meta charset={label}>"
        ));
        folder.file(&format!("site/said-{label}.html"), encoded(label, &said))?;
        folder.file(
            &format!("site/index.php?said={label}"),
            encoded(label, &said),
        )?;
    }
    for label in ["windows-1251", "koi8-r"] {
        folder.file(
            &format!("site/unsaid-{label}.html"),
            encoded(label, &page("")),
        )?;
        folder.file(
            &format!("site/wrong-{label}.html"),
            encoded(label, &page("<meta charset=utf-8>")),
        )?;
        folder.file(&format!("site/plain-{label}.txt"), encoded(label, ARTICLE))?;
    }
    folder.file("site/wide.html", utf_16(&page("")))?;
    folder.file("site/marked.html", utf_16(&format!("\u{feff}{}", page(""))))?;
    folder.file("site/marked.txt", utf_16(&format!("\u{feff}{ARTICLE}")))?;
    folder.file(
        "site/mark.html",
        format!("\u{feff}{}", page("<meta charset=windows-1251>")),
    )?;
    done!(
        "ingest",
        folder.path("d.simdb"),
        folder.path("site"),
        "--json"
    )
    .counts(["documents", "rejected"], [21, 0]);
    let dump = done!("dump", folder.path("d.simdb"), "--json").json()?;
    let first = &dump
        .iter()
        .find(|it| it["fingerprint"].is_string())
        .ok_or("there are documents")?["fingerprint"];
    for document in dump.iter().filter(|it| it["fingerprint"].is_string()) {
        assert_eq!(&document["fingerprint"], first, "{document}");
    }
    Ok(())
}

#[test]
fn a_page_is_known_by_its_content_wherever_it_comes_from() -> TestResult {
    let folder = Folder::new()?;
    let html = page("<style>.a { color: red; margin: 0; padding: 1px } .b { color: blue }</style>");
    let named = folder.file("a.html", &html)?;
    let other = folder.file("page", &html)?;
    let plain = folder.file("a.txt", &html)?;
    let of = |path: &Path| -> TestResult<_> {
        Ok(done!("fingerprint", path, "--json").object()?["fingerprint"].clone())
    };
    assert_eq!(of(&named)?, of(&other)?);
    assert_ne!(
        of(&named)?,
        of(&plain)?,
        "a plain text by its name has tags as its author wrote them"
    );
    let piped = run_with_input(&mut program!("fingerprint - --json"), html.as_bytes())?.expect(0);
    assert_eq!(piped.object()?["fingerprint"], of(&named)?);
    done!("ingest", folder.path("d.simdb"), &named);
    let mut asked = program!("query", folder.path("d.simdb"), "--file -");
    run_with_input(&mut asked, &encoded("windows-1251", &html))?
        .expect(0)
        .begins("0\t1.00\t");
    Ok(())
}

#[test]
fn lines_are_documents_if_that_is_said_and_reading_goes_on_behind_the_last() -> TestResult {
    let folder = Folder::new()?;
    let line = |number: u32| {
        format!(
            "line {number} has words of its own: {}\n",
            "word".repeat(number as usize)
        )
    };
    let all: String = (1..=4).map(line).collect();
    let input = folder.file("lines", format!("\u{feff}{}\n{}", line(1), line(2)))?;
    let ingest = || -> TestResult<_> {
        done!(
            "ingest",
            folder.path("d.simdb"),
            &input,
            "--input-format lines --json"
        )
        .last()
    };
    ingest()?;
    let key = |number: u32| format!("{}:{number}", input.display());
    done!("get", folder.path("d.simdb"), key(1));
    run!("get", folder.path("d.simdb"), key(2)).expect(1);
    done!("get", folder.path("d.simdb"), key(3));
    folder.file(
        "lines",
        format!("\u{feff}{}\n{}{}", line(1), line(2), line(4)),
    )?;
    ingest()?;
    done!("get", folder.path("d.simdb"), key(4));
    let stats = done!("stats", folder.path("d.simdb"), "--json").object()?;
    assert_eq!(stats["documents"], 3);
    let piped = run_with_input(
        &mut program!("fingerprint - --input-format lines"),
        all.as_bytes(),
    )?;
    assert_eq!(piped.expect(0).out.lines().count(), 4);
    Ok(())
}

/// Two copies of lines of which some are equal: the equal lines are dropped, and the others come as they were.
#[test]
fn dedup_of_lines_keeps_lines() -> TestResult {
    let folder = Folder::new()?;
    let (one, two) = (
        format!("{ARTICLE}\n"),
        "Other words stand here, of which none is in the first line at all.\n",
    );
    let input = folder.file("lines", format!("{one}{two}{one}"))?;
    done!(
        "dedup",
        &input,
        "--input-format lines --output",
        folder.path("kept")
    );
    assert_eq!(
        std::fs::read_to_string(folder.path("kept"))?,
        format!("{one}{two}")
    );
    Ok(())
}

/// The head was text, with its date.
#[test]
fn a_page_that_was_saved_with_the_head_of_its_answer_is_read_as_the_page() -> TestResult {
    let folder = Folder::new()?;
    let page = page("");
    let chunks = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
    let packed = gzip(page.as_bytes())?;
    let html = "Content-Type: text/html; charset=utf-8\r\nDate: Tue, 01 Dec 2026 00:00:00 GMT";
    let in_chunks = "Transfer-Encoding: chunked\r\nContent-Type: text/html";
    let expected = fingerprint_of(&folder.file("plain.html", &page)?)?;
    for (name, head, body) in [
        ("saved", html, page.as_bytes()),
        ("saved.html", html, page.as_bytes()),
        ("index.php?id=3", in_chunks, chunks.as_bytes()),
        (
            "packed",
            "Content-Encoding: gzip\r\nContent-Type: text/html",
            &packed,
        ),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
        let answer = folder.file(name, [head.as_bytes(), body].concat())?;
        assert_eq!(fingerprint_of(&answer)?, expected, "{name}");
    }
    // A text that tells of such an answer.
    let text = format!("HTTP/1.1 200 OK\n\nis what a server says. {ARTICLE}");
    assert_ne!(fingerprint_of(&folder.file("text", text)?)?, expected);
    let mail = format!("From: a@b\nMIME-Version: 1.0\nContent-Type: text/html\n\n{page}");
    run!("fingerprint", folder.file("mail.eml", mail)?).refused("is a message of mail");
    Ok(())
}

fn fingerprint_of(path: &Path) -> TestResult<String> {
    let out = done!("fingerprint", path).out;
    Ok(out.split('\t').next().unwrap_or_default().to_owned())
}
