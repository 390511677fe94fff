//! Collectives: while one is in force in a slice its members' ports serve nothing else.
//!
//! Every member sends along one tree of its leaf in the slice, its own as far as there are as many as hosts: then
//! an uplink carries what one host sends, and in a phase, in which every member is sent to by one other at most, a
//! down link carries what one other sends. Where that rule does not hold (fewer trees than hosts), it may hold
//! all the same: every link of every phase is counted before a collective is made.
//!
//! In the ledger each member has one claim, on all links that it uses in any phase. Claims of one collective have
//! one owner, so they are not in each other's way.

mod plan;

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::hosts::HostId;
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::collective::{Collective, Member};
use snin_protocol::message::{Verdict, Wait};

use super::Core;
use super::fabric::{Fabric, LinkId};
use super::ledger::{Claim, ClaimId, Holder, OwnerId};
use crate::orders::{CollectiveError, CollectiveWanted};
use plan::{MemberPlan, Plan, plan};

/// A collective as it is, or would be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectiveStatus {
    /// What was asked for.
    pub wanted: CollectiveWanted,
    /// The members' ports, in their order: that of the hosts of the slice.
    pub members: Vec<Guid>,
    /// The tree of each.
    pub trees: Vec<TreeId>,
    /// How many phases it has.
    pub phases: u32,
    /// The directed links that it uses, those of hosts included.
    pub links: usize,
    /// Members on the most loaded of them in any phase.
    pub max_link_load: u32,
    /// Bit/s of the slowest of them; 0 where no rate is known.
    pub rate: u64,
    /// Members that may send now, or are about to.
    pub granted: usize,
}

/// A collective that members know of, or will.
#[derive(Clone, Debug)]
struct Active {
    owner: OwnerId,
    wanted: CollectiveWanted,
    plan: Plan,
    /// Once it is granted to a member.
    origin: Option<Time>,
    until: Time,
}

/// See the module's documentation.
#[derive(Clone, Default, Debug)]
pub(super) struct Collectives {
    /// By the slice's owner.
    active: BTreeMap<String, Active>,
    /// Their members in the present view: other connections of these hosts wait.
    members: BTreeSet<HostId>,
    /// Slices or the view changed: plans are made anew with the next window.
    pub(super) stale: bool,
}

impl Collectives {
    /// Whether one of the two takes part in a collective.
    pub(super) fn occupy(&self, ends: (HostId, HostId)) -> bool {
        !self.members.is_empty()
            && (self.members.contains(&ends.0) || self.members.contains(&ends.1))
    }

    fn of(&self, owner: OwnerId) -> Option<&Active> {
        self.active.values().find(|active| active.owner == owner)
    }

    /// What a member's lease says of its claim.
    pub(super) fn entry(&self, claim: &Claim, gap: Time, sl: u8) -> Option<Collective> {
        let active = self.of(claim.owner)?;
        let place = active.plan.members.iter().position(|part| part.port == claim.holder.port)?;
        let part = &active.plan.members[place];
        let members = active.plan.members.iter().zip(&part.to);
        Some(Collective {
            kind: active.wanted.kind,
            members: members.map(|(other, &dlid)| Member { port: other.port, dlid }).collect(),
            place: place as u16,
            tree: part.tree,
            origin: active.origin?,
            slot: active.wanted.slot,
            gap,
            from: claim.from,
            until: claim.until,
            rate: active.plan.rate,
            sl,
        })
    }

    /// The plan of a claim's holder, and that of all members.
    fn plan_of(&self, claim: &Claim) -> Option<(&MemberPlan, &Plan)> {
        let plan = &self.of(claim.owner)?.plan;
        Some((plan.members.iter().find(|part| part.port == claim.holder.port)?, plan))
    }

    /// The links that a member's packets use in another view; `None` where they go as before. The links of a claim
    /// are one way up and a tree down from there, so that there is one way to each member within them.
    pub(super) fn changed_way(&self, fabric: &Fabric, claim: &Claim) -> Option<Vec<LinkId>> {
        let Some((part, plan)) = self.plan_of(claim) else { return Some(Vec::new()) };
        let (mut links, mut same) = (BTreeSet::new(), true);
        for (other, &dlid) in plan.others(part) {
            let ends = fabric.host_of(part.port).zip(fabric.host_of(other.port));
            match ends.and_then(|ends| Some((ends, fabric.links_to(ends, dlid)?))) {
                Some((ends, way)) => {
                    same &= fabric.may_use(ends, (part.tree, dlid));
                    links.extend(way);
                }
                None => same = false,
            }
        }
        same &= links.iter().all(|link| claim.links.contains(link));
        (!same).then(|| links.into_iter().collect())
    }

    /// The members that the holder of a claim sends to over a link, with the tree and the address.
    pub(super) fn receivers_over(
        &self,
        fabric: &Fabric,
        claim: &Claim,
        link: LinkId,
    ) -> Vec<(Guid, TreeId, Dlid)> {
        let Some((part, plan)) = self.plan_of(claim) else { return Vec::new() };
        let uses = |(other, dlid): &(&MemberPlan, &Dlid)| {
            let ends = fabric.host_of(part.port).zip(fabric.host_of(other.port));
            let way = ends.and_then(|ends| fabric.links_to(ends, **dlid));
            way.is_some_and(|way| way.contains(&link))
        };
        let used = plan.others(part).filter(uses);
        used.map(|(other, &dlid)| (other.port, part.tree, dlid)).collect()
    }
}

impl Core {
    /// The pattern of the collective in an owner's slice, and the tree of each member's port; within a leaf no
    /// tree is used, so pairs there need none.
    pub(super) fn collective_plan(&self, owner: &str) -> Option<(String, Vec<(Guid, TreeId)>)> {
        let status = self.collective(owner).ok()??;
        let trees = status.members.into_iter().zip(status.trees);
        Some((status.wanted.kind.to_string(), trees.collect()))
    }

    pub(crate) fn take_collective(
        &mut self,
        owner: &str,
        wanted: Option<CollectiveWanted>,
    ) -> Result<(), CollectiveError> {
        if let Some(wanted) = wanted {
            self.try_collective(owner, wanted)?;
        }
        let changed = self.slicing.set_collective(owner, wanted);
        self.collectives.stale |=
            changed.ok_or_else(|| CollectiveError::NoSlice(owner.to_owned()))?;
        Ok(())
    }

    /// What a collective would be.
    ///
    /// # Errors
    /// Why there would be none.
    pub fn try_collective(
        &self,
        owner: &str,
        wanted: CollectiveWanted,
    ) -> Result<CollectiveStatus, CollectiveError> {
        let plan = plan(&self.fabric, &self.slicing, owner, wanted.kind)?;
        let status = status(wanted, &plan, 0);
        let lost = self.guard_of_slot();
        let least = lost * 2;
        if status.phases > 1 && wanted.slot < least {
            return Err(CollectiveError::Slot { slot: wanted.slot, least, lost });
        }
        Ok(status)
    }

    /// What is lost of every slot: a guard before its end, an agent's own guard before that, and how far an
    /// agent's clock may be off on either side.
    pub fn guard_of_slot(&self) -> Time {
        (self.config.guard + self.config.clock_error) * 2
    }

    /// The collective that is wanted in a slice.
    pub fn collective_wanted(&self, owner: &str) -> Option<CollectiveWanted> {
        self.slicing.collective(owner)
    }

    /// The collective of a slice, in force or as it will be.
    ///
    /// # Errors
    /// Why there is none, as things are.
    pub fn collective(&self, owner: &str) -> Result<Option<CollectiveStatus>, CollectiveError> {
        let Some(wanted) = self.collective_wanted(owner) else { return Ok(None) };
        let active = self.collectives.active.get(owner).filter(|active| active.wanted == wanted);
        let Some(active) = active else { return self.try_collective(owner, wanted).map(Some) };
        let claims = self.ledger.iter().filter(|(_, claim)| claim.owner == active.owner);
        let granted = claims.filter(|(_, claim)| claim.gone.is_none()).count();
        Ok(Some(status(wanted, &active.plan, granted)))
    }

    /// Where both hosts are members of a collective in force: whose slice it is in, and the address that the first
    /// one sends to.
    pub fn collective_between(&self, ends: (HostId, HostId)) -> Option<(&str, Dlid)> {
        let (from, to) = (self.fabric.port(ends.0)?, self.fabric.port(ends.1)?);
        self.collectives.active.iter().find_map(|(owner, active)| {
            let part = active.plan.members.iter().find(|part| part.port == from)?;
            let (_, &dlid) = active.plan.others(part).find(|(other, _)| other.port == to)?;
            Some((owner.as_str(), dlid))
        })
    }

    /// Connections of members wait.
    pub(super) fn choose_collectives(&mut self, chosen: &mut BTreeSet<u32>) {
        for (slot, connection) in self.connections.iter_mut() {
            if connection.ends.is_ok_and(|ends| self.collectives.occupy(ends)) {
                chosen.remove(&slot);
                connection.verdict = Some(Verdict::Deferred(Wait::Collective));
            }
        }
    }

    /// Plans are those of the present slices and view. One that is another now, or no longer wanted, ends; a new
    /// one begins when its links are clear.
    pub(super) fn follow_collectives(&mut self) {
        if !std::mem::take(&mut self.collectives.stale) {
            return;
        }
        let wanted: BTreeMap<String, CollectiveWanted> = self.slicing.collectives().collect();
        let mut active = std::mem::take(&mut self.collectives.active);
        for (owner, wanted) in wanted {
            let Ok(plan) = plan(&self.fabric, &self.slicing, &owner, wanted.kind) else { continue };
            let known = active.remove(&owner);
            let same = |known: &Active| known.wanted == wanted && known.plan == plan;
            let kept = match known {
                Some(known) if same(&known) => known,
                known => {
                    self.end_collective(known);
                    self.next_owner += 1;
                    let owner = OwnerId(self.next_owner);
                    Active { owner, wanted, plan, origin: None, until: Time::ZERO }
                }
            };
            self.collectives.active.insert(owner, kept);
        }
        active.into_values().for_each(|gone| self.end_collective(Some(gone)));
        let parts = self.collectives.active.values().flat_map(|active| &active.plan.members);
        let members = parts.filter_map(|part| self.fabric.host_of(part.port)).collect();
        // Connections of others ask for ports anew, and those of members no more.
        self.stale |= self.collectives.members != members;
        self.collectives.members = members;
    }

    fn end_collective(&mut self, gone: Option<Active>) {
        let Some(owner) = gone.map(|gone| gone.owner) else { return };
        let claims = self.ledger.iter().filter(|(_, claim)| claim.owner == owner);
        let claims: Vec<ClaimId> = claims.map(|(id, _)| id).collect();
        claims.into_iter().for_each(|id| self.stop(id));
    }

    /// Grants members what has become clear, and lengthens what they have.
    pub(super) fn grant_collectives(&mut self, now: Time) {
        // A plan is granted only while it is that of the present view.
        if self.collectives.stale {
            return;
        }
        let owners: Vec<String> = self.collectives.active.keys().cloned().collect();
        for owner in owners {
            let Some(mut active) = self.collectives.active.remove(&owner) else { continue };
            self.grant_collective(&mut active, now);
            self.collectives.active.insert(owner, active);
        }
    }

    fn grant_collective(&mut self, active: &mut Active, now: Time) {
        let window = self.config.window;
        let (start, covered) = (self.window.start(window), self.window.end(window));
        let lasts = u64::from(self.config.lease) - 1;
        let until = self.window.after(lasts).end(window) - self.config.guard;
        if active.until <= covered {
            active.until = until;
        }
        let mut new = Vec::new();
        for part in &active.plan.members {
            let Some(agent) = self.agents.get(&part.port) else { continue };
            let holder = Holder { port: part.port, session: agent.session };
            let is_own = |(_, claim): &(ClaimId, &Claim)| claim.owner == active.owner;
            let own = self.ledger.of_port(part.port).find(is_own);
            match own.map(|(id, claim)| (id, claim.holder, claim.until)) {
                Some((id, known, end)) if known == holder => {
                    if end < active.until && self.ledger.extend(id, active.until) {
                        self.dirty.insert(part.port);
                    }
                }
                // What an agent's earlier session was granted runs out first.
                Some(_) => {}
                None => new.push((holder, part.links.clone())),
            }
        }
        // While the manager is not heard what is in force goes on, and nothing begins.
        if self.is_held(now) {
            return;
        }
        let earliest = start.max(now);
        let clear =
            new.iter().map(|(holder, links)| self.ledger.clear_from(active.owner, *holder, links));
        let from = clear.fold(earliest, Time::max);
        if from > earliest || new.is_empty() || from + self.config.guard * 2 >= active.until {
            return;
        }
        let origin = *active.origin.get_or_insert(from);
        for (holder, links) in new {
            let claim = Claim {
                owner: active.owner,
                holder,
                links,
                from: from.max(origin),
                until: active.until,
                way: None,
                gone: None,
            };
            self.ledger.add(claim);
            self.dirty.insert(holder.port);
        }
    }
}

fn status(wanted: CollectiveWanted, plan: &Plan, granted: usize) -> CollectiveStatus {
    let links: BTreeSet<LinkId> =
        plan.members.iter().flat_map(|part| &part.links).copied().collect();
    CollectiveStatus {
        wanted,
        members: plan.members.iter().map(|part| part.port).collect(),
        trees: plan.members.iter().map(|part| part.tree).collect(),
        phases: wanted.kind.phases(plan.members.len() as u32).unwrap_or(0),
        links: links.len(),
        max_link_load: plan.max_link_load,
        rate: plan.rate,
        granted,
    }
}
