//! A manager that enforces an expected configuration on an emulated fabric.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use snin_configuration::{
    Action, Expected, Instruction, Limits, Mode, PortReport, Quality, Tests, learn,
};
use snin_emulator::place::port_of;
use snin_emulator::{ClientId, Config as Hardware, Emulator, Fault, Write};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeKind, PortIndex, PortNum, Topology};
use snin_mad::{Class, Mad, PERMISSIVE, PKey, PhysicalState, PortState};
use snin_protocol::Time;
use snin_sm_core::{Event, Manager, Output, Report};
use snin_sm_database::config::Config;
use snin_sm_database::judgement::Consent;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::records::Place;
use snin_sm_database::saved::Saved;

pub(crate) struct Lab {
    pub(crate) topology: Topology,
    pub(crate) emulator: Emulator,
    pub(crate) manager: Manager,
    pub(crate) said: Vec<PortReport>,
    /// Writes that agents took.
    pub(crate) writes: Rc<RefCell<Vec<Write>>>,
    /// Answers of subnet administration.
    pub(crate) mail: Vec<Mad>,
    /// Agents by port, and how many of their messages are lost. Without a controller there is no answer.
    pub(crate) agents: BTreeMap<Guid, u32>,
    pub(crate) controller: bool,
    /// What agents were told to send: from which port, how much, and whether its link was ACTIVE.
    pub(crate) messages: Vec<(Guid, u32, bool)>,
    client: ClientId,
}

pub(crate) fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Tests that take little time.
pub(crate) fn quick() -> Tests {
    let quality = Quality { lasts: Time::millis(20), mads: 10, lost: 0, messages: 0, errors: None };
    let (timer, at_once) = (Time::secs(2), 10_000);
    Tests { quality: Some(quality), timer, at_once, ..Tests::default() }
}

/// What is expected where the fabric is as it was planned.
pub(crate) fn planned(topology: &Topology, mode: Mode) -> Expected {
    let mut lab = Lab::new(topology.clone(), Limits::default());
    lab.start();
    lab.run(Time::secs(2));
    Expected { tests: quick(), ..learn(&lab.manager.seen(), mode, None) }
}

pub(crate) fn granted() -> Instruction {
    Instruction::Consent(Consent::Granted { by: "a test".to_owned(), until: None })
}

pub(crate) fn expect(expected: &Expected) -> Instruction {
    Instruction::Expect { expected: Some(Arc::new(expected.clone())), forced: false }
}

fn at_queue_pair_1(lid: Lid) -> Origin {
    Origin { lid, qp: 1, sl: 0, p_key: PKey::DEFAULT }
}

fn manager() -> Manager {
    let config = Config { lmc: Some(0), sweep_interval_s: 1, ..Config::default() };
    Manager::new(config, Saved::default(), None).unwrap()
}

impl Lab {
    /// Another manager takes its place, which knows nothing yet.
    pub(crate) fn replace_manager(&mut self) {
        self.manager = manager();
    }

    /// The manager sits at the first adapter that has a cable.
    pub(crate) fn new(topology: Topology, limits: Limits) -> Self {
        let mut emulator = Emulator::new(&topology, Hardware::default());
        let adapter = |index: &_| topology.node(*index).kind == NodeKind::Adapter;
        let first = topology.nodes().filter(adapter).find_map(|n| topology.cables(n).next());
        let client = emulator.attach(first.unwrap().0).unwrap();
        let mut manager = manager();
        let limit = Event::Configuration(Box::new(Instruction::Limit(limits)));
        manager.handle(limit, emulator.now());
        let writes: Rc<RefCell<Vec<Write>>> = Rc::default();
        let log = writes.clone();
        emulator.watch(move |_, write| log.borrow_mut().push(*write));
        let (said, mail, messages) = (Vec::new(), Vec::new(), Vec::new());
        let (agents, controller) = (BTreeMap::new(), true);
        Self {
            topology,
            emulator,
            manager,
            said,
            writes,
            mail,
            agents,
            controller,
            messages,
            client,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.emulator.now()
    }

    pub(crate) fn start(&mut self) {
        let now = self.now();
        self.manager.handle(Event::Start, now);
        self.work();
    }

    pub(crate) fn tell(&mut self, instruction: Instruction) {
        let now = self.now();
        self.manager.handle(Event::Configuration(Box::new(instruction)), now);
        self.work();
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now();
        self.emulator.inject(fault, now);
    }

    pub(crate) fn port(&self, name: &str, num: u8) -> PortIndex {
        let named = |&node: &_| &*self.topology.node(node).name == name;
        let node = self.topology.nodes().find(named).unwrap();
        self.topology.port_of(node, PortNum(num)).unwrap()
    }

    pub(crate) fn place(&self, name: &str, num: u8) -> Place {
        let port = self.port(name, num);
        (self.topology.node(self.topology.port(port).node).guid, PortNum(num))
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
                        self.emulator.send(self.client, &mad, to, now);
                    }
                    Output::Compute(job) => {
                        self.manager.handle(Event::Computed(Box::new(job.run())), now);
                    }
                    Output::Answer { to, mad, .. } => match mad.header().class() {
                        Class::Administration => self.mail.push(*mad),
                        _ => self.emulator.send(self.client, &mad, to.lid, now),
                    },
                    Output::Report(Report::Port(report)) => self.said.push(report),
                    Output::TestLink { number, port, messages } => {
                        let at = port_of(&self.topology, port).unwrap();
                        let state = self.emulator.fabric().port_info(at).state;
                        self.messages.push((port, messages, state == PortState::Active));
                        let lost = self.agents.get(&port);
                        let arrived = lost.map(|&lost| messages.saturating_sub(lost));
                        if self.controller {
                            self.manager.handle(Event::LinkTested { number, arrived }, now);
                        }
                    }
                    _ => {}
                }
            }
            let Some(received) = self.emulator.poll(self.client) else { return };
            let (port, source, bytes) = (LocalPort(0), received.slid, &received.mad.0[..]);
            let event = match received.mad.header().class().is_subnet() {
                true => Event::Mad { port, source, bytes },
                false => Event::General { port, from: at_queue_pair_1(source), bytes },
            };
            self.manager.handle(event, received.at);
        }
    }

    /// Gives the manager a request to subnet administration.
    pub(crate) fn ask(&mut self, from: Lid, mad: &Mad) {
        let (port, from, now) = (LocalPort(0), at_queue_pair_1(from), self.now());
        self.manager.handle(Event::General { port, from, bytes: &mad.0 }, now);
        self.work();
    }

    /// Tells the manager something else.
    pub(crate) fn handle(&mut self, event: Event<'_>) {
        let now = self.now();
        self.manager.handle(event, now);
        self.work();
    }

    pub(crate) fn run(&mut self, time: Time) {
        let until = self.now() + time;
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

    /// Switches' ports that are disabled, by name.
    pub(crate) fn disabled(&self) -> BTreeSet<String> {
        let fabric = self.emulator.fabric();
        let disabled =
            |&port: &PortIndex| fabric.port_info(port).physical_state == PhysicalState::Disabled;
        self.topology.ports().filter(disabled).map(|port| self.topology.port_name(port)).collect()
    }

    /// Whether every link is ACTIVE but for these switches' ports.
    #[track_caller]
    pub(crate) fn check_all_but(&self, names: &BTreeSet<String>) {
        let fabric = self.emulator.fabric();
        let topology = fabric.topology();
        for port in topology.ports() {
            let Some(peer) = topology.peer(port) else { continue };
            let (name, other) = (topology.port_name(port), topology.port_name(peer));
            if !names.contains(&name) && !names.contains(&other) {
                assert_eq!(fabric.port_state(port), PortState::Active, "{name}");
            }
        }
    }

    /// What was said of a port, in order.
    pub(crate) fn said_of(&self, at: &str) -> Vec<Action> {
        self.said.iter().filter(|report| report.at == at).map(|report| report.action).collect()
    }

    /// How a port is.
    pub(crate) fn state(&self, at: &str) -> (&'static str, String) {
        let status = self.manager.configuration().status().find(|port| port.at == at);
        status.map(|port| (port.state.name(), port.why)).unwrap()
    }
}

/// A fabric with its expected configuration enforced.
pub(crate) fn managed(recipe: &str, mode: Mode) -> Lab {
    let topology = fabric(recipe);
    let mut lab = Lab::new(topology.clone(), Limits::default());
    lab.tell(granted());
    lab.tell(expect(&planned(&topology, mode)));
    lab.start();
    lab.run(Time::secs(3));
    lab
}

/// Hosts of two leaves change places.
pub(crate) fn swap(lab: &Lab) -> Fault {
    Fault::Swap(lab.port("leaf1", 1), lab.port("leaf2", 1))
}
