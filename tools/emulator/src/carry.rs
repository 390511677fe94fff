//! The way of data: link by link as the switches' tables say now.

use snin_fabric::{Lid, PortIndex};
use snin_mad::PortState;
use snin_protocol::software_port::messages::Loss;

use crate::fabric::Fabric;

impl Fabric {
    /// Follows the tables from end port `from` to the port that answers to `to`: that port, and the ports by which
    /// data leaves on its way, each of which is a directed link. Data passes active links only (IBA 7.2.7). It has
    /// the first key of its sender's partition table, as queue pairs have it that ask for no other: switches'
    /// ports that check keys, and the port that gets it, let it through or not.
    ///
    /// # Errors
    /// Where it gets lost.
    pub fn carry(&self, from: PortIndex, to: Lid) -> Result<(PortIndex, Vec<PortIndex>), Loss> {
        let mut links = Vec::with_capacity(6);
        let key = self.p_key(from, 0);
        let taken = |at: u32| match self.ports[at as usize].answers_to(to) {
            true if self.lets_through(PortIndex(at), key) => Ok(PortIndex(at)),
            true => Err(Loss::Partition),
            false => Err(Loss::WrongPort),
        };
        if self.ports[from.index()].answers_to(to) {
            return Ok((from, links));
        }
        let mut out = from.0;
        loop {
            let here = self.cross(out)?;
            links.push(PortIndex(out));
            let node = self.node_of(here);
            let Some(switch) = node.switch.as_deref() else {
                return Ok((taken(here)?, links));
            };
            let info = self.ports[here as usize].view();
            if info.partition_enforcement_inbound() && !self.lets_through(PortIndex(here), key) {
                return Err(Loss::Partition);
            }
            if links.len() > usize::from(self.config().relays) {
                return Err(Loss::Looped);
            }
            let next = switch.forward(to).and_then(|num| node.port(num));
            match next {
                Some(port0) if port0 == node.first_port => return Ok((taken(port0)?, links)),
                // Back where it came from is no way (IBA 16.1.3.5).
                Some(next) if next != here => {
                    let info = self.ports[next as usize].view();
                    let checks = info.partition_enforcement_outbound();
                    if checks && !self.lets_through(PortIndex(next), key) {
                        return Err(Loss::Partition);
                    }
                    out = next;
                }
                _ => return Err(Loss::NoRoute),
            }
        }
    }

    /// The other end of a cable whose link is active at both ends.
    fn cross(&self, port: u32) -> Result<u32, Loss> {
        let active = |port: u32| {
            matches!(self.ports[port as usize].state(), PortState::Active | PortState::ActiveDefer)
        };
        let peer = self.other_end(port).ok_or(Loss::LinkDown)?;
        // A data packet tells an armed port that its neighbour is active, and passes (IBA 7.2.7).
        let armed = self.ports[peer as usize].state() == PortState::Armed;
        if active(port) && (active(peer) || armed) { Ok(peer) } else { Err(Loss::LinkDown) }
    }
}
