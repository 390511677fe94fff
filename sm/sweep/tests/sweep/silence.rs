//! Silent nodes: asked side by side, each in its own time, and no other node waits for them.

use snin_emulator::{Config as Hardware, Fault, Health};
use snin_protocol::Time;
use snin_sweep::Missing;

use crate::support::{Lab, config, fabric};

/// What OpenSM takes to bring the same fabric up.
const OPENSM: Time = Time::millis(1_700);
/// Twenty of 648, on ten leaves.
const MUTE: std::ops::Range<usize> = 0..20;

fn lab(mute: bool) -> Lab {
    let mut lab = Lab::of(fabric("clos:36,18,18"), Hardware::default(), config(0));
    for n in MUTE.filter(|_| mute) {
        let host = lab.node(&format!("host{}", 27 * n + 20));
        lab.strike(Fault::Agent(host, Health::Dead));
    }
    lab
}

/// From a cut until every table is as it is to be, but for that of a dead switch.
fn repair(lab: &mut Lab, leaf: &str, up: u8, dead: Option<&str>) -> Time {
    let cable = lab.port(leaf, up);
    lab.strike(Fault::Cut(cable));
    let begin = lab.now();
    let blocks = lab.sweep.metrics().blocks_written;
    let mut done = begin;
    for _ in 0..20_000 {
        lab.run(Time::micros(100));
        let written = lab.sweep.metrics().blocks_written > blocks;
        if written && !lab.view().unusable().is_empty() && lab.is_written(dead) {
            done = lab.now();
            break;
        }
    }
    assert!(done > begin, "{leaf} is not repaired");
    lab.settle();
    lab.strike(Fault::Restore(cable));
    lab.run(Time::millis(40));
    lab.settle();
    done - begin
}

#[test]
fn twenty_mute_hosts_of_648_cost_no_more_than_opensm_takes() {
    let whole = lab(false).bring_up();
    let mut lab = lab(true);
    let took = lab.bring_up();
    println!("bring-up: {whole}, with 20 mute hosts {took}");
    assert!(took <= OPENSM, "{took}");
    let missing = lab.missing();
    assert!(missing.iter().all(|m| matches!(m, Missing::Mute(_))), "{missing:?}");
    assert_eq!(missing.len(), 20);
    assert_eq!(lab.view().routing().hosts.len(), 628);
    // They come to their senses, and are found without being asked for.
    for n in MUTE {
        let host = lab.node(&format!("host{}", 27 * n + 20));
        lab.strike(Fault::Agent(host, Health::Well));
    }
    lab.run(Time::secs(2));
    lab.settle();
    assert_eq!(lab.missing(), []);
    lab.check();
}

/// At any moment: while they are asked, during a light sweep, on a leaf that has some of them.
#[test]
fn a_cut_is_repaired_as_fast_as_without_them() {
    let (mut well, mut mute) = (lab(false), lab(true));
    well.bring_up();
    mute.bring_up();
    for (leaf, up, wait) in [
        ("leaf3", 19, Time::millis(1)),
        ("leaf1", 20, Time::millis(199)),
        ("leaf1", 21, Time::millis(450)),
        ("leaf7", 22, Time::millis(9_100)),
        ("leaf2", 23, Time::secs(30)),
    ] {
        well.run(wait);
        mute.run(wait);
        let (without, with) =
            (repair(&mut well, leaf, up, None), repair(&mut mute, leaf, up, None));
        println!("{leaf}/{up}: {without}, with 20 mute hosts {with}");
        assert!(with <= without * 2, "{leaf}/{up}: {with} instead of {without}");
    }
}

/// A switch dies while another's cable is cut: the second does not wait until the first is given up.
#[test]
fn a_node_that_falls_silent_delays_no_other_repair() {
    let mut lab = lab(false);
    lab.bring_up();
    let without = repair(&mut lab, "leaf3", 19, None);
    let dead = lab.node("spine7");
    lab.strike(Fault::Agent(dead, Health::Dead));
    // It bounces a cable, so that every neighbour is looked at.
    let cable = lab.port("spine7", 30);
    lab.strike(Fault::Bounce(cable));
    lab.run(Time::millis(6));
    let with = repair(&mut lab, "leaf3", 19, Some("spine7"));
    println!("{without}, while spine7 falls silent {with}");
    assert!(with <= without * 2, "{with} instead of {without}");
    lab.run(Time::secs(12));
    lab.settle();
    let lost = |m: &Missing| matches!(m, Missing::Lost { name, .. } if name == "spine7");
    assert!(lab.missing().iter().any(lost), "{:?}", lab.missing());
}
