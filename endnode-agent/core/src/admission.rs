//! Which peers may send to here: as many as the mesh has room for, each with a bounded number of flows and queue
//! pairs. A peer that is not admitted is refused before it has a queue pair, so nothing that it sends is
//! acknowledged and lost.
//!
//! A peer whose streams have ended is remembered for a while: it may come again in the same session, and send once
//! more what it does not know to have arrived. Then, or sooner when another peer needs the room, it is forgotten.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_protocol::Time;

/// The limits of [`Admission`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionLimits {
    /// The most peers, those included that are remembered.
    pub peers: u32,
    /// The most flows of a peer.
    pub flows: u32,
    /// The most queue pairs of a peer.
    pub pairs_of_peer: u32,
    /// The most queue pairs of all peers.
    pub pairs: u32,
    /// How long a peer is remembered that is gone.
    pub remember: Time,
}

/// Why a peer or a queue pair is not admitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// As many peers send to here as may.
    #[error("as many peers send to here as may")]
    Peers,
    /// It says that it may have more flows than a peer may.
    #[error("it may have more flows than `inbound_flows` allows")]
    Flows,
    /// A later session of the peer's was here before.
    #[error("a later session of the same peer was here before")]
    Earlier,
    /// The peer, or all together, have as many queue pairs as they may.
    #[error("it has as many queue pairs as it may")]
    Pairs,
}

/// A peer that is here, or was.
#[derive(Clone, Copy, Debug)]
struct Known {
    session: u64,
    streams: u32,
    pairs: u32,
    /// Since when it is gone: it has neither streams nor queue pairs.
    gone: Option<Time>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    peers: BTreeMap<Guid, Known>,
    pairs: u32,
    forgotten: Vec<(Guid, u64)>,
}

impl Admission {
    /// Without any session.
    pub const fn new(limits: AdmissionLimits) -> Self {
        Self { limits, peers: BTreeMap::new(), pairs: 0, forgotten: Vec::new() }
    }

    /// A stream of a peer's session that may have `flows` flows.
    ///
    /// # Errors
    /// Why it is not admitted.
    pub fn arrive(
        &mut self,
        (peer, session): (Guid, u64),
        flows: u32,
        now: Time,
    ) -> Result<(), NotAdmitted> {
        if flows > self.limits.flows {
            return Err(NotAdmitted::Flows);
        }
        self.expire(now);
        let is_new = !self.peers.contains_key(&peer);
        if is_new && self.peers.len() >= self.limits.peers as usize && !self.forget_longest_gone() {
            return Err(NotAdmitted::Peers);
        }
        let new = Known { session, streams: 0, pairs: 0, gone: None };
        let known = self.peers.entry(peer).or_insert(new);
        if session < known.session {
            return Err(NotAdmitted::Earlier);
        }
        known.session = session;
        known.streams += 1;
        known.gone = None;
        Ok(())
    }

    /// A stream that was admitted has ended.
    pub fn leave(&mut self, peer: Guid, now: Time) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.streams = known.streams.saturating_sub(1);
            known.note_if_gone(now);
        }
    }

    /// A queue pair for a peer that is here.
    ///
    /// # Errors
    /// When there are as many as may be.
    pub fn add_pair(&mut self, peer: Guid) -> Result<(), NotAdmitted> {
        let known = self.peers.get_mut(&peer).ok_or(NotAdmitted::Peers)?;
        if known.pairs >= self.limits.pairs_of_peer || self.pairs >= self.limits.pairs {
            return Err(NotAdmitted::Pairs);
        }
        known.pairs += 1;
        self.pairs += 1;
        Ok(())
    }

    /// One of a peer's queue pairs is destroyed, and all that came by it was taken.
    pub fn remove_pair(&mut self, peer: Guid, now: Time) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.pairs = known.pairs.saturating_sub(1);
            self.pairs = self.pairs.saturating_sub(1);
            known.note_if_gone(now);
        }
    }

    /// Forgets peers that were gone for long enough.
    pub fn expire(&mut self, now: Time) {
        let Self { limits, peers, forgotten, .. } = self;
        peers.retain(|&peer, known| {
            let keep = known.gone.is_none_or(|gone| now < gone + limits.remember);
            if !keep {
                forgotten.push((peer, known.session));
            }
            keep
        });
    }

    /// When [`expire`](Self::expire) will forget a peer, if any is gone.
    pub fn next_deadline(&self) -> Option<Time> {
        let gone = self.peers.values().filter_map(|known| known.gone);
        gone.min().map(|gone| gone + self.limits.remember)
    }

    /// A peer and its session that were forgotten: the mesh is to be told before another peer sends.
    pub fn take_forgotten(&mut self) -> Option<(Guid, u64)> {
        self.forgotten.pop()
    }

    /// How many peers are known, and how many queue pairs they have.
    pub fn counts(&self) -> (usize, u32) {
        (self.peers.len(), self.pairs)
    }

    fn forget_longest_gone(&mut self) -> bool {
        let gone = self.peers.iter().filter_map(|(&peer, known)| Some((known.gone?, peer)));
        let Some((_, peer)) = gone.min() else { return false };
        if let Some(known) = self.peers.remove(&peer) {
            self.forgotten.push((peer, known.session));
        }
        true
    }
}

impl Known {
    fn note_if_gone(&mut self, now: Time) {
        if self.streams == 0 && self.pairs == 0 {
            self.gone.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits {
        peers: 2,
        flows: 8,
        pairs_of_peer: 2,
        pairs: 3,
        remember: Time::secs(60),
    };

    fn arrive(
        admission: &mut Admission,
        peer: u64,
        session: u64,
        now: Time,
    ) -> Result<(), NotAdmitted> {
        admission.arrive((Guid(peer), session), 8, now)
    }

    #[test]
    fn who_is_gone_makes_room_and_who_is_here_does_not() {
        let (mut admission, now) = (Admission::new(LIMITS), Time::secs(1));
        assert_eq!(arrive(&mut admission, 1, 5, now), Ok(()));
        assert_eq!(arrive(&mut admission, 2, 5, now), Ok(()));
        assert_eq!(arrive(&mut admission, 3, 5, now), Err(NotAdmitted::Peers));
        admission.add_pair(Guid(2)).unwrap();
        admission.leave(Guid(2), now);
        assert_eq!(
            arrive(&mut admission, 3, 5, now),
            Err(NotAdmitted::Peers),
            "its queue pair is left"
        );
        admission.remove_pair(Guid(2), now);
        assert_eq!(arrive(&mut admission, 3, 5, now), Ok(()));
        assert_eq!(admission.take_forgotten(), Some((Guid(2), 5)));
        assert_eq!(admission.take_forgotten(), None);
    }

    #[test]
    fn a_peer_is_remembered_for_a_while_and_an_earlier_session_is_refused() {
        let (mut admission, now) = (Admission::new(LIMITS), Time::secs(1));
        arrive(&mut admission, 1, 5, now).unwrap();
        admission.leave(Guid(1), now);
        assert_eq!(admission.next_deadline(), Some(now + LIMITS.remember));
        assert_eq!(arrive(&mut admission, 1, 4, now), Err(NotAdmitted::Earlier));
        assert_eq!(arrive(&mut admission, 1, 5, now), Ok(()), "the same one goes on");
        assert_eq!(admission.next_deadline(), None);
        admission.leave(Guid(1), now);
        admission.expire(now + LIMITS.remember - Time(1));
        assert_eq!(admission.take_forgotten(), None);
        admission.expire(now + LIMITS.remember);
        assert_eq!((admission.take_forgotten(), admission.counts()), (Some((Guid(1), 5)), (0, 0)));
    }

    #[test]
    fn flows_and_queue_pairs_are_bounded() {
        let (mut admission, now) = (Admission::new(LIMITS), Time::secs(1));
        assert_eq!(admission.arrive((Guid(1), 5), 9, now), Err(NotAdmitted::Flows));
        assert_eq!(admission.add_pair(Guid(1)), Err(NotAdmitted::Peers));
        arrive(&mut admission, 1, 5, now).unwrap();
        arrive(&mut admission, 2, 5, now).unwrap();
        assert!(admission.add_pair(Guid(1)).is_ok() && admission.add_pair(Guid(1)).is_ok());
        assert_eq!(admission.add_pair(Guid(1)), Err(NotAdmitted::Pairs));
        assert!(admission.add_pair(Guid(2)).is_ok());
        assert_eq!(admission.add_pair(Guid(2)), Err(NotAdmitted::Pairs), "all together");
    }
}
