//! The open elements of a page: the stack of the HTML standard, section 13.2.4.2, without a tree behind it.
//!
//! Each element knows the bounds of its scopes and whether it is shown, from the element that it is in. So a question
//! costs little however deep a page nests.

use super::names::{Name, Space, Trait, Traits, names};
use super::showing::{Showing, Shown};

names! {
    ADDRESS = "address", BUTTON = "button", CAPTION = "caption", DIV = "div", H1 = "h1", H2 = "h2", H3 = "h3",
    H4 = "h4", H5 = "h5", H6 = "h6", HTML = "html", LI = "li", OL = "ol",
    P = "p", TABLE = "table", TBODY = "tbody", TD = "td", TEMPLATE = "template", TFOOT = "tfoot", TH = "th",
    THEAD = "thead", TR = "tr", UL = "ul",
}

/// An element, as its start tag and the standard describe it.
#[derive(Clone, Copy)]
pub(super) struct Element {
    /// Another name in each namespace.
    pub(super) name: Name,
    pub(super) traits: Traits,
    pub(super) space: Space,
    /// Whether HTML may stand in it, if it is of another namespace.
    pub(super) integration: Integration,
    pub(super) own: Showing,
    /// What separates words at its begin and at its end.
    pub(super) gap: Gap,
}

impl Element {
    /// An element of HTML that is shown as what it is in.
    pub(super) fn html(name: Name, traits: Traits) -> Self {
        Self {
            name,
            traits,
            space: Space::Html,
            integration: Integration::None,
            own: Showing::default(),
            gap: Gap::None,
        }
    }
}

/// An open element.
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
pub(super) enum Integration {
    None,
    /// A token element of MathML.
    Text,
    /// A `foreignObject`, and the like.
    Html,
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

/// The outer loop of the adoption agency, section 13.2.6.4.7 of the HTML standard, runs so often.
const MOST_BLOCKS: usize = 8;

/// The most elements that are open at one time. What is deeper stands beside the innermost, as in browsers.
const MOST: usize = 512;

/// The groups of names, by which an element is found.
const GROUPS: usize = 256;

/// Never empty: the root is its first, and the body its second, once there is one.
pub(super) struct OpenElements {
    elements: Vec<Open>,
    /// The innermost element of each group of names, or 0. From it, all others of the group are found.
    groups: [u16; GROUPS],
}

impl OpenElements {
    pub(super) fn new() -> Self {
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

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether the body, or another element, is open in the root.
    #[inline]
    pub(super) fn has_body(&self) -> bool {
        self.elements.len() > 1
    }

    #[inline]
    fn innermost(&self) -> &Open {
        &self.elements[self.elements.len() - 1]
    }

    /// The innermost element.
    #[inline]
    pub(super) fn top(&self) -> &Element {
        &self.innermost().element
    }

    pub(super) fn is_full(&self) -> bool {
        self.elements.len() == MOST
    }

    /// Whether the text and the elements are shown that come next. What may not stand in a table where it stands is
    /// shown before the table.
    #[inline]
    pub(super) fn shown(&self) -> Shown {
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
    pub(super) fn push(&mut self, element: Element) {
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
    pub(super) fn pop(&mut self) -> Option<Element> {
        let mut closed = self.pop_one()?;
        // What no tag reaches ends with what is in it.
        while self.top().name == Name::EMPTY
            && let Some(outer) = self.pop_one()
        {
            closed.gap = closed.gap.max(outer.gap);
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
    pub(super) fn paragraph(&self) -> Option<usize> {
        let index = usize::from(self.innermost().paragraph);
        (index > 0).then_some(index)
    }

    /// The innermost table, or what stands in its place: a template, or the root.
    pub(super) fn table(&self) -> usize {
        usize::from(self.innermost().table)
    }

    pub(super) fn at(&self, index: usize) -> &Element {
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
    pub(super) fn in_scope(&self, name: Name) -> Option<usize> {
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
    pub(super) fn item_before(&self, names: &[Name]) -> Option<usize> {
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
    pub(super) fn foreign(&self, name: Name) -> Option<usize> {
        let html = self.innermost().html;
        self.last(name.within(Space::Svg), html)
            .max(self.last(name.within(Space::MathMl), html))
    }

    /// The element that an end tag closes, with all that is in it.
    pub(super) fn reached(&self, name: Name, traits: Traits) -> Option<usize> {
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
    pub(super) fn around_part(&self, name: Name) -> usize {
        let table = self.table();
        let is_section =
            self.len() > table + 1 && matches!(self.at(table + 1).name, TBODY | THEAD | TFOOT);
        let section = table + usize::from(is_section);
        let row = section + 1;
        match name {
            TR => section,
            TD | TH if is_section => {
                section + usize::from(self.len() > row && self.at(row).name == TR)
            }
            _ => table,
        }
    }

    /// Whether the innermost table is between its cells, and not in one.
    pub(super) fn is_between_cells(&self) -> bool {
        let table = self.table();
        let mut parts = self.elements[table + 1..].iter().take(3);
        self.at(table).name == TABLE
            && !parts.any(|part| matches!(part.element.name, TD | TH | CAPTION))
    }

    /// The element that the end of a formatting element closes.
    pub(super) fn formatting(&self, name: Name) -> Option<usize> {
        match self.in_scope(name) {
            Some(index) => Some(index),
            None => self.within_special(name),
        }
    }

    /// The last block to which the end of a formatting element is carried on, from the outermost one in the element
    /// to the innermost one, but not over more than [`MOST_BLOCKS`]. And whether the element ends there, with all that
    /// is open in the block. `None` if there is no block in the element.
    pub(super) fn last_block(&self, index: usize) -> Option<(usize, bool)> {
        if usize::from(self.innermost().special) <= index {
            return None;
        }
        let mut count = 0;
        let mut last = None;
        for at in index + 1..self.len() {
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
    pub(super) fn take_away(&mut self, index: usize, up_to: usize) {
        let mut inner = self.take_from(index);
        let mut at = index;
        inner.retain(|open| {
            let traits = open.element.traits;
            let is_kept = traits.has(Trait::Formatting) || traits.has(Trait::Special);
            at += 1;
            at > up_to || at > index + 1 && is_kept
        });
        self.put_back(inner);
    }

    /// Lets no tag reach an element, which ends with what is in it.
    pub(super) fn make_nameless(&mut self, index: usize) {
        let mut inner = self.take_from(index);
        let element = &mut inner[0].element;
        element.name = Name::EMPTY;
        element.traits = Traits::default();
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
