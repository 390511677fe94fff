//! Hosts that send back to back, for a slice of virtual time or until their messages are sent, over whatever
//! tables and addresses.

use snin_emulator::data::{
    Config, ConfigError, Message, Network, Outcome, SendError, Statistics, Transport,
};
use snin_fabric::{Addresses, ForwardingTable, Lid, PortIndex, Topology};
use snin_protocol::Time;

/// How packets find their way.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// Nodes and cables.
    pub topology: &'a Topology,
    /// Who has which address.
    pub addresses: &'a Addresses,
    /// One a switch.
    pub tables: &'a [ForwardingTable],
}

/// A source, and the address that it sends to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// A host's port.
    pub source: PortIndex,
    /// The address, which chooses the way.
    pub address: Lid,
    /// The size of its message; `None` is as much as it can send in the slice.
    pub bytes: Option<u64>,
}

/// Traffic that cannot be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CarryError {
    /// The fabric.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A flow.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A credit loop.
    #[error("packets wait for each other for ever: the tables close a credit loop")]
    Stuck,
}

/// What became of the flows.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Payload that arrived in time, in bytes.
    pub in_time: u64,
    /// Payload that the sources could have sent, and had.
    pub possible: u64,
    /// Of everything, to the last byte.
    pub statistics: Statistics,
    /// By port: what the directed link had to carry, of what it can in the time; above 1 it takes longer.
    pub load: Vec<f64>,
}

impl Carried {
    /// Delivered in time, of what could have been sent.
    pub fn goodput(&self) -> f64 {
        self.in_time as f64 / self.possible.max(1) as f64
    }
}

impl Forwarding<'_> {
    fn network(&self, config: &Config) -> Result<Network, ConfigError> {
        let mut network = Network::new(self.topology, config.clone())?;
        network.set_addresses(self.addresses);
        network.set_tables(self.tables);
        Ok(network)
    }

    /// Every source sends one message, all at once: of its size, or as much as it can in `slice`. What
    /// arrives within `grace` after the longest could have been sent is in time; then the run goes on to the
    /// last byte.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub fn carry(
        &self,
        config: &Config,
        flows: &[Flow],
        transport: Transport,
        slice: Time,
        grace: Time,
    ) -> Result<Carried, CarryError> {
        let mut network = self.network(config)?;
        let (mut possible, mut longest) = (0, Time::ZERO);
        for flow in flows {
            let bytes = flow.bytes.unwrap_or_else(|| network.payload_possible(flow.source, slice));
            possible += bytes;
            longest = longest.max(network.sending_time(flow.source, bytes));
            let message = Message::new(flow.source, flow.address, bytes);
            network.send(Message { transport, ..message })?;
        }
        network.run_until(longest + grace);
        let in_time = network.statistics().bytes;
        if network.run_until(Time::MAX) == Outcome::Stuck {
            return Err(CarryError::Stuck);
        }
        let packets = |port| network.payload_possible(port, longest) / u64::from(config.mtu);
        let load = loads(self.topology, packets, |port| network.counters(port, 0).packets);
        Ok(Carried { in_time, possible, statistics: network.take_statistics(), load })
    }
}

/// What each port sent, of what it can send in the time: above 1 it takes longer.
pub fn loads(
    topology: &Topology,
    possible: impl Fn(PortIndex) -> u64,
    packets: impl Fn(PortIndex) -> u64,
) -> Vec<f64> {
    let load = |port| {
        topology.peer(port)?;
        Some(packets(port) as f64 / possible(port).max(1) as f64)
    };
    topology.ports().map(|port| load(port).unwrap_or(0.0)).collect()
}
