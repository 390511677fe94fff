//! Tables minus what the switches hold: the writes, in an order without loops.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::routing::Replaced;
use snin_fabric::{Lid, NodeIndex, PortNum};

use super::order::{Tables, What, Write, order};
use crate::graph::Graph;
use crate::lft_shadow::LftShadow;
use crate::limits;
use crate::schedule::{Schedule, Step, StepId};
use crate::target::Target;
use snin_sm_database::config::Config;

/// Adds every write that is due. Those that change what is forwarded wait for `links_up`, if anything is
/// forwarded yet; `done` waits for all.
pub(crate) fn distribute(
    schedule: &mut Schedule,
    (config, graph): (&Config, &Graph),
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
    let (wanted, moved) = (&target.routing.tables, &moved(graph, target));
    let entry = |switch: NodeIndex, lid| PortNum(held[switch.index()].forwards(lid));
    let (routing, addresses) = (&target.routing, &target.addresses);
    let replaced = Replaced { topology, addresses, routing, held: &entry };
    let replacing = if live { replaced.replacing() } else { None };
    let replacing = replacing.as_ref();
    let tables = Tables { topology, ranks, held: held.clone(), wanted, top, moved, replacing };
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
        // Where a switch keeps old entries, new ones of others may close a circle: they wait until it answers, or
        // is known to be gone.
        let retired = schedule.add(Step::Barrier);
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
    let tops = order.writes.iter().filter(|write| matches!(write.what, What::Top));
    let tops: BTreeSet<NodeIndex> = tops.map(|write| write.switch).collect();
    for switch in topology.switches().filter(|switch| !tops.contains(switch)) {
        let id = target.discovered.id(switch);
        if limits::lives_otherwise(config, graph, id) {
            let step = schedule.add(Step::Top(id, shadow(switch).top()));
            schedule.wait(step, done);
        }
    }
}

/// Addresses that some port has and another shall have.
fn moved(graph: &Graph, target: &Target) -> BTreeSet<Lid> {
    let (topology, addresses) = (&target.discovered.topology, &target.addresses);
    let mut moved = BTreeSet::new();
    for port in topology.ports() {
        let end = target.discovered.end(port);
        // Of a switch only port 0 has addresses.
        if end.1 != PortNum::ZERO && topology.is_switch(topology.port(port).node) {
            continue;
        }
        let Some(info) = graph.port(end).and_then(|port| port.info.as_ref()) else { continue };
        let first = info.lid.index();
        if !(1..=Lid::MAX_UNICAST.index()).contains(&first) {
            continue;
        }
        let held = (first..first + info.lmc.addresses()).filter_map(|lid| u16::try_from(lid).ok());
        let others = |lid: &Lid| addresses.owner(*lid).is_some_and(|(owner, _)| owner != port);
        moved.extend(held.map(Lid).filter(others));
    }
    moved
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
