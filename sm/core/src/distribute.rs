//! Tables minus what the switches hold: the writes, in an order without loops.

use std::collections::BTreeMap;

use snin_fabric::Lid;

use super::order::{Tables, What, Write, order};
use crate::graph::Graph;
use crate::lft_shadow::LftShadow;
use crate::planning::Target;
use crate::schedule::{Schedule, Step, StepId};

/// Adds every write that is due. Those that change what is forwarded wait for `links_up`, if anything is
/// forwarded yet; `done` waits for all.
pub(crate) fn distribute(
    schedule: &mut Schedule,
    graph: &Graph,
    target: &Target,
    manager: Lid,
    links_up: StepId,
    done: StepId,
) {
    let topology = &target.discovered.topology;
    let Some(ranks) = &target.routing.ranks else { return };
    let shadow = |switch| &graph.node(target.discovered.id(switch)).shadow;
    let held: Vec<&LftShadow> = topology.switches().map(shadow).collect();
    let live = held.iter().any(|shadow| shadow.is_live());
    let top = target.addresses.top();
    let tables = Tables { topology, ranks, held, wanted: &target.routing.tables, top };
    let order = order(&tables, &[manager]);
    let step = |write: &Write| {
        let node = target.discovered.id(write.switch);
        match &write.what {
            What::Block(block) => Step::Block(node, *block),
            What::Dropping(block, ports) => Step::Dropping(node, *block, ports.clone()),
            What::Top => Step::Top(node, top),
        }
    };
    let retired = (!order.retire.is_empty()).then(|| {
        let steps: Vec<StepId> =
            order.retire.iter().map(|write| schedule.add(step(write))).collect();
        let retired = schedule.add(Step::Milestone);
        steps.into_iter().for_each(|step| schedule.wait(step, retired));
        retired
    });
    let ids: Vec<StepId> = order.writes.iter().map(|write| schedule.add(step(write))).collect();
    for &id in &ids {
        schedule.wait(id, done);
        if let Some(retired) = retired {
            schedule.wait(retired, id);
        }
        if live {
            schedule.wait(links_up, id);
        }
    }
    for (first, then) in order.after {
        schedule.wait(ids[first as usize], ids[then as usize]);
    }
}

/// How many blocks a schedule writes, and how many of them only to write them again.
pub(crate) fn count_blocks(schedule: &Schedule) -> (u64, u64) {
    let mut counts = BTreeMap::new();
    for step in schedule.steps() {
        let dropping = matches!(step, Step::Dropping(..));
        if dropping || matches!(step, Step::Block(..)) {
            *counts.entry(dropping).or_insert(0) += 1;
        }
    }
    let count = |dropping| counts.get(&dropping).copied().unwrap_or(0);
    (count(false) + count(true), count(true))
}
