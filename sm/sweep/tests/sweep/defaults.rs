//! Partition tables, and with `qos` the tables of service levels and lanes: read, and written only where they
//! differ.

use snin_emulator::{Config as Hardware, Fault};
use snin_mad::{
    Attribute, AttributeId, Method, PKeyTable, PortInfo, SlToVl, VlArbitration, VlCount,
};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::config::Enforce;
use snin_sweep::Event;

use crate::support::{Lab, config, fabric};

/// Questions and writes so far.
fn sent(lab: &Lab, id: AttributeId) -> [u64; 2] {
    let sent = &lab.sweep.metrics().sent;
    [Method::Get, Method::Set].map(|method| sent.get(&(id, method.code())).copied().unwrap_or(0))
}

fn resweep(lab: &mut Lab) {
    let now = lab.now();
    lab.sweep.handle(Event::Resweep, now);
    lab.settle();
}

/// 4 switches, 4 hosts; a leaf has 2 hosts and 2 cables up, a spine 2 cables down.
const RECIPE: &str = "clos:2,2,2";

#[test]
fn partitions_are_written_where_they_differ() {
    let mut lab = Lab::new(RECIPE, 0);
    lab.bring_up();
    assert_eq!(sent(&lab, PKeyTable::ID), [8, 0], "the default partition is there after power on");

    let text = "Default=0x7fff : ALL=full; 1 : ALL=full; 2 : ALL=limited;";
    let (partitions, enforce) = (text.parse().unwrap(), Enforce::Off);
    let mut lab = lab.restarted(Config { partitions, enforce, ..config(0) });
    lab.bring_up();
    lab.check();
    // An adapter's table has four blocks.
    assert_eq!(sent(&lab, PKeyTable::ID), [20, 8]);
    resweep(&mut lab);
    assert_eq!(sent(&lab, PKeyTable::ID), [40, 8]);
    // A host that was off has only the default partition again.
    let host = lab.node("host3");
    lab.strike(Fault::Reboot(host, Time::millis(5)));
    lab.run(Time::secs(1));
    lab.settle();
    assert_eq!(sent(&lab, PKeyTable::ID)[1], 9);
    assert_eq!(lab.missing(), []);
}

#[test]
fn without_qos_lanes_stay_as_they_are() {
    let mut lab = Lab::new(RECIPE, 0);
    lab.bring_up();
    for id in [SlToVl::ID, VlArbitration::ID] {
        assert_eq!(sent(&lab, id), [0, 0]);
    }
}

#[test]
fn lanes_are_written_where_they_differ() {
    let qos = Config { qos: true, ..config(0) };
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), qos.clone());
    lab.bring_up();
    lab.check();
    assert_eq!(lab.missing(), []);
    // By port: what comes in by each of its switch's other ports, low and high priority.
    let (ends, leaves, spines) = (4, 2 * 4, 2 * 2);
    // And port 0, by which what the switch sends itself comes.
    let mappings = ends + leaves * 4 + spines * 2;
    // After power on SLs go round the lanes, which is what we want, and no lane has a turn yet.
    assert_eq!(sent(&lab, SlToVl::ID), [mappings, 0]);
    let quarters = 2 * (ends + leaves + spines);
    assert_eq!(sent(&lab, VlArbitration::ID), [quarters, quarters]);
    resweep(&mut lab);
    // A switch that was not reset holds what it was told; end ports may have been.
    assert_eq!(sent(&lab, SlToVl::ID), [mappings + ends, 0]);
    assert_eq!(sent(&lab, VlArbitration::ID), [quarters + 2 * ends, quarters]);

    // A cable that is back has its tables still, a switch that was off has lost them.
    let cable = lab.port("leaf1", 3);
    lab.strike_and_settle(&[Fault::Cut(cable), Fault::Restore(cable)]);
    assert_eq!(sent(&lab, VlArbitration::ID)[1], quarters);
    let spine = lab.node("spine1");
    lab.strike_and_settle(&[Fault::Reboot(spine, Time::millis(5))]);
    assert_eq!(sent(&lab, VlArbitration::ID)[1], quarters + 2 * 2);
    lab.check();
    assert_eq!(lab.missing(), []);

    // Other wishes: mappings and the limit of every port, and half of the arbitration.
    let mut lab = lab.restarted(Config {
        qos_sl2vl: [1; 16],
        qos_vlarb_high: vec![[1, 255]],
        qos_high_limit: 7,
        ..qos
    });
    lab.bring_up();
    lab.check();
    assert_eq!(sent(&lab, SlToVl::ID), [mappings; 2]);
    assert_eq!(sent(&lab, VlArbitration::ID), [quarters, quarters / 2]);
    assert_eq!(sent(&lab, PortInfo::ID)[1], ends + leaves + spines);
    for port in lab.topology.ports().filter(|&port| lab.topology.peer(port).is_some()) {
        assert_eq!(lab.emulator.fabric().port_info(port).vl_high_limit, 7);
    }
}

/// With two lanes a link, service level 3 takes lane 1 and not lane 3.
#[test]
fn a_link_with_few_lanes_takes_the_low_bits() {
    let mut hardware = Hardware::default();
    hardware.adapter.vl_cap = VlCount::Vl0To1;
    let qos = Config { qos: true, ..config(0) };
    let mut lab = Lab::of(fabric(RECIPE), hardware, qos);
    lab.bring_up();
    // An adapter's tables are right already; its leaf's port to it maps to lanes that the link has.
    assert_eq!(sent(&lab, SlToVl::ID)[1], 4 * 4);
    resweep(&mut lab);
    assert_eq!(sent(&lab, SlToVl::ID)[1], 4 * 4);
    assert_eq!(lab.missing(), []);
}
