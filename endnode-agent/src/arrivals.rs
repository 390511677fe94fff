//! How many messages came from each peer, for `status`: bounded, since peers come and go, and the daemon is not
//! told which are gone.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_protocol::operator::agent::Received;

/// The most peers that are counted by themselves. One more takes the place of the one that was not heard for the
/// longest, whose counts go to all those that are not counted by themselves any more.
const MOST: usize = 4096;

/// What came from one peer, or from several.
#[derive(Clone, Copy, Default, Debug)]
struct Came {
    messages: u64,
    bytes: u64,
    /// Pieces that did not come (ud).
    lost: u64,
    /// The number of what came last.
    last: u64,
}

impl Came {
    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.lost += more.lost;
    }
}

/// See the module's documentation.
#[derive(Default, Debug)]
pub(crate) struct Arrivals {
    by_peer: BTreeMap<Guid, Came>,
    others: Came,
    /// So much came.
    count: u64,
}

impl Arrivals {
    /// A message came.
    pub(crate) fn message(&mut self, peer: Guid, bytes: usize) {
        self.of(peer).add(Came { messages: 1, bytes: bytes as u64, ..Came::default() });
    }

    /// Pieces did not.
    pub(crate) fn lost(&mut self, peer: Guid, pieces: u64) {
        self.of(peer).add(Came { lost: pieces, ..Came::default() });
    }

    fn of(&mut self, peer: Guid) -> &mut Came {
        self.count += 1;
        if !self.by_peer.contains_key(&peer) && self.by_peer.len() >= MOST {
            let longest = self.by_peer.iter().min_by_key(|(_, came)| came.last);
            if let Some(gone) =
                longest.map(|(&peer, _)| peer).and_then(|peer| self.by_peer.remove(&peer))
            {
                self.others.add(gone);
            }
        }
        let came = self.by_peer.entry(peer).or_default();
        came.last = self.count;
        came
    }

    /// All of it; what came from peers that are not counted by themselves any more is without a peer.
    pub(crate) fn told(&self) -> Vec<Received> {
        let told = |peer: Option<Guid>, came: &Came| {
            let Came { messages, bytes, lost, .. } = *came;
            Received { peer, messages, bytes, lost }
        };
        let others = self.others.messages + self.others.lost > 0;
        let others = others.then(|| told(None, &self.others));
        self.by_peer.iter().map(|(&peer, came)| told(Some(peer), came)).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_peers_take_no_more_room_and_nothing_is_lost() {
        let mut arrivals = Arrivals::default();
        let most = MOST as u64;
        for peer in 0..most {
            arrivals.message(Guid(peer), 10);
        }
        arrivals.message(Guid(0), 10);
        assert_eq!(arrivals.told().len(), MOST);
        // The one that was not heard for the longest is 1.
        arrivals.lost(Guid(most), 3);
        let told = arrivals.told();
        assert_eq!((arrivals.by_peer.len(), told.len()), (MOST, MOST + 1));
        assert!(
            arrivals.by_peer.contains_key(&Guid(0)) && !arrivals.by_peer.contains_key(&Guid(1))
        );
        let others = Received { peer: None, messages: 1, bytes: 10, lost: 0 };
        assert_eq!(told.last(), Some(&others));
        for peer in 0..10 * most {
            arrivals.message(Guid(1 << 40 | peer), 1);
        }
        assert_eq!(arrivals.by_peer.len(), MOST);
        let sum: u64 = arrivals.told().iter().map(|one| one.messages).sum();
        assert_eq!(sum, 11 * most + 1);
    }
}
