//! Random faults at random moments: never a panic, never a hang, never a wrong table.
//!
//! `SNIN_SCENARIOS` says how many (a few by default), `SNIN_SEED` where they begin, `SNIN_TELL` tells what
//! happens in each.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Config as Hardware, Fault, Health, Noise};
use snin_fabric::{NodeIndex, PortIndex, Topology};
use snin_mad::PortState;
use snin_protocol::Time;
use snin_sm_database::config::Config;

use crate::support::{Lab, config, fabric, for_seeds};

const FABRICS: [&str; 9] = [
    "clos:2,2,2",
    "clos:4,3,2",
    "clos:3,2,3,2",
    "clos:6,3,2",
    "fattree:4",
    "fattree:4,3",
    "fattree:6,2",
    "pods:2,2,4,4,1,2",
    "clos:1,1,3",
];

#[test]
fn whatever_goes_wrong_is_put_right_in_the_end() {
    for_seeds("SNIN_SCENARIOS", 400, scenario);
}

struct Damage {
    cables: Vec<PortIndex>,
    switched_off: Vec<NodeIndex>,
    agents: Vec<NodeIndex>,
    twins: Vec<NodeIndex>,
}

fn scenario(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topology = fabric(FABRICS.choose(&mut random).unwrap());
    let mut part =
        |most: u32| if random.random_bool(0.5) { 0 } else { random.random_range(0..most) };
    let noise =
        Noise { drop: part(20_000), duplicate: part(20_000), reorder: part(50_000), corrupt: 0 };
    let hardware = Hardware { seed, noise, ..Hardware::default() };
    let config = Config {
        // Every other one with keys, of every level, leased and not.
        m_key: seed % 2 * 0x0123_4567_89AB_CDEF,
        m_key_protect: (seed / 2 % 4) as u8,
        m_key_lease_s: (seed / 8 % 2 * 5) as u16,
        ..config(random.random_range(0..3))
    };
    let mut lab = Lab::of(topology.clone(), hardware, config);
    lab.start();
    let mut damage = Damage { cables: vec![], switched_off: vec![], agents: vec![], twins: vec![] };
    for _ in 0..random.random_range(1..8) {
        lab.run(moment(&mut random));
        let fault = fault(&mut random, &topology, &mut damage);
        if std::env::var("SNIN_TELL").is_ok() {
            println!("{} {}", lab.now(), told(&topology, &fault));
        }
        let twin = matches!(fault, Fault::NodeGuid(..));
        lab.strike(fault);
        if twin && let Some(&node) = damage.twins.last() {
            lab.strike(Fault::Reboot(node, Time::millis(1)));
        }
    }
    lab.run(moment(&mut random));
    // All is mended, and the noise ends.
    lab.strike(Fault::Noise(Noise::NONE));
    damage.cables.iter().for_each(|&cable| lab.strike(Fault::Restore(cable)));
    damage.switched_off.iter().for_each(|&node| lab.strike(Fault::PowerOn(node)));
    damage.agents.iter().for_each(|&node| lab.strike(Fault::Agent(node, Health::Well)));
    for &twin in &damage.twins {
        // A GUID is the hardware's: another one means that the node was off for a while.
        lab.strike(Fault::NodeGuid(twin, topology.node(twin).guid));
        lab.strike(Fault::Reboot(twin, Time::millis(1)));
    }
    lab.run(Time::secs(90));
    lab.settle();
    let hardware = lab.emulator.fabric();
    let down = topology.ports().filter(|&port| {
        topology.peer(port).is_some() && hardware.port_state(port) != PortState::Active
    });
    let down: Vec<String> = down
        .map(|port| format!("{} {}", topology.port_name(port), hardware.port_state(port)))
        .collect();
    assert!(down.is_empty() && lab.missing().is_empty(), "{down:?} {:?}", lab.missing());
    lab.check();
    assert_eq!(lab.view().topology().node_count(), topology.node_count());
}

/// Now and then within a bring-up, now and then long after.
fn moment(random: &mut impl Rng) -> Time {
    let most = [100, 3_000, 30_000, 3_000_000].choose(random).copied().unwrap_or(1);
    Time::micros(random.random_range(0..most))
}

fn fault(random: &mut impl Rng, topology: &Topology, damage: &mut Damage) -> Fault {
    let cabled = |port: &PortIndex| topology.peer(*port).is_some();
    let cables: Vec<PortIndex> = topology.ports().filter(cabled).collect();
    let cable = *cables.choose(random).unwrap();
    let nodes: Vec<NodeIndex> = topology.nodes().collect();
    let node = *nodes.choose(random).unwrap();
    // The manager's own host stays on, and keeps its name.
    let own = topology.nodes().nth(topology.switch_count()).unwrap();
    match random.random_range(0..9) {
        0 | 1 => {
            damage.cables.push(cable);
            Fault::Cut(cable)
        }
        2 => Fault::Bounce(cable),
        3 if node != own => {
            damage.switched_off.push(node);
            Fault::PowerOff(node)
        }
        4 if node != own => Fault::Reboot(node, moment(random)),
        5 => {
            damage.agents.push(node);
            Fault::Agent(node, Health::Dead)
        }
        6 => {
            damage.agents.push(node);
            Fault::Agent(node, Health::Slow(moment(random) / 10))
        }
        7 if node != own => {
            damage.twins.push(node);
            Fault::NodeGuid(node, topology.node(*nodes.choose(random).unwrap()).guid)
        }
        _ => Fault::Rename(node, format!("renamed-{}", random.random_range(0..100))),
    }
}

fn told(topology: &Topology, fault: &Fault) -> String {
    let place = match fault {
        Fault::Cut(port) | Fault::Bounce(port) | Fault::Restore(port) => topology.port_name(*port),
        Fault::PowerOff(node)
        | Fault::Reboot(node, _)
        | Fault::Agent(node, _)
        | Fault::NodeGuid(node, _)
        | Fault::Rename(node, _) => topology.node(*node).name.to_string(),
        _ => String::new(),
    };
    format!("{fault:?} {place}")
}
