//! A manager that only reads, beside one that keeps the subnet: what it sends, what it publishes, and when it
//! pauses.

mod subnet;

use snin_emulator::{Fault, Health};
use snin_fabric::routing::Engine;
use snin_fabric::{Lid, NodeIndex, PortNum};
use snin_mad::sa::{ComponentMask, SaNotice, SaRequest};
use snin_mad::{Gid, GidPrefix, Inner, MKey, Mad, Method, Notice, Trap};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use subnet::Subnet;

const RECIPE: &str = "clos:8,4,4";
const KEY: u64 = 0x0123_4567_89AB_CDEF;

fn kept() -> Config {
    Config { lmc: Some(2), ..Config::default() }
}

/// The tables that are published are those that the switches hold.
#[track_caller]
fn assert_read(subnet: &Subnet) {
    let (view, topology) = (&subnet.reader.views.last().unwrap().1, &subnet.topology);
    for switch in view.topology().switches() {
        let guid = view.topology().node(switch).guid;
        let own = topology.switches().find(|&own| topology.node(own).guid == guid).unwrap();
        let held = subnet.emulator.fabric().table(own);
        let read = &view.routing().tables[switch.index()];
        assert!(held.iter().eq(read.iter()), "{}", topology.node(own).name);
    }
}

#[test]
fn it_reads_all_and_writes_nothing() {
    let mut subnet = Subnet::new(RECIPE, kept(), Config::default());
    let writes = subnet.emulator.stats().writes;
    subnet.begin();
    subnet.run(Time::secs(3));
    let reader = &subnet.reader;
    assert_eq!(reader.named(), Vec::<String>::new());
    let view = &reader.views.last().unwrap().1;
    assert_eq!((view.routing().engine, reader.is_paused()), (Engine::Found, false));
    assert_eq!(view.routing().hosts.len(), 32);
    assert_read(&subnet);
    // Gets alone; no more in any second than it may send.
    assert_eq!(subnet.reader.smps.keys().copied().collect::<Vec<_>>(), [Method::Get.code()]);
    let times = &subnet.reader.smps[&Method::Get.code()];
    let most = Config::default().read_smps as usize;
    let begin = |at: usize| times.partition_point(|&time| time + Time::secs(1) <= times[at]);
    let densest = (0..times.len()).map(|at| at + 1 - begin(at)).max().unwrap();
    assert!(densest <= most + most / 50, "{densest} in a second");
    assert_eq!(subnet.emulator.stats().writes, writes);
    // The kept manager does not take it for a manager.
    assert!(subnet.kept.core.manager().noticed().1.is_empty());
}

#[test]
fn the_kept_manager_reports_a_cut_and_nothing_is_granted_until_it_is_read_twice() {
    // Looks at trunks are rarer than the cut, and readings rarer still: only the report tells of it in time.
    let mut subnet =
        Subnet::new(RECIPE, kept(), Config { sweep_interval_s: 600, ..Config::default() });
    subnet.begin();
    subnet.run(Time::secs(3));
    let kept_at = subnet.kept.core.view().unwrap().manager();
    assert_eq!(subnet.reader.core.master_sm(), Some((kept_at, true)));
    let before = subnet.reader.views.len();
    let begin = subnet.emulator.now();
    subnet.strike(Fault::Cut(subnet.port("leaf1", 5)));
    subnet.run(Time::secs(3));
    let (paused, view) = &subnet.reader.views[before];
    let leaves = view.routing().shape.as_ref().unwrap().leaves.len();
    assert_eq!(view.unusable().len(), leaves * view.routing().forest.len(), "it pauses first");
    assert!(*paused - begin < Time::millis(30), "{}", *paused - begin);
    assert!(!subnet.reader.is_paused());
    assert_read(&subnet);
    assert!(subnet.reader.core.metrics().reports > 0);
    let report = Method::ReportResp.code();
    assert!(subnet.reader.administration[&report] > 0);
    // The kept manager waits for no answer that never comes.
    assert_eq!(subnet.kept.core.manager().administration().reports_given_up, 0);
    let views = subnet.reader.views.len();
    subnet.strike(Fault::Restore(subnet.port("leaf1", 5)));
    subnet.run(Time::secs(4));
    assert!(subnet.reader.views.len() > views && !subnet.reader.is_paused());
    assert_read(&subnet);
}

fn report(trap: &Trap, from: Lid) -> Mad {
    let notice = Notice::generic(trap, 2, from);
    let issuer_gid = Gid::new(GidPrefix(0xFE80_0000_0000_0000), snin_fabric::Guid(1));
    let notice = SaNotice { notice: Inner::of(&notice), issuer_gid };
    SaRequest::new(Method::Report, &notice, ComponentMask(0)).transaction(7).mad()
}

#[test]
fn reports_of_strangers_are_dropped_and_a_flood_of_them_delays_nothing() {
    let mut subnet = Subnet::new(RECIPE, kept(), Config::default());
    subnet.begin();
    subnet.run(Time::secs(3));
    let switch = subnet.port("leaf2", 0);
    let lid = subnet.emulator.fabric().port_info(switch).lid;
    let details = snin_mad::notice::LinkStateDetails { lid };
    let mad = report(&Trap::LinkStateChange(details), lid);
    let gets = subnet.reader.sent(Method::Get);
    let kept_at = subnet.kept.core.view().unwrap().manager();
    let other = Lid(kept_at.0 + 1);
    subnet.tell(other, &mad);
    assert_eq!(subnet.reader.core.metrics().reports, 0);
    for _ in 0..10_000 {
        subnet.tell(kept_at, &mad);
        subnet.tell(kept_at, &Mad([0xFF; 256]));
        subnet.run(Time::micros(100));
    }
    assert_eq!(subnet.reader.core.metrics().reports, 10_000);
    // A second of it: as many SMPs as may be sent, and nothing is paused for what did not change.
    let sent = subnet.reader.sent(Method::Get) - gets;
    assert!(sent < 2 * Config::default().read_smps as usize, "{sent}");
    subnet.run(Time::secs(1));
    assert!(!subnet.reader.is_paused());
}

/// Tables that change while they are read are granted on only once two readings agree.
#[test]
fn tables_that_change_while_they_are_read_are_not_granted_on() {
    let mut subnet =
        Subnet::new(RECIPE, kept(), Config { sweep_interval_s: 1, ..Config::default() });
    subnet.begin();
    subnet.run(Time::secs(3));
    subnet.freeze();
    // Every 40 ms another entry of one switch is wrong: no two readings are alike.
    let named = |&node: &NodeIndex| &*subnet.topology.node(node).name == "spine1";
    let spine = subnet.topology.switches().find(named).unwrap();
    let hosts = subnet.kept.core.view().unwrap().clone();
    let hosts =
        hosts.routing().hosts.iter().filter_map(|(_, host)| hosts.addresses().base(host.port));
    // Not the kept manager's own, by whose port the entries are written.
    let lids: Vec<Lid> = hosts.skip(1).collect();
    let published = subnet.reader.views.len();
    for (changes, lid) in lids.into_iter().enumerate() {
        mislead(&mut subnet, spine, lid);
        subnet.run(Time::millis(40));
        for (_, view) in &subnet.reader.views[published..] {
            let leaves = view.routing().shape.as_ref().unwrap().leaves.len();
            let all = leaves * view.routing().forest.len();
            assert_eq!(view.unusable().len(), all, "after {changes} changes");
        }
    }
    assert!(subnet.reader.is_paused());
    // They stay as they are: what leads there is granted, and what was misled is no choice.
    subnet.run(Time::secs(3));
    assert!(!subnet.reader.is_paused());
    assert_read(&subnet);
}

/// The switch sends what is for an address by another port from now on.
fn mislead(subnet: &mut Subnet, switch: NodeIndex, lid: Lid) {
    let now = subnet.emulator.fabric().table(switch).get(lid);
    let other = (1..=8).map(PortNum).find(|&port| port != now).unwrap();
    subnet.write_entry(switch, lid, other);
}

/// What hides behind keys is named, and nothing behind it is granted; with the key all is read.
#[test]
fn ports_that_answer_only_to_a_key_are_named() {
    for (level, key, whole) in [(1, 0, true), (2, 0, false), (2, KEY, true), (3, 0, false)] {
        let kept = Config { m_key: KEY, m_key_protect: level, m_key_lease_s: 60, ..kept() };
        let reader = Config { m_key: key, ..Config::default() };
        let mut subnet = Subnet::new("clos:4,2,2", kept, reader);
        let writes = subnet.emulator.stats().writes;
        subnet.begin();
        subnet.run(Time::secs(20));
        let hosts = subnet.reader.views.last().map(|(_, view)| view.routing().hosts.len());
        let named = subnet.reader.named();
        assert_eq!(named.is_empty(), whole, "level {level}: {named:?}");
        assert!(named.iter().all(|line| line.contains("set m_key to it")), "{named:?}");
        assert_eq!(hosts == Some(8), whole, "level {level}, key {key:x}: {hosts:?}");
        assert_eq!(subnet.emulator.stats().writes, writes);
    }
}

/// One switch that hides is named, and what hangs on the others is granted.
#[test]
fn a_switch_that_hides_is_named_and_the_rest_is_read() {
    let mut subnet = Subnet::new(RECIPE, kept(), Config::default());
    let hidden = subnet.port("leaf3", 0);
    subnet.emulator.protect(hidden, MKey(KEY), 2, 0);
    subnet.begin();
    subnet.run(Time::secs(5));
    let named = subnet.reader.named();
    assert_eq!(named.len(), 4, "one for each cable to it: {named:?}");
    assert!(named.iter().all(|line| line.starts_with("nobody answers behind spine")), "{named:?}");
    let view = &subnet.reader.views.last().unwrap().1;
    assert_eq!((view.routing().hosts.len(), subnet.reader.is_paused()), (28, false));
}

/// A switch that falls silent while its table is read is named; what it told of it is not granted on, nor are
/// hosts behind it.
#[test]
fn a_table_that_is_half_read_is_not_granted_on() {
    // Four blocks a table.
    let kept = Config { lmc: Some(3), ..Config::default() };
    let mut subnet = Subnet::new(RECIPE, kept, Config::default());
    let spine = subnet.port("spine1", 0);
    let spine = subnet.topology.port(spine).node;
    subnet.begin();
    // Readings of about 0.25 s: in the midst of the first.
    subnet.run(Time::millis(120));
    assert_eq!(subnet.reader.views.len(), 0);
    subnet.strike(Fault::Agent(spine, Health::Dead));
    subnet.run(Time::secs(20));
    let named = subnet.reader.named();
    assert!(named.iter().any(|line| line.contains("spine1") || line.contains("leaf")), "{named:?}");
    let view = &subnet.reader.views.last().unwrap().1;
    let switches: Vec<&str> =
        view.topology().switches().map(|node| &*view.topology().node(node).name).collect();
    assert!(!switches.contains(&"spine1"), "{switches:?}");
    let usable = view.routing().forest.trees().iter().filter(|tree| {
        let leaves = &view.routing().shape.as_ref().unwrap().leaves;
        leaves.iter().any(|&leaf| !view.unusable().contains(&(leaf, tree.id)))
    });
    assert_eq!((usable.count(), subnet.reader.is_paused()), (3, false));
}

/// 648 hosts, 54 switches: how long until they may be granted on, by the number of their addresses.
#[test]
#[allow(clippy::disallowed_macros, reason = "what is measured is printed")]
fn large_fabrics_are_read_within_seconds() {
    for (lmc, most) in [(0, 8), (4, 30)] {
        let kept = Config { lmc: Some(lmc), ..Config::default() };
        let mut subnet =
            Subnet::with_time("clos:36,18,18", kept, Config::default(), Time::secs(20));
        let begin = subnet.emulator.now();
        subnet.begin();
        subnet.run(Time::secs(most));
        let Some((at, view)) = subnet.reader.views.first() else { panic!("nothing is read") };
        assert_eq!(view.routing().hosts.len(), 648);
        let gets = subnet.reader.sent(Method::Get);
        println!("648 hosts, LMC {lmc}: granted on after {}; {gets} Gets in {most} s", *at - begin);
    }
}
