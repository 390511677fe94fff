//! How long what has left a port is under way at most: what a guard has to cover besides clocks.

use snin_emulator::data::{Config, ConfigError, Message, Network};
use snin_fabric::hosts::Hosts;
use snin_fabric::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};
use snin_protocol::Time;

/// The longest path by all addresses of hosts, and how long a packet of full size takes along it alone.
///
/// # Errors
/// What is wrong with `config`.
pub fn longest(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    config: &Config,
) -> Result<Time, ConfigError> {
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
    let mut network = Network::new(topology, config.clone())?;
    network.set_addresses(addresses);
    network.set_tables(tables);
    let packet = longest.and_then(|(_, source, lid)| {
        network.send(Message::new(source, lid, u64::from(config.mtu))).ok()
    });
    network.run_until(Time::MAX);
    Ok(packet.and_then(|packet| network.progress(packet).completed).unwrap_or(Time::ZERO))
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
        let time = |recipe: &str| {
            let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
            let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
            let addresses = routing.plan.addresses();
            longest(&topology, addresses, &routing.tables, &Config::default()).unwrap()
        };
        // Cables of 50 ns, switches of 200 ns, a header of 160 ps each, a packet of 4,122 bytes at 20 ps.
        assert_eq!(time("clos:4,2,2"), Time(4 * 50 + 3 * 200 + 83));
        assert_eq!(time("fattree:4"), Time(6 * 50 + 5 * 200 + 84));
    }
}
