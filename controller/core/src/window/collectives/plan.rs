//! What a collective does on a fabric: the tree, the addresses and the links of each member.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::collective::CollectiveKind;

use super::super::fabric::{Fabric, LinkId};
use super::super::slicing::Slicing;
use crate::orders::CollectiveError;
use crate::packing::LeafId;

/// What a collective does on the present fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) members: Vec<MemberPlan>,
    pub(super) rate: u64,
    pub(super) max_link_load: u32,
}

/// What one member does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MemberPlan {
    pub(super) port: Guid,
    pub(super) tree: TreeId,
    /// The address of every member along its tree; its own is of no account.
    pub(super) to: Vec<Dlid>,
    /// All links that it uses in any phase, its own first.
    pub(super) links: Vec<LinkId>,
}

impl Plan {
    /// The members that one of them may send to, and their addresses along its tree.
    pub(super) fn others<'a>(
        &'a self,
        part: &'a MemberPlan,
    ) -> impl Iterator<Item = (&'a MemberPlan, &'a Dlid)> {
        let all = self.members.iter().zip(&part.to);
        all.filter(|(other, _)| other.port != part.port)
    }
}

/// The links of the way from one member to each, by place; its own way has none.
type Ways = Vec<Vec<LinkId>>;

/// The collective on a fabric.
pub(super) fn plan(
    fabric: &Fabric,
    slicing: &Slicing,
    owner: &str,
    kind: CollectiveKind,
) -> Result<Plan, CollectiveError> {
    let none = || CollectiveError::NoSlice(owner.to_owned());
    let (slices, slice) = slicing.find(owner).ok_or_else(none)?;
    if !slicing.is_whole(owner) {
        return Err(CollectiveError::NotWhole(owner.to_owned()));
    }
    let hosts = slice.hosts();
    let phases = kind.phases(hosts.len() as u32)?;
    let mut trees: BTreeMap<LeafId, Vec<TreeId>> = BTreeMap::new();
    for (leaf, tree) in slices.pairs(slice) {
        trees.entry(leaf).or_default().push(tree);
    }
    let mut hosts_at: BTreeMap<LeafId, usize> = BTreeMap::new();
    let (mut members, mut ways): (Vec<MemberPlan>, Vec<Ways>) = (Vec::new(), Vec::new());
    let mut rate = u64::MAX;
    for &host in hosts {
        let port = fabric.port(host).ok_or_else(none)?;
        let leaf = fabric.leaf(host).ok_or_else(none)?;
        let place = hosts_at.entry(leaf).or_default();
        // A slice on one leaf has no links: any tree leads to its hosts.
        let own = trees.get(&leaf).filter(|own| !own.is_empty());
        let tree = own.map_or(TreeId(0), |own| own[*place % own.len()]);
        *place += 1;
        let (mut to, mut its_ways) = (Vec::new(), Ways::new());
        for &other in hosts {
            let there = fabric.port(other).ok_or_else(none)?;
            let no_way = || CollectiveError::NoWay { from: port, to: there, tree };
            let dlid = fabric.address((host, other), tree).ok_or_else(no_way)?;
            to.push(dlid);
            if other == host {
                its_ways.push(Vec::new());
                continue;
            }
            let (way, slowest) = fabric.way_to((host, other), dlid).ok_or_else(no_way)?;
            let theirs = fabric.leaf(other).and_then(|leaf| trees.get(&leaf));
            let is_of_slice = theirs.is_some_and(|theirs| theirs.contains(&tree));
            if !is_of_slice && !fabric.on_one_leaf((host, other)) {
                return Err(no_way());
            }
            its_ways.push(way);
            rate = rate.min(slowest);
        }
        let first = its_ways.iter().find_map(|way| way.first().copied());
        let others: BTreeSet<LinkId> = its_ways.iter().flatten().copied().collect();
        let others = others.into_iter().filter(|&link| Some(link) != first);
        members.push(MemberPlan {
            port,
            tree,
            to,
            links: first.into_iter().chain(others).collect(),
        });
        ways.push(its_ways);
    }
    let max_link_load = load(&members, &ways, kind, phases)?;
    Ok(Plan { members, rate: if rate == u64::MAX { 0 } else { rate }, max_link_load })
}

/// How many members the most loaded link has in any phase: one.
///
/// # Errors
/// Where a link would have two.
fn load(
    members: &[MemberPlan],
    ways: &[Ways],
    kind: CollectiveKind,
    phases: u32,
) -> Result<u32, CollectiveError> {
    let mut most = 0;
    for phase in 0..phases {
        let mut used: BTreeMap<LinkId, Guid> = BTreeMap::new();
        for (place, part) in members.iter().enumerate() {
            let peer = kind.peer(members.len() as u32, place as u32, phase);
            for &link in peer.iter().flat_map(|&peer| &ways[place][peer as usize]) {
                if let Some(one) = used.insert(link, part.port) {
                    return Err(CollectiveError::Shared { phase, one, other: part.port });
                }
                most = 1;
            }
        }
    }
    Ok(most)
}
