//! Chance: as often as configured, told in the counters, and the same for the same seed.

use snin_emulator::{Config, Emulator, Fault, Noise};
use snin_fabric::generate::Recipe;
use snin_fabric::{Lid, Lmc};
use snin_mad::{Attribute, Class, Header, Mad, NodeInfo, Route, Smp, TransactionId};
use snin_protocol::Time;

use crate::support::Lab;

const MADS: u64 = 20_000;

/// Asks a node so often, one question a microsecond; which answers came.
fn ask(lab: &mut Lab, name: &str, count: u64) -> Vec<u64> {
    let route = lab.route(name);
    for id in 0..count {
        let smp = Smp::get(NodeInfo::ID, 0, route).transaction(TransactionId(id));
        lab.send(&smp.mad(), Lid::NONE);
        lab.wait(Time::micros(1));
    }
    lab.wait(Time::secs(1));
    lab.received().iter().map(|received| received.mad.header().transaction_id().0).collect()
}

fn lab(noise: Noise) -> Lab {
    let config = Config { noise, agent_latency: Time(100), seed: 7, ..Config::default() };
    Lab::with("clos:2,2,2", config)
}

/// Within five standard deviations of `chance` a million.
#[track_caller]
fn as_often(count: u64, of: u64, chance: u32) {
    let p = f64::from(chance) / 1e6;
    let (mean, deviation) = (of as f64 * p, (of as f64 * p * (1.0 - p)).sqrt());
    assert!((count as f64 - mean).abs() <= 5.0 * deviation, "{count} of {of}, expected {mean}");
}

#[test]
fn losses_are_as_frequent_as_configured_and_counted() {
    let mut lab = lab(Noise::drop_percent(5));
    let answers = ask(&mut lab, "host2", MADS).len() as u64;
    let stats = *lab.emulator.stats();
    // Each request and each answer comes to harm once at most, however many links it passes.
    let travelled = MADS + stats.answered;
    as_often(stats.noise_dropped, travelled, 50_000);
    lab.assert_all_accounted_for();
    assert_eq!(answers + stats.noise_dropped, MADS);
    let ports =
        lab.topology.ports().map(|port| lab.emulator.fabric().counters(port).receive_errors);
    assert_eq!(ports.sum::<u64>(), stats.noise_dropped);
}

#[test]
fn duplicates_and_late_mads_are_as_frequent_as_configured() {
    let mut lab = lab(Noise { duplicate: 100_000, reorder: 200_000, ..Noise::NONE });
    let answers = ask(&mut lab, "leaf0", MADS);
    let stats = *lab.emulator.stats();
    as_often(stats.noise_duplicated, MADS + stats.answered, 100_000);
    as_often(stats.noise_reordered, MADS + stats.answered, 200_000);
    lab.assert_all_accounted_for();
    assert_eq!(answers.len() as u64, MADS + stats.noise_duplicated);
    assert!(!answers.is_sorted(), "some overtook others");
    let distinct: std::collections::BTreeSet<u64> = answers.iter().copied().collect();
    assert_eq!(distinct.len() as u64, MADS, "none was lost");
}

/// From one client to another, over two links: garbled once, and not where nothing passes a link.
#[test]
fn a_garbled_mad_differs_in_one_bit() {
    let mut lab = Lab::new("clos:1,1,2");
    for (name, lid) in [("host0", 1), ("host1", 2)] {
        lab.address(name, 1, Lid(lid), Lmc::ZERO).value();
        lab.activate(name, 1);
    }
    lab.forward("leaf0", &[(1, 1), (2, 2)]);
    let other = lab.emulator.attach(lab.port("host1", 1)).unwrap();
    let noise = Noise { corrupt: Noise::WHOLE, ..Noise::NONE };
    lab.emulator.inject(Fault::Noise(noise), Time::ZERO);
    lab.wait(Time::micros(1));
    let mut mad = Mad::ZERO;
    Header::edit(&mut mad.0).base_version(1).class(Class::Device).class_version(1);
    for _ in 0..500 {
        lab.send(&mad, Lid(2));
        lab.wait(Time::micros(1));
        lab.send(&mad, Lid(1));
    }
    lab.wait(Time::millis(1));
    assert_eq!(lab.emulator.stats().noise_corrupted, 500);
    let received: Vec<Mad> =
        std::iter::from_fn(|| lab.emulator.poll(other)).map(|received| received.mad).collect();
    // A few have another class or method now, and other readers.
    assert!(received.len() > 450);
    for garbled in &received {
        let bits = garbled.0.iter().zip(&mad.0).map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(bits.sum::<u32>(), 1);
    }
    assert!(received.iter().any(|mad| *mad != received[0]));
    assert!(lab.received().iter().all(|received| received.mad == mad));
}

#[test]
fn a_bad_cable_harms_what_passes_it_and_nothing_else() {
    let mut lab = lab(Noise::NONE);
    let cable = lab.port("leaf0", 2);
    lab.emulator.inject(Fault::CableNoise(cable, Noise::drop_percent(100)), Time::ZERO);
    assert_eq!(ask(&mut lab, "leaf0", 100).len(), 100);
    let mad = Smp::get(NodeInfo::ID, 0, lab.route("host1")).mad();
    assert!(lab.ask_mad(mad.clone(), Lid::NONE).is_none());
    lab.emulator.inject(Fault::CableNoise(cable, Noise::NONE), Time::ZERO);
    assert!(lab.ask_mad(mad, Lid::NONE).is_some());
    // Noise everywhere, from now on.
    lab.emulator.inject(Fault::Noise(Noise::drop_percent(100)), Time::ZERO);
    assert_eq!(ask(&mut lab, "leaf0", 100).len(), 0);
    assert_eq!(lab.emulator.stats().faults, 3);
}

/// All kinds of noise and faults at once, over a whole fabric; every byte and time that came back.
fn history(seed: u64) -> Vec<(Time, Vec<u8>)> {
    let topology = "clos:3,2,2".parse::<Recipe>().unwrap().build().unwrap();
    let noise = Noise { drop: 20_000, duplicate: 20_000, reorder: 50_000, corrupt: 20_000 };
    let mut emulator = Emulator::new(&topology, Config { seed, noise, ..Config::default() });
    let leaf = crate::support::node(&topology, "leaf1");
    let cable = crate::support::port(&topology, "leaf0", 3);
    emulator.inject(Fault::Reboot(leaf, Time::millis(1)), Time::millis(2));
    emulator.inject(Fault::Bounce(cable), Time::millis(3));
    let home = crate::support::port(&topology, "host0", 1);
    let client = emulator.attach(home).unwrap();
    let routes = emulator.fabric().routes_from(home);
    let mut history = Vec::new();
    for round in 0..200 {
        for route in routes.iter().flatten() {
            let smp = Smp::get(NodeInfo::ID, 0, Route::directed(*route));
            let smp = smp.transaction(TransactionId(round));
            emulator.send(client, &smp.mad(), Lid::NONE, emulator.now());
        }
        emulator.advance(emulator.now() + Time::micros(50));
        while let Some(received) = emulator.poll(client) {
            history.push((received.at, received.mad.0.to_vec()));
        }
    }
    history
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_the_same_times() {
    let first = history(3);
    assert!(first.len() > 1_000);
    assert!(first == history(3));
    assert!(first != history(4));
}
