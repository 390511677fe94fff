//! The rules of the election by the numbers of the list that they come from.

use snin_fabric::Guid;
use snin_mastership::election::{
    Band, Election, Event, Kind, Limits, Message, Output, Priority, State,
};
use snin_protocol::election::Ballot;
use snin_protocol::mirror::FromStandby;
use snin_protocol::{Time, codec};

use super::net::{Net, Step, guid, healthy};

fn manager() -> Election {
    let mut core = Election::new(Guid(5), healthy(), Limits::default(), Time::ZERO);
    outputs(&mut core);
    core
}

fn outputs(core: &mut Election) -> Vec<Output> {
    std::iter::from_fn(|| core.poll_output()).collect()
}

fn says(core: &mut Election) -> Vec<(Option<Guid>, Kind)> {
    let said = |output| match output {
        Output::Send { to, message } => Some((to, message.kind)),
        Output::Became(_) => None,
    };
    outputs(core).into_iter().filter_map(said).collect()
}

fn from(kind: Kind, sender: u64, state: State) -> Event {
    let priority = Priority { master: state == State::Master, ..healthy() };
    Event::Message(Message { kind, sender: Guid(sender), state, priority })
}

fn master() -> Election {
    let mut core = manager();
    core.handle_deadline(core.next_deadline());
    outputs(&mut core);
    core
}

fn standby() -> Election {
    let mut core = manager();
    core.handle(from(Kind::Status, 1, State::Master), Time::ZERO);
    outputs(&mut core);
    core
}

#[test]
fn statement_05_every_event_has_its_effect() {
    let effect = |event: Event| {
        let mut core = standby();
        core.handle(event, Time::ZERO);
        core.handle_deadline(Limits::default().settle);
        !says(&mut core).is_empty()
    };
    assert!(effect(from(Kind::Takeover, 9, State::Electing)));
    assert!(effect(Event::Operator(4)) && effect(Event::Chosen(true)));
    assert!(effect(Event::Ports { good: 1, of: 2 }));
}

#[test]
fn statement_06_nothing_is_said_where_nothing_has_changed() {
    let mut core = standby();
    for event in [
        Event::Operator(0),
        Event::Chosen(false),
        Event::Ports { good: 2, of: 2 },
        // One that does not count yet, and what the others say of themselves.
        Event::Ports { good: 1, of: 2 },
        from(Kind::Status, 1, State::Master),
        from(Kind::Status, 1, State::Standby),
        from(Kind::Status, 9, State::Electing),
    ] {
        core.handle(event, Time::ZERO);
        assert_eq!(says(&mut core), [], "{event:?}");
    }
}

#[test]
fn statement_07_the_timer_ends_an_election_and_lets_a_port_count() {
    let mut core = manager();
    core.handle(Event::Ports { good: 1, of: 2 }, Time::ZERO);
    assert_eq!(core.next_deadline(), Limits::default().settle);
    core.handle_deadline(core.next_deadline());
    assert_eq!((core.state(), core.priority().good_ports), (State::Electing, 1));
    core.handle_deadline(core.next_deadline());
    assert_eq!(core.state(), State::Master);
}

#[test]
fn statements_11_35_37_and_38_a_message_says_all_of_its_sender() {
    let mut core = manager();
    core.handle(Event::Operator(7), Time::ZERO);
    let [Output::Send { to: None, message }] = outputs(&mut core)[..] else { panic!("no message") };
    let priority = Priority { operator: 7, ..healthy() };
    let expected =
        Message { kind: Kind::Status, sender: Guid(5), state: State::Electing, priority };
    assert_eq!(message, expected);
    for kind in [Kind::Status, Kind::Takeover, Kind::Cede] {
        let ballot =
            Ballot { to: Some(Guid(9)), at: Guid(6), message: Message { kind, ..message } };
        let frame = codec::encode(&FromStandby::Ballot(ballot)).unwrap();
        let (read, length) = codec::decode::<FromStandby>(&frame).unwrap().unwrap();
        assert_eq!((read, length), (FromStandby::Ballot(ballot), frame.len()));
    }
}

#[test]
fn statements_12_to_15_the_order_of_managers() {
    let low = Priority::default().with_ports(1, 2);
    let chosen = Priority { chosen: true, ..low };
    let running = Priority { master: true, ..healthy() };
    let preferred = Priority { operator: 9, ..healthy() };
    let more = Priority::default().with_ports(3, 4);
    let wider = Priority::default().with_ports(4, 4);
    let order = [low, more, healthy(), preferred, running, wider, chosen];
    assert!(order.is_sorted_by(|a, b| b > a), "{order:?}");
}

/// It has the lower GUID, and was master before (P4).
#[test]
fn statement_15_a_running_master_stays_when_an_equal_one_comes_back() {
    let mut net = Net::new();
    net.calm(Time::secs(3));
    net.step(Step::Crash(0));
    net.calm(Time::secs(6));
    let changes = net.changes;
    assert_eq!(net.masters(), [1]);
    net.step(Step::Start(0));
    net.calm(Time::secs(6));
    assert_eq!((net.masters(), net.changes), (vec![1], changes));
}

#[test]
fn statement_16_a_change_of_priority_is_told() {
    let mut core = standby();
    core.handle(Event::Operator(0), Time::ZERO);
    assert_eq!(says(&mut core), []);
    core.handle(Event::Operator(3), Time::ZERO);
    assert_eq!(says(&mut core), [(None, Kind::Status)]);
}

#[test]
fn statements_17_to_24_what_the_timer_does() {
    let limits = Limits::default();
    let mut core = manager();
    assert_eq!((core.state(), core.next_deadline()), (State::Electing, limits.electing));
    core.handle_deadline(limits.electing);
    assert_eq!(core.state(), State::Master);
    assert_eq!(says(&mut core), [(None, Kind::Status)]);
    core.handle_deadline(core.next_deadline());
    assert_eq!(says(&mut core), [(None, Kind::Status)]);
    assert_eq!(core.next_deadline(), limits.electing + limits.update + limits.update);
    let mut core = standby();
    assert_eq!((core.state(), core.next_deadline()), (State::Standby, limits.keep_alive));
    core.handle(from(Kind::Status, 1, State::Master), Time::millis(100));
    assert_eq!(core.next_deadline(), Time::millis(100) + limits.keep_alive);
    let silent = core.next_deadline();
    core.handle_deadline(silent);
    assert_eq!((core.state(), core.next_deadline()), (State::Electing, silent + limits.electing));
    assert_eq!(says(&mut core), [(None, Kind::Status)]);
}

#[test]
fn statement_25_a_manager_stands_by_when_it_hears_a_master_that_goes_before_it() {
    for (sender, state, then) in [
        (1, State::Master, State::Standby),
        (1, State::Electing, State::Electing),
        (1, State::Standby, State::Electing),
    ] {
        let mut core = manager();
        core.handle(from(Kind::Status, sender, state), Time::ZERO);
        assert_eq!(core.state(), then, "{state:?}");
    }
    let mut core = manager();
    let priority = Priority { master: true, ..Priority::default().with_ports(0, 2) };
    let message = Message { kind: Kind::Status, sender: Guid(1), state: State::Master, priority };
    core.handle(Event::Message(message), Time::ZERO);
    assert_eq!(core.state(), State::Electing, "a master with bad ports goes after it");
}

#[test]
fn statement_40_candidates_compare_themselves() {
    let electing = Limits::default().electing;
    let after = |other: u64| {
        let mut core = manager();
        core.handle(from(Kind::Status, other, State::Electing), Time::ZERO);
        core.next_deadline()
    };
    assert!(after(1) > electing && after(9) < electing);
}

#[test]
fn statement_30_a_standby_that_is_chosen_becomes_master() {
    let mut net = Net::new();
    net.calm(Time::secs(3));
    assert_eq!(net.masters(), [0]);
    net.step(Step::Chosen(2, true));
    net.calm(Time::secs(3));
    assert_eq!(net.masters(), [2]);
}

#[test]
fn statement_41_equal_priorities_differ_by_guid() {
    assert!(healthy().goes_before(guid(0), healthy(), guid(1)));
    assert!(!healthy().goes_before(guid(1), healthy(), guid(0)));
}

#[test]
fn statements_42_to_44_time_outs_are_adjusted_a_bounded_number_of_times() {
    let limits = Limits::default();
    for (other, bound) in [(1, limits.electing.0 * 5 / 2), (9, limits.electing.0 / 8)] {
        let mut core = manager();
        for _ in 0..20 {
            core.handle(from(Kind::Status, other, State::Electing), Time::ZERO);
        }
        assert_eq!(core.next_deadline(), Time(bound));
        // The next election's may be adjusted as often again.
        core.handle(from(Kind::Status, 1, State::Master), Time::ZERO);
        core.handle_deadline(limits.keep_alive);
        for _ in 0..20 {
            core.handle(from(Kind::Status, other, State::Electing), limits.keep_alive);
        }
        assert_eq!(core.next_deadline(), limits.keep_alive + Time(bound));
    }
}

#[test]
fn statement_45_a_master_answers_by_cede_or_takeover() {
    let mut core = master();
    core.handle(from(Kind::Status, 9, State::Master), Time::ZERO);
    assert_eq!(says(&mut core), [(Some(Guid(9)), Kind::Cede)]);
    let priority = Priority { chosen: true, ..healthy() };
    for (state, answer) in [(State::Standby, Some(Kind::Takeover)), (State::Electing, None)] {
        let message = Message { kind: Kind::Status, sender: Guid(9), state, priority };
        core.handle(Event::Message(message), Time::ZERO);
        assert_eq!(says(&mut core), Vec::from_iter(answer.map(|kind| (Some(Guid(9)), kind))));
    }
    // So does a standby that goes before the master that it hears; and then there is an election.
    let mut core = standby();
    let priority = Priority { master: true, ..Priority::default().with_ports(1, 2) };
    let message = Message { kind: Kind::Status, sender: Guid(1), state: State::Master, priority };
    core.handle(Event::Message(message), Time::ZERO);
    assert_eq!(says(&mut core), [(Some(Guid(1)), Kind::Cede), (None, Kind::Status)]);
    assert_eq!(core.state(), State::Electing);
}

#[test]
fn statements_46_and_47_who_obeys_takeover_and_cede() {
    let mut core = master();
    core.handle(from(Kind::Takeover, 9, State::Master), Time::ZERO);
    core.handle(from(Kind::Cede, 9, State::Master), Time::ZERO);
    assert_eq!(core.state(), State::Master, "TAKEOVER is done, CEDE is of one that goes after");
    core.handle(from(Kind::Cede, 1, State::Master), Time::ZERO);
    assert_eq!(core.state(), State::Electing);
    let mut core = standby();
    core.handle(from(Kind::Takeover, 1, State::Master), Time::ZERO);
    assert_eq!(core.state(), State::Standby, "TAKEOVER of one that goes before is old");
    core.handle(from(Kind::Takeover, 9, State::Electing), Time::ZERO);
    assert_eq!(core.state(), State::Electing);
}

#[test]
fn a_flapping_port_moves_nothing() {
    let mut net = Net::new();
    net.calm(Time::secs(3));
    let changes = net.changes;
    for good in [1, 2].into_iter().cycle().take(40) {
        net.step(Step::Ports(0, good));
        net.calm(Time::millis(100));
    }
    assert_eq!((net.masters(), net.changes), (vec![0], changes));
    net.step(Step::Ports(0, 1));
    net.calm(Time::secs(3));
    assert_eq!(net.masters(), [1]);
}

#[test]
fn foreign_managers_see_an_order_that_agrees() {
    let band = Band(8);
    let shown = |state, chosen| band.shown(state, Priority { chosen, ..healthy() });
    assert_eq!(shown(State::Standby, true), shown(State::Electing, false));
    assert!(shown(State::Master, false) > shown(State::Standby, true));
    assert!(shown(State::Master, true) > shown(State::Master, false));
    assert_eq!((7..12).filter_map(|shown| band.read(shown)).count(), 3);
    assert!(band.alarms(8) && !band.alarms(7));
}
