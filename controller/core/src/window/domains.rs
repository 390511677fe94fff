//! Who packs what: a packer for each slice, on the slice's links alone, and one for everything else on what is
//! left. No link is in two of them, so none of them has to know of another.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::TreeId;
use snin_fabric::hosts::HostId;

use super::fabric::Fabric;
use crate::owners::{self, Granted, Untrue};
use crate::packing::{
    Certificate, ConnectionId, Deferral, LeafId, Packer, Refusal, Request, SetId, Shape,
};
use crate::slices::{JobId, Slice, Slices};

/// `None`: outside of all slices.
pub(super) type DomainId = Option<JobId>;

/// A connection by its slot, its ends, and the tree that it was given.
pub(super) type Placed = (u32, (HostId, HostId), TreeId);

/// What one domain's packer is to do in a window, by slots.
#[derive(Clone, Default, Debug)]
pub(super) struct Work {
    pub(super) removals: Vec<u32>,
    pub(super) insertions: Vec<Wanted>,
}

/// A connection that looks for a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) slot: u32,
    pub(super) ends: (HostId, HostId),
    pub(super) pinned: bool,
    pub(super) tree: Option<TreeId>,
}

/// What came of it, by slots.
#[derive(Clone, Default, Debug)]
pub(super) struct Done {
    pub(super) granted: Vec<u32>,
    pub(super) deferred: Vec<(u32, Deferral)>,
    pub(super) refused: Vec<(u32, Refusal)>,
}

/// See the module's documentation.
#[derive(Clone, Default, Debug)]
pub(super) struct Domains {
    outside: Option<Domain>,
    of_slice: BTreeMap<JobId, Domain>,
}

impl Domains {
    /// Empty packers for a fabric beside its slices. They are made anew with each view and each change of slices.
    pub(super) fn new(fabric: &Fabric, slices: Option<&Slices>) -> Self {
        let Some(shape) = fabric.shape() else { return Self::default() };
        let mut outside = shape.clone();
        if let Some(slices) = slices {
            slices.reserve(&mut outside);
        }
        Self { outside: Some(Domain::new(outside, None)), of_slice: BTreeMap::new() }
    }

    /// A slice's packer is made for the first connection inside: jobs whose programs ask for no grants need none.
    fn make(
        &mut self,
        id: DomainId,
        fabric: &Fabric,
        slices: Option<&Slices>,
    ) -> Option<&mut Domain> {
        let Some(job) = id else { return self.outside.as_mut() };
        if let Entry::Vacant(place) = self.of_slice.entry(job) {
            let slices = slices?;
            place.insert(Domain::of(fabric, fabric.shape()?, slices, slices.get(job)?)?);
        }
        self.of_slice.get_mut(&job)
    }

    fn get(&self, id: DomainId) -> Option<&Domain> {
        match id {
            None => self.outside.as_ref(),
            Some(job) => self.of_slice.get(&job),
        }
    }

    /// Removals first, then what is new. What has no domain is deferred.
    pub(super) fn apply(
        &mut self,
        id: DomainId,
        work: &Work,
        fabric: &Fabric,
        slices: Option<&Slices>,
    ) -> Done {
        match self.make(id, fabric, slices) {
            Some(domain) => domain.apply(work, fabric),
            None => {
                let deferred = |wanted: &Wanted| (wanted.slot, Deferral::NoTreeFreed);
                let deferred = work.insertions.iter().map(deferred).collect();
                Done { deferred, ..Done::default() }
            }
        }
    }

    /// Trees for these connections inside a slice, such that no two of them have one directed link. Those that
    /// need none or find none are left out; where no host has two in one direction all others find one.
    pub(super) fn inside(
        fabric: &Fabric,
        slices: &Slices,
        slice: &Slice,
        connections: &[(HostId, HostId)],
    ) -> Vec<((HostId, HostId), TreeId)> {
        let domain = fabric.shape().and_then(|shape| Domain::of(fabric, shape, slices, slice));
        let Some(mut domain) = domain else { return Vec::new() };
        // Those that came first may move for those that follow: nothing is sent yet.
        let wanted = |(slot, &ends)| Wanted { slot, ends, pinned: false, tree: None };
        let between = connections.iter().filter(|&&ends| !fabric.on_one_leaf(ends));
        let insertions: Vec<Wanted> = (0..).zip(between).map(wanted).collect();
        let work = Work { removals: Vec::new(), insertions };
        domain.apply(&work, fabric);
        let given = |wanted: &Wanted| {
            let number = domain.numbers.get(wanted.slot)?;
            Some((wanted.ends, domain.packer.tree_of(number)?))
        };
        work.insertions.iter().filter_map(given).collect()
    }

    /// The links of a leaf in one direction that no slice has.
    pub(super) fn outside_capacity(&self, leaf: LeafId) -> usize {
        self.outside.as_ref().map_or(0, |domain| domain.packer.shape().capacity(leaf))
    }

    pub(super) fn tree_of(&self, id: DomainId, slot: u32) -> Option<TreeId> {
        let domain = self.get(id)?;
        domain.packer.tree_of(domain.numbers.get(slot)?)
    }

    /// Has every packer's certificate judged by the trees that connections were given.
    pub(super) fn check(
        &mut self,
        granted: &BTreeMap<DomainId, Vec<Placed>>,
        fabric: &Fabric,
    ) -> Result<(), Untrue> {
        let outside = self.outside.iter_mut().map(|domain| (None, domain));
        let slices = self.of_slice.iter_mut().map(|(&job, domain)| (Some(job), domain));
        for (id, domain) in outside.chain(slices) {
            domain.packer.certify(&mut domain.certificate);
            let own = granted.get(&id).into_iter().flatten();
            let own = own.filter_map(|&(slot, (source, destination), tree)| {
                let id = domain.numbers.get(slot)?;
                let source = domain.leaf(fabric, source)?;
                Some(Granted { id, source, destination: domain.leaf(fabric, destination)?, tree })
            });
            owners::check(domain.packer.shape(), own, &domain.certificate)?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Domain {
    packer: Packer,
    /// Whose the links are by the packer's account, as of the window decided last.
    certificate: Certificate,
    numbers: Numbers,
    /// Of a slice: its leaves, which alone its packer knows, and the trees that each host has addresses on.
    leaves: Option<BTreeMap<LeafId, LeafId>>,
    addressed: BTreeMap<HostId, SetId>,
}

impl Domain {
    fn new(shape: Shape, leaves: Option<BTreeMap<LeafId, LeafId>>) -> Self {
        Self {
            packer: Packer::new(shape),
            certificate: Certificate::default(),
            numbers: if leaves.is_some() { Numbers::Own(Own::default()) } else { Numbers::Slots },
            leaves,
            addressed: BTreeMap::new(),
        }
    }

    /// A slice's. `None` where its hosts are on one leaf: then no link between switches is theirs.
    fn of(fabric: &Fabric, whole: &Shape, slices: &Slices, slice: &Slice) -> Option<Self> {
        let pairs: BTreeSet<(LeafId, TreeId)> = slices.pairs(slice).into_iter().collect();
        let of_host = slice.hosts().iter().filter_map(|&host| fabric.leaf(host));
        let leaves: BTreeSet<LeafId> = of_host.collect();
        if leaves.len() < 2 {
            return None;
        }
        let leaves: BTreeMap<LeafId, LeafId> = leaves.into_iter().zip((0..).map(LeafId)).collect();
        let mut shape = if whole.is_three_stage() {
            let mut pods = BTreeMap::new();
            let pod = |&leaf: &LeafId| {
                let next = pods.len() as u32;
                *pods.entry(whole.pod_of(leaf)).or_insert(next)
            };
            Shape::three_stage(leaves.keys().map(pod).collect(), whole.tree_groups().to_vec())
        } else {
            Shape::two_stage(leaves.len(), whole.trees())
        };
        for (&leaf, &own) in &leaves {
            for tree in (0..whole.trees() as u16).map(TreeId) {
                if !pairs.contains(&(leaf, tree)) {
                    shape.set_unusable(own, tree);
                }
            }
        }
        // On tables that were found every pair has every tree of a slice.
        let own = slice.hosts().iter().filter(|_| !fabric.is_found());
        let set = |&host: &HostId| Some((host, fabric.addressed((host, host))?));
        let sets: Vec<(HostId, SetId)> = own.filter_map(set).collect();
        let addressed = sets
            .into_iter()
            .map(|(host, set)| (host, shape.add_set(whole.trees_of(set))))
            .collect();
        Some(Self { addressed, ..Self::new(shape, Some(leaves)) })
    }

    fn leaf(&self, fabric: &Fabric, host: HostId) -> Option<LeafId> {
        let leaf = fabric.leaf(host)?;
        match &self.leaves {
            Some(leaves) => leaves.get(&leaf).copied(),
            None => Some(leaf),
        }
    }

    fn request(&mut self, wanted: &Wanted, fabric: &Fabric) -> Option<Request> {
        let (source, destination) = wanted.ends;
        let addressed = match &self.leaves {
            Some(_) => self.addressed.get(&destination).copied(),
            None => fabric.addressed(wanted.ends),
        };
        let (from, to) = (self.leaf(fabric, source)?, self.leaf(fabric, destination)?);
        Some(Request {
            id: self.numbers.take(wanted.slot),
            source: from,
            destination: to,
            allowed: addressed.unwrap_or(SetId::ALL),
            pinned: wanted.pinned,
            tree: wanted.tree,
        })
    }

    fn apply(&mut self, work: &Work, fabric: &Fabric) -> Done {
        let removals = work.removals.iter().filter_map(|&slot| self.numbers.get(slot));
        let removals: Vec<ConnectionId> = removals.collect();
        let insertions = work.insertions.iter().filter_map(|wanted| self.request(wanted, fabric));
        let insertions: Vec<Request> = insertions.collect();
        let outcome = self.packer.apply(&removals, &insertions);
        let slot = |id: ConnectionId| self.numbers.slot(id);
        let waits = outcome.deferred.iter().chain(&outcome.evicted);
        let done = Done {
            granted: outcome.granted.iter().map(|&(id, _)| slot(id)).collect(),
            deferred: waits.map(|&(id, why)| (slot(id), why)).collect(),
            refused: outcome.refused.iter().map(|&(id, why)| (slot(id), why)).collect(),
        };
        // What is not packed has no number.
        let unpacked = done.deferred.iter().map(|&(slot, _)| slot);
        let unpacked = unpacked.chain(done.refused.iter().map(|&(slot, _)| slot));
        unpacked.chain(work.removals.iter().copied()).for_each(|slot| {
            if self.numbers.get(slot).is_some_and(|id| self.packer.tree_of(id).is_none()) {
                self.numbers.give_back(slot);
            }
        });
        done
    }
}

/// A packer's numbers of connections. Its tables are as long as the greatest one, so a slice's has its own.
#[derive(Clone, Debug)]
enum Numbers {
    Slots,
    Own(Own),
}

/// An entry goes when its connection is no longer packed.
#[derive(Clone, Default, Debug)]
struct Own {
    of_slot: BTreeMap<u32, u32>,
    slots: Vec<u32>,
    free: Vec<u32>,
}

impl Numbers {
    fn get(&self, slot: u32) -> Option<ConnectionId> {
        match self {
            Self::Slots => Some(ConnectionId(slot)),
            Self::Own(own) => own.of_slot.get(&slot).copied().map(ConnectionId),
        }
    }

    fn slot(&self, id: ConnectionId) -> u32 {
        match self {
            Self::Slots => id.0,
            Self::Own(own) => own.slots[id.index()],
        }
    }

    fn take(&mut self, slot: u32) -> ConnectionId {
        let Self::Own(own) = self else { return ConnectionId(slot) };
        if let Some(&number) = own.of_slot.get(&slot) {
            return ConnectionId(number);
        }
        let number = own.free.pop().unwrap_or_else(|| {
            own.slots.push(slot);
            own.slots.len() as u32 - 1
        });
        own.slots[number as usize] = slot;
        own.of_slot.insert(slot, number);
        ConnectionId(number)
    }

    fn give_back(&mut self, slot: u32) {
        if let Self::Own(own) = self
            && let Some(number) = own.of_slot.remove(&slot)
        {
            own.free.push(number);
        }
    }
}
