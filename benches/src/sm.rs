//! snin-sm beside OpenSM, both as processes on the same fabric, which ibsim simulates: bringing it up, and one
//! cable cut and put back. The two take turns; each time is on a fabric that was just switched on. Both do the
//! same work: OpenSM writes no tables of lanes by default, so snin-sm writes none either (`granted_sl = 0`). In
//! the case `lanes` both do: OpenSM has `qos TRUE`.
//!
//! `SNIN_CASE=36,18,18` measures only what is so called.
//!
//! What cannot be had for less is the *floor*: the very MADs of a bring-up, sent by a loop that does nothing
//! else.

pub(crate) mod cut;
mod floor;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use snin_fabric::generate::Recipe;
use snin_fabric::{Lmc, PortIndex, Topology, hosts::Hosts, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator};

use crate::{Outcome, Size, built};

/// What the field's manager may have in flight in place of its 4.
const MANY: u32 = 64;
/// Beside the repository, not in it.
const REAL: &str = "topologies/dgx-gb200-2025.ibnetdiscover";

/// A fabric and how it is addressed.
pub(crate) struct Case {
    /// Which benchmark it belongs to.
    pub(crate) bench: &'static str,
    pub(crate) name: String,
    pub(crate) topology: Topology,
    pub(crate) lmc: u8,
    pub(crate) runs: usize,
    /// Whether a cable is cut as well.
    cuts: bool,
    /// Whether both write tables of service levels and lanes.
    lanes: bool,
}

/// Milliseconds to bring a fabric up, then milliseconds and SMPs that a cut costs.
///
/// # Panics
/// Where a program is missing, or does not bring the fabric up.
pub fn run(size: Size) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let only = std::env::var("SNIN_CASE").unwrap_or_default();
    for case in cases(size).into_iter().filter(|case| case.name.contains(&only)) {
        let measured = bring_up(&case).and_then(|mut up| {
            if case.cuts {
                let cable = cut::Piece::cable(&case.topology, a_cable(&case.topology));
                up.extend(cut::run(&case, &cable, 1)?);
            }
            Ok(up)
        });
        outcomes.extend(measured.unwrap_or_else(|error| panic!("{}: {error}", case.name)));
    }
    outcomes
}

fn cases(size: Size) -> Vec<Case> {
    let generated = |recipe: &str, lmc, runs, cuts| {
        let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
        Case { cuts, ..Case::of("sm", recipe, topology, lmc, runs) }
    };
    if size == Size::Small {
        let lanes = Case { lanes: true, ..generated("clos:6,3,3", 2, 1, false) };
        return vec![generated("clos:6,3,3", 2, 1, true), lanes];
    }
    let mut cases = vec![
        generated("clos:36,18,18", 0, 5, true),
        generated("clos:36,18,18", 4, 5, true),
        generated("clos:36,18,18", 5, 5, false),
        Case { lanes: true, ..generated("clos:36,18,18", 4, 3, false) },
        generated("clos:56,32,32", 4, 3, false),
        // 3,888 hosts below 12 pods.
        generated("fattree:36,12", 0, 3, true),
    ];
    cases.extend(real().map(|topology| Case::of("sm", "DGX", topology, 5, 5)));
    cases
}

/// The real fabric, where it is at hand.
fn real() -> Option<Topology> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let text = fs::read(shared.join(REAL)).ok()?;
    Some(ibnet::parse(&text).expect("ibnetdiscover's text"))
}

impl Case {
    pub(crate) fn of(
        bench: &'static str,
        name: &str,
        topology: Topology,
        lmc: u8,
        runs: usize,
    ) -> Self {
        let name = name.to_owned();
        Self { bench, name, topology, lmc, runs, cuts: false, lanes: false }
    }

    fn fabric(&self) -> Result<Simulator, JudgeError> {
        Simulator::start(&ibnet::write(&self.topology))
    }

    /// `what` of this case, beside a peer's.
    fn outcome(
        &self,
        what: &str,
        unit: &'static str,
        ours: f64,
        peer: (&str, f64),
        hash: u64,
    ) -> Outcome {
        let hosts = Hosts::of(&self.topology).len();
        Outcome {
            bench: self.bench,
            case: format!("{} ({hosts} hosts) LMC {}: {what}", self.name, self.lmc),
            unit,
            ours,
            peer: peer.1,
            peer_name: peer.0.to_owned(),
            paired: None,
            hash,
        }
    }

    fn opensm(&self, engine: Option<&'static str>, max_smps: Option<u32>) -> OpenSm<'static> {
        let options = self.lanes.then_some("qos TRUE\n");
        OpenSm { lmc: self.lmc, engine, max_smps, options, ..OpenSm::default() }
    }

    /// Whichever of OpenSM's engines brings it up soonest.
    fn fastest_engine(&self) -> Result<Option<&'static str>, JudgeError> {
        let fat_tree = (self.lmc == 0).then_some(Some("ftree"));
        let mut best: Option<(Duration, Option<&str>)> = None;
        for engine in [None, Some("updn")].into_iter().chain(fat_tree) {
            // An engine that does not take this fabric is out of the race; the default takes any.
            match self.opensm(engine, Some(MANY)).time(&self.fabric()?) {
                Ok(time) if best.is_none_or(|(least, _)| time < least) => {
                    best = Some((time, engine));
                }
                Err(error) if engine.is_none() => return Err(error),
                _ => {}
            }
        }
        Ok(best.and_then(|(_, engine)| engine))
    }
}

fn bring_up(case: &Case) -> Result<Vec<Outcome>, JudgeError> {
    let engine = case.fastest_engine()?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    let mut hash = 0;
    for _ in 0..case.runs {
        times[0].push(ours(case)?);
        times[1].push(case.opensm(engine, None).time(&case.fabric()?)?);
        times[2].push(case.opensm(engine, Some(MANY)).time(&case.fabric()?)?);
        let (floor, written) = floor::run(case)?;
        times[3].push(floor);
        hash = written;
    }
    let [ours, default, many, floor] = times.map(median);
    let engine = engine.unwrap_or("minhop");
    let what = if case.lanes { "up with lanes" } else { "up" };
    let peers = [
        (format!("opensm {engine}"), default),
        (format!("opensm {engine} --maxsmps {MANY}"), many),
        ("the same MADs and nothing else".to_owned(), floor),
    ];
    // The floor's MADs are those without lanes.
    let peers = &peers[..if case.lanes { 2 } else { 3 }];
    let line =
        |(name, theirs): &(String, f64)| case.outcome(what, "ms", ours, (name, *theirs), hash);
    Ok(peers.iter().map(line).collect())
}

/// From the start of the process to its end.
fn ours(case: &Case) -> Result<Duration, JudgeError> {
    let simulator = case.fabric()?;
    let mut command = manager(case, &simulator)?;
    let begin = Instant::now();
    let output = command.arg("--once").output().map_err(JudgeError::file(command.get_program()))?;
    let took = begin.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(took)
}

/// snin-sm on the fabric's first host.
fn manager(case: &Case, simulator: &Simulator) -> Result<Command, JudgeError> {
    let mut command = Command::new(built("snin-sm"));
    command.current_dir(simulator.folder()).args(["--ibsim", simulator.name()]);
    command.args(["--lmc", &case.lmc.to_string()]);
    if !case.lanes {
        let config = simulator.folder().join("sm.toml");
        fs::write(&config, "granted_sl = 0\n").map_err(JudgeError::file(&config))?;
        command.arg("--config").arg(config);
    }
    Ok(command)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// The first cable from a leaf up.
fn a_cable(topology: &Topology) -> PortIndex {
    let between =
        |&(_, peer): &(PortIndex, PortIndex)| topology.is_switch(topology.port(peer).node);
    let leaf =
        topology.switches().find(|&switch| topology.cables(switch).any(|cable| !between(&cable)));
    let leaf = leaf.expect("a leaf");
    topology.cables(leaf).find(between).expect("a cable between switches").0
}

/// The address block size as the core takes it.
fn lmc(case: &Case) -> Option<u8> {
    Lmc::new(case.lmc).map(Lmc::bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        assert_eq!(outcomes.len(), 3 + 6 + 2);
        assert!(outcomes.iter().all(|outcome| outcome.ours > 0.0 && outcome.peer > 0.0));
    }
}
