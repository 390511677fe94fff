//! The mesh under load, tree changes, lost control messages and failures, judged by a checker that knows
//! true time.

mod checker;
mod controller;
mod fake_port;
mod world;

use fake_port::Nature;
use snin_agent_core::{Config, FlowId, HistogramShape};
use snin_protocol::Time;
use snin_protocol::message::Terms;
use world::{Setting, World};

const HOSTS: usize = 4;
const FLOWS: u32 = 2;
const MESSAGES: u64 = 200;

fn setting(seed: u64) -> Setting {
    let rate = 10_000_000_000;
    Setting {
        seed,
        hosts: HOSTS,
        flows: FLOWS,
        trees: 6,
        messages: MESSAGES,
        terms: Terms {
            window: Time::millis(1),
            guard: Time::micros(10),
            clock_error: Time::micros(400),
        },
        skew: Time::micros(3),
        takes_over: None,
        config: Config {
            pairs: 4,
            flows: FLOWS,
            depth: 8,
            piece: 32 << 10,
            mtu: 4096,
            rate,
            clock_error: Some(Time::micros(3)),
            acknowledgement: Time::micros(40),
            stall: Time::millis(5),
            connect: Time::millis(2),
            reconnect: Time::micros(200),
            reconnect_most: Time::millis(2),
            ask_again: Time::millis(2),
            linger: Time::millis(5),
            histogram: Some(HistogramShape { digits: 2, longest: Time::secs(10) }),
            ..Config::default()
        },
        nature: Nature {
            rate,
            path: Time::micros(5),
            path_varies: Time::micros(2),
            acknowledgement: Time::micros(40),
            connect: Time::micros(300),
            connect_fails: 0,
            breaks: 0,
            goes_silent: 0,
        },
        lost: 10,
        control_delay: Time::micros(700),
        disturbance: None,
        most_time: Time::secs(60),
    }
}

/// Runs to the end and checks what must hold at it.
fn run(setting: Setting) -> World {
    let pairs = setting.config.pairs as usize;
    let mut world = World::new(setting);
    world.run();
    for host in 0..HOSTS {
        for flow in 0..FLOWS {
            assert_eq!(world.received(host, FlowId(flow)), MESSAGES);
        }
    }
    assert!(world.most_pairs() <= pairs);
    world.replay();
    world
}

#[test]
fn trees_change_under_load_and_nothing_is_lost_repeated_or_out_of_its_time() {
    let (mut changes, mut evicted) = (0, 0);
    for seed in 0..8 {
        let world = run(setting(seed));
        changes += world.sum(|counters| counters.changes);
        evicted += world.sum(|counters| counters.evicted);
        assert_eq!(world.sum(|counters| counters.broken), 0);
    }
    assert!(changes >= 400, "{changes}");
    assert!(evicted >= 200, "{evicted}");
}

#[test]
fn queue_pairs_break_and_everything_still_arrives_once() {
    let (mut again, mut repeated, mut overruns) = (0, 0, 0);
    for seed in 100..108 {
        let mut setting = setting(seed);
        setting.nature.connect_fails = 50;
        setting.nature.breaks = 5;
        setting.nature.goes_silent = 3;
        setting.disturbance = Some(Time::millis(3));
        let world = run(setting);
        again += world.sum(|counters| counters.again);
        repeated += world.sum(|counters| counters.repeated);
        overruns += world.sum(|counters| counters.overruns);
    }
    assert!(again > 0 && repeated > 0 && overruns > 0, "{again} {repeated} {overruns}");
}

#[test]
fn clocks_far_apart_are_learned_from_the_controller() {
    for seed in 200..203 {
        let mut setting = setting(seed);
        setting.skew = Time::millis(500);
        setting.config.clock_error = None;
        setting.config.ask_time = Time::millis(20);
        let world = run(setting);
        assert_eq!(world.sum(|counters| counters.wrong_clock), 0);
    }
}

#[test]
fn another_controller_takes_over_and_no_grant_of_the_first_outlives_its_promise() {
    for seed in 300..303 {
        let mut setting = setting(seed);
        setting.takes_over = Some(Time::millis(30));
        let world = run(setting);
        assert!(world.sum(|counters| counters.conversations) >= 2 * HOSTS as u64);
    }
}
