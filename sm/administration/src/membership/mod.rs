//! Multicast groups: made, joined, left (IBA 15.2.5.17, 15.4; annex A4 on IP).

mod group;
mod rules;

use snin_fabric::{Guid, Lid};
use snin_mad::sa::*;
use snin_mad::{Gid, GidPrefix, Status, Trap};

use crate::answer::Answer;
use crate::answer::{SaResult, record};
use crate::info;
use crate::query::RecordQuery;
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::records::{Group, Groups, Member, MemberKey, Members, Place, Port};

pub(super) use group::{found_permanent, path_to};

/// Bits of MCMemberRecord's mask.
mod bit {
    pub(super) const MGID: u8 = 0;
    pub(super) const PORT_GID: u8 = 1;
    pub(super) const Q_KEY: u8 = 2;
    pub(super) const MLID: u8 = 3;
    pub(super) const MTU: [u8; 2] = [4, 5];
    pub(super) const TCLASS: u8 = 6;
    pub(super) const P_KEY: u8 = 7;
    pub(super) const RATE: [u8; 2] = [8, 9];
    pub(super) const LIFETIME: [u8; 2] = [10, 11];
    pub(super) const SL: u8 = 12;
    pub(super) const FLOW: u8 = 13;
    pub(super) const HOP: u8 = 14;
    pub(super) const SCOPE: u8 = 15;
    pub(super) const JOIN_STATE: u8 = 16;
    pub(super) const PROXY: u8 = 17;
}

/// What every join and leave must say.
const NEEDED: ComponentMask = ComponentMask::of(&[bit::MGID, bit::PORT_GID, bit::JOIN_STATE]);

/// The most groups, and members of all groups: more than MLIDs, and than ports times groups in use anywhere.
const MOST_GROUPS: usize = 16_384;
const MOST_MEMBERS: usize = 1 << 20;

/// The port that a request is about, and the group.
struct Subject<'a> {
    wanted: McMemberRecord,
    mask: ComponentMask,
    pub guid: Guid,
    port: &'a Port,
    place: Place,
}

impl<'a> Subject<'a> {
    fn of(
        requester: &Requester,
        request: &SaRequest,
        world: &'a World<'_>,
    ) -> Result<Self, Status> {
        let wanted: McMemberRecord = record(request)?;
        let mask = request.mask;
        if !mask.has_all(NEEDED) {
            return Err(SaStatus::INSUFFICIENT_COMPONENTS);
        }
        let prefix = wanted.port_gid.prefix();
        if prefix != world.config.subnet_prefix() && prefix != GidPrefix(0xFE80_0000_0000_0000) {
            return Err(SaStatus::INVALID_GID);
        }
        let guid = wanted.port_gid.guid();
        let (place, port) = world.database.by_guid(guid).ok_or(SaStatus::REQ_INVALID)?;
        // Another port may ask in a port's place if the two may talk.
        if place != requester.place && !requester.trusted && !requester.sees(port) {
            return Err(SaStatus::REQ_INVALID);
        }
        Ok(Self { wanted, mask, guid, port, place })
    }
}

/// Set: joins a group, and makes it where there is none.
pub(super) fn join(requester: &Requester, request: &SaRequest, world: &mut World<'_>) -> SaResult {
    let subject = Subject::of(requester, request, world)?;
    let (wanted, guid) = (subject.wanted.clone(), subject.guid);
    if wanted.join_state == JoinState::NONE {
        return Err(SaStatus::REQ_INVALID);
    }
    let known = world.database.get::<Groups>(&wanted.mgid).filter(|_| wanted.mgid != Gid([0; 16]));
    let (group, is_new) = match known {
        Some(group) => {
            rules::agree(&subject, group)?;
            (group.clone(), false)
        }
        None => (group::make(&subject, world)?, true),
    };
    let proxy = subject.place != requester.place;
    let (mgid, port_gid) = (group.record.mgid, wanted.port_gid);
    let key: MemberKey = (mgid, guid);
    let old = world.database.get::<Members>(&key).copied();
    if old.is_none() && world.database.all::<Members>().len() >= MOST_MEMBERS {
        return Err(SaStatus::NO_RESOURCES);
    }
    let state = wanted.join_state.with(old.map_or(JoinState::NONE, |member| member.state));
    let now = world.now;
    if is_new {
        world.database.put::<Groups>(mgid, group.clone(), now);
        info::note_gid(world, Trap::GroupCreated, mgid);
    }
    world.database.put::<Members>(key, Member { port_gid, state, proxy }, now);
    Ok(Answer::one(&McMemberRecord {
        port_gid,
        join_state: state,
        proxy_join: proxy,
        ..group.record
    }))
}

/// Delete: leaves a group, wholly or in part.
pub(super) fn leave(requester: &Requester, request: &SaRequest, world: &mut World<'_>) -> SaResult {
    let subject = Subject::of(requester, request, world)?;
    let (wanted, guid) = (subject.wanted.clone(), subject.guid);
    let key: MemberKey = (wanted.mgid, guid);
    let member = world.database.get::<Members>(&key).copied().ok_or(SaStatus::REQ_INVALID)?;
    if wanted.join_state == JoinState::NONE || !member.state.has(wanted.join_state) {
        return Err(SaStatus::REQ_INVALID);
    }
    // A member that joined for itself leaves for itself (IBA 15.2.5.17, ProxyJoin).
    if !member.proxy && subject.place != requester.place && !requester.trusted {
        return Err(SaStatus::REQ_INVALID);
    }
    let rest = member.state.without(wanted.join_state);
    let record = McMemberRecord {
        join_state: rest,
        mtu_selector: Selector::Exactly,
        rate_selector: Selector::Exactly,
        lifetime_selector: Selector::Exactly,
        ..wanted
    };
    let now = world.now;
    if rest == JoinState::NONE {
        remove(&key, world);
    } else {
        world.database.put::<Members>(key, Member { state: rest, ..member }, now);
        end_if_unused(wanted.mgid, world);
    }
    Ok(Answer::one(&record))
}

/// Takes a port that is gone out of all groups; whether it was in any.
pub(super) fn leave_all(guid: Guid, world: &mut World<'_>) -> bool {
    let all = world.database.all::<Members>().iter().map(|(key, _)| *key);
    let its: Vec<MemberKey> = all.filter(|(_, port)| *port == guid).collect();
    let any = !its.is_empty();
    for key in its {
        remove(&key, world);
    }
    any
}

/// Takes ports out of the groups of partitions that they are in no more. A port whose table is still to be
/// written, as one that was silent, is judged by what it is to hold.
pub(super) fn leave_partitions(world: &mut World<'_>) {
    if !world.sweep.partitions().keeps_apart() {
        return;
    }
    let strangers = world.database.all::<Members>().iter().filter(|((mgid, guid), _)| {
        let group = world.database.get::<Groups>(mgid);
        let port = world.database.by_guid(*guid).map(|(_, port)| port);
        group.zip(port).is_some_and(|(group, port)| !rules::is_in(port, group.record.p_key))
    });
    let strangers: Vec<MemberKey> = strangers.map(|(key, _)| *key).collect();
    if strangers.is_empty() {
        return;
    }
    let wanted = world.sweep.wanted_keys();
    for key in strangers {
        let Some(group) = world.database.get::<Groups>(&key.0) else { continue };
        let base = group.record.p_key.base();
        if !wanted.get(&key.1).is_some_and(|keys| keys.iter().any(|key| key.base() == base)) {
            remove(&key, world);
        }
    }
}

fn remove(key: &MemberKey, world: &mut World<'_>) {
    let now = world.now;
    world.database.remove::<Members>(key, now);
    end_if_unused(key.0, world);
}

/// A group goes with its last full member, and the other members go with the group.
fn end_if_unused(mgid: Gid, world: &mut World<'_>) {
    let now = world.now;
    let Some(group) = world.database.get::<Groups>(&mgid) else { return };
    if group.permanent || members(mgid, world).any(|(_, member)| member.state.keeps_alive()) {
        return;
    }
    let left: Vec<MemberKey> = members(mgid, world).map(|(key, _)| *key).collect();
    for key in left {
        world.database.remove::<Members>(&key, now);
    }
    world.database.remove::<Groups>(&mgid, now);
    info::note_gid(world, Trap::GroupDeleted, mgid);
}

fn members<'w>(
    mgid: Gid,
    world: &'w World<'_>,
) -> impl Iterator<Item = (&'w MemberKey, &'w Member)> {
    let all = (mgid, Guid(0))..=(mgid, Guid(u64::MAX));
    world.database.all::<Members>().range(all)
}

/// Get and GetTable: a record a member for trusted requesters, else a record a group.
pub(super) fn read(query: &mut RecordQuery<'_>, world: &World<'_>) -> Result<(), Status> {
    let asked: McMemberRecord = query.asked();
    let wants = |bits: [u8; 2]| bits.iter().all(|&bit| query.mask.has(bit));
    let (mtu, rate, lifetime) = (wants(bit::MTU), wants(bit::RATE), wants(bit::LIFETIME));
    // Compared below as they are meant, not as they are written.
    for bit in [bit::MTU, bit::RATE, bit::LIFETIME].concat() {
        query.ignore(bit);
    }
    let trusted = query.requester.trusted;
    if !trusted {
        query.ignore(bit::PORT_GID);
        query.ignore(bit::JOIN_STATE);
        query.ignore(bit::PROXY);
    }
    let speed = |code: u8| crate::rates::speed(code).unwrap_or(0);
    let fits = |record: &McMemberRecord| {
        (!mtu || asked.mtu_selector.admits(record.mtu, asked.mtu))
            && (!rate || asked.rate_selector.admits(speed(record.rate), speed(asked.rate)))
            && (!lifetime || asked.lifetime_selector.admits(record.lifetime, asked.lifetime))
    };
    let by_mgid = query.mask.has(bit::MGID).then_some(asked.mgid);
    let groups = world.database.all::<Groups>();
    let found: Vec<&Group> = match by_mgid {
        Some(mgid) => groups.get(&mgid).into_iter().collect(),
        None => groups.iter().map(|(_, group)| group).collect(),
    };
    for group in found.into_iter().filter(|group| fits(&group.record)) {
        if !query.requester.is_in(group.record.p_key) {
            continue;
        }
        if !trusted {
            query.offer(&group.record);
            continue;
        }
        for (_, member) in members(group.record.mgid, world) {
            query.offer(&McMemberRecord {
                port_gid: member.port_gid,
                join_state: member.state,
                proxy_join: member.proxy,
                ..group.record.clone()
            });
        }
    }
    Ok(())
}

/// The address below which no group's is (IBA 4.1.3).
const FIRST_MLID: Lid = Lid(0xC000);
