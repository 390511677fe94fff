//! The master is killed (kill -9) and a standby takes over, on a fabric that ibsim simulates: our two managers,
//! of which one mirrors the other, and OpenSM to OpenSM.
//!
//! Before each kill a host registers groups and services; afterwards it is counted what the new master does not
//! know. Time begins with the kill, and from detection on where the new master says when that was; it ends when
//! every port has the new master's address and a Get(PathRecord) was answered, and when the copy was verified. The
//! *floor* is what the Sets of PortInfo alone take, sent by a loop that does nothing else.
//!
//! Mirroring is measured by itself, with 11,664 hosts.

mod host;
mod mirroring;
pub(crate) mod ours;

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator};

use crate::{Outcome, Size};
use host::Host;

/// Groups that a host is in, and services that it offers.
const GROUPS: u8 = 16;
const SERVICES: u64 = 64;
/// However long a manager takes to notice.
const PATIENCE: Duration = Duration::from_secs(240);

/// One failover.
#[derive(Clone, Copy, Debug, Default)]
struct Failover {
    /// From the kill until a path was answered, in seconds.
    answered: f64,
    /// From detection until every port has the new master's address and a path was answered, where that is known.
    moved: f64,
    /// From detection until all that was recalled was looked at.
    verified: f64,
    /// Ports with another manager's address after that.
    wrong: u64,
    /// Blocks of tables that were written.
    blocks: u64,
    /// Groups and services that are not known any more.
    lost: u64,
}

/// Milliseconds from the kill and from detection, table blocks written and records lost, beside OpenSM.
///
/// # Panics
/// Where a program is missing, or no manager takes over.
pub fn run(size: Size) -> Vec<Outcome> {
    let (recipe, kills, theirs) = match size {
        Size::Small => ("clos:4,2,3", 3, 0),
        Size::Full => ("clos:36,18,18", number("SNIN_KILLS", 100), number("SNIN_PEERS", 3)),
    };
    let fabric =
        |recipe: &str| recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let topology = fabric(recipe);
    let lines = measure(recipe, &topology, kills, theirs);
    let mut lines = lines.unwrap_or_else(|error| panic!("{recipe}: {error}"));
    let large = if size == Size::Full { "fattree:36" } else { recipe };
    lines.extend(mirroring(large, &fabric(large)));
    lines
}

fn mirroring(recipe: &str, topology: &Topology) -> Vec<Outcome> {
    let mirroring = mirroring::run(topology);
    let line = |what: &str, unit, ours| Outcome {
        bench: "failover",
        case: format!("{recipe}: {what}"),
        unit,
        ours,
        peer: 0.0,
        peer_name: "no peer mirrors".to_owned(),
        paired: Some(ours),
        hash: 0,
    };
    vec![
        line("mirrored whole", "s", mirroring.seconds),
        line("mirrored whole", "bytes", mirroring.bytes as f64),
        line("mirrored, a change", "bytes", mirroring.bytes_a_change),
    ]
}

fn measure(
    recipe: &str,
    topology: &Topology,
    kills: usize,
    theirs: usize,
) -> Result<Vec<Outcome>, JudgeError> {
    let (ours, floor) = ours::run(topology, kills)?;
    let opensm: Vec<Failover> =
        (0..theirs).map(|_| opensm(topology)).collect::<Result<_, JudgeError>>()?;
    let line = |case: String, unit, ours: f64, peer: f64, peer_name: &str| Outcome {
        bench: "failover",
        case: format!("{recipe}, {kills} kills: {case}"),
        unit,
        ours,
        peer,
        peer_name: peer_name.to_owned(),
        // Of what shall not be there at all, there is no ratio.
        paired: (peer == 0.0).then_some(ours),
        hash: 0,
    };
    let moved = median(ours.iter().map(|one| one.moved));
    let verified = median(ours.iter().map(|one| one.verified));
    let sum = |all: &[Failover], of: fn(&Failover) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let mut lines = vec![
        line(
            "from detection until every port is told and a path is answered".to_owned(),
            "ms",
            moved * 1e3,
            floor * 1e3,
            "the same Sets and nothing else",
        ),
        line(
            "from detection until the copy is verified".to_owned(),
            "ms",
            verified * 1e3,
            floor * 1e3,
            "the same Sets and nothing else",
        ),
        line("ports told otherwise".to_owned(), "", sum(&ours, |one| one.wrong), 0.0, "goal"),
        line("table blocks written".to_owned(), "", sum(&ours, |one| one.blocks), 0.0, "goal"),
        line("groups, services lost".to_owned(), "", sum(&ours, |one| one.lost), 0.0, "goal"),
    ];
    let answered = median(ours.iter().map(|one| one.answered));
    if theirs == 0 {
        return Ok(lines);
    }
    let peer = median(opensm.iter().map(|one| one.answered));
    let lost = sum(&opensm, |one| one.lost) / theirs as f64;
    let each = sum(&ours, |one| one.lost) / kills as f64;
    lines.extend([
        line("from kill -9 to a path".to_owned(), "s", answered, peer, "opensm"),
        line("groups, services lost each time".to_owned(), "", each, lost, "opensm"),
    ]);
    Ok(lines)
}

/// What a variable says, or else this.
pub(crate) fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The names of hosts in the netlist.
pub(crate) fn hosts(topology: &Topology) -> Vec<String> {
    let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    hosts.map(|node| format!("H-{:016x}", topology.node(node).guid.0)).collect()
}

/// OpenSM to OpenSM, with its defaults.
fn opensm(topology: &Topology) -> Result<Failover, JudgeError> {
    let simulator = Simulator::start(&ibnet::write(topology))?;
    let hosts = hosts(topology);
    let start = |host: &String, priority| {
        let opensm = OpenSm { host: Some(host), priority: Some(priority), ..OpenSm::default() };
        opensm.keep(&simulator)
    };
    let master = start(&hosts[0], 9)?;
    let mut host = Host::new(&simulator, &hosts[1]);
    host.find_manager(topology.node_count());
    let _standby = start(hosts.last().expect("hosts"), 3)?;
    host.register();
    // The standby has to have met the master.
    sleep(Duration::from_secs(12));
    let begin = Instant::now();
    kill(master.id());
    host.find_manager(topology.node_count());
    let answered = begin.elapsed().as_secs_f64();
    sleep(Duration::from_secs(2));
    Ok(Failover { answered, lost: host.count_lost(), ..Failover::default() })
}

pub(crate) fn kill(process: u32) {
    let killed = Command::new("kill").args(["-s", "KILL", &process.to_string()]).status();
    assert!(killed.expect("kill").success(), "{process} cannot be killed");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Killed three times, ours loses nothing and writes no table.
    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        let of = |what: &str| outcomes.iter().find(|one| one.case.ends_with(what)).unwrap().ours;
        assert_eq!((of("table blocks written"), of("groups, services lost")), (0.0, 0.0));
        assert_eq!(of("ports told otherwise"), 0.0);
        assert!(of("and a path is answered") > 0.0);
        let change = of("mirrored, a change");
        assert!((100.0..2_000.0).contains(&change), "{change} bytes");
    }
}
