//! Partitions: which ports may talk with each other, by keys in their tables (IBA 10.9).
//!
//! Rules in an operator's file say who is a member of what ([`Partitions`]); a port's keys follow from them, and
//! its table from those keys and what it holds already (`layout`). A switch's port that faces an end port has
//! the same keys and checks packets by them, so that no host speaks in a partition that it is not in.

mod layout;
mod names;
mod parse;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, NodeKind};
use snin_mad::{Gid, Hex8, Hex32, PKey, QKey};

pub use layout::Block;
pub use layout::{Layout, blocks, lay_out, packed};
pub use names::{LOCAL, broadcast, key_in_name, renamed};
pub use parse::{BadPartitions, Reason};

/// The partition of every port (IBA 10.9.1.2).
pub const DEFAULT: u16 = 0x7FFF;

/// What a port is in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Membership {
    /// It talks with full members only.
    Limited,
    /// It talks with all members.
    Full,
    /// It has both keys where a port may have both, else the full one.
    Both,
}

/// Whom a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// Every end port, port 0 of switches among them.
    All,
    /// Every port of an adapter, switch or router.
    Kind(NodeKind),
    /// The manager's own port.
    Manager,
    /// The port with this GUID.
    Port(Guid),
}

/// Ports are members of a partition. Of two rules about one port and partition the later holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// 15 bits.
    pub partition: u16,
    /// These ports.
    pub who: Who,
    /// This they are.
    pub membership: Membership,
    /// The key has the first place in their tables.
    pub first: bool,
}

/// A multicast group that the manager makes, and that stays without members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its address.
    pub mgid: Gid,
    /// Its partition, with the membership bit.
    pub p_key: PKey,
    /// By code (IBA 15.2.5.16).
    pub mtu: u8,
    /// By code.
    pub rate: u8,
    /// Where service levels are managed.
    pub sl: u8,
    /// Its members' key.
    pub q_key: QKey,
    /// Traffic class.
    pub traffic_class: Hex8,
    /// Flow label.
    pub flow_label: Hex32,
}

/// Every partition of a subnet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Partitions {
    /// In the order of the file.
    rules: Vec<Rule>,
    groups: Vec<Made>,
    names: BTreeMap<u16, Box<str>>,
}

impl Default for Partitions {
    /// Without a file every port is a full member of the default partition, which has a broadcast group of IP.
    fn default() -> Self {
        parse::file("Default=0x7fff, ipoib : ALL=full;").expect("a rule")
    }
}

impl Partitions {
    /// The groups that are always there.
    pub fn groups(&self) -> &[Made] {
        &self.groups
    }

    /// The names of partitions by their numbers, but for the default one's, which means the same everywhere.
    pub fn names(&self) -> impl Iterator<Item = (u16, &str)> {
        let names = self.names.iter().map(|(&number, name)| (number, &**name));
        names.filter(|(number, _)| *number != DEFAULT)
    }

    /// The same with other numbers, and other names of groups.
    pub fn renumbered(&self, partition: impl Fn(u16) -> u16, group: impl Fn(Gid) -> Gid) -> Self {
        let rule = |rule: &Rule| Rule { partition: partition(rule.partition), ..*rule };
        let made = |made: &Made| {
            let p_key = PKey(made.p_key.0 & 0x8000 | partition(made.p_key.base()));
            Made { mgid: group(made.mgid), p_key, ..*made }
        };
        let names = self.names.iter().map(|(&number, name)| (partition(number), name.clone()));
        Self {
            rules: self.rules.iter().map(rule).collect(),
            groups: self.groups.iter().map(made).collect(),
            names: names.collect(),
        }
    }

    /// Whether any two ports may not talk.
    pub fn keeps_apart(&self) -> bool {
        let full = |rule: &Rule| rule.membership != Membership::Limited && !rule.first;
        let all = self.rules.iter().rposition(|rule| rule.who == Who::All && full(rule));
        let others = self.rules.iter().any(|rule| rule.partition != DEFAULT);
        others || all.is_none_or(|all| !self.rules[all..].iter().all(full))
    }

    /// The rules by the ports that they are about, for questions about many ports.
    pub fn index(&self) -> Index<'_> {
        let (mut general, mut by_port) = (Vec::new(), BTreeMap::<Guid, Vec<usize>>::new());
        for (at, rule) in self.rules.iter().enumerate() {
            match rule.who {
                Who::Port(guid) => by_port.entry(guid).or_default().push(at),
                _ => general.push(at),
            }
        }
        Index { rules: &self.rules, general, by_port }
    }
}

/// A port as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The port, as rules name it.
    pub guid: Guid,
    /// Its node: rules may be about all of one kind.
    pub kind: NodeKind,
    /// The manager sits there.
    pub own: bool,
}

/// The keys that a port shall have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// In the first place.
    pub(crate) first: PKey,
    /// In the places that are free.
    pub(crate) others: Vec<PKey>,
}

/// See [`Partitions::index`].
pub struct Index<'a> {
    rules: &'a [Rule],
    general: Vec<usize>,
    by_port: BTreeMap<Guid, Vec<usize>>,
}

impl Index<'_> {
    /// A port's keys. `both`: a port may have the limited and the full key of a partition.
    pub fn of(&self, port: Subject, both: bool) -> Wanted {
        let own = self.by_port.get(&port.guid).into_iter().flatten();
        let rules: BTreeSet<usize> = self.general.iter().chain(own).copied().collect();
        let (mut is, mut first) = (BTreeMap::new(), None);
        for rule in rules.into_iter().map(|at| &self.rules[at]) {
            let about = match rule.who {
                Who::All | Who::Port(_) => true,
                Who::Kind(kind) => kind == port.kind,
                Who::Manager => port.own,
            };
            if about {
                // By the bytes of the key, the lower first: so OpenSM, whose places stay as they are.
                is.insert(rule.partition.swap_bytes(), rule.membership);
                match first {
                    _ if rule.first => first = Some(rule.partition),
                    Some(partition) if partition == rule.partition => first = None,
                    _ => {}
                }
            }
        }
        let mut keys: Vec<PKey> = Vec::new();
        for (base, membership) in is {
            let (limited, full) = (PKey(base.swap_bytes()), PKey(base.swap_bytes() | 0x8000));
            match membership {
                Membership::Limited => keys.push(limited),
                Membership::Both if both => keys.extend([limited, full]),
                Membership::Full | Membership::Both => keys.push(full),
            }
        }
        let wanted = first.unwrap_or(DEFAULT);
        // Of both keys the full one.
        let at = keys.iter().rposition(|key| key.base() == wanted);
        let first = at.map_or(PKey(DEFAULT), |at| keys.remove(at));
        Wanted { first, others: keys }
    }
}
