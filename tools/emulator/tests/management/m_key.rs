//! M_Keys: who may read and write, and when a key is given up (IBA 14.2.4).

use snin_fabric::{Lid, Lmc};
use snin_mad::{AttributeId, MKey, Method, NodeInfo, Notice, PortInfo, Trap};
use snin_protocol::Time;

use crate::support::{Answer, Lab};

const KEY: MKey = MKey(0x1234_5678_9abc_def0);
const WRONG: MKey = MKey(0xbad);

fn protected(level: u8, lease: u16) -> Lab {
    let mut lab = Lab::new("clos:2,2,2");
    for (name, num) in [("leaf0", 0), ("host1", 1)] {
        let port = lab.port(name, num);
        lab.emulator.protect(port, KEY, level, lease);
    }
    lab
}

/// (level, key shown) -> what Get(NodeInfo), Get(PortInfo) and Set(PortInfo) give: nothing, all but the key,
/// or all.
#[test]
fn the_protection_table() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Gets {
        Nothing,
        NoKey,
        All,
    }
    use Gets::{All, NoKey, Nothing};
    let table = [
        (0, WRONG, All, All, Nothing),
        (1, WRONG, All, NoKey, Nothing),
        (2, WRONG, Nothing, Nothing, Nothing),
        (3, WRONG, Nothing, Nothing, Nothing),
        (0, KEY, All, All, All),
        (1, KEY, All, All, All),
        (2, KEY, All, All, All),
        (3, KEY, All, All, All),
    ];
    for (level, key, node, read, write) in table {
        for (name, num) in [("leaf0", 0), ("leaf0", 3), ("host1", 1)] {
            let mut lab = protected(level, 0);
            lab.m_key = key;
            let case = format!("level {level} key {key} {name}/{num}");
            let answer = lab.get::<NodeInfo>(name, 0);
            assert_eq!(answer != Answer::Silence, node == All, "{case}");
            // A switch's key guards and is shown with port 0; its other ports have none to show.
            let shown = if num == 3 { MKey(0) } else { KEY };
            let gets = |answer: Answer<PortInfo>| match answer {
                Answer::Silence => Nothing,
                Answer::Value(info) if info.m_key == shown => All,
                Answer::Value(info) if info.m_key == MKey(0) => NoKey,
                other => panic!("{other:?}"),
            };
            let expected = if num == 3 && read == NoKey { All } else { read };
            assert_eq!(gets(lab.get(name, num)), expected, "{case}");
            let info = lab.emulator.fabric().port_info(lab.port(name, num as u8));
            let info = PortInfo {
                state: snin_mad::PortState::NoChange,
                physical_state: snin_mad::PhysicalState::NoChange,
                ..info
            };
            assert_eq!(gets(lab.set(name, num, &info)), write, "{case}");
            let port = if num == 3 { 0 } else { num as u8 };
            let violations = lab.emulator.fabric().port_info(lab.port(name, port));
            let failures = [node, read, write].iter().filter(|&&gets| gets == Nothing).count();
            assert_eq!(usize::from(violations.m_key_violations), failures, "{case}");
        }
    }
}

/// A port without a key accepts every key.
#[test]
fn no_key_lets_everyone_in() {
    let mut lab = Lab::new("clos:2,2,2");
    lab.m_key = WRONG;
    for level in 0..4 {
        let port = lab.port("host1", 1);
        lab.emulator.protect(port, MKey(0), level, 1);
        lab.address("host1", 1, Lid(5), Lmc::ZERO).value();
    }
}

#[test]
fn the_lease_runs_from_the_first_wrong_key_and_stops_at_a_right_one() {
    let mut lab = protected(2, 2);
    // No request came: the lease does not run.
    lab.wait(Time::secs(10));
    lab.m_key = WRONG;
    assert_eq!(lab.get::<PortInfo>("host1", 1), Answer::Silence);
    // Its owner comes in time.
    lab.wait(Time::secs(1));
    lab.m_key = KEY;
    lab.get::<PortInfo>("host1", 1).value();
    lab.wait(Time::secs(5));
    lab.m_key = WRONG;
    assert_eq!(lab.get::<PortInfo>("host1", 1), Answer::Silence);
    // More wrong keys do not prolong it.
    lab.wait(Time::millis(1_500));
    assert_eq!(lab.get::<PortInfo>("host1", 1), Answer::Silence);
    lab.wait(Time::millis(500));
    // It has run out: the key can be read, and with it everything be written.
    let info: PortInfo = lab.get("host1", 1).value();
    assert_eq!((info.m_key, info.m_key_protect), (KEY, 0));
    assert_eq!(lab.set("host1", 1, &info), Answer::Silence);
    lab.m_key = info.m_key;
    lab.address("host1", 1, Lid(5), Lmc::ZERO).value();
}

#[test]
fn a_lease_of_zero_never_ends() {
    let mut lab = protected(2, 0);
    lab.m_key = WRONG;
    for _ in 0..3 {
        assert_eq!(lab.get::<PortInfo>("host1", 1), Answer::Silence);
        lab.wait(Time::secs(70_000));
    }
}

#[test]
fn a_wrong_key_is_told_to_the_manager() {
    let mut lab = protected(1, 0);
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.m_key = KEY;
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 0)]);
    lab.m_key = WRONG;
    let info: PortInfo = lab.get("leaf0", 0).value();
    lab.received();
    let route = lab.route("leaf0");
    let mad = snin_mad::Smp::set(AttributeId(0x15), 0, route).m_key(WRONG).mad().with(&info);
    lab.send(&mad, Lid::NONE);
    lab.wait(Time::millis(1));
    let received = lab.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].mad.header().method(), Method::Trap);
    let notice: Notice = received[0].mad.attribute().unwrap();
    let Some(Trap::BadMKey(details)) = notice.trap().unwrap() else { panic!("{notice}") };
    assert_eq!((details.lid, details.m_key, details.method), (Lid(2), WRONG, Method::Set));
    assert_eq!((details.attribute, details.directed), (AttributeId(0x15), true));
    assert_eq!((details.hop_count, details.return_path.0[0]), (1, 1));
}

/// A port of the same adapter is a port of its own.
#[test]
fn the_key_of_an_adapters_other_port_holds_too() {
    use snin_fabric::topology::TopologyBuilder;
    use snin_fabric::{Guid, NodeKind, PortNum};
    let mut builder = TopologyBuilder::new();
    let home = builder.add(NodeKind::Adapter, Guid(0x10), 1, "host0").unwrap();
    let two = builder.add(NodeKind::Adapter, Guid(0x20), 2, "two").unwrap();
    builder.cable((home, PortNum(1)), (two, PortNum(1))).unwrap();
    let mut lab = Lab::of(builder.build().unwrap(), snin_emulator::Config::default());
    let other = lab.port("two", 2);
    lab.emulator.protect(other, KEY, 2, 0);
    lab.get::<PortInfo>("two", 1).value();
    assert_eq!(lab.get::<PortInfo>("two", 2), Answer::Silence);
    lab.m_key = KEY;
    assert_eq!(lab.get::<PortInfo>("two", 2).value().m_key, KEY);
}
