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

use super::Syntax;
use super::names::{Name, Space, Trait, Traits, names};
use super::pages::{Piece, Pieces};
use super::references::{self, Within};
use super::showing::{Gap, Hiding, Showing, Shown};
use super::tokenizer::{Attributes, Flag, Tag, Token, Tokenizer, is_blank, is_one_of};

names! {
    A = "a", ADDRESS = "address", ANNOTATION_XML = "annotation-xml", BODY = "body", BR = "br", BUTTON = "button",
    CAPTION = "caption", COL = "col", COLGROUP = "colgroup", DD = "dd", DESC = "desc", DIV = "div", DT = "dt",
    FONT = "font", FOREIGN_OBJECT = "foreignobject", FORM = "form", FRAME = "frame", FRAMESET = "frameset", H1 = "h1",
    H2 = "h2", H3 = "h3", H4 = "h4", H5 = "h5", H6 = "h6", HEAD = "head", HR = "hr", HTML = "html", INPUT = "input",
    LI = "li", MAIN = "main", MALIGNMARK = "malignmark", MATH = "math", MGLYPH = "mglyph", MI = "mi", MN = "mn",
    MO = "mo", MS = "ms", MTEXT = "mtext", NOBR = "nobr", NOFRAMES = "noframes", NOSCRIPT = "noscript", OL = "ol",
    OPTGROUP = "optgroup", OPTION = "option", P = "p", PLAINTEXT = "plaintext", RB = "rb", RP = "rp", RT = "rt",
    RTC = "rtc", RUBY = "ruby", SELECT = "select", SVG = "svg", TABLE = "table", TBODY = "tbody", TD = "td",
    TEMPLATE = "template", TEXT = "text", TEXTAREA = "textarea", TEXT_PATH = "textpath", TFOOT = "tfoot", TH = "th",
    THEAD = "thead", TITLE = "title", TR = "tr", TSPAN = "tspan", UL = "ul", XMP = "xmp",
}

/// Where text stands, which decides what becomes of a character NUL: it is dropped from the data of HTML, and U+FFFD
/// takes its place in raw text, in SVG and in MathML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nul {
    InData,
    InRawText,
}

/// Reads one page, token by token, and hands out what is shown. Returns what counts the text. The tests are in
/// `tests.rs`, and read whole pages.
pub(super) fn read_page<'a, T: FnMut(Piece<'_>)>(
    page: &'a str,
    syntax: Syntax,
    hiding: Hiding,
    also_hidden: &'a [Name],
    pieces: Pieces<T>,
) -> Pieces<T> {
    let mut reader = Reader {
        tokens: Tokenizer::new(page, syntax),
        syntax,
        hiding,
        also_hidden,
        pieces,
        open: OpenElements::new(),
        in_form: false,
        may_have_frames: true,
        has_frames: false,
        templates: 0,
        y_of_part: None,
        options: 0,
    };
    while let Some(token) = reader.tokens.next(reader.open.top().space != Space::Html) {
        match token {
            Token::Text(text) => reader.text(text, Nul::InData),
            Token::Reference(characters) => reader.text(characters.as_bytes(), Nul::InData),
            Token::Start(tag) => reader.start(&tag),
            Token::End(name) => reader.end(name),
        }
    }
    reader.pieces
}

struct Reader<'a, T> {
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
    /// Where the last part of a text of SVG stands that says it.
    y_of_part: Option<&'a [u8]>,
    /// The options of the `select` that is open.
    options: usize,
}

impl<'a, T: FnMut(Piece<'_>)> Reader<'a, T> {
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
            self.pieces.text(text, without_nul, shown.is_preformatted);
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
            Traits::NONE.with(Trait::Special)
        } else {
            Traits::NONE
        };
        let mut own = Showing::foreign(tag, space, self.open.top().name, self.hiding);
        // Parts of a line of text in SVG stand in the line.
        own.gap = match (space, tag.name) {
            (Space::Svg, TSPAN | TEXT_PATH | A) => Gap::None,
            _ => Gap::Box,
        };
        self.push(Element {
            name: tag.name.within(space),
            traits,
            space,
            integration,
            own,
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
        own.gap = own.gap.max(Gap::from(traits)).max(laid_out);
        Element {
            own,
            ..Element::html(tag.name, traits)
        }
    }

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
        if self.open.elements.len() == MOST {
            self.pop();
        }
        let is_also_hidden = element.space == Space::Html
            && (self.also_hidden.contains(&element.name)
                || element.own.is_apart && !self.also_hidden.is_empty());
        if !(self.open.shown().displayed && element.own.displayed) {
            element.own.gap = Gap::None;
            element.own.floats = false;
        }
        element.own.by_attribute = !is_also_hidden && is_hidden_by_attribute(&element);
        element.own.has_content &= !is_also_hidden;
        self.templates += usize::from(element.name == TEMPLATE);
        self.pieces.begin(element.name, &element.own);
        self.open.push(element);
    }

    fn pop(&mut self) {
        let Some(element) = self.open.pop() else {
            return;
        };
        self.templates -= usize::from(element.name == TEMPLATE);
        self.pieces.end(element.name, &element.own);
    }

    /// Closes all elements from this one.
    fn pop_from(&mut self, index: usize) {
        while self.open.elements.len() > index.max(1) {
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
            self.pieces.pass_over_noscript(content);
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
            self.separate_words(element.own.gap);
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
        if is_of_template || index + 1 == self.open.elements.len() {
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
        for name in self.open.take_away(index, block) {
            self.pieces.forget(name);
        }
    }
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

/// The most options of a `select` that are all taken.
const MOST_OPTIONS: usize = 20;

// The open elements: the stack of the HTML standard, section 13.2.4.2, without a tree behind it. Each element knows the
// bounds of its scopes and whether it is shown, from the element that it is in. So a question costs little however deep
// a page nests.

/// An element, as its start tag and the standard describe it.
#[derive(Clone, Copy)]
struct Element {
    /// Another name in each namespace.
    name: Name,
    traits: Traits,
    space: Space,
    /// Whether HTML may stand in it, if it is of another namespace.
    integration: Integration,
    own: Showing,
}

impl Element {
    /// An element of HTML that is shown as what it is in.
    fn html(name: Name, traits: Traits) -> Self {
        Self {
            name,
            traits,
            space: Space::Html,
            integration: Integration::None,
            own: Showing::default(),
        }
    }
}

#[derive(Clone, Copy)]
struct Open {
    element: Element,
    /// Whether its text is shown.
    shown: Shown,
    /// The paragraph that a block would end, or 0.
    paragraph: u16,
    /// The innermost element that no end tag reaches beyond.
    scope: u16,
    /// The innermost table, template or root.
    table: u16,
    /// The innermost special element.
    special: u16,
    /// The innermost special element that is no `address`, `div` or `p`.
    item: u16,
    /// The innermost element of HTML.
    html: u16,
    /// The next element further out whose name is of the same group, or 0.
    of_group: u16,
}

/// How an element of SVG or MathML holds HTML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integration {
    None,
    /// A token element of MathML.
    Text,
    /// A `foreignObject`, and the like.
    Html,
}

/// The outer loop of the adoption agency, section 13.2.6.4.7 of the HTML standard, runs so often.
const MOST_BLOCKS: usize = 8;

/// The most elements that are open at one time. What is deeper stands beside the innermost, as in browsers.
const MOST: usize = 512;

/// The groups of names, by which an element is found.
const GROUPS: usize = 256;

/// Never empty: the root is its first, and the body its second, once there is one.
struct OpenElements {
    elements: Vec<Open>,
    /// The innermost element of each group of names, or 0. From it, all others of the group are found.
    groups: [u16; GROUPS],
}

impl OpenElements {
    fn new() -> Self {
        let root = Open {
            element: Element::html(HTML, HTML.traits()),
            shown: Shown::default(),
            paragraph: 0,
            scope: 0,
            table: 0,
            special: 0,
            item: 0,
            html: 0,
            of_group: 0,
        };
        let mut elements = Vec::with_capacity(64);
        elements.push(root);
        Self {
            elements,
            groups: [0; GROUPS],
        }
    }

    /// Whether the body, or another element, is open in the root.
    #[inline]
    fn has_body(&self) -> bool {
        self.elements.len() > 1
    }

    #[inline]
    fn innermost(&self) -> &Open {
        &self.elements[self.elements.len() - 1]
    }

    /// The innermost element.
    #[inline]
    fn top(&self) -> &Element {
        &self.innermost().element
    }

    /// Whether the text and the elements are shown that come next. What may not stand in a table where it stands is
    /// shown before the table.
    #[inline]
    fn shown(&self) -> Shown {
        let top = self.innermost();
        if !may_hold_only_parts(top.element.name) {
            return top.shown;
        }
        let table = usize::from(top.table);
        let is_table = self.at(table).name == TABLE;
        self.elements[table - usize::from(is_table)].shown
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are few open elements"
    )]
    fn push(&mut self, element: Element) {
        let index = self.elements.len() as u16;
        let Element { name, traits, .. } = element;
        let is_html = element.space == Space::Html;
        let parent = if traits.has(Trait::TablePart) {
            self.innermost().shown
        } else {
            self.shown()
        };

        // As the element around it, but for what it is itself.
        let mut open = *self.innermost();
        open.element = element;
        open.shown = parent.within(element.own);
        open.of_group = std::mem::replace(&mut self.groups[name.slot(GROUPS)], index);
        if is_html {
            open.html = index;
        }
        if traits.has(Trait::Special) {
            open.special = index;
            if !matches!(name, ADDRESS | DIV | P) {
                open.item = index;
            }
        }
        if matches!(name, TABLE | TEMPLATE) {
            open.table = index;
        }
        let bounds_scope =
            traits.has(Trait::Scope) && is_html || element.integration != Integration::None;
        if bounds_scope {
            open.scope = index;
        }
        if name == P {
            open.paragraph = index;
        } else if name == BUTTON || bounds_scope {
            open.paragraph = 0;
        }
        self.elements.push(open);
    }

    /// Closes the innermost element, but not the root.
    fn pop(&mut self) -> Option<Element> {
        let mut closed = self.pop_one()?;
        // What no tag reaches ends with what is in it.
        while self.top().name == Name::EMPTY
            && let Some(outer) = self.pop_one()
        {
            closed.own.gap = closed.own.gap.max(outer.own.gap);
        }
        Some(closed)
    }

    #[inline]
    fn pop_one(&mut self) -> Option<Element> {
        if self.elements.len() == 1 {
            return None;
        }
        let open = self.elements.pop()?;
        self.groups[open.element.name.slot(GROUPS)] = open.of_group;
        Some(open.element)
    }

    /// The paragraph that a block ends.
    #[inline]
    fn paragraph(&self) -> Option<usize> {
        let index = usize::from(self.innermost().paragraph);
        (index > 0).then_some(index)
    }

    /// The innermost table, or what stands in its place: a template, or the root.
    fn table(&self) -> usize {
        usize::from(self.innermost().table)
    }

    fn at(&self, index: usize) -> &Element {
        &self.elements[index].element
    }

    /// The innermost element of this name that is not further out than `from`.
    #[inline]
    fn last(&self, name: Name, from: u16) -> Option<usize> {
        let mut index = self.groups[name.slot(GROUPS)];
        while index > 0 && index >= from {
            let open = &self.elements[usize::from(index)];
            if open.element.name == name {
                return Some(usize::from(index));
            }
            index = open.of_group;
        }
        None
    }

    /// The innermost element of this name that an end tag reaches.
    #[inline]
    fn in_scope(&self, name: Name) -> Option<usize> {
        self.last(name, self.innermost().scope)
    }

    /// The innermost heading that an end tag reaches.
    fn heading_in_scope(&self) -> Option<usize> {
        let headings = [H1, H2, H3, H4, H5, H6].into_iter();
        headings.filter_map(|name| self.in_scope(name)).max()
    }

    /// The innermost item that an end tag reaches. A list bounds the scope of its items.
    fn item_in_scope(&self) -> Option<usize> {
        let list = self.in_scope(UL).max(self.in_scope(OL));
        self.in_scope(LI).filter(|&item| Some(item) > list)
    }

    /// The item of a list that the next item ends.
    fn item_before(&self, names: &[Name]) -> Option<usize> {
        let index = usize::from(self.innermost().item);
        names.contains(&self.at(index).name).then_some(index)
    }

    /// The innermost part of this name of the innermost table, or the table.
    fn in_table_scope(&self, name: Name) -> Option<usize> {
        self.last(name, self.innermost().table)
    }

    /// The innermost element of this name, if no special one is within.
    fn within_special(&self, name: Name) -> Option<usize> {
        self.last(name, self.innermost().special)
    }

    /// The innermost element of SVG or MathML with this name, if no element of HTML is within.
    fn foreign(&self, name: Name) -> Option<usize> {
        let html = self.innermost().html;
        self.last(name.within(Space::Svg), html)
            .max(self.last(name.within(Space::MathMl), html))
    }

    /// The element that an end tag closes, with all that is in it.
    fn reached(&self, name: Name, traits: Traits) -> Option<usize> {
        match name {
            P => self.paragraph(),
            TEMPLATE => self.last(TEMPLATE, 0),
            LI => self.item_in_scope(),
            TABLE => self.in_table_scope(name),
            _ if traits.has(Trait::TablePart) => self.in_table_scope(name),
            _ if traits.has(Trait::Heading) => self.heading_in_scope(),
            _ if traits.has(Trait::EndsScoped) => self.in_scope(name),
            _ => self.within_special(name),
        }
    }

    /// The innermost element that stays open around a part of a table: the table, a section (`table + 1`, if there is
    /// one) or a row (`section + 1`).
    fn around_part(&self, name: Name) -> usize {
        let table = self.table();
        let is_section = self.elements.len() > table + 1
            && matches!(self.at(table + 1).name, TBODY | THEAD | TFOOT);
        let section = table + usize::from(is_section);
        let row = section + 1;
        match name {
            TR => section,
            TD | TH if is_section => {
                section + usize::from(self.elements.len() > row && self.at(row).name == TR)
            }
            _ => table,
        }
    }

    /// Whether the innermost table is between its cells, and not in one.
    fn is_between_cells(&self) -> bool {
        let table = self.table();
        let mut parts = self.elements[table + 1..].iter().take(3);
        self.at(table).name == TABLE
            && !parts.any(|part| matches!(part.element.name, TD | TH | CAPTION))
    }

    /// The element that the end of a formatting element closes.
    fn formatting(&self, name: Name) -> Option<usize> {
        match self.in_scope(name) {
            Some(index) => Some(index),
            None => self.within_special(name),
        }
    }

    /// The last block to which the end of a formatting element is carried on, from the outermost one in the element
    /// to the innermost one, but not over more than [`MOST_BLOCKS`]. And whether the element ends there, with all that
    /// is open in the block. `None` if there is no block in the element.
    fn last_block(&self, index: usize) -> Option<(usize, bool)> {
        if usize::from(self.innermost().special) <= index {
            return None;
        }
        let mut count = 0;
        let mut last = None;
        for at in index + 1..self.elements.len() {
            if count == MOST_BLOCKS {
                break;
            }
            if self.at(at).traits.has(Trait::Special) {
                count += 1;
                last = Some(at);
            }
        }
        Some((last?, count < MOST_BLOCKS))
    }

    /// Takes away an element, and of those up to another one all but blocks and what formats. What they hold stays.
    /// Returns the names of those that have gone.
    fn take_away(&mut self, index: usize, up_to: usize) -> Vec<Name> {
        let mut inner = self.take_from(index);
        let mut gone = Vec::new();
        let mut at = index;
        inner.retain(|open| {
            let traits = open.element.traits;
            let is_kept = traits.has(Trait::Formatting) || traits.has(Trait::Special);
            at += 1;
            let stays = at > up_to || at > index + 1 && is_kept;
            if !stays {
                gone.push(open.element.name);
            }
            stays
        });
        self.put_back(inner);
        gone
    }

    /// Lets no tag reach an element, which ends with what is in it.
    fn make_nameless(&mut self, index: usize) {
        let mut inner = self.take_from(index);
        let element = &mut inner[0].element;
        element.name = Name::EMPTY;
        element.traits = Traits::NONE;
        self.put_back(inner);
    }

    /// Takes all elements from this one, outermost first.
    fn take_from(&mut self, index: usize) -> Vec<Open> {
        let inner = self.elements.split_off(index);
        for open in inner.iter().rev() {
            self.groups[open.element.name.slot(GROUPS)] = open.of_group;
        }
        inner
    }

    fn put_back(&mut self, inner: Vec<Open>) {
        for open in inner {
            self.push(open.element);
        }
    }
}

/// Whether an element is a part of a table that may hold only other parts.
#[inline]
fn may_hold_only_parts(name: Name) -> bool {
    matches!(name, TABLE | TBODY | TFOOT | THEAD | TR)
}
