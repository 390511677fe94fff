//! The sweep core: which stage follows which.
//!
//! ```text
//!            trap, light sweep, resweep
//!  idle ---------------------------------> survey --> computing --> applying --> idle
//!    ^                                       ^  |                       |
//!    |          nothing changed              |  |  view: unusable pairs |  view: all that is usable
//!    +---------------------------------------+--+                       |
//!                                            |    a trap meanwhile, or a write that failed
//!                                            +--------------------------+
//! ```

mod answers;
mod apply;
mod applying;
mod commit;
mod compute;
mod gauges;
mod groups;
mod held;
mod interrupting;
mod judged;
mod lane_writes;
mod lanes;
mod lineage;
mod link_tests;
mod missing;
mod orders;
mod progress;
mod recalled;
mod relevelled;
mod retries;
mod slow;
mod strangers;
mod surveying;
mod trap;
mod uncabled;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use snin_fabric::{Guid, Lid};
use snin_mad::header::Directed;
use snin_mad::{Mad, Method, PKey};
use snin_protocol::Time;

use self::applying::Applying;
use self::commit::Committed;
use self::gauges::Gauges;
use self::judged::Orders;
use self::lane_writes::LaneWrites;
use self::link_tests::LinkTests;
use self::orders::Leave;
use self::recalled::{Recalled, Telling};
use self::relevelled::Relevelled;
use self::surveying::Pending;
use self::uncabled::Cables;
use super::survey::Survey;
use super::transactions::{Expired, Transactions, parse};
use super::view::FabricView;
use crate::events::{Event, Output};
use crate::failures::Failures;
use crate::graph::Graph;
use crate::keyring::Keyring;
use crate::lane_tables;
use crate::metrics::Metrics;
use crate::multicast::{Groups, McPlan};
use crate::partitioning::key_tables;
use crate::planning::Found;
use crate::query::{NodeId, PortId, Query};
use crate::report::Missing;
use crate::silence::Silence;
use crate::target::Target;
use snin_sm_database::config::Config;
use snin_sm_database::error::ConfigError;
use snin_sm_database::judgement::Ask;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::partition_plan::PartitionPlan;
use snin_sm_database::records::Place;
use snin_sm_database::saved::Saved;

/// How often in a row a switch may fail to take what is written to its tables before it is left out.
const MOST_FAILURES: u32 = 2;
/// The most ports that are gone of which it is remembered that their hosts have to register again.
const MOST_LAPSED: usize = 65_536;

/// The subnet manager's core for discovery, addresses, tables and port states.
///
/// It has the verbs of every core: [`handle`](Self::handle) what happened, do what
/// [`poll_output`](Self::poll_output) says until it says nothing, and call
/// [`handle_deadline`](Self::handle_deadline) at [`next_deadline`](Self::next_deadline).
pub struct Sweep {
    config: Config,
    transactions: Transactions,
    graph: Graph,
    saved: Arc<Saved>,
    metrics: Metrics,
    outputs: VecDeque<Output>,
    stage: Stage,
    pending: Pending,
    surveys: u32,
    jobs: u64,
    /// A computation under way whose unusable pairs are told at once.
    early: Option<u64>,
    /// The last computation of tables: what was known, and what came of it. The same is not computed again.
    last: Option<(Arc<Found>, Arc<Target>)>,
    /// How the fabric was last meant to be.
    target: Option<Arc<Target>>,
    /// The multicast groups, and how they were last meant to be served.
    groups: Arc<Groups>,
    plan: Option<Arc<McPlan>>,
    /// The groups that were last said to be served.
    served: Arc<Groups>,
    view: Option<Arc<FabricView>>,
    /// Another manager was the master since: controllers are told the view again.
    owes_view: bool,
    /// What is known is another manager's word; no port was told yet.
    recalled: Option<Recalled>,
    /// Switches whose tables are written from now on: until that is done it is not known what they come to.
    rewritten: BTreeSet<Guid>,
    /// The last view of which the controller said that it is clear.
    cleared: u64,
    /// The view that controllers are to clear, and since when it is waited for that.
    clearing: Option<(u64, Time)>,
    next_light: Option<Time>,
    failures: Failures,
    silence: Silence,
    /// Questions to nodes that are silent just now, as long as the reason is not known.
    unsent: BTreeMap<NodeId, BTreeSet<Query>>,
    /// Light sweeps since everything was last looked at anew, and how many there shall be.
    back_off: (u32, u32),
    /// All but groups is as it is to be.
    regrouping: bool,
    /// The survey reads tables of lanes, and nothing else.
    only_lanes: bool,
    lane_writes: LaneWrites,
    /// The administrator's own tables.
    own_tables: Arc<String>,
    /// The last answer to each port's traps since the fabric was settled, and the ports that it left by.
    answered_traps: BTreeMap<(LocalPort, Lid), (Box<Mad>, Vec<PortId>)>,
    /// How often in a row traps have interrupted something.
    gave_way: u32,
    /// Switches with ports that were written since they were last asked whether something changed: a reset
    /// meanwhile may have gone unnoticed.
    unverified: BTreeSet<NodeId>,
    leave: Leave,
    /// Other masters, as mastership found them.
    rivals: Vec<Missing>,
    /// Ports whose hosts have to register again what they told their manager, since that is forgotten. Who is told
    /// is taken out.
    lapsed: BTreeSet<Guid>,
    /// Nothing is known of what any host registered.
    forgot: bool,
    relevelled: Relevelled,
    /// A stage has ended: there may be something new for the database.
    stage_ended: bool,
    committed: Committed,
    /// Configuration judges what was discovered before anything is computed.
    judged: bool,
    /// What came of questions that configuration had asked.
    asked: VecDeque<(Place, Ask, bool)>,
    gauges: Gauges,
    cables: Cables,
    link_tests: LinkTests,
    /// Links of silent neighbours that were reset since a subnet was joined: each once. All go when it is written.
    cut_off: BTreeSet<Place>,
}

enum Stage {
    Idle,
    Survey(Box<Survey>),
    /// It waits for configuration's judgement; whether there is something to be computed in either case.
    Judging(bool),
    /// Links are told to come up or to stay down.
    Ordering(Orders),
    /// Ports are told who is master now, while the fabric is computed as it was recalled.
    Telling(Box<Telling>),
    Computing(u64),
    Applying(Box<Applying>),
}

impl Sweep {
    /// A core that has seen nothing yet. It asks nothing before [`Event::Start`].
    ///
    /// # Errors
    /// When a number of the configuration is out of range.
    pub fn new(config: Config, saved: Saved) -> Result<Self, ConfigError> {
        config.check()?;
        let keyring = Keyring::new(&config, &saved)?;
        let (lineage, manager) = (&saved.lineage, Guid(0));
        let plan = PartitionPlan { config: &config, lineage, manager };
        let graph = Graph::guarded_by(keyring, key_tables(plan), config.ports);
        let own_tables = Arc::new(config.lfts.clone());
        let had_granted_lanes = lane_tables::are_possible(&config) && !saved.trees.is_empty();
        Ok(Self {
            transactions: Transactions::new(&config),
            graph,
            config,
            saved: Arc::new(saved),
            metrics: Metrics::default(),
            outputs: VecDeque::new(),
            stage: Stage::Idle,
            pending: Pending::default(),
            surveys: 0,
            jobs: 0,
            early: None,
            last: None,
            target: None,
            groups: Arc::default(),
            plan: None,
            served: Arc::default(),
            view: None,
            owes_view: false,
            recalled: None,
            rewritten: BTreeSet::new(),
            cleared: 0,
            clearing: None,
            next_light: None,
            failures: Failures::default(),
            silence: Silence::default(),
            unsent: BTreeMap::new(),
            back_off: (0, 0),
            regrouping: false,
            only_lanes: false,
            own_tables,
            lane_writes: LaneWrites::new(had_granted_lanes),
            answered_traps: BTreeMap::new(),
            gave_way: 0,
            unverified: BTreeSet::new(),
            leave: Leave::default(),
            rivals: Vec::new(),
            lapsed: BTreeSet::new(),
            forgot: false,
            relevelled: Relevelled::default(),
            stage_ended: false,
            committed: Committed::default(),
            judged: false,
            asked: VecDeque::new(),
            gauges: Gauges::default(),
            cables: Cables::default(),
            link_tests: LinkTests::default(),
            cut_off: BTreeSet::new(),
        })
    }

    /// Takes note of what happened. Anything that does not fit is counted and dropped.
    pub fn handle(&mut self, event: Event<'_>, now: Time) {
        match event {
            // Tables are read as the partitions need it.
            Event::Partitions(partitions) => {
                self.config.partitions = *partitions;
                self.note_partitions();
                return self.handle(Event::Resweep, now);
            }
            // The master looks.
            Event::Resweep if self.leave.follows() => {}
            Event::Start | Event::Resweep => {
                self.cables.clear();
                self.graph.forgive();
                self.pending.full = true;
                // Without what was known before it shows whether a GUID is in use twice still.
                self.pending.anew |= self.has_clashes();
                self.silence.ask_all(now);
                self.interrupt();
            }
            Event::Mad { port, source, bytes } => match parse(bytes) {
                Err(why) => self.metrics.count_dropped(why),
                Ok((mad, smp)) if smp.method == Method::Trap => {
                    self.trap(port, source, &mad, &smp);
                }
                Ok((mad, smp)) => match self.transactions.receive(port, &mad, &smp, now) {
                    Err(why) => self.metrics.count_dropped(why),
                    Ok((query, aside)) => {
                        if let Some(agent) = self.graph.agent(query) {
                            self.graph.node_mut(agent).heard = now;
                        }
                        if aside {
                            self.answered_late(query);
                        } else {
                            self.answered(query, &mad, smp.status.is_ok(), now);
                        }
                    }
                },
            },
            Event::General { from, bytes, .. } => self.counters_answered(from.lid, bytes),
            Event::Health(node) => self.look_for(node),
            Event::LinkTested { number, arrived } => self.link_tests.answered(number, arrived),
            Event::Clear { version } => self.cleared = self.cleared.max(version),
            Event::RotateKeys => self.rotate_keys(),
            Event::Groups(groups) => self.groups = groups,
            Event::Computed(computed) => self.computed(*computed, now),
        }
        self.advance(now);
    }

    /// The partition table of the manager's port: as it holds it, or, before that is known, as after power on
    /// (IBA 10.9.1.2).
    pub fn own_keys(&self) -> &[PKey] {
        const INITIAL: &[PKey] = &[PKey::DEFAULT];
        let own = (self.graph.ids().len() > 0).then(|| self.graph.own_end());
        let keys = own.and_then(|own| self.graph.port(own)).map(|port| port.keys.as_flattened());
        keys.filter(|keys| !keys.is_empty()).unwrap_or(INITIAL)
    }

    /// The next thing to be done, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Time> {
        let sweep = self.next_light.into_iter().chain(self.failures.next_retry());
        let sweep = sweep.chain(self.lane_writes.next_deadline()).min();
        // What may not be begun is not due.
        let given = self.leave.is_given();
        let sweep = sweep.filter(|_| given && matches!(self.stage, Stage::Idle));
        let held = match &self.stage {
            Stage::Applying(applying) if given => applying.next_deadline(),
            _ => None,
        };
        let probe = self.silence.next_due();
        let slow = self.next_slow();
        let due = self.transactions.next_deadline().into_iter().chain(slow);
        let due = due.chain(self.gauges.next_deadline());
        let due = due.chain(self.link_tests.next_deadline());
        due.chain(sweep).chain(probe).chain(held).min()
    }

    /// Does what is due at `now`; too early a call does nothing.
    pub fn handle_deadline(&mut self, now: Time) {
        loop {
            let (graph, stage) = (&self.graph, &self.stage);
            let path = |query| match (query, stage) {
                // What is to end does not wait for who is silent.
                (Query::Step(_), Stage::Applying(applying)) if applying.schedule.is_stopped() => {
                    None
                }
                // Another manager may be master by now.
                (Query::Order(..) | Query::Tell(..) | Query::ClearChange(_), _)
                    if self.leave.is_held() =>
                {
                    None
                }
                (Query::Step(id), Stage::Applying(applying)) => {
                    applying.schedule.step(id)?.path(graph)
                }
                _ => graph.path(query),
            };
            match self.transactions.expire(now, path) {
                None => break,
                Some(Expired::Again(id, late, port, mut mad)) => {
                    let hidden = self.config.m_key_protect > 1;
                    let hidden = hidden || !self.config.former_m_keys.is_empty();
                    if hidden && late.query.step().is_none() {
                        // Perhaps it was the wrong key, to which such ports do not answer.
                        let key = self.graph.key_to_ask(late.query, late.repeats);
                        Directed::edit(&mut mad.0).m_key(key);
                    }
                    self.metrics.retries += 1;
                    self.send((port, mad));
                    self.is_late(id, late);
                }
                Some(Expired::GivenUp(late)) => {
                    self.metrics.unanswered += 1;
                    self.gave_up(late, now);
                }
            }
        }
        let looks = matches!(&self.stage, Stage::Applying(applying)
            if applying.waits.is_some() && applying.look_at <= now && !applying.schedule.is_stopped());
        if looks {
            self.interrupt();
        }
        let due = self.next_light.is_some_and(|due| due <= now);
        if looks || due && matches!(self.stage, Stage::Idle) {
            self.next_light = None;
            // A manager that does not know its own node begins at the beginning.
            let full = self.graph.ids().len() == 0 || self.begins_anew();
            self.pending.full |= full;
            self.pending.light = !full;
        }
        if matches!(self.stage, Stage::Idle) {
            self.retry_writes(now);
            self.lane_writes.handle_deadline(now);
        }
        self.probe(now);
        self.expire_counters(now);
        self.link_tests.expire(now);
        self.set_slow_aside(now);
        self.advance(now);
    }

    /// Counters.
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The last view published.
    pub const fn view(&self) -> Option<&Arc<FabricView>> {
        self.view.as_ref()
    }

    /// SMPs in flight.
    pub fn in_flight(&self) -> usize {
        self.transactions.in_flight()
    }

    fn send(&mut self, (port, mad): (LocalPort, Box<Mad>)) {
        self.leave.count(mad.header().method());
        self.metrics.count_sent(mad.header().attribute(), mad.header().method());
        let to = Destination::Directed;
        self.outputs.push_back(Output::Send { port, to, mad });
    }

    /// Goes as far as it can without further answers.
    fn advance(&mut self, now: Time) {
        while self.leave.is_given() {
            let goes_on = match &mut self.stage {
                Stage::Idle if self.pending.is_empty() => {
                    self.begin_grouping() || self.begin_lane_tables(now)
                }
                Stage::Idle => self.begin_survey(),
                Stage::Computing(_) | Stage::Judging(_) => false,
                Stage::Ordering(_) => self.order(now),
                Stage::Telling(_) => self.tell(now),
                Stage::Survey(_) => self.survey(now),
                Stage::Applying(_) => self.apply(now),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Nothing is left to be done: the fabric stays as it is until the next event.
    fn settle(&mut self, now: Time) {
        // Even if events keep coming, the next look at everything is not put off.
        let interval = self.config.sweep_interval();
        self.next_light = self.next_light.or_else(|| interval.map(|interval| now + interval));
        self.gave_way = 0;
        self.repress_again();
        self.silence.update(&self.graph, now);
        self.failures.postpone(now);
        self.failures.retain(|end| self.graph.path_to(end).is_some());
        for id in self.graph.ids() {
            for port in &mut self.graph.node_mut(id).ports {
                let active = |info: &snin_mad::PortInfo| info.state == snin_mad::PortState::Active;
                port.steady = port.info.as_ref().is_some_and(active);
            }
        }
    }
}
