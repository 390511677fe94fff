//! What a mesh does with leases, calls and port news, one at a time.

use snin_agent::core::{
    Arrival, BreakReason, Call, Config, Counters, Decline, Event, FlowId, LossPolicy, Mesh,
    Message, Notice, Output, PairId, PairState, Piece, PortCall, PortEvent, Route, Wanted,
};
use snin_fabric::{Dlid, Guid, Lid, TreeId};
use snin_protocol::message::{
    AgentSays, Answer, Ask, Change, ClockAnswer, Confirm, ControllerSays, FromAgent, Grant, Lease,
    Refusal, Request, Terms, ToAgent, Verdict, Wait,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

const FLOW: FlowId = FlowId(0);
const PEER: Guid = Guid(7);
const TREE: TreeId = TreeId(3);
const GUARD: Time = Time::micros(1);
const MS: Time = Time::millis(1);

/// A mesh at a time, with everything that it wanted done.
struct Bench {
    mesh: Mesh,
    now: Time,
    outputs: Vec<Output>,
    session: Session,
    leases: u64,
    asks: u64,
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
            clock_error: Some(Time::ZERO),
            ask_time: Time::secs(100),
            silence: Time::secs(10),
            longest_grant: Time::secs(1),
            ..Config::default()
        }
    }

    /// A mesh that is welcome.
    fn new(config: Config) -> Self {
        let mut bench = Self::stranger(config);
        bench.pass(Time(1));
        bench.welcome();
        bench.take();
        bench
    }

    /// A mesh that knows nobody.
    fn stranger(config: Config) -> Self {
        let now = Time::secs(1);
        let session = Session(config.session);
        let mesh = Mesh::new(config, now).unwrap();
        Self { mesh, now, outputs: Vec::new(), session, leases: 0, asks: 0 }
    }

    fn welcome(&mut self) {
        let terms = Terms { window: MS, guard: GUARD, clock_error: Time::micros(10) };
        self.controller(ControllerSays::Welcome(terms));
    }

    /// With one flow that wants to send, and has asked.
    fn asking(config: Config, bytes: u64) -> Self {
        let mut bench = Self::new(config);
        bench.open(FLOW, PEER);
        bench.send(FLOW, 0, bytes);
        assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
        bench.asks = 1;
        bench
    }

    /// With one flow that is granted `TREE` from now for a millisecond, and a queue pair that is ready.
    fn granted(config: Config, bytes: u64) -> (Self, PairId) {
        let mut bench = Self::asking(config, bytes);
        bench.grant(FLOW, TREE, Time::ZERO, MS);
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
        self.tell(Event::App(Call::Open { flow, peer, wanted: Wanted::default() }));
    }

    fn send(&mut self, flow: FlowId, id: u64, bytes: u64) {
        let message = Message { id, bytes, due: self.now };
        self.tell(Event::App(Call::Send { flow, message }));
    }

    fn frame(&self, body: ControllerSays) -> ToAgent {
        ToAgent { session: self.session, term: Term(1), at: self.now, body }
    }

    fn controller(&mut self, body: ControllerSays) {
        self.tell(Event::Controller(self.frame(body)));
    }

    /// The next lease.
    fn lease(&mut self, grants: Vec<Grant>, answers: Vec<Answer>) {
        self.leases += 1;
        let lease = Lease { sequence: self.leases, heard: self.asks, grants, answers };
        self.controller(ControllerSays::Lease(lease));
    }

    /// A lease of nothing but this.
    fn grant(&mut self, flow: FlowId, tree: TreeId, from: Time, length: Time) {
        let from = self.now + from;
        self.lease(vec![grant(flow, tree, from, from + length)], vec![]);
    }

    fn asks(&self, number: u64, change: Change) -> Output {
        self.says(AgentSays::Ask(Ask { number, changes: vec![change] }))
    }

    fn confirms(&self, sequence: u64) -> Output {
        self.says(AgentSays::Confirm(Confirm { sequence }))
    }

    fn says(&self, body: AgentSays) -> Output {
        Output::Controller(FromAgent { session: self.session, body })
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

fn grant(flow: FlowId, tree: TreeId, from: Time, until: Time) -> Grant {
    let dlid = Dlid(Lid(64 + tree.0));
    Grant { connection: flow.into(), tree, dlid, from, until, pinned: false }
}

fn request(flow: FlowId) -> Change {
    Change::Request(Request {
        connection: flow.into(),
        destination: PEER,
        windows: 0,
        rate: 0,
        class: 0,
        pinned: false,
        tree: None,
    })
}

#[test]
fn nothing_is_sent_before_the_grant_begins() {
    let mut bench = Bench::asking(Bench::config(), 500);
    bench.grant(FLOW, TREE, Time::micros(50), MS);
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
    assert_eq!(bench.posted(), [], "it may not have begun");
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
    assert_eq!(bench.posted(), [], "the old tree is not drained");
    bench.done(old, 2);
    assert_eq!(bench.posted(), []);
    bench.done(old, 3);
    let outputs = bench.take();
    assert!(outputs.contains(&bench.confirms(2)));
    let post = |output: &Output| matches!(output, Output::Port(PortCall::Post { pair, .. }) if *pair == new);
    assert!(outputs.iter().any(post));
    assert_eq!(bench.counters().changes, 1);
}

#[test]
fn a_flow_that_is_not_in_the_lease_stops_at_once() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 9_000);
    assert_eq!(bench.posted(), [1000; 4]);
    bench.lease(vec![], vec![]);
    bench.done(pair, 1);
    assert_eq!(bench.take(), []);
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
fn frames_of_the_past_are_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let lease = |sequence, now| {
        let grants = vec![grant(FLOW, TREE, now, now + MS)];
        ControllerSays::Lease(Lease { sequence, heard: 1, grants, answers: vec![] })
    };
    let clock = ControllerSays::Clock(ClockAnswer { sent: bench.now });
    bench.tell(Event::Controller(ToAgent { term: Term(5), ..bench.frame(clock.clone()) }));
    bench.controller(lease(1, bench.now));
    let of_an_earlier_session =
        ToAgent { session: Session(77), ..bench.frame(lease(1, bench.now)) };
    bench.tell(Event::Controller(ToAgent { term: Term(5), ..of_an_earlier_session }));
    assert_eq!(bench.take(), []);
    assert_eq!((bench.counters().stale_term, bench.counters().stale_session), (1, 1));

    let mut bench = Bench::asking(Bench::config(), 10);
    bench.leases = 5;
    bench.lease(vec![], vec![]);
    bench.take();
    bench.controller(lease(5, bench.now));
    assert_eq!((bench.take(), bench.counters().stale_lease), (vec![], 1));
}

#[test]
fn grants_that_mean_nothing_are_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    bench.grant(FLOW, TREE, Time::ZERO, Time::secs(2));
    bench.grant(FLOW, TREE, Time::ZERO, Time::ZERO);
    assert_eq!(bench.counters().bad_grants, 2);
    bench.grant(FLOW, TREE, Time::ZERO, GUARD);
    assert_eq!(bench.counters().late_grants, 1);
    bench.grant(FlowId(9), TREE, Time::ZERO, MS);
    bench.asks = 0;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    assert_eq!(bench.counters().unasked_grants, 2, "the last is an older connection's");
    bench.tell(Event::Malformed);
    assert_eq!((bench.counters().malformed, bench.counters().grants), (1, 0));
    let confirmed = (1..=5).map(|sequence| bench.confirms(sequence)).collect::<Vec<_>>();
    assert_eq!(bench.take(), confirmed);
}

#[test]
fn a_frame_from_the_future_is_not_followed() {
    let config = Config { clock_error: Some(Time(10)), ..Bench::config() };
    let mut bench = Bench::asking(config, 10);
    let at = bench.now + Time(11);
    let lease = Lease {
        sequence: 1,
        heard: 1,
        grants: vec![grant(FLOW, TREE, at, at + MS)],
        answers: vec![],
    };
    bench.tell(Event::Controller(ToAgent { at, ..bench.frame(ControllerSays::Lease(lease)) }));
    assert_eq!((bench.take(), bench.counters().wrong_clock), (vec![], 1));
}

#[test]
fn a_clock_that_is_not_known_well_enough_sends_nothing() {
    let config = Config { clock_error: None, drift: 0, ..Bench::config() };
    let mut bench = Bench::asking(config, 10);
    let sent = bench.now - Time::micros(21);
    bench.controller(ControllerSays::Clock(ClockAnswer { sent }));
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    bench.connected();
    bench.pass(Time::micros(50));
    assert_eq!(bench.posted(), []);
    let sent = bench.now - Time::micros(20);
    bench.controller(ControllerSays::Clock(ClockAnswer { sent }));
    assert_eq!(bench.posted(), [10], "half of 20 us is what the terms allow");
}

#[test]
fn a_pinned_grant_does_not_move() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let pinned = Grant { pinned: true, ..grant(FLOW, TREE, bench.now, bench.now + MS) };
    bench.lease(vec![pinned], vec![]);
    bench.pass(Time(1));
    bench.grant(FLOW, TreeId(9), Time::ZERO, MS);
    assert_eq!(bench.counters().bad_grants, 1);
    bench.grant(FLOW, TreeId(9), Time::ZERO, MS);
    assert_eq!(
        (bench.counters().bad_grants, bench.counters().grants),
        (1, 2),
        "it was let go first"
    );
}

#[test]
fn asks_are_repeated_until_they_are_heard() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let again = Bench::config().ask_again;
    bench.pass(again - Time(1));
    assert_eq!(bench.take(), []);
    bench.pass(Time(1));
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    // What comes up meanwhile waits for its turn.
    bench.open(FlowId(1), PEER);
    bench.send(FlowId(1), 0, 1);
    assert_eq!(bench.take(), []);
    bench.lease(vec![], vec![]);
    assert_eq!(bench.take(), [bench.asks(2, request(FlowId(1))), bench.confirms(1)]);
}

#[test]
fn what_becomes_of_a_request_is_told_once() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let config = Bench::config();
    let answer = |verdict| vec![Answer { connection: ConnectionNumber(0), verdict }];
    let wait = Wait::SourceFull;
    for sequence in 1..3 {
        bench.lease(vec![], answer(Verdict::Deferred(wait)));
        let mut expected =
            vec![Output::App(Notice::Deferred { flow: FLOW, wait }), bench.confirms(sequence)];
        assert_eq!(bench.take(), expected.split_off(usize::from(sequence > 1)));
    }
    let refusal = Refusal::UnknownDestination;
    bench.lease(vec![], answer(Verdict::Refused(refusal)));
    assert_eq!(
        bench.take(),
        [Output::App(Notice::Refused { flow: FLOW, refusal }), bench.confirms(3)]
    );
    bench.pass(config.ask_refused);
    assert_eq!(bench.take(), [bench.asks(2, request(FLOW))]);
    bench.asks = 2;
    bench.lease(vec![], answer(Verdict::Served));
    assert_eq!(
        bench.take(),
        [bench.asks(3, request(FLOW)), bench.confirms(4)],
        "there is more to send"
    );
}

#[test]
fn a_connection_that_nobody_uses_is_given_back() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.done(pair, 0);
    bench.take();
    bench.pass(Bench::config().linger);
    assert_eq!(bench.take(), [bench.asks(2, Change::Withdraw(ConnectionNumber(0)))]);
}

#[test]
fn a_stranger_begins_anew_when_nothing_is_under_way() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    bench.controller(ControllerSays::Stranger);
    assert_eq!(bench.take(), [], "a piece is under way");
    bench.session = Session(bench.session.0 + 1);
    bench.done(pair, 0);
    let hello = |output: &Output| {
        matches!(output, Output::Controller(FromAgent { session, body: AgentSays::Hello(hello) })
            if *session == bench.session && hello.term == Term(1))
    };
    assert!(bench.outputs.iter().any(hello));
    bench.take();
    bench.send(FLOW, 1, 20);
    assert_eq!(bench.take(), []);
    bench.welcome();
    assert!(bench.take().contains(&bench.asks(1, request(FLOW))));
    bench.leases = 0;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    assert_eq!(bench.posted(), [20]);
}

#[test]
fn a_hello_is_repeated_until_it_is_answered() {
    let mut bench = Bench::stranger(Bench::config());
    bench.pass(Bench::config().ask_again * 3);
    assert_eq!(bench.counters().conversations, 4);
}

#[test]
fn another_address_of_the_peer_makes_another_queue_pair() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    let moved = Grant { dlid: Dlid(Lid(999)), ..grant(FLOW, TREE, bench.now, bench.now + MS) };
    bench.lease(vec![moved], vec![]);
    let broken = Notice::Broken { peer: PEER, tree: TREE, reason: BreakReason::Readdressed };
    assert_eq!(bench.take()[..2], [Output::App(broken), Output::Port(PortCall::Close { pair })]);
    bench.tell(Event::Port(PortEvent::Closed { pair }));
    bench.pass(Bench::config().reconnect.min(Time::micros(500)));
    bench.grant(FLOW, TREE, Time::ZERO, Time::millis(100));
    bench.pass(Bench::config().reconnect);
    let route = |output: &Output| match output {
        Output::Port(PortCall::Connect { route, .. }) => Some(*route),
        _ => None,
    };
    let route = bench.outputs.iter().find_map(route).expect("a new queue pair");
    assert_eq!(route, Route { peer: PEER, tree: TREE, dlid: Some(Dlid(Lid(67))) });
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
        let (silence, linger) = (Time::millis(500), Time::secs(5));
        let config = Config { loss, silence, linger, ..Bench::config() };
        let (mut bench, pair) = Bench::granted(config, 10);
        bench.done(pair, 0);
        bench.pass(config.silence / 2);
        bench.take();
        bench.send(FLOW, 1, 20);
        bench.pass(config.silence);
        assert!(bench.mesh.controller_is_lost());
        let outputs = bench.take();
        assert!(outputs.contains(&Output::App(Notice::ControllerLost)));
        let tree_0 = |output: &Output| matches!(output, Output::Port(PortCall::Connect { route, .. }) if route.tree == TreeId(0));
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
