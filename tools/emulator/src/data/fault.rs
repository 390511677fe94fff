//! Cables cut and restored.

use snin_fabric::PortIndex;

use super::agenda::Agenda;
use super::network::Network;
use super::port::{NO_PORT, Passage};

impl<Q: Agenda> Network<Q> {
    /// Cuts the cable in `port`, now. What is on it is lost and dropped where it comes to next, unless a
    /// switch has begun to send it on; what waits for it in switches is discarded when the packet being
    /// sent has come to its end; adapters wait.
    pub fn cut(&mut self, port: PortIndex) {
        let Some(ends) = self.ends(port).filter(|&[end, _]| self.ports[end as usize].link.is_up())
        else {
            return;
        };
        for end in ends {
            self.ports[end as usize].link.set_up(false);
            self.has_to_decide(end);
        }
        let now = self.now;
        for packet in self.packets.iter_mut() {
            packet.lost |= ends.contains(&packet.at) && packet.tail > now;
        }
    }

    /// Makes the cable in `port` whole again.
    pub fn restore(&mut self, port: PortIndex) {
        for end in self.ends(port).into_iter().flatten() {
            self.ports[end as usize].link.set_up(true);
            self.has_to_decide(end);
        }
    }

    /// From now on the port lets these data packets pass.
    pub fn set_passage(&mut self, port: PortIndex, passage: Passage) {
        if let Some(state) = self.ports.get_mut(port.index()) {
            state.link.set_passage(passage);
            self.has_to_decide(port.0);
        }
    }

    /// Whether the port has a cable that is whole.
    pub fn is_up(&self, port: PortIndex) -> bool {
        self.ports.get(port.index()).is_some_and(|port| port.link.is_up())
    }

    fn ends(&self, port: PortIndex) -> Option<[u32; 2]> {
        let peer = self.ports.get(port.index())?.peer;
        (peer != NO_PORT).then_some([port.0, peer])
    }
}
