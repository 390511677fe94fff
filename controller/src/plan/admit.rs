//! Which demands one window can hold as far as the hosts' own links go.

use snin_fabric::traffic::Demand;

use super::Wait;

/// The two halves of the possible demands.
pub(super) struct Admission {
    /// One a sender and one a receiver at most, in order.
    pub(super) admitted: Vec<usize>,
    /// The others, each with the end that is busy.
    pub(super) waiting: Vec<(usize, Wait)>,
}

/// Admits demands whose ends have the most to do first, then the oldest, so that a pattern that lasts
/// many windows does not wait for its busiest port at the end.
pub(super) fn admit(demands: &[Demand], possible: &[usize], hosts: usize) -> Admission {
    let mut sends = vec![0u32; hosts];
    let mut receives = vec![0u32; hosts];
    for &index in possible {
        sends[demands[index].source.index()] += 1;
        receives[demands[index].destination.index()] += 1;
    }
    let degree = |&index: &usize| {
        let Demand { source, destination, .. } = demands[index];
        sends[source.index()].max(receives[destination.index()])
    };
    let mut order = possible.to_vec();
    order.sort_by_key(|index| (std::cmp::Reverse(degree(index)), *index));

    let mut sending = vec![false; hosts];
    let mut receiving = vec![false; hosts];
    let mut admission = Admission { admitted: Vec::new(), waiting: Vec::new() };
    for index in order {
        let Demand { source, destination, .. } = demands[index];
        if sending[source.index()] {
            admission.waiting.push((index, Wait::SourceBusy));
        } else if receiving[destination.index()] {
            admission.waiting.push((index, Wait::DestinationBusy));
        } else {
            sending[source.index()] = true;
            receiving[destination.index()] = true;
            admission.admitted.push(index);
        }
    }
    admission.admitted.sort_unstable();
    admission
}
