//! The visible text of an HTML page, whole or in pieces. Hides the tokenizer.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::emitters::{Emitter, ForwardingEmitter};
use html5gum::{Span, Tokenizer};

/// The text of `html` that a reader of the page sees. Line breaks separate its blocks.
///
/// It leaves out comments, markup and the content of the elements in [`HIDDEN`]. Broken markup is read as
/// the tokenizer of a browser reads it. Nothing is an error.
///
/// # Cost
///
/// One pass over the page. Memory of the order of the page.
pub(crate) fn visible_text(html: &str) -> String {
    let mut text = Vec::with_capacity(html.len() / 4);
    read(html, &[], |piece| match piece {
        Piece::Text(more) => text.extend_from_slice(more),
        Piece::Break if text.last().is_some_and(|&last| last != b'\n') => text.push(b'\n'),
        Piece::Break | Piece::Link(_) => {}
    });
    to_string(text)
}

/// The same text, in which a blank line separates the blocks, and there is no other line break. A line break of the
/// page is a space, as a browser shows it.
#[cfg(feature = "ingest")]
pub(crate) fn visible_paragraphs(html: &str) -> String {
    let mut text = Vec::with_capacity(html.len() / 4);
    read(html, &[], |piece| match piece {
        Piece::Text(more) => text.extend(more.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte })),
        Piece::Break if text.last().is_some_and(|&last| last != b'\n') => text.extend(b"\n\n"),
        Piece::Break | Piece::Link(_) => {}
    });
    to_string(text)
}

/// What a reader of a page meets, in order.
pub(super) enum Piece<'a> {
    /// Visible text.
    Text(&'a [u8]),
    /// The begin or the end of an element that ends a word. Several may follow each other.
    Break,
    /// A link begins or ends.
    Link(bool),
}

/// Reads a page, and hands out its pieces. Leaves out the content of the elements in [`HIDDEN`] and in
/// `also_hidden`.
///
/// # Cost
///
/// One pass over the page. Memory of the order of the elements of these kinds that are open at one time.
pub(super) fn read(html: &str, also_hidden: &[&[u8]], take: impl FnMut(Piece<'_>)) {
    let mut page = Page {
        take,
        also_hidden,
        hidden: Vec::new(),
        open: vec![0; HIDDEN.len() + also_hidden.len()],
        started: None,
        in_anchor_tag: false,
    };
    let mut emitter =
        CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<std::convert::Infallible> {
            page.take(&event);
            None
        });
    emitter.naively_switch_states(true);
    // The callback yields no tokens, so this one call runs to the end.
    Tokenizer::new_with_emitter(html, NeededOnly(emitter)).for_each(|token| match token {
        Ok(never) | Err(never) => match never {},
    });
}

/// Passes on what a [`Page`] needs: no errors, no comments, and no values of attributes. Without it, the tokenizer
/// looks at every character for errors.
struct NeededOnly<E>(E);

impl<E: Emitter> ForwardingEmitter for NeededOnly<E> {
    type Token = E::Token;

    fn inner(&mut self) -> &mut impl Emitter<Token = Self::Token> {
        &mut self.0
    }

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }

    #[inline]
    fn emit_error(&mut self, _: html5gum::Error) {}

    #[inline]
    fn push_comment(&mut self, _: &[u8]) {}

    #[inline]
    fn push_attribute_value(&mut self, _: &[u8]) {}
}

/// The text of pieces. The tokenizer passes bytes on unchanged, and they were UTF-8.
pub(super) fn to_string(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Elements whose content is not shown, or is not text. A `head` holds nothing visible. A `title` is shown
/// by the window and not by the page. The name of the site in it would hide the differences between short
/// pages.
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

/// The index of `head` in [`HIDDEN`].
const HEAD: usize = 0;

/// Elements that may stand in a head. Any other element ends the head, as in a browser: the tags of head and
/// body may be left out.
const IN_HEAD: [&[u8]; 13] = [
    b"base",
    b"basefont",
    b"bgsound",
    b"head",
    b"html",
    b"link",
    b"meta",
    b"noframes",
    b"noscript",
    b"script",
    b"style",
    b"template",
    b"title",
];

/// Elements that do not end a word. All others separate words.
const INLINE: [&[u8]; 27] = [
    b"a", b"abbr", b"acronym", b"b", b"bdi", b"bdo", b"big", b"cite", b"code", b"data", b"del", b"dfn",
    b"em", b"font", b"i", b"ins", b"kbd", b"mark", b"q", b"s", b"small", b"span", b"strong", b"sub", b"sup",
    b"u", b"wbr",
];

struct Page<'a, T> {
    /// Takes the pieces.
    take: T,
    also_hidden: &'a [&'a [u8]],
    /// The hidden elements that are open, outermost first, as indexes into [`HIDDEN`] and behind it into
    /// `also_hidden`.
    hidden: Vec<usize>,
    /// The number of open elements of each kind. An end tag without an open element then costs no search.
    /// Pages can be hostile.
    open: Vec<usize>,
    /// The hidden element whose start tag is being read.
    started: Option<usize>,
    /// Whether the start tag that is being read is that of an `a`.
    in_anchor_tag: bool,
}

impl<T: FnMut(Piece<'_>)> Page<'_, T> {
    fn take(&mut self, event: &CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => self.open(name),
            CallbackEvent::EndTag { name } => self.close(name),
            CallbackEvent::String { value } => {
                if !value.trim_ascii().is_empty() {
                    self.leave_head();
                }
                if self.hidden.is_empty() {
                    (self.take)(Piece::Text(value));
                }
            }
            // Without it, an `a` is the end of a link and no link.
            CallbackEvent::AttributeName { name: b"href" } if self.in_anchor_tag => {
                (self.take)(Piece::Link(true));
            }
            // In HTML, `<script/>` opens a script all the same. But `<svg/>` and, in XHTML, `<object/>`
            // are whole elements.
            CallbackEvent::CloseStartTag { self_closing: true } if self.is_whole() => _ = self.pop(),
            _ => {}
        }
    }

    fn open(&mut self, name: &[u8]) {
        // A page that never closes its head still has a body.
        if name == b"body" {
            self.hidden.clear();
            self.open.fill(0);
        } else if !IN_HEAD.contains(&name) {
            self.leave_head();
        }
        self.separate(name);
        self.end_link(name);
        self.in_anchor_tag = name == b"a";
        self.started = self.index_of(name);
        if let Some(index) = self.started {
            self.hidden.push(index);
            self.open[index] += 1;
        }
    }

    fn close(&mut self, name: &[u8]) {
        // An end tag also closes the elements that were opened inside its element. An end tag without a
        // start tag closes nothing.
        if let Some(index) = self.index_of(name).filter(|&index| self.open[index] > 0) {
            while self.pop() != Some(index) {}
        }
        self.in_anchor_tag = false;
        self.end_link(name);
        self.separate(name);
    }

    /// Ends a head that has no end tag, at the first thing that does not belong into a head.
    fn leave_head(&mut self) {
        if self.hidden == [HEAD] {
            self.pop();
        }
    }

    /// Whether the element whose start tag is being read may end with that tag.
    fn is_whole(&self) -> bool {
        let started = self.started.and_then(|index| HIDDEN.get(index).copied());
        matches!(started, Some(b"svg" | b"math" | b"object"))
    }

    fn pop(&mut self) -> Option<usize> {
        let last = self.hidden.pop()?;
        self.open[last] -= 1;
        Some(last)
    }

    fn separate(&mut self, name: &[u8]) {
        if self.hidden.is_empty() && !INLINE.contains(&name) {
            (self.take)(Piece::Break);
        }
    }

    fn end_link(&mut self, name: &[u8]) {
        if name == b"a" {
            (self.take)(Piece::Link(false));
        }
    }

    /// The index of an element in [`HIDDEN`], and behind it in `also_hidden`.
    fn index_of(&self, name: &[u8]) -> Option<usize> {
        HIDDEN.iter().chain(self.also_hidden).position(|hidden| *hidden == name)
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
                    <noscript>enable</noscript><svg><path/><text>drawn</text></svg><svg/> too</body></html>";
        assert_eq!(words(page), "Seen too");
    }

    #[test]
    fn blocks_separate_words_and_inline_elements_do_not() {
        assert_eq!(words("<p>one</p><p>t<b>w</b>o</p>three<br>four<td>five"), "one two three four five");
    }

    #[cfg(feature = "ingest")]
    #[test]
    fn paragraphs_are_blocks_whatever_the_lines_of_the_page_are() {
        let page = "<h1>A title</h1>\n<p>One\n\n<b>two</b>\r\nthree<p>four<ul><li>five<li>six</ul>";
        let paragraphs = visible_paragraphs(page);
        let paragraphs: Vec<&str> = paragraphs.split("\n\n").filter(|it| !it.trim().is_empty()).collect();
        assert_eq!(paragraphs, ["A title", "One  two three", "four", "five", "six"]);
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
        assert_eq!(words("<svg><object></svg>seen</object>too<title>a title</title>"), "seen too");
        assert_eq!(words("<head><svg><body>seen</svg>too"), "seen too");
    }

    #[test]
    fn a_head_without_end_ends_where_the_body_must_begin() {
        assert_eq!(words("<head><meta><title>t</title><script>no</script><p>seen"), "seen");
        assert_eq!(words("<head><title>t</title> \n bare text<style>no</style> seen"), "bare text seen");
        assert_eq!(words("<head><noscript><p>no</p></noscript><style>no</style></head>seen"), "seen");
    }

    /// Each end tag once searched all open elements. A page of 2 MB took seven seconds.
    #[test]
    fn hostile_nesting_takes_linear_time() {
        let page = format!("{}{}seen", "<svg></math>".repeat(300_000), "</svg>".repeat(300_000));
        let began = std::time::Instant::now();
        assert_eq!(words(&page), "seen");
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }
}
