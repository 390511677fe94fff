//! The way of data: link by link as the switches' tables say now.

use snin_fabric::{Lid, PortIndex, PortNum};
use snin_mad::notice::{BadKeyDetails, SwitchBadPKeyDetails};
use snin_mad::{Gid, Hex16, Hex32, PortInfo, PortState, Trap};
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
        self.follow(from, to).map_err(|(loss, _)| loss)
    }

    /// The same, with the port where it gets lost.
    fn follow(&self, from: PortIndex, to: Lid) -> Result<(PortIndex, Vec<PortIndex>), (Loss, u32)> {
        let mut links = Vec::with_capacity(6);
        let key = self.p_key(from, 0);
        let taken = |at: u32| match self.ports[at as usize].answers_to(to) {
            true if self.lets_through(PortIndex(at), key) => Ok(PortIndex(at)),
            true => Err((Loss::Partition, at)),
            false => Err((Loss::WrongPort, at)),
        };
        if self.ports[from.index()].answers_to(to) {
            return Ok((from, links));
        }
        let mut out = from.0;
        loop {
            let here = self.cross(out).map_err(|loss| (loss, out))?;
            links.push(PortIndex(out));
            let node = self.node_of(here);
            let Some(switch) = node.switch.as_deref() else {
                return Ok((taken(here)?, links));
            };
            let info = self.ports[here as usize].view();
            if info.partition_enforcement_inbound() && !self.lets_through(PortIndex(here), key) {
                return Err((Loss::Partition, here));
            }
            if links.len() > usize::from(self.config().relays) {
                return Err((Loss::Looped, here));
            }
            let next = switch.forward(to).and_then(|num| node.port(num));
            match next {
                Some(port0) if port0 == node.first_port => return Ok((taken(port0)?, links)),
                // Back where it came from is no way (IBA 16.1.3.5).
                Some(next) if next != here => {
                    let info = self.ports[next as usize].view();
                    let checks = info.partition_enforcement_outbound();
                    if checks && !self.lets_through(PortIndex(next), key) {
                        return Err((Loss::Partition, next));
                    }
                    out = next;
                }
                _ => return Err((Loss::NoRoute, here)),
            }
        }
    }

    /// A packet was in a partition that a port on its way is not in. The port counts it, and the manager is told:
    /// by trap 257 of an end port, by trap 259 of a switch's external one (IBA 14.3.14, 14.3.16).
    pub(crate) fn refuse(&mut self, from: PortIndex, to: Lid) {
        let Err((Loss::Partition, at)) = self.follow(from, to) else { return };
        let (p_key, port) = (self.p_key(from, 0), &mut self.ports[at as usize]);
        let count = port.view().p_key_violations().saturating_add(1);
        PortInfo::edit(&mut port.info).p_key_violations(count);
        let lid1 = self.ports[from.index()].lid();
        let end = self.end_port(at);
        let trap = if end == at {
            let gid = |this: &Self, port: u32| {
                let port = &this.ports[port as usize];
                Gid::new(port.view().gid_prefix(), port.guid)
            };
            Trap::BadPKey(BadKeyDetails {
                lid1,
                lid2: to,
                key: Hex32(p_key.0.into()),
                qp1: Hex32(1),
                qp2: Hex32(1),
                gid1: gid(self, from.0),
                gid2: gid(self, at),
                ..BadKeyDetails::default()
            })
        } else {
            Trap::SwitchBadPKey(SwitchBadPKeyDetails {
                // Both addresses.
                data_valid: Hex16(3),
                lid1,
                lid2: to,
                p_key,
                switch_lid: self.ports[end as usize].lid(),
                port: PortNum((at - end) as u8),
                ..SwitchBadPKeyDetails::default()
            })
        };
        self.notify(end, &trap);
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
