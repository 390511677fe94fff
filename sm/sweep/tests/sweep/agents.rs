//! Agents that are slow, traps of the last manager's addresses, and what another manager overwrites.

use snin_emulator::{Config as Hardware, Fault, Health};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lid, Lmc};
use snin_mad::notice::LinkStateDetails;
use snin_mad::{Notice, Smp, Trap};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::LocalPort;
use snin_sweep::{Event, Report};

use crate::support::{Lab, config, fabric};

/// A switch whose agent takes 5 ms for each SMP is not asked so much at once that its answers come too late.
#[test]
fn a_slow_agent_is_asked_no_faster_than_it_answers() {
    let retries = |window_agent: u32| {
        let config = Config { window_agent, ..config(4) };
        let mut lab = Lab::of(fabric("clos:8,8,8"), Hardware::default(), config);
        let agent = lab.node("leaf3");
        lab.strike(Fault::Agent(agent, Health::Slow(Time::millis(5))));
        lab.bring_up();
        lab.check();
        lab.sweep.metrics().retries
    };
    assert_eq!(retries(16), 0);
    assert!(retries(128) > 0);
}

/// After a restart, before addresses are given: a trap from an address that a port holds still.
#[test]
fn a_trap_from_an_address_of_the_last_manager() {
    let mut lab = Lab::new("clos:4,2,4", 1);
    let host = lab.port("host6", 1);
    lab.emulator.address(host, Lid(600), Lmc::ZERO);
    lab.keep_jobs = true;
    lab.start();
    while !lab.has_jobs() {
        lab.run(Time::millis(1));
    }
    for (lid, traps) in [(Lid(600), 1), (Lid(601), 1)] {
        let trap = Trap::LinkStateChange(LinkStateDetails { lid });
        let bytes = Smp::trap().mad().with(&Notice::generic(&trap, 1, lid)).0;
        let now = lab.now();
        lab.sweep.handle(Event::Mad { port: LocalPort(0), source: lid, bytes: &bytes }, now);
        let metrics = lab.sweep.metrics();
        assert_eq!(metrics.traps.values().sum::<u64>(), traps);
        assert_eq!(metrics.dropped.get(&Dropped::UnknownIssuer), (lid != Lid(600)).then_some(&1));
    }
}

/// A node may send any trap: what is counted has as many names as the specification knows traps.
#[test]
fn traps_are_counted_by_the_specifications_numbers_and_others_as_one() {
    let mut lab = Lab::new("clos:4,2,4", 1);
    lab.bring_up();
    let end = lab.port("host6", 1);
    let lid = lab.view().addresses().base(end).unwrap();
    let trap = Trap::LinkStateChange(LinkStateDetails { lid });
    let mut notice = Notice::generic(&trap, 1, lid);
    for (generic, number) in (0..300).map(|n| (false, 1_000 + n)).chain([(true, 77), (true, 128)]) {
        (notice.is_generic, notice.trap_number) = (generic, number);
        let bytes = Smp::trap().mad().with(&notice).0;
        let now = lab.now();
        lab.sweep.handle(Event::Mad { port: LocalPort(0), source: lid, bytes: &bytes }, now);
    }
    let traps = &lab.sweep.metrics().traps;
    assert_eq!(traps.len(), 2, "{traps:?}");
    assert_eq!((traps[&None], traps[&Some(128)]), (301, 1));
}

#[test]
fn what_another_manager_overwrites_is_noticed_and_put_right() {
    let topology = fabric("clos:5,3,3");
    let other = Routing::compute(&topology, Engine::MinHop, Some(Lmc::ZERO)).unwrap();
    let mut lab = Lab::of(topology, Hardware::default(), config(1));
    lab.bring_up();
    lab.run(Time::secs(25));
    lab.settle();
    assert_eq!(lab.sweep.metrics().overwritten, 0);
    // It is gone before anybody could ask it.
    lab.emulator.configure(other.plan.addresses(), &other.tables, Lid(9));
    lab.run(Time::secs(11));
    lab.settle();
    lab.check();
    assert!(lab.reports.iter().any(|report| matches!(report, Report::Overwritten { .. })));
    // One block of one table, however far up.
    let (mut tables, addresses) =
        (lab.emulator.fabric().tables(), lab.emulator.fabric().addresses().unwrap());
    let manager = lab.view().manager();
    let leaf = lab.node("leaf3").index();
    let top = addresses.top();
    tables[leaf].set(top, snin_fabric::PortNum(1));
    lab.emulator.configure(&addresses, &tables, manager);
    lab.run(Time::secs(40));
    lab.settle();
    lab.check();
}
