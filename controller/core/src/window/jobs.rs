//! What the nodes of a job need to know of its slice.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::hosts::HostId;
use snin_fabric::job::{JobHost, JobTrees};
use snin_fabric::{Guid, Lid, TreeId};

use super::Core;
use super::domains::Domains;
use crate::orders::SliceStatus;

impl Core {
    /// The trees of an owner's slice, for the programs of one user, or of every user: the trees of each leaf, the
    /// addresses of each host, and the trees of pinned grants between two of them. Each of `pairs`, from one port
    /// to another, has a tree along which no other of them shares a link. `None` where there is no slice.
    pub fn job_trees(
        &self,
        owner: &str,
        user: Option<u32>,
        pairs: &[(Guid, Guid)],
    ) -> Option<JobTrees> {
        let slice = self.slice(owner)?;
        let hosts = self.job_hosts(&slice.hosts.iter().copied().collect());
        let base: BTreeMap<Guid, Lid> = hosts.iter().map(|host| (host.port, host.lids.0)).collect();
        let trees = JobTrees::new(owner, user, &slice.pairs, hosts);
        let mut trees = trees.with_sl(self.fabric.view.granted_sl());
        self.lead(&mut trees, &slice);
        if let Some(plan) = self.collective_plan(owner) {
            trees = trees.with_collective(&plan.0);
            for (from, tree) in &plan.1 {
                for (to, _) in plan.1.iter().filter(|(to, _)| to != from) {
                    if let Some((&from, &to)) = base.get(from).zip(base.get(to)) {
                        // Both are hosts of the job.
                        let _ = trees.pin(from, to, *tree);
                    }
                }
            }
        }
        let pinned = self.pinned().map(|grant| (grant.source, grant.destination, grant.tree));
        for (from, to, tree) in self.pins_inside(owner, pairs).into_iter().chain(pinned) {
            if let Some((&from, &to)) = base.get(&from).zip(base.get(&to)) {
                // Both hosts belong to the job, so the pair can be pinned.
                let _ = trees.pin(from, to, tree);
            }
        }
        Some(trees)
    }

    /// On tables of another manager: the addresses of each host along the trees of the slice, leaf by leaf.
    fn lead(&self, trees: &mut JobTrees, slice: &SliceStatus) {
        if !self.fabric.is_found() {
            return;
        }
        let pairs: BTreeSet<(Guid, TreeId)> = slice.pairs.iter().copied().collect();
        let count = self.fabric.view.routing().forest.len() as u16;
        let hosts = slice.hosts.iter().filter_map(|&port| self.fabric.host_of(port));
        let hosts: Vec<HostId> = hosts.collect();
        let mut senders: BTreeMap<Guid, HostId> = BTreeMap::new();
        for &host in &hosts {
            let switch = self.fabric.host(host).map(|host| host.switch);
            let leaf = switch.map(|switch| self.fabric.view.topology().node(switch).guid);
            senders.extend(leaf.map(|leaf| (leaf, host)));
        }
        for (&leaf, &sender) in &senders {
            for &host in hosts.iter().filter(|&&host| !self.fabric.on_one_leaf((sender, host))) {
                let own = (0..count).map(TreeId).filter(|&tree| pairs.contains(&(leaf, tree)));
                let along: BTreeMap<TreeId, Lid> = own
                    .filter_map(|tree| Some((tree, self.fabric.address((sender, host), tree)?.0)))
                    .collect();
                let to = self.fabric.host(host).map(|host| host.port);
                if let Some(base) = to.and_then(|port| self.fabric.view.addresses().base(port)) {
                    // Every host of the slice is one of the job's.
                    let _ = trees.lead(leaf, base, along);
                }
            }
        }
    }

    /// Trees for pairs of ports inside an owner's slice.
    fn pins_inside(&self, owner: &str, pairs: &[(Guid, Guid)]) -> Vec<(Guid, Guid, TreeId)> {
        let port_of: BTreeMap<HostId, Guid> = pairs
            .iter()
            .flat_map(|&(from, to)| [from, to])
            .filter_map(|port| Some((self.fabric.host_of(port)?, port)))
            .collect();
        let ends = |&(from, to): &(Guid, Guid)| {
            Some((self.fabric.host_of(from)?, self.fabric.host_of(to)?))
        };
        let connections: Vec<(HostId, HostId)> = pairs.iter().filter_map(ends).collect();
        let Some((slices, slice)) = self.slicing.find(owner).filter(|_| !connections.is_empty())
        else {
            return Vec::new();
        };
        let given = Domains::inside(&self.fabric, slices, slice, &connections).into_iter();
        given.map(|((from, to), tree)| (port_of[&from], port_of[&to], tree)).collect()
    }

    fn job_hosts(&self, ports: &BTreeSet<Guid>) -> Vec<JobHost> {
        let view = &self.fabric.view;
        let (topology, addresses) = (view.topology(), view.addresses());
        let count = view.routing().forest.len() as u16;
        let job_host = |&guid: &Guid| {
            let host = self.fabric.host(self.fabric.host_of(guid)?)?;
            let port = topology.port(host.port);
            let first = addresses.base(host.port)?;
            let last = Lid(first.0 + (addresses.lmc(host.port).addresses() - 1) as u16);
            let along = (0..count).map(TreeId);
            let along: BTreeMap<TreeId, Lid> =
                along.filter_map(|tree| Some((tree, view.dlid(host.port, tree)?.0))).collect();
            Some(JobHost {
                name: topology.node(port.node).name.to_string(),
                port: port.guid,
                leaf: topology.node(host.switch).guid,
                lids: (first, last),
                along,
            })
        };
        ports.iter().filter_map(job_host).collect()
    }
}
