//! How long what has left a port is under way at most: what a guard has to cover besides clocks.

use snin_emulator::data::{Config, ConfigError, Message, Network};
use snin_fabric::hosts::Hosts;
use snin_fabric::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};
use snin_protocol::Time;

/// The longest path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Longest {
    /// How long a packet of full size takes along it, alone.
    pub time: Time,
    /// The switches that it passes.
    pub hops: u64,
    /// How long a packet of full size takes to be sent.
    pub packet: Time,
}

/// The longest path by all addresses of hosts, as if all its links were as slow as the `slowest`: that is the
/// longest of all paths with as many hops, whichever links it has.
///
/// # Errors
/// When `config` contradicts itself.
pub fn longest(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    config: &Config,
    slowest: Option<u64>,
) -> Result<Longest, ConfigError> {
    let hosts = Hosts::of(topology);
    // All hosts of a switch are reached by the same ways but for the last cable: one stands for all.
    let mut ends: Vec<(NodeIndex, PortIndex)> =
        hosts.iter().map(|(_, h)| (h.switch, h.port)).collect();
    ends.sort_unstable();
    ends.dedup_by_key(|end| end.0);
    let mut longest: Option<(usize, PortIndex, Lid)> = None;
    for &(_, destination) in &ends {
        let Some(base) = addresses.base(destination) else { continue };
        for offset in 0..addresses.lmc(destination).addresses() as u16 {
            let lid = Lid(base.0 + offset);
            for &(switch, source) in &ends {
                let hops = hops(topology, tables, switch, lid).filter(|_| source != destination);
                if let Some(hops) = hops.filter(|&hops| longest.is_none_or(|known| hops > known.0))
                {
                    longest = Some((hops, source, lid));
                }
            }
        }
    }
    let bandwidth = slowest.or(config.bandwidth);
    let mut network = Network::new(topology, Config { bandwidth, ..config.clone() })?;
    network.set_addresses(addresses);
    network.set_tables(tables);
    let Some((hops, source, lid)) = longest else { return Ok(Longest::default()) };
    let bytes = u64::from(config.mtu);
    let message = network.send(Message::new(source, lid, bytes)).ok();
    network.run_until(Time::MAX);
    let time = message.and_then(|message| network.progress(message).completed);
    let packet = network.sending_time(source, bytes);
    Ok(Longest { time: time.unwrap_or(Time::ZERO), hops: hops as u64, packet })
}

/// How many switches a packet passes, if it comes to an end.
fn hops(
    topology: &Topology,
    tables: &[ForwardingTable],
    mut switch: NodeIndex,
    lid: Lid,
) -> Option<usize> {
    for hops in 1..=tables.len() {
        let out = tables[switch.index()].get(lid);
        let port = topology.port_of(switch, out).filter(|_| out != PortNum::ZERO)?;
        switch = topology.port(topology.peer(port)?).node;
        if !topology.is_switch(switch) {
            return Some(hops);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::generate::Recipe;
    use snin_fabric::routing::{Engine, Routing};

    #[test]
    fn the_longest_path_is_through_all_stages() {
        let longest_of = |recipe: &str| {
            let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
            let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
            let addresses = routing.plan.addresses();
            longest(&topology, addresses, &routing.tables, &Config::default(), None).unwrap()
        };
        let packet = Time(83);
        // Cables of 50 ns, switches of 200 ns, a header of 160 ps each, a packet of 4,122 bytes at 20 ps.
        let two_stages = Longest { time: Time(4 * 50 + 3 * 200 + 83), hops: 3, packet };
        let three_stages = Longest { time: Time(6 * 50 + 5 * 200 + 84), hops: 5, packet };
        assert_eq!(longest_of("clos:4,2,2"), two_stages);
        assert_eq!(longest_of("fattree:4"), three_stages);
    }
}
