//! The tokens of a text: words, and single characters in scripts without spaces.

use super::unicode::Words;

/// The tokens of a normalised text: the words of Unicode Standard Annex #29. In scripts that put no spaces
/// between words they are single characters.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    Words::of(text)
}

/// Whether a token is of a script that puts no spaces between words.
pub(super) fn is_unspaced(token: &str) -> bool {
    // All of these scripts take three bytes or more. Most tokens do not.
    token.bytes().next().is_some_and(|first| first >= 0xE0) && token.starts_with(is_of_unspaced_script)
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

    #[test]
    fn unspaced_scripts_have_single_characters_as_tokens() {
        let text = "two words, 中文字 かな カタカナ ไทย 한국어";
        let found: Vec<(&str, bool)> = tokens(text).map(|token| (token, is_unspaced(token))).collect();
        let spaced = |token| (token, false);
        let unspaced = |token| (token, true);
        let expected =
            ["two", "words"].map(spaced).into_iter().chain(["中", "文", "字", "か", "な"].map(unspaced));
        let expected = expected
            .chain([spaced("カタカナ")])
            .chain(["ไ", "ท", "ย"].map(unspaced))
            .chain([spaced("한국어")]);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
