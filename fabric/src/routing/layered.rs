//! Shortest routes in lanes, spread over the links as far as the lanes have room.
//!
//! How many lanes routes need follows from how alike they are: fewest where both directions between two switches
//! take the same links, most where each address goes its own way. So several beginnings are tried, and from each
//! routes are moved as long as their pairs of switches find lanes. That gives what DFSSSP's balance gives, in the
//! lanes that LASH needs.

use std::collections::BTreeSet;

use super::balanced::{self, Cost, Ends, NextHops};
use super::engine::Former;
use super::lanes::{Assignment, Lanes};
use super::mended::{Mended, Torn, mend};
use super::shortest::{Shortest, Weights};
use super::spread::{Base, Laned, MOST_ROUTES, Spread};
use super::{AddressPlan, Ranks};
use crate::{ForwardingTable, Lid, Topology};

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
        spread.laned(Laned { assignment, lids: lids.clone(), late: BTreeSet::new() })
    };
    let former = former.and_then(|it| Some((it, it.routing.lanes.as_ref()?)));
    if let Some((former, lanes)) = former {
        let shortest = if is_spread { Shortest::Any } else { Shortest::LowestPort };
        let torn = Torn { topology, ranks, ends, plan, former, lanes, most, shortest };
        if let Some(Mended { tables: filled, assignment, load }) = mend(torn, tables.clone()) {
            let kept = assignment.finish(lanes.load);
            if !is_spread || load * 4 <= lanes.load * 5 {
                *tables = filled;
                return Some(kept);
            }
            let settle = |assignment: &mut Assignment<'_>| assignment.settle(&kept);
            if let Some(mut spread) = spread(filled.clone(), most, &settle) {
                spread.run(MEND_STEPS, |_, _| true, |_| ());
                if let (filled, Some(laned)) = spread.finish() {
                    *tables = filled;
                    return Some(laned.assignment.finish(lanes.load));
                }
            }
            *tables = filled;
            return Some(kept);
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
            let Some(mut spread) = spread(filled, most, &|_| ()) else { continue };
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

/// The base addresses, of addresses of which each host has so many.
pub(super) fn bases(ends: &[Ends<'_>], offsets: usize) -> Vec<Base> {
    let is_base = |lid: &Lid| lid.index().is_multiple_of(offsets);
    let bases = ends.iter().flat_map(|&Ends { switch, lids }| {
        lids.iter().copied().filter(is_base).map(move |lid| Base { switch, lid })
    });
    bases.collect()
}
