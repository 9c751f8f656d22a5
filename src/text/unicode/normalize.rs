//! Unicode folding. Texts that look the same to a reader, apart from case, become the same text, and letters that
//! readers hold to be one become one.
//!
//! A text is decomposed before it is folded and composed behind it, so each fold is said once, of a letter or a
//! mark. `ranges.rs` has the folds of one character to one, as they are between composed characters.
//!
//! * Case: the full case folding of `CaseFolding.txt` (status C and F).
//! * `I`, `i`, dotless `ı` and `İ` are one: which of them is the capital of which depends on the language
//!   (`SpecialCasing.txt`). A dot above an `i` or a `j` goes, which Lithuanian keeps below accents.
//! * Greek letters lose their accents, breathings and diaereses, as they do in capitals: the transform `el-Upper` of
//!   CLDR. The circumflex, the tilde and the inverted breve are there because some write them for a perispomeni, as
//!   ICU has them in its upper-casing of Greek.
//! * The Cyrillic ё is printed as е in most Russian texts (Lucene's `RussianLightStemmer` folds it, as do Nominatim and
//!   others), so they are one in all languages.
//! * Comma below and cedilla are one: Romanian ș and ț are also written ş and ţ. Lucene's `RomanianNormalizer`
//!   folds them.
//! * Arabic letters for one in several languages. Each is folded by a normaliser in wide use:
//!   - the yehs ي ی (Lucene's `PersianNormalizer`, `SoraniNormalizer`) and ى (`ArabicNormalizer`, `SoraniNormalizer`).
//!     In Arabic, ى is also a letter of its own, the alef maksura, and few words differ in it alone;
//!   - the kafs ك ک (`PersianNormalizer`, `SoraniNormalizer`);
//!   - the hehs ه ہ (`PersianNormalizer`), ھ ە (`SoraniNormalizer`, of ە at the end of a word; the normaliser of Hazm
//!     everywhere). In Urdu, ھ is a letter of its own, but where a text has ه, nothing says which is meant;
//!   - the teh marbutas ة ۃ and the heh (`ArabicNormalizer`, Hazm): many leave the dots of the first out;
//!   - the gafs گ ګ of Persian and Pashto.
//! * The decimal digits of all scripts (Lucene's `DecimalDigitFilter`; one weight in the collation of Unicode).
//! * The radicals of Han characters that have codes of their own, with which programs fill texts of PDF files, and the
//!   characters that they are (`EquivalentUnifiedIdeograph.txt`).
//! * Letters of India for one: ऱ and र, of which the first is also written as the second with a joiner where a virama
//!   follows (Lucene's `HindiNormalizer`), and ஶ and ஸ, which look the same in the sign ஶ்ரீ (the core specification
//!   of Unicode, on Tamil).
//! * A letter of India or Sri Lanka for a vowel, and another such letter with a vowel sign that looks the same, as औ
//!   and अौ (the tables of vowel letters in chapter 12 of the core specification, and `DoNotEmit.txt`).
//! * Hamza, madda and wasla on alef, waw, yeh and heh, and these alone, also at the end of a word in Urdu (ۓ): few
//!   writers tell them apart, and Persian and Urdu write one word with several. Lucene's `ArabicNormalizer` folds those
//!   on alef.
//! * Vowel signs of Arabic, points of Hebrew and Syriac, and what else tells there how to recite or to sing, go: the
//!   same text is printed with them and without (`ArabicNormalizer`). All of them have their own weight on the second
//!   level of `allkeys.txt` alone. Hamzas above and below other letters stay.
//! * In capitals, Đ, Ð and Ɖ look the same, and old texts in Vietnamese, Serbian and Croatian have the second for the
//!   first. So they are one, and so are their small letters. So are ǝ and ə, and the line and the dot below a letter,
//!   of which Yoruba is written with either.
//! * Acute and grave on vowels of Cyrillic tell where a word is stressed, and go. In Macedonian and Bulgarian, where ѐ
//!   and ѝ are letters, few words differ in them alone.
//! * A nasal of Devanagari with a virama before a stop of its own row, and the anusvara; and the candrabindu and the
//!   anusvara (Lucene's `HindiNormalizer`, of the first for न only).
//! * Thai and Lao ำ behind a tone mark, and the two signs that it is made of, around the mark. แ and twice เ. Two vowel
//!   signs of Khmer and the two that each is made of. And a mark on a letter of Thai, Lao, Khmer or Myanmar that is
//!   typed twice, or before another mark that belongs before it. They look the same (the normalisers of PyThaiNLP and
//!   of the Khmer fonts; Unicode Technical Note 11 on Myanmar).
//! * The Armenian ligature և and its two letters, of which the second is ւ or, in capitals of today's spelling, Վ.
//! * What the default table of the Unicode Collation Algorithm (`allkeys.txt`) holds equal but for the third level,
//!   that of capitals and variants: a Malayalam chillu and its consonant with a virama, a Bengali khanda ta and ta with
//!   a virama, a Yiddish digraph and its two letters. With a joiner, which is not seen, the former are how a chillu and
//!   a khanda ta were written before they were encoded (Lucene's `IndicNormalizer` composes them). So a chillu is also
//!   one with a consonant whose virama is seen, though a few words differ in nothing else. A virama behind a chillu
//!   is none of its own: so the conjunct of ന and റ is written that looks as it sounds.
//! * A voicing mark of kana behind a letter (か゛) belongs to it.
//! * A superscript digit behind a digit or a word is a note, and no part of them; behind a letter or two, as in km², it
//!   belongs to them. So does a fraction. A number in a circle stands by itself.
//! * Two vowel signs of Devanagari and Gujarati that look as one, a dead ra above a short i and a long one, and a long
//!   a of Tamil in the place of its ra. A nukta, a vowel and a nasal of one letter are read in this order, however they
//!   were typed (`visual_rewrite` of Nisaba).
//! * A word that a hyphen parts at the end of a line is one: a soft one, or between small letters any other, as PDF
//!   files have them, with what programs that read such files write for a soft one (U+FFFE, U+0002), and `¬` of others.
//!   What colours a text in a terminal is none of it.
//! * The signs ™, ℠ and ℹ are no letters, as © and ® are none. Nor is a Korean araea by itself (ㆍ): on the pages of
//!   today it is a middle dot. The frame of a key (`1️⃣`) only frames its digit.
//! * A tatweel, the lajanyalan of N'Ko and the nirugu of Mongolian only stretch a word. `allkeys.txt` ignores all of
//!   them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use memchr::{memchr3_iter, memmem};
use smallvec::SmallVec;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use super::properties::{Class, Properties, Property};
use super::ranges::{FOLDINGS, VOWEL_LETTERS};

/// Returns `text` without what nobody sees, decomposed to Unicode normalisation form KD, folded, and composed to form
/// C. Full-width letters, ligatures, composed accents, capitals, and letters with two codes become one form.
/// White space stays, because features do not contain any.
pub(crate) fn normalize(text: &str) -> Cow<'_, str> {
    let joined = joined(text);
    let text = &*joined;
    if text.is_ascii() {
        return match joined {
            Cow::Owned(mut text) => {
                text.make_ascii_lowercase();
                Cow::Owned(text)
            }
            Cow::Borrowed(text) if text.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Cow::Owned(text.to_ascii_lowercase())
            }
            text => text,
        };
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        // Plain ASCII stays the same, except that its last letter may compose with an accent behind it.
        // Nothing before an ASCII character composes with it.
        let at = rest.bytes().position(|byte| !byte.is_ascii());
        let at = at.unwrap_or(rest.len());
        let ascii = if at < rest.len() {
            at.saturating_sub(1)
        } else {
            at
        };
        let (plain, other) = rest.split_at(ascii);
        let start = folded.len();
        folded.push_str(plain);
        folded[start..].make_ascii_lowercase();
        let begun = at - ascii;
        let end = match other[begun..].bytes().position(|byte| byte.is_ascii()) {
            Some(at) => begun + at,
            None => other.len(),
        };
        let (other, behind) = other.split_at(end);
        let begin = text.len() - rest.len() + ascii;
        fold_into(text, begin..begin + other.len(), &mut folded);
        rest = behind;
    }
    Cow::Owned(folded)
}

/// What may part a word at the end of a line: hyphens, and what programs write for them.
pub(in crate::text) const HYPHENS: [&str; 7] = [
    "-", "\u{2}", "\u{ad}", "\u{2010}", "\u{ac}", "\u{2e17}", "\u{fffe}",
];

/// The text without what parts a word at the end of a line, and without what colours it in a terminal.
fn joined(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut hyphens = HYPHENS.iter().filter(|hyphen| !hyphen.is_ascii());
    let has_hyphen =
        !text.is_ascii() && hyphens.any(|hyphen| memmem::find(bytes, hyphen.as_bytes()).is_some());
    let mut others = memchr3_iter(b'-', ESCAPE, 2, bytes);
    if !has_hyphen && others.all(|at| part_that_goes(text, at).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.char_indices() {
        if at >= from
            && let Some(part) = part_that_goes(text, at)
        {
            joined.push_str(&text[from..part.start.max(from)]);
            from = part.end;
        }
    }
    joined.push_str(&text[from..]);
    Cow::Owned(joined)
}

const ESCAPE: u8 = 0x1b;

/// The part of a text that goes since this character is there: the hyphen of a word that goes on in the next line, with
/// the end of the line, or a sequence that a terminal takes for a command (ECMA-48).
fn part_that_goes(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, rest) = text.split_at(at);
    let mut behind = rest.chars();
    let hyphen = behind.next()?;
    let behind = behind.as_str();
    let is_soft = match hyphen {
        '\u{1b}' => return Some(at..at + 1 + command_length(behind)?),
        '-' | '\u{2010}' | '\u{ac}' | '\u{2e17}' => false,
        '\u{ad}' | '\u{2}' | '\u{fffe}' => true,
        _ => return None,
    };
    let next = behind.trim_start_matches(is_space_of_line);
    let end = text.len() - next.len();
    let space = &text[text.len() - behind.len()..end];
    if is_soft && space.contains(ends_line) {
        return Some(before.trim_end_matches(ends_line).len()..end);
    }
    let parts_word = match is_soft {
        true => space.is_empty() && hyphen != '\u{ad}',
        // Behind an empty line, another paragraph begins.
        false => is_one_line_end(space.trim_matches(|c| !ends_line(c))),
    };
    let letter = before.trim_end_matches(is_accent);
    (parts_word && letter.ends_with(is_small) && next.starts_with(is_small)).then_some(at..end)
}

fn is_one_line_end(space: &str) -> bool {
    space == "\r\n" || space.chars().count() == 1
}

/// Whether a character is a mark of a letter that was decomposed.
const fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// The length of the command of a terminal behind the character for it: one that colours, erases the rest of the line,
/// chooses a mode or a set of characters, or names a link. One that goes to another place on the screen parts words.
fn command_length(behind: &str) -> Option<usize> {
    let bytes = behind.as_bytes();
    match bytes.first()? {
        b'[' => {
            let inner = bytes[1..].iter();
            let inner = inner.take_while(|byte| matches!(byte, b' '..=b'?')).count();
            matches!(bytes.get(1 + inner), Some(b'm' | b'K' | b'h' | b'l')).then_some(inner + 2)
        }
        b'('..=b'/' => bytes
            .get(1)
            .filter(|byte| byte.is_ascii_graphic())
            .map(|_| 2),
        b']' => {
            let end = bytes.iter().position(|&byte| byte == 7 || byte == ESCAPE)?;
            match bytes[end..] {
                [ESCAPE, b'\\', ..] => Some(end + 2),
                [ESCAPE, ..] => None,
                _ => Some(end + 1),
            }
        }
        _ => None,
    }
}

/// Whether a line ends with this character.
const fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character is white space at the end of a line or the beginning of the next one, or ends it.
const fn is_space_of_line(c: char) -> bool {
    ends_line(c) || matches!(c, ' ' | '\t' | '\u{b}' | '\u{c}' | '\u{a0}')
}

/// Whether a character is a small letter of a script that parts words by hyphens. In the first blocks of Latin behind
/// that of its first supplement, capitals are taken for small ones.
const fn is_small(c: char) -> bool {
    matches!(
        c,
        'a'..='z'
            | '\u{df}'..='\u{f6}'
            | '\u{f8}'..='\u{17f}'
            | '\u{3ac}'..='\u{3ce}'
            | '\u{430}'..='\u{45f}'
    )
}

/// As [`normalize`], of a text that nobody else needs: one of ASCII is changed in its place.
#[cfg(feature = "ingest")]
pub(crate) fn normalize_owned(mut text: String) -> String {
    if text.is_ascii() && matches!(joined(&text), Cow::Borrowed(_)) {
        text.make_ascii_lowercase();
        return text;
    }
    match normalize(&text) {
        Cow::Owned(normalized) => normalized,
        Cow::Borrowed(_) => text,
    }
}

/// Normalises and folds a piece that is mostly not ASCII.
///
/// Two kinds of characters stay the same and compose with nothing. Han characters do so by their nature. The
/// others are those that are not in the version of Unicode that the schemes have. A later version of the
/// normalising crate knows some of them, and no fingerprint may depend on that.
fn fold_into(text: &str, part: Range<usize>, folded: &mut String) {
    let mut rest = &text[part.clone()];
    while !rest.is_empty() {
        let (same, other) = rest.split_at(rest.find(|c| !stays(c)).unwrap_or(rest.len()));
        folded.push_str(same);
        let (piece, behind, properties, may_need_order) = piece(other);
        let is_composed = !properties.has(Property::FoldsToSeveral)
            && (!may_need_order || is_arranged(piece))
            && (!properties.has(Property::Changes)
                || is_nfkc_quick(piece.chars()) == IsNormalized::Yes);
        if is_composed {
            folded.extend(piece.chars().map(fold));
        } else if properties.has(Property::FoldsToSeveral)
            || !compose_and_fold(piece, may_need_order, folded)
        {
            let letters = match piece.chars().any(may_be_note) {
                true => letters_at_end(&text[..part.end - other.len()]),
                false => 0,
            };
            decompose_and_fold(piece, letters, folded);
        }
        rest = behind;
    }
}

fn stays(c: char) -> bool {
    stays_by(c, Properties::new(c))
}

fn stays_by(c: char, properties: Properties) -> bool {
    let is_unknown = !properties.has(Property::Assigned) && !properties.has(Property::Dropped);
    matches!(c, '\u{4E00}'..='\u{9FFF}') || is_unknown
}

/// Cuts a text before the first character that stays. With what is true of some character before that, and whether
/// there may be any that is arranged.
fn piece(text: &str) -> (&str, &str, Properties, bool) {
    let mut all = Properties::new(' ');
    let mut may_need_order = false;
    for (at, c) in text.char_indices() {
        let properties = Properties::new(c);
        if stays_by(c, properties) {
            return (&text[..at], &text[at..], all, may_need_order);
        }
        all = all.or(properties);
        may_need_order |= has_an_order(c);
    }
    (text, "", all, may_need_order)
}

/// Composes a piece, and folds its characters one by one. That takes half of the time of the plain algorithm. Returns
/// false, with nothing added, where that may be another text: where a character folds to several, where a mark may be
/// lost on its letter, or compose with the folded letter.
fn compose_and_fold(piece: &str, may_need_order: bool, folded: &mut String) -> bool {
    let start = folded.len();
    let mut base = ' ';
    let mut base_folds = false;
    for c in piece.nfkc() {
        let properties = Properties::new(c);
        let is_mark_that_matters = properties.has(Property::Changes)
            && (base_folds
                || properties.has(Property::Folds)
                || matches!(c, '\u{300}'..='\u{36f}'));
        if is_mark_that_matters
            || base == '\u{930}' && c == '\u{93c}'
            || matches!(c, '\u{653}'..='\u{655}') && is_lost_on(fold(base), c)
            || properties.has(Property::FoldsToSeveral)
            || properties.has(Property::Dropped)
        {
            folded.truncate(start);
            return false;
        }
        if properties.class() != Class::Mark {
            base = c;
            base_folds = properties.has(Property::Folds);
        }
        folded.push(fold(c));
    }
    let is_right = !may_need_order || is_arranged(&folded[start..]);
    if !is_right {
        folded.truncate(start);
    }
    is_right
}

/// The letters of the word with which a text ends, as far as they matter to a note behind it.
fn letters_at_end(text: &str) -> usize {
    let of_word = text.chars().rev().map_while(|c| {
        let properties = Properties::new(c);
        let is_letter = is_letter(c, properties);
        let is_passed_over = properties.has(Property::Dropped) || properties.class() == Class::Mark;
        (is_letter || is_passed_over).then_some(is_letter)
    });
    of_word
        .filter(|&is_letter| is_letter)
        .take(WORD_OF_NOTE)
        .count()
}

/// Whether a character is a letter, and not a part of a Korean syllable behind its first.
fn is_letter(c: char, properties: Properties) -> bool {
    properties.class() == Class::Word && !c.is_numeric() && !matches!(c, '\u{1160}'..='\u{11ff}')
}

/// The plain algorithm, of a piece or of a whole text. So many letters of a word stand before it.
fn decompose_and_fold(text: &str, mut letters: usize, folded: &mut String) {
    let mut folding = Folding::default();
    let mut before = ' ';
    let has_note = text.chars().any(may_be_note);
    let parted = text.chars().flat_map(|c| {
        let properties = Properties::new(c);
        if properties.has(Property::Dropped) {
            return [None; 4].into_iter().flatten();
        }
        let c = read_as(c);
        if !has_note {
            return [None, None, Some(c), None].into_iter().flatten();
        }
        let is_behind_word = letters >= WORD_OF_NOTE || before.is_ascii_digit();
        letters = match properties.class() {
            Class::Mark => letters,
            _ if is_letter(c, properties) => letters + 1,
            _ => 0,
        };
        before = c;
        let is_apart = is_in_circle(c) || is_behind_word && (is_fraction(c) || is_superscript(c));
        let [first, second] = digits_in_circle(c).unwrap_or([None, Some(c)]);
        [
            is_apart.then_some(' '),
            first,
            second,
            is_in_circle(c).then_some(' '),
        ]
        .into_iter()
        .flatten()
    });
    let letters = parted.nfkd().flat_map(|c| folding.next(c));
    if !text.chars().any(has_an_order) {
        return folded.extend(letters.nfc());
    }
    let mut letters: Letters = letters.collect();
    if !are_arranged(letters.iter().copied()) {
        letters = arranged(letters);
    }
    folded.extend(letters.into_iter().nfc());
}

/// What a reader reads where a decomposition says otherwise. The signs of trademarks and of information are no letters:
/// they part words as © does. So does the letter araea by itself, which Korean pages have for a middle dot. A voicing
/// mark of kana belongs to the letter before it, and no space is between them.
const fn read_as(c: char) -> char {
    match c {
        '\u{2120}' | '\u{2122}' | '\u{2139}' | '\u{318d}' => ' ',
        '\u{309b}' => '\u{3099}',
        '\u{309c}' => '\u{309a}',
        _ => c,
    }
}

/// Where a mark of India, Thai, Lao, Khmer or Myanmar stands among those of its letter. Marks of India of one place
/// stay as they are, others in the order of their combining classes, then of their codes. The sign of a Khmer consonant
/// below another is none of them: what is behind it belongs to that consonant. Nor is the vowel e of Myanmar, which
/// parts those before it from those behind.
fn place_of_mark(c: char) -> Option<u8> {
    Some(match c {
        '\u{900}'..='\u{d7f}' => {
            let is_mark = Properties::new(c).class() == Class::Mark;
            return place_in_block(u32::from(c) & 0x7f).filter(|_| is_mark);
        }
        // Signs of consonants, or that change one.
        '\u{ebc}' | '\u{103b}'..='\u{103e}' | '\u{17c9}' | '\u{17ca}' | '\u{17cc}' => 0,
        // Vowels.
        '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}' => 1,
        '\u{eb1}' | '\u{eb4}'..='\u{ebb}' => 1,
        '\u{102d}'..='\u{1030}' | '\u{1032}' | '\u{17b6}'..='\u{17c5}' => 1,
        // Tones and other marks.
        '\u{e48}'..='\u{e4c}' | '\u{e4e}' | '\u{ec8}'..='\u{ecc}' | '\u{ece}' => 2,
        '\u{1036}' | '\u{17c6}'..='\u{17c8}' | '\u{17cb}' | '\u{17cd}'..='\u{17d1}' => 2,
        // What is left of the letter am, which stands behind the tone.
        '\u{e4d}' | '\u{ecd}' => 3,
        _ => return None,
    })
}

/// The same in a block of a script of India, by the place in the block: all of them are built alike.
const fn place_in_block(c: u32) -> Option<u8> {
    match c {
        // The nukta.
        0x3c => Some(0),
        // Vowels.
        0x3a | 0x3b | 0x3e..=0x4c | 0x4e | 0x4f | 0x55..=0x57 | 0x62 | 0x63 => Some(1),
        // What sounds through the nose, or behind the vowel.
        0x00..=0x03 => Some(2),
        _ => None,
    }
}

/// Whether a character may be one of those that are arranged: from the first mark of Devanagari to the last of Khmer.
const fn has_an_order(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{17d1}')
}

/// Whether both are marks, and how the first is sorted beside the second.
fn order_of_marks(first: char, second: char) -> Option<Ordering> {
    // A script has a block of 128 codes, so marks of two are not sorted among each other.
    if u32::from(first) >> 7 != u32::from(second) >> 7 {
        return None;
    }
    let places = place_of_mark(first)?.cmp(&place_of_mark(second)?);
    // Two of India may compose, in this order.
    if first < '\u{e31}' {
        return Some(places);
    }
    Some(places.then_with(|| {
        let classes = [first, second].map(canonical_combining_class);
        classes[0].cmp(&classes[1]).then(first.cmp(&second))
    }))
}

/// The letter or the sign that looks as these two do.
const fn as_one(first: char, second: char) -> Option<char> {
    match (first, second) {
        ('\u{e40}', '\u{e40}') => Some('\u{e41}'),
        ('\u{ec0}', '\u{ec0}') => Some('\u{ec1}'),
        ('\u{17b6}', '\u{17c1}') => Some('\u{17c4}'),
        ('\u{17b8}', '\u{17c1}') => Some('\u{17be}'),
        ('\u{93e}', '\u{945}') => Some('\u{949}'),
        ('\u{93e}', '\u{946}') => Some('\u{94a}'),
        ('\u{93e}', '\u{947}') => Some('\u{94b}'),
        ('\u{93e}', '\u{948}') => Some('\u{94c}'),
        ('\u{abe}', '\u{ac5}') => Some('\u{ac9}'),
        ('\u{abe}', '\u{ac7}') => Some('\u{acb}'),
        ('\u{abe}', '\u{ac8}') => Some('\u{acc}'),
        _ => None,
    }
}

/// Whether a Tamil sign for a long a stands where only the letter ra can, which looks the same: before a virama, or
/// another vowel sign.
const fn is_ra(sign: char, behind: char) -> bool {
    sign == '\u{bbe}' && matches!(behind, '\u{bbf}' | '\u{bc0}' | '\u{bcd}')
}

/// Whether three letters look as the long i of Devanagari does: a dead ra above a short one.
const fn is_long_i(ra: char, virama: char, i: char) -> bool {
    ra == '\u{930}' && virama == '\u{94d}' && i == '\u{907}'
}

/// Whether a nasal of Devanagari stands before a stop of its own row, which an anusvara may be written for.
const fn is_nasal_of(nasal: char, virama: char, stop: char) -> bool {
    virama == '\u{94d}'
        && match nasal {
            '\u{919}' => matches!(stop, '\u{915}'..='\u{918}'),
            '\u{91e}' => matches!(stop, '\u{91a}'..='\u{91d}'),
            '\u{923}' => matches!(stop, '\u{91f}'..='\u{922}'),
            '\u{928}' => matches!(stop, '\u{924}'..='\u{927}'),
            '\u{92e}' => matches!(stop, '\u{92a}'..='\u{92d}'),
            _ => false,
        }
}

/// The letters of a piece, which is mostly a word.
type Letters = SmallVec<[char; 32]>;

/// Whether [`arranged`] would change nothing.
fn are_arranged(letters: impl Iterator<Item = char>) -> bool {
    let (mut first, mut second) = (' ', ' ');
    for c in letters {
        if as_one(second, c).is_some()
            || is_nasal_of(first, second, c)
            || is_ra(second, c)
            || is_long_i(first, second, c)
            || is_twice(second, c)
            || order_of_marks(second, c) == Some(Ordering::Greater)
        {
            return false;
        }
        first = second;
        second = c;
    }
    true
}

/// Whether [`arranged`] would change nothing of a text, which may be composed and not folded.
fn is_arranged(text: &str) -> bool {
    match text.chars().any(is_composed) {
        true => are_arranged(text.chars().nfd().map(fold)),
        false => are_arranged(text.chars().map(fold)),
    }
}

/// Whether a character that may have an order decomposes to some that have one.
const fn is_composed(c: char) -> bool {
    matches!(
        c,
        '\u{9cb}'
            | '\u{9cc}'
            | '\u{b48}'
            | '\u{b4b}'
            | '\u{b4c}'
            | '\u{b94}'
            | '\u{bca}'..='\u{bcc}'
            | '\u{c48}'
            | '\u{cc0}'
            | '\u{cc7}'..='\u{ccb}'
            | '\u{d4a}'..='\u{d4c}'
            | '\u{1026}'
    )
}

/// Puts the marks of each letter in order, each of them once, and writes what looks the same in one way.
fn arranged(mut letters: Letters) -> Letters {
    for marks in letters.chunk_by_mut(|&a, &b| order_of_marks(a, b).is_some()) {
        marks.sort_by(|&a, &b| order_of_marks(a, b).unwrap_or(Ordering::Equal));
    }
    letters.dedup_by(|a, b| is_twice(*a, *b));
    let mut arranged = Letters::with_capacity(letters.len());
    for c in letters {
        match arranged[..] {
            [.., before] if let Some(one) = as_one(before, c) => {
                arranged.pop();
                arranged.push(one);
            }
            [.., nasal, virama] if is_nasal_of(nasal, virama, c) => {
                arranged.truncate(arranged.len() - 2);
                arranged.extend(['\u{902}', c]);
            }
            [.., ra, virama] if is_long_i(ra, virama, c) => {
                arranged.truncate(arranged.len() - 2);
                arranged.push('\u{908}');
            }
            [.., sign] if is_ra(sign, c) => {
                arranged.pop();
                arranged.extend(['\u{bb0}', c]);
            }
            _ => arranged.push(c),
        }
    }
    // Two vowel signs may have become one that was there.
    arranged.dedup_by(|a, b| is_twice(*a, *b));
    arranged
}

/// Whether a mark that has a place stands twice.
fn is_twice(first: char, second: char) -> bool {
    first == second && order_of_marks(first, second).is_some()
}

/// Whether a character is a fraction, which decomposes to digits. So `2½` would be 21 halves.
const fn is_fraction(c: char) -> bool {
    matches!(c, '\u{bc}'..='\u{be}' | '\u{2150}'..='\u{215f}' | '\u{2189}')
}

/// Whether a character may be apart from the word before it.
const fn may_be_note(c: char) -> bool {
    is_superscript(c) || is_fraction(c) || is_in_circle(c)
}

/// The letters of a word behind which a superscript digit is a note.
const WORD_OF_NOTE: usize = 3;

const fn is_superscript(c: char) -> bool {
    matches!(
        c,
        '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{2070}' | '\u{2074}'..='\u{2079}'
    )
}

/// Whether a character is a number in a circle.
const fn is_in_circle(c: char) -> bool {
    matches!(
        c,
        '\u{2460}'..='\u{2473}'
            | '\u{24ea}'..='\u{24ff}'
            | '\u{2776}'..='\u{2793}'
            | '\u{3251}'..='\u{325f}'
            | '\u{32b1}'..='\u{32bf}'
    )
}

/// The digits of a number in a circle that does not decompose to them.
fn digits_in_circle(c: char) -> Option<[Option<char>; 2]> {
    let (first, number) = match c {
        '\u{24eb}'..='\u{24f4}' => ('\u{24eb}', 11),
        '\u{24f5}'..='\u{24fe}' => ('\u{24f5}', 1),
        '\u{24ff}' => ('\u{24ff}', 0),
        '\u{2776}'..='\u{277f}' => ('\u{2776}', 1),
        '\u{2780}'..='\u{2789}' => ('\u{2780}', 1),
        '\u{278a}'..='\u{2793}' => ('\u{278a}', 1),
        _ => return None,
    };
    let number = number + (u32::from(c) - u32::from(first));
    let tens = char::from_digit(number / 10, 10).filter(|&tens| tens > '0');
    Some([tens, char::from_digit(number % 10, 10)])
}

/// The one character that a character folds to, apart from those that fold to several.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    if !Properties::new(c).has(Property::Folds) {
        return c;
    }
    let code = u32::from(c);
    let (_, _, _, distance) = FOLDINGS[FOLDINGS.partition_point(|&(_, last, ..)| last < code)];
    code.checked_add_signed(distance)
        .and_then(char::from_u32)
        .unwrap_or(c)
}

/// Folds the characters of a decomposed text, one after another.
#[derive(Default)]
struct Folding {
    /// The last character that is no mark, folded.
    base: char,
    /// Whether the last character was a chillu.
    is_behind_chillu: bool,
}

impl Folding {
    /// What a character becomes behind those before it.
    fn next(&mut self, c: char) -> impl Iterator<Item = char> + use<> {
        let [first, second] = self.folded(c);
        first.into_iter().chain(second)
    }

    fn folded(&mut self, c: char) -> [Option<char>; 2] {
        let properties = Properties::new(c);
        if properties.has(Property::Dropped) {
            return [None; 2];
        }
        let is_behind_chillu = std::mem::take(&mut self.is_behind_chillu);
        let is_doubled = is_behind_chillu && c == MALAYALAM_VIRAMA;
        if is_doubled || properties.class() == Class::Mark && is_lost_on(self.base, c) {
            return [None; 2];
        }
        if properties.has(Property::FoldsToSeveral)
            && let Some((first, second)) = two_letters(c)
        {
            self.base = first;
            self.is_behind_chillu = second == MALAYALAM_VIRAMA;
            return [Some(first), Some(second)];
        }
        let folded = match fold(c) {
            '\u{57e}' if self.base == '\u{565}' => '\u{582}',
            folded => folded,
        };
        if Properties::new(folded).class() != Class::Mark {
            self.base = folded;
        }
        [Some(folded), None]
    }
}

/// Whether a mark says nothing on this letter. The letter is folded.
const fn is_lost_on(base: char, mark: char) -> bool {
    match base {
        'i' | 'j' => mark == '\u{307}',
        // The dots of the Cyrillic ё, and where a word is stressed.
        '\u{435}' => matches!(mark, '\u{300}' | '\u{301}' | '\u{308}'),
        // A nukta on ra.
        '\u{930}' => mark == '\u{93c}',
        // Alef, heh, waw, yeh, and the yeh of Urdu at the end of a word.
        '\u{627}' | '\u{647}' | '\u{648}' | '\u{64a}' | '\u{6d2}' => {
            matches!(mark, '\u{653}'..='\u{655}')
        }
        // Vowels of Cyrillic.
        '\u{430}' | '\u{438}' | '\u{43e}' | '\u{443}' | '\u{44b}' | '\u{44d}'..='\u{44f}' => {
            matches!(mark, '\u{300}' | '\u{301}')
        }
        '\u{454}' | '\u{456}' => matches!(mark, '\u{300}' | '\u{301}'),
        // Grave, acute, circumflex, tilde, macron, breve, diaeresis, inverted breve, psili, dasia, perispomeni.
        '\u{370}'..='\u{3ff}' => matches!(
            mark,
            '\u{300}'
                ..='\u{304}'
                    | '\u{306}'
                    | '\u{308}'
                    | '\u{311}'
                    | '\u{313}'
                    | '\u{314}'
                    | '\u{342}'
        ),
        _ => false,
    }
}

const MALAYALAM_VIRAMA: char = '\u{d4d}';

/// The letters that one is written for.
fn two_letters(c: char) -> Option<(char, char)> {
    Some(match c {
        'ß' | 'ẞ' => ('s', 's'),
        '\u{5f0}' => ('\u{5d5}', '\u{5d5}'),
        '\u{5f1}' => ('\u{5d5}', '\u{5d9}'),
        '\u{5f2}' => ('\u{5d9}', '\u{5d9}'),
        '\u{9ce}' => ('\u{9a4}', '\u{9cd}'),
        '\u{d54}' => ('\u{d2e}', MALAYALAM_VIRAMA),
        '\u{d55}' => ('\u{d2f}', MALAYALAM_VIRAMA),
        '\u{d56}' => ('\u{d34}', MALAYALAM_VIRAMA),
        '\u{d7a}' => ('\u{d23}', MALAYALAM_VIRAMA),
        '\u{d7b}' => ('\u{d28}', MALAYALAM_VIRAMA),
        '\u{d7c}' => ('\u{d30}', MALAYALAM_VIRAMA),
        '\u{d7d}' => ('\u{d32}', MALAYALAM_VIRAMA),
        '\u{d7e}' => ('\u{d33}', MALAYALAM_VIRAMA),
        '\u{d7f}' => ('\u{d15}', MALAYALAM_VIRAMA),
        _ => {
            let at = VOWEL_LETTERS.binary_search_by_key(&c, |&(letter, ..)| letter);
            let (_, first, second) = VOWEL_LETTERS[at.ok()?];
            (first, second)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_in_and_outside_ascii() {
        assert_eq!(normalize("Hello WORLD"), "hello world");
        assert_eq!(
            normalize("ÄÖÜ Σίσυφος ΣΊΣΥΦΟΣ ΣΙΣΥΦΟΣ"),
            "äöü σισυφοσ σισυφοσ σισυφοσ"
        );
        assert_eq!(normalize("ПРИВЕТ"), "привет");
    }

    #[test]
    fn compatible_forms_become_one() {
        assert_eq!(normalize("ＡＢＣ１２３ ﬁn e\u{301}"), "abc123 fin é");
        assert_eq!(normalize("漢字かな"), "漢字かな");
    }

    /// `2½` was 21 halves.
    #[test]
    fn a_fraction_is_parted_from_the_number_before_it() {
        assert_eq!(normalize("2½ 1\u{ad}¾ ½ x⅓ ⅔"), "2 1⁄2 1 3⁄4 1⁄2 x1⁄3 2⁄3");
        assert_eq!(normalize("Tasse½"), normalize("Tasse ½"));
    }

    /// They were letters of the word before them. The frame of a key was a part of its digit.
    #[test]
    fn signs_that_decompose_to_letters_part_words() {
        assert_eq!(normalize("Acme™ Widget℠ ℹ️"), "acme  widget   ");
        assert_eq!(normalize("정치ㆍ경제"), "정치 경제");
        assert_eq!(normalize("1️⃣ x\u{20e3}"), "1 x");
        // Two letters of old Hangul, the second of which is an araea, stay a syllable.
        assert_eq!(normalize("\u{1112}\u{119e}"), "\u{1112}\u{119e}");
    }

    #[test]
    fn vowel_letters_of_india_are_one_with_their_parts() {
        for (letter, first, second) in VOWEL_LETTERS {
            assert_one(&[&format!("क{letter}क"), &format!("क{first}{second}क")]);
        }
        assert_one(&["और", "अौर"]);
        assert_one(&["ഈ", "ഇൗ"]);
    }

    #[test]
    fn a_text_is_one_with_vowel_signs_and_without() {
        assert_one(&[
            "قل هو الله احد الله الصمد",
            "قُلْ هُوَ ٱللَّهُ أَحَدٌ ٱللَّهُ ٱلصَّمَدُ",
            "قُلۡ هُوَ ٱللَّهُ أَحَدٌ ٱللَّهُ ٱلصَّمَدُ",
        ]);
        assert_one(&[
            "كلها",
            "كلّها",
            "كل\u{fe7c}ها",
            "كل\u{fe7d}ها",
            "كل\u{fc60}ها",
        ]);
        assert_one(&[
            "إلى آخر أمس",
            "الى اخر امس",
            "ا\u{655}لى ا\u{653}خر ا\u{654}مس",
            "ٱلى اخر امس",
        ]);
        assert_one(&[
            "בראשית ברא אלהים",
            "בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים",
            "\u{fb31}ר\u{5b5}א\u{fb2a}ית ברא אלהים",
        ]);
        assert_one(&["رئیس تأثیر مسأله", "رییس تاثیر مساله"]);
        assert_one(&["گئے لئے ۓ", "گيے ليے ے"]);
        assert_one(&["القاهره", "القاهرة"]);
        assert_ne!(normalize("شيء"), normalize("شي"));
    }

    #[test]
    fn stress_and_dots_that_are_written_in_two_ways_are_one() {
        assert_one(&["Росси́я и Украи́на", "Россия и Украина"]);
        assert_one(&["\u{45d} \u{450}", "и е"]);
        assert_ne!(normalize("ќ ѓ й ї"), normalize("к г и і"));
        assert_one(&["ọmọ", "o\u{329}mo\u{329}", "O\u{329}MỌ"]);
        assert_one(&["Azərbaycan", "Azǝrbaycan", "AZƎRBAYCAN", "AZƏRBAYCAN"]);
        assert_one(&["ګوره", "گوره"]);
    }

    #[test]
    fn nasals_before_a_stop_are_one_with_the_anusvara() {
        assert_one(&["हिंदी संबंध अंक पंच घंटा", "हिन्दी सम्बन्ध अङ्क पञ्च घण्टा"]);
        assert_one(&["हंस", "हँस"]);
        for [dead, dot] in [["अन्न", "अंन"], ["सम्मान", "संमान"], ["जन्म", "जंम"]]
        {
            assert_ne!(normalize(dead), normalize(dot));
        }
    }

    /// They were digits of the word or the number before them.
    #[test]
    fn notes_and_numbers_in_circles_stand_by_themselves() {
        assert_eq!(normalize("members¹² 2020³ 10⁶"), "members 12 2020 3 10 6");
        assert_eq!(normalize("m² km² cm³ H₂O é²"), "m2 km2 cm3 h2o é2");
        assert_eq!(normalize("①서울⑳"), " 1 서울 20 ");
        assert_eq!(
            normalize("❶a➀b⓵c㉑d㊿e⓫f⓿g"),
            " 1 a 1 b 1 c 21 d 50 e 11 f 0 g"
        );
        assert_eq!(
            normalize("совет¹ comité¹² cité³"),
            "совет 1 comité 12 cité 3"
        );
        assert_eq!(normalize("市会¹ 10é² e\u{301}té²"), "市会1 10é2 été 2");
    }

    #[test]
    fn a_word_that_a_soft_hyphen_parts_at_a_line_end_is_one() {
        assert_one(&[
            "information",
            "infor\u{ad}\nmation",
            "infor\u{ad}\r\nmation",
            "infor\u{ad}mation",
        ]);
        assert_eq!(normalize("one \u{ad}two\n"), "one two\n");
    }

    #[test]
    fn capitals_that_look_the_same_are_one_with_their_small_letters() {
        assert_one(&["ĐÀ NẴNG", "ÐÀ NẴNG", "ƉÀ NẴNG", "đà nẵng", "ðà nẵng"]);
    }

    #[test]
    fn marks_of_thai_lao_khmer_and_myanmar_are_one_in_every_order() {
        assert_one(&[
            "ต่ำ",
            "ต\u{e4d}\u{e48}า",
            "ต\u{e48}\u{e4d}า",
            "ต\u{e48}\u{e48}ำ",
        ]);
        assert_one(&["ที่", "ท\u{e48}\u{e35}", "ที\u{e48}\u{e48}"]);
        assert_one(&["แม่", "เเม่", "เเม่\u{e48}"]);
        assert_one(&["แเ", "เเเ"]);
        assert_one(&["ນ້ຳ", "ນ\u{ecd}\u{ec9}າ", "ນ\u{ec9}\u{ecd}າ"]);
        assert_one(&["ແມ່", "ເເມ່"]);
        assert_one(&[
            "កើ កោ",
            "ក\u{17c1}\u{17b8} ក\u{17c1}\u{17b6}",
            "ក\u{17b8}\u{17c1} ក\u{17b6}\u{17c1}",
        ]);
        assert_one(&[
            "ကို ကုံ ကြို",
            "က\u{102f}\u{102d} က\u{1036}\u{102f} က\u{102d}\u{103c}\u{102f}",
        ]);
        assert_one(&["ស៊ី", "ស\u{17b8}\u{17ca}"]);
        // What is behind the sign of a consonant below belongs to that.
        assert_eq!(normalize("ង\u{17d2}ក\u{17be}"), "ង\u{17d2}ក\u{17be}");
        assert_eq!(normalize("xx เ เ 11"), "xx เ เ 11");
    }

    #[test]
    fn voicing_marks_of_kana_belong_to_the_letter_before_them() {
        assert_one(&["がパ", "か゛ハ゜", "か\u{3099}ハ\u{309a}"]);
    }

    /// All ways to write a word become one.
    fn assert_one(ways: &[&str]) {
        for way in ways {
            assert_eq!(
                normalize(way),
                normalize(ways[0]),
                "{way:?} is {:?}",
                ways[0]
            );
        }
    }

    #[test]
    fn what_nobody_sees_goes() {
        let hidden = "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{200c}\u{200d}\u{200e}\u{200f}\
                      \u{202e}\u{2060}\u{2069}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{1bca0}\u{e0041}\u{e0100}\u{e0fff}";
        for c in hidden.chars() {
            assert_one(&["plain text", &format!("pl{c}ain t{c}{c}ext{c}")]);
            assert_one(&["é", &format!("e{c}\u{301}"), &format!("{c}é{c}")]);
            assert_one(&["文字한국어", &format!("文{c}字한{c}국{c}어")]);
        }
        assert_eq!(
            normalize("a\u{200b}b"),
            "a\u{200b}b",
            "a zero-width space is a space"
        );
    }

    #[test]
    fn letters_with_two_codes_are_one() {
        assert_one(&["می‌خواهم کتاب ۱۲۳", "ميخواهم كتاب ١٢٣", "مىخواهم كتاب ۱۲۳"]);
        assert_one(&["محمد", "محـــمد", "مـحـمـد", "ﻣﺤﻤﺪ"]);
        assert_one(&["ہے", "هے"]);
        assert_one(&[
            "\u{6c0}",
            "\u{6d5}\u{654}",
            "\u{647}\u{654}",
            "\u{6c2}",
            "ه",
        ]);
        assert_one(&["ئ", "\u{64a}\u{654}", "\u{6cc}\u{654}", "ي"]);
        assert_one(&[
            "ştiinţă",
            "știință",
            "s\u{326}tiint\u{327}a\u{306}",
            "ȘTIINŢĂ",
        ]);
        assert_one(&["അവൻ", "അവന്\u{200d}"]);
        assert_one(&[
            "\u{d28}\u{d4d}\u{d31}",
            "\u{d7b}\u{d4d}\u{d31}",
            "\u{d7b}\u{d31}",
        ]);
        assert_one(&["ऱ्या", "र्\u{200d}या", "\u{930}\u{93c}\u{94d}या"]);
        assert_one(&["र\u{93e}", "र\u{93e}\u{93c}", "र\u{93c}\u{93e}"]);
        assert_one(&["ஶ்ரீ", "ஸ்ரீ"]);
        assert_one(&["елка", "ёлка", "е\u{308}лка", "ЁЛКА", "Е\u{308}ЛКА"]);
        assert_one(&["長民食青西 母龟", "⻑⺠⻝⻘⻄ ⺟⻳"]);
        assert_one(&[
            "2026 3",
            "٢٠٢٦ ٣",
            "۲۰۲۶ ۳",
            "२०२६ ३",
            "২০২৬ ৩",
            "๒๐๒๖ ๓",
            "２０２６ ３",
        ]);
        assert_one(&["ᠮᠣᠩᠭᠣᠯ", "ᠮᠣᠩ\u{180a}ᠭᠣᠯ"]);
        assert_one(&["\u{9ce}", "\u{9a4}\u{9cd}\u{200d}"]);
        assert_one(&["ייִד װ", "ײִד וו"]);
    }

    #[test]
    fn capitals_of_every_language_are_one_with_small_letters() {
        assert_one(&[
            "Işık ılık İzmir",
            "IŞIK ILIK IZMIR",
            "ışık ılık i\u{307}zmir",
            "IŞIK ILIK İZMİR",
        ]);
        assert_one(&["Straße", "STRASSE", "STRAẞE", "Strasse"]);
        assert_one(&[
            "Ἀθῆναι ᾍδης Μάιος",
            "ΑΘΗΝΑΙ ΑΙΔΗΣ ΜΑΪΟΣ",
            "Αθήναι ΑΙΔΗΣ ΜΑΙΟΣ",
        ]);
        assert_one(&["և", "եւ", "ԵՒ", "ԵՎ", "եվ"]);
        assert_one(&["Երևան", "ԵՐԵՎԱՆ"]);
        assert_one(&["i\u{307}\u{301} į\u{307} j\u{307}", "Í Į J"]);
        assert_one(&["ŉ ǰ ﬁ ǆ", "ʼN J\u{30c} FI Ǆ", "ʼn ǰ Fi ǅ"]);
        for c in ('\0'..=char::MAX).filter(|&c| Properties::new(c).has(Property::Assigned)) {
            let [small, capital] = [
                c.to_lowercase().collect::<String>(),
                c.to_uppercase().collect(),
            ];
            assert_one(&[&c.to_string(), &small, &capital]);
        }
    }

    proptest::proptest! {
        /// The plain algorithm folds the whole text at once.
        #[test]
        fn normalising_piece_by_piece_equals_the_whole(
            text in concat!(
                "([a-cA-CiIjJst ]|[\u{300}-\u{30f}\u{323}-\u{328}\u{345}]|[éÅﬁＡ가中文，々\u{3099}か]|[άᾴΐΣİıßẞșţ]",
                "|[\u{ad}\u{200b}-\u{200d}\u{640}\u{fe0f}\u{e0065}]|[ำเแต\u{e31}\u{102d}\u{102f}\u{103c}\u{e38}\u{e3a}\u{e48}\u{e4c}\u{e4d}ສ\u{17d2}\u{17b8}\u{17ca}゛]|[²③❶㉑नम्दबँРиै़ंािா்\u{301}\u{329}ئةۓ]|[آاٱÐđ\u{653}\u{5b0}\u{fe70}]|[يیکهۀ\u{654}\u{64b}ൻണ\u{d4d}ײ]|[ёЁе½⅓2ऱर\u{93c}\u{93e}\u{902}\u{94d}ՎվեԵ๓⻑]",
                "|[\u{1100}-\u{1105}\u{1161}-\u{1165}\u{11a8}-\u{11ac}]|\\PC){0,40}"
            ),
        ) {
            let mut whole = String::new();
            decompose_and_fold(&text, 0, &mut whole);
            let normalized = normalize(&text).into_owned();
            proptest::prop_assert_eq!(&normalized, &whole);
            proptest::prop_assert_eq!(&normalize(&normalized), &whole, "once is enough");
        }
    }

    /// What a character becomes by itself is in a table, apart from the plain algorithm.
    #[test]
    fn every_character_folds_as_in_the_plain_algorithm() {
        for c in ('\0'..=char::MAX).filter(|&c| Properties::new(c).has(Property::Assigned)) {
            let mut plain = String::new();
            decompose_and_fold(c.encode_utf8(&mut [0; 4]), 0, &mut plain);
            assert_eq!(normalize(c.encode_utf8(&mut [0; 4])), plain, "{c:?}");
        }
    }

    /// Another digest would be another fingerprint of some text. A later release of the normalising crate
    /// that changes one character of this version of Unicode fails here.
    #[test]
    fn what_the_schemes_know_of_unicode_never_changes() {
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        let mut beside = String::new();
        for c in '\0'..=char::MAX {
            digest.update(normalize(c.encode_utf8(&mut [0; 4])).as_bytes());
            digest.update(&[Properties::new(c).bits()]);
            if Properties::new(c).has(Property::Assigned) {
                // How accents are sorted, and what composes.
                digest.update(&[canonical_combining_class(c)]);
                beside.clear();
                beside.extend(std::iter::once(c).nfd());
                digest.update(normalize(&beside).as_bytes());
            }
        }
        assert_eq!(format!("{:016x}", digest.digest()), "39eded26e3e766cc");
    }

    /// U+0378 has no character in the version that the schemes have.
    #[test]
    fn characters_of_later_versions_stay_and_compose_with_nothing() {
        assert!(!Properties::new('\u{378}').has(Property::Assigned));
        assert_eq!(
            normalize("Å\u{378}\u{30a}Ａ\u{378}"),
            "å\u{378}\u{30a}a\u{378}"
        );
        // The crate may know some of them as accents, which would be sorted, or as letters that decompose.
        let later =
            ('\0'..=char::MAX).filter(|&c| stays(c) && !Properties::new(c).has(Property::Assigned));
        for c in later {
            assert_eq!(normalize(&format!("é{c}\u{301}")), format!("é{c}\u{301}"));
        }
    }

    #[test]
    fn ascii_in_lower_case_is_not_copied() {
        assert!(matches!(normalize("already plain"), Cow::Borrowed(_)));
    }

    /// The standard library knows lower case and not folding. So this leaves out the letters that fold to
    /// another letter than their lower case: those of one kind, Greek ones with accents, and Cherokee, which
    /// folds to upper case.
    #[test]
    fn letters_fold_to_their_lower_case() {
        let version = char::UNICODE_VERSION;
        let mut changed = 0;
        for c in ('\0'..=char::MAX).filter(|&c| Properties::new(c).has(Property::Assigned)) {
            let folded = fold(c);
            changed += usize::from(folded != c && !c.is_ascii());
            let mut lower = c.to_lowercase();
            if let (Some(lower), None) = (lower.next(), lower.next())
                && lower != c
                && folded != c
                && fold(lower) == lower
                && !matches!(c, '\u{13a0}'..='\u{13f5}' | '\u{370}'..='\u{3ff}')
            {
                assert_eq!(folded, lower, "{c:?}, standard library {version:?}");
            }
            assert_eq!(fold(folded), folded, "{c:?}");
        }
        assert_eq!(changed, 2127);
    }

    #[test]
    fn some_letters_fold_to_another_than_their_lower_case() {
        for (c, folded) in [
            ('ς', 'σ'),
            ('Ά', 'α'),
            ('ϋ', 'υ'),
            ('İ', 'i'),
            ('ı', 'i'),
            ('Ș', 'ş'),
            ('\u{ab70}', '\u{13a0}'),
            ('ᏸ', 'Ᏸ'),
            ('ک', 'ك'),
            ('ی', 'ي'),
            ('ى', 'ي'),
            ('ئ', 'ي'),
            ('ة', 'ه'),
            ('أ', 'ا'),
            ('ٱ', 'ا'),
            ('Ð', 'đ'),
            ('۴', '4'),
            ('४', '4'),
        ] {
            assert_eq!(fold(c), folded);
        }
        for same in ['ß', 'é', '文', 'ʼ', 'ء', 'ں'] {
            assert_eq!(fold(same), same);
        }
    }
}
