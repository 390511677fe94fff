//! What this manager does when another one tells it something by Set(SMInfo).

use snin_fabric::{Guid, Lid};
use snin_mad::{Mad, SmInfo, SmKey, SmState, Smp, Status};
use snin_protocol::Time;

use super::handover::Linger;
use super::questions::{Purpose, Way};
use super::{Mastership, Order};
use crate::control::{Control, Outcome};
use crate::report::Report;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::LocalPort;

impl Mastership {
    /// Another manager tells this one something. What is not for its state is refused; one with another key
    /// has nothing to say here, not even no.
    pub(super) fn told(
        &mut self,
        (port, source): (LocalPort, Lid),
        mad: &Mad,
        smp: &Smp,
        now: Time,
    ) -> Result<(), Dropped> {
        let sender = mad.attribute::<SmInfo>().map_err(|_| Dropped::Malformed)?;
        let way = Way::back(smp, port, source).ok_or(Dropped::Request)?;
        let before = self.info().ok_or(Dropped::Request)?;
        if self.sm_key != 0 && sender.sm_key != SmKey(self.sm_key) {
            return Err(Dropped::WrongKey);
        }
        let mut shown = SmInfo { sm_key: sender.sm_key, ..before };
        let control = Control::of(smp.modifier);
        let legal = control.filter(|control| control.is_legal(self.state, sender.state));
        let Some(control) = legal.filter(|_| sender.guid != shown.guid) else {
            self.reply((port, source), mad, smp, &shown, Status::BAD_VALUE);
            return Ok(());
        };
        shown.state = match control {
            Control::Disable => SmState::NotActive,
            Control::Standby => SmState::Standby,
            Control::Discover => SmState::Discovering,
            // It is the master when it has said so.
            Control::Handover | Control::Acknowledge => self.state,
        };
        self.reply((port, source), mad, smp, &shown, Status::OK);
        let name = control.name();
        self.report(Report::Control { from: sender.guid, name });
        let guid = sender.guid;
        self.met(sender, way, now);
        self.obey(control, guid, now);
        Ok(())
    }

    fn obey(&mut self, control: Control, from: Guid, now: Time) {
        let by = |what: &str| format!("{from} told it to {what}");
        match control {
            Control::Handover => self.take_over(from, now),
            Control::Acknowledge => self.acknowledged(from, now),
            Control::Disable => {
                self.set_state(SmState::NotActive, by("do nothing"));
                (self.search.lost, self.search.claim, self.linger) = (None, None, None);
                self.questions.forget(|_| true);
                self.order(Order::StandAside);
            }
            Control::Standby => {
                self.set_state(SmState::Standby, by("stand by"));
                self.search.lost = None;
                self.poll_all(now);
            }
            Control::Discover => {
                self.set_state(SmState::Discovering, by("look for itself"));
                self.search.lost = None;
                self.order(Order::Begin);
            }
        }
    }

    /// HANDOVER came: this manager is master, and says so.
    fn take_over(&mut self, from: Guid, now: Time) {
        self.send_control(from, Control::Acknowledge, now);
        if let Some(peer) = self.peers.get_mut(&from) {
            if let Some(info) = &mut peer.info {
                info.state = SmState::Standby;
            }
            // What it said of its priority before is old: it is asked first.
            (peer.due, peer.not_before) = (now, now + self.poll);
        }
        (self.search.lost, self.search.claim, self.linger) = (None, None, None);
        self.search.beside = false;
        if self.handing.take().is_some() {
            self.questions.forget(|purpose| matches!(purpose, Purpose::Tell(_, Control::Handover)));
        }
        self.is_ceded(from, now);
        // A manager that looks at the subnet just now goes on with it, and is master then.
        let order = if self.state == SmState::Standby { self.begin() } else { Order::Begin };
        if self.state != SmState::Discovering {
            self.set_state(SmState::Master, format!("{from} handed over"));
        }
        self.order(order);
        self.consider(now);
    }

    /// Tells another manager something; whether it was sent.
    pub(super) fn send_control(&mut self, to: Guid, control: Control, now: Time) -> bool {
        let master = None;
        let (Some(mut own), Some(peer)) = (self.info(), self.peers.get(&to)) else { return false };
        own.sm_key = SmKey(self.sm_key);
        let (ways, m_key) = (peer.ways(master), peer.m_key);
        self.questions.tell(to, control, &ways, m_key, &own, now)
    }

    /// The operator has another manager told something.
    pub fn instruct(&mut self, to: Guid, control: Control, now: Time) {
        let sent = match (self.state == SmState::Master, self.peers.contains_key(&to)) {
            (false, _) => Err(Outcome::NotMaster),
            (true, true) if self.send_control(to, control, now) => Ok(()),
            (true, _) => Err(Outcome::Unknown),
        };
        if let Err(outcome) = sent {
            self.report(Report::Instructed { to, control, outcome });
        }
        self.flush();
    }

    pub(super) fn has_taken(&mut self, guid: Guid, control: Control, status: Status, now: Time) {
        match (control, status.is_ok()) {
            (Control::Handover, true) => self.acknowledged(guid, now),
            (Control::Handover, false) => self.kept(guid, "refused", now),
            (Control::Acknowledge, _) => {}
            (_, taken) => {
                let outcome = if taken { Outcome::Taken } else { Outcome::Refused };
                self.report(Report::Instructed { to: guid, control, outcome });
            }
        }
        if let Some(peer) = self.peers.get_mut(&guid) {
            peer.due = now;
        }
    }

    pub(super) fn was_not_taken(&mut self, guid: Guid, control: Control, now: Time) {
        match control {
            Control::Handover => self.kept(guid, "did not answer", now),
            // The other one does not wait for it for ever either.
            Control::Acknowledge => {}
            _ => {
                let outcome = Outcome::Unanswered;
                self.report(Report::Instructed { to: guid, control, outcome });
            }
        }
    }

    /// The successor has taken over: by its answer, or by its ACKNOWLEDGE.
    fn acknowledged(&mut self, from: Guid, now: Time) {
        if self.handing.as_ref().is_none_or(|handing| handing.to != from) {
            return;
        }
        if let Some(info) = self.peers.get_mut(&from).and_then(|peer| peer.info.as_mut()) {
            info.state = SmState::Master;
        }
        self.linger = Some(Linger::new(now));
        self.become_standby(format!("it handed over to {from}"), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The controls and their senders and receivers, row by row (IBA 14.4.1).
    #[test]
    fn every_packet_is_taken_in_the_states_for_it_only() {
        use SmState::{Discovering, Master, NotActive, Standby};
        let states = [NotActive, Discovering, Standby, Master];
        let takes = |control: Control, sender| states.map(|own| control.is_legal(own, sender));
        assert_eq!(takes(Control::Handover, Master), [false, true, true, true]);
        assert_eq!(takes(Control::Acknowledge, Standby), [false, false, true, true]);
        assert_eq!(takes(Control::Disable, Master), [false, false, true, false]);
        assert_eq!(takes(Control::Standby, Master), [true, false, false, false]);
        assert_eq!(takes(Control::Discover, Master), [false, false, true, false]);
        for control in [Control::Handover, Control::Disable, Control::Standby, Control::Discover] {
            for sender in [NotActive, Discovering, Standby] {
                assert_eq!(takes(control, sender), [false; 4], "{control:?}");
            }
        }
        assert_eq!(
            [0, 1, 5, 6].map(Control::of).map(|c| c.map(Control::name)),
            [None, Some("HANDOVER"), Some("DISCOVER"), None]
        );
    }
}
