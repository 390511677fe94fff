//! The admitted requests of a window so far: at most one a lane, and bit/s left on every host's link.

use super::Side;
use super::links::HostLinks;
use super::table::{NONE, Table};

/// A matching of lanes.
#[derive(Clone, Debug)]
pub(super) struct Matching {
    /// The request that a lane serves, by side and lane.
    request: [Box<[u32]>; 2],
    /// Lanes whose request stays, and lanes that gave their bit/s to odd rates.
    locked: [Box<[bool]>; 2],
    /// Bit/s left beside what is locked, by side and host.
    room: [Box<[u64]>; 2],
}

impl Matching {
    pub(super) fn new(links: &HostLinks) -> Self {
        let requests = || vec![NONE; links.lanes()].into_boxed_slice();
        let locked = || vec![false; links.lanes()].into_boxed_slice();
        let room = || links.rates().into();
        Self {
            request: [requests(), requests()],
            locked: [locked(), locked()],
            room: [room(), room()],
        }
    }

    pub(super) fn clear(&mut self, links: &HostLinks) {
        self.request.iter_mut().for_each(|requests| requests.fill(NONE));
        self.locked.iter_mut().for_each(|locked| locked.fill(false));
        self.room.iter_mut().for_each(|room| room.copy_from_slice(links.rates()));
    }

    pub(super) fn at(&self, side: Side, lane: u32) -> u32 {
        self.request[side as usize][lane as usize]
    }

    pub(super) fn requests(&self, side: Side) -> &[u32] {
        &self.request[side as usize]
    }

    pub(super) fn is_locked(&self, side: Side, lane: u32) -> bool {
        self.locked[side as usize][lane as usize]
    }

    /// Neither serving nor locked.
    pub(super) fn is_open(&self, side: Side, lane: u32) -> bool {
        self.at(side, lane) == NONE && !self.is_locked(side, lane)
    }

    /// Puts a request on both of its lanes; what was there must be let go by the caller.
    pub(super) fn set(&mut self, table: &Table, id: u32) {
        for side in Side::BOTH {
            self.request[side as usize][table.lane(side, id) as usize] = id;
        }
    }

    pub(super) fn free(&mut self, side: Side, lane: u32) {
        self.request[side as usize][lane as usize] = NONE;
    }

    /// Makes sure that a request on its lanes stays there.
    pub(super) fn lock(&mut self, table: &Table, links: &HostLinks, id: u32) {
        for side in Side::BOTH {
            let lane = table.lane(side, id);
            let locked = &mut self.locked[side as usize][lane as usize];
            if !std::mem::replace(locked, true) {
                self.room[side as usize][links.host_of(lane) as usize] -= links.unit();
            }
        }
    }

    /// Whether both hosts have `rate` bit/s left beside what is locked.
    pub(super) fn has_room(&self, hosts: [u32; 2], rate: u64) -> bool {
        (0..2).all(|side| self.room[side][hosts[side] as usize] >= rate)
    }

    /// Gives an odd rate its bit/s, and locks the lanes that cannot be served any more: those with
    /// the least to do.
    pub(super) fn take(&mut self, table: &Table, links: &HostLinks, hosts: [u32; 2], rate: u64) {
        for side in Side::BOTH {
            let host = hosts[side as usize];
            self.room[side as usize][host as usize] -= rate;
            let room = self.room[side as usize][host as usize] / links.unit();
            let open = |&lane: &u32| !self.is_locked(side, lane);
            let count = links.lanes_of(host).filter(open).count() as u64;
            for _ in room..count {
                let degree = |&lane: &u32| table.degrees(side)[lane as usize];
                let open = |&lane: &u32| !self.is_locked(side, lane);
                if let Some(lane) = links.lanes_of(host).filter(open).min_by_key(degree) {
                    self.locked[side as usize][lane as usize] = true;
                }
            }
        }
    }
}
