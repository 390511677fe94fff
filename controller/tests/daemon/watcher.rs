//! The owners of every directed link over time: by the tables that the topology gives, sharing nothing with the
//! controller.

use std::collections::BTreeMap;

use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Dlid, Guid, PortIndex, PortNum, Topology};
use snin_protocol::Time;

/// A piece that went over the fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) from: Guid,
    pub(crate) to: Guid,
    pub(crate) dlid: Dlid,
    pub(crate) start: Time,
    pub(crate) end: Time,
}

/// See the module's documentation.
pub(crate) struct Watcher {
    topology: Topology,
    routing: Routing,
    ports: BTreeMap<Guid, PortIndex>,
    sent: Vec<Sent>,
}

impl Watcher {
    pub(crate) fn new(topology: Topology) -> Self {
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let ports = routing
            .hosts
            .iter()
            .map(|(_, host)| (topology.port(host.port).guid, host.port))
            .collect();
        Self { topology, routing, ports, sent: Vec::new() }
    }

    /// Every host port.
    pub(crate) fn hosts(&self) -> Vec<Guid> {
        self.ports.keys().copied().collect()
    }

    pub(crate) fn sees(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    pub(crate) const fn count(&self) -> usize {
        self.sent.len()
    }

    /// The directed links that a packet uses, by the port that sends on each.
    fn links(&self, sent: &Sent) -> Vec<PortIndex> {
        let mut links = vec![self.ports[&sent.from]];
        loop {
            let peer = self.topology.peer(*links.last().unwrap()).expect("a cable");
            let node = self.topology.port(peer).node;
            if !self.topology.is_switch(node) {
                assert_eq!(self.topology.port(peer).guid, sent.to, "{sent:?} went astray");
                return links;
            }
            assert!(links.len() < 10, "{sent:?} goes round");
            let out = self.routing.tables[node.index()].get(sent.dlid.0);
            assert_ne!(out, PortNum::NONE, "{sent:?} is dropped");
            links.push(self.topology.port_of(node, out).unwrap());
        }
    }

    /// What was sent before a moment.
    pub(crate) fn before(&self, moment: Time) -> Self {
        let sent = self.sent.iter().filter(|sent| sent.end < moment).copied().collect();
        Self {
            topology: self.topology.clone(),
            routing: self.routing.clone(),
            ports: self.ports.clone(),
            sent,
        }
    }

    /// What was sent between leaves from a moment on, with the leaves at both ends by name and the tree that
    /// leads over the same cables.
    pub(crate) fn trees_used(&self, since: Time) -> Vec<(Sent, Vec<(String, u16)>)> {
        let leaf = |port: &Guid| {
            self.topology.port(self.topology.peer(self.ports[port]).expect("a cable")).node
        };
        let name = |node| self.topology.node(node).name.to_string();
        let crossing = self.sent.iter().filter(|sent| leaf(&sent.from) != leaf(&sent.to));
        let tree_of = |sent: &Sent| {
            // The root is the spine on the way: of two stages only.
            let up = self.topology.peer(self.links(sent)[1]).expect("a cable");
            let root = self.topology.port(up).node;
            let trees = self.routing.forest.trees().iter();
            let mut of_root = trees.filter(|tree| tree.root == root);
            of_root.next().expect("a spine is a root").id.0
        };
        crossing
            .filter(|sent| sent.start >= since)
            .map(|sent| {
                let tree = tree_of(sent);
                (*sent, vec![(name(leaf(&sent.from)), tree), (name(leaf(&sent.to)), tree)])
            })
            .collect()
    }

    /// Two connections that were on one link at one moment.
    pub(crate) fn clash(&self) -> Option<(String, Sent, Sent)> {
        let mut on_link: BTreeMap<PortIndex, Vec<Sent>> = BTreeMap::new();
        for sent in &self.sent {
            for link in self.links(sent) {
                on_link.entry(link).or_default().push(*sent);
            }
        }
        for (link, mut all) in on_link {
            all.sort_by_key(|sent| sent.start);
            let mut last: Option<Sent> = None;
            for sent in all {
                if let Some(last) = last
                    && last.end > sent.start
                    && (last.from, last.to) != (sent.from, sent.to)
                {
                    return Some((self.topology.port_name(link), last, sent));
                }
                last = last.filter(|last| last.end >= sent.end).or(Some(sent));
            }
        }
        None
    }
}

#[test]
fn the_watcher_sees_a_clash() {
    use snin_fabric::TreeId;
    use snin_fabric::generate::Recipe;
    let mut watcher = Watcher::new("clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap());
    let hosts = watcher.hosts();
    let leaf = |watcher: &Watcher, port: &Guid| {
        let peer = watcher.topology.peer(watcher.ports[port]).unwrap();
        watcher.topology.port(peer).node
    };
    let neighbours = |a: &Guid, b: &Guid| leaf(&watcher, a) == leaf(&watcher, b);
    let (a, b) = (hosts[0], *hosts[1..].iter().find(|b| neighbours(&hosts[0], b)).unwrap());
    let far: Vec<Guid> = hosts.iter().filter(|c| !neighbours(&a, c)).copied().collect();
    let along = |watcher: &Watcher, to: Guid, tree| {
        watcher.routing.plan.dlid(watcher.ports[&to], TreeId(tree)).unwrap()
    };
    let sent = |watcher: &Watcher, from, to, tree, start: u64| {
        let dlid = along(watcher, to, tree);
        Sent { from, to, dlid, start: Time(start), end: Time(start + 10) }
    };
    let (c, d) = (far[0], far[1]);
    for (from, to, tree, start) in [(a, c, 0, 0), (b, d, 1, 5), (b, d, 0, 10)] {
        let sent = sent(&watcher, from, to, tree, start);
        watcher.sees(sent);
    }
    assert!(watcher.clash().is_none());
    let late = sent(&watcher, a, c, 0, 19);
    watcher.sees(late);
    assert!(watcher.clash().is_some());
}
