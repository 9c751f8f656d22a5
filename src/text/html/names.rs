//! The names of elements and attributes, and what the HTML standard says of each element: how it is parsed, and how
//! it is shown.

/// A name, in small letters, as a number. A page that looks for names with equal numbers gains nothing: they are read
/// as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u64);

impl Name {
    /// The number of no letters.
    pub(super) const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// The name of these letters.
    pub(super) const fn new(letters: &str) -> Self {
        let letters = letters.as_bytes();
        let mut name = Self::EMPTY;
        let mut at = 0;
        while at < letters.len() {
            name = name.and(letters[at]);
            at += 1;
        }
        name
    }

    /// The name that this letter makes longer. This is the hash FNV-1a.
    pub(super) const fn and(self, letter: u8) -> Self {
        self.and_exactly(letter.to_ascii_lowercase())
    }

    /// The name that this letter, small or not, makes longer.
    pub(super) const fn and_exactly(self, letter: u8) -> Self {
        Self((self.0 ^ letter as u64).wrapping_mul(0x0100_0000_01b3))
    }

    /// This name in another namespace, where it is another name.
    pub(super) const fn within(self, space: Space) -> Self {
        Self(self.0 ^ space as u64)
    }

    /// What the standard says of the HTML element of this name.
    #[inline]
    pub(super) fn traits(self) -> Traits {
        let mut slot = self.slot(SLOTS);
        loop {
            match &TABLE[slot] {
                Some((known, traits)) if *known == self => return *traits,
                Some(_) => slot = (slot + 1) % SLOTS,
                None => return Traits::NONE,
            }
        }
    }

    /// One of 256 groups of names.
    #[inline]
    pub(super) const fn group(self) -> usize {
        (self.0 >> 8) as usize % 256
    }

    /// Where the search for the name begins in a table.
    pub(super) const fn slot(self, slots: usize) -> usize {
        (self.0 >> 20) as usize % slots
    }
}

/// Makes constants of names: `names! { TABLE = "table" }`.
macro_rules! names {
    ($($constant:ident = $name:literal),* $(,)?) => { $(const $constant: Name = Name::new($name);)* };
}
pub(super) use names;

/// The namespace of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Html = 0,
    MathMl = 1,
    Svg = 2,
}

/// What the HTML standard says of the elements of one name. Each constant is one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits(u32);

impl Traits {
    /// Nothing is said.
    pub(super) const NONE: Self = Self(0);
    /// "Special": an end tag without a start tag does not reach beyond it.
    pub(super) const SPECIAL: Self = Self(1);
    /// No end tag reaches beyond it.
    pub(super) const SCOPE: Self = Self(1 << 1);
    /// Has no content.
    pub(super) const VOID: Self = Self(1 << 2);
    /// Is shown as a block, a row, a cell or the end of a line.
    pub(super) const BLOCK: Self = Self(1 << 3);
    /// Is shown as a box within a line.
    pub(super) const BOX: Self = Self(1 << 4);
    /// Its content is not shown.
    pub(super) const UNSHOWN: Self = Self(1 << 5);
    /// Its start tag ends a paragraph.
    pub(super) const ENDS_P: Self = Self(1 << 6);
    /// Its end tag ends the elements within it, if it is in scope.
    pub(super) const ENDS_SCOPED: Self = Self(1 << 7);
    /// May lack an end tag.
    pub(super) const IMPLIED: Self = Self(1 << 8);
    /// A formatting element, which may overlap with others.
    pub(super) const FORMATTING: Self = Self(1 << 9);
    /// Its start tag ends SVG and MathML.
    pub(super) const BREAKOUT: Self = Self(1 << 10);
    /// A part of a table.
    pub(super) const PART: Self = Self(1 << 11);
    /// A heading.
    pub(super) const HEADING: Self = Self(1 << 12);
    /// May stand in a head.
    pub(super) const IN_HEAD: Self = Self(1 << 13);
    /// Its content has no markup.
    pub(super) const RAW: Self = Self(1 << 14);
    /// With it, a page has a body and can have no frames.
    pub(super) const NO_FRAMES: Self = Self(1 << 15);

    /// Whether one of `others` is said.
    #[inline]
    pub(super) const fn any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// All that is said in either.
    pub(super) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// One statement, and the elements of which it holds.
///
/// References: HTML standard, sections 13.1.2 (void elements, raw text), 13.2.4.2 (special elements and scopes), 13.2.6
/// (how tags are treated), and 15.3 (how elements are shown).
const STATEMENTS: [(Traits, &str); 16] = [
    (
        Traits::SPECIAL,
        "address applet area article aside base basefont bgsound blockquote body br button caption center col \
         colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 \
         h6 head header hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed \
         noframes noscript object ol p param plaintext pre script search section select source style summary table \
         tbody td template textarea tfoot th thead title tr track ul wbr xmp",
    ),
    (
        Traits::SCOPE,
        "applet caption html table td th marquee object select template",
    ),
    (
        Traits::VOID,
        "area base basefont bgsound br col colgroup embed frame hr image img input keygen link meta param source \
         track wbr",
    ),
    (
        Traits::BLOCK,
        "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption \
         figure footer form frame frameset h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol \
         optgroup option p plaintext pre search section summary table tbody td tfoot th thead tr ul xmp",
    ),
    (
        Traits::BOX,
        "applet audio button canvas embed iframe image img input keygen marquee math meter object progress rt rtc \
         select svg textarea video",
    ),
    (
        Traits::UNSHOWN,
        "audio canvas datalist iframe noembed noframes noscript rp script style template title video",
    ),
    (
        Traits::ENDS_P,
        "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form \
         header hgroup hr h1 h2 h3 h4 h5 h6 li dd dt listing main menu nav ol p plaintext pre search section summary \
         table ul xmp",
    ),
    (
        Traits::ENDS_SCOPED,
        "address applet article aside blockquote button center dd details dialog dir div dl dt fieldset figcaption \
         figure footer header hgroup listing main marquee menu nav object ol pre search section select summary ul",
    ),
    (Traits::IMPLIED, "dd dt li optgroup option p rb rp rt rtc"),
    (
        Traits::FORMATTING,
        "a b big code em font i nobr s small strike strong tt u",
    ),
    (
        Traits::BREAKOUT,
        "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu \
         meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    ),
    (
        Traits::PART,
        "caption col colgroup tbody td tfoot th thead tr",
    ),
    (Traits::HEADING, "h1 h2 h3 h4 h5 h6"),
    (
        Traits::IN_HEAD,
        "base basefont bgsound head html link meta noframes noscript script style template title",
    ),
    (
        Traits::RAW,
        "iframe noembed noframes noscript script style textarea title xmp",
    ),
    (
        Traits::NO_FRAMES,
        "applet area body br button dd dt embed hr iframe image img keygen li listing marquee object pre select table \
         textarea wbr xmp",
    ),
];

/// More than twice the number of names.
const SLOTS: usize = 512;

/// What is said of each name.
static TABLE: [Option<(Name, Traits)>; SLOTS] = table();

const fn table() -> [Option<(Name, Traits)>; SLOTS] {
    let mut table = [None; SLOTS];
    let mut statement = 0;
    while statement < STATEMENTS.len() {
        let (traits, names) = STATEMENTS[statement];
        let names = names.as_bytes();
        let mut name = Name::EMPTY;
        let mut at = 0;
        while at <= names.len() {
            if at == names.len() || names[at] == b' ' {
                add(&mut table, name, traits);
                name = Name::EMPTY;
            } else {
                name = name.and(names[at]);
            }
            at += 1;
        }
        statement += 1;
    }
    table
}

const fn add(table: &mut [Option<(Name, Traits)>; SLOTS], name: Name, traits: Traits) {
    let mut slot = name.slot(SLOTS);
    loop {
        match table[slot] {
            Some((known, before)) if known.0 == name.0 => {
                table[slot] = Some((name, before.and(traits)));
                return;
            }
            Some(_) => slot = (slot + 1) % SLOTS,
            None => {
                table[slot] = Some((name, traits));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_what_is_said_of_it() {
        assert!(Name::new("DIV").traits().any(Traits::BLOCK));
        assert!(Name::new("div").traits().any(Traits::SPECIAL));
        assert!(!Name::new("div").traits().any(Traits::SCOPE));
        assert_eq!(Name::new("my-element").traits(), Traits::NONE);
        assert_eq!(Name::new("bdi").traits(), Traits::NONE);
        for (traits, names) in STATEMENTS {
            for name in names.split(' ') {
                assert!(Name::new(name).traits().any(traits), "{name}");
            }
        }
    }

    #[test]
    fn no_two_names_are_one() {
        let mut names: Vec<&str> = STATEMENTS
            .iter()
            .flat_map(|(_, names)| names.split(' '))
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(TABLE.iter().flatten().count(), names.len());
        assert!(names.len() * 2 < SLOTS);
    }
}
