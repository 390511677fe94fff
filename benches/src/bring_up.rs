//! SMPs of one bring-up on the emulated fabric, by attribute beside OpenSM's, and what many in flight save.
//!
//! OpenSM 3.3.23's figures are of its own bring-up of the same 648-host fabric, counted by ibsim 0.10; the
//! goals are the shares of them that this project set itself.

use snin_emulator::Config as Hardware;
use snin_fabric::generate::Recipe;
use snin_protocol::Time;
use snin_sm_database::config::Config;

use snin_lab::subnet::Subnet;

use crate::{Hash, Outcome, Size};

const PATIENCE: Time = Time::secs(600);

/// What OpenSM sends for 648 hosts on 36 x 18 at any LMC, by attribute.
const OPENSM: [(&str, u64); 5] = [
    ("NodeDescription", 702),
    ("NodeInfo", 1_892),
    ("SwitchInfo", 162),
    ("PortInfo", 11_772),
    ("P_KeyTable", 5_238),
];
/// LMC, OpenSM's table blocks, the share of its SMPs that is the goal.
const OPENSM_BLOCKS: [(u8, u64, f64); 3] = [(0, 594, 0.62), (4, 9_504, 0.72), (5, 17_982, 0.80)];

/// SMPs by attribute and in all; nanoseconds of virtual time with many in flight and with one.
///
/// # Panics
/// Where the fabric does not come up.
pub fn run(size: Size) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (lmc, blocks, share) in OPENSM_BLOCKS {
        if size == Size::Small && lmc == 5 {
            continue;
        }
        let config = Config { lmc: Some(lmc), ..Config::default() };
        let (subnet, _) = up("clos:36,18,18", config);
        let sent = subnet.metrics().by_name();
        let of = |attribute: &str| -> u64 {
            let of = |name: &str| name.split(['(', ')']).nth(1) == Some(attribute);
            sent.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum()
        };
        let mut hash = Hash::default();
        sent.iter().for_each(|(name, count)| {
            hash.bytes(name.as_bytes());
            hash.number(*count);
        });
        let case = |attribute: &str| format!("36 x 18 x 18, LMC {lmc}: {attribute}");
        let line = |attribute: &str, ours: u64, peer: u64| Outcome {
            bench: "bring-up",
            case: case(attribute),
            unit: "SMPs",
            ours: ours as f64,
            peer: peer as f64,
            peer_name: "OpenSM".to_owned(),
            paired: None,
            hash: hash.0,
        };
        for (attribute, theirs) in OPENSM {
            outcomes.push(line(attribute, of(attribute), theirs));
        }
        outcomes.push(line("LinearForwardingTable", of("LinearForwardingTable"), blocks));
        let theirs = OPENSM.iter().map(|(_, count)| count).sum::<u64>() + blocks;
        let total = line("all", subnet.metrics().smps(), theirs);
        assert!(total.ours / total.peer <= share, "LMC {lmc}: {} of {theirs}", total.ours);
        outcomes.push(total);
    }
    outcomes.push(pipelining(if size == Size::Full { "clos:36,18,18" } else { "clos:8,4,4" }));
    outcomes
}

/// Virtual time with 10 us a MAD: many in flight beside one.
fn pipelining(recipe: &str) -> Outcome {
    let time = |config: Config| up(recipe, config).1.nanos() as f64 / 1e6;
    let many = time(Config::default());
    let one = time(Config { window: 1, window_max: 1, ..Config::default() });
    Outcome {
        bench: "bring-up",
        case: format!("{recipe}, 10 us a MAD: virtual time"),
        unit: "ms",
        ours: many,
        peer: one,
        peer_name: "one SMP in flight".to_owned(),
        paired: None,
        hash: 0,
    }
}

fn up(recipe: &str, config: Config) -> (Subnet, Time) {
    let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let hardware = Hardware { agent_latency: Time::micros(10), ..Hardware::default() };
    let mut subnet = Subnet::new(&topology, hardware, config).expect("a subnet");
    let cost = subnet.bring_up(PATIENCE);
    assert_eq!(subnet.missing(), [], "{recipe}");
    let cables = subnet.cables();
    assert_eq!(cables.active, cables.all, "{recipe}");
    (subnet, cost.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        assert!(outcomes.iter().all(|outcome| outcome.ours < outcome.peer * 1.01), "{outcomes:?}");
        let last = outcomes.last().expect("pipelining");
        assert!(last.ours * 5.0 < last.peer, "{last:?}");
    }
}
