//! Nodes, ports and faults as people name them: `leaf3/20`, `cut leaf3/20`.

use snin_fabric::{Guid, NodeIndex, PortIndex, PortNum, Topology};
use snin_protocol::Time;

use crate::config::Noise;
use crate::emulator::Fault;
use crate::hardware::Health;

/// How long a node that reboots is away.
const REBOOT: Time = Time::millis(500);
/// What can be said of a cable, and of a node.
const FORM: &str = "expected cut|restore|bounce|refuse|accept NODE/PORT, train NODE/PORT RATE, plug|swap \
                    NODE/PORT NODE/PORT, errors NODE/PORT PPM, or reboot|off|on|dead|well|mute|speak NODE";

/// A node by NodeDescription, GUID (`0x...`), or its name in a netlist (`H-` or `S-` and the GUID).
///
/// # Errors
/// One line that says that there is none, or several.
pub fn node(topology: &Topology, name: &str) -> Result<NodeIndex, String> {
    let digits = name.strip_prefix("H-").or_else(|| name.strip_prefix("S-"));
    let guid = match digits {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(Guid),
        None if name.starts_with("0x") => name.parse().ok(),
        None => None,
    };
    let is = |&node: &NodeIndex| {
        let node = topology.node(node);
        &*node.name == name || Some(node.guid) == guid
    };
    let mut found = topology.nodes().filter(is);
    match (found.next(), found.next()) {
        (Some(node), None) => Ok(node),
        (None, _) => Err(format!("no node `{name}`")),
        (Some(_), Some(_)) => Err(format!("two nodes `{name}`, give a GUID")),
    }
}

/// A port without a cable: `NODE/PORT`.
///
/// # Errors
/// One line that says what is wrong.
pub fn free_port(topology: &Topology, place: &str) -> Result<PortIndex, String> {
    let form = || format!("`{place}` is no NODE/PORT");
    let (name, port) = place.rsplit_once('/').ok_or_else(form)?;
    let node = node(topology, name)?;
    let num = PortNum(port.parse().map_err(|_| form())?);
    let index = topology.port_of(node, num).filter(|_| num != PortNum::ZERO);
    let index = index.ok_or_else(|| format!("{name} has no port {num}"))?;
    match topology.peer(index) {
        None => Ok(index),
        Some(_) => Err(format!("{name} has a cable at port {num} already")),
    }
}

/// The end of a cable: `NODE/PORT`.
///
/// # Errors
/// One line that says what is wrong, and at which ports there are cables.
pub fn cable(topology: &Topology, place: &str) -> Result<PortIndex, String> {
    let form = || format!("`{place}` is no NODE/PORT");
    let (name, port) = place.rsplit_once('/').ok_or_else(form)?;
    let node = node(topology, name)?;
    let num: u8 = port.parse().map_err(|_| form())?;
    let mut cabled = topology.cables(node).map(|(port, _)| port);
    cabled.find(|&port| topology.num(port) == PortNum(num)).ok_or_else(|| {
        let cabled = ranges(topology.cables(node).map(|(port, _)| topology.num(port)));
        format!("{name} has no cable at port {num}; it has cables at {cabled}")
    })
}

/// A port where programs can be: a port's GUID, `NODE/PORT`, or `NODE` for its first port with a cable. On a
/// switch that is port 0.
///
/// # Errors
/// One line that says what is wrong.
pub fn end_port(topology: &Topology, place: &str) -> Result<PortIndex, String> {
    if let Some(port) = place.parse().ok().and_then(|guid| port_of(topology, guid)) {
        return Ok(port);
    }
    let (name, num) = match place.rsplit_once('/') {
        Some((name, num)) => {
            let num = num.parse().map_err(|_| format!("`{place}` is no NODE/PORT"))?;
            (name, Some(PortNum(num)))
        }
        None => (place, None),
    };
    let node = node(topology, name)?;
    if topology.is_switch(node) {
        return Ok(topology.port0(node));
    }
    let found = match num {
        Some(num) => topology.port_of(node, num).filter(|_| num != PortNum(0)),
        None => topology.cables(node).next().map(|(port, _)| port),
    };
    found.ok_or_else(|| format!("{name} has no such port, or no cable"))
}

/// The adapter's port that has this GUID.
pub fn port_of(topology: &Topology, guid: Guid) -> Option<PortIndex> {
    topology.ports().find(|&port| {
        let is_host = !topology.is_switch(topology.port(port).node);
        is_host && topology.num(port) != PortNum(0) && guid_of(topology, port) == guid
    })
}

/// The GUID of an adapter's port; the node's where it has none of its own.
pub fn guid_of(topology: &Topology, port: PortIndex) -> Guid {
    let port = topology.port(port);
    if port.guid == Guid(0) { topology.node(port.node).guid } else { port.guid }
}

impl Fault {
    /// A fault as people say it, such as `cut leaf3/20` or `off spine2`.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn said(text: &str, topology: &Topology) -> Result<Self, String> {
        let form = || FORM.to_owned();
        let (verb, place) = text.trim().split_once(' ').ok_or_else(form)?;
        let place = place.trim();
        let cable_at = cable;
        let cable = || cable(topology, place);
        let node = || node(topology, place);
        Ok(match verb {
            "cut" => Self::Cut(cable()?),
            "restore" => Self::Restore(cable()?),
            "bounce" => Self::Bounce(cable()?),
            "refuse" => Self::Refuse(cable()?, true),
            "accept" => Self::Refuse(cable()?, false),
            "train" => {
                let (at, rate) = place.rsplit_once(' ').ok_or_else(form)?;
                let rate = rate.parse();
                let rate =
                    rate.map_err(|()| format!("`{place}`: a rate is such as 1xSDR or 4xHDR"))?;
                Self::Train(cable_at(topology, at.trim())?, rate)
            }
            "swap" => {
                let (one, other) = place.rsplit_once(' ').ok_or_else(form)?;
                Self::Swap(cable_at(topology, one.trim())?, cable_at(topology, other)?)
            }
            "plug" => {
                let (one, other) = place.rsplit_once(' ').ok_or_else(form)?;
                let [one, other] = [one.trim(), other].map(|place| free_port(topology, place));
                let (one, other) = (one?, other?);
                if one == other {
                    return Err(format!("`{place}` is one port"));
                }
                Self::Plug(one, other)
            }
            "errors" => {
                let (at, often) = place.rsplit_once(' ').ok_or_else(form)?;
                let often = often.parse().ok().filter(|&often| often <= Noise::WHOLE);
                let often = often.ok_or_else(|| {
                    format!("`{place}`: of a million packets so many, 0 to {}", Noise::WHOLE)
                })?;
                Self::SymbolErrors(cable_at(topology, at.trim())?, often)
            }
            "mute" => Self::Application(node()?, false),
            "speak" => Self::Application(node()?, true),
            "reboot" => Self::Reboot(node()?, REBOOT),
            "off" => Self::PowerOff(node()?),
            "on" => Self::PowerOn(node()?),
            "dead" => Self::Agent(node()?, Health::Dead),
            "well" => Self::Agent(node()?, Health::Well),
            _ => return Err(form()),
        })
    }
}

/// `1-4, 7`, of numbers that rise.
fn ranges(numbers: impl Iterator<Item = PortNum>) -> String {
    let numbers: Vec<u8> = numbers.map(|number| number.0).collect();
    let runs = numbers.chunk_by(|&a, &b| a + 1 == b);
    let range = |run: &[u8]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    };
    let ranges: Vec<String> = runs.map(range).collect();
    if ranges.is_empty() { "none".to_owned() } else { ranges.join(", ") }
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;

    use super::*;

    fn fabric() -> Topology {
        "clos:2,2,1".parse::<Recipe>().unwrap().build().unwrap()
    }

    #[test]
    fn faults_name_nodes_and_ports_of_the_fabric() {
        let fabric = fabric();
        let fault = |text: &str| Fault::said(text, &fabric);
        assert!(matches!(fault("cut leaf1/3"), Ok(Fault::Cut(_))));
        assert!(matches!(fault("train leaf1/3 1xSDR"), Ok(Fault::Train(..))));
        assert!(matches!(fault("swap leaf0/3 leaf1/3"), Ok(Fault::Swap(..))));
        assert_eq!(fault("reboot 0x0200020000000100"), Ok(Fault::Reboot(NodeIndex(3), REBOOT)));
        assert_eq!(fault("dead S-0200020000000100"), Ok(Fault::Agent(NodeIndex(3), Health::Dead)));
        let wrong = [
            "swap leaf0/3",
            "plug leaf0/3 leaf1/3",
            "plug leaf0/4 leaf0/4",
            "cut",
            "burn leaf1",
            "cut leaf1",
            "cut leaf1/0",
            "train leaf1/3",
            "train leaf1/3 3xSDR",
            "cut leaf9/1",
            "off nobody",
        ];
        for bad in wrong {
            assert!(fault(bad).is_err(), "{bad}");
        }
        let named = fault("cut leaf1/9").unwrap_err();
        assert!(named.ends_with("leaf1 has no cable at port 9; it has cables at 1-3"), "{named}");
    }

    #[test]
    fn programs_are_at_hosts_and_at_switches_port_0() {
        let fabric = fabric();
        let host = fabric.nodes().find(|&node| !fabric.is_switch(node)).unwrap();
        let port = fabric.port_of(host, PortNum(1)).unwrap();
        let name = fabric.node(host).name.to_string();
        let guid = guid_of(&fabric, port).to_string();
        for place in [&name, &format!("{name}/1"), &guid] {
            assert_eq!(end_port(&fabric, place), Ok(port), "{place}");
        }
        let spine = node(&fabric, "spine0").unwrap();
        assert_eq!(end_port(&fabric, "spine0"), Ok(fabric.port0(spine)));
        for bad in [format!("{name}/0"), format!("{name}/2"), format!("{name}/x"), "no".to_owned()]
        {
            assert!(end_port(&fabric, &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ports_are_named_in_ranges() {
        let ranges = |numbers: &[u8]| ranges(numbers.iter().copied().map(PortNum));
        assert_eq!(ranges(&[1, 2, 3, 5, 9, 10]), "1-3, 5, 9-10");
        assert_eq!(ranges(&[]), "none");
    }
}
