//! What adapters say of their ports: links are taken away and given back, as by a cable, and the manager's part
//! that waits for that hears it.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_sm::port::changes::Changes;

const ROUNDS: usize = 10;
const QUIET: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}

/// Waits as the manager's loop does until the port has changed.
fn hears(changes: &mut Changes) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if changes.take() {
            return true;
        }
        let Some(readable) = changes.readable() else { return false };
        let rest = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(readable, PollFlags::IN)], Some(&rest)).unwrap();
    }
    false
}

#[test]
#[ignore = "runs in the virtual machine"]
fn statement_08_a_port_says_that_its_link_went_or_came() {
    let [mut own, mut peer, mut other] =
        [("rxe0", 1), ("rxe1", 1), ("rxe0", 2)].map(|(adapter, port)| Changes::of(adapter, port));
    assert!(Changes::of("rxe7", 1).readable().is_none(), "there is no such adapter");
    for changes in [&mut own, &mut peer, &mut other] {
        assert!(changes.readable().is_some());
        changes.take();
    }
    let mut after = Vec::new();
    for round in 0..ROUNDS {
        for state in ["down", "up"] {
            // A link that comes is told of more than once: addresses follow.
            sleep(QUIET);
            let _ = (own.take(), peer.take());
            let begun = Instant::now();
            run("ip", &format!("link set host0 {state}"));
            assert!(hears(&mut own), "round {round}: {state}");
            after.push(begun.elapsed());
            assert!(hears(&mut peer), "round {round}: the other end of the cable, {state}");
        }
    }
    assert!(!other.take(), "another port's changes");
    after.sort_unstable();
    println!(
        "{} links that went and came: known after {:?} (median) and {:?} (most), with the start of `ip`",
        after.len(),
        after[after.len() / 2],
        after[after.len() - 1]
    );
}
