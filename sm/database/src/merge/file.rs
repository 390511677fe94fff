//! A snapshot as a file: lines of words.
//!
//! ```text
//! snin-smdb 1
//! master 0x0002c90300a1b2c3 1790000000000000000 0xfe80000000000000
//! subnet 0x0002c90300a1b2c3 5 north
//! ahead 0x0002c90300d4e5f6 94608000000000000
//! was 0x0002c90300d4e5f6 partition 0x0010 0x0011
//! node 1790000000000000000.4@0x0002c90300a1b2c3 0x0002c90300aaaa00 leaf0 01010c24... none
//! member 1790000000000000000.9@0x0002c90300a1b2c3 ff12:401b:ffff::ffff:ffff 0x0002c90300a1b2c3 -
//! end 2
//! ```
//!
//! The first line names the format and its version. `master`: whose numbers these are, the nanoseconds of the
//! epoch that its clock read, the prefix of its GIDs. `subnet`: what is in it, with priority and name. `ahead`: by
//! how many nanoseconds a manager's stamps were set back. `was`: what a thing of a merged subnet was there, and
//! is here. Then a line a record: its table, its stamp (`TIME.COUNT@ORIGIN`), its key, its value; `-` where it was
//! deleted. `end` has the number of records: a file without it is not whole. Structures of the specification
//! are in hex, without the zeros at their end; M_Keys are left out unless they are asked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use snin_fabric::Guid;
use snin_mad::{GidPrefix, MKey};
use snin_protocol::Time;

use super::row::{Row, each_row};
use super::snapshot::{Entry, Number, Snapshot, Subnet};
use super::words::{Fields, text};
use crate::merge::row::{Lids, Partitions, Tables};
use crate::records::{
    Aliases, Groups, Links, Members, Nodes, Ports, Services, Stamp, Subscriptions,
};

/// The version that is written; no other is read.
const VERSION: u64 = 1;
/// The most records of a file.
const MOST: usize = 16 << 20;
/// The longest line.
const LONGEST: usize = 4_096;

/// A file that is no database.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {what}")]
pub struct BadFile {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// The snapshot as a file. M_Keys are in it only where `secrets` says so.
pub fn write(snapshot: &Snapshot, secrets: bool) -> String {
    let mut out = format!("snin-smdb {VERSION}\n");
    // Writing to a String cannot fail.
    let (master, clock, prefix) = (snapshot.master, snapshot.clock.0, snapshot.prefix);
    let _ = writeln!(out, "master {master} {clock} {prefix}");
    past(&snapshot.subnets, &snapshot.ahead, &snapshot.were, &mut |line| out.push_str(line));
    if secrets {
        each_row!(rows(snapshot, &mut out));
    } else {
        let mut bare = snapshot.clone();
        for port in bare.ports.values_mut().filter_map(|entry| entry.value.as_mut()) {
            port.info.m_key = MKey(0);
        }
        each_row!(rows(&bare, &mut out));
    }
    let _ = writeln!(out, "end {}", snapshot.len());
    out
}

/// The lines of what a database came from.
pub(super) fn past(
    subnets: &BTreeMap<Guid, Subnet>,
    ahead: &BTreeMap<Guid, u64>,
    were: &BTreeMap<(Guid, Number), Number>,
    take: &mut dyn FnMut(&str),
) {
    for (guid, Subnet { name, priority }) in subnets {
        take(&format!("subnet {guid} {priority} {}\n", text(name)));
    }
    for (guid, by) in ahead {
        take(&format!("ahead {guid} {by}\n"));
    }
    for ((home, was), is) in were {
        let (kind, was) = number(was);
        take(&format!("was {home} {kind} {was} {}\n", number(is).1));
    }
}

fn rows<R: Row>(snapshot: &Snapshot, out: &mut String) {
    for (key, entry) in R::table(snapshot) {
        out.push_str(&line::<R>(key, entry.value.as_ref(), entry.stamp));
    }
}

/// A record's line.
pub fn line<R: Row>(key: &R::Key, value: Option<&R::Value>, stamp: Stamp) -> String {
    let Stamp { time, count, origin } = stamp;
    let value = value.map_or_else(|| "-".to_owned(), R::write_value);
    let key = R::write_key(key);
    format!("{} {}.{count}@{origin} {key} {value}\n", R::NAME, time.0)
}

fn number(number: &Number) -> (&'static str, String) {
    match number {
        Number::Partition(number) => ("partition", format!("{number:#06x}")),
        Number::Group(mgid) => ("group", mgid.to_string()),
        Number::Service(id) => ("service", format!("{id:#018x}")),
        Number::Alias(guid) => ("alias", guid.to_string()),
    }
}

fn read_number(kind: &str, words: &mut Fields<'_>) -> Option<Number> {
    Some(match kind {
        "partition" => Number::Partition(u16::try_from(words.number()?).ok()?),
        "group" => Number::Group(words.gid()?),
        "service" => Number::Service(words.number()?),
        "alias" => Number::Alias(words.guid()?),
        _ => return None,
    })
}

/// Reads what [`write()`] wrote, or a person changed.
///
/// # Errors
/// When a line is not understood, is there twice, or the end is missing.
pub fn read(file: &str) -> Result<Snapshot, BadFile> {
    let mut lines = file.lines().enumerate();
    let wrong = |at: usize, what: String| Err(BadFile { line: at + 1, what });
    let first = lines.next().map_or("", |(_, line)| line);
    match first.strip_prefix("snin-smdb ").map(|version| version.trim().parse::<u64>()) {
        Some(Ok(VERSION)) => {}
        Some(_) => return wrong(0, format!("version {VERSION} is read: `{first:.40}`")),
        None => return wrong(0, format!("no subnet database (expected `snin-smdb {VERSION}`)")),
    }
    let mut snapshot = Snapshot::new(Guid(0), "", 0);
    snapshot.subnets.clear();
    let (mut records, mut last, mut end) = (0, 0, None);
    for (at, line) in lines {
        last = at;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > LONGEST || records > MOST || end.is_some() {
            let why =
                if end.is_some() { "nothing comes after `end`" } else { "too long, or too many" };
            return wrong(at, why.to_owned());
        }
        let mut words = Fields::new(line);
        let kind = words.word().unwrap_or_default();
        let done = match kind {
            "end" => words.decimal().inspect(|count| end = Some(*count)).map(|_| true),
            "master" | "subnet" | "ahead" | "was" => head(kind, &mut words, &mut snapshot),
            kind => {
                records += 1;
                record(kind, &mut words, &mut snapshot)
            }
        };
        match done.filter(|_| words.end().is_some()) {
            Some(true) => {}
            Some(false) => return wrong(at, format!("this is there twice: `{line:.60}`")),
            None => return wrong(at, format!("not understood: `{line:.60}`")),
        }
    }
    if end != Some(records as u64) {
        let end = end.map_or_else(|| "no end".to_owned(), |end| format!("end {end}"));
        return wrong(last, format!("{end}, and {records} records: the file is not whole"));
    }
    if snapshot.own().is_none() {
        return wrong(1, "no `master`, or no `subnet` of the master's GUID".to_owned());
    }
    snapshot.complete();
    Ok(snapshot)
}

/// Whether it was new; `None` where the line is not understood.
pub(crate) fn head(kind: &str, words: &mut Fields<'_>, snapshot: &mut Snapshot) -> Option<bool> {
    let guid = words.guid()?;
    Some(match kind {
        "master" => {
            let new = snapshot.master == Guid(0) && guid != Guid(0);
            (snapshot.master, snapshot.clock) = (guid, Time(words.decimal()?));
            snapshot.prefix = GidPrefix(words.number()?);
            new
        }
        "subnet" => {
            let priority =
                u8::try_from(words.decimal()?).ok().filter(|priority| *priority <= 15)?;
            let name = words.text()?;
            snapshot.subnets.insert(guid, Subnet { name, priority }).is_none()
        }
        "ahead" => snapshot.ahead.insert(guid, words.decimal()?).is_none(),
        _ => {
            let kind = words.word()?;
            let was = read_number(kind, words)?;
            snapshot.were.insert((guid, was), read_number(kind, words)?).is_none()
        }
    })
}

/// A line of one of the tables, without its first word `kind`: whether it is the first with its key. `None`: it is
/// malformed, or of no table.
pub fn record(kind: &str, words: &mut Fields<'_>, snapshot: &mut Snapshot) -> Option<bool> {
    match kind {
        Nodes::NAME => row::<Nodes>(words, snapshot),
        Ports::NAME => row::<Ports>(words, snapshot),
        Links::NAME => row::<Links>(words, snapshot),
        Lids::NAME => row::<Lids>(words, snapshot),
        Partitions::NAME => row::<Partitions>(words, snapshot),
        Tables::NAME => row::<Tables>(words, snapshot),
        Groups::NAME => row::<Groups>(words, snapshot),
        Members::NAME => row::<Members>(words, snapshot),
        Services::NAME => row::<Services>(words, snapshot),
        Subscriptions::NAME => row::<Subscriptions>(words, snapshot),
        Aliases::NAME => row::<Aliases>(words, snapshot),
        _ => None,
    }
}

fn row<R: Row>(words: &mut Fields<'_>, snapshot: &mut Snapshot) -> Option<bool> {
    let stamp = stamp(words.word()?)?;
    let key = R::read_key(words)?;
    let value = match words.peek()? {
        "-" => words.word().map(|_| None)?,
        _ => Some(R::read_value(words)?),
    };
    Some(R::table_mut(snapshot).insert(key, Entry { value, stamp }).is_none())
}

fn stamp(word: &str) -> Option<Stamp> {
    let (time, origin) = word.split_once('@')?;
    let (time, count) = time.split_once('.')?;
    let (time, origin) = (Time(time.parse().ok()?), origin.parse().ok()?);
    Some(Stamp { time, count: count.parse().ok()?, origin })
}
