//! Which demands one window can hold as far as the hosts' own links go.

use snin_fabric::traffic::Demand;

use super::Wait;
use crate::admission::{Admission, Ask, HostLinks, Limits};
use crate::packing::ConnectionId;

/// The two halves of the possible demands.
pub(super) struct Admitted {
    /// One a sender and one a receiver at most, in order.
    pub(super) now: Vec<usize>,
    /// The others, each with the end that is busy.
    pub(super) waiting: Vec<(usize, Wait)>,
}

/// Admits what the first window of the whole pattern would hold. A demand of any rate has the
/// links of both hosts to itself: the plan promises that no link has two owners.
pub(super) fn admit(demands: &[Demand], possible: &[usize], hosts: usize) -> Admitted {
    let limits = Limits { requests: demands.len() as u32, overdue_after: u64::MAX };
    let mut admission = Admission::new(HostLinks::uniform(hosts, 1), limits);
    for &index in possible {
        let Demand { source, destination, .. } = demands[index];
        let ask = Ask { source, destination, arrival: 0, windows: 1, rate: None };
        let added = admission.add(ConnectionId(index as u32), &ask);
        debug_assert_eq!(added, Ok(()), "possible demands name two hosts");
    }
    let mut now: Vec<usize> = admission.choose(0).iter().map(|id| id.index()).collect();
    now.sort_unstable();
    let mut sending = vec![false; hosts];
    now.iter().for_each(|&index| sending[demands[index].source.index()] = true);
    let waits = |index: usize| {
        let sends = sending[demands[index].source.index()];
        (index, if sends { Wait::SourceBusy } else { Wait::DestinationBusy })
    };
    let others = possible.iter().copied().filter(|index| now.binary_search(index).is_err());
    Admitted { waiting: others.map(waits).collect(), now }
}
