//! A lane of its own for what is granted: written to every port that has two, once, and to none where nothing is
//! granted.

use snin_emulator::{Config as Hardware, Fault};
use snin_fabric::{NodeIndex, PortNum, Topology};
use snin_mad::{Attribute, AttributeId, Method, Mtu, PortInfo, SlToVl, VlArbitration, VlCount};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::Event;

use crate::support::{Lab, config, fabric};

/// 4 switches, 4 hosts; a leaf has 2 hosts and 2 cables up, a spine 2 cables down.
const RECIPE: &str = "clos:2,2,2";
/// Ends of cables, at hosts, leaves and spines.
const ENDS: [u64; 3] = [4, 2 * 4, 2 * 2];
/// Tables of those: by port, what comes in by each of its switch's other ports and by port 0.
const MAPPINGS: u64 = ENDS[0] + ENDS[1] * 4 + ENDS[2] * 2;
/// Low and high priority.
const QUARTERS: u64 = 2 * (ENDS[0] + ENDS[1] + ENDS[2]);

fn granted() -> Config {
    Config { granted_sl: 1, ..config(3) }
}

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

/// Whether every port has the lanes: level 1 alone on lane 1, which goes first, and all others after it.
#[track_caller]
fn check(lab: &Lab, limit: u8, lanes_of: impl Fn(NodeIndex) -> u8) {
    let topology: &Topology = &lab.topology;
    let tables = lab.emulator.fabric().lanes();
    for port in topology.ports() {
        let Some(peer) = topology.peer(port) else { continue };
        let lanes = [port, peer].map(|end| lanes_of(topology.port(end).node)).into_iter().min();
        let (name, lanes) = (topology.port_name(port), lanes.unwrap());
        let held = &tables[port.index()];
        for (input, mapping) in held.mapping.iter().enumerate() {
            let input = PortNum(input as u8);
            let node = topology.port(port).node;
            let is_input = match topology.is_switch(node) {
                true => {
                    let cabled = topology.port_of(node, input).and_then(|end| topology.peer(end));
                    input == PortNum(0) || (input != topology.num(port) && cabled.is_some())
                }
                false => input == PortNum(0),
            };
            if is_input && lanes == 1 {
                assert_eq!(mapping, &[0; 16], "{name} from {input}");
            } else if is_input {
                let alone = (0..16).filter(|&level| mapping[level] == 1).collect::<Vec<_>>();
                assert_eq!((alone, mapping[0]), (vec![1], 0), "{name} from {input}");
            }
        }
        if lanes == 1 {
            continue;
        }
        let vls = |entries: &[snin_emulator::data::VlWeight]| {
            entries.iter().map(|entry| entry.vl).collect::<Vec<u8>>()
        };
        let others: Vec<u8> = (0..lanes).filter(|&vl| vl != 1).collect();
        assert_eq!(vls(&held.arbitration.high), [1], "{name}");
        assert_eq!(vls(&held.arbitration.low), others, "{name}");
        assert_eq!(held.arbitration.limit, limit, "{name}");
    }
}

#[test]
fn what_is_granted_has_a_lane_of_its_own() {
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), granted());
    lab.bring_up();
    lab.check();
    assert_eq!(lab.missing(), []);
    check(&lab, 19, |_| 8);
    assert_eq!(lab.view().lanes().level, 1);
    assert_eq!(lab.view().lanes().shared, Vec::<String>::new());
    // After a reset tables are written without being read.
    assert_eq!(sent(&lab, SlToVl::ID), [0, MAPPINGS]);
    assert_eq!(sent(&lab, VlArbitration::ID), [0, QUARTERS]);
    resweep(&mut lab);
    assert_eq!(sent(&lab, SlToVl::ID)[1], MAPPINGS);
    assert_eq!(sent(&lab, VlArbitration::ID)[1], QUARTERS);

    // A cable that is back has its tables still, a switch that was off has lost them.
    let cable = lab.port("leaf1", 3);
    lab.strike_and_settle(&[Fault::Cut(cable), Fault::Restore(cable)]);
    assert_eq!(sent(&lab, VlArbitration::ID)[1], QUARTERS);
    let spine = lab.node("spine1");
    lab.strike_and_settle(&[Fault::Reboot(spine, Time::millis(5))]);
    check(&lab, 19, |_| 8);
    lab.check();
    assert_eq!(lab.missing(), []);
}

/// A manager that begins anew reads what ports hold, and writes what is not so: nothing, or the limit alone.
#[test]
fn a_manager_that_begins_anew_writes_what_differs() {
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), granted());
    lab.bring_up();
    let mut lab = lab.restarted(granted());
    lab.bring_up();
    assert_eq!(sent(&lab, SlToVl::ID), [MAPPINGS, 0]);
    assert_eq!(sent(&lab, VlArbitration::ID), [QUARTERS, 0]);
    assert_eq!(sent(&lab, PortInfo::ID)[1], 0);
    for (share, limit) in [(0, 255), (500_000, 1)] {
        lab = lab.restarted(Config { unmanaged_share: share, ..granted() });
        lab.bring_up();
        assert_eq!(sent(&lab, SlToVl::ID)[1] + sent(&lab, VlArbitration::ID)[1], 0);
        assert_eq!(sent(&lab, PortInfo::ID)[1], ENDS.iter().sum::<u64>());
        check(&lab, limit, |_| 8);
    }
}

/// Packets of the port's MTU are what ordinary traffic gets its share in.
#[test]
fn the_limit_follows_the_mtu_of_the_link() {
    let mut hardware = Hardware::default();
    hardware.switch.mtu_cap = Mtu::B2048;
    let mut lab = Lab::of(fabric(RECIPE), hardware, granted());
    lab.bring_up();
    check(&lab, 9, |_| 8);
}

#[test]
fn ports_with_one_lane_are_named() {
    let mut hardware = Hardware::default();
    hardware.adapter.vl_cap = VlCount::Vl0;
    let mut lab = Lab::of(fabric(RECIPE), hardware, granted());
    lab.bring_up();
    let is_switch = |node| lab.topology.is_switch(node);
    check(&lab, 19, |node| if is_switch(node) { 8 } else { 1 });
    assert_eq!(lab.view().lanes().level, 1, "between switches there are two");
    assert_eq!(lab.view().lanes().shared, ["host0/1", "host1/1", "host2/1", "host3/1"]);
    assert_eq!(lab.missing(), []);

    let mut hardware = Hardware::default();
    (hardware.adapter.vl_cap, hardware.switch.vl_cap) = (VlCount::Vl0, VlCount::Vl0);
    let mut lab = Lab::of(fabric(RECIPE), hardware, granted());
    lab.bring_up();
    assert_eq!((lab.view().lanes().level, lab.view().lanes().shared.len()), (0, 16));
    assert_eq!([sent(&lab, SlToVl::ID), sent(&lab, VlArbitration::ID)], [[0; 2]; 2]);
}

/// Two lanes are enough.
#[test]
fn two_lanes_are_enough() {
    let mut hardware = Hardware::default();
    (hardware.adapter.vl_cap, hardware.switch.vl_cap) = (VlCount::Vl0To1, VlCount::Vl0To1);
    let mut lab = Lab::of(fabric(RECIPE), hardware, granted());
    lab.bring_up();
    check(&lab, 19, |_| 2);
    assert_eq!(lab.view().lanes().level, 1);
}

#[test]
fn where_nothing_is_granted_nothing_is_written() {
    let mut lab = Lab::of(fabric("torus:3,3,1"), Hardware::default(), granted());
    lab.bring_up();
    assert_eq!(lab.view().lanes().level, 0);
    assert_eq!([sent(&lab, SlToVl::ID), sent(&lab, VlArbitration::ID)], [[0; 2]; 2]);
    // With the administrator's own tables only the level is ours.
    let own = Config { qos: true, granted_sl: 3, ..granted() };
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), own);
    lab.bring_up();
    assert_eq!((lab.view().lanes().level, lab.view().lanes().shared.len()), (3, 0));
    assert_eq!(sent(&lab, SlToVl::ID), [MAPPINGS, 0]);
}

/// Links that another manager brought up with one lane keep it: level 1 on a lane that is not in operation would
/// be discarded.
#[test]
fn links_that_are_up_with_one_lane_keep_it() {
    let one = Config { max_op_vls: 1, ..config(3) };
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), one);
    lab.bring_up();
    let port = lab.port("leaf1", 1);
    assert_eq!(lab.emulator.fabric().port_info(port).operational_vls, VlCount::Vl0);
    let mut lab = lab.restarted(granted());
    lab.bring_up();
    assert_eq!((lab.view().lanes().level, lab.view().lanes().shared.len()), (0, 16));
    assert_eq!([sent(&lab, SlToVl::ID), sent(&lab, VlArbitration::ID)].map(|[_, set]| set), [0; 2]);
    // Only what comes up anew has as many as it can.
    let cable = lab.port("leaf1", 3);
    for fault in [Fault::Cut(cable), Fault::Restore(cable)] {
        lab.strike(fault);
        lab.run(Time::secs(1));
        lab.settle();
    }
    let info = lab.emulator.fabric().port_info(cable);
    assert_eq!(info.operational_vls, VlCount::Vl0To7);
    assert_eq!((lab.view().lanes().level, lab.view().lanes().shared.len()), (1, 14));
}
