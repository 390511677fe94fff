//! The election's say: who may become master, what SMInfo shows, and what SMInfo tells of the others.
//!
//! The election decides who is to be master; how mastership moves stays what it is without: by HANDOVER where
//! there is a master, by silence where there is none.

use std::collections::VecDeque;

use snin_fabric::Guid;
use snin_mad::{PhysicalState, PortInfo, SmInfo, SmState};
use snin_protocol::Time;

use super::{MOST_PEERS, Mastership, Order};
use crate::election::{Band, Kind, Message, Priority, State};
use crate::report::Report;

/// Where managers elect.
#[derive(Debug)]
pub(super) struct Elected {
    pub(super) band: Band,
    state: State,
    priority: Priority,
    /// A survey ended before the election.
    undecided: bool,
    /// What other managers said of themselves by SMInfo.
    heard: VecDeque<SmInfo>,
    /// Foreign managers that were reported.
    alarmed: Vec<Guid>,
}

impl Elected {
    pub(super) fn new(low: u8) -> Self {
        let (state, priority) = (State::Electing, Priority::default());
        let (heard, alarmed) = (VecDeque::new(), Vec::new());
        Self { band: Band(low), state, priority, undecided: false, heard, alarmed }
    }

    pub(super) const fn shown(&self) -> u8 {
        self.band.shown(self.state, self.priority)
    }
}

impl Mastership {
    /// What the election made of this manager.
    pub fn set_elected(&mut self, state: State, priority: Priority, now: Time) {
        let before = self.shown_priority();
        let Some(elected) = &mut self.rank.elected else { return };
        let changed = elected.state != state;
        (elected.state, elected.priority) = (state, priority);
        if changed && self.state == SmState::Discovering && std::mem::take(&mut elected.undecided) {
            self.order(Order::Begin);
        }
        if changed {
            self.consider(now);
        }
        self.reconsider(before, now);
        self.flush();
    }

    /// Whether the election, where there is one, made this manager master.
    pub(super) fn may_be_master(&self) -> bool {
        self.rank.elected.as_ref().is_none_or(|elected| elected.state == State::Master)
    }

    /// A survey ended, and the election has not.
    pub(super) fn await_election(&mut self) {
        if let Some(elected) = &mut self.rank.elected {
            elected.undecided = true;
        }
    }

    /// While the election is awaited another may become master.
    pub(super) fn watch_election(&mut self, now: Time) {
        let waits = self.rank.elected.as_ref().is_some_and(|elected| elected.undecided);
        if waits && let Some((guid, why)) = self.goes_before() {
            self.await_no_election();
            self.become_standby(format!("{guid} {why}"), now);
        }
    }

    fn await_no_election(&mut self) {
        if let Some(elected) = &mut self.rank.elected {
            elected.undecided = false;
        }
    }

    /// Whether mastership is handed over to a manager that shows this: while an election goes on, to none of ours.
    pub(super) fn yields_to(&self, info: &SmInfo) -> bool {
        self.rank.elected.as_ref().is_none_or(|elected| info.priority > elected.band.0)
    }

    /// A manager said what it is.
    pub(super) fn note_heard(&mut self, info: &SmInfo) {
        if let Some(elected) = &mut self.rank.elected
            && elected.heard.len() < MOST_PEERS
        {
            elected.heard.push_back(info.clone());
        }
    }

    /// What SMInfo told of another manager, as a message of the election: all that SMInfo does not say is as it is
    /// here. A master that goes before this one asks it to yield.
    pub fn next_vote(&mut self) -> Option<Message> {
        let elected = self.rank.elected.as_mut()?;
        let own = self.home.own.as_ref()?.guid;
        loop {
            let info = elected.heard.pop_front()?;
            let Some((master, chosen)) = elected.band.read(info.priority) else { continue };
            let state = match (master, info.state) {
                (true, _) => State::Master,
                (false, SmState::Discovering) => State::Electing,
                (false, _) => State::Standby,
            };
            let priority = Priority { chosen, master, ..elected.priority };
            let sender = info.guid;
            let before = priority.goes_before(sender, elected.priority, own);
            let both = master && elected.state == State::Master;
            let kind = if both && before { Kind::Cede } else { Kind::Status };
            return Some(Message { kind, sender, state, priority });
        }
    }

    /// Foreign managers that would go before one of ours are told of, once.
    pub(super) fn watch_foreign(&mut self) {
        let Some(elected) = &self.rank.elected else { return };
        let band = elected.band;
        let is_foreign =
            |info: &SmInfo| band.alarms(info.priority) && band.read(info.priority).is_none();
        let above: Vec<(Guid, u8)> = self
            .heeded()
            .filter(|(_, info)| is_foreign(info))
            .map(|(guid, info)| (guid, info.priority))
            .collect();
        let known = |guid: &Guid| above.iter().any(|(above, _)| above == guid);
        let mut alarmed = elected.alarmed.clone();
        alarmed.retain(known);
        for (guid, priority) in above.iter().filter(|(guid, _)| !elected.alarmed.contains(guid)) {
            alarmed.push(*guid);
            let at = self.name_of(*guid);
            self.outputs.push_back(super::Output::Report(Report::AboveBand {
                guid: *guid,
                at,
                priority: *priority,
            }));
        }
        if let Some(elected) = &mut self.rank.elected {
            elected.alarmed = alarmed;
        }
    }

    /// How many of this manager's ports are good, and how many it has.
    pub fn own_ports(&self) -> (u8, u8) {
        let good = |port: &&Option<PortInfo>| {
            port.as_ref().is_none_or(|port| port.physical_state == PhysicalState::LinkUp)
        };
        (self.home.ports.iter().filter(good).count() as u8, self.home.ports.len() as u8)
    }
}

#[cfg(test)]
mod tests {
    use snin_mad::PortState;

    use super::*;
    use snin_sm_database::config::Config;

    /// Ports of a cold fabric are not ACTIVE yet: else all were alike that have a cable and that have none.
    #[test]
    fn statement_10_the_physical_state_of_a_port_counts() {
        let good = |state, physical_state| {
            let mut mastership = Mastership::new(&Config::default());
            mastership.home.ports =
                vec![Some(PortInfo { state, physical_state, ..PortInfo::default() })];
            mastership.own_ports()
        };
        for state in [PortState::Initialize, PortState::Armed, PortState::Active] {
            assert_eq!(good(state, PhysicalState::LinkUp), (1, 1), "{state:?}");
        }
        for physical in [PhysicalState::Polling, PhysicalState::Disabled] {
            assert_eq!(good(PortState::Down, physical), (0, 1), "{physical:?}");
        }
    }
}
