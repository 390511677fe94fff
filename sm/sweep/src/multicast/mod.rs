//! Multicast: from groups and their members to every switch's multicast forwarding table.
//!
//! Data flows one way here too: [`Groups`], as subnet administration knows them, and the target's topology,
//! ranks and trees give a `McPlan`; that minus what the switches hold (`Masks`) gives the writes, in an
//! order in which no member gets a copy twice.

mod distribute;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Mlid};

pub(crate) use distribute::{distribute, is_read, presume, unread};
pub(crate) use plan::McPlan;

/// All members that share one multicast LID: of one group, or of several that have it in common. Ports are
/// named by their GUIDs, port 0 of a switch by the switch's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Ports that get every packet but their own, and may send: FullMember and NonMember (IBA 15.2.5.17).
    pub full: BTreeSet<Guid>,
    /// Ports that send and get nothing: SendOnlyNonMember and SendOnlyFullMember.
    pub send_only: BTreeSet<Guid>,
}

/// Every group by its address.
pub type Groups = BTreeMap<Mlid, Group>;
