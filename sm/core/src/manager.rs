//! The manager: its cores around one database, each in its turn.
//!
//! What one core changes the others see before the turn ends. The sweep writes what it found when a stage
//! ends; administration then tells subscribers, and answers from it.

mod consented;
mod elected;
mod groups;
mod joining;
mod mirrored;
mod shown;

use std::collections::VecDeque;
use std::sync::Arc;

use snin_fabric::Lid;
use snin_mad::{Attribute, Class, Mad, Method, Notice, PKey, SmState, Smp};
use snin_protocol::Time;

use crate::events::{Event, Output, Preferences};
use crate::report::Report;
use snin_administration::{Administration, Limits, World};
use snin_configuration::{Configuration, Limits as ConfigurationLimits};
use snin_mastership::cluster::{Cluster, Limits as ClusterLimits, Verdict};
use snin_mastership::electing::Electing;
use snin_mastership::mastership::{self, Mastership, SM_INFO};
use snin_mastership::mirror::Mirror;
use snin_sm_database::config::Config;
use snin_sm_database::error::{ConfigError, Dropped};
use snin_sm_database::fabric_state::Published;
use snin_sm_database::judgement::Consent;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::managers::Order;
use snin_sm_database::partitions::Partitions;
use snin_sm_database::qos_policy::QosPolicy;
use snin_sm_database::records::{self, Database};
use snin_sm_database::saved::Saved;
use snin_sweep::Missing;
use snin_sweep::Sweep;

/// How often one turn goes between the cores; what is left is for the next one.
const MOST_ROUNDS: usize = 64;

/// The subnet manager.
///
/// It has the verbs of every core: [`handle`](Self::handle) what happened, do what
/// [`poll_output`](Self::poll_output) says until it says nothing, and call
/// [`handle_deadline`](Self::handle_deadline) at [`next_deadline`](Self::next_deadline).
pub struct Manager {
    config: Config,
    sweep: Sweep,
    database: Database,
    administration: Administration,
    configuration: Configuration,
    mastership: Mastership,
    /// The cluster's service, where there is one, and what it last came to.
    cluster: Option<Cluster>,
    consented: (Verdict, Consent),
    /// Where managers elect the master, once this one knows its port.
    electing: Option<Electing>,
    mirror: Mirror,
    outputs: VecDeque<Output>,
    /// Up to where the database's log was stored.
    stored: u64,
    /// Up to where the log was read for groups and members, whether the sweep is to be told of any, and when at
    /// the soonest: with thousands of joins a second not each is told apart.
    grouped: u64,
    owes_groups: bool,
    group_from: Time,
    /// There is no room for answers just now.
    holds_answers: bool,
    /// What has to be added to the driver's time to have that of the epoch.
    epoch: Time,
}

/// How long after groups were told the next change of any is told, and the more for each member of any.
const GROUPS_APART: Time = Time::millis(20);
const FOR_A_MEMBER: Time = Time::micros(1);

impl Manager {
    /// A manager that has seen nothing yet. It asks nothing before [`Event::Start`].
    ///
    /// # Errors
    /// When a number of the configuration is out of range, or the subnet is another manager's.
    pub fn new(
        config: Config,
        saved: Saved,
        kept: impl IntoIterator<Item = records::KeptRecord>,
    ) -> Result<Self, ConfigError> {
        if config.read_only {
            return Err(ConfigError::ReadOnly);
        }
        let mut sweep = Sweep::new(config.clone(), saved)?;
        sweep.be_judged();
        sweep.consult();
        let (mut mastership, mirror) = (Mastership::new(&config), Mirror::new(&config));
        let mut database = Database::new(snin_fabric::Guid(0));
        kept.into_iter().for_each(|kept| database.restore(kept));
        let stored = database.cursor();
        // A subnet that was ever up has its broadcast group.
        if stored == 0 {
            sweep.forget_clients();
            mastership.set_blank(config.mirrored);
        }
        let mut limits = Limits::default();
        limits.policy.unheard = config.sa_repeats;
        limits.busy = config.sa_busy;
        let administration = Administration::new(limits);
        let configuration = Configuration::new(ConfigurationLimits::default());
        let cluster = config.cluster.then(|| Cluster::new(ClusterLimits::default()));
        Ok(Self {
            config,
            sweep,
            database,
            administration,
            configuration,
            mastership,
            cluster,
            consented: (Verdict::Unknown, Consent::Absent),
            electing: None,
            mirror,
            outputs: VecDeque::new(),
            stored,
            grouped: 0,
            owes_groups: false,
            group_from: Time::ZERO,
            holds_answers: false,
            epoch: Time::ZERO,
        })
    }

    /// Takes note of what happened. Anything that does not fit is counted and dropped.
    pub fn handle(&mut self, event: Event<'_>, now: Time) {
        self.mastership.notice_stall(self.next_deadline(), now);
        match event {
            Event::General { port, from, bytes }
                if port == self.mastership.seat() && !is_of_counters(bytes) =>
            {
                self.administer(now, |administration, world| {
                    administration.handle(from, bytes, world);
                });
            }
            Event::Mad { port, source, bytes } if self.is_of_managers(bytes) => {
                self.between_managers(port, source, bytes, now);
            }
            Event::Mad { port, source, bytes } => {
                let notice = trap(bytes);
                self.sweep.set_lingering(self.mastership.lingers(now));
                self.sweep.handle(snin_sweep::Event::Mad { port, source, bytes }, now);
                if let Some(notice) = notice {
                    self.administer(now, |administration, world| {
                        administration.trap(&notice, world);
                    });
                }
            }
            Event::Crowded(crowded) => {
                self.holds_answers = crowded;
                return;
            }
            Event::QosPolicy(policy) => {
                self.config.qos_policy = *policy;
                return;
            }
            Event::Partitions(partitions) => {
                self.config.partitions = (*partitions).clone();
                self.sweep.handle(snin_sweep::Event::Partitions(partitions), now);
                self.mirror.set_settings(&self.config);
            }
            Event::Configuration(instruction) => self.configuration.instruct(*instruction),
            Event::Cluster(event) => {
                if let Some(cluster) = &mut self.cluster {
                    cluster.handle(*event, now);
                }
            }
            Event::PortChanged => self.mastership.port_changed(now),
            Event::Instruct { to, control } => self.mastership.instruct(to, control, now),
            Event::Priority(priority) => self.mastership.set_priority(priority.min(15), now),
            Event::Prefer(preferences) => self.prefer(*preferences, now),
            Event::Mirror(event) => {
                self.mirror(now, |mirror, around| mirror.handle(*event, around));
            }
            event => {
                if let Some(event) = event.for_sweep() {
                    self.sweep.handle(event, now);
                }
            }
        }
        self.follow(now);
    }

    /// Whether an SMP is about SMInfo, or answers a question of mastership's.
    fn is_of_managers(&self, bytes: &[u8]) -> bool {
        let Ok(mad) = Mad::from_slice(bytes) else { return false };
        let header = mad.header();
        let asked = self.mastership.waits_for(header.transaction_id());
        match header.method() {
            Method::Get | Method::Set => header.attribute().0 == SM_INFO,
            Method::GetResp | Method::TrapRepress => asked,
            _ => false,
        }
    }

    fn between_managers(&mut self, port: LocalPort, source: Lid, bytes: &[u8], now: Time) {
        let taken = match Mad::from_slice(bytes) {
            Err(_) => Err(Dropped::Truncated),
            Ok(_) if port.0 >= self.config.ports.into() => Err(Dropped::WrongPort),
            Ok(mad) => match Smp::parse(&mad.0) {
                Err(_) => Err(Dropped::Malformed),
                Ok(smp) => {
                    self.mastership.activity = self.sweep.metrics().smps() as u32;
                    self.mastership.handle((port, source), &mad, &smp, now)
                }
            },
        };
        if let Err(why) = taken {
            self.sweep.count_dropped(why);
        }
    }

    /// The next thing to be done, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        let port = self.mastership.seat();
        let answer = |(to, mad)| Output::Answer { port, to, mad };
        self.outputs.pop_front().or_else(|| {
            let answers = (!self.holds_answers).then_some(&mut self.administration);
            answers?.poll().map(answer)
        })
    }

    /// The local port at which this manager sits.
    pub const fn seat(&self) -> LocalPort {
        self.mastership.seat()
    }

    /// Whether answers of administration wait: see [`Event::Crowded`].
    pub const fn is_crowded(&self) -> bool {
        self.holds_answers
    }

    /// What paths are answered with besides their addresses.
    pub const fn qos_policy(&self) -> &QosPolicy {
        &self.config.qos_policy
    }

    /// Which ports are members of which partitions.
    pub const fn partitions(&self) -> &Partitions {
        &self.config.partitions
    }

    /// The partition table of the manager's own port, as far as it is known.
    pub fn own_keys(&self) -> &[PKey] {
        self.sweep.own_keys()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Time> {
        let administration = self.administration.next_deadline(&self.database);
        let groups = (self.owes_groups && self.sweep.is_waiting()).then_some(self.group_from);
        let configuration = self.configuration.next_deadline();
        let mastership = self.mastership.next_deadline();
        let mirror = self.mirror.next_deadline();
        let cluster = self.cluster.as_ref().and_then(Cluster::next_deadline);
        let election = self.electing.as_ref().map(Electing::next_deadline);
        let others = [mastership, administration, groups, configuration, cluster, election, mirror];
        self.sweep.next_deadline().into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Does what is due at `now`; too early a call does nothing.
    pub fn handle_deadline(&mut self, now: Time) {
        self.mastership.notice_stall(self.next_deadline(), now);
        self.mastership.activity = self.sweep.metrics().smps() as u32;
        self.mastership.handle_deadline(now);
        self.sweep.handle_deadline(now);
        self.configuration.handle_deadline(now);
        if let Some(cluster) = &mut self.cluster {
            cluster.handle_deadline(now);
        }
        self.administer(now, Administration::handle_deadline);
        self.follow(now);
    }

    /// Stamps of the database, and leases in snapshots of it, are in the time of the epoch, which other managers
    /// have too: what has to be added to `now` for that. Called before [`Event::Start`]; without it the epoch is
    /// the driver's start.
    pub const fn set_epoch(&mut self, epoch: Time) {
        self.epoch = epoch;
        self.database.set_epoch(epoch);
        self.mirror.set_epoch(epoch);
    }

    /// What the controller does not prefer any more goes; what it says again keeps its stamp.
    fn prefer(&mut self, preferences: Preferences, now: Time) {
        let Preferences { pins, slices } = preferences;
        self.database.retain::<records::Pins>(now, |pair| pins.contains_key(pair));
        self.database.retain::<records::Slices>(now, |port| slices.contains_key(port));
        for (pair, lid) in pins {
            self.database.put::<records::Pins>(pair, lid, now);
        }
        for (port, slice) in slices {
            self.database.put::<records::Slices>(port, slice, now);
        }
    }

    /// What the sweep did becomes known to the others, and what they want done is put in order.
    fn follow(&mut self, now: Time) {
        self.heed_cluster(now);
        self.heed_election(now);
        self.heed_all(now);
        self.settle(now);
        // While it is at work it takes nothing new; afterwards the newest is all that counts.
        self.owes_groups |= self.regroups();
        if self.owes_groups && self.sweep.is_waiting() && now >= self.group_from {
            self.owes_groups = false;
            let members_now = self.database.all::<records::Members>().len() as u64;
            self.group_from = now + GROUPS_APART + FOR_A_MEMBER * members_now;
            let groups = Arc::new(groups::members(&self.database));
            self.sweep.handle(snin_sweep::Event::Groups(groups), now);
        }
        self.sweep.read_lanes(self.administration.take_wanted(), now);
        while let Some(output) = self.sweep.poll_output() {
            self.outputs.push_back(output.into());
        }
        self.mirror(now, |_, _| ());
        self.keep();
    }

    /// What hosts said is stored.
    fn keep(&mut self) {
        let kept = self.database.kept_since(self.stored);
        self.stored = self.database.cursor();
        if !kept.is_empty() {
            self.outputs.push_back(Output::Keep(kept));
        }
    }

    /// Configuration judges what was discovered, and asks what it wants to know.
    fn configure(&mut self, now: Time) {
        self.sweep.configure(&mut self.configuration, now);
        while let Some(report) = self.configuration.next_report() {
            self.outputs.push_back(Output::Report(Report::Port(report)));
        }
    }

    /// Mastership and configuration have their say for as long as a survey ends in between.
    fn heed_all(&mut self, now: Time) {
        for _ in 0..MOST_ROUNDS {
            self.heed_mastership(now);
            self.configure(now);
            // A look is a survey too, after which mastership gives leave to go on.
            self.sweep.look_at_passed(&mut self.configuration, now);
            if !self.sweep.has_surveyed() {
                break;
            }
        }
    }

    /// What a survey met mastership judges, and what that orders the sweep does.
    fn heed_mastership(&mut self, now: Time) {
        if !self.mastership.knows_itself()
            && let Some(own) = self.sweep.own()
        {
            self.mastership.introduce(own, now);
        }
        self.mastership.look(self.sweep.written(), now);
        for _ in 0..MOST_ROUNDS {
            if let Some((own, found)) = self.sweep.take_found() {
                self.mastership.surveyed(own, found, now);
            }
            if self.mastership.awaits_quiet() && self.sweep.is_quiet() {
                self.mastership.quiet(now);
            }
            let mut idle = true;
            while let Some(act) = self.mastership.poll_output() {
                idle = false;
                self.act(act, now);
            }
            if idle {
                break;
            }
        }
        let until = self.mastership.look(self.sweep.written(), now);
        self.sweep.write_until(until, now);
        if self.mastership.take_changed() {
            self.mastership.commit(&mut self.database, now);
            let rival = |(guid, at, _): (_, &str, _)| Missing::Rival { guid, at: at.to_owned() };
            self.sweep.set_rivals(self.mastership.rivals().map(rival).collect());
        }
    }

    fn act(&mut self, act: mastership::Output, now: Time) {
        match act {
            mastership::Output::Send { port, to, mad } => {
                self.sweep.count_sent(&mad);
                self.outputs.push_back(Output::Send { port, to, mad });
            }
            mastership::Output::Report(report) => {
                self.outputs.push_back(Output::Report(Report::Mastership(report)));
            }
            mastership::Output::Order(Order::TakeOver) if self.sweep.recall(&self.database) => {}
            mastership::Output::Order(order @ Order::Sit(port)) => {
                self.sweep.obey(order, now);
                self.mastership.moved(self.sweep.own(), now);
                self.outputs.push_back(Output::Sit(port));
            }
            mastership::Output::Order(order) => {
                if order == Order::Proceed {
                    self.join_strangers(now);
                }
                self.sweep.obey(order, now);
                if order == Order::StandAside {
                    self.administration.stand_aside();
                }
            }
        }
    }

    /// A stage of the sweep has ended: the database learns what it found, and administration what that means.
    fn settle(&mut self, now: Time) {
        self.sweep.unsettle(&mut self.database, now);
        if self.sweep.take_stage_end() {
            if let Some(own) = self.sweep.own_guid() {
                self.database.set_origin(own);
            }
            // What another master does is its own business to know.
            if self.state() != SmState::Master || self.mastership.is_held() {
                return;
            }
            self.sweep.commit(&mut self.database, now);
            if self.sweep.view().is_some() {
                // Hosts join as soon as their links are up, while more may still be looked at.
                self.administer(now, Administration::found);
            }
            if self.sweep.view().is_some() && self.sweep.is_settled() {
                self.administer(now, Administration::settle);
                for port in self.administration.take_lapsed() {
                    self.sweep.lapse(port);
                }
            }
            if !self.sweep.reads_lanes() {
                self.administer(now, Administration::resume);
            }
        }
        if self.administration.undiscovered() > 0 && self.sweep.is_settled() {
            self.administer(now, Administration::discovered);
        }
    }

    fn administer(&mut self, now: Time, turn: impl FnOnce(&mut Administration, &mut World<'_>)) {
        let leads = self.state() == SmState::Master && self.sweep.leads();
        let read_only = !leads;
        let view = self.sweep.view().filter(|_| leads || self.mastership.lingers(now));
        let mut world = World {
            config: &self.config,
            database: &mut self.database,
            view: view.map(|view| &**view as &dyn Published),
            read_only,
            sweep: &self.sweep,
            now,
            notices: Vec::new(),
        };
        turn(&mut self.administration, &mut world);
    }
}

/// Whether a MAD at queue pair 1 is of performance management.
fn is_of_counters(bytes: &[u8]) -> bool {
    Mad::from_slice(bytes).is_ok_and(|mad| mad.header().class() == Class::Performance)
}

/// The notice in a trap, which subscribers may want to know of.
fn trap(bytes: &[u8]) -> Option<Notice> {
    let mad = Mad::from_slice(bytes).ok()?;
    let header = mad.header();
    let is_trap = header.method() == Method::Trap && header.class() == Class::Subnet;
    if !is_trap || header.attribute() != Notice::ID {
        return None;
    }
    mad.attribute().ok()
}
