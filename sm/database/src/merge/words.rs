//! The words of a line.

use std::fmt::Write as _;

use snin_fabric::Guid;
use snin_mad::{Gid, Table};

/// The words of a line, taken one by one.
pub struct Fields<'a> {
    rest: std::iter::Peekable<std::str::SplitAsciiWhitespace<'a>>,
}

impl<'a> Fields<'a> {
    /// Fields are parted by white space.
    pub fn new(line: &'a str) -> Self {
        Self { rest: line.split_ascii_whitespace().peekable() }
    }

    /// Takes the next one as it stands.
    pub fn word(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    /// The next one, which stays.
    pub fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().copied()
    }

    /// Whether there are no more.
    pub fn end(&mut self) -> Option<()> {
        self.rest.peek().is_none().then_some(())
    }

    /// Takes a GUID in any of its notations.
    pub fn guid(&mut self) -> Option<Guid> {
        self.word()?.parse().ok()
    }

    pub(crate) fn gid(&mut self) -> Option<Gid> {
        let address: std::net::Ipv6Addr = self.word()?.parse().ok()?;
        Some(Gid(address.octets()))
    }

    /// With `0x`.
    pub fn number(&mut self) -> Option<u64> {
        number(self.word()?)
    }

    /// Takes a number without a prefix.
    pub fn decimal(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }

    pub(crate) fn text(&mut self) -> Option<Box<str>> {
        untext(self.word()?)
    }

    /// What [`structure`] wrote: a structure of the specification.
    pub(crate) fn structure<T: Table>(&mut self) -> Option<T> {
        let bytes = unoctets(self.word()?)?;
        let mut data = T::ZERO;
        let whole = data.as_mut();
        if bytes.len() > whole.len() {
            return None;
        }
        whole[..bytes.len()].copy_from_slice(&bytes);
        T::parse(&data).ok()
    }
}

pub(crate) fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Bytes as one word of hexadecimal digits, two a byte.
pub fn octets(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What [`octets`] wrote.
pub fn unoctets(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// A structure's bytes in hex, without the zeros at its end.
pub(crate) fn structure<T: Table>(value: &T) -> String {
    let mut data = T::ZERO;
    value.emit(&mut data);
    let bytes = data.as_ref();
    let last = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
    octets(&bytes[..last])
}

/// Text as one word: what could end it, and `%`, in hex after a `%`. Empty text is `%`; `-` is no record.
pub(crate) fn text(text: &str) -> String {
    match text {
        "" => return "%".to_owned(),
        "-" => return "%2d".to_owned(),
        _ => {}
    }
    let mut word = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() || c == '%' {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(word, "%{byte:02x}");
            }
        } else {
            word.push(c);
        }
    }
    word
}

pub(crate) fn untext(word: &str) -> Option<Box<str>> {
    if word == "%" {
        return Some("".into());
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok().map(String::into_boxed_str)
}
