//! OpenSM's `partitions.conf`:
//!
//! ```text
//! name=key, indx0, ipoib, rate=3, mtu=4, sl=0, scope=2, Q_Key=0xb1b, TClass=0, FlowLabel=0, defmember=full :
//!     0x0002c90300a1b2c3=full, ALL_CAS=limited, SELF=both,
//!     mgid=ff12:401b::16, sl=1 ;
//! ```
//!
//! As in OpenSM, a word may be shortened as long as it is clear which one is meant (`ipo`, `def=full`, `ALL_C`),
//! and the last statement needs no semicolon. What OpenSM passes over with a warning is refused here: a word that
//! is misspelt would open a partition or close it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use snin_fabric::{Guid, NodeKind};
use snin_mad::{Gid, Hex8, Hex32, PKey, QKey};

use super::{
    DEFAULT, LOCAL, Made, Membership, Partitions, Rule, Who, broadcast, key_in_name, renamed,
};

/// The most rules.
const MOST_RULES: usize = 1_000_000;
/// The most groups.
const MOST_GROUPS: usize = 1_024;
/// Every file begins with these rules, which others may take back: all ports are limited members of the default
/// partition, the manager's is a full one.
pub(super) const IMPLIED: usize = 2;

/// Payload of 2,048 bytes, 10 Gbit/s: what every adapter can, and what OpenSM gives groups.
const MTU: u8 = 4;
const RATE: u8 = 3;
/// The key of IP's groups (RFC 4391).
const IP_Q_KEY: u32 = 0x0B1B;

/// What is wrong with a file of partitions.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {reason}")]
pub struct BadPartitions {
    /// The line, from 1.
    pub line: usize,
    /// Why it is refused.
    pub reason: Reason,
}

/// Why a line is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// There is no colon between a partition and its members.
    #[error("`{0}` has no members: expected NAME=KEY : MEMBER=full, ... ;")]
    NoMembers(String),
    /// A partition's number.
    #[error("`{0}` numbers no partition: expected 1 to 0x7fff, 0x8000 more or less")]
    Number(String),
    /// Every number is taken.
    #[error("`{0}` gets no number: all 32766 are taken")]
    NoNumber(String),
    /// A word after the partition's name.
    #[error(
        "`{0}` says nothing of a partition: expected ipoib, indx0, defmember, or what groups have"
    )]
    Flag(String),
    /// A word after a group's address.
    #[error(
        "`{0}` says nothing of a group: expected mtu, rate, sl, scope, Q_Key, TClass or FlowLabel"
    )]
    GroupFlag(String),
    /// A number that a flag does not take.
    #[error("{0} is `{1}`: expected {2} to {3:#x}")]
    Value(&'static str, String, u32, u32),
    /// How a port is a member.
    #[error("`{0}` is no membership: expected full, limited or both")]
    Membership(String),
    /// Who is a member.
    #[error(
        "`{0}` is no member: expected a port's GUID, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, SELF or NONE"
    )]
    Member(String),
    /// A group's address.
    #[error("`{0}` is no group: expected an address such as ff12:401b::16")]
    Group(String),
    /// A group of IP that differs from the broadcast group of its partition (RFC 4391, 5).
    #[error("{0} differs from the partition's in {1}, which all its groups of IP have in common")]
    UnlikeBroadcast(Gid, &'static str),
    /// More than there is room for.
    #[error("too many {0}: at most {1}")]
    TooMany(&'static str, usize),
}

type Parsed<T> = Result<T, Reason>;

/// Reads a file.
pub(super) fn file(text: &str) -> Result<Partitions, BadPartitions> {
    let statements = statements(text)?;
    let mut file = File::new(&statements)?;
    for statement in &statements {
        file.statement(statement)?;
    }
    Ok(file.partitions)
}

/// What is between two semicolons: lines without comments, each with its number.
struct Statement<'a> {
    header: (usize, &'a str),
    /// Members and groups; a group has the rest of its line for itself.
    lines: Vec<(usize, &'a str)>,
}

impl Statement<'_> {
    /// Its name and number, the one or the other.
    fn title(&self) -> Parsed<(Option<&str>, Option<u16>)> {
        let (title, _) = self.header.1.split_once(',').unwrap_or((self.header.1, ""));
        let (name, number) = pair(title);
        match number {
            Some(number) => {
                Ok((Some(name).filter(|name| !name.is_empty()), Some(partition(number)?)))
            }
            None if name.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok((None, Some(partition(name)?)))
            }
            None => Ok((Some(name), None)),
        }
    }
}

fn statements(text: &str) -> Result<Vec<Statement<'_>>, BadPartitions> {
    let mut statements = Vec::new();
    let mut open: Option<Statement<'_>> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let mut parts = text.split(';').peekable();
        while let Some(part) = parts.next() {
            let ends = parts.peek().is_some();
            let part = part.trim();
            match &mut open {
                Some(statement) => statement.lines.push((line, part)),
                None if part.is_empty() => continue,
                None => {
                    let no_members =
                        || BadPartitions { line, reason: Reason::NoMembers(part.to_owned()) };
                    let (header, rest) = part.split_once(':').ok_or_else(no_members)?;
                    open = Some(Statement { header: (line, header), lines: vec![(line, rest)] });
                }
            }
            if ends {
                statements.extend(open.take());
            }
        }
    }
    statements.extend(open);
    Ok(statements)
}

/// The known word that a text is, or that it alone begins; else the text.
fn word<'a>(text: &'a str, known: &[&'a str]) -> &'a str {
    let mut begun = known.iter().copied().filter(|word| !text.is_empty() && word.starts_with(text));
    match (known.contains(&text), begun.next(), begun.next()) {
        (false, Some(only), None) => only,
        _ => text,
    }
}

/// `name = value`, or a name.
fn pair(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text.trim(), None),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn partition(text: &str) -> Parsed<u16> {
    let base = number(text).and_then(|number| u16::try_from(number).ok()).map(|key| key & 0x7FFF);
    base.filter(|&base| base != 0).ok_or_else(|| Reason::Number(text.to_owned()))
}

fn membership(text: &str) -> Parsed<Membership> {
    match word(text, &["full", "limited", "both"]) {
        "full" => Ok(Membership::Full),
        "limited" => Ok(Membership::Limited),
        "both" => Ok(Membership::Both),
        other => Err(Reason::Membership(other.to_owned())),
    }
}

/// What may be said of a partition or a group.
const FLAGS: [&str; 10] =
    ["ipoib", "indx0", "defmember", "mtu", "rate", "sl", "scope", "Q_Key", "TClass", "FlowLabel"];
/// Who may be a member, and how a group begins.
const MEMBERS: [&str; 7] =
    ["ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF", "NONE", "mgid"];

/// What groups of a partition have.
#[derive(Clone)]
struct Flags {
    mtu: u8,
    rate: u8,
    sl: u8,
    q_key: u32,
    traffic_class: u8,
    flow_label: u32,
    scopes: BTreeSet<u8>,
}

impl Default for Flags {
    fn default() -> Self {
        let (q_key, traffic_class, flow_label, scopes) = (0, 0, 0, BTreeSet::new());
        Self { mtu: MTU, rate: RATE, sl: 0, q_key, traffic_class, flow_label, scopes }
    }
}

impl Flags {
    /// Takes a flag; whether it is one of a group.
    fn set(&mut self, name: &str, value: Option<&str>) -> Parsed<bool> {
        let value = value.unwrap_or("");
        let within = |name, least: u32, most: u32| {
            let number = number(value).and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| Reason::Value(name, value.to_owned(), least, most))
        };
        match word(name, &FLAGS) {
            "mtu" => self.mtu = within("mtu", 1, 5)? as u8,
            "rate" => self.rate = within("rate", 2, 24)? as u8,
            "sl" => self.sl = within("sl", 0, 15)? as u8,
            "Q_Key" => self.q_key = within("Q_Key", 0, u32::MAX)?,
            "TClass" => self.traffic_class = within("TClass", 0, 255)? as u8,
            "FlowLabel" => self.flow_label = within("FlowLabel", 0, 0xF_FFFF)?,
            "scope" => {
                self.scopes.insert(within("scope", 1, 15)? as u8);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A file as far as it is read.
struct File {
    partitions: Partitions,
    /// By name, the default one first.
    named: BTreeMap<String, u16>,
    /// Numbers that are in the file.
    taken: BTreeSet<u16>,
    generated: u16,
}

impl File {
    /// Numbers that the file gives are not given to partitions without one.
    fn new(statements: &[Statement<'_>]) -> Result<Self, BadPartitions> {
        let rule = |who, membership| Rule { partition: DEFAULT, who, membership, first: false };
        let rules = vec![rule(Who::All, Membership::Limited), rule(Who::Manager, Membership::Full)];
        debug_assert_eq!(rules.len(), IMPLIED);
        let mut taken = BTreeSet::from([DEFAULT]);
        for statement in statements {
            let at = |reason| BadPartitions { line: statement.header.0, reason };
            taken.extend(statement.title().map_err(at)?.1);
        }
        let partitions = Partitions { rules, groups: Vec::new(), names: BTreeMap::new() };
        let named = BTreeMap::from([("Default".to_owned(), DEFAULT)]);
        Ok(Self { partitions, named, taken, generated: 0 })
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), BadPartitions> {
        let at = |line| move |reason| BadPartitions { line, reason };
        let (mut flags, mut is_ip, mut first) = (Flags::default(), false, false);
        let mut default = Membership::Limited;
        for flag in statement.header.1.split(',').skip(1) {
            let (name, value) = pair(flag);
            let at = at(statement.header.0);
            match (word(name, &FLAGS), value) {
                ("ipoib", None) => is_ip = true,
                ("indx0", None) => first = true,
                ("defmember", Some(value)) => default = membership(value).map_err(at)?,
                _ if flags.set(name, value).map_err(at)? => {}
                _ => return Err(at(Reason::Flag(flag.trim().to_owned()))),
            }
        }
        let partition = self.number(statement).map_err(at(statement.header.0))?;
        if is_ip {
            let name = broadcast(PKey(partition));
            self.group(partition, name, &flags).map_err(at(statement.header.0))?;
        }
        for &(line, text) in &statement.lines {
            self.members(text, partition, first, default, &flags).map_err(at(line))?;
        }
        Ok(())
    }

    /// The partition's number: its own, that of an earlier one of this name, or a new one.
    fn number(&mut self, statement: &Statement<'_>) -> Parsed<u16> {
        let (name, own) = statement.title()?;
        let known = name.and_then(|name| self.named.get(name)).copied();
        let number = match own.or(known) {
            Some(number) => number,
            None => {
                let free =
                    (self.generated + 1..DEFAULT).find(|number| !self.taken.contains(number));
                self.generated =
                    free.ok_or_else(|| Reason::NoNumber(name.unwrap_or("").to_owned()))?;
                self.generated
            }
        };
        if let Some(name) = name {
            self.named.entry(name.to_owned()).or_insert(number);
            self.partitions.names.entry(number).or_insert_with(|| name.into());
        }
        Ok(number)
    }

    /// The members in one line; behind a group's address all is said of the group.
    fn members(
        &mut self,
        text: &str,
        partition: u16,
        first: bool,
        default: Membership,
        flags: &Flags,
    ) -> Parsed<()> {
        let mut words = text.split(',');
        while let Some(word) = words.next() {
            let (name, value) = pair(word);
            let name = self::word(name, &MEMBERS);
            if name == "mgid" {
                let mut flags = flags.clone();
                for word in words.by_ref() {
                    let (name, value) = pair(word);
                    if !word.trim().is_empty() && !flags.set(name, value)? {
                        return Err(Reason::GroupFlag(word.trim().to_owned()));
                    }
                }
                return self.named_group(partition, value.unwrap_or(""), &flags);
            }
            let who = match name {
                "" | "NONE" => continue,
                "ALL" => Who::All,
                "ALL_CAS" => Who::Kind(NodeKind::Adapter),
                "ALL_SWITCHES" => Who::Kind(NodeKind::Switch),
                "ALL_ROUTERS" => Who::Kind(NodeKind::Router),
                "SELF" => Who::Manager,
                guid => {
                    let number = number(guid).filter(|&number| number != 0);
                    Who::Port(Guid(number.ok_or_else(|| Reason::Member(guid.to_owned()))?))
                }
            };
            let membership = value.map_or(Ok(default), membership)?;
            if self.partitions.rules.len() >= MOST_RULES {
                return Err(Reason::TooMany("members", MOST_RULES));
            }
            self.partitions.rules.push(Rule { partition, who, membership, first });
        }
        Ok(())
    }

    /// A group with an address of its own.
    fn named_group(&mut self, partition: u16, address: &str, flags: &Flags) -> Parsed<()> {
        let mgid = address.parse::<Ipv6Addr>().ok().map(|address| Gid(address.octets()));
        let mgid = mgid.filter(|mgid| mgid.0[0] == 0xFF);
        let mut mgid = mgid.ok_or_else(|| Reason::Group(address.to_owned()))?;
        if let Some(said) = key_in_name(mgid) {
            let key = PKey(partition | 0x8000);
            if ![PKey(0), key].contains(&said) && mgid != broadcast(PKey(DEFAULT)) {
                return Err(Reason::UnlikeBroadcast(mgid, "P_Key"));
            }
            mgid = renamed(mgid, key);
        }
        self.group(partition, mgid, flags)
    }

    /// Makes a group in every scope that is said; of two groups with one address the first is made.
    fn group(&mut self, partition: u16, mgid: Gid, flags: &Flags) -> Parsed<()> {
        let is_ip = key_in_name(mgid).is_some();
        let q_key = if flags.q_key == 0 && is_ip { IP_Q_KEY } else { flags.q_key };
        let default = flags.scopes.is_empty().then_some(LOCAL);
        for scope in flags.scopes.iter().copied().chain(default) {
            let mut mgid = mgid;
            mgid.0[1] = mgid.0[1] & 0xF0 | scope;
            let groups = &mut self.partitions.groups;
            if groups.iter().any(|group| group.mgid == mgid) {
                continue;
            }
            if groups.len() >= MOST_GROUPS {
                return Err(Reason::TooMany("groups", MOST_GROUPS));
            }
            let made = Made {
                mgid,
                p_key: PKey(partition | 0x8000),
                mtu: flags.mtu,
                rate: flags.rate,
                sl: flags.sl,
                q_key: QKey(q_key),
                traffic_class: Hex8(flags.traffic_class),
                flow_label: Hex32(flags.flow_label),
            };
            let broadcast = broadcast(made.p_key);
            if let Some(of) = groups.iter().find(|group| group.mgid == broadcast && is_ip) {
                for (what, same) in [("mtu", of.mtu == made.mtu), ("rate", of.rate == made.rate)] {
                    if !same {
                        return Err(Reason::UnlikeBroadcast(mgid, what));
                    }
                }
            }
            groups.push(made);
        }
        Ok(())
    }
}
