//! Traps: what happened is told to the manager again and again until it says that it heard (IBA 13.4.9).

use snin_fabric::{Lid, NodeKind};
use snin_mad::notice::{LinkStateDetails, LocalChangeDetails};
use snin_mad::port::Capabilities;
use snin_mad::{Mad, Notice, Smp, TransactionId, Trap};
use snin_protocol::Time;

use crate::fabric::{Fabric, Wish};
use crate::notice_queue::{MOST, Notices};

impl Fabric {
    /// Trap 128: a port of this switch changed its state (IBA 14.3.7).
    pub(crate) fn notify_link_state(&mut self, port0: u32) {
        let lid = self.ports[port0 as usize].lid();
        self.notify(port0, &Trap::LinkStateChange(LinkStateDetails { lid }));
    }

    /// Trap 144: the capabilities of this port, or its node's name, changed (IBA 14.3.11).
    pub(crate) fn notify_local_change(&mut self, port: u32, description: bool) {
        let view = self.ports[port as usize].view();
        let details = LocalChangeDetails {
            lid: view.lid(),
            other_local_changes: description,
            capabilities: view.capabilities(),
            node_description_change: description,
            ..LocalChangeDetails::default()
        };
        self.notify(port, &Trap::LocalChange(details));
    }

    /// Queues a trap. Without a manager to tell, or an address to tell from, it is forgotten.
    pub(crate) fn notify(&mut self, port: u32, trap: &Trap) {
        let producer = match self.node_of(port).kind {
            NodeKind::Adapter => 1,
            NodeKind::Switch => 2,
            NodeKind::Router => 3,
        };
        let state = &mut self.ports[port as usize];
        let (lid, master) = (state.lid(), state.view().master_sm_lid());
        if lid == Lid::NONE || master == Lid::NONE || !state.has(Capabilities::TRAP) {
            return;
        }
        let notice = Notice::generic(trap, producer, lid);
        let notices = state.notices.get_or_insert_default();
        // The one at the front may be heard already: the same thing again must be said again, but once.
        if notices.queue.len() >= MOST || notices.queue.iter().skip(1).any(|n| *n == notice) {
            return;
        }
        notices.queue.push_back(notice);
        if notices.queue.len() == 1 {
            self.wishes.push(Wish::Trap(port));
        }
    }

    /// The trap that a port has to send now, its address, the round, and when it is due again.
    pub(crate) fn trap(&self, port: u32) -> Option<(Mad, Lid, u32, Time)> {
        let state = &self.ports[port as usize];
        let notices = state.notices.as_deref()?;
        let notice = notices.front()?;
        let view = state.view();
        let mad = Smp::trap().transaction(notices.transaction(port)).mad().with(&notice);
        // Not more often than PortInfo:SubnetTimeOut allows (IBA 13.4.9, 14.2.5.6).
        let least = Time(4_096 << view.subnet_timeout());
        let again = self.config().trap_interval.max(least);
        Some((mad, view.master_sm_lid(), notices.round, again))
    }

    /// Whether the trap of that round still waits to be heard.
    pub(crate) fn trap_is_due(&self, port: u32, round: u32) -> bool {
        let notices = self.ports[port as usize].notices.as_deref();
        notices.is_some_and(|notices| notices.round == round && !notices.queue.is_empty())
    }

    /// TrapRepress: the manager heard the trap of that transaction.
    pub(crate) fn repress(&mut self, port: u32, transaction: TransactionId) {
        let Some(notices) = &mut self.ports[port as usize].notices else {
            return;
        };
        if !notices.queue.is_empty() && notices.transaction(port) == transaction {
            notices.told += 1;
            self.next_notice(port);
        }
    }

    /// Get(Notice): the one at the front, or zeros (IBA 13.4.10).
    pub(crate) fn first_notice(&self, port: u32) -> Notice {
        let notices = self.ports[port as usize].notices.as_deref();
        notices.and_then(Notices::front).unwrap_or_default()
    }

    /// Set(Notice): takes the one at the front away, if it is the one that was meant (IBA 13.4.10).
    pub(crate) fn clear_notice(&mut self, port: u32, toggle: bool) {
        let notices = self.ports[port as usize].notices.as_deref();
        if notices.and_then(Notices::front).is_some_and(|front| front.toggle == toggle) {
            self.next_notice(port);
        }
    }

    fn next_notice(&mut self, port: u32) {
        if let Some(notices) = &mut self.ports[port as usize].notices {
            notices.pop();
            if !notices.queue.is_empty() {
                self.wishes.push(Wish::Trap(port));
            }
        }
    }

    /// How many traps of a port were repressed.
    pub fn traps_heard(&self, port: snin_fabric::PortIndex) -> u64 {
        self.ports[port.index()].notices.as_deref().map_or(0, |notices| notices.told)
    }
}
