//! `snin controller`, `snin path`, `snin owner`: asks a running controller by its control socket or its API.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use snin_daemon::control::Connection;
use snin_daemon::http;
use snin_daemon::session::{Credentials, Files};
use snin_protocol::operator::controller::{
    Because, ConnectionStatus, Fabric, GetEvents, GetFabric, GetGrants, GetLinkTest, GetOwner,
    GetPath, GetReservations, GetStatus, GetWhy, GetWindows, Grant, Grants, Host, LinkTestResult,
    Missed, Owners, Path, PolicyInForce, SetPolicy, Status, TestLink, Unusable, Why, Windows,
};
use snin_protocol::operator::{Document, Event, Events, Operation};

use super::asking::{Daemon, show};
use super::manager::happened;
use super::reserving::ask_by;
use crate::Verdict;
use crate::cli::Format;
use crate::cli::controller::{Controller, ControllerSocket, OwnerOf, PathOf, PolicyName, Remote};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// How often a test that is under way is asked for.
const AGAIN: Duration = Duration::from_millis(20);

impl Daemon for ControllerSocket {
    fn ask<O: Operation>(&self, operation: &O) -> Result<Document<O::Answer>, Failure> {
        let Some(api) = &self.remote.controller else {
            return Ok(Connection::open(&self.socket, Some(PATIENCE))?.request(operation)?);
        };
        Ok(http::request(api, credentials(&self.remote)?.as_ref(), operation, PATIENCE)?)
    }

    fn format(&self) -> &Format {
        &self.format
    }
}

fn credentials(remote: &Remote) -> Result<Option<Credentials>, Failure> {
    let (certificate, key) = (remote.certificate.as_deref(), remote.key.as_deref());
    let files = Files::configured(certificate, key, remote.ca_certificate.as_deref(), None)?;
    Ok(files.map(Credentials::load).transpose()?)
}

/// What happened and what happens, as long as the controller runs.
fn follow<W: Write>(
    socket: &ControllerSocket,
    since: u64,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let Some(api) = &socket.remote.controller else {
        let asked = GetEvents { since, follow: true };
        return happened(&mut Connection::open(&socket.socket, None)?, &asked, true, out);
    };
    let mut written = Ok(());
    http::follow(api, credentials(&socket.remote)?.as_ref(), since, |event| {
        written = out.line(event).and_then(|()| out.flush());
        written.is_ok()
    })?;
    written?;
    Ok(Verdict::Well)
}

/// Asks, and shows the answer.
pub(crate) fn run<W: Write>(asked: &Controller, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Controller::Status(socket) => {
            let status = show(socket, &GetStatus {}, out, status)?;
            return Ok(if status.healthy { Verdict::Well } else { Verdict::Unwell });
        }
        Controller::Windows { count, socket } => {
            show(socket, &GetWindows { count: u64::from(*count) }, out, windows)?;
        }
        Controller::Grants(socket) => {
            show(socket, &GetGrants {}, out, grants)?;
        }
        Controller::Fabric(socket) => {
            show(socket, &GetFabric::default(), out, fabric)?;
        }
        Controller::Requests { agent, socket } => {
            let document = ask_by(agent, socket, &GetReservations {})?;
            out.answer(document, &socket.format, |answer, out| {
                let mut requests = answer.requests.iter();
                requests.try_for_each(|request| out.line(super::reserving::reservation(request)))
            })?;
        }
        Controller::Why { from, to, socket } => {
            let asked = GetWhy { from: from.clone(), to: to.clone() };
            let why = show(socket, &asked, out, why)?;
            return Ok(if why.granted { Verdict::Well } else { Verdict::Unwell });
        }
        Controller::LinkTest { port, messages, socket } => {
            return link_test(port, *messages, socket, out);
        }
        Controller::Policy { set, socket } => {
            let set = set.map(PolicyName::policy);
            let print =
                |answer: &PolicyInForce, out: &mut Output<W>| out.line(answer.policy.name());
            show(socket, &SetPolicy { set }, out, print)?;
        }
        Controller::Events { since, follow: true, socket } => return follow(socket, *since, out),
        Controller::Events { since, socket, .. } => {
            let asked = GetEvents { since: *since, follow: false };
            let print = |answer: &Events, out: &mut Output<W>| {
                let mut events = answer.events.iter();
                events.try_for_each(|Event(keys)| out.line(Value::Object(keys.clone())))
            };
            show(socket, &asked, out, print)?;
        }
    }
    Ok(Verdict::Well)
}

/// Begins a test, and waits for its end. The controller ends each, after twenty seconds at most.
fn link_test<W: Write>(
    port: &str,
    messages: u32,
    socket: &ControllerSocket,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let asked = TestLink { port: port.to_owned(), messages: messages.into() };
    let id = u64::from(socket.ask(&asked)?.answer.number);
    let document = loop {
        let document = socket.ask(&GetLinkTest { id })?;
        if document.answer.done {
            break document;
        }
        std::thread::sleep(AGAIN);
    };
    let LinkTestResult { arrived, messages, .. } = document.answer;
    let json = Target::open(socket.format.json.as_deref())?;
    out.report(json, &document, |out| {
        let number =
            |count: Option<u32>| count.map_or_else(|| "null".to_owned(), |n| n.to_string());
        let (arrived, messages) = (number(arrived), number(messages));
        out.line(format!("{port}: {arrived} of {messages} messages arrived"))
    })?;
    Ok(if arrived < messages { Verdict::Unwell } else { Verdict::Well })
}

fn why<W: Write>(answer: &Why, out: &mut Output<W>) -> Result<(), Failure> {
    let Why { from, to, collective, connections, found_trees, .. } = answer;
    if let Some(trees) = found_trees {
        let choice = match trees {
            0 => "none leads there: nothing can be granted",
            1 => "one leads there: a connection waits for its links",
            _ => "one of them is granted",
        };
        let noun = if *trees == 1 { "tree" } else { "trees" };
        out.line(format!("{from} to {to}: {trees} {noun}{FOUND}, {choice}"))?;
    }
    if let Some(owner) = collective {
        out.line(format!("{from} to {to}: in its time slots of the collective of {owner}"))?;
    }
    if connections.is_empty() && collective.is_none() {
        out.line(format!("{from} to {to}: nothing is asked for"))?;
    }
    connections.iter().try_for_each(
        |ConnectionStatus { connection, tree, why, windows_waited, behind }| {
            let mut line = format!("{from} to {to}, connection {connection}: ");
            match (why, tree) {
                (Some(why), _) => line += why,
                (None, Some(tree)) => line += &format!("granted along tree {tree}"),
                (None, None) => line += "asked for, and decided with the next window",
            }
            if *windows_waited > 0 {
                line += &format!("; for {windows_waited} windows");
            }
            if !behind.is_empty() {
                line += &format!("; these still have its links: {}", behind.join(", "));
            }
            out.line(line)
        },
    )
}

/// The way from one host to another.
pub(crate) fn path<W: Write>(asked: &PathOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let operation = GetPath { from: asked.from.clone(), to: asked.to.clone() };
    show(&asked.socket, &operation, out, |answer, out| out.line(way(answer)))?;
    Ok(Verdict::Well)
}

/// Said of ways that another manager may change at any time.
const FOUND: &str = " (tables of another manager)";

fn way(path: &Path) -> String {
    let hops = path.hops.iter().map(|hop| format!("{}/{}", hop.switch, hop.port));
    let hops = hops.collect::<Vec<_>>().join(", ");
    let name = |end: &Option<String>| end.clone().unwrap_or_else(|| "null".to_owned());
    let by = match (&path.grant, &path.collective) {
        (None, Some(owner)) => format!("that of the collective of {owner}, in its time slots"),
        (None, None) => "nothing is granted: this is the way of ordinary traffic".to_owned(),
        (Some(grant), _) => format!("granted along tree {}", grant.tree),
    };
    let (from, to) = (name(&path.from), name(&path.to));
    let whose = if path.found_tables { FOUND } else { "" };
    format!("{from} to {to}: DLID {}, out of {hops}; {by}{whose}", path.dlid)
}

/// Whose a directed link is.
pub(crate) fn owner<W: Write>(asked: &OwnerOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    show(&asked.socket, &GetOwner { port: asked.port.clone() }, out, owners)?;
    Ok(Verdict::Well)
}

fn owners<W: Write>(answer: &Owners, out: &mut Output<W>) -> Result<(), Failure> {
    let Owners { link, to, owners, found_tables } = answer;
    let whose = if *found_tables { FOUND } else { "" };
    let to = to.as_deref().unwrap_or("null");
    if owners.is_empty() {
        out.line(format!("{link} to {to}: nobody's{whose}"))?;
    }
    owners.iter().try_for_each(|owner| {
        let Grant { from, to: peer, tree, .. } = owner;
        out.line(format!("{link} to {to}: {from} to {peer}, tree {tree}{whose}"))
    })
}

fn status<W: Write>(answer: &Status, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format!("{}, term {}: {}", answer.name, answer.term, answer.state))?;
    let view = answer.view.map_or_else(|| "null".to_owned(), |view| view.to_string());
    out.line(format!(
        "policy {}, windows of {} us, view {view}, {} sessions with agents",
        answer.policy.name(),
        answer.window_us,
        answer.sessions
    ))?;
    if let Some(why) = &answer.not_stored {
        out.line(format!("the state is not stored: {why}"))?;
    }
    if let Some(certificate) = &answer.certificate {
        out.line(&certificate.line)?;
    }
    if let Some(why) = &answer.not_clos {
        out.line(format!("no Clos, so nothing is granted between leaves: {why}"))?;
    }
    if answer.found_tables {
        out.line("tables of another manager: grants and slices follow them")?;
    }
    if let Some(Missed { missed, late_us, because }) = &answer.last_missed {
        let by = answer.missed_by.iter().map(|(cause, count)| format!("{cause} {count}"));
        let by = by.collect::<Vec<_>>().join(", ");
        let last = why_missed(*missed, *late_us, because);
        out.line(format!("windows missed by cause: {by}; last {last}"))?;
    }
    let counters = answer.counters.iter().filter(|(_, count)| **count != 0);
    counters.into_iter().try_for_each(|(name, count)| out.line(format!("{name:<24} {count}")))
}

/// How many windows were missed before one, and what the time went to.
fn why_missed(missed: u64, late_us: u64, because: &Because) -> String {
    let shares = because.shares_us.iter().map(|(cause, us)| format!("{cause} {us} us"));
    let shares = shares.collect::<Vec<_>>().join(", ");
    format!("{missed} missed, {late_us} us late: {} ({shares})", because.why)
}

fn windows<W: Write>(answer: &Windows, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(
        "window        asked  granted  draining  refused  moved  paused  links  late us  why others wait",
    )?;
    answer.windows.iter().try_for_each(|window| {
        if let Some(because) = &window.because {
            let why = why_missed(window.missed, window.late_us, because);
            out.line(format!("              {why}"))?;
        }
        let waits = window.deferred.iter().map(|(why, count)| format!("{count}: {why}"));
        let waits = waits.collect::<Vec<_>>().join("; ");
        out.line(format!(
            "{:<12}  {:>5}  {:>7}  {:>8}  {:>7}  {:>5}  {:>6}  {:>5}  {:>7}  {waits}",
            window.epoch,
            window.requested,
            window.granted,
            window.draining,
            window.refused,
            window.moved,
            window.paused,
            window.links,
            window.late_us
        ))
    })
}

fn grants<W: Write>(answer: &Grants, out: &mut Output<W>) -> Result<(), Failure> {
    out.line("from                  to                    tree   DLID  pinned")?;
    answer.grants.iter().try_for_each(|grant| {
        let Grant { from, to, tree, dlid, .. } = grant;
        let pinned = if grant.pinned { "yes" } else { "" };
        out.line(format!("{from:<20}  {to:<20}  {tree:>4}  {dlid:>5}  {pinned}"))
    })
}

fn fabric<W: Write>(answer: &Fabric, out: &mut Output<W>) -> Result<(), Failure> {
    let Fabric { source, version, switches, lmc, trees, hosts, unusable } = answer;
    let (hosts_count, trees) = (hosts.len(), trees.len());
    out.line(format!(
        "{switches} switches, {hosts_count} hosts, {trees} trees, LMC {lmc}; view {version} from {source}"
    ))?;
    hosts.iter().try_for_each(|host| {
        let Host { name, port, switch, .. } = host;
        let lid = host.lid.map_or_else(|| "null".to_owned(), |lid| lid.to_string());
        out.line(format!("host {name}, port {port}, LID {lid}, at {switch}"))
    })?;
    unusable.iter().try_for_each(|Unusable { tree, switch }| {
        out.line(format!("unusable: tree {tree} at {switch}"))
    })
}
