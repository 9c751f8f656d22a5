//! Whether an element is shown: by what the HTML standard says of its name, by its attributes, and by its inline style.

use memchr::memmem;

use super::names::{Name, Space, Trait, Traits, names};
use super::tokenizer::{Attributes, Flag, Tag, is_one_of};

names! {
    ANNOTATION = "annotation", ANNOTATION_XML = "annotation-xml", CLIP_PATH = "clippath", DEFS = "defs",
    DESC = "desc", DIALOG = "dialog", FILTER = "filter", FONT = "font", FOREIGN_OBJECT = "foreignobject", INPUT = "input",
    LINEAR_GRADIENT = "lineargradient", MARKER = "marker", MASK = "mask", METADATA = "metadata",
    MPHANTOM = "mphantom", NOSCRIPT = "noscript", OBJECT = "object", PATTERN = "pattern", RADIAL_GRADIENT = "radialgradient",
    SCRIPT = "script", SEMANTICS = "semantics", STYLE = "style", SVG = "svg", SYMBOL = "symbol",
    TEMPLATE = "template", TEXT = "text", TITLE = "title",
}

/// What separates words. Of two, the last of these counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    #[default]
    None,
    /// A box within a line.
    Box,
    /// A block.
    Block,
}

impl From<Traits> for Gap {
    fn from(traits: Traits) -> Self {
        if traits.has(Trait::Block) {
            Self::Block
        } else if traits.has(Trait::Box) {
            Self::Box
        } else {
            Self::None
        }
    }
}

/// Which attributes hide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hiding {
    /// All that browsers know without a style sheet.
    ByAttributes,
    /// Only those of dialogs and popovers, which somebody has to open.
    Off,
    /// All, as in a browser without scripts, which shows what is there for it.
    WithoutScripts,
}

/// What an element says of being shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Showing {
    /// Whether it has a box. What has none is not shown, nor is anything in it.
    pub(super) displayed: bool,
    /// Whether what is in the box is shown. In a `video`, it is for browsers that show none.
    pub(super) has_content: bool,
    /// What separates words at its begin and at its end.
    pub(super) gap: Gap,
    /// Whether it floats. A letter that floats begins a word.
    pub(super) floats: bool,
    /// Whether its style lays out each element in it as a block.
    pub(super) has_blocks: bool,
    /// Whether the box can be seen. In a box that cannot be seen, another one may be seen.
    pub(super) visible: Option<bool>,
    /// Whether text in it is drawn. In SVG, only that of `text` and what is in it is.
    drawn: Option<bool>,
    /// Whether line breaks of the page are shown in it.
    is_preformatted: bool,
    /// Whether only an attribute hides it.
    pub(super) by_attribute: bool,
    /// Whether it is beside the main content of the page.
    pub(super) is_apart: bool,
}

/// As what it is in.
impl Default for Showing {
    fn default() -> Self {
        Self {
            displayed: true,
            has_content: true,
            gap: Gap::None,
            floats: false,
            has_blocks: false,
            visible: None,
            drawn: None,
            is_preformatted: false,
            by_attribute: false,
            is_apart: false,
        }
    }
}

impl Showing {
    /// What an element of HTML says.
    pub(super) fn html(tag: &Tag<'_>, traits: Traits, hiding: Hiding) -> Self {
        let attributes = &tag.attributes;
        let is_unshown = match tag.name {
            OBJECT => attributes.has(Flag::Data),
            // A shadow root is shown.
            TEMPLATE => {
                !is_one_of(attributes.shadow_root, &["open", "closed"])
                    && !attributes.has(Flag::LateTemplate)
            }
            // Formulas for MathJax.
            SCRIPT => !attributes.is_of_type(&["math/tex", "math/asciimath", "math/mml"]),
            NOSCRIPT => hiding != Hiding::WithoutScripts,
            _ => traits.has(Trait::Unshown),
        };
        let is_closed = tag.name == DIALOG && !attributes.has(Flag::Open)
            || attributes.has(Flag::Popover)
            || attributes.has(Flag::DialogRole) && attributes.has(Flag::AriaHidden);
        let is_hidden =
            hiding != Hiding::Off && attributes.has(Flag::Hidden) && !attributes.is_revealed();

        let mut own = Self {
            displayed: !(is_closed || is_hidden),
            has_content: !is_unshown,
            is_preformatted: traits.has(Trait::Preformatted),
            ..Self::default()
        };
        own = own.styled(attributes, traits.has(Trait::Block), hiding);
        // The letters that forums strew in. In other elements it only closes the gaps between those in them.
        if tag.name == FONT && attributes.style().is_some_and(|style| has_no_size(&style)) {
            own.displayed &= hiding == Hiding::Off;
        }
        own.displayed &= tag.name != INPUT || !is_one_of(attributes.kind, &["hidden"]);
        own
    }

    /// What an element of SVG or MathML says that is in `parent`.
    pub(super) fn foreign(tag: &Tag<'_>, space: Space, parent: Name, hiding: Hiding) -> Self {
        let mut own = Self::default();
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
        own.displayed &= space != Space::Svg || !is_one_of(tag.attributes.display, &["none"]);
        own.styled(&tag.attributes, false, hiding)
    }

    /// The same, with what the inline style says. A block that cannot be seen, and has its place among the others,
    /// would leave a hole in the page. So its script shows it.
    fn styled(mut self, attributes: &Attributes<'_>, is_block: bool, hiding: Hiding) -> Self {
        let Some(style) = attributes.style() else {
            return self;
        };
        let style = Style::parse(&style);
        self.gap = style.gap;
        self.floats = style.floats;
        self.has_blocks = style.has_blocks;
        if hiding != Hiding::Off && !attributes.is_revealed() {
            self.displayed = style.displayed.unwrap_or(self.displayed);
            let leaves_hole = is_block && style.is_in_place && style.visible == Some(false);
            self.visible = style.visible.filter(|_| !leaves_hole).or(self.visible);
        }
        self
    }
}

/// Whether the text of an element is shown, by what the element says and those around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) displayed: bool,
    visible: bool,
    drawn: bool,
    /// Whether line breaks of the page are shown.
    pub(super) is_preformatted: bool,
    /// Whether an attribute hides it that is in nothing hidden otherwise.
    pub(super) by_attribute: bool,
}

/// As the root of a page: shown.
impl Default for Shown {
    fn default() -> Self {
        Self {
            displayed: true,
            visible: true,
            drawn: true,
            is_preformatted: false,
            by_attribute: false,
        }
    }
}

impl Shown {
    pub(super) fn within(self, own: Showing) -> Self {
        Self {
            displayed: self.displayed && own.displayed && own.has_content,
            visible: own.visible.unwrap_or(self.visible),
            drawn: own.drawn.unwrap_or(self.drawn),
            is_preformatted: self.is_preformatted || own.is_preformatted,
            by_attribute: self.by_attribute || self.displayed && own.by_attribute,
        }
    }

    #[inline]
    pub(super) fn is_text_shown(self) -> bool {
        self.displayed && self.visible && self.drawn
    }
}

/// What an inline style says of being shown. `None` where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    /// Whether the element has a box.
    displayed: Option<bool>,
    /// Whether the box can be seen.
    visible: Option<bool>,
    /// Whether the box is a block, and so separates words.
    gap: Gap,
    floats: bool,
    /// Whether each element in it is a block.
    has_blocks: bool,
    /// Whether the box has its place among the others, and takes some.
    is_in_place: bool,
}

impl Style {
    fn parse(style: &[u8]) -> Self {
        if memmem::find(style, b"/*").is_some() {
            return Self::parse_plain(&without_comments(style));
        }
        Self::parse_plain(style)
    }

    /// Of a style without comments.
    fn parse_plain(style: &[u8]) -> Self {
        let mut displayed = Property::UNSAID;
        let mut content = Property::UNSAID;
        let mut visible = Property::UNSAID;
        let mut position = Property::UNSAID;
        let mut float = Property::UNSAID;
        let mut fades_in = false;
        let mut has_no_size = false;
        for declaration in Declarations(style) {
            let Some(colon) = declaration.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let name = declaration[..colon].trim_ascii();
            let value = &declaration[colon + 1..];
            if name.eq_ignore_ascii_case(b"display") {
                displayed.declare(value, display);
            } else if name.eq_ignore_ascii_case(b"content-visibility") {
                content.declare(value, is_visible);
            } else if name.eq_ignore_ascii_case(b"visibility") {
                visible.declare(value, is_visible);
            } else if name.eq_ignore_ascii_case(b"position") {
                position.declare(value, is_out_of_line);
            } else if name.eq_ignore_ascii_case(b"float") {
                float.declare(value, is_float);
            } else if SIZES.iter().any(|size| name.eq_ignore_ascii_case(size)) {
                has_no_size |= is_nothing(value.trim_ascii()) == Some(true);
            } else if name.eq_ignore_ascii_case(b"opacity")
                || name.eq_ignore_ascii_case(b"animation-name")
            {
                fades_in = true;
            }
        }
        let is_content_hidden = content.value == Some(false);
        let (is_displayed, display) = displayed.value.unzip();
        let display = display.unwrap_or(Display::Inline);
        let is_out_of_line = position.value == Some(true);
        let is_block = display == Display::Block || display == Display::Blocks || is_out_of_line;
        // Scripts for effects hide so what is to be seen once somebody gets there.
        if fades_in && !is_out_of_line && visible.value == Some(false) {
            visible.value = None;
        }
        Self {
            displayed: if is_content_hidden {
                Some(false)
            } else {
                is_displayed
            },
            visible: visible.value,
            gap: if is_block { Gap::Block } else { Gap::None },
            floats: float.value == Some(true) && !is_out_of_line,
            has_blocks: matches!(display, Display::Blocks | Display::InlineBlocks),
            is_in_place: !is_out_of_line && !has_no_size,
        }
    }
}

/// What a box of the size 0 has none of.
const SIZES: [&[u8]; 4] = [b"height", b"max-height", b"width", b"font-size"];

/// What declarations say of one property. The last one counts, and before all those that are important.
#[derive(Clone, Copy)]
struct Property<T> {
    value: Option<T>,
    important: bool,
}

impl<T> Property<T> {
    const UNSAID: Self = Self {
        value: None,
        important: false,
    };

    fn declare(&mut self, value: &[u8], read: fn(&[u8]) -> Option<T>) {
        let mark = memchr::memchr(b'!', value);
        let important = mark.is_some();
        // What follows `!` is `important`, or the declaration is none.
        if let Some(at) = mark
            && !value[at + 1..]
                .trim_ascii()
                .eq_ignore_ascii_case(b"important")
        {
            return;
        }
        let value = &value[..mark.unwrap_or(value.len())];
        let Some(value) = read(&value.trim_ascii().to_ascii_lowercase()) else {
            return;
        };
        if important || !self.important {
            self.value = Some(value);
            self.important = important;
        }
    }
}

/// How a box and the elements in it are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Display {
    Inline,
    Block,
    /// A block of blocks.
    Blocks,
    /// Blocks in a box that stands in a line.
    InlineBlocks,
}

/// Whether there is a box, and how it is laid out. A value that nobody knows says nothing.
fn display(value: &[u8]) -> Option<(bool, Display)> {
    const KNOWN: [(&str, Display); 22] = [
        ("-moz-box", Display::Blocks),
        ("-ms-flexbox", Display::Blocks),
        ("-ms-grid", Display::Blocks),
        ("-webkit-box", Display::Blocks),
        ("-webkit-flex", Display::Blocks),
        ("-moz-", Display::Inline),
        ("-ms-", Display::Inline),
        ("-webkit-", Display::Inline),
        ("block", Display::Block),
        ("contents", Display::Inline),
        ("flex", Display::Blocks),
        ("flow", Display::Block),
        ("grid", Display::Blocks),
        ("inherit", Display::Inline),
        ("initial", Display::Inline),
        ("inline-flex", Display::InlineBlocks),
        ("inline-grid", Display::InlineBlocks),
        ("inline", Display::Inline),
        ("list-item", Display::Block),
        ("ruby", Display::Inline),
        ("table", Display::Block),
        ("unset", Display::Inline),
    ];
    if value == b"none" {
        return Some((false, Display::Inline));
    }
    let mut known = KNOWN.iter();
    let (_, display) = known.find(|(known, _)| {
        let rest = value.strip_prefix(known.as_bytes());
        let ends_there = |rest: &[u8]| matches!(rest.first(), None | Some(b'-' | b' '));
        rest.is_some_and(|rest| known.ends_with('-') || ends_there(rest))
    })?;
    Some((true, *display))
}

/// Whether a style has `font-size: 0`, in any unit.
fn has_no_size(style: &[u8]) -> bool {
    let mut size = Property::UNSAID;
    for declaration in Declarations(style) {
        let mut parts = declaration.splitn(2, |&byte| byte == b':');
        let name = parts.next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"font-size") {
            size.declare(parts.next().unwrap_or_default(), is_nothing);
        }
    }
    size.value == Some(true)
}

/// Whether a length is 0.
fn is_nothing(length: &[u8]) -> Option<bool> {
    let digits = length
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    let number = &length[..digits];
    Some(number.contains(&b'0') && number.iter().all(|byte| b"0.".contains(byte)))
}

/// Whether a box is taken out of its line. Then it is a block (CSS 2.1, 9.7).
fn is_out_of_line(value: &[u8]) -> Option<bool> {
    match value {
        b"absolute" | b"fixed" => Some(true),
        b"static" | b"relative" | b"sticky" | b"initial" => Some(false),
        _ => None,
    }
}

fn is_float(value: &[u8]) -> Option<bool> {
    match value {
        b"left" | b"right" | b"inline-start" | b"inline-end" => Some(true),
        b"none" | b"initial" => Some(false),
        _ => None,
    }
}

fn is_visible(value: &[u8]) -> Option<bool> {
    match value {
        b"hidden" | b"collapse" => Some(false),
        b"visible" | b"auto" | b"initial" => Some(true),
        _ => None,
    }
}

/// A style with a space in place of each comment.
fn without_comments(mut style: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(style.len());
    while let Some(begin) = memmem::find(style, b"/*") {
        rest.extend_from_slice(&style[..begin]);
        rest.push(b' ');
        let comment = &style[begin + 2..];
        style = memmem::find(comment, b"*/").map_or(&[], |end| &comment[end + 2..]);
    }
    rest.extend_from_slice(style);
    rest
}

/// The declarations of a style: what semicolons part that are in no string and between no brackets.
struct Declarations<'a>(&'a [u8]);

impl<'a> Iterator for Declarations<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let mut quote = None;
        let mut depth = 0_u32;
        let mut escaped = false;
        let ends = self.0.iter().position(|&byte| {
            let is_escaped = escaped;
            escaped = byte == b'\\' && !is_escaped;
            match (quote, byte) {
                _ if is_escaped => {}
                (Some(open), _) => quote = Some(open).filter(|&open| open != byte),
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'(' | b'[' | b'{') => depth += 1,
                (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                (None, _) => return byte == b';' && depth == 0,
            }
            false
        });
        let end = ends.unwrap_or(self.0.len());
        let declaration = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Some(declaration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displayed(style: &str) -> Option<bool> {
        Style::parse(style.as_bytes()).displayed
    }

    fn said(style: &str) -> (Option<bool>, Option<bool>) {
        let style = Style::parse(style.as_bytes());
        (style.displayed, style.visible)
    }

    #[test]
    fn a_style_hides_by_its_own_declaration_only() {
        for style in [
            "display:none",
            " DISPLAY : None ;color:red",
            "color:red;display:none!important",
            "display:block;display:none",
            "display:none ! Important; display:block",
            "display/* x */:/* y */none",
            "background:url(a;b) ; display: none",
            "content:';'; display: none",
            "display:none;display:nosuch",
            "display:none;display:blockx",
            "display:none;display:inlinex",
            ";;display:none;;",
        ] {
            assert_eq!(displayed(style), Some(false), "{style}");
        }
        for style in [
            "display:block",
            "display:none;display:inline-block",
            "display:none;display:flex !important",
        ] {
            assert_eq!(displayed(style), Some(true), "{style}");
        }
        for style in [
            "",
            "color:red",
            "--display:none",
            "background:url(display:none)",
            "content:'display:none'",
            "content:';display:none'",
            "/* display:none */",
            "/* ;display:none",
            "display:nonesuch",
            "display:none !nosuch",
            "x-display:none",
            "display none",
            "(;display:none",
        ] {
            assert_eq!(displayed(style), None, "{style}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_told_apart_from_what_has_no_box() {
        assert_eq!(said("visibility: hidden"), (None, Some(false)));
        assert_eq!(said("visibility:visible"), (None, Some(true)));
        assert_eq!(
            said("content-visibility:hidden;display:block"),
            (Some(false), None)
        );
        assert_eq!(said("content-visibility:auto"), (None, None));
    }
}
