//! Cycles in a directed graph, its arcs by node.

use std::collections::VecDeque;

/// How many nodes a shorter cycle is looked for through.
const TRIES: usize = 64;

/// Which nodes are in a cycle or on a path between two: what is left when nodes without an arc in, and then
/// nodes without an arc out, are taken off until there are none (Kahn).
pub(super) fn entangled(arcs: &[Vec<u32>]) -> Vec<bool> {
    let left = kahn(arcs);
    if !left.contains(&true) {
        return left;
    }
    let mut reversed = vec![Vec::new(); arcs.len()];
    for (from, to) in arcs.iter().enumerate().filter(|&(from, _)| left[from]) {
        for &to in to.iter().filter(|&&to| left[to as usize]) {
            reversed[to as usize].push(from as u32);
        }
    }
    kahn(&reversed)
}

/// True for nodes that are left when those without an arc in are taken off until there are none.
fn kahn(arcs: &[Vec<u32>]) -> Vec<bool> {
    let mut arcs_in = vec![0u32; arcs.len()];
    for &to in arcs.iter().flatten() {
        arcs_in[to as usize] += 1;
    }
    let mut free: Vec<usize> = (0..arcs.len()).filter(|&node| arcs_in[node] == 0).collect();
    while let Some(node) = free.pop() {
        for &to in &arcs[node] {
            arcs_in[to as usize] -= 1;
            if arcs_in[to as usize] == 0 {
                free.push(to as usize);
            }
        }
    }
    arcs_in.into_iter().map(|count| count != 0).collect()
}

/// One cycle: found by going on among the entangled nodes until one comes again, then the shortest through
/// any of its first nodes. Not always the shortest of all: that would be a search from every node.
pub(super) fn short_cycle(arcs: &[Vec<u32>], entangled: &[bool]) -> Option<Vec<u32>> {
    let mut cycle = some_cycle(arcs, entangled)?;
    for start in cycle.clone().into_iter().take(TRIES) {
        match cycle_through(arcs, entangled, start) {
            Some(shorter) if shorter.len() < cycle.len() => cycle = shorter,
            _ => {}
        }
    }
    Some(cycle)
}

/// Every entangled node has an entangled next one, so this ends in a cycle.
fn some_cycle(arcs: &[Vec<u32>], entangled: &[bool]) -> Option<Vec<u32>> {
    let mut at = entangled.iter().position(|&is| is)? as u32;
    let mut place = vec![None; arcs.len()];
    let mut trail = Vec::new();
    loop {
        if let Some(first) = place[at as usize].replace(trail.len()) {
            return Some(trail.split_off(first));
        }
        trail.push(at);
        at = *arcs[at as usize].iter().find(|&&to| entangled[to as usize])?;
    }
}

/// A shortest cycle through `start`, breadth first.
fn cycle_through(arcs: &[Vec<u32>], entangled: &[bool], start: u32) -> Option<Vec<u32>> {
    let mut came_from = vec![None; arcs.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &to in arcs[at as usize].iter().filter(|&&to| entangled[to as usize]) {
            if to == start {
                let mut cycle = vec![at];
                while let Some(before) = came_from[cycle[cycle.len() - 1] as usize] {
                    cycle.push(before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if came_from[to as usize].is_none() {
                came_from[to as usize] = Some(at);
                queue.push_back(to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entangled_is_what_a_cycle_needs() {
        // 0 -> 1 -> (2 -> 3 -> 2) -> 4 -> (5 -> 5), 4 -> 6
        let arcs =
            [vec![1], vec![2], vec![3], vec![2, 4], vec![5, 6], vec![5], vec![]].map(Vec::from);
        let entangled = entangled(&arcs);
        assert_eq!(entangled, [false, false, true, true, true, true, false]);
        assert_eq!(short_cycle(&arcs, &entangled), Some(vec![2, 3]));
    }

    #[test]
    fn a_graph_without_a_cycle_has_nothing_entangled() {
        let arcs = [vec![1, 2], vec![3], vec![3], vec![]].map(Vec::from);
        let entangled = entangled(&arcs);
        assert!(!entangled.contains(&true));
        assert_eq!(short_cycle(&arcs, &entangled), None);
    }

    #[test]
    fn a_chord_makes_the_cycle_shorter() {
        // The first cycle met is 0 1 2 3 4; through 4 a shorter one goes 4 -> 2.
        let arcs = [vec![1], vec![2], vec![3], vec![4], vec![0, 2]].map(Vec::from);
        let entangled = entangled(&arcs);
        assert_eq!(short_cycle(&arcs, &entangled).map(|cycle| cycle.len()), Some(3));
    }
}
