//! Generated M_Keys: one or one a port, changed while everything works, and known again after a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_emulator::{Config as Hardware, Fault};
use snin_mad::MKey;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::keys::{KeyPolicy, KeySecret};
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, Missing, Sweep};

use crate::support::{Lab, config, fabric};

fn policy(policy: KeyPolicy, level: u8) -> Config {
    Config { m_key_policy: policy, m_key_protect: level, m_key_lease_s: 0, ..config(1) }
}

fn secret() -> Saved {
    let keys = Some(KeySecret { secret: [0x5A; 32], generation: 0 });
    Saved { keys, ..Saved::default() }
}

fn lab(config: &Config) -> Lab {
    let mut lab = Lab::of(fabric("clos:4,2,3"), Hardware::default(), self::config(1));
    lab.sweep = Sweep::new(config.clone(), secret()).unwrap();
    lab.saved = Arc::new(secret());
    lab
}

/// The keys of all ports that have addresses.
fn keys(lab: &Lab) -> Vec<MKey> {
    let view = lab.view();
    let key = |(port, ..): (_, _, _)| {
        let name = view.topology().port_name(port);
        let (node, number) = name.rsplit_once('/').unwrap();
        lab.emulator.fabric().port_info(lab.port(node, number.parse().unwrap())).m_key
    };
    view.addresses().iter().map(key).collect()
}

fn rotate(lab: &mut Lab) {
    let now = lab.now();
    lab.sweep.handle(Event::RotateKeys, now);
}

#[track_caller]
fn guarded(lab: &Lab, policy: KeyPolicy) -> BTreeSet<MKey> {
    lab.check();
    assert_eq!(lab.missing(), []);
    let keys = keys(lab);
    assert!(!keys.contains(&MKey(0)));
    let different: BTreeSet<MKey> = keys.iter().copied().collect();
    let expected = if policy == KeyPolicy::PerPort { keys.len() } else { 1 };
    assert_eq!(different.len(), expected);
    different
}

fn policies() -> impl Iterator<Item = (KeyPolicy, u8)> {
    [(KeyPolicy::One, 0), (KeyPolicy::One, 1), (KeyPolicy::One, 2), (KeyPolicy::One, 3)]
        .into_iter()
        .chain([(KeyPolicy::PerPort, 0), (KeyPolicy::PerPort, 1)])
}

#[test]
fn keys_are_generated_rotated_and_known_after_a_restart() {
    for (kind, level) in policies() {
        let config = policy(kind, level);
        let mut lab = lab(&config);
        lab.bring_up();
        let first = guarded(&lab, kind);
        let writes = lab.emulator.stats().writes;
        let mut lab = lab.restarted(config.clone());
        lab.bring_up();
        assert_eq!(guarded(&lab, kind), first, "{kind:?} {level}");
        assert_eq!(lab.emulator.stats().writes, writes, "{kind:?} {level}");

        rotate(&mut lab);
        lab.settle();
        let second = guarded(&lab, kind);
        assert!(second.is_disjoint(&first), "{kind:?} {level}");
        // One write a port that is guarded: six switches and twelve hosts.
        assert_eq!(lab.emulator.stats().writes - writes, 18, "{kind:?} {level}");
        let mut lab = lab.restarted(config);
        lab.bring_up();
        assert_eq!(guarded(&lab, kind), second, "{kind:?} {level}");
    }
}

#[test]
fn a_change_of_keys_that_was_broken_off_is_finished() {
    for (kind, level) in policies() {
        for after in [2, 5, 9] {
            let config = policy(kind, level);
            let mut lab = lab(&config);
            lab.bring_up();
            let first = guarded(&lab, kind);
            rotate(&mut lab);
            lab.run(Time::micros(after));
            let held: BTreeSet<MKey> = keys(&lab).into_iter().collect();
            let mut lab = lab.restarted(config);
            lab.bring_up();
            lab.run(Time::secs(11));
            lab.settle();
            let last = guarded(&lab, kind);
            assert!(last.is_disjoint(&first), "{kind:?} {level} {after}: {} before", held.len());
        }
    }
}

#[test]
fn who_missed_changes_is_known_by_the_keys_of_the_past() {
    for (kind, level) in policies().filter(|&(_, level)| level < 2) {
        for name in ["host5", "leaf2", "spine1"] {
            let config = policy(kind, level);
            let mut lab = lab(&config);
            lab.bring_up();
            let up = if name == "host5" { 1 } else { 0 };
            let own = lab.port(name, up);
            let cables: Vec<_> =
                lab.topology.cables(lab.node(name)).map(|(port, _)| port).collect();
            cables.iter().for_each(|&cable| lab.strike(Fault::Cut(cable)));
            lab.run(Time::secs(11));
            lab.settle();
            let before = lab.emulator.fabric().port_info(own).m_key;
            for _ in 0..3 {
                rotate(&mut lab);
                lab.settle();
            }
            cables.iter().for_each(|&cable| lab.strike(Fault::Restore(cable)));
            lab.run(Time::secs(22));
            lab.settle();
            guarded(&lab, kind);
            assert_ne!(lab.emulator.fabric().port_info(own).m_key, before, "{kind:?} {name}");
        }
    }
}

#[test]
fn from_the_operators_key_to_generated_ones_and_a_strangers_key_is_named() {
    let given = Config { m_key: 0x77, ..policy(KeyPolicy::Given, 1) };
    let mut lab = lab(&given);
    lab.bring_up();
    let stranger = lab.port("host5", 1);
    lab.emulator.protect(stranger, MKey(0x99), 1, 0);
    let mut lab = lab.restarted(Config { m_key: 0x77, ..policy(KeyPolicy::PerPort, 1) });
    lab.bring_up();
    let missing = lab.missing();
    assert!(
        matches!(&missing[..], [Missing::Locked { name, .. }] if name == "host5"),
        "{missing:?}"
    );
    assert!(!keys(&lab).contains(&MKey(0x77)));
    lab.emulator.protect(stranger, MKey(0x77), 1, 0);
    lab.run(Time::secs(11));
    lab.settle();
    guarded(&lab, KeyPolicy::PerPort);
}
