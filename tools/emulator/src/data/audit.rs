//! Whether the books balance.

use snin_fabric::PortIndex;

use super::agenda::Agenda;
use super::network::Network;
use super::packet::AT_SOURCE;
use super::port::NO_PORT;

/// Something that was made or lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Imbalance {
    /// A directed link's blocks are not all free, on their way back, or held by a packet.
    #[error("port {} VL {vl}: {found} blocks of {capacity}", .port.0)]
    Credits {
        /// The port that sends.
        port: PortIndex,
        /// The VL.
        vl: u8,
        /// Blocks found.
        found: u64,
        /// Blocks there are.
        capacity: u64,
    },
    /// A message's packets did not all arrive, get lost, or are on their way.
    #[error("message {message}: {sent} packets sent, {found} found")]
    Packets {
        /// Its number.
        message: u32,
        /// Packets sent, and copies made of them.
        sent: u64,
        /// Packets found.
        found: u64,
    },
}

impl<Q: Agenda> Network<Q> {
    /// Counts all credits and all packets. Takes as long as the network is large.
    ///
    /// # Errors
    /// The first thing that does not add up.
    pub fn audit(&self) -> Result<(), Imbalance> {
        self.audit_credits()?;
        self.audit_packets()
    }

    fn audit_credits(&self) -> Result<(), Imbalance> {
        let vls = usize::from(self.config.vls);
        let mut found: Vec<u64> = self.lanes.iter().map(|lane| lane.blocks_free()).collect();
        for packet in self.packets.iter().filter(|packet| packet.at != AT_SOURCE) {
            found[self.lane(packet.from, packet.vl)] += u64::from(packet.blocks());
        }
        for (lane, blocks) in self.multicast.counted_twice() {
            found[lane] -= blocks;
        }
        let capacity = u64::from(self.capacity);
        let cabled = |&(lane, _): &(usize, u64)| self.ports[lane / vls].peer != NO_PORT;
        let mut lanes = found.into_iter().enumerate().filter(cabled);
        match lanes.find(|&(_, found)| found != capacity) {
            None => Ok(()),
            Some((lane, found)) => {
                let port = PortIndex((lane / vls) as u32);
                Err(Imbalance::Credits { port, vl: (lane % vls) as u8, found, capacity })
            }
        }
    }

    fn audit_packets(&self) -> Result<(), Imbalance> {
        let of_messages = self.transfers.iter().map(|transfer| transfer.arrived + transfer.lost);
        let mut found: Vec<u64> = of_messages.collect();
        for packet in self.packets.iter().filter(|packet| !packet.ack) {
            found[packet.message as usize] += 1;
        }
        for (message, (transfer, found)) in (0..).zip(self.transfers.iter().zip(found)) {
            let sent = transfer.sent + transfer.copied;
            if sent != found {
                return Err(Imbalance::Packets { message, sent, found });
            }
        }
        Ok(())
    }
}
