//! `snin agent`: asks a running agent by its control socket.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use snin_daemon::control::Connection;
use snin_fabric::names::HostNames;
use snin_fabric::{Guid, PortNum};
use snin_protocol::operator::agent::{
    Flow, Flows, GetEvents, GetFlows, GetHistogram, GetMesh, GetStatus, Histogram, Mesh, QueuePair,
    Received, Send, Started, Status,
};
use snin_protocol::operator::controller::GetFabric;
use snin_protocol::operator::{Document, Event, Events, Operation};

use super::asking::{Daemon, show};
use crate::Verdict;
use crate::cli::{Agent, AgentSocket, Format, controller_socket};
use crate::failure::Failure;
use crate::output::Output;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Daemon for AgentSocket {
    fn ask<O: Operation>(&self, operation: &O) -> Result<Document<O::Answer>, Failure> {
        Ok(Connection::open(&self.socket, Some(PATIENCE))?.request(operation)?)
    }

    fn format(&self) -> &Format {
        &self.format
    }
}

/// Asks, and shows the answer.
pub(crate) fn run<W: Write>(agent: &Agent, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match agent {
        Agent::Status(socket) => {
            let status = show(socket, &GetStatus {}, out, status)?;
            return Ok(if status.controller == "lost" { Verdict::Unwell } else { Verdict::Well });
        }
        Agent::Flows(socket) => {
            show(socket, &GetFlows {}, out, flows)?;
        }
        Agent::Mesh(socket) => {
            show(socket, &GetMesh {}, out, mesh)?;
        }
        Agent::Histogram { flow, socket } => {
            show(socket, &GetHistogram { flow: *flow }, out, histogram)?;
        }
        Agent::Events { since, socket } => {
            let print = |answer: &Events, out: &mut Output<W>| {
                let mut events = answer.events.iter();
                events.try_for_each(|Event(keys)| out.line(Value::Object(keys.clone())))
            };
            show(socket, &GetEvents { since: *since }, out, print)?;
        }
        Agent::Send { peer, count, size, rate, socket } => {
            let (peer, count, size, rate) = (port(peer)?, *count, *size, *rate);
            let asked = Send { from: None, peer, count, size, rate, windows: None };
            let print = |answer: &Started, out: &mut Output<W>| {
                out.line(format!("flow {}: {} messages to send", answer.flow, answer.left))
            };
            show(socket, &asked, out, print)?;
        }
    }
    Ok(Verdict::Well)
}

/// The port of a host: the agent knows ports, the controller names.
fn port(host: &str) -> Result<Guid, Failure> {
    let wrong =
        |error: String| Failure::Content { name: "--peer".to_owned(), what: format!(" {error}") };
    if host.starts_with("0x") {
        return host.parse::<Guid>().map_err(|error| wrong(error.to_string()));
    }
    let node = host.split('/').next().unwrap_or(host);
    let names = Some([host, node].map(str::to_owned).into());
    let mut controller = Connection::open(&controller_socket(), Some(PATIENCE))?;
    let fabric = controller.request(&GetFabric { names })?.answer;
    let called = fabric.hosts.iter().map(|host| (host.port, PortNum(1), host.name.as_str()));
    let found = HostNames::new(called).find(host);
    let found = found.map_err(|error| wrong(error.to_string()))?;
    let found = fabric.hosts.get(found.index()).map(|host| host.port);
    found.ok_or_else(|| wrong(format!("no host is called `{host}`")))
}

fn flows<W: Write>(answer: &Flows, out: &mut Output<W>) -> Result<(), Failure> {
    out.line("flow  peer                tree  waiting  under way  why it waits")?;
    answer.flows.iter().try_for_each(|flow| {
        let tree = flow.grant.map_or_else(|| "-".to_owned(), |grant| grant.tree.to_string());
        let Flow { flow: number, peer, waiting, outstanding, wait, .. } = flow;
        let why = wait.as_deref().unwrap_or("");
        out.line(format!("{number:<4}  {peer}  {tree:>4}  {waiting:>7}  {outstanding:>9}  {why}"))
    })
}

fn mesh<W: Write>(answer: &Mesh, out: &mut Output<W>) -> Result<(), Failure> {
    out.line("peer                tree  state       under way")?;
    answer.pairs.iter().try_for_each(|QueuePair { peer, tree, state, outstanding, .. }| {
        out.line(format!("{peer}  {tree:>4}  {state:<10}  {outstanding:>9}"))
    })
}

fn status<W: Write>(answer: &Status, out: &mut Output<W>) -> Result<(), Failure> {
    let more = answer.software.as_ref().map_or(0, |software| software.agents.saturating_sub(1));
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let guid = answer.guid.map(|guid| guid.to_string()).unwrap_or_default();
    out.line(format!("port {guid}{more}, listens at {}", answer.listen))?;
    let Status { controller, flows, pairs, .. } = answer;
    out.line(format!("controller {controller}, {flows} flows, {pairs} queue pairs"))?;
    if let Some(certificate) = &answer.certificate {
        out.line(&certificate.line)?;
    }
    for Received { peer, messages, bytes, lost } in &answer.received {
        let peer = peer.map(|peer| peer.to_string());
        let peer = peer.as_deref().unwrap_or("peers that were not heard for long");
        let lost = if *lost > 0 { format!(", {lost} lost") } else { String::new() };
        out.line(format!("from {peer}: {messages} messages, {bytes} bytes{lost}"))?;
    }
    let counters = answer.counters.iter().chain(&answer.io_counters);
    let mut counters = counters.filter(|(_, count)| **count != 0);
    counters.try_for_each(|(name, count)| out.line(format!("{name:<20} {count}")))
}

fn histogram<W: Write>(answer: &Histogram, out: &mut Output<W>) -> Result<(), Failure> {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    out.line(" #messages  t_min[usec]  t_typical[usec]  99% [usec]  99.9% [usec]  99.99% [usec]  t_max[usec]")?;
    out.line(format!(
        " {:<9}  {:<11.2}  {:<15.2}  {:<10.2}  {:<12.2}  {:<13.2}  {:.2}",
        answer.messages,
        micros(answer.min_ns),
        micros(answer.median_ns),
        micros(answer.p99_ns),
        micros(answer.p999_ns),
        micros(answer.p9999_ns),
        micros(answer.max_ns)
    ))
}
