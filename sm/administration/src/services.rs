//! Services that ports offer, for as long as their leases last (IBA 15.2.5.14).

use std::collections::BTreeMap;

use snin_mad::sa::*;
use snin_mad::{Octets, PKey, Status};
use snin_protocol::Time;

use crate::answer::Answer;
use crate::answer::{SaResult, record};
use crate::query::RecordQuery;
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::records::{Database, Service, ServiceKey, Services};

/// For ever.
const FOR_EVER: u32 = u32::MAX;
/// ServiceID and ServiceGID; lease; key.
const NEEDED: ComponentMask = ComponentMask::of(&[0, 1]);
const LEASE: u8 = 4;
const KEY: u8 = 5;
/// The most services.
const MOST: usize = 65_536;

fn key(record: &ServiceRecord, mask: ComponentMask) -> ServiceKey {
    let partition = if mask.has(2) { record.p_key.0 } else { PKey::DEFAULT.0 };
    (record.id, record.gid, partition)
}

/// Set: registers a service, or a service anew.
pub(super) fn register(
    requester: &Requester,
    request: &SaRequest,
    world: &mut World<'_>,
) -> SaResult {
    let mut record: ServiceRecord = record(request)?;
    let mask = request.mask;
    if !mask.has_all(NEEDED) {
        return Err(SaStatus::REQ_INVALID);
    }
    if mask.has(2) && !requester.is_in(record.p_key) {
        return Err(SaStatus::REQ_INVALID);
    }
    if !mask.has(2) {
        record.p_key = PKey::DEFAULT;
    }
    if !mask.has(LEASE) {
        record.lease = FOR_EVER;
    }
    let key = key(&record, mask);
    let old = world.database.get::<Services>(&key);
    if old.is_some_and(|old| !may_change(&old.record, &record, requester, mask)) {
        return Err(SaStatus::DENIED);
    }
    if old.is_none() && world.database.all::<Services>().len() >= MOST {
        return Err(SaStatus::NO_RESOURCES);
    }
    let until = (record.lease != FOR_EVER).then(|| world.now + Time::secs(record.lease.into()));
    let now = world.now;
    world.database.put::<Services>(key, Service { record: record.clone(), until }, now);
    Ok(Answer::one(&record))
}

/// Only the requester that set a key changes the record, and the operator.
fn may_change(
    old: &ServiceRecord,
    new: &ServiceRecord,
    requester: &Requester,
    mask: ComponentMask,
) -> bool {
    let shown = if mask.has(KEY) { new.key } else { Octets([0; 16]) };
    old.key == Octets([0; 16]) || old.key == shown || requester.trusted
}

/// Delete.
pub(super) fn withdraw(
    requester: &Requester,
    request: &SaRequest,
    world: &mut World<'_>,
) -> SaResult {
    let record: ServiceRecord = record(request)?;
    let mask = request.mask;
    let wanted = record.bytes();
    let found: Vec<ServiceKey> = {
        let all = world.database.all::<Services>().iter();
        let same = |(_, service): &(&ServiceKey, &Service)| {
            // The key is a proof, not a wish.
            let mask = ComponentMask(mask.0 & !(1 << KEY));
            matches(ServiceRecord::COMPONENTS, mask, &wanted, &service.record.bytes())
        };
        all.filter(same).map(|(key, _)| *key).collect()
    };
    let [found] = found[..] else {
        return Err(match found.is_empty() {
            true => SaStatus::NO_RECORDS,
            false => SaStatus::TOO_MANY_RECORDS,
        });
    };
    let service = world.database.get::<Services>(&found).ok_or(SaStatus::NO_RECORDS)?;
    if !may_change(&service.record, &record, requester, mask) {
        return Err(SaStatus::DENIED);
    }
    let now = world.now;
    let service = world.database.remove::<Services>(&found, now).ok_or(SaStatus::NO_RECORDS)?;
    Ok(Answer::one(&service.record))
}

/// Get and GetTable: leases as they are left, keys for trusted requesters.
pub(super) fn read(query: &mut RecordQuery<'_>, world: &World<'_>) -> Result<(), Status> {
    for (_, service) in world.database.all::<Services>().iter() {
        if !query.requester.is_in(service.record.p_key) {
            continue;
        }
        let mut record = service.record.clone();
        if let Some(until) = service.until {
            let left = until.nanos().saturating_sub(world.now.nanos());
            record.lease = u32::try_from(left / 1_000_000_000).unwrap_or(FOR_EVER);
        }
        if !query.requester.trusted {
            record.key = Octets([0; 16]);
        }
        query.offer(&record);
    }
    Ok(())
}

/// Which keys go with which names: for trusted requesters.
pub(super) fn associations(query: &mut RecordQuery<'_>, world: &World<'_>) -> Result<(), Status> {
    if !query.requester.trusted {
        return Err(SaStatus::DENIED);
    }
    let mut found = BTreeMap::new();
    for (_, service) in world.database.all::<Services>().iter() {
        let record = &service.record;
        if record.key != Octets([0; 16]) {
            found.insert((record.key.0, record.name.0), (record.key, record.name));
        }
    }
    for (key, name) in found.into_values() {
        query.offer(&ServiceAssociationRecord { key, name });
    }
    Ok(())
}

/// When the next lease ends.
pub(super) fn next_end(database: &Database) -> Option<Time> {
    database.first_lease().map(|(until, _)| until)
}

/// Removes services whose lease is over.
pub(super) fn end_leases(world: &mut World<'_>) {
    let now = world.now;
    while let Some((_, key)) = world.database.first_lease().filter(|(until, _)| *until <= now) {
        world.database.remove::<Services>(&key, now);
    }
}
