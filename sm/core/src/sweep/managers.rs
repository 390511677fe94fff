//! Other subnet managers: who is master, and what is told to those who ask (IBA 14.4).
//!
//! Every other manager is polled by itself, whatever else goes on: one that left a poll without an answer is
//! still there, and is asked again. A manager that finds a master stands aside, and then only polls; of two
//! masters that meet the junior does. Handing over, and being handed over to, has its place here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Lid, PortNum};
use snin_mad::port::Capabilities;
use snin_mad::{Attribute, Mad, Method, PERMISSIVE, Route, SmInfo, SmKey, SmState, Smp, Status};
use snin_protocol::Time;

use super::{Pending, Stage, Sweep};
use crate::error::Dropped;
use crate::events::{Destination, LocalPort, Output, Report};
use crate::query::{NodeId, PortId, Query};
use crate::smp;

/// A manager whose deadlines are missed by so much stood still: somebody else may be master by now.
const STALL: Time = Time::secs(2);

/// Another manager: a port that says that one sits there.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// What it last said of itself, if it ever answered.
    info: Option<SmInfo>,
    /// What was last told of it.
    told: Option<SmInfo>,
    /// Polls in a row without an answer.
    unanswered: u32,
    /// A poll is in flight.
    asked: bool,
    due: Time,
}

/// Every other manager. An entry goes when its port says that no manager sits there any more, or is gone.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_port: BTreeMap<PortId, Peer>,
    /// Masters beside this one. When one ends, all that it may have written is read again.
    rivals: BTreeSet<PortId>,
    /// After this manager stood still: who has to answer before anything is written.
    fence: BTreeSet<PortId>,
}

impl Peers {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.by_port.values().filter(|peer| !peer.asked).map(|peer| peer.due).min()
    }

    /// Whether nothing may be written yet.
    pub(super) fn holds_back(&self) -> bool {
        !self.fence.is_empty()
    }
}

/// The higher, the more it is to be master.
fn rank(info: &SmInfo) -> (u8, Reverse<snin_fabric::Guid>) {
    (info.priority, Reverse(info.guid))
}

impl Sweep {
    /// Whether this manager is master, or what else.
    pub const fn state(&self) -> SmState {
        self.state
    }

    pub(super) fn set_state(&mut self, state: SmState) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(Output::Report(Report::State(state)));
        }
    }

    /// What this manager says of itself, once it knows where it sits.
    pub(super) fn sm_info(&self) -> Option<SmInfo> {
        let own = self.graph.ids().next().map(|_| self.graph.node(NodeId::OWN))?;
        Some(SmInfo {
            guid: own.info.port_guid,
            act_count: self.metrics.smps() as u32,
            priority: self.config.priority,
            state: self.state,
            ..SmInfo::default()
        })
    }

    /// Somebody asks who is master here.
    pub(super) fn asked(&mut self, port: LocalPort, source: Lid, mad: &Mad, smp: &Smp) {
        if port != self.config.local_port() {
            return self.metrics.count_dropped(Dropped::WrongPort);
        }
        let to = match smp.route {
            Route::Directed { .. } => Some(Destination::Directed),
            Route::Lid => Some(source)
                .filter(|&source| source != PERMISSIVE && source != Lid::NONE)
                .map(Destination::Lid),
        };
        let (Some(to), Some(mut info)) = (to, self.sm_info()) else {
            return self.metrics.count_dropped(Dropped::Request);
        };
        // The key is shown only to a requester that has it (IBA 14.4.7).
        let shown = mad.attribute::<SmInfo>().map_or(SmKey(0), |asker| asker.sm_key);
        if shown == SmKey(self.config.sm_key) {
            info.sm_key = shown;
        }
        let mut answer = Box::new(mad.clone().with(&info));
        answer.answer(Status::OK);
        self.metrics.count_sent(SmInfo::ID, Method::GetResp);
        self.outputs.push_back(Output::Send { port, to, mad: answer });
    }

    /// What a manager says, if it is there and of this subnet: one with another key is none (IBA 14.4.7).
    fn heeded<'a>(&self, peer: &'a Peer) -> Option<&'a SmInfo> {
        let key = |info: &&SmInfo| {
            let (own, shown) = (self.config.sm_key, info.sm_key.0);
            own == 0 || shown == 0 || shown == own
        };
        self.living(peer).filter(key)
    }

    fn living<'a>(&self, peer: &'a Peer) -> Option<&'a SmInfo> {
        peer.info.as_ref().filter(|_| peer.unanswered <= self.config.poll_retries)
    }

    /// Every other manager that answers, by port; their counts, which rise all the time, left out.
    pub(super) fn other_managers(&self) -> impl Iterator<Item = (PortId, &SmInfo)> {
        self.peers.by_port.iter().filter_map(|(&end, peer)| Some((end, peer.told.as_ref()?)))
    }

    /// Masters that this one does not stand aside for, by port.
    pub(super) fn rivals(&self) -> Vec<(PortId, SmInfo)> {
        let master = |(&end, peer): (&PortId, &Peer)| {
            let info = self.living(peer).filter(|info| info.state == SmState::Master)?;
            Some((end, info.clone()))
        };
        self.peers.by_port.iter().filter_map(master).collect()
    }

    /// Whether another manager goes before: a master, but for one that this master outranks; or one that
    /// begins at the same time and outranks this one.
    fn gives_way(&self) -> bool {
        let Some(own) = self.sm_info() else { return false };
        self.peers.by_port.values().filter_map(|peer| self.heeded(peer)).any(|info| {
            let outranks = rank(info) > rank(&own);
            match info.state {
                SmState::Master => self.state != SmState::Master || outranks,
                SmState::Discovering => self.state != SmState::Master && outranks,
                _ => false,
            }
        })
    }

    /// After a survey: which managers there are. `true` where one of them goes before this one.
    pub(super) fn stands_aside(&mut self, now: Time) -> bool {
        let mut found = BTreeMap::new();
        for (id, node) in self.graph.reachable() {
            for (num, port) in (0u8..).zip(&node.ports) {
                let sits = |info: &snin_mad::PortInfo| info.capabilities.has(Capabilities::SM);
                let end = (id, PortNum(num));
                if end != self.graph.own_end() && port.info.as_ref().is_some_and(sits) {
                    found.insert(end, port.manager.clone());
                }
            }
        }
        let gone: Vec<PortId> =
            self.peers.by_port.keys().filter(|end| !found.contains_key(end)).copied().collect();
        for end in gone {
            self.forget_manager(end);
        }
        for (end, info) in found {
            let poll = self.config.poll_interval();
            let peer = self.peers.by_port.entry(end).or_default();
            if peer.due == Time::ZERO {
                peer.due = now + poll;
            }
            // What a survey read is as good as a poll, and is read only once.
            if let Some(info) = info {
                (peer.info, peer.unanswered) = (Some(info), 0);
            }
            if let Some(port) = self.graph.port_mut(end) {
                port.manager = None;
            }
        }
        self.consider(now);
        self.state == SmState::Standby
    }

    fn forget_manager(&mut self, end: PortId) {
        let Some(peer) = self.peers.by_port.remove(&end) else { return };
        self.peers.fence.remove(&end);
        if peer.told.is_some() {
            let at = self.graph.port_name(end);
            self.outputs.push_back(Output::Report(Report::ManagerGone { at }));
        }
        if self.peers.rivals.remove(&end) {
            self.begin_anew();
        }
    }

    /// All that is known may have been overwritten.
    pub(super) fn begin_anew(&mut self) {
        (self.pending.full, self.pending.anew) = (true, true);
        self.interrupt();
    }

    /// Polls the managers whose time it is.
    pub(super) fn poll_managers(&mut self, now: Time) {
        let interval = self.config.poll_interval();
        let due = |peer: &Peer| !peer.asked && peer.due <= now;
        let ends: Vec<PortId> =
            self.peers.by_port.iter().filter(|(_, peer)| due(peer)).map(|(&end, _)| end).collect();
        for end in ends {
            let Some(peer) = self.peers.by_port.get_mut(&end) else { continue };
            (peer.asked, peer.due) = (true, now + interval);
            match smp::question(&self.graph, Query::Poll(end)) {
                Some(mad) => {
                    let again = self.config.attempts.saturating_sub(1);
                    let mad = self.transactions.send_beside(Query::Poll(end), mad, again, now);
                    self.send(mad);
                }
                None => self.polled(end, None, now),
            }
        }
    }

    /// A manager answered, or did not.
    pub(super) fn polled(&mut self, end: PortId, info: Option<SmInfo>, now: Time) {
        let Some(peer) = self.peers.by_port.get_mut(&end) else { return };
        peer.asked = false;
        match info {
            Some(info) => (peer.info, peer.unanswered) = (Some(info), 0),
            None => peer.unanswered = peer.unanswered.saturating_add(1),
        }
        let fenced = self.peers.fence.remove(&end);
        self.consider(now);
        if fenced && !self.peers.holds_back() && self.state == SmState::Master {
            self.begin_anew();
        }
    }

    /// What follows from what the other managers say.
    fn consider(&mut self, now: Time) {
        self.report_managers();
        let rivals: BTreeSet<PortId> = match self.state {
            SmState::Master => self.rivals().into_iter().map(|(end, _)| end).collect(),
            _ => BTreeSet::new(),
        };
        let ended = self.peers.rivals.iter().any(|end| !rivals.contains(end));
        self.peers.rivals = rivals;
        match (self.gives_way(), self.state) {
            (true, SmState::Standby) => {}
            (true, _) => self.stand_aside(now),
            (false, SmState::Standby) => {
                // The last master wrote what this manager has not seen.
                self.set_state(SmState::Discovering);
                self.begin_anew();
            }
            (false, _) if ended => self.begin_anew(),
            (false, _) => {}
        }
    }

    fn report_managers(&mut self) {
        let mut reports = Vec::new();
        let retries = self.config.poll_retries;
        for (&end, peer) in &mut self.peers.by_port {
            let living = peer.info.as_ref().filter(|_| peer.unanswered <= retries);
            // The count rises all the time.
            let now = living.map(|info| SmInfo { act_count: 0, ..info.clone() });
            if now == peer.told {
                continue;
            }
            peer.told.clone_from(&now);
            let at = self.graph.port_name(end);
            reports.push(match now {
                Some(info) => Report::OtherManager { at, info },
                None => Report::ManagerGone { at },
            });
        }
        self.stage_ended |= !reports.is_empty();
        self.outputs.extend(reports.into_iter().map(Output::Report));
    }

    /// From now on this manager writes nothing, and asks nothing but whether the master is there.
    fn stand_aside(&mut self, now: Time) {
        self.transactions.abandon(|query| matches!(query, Query::Poll(_)));
        (self.stage, self.pending) = (Stage::Idle, Pending::default());
        (self.silence, self.failures) = Default::default();
        (self.early, self.next_light) = (None, None);
        self.unsent.clear();
        self.peers.fence.clear();
        self.peers.rivals.clear();
        self.set_state(SmState::Standby);
        let interval = self.config.poll_interval();
        for peer in self.peers.by_port.values_mut().filter(|peer| !peer.asked) {
            peer.due = peer.due.min(now + interval);
        }
    }

    /// Whether this manager stood still, as a stopped process or a machine without time does. A master asks
    /// every other manager before it writes again.
    pub(super) fn notice_stall(&mut self, now: Time) {
        let missed = self.next_deadline().is_some_and(|due| now > due + STALL);
        if !missed || self.state != SmState::Master || self.peers.by_port.is_empty() {
            return;
        }
        self.transactions.abandon(|_| false);
        (self.stage, self.pending) = (Stage::Idle, Pending::default());
        (self.silence, self.early) = Default::default();
        self.unsent.clear();
        for (&end, peer) in &mut self.peers.by_port {
            (peer.asked, peer.due) = (false, now);
            self.peers.fence.insert(end);
        }
        self.poll_managers(now);
    }
}
