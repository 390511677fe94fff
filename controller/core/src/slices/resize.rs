//! A job that wants more hosts or fewer: it keeps those it has, and its links where these are enough.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use snin_fabric::hosts::HostId;

use super::{JobId, Refusal, Slice, Slices};

impl Slices {
    /// Gives a job another number of hosts. It keeps what it has as far as it can.
    ///
    /// # Errors
    /// Where it has no slice, or there is no room. Nothing changes then.
    pub fn resize(&mut self, job: JobId, hosts: u32) -> Result<&Slice, Refusal> {
        let slice = self.slices.get(&job).ok_or(Refusal::NoSlice)?;
        let had = slice.hosts.clone();
        let free = self.free_hosts();
        if hosts == 0 {
            return Err(Refusal::NoHost);
        } else if hosts as usize > had.len() + free as usize {
            return Err(Refusal::TooFewHosts { wanted: hosts, free: free + had.len() as u32 });
        }
        let wanted = hosts as usize;
        let choices = if wanted <= had.len() {
            vec![self.fewer(&had, wanted)]
        } else {
            self.more(&had, wanted)
        };
        for choice in choices {
            if self.replace(job, &choice).is_ok() {
                return self.slices.get(&job).ok_or(Refusal::NoSlice);
            }
        }
        Err(Refusal::NoLinks)
    }

    /// Gives a job other hosts.
    ///
    /// # Errors
    /// Where it has no slice, a host is not free, or their leaves have not the links. Nothing changes then.
    pub fn replace(&mut self, job: JobId, hosts: &[HostId]) -> Result<&Slice, Refusal> {
        let before = self.slices.get(&job).ok_or(Refusal::NoSlice)?.clone();
        self.release(job);
        if let Err(refusal) = self.allocate_on(job, hosts) {
            self.toggle(job, &before, false);
            self.slices.insert(job, before);
            return Err(refusal);
        }
        self.slices.get(&job).ok_or(Refusal::NoSlice)
    }

    /// Those of the leaves that have most of them.
    fn fewer(&self, had: &[HostId], wanted: usize) -> Vec<HostId> {
        let mut of_leaf: BTreeMap<u32, Vec<HostId>> = BTreeMap::new();
        for &host in had {
            of_leaf.entry(self.layout.leaf_of_host[host.index()]).or_default().push(host);
        }
        let mut leaves: Vec<Vec<HostId>> = of_leaf.into_values().collect();
        leaves.sort_by_key(|hosts| Reverse(hosts.len()));
        leaves.into_iter().flatten().take(wanted).collect()
    }

    /// Free hosts beside those it has: of its own leaves first, then of others, each of these first once.
    fn more(&self, had: &[HostId], wanted: usize) -> Vec<Vec<HostId>> {
        let leaf_of = |host: HostId| self.layout.leaf_of_host[host.index()];
        let own = |leaf: u32| had.iter().any(|&host| leaf_of(host) == leaf);
        let pod = |leaf: u32| self.layout.pod_of_leaf[leaf as usize];
        let near = |leaf: u32| had.iter().any(|&host| pod(leaf_of(host)) == pod(leaf));
        let mut leaves: Vec<u32> = (0..self.free.len() as u32).collect();
        leaves.retain(|&leaf| self.free[leaf as usize] > 0);
        leaves.sort_by_key(|&leaf| (!own(leaf), !near(leaf), Reverse(self.free[leaf as usize])));
        let owned = leaves.iter().take_while(|&&leaf| own(leaf)).count();
        let turns = (leaves.len() - owned).max(1);
        let choice = |turn: usize| {
            let mut order = leaves.clone();
            let others = &mut order[owned..];
            others.rotate_left(turn.min(others.len()));
            let free = order.iter().flat_map(|&leaf| &self.layout.hosts_of_leaf[leaf as usize]);
            let free = free.copied().filter(|host| self.job_of_host[host.index()].is_none());
            had.iter().copied().chain(free).take(wanted).collect()
        };
        (0..turns).map(choice).collect()
    }
}
