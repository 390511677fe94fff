//! The sweep's reaction to a trap.

use std::collections::BTreeMap;

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::{Attribute as _, LidRouted, MKey, Mad, Method, Notice, PERMISSIVE, Route, Smp};

use super::{Stage, Sweep};
use crate::events::Output;
use crate::query::{NodeId, PortId};
use crate::report::Report;
use crate::trap::{self, Look};
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::{Destination, LocalPort};

/// The most ports whose trap is answered once more.
const MOST_ANSWERED: usize = 1_024;

/// The last answer to each port's traps since the fabric was settled, and the ports that it left by.
#[derive(Default)]
pub(super) struct AnsweredTraps(BTreeMap<(LocalPort, Lid), (Box<Mad>, Vec<PortId>)>);

impl Sweep {
    /// The master answers every trap, also one that it cannot use, and also after it handed over: the port that
    /// sent it repeats it until it is answered, and OpenSM waits for the answer to its own before it sweeps.
    pub(super) fn trap(&mut self, port: LocalPort, source: Lid, mad: &Mad, smp: &Smp) {
        // The master is told too, and looks at all that an earlier one left.
        if self.leave.follows() {
            if self.leave.lingers {
                self.repress((port, source), mad, smp);
            }
            return self.metrics.count_dropped(Dropped::Request);
        }
        if port.0 >= u32::from(self.config.ports) {
            return self.metrics.count_dropped(Dropped::WrongPort);
        }
        self.repress((port, source), mad, smp);
        let Ok(notice) = mad.attribute::<Notice>() else {
            return self.metrics.count_dropped(Dropped::Malformed);
        };
        let trap::Meaning { number, known, issuer, look } = match trap::meaning(&notice) {
            Ok(meaning) => meaning,
            Err(why) => return self.metrics.count_dropped(why),
        };
        let Some(end) = self.owner(issuer) else {
            return self.metrics.count_dropped(Dropped::UnknownIssuer);
        };
        *self.metrics.traps.entry(known).or_insert(0) += 1;
        let name = self.graph.node(end.0).label();
        self.outputs.push_back(Output::Report(Report::Trap { number, issuer, name }));
        match look {
            Look::Switch => self.suspect(end.0),
            Look::Port => {
                self.pending.refresh.insert(end);
                self.make_way();
            }
            Look::Keys if self.config.m_key_lease_s > 0 => {
                self.pending.verify.insert(end.0);
            }
            Look::Keys | Look::Nothing => {}
        }
    }

    /// Stops the trap from being repeated (IBA 14.3.1). A port that is not known is shown no key: one that has
    /// this manager's is known.
    fn repress(&mut self, (port, source): (LocalPort, Lid), mad: &Mad, smp: &Smp) {
        if source == PERMISSIVE || source == Lid::NONE || smp.route != Route::Lid {
            return;
        }
        let mut answer = Box::new(mad.clone());
        answer.answer(snin_mad::Status::OK);
        // It is a write (IBA 14.2.4.1).
        let key = self.owner(source).map_or(MKey(0), |end| self.graph.key_to_show(end, 0));
        LidRouted::edit(&mut answer.0).m_key(key);
        if self.answered_traps.0.len() < MOST_ANSWERED {
            let path = self.graph.forwarding_path(port, source);
            self.answered_traps.0.insert((port, source), (answer.clone(), path));
        }
        self.send_repress(port, source, answer);
    }

    /// Sends once more the answers to traps that were lost: those which left along a cable that is gone by now,
    /// and often is what the trap was about. A port that waits for its answer sends no other trap, so that the
    /// manager would hear of the next cut late.
    pub(super) fn repress_again(&mut self) {
        let answered = std::mem::take(&mut self.answered_traps.0);
        for ((port, source), (answer, path)) in answered {
            if path.iter().any(|&end| self.graph.link(end).is_none()) {
                self.send_repress(port, source, answer);
            }
        }
    }

    fn send_repress(&mut self, port: LocalPort, source: Lid, answer: Box<Mad>) {
        self.metrics.count_sent(Notice::ID, Method::TrapRepress);
        let to = Destination::Lid(source);
        self.outputs.push_back(Output::Send { port, to, mad: answer });
    }

    /// A health monitor says that a node has joined or left: the switches at which it is cabled are looked at, and
    /// whether it answers; all switches, where it is not known. However often that is said, it is one look.
    pub(super) fn look_for(&mut self, node: Guid) {
        if self.leave.follows() {
            return;
        }
        self.metrics.health_reports += 1;
        let Some(id) = self.graph.find(node) else {
            self.pending.light = true;
            return self.make_way();
        };
        let cables: Vec<PortId> =
            self.graph.node(id).ports.iter().filter_map(|port| Some(port.link?.to)).collect();
        for (neighbour, port) in cables {
            self.suspect(neighbour);
            self.pending.awake.insert((neighbour, port));
        }
    }

    fn suspect(&mut self, id: NodeId) {
        match &mut self.stage {
            Stage::Survey(survey) if survey.takes_trap(id) => survey.suspect(id),
            _ => {
                self.pending.suspects.insert(id);
                self.make_way();
            }
        }
    }

    /// The port that was given this address, or holds it still from before.
    fn owner(&self, lid: Lid) -> Option<PortId> {
        let given = self.target.as_ref().and_then(|target| {
            let (port, _) = target.addresses.owner(lid)?;
            Some(target.discovered.end(port)).filter(|end| end.1 != PortNum::NONE)
        });
        given.or_else(|| self.graph.holder(lid))
    }
}
