//! Decisions that follow from the other managers' words.

use std::collections::BTreeSet;

use snin_fabric::{Guid, Lid};
use snin_mad::notice::LocalChangeDetails;
use snin_mad::port::Capabilities;
use snin_mad::{Notice, SmInfo, SmState, Trap};
use snin_protocol::Time;

use super::peers::rank;
use super::{Mastership, Order};
use crate::report::Report;

/// How often a standby that goes before its master says so, and how many times.
const CLAIM: (Time, u32) = (Time::secs(5), 12);

/// What keeps this manager from writing, and whether it does.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// After this manager stood still: who has to answer, or to be silent, before anything is written.
    pub(super) fence: BTreeSet<Guid>,
    /// Other masters. When one ends, all that it may have written is read again.
    pub(super) rivals: BTreeSet<Guid>,
    /// The sweep was told to write nothing.
    pub(super) held: bool,
}

impl Mastership {
    /// The end of a survey: whether this manager goes on. `ended`: a master beside it is gone.
    pub(super) fn conclude(&mut self, ended: bool, now: Time) {
        match self.state {
            SmState::Discovering => {
                self.report_peers();
                match self.goes_before() {
                    Some((guid, why)) => self.become_standby(format!("{guid} {why}"), now),
                    None if !self.may_be_master() => self.await_election(),
                    None => {
                        let why = match self.heeded().next() {
                            None => "no other manager answers",
                            Some(_) => "it goes before all others, and none was master",
                        };
                        self.set_state(SmState::Master, why.to_owned());
                        self.order(Order::Proceed);
                        self.consider(now);
                    }
                }
            }
            SmState::Master if ended => {
                self.order(Order::Begin);
                self.consider(now);
            }
            SmState::Master => {
                self.consider(now);
                if self.state == SmState::Master && !self.hold.held {
                    self.order(Order::Proceed);
                }
            }
            _ => self.order(Order::StandAside),
        }
    }

    /// A manager that goes before one that only begins: any master, or one that begins too and outranks it.
    pub(super) fn goes_before(&self) -> Option<(Guid, &'static str)> {
        let own = self.info()?;
        let goes_before = |info: &SmInfo| match info.state {
            SmState::Master => Some("is master"),
            SmState::Standby if self.copies.blank => {
                Some("may have a copy of what this manager has lost")
            }
            SmState::Discovering if rank(info) > rank(&own) => {
                Some("begins too, and goes before it")
            }
            _ => None,
        };
        self.heeded().find_map(|(guid, info)| Some((guid, goes_before(info)?)))
    }

    pub(super) fn consider(&mut self, now: Time) {
        self.report_peers();
        self.lower_fence();
        self.watch_foreign();
        match self.state {
            SmState::Discovering => self.watch_election(now),
            SmState::Standby => self.watch_master(now),
            SmState::Master => self.watch_others(now),
            _ => {}
        }
        self.hold_or_resume(now);
    }

    /// A standby: is there a master?
    fn watch_master(&mut self, now: Time) {
        let masters = self.heeded().filter(|(_, info)| info.state == SmState::Master);
        let master =
            masters.max_by_key(|(_, info)| rank(info)).map(|(guid, info)| (guid, rank(info)));
        if let Some((guid, master)) = master {
            (self.search.lost, self.search.master) = (None, Some(guid));
            let outranks = self.info().is_some_and(|own| rank(&own) > master);
            if !outranks {
                self.search.claim = None;
            } else if self.search.claim.is_none() {
                self.search.claim = Some((now, CLAIM.1));
            }
            return self.look_for(guid, now);
        }
        // Behind a port without a link no other manager is heard, and no host is served.
        if self.is_cut() {
            self.search.lost = None;
            return;
        }
        let Some(since) = self.search.lost else {
            self.search.lost = Some(now);
            return self.poll_all(now);
        };
        // Perhaps one has just become master: all that live are heard first.
        let unheard = self.heeded().any(|(guid, _)| self.heard_since(guid) <= Some(since));
        let own = self.info();
        let outranks = |info: &SmInfo| own.as_ref().is_some_and(|own| rank(info) > rank(own));
        let waits = matches!(self.first_to_go(), Some(info) if outranks(&info));
        let patience = self.poll * (u64::from(self.retries) + 1) * 2;
        // A manager that knows nothing lets all go first that may know something.
        let yields = self.copies.blank && self.first_to_go().is_some();
        let waits = waits && now < since + patience || yields && now < since + patience * 3;
        if unheard || waits || !self.may_be_master() {
            return;
        }
        (self.search.lost, self.copies.blank, self.search.beside) = (None, false, false);
        let why = "no manager says that it is master";
        self.set_state(SmState::Discovering, why.to_owned());
        self.order(Order::Rekey);
        self.order(self.begin());
    }

    fn heard_since(&self, guid: Guid) -> Option<Time> {
        self.peers.get(&guid).and_then(|peer| peer.heard)
    }

    /// Of the others that could be master, the one that goes first.
    fn first_to_go(&self) -> Option<SmInfo> {
        let could = |info: &&SmInfo| info.state != SmState::NotActive;
        self.heeded().map(|(_, info)| info).filter(could).max_by_key(|info| rank(info)).cloned()
    }

    /// A master: is there another, or one that goes before?
    fn watch_others(&mut self, now: Time) {
        let rivals: BTreeSet<Guid> = self.rivals().map(|(guid, ..)| guid).collect();
        let ended = self.hold.rivals.iter().any(|guid| !rivals.contains(guid));
        let foreign: Vec<(Guid, String)> = self
            .rivals()
            .filter(|(guid, _, foreign)| *foreign && !self.hold.rivals.contains(guid))
            .map(|(guid, at, _)| (guid, at.to_owned()))
            .collect();
        self.hold.rivals = rivals;
        for (guid, at) in foreign {
            self.report(Report::ForeignMaster { guid, at });
        }
        if ended && !self.hold.held {
            self.order(Order::Begin);
        }
        self.note_joining(now);
        let Some(own) = self.info() else { return };
        let takes = |info: &SmInfo| matches!(info.state, SmState::Standby | SmState::Master);
        let before = self.heeded();
        let before = before
            .filter(|(_, info)| takes(info) && rank(info) > rank(&own) && self.yields_to(info));
        // A master goes first: of several one has to go on, and it waits for the copy of the one that follows it.
        let first = before.max_by_key(|(_, info)| (info.state == SmState::Master, rank(info)));
        let first = first.map(|(guid, _)| guid);
        if let Some(first) = first {
            self.hand_over(first, now);
        }
    }

    /// Nothing is written while mastership is being handed over, while it is not known whether another manager
    /// is master by now, beside a master of another SM_Key, and while another subnet is about to be joined.
    fn hold_or_resume(&mut self, now: Time) {
        if self.state != SmState::Master {
            return;
        }
        let foreign = self.rivals().any(|(.., foreign)| foreign);
        let joins = self.is_joining(now, &BTreeSet::new()) || self.yields();
        let holds = self.handing.is_some() || !self.hold.fence.is_empty() || foreign || joins;
        if holds != self.hold.held {
            self.hold.held = holds;
            self.order(if holds { Order::Hold } else { Order::Resume });
        }
    }

    /// Whether a master of another subnet goes before this one: it writes, and no other manager does.
    fn yields(&self) -> bool {
        let Some(own) = self.info() else { return false };
        self.heeded().any(|(guid, info)| {
            info.state == SmState::Master
                && rank(info) > rank(&own)
                && !self.copies.kin.contains(&guid)
        })
    }

    /// A manager that answered, or does not live any more, need not be waited for.
    fn lower_fence(&mut self) {
        let fence = std::mem::take(&mut self.hold.fence);
        let waits = |guid: &Guid| {
            self.peers.get(guid).is_some_and(|peer| peer.waiting && self.is_living(peer))
        };
        self.hold.fence = fence.into_iter().filter(waits).collect();
    }

    /// Whether this manager stood still, as a stopped process or a machine without time does: what was due at
    /// `due` was not done. A master asks every other manager before it writes again.
    pub fn notice_stall(&mut self, due: Option<Time>, now: Time) {
        if due.is_some_and(|due| now > due + self.stall()) {
            self.stood_still(now);
        }
    }

    /// This manager stood still, or was cut off: it knows of no other what that is by now.
    pub(super) fn stood_still(&mut self, now: Time) {
        // Silence meanwhile means nothing.
        for peer in self.peers.values_mut() {
            (peer.waiting, peer.unanswered, peer.unreached) = (false, 0, 0);
        }
        let guids: Vec<Guid> = self.peers.keys().copied().collect();
        for &guid in &guids {
            self.poll_one(guid, now);
        }
        if self.state == SmState::Master {
            self.hold.fence = guids.into_iter().collect();
            self.lower_fence();
            self.hold_or_resume(now);
        }
        self.flush();
    }

    /// A standby tells the master that it goes before it (trap 144), now and then until it is heard.
    pub(super) fn repeat_claim(&mut self, now: Time) {
        if let Some((due, left)) = self.search.claim
            && due <= now
        {
            self.tell_master(now);
            self.search.claim = Some((now + CLAIM.0, left.saturating_sub(1)));
            if left == 0 {
                self.search.claim = Some((Time::MAX, 0));
            }
        }
    }

    /// Trap 144: the priority of the manager here is another than it was, or worth a look.
    pub(super) fn tell_master(&mut self, now: Time) {
        let Some(port) = self.port() else { return };
        let (lid, master) = (port.lid, port.master_sm_lid);
        if lid == Lid::NONE || master == Lid::NONE || master == lid {
            return;
        }
        let details = LocalChangeDetails {
            lid,
            other_local_changes: true,
            capabilities: port.capabilities.with(Capabilities::SM),
            sm_priority_change: true,
            ..LocalChangeDetails::default()
        };
        // The issuer is a class manager (IBA 14.3).
        let notice = Notice::generic(&Trap::LocalChange(details), 4, lid);
        self.questions.trap(&notice, master, now);
    }
}
