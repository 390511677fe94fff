//! Beside a manager that stays: the fabric is read, and nothing is written.
//!
//! ```text
//! read everything -> compare with the reading before -> publish -> look at trunks, again and again -+
//!       ^                     | another: pause                          | one changed: pause        |
//!       +---------------------+-----------------------------------------+-- every sweep_interval ---+
//! ```
//!
//! Every reading begins with nothing known, so what it ends with is what the fabric said just now. It is a
//! [`Survey`] that leaves changes for the manager to see, and only Gets are sent.
//!
//! The manager rewrites tables without asking anybody, and a reading may meet them half written. So any sign
//! that routes may have moved pauses everything: a view follows in which no pair of a switch and a tree is usable.
//! What is granted next is granted on what two readings in a row said. Where only hosts came or went no route of
//! the others moved, and nothing is paused.
//!
//! The manager's subnet administration is [asked](subscriber) to report what it hears. A report of a switch has
//! its cables looked at before it is their turn: the manager hears of a change before it writes tables.

mod held;
mod pace;
mod subscriber;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use snin_fabric::{Lid, PortNum};
use snin_mad::{Mad, Method, PortState};
use snin_protocol::Time;

use crate::events::{Event, Output};
use crate::graph::{Graph, KeyTables, Port};
use crate::keyring::Keyring;
use crate::metrics::Metrics;
use crate::multicast::Groups;
use crate::planning::{Computed, Job, Read, Work};
use crate::query::{NodeId, PortId, Query};
use crate::report::Report;
use crate::smp;
use crate::survey::Survey;
use crate::target::Target;
use crate::transactions::{Expired, Transactions, parse};
use crate::view::{FabricView, uncovered};
use pace::Pace;
use snin_sm_database::config::Config;
use snin_sm_database::error::{ConfigError, Dropped};
use snin_sm_database::mad_address::{Destination, LocalPort, Origin};
use snin_sm_database::saved::Saved;
use subscriber::{Heard, Subscriber};

/// How soon after a reading that said something else the next one begins, at most.
const SOON: Time = Time::millis(100);
/// Between two looks at the cables between switches; a look that takes longer is followed by as long a pause.
const LOOK: Time = Time::millis(100);
/// After so many readings hosts that came or went between two of them are waited for no longer.
const PATIENCE: u32 = 4;
/// Switches that are reported on and wait to be looked at.
const MOST_REPORTED: usize = 1024;
/// What is said where the port of this machine does not answer.
const MUTE: &str =
    "this machine's port answers no Get: where ports hide behind an M_Key, set m_key to it";

/// A look that is under way.
#[derive(Debug)]
struct Look {
    since: Time,
    /// The cables between switches before it.
    trunks: Vec<Trunk>,
}

/// A port with a cable to another switch, and its state.
type Trunk = (PortId, Option<PortState>);

/// See the module's documentation.
pub struct Reader {
    config: Config,
    keyring: Keyring,
    graph: Graph,
    transactions: Transactions,
    survey: Option<Box<Survey>>,
    readings: u32,
    pace: Pace,
    /// When the next reading begins.
    next: Option<Time>,
    /// When the next look begins, and the one that is under way.
    next_look: Option<Time>,
    look: Option<Look>,
    /// What was read last, and the job that makes a view of it.
    last: Option<Arc<Read>>,
    /// Readings since two were alike.
    others: u32,
    computing: Option<(u64, Arc<Read>)>,
    jobs: u64,
    /// What the view is of; while paused nothing of it may be granted.
    shown: Option<Arc<Read>>,
    paused: bool,
    subscriber: Subscriber,
    /// Addresses of switches whose cables were reported on, and are not looked at yet.
    reported: BTreeSet<Lid>,
    view: Option<Arc<FabricView>>,
    outputs: VecDeque<Output>,
    metrics: Metrics,
}

impl Reader {
    /// Nothing is read before [`Event::Start`].
    ///
    /// # Errors
    /// When M_Keys are generated and there is no secret from which they follow.
    pub fn new(config: Config, saved: &Saved) -> Result<Self, ConfigError> {
        let keyring = Keyring::new(&config, saved)?;
        Ok(Self {
            graph: Graph::default(),
            transactions: Transactions::new(&config),
            pace: Pace::new(config.read_smps),
            config,
            keyring,
            survey: None,
            readings: 0,
            next: None,
            next_look: None,
            look: None,
            last: None,
            others: 0,
            computing: None,
            jobs: 0,
            shown: None,
            paused: false,
            subscriber: Subscriber::default(),
            reported: BTreeSet::new(),
            view: None,
            outputs: VecDeque::new(),
            metrics: Metrics::default(),
        })
    }

    /// Takes note of what happened.
    pub fn handle(&mut self, event: Event<'_>, now: Time) {
        match event {
            // One that is under way may be past what has changed.
            Event::Start | Event::Resweep => self.begin(),
            Event::Mad { port, bytes, .. } => self.heard(port, bytes, now),
            Event::General { from, bytes, .. } => self.told(from, bytes, now),
            Event::Computed(computed) => self.computed(*computed, now),
            // No host is answered, no port is judged, no manager is spoken to.
            _ => {}
        }
        self.go_on(now);
    }

    /// The next thing to be done, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Time> {
        let room = self.transactions.has_room();
        let asks = self.survey.as_ref().is_some_and(|survey| room && survey.has_questions());
        let paced = asks.then_some(self.pace.next);
        let begin = self.next.into_iter().chain(self.next_look).filter(|_| self.is_quiet());
        let others = paced.into_iter().chain(begin).chain(self.subscriber.next_deadline());
        self.transactions.next_deadline().into_iter().chain(others).min()
    }

    /// Does what is due at `now`; too early a call does nothing.
    pub fn handle_deadline(&mut self, now: Time) {
        loop {
            let graph = &self.graph;
            match self.transactions.expire(now, |query| graph.path(query)) {
                None => break,
                Some(Expired::Again(_, _, port, mad)) => {
                    self.metrics.retries += 1;
                    self.send((port, mad), now);
                }
                Some(Expired::GivenUp(late)) => {
                    self.metrics.unanswered += 1;
                    if let Some(survey) = &mut self.survey {
                        survey.gave_up(&mut self.graph, late.query);
                    }
                }
            }
        }
        self.outputs.extend(self.subscriber.expire(now));
        if self.is_quiet() && self.next.is_some_and(|due| due <= now) {
            self.begin();
        }
        if self.is_quiet() && self.next_look.is_some_and(|due| due <= now) {
            self.begin_look(now, None);
        }
        self.go_on(now);
    }

    /// Whether nothing is being asked or computed.
    fn is_quiet(&self) -> bool {
        self.survey.is_none() && self.computing.is_none()
    }

    /// Whether what is published is what the last two readings said; looks go on.
    pub fn is_idle(&self) -> bool {
        let is_shown = self.shown.is_some() && !self.paused;
        is_shown && self.computing.is_none() && (self.survey.is_none() || self.look.is_some())
    }

    /// The last view published.
    pub const fn view(&self) -> Option<&Arc<FabricView>> {
        self.view.as_ref()
    }

    /// Counters.
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The address of the manager that stays, and whether it reports changes.
    pub fn master_sm(&self) -> Option<(Lid, bool)> {
        self.subscriber.state()
    }

    /// SMPs in flight.
    pub fn in_flight(&self) -> usize {
        self.transactions.in_flight()
    }

    /// Everything is read, from the own port on.
    fn begin(&mut self) {
        (self.next, self.next_look, self.look) = (None, None, None);
        self.reported.clear();
        self.readings += 1;
        (self.metrics.surveys, self.metrics.full_sweeps) =
            (self.metrics.surveys + 1, self.metrics.full_sweeps + 1);
        self.transactions.abandon(|_| false);
        self.graph =
            Graph::guarded_by(self.keyring.clone(), KeyTables::default(), self.config.ports);
        let mut survey = Survey::full(self.readings, &self.graph.homes);
        (survey.reads_only, survey.fresh) = (true, true);
        self.survey = Some(Box::new(survey));
    }

    /// What the manager's subnet administration says.
    fn told(&mut self, from: Origin, bytes: &[u8], now: Time) {
        let (heard, answer) = match self.subscriber.receive(from, bytes) {
            Ok(told) => told,
            Err(why) => return self.metrics.count_dropped(why),
        };
        if answer.is_some() {
            self.metrics.reports += 1;
        }
        self.outputs.extend(answer);
        match heard {
            // Beyond, all cables have their turn in 100 ms anyway.
            Heard::Switch(lid) if self.reported.len() < MOST_REPORTED => {
                self.reported.insert(lid);
            }
            // No route of others moves: the next reading begins soon, and nothing is paused.
            Heard::Host => self.next = self.next.map(|due| due.min(now + LOOK)),
            Heard::Switch(_) | Heard::Nothing => {}
        }
    }

    /// Only cables between switches are looked at: where one went or came, routes move. Of switches that were
    /// reported on ports without a cable are looked at too.
    fn begin_look(&mut self, now: Time, reported: Option<&BTreeSet<NodeId>>) {
        self.readings += 1;
        (self.metrics.surveys, self.metrics.light_sweeps) =
            (self.metrics.surveys + 1, self.metrics.light_sweeps + 1);
        let mut survey = Survey::local(self.readings);
        survey.reads_only = true;
        match reported {
            None => survey.look_at_trunks(&self.graph),
            Some(switches) => {
                switches.iter().for_each(|&switch| survey.look_at_switch(&self.graph, switch));
            }
        }
        self.next_look = None;
        self.look = Some(Look { since: now, trunks: self.trunks() });
        self.survey = Some(Box::new(survey));
    }

    fn trunks(&self) -> Vec<Trunk> {
        let switches = || self.graph.managed().filter(|(_, node)| node.is_switch());
        let ends = switches().flat_map(|(id, node)| node.external().map(move |it| (id, it)));
        let trunk = |(id, (num, port)): (NodeId, (PortNum, &Port))| {
            let is_trunk = self.graph.node(port.link?.to.0).is_switch();
            is_trunk.then(|| ((id, num), port.info.as_ref().map(|info| info.state)))
        };
        ends.filter_map(trunk).collect()
    }

    fn heard(&mut self, port: LocalPort, bytes: &[u8], now: Time) {
        let (mad, smp) = match parse(bytes) {
            Ok((_, smp)) if smp.method == Method::Trap => {
                return self.metrics.count_dropped(Dropped::Request);
            }
            Ok(parsed) => parsed,
            Err(why) => return self.metrics.count_dropped(why),
        };
        match self.transactions.receive(port, &mad, &smp, now) {
            Err(why) => self.metrics.count_dropped(why),
            Ok((query, _)) => self.answered(query, &mad, smp.status.is_ok()),
        }
    }

    fn answered(&mut self, query: Query, mad: &Mad, ok: bool) {
        self.metrics.answers += 1;
        self.metrics.refused += u64::from(!ok);
        let Some(survey) = &mut self.survey else { return };
        if !ok {
            survey.refused(&mut self.graph, query);
        } else if survey.learn(&mut self.graph, query, mad).is_err() {
            self.metrics.count_dropped(Dropped::Malformed);
            survey.refused(&mut self.graph, query);
        }
    }

    /// Asks as far as there is room and the pace allows, and ends a reading that has no more to ask.
    fn go_on(&mut self, now: Time) {
        loop {
            self.look_at_reported(now);
            self.ask(now);
            let Some(survey) = &mut self.survey else { return };
            if !survey.is_done() {
                return;
            }
            if let Some(Look { since, trunks }) = self.look.take() {
                let has_changed = survey.has_learnt();
                self.survey = None;
                self.next_look = Some(now + LOOK.max(now - since));
                if trunks != self.trunks() {
                    self.pause();
                    self.begin();
                } else if has_changed {
                    // A host came or went: no route of the others moves.
                    self.begin();
                } else if self.reported.is_empty() {
                    return;
                }
                continue;
            }
            if survey.conclude(&mut self.graph, false, &Groups::new()) {
                self.survey = None;
                return self.read(now);
            }
        }
    }

    /// Switches that were reported on are looked at as soon as nothing else is read.
    fn look_at_reported(&mut self, now: Time) {
        if self.reported.is_empty() || !self.is_quiet() || self.shown.is_none() || self.paused {
            return;
        }
        let holder = |lid: Lid| self.graph.holder(lid).map(|(node, _)| node);
        let reported = std::mem::take(&mut self.reported).into_iter().filter_map(holder);
        // What is reported of a host is no cable of a route.
        let nodes: BTreeSet<NodeId> =
            reported.filter(|&node| self.graph.node(node).is_switch()).collect();
        if nodes.is_empty() {
            return;
        }
        self.begin_look(now, Some(&nodes));
    }

    fn ask(&mut self, now: Time) {
        while self.transactions.has_room() && self.pace.allows(now) {
            let Some(survey) = &mut self.survey else { return };
            let agent_queues = self.transactions.agent_queues();
            let next = agent_queues.next().or_else(|| survey.next(&mut self.graph, false));
            let Some(query) = next else { return };
            if !agent_queues.admit(query.agent(), query) {
                continue;
            }
            let mad = smp::question(&self.graph, query);
            // That a change was seen is for the manager to say.
            match mad.filter(|(_, mad)| mad.header().method() == Method::Get) {
                Some(mad) => {
                    let mad = self.transactions.send(query, query.agent(), mad, now);
                    self.send(mad, now);
                }
                None => survey.refused(&mut self.graph, query),
            }
        }
    }

    fn send(&mut self, (port, mad): (LocalPort, Box<Mad>), now: Time) {
        self.pace.sent(now);
        self.metrics.count_sent(mad.header().attribute(), mad.header().method());
        self.outputs.push_back(Output::Send { port, to: Destination::Directed, mad });
    }

    /// A reading has ended.
    fn read(&mut self, now: Time) {
        let interval = self.config.sweep_interval();
        self.next = interval.map(|interval| now + interval);
        if self.graph.ids().len() == 0 {
            return self.outputs.push_back(Output::Report(Report::Unread(MUTE.to_owned())));
        }
        let read = match self.held() {
            Ok(read) => read,
            // Perhaps addresses are being given out just now.
            Err(why) => {
                self.soon(now);
                return self.outputs.push_back(Output::Report(Report::Unread(why)));
            }
        };
        let read = Arc::new(read);
        let agrees = |other: &Arc<Read>| read.moves_nothing(other);
        let last = self.last.replace(read.clone());
        // A host that one reading missed may be there in the next; one that comes and goes delays no reading.
        self.others += 1;
        let is_settled = last.is_some_and(|last| {
            last.says_the_same(&read) || self.others > PATIENCE && agrees(&last)
        });
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.says_the_same(&read));
        if self.shown.as_ref().is_some_and(|shown| !agrees(shown)) {
            self.pause();
        }
        if !is_settled {
            return self.soon(now);
        }
        (self.next_look, self.others) = (Some(now + LOOK), 0);
        self.subscribe(now);
        if is_shown {
            return self.publish(None);
        }
        self.jobs += 1;
        self.computing = Some((self.jobs, read.clone()));
        self.outputs.push_back(Output::Compute(Box::new(Job::of(self.jobs, Work::Read(read)))));
    }

    /// The kept manager is asked for reports, again and again: it may have begun anew.
    fn subscribe(&mut self, now: Time) {
        let end = self.graph.own_end();
        let info = self.graph.port(end).and_then(|port| port.info.as_ref());
        if let Some((port, info)) = self.graph.homes.at(end).zip(info) {
            let manager = (info.master_sm_lid, info.master_sm_sl);
            self.outputs.extend(self.subscriber.subscribe(port, manager, now));
        }
    }

    fn soon(&mut self, now: Time) {
        self.next = self.next.map(|due| due.min(now + SOON));
    }

    fn computed(&mut self, computed: Computed, now: Time) {
        let is_current = |(number, _): &mut (u64, _)| *number == computed.number;
        let Some((_, read)) = self.computing.take_if(is_current) else {
            return self.metrics.count_dropped(Dropped::Outdated);
        };
        match computed.result {
            Ok((target, _)) => {
                self.shown = Some(read);
                self.publish(Some(target));
            }
            Err(error) => {
                self.soon(now);
                self.outputs.push_back(Output::Report(Report::NoRouting(error)));
            }
        }
    }

    /// Routes may have moved: nothing is granted until it is known where they lead.
    fn pause(&mut self) {
        let Some(view) = self.view.as_ref().filter(|_| !self.paused) else { return };
        self.paused = true;
        let all = view.usable().union(view.unusable()).copied().collect();
        let (target, manager) = (view.shared_target(), view.manager());
        self.show(FabricView::new(view.version() + 1, target, all, manager));
    }

    /// What two readings said is the fabric now; none: it is what it was, and nothing is paused any more.
    fn publish(&mut self, target: Option<Arc<Target>>) {
        let known = self.view.as_ref().filter(|_| self.paused).map(|view| view.shared_target());
        let Some(target) = target.or(known) else { return };
        self.paused = false;
        let version = self.view.as_ref().map_or(0, |view| view.version()) + 1;
        let own = self.shown.as_ref().and_then(|read| read.own);
        let manager = own.and_then(|port| target.addresses.base(port)).unwrap_or(Lid::NONE);
        let unusable = uncovered(&target);
        self.show(FabricView::new(version, target, unusable, manager));
        let missing = self.graph.unread(false).into_iter().collect();
        self.outputs.push_back(Output::Report(Report::Ready { version, missing }));
    }

    fn show(&mut self, view: FabricView) {
        let view = Arc::new(view);
        self.metrics.views += 1;
        self.view = Some(view.clone());
        self.outputs.push_back(Output::View(view));
    }
}
