//! A bridge to the manager of another subnet, for what managers say in-band.
//!
//! ```text
//! look -> read -> drop -> lead -> arm -> activate -> lend
//! ```
//!
//! The other manager has ceded and writes nothing more; this one holds back all else until the other's database is
//! here. Both subnets use the same addresses, so nothing by address finds the other manager. Its port is lent an
//! address that is free in both, and one way there is programmed, in the switches of both; by the same way back
//! the other's switches lead this manager's own address. That address meant one of their own ports until then: it
//! drops in all of them before it leads here in any. All is written by directed routes.

mod moves;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::{Attribute as _, LinearForwarding, Mad, PortInfo, Route, Smp, SwitchInfo};
use snin_protocol::Time;

use self::moves::{Bridge, Move, Wave, Way};
use super::{Stage, Sweep};
use crate::activate::port_info;
use crate::query::{NodeId, PortId, Query};
use crate::schedule::PortWrite;
use crate::smp;

/// After a bridge could not be built the next one is tried.
const AGAIN: Time = Time::secs(1);

/// What there is of a bridge.
#[derive(Debug, Default)]
pub(super) struct Bridges {
    now: Option<Bridge>,
    /// Where one could not be built, when the next is tried.
    not_before: Time,
}

impl Bridges {
    pub(super) fn next_deadline(&self) -> Option<Time> {
        Some(self.not_before).filter(|&due| due != Time::ZERO)
    }

    /// Whether the next one may be tried is seen in every turn.
    pub(super) fn rest(&mut self, now: Time) {
        if self.not_before <= now {
            self.not_before = Time::ZERO;
        }
    }
}

impl Sweep {
    /// Builds a bridge to these managers, while nothing else may be written; to none: there is none any more.
    /// Whether one is to be planned, for what is known of the fabric now.
    pub(crate) fn bridge(&mut self, wanted: &BTreeSet<Guid>, now: Time) -> bool {
        if wanted.is_empty() {
            self.burn_bridges();
            return false;
        }
        let standing = self.bridges.now.as_ref();
        if standing.is_some_and(|bridge| bridge.lent.keys().eq(wanted)) {
            self.build(now);
            return false;
        }
        let waits = now < self.bridges.not_before || self.transactions.in_flight() > 0;
        if waits || self.leave.explores {
            return false;
        }
        let unmet = |guid: &Guid| self.graph.by_port(*guid).is_none();
        if self.pending.full || wanted.iter().any(unmet) {
            self.pending.full = true;
            self.leave.explores = true;
            self.advance(now);
            return false;
        }
        true
    }

    /// Plans the bridge and begins to build it. `wishes`: addresses that ports will have when the subnets are one.
    pub(crate) fn begin_bridge(
        &mut self,
        wanted: &BTreeSet<Guid>,
        wishes: &BTreeMap<Guid, (Lid, Lmc)>,
        now: Time,
    ) {
        self.bridges.not_before = Time::ZERO;
        match self.plan_bridge(wanted, wishes) {
            Some(bridge) => self.bridges.now = Some(bridge),
            None => self.fail(now),
        }
        self.build(now);
    }

    fn fail(&mut self, now: Time) {
        // What was found may have been wrong.
        self.pending.full = true;
        self.transactions.abandon(|query| !matches!(query, Query::Bridge(..)));
        self.bridges = Bridges { now: None, not_before: now + AGAIN };
    }

    pub(super) fn burn_bridges(&mut self) {
        if self.bridges.now.take().is_some() {
            self.transactions.abandon(|query| !matches!(query, Query::Bridge(..)));
        }
        self.bridges.not_before = Time::ZERO;
        if std::mem::take(&mut self.leave.explores) && matches!(self.stage, Stage::Survey(_)) {
            (self.stage, self.pending.full) = (Stage::Idle, true);
            self.transactions.abandon(Query::writes);
            self.unsent.clear();
        }
    }

    /// Addresses that were lent, once a way leads there.
    pub(crate) fn lent(&self) -> BTreeMap<Guid, (Lid, Lmc)> {
        let built = self.bridges.now.as_ref().filter(|bridge| bridge.wave == Wave::Built);
        let lent = built.into_iter().flat_map(|bridge| &bridge.lent);
        lent.map(|(&guid, &(_, lid, lmc))| (guid, (lid, lmc))).collect()
    }

    fn plan_bridge(
        &self,
        wanted: &BTreeSet<Guid>,
        wishes: &BTreeMap<Guid, (Lid, Lmc)>,
    ) -> Option<Bridge> {
        let own_end = self.graph.own_end();
        let own = self.graph.port(own_end)?.info.as_ref()?;
        let before = self.bridges.now.as_ref().map(|bridge| &bridge.lent);
        let mut taken = self.taken_addresses();
        let mut lent = BTreeMap::new();
        for guid in wanted {
            let end = self.graph.by_port(*guid)?;
            if self.graph.is_locked(end) {
                return None;
            }
            // After a split it has one here already.
            let known = self.saved.lids.get(guid).or_else(|| wishes.get(guid)).copied();
            let known = known.filter(|known| self.is_only_of(end, known));
            let kept = before.and_then(|before| before.get(guid)).map(|&(_, lid, lmc)| (lid, lmc));
            let lmc = if self.graph.node(end.0).is_switch() { Lmc::ZERO } else { own.lmc };
            let free = || Some((self.free_address(&mut taken, lmc)?, lmc));
            let (lid, lmc) = kept.or(known).or_else(free)?;
            lent.insert(*guid, (end, lid, lmc));
        }
        let ways = self.graph.ways_from(own_end);
        let mut way = Way::default();
        let is_ours = |id: NodeId| self.is_ours(id);
        for &(end, lid, _) in lent.values() {
            way.lead(&self.graph, &ways, (end, lid), (own.lid, &is_ours))?;
        }
        let reached = self.graph.managed().filter(|(id, node)| node.is_switch() && !is_ours(*id));
        let theirs: Vec<NodeId> = reached.map(|(id, _)| id).collect();
        let top = |id: &NodeId| Some((*id, self.graph.node(*id).switch.as_ref()?.linear_fdb_top));
        let tops = way.entries.keys().chain(&theirs).filter_map(top).collect();
        Some(
            Bridge {
                lent,
                own: own.lid,
                theirs,
                way,
                blocks: BTreeMap::new(),
                tops,
                wave: Wave::Read,
                moves: Vec::new(),
                waiting: VecDeque::new(),
                in_flight: 0,
            }
            .begun(),
        )
    }

    /// Whether no other port has one of these addresses.
    fn is_only_of(&self, end: PortId, &(lid, lmc): &(Lid, Lmc)) -> bool {
        let mut all = (0..lmc.addresses() as u16).map(|n| Lid(lid.0.saturating_add(n)));
        all.all(|lid| self.graph.holder(lid).is_none_or(|holder| holder == end))
    }

    /// Whether this manager gave the node its address.
    fn is_ours(&self, id: NodeId) -> bool {
        let node = self.graph.node(id);
        let guid = node.ports.first().and_then(|port| port.guid).unwrap_or(node.info.port_guid);
        let held = node.ports.first().and_then(|port| port.info.as_ref()).map(|info| info.lid);
        self.saved.lids.get(&guid).is_some_and(|&(lid, _)| Some(lid) == held)
    }

    /// Addresses in use here or there.
    fn taken_addresses(&self) -> Vec<bool> {
        let mut taken = vec![false; Lid::MAX_UNICAST.index() + 1];
        let found = self.graph.reachable().flat_map(|(_, node)| &node.ports);
        let found = found.filter_map(|port| port.info.as_ref()).map(|info| (info.lid, info.lmc));
        for (lid, lmc) in self.saved.lids.values().copied().chain(found) {
            let block = taken.get_mut(lid.index()..lid.index() + lmc.addresses());
            block.into_iter().flatten().for_each(|taken| *taken = true);
        }
        taken
    }

    fn free_address(&self, taken: &mut [bool], lmc: Lmc) -> Option<Lid> {
        let capacity = |(_, node): (NodeId, &crate::graph::Node)| {
            node.switch.as_ref().map(|info| info.linear_fdb_cap.saturating_sub(1))
        };
        let most = self.graph.managed().filter_map(capacity).min().map(Lid)?;
        let (size, most) = (lmc.addresses(), most.min(Lid::MAX_UNICAST).index());
        let mut starts = (size..=most + 1).step_by(size).filter(|start| start + size <= most + 1);
        let free = starts.find(|&start| taken[start..start + size].iter().all(|taken| !taken))?;
        taken[free..free + size].fill(true);
        Some(Lid(free as u16))
    }

    /// Sends what is due of the bridge.
    pub(super) fn build(&mut self, now: Time) {
        loop {
            while self.has_room() {
                let Some(bridge) = &mut self.bridges.now else { return };
                let Some(number) = bridge.waiting.pop_front() else { break };
                let Some((query, mad)) = self.bridge_mad(number) else { return self.fail(now) };
                if let Some(bridge) = &mut self.bridges.now {
                    bridge.in_flight += 1;
                }
                let mad = self.transactions.send(query, query.agent(), mad, now);
                self.send(mad);
            }
            let Some(bridge) = &mut self.bridges.now else { return };
            if bridge.in_flight > 0 || !bridge.waiting.is_empty() || bridge.wave == Wave::Built {
                return;
            }
            bridge.next_wave(&self.graph);
        }
    }

    fn bridge_mad(&self, number: u32) -> Option<(Query, (crate::mad_address::LocalPort, Mad))> {
        let bridge = self.bridges.now.as_ref()?;
        let step = bridge.moves.get(number as usize)?;
        let end = step.end();
        let query = Query::Bridge(end.0, end.1, number);
        let trail = self.graph.path_to(end)?;
        let key = self.graph.key_to_show(end, 0);
        let route = Route::directed(trail.path);
        let mad = match *step {
            Move::Read(_, block) => {
                Smp::get(LinearForwarding::ID, block.into(), route).m_key(key).mad()
            }
            Move::Block(id, block) => {
                let ports = bridge.blocks.get(&(id, block))?.map(PortNum);
                smp::set(key, trail.path, block.into(), &LinearForwarding { ports })
            }
            Move::Top(id) => {
                let info = self.graph.node(id).switch.clone()?;
                let linear_fdb_top = *bridge.tops.get(&id)?;
                let info = SwitchInfo { linear_fdb_top, port_state_change: false, ..info };
                smp::set(key, trail.path, 0, &info)
            }
            Move::Port(end, write) => {
                let info = port_info(&self.graph, end, write, &self.config, bridge.own)?;
                smp::set(key, trail.path, end.1.0.into(), &info)
            }
            Move::Lend(end, lid, lmc) => {
                let held = self.graph.port(end)?.info.as_ref()?;
                let write = PortWrite { address: Some((lid, lmc)), ..PortWrite::default() };
                let info = port_info(&self.graph, end, write, &self.config, bridge.own)?;
                // All else stays as its own manager made it until the subnets are one.
                let info = PortInfo {
                    m_key: held.m_key,
                    m_key_protect: held.m_key_protect,
                    m_key_lease_period: held.m_key_lease_period,
                    gid_prefix: held.gid_prefix,
                    subnet_timeout: held.subnet_timeout,
                    client_reregister: false,
                    ..info
                };
                smp::set(key, trail.path, end.1.0.into(), &info)
            }
        };
        Some((query, (trail.from, mad)))
    }

    /// What came of a step: nothing where there was no answer, or a refusal.
    pub(super) fn bridge_answered(&mut self, number: u32, answer: Option<&Mad>, now: Time) {
        let Some(bridge) = &mut self.bridges.now else { return };
        bridge.in_flight = bridge.in_flight.saturating_sub(1);
        let taken = answer.and_then(|mad| bridge.took(number, mad));
        let Some(end) = taken else { return self.fail(now) };
        if let Some((end, info)) = end
            && let Some(port) = self.graph.port_mut(end)
        {
            // The host there registers again when the subnets are one.
            self.lapsed.extend(port.guid.filter(|_| info.lid != Lid::NONE));
            port.info = Some(info);
        }
        self.build(now);
    }
}
