//! `snin slice`, `snin request`, `snin release`: what a running controller sets aside.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use snin_daemon::control::{Connection, ControlError};

use super::controller::{PATIENCE, ask, rows, text};
use crate::Verdict;
use crate::cli::controller::ControllerSocket;
use crate::cli::reserving::{ByAgent, ReleaseOf, RequestOf, Slice};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Asks, and shows the answer.
pub(crate) fn slice<W: Write>(asked: &Slice, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let (socket, request) = request_of(asked);
    let answer = match ask(socket, &request) {
        Err(Failure::Daemon(ControlError::NoRoom(why))) => {
            json!({ "possible": false, "why": why })
        }
        answer => answer?,
    };
    let json = Target::open(socket.format.json.as_deref())?;
    out.report(json, &answer, |out| show(asked, &answer, out))?;
    Ok(if answer["possible"] == false { Verdict::Unwell } else { Verdict::Well })
}

fn request_of(asked: &Slice) -> (&ControllerSocket, Value) {
    match asked {
        Slice::Create { owner, hosts, socket } => {
            let (count, on) = (hosts.hosts, &hosts.on);
            let command = "slice_create";
            (socket, json!({ "command": command, "owner": owner, "count": count, "hosts": on }))
        }
        Slice::Resize { owner, hosts, socket } => {
            let (count, on) = (hosts.hosts, &hosts.on);
            let command = "slice_resize";
            (socket, json!({ "command": command, "owner": owner, "count": count, "hosts": on }))
        }
        Slice::Delete { owner, socket } => {
            (socket, json!({ "command": "slice_delete", "owner": owner }))
        }
        Slice::List(socket) => (socket, json!({ "command": "slices" })),
        Slice::Explain { owner, hosts, on, socket } => {
            let command = "slice_explain";
            (socket, json!({ "command": command, "owner": owner, "count": hosts, "hosts": on }))
        }
    }
}

fn show<W: Write>(asked: &Slice, answer: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    match asked {
        Slice::Create { owner, .. } | Slice::Resize { owner, .. }
            if answer["possible"] == false =>
        {
            out.line(format!("no slice for {owner}: {}", text(&answer["why"])))
        }
        Slice::Create { .. } | Slice::Resize { .. } => out.line(one(answer)),
        Slice::Delete { owner, .. } => {
            let had = if answer["deleted"] == true { "is given back" } else { "there was none" };
            out.line(format!("slice of {owner}: {had}"))
        }
        Slice::List(_) => {
            rows(&answer["slices"]).iter().try_for_each(|slice| out.line(one(slice)))?;
            out.line(format!("{} hosts are in no slice", answer["free_hosts"]))
        }
        Slice::Explain { .. } if answer["possible"] == false => {
            let free = &answer["free_hosts"];
            out.line(format!("no slice: {}; {free} hosts are in none", text(&answer["why"])))
        }
        Slice::Explain { .. } => {
            out.line(one(answer))?;
            rows(&answer["pairs"]).iter().try_for_each(|pair| {
                out.line(format!("{}: tree {}", text(&pair["leaf"]), pair["tree"]))
            })
        }
    }
}

fn one(slice: &Value) -> String {
    let hosts: Vec<String> = rows(&slice["hosts"]).iter().map(text).collect();
    let owner = text(&slice["owner"]);
    let name = if owner.is_empty() { "possible".to_owned() } else { owner };
    let state = if slice["whole"] == false {
        "lacks links that were cut".to_owned()
    } else if slice["ready"] == true {
        "its links are its own".to_owned()
    } else {
        format!("{} grants of others run out", slice["foreign"])
    };
    format!(
        "{name}: {} hosts ({}), {} links; {state}",
        hosts.len(),
        hosts.join(", "),
        slice["links"]
    )
}

/// The controller's answer, by the agent of this host if that is to ask.
pub(super) fn ask_by(
    agent: &ByAgent,
    socket: &ControllerSocket,
    request: &Value,
) -> Result<Value, Failure> {
    match &agent.agent {
        Some(agent) => Ok(Connection::open(agent, Some(PATIENCE))?.ask(request)?),
        None => ask(socket, request),
    }
}

/// Has ports kept for a connection.
pub(crate) fn request<W: Write>(
    asked: &RequestOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let request = json!({
        "command": "request", "from": asked.from, "to": asked.to, "windows": asked.windows,
        "at_ns": asked.at, "for_ns": asked.length.map(|length| length.nanos()), "owner": asked.owner,
    });
    let answer = ask_by(&asked.agent, &asked.socket, &request)?;
    let json = Target::open(asked.socket.format.json.as_deref())?;
    out.report(json, &answer, |out| out.line(frame(&answer)))?;
    Ok(Verdict::Well)
}

/// Gives a request back.
pub(crate) fn release<W: Write>(
    asked: &ReleaseOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let request = json!({ "command": "release", "id": asked.id });
    let answer = ask_by(&asked.agent, &asked.socket, &request)?;
    let json = Target::open(asked.socket.format.json.as_deref())?;
    out.report(json, &answer, |out| out.line(format!("request {} is given back", asked.id)))?;
    Ok(Verdict::Well)
}

/// A request in a line.
pub(super) fn frame(frame: &Value) -> String {
    let moment = |key: &str| {
        let time = UNIX_EPOCH + Duration::from_nanos(frame[key].as_u64().unwrap_or(0));
        humantime::format_rfc3339_millis(time).to_string()
    };
    let (from, to) = (text(&frame["from"]), text(&frame["to"]));
    format!(
        "request {}: {from} to {to}, {} to {}, {}'s; {}, used in {} of {} windows",
        frame["id"],
        moment("at_ns"),
        moment("until_ns"),
        text(&frame["owner"]),
        text(&frame["state"]),
        frame["used"],
        frame["windows"]
    )
}
