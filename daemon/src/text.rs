//! Text that people write: bytes that are no UTF-8 are named by line and column, and do not count in comments.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// A byte that is no UTF-8, where it means something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{line}:{column}: byte 0x{byte:02x} is no UTF-8: write the file anew as UTF-8 (iconv -f latin1 -t utf-8)"
)]
pub struct NotUtf8 {
    /// From 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
    /// The byte.
    pub byte: u8,
}

/// Why a file is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is in another encoding.
    #[error(transparent)]
    NotUtf8(#[from] NotUtf8),
}

impl TextError {
    /// The error with the file's name before it.
    pub fn at(&self, path: &Path) -> String {
        match self {
            Self::File(error) => format!("{}: {error}", path.display()),
            Self::NotUtf8(error) => format!("{}:{error}", path.display()),
        }
    }
}

/// Reads a file of lines in which `#` begins a comment, outside of quotes.
///
/// # Errors
/// When it cannot be read, or is no UTF-8 outside of comments.
pub fn read(path: &Path) -> Result<String, TextError> {
    Ok(commented(&std::fs::read(path)?)?)
}

/// The text of such lines. What is no UTF-8 in a comment is U+FFFD.
///
/// # Errors
/// Names the first byte elsewhere that is no UTF-8.
pub fn commented(bytes: &[u8]) -> Result<String, NotUtf8> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    let mut text = String::with_capacity(bytes.len());
    for (line, bytes) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        match str::from_utf8(bytes) {
            Ok(line) => text.push_str(line),
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                let good = String::from_utf8_lossy(good);
                if !ends_in_a_comment(&good) {
                    let byte = bad.first().copied().unwrap_or_default();
                    return Err(NotUtf8 { line, column: good.chars().count() + 1, byte });
                }
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
    }
    Ok(text)
}

/// Whether a `#` outside of quotes has begun one.
fn ends_in_a_comment(begin: &str) -> bool {
    let (mut quote, mut escaped) = (None, false);
    for c in begin.chars() {
        match (quote, c) {
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(open), c) if c == open && !escaped => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return true,
            _ => {}
        }
        escaped = false;
    }
    false
}

/// Bytes as people write them: two hex digits each.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What [`hex`] wrote.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_utf8_is_named_by_its_place_and_does_not_count_in_comments() {
        let comment = b"a = 1 # caf\xe9\n# na\xefve\nb = 2\n";
        assert_eq!(commented(comment).unwrap(), "a = 1 # caf\u{fffd}\n# na\u{fffd}ve\nb = 2\n");
        assert_eq!(commented("c = 'é'\n".as_bytes()).unwrap(), "c = 'é'\n");
        let told = |text: &[u8]| commented(text).unwrap_err().to_string();
        assert!(told(b"\n\xc3\xa9 = caf\xe9\n").starts_with("2:8: byte 0xe9 is no UTF-8"));
        assert!(told(b"a = \"# \\\" caf\xe9\"\n").starts_with("1:14: byte 0xe9"));
        assert_eq!(commented(b"a = '# \\' # \xff").unwrap(), "a = '# \\' # \u{fffd}");
        assert!(told(b"\x80").starts_with("1:1: byte 0x80"));
    }
}
