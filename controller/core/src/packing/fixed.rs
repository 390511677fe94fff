//! First come, first served, where every connection has one path only: min-hop and D-mod-K tables,
//! fabrics that are no Clos.

/// A connection that found one of its links taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The place of its path in the list.
    pub path: usize,
    /// The first of its links that was taken, in the order of the path.
    pub link: u32,
    /// The place of the path that took it.
    pub owner: usize,
}

/// Who got through.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FixedPacking {
    /// The places of the paths that own all their links, in the order given.
    pub granted: Vec<usize>,
    /// The others, in the order given.
    pub deferred: Vec<Blocked>,
}

/// Grants each path in turn if all its directed links (numbers below `links`) are free.
///
/// # Panics
/// Where a path names a link beyond `links`.
pub fn pack_fixed<P: AsRef<[u32]>>(paths: &[P], links: usize) -> FixedPacking {
    let mut owners: Vec<Option<usize>> = vec![None; links];
    let mut packing = FixedPacking::default();
    for (path, taken) in paths.iter().map(AsRef::as_ref).enumerate() {
        let blocked = taken
            .iter()
            .find_map(|&link| owners[link as usize].map(|owner| Blocked { path, link, owner }));
        if let Some(blocked) = blocked {
            packing.deferred.push(blocked);
        } else {
            taken.iter().for_each(|&link| owners[link as usize] = Some(path));
            packing.granted.push(path);
        }
    }
    packing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_on_a_link_owns_it() {
        let paths: [&[u32]; 4] = [&[0, 1], &[2, 1], &[2, 3], &[]];
        let packing = pack_fixed(&paths, 4);
        // What was deferred holds nothing: link 2 is free for the third.
        assert_eq!(packing.granted, [0, 2, 3]);
        assert_eq!(packing.deferred, [Blocked { path: 1, link: 1, owner: 0 }]);
    }
}
