//! Discovery of what changed only: the switches that report a change, and the other ends of links that are gone
//! or new.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Guid, PortNum};
use snin_mad::{Attribute, DrPath, PortInfo, PortState};
use snin_protocol::Time;

use super::{Baseline, Node, What};

impl Baseline {
    /// A switch says that a port of its changed: all its ports are asked.
    pub(super) fn look_at(&mut self, guid: Guid, now: Time) {
        if !self.changed.insert(guid) {
            return;
        }
        let Some(node) = self.nodes.get(&guid) else { return };
        let (path, ports) = (node.path, node.ports.keys().copied().collect::<Vec<_>>());
        for port in ports.into_iter().filter(|&port| port > 0) {
            self.get(What::Port(guid, port), path, PortInfo::ID, port, now);
        }
    }

    /// A port that was asked again: a link that is gone makes its other end suspect.
    pub(super) fn port_again(&mut self, guid: Guid, port: u8, info: &PortInfo, now: Time) {
        let Some(node) = self.nodes.get_mut(&guid) else { return };
        let is_down = info.state == PortState::Down;
        let path = node.path;
        if !is_down {
            // A port that is up may lead somewhere else than before.
            if let Some(path) = path.then(PortNum(port)) {
                let what = What::Node(Some((guid, port)));
                self.get(what, path, snin_mad::NodeInfo::ID, 0, now);
            }
            return;
        }
        let Some(behind) = node.links.remove(&port) else { return };
        if let Some(behind) = self.nodes.get_mut(&behind) {
            behind.links.retain(|_, to| *to != guid);
        }
        self.suspects.insert(behind);
        self.find_paths();
        // The other neighbours say whether it is gone.
        let around: Vec<(Guid, u8)> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.switch)
            .flat_map(|(&at, node)| node.links.iter().map(move |(&port, &to)| (at, port, to)))
            .filter(|&(at, _, to)| to == behind && at != guid)
            .map(|(at, port, _)| (at, port))
            .collect();
        for (at, port) in around {
            if self.asked_again.insert((at, port)) {
                self.changed.insert(at);
                let path = self.nodes[&at].path;
                self.get(What::Port(at, port), path, PortInfo::ID, port, now);
            }
        }
    }

    /// A node that is known was reached by another way: its port there is asked too.
    pub(super) fn joined(&mut self, (from, port): (Guid, u8), to: Guid, by: u8, now: Time) {
        let is_new = self.nodes[&from].links.get(&port) != Some(&to);
        let Some(node) = self.nodes.get_mut(&to).filter(|node| is_new && node.switch) else {
            return;
        };
        node.links.insert(by, from);
        let path = node.path;
        self.changed.insert(to);
        if self.asked_again.insert((to, by)) {
            self.get(What::Port(to, by), path, PortInfo::ID, by, now);
        }
    }

    /// Shortest directed routes over the links that are known; those through suspects stay as they were.
    fn find_paths(&mut self) {
        for (guid, path) in self.paths(true) {
            self.nodes.entry(guid).and_modify(|node| node.path = path);
        }
    }

    fn paths(&self, wary: bool) -> BTreeMap<Guid, DrPath> {
        let mut paths = BTreeMap::new();
        let Some(&own) = self.order.first() else { return paths };
        paths.insert(own, DrPath::HERE);
        let mut queue = VecDeque::from([own]);
        while let Some(at) = queue.pop_front() {
            if wary && self.suspects.contains(&at) {
                continue;
            }
            let Some(node) = self.nodes.get(&at) else { continue };
            for (&port, &to) in &node.links {
                if let Some(path) = paths[&at].then(PortNum(port))
                    && self.nodes.contains_key(&to)
                    && !paths.contains_key(&to)
                {
                    paths.insert(to, path);
                    queue.push_back(to);
                }
            }
        }
        paths
    }

    /// What no link leads to any more is forgotten.
    pub(super) fn forget_unreachable(&mut self) {
        let there: BTreeSet<Guid> = self.paths(false).into_keys().collect();
        let gone: Vec<Node> =
            self.nodes.extract_if(.., |guid, _| !there.contains(guid)).map(|gone| gone.1).collect();
        for node in gone {
            self.taken.remove(&node.lid);
        }
        self.order.retain(|guid| there.contains(guid));
        self.changed.retain(|guid| there.contains(guid));
        for node in self.nodes.values_mut() {
            node.links.retain(|_, to| there.contains(to));
        }
        self.suspects.clear();
        self.asked_again.clear();
    }
}
