//! Slices as the tests know them: who could ever use which link, and whether there is a slice at all.
//! Nothing here is taken from the allocator but its answers.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this one")]

use std::collections::{BTreeMap, BTreeSet};

use snin_controller_core::packing::{LeafId, Shape};
use snin_controller_core::slices::{JobId, Slices};
use snin_fabric::TreeId;
use snin_fabric::hosts::HostId;

/// A fabric: `pods` pods of `leaves` leaves of `hosts` hosts; `groups` groups of `cores` trees. Two stages
/// are one pod with one core a group.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub pods: usize,
    pub leaves: usize,
    pub hosts: usize,
    pub groups: usize,
    pub cores: usize,
    pub missing: BTreeSet<(usize, usize)>,
}

/// A directed link, of both directions alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Link {
    /// Leaf and group.
    Leaf(usize, usize),
    /// Pod and tree.
    Pod(usize, usize),
}

impl Fabric {
    pub fn new(pods: usize, leaves: usize, hosts: usize, groups: usize, cores: usize) -> Self {
        Self { pods, leaves, hosts, groups, cores, missing: BTreeSet::new() }
    }

    pub fn all_leaves(&self) -> usize {
        self.pods * self.leaves
    }

    pub fn all_hosts(&self) -> usize {
        self.all_leaves() * self.hosts
    }

    pub fn trees(&self) -> usize {
        self.groups * self.cores
    }

    pub fn pod(&self, leaf: usize) -> usize {
        leaf / self.leaves
    }

    pub fn leaf_of(&self, host: HostId) -> usize {
        host.index() / self.hosts
    }

    pub fn leaf_of_host(&self) -> Vec<LeafId> {
        (0..self.all_hosts()).map(|host| LeafId((host / self.hosts) as u32)).collect()
    }

    /// A packer's shape in which only `usable` (leaf, tree) pairs are.
    pub fn shape(&self, usable: impl Fn(usize, usize) -> bool) -> Shape {
        let mut shape = if self.pods == 1 {
            Shape::two_stage(self.leaves, self.trees())
        } else {
            let pods = (0..self.all_leaves()).map(|leaf| self.pod(leaf) as u32).collect();
            let groups = (0..self.trees()).map(|tree| (tree / self.cores) as u32).collect();
            Shape::three_stage(pods, groups)
        };
        for leaf in 0..self.all_leaves() {
            for tree in (0..self.trees()).filter(|&tree| !usable(leaf, tree)) {
                shape.set_unusable(LeafId(leaf as u32), TreeId(tree as u16));
            }
        }
        shape
    }

    pub fn is_cabled(&self, leaf: usize, tree: usize) -> bool {
        !self.missing.contains(&(leaf, tree))
    }
}

/// Leaf and tree.
pub type Pairs = BTreeSet<(usize, usize)>;

/// The links that the traffic of one job can come to.
pub fn reachable(fabric: &Fabric, pairs: &Pairs) -> BTreeSet<Link> {
    let mut links = BTreeSet::new();
    for &(from, tree) in pairs {
        for &(to, _) in pairs.iter().filter(|&&(to, other)| other == tree && to != from) {
            for leaf in [from, to] {
                links.insert(Link::Leaf(leaf, tree / fabric.cores));
                if fabric.pod(from) != fabric.pod(to) {
                    links.insert(Link::Pod(fabric.pod(leaf), tree));
                }
            }
        }
    }
    links
}

/// Every job's hosts and pairs, as the allocator tells them.
pub fn jobs(slices: &Slices) -> BTreeMap<JobId, (Vec<HostId>, Pairs)> {
    let job = |(id, slice)| {
        let pairs: Vec<(LeafId, TreeId)> = slices.pairs(slice);
        let pairs = pairs.into_iter().map(|(leaf, tree)| (leaf.index(), tree.index())).collect();
        (id, (slice.hosts().to_vec(), pairs))
    };
    slices.iter().map(job).collect()
}

/// No host has two jobs, no link either; pairs are cabled, and on leaves of the job. Returns owners.
pub fn owners(
    fabric: &Fabric,
    slices: &Slices,
) -> (BTreeMap<HostId, JobId>, BTreeMap<Link, JobId>) {
    let (mut hosts, mut links) = (BTreeMap::new(), BTreeMap::new());
    for (job, (own, pairs)) in jobs(slices) {
        for &host in &own {
            assert_eq!(hosts.insert(host, job), None, "{host} has two jobs");
        }
        let leaves: BTreeSet<usize> = own.iter().map(|&host| fabric.leaf_of(host)).collect();
        for &(leaf, tree) in &pairs {
            assert!(leaves.contains(&leaf) && fabric.is_cabled(leaf, tree), "{leaf}, {tree}");
        }
        let reachable = reachable(fabric, &pairs);
        let told = slices.get(job).unwrap().link_count();
        assert_eq!(told as usize, reachable.len(), "{job:?} has links that it cannot use");
        for link in reachable {
            let before = links.insert(link, job);
            assert_eq!(before, None, "{link:?} has two jobs");
        }
    }
    (hosts, links)
}

/// Is there a slice of `wanted` hosts? Tries every number of hosts of every leaf, every leaf to be left over,
/// every set of groups, and so on for pods and cores: the condition, word by word.
pub fn exists(fabric: &Fabric, slices: &Slices, wanted: usize) -> bool {
    let (hosts, links) = owners(fabric, slices);
    let mut free = vec![0; fabric.all_leaves()];
    for host in (0..fabric.all_hosts()).map(|host| HostId(host as u32)) {
        free[fabric.leaf_of(host)] += usize::from(!hosts.contains_key(&host));
    }
    let state = State { fabric, links };
    let mut counts = vec![0; fabric.all_leaves()];
    state.any_placement(&free, 0, wanted, &mut counts)
}

/// The same for hosts that are chosen already, given by how many each leaf has.
pub fn exists_on(fabric: &Fabric, slices: &Slices, counts: &[usize]) -> bool {
    let (_, links) = owners(fabric, slices);
    State { fabric, links }.fulfils(counts)
}

struct State<'a> {
    fabric: &'a Fabric,
    links: BTreeMap<Link, JobId>,
}

impl State<'_> {
    fn any_placement(
        &self,
        free: &[usize],
        leaf: usize,
        left: usize,
        counts: &mut Vec<usize>,
    ) -> bool {
        if left == 0 {
            return self.fulfils(counts);
        }
        if free[leaf..].iter().sum::<usize>() < left {
            return false;
        }
        (0..=free[leaf].min(left)).any(|count| {
            counts[leaf] = count;
            let found = self.any_placement(free, leaf + 1, left - count, counts);
            counts[leaf] = 0;
            found
        })
    }

    fn leaf_is_free(&self, leaf: usize, group: usize) -> bool {
        let trees = group * self.fabric.cores..(group + 1) * self.fabric.cores;
        let mut cabled = trees.filter(|&tree| self.fabric.is_cabled(leaf, tree));
        cabled.next().is_some() && !self.links.contains_key(&Link::Leaf(leaf, group))
    }

    fn pod_is_free(&self, pod: usize, tree: usize) -> bool {
        let group = tree / self.fabric.cores;
        let leaves = pod * self.fabric.leaves..(pod + 1) * self.fabric.leaves;
        let reaches = |&leaf: &usize| {
            let trees = group * self.fabric.cores..(group + 1) * self.fabric.cores;
            trees.into_iter().any(|tree| self.fabric.is_cabled(leaf, tree))
        };
        let cabled = leaves.filter(reaches).all(|leaf| self.fabric.is_cabled(leaf, tree));
        cabled && !self.links.contains_key(&Link::Pod(pod, tree))
    }

    fn fulfils(&self, counts: &[usize]) -> bool {
        let all: usize = counts.iter().sum();
        let leaves: Vec<usize> = (0..counts.len()).filter(|&leaf| counts[leaf] > 0).collect();
        if leaves.len() == 1 {
            return true;
        }
        let need = |leaf: usize| counts[leaf].min(all - counts[leaf]);
        let most = leaves.iter().map(|&leaf| need(leaf)).max().unwrap();
        leaves.iter().any(|&left_over| {
            subsets(self.fabric.groups, most).any(|set| {
                let all_but_one = leaves.iter().filter(|&&leaf| leaf != left_over);
                let mut links = all_but_one.flat_map(|&leaf| set.iter().map(move |&g| (leaf, g)));
                links.all(|(leaf, group)| self.leaf_is_free(leaf, group))
                    && subsets(self.fabric.groups, need(left_over)).any(|part| {
                        part.iter().all(|g| set.contains(g) && self.leaf_is_free(left_over, *g))
                            && set.iter().all(|&group| {
                                let has =
                                    |&leaf: &usize| leaf != left_over || part.contains(&group);
                                let leaves = leaves.iter().copied().filter(has);
                                self.has_cores(group, &leaves.collect::<Vec<_>>())
                            })
                    })
            })
        })
    }

    fn has_cores(&self, group: usize, leaves: &[usize]) -> bool {
        let mut count = vec![0; self.fabric.pods];
        leaves.iter().for_each(|&leaf| count[self.fabric.pod(leaf)] += 1);
        let need = |pod: usize| count[pod].min(leaves.len() - count[pod]);
        let pods: Vec<usize> = (0..count.len()).filter(|&pod| need(pod) > 0).collect();
        let Some(most) = pods.iter().map(|&pod| need(pod)).max() else {
            return true;
        };
        let free =
            |pod: usize, core: usize| self.pod_is_free(pod, group * self.fabric.cores + core);
        pods.iter().any(|&left_over| {
            subsets(self.fabric.cores, most).any(|set| {
                let others = pods.iter().filter(|&&pod| pod != left_over);
                let mut links = others.flat_map(|&pod| set.iter().map(move |&core| (pod, core)));
                let part = set.iter().filter(|&&core| free(left_over, core)).count();
                links.all(|(pod, core)| free(pod, core)) && part >= need(left_over)
            })
        })
    }
}

/// Every set of `size` of the numbers below `end`.
pub fn subsets(end: usize, size: usize) -> impl Iterator<Item = BTreeSet<usize>> {
    let set = move |bits: u32| (0..end).filter(|place| bits >> place & 1 != 0).collect();
    (0..1u32 << end).filter(move |bits| bits.count_ones() as usize == size).map(set)
}
