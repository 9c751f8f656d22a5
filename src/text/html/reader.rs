//! Reads a page as a browser reads it: tags open and close elements by the rules of the HTML standard, section 13.2.6.
//!
//! The plain algorithm builds a tree, and asks of each text in the tree whether it is shown. This one keeps the open
//! elements only, and hands out text in the order of the page. It departs from the standard in what follows:
//!
//! * There is no list of formatting elements. Those that a block closes are not opened again behind the block. They
//!   format, and what they hold is shown without them.
//! * Text that the standard moves, out of a table or out of formatting elements that overlap, stays where it is.
//! * A page is never in quirks mode.
//! * What is not shown needs no elements: nothing of a head is kept.

use memchr::{memchr, memchr2, memchr2_iter};

use super::Syntax;
use super::names::{Name, Space, Trait, Traits, names};
use super::open_elements::{Element, Gap, Integration, OpenElements};
use super::pages::Piece;
use super::references::{self, Within};
use super::showing::{Hiding, Showing};
use super::tokenizer::{Attributes, Flag, Tag, Token, Tokenizer, begins_with, is_blank, is_one_of};

names! {
    MAIN = "main", NOSCRIPT = "noscript", TEXT = "text",
    A = "a", ANNOTATION_XML = "annotation-xml", BODY = "body", BR = "br", BUTTON = "button", COL = "col",
    COLGROUP = "colgroup", DD = "dd", DESC = "desc", DT = "dt", FONT = "font", FOREIGN_OBJECT = "foreignobject",
    FORM = "form", FRAME = "frame", FRAMESET = "frameset", HEAD = "head", HR = "hr", HTML = "html", INPUT = "input",
    LI = "li", MALIGNMARK = "malignmark", MATH = "math", MGLYPH = "mglyph", MI = "mi", MN = "mn", MO = "mo", MS = "ms",
    MTEXT = "mtext", NOBR = "nobr", NOFRAMES = "noframes", OPTGROUP = "optgroup", OPTION = "option", P = "p",
    PLAINTEXT = "plaintext", RB = "rb", RP = "rp", RT = "rt", RTC = "rtc", RUBY = "ruby", SELECT = "select",
    SVG = "svg", TABLE = "table", TBODY = "tbody", TD = "td", TEMPLATE = "template", TEXTAREA = "textarea",
    SUB = "sub", SUP = "sup", TEXT_PATH = "textpath", TH = "th", TITLE = "title", TR = "tr", TSPAN = "tspan", XMP = "xmp",
}

/// Where text stands, which decides what becomes of a character NUL: it is dropped from the data of HTML, and U+FFFD
/// takes its place in raw text, in SVG and in MathML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nul {
    InData,
    InRawText,
}

/// Reads one page, token by token, and hands out what is shown. The tests are in `tests.rs`, and read whole pages.
pub(super) struct Reader<'a, T> {
    tokens: Tokenizer<'a>,
    syntax: Syntax,
    hiding: Hiding,
    also_hidden: &'a [Name],
    pieces: Pieces<T>,
    open: OpenElements,
    /// Whether a `form` is open. In it, there is no other.
    in_form: bool,
    /// Whether nothing was met with which a page has a body.
    may_have_frames: bool,
    has_frames: bool,
    /// Templates that are open.
    templates: usize,
    /// The letters of the element that floats and was opened last.
    letters_of_float: Option<usize>,
    /// Where the last part of a text of SVG stands that says it.
    y_of_part: Option<&'a [u8]>,
    /// The options of the `select` that is open.
    options: usize,
    /// The elements `sup` that are open.
    raised: usize,
    /// Whether a `sub` has just begun.
    begins_sub: bool,
}

impl<'a, T: FnMut(Piece<'_>)> Reader<'a, T> {
    pub(super) fn new(
        page: &'a str,
        syntax: Syntax,
        hiding: Hiding,
        also_hidden: &'a [Name],
        take: T,
    ) -> Self {
        Self {
            tokens: Tokenizer::new(page, syntax),
            syntax,
            hiding,
            also_hidden,
            pieces: Pieces::new(take),
            open: OpenElements::new(),
            in_form: false,
            may_have_frames: true,
            has_frames: false,
            templates: 0,
            letters_of_float: None,
            y_of_part: None,
            options: 0,
            raised: 0,
            begins_sub: false,
        }
    }

    /// Reads the page to its end. Returns how it is to be read again, if it hides nearly all of its text.
    pub(super) fn read(mut self) -> Option<Hiding> {
        while let Some(token) = self.tokens.next(self.open.top().space != Space::Html) {
            match token {
                Token::Text(text) => self.text(text, Nul::InData),
                Token::Reference(characters) => self.text(characters.as_bytes(), Nul::InData),
                Token::Start(tag) => self.start(&tag),
                Token::End(name) => self.end(name),
            }
        }
        let Amount {
            shown,
            hidden,
            without_scripts,
        } = self.pieces.amount;
        if hidden > 0 && shown < LEAST_SHOWN {
            return Some(Hiding::Off);
        }
        let is_for_scripts = shown < FEW_SHOWN && without_scripts >= FEW_SHOWN.max(4 * shown);
        is_for_scripts.then_some(Hiding::WithoutScripts)
    }

    fn text(&mut self, text: &[u8], nul: Nul) {
        let is_blank = is_blank(text);
        if self.has_frames || is_blank && !self.open.has_body() {
            return;
        }
        self.may_have_frames &= is_blank || text.iter().all(|&byte| byte == 0);
        self.begin_body();
        let shown = self.open.shown();
        if shown.is_text_shown() {
            let top = self.open.top();
            let is_html = top.space == Space::Html || top.integration != Integration::None;
            let without_nul = is_html && nul == Nul::InData;
            if let Some(letters) = &mut self.letters_of_float {
                *letters += letters_of(text);
            }
            let begins_sub = std::mem::take(&mut self.begins_sub);
            let begins_in_digit = text.first().is_some_and(u8::is_ascii_digit);
            let is_raised = self.raised > 0;
            let is_apart = match self.pieces.last_digit {
                LastDigit::None => false,
                LastDigit::OnLine => begins_sub,
                LastDigit::Raised => begins_sub || !is_raised,
            };
            if is_apart && begins_in_digit {
                self.pieces.gap(Gap::Box);
            }
            if is_raised && text.iter().any(u8::is_ascii_digit) {
                let raised = with_raised_digits(text);
                self.pieces
                    .text(&raised, without_nul, shown.is_preformatted);
                if text.last().is_some_and(u8::is_ascii_digit) {
                    self.pieces.last_digit = LastDigit::Raised;
                }
            } else {
                self.pieces.text(text, without_nul, shown.is_preformatted);
            }
        } else if shown.by_attribute {
            self.pieces.pass_over(text);
        }
    }

    /// With the first thing that may not stand in a head, the body begins.
    fn begin_body(&mut self) {
        if !self.open.has_body() {
            self.open.push(Element::html(BODY, BODY.traits()));
        }
    }

    fn start(&mut self, tag: &Tag<'a>) {
        let top = self.open.top();
        let is_html = match top.integration {
            _ if top.space == Space::Html => true,
            Integration::Html => true,
            Integration::Text => !matches!(tag.name, MGLYPH | MALIGNMARK),
            Integration::None => {
                tag.name == SVG && top.name == ANNOTATION_XML.within(Space::MathMl)
            }
        };
        let traits = tag.name.traits();
        if is_html {
            self.start_html(tag, traits);
        } else if traits.has(Trait::Breakout) || tag.name == FONT && tag.attributes.has(Flag::Font)
        {
            self.leave_foreign();
            self.start_html(tag, traits);
        } else {
            self.open_foreign(tag, self.open.top().space);
        }
    }

    /// Closes SVG and MathML, up to where HTML may stand.
    fn leave_foreign(&mut self) {
        while self.open.top().space != Space::Html
            && self.open.top().integration == Integration::None
        {
            self.pop();
        }
    }

    fn open_foreign(&mut self, tag: &Tag<'a>, space: Space) {
        let integration = match (space, tag.name) {
            (Space::MathMl, MI | MO | MN | MS | MTEXT) => Integration::Text,
            (Space::MathMl, ANNOTATION_XML) if annotates_in_html(tag) => Integration::Html,
            (Space::Svg, FOREIGN_OBJECT | DESC | TITLE) => Integration::Html,
            _ => Integration::None,
        };
        let special = integration != Integration::None
            || (space, tag.name) == (Space::MathMl, ANNOTATION_XML);
        // One that begins at a place in another line. Many programs give each piece of a word its `x` and its `y`.
        if (space, tag.name) == (Space::Svg, TEXT) {
            self.y_of_part = tag.attributes.y;
        }
        if (space, tag.name) == (Space::Svg, TSPAN) {
            let leaves_line = tag.attributes.has(Flag::Line);
            let known = self.y_of_part.zip(tag.attributes.y);
            let is_elsewhere = leaves_line || known.is_some_and(|(before, now)| before != now);
            if tag.attributes.has(Flag::X) && is_elsewhere {
                self.separate_words(Gap::Box);
            }
            self.y_of_part = match leaves_line {
                true => None,
                false => tag.attributes.y.or(self.y_of_part),
            };
        }
        let traits = if special {
            Traits::default().with(Trait::Special)
        } else {
            Traits::default()
        };
        self.push(Element {
            name: tag.name.within(space),
            traits,
            space,
            integration,
            own: Showing::foreign(tag, space, self.open.top().name, self.hiding),
            // Parts of a line of text in SVG stand in the line.
            gap: match (space, tag.name) {
                (Space::Svg, TSPAN | TEXT_PATH | A) => Gap::None,
                _ => Gap::Box,
            },
        });
        if tag.self_closing {
            self.pop();
        }
    }

    /// An element of HTML, with what it says of being shown.
    fn element(&self, tag: &Tag<'_>, traits: Traits) -> Element {
        let mut own = Showing::html(tag, traits, self.hiding);
        // The lists of all countries, of which a reader sees one.
        let is_one_of_many = tag.name == OPTION && self.options > MOST_OPTIONS;
        own.displayed &= !is_one_of_many || tag.attributes.has(Flag::Selected);
        own.is_apart = tag.attributes.has(Flag::Apart);
        let is_laid_out = self.open.top().own.has_blocks;
        let laid_out = if is_laid_out { Gap::Block } else { Gap::None };
        Element {
            own,
            gap: own.gap.max(Gap::from(traits)).max(laid_out),
            ..Element::html(tag.name, traits)
        }
    }

    /// Opens an element of HTML.
    fn open_html(&mut self, tag: &Tag<'_>, traits: Traits) {
        let element = self.element(tag, traits);
        if traits.has(Trait::Void) {
            return self.pass_by(&element);
        }
        self.push(element);
        if self.syntax == Syntax::Xhtml && tag.self_closing {
            self.pop();
        }
    }

    fn push(&mut self, mut element: Element) {
        if self.open.is_full() {
            self.pop();
        }
        let is_also_hidden = element.space == Space::Html
            && (self.also_hidden.contains(&element.name)
                || element.own.is_apart && !self.also_hidden.is_empty());
        if !(self.open.shown().displayed && element.own.displayed) {
            element.gap = Gap::None;
            element.own.floats = false;
        }
        if element.own.floats {
            self.pieces.gap(Gap::Block);
            self.letters_of_float = Some(0);
        }
        element.own.by_attribute = !is_also_hidden && is_hidden_by_attribute(&element);
        element.own.has_content &= !is_also_hidden;
        self.templates += usize::from(element.name == TEMPLATE);
        self.raised += usize::from(element.name == SUP);
        self.begins_sub |= element.name == SUB;
        self.pieces.gap(element.gap);
        self.open.push(element);
    }

    fn pop(&mut self) {
        let Some(element) = self.open.pop() else {
            return;
        };
        self.templates -= usize::from(element.name == TEMPLATE);
        self.raised -= usize::from(element.name == SUP);
        self.begins_sub &= element.name != SUB;
        if element.own.floats {
            let letters = self.letters_of_float.take();
            if letters.is_none_or(|letters| letters > MOST_OF_INITIAL) {
                self.pieces.gap(Gap::Block);
            }
        }
        self.pieces.gap(element.gap);
    }

    /// Closes all elements from this one.
    fn pop_from(&mut self, index: usize) {
        while self.open.len() > index.max(1) {
            self.pop();
        }
    }

    /// Closes the elements that need no end tag, but for one.
    fn end_implied(&mut self, but: Name) {
        while self.open.top().traits.has(Trait::Implied) && self.open.top().name != but {
            self.pop();
        }
    }

    #[inline]
    fn end_paragraph(&mut self) {
        if let Some(index) = self.open.paragraph() {
            self.pop_from(index);
        }
    }

    fn start_html(&mut self, tag: &Tag<'a>, traits: Traits) {
        if self.has_frames {
            if tag.name == NOFRAMES {
                self.tokens.raw(tag);
            }
            return;
        }
        if matches!(tag.name, HTML | HEAD) {
            return;
        }
        if tag.name == FRAMESET {
            return self.start_frames();
        }
        if !traits.has(Trait::InHead) {
            self.begin_body();
        }
        self.may_have_frames &= !traits.has(Trait::NoFrames);
        if tag.name == A {
            self.pieces.link(false);
        }
        let is_markup = tag.name == NOSCRIPT && self.hiding == Hiding::WithoutScripts;
        if traits.has(Trait::Raw) && !is_markup {
            return self.raw(tag, traits);
        }
        if traits.has(Trait::TablePart) {
            return self.start_table_part(tag, traits);
        }
        if traits.has(Trait::EndsP) {
            self.end_paragraph_before(tag.name);
        }
        self.start_in_body(tag, traits);
        if tag.name == A && tag.attributes.has(Flag::Href) {
            self.pieces.link(true);
        }
    }

    /// Frames stand in the place of a body without content.
    fn start_frames(&mut self) {
        if self.may_have_frames && self.templates == 0 {
            self.pop_from(1);
            self.has_frames = true;
        }
    }

    /// An element whose content has no markup.
    fn raw(&mut self, tag: &Tag<'_>, traits: Traits) {
        if tag.name == XMP {
            self.end_paragraph();
        }
        if self.syntax == Syntax::Xhtml && tag.self_closing {
            return;
        }
        let content = self.tokens.raw(tag);
        if tag.name == NOSCRIPT {
            self.pieces.amount.without_scripts += text_bytes(content);
        }
        let element = self.element(tag, traits);
        if !element.own.has_content {
            return self.pass_by(&element);
        }
        self.push(element);
        if tag.name == TEXTAREA {
            references::decode(content, Within::Text, |text| {
                self.text(text, Nul::InRawText);
            });
        } else {
            self.text(content, Nul::InRawText);
        }
        self.pop();
    }

    /// An element without content that counts.
    fn pass_by(&mut self, element: &Element) {
        if element.own.displayed {
            self.separate_words(element.gap);
        }
    }

    /// Separates words where no element is opened.
    fn separate_words(&mut self, gap: Gap) {
        if self.open.shown().displayed {
            self.pieces.gap(gap);
        }
    }

    /// A part of a table. Outside of tables, no such element is opened.
    fn start_table_part(&mut self, tag: &Tag<'_>, traits: Traits) {
        let table = self.open.table();
        if table == 0 {
            return self.separate_words(Gap::Block);
        }
        // A section is `table + 1`, and a row in it `table + 2`. `kept` is the last of them that stays open.
        let kept = self.open.around_part(tag.name);
        self.pop_from(kept + 1);
        let is_in_table = self.open.at(table).name == TABLE;
        if is_in_table && matches!(tag.name, TR | TD | TH) && kept == table {
            self.open_bare(TBODY);
        }
        if is_in_table && matches!(tag.name, TD | TH) && kept < table + 2 {
            self.open_bare(TR);
        }
        self.open_html(tag, traits);
    }

    /// Opens an element that has no tag.
    fn open_bare(&mut self, name: Name) {
        self.open_html(
            &Tag {
                name,
                written: &[],
                self_closing: false,
                attributes: Attributes::default(),
            },
            name.traits(),
        );
    }

    /// What a block ends before it begins.
    fn end_paragraph_before(&mut self, name: Name) {
        match name {
            LI => self.end_item(&[LI]),
            DD | DT => self.end_item(&[DD, DT]),
            _ => {}
        }
        self.end_paragraph();
    }

    /// Ends the item of a list before the next one.
    fn end_item(&mut self, names: &[Name]) {
        if let Some(index) = self.open.item_before(names) {
            self.pop_from(index);
        }
    }

    fn start_in_body(&mut self, tag: &Tag<'a>, traits: Traits) {
        match tag.name {
            BODY | FRAME => return,
            MATH => return self.open_foreign(tag, Space::MathMl),
            SVG => return self.open_foreign(tag, Space::Svg),
            PLAINTEXT if self.syntax == Syntax::Html => {
                self.open_html(tag, traits);
                let rest = self.tokens.rest();
                return self.text(rest, Nul::InRawText);
            }
            FORM if self.in_form && self.templates == 0 => return,
            FORM => self.in_form |= self.templates == 0,
            INPUT => self.may_have_frames &= is_one_of(tag.attributes.kind, &["hidden"]),
            SELECT if self.open.in_scope(SELECT).is_some() => return self.end_in_scope(SELECT),
            SELECT => self.options = 0,
            OPTION => self.options += 1,
            MAIN => self.end_apart(),
            _ => {}
        }
        self.end_before(tag.name, traits);
        self.open_html(tag, traits);
    }

    /// Ends what may not hold the next element.
    fn end_before(&mut self, next: Name, traits: Traits) {
        match next {
            BUTTON => self.end_in_scope(BUTTON),
            INPUT => self.end_in_scope(SELECT),
            A | NOBR if self.open.in_scope(next).is_some() => self.end_formatting(next),
            TABLE => self.end_table_in_table(),
            OPTION | OPTGROUP | HR => self.end_option(next),
            RB | RTC if self.open.in_scope(RUBY).is_some() => self.end_implied(Name::EMPTY),
            RP | RT if self.open.in_scope(RUBY).is_some() => self.end_implied(RTC),
            _ if traits.has(Trait::Heading) && self.open.top().traits.has(Trait::Heading) => {
                self.pop();
            }
            _ => {}
        }
    }

    /// The main content is in no menu. One that is open was not closed.
    fn end_apart(&mut self) {
        for &name in self.also_hidden {
            self.end_in_scope(name);
        }
    }

    fn end_in_scope(&mut self, name: Name) {
        if let Some(index) = self.open.in_scope(name) {
            self.pop_from(index);
        }
    }

    /// A table between the cells of another one ends the other one.
    fn end_table_in_table(&mut self) {
        if self.open.is_between_cells() {
            self.pop_from(self.open.table());
        }
    }

    fn end_option(&mut self, next: Name) {
        if self.open.in_scope(SELECT).is_some() {
            self.end_implied(if next == OPTION {
                OPTGROUP
            } else {
                Name::EMPTY
            });
        } else if next != HR && self.open.top().name == OPTION {
            self.pop();
        }
    }

    fn end(&mut self, name: Name) {
        if name == A {
            self.pieces.link(false);
        }
        if self.has_frames {
            return;
        }
        if self.open.top().space == Space::Html {
            return self.end_html(name);
        }
        if matches!(name, P | BR) {
            self.leave_foreign();
            return self.end_html(name);
        }
        match self.open.foreign(name) {
            Some(index) => self.pop_from(index),
            None => self.end_html(name),
        }
    }

    fn end_html(&mut self, name: Name) {
        let traits = name.traits();
        match name {
            HTML | HEAD | BODY | COL | COLGROUP => {}
            BR => {
                self.begin_body();
                self.separate_words(Gap::Block);
            }
            _ if !self.open.has_body() => {}
            P if self.open.paragraph().is_none() => self.separate_words(Gap::Block),
            FORM => self.end_form(),
            _ if traits.has(Trait::Formatting) => self.end_formatting(name),
            _ => {
                if let Some(index) = self.open.reached(name, traits) {
                    self.pop_from(index);
                }
            }
        }
    }

    /// A form ends, and what was opened in it stays open.
    fn end_form(&mut self) {
        let is_of_template = self.templates > 0;
        if !is_of_template && !std::mem::take(&mut self.in_form) {
            return;
        }
        let Some(index) = self.open.in_scope(FORM) else {
            return;
        };
        self.end_implied(Name::EMPTY);
        if is_of_template || index + 1 == self.open.len() {
            self.pop_from(index);
        } else {
            self.open.make_nameless(index);
        }
    }

    /// The end of an element that formats text. Blocks in it stay open.
    fn end_formatting(&mut self, name: Name) {
        let Some(index) = self.open.formatting(name) else {
            return;
        };
        let Some((block, is_innermost)) = self.open.last_block(index) else {
            return self.pop_from(index);
        };
        if is_innermost {
            self.pop_from(block + 1);
        }
        self.open.take_away(index, block);
    }
}

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

/// Whether MathML has HTML in this annotation.
fn annotates_in_html(tag: &Tag<'_>) -> bool {
    let types = ["text/html", "application/xhtml+xml"];
    is_one_of(tag.attributes.encoding, &types)
}

fn is_hidden_by_attribute(element: &Element) -> bool {
    let has_no_box = !element.own.displayed && element.space == Space::Html;
    element.own.has_content && (has_no_box || element.own.visible == Some(false))
}

/// The least text of a page that is taken for what a page shows, in bytes.
const LEAST_SHOWN: usize = 64;
/// The bytes that may be all that a page shows before its script has run, such as a menu or a notice on cookies.
const FEW_SHOWN: usize = 256;

/// The most options of a `select` that are all taken.
const MOST_OPTIONS: usize = 20;

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
struct Pieces<T> {
    take: T,
    amount: Amount,
    /// Whether the last piece was a break.
    is_broken: bool,
    last_digit: LastDigit,
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
        }
    }

    /// Text that is shown.
    fn text(&mut self, mut text: &[u8], without_nul: bool, is_preformatted: bool) {
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
    fn pass_over(&mut self, text: &[u8]) {
        if !is_blank(text) {
            self.amount.hidden += text.len();
        }
    }

    /// What separates words.
    fn gap(&mut self, gap: Gap) {
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
    fn link(&mut self, begins: bool) {
        (self.take)(Piece::Link(begins));
    }
}
