//! A host that registers groups and services, and asks for them and for paths.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_fabric::Lid;
use snin_judges::Simulator;
use snin_mad::sa::{
    ComponentMask, JoinState, McMemberRecord, PathRecord, Record, SaRequest, ServiceRecord,
};
use snin_mad::{
    Attribute as _, Gid, GidPrefix, Mad, Method, PKey, PortInfo, QKey, Route, Smp, Status,
};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

use super::{GROUPS, PATIENCE, SERVICES};

/// SMPs in flight while the floor is measured, as many as a manager has.
const WINDOW: usize = 128;
/// What is said of a group that is created.
const CREATE: [u8; 9] = [0, 1, 2, 6, 7, 12, 13, 14, 16];
/// Which a request's answer is waited for, before it is asked again.
const SOON: Duration = Duration::from_millis(20);

pub(super) struct Host {
    port: IbsimPort,
    pub(super) manager: Lid,
    count: u64,
}

impl Host {
    pub(super) fn new(simulator: &Simulator, name: &str) -> Self {
        let port = IbsimPort::attach(simulator.name(), Some(name)).expect("a free host");
        Self { port, manager: Lid(1), count: 1 << 20 }
    }

    fn gid(&self) -> Gid {
        Gid::new(GidPrefix(0xFE80_0000_0000_0000), self.port.info().guid)
    }

    /// Asks every address in turn for a path until one answers, the last manager's first.
    pub(super) fn find_manager(&mut self, most: usize) {
        let begin = Instant::now();
        let mut lids = (0..=most as u16).map(Lid).cycle();
        let known = self.manager;
        loop {
            for lid in [known, lids.next().unwrap_or(Lid(1)), lids.next().unwrap_or(Lid(1))] {
                self.manager = lid;
                if lid != Lid::NONE && self.path(SOON / 4) {
                    return;
                }
            }
            assert!(begin.elapsed() < PATIENCE, "no manager answers");
        }
    }

    /// Asks the manager at this address for a path, a thousand times a second, until it answers.
    pub(super) fn wait_for(&mut self, manager: Lid) {
        let begin = Instant::now();
        self.manager = manager;
        while !self.path(SOON / 20) {
            assert!(begin.elapsed() < PATIENCE, "the manager does not answer");
        }
    }

    /// Whether the manager answers a Get(PathRecord) within `wait`.
    pub(super) fn path(&mut self, wait: Duration) -> bool {
        let path = PathRecord { sgid: self.gid(), dgid: self.gid(), ..PathRecord::default() };
        self.ask(Method::Get, &path, &[2, 3], wait) == Some(Status::OK)
    }

    fn group(&self, number: u8) -> McMemberRecord {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1], mgid[15]) = (0xFF, 0x12, number);
        McMemberRecord {
            mgid: Gid(mgid),
            port_gid: self.gid(),
            q_key: QKey(0xB1B),
            p_key: PKey::DEFAULT,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        }
    }

    fn service(&self, id: u64) -> ServiceRecord {
        let (gid, p_key, lease) = (self.gid(), PKey::DEFAULT, u32::MAX);
        ServiceRecord { id, gid, p_key, lease, ..ServiceRecord::default() }
    }

    /// Joins the groups and registers the services.
    pub(super) fn register(&mut self) {
        for number in 0..GROUPS {
            let group = self.group(number);
            self.must(&group, &CREATE);
        }
        for id in 0..SERVICES {
            let service = self.service(id + 1);
            self.must(&service, &[0, 1, 2, 4]);
        }
    }

    fn must<R: Record>(&mut self, record: &R, bits: &[u8]) {
        let begin = Instant::now();
        while self.ask(Method::Set, record, bits, SOON * 10) != Some(Status::OK) {
            assert!(begin.elapsed() < PATIENCE, "nothing can be registered");
        }
    }

    /// How many of them the manager does not know.
    pub(super) fn count_lost(&mut self) -> u64 {
        let mut lost = 0;
        for number in 0..GROUPS {
            let group = self.group(number);
            lost += u64::from(!self.knows(&group, &[0, 1]));
        }
        for id in 0..SERVICES {
            let service = self.service(id + 1);
            lost += u64::from(!self.knows(&service, &[0, 1]));
        }
        lost
    }

    fn knows<R: Record>(&mut self, record: &R, bits: &[u8]) -> bool {
        let mut asked = (0..50).filter_map(|_| self.ask(Method::Get, record, bits, SOON * 10));
        asked.next() == Some(Status::OK)
    }

    /// Asks the manager, and waits so long for the answer.
    fn ask<R: Record>(
        &mut self,
        method: Method,
        record: &R,
        bits: &[u8],
        wait: Duration,
    ) -> Option<Status> {
        self.count += 1;
        let request = SaRequest::new(method, record, ComponentMask::of(bits)).key(1);
        let to =
            Address { lid: self.manager, qp: 1, sl: 0, q_key: QKey(0x8001_0000), p_key_index: 0 };
        self.send(&request.transaction(self.count).mad(), &to);
        let begin = Instant::now();
        while begin.elapsed() < wait {
            let Some(mad) = self.receive() else { continue };
            let header = mad.header();
            let is_answer = header.transaction_id().0 as u32 == self.count as u32;
            // 110: ibsim found no port at that address.
            if is_answer && header.method() == Method::GetResp && header.status().0 != 110 {
                return Some(header.status());
            }
        }
        None
    }

    fn send(&mut self, mad: &Mad, to: &Address) {
        while self.port.send(mad, to).expect("ibsim") == Sent::Full {
            self.wait();
        }
    }

    fn wait(&self) {
        let wait = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let readable = self.port.readable();
        poll(&mut [PollFd::from_borrowed_fd(readable, PollFlags::IN)], Some(&wait)).expect("poll");
    }

    fn receive(&mut self) -> Option<Mad> {
        if let Some(received) = self.port.receive().expect("ibsim") {
            return Some(*received.mad);
        }
        self.wait();
        self.port.receive().expect("ibsim").map(|received| *received.mad)
    }

    /// Sends each of these SMPs; the seconds that takes, and what each port holds then.
    fn ask_ports(&mut self, mads: &[(Lid, Mad)]) -> (f64, Vec<PortInfo>) {
        let (begin, mut held) = (Instant::now(), Vec::new());
        let (mut sent, total) = (0, mads.len());
        while held.len() < total {
            while sent < total && sent - held.len() < WINDOW {
                let (lid, mad) = &mads[sent];
                self.send(mad, &Address { lid: *lid, ..Address::DIRECTED });
                sent += 1;
            }
            if let Some(mad) = self.receive()
                && mad.header().method() == Method::GetResp
            {
                held.push(mad.attribute::<PortInfo>().expect("a PortInfo"));
            }
            assert!(begin.elapsed() < PATIENCE, "{} of {total} answer", held.len());
        }
        (begin.elapsed().as_secs_f64(), held)
    }

    /// What each of these ports holds.
    pub(super) fn read(&mut self, ports: &[Lid]) -> Vec<PortInfo> {
        let get = |&lid: &Lid| (lid, Smp::get(PortInfo::ID, 0, Route::Lid).mad());
        self.ask_ports(&ports.iter().map(get).collect::<Vec<_>>()).1
    }

    /// Seconds that it takes to write to each of these ports the PortInfo that it has.
    pub(super) fn floor(&mut self, ports: &[Lid]) -> f64 {
        let set =
            |info: &PortInfo| (info.lid, Smp::set(PortInfo::ID, 0, Route::Lid).mad().with(info));
        let sets: Vec<(Lid, Mad)> = self.read(ports).iter().map(set).collect();
        self.ask_ports(&sets).0
    }
}
