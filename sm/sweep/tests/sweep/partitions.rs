//! Partitions from a file: tables of end ports and of the switches' ports that face them, and what these check.

use std::cell::RefCell;
use std::rc::Rc;

use snin_emulator::{AdapterModel, Config as Hardware, Fault, SwitchModel};
use snin_fabric::PortIndex;
use snin_mad::{Attribute as _, Method, PKey, PKeyTable};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::config::Enforce;
use snin_sm_database::partitions::Partitions;
use snin_sweep::{Event, Missing};

use crate::support::{Lab, config, fabric};

/// 4 switches, 4 hosts; a leaf has 2 hosts and 2 cables up. The manager sits at host0.
const RECIPE: &str = "clos:2,2,2";

fn with(text: &str) -> Config {
    Config { partitions: text.parse().unwrap(), ..config(0) }
}

/// The keys in a port's table, without the empty places behind the last.
fn keys(lab: &Lab, port: PortIndex) -> Vec<u16> {
    let all: Vec<u16> = (0..32).map(|place| lab.emulator.fabric().p_key(port, place).0).collect();
    all[..all.iter().rposition(|&key| key != 0).map_or(0, |last| last + 1)].to_vec()
}

fn checks(lab: &Lab, port: PortIndex) -> (bool, bool) {
    let info = lab.emulator.fabric().port_info(port);
    (info.partition_enforcement_inbound, info.partition_enforcement_outbound)
}

fn host(lab: &Lab, name: &str) -> (PortIndex, PortIndex) {
    let port = lab.port(name, 1);
    (port, lab.topology.peer(port).unwrap())
}

fn guid(lab: &Lab, name: &str) -> snin_fabric::Guid {
    lab.topology.port(lab.port(name, 1)).guid
}

#[test]
fn a_file_says_who_is_a_member() {
    let topology = Lab::new(RECIPE, 0);
    let [one, two] = ["host1", "host2"].map(|name| guid(&topology, name));
    let text = format!(
        "a=0x10, defmember=full : {one}, {two}=limited; b=0x8020, indx0 : {two}=full, SELF;"
    );
    let mut lab = Lab::of(fabric(RECIPE), Hardware::default(), with(&text));
    lab.bring_up();
    lab.check();
    assert_eq!(lab.missing(), []);
    for (name, own, facing) in [
        ("host0", &[0x0020, 0xFFFF][..], &[0x0020, 0xFFFF][..]),
        ("host1", &[0x7FFF, 0x8010], &[0x7FFF, 0x8010]),
        ("host2", &[0x8020, 0x0010, 0x7FFF], &[0x8020, 0x0010, 0x7FFF]),
        ("host3", &[0x7FFF], &[0x7FFF]),
    ] {
        let (port, switch) = host(&lab, name);
        assert_eq!((keys(&lab, port), keys(&lab, switch)), (own.into(), facing.into()), "{name}");
        assert_eq!(checks(&lab, switch), (true, true), "{name}");
    }
    assert_eq!(keys(&lab, lab.topology.port0(lab.node("spine0"))), [0x7FFF]);
    assert_eq!(checks(&lab, lab.port("leaf0", 3)), (false, false), "between switches all passes");

    // Nothing is written again, after a restart neither.
    let writes = lab.sweep.metrics().smps();
    let mut lab = lab.restarted(with(&text));
    lab.bring_up();
    assert!(lab.sweep.metrics().smps() < writes);
    let sets = (PKeyTable::ID, Method::Set.code());
    assert_eq!(lab.sweep.metrics().sent.get(&sets), None);

    // A host that was off has what it shall have, and a switch too.
    for name in ["host1", "leaf0"] {
        let node = lab.node(name);
        lab.strike(Fault::Reboot(node, Time::millis(5)));
        // No trap comes from the manager's own leaf: the next light sweep finds it.
        lab.run(Time::secs(11));
        lab.settle();
        let (port, switch) = host(&lab, "host1");
        assert_eq!(
            (keys(&lab, port), keys(&lab, switch)),
            (vec![0x7FFF, 0x8010], vec![0x7FFF, 0x8010])
        );
        assert_eq!(checks(&lab, switch), (true, true), "{name}");
    }
}

#[test]
fn another_file_leaves_keys_where_they_are_and_tells_the_switch_first() {
    let mut lab =
        Lab::of(fabric(RECIPE), Hardware::default(), with("1 : ALL=full; 2 : ALL=full; 3 : ALL;"));
    lab.bring_up();
    let (port, switch) = host(&lab, "host3");
    assert_eq!(keys(&lab, port), [0x7FFF, 0x8001, 0x8002, 3]);
    let three = guid(&lab, "host3");
    let written = Rc::new(RefCell::new(Vec::new()));
    let to = written.clone();
    lab.emulator
        .watch(move |_, write| to.borrow_mut().push((write.attribute, write.modifier >> 16)));
    let tell = |lab: &mut Lab, text: &str| {
        let now = lab.now();
        lab.sweep.handle(Event::Partitions(Box::new(text.parse().unwrap())), now);
        lab.settle();
    };
    // Host 3 loses 2 and gets 4: behind 3, since the free place was another's just now.
    let text =
        format!("1 : ALL=full; 2 : ALL=full; 3 : ALL; 2 : {three}=limited; 4 : {three}=full;");
    tell(&mut lab, &text);
    assert_eq!(keys(&lab, port), [0x7FFF, 0x8001, 2, 3, 0x8004]);
    let without = format!("1 : ALL=full; 3 : ALL; 4 : {three}=full; 2 : SELF;");
    tell(&mut lab, &without);
    assert_eq!(keys(&lab, port), [0x7FFF, 0x8001, 0, 3, 0x8004]);
    assert_eq!(keys(&lab, switch), [0x7FFF, 0x8001, 3, 0x8004]);
    written.borrow_mut().clear();
    tell(&mut lab, &format!("{without} 5 : {three}=full;"));
    assert_eq!(keys(&lab, port), [0x7FFF, 0x8001, 0, 3, 0x8004, 0x8005]);
    let facing = u32::from(lab.topology.num(switch).0);
    let first = [(PKeyTable::ID, facing), (PKeyTable::ID, 0)];
    assert_eq!(*written.borrow(), first, "the switch's port, then the host");
    // Checks end with the file.
    let now = lab.now();
    lab.sweep.handle(Event::Partitions(Box::default()), now);
    lab.settle();
    assert_eq!((keys(&lab, port), checks(&lab, switch)), (vec![0xFFFF], (false, false)));
    assert_eq!(lab.missing(), []);
}

#[test]
fn tables_without_room_are_named() {
    let hardware = Hardware {
        adapter: AdapterModel { partition_cap: 3, ..AdapterModel::default() },
        switch: SwitchModel { partition_enforcement_cap: 2, ..SwitchModel::default() },
        ..Hardware::default()
    };
    let text = "1 : SELF, ALL_CAS=full; 2 : SELF; 3 : SELF; 4 : SELF;";
    let mut lab = Lab::of(fabric(RECIPE), hardware, with(text));
    lab.bring_up();
    let (port, switch) = host(&lab, "host0");
    assert_eq!((keys(&lab, port), checks(&lab, switch)), (vec![0xFFFF, 0x8001, 2], (false, false)));
    let (port, switch) = host(&lab, "host3");
    assert_eq!((keys(&lab, port), checks(&lab, switch)), (vec![0x7FFF, 0x8001], (true, true)));
    let missing = lab.missing();
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(
        missing.contains(&Missing::NoRoom { name: "host0".to_owned(), keys: 2 }),
        "{missing:?}"
    );
    assert!(
        matches!(&missing[1], Missing::Unchecked { at } if at.starts_with("leaf0/")),
        "{missing:?}"
    );
}

#[test]
fn tables_of_several_blocks() {
    let hardware = Hardware {
        switch: SwitchModel { partition_enforcement_cap: 64, ..SwitchModel::default() },
        ..Hardware::default()
    };
    let text: String = (1..=40).map(|number| format!("{number} : ALL=full;")).collect();
    let config = Config { enforce: Enforce::In, both_keys: true, ..with(&text) };
    let mut lab = Lab::of(fabric(RECIPE), hardware, config);
    lab.bring_up();
    assert_eq!(lab.missing().len(), 4, "switches' own ports have 32 places: {:?}", lab.missing());
    let (port, switch) = host(&lab, "host2");
    for end in [port, switch] {
        let all: Vec<PKey> = (0..64).map(|place| lab.emulator.fabric().p_key(end, place)).collect();
        assert_eq!(all.iter().filter(|key| key.0 != 0).count(), 41, "{all:?}");
        assert_eq!((all[0], all[40]), (PKey(0x7FFF), PKey(0x8028)));
    }
    assert_eq!(checks(&lab, switch), (true, false));
}

#[test]
fn files_are_read_as_opensm_reads_them_or_refused_by_line() {
    let text = "# All of it.\nDefault=0x7fff, ipoib :\n  ALL, SELF=full ; # two\n\nstore , defmember = full : \
                0x1=both , 255,ALL_CAS=limited;\nIP=0x8022, ipoib, mtu=5, rate=7, scope=2, scope=5 : ALL=full,\n\
                mgid=ff12:401b::16, sl=3, Q_Key=0x11\nALL_SWITCHES; store : NONE; 0x1 : ALL_ROUTERS=full;\n";
    let read: Partitions = text.parse().unwrap();
    let written = read.to_string();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines[0], "Default=0x7fff : ALL=limited;");
    // 1 is in the file, so that the partition without a number is another.
    assert_eq!(lines[2], "store=0x0002 : 0x0000000000000001=both;");
    assert_eq!(lines[3], "store=0x0002 : 0x00000000000000ff=full;");
    assert_eq!(lines[6], "IP=0x0022 : ALL_SWITCHES=limited;");
    assert_eq!(read.groups().len(), 5, "{written}");
    assert_eq!(written.parse::<Partitions>().as_ref(), Ok(&read));
    assert!(read.keeps_apart() && !Partitions::default().keeps_apart());
    assert_eq!(Partitions::default().to_string().parse(), Ok(Partitions::default()));
    // As OpenSM takes it: words that are clear from their beginning, and a last statement without its end.
    let short = "Default=0x7fff, ipo : ALL=full;\nstore=0x8001, def=l : ALL_C, SEL=b";
    let long =
        "Default=0x7fff, ipoib : ALL=full;\nstore=0x8001, defmember=limited : ALL_CAS, SELF=both;";
    assert_eq!(short.parse::<Partitions>(), long.parse());
    for (text, told) in [
        ("a=1", "1: `a=1` has no members: expected NAME=KEY : MEMBER=full, ... ;"),
        (
            "a=0x8000 : ;",
            "1: `0x8000` numbers no partition: expected 1 to 0x7fff, 0x8000 more or less",
        ),
        (
            "a=1, ib : ALL;",
            "1: `ib` says nothing of a partition: expected ipoib, indx0, defmember, or what \
          groups have",
        ),
        ("a=1 : ALL,\n 0x2=fill;", "2: `fill` is no membership: expected full, limited or both"),
        (
            "a=1 : AL;",
            "1: `AL` is no member: expected a port's GUID, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS, \
          SELF or NONE",
        ),
        ("a=1, mtu=9 : ALL;", "1: mtu is `9`: expected 1 to 0x5"),
        (
            "a=1 : mgid=fe80::1;",
            "1: `fe80::1` is no group: expected an address such as ff12:401b::16",
        ),
        (
            "a=1, ipoib : mgid=ff12:401b:8001::7, mtu=3;",
            "1: ff12:401b:8001::7 differs from the partition's in \
          mtu, which all its groups of IP have in common",
        ),
        (
            "a=1 : mgid=ff12:401b:8002::7;",
            "1: ff12:401b:8002::7 differs from the partition's in P_Key, which all \
          its groups of IP have in common",
        ),
    ] {
        let error = text.parse::<Partitions>().unwrap_err().to_string();
        assert_eq!(error, told.replace("          ", ""), "{text}");
    }
}
