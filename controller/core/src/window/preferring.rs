//! The addresses with which queries for paths are to be answered first.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, TreeId};
use snin_protocol::message::{PinnedPath, SliceMember};

use super::Core;

impl Core {
    /// Pairs of ports with a grant that never moves, in order.
    pub fn pinned_paths(&self) -> Vec<PinnedPath> {
        let path = |grant: super::GrantStatus| PinnedPath {
            source: grant.source,
            destination: grant.destination,
            dlid: grant.dlid,
        };
        let mut paths: Vec<PinnedPath> = self.pinned().map(path).collect();
        paths.sort_unstable();
        // Of two connections of one pair the one with the lower address.
        paths.dedup_by_key(|path| (path.source, path.destination));
        paths
    }

    /// The ports of every slice, and of each its address along the lowest tree that the slice has at all leaves
    /// with hosts of it. A slice without such a tree prefers nothing, nor does one whose hosts are not its owner's
    /// alone: other programs there would be answered by its addresses too.
    pub fn slice_members(&self) -> Vec<SliceMember> {
        let mut members = Vec::new();
        for (job, slice) in (1..).zip(self.slices()).filter(|(_, slice)| !slice.shared) {
            let mut trees: BTreeMap<Guid, BTreeSet<TreeId>> = BTreeMap::new();
            for &(leaf, tree) in &slice.pairs {
                trees.entry(leaf).or_default().insert(tree);
            }
            let common = trees.into_values().reduce(|a, b| &a & &b).unwrap_or_default();
            let Some(&tree) = common.first() else { continue };
            let view = &self.fabric.view;
            let member = |port: Guid| {
                let host = self.fabric.host(self.fabric.host_of(port)?)?;
                Some(SliceMember { port, job, dlid: view.dlid(host.port, tree)? })
            };
            members.extend(slice.hosts.iter().filter_map(|&port| member(port)));
        }
        members
    }
}
