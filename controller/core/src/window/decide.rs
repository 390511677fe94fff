//! One window: collect, admit, pack, certify, grant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::Guid;
use snin_fabric::TreeId;
use snin_fabric::check::owner::{PlannedPath, owner};
use snin_fabric::hosts::HostId;
use snin_protocol::message::{Answer, Refusal, Verdict, Wait};
use snin_protocol::view::VIEW_LEASE;
use snin_protocol::{Epoch, Time};

use super::Core;
use super::connections::Connection;
use super::domains::{DomainId, Done, Placed, Wanted, Work};
use super::ledger::Claim;
use super::transition::pausing;
use crate::config::Policy;
use crate::events::{Note, Output, WindowReport};
use crate::owners::Untrue;
use crate::packing::Deferral;

/// The most connections that room is made for in one window.
const MAX_RESTED: usize = 64;

impl Core {
    pub(super) fn decide(&mut self, epoch: Epoch, now: Time) {
        self.window = epoch;
        self.metrics.windows += 1;
        self.collect(now);
        if now < self.quiet_until {
            return;
        }
        self.follow_collectives();
        let held = self.is_held(now);
        let renewed = self.stale && !held;
        if renewed {
            for (_, connection) in self.connections.iter_mut() {
                connection.packed = false;
            }
            self.renew();
        }
        let mut chosen = self.choose(epoch);
        self.choose_collectives(&mut chosen);
        if held {
            self.hold(&mut chosen);
        }
        let trees = self.pack(&chosen);
        self.find_ways(&trees, renewed);
        let (links, max_link_load) = self.certify();
        let mut report = WindowReport { epoch, links, max_link_load, ..WindowReport::default() };
        self.change_trees(&mut report);
        self.grant_pending(now);
        self.grant_collectives(now);
        self.account(&mut report);
        self.send_verdicts();
        self.outputs.push_back(Output::Window(report));
    }

    /// What has run out, who has fallen silent, what has had all it wanted.
    fn collect(&mut self, now: Time) {
        for id in self.ledger.expired(now) {
            self.release(id);
        }
        self.frames.expire(now);
        let silence = self.config.window * u64::from(self.config.silence);
        let silent = self.agents.iter().filter(|(_, agent)| agent.heard_at + silence < now);
        let silent: Vec<Guid> = silent.map(|(&port, _)| port).collect();
        for port in silent {
            self.metrics.agents_lost += 1;
            self.lose(port);
            self.note(Note::AgentSilent(port));
        }
        for slot in std::mem::take(&mut self.spent) {
            let Some(connection) = self.connections.get(slot).filter(|c| c.left == 0) else {
                continue;
            };
            let (port, connection) = (connection.port, connection.request.connection);
            if let Some(agent) = self.agents.get_mut(&port) {
                agent.connections.remove(&connection);
                // Where too many answers wait already, the agent asks again when nothing comes any more.
                agent.answer(Answer { connection, verdict: Verdict::Served });
                self.dirty.insert(port);
            }
            self.forget(slot);
        }
    }

    /// What admission chooses, less what makes room for those who waited long for a tree.
    fn choose(&mut self, epoch: Epoch) -> BTreeSet<u32> {
        let mut chosen: BTreeSet<u32> =
            self.admission.choose(epoch.0).iter().map(|id| id.0).collect();
        let wanted = self.count_wanted();
        for (slot, connection) in self.connections.iter_mut() {
            connection.verdict = match connection.ends {
                Err(refusal) => Some(Verdict::Refused(refusal)),
                Ok(_) if chosen.contains(&slot) => None,
                Ok(_) => Some(Verdict::Deferred(Wait::PortsBusy)),
            };
            let more = |end: (usize, HostId)| wanted.get(&end).is_some_and(|&wanted| wanted > 1);
            connection.shares_ports = connection
                .ends
                .is_ok_and(|(source, destination)| more((0, source)) || more((1, destination)));
        }
        self.rest(&mut chosen);
        self.choose_frames(&mut chosen);
        chosen
    }

    /// Whether nothing new is granted, since the subnet manager may have written other tables than those of the
    /// view that it told last.
    pub(super) fn is_held(&self, now: Time) -> bool {
        let strict = self.config.policy == Policy::Strict;
        strict && self.manager_lost.is_some_and(|since| now >= since + VIEW_LEASE)
    }

    /// What has its links keeps them.
    fn hold(&mut self, chosen: &mut BTreeSet<u32>) {
        chosen.retain(|&slot| {
            let Some(connection) = self.connections.get_mut(slot) else { return false };
            if !connection.packed {
                connection.verdict = Some(Verdict::Deferred(Wait::NoManager));
            }
            connection.packed
        });
    }

    /// How many connections want each host's link out (0) and in (1).
    fn count_wanted(&self) -> BTreeMap<(usize, HostId), u32> {
        let mut wanted = BTreeMap::new();
        for (_, connection) in self.connections.iter() {
            if let Ok((source, destination)) = connection.ends {
                *wanted.entry((0, source)).or_insert(0) += 1;
                *wanted.entry((1, destination)).or_insert(0) += 1;
            }
        }
        wanted
    }

    /// The packer keeps what it has, so where leaves have fewer links than hosts some would never get a tree.
    /// After a while those who have one take turns with them.
    fn rest(&mut self, chosen: &mut BTreeSet<u32>) {
        let patience = self.config.patience;
        let is_due = |c: &&Connection| c.waits > patience && !c.packed;
        let due: Vec<u32> = chosen
            .iter()
            .copied()
            .filter(|&slot| self.connections.get(slot).as_ref().is_some_and(is_due))
            .take(MAX_RESTED)
            .collect();
        for slot in due {
            for at_source in [true, false] {
                let Some(resting) = self.who_rests(slot, at_source, chosen) else {
                    continue;
                };
                chosen.remove(&resting);
                self.metrics.rested += 1;
                if let Some(connection) = self.connections.get_mut(resting) {
                    connection.verdict = Some(Verdict::Deferred(Wait::Rests));
                    connection.turns = 0;
                }
            }
        }
    }

    /// The connection with the most turns among those that use the same leaf in the same direction.
    fn who_rests(&self, slot: u32, at_source: bool, chosen: &BTreeSet<u32>) -> Option<u32> {
        let leaf = |connection: &Connection| {
            let (source, destination) = connection.ends.ok()?;
            self.fabric.leaf(if at_source { source } else { destination })
        };
        let waiting = self.connections.get(slot)?;
        let (wanted, domain) = (leaf(waiting)?, waiting.domain);
        let packed = chosen.iter().filter_map(|&slot| Some((slot, self.connections.get(slot)?)));
        packed
            .filter(|(_, c)| {
                c.packed && c.domain == domain && !c.request.pinned && leaf(c) == Some(wanted)
            })
            .max_by_key(|&(slot, c)| (c.turns, std::cmp::Reverse(slot)))
            .map(|(slot, _)| slot)
    }

    /// Removals first, then what is new; what is packed already stays where it is if it can.
    fn pack(&mut self, chosen: &BTreeSet<u32>) -> BTreeMap<u32, TreeId> {
        let mut trees = BTreeMap::new();
        let mut work: BTreeMap<DomainId, Work> = BTreeMap::new();
        let departed = std::mem::take(&mut self.departed);
        for &(slot, domain) in &departed {
            work.entry(domain).or_default().removals.push(slot);
        }
        for (slot, connection) in self.connections.iter_mut() {
            let ends = connection.ends.ok().filter(|_| chosen.contains(&slot));
            let work = work.entry(connection.domain).or_default();
            match ends {
                Some(ends) if self.fabric.on_one_leaf(ends) => {
                    trees.insert(slot, TreeId(0));
                }
                Some(_) if connection.packed => {}
                Some(ends) => {
                    let (pinned, tree) = (connection.request.pinned, connection.wished_tree());
                    work.insertions.push(Wanted { slot, ends, pinned, tree });
                }
                None if connection.packed => {
                    connection.packed = false;
                    work.removals.push(slot);
                }
                None => {}
            }
        }
        for (domain, work) in work {
            let done = self.domains.apply(domain, &work, &self.fabric, self.slicing.slices());
            self.take_outcome(domain, &done);
        }
        let packed = self.connections.iter().filter(|(_, c)| c.packed);
        trees.extend(
            packed.filter_map(|(slot, c)| Some((slot, self.domains.tree_of(c.domain, slot)?))),
        );
        departed.into_iter().for_each(|(slot, _)| self.connections.give_back(slot));
        trees
    }

    /// What a packer says of its connections.
    fn take_outcome(&mut self, domain: DomainId, done: &Done) {
        for &(slot, why) in &done.deferred {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.packed = false;
                connection.waits += 1;
                connection.turns = 0;
                connection.verdict = Some(Verdict::Deferred(why.into()));
            }
        }
        for &(slot, why) in &done.refused {
            if let Some(connection) = self.connections.get_mut(slot) {
                // Without slices it might have had one.
                let set_aside = domain.is_none() && !self.slicing.is_empty();
                let waits = set_aside || self.fabric.is_paused();
                connection.verdict = Some(if waits {
                    Verdict::Deferred(Wait::NoTreeFreed)
                } else {
                    Verdict::Refused(why.into())
                });
            }
        }
        for &slot in &done.granted {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.packed = true;
            }
        }
    }

    /// The way of everything that has a tree. What the view gives no way is refused.
    fn find_ways(&mut self, trees: &BTreeMap<u32, TreeId>, renewed: bool) {
        let mut lost = Vec::new();
        for (slot, connection) in self.connections.iter_mut() {
            let tree = trees.get(&slot).copied();
            let known = connection.route.take().filter(|_| !renewed);
            let (Some(tree), Ok(ends)) = (tree, connection.ends) else {
                continue;
            };
            connection.route = known.filter(|route| route.tree == tree);
            if connection.route.is_none() {
                match self.fabric.route(ends, tree) {
                    Ok(route) => connection.route = Some(Arc::new(route)),
                    Err(refusal) => {
                        connection.verdict = Some(Verdict::Refused(refusal));
                        let packed = std::mem::take(&mut connection.packed);
                        lost.extend(packed.then_some((connection.domain, slot)));
                    }
                }
            }
        }
        for (domain, slot) in lost {
            let work = Work { removals: vec![slot], ..Work::default() };
            self.domains.apply(domain, &work, &self.fabric, self.slicing.slices());
        }
    }

    /// Has the packers' certificates judged by the trees that connections were given.
    fn check_certificates(&mut self) -> Result<(), Untrue> {
        let mut granted: BTreeMap<DomainId, Vec<Placed>> = BTreeMap::new();
        for (slot, connection) in self.connections.iter() {
            let ends = connection.ends.ok().filter(|&ends| !self.fabric.on_one_leaf(ends));
            if let (Some(ends), Some(route)) = (ends, &connection.route) {
                granted.entry(connection.domain).or_default().push((slot, ends, route.tree));
            }
        }
        self.domains.check(&granted, &self.fabric)
    }

    /// Has an independent checker follow every way through the tables and look for links with two owners.
    /// If there is one, or the packer's own account is another, nothing new is granted in this window and
    /// the packer begins anew.
    fn certify(&mut self) -> (u32, u32) {
        let account = self.check_certificates();
        let view = &self.fabric.view;
        let port = |host| self.fabric.host(host).map(|host| host.port);
        let path = |connection: &Connection| {
            let (source, destination) = connection.ends.ok()?;
            let route = connection.route.as_ref()?;
            let (source, destination) = (port(source)?, port(destination)?);
            let (dlid, path) = (route.dlid.0, route.hops.clone());
            Some(PlannedPath { source, destination, dlid, path })
        };
        let paths: Vec<PlannedPath> =
            self.connections.iter().filter_map(|(_, connection)| path(connection)).collect();
        let tables = &view.routing().tables;
        let found = owner(view.topology(), view.addresses(), tables, &paths, 3);
        let wrong = account.err().map(|untrue| untrue.to_string());
        let wrong = wrong.or_else(|| (!found.is_ok()).then(|| found.to_string()));
        if let Some(wrong) = wrong {
            self.metrics.certificate_failures += 1;
            self.stale = true;
            self.note(Note::Certificate(wrong));
            for (_, connection) in self.connections.iter_mut() {
                if connection.route.take().is_some() {
                    connection.verdict = Some(Verdict::Deferred(Wait::NoTreeFreed));
                }
            }
        }
        (found.links as u32, found.max_link_load)
    }

    /// What is in service and is to be so no more stops; what goes on is renewed; what changes trees waits
    /// for its links, and some pause for that.
    fn change_trees(&mut self, report: &mut WindowReport) {
        let (mut stopping, mut renewing, mut moving) = (Vec::new(), Vec::new(), Vec::new());
        let mut again = 0;
        self.pending.clear();
        for (slot, connection) in self.connections.iter() {
            let claim = connection.claim.and_then(|id| self.ledger.get(id));
            match (claim, &connection.route) {
                (None, None) => {}
                (None, Some(route)) => {
                    // What a view cut short is in service, and goes on elsewhere.
                    let elsewhere = connection.last_tree.is_some_and(|tree| tree != route.tree);
                    again += u32::from(connection.urgent && elsewhere);
                    self.pending.insert(slot);
                }
                (Some(claim), None) if self.outlasts(claim) => stopping.extend(connection.claim),
                (Some(_), None) => {}
                (Some(claim), Some(route))
                    if claim
                        .way
                        .as_ref()
                        .is_some_and(|way| (way.tree, way.dlid) == (route.tree, route.dlid)) =>
                {
                    renewing.push(slot);
                }
                (Some(claim), Some(_)) => moving.push((slot, self.outlasts(claim))),
            }
        }
        stopping.into_iter().for_each(|id| self.stop(id));
        renewing.into_iter().for_each(|slot| self.renew_grant(slot));
        report.moved = moving.len() as u32 + again;
        self.metrics.moved += u64::from(report.moved);
        self.pending.extend(moving.iter().map(|&(slot, _)| slot));
        // A claim that ends with the window before is in no connection's way.
        let movers: Vec<u32> = moving.iter().filter(|(_, lasts)| *lasts).map(|m| m.0).collect();
        let place = |slot: &u32| movers.binary_search(slot).ok();
        let waits_for: Vec<Vec<usize>> = movers
            .iter()
            .map(|&slot| self.blockers(slot).iter().filter_map(place).collect())
            .collect();
        let pausing: Vec<u32> =
            pausing(&waits_for).into_iter().map(|place| movers[place]).collect();
        report.paused = pausing.len() as u32;
        self.metrics.paused += pausing.len() as u64;
        for slot in &movers {
            if let Some(connection) = self.connections.get_mut(*slot) {
                connection.urgent = true;
            }
        }
        for slot in pausing {
            self.pause(slot);
        }
    }

    /// Whether a claim stands on its links in the window decided last.
    fn outlasts(&self, claim: &Claim) -> bool {
        claim.until + self.config.guard > self.window.start(self.config.window)
    }

    /// Stops a connection that is to go on elsewhere.
    fn pause(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let route = connection.route.clone();
        if let Some(id) = connection.claim {
            self.stop(id);
        }
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.route = route;
            connection.urgent = true;
        }
    }

    /// A lease is renewed when its last window has come. Where others come after it on a link it is granted
    /// anew when it can be.
    fn renew_grant(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let Some((id, claim)) = connection.claim.and_then(|id| Some((id, self.ledger.get(id)?)))
        else {
            return;
        };
        let (port, until) = (connection.port, self.until(connection));
        let covered = self.window.end(self.config.window) - self.config.guard;
        if claim.until > covered || claim.until >= until {
            return self.count_served(slot);
        }
        if self.ledger.extend(id, until) {
            self.dirty.insert(port);
            self.count_served(slot);
        } else {
            self.pending.insert(slot);
        }
    }

    /// Counts what became of everything.
    fn account(&mut self, report: &mut WindowReport) {
        for (slot, connection) in self.connections.iter_mut() {
            if self.pending.contains(&slot) {
                report.draining += 1;
                connection.verdict = Some(Verdict::Deferred(Wait::Draining));
            }
            match connection.verdict {
                Some(Verdict::Refused(_)) => report.refused += 1,
                Some(Verdict::Deferred(Wait::Draining)) => {}
                Some(Verdict::Deferred(wait)) => *report.deferred.entry(wait).or_insert(0) += 1,
                Some(Verdict::Served) => {}
                None => report.granted += 1,
            }
        }
        let deferred: u32 = report.deferred.values().sum();
        report.requested = report.granted + report.draining + deferred;
        self.metrics.deferred += u64::from(deferred);
        self.metrics.refused += u64::from(report.refused);
    }

    /// Tells agents what is new about what they were not granted.
    fn send_verdicts(&mut self) {
        for (_, connection) in self.connections.iter_mut() {
            let Some(verdict) =
                connection.verdict.filter(|_| connection.verdict != connection.told)
            else {
                continue;
            };
            let answer = Answer { connection: connection.request.connection, verdict };
            if let Some(agent) = self.agents.get_mut(&connection.port)
                && agent.answer(answer)
            {
                connection.told = Some(verdict);
                self.dirty.insert(connection.port);
            }
        }
    }
}

impl From<Deferral> for Wait {
    fn from(why: Deferral) -> Self {
        match why {
            Deferral::SourceFull => Self::SourceFull,
            Deferral::DestinationFull => Self::DestinationFull,
            Deferral::NoTreeFreed => Self::NoTreeFreed,
            Deferral::PinnedAway => Self::PinnedAway,
        }
    }
}

impl From<crate::packing::Refusal> for Refusal {
    fn from(why: crate::packing::Refusal) -> Self {
        use crate::packing::Refusal as Why;
        match why {
            Why::SameLeaf | Why::NoCommonTree => Self::NoCommonTree,
            Why::SourceCut => Self::SourceCut,
            Why::DestinationCut => Self::DestinationCut,
            Why::NotAddressed => Self::NotAddressed,
            Why::TreeNotAllowed => Self::TreeNotAllowed,
        }
    }
}
