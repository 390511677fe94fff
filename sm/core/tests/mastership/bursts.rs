//! A manager that stood still with its clock does not know it: what it writes then is bounded.

use snin_emulator::Fault;
use snin_mad::{Attribute, LinearForwarding, Method, SmState};
use snin_protocol::Time;
use snin_sm_core::Event;
use snin_sm_database::config::Config;

use crate::subnet::{Subnet, config, node};

/// The most writes between two looks, and in flight.
const BURST: u32 = 24;
const FLIGHT: u32 = 8;

/// The first is master and has much to write when it stops, and its clock with it; meanwhile the second is master,
/// and goes before it from then on. How many writes the first sends after that.
fn writes_of_the_stale(config: impl Fn(u8) -> Config) -> usize {
    let mut subnet = Subnet::new("clos:8,4,6");
    subnet.seat("host0", config(5));
    subnet.seat("host40", config(1));
    subnet.start(0);
    subnet.run(Time::secs(1));
    subnet.start(1);
    subnet.run(Time::secs(3));
    subnet.check(0);
    // A spine is back: every switch gets other tables.
    let spine = node(&subnet.topology, "spine1");
    subnet.strike(Fault::PowerOff(spine));
    subnet.run(Time::secs(2));
    subnet.strike(Fault::PowerOn(spine));
    let blocks = |subnet: &Subnet| {
        subnet.seats[0].sent.get(&(LinearForwarding::ID, Method::Set)).copied().unwrap_or(0)
    };
    let before = blocks(&subnet);
    while blocks(&subnet) < before + 4 {
        subnet.run(Time::micros(10));
    }
    subnet.freeze(0, Time::secs(5));
    assert_eq!(subnet.states()[1], SmState::Master, "it took over");
    let now = subnet.now();
    subnet.seats[1].manager.handle(Event::Priority(9), now);
    // The new master has much to do, and answers late.
    subnet.stop(1, true);
    subnet.run(Time::millis(200));
    subnet.stop(1, false);
    subnet.run(Time::secs(5));
    subnet.check(1);
    subnet.writes_by(0, now)
}

#[test]
fn one_whose_clock_stood_still_too_writes_no_more_than_a_burst() {
    let bounded = |priority| Config {
        lmc: Some(3),
        burst: BURST,
        window_max: FLIGHT,
        window: FLIGHT,
        ..config(priority)
    };
    let writes = writes_of_the_stale(bounded);
    // What was in flight is sent once more.
    assert!(writes <= (BURST + FLIGHT) as usize, "{writes}");
    // There was more to write.
    let unbounded = |priority| Config { burst: 1_000_000, ..bounded(priority) };
    let all = writes_of_the_stale(unbounded);
    assert!(all > 2 * writes, "{all} and {writes}");
}
