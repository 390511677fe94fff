//! The questions that this core has asked and waits for, numbered and timed.

use std::collections::{BTreeMap, VecDeque};

use snin_fabric::{Guid, Lid};
use snin_mad::header::Header;
use snin_mad::{
    Attribute, DrPath, MKey, Mad, PERMISSIVE, PortInfo, Route, SmInfo, Smp, TransactionId,
};
use snin_protocol::Time;

use crate::control::Control;
use snin_sm_database::config::Config;
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::mad_address::{Destination, LocalPort};

/// Questions in flight; beyond them the oldest is forgotten.
const MOST: usize = 1_024;

/// How another manager is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Directed(DirectedRoute),
    Lid(Lid),
}

impl Way {
    /// The way back to whom an SMP came from.
    pub(super) fn back(smp: &Smp, port: LocalPort, source: Lid) -> Option<Self> {
        match smp.route {
            Route::Lid => {
                Some(source).filter(|&lid| lid != PERMISSIVE && lid != Lid::NONE).map(Self::Lid)
            }
            // By the ports by which it came, last first (IBA 14.2.2).
            Route::Directed { .. } => {
                let mut ports = smp.return_path.ports().to_vec();
                ports.reverse();
                DrPath::new(&ports).map(|path| Self::Directed(DirectedRoute { path, from: port }))
            }
        }
    }

    const fn route(self) -> Route {
        match self {
            Self::Directed(route) => Route::directed(route.path),
            Self::Lid(_) => Route::Lid,
        }
    }

    const fn destination(self) -> Destination {
        match self {
            Self::Directed(_) => Destination::Directed,
            Self::Lid(lid) => Destination::Lid(lid),
        }
    }
}

/// What a question is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// SMInfo of a manager, and how many writes were sent before it was asked.
    Poll(Guid, u64),
    /// A manager is told something.
    Tell(Guid, Control),
    /// PortInfo of an own port.
    OwnPort(LocalPort),
    /// Trap 144, until the master says that it heard.
    Claim,
}

#[derive(Debug)]
struct Question {
    purpose: Purpose,
    mad: Box<Mad>,
    /// By which port it leaves.
    port: LocalPort,
    to: Destination,
    /// Further ways, by which it is put again in turn.
    again: VecDeque<Way>,
    deadline: Time,
    attribute: u16,
    modifier: u32,
}

#[derive(Debug)]
pub(super) struct Questions {
    first: u32,
    issued: u32,
    timeout: Time,
    attempts: u8,
    in_flight: BTreeMap<u32, Question>,
    /// The port by which what goes to an address leaves.
    seat: LocalPort,
    outputs: VecDeque<Sent>,
}

/// An SMP, whereto, and by which port.
type Sent = (LocalPort, Destination, Box<Mad>);

impl Questions {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            // The sweep's begin at the other half.
            first: (config.seed as u32) ^ 0x8000_0000,
            issued: 0,
            timeout: config.timeout(),
            attempts: config.attempts,
            in_flight: BTreeMap::new(),
            seat: LocalPort(0),
            outputs: VecDeque::new(),
        }
    }

    /// What goes to an address leaves by this port from now on.
    pub(super) const fn sit(&mut self, seat: LocalPort) {
        self.seat = seat;
    }

    pub(super) fn next(&mut self) -> Option<Sent> {
        self.outputs.pop_front()
    }

    pub(super) fn knows(&self, id: TransactionId) -> bool {
        self.in_flight.contains_key(&(id.0 as u32))
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.in_flight.values().map(|question| question.deadline).min()
    }

    /// Asks a manager what it is, once, after so many writes.
    pub(super) fn poll(
        &mut self,
        (peer, written): (Guid, u64),
        way: Way,
        m_key: MKey,
        own: &SmInfo,
        until: Time,
    ) {
        let mad = Smp::get(SmInfo::ID, 0, way.route()).m_key(m_key).mad().with(own);
        self.put(Purpose::Poll(peer, written), mad, way, VecDeque::new(), until);
    }

    /// Asks an own port, by a path of no hops.
    pub(super) fn own_port(&mut self, port: LocalPort, now: Time) {
        let way = Way::Directed(DirectedRoute::here(port));
        let mad = Smp::get(PortInfo::ID, 0, way.route()).mad();
        self.put(Purpose::OwnPort(port), mad, way, VecDeque::new(), now + self.timeout);
    }

    /// Tells a manager something, by all ways in turn.
    pub(super) fn tell(
        &mut self,
        peer: Guid,
        control: Control,
        ways: &[Way],
        m_key: MKey,
        own: &SmInfo,
        now: Time,
    ) -> bool {
        let Some((&way, _)) = ways.split_first() else { return false };
        let again = ways.iter().copied().cycle().take(usize::from(self.attempts)).skip(1).collect();
        let mad = Smp::set(SmInfo::ID, control.modifier(), way.route()).m_key(m_key);
        self.put(Purpose::Tell(peer, control), mad.mad().with(own), way, again, now + self.timeout);
        true
    }

    /// A trap to a manager.
    pub(super) fn trap(&mut self, notice: &snin_mad::Notice, to: Lid, now: Time) {
        let way = Way::Lid(to);
        let again =
            std::iter::repeat_n(way, usize::from(self.attempts.saturating_sub(1))).collect();
        let mad = Smp::trap().mad().with(notice);
        self.put(Purpose::Claim, mad, way, again, now + self.timeout);
    }

    fn put(
        &mut self,
        purpose: Purpose,
        mut mad: Mad,
        way: Way,
        again: VecDeque<Way>,
        deadline: Time,
    ) {
        let id = self.first.wrapping_add(self.issued);
        self.issued = self.issued.wrapping_add(1);
        Header::edit(&mut mad.0).transaction_id(TransactionId(id.into()));
        let header = mad.header();
        let (attribute, modifier) = (header.attribute().0, header.modifier().0);
        let (mad, port, to) = (Box::new(mad), self.leaves_by(way), way.destination());
        self.outputs.push_back((port, to, mad.clone()));
        let question = Question { purpose, mad, port, to, again, deadline, attribute, modifier };
        self.in_flight.insert(id, question);
        if self.in_flight.len() > MOST {
            self.in_flight.pop_first();
        }
    }

    fn leaves_by(&self, way: Way) -> LocalPort {
        match way {
            Way::Directed(route) => route.from,
            Way::Lid(_) => self.seat,
        }
    }

    /// What an answer is about, if it is one.
    pub(super) fn take(&mut self, port: LocalPort, smp: &Smp) -> Option<Purpose> {
        let id = smp.transaction_id.0 as u32;
        let question = self.in_flight.get(&id)?;
        let same = (question.attribute, question.modifier) == (smp.attribute.0, smp.modifier);
        let directed = matches!(question.to, Destination::Directed);
        let back = !directed || smp.returning;
        (same && back && port == question.port)
            .then(|| self.in_flight.remove(&id))
            .flatten()
            .map(|asked| asked.purpose)
    }

    /// Forgets what was asked.
    pub(super) fn forget(&mut self, is_it: impl Fn(Purpose) -> bool) {
        self.in_flight.retain(|_, question| !is_it(question.purpose));
    }

    /// The next question that is given up; those that are put again are.
    pub(super) fn expire(&mut self, now: Time) -> Option<Purpose> {
        loop {
            let due = self.in_flight.iter().find(|(_, question)| question.deadline <= now);
            let id = *due?.0;
            let mut question = self.in_flight.remove(&id)?;
            let Some(way) = question.again.pop_front() else { return Some(question.purpose) };
            let smp = Smp::parse(&question.mad.0).ok()?;
            // By another way it is another class: all but the attribute is made anew.
            let again = Smp { route: way.route(), hop_pointer: 0, ..blank(&smp, way) };
            let mut mad = again.mad();
            mad.0[64..128].copy_from_slice(&question.mad.0[64..128]);
            (question.mad, question.to) = (Box::new(mad), way.destination());
            question.port = self.leaves_by(way);
            question.deadline = now + self.timeout;
            self.outputs.push_back((question.port, question.to, question.mad.clone()));
            self.in_flight.insert(id, question);
        }
    }
}

fn blank(smp: &Smp, way: Way) -> Smp {
    let fresh = Smp::get(smp.attribute, smp.modifier, way.route());
    Smp { method: smp.method, transaction_id: smp.transaction_id, m_key: smp.m_key, ..fresh }
}
