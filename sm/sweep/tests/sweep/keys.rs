//! M_Keys, on agents that insist on them (IBA 14.2.4): set everywhere, shown with everything, defended while
//! leased, and another manager's named.

use snin_emulator::Config as Hardware;
use snin_mad::{Attribute, DrPath, MKey, PERMISSIVE, PortInfo, Route, Smp};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::Missing;

use crate::support::{Lab, config, fabric};

const KEY: MKey = MKey(0x0123_4567_89AB_CDEF);
const OTHER: MKey = MKey(0x77);
const LIGHT: Time = Time::secs(11);

fn guarded(key: MKey, level: u8, lease: u16) -> Config {
    Config { m_key: key.0, m_key_protect: level, m_key_lease_s: lease, ..config(1) }
}

fn lab(config: Config) -> Lab {
    Lab::of(fabric("clos:4,2,4"), Hardware::default(), config)
}

/// Key, level and lease of every port that has an address.
#[track_caller]
fn all_hold(lab: &Lab, key: MKey, level: u8, lease: u16) {
    let view = lab.view();
    for (port, ..) in view.addresses().iter() {
        let name = view.topology().port_name(port);
        let (node, number) = name.rsplit_once('/').unwrap();
        let info = lab.emulator.fabric().port_info(lab.port(node, number.parse().unwrap()));
        let held = (info.m_key, info.m_key_protect, info.m_key_lease_period);
        assert_eq!(held, (key, level, lease), "{name}");
    }
}

fn locked(lab: &Lab) -> Vec<String> {
    let name = |missing| match missing {
        Missing::Locked { name, .. } => name,
        other => panic!("{other}"),
    };
    lab.missing().into_iter().map(name).collect()
}

#[test]
fn every_port_is_guarded_and_a_restart_with_the_key_writes_nothing() {
    for level in 0..=3 {
        let mut lab = lab(guarded(KEY, level, 60));
        lab.bring_up();
        lab.check();
        assert_eq!(lab.missing(), []);
        all_hold(&lab, KEY, level, 60);
        let writes = lab.emulator.stats().writes;
        let mut lab = lab.restarted(guarded(KEY, level, 60));
        lab.bring_up();
        lab.check();
        assert_eq!((lab.missing(), lab.emulator.stats().writes), (vec![], writes));
        let cable = lab.port("leaf1", 5);
        lab.strike(snin_emulator::Fault::Cut(cable));
        lab.run(Time::secs(1));
        lab.settle();
        lab.check();
    }
}

/// Level 0 shows the key to every requester: a manager with another one, or none, puts that in its place.
#[test]
fn a_key_that_is_shown_is_exchanged() {
    let mut lab = lab(guarded(OTHER, 0, 0));
    lab.bring_up();
    for (key, level, lease) in [(KEY, 1, 60), (KEY, 0, 0), (MKey(0), 0, 0)] {
        lab = lab.restarted(guarded(key, level, lease));
        lab.bring_up();
        assert_eq!(lab.missing(), []);
        lab.check();
        all_hold(&lab, key, level, lease);
        let writes = lab.emulator.stats().writes;
        let now = lab.now();
        lab.sweep.handle(snin_sweep::Event::Resweep, now);
        lab.settle();
        assert_eq!(lab.emulator.stats().writes, writes);
    }
}

#[test]
fn a_node_with_a_hidden_key_is_named_and_left_alone() {
    for name in ["host5", "leaf2", "spine1"] {
        for own in [KEY, MKey(0)] {
            let mut lab = lab(guarded(own, 1, 0));
            let port = lab.port(name, if name == "host5" { 1 } else { 0 });
            lab.emulator.protect(port, OTHER, 1, 0);
            let before = lab.emulator.fabric().port_info(port);
            lab.bring_up();
            for _ in 0..2 {
                assert_eq!(locked(&lab), [name]);
                let without = lab.view().topology();
                assert!(without.nodes().all(|node| &*without.node(node).name != name));
                let after = lab.emulator.fabric().port_info(port);
                assert_eq!((after.lid, after.m_key), (before.lid, OTHER));
                lab.run(LIGHT);
                lab.settle();
            }
            // The operator puts it right.
            lab.emulator.protect(port, MKey(0), 0, 0);
            lab.run(LIGHT);
            lab.settle();
            assert_eq!(lab.missing(), [], "{name}");
            lab.check();
            all_hold(&lab, own, u8::from(own != MKey(0)), 0);
        }
    }
}

/// The operator gives another key, or none: every port has the one from before, which it hides. Each is named, and
/// taken over when the old key is named too.
#[test]
fn the_operator_s_former_key_is_tried() {
    for level in 1..=3 {
        for (key, level_then) in [(OTHER, 1), (MKey(0), 0)] {
            let mut lab = lab(guarded(KEY, level, 0));
            lab.bring_up();
            let alone = Config { m_key: key.0, m_key_protect: level_then, ..config(1) };
            let mut lab = lab.restarted(alone.clone());
            lab.start();
            lab.settle();
            // From level 2 on not even the own node says anything.
            let named =
                if level == 1 { !lab.missing().is_empty() } else { lab.sweep.view().is_none() };
            assert!(named, "level {level}: a port that hides its key is not well");
            let former = vec![0x99, KEY.0];
            let mut lab = lab.restarted(Config { former_m_keys: former, ..alone });
            lab.bring_up();
            assert_eq!(lab.missing(), [], "level {level}");
            lab.check();
            all_hold(&lab, key, level_then, 0);
        }
    }
}

/// However many they are, and however few can be tried at once: the others are brought up.
#[test]
fn most_nodes_are_somebody_elses() {
    let narrow = Config { window: 4, window_max: 8, ..guarded(KEY, 1, 0) };
    let mut lab = Lab::of(fabric("clos:6,4,8"), Hardware::default(), narrow);
    let names: Vec<String> = (8..48).map(|n| format!("host{n}")).collect();
    for name in &names {
        let port = lab.port(name, 1);
        lab.emulator.protect(port, OTHER, 1, 0);
    }
    lab.bring_up();
    let mut found = locked(&lab);
    found.sort_by_key(|name| name.len());
    assert_eq!(found, names);
    assert_eq!(lab.view().routing().hosts.len(), 8);
}

/// The manager cannot do without its own port, nor try for ever.
#[test]
fn the_own_port_is_somebody_elses() {
    let mut lab = lab(guarded(KEY, 1, 0));
    let port = lab.port("host0", 1);
    lab.emulator.protect(port, OTHER, 1, 0);
    lab.bring_up();
    assert_eq!(locked(&lab), ["host0"]);
    lab.emulator.protect(port, MKey(0), 0, 0);
    lab.run(LIGHT);
    lab.settle();
    assert_eq!(lab.missing(), []);
    lab.check();
}

/// With a lease, a manager that does not show the key in time loses the port to the next one.
#[test]
fn a_lease_that_ran_out_lets_the_port_be_taken_over() {
    for name in ["host5", "leaf2"] {
        let mut lab = lab(guarded(KEY, 1, 60));
        let port = lab.port(name, if name == "host5" { 1 } else { 0 });
        lab.emulator.protect(port, OTHER, 1, 5);
        lab.bring_up();
        assert_eq!(locked(&lab), [name]);
        lab.run(LIGHT);
        lab.settle();
        assert_eq!(lab.missing(), [], "{name}");
        lab.check();
        all_hold(&lab, KEY, 1, 60);
    }
}

/// A requester tries a wrong key: the port says so, and its manager shows the right one before the lease ends.
#[test]
fn a_lease_is_kept_while_the_manager_lives() {
    for lives in [true, false] {
        let mut lab = lab(Config { sweep_interval_s: 0, ..guarded(KEY, 1, 5) });
        lab.bring_up();
        let stranger = lab.port("host15", 1);
        let stranger = lab.emulator.attach(stranger).unwrap();
        let leaf = Route::directed(DrPath::new(&[1]).unwrap());
        let guess = Smp::set(PortInfo::ID, 0, leaf).m_key(OTHER).mad().with(&PortInfo::default());
        let now = lab.now();
        lab.emulator.send(stranger, &guess, PERMISSIVE, now);
        if lives {
            lab.run(Time::secs(10));
        } else {
            lab.emulator.advance(now + Time::secs(10));
        }
        let question = Smp::get(PortInfo::ID, 0, leaf).mad();
        let now = lab.now();
        lab.emulator.send(stranger, &question, PERMISSIVE, now);
        lab.emulator.advance(now + Time::millis(10));
        let answer = lab.emulator.poll(stranger).expect("an answer").mad;
        let shown = answer.attribute::<PortInfo>().unwrap().m_key;
        assert_eq!(shown, if lives { MKey(0) } else { KEY });
        assert_eq!(lab.sweep.metrics().traps.get(&Some(256)), lives.then_some(&1));
    }
}

/// Adapters say nothing by themselves as long as no requester tries: each light sweep shows them the key.
#[test]
fn a_light_sweep_shows_the_key_to_every_port_that_leases_it() {
    let asked = |lease| {
        let mut lab = lab(guarded(KEY, 1, lease));
        lab.bring_up();
        let before = lab.smps();
        lab.run(LIGHT);
        lab.settle();
        assert_eq!(lab.sweep.metrics().light_sweeps, 1);
        lab.smps() - before
    };
    // 6 switches and the own port; with a lease 16 adapters. And of what was written, a block of each switch
    // and 16 ports.
    assert_eq!((asked(0), asked(60)), (7 + 6 + 16, 6 + 1 + 16 + 6 + 16));
}
