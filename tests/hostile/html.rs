//! Pages: HTML, and HTML in the syntax of XML.

use crate::text::{Fingerprinter, Scheme, Syntax, visible_paragraphs, visible_text};

/// Any bytes as a page, by each syntax and by each scheme that reads pages in its own way.
pub(super) fn html(bytes: &[u8]) {
    let page = String::from_utf8_lossy(bytes);
    for syntax in [Syntax::Html, Syntax::Xhtml, Syntax::from_beginning(&page)] {
        let text = visible_text(&page, syntax);
        // A NUL may stand for three bytes, a reference of five bytes for six, and a block adds a line end.
        assert!(text.len() <= 3 * page.len() + 8);
        let paragraphs = visible_paragraphs(&page, syntax);
        assert!(
            words(&text).eq(words(&paragraphs)),
            "{text:?} and {paragraphs:?}"
        );
    }
    for scheme in [Scheme::Simhash2, Scheme::Content1] {
        let made = Fingerprinter::new(scheme).expect("it makes fingerprints");
        assert!(made.text_of_html(&page).len() <= 3 * page.len() + 8);
        assert!(made.text_of_xhtml(&page).len() <= 3 * page.len() + 8);
        let text = made.text_of_html(&page);
        assert_eq!(made.fingerprint_html(&page), made.fingerprint(&text));
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\n', '\t', '\r', '\x0c'])
        .filter(|word| !word.is_empty())
}
