//! Peers come and go, restart, and send once more what they do not know to have arrived: tables and memory stay as
//! they are, and every piece of an admitted peer is delivered once.

use std::alloc::System;
use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{
    Admission, AdmissionLimits, Arrival, Config, Event, FlowId, Mesh, NotAdmitted, Notice, Output,
    Piece, PortEvent,
};
use snin_fabric::Guid;
use snin_protocol::Time;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PEERS: u64 = 1_000;
const STEPS: usize = 10_000;
const LIMITS: AdmissionLimits =
    AdmissionLimits { peers: 64, flows: 8, pairs_of_peer: 4, pairs: 128, remember: Time::secs(1) };

/// A peer that was admitted.
struct Sender {
    session: u64,
    /// Of each flow: the next piece's number.
    next: [u64; LIMITS.flows as usize],
    pairs: u32,
}

struct World {
    mesh: Mesh,
    admission: Admission,
    now: Time,
    rng: ChaCha8Rng,
    here: BTreeMap<u64, Sender>,
    /// Gone, and may come again in the same session.
    away: BTreeMap<u64, Sender>,
    sessions: u64,
    delivered: u64,
    repeated: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let config = Config {
            inbound_peers: LIMITS.peers,
            inbound_flows: LIMITS.flows,
            flows: 1,
            pairs: 1,
            controller: false,
            ..Config::default()
        };
        let now = Time::secs(1);
        Self {
            mesh: Mesh::new(config, now).unwrap(),
            admission: Admission::new(LIMITS),
            now,
            rng: ChaCha8Rng::seed_from_u64(seed),
            here: BTreeMap::new(),
            away: BTreeMap::new(),
            sessions: 0,
            delivered: 0,
            repeated: 0,
            refused: 0,
        }
    }

    /// A peer comes: for the first time, again, or after a restart.
    fn come(&mut self) {
        let peer = self.rng.random_range(1..=PEERS);
        if self.here.contains_key(&peer) {
            return;
        }
        let restarts = self.rng.random_ratio(1, 3);
        let sender = self.away.remove(&peer).filter(|_| !restarts).unwrap_or_else(|| {
            self.sessions += 1;
            Sender { session: self.sessions, next: [0; LIMITS.flows as usize], pairs: 0 }
        });
        let session = (Guid(peer), sender.session);
        match self.admission.arrive(session, LIMITS.flows, self.now) {
            Ok(()) => drop(self.here.insert(peer, sender)),
            Err(why) => {
                assert_eq!(why, NotAdmitted::Peers);
                self.refused += 1;
            }
        }
        self.forget();
        // One more is refused however many it asks for.
        let asks = self.admission.arrive((Guid(peer), self.sessions), LIMITS.flows + 1, self.now);
        assert_eq!(asks, Err(NotAdmitted::Flows));
    }

    fn forget(&mut self) {
        while let Some((peer, session)) = self.admission.take_forgotten() {
            self.away.remove(&peer.0);
            self.mesh.handle(Event::Port(PortEvent::PeerGone { peer, session }), self.now);
        }
    }

    fn some_peer(&mut self) -> Option<u64> {
        let at = self.rng.random_range(0..self.here.len().max(1));
        self.here.keys().nth(at).copied()
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let mut sender = self.here.remove(&peer).unwrap();
        self.admission.leave(Guid(peer), self.now);
        (0..std::mem::take(&mut sender.pairs))
            .for_each(|_| self.admission.remove_pair(Guid(peer), self.now));
        self.away.insert(peer, sender);
    }

    fn add_pair(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        if self.admission.add_pair(Guid(peer)).is_ok() {
            self.here.get_mut(&peer).unwrap().pairs += 1;
        }
    }

    /// The next piece of a flow, or one that has come before.
    fn send(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let flow = self.rng.random_range(0..LIMITS.flows);
        let again = self.rng.random_ratio(1, 4);
        let sender = self.here.get_mut(&peer).unwrap();
        let next = &mut sender.next[flow as usize];
        let again = again && *next > 0;
        let sequence = if again { *next - 1 } else { *next };
        *next = sequence + 1;
        let (flow, message) = (FlowId(flow), sequence);
        let piece = Piece { flow, sequence, message, offset: 0, bytes: 1, last: true };
        let arrival = Arrival { peer: Guid(peer), session: sender.session, piece };
        self.mesh.handle(Event::Port(PortEvent::Arrived(arrival)), self.now);
        let received = Output::App(Notice::Received { peer: Guid(peer), piece });
        let expected = (!again).then_some(received);
        assert_eq!(self.mesh.poll_output(), expected, "piece {sequence} of {peer}");
        self.delivered += u64::from(!again);
        self.repeated += u64::from(again);
    }

    fn step(&mut self) {
        match self.rng.random_range(0..20) {
            0..4 => self.come(),
            4..6 => self.leave(),
            6..8 => self.add_pair(),
            8 => {
                self.now += Time::millis(self.rng.random_range(0..200));
                self.admission.expire(self.now);
                self.forget();
            }
            _ => self.send(),
        }
        let (peers, pairs) = self.admission.counts();
        assert!(peers <= LIMITS.peers as usize && pairs <= LIMITS.pairs);
        assert!(self.mesh.inbound_peers() <= peers, "entries of peers that are not admitted");
    }
}

#[test]
fn a_thousand_peers_come_and_go_and_nothing_is_lost_or_left() {
    let live = || COUNTING.stats().bytes_allocated - COUNTING.stats().bytes_deallocated;
    for seed in 0..5 {
        let mut world = World::new(seed);
        (0..STEPS / 4).for_each(|_| world.step());
        let before = live();
        (STEPS / 4..STEPS).for_each(|_| world.step());
        let grown = live().saturating_sub(before);
        // The trees of the admission and of this test have some nodes more or fewer.
        assert!(grown < 64 << 10, "seed {seed}: {grown} bytes more");
        let counters = world.mesh.counters();
        assert_eq!((counters.too_many, counters.lost), (0, 0), "seed {seed}");
        assert_eq!((counters.received, counters.repeated), (world.delivered, world.repeated));
        assert!(world.refused > 10 && world.sessions > PEERS / 2 && world.repeated > 100);
        // All leave: in time nothing is left of them.
        while !world.here.is_empty() {
            world.leave();
        }
        world.now += LIMITS.remember;
        world.admission.expire(world.now);
        world.forget();
        assert_eq!((world.admission.counts(), world.mesh.inbound_peers()), ((0, 0), 0));
    }
}
