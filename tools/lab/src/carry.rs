//! Hosts that send back to back, for a slice of virtual time or until their messages are sent, over the tables and
//! addresses that the caller gives.

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
    /// The addresses of all ports.
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
    /// Bit/s that it sends at most; `None` is as much as the links carry.
    pub rate: Option<u64>,
}

/// A cable that breaks, or is whole again, while flows are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CableChange {
    /// How long after the first flow begins; 0 is before.
    pub after: Time,
    /// One of its ends.
    pub port: PortIndex,
    /// Whether it is whole from then on.
    pub whole: bool,
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
    /// Flows of which nothing was sent: their source has no whole cable, or no port has their address.
    pub unsent: u64,
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

    /// Every source sends one message, all at once: of its size, or as much as it can in `slice`, paced to the
    /// slowest link of its way. What arrives within `grace` after the longest could have been sent, or after the
    /// slice where that is longer, is in time; then the run goes on to the last byte. Meanwhile `changes`
    /// happen, in order of time. What cannot be sent counts as not arrived.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub fn carry(
        &self,
        config: &Config,
        flows: &[Flow],
        changes: &[CableChange],
        transport: Transport,
        (slice, grace): (Time, Time),
    ) -> Result<Carried, CarryError> {
        let mut network = self.network(config)?;
        let (at_first, later) =
            changes.split_at(changes.partition_point(|c| c.after == Time::ZERO));
        at_first.iter().for_each(|change| change.happen(&mut network));
        let (mut possible, mut longest, mut unsent) = (0, slice, 0);
        let mut sent = Vec::with_capacity(flows.len());
        for flow in flows {
            let bytes = flow.bytes.unwrap_or_else(|| network.payload_possible(flow.source, slice));
            possible += bytes;
            let path = network.path_rate(flow.source, flow.address);
            let rate = [path, flow.rate].into_iter().flatten().min();
            longest = longest.max(network.paced_time(flow.source, bytes, rate));
            if !network.is_up(flow.source) || flow.address == Lid::NONE {
                unsent += 1;
                continue;
            }
            let message = Message::new(flow.source, flow.address, bytes);
            sent.push((flow.source, network.send(Message { transport, rate, ..message })?));
        }
        let end = longest + grace;
        for change in later.iter().filter(|change| change.after < end) {
            network.run_until(change.after);
            change.happen(&mut network);
        }
        network.run_until(end);
        let in_time = network.statistics().bytes;
        // A source without a cable waits for one, which would be for ever.
        let cut_off = sent.iter().filter(|&&(source, _)| !network.is_up(source));
        for (source, message) in cut_off.copied().collect::<Vec<_>>() {
            network.cancel(message);
            network.restore(source);
        }
        if network.run_until(Time::MAX) == Outcome::Stuck {
            return Err(CarryError::Stuck);
        }
        let packets = |port| network.payload_possible(port, longest) / u64::from(config.mtu);
        let load = loads(self.topology, packets, |port| network.counters(port, 0).packets);
        Ok(Carried { in_time, possible, statistics: network.take_statistics(), load, unsent })
    }
}

impl CableChange {
    fn happen(&self, network: &mut Network) {
        if self.whole { network.restore(self.port) } else { network.cut(self.port) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::generate::Recipe;
    use snin_fabric::hosts::HostId;
    use snin_fabric::routing::{Engine, Routing};

    #[test]
    fn what_vanishes_takes_only_its_own_traffic_with_it() {
        let topology = "clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::DModK, None).unwrap();
        let addresses = routing.plan.addresses();
        let forwarding = Forwarding { topology: &topology, addresses, tables: &routing.tables };
        let port = |host| routing.hosts.get(HostId(host)).unwrap().port;
        let flow = |from, to| {
            let address = addresses.base(port(to)).unwrap();
            Flow { source: port(from), address, bytes: Some(409_600), rate: None }
        };
        let lost = Flow { address: Lid::NONE, ..flow(2, 0) };
        let flows = [flow(0, 2), flow(1, 3), lost];
        let change = |after, port, whole| CableChange { after, port, whole };
        let carried = |changes: &[CableChange], transport| {
            let times = (Time::ZERO, Time::micros(10));
            forwarding.carry(&Config::default(), &flows, changes, transport, times).unwrap()
        };
        for transport in [Transport::Uc, Transport::Rc] {
            let whole = carried(&[], transport);
            assert_eq!((whole.unsent, whole.possible), (1, 3 * 409_600));
            assert_eq!(whole.in_time, 2 * 409_600);
            // Host 0 has no cable from the start; then from the middle on; then for a while.
            let off = [change(Time::ZERO, port(0), false)];
            assert_eq!(
                (carried(&off, transport).unsent, carried(&off, transport).in_time),
                (2, 409_600)
            );
            let middle = Time::micros(4);
            let half = carried(&[change(middle, port(0), false)], transport);
            assert_eq!(half.unsent, 1);
            assert!((409_601..2 * 409_600).contains(&half.in_time), "{}", half.in_time);
            let back = Time::micros(5);
            let paused = [change(middle, port(0), false), change(back, port(0), true)];
            assert!(carried(&paused, transport).in_time > half.in_time);
        }
    }
}
