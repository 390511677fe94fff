//! `snin slice`, `snin request`, `snin release`: what a running controller sets aside.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use snin_daemon::control::{Connection, ControlError};
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::operator::controller::{
    Collective, CollectiveSet, CreateSlice, DeleteSlice, ExplainSlice, GetSlices, Release,
    Reservation, Reserve, ResizeSlice, SetCollective, Slice, SliceExplained, SliceMade, Slices,
};
use snin_protocol::operator::{Document, Operation, SCHEMA_VERSION};

use super::asking::{Daemon as _, show};
use super::controller::PATIENCE;
use crate::Verdict;
use crate::cli::controller::ControllerSocket;
use crate::cli::reserving::{self as cli, ByAgent, ReleaseOf, RequestOf};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// An answer, or that there is no room and why.
#[derive(Serialize)]
#[serde(untagged)]
enum Answered<A> {
    Done(Document<A>),
    NoRoom { schema_version: u32, possible: bool, why: String },
}

impl<A> Answered<A> {
    fn of(answer: Result<Document<A>, Failure>) -> Result<Self, Failure> {
        match answer {
            Ok(document) => Ok(Self::Done(document)),
            Err(Failure::Daemon(ControlError::NoRoom(why))) => {
                Ok(Self::NoRoom { schema_version: SCHEMA_VERSION, possible: false, why })
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Shows an answer by `print`, or why there is `what`: exit code 1.
fn report<A: Serialize, W: Write>(
    socket: &ControllerSocket,
    answered: &Answered<A>,
    what: &str,
    print: impl FnOnce(&A) -> String,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(socket.format.json.as_deref())?;
    let (line, verdict) = match answered {
        Answered::Done(document) => (print(&document.answer), Verdict::Well),
        Answered::NoRoom { why, .. } => (format!("{what}: {why}"), Verdict::Unwell),
    };
    out.report(json, answered, |out| out.line(line))?;
    Ok(verdict)
}

/// Asks, and shows the answer.
pub(crate) fn slice<W: Write>(asked: &cli::Slice, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let made = |made: &SliceMade| one(&made.slice);
    match asked {
        cli::Slice::Create { owner, hosts, socket } => {
            let (count, hosts) = (hosts.hosts, hosts.on.clone());
            let asked = CreateSlice { owner: owner.clone(), count, hosts, shared: None };
            let answered = Answered::of(socket.ask(&asked))?;
            report(socket, &answered, &format!("no slice for {owner}"), made, out)
        }
        cli::Slice::Resize { owner, hosts, socket } => {
            let (count, hosts) = (hosts.hosts, hosts.on.clone());
            let asked = ResizeSlice { owner: owner.clone(), count, hosts };
            let answered = Answered::of(socket.ask(&asked))?;
            report(socket, &answered, &format!("no slice for {owner}"), made, out)
        }
        cli::Slice::Delete { owner, socket } => {
            show(socket, &DeleteSlice { owner: owner.clone() }, out, |answer, out| {
                let had = if answer.deleted { "is given back" } else { "there was none" };
                out.line(format!("slice of {owner}: {had}"))
            })?;
            Ok(Verdict::Well)
        }
        cli::Slice::List(socket) => {
            show(socket, &GetSlices {}, out, list)?;
            Ok(Verdict::Well)
        }
        cli::Slice::Explain { owner, hosts, on, socket } => {
            let asked = ExplainSlice { owner: owner.clone(), count: *hosts, hosts: on.clone() };
            let explained = show(socket, &asked, out, explain)?;
            Ok(if explained.possible { Verdict::Well } else { Verdict::Unwell })
        }
    }
}

fn list<W: Write>(answer: &Slices, out: &mut Output<W>) -> Result<(), Failure> {
    answer.slices.iter().try_for_each(|slice| out.line(one(slice)))?;
    if answer.found_tables {
        out.line("their trees are those of another manager's tables, which may change them")?;
    }
    out.line(format!("{} hosts are in no slice", number(answer.free_hosts)))
}

fn explain<W: Write>(answer: &SliceExplained, out: &mut Output<W>) -> Result<(), Failure> {
    let Some(slice) = &answer.slice else {
        let why = answer.why.as_deref().unwrap_or_default();
        return out
            .line(format!("no slice: {why}; {} hosts are in none", number(answer.free_hosts)));
    };
    out.line(one(slice))?;
    let mut pairs = answer.pairs.iter();
    pairs.try_for_each(|pair| out.line(format!("{}: tree {}", pair.leaf, pair.tree)))
}

fn number(count: Option<u32>) -> String {
    count.map_or_else(|| "null".to_owned(), |count| count.to_string())
}

fn one(slice: &Slice) -> String {
    let Slice { owner, hosts, links, foreign, collective, .. } = slice;
    let together = collective.as_ref().map_or_else(String::new, |kind| format!("; {kind}"));
    let name = if owner.is_empty() { "possible" } else { owner };
    let state = if !slice.whole {
        "lacks links that were cut".to_owned()
    } else if slice.ready {
        "its links are its own".to_owned()
    } else {
        format!("{foreign} grants of others run out")
    };
    let (count, hosts) = (hosts.len(), hosts.join(", "));
    format!("{name}: {count} hosts ({hosts}), {links} links; {state}{together}")
}

/// The controller's answer, by the agent of this host if that is to ask.
pub(super) fn ask_by<O: Operation>(
    agent: &ByAgent,
    socket: &ControllerSocket,
    operation: &O,
) -> Result<Document<O::Answer>, Failure> {
    match &agent.agent {
        Some(agent) => Ok(Connection::open(agent, Some(PATIENCE))?.request(operation)?),
        None => socket.ask(operation),
    }
}

/// Has ports kept for a connection.
pub(crate) fn request<W: Write>(
    asked: &RequestOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    if let Some(kind) = asked.collective.kind()? {
        return collective(asked, kind, out);
    }
    let operation = Reserve {
        from: asked.from.clone(),
        to: asked.to.clone().unwrap_or_default(),
        windows: asked.windows,
        at_ns: asked.at,
        for_ns: asked.length.map(|length| length.nanos()),
        owner: asked.owner.clone(),
    };
    let answered = Answered::of(ask_by(&asked.agent, &asked.socket, &operation))?;
    report(&asked.socket, &answered, "no request", reservation, out)
}

/// Gives a request back.
pub(crate) fn release<W: Write>(
    asked: &ReleaseOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    if let Some(owner) = &asked.slice {
        let ended = SetCollective { owner: owner.clone(), ..SetCollective::default() };
        show(&asked.socket, &ended, out, |_, out| {
            out.line(format!("{owner}: its hosts take part in no collective"))
        })?;
        return Ok(Verdict::Well);
    }
    let id = asked.id.unwrap_or_default();
    let document = ask_by(&asked.agent, &asked.socket, &Release { id })?;
    out.answer(document, &asked.socket.format, |released, out| {
        out.line(format!("request {} is given back", released.id))
    })?;
    Ok(Verdict::Well)
}

/// Has the hosts of a slice take part in a collective.
fn collective<W: Write>(
    asked: &RequestOf,
    kind: CollectiveKind,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let of = &asked.collective;
    let owner = of.slice.clone().unwrap_or_default();
    let operation = SetCollective {
        owner: owner.clone(),
        kind: Some(kind),
        slot_ns: of.slot.map(|slot| slot.nanos()),
        bytes: of.bytes,
        explain: of.explain,
    };
    let answered = Answered::of(asked.socket.ask(&operation))?;
    let print = |set: &CollectiveSet| {
        let said = set.collective.as_ref().map(of_collective);
        format!("{}: {}", set.owner, said.unwrap_or_else(|| "no collective yet".to_owned()))
    };
    report(&asked.socket, &answered, &format!("no {kind} for {owner}"), print, out)
}

/// A collective in a line.
fn of_collective(it: &Collective) -> String {
    let nanos = |nanos: u64| Time(nanos).to_string();
    let trees: BTreeSet<u16> = it.trees.iter().copied().collect();
    let (hosts, count) = (it.members.len(), trees.len());
    let phases = match (it.slot_ns, it.guard_ns) {
        (Some(slot), Some(guard)) => {
            format!("{} phases of {}, {} of it guard", it.phases, nanos(slot), nanos(guard))
        }
        _ => "one phase".to_owned(),
    };
    let least = match (it.least_ns, it.line_rate_ns) {
        (Some(least), Some(line)) => {
            format!("; at least {}, at line rate {}", nanos(least), nanos(line))
        }
        _ => String::new(),
    };
    format!(
        "{} of {hosts} hosts on {count} trees: {phases}; {} links with at most {} member at a time, {} queue \
         pairs a host{least}; {} of {hosts} granted",
        it.kind, it.links, it.max_link_load, it.queue_pairs, it.granted
    )
}

/// A request in a line.
pub(super) fn reservation(request: &Reservation) -> String {
    let moment = |nanos: u64| {
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(nanos)).to_string()
    };
    let Reservation { id, from, to, owner, state, used, windows, .. } = request;
    let (at, until) = (moment(request.at_ns), moment(request.until_ns));
    format!(
        "request {id}: {from} to {to}, {at} to {until}, {owner}'s; {state}, used in {used} of {windows} windows"
    )
}
