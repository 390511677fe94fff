//! `snin sm status|sweep|rotate-keys|dump|lfts|events`: what the running subnet manager says.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use snin_daemon::control::Connection;
use snin_fabric::Guid;
use snin_protocol::operator::manager::{
    Activity, GetDatabase, GetDump, GetEvents, GetStatus, GetTables, ManagerPort, MasterSm,
    ReportHealth, RotateKeys, Smps, Status, Subnet, Sweep, Tables,
};
use snin_protocol::operator::{Document, Event, Events, Operation};

use super::asking::{Daemon, show};
use crate::Verdict;
use crate::cli::{Format, SmDaemon};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Where each daemon has a folder with its socket, as systemd makes them.
const SOCKETS: &str = "/run/snin-sm";

/// What it manages.
pub(crate) fn status<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let status = show(daemon, &GetStatus {}, out, describe)?;
    Ok(if status.healthy { Verdict::Well } else { Verdict::Unwell })
}

/// The same that `snin-sm --once` says, in words.
fn describe<W: Write>(status: &Status, out: &mut Output<W>) -> Result<(), Failure> {
    let ManagerPort { name, guid, lid } = &status.port;
    out.line(format_args!("{} at {name} ({guid}), LID {lid}", status.state))?;
    match &status.subnet {
        None => out.line("the subnet is not up by this manager")?,
        Some(Subnet { version, nodes, switches, hosts, trees, lmc, .. }) => {
            out.line(format_args!(
                "{nodes} nodes: {switches} switches, {hosts} host ports; {trees} trees, LMC {lmc}; view {version}"
            ))?;
        }
    }
    if let Some(lanes) = status.subnet.as_ref().and_then(|subnet| subnet.lanes.as_ref()) {
        out.line(lanes)?;
    }
    let relevelled = status.subnet.as_ref().map_or(0, |subnet| subnet.relevelled_pairs);
    if relevelled > 0 {
        out.line(format_args!(
            "{relevelled} pairs of switches have another service level since the last change: programs on their \
             hosts have to ask for their paths again"
        ))?;
    }
    if let Some(MasterSm { lid, reports_changes, reports }) = status.master_sm {
        let said = if reports_changes {
            format!("it reports changes, {reports} so far")
        } else {
            "it reports no changes: they are seen by looking".to_owned()
        };
        out.line(format_args!("the manager at LID {lid} keeps the subnet; {said}"))?;
    }
    for (at, state) in &status.managers {
        out.line(format_args!("another subnet manager at {at}: {state}"))?;
    }
    for missing in &status.missing {
        out.line(format_args!("missing: {missing}"))?;
    }
    for gone in &status.gone {
        out.line(format_args!("gone: {gone}"))?;
    }
    for slow in &status.slow {
        out.line(format_args!("slow: {slow}"))?;
    }
    for (what, why) in [
        ("trouble", &status.trouble),
        ("partitions are as they were before", &status.partitions_refused),
        ("the QoS policy is as it was before", &status.qos_policy_refused),
        ("the state is not stored", &status.not_stored),
    ] {
        if let Some(why) = why {
            out.line(format_args!("{what}: {why}"))?;
        }
    }
    if let Some(certificate) = &status.certificate {
        out.line(&certificate.line)?;
    }
    if status.requests.refused > 0 {
        let refused = status.requests.refused;
        out.line(format_args!("{refused} requests of hosts were refused: too many came"))?;
    }
    let Smps { sent, retries, lft_blocks, .. } = &status.smps;
    out.line(format_args!(
        "{sent} SMPs sent, {retries} of them again, {lft_blocks} table blocks written"
    ))
}

/// Looks at everything.
pub(crate) fn sweep<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    show(daemon, &Sweep {}, out, activity)?;
    Ok(Verdict::Well)
}

/// A node has joined or left, as a health monitor says.
pub(crate) fn health<W: Write>(
    node: Guid,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    show(daemon, &ReportHealth { node }, out, |reported, out| {
        out.line(format_args!("{} is looked at", reported.node))
    })?;
    Ok(Verdict::Well)
}

/// Gives every port another M_Key.
pub(crate) fn rotate_keys<W: Write>(
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    show(daemon, &RotateKeys {}, out, activity)?;
    Ok(Verdict::Well)
}

/// How much something was.
fn activity<W: Write>(done: &Activity, out: &mut Output<W>) -> Result<(), Failure> {
    let Activity { seconds, smps, sets, lft_blocks, .. } = done;
    let milliseconds = seconds * 1e3;
    out.line(format_args!(
        "{smps} SMPs, {sets} writes of which {lft_blocks} table blocks, {milliseconds:.1} ms"
    ))
}

/// The fabric.
pub(crate) fn dump<W: Write>(
    guid2lid: bool,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    show(daemon, &GetDump {}, out, |dump, out| {
        out.text(if guid2lid { &dump.guid2lid } else { &dump.topology })
    })?;
    Ok(Verdict::Well)
}

/// The subnet database, as a file.
pub(crate) fn database<W: Write>(
    name: Option<&str>,
    secrets: bool,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let asked = GetDatabase { name: name.map(str::to_owned), secrets };
    out.text(&connect(daemon)?.request(&asked)?.answer.database)?;
    Ok(Verdict::Well)
}

/// The tables, one switch after the other.
pub(crate) fn lfts<W: Write>(
    switch: Option<Guid>,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let mut json = Target::open(daemon.format.json.as_deref())?;
    let mut connection = connect(daemon)?;
    let switches = match switch {
        Some(guid) => vec![guid],
        None => match connection.request(&GetTables { switch: None })?.answer {
            Tables::All { switches } => switches.iter().map(|switch| switch.guid).collect(),
            Tables::One(table) => vec![table.switch.guid],
        },
    };
    for guid in switches {
        let asked = GetTables { switch: Some(guid) };
        let Tables::One(mut table) = connection.request(&asked)?.answer else { continue };
        let text = table.text.take().unwrap_or_default();
        // A line of JSON a switch: all together may not fit anywhere.
        if let Some(target) = &mut json {
            let document = Document::of(table);
            let line = serde_json::to_string(&document);
            let line = line.map_err(|error| Failure::Output(error.into()))?;
            match target {
                Target::Stdout => {
                    out.line(line)?;
                    continue;
                }
                Target::File(file) => file.line(line)?,
            }
        }
        out.text(&text)?;
    }
    if let Some(Target::File(file)) = json {
        file.publish()?;
    }
    Ok(Verdict::Well)
}

/// What happened, and what happens.
pub(crate) fn events<W: Write>(
    since: u64,
    follow: bool,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    // A command that follows events waits as long as it takes.
    let patience = if follow { None } else { Some(Duration::from_nanos(daemon.patience.nanos())) };
    let mut connection = Connection::open(&socket(daemon)?, patience)?;
    happened(&mut connection, &GetEvents { since, follow }, follow, out)
}

/// What a daemon says of events at its control socket, and with `follow` of every later one.
pub(super) fn happened<O, W>(
    connection: &mut Connection,
    operation: &O,
    follow: bool,
    out: &mut Output<W>,
) -> Result<Verdict, Failure>
where
    O: Operation<Answer = Events>,
    W: Write,
{
    for Event(keys) in connection.request(operation)?.answer.events {
        out.line(Value::Object(keys))?;
    }
    if !follow {
        return Ok(Verdict::Well);
    }
    loop {
        out.flush()?;
        match connection.line()? {
            Some(event) => out.line(&event)?,
            None => return Ok(Verdict::Well),
        }
    }
}

/// A connection to the manager that is meant.
pub(super) fn connect(daemon: &SmDaemon) -> Result<Connection, Failure> {
    let patience = Duration::from_nanos(daemon.patience.nanos());
    Ok(Connection::open(&socket(daemon)?, Some(patience))?)
}

impl Daemon for SmDaemon {
    fn ask<O: Operation>(&self, operation: &O) -> Result<Document<O::Answer>, Failure> {
        Ok(connect(self)?.request(operation)?)
    }

    fn format(&self) -> &Format {
        &self.format
    }
}

/// The socket that is meant.
fn socket(daemon: &SmDaemon) -> Result<PathBuf, Failure> {
    let said = std::env::var_os("SNIN_SM_SOCKET").filter(|path| !path.is_empty());
    match daemon.socket.clone().or_else(|| said.map(PathBuf::from)) {
        Some(path) => Ok(path),
        None => only(Path::new(SOCKETS)).map_err(Failure::WhichDaemon),
    }
}

/// The one socket below a folder.
fn only(folder: &Path) -> Result<PathBuf, String> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        found.map(|entry| entry.path().join("control.sock")).filter(|path| path.exists()).collect();
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(format!(
            "no subnet manager runs here: {}/*/control.sock is not there; --socket names another place",
            folder.display()
        )),
        many => {
            let many: Vec<String> = many.iter().map(|path| path.display().to_string()).collect();
            Err(format!("which subnet manager? choose by --socket: there is {}", many.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_socket_is_taken_or_all_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("control.sock"), "").unwrap();
        };
        assert!(only(folder.path()).unwrap_err().starts_with("no subnet manager runs here: "));
        place("b");
        assert_eq!(only(folder.path()).unwrap(), folder.path().join("b/control.sock"));
        place("a");
        let error = only(folder.path()).unwrap_err();
        assert!(
            error.starts_with("which subnet manager? choose by --socket: there is "),
            "{error}"
        );
        assert!(error.find("/a/control.sock") < error.find("/b/control.sock"), "{error}");
    }
}
