//! The tokens of a page: text, references, start tags and end tags, as the HTML standard, section 13.2.5, cuts them.
//!
//! Comments, document types and what else is never shown are passed over. Of attributes, those are kept that decide
//! what is shown. Each byte is looked at a bounded number of times.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::{memchr, memchr2, memchr3, memmem};

use super::Syntax;
use super::names::{Name, names};
use super::references::{self, Characters, Within};

names! {
    ARTICLE = "article", BODY = "body", HONO_PART = "data-hono-target", MAIN = "main", SECTION = "section",
    A = "a", TEMPLATE = "template",
    ARIA_HIDDEN = "aria-hidden", ARIA_LABELLED_BY = "aria-labelledby", BLAZOR_PART = "blazor-component-id",
    DATA_NO_SNIPPET = "data-nosnippet", FONT = "font", FOR = "for", MARKO_PART = "m_", MJX_MATH = "mjx-math",
    NOBR = "nobr", OLD_SHADOW_ROOT = "shadowroot", SELECTED = "selected",
    CLASS = "class", COLOR = "color", DATA = "data", DISPLAY = "display", DY = "dy", ENCODING = "encoding",
    FACE = "face", HIDDEN = "hidden", HREF = "href", ID = "id", OPEN = "open", POPOVER = "popover",
    SCRIPT = "script", SHADOW_ROOT = "shadowrootmode",
    ROLE = "role", SIZE = "size", STYLE = "style", TYPE = "type", X = "x", XLINK_HREF = "xlink:href", Y = "y",
}

pub(super) enum Token<'a> {
    /// Text without references.
    Text(&'a [u8]),
    /// What stands for a reference.
    Reference(Characters),
    Start(Tag<'a>),
    End(Name),
}

pub(super) struct Tag<'a> {
    pub(super) name: Name,
    /// The name as it is written, with its prefix.
    pub(super) written: &'a [u8],
    pub(super) self_closing: bool,
    pub(super) attributes: Attributes<'a>,
}

pub(super) struct Tokenizer<'a> {
    page: &'a [u8],
    /// What is before it was read.
    at: usize,
    syntax: Syntax,
    /// The prefixes of XML that were looked up.
    prefixes: Vec<Prefix<'a>>,
    /// Whether KaTeX has written its formulas twice, whether scripts have the formulas of MathJax, and whether MathJax
    /// has written them as MathML too, once that was looked up.
    has_formulas_twice: Option<bool>,
    has_scripts_of_formulas: Option<bool>,
    has_assistive_formulas: Option<bool>,
    /// The names of parts of the page that come late, of which only the places are there before, once they were looked
    /// up.
    late_parts: Option<HashSet<&'a [u8]>>,
    /// The bytes that may still be looked at ahead of tags.
    looks_ahead: usize,
}

/// A prefix of names in XML.
struct Prefix<'a> {
    prefix: &'a [u8],
    /// Whether it is declared to stand for another language than those of a page.
    is_foreign: bool,
}

/// The most prefixes that are looked up. Each is looked for in the whole page.
const MOST_PREFIXES: usize = 32;

/// All looks ahead of tags together look at each byte so many times.
const LOOKS_AHEAD: usize = 4;

/// The namespaces of the languages of a page.
const NAMESPACES: [&[u8]; 3] = [
    b"http://www.w3.org/1999/xhtml",
    b"http://www.w3.org/2000/svg",
    b"http://www.w3.org/1998/Math/MathML",
];

impl<'a> Tokenizer<'a> {
    pub(super) fn new(page: &'a str, syntax: Syntax) -> Self {
        Self {
            page: page.as_bytes(),
            at: 0,
            syntax,
            prefixes: Vec::new(),
            has_formulas_twice: None,
            has_scripts_of_formulas: None,
            has_assistive_formulas: None,
            late_parts: None,
            looks_ahead: LOOKS_AHEAD * page.len(),
        }
    }

    /// The next token. In SVG and in MathML, and there only, HTML has sections of CDATA.
    pub(super) fn next(&mut self, in_foreign: bool) -> Option<Token<'a>> {
        loop {
            let rest = &self.page[self.at..];
            match rest.first()? {
                b'<' => {
                    if let Some(token) = self.markup(in_foreign) {
                        return Some(token);
                    }
                }
                b'&' => return Some(self.reference()),
                _ => {
                    let end = memchr2(b'<', b'&', rest).unwrap_or(rest.len());
                    self.at += end;
                    return Some(Token::Text(&rest[..end]));
                }
            }
        }
    }

    fn reference(&mut self) -> Token<'a> {
        let rest = &self.page[self.at..];
        match references::reference(rest, Within::Text) {
            Some((len, characters)) => {
                self.at += len;
                Token::Reference(characters)
            }
            None => {
                self.at += 1;
                Token::Text(&rest[..1])
            }
        }
    }

    /// What begins with `<`. `None` for what is passed over.
    fn markup(&mut self, in_foreign: bool) -> Option<Token<'a>> {
        let rest = &self.page[self.at..];
        match rest.get(1) {
            Some(byte) if byte.is_ascii_alphabetic() => {
                self.at += 1;
                self.tag().map(Token::Start)
            }
            Some(b'/') => match rest.get(2) {
                Some(byte) if byte.is_ascii_alphabetic() => {
                    self.at += 2;
                    self.tag().map(|tag| Token::End(tag.name))
                }
                Some(_) => self.pass_over(b">"),
                None => Some(self.text(2)),
            },
            Some(b'!') => self.declaration(in_foreign),
            Some(b'?') => {
                let end: &[u8] = if self.has_xml_end(rest) { b"?>" } else { b">" };
                self.pass_over(end)
            }
            _ => Some(self.text(1)),
        }
    }

    /// Whether an instruction ends as in XML, before the next markup. Those that Office writes end in `/>`.
    fn has_xml_end(&self, instruction: &[u8]) -> bool {
        let content = &instruction[2..];
        let content = &content[..memchr(b'<', content).unwrap_or(content.len())];
        self.syntax == Syntax::Xhtml && memmem::find(content, b"?>").is_some()
    }

    /// The next `len` bytes, as text.
    fn text(&mut self, len: usize) -> Token<'a> {
        let text = &self.page[self.at..self.at + len];
        self.at += len;
        Token::Text(text)
    }

    /// Goes on behind the next `end`.
    fn pass_over(&mut self, end: &[u8]) -> Option<Token<'a>> {
        let rest = &self.page[self.at..];
        self.at += memmem::find(rest, end).map_or(rest.len(), |at| at + end.len());
        None
    }

    fn declaration(&mut self, in_foreign: bool) -> Option<Token<'a>> {
        let rest = &self.page[self.at..];
        if rest.starts_with(b"<!--") {
            self.at += comment_len(rest);
            return None;
        }
        if rest.starts_with(CDATA) && (in_foreign || self.syntax == Syntax::Xhtml) {
            let (content, len) = cdata(rest);
            self.at += len;
            return Some(Token::Text(content));
        }
        if self.syntax == Syntax::Xhtml && rest.len() > 9 && begins_with(&rest[2..], b"doctype") {
            self.at += xml_doctype_len(rest);
            return None;
        }
        self.pass_over(b">")
    }

    /// The tag whose name begins here. `None` if the page ends within the tag, which is then no tag.
    fn tag(&mut self) -> Option<Tag<'a>> {
        let (name, written) = self.tag_name();
        let mut tag = Tag {
            name,
            written,
            self_closing: false,
            attributes: Attributes::default(),
        };
        loop {
            let byte = *self.page.get(self.at)?;
            match byte {
                b'>' => {
                    self.at += 1;
                    if tag.attributes.has(Flag::LineNumber) && self.has_only_numbers(tag.written) {
                        tag.attributes.set(Flag::Hidden);
                    }
                    if tag.attributes.has(Flag::Hidden) && self.holds_late_part(tag.written) {
                        tag.attributes.set(Flag::Revealed);
                    }
                    return Some(tag);
                }
                b'/' => {
                    self.at += 1;
                    tag.self_closing = self.page.get(self.at) == Some(&b'>');
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => {
                    let name = self.attribute_name();
                    let value = self.attribute_value();
                    self.add_attribute(&mut tag, name, value);
                }
            }
        }
    }

    /// Adds an attribute, with what it says of this element, or on this page.
    fn add_attribute(&mut self, tag: &mut Tag<'a>, name: Name, value: &'a [u8]) {
        let attributes = &mut tag.attributes;
        attributes.add(name, value);
        match name {
            ID | FOR if tag.name == TEMPLATE && self.late_parts().contains(value) => {
                attributes.set(Flag::LateTemplate);
            }
            // That forbids a quotation, and says nothing of what is the page. So rustdoc marks the number of a line.
            DATA_NO_SNIPPET => {
                let is_page = matches!(tag.name, ARTICLE | BODY | MAIN | SECTION);
                attributes.set_if(!is_page, Flag::Apart);
                attributes.set_if(tag.name == A, Flag::LineNumber);
            }
            _ if self.adds_to_text(tag.name, name, value) => attributes.set(Flag::Hidden),
            _ => {}
        }
    }

    /// Whether an attribute tells of an element that it only disturbs or repeats the text of a page.
    fn adds_to_text(&mut self, element: Name, name: Name, value: &[u8]) -> bool {
        match name {
            CLASS if element == FONT && has_class(value, b"jammer") => true,
            CLASS if has_class(value, b"MathJax_Preview") => true,
            CLASS => has_class(value, b"katex-html") && self.has_formulas_twice(),
            ID if value.starts_with(b"MathJax-Element-") && value.ends_with(b"-Frame") => {
                self.has_scripts_of_formulas()
            }
            ARIA_HIDDEN if matches!(element, MJX_MATH | NOBR) && value == b"true" => {
                self.has_assistive_formulas()
            }
            _ => false,
        }
    }

    /// Whether the page has MathML beside what KaTeX draws. Pages may have the latter alone, with a style sheet for
    /// both.
    fn has_formulas_twice(&mut self) -> bool {
        let page = self.page;
        *self.has_formulas_twice.get_or_insert_with(|| {
            let mut names = memmem::find_iter(page, b"katex-mathml");
            names.any(|at| at > 0 && page[at - 1] != b'.')
        })
    }

    /// Whether the page has scripts with formulas beside what MathJax draws. Of a page that was saved without scripts,
    /// what is drawn is all that there is.
    fn has_scripts_of_formulas(&mut self) -> bool {
        const TYPES: [&[u8]; 3] = [b"math/tex", b"math/mml", b"math/asciimath"];
        let page = self.page;
        *self.has_scripts_of_formulas.get_or_insert_with(|| {
            let mut types = TYPES.iter();
            types.any(|kind| memmem::find(page, kind).is_some())
        })
    }

    /// Whether MathJax has written the formulas as MathML too, beside what it draws.
    fn has_assistive_formulas(&mut self) -> bool {
        const NAMES: [&[u8]; 2] = [b"MJX_Assistive_MathML", b"<mjx-assistive-mml"];
        let page = self.page;
        *self.has_assistive_formulas.get_or_insert_with(|| {
            let mut names = NAMES.iter();
            names.any(|name| memmem::find(page, name).is_some())
        })
    }

    /// The parts of a page that come late, by the names of their places: `pl-` and the name for Solid, `<?marker` or
    /// `<?start` by the HTML standard.
    fn late_parts(&mut self) -> &HashSet<&'a [u8]> {
        let page = self.page;
        self.late_parts.get_or_insert_with(|| {
            let places = memmem::find_iter(page, b"pl-").filter(|&at| {
                let before = &page[..at];
                let before = before
                    .strip_suffix(b"\"")
                    .or(before.strip_suffix(b"'"))
                    .unwrap_or(before);
                before.ends_with(b"id=")
            });
            let names = places.map(|at| {
                let name = &page[at + b"pl-".len()..];
                let end = name
                    .iter()
                    .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
                &name[..end.unwrap_or(name.len())]
            });
            names.chain(marked_places(page)).collect()
        })
    }

    /// Whether what comes up to the end tag of this name are numbers, and tags. One of them is there.
    fn has_only_numbers(&mut self, name: &[u8]) -> bool {
        let rest = &self.page[self.at..];
        let rest = &rest[..rest.len().min(self.looks_ahead)];
        let mut depth = 1;
        let mut has_number = false;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'<' => {
                    let tag = &rest[at + 1..];
                    let (ends, tag) = match tag.strip_prefix(b"/") {
                        Some(tag) => (true, tag),
                        None => (false, tag),
                    };
                    if begins_with_name(tag, name) {
                        depth = if ends { depth - 1 } else { depth + 1 };
                    }
                    if depth == 0 {
                        break;
                    }
                    at += memchr(b'>', &rest[at..]).map_or(rest.len(), |end| end + 1);
                }
                b'0'..=b'9' => {
                    has_number = true;
                    at += 1;
                }
                byte if byte.is_ascii_whitespace() => at += 1,
                _ => break,
            }
        }
        self.looks_ahead -= at.min(rest.len());
        has_number && depth == 0
    }

    /// Whether a part of a page that comes late stands in an element that hides it until then: the first thing in it,
    /// or in a table around it. Preact says so of the element by its name.
    fn holds_late_part(&mut self, name: &[u8]) -> bool {
        /// A table, its body and a row.
        const DEPTH: usize = 3;
        const MOST_BYTES: usize = 256;
        const PREACT: &[u8] = b"preact-island";
        let mut rest = &self.page[self.at..];
        rest = &rest[..rest.len().min(MOST_BYTES)];
        if name.eq_ignore_ascii_case(PREACT) {
            return true;
        }
        for _ in 0..DEPTH {
            let Some(tag) = rest.trim_ascii_start().strip_prefix(b"<") else {
                return false;
            };
            let Some(end) = memchr(b'>', tag) else {
                return false;
            };
            let id = memmem::find(&tag[..end], b" id=").map(|at| &tag[at + b" id=".len()..end]);
            let id = id.map(|id| {
                id.strip_prefix(b"\"")
                    .or(id.strip_prefix(b"'"))
                    .unwrap_or(id)
            });
            let id = id.map(|id| &id[..memchr3(b'"', b'\'', b' ', id).unwrap_or(id.len())]);
            if begins_with(tag, PREACT) || id.is_some_and(is_late_part) {
                return true;
            }
            rest = &tag[end + 1..];
        }
        false
    }

    /// The name that begins here, and as it is written.
    fn tag_name(&mut self) -> (Name, &'a [u8]) {
        let begin = self.at;
        let mut name = Name::EMPTY;
        while let Some(&byte) = self.page.get(self.at) {
            match byte {
                byte if ends_name(byte) => break,
                // A prefix of XML only tells the namespace. Those of a page are known without it.
                b':' if self.syntax == Syntax::Xhtml && !self.is_foreign(begin) => {
                    name = Name::EMPTY;
                }
                byte => name = name.and(byte),
            }
            self.at += 1;
        }
        (name, &self.page[begin..self.at])
    }

    /// Whether the prefix from `begin` up to here is declared for another language than those of a page.
    fn is_foreign(&mut self, begin: usize) -> bool {
        let prefix = &self.page[begin..self.at];
        for known in &self.prefixes {
            if known.prefix == prefix {
                return known.is_foreign;
            }
        }
        if self.prefixes.len() == MOST_PREFIXES {
            return false;
        }
        let declaration = [b"xmlns:", prefix, b"="].concat();
        let value = match memmem::find(self.page, &declaration) {
            Some(at) => &self.page[at + declaration.len()..],
            None => &[],
        };
        let is_foreign = match value.split_first() {
            Some((quote @ (b'"' | b'\''), value)) => {
                let end = memchr(*quote, value).unwrap_or(value.len());
                !NAMESPACES.contains(&value[..end].trim_ascii())
            }
            _ => false,
        };
        self.prefixes.push(Prefix { prefix, is_foreign });
        is_foreign
    }

    fn attribute_name(&mut self) -> Name {
        let begin = self.at;
        let mut name = Name::EMPTY;
        while let Some(&byte) = self.page.get(self.at) {
            match byte {
                b'=' if self.at > begin => break,
                byte if ends_name(byte) => break,
                byte => name = name.and(byte),
            }
            self.at += 1;
        }
        name
    }

    /// The value behind the name of an attribute. It is empty if there is none.
    fn attribute_value(&mut self) -> &'a [u8] {
        self.pass_over_space();
        if self.page.get(self.at) != Some(&b'=') {
            return &[];
        }
        self.at += 1;
        self.pass_over_space();
        let rest = &self.page[self.at..];
        match rest.first() {
            Some(&quote @ (b'"' | b'\'')) => {
                let value = &rest[1..];
                let len = memchr(quote, value).unwrap_or(value.len());
                self.at += (len + 2).min(rest.len());
                &value[..len]
            }
            _ => {
                let len = rest
                    .iter()
                    .position(|&byte| byte == b'>' || byte.is_ascii_whitespace())
                    .unwrap_or(rest.len());
                self.at += len;
                &rest[..len]
            }
        }
    }

    fn pass_over_space(&mut self) {
        while self.page.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The content of an element that has no markup, and whose start tag was just read: all up to its end tag, which is
    /// passed over, or to the end of the page.
    pub(super) fn raw(&mut self, tag: &Tag<'_>) -> &'a [u8] {
        let rest = &self.page[self.at..];
        let end = match self.syntax {
            Syntax::Xhtml => xml_end(rest, tag.written),
            Syntax::Html if tag.name == SCRIPT => script_end(rest),
            Syntax::Html => raw_end(rest, tag.name),
        };
        self.at += end;
        if self.at < self.page.len() {
            // Its end tag, which has attributes if somebody wrote some.
            self.at += 2;
            self.tag();
        }
        &rest[..end]
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.page[self.at..];
        self.at = self.page.len();
        rest
    }
}

const CDATA: &[u8] = b"<![CDATA[";

/// The content of a section of CDATA, and the length of the section.
fn cdata(section: &[u8]) -> (&[u8], usize) {
    let content = &section[CDATA.len()..];
    match memmem::find(content, b"]]>") {
        Some(len) => (&content[..len], CDATA.len() + len + 3),
        None => (content, section.len()),
    }
}

/// The length of a comment. It ends at `-->`, `--!>`, or the end of the page. Nothing else is in `<!-->` and `<!--->`.
fn comment_len(comment: &[u8]) -> usize {
    let content = &comment[4..];
    let mut from = 0;
    while let Some(at) = memchr(b'>', &content[from..]) {
        let before = &content[..from + at];
        from += at + 1;
        if before.is_empty()
            || before == b"-"
            || before.ends_with(b"--")
            || before.ends_with(b"--!")
        {
            return 4 + from;
        }
    }
    comment.len()
}

/// The length of a document type of XML, which may declare things between brackets.
fn xml_doctype_len(doctype: &[u8]) -> usize {
    let Some(end) = memchr2(b'[', b'>', doctype) else {
        return doctype.len();
    };
    if doctype[end] == b'>' {
        return end + 1;
    }
    let declared = declarations_end(&doctype[end..])
        .or_else(|| memchr(b']', &doctype[end..]))
        .map_or(doctype.len(), |len| end + len);
    memchr(b'>', &doctype[declared..]).map_or(doctype.len(), |len| declared + len + 1)
}

/// Where the bracket is that ends the declarations of a document type. What stands in quotes or in comments is none.
/// `None` if quotes or a comment do not end.
fn declarations_end(declarations: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &declarations[at..];
        at += match rest.first()? {
            b']' => return Some(at),
            quote @ (b'"' | b'\'') => memchr(*quote, &rest[1..])? + 2,
            b'<' if rest.starts_with(b"<!--") => 4 + memmem::find(&rest[4..], b"-->")? + 3,
            _ => 1,
        };
    }
}

/// Where the end tag with this name begins, or the end. In XML, what stands in CDATA is no tag, and the name has a
/// prefix if that of the start tag has one.
fn xml_end(content: &[u8], written: &[u8]) -> usize {
    let mut from = 0;
    let mut may_have_cdata = true;
    while let Some(at) = memchr(b'<', &content[from..]) {
        from += at;
        let rest = &content[from..];
        if may_have_cdata && rest.starts_with(CDATA) {
            match memmem::find(rest, b"]]>") {
                Some(len) => from += len,
                None => may_have_cdata = false,
            }
        } else if let Some(name) = rest.strip_prefix(b"</")
            && begins_with_name(name, written)
        {
            return from;
        }
        from += 1;
    }
    content.len()
}

/// Where the end tag with this name begins, or the end.
fn raw_end(content: &[u8], name: Name) -> usize {
    let mut from = 0;
    while let Some(at) = memchr(b'<', &content[from..]) {
        from += at;
        if content.get(from + 1) == Some(&b'/') && is_tag(&content[from + 2..], name) {
            return from;
        }
        from += 1;
    }
    content.len()
}

/// Whether a tag with this name is here.
fn is_tag(text: &[u8], name: Name) -> bool {
    // No name of an element without markup is longer.
    let letters = text
        .iter()
        .take(LONGEST_RAW + 1)
        .take_while(|byte| byte.is_ascii_alphabetic());
    let mut read = Name::EMPTY;
    let mut len = 0;
    for &letter in letters {
        read = read.and(letter);
        len += 1;
    }
    read == name && text.get(len).is_some_and(|&byte| ends_name(byte))
}

/// The letters of the longest name of an element without markup.
const LONGEST_RAW: usize = 8;

/// Where the end tag of a script begins, or the end. Within `<!--`, a script may hold scripts.
fn script_end(content: &[u8]) -> usize {
    /// How deep in scripts of comments.
    enum In {
        Script,
        Comment { from: usize },
        ScriptOfComment { from: usize },
    }
    let mut within = In::Script;
    let mut at = 0;
    while let Some(next) = memchr2(b'<', b'>', &content[at..]) {
        at += next;
        let (before, rest) = content.split_at(at);
        let ends = rest.get(1) == Some(&b'/') && is_tag(&rest[2..], SCRIPT);
        within = match within {
            In::Script | In::Comment { .. } if ends => return at,
            In::Script if rest.starts_with(b"<!--") => In::Comment { from: at + 2 },
            In::Comment { from } | In::ScriptOfComment { from }
                if rest[0] == b'>' && before[from.min(at)..].ends_with(b"--") =>
            {
                In::Script
            }
            In::Comment { from } if rest[0] == b'<' && is_tag(&rest[1..], SCRIPT) => {
                In::ScriptOfComment { from }
            }
            In::ScriptOfComment { from } if ends => In::Comment { from },
            same => same,
        };
        at += 1;
    }
    content.len()
}

/// What the attributes of a start tag say. Of two with one name, the first counts.
#[derive(Default)]
pub(super) struct Attributes<'a> {
    /// A bit for each flag.
    flags: u32,
    style: Option<&'a [u8]>,
    /// Of an annotation in MathML.
    pub(super) encoding: Option<&'a [u8]>,
    /// `shadowrootmode`, of a template, or `shadowroot`, as it was called before.
    pub(super) shadow_root: Option<&'a [u8]>,
    /// `type`, of an input or a script.
    pub(super) kind: Option<&'a [u8]>,
    /// Of an element of SVG.
    pub(super) display: Option<&'a [u8]>,
    /// Where a text of SVG stands on the page.
    pub(super) y: Option<&'a [u8]>,
}

/// An attribute that says something by being there.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    /// `hidden`, but not `hidden=until-found`, which is to be found as the rest of the page is. Or a name of what only
    /// disturbs or repeats a text: the random letters of Discuz, and the second form of a formula, which KaTeX and
    /// MathJax write beside MathML and scripts.
    Hidden,
    /// `popover`: not shown before somebody asks for it.
    Popover,
    /// `open`, of a dialog.
    Open,
    /// The address of a link.
    Href,
    /// `data`: what an object shows in place of its content.
    Data,
    /// `x`, where a text of SVG begins in its line.
    X,
    /// `dy`, with which a text of SVG leaves its line.
    Line,
    /// `color`, `face` or `size`, with which a `font` ends SVG and MathML.
    Font,
    /// A name by which what is hidden at first is shown all the same: a part of a page of React or Marko that comes
    /// late, a tab, or the MathML for which wikis show a picture.
    Revealed,
    /// The name of a part of a page that comes late, in a template.
    LateTemplate,
    /// The role of a dialog, and that it is not there for those who listen: it is closed.
    DialogRole,
    AriaHidden,
    /// The role of a part of an accordion, which has a name.
    RegionRole,
    Labelled,
    /// A role of what is beside the main content of a page, or that it is none of that.
    Apart,
    /// `selected`, of an option.
    Selected,
    /// A class of the number of a line of code.
    LineNumber,
}

impl<'a> Attributes<'a> {
    #[inline]
    fn add(&mut self, name: Name, value: &'a [u8]) {
        match name {
            HIDDEN if !value.eq_ignore_ascii_case(b"until-found") => self.set(Flag::Hidden),
            POPOVER => self.set(Flag::Popover),
            OPEN => self.set(Flag::Open),
            HREF | XLINK_HREF => self.set(Flag::Href),
            DATA => self.set(Flag::Data),
            X => self.set(Flag::X),
            DY => self.set(Flag::Line),
            COLOR | FACE | SIZE => self.set(Flag::Font),
            ID if is_late_part(value) => self.set(Flag::Revealed),
            ID if is_late_template(value) => self.set(Flag::LateTemplate),
            CLASS => self.add_classes(value),
            ROLE => self.add_role(value),
            ARIA_HIDDEN if value == b"true" => self.set(Flag::AriaHidden),
            ARIA_LABELLED_BY => self.set(Flag::Labelled),
            BLAZOR_PART | HONO_PART => self.set(Flag::LateTemplate),
            SELECTED => self.set(Flag::Selected),
            Y => _ = self.y.get_or_insert(value),
            STYLE => _ = self.style.get_or_insert(value),
            ENCODING => _ = self.encoding.get_or_insert(value),
            MARKO_PART => self.set(Flag::Revealed),
            SHADOW_ROOT | OLD_SHADOW_ROOT => _ = self.shadow_root.get_or_insert(value),
            TYPE => _ = self.kind.get_or_insert(value),
            DISPLAY => _ = self.display.get_or_insert(value),
            _ => {}
        }
    }

    fn add_classes(&mut self, classes: &[u8]) {
        for class in classes.split(u8::is_ascii_whitespace) {
            self.set_if(class == b"mwe-math-mathml-a11y", Flag::Revealed);
            self.set_if(LINE_NUMBERS.contains(&class), Flag::LineNumber);
        }
    }

    fn add_role(&mut self, role: &[u8]) {
        match role {
            b"tabpanel" => self.set(Flag::Revealed),
            b"region" => self.set(Flag::RegionRole),
            b"dialog" | b"alertdialog" => {
                self.set(Flag::DialogRole);
                self.set(Flag::Apart);
            }
            b"complementary" | b"contentinfo" | b"navigation" | b"search" => self.set(Flag::Apart),
            _ => {}
        }
    }

    fn set(&mut self, flag: Flag) {
        self.flags |= 1 << flag as u32;
    }

    fn set_if(&mut self, is_so: bool, flag: Flag) {
        self.flags |= u32::from(is_so) << flag as u32;
    }

    pub(super) fn has(&self, flag: Flag) -> bool {
        self.flags >> flag as u32 & 1 == 1
    }

    /// Whether what is hidden at first is shown all the same.
    pub(super) fn is_revealed(&self) -> bool {
        self.has(Flag::Revealed) || self.has(Flag::RegionRole) && self.has(Flag::Labelled)
    }

    /// Whether the type is one of these, whatever its parameters say.
    pub(super) fn is_of_type(&self, known: &[&str]) -> bool {
        let kind = decoded(self.kind.unwrap_or_default());
        let essence = kind.split(|&byte| byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        let mut known = known.iter();
        known.any(|known| essence.eq_ignore_ascii_case(known.as_bytes()))
    }

    pub(super) fn style(&self) -> Option<Cow<'a, [u8]>> {
        self.style.map(decoded)
    }
}

/// Whether the value of an attribute is one of these.
pub(super) fn is_one_of(value: Option<&[u8]>, known: &[&str]) -> bool {
    let Some(value) = value else { return false };
    let value = decoded(value);
    let mut known = known.iter();
    known.any(|known| value.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether an `id` is that of a part of a page that React, Marko or Dioxus send behind the rest, and put into its
/// place: `S:1f`, with what the program has chosen in front, `af1`, or `ds-0-r`.
fn is_late_part(id: &[u8]) -> bool {
    let of_dioxus = id
        .strip_prefix(b"ds-")
        .and_then(|id| id.strip_suffix(b"-r"));
    if let Some(number) = id.strip_prefix(b"af").or(of_dioxus) {
        return !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    }
    let digits = id.iter().rev().take_while(|byte| byte.is_ascii_hexdigit());
    match digits.count() {
        0 => false,
        digits => id[..id.len() - digits].ends_with(b"S:"),
    }
}

/// The classes of the numbers of lines of code: of Pygments, Chroma, Rouge, CodeRay, Hexo, javadoc, rustdoc, Trac,
/// cgit, gitweb, vim, CodeMirror, Crayon and others.
const LINE_NUMBERS: [&[u8]; 19] = [
    b"linenos",
    b"lineno",
    b"linenodiv",
    b"ln",
    b"lnt",
    b"linenumber",
    b"linenumbers",
    b"line-number",
    b"line-numbers",
    b"gutter",
    b"gl",
    b"blob-num",
    b"sourceLineNo",
    b"source-line-no",
    b"src-line-numbers",
    b"linenr",
    b"LineNr",
    b"CodeMirror-linenumber",
    b"crayon-num",
];

/// Whether the name of a tag is this.
fn begins_with_name(tag: &[u8], name: &[u8]) -> bool {
    begins_with(tag, name) && tag.get(name.len()).is_some_and(|&byte| ends_name(byte))
}

/// Whether a text begins with a word, in small or capital letters.
pub(super) fn begins_with(text: &[u8], word: &[u8]) -> bool {
    let beginning = text.get(..word.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(word))
}

fn has_class(classes: &[u8], wanted: &[u8]) -> bool {
    classes.len() >= wanted.len()
        && classes
            .split(u8::is_ascii_whitespace)
            .any(|class| class == wanted)
}

/// The names of the places of parts that come late, by the HTML standard: `<?marker name="a">` or `<?start name="a">`.
fn marked_places(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let instructions = memmem::find_iter(page, b"<?").map(|at| &page[at + 2..]);
    instructions.filter_map(|instruction| {
        let marker = instruction.strip_prefix(b"marker");
        let fields = marker.or(instruction.strip_prefix(b"start"))?;
        let name = fields.trim_ascii_start().strip_prefix(b"name=")?;
        let (quote, name) = name.split_first()?;
        if !b"\"'".contains(quote) {
            return None;
        }
        Some(&name[..memchr(*quote, name)?])
    })
}

/// Whether the `id` of a template is that of a part of a page that Solid, Leptos, Kita, Brisa or Sycamore send behind
/// the rest, such as `0-0-1`, `0-1-f`, `N:1` or `sycamore-suspense-1`.
fn is_late_template(id: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 3] = [b"N:", b"U:", b"sycamore-suspense-"];
    if let Some(number) = BEGINNINGS.iter().find_map(|known| id.strip_prefix(*known)) {
        return !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit);
    }
    let id = id.strip_suffix(b"-f").unwrap_or(id);
    let is_of_id = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    id.first().is_some_and(u8::is_ascii_digit) && id.contains(&b'-') && id.iter().all(is_of_id)
}

fn decoded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'&') {
        return Cow::Borrowed(value);
    }
    let mut decoded = Vec::with_capacity(value.len());
    references::decode(value, Within::Attribute, |more| {
        decoded.extend_from_slice(more);
    });
    Cow::Owned(decoded)
}

/// Whether there is only white space.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii_start().is_empty()
}

/// Whether a byte ends the name of a tag or of an attribute.
fn ends_name(byte: u8) -> bool {
    matches!(byte, b'/' | b'>') || byte.is_ascii_whitespace()
}
