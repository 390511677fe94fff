//! A manager for tests: one client, one question at a time.

use snin_emulator::{ClientId, Config, Emulator, Received};
use snin_fabric::generate::Recipe;
use snin_fabric::{Lid, Lmc, NodeIndex, PortIndex, PortNum, Topology};
use snin_mad::{
    Attribute, DrPath, LinearForwarding, MKey, Mad, Method, PortInfo, PortState, Route, Smp,
    Status, SwitchInfo, TransactionId,
};
use snin_protocol::Time;

/// A fabric with a client at its first host.
pub(crate) struct Lab {
    pub(crate) emulator: Emulator,
    pub(crate) client: ClientId,
    pub(crate) home: PortIndex,
    pub(crate) topology: Topology,
    /// Sent with every request.
    pub(crate) m_key: MKey,
    asked: u64,
}

/// Long enough for any answer, too short for a trap to be repeated twice.
pub(crate) const PATIENCE: Time = Time::millis(50);

impl Lab {
    pub(crate) fn new(recipe: &str) -> Self {
        Self::with(recipe, Config::default())
    }

    pub(crate) fn with(recipe: &str, config: Config) -> Self {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        Self::of(topology, config)
    }

    pub(crate) fn of(topology: Topology, config: Config) -> Self {
        let mut emulator = Emulator::new(&topology, config);
        let home = port(&topology, "host0", 1);
        let client = emulator.attach(home).unwrap();
        Self { emulator, client, home, topology, m_key: MKey(0), asked: 0 }
    }

    pub(crate) fn node(&self, name: &str) -> NodeIndex {
        node(&self.topology, name)
    }

    pub(crate) fn port(&self, name: &str, num: u8) -> PortIndex {
        port(&self.topology, name, num)
    }

    pub(crate) fn state(&self, name: &str, num: u8) -> PortState {
        self.emulator.fabric().port_state(self.port(name, num))
    }

    pub(crate) fn path(&self, name: &str) -> DrPath {
        let route = self.emulator.fabric().route(self.home, self.node(name));
        route.unwrap_or_else(|| panic!("no route to {name}"))
    }

    pub(crate) fn route(&self, name: &str) -> Route {
        Route::directed(self.path(name))
    }

    /// Lets time pass, and everything happen in it.
    pub(crate) fn wait(&mut self, time: Time) {
        self.emulator.advance(self.emulator.now() + time);
    }

    pub(crate) fn send(&mut self, mad: &Mad, to: Lid) {
        self.emulator.send(self.client, mad, to, self.emulator.now());
    }

    /// Every MAD that set out is under way or has come to one end, and one only.
    #[track_caller]
    pub(crate) fn assert_all_accounted_for(&self) {
        let s = self.emulator.stats();
        let begun = s.sent + s.traps + s.answered + s.noise_duplicated;
        let harmed = s.noise_dropped + s.agent_full + s.inbox_full + s.too_many + s.dead;
        let lost = s.link_down + s.no_route + s.looped + s.wrong_port + s.bad_route + s.nobody;
        let under_way = self.emulator.under_way() as u64;
        assert_eq!(begun, under_way + s.delivered + s.served + harmed + lost, "{s:?}");
    }

    pub(crate) fn received(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.emulator.poll(self.client)).collect()
    }

    /// Sends a request and waits for its answer; other MADs that come in are dropped.
    pub(crate) fn ask_mad(&mut self, mut mad: Mad, to: Lid) -> Option<Mad> {
        self.asked += 1;
        // Unlike any trap's, and any that a fuzzer is likely to choose.
        let id = TransactionId(0x5afe << 48 | self.asked);
        snin_mad::Header::edit(&mut mad.0).transaction_id(id);
        self.send(&mad, to);
        let until = self.emulator.now() + PATIENCE;
        while let Some(next) = self.emulator.next_event_time().filter(|&next| next <= until) {
            self.emulator.advance(next);
            let answers = |received: &Received| {
                let header = received.mad.header();
                header.transaction_id() == id && header.method().is_response()
            };
            if let Some(received) = self.received().into_iter().find(answers) {
                return Some(received.mad);
            }
        }
        self.emulator.advance(until);
        None
    }

    pub(crate) fn get_by<A: Attribute>(
        &mut self,
        route: Route,
        to: Lid,
        modifier: u32,
    ) -> Answer<A> {
        let mad = Smp::get(A::ID, modifier, route).m_key(self.m_key).mad();
        Answer::of(self.ask_mad(mad, to))
    }

    pub(crate) fn set_by<A: Attribute>(
        &mut self,
        route: Route,
        to: Lid,
        modifier: u32,
        value: &A,
    ) -> Answer<A> {
        let mad = Smp::set(A::ID, modifier, route).m_key(self.m_key).mad().with(value);
        Answer::of(self.ask_mad(mad, to))
    }

    pub(crate) fn get<A: Attribute>(&mut self, name: &str, modifier: u32) -> Answer<A> {
        self.get_by(self.route(name), Lid::NONE, modifier)
    }

    pub(crate) fn set<A: Attribute>(&mut self, name: &str, modifier: u32, value: &A) -> Answer<A> {
        self.set_by(self.route(name), Lid::NONE, modifier, value)
    }

    /// Reads PortInfo, changes it and writes it back, the states left alone unless changed.
    pub(crate) fn change_port(
        &mut self,
        name: &str,
        num: u8,
        change: impl FnOnce(&mut PortInfo),
    ) -> Answer<PortInfo> {
        let mut info: PortInfo = self.get(name, num.into()).value();
        info.state = PortState::NoChange;
        info.physical_state = snin_mad::PhysicalState::NoChange;
        change(&mut info);
        self.set(name, num.into(), &info)
    }

    pub(crate) fn set_state(&mut self, name: &str, num: u8, state: PortState) -> Answer<PortInfo> {
        self.change_port(name, num, |info| info.state = state)
    }

    /// Gives a port an address, and MasterSMLID, which is always 1.
    pub(crate) fn address(&mut self, name: &str, num: u8, lid: Lid, lmc: Lmc) -> Answer<PortInfo> {
        self.change_port(name, num, |info| {
            (info.lid, info.lmc, info.master_sm_lid) = (lid, lmc, Lid(1));
        })
    }

    /// Writes single entries of a switch's table, and LinearFDBTop.
    pub(crate) fn forward(&mut self, name: &str, entries: &[(u16, u8)]) {
        let mut top = 0;
        for &(lid, num) in entries {
            let block = u32::from(lid / 64);
            let mut table: LinearForwarding = self.get(name, block).value();
            table.ports[usize::from(lid % 64)] = PortNum(num);
            assert_eq!(self.set(name, block, &table).value(), table);
            top = top.max(lid);
        }
        let mut info: SwitchInfo = self.get(name, 0).value();
        info.linear_fdb_top = Lid(top).max(info.linear_fdb_top);
        info.port_state_change = false;
        self.set(name, 0, &info).value();
    }

    /// Brings both ends of a cable to Active.
    pub(crate) fn activate(&mut self, name: &str, num: u8) {
        let end = self.port(name, num);
        let peer = self.topology.peer(end).unwrap();
        let ends = [end, peer].map(|port| {
            let node = self.topology.port(port).node;
            (self.topology.node(node).name.to_string(), self.topology.num(port).0)
        });
        for state in [PortState::Armed, PortState::Active] {
            for (name, num) in &ends {
                assert_eq!(self.set_state(name, *num, state).value().state, state);
            }
        }
    }
}

/// What came back.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer<A> {
    /// Nothing.
    Silence,
    /// A refusal.
    Refused(Status),
    /// The attribute.
    Value(A),
}

impl<A: Attribute> Answer<A> {
    pub(crate) fn of(mad: Option<Mad>) -> Self {
        let Some(mad) = mad else {
            return Self::Silence;
        };
        assert_eq!(mad.header().method(), Method::GetResp);
        match mad.status() {
            Status::OK => Self::Value(A::parse(A::data(&mad.0)).unwrap()),
            status => Self::Refused(status),
        }
    }

    #[track_caller]
    pub(crate) fn value(self) -> A {
        match self {
            Self::Value(value) => value,
            Self::Refused(status) => panic!("{}: {status}", A::LAYOUT.name),
            Self::Silence => panic!("{}: no answer", A::LAYOUT.name),
        }
    }

    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Self::Value(_) => Some(Status::OK),
            Self::Refused(status) => Some(*status),
            Self::Silence => None,
        }
    }
}

pub(crate) fn node(topology: &Topology, name: &str) -> NodeIndex {
    let named = |index: &NodeIndex| &*topology.node(*index).name == name;
    topology.nodes().find(named).unwrap_or_else(|| panic!("no node {name}"))
}

pub(crate) fn port(topology: &Topology, name: &str, num: u8) -> PortIndex {
    topology.port_of(node(topology, name), PortNum(num)).unwrap()
}
