//! Shortest routes in lanes, spread over the links as far as the lanes have room.
//!
//! How many lanes routes need follows from how alike they are: fewest where both directions between two switches
//! take the same links, most where each address goes its own way. So several beginnings are tried, and from each
//! routes are moved as long as their pairs of switches find lanes. That gives what DFSSSP's balance gives, in the
//! lanes that LASH needs.

use std::collections::BTreeMap;

use super::balanced::{self, Balance, Cost, Ends, NextHops};
use super::engine::Former;
use super::lanes::{Assignment, Lanes};
use super::shortest::{Shortest, Weights};
use super::spread::{Base, Laned, MOST_ROUTES, Spread};
use super::{AddressPlan, Ranks};
use crate::{ForwardingTable, Guid, Lid, NodeIndex, PortNum, Topology};

/// Routes that are walked from each beginning. Some tenths of a second.
const MOST_STEPS: usize = 1_000_000;
/// Routes that are walked where those that were kept load links too much.
const MEND_STEPS: usize = 20_000;

/// What is wanted of routes in lanes.
pub(super) struct Layers<'a> {
    /// The best of several; else those by the lowest ports.
    pub(super) is_spread: bool,
    /// At most so many lanes.
    pub(super) most: u8,
    /// What was before is kept as far as possible.
    pub(super) former: Option<Former<'a>>,
}

/// Fills in the routes to the addresses of the plan, and finds the lane of each; `None` where there are too few
/// lanes, or the fabric is too large.
pub(super) fn fill(
    topology: &Topology,
    ranks: &Ranks,
    ends: &[Ends<'_>],
    plan: &AddressPlan,
    tables: &mut Vec<ForwardingTable>,
    wanted: &Layers<'_>,
) -> Option<Lanes> {
    let &Layers { is_spread, most, former } = wanted;
    let offsets = plan.lmc().addresses();
    let addresses: usize = ends.iter().map(|ends| ends.lids.len()).sum();
    if addresses.saturating_mul(topology.switch_count()) > MOST_ROUTES {
        return None;
    }
    let bases = bases(ends, offsets);
    let mut lids: Vec<&[Lid]> = vec![&[]; topology.switch_count()];
    ends.iter().for_each(|ends| lids[ends.switch.index()] = ends.lids);
    let spread = |filled: Vec<ForwardingTable>, most: u8, prefer: &dyn Fn(&mut Assignment<'_>)| {
        let mut assignment = Assignment::new(topology, ranks, most);
        prefer(&mut assignment);
        let any: (&mut dyn NextHops, &dyn Fn(_) -> bool) = (&mut Shortest::Any, &|_| true);
        let spread = Spread::new(topology, bases.clone(), any, filled);
        spread.laned(Laned { assignment, lids: lids.clone() })
    };
    let former = former.and_then(|it| Some((it, it.routing.lanes.as_ref()?)));
    if let Some((former, lanes)) = former.filter(|_| is_spread) {
        let kept = kept(topology, ends, plan, former, tables);
        let prefer = |assignment: &mut Assignment<'_>| {
            prefer_former(topology, former, lanes, assignment);
        };
        let is_good = |spread: &Spread<'_>| spread.cost().0 * 4 <= lanes.load * 5;
        let kept = spread(kept.clone(), most, &prefer).or_else(|| spread(kept, most, &|_| ()));
        let kept = kept.map(|mut kept| {
            if !is_good(&kept) {
                kept.run(MEND_STEPS, |_, _| true, |_| ());
            }
            kept
        });
        if let Some((filled, Some(laned))) = kept.filter(is_good).map(Spread::finish) {
            *tables = filled;
            return Some(laned.assignment.finish(lanes.load));
        }
    }
    let beginnings = match is_spread {
        true => {
            let weights = Weights::new(topology);
            vec![Shortest::Any, Shortest::Weighted(weights), Shortest::LowestPort]
        }
        false => vec![Shortest::LowestPort],
    };
    let mut best: Option<(Cost, Vec<ForwardingTable>, Lanes)> = None;
    // A lane is left for what has to change later, if the others suffice.
    for most in [most.saturating_sub(1), most] {
        for shortest in &beginnings {
            let mut filled = tables.clone();
            balanced::fill(topology, &mut shortest.clone(), ends, offsets, &mut filled);
            let prefer = |assignment: &mut Assignment<'_>| match former {
                // The routes of one kind stay by themselves.
                Some((former, lanes)) if !is_spread => {
                    prefer_former(topology, former, lanes, assignment);
                }
                _ => {}
            };
            let Some(mut spread) = spread(filled, most, &prefer) else { continue };
            if is_spread {
                spread.run(MOST_STEPS, |_, _| true, |_| ());
            }
            let cost = spread.cost();
            if best.as_ref().is_none_or(|(least, ..)| cost < *least)
                && let (filled, Some(laned)) = spread.finish()
            {
                best = Some((cost, filled, laned.assignment.finish(cost.0)));
            }
        }
        if best.is_some() {
            break;
        }
    }
    let (_, filled, lanes) = best?;
    *tables = filled;
    Some(lanes)
}

/// Tables with the former routes as far as they still lead the shortest way; the others are chosen beside them.
fn kept(
    topology: &Topology,
    ends: &[Ends<'_>],
    plan: &AddressPlan,
    former: Former<'_>,
    tables: &[ForwardingTable],
) -> Vec<ForwardingTable> {
    let Former { topology: before, addresses, routing } = former;
    let switches: BTreeMap<Guid, NodeIndex> =
        before.switches().map(|switch| (before.node(switch).guid, switch)).collect();
    let ports: BTreeMap<Guid, Lid> =
        addresses.iter().map(|(port, base, _)| (before.port(port).guid, base)).collect();
    let table_of = |switch: NodeIndex| {
        switches.get(&topology.node(switch).guid).map(|former| &routing.tables[former.index()])
    };
    let of_switch: Vec<Option<&ForwardingTable>> = topology.switches().map(table_of).collect();
    let former_lid = |lid: Lid| {
        let (port, offset) = plan.addresses().owner(lid)?;
        Some(Lid(ports.get(&topology.port(port).guid)?.0.checked_add(offset)?))
    };
    let mut kept = tables.to_vec();
    let mut balance = Balance::new(topology);
    let mut is_kept = vec![false; topology.switch_count()];
    for &Ends { switch: to, lids } in ends {
        let mut near: Vec<Vec<PortNum>> = vec![Vec::new(); topology.switch_count()];
        let mut each = |at: NodeIndex, ports: &[PortNum]| near[at.index()].extend_from_slice(ports);
        Shortest::Any.find(topology, to, &|_| true, &mut each);
        balance.find_hops(topology, &mut Shortest::Any, to, &|_| true);
        for &lid in lids {
            let was = former_lid(lid);
            for switch in topology.switches() {
                let port = was.zip(of_switch[switch.index()]).map(|(lid, table)| table.get(lid));
                let port = port.filter(|port| near[switch.index()].contains(port));
                is_kept[switch.index()] = port.is_some();
                port.into_iter().for_each(|port| kept[switch.index()].set(lid, port));
            }
            balance.put_in(topology, (to, lid), &mut kept, |switch| !is_kept[switch.index()]);
        }
    }
    kept
}

/// Pairs of switches that had a lane take it again where they can.
fn prefer_former(
    topology: &Topology,
    former: Former<'_>,
    lanes: &Lanes,
    assignment: &mut Assignment<'_>,
) {
    let before = former.topology;
    let switches: BTreeMap<Guid, NodeIndex> =
        before.switches().map(|switch| (before.node(switch).guid, switch)).collect();
    let was = |switch: NodeIndex| switches.get(&topology.node(switch).guid).copied();
    for one in topology.switches() {
        for other in topology.switches().take(one.index()) {
            if let Some((was_one, was_other)) = was(one).zip(was(other)) {
                assignment.prefer((one, other), lanes.of(was_one, was_other));
            }
        }
    }
}

/// The base addresses, of addresses of which each host has so many.
pub(super) fn bases(ends: &[Ends<'_>], offsets: usize) -> Vec<Base> {
    let is_base = |lid: &Lid| lid.index().is_multiple_of(offsets);
    let bases = ends.iter().flat_map(|&Ends { switch, lids }| {
        lids.iter().copied().filter(is_base).map(move |lid| Base { switch, lid })
    });
    bases.collect()
}
