//! The visible text of an HTML page. Hides the tokenizer.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

/// The text of `html` that a reader of the page sees, blocks separated by line breaks.
///
/// Left out are comments, markup and the content of the elements in [`HIDDEN`]. Broken markup is read as a
/// browser's tokenizer reads it; nothing is an error.
///
/// # Cost
///
/// One pass; memory of the order of the page.
pub(super) fn visible_text(html: &str) -> String {
    let mut page = Page { text: Vec::with_capacity(html.len() / 4), hidden: Vec::new() };
    let mut emitter =
        CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<std::convert::Infallible> {
            page.take(&event);
            None
        });
    emitter.naively_switch_states(true);
    // The callback yields no tokens, so running to the end is one call.
    Tokenizer::new_with_emitter(html, emitter).for_each(|token| match token {
        Ok(never) | Err(never) => match never {},
    });
    // The tokenizer passes bytes on as they are, and they were UTF-8.
    String::from_utf8(page.text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Elements whose content is not shown, or not text. `head` holds nothing visible; a `title` is shown by the
/// window, not by the page, and site names in it drown what differs.
const HIDDEN: [&[u8]; 12] = [
    b"head",
    b"iframe",
    b"math",
    b"noembed",
    b"noframes",
    b"noscript",
    b"object",
    b"script",
    b"style",
    b"svg",
    b"template",
    b"title",
];

/// Elements that do not end a word: everything else separates.
const INLINE: [&[u8]; 27] = [
    b"a", b"abbr", b"acronym", b"b", b"bdi", b"bdo", b"big", b"cite", b"code", b"data", b"del", b"dfn",
    b"em", b"font", b"i", b"ins", b"kbd", b"mark", b"q", b"s", b"small", b"span", b"strong", b"sub", b"sup",
    b"u", b"wbr",
];

struct Page {
    text: Vec<u8>,
    /// The hidden elements that are open, outermost first.
    hidden: Vec<Vec<u8>>,
}

impl Page {
    fn take(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.open(name),
            CallbackEvent::EndTag { name } => self.close(name),
            CallbackEvent::String { value } if self.hidden.is_empty() => self.text.extend_from_slice(value),
            // `<script/>` opens a script all the same in HTML, but `<svg/>` and, in XHTML, `<object/>` are whole.
            CallbackEvent::CloseStartTag { self_closing: true } => {
                self.hidden.pop_if(|name| matches!(name.as_slice(), b"svg" | b"math" | b"object"));
            }
            _ => {}
        }
    }

    fn open(&mut self, name: &[u8]) {
        // A page that never closes its head still has a body.
        if name == b"body" {
            self.hidden.clear();
        }
        self.separate(name);
        if HIDDEN.contains(&name) {
            self.hidden.push(name.to_vec());
        }
    }

    fn close(&mut self, name: &[u8]) {
        // An end tag closes what was opened inside its element too; one without a start tag closes nothing.
        if let Some(depth) = self.hidden.iter().rposition(|open| open == name) {
            self.hidden.truncate(depth);
        }
        self.separate(name);
    }

    fn separate(&mut self, name: &[u8]) {
        if self.hidden.is_empty()
            && !INLINE.contains(&name)
            && self.text.last().is_some_and(|&last| last != b'\n')
        {
            self.text.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(html: &str) -> String {
        visible_text(html).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_not_shown_is_left_out() {
        let page = "<!DOCTYPE html><html><head><title>Title</title><style>p { color: red }</style></head>\
                    <body><!-- comment --><script>if (a < b) { \"<p>no</p>\" }</script><p>Seen</p>\
                    <noscript>enable</noscript><svg><text>drawn</text></svg><svg/> too</body></html>";
        assert_eq!(words(page), "Seen too");
    }

    #[test]
    fn blocks_separate_words_and_inline_elements_do_not() {
        assert_eq!(words("<p>one</p><p>t<b>w</b>o</p>three<br>four<td>five"), "one two three four five");
    }

    #[test]
    fn character_references_are_decoded() {
        assert_eq!(words("a&amp;b &eacute;&#x4e2d; &nosuch; x&lt;y"), "a&b é中 &nosuch; x<y");
    }

    #[test]
    fn broken_markup_is_text_as_far_as_it_goes() {
        assert_eq!(words("<p>open <b>bold <i>and"), "open bold and");
        assert_eq!(words("</div></p>closed"), "closed");
        assert_eq!(words("<head><title>t</title><body>body without end of head"), "body without end of head");
        assert_eq!(words("a < b and <"), "a < b and <");
        assert_eq!(words("<p>cut in a ta<g attr=\"x"), "cut in a ta");
        assert_eq!(words(""), "");
    }
}
