//! Other subnet managers: who is master, and what is told to those who ask (IBA 14.4).
//!
//! One rule so far: whoever finds a master stands aside, and looks again with every sweep; of two masters
//! that meet the junior does. Handing over, and being handed over to, has its place here.

use std::cmp::Reverse;

use snin_fabric::Lid;
use snin_mad::{Attribute, Mad, Method, PERMISSIVE, Route, SmInfo, SmState, Smp, Status};

use super::Sweep;
use crate::ask::NodeId;
use crate::error::Dropped;
use crate::events::{Destination, LocalPort, Output, Report};

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
        let (Some(to), Some(info)) = (to, self.sm_info()) else {
            return self.metrics.count_dropped(Dropped::Request);
        };
        let mut answer = Box::new(mad.clone().with(&info));
        answer.answer(Status::OK);
        self.metrics.count_sent(SmInfo::ID, Method::GetResp);
        self.outputs.push_back(Output::Send { port, to, mad: answer });
    }

    /// After a survey: tells of managers that were not known, or are in another state than before. `true`
    /// where one of them is the master instead of this one.
    pub(super) fn stands_aside(&mut self) -> bool {
        let Some(own) = self.sm_info() else { return false };
        let rank = |info: &SmInfo| (info.priority, Reverse(info.guid));
        let was_master = self.state == SmState::Master;
        let mut aside = false;
        let mut known = Vec::new();
        for (id, node) in self.graph.reachable() {
            for (num, port) in (0u8..).zip(&node.ports) {
                let Some(info) = &port.manager else { continue };
                aside |= info.state == SmState::Master && !(was_master && rank(&own) > rank(info));
                // It rises all the time.
                let info = SmInfo { act_count: 0, ..info.clone() };
                let at = self.graph.port_name((id, snin_fabric::PortNum(num)));
                known.push((at, info));
            }
        }
        for other in known.iter().filter(|other| !self.managers.contains(other)) {
            let (at, info) = other.clone();
            self.outputs.push_back(Output::Report(Report::OtherManager { at, info }));
        }
        self.managers = known;
        if aside {
            self.set_state(SmState::Standby);
        }
        aside
    }
}
