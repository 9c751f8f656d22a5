//! A long name in short: its beginning and its end, which tell most.

use unicode_segmentation::UnicodeSegmentation;

/// What stands in the place of the middle.
const GAP: &str = "…";

/// A name of at most so many characters, as a reader counts them. The middle of a longer one is left out, from one
/// boundary of words to another where there are any near the place.
pub(super) fn shortened(name: &str, longest: usize) -> String {
    let characters: Vec<&str> = name.graphemes(true).collect();
    let count = characters.len();
    if count <= longest {
        return name.to_owned();
    }
    let room = longest.saturating_sub(1);
    let mut end_of_first = room / 2;
    let mut start_of_last = count - (room - room / 2);
    // A quarter of each part may go for the sake of whole words.
    let near = room / 8;
    let before = &characters[end_of_first - near..=end_of_first];
    let after = &characters[start_of_last..start_of_last + near];
    if let Some(boundary) = before.iter().rposition(|character| is_boundary(character)) {
        end_of_first = end_of_first - near + boundary;
    }
    if let Some(boundary) = after.iter().position(|character| is_boundary(character)) {
        start_of_last += boundary;
    }
    let first = characters[..end_of_first].concat();
    let last = characters[start_of_last..].concat();
    format!("{first}{GAP}{last}")
}

/// Whether a character stands between words.
fn is_boundary(character: &str) -> bool {
    !character.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_a_long_name_stay() {
        assert_eq!(shortened("https://a.example/b", 19), "https://a.example/b");
        let address =
            "https://www.example.org/archive/of/many/years/2024/november/28/page-of-the-day.html";
        assert_eq!(
            shortened(address, 48),
            "https://www.example.org…/28/page-of-the-day.html"
        );
        let plain = "a".repeat(100);
        assert_eq!(shortened(&plain, 11), "aaaaa…aaaaa");
        assert_eq!(shortened(&plain, 0), "…");
    }

    /// A letter and its accent are one character for a reader.
    #[test]
    fn no_character_is_cut() {
        let accented = "e\u{301}".repeat(50);
        let short = shortened(&accented, 9);
        assert_eq!(short, format!("{0}…{0}", "e\u{301}".repeat(4)));
    }
}
