//! A manager with all its cores, joined to an emulated fabric, and hosts that ask it.

use std::collections::{BTreeMap, VecDeque};

use snin_emulator::{ClientId, Config as Hardware, Emulator, Fault};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeKind, PortIndex, Topology};
use snin_mad::rmpp::{self, Policy, Receiver};
use snin_mad::sa::{ComponentMask, McMemberRecord, Record, SaRequest};
use snin_mad::{
    Attribute as _, AttributeId, Gid, GidPrefix, Mad, Method, MulticastForwarding, PERMISSIVE,
    PKey, Status, SwitchInfo,
};
use snin_protocol::Time;
use snin_sm_core::{Event, Manager, Output};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::records::KeptRecord;
use snin_sm_database::saved::Saved;

pub(crate) const PREFIX: GidPrefix = GidPrefix(0xFE80_0000_0000_0000);

pub(crate) struct Subnet {
    pub(crate) topology: Topology,
    pub(crate) emulator: Emulator,
    pub(crate) manager: Manager,
    /// What was to be kept, in order.
    pub(crate) kept: Vec<KeptRecord>,
    pub(crate) saved: Saved,
    pub(crate) client: ClientId,
    /// SMPs sent by attribute and method, those for multicast tables apart.
    pub(crate) sent: BTreeMap<(AttributeId, u8), u64>,
    /// MADs of administration on their way to hosts.
    pub(crate) mail: VecDeque<(Origin, Mad)>,
    /// How often tables, or trees of groups, were computed.
    pub(crate) computed: u64,
    count: u64,
}

/// A multicast table, or a write of how far it goes.
fn is_about_groups(mad: &Mad) -> bool {
    let header = mad.header();
    match header.attribute() {
        MulticastForwarding::ID => true,
        SwitchInfo::ID if header.method() == Method::Set => {
            !mad.attribute::<SwitchInfo>().unwrap().port_state_change
        }
        _ => false,
    }
}

pub(crate) fn config() -> Config {
    Config { lmc: Some(1), ..Config::default() }
}

impl Subnet {
    /// A fabric that is up.
    pub(crate) fn new(recipe: &str, config: Config) -> Self {
        Self::of(recipe.parse::<Recipe>().unwrap().build().unwrap(), config)
    }

    /// This fabric, up.
    pub(crate) fn of(topology: Topology, config: Config) -> Self {
        let emulator = Emulator::new(&topology, Hardware::default());
        Self::on(emulator, topology, config, Saved::default(), Vec::new())
    }

    fn on(
        mut emulator: Emulator,
        topology: Topology,
        config: Config,
        saved: Saved,
        kept: Vec<KeptRecord>,
    ) -> Self {
        let adapter = |index: &_| topology.node(*index).kind == NodeKind::Adapter;
        let first = topology.nodes().filter(adapter).find_map(|n| topology.cables(n).next());
        let client = emulator.attach(first.unwrap().0).unwrap();
        let manager = Manager::new(config, saved.clone(), kept.clone()).unwrap();
        let (sent, mail, count) = (BTreeMap::new(), VecDeque::new(), 0x1000);
        let computed = 0;
        let mut subnet =
            Self { topology, emulator, manager, kept, saved, client, sent, mail, computed, count };
        let now = subnet.emulator.now();
        subnet.manager.handle(Event::Start, now);
        subnet.settle();
        subnet
    }

    /// A manager at the n-th host, which begins.
    pub(crate) fn start(
        mut emulator: Emulator,
        topology: Topology,
        config: Config,
        saved: Saved,
        host: usize,
    ) -> Self {
        let adapter = |index: &_| topology.node(*index).kind == NodeKind::Adapter;
        let mut ends = topology.nodes().filter(adapter).filter_map(|n| topology.cables(n).next());
        let client = emulator.attach(ends.nth(host).unwrap().0).unwrap();
        let manager = Manager::new(config, saved.clone(), []).unwrap();
        let (sent, mail, count) = (BTreeMap::new(), VecDeque::new(), 0x1000);
        let computed = 0;
        let kept = Vec::new();
        let mut subnet =
            Self { topology, emulator, manager, kept, saved, client, sent, mail, computed, count };
        let now = subnet.emulator.now();
        subnet.manager.handle(Event::Start, now);
        subnet
    }

    /// The same, until the fabric is up.
    pub(crate) fn at(
        emulator: Emulator,
        topology: Topology,
        config: Config,
        saved: Saved,
        host: usize,
    ) -> Self {
        let mut subnet = Self::start(emulator, topology, config, saved, host);
        subnet.settle();
        subnet
    }

    /// The manager ends: the fabric, and what was stored.
    pub(crate) fn stop(self) -> (Emulator, Saved) {
        let Self { mut emulator, client, saved, .. } = self;
        emulator.detach(client);
        (emulator, saved)
    }

    /// Whether the fabric is up and nothing is to be done.
    pub(crate) fn has_settled(&self) -> bool {
        self.manager.is_idle() && self.manager.view().is_some()
    }

    /// Another manager after this one: nothing in its head but what was stored.
    pub(crate) fn restarted(self, config: Config) -> Self {
        let Self { mut emulator, client, topology, saved, kept, .. } = self;
        emulator.detach(client);
        Self::on(emulator, topology, config, saved, kept)
    }

    pub(crate) fn now(&self) -> Time {
        self.emulator.now()
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now();
        self.emulator.inject(fault, now);
    }

    fn work(&mut self) {
        loop {
            while let Some(output) = self.manager.poll_output() {
                let now = self.emulator.now();
                match output {
                    Output::Send { to, mad, .. } => {
                        let to = match to {
                            Destination::Directed => PERMISSIVE,
                            Destination::Lid(lid) => lid,
                        };
                        if !is_about_groups(&mad) {
                            let header = mad.header();
                            let sent = (header.attribute(), header.method().code());
                            *self.sent.entry(sent).or_insert(0) += 1;
                        }
                        self.emulator.send(self.client, &mad, to, now);
                    }
                    Output::Answer { to, mad, .. } => self.mail.push_back((to, *mad)),
                    Output::Keep(changes) => self.kept.extend(changes),
                    Output::Compute(job) => {
                        self.computed += 1;
                        self.manager.handle(Event::Computed(Box::new(job.run())), now);
                    }
                    Output::Save(saved) => self.saved = (*saved).clone(),
                    Output::View(_)
                    | Output::Report(_)
                    | Output::Served(_)
                    | Output::Mirror(_)
                    | Output::Cluster(_)
                    | Output::TestLink { .. }
                    | Output::Sit(_) => {}
                }
            }
            let Some(received) = self.emulator.poll(self.client) else { return };
            let (port, source) = (LocalPort(0), received.slid);
            let event = Event::Mad { port, source, bytes: &received.mad.0 };
            self.manager.handle(event, received.at);
        }
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            self.work();
            let next =
                self.emulator.next_event_time().into_iter().chain(self.manager.next_deadline());
            let Some(next) = next.min().filter(|&next| next <= until) else { break };
            self.emulator.advance(next);
            self.work();
            if self.manager.next_deadline().is_some_and(|deadline| deadline <= self.now()) {
                let now = self.now();
                self.manager.handle_deadline(now);
            }
        }
        self.emulator.advance(until);
    }

    pub(crate) fn run(&mut self, time: Time) {
        let until = self.now() + time;
        self.run_until(until);
    }

    /// Runs until the manager has nothing to do.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..60_000 {
            self.work();
            if self.manager.is_idle() {
                return;
            }
            self.run(Time::millis(1));
        }
        panic!("not settled: {:?}", self.manager.metrics());
    }

    /// The n-th host's port, the manager's own being the first.
    pub(crate) fn host(&self, n: usize) -> PortIndex {
        let topology = &self.topology;
        let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
        let mut ports = adapters.filter_map(|node| topology.cables(node).next());
        ports.nth(n).unwrap().0
    }

    pub(crate) fn guid(&self, host: usize) -> Guid {
        self.topology.port(self.host(host)).guid
    }

    pub(crate) fn gid(&self, host: usize) -> Gid {
        Gid::new(PREFIX, self.guid(host))
    }

    /// A host's first address.
    pub(crate) fn lid(&self, host: usize) -> Lid {
        let found = self.manager.database().by_guid(self.guid(host));
        found.map(|(_, port)| port.base).expect("the host has an address")
    }

    /// A host as SA sees it.
    pub(crate) fn origin(&self, host: usize) -> Origin {
        Origin { lid: self.lid(host), qp: 1, sl: 0, p_key: PKey::DEFAULT }
    }

    /// Tells the manager of an event.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        let now = self.now();
        self.manager.handle(event, now);
        self.work();
    }

    /// Gives the manager a MAD from a requester.
    pub(crate) fn give(&mut self, from: Origin, bytes: &[u8]) {
        let now = self.now();
        self.manager.handle(Event::General { port: LocalPort(0), from, bytes }, now);
        self.work();
    }

    /// A request of a host and its answer: all records, where there are several. `None` if none comes soon.
    pub(crate) fn try_ask(&mut self, host: usize, request: &SaRequest) -> Option<SaRequest> {
        let from = self.origin(host);
        self.count += 1;
        let request = request.clone().transaction(self.count);
        self.give(from, &request.mad().0);
        let mut message: Option<Receiver> = None;
        let is_its = |(to, mad): &(Origin, Mad)| {
            *to == from && mad.header().transaction_id() == request.transaction_id
        };
        for _ in 0..50 {
            // Where tables have to be read first it takes a while.
            if !self.mail.iter().any(is_its) {
                self.run(Time::millis(1));
            }
        }
        while let Some(place) = self.mail.iter().position(is_its) {
            let (_, mad) = self.mail.remove(place).unwrap();
            if !rmpp::is_active(&mad) {
                return Some(SaRequest::parse(&mad).unwrap());
            }
            let policy = Policy { longest: 1 << 26, ..Policy::default() };
            let now = self.now();
            let receiver = message.get_or_insert_with(|| Receiver::new(&mad, policy, now));
            let reception = receiver.receive(&mad);
            assert_eq!(reception.ended, None);
            if let Some(reply) = reception.reply {
                self.give(from, &reply.0);
            }
        }
        let mut message = message?;
        let header = SaRequest::parse(message.header()).unwrap();
        let data = message.take().expect("the whole message");
        Some(SaRequest { data, ..header })
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, host: usize, request: &SaRequest) -> SaRequest {
        let answer = self.try_ask(host, request);
        answer
            .unwrap_or_else(|| panic!("no answer: {:?}", self.manager.administration().unanswered))
    }

    /// Get: one record, or the status.
    #[track_caller]
    pub(crate) fn get<R: Record>(
        &mut self,
        host: usize,
        record: &R,
        bits: &[u8],
    ) -> Result<R, Status> {
        let answer = self.ask(host, &SaRequest::new(Method::Get, record, ComponentMask::of(bits)));
        if answer.status.is_ok() { Ok(answer.record().unwrap()) } else { Err(answer.status) }
    }

    /// GetTable: every record that matches.
    #[track_caller]
    pub(crate) fn table<R: Record>(&mut self, host: usize, record: &R, bits: &[u8]) -> Vec<R> {
        let request = SaRequest::new(Method::GetTable, record, ComponentMask::of(bits));
        let answer = self.ask(host, &request.key(1));
        assert_eq!(answer.status, Status::OK);
        answer.records().collect()
    }

    /// Set or Delete of a member.
    #[track_caller]
    pub(crate) fn member(
        &mut self,
        host: usize,
        method: Method,
        record: &McMemberRecord,
        bits: &[u8],
    ) -> Result<McMemberRecord, Status> {
        let answer = self.ask(host, &SaRequest::new(method, record, ComponentMask::of(bits)));
        if answer.status.is_ok() { Ok(answer.record().unwrap()) } else { Err(answer.status) }
    }
}
