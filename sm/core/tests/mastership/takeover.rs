//! Taking over with a copy of the dead master's database: ports are told first, then the copy is looked at, and
//! only what is in doubt is read.

use snin_emulator::Fault;
use snin_fabric::lft::BLOCK;
use snin_fabric::{Lid, PortNum};
use snin_mad::Method::{Get, Set};
use snin_mad::{
    Attribute, DrPath, LinearForwarding, MKey, MulticastForwarding, NodeInfo, PERMISSIVE, PortInfo,
    Route, SlToVl, SmState, Smp, SwitchInfo, VlArbitration,
};
use snin_protocol::Time;
use snin_sm_core::Report;
use snin_sm_database::config::Config;
use snin_sm_database::keys::KeyPolicy;
use snin_sm_database::records::Ports;
use snin_sweep::Report as SweepReport;

use crate::mirrored::{assert_equal, blocks, hosts, kept, pair, pair_of, register};
use crate::subnet::{Sent, Subnet, config, node, port};

fn took_over(subnet: &Subnet, n: usize) -> bool {
    subnet.seats[n]
        .reports
        .iter()
        .any(|report| matches!(report, Report::Sweep(SweepReport::TookOver { .. })))
}

/// Runs until a manager has told every port that it is master, 10 s at most.
#[track_caller]
fn until_taken_over(subnet: &mut Subnet, n: usize) {
    let end = subnet.now() + Time::secs(10);
    while !took_over(subnet, n) {
        assert!(subnet.now() < end, "{:?}", subnet.states());
        subnet.run(Time::micros(100));
    }
}

#[test]
fn ports_are_told_before_anything_is_asked_and_tables_are_read_by_samples() {
    let mut two = pair("clos:6,3,4");
    two.kill(0);
    let before = two.seats[1].sent.clone();
    until_taken_over(&mut two, 1);
    let more = |after: &Sent, id, method| {
        after.get(&(id, method)).unwrap_or(&0) - before.get(&(id, method)).unwrap_or(&0)
    };
    let (switches, after) =
        (two.topology.switch_count(), two.seats[1].sent_before.clone().unwrap());
    assert_eq!(more(&after, PortInfo::ID, Set), switches + hosts(&two).len(), "one write a port");
    for read in [NodeInfo::ID, SwitchInfo::ID, LinearForwarding::ID, MulticastForwarding::ID] {
        assert_eq!(more(&after, read, Get), 0, "{read:?} is read before ports are told");
    }
    // Its own port it asks four times a second.
    assert!(more(&after, PortInfo::ID, Get) < 20);
    let master = two.seats[1].manager.view().unwrap().manager();
    for port in two.topology.ports() {
        let info = two.emulator.fabric().port_info(port);
        assert!(info.lid == Lid::NONE || info.master_sm_lid == master, "{info:?}");
    }
    two.run(Time::secs(2));
    two.check(1);
    let verified = &two.seats[1].sent;
    assert_eq!(more(verified, SwitchInfo::ID, Get), switches);
    assert_eq!(more(verified, LinearForwarding::ID, Get), switches, "one block a switch");
    assert_eq!(more(verified, MulticastForwarding::ID, Get), 0);
    assert_eq!(more(verified, NodeInfo::ID, Get), 0);
    assert_eq!(more(verified, LinearForwarding::ID, Set), 0);
    let manager = &two.seats[1].manager;
    assert_eq!(manager.metrics().full_sweeps, 1, "its own, when it began");
}

/// The master is killed in the midst of a repair, at one moment or another: the next one ends
/// what it had begun.
#[test]
fn a_master_that_dies_in_the_midst_of_a_repair_leaves_nothing_undone() {
    for moment in 0..24 {
        let mut two = pair("clos:4,2,4");
        let cable = port(&two.topology, "leaf2", 5);
        two.strike(Fault::Cut(cable));
        two.run(Time::micros(moment * 60));
        two.kill(0);
        // And what happens before the next one notices is of no use to the dead one.
        if moment % 3 == 0 {
            let [a, b] = [("leaf1", 1), ("leaf3", 2)].map(|(at, n)| port(&two.topology, at, n));
            two.strike(Fault::Swap(a, b));
        }
        // A host that seems to be at two places is looked at once more ten seconds later.
        two.run(Time::secs(15));
        let (view, why) = (two.seats[1].manager.view(), two.seats[1].manager.why());
        assert!(view.is_some(), "moment {moment}: {why}");
        two.check(1);
    }
}

/// Where tables of service levels and lanes are managed they are taken to be right too, and none is read; a new
/// master that wants others reads them, and writes its own.
#[test]
fn tables_of_lanes_are_known_too() {
    let tables = |sent: &Sent, method| -> usize {
        let all = [SlToVl::ID, VlArbitration::ID].map(|id| *sent.get(&(id, method)).unwrap_or(&0));
        all.iter().sum()
    };
    for (other, qos) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut two = pair_of("clos:4,2,4", |priority| Config {
            qos,
            granted_sl: if qos { 0 } else { 1 + u8::from(other && priority == 1) },
            qos_high_limit: 3 * u8::from(other && priority == 1),
            qos_sl2vl: [u8::from(other && priority == 1); 16],
            ..config(priority)
        });
        assert!(tables(&two.seats[0].sent, Set) > 100, "{:?}", two.seats[0].sent);
        let before = two.seats[1].sent.clone();
        two.kill(0);
        two.run(Time::secs(20));
        two.check(1);
        let [read, written] =
            [Get, Set].map(|method| tables(&two.seats[1].sent, method) - tables(&before, method));
        assert!(if other { read > 100 && written > 100 } else { (read, written) == (0, 0) });
    }
}

/// A table that came to something else than the copy says is found by samples, in the end.
#[test]
fn a_copy_that_is_wrong_is_found_out() {
    let mut two = pair("clos:4,2,4");
    two.kill(0);
    let switch = node(&two.topology, "spine1");
    let table = LinearForwarding { ports: [PortNum(3); BLOCK] };
    let path = Route::directed(DrPath::new(&[1, 6]).unwrap());
    let mad = Smp::set(LinearForwarding::ID, 0, path).mad().with(&table);
    let (client, now) = (two.seats[0].client, two.now());
    two.emulator.send(client, &mad, PERMISSIVE, now);
    two.run(Time::millis(100));
    assert_eq!(two.emulator.fabric().forwards(switch, Lid(5)), Some(PortNum(3)));
    two.run(Time::secs(20));
    two.check(1);
}

/// The old master stood still, and knows nothing of what its successor was told: it stands by, copies, and only
/// then is master again.
#[test]
fn a_master_that_stood_still_loses_nothing_of_what_its_successor_was_told() {
    let mut two = pair("clos:4,2,4");
    two.stop(0, true);
    two.run(Time::secs(5));
    two.check(1);
    register(&mut two, 1, 4);
    two.run(Time::secs(1));
    let said = kept(&two.seats[1].manager);
    assert_ne!(said, kept(&two.seats[0].manager));
    two.stop(0, false);
    two.run(Time::secs(20));
    two.check(0);
    assert_eq!(kept(&two.seats[0].manager), said);
    assert_equal(&two, 0, 1);
}

/// Killed and started again before any standby noticed, and without its disk: it lets a standby go first that has
/// a copy, and has all from there when it is master again.
#[test]
fn a_master_that_has_lost_its_memory_gets_it_back() {
    let mirrored = |priority| Config { mirrored: true, ..config(priority) };
    for pause in [0, 100, 500, 900, 1_500, 3_000] {
        let mut two = pair_of("clos:4,2,4", mirrored);
        let said = kept(&two.seats[0].manager);
        two.kill(0);
        two.run(Time::millis(pause));
        two.revive(0, mirrored(5), false);
        two.call(0, 1);
        two.call(1, 0);
        two.run(Time::secs(20));
        two.check(0);
        assert_eq!(kept(&two.seats[0].manager), said, "after {pause} ms");
        assert_equal(&two, 0, 1);
    }
}

/// A master without a link is none, though its session lives.
#[test]
fn a_master_whose_port_is_down_is_followed_by_another() {
    let mut two = pair("clos:4,2,4");
    let own = two.seats[0].at;
    two.strike(Fault::Cut(own));
    two.run(Time::secs(5));
    assert_eq!(two.states()[1], SmState::Master);
    register(&mut two, 1, 4);
    let said = kept(&two.seats[1].manager);
    two.strike(Fault::Restore(own));
    two.run(Time::secs(20));
    two.check(0);
    let left = kept(&two.seats[0].manager);
    assert!(said.iter().all(|record| left.contains(record)), "what the successor was told");
}

/// A standby without a link takes nothing over.
#[test]
fn a_standby_whose_port_is_down_is_no_master() {
    let mut two = pair("clos:4,2,4");
    let own = two.seats[1].at;
    two.hang_up(1, 0);
    two.strike(Fault::Cut(own));
    two.run(Time::secs(30));
    assert_eq!(two.states(), [SmState::Master, SmState::Standby]);
    two.strike(Fault::Restore(own));
    two.run(Time::secs(5));
    two.check(0);
}

/// The key that guards a switch.
fn key(two: &Subnet, switch: &str) -> MKey {
    let port = two.topology.port0(node(&two.topology, switch));
    two.emulator.fabric().port_info(port).m_key
}

#[test]
fn the_new_master_changes_the_keys_and_the_old_one_cannot_write() {
    for policy in [KeyPolicy::One, KeyPolicy::PerPort] {
        let keys = Config { m_key_policy: policy, m_key_protect: 1, ..Config::default() };
        let with = |priority| Config {
            m_key_policy: keys.m_key_policy,
            m_key_protect: keys.m_key_protect,
            ..config(priority)
        };
        let mut two = pair_of("clos:4,2,4", with);
        let before = blocks(&two.seats[1].manager);
        let old = key(&two, "leaf0");
        assert_ne!(old, MKey(0));
        two.stop(0, true);
        until_taken_over(&mut two, 1);
        let new = key(&two, "leaf0");
        assert!(new != MKey(0) && new != old, "{policy:?}");
        // What the old one had on its way: as it would have sent it.
        let switch = node(&two.topology, "leaf0");
        let forwards =
            |two: &Subnet| two.emulator.fabric().table(switch).entries().collect::<Vec<_>>();
        let right = forwards(&two);
        let table = LinearForwarding { ports: [PortNum(3); BLOCK] };
        let route = Route::directed(DrPath::new(&[1]).unwrap());
        let mad = Smp::set(LinearForwarding::ID, 0, route).m_key(old).mad().with(&table);
        let (client, now) = (two.seats[0].client, two.now());
        two.emulator.send(client, &mad, PERMISSIVE, now);
        two.run(Time::millis(100));
        assert_eq!(forwards(&two), right, "{policy:?}: an old key wrote");
        two.run(Time::secs(3));
        two.check(1);
        assert_eq!(blocks(&two.seats[1].manager), before);
        // It goes on, stands by and learns what the keys follow from.
        two.told(0);
        two.stop(0, false);
        two.run(Time::secs(20));
        two.check(0);
        assert_eq!(two.told(0), [SmState::Standby, SmState::Master], "{policy:?}");
        let guarded = two.seats[0].manager.database().all::<Ports>().iter();
        assert!(guarded.filter(|(_, p)| p.guid.is_some()).all(|(_, p)| p.info.m_key != old));
    }
}
