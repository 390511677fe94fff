//! Agents on the machine's one device: several of them talk over its own addresses.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use snin_agent::{Agent, Incoming, Settings};
use snin_daemon::settings::{Loaded, parse};
use snin_fabric::Guid;

/// Settings of so many agents that know each other; GUIDs count from 1.
pub(crate) fn settings(
    count: u64,
    controller: Option<SocketAddr>,
    more: &str,
) -> Vec<Loaded<Settings>> {
    let texts = texts(count, controller, more);
    texts.iter().map(|text| parse(text, "agent.toml").unwrap()).collect()
}

/// The same as files.
pub(crate) fn texts(count: u64, controller: Option<SocketAddr>, more: &str) -> Vec<String> {
    let ports = free_ports(count as usize);
    let peers: Vec<String> = (1..=count)
        .map(|guid| format!("\"{guid:#x}\" = \"plain://127.0.0.1:{}\"", ports[guid as usize - 1]))
        .collect();
    let controller = controller
        .map(|address| format!("controller = \"plain://{address}\"\n"))
        .unwrap_or_default();
    let one = |guid: u64| {
        format!(
            "guid = \"{guid:#x}\"\nlisten = \"plain://127.0.0.1:{}\"\npeers = {{ {} }}\n{controller}\
             poll = \"hybrid\"\nacknowledgement_us = 500000\nheartbeat_ms = 300\nlinger_ms = 5000\n\
             connect_ms = 10000\n\
             pairs = 64\nflows = 16\nreceives = 64\nbuffers = 64\nmessage = 16384\n{more}",
            ports[guid as usize - 1],
            peers.join(", ")
        )
    };
    (1..=count).map(one).collect()
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < limit, "{what}: not after {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

/// Takes messages and checks that each flow's come once and in order.
#[derive(Default)]
pub(crate) struct Receiver {
    next: BTreeMap<(Guid, u32), u64>,
    pub(crate) total: u64,
}

impl Receiver {
    fn check(&mut self, message: &Incoming<'_>) {
        let next = self.next.entry((message.peer(), message.flow().0)).or_default();
        assert_eq!(message.number(), *next, "of {} flow {}", message.peer(), message.flow().0);
        let said = message.first_chunk().map(|&bytes| u64::from_be_bytes(bytes));
        assert!(said.is_none_or(|said| said == *next), "message {next} says {said:?}");
        *next += 1;
        self.total += 1;
    }

    /// The next message, if one comes soon.
    pub(crate) fn wait(&mut self, agent: &Agent) -> bool {
        self.wait_for(Duration::from_millis(50), agent)
    }

    /// The next message, if one comes within `limit`.
    pub(crate) fn wait_for(&mut self, limit: Duration, agent: &Agent) -> bool {
        let came = agent.recv_timeout(limit);
        came.map(|message| self.check(&message)).is_ok()
    }

    /// All that is there.
    pub(crate) fn take_all(&mut self, agent: &Agent) {
        while let Some(message) = agent.try_recv() {
            self.check(&message);
        }
    }
}

/// A message that says its number.
pub(crate) fn message(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; length.max(8)];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}
