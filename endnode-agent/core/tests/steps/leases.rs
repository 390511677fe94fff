//! Requests to the controller, and the effects of its answers.

use std::sync::Arc;

use snin_agent_core::{BreakReason, Call, Config, Event, FlowId, Notice, Output, PortEvent};
use snin_fabric::{Guid, TreeId};
use snin_protocol::message::{
    AgentMessage, Answer, Change, ClockAnswer, ClockQuestion, ControllerMessage, FromAgent, Grant,
    Hello, Lease, LinkTest, LinkTested, Refusal, Terms, ToAgent, Verdict, Wait,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

use crate::support::*;

#[test]
fn frames_of_the_past_are_refused_and_counted() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let lease = |sequence, now| {
        let grants = vec![grant(FLOW, TREE, now, now + MS)];
        ControllerMessage::Lease(Lease {
            sequence,
            heard: 1,
            grants,
            answers: vec![],
            collective: None,
        })
    };
    let clock = ControllerMessage::Clock(ClockAnswer { sent: bench.now });
    bench.notify(Event::Controller(Arc::new(ToAgent {
        term: Term(5),
        ..bench.frame(clock.clone())
    })));
    // It is another controller's, which is greeted in a session of its own.
    bench.session = Session(bench.session.0 + 1);
    assert_eq!(bench.take(), [greets(&bench, Term(5))]);
    bench.controller(lease(1, bench.now));
    let of_an_earlier_session =
        ToAgent { session: Session(77), ..bench.frame(lease(1, bench.now)) };
    bench.notify(Event::Controller(Arc::new(ToAgent { term: Term(5), ..of_an_earlier_session })));
    bench.controller(lease(2, bench.now));
    let stale = Notice::StaleController { term: Term(1), latest: Term(5) };
    assert_eq!(bench.take(), [Output::App(stale)], "said once");
    assert_eq!((bench.counters().stale_term, bench.counters().stale_session), (2, 1));

    let mut bench = Bench::asking(Bench::config(), 10);
    bench.leases = 5;
    bench.lease(vec![], vec![]);
    bench.take();
    bench.controller(lease(5, bench.now));
    assert_eq!((bench.take(), bench.counters().stale_lease), (vec![], 1));
}

fn greets(bench: &Bench, term: Term) -> Output {
    bench.says(AgentMessage::Hello(Hello { port: Bench::config().port, term }))
}

#[test]
fn another_controllers_time_is_asked_for_before_anything_else() {
    let mut bench = Bench::new(Config { clock_error: None, ..Bench::config() });
    // The first one's clock is the agent's.
    bench.controller(ControllerMessage::Clock(ClockAnswer { sent: bench.now }));
    bench.open(FLOW, PEER);
    bench.send(FLOW, 0, 10);
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    // Another one leads, whose clock is a day ahead.
    let other = |bench: &mut Bench, body| {
        let at = bench.now + Time::secs(86_400);
        let frame = ToAgent { term: Term(2), at, ..bench.frame(body) };
        bench.notify(Event::Controller(Arc::new(frame)));
    };
    other(&mut bench, ControllerMessage::Stranger);
    bench.session = Session(bench.session.0 + 1);
    assert_eq!(bench.take(), [greets(&bench, Term(2))]);
    let terms = Terms { window: MS, guard: GUARD, clock_error: Time::micros(10) };
    other(&mut bench, ControllerMessage::Welcome(terms));
    let sent = bench.now;
    assert_eq!(bench.take(), [bench.says(AgentMessage::Clock(ClockQuestion { sent }))]);
    other(&mut bench, ControllerMessage::Clock(ClockAnswer { sent }));
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    // What it grants is in its own time.
    let from = bench.now + Time::secs(86_400);
    let grants = vec![grant(FLOW, TREE, from, from + MS)];
    other(
        &mut bench,
        ControllerMessage::Lease(Lease {
            sequence: 1,
            heard: 1,
            grants,
            answers: vec![],
            collective: None,
        }),
    );
    bench.connected();
    assert_eq!((bench.posted(), bench.counters().wrong_clock), (vec![10], 0));
    // The first one comes back, and is not followed.
    bench.controller(ControllerMessage::Stranger);
    assert_eq!(bench.counters().stale_term, 1);
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
    bench.notify(Event::Malformed);
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
        collective: None,
    };
    bench.notify(Event::Controller(Arc::new(ToAgent {
        at,
        ..bench.frame(ControllerMessage::Lease(lease))
    })));
    assert_eq!((bench.take(), bench.counters().wrong_clock), (vec![], 1));
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

/// Grants that came before would be refused as late, and a controller has no reason to repeat long ones.
#[test]
fn nobody_asks_before_anything_is_known_of_the_time() {
    let config = Config { clock_error: None, ..Bench::config() };
    let mut bench = Bench::stranger(config);
    bench.open(FLOW, PEER);
    bench.send(FLOW, 0, 10);
    bench.pass(Time(1));
    bench.take();
    bench.welcome();
    let question =
        |bench: &Bench| bench.says(AgentMessage::Clock(ClockQuestion { sent: bench.now }));
    assert_eq!(bench.take(), [question(&bench)]);
    bench.pass(config.ask_again);
    assert_eq!(bench.take(), [question(&bench)], "the answer may be lost");
    bench.controller(ControllerMessage::Clock(ClockAnswer { sent: bench.now }));
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    bench.asks = 1;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    assert_eq!((bench.counters().grants, bench.counters().late_grants), (1, 0));
}

#[test]
fn asks_are_repeated_until_they_are_heard() {
    let mut bench = Bench::asking(Bench::config(), 10);
    let again = Bench::config().ask_again;
    bench.pass(again - Time(1));
    assert!(bench.take().is_empty());
    bench.pass(Time(1));
    assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
    // What comes up meanwhile waits for its turn.
    bench.open(FlowId(1), PEER);
    bench.send(FlowId(1), 0, 1);
    assert!(bench.take().is_empty());
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
fn a_connection_is_given_back_the_moment_that_nobody_has_used_it_for_long() {
    let config = Config { linger: MS / 10, ..Bench::config() };
    let (mut bench, pair) = Bench::granted(config, 10);
    bench.pass(MS / 10);
    bench.done(pair, 0);
    bench.take();
    bench.pass(config.linger - Time(1));
    assert!(bench.take().is_empty());
    bench.pass(Time(1));
    assert_eq!(bench.take(), [bench.asks(2, Change::Withdraw(ConnectionNumber(0)))]);
}

#[test]
fn a_stranger_begins_anew_when_nothing_is_under_way() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.take();
    bench.controller(ControllerMessage::Stranger);
    assert!(bench.take().is_empty(), "a piece is under way");
    bench.session = Session(bench.session.0 + 1);
    bench.done(pair, 0);
    let hello = |output: &Output| {
        matches!(output, Output::Controller(FromAgent { session, body: AgentMessage::Hello(hello) })
            if *session == bench.session && hello.term == Term(1))
    };
    assert!(bench.outputs.iter().any(hello));
    bench.take();
    bench.send(FLOW, 1, 20);
    assert!(bench.take().is_empty());
    bench.welcome();
    assert!(bench.take().contains(&bench.asks(1, request(FLOW))));
    bench.leases = 0;
    bench.grant(FLOW, TREE, Time::ZERO, MS);
    assert_eq!(bench.posted(), [20]);
}

#[test]
fn a_test_of_the_link_is_the_applications_and_its_outcome_the_controllers() {
    let test = LinkTest { number: 7, peer: Guid(9), messages: 100, bytes: 64 };
    let tested = LinkTested { number: 7, arrived: 90 };
    // Without a conversation neither is passed on.
    let mut bench = Bench::stranger(Bench::config());
    bench.controller(ControllerMessage::LinkTest(test));
    bench.notify(Event::App(Call::LinkTested(tested)));
    let outputs = bench.take();
    assert!(!outputs.contains(&Output::App(Notice::LinkTest(test))), "{outputs:?}");
    assert!(!outputs.contains(&bench.says(AgentMessage::LinkTested(tested))), "{outputs:?}");
    bench.welcome();
    bench.take();
    bench.controller(ControllerMessage::LinkTest(test));
    assert_eq!(bench.take(), [Output::App(Notice::LinkTest(test))]);
    bench.notify(Event::App(Call::LinkTested(tested)));
    assert_eq!(bench.take(), [bench.says(AgentMessage::LinkTested(tested))]);
}

#[test]
fn a_hello_is_repeated_until_it_is_answered() {
    let mut bench = Bench::stranger(Bench::config());
    bench.pass(Bench::config().ask_again * 3);
    assert_eq!(bench.counters().conversations, 4);
}

#[test]
fn a_lease_is_confirmed_only_when_a_broken_queue_pair_has_left_the_links() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 4_000);
    bench.notify(Event::Port(PortEvent::Broken { pair, reason: BreakReason::Failed }));
    bench.take();
    bench.lease(vec![], vec![]);
    bench.pass(Time::micros(5));
    assert!(bench.take().is_empty(), "the port may still be sending");
    bench.notify(Event::Port(PortEvent::Closed { pair }));
    bench.pass(GUARD - Time(1));
    assert!(bench.take().is_empty(), "what it sent may still be under way");
    bench.pass(Time(1));
    assert_eq!(bench.take(), [bench.confirms(2)]);
}

#[test]
fn a_move_is_confirmed_when_its_time_has_come_though_nothing_is_under_way() {
    let (mut bench, pair) = Bench::granted(Bench::config(), 10);
    bench.done(pair, 0);
    bench.take();
    bench.grant(FLOW, TreeId(4), Time::micros(10), MS);
    bench.connected();
    bench.pass(Time::micros(10) - Time(1));
    assert!(bench.take().is_empty(), "until then the flow may send along the old tree");
    bench.pass(Time(1));
    assert_eq!(bench.take(), [bench.confirms(2)]);
}
