//! Hosts without an agent. They send to base addresses whenever they have something to send, on a lane that comes
//! after all others: what they can do to others is one packet a link. Or they flood them, on the lanes that the
//! manager programmed or on that of everybody.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::{SliceRandom, index as random};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{FlowId, PairId, Piece};
use snin_emulator::data::{Config, Message, Transport, VlArbitration, VlWeight};
use snin_fabric::hosts::HostId;
use snin_fabric::traffic::Demand;
use snin_fabric::{PortIndex, TreeId};

use super::super::lanes::{GRANTED, Lane, Ordinary};
use super::super::wire::{UNASKED, UnderWay};
use super::{Setup, World, WorldError};

/// The lane of those who do not ask, and their service level.
const LANE: u8 = 2;
/// To so many others at once a host sends that floods.
const AT_ONCE: usize = 16;

/// What has which service level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels {
    granted: u8,
    unasked: u8,
}

impl Levels {
    /// Whether lanes are as the manager wrote them.
    pub(super) const fn are_programmed(self) -> bool {
        self.granted == GRANTED
    }
}

/// Whether anybody sends without being granted a way.
pub(super) const fn share(setup: &Setup) -> bool {
    setup.unmanaged > 0 || setup.ordinary.is_some()
}

/// The data plane's configuration, with a lane more where hosts without an agent need it. Acknowledgements of what
/// has a lane of its own are on that.
pub(super) fn lanes(setup: &Setup) -> (Config, Levels) {
    let data = setup.data.clone();
    if let Some(Ordinary { lane, .. }) = setup.ordinary {
        return match lane {
            Lane::Shared => (data, Levels { granted: 0, unasked: 0 }),
            Lane::Own => {
                (Config { ack_sl: GRANTED, ..data }, Levels { granted: GRANTED, unasked: 0 })
            }
        };
    }
    if setup.unmanaged == 0 {
        return (data, Levels { granted: 0, unasked: LANE });
    }
    let entry = |vl, weight| VlWeight { vl, weight };
    // An acknowledgement waits for one packet of data at most, 65 units of 64 bytes.
    let high = vec![entry(data.ack_sl, 255), entry(0, 65)];
    let arbitration = VlArbitration { high, low: vec![entry(LANE, 255)], limit: 255 };
    (Config { vls: LANE + 1, arbitration, ..data }, Levels { granted: 0, unasked: LANE })
}

/// Which hosts have no agent: any, each equally likely; of those that flood, evenly many of every part.
pub(super) fn chosen(
    setup: &Setup,
    hosts: usize,
) -> Result<BTreeMap<HostId, Vec<Demand>>, WorldError> {
    if let Some(ordinary) = setup.ordinary {
        let places = (0..hosts as u32).filter(|&place| ordinary.has(place));
        return Ok(places.map(|place| (HostId(place), Vec::new())).collect());
    }
    let count = setup.unmanaged;
    if count as usize > hosts {
        return Err(WorldError::Unmanaged(count, hosts));
    }
    let mut places: Vec<u32> = (0..hosts as u32).collect();
    places.shuffle(&mut ChaCha8Rng::seed_from_u64(setup.seed));
    places.truncate(count as usize);
    Ok(places.into_iter().map(|place| (HostId(place), Vec::new())).collect())
}

impl World<'_> {
    /// Takes note of what those have to send who do not ask; gives the rest.
    pub(super) fn who_ask(&mut self, demands: Vec<Demand>) -> Vec<Demand> {
        self.unasked.values_mut().for_each(Vec::clear);
        let mut rest = demands;
        rest.retain(|demand| match self.unasked.get_mut(&demand.source) {
            Some(own) => {
                own.push(*demand);
                false
            }
            None => true,
        });
        rest
    }

    /// Everyone who does not ask sends back to back for the slice: in each window to the next of those that it
    /// has something for.
    pub(super) fn send_unasked(&mut self) {
        if self.setup.ordinary.is_some() {
            return self.flood();
        }
        let turn = self.traffic.patterns().last().map_or(0, |pattern| pattern.windows);
        let next = |(_, own): (&HostId, &Vec<Demand>)| own.get(turn % own.len().max(1)).copied();
        let demands: Vec<Demand> = self.unasked.iter().filter_map(next).collect();
        for demand in demands {
            self.send_to_base(&demand, 1);
        }
    }

    /// Everyone who does not ask sends as much as its link carries, packet by packet to several others at random.
    fn flood(&mut self) {
        let hosts = self.hosts_of.len() as u32;
        let mut random = ChaCha8Rng::seed_from_u64(self.setup.seed);
        random.set_stream(u64::from(self.begun) + 1);
        let mut demands = Vec::new();
        for place in self.unasked.keys().map(|host| host.0) {
            let others =
                random::sample(&mut random, hosts as usize - 1, AT_ONCE.min(hosts as usize - 1));
            let other = |n: usize| (n as u32 + place + 1) % hosts;
            demands.extend(others.iter().map(|n| Demand::new(place, other(n))));
        }
        let parts = AT_ONCE.min(hosts as usize - 1).max(1) as u64;
        for demand in demands {
            self.send_to_base(&demand, parts);
        }
    }

    /// Sends one of so many parts of what fits into the slice.
    fn send_to_base(&mut self, demand: &Demand, parts: u64) {
        let port = |host| self.hosts_of.get(host).map_or(PortIndex(0), |host| host.port);
        let (source, destination) = (port(demand.source), port(demand.destination));
        let Some(lid) = self.addresses.base(destination) else { return };
        let host = demand.source.0;
        // A host that floods is not paced.
        let rate = self.wire.path_rate(source, lid).filter(|_| self.setup.ordinary.is_none());
        let all = || self.wire.payload_at(source, rate, self.longest) / parts;
        let bytes = demand.bytes.unwrap_or_else(all);
        let message = Message {
            start: self.now,
            sl: self.levels.unasked,
            flow: UNASKED | host,
            rate,
            background: true,
            ..Message::new(source, lid, bytes)
        };
        let (flow, sequence, message_id, offset) = (FlowId(0), 0, 0, 0);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let piece = Piece { flow, sequence, message: message_id, offset, bytes, last: true };
        let from = UnderWay {
            host,
            asked: false,
            pair: PairId { slot: 0, life: 0 },
            ticket: 0,
            piece,
            peer: self.topology.port(destination).guid,
            tree: TreeId(0),
            lid,
            transport: Transport::Uc,
            wanted: None,
            rate,
            gone: None,
        };
        // Only what no adapter would send is refused; a host without a cable sends nothing.
        let _ = self.wire.send(message, from);
    }
}
