//! Performance management: MADs that really passed are counted (IBA 16.1).

use snin_fabric::{Lid, Lmc, PortNum};
use snin_mad::{
    Attribute, ClassPortInfo, Hex16, Hex32, Mad, Method, NodeInfo, PortCounters,
    PortCountersExtended, Smp, Status, TransactionId,
};

use crate::support::{Answer, Lab};

fn lab() -> Lab {
    let mut lab = Lab::new("clos:2,2,2");
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 0)]);
    lab.activate("host0", 1);
    lab
}

fn ask<A: Attribute>(lab: &mut Lab, method: Method, to: u16, value: &A) -> Answer<A> {
    let mad = Mad::performance(method, A::ID, 0, TransactionId(0)).with(value);
    Answer::of(lab.ask_mad(mad, Lid(to)))
}

fn narrow(lab: &mut Lab, port: u8) -> PortCounters {
    let value = PortCounters { port: PortNum(port), ..PortCounters::default() };
    ask(lab, Method::Get, 2, &value).value()
}

fn wide(lab: &mut Lab, port: u8) -> PortCountersExtended {
    let value = PortCountersExtended { port: PortNum(port), ..PortCountersExtended::default() };
    ask(lab, Method::Get, 2, &value).value()
}

#[test]
fn every_packet_is_counted_once_at_each_port_it_passes() {
    let mut lab = lab();
    let before = [1, 2, 3, 4].map(|port| wide(&mut lab, port));
    // Ten requests to host1, behind port 2, and their answers; the queries pass port 1 too.
    for _ in 0..10 {
        lab.get::<NodeInfo>("host1", 0).value();
    }
    let after = [1, 2, 3, 4].map(|port| wide(&mut lab, port));
    let passed = |i: usize| {
        let (a, b) = (&after[i], &before[i]);
        (a.receive_packets - b.receive_packets, a.transmit_packets - b.transmit_packets)
    };
    // Port 1 was asked about four times between: the request before it, not yet its own answer.
    assert_eq!([0, 1, 2, 3].map(passed), [(14, 14), (10, 10), (0, 0), (0, 0)]);
    // In units of 4 bytes: 288 bytes a packet without the link's own check sum.
    assert_eq!(after[1].receive_data - before[1].receive_data, 10 * 72);
    assert_eq!(after[1].unicast_receive_packets, after[1].receive_packets);
    // The narrow ones count the same, and all ports together are the sum.
    assert_eq!(u64::from(narrow(&mut lab, 2).receive_packets), after[1].receive_packets);
    let all = wide(&mut lab, 255);
    let sum: u64 = [0, 1, 2, 3, 4].map(|port| wide(&mut lab, port).receive_packets).iter().sum();
    // Port 1 by the questions about ports 0 and 1.
    assert_eq!(sum, all.receive_packets + 2);
}

#[test]
fn only_selected_counters_are_set_and_each_attribute_by_itself() {
    let mut lab = lab();
    lab.get::<NodeInfo>("host1", 0).value();
    let before = narrow(&mut lab, 2);
    assert!(before.receive_packets > 0 && before.transmit_packets > 0);
    // PortRcvPkts to 1000; PortXmitPkts is given, but not selected.
    let set = PortCounters {
        port: PortNum(2),
        select: Hex16(1 << 15),
        receive_packets: 1_000,
        transmit_packets: 77,
        ..PortCounters::default()
    };
    let answer = ask(&mut lab, Method::Set, 2, &set).value();
    assert_eq!((answer.receive_packets, answer.transmit_packets), (1_000, before.transmit_packets));
    assert_eq!(wide(&mut lab, 2).receive_packets, u64::from(before.receive_packets));
    lab.get::<NodeInfo>("host1", 0).value();
    assert_eq!(narrow(&mut lab, 2).receive_packets, 1_001);
    let set = PortCountersExtended {
        port: PortNum(2),
        select: Hex16(1 << 3),
        ..PortCountersExtended::default()
    };
    assert_eq!(ask(&mut lab, Method::Set, 2, &set).value().receive_packets, 0);
    assert_eq!(narrow(&mut lab, 2).receive_packets, 1_001);
    // Errors are selected by the second half.
    let set = PortCountersExtended {
        port: PortNum(2),
        select2: Hex32(1 << 2),
        link_downed: 5,
        symbol_errors: 5,
        ..PortCountersExtended::default()
    };
    let answer = ask(&mut lab, Method::Set, 2, &set).value();
    assert_eq!((answer.link_downed, answer.symbol_errors), (5, 0));
}

#[test]
fn narrow_counters_stop_at_their_maximum() {
    let mut lab = lab();
    let set = PortCounters {
        port: PortNum(2),
        select: Hex16(1 << 15 | 1 << 2),
        receive_packets: u32::MAX,
        link_downed: u8::MAX,
        ..PortCounters::default()
    };
    ask(&mut lab, Method::Set, 2, &set).value();
    lab.get::<NodeInfo>("host1", 0).value();
    let port = lab.port("leaf0", 2);
    lab.emulator.inject(snin_emulator::Fault::Cut(port), lab.emulator.now());
    let now = narrow(&mut lab, 2);
    assert_eq!((now.receive_packets, now.link_downed), (u32::MAX, u8::MAX));
}

#[test]
fn errors_are_counted_where_they_happen() {
    let mut lab = lab();
    // No entry for LID 9.
    let mad = Smp::get(NodeInfo::ID, 0, snin_mad::Route::Lid).mad();
    lab.send(&mad, Lid(1).max(Lid(9)));
    let port = lab.port("leaf0", 2);
    lab.emulator.inject(snin_emulator::Fault::Cut(port), lab.emulator.now());
    lab.wait(snin_protocol::Time::millis(1));
    let route = snin_mad::Route::directed(snin_mad::DrPath::new(&[1, 2]).unwrap());
    assert!(lab.ask_mad(Smp::get(NodeInfo::ID, 0, route).mad(), Lid::NONE).is_none());
    assert_eq!(narrow(&mut lab, 1).receive_switch_relay_errors, 1);
    let two = narrow(&mut lab, 2);
    assert_eq!((two.link_downed, two.transmit_discards), (1, 1));
}

#[test]
fn what_is_not_there_is_refused() {
    let mut lab = lab();
    let at = |port| PortCounters { port: PortNum(port), ..PortCounters::default() };
    for (port, status) in [(0, Status::OK), (4, Status::OK), (5, Status::BAD_VALUE)] {
        assert_eq!(ask(&mut lab, Method::Get, 2, &at(port)).status(), Some(status), "{port}");
    }
    // An adapter has no port 0.
    assert_eq!(ask(&mut lab, Method::Get, 1, &at(0)).status(), Some(Status::BAD_VALUE));
    assert_eq!(ask(&mut lab, Method::Get, 1, &at(1)).status(), Some(Status::OK));
    let info = ask(&mut lab, Method::Get, 2, &ClassPortInfo::default()).value();
    assert_eq!(info.capabilities.0 & 0x300, 0x300);
    let set = ask(&mut lab, Method::Set, 2, &ClassPortInfo::default());
    assert_eq!(set.status(), Some(Status::BAD_METHOD_ATTRIBUTE));
    let mad = Mad::performance(Method::Get, snin_mad::AttributeId(0x16), 0, TransactionId(0));
    assert_eq!(lab.ask_mad(mad, Lid(2)).unwrap().status(), Status::BAD_METHOD_ATTRIBUTE);
}
