//! Long answers of the controller: every grant, the whole fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_controller_core::events::GrantStatus;
use snin_daemon::describer::Making;
use snin_fabric::names::node_name;
use snin_fabric::view::View;
use snin_fabric::{Guid, NodeIndex};
use snin_protocol::operator::controller::{
    Fabric, GetFabric, GetGrants, Grant, Grants, Host, Tree, Unusable,
};

use crate::asked::said;

/// The names of hosts by their ports.
fn names(view: &dyn View) -> BTreeMap<Guid, String> {
    let topology = view.topology();
    let hosts = view.routing().hosts.iter();
    hosts
        .map(|(_, host)| {
            let port = topology.port(host.port);
            (port.guid, topology.node(port.node).name.to_string())
        })
        .collect()
}

/// Every one of these grants.
pub(crate) fn grants(view: Arc<dyn View>, grants: Vec<GrantStatus>) -> Making {
    Box::new(move || {
        let names = names(&*view);
        let name = |port: Guid| names.get(&port).cloned().unwrap_or_else(|| port.to_string());
        let grants = grants.iter().map(|status| grant(status, name)).collect();
        said(&GetGrants {}, Grants { grants }).map_err(|refused| refused.why)
    })
}

/// One grant, whose ends are called so.
pub(crate) fn grant(status: &GrantStatus, name: impl Fn(Guid) -> String) -> Grant {
    Grant {
        from: name(status.source),
        from_port: status.source,
        to: name(status.destination),
        to_port: status.destination,
        connection: status.connection.0,
        class: status.class,
        tree: status.tree.0,
        dlid: status.dlid.0.0,
        from_ns: status.from.nanos(),
        until_ns: status.until.nanos(),
        pinned: status.pinned,
    }
}

/// The fabric, which comes from `source`. Of the hosts, where `names` are given, only those so called, by their
/// whole name or their host's: a launcher asks this for every job, and a large fabric's list of all takes long.
pub(crate) fn fabric(view: Arc<dyn View>, source: String, asked: GetFabric) -> Making {
    Box::new(move || {
        let is_wanted = |name: &str| {
            let called = |wanted: &BTreeSet<String>| {
                wanted.contains(name) || node_name(name).is_some_and(|node| wanted.contains(node))
            };
            asked.names.as_ref().is_none_or(called)
        };
        let (topology, routing) = (view.topology(), view.routing());
        let name = |switch: NodeIndex| topology.node(switch).name.to_string();
        let unusable = view.unusable().iter();
        let unusable =
            unusable.map(|&(switch, tree)| Unusable { switch: name(switch), tree: tree.0 });
        let trees = routing.forest.trees().iter();
        let trees =
            trees.map(|tree| Tree { tree: tree.id.0, root: name(tree.root), plane: tree.plane });
        let hosts = routing.hosts.iter().filter_map(|(id, host)| {
            let port = topology.port(host.port);
            let own = topology.node(port.node).name.to_string();
            is_wanted(&own).then(|| Host {
                host: id.0,
                name: own,
                port: port.guid,
                switch: name(host.switch),
                node_guid: topology.node(port.node).guid,
                switch_guid: topology.node(host.switch).guid,
                lid: view.addresses().base(host.port).map(|lid| lid.0),
            })
        });
        let fabric = Fabric {
            source,
            version: view.version(),
            switches: topology.switch_count(),
            lmc: routing.plan.lmc().bits(),
            trees: trees.collect(),
            hosts: hosts.collect(),
            unusable: unusable.collect(),
        };
        said(&asked, fabric).map_err(|refused| refused.why)
    })
}
