//! Faults, and when they happen.

use snin_fabric::{Guid, LinkRate, NodeIndex, PortIndex};
use snin_protocol::Time;

use crate::config::Noise;
use crate::emulator::Emulator;
use crate::hardware::{Health, NO_PORT};
use crate::queue::Event;
use snin_mad::NodeString;

/// Something that goes wrong, or right again. A cable is named by either of its ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A cable is cut; both ends notice at once.
    Cut(PortIndex),
    /// The cable is whole again: the link trains.
    Restore(PortIndex),
    /// A new cable joins two ports that have none.
    Plug(PortIndex, PortIndex),
    /// The link goes down and trains again.
    Bounce(PortIndex),
    /// The link goes down and trains to this rate, though its ports can do more: a damaged cable or connector.
    /// Packets of the data plane are as quick as before.
    Train(PortIndex, LinkRate),
    /// Two cables change places at these ports: what was behind the one is behind the other.
    Swap(PortIndex, PortIndex),
    /// Whether a node's software runs: without it the agent says what the node is, but refuses its name.
    Application(NodeIndex, bool),
    /// A node loses power, and with it everything that was written to it.
    PowerOff(NodeIndex),
    /// A node has power again: empty tables, no LIDs, its links train.
    PowerOn(NodeIndex),
    /// Loses power for so long.
    Reboot(NodeIndex, Time),
    /// A node's agents become slow, or dead, or well.
    Agent(NodeIndex, Health),
    /// MADs come to harm wherever they are.
    Noise(Noise),
    /// MADs come to harm on this cable, each time they pass.
    CableNoise(PortIndex, Noise),
    /// Of a million packets that this port receives, so many come with a symbol error that does no harm but is
    /// counted.
    SymbolErrors(PortIndex, u32),
    /// A port refuses every write (status 0x1C), or no more; port 0 of a switch its tables too.
    Refuse(PortIndex, bool),
    /// A node claims another GUID: most likely one that another node has.
    NodeGuid(NodeIndex, Guid),
    /// An operator renames a node; its agent tells (trap 144).
    Rename(NodeIndex, String),
}

impl Emulator {
    /// Lets something go wrong at a time; one that has passed means now.
    ///
    /// # Panics
    /// If the fault names a node or port that the topology has not.
    pub fn inject(&mut self, fault: Fault, at: Time) {
        let topology = self.fabric.topology();
        match &fault {
            Fault::Cut(port)
            | Fault::Restore(port)
            | Fault::Bounce(port)
            | Fault::Train(port, _)
            | Fault::Refuse(port, _)
            | Fault::Swap(port, _)
            | Fault::SymbolErrors(port, _)
            | Fault::Plug(port, _)
            | Fault::CableNoise(port, _) => {
                assert!(port.index() < topology.port_count(), "no such port: {fault:?}");
            }
            Fault::PowerOff(node)
            | Fault::PowerOn(node)
            | Fault::Reboot(node, _)
            | Fault::Application(node, _)
            | Fault::Agent(node, _)
            | Fault::NodeGuid(node, _)
            | Fault::Rename(node, _) => {
                assert!(node.index() < topology.node_count(), "no such node: {fault:?}");
            }
            Fault::Noise(_) => {}
        }
        let number = self.faults.last_key_value().map_or(0, |(&last, _)| last.wrapping_add(1));
        self.faults.insert(number, fault);
        let fault = number;
        self.queue.push(at.max(self.now), Event::Fault { fault });
    }

    pub(crate) fn strike(&mut self, fault: u32) {
        let Some(fault) = self.faults.remove(&fault) else { return };
        self.stats.faults += 1;
        let fabric = &mut self.fabric;
        match fault {
            Fault::Cut(port) => fabric.cut(port.0),
            Fault::Restore(port) => fabric.restore(port.0),
            Fault::Plug(a, b) => fabric.plug(a.0, b.0),
            Fault::Bounce(port) => fabric.link_down(port.0, None),
            Fault::Train(port, rate) => fabric.train(port.0, rate),
            Fault::Swap(a, b) => fabric.swap(a.0, b.0),
            Fault::Application(node, answers) => {
                fabric.nodes[node.index()].application = answers;
            }
            Fault::PowerOff(node) => fabric.power_off(node.0),
            Fault::PowerOn(node) => fabric.power_on(node.0),
            Fault::Reboot(node, pause) => {
                fabric.power_off(node.0);
                let life = fabric.nodes[node.index()].life;
                self.queue.push(self.now + pause, Event::PowerOn { node: node.0, life });
            }
            Fault::Agent(node, health) => fabric.nodes[node.index()].health = health,
            Fault::Noise(noise) => self.noise = noise,
            Fault::CableNoise(port, noise) => {
                let peer = fabric.ports[port.index()].cable;
                for end in [port.0, peer].into_iter().filter(|&end| end != NO_PORT) {
                    fabric.ports[end as usize].noise = noise;
                }
            }
            Fault::SymbolErrors(port, often) => {
                fabric.ports[port.index()].symbol_errors = often;
            }
            Fault::Refuse(port, refuses) => fabric.ports[port.index()].refuses = refuses,
            Fault::NodeGuid(node, guid) => fabric.nodes[node.index()].guid = guid,
            Fault::Rename(node, name) => {
                fabric.nodes[node.index()].description = NodeString::new(&name);
                let is_switch = fabric.nodes[node.index()].is_switch();
                let teller = fabric.ports_of(node.0).nth(usize::from(!is_switch));
                if let Some(port) = teller {
                    fabric.notify_local_change(port, true);
                }
            }
        }
    }
}
