//! The fabric carries the cluster's service that consents to what is enforced on it: an etcd member answers a
//! manager only over links that are ACTIVE and routed.

use std::sync::Arc;

use snin_configuration::{Expected, ExpectedPort, ExpectedSwitch, Instruction, Mode};
use snin_emulator::Fault;
use snin_fabric::PortIndex;
use snin_mad::{PhysicalState, SmState};
use snin_mastership::cluster::{CHOSEN, ClusterEvent, Verdict};
use snin_protocol::Time;
use snin_sm_core::Event;
use snin_sm_database::config::Config;

use crate::store::Store;
use crate::subnet::{Subnet, config, port};

/// Hosts with a member of the cluster's service, on leaves of their own.
const MEMBERS: [&str; 3] = ["host4", "host10", "host20"];
/// Disabled by what is expected at first, and by what is expected later.
const SPARES: [&str; 2] = ["host7", "host22"];

fn consented(priority: u8) -> Config {
    Config { cluster: true, ..config(priority) }
}

/// The port at which a host hangs.
fn leaf_port(subnet: &Subnet, host: &str) -> PortIndex {
    subnet.topology.peer(port(&subnet.topology, host, 1)).unwrap()
}

fn expect(subnet: &mut Subnet, n: usize, host: &str, version: u64) {
    let at = leaf_port(subnet, host);
    let switch = subnet.topology.port(at).node;
    let (guid, num) = (subnet.topology.node(switch).guid, subnet.topology.num(at));
    let port = ExpectedPort { mode: Mode::Disabled, ..ExpectedPort::default() };
    let ports = [(num, port)].into_iter().collect();
    let switches =
        [(guid, ExpectedSwitch { name: "leaf".to_owned(), ports })].into_iter().collect();
    let expected = Some(Arc::new(Expected { switches, ..Expected::default() }));
    let now = subnet.now();
    let manager = &mut subnet.seats[n].manager;
    let instruction = Instruction::Expect { expected, forced: false };
    manager.handle(Event::Configuration(Box::new(instruction)), now);
    manager.handle(Event::Cluster(Box::new(ClusterEvent::Version(version))), now);
}

fn is_disabled(subnet: &Subnet, host: &str) -> bool {
    let at = leaf_port(subnet, host);
    subnet.emulator.fabric().port_info(at).physical_state == PhysicalState::Disabled
}

fn verdict(subnet: &Subnet, n: usize) -> Verdict {
    subnet.seats[n].manager.cluster().unwrap().verdict(subnet.now())
}

fn enforces(subnet: &Subnet, n: usize) -> bool {
    subnet.seats[n].manager.configuration().is_enforced(subnet.now())
}

/// Two managers, the first of which goes before; both expect that the first spare is disabled.
fn site() -> Subnet {
    let mut subnet = Subnet::new("clos:6,3,4");
    let members = MEMBERS.map(|host| port(&subnet.topology, host, 1)).to_vec();
    subnet.store = Some((Store::default(), members));
    subnet.seat("host0", consented(5));
    subnet.seat("host13", consented(1));
    for n in 0..2 {
        expect(&mut subnet, n, SPARES[0], 1);
        subnet.start(n);
    }
    subnet
}

fn put(subnet: &mut Subnet, key: &str, value: &str) {
    let (store, _) = subnet.store.as_mut().unwrap();
    store.put(key, value);
}

#[test]
fn the_fabric_carries_what_consents_to_its_configuration() {
    let mut site = site();
    site.run(Time::millis(1));
    assert!(!enforces(&site, 0), "nothing carries the cluster's service yet");
    site.run(Time::secs(12));
    site.check(0);
    assert_eq!(
        (verdict(&site, 0), verdict(&site, 1)),
        (Verdict::Granted, Verdict::Other(site.guid(0)))
    );
    assert!(is_disabled(&site, SPARES[0]));

    // Half of the leaves lose their power, and two of three members with them.
    let leaves = MEMBERS[1..].iter().map(|host| site.topology.port(leaf_port(&site, host)).node);
    let leaves: Vec<_> = leaves.collect();
    for &leaf in &leaves {
        site.strike(Fault::PowerOff(leaf));
    }
    site.run(Time::secs(5));
    assert!(!enforces(&site, 0), "three seconds after the last answer");
    assert!(matches!(verdict(&site, 0), Verdict::Unreachable(_)));
    assert_eq!(site.states()[0], SmState::Master, "mastership stays");

    for &leaf in &leaves {
        site.strike(Fault::PowerOn(leaf));
    }
    site.run(Time::secs(30));
    site.check(0);
    assert_eq!(verdict(&site, 0), Verdict::Granted);
    assert!(enforces(&site, 0));
}

/// What it expects is old, and so is its consent: it asks before it writes, and then stands by.
#[test]
fn statement_02_a_manager_that_stood_still_with_an_old_configuration_writes_nothing() {
    for still in [4, 8, 30] {
        let mut site = site();
        site.run(Time::secs(12));
        assert!(enforces(&site, 0));
        site.stop(0, true);
        let barred = format!("blacklist/{}", site.guid(0));
        put(&mut site, &barred, "it does not answer");
        put(&mut site, "expected", "2");
        expect(&mut site, 1, SPARES[1], 2);
        site.run(Time::secs(still));
        let since = site.now();
        site.stop(0, false);
        site.run(Time::secs(15));
        assert_eq!(site.writes_by(0, since), 0, "after {still} s");
        site.check(1);
        assert!(enforces(&site, 1) && !enforces(&site, 0), "after {still} s");
        assert!(is_disabled(&site, SPARES[1]), "what is expected now");
        assert_eq!(verdict(&site, 0), Verdict::Barred("it does not answer".to_owned()));
    }
}

#[test]
fn statement_03_configuration_is_another_managers_when_the_cluster_says_so() {
    let mut site = site();
    site.run(Time::secs(12));
    let chosen = site.guid(1).to_string();
    put(&mut site, CHOSEN, &chosen);
    site.run(Time::secs(12));
    site.check(1);
    assert_eq!((enforces(&site, 0), enforces(&site, 1)), (false, true));
}
