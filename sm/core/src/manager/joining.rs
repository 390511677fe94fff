//! Another subnet becomes a part of this one: its database is joined to the own, stored, and then acknowledged.
//!
//! Nothing is written to the fabric before that; the survey that follows writes what differs. Who dies before it
//! is stored has begun nothing; who dies later has all that is needed to go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;

use super::Manager;
use crate::events::Output;
use crate::report::Report;
use snin_mastership::mirror::rows::put_said;
use snin_sm_database::keys::KeySecret;
use snin_sm_database::managers::Order;
use snin_sm_database::merge::{Entry, Lineage, MergeError, Merged, Rules, Snapshot, merge};
use snin_sm_database::records::Node;
use snin_sm_database::saved::Saved;

impl Manager {
    /// Joins the databases of all subnets that were met, once they are here.
    pub(super) fn inherit(&mut self, now: Time) {
        let here = self.mirror.inherits();
        if here.is_empty()
            || self.state() != SmState::Master
            || self.mastership.is_joining(now, &here)
        {
            return;
        }
        let inherited = self.mirror.take_inherited();
        let others = inherited.iter().map(|one| one.snapshot.clone()).collect();
        let keys = inherited.iter().flat_map(|one| one.keys.clone()).collect();
        if let Some(changed) = self.join(others, keys, now) {
            inherited.iter().for_each(|one| self.mirror.inherited(one));
            if changed && !self.mastership.is_held() {
                self.sweep.obey(Order::Begin, now);
            }
        }
    }

    /// Joins what was found of a subnet whose manager says nothing, before its ports get other numbers.
    pub(super) fn join_strangers(&mut self, now: Time) {
        if let Some(strangers) = self.sweep.strangers() {
            self.join(vec![strangers], Vec::new(), now);
        }
    }

    /// This manager's database and others as one, with its numbers.
    fn merged(&self, others: Vec<Snapshot>, now: Time) -> Option<Result<Merged, MergeError>> {
        let mut own = self.snapshot("", now)?;
        // Ports that were found just now may have the addresses still that they are about to lose.
        for (guid, block) in &self.sweep.saved().lids {
            if let Some(entry) = own.lids.get_mut(guid) {
                entry.value = Some(*block);
            }
        }
        let rules = Rules { keep: Some(own.master), ..Rules::at(now + self.epoch) };
        let databases: Vec<Snapshot> = std::iter::once(own).chain(others).collect();
        Some(merge(&databases, &rules))
    }

    /// Whether joining changed anything; `None` where it cannot be done. `keys`: what M_Keys of the others' ports
    /// follow from.
    fn join(&mut self, others: Vec<Snapshot>, keys: Vec<KeySecret>, now: Time) -> Option<bool> {
        let subnets = others.iter().map(|other| other.master).collect();
        let nodes = others.iter().flat_map(|other| &other.nodes);
        let is_switch =
            |entry: &Entry<Node>| entry.value.as_ref().is_some_and(|n| n.switch.is_some());
        let switches: BTreeSet<Guid> =
            nodes.filter(|(_, entry)| is_switch(entry)).map(|(guid, _)| *guid).collect();
        let (changed, report) = match self.merged(others, now)? {
            Ok(merged) => {
                let changed = self.adopt(merged.snapshot, keys, switches, now);
                (Some(changed), Report::Joined(Box::new(merged.report)))
            }
            Err(error) => (None, Report::NotJoined { subnets, error }),
        };
        // A database that says nothing new is no news.
        if changed != Some(false) {
            self.outputs.push_back(Output::Report(report));
        }
        changed
    }

    /// The merged database takes the place of the own one: what hosts said, and what is to be written. What is
    /// found the next survey says. Numbers are stored first: with them alone the same merge comes out again.
    /// `switches`: of the others.
    fn adopt(
        &mut self,
        mut merged: Snapshot,
        keys: Vec<KeySecret>,
        switches: BTreeSet<Guid>,
        now: Time,
    ) -> bool {
        let before = self.sweep.saved().clone();
        let lids = merged.lids.iter().filter_map(|(guid, entry)| Some((*guid, entry.value?)));
        let (lids, lineage) = (lids.collect(), Lineage::of(&merged));
        let mut saved = Saved { lids, lineage, ..(*before).clone() };
        saved.hold_former(keys);
        saved.lineage.unwritten.clone_from(&before.lineage.unwritten);
        let mut changed = saved != *before;
        if changed {
            saved.lineage.unwritten.extend(switches);
            self.sweep.adopt(Arc::new(saved));
        }
        while let Some(output) = self.sweep.poll_output() {
            self.outputs.push_back(output.into());
        }
        changed |= put_said(&mut merged, &mut self.database, true, self.epoch, now) > 0;
        self.keep();
        changed
    }
}
