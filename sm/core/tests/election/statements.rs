//! The rules of the election by the numbers of the list that they come from.

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_sm_core::election::{
    Band, Election, Event, Kind, Limits, Message, Output, Priority, State,
};

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
fn statements_12_to_15_the_order_of_managers() {
    let low = Priority::default().with_ports(1, 2);
    let chosen = Priority { chosen: true, ..low };
    let running = Priority { master: true, ..healthy() };
    let preferred = Priority { operator: 9, ..healthy() };
    let more = Priority::default().with_ports(3, 4);
    let order = [low, more, healthy(), preferred, running, chosen];
    assert!(order.is_sorted_by(|a, b| b > a), "{order:?}");
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
    core.handle(from(Kind::Status, 1, State::Master), Time::millis(100));
    assert_eq!(core.next_deadline(), Time::millis(100) + limits.keep_alive);
    core.handle_deadline(core.next_deadline());
    assert_eq!(core.state(), State::Electing);
    assert_eq!(says(&mut core), [(None, Kind::Status)]);
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
    let band = Band { low: 8, high: 10 };
    assert!(band.shown(State::Master) > band.shown(State::Standby));
    assert!(band.alarms(8) && !band.alarms(7));
}
