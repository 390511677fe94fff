//! OpenSM's `guid2lid`: the first and last LID of every port, by port GUID.
//!
//! ```text
//! 0x0000000000100003 0x0020 0x0023
//!
//! 0x0000000000200000 0x0003 0x0003
//!
//! ```
//!
//! OpenSM reads it from its cache directory when it starts, and keeps to it where LMC and alignment
//! agree.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::DumpError;
use crate::addresses::AddressError;
use crate::id::BadGuid;
use crate::{Addresses, Guid, Lid, Lmc, PortIndex, PortNum, Topology};

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A NUL byte: not a text file.
    #[error("this is no guid2lid text (binary data)")]
    Binary,
    /// Not a GUID and two LIDs.
    #[error("not understood: `{0:.60}` (expected GUID FIRST_LID LAST_LID)")]
    Form(String),
    /// No GUID.
    #[error(transparent)]
    Guid(#[from] BadGuid),
    /// No 16-bit number.
    #[error("`{0:.40}` is no LID (expected 0x and up to 4 hex digits)")]
    Lid(String),
    /// Not 1, 2, 4 ... 128 LIDs.
    #[error("LIDs {first} to {last} are no block of 1, 2, 4 ... 128")]
    Block {
        /// First LID.
        first: Lid,
        /// Last LID.
        last: Lid,
    },
    /// A GUID with two lines.
    #[error("{guid} is listed twice (first on line {first})")]
    Twice {
        /// The port.
        guid: Guid,
        /// Where it was first.
        first: usize,
    },
    /// Addresses that this port cannot have.
    #[error("{guid}: {error}{}", taken_by.as_ref().map_or(String::new(), |g| format!(" by {g}")))]
    Address {
        /// The port.
        guid: Guid,
        /// Why not.
        error: AddressError,
        /// The port that has the LID already.
        taken_by: Option<Guid>,
    },
    /// A file from elsewhere.
    #[error("none of its GUIDs is a port of this fabric")]
    Foreign,
}

/// The text: one line an addressed port, by GUID.
pub fn write(topology: &Topology, addresses: &Addresses) -> String {
    let given = addresses.iter();
    let lines = given.map(|(port, base, lmc)| (topology.port(port).guid, (base, lmc)));
    write_entries(&lines.collect())
}

/// The text for ports that are known by their GUIDs only.
pub fn write_entries(entries: &BTreeMap<Guid, (Lid, Lmc)>) -> String {
    let mut text = String::with_capacity(entries.len() * 34);
    for (guid, (first, lmc)) in entries {
        let last = first.index() + lmc.addresses() - 1;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{guid} 0x{:04x} 0x{last:04x}\n", first.0);
    }
    text
}

/// Reads the text. Ports that the fabric does not have are passed over: OpenSM remembers ports that have
/// left.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &[u8], topology: &Topology) -> Result<Addresses, DumpError<Problem>> {
    let ports = ports_by_guid(topology);
    let mut addresses = Addresses::none(topology.port_count());
    let guid = |port: PortIndex| Some(topology.port(port).guid);
    let mut known = false;
    for entry in read(text)? {
        if let Some(&port) = ports.get(&entry.guid) {
            known = true;
            entry.assign(&mut addresses, port, guid)?;
        }
    }
    let last = text.split(|&byte| byte == b'\n').count();
    if known { Ok(addresses) } else { Err(DumpError { line: last, problem: Problem::Foreign }) }
}

/// Reads the text without a topology: the addresses of every port that the text lists, of any fabric.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn entries(text: &[u8]) -> Result<BTreeMap<Guid, (Lid, Lmc)>, DumpError<Problem>> {
    let entries = read(text)?;
    let mut addresses = Addresses::none(entries.len());
    let guid = |port: PortIndex| entries.get(port.index()).map(|entry| entry.guid);
    for (port, entry) in (0..).map(PortIndex).zip(&entries) {
        entry.assign(&mut addresses, port, guid)?;
    }
    Ok(entries.iter().map(|entry| (entry.guid, (entry.base, entry.lmc))).collect())
}

/// The entries of a text, and what is wrong with the lines that are left out.
pub type Usable = (BTreeMap<Guid, (Lid, Lmc)>, Vec<DumpError<Problem>>);

/// Reads the text as far as it can be used: a line that is wrong, or that says otherwise than one before it, is
/// left out. A manager that starts with the rest gives one port another address; one that does not start gives
/// none.
///
/// # Errors
/// When it is no text at all.
pub fn usable(text: &[u8]) -> Result<Usable, DumpError<Problem>> {
    let (mut found, mut wrong) = (Vec::<Entry>::new(), Vec::new());
    let mut seen = BTreeMap::new();
    for (line, read) in lines(text) {
        match read {
            Err(DumpError { line, problem: Problem::Binary }) => {
                return Err(DumpError { line, problem: Problem::Binary });
            }
            Err(error) => wrong.push(error),
            Ok(entry) => match seen.insert(entry.guid, line) {
                Some(first) => {
                    seen.insert(entry.guid, first);
                    let problem = Problem::Twice { guid: entry.guid, first };
                    wrong.push(DumpError { line, problem });
                }
                None => found.push(entry),
            },
        }
    }
    let mut addresses = Addresses::none(found.len());
    let guid = |port: PortIndex| found.get(port.index()).map(|entry| entry.guid);
    let mut usable = BTreeMap::new();
    for (port, entry) in (0..).map(PortIndex).zip(&found) {
        match entry.assign(&mut addresses, port, guid) {
            Ok(()) => drop(usable.insert(entry.guid, (entry.base, entry.lmc))),
            Err(error) => wrong.push(error),
        }
    }
    Ok((usable, wrong))
}

/// A line that says something.
struct Entry {
    line: usize,
    guid: Guid,
    base: Lid,
    lmc: Lmc,
}

impl Entry {
    fn assign(
        &self,
        addresses: &mut Addresses,
        port: PortIndex,
        guid_of: impl Fn(PortIndex) -> Option<Guid>,
    ) -> Result<(), DumpError<Problem>> {
        addresses.assign(port, self.base, self.lmc).map_err(|error| {
            let taken_by = match error {
                AddressError::Taken { owner, .. } => guid_of(owner),
                _ => None,
            };
            let problem = Problem::Address { guid: self.guid, error, taken_by };
            DumpError { line: self.line, problem }
        })
    }
}

/// Every line that says something, no port twice.
fn read(text: &[u8]) -> Result<Vec<Entry>, DumpError<Problem>> {
    let mut entries = Vec::new();
    let mut seen = BTreeMap::new();
    for (line, read) in lines(text) {
        let entry = read?;
        if let Some(first) = seen.insert(entry.guid, line) {
            return Err(DumpError { line, problem: Problem::Twice { guid: entry.guid, first } });
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Every line that says something, or what is wrong with it, and its number.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Result<Entry, DumpError<Problem>>)> + '_ {
    (1..).zip(text.split(|&byte| byte == b'\n')).filter_map(|(line, bytes)| {
        let at = |problem| (line, Err(DumpError { line, problem }));
        if bytes.contains(&0) {
            return Some(at(Problem::Binary));
        }
        match entry(String::from_utf8_lossy(bytes).trim()) {
            Ok(None) => None,
            Ok(Some((guid, base, lmc))) => Some((line, Ok(Entry { line, guid, base, lmc }))),
            Err(problem) => Some(at(problem)),
        }
    })
}

/// A line's GUID, base LID and LMC; `None` for a line that says nothing.
fn entry(line: &str) -> Result<Option<(Guid, Lid, Lmc)>, Problem> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[guid, first, last] = words.as_slice() else {
        return Err(Problem::Form(line.to_owned()));
    };
    let (guid, first, last) = (guid.parse()?, lid(first)?, lid(last)?);
    let count = (last.index() + 1).saturating_sub(first.index());
    let lmc = Lmc::at_least(count).filter(|lmc| lmc.addresses() == count);
    Ok(Some((guid, first, lmc.ok_or(Problem::Block { first, last })?)))
}

fn lid(word: &str) -> Result<Lid, Problem> {
    let digits = word.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
    let value = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    value.map(Lid).ok_or_else(|| Problem::Lid(word.to_owned()))
}

/// The addressable ports. A port without a cable may have any GUID, another port's too: cabled ones win.
fn ports_by_guid(topology: &Topology) -> BTreeMap<Guid, PortIndex> {
    let addressable = |port: &PortIndex| {
        topology.is_switch(topology.port(*port).node) == (topology.num(*port) == PortNum::ZERO)
    };
    let mut ports: Vec<PortIndex> = topology.ports().filter(addressable).collect();
    ports.sort_by_key(|&port| topology.peer(port).is_some());
    ports.into_iter().map(|port| (topology.port(port).guid, port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Recipe;

    /// Two leaves, two spines, four hosts: switches 0x0200_01_.., hosts 0x0200_10_.. .
    fn fabric() -> Topology {
        "clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let topology = fabric();
        let mut addresses = Addresses::none(topology.port_count());
        let mut next = 4;
        for node in topology.nodes() {
            let (port, lmc) = if topology.is_switch(node) {
                (topology.port0(node), Lmc::ZERO)
            } else {
                (topology.port_of(node, PortNum(1)).unwrap(), Lmc::new(2).unwrap())
            };
            addresses.assign(port, Lid(next), lmc).unwrap();
            next += 4;
        }
        let text = write(&topology, &addresses);
        assert!(text.starts_with("0x0200010000000000 0x0004 0x0004\n\n0x0200010000000100 0x0008 "));
        assert!(text.contains("\n0x0200100000000301 0x0020 0x0023\n\n"), "{text}");
        assert_eq!(parse(text.as_bytes(), &topology), Ok(addresses));
    }

    #[test]
    fn ports_that_have_left_and_comments_are_passed_over() {
        let text = b"# kept\n0x77 0x0010 0x0010\r\n\n0x200010000000000 0x1 0x1\n";
        let addresses = parse(text, &fabric()).unwrap();
        assert_eq!(addresses.iter().count(), 1);
        assert_eq!(addresses.top(), Lid(1));
    }

    #[test]
    fn a_text_is_read_for_its_own_sake() {
        let read = entries(b"0x77 0x8 0xb\n\n0x78 0x1 0x1\n").unwrap();
        let lmc = |bits| Lmc::new(bits).unwrap();
        let expected = [(Guid(0x77), (Lid(8), lmc(2))), (Guid(0x78), (Lid(1), lmc(0)))];
        assert_eq!(read, BTreeMap::from(expected));
        assert_eq!(entries(b""), Ok(BTreeMap::new()));
        assert_eq!(
            entries(b"0x77 0x8 0xb\n\n0x78 0xa 0xa").unwrap_err().to_string(),
            "3: 0x0000000000000078: LID 10 is taken by 0x0000000000000077"
        );
    }

    #[test]
    fn lines_that_are_wrong_are_left_out_and_the_rest_is_used() {
        let text =
            b"0x11 0x1 0x1\n0x21 0x2 0x2\n0x31 0x1 0x1\n0x41 one 0x4\n0x21 0x5 0x5\n0x51 0x8 0xb\n";
        let (used, wrong) = usable(text).unwrap();
        let lmc = |bits| Lmc::new(bits).unwrap();
        let expected =
            [(0x11, (Lid(1), lmc(0))), (0x21, (Lid(2), lmc(0))), (0x51, (Lid(8), lmc(2)))];
        assert_eq!(used, BTreeMap::from(expected.map(|(guid, lids)| (Guid(guid), lids))));
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "4: `one` is no LID (expected 0x and up to 4 hex digits)",
                "5: 0x0000000000000021 is listed twice (first on line 2)",
                "3: 0x0000000000000031: LID 1 is taken by 0x0000000000000011",
            ]
        );
        assert!(usable(b"0x11 0x1 0x1\n\x7fELF\0").is_err());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases: [(&[u8], &str); 11] = [
            (b"", "1: none of its GUIDs is a port of this fabric"),
            (b"0x77 0x1 0x1\n", "2: none of its GUIDs is a port of this fabric"),
            (b"\n\x7fELF\0", "2: this is no guid2lid text (binary data)"),
            (b"0x77 0x1\n", "1: not understood: `0x77 0x1` (expected GUID FIRST_LID LAST_LID)"),
            (b"77z 0x1 0x1\n", "1: `77z` is no GUID (expected 0x and up to 16 hex digits)"),
            (b"0x77 1 0x1\n", "1: `1` is no LID (expected 0x and up to 4 hex digits)"),
            (b"0x77 0x1 0x10000\n", "1: `0x10000` is no LID (expected 0x and up to 4 hex digits)"),
            (b"\n0x77 0x4 0x6\n", "2: LIDs 4 to 6 are no block of 1, 2, 4 ... 128"),
            (
                b"0x77 0x4 0x4\n\n0x77 0x5 0x5",
                "3: 0x0000000000000077 is listed twice (first on line 1)",
            ),
            (
                b"0x0200010000000000 0x4 0x4\n0x0200010000000100 0x4 0x4\n",
                "2: 0x0200010000000100: LID 4 is taken by 0x0200010000000000",
            ),
            (
                b"0x0200010000000000 0xc000 0xc000\n",
                "1: 0x0200010000000000: LID 49152 with LMC 0 is outside the unicast range 1 to 49151",
            ),
        ];
        for (text, told) in cases {
            let error = parse(text, &fabric()).unwrap_err();
            assert_eq!(error.to_string(), told, "{}", text.escape_ascii());
        }
    }
}
