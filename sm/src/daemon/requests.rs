//! Answers to `snin sm`, `snin config`, `snin port` and to scrapers of metrics. What may be asked, and what is
//! answered: [`snin_protocol::operator::manager`].
//!
//! What is long is made by [`describer`](snin_daemon::describer), beside the loop: `dump`, `database`, `lfts`, and
//! versions of what is expected.

use std::sync::Arc;

use snin_daemon::control::Client;
use snin_daemon::http::Wanted;
use snin_fabric::{Guid, NodeIndex, dump, ibnet};
use snin_mad::SmState;
use snin_protocol::Time;
use snin_protocol::operator::manager::{
    ApplyConfiguration, Database, DisableManager, Dump, GetDatabase, GetEvents,
    HaveManagerDiscover, HealthReported, History, Manager, Managers, PhasePortOut, QuarantinePort,
    Request, StandManagerBy, Switch, SwitchTable, Tables,
};
use snin_protocol::operator::{Event as Happened, Events};

use super::answering::{Answer, Refused, made, said};
use super::configured::in_force;
use super::exported::page;
use super::failure::Failure;
use super::reading::{FileRequest, Purpose, is_trusted};
use super::run::Daemon;
use super::summary::{self, state_of};
use snin_configuration::Instruction;
use snin_mastership::control::Control;
use snin_mastership::mastership::Standing;
use snin_sm_core::Event;
use snin_sm_database::merge;
use snin_sweep::FabricView;

/// Instructions to other managers that are under way at one time.
const MOST_INSTRUCTIONS: usize = 64;
/// The highest priority of a manager.
const HIGHEST: u8 = 15;

impl Daemon {
    /// Answers what is asked at the control socket and by HTTP.
    pub(super) fn serve(&mut self) -> Result<(), Failure> {
        let control = self.outlets.control.as_mut();
        for request in control.map_or_else(Vec::new, |control| control.work()) {
            let answer = match Request::parse(&request.command, request.keys()) {
                Ok(asked) => self.answer(request.client, request.user, asked),
                Err(why) => Err(why.into()),
            };
            self.respond(request.client, answer)?;
        }
        if let Some(control) = &mut self.outlets.control {
            self.outlets.describer.work(control);
        }
        let server = self.outlets.server.as_mut();
        for asked in server.map_or_else(Vec::new, |server| server.work()) {
            let status = self.status();
            if asked.wanted == Wanted::Metrics {
                asked.metrics(page(self, &status));
            } else {
                let (works, line) = summary::health(&status);
                asked.health(works, &line);
            }
        }
        Ok(())
    }

    /// What a client, a process of `user`, is answered.
    fn answer(
        &mut self,
        client: Client,
        user: Option<u32>,
        asked: Request,
    ) -> Result<Answer, Refused> {
        let of_file = |file: String, purpose: Purpose| FileRequest { client, user, file, purpose };
        match asked {
            Request::GetStatus(asked) => said(&asked, self.status()),
            Request::Sweep(_) => self.sweep(client),
            Request::RotateKeys(_) => self.rotate_keys(client),
            Request::ReportHealth(asked) => {
                self.feed(Event::Health(asked.node))?;
                said(&asked, HealthReported { node: asked.node })
            }
            Request::GetManagers(asked) => said(&asked, self.managers()),
            Request::SetPriority(asked) if asked.value > HIGHEST => {
                Err(format!("`value`: a priority is a number from 0 to {HIGHEST}").into())
            }
            Request::SetPriority(asked) => {
                self.feed(Event::Priority(asked.value))?;
                said(&asked, self.managers())
            }
            Request::DisableManager(DisableManager { to }) => {
                self.instruct_manager(client, Control::Disable, to)
            }
            Request::StandManagerBy(StandManagerBy { to }) => {
                self.instruct_manager(client, Control::Standby, to)
            }
            Request::HaveManagerDiscover(HaveManagerDiscover { to }) => {
                self.instruct_manager(client, Control::Discover, to)
            }
            Request::GetCluster(asked) => said(&asked, self.cluster()?),
            Request::GetDump(asked) => {
                let view = self.view()?;
                Ok(made(asked, move |_| Ok(dumped(&view))))
            }
            Request::GetTables(asked) => {
                let view = self.view()?;
                Ok(made(asked, move |asked| tables(&view, asked.switch)))
            }
            Request::GetDatabase(asked) => self.database(user, asked),
            Request::GetEvents(GetEvents { since, follow: true }) => Ok(Answer::Follow(since)),
            Request::GetEvents(asked) => {
                let events = self.outlets.journal.since(asked.since).map(Happened::from).collect();
                said(&asked, Events { events })
            }
            Request::LearnConfiguration(asked) => self.learn(asked),
            Request::ShowConfiguration(asked) => self.show_version(client, asked),
            Request::CompareConfiguration(mut asked) => match asked.file.take() {
                Some(file) => self.read_file(of_file(file, Purpose::Compare)),
                None => said(&asked, self.differences(&*in_force(self.core.manager())?)),
            },
            Request::CheckConfiguration(asked) => {
                self.read_file(of_file(asked.file, Purpose::Check))
            }
            Request::ApplyConfiguration(ApplyConfiguration { file, force, by }) => {
                self.read_file(of_file(file, Purpose::Apply { by, forced: force }))
            }
            Request::GetHistory(asked) => {
                let versions = self.versions.book.history().iter().map(Into::into).collect();
                said(&asked, History { versions })
            }
            Request::GetPorts(asked) => said(&asked, self.ports(asked.all)),
            Request::TestPort(asked) => {
                said(&asked, self.instruct_ports(&asked.port, Instruction::Test)?)
            }
            Request::ReleasePort(asked) => {
                said(&asked, self.instruct_ports(&asked.port, Instruction::Release)?)
            }
            Request::QuarantinePort(asked) => {
                let QuarantinePort { port, why } = &asked;
                let told = |place| Instruction::Quarantine(place, why.clone());
                said(&asked, self.instruct_ports(port, told)?)
            }
            Request::PhasePortOut(asked) => {
                let PhasePortOut { port, why } = &asked;
                let told = |place| Instruction::PhaseOut(place, why.clone());
                said(&asked, self.instruct_ports(port, told)?)
            }
            Request::PhasePortIn(asked) => {
                said(&asked, self.instruct_ports(&asked.port, Instruction::PhaseIn)?)
            }
        }
    }

    /// The client hears when all is as it should be.
    fn sweep(&mut self, client: Client) -> Result<Answer, Refused> {
        self.writes()?;
        self.waiting.push(client);
        self.look_again()?;
        let partitions = self.told.partitions_refused.iter();
        let partitions = partitions.map(|why| format!("partitions are as they were before: {why}"));
        let policy = self.told.qos_policy_refused.iter();
        let policy = policy.map(|why| format!("the QoS policy is as it was before: {why}"));
        let refused: Vec<String> = partitions.chain(policy).collect();
        if refused.is_empty() {
            return Ok(Answer::Later);
        }
        // The sweep runs; who asked for it learns what it was not done for.
        self.waiting.retain(|waits| *waits != client);
        Err(refused.join("; ").into())
    }

    /// The client hears when every port has its new key.
    fn rotate_keys(&mut self, client: Client) -> Result<Answer, Refused> {
        self.writes()?;
        if !self.core.manager().generates_keys() {
            return Err("M_Keys are not generated: m_key_policy is given".into());
        }
        self.waiting.push(client);
        self.feed(Event::RotateKeys)?;
        Ok(Answer::Later)
    }

    /// Whether this manager writes to the subnet; else why it does not.
    fn writes(&self) -> Result<(), String> {
        let state = self.core.manager().state();
        if !matches!(state, SmState::Master | SmState::Discovering) {
            let state = state_of(state).map_or("unknown", |state| state.name());
            return Err(format!("this subnet manager is {state}: {}", self.core.manager().why()));
        }
        match self.core.manager().noticed().1.first() {
            Some(rival) => Err(format!(
                "{rival}, with another sm_key: nothing is written until one of the two ends"
            )),
            None => Ok(()),
        }
    }

    fn database(&self, user: Option<u32>, asked: GetDatabase) -> Result<Answer, Refused> {
        if asked.secrets && !is_trusted(user) {
            let why =
                "M_Keys are shown to root and the manager's own user only: ask without --secrets";
            return Err(why.into());
        }
        let name = asked.name.as_deref().unwrap_or_default();
        let snapshot = self.core.manager().snapshot(name, self.clock.now());
        let snapshot = snapshot.ok_or("the manager does not know yet at which port it is")?;
        Ok(made(asked, move |asked| {
            Ok(Database { database: merge::write(&snapshot, asked.secrets) })
        }))
    }

    fn managers(&self) -> Managers {
        let seconds = |time: Time| time.nanos() as f64 / 1e9;
        let described = |manager: &Standing| Manager {
            guid: manager.guid,
            at: manager.at.clone(),
            own: manager.own,
            state: manager.state.and_then(state_of),
            priority: manager.priority,
            heard_seconds_ago: manager.heard.map(seconds),
            why: manager.why.clone(),
            mirror: self.mirror_of(manager.guid),
        };
        let all = self.core.manager().managers(self.clock.now());
        Managers { managers: all.iter().map(described).collect() }
    }

    /// Has another manager told something; the client hears when it has answered.
    fn instruct_manager(
        &mut self,
        client: Client,
        control: Control,
        to: Guid,
    ) -> Result<Answer, Refused> {
        if self.instructions.len() >= MOST_INSTRUCTIONS {
            return Err(format!("{MOST_INSTRUCTIONS} instructions are under way: ask again").into());
        }
        self.instructions.push((to, control, client));
        self.feed(Event::Instruct { to, control })?;
        Ok(Answer::Later)
    }

    fn view(&self) -> Result<Arc<FabricView>, String> {
        let view = self.core.view().filter(|_| self.told.up);
        view.cloned().ok_or_else(|| "the subnet is not up".to_owned())
    }
}

fn dumped(view: &FabricView) -> Dump {
    Dump {
        version: view.version(),
        topology: ibnet::write(&view.topology().with_addresses(view.addresses())),
        guid2lid: dump::guid2lid::write(view.topology(), view.addresses()),
    }
}

/// The table of one switch, or which switches there are.
fn tables(view: &FabricView, wanted: Option<Guid>) -> Result<Tables, String> {
    let (topology, addresses) = (view.topology(), view.addresses());
    let described = |switch: NodeIndex| {
        let node = topology.node(switch);
        let lid = addresses.base(topology.port0(switch)).unwrap_or_default();
        Switch { guid: node.guid, name: node.name.to_string(), lid: lid.0 }
    };
    let Some(guid) = wanted else {
        return Ok(Tables::All { switches: topology.switches().map(described).collect() });
    };
    let mut switches = topology.switches().enumerate();
    let found = switches.find(|&(_, switch)| topology.node(switch).guid == guid);
    let (place, switch) = found.ok_or_else(|| format!("no switch has GUID {guid}"))?;
    let tables = &view.routing().tables;
    let table = tables.get(place).ok_or("it has no table")?;
    Ok(Tables::One(SwitchTable {
        switch: described(switch),
        ports: table.iter().map(|(lid, port)| (lid.0.to_string(), port.0)).collect(),
        text: dump::lfts::opensm(topology, addresses, tables).nth(place),
    }))
}
