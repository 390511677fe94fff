//! What the counters of the links prove, by no more than the cables, the addresses, and where trees grow
//! from: no planner, no table.

use std::collections::{BTreeMap, BTreeSet};

use snin_emulator::frames::{Flow, Frames};
use snin_fabric::{Lid, NodeIndex, PortIndex, Topology, TreeId};

use super::fabric::Fabric;

/// What crossed the fabric in some time: the ports that each flow left by.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Trace {
    flows: BTreeMap<Flow, Passage>,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Passage {
    any: BTreeSet<PortIndex>,
    data: BTreeSet<PortIndex>,
}

impl Trace {
    /// What was counted since the last one was taken.
    pub fn take(frames: &mut Frames, topology: &Topology) -> Self {
        let mut trace = Self::default();
        for port in topology.ports() {
            for (&flow, count) in frames.flows(port) {
                let passage = trace.flows.entry(flow).or_default();
                passage.any.insert(port);
                if count.data > 0 {
                    passage.data.insert(port);
                }
            }
        }
        frames.forget_flows();
        trace
    }

    /// Adds what another one has.
    pub fn add(&mut self, other: &Self) {
        for (&flow, passage) in &other.flows {
            let all = self.flows.entry(flow).or_default();
            all.any.extend(&passage.any);
            all.data.extend(&passage.data);
        }
    }

    /// The flows that carried data.
    pub fn carried(&self) -> impl Iterator<Item = Flow> {
        self.flows.iter().filter(|(_, passage)| !passage.data.is_empty()).map(|(&flow, _)| flow)
    }
}

/// A flow that crossed other spines than it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Astray {
    /// From which address to which.
    pub flow: Flow,
    /// The root that it should have crossed, and no other; `None` within a leaf.
    pub expected: Option<NodeIndex>,
    /// The spines that it crossed.
    pub crossed: Vec<NodeIndex>,
}

/// A link that carried more than one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shared {
    /// The port by which their data left.
    pub port: PortIndex,
    /// Source and destination of each, by host.
    pub connections: Vec<(usize, usize)>,
}

/// Whose an address is.
#[derive(Clone, Copy, Debug)]
struct Owner {
    host: usize,
    leaf: NodeIndex,
    /// The tree that it is for; none of a base address, which nothing that was granted uses.
    tree: Option<TreeId>,
}

/// The judge of a fabric.
#[derive(Debug)]
pub struct Judge {
    owners: BTreeMap<Lid, Owner>,
    roots: Vec<NodeIndex>,
    /// By port: the switch that it belongs to, if that is a root.
    spine_of: BTreeMap<PortIndex, NodeIndex>,
}

impl Judge {
    /// Takes addresses and roots as the subnet manager published them.
    pub fn new(fabric: &Fabric) -> Self {
        let trees = || (0..fabric.trees()).map(TreeId);
        let roots: Vec<NodeIndex> = trees().map(|tree| fabric.root(tree)).collect();
        let mut owners = BTreeMap::new();
        for (host, place) in fabric.places().iter().enumerate() {
            let owner = |tree| Owner { host, leaf: place.leaf, tree };
            owners.insert(place.base, owner(None));
            for tree in trees() {
                if let Some(lid) = fabric.address(host, tree) {
                    owners.insert(lid, owner(Some(tree)));
                }
            }
        }
        let topology = fabric.topology();
        let node = |port| topology.port(port).node;
        let spines = topology.ports().filter(|&port| roots.contains(&node(port)));
        let spine_of = spines.map(|port| (port, node(port))).collect();
        Self { owners, roots, spine_of }
    }

    /// Flows that did not cross the root of their tree, or crossed another spine, acknowledgements included.
    pub fn astray(&self, trace: &Trace) -> Vec<Astray> {
        let judged = trace.flows.iter().map(|(&flow, passage)| {
            let crossed = passage.any.iter().filter_map(|port| self.spine_of.get(port).copied());
            let crossed: BTreeSet<NodeIndex> = crossed.collect();
            let expected = self.expected(flow);
            let right = expected.is_ok_and(|root| crossed.iter().copied().eq(root));
            let expected = expected.unwrap_or(None);
            (!right).then(|| Astray { flow, expected, crossed: crossed.into_iter().collect() })
        });
        judged.flatten().collect()
    }

    /// The root that frames of a flow have to cross: `None` within a leaf, an error where an address is
    /// of no port or no tree, or the two ends are of different trees.
    fn expected(&self, flow: Flow) -> Result<Option<NodeIndex>, ()> {
        let owner = |lid| self.owners.get(lid).ok_or(());
        let (source, destination) = (owner(&flow.source)?, owner(&flow.destination)?);
        let tree = destination.tree.filter(|_| source.tree == destination.tree).ok_or(())?;
        let root = self.roots[usize::from(tree.0)];
        Ok((source.leaf != destination.leaf).then_some(root))
    }

    /// Links that carried data of more than one connection.
    pub fn shared(&self, trace: &Trace) -> Vec<Shared> {
        let mut by_port: BTreeMap<PortIndex, BTreeSet<(usize, usize)>> = BTreeMap::new();
        for (flow, passage) in &trace.flows {
            let Some(connection) = self.connection(*flow) else { continue };
            for &port in &passage.data {
                by_port.entry(port).or_default().insert(connection);
            }
        }
        let several = by_port.into_iter().filter(|(_, connections)| connections.len() > 1);
        several
            .map(|(port, connections)| Shared {
                port,
                connections: connections.into_iter().collect(),
            })
            .collect()
    }

    /// The connections that carried data.
    pub fn connections(&self, trace: &Trace) -> BTreeSet<(usize, usize)> {
        trace.carried().filter_map(|flow| self.connection(flow)).collect()
    }

    /// Between which hosts a flow is.
    pub fn connection(&self, flow: Flow) -> Option<(usize, usize)> {
        let host = |lid| self.owners.get(lid).map(|owner| owner.host);
        Some((host(&flow.source)?, host(&flow.destination)?))
    }

    /// The tree whose root is at an end of a port's cable, where only one has it.
    pub fn crossed(&self, topology: &Topology, port: PortIndex) -> Option<u16> {
        let ends = [Some(port), topology.peer(port)].into_iter().flatten();
        let root = ends.filter_map(|end| self.spine_of.get(&end)).next()?;
        let mut trees = (0..).zip(&self.roots).filter(|(_, other)| *other == root);
        trees.next().map(|(tree, _)| tree).filter(|_| trees.next().is_none())
    }

    /// The tree that an address is for.
    pub fn tree(&self, address: Lid) -> Option<TreeId> {
        self.owners.get(&address).and_then(|owner| owner.tree)
    }

    /// The spines that data of a connection crossed.
    pub fn spines(&self, trace: &Trace, connection: (usize, usize)) -> Vec<NodeIndex> {
        let of = |flow: &Flow| self.connection(*flow) == Some(connection);
        let passages = trace.flows.iter().filter(|(flow, _)| of(flow));
        let ports = passages.flat_map(|(_, passage)| &passage.data);
        let spines: BTreeSet<NodeIndex> =
            ports.filter_map(|port| self.spine_of.get(port).copied()).collect();
        spines.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use snin_emulator::frames::Config;
    use snin_fabric::generate::Recipe;
    use snin_fabric::{ForwardingTable, PortNum};
    use snin_protocol::Time;

    use super::*;

    /// A frame of RoCE v2 over IPv4 that carries data.
    fn frame(source: Lid, destination: Lid) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
        for lid in [source, destination] {
            frame.extend([10, 9]);
            frame.extend(lid.0.to_be_bytes());
        }
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0, 4]);
        frame.extend([0; 100]);
        frame
    }

    fn fabric() -> Fabric {
        let topology = "clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap();
        Fabric::bring_up(&topology, None, 0).unwrap()
    }

    /// Sends a frame each along a tree; gives what was counted.
    fn trace(fabric: &Fabric, tables: &[ForwardingTable], sends: &[(usize, usize, u16)]) -> Trace {
        let mut frames = Frames::new(fabric.topology(), Config::default());
        frames.program(&fabric.tables().unwrap().0, tables);
        for &(from, to, tree) in sends {
            let [source, destination] =
                [from, to].map(|host| fabric.address(host, TreeId(tree)).unwrap());
            frames.send(fabric.places()[from].port, frame(source, destination), Time::ZERO);
        }
        frames.handle_deadline(Time::MAX);
        Trace::take(&mut frames, fabric.topology())
    }

    #[test]
    fn every_pair_and_tree_is_where_it_should_be_by_the_managers_tables() {
        let fabric = fabric();
        let judge = Judge::new(&fabric);
        let (_, tables) = fabric.tables().unwrap();
        let pairs = (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let sends: Vec<_> = pairs.flat_map(|(a, b)| (0..4).map(move |t| (a, b, t))).collect();
        let trace = trace(&fabric, &tables, &sends);
        assert_eq!(trace.carried().count(), 8 * 7 * 4);
        assert_eq!(judge.astray(&trace), []);
    }

    #[test]
    fn a_wrong_entry_of_one_switch_is_found() {
        let fabric = fabric();
        let judge = Judge::new(&fabric);
        let (_, mut tables) = fabric.tables().unwrap();
        let (leaf, lid) = (fabric.places()[0].leaf, fabric.address(7, TreeId(1)).unwrap());
        let right = tables[leaf.index()].get(lid);
        let by_another = tables[leaf.index()].get(fabric.address(7, TreeId(2)).unwrap());
        tables[leaf.index()].set(lid, by_another);
        let sends = [(0, 7, 1), (0, 7, 0), (0, 1, 1)];
        let found = judge.astray(&trace(&fabric, &tables, &sends));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].flow.destination, lid);
        assert_eq!(found[0].expected, Some(fabric.root(TreeId(1))));
        assert_eq!(found[0].crossed, [fabric.root(TreeId(2))]);
        // A frame that is lost has not crossed the root either.
        tables[leaf.index()].set(lid, PortNum::NONE);
        let found = judge.astray(&trace(&fabric, &tables, &sends));
        assert_eq!((found.len(), found[0].crossed.len()), (1, 0));
        tables[leaf.index()].set(lid, right);
        assert_eq!(judge.astray(&trace(&fabric, &tables, &sends)), []);
    }

    #[test]
    fn a_link_that_two_connections_use_is_found() {
        let fabric = fabric();
        let judge = Judge::new(&fabric);
        let (_, tables) = fabric.tables().unwrap();
        let apart = trace(&fabric, &tables, &[(0, 4, 0), (1, 6, 1)]);
        assert_eq!(judge.shared(&apart), []);
        assert_eq!(judge.spines(&apart, (1, 6)), [fabric.root(TreeId(1))]);
        let together = judge.shared(&trace(&fabric, &tables, &[(0, 4, 0), (1, 6, 0)]));
        assert_eq!(together.len(), 1);
        assert_eq!(together[0].connections, [(0, 4), (1, 6)]);
        let leaf = fabric.topology().port(together[0].port).node;
        assert_eq!(leaf, fabric.places()[0].leaf);
    }

    /// Programs that do not ask use base addresses: whose they are is known, and that nothing granted goes there.
    #[test]
    fn base_addresses_are_the_hosts_and_on_no_tree() {
        let topology = "clos:2,4,2".parse::<Recipe>().unwrap().build().unwrap();
        let fabric = Fabric::bring_up(&topology, None, 1).unwrap();
        let judge = Judge::new(&fabric);
        let mut frames = Frames::new(fabric.topology(), Config::default());
        let (addresses, tables) = fabric.tables().unwrap();
        frames.program(&addresses, &tables);
        let place = |host: usize| &fabric.places()[host];
        for (from, to) in [(0, 2), (1, 3)] {
            let sent = frame(place(from).base, place(to).base);
            frames.send(place(from).port, sent, Time::ZERO);
        }
        frames.handle_deadline(Time::MAX);
        let trace = Trace::take(&mut frames, fabric.topology());
        let shared = judge.shared(&trace);
        assert_eq!(shared.len(), 2, "one tree has both, up and down");
        assert!(shared.iter().all(|link| link.connections == [(0, 2), (1, 3)]), "{shared:?}");
        assert_eq!(judge.astray(&trace).len(), 2, "neither was granted");
        assert_eq!(judge.tree(place(2).base), None);
    }
}
