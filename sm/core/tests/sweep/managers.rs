//! Other subnet managers: one master, and a node that asks is told who that is.

use snin_emulator::{Config as Hardware, Fault, Health};
use snin_fabric::{Guid, Lid, Lmc};
use snin_mad::notice::LinkStateDetails;
use snin_mad::{
    Attribute, DrPath, Mad, Method, Notice, PERMISSIVE, Route, SmInfo, SmState, Smp, TransactionId,
    Trap,
};
use snin_protocol::Time;
use snin_sm_core::{Config, Destination, Dropped, Event, LocalPort, Output, Report};

use crate::lab::{Lab, config, fabric};

const LIGHT: Time = Time::secs(11);

fn other(state: SmState, priority: u8) -> SmInfo {
    SmInfo { guid: Guid(7), priority, state, act_count: 5, ..SmInfo::default() }
}

fn told(lab: &mut Lab) -> Vec<Report> {
    let concerns =
        |report: &Report| matches!(report, Report::State(_) | Report::OtherManager { .. });
    std::mem::take(&mut lab.reports).into_iter().filter(concerns).collect()
}

fn found(state: SmState, priority: u8) -> Report {
    let info = SmInfo { act_count: 0, ..other(state, priority) };
    Report::OtherManager { at: "host5/1".to_owned(), info }
}

#[test]
fn a_newcomer_stands_aside_until_the_master_is_gone() {
    let mut lab = Lab::new("clos:4,2,4", 1);
    let place = lab.port("host5", 1);
    // However little it wants to be master: it is, and the newcomer is not.
    lab.appoint(place, other(SmState::Master, 0));
    lab.bring_up();
    assert_eq!(told(&mut lab), [found(SmState::Master, 0), Report::State(SmState::Standby)]);
    for _ in 0..3 {
        lab.run(LIGHT);
        lab.settle();
    }
    // Nothing is written, and nothing told twice.
    assert_eq!((lab.sweep.metrics().sets(), told(&mut lab).len(), lab.views.len()), (0, 0, 0));
    assert_eq!(lab.sweep.state(), SmState::Standby);

    lab.dismiss();
    lab.run(LIGHT);
    lab.settle();
    lab.check();
    let state = Report::State;
    assert_eq!(told(&mut lab), [state(SmState::Discovering), state(SmState::Master)]);
}

#[test]
fn of_two_masters_the_junior_stands_aside() {
    for (priority, stays) in [(3, true), (5, false)] {
        let mut lab =
            Lab::of(fabric("clos:4,2,4"), Hardware::default(), Config { priority: 4, ..config(1) });
        lab.bring_up();
        assert_eq!(told(&mut lab), [Report::State(SmState::Master)]);
        let place = lab.port("host5", 1);
        // Another subnet was joined to this one: trap 144 tells of its manager's port.
        lab.appoint(place, other(SmState::Master, priority));
        lab.run(LIGHT);
        lab.settle();
        let mut expected = vec![found(SmState::Master, priority)];
        expected.extend((!stays).then_some(Report::State(SmState::Standby)));
        assert_eq!(told(&mut lab), expected);
        // Cut while it stands aside: repaired only by the master.
        let before = lab.sweep.metrics().blocks_written;
        let cable = lab.port("leaf1", 5);
        lab.strike(Fault::Cut(cable));
        lab.run(LIGHT);
        lab.settle();
        assert_eq!(lab.sweep.metrics().blocks_written > before, stays);
    }
}

#[test]
fn a_standby_is_told_of_and_so_is_one_that_rises() {
    let mut lab = Lab::new("clos:4,2,4", 0);
    let place = lab.port("host5", 1);
    lab.appoint(place, other(SmState::Standby, 15));
    lab.bring_up();
    lab.check();
    assert_eq!(told(&mut lab), [found(SmState::Standby, 15), Report::State(SmState::Master)]);
    lab.run(LIGHT);
    lab.settle();
    assert_eq!(told(&mut lab), []);
    lab.other.as_mut().unwrap().1.state = SmState::Master;
    lab.run(LIGHT);
    lab.settle();
    assert_eq!(told(&mut lab), [found(SmState::Master, 15), Report::State(SmState::Standby)]);
}

/// As one does that was killed and whose port says still that a manager sits there.
#[test]
fn a_manager_that_never_answers_is_none() {
    let mut lab = Lab::new("clos:4,2,4", 0);
    let place = lab.port("host5", 1);
    lab.appoint(place, other(SmState::Master, 15));
    let (client, _) = lab.other.take().unwrap();
    let took = lab.bring_up();
    lab.check();
    assert!(took < Time::secs(1), "{took}");
    assert_eq!((told(&mut lab), lab.missing()), (vec![Report::State(SmState::Master)], vec![]));
    lab.emulator.detach(client);
}

#[test]
fn a_node_that_asks_is_told_who_is_master() {
    let mut lab =
        Lab::of(fabric("clos:2,2,2"), Hardware::default(), Config { priority: 9, ..config(0) });
    let path = DrPath::new(&[1, 2]).unwrap();
    let directed = Smp::get(SmInfo::ID, 0, Route::directed(path));
    let by_lid = Smp::get(SmInfo::ID, 0, Route::Lid);
    let ask = |lab: &mut Lab, source: Lid, question: Smp| -> Option<(Destination, Mad)> {
        let bytes = question.transaction(TransactionId(77)).mad().0;
        let event = Event::Mad { port: LocalPort(0), source, bytes: &bytes };
        lab.sweep.handle(event, lab.now());
        match lab.sweep.poll_output() {
            Some(Output::Send { to, mad, .. }) => Some((to, *mad)),
            _ => None,
        }
    };
    assert!(ask(&mut lab, PERMISSIVE, directed).is_none(), "not before it knows itself");
    lab.bring_up();
    let own = lab.topology.port(lab.port("host0", 1)).guid;
    for (source, question, to) in
        [(PERMISSIVE, directed, Destination::Directed), (Lid(4), by_lid, Destination::Lid(Lid(4)))]
    {
        let (answered, mad) = ask(&mut lab, source, question).unwrap();
        assert_eq!(answered, to);
        let header = mad.header();
        assert_eq!(
            (header.method(), header.transaction_id()),
            (Method::GetResp, TransactionId(77))
        );
        assert_eq!(Smp::parse(&mad.0).unwrap().returning, to == Destination::Directed);
        let info: SmInfo = mad.attribute().unwrap();
        assert_eq!((info.guid, info.priority, info.state), (own, 9, SmState::Master));
        assert_eq!(u64::from(info.act_count) + 1, lab.smps());
    }
    assert!(ask(&mut lab, Lid::NONE, by_lid).is_none(), "nobody to answer");
}

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

/// A node may send whatever trap it likes: what is counted has as many names as the specification knows traps.
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
