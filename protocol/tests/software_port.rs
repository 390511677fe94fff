//! Frames of the software port: what is written is read back, and no bytes do harm.

use proptest::collection::vec;
use proptest::prelude::*;
use snin_fabric::{Guid, Lid};
use snin_protocol::Time;
use snin_protocol::codec::{MAX_FRAME, Message, decode, encode};
use snin_protocol::software_port::management::{FRAME, MadFrame, QUESTION, Question};
use snin_protocol::software_port::messages::{
    Arrived, Attach, AttachRefused, Cancel, Completed, Find, Found, FromFabric, Loss, MAX_PAYLOAD,
    Outcome, PortStatus, Post, RefusedReason, ToFabric,
};

fn guid() -> impl Strategy<Value = Guid> {
    any::<u64>().prop_map(Guid)
}

fn lid() -> impl Strategy<Value = Lid> {
    any::<u16>().prop_map(Lid)
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

fn to_fabric() -> impl Strategy<Value = ToFabric> {
    let numbers = (any::<u64>(), any::<u32>(), any::<[u8; 2]>(), any::<u32>(), any::<u64>());
    let post = (guid(), lid(), numbers, payload()).prop_map(
        |(port, to, (token, flow, [path_bits, sl], bytes, begin), payload)| {
            let begin = Time(begin);
            ToFabric::Post(Post { port, token, flow, to, path_bits, sl, bytes, begin, payload })
        },
    );
    prop_oneof![
        guid().prop_map(|port| ToFabric::Attach(Attach { port })),
        guid().prop_map(|port| ToFabric::Detach(Attach { port })),
        post,
        (guid(), any::<u64>(), any::<u64>())
            .prop_map(|(port, token, at)| ToFabric::Cancel(Cancel { port, token, at: Time(at) })),
        (guid(), guid()).prop_map(|(port, peer)| ToFabric::Find(Find { port, peer })),
    ]
}

fn from_fabric() -> impl Strategy<Value = FromFabric> {
    let reasons = [RefusedReason::NoSuchPort, RefusedReason::Taken, RefusedReason::TooMany];
    let losses = [
        Loss::LinkDown,
        Loss::NoRoute,
        Loss::Looped,
        Loss::WrongPort,
        Loss::Nobody,
        Loss::Full,
        Loss::Queue,
        Loss::TooLong,
        Loss::WrongTime,
        Loss::NotAttached,
        Loss::Partition,
    ];
    let outcome = prop_oneof![
        Just(Outcome::Delivered),
        Just(Outcome::Cancelled),
        prop::sample::select(losses.to_vec()).prop_map(Outcome::Lost),
    ];
    let numbers = (any::<u8>(), any::<bool>(), any::<u64>(), any::<u32>());
    prop_oneof![
        (guid(), lid(), numbers).prop_map(|(port, lid, (lmc, active, rate, mtu))| {
            FromFabric::Attached(PortStatus { port, lid, lmc, active, rate, mtu })
        }),
        (guid(), prop::sample::select(reasons.to_vec()))
            .prop_map(|(port, reason)| FromFabric::Refused(AttachRefused { port, reason })),
        (guid(), any::<u64>(), outcome).prop_map(|(port, token, outcome)| {
            FromFabric::Completed(Completed { port, token, outcome })
        }),
        (guid(), lid(), lid(), payload()).prop_map(|(port, from, to, payload)| {
            FromFabric::Arrived(Arrived { port, from, to, payload })
        }),
        (guid(), guid(), lid(), any::<bool>()).prop_map(|(port, peer, lid, attached)| {
            FromFabric::Found(Found { port, peer, lid, attached })
        }),
    ]
}

fn comes_back<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> Result<(), TestCaseError> {
    let frame = encode(message).unwrap();
    let (decoded, length) = decode::<M>(&frame).unwrap().expect("a whole frame");
    prop_assert_eq!(&decoded, message);
    prop_assert_eq!(length, frame.len());
    for cut in 0..frame.len() {
        prop_assert_eq!(decode::<M>(&frame[..cut]), Ok(None));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn agents_frames_come_back(message in to_fabric()) {
        comes_back(&message)?;
    }

    #[test]
    fn the_fabrics_frames_come_back(message in from_fabric()) {
        comes_back(&message)?;
    }

    /// Any bytes are refused, or are a frame that is written as the same bytes.
    #[test]
    fn bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300), question: [u8; 32], frame in vec(any::<u8>(), FRAME)) {
        let mut framed = (bytes.len() as u32 + 1).to_be_bytes().to_vec();
        framed.push(snin_protocol::codec::VERSION);
        framed.extend_from_slice(&bytes);
        if let Ok(Some((message, length))) = decode::<ToFabric>(&framed) {
            prop_assert_eq!(encode(&message).unwrap(), &framed[..length]);
        }
        if let Ok(Some((message, length))) = decode::<FromFabric>(&framed) {
            prop_assert_eq!(encode(&message).unwrap(), &framed[..length]);
        }
        let mut asked = vec![0xAA; QUESTION];
        asked[..32].copy_from_slice(&question);
        if let Some(read) = Question::parse(&asked) {
            prop_assert_eq!(Question::parse(&read.bytes()), Some(read));
        }
        let read = MadFrame::parse(&frame).unwrap();
        prop_assert_eq!(MadFrame::parse(&read.bytes()), Some(read));
    }
}

#[test]
fn the_longest_message_fits_a_frame() {
    let (port, to, begin, payload) = (Guid(1), Lid(2), Time(3), vec![7; MAX_PAYLOAD]);
    let post = Post { port, token: 0, flow: 0, to, path_bits: 0, sl: 1, bytes: 1, begin, payload };
    assert!(encode(&ToFabric::Post(post)).unwrap().len() < MAX_FRAME);
}
