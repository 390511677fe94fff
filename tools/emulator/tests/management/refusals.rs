//! Requests that agents refuse, and how they say so (IBA 13.4.7).

use snin_emulator::{Config, SwitchModel};
use snin_fabric::{Lid, Lmc};
use snin_mad::{
    Attribute, AttributeId, Class, GuidInfo, Header, LedInfo, LinearForwarding,
    LinkSpeedWidthPairs, Method, MulticastForwarding, NodeDescription, NodeInfo, PortInfo,
    PortInfoExtended, RandomForwarding, SmInfo, Smp, Status, SwitchInfo, VendorDiag,
    VendorPortInfo,
};

use crate::support::{Answer, Lab};

const OK: u16 = Status::OK.0;
const BAD_VERSION: u16 = Status::BAD_VERSION.0;
const BAD_METHOD: u16 = Status::BAD_METHOD.0;
const BAD_ATTRIBUTE: u16 = Status::BAD_METHOD_ATTRIBUTE.0;
const BAD_VALUE: u16 = Status::BAD_VALUE.0;

/// (node, method, attribute, modifier) -> status.
#[test]
fn every_refusal_has_its_status() {
    let (get, set) = (Method::Get, Method::Set);
    let cases = [
        ("leaf0", get, NodeInfo::ID, 0, OK),
        ("leaf0", get, NodeInfo::ID, 1, BAD_VALUE),
        ("leaf0", set, NodeInfo::ID, 0, BAD_ATTRIBUTE),
        ("leaf0", set, NodeDescription::ID, 0, BAD_ATTRIBUTE),
        ("leaf0", get, SwitchInfo::ID, 0, OK),
        ("leaf0", get, SwitchInfo::ID, 1, BAD_VALUE),
        ("host1", get, SwitchInfo::ID, 0, BAD_ATTRIBUTE),
        ("host1", get, LinearForwarding::ID, 0, BAD_ATTRIBUTE),
        ("host1", get, MulticastForwarding::ID, 0, BAD_ATTRIBUTE),
        ("leaf0", get, RandomForwarding::ID, 0, BAD_ATTRIBUTE),
        ("leaf0", get, LinkSpeedWidthPairs::ID, 0, BAD_ATTRIBUTE),
        ("leaf0", get, PortInfoExtended::ID, 1, BAD_ATTRIBUTE),
        ("leaf0", get, VendorPortInfo::ID, 1, BAD_ATTRIBUTE),
        ("leaf0", get, PortInfo::ID, 4, OK),
        ("leaf0", get, PortInfo::ID, 1 << 31 | 4, OK),
        ("leaf0", get, PortInfo::ID, 5, BAD_VALUE),
        ("leaf0", get, PortInfo::ID, 255, BAD_VALUE),
        ("leaf0", get, PortInfo::ID, 256, BAD_VALUE),
        ("host1", get, PortInfo::ID, 0, OK),
        ("host1", get, PortInfo::ID, 1, OK),
        ("host1", get, PortInfo::ID, 2, BAD_VALUE),
        ("leaf0", get, LedInfo::ID, 4, OK),
        ("leaf0", set, LedInfo::ID, 5, BAD_VALUE),
        ("leaf0", get, VendorDiag::ID, 0, OK),
        ("leaf0", get, VendorDiag::ID, 1, BAD_VALUE),
        ("leaf0", get, GuidInfo::ID, 1, BAD_VALUE),
        ("host1", get, SmInfo::ID, 0, BAD_ATTRIBUTE),
        ("host1", get, AttributeId(0x7777), 0, BAD_ATTRIBUTE),
        ("host1", Method::Send, NodeInfo::ID, 0, BAD_METHOD),
        ("host1", Method::GetTable, NodeInfo::ID, 0, BAD_METHOD),
        ("host1", Method::Unknown(0x7e), NodeInfo::ID, 0, BAD_METHOD),
    ];
    let mut lab = Lab::new("clos:2,2,2");
    for (name, method, attribute, modifier, status) in cases {
        let smp = Smp { method, ..Smp::get(attribute, modifier, lab.route(name)) };
        let answer = lab.ask_mad(smp.mad(), Lid::NONE);
        let answer = answer.unwrap_or_else(|| panic!("{name} {smp:?}: no answer"));
        assert_eq!(answer.status().0, status, "{name} {smp:?}");
        assert!(answer.header().method().is_response());
        // What was asked can be told from the answer.
        assert_eq!(answer.header().attribute(), attribute);
    }
}

#[test]
fn other_versions_are_refused_before_anything_else() {
    let mut lab = Lab::new("clos:2,2,2");
    for (base, version) in [(1, 2), (2, 1), (0, 0)] {
        let mut mad = Smp::get(AttributeId(0x7777), 0, lab.route("leaf0")).mad();
        Header::edit(&mut mad.0).base_version(base).class_version(version);
        let answer = lab.ask_mad(mad, Lid::NONE).expect("an answer");
        assert_eq!(answer.status().0, BAD_VERSION);
    }
}

/// A class that the port does not know.
#[test]
fn other_classes_are_refused() {
    let mut lab = Lab::new("clos:2,2,2");
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 0)]);
    lab.activate("host0", 1);
    for class in [Class::Administration, Class::Device, Class::Unknown(0x30)] {
        let mut mad = Smp::get(NodeInfo::ID, 0, snin_mad::Route::Lid).mad();
        let version = class.version().unwrap_or(1);
        Header::edit(&mut mad.0).class(class).class_version(version);
        let answer = lab.ask_mad(mad, Lid(2)).expect("an answer");
        assert_eq!(answer.status().0, BAD_VERSION, "{class}");
    }
}

/// Unsolicited answers, and traps for a port that is no manager, are not answered in turn.
#[test]
fn answers_are_not_answered() {
    let mut lab = Lab::new("clos:2,2,2");
    for method in [Method::GetResp, Method::Trap, Method::ReportResp, Method::Unknown(0xff)] {
        let smp = Smp { method, ..Smp::get(NodeInfo::ID, 0, lab.route("host1")) };
        assert!(lab.ask_mad(smp.mad(), Lid::NONE).is_none(), "{method}");
    }
    assert_eq!(lab.emulator.stats().nobody, 4);
    assert_eq!(lab.emulator.stats().served, 0);
}

/// Values of PortInfo that a port cannot have, by what kind of port it is.
#[test]
fn port_info_takes_only_what_the_port_can() {
    use snin_mad::port::{LinkSpeeds, LinkSpeedsExt, LinkWidths};
    use snin_mad::{Mtu, VlCount};
    type Change = fn(&mut PortInfo);
    let good: [(&str, u8, Change); 10] = [
        ("host1", 1, |i| (i.lid, i.lmc) = (Lid(0xBF80), Lmc::MAX)),
        ("host1", 1, |i| i.neighbor_mtu = Mtu::B4096),
        ("host1", 1, |i| i.operational_vls = VlCount::Vl0To7),
        ("host1", 1, |i| i.operational_vls = VlCount::NoChange),
        ("leaf0", 1, |i| i.width_enabled = LinkWidths(255)),
        ("leaf0", 1, |i| i.width_enabled = LinkWidths::X1),
        ("leaf0", 1, |i| i.width_enabled = LinkWidths(0)),
        ("leaf0", 1, |i| i.speed_enabled = LinkSpeeds(15)),
        ("leaf0", 0, |i| i.lid = Lid(7)),
        ("leaf0", 1, |i| i.lid = Lid(0xC000)), // Not a register of this port.
    ];
    let bad: [(&str, u8, Change); 11] = [
        ("host1", 1, |i| i.lid = Lid(0xC000)),
        ("host1", 1, |i| i.lid = Lid(0xFFFF)),
        ("host1", 1, |i| (i.lid, i.lmc) = (Lid(0xBFC0), Lmc::MAX)),
        ("host1", 1, |i| i.master_sm_lid = Lid(0xC000)),
        ("host1", 1, |i| i.neighbor_mtu = Mtu::Unknown(6)),
        ("host1", 1, |i| i.neighbor_mtu = Mtu::Unknown(0)),
        ("host1", 1, |i| i.operational_vls = VlCount::Vl0To14),
        ("leaf0", 1, |i| i.width_enabled = LinkWidths::X12),
        ("leaf0", 1, |i| i.speed_enabled = LinkSpeeds(8)),
        ("leaf0", 0, |i| i.lmc = Lmc::MAX),
        ("leaf0", 0, |i| i.link_down_default_state = snin_mad::port::LinkDownState::Unknown(3)),
    ];
    let mut lab = Lab::new("clos:2,2,2");
    for (n, (name, num, change)) in good.into_iter().enumerate() {
        assert_eq!(lab.change_port(name, num, change).status(), Some(Status::OK), "{n}");
    }
    for (n, (name, num, change)) in bad.into_iter().enumerate() {
        assert_eq!(lab.change_port(name, num, change).status(), Some(Status::BAD_VALUE), "{n}");
    }
    let widths = lab.get::<PortInfo>("leaf0", 1).value();
    assert_eq!(widths.width_enabled, LinkWidths::X1, "0 left it");
    assert_eq!((widths.lid, widths.speed_enabled), (Lid(0), widths.speed_supported));
    // Once there is an address, there is no way back to none.
    let none = lab.change_port("host1", 1, |info| (info.lid, info.lmc) = (Lid(0), Lmc::ZERO));
    assert_eq!(none, Answer::Refused(Status::BAD_VALUE));
    // Extended speeds are written by managers that say that they know them (modifier bit 31).
    let mut info: PortInfo = lab.get("leaf0", 1).value();
    info.state = snin_mad::PortState::NoChange;
    info.physical_state = snin_mad::PhysicalState::NoChange;
    let before = info.speed_ext_enabled;
    info.speed_ext_enabled = LinkSpeedsExt(30);
    assert_eq!(lab.set("leaf0", 1, &info).value().speed_ext_enabled, before);
    assert_eq!(lab.set("leaf0", 1 << 31 | 1, &info).value().speed_ext_enabled, LinkSpeedsExt(0));
    info.speed_ext_enabled = LinkSpeedsExt(31);
    assert_eq!(lab.set("leaf0", 1 << 31 | 1, &info).value().speed_ext_enabled, before);
}

/// Switches differ: one without multicast, one with an enhanced port 0, one with a small table.
#[test]
fn switches_differ_in_what_they_can() {
    let topology = Lab::new("clos:2,2,2").topology;
    let [leaf0, leaf1] = ["leaf0", "leaf1"].map(|name| crate::support::node(&topology, name));
    let plain = SwitchModel { multicast_fdb_cap: 0, linear_fdb_cap: 64, ..SwitchModel::default() };
    let enhanced = SwitchModel { enhanced_port0: Some(true), ..SwitchModel::default() };
    let config = Config {
        switches: [(leaf0, plain), (leaf1, enhanced)].into_iter().collect(),
        ..Config::default()
    };
    let mut lab = Lab::of(topology, config);
    let info: SwitchInfo = lab.get("leaf0", 0).value();
    assert_eq!((info.multicast_fdb_cap, info.linear_fdb_cap), (0, 64));
    assert!(!info.enhanced_port_zero);
    let multicast = lab.get::<MulticastForwarding>("leaf0", 0);
    assert_eq!(multicast.status(), Some(Status::BAD_METHOD_ATTRIBUTE));
    lab.get::<MulticastForwarding>("spine0", 0).value();
    let top = snin_mad::port::Capabilities::MULTICAST_FDB_TOP;
    assert!(!lab.get::<PortInfo>("leaf0", 0).value().capabilities.has(top));
    assert!(lab.get::<PortInfo>("leaf1", 0).value().capabilities.has(top));
    assert!(lab.get::<SwitchInfo>("leaf1", 0).value().enhanced_port_zero);
    let lmc = Lmc::new(3).unwrap();
    assert_eq!(lab.address("leaf1", 0, Lid(8), lmc).value().lmc, lmc);
    assert_eq!(lab.address("leaf0", 0, Lid(16), lmc).status(), Some(Status::BAD_VALUE));
}
