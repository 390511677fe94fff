//! Host links as lanes: a link that is K times as fast as the slowest carries K unit requests at once.

use snin_fabric::hosts::HostId;

/// The most lanes of one link.
pub const MAX_LANES: u64 = 64;

/// How fast every host's link is, in each direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLinks {
    unit: u64,
    rates: Vec<u64>,
    /// The first lane of each host, and one past the last one's last.
    first_lane: Vec<u32>,
    host_of_lane: Vec<u32>,
}

impl HostLinks {
    /// One link a host, by its bit/s (0 counts as 1). The slowest is the unit; what a faster one has
    /// beyond a whole number of units, or beyond [`MAX_LANES`] of them, serves odd rates only.
    pub fn new(rates: impl IntoIterator<Item = u64>) -> Self {
        let rates: Vec<u64> = rates.into_iter().map(|rate| rate.max(1)).collect();
        let unit = rates.iter().copied().min().unwrap_or(1);
        let mut links =
            Self { unit, first_lane: vec![0], host_of_lane: Vec::new(), rates: Vec::new() };
        for (host, rate) in rates.iter().enumerate() {
            let lanes = (rate / unit).min(MAX_LANES);
            links.host_of_lane.extend((0..lanes).map(|_| host as u32));
            links.first_lane.push(links.host_of_lane.len() as u32);
        }
        links.rates = rates;
        links
    }

    /// `hosts` links of one rate.
    pub fn uniform(hosts: usize, rate: u64) -> Self {
        Self::new((0..hosts).map(|_| rate))
    }

    /// How many hosts there are.
    pub const fn hosts(&self) -> usize {
        self.rates.len()
    }

    /// Bit/s of one lane.
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Bit/s of a host's link, if there is such a host.
    pub fn rate(&self, host: HostId) -> Option<u64> {
        self.rates.get(host.index()).copied()
    }

    pub(super) fn rates(&self) -> &[u64] {
        &self.rates
    }

    pub(super) const fn lanes(&self) -> usize {
        self.host_of_lane.len()
    }

    pub(super) fn lanes_of(&self, host: u32) -> std::ops::Range<u32> {
        self.first_lane[host as usize]..self.first_lane[host as usize + 1]
    }

    pub(super) fn host_of(&self, lane: u32) -> u32 {
        self.host_of_lane[lane as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_k_times_as_fast_is_k_lanes() {
        let links = HostLinks::new([100, 400, 250, 1 << 40]);
        let lanes: Vec<u32> = (0..4).map(|host| links.lanes_of(host).len() as u32).collect();
        assert_eq!((links.unit(), lanes), (100, vec![1, 4, 2, MAX_LANES as u32]));
        assert!((0..4).all(|host| links.lanes_of(host).all(|lane| links.host_of(lane) == host)));
    }
}
