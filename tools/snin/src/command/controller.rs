//! `snin controller`, `snin path`, `snin owner`: asks a running controller by its control socket or its API.

use std::io::Write;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_daemon::http;
use snin_daemon::session::{Credentials, Files};

use super::manager::happened;
use super::reserving::ask_by;
use crate::Verdict;
use crate::cli::controller::{Controller, ControllerSocket, OwnerOf, PathOf, Remote};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// How often a test that is under way is asked for.
const AGAIN: Duration = Duration::from_millis(20);

/// The answer to a request, as the control socket has both.
pub(super) fn ask(socket: &ControllerSocket, request: &Value) -> Result<Value, Failure> {
    let Some(api) = &socket.remote.controller else {
        return Ok(Connection::open(&socket.socket, Some(PATIENCE))?.ask(request)?);
    };
    Ok(http::ask(api, credentials(&socket.remote)?.as_ref(), request, PATIENCE)?)
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
        return happened(&mut Connection::open(&socket.socket, None)?, since, true, out);
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
    let (socket, request) = request(asked);
    let answer = match asked {
        Controller::Events { since, follow: true, .. } => return follow(socket, *since, out),
        Controller::Requests { agent, .. } => ask_by(agent, socket, &request)?,
        Controller::LinkTest { .. } => link_tested(socket, &ask(socket, &request)?)?,
        _ => ask(socket, &request)?,
    };
    let json = Target::open(socket.format.json.as_deref())?;
    out.report(json, &answer, |out| show(asked, &answer, out))?;
    let lacks = answer["arrived"].as_u64() < answer["messages"].as_u64();
    Ok(if answer["healthy"] == false || lacks { Verdict::Unwell } else { Verdict::Well })
}

fn show<W: Write>(asked: &Controller, answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    match asked {
        Controller::Status(_) => status(answer, out),
        Controller::Windows { .. } => windows(answer, out),
        Controller::Grants(_) => grants(answer, out),
        Controller::Fabric(_) => fabric(answer, out),
        Controller::Requests { .. } => {
            rows(answer).iter().try_for_each(|frame| out.line(super::reserving::frame(frame)))
        }
        Controller::LinkTest { port, .. } => {
            let (arrived, messages) = (&answer["arrived"], &answer["messages"]);
            out.line(format!("{port}: {arrived} of {messages} messages arrived"))
        }
        Controller::Policy { .. } => out.line(text(&answer["policy"])),
        Controller::Events { .. } => {
            rows(&answer["events"]).iter().try_for_each(|event| out.line(event))
        }
    }
}

fn request(asked: &Controller) -> (&ControllerSocket, Value) {
    match asked {
        Controller::Status(socket) => (socket, json!({ "command": "status" })),
        Controller::Windows { count, socket } => {
            (socket, json!({ "command": "windows", "count": count }))
        }
        Controller::Grants(socket) => (socket, json!({ "command": "grants" })),
        Controller::Fabric(socket) => (socket, json!({ "command": "fabric" })),
        Controller::Requests { socket, .. } => (socket, json!({ "command": "requests" })),
        Controller::LinkTest { port, messages, socket } => {
            (socket, json!({ "command": "link_test", "port": port, "messages": messages }))
        }
        Controller::Policy { set, socket } => {
            let set = set.and_then(|set| Some(set.to_possible_value()?.get_name().to_owned()));
            (socket, json!({ "command": "policy", "set": set }))
        }
        Controller::Events { since, socket, .. } => {
            (socket, json!({ "command": "events", "since": since }))
        }
    }
}

/// What came of a test that was begun. The controller ends each, after twenty seconds at most.
fn link_tested(socket: &ControllerSocket, begun: &Value) -> Result<Value, Failure> {
    let request = json!({ "command": "link_tested", "id": begun["number"] });
    loop {
        let answer = ask(socket, &request)?;
        if answer["done"] == true {
            return Ok(answer);
        }
        std::thread::sleep(AGAIN);
    }
}

/// The way from one host to another.
pub(crate) fn path<W: Write>(asked: &PathOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let request = json!({ "command": "path", "from": asked.from, "to": asked.to });
    let answer = ask(&asked.socket, &request)?;
    let json = Target::open(asked.socket.format.json.as_deref())?;
    out.report(json, &answer, |out| out.line(way(&answer)))?;
    Ok(Verdict::Well)
}

fn way(answer: &Value) -> String {
    let hop = |hop: &Value| format!("{}/{}", text(&hop["switch"]), hop["port"]);
    let hops = rows(&answer["hops"]).iter().map(hop).collect::<Vec<_>>().join(", ");
    let (from, to, dlid) = (text(&answer["from"]), text(&answer["to"]), &answer["dlid"]);
    let grant = &answer["grant"];
    let by = if grant.is_null() {
        "nothing is granted: this is the way of ordinary traffic".to_owned()
    } else {
        format!("granted along tree {}", grant["tree"])
    };
    format!("{from} to {to}: DLID {dlid}, out of {hops}; {by}")
}

/// Whose a directed link is.
pub(crate) fn owner<W: Write>(asked: &OwnerOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let answer = ask(&asked.socket, &json!({ "command": "owner", "port": asked.port }))?;
    let json = Target::open(asked.socket.format.json.as_deref())?;
    out.report(json, &answer, |out| owners(&answer, out))?;
    Ok(Verdict::Well)
}

fn owners<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let (link, to) = (text(&answer["link"]), text(&answer["to"]));
    let owners = rows(&answer["owners"]);
    if owners.is_empty() {
        out.line(format!("{link} to {to}: nobody's"))?;
    }
    owners.iter().try_for_each(|owner| {
        let (from, peer, tree) = (text(&owner["from"]), text(&owner["to"]), &owner["tree"]);
        out.line(format!("{link} to {to}: {from} to {peer}, tree {tree}"))
    })
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn status<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format!(
        "{}, term {}: {}",
        text(&answer["name"]),
        answer["term"],
        text(&answer["state"])
    ))?;
    out.line(format!(
        "policy {}, windows of {} us, view {}, {} sessions with agents",
        text(&answer["policy"]),
        answer["window_us"],
        answer["view"],
        answer["sessions"]
    ))?;
    if let Some(why) = answer["not_stored"].as_str() {
        out.line(format!("the state is not stored: {why}"))?;
    }
    if let Some(certificate) = answer["certificate"]["line"].as_str() {
        out.line(certificate)?;
    }
    if let Some(why) = answer["not_clos"].as_str() {
        out.line(format!("no Clos, so nothing is granted between leaves: {why}"))?;
    }
    let missed = &answer["last_missed"];
    if !missed.is_null() {
        let by = answer["missed_by"].as_object().into_iter().flatten();
        let by = by.map(|(cause, count)| format!("{cause} {count}")).collect::<Vec<_>>().join(", ");
        out.line(format!("windows missed by cause: {by}; last {}", why_missed(missed)))?;
    }
    for (name, count) in answer["counters"].as_object().into_iter().flatten() {
        if count != 0 {
            out.line(format!("{name:<24} {count}"))?;
        }
    }
    Ok(())
}

/// How many windows were missed before one, and what the time went to.
fn why_missed(missed: &Value) -> String {
    let shares = missed["shares_us"].as_object().into_iter().flatten();
    let shares: Vec<String> = shares.map(|(cause, us)| format!("{cause} {us} us")).collect();
    let (count, late, why) = (&missed["missed"], &missed["late_us"], text(&missed["why"]));
    format!("{count} missed, {late} us late: {why} ({})", shares.join(", "))
}

fn windows<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(
        "window        asked  granted  draining  refused  moved  paused  links  late us  why others wait",
    )?;
    rows(answer).iter().try_for_each(|window| {
        let number = |key: &str| window[key].to_string();
        if window["missed"].as_u64() > Some(0) {
            out.line(format!("              {}", why_missed(window)))?;
        }
        let waits = window["deferred"].as_object().into_iter().flatten();
        let waits =
            waits.map(|(why, count)| format!("{count}: {why}")).collect::<Vec<_>>().join("; ");
        out.line(format!(
            "{:<12}  {:>5}  {:>7}  {:>8}  {:>7}  {:>5}  {:>6}  {:>5}  {:>7}  {waits}",
            number("epoch"),
            number("requested"),
            number("granted"),
            number("draining"),
            number("refused"),
            number("moved"),
            number("paused"),
            number("links"),
            number("late_us")
        ))
    })
}

fn grants<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    out.line("from                  to                    tree   DLID  pinned")?;
    rows(answer).iter().try_for_each(|grant| {
        let (from, to) = (text(&grant["from"]), text(&grant["to"]));
        let pinned = if grant["pinned"] == true { "yes" } else { "" };
        let number = |key: &str| grant[key].to_string();
        out.line(format!(
            "{from:<20}  {to:<20}  {:>4}  {:>5}  {pinned}",
            number("tree"),
            number("dlid")
        ))
    })
}

fn fabric<W: Write>(answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format!(
        "{} switches, {} hosts, {} trees, LMC {}; view {} from {}",
        answer["switches"],
        rows(&answer["hosts"]).len(),
        rows(&answer["trees"]).len(),
        answer["lmc"],
        answer["version"],
        text(&answer["source"])
    ))?;
    rows(&answer["hosts"]).iter().try_for_each(|host| {
        let (name, port) = (text(&host["name"]), text(&host["port"]));
        out.line(format!(
            "host {name}, port {port}, LID {}, at {}",
            host["lid"],
            text(&host["switch"])
        ))
    })?;
    rows(&answer["unusable"]).iter().try_for_each(|pair| {
        out.line(format!("unusable: tree {} at {}", pair["tree"], text(&pair["switch"])))
    })
}
