//! Configuration management and port tests, statement by statement: 48 to 74 of the checklist that the project's
//! requirements number; 49 and 50 in `discovery`, 62 in `phases`, counters of 69 in `counted`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_configuration::{
    Configuration, Expected, ExpectedPort, ExpectedSwitch, Instruction, Limits, Mode, Pattern,
    Quality, Tests,
};
use snin_emulator::{Fault, Noise, Write};
use snin_fabric::{Guid, LinkRate, PortNum, Speed, Width};
use snin_mad::{Attribute as _, LinearForwarding, PortInfo};
use snin_protocol::Time;
use snin_sm_database::judgement::{Consent, Judge as _, Judgement, LinkOrder, TestRequest};
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Neighbour, Seen, SeenPort, SeenSwitch};

use crate::lab::{Lab, expect, fabric, granted, managed, planned, quick, swap};

const LEAF: Guid = Guid(0x10);
const HOME: Guid = Guid(0x99);
const AT: Place = (LEAF, PortNum(2));

/// A leaf: the manager's host at port 1, a host at port 2, whose port is as `port` says.
fn seen(port: SeenPort) -> Seen {
    let home = SeenPort { neighbour: Some(host(HOME)), ..up() };
    let leaf = SeenSwitch { name: "leaf0".to_owned(), hops: 1, ports: vec![home, port] };
    Seen { manager: HOME, switches: BTreeMap::from([(LEAF, leaf)]) }
}

fn host(guid: Guid) -> Neighbour {
    Neighbour {
        node_guid: guid,
        port_guid: Guid(guid.0 + 1),
        system_guid: Guid(guid.0 + 2),
        name: format!("host{:x}", guid.0),
        vendor: 7,
        device: 8,
        port: PortNum(1),
        is_switch: false,
    }
}

fn up() -> SeenPort {
    let neighbour = Some(host(Guid(0x20)));
    SeenPort { link: LinkState::Up, active: false, rate: Some(LinkRate::NDR4), neighbour }
}

fn down(link: LinkState) -> SeenPort {
    SeenPort { link, ..SeenPort::default() }
}

fn right() -> Pattern {
    Pattern { node_guid: Some(Guid(0x20)), ..Pattern::default() }
}

fn expected(mode: Mode, tests: Tests) -> Expected {
    let port = ExpectedPort { mode, neighbour: Some(right()), ..ExpectedPort::default() };
    let ports = BTreeMap::from([(AT.1, port)]);
    let leaf = ExpectedSwitch { name: "leaf0".to_owned(), ports };
    Expected { switches: BTreeMap::from([(LEAF, leaf)]), tests }
}

fn core(expected: &Expected) -> Configuration {
    let mut core = Configuration::new(Limits::default());
    core.instruct(granted());
    core.instruct(expect(expected));
    core
}

/// Only what discovery says is judged.
fn by_sight() -> Tests {
    Tests { quality: None, application: None, ..Tests::default() }
}

fn orders(judgement: &Judgement) -> Vec<LinkOrder> {
    judgement.orders.iter().map(|(_, order)| *order).collect()
}

fn state(core: &Configuration) -> (&'static str, String) {
    let status = core.status().next().unwrap();
    (status.state.name(), status.why)
}

#[test]
fn statement_48_a_network_event_or_the_timer_starts_it() {
    // By traps at once.
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    lab.strike(swap(&lab));
    lab.run(Time::millis(500));
    assert_eq!(lab.disabled().len(), 2);
    // Without any by the timer: every trap is lost on the manager's own cable at that moment.
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let home = lab.port("leaf0", 1);
    lab.strike(Fault::CableNoise(home, Noise { drop: 1_000_000, ..Noise::NONE }));
    lab.strike(swap(&lab));
    lab.run(Time::millis(20));
    assert_eq!(lab.disabled().len(), 0);
    lab.strike(Fault::CableNoise(home, Noise::NONE));
    lab.run(Time::secs(5));
    assert_eq!(lab.disabled().len(), 2);
}

#[test]
fn statement_51_a_port_that_comes_up_is_discovered_and_judged() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let judged = lab.manager.configuration().metrics().judged;
    lab.strike(Fault::Bounce(lab.port("leaf1", 1)));
    lab.run(Time::millis(500));
    assert!(lab.manager.configuration().metrics().judged > judged);
    lab.check_all_but(&BTreeSet::new());
}

#[test]
fn statement_52_switches_ports_and_components_are_expected() {
    for (mode, link) in [
        (Mode::Enabled, LinkState::Up),
        (Mode::Test, LinkState::Up),
        (Mode::Disabled, LinkState::Disabled),
    ] {
        let mut core = core(&expected(mode, by_sight()));
        let port = if link == LinkState::Up { up() } else { down(link) };
        let judgement = core.judge(&seen(port), Time::ZERO);
        assert_eq!(judgement, Judgement::default(), "{mode:?}");
    }
}

#[test]
fn statement_53_discovery_goes_from_switch_to_switch_and_ends_at_hosts() {
    let lab = managed("clos:4,2,2", Mode::Enabled);
    let seen = lab.manager.seen();
    assert_eq!(seen.switches.len(), lab.topology.switch_count());
    let behind = seen.switches.values().flat_map(|s| &s.ports).filter_map(|p| p.neighbour.as_ref());
    assert_eq!(behind.count(), 8 + 2 * 8, "hosts once, links between switches from both ends");
}

#[test]
fn statement_54_the_shorter_way_to_a_switch_is_used() {
    let lab = managed("clos:4,2,2", Mode::Enabled);
    let seen = lab.manager.seen();
    let mut hops: Vec<usize> = seen.switches.values().map(|switch| switch.hops).collect();
    hops.sort_unstable();
    assert_eq!(hops, [1, 2, 2, 3, 3, 3]);
}

#[test]
fn statement_55_discovery_is_by_directed_get_of_port_node_and_switch_info() {
    let lab = managed("clos:4,2,2", Mode::Enabled);
    let names = lab.manager.metrics().by_name();
    for wanted in ["Get(NodeInfo)", "Get(PortInfo)", "Get(SwitchInfo)"] {
        assert!(names.iter().any(|(name, count)| name == wanted && *count > 0), "{wanted}");
    }
}

#[test]
fn statement_56_enforcement_takes_consent_that_is_not_too_old() {
    let wrong = seen(SeenPort { neighbour: Some(host(Guid(0x30))), ..up() });
    let expected = expected(Mode::Enabled, by_sight());
    let mut core = Configuration::new(Limits::default());
    core.instruct(expect(&expected));
    assert_eq!(core.judge(&wrong, Time::ZERO), Judgement::default(), "nobody consents");
    let until = Some(Time::secs(1));
    let consent = Consent::Granted { by: "a check".to_owned(), until };
    core.instruct(Instruction::Consent(consent));
    assert!(core.enforces(Time::millis(999)) && !core.enforces(Time::secs(1)));
    assert_eq!(core.judge(&wrong, Time::secs(1)), Judgement::default(), "the check is too old");
    assert_eq!(orders(&core.judge(&wrong, Time::ZERO)), [LinkOrder::Disable]);
    core.handle_deadline(Time::secs(1));
    assert_eq!(core.consent(), &Consent::Absent);
}

#[test]
fn statement_57_without_consent_addresses_and_routes_are_given_all_the_same() {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    lab.tell(expect(&planned(&topology, Mode::Test)));
    lab.strike(swap(&lab));
    lab.run(Time::millis(50));
    lab.start();
    lab.run(Time::secs(2));
    lab.check_all_but(&BTreeSet::new());
    // What is dead is taken out of addresses and routes; what comes back is given both.
    let port = lab.port("leaf3", 2);
    let dead = lab.topology.peer_node(port).unwrap();
    let nodes = |lab: &Lab| lab.manager.view().unwrap().topology().nodes().count();
    let (all, before) = (nodes(&lab), lab.writes.borrow().len());
    lab.strike(Fault::PowerOff(dead));
    lab.run(Time::secs(3));
    assert_eq!(nodes(&lab), all - 1);
    let of_tables = |write: &&Write| write.attribute == LinearForwarding::ID;
    let rewritten: BTreeSet<_> =
        lab.writes.borrow()[before..].iter().filter(of_tables).map(|write| write.node).collect();
    assert_eq!(rewritten.len(), lab.topology.switch_count(), "no route leads to the dead");
    lab.strike(Fault::PowerOn(dead));
    lab.run(Time::secs(3));
    assert_eq!(nodes(&lab), all);
    lab.check_all_but(&BTreeSet::new());
    assert!(lab.disabled().is_empty() && lab.said.is_empty(), "{:?}", lab.said);
}

#[test]
fn statement_58_every_discovered_port_of_a_switch_is_looked_at() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    for n in 1..4 {
        let leaf = format!("leaf{n}");
        lab.tell(Instruction::Quarantine(lab.place(&leaf, 2), String::new()));
    }
    lab.run(Time::secs(1));
    assert_eq!(lab.disabled().len(), 3);
}

#[test]
fn statement_59_a_port_is_disabled_or_enabled_or_tested_or_miswired_in_this_order() {
    let foreign = || SeenPort { neighbour: Some(host(Guid(0x30))), ..up() };
    // (a) To be disabled, with any neighbour.
    let mut a = core(&expected(Mode::Disabled, by_sight()));
    assert_eq!(orders(&a.judge(&seen(foreign()), Time::ZERO)), [LinkOrder::Disable]);
    assert_ne!(state(&a).0, "failed");
    // (b) To be enabled, and nothing else in this turn.
    let mut b = core(&expected(Mode::Enabled, by_sight()));
    let judgement = b.judge(&seen(down(LinkState::Disabled)), Time::ZERO);
    assert_eq!(orders(&judgement), [LinkOrder::Enable]);
    // (c) Tested before it is looked at for miswiring: the test says what is wrong first.
    let mut slow = expected(Mode::Test, by_sight());
    let port = slow.switches.get_mut(&LEAF).unwrap().ports.get_mut(&AT.1).unwrap();
    port.width = Width::new(12);
    let mut c = core(&slow);
    c.judge(&seen(foreign()), Time::ZERO);
    assert!(state(&c).1.starts_with("the link is 4xNDR"), "{}", state(&c).1);
    // (d) Miswired: disabled, and marked with the reason.
    let mut d = core(&expected(Mode::Enabled, by_sight()));
    assert_eq!(orders(&d.judge(&seen(foreign()), Time::ZERO)), [LinkOrder::Disable]);
    assert!(state(&d).1.starts_with("miswired: host30/1 is there, expected "), "{}", state(&d).1);
}

#[test]
fn statement_60_the_physical_state_is_read_and_written() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let before = lab.writes.borrow().len();
    lab.tell(Instruction::Quarantine(lab.place("leaf1", 1), String::new()));
    lab.run(Time::secs(1));
    let to = lab.topology.port(lab.port("leaf1", 1)).node;
    let writes = lab.writes.borrow()[before..].to_vec();
    let links: Vec<_> = writes.iter().filter(|write| write.attribute == PortInfo::ID).collect();
    assert_eq!(links.len(), 1, "{links:?}");
    assert_eq!((links[0].node, links[0].modifier), (to, 1));
}

#[test]
fn statement_61_a_component_is_known_by_any_combination() {
    let (is, other) = (host(Guid(0x20)), host(Guid(0x30)));
    let patterns = [
        Pattern { port_guid: Some(is.port_guid), ..Pattern::default() },
        Pattern { node_guid: Some(is.node_guid), ..Pattern::default() },
        Pattern { system_guid: Some(is.system_guid), ..Pattern::default() },
        Pattern { name: Some("host2*".to_owned()), ..Pattern::default() },
        Pattern {
            name: Some("host*".to_owned()),
            port_guid: Some(is.port_guid),
            ..Pattern::default()
        },
    ];
    for pattern in patterns {
        assert!(pattern.fits(&is) && !pattern.fits(&other), "{pattern}");
    }
    let vendor = Pattern { vendor: Some(9), ..right() };
    assert!(!vendor.fits(&is), "all that is given has to agree");
}

#[test]
fn statement_63_a_port_under_test_has_no_address_and_is_not_active() {
    let topology = fabric("clos:4,2,2");
    let mut expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits::default());
    let place = lab.place("leaf1", 1);
    expected.switches.get_mut(&place.0).unwrap().ports.get_mut(&place.1).unwrap().mode = Mode::Test;
    expected.tests.quality =
        Some(Quality { lasts: Time::secs(1), mads: 10, lost: 0, messages: 0, errors: None });
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::millis(500));
    assert_eq!(lab.state("leaf1/1").0, "testing");
    let port = lab.port("leaf1", 1);
    let host = lab.topology.peer(port).unwrap();
    let info = |lab: &Lab| lab.emulator.fabric().port_info(host);
    assert_eq!((info(&lab).lid.0, info(&lab).state), (0, snin_mad::PortState::Initialize));
    lab.check_all_but(&BTreeSet::from(["leaf1/1".to_owned()]));
    lab.run(Time::secs(1));
    assert_eq!(lab.state("leaf1/1").0, "passed");
    assert_ne!(info(&lab).lid.0, 0);
    lab.check_all_but(&BTreeSet::new());
}

/// A test with everything, fed by hand.
fn tested(tests: Tests) -> Configuration {
    let mut core = core(&expected(Mode::Test, tests));
    let judgement = core.judge(&seen(up()), Time::ZERO);
    assert!(judgement.withheld.contains(&AT), "not used before it has passed");
    core
}

#[test]
fn statement_64_a_test_is_entered_again_and_again_until_it_is_ok_or_failed() {
    let mut core = tested(quick());
    for n in 0..5 {
        assert_eq!(state(&core).0, "testing");
        core.judge(&seen(up()), Time(n));
    }
    assert_eq!(
        core.next_ask(),
        Some((AT, TestRequest::Node)),
        "once, however often it was entered"
    );
    assert_eq!(core.next_ask(), None);
}

#[test]
fn statement_65_the_test_timer_ends_it() {
    let mut core = core(&expected(Mode::Test, quick()));
    let mute = SeenPort { neighbour: None, ..up() };
    core.judge(&seen(mute.clone()), Time::ZERO);
    assert_eq!(core.next_deadline(), Some(Time::secs(2)));
    core.handle_deadline(Time::secs(2));
    assert!(state(&core).1.starts_with("the test timer ran out while waiting for the neighbour"));
    assert_eq!(orders(&core.judge(&seen(mute), Time::secs(2))), [LinkOrder::Disable]);
}

#[test]
fn statement_66_a_port_to_be_tested_is_turned_on() {
    let mut core = core(&expected(Mode::Test, quick()));
    let judgement = core.judge(&seen(down(LinkState::Disabled)), Time::ZERO);
    assert_eq!(orders(&judgement), [LinkOrder::Enable]);
    assert_eq!(state(&core).0, "testing");
}

#[test]
fn statement_67_presence_miswire_quality_application_one_after_the_other() {
    let mut core = core(&expected(Mode::Test, quick()));
    let mut steps = Vec::new();
    core.judge(&seen(down(LinkState::Disabled)), Time::ZERO);
    steps.push(state(&core).1);
    core.judge(&seen(SeenPort { neighbour: None, ..up() }), Time::ZERO);
    steps.push(state(&core).1);
    core.judge(&seen(up()), Time::ZERO);
    let mut now = Time::ZERO;
    while state(&core).0 == "testing" {
        if steps.last() != Some(&state(&core).1) {
            steps.push(state(&core).1);
        }
        match core.next_ask() {
            Some((place, ask)) => core.answered(place, ask, true, now),
            None => {
                now = core.next_deadline().unwrap();
                core.handle_deadline(now);
            }
        }
        if steps.last() != Some(&state(&core).1) && state(&core).0 == "testing" {
            steps.push(state(&core).1);
        }
    }
    assert_eq!(steps, ["link presence", "the neighbour", "link quality", "the application"]);
    assert_eq!(state(&core).0, "passed");
    assert_eq!(now, Time::millis(20), "the link stayed up for as long as it had to");
}

#[test]
fn statement_68_presence_and_miswire_are_judged_without_a_question() {
    let mut core = core(&expected(Mode::Test, by_sight()));
    core.judge(&seen(up()), Time::ZERO);
    assert_eq!((core.next_ask(), state(&core).0), (None, "passed"));
}

#[test]
fn statement_69_the_link_stays_up_and_mads_cross_it_without_loss() {
    let mut core = tested(quick());
    let (place, ask) = core.next_ask().unwrap();
    core.answered(place, ask, false, Time::ZERO);
    assert_eq!(state(&core), ("failed", "1 of 1 MADs were lost".to_owned()));
    let mut core = tested(quick());
    core.judge(&seen(down(LinkState::Down)), Time::millis(1));
    assert_eq!(state(&core), ("failed", "the link went down while it was tested".to_owned()));
    let mut narrow = expected(Mode::Test, quick());
    let port = narrow.switches.get_mut(&LEAF).unwrap().ports.get_mut(&AT.1).unwrap();
    (port.width, port.speed) = (Some(Width::X4), Some(Speed::Ndr));
    let mut core = self::core(&narrow);
    core.judge(&seen(up()), Time::ZERO);
    let rate = "1xNDR".parse().ok();
    core.judge(&seen(SeenPort { rate, ..up() }), Time::millis(1));
    assert_eq!(state(&core).1, "the link is 1xNDR, required 4xNDR");
}

#[test]
fn statement_70_the_answer_of_the_other_end_has_to_be_as_expected() {
    for well in [true, false] {
        let mut core = tested(Tests { quality: None, ..quick() });
        let (place, ask) = core.next_ask().unwrap();
        assert_eq!(ask, TestRequest::Application);
        core.answered(place, ask, well, Time::ZERO);
        assert_eq!(state(&core).0, if well { "passed" } else { "failed" });
    }
}

#[test]
fn statement_71_each_but_presence_may_be_left_out() {
    let foreign = SeenPort { neighbour: Some(host(Guid(0x30))), ..up() };
    let mut core = core(&expected(Mode::Test, Tests { miswire: false, ..by_sight() }));
    core.judge(&seen(foreign), Time::ZERO);
    assert_eq!(state(&core).0, "passed");
    let mut core = tested(Tests { application: None, ..quick() });
    let mut now = Time::ZERO;
    while state(&core).0 == "testing" {
        match core.next_ask() {
            Some((place, ask)) => {
                assert_eq!(ask, TestRequest::Node);
                core.answered(place, ask, true, now);
            }
            None => {
                now = core.next_deadline().unwrap();
                core.handle_deadline(now);
            }
        }
    }
    assert_eq!(state(&core).0, "passed");
}

#[test]
fn statement_72_a_port_that_passes_gets_addresses_and_routes_and_is_active() {
    let lab = managed("clos:4,2,2", Mode::Test);
    assert!(lab.manager.configuration().status().all(|port| port.state.name() == "passed"));
    lab.check_all_but(&BTreeSet::new());
    let addresses = lab.emulator.fabric().addresses().unwrap();
    assert_eq!(addresses.iter().count(), 6 + 8);
}

#[test]
fn statement_73_a_port_that_fails_is_marked_and_disabled() {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    let noise = Noise { drop: 500_000, ..Noise::NONE };
    lab.strike(Fault::CableNoise(lab.port("leaf1", 1), noise));
    lab.tell(granted());
    lab.tell(expect(&planned(&topology, Mode::Test)));
    lab.start();
    lab.run(Time::secs(5));
    assert_eq!(lab.disabled(), BTreeSet::from(["leaf1/1".to_owned()]));
    assert_eq!(lab.state("leaf1/1").0, "failed");
    lab.check_all_but(&lab.disabled());
}

/// The family's claims that are about configuration: expected configuration is confirmed, miswiring is found and
/// corrected, ports are powered by comparison with what was expected.
#[test]
fn statement_74_miswiring_is_detected_and_the_configuration_confirmed() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let expected: Arc<Expected> = lab.manager.configuration().expected().unwrap().clone();
    let differences =
        |lab: &Lab| snin_configuration::differences(&expected, &lab.manager.seen()).len();
    assert_eq!(differences(&lab), 0);
    lab.strike(swap(&lab));
    lab.run(Time::secs(1));
    assert_eq!(differences(&lab), 2);
}
