//! Beside mastership: the sweep says which managers a survey met, and does what it is ordered.

use snin_fabric::{Lid, PortNum};
use snin_mad::Method;
use snin_mad::port::Capabilities;
use snin_protocol::Time;

use super::{Pending, Stage, Sweep};
use crate::query::{PortId, Query};
use crate::report::Missing;
use snin_sm_database::error::Dropped;
use snin_sm_database::managers::{Found, Order, Own};

/// What the sweep may do.
#[derive(Debug)]
pub(super) struct Leave {
    /// After each survey it asks which managers go before this one, and waits for the answer.
    pub(super) consults: bool,
    /// It waits for that answer: where another manager was found to have written, the place.
    awaits: Option<Option<PortId>>,
    /// A survey has ended, and its finds were not asked for yet.
    surveyed: bool,
    /// It writes nothing for now.
    held: bool,
    /// Another manager is master.
    follows: bool,
    /// Another manager is master since a moment ago: ports send this one still what is the master's to hear.
    pub(super) lingers: bool,
    /// A survey was followed by leave to go on.
    proceeds: bool,
    /// The subnet is as this manager made it.
    pub(super) leads: bool,
    /// Writes sent so far, and how many there may be before mastership has looked at other managers again.
    written: u64,
    until: u64,
    /// Other masters, as mastership found them.
    pub(super) rivals: Vec<Missing>,
}

impl Default for Leave {
    fn default() -> Self {
        Self {
            consults: false,
            awaits: None,
            surveyed: false,
            held: false,
            follows: false,
            lingers: false,
            proceeds: false,
            leads: false,
            written: 0,
            until: u64::MAX,
            rivals: Vec::new(),
        }
    }
}

impl Leave {
    /// A survey has ended, or what stands for one: from now on it waits for mastership's word.
    pub(super) const fn end_survey(&mut self) {
        (self.follows, self.awaits, self.surveyed) = (false, Some(None), true);
    }

    /// Whether anything may be begun.
    pub(super) const fn is_given(&self) -> bool {
        !self.held && !self.follows && self.awaits.is_none()
    }

    /// Whether nothing may be written for now.
    pub(super) const fn is_held(&self) -> bool {
        self.held
    }

    /// Whether a write may be sent before the next look at other managers.
    pub(super) const fn may_write(&self) -> bool {
        self.written < self.until
    }

    /// An SMP is sent.
    pub(super) fn count(&mut self, method: Method) {
        self.written += u64::from(method == Method::Set);
    }

    /// Whether it is not known yet that no other manager is master.
    pub(super) const fn looks_only(&self) -> bool {
        self.consults && !self.leads && !self.proceeds
    }

    /// Whether another manager is master.
    pub(super) const fn follows(&self) -> bool {
        self.follows
    }
}

impl Sweep {
    /// From now on each survey is followed by a look at other managers.
    pub const fn consult(&mut self) {
        self.leave.consults = true;
    }

    /// Whether the subnet is as this manager made it: what was read by another's time is worth nothing.
    pub const fn leads(&self) -> bool {
        self.leave.leads
    }

    /// Whether this manager handed over a moment ago, so that some ports take it for the master.
    pub const fn set_lingering(&mut self, lingers: bool) {
        self.leave.lingers = lingers;
    }

    /// Masters beside this one, of another key.
    pub fn rivals(&self) -> &[Missing] {
        &self.leave.rivals
    }

    /// Masters beside this one, which are missing nowhere and too many here.
    pub fn set_rivals(&mut self, rivals: Vec<Missing>) {
        self.leave.rivals = rivals;
    }

    /// The end of a survey, where nothing is left to be asked.
    pub(super) fn surveyed(&mut self, overwritten: Option<PortId>, now: Time) {
        if self.leave.consults {
            (self.leave.awaits, self.leave.surveyed) = (Some(overwritten), true);
        } else {
            self.after_survey(overwritten, now);
        }
    }

    /// Writes sent so far.
    pub const fn written(&self) -> u64 {
        self.leave.written
    }

    /// So many writes there may be before the next look at other managers.
    pub fn write_until(&mut self, until: u64, now: Time) {
        let waited = !self.leave.may_write();
        self.leave.until = until;
        if waited && self.leave.may_write() {
            self.advance(now);
        }
    }

    /// Whether one more SMP of a stage that writes may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.transactions.has_room() && self.leave.may_write()
    }

    /// Where this manager sits, once it has asked its own node.
    pub fn own(&self) -> Option<Own> {
        let guid = self.own_guid()?;
        let end = self.graph.own_end();
        Some(Own { guid, place: self.place(end), at: self.graph.port_name(end) })
    }

    /// Where this manager sits and where others do, once after each survey.
    pub fn take_found(&mut self) -> Option<(Option<Own>, Vec<Found>)> {
        if !std::mem::take(&mut self.leave.surveyed) {
            return None;
        }
        let own = self.own();
        let mut found = Vec::new();
        for (id, node) in self.graph.reachable() {
            for (num, port) in (0u8..).zip(&node.ports) {
                let end = (id, PortNum(num));
                let Some(info) = &port.info else { continue };
                if self.graph.is_home(end) || !info.capabilities.has(Capabilities::SM) {
                    continue;
                }
                let lid = if node.is_switch() {
                    node.ports.first().and_then(|port| port.info.as_ref()).map(|info| info.lid)
                } else {
                    Some(info.lid)
                };
                let lid = lid.filter(|lid| matches!(lid, Lid(1..=0xBFFF))).unwrap_or(Lid::NONE);
                let guid = port.guid.unwrap_or(node.info.port_guid);
                found.push((
                    end,
                    Found {
                        guid,
                        place: self.place(end),
                        at: self.graph.port_name(end),
                        lid,
                        route: self.graph.path_to(end),
                        m_key: self.graph.key_to_ask(Query::ReadManager(id, PortNum(num)), 0),
                        info: port.manager.clone(),
                    },
                ));
            }
        }
        // What a survey read is as good as a poll, and is told only once.
        for (end, _) in &found {
            if let Some(port) = self.graph.port_mut(*end) {
                port.manager = None;
            }
        }
        Some((own, found.into_iter().map(|(_, found)| found).collect()))
    }

    /// Whether a survey has ended whose finds were not asked for yet.
    pub const fn has_surveyed(&self) -> bool {
        self.leave.surveyed
    }

    /// Does what mastership says.
    pub fn obey(&mut self, order: Order, now: Time) {
        match order {
            Order::Proceed => {
                if let Some(overwritten) = self.leave.awaits.take() {
                    self.leave.proceeds = true;
                    self.after_survey(overwritten, now);
                }
            }
            Order::Hold => {
                self.leave.held = true;
                // The survey that has just ended counts for nothing: another one follows.
                self.leave.awaits = None;
                self.interrupt();
                self.tell_no_more();
                // Whether what is in flight still was taken is of interest; what is asked is not.
                let stays = |query: Query| query.writes() || matches!(query, Query::Trial(..));
                self.transactions.abandon(stays);
                // Their answers would have let these questions go; all is asked anew.
                self.unsent.clear();
                if matches!(self.stage, Stage::Survey(_)) {
                    (self.stage, self.pending.full) = (Stage::Idle, true);
                }
            }
            Order::Resume => {
                self.leave.held = false;
                self.begin_anew();
            }
            // Without a database there is nothing to go on from.
            Order::Begin | Order::TakeOver => {
                (self.leave.follows, self.leave.awaits) = (false, None);
                self.recalled = None;
                self.begin_anew();
            }
            Order::Rekey => {
                if self.generates_keys() {
                    self.rotate_keys();
                }
            }
            Order::Sit(port) => {
                self.graph.homes.sit(port);
                if !self.leave.follows {
                    self.begin_anew();
                }
            }
            Order::StandAside => self.stand_aside(),
        }
        self.advance(now);
    }

    /// Whether no write is in flight.
    pub fn is_quiet(&self) -> bool {
        self.transactions.in_flight() == 0
    }

    /// All that is known may have been overwritten.
    pub(super) fn begin_anew(&mut self) {
        (self.pending.full, self.pending.anew) = (true, true);
        self.interrupt();
    }

    /// From now on this manager writes nothing and asks nothing.
    fn stand_aside(&mut self) {
        self.transactions.abandon(|_| false);
        (self.stage, self.pending) = (Stage::Idle, Pending::default());
        (self.silence, self.failures) = Default::default();
        self.computations.forget();
        self.lights.stop();
        self.unsent.clear();
        self.cables.clear();
        self.recalled = None;
        self.publishing.owe();
        let Leave { consults, written, .. } = self.leave;
        self.leave = Leave { consults, written, follows: true, ..Leave::default() };
        self.committed.end_stage(true);
    }

    /// Counts a MAD that was dropped.
    pub fn count_dropped(&mut self, why: Dropped) {
        self.metrics.count_dropped(why);
    }

    /// Another core of this manager sent an SMP.
    pub fn count_sent(&mut self, mad: &snin_mad::Mad) {
        self.metrics.count_sent(mad.header().attribute(), mad.header().method());
    }
}
