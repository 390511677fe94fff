//! Who may be on which link, and until when: the one place that decides whether a link can be given anew.
//!
//! A claim stands from the moment that a grant is sent until it is certain that no agent acts on it: its
//! agent has confirmed a lease without it, or `until` + guard has passed. Two claims of different
//! connections meet on a link only where one is over before the other begins.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::{ConnectionNumber, Session, Time};

use super::fabric::LinkId;

/// A claim's number; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ClaimId(u64);

/// Who owns: a connection or a collective, by a number that is never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct OwnerId(pub(super) u64);

/// Which agent a claim was sent to. A later session of the same port is another agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Holder {
    pub(super) port: Guid,
    pub(super) session: Session,
}

/// What a connection is granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Way {
    pub(super) number: ConnectionNumber,
    /// Its place in the table of connections, while the connection is there.
    pub(super) slot: u32,
    pub(super) destination: Guid,
    pub(super) tree: TreeId,
    pub(super) dlid: Dlid,
    /// Bit/s of the slowest link; 0 where no rate is known.
    pub(super) rate: u64,
    pub(super) pinned: bool,
    pub(super) class: u8,
}

/// A grant that may be acted upon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) owner: OwnerId,
    pub(super) holder: Holder,
    /// What it is for; `None`: the holder takes part in a collective, which is the owner.
    pub(super) way: Option<Way>,
    /// Of a connection the source's own first.
    pub(super) links: Vec<LinkId>,
    pub(super) from: Time,
    pub(super) until: Time,
    /// The first lease without it: it ends at once when that is confirmed.
    pub(super) gone: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    guard: Time,
    claims: BTreeMap<ClaimId, Claim>,
    of_holder: BTreeMap<Holder, BTreeSet<ClaimId>>,
    of_link: Vec<Vec<ClaimId>>,
    next: u64,
}

impl Ledger {
    pub(super) const fn new(guard: Time) -> Self {
        Self {
            guard,
            claims: BTreeMap::new(),
            of_holder: BTreeMap::new(),
            of_link: Vec::new(),
            next: 0,
        }
    }

    /// Room for so many links.
    pub(super) fn grow(&mut self, links: usize) {
        if links > self.of_link.len() {
            self.of_link.resize(links, Vec::new());
        }
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<&Claim> {
        self.claims.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimId, &Claim)> {
        self.claims.iter().map(|(&id, claim)| (id, claim))
    }

    /// The claims of one agent.
    pub(super) fn of(&self, holder: Holder) -> impl Iterator<Item = (ClaimId, &Claim)> {
        let ids = self.of_holder.get(&holder).into_iter().flatten();
        ids.filter_map(|&id| Some((id, self.claims.get(&id)?)))
    }

    /// The claims of all sessions of a port.
    pub(super) fn of_port(&self, port: Guid) -> impl Iterator<Item = (ClaimId, &Claim)> {
        let session = |number| Holder { port, session: Session(number) };
        let holders = self.of_holder.range(session(0)..=session(u64::MAX));
        let ids = holders.flat_map(|(_, ids)| ids);
        ids.filter_map(|&id| Some((id, self.claims.get(&id)?)))
    }

    /// From when on others may be on the claim's links.
    fn clear_at(&self, claim: &Claim) -> Time {
        claim.until + self.guard
    }

    /// The claims of others that stand on these links after `from`. A port's own link is first in, first
    /// out: what one agent sends on it does not wait for what it sent before.
    pub(super) fn blockers<'a>(
        &'a self,
        owner: OwnerId,
        holder: Holder,
        links: &'a [LinkId],
        from: Time,
    ) -> impl Iterator<Item = (ClaimId, &'a Claim)> {
        let on = |(place, link): (usize, &LinkId)| {
            let ids = self.of_link.get(link.0 as usize).into_iter().flatten();
            ids.map(move |&id| (place, id))
        };
        links.iter().enumerate().flat_map(on).filter_map(move |(place, id)| {
            let claim = self.claims.get(&id)?;
            let own_port = place == 0 && claim.holder == holder;
            let blocks = claim.owner != owner && !own_port && self.clear_at(claim) > from;
            blocks.then_some((id, claim))
        })
    }

    /// From when on all these links are clear of others.
    pub(super) fn clear_from(&self, owner: OwnerId, holder: Holder, links: &[LinkId]) -> Time {
        let blockers = self.blockers(owner, holder, links, Time::ZERO);
        blockers.map(|(_, claim)| self.clear_at(claim)).max().unwrap_or(Time::ZERO)
    }

    pub(super) fn add(&mut self, claim: Claim) -> ClaimId {
        let id = ClaimId(self.next);
        self.next += 1;
        for link in &claim.links {
            self.of_link[link.0 as usize].push(id);
        }
        self.of_holder.entry(claim.holder).or_default().insert(id);
        self.claims.insert(id, claim);
        id
    }

    /// Lengthens a claim, unless others come after it on its links. What is gone stays gone.
    pub(super) fn extend(&mut self, id: ClaimId, until: Time) -> bool {
        let Some(claim) = self.claims.get(&id) else {
            return false;
        };
        let possible = claim.gone.is_none()
            && self.blockers(claim.owner, claim.holder, &claim.links, claim.from).next().is_none();
        if possible && let Some(claim) = self.claims.get_mut(&id) {
            claim.until = claim.until.max(until);
        }
        possible
    }

    /// The agent's lease `sequence` is the first without this claim.
    pub(super) fn end(&mut self, id: ClaimId, sequence: u64) {
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.gone.get_or_insert(sequence);
        }
    }

    /// What the claim's packets use from now on, besides.
    pub(super) fn widen(&mut self, id: ClaimId, links: &[LinkId]) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        for &link in links {
            if !claim.links.contains(&link) {
                claim.links.push(link);
                self.of_link[link.0 as usize].push(id);
            }
        }
    }

    /// The claim is over for certain.
    pub(super) fn release(&mut self, id: ClaimId) -> Option<Claim> {
        let claim = self.claims.remove(&id)?;
        for link in &claim.links {
            self.of_link[link.0 as usize].retain(|&other| other != id);
        }
        if let Some(ids) = self.of_holder.get_mut(&claim.holder) {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_holder.remove(&claim.holder);
            }
        }
        Some(claim)
    }

    /// What a confirmed lease ended.
    pub(super) fn confirmed(&self, holder: Holder, sequence: u64) -> Vec<ClaimId> {
        let ended = |claim: &Claim| claim.gone.is_some_and(|gone| gone <= sequence);
        self.of(holder).filter(|(_, claim)| ended(claim)).map(|(id, _)| id).collect()
    }

    /// What has run out.
    pub(super) fn expired(&self, now: Time) -> Vec<ClaimId> {
        let over = |claim: &Claim| self.clear_at(claim) <= now;
        self.iter().filter(|(_, claim)| over(claim)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARD: Time = Time(10);

    fn holder(port: u64) -> Holder {
        Holder { port: Guid(port), session: Session(1) }
    }

    fn claim(owner: u64, port: u64, links: &[u32], from: u64, until: u64) -> Claim {
        Claim {
            owner: OwnerId(owner),
            holder: holder(port),
            way: None,
            links: links.iter().copied().map(LinkId).collect(),
            from: Time(from),
            until: Time(until),
            gone: None,
        }
    }

    fn ledger(claims: &[Claim]) -> (Ledger, Vec<ClaimId>) {
        let mut ledger = Ledger::new(GUARD);
        ledger.grow(9);
        let ids = claims.iter().cloned().map(|claim| ledger.add(claim)).collect();
        (ledger, ids)
    }

    fn clear(ledger: &Ledger, claim: &Claim) -> u64 {
        ledger.clear_from(claim.owner, claim.holder, &claim.links).0
    }

    #[test]
    fn links_are_clear_a_guard_after_the_last_claim() {
        let (mut ledger, ids) =
            ledger(&[claim(1, 1, &[0, 5], 0, 100), claim(2, 2, &[1, 6], 0, 200)]);
        assert_eq!(clear(&ledger, &claim(3, 3, &[2, 5, 6], 0, 0)), 210);
        assert_eq!(clear(&ledger, &claim(3, 3, &[2, 5, 7], 0, 0)), 110);
        assert_eq!(clear(&ledger, &claim(3, 3, &[2, 7], 0, 0)), 0);
        // A connection is not in its own way.
        assert_eq!(clear(&ledger, &claim(1, 1, &[0, 5], 0, 0)), 0);
        ledger.release(ids[1]);
        assert_eq!(clear(&ledger, &claim(3, 3, &[2, 6], 0, 0)), 0);
    }

    #[test]
    fn a_port_follows_itself_on_its_own_link_only() {
        let (ledger, _) = ledger(&[claim(1, 1, &[0, 5], 0, 100)]);
        assert_eq!(clear(&ledger, &claim(2, 1, &[0, 6], 0, 0)), 0);
        assert_eq!(clear(&ledger, &claim(2, 1, &[0, 5], 0, 0)), 110);
        let mut restarted = claim(2, 1, &[0, 6], 0, 0);
        restarted.holder.session = Session(2);
        assert_eq!(clear(&ledger, &restarted), 110);
    }

    #[test]
    fn a_claim_is_lengthened_only_while_nobody_comes_after_it() {
        let (mut ledger, ids) =
            ledger(&[claim(1, 1, &[0, 5], 0, 100), claim(2, 2, &[1, 6], 0, 100)]);
        assert!(ledger.extend(ids[0], Time(150)));
        assert!(ledger.extend(ids[0], Time(120)));
        assert_eq!(ledger.get(ids[0]).unwrap().until, Time(150), "never shortened");
        ledger.add(claim(3, 3, &[2, 5], 160, 260));
        assert!(!ledger.extend(ids[0], Time(250)));
        // The one after it may grow: what was before it is over by then.
        ledger.end(ids[1], 4);
        assert!(!ledger.extend(ids[1], Time(250)), "what is gone stays gone");
    }

    #[test]
    fn claims_end_by_confirmation_or_by_time() {
        let (mut ledger, ids) =
            ledger(&[claim(1, 1, &[0, 5], 0, 100), claim(2, 1, &[0, 6], 0, 200)]);
        ledger.end(ids[0], 7);
        ledger.end(ids[0], 9);
        assert_eq!(ledger.confirmed(holder(1), 6), []);
        assert_eq!(ledger.confirmed(holder(1), 7), [ids[0]]);
        assert_eq!(ledger.confirmed(holder(2), 7), []);
        assert_eq!(ledger.expired(Time(109)), []);
        assert_eq!(ledger.expired(Time(110)), [ids[0]]);
        assert_eq!(ledger.expired(Time(210)), ids);
    }
}
