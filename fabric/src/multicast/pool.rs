//! Addresses of groups.

use std::collections::BTreeSet;

use crate::Mlid;

/// The multicast LIDs of a subnet: those that groups have, and how many there may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MlidPool {
    capacity: u16,
    taken: BTreeSet<Mlid>,
}

impl MlidPool {
    /// All free. `capacity`: the least MulticastFDBCap of the subnet's switches (IBA 14.2.5.4).
    pub const fn new(capacity: u16) -> Self {
        Self { capacity, taken: BTreeSet::new() }
    }

    /// How many groups every switch can hold: [`Self::take`] and [`Self::reserve`] keep to it. What was given
    /// before stays given.
    pub const fn set_capacity(&mut self, capacity: u16) {
        self.capacity = capacity;
    }

    /// Whether every switch has an entry for `mlid`.
    pub const fn fits(&self, mlid: Mlid) -> bool {
        mlid.index() < self.capacity as usize
    }

    /// The lowest free one.
    pub fn take(&mut self) -> Option<Mlid> {
        let free = |&mlid: &Mlid| !self.taken.contains(&mlid);
        let mlid = (0..usize::from(self.capacity)).map_while(Mlid::nth).find(free)?;
        self.taken.insert(mlid);
        Some(mlid)
    }

    /// This one, if it is free and fits.
    pub fn reserve(&mut self, mlid: Mlid) -> bool {
        self.fits(mlid) && self.taken.insert(mlid)
    }

    /// It is free again.
    pub fn release(&mut self, mlid: Mlid) {
        self.taken.remove(&mlid);
    }

    /// How many are given.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// True when none is given.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_from_the_bottom_within_the_capacity() {
        let at = |lid| Mlid::new(lid).unwrap();
        let mut pool = MlidPool::new(3);
        assert!(pool.reserve(at(0xC001)) && !pool.reserve(at(0xC001)));
        assert!(!pool.reserve(at(0xC003)), "no switch has an entry for it");
        assert_eq!(
            (pool.take(), pool.take(), pool.take()),
            (Some(at(0xC000)), Some(at(0xC002)), None)
        );
        pool.release(at(0xC000));
        assert_eq!(pool.take(), Some(at(0xC000)));
        pool.set_capacity(0);
        assert_eq!((pool.take(), pool.len()), (None, 3));
        pool.set_capacity(u16::MAX);
        assert_eq!(pool.take(), Some(at(0xC003)));
        let all = std::iter::from_fn(|| pool.take()).last();
        assert_eq!(all, Some(Mlid::MAX));
    }
}
