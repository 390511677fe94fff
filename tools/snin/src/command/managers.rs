//! `snin sm managers|cluster|disable|standby|discover|priority`: the subnet's managers and who of them is master.

use std::io::Write;

use serde_json::{Value, json};

use super::manager::connect;
use crate::Verdict;
use crate::cli::{Instruction, SmDaemon};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Every manager that the daemon knows.
pub(crate) fn list<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": "managers" }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| describe(&said, out))?;
    Ok(Verdict::Well)
}

/// What the cluster's service holds for managers, and what follows from it.
pub(crate) fn cluster<W: Write>(
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": "cluster" }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        out.line(format_args!("{}: {}", text(&said["verdict"]), text(&said["why"])))?;
        out.line(format_args!("configuration manager {}", text(&said["chosen"])))?;
        out.line(format_args!("newest configuration {}", said["expected"]))?;
        for (kind, key) in [("manager", "managers"), ("barred", "barred")] {
            for (guid, what) in said[key].as_object().into_iter().flatten() {
                out.line(format_args!("{kind} {guid} {}", text(what)))?;
            }
        }
        Ok(())
    })?;
    Ok(if said["verdict"] == "unreachable" { Verdict::Unwell } else { Verdict::Well })
}

/// Another priority.
pub(crate) fn priority<W: Write>(
    value: u8,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let said = connect(daemon)?.ask(&json!({ "command": "priority", "value": value }))?;
    out.report(Target::open(daemon.format.json.as_deref())?, &said, |out| describe(&said, out))?;
    Ok(Verdict::Well)
}

/// Has another manager told something.
pub(crate) fn tell<W: Write>(
    command: &str,
    told: &Instruction,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let question = json!({ "command": command, "to": told.guid.to_string() });
    let said = connect(&told.daemon)?.ask(&question)?;
    out.report(Target::open(told.daemon.format.json.as_deref())?, &said, |out| {
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        out.line(format_args!("{} to {}: {}", text("told"), text("to"), text("outcome")))
    })?;
    Ok(Verdict::Well)
}

/// One a line, this one first.
fn describe<W: Write>(said: &Value, out: &mut Output<W>) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    for manager in said["managers"].as_array().into_iter().flatten() {
        let own = if manager["own"] == true { "this one" } else { "" };
        out.line(format_args!(
            "{} {:<12} priority {:>2}  {} {}{}: {}{}",
            text(&manager["guid"]),
            text(&manager["state"]),
            manager["priority"],
            text(&manager["at"]),
            own,
            heard(manager),
            text(&manager["why"]),
            mirror(&manager["mirror"])
        ))?;
    }
    Ok(())
}

/// How far the mirror between it and the daemon that was asked is, where there is one.
fn mirror(mirror: &Value) -> String {
    if mirror.is_null() {
        return String::new();
    }
    let what =
        if mirror["follows"] == true { "it mirrors this one" } else { "this one mirrors it" };
    let far = match (mirror["whole"] == true, mirror["behind"].as_u64().unwrap_or(0)) {
        (false, _) => "not all yet".to_owned(),
        (true, 0) => "up to date".to_owned(),
        (true, behind) => format!("{behind} changes behind"),
    };
    let differ = mirror["differ"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let differ: String = differ.map(|what| format!("; {what}")).collect();
    format!("; {what}, {far}{differ}")
}

fn heard(manager: &Value) -> String {
    match (manager["own"] == true, manager["heard_seconds_ago"].as_f64()) {
        (true, _) => String::new(),
        (false, Some(seconds)) => format!("heard {seconds:.1} s ago"),
        (false, None) => "never heard".to_owned(),
    }
}
