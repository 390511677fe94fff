//! A judge of circles, which shares nothing with the planner.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::PortIndex;

/// By link: the links that it waits for.
pub(crate) type Waits = BTreeMap<PortIndex, BTreeSet<PortIndex>>;

/// Whether links wait for each other in a circle. Links that nothing waits behind are taken away, until
/// none is left or only circles are.
pub(crate) fn has_a_circle(mut waits: Waits) -> bool {
    loop {
        let before = waits.len();
        let left: BTreeSet<PortIndex> = waits.keys().copied().collect();
        waits.retain(|_, next| next.iter().any(|link| left.contains(link)));
        if waits.len() == before {
            return before > 0;
        }
    }
}
