//! How long a message would take if it were alone: the closed form.

use super::agenda::Agenda;
use super::network::Network;
use super::packet::{LOCAL_ROUTE_HEADER, data_bytes};

impl<Q: Agenda> Network<Q> {
    /// Picoseconds from the first bit of a message leaving to the last arriving, by the tables as they are:
    /// the first packet's way, and the transmission of the others on the slowest link. Exact where all
    /// links are equally fast, and elsewhere for whole packets; buffers must hold a round trip. `None`
    /// where the tables lead nowhere.
    pub(super) fn idle_time(&self, message: u32) -> Option<u64> {
        let transfer = &self.transfers[message as usize];
        let first = data_bytes(transfer.payload(0));
        let (mut port, mut leaves) = (transfer.port, 0_u64);
        let own = self.rate(port);
        let mut slowest = transfer.pace.map_or(own, |pace| pace.min(own));
        // A loop-free way passes each switch once.
        for _ in 0..=self.tables.len() {
            let rate = self.rate(port);
            slowest = slowest.min(rate);
            let there = leaves + self.propagation;
            let tail = there + rate.transmission(first);
            if !self.ports[port as usize].to_switch {
                let last = data_bytes(transfer.payload(transfer.packets - 1));
                let whole = slowest.transmission(first);
                return Some(match transfer.packets {
                    1 => tail,
                    n => tail
                        .saturating_add(whole.saturating_mul(n - 2))
                        .saturating_add(slowest.transmission(last)),
                });
            }
            let output = self.next_hop(port, transfer.dlid)?;
            let in_time =
                (tail + self.switch_delay).saturating_sub(self.rate(output).transmission(first));
            leaves = in_time.max(there + rate.transmission(LOCAL_ROUTE_HEADER) + self.switch_delay);
            port = output;
        }
        None
    }
}
