//! What a job's nodes need to know of its slice.
//!
//! | command | answer |
//! |---|---|
//! | `slice_trees` | the trees of `owner`'s slice as a text (`snin_fabric::job`), for user `uid` if given |

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use snin_controller_core::Core;
use snin_fabric::job::{JobHost, JobTrees};
use snin_fabric::{Guid, Lid, TreeId};

use crate::asker::Refused;
use crate::daemon::Daemon;

impl Daemon {
    /// The trees of a slice, and whether they are its own already.
    pub(crate) fn slice_trees(&self, body: &Value) -> Result<Value, Refused> {
        let core = self.core()?;
        let owner = body["owner"].as_str().ok_or("`owner` is a name")?;
        let user = match &body["uid"] {
            Value::Null => None,
            user => {
                let read = user.as_u64().and_then(|user| u32::try_from(user).ok());
                Some(read.ok_or("`uid` is a user's number")?)
            }
        };
        let slice = core
            .slice(owner)
            .ok_or_else(|| Refused::absent(format!("{owner:.128} has no slice")))?;
        let hosts = job_hosts(core, &slice.hosts.iter().copied().collect());
        let mut trees = JobTrees::new(owner, user, &slice.pairs, hosts);
        for grant in core.pinned() {
            let base = |port| trees.hosts().iter().find(|h| h.port == port).map(|h| h.lids.0);
            if let (Some(from), Some(to)) = (base(grant.source), base(grant.destination)) {
                trees.pin(from, to, grant.tree).map_err(|why| why.to_string())?;
            }
        }
        Ok(json!({
            "owner": owner, "text": trees.to_string(), "whole": slice.whole,
            "ready": slice.whole && slice.foreign == 0,
        }))
    }
}

fn job_hosts(core: &Core, ports: &BTreeSet<Guid>) -> Vec<JobHost> {
    let view = core.view();
    let (topology, addresses) = (view.topology(), view.addresses());
    let count = view.routing().forest.len() as u16;
    let hosts = view.routing().hosts.iter().filter_map(|(_, host)| {
        let port = topology.port(host.port);
        let first = addresses.base(host.port).filter(|_| ports.contains(&port.guid))?;
        let last = Lid(first.0 + (addresses.lmc(host.port).addresses() - 1) as u16);
        let along = (0..count).map(TreeId);
        let along: BTreeMap<TreeId, Lid> =
            along.filter_map(|tree| Some((tree, view.dlid(host.port, tree)?.0))).collect();
        Some(JobHost {
            name: topology.node(port.node).name.to_string(),
            port: port.guid,
            leaf: topology.node(host.switch).guid,
            lids: (first, last),
            along,
        })
    });
    hosts.collect()
}
