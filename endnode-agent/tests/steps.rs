//! What a mesh does with orders, calls and port news, one at a time.

use snin_agent::core::{
    Arrival, BreakReason, Call, Config, Counters, Decline, Event, FlowId, Frame, Grant, LossPolicy,
    Mesh, Message, Notice, Order, Output, PairId, PairState, Piece, PortCall, PortEvent, Report,
};
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

const FLOW: FlowId = FlowId(0);
const PEER: Guid = Guid(7);
const TREE: TreeId = TreeId(3);

/// A mesh at a time, with everything that it wanted done.
struct Bench {
    mesh: Mesh,
    now: Time,
    outputs: Vec<Output>,
}

impl Bench {
    /// 8 Gbit/s: a byte a nanosecond; no overhead, a clock without error.
    fn config() -> Config {
        Config {
            pairs: 2,
            flows: 3,
            inbound: 1,
            queue: 2,
            depth: 4,
            piece: 1000,
            mtu: 100,
            overhead: 0,
            rate: 8_000_000_000,
            clock_error: Time::ZERO,
            guard: Time::micros(1),
            longest_grant: Time::secs(1),
            ..Config::default()
        }
    }

    fn new(config: Config) -> Self {
        let now = Time::secs(1);
        Self { mesh: Mesh::new(config, now).unwrap(), now, outputs: Vec::new() }
    }

    /// With one flow that wants to send, and has asked.
    fn asking(config: Config, bytes: u64) -> Self {
        let mut bench = Self::new(config);
        bench.open(FLOW, PEER);
        bench.send(FLOW, 0, bytes);
        assert_eq!(bench.take(), [request(FLOW)]);
        bench
    }

    /// With one flow that is granted `TREE` from now for a millisecond, and a queue pair that is ready.
    fn granted(config: Config, bytes: u64) -> (Self, PairId) {
        let mut bench = Self::asking(config, bytes);
        bench.grant(FLOW, TREE, Time::ZERO, Time::millis(1));
        let pair = bench.connected();
        (bench, pair)
    }

    fn tell(&mut self, event: Event) {
        self.mesh.handle(event, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.mesh.poll_output() {
            self.outputs.push(output);
        }
    }

    fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn pass(&mut self, time: Time) {
        let until = self.now + time;
        while let Some(deadline) = self.mesh.next_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(deadline);
            self.mesh.handle_deadline(self.now);
            self.collect();
        }
        self.now = until;
    }

    fn open(&mut self, flow: FlowId, peer: Guid) {
        self.tell(Event::App(Call::Open { flow, peer }));
    }

    fn send(&mut self, flow: FlowId, id: u64, bytes: u64) {
        let message = Message { id, bytes, due: self.now };
        self.tell(Event::App(Call::Send { flow, message }));
    }

    fn order(&mut self, term: u64, order: Order) {
        self.tell(Event::Controller(Frame { term, at: self.now, order }));
    }

    fn grant(&mut self, flow: FlowId, tree: TreeId, from: Time, length: Time) {
        let from = self.now + from;
        let grant = Grant { tree, from, until: from + length, pinned: false };
        self.order(1, Order::Grant { flow, grant });
    }

    /// Connects what is to be connected.
    fn connected(&mut self) -> PairId {
        let connect = |output: &Output| match output {
            Output::Port(PortCall::Connect { pair, .. }) => Some(*pair),
            _ => None,
        };
        let pair = self.take().iter().rev().find_map(connect).expect("a queue pair to connect");
        self.tell(Event::Port(PortEvent::Ready { pair }));
        pair
    }

    /// Bytes of what was posted since the last look.
    fn posted(&mut self) -> Vec<u32> {
        let posted = |output: &Output| match output {
            Output::Port(PortCall::Post { piece, .. }) => Some(piece.bytes),
            _ => None,
        };
        self.take().iter().filter_map(posted).collect()
    }

    fn done(&mut self, pair: PairId, ticket: u64) {
        self.tell(Event::Port(PortEvent::Done { pair, ticket }));
    }

    fn counters(&self) -> Counters {
        *self.mesh.counters()
    }
}

fn request(flow: FlowId) -> Output {
    Output::Controller(Report::Request { flow, peer: PEER })
}

#[test]
fn nothing_is_sent_before_the_grant_begins() {
    let mut bench = Bench::asking(Bench::config(), 500);
    bench.grant(FLOW, TREE, Time::micros(50), Time::millis(1));
    let pair = bench.connected();
    bench.pass(Time::micros(50) - Time(1));
    assert_eq!(bench.posted(), []);
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
    bench.grant(FLOW, TREE, Time::ZERO, Time(1000 + 350));
    bench.connected();
    assert_eq!(bench.posted(), [300]);
}

#[test]
fn an_uncertain_clock_sends_less() {
    let config = Config { clock_error: Time(200), ..Bench::config() };
    let mut bench = Bench::asking(config, 50_000);
    bench.grant(FLOW, TREE, Time::ZERO, Time(1000 + 1000));
    bench.connected();
    assert_eq!(bench.posted(), [], "it may not have begun");
    bench.pass(Time(200));
    assert_eq!(bench.posted(), [600], "200 less at each end");
}

#[test]
fn a_new_tree_waits_until_the_old_one_is_drained_and_the_controller_is_told() {
    let (mut bench, old) = Bench::granted(Config { queue: 4, ..Bench::config() }, 1_500);
    assert_eq!(bench.posted(), [1000, 500]);
    bench.send(FLOW, 1, 100);
    assert_eq!(bench.posted(), [100]);
    let order = bench.now;
    bench.grant(FLOW, TreeId(4), Time::micros(10), Time::millis(1));
    let new = bench.connected();
    bench.pass(Time::micros(10));
    bench.send(FLOW, 2, 200);
    assert_eq!(bench.take(), [], "the old tree is not drained");
    bench.done(old, 1);
    bench.send(FLOW, 3, 300);
    assert_eq!(bench.posted(), []);
    bench.done(old, 2);
    let outputs = bench.take();
    let drained = Output::Controller(Report::Drained { flow: FLOW, tree: TREE, order });
    let at = outputs.iter().position(|output| *output == drained).expect("the controller is told");
    let post = |output: &Output| matches!(output, Output::Port(PortCall::Post { pair, .. }) if *pair == new);
    assert!(outputs[at..].iter().any(post));
    assert_eq!(bench.counters().changes, 1);
}

#[test]
fn a_revoked_flow_stops_at_once() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 9_000);
    assert_eq!(bench.posted(), [1000; 4]);
    let order = bench.now;
    bench.order(1, Order::Revoke { flow: FLOW });
    bench.done(pair, 1);
    assert_eq!(bench.posted(), []);
    bench.take();
    bench.done(pair, 3);
    let drained = Output::Controller(Report::Drained { flow: FLOW, tree: TREE, order });
    assert_eq!(bench.take(), [drained]);
    bench.pass(Bench::config().ask_again);
    assert_eq!(bench.take(), [request(FLOW)]);
}

#[test]
fn a_renewal_in_time_stops_nothing() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 2_000_000);
    for ticket in 0..2000 {
        if ticket % 500 == 0 {
            bench.grant(FLOW, TREE, Time::ZERO, Time::millis(1));
        }
        bench.pass(Time::micros(1));
        bench.done(pair, ticket);
    }
    assert_eq!(bench.counters().messages, 1);
    assert_eq!((bench.counters().changes, bench.counters().overruns), (0, 0));
}

#[test]
fn a_late_port_is_stopped_so_that_no_retry_meets_the_next_owner() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 1000);
    bench.take();
    let late = Time::millis(1) - Bench::config().guard + Bench::config().acknowledgement;
    bench.pass(late - Time(1));
    assert_eq!(bench.counters().overruns, 0);
    bench.pass(Time(1));
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::Overrun };
    assert_eq!(bench.take()[..2], [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    assert_eq!(bench.counters().overruns, 1);
}

#[test]
fn orders_of_an_earlier_controller_are_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    bench.order(5, Order::Alive);
    bench.grant(FLOW, TREE, Time::ZERO, Time::millis(1));
    assert_eq!(bench.take(), []);
    assert_eq!(bench.counters().stale_term, 1);
}

#[test]
fn an_order_that_was_overtaken_is_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let grant =
        Grant { tree: TREE, from: bench.now, until: bench.now + Time::millis(1), pinned: false };
    let earlier =
        Frame { term: 1, at: bench.now - Time(5), order: Order::Grant { flow: FLOW, grant } };
    bench.order(1, Order::Revoke { flow: FLOW });
    bench.tell(Event::Controller(earlier));
    assert_eq!(bench.take(), []);
    assert_eq!(bench.counters().stale_order, 1);
}

#[test]
fn grants_that_mean_nothing_are_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    bench.grant(FLOW, TREE, Time::ZERO, Time::secs(2));
    bench.grant(FLOW, TREE, Time::ZERO, Time::ZERO);
    assert_eq!(bench.counters().bad_grants, 2);
    bench.grant(FLOW, TREE, Time::ZERO, Time(900));
    assert_eq!(bench.counters().late_grants, 1, "shorter than the guard");
    bench.grant(FlowId(9), TREE, Time::ZERO, Time::millis(1));
    let release = Output::Controller(Report::Release { flow: FlowId(9) });
    assert_eq!(bench.take(), [release], "so that the controller need not guess");
    assert_eq!(bench.counters().unknown_flow, 1);
    bench.tell(Event::Malformed);
    assert_eq!(bench.counters().malformed, 1);
    assert_eq!(bench.counters().grants, 0);
}

#[test]
fn a_frame_from_the_future_is_not_followed() {
    let config = Config { clock_error: Time(10), ..Bench::config() };
    let mut bench = Bench::asking(config, 10);
    let at = bench.now + Time(11);
    let grant = Grant { tree: TREE, from: at, until: at + Time::millis(1), pinned: false };
    bench.tell(Event::Controller(Frame { term: 1, at, order: Order::Grant { flow: FLOW, grant } }));
    assert_eq!((bench.take(), bench.counters().wrong_clock), (vec![], 1));
}

#[test]
fn a_pinned_grant_does_not_move() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let until = bench.now + Time::millis(1);
    let pinned = Grant { tree: TREE, from: bench.now, until, pinned: true };
    bench.order(1, Order::Grant { flow: FLOW, grant: pinned });
    bench.pass(Time(1));
    bench.grant(FLOW, TreeId(9), Time::ZERO, Time::millis(1));
    assert_eq!(bench.counters().bad_grants, 1);
    bench.order(1, Order::Revoke { flow: FLOW });
    bench.grant(FLOW, TreeId(9), Time::ZERO, Time::millis(1));
    assert_eq!((bench.counters().bad_grants, bench.counters().grants), (1, 2));
}

#[test]
fn requests_are_repeated_and_refusals_waited_out() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let config = Bench::config();
    bench.pass(config.ask_again - Time(1));
    assert_eq!(bench.take(), []);
    bench.pass(Time(1));
    assert_eq!(bench.take(), [request(FLOW)]);
    bench.order(1, Order::Refuse { flow: FLOW });
    assert_eq!(bench.take(), [Output::App(Notice::Refused { flow: FLOW })]);
    for _ in 0..4 {
        bench.order(1, Order::Alive);
        bench.pass(config.ask_refused / 4);
    }
    assert_eq!(bench.take(), [request(FLOW)]);
}

#[test]
fn a_connection_that_nobody_uses_is_given_back() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.done(pair, 0);
    bench.take();
    bench.pass(Bench::config().linger);
    let release = Output::Controller(Report::Release { flow: FLOW });
    assert_eq!(bench.take(), [release]);
}

#[test]
fn the_least_recently_used_queue_pair_gives_way() {
    let (mut bench, first) = Bench::granted(Bench::config(), 10);
    bench.done(first, 0);
    bench.grant(FLOW, TreeId(4), Time::ZERO, Time::millis(1));
    let second = bench.connected();
    bench.send(FLOW, 1, 10);
    bench.done(second, 0);
    bench.take();
    bench.grant(FLOW, TreeId(5), Time::ZERO, Time::millis(1));
    assert_eq!(bench.take()[0], Output::Port(PortCall::Close { pair: first }));
    assert_eq!(bench.mesh.pairs().count(), 2);
    bench.send(FLOW, 2, 10);
    bench.tell(Event::Port(PortEvent::Closed { pair: first }));
    let third = bench.connected();
    assert_eq!(third.slot, first.slot);
    assert_ne!(third.life, first.life);
    assert_eq!(bench.posted(), [10]);
    assert_eq!((bench.counters().evicted, bench.counters().connects), (1, 3));
}

#[test]
fn a_silent_policy_stops_and_besteffort_takes_tree_0() {
    for loss in [LossPolicy::Silent, LossPolicy::BestEffort] {
        let config = Config { loss, ..Bench::config() };
        let (mut bench, pair) = Bench::granted(config, 10);
        bench.done(pair, 0);
        bench.pass(config.silence / 2);
        bench.take();
        bench.send(FLOW, 1, 20);
        bench.pass(config.silence);
        assert!(bench.mesh.controller_is_lost());
        let outputs = bench.take();
        assert!(outputs.contains(&Output::App(Notice::ControllerLost)));
        let tree_0 = |output: &Output| {
            matches!(output, Output::Port(PortCall::Connect { tree: TreeId(0), .. }))
        };
        assert_eq!(outputs.iter().any(tree_0), loss == LossPolicy::BestEffort);
        if loss == LossPolicy::BestEffort {
            bench.outputs = outputs;
            let unasked = bench.connected();
            assert_eq!(bench.posted(), [20]);
            // The controller is back: the flow goes on with what it is granted, in order.
            bench.send(FLOW, 2, 30);
            assert_eq!(bench.posted(), [30]);
            bench.grant(FLOW, TREE, Time::ZERO, Time::millis(1));
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
    bench.tell(Event::Port(PortEvent::Closed { pair }));
    bench.pass(config.reconnect);
    let again = bench.connected();
    assert_ne!(pair, again);
    assert_eq!(bench.posted(), [10]);
    bench.done(again, 0);
    assert_eq!(bench.counters().messages, 1);
}

#[test]
fn a_port_that_goes_down_breaks_all_and_comes_back() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    bench.tell(Event::Port(PortEvent::Down));
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::PortDown };
    assert_eq!(bench.take(), [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    bench.tell(Event::Port(PortEvent::Closed { pair }));
    bench.pass(Time::micros(500));
    assert_eq!(bench.take(), [], "nothing is connected on a port without a link");
    bench.tell(Event::Port(PortEvent::Up));
    bench.connected();
    assert_eq!(bench.posted(), [10]);
    assert!(bench.mesh.pairs().all(|pair| pair.state == PairState::Ready));
}

#[test]
fn a_closed_flow_waits_for_what_is_under_way_only() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 5_000);
    bench.send(FLOW, 1, 10);
    bench.take();
    bench.tell(Event::App(Call::Close { flow: FLOW }));
    assert_eq!(bench.take(), []);
    bench.send(FLOW, 2, 10);
    let declined = Notice::Declined { flow: FLOW, reason: Decline::NotOpen };
    assert_eq!(bench.take(), [Output::App(declined)]);
    bench.done(pair, 3);
    let release = Output::Controller(Report::Release { flow: FLOW });
    let closed = Output::App(Notice::Closed { flow: FLOW, unsent: 2 });
    assert_eq!(bench.take(), [release, closed]);
    // Its number may be used again; the numbers of its pieces go on.
    bench.open(FLOW, PEER);
    bench.send(FLOW, 9, 10);
    bench.grant(FLOW, TREE, Time::ZERO, Time::millis(1));
    let posts = bench.take();
    let Some(Output::Port(PortCall::Post { piece, .. })) = posts.last() else {
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
        bench.tell(Event::Port(PortEvent::Arrived(arrival)));
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
        bench.tell(Event::Port(PortEvent::Ready { pair }));
        bench.done(pair, 3);
        bench.tell(Event::Port(PortEvent::Broken { pair, reason: BreakReason::Failed }));
        bench.tell(Event::Port(PortEvent::Closed { pair }));
    }
    assert_eq!(bench.take(), []);
}
