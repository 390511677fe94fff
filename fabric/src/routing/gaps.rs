//! A Clos with gaps: where cables are missing, what is sent to base addresses is spread by load.
//!
//! What has its cables keeps its tree: a base address leads along its home tree from every switch that the tree
//! covers. Where the tree lacks the cable, at the source or at the destination, the legal routes are weighed as
//! they are where there are no trees, beside all that has stayed. So a cut moves the routes that had led over the
//! cable, and some of those that make way for them around other gaps. Grants do not come here: their addresses are
//! usable only where the tree has all its cables.

use super::balanced::Balance;
use super::engine::without_strays;
use super::reach::{Links, UpDown};
use super::spread::{self, Spread};
use super::{AddressPlan, Forest, Ranks};
use crate::clos::Clos;
use crate::hosts::Hosts;
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, Topology, TreeId};

/// Steps that choosing may take: entries that are looked at. Beyond that, tables stay as they are.
const MOST_STEPS: usize = 100_000_000;
/// Routes that are walked to spread them once more. Some hundredths of a second.
const MOST_WALKS: usize = 200_000;
/// How often each address is routed anew beside all others.
const ROUNDS: usize = 2;

/// A base address, and which switches may lead to it as they like.
struct Base {
    lid: Lid,
    /// `None`: all switches; else those that this tree does not cover.
    tree: Option<TreeId>,
}

impl Base {
    fn is_free(&self, forest: &Forest, switch: NodeIndex) -> bool {
        self.tree.is_none_or(|tree| !forest.covers(switch, tree))
    }
}

/// Spreads what base addresses lead around gaps: of ports with these addresses, in tables in which each leads
/// along its home tree where that covers both ends. Without gaps nothing is changed.
pub(super) fn spread(
    topology: &Topology,
    clos: &Clos,
    (ranks, forest): (&Ranks, &Forest),
    plan: &AddressPlan,
    addresses: &Addresses,
    tables: &mut [ForwardingTable],
) {
    let lacks = |switch: NodeIndex| forest.lacks_trees(switch);
    let lacking: Vec<bool> = topology.switches().map(lacks).collect();
    let switches = topology.switch_count();
    let hosts = Hosts::of(topology);
    let gaps = lacking.iter().filter(|&&lacks| lacks).count();
    if gaps == 0 || hosts.len().saturating_mul(switches) > MOST_STEPS {
        return;
    }
    let carrying = without_strays(topology, clos);
    let topology = carrying.as_ref();
    let has_planes = clos.root_planes > 1 || clos.leaf_planes > 1;
    let mut on: Vec<Vec<Base>> = topology.switches().map(|_| Vec::new()).collect();
    for (_, host) in hosts.iter() {
        let Some(lid) = addresses.base(host.port) else { continue };
        let tree = plan.home(host.port).or_else(|| plan.tree(host.port, 0));
        let tree = tree.filter(|&tree| forest.covers(host.switch, tree));
        on[host.switch.index()].push(Base { lid, tree });
    }
    let links = Links::new(topology, ranks);
    let mut up_down = UpDown::new(&links, ranks);
    let mut balance = Balance::new(topology);
    for round in 0..=ROUNDS {
        for switch in topology.switches() {
            let bases = &on[switch.index()];
            if bases.is_empty() {
                continue;
            }
            // Where all trees lead, only what is on no tree and parallel cables leave a choice.
            let all = has_planes || bases.iter().any(|base| base.tree.is_none());
            let chooses = |switch: NodeIndex| round > 0 && (all || lacking[switch.index()]);
            balance.find_hops(topology, &mut up_down, switch, &chooses);
            for base in bases {
                if round == 0 {
                    balance.count(topology, base.lid, tables);
                    continue;
                }
                balance.take_out(topology, base.lid, tables);
                let is_free = |switch: NodeIndex| base.is_free(forest, switch);
                balance.put_in(topology, (switch, base.lid), tables, is_free);
            }
        }
    }
    let all: Vec<(NodeIndex, &Base)> = topology
        .switches()
        .flat_map(|switch| on[switch.index()].iter().map(move |base| (switch, base)))
        .collect();
    let bases = all.iter().map(|&(switch, base)| spread::Base { switch, lid: base.lid }).collect();
    let spread = Spread::new(topology, bases, (&mut up_down, &|_| true), tables.to_vec());
    let spread = spread.improved(MOST_WALKS, |base, at| all[base].1.is_free(forest, at));
    tables.clone_from_slice(&spread);
}
