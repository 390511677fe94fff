//! Agents, and what their applications ask for.

use std::collections::BTreeSet;

use rand::RngExt;
use snin_agent_core::Config as AgentConfig;
use snin_emulator::data::{self, Transport};
use snin_fabric::hosts::HostId;
use snin_fabric::traffic::Demand;
use snin_fabric::{LinkRate, PortIndex, Topology};
use snin_protocol::Time;

use super::super::host::Host;
use super::{Setup, World, WorldError};

impl World<'_> {
    /// Makes the agents of all who send or receive.
    pub(super) fn meet(&mut self, demands: &[Demand]) -> Result<(), WorldError> {
        let both = demands.iter().flat_map(|demand| [demand.source, demand.destination]);
        let new: BTreeSet<u32> = both.map(|host| host.0).collect();
        for place in new {
            if !self.hosts.contains_key(&place) {
                let host = self.new_host(place)?;
                self.hosts.insert(place, host);
                self.run_host(place);
            }
        }
        Ok(())
    }

    fn new_host(&mut self, place: u32) -> Result<Host, WorldError> {
        // Hosts are numbered by the fabric, and demands name those numbers.
        let port = self.hosts_of.get(HostId(place)).map_or(PortIndex(0), |host| host.port);
        let off = self.setup.clocks.nanos() as i64;
        let ahead = self.clocks.random_range(-off..=off);
        // A flow's number is free again when the controller has heard that it is over.
        let flows = 2 * self.degree as u32 + 2;
        let reliable = self.setup.transport == Transport::Rc;
        // An agent does not know which links a tree has: with the slowest of the fabric's what it sends fits into
        // its grant along any.
        let rate = self.wire.payload_at(port, self.slowest, Time::secs(1)) * 8;
        let config = AgentConfig {
            port: self.topology.port(port).guid,
            session: 1,
            flows,
            pairs: self.setup.queue_pairs,
            inbound_peers: 1024,
            inbound_flows: flows,
            queue: 2,
            depth: 4,
            piece: 1 << 30,
            mtu: self.setup.data.mtu.into(),
            // LRH, BTH, ICRC and VCRC; see the data plane.
            overhead: 26,
            rate: rate + rate / 64,
            clock_error: Some(self.setup.skew),
            drift: 0,
            ask_again: Time::millis(1).max(self.setup.control_latency * 4),
            settle: if reliable { Time::ZERO } else { self.drain },
            acknowledgement: if reliable { self.drain * 2 } else { Time::ZERO },
            linger: self.setup.window * 4,
            histogram: None,
            ..AgentConfig::default()
        };
        Ok(Host::new(place, port, config, self.setup.transport, ahead, self.now)?)
    }

    /// Applications ask for all of a pattern.
    pub(super) fn ask(&mut self, demands: &[Demand]) -> Result<(), WorldError> {
        let first = self.traffic.ask(demands);
        for (connection, demand) in (first..).zip(demands) {
            let Some(to) = self.hosts_of.get(demand.destination) else { continue };
            let peer = self.topology.port(to.port).guid;
            let message = self.message(demand)?;
            let Some(host) = self.hosts.get_mut(&demand.source.0) else { continue };
            if !host.open(connection, peer, message, demand.rate, self.now) {
                self.notes.push(format!("host {} has more flows than at first", demand.source));
            }
        }
        let sources: BTreeSet<u32> = demands.iter().map(|demand| demand.source.0).collect();
        sources.into_iter().for_each(|place| self.run_host(place));
        Ok(())
    }

    /// Bytes of a message, and in how many windows one is sent.
    fn message(&self, demand: &Demand) -> Result<(u64, u32), WorldError> {
        let port = self.hosts_of.get(demand.source).map_or(PortIndex(0), |host| host.port);
        let Setup { window, slice, hold, .. } = self.setup;
        let most = self.longest_grant();
        let Some(bytes) = demand.bytes else {
            if slice > window {
                return Err(WorldError::TooLong(slice, window));
            }
            let rate = self.rate_between(demand);
            return Ok((self.wire.payload_at(port, rate, slice.min(most)), hold));
        };
        let slowest = [self.slowest, demand.rate].into_iter().flatten().min();
        let takes = self.wire.paced_time(port, bytes, slowest);
        if takes > most { Err(WorldError::TooLong(takes, window)) } else { Ok((bytes, 1)) }
    }

    /// Bit/s that the links of two hosts carry, or less where less is asked for; `None` where no rate is known.
    pub(super) fn rate_between(&self, demand: &Demand) -> Option<u64> {
        let link = |host| {
            let port = self.hosts_of.get(host)?.port;
            rate_of(self.topology, &self.setup.data, port)
        };
        [link(demand.source), link(demand.destination), demand.rate].into_iter().flatten().min()
    }

    /// How long a grant of one window lasts for certain: guards are at both ends of it, and clocks are not
    /// sure of either.
    pub(super) fn longest_grant(&self) -> Time {
        self.setup.window - self.guard().0 * 3 - self.setup.skew * 2
    }
}

/// Bit/s of the slowest cable of a fabric; `None` where no rate is known.
pub(super) fn slowest(topology: &Topology, config: &data::Config) -> Option<u64> {
    topology.ports().filter_map(|port| rate_of(topology, config, port)).min()
}

/// Bit/s of a cable, as the data plane has it.
fn rate_of(topology: &Topology, config: &data::Config, port: PortIndex) -> Option<u64> {
    let ends = [port, topology.peer(port)?].into_iter();
    let told = ends.filter_map(|end| topology.port(end).rate).map(LinkRate::bits_per_second);
    config.bandwidth.or_else(|| told.min())
}
