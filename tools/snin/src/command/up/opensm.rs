//! A manager that stays: OpenSM on the emulated fabric, beside which snin-sm only reads.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use snin_fabric::clos::recognise;
use snin_fabric::hosts::Hosts;
use snin_fabric::routing::Forest;
use snin_fabric::{Lmc, Topology};
use snin_protocol::operator::manager;

use super::UpError;
use super::children::Children;
use super::folder::Folder;
use crate::cli::{Keeper, Up};

/// As it is called in what is printed.
pub(super) const OPENSM: &str = "opensm";
/// Its log, in the run's folder.
const LOG: &str = "osm.log";
/// What its log says when every port is up.
const UP: &str = "SUBNET UP";
/// When no further view came for so long, the manager has done what it does about a fault.
const QUIET: Duration = Duration::from_millis(2_500);
/// However long that takes.
const LONGEST: Duration = Duration::from_secs(60);

/// Who keeps the subnet.
pub(super) const fn name(keeper: Keeper) -> &'static str {
    match keeper {
        Keeper::Snin => "snin-sm",
        Keeper::OpenSm => OPENSM,
    }
}

/// What snin-sm's settings say of it.
pub(super) fn settings(args: &Up) -> String {
    match (args.manager, args.lmc) {
        (Keeper::OpenSm, _) => "read_only = true\n".to_owned(),
        (Keeper::Snin, Some(lmc)) => format!("lmc = {lmc}\n"),
        (Keeper::Snin, None) => String::new(),
    }
}

/// The least LMC that has an address for every tree.
fn lmc(args: &Up, topology: &Topology) -> u8 {
    let trees = || {
        let clos = recognise(topology, &Hosts::of(topology)).ok()?;
        Lmc::at_least(Forest::grow(topology, &clos).len())
    };
    args.lmc.unwrap_or_else(|| trees().unwrap_or_default().bits())
}

/// A program of Debian's, which may lie where only root looks.
fn found(
    children: &Children,
    program: &'static str,
    package: &'static str,
) -> Result<Command, UpError> {
    let usual = || {
        let place = std::path::Path::new("/usr/sbin").join(program);
        place.is_file().then(|| Command::new(place)).ok_or(UpError::NoKeeper(program, package))
    };
    children.command(program).or_else(|_| usual())
}

/// Starts OpenSM at the last host, and waits until it has brought the subnet up.
pub(super) fn start(
    args: &Up,
    folder: &Folder,
    topology: &Topology,
    children: &mut Children,
) -> Result<(), UpError> {
    let path = |name: &str| folder.path().join(name);
    let failed = |error| UpError::Start { program: OPENSM, error };
    let mut text = format!("force_log_flush TRUE\nlmc {}\n", lmc(args, topology));
    if let Some(engine) = &args.routing_engine {
        text += &format!("routing_engine {engine},no_fallback\n");
    }
    fs::write(path("opensm.conf"), text).map_err(failed)?;
    let opensm = found(children, OPENSM, OPENSM)?;
    // It preloads what stands for libibumad's devices, and becomes OpenSM.
    let mut command = found(children, "ibsim-run", "ibsim-utils")?;
    command.arg(opensm.get_program()).arg("--config").arg(path("opensm.conf"));
    command.arg("--log_file").arg(path(LOG)).args(["--erase_log_file", "-D", "0x03"]);
    command.env("IBSIM_SOCKNAME", folder.fabric()).env_remove("LD_PRELOAD");
    command.env("OSM_CACHE_DIR", folder.path()).env("OSM_TMP_DIR", folder.path());
    let mut hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    if let Some(last) = hosts.next_back() {
        command.env("SIM_HOST", &*topology.node(last).name);
    }
    children.start(OPENSM, OPENSM, command)?;
    wait_up(children)?;
    // Links come up once more after it has changed their MTU.
    let status = json!({ "command": "status" });
    children.wait(OPENSM, |children| {
        let cables = &children.ask("emulator.sock", &status)?["cables"];
        let all = cables["active"] == cables["all"];
        all.then_some(())
            .ok_or_else(|| format!("{} of {} cables are ACTIVE", cables["active"], cables["all"]))
    })
}

/// Waits until its log says that every port is up.
fn wait_up(children: &mut Children) -> Result<(), UpError> {
    let log = children.path(LOG);
    children.wait(OPENSM, |_| {
        let said = fs::read(&log).unwrap_or_default();
        let is_up = String::from_utf8_lossy(&said).contains(UP);
        is_up.then_some(()).ok_or_else(|| "the subnet is not up".to_owned())
    })
}

/// Kills it and starts it again, and waits until it has brought the subnet up.
pub(super) fn restart(children: &mut Children) -> Result<(), UpError> {
    // What the last one said is not to be taken for this one's.
    let _ = fs::remove_file(children.path(LOG));
    children.restart(OPENSM)?;
    wait_up(children)
}

/// What a manager that stays did about a fault.
#[derive(Serialize)]
pub(super) struct Changed {
    /// From the fault until nothing new was granted, since a change was seen; none: nothing was seen.
    pub(super) noticed_ms: Option<f64>,
    /// Until its tables were read twice alike, and were granted on.
    pub(super) settled_ms: f64,
    /// How often a directed link had two owners until then.
    pub(super) clashes: u64,
}

/// Before a fault.
pub(super) struct Change {
    begin: Instant,
    version: u64,
    unusable: usize,
    clashes: u64,
}

impl Change {
    /// How it is now, where another manager keeps the subnet.
    pub(super) fn before(children: &mut Children) -> Result<Option<Self>, UpError> {
        if !children.runs(OPENSM) {
            return Ok(None);
        }
        let (version, unusable, _) = view(children)?;
        let clashes = clashes(children)?;
        Ok(Some(Self { begin: Instant::now(), version, unusable, clashes }))
    }

    /// Waits until its tables are as they stay, and what is sent follows them.
    pub(super) fn follow(
        self,
        children: &mut Children,
        changes: &mut Vec<Changed>,
    ) -> Result<Option<String>, UpError> {
        let Self { begin, version, unusable: known, clashes: before } = self;
        let (mut last, mut since, mut noticed) = (version, None, None);
        loop {
            children.look()?;
            let (now, unusable, trees) = view(children)?;
            // While all is paused it is every pair of a leaf and a tree; a cable takes one.
            let is_up = unusable <= known + trees;
            if now != last {
                noticed.get_or_insert_with(|| begin.elapsed());
                (last, since) = (now, Some(begin.elapsed()));
            }
            let quiet = begin.elapsed() - since.unwrap_or_default();
            if is_up && quiet > QUIET || quiet > LONGEST {
                break;
            }
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let clashes = clashes(children)? - before;
        let settled = since.unwrap_or_default();
        changes.push(Changed { noticed_ms: noticed.map(ms), settled_ms: ms(settled), clashes });
        Ok(noticed.map(|noticed| {
            format!(
                "  the change was seen after {:.0} ms and all paused; OpenSM's new tables were read twice alike \
                 after {:.0} ms; until then links had two owners {clashes} times",
                ms(noticed),
                ms(settled)
            )
        }))
    }
}

/// The version of the view, how much of it is not granted, and how many trees there are.
fn view(children: &mut Children) -> Result<(u64, usize, usize), UpError> {
    let status = children.request("sm.sock", &manager::GetStatus {});
    let status = status.map_err(|why| UpError::Script(format!("snin-sm: {why}")))?;
    let subnet = status.subnet.as_ref();
    Ok(subnet.map_or((0, 0, 0), |subnet| (subnet.version, subnet.unusable_pairs, subnet.trees)))
}

fn clashes(children: &mut Children) -> Result<u64, UpError> {
    let said = children.ask("emulator.sock", &json!({ "command": "owners" }));
    let said = said.map_err(|why| UpError::Script(format!("the emulator: {why}")))?;
    Ok(said["clashes"].as_u64().unwrap_or_default())
}
