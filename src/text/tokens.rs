//! The tokens of a text: words, and single characters in scripts without spaces.

use super::unicode::{Class, Properties, Words};

/// The tokens of a normalised text: its words. In scripts that put no spaces between words they are single
/// characters.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    Words::of(text)
}

/// Whether a token is of a script that puts no spaces between words.
pub(super) fn is_unspaced(token: &str) -> bool {
    // All of these take three bytes or more, once they are normalised. Most tokens do not.
    token.bytes().next().is_some_and(|first| first >= 0xE0)
        && token.starts_with(|c| Properties::of(c).class() == Class::Single)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspaced_scripts_have_single_characters_as_tokens() {
        let text = "two words, 中文字 かな カタカナ ไทย 한국어";
        let found: Vec<(&str, bool)> = tokens(text)
            .map(|token| (token, is_unspaced(token)))
            .collect();
        let spaced = |token| (token, false);
        let unspaced = |token| (token, true);
        let expected = ["two", "words"]
            .map(spaced)
            .into_iter()
            .chain(["中", "文", "字", "か", "な"].map(unspaced));
        let expected = expected
            .chain([spaced("カタカナ")])
            .chain(["ไ", "ท", "ย"].map(unspaced))
            .chain([spaced("한국어")]);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
