//! Mastership: which of a subnet's managers is master, and how one hands over to another (IBA 14.4).
//!
//! ```text
//!              no master, or none before this one          HANDOVER taken, or another goes before
//!  DISCOVERING ----------------------------------> MASTER ---------------------------------------+
//!    ^   |  a master, or one that goes before        ^                                           |
//!    |   +-------------------> STANDBY <-------------|-------------------------------------------+
//!    |  DISCOVER, or all is     |  ^  |   HANDOVER   |
//!    |  silent for long enough  |  |  +--------------+
//!    +--------------------------+  |
//!                     DISABLE |    | STANDBY
//!                             v    |
//!                           NOT-ACTIVE
//! ```
//!
//! This core knows ports, addresses and times, and nothing of the fabric: a survey's
//! [`Found`](snin_sm_database::managers::Found) tells it where managers sit, and its [`Order`]s tell the sweep
//! what it may do. Every other manager is polled by itself, at all times. A standby polls by directed route and
//! by LID; only when both stay without an answer for long enough is a master dead.

mod bursts;
mod control;
mod copies;
mod decide;
mod elected;
mod handover;
mod joining;
mod peers;
mod polls;
mod questions;
mod rank;
mod search;
mod seat;
mod splitting;

use std::collections::{BTreeMap, VecDeque};

use snin_fabric::{Guid, Lid};
use snin_mad::{Attribute, Mad, Method, SmInfo, SmKey, SmState, Smp, Status, TransactionId};
use snin_protocol::Time;

use crate::cluster::Mandate;
use crate::report::Report;
use snin_sm_database::config::Config;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::managers::{Order, Own};

pub use peers::Standing;

use bursts::Bursts;
use copies::Copies;
use decide::Hold;
use handover::{Handing, Linger};
use peers::Peer;
use questions::{Questions, Way};
use rank::Rank;
use search::Search;
use seat::Home;

/// A manager whose deadlines are missed by so much stood still: another may be master by now. Less where
/// managers count as dead sooner.
const STALL: Time = Time::secs(2);
/// Other managers that are heeded; beyond them a port is not polled.
const MOST_PEERS: usize = 64;

/// Questions that wait until this manager knows where it sits: IsSM is set before, and some ask at once.
const MOST_EARLY: usize = 16;

/// Something is to be done.
#[derive(Debug)]
pub enum Output {
    /// Send an SMP.
    Send {
        /// By which port.
        port: LocalPort,
        /// Whereto.
        to: Destination,
        /// What.
        mad: Box<Mad>,
    },
    /// Tell the operator.
    Report(Report),
    /// Have the sweep do this.
    Order(Order),
}

/// The core that knows who is master.
#[derive(Debug)]
pub struct Mastership {
    sm_key: u64,
    rank: Rank,
    poll: Time,
    retries: u32,
    state: SmState,
    /// What it was last reported to be.
    told: SmState,
    /// Why this manager is what it is.
    why: String,
    home: Home,
    peers: BTreeMap<Guid, Peer>,
    questions: Questions,
    /// Mastership is being handed over.
    handing: Option<Handing>,
    /// This manager handed over, and answers subnet administration until the new one has taken over.
    linger: Option<Linger>,
    hold: Hold,
    search: Search,
    copies: Copies,
    bursts: Bursts,
    /// What SMInfo shows as this manager's activity.
    pub activity: u32,
    /// The table of managers is to be written anew.
    changed: bool,
    outputs: VecDeque<Output>,
}

impl Mastership {
    /// A manager that has looked at nothing yet.
    pub fn new(config: &Config) -> Self {
        Self {
            sm_key: config.sm_key,
            rank: Rank::new(config),
            poll: config.poll_interval(),
            retries: config.poll_retries,
            state: SmState::Discovering,
            told: SmState::Discovering,
            why: "it has begun".to_owned(),
            home: Home::new(config.ports),
            peers: BTreeMap::new(),
            questions: Questions::new(config),
            handing: None,
            linger: None,
            hold: Hold::default(),
            search: Search::default(),
            copies: Copies::default(),
            bursts: Bursts::new(config),
            activity: 0,
            changed: false,
            outputs: VecDeque::new(),
        }
    }

    /// What this manager is.
    pub const fn state(&self) -> SmState {
        self.state
    }

    /// Why.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The next thing to be done, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether the managers changed since this was last asked.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        let polls = self.is_active().then(|| self.next_poll()).flatten();
        let quiet = self.handing.as_ref().and_then(Handing::next_deadline);
        [polls, quiet, self.questions.next_deadline()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(given_up) = self.questions.expire(now) {
            self.unanswered(given_up, now);
        }
        if self.handing.as_ref().and_then(Handing::next_deadline).is_some_and(|due| due <= now) {
            self.quiet(now);
        }
        if self.is_active() {
            self.poll_peers(now);
        }
        self.flush();
    }

    /// How long this manager may stand still and need not ask who is there: half of the silence after which others
    /// take it for dead.
    fn stall(&self) -> Time {
        STALL.min(self.poll * (u64::from(self.retries) + 1) / 2)
    }

    /// NOT-ACTIVE: it does nothing until it is told to.
    fn is_active(&self) -> bool {
        self.state != SmState::NotActive
    }

    fn set_state(&mut self, state: SmState, why: String) {
        if self.state != state {
            (self.state, self.why, self.changed) = (state, why, true);
            // A standby that only had a look is what it was.
            if std::mem::replace(&mut self.told, state) != state {
                self.outputs.push_back(Output::Report(Report::State(state)));
            }
        }
    }

    fn order(&mut self, order: Order) {
        self.outputs.push_back(Output::Order(order));
    }

    /// What this manager says of itself, once it knows where it sits.
    pub fn info(&self) -> Option<SmInfo> {
        let own = self.home.own.as_ref()?;
        Some(SmInfo {
            guid: own.guid,
            sm_key: SmKey(0),
            act_count: self.activity,
            priority: self.shown_priority(),
            state: self.state,
        })
    }

    /// Whether this manager knows where it sits.
    pub const fn knows_itself(&self) -> bool {
        self.home.own.is_some()
    }

    /// This manager's port is known from now on: who asked before is answered.
    pub fn introduce(&mut self, own: Own, now: Time) {
        (self.home.own, self.changed) = (Some(own), true);
        for (port, source, mad, smp) in std::mem::take(&mut self.home.early) {
            // It was taken once, and has a way back.
            let _ = self.asked((port, source), &mad, &smp, now);
        }
    }

    /// What the operator made of this manager's priority.
    pub const fn operators_priority(&self) -> u8 {
        self.rank.operator
    }

    /// What SMInfo shows.
    fn shown_priority(&self) -> u8 {
        self.rank.shown()
    }

    /// The operator gives this manager another priority.
    pub fn set_priority(&mut self, priority: u8, now: Time) {
        let before = self.shown_priority();
        self.rank.operator = priority;
        self.reconsider(before, now);
    }

    /// What the cluster wants of this manager.
    pub fn set_mandate(&mut self, mandate: Mandate, now: Time) {
        let before = self.shown_priority();
        self.rank.mandate = Some(mandate);
        self.reconsider(before, now);
    }

    fn reconsider(&mut self, before: u8, now: Time) {
        if self.shown_priority() != before {
            (self.changed, self.search.claim) = (true, None);
            if self.state == SmState::Standby {
                self.tell_master(now);
            }
            self.consider(now);
            self.flush();
        }
    }

    /// The order by which this manager becomes master after another.
    fn begin(&self) -> Order {
        if self.has_copy() { Order::TakeOver } else { Order::Begin }
    }

    /// Whether this is an answer that this core waits for.
    pub fn waits_for(&self, id: TransactionId) -> bool {
        self.questions.knows(id)
    }

    /// Takes an SMP about SMInfo, or the answer to one of this core's questions.
    pub fn handle(
        &mut self,
        source: (LocalPort, Lid),
        mad: &Mad,
        smp: &Smp,
        now: Time,
    ) -> Result<(), Dropped> {
        let done = match smp.method {
            Method::Get => self.asked(source, mad, smp, now),
            Method::Set => self.told(source, mad, smp, now),
            _ => self.answered(source.0, mad, smp, now),
        };
        self.flush();
        done
    }

    /// A node asks who is master here.
    fn asked(
        &mut self,
        (port, source): (LocalPort, Lid),
        mad: &Mad,
        smp: &Smp,
        now: Time,
    ) -> Result<(), Dropped> {
        let asker = mad.attribute::<SmInfo>().ok();
        let way = Way::back(smp, port, source).ok_or(Dropped::Request)?;
        let Some(mut info) = self.info() else {
            if self.home.early.len() >= MOST_EARLY {
                return Err(Dropped::Request);
            }
            self.home.early.push_back((port, source, mad.clone(), *smp));
            return Ok(());
        };
        // A manager that shows another key is shown none (IBA 14.4.7). A manager that shows none is shown the key:
        // OpenSM never shows one, and heeds no manager whose key it does not see.
        let shown = asker.as_ref().map_or(SmKey(0), |asker| asker.sm_key);
        if shown == SmKey(0) || shown == SmKey(self.sm_key) {
            info.sm_key = SmKey(self.sm_key);
        }
        self.reply((port, source), mad, smp, &info, Status::OK);
        if let Some(asker) = asker.filter(|asker| asker.guid != Guid(0) && asker.guid != info.guid)
        {
            self.met(asker, way, now);
        }
        Ok(())
    }

    fn reply(
        &mut self,
        (port, source): (LocalPort, Lid),
        mad: &Mad,
        smp: &Smp,
        info: &SmInfo,
        status: Status,
    ) {
        let to = match smp.route {
            snin_mad::Route::Directed { .. } => Destination::Directed,
            snin_mad::Route::Lid => Destination::Lid(source),
        };
        let mut answer = Box::new(mad.clone().with(info));
        answer.answer(status);
        self.outputs.push_back(Output::Send { port, to, mad: answer });
    }

    /// Puts what is to be asked into the outputs.
    fn flush(&mut self) {
        while let Some((port, to, mad)) = self.questions.next() {
            self.outputs.push_back(Output::Send { port, to, mad });
        }
    }
}

/// The attribute by which managers speak to each other.
pub const SM_INFO: u16 = SmInfo::ID.0;
