//! Text from the wire or from a file, made safe for a terminal and a page.

use std::borrow::Cow;

/// Whether a character may reach a terminal or a page: neither a control character, which can rewrite what is
/// on the screen, nor one that changes the direction of what comes after it.
fn is_printable(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// A text from the wire or from a file, with U+FFFD in place of every character that is not to be printed.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let replaced = |c| if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER };
    Cow::Owned(text.chars().map(replaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_a_cursor_is_replaced() {
        assert!(matches!(printable("leaf 3 \u{e9}"), Cow::Borrowed("leaf 3 \u{e9}")));
        assert_eq!(printable("a\x1b[2Jb\u{9b}\u{202e}\n"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}");
    }
}
