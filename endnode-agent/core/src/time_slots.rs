//! The collective that the agent takes part in: its flows to other members have their time slots, and ask for
//! nothing.

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::collective::{Collective, TimeSlot};
use snin_protocol::message::Grant;

use super::events::FlowId;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct TimeSlots {
    collective: Option<Collective>,
    /// The members' ports, sorted.
    ports: Vec<Guid>,
}

impl TimeSlots {
    /// What the last lease says. The same again takes no memory.
    pub(super) fn follow(&mut self, collective: Option<&Collective>) {
        if self.collective.as_ref() == collective {
            return;
        }
        self.ports.clear();
        self.ports.extend(collective.iter().flat_map(|it| &it.members).map(|member| member.port));
        self.ports.sort_unstable();
        self.collective = collective.cloned();
    }

    /// Whether a flow to that port has its time slots, and asks for no grant.
    pub(super) fn cover(&self, peer: Guid) -> bool {
        self.ports.binary_search(&peer).is_ok()
    }

    /// Whether a grant is a time slot of this collective.
    pub(super) fn gave(&self, grant: &Grant) -> bool {
        self.collective.as_ref().is_some_and(|it| {
            it.tree == grant.tree && it.members.iter().any(|member| member.dlid == grant.dlid)
        })
    }

    /// The time slot at a moment of the controller's clock, and the one after it.
    pub(super) fn at(&self, moment: Time) -> impl Iterator<Item = TimeSlot> {
        let until = self.collective.as_ref().map_or(Time::ZERO, |it| it.until);
        let slot = |moment: Time| self.collective.as_ref()?.time_slot_at(moment);
        let present = slot(moment);
        let next = present.and_then(|present| slot(present.next));
        present.into_iter().chain(next).filter(move |slot| slot.from < slot.until.min(until))
    }

    /// What a flow is granted by a time slot; `None` where it is another flow's.
    pub(super) fn grant(&self, flow: FlowId, peer: Guid, slot: &TimeSlot) -> Option<Grant> {
        let to = slot.to.filter(|to| to.port == peer)?;
        let it = self.collective.as_ref()?;
        Some(Grant {
            connection: flow.into(),
            tree: it.tree,
            dlid: to.dlid,
            from: slot.from,
            until: slot.until,
            rate: it.rate,
            pinned: false,
            sl: it.sl,
        })
    }
}
