//! The baseline's routes: up*/down* over breadth-first levels. Of a destination every valid way is looked at;
//! where any way down exists, ways up are ignored; of what is left the shortest is taken.

use std::collections::{BTreeMap, VecDeque};

use snin_fabric::{ForwardingTable, Guid, Lid, PortNum};

/// A fabric as a manager knows it. Switches are numbered in the order of discovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// By switch: port, and the switch behind it.
    pub(crate) links: Vec<Vec<(u8, usize)>>,
    /// Address, its switch, and the port behind which it is (0: the switch itself).
    pub(crate) ends: Vec<(Lid, usize, u8)>,
}

/// Tables by switch, and how many elementary steps it took to compute them: links looked at and entries written.
pub(crate) struct Routes {
    pub(crate) tables: Vec<ForwardingTable>,
    pub(crate) operations: u64,
}

const FAR: u32 = u32::MAX;

/// Computes routes, and keeps them, so that the next time only those that change need be.
pub(crate) struct Router {
    kept: Option<Kept>,
}

/// What was computed last, by switch.
struct Kept {
    switches: Vec<Guid>,
    graph: Graph,
    levels: Vec<u32>,
    /// By destination.
    ways: Vec<Ways>,
}

/// All switches' ways to one of them.
#[derive(Clone)]
struct Ways {
    down: Vec<u32>,
    far: Vec<u32>,
    ports: Vec<PortNum>,
}

impl Router {
    pub(crate) const fn new() -> Self {
        Self { kept: None }
    }

    /// Tables for switches with these GUIDs. With `only_changed` a destination's routes are computed where they
    /// change only; ranks stay then as they were while every switch has a way up.
    pub(crate) fn route(&mut self, switches: &[Guid], graph: Graph, only_changed: bool) -> Routes {
        let mut operations = 0;
        let old = self.kept.take().filter(|_| only_changed);
        let old = old.and_then(|old| Moved::of(old, switches, &graph, &mut operations));
        let levels = match &old {
            Some(old) => old.levels.clone(),
            None => levels(&graph, &mut operations),
        };
        let count = switches.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&switch| (levels[switch], switch));
        let find = Finding { graph: &graph, levels: &levels, order: &order };
        let mut ways = Vec::with_capacity(count);
        let mut changed = Vec::with_capacity(count);
        for destination in 0..count {
            let kept = old.as_ref().and_then(|old| old.ways(destination, &find, &mut operations));
            changed.push(kept.is_none());
            ways.push(kept.unwrap_or_else(|| find.ways(destination, &mut operations)));
        }
        let tables = tables(
            &graph,
            &ways,
            |destination| {
                // Of what stays, only the new switches' entries are written.
                match (changed[destination], &old) {
                    (false, Some(old)) => old.new.len() as u64,
                    _ => count as u64,
                }
            },
            &mut operations,
        );
        let switches = switches.to_vec();
        self.kept = Some(Kept { switches, graph, levels, ways });
        Routes { tables, operations }
    }
}

fn tables(
    graph: &Graph,
    ways: &[Ways],
    written: impl Fn(usize) -> u64,
    operations: &mut u64,
) -> Vec<ForwardingTable> {
    let top = graph.ends.iter().map(|end| end.0).max().unwrap_or(Lid(0));
    let mut tables = vec![ForwardingTable::up_to(top); graph.links.len()];
    for &(lid, destination, port) in &graph.ends {
        *operations += written(destination);
        for (switch, table) in tables.iter_mut().enumerate() {
            let own = switch == destination;
            table.set(lid, if own { PortNum(port) } else { ways[destination].ports[switch] });
        }
    }
    tables
}

/// A graph with its ranks.
struct Finding<'a> {
    graph: &'a Graph,
    levels: &'a [u32],
    order: &'a [usize],
}

impl Finding<'_> {
    /// Towards the root, and of one level towards the one that was found first.
    fn up(&self, from: usize, to: usize) -> bool {
        (self.levels[to], to) < (self.levels[from], from)
    }

    fn ways(&self, destination: usize, operations: &mut u64) -> Ways {
        let count = self.graph.links.len();
        let mut down = vec![FAR; count];
        down[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(at) = queue.pop_front() {
            for &(_, before) in &self.graph.links[at] {
                *operations += 1;
                if self.up(at, before) && down[before] == FAR {
                    down[before] = down[at] + 1;
                    queue.push_back(before);
                }
            }
        }
        let (far, ports) = (down.clone(), vec![PortNum::NONE; count]);
        let mut ways = Ways { down, far, ports };
        for &at in self.order {
            let (far, port) = self.choose(at, destination, &ways, operations);
            (ways.far[at], ways.ports[at]) = (far, port);
        }
        ways
    }

    /// How far a switch is by the best of its links, and that link; `ways` holds those above it.
    fn choose(
        &self,
        at: usize,
        destination: usize,
        ways: &Ways,
        operations: &mut u64,
    ) -> (u32, PortNum) {
        let goes_down = ways.down[at] != FAR;
        let (mut best, mut chosen) = (FAR, PortNum::NONE);
        for &(port, next) in &self.graph.links[at] {
            *operations += 1;
            let up = self.up(at, next);
            let rest = if up { ways.far[next] } else { ways.down[next] };
            if at != destination && goes_down != up && rest < best {
                (best, chosen) = (rest, PortNum(port));
            }
        }
        let far =
            if goes_down { ways.down[at] } else { best.saturating_add(u32::from(best != FAR)) };
        (far, chosen)
    }
}

/// What was kept, by the numbers that switches have now.
struct Moved {
    levels: Vec<u32>,
    ways: Vec<Option<Ways>>,
    /// Switches at the end of a link that is gone or new.
    touched: Vec<usize>,
    /// Switches that were not there.
    new: Vec<usize>,
}

impl Moved {
    /// `None` where ranks have to be found anew.
    fn of(kept: Kept, switches: &[Guid], graph: &Graph, operations: &mut u64) -> Option<Self> {
        let count = switches.len();
        let before: BTreeMap<Guid, usize> = kept.switches.iter().copied().zip(0..).collect();
        let was: Vec<Option<usize>> =
            switches.iter().map(|guid| before.get(guid).copied()).collect();
        // Those that were there keep their order among each other, and the root is the same.
        let known: Vec<usize> = was.iter().flatten().copied().collect();
        if !known.is_sorted() || was.first() != Some(&Some(0)) {
            return None;
        }
        let mut levels: Vec<u32> =
            was.iter().map(|was| was.map_or(FAR, |was| kept.levels[was])).collect();
        let new: Vec<usize> = (0..count).filter(|&at| was[at].is_none()).collect();
        for &at in &new {
            let above = graph.links[at].iter().map(|link| levels[link.1]).min().unwrap_or(FAR);
            levels[at] = above.saturating_add(u32::from(above != FAR));
        }
        let mut touched = Vec::new();
        for at in 0..count {
            *operations += graph.links[at].len() as u64;
            let above = |&(_, to): &(u8, usize)| (levels[to], to) < (levels[at], at);
            if at > 0 && !graph.links[at].iter().any(above) {
                return None;
            }
            let named = |graph: &Graph, at: usize, names: &[Guid]| -> Vec<(u8, Guid)> {
                graph.links[at].iter().map(|&(port, to)| (port, names[to])).collect()
            };
            let old = was[at].map(|was| named(&kept.graph, was, &kept.switches));
            if old.is_none_or(|old| old != named(graph, at, switches)) {
                touched.push(at);
            }
        }
        let ways = was.iter().map(|destination| {
            let old = &kept.ways[(*destination)?];
            let by =
                |values: &[u32]| was.iter().map(|was| was.map_or(FAR, |w| values[w])).collect();
            let ports = was.iter().map(|was| was.map_or(PortNum::NONE, |was| old.ports[was]));
            Some(Ways { down: by(&old.down), far: by(&old.far), ports: ports.collect() })
        });
        let ways = ways.collect();
        Some(Self { levels, ways, touched, new })
    }

    /// The old ways to a destination, with those of new switches, where no link that is gone or new changes any.
    fn ways(&self, destination: usize, find: &Finding<'_>, operations: &mut u64) -> Option<Ways> {
        let mut ways = self.ways[destination].clone()?;
        let below = |at: usize, ways: &Ways| {
            let links = find.graph.links[at].iter().filter(|link| !find.up(at, link.1));
            let least = links.map(|link| ways.down[link.1]).min().unwrap_or(FAR);
            least.saturating_add(u32::from(least != FAR))
        };
        // Downwards from below, the rest from above: as they depend on each other.
        for &at in find.order.iter().rev().filter(|at| self.new.contains(at)) {
            *operations += find.graph.links[at].len() as u64;
            ways.down[at] = below(at, &ways);
        }
        for &at in find.order.iter().filter(|at| self.touched.contains(at)) {
            *operations += find.graph.links[at].len() as u64;
            if at != destination && below(at, &ways) != ways.down[at] {
                return None;
            }
            let (far, port) = find.choose(at, destination, &ways, operations);
            if self.new.contains(&at) {
                (ways.far[at], ways.ports[at]) = (far, port);
            } else if (far, port) != (ways.far[at], ways.ports[at]) {
                return None;
            }
        }
        Some(ways)
    }
}

/// Hops from the first switch; those that no cable leads to are last.
fn levels(graph: &Graph, operations: &mut u64) -> Vec<u32> {
    let mut levels = vec![FAR; graph.links.len()];
    let Some(root) = levels.first_mut() else { return levels };
    *root = 0;
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        for &(_, next) in &graph.links[at] {
            *operations += 1;
            if levels[next] == FAR {
                levels[next] = levels[at] + 1;
                queue.push_back(next);
            }
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconfiguration::fabric::irregular;
    use snin_fabric::check::credit::{Traffic, credit};
    use snin_fabric::check::walk::walk;
    use snin_fabric::{Addresses, Lmc, NodeIndex, Topology};

    fn graph(topology: &Topology) -> (Graph, Addresses) {
        let mut addresses = Addresses::none(topology.port_count());
        let mut graph = Graph::default();
        let ports = |node: NodeIndex| topology.switch_links(node).map(|(p, n)| (p.0, n.index()));
        graph.links = topology.switches().map(|switch| ports(switch).collect()).collect();
        for node in topology.nodes() {
            let lid = Lid(node.0 as u16 + 1);
            let (port, end) = match topology.is_switch(node) {
                true => (topology.port0(node), (lid, node.index(), 0)),
                false => {
                    let (own, peer) = topology.cables(node).next().unwrap();
                    let switch = topology.port(peer).node.index();
                    (own, (lid, switch, topology.num(peer).0))
                }
            };
            addresses.assign(port, lid, Lmc::ZERO).unwrap();
            graph.ends.push(end);
        }
        (graph, addresses)
    }

    #[test]
    fn every_address_arrives_without_a_credit_loop_and_the_work_is_quadratic() {
        let mut work = Vec::new();
        for switches in [8, 16, 32, 64] {
            let mut operations = 0;
            for seed in 1..=10 {
                let topology = irregular(switches, seed).unwrap();
                let (graph, addresses) = graph(&topology);
                let guids: Vec<Guid> =
                    topology.switches().map(|at| topology.node(at).guid).collect();
                let routes = Router::new().route(&guids, graph, false);
                assert!(walk(&topology, &addresses, &routes.tables, 3).joins_all());
                let credit = credit(&topology, &addresses, &routes.tables, Traffic::All, |_, _| 0);
                assert!(credit.is_ok(), "{credit}");
                operations += routes.operations;
            }
            work.push(operations as f64);
        }
        for pair in work.windows(2) {
            assert!((3.5..4.5).contains(&(pair[1] / pair[0])), "{work:?}");
        }
    }

    /// Without a switch and with it again: routes that were kept are those that are found anew, ranks given.
    #[test]
    fn what_is_kept_is_what_would_be_computed() {
        let mut kept = 0;
        for seed in 1..=20 {
            let topology = irregular(16, seed).unwrap();
            let (whole, _) = graph(&topology);
            let guids: Vec<Guid> = topology.switches().map(|at| topology.node(at).guid).collect();
            for gone in 1..guids.len() {
                let mut router = Router::new();
                let first = router.route(&guids, whole.clone(), true).operations;
                let (rest, names) =
                    (without(&whole, gone), [&guids[..gone], &guids[gone + 1..]].concat());
                let less = router.route(&names, rest.clone(), true);
                let levels = router.kept.as_ref().unwrap().levels.clone();
                let ways = anew(&rest, &levels);
                assert_eq!(less.tables, tables(&rest, &ways, |_| 0, &mut 0), "{seed} {gone}");
                kept += u64::from(less.operations < first / 2);
                // It comes back as the last that was found.
                let mut more = rest.clone();
                let last = names.len();
                more.links.push(Vec::new());
                more.ends.push((Lid(999), last, 0));
                for &(port, to) in &whole.links[gone] {
                    let to = if to > gone { to - 1 } else { to };
                    let back = whole.links[if to >= gone { to + 1 } else { to }].iter();
                    let back =
                        back.filter(|link| link.1 == gone).map(|link| link.0).next().unwrap();
                    more.links[last].push((port, to));
                    more.links[to].push((back, last));
                    more.links[to].sort_unstable();
                }
                let names = [&names[..], &[guids[gone]]].concat();
                let again = router.route(&names, more.clone(), true);
                let levels = router.kept.as_ref().unwrap().levels.clone();
                let ways = anew(&more, &levels);
                assert_eq!(again.tables, tables(&more, &ways, |_| 0, &mut 0), "{seed} {gone}");
            }
        }
        assert!(kept > 0, "it never paid");
    }

    fn anew(graph: &Graph, levels: &[u32]) -> Vec<Ways> {
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by_key(|&at| (levels[at], at));
        let find = Finding { graph, levels, order: &order };
        (0..levels.len()).map(|to| find.ways(to, &mut 0)).collect()
    }

    fn without(graph: &Graph, gone: usize) -> Graph {
        let number = |at: usize| if at > gone { at - 1 } else { at };
        let mut rest = graph.clone();
        rest.links.remove(gone);
        for links in &mut rest.links {
            links.retain(|link| link.1 != gone);
            links.iter_mut().for_each(|link| link.1 = number(link.1));
        }
        rest.ends.retain(|end| end.1 != gone);
        rest.ends.iter_mut().for_each(|end| end.1 = number(end.1));
        rest
    }
}
