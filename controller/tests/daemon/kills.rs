//! A controller that is killed and started again under load: never two owners of a link, and everything goes on.

use std::io::Write as _;
use std::time::Duration;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::agents::{Agents, within};
use super::process::Controller;
use super::watcher::Watcher;

/// Long windows: the machine may be busy.
const TIMES: &str =
    "window_us = 40000\nlead_us = 4000\nlease = 4\nclock_error_us = 4000\ndrain_us = 1000\n";

/// So many kills at random moments.
fn kill_again_and_again(kills: u64, seed: u64) {
    let mut controller = Controller::of("clos:4,4,2", TIMES);
    let watcher = Watcher::new(controller.topology.clone());
    let agents = Agents::start(watcher, &controller.sessions(), seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for term in 1..=kills {
        agents.send_more(100);
        assert_eq!(controller.status()["term"], term);
        std::thread::sleep(within(Duration::from_millis(120), &mut rng));
        controller.kill();
        controller.start();
        if term % 20 == 0 {
            let count = agents.count();
            let how_far = format!("seed {seed}: {term} kills of {kills}, {count} pieces sent");
            // Progress is for a person who watches; a failure to print it does not matter.
            let _ = writeln!(std::io::stderr().lock(), "{how_far}");
        }
    }
    // Their requests come back by themselves.
    agents.send_more(200);
    let status = controller.until(|status| status["sessions"] == 8);
    assert_eq!(status["counters"]["certificate_failures"], 0);
    assert_eq!(status["counters"]["imposters"], 0);
    let watcher = agents.watcher.clone();
    drop(agents);
    let watcher = watcher.lock().unwrap();
    assert_eq!(
        watcher.clash().map(|(link, one, other)| format!("{link}: {one:?} {other:?}")),
        None
    );
    assert!(watcher.count() as u64 >= 100 * kills);
}

#[test]
fn killed_and_started_again_under_load_no_link_ever_has_two_owners() {
    kill_again_and_again(1, 1);
}

/// Twenty, or as many as one likes to wait for.
#[test]
fn twenty_kills_at_random_moments() {
    let kills = std::env::var("SNIN_KILLS").ok().and_then(|kills| kills.parse().ok());
    kill_again_and_again(kills.unwrap_or(20), 2);
}
