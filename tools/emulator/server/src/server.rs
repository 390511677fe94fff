//! The server: what it waits for, and its turns.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use snin_daemon::clock::Clock;
use snin_daemon::control::{Control, Request};
use snin_daemon::service;
use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_emulator::messages::Messages;
use snin_emulator::{Config, Emulator, Fault, messages};
use snin_fabric::{PortIndex, Topology};
use snin_mad::PortState;
use snin_protocol::Time;
use snin_protocol::software_port::is_name;
use tracing::info;

use crate::agents::Agents;
use crate::error::ServerError;
use crate::held::held;
use crate::mads::{Attached, Mads};

/// How a fabric is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of its sockets.
    pub name: String,
    /// Where faults and figures are asked for.
    pub control: PathBuf,
    /// How the hardware behaves.
    pub hardware: Config,
    /// How messages of agents are carried.
    pub messages: messages::Config,
    /// A request of management that has no answer after this is sent again, as a kernel does, and after the fourth
    /// time given back as timed out.
    pub patience: Time,
}

/// See the crate's documentation.
pub struct Server {
    clock: Clock,
    name: String,
    emulator: Emulator,
    messages: Messages,
    mads: Mads,
    agents: Agents,
    control: Control,
    signals: Signals,
}

impl Server {
    /// Binds everything: from now on it can be attached to, and [`run`](Self::run) serves it.
    ///
    /// # Errors
    /// When the name is taken or is none, or a socket cannot be made.
    pub fn start(topology: &Topology, options: Options) -> Result<Self, ServerError> {
        let Options { name, control, hardware, messages, patience } = options;
        if !is_name(&name) {
            return Err(ServerError::Name(name));
        }
        let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
        let first = hosts.flat_map(|node| topology.cables(node)).next();
        let (first, _) = first.ok_or(ServerError::NoHost)?;
        let mads = Mads::listen(&name, first, patience)?;
        let agents = Agents::listen(&name, topology)?;
        let control = Control::listen(&control, None)?;
        let signals = Signals::new()?;
        let clock = Clock::system();
        let mut emulator = Emulator::new(topology, hardware);
        emulator.advance(clock.now());
        let messages = Messages::new(topology.port_count(), messages);
        Ok(Self { clock, name, emulator, messages, mads, agents, control, signals })
    }

    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn run(mut self) -> Result<(), ServerError> {
        service::ready("serves the fabric");
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next() {
                if signal == Signal::End {
                    service::stopping();
                    return Ok(());
                }
            }
            self.turn();
            for request in self.control.work() {
                self.answer(&request);
            }
        }
    }

    /// Lets happen what is due, takes what came, and gives what is ready.
    fn turn(&mut self) {
        let Self { clock, emulator, messages, mads, agents, .. } = self;
        let now = clock.now();
        emulator.advance(now);
        mads.take(emulator, now);
        agents.take(messages, emulator.fabric(), now);
        let now = clock.now();
        emulator.advance(now);
        messages.handle_deadline(emulator.fabric(), now);
        while let Some(passed) = messages.poll_passed() {
            emulator.carried(&passed);
        }
        while let Some((from, to)) = messages.poll_refused() {
            emulator.refuse(from, to, now);
        }
        mads.give(emulator, now);
        agents.give(messages, emulator.fabric(), now);
    }

    fn wait(&self) -> Result<(), ServerError> {
        let Self { emulator, messages, mads, agents, .. } = self;
        let deadlines = [
            emulator.next_event_time(),
            messages.next_deadline(),
            mads.next_deadline(),
            agents.next_deadline(),
        ];
        let now = self.clock.now();
        let next = deadlines.into_iter().flatten().min();
        let limit = next.map(|at| Duration::from_nanos((at - now).nanos()));
        let mut watch = Watch::new();
        self.signals.watch(&mut watch);
        self.control.watch(&mut watch);
        mads.watch(&mut watch);
        agents.watch(&mut watch);
        watch.wait(limit)?;
        Ok(())
    }

    fn answer(&mut self, request: &Request) {
        let answer = match request.command.as_str() {
            "status" => Ok(self.status()),
            "owners" => Ok(self.owners()),
            "held" => Ok(held(self.emulator.fabric())),
            "fault" => self.strike(&request.body),
            "flooded" => self.flooded(&request.body),
            other => Err(format!(
                "no command {other}: there are status, owners, held, flooded and fault"
            )),
        };
        match answer {
            Ok(value) => self.control.answer(request.client, &value),
            Err(why) => self.control.refuse(request.client, &why),
        }
    }

    fn strike(&mut self, body: &Value) -> Result<Value, String> {
        let text = body["fault"].as_str().ok_or("`fault` is a text such as `cut leaf3/20`")?;
        let fault = Fault::said(text, self.emulator.fabric().topology())?;
        self.emulator.inject(fault, self.clock.now());
        self.turn();
        info!("{text}");
        Ok(json!({ "fault": text }))
    }

    /// What the last messages would have had beside ordinary traffic.
    fn flooded(&self, body: &Value) -> Result<Value, String> {
        let share = body["share"].as_u64().filter(|&share| share <= 1_000_000);
        let share = share.ok_or("`share` is a number of millionths of the hosts")? as u32;
        let flooded = self.messages.flooded(self.emulator.fabric(), share);
        let flooded = flooded.map_err(|error| error.to_string())?;
        let beside = |it: messages::Beside| {
            json!({
                "least_goodput": it.least_goodput,
                "mean_goodput": it.mean_goodput,
                "longest_wait_ns": it.longest_wait.nanos(),
                "floods": it.floods,
            })
        };
        Ok(json!({
            "messages": flooded.messages,
            "hosts": flooded.hosts,
            "own_lane": beside(flooded.own),
            "one_lane": beside(flooded.shared),
        }))
    }

    fn status(&self) -> Value {
        let fabric = self.emulator.fabric();
        let topology = fabric.topology();
        let cables: Vec<PortIndex> = topology
            .ports()
            .filter(|&port| topology.peer(port).is_some_and(|peer| port < peer))
            .collect();
        let in_state =
            |state| cables.iter().filter(|&&port| fabric.port_state(port) == state).count();
        let clients: Vec<Value> = self
            .mads
            .clients()
            .map(|Attached { process, port, manager, sent, sets }| {
                let port = topology.port_name(port);
                json!({
                    "process": process, "port": port, "manager": manager, "sent": sent, "sets": sets,
                })
            })
            .collect();
        let (stats, mads) = (self.emulator.stats(), &self.mads.counts);
        let (messages, agents) = (self.messages.counts(), &self.agents.counts);
        let lost: Map<String, Value> =
            messages.lost.iter().map(|(loss, &n)| (loss.to_string(), n.into())).collect();
        let levels: Map<String, Value> =
            messages.levels.iter().map(|(level, &n)| (level.to_string(), n.into())).collect();
        json!({
            "name": self.name,
            "nodes": topology.node_count(),
            "switches": topology.switch_count(),
            "cables": {
                "all": cables.len(),
                "down": in_state(PortState::Down),
                "init": in_state(PortState::Initialize),
                "armed": in_state(PortState::Armed),
                "active": in_state(PortState::Active),
            },
            "clients": clients,
            "agents": self.agents.attached(),
            "mads": {
                "sent": mads.sent, "received": mads.received, "resent": mads.resent,
                "timed_out": mads.timed_out,
                "dropped": mads.dropped, "malformed": mads.malformed, "refused": mads.refused,
                "writes": stats.writes, "traps": stats.traps, "faults": stats.faults,
            },
            "messages": {
                "posted": messages.posted, "delivered": messages.delivered,
                "cancelled": messages.cancelled, "bytes": messages.bytes, "lost": lost,
                "levels": levels,
            },
            "connections": {
                "all": agents.connections, "turned_away": agents.turned_away,
                "cut_off": agents.cut_off, "refused": agents.refused,
            },
        })
    }

    /// What the watcher saw.
    fn owners(&self) -> Value {
        let owners = self.messages.owners();
        let topology = self.emulator.fabric().topology();
        let named: Vec<String> =
            owners.named().iter().map(|clash| clash.named(topology).to_string()).collect();
        json!({
            "clashes": owners.clashes(),
            "named": named,
            "spans": owners.spans(),
            "handovers": owners.handovers(),
            "closest_ns": owners.closest().map(Time::nanos),
            "unjudged": owners.unjudged(),
        })
    }
}
