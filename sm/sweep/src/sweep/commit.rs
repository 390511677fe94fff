//! Found and programmed values, written into the database: once a stage, and only what differs. What was not
//! touched since is not even compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_protocol::Time;

use super::Sweep;
use crate::graph;
use crate::multicast::McPlan;
use crate::query::PortId;
use crate::target::Target;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::records::{
    Database, Links, Node, Nodes, Place, Port, Ports, Programmed, Programs,
};

/// Up to what the database has what was found and programmed.
#[derive(Debug)]
pub(super) struct Committed {
    /// All of it is compared: another manager may have written the database.
    all: bool,
    target: Option<Arc<Target>>,
    plan: Option<Arc<McPlan>>,
    /// A stage has ended: there may be something new for the database.
    stage_ended: bool,
    /// Switches whose tables are written from now on: until that is done it is not known what they come to.
    rewritten: BTreeSet<Guid>,
}

impl Default for Committed {
    fn default() -> Self {
        Self { all: true, target: None, plan: None, stage_ended: false, rewritten: BTreeSet::new() }
    }
}

impl Committed {
    /// A stage has ended; whether all of it is to be compared.
    pub(super) const fn end_stage(&mut self, all: bool) {
        self.stage_ended = true;
        self.all |= all;
    }

    /// Tables of these switches are about to be written.
    pub(super) fn rewrite(&mut self, switches: impl Iterator<Item = Guid>) {
        self.rewritten.extend(switches);
    }
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Sweep {
    /// Whether a stage has ended since this was last asked.
    pub const fn take_stage_end(&mut self) -> bool {
        std::mem::replace(&mut self.committed.stage_ended, false)
    }

    /// Before tables are written: what they come to is not known any more.
    pub fn unsettle(&mut self, database: &mut Database, now: Time) {
        for guid in std::mem::take(&mut self.committed.rewritten) {
            database.remove::<Programs>(&guid, now);
        }
    }

    /// Writes nodes, ports and cables. What cannot be reached any more is removed.
    pub fn commit(&mut self, database: &mut Database, now: Time) {
        let Committed { all, target, plan, .. } = &self.committed;
        let all = *all || !is_same(target.as_ref(), self.target.as_ref());
        let same_plan = is_same(plan.as_ref(), self.serving.plan.as_ref());
        let (mut nodes, mut places) = (BTreeMap::new(), BTreeSet::new());
        let mut written = Vec::new();
        for (id, node) in self.graph.managed() {
            let guid = node.guid();
            let looks = all || node.touched || database.get::<Nodes>(&guid).is_none();
            nodes.insert(guid, looks);
            if looks || !same_plan {
                match self.programmed(id) {
                    programmed if programmed == Programmed::default() => {
                        database.remove::<Programs>(&guid, now);
                    }
                    programmed => {
                        database.put::<Programs>(guid, programmed, now);
                    }
                }
            }
            if !looks {
                continue;
            }
            written.push(id);
            let name = node.name.clone().unwrap_or_default();
            let record = Node { info: node.info.clone(), name, switch: node.switch.clone() };
            database.put::<Nodes>(guid, record, now);
            for (num, port) in (0..).map(PortNum).zip(&node.ports) {
                let Some(record) = self.port_record((id, num), node, port) else { continue };
                places.insert((guid, num));
                database.put::<Ports>((guid, num), record, now);
                let other = port.link.map(|link| self.place(link.to));
                match other {
                    Some(other) => {
                        database.put::<Links>((guid, num), other, now);
                    }
                    None => {
                        database.remove::<Links>(&(guid, num), now);
                    }
                }
            }
        }
        let stays = |place: &Place| match nodes.get(&place.0) {
            Some(true) => places.contains(place),
            Some(false) => true,
            None => false,
        };
        database.retain::<Nodes>(now, |guid| nodes.contains_key(guid));
        database.retain::<Programs>(now, |guid| nodes.contains_key(guid));
        database.retain::<Ports>(now, stays);
        database.retain::<Links>(now, stays);
        self.graph.settle(written);
        let committed = &mut self.committed;
        (committed.all, committed.target) = (false, self.target.clone());
        committed.plan = self.serving.plan.clone();
    }

    pub(super) fn place(&self, (node, num): PortId) -> Place {
        (self.graph.node(node).guid(), num)
    }

    /// A port as the database has it; none of an adapter's port 0, which does not exist, or where nothing was
    /// read.
    pub(super) fn port_record(
        &self,
        end: PortId,
        node: &graph::Node,
        port: &graph::Port,
    ) -> Option<Port> {
        let info = port.info.as_ref()?;
        let (guid, base, lmc) = addressing(end.1, node, port)?;
        let lanes =
            port.qos_tables.iter().filter_map(|(table, lanes)| Some((*table, lanes.clone()?)));
        Some(Port {
            guid,
            info: info.clone(),
            base,
            lmc,
            assigned: self.assigned(end),
            keys: port.keys.clone(),
            qos_tables: lanes.collect(),
        })
    }

    /// Which addresses a port shall have.
    fn assigned(&self, end: PortId) -> Option<(Lid, Lmc)> {
        let target = self.target.as_ref()?;
        let port = target.discovered.port(end)?;
        Some((target.addresses.base(port)?, target.addresses.lmc(port)))
    }

    /// What survives a restart, as it was last stored.
    pub const fn saved(&self) -> &Arc<snin_sm_database::saved::Saved> {
        &self.saved
    }

    /// The port at which this manager sits.
    pub fn own_guid(&self) -> Option<Guid> {
        self.graph.knows_itself().then(|| self.graph.own_end()).map(|end| self.port_guid(end))
    }

    /// The manager's name among managers, wherever it sits: the first of its ports.
    pub fn name(&self) -> Option<Guid> {
        self.graph.home(LocalPort(0)).map(|end| self.port_guid(end))
    }

    fn port_guid(&self, end: PortId) -> Guid {
        let guid = self.graph.port(end).and_then(|port| port.guid);
        guid.unwrap_or_else(|| self.graph.node(end.0).info.port_guid)
    }
}

/// A port's GUID and addresses; none of an adapter's port 0, or where nothing was read.
pub(super) fn addressing(
    num: PortNum,
    node: &graph::Node,
    port: &graph::Port,
) -> Option<(Option<Guid>, Lid, Lmc)> {
    let info = port.info.as_ref()?;
    let is_switch = node.is_switch();
    if !is_switch && num == PortNum::ZERO {
        return None;
    }
    let addressed = if is_switch { node.ports.first()?.info.as_ref()? } else { info };
    let (base, lmc) = match addressed.lid {
        lid @ Lid(1..=0xBFFF) => (lid, addressed.lmc),
        _ => (Lid::NONE, Lmc::ZERO),
    };
    let guid = match (is_switch, num) {
        (true, PortNum::ZERO) => Some(node.info.port_guid),
        (true, _) => None,
        (false, _) => port.guid,
    };
    Some((guid, base, lmc))
}
