//! Port states: who changes them, at both ends, and what a switch says of it (IBA 7.2.7, 14.2.5.4, 14.2.5.6).

use snin_emulator::Fault;
use snin_mad::port::LinkDownState;
use snin_mad::{PhysicalState, PortInfo, PortState, Status, SwitchInfo};
use snin_protocol::Time;

use crate::support::{Answer, Lab};

/// leaf0 3 - 1 spine0: the cable that is looked at. spine1 leads round it.
const ENDS: [(&str, u8); 2] = [("leaf0", 3), ("spine0", 1)];

fn lab() -> Lab {
    Lab::new("clos:2,2,2")
}

fn states(lab: &Lab) -> [PortState; 2] {
    ENDS.map(|(name, num)| lab.state(name, num))
}

/// Longer than a link trains.
const TRAINED: Time = Time::millis(6);

fn flag(lab: &mut Lab, name: &str) -> bool {
    lab.get::<SwitchInfo>(name, 0).value().port_state_change
}

fn clear(lab: &mut Lab, name: &str) {
    let mut info: SwitchInfo = lab.get(name, 0).value();
    info.port_state_change = true;
    assert!(!lab.set(name, 0, &info).value().port_state_change);
}

/// Every state that a port can be brought to, and every state written there: what it is then.
#[test]
fn the_state_machine() {
    use PortState::{Active, Armed, Down, Initialize, NoChange};
    let reached = [(Initialize, &[][..]), (Armed, &[Armed][..]), (Active, &[Armed, Active][..])];
    for (now, steps) in reached {
        for code in 0..=15 {
            let written = PortState::new(code);
            let mut lab = lab();
            for &step in steps {
                lab.set_state("leaf0", 3, step).value();
            }
            assert_eq!(states(&lab), [now, Initialize]);
            let answer = lab.set_state("leaf0", 3, written);
            let expected = match (now, written) {
                (_, NoChange) => Some([now, Initialize]),
                (_, Down) => Some([Down, Down]),
                (Initialize | Armed, Armed) => Some([Armed, Initialize]),
                (Armed | Active, Active) => Some([Active, Initialize]),
                _ => None,
            };
            match expected {
                Some(states) => {
                    assert_eq!(answer.value().state, states[0], "{now} -> {written}");
                    assert_eq!(self::states(&lab), states, "{now} -> {written}");
                }
                None => {
                    let refused = Answer::Refused(Status::BAD_VALUE);
                    assert_eq!(answer, refused, "{now} -> {written}");
                    assert_eq!(states(&lab), [now, Initialize], "{now} -> {written}");
                }
            }
        }
    }
}

/// What is refused changes nothing, not even what would be allowed by itself.
#[test]
fn a_set_is_taken_as_a_whole_or_not_at_all() {
    let mut lab = lab();
    let before: PortInfo = lab.get("leaf0", 3).value();
    let answer = lab.change_port("leaf0", 3, |info| {
        info.hoq_life = 7;
        info.state = PortState::Active;
    });
    assert_eq!(answer, Answer::Refused(Status::BAD_VALUE));
    assert_eq!(lab.get::<PortInfo>("leaf0", 3).value(), before);
}

#[test]
fn a_link_told_to_come_down_trains_again_at_both_ends() {
    let mut lab = lab();
    lab.activate("leaf0", 3);
    clear(&mut lab, "leaf0");
    clear(&mut lab, "spine0");
    lab.set_state("leaf0", 3, PortState::Down).value();
    assert_eq!(states(&lab), [PortState::Down; 2]);
    // Told to: no change by itself. The other end came down by itself (IBA 14.2.5.4).
    assert_eq!([flag(&mut lab, "leaf0"), flag(&mut lab, "spine0")], [false, true]);
    lab.wait(TRAINED);
    assert_eq!(states(&lab), [PortState::Initialize; 2]);
    // Both came up by themselves.
    assert_eq!([flag(&mut lab, "leaf0"), flag(&mut lab, "spine0")], [true, true]);
    let info: PortInfo = lab.get("leaf0", 3).value();
    assert_eq!(info.physical_state, PhysicalState::LinkUp);
}

#[test]
fn port_state_change_is_set_by_changes_and_cleared_by_writing_it() {
    let mut lab = lab();
    // Setting states is no change; neither was switching on.
    lab.activate("leaf0", 3);
    assert!(!flag(&mut lab, "leaf0"));
    lab.emulator.inject(Fault::Bounce(lab.port("spine0", 1)), Time::ZERO);
    lab.wait(Time::micros(1));
    assert!(flag(&mut lab, "leaf0") && flag(&mut lab, "spine0"));
    assert!(!flag(&mut lab, "leaf1"));
    // Writing 0 leaves it.
    let mut info: SwitchInfo = lab.get("leaf0", 0).value();
    info.port_state_change = false;
    assert!(lab.set("leaf0", 0, &info).value().port_state_change);
    clear(&mut lab, "leaf0");
    assert!(!flag(&mut lab, "leaf0") && flag(&mut lab, "spine0"));
    // Up again is the next change.
    lab.wait(TRAINED);
    assert!(flag(&mut lab, "leaf0"));
}

#[test]
fn a_disabled_port_stays_down_until_it_polls() {
    let mut lab = lab();
    let disabled = PhysicalState::Disabled;
    let info = lab.change_port("leaf0", 3, |info| info.physical_state = disabled).value();
    assert_eq!((info.state, info.physical_state), (PortState::Down, disabled));
    lab.wait(Time::secs(1));
    assert_eq!(states(&lab), [PortState::Down; 2]);
    // Neither can the other end bring it up, nor a state be written.
    let polling = PhysicalState::Polling;
    lab.change_port("spine0", 1, |info| info.physical_state = polling).value();
    lab.wait(TRAINED);
    assert_eq!(states(&lab), [PortState::Down; 2]);
    for state in [PortState::Armed, PortState::Active] {
        assert_eq!(lab.set_state("leaf0", 3, state).status(), Some(Status::BAD_VALUE));
    }
    lab.change_port("leaf0", 3, |info| info.physical_state = polling).value();
    lab.wait(TRAINED);
    assert_eq!(states(&lab), [PortState::Initialize; 2]);
}

#[test]
fn a_sleeping_port_is_woken_but_two_sleep_on() {
    let mut lab = lab();
    let sleep = |info: &mut PortInfo| info.link_down_default_state = LinkDownState::Sleep;
    lab.change_port("leaf0", 3, sleep).value();
    lab.emulator.inject(Fault::Bounce(lab.port("leaf0", 3)), Time::ZERO);
    lab.wait(TRAINED);
    assert_eq!(states(&lab), [PortState::Initialize; 2]);
    lab.change_port("spine0", 1, sleep).value();
    lab.emulator.inject(Fault::Bounce(lab.port("leaf0", 3)), Time::ZERO);
    lab.wait(Time::secs(1));
    assert_eq!(states(&lab), [PortState::Down; 2]);
    lab.change_port("spine0", 1, |info| info.physical_state = PhysicalState::Polling).value();
    lab.wait(TRAINED);
    assert_eq!(states(&lab), [PortState::Initialize; 2]);
}

/// A link that comes down while it trains begins anew: it is not up before its time.
#[test]
fn training_takes_its_time() {
    let mut lab = lab();
    let port = lab.port("leaf0", 3);
    lab.emulator.inject(Fault::Bounce(port), Time::ZERO);
    lab.emulator.inject(Fault::Bounce(port), Time::millis(4));
    lab.emulator.advance(Time::millis(8));
    assert_eq!(states(&lab), [PortState::Down; 2]);
    let info = lab.emulator.fabric().port_info(port);
    assert_eq!(info.physical_state, PhysicalState::Training);
    lab.emulator.advance(Time::millis(9));
    assert_eq!(states(&lab), [PortState::Initialize; 2]);
}

#[test]
fn port_0_is_active_and_stays_so() {
    let mut lab = lab();
    assert_eq!(lab.get::<PortInfo>("leaf0", 0).value().state, PortState::Active);
    for state in [PortState::Down, PortState::Initialize, PortState::Armed] {
        assert_eq!(lab.set_state("leaf0", 0, state).status(), Some(Status::BAD_VALUE));
    }
    lab.set_state("leaf0", 0, PortState::Active).value();
}

/// What [`lenient_port_states`](snin_emulator::Config::lenient_port_states) adds, and nothing else.
#[test]
fn a_lenient_switch_goes_back_to_initialize_and_on_to_active() {
    use PortState::{Active, Armed, Initialize};
    let config = snin_emulator::Config { lenient_port_states: true, ..Default::default() };
    let mut lab = Lab::with("clos:2,2,2", config);
    for state in [Active, Initialize, Armed, Initialize, Active] {
        assert_eq!(lab.set_state("leaf0", 3, state).value().state, state);
        assert_eq!(states(&lab), [state, Initialize], "the other end stays as it is");
    }
    assert!(!flag(&mut lab, "leaf0"), "what a manager writes is no change");
}
