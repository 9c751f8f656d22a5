//! The attributes of a tag that decide what is shown, and the inline style among them.

use std::borrow::Cow;

use memchr::memmem;

use super::names::Name;
use super::references::{self, Within};

/// What the attributes of a start tag say. Of two with one name, the first counts.
#[derive(Default)]
pub(super) struct Attributes<'a> {
    /// `hidden`, also `hidden=until-found`.
    pub(super) hidden: bool,
    /// `popover`: not shown before somebody asks for it.
    pub(super) popover: bool,
    /// `open`, of a dialog.
    pub(super) open: bool,
    /// The address of a link.
    pub(super) href: bool,
    /// `data`: what an object shows in place of its content.
    pub(super) data: bool,
    /// `color`, `face` or `size`, with which a `font` ends SVG and MathML.
    pub(super) font: bool,
    style: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    shadow_root: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    display: Option<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    #[inline]
    pub(super) fn add(&mut self, name: Name, value: &'a [u8]) {
        const HIDDEN: Name = Name::of("hidden");
        const POPOVER: Name = Name::of("popover");
        const OPEN: Name = Name::of("open");
        const HREF: Name = Name::of("href");
        const XLINK_HREF: Name = Name::of("xlink:href");
        const DATA: Name = Name::of("data");
        const COLOR: Name = Name::of("color");
        const FACE: Name = Name::of("face");
        const SIZE: Name = Name::of("size");
        const STYLE: Name = Name::of("style");
        const ENCODING: Name = Name::of("encoding");
        const SHADOW_ROOT: Name = Name::of("shadowrootmode");
        const KIND: Name = Name::of("type");
        const DISPLAY: Name = Name::of("display");
        match name {
            HIDDEN => self.hidden = true,
            POPOVER => self.popover = true,
            OPEN => self.open = true,
            HREF | XLINK_HREF => self.href = true,
            DATA => self.data = true,
            COLOR | FACE | SIZE => self.font = true,
            STYLE => _ = self.style.get_or_insert(value),
            ENCODING => _ = self.encoding.get_or_insert(value),
            SHADOW_ROOT => _ = self.shadow_root.get_or_insert(value),
            KIND => _ = self.kind.get_or_insert(value),
            DISPLAY => _ = self.display.get_or_insert(value),
            _ => {}
        }
    }

    /// Whether a template is a shadow root, which is shown.
    pub(super) fn is_shadow_root(&self) -> bool {
        is_one_of(self.shadow_root, &["open", "closed"])
    }

    /// Whether MathML has HTML in this annotation.
    pub(super) fn annotates_in_html(&self) -> bool {
        is_one_of(self.encoding, &["text/html", "application/xhtml+xml"])
    }

    /// Whether an input is not shown.
    pub(super) fn is_of_hidden_type(&self) -> bool {
        is_one_of(self.kind, &["hidden"])
    }

    /// Whether SVG is not shown.
    pub(super) fn has_no_display(&self) -> bool {
        is_one_of(self.display, &["none"])
    }

    pub(super) fn style(&self) -> Style {
        self.style
            .map_or_else(Style::default, |style| Style::of(&decoded(style)))
    }
}

fn is_one_of(value: Option<&[u8]>, known: &[&str]) -> bool {
    value.is_some_and(|value| {
        let value = decoded(value);
        known
            .iter()
            .any(|known| value.eq_ignore_ascii_case(known.as_bytes()))
    })
}

fn decoded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'&') {
        return Cow::Borrowed(value);
    }
    let mut decoded = Vec::with_capacity(value.len());
    references::decode(value, Within::Attribute, |more| {
        decoded.extend_from_slice(more)
    });
    Cow::Owned(decoded)
}

/// What an inline style says of being shown. `None` where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// Whether the element has a box.
    pub(super) displayed: Option<bool>,
    /// Whether the box can be seen.
    pub(super) visible: Option<bool>,
}

impl Style {
    fn of(style: &[u8]) -> Self {
        if memmem::find(style, b"/*").is_some() {
            return Self::without_comments(&without_comments(style));
        }
        Self::without_comments(style)
    }

    fn without_comments(style: &[u8]) -> Self {
        let [mut displayed, mut content, mut visible] = [Said::default(); 3];
        for declaration in Declarations(style) {
            let Some(colon) = declaration.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let (name, value) = (declaration[..colon].trim_ascii(), &declaration[colon + 1..]);
            if name.eq_ignore_ascii_case(b"display") {
                displayed.say(value, is_displayed);
            } else if name.eq_ignore_ascii_case(b"content-visibility") {
                content.say(value, is_visible);
            } else if name.eq_ignore_ascii_case(b"visibility") {
                visible.say(value, is_visible);
            }
        }
        let displayed = if content.is == Some(false) {
            content.is
        } else {
            displayed.is
        };
        Self {
            displayed,
            visible: visible.is,
        }
    }
}

/// What declarations say of one property. The last one counts, and before all those that are important.
#[derive(Clone, Copy, Default)]
struct Said {
    is: Option<bool>,
    important: bool,
}

impl Said {
    fn say(&mut self, value: &[u8], read: fn(&[u8]) -> Option<bool>) {
        let mut parts = value.splitn(2, |&byte| byte == b'!');
        let value = parts
            .next()
            .unwrap_or_default()
            .trim_ascii()
            .to_ascii_lowercase();
        let important = parts
            .next()
            .map(|part| part.trim_ascii().eq_ignore_ascii_case(b"important"));
        // What follows `!` is `important`, or the declaration is none.
        let (Some(is), true) = (read(&value), important != Some(false)) else {
            return;
        };
        let important = important.is_some();
        if important || !self.important {
            (self.is, self.important) = (Some(is), important);
        }
    }
}

/// A value that nobody knows says nothing.
fn is_displayed(value: &[u8]) -> Option<bool> {
    const KNOWN: [&str; 15] = [
        "-moz-",
        "-ms-",
        "-webkit-",
        "block",
        "contents",
        "flex",
        "flow",
        "grid",
        "inherit",
        "initial",
        "inline",
        "list-item",
        "ruby",
        "table",
        "unset",
    ];
    match value {
        b"none" => Some(false),
        value => KNOWN
            .iter()
            .any(|known| value.starts_with(known.as_bytes()))
            .then_some(true),
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
        let (mut quote, mut depth, mut escaped) = (None, 0_u32, false);
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

/// Whether there is only white space.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|&byte| is_space(byte))
}

/// Whether a byte parts what is within a tag.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | 0x0C)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displayed(style: &str) -> Option<bool> {
        Style::of(style.as_bytes()).displayed
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
        let said = |style: &str| {
            let style = Style::of(style.as_bytes());
            (style.displayed, style.visible)
        };
        assert_eq!(said("visibility: hidden"), (None, Some(false)));
        assert_eq!(said("visibility:visible"), (None, Some(true)));
        assert_eq!(
            said("content-visibility:hidden;display:block"),
            (Some(false), None)
        );
        assert_eq!(said("content-visibility:auto"), (None, None));
    }

    #[test]
    fn the_first_of_two_attributes_counts() {
        let mut attributes = Attributes::default();
        attributes.add(Name::of("STYLE"), b"display&colon;none");
        attributes.add(Name::of("style"), b"display:block");
        assert_eq!(attributes.style().displayed, Some(false));
    }
}
