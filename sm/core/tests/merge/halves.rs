//! Two halves of one Clos, each a Clos and a subnet of its own, whose leaves are cabled to the other's spines:
//! what was none for as long as cables were missing is one Clos, whose trees a controller packs connections on.

use snin_emulator::{Config as Hardware, Fault};
use snin_mad::SmState;
use snin_protocol::Time;

use crate::live::named;
use crate::seats::{Subnet, fabric};

#[test]
fn two_halves_of_a_clos_are_one_clos_with_all_its_trees() {
    let topology = fabric("clos:4,4,3");
    let half = |name: &str, split: usize| {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<usize>().unwrap() >= split
    };
    let cross: Vec<_> = topology
        .ports()
        .filter(|&port| {
            let ends =
                [Some(port), topology.peer(port)].map(|end| end.map(|end| topology.port(end).node));
            let [Some(a), Some(b)] = ends else { return false };
            let both = topology.is_switch(a) && topology.is_switch(b) && a < b;
            both && half(&topology.node(a).name, 2) != half(&topology.node(b).name, 2)
        })
        .collect();
    assert_eq!(cross.len(), 8);
    let mut subnet = Subnet::on(topology, Hardware::default());
    cross.iter().for_each(|&port| subnet.strike(Fault::Cut(port)));
    subnet.seat("host0", named(0, "own"));
    subnet.seat("host11", named(1, "own"));
    subnet.call(0, 1);
    subnet.call(1, 0);
    for n in 0..2 {
        subnet.run(Time::millis(7));
        subnet.start(n);
    }
    subnet.run(Time::secs(2));
    assert_eq!(subnet.states(), [SmState::Master; 2]);
    let trees = |subnet: &Subnet, n: usize| {
        let view = subnet.seats[n].manager.view().unwrap();
        (view.routing().shape.is_ok(), view.routing().forest.len())
    };
    assert_eq!([0, 1].map(|n| trees(&subnet, n)), [(true, 2); 2]);
    cross.iter().for_each(|&port| subnet.strike(Fault::Restore(port)));
    subnet.run(Time::secs(10));
    assert_eq!(subnet.states(), [SmState::Master, SmState::Standby]);
    assert_eq!(trees(&subnet, 0), (true, 4));
    assert!(subnet.seats[0].manager.view().unwrap().unusable().is_empty());
    subnet.check(0);
}
