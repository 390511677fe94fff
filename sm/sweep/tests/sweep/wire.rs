//! Received MADs that answer no question: counted by reason, dropped, and without effect.
//!
//! `SNIN_FUZZ` says how many random sequences of it each test gives (a few by default), `SNIN_SEED` where they
//! begin.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Config as Hardware, Fault, Noise};
use snin_fabric::{Lid, PortNum};
use snin_mad::header::Directed;
use snin_mad::{
    Attribute, Class, DrPath, Header, Hex32, LinearForwarding, Mad, Method, NodeInfo, Notice,
    PERMISSIVE, PortInfo, Route, Smp, Status, TransactionId, Trap,
};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, Output, Sweep};

use crate::support::{Lab, config, fabric, for_seeds};

/// A core that asked its first question, and the question.
fn asking() -> (Sweep, Mad) {
    let mut sweep = Sweep::new(Config { seed: 500, ..config(0) }, Saved::default()).unwrap();
    sweep.handle(Event::Start, Time::ZERO);
    let Some(Output::Send { mad, .. }) = sweep.poll_output() else { panic!("no question") };
    (sweep, *mad)
}

fn give(sweep: &mut Sweep, port: u32, bytes: &[u8]) {
    let event = Event::Mad { port: LocalPort(port), source: PERMISSIVE, bytes };
    sweep.handle(event, Time(1));
}

fn dropped(sweep: &Sweep, why: Dropped) -> u64 {
    sweep.metrics().dropped.get(&why).copied().unwrap_or(0)
}

fn answer(question: &Mad) -> Mad {
    let mut answer = question.clone();
    answer.put(&NodeInfo {
        node_type: snin_mad::NodeType::ChannelAdapter,
        num_ports: 1,
        node_guid: snin_fabric::Guid(1),
        port_guid: snin_fabric::Guid(2),
        local_port: PortNum(1),
        ..NodeInfo::default()
    });
    answer.answer(Status::OK);
    answer
}

#[test]
fn everything_that_is_no_answer_is_dropped_by_name() {
    let (_, question) = asking();
    let good = answer(&question);
    let edit = |change: &dyn Fn(&mut Mad)| {
        let mut mad = good.clone();
        change(&mut mad);
        mad
    };
    let cases = [
        (
            Dropped::Malformed,
            edit(&|mad| {
                Header::edit(&mut mad.0).base_version(2);
            }),
        ),
        (
            Dropped::Malformed,
            edit(&|mad| {
                Directed::edit(&mut mad.0).hop_count(64);
            }),
        ),
        (
            Dropped::OtherClass,
            edit(&|mad| {
                Header::edit(&mut mad.0).class(Class::Performance);
            }),
        ),
        (Dropped::Request, question.clone()),
        (
            Dropped::Unsolicited,
            edit(&|mad| {
                Header::edit(&mut mad.0).transaction_id(TransactionId(7));
            }),
        ),
        (
            Dropped::Foreign,
            edit(&|mad| {
                Header::edit(&mut mad.0).attribute(PortInfo::ID);
            }),
        ),
        (
            Dropped::Foreign,
            edit(&|mad| {
                Header::edit(&mut mad.0).modifier(Hex32(3));
            }),
        ),
        (
            Dropped::Foreign,
            edit(&|mad| {
                Directed::edit(&mut mad.0).hop_count(3);
            }),
        ),
        (
            Dropped::Busy,
            edit(&|mad| {
                Directed::edit(&mut mad.0).status(Status::BUSY);
            }),
        ),
    ];
    for (why, mad) in cases {
        let (mut sweep, _) = asking();
        give(&mut sweep, 0, &mad.0);
        assert_eq!(dropped(&sweep, why), 1, "{why}: {:?}", sweep.metrics().dropped);
        assert_eq!((sweep.metrics().answers, sweep.in_flight()), (0, 1), "{why}");
    }
    let (mut sweep, _) = asking();
    give(&mut sweep, 0, &good.0[..255]);
    give(&mut sweep, 0, &[]);
    assert_eq!(dropped(&sweep, Dropped::Truncated), 2);
    give(&mut sweep, 1, &good.0);
    assert_eq!(dropped(&sweep, Dropped::WrongPort), 1);
    give(&mut sweep, 0, &good.0);
    assert_eq!(sweep.metrics().answers, 1);
    give(&mut sweep, 0, &good.0);
    assert_eq!(dropped(&sweep, Dropped::Replayed), 1);
    // A trap before anybody has an address.
    let details = snin_mad::notice::LinkStateDetails { lid: Lid(5) };
    let trap = Trap::LinkStateChange(details);
    let mad = Smp::trap().mad().with(&Notice::generic(&trap, 2, Lid(5)));
    give(&mut sweep, 0, &mad.0);
    assert_eq!(dropped(&sweep, Dropped::UnknownIssuer), 1);
}

/// Any bytes at any time, among them old answers with bits flipped.
#[test]
fn nothing_that_comes_in_makes_a_difference() {
    for_seeds("SNIN_FUZZ", 20, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let noise = Noise { drop: 5_000, duplicate: 50_000, reorder: 50_000, ..Noise::NONE };
        let hardware = Hardware { seed, noise, ..Hardware::default() };
        let mut lab = Lab::of(fabric("clos:3,2,2"), hardware, config(1));
        lab.overheard = Some(vec![Mad::ZERO]);
        lab.start();
        for _ in 0..300 {
            let mut mad = match random.random_range(0..4) {
                0 => random_smp(&mut random),
                1 => Mad(std::array::from_fn(|_| random.random())),
                _ => lab.overheard.as_ref().unwrap().choose(&mut random).unwrap().clone(),
            };
            if random.random_bool(0.5) {
                mad.0[random.random_range(0..256)] ^= 1 << random.random_range(0..8);
            }
            let length = if random.random_bool(0.1) { random.random_range(0..256) } else { 256 };
            let source = Lid(random.random_range(0..30));
            let port = LocalPort(u32::from(random.random_bool(0.05)));
            let now = lab.now();
            lab.sweep.handle(Event::Mad { port, source, bytes: &mad.0[..length] }, now);
            lab.run(Time::micros(random.random_range(0..20_000)));
        }
        lab.settle();
        lab.check();
        assert_eq!(lab.missing(), [], "seed {seed}");
    });
}

/// Bits flipped on every cable, in questions and writes too: anything may be written anywhere.
#[test]
fn nothing_on_the_wire_can_panic() {
    for_seeds("SNIN_FUZZ", 60, |seed| {
        let noise = Noise { drop: 5_000, duplicate: 50_000, reorder: 50_000, corrupt: 50_000 };
        let hardware = Hardware { seed, noise, ..Hardware::default() };
        let mut lab = Lab::of(fabric("clos:3,2,2"), hardware, config(1));
        lab.start();
        lab.run(Time::secs(60));
        lab.strike(Fault::Noise(Noise::NONE));
        lab.run(Time::secs(30));
        lab.settle();
    });
}

/// The verbs in any order, at any time, with computations that come late, twice or never.
#[test]
fn any_sequence_of_events_is_survived() {
    for_seeds("SNIN_FUZZ", 40, |seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut lab = Lab::new("clos:3,2,2", 1);
        lab.keep_jobs = true;
        for _ in 0..400 {
            let now = lab.now();
            match random.random_range(0..8) {
                0 => lab.sweep.handle(Event::Start, now),
                1 => lab.sweep.handle(Event::Resweep, now),
                2 => lab.sweep.handle_deadline(Time(random.random_range(0..now.0 + 1_000_000))),
                3 => drop(lab.sweep.poll_output()),
                4 => {
                    let mad = random_smp(&mut random);
                    let event = Event::Mad { port: LocalPort(0), source: Lid(3), bytes: &mad.0 };
                    lab.sweep.handle(event, now);
                }
                5 => lab.compute_one(),
                _ => lab.run(Time::micros(random.random_range(0..200_000))),
            }
        }
        lab.keep_jobs = false;
        while lab.has_jobs() {
            lab.compute_one();
        }
        let now = lab.now();
        lab.sweep.handle(Event::Resweep, now);
        lab.run(Time::secs(30));
        lab.settle();
        lab.check();
        assert_eq!(lab.missing(), [], "seed {seed}");
    });
}

fn random_smp(random: &mut ChaCha8Rng) -> Mad {
    let ids = [0x02, 0x10, 0x11, 0x12, 0x15, 0x16, 0x19, 0x20, 0x33].map(snin_mad::AttributeId);
    let path: Vec<u8> = (0..random.random_range(0..6)).map(|_| random.random_range(0..8)).collect();
    let route = match random.random_bool(0.2) {
        true => Route::Lid,
        false => Route::directed(DrPath::new(&path).unwrap()),
    };
    let mut smp = Smp::get(*ids.choose(random).unwrap(), random.random_range(0..4), route);
    smp.method = *[Method::Get, Method::Set, Method::Trap, Method::GetResp].choose(random).unwrap();
    smp.returning = random.random();
    let id = TransactionId(random.random_range(0..2_000));
    let mut mad = smp.transaction(id).mad();
    let ports = [PortNum(random.random()); 64];
    mad.put(&LinearForwarding { ports });
    mad
}
