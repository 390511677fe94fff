//! Processes, and the sessions between them: in order, late, cut now and then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::RngExt as _;
use snin_protocol::Time;
use snin_protocol::message::{FromAgent, ToAgent};
use snin_protocol::mirror::{FromMaster, FromStandby};
use snin_protocol::view::{FromManager, ToManager};

use super::site::{Happening, Site};

/// A peer that says nothing for so long is gone: as the daemons have it where others may be called instead.
const IDLE: Time = Time::secs(2);
/// The pause before a called end is called again, at first and at most.
const FIRST_PAUSE: Time = Time::millis(50);
const LONGEST_PAUSE: Time = Time::secs(1);

/// Who runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Process {
    Manager(usize),
    Controller(usize),
    Agent(usize),
}

impl Process {
    /// Its kind's place among kinds, and its own among those of its kind.
    pub(super) const fn place(self) -> (usize, usize) {
        match self {
            Self::Manager(n) => (0, n),
            Self::Controller(n) => (1, n),
            Self::Agent(n) => (2, n),
        }
    }
}

/// How it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Running {
    Runs,
    /// As by SIGSTOP: what comes in waits, its own deadlines pass.
    Stopped,
    Dead,
}

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Service {
    /// An agent calls a controller.
    Grants,
    /// A controller calls a manager.
    Views,
    /// A manager calls another one.
    Mirror,
}

/// What one end says.
#[derive(Clone, Debug)]
pub(super) enum Said {
    FromAgent(FromAgent),
    ToAgent(Arc<ToAgent>),
    FromManager(FromManager),
    ToManager(ToManager),
    FromMaster(FromMaster),
    FromStandby(FromStandby),
}

/// What a process hears of a session.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    Opened { session: u64, service: Service, peer: Process, calls: bool },
    Closed { session: u64, service: Service, peer: Process },
    Said { session: u64, peer: Process, said: Said },
}

/// A session, as the kernels at both ends know it.
#[derive(Debug)]
pub(super) struct Session {
    service: Service,
    /// Who called, and who was called.
    ends: [Process; 2],
    /// When what was said last arrives, by who says it.
    arrives: [Time; 2],
    /// What was said while the way was cut.
    held: VecDeque<(usize, Said)>,
}

/// A process that calls.
#[derive(Debug)]
pub(super) struct Caller {
    targets: Vec<Process>,
    place: usize,
    refused: usize,
    pause: Time,
    pub(super) session: Option<u64>,
}

/// What the processes of a site are joined by.
#[derive(Debug, Default)]
pub(super) struct Net {
    pub(super) sessions: BTreeMap<u64, Session>,
    made: u64,
    pub(super) callers: BTreeMap<(Process, Service, usize), Caller>,
    /// Ways that carry nothing, each with its processes in order, and since when.
    pub(super) cuts: BTreeMap<(Process, Process), Time>,
}

impl Net {
    /// A process will call the first of these that answers. `number` tells apart those of one service.
    pub(super) fn add_caller(
        &mut self,
        process: Process,
        service: Service,
        number: usize,
        targets: Vec<Process>,
    ) {
        let (place, refused, pause, session) = (0, 0, FIRST_PAUSE, None);
        let caller = Caller { targets, place, refused, pause, session };
        self.callers.insert((process, service, number), caller);
    }

    fn is_cut(&self, a: Process, b: Process) -> bool {
        self.cuts.contains_key(&(a.min(b), a.max(b)))
    }
}

impl Site {
    /// How long a message takes.
    fn latency(&mut self) -> Time {
        Time(self.rng.random_range(100_000..400_000))
    }

    /// Every caller of a process that has begun calls.
    pub(super) fn begin_calling(&mut self, process: Process) {
        let life = self.life(process);
        let own = |key: &&(Process, Service, usize)| key.0 == process;
        let keys: Vec<_> = self.net.callers.keys().filter(own).copied().collect();
        for key in keys {
            if let Some(caller) = self.net.callers.get_mut(&key) {
                (caller.session, caller.refused, caller.pause) = (None, 0, FIRST_PAUSE);
            }
            self.plan(Time::micros(100), Happening::Call { key, life });
        }
    }

    pub(super) fn call(&mut self, key: (Process, Service, usize), life: u32) {
        let (process, service, _) = key;
        if self.life(process) != life || self.running(process) == Running::Dead {
            return;
        }
        let again = |site: &mut Self, after: Time| site.plan(after, Happening::Call { key, life });
        if self.running(process) == Running::Stopped {
            return again(self, Time::millis(100));
        }
        let Some(caller) = self.net.callers.get_mut(&key) else { return };
        if caller.session.is_some() {
            return;
        }
        let target = caller.targets[caller.place];
        if self.running(target) == Running::Stopped || self.net.is_cut(process, target) {
            // The handshake is waited for in vain.
            let Some(caller) = self.net.callers.get_mut(&key) else { return };
            caller.place = (caller.place + 1) % caller.targets.len();
            return again(self, IDLE);
        }
        if self.listens(target, service) {
            return self.open(key, target);
        }
        let jitter = self.rng.random_range(50..100);
        let Some(caller) = self.net.callers.get_mut(&key) else { return };
        caller.place = (caller.place + 1) % caller.targets.len();
        caller.refused += 1;
        if caller.refused < caller.targets.len() {
            return again(self, Time::micros(200));
        }
        caller.refused = 0;
        let pause = caller.pause * jitter / 100;
        caller.pause = (caller.pause * 3 / 2).min(LONGEST_PAUSE);
        again(self, pause);
    }

    fn open(&mut self, key: (Process, Service, usize), target: Process) {
        let (process, service, _) = key;
        self.net.made += 1;
        let id = self.net.made;
        let after = self.latency();
        let arrives = [self.now() + after; 2];
        let (ends, held) = ([process, target], VecDeque::new());
        self.net.sessions.insert(id, Session { service, ends, arrives, held });
        if let Some(caller) = self.net.callers.get_mut(&key) {
            (caller.session, caller.refused, caller.pause) = (Some(id), 0, FIRST_PAUSE);
        }
        for (end, peer, calls) in [(target, process, false), (process, target, true)] {
            let heard = Heard::Opened { session: id, service, peer, calls };
            self.deliver_after(end, heard, after);
        }
    }

    fn deliver_after(&mut self, to: Process, heard: Heard, after: Time) {
        let life = self.life(to);
        self.plan(after, Happening::Hear { to, life, heard: Box::new(heard) });
    }

    /// One end of a session says something.
    pub(super) fn say(&mut self, id: u64, by: Process, said: Said) {
        let late = self.latency();
        let now = self.now();
        let Some(session) = self.net.sessions.get_mut(&id) else { return };
        let from = usize::from(session.ends[1] == by);
        let [a, b] = session.ends;
        if self.net.cuts.contains_key(&(a.min(b), a.max(b))) {
            session.held.push_back((from, said));
            return;
        }
        let at = (now + late).max(session.arrives[from] + Time(1));
        session.arrives[from] = at;
        let to = session.ends[1 - from];
        self.deliver_after(to, Heard::Said { session: id, peer: by, said }, at - now);
    }

    /// A session ends: each end that lives hears of it after a while.
    pub(super) fn close(&mut self, id: u64) {
        let Some(session) = self.net.sessions.remove(&id) else { return };
        let [a, b] = session.ends;
        for (end, peer) in [(a, b), (b, a)] {
            let heard = Heard::Closed { session: id, service: session.service, peer };
            let after = self.latency();
            self.deliver_after(end, heard, after);
        }
    }

    /// All sessions of a process end.
    pub(super) fn close_all(&mut self, of: Process, service: Option<Service>) {
        let is_of = |session: &Session| {
            let called = session.ends[1] == of;
            match service {
                Some(service) => called && session.service == service,
                None => called || session.ends[0] == of,
            }
        };
        let ids: Vec<u64> =
            self.net.sessions.iter().filter(|(_, s)| is_of(s)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    /// A caller hears that its session is over: it calls again.
    pub(super) fn caller_closed(&mut self, process: Process, id: u64) {
        let life = self.life(process);
        let pause = Time::millis(self.rng.random_range(25..50));
        let own = |(key, caller): &(&(Process, Service, usize), &mut Caller)| {
            key.0 == process && caller.session == Some(id)
        };
        let Some((&key, caller)) = self.net.callers.iter_mut().find(own) else { return };
        caller.session = None;
        self.plan(pause, Happening::Call { key, life });
    }

    /// From now on one end of these sessions says nothing: if that lasts they are over.
    pub(super) fn watch_silence(&mut self, of: Process) {
        let concerned = self.net.sessions.iter().filter(|(_, session)| session.ends.contains(&of));
        let ids: Vec<u64> = concerned.map(|(id, _)| *id).collect();
        let since = self.now();
        ids.into_iter().for_each(|id| self.plan(IDLE, Happening::Silent { session: id, since }));
    }

    pub(super) fn silent(&mut self, id: u64, since: Time) {
        let Some(session) = self.net.sessions.get(&id) else { return };
        let [a, b] = session.ends;
        let cut = self.net.cuts.get(&(a.min(b), a.max(b))).copied();
        let stopped = [a, b].map(|end| self.stopped_since(end));
        if cut.into_iter().chain(stopped.into_iter().flatten()).any(|from| from <= since) {
            // Who called tries the next.
            let own = |(key, caller): &(&(Process, Service, usize), &mut Caller)| {
                key.0 == a && caller.session == Some(id)
            };
            if let Some((_, caller)) = self.net.callers.iter_mut().find(own) {
                caller.place = (caller.place + 1) % caller.targets.len();
            }
            self.close(id);
        }
    }

    /// The way between two processes carries nothing, or carries again what was said.
    pub(super) fn set_way(&mut self, a: Process, b: Process, whole: bool) {
        let (way, now) = ((a.min(b), a.max(b)), self.now());
        if !whole {
            self.net.cuts.entry(way).or_insert(now);
            return self.watch_silence(a);
        }
        if self.net.cuts.remove(&way).is_none() {
            return;
        }
        let both: BTreeSet<Process> = [a, b].into();
        let of_way = |session: &Session| both.iter().all(|end| session.ends.contains(end));
        let ids: Vec<u64> =
            self.net.sessions.iter().filter(|(_, s)| of_way(s)).map(|(id, _)| *id).collect();
        for id in ids {
            let held =
                self.net.sessions.get_mut(&id).map(|s| (s.ends, std::mem::take(&mut s.held)));
            let Some((ends, held)) = held else { continue };
            held.into_iter().for_each(|(from, said)| self.say(id, ends[from], said));
        }
    }
}
