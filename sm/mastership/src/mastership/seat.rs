//! The manager's own ports: at which of them it sits.
//!
//! It stays where it sits until that port has no link while another one has: then it moves over, and is the same
//! manager at another address. A link that comes back moves nothing.

use std::collections::VecDeque;

use snin_fabric::Lid;
use snin_mad::{Mad, PortInfo, PortState, SmState, Smp};
use snin_protocol::Time;

use super::{Mastership, Order, Own};
use snin_sm_database::mad_address::LocalPort;

/// This manager's own ports.
#[derive(Debug)]
pub(super) struct Home {
    /// The port at which it sits, once that is known.
    pub(super) own: Option<Own>,
    /// What each own port said last: its address, its master's, its capabilities.
    pub(super) ports: Vec<Option<PortInfo>>,
    /// The one at which it sits.
    seat: LocalPort,
    /// When own ports were asked, and when they are again.
    pub(super) asked: Time,
    pub(super) due: Option<Time>,
    /// Questions that came before this manager knew where it sits.
    pub(super) early: VecDeque<(LocalPort, Lid, Mad, Smp)>,
}

impl Home {
    /// Of so many ports nothing is known.
    pub(super) fn new(ports: u8) -> Self {
        Self {
            own: None,
            ports: vec![None; ports.max(1).into()],
            seat: LocalPort(0),
            asked: Time::ZERO,
            due: None,
            early: VecDeque::new(),
        }
    }

    /// What the port at which it sits said last.
    fn port(&self) -> Option<&PortInfo> {
        self.ports.get(self.seat.0 as usize)?.as_ref()
    }

    /// Whether that port has no link.
    fn is_cut(&self) -> bool {
        self.port().is_some_and(|port| port.state == PortState::Down)
    }

    /// Another port that has a link, where that one has none: it sits there from now on.
    fn move_over(&mut self) -> Option<LocalPort> {
        let linked = |port: &Option<PortInfo>| {
            port.as_ref().is_some_and(|port| port.state != PortState::Down)
        };
        let other = self.ports.iter().position(linked).filter(|_| self.is_cut())?;
        self.seat = LocalPort(other as u32);
        Some(self.seat)
    }
}

impl Mastership {
    /// The local port at which this manager sits.
    pub const fn seat(&self) -> LocalPort {
        self.home.seat
    }

    /// What the port at which it sits said last.
    pub(super) fn port(&self) -> Option<&PortInfo> {
        self.home.port()
    }

    /// Whether the port at which it sits has no link: it hears from no other manager by it.
    pub fn is_cut(&self) -> bool {
        self.home.is_cut()
    }

    pub(super) fn own_port_read(&mut self, port: LocalPort, info: PortInfo, now: Time) {
        let is_seat = port == self.home.seat;
        if let Some(linger) = self.linger.as_mut().filter(|_| is_seat)
            && info.master_sm_lid != info.lid
        {
            linger.moved(now);
        }
        let was_cut = self.is_cut();
        if let Some(known) = self.home.ports.get_mut(port.0 as usize) {
            *known = Some(info);
        }
        if was_cut && !self.is_cut() {
            self.stood_still(now);
        }
        self.move_over();
    }

    /// An own port that does not answer is as good as one without a link, where there are others.
    pub(super) fn own_port_lost(&mut self, port: LocalPort) {
        let several = self.home.ports.len() > 1;
        let known = self.home.ports.get_mut(port.0 as usize).and_then(Option::as_mut);
        if let Some(known) = known.filter(|_| several) {
            known.state = PortState::Down;
            known.physical_state = snin_mad::PhysicalState::Polling;
            self.move_over();
        }
    }

    fn move_over(&mut self) {
        if let Some(seat) = self.home.move_over() {
            self.questions.sit(seat);
            self.order(Order::Sit(seat));
        }
    }

    /// This manager sits elsewhere from now on. Others are asked at once: so they learn of it before they miss it.
    pub fn moved(&mut self, own: Option<Own>, now: Time) {
        (self.home.own, self.changed) = (own, true);
        if self.state == SmState::Master {
            self.poll_all(now);
        }
        self.flush();
    }
}
