//! `snin emulate`: a fabric in software to which real programs attach; `snin emulator`: what happens to it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_daemon::generations::Limit;
use snin_daemon::log;
use snin_emulator::{Config, Noise, messages};
use snin_emulator_server::{Options, Server};

use crate::failure::Failure;
use crate::output::{Output, Target};
use crate::{Verdict, cli, input, output};

/// How long the emulator may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves a fabric until a signal ends it.
pub(crate) fn run(args: &cli::Emulate) -> Result<Verdict, Failure> {
    let topology = input::named_topology(&args.topology.topology, &args.topology.names)?;
    let hardware = Config {
        seed: args.seed,
        link_latency: args.link_latency,
        agent_latency: args.agent_latency,
        noise: Noise { drop: args.drop.0, ..Noise::NONE },
        ..Config::default()
    };
    let messages = messages::Config { every_rate: args.rate, ..messages::Config::default() };
    let (name, control) = (args.socket.name.clone(), control(&args.socket));
    let patience = args.patience;
    // The log's file is stderr: nothing is to be opened anew.
    let _log = log::start(&"stderr".into(), log::level("info")?, Limit::NONE)?;
    let server = Server::start(&topology, Options { name, control, hardware, messages, patience })?;
    let switches = topology.switch_count();
    output::note(format_args!(
        "{} emulates {switches} switches and {} other nodes; IBSIM_SOCKNAME={0} ibsim-run PROGRAM runs there",
        args.socket.name,
        topology.node_count() - switches,
    ));
    server.run()?;
    Ok(Verdict::Well)
}

/// Where the emulator of this name is asked.
fn control(socket: &cli::EmulatorSocket) -> PathBuf {
    socket.control.clone().unwrap_or_else(|| {
        let folder =
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
        folder.join(format!("snin-emulator-{}.sock", socket.name))
    })
}

/// The same, or what the environment says of the fabric that it names.
fn asked(socket: &cli::EmulatorSocket) -> PathBuf {
    let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let named = socket.control.is_none() && said("IBSIM_SOCKNAME").as_ref() == Some(&socket.name);
    let path = said("SNIN_EMULATOR_SOCKET").filter(|_| named);
    path.map_or_else(|| control(socket), PathBuf::from)
}

/// Asks a running emulator.
pub(crate) fn ask<W: Write>(args: &cli::Emulator, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let (socket, request) = match args {
        cli::Emulator::Status(emulator) => (emulator, json!({ "command": "status" })),
        cli::Emulator::Owners(emulator) => (emulator, json!({ "command": "owners" })),
        cli::Emulator::Held(emulator) => (emulator, json!({ "command": "held" })),
        cli::Emulator::Fault { what, emulator } => {
            (emulator, json!({ "command": "fault", "fault": what.join(" ") }))
        }
    };
    let said = Connection::open(&asked(&socket.socket), Some(PATIENCE))?.ask(&request)?;
    out.report(Target::open(socket.format.json.as_deref())?, &said, |out| match args {
        cli::Emulator::Status(_) => describe(&said, out),
        cli::Emulator::Owners(_) => owners(&said, out),
        cli::Emulator::Held(_) => held(&said, out),
        cli::Emulator::Fault { .. } => Ok(()),
    })?;
    let clashed = said["clashes"].as_u64().is_some_and(|clashes| clashes > 0);
    Ok(if clashed { Verdict::Unwell } else { Verdict::Well })
}

fn describe<W: Write>(said: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (cables, mads, messages) = (&said["cables"], &said["mads"], &said["messages"]);
    out.line(format_args!(
        "{}: {} nodes, {} of them switches; {} of {} cables active, {} down",
        text(&said["name"]),
        said["nodes"],
        said["switches"],
        cables["active"],
        cables["all"],
        cables["down"]
    ))?;
    for client in said["clients"].as_array().into_iter().flatten() {
        let manages = if client["manager"] == true { ", manages the subnet" } else { "" };
        out.line(format_args!(
            "process {} at {}{manages}",
            client["process"],
            text(&client["port"])
        ))?;
    }
    out.line(format_args!(
        "{} MADs sent, {} came back, {} had no answer; {} writes, {} traps",
        mads["sent"], mads["received"], mads["timed_out"], mads["writes"], mads["traps"]
    ))?;
    out.line(format_args!(
        "{} agents; {} messages posted, {} delivered, {} taken back",
        said["agents"], messages["posted"], messages["delivered"], messages["cancelled"]
    ))?;
    for (loss, count) in messages["lost"].as_object().into_iter().flatten() {
        out.line(format_args!("{count} messages lost: {loss}"))?;
    }
    Ok(())
}

fn held<W: Write>(said: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for node in said["nodes"].as_array().into_iter().flatten() {
        for port in node["ports"].as_array().into_iter().flatten() {
            let at = format!("{}/{} {}", text(&node["name"]), port["num"], text(&port["state"]));
            let to = port["peer"].as_str().map(|peer| format!(" to {peer}")).unwrap_or_default();
            let end = port["lid"].is_u64().then(|| {
                let keys = port["p_keys"].as_array().into_iter().flatten();
                let keys: Vec<String> =
                    keys.map(|key| format!("{:#06x}", key.as_u64().unwrap_or(0))).collect();
                format!(", LID {} LMC {}, {}", port["lid"], port["lmc"], keys.join(" "))
            });
            out.line(format_args!("{at}{to}{}", end.unwrap_or_default()))?;
        }
    }
    Ok(())
}

fn owners<W: Write>(said: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!(
        "{} times that a directed link was somebody's, {} handovers: {} links with two owners",
        said["spans"], said["handovers"], said["clashes"]
    ))?;
    for clash in said["named"].as_array().into_iter().flatten() {
        out.line(format_args!("two owners: {}", clash.as_str().unwrap_or_default()))?;
    }
    if said["unjudged"] != 0 {
        out.line(format_args!("{} times were told of too late to be judged", said["unjudged"]))?;
    }
    Ok(())
}
