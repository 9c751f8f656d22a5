//! The tokens of a text: words, and single characters in scripts without spaces.

use unicode_segmentation::UnicodeSegmentation;

/// The tokens of a normalised text: the words of Unicode Standard Annex #29. In scripts that put no spaces
/// between words they are single characters.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).flat_map(str::unicode_words)
}

/// Whether a token is of a script that puts no spaces between words.
pub(super) fn is_unspaced(token: &str) -> bool {
    token.starts_with(is_of_unspaced_script)
}

/// Cuts a text into pieces that have the same words as the whole. The pieces are ASCII throughout where
/// that is possible, because the segmenter takes ASCII text three times as fast. Most texts have a
/// quotation mark or an accent somewhere.
///
/// Every cut is before a space or a line feed. No rule of Annex #29 joins these to the text before them,
/// except spaces to each other, and spaces are not words.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_space = |byte: u8| byte == b' ' || byte == b'\n';
    let mut rest = text;
    std::iter::from_fn(move || {
        let other = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let end = match rest.as_bytes()[..other].iter().rposition(|&byte| is_space(byte)) {
            _ if other == rest.len() => other,
            Some(cut) if cut > 0 => cut,
            _ => rest.bytes().skip(other).position(is_space).map_or(rest.len(), |at| other + at),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether the script of the character puts no spaces between words: Han, Hiragana, Thai, Lao, Myanmar and
/// Khmer. The ranges are whole blocks of Unicode. So no later version of Unicode changes the characters in
/// them.
fn is_of_unspaced_script(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}'     // Thai, Lao
        | '\u{1000}'..='\u{109F}'   // Myanmar
        | '\u{1780}'..='\u{17FF}'   // Khmer
        | '\u{2E80}'..='\u{2FDF}'   // Han radicals
        | '\u{3005}'..='\u{3007}'   // Han iteration mark, closing mark and zero
        | '\u{3040}'..='\u{309F}'   // Hiragana
        | '\u{3400}'..='\u{4DBF}'   // Han, extension A
        | '\u{4E00}'..='\u{9FFF}'   // Han
        | '\u{A9E0}'..='\u{A9FF}'   // Myanmar, extended B
        | '\u{AA60}'..='\u{AA7F}'   // Myanmar, extended A
        | '\u{F900}'..='\u{FAFF}'   // Han, compatibility
        | '\u{1B000}'..='\u{1B16F}' // Hiragana, supplement and extensions
        | '\u{20000}'..='\u{3FFFF}' // Han, the supplementary planes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn pieces_have_the_words_of_the_whole(
            text in "([a-c1'.,:_ \n\r\t-]|[éß中文かカ\u{301}\u{200d}\u{a0}\u{3000}’๑\u{5d0}\u{ad}🇩🇪]|\\PC){0,40}",
        ) {
            let whole: Vec<&str> = text.unicode_words().collect();
            let cut: Vec<&str> = tokens(&text).collect();
            proptest::prop_assert_eq!(cut, whole);
            proptest::prop_assert_eq!(pieces(&text).collect::<String>(), text);
        }
    }
}
