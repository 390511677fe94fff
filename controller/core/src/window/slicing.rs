//! Slices in the loop: who has one, and what becomes of them when the fabric changes.
//!
//! A slice is kept by what does not change from view to view: port GUIDs of hosts, switch GUIDs of leaves, root
//! and plane of trees. With another view each slice keeps the links that are left to it. One that lost links
//! gets others where there are any; else it is no longer whole, and goes on with what it has.
//!
//! A change takes effect with the next window. Grants that stand on links which were set aside run out or are
//! moved like any others, and the ledger gives no link before it is clear: [`SliceStatus::foreign`] counts what
//! is left of them.

use std::collections::BTreeMap;

use snin_fabric::hosts::HostId;
use snin_fabric::{Guid, NodeIndex, TreeId};

use super::Core;
use super::fabric::Fabric;
use crate::orders::{
    CollectiveWanted, MAX_OWNER, MAX_SLICES, SliceError, SliceHosts, SliceRecord, SliceStatus,
    TreeName,
};
use crate::packing::LeafId;
use crate::slices::{JobId, Limits, Slice, SliceLinks, Slices, Unsuitable};

/// What is kept of every slice, and the slices in the present view.
#[derive(Clone, Default, Debug)]
pub(super) struct Slicing {
    kept: BTreeMap<String, Kept>,
    present: Option<Result<Slices, Unsuitable>>,
    names: Names,
    next: u64,
    /// Rises with every change of what is kept.
    version: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    job: JobId,
    record: SliceRecord,
    whole: bool,
}

/// Leaves and trees of the present view by their names.
#[derive(Clone, Default, Debug)]
struct Names {
    switch_of_leaf: BTreeMap<LeafId, Guid>,
    leaf_of_switch: BTreeMap<Guid, LeafId>,
    tree_names: Vec<TreeName>,
    trees: BTreeMap<TreeName, TreeId>,
}

impl Names {
    fn of(fabric: &Fabric) -> Self {
        let (topology, routing) = (fabric.view.topology(), fabric.view.routing());
        let guid = |node: NodeIndex| topology.node(node).guid;
        let leaf = |(id, host): (HostId, &snin_fabric::hosts::Host)| {
            Some((fabric.leaf(id)?, guid(host.switch)))
        };
        let switch_of_leaf: BTreeMap<LeafId, Guid> =
            routing.hosts.iter().filter_map(leaf).collect();
        let trees = routing.forest.trees().iter();
        let tree_names: Vec<TreeName> =
            trees.map(|tree| TreeName { root: guid(tree.root), plane: tree.plane }).collect();
        Self {
            leaf_of_switch: switch_of_leaf.iter().map(|(&leaf, &switch)| (switch, leaf)).collect(),
            switch_of_leaf,
            trees: tree_names.iter().copied().zip((0..).map(TreeId)).collect(),
            tree_names,
        }
    }

    fn name(&self, &(leaf, tree): &(LeafId, TreeId)) -> Option<(Guid, TreeName)> {
        Some((*self.switch_of_leaf.get(&leaf)?, *self.tree_names.get(tree.index())?))
    }

    /// The pairs that are there; the others as pairs that no fabric has.
    fn find(&self, named: &[(Guid, TreeName)]) -> Vec<(LeafId, TreeId)> {
        let nowhere = (LeafId(u32::MAX), TreeId(u16::MAX));
        let find = |(switch, tree): &(Guid, TreeName)| {
            Some((*self.leaf_of_switch.get(switch)?, *self.trees.get(tree)?))
        };
        named.iter().map(|pair| find(pair).unwrap_or(nowhere)).collect()
    }
}

impl Slicing {
    /// The slices in the present view.
    pub(super) fn slices(&self) -> Option<&Slices> {
        self.present.as_ref()?.as_ref().ok()
    }

    /// The slice of an owner in the present view.
    pub(super) fn find(&self, owner: &str) -> Option<(&Slices, &Slice)> {
        let slices = self.slices()?;
        Some((slices, slices.get(self.kept.get(owner)?.job)?))
    }

    fn slices_mut(&mut self) -> Result<&mut Slices, SliceError> {
        match self.present.as_mut().ok_or(SliceError::NoTrees)? {
            Ok(slices) => Ok(slices),
            Err(unsuitable) => Err((*unsuitable).into()),
        }
    }

    /// The slice that both ends belong to.
    pub(super) fn of(&self, ends: (HostId, HostId)) -> Option<JobId> {
        let slices = self.slices()?;
        slices.job_of(ends.0).filter(|&job| slices.job_of(ends.1) == Some(job))
    }

    /// Whether the slice of an owner has all links that it needs.
    pub(super) fn is_whole(&self, owner: &str) -> bool {
        self.kept.get(owner).is_some_and(|kept| kept.whole)
    }

    /// The collective that is wanted in an owner's slice.
    pub(super) fn collective(&self, owner: &str) -> Option<CollectiveWanted> {
        self.kept.get(owner)?.record.collective
    }

    /// All that are wanted, by owner.
    pub(super) fn collectives(&self) -> impl Iterator<Item = (String, CollectiveWanted)> {
        let wanted =
            |(owner, kept): (&String, &Kept)| Some((owner.clone(), kept.record.collective?));
        self.kept.iter().filter_map(wanted)
    }

    /// Another one is wanted, or none; whether it is another. `None` where the owner has no slice.
    pub(super) fn set_collective(
        &mut self,
        owner: &str,
        wanted: Option<CollectiveWanted>,
    ) -> Option<bool> {
        let kept = self.kept.get_mut(owner)?;
        let changed = kept.record.collective != wanted;
        kept.record.collective = wanted;
        self.version += u64::from(changed);
        Some(changed)
    }

    /// Whether there is no slice.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The same slices in another view: each keeps what is left of its links, and those that lost some get
    /// others where there are any.
    pub(super) fn take_view(&mut self, fabric: &Fabric) {
        let Some(shape) = fabric.shape_of_slices() else {
            self.present = None;
            return;
        };
        let slices = match Slices::new(&shape, fabric.leaves(), Limits::default()) {
            Ok(slices) => slices,
            Err(unsuitable) => {
                self.present = Some(Err(unsuitable));
                return;
            }
        };
        self.present = Some(Ok(slices));
        self.names = Names::of(fabric);
        self.version += 1;
        let owners: Vec<String> = self.kept.keys().cloned().collect();
        owners.iter().for_each(|owner| self.claim(owner, fabric));
        for owner in &owners {
            self.mend(owner, fabric);
        }
        owners.iter().for_each(|owner| self.write_down(owner, fabric));
    }

    fn claim(&mut self, owner: &str, fabric: &Fabric) {
        let (Some(Ok(slices)), Some(kept)) = (&mut self.present, self.kept.get_mut(owner)) else {
            return;
        };
        let hosts: Vec<HostId> =
            kept.record.hosts.iter().filter_map(|&port| fabric.host_of(port)).collect();
        let (leaf, pod) = (self.names.find(&kept.record.leaf), self.names.find(&kept.record.pod));
        let links = SliceLinks { leaf, pod };
        let all = slices.claim(kept.job, &hosts, &links);
        kept.whole = all && hosts.len() == kept.record.hosts.len();
    }

    /// Other links for a slice that is not whole, if there are any.
    fn mend(&mut self, owner: &str, fabric: &Fabric) {
        let (Some(Ok(slices)), Some(kept)) = (&mut self.present, self.kept.get_mut(owner)) else {
            return;
        };
        if kept.whole {
            return;
        }
        let hosts: Vec<HostId> =
            kept.record.hosts.iter().filter_map(|&port| fabric.host_of(port)).collect();
        if slices.replace(kept.job, &hosts).is_ok() {
            kept.whole = hosts.len() == kept.record.hosts.len();
        }
    }

    /// Names hosts and links of a slice. Hosts and links that are away are remembered while it is not whole.
    fn write_down(&mut self, owner: &str, fabric: &Fabric) {
        let (Some(Ok(slices)), Some(kept)) = (&self.present, self.kept.get_mut(owner)) else {
            return;
        };
        let Some(slice) = slices.get(kept.job).filter(|_| kept.whole) else {
            return;
        };
        let links = slices.links(slice);
        kept.record.hosts = ports(fabric, slice.hosts());
        kept.record.leaf = links.leaf.iter().filter_map(|pair| self.names.name(pair)).collect();
        kept.record.pod = links.pod.iter().filter_map(|pair| self.names.name(pair)).collect();
    }
}

fn ports(fabric: &Fabric, hosts: &[HostId]) -> Vec<Guid> {
    let topology = fabric.view.topology();
    let port = |&host: &HostId| Some(topology.port(fabric.host(host)?.port).guid);
    hosts.iter().filter_map(port).collect()
}

fn check_owner(owner: &str) -> Result<(), SliceError> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-".contains(&b);
    let good = (1..=MAX_OWNER).contains(&owner.len()) && owner.bytes().all(fits);
    good.then_some(()).ok_or_else(|| SliceError::Owner(owner.to_owned()))
}

fn allocate(
    slices: &mut Slices,
    job: JobId,
    wanted: &SliceHosts,
    fabric: &Fabric,
) -> Result<(), SliceError> {
    match wanted {
        SliceHosts::Count(count) => drop(slices.allocate(job, *count)?),
        SliceHosts::Ports(ports) => drop(slices.allocate_on(job, &find(ports, fabric)?)?),
    }
    Ok(())
}

fn find(ports: &[Guid], fabric: &Fabric) -> Result<Vec<HostId>, SliceError> {
    let find = |&port: &Guid| fabric.host_of(port).ok_or(SliceError::UnknownPort(port));
    ports.iter().map(find).collect()
}

impl Core {
    /// False says that the owner has it already.
    pub(crate) fn make_slice(
        &mut self,
        owner: String,
        wanted: SliceHosts,
    ) -> Result<bool, SliceError> {
        check_owner(&owner)?;
        if let Some(kept) = self.slicing.kept.get(&owner) {
            let same = kept.record.wanted == wanted;
            return if same { Ok(false) } else { Err(SliceError::Other(owner)) };
        }
        if self.slicing.kept.len() >= MAX_SLICES {
            return Err(SliceError::TooMany);
        }
        let job = JobId(self.slicing.next);
        allocate(self.slicing.slices_mut()?, job, &wanted, &self.fabric)?;
        self.slicing.next += 1;
        let record = SliceRecord {
            owner: owner.clone(),
            wanted,
            hosts: Vec::new(),
            leaf: Vec::new(),
            pod: Vec::new(),
            shared: false,
            collective: None,
        };
        self.slicing.kept.insert(owner.clone(), Kept { job, record, whole: true });
        self.slices_changed(Some(&owner));
        Ok(true)
    }

    pub(crate) fn change_slice(
        &mut self,
        owner: &str,
        wanted: SliceHosts,
    ) -> Result<(), SliceError> {
        let job = self.job(owner)?;
        let ports = match &wanted {
            SliceHosts::Ports(ports) => find(ports, &self.fabric)?,
            SliceHosts::Count(_) => Vec::new(),
        };
        let slices = self.slicing.slices_mut()?;
        match &wanted {
            SliceHosts::Count(count) => drop(slices.resize(job, *count)?),
            SliceHosts::Ports(_) => drop(slices.replace(job, &ports)?),
        }
        if let Some(kept) = self.slicing.kept.get_mut(owner) {
            kept.record.wanted = wanted;
            kept.whole = true;
        }
        self.slices_changed(Some(owner));
        Ok(())
    }

    /// Whether that is new.
    pub(crate) fn set_shared(&mut self, owner: &str, shared: bool) -> bool {
        let slicing = &mut self.slicing;
        let kept = slicing.kept.get_mut(owner).filter(|kept| kept.record.shared != shared);
        let Some(kept) = kept else { return false };
        kept.record.shared = shared;
        slicing.version += 1;
        true
    }

    /// False where there was none.
    pub(crate) fn end_slice(&mut self, owner: &str) -> bool {
        let Some(kept) = self.slicing.kept.remove(owner) else { return false };
        if let Ok(slices) = self.slicing.slices_mut() {
            slices.release(kept.job);
        }
        self.slices_changed(None);
        true
    }

    pub(crate) fn recall_slices(&mut self, records: Vec<SliceRecord>) {
        for record in records {
            let job = JobId(self.slicing.next);
            self.slicing.next += 1;
            self.slicing.kept.insert(record.owner.clone(), Kept { job, record, whole: false });
        }
        self.slicing.take_view(&self.fabric);
        self.stale = true;
        self.collectives.stale = true;
    }

    /// Where a slice would go, and nothing is set aside.
    ///
    /// # Errors
    /// Why there would be none.
    pub fn try_slice(&self, wanted: &SliceHosts) -> Result<SliceStatus, SliceError> {
        let mut slicing = self.slicing.clone();
        let job = JobId(slicing.next);
        let slices = slicing.slices_mut()?;
        allocate(slices, job, wanted, &self.fabric)?;
        let slice = slices.get(job).ok_or(SliceError::NoTrees)?;
        Ok(self.status_of("", wanted, true, slices, slice))
    }

    /// How many hosts belong to no slice.
    pub fn free_hosts(&self) -> Option<u32> {
        self.slicing.slices().map(Slices::free_hosts)
    }

    /// Every slice, by owner.
    pub fn slices(&self) -> Vec<SliceStatus> {
        let owners = self.slicing.kept.keys();
        owners.filter_map(|owner| self.slice(owner)).collect()
    }

    /// The slice of an owner.
    pub fn slice(&self, owner: &str) -> Option<SliceStatus> {
        let kept = self.slicing.kept.get(owner)?;
        let wanted = &kept.record.wanted;
        let Some(slices) = self.slicing.slices() else {
            return Some(SliceStatus {
                owner: owner.to_owned(),
                wanted: wanted.clone(),
                hosts: kept.record.hosts.clone(),
                pairs: Vec::new(),
                links: 0,
                whole: false,
                foreign: 0,
                shared: kept.record.shared,
            });
        };
        Some(self.status_of(owner, wanted, kept.whole, slices, slices.get(kept.job)?))
    }

    /// What has to be kept of an owner's slice.
    pub fn slice_record(&self, owner: &str) -> Option<&SliceRecord> {
        self.slicing.kept.get(owner).map(|kept| &kept.record)
    }

    /// Rises whenever a record of a slice may be another.
    pub const fn slices_version(&self) -> u64 {
        self.slicing.version
    }

    /// Who has slices.
    pub fn slice_owners(&self) -> impl Iterator<Item = &str> {
        self.slicing.kept.keys().map(String::as_str)
    }

    fn job(&self, owner: &str) -> Result<JobId, SliceError> {
        let kept = self.slicing.kept.get(owner);
        kept.map(|kept| kept.job).ok_or_else(|| SliceError::None(owner.to_owned()))
    }

    fn status_of(
        &self,
        owner: &str,
        wanted: &SliceHosts,
        whole: bool,
        slices: &Slices,
        slice: &Slice,
    ) -> SliceStatus {
        let names = &self.slicing.names;
        let pair = |(leaf, tree)| Some((*names.switch_of_leaf.get(&leaf)?, tree));
        SliceStatus {
            owner: owner.to_owned(),
            wanted: wanted.clone(),
            hosts: ports(&self.fabric, slice.hosts()),
            pairs: slices.pairs(slice).into_iter().filter_map(pair).collect(),
            links: slice.link_count(),
            whole,
            foreign: self.foreign(slices, slice),
            shared: self.slicing.kept.get(owner).is_some_and(|kept| kept.record.shared),
        }
    }

    /// Grants of others that stand on links of a slice, those being taken back included.
    fn foreign(&self, slices: &Slices, slice: &Slice) -> usize {
        let inside = |host: HostId| slice.hosts().binary_search(&host).is_ok();
        let is_foreign = |claim: &super::ledger::Claim| {
            let Some(way) = &claim.way else { return false };
            let source = self.fabric.host_of(claim.holder.port);
            let ends = source.zip(self.fabric.host_of(way.destination));
            ends.is_some_and(|ends| {
                let leaves = self.fabric.leaf(ends.0).zip(self.fabric.leaf(ends.1));
                let touches = leaves.is_some_and(|leaves| slices.touches(slice, leaves, way.tree));
                touches && !(inside(ends.0) && inside(ends.1))
            })
        };
        self.ledger.iter().filter(|(_, claim)| is_foreign(claim)).count()
    }

    /// Slices are others: with the next window every connection looks for its tree anew, and likes the one that
    /// it has. What was found and is not granted yet is not any more.
    fn slices_changed(&mut self, owner: Option<&str>) {
        if let Some(owner) = owner {
            self.slicing.write_down(owner, &self.fabric);
        }
        self.slicing.version += 1;
        self.stale = true;
        self.collectives.stale = true;
        self.forget_ways();
    }

    /// Ways that were found before a change are not given any more.
    pub(super) fn forget_ways(&mut self) {
        for slot in std::mem::take(&mut self.pending) {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.route = None;
            }
        }
    }
}
