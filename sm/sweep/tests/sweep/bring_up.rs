//! A fabric comes up: what it costs, and that it is right.

use snin_emulator::Config as Hardware;
use snin_protocol::Time;
use snin_sm_database::config::Config;

use crate::support::{Lab, config, fabric};

/// What OpenSM sends for the same fabric.
const OPENSM: [(u8, u64, f64); 3] = [(0, 20_360, 0.62), (4, 29_270, 0.72), (5, 37_748, 0.80)];

#[test]
fn a_bring_up_of_648_hosts_asks_little() {
    for (lmc, opensm, most) in OPENSM {
        let mut lab = Lab::new("clos:36,18,18", lmc);
        let took = lab.bring_up();
        lab.check();
        assert_eq!(lab.missing(), []);
        let (smps, by_name) = (lab.smps(), lab.sweep.metrics().by_name());
        let share = smps as f64 / opensm as f64;
        println!("LMC {lmc}: {smps} SMPs, {share:.3} of OpenSM's {opensm}, in {took}: {by_name:?}");
        assert!(share <= most, "LMC {lmc}: {share:.3}");
    }
}

#[test]
fn many_in_flight_take_a_tenth_of_the_time_of_one() {
    let took = |window: u32| {
        let config = Config { window, window_max: window.max(128), ..config(0) };
        let config = if window == 1 { Config { window_max: 1, ..config } } else { config };
        Lab::of(fabric("clos:36,18,18"), Hardware::default(), config).bring_up()
    };
    let (one, many) = (took(1), took(32));
    println!("one in flight: {one}, many: {many}");
    assert!(many * 10 <= one, "{many} against {one}");
}

#[test]
fn small_fabrics_come_up() {
    for recipe in ["clos:2,2,2", "clos:4,2,3,2", "fattree:4", "fattree:6,3", "clos:1,1,1"] {
        for lmc in [0, 2] {
            let mut lab = Lab::new(recipe, lmc);
            lab.bring_up();
            lab.check();
            assert_eq!(lab.missing(), [], "{recipe}");
        }
    }
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut lab = Lab::new("clos:36,18,18", 4);
    lab.bring_up();
    let writes = lab.emulator.stats().writes;
    let now = lab.now();
    lab.sweep.handle(snin_sweep::Event::Resweep, now);
    lab.settle();
    assert_eq!(lab.emulator.stats().writes, writes, "a full sweep writes");
    let said = lab.reports.len();
    lab.run(Time::secs(25));
    assert_eq!(lab.emulator.stats().writes, writes, "a light sweep writes");
    assert_eq!(lab.sweep.metrics().light_sweeps, 2);
    assert!(lab.reports.len() == said, "a light sweep says what it said before");

    let mut lab = lab.restarted(config(4));
    lab.bring_up();
    lab.check();
    assert_eq!(lab.emulator.stats().writes, writes, "a restart writes");
}
