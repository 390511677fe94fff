//! `snin agent`: asks a running agent by its control socket.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::PortNum;
use snin_fabric::names::HostNames;
use snin_protocol::operator::controller::GetFabric;

use crate::Verdict;
use crate::cli::{Agent, AgentSocket, controller_socket};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks, and shows the answer.
pub(crate) fn run<W: Write>(agent: &Agent, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let (socket, request) = request(agent)?;
    let answer = Connection::open(&socket.socket, Some(PATIENCE))?.ask(&request)?;
    let json = Target::open(socket.format.json.as_deref())?;
    out.report(json, &answer, |out| show(agent, &answer, out))?;
    Ok(if answer["controller"] == "lost" { Verdict::Unwell } else { Verdict::Well })
}

fn request(agent: &Agent) -> Result<(&AgentSocket, Value), Failure> {
    Ok(match agent {
        Agent::Status(socket) => (socket, json!({ "command": "status" })),
        Agent::Flows(socket) => (socket, json!({ "command": "flows" })),
        Agent::Mesh(socket) => (socket, json!({ "command": "mesh" })),
        Agent::Histogram { flow, socket } => {
            (socket, json!({ "command": "histogram", "flow": flow }))
        }
        Agent::Events { since, socket } => (socket, json!({ "command": "events", "since": since })),
        Agent::Send { peer, count, size, rate, socket } => {
            let request = json!({
                "command": "send", "peer": port(peer)?, "count": count, "size": size, "rate": rate
            });
            (socket, request)
        }
    })
}

/// The port of a host: the agent knows ports, the controller names.
fn port(host: &str) -> Result<String, Failure> {
    if host.starts_with("0x") {
        return Ok(host.to_owned());
    }
    let node = host.split('/').next().unwrap_or(host);
    let names = Some([host, node].map(str::to_owned).into());
    let mut controller = Connection::open(&controller_socket(), Some(PATIENCE))?;
    let fabric = controller.request(&GetFabric { names })?.answer;
    let called = fabric.hosts.iter().map(|host| (host.port, PortNum(1), host.name.as_str()));
    let found = HostNames::new(called).find(host);
    let found = found.map_err(|error| Failure::Content {
        name: "--peer".to_owned(),
        what: format!(" {error}"),
    })?;
    let found = fabric.hosts.get(found.index());
    Ok(found.map_or_else(String::new, |host| host.port.to_string()))
}

fn show<W: Write>(agent: &Agent, answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let rows = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    match agent {
        Agent::Status(_) => status(answer, out),
        Agent::Flows(_) => {
            out.line("flow  peer                tree  waiting  under way  why it waits")?;
            rows.iter().try_for_each(|flow| {
                let tree = &flow["grant"]["tree"];
                let tree = if tree.is_null() { "-".to_owned() } else { tree.to_string() };
                let why = flow["wait"].as_str().unwrap_or("");
                let peer = flow["peer"].as_str().unwrap_or("");
                let number = |key: &str| flow[key].to_string();
                out.line(format!(
                    "{:<4}  {peer}  {tree:>4}  {:>7}  {:>9}  {why}",
                    number("flow"),
                    number("waiting"),
                    number("outstanding")
                ))
            })
        }
        Agent::Mesh(_) => {
            out.line("peer                tree  state       under way")?;
            rows.iter().try_for_each(|pair| {
                let text = |key: &str| pair[key].as_str().unwrap_or("").to_owned();
                let number = |key: &str| pair[key].to_string();
                out.line(format!(
                    "{}  {:>4}  {:<10}  {:>9}",
                    text("peer"),
                    number("tree"),
                    text("state"),
                    number("outstanding")
                ))
            })
        }
        Agent::Histogram { .. } => histogram(answer, out),
        Agent::Events { .. } => rows.iter().try_for_each(|event| out.line(event)),
        Agent::Send { .. } => {
            out.line(format!("flow {}: {} messages to send", answer["flow"], answer["left"]))
        }
    }
}

fn status<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let text = |key: &str| answer[key].as_str().unwrap_or("").to_owned();
    let more = answer["agents"].as_u64().unwrap_or(1).saturating_sub(1);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    out.line(format!("port {}{more}, listens at {}", text("guid"), text("listen")))?;
    out.line(format!(
        "controller {}, {} flows, {} queue pairs",
        text("controller"),
        answer["flows"],
        answer["pairs"]
    ))?;
    if let Some(certificate) = answer["certificate"]["line"].as_str() {
        out.line(certificate)?;
    }
    for came in answer["received"].as_array().into_iter().flatten() {
        let peer = came["peer"].as_str().unwrap_or("peers that were not heard for long");
        let (messages, bytes) = (&came["messages"], &came["bytes"]);
        let lost = came["lost"].as_u64().filter(|&lost| lost > 0);
        let lost = lost.map(|lost| format!(", {lost} lost")).unwrap_or_default();
        out.line(format!("from {peer}: {messages} messages, {bytes} bytes{lost}"))?;
    }
    for key in ["counters", "io_counters"] {
        for (name, count) in answer[key].as_object().into_iter().flatten() {
            if count != 0 {
                out.line(format!("{name:<20} {count}"))?;
            }
        }
    }
    Ok(())
}

fn histogram<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let micros = |key: &str| answer[key].as_f64().unwrap_or(0.0) / 1e3;
    out.line(" #messages  t_min[usec]  t_typical[usec]  99% [usec]  99.9% [usec]  99.99% [usec]  t_max[usec]")?;
    out.line(format!(
        " {:<9}  {:<11.2}  {:<15.2}  {:<10.2}  {:<12.2}  {:<13.2}  {:.2}",
        answer["messages"],
        micros("min_ns"),
        micros("median_ns"),
        micros("p99_ns"),
        micros("p999_ns"),
        micros("p9999_ns"),
        micros("max_ns")
    ))
}
