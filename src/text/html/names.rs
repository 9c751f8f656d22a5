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
        let small = letter.to_ascii_lowercase();
        Self((self.0 ^ small as u64).wrapping_mul(0x0100_0000_01b3))
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

    /// Where the search for the name begins in a table, or the group of the name among so many.
    pub(super) const fn slot(self, slots: usize) -> usize {
        // The last letters have turned few of the upper bits.
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % slots
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

/// A statement of the HTML standard on the elements of one name.
#[derive(Clone, Copy)]
pub(super) enum Trait {
    /// "Special": an end tag without a start tag does not reach beyond it.
    Special,
    /// No end tag reaches beyond it.
    Scope,
    /// Has no content.
    Void,
    /// Is shown as a block, a row, a cell or the end of a line.
    Block,
    /// Is shown as a box within a line.
    Box,
    /// Its content is not shown.
    Unshown,
    /// Its start tag ends a paragraph.
    EndsP,
    /// Its end tag ends the elements within it, if it is in scope.
    EndsScoped,
    /// May lack an end tag.
    Implied,
    /// A formatting element, which may overlap with others.
    Formatting,
    /// Its start tag ends SVG and MathML.
    Breakout,
    TablePart,
    Heading,
    /// May stand in a head.
    InHead,
    /// Its content has no markup.
    Raw,
    /// With it, a page has a body and can have no frames.
    NoFrames,
    /// Line breaks of the page are shown in it.
    Preformatted,
}

/// What the HTML standard says of the elements of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits(u32);

impl Traits {
    /// Nothing is said.
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) const fn has(self, said: Trait) -> bool {
        self.0 >> said as u32 & 1 == 1
    }

    /// The same, and this is said too.
    pub(super) const fn with(self, said: Trait) -> Self {
        Self(self.0 | 1 << said as u32)
    }
}

/// One statement, and the elements of which it holds.
///
/// References: HTML standard, sections 13.1.2 (void elements, raw text), 13.2.4.2 (special elements and scopes), 13.2.6
/// (how tags are treated), and 15.3 (how elements are shown).
const STATEMENTS: [(Trait, &str); 17] = [
    (
        Trait::Special,
        "address applet area article aside base basefont bgsound blockquote body br button caption center col \
         colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 \
         h6 head header hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed \
         noframes noscript object ol p param plaintext pre script search section select source style summary table \
         tbody td template textarea tfoot th thead title tr track ul wbr xmp",
    ),
    (
        Trait::Scope,
        "applet caption html table td th marquee object select template",
    ),
    (
        Trait::Void,
        "area base basefont bgsound br col colgroup embed frame hr image img input keygen link meta param source \
         track wbr",
    ),
    (
        Trait::Block,
        "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption \
         figure footer form frame frameset h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol \
         optgroup option p plaintext pre search section summary table tbody td tfoot th thead tr ul xmp",
    ),
    (
        Trait::Box,
        "applet audio button canvas embed iframe image img input keygen marquee math meter object progress select \
         svg textarea video",
    ),
    (
        Trait::Unshown,
        "audio canvas datalist iframe meter noembed noframes noscript progress rp rt rtc script style \
         template title video",
    ),
    (
        Trait::EndsP,
        "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form \
         header hgroup hr h1 h2 h3 h4 h5 h6 li dd dt listing main menu nav ol p plaintext pre search section summary \
         table ul xmp",
    ),
    (
        Trait::EndsScoped,
        "address applet article aside blockquote button center dd details dialog dir div dl dt fieldset figcaption \
         figure footer header hgroup listing main marquee menu nav object ol pre search section select summary ul",
    ),
    (Trait::Implied, "dd dt li optgroup option p rb rp rt rtc"),
    (
        Trait::Formatting,
        "a b big code em font i nobr s small strike strong tt u",
    ),
    (
        Trait::Breakout,
        "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu \
         meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    ),
    (
        Trait::TablePart,
        "caption col colgroup tbody td tfoot th thead tr",
    ),
    (Trait::Heading, "h1 h2 h3 h4 h5 h6"),
    (
        Trait::InHead,
        "base basefont bgsound head html link meta noframes noscript script style template title",
    ),
    (
        Trait::Raw,
        "iframe noembed noframes noscript script style textarea title xmp",
    ),
    (
        Trait::NoFrames,
        "applet area body br button dd dt embed hr iframe image img keygen li listing marquee object pre select table \
         textarea wbr xmp",
    ),
    (Trait::Preformatted, "listing plaintext pre textarea xmp"),
];

/// More than twice the number of names.
const SLOTS: usize = 512;

/// What is said of each name.
static TABLE: [Option<(Name, Traits)>; SLOTS] = table();

const fn table() -> [Option<(Name, Traits)>; SLOTS] {
    let mut table = [None; SLOTS];
    let mut statement = 0;
    while statement < STATEMENTS.len() {
        let (said, names) = STATEMENTS[statement];
        let names = names.as_bytes();
        let mut name = Name::EMPTY;
        let mut at = 0;
        while at <= names.len() {
            if at == names.len() || names[at] == b' ' {
                add(&mut table, name, said);
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

const fn add(table: &mut [Option<(Name, Traits)>; SLOTS], name: Name, said: Trait) {
    let mut slot = name.slot(SLOTS);
    loop {
        match table[slot] {
            Some((known, before)) if known.0 == name.0 => {
                table[slot] = Some((name, before.with(said)));
                return;
            }
            Some(_) => slot = (slot + 1) % SLOTS,
            None => {
                table[slot] = Some((name, Traits::NONE.with(said)));
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
        assert!(Name::new("DIV").traits().has(Trait::Block));
        assert!(Name::new("div").traits().has(Trait::Special));
        assert!(!Name::new("div").traits().has(Trait::Scope));
        assert_eq!(Name::new("my-element").traits(), Traits::NONE);
        assert_eq!(Name::new("bdi").traits(), Traits::NONE);
        for (traits, names) in STATEMENTS {
            for name in names.split(' ') {
                assert!(Name::new(name).traits().has(traits), "{name}");
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
