//! Queue pairs, ports and flows that come, go and fail.

use snin_agent_core::{
    Arrival, BreakReason, Call, Config, ControllerState, Decline, Event, FlowId, LossPolicy,
    Notice, Output, PairId, PairState, Piece, PortCall, PortEvent, Post, Route,
};
use snin_fabric::{Dlid, Guid, Lid, TreeId};
use snin_protocol::message::{Change, Grant};
use snin_protocol::{ConnectionNumber, Time};

use crate::support::*;

#[test]
fn a_late_port_is_stopped_so_that_no_retry_meets_the_next_owner() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 1000);
    bench.take();
    let late = MS - GUARD + Bench::config().acknowledgement;
    bench.pass(late - Time(1));
    assert_eq!(bench.counters().overruns, 0);
    bench.pass(Time(1));
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::Overrun };
    assert_eq!(bench.take()[..2], [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    assert_eq!(bench.counters().overruns, 1);
}

#[test]
fn another_address_of_the_peer_makes_another_queue_pair() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    let moved = Grant { dlid: Dlid(Lid(999)), ..grant(FLOW, TREE, bench.now, bench.now + MS) };
    bench.lease(vec![moved], vec![]);
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::Readdressed };
    assert_eq!(bench.take()[..2], [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    // It has not failed, so that there is no pause.
    bench.notify(Event::Port(PortEvent::Closed { pair }));
    let route = |output: &Output| match output {
        Output::Port(PortCall::Connect { route, .. }) => Some(*route),
        _ => None,
    };
    let route = bench.take().iter().find_map(route).expect("a new queue pair");
    assert_eq!(route, Route { peer: PEER, tree: TREE, dlid: Some(moved.dlid), sl: 0 });
}

/// When a spine goes, trees are numbered anew: the same number with another address is another way. It is not gone
/// before its time, and the one before counts as clear when its queue pair is gone.
#[test]
fn the_same_tree_with_another_address_is_another_way() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10_000);
    assert!(!bench.posts().is_empty());
    let from = bench.now + MS / 2;
    let moved = Grant { dlid: Dlid(Lid(999)), ..grant(FLOW, TREE, from, from + MS) };
    bench.lease(vec![moved], vec![]);
    let confirmed = bench.confirms(2);
    let said = bench.take();
    assert!(said.contains(&Output::Port(PortCall::Close { pair })), "{said:?}");
    assert!(!said.contains(&confirmed), "{said:?}");
    bench.notify(Event::Port(PortEvent::Closed { pair }));
    // What was under way may still arrive for a while.
    bench.connected();
    bench.pass(MS / 2 - Time(1));
    assert!(bench.outputs.contains(&confirmed), "{:?}", bench.outputs);
    assert_eq!(bench.posts(), []);
    bench.pass(Time(1));
    assert!(!bench.posts().is_empty());
}

#[test]
fn the_least_recently_used_queue_pair_gives_way() {
    let (mut bench, first) = Bench::granted(Bench::config(), 10);
    bench.done(first, 0);
    bench.grant(FLOW, TreeId(4), Time::ZERO, MS);
    let second = bench.connected();
    bench.send(FLOW, 1, 10);
    bench.done(second, 0);
    bench.take();
    bench.grant(FLOW, TreeId(5), Time::ZERO, MS);
    assert_eq!(bench.take()[0], Output::Port(PortCall::Close { pair: first }));
    assert_eq!(bench.mesh.pairs().count(), 2);
    bench.send(FLOW, 2, 10);
    bench.notify(Event::Port(PortEvent::Closed { pair: first }));
    let third = bench.connected();
    assert_eq!(third.slot, first.slot);
    assert_ne!(third.life, first.life);
    assert_eq!(bench.posted(), [10]);
    assert_eq!((bench.counters().evicted, bench.counters().connects), (1, 3));
}

#[test]
fn room_for_what_is_granted_is_made_before_its_time_comes() {
    // Two queue pairs, both in use so far, and two grants for other peers that begin in a millisecond.
    let (mut bench, first) = Bench::granted(Bench::config(), 10);
    bench.done(first, 0);
    bench.grant(FLOW, TreeId(4), Time::ZERO, MS);
    let second = bench.connected();
    let (a, b) = (FlowId(1), FlowId(2));
    for flow in [a, b] {
        bench.open(flow, Guid(70 + u64::from(flow.0)));
        bench.send(flow, 0, 10);
        // Each ask is delivered and heard before the next one is made.
        bench.take();
        bench.asks += 1;
        bench.lease(vec![], vec![]);
    }
    bench.take();
    let grants = [a, b].map(|flow| grant(flow, TREE, bench.now + MS, bench.now + MS * 2));
    bench.lease(grants.to_vec(), vec![]);
    let close = |pair| Output::Port(PortCall::Close { pair });
    let said = bench.take();
    assert!(said.starts_with(&[close(first), close(second)]), "both at once: {said:?}");
    for pair in [first, second] {
        bench.notify(Event::Port(PortEvent::Closed { pair }));
        bench.connected();
    }
    bench.pass(MS - Time(1));
    assert!(bench.posted().is_empty());
    bench.pass(Time(1));
    assert_eq!(bench.posted(), [10, 10], "with the first moment of the grants");
    assert_eq!((bench.counters().evicted, bench.counters().connects), (2, 4));
}

#[test]
fn without_a_controller_nobody_is_called_and_flows_send_at_once() {
    let config = Config { controller: false, loss: LossPolicy::BestEffort, ..Bench::config() };
    let mut bench = Bench::stranger(config);
    bench.open(FLOW, PEER);
    bench.send(FLOW, 0, 10);
    let pair = bench.connected();
    assert_eq!(bench.posted(), [10]);
    bench.done(pair, 0);
    for _ in 0..100 {
        bench.pass(config.silence);
        let outputs = bench.take();
        assert!(
            !outputs.iter().any(|output| matches!(output, Output::Controller(_))),
            "{outputs:?}"
        );
    }
    assert_eq!(bench.mesh.controller(), ControllerState::None);
    assert_eq!((bench.counters().conversations, bench.counters().controller_lost), (0, 0));
}

#[test]
fn a_silent_policy_stops_and_besteffort_takes_tree_0() {
    for loss in [LossPolicy::Silent, LossPolicy::BestEffort] {
        let (silence, linger) = (Time::millis(500), Time::secs(5));
        let config = Config { loss, silence, linger, ..Bench::config() };
        let (mut bench, pair) = Bench::granted(config, 10);
        bench.done(pair, 0);
        bench.pass(config.silence / 2);
        bench.take();
        bench.send(FLOW, 1, 20);
        bench.pass(config.silence);
        assert_eq!(bench.mesh.controller(), ControllerState::Lost);
        let outputs = bench.take();
        assert!(outputs.contains(&Output::App(Notice::ControllerLost)));
        let tree_0 = |output: &Output| {
            let Output::Port(PortCall::Connect { route, .. }) = output else { return false };
            route.tree == TreeId(0)
        };
        assert_eq!(outputs.iter().any(tree_0), loss == LossPolicy::BestEffort);
        if loss == LossPolicy::BestEffort {
            bench.outputs = outputs;
            let unasked = bench.connected();
            assert_eq!(bench.posted(), [20]);
            // The controller is back: the flow goes on with what it is granted, in order.
            bench.send(FLOW, 2, 30);
            assert_eq!(bench.posted(), [30]);
            bench.grant(FLOW, TREE, Time::ZERO, MS);
            assert!(bench.take().contains(&Output::App(Notice::ControllerFound)));
            bench.send(FLOW, 3, 40);
            assert_eq!(bench.take().len(), 1, "the queue is full: declined");
            bench.done(unasked, 1);
            bench.send(FLOW, 4, 50);
            assert_eq!(bench.posted(), [50]);
        }
    }
}

#[test]
fn a_stalled_queue_pair_is_made_anew_and_its_pieces_go_again() {
    let config =
        Config { stall: Time::micros(100), longest_grant: Time::secs(10), ..Bench::config() };
    let mut bench = Bench::asking(config, 10);
    bench.grant(FLOW, TREE, Time::ZERO, Time::secs(5));
    let pair = bench.connected();
    bench.take();
    bench.pass(config.stall);
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::Stalled };
    assert_eq!(bench.take(), [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    bench.notify(Event::Port(PortEvent::Closed { pair }));
    bench.pass(config.reconnect);
    let again = bench.connected();
    assert_ne!(pair, again);
    assert_eq!(bench.posted(), [10]);
    bench.done(again, 0);
    assert_eq!(bench.counters().messages, 1);
}

#[test]
fn a_stall_is_counted_from_the_last_progress() {
    let config = Config { stall: Time::micros(100), ..Bench::config() };
    let (mut bench, pair) = Bench::granted(config, 2_000);
    bench.pass(Time::micros(90));
    bench.done(pair, 0);
    bench.pass(Time::micros(99));
    assert_eq!(bench.counters().broken, 0);
    bench.pass(Time::micros(1));
    assert_eq!(bench.counters().broken, 1);
}

#[test]
fn pauses_double_until_something_is_done() {
    let config = Config { longest_grant: Time::secs(60), ..Bench::config() };
    let mut bench = Bench::asking(config, 3_000);
    bench.grant(FLOW, TREE, Time::ZERO, Time::secs(60));
    let mut pair = bench.connected();
    let mut breaks = |bench: &mut Bench, pause: Time| {
        bench.notify(Event::Port(PortEvent::Broken { pair, reason: BreakReason::Failed }));
        bench.notify(Event::Port(PortEvent::Closed { pair }));
        let connects = bench.counters().connects;
        bench.pass(pause - Time(1));
        assert_eq!(bench.counters().connects, connects);
        bench.pass(Time(1));
        pair = bench.connected();
        pair
    };
    breaks(&mut bench, config.reconnect);
    breaks(&mut bench, config.reconnect * 2);
    let third = breaks(&mut bench, config.reconnect * 4);
    bench.done(third, 0);
    breaks(&mut bench, config.reconnect);
}

#[test]
fn a_port_that_goes_down_breaks_all_and_comes_back() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    bench.notify(Event::Port(PortEvent::Down));
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::PortDown };
    assert_eq!(bench.take(), [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    bench.notify(Event::Port(PortEvent::Closed { pair }));
    bench.pass(Time::micros(500));
    assert!(bench.take().is_empty(), "nothing is connected on a port without a link");
    bench.notify(Event::Port(PortEvent::Up));
    bench.connected();
    assert_eq!(bench.posted(), [10]);
    assert!(bench.mesh.pairs().all(|pair| pair.state == PairState::Ready));
}

#[test]
fn a_closed_flow_waits_for_what_is_under_way_only() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 5_000);
    bench.send(FLOW, 1, 10);
    bench.take();
    bench.notify(Event::App(Call::Close { flow: FLOW }));
    assert!(bench.take().is_empty());
    bench.send(FLOW, 2, 10);
    let declined = Notice::Declined { flow: FLOW, reason: Decline::NotOpen };
    assert_eq!(bench.take(), [Output::App(declined)]);
    bench.done(pair, 3);
    let withdrawn = bench.asks(2, Change::Withdraw(ConnectionNumber(0)));
    let closed = Output::App(Notice::Closed { flow: FLOW, unsent: 2 });
    assert_eq!(bench.take(), [closed, withdrawn]);
    // Its number may be used again; the numbers of its pieces go on.
    bench.open(FLOW, PEER);
    bench.send(FLOW, 9, 10);
    bench.asks = 2;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    assert_eq!(bench.counters().unasked_grants, 1, "it was meant for the flow before");
    bench.asks = 3;
    bench.take();
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    let posts = bench.take();
    let Some(Output::Port(PortCall::Post(Post { piece, .. }))) = posts.last() else {
        panic!("{posts:?}");
    };
    assert_eq!((piece.sequence, piece.offset), (4, 0));
}

#[test]
fn limits_are_kept() {
    let mut bench = Bench::new(Bench::config());
    let declined =
        |flow, reason| vec![Output::App(Notice::Declined { flow: FlowId(flow), reason })];
    bench.open(FlowId(3), PEER);
    assert_eq!(bench.take(), declined(3, Decline::NoSuchNumber));
    bench.open(FlowId(2), PEER);
    bench.open(FlowId(2), PEER);
    assert_eq!(bench.take(), declined(2, Decline::AlreadyOpen));
    bench.send(FlowId(2), 0, 1);
    bench.send(FlowId(2), 1, 1);
    bench.take();
    bench.send(FlowId(2), 2, 1);
    assert_eq!(bench.take(), declined(2, Decline::QueueFull(2)));
    let piece =
        Piece { flow: FLOW, sequence: u64::MAX, message: 0, offset: 0, bytes: 1, last: true };
    for (peer, session) in [(1, 0), (2, 0), (1, 0), (1, 9)] {
        let arrival = Arrival { peer: Guid(peer), session, piece };
        bench.notify(Event::Port(PortEvent::Arrived(arrival)));
    }
    let counters = bench.counters();
    assert_eq!((counters.too_many, counters.received), (1, 3));
}

#[test]
fn news_of_queue_pairs_that_are_not_there_changes_nothing() {
    let mut bench = Bench::new(Bench::config());
    for pair in
        [PairId { slot: 0, life: 0 }, PairId { slot: 1, life: 7 }, PairId { slot: 99, life: 0 }]
    {
        bench.notify(Event::Port(PortEvent::Ready { pair }));
        bench.done(pair, 3);
        bench.notify(Event::Port(PortEvent::Broken { pair, reason: BreakReason::Failed }));
        bench.notify(Event::Port(PortEvent::Closed { pair }));
    }
    assert!(bench.take().is_empty());
}
