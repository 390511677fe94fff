//! A port of this machine, through libibumad.
//!
//! A thread of its own waits in the library: ibsim's preload gives numbers that only the library's calls
//! understand, so they cannot be polled together with anything else, and it is how OpenSM's own driver does
//! it. What came in waits in a bounded queue, and an event descriptor says so.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::{Attribute as _, Class, DrPath, Mad, Method, NodeInfo, QKey, Route, Smp};
use snin_umad::{Agent, Announced, Description, Open, Outgoing};

use super::{Address, Counters, LocalInfo, Options, Port, PortError, Received, Selector, Sent};

/// What is not taken in time beyond this is dropped, of each of the two queue pairs; managers have at most a few
/// thousand requests in flight.
const QUEUE: usize = 8_192;
/// How often the receiving thread looks whether it shall end. It is woken for that, too.
const LOOK_MS: u32 = 30_000;

/// Requests that a manager answers: questions to it (SMInfo) and traps. The kernel answers all other SMPs.
const METHODS: &[u8] = &[Method::Get.code(), Method::Set.code(), Method::Trap.code()];
/// What subnet administration is asked, and what belongs to its messages: an ACK has a request's method. The
/// kernel hands segments up as they are, since the agents ask for no RMPP of its own: administration's is the
/// same on every kind of port.
const ASKED: &[u8] = &[
    Method::Get.code(),
    Method::Set.code(),
    Method::GetTable.code(),
    Method::GetTraceTable.code(),
    Method::GetMulti.code(),
    Method::Delete.code(),
];
/// Nothing: counters are asked for, by this manager.
const ASKS: &[u8] = &[];
const AGENTS: [Agent; 4] = [
    Agent { class: Class::Subnet.code(), version: 1, methods: METHODS },
    Agent { class: Class::DirectedSubnet.code(), version: 1, methods: METHODS },
    Agent { class: Class::Administration.code(), version: 2, methods: ASKED },
    Agent { class: Class::Performance.code(), version: 1, methods: ASKS },
];

/// A port gives a method of a class to one program only. A reader takes none that the kept manager needs: reports
/// come to subscribers, and it is none.
const READS: [Agent; 2] = [
    Agent { class: Class::DirectedSubnet.code(), version: 1, methods: ASKS },
    Agent { class: Class::Administration.code(), version: 2, methods: &[Method::Report.code()] },
];

impl Selector {
    fn takes(&self, port: &Description) -> bool {
        self.adapter.as_ref().is_none_or(|adapter| *adapter == port.adapter)
            && self.number.is_none_or(|number| number == port.number)
            && self.guid.is_none_or(|guid| guid.0 == port.guid)
    }

    fn text(&self) -> String {
        let adapter = self.adapter.as_ref().map(|adapter| format!("--ca {adapter}"));
        let number = self.number.map(|number| format!("--port {number}"));
        let guid = self.guid.map(|guid| format!("--guid {guid}"));
        adapter.into_iter().chain(number).chain(guid).collect::<Vec<_>>().join(" ")
    }

    /// The one port that is meant. Where several could be, only one of which has a cable, it is that one.
    ///
    /// # Errors
    /// When none is, or several are: what there is.
    pub fn choose(&self, ports: Vec<Description>) -> Result<Description, PortError> {
        let (infiniband, others): (Vec<_>, Vec<_>) =
            ports.into_iter().partition(|port| port.infiniband);
        if infiniband.is_empty() {
            let only = if others.is_empty() { "" } else { ", only Ethernet ones: " };
            return Err(PortError::NoPort(format!("{only}{}", list(&others))));
        }
        let mut fit: Vec<&Description> =
            infiniband.iter().filter(|port| self.takes(port)).collect();
        if fit.len() > 1 && fit.iter().filter(|port| is_up(port)).count() == 1 {
            fit.retain(|port| is_up(port));
        }
        match fit[..] {
            [one] => Ok(one.clone()),
            [] => Err(PortError::NoSuchPort { wanted: self.text(), candidates: list(&infiniband) }),
            _ => Err(PortError::Ambiguous { candidates: list(fit) }),
        }
    }
}

/// A cable is plugged in and trained.
fn is_up(port: &Description) -> bool {
    port.physical == 5
}

fn list<'a>(ports: impl IntoIterator<Item = &'a Description>) -> String {
    let state = |port: &Description| match port.state {
        1 => "down",
        2 => "init",
        3 => "armed",
        4 => "active",
        _ => "unknown",
    };
    let one = |port: &Description| format!("{port} ({}, {})", Guid(port.guid), state(port));
    ports.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A port of this machine.
pub struct UmadPort {
    shared: Arc<Shared>,
    info: LocalInfo,
    /// The kernel's patience with an answer.
    timeout_ms: u32,
    counters: Counters,
    announced: Option<Announced>,
    #[cfg(feature = "verbs")]
    changes: super::changes::Changes,
    receiver: Option<JoinHandle<()>>,
}

struct Shared {
    open: Open,
    ready: OwnedFd,
    ended: AtomicBool,
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    /// Of queue pair 0, which is read first: what hosts ask takes no answer's room.
    smps: VecDeque<Received>,
    /// Of queue pair 1.
    general: VecDeque<Received>,
    undelivered: u64,
    dropped: u64,
    failed: Option<io::Error>,
}

impl Inbox {
    /// Keeps what came, as far as there is room; whether nothing else is there.
    fn put(&mut self, received: Received) -> bool {
        let first = self.smps.is_empty() && self.general.is_empty();
        let queue = if received.from.qp == 0 { &mut self.smps } else { &mut self.general };
        let has_room = queue.len() < QUEUE;
        if has_room {
            queue.push_back(received);
        } else {
            self.dropped += 1;
        }
        first && has_room
    }

    fn take(&mut self) -> Option<Received> {
        self.smps.pop_front().or_else(|| self.general.pop_front())
    }
}

impl UmadPort {
    /// Opens the port that is meant.
    ///
    /// # Errors
    /// When the choice is open or empty, and what the system refuses.
    pub fn open(selector: &Selector, options: Options<'_>) -> Result<Self, PortError> {
        let description = selector.choose(snin_umad::ports()?)?;
        let info = LocalInfo {
            name: description.to_string(),
            guid: Guid(description.guid),
            port: PortNum(description.number),
            lid: Lid(description.lid),
        };
        let ready = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| PortError::broken(&info.name)(error.into()))?;
        #[cfg(feature = "verbs")]
        let (adapter, number) = (description.adapter.clone(), description.number);
        let open = match options.asks_only {
            false => Open::new(description, &AGENTS)?,
            // Where another program has them, changes are seen by looking.
            true => Open::new(description.clone(), &READS).or_else(|why| {
                tracing::warn!("no reports of the manager that stays: {why}");
                Open::new(description, &READS[..1])
            })?,
        };
        #[cfg(feature = "verbs")]
        let changes = super::changes::Changes::of(&adapter, number);
        let shared = Arc::new(Shared {
            open,
            ready,
            ended: AtomicBool::new(false),
            inbox: Mutex::default(),
        });
        let its = Arc::clone(&shared);
        let receiver = std::thread::Builder::new()
            .name("umad".to_owned())
            .spawn(move || its.receive())
            .map_err(PortError::broken(&info.name))?;
        // The kernel refuses a request while it waits for the answer to the same one: it has to give up a
        // little before the manager asks again.
        let timeout_ms = (options.timeout * 9 / 10).nanos() / 1_000_000;
        Ok(Self {
            shared,
            info,
            timeout_ms: timeout_ms.clamp(1, 60_000) as u32,
            counters: Counters::default(),
            announced: None,
            #[cfg(feature = "verbs")]
            changes,
            receiver: Some(receiver),
        })
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does until the port is closed.
    fn receive(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            let incoming = match self.open.receive(LOOK_MS) {
                Ok(None) => continue,
                Ok(Some(incoming)) => incoming,
                Err(error) => {
                    self.inbox().failed = Some(error);
                    self.wake();
                    return;
                }
            };
            let mut inbox = self.inbox();
            if incoming.timed_out {
                inbox.undelivered += 1;
            } else if incoming.length < snin_umad::MAD {
                inbox.dropped += 1;
            } else {
                let from = Address {
                    lid: Lid(incoming.lid),
                    qp: incoming.qp,
                    sl: incoming.sl,
                    q_key: QKey(0),
                    p_key_index: incoming.p_key_index,
                };
                let first = inbox.put(Received { mad: Box::new(Mad(*incoming.mad)), from });
                drop(inbox);
                if first {
                    self.wake();
                }
            }
        }
    }

    fn wake(&self) {
        // It cannot fail but for a count of 2^64 - 1, which would be readable already.
        let _ = rustix::io::write(&self.ready, &1_u64.to_ne_bytes());
    }
}

impl Port for UmadPort {
    fn info(&self) -> &LocalInfo {
        &self.info
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.shared.ready.as_fd()
    }

    fn send(&mut self, mad: &Mad, to: &Address) -> Result<Sent, PortError> {
        let method = mad.header().method();
        let answered = !method.is_response() && method != Method::Send;
        let outgoing = Outgoing {
            lid: to.lid.0,
            qp: to.qp,
            sl: to.sl,
            q_key: to.q_key.0,
            p_key_index: to.p_key_index,
            mad: &mad.0,
            timeout_ms: if answered { self.timeout_ms } else { 0 },
        };
        match self.shared.open.send(&outgoing) {
            Ok(()) => {
                self.counters.sent += 1;
                Ok(Sent::Yes)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.counters.full += 1;
                Ok(Sent::Full)
            }
            // The kernel still waits for the answer to the same request: as good as sent.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.counters.undelivered += 1;
                Ok(Sent::Yes)
            }
            Err(error) => Err(PortError::broken(&self.info.name)(error)),
        }
    }

    fn receive(&mut self) -> Result<Option<Received>, PortError> {
        let mut inbox = self.shared.inbox();
        if let Some(received) = inbox.take() {
            self.counters.received += 1;
            return Ok(Some(received));
        }
        if let Some(error) = inbox.failed.take() {
            return Err(PortError::broken(&self.info.name)(error));
        }
        // While the queue is locked, so that no wake-up is lost; nothing there to read is as good.
        let _ = rustix::io::read(&self.shared.ready, &mut [0; 8]);
        Ok(None)
    }

    #[cfg(feature = "verbs")]
    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.changes.readable()
    }

    #[cfg(feature = "verbs")]
    fn has_changed(&mut self) -> bool {
        self.changes.take()
    }

    fn announce(&mut self, manager: bool) -> Result<(), PortError> {
        self.announced = None;
        if manager {
            self.announced = Some(self.shared.open.announce()?);
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let inbox = self.shared.inbox();
        Counters {
            undelivered: self.counters.undelivered + inbox.undelivered,
            dropped: inbox.dropped,
            ..self.counters
        }
    }
}

impl UmadPort {
    /// Nothing but a datagram ends the library's wait, and ibsim's preload knows no other descriptor in the same
    /// poll: so the port asks itself who it is. Answered or not, the question comes back.
    fn wake_receiver(&mut self) -> bool {
        let here = Smp::get(NodeInfo::ID, 0, Route::directed(DrPath::HERE));
        matches!(self.send(&here.mad(), &Address::DIRECTED), Ok(Sent::Yes))
    }
}

impl Drop for UmadPort {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let woken = self.wake_receiver();
        if let Some(receiver) = self.receiver.take()
            && (woken || receiver.is_finished())
        {
            // A panic there has been told already.
            let _ = receiver.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(adapter: &str, number: u8, guid: u64, physical: u32, infiniband: bool) -> Description {
        let (adapter, state) = (adapter.to_owned(), if physical == 5 { 4 } else { 1 });
        Description { adapter, number, guid, gid_prefix: 0, lid: 0, state, physical, infiniband }
    }

    fn choose(selector: &Selector, ports: &[Description]) -> Result<String, String> {
        let chosen = selector.choose(ports.to_vec());
        chosen.map(|port| port.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_hosts_ask_keeps_no_answer_waiting_and_takes_none_its_room() {
        let mut inbox = Inbox::default();
        let came = |qp| {
            let from = Address { qp, ..Address::DIRECTED };
            Received { mad: Box::new(Mad::ZERO), from }
        };
        let first: Vec<bool> = (0..2 * QUEUE).map(|_| inbox.put(came(1))).collect();
        assert!(first[0] && first[1..].iter().all(|first| !first));
        assert!(!inbox.put(came(0)), "it is woken already");
        assert_eq!((inbox.dropped, inbox.general.len()), (QUEUE as u64, QUEUE));
        assert_eq!(inbox.take().map(|it| it.from.qp), Some(0));
        assert_eq!(inbox.take().map(|it| it.from.qp), Some(1));
    }

    #[test]
    fn one_port_is_chosen_or_the_candidates_are_listed() {
        let ethernet = port("mlx5_bond_0", 1, 1, 5, false);
        let (a, b) = (port("mlx5_0", 1, 0xA1, 5, true), port("mlx5_0", 2, 0xA2, 2, true));
        let c = port("mlx5_1", 1, 0xB1, 5, true);
        let any = Selector::default();
        let one = |chosen: &str| Ok(chosen.to_owned());
        assert_eq!(choose(&any, &[]), Err("this machine has no InfiniBand port".to_owned()));
        assert_eq!(
            choose(&any, std::slice::from_ref(&ethernet)),
            Err("this machine has no InfiniBand port, only Ethernet ones: mlx5_bond_0/1 \
                 (0x0000000000000001, active)"
                .to_owned())
        );
        assert_eq!(choose(&any, &[ethernet.clone(), b.clone()]), one("mlx5_0/2"));
        assert_eq!(choose(&any, &[a.clone(), b.clone()]), one("mlx5_0/1"));
        let all = [ethernet, a, b, c];
        assert_eq!(
            choose(&any, &all),
            Err("which port? choose by --ca and --port, or by --guid: there is mlx5_0/1 \
                 (0x00000000000000a1, active), mlx5_0/2 (0x00000000000000a2, down), mlx5_1/1 \
                 (0x00000000000000b1, active)"
                .to_owned())
        );
        let named = Selector { adapter: Some("mlx5_1".to_owned()), ..Selector::default() };
        assert_eq!(choose(&named, &all), one("mlx5_1/1"));
        assert_eq!(choose(&Selector { number: Some(2), ..any.clone() }, &all), one("mlx5_0/2"));
        let by_guid = |guid| Selector { guid: Some(Guid(guid)), ..Selector::default() };
        assert_eq!(choose(&by_guid(0xA2), &all), one("mlx5_0/2"));
        let error = choose(&by_guid(1), &all).unwrap_err();
        assert!(
            error.starts_with(
                "no InfiniBand port is --guid 0x0000000000000001; there is mlx5_0/1 ("
            )
        );
    }
}
