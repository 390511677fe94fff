//! How admitted connections are handed to the packer where a fabric link is faster than a unit.
//!
//! Every admitted connection, of the unit rate or slower, is one connection to the packer with the same
//! number: several slow ones share a *host's* link, but each has the fabric's links that it crosses to
//! itself. A fabric link that is K times as fast as the unit is K colours: the packer is given K trees
//! for each tree, and what it grants on colour `tree * K + lane` is sent on `tree`. Between leaf and
//! group the lanes are told apart, so that K connections share the link there too and no more.

use snin_fabric::TreeId;

/// How many connections of one unit a fabric link carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colours {
    per_link: u16,
}

impl Colours {
    /// Links of `link` bit/s, connections of up to `unit` bit/s. `None` where a link does not carry one.
    pub fn new(link: u64, unit: u64) -> Option<Self> {
        let per_link = u16::try_from(link.checked_div(unit)?).unwrap_or(u16::MAX);
        (per_link > 0).then_some(Self { per_link })
    }

    /// The K of this fabric.
    pub const fn per_link(self) -> u16 {
        self.per_link
    }

    /// The packer's colours of a tree; `None` where they are too many to number.
    pub fn of_tree(self, tree: TreeId) -> Option<impl Iterator<Item = TreeId>> {
        let first = tree.0.checked_mul(self.per_link)?;
        let last = first.checked_add(self.per_link - 1)?;
        Some((first..=last).map(TreeId))
    }

    /// The tree that a colour is sent on.
    pub const fn tree(self, colour: TreeId) -> TreeId {
        TreeId(colour.0 / self.per_link)
    }

    /// The groups of the packer's colours, from the groups of the trees, for
    /// [`Shape::three_stage`](crate::packing::Shape::three_stage).
    pub fn groups(self, group_of_tree: &[u32]) -> Vec<u32> {
        let lanes = |&group: &u32| {
            (0..self.per_link).map(move |lane| group * u32::from(self.per_link) + u32::from(lane))
        };
        group_of_tree.iter().flat_map(lanes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::{LeafId, Packer, Request, Shape};

    #[test]
    fn colours_and_trees_translate_both_ways() {
        let four = Colours::new(400, 100).unwrap();
        let colours: Vec<u16> = four.of_tree(TreeId(3)).unwrap().map(|colour| colour.0).collect();
        assert_eq!(colours, [12, 13, 14, 15]);
        assert!(colours.iter().all(|&colour| four.tree(TreeId(colour)) == TreeId(3)));
        assert_eq!(Colours::new(99, 100), None);
        assert!(Colours::new(100, 0).is_none() && four.of_tree(TreeId(1 << 14)).is_none());
    }

    /// Two groups of two cores with links of two units: a leaf sends four units, but not five.
    #[test]
    fn a_fast_link_carries_k_connections_and_no_more() {
        let two = Colours::new(200, 100).unwrap();
        let shape = Shape::three_stage(vec![0, 1], two.groups(&[0, 0, 1, 1]));
        let asks = [0, 1, 2, 3, 4].map(|id| Request::new(id, LeafId(0), LeafId(1)));
        let mut packer = Packer::new(shape);
        let outcome = packer.apply(&[], &asks);
        let mut on_group = [0; 2];
        outcome.granted.iter().for_each(|g| on_group[two.tree(g.1).index() / 2] += 1);
        assert_eq!((on_group, outcome.deferred.len()), ([2, 2], 1));
    }
}
