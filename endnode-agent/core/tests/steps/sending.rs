//! Posted pieces: which, when, and of how many bytes.

use snin_agent_core::{Config, FlowId, Notice, Output, PortCall};
use snin_fabric::TreeId;
use snin_protocol::Time;
use snin_protocol::message::{ClockAnswer, ControllerMessage, Grant};

use crate::support::*;

#[test]
fn nothing_is_sent_before_the_grant_begins() {
    let mut bench = Bench::asking(Bench::config(), 500);
    bench.grant(FLOW, TREE, Time::micros(50), MS);
    let pair = bench.connected();
    bench.pass(Time::micros(50) - Time(1));
    assert!(bench.posted().is_empty());
    bench.pass(Time(1));
    assert_eq!(bench.posted(), [500]);
    bench.done(pair, 0);
    let latency = Time::micros(50);
    assert_eq!(bench.take(), [Output::App(Notice::Sent { flow: FLOW, message: 0, latency })]);
    let histogram = bench.mesh.latency(FLOW).unwrap();
    assert!(histogram.max().abs_diff(latency.nanos()) <= latency.nanos() / 1000);
}

#[test]
fn what_is_posted_fits_into_what_is_left_of_the_grant() {
    // 10 us less the guard of 1 us: 9,000 bytes, a byte a nanosecond. Four pieces fit on the queue pair.
    let mut bench = Bench::asking(Bench::config(), 50_000);
    bench.grant(FLOW, TREE, Time::ZERO, Time::micros(10));
    let pair = bench.connected();
    assert_eq!(bench.posted(), [1000; 4]);
    bench.pass(Time::micros(6) - Time(50));
    bench.done(pair, 3);
    // 3,050 ns are left; a piece that is cut short ends with a whole packet.
    assert_eq!(bench.posted(), [1000, 1000, 1000]);
    bench.done(pair, 6);
    assert_eq!(bench.posted(), [1000, 1000, 1000], "the port turned out to be faster");
}

#[test]
fn a_piece_is_cut_short_at_whole_packets() {
    let mut bench = Bench::asking(Bench::config(), 50_000);
    bench.grant(FLOW, TREE, Time::ZERO, GUARD + Time(350));
    bench.connected();
    assert_eq!(bench.posted(), [300]);
}

#[test]
fn an_uncertain_clock_sends_less() {
    let config = Config { clock_error: Some(Time(200)), ..Bench::config() };
    let mut bench = Bench::asking(config, 50_000);
    bench.grant(FLOW, TREE, Time::ZERO, GUARD + Time(1000));
    bench.connected();
    assert!(bench.posted().is_empty(), "it may not have begun");
    bench.pass(Time(200));
    assert_eq!(bench.posted(), [600], "200 less at each end");
}

#[test]
fn a_new_tree_waits_until_the_old_one_is_drained_and_the_lease_is_confirmed_then() {
    let (mut bench, old) = Bench::granted(Config { queue: 4, ..Bench::config() }, 1_500);
    assert_eq!(bench.posted(), [1000, 500]);
    bench.send(FLOW, 1, 100);
    assert_eq!(bench.posted(), [100]);
    bench.grant(FLOW, TreeId(4), Time::micros(10), MS);
    let new = bench.connected();
    bench.send(FLOW, 2, 50);
    assert_eq!(
        bench.posted(),
        [50],
        "the old tree is the flow's until the new one's time has come"
    );
    bench.pass(Time::micros(10));
    bench.done(old, 1);
    bench.send(FLOW, 3, 300);
    assert!(bench.posted().is_empty(), "the old tree is not drained");
    bench.done(old, 2);
    assert!(bench.posted().is_empty());
    bench.done(old, 3);
    let outputs = bench.take();
    assert!(outputs.contains(&bench.confirms(2)));
    let post =
        |output: &Output| matches!(output, Output::Port(PortCall::Post(post)) if post.pair == new);
    assert!(outputs.iter().any(post));
    assert_eq!(bench.counters().changes, 1);
}

#[test]
fn a_flow_that_is_not_in_the_lease_stops_at_once() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 9_000);
    assert_eq!(bench.posted(), [1000; 4]);
    bench.lease(vec![], vec![]);
    bench.done(pair, 1);
    assert!(bench.take().is_empty());
    bench.done(pair, 3);
    assert_eq!(bench.take(), [bench.confirms(2)]);
    bench.leases -= 1;
    bench.lease(vec![], vec![]);
    assert_eq!(bench.take(), [bench.confirms(2)], "said again when the lease comes again");
}

#[test]
fn a_renewal_in_time_stops_nothing() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 2_000_000);
    for ticket in 0..2000 {
        if ticket % 500 == 0 {
            bench.grant(FLOW, TREE, Time::ZERO, MS);
        }
        bench.pass(Time::micros(1));
        bench.done(pair, ticket);
    }
    assert_eq!(bench.counters().messages, 1);
    assert_eq!((bench.counters().changes, bench.counters().overruns), (0, 0));
}

#[test]
fn a_clock_that_is_not_known_well_enough_sends_nothing() {
    let config = Config { clock_error: None, drift: 0, ..Bench::config() };
    let mut bench = Bench::new(config);
    bench.open(FLOW, PEER);
    bench.send(FLOW, 0, 10);
    let sent = bench.now - Time::micros(21);
    bench.controller(ControllerMessage::Clock(ClockAnswer { sent }));
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    bench.asks = 1;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    bench.connected();
    bench.pass(Time::micros(50));
    assert!(bench.posted().is_empty());
    let sent = bench.now - Time::micros(20);
    bench.controller(ControllerMessage::Clock(ClockAnswer { sent }));
    assert_eq!(bench.posted(), [10], "half of 20 us is what the terms allow");
}

#[test]
fn what_is_under_way_when_its_grant_is_renewed_has_until_the_new_end() {
    let (mut bench, _) = Bench::granted(Bench::config(), 1000);
    bench.pass(MS / 2);
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    let late = MS - GUARD + Bench::config().acknowledgement;
    bench.pass(late - Time(1));
    assert_eq!(bench.counters().overruns, 0);
    bench.pass(Time(1));
    assert_eq!(bench.counters().overruns, 1);
}

#[test]
fn a_new_tree_is_taken_when_the_last_piece_is_off_the_links() {
    let config = Config { settle: MS / 20, ..Bench::config() };
    let (mut bench, pair) = Bench::granted(config, 10);
    bench.take();
    bench.grant(FLOW, TreeId(4), Time::ZERO, MS);
    bench.connected();
    bench.done(pair, 0);
    bench.take();
    bench.send(FLOW, 1, 20);
    bench.pass(config.settle - Time(1));
    assert!(bench.posted().is_empty());
    bench.pass(Time(1));
    assert_eq!(bench.posted(), [20]);
}

#[test]
fn how_long_every_message_took_is_known() {
    let config = Config { queue: 8, depth: 8, ..Bench::config() };
    let (mut bench, pair) = Bench::ungranted(config);
    (1..5).for_each(|id| bench.send(FLOW, id, 100));
    bench.pass(MS);
    bench.done(pair, 4);
    let latency = bench.mesh.latency(FLOW).unwrap();
    assert_eq!((latency.len(), bench.counters().messages), (5, 5));
    assert_eq!(latency.count_between(MS.nanos() - MS.nanos() / 10, u64::MAX), 4);
}

#[test]
fn a_flow_is_paced_to_the_slowest_link_of_its_way() {
    // The way forwards half of what the port sends: a byte in 2 ns, for 20 us.
    let mut bench = Bench::asking(Bench::config(), 50_000);
    let until = bench.now + Time::micros(20) + GUARD;
    let grant = Grant { rate: 4_000_000_000, ..grant(FLOW, TREE, bench.now, until) };
    bench.lease(vec![grant], vec![]);
    let pair = bench.connected();
    for ticket in 0..10 {
        assert_eq!((bench.posted(), ticket), (vec![1000], ticket));
        // However fast the port is.
        bench.done(pair, ticket);
        bench.pass(Time::micros(2) - Time(1));
        assert!(bench.posted().is_empty(), "{ticket}");
        bench.pass(Time(1));
    }
    assert!(bench.posted().is_empty(), "the grant is over");
}

#[test]
fn a_paced_flow_keeps_no_other_waiting_and_posts_little_at_once() {
    // A piece would be 1 ms of a link that is a hundredth of the port's.
    let config = Config { piece: 10_000, depth: 4, ..Bench::config() };
    let mut bench = Bench::asking(config, 50_000);
    bench.open(FlowId(1), PEER);
    bench.send(FlowId(1), 1, 40_000);
    // Its request goes out when the first was heard.
    bench.lease(vec![], vec![]);
    bench.asks = 2;
    let until = bench.now + MS + GUARD;
    let slow = Grant { rate: 80_000_000, ..grant(FLOW, TREE, bench.now, until) };
    let full = grant(FlowId(1), TreeId(4), bench.now, until);
    bench.lease(vec![slow, full], vec![]);
    let pairs = bench.connect_all();
    assert_eq!(pairs.len(), 2);
    let posted = bench.posts();
    // At least a packet, and no more than goes in 20 us.
    let of = |flow| posted.iter().filter(|post| post.piece.flow == flow).collect::<Vec<_>>();
    assert_eq!(of(FLOW).iter().map(|post| post.piece.bytes).collect::<Vec<_>>(), [200]);
    assert_eq!(of(FLOW)[0].rate, 80_000_000, "the port may pace its packets");
    let bytes = of(FlowId(1)).iter().map(|post| post.piece.bytes).collect::<Vec<_>>();
    assert_eq!(bytes, [10_000; 4]);
    assert_eq!(of(FlowId(1))[0].rate, 0);
}
