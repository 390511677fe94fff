//! A job's trees: what its nodes need to know of its slice, and which tree a pair of its hosts uses.
//!
//! ```text
//! snin-job 1
//! owner slurm/4711
//! uid 1000
//! leaf 0x0000000000100001 0,3
//! leaf 0x0000000000100002 0,3
//! host 0x0000000000200000 0x0000000000100001 32-35 0=32,1=33,2=34,3=35 host0
//! host 0x0000000000200002 0x0000000000100002 40-43 0=40,1=41,2=42,3=43 host2
//! pin 32 40 3
//! sl 1
//! ```
//!
//! A leaf's line has the trees that the slice has at that leaf; a host's line its port, its leaf, its addresses,
//! the address along each tree, and its name. A pin gives one direction of a pair (two addresses) a tree. `sl` is
//! the service level that the job sends with, where granted traffic has one of its own.
//!
//! On tables of another manager an address leads along another tree from another leaf. Then no host's line has
//! addresses along trees, and there is a line for each leaf and each host elsewhere: `from`, the leaf, the host's
//! first address, and its address along each tree.
//!
//! ```text
//! host 0x0000000000200002 0x0000000000100002 40-43  host2
//! from 0x0000000000100001 40 0=43,1=40,2=41,3=42
//! ```
//!
//! Both ends of a connection read the same text and come to the same answer without talking to each other: the
//! tree of a direction is a function of the text and the two hosts. Where nothing is pinned the trees that both
//! leaves have are taken in turn by the receiver's place on its leaf, so that hosts of one leaf are reached
//! along different trees.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{Guid, Lid, TreeId, printable};

/// The most hosts of a job.
pub const MAX_HOSTS: usize = 49_151;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 32 << 20;

const HEAD: &str = "snin-job 1";

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Links of its own.
    Slice,
    /// Links of its own, and trees that no other pair shares for the first host and the second, the third and the
    /// fourth, and so on.
    Pinned,
    /// Nothing.
    Off,
}

impl Mode {
    /// By its name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "slice" => Some(Self::Slice),
            "pinned" => Some(Self::Pinned),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// A host of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobHost {
    /// Its name, as the fabric has it.
    pub name: String,
    /// Its port.
    pub port: Guid,
    /// The switch that it hangs on.
    pub leaf: Guid,
    /// Its first and its last address.
    pub lids: (Lid, Lid),
    /// Its address along each tree that it has one for; empty on tables of another manager.
    pub along: BTreeMap<TreeId, Lid>,
}

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobTrees {
    owner: String,
    user: Option<u32>,
    /// 0: that of everybody.
    sl: u8,
    leaves: BTreeMap<Guid, Vec<TreeId>>,
    /// By first address.
    hosts: Vec<JobHost>,
    /// How many hosts of its leaf come before each host.
    turns: Vec<usize>,
    /// By the first addresses of sender and receiver.
    pins: BTreeMap<(Lid, Lid), TreeId>,
    /// On tables of another manager, by the sender's leaf and the receiver's first address: its address along each tree.
    from: BTreeMap<(Guid, Lid), BTreeMap<TreeId, Lid>>,
}

/// The addresses of one end of a connection, as its address vector has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The peer's, along the tree of the way there.
    pub to: Lid,
    /// Its own, along the tree of the way back: what the peer sends to.
    pub from: Lid,
    /// Its own first address: what `from` is more than that are the path bits.
    pub base: Lid,
    /// The tree of the way there; `None` within a leaf, where no tree is used.
    pub tree: Option<TreeId>,
    /// The service level that both send with; 0: they have none of their own.
    pub sl: u8,
}

/// Why a pair has no way.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoWay {
    /// An address that is none of the job's.
    #[error("address {lid} is no host's of job {owner}")]
    Stranger {
        /// The address.
        lid: Lid,
        /// The job.
        owner: String,
    },
    /// A slice that lost links.
    #[error("job {owner} has no tree from {from} to {to}")]
    NoTree {
        /// The job.
        owner: String,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
}

/// What is wrong with a text, with its line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {what}")]
pub struct JobError {
    /// From 1.
    pub line: usize,
    /// What is wrong, with the value.
    pub what: String,
}

/// The name of the file that has a job's trees: owners have slashes, but no commas.
pub fn file_name(owner: &str) -> String {
    format!("{}.trees", owner.replace('/', ","))
}

impl JobTrees {
    /// The trees of a job whose slice has these (leaf, tree) pairs.
    pub fn new(
        owner: &str,
        user: Option<u32>,
        pairs: &[(Guid, TreeId)],
        mut hosts: Vec<JobHost>,
    ) -> Self {
        let mut leaves: BTreeMap<Guid, Vec<TreeId>> = BTreeMap::new();
        for &(leaf, tree) in pairs {
            leaves.entry(leaf).or_default().push(tree);
        }
        for trees in leaves.values_mut() {
            trees.sort_unstable();
            trees.dedup();
        }
        hosts.sort_by_key(|host| host.lids);
        let mut seen: BTreeMap<Guid, usize> = BTreeMap::new();
        let turn = |host: &JobHost| {
            let seen = seen.entry(host.leaf).or_default();
            *seen += 1;
            *seen - 1
        };
        let turns = hosts.iter().map(turn).collect();
        let (pins, from) = (BTreeMap::new(), BTreeMap::new());
        Self { owner: owner.to_owned(), user, sl: 0, leaves, hosts, turns, pins, from }
    }

    /// The same, to be sent with this service level, 0 to 15.
    #[must_use]
    pub fn with_sl(self, sl: u8) -> Self {
        Self { sl, ..self }
    }

    /// Gives a direction of a pair a tree of its own.
    ///
    /// # Errors
    /// When an address is no host's of the job.
    pub fn pin(&mut self, from: Lid, to: Lid, tree: TreeId) -> Result<(), NoWay> {
        let (from, to) = (self.find(from)?, self.find(to)?);
        self.pins.insert((self.hosts[from].lids.0, self.hosts[to].lids.0), tree);
        Ok(())
    }

    /// On tables of another manager: the addresses along trees of the host with an address, from a leaf.
    ///
    /// # Errors
    /// When an address is none of the job's, or not that host's.
    pub fn lead(&mut self, leaf: Guid, to: Lid, along: BTreeMap<TreeId, Lid>) -> Result<(), NoWay> {
        let at = self.find(to)?;
        let stranger = along.values().find(|lid| self.find(**lid) != Ok(at));
        if let Some(&lid) = stranger {
            return Err(NoWay::Stranger { lid, owner: self.owner.clone() });
        }
        self.from.insert((leaf, self.hosts[at].lids.0), along);
        Ok(())
    }

    /// A host's address along each tree, for what is sent from a leaf.
    pub fn along<'a>(&'a self, leaf: Guid, host: &'a JobHost) -> &'a BTreeMap<TreeId, Lid> {
        self.from.get(&(leaf, host.lids.0)).unwrap_or(&host.along)
    }

    /// Whose it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The user whose programs may ask for it; without one every user's may.
    pub const fn user(&self) -> Option<u32> {
        self.user
    }

    /// Its hosts, by address.
    pub fn hosts(&self) -> &[JobHost] {
        &self.hosts
    }

    /// The host with an address.
    pub fn host(&self, lid: Lid) -> Option<&JobHost> {
        self.find(lid).ok().map(|at| &self.hosts[at])
    }

    /// The trees that its slice has at a leaf.
    pub fn trees(&self, leaf: Guid) -> &[TreeId] {
        self.leaves.get(&leaf).map(Vec::as_slice).unwrap_or_default()
    }

    fn find(&self, lid: Lid) -> Result<usize, NoWay> {
        let after = self.hosts.partition_point(|host| host.lids.0 <= lid);
        let at = after.checked_sub(1).filter(|&at| lid <= self.hosts[at].lids.1);
        at.ok_or_else(|| NoWay::Stranger { lid, owner: self.owner.clone() })
    }

    /// What the end with address `own` puts into its address vector towards the end with address `peer`; either
    /// may be any address of its port. `None` where both are one port: nothing leaves it.
    ///
    /// # Errors
    /// When there is no way along the job's trees.
    pub fn way(&self, own: Lid, peer: Lid) -> Result<Option<Way>, NoWay> {
        let (own, peer) = (self.find(own)?, self.find(peer)?);
        if own == peer {
            return Ok(None);
        }
        let (to, tree) = self.address(own, peer)?;
        let (from, _) = self.address(peer, own)?;
        Ok(Some(Way { to, from, base: self.hosts[own].lids.0, tree, sl: self.sl }))
    }

    /// Where `from` sends to: the address of `to` along the direction's tree.
    fn address(&self, from: usize, to: usize) -> Result<(Lid, Option<TreeId>), NoWay> {
        let (sender, receiver) = (&self.hosts[from], &self.hosts[to]);
        let none = || NoWay::NoTree {
            owner: self.owner.clone(),
            from: sender.name.clone(),
            to: receiver.name.clone(),
        };
        let along = self.along(sender.leaf, receiver);
        if let Some(&tree) = self.pins.get(&(sender.lids.0, receiver.lids.0)) {
            let lid = along.get(&tree).ok_or_else(none)?;
            return Ok((*lid, Some(tree)));
        }
        if sender.leaf == receiver.leaf {
            return Ok((receiver.lids.0, None));
        }
        let there = self.trees(receiver.leaf);
        let common = self.trees(sender.leaf).iter();
        let common = common.filter(|tree| there.binary_search(tree).is_ok());
        let ways: Vec<(TreeId, Lid)> =
            common.filter_map(|tree| Some((*tree, *along.get(tree)?))).collect();
        let turn = self.turns[to].checked_rem(ways.len()).ok_or_else(none)?;
        Ok((ways[turn].1, Some(ways[turn].0)))
    }
}

impl fmt::Display for JobTrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nowner {}", self.owner)?;
        if let Some(user) = self.user {
            writeln!(f, "uid {user}")?;
        }
        for (leaf, trees) in &self.leaves {
            let trees: Vec<String> = trees.iter().map(|tree| tree.0.to_string()).collect();
            writeln!(f, "leaf {leaf} {}", trees.join(","))?;
        }
        for JobHost { name, port, leaf, lids: (first, last), along } in &self.hosts {
            let (along, name) = (addresses(along), printable(name));
            writeln!(f, "host {port} {leaf} {first}-{last} {along} {name}")?;
        }
        for ((leaf, to), along) in &self.from {
            writeln!(f, "from {leaf} {to} {}", addresses(along))?;
        }
        let mut pins = self.pins.iter();
        pins.try_for_each(|((from, to), tree)| writeln!(f, "pin {from} {to} {}", tree.0))?;
        if self.sl > 0 {
            writeln!(f, "sl {}", self.sl)?;
        }
        Ok(())
    }
}

impl FromStr for JobTrees {
    type Err = JobError;

    fn from_str(text: &str) -> Result<Self, JobError> {
        let failed = |line, what: String| Err(JobError { line, what });
        if text.len() > MAX_TEXT {
            return failed(1, format!("{} bytes, at most {MAX_TEXT}", text.len()));
        }
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        if lines.next().is_none_or(|(_, line)| line != HEAD) {
            return failed(1, format!("no job's trees: they begin with `{HEAD}`"));
        }
        let (mut owner, mut user, mut sl) = (None, None, 0);
        let (mut pairs, mut hosts) = (Vec::new(), Vec::new());
        let (mut pins, mut leads) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            let read = match line.split_once(' ') {
                Some(("owner", name)) => {
                    owner = Some(name.to_owned());
                    Some(())
                }
                Some(("uid", text)) => text.parse().ok().map(|read| user = Some(read)),
                Some(("leaf", rest)) => leaf(rest).map(|read| pairs.extend(read)),
                Some(("host", rest)) if hosts.len() < MAX_HOSTS => {
                    host(rest).map(|read| hosts.push(read))
                }
                Some(("sl", text)) => {
                    text.parse().ok().filter(|read| (0..16).contains(read)).map(|read| sl = read)
                }
                Some(("pin", rest)) => pin(rest).map(|read| pins.push((number, read))),
                Some(("from", rest)) => from(rest).map(|read| leads.push((number, read))),
                _ => None,
            };
            if read.is_none() {
                return failed(
                    number,
                    format!("`{line:.80}`: no owner, uid, leaf, host, from, pin or sl"),
                );
            }
        }
        let Some(owner) = owner else { return failed(1, "no owner".to_owned()) };
        let mut trees = Self::new(&owner, user, &pairs, hosts).with_sl(sl);
        for (line, (from, to, tree)) in pins {
            trees.pin(from, to, tree).map_err(|why| JobError { line, what: why.to_string() })?;
        }
        for (line, (leaf, to, along)) in leads {
            trees.lead(leaf, to, along).map_err(|why| JobError { line, what: why.to_string() })?;
        }
        Ok(trees)
    }
}

fn leaf(text: &str) -> Option<Vec<(Guid, TreeId)>> {
    let (leaf, trees) = text.split_once(' ')?;
    let leaf: Guid = leaf.parse().ok()?;
    trees.split(',').map(|tree| Some((leaf, TreeId(tree.parse().ok()?)))).collect()
}

fn host(text: &str) -> Option<JobHost> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let (port, leaf, lids, along, name) = (word()?, word()?, word()?, word()?, word()?);
    let (first, last) = lids.split_once('-')?;
    let lids = (lid(first)?, lid(last)?);
    let along = parse_addresses(along)?;
    if !along.values().all(|lid| (lids.0..=lids.1).contains(lid)) {
        return None;
    }
    let (port, leaf) = (port.parse().ok()?, leaf.parse().ok()?);
    Some(JobHost { name: name.to_owned(), port, leaf, lids, along })
}

/// Leaf, the receiver's first address, and its address along each tree.
fn from(text: &str) -> Option<(Guid, Lid, BTreeMap<TreeId, Lid>)> {
    let mut words = text.splitn(3, ' ');
    let (leaf, to, along) = (words.next()?, words.next()?, words.next()?);
    Some((leaf.parse().ok()?, lid(to)?, parse_addresses(along)?))
}

/// `0=32,1=33`: addresses by tree.
fn addresses(along: &BTreeMap<TreeId, Lid>) -> String {
    let along = along.iter().map(|(tree, lid)| format!("{}={lid}", tree.0));
    along.collect::<Vec<_>>().join(",")
}

fn parse_addresses(text: &str) -> Option<BTreeMap<TreeId, Lid>> {
    let address = |text: &str| {
        let (tree, at) = text.split_once('=')?;
        Some((TreeId(tree.parse().ok()?), lid(at)?))
    };
    text.split(',').filter(|text| !text.is_empty()).map(address).collect()
}

fn pin(text: &str) -> Option<(Lid, Lid, TreeId)> {
    let mut words = text.splitn(3, ' ');
    let (from, to, tree) = (words.next()?, words.next()?, words.next()?);
    Some((lid(from)?, lid(to)?, TreeId(tree.parse().ok()?)))
}

fn lid(text: &str) -> Option<Lid> {
    text.parse().ok().map(Lid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two leaves, two hosts on each, four trees; the slice has trees 1 and 3.
    fn text() -> String {
        let mut text = "snin-job 1\nowner slurm/7\nuid 1000\n".to_owned();
        for leaf in 1..=2 {
            text += &format!("leaf 0x{leaf:016x} 1,3\n");
        }
        for host in 0..4_u32 {
            let (leaf, base) = (host / 2 + 1, 32 * (host + 1));
            let along: Vec<String> = (0..4).map(|tree| format!("{tree}={}", base + tree)).collect();
            let lids = format!("{base}-{}", base + 3);
            text += &format!(
                "host 0x{:016x} 0x{leaf:016x} {lids} {} node {host}\n",
                0x20 + host,
                along.join(",")
            );
        }
        text
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let trees: JobTrees = text().parse().unwrap();
        assert_eq!(trees.to_string(), text());
        assert_eq!((trees.owner(), trees.user()), ("slurm/7", Some(1000)));
        assert_eq!(trees.host(Lid(98)).unwrap().name, "node 2");
    }

    #[test]
    fn both_ends_agree_in_both_directions() {
        let mut trees: JobTrees = text().parse().unwrap();
        trees.pin(Lid(32), Lid(99), TreeId(0)).unwrap();
        for (a, b) in [(32, 96), (32, 128), (64, 96), (64, 128), (32, 64)] {
            let here = trees.way(Lid(a), Lid(b)).unwrap().unwrap();
            // The other end knows the address that it is called by.
            let there = trees.way(Lid(b + 2), Lid(a + 1)).unwrap().unwrap();
            assert_eq!((here.to, here.from), (there.from, there.to), "{a} {b}");
        }
        let way = |a, b| trees.way(Lid(a), Lid(b)).unwrap().unwrap();
        assert_eq!((way(32, 96).tree, way(96, 32).tree), (Some(TreeId(0)), Some(TreeId(1))));
        // By the receiver's place on its leaf; none within a leaf.
        assert_eq!((way(64, 96).to, way(64, 128).to), (Lid(97), Lid(131)));
        assert_eq!((way(32, 65).to, way(32, 65).tree), (Lid(64), None));
        assert_eq!(trees.way(Lid(32), Lid(33)), Ok(None));
    }

    /// From the first leaf the addresses of the second one's hosts lead along the trees in another order.
    #[test]
    fn another_managers_addresses_are_by_the_senders_leaf() {
        let mut said = text();
        for at in 0..4 {
            let base = 32 * (at + 1);
            let along: Vec<String> = (0..4).map(|tree| format!("{tree}={}", base + tree)).collect();
            said = said.replace(&along.join(","), "");
        }
        for (leaf, to) in [(1, 96), (1, 128), (2, 32), (2, 64)] {
            let along = |tree| to + (tree + leaf) % 4;
            said += &format!("from 0x{leaf:016x} {to} 1={},3={}\n", along(1), along(3));
        }
        let trees: JobTrees = said.parse().unwrap();
        assert_eq!(trees.to_string(), said);
        let way = trees.way(Lid(64), Lid(130)).unwrap().unwrap();
        // There along tree 3, as the receiver is the second of its leaf; back along tree 3 too.
        assert_eq!((way.to, way.tree), (Lid(128), Some(TreeId(3))));
        assert_eq!(way.from, Lid(65));
        let why = (said + "from 0x1 96 1=32\n").parse::<JobTrees>().unwrap_err().to_string();
        assert_eq!(why, "14: address 32 is no host's of job slurm/7");
    }

    #[test]
    fn what_has_no_way_is_named() {
        let trees: JobTrees = text().replace("leaf 0x0000000000000002 1,3\n", "").parse().unwrap();
        let why = |a, b| trees.way(Lid(a), Lid(b)).unwrap_err().to_string();
        assert_eq!(why(32, 96), "job slurm/7 has no tree from node 0 to node 2");
        assert_eq!(why(32, 36), "address 36 is no host's of job slurm/7");
        assert_eq!(why(31, 32), "address 31 is no host's of job slurm/7");
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        let refused = |text: &str| text.parse::<JobTrees>().unwrap_err().to_string();
        assert!(refused("").starts_with("1: no job's trees"));
        assert_eq!(refused("snin-job 1\n"), "1: no owner");
        assert!(refused("snin-job 1\nowner a\nleaf 0x1 x").starts_with("3: `leaf 0x1 x`"));
        assert!(refused("snin-job 1\nhost 0x1 0x2 4-5 0=9 a").starts_with("2: "));
        assert!(refused(&(text() + "pin 1 2 3\n")).starts_with("10: address 1 is no"));
    }
}
