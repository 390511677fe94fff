//! Views and what changes with them. What a new view takes away stops at once; new ways come with the
//! next window.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_protocol::Time;
use snin_protocol::message::{ViewChange, ViewClear};

use super::Core;
use super::connections::Connection;
use super::fabric::{Fabric, LinkId};
use super::ledger::{Claim, ClaimId};
use crate::config::Policy;
use crate::events::Output;
use snin_fabric::view::View;

impl Core {
    pub(super) fn take_view(&mut self, view: Arc<dyn View>) {
        if !self.is_news(view.version()) {
            return;
        }
        self.fabric = Fabric::new(view, self.config.policy, &mut self.names);
        self.ledger.grow(self.names.len());
        self.cut_short(self.fabric.view.version());
    }

    pub(super) fn take_change(&mut self, change: &ViewChange) {
        if !self.is_news(change.version) {
            return;
        }
        self.fabric.set_unusable(change, self.config.policy);
        self.cut_short(change.version);
    }

    pub(super) fn take_policy(&mut self, policy: Policy) {
        self.config.policy = policy;
        self.fabric.set_policy(policy);
        self.slicing.take_view(&self.fabric);
        self.stale = true;
        self.collectives.stale = true;
    }

    fn is_news(&mut self, version: u64) -> bool {
        let news = version > self.fabric.version;
        let counter = if news { &mut self.metrics.views } else { &mut self.metrics.views_stale };
        *counter += 1;
        news
    }

    /// Ends every grant whose way is not what it was, or must not be used any more.
    fn cut_short(&mut self, version: u64) {
        self.stale = true;
        self.collectives.stale = true;
        let mut outstanding = BTreeSet::new();
        let changed = |(id, claim)| Some((id, self.changed_way(claim)?));
        let changed: Vec<(ClaimId, Vec<LinkId>)> = self.ledger.iter().filter_map(changed).collect();
        for (id, links) in changed {
            outstanding.insert(id);
            // Until it has stopped its packets may go the new way: no other connection may meet them there.
            self.ledger.widen(id, &links);
            self.metrics.cut_short += 1;
            let slot = self.ledger.get(id).and_then(|claim| Some(claim.way.as_ref()?.slot));
            let in_service = |c: &&mut Connection| c.claim == Some(id);
            let connection = slot.and_then(|slot| self.connections.get_mut(slot));
            if let Some(connection) = connection.filter(in_service) {
                connection.urgent = true;
            }
            self.stop(id);
        }
        self.clearing.insert(version, outstanding);
        self.forget_ways();
        self.slicing.take_view(&self.fabric);
    }

    /// Where a claim's packets go in the present view; `None` where they went and may go there all the time.
    fn changed_way(&self, claim: &Claim) -> Option<Vec<LinkId>> {
        let Some(way) = &claim.way else {
            return self.collectives.changed_way(&self.fabric, claim);
        };
        let source = self.fabric.host_of(claim.holder.port);
        let Some(ends) = source.zip(self.fabric.host_of(way.destination)) else {
            return Some(Vec::new());
        };
        let links = self.fabric.links_to(ends, way.dlid).unwrap_or_default();
        let same = links == claim.links && self.fabric.may_use(ends, (way.tree, way.dlid));
        (!same).then_some(links)
    }

    /// Says which views' unusable pairs no connection uses any more. A later view may wait for what an earlier one
    /// waits for, so they become clear in order.
    pub(super) fn send_clear(&mut self, now: Time) {
        // What a predecessor granted is not known.
        if now < self.quiet_until {
            return;
        }
        while let Some(first) = self.clearing.first_entry() {
            if !first.get().is_empty() {
                return;
            }
            let version = first.remove_entry().0;
            self.outputs.push_back(Output::Clear(ViewClear { version }));
        }
    }
}
