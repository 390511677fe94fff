//! Further GUIDs of a port (IBA 15.2.5.18): what virtual machines are known by.

use snin_fabric::{Guid, Lid};
use snin_mad::sa::*;
use snin_mad::{GuidInfo, Inner, Status};

use crate::answer::Answer;
use crate::answer::{SaResult, record};
use crate::query::RecordQuery;
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::records::{Aliases, Place, Port};

/// LID and block.
const NEEDED: ComponentMask = ComponentMask::of(&[0, 1]);
/// GUIDs of a block.
const BLOCK: u16 = 8;

/// A block of a port's GUIDs: its own is the first of the first.
fn block(port: &Port, number: u8, world: &World<'_>) -> GuidInfo {
    let own = port.guid.unwrap_or_default();
    let guid = |entry: u16| {
        let entry = u16::from(number) * BLOCK + entry;
        if entry == 0 {
            return own;
        }
        world.database.get::<Aliases>(&(own, entry)).copied().unwrap_or_default()
    };
    GuidInfo { guids: std::array::from_fn(|entry| guid(entry as u16)) }
}

fn blocks(port: &Port) -> u8 {
    port.info.guid_cap.div_ceil(BLOCK as u8)
}

/// Get and GetTable.
pub(super) fn read(query: &mut RecordQuery<'_>, world: &World<'_>) -> Result<(), Status> {
    for (_, port) in query.ends(world) {
        if !query.sees(port) {
            continue;
        }
        for number in 0..blocks(port) {
            let guids = Inner::of(&block(port, number, world));
            query.offer(&GuidInfoRecord { lid: port.base, block: number, guids });
        }
    }
    Ok(())
}

/// The port that is meant, and the request.
fn subject(
    requester: &Requester,
    request: &SaRequest,
    world: &World<'_>,
) -> Result<(Place, Port, GuidInfoRecord), Status> {
    let wanted: GuidInfoRecord = record(request)?;
    if !request.mask.has_all(NEEDED) {
        return Err(SaStatus::INSUFFICIENT_COMPONENTS);
    }
    let (place, port) = world.database.by_lid(wanted.lid).ok_or(SaStatus::REQ_INVALID)?;
    // A port's GUIDs are changed by the port itself, and by those that may speak for it.
    if place != requester.place && !requester.trusted {
        return Err(SaStatus::DENIED);
    }
    if wanted.block >= blocks(port) {
        return Err(SaStatus::REQ_INVALID);
    }
    Ok((place, port.clone(), wanted))
}

/// The entries of the block that the mask names; the first of all cannot be written.
fn named(mask: ComponentMask, block: u8) -> impl Iterator<Item = u16> {
    let of_mask = (0..BLOCK).filter(move |&entry| mask.has(4 + entry as u8));
    of_mask.map(move |entry| u16::from(block) * BLOCK + entry).filter(|&entry| entry != 0)
}

/// Set: gives the port the GUIDs that the mask names, all or none; 0 stands for one of the manager's choice.
pub(super) fn set(requester: &Requester, request: &SaRequest, world: &mut World<'_>) -> SaResult {
    let (_, port, wanted) = subject(requester, request, world)?;
    let own = port.guid.ok_or(SaStatus::REQ_INVALID)?;
    let guids = wanted.guids.parse().map_err(|_| SaStatus::REQ_INVALID)?.guids;
    let mut given = Vec::new();
    for entry in named(request.mask, wanted.block) {
        let asked = guids[usize::from(entry % BLOCK)];
        let held = world.database.get::<Aliases>(&(own, entry)).copied();
        let guid = match asked {
            Guid(0) => held.or_else(|| chosen(own, entry, world)).ok_or(SaStatus::NO_RESOURCES)?,
            asked => asked,
        };
        let is_new = held != Some(guid);
        let taken = world.database.knows(guid) || given.iter().any(|&(_, other)| other == guid);
        if is_new && taken {
            return Err(SaStatus::REQ_INVALID);
        }
        given.push((entry, guid));
    }
    for (entry, guid) in given {
        world.database.put::<Aliases>((own, entry), guid, world.now);
    }
    answer(&port, wanted.lid, wanted.block, world)
}

/// Delete: takes the GUIDs that the mask names from the port.
pub(super) fn delete(
    requester: &Requester,
    request: &SaRequest,
    world: &mut World<'_>,
) -> SaResult {
    let (_, port, wanted) = subject(requester, request, world)?;
    let own = port.guid.ok_or(SaStatus::REQ_INVALID)?;
    let now = world.now;
    for entry in named(request.mask, wanted.block) {
        world.database.remove::<Aliases>(&(own, entry), now);
    }
    answer(&port, wanted.lid, wanted.block, world)
}

fn answer(port: &Port, lid: Lid, number: u8, world: &World<'_>) -> SaResult {
    let guids = Inner::of(&block(port, number, world));
    Ok(Answer::one(&GuidInfoRecord { lid, block: number, guids }))
}

/// A GUID that no port has: locally administered, made of the port's and the entry's number.
fn chosen(own: Guid, entry: u16, world: &World<'_>) -> Option<Guid> {
    let local = (own.0 | 0x0200_0000_0000_0000) ^ u64::from(entry) << 40;
    (0..256).map(|n| Guid(local ^ n << 24)).find(|guid| !world.database.knows(*guid))
}
