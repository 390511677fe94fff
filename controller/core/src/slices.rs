//! Slices: links set aside for a job, so that programs without grants never share one with another job's.
//!
//! A slice is hosts, and (leaf, tree) pairs: the links that lead from the hosts' leaves to trees. As many
//! as make any traffic inside the job fit (the condition and its proof are in `slices/condition.rs`),
//! and as few as its hosts on each leaf need. Where nothing else is said the allocator chooses the
//! hosts; a job on one leaf needs no links at all. With three stages a leaf's link leads to a group of
//! trees, and a pod's links from the group to its cores are set aside besides.
//!
//! Connections go beside slices: what is set aside is [unusable](Slices::reserve) to the packer.

mod assign;
mod condition;
mod exhaust;
mod jobs;
mod layout;
mod named;
mod replay;
mod resize;
mod search;
mod sharing;

use std::cell::Cell;
use std::collections::BTreeMap;

use snin_fabric::TreeId;
use snin_fabric::hosts::HostId;

use crate::packing::{LeafId, Shape};

pub use named::SliceLinks;

pub use jobs::{Job, JobsError, MAX_JOBS, MEAN_HOSTS, generate, parse};
pub use replay::{Replay, Room, Start, replay};

use assign::{Assignment, assign};
use condition::members;
use exhaust::Exhausted;
use layout::{Layout, Links};
use search::View;

/// A job's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u64);

/// Why a fabric cannot be sliced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsuitable {
    /// Sets of trees are 128 bits.
    #[error("{0} trees, groups or cores of a group side by side, but at most 128 are possible")]
    Width(usize),
    /// The fabric has no such leaf.
    #[error("host {host} is on leaf {leaf}, which is not there")]
    Leaf {
        /// The host.
        host: HostId,
        /// Its leaf.
        leaf: u32,
    },
}

/// Why a job gets no slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Refusal {
    /// The number has a slice.
    #[error("the job has a slice already")]
    Known,
    /// The number has none.
    #[error("the job has no slice")]
    NoSlice,
    /// Nothing asked for.
    #[error("a job has at least one host")]
    NoHost,
    /// More hosts than are free.
    #[error("{wanted} hosts wanted, but {free} are free")]
    TooFewHosts {
        /// As many as the job wants.
        wanted: u32,
        /// As many as belong to no job.
        free: u32,
    },
    /// The host is not there.
    #[error("there is no host {0}")]
    UnknownHost(HostId),
    /// The host was named before, or belongs to another job.
    #[error("host {0} is taken")]
    HostTaken(HostId),
    /// Hosts enough, but no choice of them has the links: everything was tried.
    #[error("enough hosts are free, but the trees that their leaves have in common are not")]
    NoLinks,
    /// Hosts enough, but no links were found; not everything could be tried.
    #[error("enough hosts are free, but no trees in common were found in the time that there is")]
    NotFound,
}

/// What belongs to a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    hosts: Vec<HostId>,
    links: Assignment,
}

impl Slice {
    /// Its hosts, in order.
    pub fn hosts(&self) -> &[HostId] {
        &self.hosts
    }

    /// How many links it has in each direction, those of hosts left out.
    pub fn link_count(&self) -> u32 {
        let leaf = self.links.leaf.iter().map(|(_, groups)| groups.count_ones());
        let pod = self.links.pod.iter().map(|(_, _, cores)| cores.count_ones());
        leaf.chain(pod).sum()
    }
}

/// How much a search may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Sets of links looked at for one job.
    pub work: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { work: 1 << 13 }
    }
}

/// The slices of a fabric.
#[derive(Clone, Debug)]
pub struct Slices {
    layout: Layout,
    links: Links,
    /// Free hosts, by leaf, and whose each host is.
    free: Vec<u32>,
    job_of_host: Vec<Option<JobId>>,
    slices: BTreeMap<JobId, Slice>,
    limits: Limits,
}

impl Slices {
    /// No slice yet. `leaf_of_host` has an entry a host.
    ///
    /// # Errors
    /// Where the fabric is too wide, or a host is on no leaf.
    pub fn new(shape: &Shape, leaf_of_host: &[LeafId], limits: Limits) -> Result<Self, Unsuitable> {
        let layout = Layout::new(shape, leaf_of_host)?;
        let links = Links::new(&layout);
        let free = layout.hosts_of_leaf.iter().map(|hosts| hosts.len() as u32).collect();
        let job_of_host = vec![None; leaf_of_host.len()];
        Ok(Self { layout, links, free, job_of_host, slices: BTreeMap::new(), limits })
    }

    /// How many hosts there are.
    pub const fn hosts(&self) -> usize {
        self.job_of_host.len()
    }

    /// The job that a host belongs to.
    pub fn job_of(&self, host: HostId) -> Option<JobId> {
        *self.job_of_host.get(host.index())?
    }

    /// How many hosts belong to no job.
    pub fn free_hosts(&self) -> u32 {
        self.free.iter().sum()
    }

    /// The slice of a job.
    pub fn get(&self, job: JobId) -> Option<&Slice> {
        self.slices.get(&job)
    }

    /// Every job and its slice.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Slice)> {
        self.slices.iter().map(|(&job, slice)| (job, slice))
    }

    /// Sets a slice aside for a job of `hosts` hosts, wherever there is room.
    ///
    /// # Errors
    /// Where there is none. Nothing changes then.
    pub fn allocate(&mut self, job: JobId, hosts: u32) -> Result<&Slice, Refusal> {
        let free = self.free_hosts();
        if self.slices.contains_key(&job) {
            return Err(Refusal::Known);
        } else if hosts == 0 {
            return Err(Refusal::NoHost);
        } else if hosts > free {
            return Err(Refusal::TooFewHosts { wanted: hosts, free });
        }
        let work = Cell::new(self.limits.work);
        let view = View { layout: &self.layout, links: &self.links, free: &self.free, work };
        let found = match view.search(hosts) {
            Some(found) => Exhausted::Found(found),
            None => view.exhaust(hosts),
        };
        match found {
            Exhausted::Found((placement, links)) => {
                let of_leaf = |&(leaf, count): &(u32, u32)| {
                    let hosts = self.layout.hosts_of_leaf[leaf as usize].iter().copied();
                    let free = hosts.filter(|host| self.job_of_host[host.index()].is_none());
                    free.take(count as usize).collect::<Vec<_>>()
                };
                let hosts = placement.iter().flat_map(of_leaf).collect();
                Ok(self.set_aside(job, hosts, links))
            }
            Exhausted::Nothing => Err(Refusal::NoLinks),
            Exhausted::Limit => Err(Refusal::NotFound),
        }
    }

    /// Sets a slice aside for a job on hosts that were chosen elsewhere.
    ///
    /// # Errors
    /// Where a host is not free, or their leaves have not the links. Nothing changes then.
    pub fn allocate_on(&mut self, job: JobId, hosts: &[HostId]) -> Result<&Slice, Refusal> {
        if self.slices.contains_key(&job) {
            return Err(Refusal::Known);
        } else if hosts.is_empty() {
            return Err(Refusal::NoHost);
        }
        let mut sorted = hosts.to_vec();
        sorted.sort_unstable();
        let mut of_leaf: BTreeMap<u32, u32> = BTreeMap::new();
        for (place, &host) in sorted.iter().enumerate() {
            let of = *self.job_of_host.get(host.index()).ok_or(Refusal::UnknownHost(host))?;
            if of.is_some() || (place > 0 && sorted[place - 1] == host) {
                return Err(Refusal::HostTaken(host));
            }
            *of_leaf.entry(self.layout.leaf_of_host[host.index()]).or_default() += 1;
        }
        let placement: Vec<(u32, u32)> = of_leaf.into_iter().collect();
        let links = assign(&self.layout, &self.links, &placement).ok_or(Refusal::NoLinks)?;
        Ok(self.set_aside(job, sorted, links))
    }

    fn set_aside(&mut self, job: JobId, mut hosts: Vec<HostId>, links: Assignment) -> &Slice {
        hosts.sort_unstable();
        let slice = Slice { hosts, links };
        self.toggle(job, &slice, false);
        self.slices.entry(job).or_insert(slice)
    }

    /// Gives hosts and links of a job back; false when it has none.
    pub fn release(&mut self, job: JobId) -> bool {
        let slice = self.slices.remove(&job);
        if let Some(slice) = &slice {
            self.toggle(job, slice, true);
        }
        slice.is_some()
    }

    fn toggle(&mut self, job: JobId, slice: &Slice, free: bool) {
        for host in &slice.hosts {
            self.job_of_host[host.index()] = (!free).then_some(job);
            let count = &mut self.free[self.layout.leaf_of_host[host.index()] as usize];
            *count = if free { *count + 1 } else { *count - 1 };
        }
        slice.links.leaf.iter().for_each(|&(leaf, set)| self.links.toggle_leaf(leaf, set));
        slice
            .links
            .pod
            .iter()
            .for_each(|&(pod, group, set)| self.links.toggle_pod(pod, group, set));
    }

    /// The (leaf, tree) pairs that a job's programs may use: the leaf's link belongs to the job, and the
    /// pod's link too, where any of the job's connections on that group leaves a pod.
    pub fn pairs(&self, slice: &Slice) -> Vec<(LeafId, TreeId)> {
        let mut pairs = Vec::new();
        for &(leaf, groups) in &slice.links.leaf {
            let pod = self.layout.pod_of_leaf[leaf as usize];
            for group in members(groups) {
                let cores = slice.links.pod.iter().find(|&&(p, g, _)| (p, g) == (pod, group));
                let cores = cores.map_or(condition::Set::MAX, |&(_, _, cores)| cores);
                for (place, &tree) in self.layout.trees_of_group[group].iter().enumerate() {
                    let usable = self.layout.is_usable(leaf, tree);
                    if usable && cores >> place & 1 != 0 {
                        pairs.push((LeafId(leaf), tree));
                    }
                }
            }
        }
        pairs
    }

    /// The (leaf, tree) pairs that connections outside of slices must not use: some link on the way belongs
    /// to a job.
    pub fn taken_pairs(&self) -> Vec<(LeafId, TreeId)> {
        let mut pairs = Vec::new();
        self.each_taken(|leaf, tree| pairs.push((leaf, tree)));
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Calls for every such pair, for some of them more than once.
    fn each_taken(&self, mut call: impl FnMut(LeafId, TreeId)) {
        for slice in self.slices.values() {
            for &(leaf, groups) in &slice.links.leaf {
                let trees = members(groups).flat_map(|group| &self.layout.trees_of_group[group]);
                trees.for_each(|&tree| call(LeafId(leaf), tree));
            }
            for &(pod, group, cores) in &slice.links.pod {
                for &leaf in &self.layout.leaves_of_pod[pod as usize] {
                    let trees =
                        members(cores).map(|place| self.layout.trees_of_group[group][place]);
                    trees.for_each(|tree| call(LeafId(leaf), tree));
                }
            }
        }
    }

    /// Takes everything set aside out of a packer's fabric, so that connections go beside slices.
    pub fn reserve(&self, shape: &mut Shape) {
        self.each_taken(|leaf, tree| shape.set_unusable(leaf, tree));
    }
}
