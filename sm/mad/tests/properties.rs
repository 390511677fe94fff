//! Properties that hold for any bytes and any values.

use proptest::prelude::*;
use snin_fabric::Lid;
use snin_mad::attribute::{PERFORMANCE, SUBNET};
use snin_mad::hop::{Here, Step, arrive, depart};
use snin_mad::notice::TRAPS;
use snin_mad::*;

fn mad_bytes() -> impl Strategy<Value = [u8; 256]> {
    proptest::collection::vec(any::<u8>(), 256).prop_map(|bytes| bytes.try_into().expect("256"))
}

fn attributes() -> impl Strategy<Value = (Class, AttributeId, &'static Layout)> {
    let subnet = SUBNET.iter().map(|(id, layout)| (Class::Subnet, *id, *layout));
    let performance = PERFORMANCE.iter().map(|(id, layout)| (Class::Performance, *id, *layout));
    proptest::sample::select(subnet.chain(performance).collect::<Vec<_>>())
}

fn paths() -> impl Strategy<Value = DrPath> {
    proptest::collection::vec(any::<u8>(), 0..=63).prop_map(|p| DrPath::new(&p).expect("63 hops"))
}

fn smps() -> impl Strategy<Value = Smp> {
    let lid = || proptest::option::of((0..0xFFFF_u16).prop_map(Lid));
    let route = prop_oneof![
        Just(Route::Lid),
        (lid(), paths(), lid()).prop_map(|(from, path, to)| Route::Directed { from, path, to }),
    ];
    let words =
        (any::<u8>(), 0..0x8000_u16, any::<u64>(), any::<u16>(), any::<u32>(), any::<u64>());
    (words, route, any::<u8>(), any::<bool>(), paths()).prop_map(
        |(words, route, at, returning, back)| {
            let (method, status, id, attribute, modifier, m_key) = words;
            let mut smp = Smp {
                method: Method::new(method),
                status: Status(status),
                ..Smp::get(AttributeId(attribute), modifier, route)
                    .transaction(TransactionId(id))
                    .m_key(MKey(m_key))
            };
            if let Route::Directed { path, .. } = route {
                let hops = path.hops() as u8;
                smp.hop_pointer = at % (hops + 2);
                smp.returning = returning;
                smp.return_path = DrPath::from_bytes(back.bytes(), hops).expect("63 hops");
            }
            smp
        },
    )
}

/// `data` with every bit that no field owns set to zero, by the table alone.
fn without_reserved(layout: &Layout, data: &[u8]) -> Vec<u8> {
    let mut kept = vec![0; data.len()];
    for field in layout.fields {
        for i in 0..field.count {
            let place = field.place.element(i);
            for bit in place.offset..place.offset + place.width {
                kept[bit / 8] |= data[bit / 8] & (0x80 >> (bit % 8));
            }
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2048,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn attributes_survive_parse_and_emit(bytes in mad_bytes(), (class, id, layout) in attributes()) {
        // Rules may refuse random bytes; what they accept comes back bit by bit, reserved bits as zeros.
        if let Ok(payload) = Payload::parse(class, id, &bytes) {
            let mut again = [0xA5; 256];
            payload.emit(&mut again);
            let end = 64 + layout.bytes;
            prop_assert_eq!(&again[64..end], without_reserved(layout, &bytes[64..end]));
            prop_assert!(again[..64].iter().chain(&again[end..]).all(|&b| b == 0xA5));
            prop_assert_eq!(Payload::parse(class, id, &again), Ok(payload.clone()));
            prop_assert_eq!(payload.id(), id);
            // A view shows the same of both, as it does not show reserved bits.
            prop_assert_eq!(layout.json(&bytes[64..end]), layout.json(&again[64..end]));
            prop_assert_eq!(
                layout.show(&bytes[64..end]).to_string(),
                layout.show(&again[64..end]).to_string()
            );
        }
    }

    #[test]
    fn smps_survive_emit_and_parse(smp in smps()) {
        let mut bytes = [0xA5; 256];
        smp.emit(&mut bytes);
        prop_assert_eq!(Smp::parse(&bytes), Ok(smp));
        prop_assert_eq!(smp.mad().0, bytes);
    }

    #[test]
    fn what_smp_parse_accepts_it_writes_back(mut bytes in mad_bytes(), directed in any::<bool>()) {
        (bytes[0], bytes[1], bytes[2]) = (1, if directed { 0x81 } else { 1 }, 1);
        (bytes[6], bytes[7]) = (bytes[6] % 66, bytes[7] % 66);
        if let Ok(smp) = Smp::parse(&bytes) {
            let mut again = bytes;
            smp.emit(&mut again);
            prop_assert_eq!(Smp::parse(&again), Ok(smp));
        } else {
            prop_assert!(directed && (bytes[7] > 63 || bytes[6] > bytes[7] + 1));
        }
    }

    #[test]
    fn traps_survive_a_notice(details in any::<[u8; 27]>(), tail in any::<[u8; 27]>(), lid in any::<u16>()) {
        let mut bytes = [0; 54];
        bytes[..27].copy_from_slice(&details);
        bytes[27..].copy_from_slice(&tail);
        for &number in TRAPS {
            let raw = Notice {
                is_generic: true,
                trap_number: number,
                details: Octets(bytes),
                ..Notice::default()
            };
            if let Ok(trap) = raw.trap() {
                let trap = trap.expect("a trap of ours");
                let notice = Notice::generic(&trap, 1, Lid(lid));
                prop_assert_eq!((notice.trap_number, notice.kind), (number, trap.kind()));
                prop_assert_eq!(notice.trap(), Ok(Some(trap)));
            }
        }
    }

    #[test]
    fn paths_keep_their_hops(path in paths()) {
        prop_assert_eq!(DrPath::from_bytes(path.bytes(), path.hops() as u8), Some(path));
        prop_assert_eq!(DrPath::new(path.ports()), Some(path));
        if let Some(parent) = path.parent() {
            prop_assert_eq!(parent.then(path.last().expect("a hop")), Some(path));
        }
    }

    /// Along any chain of switches, whichever ends are routed by LID, a request arrives and its answer
    /// comes back by the very same ports.
    #[test]
    fn directed_routes_go_there_and_back(
        links in proptest::collection::vec((1_u8..=64, 1_u8..=64), 0..=63),
        begins_by_lid in any::<bool>(),
        ends_by_lid in any::<bool>(),
    ) {
        let switch = Here { is_switch: true, ports: 64 };
        let forth: Vec<u8> = links.iter().map(|(out, _)| *out).collect();
        let route = Route::Directed {
            from: begins_by_lid.then_some(Lid(1)),
            path: DrPath::new(&forth).expect("63 hops"),
            to: ends_by_lid.then_some(Lid(2)),
        };
        let mut mad = Smp::get(NodeInfo::ID, 0, route).mad();
        let mut step = depart(&mut mad, switch);
        if begins_by_lid {
            prop_assert_eq!(step, Step::Addressed);
            step = arrive(&mut mad, switch, snin_fabric::PortNum(9));
        }
        for (out, into) in &links {
            prop_assert_eq!(step, Step::Out(snin_fabric::PortNum(*out)));
            step = arrive(&mut mad, switch, snin_fabric::PortNum(*into));
        }
        if ends_by_lid {
            prop_assert_eq!(step, Step::Forward(Lid(2)));
            step = arrive(&mut mad, switch, snin_fabric::PortNum(9));
        }
        prop_assert_eq!(step, Step::Deliver);

        prop_assert!(mad.answer(Status::OK));
        step = depart(&mut mad, switch);
        if ends_by_lid {
            prop_assert_eq!(step, Step::Addressed);
            step = arrive(&mut mad, switch, snin_fabric::PortNum(9));
        }
        for (out, into) in links.iter().rev() {
            prop_assert_eq!(step, Step::Out(snin_fabric::PortNum(*into)));
            step = arrive(&mut mad, switch, snin_fabric::PortNum(*out));
        }
        if begins_by_lid {
            prop_assert_eq!(step, Step::Forward(Lid(1)));
            step = arrive(&mut mad, switch, snin_fabric::PortNum(9));
        }
        prop_assert_eq!(step, Step::Deliver);
        prop_assert_eq!(mad.directed().hop_pointer(), 0);
    }
}
