use std::collections::VecDeque;

use snin_protocol::Time;

use super::*;
use crate::header::{AttributeId, Class, Header, TransactionId};

const POLICY: Policy = Policy {
    timeout: Time::millis(100),
    retries: 8,
    unheard: 8,
    window: 64,
    total: Time::millis(40_000),
    longest: 4 << 20,
};

fn answer() -> Mad {
    let mut mad = Mad::ZERO;
    Header::edit(&mut mad.0)
        .base_version(1)
        .class(Class::Administration)
        .class_version(2)
        .method(Method::GetTableResp)
        .transaction_id(TransactionId(7))
        .attribute(AttributeId(0x11));
    mad
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

fn rmpp(mad: &Mad) -> (RmppType, u8, u32, u32) {
    let rmpp = mad.rmpp();
    (rmpp.kind(), rmpp.flags().0, rmpp.segment(), rmpp.length())
}

/// Both sides over a wire on which `strike` says what becomes of the n-th MAD: how many copies arrive, and
/// after how many others.
fn carry(length: usize, mut strike: impl FnMut(u64) -> (usize, usize)) -> (Vec<u8>, u64) {
    let mut now = Time::ZERO;
    let mut sender = Sender::new(&answer(), message(length), POLICY, now);
    let mut receiver: Option<Receiver> = None;
    let mut wire: VecDeque<Mad> = VecDeque::new();
    let mut sent = 0;
    let mut put = |wire: &mut VecDeque<Mad>, mad: Mad| {
        let (copies, later) = strike(sent);
        sent += 1;
        for _ in 0..copies {
            wire.insert(wire.len() - later.min(wire.len()), mad.clone());
        }
    };
    loop {
        while let Some(segment) = sender.poll(now) {
            put(&mut wire, segment);
        }
        let Some(mad) = wire.pop_front() else {
            now = sender.deadline();
            match sender.expire(now) {
                Expiry::GivenUp(why) => panic!("given up: {why}"),
                _ => continue,
            }
        };
        if mad.rmpp().kind() == RmppType::Ack {
            match sender.receive(&mad, now) {
                Ok(Progress::Done) => break,
                other => assert_eq!(other, Ok(Progress::Going)),
            }
        } else {
            let receiver = receiver.get_or_insert_with(|| Receiver::new(&mad, POLICY, now));
            let Reception { reply, ended } = receiver.receive(&mad);
            assert_eq!(ended, None);
            if let Some(reply) = reply {
                put(&mut wire, reply);
            }
        }
    }
    let mut receiver = receiver.expect("something arrived");
    assert!(receiver.is_done());
    (receiver.take().expect("whole"), sent)
}

#[test]
fn segments_say_how_long_they_are() {
    for (length, expected) in [
        (0, vec![(7, 1, 20)]),
        (1, vec![(7, 1, 21)]),
        (200, vec![(7, 1, 220)]),
        (201, vec![(3, 1, 241), (5, 2, 21)]),
        (600, vec![(3, 1, 660), (1, 2, 0), (5, 3, 220)]),
    ] {
        let mut sender = Sender::new(&answer(), message(length), POLICY, Time::ZERO);
        sender.window_last = u32::MAX;
        let all = std::iter::from_fn(|| sender.poll(Time::ZERO));
        let seen: Vec<_> = all
            .map(|mad| {
                let (kind, flags, segment, length) = rmpp(&mad);
                assert_eq!(kind, RmppType::Data);
                (flags, segment, length)
            })
            .collect();
        assert_eq!(seen, expected, "{length} bytes");
    }
}

#[test]
fn windows_grow_from_one_by_sixty_four() {
    let mut sender = Sender::new(&answer(), message(200 * 200), POLICY, Time::ZERO);
    let mut receiver = None;
    let mut acknowledgements = Vec::new();
    'all: loop {
        while let Some(segment) = sender.poll(Time::ZERO) {
            let receiver =
                receiver.get_or_insert_with(|| Receiver::new(&segment, POLICY, Time::ZERO));
            if let Some(ack) = receiver.receive(&segment).reply {
                acknowledgements.push((ack.rmpp().segment(), ack.rmpp().length()));
                assert_eq!(ack.header().method(), Method::GetTable, "the other direction");
                if sender.receive(&ack, Time::ZERO) == Ok(Progress::Done) {
                    break 'all;
                }
            }
        }
    }
    assert_eq!(acknowledgements, [(1, 65), (65, 129), (129, 193), (193, 257), (200, 264)]);
}

#[test]
fn messages_arrive_whole() {
    for segments in [1, 2, 65, 10_000] {
        let (data, sent) = carry(segments * 200 - 3, |_| (1, 0));
        assert_eq!(data, message(segments * 200 - 3));
        let acknowledgements = sent - segments as u64;
        assert!(acknowledgements as usize <= segments / 64 + 2, "{acknowledgements}");
    }
}

#[test]
fn messages_arrive_over_a_bad_wire() {
    // Every 5th is lost, every 7th comes twice, every 3rd is overtaken by two others.
    let strike = |n: u64| {
        let copies = if n % 5 == 4 { 0 } else { 1 + usize::from(n % 7 == 6) };
        (copies, if n.is_multiple_of(3) { 2 } else { 0 })
    };
    assert_eq!(carry(65 * 200, strike).0, message(65 * 200));
}

#[test]
fn a_sender_whom_nobody_acknowledges_gives_up() {
    let policy = Policy { unheard: 2, ..POLICY };
    let mut sender = Sender::new(&answer(), message(500), policy, Time::ZERO);
    let mut seen = 0;
    loop {
        while let Some(mad) = sender.poll(sender.deadline()) {
            assert_eq!(mad.rmpp().segment(), 1, "no window is open for more");
            seen += 1;
        }
        match sender.expire(sender.deadline()) {
            Expiry::GivenUp(why) => break assert_eq!(why, RmppStatus::TooManyRetries),
            other => assert_eq!(other, Expiry::Again),
        }
    }
    assert_eq!(seen, 3);
    assert!(!sender.is_heard());
    let abort = sender.abort(RmppStatus::TooManyRetries);
    assert_eq!(abort.header().method(), Method::GetTableResp);
    assert_eq!((abort.rmpp().kind(), abort.rmpp().status().code()), (RmppType::Abort, 126));
}

#[test]
fn what_breaks_the_rules_is_aborted_with_the_specifications_code() {
    let mut sender = Sender::new(&answer(), message(1_000), POLICY, Time::ZERO);
    let first = sender.poll(Time::ZERO).expect("a segment");
    let say = |kind, status, segment, last| reply(&first, kind, status, segment, last);
    let ok = RmppStatus::Normal;
    for (mad, code) in [
        (say(RmppType::Ack, ok, 2, 1), 122),
        (say(RmppType::Ack, ok, 6, 70), 123),
        (say(RmppType::Ack, ok, 2, 70), 123),
        (say(RmppType::Data, ok, 1, 1), 121),
        (say(RmppType::Stop, ok, 0, 0), 124),
        (say(RmppType::Abort, RmppStatus::new(117), 0, 0), 124),
    ] {
        assert_eq!(sender.receive(&mad, Time::ZERO).map_err(RmppStatus::code), Err(code));
    }
    let stop = say(RmppType::Stop, RmppStatus::ResourcesExhausted, 0, 0);
    let ended = Ok(Progress::Ended(RmppStatus::ResourcesExhausted));
    assert_eq!(sender.receive(&stop, Time::ZERO), ended);

    let changed = |change: &dyn Fn(&mut [u8; 256])| {
        let mut segment = first.clone();
        change(&mut segment.0);
        let reception = Receiver::new(&segment, POLICY, Time::ZERO).receive(&segment);
        reception.ended.map(RmppStatus::code)
    };
    assert_eq!(changed(&|_| ()), None);
    assert_eq!(
        changed(&|bytes| {
            Rmpp::edit(bytes).segment(2);
        }),
        Some(120)
    );
    assert_eq!(
        changed(&|bytes| {
            Rmpp::edit(bytes).version(2);
        }),
        Some(125)
    );
    assert_eq!(
        changed(&|bytes| {
            Rmpp::edit(bytes).kind(RmppType::new(9));
        }),
        Some(121)
    );
    let last = |length| {
        move |bytes: &mut [u8; 256]| {
            Rmpp::edit(bytes).flags(RmppFlags(7)).length(length);
        }
    };
    assert_eq!(changed(&last(19)), Some(119));
    assert_eq!(changed(&last(221)), Some(119));
    assert_eq!(changed(&last(20)), None);
}

#[test]
fn a_message_that_is_too_long_is_stopped() {
    let policy = Policy { longest: 1_000, ..POLICY };
    let mut sender = Sender::new(&answer(), message(5_000), POLICY, Time::ZERO);
    let mut receiver: Option<Receiver> = None;
    loop {
        let segment = sender.poll(Time::ZERO).expect("the window is open");
        let receiver = receiver.get_or_insert_with(|| Receiver::new(&segment, policy, Time::ZERO));
        let Some(reply) = receiver.receive(&segment).reply else { continue };
        if let Progress::Ended(why) = sender.receive(&reply, Time::ZERO).expect("legal") {
            break assert_eq!(why, RmppStatus::ResourcesExhausted);
        }
    }
}

#[test]
fn after_a_request_of_several_segments_the_direction_turns() {
    let mut request = answer();
    Header::edit(&mut request.0).method(Method::GetMulti);
    let mut sender = Sender::new(&request, message(300), POLICY, Time::ZERO);
    let first = sender.poll(Time::ZERO).expect("a segment");
    let mut receiver = Receiver::new(&first, POLICY, Time::ZERO);
    let ack = receiver.receive(&first).reply.expect("the first is acknowledged");
    assert_eq!(ack.header().method(), Method::GetMultiResp);
    assert_eq!(sender.receive(&ack, Time::ZERO), Ok(Progress::Going));
    let second = sender.poll(Time::ZERO).expect("a segment");
    let ack = receiver.receive(&second).reply.expect("the last is acknowledged");
    assert_eq!(sender.receive(&ack, Time::ZERO), Ok(Progress::Done));
    let turn = sender.turn(&ack);
    assert_eq!(turn.header().method(), Method::GetMulti);
    assert_eq!(rmpp(&turn), (RmppType::Ack, 1, 0, 1));
    // The responder takes it for leave to send, and nothing else.
    let mut response = answer();
    Header::edit(&mut response.0).method(Method::GetMultiResp);
    let mut answers = Sender::new(&response, message(900), POLICY, Time::ZERO);
    assert_eq!(answers.receive(&turn, Time::ZERO), Ok(Progress::Going));
    assert!(answers.poll(Time::ZERO).is_some());
    assert!(answers.poll(Time::ZERO).is_none());
}
