//! Polling: every other manager in turn, by directed route and by LID.

use snin_fabric::{Guid, Lid};
use snin_mad::{Mad, PortInfo, SmInfo, SmState, Smp};
use snin_protocol::Time;

use super::Mastership;
use super::peers::is_foreign;
use super::questions::Purpose;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::LocalPort;

/// Own ports are asked so seldom at least, however often they change.
const APART: Time = Time::millis(10);

impl Mastership {
    pub(super) fn next_poll(&self) -> Option<Time> {
        let first = self.counts_own_ports().then_some(Time::ZERO);
        let own = self.home.due.or(first).filter(|_| self.watches_own_port());
        let claim =
            self.search.claim.map(|(due, _)| due).filter(|_| self.state == SmState::Standby);
        let peers = self.peers.values().map(|peer| peer.due).min();
        [own, claim, peers].into_iter().flatten().min()
    }

    /// Polls the managers whose time it is. One that has not answered when it is polled again was silent.
    /// Nothing else goes before them.
    pub(super) fn poll_peers(&mut self, now: Time) {
        let due: Vec<Guid> =
            self.peers.iter().filter(|(_, peer)| peer.due <= now).map(|(&guid, _)| guid).collect();
        for &guid in &due {
            self.poll_one(guid, now);
        }
        if !due.is_empty() {
            self.consider(now);
        }
        if self.watches_own_port() {
            self.ask_own_port(now);
        }
        if self.state == SmState::Standby {
            self.repeat_claim(now);
        }
    }

    pub(super) fn poll_one(&mut self, guid: Guid, now: Time) {
        let (own, master) = (self.info(), self.master_lid());
        let Some(peer) = self.peers.get_mut(&guid) else { return };
        // A manager that speaks in its session lives, even if the cables between the ports are cut.
        let spoke = std::mem::replace(&mut peer.spoke, false);
        if peer.waiting {
            peer.unreached = peer.unreached.saturating_add(1);
            peer.unanswered = if spoke { 0 } else { peer.unanswered.saturating_add(1) };
        }
        (peer.waiting, peer.due) = (true, now + self.poll);
        let Some(mut own) = own else { return };
        own.sm_key = snin_mad::SmKey(self.sm_key);
        // An answer that comes later than this is not waited for.
        let until = now + self.poll * (u64::from(self.retries) + 1);
        let watched = self.state == SmState::Standby || peer.unreached > 0;
        let ways = peer.ways(master).into_iter().take(if watched { 2 } else { 1 });
        let (m_key, asked) = (peer.m_key, (guid, self.bursts.written));
        for way in ways {
            self.questions.poll(asked, way, m_key, &own, until);
        }
    }

    /// The address of the master, as the own port knows it.
    pub(super) fn master_lid(&self) -> Option<Lid> {
        let port = self.port().filter(|_| self.state != SmState::Master)?;
        Some(port.master_sm_lid).filter(|&lid| lid != Lid::NONE && lid != port.lid)
    }

    /// A master that is alone is followed by no other manager, whether its one port has a link or not.
    fn watches_own_port(&self) -> bool {
        match self.state {
            SmState::Standby => true,
            SmState::Master => !self.peers.is_empty() || self.counts_own_ports(),
            _ => self.counts_own_ports(),
        }
    }

    /// Which own ports have a link matters in every state: the manager may move over, or is elected by that.
    fn counts_own_ports(&self) -> bool {
        (self.home.ports.len() > 1 || self.rank.elected.is_some()) && self.home.own.is_some()
    }

    /// Whether own ports have a link, which address they have, and which their master.
    fn ask_own_port(&mut self, now: Time) {
        if self.home.due.is_none_or(|due| due <= now) {
            (self.home.asked, self.home.due) = (now, Some(now + self.poll));
            (0..self.home.ports.len() as u32)
                .for_each(|n| self.questions.own_port(LocalPort(n), now));
        }
    }

    /// An own port is not what it was: all are asked, unless that was done just now.
    pub fn port_changed(&mut self, now: Time) {
        let soon = now.max(self.home.asked + APART);
        self.home.due = Some(self.home.due.map_or(soon, |due| due.min(soon)));
        if self.is_active() {
            self.poll_peers(now);
        }
        self.flush();
    }

    /// An answer to one of this core's questions.
    pub(super) fn answered(
        &mut self,
        port: LocalPort,
        mad: &Mad,
        smp: &Smp,
        now: Time,
    ) -> Result<(), Dropped> {
        let purpose = self.questions.take(port, smp).ok_or(Dropped::Unsolicited)?;
        match purpose {
            Purpose::OwnPort(port) => {
                let info = mad.attribute::<PortInfo>().map_err(|_| Dropped::Malformed)?;
                self.own_port_read(port, info, now);
            }
            Purpose::Poll(guid, written) => {
                let info = mad.attribute::<SmInfo>().ok().filter(|_| smp.status.is_ok());
                self.polled((guid, written), info, now);
            }
            Purpose::Tell(guid, control) => {
                self.has_taken(guid, control, smp.status, now);
            }
            Purpose::Claim => {}
        }
        Ok(())
    }

    /// A manager said what it is. One that answers with an error says nothing.
    fn polled(&mut self, (guid, written): (Guid, u64), info: Option<SmInfo>, now: Time) {
        // By the master's address another may answer than the one that was master.
        let Some(info) = info.filter(|info| info.guid == guid) else { return };
        let Some(peer) = self.peers.get_mut(&guid) else { return };
        (peer.waiting, peer.unanswered, peer.heard) = (false, 0, Some(now));
        (peer.unreached, peer.cleared) = (0, peer.cleared.max(written));
        if info.sm_key != snin_mad::SmKey(0) {
            peer.foreign = is_foreign(self.sm_key, info.sm_key);
        }
        self.note_heard(&info);
        if let Some(peer) = self.peers.get_mut(&guid) {
            peer.info = Some(info);
        }
        self.consider(now);
    }

    pub(super) fn unanswered(&mut self, purpose: Purpose, now: Time) {
        match purpose {
            // A manager that was silent is counted when it is polled again.
            Purpose::OwnPort(port) => self.own_port_lost(port),
            Purpose::Poll(..) | Purpose::Claim => {}
            Purpose::Tell(guid, control) => self.was_not_taken(guid, control, now),
        }
    }

    /// Every manager is polled now.
    pub(super) fn poll_all(&mut self, now: Time) {
        for peer in self.peers.values_mut() {
            (peer.waiting, peer.due) = (false, now);
        }
        self.poll_peers(now);
    }

    /// A manager spoke in its session. What it said of itself decides nothing: where that is news it is asked.
    pub fn spoke(&mut self, guid: Guid, state: SmState, now: Time) {
        if let Some(peer) = self.peers.get_mut(&guid) {
            let known = peer.info.as_ref().map(|info| info.state);
            // A master that says that it is none has no link, or has not begun: its session is no life.
            if known != Some(SmState::Master) || state == SmState::Master {
                (peer.spoke, peer.unanswered) = (true, 0);
            }
            if !peer.waiting
                && known.is_some_and(|known| known != state && known != SmState::Discovering)
            {
                peer.due = peer.due.min(now);
            }
        }
    }
}
