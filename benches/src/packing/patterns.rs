//! Random traffic as packing problems, and a check of what packers make of it.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{LeafId, Request};

/// Connections between leaves: from, to.
pub(super) type Ends = Vec<(u32, u32)>;

/// A random permutation of hosts less what stays within a leaf.
pub(super) fn permutation(leaves: u32, hosts: u32, seed: u64) -> Ends {
    let mut to: Vec<u32> = (0..leaves * hosts).collect();
    to.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let ends = (0..).zip(to).map(|(from, to): (u32, u32)| (from / hosts, to / hosts));
    ends.filter(|(from, to)| from != to).collect()
}

/// A connection that asks for any tree.
pub(super) fn plain(id: u32, (source, destination): (u32, u32)) -> Request {
    Request::new(id, LeafId(source), LeafId(destination))
}

/// All connections of a pattern, numbered in order.
pub(super) fn requests(ends: &[(u32, u32)]) -> Vec<Request> {
    (0..).zip(ends).map(|(id, &ends)| plain(id, ends)).collect()
}

/// That no more than `most` connections of one class leave a leaf, or come to one.
///
/// # Panics
/// Where there are more.
pub(super) fn assert_spread(
    ends: &[(u32, u32)],
    classes: impl IntoIterator<Item = usize>,
    most: u32,
) {
    let mut used = std::collections::BTreeMap::new();
    let mut count = 0;
    for (&(source, destination), class) in ends.iter().zip(classes) {
        count += 1;
        for link in [(source, class, 'u'), (destination, class, 'd')] {
            let used: &mut u32 = used.entry(link).or_default();
            *used += 1;
            assert!(*used <= most, "{used} connections on {link:?}");
        }
    }
    assert_eq!(count, ends.len(), "a class for every connection");
}
