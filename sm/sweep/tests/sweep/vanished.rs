//! What is gone, silent or too far is named: once, and as what it is.

use snin_emulator::{Config as Hardware, Fault, Health};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{Guid, NodeKind, PortNum, Topology};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::{Event, Missing};

use crate::support::{Lab, config, fabric};

fn gone(lab: &Lab) -> Vec<String> {
    let name = |missing: Missing| match missing {
        Missing::Lost { name, .. } => name,
        other => panic!("{other}"),
    };
    lab.missing().into_iter().map(name).collect()
}

#[test]
fn a_switch_that_is_gone_is_missing_spine_or_leaf() {
    for name in ["leaf2", "spine1"] {
        let mut lab = Lab::new("clos:4,2,4", 1);
        lab.bring_up();
        let node = lab.node(name);
        let strike = |lab: &mut Lab, fault| {
            lab.strike(fault);
            lab.run(Time::secs(25));
            lab.settle();
        };
        strike(&mut lab, Fault::PowerOff(node));
        assert_eq!(gone(&lab), [name]);
        strike(&mut lab, Fault::PowerOn(node));
        assert_eq!(lab.missing(), []);
        lab.check();
        // It is taken away for good: an operator who asks for a sweep says that this is how the fabric is.
        strike(&mut lab, Fault::PowerOff(node));
        assert_eq!(gone(&lab), [name]);
        let now = lab.now();
        lab.sweep.handle(Event::Resweep, now);
        lab.run(Time::secs(1));
        lab.settle();
        assert_eq!(lab.missing(), []);
    }
}

/// Another switch in the place of one that is gone, as after a repair: the same hosts are behind it, and no
/// GUID is in use twice. Nothing but traps tells of it.
#[test]
fn a_leaf_that_was_replaced_has_its_hosts_at_once() {
    for pause in [0, 5, 2_000] {
        let config = Config { sweep_interval_s: 0, ..config(1) };
        let mut lab = Lab::of(fabric("clos:4,2,4"), Hardware::default(), config);
        lab.bring_up();
        let leaf = lab.node("leaf2");
        lab.strike(Fault::PowerOff(leaf));
        lab.run(Time::millis(pause));
        lab.strike(Fault::NodeGuid(leaf, Guid(0x0BAD_0000)));
        lab.strike(Fault::PowerOn(leaf));
        lab.run(Time::secs(3));
        lab.settle();
        let missing = lab.missing();
        let gone =
            |missing: &Missing| matches!(missing, Missing::Lost { name, .. } if name == "leaf2");
        assert!(missing.iter().all(gone), "{pause} ms: {missing:?}");
        let (view, topology) = (lab.view(), &lab.topology);
        assert_eq!(view.routing().hosts.len(), 16, "{pause} ms");
        assert_eq!(view.topology().node_count(), topology.node_count(), "{pause} ms");
        assert_eq!(view.topology().cable_count(), topology.cable_count(), "{pause} ms");
    }
}

/// A question over a cable that turns out to be gone is asked again at once along the way that is left.
#[test]
fn a_chassis_that_is_gone_costs_no_time_out() {
    let mut lab = Lab::new("fattree:6", 2);
    lab.bring_up();
    for name in ["core6", "core7", "core8"] {
        lab.strike(Fault::PowerOff(lab.node(name)));
    }
    // Less than an answer is waited for.
    lab.run(Time::millis(60));
    assert!(lab.sweep.is_idle());
    lab.check();
    // Nor is there a way left between the switches below them.
    let lost = lab.missing().into_iter().filter(|one| matches!(one, Missing::Lost { .. }));
    assert_eq!(lost.count(), 3);
}

#[test]
fn who_fell_silent_is_named_once_and_not_by_every_port_that_leads_there() {
    for name in ["leaf2", "spine1"] {
        let mut lab = Lab::new("clos:4,2,4", 1);
        lab.bring_up();
        lab.strike(Fault::Agent(lab.node(name), Health::Dead));
        lab.run(Time::secs(25));
        lab.settle();
        assert_eq!(gone(&lab), [name]);
    }
}

/// A host, and switches one behind the other.
fn chain(length: u64) -> Topology {
    let mut builder = TopologyBuilder::new();
    let host = builder.add(NodeKind::Adapter, Guid(0x10), 1, "host").unwrap();
    builder.set_port_guid(host, PortNum(1), Guid(0x11)).unwrap();
    let mut before = (host, PortNum(1));
    for n in 0..length {
        let guid = Guid(0x1000 + n);
        let switch = builder.add(NodeKind::Switch, guid, 2, &format!("switch{n}")).unwrap();
        builder.cable(before, (switch, PortNum(1))).unwrap();
        before = (switch, PortNum(2));
    }
    builder.build().unwrap()
}

#[test]
fn what_is_farther_than_63_hops_is_named_as_such() {
    let mut lab = Lab::of(chain(66), Hardware::default(), config(0));
    lab.start();
    lab.settle();
    // The first switch is one hop away.
    let (guid, at) = (Guid(0x1000 + 62), "switch62/2".to_owned());
    assert_eq!(lab.missing(), [Missing::TooFar { guid, at }]);
    let told = lab.missing()[0].to_string();
    assert!(told.contains("63 hops") && told.contains("switch62/2"), "{told}");
    let mut lab = Lab::of(chain(63), Hardware::default(), config(0));
    lab.bring_up();
    lab.check();
}
