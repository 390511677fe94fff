//! Discovery: which questions to ask, and what follows from the answers.
//!
//! A *full* survey begins at the own port and goes wherever answers lead, everything in flight at once: a
//! node's ports are asked for while its neighbours are still being found. A *light* one asks every switch
//! whether something changed. Both, and traps, name *suspects*; those are probed one after the other, and
//! only what changed is followed.
//!
//! PortStateChange is cleared before the ports are read, so that what happens in between is seen the next
//! time (IBA 14.2.5.4).

mod conclude;
mod identity;
mod keys;
mod ports;
mod sample;
mod vanished;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Lid, PortNum, printable};
use snin_mad::{
    Error, LinearForwarding, Mad, MulticastForwarding, NodeDescription, NodeInfo, PKeyTable,
    PortInfo, SmInfo, SwitchInfo,
};

use crate::graph::homes::Homes;
use crate::graph::{Graph, Trouble};
use crate::query::{NodeId, PortId, Query};
use snin_sm_database::directed_route::DirectedRoute;

/// One survey.
#[derive(Debug)]
pub(crate) struct Survey {
    number: u32,
    full: bool,
    /// Questions for identity: asked first, so that the front moves on.
    urgent: VecDeque<Query>,
    queue: VecDeque<Query>,
    /// Asked when all of those are answered.
    later: VecDeque<Query>,
    /// Questions in flight.
    open: usize,
    suspects: VecDeque<NodeId>,
    /// The suspect being probed.
    probed: Option<NodeId>,
    /// All that were.
    all_probed: BTreeSet<NodeId>,
    /// Nodes of which everything is read.
    whole: BTreeSet<NodeId>,
    /// Questions to nodes to which there was no way just then; `true` when asked for the second time.
    stranded: BTreeMap<Query, bool>,
    /// Nodes that left a write unanswered; why, what guards them will tell.
    barred: BTreeSet<NodeId>,
    /// Ports that are asked who is there although it is known.
    forced: BTreeSet<PortId>,
    /// Questions without an answer, asked once more when the way there was looked at; those that were asked
    /// along a way only if it leads elsewhere now.
    rechecks: Vec<(Query, Option<DirectedRoute>)>,
    /// Nodes that left a question of this survey without an answer: it does not wait for them.
    aside: BTreeSet<NodeId>,
    rechecked: BTreeSet<Query>,
    /// Switches of which a cable was found to be off.
    cut_off: BTreeSet<NodeId>,
    /// What was asked of ports at the other end of a cable, once.
    facing: BTreeSet<Query>,
    /// Newcomers whose GUID another node has already: the port of the one, the port of the other.
    disputes: Vec<(PortId, PortId)>,
    /// The address of this manager, once it has written anything.
    manager: Option<Lid>,
    /// Nothing is written, not even that a change was seen: another manager may be master.
    pub(crate) reads_only: bool,
    /// A port, or the switch of a table, that another manager has written to.
    pub(crate) overwritten: Option<PortId>,
    /// Something was read that a computation may see.
    learnt: bool,
    /// Questions whose answers none but administration wants.
    demands: BTreeSet<Query>,
    /// A cable between known nodes was taken off, or found and known from both ends.
    pub(crate) has_news: bool,
    /// A cable between known nodes was taken off: what was asked over it is lost.
    pub(crate) lost_a_cable: bool,
    /// A GUID that two had is in use once only: what was learnt while the two could not be told apart
    /// is worth nothing.
    pub(crate) distrusts: bool,
    /// A GUID is in use twice of which this was not known. One of the two may be a node that is gone since,
    /// such as a switch whose place, and hosts, another one has.
    pub(crate) clashes: bool,
    /// It began with nothing that was known before.
    pub(crate) fresh: bool,
}

impl Survey {
    fn new(number: u32, full: bool) -> Self {
        Self {
            number,
            full,
            urgent: VecDeque::new(),
            queue: VecDeque::new(),
            later: VecDeque::new(),
            open: 0,
            suspects: VecDeque::new(),
            probed: None,
            all_probed: BTreeSet::new(),
            whole: BTreeSet::new(),
            stranded: BTreeMap::new(),
            barred: BTreeSet::new(),
            forced: BTreeSet::new(),
            rechecks: Vec::new(),
            aside: BTreeSet::new(),
            rechecked: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            facing: BTreeSet::new(),
            disputes: Vec::new(),
            manager: None,
            reads_only: false,
            overwritten: None,
            learnt: full,
            demands: BTreeSet::new(),
            has_news: false,
            lost_a_cable: false,
            distrusts: false,
            clashes: false,
            fresh: false,
        }
    }

    /// Everything, from the own ports on: first from the one at which the manager sits.
    pub(crate) fn full(number: u32, homes: &Homes) -> Self {
        let mut survey = Self::new(number, true);
        let others = homes.ports().filter(|&port| port != homes.seat());
        survey.urgent.extend([homes.seat()].into_iter().chain(others).map(Query::Own));
        survey
    }

    /// Only what its suspects lead to.
    pub(crate) fn local(number: u32) -> Self {
        Self::new(number, false)
    }

    /// Every switch: did something change? And once more what is not known. Where keys are `leased`, every
    /// port hears that its manager is still there.
    pub(crate) fn light(number: u32, graph: &Graph, leased: bool) -> Self {
        let mut survey = Self::new(number, false);
        // No trap comes through an own port when it was down.
        survey.read_homes(graph);
        for (id, node) in graph.reachable() {
            if node.is_switch() || leased || node.ports.iter().any(|port| port.locked.is_some()) {
                survey.verify(graph, id);
            }
            if node.name.is_none() {
                survey.queue.push_back(Query::Describe(id));
            }
        }
        survey
    }

    /// Looks at the manager's own ports.
    pub(crate) fn read_homes(&mut self, graph: &Graph) {
        let homes = graph.homes.known().map(|(_, end)| end);
        let homes = homes.filter(|&(id, _)| !graph.node(id).is_switch());
        self.queue.extend(homes.map(|(id, port)| Query::ReadPort(id, port)));
    }

    /// Reads something that only administration wants.
    pub(crate) fn demand(&mut self, query: Query) {
        if self.demands.insert(query) {
            self.queue.push_back(query);
        }
    }

    /// Whether there is something that only administration wants.
    pub(crate) fn has_demands(&self) -> bool {
        !self.demands.is_empty()
    }

    /// Takes notice of what others write, now that this manager has the address.
    pub(crate) const fn of_manager(mut self, manager: Option<Lid>) -> Self {
        self.manager = manager;
        self
    }

    /// To be probed when nothing else is to be asked.
    pub(crate) fn suspect(&mut self, id: NodeId) {
        if !self.suspects.contains(&id) {
            self.suspects.push_back(id);
        }
    }

    /// Asks a node whether something changed: of an end node, each port that is cabled.
    pub(crate) fn verify(&mut self, graph: &Graph, id: NodeId) {
        let node = graph.node(id);
        if node.is_switch() {
            self.queue.push_back(if node.is_locked() {
                Query::ReadPort(id, PortNum::ZERO)
            } else {
                Query::ReadSwitch(id)
            });
            return;
        }
        let cabled = node.external().filter(|(_, port)| port.link.is_some());
        self.queue.extend(cabled.map(|(num, _)| Query::ReadPort(id, num)));
    }

    /// Whether a trap about the node can be looked into by this survey still. Each node is probed once for traps,
    /// so that a survey ends however many there are.
    pub(crate) fn takes_trap(&self, id: NodeId) -> bool {
        !self.full && !self.all_probed.contains(&id)
    }

    /// An end port whose settings or name changed.
    pub(crate) fn refresh(&mut self, (node, port): PortId) {
        self.queue.extend([Query::Describe(node), Query::ReadPort(node, port)]);
    }

    /// Whether it looks at everything.
    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }

    /// Whether anything was read beyond "nothing changed".
    pub(crate) const fn has_learnt(&self) -> bool {
        self.learnt
    }

    /// Nothing left to ask, nothing in flight.
    pub(crate) fn is_done(&self) -> bool {
        self.open == 0
            && self.urgent.is_empty()
            && self.queue.is_empty()
            && self.later.is_empty()
            && self.rechecks.is_empty()
            && self.suspects.is_empty()
    }

    /// Whether there is something to ask before any answer comes.
    pub(crate) fn has_questions(&self) -> bool {
        !self.urgent.is_empty() || !self.queue.is_empty() || self.open == 0
    }

    /// Whether all that may be asked is asked, and answers are missing.
    pub(crate) fn only_waits(&self) -> bool {
        self.open > 0 && self.urgent.is_empty() && self.queue.is_empty()
    }

    /// The next question; `None` when answers have to come first, or nothing is left. `telling`: what is
    /// known by now is about to be told, and what is unlikely to change it waits for that.
    pub(crate) fn next(&mut self, graph: &mut Graph, telling: bool) -> Option<Query> {
        loop {
            while let Some(query) = self.urgent.pop_front().or_else(|| self.queue.pop_front()) {
                if graph.path(query).is_none() {
                    self.stranded.entry(query).or_insert(false);
                } else if self.is_needed(graph, query) {
                    self.open += 1;
                    return Some(query);
                }
            }
            if self.open > 0 || telling && !self.later.is_empty() {
                return None;
            }
            if !self.later.is_empty() {
                self.queue.append(&mut self.later);
                continue;
            }
            // The nearest first: if they are lost, another way may lead to those behind them.
            let hops = |query| graph.path(query).map_or(0, |path| path.hops());
            if let Some(nearest) = self.rechecks.iter().map(|&(query, _)| hops(query)).min() {
                let ready = self.rechecks.extract_if(.., |&mut (query, _)| hops(query) == nearest);
                let ready: Vec<_> = ready.collect();
                for (query, asked) in ready {
                    self.ask_again(graph, query, asked);
                }
                continue;
            }
            let id = self.suspects.pop_front()?;
            self.probed = Some(id);
            self.all_probed.insert(id);
            self.verify(graph, id);
        }
    }

    /// The way to a node that was silent was looked at: if it leads elsewhere now, the node is asked once more.
    fn ask_again(&mut self, graph: &mut Graph, query: Query, asked: Option<DirectedRoute>) {
        let silent = graph.way(query).iter().any(|(node, _)| self.aside.contains(node));
        if asked.is_none() || graph.path(query) != asked {
            self.urgent.push_back(query);
        } else if !silent {
            self.open += 1;
            self.refused(graph, query);
        }
        // Else a node on the way is silent too, and is lost first.
    }

    /// A question that was asked by this survey is late. It is still waited for, but not by this survey.
    pub(crate) fn set_aside(&mut self, query: Query) {
        self.aside.extend(query.agent());
        self.open = self.open.saturating_sub(1);
    }

    /// A question of an earlier survey was never answered.
    pub(crate) fn silent(&mut self, graph: &mut Graph, query: Query) {
        self.open += 1;
        self.gave_up(graph, query);
    }

    fn is_needed(&self, graph: &Graph, query: Query) -> bool {
        let Query::Identify(via) = query else { return true };
        let known = graph.link(via).is_some_and(|link| link.confirmed == self.number);
        let up = graph.port(via).is_some_and(|port| port.is_up());
        up && (!known || self.forced.contains(&via))
    }

    /// An answer. What cannot be read changes nothing.
    pub(crate) fn learn(
        &mut self,
        graph: &mut Graph,
        query: Query,
        mad: &Mad,
    ) -> Result<(), Error> {
        let is_demanded = self.demands.contains(&query);
        self.learnt |= !matches!(
            query,
            Query::ReadSwitch(_)
                | Query::ClearChange(_)
                | Query::ReadPort(..)
                | Query::ReadBlock(..)
                | Query::ReadManager(..)
                | Query::ReadMasks(..)
        ) && !is_demanded;
        match query {
            Query::Own(port) => {
                let info = mad.attribute::<NodeInfo>()?;
                if let Some(id) = graph.admit(&info) {
                    graph.homes.settle(port, (id, info.local_port));
                }
                self.identified(graph, None, &info);
            }
            Query::Identify(via) => {
                self.identified(graph, Some(via), &mad.attribute::<NodeInfo>()?);
            }
            Query::Describe(id) => {
                let text = mad.attribute::<NodeDescription>()?.text;
                // What a node calls itself reaches logs, terminals and pages.
                graph.node_mut(id).name = Some(printable(text.text().trim()).into());
            }
            Query::ReadSwitch(id) => self.switch_read(graph, id, mad.attribute::<SwitchInfo>()?),
            Query::ClearChange(id) => {
                mad.attribute::<SwitchInfo>()?;
                self.barred.remove(&id);
                self.read_ports(graph, id);
            }
            Query::ReadPort(id, port) => {
                self.port_read(graph, (id, port), mad.attribute::<PortInfo>()?);
            }
            Query::ReadKeys(id, port, block) => {
                graph.put_keys((id, port), block, mad.attribute::<PKeyTable>()?.keys);
                if usize::from(block) + 1 < graph.key_blocks((id, port)) {
                    self.queue.push_back(Query::ReadKeys(id, port, block + 1));
                }
            }
            Query::ReadQosTable(id, port, table) => {
                let lanes = table.read(mad)?;
                if let Some(port) = graph.port_mut((id, port)) {
                    port.qos_tables.insert(table, Some(lanes));
                }
            }
            Query::ReadManager(id, port) => {
                let info = mad.attribute::<SmInfo>()?;
                if let Some(port) = graph.port_mut((id, port)) {
                    port.manager = Some(info);
                }
            }
            Query::ReadBlock(id, block) => {
                let ports = mad.attribute::<LinearForwarding>()?.ports.map(|port| port.0);
                let known = graph.node(id).shadow.block(block);
                self.learnt |= !is_demanded && known.is_none_or(|known| *known != ports);
                if self.manager.is_some() && known.is_some_and(|known| *known != ports) {
                    self.overwritten.get_or_insert((id, PortNum::ZERO));
                }
                graph.node_mut(id).shadow.set_block(block, &ports);
            }
            Query::ReadMasks(id, block, position) => {
                let entries = mad.attribute::<MulticastForwarding>()?.masks.map(|mask| mask.0);
                graph.node_mut(id).masks.set(block, position, &entries);
            }
            Query::Probe(_) | Query::Step(_) => return Ok(()),
            Query::Order(..) | Query::Tell(..) | Query::Trial(..) => {
                return Ok(());
            }
        }
        self.answered(graph, query);
        Ok(())
    }

    /// No answer. Perhaps a cable on the way there was cut, so the question gets a second chance.
    pub(crate) fn gave_up(&mut self, graph: &mut Graph, query: Query) {
        let manager = matches!(query, Query::ReadManager(..));
        if manager || graph.path(query).is_none() || self.rechecked.contains(&query) {
            return self.refused(graph, query);
        }
        let asked = graph.path(query);
        self.recheck(graph, query, asked);
        self.open = self.open.saturating_sub(1);
    }

    /// Looks at every port on the way before it asks again; if it was asked already, only where the way leads
    /// elsewhere by then.
    pub(crate) fn recheck(&mut self, graph: &Graph, query: Query, asked: Option<DirectedRoute>) {
        if !self.rechecked.insert(query) {
            return;
        }
        self.rechecks.push((query, asked));
        for (node, port) in graph.way(query) {
            let check = Query::ReadPort(node, port);
            if self.rechecked.insert(check) {
                self.urgent.push_back(check);
            }
        }
    }

    /// No answer, or one that says no.
    pub(crate) fn refused(&mut self, graph: &mut Graph, query: Query) {
        match query {
            Query::Identify(via) => {
                self.trouble(graph, Some(via), Trouble::Mute);
            }
            Query::ClearChange(id) if self.barred.insert(id) => {
                self.queue.push_back(Query::ReadPort(id, PortNum::ZERO));
            }
            Query::ReadSwitch(id) | Query::ClearChange(id) | Query::ReadBlock(id, _) => {
                self.lose(graph, (id, PortNum::ZERO));
            }
            Query::ReadPort(id, port) => self.lose(graph, (id, port)),
            Query::ReadQosTable(id, port, table) => {
                if let Some(port) = graph.port_mut((id, port)) {
                    port.qos_tables.insert(table, None);
                }
            }
            Query::ReadManager(id, port) => {
                if let Some(port) = graph.port_mut((id, port)) {
                    port.manager = None;
                }
            }
            Query::ReadMasks(id, ..) => graph.node_mut(id).masks.give_up(),
            // A node without a name or a partition table is a node all the same.
            Query::Own(_) | Query::Describe(_) | Query::ReadKeys(..) => {}
            Query::Probe(_) | Query::Step(_) => {}
            Query::Order(..) | Query::Tell(..) | Query::Trial(..) => {}
        }
        self.answered(graph, query);
    }

    /// A switch, or a port of an end node, does not answer any more: what leads to it leads nowhere.
    pub(crate) fn lose(&mut self, graph: &mut Graph, end: PortId) {
        let (id, _) = end;
        if graph.is_home(end) || graph.is_own(id) && graph.node(id).is_switch() {
            return;
        }
        let mut cabled = graph.node(id).external().filter(|(_, port)| port.link.is_some());
        let others = !graph.node(id).is_switch() && cabled.any(|(num, _)| (id, num) != end);
        drop(cabled);
        let behind = match others {
            true => graph.disconnect(end).into_iter().collect(),
            false => graph.isolate(id),
        };
        graph.node_mut(id).lost |= !others;
        for end in behind {
            if let Some(port) = graph.port_mut(end) {
                port.trouble = Some(Trouble::Mute);
                port.formerly = Some(id);
            }
        }
        self.learnt = true;
        (self.has_news, self.lost_a_cable) = (true, true);
        graph.retrace();
    }

    fn answered(&mut self, graph: &Graph, query: Query) {
        self.open = self.open.saturating_sub(1);
        let Query::Identify(end) = query else { return };
        self.forced.remove(&end);
        // A node that waited for this port's answer: is its place free now?
        let number = self.number;
        let still = |&(_, holder): &(PortId, PortId)| {
            holder != end || graph.link(holder).is_some_and(|link| link.confirmed == number)
        };
        let freed: Vec<PortId> =
            self.disputes.iter().filter(|dispute| !still(dispute)).map(|&(via, _)| via).collect();
        self.disputes.retain(|&(_, holder)| holder != end);
        freed.into_iter().for_each(|via| self.identify(via));
    }

    /// Asks who is behind a port.
    pub(crate) fn identify(&mut self, via: PortId) {
        self.urgent.push_back(Query::Identify(via));
    }
}
