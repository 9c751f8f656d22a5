//! A page as its visible text, as its main content, or as the pieces of which these are made.

use std::ops::Range;

use memchr::{memchr, memchr2, memchr2_iter};

use super::names::{Name, names};
use super::reader::read_page;
use super::showing::{Gap, Hiding, Showing};
use super::tokenizer::{begins_with, is_blank};
use crate::text::unicode::{HYPHENS, tokens};

names! { SUB = "sub", SUP = "sup" }

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// A tag that closes itself ends its element, and CDATA is text.
    Xhtml,
}

impl Syntax {
    /// The syntax of a page that is not known to be XHTML by its type: an XML declaration says that a page is.
    pub(crate) fn from_beginning(page: &str) -> Self {
        let page = page.trim_start_matches('\u{feff}').trim_ascii_start();
        let declaration = page
            .strip_prefix("<?xml")
            .and_then(|rest| rest.split_once('>'));
        match declaration {
            Some((inner, _))
                if inner.starts_with(|c: char| c.is_ascii_whitespace()) && inner.ends_with('?') =>
            {
                Self::Xhtml
            }
            _ => Self::Html,
        }
    }
}

/// The text of a page that a reader of the page sees. Line breaks separate its blocks.
///
/// It leaves out comments, markup, and what browsers do not show. Broken markup is read as browsers read it. Nothing is
/// an error.
///
/// # Cost
///
/// One pass over the page, and another one over a page that hides nearly all of itself. Memory of the order of the
/// page.
pub(crate) fn visible_text(page: &str, syntax: Syntax) -> String {
    text_of(page, syntax, |text, piece| match piece {
        Piece::Lines(more) => text.extend_from_slice(more),
        Piece::Text(more) => add_text(text, more),
        // An empty line, so that nothing behind is a part of a word with a hyphen.
        Piece::Break if ends_in_hyphen(text) => text.extend(b"\n\n"),
        Piece::Break if text.last().is_some_and(|&last| last != b'\n') => text.push(b'\n'),
        Piece::Break | Piece::Link(_) => {}
    })
}

/// Adds text whose line breaks are shown as spaces. Behind a hyphen they are spaces, so that they do not end a line at
/// which a word is parted.
fn add_text(text: &mut Vec<u8>, more: &[u8]) {
    let begin = text.len();
    text.extend_from_slice(more);
    for line_end in memchr2_iter(b'\n', b'\r', more) {
        let at = begin + line_end;
        if ends_in_hyphen(&text[..at]) {
            text[at] = b' ';
        }
    }
}

/// Whether a text ends in a hyphen, with a few spaces behind it.
fn ends_in_hyphen(text: &[u8]) -> bool {
    const MOST_SPACES: usize = 64;
    let end = &text[text.len().saturating_sub(MOST_SPACES)..];
    let spaces = end
        .iter()
        .rev()
        .take_while(|&&byte| byte == b' ' || byte == b'\t');
    let text = &text[..text.len() - spaces.count()];
    HYPHENS
        .iter()
        .any(|hyphen| text.ends_with(hyphen.as_bytes()))
}

/// The same text, in which a blank line separates the blocks. A line break of the page is a space, as a browser shows
/// it, but for those in `pre` and the like, which a browser shows as they are.
#[cfg(feature = "ingest")]
pub(crate) fn visible_paragraphs(page: &str, syntax: Syntax) -> String {
    text_of(page, syntax, |text, piece| match piece {
        Piece::Lines(more) => text.extend_from_slice(more),
        Piece::Text(more) => {
            text.extend(
                more.iter()
                    .map(|&byte| if byte == b'\n' { b' ' } else { byte }),
            );
        }
        Piece::Break if !text.is_empty() && !text.ends_with(b"\n\n") => text.extend(b"\n\n"),
        Piece::Break | Piece::Link(_) => {}
    })
}

/// The text that `take` makes of the pieces of a page.
fn text_of(page: &str, syntax: Syntax, take: impl Fn(&mut Vec<u8>, Piece<'_>)) -> String {
    let quarter = page.len() / 4;
    to_string(read(
        page,
        syntax,
        &[],
        || Vec::with_capacity(quarter),
        take,
    ))
}

/// What a reader of a page meets, in order.
pub(super) enum Piece<'a> {
    /// Visible text, whose line breaks are shown as spaces.
    Text(&'a [u8]),
    /// Visible text, whose line breaks are shown.
    Lines(&'a [u8]),
    /// The begin or the end of a block.
    Break,
    /// A link begins or ends.
    Link(bool),
}

/// Reads a page, and gives its pieces to `take`, with what `begin` returns. Leaves out the elements in `also_hidden`.
///
/// A page that hides nearly all of its text shows it by a script. It is read again, and then no attribute hides, or
/// what is there for browsers without scripts is shown.
///
/// # Cost
///
/// One or two passes over the page. The reader takes a bounded amount of memory.
fn read<S>(
    page: &str,
    syntax: Syntax,
    also_hidden: &[Name],
    begin: impl Fn() -> S,
    take: impl Fn(&mut S, Piece<'_>),
) -> S {
    let page = page.strip_prefix('\u{feff}').unwrap_or(page);
    let mut hiding = Hiding::ByAttributes;
    loop {
        let mut state = begin();
        let pieces = Pieces::new(|piece| take(&mut state, piece));
        let pieces = read_page(page, syntax, hiding, also_hidden, pieces);
        match pieces.again() {
            Some(again) if hiding == Hiding::ByAttributes => hiding = again,
            _ => return state,
        }
    }
}

/// How much text of a page is not blank.
#[derive(Clone, Copy, Default)]
struct Amount {
    /// What is shown, counted until it is enough.
    shown: usize,
    /// What attributes hide. Of what no attribute could show, nothing is counted.
    hidden: usize,
    /// What is there for browsers without scripts.
    without_scripts: usize,
}

/// Hands out the pieces of a page, and counts the text.
pub(super) struct Pieces<T> {
    take: T,
    amount: Amount,
    /// Whether the last piece was a break.
    is_broken: bool,
    last_digit: LastDigit,
    /// The letters of the element that floats and was opened last.
    letters_of_float: Option<usize>,
    /// The elements `sup` that are open.
    raised: usize,
    /// Whether a `sub` has just begun.
    begins_sub: bool,
}

/// The digit with which the text ends so far.
#[derive(Clone, Copy)]
enum LastDigit {
    None,
    OnLine,
    /// It stands above the line.
    Raised,
}

impl<T: FnMut(Piece<'_>)> Pieces<T> {
    fn new(take: T) -> Self {
        Self {
            take,
            amount: Amount::default(),
            is_broken: false,
            last_digit: LastDigit::None,
            letters_of_float: None,
            raised: 0,
            begins_sub: false,
        }
    }

    /// How the page is to be read again, if it hides nearly all of its text.
    fn again(&self) -> Option<Hiding> {
        let Amount {
            shown,
            hidden,
            without_scripts,
        } = self.amount;
        if hidden > 0 && shown < LEAST_SHOWN {
            return Some(Hiding::Off);
        }
        let is_for_scripts = shown < FEW_SHOWN && without_scripts >= FEW_SHOWN.max(4 * shown);
        is_for_scripts.then_some(Hiding::WithoutScripts)
    }

    pub(super) fn begin(&mut self, name: Name, own: &Showing) {
        if own.floats {
            self.gap(Gap::Block);
            self.letters_of_float = Some(0);
        }
        self.raised += usize::from(name == SUP);
        self.begins_sub |= name == SUB;
        self.gap(own.gap);
    }

    pub(super) fn end(&mut self, name: Name, own: &Showing) {
        self.raised -= usize::from(name == SUP);
        self.begins_sub &= name != SUB;
        if own.floats {
            let letters = self.letters_of_float.take();
            if letters.is_none_or(|letters| letters > MOST_OF_INITIAL) {
                self.gap(Gap::Block);
            }
        }
        self.gap(own.gap);
    }

    /// An element has gone whose content stays.
    pub(super) fn forget(&mut self, name: Name) {
        self.raised -= usize::from(name == SUP);
    }

    /// Text that is shown.
    pub(super) fn text(&mut self, text: &[u8], without_nul: bool, is_preformatted: bool) {
        if let Some(letters) = &mut self.letters_of_float {
            *letters += letters_of(text);
        }
        let begins_sub = std::mem::take(&mut self.begins_sub);
        let begins_in_digit = text.first().is_some_and(u8::is_ascii_digit);
        let is_raised = self.raised > 0;
        let is_apart = match self.last_digit {
            LastDigit::None => false,
            LastDigit::OnLine => begins_sub,
            LastDigit::Raised => begins_sub || !is_raised,
        };
        if is_apart && begins_in_digit {
            self.gap(Gap::Box);
        }
        if is_raised && text.iter().any(u8::is_ascii_digit) {
            let raised = with_raised_digits(text);
            self.lines(&raised, without_nul, is_preformatted);
            if text.last().is_some_and(u8::is_ascii_digit) {
                self.last_digit = LastDigit::Raised;
            }
        } else {
            self.lines(text, without_nul, is_preformatted);
        }
    }

    /// Text with the line ends that are shown.
    fn lines(&mut self, mut text: &[u8], without_nul: bool, is_preformatted: bool) {
        if self.amount.shown < FEW_SHOWN {
            self.amount.shown += printed_bytes(text);
        }
        self.is_broken = false;
        while let Some(at) = memchr2(b'\r', 0, text) {
            self.give(&text[..at], is_preformatted);
            match text[at] {
                b'\r' if text.get(at + 1) != Some(&b'\n') => {
                    self.give(b"\n", is_preformatted);
                }
                0 if !without_nul => self.give("\u{fffd}".as_bytes(), is_preformatted),
                _ => {}
            }
            text = &text[at + 1..];
        }
        self.give(text, is_preformatted);
    }

    fn give(&mut self, text: &[u8], is_preformatted: bool) {
        if let Some(last) = text.last() {
            self.last_digit = match last.is_ascii_digit() {
                true => LastDigit::OnLine,
                false => LastDigit::None,
            };
        }
        (self.take)(match is_preformatted {
            true => Piece::Lines(text),
            false => Piece::Text(text),
        });
    }

    /// Text that an attribute hides.
    pub(super) fn pass_over(&mut self, text: &[u8]) {
        if !is_blank(text) {
            self.amount.hidden += text.len();
        }
    }

    /// The content of a `noscript` that is not shown.
    pub(super) fn pass_over_noscript(&mut self, content: &[u8]) {
        self.amount.without_scripts += text_bytes(content);
    }

    /// What separates words.
    pub(super) fn gap(&mut self, gap: Gap) {
        match gap {
            Gap::None => {}
            Gap::Box => self.give(b" ", false),
            Gap::Block if self.is_broken => {}
            Gap::Block => {
                self.is_broken = true;
                self.last_digit = LastDigit::None;
                (self.take)(Piece::Break);
            }
        }
    }

    /// A link begins or ends.
    pub(super) fn link(&mut self, begins: bool) {
        (self.take)(Piece::Link(begins));
    }
}

/// The least text of a page that is taken for what a page shows, in bytes.
const LEAST_SHOWN: usize = 64;
/// The bytes that may be all that a page shows before its script has run, such as a menu or a notice on cookies.
const FEW_SHOWN: usize = 256;

/// What floats at the beginning of a word: its first letter, perhaps with a quotation mark.
const MOST_OF_INITIAL: usize = 2;

/// The characters of a text that are no white space. With a digit they are too many: a number begins no word.
fn letters_of(text: &[u8]) -> usize {
    if text.iter().any(u8::is_ascii_digit) {
        return MOST_OF_INITIAL + 1;
    }
    text.iter()
        .filter(|&&byte| byte & 0xC0 != 0x80 && !byte.is_ascii_whitespace())
        .count()
}

/// A text with the digits that stand above the line. So they are told from those of the number before.
fn with_raised_digits(text: &[u8]) -> Vec<u8> {
    const RAISED: [&str; 10] = ["⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];
    let mut raised = Vec::with_capacity(2 * text.len());
    for &byte in text {
        match byte {
            b'0'..=b'9' => raised.extend(RAISED[usize::from(byte - b'0')].as_bytes()),
            _ => raised.push(byte),
        }
    }
    raised
}

/// Whether a text asks to switch scripts on, in any language. Then it is no part of a page.
fn asks_for_scripts(text: &[u8]) -> bool {
    let mut letters = memchr2_iter(b'j', b'J', text);
    letters.any(|at| begins_with(&text[at..], b"javascript"))
}

/// The bytes of the text in some markup, nearly, without what asks for scripts.
fn text_bytes(markup: &[u8]) -> usize {
    let parts = markup.split(|&byte| byte == b'<');
    let texts = parts.map(|part| memchr(b'>', part).map_or(part, |end| &part[end + 1..]));
    texts
        .filter(|text| !asks_for_scripts(text))
        .map(printed_bytes)
        .sum()
}

/// The bytes of a text without white space at its ends. All white space between two words is one byte, also spaces that
/// do not break: how a page is indented says nothing.
fn printed_bytes(text: &[u8]) -> usize {
    let mut printed = 0;
    let mut has_space = false;
    let mut rest = text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if let Some(behind) = rest.strip_prefix(b"\xa0")
            && *byte == 0xc2
        {
            rest = behind;
            has_space = printed > 0;
        } else if byte.is_ascii_whitespace() {
            has_space = printed > 0;
        } else {
            printed += 1 + usize::from(has_space);
            has_space = false;
        }
    }
    printed
}

/// The text of pieces. They are parts of a page at places where characters end, and so UTF-8.
fn to_string(text: Vec<u8>) -> String {
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The main content of a page, or all its text outside of [`APART`] if no part of it stands out.
///
/// 1. The text is cut into blocks, at the elements that end a word.
/// 2. A block is content by its words, its links, and those of the blocks beside it: [`is_content`].
/// 3. Blocks of content make a run, if at most [`GAP`] other blocks are between two of them. The longest run is
///    the main content. So are the runs with at least half as many words.
/// 4. If that is less than [`LEAST_WORDS`] words, or less than a tenth of all words, the page has no main content.
///    Otherwise all the lists of a site would be its one notice of copyright.
///
/// # Cost
///
/// Two passes over the page. Memory of the order of the page. It builds no tree, so that deep nesting costs
/// nothing.
///
/// # References
///
/// Kohlschütter, Fankhauser, Nejdl: Boilerplate Detection using Shallow Text Features, WSDM 2010, section 5.
pub(in crate::text) fn main_content(page: &str, syntax: Syntax) -> String {
    let mut page = read(page, syntax, &APART, Page::default, |page, piece| {
        page.take(&piece);
    });
    page.end_block();
    page.content()
}

/// Elements that are beside the main content by their meaning. A `header` may hold the title of an article,
/// and a `form` may hold the whole page.
const APART: [Name; 7] = [
    Name::new("aside"),
    Name::new("button"),
    Name::new("dialog"),
    Name::new("footer"),
    Name::new("menu"),
    Name::new("nav"),
    Name::new("select"),
];

/// The most other blocks between two blocks of one run, such as a subheading and a picture with its caption.
const GAP: usize = 2;

/// The fewest words of a main content.
const LEAST_WORDS: usize = 20;

#[derive(Default)]
struct Page {
    /// The text of all blocks, and of the block that is being read.
    text: Vec<u8>,
    blocks: Vec<Block>,
    /// The text in links of the block that is being read.
    linked: Vec<u8>,
    in_link: bool,
}

/// A block of text. Blocks have at least one word.
struct Block {
    /// Where it ends in the text of the page.
    end: usize,
    words: u32,
    /// The words in links.
    linked: u32,
}

/// What is beside the first and the last block.
const NOTHING: Block = Block {
    end: 0,
    words: 0,
    linked: 0,
};

/// Blocks of content with few others between them.
struct Run {
    blocks: Range<usize>,
    /// The words of its blocks of content.
    words: usize,
}

impl Page {
    fn take(&mut self, piece: &Piece<'_>) {
        match *piece {
            Piece::Text(text) | Piece::Lines(text) => {
                self.text.extend_from_slice(text);
                if self.in_link {
                    self.linked.extend_from_slice(text);
                }
            }
            Piece::Link(begins) => {
                self.in_link = begins;
                self.linked.push(b' ');
            }
            Piece::Break => self.end_block(),
        }
    }

    fn end_block(&mut self) {
        let begin = self.blocks.last().map_or(0, |block| block.end);
        let words = count_words(&self.text[begin..]);
        if words == 0 {
            self.text.truncate(begin);
        } else {
            self.text.push(b'\n');
            let linked = count_words(&self.linked).min(words);
            self.blocks.push(Block {
                end: self.text.len(),
                words,
                linked,
            });
        }
        self.linked.clear();
    }

    fn content(self) -> String {
        let runs = self.runs();
        let longest = runs.iter().map(|run| run.words).max().unwrap_or(0);
        let all: usize = self.blocks.iter().map(|block| block.words as usize).sum();
        let mut words = 0;
        let mut content = Vec::new();
        for run in runs {
            if run.words * 2 < longest {
                continue;
            }
            words += run.words;
            for index in run.blocks {
                if self.is_content(index) {
                    content.extend_from_slice(&self.text[self.bytes(index)]);
                }
            }
        }
        if words < LEAST_WORDS || words * 10 < all {
            return to_string(self.text);
        }
        to_string(content)
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for index in 0..self.blocks.len() {
            if !self.is_content(index) {
                continue;
            }
            let words = self.blocks[index].words as usize;
            match runs.last_mut() {
                Some(run) if index - run.blocks.end <= GAP => {
                    run.blocks.end = index + 1;
                    run.words += words;
                }
                _ => runs.push(Run {
                    blocks: index..index + 1,
                    words,
                }),
            }
        }
        runs
    }

    fn is_content(&self, index: usize) -> bool {
        let before = self.blocks.get(index.wrapping_sub(1)).unwrap_or(&NOTHING);
        let after = self.blocks.get(index + 1).unwrap_or(&NOTHING);
        is_content(before, &self.blocks[index], after)
    }

    /// Where a block is in the text.
    fn bytes(&self, index: usize) -> Range<usize> {
        let before = self.blocks.get(index.wrapping_sub(1)).unwrap_or(&NOTHING);
        before.end..self.blocks[index].end
    }
}

/// Whether a block is content, by the rules of Kohlschütter, Fankhauser and Nejdl, which they learned from pages
/// that people had marked.
fn is_content(before: &Block, block: &Block, after: &Block) -> bool {
    let [linked, linked_before] = [block, before].map(|block| u64::from(block.linked) * 9);
    if linked > u64::from(block.words) * 3 {
        false
    } else if linked_before > u64::from(before.words) * 5 {
        block.words > 40 || after.words > 17
    } else {
        block.words > 16 || after.words > 15 || before.words > 4
    }
}

fn count_words(text: &[u8]) -> u32 {
    let words = tokens(&String::from_utf8_lossy(text)).count();
    u32::try_from(words).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(html: &str) -> String {
        main_content(html, Syntax::Html)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    const STORY: &str = "The council voted on Monday to close the old bridge for a year. The ferry will run twice \
                         as often until the new one opens, and a ticket will cost no more than it does today, \
                         said the mayor of the town when she left the hall.";
    /// By a role, as by the name of an element. And what is not closed takes no page with it.
    #[test]
    fn what_is_beside_the_content_is_known_by_its_role_and_ends_where_that_begins() {
        let beside = [MORE; 3].join(" ");
        for role in [
            "complementary",
            "contentinfo",
            "navigation",
            "search",
            "dialog",
        ] {
            let page = format!("<div role={role}><p>{beside}</p></div><p>{STORY}</p>");
            assert_eq!(words(&page), words(&format!("<p>{STORY}</p>")), "{role}");
        }
        let page = format!("<nav><ul><li>Home<li>News</ul><main><p>{STORY}</p></main>");
        assert_eq!(words(&page), words(&format!("<p>{STORY}</p>")));
    }

    const MORE: &str = "Shopkeepers on both banks had asked for a later date. They fear for their trade in a \
                        summer without the bridge. The builders answer that the water is too high in winter, \
                        and that the work cannot be done in the dark months of the year.";

    #[test]
    fn menus_notices_and_lists_of_links_are_left_out() {
        let page = format!(
            "<nav>Not this, however many words it has, and it has more than sixteen of them to be sure of it.</nav>\
             <ul><li><a href=/a>Home</a><li><a href=/b>News</a><li><a href=/c>Sports</a></ul>\
             <p>{STORY}<h2>Why</h2><p>{MORE}</p>\
             <div><a href=/1>Ten other stories of this week that you may want to read on our pages today, \
             and five more</a></div><div><a href=/d>Contact</a></div><div><a href=/e>Jobs</a></div>\
             <p>Copyright of this page"
        );
        assert_eq!(words(&page), format!("{STORY} Why {MORE}"));
    }

    #[test]
    fn runs_of_half_the_words_are_kept_and_shorter_ones_are_not() {
        let apart = "<p><a href=/>Other pages</a>".repeat(GAP + 1);
        let notice = "This page is made of recycled electrons, and we are glad that you read it to its very end.";
        assert_eq!(
            words(&format!("<p>{STORY}{apart}<p>{MORE}")),
            format!("{STORY} {MORE}")
        );
        assert_eq!(
            words(&format!("<p>{STORY}<p>{MORE}{apart}<p>{notice}")),
            format!("{STORY} {MORE}")
        );
    }

    #[test]
    fn a_page_without_main_content_is_taken_whole() {
        let list = "<ul><li><a href=/a>One</a><li><a href=/b>Two</a></ul>";
        assert_eq!(words(list), "One Two");
        assert_eq!(
            words(&format!("{list}<p>Five words and no more")),
            "One Two Five words and no more"
        );
        let long = "<p><a href=/>A link to a page of its own</a>".repeat(100);
        assert_eq!(
            words(&format!("<p>{STORY}{long}"))
                .matches("A link")
                .count(),
            100
        );
        assert_eq!(
            (words(""), words("<nav>only a menu</nav>")),
            (String::new(), String::new())
        );
    }

    #[test]
    fn an_anchor_without_an_address_is_no_link() {
        let rest = "<a href=/>Menu</a>".repeat(9);
        assert_eq!(
            words(&format!("<div>{rest}</div><a name=top>{STORY}<p>{MORE}")),
            format!("{STORY} {MORE}")
        );
        assert_eq!(
            words(&format!("<div>{rest}</div><a href=x><a>{STORY}<p>{MORE}")),
            format!("{STORY} {MORE}")
        );
    }
}
