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
//! the service level that the job sends with, where granted traffic has one of its own. `collective` is the
//! pattern in which its hosts send, such as `ring` or `halo 4x4x1`: then every direction is pinned to the sender's
//! tree.
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

mod text;

use std::collections::BTreeMap;

use crate::{Guid, Lid, TreeId};

pub use text::JobError;

/// The most hosts of a job.
pub const MAX_HOSTS: usize = 49_151;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 32 << 20;

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Links of its own.
    Slice,
    /// Links of its own, and trees that no other pair shares for the first host and the second, the third and the
    /// fourth, and so on.
    Pinned,
    /// Links of its own, and for each host one tree for all that it sends, as a collective has it: a pattern, of
    /// which the controller knows more.
    Collective,
    /// Nothing.
    Off,
}

/// The patterns of collectives that have no dimensions; `grid:AxB` and `halo:AxB` have some.
pub const PATTERNS: [&str; 4] = ["ring", "bidir", "hd", "alltoall"];

impl Mode {
    /// By its name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "slice" => Some(Self::Slice),
            "pinned" => Some(Self::Pinned),
            "off" => Some(Self::Off),
            text => is_pattern(text).then_some(Self::Collective),
        }
    }
}

/// Whether a text names a pattern, a grid or halo with its dimensions.
fn is_pattern(text: &str) -> bool {
    let (name, dims) = text.split_once(':').unzip();
    let has_dims = |dims: &str| {
        let mut sizes = dims.split('x').map(|size| size.parse::<u16>().unwrap_or(0));
        dims.split('x').count() <= 3 && sizes.all(|size| size > 0)
    };
    match name.unwrap_or(text) {
        "grid" | "halo" => dims.is_some_and(has_dims),
        name => dims.is_none() && PATTERNS.contains(&name),
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
    collective: Option<String>,
    leaves: BTreeMap<Guid, Vec<TreeId>>,
    /// By first address.
    hosts: Vec<JobHost>,
    /// How many hosts of its leaf come before each host.
    turns: Vec<usize>,
    /// By the first addresses of sender and receiver.
    pins: BTreeMap<(Lid, Lid), TreeId>,
    /// On tables of another manager, by the sender's leaf and the receiver's first address: its address along each
    /// tree.
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
        let (owner, collective) = (owner.to_owned(), None);
        Self { owner, user, sl: 0, collective, leaves, hosts, turns, pins, from }
    }

    /// The same, for hosts that send in a pattern.
    #[must_use]
    pub fn with_collective(self, pattern: &str) -> Self {
        Self { collective: Some(pattern.to_owned()), ..self }
    }

    /// The pattern in which its hosts send, where there is one.
    pub fn collective(&self) -> Option<&str> {
        self.collective.as_deref()
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
