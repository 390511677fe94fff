//! Requests to admission, and its refusals.

use snin_fabric::hosts::HostId;

/// A request: one host wants to send to another for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Who sends.
    pub source: HostId,
    /// Who receives.
    pub destination: HostId,
    /// The window in which it was asked. Requests come in order: an earlier window than that of the
    /// request before counts as that one.
    pub arrival: u64,
    /// How many windows it wants to send in, at least one.
    pub windows: u32,
    /// Bit/s; `None` is the unit, which is what the slowest host link carries.
    pub rate: Option<u64>,
}

/// Why a request is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Numbers are dense and limited.
    #[error("request {id}, but at most {limit} are kept, numbered from 0")]
    Number {
        /// The request's number.
        id: u32,
        /// As many as there may be.
        limit: u32,
    },
    /// A number means one request at a time.
    #[error("request {0} is there already")]
    Known(u32),
    /// No such host.
    #[error("host {host}, but there are {hosts}, numbered from 0")]
    Host {
        /// The host asked for.
        host: HostId,
        /// As many as there are.
        hosts: u32,
    },
    /// A host does not send to itself through the fabric.
    #[error("host {0} sends to itself")]
    Itself(HostId),
    /// Nothing to send.
    #[error("a request is for at least one window")]
    NoWindow,
    /// A rate of nothing, or more than a host's link carries.
    #[error("{asked} bit/s, but 1 to {carries} are possible")]
    Rate {
        /// Bit/s asked for.
        asked: u64,
        /// Bit/s of the slower of the two links.
        carries: u64,
    },
}

/// How many windows of `nanoseconds` it takes to send `bytes` at `rate` bit/s: at least one, and at most
/// as many as can be asked for.
pub fn windows_for(bytes: u64, rate: u64, nanoseconds: u64) -> u32 {
    let bits_by_second = u128::from(bytes) * 8 * 1_000_000_000;
    let per_window = u128::from(rate.max(1)) * u128::from(nanoseconds.max(1));
    bits_by_second.div_ceil(per_window).clamp(1, u32::MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_windows_rounded_up() {
        // 400 Gbit/s carry 50 GB a second, 833,333,350 bytes in a sixtieth.
        let sixtieth = 16_666_667;
        assert_eq!(windows_for(0, 400_000_000_000, sixtieth), 1);
        assert_eq!(windows_for(833_333_350, 400_000_000_000, sixtieth), 1);
        assert_eq!(windows_for(833_333_351, 400_000_000_000, sixtieth), 2);
        assert_eq!(windows_for(u64::MAX, 1, 1), u32::MAX);
    }
}
