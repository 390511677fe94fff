//! Cables of networks in which every switch carries hosts: pairs of switches, each a cable.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Rows and columns that are rings. A ring of two is one cable.
pub(super) fn torus(width: u32, height: u32) -> Vec<(u32, u32)> {
    let mut cables = Vec::new();
    let mut add = |a, b| {
        if a != b && !cables.contains(&(b, a)) {
            cables.push((a, b));
        }
    };
    for x in 0..width {
        for y in 0..height {
            let at = |x: u32, y: u32| (x % width) * height + y % height;
            add(at(x, y), at(x + 1, y));
            add(at(x, y), at(x, y + 1));
        }
    }
    cables
}

/// Groups of switches that are cabled each to each, and a cable from each group to each other one, which the
/// switches of a group take in turn (Kim, Dally, Scott, Abts, 2008).
pub(super) fn dragonfly(groups: u32, switches: u32) -> Vec<(u32, u32)> {
    let mut cables = Vec::new();
    for group in 0..groups {
        let at = |n| group * switches + n;
        cables.extend((0..switches).flat_map(|a| (0..a).map(move |b| (at(b), at(a)))));
    }
    for group in 0..groups {
        for other in group + 1..groups {
            // The how manieth of the other groups it is for each of the two.
            let own = group * switches + (other - 1) % switches;
            let far = other * switches + group % switches;
            cables.push((own, far));
        }
    }
    cables
}

/// Every switch has so many cables, to others that a seed chooses; a ring keeps the whole together. A cable that
/// would lead back to its own switch is left out.
pub(super) fn random(switches: u32, cables: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut ring: Vec<u32> = (0..switches).collect();
    ring.shuffle(&mut random);
    let mut made: Vec<(u32, u32)> =
        (0..ring.len()).map(|n| (ring[n], ring[(n + 1) % ring.len()])).collect();
    let free = cables.saturating_sub(2) as usize;
    let mut ends: Vec<u32> = (0..switches).flat_map(|s| std::iter::repeat_n(s, free)).collect();
    ends.shuffle(&mut random);
    made.extend(ends.chunks_exact(2).map(|ends| (ends[0], ends[1])));
    made.retain(|(a, b)| a != b);
    made
}
