//! Reading of SwitchInfo and PortInfo: changes, ports to read, cables that came or went.

use snin_fabric::PortNum;
use snin_mad::port::Capabilities;
use snin_mad::{MKey, PortInfo, PortState, SwitchInfo};

use super::Survey;
use crate::graph::{Graph, Port, Trouble, is_up};
use crate::lft_shadow::LftShadow;
use crate::mft_shadow::Masks;
use crate::query::{NodeId, PortId, Query};

impl Survey {
    pub(super) fn switch_read(&mut self, graph: &mut Graph, id: NodeId, info: SwitchInfo) {
        let node = graph.node_mut(id);
        let changed = info.port_state_change;
        let forgot = node.switch.is_none() || node.shadow.top() != info.linear_fdb_top;
        let whole = self.whole.contains(&id);
        if forgot && (whole || self.probed == Some(id)) {
            // Another table than the one that was written: it is a new switch, or as good as one.
            self.reread(graph, id, &info);
        } else if !whole && self.probed != Some(id) {
            if changed || forgot {
                self.suspect(id);
            }
            return;
        }
        let node = graph.node_mut(id);
        node.shaken |= changed;
        node.switch = Some(info);
        if changed && self.reads_only {
            // The change stays for the master to see.
            self.read_ports(graph, id);
        } else if changed {
            self.urgent.push_back(Query::ClearChange(id));
        } else if self.whole.contains(&id) {
            self.read_ports(graph, id);
        }
    }

    /// Everything that a reset would have changed.
    pub(super) fn reread(&mut self, graph: &mut Graph, id: NodeId, info: &SwitchInfo) {
        let node = graph.node_mut(id);
        node.ports.iter_mut().for_each(Port::forget_qos_tables);
        node.shadow = LftShadow::unread(info.linear_fdb_top);
        node.masks = Masks::default();
        node.mirrored = self.number;
        if self.whole.insert(id) {
            self.queue.push_back(Query::Describe(id));
        }
        self.queue.extend(node.shadow.unread_blocks().map(|block| Query::ReadBlock(id, block)));
        for num in 0..node.ports.len() as u8 {
            self.forget_keys(graph, (id, PortNum(num)));
        }
    }

    pub(super) fn read_ports(&mut self, graph: &Graph, id: NodeId) {
        let whole = self.whole.contains(&id);
        if whole {
            self.queue.extend([
                Query::ReadPort(id, PortNum::ZERO),
                Query::ReadKeys(id, PortNum::ZERO, 0),
            ]);
        }
        // The switch does not say which port changed. First those that most likely did: what was down, and what
        // leads to another switch that saw a change.
        let likely = |port: &Port| {
            let suspected = port.link.is_some_and(|link| self.suspects.contains(&link.to.0));
            whole || suspected || !port.is_up()
        };
        for (num, port) in graph.node(id).external() {
            let queue = if likely(port) { &mut self.queue } else { &mut self.later };
            queue.push_back(Query::ReadPort(id, num));
        }
    }

    pub(super) fn port_read(&mut self, graph: &mut Graph, end: PortId, info: PortInfo) {
        let outer = match graph.node(end.0).is_switch() {
            true => end.1 != PortNum::ZERO,
            false => graph.is_home(end),
        };
        // What hangs on a node that was out of reach may be another by now.
        let anew = self.full || self.whole.contains(&end.0);
        let is_own = graph.is_own(end.0);
        let Some(port) = graph.port_mut(end) else { return };
        let before = port.info.replace(info);
        if let Some(now) = port.info.as_ref().filter(|_| !outer || is_own) {
            self.compare(end, before.as_ref(), now);
        }
        let Some(port) = graph.port_mut(end) else { return };
        self.learnt |= before != port.info;
        let is_init = |info: &PortInfo| info.state == PortState::Initialize;
        port.was_init |= port.info.as_ref().is_some_and(is_init);
        if graph.guard(end) == end {
            let known = before.as_ref().is_some_and(|info| info.m_key != MKey(0));
            match graph.guess_key(end, known) {
                true => self.urgent.push_back(Query::ReadPort(end.0, end.1)),
                false => self.key_read(graph, end),
            }
        }
        self.ask_manager(graph, end);
        let Some(port) = graph.port(end) else { return };
        let (up, link) = (port.is_up(), port.link);
        if let Some(link) = link.filter(|link| up && link.confirmed == self.number && !self.full) {
            let was_up = before.as_ref().is_some_and(is_up);
            self.has_news |= !was_up && graph.port(link.to).is_some_and(Port::is_up);
        }
        let Some(port) = graph.port_mut(end) else { return };
        let Some(now) = port.info.as_ref().filter(|_| outer) else { return };
        port.steady &= now.state == PortState::Active;
        let was_up = before.as_ref().is_some_and(is_up);
        if is_up(now) {
            // A port comes to INIT only by way of DOWN, however short. Where it was INIT before, this cannot
            // be told.
            let came_up = !was_up || now.state == PortState::Initialize;
            // A node that is known to be silent is asked in its own time.
            let mute = port.trouble == Some(Trouble::Mute) && was_up;
            // So is who left the question without an answer just now.
            let asked = was_up && self.rechecked.contains(&Query::Identify(end));
            let query = (anew || came_up || port.link.is_none()) && !mute && !asked;
            if came_up {
                graph.node_mut(end.0).shaken = true;
            }
            if query {
                self.identify(end);
            }
            return;
        }
        port.trouble = None;
        if was_up {
            graph.node_mut(end.0).shaken = true;
        }
        self.disconnect(graph, end);
    }

    /// Where another subnet manager sits, it is asked what it is doing.
    pub(super) fn ask_manager(&mut self, graph: &mut Graph, end: PortId) {
        let is_home = graph.is_home(end);
        let Some(port) = graph.port_mut(end).filter(|_| !is_home) else { return };
        let sits = port.info.as_ref().is_some_and(|info| info.capabilities.has(Capabilities::SM));
        if sits {
            self.queue.push_back(Query::ReadManager(end.0, end.1));
        } else {
            port.manager = None;
        }
    }

    /// Takes the cable off; the switch at the other end has to say what it saw.
    pub(super) fn disconnect(&mut self, graph: &mut Graph, end: PortId) {
        let Some(other) = graph.disconnect(end) else { return };
        self.learnt = true;
        (self.has_news, self.lost_a_cable) = (true, true);
        graph.retrace();
        if !self.full {
            self.ask_neighbours(graph, other.0);
            for id in [end.0, other.0] {
                if self.probed != Some(id) && graph.node(id).is_switch() {
                    self.suspect(id);
                }
            }
        }
    }
}
