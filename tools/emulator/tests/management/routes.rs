//! How MADs travel: directed routes there and back, mixed ones, by LID through the tables (IBA 14.2.2, 18.2.4).

use crate::support::{Answer, Lab};
use snin_emulator::Config;
use snin_fabric::{Lid, Lmc, PortNum};
use snin_mad::{
    Attribute, DrPath, Mad, NodeDescription, NodeInfo, NodeType, PERMISSIVE, PortState, Route, Smp,
    Status,
};
use snin_protocol::Time;

/// host0 1 - 1 leaf0 3 - 1 spine0 2 - 3 leaf1 1 - 1 host2.
const FABRIC: &str = "clos:2,2,2";

fn description(lab: &mut Lab, route: Route, to: Lid) -> Option<String> {
    match lab.get_by::<NodeDescription>(route, to, 0) {
        Answer::Value(value) => Some(value.text.text().into_owned()),
        _ => None,
    }
}

#[test]
fn directed_routes_go_there_and_back() {
    let mut lab = Lab::new(FABRIC);
    // Ports to leave by, where that leads, ports by which the request arrived on its way.
    let cases: [(&[u8], &str, &[u8]); 7] = [
        (&[], "host0", &[]),
        (&[1], "leaf0", &[1]),
        (&[1, 2], "host1", &[1, 1]),
        (&[1, 3], "spine0", &[1, 1]),
        (&[1, 4], "spine1", &[1, 1]),
        (&[1, 3, 2], "leaf1", &[1, 1, 3]),
        (&[1, 3, 2, 4, 1, 1], "host0", &[1, 1, 3, 2, 4, 1]),
    ];
    for (path, name, back) in cases {
        let path = DrPath::new(path).unwrap();
        let mad = Smp::get(NodeDescription::ID, 0, Route::directed(path)).mad();
        let answer = lab.ask_mad(mad, Lid::NONE).unwrap_or_else(|| panic!("{path}: no answer"));
        let smp = Smp::parse(&answer.0).unwrap();
        assert_eq!(answer.attribute::<NodeDescription>().unwrap().text.text(), name, "{path}");
        assert_eq!(smp.return_path, DrPath::new(back).unwrap(), "{path}");
        assert!(smp.returning, "{path}");
        assert_eq!(smp.hop_pointer, 0, "{path}");
    }
}

#[test]
fn the_longest_path_is_63_hops() {
    let mut lab = Lab::new(FABRIC);
    // To the leaf, then to and fro between leaf and spine.
    let ports: Vec<u8> = std::iter::once(1).chain([3, 1].into_iter().cycle()).take(63).collect();
    let route = Route::directed(DrPath::new(&ports).unwrap());
    assert_eq!(description(&mut lab, route, Lid::NONE).as_deref(), Some("leaf0"));
}

#[test]
fn paths_that_cannot_be_lead_nowhere() {
    let mut lab = Lab::new(FABRIC);
    // Through an adapter, by a port that is not there, by port 0, by the other port of the own adapter.
    for path in [&[1, 2, 1][..], &[1, 5], &[1, 0], &[2], &[1, 255, 1]] {
        let route = Route::directed(DrPath::new(path).unwrap());
        let before = lab.emulator.stats().bad_route;
        assert_eq!(description(&mut lab, route, Lid::NONE), None, "{path:?}");
        assert_eq!(lab.emulator.stats().bad_route, before + 1, "{path:?}");
    }
    // A path over a port without a cable is dropped there.
    let mut topology = lab.topology;
    topology = topology.without_cables(&[crate::support::port(&topology, "leaf0", 4)]);
    let mut lab = Lab::of(topology, Config::default());
    let route = Route::directed(DrPath::new(&[1, 4]).unwrap());
    assert_eq!(description(&mut lab, route, Lid::NONE), None);
    assert_eq!(lab.emulator.stats().link_down, 1);
}

/// LIDs: host0 1, leaf0 2, spine0 3, leaf1 4, host2 8 to 11; the table entries that lead along spine0.
fn addressed() -> Lab {
    let mut lab = Lab::new(FABRIC);
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.address("spine0", 0, Lid(3), Lmc::ZERO).value();
    lab.address("leaf1", 0, Lid(4), Lmc::ZERO).value();
    lab.address("host2", 1, Lid(8), Lmc::new(2).unwrap()).value();
    let hosts = |num| (8..12).map(move |lid| (lid, num));
    let table =
        |rest: &[(u16, u8)], host| rest.iter().copied().chain(hosts(host)).collect::<Vec<_>>();
    lab.forward("leaf0", &table(&[(1, 1), (2, 0), (3, 3), (4, 3)], 3));
    lab.forward("spine0", &table(&[(1, 1), (2, 1), (3, 0), (4, 2)], 2));
    lab.forward("leaf1", &table(&[(1, 3), (2, 3), (3, 3), (4, 0)], 1));
    lab
}

#[test]
fn smps_are_routed_by_lid() {
    let mut lab = addressed();
    let cases =
        [(1, "host0"), (2, "leaf0"), (3, "spine0"), (4, "leaf1"), (8, "host2"), (11, "host2")];
    for (lid, name) in cases {
        assert_eq!(description(&mut lab, Route::Lid, Lid(lid)).as_deref(), Some(name), "{lid}");
    }
    // Routed by LID, a switch still says by which port it was asked.
    let info: NodeInfo = lab.get_by(Route::Lid, Lid(4), 0).value();
    assert_eq!((info.node_type, info.local_port), (NodeType::Switch, PortNum(3)));
}

#[test]
fn tables_are_taken_at_their_word() {
    let mut lab = addressed();
    let stats = *lab.emulator.stats();
    // Above LinearFDBTop, no entry, a LID of no port.
    for lid in [12, 7, 0xBFFF, 0] {
        assert_eq!(description(&mut lab, Route::Lid, Lid(lid)), None, "{lid}");
    }
    // 12 and 0xBFFF are above the top, 7 has no entry, 0 cannot even leave.
    assert_eq!(lab.emulator.stats().no_route, stats.no_route + 4);
    // An entry that leads to a port with other addresses, to port 0 with another, back, to no port.
    for (num, name) in [(2, "another host"), (0, "port 0"), (1, "back"), (77, "no such port")] {
        lab.forward("leaf0", &[(8, num)]);
        assert_eq!(description(&mut lab, Route::Lid, Lid(8)), None, "{name}");
    }
    assert_eq!(lab.emulator.stats().wrong_port, stats.wrong_port + 2);
    assert_eq!(lab.emulator.stats().no_route, stats.no_route + 6);
    let leaf = lab.port("leaf0", 1);
    // At the port that it came by: once for each LID without a way but 0, and twice here.
    assert_eq!(lab.emulator.fabric().counters(leaf).receive_switch_relay_errors, 5);
    // LinearFDBTop, not what is in the table, ends the table.
    lab.forward("leaf0", &[(8, 3)]);
    assert_eq!(description(&mut lab, Route::Lid, Lid(8)).as_deref(), Some("host2"));
    let mut info: snin_mad::SwitchInfo = lab.get("leaf0", 0).value();
    info.linear_fdb_top = Lid(7);
    lab.set("leaf0", 0, &info).value();
    assert_eq!(description(&mut lab, Route::Lid, Lid(8)), None);
}

#[test]
fn a_loop_in_the_tables_ends() {
    let mut lab = addressed();
    lab.forward("spine0", &[(20, 2)]);
    lab.forward("leaf0", &[(20, 3)]);
    lab.forward("leaf1", &[(20, 4)]);
    lab.forward("spine1", &[(20, 1)]);
    assert_eq!(description(&mut lab, Route::Lid, Lid(20)), None);
    assert_eq!(lab.emulator.stats().looped, 1);
}

#[test]
fn routes_may_begin_and_end_by_lid() {
    let mut lab = addressed();
    let path = |ports: &[u8]| DrPath::new(ports).unwrap();
    // To LID 3, spine0, by the tables; from there along the path; the answer comes back the same way.
    let route = Route::lid_then_directed(Lid(1), path(&[2]));
    assert_eq!(description(&mut lab, route, Lid(3)).as_deref(), Some("leaf1"));
    let route = Route::lid_then_directed(Lid(1), path(&[2, 2]));
    assert_eq!(description(&mut lab, route, Lid(3)).as_deref(), Some("host3"));
    // Along the path to spine0, from there by its table.
    let route = Route::directed_then_lid(path(&[1, 3]), Lid(8));
    assert_eq!(description(&mut lab, route, Lid::NONE).as_deref(), Some("host2"));
    // The last switch of the path may be the one that is meant.
    let route = Route::directed_then_lid(path(&[1, 3]), Lid(3));
    assert_eq!(description(&mut lab, route, Lid::NONE).as_deref(), Some("spine0"));
    // All three parts.
    let route = Route::Directed { from: Some(Lid(1)), path: path(&[1, 3]), to: Some(Lid(8)) };
    assert_eq!(description(&mut lab, route, Lid(3)).as_deref(), Some("host2"));
    // Without a way back by LID there is no answer.
    let route = Route::lid_then_directed(Lid(40), path(&[2]));
    assert_eq!(description(&mut lab, route, Lid(3)), None);
}

/// IBA 7.2.7: SMPs pass every link that is up, other MADs leave by active ports only.
#[test]
fn port_states_let_pass_what_they_should() {
    let mut lab = addressed();
    let counters = Mad::performance(
        snin_mad::Method::Get,
        snin_mad::ClassPortInfo::ID,
        0,
        snin_mad::TransactionId(0),
    );
    assert!(lab.ask_mad(counters.clone(), Lid(2)).is_none(), "both ends in INIT");
    let host = lab.home;
    assert_eq!(lab.emulator.fabric().counters(host).transmit_discards, 1);
    lab.set_state("host0", 1, PortState::Armed).value();
    assert!(lab.ask_mad(counters.clone(), Lid(2)).is_none(), "from an armed end");
    lab.set_state("host0", 1, PortState::Active).value();
    assert_eq!(lab.emulator.fabric().counters(host).transmit_discards, 2);
    let served = lab.emulator.stats().served;
    assert!(lab.ask_mad(counters.clone(), Lid(2)).is_none(), "to an end in INIT");
    assert_eq!(lab.emulator.stats().served, served, "not even the question");
    assert_eq!(lab.emulator.fabric().counters(host).transmit_discards, 2);
    assert_eq!(lab.state("leaf0", 1), PortState::Initialize);
    lab.set_state("leaf0", 1, PortState::Armed).value();
    // The armed end takes it, and knows from it that its neighbour is active: so it is, too.
    let answer = lab.ask_mad(counters, Lid(2)).expect("an answer over an active link");
    assert_eq!(answer.status(), Status::OK);
    assert_eq!(lab.state("leaf0", 1), PortState::Active);
    assert_eq!(
        description(&mut lab, Route::Lid, Lid(3)).as_deref(),
        Some("spine0"),
        "through INIT"
    );
    let cable = lab.port("leaf0", 3);
    lab.emulator.inject(snin_emulator::Fault::Cut(cable), Time::ZERO);
    lab.wait(Time::millis(1));
    assert_eq!(description(&mut lab, Route::Lid, Lid(3)), None, "through a cut cable");
}

#[test]
fn packets_without_a_destination_are_dropped() {
    let mut lab = addressed();
    let mad = Smp::get(NodeInfo::ID, 0, Route::Lid).mad();
    assert!(lab.ask_mad(mad, PERMISSIVE).is_none());
    assert_eq!(lab.emulator.stats().no_route, 1);
}

/// Each hop is a link latency, each answer an agent's time; an agent does one thing after the other.
#[test]
fn time_passes_as_configured() {
    let config = Config {
        link_latency: Time(1_000),
        agent_latency: Time(70_000),
        bits_per_second: None,
        ..Config::default()
    };
    let mut lab = Lab::with(FABRIC, config.clone());
    let hops = |lab: &Lab, name: &str| lab.path(name).hops() as u64;
    for name in ["host0", "leaf0", "spine0", "host2"] {
        let begin = lab.emulator.now();
        let mad = Smp::get(NodeInfo::ID, 0, lab.route(name)).mad();
        lab.ask_mad(mad, Lid::NONE).unwrap();
        let took = lab.emulator.now() - begin;
        assert_eq!(took, Time(2_000 * hops(&lab, name) + 70_000), "{name}");
    }
    // Three at once to one agent, and one to another.
    let begin = lab.emulator.now();
    for name in ["spine0", "spine0", "spine0", "spine1"] {
        let mad = Smp::get(NodeInfo::ID, 0, lab.route(name)).mad();
        lab.send(&mad, Lid::NONE);
    }
    lab.wait(Time::secs(1));
    let times: Vec<u64> = lab.received().iter().map(|r| (r.at - begin).nanos()).collect();
    assert_eq!(times, [74_000, 74_000, 144_000, 214_000]);
    // 290 bytes at 232 Mbit/s: 10 us a packet and link. Four requests leave one after the other.
    let config = Config { bits_per_second: Some(232_000_000), agent_latency: Time::ZERO, ..config };
    let mut lab = Lab::with(FABRIC, config);
    for _ in 0..4 {
        let mad = Smp::get(NodeInfo::ID, 0, lab.route("leaf0")).mad();
        lab.send(&mad, Lid::NONE);
    }
    lab.wait(Time::secs(1));
    let times: Vec<u64> = lab.received().iter().map(|received| received.at.nanos()).collect();
    assert_eq!(times, [22_000, 32_000, 42_000, 52_000]);
}
