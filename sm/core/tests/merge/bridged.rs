//! Managers without sessions: the database of one goes to the other in-band, by an address that its port is lent.

use snin_mad::{Class, SmState};
use snin_protocol::Time;
use snin_sm_core::Config;

use crate::killed::kills;
use crate::live::{Live, settings};

fn in_band(n: usize) -> Config {
    Config { in_band: true, mirrored: true, ..settings(n) }
}

/// The same numbers come out as in sessions, and no packet reaches a wrong host on the way.
#[test]
fn a_database_goes_over_in_band() {
    let mut live = Live::with(2, in_band);
    let since = live.subnet.now();
    live.plug(0);
    while live.subnet.seats[0].saved.lineage.subnets.len() < 2 {
        live.subnet.run(Time::millis(1));
        assert!(live.subnet.now() < since + Time::secs(5), "{:?}", live.states());
    }
    println!("joined {} ms after the cable", (live.subnet.now() - since).nanos() / 1_000_000);
    assert_eq!(live.states(), [SmState::Master, SmState::Standby]);
    let south = live.subnet.guid(1);
    let lent = live.subnet.seats[0].saved.lids[&south].0;
    let said = |(by, to, mad): &&(usize, _, snin_mad::Mad)| {
        *by == 0 && *to == lent && mad.header().class() == Class::Managers
    };
    assert!(live.subnet.overheard.iter().filter(said).count() > 3, "at its address {lent}");
    live.settle(0, 2);
    live.judge();
}

#[test]
fn three_subnets_become_one_in_band() {
    for order in [[0, 1], [1, 0]] {
        let mut live = Live::with(3, in_band);
        for joint in order {
            live.plug(joint);
        }
        live.settle(0, 3);
        live.judge();
    }
}

#[test]
fn whenever_a_manager_dies_in_between_it_is_one_subnet_in_the_end() {
    kills(in_band, 200);
}
