//! A foreign manager, as a script: one master, which is named to each node that asks.

use snin_emulator::Fault;
use snin_fabric::{Guid, Lid};
use snin_mad::notice::LocalChangeDetails;
use snin_mad::{
    Attribute, DrPath, Mad, Method, Notice, PERMISSIVE, Route, SmInfo, SmKey, SmState, Smp, Status,
    TransactionId, Trap,
};
use snin_mastership::Report as MastershipReport;
use snin_mastership::control::Control;
use snin_protocol::Time;
use snin_sm_core::{Event, Output, Report};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sweep::Missing;

use crate::subnet::{Subnet, config, port};

const LIGHT: Time = Time::secs(11);

fn info(state: SmState, priority: u8) -> SmInfo {
    SmInfo { priority, state, act_count: 5, ..SmInfo::default() }
}

/// One manager of priority 4 at host0, and a foreign one at host5.
fn beside(state: SmState, priority: u8) -> Subnet {
    let mut subnet = Subnet::new("clos:4,2,4");
    subnet.seat("host0", config(4));
    subnet.appoint("host5", info(state, priority));
    subnet
}

fn state_of(subnet: &Subnet) -> SmState {
    subnet.seats[0].manager.state()
}

/// What the foreign one was told, in order.
fn controls(subnet: &Subnet) -> Vec<Control> {
    let set = |mad: &&Mad| mad.header().method() == Method::Set;
    let heard = subnet.foreign.iter().flat_map(|foreign| foreign.heard.iter().filter(set));
    heard.filter_map(|mad| Control::of(mad.header().modifier().0)).collect()
}

/// Puts an SMP to our manager; the answer.
fn put(subnet: &mut Subnet, source: Lid, mad: &Mad) -> Option<(Destination, Mad)> {
    let (port, now) = (LocalPort(0), subnet.now());
    let seat = &mut subnet.seats[0];
    seat.manager.handle(Event::Mad { port, source, bytes: &mad.0 }, now);
    let id = mad.header().transaction_id();
    let mut answer = None;
    let mut others = Vec::new();
    while let Some(output) = seat.manager.poll_output() {
        match output {
            Output::Send { to, mad, .. } if mad.header().transaction_id() == id => {
                answer = Some((to, *mad));
            }
            Output::Report(report) => seat.reports.push(report),
            output => others.push(output),
        }
    }
    // What else it wants done is done.
    for output in others {
        if let Output::Send { to, mad, .. } = output {
            let to = if let Destination::Lid(lid) = to { lid } else { PERMISSIVE };
            let (client, now) = (subnet.seats[0].client, subnet.now());
            subnet.emulator.send(client, &mad, to, now);
        }
    }
    answer
}

#[test]
fn a_newcomer_stands_aside_until_the_master_is_gone() {
    // However little it wants to be master: it is, and the newcomer is not.
    let mut subnet = beside(SmState::Master, 0);
    subnet.start(0);
    subnet.run(Time::secs(3));
    assert_eq!(subnet.told(0), [SmState::Standby]);
    for _ in 0..3 {
        subnet.run(LIGHT);
    }
    // Nothing is written.
    assert_eq!((subnet.written.len(), subnet.told(0)), (0, vec![]));
    subnet.dismiss();
    subnet.run(LIGHT);
    subnet.check(0);
    assert_eq!(subnet.told(0), [SmState::Discovering, SmState::Master]);
}

#[test]
fn of_two_masters_the_junior_hands_over() {
    for (priority, stays) in [(3, true), (5, false)] {
        let mut subnet = Subnet::new("clos:4,2,4");
        subnet.seat("host0", config(4));
        subnet.start(0);
        subnet.run(Time::secs(1));
        assert_eq!(subnet.told(0), [SmState::Master]);
        // Another subnet was joined to this one: trap 144 tells of its manager's port.
        subnet.appoint("host5", info(SmState::Master, priority));
        subnet.run(LIGHT);
        let expected = if stays { vec![] } else { vec![SmState::Standby] };
        assert_eq!(subnet.told(0), expected);
        let told = if stays { vec![] } else { vec![Control::Handover] };
        assert_eq!(controls(&subnet), told);
        // Cut while it stands aside: repaired only by the master.
        let (before, cable) = (subnet.now(), port(&subnet.topology, "leaf3", 5));
        subnet.strike(Fault::Cut(cable));
        subnet.run(LIGHT);
        assert_eq!(subnet.writes_by(0, before) > 0, stays);
    }
}

#[test]
fn a_standby_that_goes_before_is_handed_over_to() {
    let mut subnet = beside(SmState::Standby, 15);
    subnet.start(0);
    subnet.run(Time::secs(2));
    // It does not acknowledge, and need not.
    assert_eq!(subnet.told(0), [SmState::Master, SmState::Standby]);
    assert_eq!(controls(&subnet), [Control::Handover]);
    let handover = subnet
        .foreign
        .as_ref()
        .unwrap()
        .heard
        .iter()
        .find(|mad| mad.header().method() == Method::Set);
    let sent: SmInfo = handover.unwrap().attribute().unwrap();
    let own = subnet.guid(0);
    assert_eq!((sent.guid, sent.state, sent.sm_key), (own, SmState::Master, SmKey(1)));
    // It says that it is master, and so it stays.
    subnet.foreign.as_mut().unwrap().info.state = SmState::Master;
    subnet.run(LIGHT);
    assert_eq!((state_of(&subnet), controls(&subnet).len()), (SmState::Standby, 1));
}

/// One of equal priority goes before with the lower GUID.
#[test]
fn of_equal_priorities_the_lower_guid_goes_before() {
    let mut subnet = beside(SmState::Standby, 4);
    let [own, other] = ["host0", "host5"].map(|host| {
        let at = port(&subnet.topology, host, 1);
        subnet.topology.port(at).guid
    });
    subnet.start(0);
    subnet.run(Time::secs(2));
    assert_eq!(state_of(&subnet) == SmState::Master, own < other);
}

/// Mastership is not lost with a HANDOVER that no manager takes.
#[test]
fn a_handover_that_is_refused_changes_nothing() {
    let mut subnet = beside(SmState::Standby, 15);
    let foreign = subnet.foreign.as_mut().unwrap();
    foreign.refuses = true;
    subnet.start(0);
    subnet.run(Time::secs(35));
    subnet.check(0);
    // Now and then it is offered again.
    assert!((2..=5).contains(&controls(&subnet).len()), "{:?}", controls(&subnet));
}

/// As one does that was killed and whose port says still that a manager sits there.
#[test]
fn a_manager_that_never_answers_is_none() {
    let mut subnet = beside(SmState::Master, 15);
    subnet.foreign.as_mut().unwrap().mute = true;
    subnet.start(0);
    subnet.run(Time::secs(2));
    subnet.check(0);
    assert_eq!(subnet.told(0), [SmState::Master]);
}

#[test]
fn silence_of_less_than_a_second_is_no_death() {
    let mut subnet = beside(SmState::Master, 15);
    subnet.start(0);
    subnet.run(Time::secs(2));
    subnet.seats[0].reports.clear();
    subnet.foreign.as_mut().unwrap().mute = true;
    subnet.run(Time::millis(700));
    subnet.foreign.as_mut().unwrap().mute = false;
    subnet.run(Time::secs(10));
    assert_eq!((state_of(&subnet), &subnet.seats[0].reports[..]), (SmState::Standby, &[][..]));
    subnet.foreign.as_mut().unwrap().mute = true;
    subnet.run(Time::millis(1_600));
    assert_ne!(state_of(&subnet), SmState::Standby);
}

/// An answer that is an error says nothing of who is master: it counts as silence.
#[test]
fn an_answer_that_is_an_error_is_silence() {
    let mut subnet = beside(SmState::Master, 15);
    subnet.start(0);
    subnet.run(Time::secs(2));
    assert_eq!(state_of(&subnet), SmState::Standby);
    subnet.foreign.as_mut().unwrap().fails = true;
    subnet.run(Time::secs(5));
    assert_eq!(state_of(&subnet), SmState::Master);
}

/// A master with another SM_Key is not of this subnet: beside it nothing is written.
#[test]
fn beside_a_master_with_another_key_nothing_is_written() {
    let mut subnet = Subnet::new("clos:4,2,4");
    subnet.seat("host0", config(4));
    subnet.start(0);
    subnet.run(Time::secs(1));
    subnet.check(0);
    subnet.appoint("host5", SmInfo { sm_key: SmKey(2), ..info(SmState::Master, 15) });
    subnet.run(Time::secs(2));
    assert_eq!(state_of(&subnet), SmState::Master);
    let missing = subnet.seats[0].manager.missing();
    assert!(matches!(&missing[..], [Missing::Rival { .. }]), "{missing:?}");
    let loud = |report: &Report| {
        matches!(report, Report::Mastership(MastershipReport::ForeignMaster { .. }))
    };
    assert_eq!(subnet.seats[0].reports.iter().filter(|report| loud(report)).count(), 1);
    let (before, cable) = (subnet.now(), port(&subnet.topology, "leaf3", 5));
    subnet.strike(Fault::Cut(cable));
    subnet.run(LIGHT);
    assert_eq!(subnet.writes_by(0, before), 0);
    // It is gone, and what it may have written is read again.
    subnet.dismiss();
    subnet.run(LIGHT);
    subnet.check(0);
}

#[test]
fn whoever_asks_is_told_who_is_master() {
    let mut subnet = Subnet::new("clos:2,2,2");
    subnet.seat("host0", Config { priority: 9, lmc: Some(0), ..config(9) });
    let path = DrPath::new(&[1, 2]).unwrap();
    let directed = Smp::get(SmInfo::ID, 0, Route::directed(path));
    let by_lid = Smp::get(SmInfo::ID, 0, Route::Lid);
    let ask = |subnet: &mut Subnet, source: Lid, question: Smp| {
        put(subnet, source, &question.transaction(TransactionId(77)).mad())
    };
    assert!(ask(&mut subnet, PERMISSIVE, directed).is_none(), "not before it knows itself");
    subnet.start(0);
    subnet.run(Time::secs(1));
    let own = subnet.guid(0);
    for (source, question, to) in
        [(PERMISSIVE, directed, Destination::Directed), (Lid(4), by_lid, Destination::Lid(Lid(4)))]
    {
        let smps = subnet.seats[0].manager.metrics().smps();
        let (answered, mad) = ask(&mut subnet, source, question).unwrap();
        assert_eq!(answered, to);
        assert_eq!(mad.header().method(), Method::GetResp);
        assert_eq!(Smp::parse(&mad.0).unwrap().returning, to == Destination::Directed);
        let info: SmInfo = mad.attribute().unwrap();
        assert_eq!((info.guid, info.priority, info.state), (own, 9, SmState::Master));
        assert_eq!(u64::from(info.act_count), smps);
    }
    assert!(ask(&mut subnet, Lid::NONE, by_lid).is_none(), "nobody to answer");
}

/// The five packets from a master, as a script sends them: taken, or refused with the status for it.
#[test]
fn the_five_packets_are_taken_where_they_are_for() {
    let mut subnet = beside(SmState::Master, 15);
    subnet.start(0);
    subnet.run(Time::secs(1));
    let path = DrPath::new(&[1, 2]).unwrap();
    let tell = |subnet: &mut Subnet, control: u32, key: u64, state: SmState| {
        let guid = subnet.foreign.as_ref().map_or(Guid(9), |foreign| foreign.info.guid);
        let info = SmInfo { guid, sm_key: SmKey(key), state, priority: 15, act_count: 0 };
        let smp = Smp::set(SmInfo::ID, control, Route::directed(path));
        let answer = put(subnet, PERMISSIVE, &smp.transaction(TransactionId(78)).mad().with(&info));
        answer.map(|(_, mad)| (mad.status(), mad.attribute::<SmInfo>().unwrap().state))
    };
    let master = SmState::Master;
    let bad = Some((Status::BAD_VALUE, SmState::Standby));
    assert_eq!(state_of(&subnet), SmState::Standby);
    assert_eq!(tell(&mut subnet, 4, 1, master), bad, "STANDBY is for one that does nothing");
    assert_eq!(tell(&mut subnet, 3, 1, SmState::Standby), bad, "DISABLE is a master's");
    assert_eq!(tell(&mut subnet, 6, 1, master), bad, "there are five");
    assert_eq!(tell(&mut subnet, 3, 2, master), None, "another key is not even answered");
    assert_eq!(tell(&mut subnet, 3, 1, master), Some((Status::OK, SmState::NotActive)));
    let quiet = subnet.seats[0].manager.metrics().smps();
    // It does nothing, even if the master is lost.
    subnet.foreign.as_mut().unwrap().mute = true;
    subnet.run(Time::secs(10));
    assert_eq!(state_of(&subnet), SmState::NotActive);
    assert_eq!(subnet.seats[0].manager.metrics().smps(), quiet);
    assert_eq!(tell(&mut subnet, 1, 1, master).unwrap().0, Status::BAD_VALUE);
    subnet.foreign.as_mut().unwrap().mute = false;
    assert_eq!(tell(&mut subnet, 4, 1, master), Some((Status::OK, SmState::Standby)));
    subnet.run(Time::secs(1));
    assert_eq!(state_of(&subnet), SmState::Standby);
    // Told to look for itself it finds the master again.
    subnet.told(0);
    assert_eq!(tell(&mut subnet, 5, 1, master), Some((Status::OK, SmState::Discovering)));
    subnet.run(Time::secs(1));
    assert_eq!(subnet.told(0), [SmState::Discovering, SmState::Standby]);
    // And then it is to be master. It says so to the old one, as some wait for.
    let before = controls(&subnet).len();
    assert_eq!(tell(&mut subnet, 1, 1, master), Some((Status::OK, SmState::Standby)));
    subnet.foreign.as_mut().unwrap().info.state = SmState::Standby;
    subnet.foreign.as_mut().unwrap().info.priority = 0;
    subnet.run(Time::secs(2));
    subnet.check(0);
    assert_eq!(controls(&subnet)[before..], [Control::Acknowledge]);
    assert_eq!(tell(&mut subnet, 3, 1, master).unwrap().0, Status::BAD_VALUE, "not of a master");
}

/// A standby that goes before its master says so by trap 144, to the address that its port has for it.
#[test]
fn a_standby_that_goes_before_its_master_says_so() {
    let mut subnet = beside(SmState::Master, 0);
    // As OpenSM would: the foreign master gave addresses.
    let routing = snin_fabric::routing::Routing::compute(
        &subnet.topology,
        snin_fabric::routing::Engine::MinHop,
        Some(snin_fabric::Lmc::ZERO),
    );
    let routing = routing.unwrap();
    let at = port(&subnet.topology, "host5", 1);
    let lid = routing.plan.addresses().base(at).unwrap();
    subnet.emulator.configure(routing.plan.addresses(), &routing.tables, lid);
    subnet.start(0);
    subnet.run(Time::secs(7));
    let foreign = subnet.foreign.as_ref().unwrap();
    let traps = foreign.heard.iter().filter(|mad| mad.header().method() == Method::Trap);
    let notices: Vec<Notice> = traps.filter_map(|mad| mad.attribute().ok()).collect();
    let changed = notices.iter().filter(|notice| {
        let trap = notice.trap().unwrap();
        matches!(trap, Some(Trap::LocalChange(change)) if change.sm_priority_change)
    });
    assert!(changed.count() >= 2, "{notices:?}");
}

/// A trap, as `from` sends it to its master: how it was answered.
fn tell(subnet: &mut Subnet, from: Lid, trap: &Trap) -> Option<(Method, Destination)> {
    let mad = Smp::trap().transaction(TransactionId(79)).mad();
    let answer = put(subnet, from, &mad.with(&Notice::generic(trap, 1, from)));
    answer.map(|(to, mad)| (mad.header().method(), to))
}

/// OpenSM says by trap 144 that it goes before the master, and looks at nothing before that was answered: also
/// where the master has handed over by then. Later it is for the other one to answer.
#[test]
fn a_trap_is_answered_by_whom_its_sender_takes_for_the_master() {
    let mut subnet = beside(SmState::Standby, 15);
    let lid = Lid(7);
    let changed = |lid| Trap::LocalChange(LocalChangeDetails { lid, ..Default::default() });
    subnet.start(0);
    subnet.run(Time::secs(2));
    assert_eq!(state_of(&subnet), SmState::Standby);
    let answered = Some((Method::TrapRepress, Destination::Lid(lid)));
    assert_eq!(tell(&mut subnet, lid, &changed(lid)), answered, "it handed over just now");
    subnet.foreign.as_mut().unwrap().info.state = SmState::Master;
    subnet.run(Time::secs(70));
    assert_eq!(tell(&mut subnet, lid, &changed(lid)), None, "another is master for long");
    subnet.dismiss();
    subnet.run(LIGHT);
    assert_eq!(state_of(&subnet), SmState::Master);
    assert_eq!(tell(&mut subnet, lid, &changed(lid)), answered);
    // What it is about is not known: it is answered all the same, and not repeated for ever.
    assert_eq!(tell(&mut subnet, lid, &changed(Lid(0x7777))), answered);
    let strange = Lid(0x7000);
    let to_strange = Some((Method::TrapRepress, Destination::Lid(strange)));
    assert_eq!(tell(&mut subnet, strange, &changed(strange)), to_strange);
}
