//! Messages, changes of tree, meshes that come and go.

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;
use std::time::{Duration, Instant};

use snin_agent::Agent;
use snin_agent::replay::Replaying;
use snin_agent_core::{Notice, PairState};
use snin_daemon::replay::replay;
use snin_fabric::Guid;

use crate::controller::Controller;
use crate::host::{Receiver, message, settings, texts, until};
use crate::quiet;

const PATIENCE: Duration = Duration::from_secs(60);

/// As many as `name` says, or else so many.
fn size(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Says how far a long run is, in twenty steps.
struct Progress {
    began: Instant,
    said: u64,
}

impl Progress {
    fn begin() -> Self {
        Self { began: Instant::now(), said: 0 }
    }

    fn reached(&mut self, done: u64, all: u64, what: &str) {
        let step = done * 20 / all;
        if all > 200 && step > self.said {
            self.said = step;
            println!("{done} of {all} {what} after {} s", self.began.elapsed().as_secs());
        }
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn messages_of_every_length_arrive_once_and_in_order() {
    let controller = Controller::start(1);
    for mode in ["rc", "ud"] {
        let all = settings(2, Some(controller.address), &format!("mode = \"{mode}\"\n"));
        let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
        let mut flow = agents[0].connect(Guid(2)).unwrap();
        let lengths: &[usize] =
            if mode == "rc" { &[8, 9, 172, 173, 4096, 16_384] } else { &[8, 900] };
        let mut number = 0;
        for tree in 0..4 {
            controller.use_tree(tree);
            if tree > 0 {
                until("the change", PATIENCE, || {
                    let flow = agents[0].snapshot(None).unwrap().flows[0];
                    flow.current.is_some_and(|grant| grant.tree.0 == tree)
                });
            }
            for &length in lengths {
                let bytes = message(number, length);
                flow.send(&bytes).unwrap();
                let came = agents[1].recv_timeout(PATIENCE).unwrap();
                assert_eq!((came.peer(), came.number()), (Guid(1), number));
                assert_eq!(came[..], bytes[..], "{mode}, {length} bytes");
                number += 1;
            }
            flow.send(b"").unwrap();
            assert!(agents[1].recv_timeout(PATIENCE).unwrap().is_empty());
            number += 1;
            flow.flush(PATIENCE).unwrap();
        }
        let too_long = flow.try_send(&vec![0; 20_000]).unwrap_err().to_string();
        assert!(too_long.contains("a message of 20000 bytes, but "), "{too_long}");
        let seen = agents[0].snapshot(Some(flow.id())).unwrap();
        assert_eq!(seen.latency.unwrap().len(), number);
        assert_eq!(seen.pairs.len(), 4, "one a tree: {:?}", seen.pairs);
        assert!(seen.counters.changes >= 3, "{:?}", seen.counters);
        assert_eq!((seen.counters.broken, seen.counters.again), (0, 0));
        assert_eq!(agents[0].connect(Guid(99)).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn changes_of_tree_under_load_lose_repeat_and_reorder_nothing() {
    let changes = size("SNIN_CHANGES", 200);
    let controller = Controller::start(1);
    let all = settings(2, Some(controller.address), "");
    let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
    let mut flow = agents[0].connect(Guid(2)).unwrap();
    let mut receiver = Receiver::default();
    flow.send(&message(0, 64)).unwrap();
    while !receiver.wait(&agents[1]) {}
    // The longest latency of each period, in microseconds: every second one has a change.
    let mut worst: [Vec<i64>; 2] = [Vec::new(), Vec::new()];
    let mut progress = Progress::begin();
    let mut times = VecDeque::new();
    let (mut sent, mut made) = (1_u64, 0);
    let (mut period, mut began, mut longest) = (0, Instant::now(), Duration::ZERO);
    let deadline = Instant::now() + PATIENCE + Duration::from_millis(500) * changes as u32;
    while made < changes || receiver.total < sent {
        assert!(Instant::now() < deadline, "{made} changes, {sent} sent, {} came", receiver.total);
        let is_over = made < changes && began.elapsed() > Duration::from_millis(20);
        // The next change when the last one is made.
        if is_over && agents[0].snapshot(None).unwrap().counters.changes >= made {
            worst[period % 2].push(longest.as_micros() as i64);
            period += 1;
            if period % 2 == 1 {
                made += 1;
                controller.use_tree((made % 4) as u16);
                progress.reached(made, changes, "changes of tree");
            }
            (began, longest) = (Instant::now(), Duration::ZERO);
        }
        // A few under way at all times.
        while made < changes && flow.waiting() < 4 && flow.try_send(&message(sent, 64)).is_ok() {
            times.push_back(Instant::now());
            sent += 1;
        }
        // All may have come before it is known that more can be sent.
        if receiver.wait_for(Duration::from_millis(1), &agents[1]) {
            longest = longest.max(times.pop_front().unwrap().elapsed());
        }
    }
    flow.flush(PATIENCE).unwrap();
    let seen = agents[0].snapshot(None).unwrap();
    let other = agents[1].snapshot(None).unwrap().counters;
    assert!(seen.counters.changes + 1 >= changes, "{:?}", seen.counters);
    assert_eq!(
        (other.repeated, other.lost, seen.counters.broken),
        (0, 0, 0),
        "{:?}",
        seen.counters
    );
    assert_eq!(seen.counters.messages, sent);
    // A change adds what its period's longest latency is above that of the period before.
    let [without, with] = worst;
    let added = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    println!(
        "{sent} messages over {} changes of tree: none lost, repeated or out of order; {} leases confirmed\n\
         longest latency of a period (p50, p99, max): with a change {}, without {}; a change adds {}",
        seen.counters.changes,
        controller.confirmed(),
        spread(with),
        spread(without),
        spread(added)
    );
}

/// Median, 99th percentile and the most of figures in microseconds.
fn spread(mut figures: Vec<i64>) -> String {
    figures.sort_unstable();
    let at = |quantile: f64| figures[((figures.len() - 1) as f64 * quantile) as usize];
    format!("{}, {}, {} us", at(0.5), at(0.99), at(1.0))
}

/// Queue pairs and memory regions of all devices, and the process's descriptors and memory in KiB.
fn held() -> (u64, u64, u64, u64) {
    let said = Command::new("rdma").args(["resource", "show"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let sum = |name: &str| {
        let mut words = said.split_whitespace();
        let mut sum = 0;
        while let Some(word) = words.next() {
            if word == name {
                sum += words.next().unwrap().parse::<u64>().unwrap();
            }
        }
        sum
    };
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (sum("qp"), sum("mr"), descriptors, memory.split_whitespace().next().unwrap().parse().unwrap())
}

fn ready(agent: &Agent) -> usize {
    let pairs = agent.snapshot(None).unwrap().pairs;
    pairs.iter().filter(|pair| pair.state == PairState::Ready).count()
}

#[test]
#[ignore = "runs in the virtual machine"]
fn a_mesh_of_eight_hosts_and_four_trees_comes_and_goes_without_a_leak() {
    let times = size("SNIN_MESHES", 20);
    let (before, mut settled) = (held(), (0, 0));
    let mut progress = Progress::begin();
    for time in 0..times {
        let controller = Controller::start(1);
        let mut all = settings(8, Some(controller.address), "");
        for one in &mut all {
            let value = &mut one.value;
            (value.pairs, value.depth, value.receives, value.buffers) = (32, 4, 32, 16);
            // Everything is slow while hundreds of queue pairs are made under emulation.
            (value.message, value.heartbeat_ms) = (256, 3000);
            (value.silence_ms, value.linger_ms) = (10_000, 60_000);
        }
        let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
        let mut flows = Vec::new();
        for (at, agent) in agents.iter().enumerate() {
            for peer in (1..=8).filter(|&peer| peer != at as u64 + 1) {
                flows.push(agent.connect(Guid(peer)).unwrap());
            }
        }
        let mut receivers: Vec<Receiver> = agents.iter().map(|_| Receiver::default()).collect();
        for tree in 0..4 {
            controller.use_tree(tree);
            for flow in &mut flows {
                flow.try_send(&message(u64::from(tree), 100)).unwrap();
            }
            let expected = 7 * (u64::from(tree) + 1);
            let deadline = Instant::now() + PATIENCE;
            for (receiver, agent) in receivers.iter_mut().zip(&agents) {
                while receiver.total < expected {
                    let seen = || {
                        agents.iter().map(|agent| agent.snapshot(None).unwrap()).collect::<Vec<_>>()
                    };
                    assert!(Instant::now() < deadline, "not all {expected} came: {:#?}", seen());
                    receiver.wait(agent);
                }
            }
            until("a queue pair to each peer along the tree", PATIENCE, || {
                agents.iter().all(|agent| ready(agent) == 7 * (usize::from(tree) + 1))
            });
        }
        drop(flows);
        // All end at the same time, as their hosts might.
        std::thread::scope(|scope| {
            agents.into_iter().for_each(|agent| drop(scope.spawn(move || drop(agent))));
        });
        let (pairs, regions, descriptors, memory) = held();
        drop(controller);
        assert_eq!(
            (pairs, regions),
            (before.0, before.1),
            "queue pairs and memory regions, time {time}"
        );
        // What is ours is counted to the byte; what the allocator and the device's library keep for
        // themselves comes and goes, but does not grow with the number of meshes.
        let now = (quiet::live(), memory);
        if time == 2 {
            settled = now;
        }
        let grown = now.0 > settled.0 + (64 << 10) || now.1 > settled.1 + (8 << 10);
        assert!(time < 3 || !grown, "{now:?} (bytes, KiB), {settled:?} after three meshes");
        assert!(descriptors <= before.2 + 20, "{descriptors} descriptors, {} before", before.2);
        progress.reached(time + 1, times, "meshes made and torn down");
    }
    until("descriptors are closed", PATIENCE, || held().2 <= before.2 + 1);
    println!(
        "a mesh of 8 hosts and 4 trees made and torn down {times} times in {:.1} s: {:?} before, {:?} after \
         (queue pairs, memory regions, descriptors, KiB)",
        progress.began.elapsed().as_secs_f64(),
        before,
        held()
    );
}

#[test]
#[ignore = "runs in the virtual machine"]
fn the_data_thread_allocates_nothing_after_the_start() {
    let controller = Controller::start(1);
    let all = settings(2, Some(controller.address), "");
    let (near, mut driver) = Agent::start_driven(&all[0]).unwrap();
    let far = Agent::start(&all[1]).unwrap();
    let mut flow = near.connect(Guid(2)).unwrap();
    let mut back = far.connect(Guid(1)).unwrap();
    let echo = std::thread::spawn(move || {
        while let Ok(came) = far.recv_timeout(PATIENCE) {
            back.send(&came).unwrap();
            if came.number() == 399 {
                break;
            }
        }
        back.flush(PATIENCE).unwrap();
    });
    let mut loud = Vec::with_capacity(8);
    let mut since = 0;
    for number in 0..400_u64 {
        if number % 50 == 0 {
            loud.push(quiet::count() - since);
            since = quiet::count();
            controller.use_tree((number / 50 % 4) as u16);
        }
        flow.try_send(&number.to_be_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let answer = loop {
            driver.poll();
            if let Some(answer) = near.try_recv() {
                break answer;
            }
            assert!(Instant::now() < deadline, "no answer to message {number}");
        };
        assert_eq!(answer[..], u64::to_be_bytes(number));
    }
    loud.push(quiet::count() - since);
    let counters = {
        let near = near.clone();
        let snapshot = std::thread::spawn(move || near.snapshot(None).unwrap().counters);
        while !snapshot.is_finished() {
            driver.poll();
        }
        snapshot.join().unwrap()
    };
    assert!(counters.leases > 4 && counters.changes >= 4, "{counters:?}");
    // Once every tree was used there is nothing to be made, neither for messages nor for leases nor for a
    // change of tree.
    let settled = &loud[loud.len() - 4..];
    assert_eq!(settled, [0; 4], "allocated or freed a change of tree: {loud:?}, {counters:?}");
    // Neither is there for a flow that is closed and opened again.
    while near.notice().is_some() {}
    let before = quiet::count();
    drop(flow);
    let deadline = Instant::now() + PATIENCE;
    while !matches!(near.notice(), Some(Notice::Closed { .. })) {
        driver.poll();
        assert!(Instant::now() < deadline, "the flow is not closed");
    }
    let flow = near.connect(Guid(2)).unwrap();
    driver.poll();
    assert_eq!(quiet::count() - before, 0, "allocated or freed to close and to open a flow");
    drop(flow);
    driver.poll();
    echo.join().unwrap();
}

/// How often each thread of this process but the calling one has gone to sleep so far, and which sleep now.
fn threads() -> BTreeMap<String, (u64, bool)> {
    let mut threads = BTreeMap::new();
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let number = thread.file_name().into_string().unwrap();
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let value = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        if number != own {
            let times = value("voluntary_ctxt_switches:").parse().unwrap();
            let name = format!("{} {number}", value("Name:"));
            threads.insert(name, (times, value("State:").starts_with('S')));
        }
    }
    threads
}

#[test]
#[ignore = "runs in the virtual machine"]
fn what_an_agent_was_told_can_be_replayed() {
    let controller = Controller::start(1);
    let all = settings(2, Some(controller.address), "");
    let file = std::path::Path::new("/root/agent.record");
    let near = Agent::start_recorded(&all[0], Some(file)).unwrap();
    let far = Agent::start(&all[1]).unwrap();
    let mut flow = near.connect(Guid(2)).unwrap();
    let mut back = far.connect(Guid(1)).unwrap();
    for number in 0..40 {
        controller.use_tree((number / 10 % 4) as u16);
        flow.send(&message(number, 64)).unwrap();
        let came = far.recv_timeout(PATIENCE).unwrap();
        back.send(&came).unwrap();
        assert_eq!(near.recv_timeout(PATIENCE).unwrap().number(), number);
    }
    flow.flush(PATIENCE).unwrap();
    let (before, pairs) = {
        let snapshot = near.snapshot(None).unwrap();
        (snapshot.counters, snapshot.pairs.len())
    };
    drop((flow, near));
    let mut outputs = 0;
    let replayed = replay::<Replaying>(file, |_, _| outputs += 1).unwrap();
    assert_eq!(replayed.recorded, Some(replayed.outcome));
    let mesh = replayed.core.0;
    let after = mesh.counters();
    assert_eq!((after.messages, after.received, after.posted_bytes), (40, 40, before.posted_bytes));
    assert!(after.leases >= before.leases && after.changes == before.changes, "{after:?}");
    assert_eq!(mesh.pairs().count(), pairs);
    assert!(outputs > 120, "{outputs}");
}

/// How often an agent that has nothing to do is looked at, within two seconds.
const LOOKS: u32 = 40;

#[test]
#[ignore = "runs in the virtual machine"]
fn agents_with_nothing_to_do_sleep() {
    for controller in [None, Some(Controller::start(1))] {
        let address = controller.as_ref().map(|controller| controller.address);
        let all = settings(2, address, "policy = \"besteffort\"\n");
        let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
        let mut flow = agents[0].connect(Guid(2)).unwrap();
        flow.send(b"before").unwrap();
        assert_eq!(agents[1].recv_timeout(PATIENCE).unwrap()[..], *b"before");
        flow.flush(PATIENCE).unwrap();
        let before = threads();
        let mut asleep: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..LOOKS {
            std::thread::sleep(Duration::from_millis(50));
            for (thread, (_, sleeps)) in threads() {
                *asleep.entry(thread).or_default() += u32::from(sleeps);
            }
        }
        let after = threads();
        assert!(after.keys().any(|thread| thread.starts_with("snin-data")), "{after:?}");
        for (thread, (times, _)) in &after {
            let woken = times - before.get(thread).map_or(0, |(times, _)| *times);
            // A thread that spins never sleeps, however little it gets of the processors. Leases are renewed
            // 10 times a second; a thread that naps for a millisecond at a time wakes ten times as often.
            let has_slept = asleep.get(thread).copied().unwrap_or(0);
            assert!(
                has_slept >= LOOKS / 10 && woken < 10 * u64::from(LOOKS),
                "{thread}: asleep at {has_slept} of {LOOKS} looks, woken {woken} times, controller {address:?}"
            );
        }
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn the_example_sends_and_answers() {
    // Without a controller: along tree 0, as soon as it is clear that there is none.
    for (at, text) in texts(2, None, "policy = \"besteffort\"\n").iter().enumerate() {
        std::fs::write(format!("/root/echo{}.toml", at + 1), text).unwrap();
    }
    let mut answers = Command::new("/usr/local/bin/echo").arg("/root/echo1.toml").spawn().unwrap();
    let asked = Command::new("/usr/local/bin/echo")
        .args(["/root/echo2.toml", "0x1", "50"])
        .output()
        .unwrap();
    answers.kill().unwrap();
    answers.wait().unwrap();
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(said.starts_with("50 answers, "), "{said}{}", String::from_utf8_lossy(&asked.stderr));
}
