//! Reads a page as a browser reads it: tags open and close elements by the rules of the HTML standard, section 13.2.6.
//!
//! The plain algorithm builds a tree, and asks of each text in the tree whether it is shown. This one keeps the open
//! elements only, and hands out text in the order of the page. It departs from the standard in what follows:
//!
//! * There is no list of formatting elements. Those that a block closes are not opened again behind the block. They
//!   format, and what they hold is shown without them.
//! * Text that the standard moves, out of a table or out of formatting elements that overlap, stays where it is.
//! * A page is never in quirks mode.
//! * What is not shown needs no parts: nothing of a head is kept.

use memchr::memchr2;

use super::attributes::{Attributes, is_blank};
use super::names::{Name, Space, Traits};
use super::open_elements::{
    BUTTON, Gap, Integration, LI, New, OpenElements, P, Showing, TABLE, TBODY, TD, TEMPLATE, TFOOT,
    TH, THEAD, TR,
};
use super::references::{self, Within};
use super::tokenizer::{Tag, Token, Tokenizer};
use super::{Piece, Syntax};

macro_rules! names {
    ($($constant:ident = $name:literal),* $(,)?) => { $(const $constant: Name = Name::of($name);)* };
}

names! {
    A = "a", ANNOTATION = "annotation", ANNOTATION_XML = "annotation-xml", BODY = "body", BR = "br",
    COL = "col", COLGROUP = "colgroup", DD = "dd", DESC = "desc", DIALOG = "dialog",
    DT = "dt", FONT = "font", FOREIGN_OBJECT = "foreignobject", FORM = "form", FRAME = "frame",
    FRAMESET = "frameset", HEAD = "head", HR = "hr", HTML = "html", INPUT = "input",
    MALIGNMARK = "malignmark", MATH = "math", MGLYPH = "mglyph", MPHANTOM = "mphantom", NOBR = "nobr",
    NOFRAMES = "noframes", OBJECT = "object", OPTGROUP = "optgroup", OPTION = "option", PLAINTEXT = "plaintext",
    RB = "rb", RP = "rp", RT = "rt", RTC = "rtc", RUBY = "ruby", SCRIPT = "script", SELECT = "select",
    SEMANTICS = "semantics", STYLE = "style", SVG = "svg", TEXT = "text", TEXTAREA = "textarea",
    TITLE = "title", XMP = "xmp", MI = "mi", MO = "mo", MN = "mn", MS = "ms", MTEXT = "mtext", DEFS = "defs",
    SYMBOL = "symbol", CLIP_PATH = "clippath", MASK = "mask", PATTERN = "pattern", MARKER = "marker",
    METADATA = "metadata", LINEAR_GRADIENT = "lineargradient", RADIAL_GRADIENT = "radialgradient", FILTER = "filter",
}

/// Which attributes hide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hiding {
    /// All that browsers know without a style sheet.
    ByAttributes,
    /// Only those of dialogs and popovers, which somebody has to open.
    Off,
}

/// Where a character NUL is. In HTML nothing stands for it, elsewhere a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nul {
    InData,
    InRawText,
}

/// How much text of a page is not blank.
#[derive(Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) shown: usize,
    /// What attributes hide. Of what no attribute could show, nothing is counted.
    pub(super) hidden: usize,
}

pub(super) struct Reader<'a, T> {
    tokens: Tokenizer<'a>,
    syntax: Syntax,
    hiding: Hiding,
    also_hidden: &'a [Name],
    take: T,
    open: OpenElements,
    amount: Amount,
    /// Whether a `form` is open. In it, there is no other.
    in_form: bool,
    /// Whether nothing was met with which a page has a body.
    may_have_frames: bool,
    has_frames: bool,
    /// Templates that are open.
    templates: usize,
    /// Whether the last piece was a break.
    is_broken: bool,
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
            take,
            open: OpenElements::new(),
            amount: Amount::default(),
            in_form: false,
            may_have_frames: true,
            has_frames: false,
            templates: 0,
            is_broken: false,
        }
    }

    /// Reads the page to its end.
    pub(super) fn read(mut self) -> Amount {
        while let Some(token) = self.tokens.next(self.open.top().space != Space::Html) {
            match token {
                Token::Text(text) => self.text(text, Nul::InData),
                Token::Reference(characters) => self.text(characters.as_bytes(), Nul::InData),
                Token::Start(tag) => self.start(&tag),
                Token::End(name) => self.end(name),
            }
        }
        self.amount
    }

    fn text(&mut self, text: &[u8], nul: Nul) {
        let is_blank = is_blank(text);
        if self.has_frames || is_blank && self.open.len() == 1 {
            return;
        }
        self.may_have_frames &= is_blank || text.iter().all(|&byte| byte == 0);
        self.begin_body();
        let shown = self.open.enclosing().shown;
        if shown.is_text_shown() {
            self.amount.shown += if is_blank { 0 } else { text.len() };
            let top = self.open.top();
            let is_html = top.space == Space::Html || top.integration != Integration::None;
            self.hand_out(text, is_html && nul == Nul::InData);
        } else if shown.by_attribute && !is_blank {
            self.amount.hidden += text.len();
        }
    }

    /// Hands out text that is shown.
    fn hand_out(&mut self, mut text: &[u8], without_nul: bool) {
        self.is_broken = false;
        while let Some(at) = memchr2(b'\r', 0, text) {
            (self.take)(Piece::Text(&text[..at]));
            match text[at] {
                b'\r' if text.get(at + 1) != Some(&b'\n') => (self.take)(Piece::Text(b"\n")),
                0 if !without_nul => (self.take)(Piece::Text("\u{fffd}".as_bytes())),
                _ => {}
            }
            text = &text[at + 1..];
        }
        (self.take)(Piece::Text(text));
    }

    /// Hands out what parts words.
    fn part(&mut self, gap: Gap) {
        match gap {
            Gap::None => {}
            Gap::Box => (self.take)(Piece::Text(b" ")),
            Gap::Block if self.is_broken => {}
            Gap::Block => {
                self.is_broken = true;
                (self.take)(Piece::Break);
            }
        }
    }

    /// With the first thing that may not stand in a head, the body begins.
    fn begin_body(&mut self) {
        if self.open.len() == 1 {
            let (name, traits) = (BODY, Traits::of(BODY));
            let (space, integration, own) = (Space::Html, Integration::None, Showing::AS_PARENT);
            self.open.push(New {
                name,
                traits,
                space,
                integration,
                own,
                gap: Gap::None,
            });
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let top = self.open.top();
        let is_html = match top.integration {
            _ if top.space == Space::Html => true,
            Integration::Html => true,
            Integration::Text => !matches!(tag.name, MGLYPH | MALIGNMARK),
            Integration::None => {
                tag.name == SVG && top.name == ANNOTATION_XML.within(Space::MathMl)
            }
        };
        let traits = Traits::of(tag.name);
        if is_html {
            self.start_html(tag, traits);
        } else if traits.any(Traits::BREAKOUT) || tag.name == FONT && tag.attributes.font {
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

    fn open_foreign(&mut self, tag: &Tag<'_>, space: Space) {
        let integration = match (space, tag.name) {
            (Space::MathMl, MI | MO | MN | MS | MTEXT) => Integration::Text,
            (Space::MathMl, ANNOTATION_XML) if tag.attributes.annotates_in_html() => {
                Integration::Html
            }
            (Space::Svg, FOREIGN_OBJECT | DESC | TITLE) => Integration::Html,
            _ => Integration::None,
        };
        let special = integration != Integration::None
            || (space, tag.name) == (Space::MathMl, ANNOTATION_XML);
        let traits = if special {
            Traits::SPECIAL
        } else {
            Traits::NONE
        };
        let own = self.foreign_showing(tag, space);
        let own = self.by_style(own, &tag.attributes);
        let name = tag.name.within(space);
        self.push(New {
            name,
            traits,
            space,
            integration,
            own,
            gap: Gap::Box,
        });
        if tag.self_closing {
            self.pop();
        }
    }

    fn foreign_showing(&self, tag: &Tag<'_>, space: Space) -> Showing {
        let parent = self.open.top().name;
        let mut own = Showing::AS_PARENT;
        match (space, tag.name) {
            (Space::MathMl, ANNOTATION | ANNOTATION_XML) => {
                own.displayed = parent != SEMANTICS.within(Space::MathMl);
            }
            (Space::MathMl, MPHANTOM) => own.visible = Some(false),
            (Space::MathMl, _) => {}
            (_, SVG) => own.drawn = Some(false),
            (_, TEXT | FOREIGN_OBJECT) => own.drawn = Some(true),
            (
                _,
                TITLE | DESC | METADATA | STYLE | SCRIPT | DEFS | SYMBOL | CLIP_PATH | MASK
                | PATTERN | MARKER | LINEAR_GRADIENT | RADIAL_GRADIENT | FILTER,
            ) => own.displayed = false,
            _ => {}
        }
        own.displayed &= !(space == Space::Svg && tag.attributes.has_no_display());
        own
    }

    /// What an element says of being shown, with what its inline style says.
    fn by_style(&self, own: Showing, attributes: &Attributes<'_>) -> Showing {
        if self.hiding == Hiding::Off {
            return own;
        }
        let style = attributes.style();
        Showing {
            displayed: style.displayed.unwrap_or(own.displayed),
            visible: style.visible.or(own.visible),
            ..own
        }
    }

    fn html_showing(&self, tag: &Tag<'_>, traits: Traits) -> Showing {
        let (attributes, hides) = (&tag.attributes, self.hiding == Hiding::ByAttributes);
        let unshown = match tag.name {
            OBJECT => attributes.data,
            TEMPLATE => !attributes.is_shadow_root(),
            _ => traits.any(Traits::UNSHOWN),
        };
        let is_closed = tag.name == DIALOG && !attributes.open || attributes.popover;
        let displayed = !(is_closed || hides && attributes.hidden);
        let own = self.by_style(
            Showing {
                displayed,
                ..Showing::AS_PARENT
            },
            attributes,
        );
        Showing {
            displayed: own.displayed && !unshown,
            ..own
        }
    }

    /// Opens an element of HTML.
    fn open_html(&mut self, tag: &Tag<'_>, traits: Traits) {
        let own = self.html_showing(tag, traits);
        let gap = gap_of(traits);
        let (name, space, integration) = (tag.name, Space::Html, Integration::None);
        if traits.any(Traits::VOID) {
            if own.displayed && self.open.enclosing().shown.displayed {
                self.part(gap);
            }
            return;
        }
        self.push(New {
            name,
            traits,
            space,
            integration,
            own,
            gap,
        });
        if self.syntax == Syntax::Xhtml && tag.self_closing {
            self.pop();
        }
    }

    fn push(&mut self, mut new: New) {
        if self.open.is_full() {
            self.pop();
        }
        let is_apart = new.space == Space::Html && self.also_hidden.contains(&new.name);
        let shown = self.open.enclosing().shown;
        if !(shown.displayed && (new.own.displayed || is_apart)) {
            new.gap = Gap::None;
        }
        new.own.by_attribute = !is_apart && is_hidden_by_attribute(&new);
        new.own.displayed &= !is_apart;
        self.templates += usize::from(new.name == TEMPLATE);
        self.part(new.gap);
        self.open.push(new);
    }

    fn pop(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.templates -= usize::from(open.name == TEMPLATE);
        self.part(open.gap);
    }

    /// Closes all elements from this one.
    fn pop_from(&mut self, index: usize) {
        while self.open.len() > index.max(1) {
            self.pop();
        }
    }

    /// Closes the elements that need no end tag, but for one.
    fn end_implied(&mut self, but: Name) {
        while self.open.top().traits.any(Traits::IMPLIED) && self.open.top().name != but {
            self.pop();
        }
    }

    #[inline]
    fn end_paragraph(&mut self) {
        if let Some(index) = self.open.paragraph() {
            self.pop_from(index);
        }
    }

    fn start_html(&mut self, tag: &Tag<'_>, traits: Traits) {
        if self.has_frames {
            if tag.name == NOFRAMES {
                self.tokens.raw(NOFRAMES);
            }
            return;
        }
        if matches!(tag.name, HTML | HEAD) {
            return;
        }
        if tag.name == FRAMESET {
            return self.start_frames();
        }
        if self.open.len() == 1 && !traits.any(Traits::IN_HEAD) {
            self.begin_body();
        }
        self.may_have_frames &= !traits.any(Traits::NO_FRAMES);
        if tag.name == A {
            (self.take)(Piece::Link(false));
        }
        if traits.any(Traits::RAW) {
            return self.raw(tag, traits);
        }
        if traits.any(Traits::PART) {
            return self.start_part(tag, traits);
        }
        if traits.any(Traits::ENDS_P) {
            self.end_paragraph_before(tag.name);
        }
        self.start_in_body(tag, traits);
        if tag.name == A && tag.attributes.href {
            (self.take)(Piece::Link(true));
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
        let content = self.tokens.raw(tag.name);
        if traits.any(Traits::UNSHOWN) {
            self.open_void(gap_of(traits));
            return;
        }
        let own = self.html_showing(tag, traits);
        let (name, space, integration) = (tag.name, Space::Html, Integration::None);
        self.push(New {
            name,
            traits,
            space,
            integration,
            own,
            gap: gap_of(traits),
        });
        if tag.name == TEXTAREA {
            references::decode(content, Within::Text, |text| {
                self.text(text, Nul::InRawText)
            });
        } else {
            self.text(content, Nul::InRawText);
        }
        self.pop();
    }

    /// A gap where an element has no content that counts.
    fn open_void(&mut self, gap: Gap) {
        if self.open.enclosing().shown.displayed {
            self.part(gap);
        }
    }

    /// A part of a table. Outside of tables, no such element is opened.
    fn start_part(&mut self, tag: &Tag<'_>, traits: Traits) {
        let table = self.open.table();
        if table == 0 {
            return self.open_void(Gap::Block);
        }
        let kept = match tag.name {
            TR => table + usize::from(self.is_section(table + 1)),
            TD | TH if self.is_section(table + 1) => {
                table
                    + 1
                    + usize::from(self.open.len() > table + 2 && self.open.at(table + 2).name == TR)
            }
            _ => table,
        };
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

    fn is_section(&self, index: usize) -> bool {
        self.open.len() > index && matches!(self.open.at(index).name, TBODY | THEAD | TFOOT)
    }

    /// Opens an element that has no tag.
    fn open_bare(&mut self, name: Name) {
        self.open_html(
            &Tag {
                name,
                self_closing: false,
                attributes: Attributes::default(),
            },
            Traits::of(name),
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

    fn start_in_body(&mut self, tag: &Tag<'_>, traits: Traits) {
        match tag.name {
            BODY | FRAME => return,
            MATH => return self.open_foreign(tag, Space::MathMl),
            SVG => return self.open_foreign(tag, Space::Svg),
            PLAINTEXT => {
                self.open_html(tag, traits);
                let rest = self.tokens.rest();
                return self.text(rest, Nul::InRawText);
            }
            FORM if self.in_form && self.templates == 0 => return,
            FORM => self.in_form |= self.templates == 0,
            INPUT => self.may_have_frames &= tag.attributes.is_of_hidden_type(),
            SELECT if self.open.in_scope(SELECT).is_some() => return self.end_in_scope(SELECT),
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
            _ if traits.any(Traits::HEADING) && self.open.top().traits.any(Traits::HEADING) => {
                self.pop()
            }
            _ => {}
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
            (self.take)(Piece::Link(false));
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
        let traits = Traits::of(name);
        match name {
            HTML | HEAD | BODY | COL | COLGROUP => {}
            BR => {
                self.begin_body();
                self.open_void(Gap::Block);
            }
            _ if self.open.len() == 1 => {}
            P if self.open.paragraph().is_none() => self.open_void(Gap::Block),
            FORM => self.end_form(),
            _ if traits.any(Traits::FORMATTING) => self.end_formatting(name),
            _ => {
                if let Some(index) = self.reached(name, traits) {
                    self.pop_from(index);
                }
            }
        }
    }

    /// The element that an end tag closes, with all that is in it.
    fn reached(&self, name: Name, traits: Traits) -> Option<usize> {
        match name {
            P => self.open.paragraph(),
            TEMPLATE => self.open.template(),
            LI => self.open.item_in_scope(),
            TABLE => self.open.in_table_scope(name),
            _ if traits.any(Traits::PART) => self.open.in_table_scope(name),
            _ if traits.any(Traits::HEADING) => self.open.heading_in_scope(),
            _ if traits.any(Traits::ENDS_SCOPED) => self.open.in_scope(name),
            _ => self.open.within_special(name),
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
            self.part(self.open.at(index).gap);
            self.open.make_nameless(index);
        }
    }

    /// The end of an element that formats text. Blocks in it stay open.
    fn end_formatting(&mut self, name: Name) {
        let Some(index) = self
            .open
            .in_scope(name)
            .or_else(|| self.open.within_special(name))
        else {
            return;
        };
        let Some(block) = self.open.last_block(index) else {
            return self.pop_from(index);
        };
        if block.is_innermost {
            self.pop_from(block.index + 1);
        }
        self.open.take_away(index, block.index);
    }
}

fn is_hidden_by_attribute(new: &New) -> bool {
    !new.own.displayed
        && !new.traits.any(Traits::UNSHOWN)
        && new.name != TEMPLATE
        && new.space == Space::Html
        || new.own.visible == Some(false)
}

fn gap_of(traits: Traits) -> Gap {
    if traits.any(Traits::BLOCK) {
        Gap::Block
    } else if traits.any(Traits::BOX) {
        Gap::Box
    } else {
        Gap::None
    }
}
