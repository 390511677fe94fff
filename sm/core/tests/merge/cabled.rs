//! Subnets that are cabled together while they run: nothing reaches a wrong host on the way, whenever the manager
//! dies.
//!
//! The judge knows ports, tables and link states of the emulated switches, and nothing of the manager.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use snin_emulator::{Config as Hardware, Emulator, Fabric, Fault, Health};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{ForwardingTable, Lid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_mad::PortState;
use snin_protocol::Time;
use snin_sm_database::saved::Saved;

use crate::subnet::{Subnet, config};
use crate::two::fabric;

/// Which subnet a node was in before: the digits that its GUID begins with.
pub(crate) type Side = u64;

pub(crate) fn side(topology: &Topology, node: NodeIndex) -> Side {
    topology.node(node).guid.0 >> 52
}

/// Fabrics of other GUIDs, and the cables that join each to the next.
pub(crate) fn cabled(parts: &[&str]) -> (Topology, Vec<PortIndex>) {
    let mut builder = TopologyBuilder::new();
    let mut spines = Vec::new();
    for digits in parts {
        let part = fabric("clos:4,2,3", digits);
        let mut handles = Vec::new();
        for index in part.nodes() {
            let node = part.node(index);
            let to_spare = if node.kind == NodeKind::Switch { 2 } else { 0 };
            let (count, name) = (u64::from(node.ports), format!("{digits}-{}", node.name));
            let handle = builder.add(node.kind, node.guid, count + to_spare, &name).unwrap();
            for port in part.external_ports(index).filter(|_| node.kind == NodeKind::Adapter) {
                builder.set_port_guid(handle, part.num(port), part.port(port).guid).unwrap();
            }
            if &*node.name == "spine0" {
                spines.push((handle, node.ports, node.guid));
            }
            handles.push(handle);
        }
        for port in part.ports() {
            let Some(peer) = part.peer(port).filter(|peer| port < *peer) else { continue };
            let end = |port| (handles[part.port(port).node.index()], part.num(port));
            builder.cable(end(port), end(peer)).unwrap();
        }
    }
    for pair in spines.windows(2) {
        let port = |spine: usize, more: u8| (pair[spine].0, PortNum(pair[spine].1 + more));
        builder.cable(port(0, 1), port(1, 2)).unwrap();
    }
    let topology = builder.build().unwrap();
    let joint = |pair: &[(_, u8, snin_fabric::Guid)]| {
        let spine = topology.switches().find(|&node| topology.node(node).guid == pair[0].2);
        topology.port_of(spine.unwrap(), PortNum(pair[0].1 + 1)).unwrap()
    };
    let joints = spines.windows(2).map(joint).collect();
    (topology, joints)
}

/// What the judge has seen.
#[derive(Default)]
pub(crate) struct Judge {
    /// Which port an address meant in a subnet before it was joined.
    meant: BTreeMap<(Side, u16), PortIndex>,
    /// Addresses that led nowhere in a whole subnet at some time.
    unrouted: BTreeSet<(Side, u16)>,
    pub(crate) wrong: Vec<String>,
    /// Writes of addresses and tables.
    pub(crate) writes: u64,
    /// Addresses that mean another port than they did, and did so when nothing led to the old one any more.
    renamed: BTreeSet<(Side, u16)>,
}

/// Addresses of 36 hosts and 18 switches, twice.
pub(crate) const MOST: u16 = 160;

pub(crate) fn holds(fabric: &Fabric, port: PortIndex, lid: u16) -> bool {
    let info = fabric.port_info(port);
    let first = info.lid.0;
    first != 0 && (first..first + info.lmc.addresses() as u16).contains(&lid)
}

/// The port that takes a packet which a switch has for an address.
pub(crate) fn delivered(
    fabric: &Fabric,
    topology: &Topology,
    tables: &BTreeMap<NodeIndex, ForwardingTable>,
    (from, lid): (NodeIndex, u16),
) -> Option<PortIndex> {
    let mut at = from;
    for _ in 0..32 {
        let out = tables[&at].get(Lid(lid));
        if out == PortNum::ZERO {
            return Some(topology.port0(at)).filter(|&port| holds(fabric, port, lid));
        }
        let port = topology.port_of(at, out)?;
        let peer = topology.peer(port)?;
        let passes = |port| fabric.port_state(port) == PortState::Active;
        if !passes(port) || !passes(peer) {
            return None;
        }
        at = topology.port(peer).node;
        if !topology.is_switch(at) {
            return Some(peer).filter(|&port| holds(fabric, port, lid));
        }
    }
    None
}

impl Judge {
    pub(crate) fn look(&mut self, fabric: &Fabric, topology: &Topology) {
        let tables: BTreeMap<NodeIndex, ForwardingTable> =
            topology.switches().map(|switch| (switch, fabric.table(switch))).collect();
        let mut led: BTreeSet<(Side, u16)> = BTreeSet::new();
        for switch in topology.switches() {
            let side = side(topology, switch);
            for lid in 1..MOST {
                let Some(to) = delivered(fabric, topology, &tables, (switch, lid)) else {
                    continue;
                };
                led.insert((side, lid));
                let Some(&meant) = self.meant.get(&(side, lid)).filter(|&&meant| meant != to)
                else {
                    continue;
                };
                if self.unrouted.contains(&(side, lid)) {
                    self.renamed.insert((side, lid));
                } else {
                    let [to, meant] = [to, meant].map(|port| topology.port_name(port));
                    self.wrong.push(format!("LID {lid} reached {to}, and meant {meant}"));
                }
            }
        }
        for &(side, lid) in self.meant.keys() {
            if !led.contains(&(side, lid)) {
                self.unrouted.insert((side, lid));
            }
        }
    }

    /// From now on the addresses of these subnets mean what they mean now.
    pub(crate) fn begin(&mut self, fabric: &Fabric, topology: &Topology) {
        (self.meant, self.unrouted) = (BTreeMap::new(), BTreeSet::new());
        for port in topology.ports() {
            let node = topology.port(port).node;
            if topology.is_switch(node) && topology.num(port) != PortNum::ZERO {
                continue;
            }
            for lid in (1..MOST).filter(|&lid| holds(fabric, port, lid)) {
                self.meant.insert((side(topology, node), lid), port);
            }
        }
    }
}

/// The emulated fabrics, and what is remembered of each manager.
struct World {
    topology: Topology,
    emulator: Emulator,
    joints: Vec<PortIndex>,
    saved: Vec<Saved>,
    judge: Rc<RefCell<Judge>>,
}

impl World {
    /// Every fabric up, by a manager at its first host, which then ends. Fabrics that are to be absorbed are
    /// frozen.
    fn new(parts: &[&str]) -> Self {
        Self::with(parts, Health::Well)
    }

    /// The same; afterwards the agents of some hosts are so well.
    fn with(parts: &[&str], health: Health) -> Self {
        let (topology, joints) = cabled(parts);
        let mut emulator = Emulator::new(&topology, Hardware::default());
        for &joint in &joints {
            emulator.inject(Fault::Cut(joint), Time::ZERO);
        }
        let mut saved = Vec::new();
        for n in 0..parts.len() {
            let subnet = Subnet::at(emulator, topology.clone(), config(), Saved::default(), 12 * n);
            let (back, kept) = subnet.stop();
            emulator = back;
            saved.push(kept);
        }
        let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
        let now = emulator.now();
        for node in hosts.skip(1).step_by(3) {
            emulator.inject(Fault::Agent(node, health), now);
        }
        let judge: Rc<RefCell<Judge>> = Rc::default();
        judge.borrow_mut().begin(emulator.fabric(), &topology);
        let (watched, cables) = (judge.clone(), topology.clone());
        emulator.watch(move |fabric, write| {
            if [0x15, 0x19].contains(&write.attribute.0) {
                let mut judge = watched.borrow_mut();
                judge.writes += 1;
                judge.look(fabric, &cables);
            }
        });
        Self { topology, emulator, joints, saved, judge }
    }

    /// A cable is plugged in, and this manager finds it. It dies after so many writes, and another takes over with
    /// what was stored.
    fn join(self, joint: usize, manager: usize, dies_after: Option<u64>) -> Self {
        let Self { topology, mut emulator, joints, mut saved, judge } = self;
        judge.borrow_mut().begin(emulator.fabric(), &topology);
        let now = emulator.now();
        emulator.inject(Fault::Restore(joints[joint]), now);
        // The link trains.
        emulator.advance(now + Time::secs(1));
        let first = std::mem::take(&mut saved[manager]);
        let host = 12 * manager;
        let mut subnet = Subnet::start(emulator, topology.clone(), config(), first, host);
        if let Some(most) = dies_after {
            let begun = judge.borrow().writes;
            while judge.borrow().writes - begun < most && !subnet.has_settled() {
                subnet.run(Time::micros(2));
            }
            let (back, kept) = subnet.stop();
            subnet = Subnet::start(back, topology.clone(), config(), kept, host);
        }
        subnet.settle();
        (emulator, saved[manager]) = subnet.stop();
        Self { topology, emulator, joints, saved, judge }
    }

    /// Every host of these subnets reaches every other at each of its addresses.
    fn reach(&self, sides: &[Side]) -> usize {
        let (fabric, topology) = (self.emulator.fabric(), &self.topology);
        let tables = topology.switches().map(|switch| (switch, fabric.table(switch))).collect();
        let joined = |node: &NodeIndex| sides.contains(&side(topology, *node));
        let mut reached = 0;
        for node in topology.nodes().filter(|node| !topology.is_switch(*node)).filter(joined) {
            let port = topology.external_ports(node).next().unwrap();
            let lids = (1..MOST).filter(|&lid| holds(fabric, port, lid));
            for lid in lids.collect::<Vec<_>>() {
                for switch in topology.switches().filter(joined) {
                    let to = delivered(fabric, topology, &tables, (switch, lid));
                    assert_eq!(to, Some(port), "LID {lid} from {}", topology.node(switch).name);
                    reached += 1;
                }
            }
        }
        reached
    }
}

const NORTH: Side = 0x020;
const SOUTH: Side = 0x02A;
const WEST: Side = 0x02B;

#[test]
fn no_packet_reaches_a_wrong_host_while_two_subnets_become_one() {
    let world = World::new(&["200", "2a0"]);
    let before: Vec<_> =
        world.judge.borrow().meant.iter().map(|(key, port)| (*key, *port)).collect();
    let of = |of: Side| -> BTreeSet<u16> {
        before.iter().filter(|((side, _), _)| *side == of).map(|((_, lid), _)| *lid).collect()
    };
    assert_eq!((of(NORTH).len(), of(NORTH)), (30, of(SOUTH)), "all LIDs in common");
    let world = world.join(0, 0, None);
    let judge = world.judge.borrow();
    assert_eq!(judge.wrong, Vec::<String>::new());
    assert_eq!(world.reach(&[NORTH, SOUTH]), 24 * 2 * 12);
    // The survivor's addresses are as they were; the other's mean the survivor's now, and did not before they
    // meant nothing.
    for ((of, lid), port) in &before {
        let stays = holds(world.emulator.fabric(), *port, *lid);
        assert_eq!(stays, *of == NORTH, "{lid}");
    }
    assert_eq!(judge.renamed.iter().filter(|(of, _)| *of == SOUTH).count(), 30);
    assert_eq!(judge.renamed.iter().filter(|(of, _)| *of == NORTH).count(), 0);
    // Hosts that moved are asked to register again.
    for ((of, _), port) in &before {
        let asked = world.emulator.fabric().reregistrations(*port);
        assert!(*of == NORTH || world.topology.num(*port) == PortNum::ZERO || asked > 0);
    }
    println!("{} writes", judge.writes);
}

/// Hosts that take their addresses late, when tables are long written.
#[test]
fn nor_where_hosts_are_slow_to_take_their_addresses() {
    let slow = Health::Slow(Time::millis(30));
    let world = World::with(&["200", "2a0"], slow).join(0, 0, None);
    let judge = world.judge.borrow();
    assert_eq!(judge.wrong, Vec::<String>::new());
    assert_eq!(world.reach(&[NORTH, SOUTH]), 24 * 2 * 12);
    assert_eq!(judge.renamed.iter().filter(|(of, _)| *of == SOUTH).count(), 30);
}

#[test]
fn whenever_the_manager_dies_the_next_one_finishes() {
    let all = World::new(&["200", "2a0"]).join(0, 0, None);
    let writes = all.judge.borrow().writes;
    assert!(writes > 36, "{writes}");
    let steps = if std::env::var_os("SNIN_MERGES").is_some() { 1 } else { 7 };
    for most in (1..writes).step_by(steps) {
        let slow = Health::Slow(Time::millis(5 * (most % 3)));
        let world = World::with(&["200", "2a0"], slow).join(0, 0, Some(most));
        assert_eq!(world.judge.borrow().wrong, Vec::<String>::new(), "after {most} writes");
        world.reach(&[NORTH, SOUTH]);
    }
}

#[test]
fn three_subnets_become_one_in_every_order() {
    // Which cable is plugged in, and which manager survives there.
    for order in [[(0, 0), (1, 0)], [(1, 1), (0, 0)], [(1, 2), (0, 2)], [(0, 1), (1, 2)]] {
        let mut world = World::new(&["200", "2a0", "2b0"]);
        for (joint, manager) in order {
            world = world.join(joint, manager, None);
        }
        assert_eq!(world.judge.borrow().wrong, Vec::<String>::new(), "{order:?}");
        assert_eq!(world.reach(&[NORTH, SOUTH, WEST]), 36 * 2 * 18);
    }
}
