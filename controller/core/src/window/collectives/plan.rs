//! What a collective does on a fabric: the tree, the addresses and the links of each member.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::hosts::HostId;
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::collective::{Kind, KindError};

use super::super::fabric::{Fabric, LinkId};
use super::super::slicing::Slicing;
use crate::packing::LeafId;

/// Why there is no collective. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectiveError {
    /// It goes over a slice.
    #[error("{0} has no slice: make one with `snin slice create {0} --hosts N`")]
    NoSlice(String),
    /// The slice lacks links.
    #[error("the slice of {0} lacks links that were cut")]
    NotWhole(String),
    /// The members.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The guard would leave nothing of a slot.
    #[error("slots of {slot} are too short: {least} is the least, of which {lost} are guard")]
    Slot {
        /// As asked for.
        slot: Time,
        /// The least.
        least: Time,
        /// What is lost of each slot.
        lost: Time,
    },
    /// A member has no way to another one.
    #[error("{from} has no way to {to} along tree {}", tree.0)]
    NoWay {
        /// The one.
        from: Guid,
        /// The other.
        to: Guid,
        /// The tree.
        tree: TreeId,
    },
    /// Two members would share a link.
    #[error(
        "in phase {phase} {one} and {other} would share a link: the slice has fewer trees than this pattern needs"
    )]
    Shared {
        /// From 0.
        phase: u32,
        /// The one.
        one: Guid,
        /// The other.
        other: Guid,
    },
}

/// What a collective does on the present fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) members: Vec<Part>,
    pub(super) phases: u32,
    pub(super) rate: u64,
    pub(super) max_link_load: u32,
}

/// What one member does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) port: Guid,
    pub(super) host: HostId,
    pub(super) tree: TreeId,
    /// The address of every member along its tree; its own is of no account.
    pub(super) to: Vec<Dlid>,
    /// All that it uses in any phase.
    pub(super) links: BTreeSet<LinkId>,
}

/// The collective on a fabric.
pub(super) fn plan(
    fabric: &Fabric,
    slicing: &Slicing,
    owner: &str,
    kind: Kind,
) -> Result<Plan, CollectiveError> {
    let none = || CollectiveError::NoSlice(owner.to_owned());
    let (slices, slice) = slicing.find(owner).ok_or_else(none)?;
    if !slicing.is_whole(owner) {
        return Err(CollectiveError::NotWhole(owner.to_owned()));
    }
    let hosts = slice.hosts();
    let count = hosts.len() as u32;
    let phases = kind.phases(count)?;
    let mut trees: BTreeMap<LeafId, Vec<TreeId>> = BTreeMap::new();
    for (leaf, tree) in slices.pairs(slice) {
        trees.entry(leaf).or_default().push(tree);
    }
    let mut at: BTreeMap<LeafId, usize> = BTreeMap::new();
    let mut members = Vec::with_capacity(hosts.len());
    let mut rate = u64::MAX;
    for &host in hosts {
        let port = fabric.port(host).ok_or_else(none)?;
        let leaf = fabric.leaf(host).unwrap_or(LeafId(0));
        let place = at.entry(leaf).or_default();
        // A slice on one leaf has no links: any tree leads to its hosts.
        let own = trees.get(&leaf).filter(|own| !own.is_empty());
        let tree = own.map_or(TreeId(0), |own| own[*place % own.len()]);
        *place += 1;
        let mut to = Vec::with_capacity(hosts.len());
        let mut links = BTreeSet::new();
        for &other in hosts {
            let there = fabric.port(other).ok_or_else(none)?;
            let no_way = || CollectiveError::NoWay { from: port, to: there, tree };
            let dlid = fabric.address(other, tree).ok_or_else(no_way)?;
            to.push(dlid);
            if other != host {
                let (way, slowest) = fabric.way_to((host, other), dlid).ok_or_else(no_way)?;
                let theirs = fabric.leaf(other).and_then(|leaf| trees.get(&leaf));
                let own = theirs.is_some_and(|theirs| theirs.contains(&tree));
                if !own && !fabric.on_one_leaf((host, other)) {
                    return Err(no_way());
                }
                links.extend(way);
                rate = rate.min(slowest);
            }
        }
        members.push(Part { port, host, tree, to, links });
    }
    let rate = if rate == u64::MAX { 0 } else { rate };
    let mut plan = Plan { members, phases, rate, max_link_load: 0 };
    plan.max_link_load = check(fabric, &plan, kind)?;
    Ok(plan)
}

/// In no phase a link has two members: how many it has at most.
fn check(fabric: &Fabric, plan: &Plan, kind: Kind) -> Result<u32, CollectiveError> {
    let mut most = 0;
    let count = plan.members.len() as u32;
    for phase in 0..plan.phases {
        let mut used: BTreeMap<LinkId, Guid> = BTreeMap::new();
        for (place, part) in plan.members.iter().enumerate() {
            let Some(peer) = kind.peer(count, place as u32, phase) else { continue };
            let (other, dlid) = (&plan.members[peer as usize], part.to[peer as usize]);
            let way = fabric.links_to((part.host, other.host), dlid).unwrap_or_default();
            for link in way {
                if let Some(one) = used.insert(link, part.port) {
                    return Err(CollectiveError::Shared { phase, one, other: part.port });
                }
                most = 1;
            }
        }
    }
    Ok(most)
}
