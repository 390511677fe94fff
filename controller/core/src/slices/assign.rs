//! The links for hosts that are chosen already: exact, so that there are none where none are found.

use super::condition::{Place, Set, Share, members, needs, share};
use super::layout::{Layout, Links};

/// How many hosts of which leaf, each leaf once and with one host at least.
pub(super) type Placement = Vec<(u32, u32)>;

/// Links for a placement.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Assignment {
    /// Groups, leaf by leaf of the placement.
    pub(super) leaf: Vec<(u32, Set)>,
    /// Cores: pod, group, set.
    pub(super) pod: Vec<(u32, usize, Set)>,
}

/// Finds links by the condition, as few as the placement needs.
pub(super) fn assign(
    layout: &Layout,
    links: &Links,
    placement: &[(u32, u32)],
) -> Option<Assignment> {
    if placement.len() < 2 {
        return Some(Assignment::default());
    }
    let counts: Vec<u32> = placement.iter().map(|&(_, hosts)| hosts).collect();
    let places: Vec<Place> = needs(&counts)
        .zip(placement)
        .map(|(need, &(leaf, _))| Place { need, free: links.leaf(leaf) })
        .collect();
    let pods = Pods::new(layout, links, placement);
    let share = if pods.count.len() < 2 {
        share(&places, |_, _| (Set::MAX, Set::MAX))?
    } else {
        share(&places, |left_over, groups| {
            let by_all = pods.groups(None, groups);
            (by_all, by_all | pods.groups(Some(pods.of_place[left_over]), groups & !by_all))
        })?
    };
    let leaf = placement.iter().enumerate().map(|(place, &(leaf, _))| (leaf, share.of(place)));
    Some(Assignment { leaf: leaf.collect(), pod: pods.cores(&share) })
}

/// The pods of a placement.
struct Pods<'a> {
    links: &'a Links,
    /// Their numbers, and how many leaves of the job each has.
    number: Vec<u32>,
    count: Vec<u32>,
    /// For each leaf of the placement the place of its pod here.
    of_place: Vec<usize>,
}

impl<'a> Pods<'a> {
    fn new(layout: &'a Layout, links: &'a Links, placement: &[(u32, u32)]) -> Self {
        let mut pods = Self {
            links,
            number: Vec::new(),
            count: Vec::new(),
            of_place: Vec::with_capacity(placement.len()),
        };
        for &(leaf, _) in placement {
            let number = layout.pod_of_leaf[leaf as usize];
            let known = pods.number.iter().position(|&other| other == number);
            let place = known.unwrap_or_else(|| {
                pods.number.push(number);
                pods.count.push(0);
                pods.number.len() - 1
            });
            pods.count[place] += 1;
            pods.of_place.push(place);
        }
        pods
    }

    /// Those of some groups that there are cores of, when a leaf of pod `without` has not the group.
    /// What is possible with the leaf is possible without it.
    fn groups(&self, without: Option<usize>, groups: Set) -> Set {
        let possible = |&group: &usize| self.share(group, without).is_some();
        members(groups).filter(possible).fold(0, |set, group| set | 1 << group)
    }

    /// The cores of one group, for pods by their number; none where no connection leaves a pod.
    fn share(&self, group: usize, without: Option<usize>) -> Option<Vec<(u32, Set)>> {
        let mut count = self.count.clone();
        if let Some(without) = without {
            count[without] -= 1;
        }
        let mut numbers = Vec::with_capacity(count.len());
        let mut places = Vec::with_capacity(count.len());
        for (&number, need) in self.number.iter().zip(needs(&count)).filter(|&(_, need)| need > 0) {
            numbers.push(number);
            places.push(Place { need, free: self.links.pod(number, group) });
        }
        if places.is_empty() {
            return Some(Vec::new());
        }
        let share = share(&places, |_, _| (Set::MAX, Set::MAX))?;
        Some(numbers.into_iter().enumerate().map(|(n, pod)| (pod, share.of(n))).collect())
    }

    fn cores(&self, share: &Share) -> Vec<(u32, usize, Set)> {
        let mut cores = Vec::new();
        if self.count.len() < 2 {
            return cores;
        }
        let left_over = self.of_place[share.left_over];
        for group in members(share.all) {
            let without = (share.part >> group & 1 == 0).then_some(left_over);
            // Only groups with such cores were shared.
            for (pod, set) in self.share(group, without).unwrap_or_default() {
                cores.push((pod, group, set));
            }
        }
        cores
    }
}
