//! Malformed bytes: random ones, and good MADs with a few bits changed, through every parser and
//! every printer. Nothing may panic; a fuzzer may call [`target`] for as long as it likes.
//!
//! `SNIN_FUZZ` says how many rounds (a few by default), `SNIN_SEED` where they begin.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

use std::fmt::Write;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::{Lid, PortNum};
use snin_mad::attribute::{PERFORMANCE, SUBNET};
use snin_mad::capture::{Packet, record};
use snin_mad::hop::{Here, arrive, depart};
use snin_mad::rmpp::{Policy, Receiver, Sender};
use snin_mad::sa::{NodeRecord, PathRecord, RECORDS, SaRequest};
use snin_mad::*;
use snin_protocol::Time;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Everything that can be done with bytes from the wire.
fn target(bytes: &[u8], text: &mut String) {
    text.clear();
    let records = RECORDS.iter().map(|(_, layout, _)| layout);
    for layout in SUBNET.iter().chain(PERFORMANCE).map(|(_, layout)| layout).chain(records) {
        // A view may be asked to show less than there should be.
        write!(text, "{}", layout.show(bytes)).unwrap();
    }
    let Ok(mut mad) = Mad::from_slice(bytes) else {
        assert_ne!(bytes.len(), 256);
        return;
    };
    write!(text, "{mad} {mad:#} {} {}", mad.json(), mad.status()).unwrap();
    let _ = record(u64::from(bytes[0]) << 56, &Packet::around(&mad, Lid(1), Lid(2)), &mad);
    if let Ok(smp) = Smp::parse(&mad.0) {
        write!(text, "{smp:?}").unwrap();
        let mut again = mad.0;
        smp.emit(&mut again);
        assert_eq!(Smp::parse(&again), Ok(smp));
    }
    if let Ok(request) = SaRequest::parse(&mad) {
        write!(text, "{request:?} {:?}", request.record::<PathRecord>()).unwrap();
        write!(text, "{:?}", request.records::<NodeRecord>().collect::<Vec<_>>()).unwrap();
        assert_eq!(SaRequest::parse(&request.mad()), Ok(request));
    }
    let policy = Policy { longest: 1_000, ..Policy::default() };
    let mut receiver = Receiver::new(&mad, policy, Time::ZERO);
    let mut sender = Sender::new(&mad, bytes.to_vec(), policy, Time::ZERO);
    while sender.poll(Time::ZERO).is_some() {}
    write!(text, "{:?} {:?}", receiver.receive(&mad), sender.receive(&mad, Time::ZERO)).unwrap();
    match mad.payload() {
        Ok(Payload::Notice(notice)) => write!(text, "{notice} {:?}", notice.trap()).unwrap(),
        Ok(payload) => write!(text, "{payload:?}").unwrap(),
        Err(error) => write!(text, "{error}").unwrap(),
    }
    for (is_switch, ports) in [(false, 1), (true, 36), (true, 254)] {
        let here = Here { is_switch, ports };
        write!(text, "{:?}", depart(&mut mad.clone(), here)).unwrap();
        let mut mad = mad.clone();
        write!(text, "{:?}", arrive(&mut mad, here, PortNum(bytes[255]))).unwrap();
        write!(text, "{:?}", arrive(&mut mad, here, PortNum(bytes[254]))).unwrap();
    }
    mad.answer(Status(u16::from_be_bytes([bytes[8], bytes[9]])));
}

/// A MAD whose header is right, so that what lies deeper is reached.
fn plausible(rng: &mut ChaCha8Rng) -> [u8; 256] {
    let mut bytes = [0; 256];
    rng.fill_bytes(&mut bytes);
    let class = [0x01, 0x81, 0x04, 0x03][rng.random_range(0..4)];
    let id = match class {
        0x03 => RECORDS[rng.random_range(0..RECORDS.len())].0,
        0x04 => PERFORMANCE[rng.random_range(0..PERFORMANCE.len())].0,
        _ => SUBNET[rng.random_range(0..SUBNET.len())].0,
    };
    (bytes[0], bytes[1], bytes[2]) = (1, class, if class == 0x03 { 2 } else { 1 });
    bytes[3] = [1, 2, 3, 5, 7, 0x81][rng.random_range(0..6)];
    if class == 0x03 {
        bytes[3] = [0x01, 0x02, 0x12, 0x92, 0x14, 0x94][rng.random_range(0..6)];
        (bytes[24], bytes[25]) = (1, rng.random_range(0..6));
        bytes[26] = rng.random_range(0..8);
        bytes[27] = [0, 1, 118, 124][rng.random_range(0..4)];
        (bytes[28..31]).fill(0);
        bytes[31] = rng.random_range(0..4);
    }
    bytes[16..18].copy_from_slice(&id.0.to_be_bytes());
    if class == 0x81 {
        bytes[7] = rng.random_range(0..66);
        bytes[6] = rng.random_range(0..67);
    }
    bytes
}

#[test]
fn nothing_from_the_wire_panics() {
    let mut text = String::new();
    let (first, rounds) = (number("SNIN_SEED", 0), number("SNIN_FUZZ", 20_000));
    for seed in first..first + rounds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = plausible(&mut rng).to_vec();
        match seed % 4 {
            0 => rng.fill_bytes(&mut bytes),
            1 => bytes.truncate(rng.random_range(0..=256)),
            _ => {
                for _ in 0..rng.random_range(0..4) {
                    let at = rng.random_range(0..bytes.len());
                    bytes[at] ^= 1 << rng.random_range(0..8);
                }
            }
        }
        let text = &mut text;
        let run = std::panic::AssertUnwindSafe(|| target(&bytes, text));
        assert!(std::panic::catch_unwind(run).is_ok(), "SNIN_SEED={seed}: {bytes:02x?}");
        if (seed - first + 1) % 500_000 == 0 {
            println!("fuzz: MADs up to seed {seed}");
        }
    }
}
