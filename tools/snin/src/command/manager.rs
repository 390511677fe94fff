//! `snin sm status|sweep|rotate-keys|dump|lfts|events`: what the running subnet manager says.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::Guid;

use crate::Verdict;
use crate::cli::SmDaemon;
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Where each daemon has a folder with its socket, as systemd makes them.
const SOCKETS: &str = "/run/snin-sm";

/// What it manages.
pub(crate) fn status<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": "status" }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| describe(&said, out))?;
    Ok(if said["healthy"] == true { Verdict::Well } else { Verdict::Unwell })
}

/// The same that `snin-sm --once` says, in words.
fn describe<W: Write>(said: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (port, subnet) = (&said["port"], &said["subnet"]);
    out.line(format_args!(
        "{} at {} ({}), LID {}",
        text(&said["state"]),
        text(&port["name"]),
        text(&port["guid"]),
        port["lid"]
    ))?;
    if subnet.is_null() {
        out.line("the subnet is not up by this manager")?;
    } else {
        out.line(format_args!(
            "{} nodes: {} switches, {} host ports; {} trees, LMC {}; view {}",
            subnet["nodes"],
            subnet["switches"],
            subnet["hosts"],
            subnet["trees"],
            subnet["lmc"],
            subnet["version"]
        ))?;
    }
    if let Some(lanes) = subnet["lanes"].as_str() {
        out.line(lanes)?;
    }
    for (at, state) in said["managers"].as_object().into_iter().flatten() {
        out.line(format_args!("another subnet manager at {at}: {}", text(state)))?;
    }
    for missing in said["missing"].as_array().into_iter().flatten() {
        out.line(format_args!("missing: {}", text(missing)))?;
    }
    for gone in said["gone"].as_array().into_iter().flatten() {
        out.line(format_args!("gone: {}", text(gone)))?;
    }
    for slow in said["slow"].as_array().into_iter().flatten() {
        out.line(format_args!("slow: {}", text(slow)))?;
    }
    for (key, what) in [
        ("trouble", "trouble"),
        ("partitions_refused", "partitions are as they were before"),
        ("not_stored", "the state is not stored"),
    ] {
        if !said[key].is_null() {
            out.line(format_args!("{what}: {}", text(&said[key])))?;
        }
    }
    if let Some(why) = said["not_stored"].as_str() {
        out.line(format_args!("the state is not stored: {why}"))?;
    }
    let refused = said["requests"]["refused"].as_u64().unwrap_or_default();
    if refused > 0 {
        out.line(format_args!("{refused} requests of hosts were refused: too many came"))?;
    }
    out.line(format_args!(
        "{} SMPs sent, {} of them again, {} table blocks written",
        said["smps"]["sent"], said["smps"]["retries"], said["smps"]["lft_blocks"]
    ))
}

/// Looks at everything.
pub(crate) fn sweep<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    act("sweep", daemon, out)
}

/// A node has joined or left, as a health monitor says.
pub(crate) fn health<W: Write>(
    node: Guid,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let question = json!({ "command": "health", "node": node.to_string() });
    let said = connect(daemon)?.ask(&question)?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| {
        out.line(format_args!("{node} is looked at"))
    })?;
    Ok(Verdict::Well)
}

/// Gives every port another M_Key.
pub(crate) fn rotate_keys<W: Write>(
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    act("rotate-keys", daemon, out)
}

/// Has something done, and says how much that was.
fn act<W: Write>(
    command: &str,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": command }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| {
        let milliseconds = said["seconds"].as_f64().unwrap_or_default() * 1e3;
        out.line(format_args!(
            "{} SMPs, {} writes of which {} table blocks, {milliseconds:.1} ms",
            said["smps"], said["sets"], said["lft_blocks"]
        ))
    })?;
    Ok(Verdict::Well)
}

/// The fabric.
pub(crate) fn dump<W: Write>(
    guid2lid: bool,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": "dump" }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| {
        let part = if guid2lid { "guid2lid" } else { "topology" };
        out.text(said[part].as_str().unwrap_or_default())
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
    let question = json!({ "command": "database", "name": name, "secrets": secrets });
    let said = connect(daemon)?.ask(&question)?;
    out.text(said["database"].as_str().unwrap_or_default())?;
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
        Some(guid) => vec![json!(guid.to_string())],
        None => {
            let said = connection.ask(&json!({ "command": "lfts" }))?;
            let switches = said["switches"].as_array().into_iter().flatten();
            switches.map(|switch| switch["guid"].clone()).collect()
        }
    };
    for switch in switches {
        let mut said = connection.ask(&json!({ "command": "lfts", "switch": switch }))?;
        let text = said.as_object_mut().and_then(|said| said.remove("text"));
        // A line of JSON a switch: all together may not fit anywhere.
        match &mut json {
            Some(Target::Stdout) => {
                out.line(&said)?;
                continue;
            }
            Some(Target::File(file)) => file.line(&said)?,
            None => {}
        }
        out.text(text.as_ref().and_then(Value::as_str).unwrap_or_default())?;
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
    happened(&mut Connection::open(&socket(daemon)?, patience)?, since, follow, out)
}

/// What a daemon says of events at its control socket.
pub(super) fn happened<W: Write>(
    connection: &mut Connection,
    since: u64,
    follow: bool,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let question = json!({ "command": "events", "since": since, "follow": follow });
    let said = connection.ask(&question)?;
    for event in said["events"].as_array().into_iter().flatten() {
        out.line(event)?;
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
