//! Random bytes in a MAD: nothing panics, nothing hangs, and the fabric still answers.

use proptest::prelude::*;
use snin_emulator::{Config, Fault};
use snin_fabric::{Lid, Lmc};
use snin_mad::{AttributeId, Mad, Method, NodeInfo, Smp};
use snin_protocol::Time;

use crate::support::Lab;

fn lab() -> Lab {
    let config = Config { agent_latency: Time(10), ..Config::default() };
    let mut lab = Lab::with("clos:2,2,2", config);
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 0), (3, 3), (4, 4)]);
    lab.activate("host0", 1);
    lab
}

/// An SMP or performance MAD as a manager might send it, then some of its bytes changed.
fn mutated() -> impl Strategy<Value = (Mad, Lid)> {
    let attribute = prop_oneof![0x10..0x40_u16, Just(0x02), Just(0xFF90), any::<u16>()];
    let method = prop_oneof![Just(1), Just(2), Just(5), Just(7), Just(0x81), any::<u8>()];
    let modifier =
        prop_oneof![0..8_u32, any::<u32>(), (0..8_u32, 0..8_u32).prop_map(|(a, b)| a << 16 | b)];
    let path = proptest::collection::vec(0..6_u8, 0..6);
    let changes = proptest::collection::vec((0..256_usize, any::<u8>()), 0..8);
    let data = any::<[u8; 32]>();
    let class =
        prop_oneof![4 => Just(None), 1 => Just(Some(4_u8)), 1 => any::<u8>().prop_map(Some)];
    let lid = prop_oneof![0..6_u16, any::<u16>()];
    (attribute, method, modifier, path, changes, data, class, lid).prop_map(
        |(attribute, method, modifier, path, changes, data, class, lid)| {
            let path = snin_mad::DrPath::new(&path).expect("a short path");
            let route =
                if lid % 2 == 0 { snin_mad::Route::Lid } else { snin_mad::Route::directed(path) };
            let method = Method::new(method);
            let smp = Smp { method, ..Smp::get(AttributeId(attribute), modifier, route) };
            let mut mad = smp.mad();
            mad.0[64..96].copy_from_slice(&data);
            if let Some(class) = class {
                mad.0[1] = class;
            }
            for (at, byte) in changes {
                mad.0[at] = byte;
            }
            (mad, Lid(lid))
        },
    )
}

/// Nothing of what was sent is under way for ever, and every counter can be read.
fn settles(lab: &mut Lab) {
    lab.wait(Time::secs(1));
    lab.assert_all_accounted_for();
    let fabric = lab.emulator.fabric();
    for port in lab.topology.ports() {
        fabric.port_info(port);
    }
    let _ = (fabric.addresses(), fabric.tables(), fabric.live_topology());
    // Its own node still answers, unless the key is another now.
    let home = lab.emulator.fabric().port_info(lab.home);
    lab.m_key = home.m_key;
    lab.get::<NodeInfo>("host0", 0).value();
}

/// `SNIN_FUZZ` says how many; a few by default.
fn cases() -> u32 {
    std::env::var("SNIN_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(
        mads in proptest::collection::vec((any::<[u8; 32]>(), any::<[u8; 32]>(), any::<u16>()), 1..20),
    ) {
        let mut lab = lab();
        for (head, data, to) in mads {
            let mut mad = Mad::ZERO;
            for (at, byte) in head.iter().chain(&data).chain(&head).chain(&data).cycle().take(256).enumerate() {
                mad.0[at] = *byte;
            }
            lab.send(&mad, Lid(to));
        }
        settles(&mut lab);
    }

    #[test]
    fn mutated_mads(mads in proptest::collection::vec(mutated(), 1..40)) {
        let mut lab = lab();
        for (mad, to) in mads {
            lab.send(&mad, to);
        }
        settles(&mut lab);
    }

    #[test]
    fn mutated_mads_and_faults(
        steps in proptest::collection::vec((mutated(), 0..8_u8, 0..26_u32, 0..100_000_u64), 1..40),
    ) {
        let mut lab = lab();
        for ((mad, to), fault, place, time) in steps {
            let port = snin_fabric::PortIndex(place % lab.topology.port_count() as u32);
            let node = lab.topology.port(port).node;
            let fault = match fault {
                0 => Fault::Cut(port),
                1 => Fault::Restore(port),
                2 => Fault::Bounce(port),
                3 if node != lab.node("host0") => Fault::Reboot(node, Time(time)),
                4 if node != lab.node("host0") => Fault::PowerOff(node),
                5 => Fault::PowerOn(node),
                _ => Fault::Rename(node, "x".repeat(place as usize * 4)),
            };
            lab.emulator.inject(fault, lab.emulator.now() + Time(time));
            lab.send(&mad, to);
            lab.wait(Time(time));
        }
        settles(&mut lab);
    }
}
