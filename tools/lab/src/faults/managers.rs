//! Subnet managers as processes: a core, a port, a disk, sessions with others and with controllers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::RngExt as _;
use snin_emulator::{ClientId, Write};
use snin_mad::{PERMISSIVE, SmState};
use snin_mastership::Report as MastershipReport;
use snin_mastership::mirror::{Link, MirrorEvent, MirrorOutput};
use snin_protocol::Time;
use snin_protocol::view::{FromManager, Policy, ToManager, VIEW_LEASE, ViewError};
use snin_sm_core::controllers::Controllers;
use snin_sm_core::{Event, Manager, Output, Report};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::records::KeptRecord;
use snin_sm_database::saved::Saved;
use snin_sweep::Computed;

use super::net::{Heard, Process, Said, Service};
use super::site::{Happening, Site};
use super::{Planted, SetupError};

/// A manager has but one port.
const PORT: LocalPort = LocalPort(0);
/// A controller notices that its manager is silent, and grants on for [`VIEW_LEASE`].
const GRANTS_ON: Time = Time(Time::secs(4).0 + VIEW_LEASE.0);

/// A manager, and what is there of it while it does not run.
pub(super) struct ManagerProcess {
    pub(super) manager: Manager,
    pub(super) client: ClientId,
    host: usize,
    config: Config,
    saved: Saved,
    kept: Vec<KeptRecord>,
    pub(super) controllers: Controllers<usize>,
    /// Sessions with controllers, by controller.
    views: BTreeMap<usize, u64>,
    /// Whether controllers may call.
    listens: bool,
    pub(super) is_master: bool,
}

impl Site {
    /// Writes that ports and switches take are judged as soon as they are made.
    pub(super) fn watch_writes(&mut self) {
        let written: Rc<RefCell<Vec<Write>>> = Rc::default();
        let notes = written.clone();
        self.emulator.watch(move |_, write| notes.borrow_mut().push(*write));
        self.judges.written = written;
    }

    /// Its disk is empty, and it does not run yet.
    pub(super) fn add_manager(&mut self, n: usize) -> Result<(), SetupError> {
        let count = self.setup.managers;
        let host = n * (self.hosts.len() - 1) / (count - 1).max(1);
        let port = self.hosts[host].1;
        let client =
            self.emulator.attach(port).map_err(|error| SetupError::Config(error.to_string()))?;
        let waits = self.setup.planted != Some(Planted::ClearAtOnce);
        let config = Config {
            priority: (count - n) as u8,
            // What does not ask has a tree of its own: the policy is strict.
            unmanaged_trees: 1,
            mirrored: count > 1,
            clear_wait_ms: if waits { (GRANTS_ON.nanos() / 1_000_000) as u32 } else { 0 },
            seed: (n as u64 + 1) << 20,
            ..Config::default()
        };
        let manager = Manager::new(config.clone(), Saved::default(), []);
        let manager = manager.map_err(|error| SetupError::Config(error.to_string()))?;
        self.managers.push(ManagerProcess {
            manager,
            client,
            host,
            config,
            saved: Saved::default(),
            kept: Vec::new(),
            controllers: Controllers::new(GRANTS_ON, Time::ZERO),
            views: BTreeMap::new(),
            listens: true,
            is_master: false,
        });
        for other in (0..count).filter(|&other| other != n) {
            let process = Process::Manager(n);
            self.net.add_caller(process, Service::Mirror, other, vec![Process::Manager(other)]);
        }
        Ok(())
    }

    pub(super) fn start_manager(&mut self, n: usize) {
        let (now, life) = (self.now(), self.life(Process::Manager(n)));
        self.emulator.detach(self.managers[n].client);
        let process = &mut self.managers[n];
        if let Ok(client) = self.emulator.attach(self.hosts[process.host].1) {
            process.client = client;
        }
        // Late answers to an earlier life are not taken for answers to this one.
        let seed = process.config.seed + (u64::from(life) << 32);
        let config = Config { seed, ..process.config.clone() };
        // The configuration was taken once.
        if let Ok(manager) = Manager::new(config, process.saved.clone(), process.kept.clone()) {
            process.manager = manager;
        }
        process.controllers = Controllers::new(GRANTS_ON, now);
        (process.views, process.listens, process.is_master) = (BTreeMap::new(), true, false);
        self.emulator.set_manager(process.client, true);
        process.manager.handle(Event::Start, now);
    }

    /// Whether sessions are opened to it.
    pub(super) fn listens(&self, process: Process, service: Service) -> bool {
        if !self.runs(process) {
            return false;
        }
        match (process, service) {
            (Process::Manager(n), Service::Views) => self.managers[n].listens,
            (Process::Manager(_), _) => true,
            (Process::Controller(n), _) => self.controllers[n].leads(),
            (Process::Agent(_), _) => false,
        }
    }

    pub(super) fn computed(&mut self, n: usize, computed: Box<Computed>) {
        let now = self.now();
        self.managers[n].manager.handle(Event::Computed(computed), now);
        self.work();
    }

    pub(super) fn manager_hears(&mut self, n: usize, heard: Heard) {
        let now = self.now();
        let process = &mut self.managers[n];
        let mirrored = match heard {
            Heard::Opened { session, service: Service::Mirror, calls, .. } => match calls {
                true => MirrorEvent::Answered(Link(session)),
                false => MirrorEvent::Called(Link(session)),
            },
            Heard::Closed { session, service: Service::Mirror, .. } => {
                self.caller_closed(Process::Manager(n), session);
                MirrorEvent::Closed(Link(session))
            }
            Heard::Said { session, said: Said::FromStandby(said), .. } => {
                MirrorEvent::Asked(Link(session), said)
            }
            Heard::Said { session, said: Said::FromMaster(said), .. } => {
                MirrorEvent::Heard(Link(session), said)
            }
            Heard::Opened { session, peer: Process::Controller(c), .. } => {
                process.views.insert(c, session);
                let told = process.controllers.opened(c);
                self.tell_controller(n, c, FromManager::Policy(Policy::Strict));
                return self.tell_controllers(n, told, Some(c));
            }
            Heard::Closed { session, peer: Process::Controller(c), .. } => {
                // A later session may have begun.
                if process.views.get(&c) == Some(&session) {
                    process.views.remove(&c);
                    process.controllers.closed(&c, now);
                }
                return;
            }
            Heard::Said { session, peer: Process::Controller(c), said: Said::ToManager(said) }
                if process.views.get(&c) == Some(&session) =>
            {
                return self.controller_says(n, c, &said);
            }
            _ => return,
        };
        self.managers[n].manager.handle(Event::Mirror(Box::new(mirrored)), now);
        self.work();
    }

    fn controller_says(&mut self, n: usize, c: usize, said: &ToManager) {
        let controllers = &mut self.managers[n].controllers;
        match said {
            ToManager::Clear(clear) => controllers.cleared(clear.version),
            ToManager::Computed(computed) if controllers.are_same(computed) == Some(false) => {
                let what = format!("controller{c} of manager{n}'s view {}", computed.version);
                self.violated("computes other tables", what);
            }
            _ => {}
        }
        self.work();
    }

    fn tell_controller(&mut self, n: usize, to: usize, said: FromManager) {
        if let Some(&session) = self.managers[n].views.get(&to) {
            self.say(session, Process::Manager(n), Said::FromManager(said));
        }
    }

    fn tell_controllers(
        &mut self,
        n: usize,
        told: Result<Vec<FromManager>, ViewError>,
        only: Option<usize>,
    ) {
        let to: Vec<usize> = match only {
            Some(one) => vec![one],
            None => self.managers[n].controllers.here().to_vec(),
        };
        match told {
            Err(error) => self.violated("a view cannot be told", error),
            Ok(frames) => to.iter().for_each(|&to| {
                frames.iter().for_each(|frame| self.tell_controller(n, to, frame.clone()));
            }),
        }
    }

    /// Gives a manager its turn; whether it did anything.
    pub(super) fn work_manager(&mut self, n: usize) -> bool {
        let mut some = false;
        while self.runs(Process::Manager(n)) {
            let now = self.now();
            let process = &mut self.managers[n];
            if let Some(version) = process.controllers.next_clear() {
                process.manager.handle(Event::Clear { version }, now);
            } else if let Some(output) = process.manager.poll_output() {
                self.perform(n, output);
            } else if let Some(received) = self.emulator.poll(process.client) {
                let event =
                    Event::Mad { port: PORT, source: received.slid, bytes: &received.mad.0 };
                process.manager.handle(event, now);
            } else {
                break;
            }
            some = true;
        }
        some
    }

    fn perform(&mut self, n: usize, output: Output) {
        let now = self.now();
        let process = &mut self.managers[n];
        match output {
            Output::Send { to, mad, .. } => {
                let to = match to {
                    Destination::Directed => PERMISSIVE,
                    Destination::Lid(lid) => lid,
                };
                let header = mad.header();
                if !header.method().is_response() {
                    let kind = (header.method(), header.attribute());
                    self.judges.sends(n, kind, now);
                }
                self.emulator.send(process.client, &mad, to, now);
            }
            Output::Compute(job) => {
                let computed = Box::new(job.run());
                let (manager, life) = (n, self.life(Process::Manager(n)));
                let after = Time(self.rng.random_range(100_000..10_000_000));
                self.plan(after, Happening::Computed { manager, life, computed });
            }
            Output::Save(saved) => process.saved = (*saved).clone(),
            Output::Keep(kept) => process.kept.extend(kept),
            Output::View(view) if view.is_alone() => self.tell_nobody(n),
            Output::View(view) => {
                if !std::mem::replace(&mut process.listens, true) {
                    process.controllers.take_over(now);
                }
                let told = process.controllers.publish(&view, now);
                self.fold(&view.version().to_le_bytes());
                self.tell_controllers(n, told, None);
            }
            Output::Mirror(MirrorOutput::ToMaster(Link(session), said)) => {
                self.say(session, Process::Manager(n), Said::FromStandby(said));
            }
            Output::Mirror(MirrorOutput::ToStandby(Link(session), said)) => {
                self.say(session, Process::Manager(n), Said::FromMaster(said));
            }
            Output::Report(Report::Mastership(MastershipReport::State(state))) => {
                self.manager_is(n, state);
            }
            Output::TestLink { number, .. } => {
                process.manager.handle(Event::LinkTested { number, arrived: None }, now);
            }
            Output::Answer { .. }
            | Output::Sit(_)
            | Output::Served(_)
            | Output::Cluster(_)
            | Output::Report(_) => {}
        }
    }

    fn manager_is(&mut self, n: usize, state: SmState) {
        let why = self.managers[n].manager.why().to_owned();
        self.tell(format_args!("manager{n} is {state:?}: {why}"));
        let now = self.now();
        let process = &mut self.managers[n];
        process.is_master = state == SmState::Master;
        match state {
            SmState::Master => {
                if !std::mem::replace(&mut process.listens, true) {
                    process.controllers.take_over(now);
                }
                self.summary.masters += 1;
            }
            SmState::Discovering => {}
            _ => self.tell_nobody(n),
        }
    }

    fn tell_nobody(&mut self, n: usize) {
        self.managers[n].controllers.stand_by();
        self.managers[n].listens = false;
        self.managers[n].views.clear();
        self.close_all(Process::Manager(n), Some(Service::Views));
    }
}
