//! The permutation that D-mod-K routing likes least.

use super::Shape;

/// Where every host sends.
///
/// D-mod-K leads a packet up by the remainder of the destination's number modulo the uplinks. So the
/// destinations are dealt out remainder by remainder, leaf after leaf: each leaf's hosts get a run of
/// one remainder (of two, where a remainder ends within the leaf). Destinations on the sender's own leaf
/// would need no uplink and are exchanged for others, of the same remainder where possible.
pub(super) fn permutation(shape: Shape<'_>) -> Vec<u32> {
    let leaf_of = shape.leaf_of;
    let hosts = leaf_of.len() as u32;
    let remainder = |host: u32| host % shape.uplinks.max(1);
    let mut sources: Vec<u32> = (0..hosts).collect();
    sources.sort_by_key(|&host| leaf_of[host as usize]);
    let mut dealt: Vec<u32> = (0..hosts).collect();
    dealt.sort_by_key(|&host| remainder(host));
    let mut to = vec![0; leaf_of.len()];
    for (&source, &destination) in sources.iter().zip(&dealt) {
        to[source as usize] = destination;
    }
    let leaves = |a: u32, b: u32| leaf_of[a as usize] != leaf_of[b as usize];
    for &host in &sources {
        let mine = to[host as usize];
        if leaves(host, mine) {
            continue;
        }
        // An exchange must take both off their own leaves; failing that, only off themselves.
        let fits = |other: u32, to: &[u32]| leaves(host, to[other as usize]) && leaves(other, mine);
        let alike = |other: u32, to: &[u32]| remainder(mine) == remainder(to[other as usize]);
        let other = (0..hosts)
            .find(|&other| fits(other, &to) && alike(other, &to))
            .or_else(|| (0..hosts).find(|&other| fits(other, &to)))
            .or_else(|| (0..hosts).find(|&other| host == mine && other != host));
        if let Some(other) = other {
            to.swap(host as usize, other as usize);
        }
    }
    to
}
