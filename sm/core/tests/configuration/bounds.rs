//! What goes wrong for long, or often: the work stays bounded, and each trouble is said in one line.

use std::collections::BTreeSet;

use snin_configuration::{Action, Instruction, Limits, Mode};
use snin_emulator::Fault;
use snin_protocol::Time;

use crate::lab::{Lab, expect, fabric, granted, planned};

/// A fabric with its expected configuration enforced.
fn managed(mode: Mode, limits: Limits) -> Lab {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), limits);
    lab.tell(granted());
    lab.tell(expect(&planned(&topology, mode)));
    lab.start();
    lab.run(Time::secs(3));
    lab
}

#[test]
fn a_port_that_flaps_each_second_is_tested_once_a_flap_and_touches_no_other() {
    const FLAPS: u64 = 60;
    let mut lab = managed(Mode::Test, Limits::default());
    let (said, tests) = (lab.said.len(), lab.manager.configuration().metrics().tests);
    let port = lab.port("leaf1", 1);
    for _ in 0..FLAPS {
        lab.strike(Fault::Bounce(port));
        lab.run(Time::secs(1));
    }
    lab.run(Time::secs(5));
    let after = lab.manager.configuration().metrics().tests;
    let ended = after[0] + after[1] - tests[0] - tests[1];
    assert!((1..=FLAPS).contains(&ended), "{ended}");
    assert!(lab.said[said..].iter().all(|report| report.at == "leaf1/1"), "{:?}", lab.said);
    // A test begins, and ends: two lines, and two more where a failed one has the link disabled.
    assert!(lab.said.len() - said <= 4 * FLAPS as usize, "{}", lab.said.len() - said);
    lab.check_all_but(&BTreeSet::from(["leaf1/1".to_owned()]));
}

#[test]
fn ten_thousand_instructions_at_once_are_few_judgements_and_one_line_a_port() {
    const WRITES: u32 = 2;
    let mut lab = managed(Mode::Enabled, Limits { writes: WRITES, dry_run: false });
    let ports = [1, 2, 3].map(|n| (format!("leaf{n}/2"), lab.place(&format!("leaf{n}"), 2)));
    let before = lab.manager.configuration().metrics().clone();
    for n in 0..10_000 {
        lab.tell(Instruction::Quarantine(ports[n % 3].1, "a storm".to_owned()));
    }
    lab.run(Time::secs(5));
    for (at, _) in &ports {
        let said = lab.said_of(at);
        let quarantines = said.iter().filter(|said| **said == Action::Quarantine).count();
        assert_eq!(quarantines, 1, "{at}: {said:?}");
    }
    let metrics = lab.manager.configuration().metrics();
    assert_eq!(lab.disabled().len(), 3);
    assert!(metrics.judged - before.judged < 100, "{}", metrics.judged - before.judged);
}
