//! How the baseline's SMPs find their way: directed as published, or by LID where that is a factor.
//!
//! Old tables stay in force until they are written anew. Where they lead over links that were found in this very
//! discovery, from the manager to a node and back, its address is used; nothing else is believed of them. A
//! discovery of the changed region only finds too few links for that: its own SMPs are directed.

use snin_fabric::{Guid, Lid};
use snin_mad::{DrPath, Mad, PERMISSIVE, Route};

use super::{Baseline, Factor, Output, Stage, What};

/// Nodes on the longest way.
const FARTHEST: usize = 64;

/// An SMP, and the address of the packet that it is in.
pub(super) struct Letter {
    pub(super) to: Lid,
    pub(super) mad: Mad,
}

impl Letter {
    pub(super) fn send(&self) -> Output {
        Output::Send(self.to, Box::new(self.mad.clone()))
    }
}

impl Baseline {
    /// The route of an SMP to the end of `path`, and the address of its packet.
    pub(super) fn way(&self, what: What, path: DrPath) -> (Route, Lid) {
        let directed = (Route::directed(path), PERMISSIVE);
        let (by_lid, mixed) = (self.has(Factor::Lid), self.has(Factor::Mixed));
        // A sweep is to find what the tables know nothing of; while tables are written, no address is sure; links
        // outside a region are believed until they are asked.
        let unsure = match self.stage {
            Stage::Tables => true,
            Stage::Discovery => self.has(Factor::Region),
            _ => matches!(what, What::Sweep(_) | What::Table(_)) || !self.unwritten.is_empty(),
        };
        if !by_lid && !mixed || unsure {
            return directed;
        }
        let nodes = self.along(path);
        let target = nodes.get(path.hops());
        if by_lid && let Some(lid) = target.and_then(|&target| self.reached(target)) {
            return (Route::Lid, lid);
        }
        let Some(own) = nodes.first().and_then(|own| self.settled.get(own)).copied() else {
            return directed;
        };
        let inner = 1..path.hops().min(nodes.len());
        for hops in inner.rev().filter(|_| mixed) {
            let rest = DrPath::new(&path.ports()[hops..]);
            if let (Some(lid), Some(rest)) = (self.reached(nodes[hops]), rest) {
                return (Route::lid_then_directed(own, rest), lid);
            }
        }
        directed
    }

    /// All is as it should be: what addresses are in force now.
    pub(super) fn settle(&mut self) {
        self.settled = self.nodes.iter().map(|(&guid, node)| (guid, node.lid)).collect();
    }

    /// The nodes on a path, the manager's own first, as far as they are known.
    fn along(&self, path: DrPath) -> Vec<Guid> {
        let mut nodes: Vec<Guid> = self.order.first().copied().into_iter().collect();
        for port in path.ports() {
            let next = nodes.last().and_then(|at| self.nodes.get(at)?.links.get(port));
            let Some(&next) = next else { break };
            nodes.push(next);
        }
        nodes
    }

    /// The address of a node, if the tables lead there and back over what was found.
    fn reached(&self, guid: Guid) -> Option<Lid> {
        let own = *self.order.first()?;
        let [lid, home] = [guid, own].map(|guid| self.settled.get(&guid).copied());
        let (lid, home) = (lid?, home?);
        let is_same = |lid: &Lid| [Lid::NONE, *lid].contains(&self.nodes[&guid].lid);
        let leads = |_: &Lid| self.leads(own, lid, guid) && self.leads(guid, home, own);
        self.nodes.contains_key(&guid).then_some(lid).filter(is_same).filter(leads)
    }

    fn leads(&self, from: Guid, lid: Lid, to: Guid) -> bool {
        let mut at = from;
        for _ in 0..FARTHEST {
            if at == to {
                return true;
            }
            let Some(node) = self.nodes.get(&at) else { return false };
            let port = match node.switch {
                true => self.held.get(&at).map(|table| table.get(lid).0),
                false => Some(node.own),
            };
            let Some(&next) = port.and_then(|port| node.links.get(&port)) else { return false };
            at = next;
        }
        false
    }
}
