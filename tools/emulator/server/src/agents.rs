//! End-node agents: frames of the software port, between connections and the fabric's messages.

mod connection;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;

use snin_daemon::watch::Watch;
use snin_emulator::messages::{Message, Messages, Output};
use snin_emulator::{Fabric, place};
use snin_fabric::{Guid, Lid, PortIndex, PortNum, Topology};
use snin_mad::PortState;
use snin_protocol::Time;
use snin_protocol::software_port::messages::{
    Arrived, Attach, AttachRefused, Completed, Find, Found, FromFabric, Loss, Outcome, PortStatus,
    Post, RefusedReason, ToFabric,
};

use crate::error::ServerError;
use crate::mads::address;
use connection::Connection;

/// Connections at a time.
const CONNECTIONS: usize = 1024;
/// Ports of one connection.
const PORTS: usize = 4096;
/// How often ports are looked at for what agents are to know.
const LOOK: Time = Time::millis(10);

/// The counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) turned_away: u64,
    pub(crate) cut_off: u64,
    pub(crate) refused: u64,
}

/// See the module's documentation.
pub(crate) struct Agents {
    listener: UnixListener,
    open: BTreeMap<u64, Connection>,
    next: u64,
    /// Every adapter's port.
    ports: BTreeMap<Guid, PortIndex>,
    guids: BTreeMap<PortIndex, Guid>,
    /// The connection at each port, and the state that the client was last told.
    at: BTreeMap<PortIndex, (u64, PortStatus)>,
    look_at: Time,
    pub(crate) counts: Counts,
}

impl Agents {
    /// Listens for clients; no client is connected yet.
    pub(crate) fn listen(name: &str, topology: &Topology) -> Result<Self, ServerError> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::AddrInUse => ServerError::Taken(name.to_owned()),
            _ => ServerError::Socket { socket: format!("{name}:messages"), error },
        };
        let listener = address(name, "messages").and_then(|at| UnixListener::bind_addr(&at));
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let is_host = |&port: &PortIndex| {
            !topology.is_switch(topology.port(port).node) && topology.num(port) != PortNum(0)
        };
        let hosts = topology.ports().filter(is_host);
        let guids: BTreeMap<PortIndex, Guid> =
            hosts.map(|port| (port, place::guid_of(topology, port))).collect();
        Ok(Self {
            listener,
            open: BTreeMap::new(),
            next: 0,
            ports: guids.iter().map(|(&port, &guid)| (guid, port)).collect(),
            guids,
            at: BTreeMap::new(),
            look_at: Time::ZERO,
            counts: Counts::default(),
        })
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.listener.as_fd());
        for connection in self.open.values() {
            connection.watch(watch);
        }
    }

    /// When ports are looked at.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        (!self.at.is_empty()).then_some(self.look_at)
    }

    /// Takes what agents say.
    pub(crate) fn take(&mut self, messages: &mut Messages, fabric: &Fabric, now: Time) {
        self.accept();
        let numbers: Vec<u64> = self.open.keys().copied().collect();
        for number in numbers {
            let mut said = Vec::new();
            let Some(connection) = self.open.get_mut(&number) else { continue };
            let good = connection.receive(&mut said);
            for message in said {
                self.receive(number, message, messages, fabric, now);
            }
            if !good {
                self.close(number, messages, now);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.open.len() >= CONNECTIONS || stream.set_nonblocking(true).is_err() {
                self.counts.turned_away += 1;
                continue;
            }
            self.counts.connections += 1;
            self.open.insert(self.next, Connection::new(stream));
            self.next += 1;
        }
    }

    fn receive(
        &mut self,
        number: u64,
        said: ToFabric,
        messages: &mut Messages,
        fabric: &Fabric,
        now: Time,
    ) {
        match said {
            ToFabric::Attach(Attach { port }) => {
                let answer = match self.attach(number, port, messages, fabric) {
                    Ok(status) => FromFabric::Attached(status),
                    Err(reason) => {
                        self.counts.refused += 1;
                        FromFabric::Refused(AttachRefused { port, reason })
                    }
                };
                self.send(number, &answer);
            }
            ToFabric::Detach(Attach { port }) => {
                if let Some(port) = self.own(number, port) {
                    messages.detach(port, now);
                    self.at.remove(&port);
                }
            }
            ToFabric::Post(post) => self.post(number, post, messages, fabric, now),
            ToFabric::Cancel(cancel) => {
                if let Some(port) = self.own(number, cancel.port) {
                    messages.cancel(port, cancel.token, cancel.at);
                }
            }
            ToFabric::Find(Find { port, peer }) => {
                let found = self.ports.get(&peer);
                let lid = found.map_or(Lid::NONE, |&found| fabric.port_info(found).lid);
                let attached = found.is_some_and(|&found| messages.is_attached(found));
                let found = Found { port, peer, lid, attached };
                self.send(number, &FromFabric::Found(found));
            }
        }
    }

    fn attach(
        &mut self,
        number: u64,
        guid: Guid,
        messages: &mut Messages,
        fabric: &Fabric,
    ) -> Result<PortStatus, RefusedReason> {
        let port = *self.ports.get(&guid).ok_or(RefusedReason::NoSuchPort)?;
        let own = self.at.values().filter(|(owner, _)| *owner == number).count();
        if own >= PORTS {
            return Err(RefusedReason::TooMany);
        }
        if !messages.attach(port) {
            return Err(RefusedReason::Taken);
        }
        let status = status(port, guid, messages, fabric);
        self.at.insert(port, (number, status));
        Ok(status)
    }

    fn post(
        &mut self,
        number: u64,
        post: Post,
        messages: &mut Messages,
        fabric: &Fabric,
        now: Time,
    ) {
        let Post { port: guid, token, flow, to, path_bits, sl, bytes, begin, payload } = post;
        let Some(port) = self.own(number, guid) else {
            let outcome = Outcome::Lost(Loss::NotAttached);
            let completed = Completed { port: guid, token, outcome };
            return self.send(number, &FromFabric::Completed(completed));
        };
        let message = Message { token, flow, to, path_bits, sl, bytes, begin, payload };
        messages.post(port, message, fabric, now);
    }

    /// The port, if it is this connection's.
    fn own(&self, number: u64, guid: Guid) -> Option<PortIndex> {
        let port = *self.ports.get(&guid)?;
        self.at.get(&port).filter(|(owner, _)| *owner == number)?;
        Some(port)
    }

    /// Tells agents what became of messages, what came for them, and what their ports are like.
    pub(crate) fn give(&mut self, messages: &mut Messages, fabric: &Fabric, now: Time) {
        while let Some(output) = messages.poll_output() {
            let (port, said) = match output {
                Output::Completed { port, token, outcome } => {
                    let Some(&guid) = self.guids.get(&port) else { continue };
                    (port, FromFabric::Completed(Completed { port: guid, token, outcome }))
                }
                Output::Arrived { port, from, to, payload } => {
                    let Some(&guid) = self.guids.get(&port) else { continue };
                    (port, FromFabric::Arrived(Arrived { port: guid, from, to, payload }))
                }
            };
            if let Some(&(number, _)) = self.at.get(&port) {
                self.send(number, &said);
            }
        }
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.look(messages, fabric);
        }
        let mut gone = BTreeSet::new();
        for (&number, connection) in &mut self.open {
            if !connection.flush() {
                gone.insert(number);
            }
        }
        for number in gone {
            self.counts.cut_off += 1;
            self.close(number, messages, now);
        }
    }

    /// Tells agents whose ports have changed.
    fn look(&mut self, messages: &Messages, fabric: &Fabric) {
        let mut changed = Vec::new();
        for (&port, (number, known)) in &mut self.at {
            let new = status(port, known.port, messages, fabric);
            if new != *known {
                *known = new;
                changed.push((*number, new));
            }
        }
        for (number, new) in changed {
            self.send(number, &FromFabric::Attached(new));
        }
    }

    fn send(&mut self, number: u64, said: &FromFabric) {
        if let Some(connection) = self.open.get_mut(&number) {
            connection.send(said);
        }
    }

    fn close(&mut self, number: u64, messages: &mut Messages, now: Time) {
        self.open.remove(&number);
        let ports: Vec<PortIndex> = self
            .at
            .iter()
            .filter(|(_, (owner, _))| *owner == number)
            .map(|(&port, _)| port)
            .collect();
        for port in ports {
            messages.detach(port, now);
            self.at.remove(&port);
        }
    }

    /// Ports with an agent.
    pub(crate) fn attached(&self) -> usize {
        self.at.len()
    }
}

fn status(port: PortIndex, guid: Guid, messages: &Messages, fabric: &Fabric) -> PortStatus {
    let info = fabric.port_info(port);
    PortStatus {
        port: guid,
        lid: info.lid,
        lmc: info.lmc.bits(),
        active: matches!(info.state, PortState::Active | PortState::ActiveDefer),
        rate: messages.rate(port, fabric),
        mtu: info.neighbor_mtu.bytes().map_or(0, Into::into),
    }
}
