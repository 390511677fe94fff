//! Configuration beside the sweep: what it is shown, and what its judgement leads to.
//!
//! After a discovery, before anything is computed, the sweep waits for a judgement. Links that are told to
//! come up or to stay down are told so, the farthest first, and are looked at again; then the tables are
//! computed without the cables that are withheld.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use snin_fabric::{PortNum, printable};
use snin_mad::{Mad, NodeDescription, NodeInfo, PhysicalState, PortState};
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::events::Output;
use crate::graph::{Node, Port, Trouble};
use crate::query::{PortId, Query};
use crate::smp;
use snin_sm_database::judgement::{Judge, Judgement, LinkOrder, TestRequest};
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Neighbour, Seen, SeenPort, SeenSwitch};

/// How often in a turn configuration may judge and ask.
const ROUNDS: usize = 1_000;

/// Links that are told something.
#[derive(Default)]
pub(super) struct Orders {
    /// By how far away: those of one distance at the same time.
    queue: VecDeque<(usize, PortId, LinkOrder)>,
    /// Of this distance.
    distance: usize,
    in_flight: usize,
    /// What was written: it is looked at afterwards.
    written: BTreeSet<PortId>,
}

/// What the sweep keeps for configuration.
#[derive(Default)]
pub(super) struct Trials {
    /// Configuration judges what was discovered before anything is computed.
    judged: bool,
    /// What came of questions that configuration had asked.
    asked: VecDeque<(Place, TestRequest, bool)>,
    /// Links of silent neighbours that were reset since a subnet was joined: each once. All go when it is written.
    cut_off: BTreeSet<Place>,
}

impl Trials {
    /// Whether configuration judges.
    pub(super) const fn are_judged(&self) -> bool {
        self.judged
    }
}

impl Sweep {
    /// From now on it waits for a judgement after every discovery: [`configure`](Self::configure) is to be called
    /// whenever something has happened.
    pub const fn be_judged(&mut self) {
        self.trials.judged = true;
    }

    /// Configuration judges what was discovered, and asks what it wants to know.
    pub fn configure(&mut self, configuration: &mut dyn Judge, now: Time) {
        self.read_what_waits(now);
        for _ in 0..ROUNDS {
            while let Some((place, ask, well)) = self.trials.asked.pop_front() {
                configuration.answered(place, ask, well, now);
            }
            self.link_tests.report(configuration, now);
            while let Some((place, end, errors)) = self.gauges.next_read() {
                configuration.counted(place, end, errors, now);
            }
            if configuration.take_unjudged(now) {
                self.rejudge(now);
            }
            let mut rests = true;
            while let Some((place, ask)) = configuration.next_ask() {
                self.ask(place, ask, now);
                rests = false;
            }
            if matches!(self.stage, Stage::Judging(_)) {
                let judgement = match configuration.enforces(now) {
                    true => configuration.judge(&self.seen(), now),
                    false => Judgement::default(),
                };
                self.be_told(&judgement, now);
            } else if rests {
                break;
            }
        }
        if self.is_settled() {
            self.all_is_written();
            if configuration.awaits_empty() {
                configuration.settled(&|place| self.is_left(place), now);
            }
        }
    }

    /// What was joined is written as it is to be.
    fn all_is_written(&mut self) {
        self.trials.cut_off.clear();
        if self.leads() && !self.saved.lineage.unwritten.is_empty() {
            Arc::make_mut(&mut self.saved).lineage.unwritten.clear();
            self.outputs.push_back(Output::Save(self.saved.clone()));
        }
    }

    /// Links in use by neighbours that do not answer, at switches of a subnet that was joined. Such a host has
    /// the address still that it had there, which may mean another port now. A link that is reset stays INIT, and
    /// carries nothing but SMPs, until the host answers and has its new address. Each is named once, since
    /// hardware may leave it in use.
    fn silent_behind_joined(&mut self) -> Vec<PortId> {
        let switches =
            self.saved.lineage.unwritten.iter().filter_map(|&guid| self.graph.find(guid));
        let in_use = |port: &Port| {
            let state = port.info.as_ref().map(|info| info.state);
            port.trouble == Some(Trouble::Mute) && state > Some(PortState::Initialize)
        };
        let ports = switches.flat_map(|id| {
            self.graph.node(id).external().map(move |(num, port)| ((id, num), port))
        });
        let mut silent: Vec<PortId> =
            ports.filter(|(_, port)| in_use(port)).map(|(end, _)| end).collect();
        silent.retain(|&end| {
            let place = self.place(end);
            self.trials.cut_off.insert(place)
        });
        silent
    }

    /// Whether no route was computed over the cable of a port.
    fn is_left(&self, (guid, num): Place) -> bool {
        let Some(target) = &self.target else { return false };
        let port = self.graph.find(guid).and_then(|node| target.discovered.port((node, num)));
        port.is_none_or(|port| target.discovered.topology.peer(port).is_none())
    }

    /// Configuration would judge otherwise than it did.
    pub(crate) fn rejudge(&mut self, now: Time) {
        if self.graph.ids().len() > 0 {
            self.pending.judge = true;
            self.advance(now);
        }
    }

    /// The fabric as it was last seen.
    pub fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        if self.graph.ids().len() == 0 {
            return seen;
        }
        seen.manager = self.graph.node(self.graph.own_end().0).guid();
        let switches = self.graph.reachable().filter(|(_, node)| node.is_switch());
        seen.switches = switches
            .map(|(_, node)| {
                let ports = node.external().map(|(_, port)| self.seen_port(port)).collect();
                let hops = node.path.map_or(0, |path| path.hops());
                let name = node.name.as_deref().unwrap_or_default().to_owned();
                (node.guid(), SeenSwitch { name, hops, ports })
            })
            .collect::<BTreeMap<_, _>>();
        seen
    }

    fn seen_port(&self, port: &Port) -> SeenPort {
        let Some(info) = &port.info else { return SeenPort::default() };
        let link = match info.physical_state {
            _ if port.is_up() => LinkState::Up,
            PhysicalState::Disabled => LinkState::Disabled,
            _ => LinkState::Down,
        };
        let neighbour = port.link.filter(|_| link == LinkState::Up).map(|link| {
            let (node, num) = link.to;
            neighbour(self.graph.node(node), num)
        });
        let active = info.state.code() >= PortState::Active.code();
        let rate = info.rate(None).filter(|_| link == LinkState::Up);
        SeenPort { link, active: active && link == LinkState::Up, rate, neighbour }
    }

    /// What is done about what was discovered.
    fn be_told(&mut self, judgement: &Judgement, now: Time) {
        let Stage::Judging(learnt) = self.stage else { return };
        let silent = self.silent_behind_joined();
        let graph = &self.graph;
        let end = |&(guid, port): &Place| Some((graph.find(guid)?, port));
        let withheld: BTreeSet<PortId> = judgement.withheld.iter().filter_map(end).collect();
        let mut queue = VecDeque::new();
        let orders =
            judgement.orders.iter().filter_map(|(place, order)| Some((end(place)?, *order)));
        for (end, order) in orders.chain(silent.into_iter().map(|end| (end, LinkOrder::Reset))) {
            let Some(path) = graph.path_to(end) else { continue };
            queue.push_back((path.hops(), end, order));
        }
        let learnt = learnt || withheld != graph.withheld;
        self.graph.withheld = withheld;
        if queue.is_empty() {
            self.stage = Stage::Idle;
            self.go_on(learnt, now);
        } else {
            // What is written is read again, and judged again, before anything is computed.
            self.pending.learnt |= learnt;
            self.stage = Stage::Ordering(Orders { queue, ..Orders::default() });
        }
        self.advance(now);
    }

    /// Tells links what they are to be told; those nearer only after those farther.
    pub(super) fn order(&mut self, now: Time) -> bool {
        while self.has_room() {
            let Stage::Ordering(orders) = &mut self.stage else { return true };
            let Some(&(distance, end, order)) = orders.queue.front() else { break };
            if orders.in_flight > 0 && distance != orders.distance {
                break;
            }
            orders.queue.pop_front();
            let query = Query::Order(end.0, end.1, order);
            let Some(mad) = smp::question(&self.graph, query) else { continue };
            (orders.distance, orders.in_flight) = (distance, orders.in_flight + 1);
            orders.written.insert(end);
            self.metrics.link_orders += 1;
            let mad = self.transactions.send(query, Some(end.0), mad, now);
            self.send(mad);
        }
        let Stage::Ordering(orders) = &mut self.stage else { return true };
        if orders.in_flight > 0 || !orders.queue.is_empty() {
            return false;
        }
        let read = std::mem::take(&mut orders.written);
        self.pending
            .rechecks
            .extend(read.into_iter().map(|(node, port)| Query::ReadPort(node, port)));
        self.pending.judge = true;
        self.stage = Stage::Idle;
        true
    }

    /// A link was told, or its switch does not answer: what it did is read.
    pub(super) const fn ordered(&mut self, _end: PortId) {
        if let Stage::Ordering(orders) = &mut self.stage {
            orders.in_flight = orders.in_flight.saturating_sub(1);
        }
    }

    /// Ports have passed since this was last called, and ought to be ACTIVE when the fabric has settled: they are
    /// looked at.
    pub fn look_at_passed(&mut self, configuration: &mut dyn Judge, now: Time) {
        if configuration.take_passed_when(self.is_settled()) {
            self.rejudge(now);
            self.configure(configuration, now);
        }
    }

    /// Asks the node behind a port, beside all other work.
    fn ask(&mut self, (guid, port): Place, ask: TestRequest, now: Time) {
        let place = (guid, port);
        let far = self.graph.find(guid).and_then(|node| self.graph.link((node, port)));
        let is_trunk = far.is_some_and(|link| self.graph.node(link.to.0).is_switch());
        // Where no agent can be the switch answers.
        let ask =
            if ask == TestRequest::Agent && is_trunk { TestRequest::Application } else { ask };
        match ask {
            TestRequest::Counters(end) => return self.read_counters(place, end, now),
            TestRequest::Messages(messages) => return self.test_link(place, ask, messages, now),
            TestRequest::Agent => return self.test_link(place, ask, 1, now),
            TestRequest::Node | TestRequest::Application => {}
        }
        let end = self.graph.find(guid).map(|node| (node, port));
        let query = end.map(|end| Query::Trial(end, ask));
        let mad = query.and_then(|query| Some((query, smp::question(&self.graph, query)?)));
        match mad {
            Some((query, mad)) => {
                let mad = self.transactions.send_beside(query, mad, 0, now);
                self.send(mad);
            }
            None => self.trials.asked.push_back((place, ask, false)),
        }
    }

    /// An answer to one of those questions: it has to say what discovery heard.
    pub(super) fn trial_answered(&mut self, end: PortId, ask: TestRequest, answer: Option<&Mad>) {
        let behind = self.graph.link(end).map(|link| self.graph.node(link.to.0));
        let well = answer.zip(behind).is_some_and(|(mad, node)| match ask {
            TestRequest::Node => {
                mad.attribute::<NodeInfo>().is_ok_and(|i| i.node_guid == node.guid())
            }
            TestRequest::Application => {
                mad.attribute::<NodeDescription>().is_ok_and(|description| {
                    let said = printable(description.text.text().trim()).to_string();
                    node.name.as_deref().is_none_or(|name| name == said)
                })
            }
            TestRequest::Counters(_) | TestRequest::Messages(_) | TestRequest::Agent => false,
        });
        let place = (self.graph.node(end.0).guid(), end.1);
        self.trials.asked.push_back((place, ask, well));
    }
}

fn neighbour(node: &Node, num: PortNum) -> Neighbour {
    // A switch's ports have the GUID of its port 0.
    let own = if node.is_switch() { node.ports.first() } else { node.ports.get(num.index()) };
    Neighbour {
        node_guid: node.guid(),
        port_guid: own.and_then(|port| port.guid).unwrap_or(node.info.port_guid),
        system_guid: node.info.system_image_guid,
        name: node.name.as_deref().unwrap_or_default().to_owned(),
        vendor: node.info.vendor_id.0,
        device: node.info.device_id.0.into(),
        port: num,
        is_switch: node.is_switch(),
    }
}
