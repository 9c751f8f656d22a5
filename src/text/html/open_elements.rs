//! The open elements of a page: the stack of the HTML standard, section 13.2.4.2, without a tree behind it.
//!
//! Each element knows the bounds of its scopes and whether it is shown, from the element that it is in. So a question
//! costs little however deep a page nests.

use super::names::{Name, Space, Traits};

/// An open element.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// Another name in each namespace.
    pub(super) name: Name,
    pub(super) traits: Traits,
    pub(super) space: Space,
    /// Whether HTML may stand in it, if it is of another namespace.
    pub(super) integration: Integration,
    own: Showing,
    /// Whether its text is shown.
    pub(super) shown: Shown,
    /// What parts words at its end.
    pub(super) gap: Gap,
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

/// What an element says of being shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Showing {
    /// Whether it has a box. What has none is not shown, nor is anything in it.
    pub(super) displayed: bool,
    /// Whether the box can be seen. In a box that cannot be seen, another one may be seen.
    pub(super) visible: Option<bool>,
    /// Whether text in it is drawn. In SVG, only that of `text` and what is in it is.
    pub(super) drawn: Option<bool>,
    /// Whether only an attribute hides it.
    pub(super) by_attribute: bool,
}

impl Showing {
    pub(super) const AS_PARENT: Self = Self {
        displayed: true,
        visible: None,
        drawn: None,
        by_attribute: false,
    };
}

/// Whether the text of an element is shown, by what the element says and those around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) displayed: bool,
    visible: bool,
    drawn: bool,
    /// Whether an attribute hides it that is in nothing hidden otherwise.
    pub(super) by_attribute: bool,
}

impl Shown {
    const YES: Self = Self {
        displayed: true,
        visible: true,
        drawn: true,
        by_attribute: false,
    };

    fn within(self, own: Showing) -> Self {
        Self {
            displayed: self.displayed && own.displayed,
            visible: own.visible.unwrap_or(self.visible),
            drawn: own.drawn.unwrap_or(self.drawn),
            by_attribute: self.by_attribute || self.displayed && own.by_attribute,
        }
    }

    #[inline]
    pub(super) fn is_text_shown(self) -> bool {
        self.displayed && self.visible && self.drawn
    }
}

/// What parts words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    None,
    /// A box within a line.
    Box,
    /// A block.
    Block,
}

/// A new element, before it is put on the stack.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) name: Name,
    pub(super) traits: Traits,
    pub(super) space: Space,
    pub(super) integration: Integration,
    pub(super) own: Showing,
    pub(super) gap: Gap,
}

/// A special element in a formatting one.
pub(super) struct Block {
    pub(super) index: usize,
    /// Whether the element ends there, with all that is open in the block.
    pub(super) is_innermost: bool,
}

/// The outer loop of the adoption agency, section 13.2.6.4.7 of the HTML standard, runs so often.
const MOST_BLOCKS: usize = 8;

/// The most elements that are open at one time. What is deeper stands beside the innermost, as in browsers.
const MOST: usize = 512;

pub(super) const ADDRESS: Name = Name::of("address");
pub(super) const BUTTON: Name = Name::of("button");
pub(super) const CAPTION: Name = Name::of("caption");
pub(super) const DIV: Name = Name::of("div");
pub(super) const LI: Name = Name::of("li");
pub(super) const P: Name = Name::of("p");
pub(super) const TABLE: Name = Name::of("table");
pub(super) const TBODY: Name = Name::of("tbody");
pub(super) const TD: Name = Name::of("td");
pub(super) const TEMPLATE: Name = Name::of("template");
pub(super) const TFOOT: Name = Name::of("tfoot");
pub(super) const TH: Name = Name::of("th");
pub(super) const THEAD: Name = Name::of("thead");
pub(super) const TR: Name = Name::of("tr");

/// Never empty: the root is its first, and the body its second, once there is one.
pub(super) struct OpenElements {
    elements: Vec<Open>,
    /// The innermost element of each group of names, or 0. From it, all others of the group are found.
    groups: [u16; 256],
}

impl OpenElements {
    pub(super) fn new() -> Self {
        let name = Name::of("html");
        let root = Open {
            name,
            traits: Traits::of(name),
            space: Space::Html,
            integration: Integration::None,
            own: Showing::AS_PARENT,
            shown: Shown::YES,
            gap: Gap::None,
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
            groups: [0; 256],
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    #[inline]
    pub(super) fn top(&self) -> &Open {
        &self.elements[self.elements.len() - 1]
    }

    pub(super) fn is_full(&self) -> bool {
        self.elements.len() == MOST
    }

    /// What encloses the text and the elements that come next. Of what may not stand in a table where it stands, that
    /// is what encloses the table: it is shown before the table.
    #[inline]
    pub(super) fn enclosing(&self) -> &Open {
        let top = self.top();
        if is_between_cells(top.name) {
            let table = usize::from(top.table);
            return &self.elements[if self.elements[table].name == TABLE {
                table - 1
            } else {
                table
            }];
        }
        top
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are few open elements"
    )]
    pub(super) fn push(&mut self, new: New) {
        let (index, top) = (self.elements.len() as u16, *self.top());
        let bounds_scope = new.traits.any(Traits::SCOPE) && new.space == Space::Html
            || new.integration != Integration::None;
        let paragraph = match new.name {
            P => index,
            BUTTON => 0,
            _ if bounds_scope => 0,
            _ => top.paragraph,
        };
        let parent = if new.traits.any(Traits::PART) {
            top.shown
        } else {
            self.enclosing().shown
        };
        let is_special = new.traits.any(Traits::SPECIAL);
        let of_group = std::mem::replace(&mut self.groups[new.name.group()], index);
        self.elements.push(Open {
            name: new.name,
            traits: new.traits,
            space: new.space,
            integration: new.integration,
            own: new.own,
            shown: parent.within(new.own),
            gap: new.gap,
            paragraph,
            scope: if bounds_scope { index } else { top.scope },
            table: if matches!(new.name, TABLE | TEMPLATE) {
                index
            } else {
                top.table
            },
            special: if is_special { index } else { top.special },
            item: if is_special && !matches!(new.name, ADDRESS | DIV | P) {
                index
            } else {
                top.item
            },
            html: if new.space == Space::Html {
                index
            } else {
                top.html
            },
            of_group,
        });
    }

    /// Closes the innermost element, but not the root.
    pub(super) fn pop(&mut self) -> Option<Open> {
        let open = self.pop_one()?;
        // What no tag reaches ends with what is in it.
        while self.top().name == Name::EMPTY {
            self.pop_one();
        }
        Some(open)
    }

    #[inline]
    fn pop_one(&mut self) -> Option<Open> {
        let open = if self.elements.len() > 1 {
            self.elements.pop()
        } else {
            None
        }?;
        self.groups[open.name.group()] = open.of_group;
        Some(open)
    }

    /// The paragraph that a block ends.
    #[inline]
    pub(super) fn paragraph(&self) -> Option<usize> {
        Some(usize::from(self.top().paragraph)).filter(|&index| index > 0)
    }

    /// The innermost table, or what stands in its place: a template, or the root.
    pub(super) fn table(&self) -> usize {
        usize::from(self.top().table)
    }

    pub(super) fn at(&self, index: usize) -> &Open {
        &self.elements[index]
    }

    /// The innermost element of this name that is not further out than `from`.
    #[inline]
    fn last(&self, name: Name, from: u16) -> Option<usize> {
        let mut index = self.groups[name.group()];
        while index > 0 && index >= from {
            let open = &self.elements[usize::from(index)];
            if open.name == name {
                return Some(usize::from(index));
            }
            index = open.of_group;
        }
        None
    }

    /// The innermost element of this name that an end tag reaches.
    #[inline]
    pub(super) fn in_scope(&self, name: Name) -> Option<usize> {
        self.last(name, self.top().scope)
    }

    /// The innermost heading that an end tag reaches.
    pub(super) fn heading_in_scope(&self) -> Option<usize> {
        ["h1", "h2", "h3", "h4", "h5", "h6"]
            .iter()
            .filter_map(|name| self.in_scope(Name::of(name)))
            .max()
    }

    /// The innermost item that an end tag reaches. A list bounds the scope of its items.
    pub(super) fn item_in_scope(&self) -> Option<usize> {
        let list = self
            .in_scope(Name::of("ul"))
            .max(self.in_scope(Name::of("ol")));
        self.in_scope(LI).filter(|&item| Some(item) > list)
    }

    /// The item of a list that the next item ends.
    pub(super) fn item_before(&self, names: &[Name]) -> Option<usize> {
        let index = usize::from(self.top().item);
        names.contains(&self.at(index).name).then_some(index)
    }

    /// The innermost part of this name of the innermost table, or the table.
    pub(super) fn in_table_scope(&self, name: Name) -> Option<usize> {
        self.last(name, self.top().table)
    }

    /// The innermost template.
    pub(super) fn template(&self) -> Option<usize> {
        self.last(TEMPLATE, 0)
    }

    /// The innermost element of this name, if no special one is within.
    pub(super) fn within_special(&self, name: Name) -> Option<usize> {
        self.last(name, self.top().special)
    }

    /// The innermost element of SVG or MathML with this name, if no element of HTML is within.
    pub(super) fn foreign(&self, name: Name) -> Option<usize> {
        let html = self.top().html;
        self.last(name.within(Space::Svg), html)
            .max(self.last(name.within(Space::MathMl), html))
    }

    /// Whether the innermost table is between its cells, and not in one.
    pub(super) fn is_between_cells(&self) -> bool {
        let table = self.table();
        let parts = self.elements[table..].iter().skip(1).take(3);
        self.at(table).name == TABLE
            && !parts
                .map(|part| part.name)
                .any(|name| matches!(name, TD | TH | CAPTION))
    }

    /// The last block to which the end of a formatting element is carried on, from the outermost one in the element
    /// to the innermost one, but not over more than [`MOST_BLOCKS`]. `None` if there is no block in the element.
    pub(super) fn last_block(&self, index: usize) -> Option<Block> {
        if usize::from(self.top().special) <= index {
            return None;
        }
        let blocks =
            (index + 1..self.len()).filter(|&at| self.elements[at].traits.any(Traits::SPECIAL));
        let last = blocks.take(MOST_BLOCKS).enumerate().last();
        last.map(|(count, index)| Block {
            index,
            is_innermost: count + 1 < MOST_BLOCKS,
        })
    }

    /// Takes away an element, and of those up to another one all but blocks and what formats. What they hold stays.
    pub(super) fn take_away(&mut self, index: usize, up_to: usize) {
        let mut inner = self.take_from(index);
        let mut at = index;
        inner.retain(|open| {
            let is_kept = open.traits.any(Traits::FORMATTING.and(Traits::SPECIAL));
            at += 1;
            at > up_to || at > index + 1 && is_kept
        });
        self.put_back(inner);
    }

    /// Lets no tag reach an element, which ends with what is in it.
    pub(super) fn make_nameless(&mut self, index: usize) {
        let mut inner = self.take_from(index);
        (inner[0].name, inner[0].traits, inner[0].gap) = (Name::EMPTY, Traits::NONE, Gap::None);
        self.put_back(inner);
    }

    /// Takes all elements from this one, outermost first.
    fn take_from(&mut self, index: usize) -> Vec<Open> {
        let inner = self.elements.split_off(index);
        for open in inner.iter().rev() {
            self.groups[open.name.group()] = open.of_group;
        }
        inner
    }

    fn put_back(&mut self, inner: Vec<Open>) {
        for Open {
            name,
            traits,
            space,
            integration,
            own,
            gap,
            ..
        } in inner
        {
            self.push(New {
                name,
                traits,
                space,
                integration,
                own,
                gap,
            });
        }
    }
}

/// Whether an element is a part of a table that may hold only other parts.
#[inline]
pub(super) fn is_between_cells(name: Name) -> bool {
    matches!(name, TABLE | TBODY | TFOOT | THEAD | TR)
}
