//! Flows and queue pairs as operators are told of them.

use snin_protocol::message::Grant;
use snin_protocol::operator::agent::{Flow, FlowGrant, QueuePair};

use crate::mesh::{FlowStatus, PairStatus};

impl From<FlowStatus> for Flow {
    fn from(flow: FlowStatus) -> Self {
        let grant = |grant: Grant| FlowGrant {
            tree: grant.tree.0,
            dlid: grant.dlid.0.0,
            from_ns: grant.from.nanos(),
            until_ns: grant.until.nanos(),
            pinned: grant.pinned,
        };
        Self {
            from: None,
            flow: flow.flow.0,
            peer: flow.peer,
            grant: flow.current.map(grant),
            next: flow.next.map(grant),
            wait: flow.wait.map(|wait| wait.to_string()),
            waiting: flow.waiting,
            outstanding: flow.outstanding,
        }
    }
}

impl From<PairStatus> for QueuePair {
    fn from(pair: PairStatus) -> Self {
        Self {
            from: None,
            peer: pair.peer,
            tree: pair.tree.0,
            state: format!("{:?}", pair.state).to_lowercase(),
            outstanding: pair.outstanding,
        }
    }
}
