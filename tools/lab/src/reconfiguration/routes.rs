//! The baseline's routes: up*/down* over breadth-first levels. Of a destination every valid way is looked at;
//! where any way down exists, ways up are ignored; of what is left the shortest is taken.

use std::collections::VecDeque;

use snin_fabric::{ForwardingTable, Lid, PortNum};

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

pub(crate) fn compute(graph: &Graph) -> Routes {
    let switches = graph.links.len();
    let top = graph.ends.iter().map(|end| end.0).max().unwrap_or(Lid(0));
    let mut tables = vec![ForwardingTable::up_to(top); switches];
    let mut operations = 0;
    let levels = levels(graph, &mut operations);
    let mut order: Vec<usize> = (0..switches).collect();
    order.sort_by_key(|&switch| (levels[switch], switch));
    // Towards the root, and of one level towards the one that was found first.
    let up = |from: usize, to: usize| (levels[to], to) < (levels[from], from);
    for destination in 0..switches {
        let mut down = vec![FAR; switches];
        down[destination] = 0;
        let mut queue = VecDeque::from([destination]);
        while let Some(at) = queue.pop_front() {
            for &(_, before) in &graph.links[at] {
                operations += 1;
                if up(at, before) && down[before] == FAR {
                    down[before] = down[at] + 1;
                    queue.push_back(before);
                }
            }
        }
        let mut far = down.clone();
        let mut ports = vec![PortNum::NONE; switches];
        for &at in &order {
            let goes_down = down[at] != FAR;
            let mut best = FAR;
            for &(port, next) in &graph.links[at] {
                operations += 1;
                let rest = if up(at, next) { far[next] } else { down[next] };
                if at != destination && goes_down != up(at, next) && rest < best {
                    (best, ports[at]) = (rest, PortNum(port));
                }
            }
            if !goes_down && best != FAR {
                far[at] = best + 1;
            }
        }
        for &(lid, _, port) in graph.ends.iter().filter(|end| end.1 == destination) {
            for (switch, table) in tables.iter_mut().enumerate() {
                operations += 1;
                table.set(lid, if switch == destination { PortNum(port) } else { ports[switch] });
            }
        }
    }
    Routes { tables, operations }
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
                let routes = compute(&graph);
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
}
