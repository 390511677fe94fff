//! Faults of links, peers and controllers. Each flow goes on or reports an error within two seconds.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_agent::Agent;
use snin_agent_core::{ControllerState, Notice};
use snin_daemon::control::Connection;
use snin_daemon::session::Address;
use snin_fabric::Guid;
use snin_protocol::Term;

use crate::controller::Controller;
use crate::host::{Receiver, message, settings, texts, until};

const PATIENCE: Duration = Duration::from_secs(60);
/// What is promised.
const SOON: Duration = Duration::from_secs(2);

/// Waits for a notice; others are passed over.
fn told(agent: &Agent, limit: Duration, mut is: impl FnMut(&Notice) -> bool) -> Duration {
    until("the notice", limit, || std::iter::from_fn(|| agent.notice()).any(|notice| is(&notice)))
}

/// Sends until a message comes through.
fn resumes(
    flow: &mut snin_agent::Flow,
    to: &Agent,
    receiver: &mut Receiver,
    sent: &mut u64,
) -> Duration {
    let began = Instant::now();
    let before = receiver.total;
    while receiver.total == before {
        assert!(began.elapsed() < PATIENCE, "nothing comes through again");
        if flow.waiting() < 4 && flow.try_send(&message(*sent, 64)).is_ok() {
            *sent += 1;
        }
        receiver.wait(to);
    }
    began.elapsed()
}

fn ip(arguments: &str) {
    assert!(Command::new("/usr/sbin/ip").args(arguments.split(' ')).status().unwrap().success());
}

#[test]
#[ignore = "runs in the virtual machine"]
fn an_interface_goes_down_and_comes_up() {
    let controller = Controller::start(1);
    let all = settings(2, Some(controller.address), "");
    let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
    let mut flow = agents[0].connect(Guid(2)).unwrap();
    let (mut receiver, mut sent) = (Receiver::default(), 0);
    resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
    while agents[0].notice().is_some() {}
    let began = Instant::now();
    ip("link set host0 down");
    told(&agents[0], SOON, |notice| matches!(notice, Notice::Broken { .. }));
    let said = began.elapsed();
    until("all that went through", SOON, || {
        receiver.take_all(&agents[1]);
        flow.waiting() == 0 || began.elapsed() > Duration::from_millis(500)
    });
    let began = Instant::now();
    ip("link set host0 up");
    resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
    let resumed = began.elapsed();
    until("all that was sent", PATIENCE, || {
        receiver.take_all(&agents[1]);
        receiver.total == sent
    });
    assert!(resumed < SOON, "{resumed:?}");
    println!(
        "interface down: said after {said:?}; up: resumed after {resumed:?}, nothing lost or repeated"
    );
}

#[test]
#[ignore = "runs in the virtual machine"]
fn a_controller_dies_and_another_takes_over() {
    for policy in ["silent", "besteffort"] {
        let more = format!("policy = \"{policy}\"\nsilence_ms = 500\n");
        let first = Controller::start(1);
        let all = settings(2, Some(first.address), &more);
        let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
        let mut flow = agents[0].connect(Guid(2)).unwrap();
        let (mut receiver, mut sent) = (Receiver::default(), 0);
        resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
        let at = first.address;
        until("the controller is heard", PATIENCE, || {
            agents[0].snapshot(None).unwrap().controller == ControllerState::Received
        });
        // What was said before, as while everything started, is over.
        while agents[0].notice().is_some() {}
        drop(first);
        let said = told(&agents[0], SOON, |notice| *notice == Notice::ControllerLost);
        if policy == "besteffort" {
            let resumed = resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
            assert!(resumed < SOON, "{resumed:?}");
        }
        // One with a greater term; afterwards the old one's word counts for nothing.
        let second = Controller::start_at(9, at);
        let began = Instant::now();
        told(&agents[0], SOON, |notice| *notice == Notice::ControllerFound);
        resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
        let resumed = began.elapsed();
        assert!(resumed < SOON, "{resumed:?}");
        second.speak_in(3);
        let stale = Notice::StaleController { term: Term(3), latest: Term(9) };
        told(&agents[0], SOON, |notice| *notice == stale);
        until("old terms are refused", PATIENCE, || {
            agents[0].snapshot(None).unwrap().counters.stale_term > 0
        });
        second.speak_in(9);
        second.talk_nonsense();
        until("nonsense is counted", PATIENCE, || {
            let seen: Vec<_> = agents.iter().map(|agent| agent.snapshot(None).unwrap()).collect();
            seen.iter().any(|seen| seen.counters.malformed + seen.io_counters.malformed >= 2)
        });
        resumes(&mut flow, &agents[1], &mut receiver, &mut sent);
        println!(
            "controller killed, policy {policy}: said after {said:?}; another one: resumed after {resumed:?}"
        );
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn whoever_talks_nonsense_to_an_agent_is_sent_away() {
    let agent = Agent::start(&settings(1, None, "")[0]).unwrap();
    let frames: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 40],
        // A frame of another version.
        &[0, 0, 0, 2, 9, 0],
        // A word that does not exist.
        &[0, 0, 0, 2, 1, 99],
    ];
    for frame in frames {
        let Address::Plain(address) = agent.listens_at() else { panic!("plain sessions") };
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(frame).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it hangs up");
    }
    until("all are counted", PATIENCE, || {
        agent.snapshot(None).unwrap().io_counters.malformed == frames.len() as u64
    });
}

/// A controller, and the settings of two that obey it.
fn controlled(more: &str) -> (Controller, Vec<String>) {
    let controller = Controller::start(1);
    let texts = texts(2, Some(controller.address), more);
    (controller, texts)
}

/// `snin-agent` as a process of its own, and what is asked of it.
struct Daemon {
    process: Child,
    socket: String,
}

impl Daemon {
    fn start(text: &str, number: usize) -> Self {
        Self::start_under(&[], text, number)
    }

    /// Started by another program.
    fn start_under(starter: &[&str], text: &str, number: usize) -> Self {
        let (file, socket) =
            (format!("/root/agent{number}.toml"), format!("/root/agent{number}.sock"));
        std::fs::write(
            &file,
            format!(
                "{text}\ncontrol_socket = \"{socket}\"\nlog_file = \"{socket}.log\"\nlog_level = \"warn\"\n"
            ),
        )
        .unwrap();
        let command = [starter, &["/usr/local/bin/snin-agent", "--config", &file]].concat();
        let process = Command::new(command[0]).args(&command[1..]).spawn().unwrap();
        let daemon = Self { process, socket };
        until("the daemon answers", PATIENCE, || {
            Connection::open(daemon.socket.as_ref(), Some(PATIENCE)).is_ok()
        });
        daemon
    }

    fn ask(&self, request: &Value) -> Value {
        Connection::open(self.socket.as_ref(), Some(PATIENCE)).unwrap().ask(request).unwrap()
    }

    /// Sends small messages to the second one, so many a second: the flow's number.
    fn keep_sending(&self, rate: u64) -> u64 {
        let (count, size) = (1_000_000, 64);
        let send =
            json!({ "command": "send", "peer": "0x2", "count": count, "size": size, "rate": rate });
        self.ask(&send)["flow"].as_u64().unwrap()
    }

    /// How many lines of its log say something.
    fn lines(&self, with: &str) -> usize {
        let log = std::fs::read_to_string(format!("{}.log", self.socket)).unwrap();
        log.lines().filter(|line| line.contains(with)).count()
    }

    fn received(&self) -> u64 {
        let status = self.ask(&json!({ "command": "status" }));
        status["received"][0]["messages"].as_u64().unwrap_or(0)
    }

    /// Whether such an event came after that of number `since`.
    fn said(&self, event: &str, since: u64) -> bool {
        let events = self.ask(&json!({ "command": "events", "since": since }));
        events["events"].as_array().unwrap().iter().any(|one| one["event"] == event)
    }

    fn last_event(&self) -> u64 {
        let events = self.ask(&json!({ "command": "events" }));
        events["events"]
            .as_array()
            .unwrap()
            .last()
            .map_or(0, |event| event["seq"].as_u64().unwrap())
    }

    fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process that it has started ends first, and then it does.
        let own = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let children = children.unwrap_or_default();
        for child in children.split_whitespace() {
            Command::new("kill").args(["-TERM", child]).status().unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        while !children.is_empty()
            && self.process.try_wait().unwrap().is_none()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        // It may have been killed already.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn daemons_find_a_peer_again_that_was_stopped_or_killed() {
    let (_controller, texts) = controlled("");
    let near = Daemon::start(&texts[0], 1);
    let mut far = Daemon::start(&texts[1], 2);
    let flow = near.keep_sending(100);
    until("messages come", PATIENCE, || far.received() > 5);
    let mesh = near.ask(&json!({ "command": "mesh" }));
    assert_eq!(
        (&mesh["pairs"][0]["peer"], &mesh["pairs"][0]["state"]),
        (&json!("0x0000000000000002"), &json!("ready"))
    );
    let flows = near.ask(&json!({ "command": "flows" }));
    assert_eq!(flows["flows"][0]["grant"]["tree"], 0, "{flows}");
    let latency = near.ask(&json!({ "command": "histogram", "flow": flow }));
    assert!(
        latency["messages"].as_u64().unwrap() > 0 && latency["median_ns"].as_u64().unwrap() > 0
    );

    let since = near.last_event();
    far.signal("-STOP");
    let stopped = until("a stopped peer is noticed", SOON, || near.said("PAIR_BROKEN", since));
    far.signal("-CONT");
    let before = far.received();
    let resumed = until("messages come again", SOON, || far.received() > before);

    let since = near.last_event();
    far.signal("-KILL");
    let killed = until("a killed peer is noticed", SOON, || near.said("PAIR_BROKEN", since));
    far.process.wait().unwrap();
    far = Daemon::start(&texts[1], 2);
    let restarted = until("messages come to its successor", SOON, || far.received() > 0);
    println!(
        "peer stopped: said after {stopped:?}, resumed {resumed:?} after it went on; killed: said after \
         {killed:?}, resumed {restarted:?} after its restart"
    );
}

#[test]
#[ignore = "runs in the virtual machine"]
fn what_is_missing_is_said_in_one_line() {
    let run = |more: &str, before: &str| {
        let text = texts(1, None, more).remove(0);
        std::fs::write("/root/wrong.toml", text).unwrap();
        let command =
            format!("{before} timeout 60 /usr/local/bin/snin-agent --config /root/wrong.toml");
        let done =
            Command::new("bash").args(["-c", &command]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.lines().count()), (Some(3), 1), "{said}");
        said
    };
    let said = run("core = 77\n", "");
    assert!(said.contains("core 77 cannot be had: there are 0-1,"), "{said}");
    // A process that may lock memory without limit needs no more.
    let said = run("", "ulimit -l 64; setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock");
    assert!(said.contains("ulimit -l unlimited"), "{said}");
    let said = run("device = \"mlx5_0\"\n", "");
    assert!(said.contains("no RDMA device `mlx5_0`: there are rxe0"), "{said}");
    let said = run("pool = \"busy\"\n", "");
    assert!(
        said.starts_with("snin-agent: /root/wrong.toml:") && said.contains("poll is meant?"),
        "{said}"
    );
}

#[test]
#[ignore = "runs in the virtual machine"]
fn what_is_refused_is_counted_and_said_in_one_line() {
    let controller = Controller::start(9);
    let daemon = Daemon::start(&texts(1, Some(controller.address), "").remove(0), 1);
    let count = |of: &str, name: &str| {
        daemon.ask(&json!({ "command": "status" }))[of][name].as_u64().unwrap()
    };
    until("the controller is heard", PATIENCE, || count("counters", "leases") > 0);
    controller.speak_in(3);
    until("old terms are refused", SOON, || count("counters", "stale_term") > 1);
    assert!(daemon.said("CONTROLLER_STALE", 0));
    controller.speak_in(9);
    controller.talk_nonsense();
    until("the controller's nonsense is counted", SOON, || {
        count("io_counters", "malformed_streams") == 1
    });
    let address =
        daemon.ask(&json!({ "command": "status" }))["listen"].as_str().unwrap().to_owned();
    let address = address.strip_prefix("plain://").unwrap();
    TcpStream::connect(address).unwrap().write_all(&[0xff; 40]).unwrap();
    until("a stranger's is, too", SOON, || count("io_counters", "malformed_streams") == 2);
    let said = [
        "term 3 is not obeyed: term 9 is in charge",
        "the session with controller/test: ",
        "a caller is turned away: ",
    ];
    let log = std::fs::read_to_string(format!("{}.log", daemon.socket)).unwrap();
    assert_eq!(said.map(|line| daemon.lines(line)), [1; 3], "{log}");
}

#[test]
#[ignore = "runs in the virtual machine"]
fn daemons_count_datagrams_that_are_lost() {
    let (_controller, texts) = controlled("mode = \"ud\"\n");
    let near = Daemon::start(&texts[0], 1);
    // The second one has room for so few at a time.
    let far = Daemon::start(&texts[1].replace("receives = 64", "receives = 2"), 2);
    let send = |count: u64, size: u64| {
        let request = json!({ "command": "send", "peer": "0x2", "count": count, "size": size });
        Connection::open(near.socket.as_ref(), Some(PATIENCE)).unwrap().ask(&request)
    };
    let refused = send(1, 9000).unwrap_err().to_string();
    assert!(refused.contains("a message of 9000 bytes, but 4048 is the longest"), "{refused}");
    let mut sent = 300;
    send(sent, 64).unwrap();
    let mut counted = (0, 0);
    until("each has come or is counted", PATIENCE, || {
        // What was lost last is known when something comes after it.
        send(1, 64).unwrap();
        sent += 1;
        std::thread::sleep(Duration::from_millis(50));
        let came = &far.ask(&json!({ "command": "status" }))["received"][0];
        counted = (came["messages"].as_u64().unwrap_or(0), came["lost"].as_u64().unwrap_or(0));
        counted.0 + counted.1 == sent
    });
    assert!(counted.1 > 0, "nothing was lost: {counted:?}");
    assert!(far.said("LOST", 0));
    println!("datagrams: {} came, {} were lost, all of {sent} are counted", counted.0, counted.1);
}

#[test]
#[ignore = "runs in the virtual machine"]
fn a_busy_data_thread_calls_nobody_but_its_device() {
    const TRACE: &str = "/root/trace";
    let (_controller, texts) = controlled("");
    let busy = texts[0].replace("poll = \"hybrid\"", "poll = \"busy\"\ncore = 1");
    let strace = ["/usr/bin/strace", "-f", "-y", "-o", TRACE];
    let near = Daemon::start_under(&strace, &busy, 1);
    let far = Daemon::start(&texts[1], 2);
    near.keep_sending(50);
    until("messages come", PATIENCE, || far.received() > 10);
    let begin = std::fs::metadata(TRACE).unwrap().len() as usize;
    let before = far.received();
    until("more messages come", PATIENCE, || far.received() > before + 50);
    let thread = data_thread();
    let mut calls: Vec<String> = Vec::new();
    // strace writes in blocks, so what it saw comes a little later.
    until("the device is told of messages", PATIENCE, || {
        let trace = std::fs::read(TRACE).unwrap();
        let trace = String::from_utf8_lossy(&trace[begin..]).into_owned();
        // The first line may be the rest of one, and the last one its begin.
        let lines = trace.rsplit_once('\n').map_or("", |(whole, _)| whole).lines().skip(1);
        calls = lines.filter(|line| line.starts_with(&thread)).map(str::to_owned).collect();
        calls.len() >= 4
    });
    let to_device = |call: &str| call.contains("/dev/infiniband/") || call.contains("resumed>");
    let others: Vec<&String> = calls.iter().filter(|call| !to_device(call)).collect();
    assert!(others.is_empty(), "{others:#?}");
    println!("{} system calls of the data thread over 50 messages, all to its device", calls.len());
}

/// The data thread of the process that is traced, as strace begins its lines.
fn data_thread() -> String {
    let entries = |path: &Path| {
        let found = std::fs::read_dir(path).into_iter().flatten().flatten();
        found.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_traced = |process: &PathBuf| {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    };
    let traced = entries(Path::new("/proc")).into_iter().filter(is_traced);
    let is_named = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "snin-data")
    };
    let mut threads = traced.flat_map(|process| entries(&process.join("task")));
    let thread = threads.find(is_named).expect("the data thread");
    format!("{} ", thread.file_name().unwrap().to_str().unwrap())
}
