//! What controllers are told: the last view, and whether they have cleared what it took away.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::Lid;
use snin_fabric::view::Pair;
use snin_protocol::Time;
use snin_sm_database::programmed::linear_sum;

use super::Sweep;
use crate::events::Output;
use crate::target::Target;
use crate::view::{FabricView, carried_over, uncovered};

/// The views that were published.
#[derive(Default)]
pub(super) struct Publishing {
    last: Option<Arc<FabricView>>,
    /// Another manager was the master since: controllers are told the view again.
    owes: bool,
    /// The last view of which the controller said that it is clear.
    cleared: u64,
    /// The view that controllers are to clear, and since when it is waited for that.
    clearing: Option<(u64, Time)>,
}

impl Publishing {
    /// The last one published.
    pub(super) const fn last(&self) -> Option<&Arc<FabricView>> {
        self.last.as_ref()
    }

    /// The same, where controllers know it.
    fn told(&self) -> Option<&Arc<FabricView>> {
        self.last.as_ref().filter(|_| !self.owes)
    }

    /// The version of the last one; 0: there is none.
    pub(super) fn version(&self) -> u64 {
        self.last.as_ref().map_or(0, |view| view.version())
    }

    /// The manager's address by the last one.
    pub(super) fn manager(&self) -> Lid {
        self.last.as_ref().map_or(Lid::NONE, |view| view.manager())
    }

    fn publish(&mut self, view: Arc<FabricView>) {
        (self.last, self.owes) = (Some(view), false);
    }

    /// Another manager is master: what it told controllers is not known here.
    pub(super) const fn owe(&mut self) {
        self.owes = true;
    }

    /// A controller says that it uses nothing any more that the view with this version, and all before it, took
    /// away.
    pub(super) fn clear(&mut self, version: u64) {
        self.cleared = self.cleared.max(version);
    }

    /// Whether that was said of this version.
    pub(super) const fn is_clear(&self, version: u64) -> bool {
        version <= self.cleared
    }

    /// Tables are about to be written: the version that is waited for, and until when at most. Who looks again at
    /// the same, since a trap was repeated, does not begin to wait anew.
    pub(super) fn wait(&mut self, most: Time, now: Time) -> Option<(u64, Time)> {
        let version = self.version();
        let since = self.clearing.filter(|&(of, _)| of == version).map_or(now, |(_, since)| since);
        self.clearing = Some((version, since));
        (most > Time::ZERO && !self.is_clear(version)).then_some((version, since + most))
    }
}

impl Sweep {
    /// The last view published.
    pub const fn view(&self) -> Option<&Arc<FabricView>> {
        self.publishing.last()
    }

    /// Publishes the target, unless that is how it was published last. While tables are still to be written,
    /// only pairs that were usable and will be are usable. Before the first bring-up of a fabric there is nothing
    /// to say; where an earlier manager wrote other tables, controllers may know its view: then no pair is usable.
    pub(super) fn publish(&mut self, target: &Arc<Target>, before_writing: bool) {
        let mut unusable = uncovered(target);
        let told = self.publishing.told().cloned();
        let lanes = match (told, before_writing) {
            (_, false) => self.granted_lanes(target),
            (Some(view), true) => {
                unusable.extend(self.new_pairs(&view, target));
                view.lanes().clone()
            }
            (None, true) if self.replaces_tables(target) => {
                unusable.extend(all_pairs(target));
                self.granted_lanes(target)
            }
            (None, true) => return,
        };
        let own = target.discovered.own_port(&self.graph);
        let manager = own.and_then(|port| target.addresses.base(port)).unwrap_or(Lid::NONE);
        if let Some(view) = self.publishing.told()
            && view.topology() == &target.discovered.topology
            && view.addresses() == &target.addresses
            && view.unusable() == &unusable
            && view.manager() == manager
            && *view.lanes() == lanes
            && leads_alike(view.target(), target)
        {
            return;
        }
        let version = self.publishing.version() + 1;
        let view = FabricView::new(version, target.clone(), unusable, manager);
        let view = Arc::new(view.with_lanes(lanes));
        self.metrics.views += 1;
        self.publishing.publish(view.clone());
        self.outputs.push_back(Output::View(view));
    }

    /// Pairs of the target that were not usable in the view, or not there.
    fn new_pairs(&self, view: &FabricView, target: &Target) -> BTreeSet<Pair> {
        let usable = carried_over(&view.usable(), view.target(), target);
        all_pairs(target).filter(|pair| !usable.contains(pair)).collect()
    }

    /// Whether switches forward otherwise now than by the target.
    fn replaces_tables(&self, target: &Target) -> bool {
        let top = target.addresses.top();
        let mut held = target.discovered.topology.switches().map(|switch| {
            let shadow = &self.graph.node(target.discovered.id(switch)).shadow;
            (shadow, &target.routing.tables[switch.index()])
        });
        held.any(|(shadow, table)| shadow.is_live() && shadow.sum() != Some(linear_sum(table, top)))
    }
}

/// Whether tables and lanes are the same. Of the same fabric they are, but for routes in lanes, which follow from
/// what was before.
fn leads_alike(one: &Target, other: &Target) -> bool {
    let (one, other) = (&one.routing, &other.routing);
    match (&one.lanes, &other.lanes) {
        (None, None) => true,
        (Some(own), Some(others)) => own.agree(others) && one.tables == other.tables,
        _ => false,
    }
}

/// Every pair of a switch with hosts and a tree.
fn all_pairs(target: &Target) -> impl Iterator<Item = Pair> + '_ {
    let hosts = &target.routing.hosts;
    let carrying: BTreeSet<_> = hosts.iter().map(|(_, host)| host.switch).collect();
    let trees = target.routing.forest.trees();
    carrying.into_iter().flat_map(|switch| trees.iter().map(move |tree| (switch, tree.id)))
}
