//! The collective that the agent takes part in: its flows to other members have the links in turn, and ask for
//! nothing.

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::collective::{Collective, Turn};
use snin_protocol::message::Grant;

use super::events::FlowId;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Turns {
    collective: Option<Collective>,
    /// The members' ports, sorted.
    ports: Vec<Guid>,
}

impl Turns {
    /// What the last lease says.
    pub(super) fn follow(&mut self, collective: Option<&Collective>) {
        self.ports.clear();
        self.ports.extend(collective.iter().flat_map(|it| &it.members).map(|member| member.port));
        self.ports.sort_unstable();
        self.collective = collective.cloned();
    }

    /// Whether a flow to that port has its turns, and asks for no grant.
    pub(super) fn cover(&self, peer: Guid) -> bool {
        self.ports.binary_search(&peer).is_ok()
    }

    /// Whether a grant is a turn of this collective.
    pub(super) fn gave(&self, grant: &Grant) -> bool {
        self.collective.as_ref().is_some_and(|it| {
            it.tree == grant.tree && it.members.iter().any(|member| member.dlid == grant.dlid)
        })
    }

    /// The turn at a moment of the controller's clock, and the one after it.
    pub(super) fn at(&self, moment: Time) -> impl Iterator<Item = Turn> {
        let until = self.collective.as_ref().map_or(Time::ZERO, |it| it.until);
        let turn = |moment: Time| self.collective.as_ref()?.turn_at(moment);
        let present = turn(moment);
        let next = present.and_then(|present| turn(present.next));
        present.into_iter().chain(next).filter(move |turn| turn.from < turn.until.min(until))
    }

    /// What a flow is granted by a turn; `None` where it is another's.
    pub(super) fn grant(&self, flow: FlowId, peer: Guid, turn: &Turn) -> Option<Grant> {
        let to = turn.to.filter(|to| to.port == peer)?;
        let it = self.collective.as_ref()?;
        Some(Grant {
            connection: flow.into(),
            tree: it.tree,
            dlid: to.dlid,
            from: turn.from,
            until: turn.until,
            rate: it.rate,
            pinned: false,
            sl: it.sl,
        })
    }
}
