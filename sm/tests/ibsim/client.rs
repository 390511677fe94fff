//! A host that asks its manager, by ibsim's own sockets and RMPP of its own.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_fabric::{Guid, Lid};
use snin_judges::Simulator;
use snin_mad::rmpp::{self, Policy, Receiver};
use snin_mad::sa::{ComponentMask, Record, SaRequest};
use snin_mad::{Gid, GidPrefix, Mad, Method, QKey, Status};
use snin_protocol::Time;
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

use crate::support::PATIENCE;

/// How soon a question is asked again.
const AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct Host {
    port: IbsimPort,
    manager: Lid,
    count: u64,
}

impl Host {
    /// At the node with this name in the netlist, of a subnet whose manager has this address.
    pub(crate) fn new(simulator: &Simulator, name: &str, manager: u16) -> Self {
        let port = IbsimPort::attach(simulator.name(), Some(name)).unwrap();
        Self { port, manager: Lid(manager), count: 1 }
    }

    pub(crate) fn guid(&self) -> Guid {
        self.port.info().guid
    }

    pub(crate) fn gid(&self) -> Gid {
        Gid::new(GidPrefix(0xFE80_0000_0000_0000), self.guid())
    }

    fn send(&mut self, mad: &Mad) {
        let to =
            Address { lid: self.manager, qp: 1, sl: 0, q_key: QKey(0x8001_0000), p_key_index: 0 };
        while self.port.send(mad, &to).unwrap() == Sent::Full {
            self.wait();
        }
    }

    fn wait(&self) {
        let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let readable = self.port.readable();
        poll(&mut [PollFd::from_borrowed_fd(readable, PollFlags::IN)], Some(&wait)).unwrap();
    }

    /// A question and its answer, all segments of it.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: &SaRequest) -> SaRequest {
        self.count += 1;
        let request = request.clone().transaction(self.count);
        let begin = Instant::now();
        let mut asked: Option<Instant> = None;
        let mut message: Option<Receiver> = None;
        loop {
            if asked.is_none_or(|asked| asked.elapsed() > AGAIN) && message.is_none() {
                self.send(&request.mad());
                asked = Some(Instant::now());
            }
            assert!(begin.elapsed() < PATIENCE, "no answer to {request:?}");
            let Some(received) = self.port.receive().unwrap() else {
                self.wait();
                continue;
            };
            let mad = *received.mad;
            if mad.header().transaction_id().0 as u32 != self.count as u32 {
                continue;
            }
            if !rmpp::is_active(&mad) || mad.rmpp().version() == 0 {
                return SaRequest::parse(&mad).unwrap();
            }
            let policy = Policy { longest: 1 << 26, ..Policy::default() };
            let receiver = message.get_or_insert_with(|| Receiver::new(&mad, policy, Time::ZERO));
            if let Some(reply) = receiver.receive(&mad).reply {
                self.send(&reply);
            }
            let Some(message) = message.as_mut().filter(|message| message.is_done()) else {
                continue;
            };
            let header = SaRequest::parse(message.header()).unwrap();
            return SaRequest { data: message.take().unwrap(), ..header };
        }
    }

    /// Whether nothing answers, however often it is asked in that time.
    pub(crate) fn is_unanswered(&mut self, request: &SaRequest, patience: Duration) -> bool {
        self.count += 1;
        let mad = request.clone().transaction(self.count).mad();
        let (begin, mut asked) = (Instant::now(), 0);
        while begin.elapsed() < patience {
            if begin.elapsed() > patience / 4 * asked {
                self.send(&mad);
                asked += 1;
            }
            match self.port.receive().unwrap() {
                Some(came) if came.mad.header().transaction_id().0 as u32 == self.count as u32 => {
                    return false;
                }
                Some(_) => {}
                None => self.wait(),
            }
        }
        true
    }

    /// One record, or why not.
    #[track_caller]
    pub(crate) fn one<R: Record>(
        &mut self,
        method: Method,
        record: &R,
        bits: &[u8],
    ) -> Result<R, Status> {
        let request = SaRequest::new(method, record, ComponentMask::of(bits)).key(1);
        let answer = self.ask(&request);
        if answer.status.is_ok() { Ok(answer.record().unwrap()) } else { Err(answer.status) }
    }

    /// Every record that matches.
    #[track_caller]
    pub(crate) fn table<R: Record>(&mut self, record: &R, bits: &[u8]) -> Vec<R> {
        let request = SaRequest::new(Method::GetTable, record, ComponentMask::of(bits)).key(1);
        let answer = self.ask(&request);
        assert_eq!(answer.status, Status::OK);
        answer.records().collect()
    }
}
