//! Frames: what is written is read back, and no bytes do harm.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use snin_fabric::{Dlid, Guid, Lid, TreeId};
use snin_protocol::codec::{CodecError, MAX_FRAME, Message, VERSION, decode, encode};
use snin_protocol::collective::{Collective, CollectiveKind, Dims, MAX_MEMBERS, Member};
use snin_protocol::message::{
    AgentMessage, Answer, Ask, Change, ClockAnswer, ClockQuestion, Confirm, ControllerMessage,
    FromAgent, Grant, Hello, Lease, LinkTest, LinkTested, MAX_ANSWERS, MAX_CHANGES, MAX_GRANTS,
    MAX_PAIRS, PinnedPath, Preferred, Refusal, Request, SliceMember, Terms, ToAgent, UnusablePair,
    Verdict, ViewChange, ViewClear, Wait,
};
use snin_protocol::mirror::{
    Checksum, Follow, FromMaster, FromStandby, Have, Line, Part, PartKind, Standing,
};
use snin_protocol::peer::{
    Accept, Decline, DeclineReason, End, EndAddress, Hello as PeerHello, Offer, PeerMessage,
};
use snin_protocol::view::{FromManager, PortTest, PortTested, ToManager};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

fn guid() -> impl Strategy<Value = Guid> {
    any::<u64>().prop_map(Guid)
}

fn tree() -> impl Strategy<Value = TreeId> {
    any::<u16>().prop_map(TreeId)
}

fn time() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time)
}

fn connection() -> impl Strategy<Value = ConnectionNumber> {
    any::<u32>().prop_map(ConnectionNumber)
}

fn request() -> impl Strategy<Value = Request> {
    let small = (any::<u32>(), any::<u64>(), any::<u8>(), any::<bool>());
    (connection(), guid(), small, option::of(tree())).prop_map(
        |(connection, destination, (windows, rate, class, pinned), tree)| Request {
            connection,
            destination,
            windows,
            rate,
            class,
            pinned,
            tree,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![request().prop_map(Change::Request), connection().prop_map(Change::Withdraw)]
}

fn from_agent() -> impl Strategy<Value = FromAgent> {
    let body = prop_oneof![
        (guid(), any::<u64>())
            .prop_map(|(port, term)| AgentMessage::Hello(Hello { port, term: Term(term) })),
        (any::<u64>(), vec(change(), 0..=MAX_CHANGES)).prop_map(|(number, changes)| {
            AgentMessage::Ask(Ask { number, changes: changes.into() })
        }),
        any::<u64>().prop_map(|sequence| AgentMessage::Confirm(Confirm { sequence })),
        time().prop_map(|sent| AgentMessage::Clock(ClockQuestion { sent })),
        (any::<u32>(), any::<u32>()).prop_map(|(number, arrived)| {
            AgentMessage::LinkTested(LinkTested { number, arrived })
        }),
    ];
    (any::<u64>(), body).prop_map(|(session, body)| FromAgent { session: Session(session), body })
}

fn grant() -> impl Strategy<Value = Grant> {
    let marks = (any::<bool>(), any::<u8>());
    (connection(), tree(), any::<u16>(), time(), time(), any::<u64>(), marks).prop_map(
        |(connection, tree, dlid, from, until, rate, (pinned, sl))| Grant {
            connection,
            tree,
            dlid: Dlid(Lid(dlid)),
            from,
            until,
            rate,
            pinned,
            sl,
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let waits = [
        Wait::PortsBusy,
        Wait::SourceFull,
        Wait::DestinationFull,
        Wait::NoTreeFreed,
        Wait::PinnedAway,
        Wait::Rests,
        Wait::Draining,
        Wait::NoManager,
        Wait::Collective,
    ];
    let refusals = [
        Refusal::Off,
        Refusal::UnknownSource,
        Refusal::UnknownDestination,
        Refusal::Itself,
        Refusal::TooFast,
        Refusal::TooMany,
        Refusal::SourceCut,
        Refusal::DestinationCut,
        Refusal::NoCommonTree,
        Refusal::NotAddressed,
        Refusal::TreeNotAllowed,
        Refusal::NoRoute,
        Refusal::StrictImpossible,
    ];
    prop_oneof![
        Just(Verdict::Served),
        proptest::sample::select(waits.to_vec()).prop_map(Verdict::Deferred),
        proptest::sample::select(refusals.to_vec()).prop_map(Verdict::Refused),
    ]
}

fn collective() -> impl Strategy<Value = Collective> {
    let dims = (any::<u16>(), any::<u16>(), any::<u16>()).prop_map(|(x, y, z)| Dims { x, y, z });
    let kind = prop_oneof![
        Just(CollectiveKind::Ring),
        Just(CollectiveKind::BidirectionalRing),
        Just(CollectiveKind::HalvingDoubling),
        Just(CollectiveKind::AllToAll),
        dims.clone().prop_map(CollectiveKind::Grid),
        dims.prop_map(CollectiveKind::Halo),
    ];
    let member = (guid(), any::<u16>());
    let member = member.prop_map(|(port, dlid)| Member { port, dlid: Dlid(Lid(dlid)) });
    let times = (time(), time(), time(), time(), time());
    let others = (any::<u16>(), tree(), any::<u64>(), any::<u8>());
    (kind, vec(member, 0..=MAX_MEMBERS), times, others).prop_map(
        |(kind, members, (origin, slot, gap, from, until), (place, tree, rate, sl))| Collective {
            kind,
            members,
            place,
            tree,
            origin,
            slot,
            gap,
            from,
            until,
            rate,
            sl,
        },
    )
}

/// What comes from outside may say anything: nothing in it makes a member panic.
#[test]
fn no_collective_from_outside_does_harm() {
    proptest!(|(collective in collective(), now in time())| {
        if collective.is_sound() {
            let slot = collective.time_slot_at(now);
            prop_assert!(slot.is_some(), "{collective:?}");
        }
        let _ = collective.time_slot_at(now);
    });
}

fn lease() -> impl Strategy<Value = Lease> {
    let answer =
        (connection(), verdict()).prop_map(|(connection, verdict)| Answer { connection, verdict });
    let lists = (vec(grant(), 0..=MAX_GRANTS), vec(answer, 0..=MAX_ANSWERS));
    (any::<u64>(), any::<u64>(), lists, option::of(collective())).prop_map(
        |(sequence, heard, (grants, answers), collective)| Lease {
            sequence,
            heard,
            grants,
            answers,
            collective,
        },
    )
}

fn to_agent() -> impl Strategy<Value = ToAgent> {
    let body = prop_oneof![
        (time(), time(), time()).prop_map(|(window, guard, clock_error)| {
            ControllerMessage::Welcome(Terms { window, guard, clock_error })
        }),
        lease().prop_map(ControllerMessage::Lease),
        time().prop_map(|sent| ControllerMessage::Clock(ClockAnswer { sent })),
        Just(ControllerMessage::Stranger),
        (any::<u32>(), guid(), any::<u32>(), any::<u32>()).prop_map(
            |(number, peer, messages, bytes)| {
                ControllerMessage::LinkTest(LinkTest { number, peer, messages, bytes })
            }
        ),
    ];
    (any::<u64>(), any::<u64>(), time(), body).prop_map(|(session, term, at, body)| ToAgent {
        session: Session(session),
        term: Term(term),
        at,
        body,
    })
}

/// What managers say to each other for the mirror's sake.
fn mirror_says() -> impl Strategy<Value = (FromMaster, FromStandby)> {
    let place = || (any::<u64>(), any::<u64>());
    let kinds = [PartKind::First, PartKind::More, PartKind::Last, PartKind::Change];
    let bytes = || vec(any::<u8>(), 0..3_000);
    let standing = (guid(), place(), place(), bytes());
    let part = (place(), proptest::sample::select(kinds.to_vec()), bytes());
    let checksum = (place(), any::<u8>(), any::<u64>(), any::<u64>());
    let master = prop_oneof![
        standing.prop_map(|(guid, (term, sequence), (holds, begun), settings)| {
            let line = Line { term: begun, origin: guid };
            FromMaster::Standing(Standing { guid, term, holds, sequence, line, settings })
        }),
        part.prop_map(|((term, sequence), kind, lines)| {
            FromMaster::Part(Part { term, sequence, kind, lines })
        }),
        checksum.prop_map(|((term, sequence), table, records, sum)| {
            FromMaster::Checksum(Checksum { term, sequence, table, records, sum })
        }),
    ];
    let standby = prop_oneof![
        (guid(), place()).prop_map(|(guid, (term, sequence))| {
            FromStandby::Follow(Follow { guid, term, sequence })
        }),
        place().prop_map(|(term, sequence)| FromStandby::Have(Have { term, sequence })),
    ];
    (master, standby)
}

fn view_change() -> impl Strategy<Value = ViewChange> {
    let pair = (guid(), tree()).prop_map(|(switch, tree)| UnusablePair { switch, tree });
    (any::<u64>(), vec(pair, 0..200))
        .prop_map(|(version, unusable)| ViewChange { version, unusable })
}

/// A frame is read back as written, with any bytes after it, and never from a part of it.
fn comes_back<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> Result<(), TestCaseError> {
    let mut bytes = encode(message).unwrap();
    let length = bytes.len();
    for cut in [0, 1, 4, length / 2, length - 1] {
        prop_assert_eq!(decode::<M>(&bytes[..cut]).unwrap(), None);
    }
    bytes.extend_from_slice(b"next");
    let (back, read) = decode::<M>(&bytes).unwrap().unwrap();
    prop_assert_eq!(&back, message);
    prop_assert_eq!(read, length);
    Ok(())
}

/// Every accepted message can be written; all other bytes are refused.
fn does_no_harm<M: Message + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    if let Ok(Some((message, read))) = decode::<M>(bytes) {
        prop_assert!(read <= bytes.len());
        let again = encode(&message).unwrap();
        prop_assert_eq!(decode::<M>(&again).unwrap().unwrap().0, message);
    }
    Ok(())
}

fn any_message_of(bytes: &[u8]) -> Result<(), TestCaseError> {
    does_no_harm::<FromAgent>(bytes)?;
    does_no_harm::<ToAgent>(bytes)?;
    does_no_harm::<ViewChange>(bytes)?;
    does_no_harm::<ViewClear>(bytes)?;
    does_no_harm::<FromMaster>(bytes)?;
    does_no_harm::<FromStandby>(bytes)?;
    does_no_harm::<PeerMessage>(bytes)
}

fn end() -> impl Strategy<Value = End> {
    let address = prop_oneof![
        any::<u16>().prop_map(|lid| EndAddress::Lid(Lid(lid))),
        any::<[u8; 16]>().prop_map(EndAddress::Gid),
    ];
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>());
    (address, numbers).prop_map(|(address, (number, first_packet, mtu, datagrams))| End {
        address,
        number,
        first_packet,
        mtu,
        datagrams,
    })
}

fn peer_says() -> impl Strategy<Value = PeerMessage> {
    let reason = prop_oneof![
        Just(DeclineReason::Full),
        Just(DeclineReason::Device),
        Just(DeclineReason::NoPath),
        Just(DeclineReason::OtherMode),
    ];
    prop_oneof![
        (guid(), any::<u64>(), any::<u64>(), any::<u32>())
            .prop_map(|(port, session, call, flows)| PeerHello { port, session, call, flows })
            .prop_map(PeerMessage::Hello),
        (any::<u64>(), any::<Option<u16>>(), any::<u8>(), end()).prop_map(
            |(token, lid, sl, end)| {
                let dlid = lid.map(|lid| Dlid(Lid(lid)));
                PeerMessage::Offer(Offer { token, dlid, sl, end })
            }
        ),
        (any::<u64>(), end()).prop_map(|(token, end)| PeerMessage::Accept(Accept { token, end })),
        (any::<u64>(), reason)
            .prop_map(|(token, reason)| PeerMessage::Decline(Decline { token, reason })),
        any::<u64>().prop_map(PeerMessage::Withdraw),
        any::<u64>().prop_map(PeerMessage::Lost),
        any::<u64>().prop_map(PeerMessage::Ping),
        any::<u64>().prop_map(PeerMessage::Pong),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn peers_frames_come_back(message in peer_says()) {
        comes_back(&message)?;
    }

    #[test]
    fn managers_frames_come_back(said in mirror_says()) {
        comes_back(&said.0)?;
        comes_back(&said.1)?;
    }

    #[test]
    fn agents_frames_come_back(message in from_agent()) {
        comes_back(&message)?;
    }

    #[test]
    fn controllers_frames_come_back(message in to_agent()) {
        comes_back(&message)?;
    }

    #[test]
    fn view_changes_come_back(message in view_change(), version: u64) {
        comes_back(&message)?;
        comes_back(&ViewClear { version })?;
        let pin = PinnedPath { source: Guid(version), destination: Guid(7), dlid: Dlid(Lid(9)) };
        let member = SliceMember { port: Guid(8), job: version, dlid: Dlid(Lid(10)) };
        let (pins, slices) = (vec![pin; version as usize % 3_000], vec![member; version as usize % 5_000]);
        let test = PortTest { number: 7, port: Guid(version), messages: version as u32 };
        comes_back(&FromManager::Test(test))?;
        for arrived in [None, Some(version as u32)] {
            comes_back(&ToManager::Tested(PortTested { number: 7, arrived }))?;
        }
        let parts = Preferred::parts(&pins, &slices);
        for (part, number) in parts.iter().zip(0..) {
            assert_eq!((part.part, part.parts as usize), (number, parts.len()));
            comes_back(&ToManager::Preferred(part.clone()))?;
        }
        let together = parts.iter().map(|part| (part.pins.len(), part.slices.len()));
        let together = together.fold((0, 0), |(a, b), (pins, slices)| (a + pins, b + slices));
        assert_eq!(together, (pins.len(), slices.len()));
    }

    /// A frame with bytes changed, put in or left out; its length made right again half of the time.
    #[test]
    fn damaged_frames_do_no_harm(
        message in from_agent(),
        other in to_agent(),
        managers in mirror_says(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..6),
        mend: bool,
    ) {
        let managers = [encode(&managers.0).unwrap(), encode(&managers.1).unwrap()];
        let frames = [encode(&message).unwrap(), encode(&other).unwrap()];
        for mut bytes in frames.into_iter().chain(managers) {
            for &(ref place, byte, how) in &damage {
                let at = place.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => { bytes.remove(at); }
                }
                if bytes.is_empty() {
                    bytes.push(byte);
                }
            }
            if mend && bytes.len() > 4 {
                let length = (bytes.len() - 4) as u32;
                bytes[..4].copy_from_slice(&length.to_be_bytes());
                bytes[4] = VERSION;
            }
            any_message_of(&bytes)?;
        }
    }

    #[test]
    fn noise_does_no_harm(body in vec(any::<u8>(), 0..600), framed: bool) {
        let mut bytes = Vec::new();
        if framed {
            bytes.extend_from_slice(&(body.len() as u32 + 1).to_be_bytes());
            bytes.push(VERSION);
        }
        bytes.extend_from_slice(&body);
        any_message_of(&bytes)?;
    }
}

#[test]
fn the_bytes_of_a_frame_are_these() {
    let says = AgentMessage::Confirm(Confirm { sequence: 0x0102 });
    let frame = encode(&FromAgent { session: Session(7), body: says }).unwrap();
    let session = [0, 0, 0, 0, 0, 0, 0, 7];
    let sequence = [0, 0, 0, 0, 0, 0, 1, 2];
    let expected = [&[0, 0, 0, 18, VERSION][..], &session, &[2], &sequence].concat();
    assert_eq!(frame, expected);
}

#[test]
fn the_fullest_messages_fit_a_frame() {
    let request = Request {
        connection: ConnectionNumber(u32::MAX),
        destination: Guid(u64::MAX),
        windows: u32::MAX,
        rate: u64::MAX,
        class: u8::MAX,
        pinned: true,
        tree: Some(TreeId(u16::MAX)),
    };
    let ask = |count| FromAgent {
        session: Session(1),
        body: AgentMessage::Ask(Ask {
            number: 1,
            changes: vec![Change::Request(request); count].into(),
        }),
    };
    assert!(encode(&ask(MAX_CHANGES)).unwrap().len() < MAX_FRAME);
    assert_eq!(encode(&ask(MAX_CHANGES + 1)), Err(CodecError::ListTooLong));
    let pair = UnusablePair { switch: Guid(u64::MAX), tree: TreeId(u16::MAX) };
    let view = |count| ViewChange { version: 1, unusable: vec![pair; count] };
    assert!(encode(&view(MAX_PAIRS)).unwrap().len() < MAX_FRAME);
    assert_eq!(encode(&view(MAX_PAIRS + 1)), Err(CodecError::ListTooLong));
}

#[test]
fn what_is_wrong_with_a_frame_is_said() {
    let good = encode(&ViewClear { version: 3 }).unwrap();
    let read = |bytes: &[u8]| decode::<ViewClear>(bytes);
    let mut version = good.clone();
    version[4] = VERSION + 1;
    assert_eq!(read(&version), Err(CodecError::Version(VERSION + 1)));
    let long = u32::MAX.to_be_bytes();
    assert_eq!(read(&long), Err(CodecError::TooLong(u32::MAX as usize)));
    assert_eq!(read(&[0; 4]), Err(CodecError::Body("it is empty")));
    let mut more = good.clone();
    more.push(0);
    more[3] += 1;
    assert_eq!(read(&more), Err(CodecError::Body("more bytes than the message has")));
    let mut less = good;
    less.pop();
    less[3] -= 1;
    assert_eq!(read(&less), Err(CodecError::Body("it ends too early")));
    let stranger = [0, 0, 0, 10, VERSION, 0, 0, 0, 0, 0, 0, 0, 1, 77];
    let text = decode::<FromAgent>(&stranger).unwrap_err().to_string();
    assert!(text.contains("no such AgentMessage"), "{text}");
    let mut crowd = vec![0, 0, 0, 11, VERSION];
    crowd.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF]);
    assert_eq!(decode::<ViewChange>(&crowd), Err(CodecError::Body("a list is too long")));
}
