//! `snin sm managers|cluster|disable|standby|discover|priority`: the subnet's managers and who of them is master.

use std::io::Write;

use snin_protocol::operator::Operation;
use snin_protocol::operator::manager::{
    self, Cluster, DisableManager, GetCluster, GetManagers, HaveManagerDiscover, Manager,
    ManagerTold, Managers, Mirror, SetPriority, StandManagerBy,
};

use super::asking::show;
use crate::Verdict;
use crate::cli::{Instruction, SmDaemon};
use crate::failure::Failure;
use crate::output::Output;

/// Every manager that the daemon knows.
pub(crate) fn list<W: Write>(daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure> {
    show(daemon, &GetManagers {}, out, managers)?;
    Ok(Verdict::Well)
}

/// What the cluster's service holds for managers, and what follows from it.
pub(crate) fn cluster<W: Write>(
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let cluster = show(daemon, &GetCluster {}, out, describe)?;
    let unreachable = cluster.verdict == manager::Verdict::Unreachable;
    Ok(if unreachable { Verdict::Unwell } else { Verdict::Well })
}

fn describe<W: Write>(cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!("{}: {}", cluster.verdict.name(), cluster.why))?;
    let chosen = cluster.chosen.map_or_else(|| "none".to_owned(), |guid| guid.to_string());
    out.line(format_args!("configuration manager {chosen}"))?;
    out.line(format_args!("newest configuration {}", cluster.expected))?;
    for (kind, all) in [("manager", &cluster.managers), ("barred", &cluster.barred)] {
        for (guid, what) in all {
            out.line(format_args!("{kind} {guid} {what}"))?;
        }
    }
    Ok(())
}

/// Another priority.
pub(crate) fn priority<W: Write>(
    value: u8,
    daemon: &SmDaemon,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    show(daemon, &SetPriority { value }, out, managers)?;
    Ok(Verdict::Well)
}

/// Has another manager do nothing.
pub(crate) fn disable<W: Write>(
    told: &Instruction,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    tell(&DisableManager { to: told.guid }, &told.daemon, out)
}

/// Has another manager stand by.
pub(crate) fn standby<W: Write>(
    told: &Instruction,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    tell(&StandManagerBy { to: told.guid }, &told.daemon, out)
}

/// Has another manager look at the subnet.
pub(crate) fn discover<W: Write>(
    told: &Instruction,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    tell(&HaveManagerDiscover { to: told.guid }, &told.daemon, out)
}

fn tell<O, W>(operation: &O, daemon: &SmDaemon, out: &mut Output<W>) -> Result<Verdict, Failure>
where
    O: Operation<Answer = ManagerTold>,
    W: Write,
{
    show(daemon, operation, out, |ManagerTold { to, told, outcome }, out| {
        out.line(format_args!("{told} to {to}: {outcome}"))
    })?;
    Ok(Verdict::Well)
}

/// One a line, this one first.
fn managers<W: Write>(answer: &Managers, out: &mut Output<W>) -> Result<(), Failure> {
    answer.managers.iter().try_for_each(|manager| {
        let Manager { guid, at, own, state, priority, why, .. } = manager;
        let state = state.map_or("unknown", |state| state.name());
        let own = if *own { "this one" } else { "" };
        out.line(format_args!(
            "{guid} {state:<12} priority {priority:>2}  {at} {own}{}: {why}{}",
            heard(manager),
            manager.mirror.as_ref().map(mirror).unwrap_or_default()
        ))
    })
}

/// How far a mirror is.
fn mirror(mirror: &Mirror) -> String {
    let what = if mirror.follows { "it mirrors this one" } else { "this one mirrors it" };
    let far = match (mirror.whole, mirror.behind) {
        (false, _) => "not all yet".to_owned(),
        (true, 0) => "up to date".to_owned(),
        (true, behind) => format!("{behind} changes behind"),
    };
    let differ: String = mirror.differ.iter().map(|what| format!("; {what}")).collect();
    format!("; {what}, {far}{differ}")
}

fn heard(manager: &Manager) -> String {
    match (manager.own, manager.heard_seconds_ago) {
        (true, _) => String::new(),
        (false, Some(seconds)) => format!("heard {seconds:.1} s ago"),
        (false, None) => "never heard".to_owned(),
    }
}
