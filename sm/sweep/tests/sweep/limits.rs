//! How long packets wait and how many errors are borne: written as OpenSM writes it, along with what is written
//! anyway, and else only where a port or a switch holds something else.

use snin_emulator::{Config as Hardware, Fault};
use snin_fabric::{NodeIndex, PortIndex};
use snin_mad::{Attribute, Method, PortInfo, SwitchInfo};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::Event;

use crate::support::{Lab, config, fabric};

/// 4 switches, 4 hosts; a leaf has 2 hosts and 2 cables up, a spine 2 cables down.
const RECIPE: &str = "clos:2,2,2";
/// Ends of cables, and port 0 of every switch.
const PORTS: u64 = 4 + 2 * 4 + 2 * 2 + 4;

/// PortInfo and SwitchInfo written so far.
fn written(lab: &Lab) -> [u64; 2] {
    let sent = &lab.sweep.metrics().sent;
    let set = Method::Set.code();
    [PortInfo::ID, SwitchInfo::ID].map(|id| sent.get(&(id, set)).copied().unwrap_or(0))
}

/// What every port and every switch holds, beside what it shall.
#[track_caller]
fn check(lab: &Lab, wanted: &Config) {
    let topology = &lab.topology;
    let is_switch = |port: PortIndex| topology.is_switch(topology.port(port).node);
    for port in topology.ports() {
        let info = lab.emulator.fabric().port_info(port);
        let name = topology.port_name(port);
        let port0 = is_switch(port) && port == topology.port0(topology.port(port).node);
        let Some(peer) = topology.peer(port) else {
            assert!(!port0 || info.subnet_timeout == wanted.subnet_timeout, "{name}");
            continue;
        };
        let errors = (info.local_phy_errors, info.overrun_errors);
        let most = (wanted.local_phy_errors_threshold, wanted.overrun_errors_threshold);
        assert_eq!(errors, most, "{name}");
        let waits = (info.hoq_life, info.vl_stall_count);
        match (is_switch(port), is_switch(peer)) {
            (true, true) => {
                assert_eq!(waits, (wanted.head_of_queue_lifetime, wanted.vl_stall_count), "{name}");
            }
            (true, false) => {
                let leaf = (wanted.leaf_head_of_queue_lifetime, wanted.leaf_vl_stall_count);
                assert_eq!(waits, leaf, "{name}");
            }
            (false, _) => assert_eq!(info.subnet_timeout, wanted.subnet_timeout, "{name}"),
        }
    }
    for switch in topology.switches() {
        assert_eq!(life_time(lab, switch), wanted.packet_lifetime.min(31));
    }
}

fn life_time(lab: &Lab, switch: NodeIndex) -> u8 {
    lab.emulator.fabric().switch_info(switch).unwrap().life_time
}

fn other() -> Config {
    Config {
        packet_lifetime: 33,
        subnet_timeout: 3,
        head_of_queue_lifetime: 15,
        leaf_head_of_queue_lifetime: 13,
        vl_stall_count: 5,
        leaf_vl_stall_count: 4,
        local_phy_errors_threshold: 2,
        overrun_errors_threshold: 1,
        ..config(0)
    }
}

#[test]
fn limits_go_along_with_what_is_written_anyway() {
    // As a switch's firmware leaves it: nothing is to be written.
    let nothing = Config {
        subnet_timeout: 0,
        head_of_queue_lifetime: 0,
        leaf_head_of_queue_lifetime: 0,
        vl_stall_count: 0,
        leaf_vl_stall_count: 0,
        local_phy_errors_threshold: 0,
        overrun_errors_threshold: 0,
        ..config(0)
    };
    let mut counts = Vec::new();
    for config in [nothing, config(0), other()] {
        let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), config.clone());
        lab.bring_up();
        check(&lab, &config);
        counts.push(written(&lab));
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[test]
fn limits_are_written_where_they_differ() {
    let mut lab = Lab::new(RECIPE, 0);
    lab.bring_up();
    check(&lab, &config(0));
    let mut lab = lab.restarted(config(0));
    lab.bring_up();
    assert_eq!(written(&lab), [0, 0]);
    let mut lab = lab.restarted(other());
    lab.bring_up();
    check(&lab, &other());
    assert_eq!(written(&lab), [PORTS, 4]);
    let now = lab.now();
    lab.sweep.handle(Event::Resweep, now);
    lab.settle();
    assert_eq!(written(&lab), [PORTS, 4]);
    // A switch that was off has lost them.
    let spine = lab.node("spine1");
    lab.strike(Fault::Reboot(spine, Time::millis(5)));
    lab.run(Time::secs(1));
    lab.settle();
    check(&lab, &other());
    assert_eq!(lab.missing(), []);
}
