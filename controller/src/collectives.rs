//! Collectives: what the hosts of a slice do together. Those who may change the slice may ask for it.

use serde_json::json;
use snin_controller_core::Core;
use snin_controller_core::orders::Order;
use snin_controller_core::orders::{CollectiveError, CollectiveWanted};
use snin_controller_core::window::CollectiveStatus;
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::operator::controller::{Collective, CollectiveSet, SetCollective};

use crate::asked::host_name;
use crate::daemon::Daemon;
use crate::principal::{ApiError, NotKnown, Principal};

/// A slot is so many times what is lost of it, where nothing else says how long it is.
const SLOT: u64 = 20;

impl Daemon {
    /// The hosts of a slice take part in a collective, or in none any more.
    pub(crate) fn set_collective(
        &mut self,
        principal: &Principal,
        asked: &SetCollective,
    ) -> Result<CollectiveSet, ApiError> {
        let owner = &asked.owner;
        self.permit_slice(principal, owner)?;
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let wanted = match asked.kind {
            Some(kind) => Some(wanted(core, owner, kind, asked).map_err(not_made)?),
            None => None,
        };
        if asked.explain {
            let wanted = wanted.ok_or("`kind` is what to explain")?;
            let status = core.try_collective(owner, wanted).map_err(not_made)?;
            let collective = Some(collective(core, &status, asked.bytes));
            return Ok(CollectiveSet { owner: owner.clone(), collective });
        }
        let before = core.collective_wanted(owner);
        let now = self.clock.now();
        let order = Order::SetCollective(owner.clone(), wanted);
        core.order(order, now).collective().map_err(not_made)?;
        if let Err(failure) = self.promise_slices() {
            // A user is not told of what a restart would forget.
            let core = self.core.as_mut().ok_or(NotKnown)?;
            let mut set =
                |wanted| core.order(Order::SetCollective(owner.clone(), wanted), now).collective();
            set(before).or_else(|_| set(None)).map_err(not_made)?;
            return Err(ApiError::failed(failure));
        }
        let kind = wanted.map(|wanted| wanted.kind.to_string());
        if before != wanted {
            self.outlets.notify("COLLECTIVE", json!({ "owner": owner, "kind": kind }));
        }
        let core = self.core()?;
        let status = core.collective(owner).map_err(not_made)?;
        let collective = status.map(|status| collective(core, &status, asked.bytes));
        Ok(CollectiveSet { owner: owner.clone(), collective })
    }
}

/// What is asked for, its slot as long as the bytes of a phase take where nothing is said of it.
fn wanted(
    core: &Core,
    owner: &str,
    kind: CollectiveKind,
    asked: &SetCollective,
) -> Result<CollectiveWanted, CollectiveError> {
    let lost = core.guard_of_slot();
    if let Some(slot) = asked.slot_ns {
        return Ok(CollectiveWanted { kind, slot: Time(slot) });
    }
    let usual = CollectiveWanted { kind, slot: lost * SLOT };
    let status = core.try_collective(owner, usual)?;
    let of_phase = asked.bytes.map(|bytes| {
        let (members, phases) = (status.members.len() as u32, u64::from(status.phases));
        let sent = kind.bytes_sent(members, bytes).div_ceil(phases.max(1));
        // Headers are a hundredth.
        Time::carrying(sent + sent / 64, status.rate) + lost
    });
    let slot = of_phase.filter(|_| status.rate > 0).unwrap_or(usual.slot);
    Ok(CollectiveWanted { kind, slot: slot.max(lost * 2) })
}

fn collective(core: &Core, status: &CollectiveStatus, bytes: Option<u64>) -> Collective {
    let kind = status.wanted.kind;
    let members = status.members.len() as u32;
    let slot = Some(status.wanted.slot).filter(|_| status.phases > 1);
    let guard = core.guard_of_slot();
    let line_rate = bytes
        .filter(|_| status.rate > 0)
        .map(|bytes| Time::carrying(kind.bytes_sent(members, bytes), status.rate));
    // What is left of a slot carries what all of it would at the line's rate.
    let least = |line: Time| {
        let Some(slot) = slot else { return line };
        let used = slot - guard;
        let nanos = u128::from(line.nanos()) * u128::from(slot.nanos());
        Time(u64::try_from(nanos / u128::from(used.nanos().max(1))).unwrap_or(u64::MAX))
    };
    Collective {
        kind: kind.to_string(),
        members: status.members.iter().map(|&port| host_name(core, port)).collect(),
        trees: status.trees.iter().map(|tree| tree.0).collect(),
        phases: status.phases,
        slot_ns: slot.map(|slot| slot.nanos()),
        guard_ns: slot.map(|_| guard.nanos()),
        links: status.links,
        max_link_load: status.max_link_load,
        queue_pairs: kind.peers(members),
        rate: status.rate,
        least_ns: line_rate.map(|line| least(line).nanos()),
        line_rate_ns: line_rate.map(|line| line.nanos()),
        granted: status.granted,
    }
}

/// That there is no room is told apart from what else is in the way.
fn not_made(error: CollectiveError) -> ApiError {
    match error {
        CollectiveError::Shared { .. }
        | CollectiveError::NoWay { .. }
        | CollectiveError::NotWhole(_) => ApiError::no_room(error),
        other => ApiError::conflict(other),
    }
}
