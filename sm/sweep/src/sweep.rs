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
mod fabric_state;
mod gauges;
mod groups;
mod interrupting;
mod judged;
mod lane_writes;
mod lanes;
mod lineage;
mod link_tests;
mod missing;
mod orders;
mod progress;
mod publishing;
mod recalled;
mod registrations;
mod relevelled;
mod retries;
mod slow;
mod strangers;
mod surveying;
mod trap;
mod uncabled;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use snin_fabric::Guid;
use snin_mad::header::Directed;
use snin_mad::{Mad, Method, PKey};
use snin_protocol::Time;

use self::applying::Applying;
use self::commit::Committed;
use self::compute::Computations;
use self::gauges::Gauges;
use self::groups::Serving;
use self::interrupting::Ways;
use self::judged::{Orders, Trials};
use self::lane_writes::LaneWrites;
use self::link_tests::LinkTests;
use self::orders::Leave;
use self::publishing::Publishing;
use self::recalled::{Recalled, Telling};
use self::registrations::Registrations;
use self::relevelled::Relevelled;
use self::surveying::{Lights, Pending};
use self::trap::AnsweredTraps;
use self::uncabled::Cables;
use super::survey::Survey;
use super::transactions::{Expired, Transactions, parse};
use crate::events::{Event, Output};
use crate::failures::Failures;
use crate::graph::Graph;
use crate::keyring::Keyring;
use crate::lane_tables;
use crate::metrics::Metrics;
use crate::partitioning::key_tables;
use crate::query::{NodeId, Query};
use crate::silence::Silence;
use crate::target::Target;
use snin_sm_database::config::Config;
use snin_sm_database::error::ConfigError;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::partition_plan::PartitionPlan;
use snin_sm_database::saved::Saved;

/// How often in a row a switch may fail to take what is written to its tables before it is left out.
const MOST_FAILURES: u32 = 2;

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
    lights: Lights,
    computations: Computations,
    /// How the fabric was last meant to be.
    target: Option<Arc<Target>>,
    serving: Serving,
    publishing: Publishing,
    /// What is known is another manager's word; no port was told yet.
    recalled: Option<Recalled>,
    failures: Failures,
    silence: Silence,
    /// Questions to nodes that are silent just now, as long as the reason is not known.
    unsent: BTreeMap<NodeId, BTreeSet<Query>>,
    /// Switches with ports that were written since they were last asked whether something changed: a reset
    /// meanwhile may have gone unnoticed.
    unverified: BTreeSet<NodeId>,
    /// All but groups is as it is to be.
    regrouping: bool,
    /// The survey reads tables of lanes, and nothing else.
    only_lanes: bool,
    lane_writes: LaneWrites,
    answered_traps: AnsweredTraps,
    ways: Ways,
    leave: Leave,
    registrations: Registrations,
    relevelled: Relevelled,
    committed: Committed,
    trials: Trials,
    gauges: Gauges,
    cables: Cables,
    link_tests: LinkTests,
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
        let computations = Computations::new(config.lfts.clone());
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
            lights: Lights::default(),
            computations,
            target: None,
            serving: Serving::default(),
            publishing: Publishing::default(),
            recalled: None,
            failures: Failures::default(),
            silence: Silence::default(),
            unsent: BTreeMap::new(),
            unverified: BTreeSet::new(),
            regrouping: false,
            only_lanes: false,
            lane_writes: LaneWrites::new(had_granted_lanes),
            answered_traps: AnsweredTraps::default(),
            ways: Ways::default(),
            leave: Leave::default(),
            registrations: Registrations::default(),
            relevelled: Relevelled::default(),
            committed: Committed::default(),
            trials: Trials::default(),
            gauges: Gauges::default(),
            cables: Cables::default(),
            link_tests: LinkTests::default(),
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
            Event::Clear { version } => self.publishing.clear(version),
            Event::RotateKeys => self.rotate_keys(),
            Event::Groups(groups) => self.serving.groups = groups,
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
        let sweep = self.lights.next_deadline().into_iter().chain(self.failures.next_retry());
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
        let due = self.lights.is_due(now);
        if looks || due && matches!(self.stage, Stage::Idle) {
            self.lights.stop();
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
        self.lights.settle(self.config.sweep_interval(), now);
        self.ways.end();
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
