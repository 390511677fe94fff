//! Links: what happens to both ends when a cable, a node or a manager makes or breaks one (IBA 7.2.7).

use snin_fabric::{LinkRate, PortIndex};
use snin_mad::port::LinkDownState;
use snin_mad::{PhysicalState, PortInfo, PortState, Table as _};

use crate::fabric::{Fabric, Wish};
use crate::hardware::NO_PORT;

impl Fabric {
    /// The port at the other end of a cable that is whole.
    pub(crate) fn other_end(&self, port: u32) -> Option<u32> {
        let port = &self.ports[port as usize];
        (port.cable != NO_PORT && !port.cut).then_some(port.cable)
    }

    /// Whether two ports would find each other: a whole cable, power at both ends, both looking, and not
    /// both asleep.
    pub(crate) fn can_train(&self, port: u32) -> bool {
        let Some(other) = self.other_end(port) else {
            return false;
        };
        let looks = |port: u32| {
            let physical = self.ports[port as usize].physical();
            self.node_of(port).powered && physical != PhysicalState::Disabled
        };
        let sleeps = |port: u32| self.ports[port as usize].physical() == PhysicalState::Sleep;
        looks(port) && looks(other) && !(sleeps(port) && sleeps(other))
    }

    /// Takes the link at `port` down, and tries it again. Only what happened to a port by itself is told to
    /// managers: `by_manager` is the port that was told to, if one was (IBA 14.2.5.4, PortStateChange).
    pub(crate) fn link_down(&mut self, port: u32, by_manager: Option<u32>) {
        let peer = self.ports[port as usize].cable;
        for end in [port, peer].into_iter().filter(|&end| end != NO_PORT) {
            let state = &mut self.ports[end as usize];
            state.attempt = state.attempt.wrapping_add(1);
            if matches!(state.physical(), PhysicalState::LinkUp | PhysicalState::Training) {
                let asleep = state.view().link_down_default_state() == LinkDownState::Sleep;
                let rest = if asleep { PhysicalState::Sleep } else { PhysicalState::Polling };
                state.set_physical(rest);
            }
            if state.state() != PortState::Down {
                state.set_state(PortState::Down);
                state.counters.link_downed += 1;
                if by_manager != Some(end) {
                    self.state_changed(end);
                }
            }
        }
        self.try_link(port);
    }

    /// A manager took the link down by the link itself, and has its answer.
    pub(crate) fn rest(&mut self, port: u32, attempt: u32) {
        let state = &mut self.ports[port as usize];
        if let Some(rest) = state.rest.take().filter(|_| state.attempt == attempt) {
            state.set_physical(rest);
            self.link_down(port, Some(port));
        }
    }

    /// Begins to train, if the ports find each other.
    pub(crate) fn try_link(&mut self, port: u32) {
        if self.can_train(port) && self.ports[port as usize].state() == PortState::Down {
            for end in [port, self.ports[port as usize].cable] {
                self.ports[end as usize].set_physical(PhysicalState::Training);
            }
            self.wishes.push(Wish::Train(port));
        }
    }

    /// The training begun as `attempt` has succeeded, unless the link went down in the meantime.
    pub(crate) fn trained(&mut self, port: u32, attempt: u32) {
        if self.ports[port as usize].attempt != attempt || !self.can_train(port) {
            return;
        }
        for end in [port, self.ports[port as usize].cable] {
            let state = &mut self.ports[end as usize];
            state.set_physical(PhysicalState::LinkUp);
            if state.state() == PortState::Down {
                state.set_state(PortState::Initialize);
                self.state_changed(end);
            }
        }
    }

    /// A port's state changed by itself: its switch remembers and says so (IBA 14.2.5.4, 14.3.7).
    fn state_changed(&mut self, port: u32) {
        let node = self.ports[port as usize].node as usize;
        let node = &mut self.nodes[node];
        let Some(switch) = node.switch.as_mut().filter(|_| node.powered) else {
            return;
        };
        switch.info.port_state_change = true;
        let port0 = node.first_port;
        self.notify_link_state(port0);
    }

    /// The link goes down, and comes up at this rate.
    pub(crate) fn train(&mut self, port: u32, rate: LinkRate) {
        let peer = self.ports[port as usize].cable;
        for end in [port, peer].into_iter().filter(|&end| end != NO_PORT) {
            let bytes = &mut self.ports[end as usize].info;
            if let Ok(mut info) = PortInfo::parse(bytes) {
                info.set_active_rate(rate);
                info.emit(bytes);
            }
        }
        self.link_down(port, None);
    }

    /// A cable is cut.
    pub(crate) fn cut(&mut self, port: u32) {
        self.mark_cut(port, true);
        self.link_down(port, None);
    }

    /// A cable is whole again.
    pub(crate) fn restore(&mut self, port: u32) {
        self.mark_cut(port, false);
        self.try_link(port);
    }

    /// A new cable joins two ports that have none.
    pub(crate) fn plug(&mut self, a: u32, b: u32) {
        self.recable(self.topology().with_cable(PortIndex(a), PortIndex(b)));
        self.restore(a);
    }

    /// Two cables change places.
    pub(crate) fn swap(&mut self, a: u32, b: u32) {
        for port in [a, b] {
            self.cut(port);
        }
        self.change_places(a, b);
        for port in [a, b] {
            self.restore(port);
        }
    }

    fn mark_cut(&mut self, port: u32, cut: bool) {
        let peer = self.ports[port as usize].cable;
        for end in [port, peer].into_iter().filter(|&end| end != NO_PORT) {
            self.ports[end as usize].cut = cut;
        }
    }

    /// A node loses power, and with it all that was written to it.
    pub(crate) fn power_off(&mut self, node: u32) {
        self.nodes[node as usize].powered = false;
        self.nodes[node as usize].life += 1;
        for port in self.ports_of(node).skip(1) {
            self.link_down(port, None);
        }
        self.reset_node(node);
    }

    /// A node has power again.
    pub(crate) fn power_on(&mut self, node: u32) {
        self.nodes[node as usize].powered = true;
        for port in self.ports_of(node).skip(1) {
            self.try_link(port);
        }
    }
}
