//! Other managers: where they sit, what they said of themselves, and when.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use snin_fabric::{Guid, Lid};
use snin_mad::{MKey, SmInfo, SmKey, SmState};
use snin_protocol::Time;

use super::questions::Way;
use super::{MOST_PEERS, Mastership, Own};
use crate::report::Report;
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::managers::Found;
use snin_sm_database::records::{Database, Manager, Managers, Place};

/// Another manager.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Its port; none of one that spoke before any survey met it.
    place: Option<Place>,
    at: String,
    lid: Lid,
    route: Option<DirectedRoute>,
    pub(super) m_key: MKey,
    /// What it last said of itself, if it ever did.
    pub(super) info: Option<SmInfo>,
    /// What was last reported of it, and under which name.
    told: Option<SmInfo>,
    told_at: String,
    /// Polls in a row without an answer.
    pub(super) unanswered: u32,
    /// Polls in a row that it did not answer, whether it spoke in a session or not.
    pub(super) unreached: u32,
    /// It was polled and has not answered yet.
    pub(super) waiting: bool,
    pub(super) due: Time,
    /// It spoke in a session since it was last polled.
    pub(super) spoke: bool,
    /// When it last answered.
    pub(super) heard: Option<Time>,
    /// Writes that this manager had sent when it put the last question that was answered.
    pub(super) cleared: u64,
    /// It showed another SM_Key.
    pub(super) foreign: bool,
    /// Since when it is to have mastership, and a copy of the database first.
    pub(super) awaited: Option<Time>,
    /// It was master of a subnet that is joined to this one: until when that is waited for.
    pub(super) joins: Option<Time>,
    /// Mastership is not offered to it before.
    pub(super) not_before: Time,
}

impl Peer {
    /// Whether it answers by the fabric.
    pub(super) fn is_reached(&self, retries: u32) -> bool {
        self.info.is_some() && self.unreached <= retries
    }

    /// How it is reached. `master`: the address of the master, as ports know it.
    pub(super) fn ways(&self, master: Option<Lid>) -> Vec<Way> {
        let by_lid = Some(self.address(master)).filter(|&lid| lid != Lid::NONE).map(Way::Lid);
        self.route.map(Way::Directed).into_iter().chain(by_lid).collect()
    }

    /// Its address, as far as it is known.
    fn address(&self, master: Option<Lid>) -> Lid {
        let is_master = self.info.as_ref().is_some_and(|info| info.state == SmState::Master);
        master.filter(|_| is_master).unwrap_or(self.lid)
    }
}

/// The higher, the more it is to be master.
pub(super) fn rank(info: &SmInfo) -> (u8, Reverse<Guid>) {
    (info.priority, Reverse(info.guid))
}

/// A manager of the subnet, as an operator wants to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its port's GUID.
    pub guid: Guid,
    /// `node/port`, as far as it is known.
    pub at: String,
    /// It is this one.
    pub own: bool,
    /// The manager's state.
    pub state: Option<SmState>,
    /// 0 to 15; the highest goes before, of equal ones the lowest GUID.
    pub priority: u8,
    /// How long ago it last answered; of this one zero.
    pub heard: Option<Time>,
    /// Why it is what it is, or what is the matter with it.
    pub why: String,
}

impl Mastership {
    /// Every manager: this one, then the others by GUID.
    pub fn standings(&self, now: Time) -> Vec<Standing> {
        let own = self.info().map(|info| Standing {
            guid: info.guid,
            at: self.home.own.as_ref().map(|own| own.at.clone()).unwrap_or_default(),
            own: true,
            state: Some(self.state),
            priority: self.shown_priority(),
            heard: Some(Time::ZERO),
            why: self.why.clone(),
        });
        let others = self.peers.iter().map(|(&guid, peer)| Standing {
            guid,
            at: peer.at.clone(),
            own: false,
            state: peer.info.as_ref().map(|info| info.state),
            priority: peer.info.as_ref().map_or(0, |info| info.priority),
            heard: peer.heard.map(|heard| now - heard.min(now)),
            why: self.judged(peer),
        });
        own.into_iter().chain(others).collect()
    }

    pub(super) fn name_of(&self, guid: Guid) -> String {
        self.peers.get(&guid).map(|peer| peer.at.clone()).unwrap_or_default()
    }

    fn judged(&self, peer: &Peer) -> String {
        let Some(info) = &peer.info else { return "it never answered".to_owned() };
        let outranks = self.info().is_some_and(|own| rank(info) > rank(&own));
        match (self.is_living(peer), peer.foreign) {
            (false, _) => "it does not answer".to_owned(),
            (true, true) => "it has another sm_key".to_owned(),
            (true, false) if outranks => "it goes before this one".to_owned(),
            (true, false) => "this one goes before it".to_owned(),
        }
    }

    pub(super) fn is_living(&self, peer: &Peer) -> bool {
        peer.info.is_some() && peer.unanswered <= self.retries
    }

    /// Managers that answer and are of this subnet: one with another key is none (IBA 14.4.7).
    pub(super) fn heeded(&self) -> impl Iterator<Item = (Guid, &SmInfo)> {
        let living = self.peers.iter().filter(|(_, peer)| self.is_living(peer) && !peer.foreign);
        living.filter_map(|(&guid, peer)| Some((guid, peer.info.as_ref()?)))
    }

    /// Masters beside this one, of any key.
    pub fn rivals(&self) -> impl Iterator<Item = (Guid, &str, bool)> {
        let is_master =
            |peer: &&Peer| peer.info.as_ref().is_some_and(|info| info.state == SmState::Master);
        let living = self.peers.iter().filter(|(_, peer)| self.is_living(peer));
        living
            .filter(move |(_, peer)| is_master(peer))
            .map(|(&guid, peer)| (guid, &*peer.at, peer.foreign))
    }

    /// After a survey: where this manager sits, and where others do.
    pub fn surveyed(&mut self, own: Option<Own>, found: Vec<Found>, now: Time) {
        self.changed |= self.home.own != own;
        self.home.own = own;
        let mut found: BTreeMap<Guid, Found> =
            found.into_iter().take(MOST_PEERS).map(|found| (found.guid, found)).collect();
        let gone: Vec<Guid> =
            self.peers.keys().filter(|guid| !found.contains_key(guid)).copied().collect();
        let mut ended = false;
        for guid in gone {
            ended |= self.forget(guid);
        }
        for (guid, found) in std::mem::take(&mut found) {
            let peer = self.peers.entry(guid).or_default();
            if peer.place.is_none() {
                peer.due = now + self.poll;
            }
            (peer.place, peer.at) = (Some(found.place), found.at);
            (peer.lid, peer.route, peer.m_key) = (found.lid, found.route, found.m_key);
            if let Some(info) = found.info {
                (peer.unanswered, peer.waiting, peer.heard) = (0, false, Some(now));
                (peer.unreached, peer.cleared) = (0, self.bursts.written);
                peer.foreign |= is_foreign(self.sm_key, info.sm_key);
                peer.info = Some(info.clone());
                self.note_heard(&info);
            }
        }
        self.conclude(ended, now);
        self.flush();
    }

    /// A manager is gone, with its port or as such. Whether it was a master beside this one.
    fn forget(&mut self, guid: Guid) -> bool {
        let Some(peer) = self.peers.remove(&guid) else { return false };
        self.questions.forget(
            |purpose| matches!(purpose, super::questions::Purpose::Poll(of, _) if of == guid),
        );
        self.hold.fence.remove(&guid);
        self.changed = true;
        if peer.told.is_some() {
            self.report(Report::ManagerGone { at: peer.told_at });
        }
        self.hold.rivals.remove(&guid)
    }

    pub(super) fn report(&mut self, report: Report) {
        self.outputs.push_back(super::Output::Report(report));
    }

    /// A manager spoke, asked or told: one that no survey has met is polled from now on.
    pub(super) fn met(&mut self, info: SmInfo, way: Way, now: Time) {
        if self.home.own.as_ref().is_none_or(|own| own.guid == info.guid) {
            return;
        }
        let is_known = self.peers.contains_key(&info.guid);
        if !is_known && self.peers.len() >= MOST_PEERS {
            return;
        }
        let foreign = is_foreign(self.sm_key, info.sm_key);
        let peer = self.peers.entry(info.guid).or_default();
        let before = peer.info.as_ref().map(|before| (before.state, before.priority));
        if !is_known {
            peer.at = format!("the port {}", info.guid);
            match way {
                Way::Directed(route) => peer.route = Some(route),
                Way::Lid(lid) => peer.lid = lid,
            }
        }
        if info.sm_key != SmKey(0) {
            peer.foreign = foreign;
        }
        // It is asked itself: what is said in passing decides nothing.
        if before != Some((info.state, info.priority)) && !peer.waiting {
            peer.due = now;
        }
    }

    /// Tells what changed, but for activities, which rise all the time.
    pub(super) fn report_peers(&mut self) {
        let (retries, mut reports) = (self.retries, Vec::new());
        for peer in self.peers.values_mut() {
            let living = peer.info.as_ref().filter(|_| peer.unanswered <= retries);
            let now = living.map(|info| SmInfo { act_count: 0, sm_key: SmKey(0), ..info.clone() });
            let renamed = peer.told_at != peer.at;
            if now == peer.told && !(renamed && now.is_some()) {
                continue;
            }
            // A manager whose node got another name is gone under the old one.
            if peer.told.is_some() && (renamed || now.is_none()) {
                reports.push(Report::ManagerGone { at: std::mem::take(&mut peer.told_at) });
            }
            if let Some(info) = now.clone() {
                peer.told_at.clone_from(&peer.at);
                reports.push(Report::OtherManager { at: peer.at.clone(), info });
            }
            peer.told = now;
        }
        self.changed |= !reports.is_empty();
        reports.into_iter().for_each(|report| self.report(report));
    }

    /// Writes every manager that answers, and this one.
    pub fn commit(&self, database: &mut Database, now: Time) {
        let own = self.home.own.as_ref().zip(self.info());
        let own = own.map(|(own, info)| (own.place, SmInfo { act_count: 0, ..info }));
        let others = self.peers.values().filter_map(|peer| Some((peer.place?, peer.told.clone()?)));
        let all: BTreeMap<Guid, Manager> = own
            .into_iter()
            .chain(others)
            .map(|(place, info)| (info.guid, Manager { place, info }))
            .collect();
        database.retain::<Managers>(now, |guid| all.contains_key(guid));
        for (guid, manager) in all {
            database.put::<Managers>(guid, manager, now);
        }
    }
}

/// Whether a key is another subnet's. 0 says nothing.
pub(super) const fn is_foreign(own: u64, shown: SmKey) -> bool {
    own != 0 && shown.0 != 0 && shown.0 != own
}
