//! The plan as JSON: what `snin plan --json` prints and `snin verify --plan` reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use snin_controller_core::plan::{Hop, Plan};
use snin_fabric::hosts::HostId;
use snin_fabric::routing::Routing;
use snin_fabric::traffic::Demand;
use snin_fabric::{Guid, Lid, PortIndex, Topology};

/// Rises when a key changes its meaning or goes.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The same of the plan alone. 2: base addresses may be no tree's own (`home_trees`).
pub(crate) const PLAN_VERSION: u32 = 2;

/// A GUID as `0x` and sixteen hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct GuidText(pub(crate) Guid);

impl Serialize for GuidText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for GuidText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// The document.
#[derive(Serialize, Deserialize)]
pub(crate) struct PlanDocument {
    pub(crate) schema_version: u32,
    pub(crate) routing: String,
    pub(crate) lmc: u8,
    pub(crate) trees: Vec<TreeEntry>,
    /// Base LID of every addressed port.
    pub(crate) lids: BTreeMap<GuidText, u16>,
    /// Where base addresses are no tree's own: the tree that each port's leads along. Tree `t` has offset `1 + t`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) home_trees: BTreeMap<GuidText, u16>,
    /// Where ports have trees of their own choice: the tree of each address of a port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) address_trees: BTreeMap<GuidText, Vec<u16>>,
    pub(crate) grants: Vec<GrantEntry>,
    pub(crate) deferred: Vec<ReasonEntry>,
    pub(crate) refused: Vec<ReasonEntry>,
    pub(crate) summary: Summary,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TreeEntry {
    pub(crate) id: u16,
    pub(crate) root: GuidText,
    pub(crate) plane: u16,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct GrantEntry {
    pub(crate) source: GuidText,
    pub(crate) destination: GuidText,
    pub(crate) tree: u16,
    pub(crate) dlid: u16,
    pub(crate) path: Vec<HopEntry>,
}

/// A switch and the port that the packet leaves it by.
#[derive(Serialize, Deserialize)]
pub(crate) struct HopEntry {
    pub(crate) switch: GuidText,
    pub(crate) port: u8,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ReasonEntry {
    pub(crate) source: GuidText,
    pub(crate) destination: GuidText,
    pub(crate) reason: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) requested: usize,
    pub(crate) granted: usize,
    pub(crate) deferred: usize,
    pub(crate) refused: usize,
    /// Grants on the busiest directed link, as the checker counted them.
    pub(crate) max_link_load: u32,
    /// The most that hosts and leaves' links would let any packing grant.
    pub(crate) bound: usize,
}

impl PlanDocument {
    /// The document of a plan.
    pub(crate) fn new(
        topology: &Topology,
        routing: &Routing,
        demands: &[Demand],
        plan: &Plan,
        max_link_load: u32,
    ) -> Self {
        let port_guid = |host: HostId| {
            let port = routing.hosts.get(host).map(|host| host.port);
            GuidText(port.map_or(Guid(0), |port| topology.port(port).guid))
        };
        let reason = |&(demand, ref why): &(usize, String)| ReasonEntry {
            source: port_guid(demands[demand].source),
            destination: port_guid(demands[demand].destination),
            reason: why.clone(),
        };
        let hop = |hop: &Hop| HopEntry {
            switch: GuidText(topology.node(hop.switch).guid),
            port: hop.port.0,
        };
        let grants = plan.grants.iter().map(|grant| GrantEntry {
            source: port_guid(demands[grant.demand].source),
            destination: port_guid(demands[grant.demand].destination),
            tree: grant.tree.0,
            dlid: grant.dlid.0.0,
            path: grant.path.iter().map(hop).collect(),
        });
        let texts = |reasons: &[(usize, String)]| reasons.iter().map(reason).collect();
        let deferred: Vec<_> = plan.deferred.iter().map(|(d, why)| (*d, why.to_string())).collect();
        let refused: Vec<_> = plan.refused.iter().map(|(d, why)| (*d, why.to_string())).collect();
        let trees = routing.forest.trees().iter().map(|tree| TreeEntry {
            id: tree.id.0,
            root: GuidText(topology.node(tree.root).guid),
            plane: tree.plane,
        });
        Self {
            schema_version: PLAN_VERSION,
            routing: routing.engine.to_string(),
            lmc: routing.plan.lmc().bits(),
            trees: trees.collect(),
            lids: lids(topology, routing),
            home_trees: home_trees(topology, routing),
            address_trees: address_trees(topology, routing),
            grants: grants.collect(),
            deferred: texts(&deferred),
            refused: texts(&refused),
            summary: Summary {
                requested: demands.len(),
                granted: plan.grants.len(),
                deferred: plan.deferred.len(),
                refused: plan.refused.len(),
                max_link_load,
                bound: plan.bound,
            },
        }
    }
}

fn lids(topology: &Topology, routing: &Routing) -> BTreeMap<GuidText, u16> {
    let addressed = routing.plan.addresses().iter();
    addressed.map(|(port, base, _)| (GuidText(topology.port(port).guid), base.0)).collect()
}

fn address_trees(topology: &Topology, routing: &Routing) -> BTreeMap<GuidText, Vec<u16>> {
    if !routing.plan.is_rotated() {
        return BTreeMap::new();
    }
    let trees = |port| routing.plan.trees(port).map(|tree| tree.0).collect();
    ends(topology, routing)
        .map(|(port, _)| (GuidText(topology.port(port).guid), trees(port)))
        .collect()
}

fn home_trees(topology: &Topology, routing: &Routing) -> BTreeMap<GuidText, u16> {
    let home = |(port, _)| {
        let tree = routing.plan.home(port)?;
        Some((GuidText(topology.port(port).guid), tree.0))
    };
    ends(topology, routing).filter_map(home).collect()
}

/// The ports of hosts and all else that is no switch, with their base addresses.
fn ends<'a>(
    topology: &'a Topology,
    routing: &'a Routing,
) -> impl Iterator<Item = (PortIndex, Lid)> + 'a {
    let addressed = routing.plan.addresses().iter();
    let ends = addressed.filter(|&(port, _, _)| !topology.is_switch(topology.port(port).node));
    ends.map(|(port, base, _)| (port, base))
}
