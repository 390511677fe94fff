//! `snin up`: a whole fabric as processes on one machine - emulator, subnet manager, controller, agents - and,
//! with a script, permutations of traffic while things happen to it.

mod children;
mod collective;
mod controllers;
mod drive;
mod environment;
mod folder;
mod members;
mod opensm;
mod script;
mod sessions;

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_fabric::{Guid, PortNum, Topology};
use snin_protocol::operator::agent::Software;
use snin_protocol::operator::{agent, manager};

use crate::command::jobs::quoted;
use crate::document::SCHEMA_VERSION;
use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input, output};
use children::Children;
use controllers::Controllers;
use drive::{Driven, Run};
use folder::Folder;
use script::Script;

/// How often children are looked after.
const LOOK: Duration = Duration::from_millis(20);
/// The most that a connection carries in a window.
const MOST_BYTES: u64 = 1 << 20;
/// Ordinary traffic has its share in whole packets: so much more it may be.
const ROUNDED: f64 = 0.005;
/// How long a daemon may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why there is no fabric, or none any more, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpError {
    /// A program that is not there.
    #[error(
        "{0} is neither beside snin nor on the search path: build it with `cargo build --release --bins`"
    )]
    Missing(&'static str),
    /// Several controllers without a store that they share.
    #[error("--controllers {0} share their state: add --etcd 3")]
    NoStore(u8),
    /// What another manager than ours does not do.
    #[error("{0}: only snin-sm does that, and here opensm is the manager")]
    NotKept(&'static str),
    /// The manager that stays.
    #[error("{0} is not on the search path: it is in Debian's package {1}")]
    NoKeeper(&'static str, &'static str),
    /// The store of several controllers.
    #[error("etcd is not on the search path: it is in Debian's package etcd-server")]
    NoEtcd,
    /// A process that cannot be started.
    #[error("{program}: {error}")]
    Start {
        /// Which.
        program: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
    /// One has ended.
    #[error("{name} has ended ({status}): {last}; its log is {log}")]
    Ended {
        /// Which.
        name: String,
        /// How.
        status: String,
        /// The last that it said.
        last: String,
        /// Where the rest is.
        log: String,
    },
    /// One does not get ready.
    #[error("{name} is not ready after {} s: {why}; its log is {log}", PATIENCE.as_secs())]
    Late {
        /// Which.
        name: String,
        /// What it says.
        why: String,
        /// Where the rest is.
        log: String,
    },
    /// A script that cannot be followed.
    #[error("{0}")]
    Script(String),
    /// The user does not want it any more.
    #[error("ended by a signal")]
    Signal,
}

/// What `snin up --script --json` prints.
#[derive(Serialize)]
struct Document {
    schema_version: u32,
    healthy: bool,
    hosts: usize,
    switches: usize,
    processes: usize,
    agent_processes: usize,
    controllers: usize,
    etcd_members: usize,
    window_ms: f64,
    /// From the start until all was up.
    up_ms: f64,
    #[serde(flatten)]
    driven: Driven,
    owners: Value,
    messages: Value,
    controller: Value,
    /// With `--ordinary`: what the last messages would have had beside floods of base addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    ordinary: Option<Value>,
    /// Who keeps the subnet.
    manager: &'static str,
    /// What each client of the fabric sent, and how much of it wrote.
    clients: Value,
}

/// Starts everything, follows the script or waits for a signal, and ends everything.
pub(crate) fn run<W: Write>(args: &cli::Up, out: &mut Output<W>) -> Result<Verdict, Failure> {
    if let Some(folder) = &args.env {
        return environment::print(folder, out);
    }
    if args.controllers > 1 && args.etcd == 0 {
        return Err(UpError::NoStore(args.controllers).into());
    }
    let name = args.topology.as_deref().unwrap_or_default();
    let topology = input::named_topology(name, &args.names)?;
    let json = Target::open(args.format.json.as_deref())?;
    let text = args.script.as_deref().map(|path| {
        let read = std::fs::read_to_string(path).map_err(Failure::file(path));
        Ok::<_, Failure>((path.display().to_string(), read?))
    });
    let script = match text.transpose()? {
        Some((name, text)) => {
            let script = Script::parse(&name, &text, &topology, args.controllers);
            Some(script.map_err(UpError::Script)?)
        }
        None => None,
    };
    if args.manager == cli::Keeper::OpenSm && script.as_ref().is_some_and(Script::has_phases) {
        return Err(UpError::NotKept("phase-out and phase-in").into());
    }
    if args.manager == cli::Keeper::Snin && script.as_ref().is_some_and(Script::restarts_opensm) {
        let what = "restart opensm takes --manager opensm: here snin-sm keeps the subnet";
        return Err(UpError::Script(what.to_owned()).into());
    }
    let ports: Vec<Guid> = topology
        .nodes()
        .filter(|&node| !topology.is_switch(node))
        .flat_map(|node| topology.cables(node))
        .filter(|&(port, _)| topology.num(port) != PortNum(0))
        .map(|(port, _)| snin_emulator::place::guid_of(&topology, port))
        .collect();
    let signals = Signals::new().map_err(Failure::file(std::path::Path::new("signals")))?;
    let mut folder = Folder::new(args, &ports)?;
    folder.write(&topology)?;
    let mut children = Children::new(signals, folder.path().to_owned());
    let begin = Instant::now();
    let mut controllers = Controllers::new(args.controllers.into());
    let up = bring_up(args, (&folder, &topology), &mut children, &controllers, ports.len());
    let ended = up.and_then(|()| {
        let up = begin.elapsed();
        if let Some(script) = &script {
            let window = Duration::from_nanos(args.window.nanos());
            // A quarter of what a port sends in a window.
            let quarter = args.rate / 8 * args.window.nanos() / 1_000_000_000 / 4;
            let bytes = quarter.min(MOST_BYTES);
            let run = Run {
                folder: &folder,
                ports: &ports,
                window,
                bytes: bytes.max(64),
                rate: args.rate,
            };
            let driven = drive::run(script, &run, &mut children, &mut controllers)?;
            return Ok(Some((up, driven)));
        }
        output::note(format_args!(
            "{} hosts up after {:.1} s; everything is in {}; Ctrl-C ends it\n  in another shell: \
             eval \"$(snin up --env {2})\" and then, for example: snin path {} {}",
            ports.len(),
            up.as_secs_f64(),
            quoted(&folder.path().display().to_string()),
            quoted(&host_name(&topology, ports.first())),
            quoted(&host_name(&topology, ports.last()))
        ));
        children.wait_for_signal()?;
        Ok(None)
    });
    // The counts are asked for while the daemons still run to answer.
    let ask = |socket: &str, command: &str| -> Value {
        let open = Connection::open(&folder.path().join(socket), Some(Duration::from_secs(10)));
        let said = open.and_then(|mut connection| connection.ask(&json!({ "command": command })));
        said.unwrap_or_else(|error| json!({ "error": error.to_string() }))
    };
    let owners = ask("emulator.sock", "owners");
    let status = ask("emulator.sock", "status");
    let ordinary = args.ordinary.map(|share| {
        let request = json!({ "command": "flooded", "share": share.0 });
        let said = children.ask("emulator.sock", &request);
        said.unwrap_or_else(|error| json!({ "error": error.to_string() }))
    });
    let controller = ask(&controllers.socket(&mut children), "status");
    let processes = children.len();
    children.end();
    let outcome = match ended {
        Err(UpError::Signal) | Ok(None) => {
            folder.leave(true);
            return Ok(Verdict::Well);
        }
        Err(error) => {
            folder.leave(false);
            return Err(error.into());
        }
        Ok(Some(outcome)) => outcome,
    };
    let (up, driven) = outcome;
    let clashes = owners["clashes"].as_u64();
    // A kept manager rewrites tables while agents send. Links with two owners meanwhile are counted apart.
    let meanwhile: u64 = driven.changes.iter().map(|change| change.clashes).sum();
    let healthy = clashes == Some(meanwhile) && owners["unjudged"] == 0 && driven.is_complete();
    let share = f64::from(args.unmanaged_share) / 100.0;
    let healthy = healthy && ordinary.as_ref().is_none_or(|said| is_protected(said, share));
    folder.leave(healthy);
    let document = Document {
        schema_version: SCHEMA_VERSION,
        healthy,
        hosts: ports.len(),
        switches: topology.switch_count(),
        processes,
        agent_processes: folder.agents(),
        controllers: args.controllers.into(),
        etcd_members: args.etcd.into(),
        window_ms: args.window.as_secs() * 1e3,
        up_ms: up.as_secs_f64() * 1e3,
        driven,
        owners,
        messages: status["messages"].clone(),
        controller,
        ordinary,
        manager: opensm::name(args.manager),
        clients: status["clients"].clone(),
    };
    out.report(json, &document, |out| describe(&document, out))?;
    Ok(if healthy { Verdict::Well } else { Verdict::Unwell })
}

/// What a port's host is called.
fn host_name(topology: &Topology, port: Option<&Guid>) -> String {
    let place = port.and_then(|&port| snin_emulator::place::port_of(topology, port));
    place
        .map_or_else(String::new, |place| topology.node(topology.port(place).node).name.to_string())
}

/// One after the other, each when the one before is ready.
fn bring_up(
    args: &cli::Up,
    (folder, topology): (&Folder, &Topology),
    children: &mut Children,
    controllers: &Controllers,
    hosts: usize,
) -> Result<(), UpError> {
    let progress = Progress::new();
    let path = |name: &str| folder.path().join(name);
    progress.step("starting the emulated fabric");
    let mut emulator = children.command("snin")?;
    emulator.arg("emulate").arg(path("fabric.ibnetdiscover"));
    emulator.args(["--socket", folder.fabric()]).arg("--control").arg(path("emulator.sock"));
    emulator.args(["--rate", &args.rate.to_string()]);
    children.start("emulator", "snin", emulator)?;
    let status = json!({ "command": "status" });
    children.wait("emulator", |children| children.ask("emulator.sock", &status).map(drop))?;
    if args.manager == cli::Keeper::OpenSm {
        progress.step("starting OpenSM");
        opensm::start(args, folder, topology, children)?;
    }
    progress.step("starting the subnet manager");
    let mut manager = children.command("snin-sm")?;
    manager.arg("--config").arg(path("sm.toml")).args(["--ibsim", folder.fabric()]);
    children.start("snin-sm", "snin-sm", manager)?;
    children.wait("snin-sm", |children| {
        let status = children.request("sm.sock", &manager::GetStatus {})?;
        match status.healthy {
            true => Ok(()),
            false => Err(format!("missing: {}", status.missing.join("; "))),
        }
    })?;
    progress.step("starting controllers");
    folder.members().start(children)?;
    controllers.start(children)?;
    for number in 0..folder.agents() {
        progress.step(format!("starting agents, process {number}"));
        let mut agents = children.command("snin-software-agents")?;
        agents.arg("--config").arg(path(&format!("agents-{number}.toml")));
        children.start(&format!("agents-{number}"), "snin-software-agents", agents)?;
    }
    let mut heard = 0;
    for number in 0..folder.agents() {
        progress.step(format!("waiting for agents, process {number}"));
        let name = format!("agents-{number}");
        children.wait(&name, |children| {
            let status = children.request(&format!("{name}.sock"), &agent::GetStatus {})?;
            let Some(Software { agents, controller_heard, .. }) = status.software else {
                return Err("it stands for no hosts of a software fabric".to_owned());
            };
            if agents == controller_heard {
                heard += agents;
                return Ok(());
            }
            Err(format!("{controller_heard} of {agents} agents hear the controller"))
        })?;
    }
    if heard == hosts {
        return Ok(());
    }
    let why = format!("{heard} of {hosts} hosts have an agent");
    Err(UpError::Late {
        name: "the agents".to_owned(),
        why,
        log: folder.path().display().to_string(),
    })
}

fn describe<W: Write>(said: &Document, out: &mut Output<W>) -> Result<(), Failure> {
    let Document { driven, owners, messages, .. } = said;
    out.line(format_args!(
        "{} hosts, {} switches, {} processes ({} of agents); up after {:.1} s",
        said.hosts,
        said.switches,
        said.processes,
        said.agent_processes,
        said.up_ms / 1e3
    ))?;
    driven.describe(said.window_ms, out)?;
    out.line(format_args!(
        "{} messages delivered of {} posted; {} times that a directed link was somebody's, {} handovers",
        messages["delivered"], messages["posted"], owners["spans"], owners["handovers"]
    ))?;
    if said.manager == opensm::OPENSM {
        let clients = said.clients.as_array().into_iter().flatten();
        for client in clients.filter(|client| client["manager"] == false) {
            out.line(format_args!(
                "snin-sm sent {} MADs, of which {} wrote; OpenSM keeps the subnet",
                client["sent"], client["sets"]
            ))?;
        }
    }
    if let Some(ordinary) = &said.ordinary {
        describe_ordinary(ordinary, out)?;
    }
    out.line(format_args!("{} directed links with two owners", owners["clashes"]))?;
    let meanwhile: u64 = driven.changes.iter().map(|change| change.clashes).sum();
    if meanwhile > 0 {
        out.line(format_args!("{meanwhile} of those while OpenSM changed tables"))?;
    }
    for clash in owners["named"].as_array().into_iter().flatten() {
        out.line(format_args!("two owners: {}", clash.as_str().unwrap_or_default()))?;
    }
    out.line(if said.healthy { "healthy" } else { "NOT healthy" })
}

/// Whether ordinary traffic left granted messages what it has to: all but its own share.
fn is_protected(ordinary: &Value, share: f64) -> bool {
    let least = ordinary["own_lane"]["least_goodput"].as_f64();
    least.is_some_and(|least| least >= 1.0 - share - ROUNDED)
}

fn describe_ordinary<W: Write>(ordinary: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    if let Some(error) = ordinary["error"].as_str() {
        return out.line(format_args!("beside ordinary traffic: {error}"));
    }
    out.line(format_args!(
        "{} hosts flooding base addresses beside the last {} messages of the others, packet by packet:",
        ordinary["hosts"], ordinary["messages"]
    ))?;
    for (lane, what) in [("own_lane", "on snin-sm's lanes"), ("one_lane", "on one lane")] {
        let it = &ordinary[lane];
        let number = |key: &str| it[key].as_f64().unwrap_or_default();
        out.line(format_args!(
            "  {what}: goodput {:.3} (least {:.3}) of what it is alone, but for a packet a hop; a packet waited \
             {:.1} us at a switch at most; floods {:.3}",
            number("mean_goodput"),
            number("least_goodput"),
            number("longest_wait_ns") / 1e3,
            number("floods")
        ))?;
    }
    Ok(())
}

/// Waits a moment; whether a signal says to end.
fn pause(signals: &mut Signals, moment: Duration) -> bool {
    let mut watch = Watch::new();
    signals.watch(&mut watch);
    // An error is a short wait.
    let _ = watch.wait(Some(moment));
    drop(watch);
    while let Some(signal) = signals.next() {
        if signal == Signal::End {
            return true;
        }
    }
    false
}
