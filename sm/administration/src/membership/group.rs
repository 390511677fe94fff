//! Groups: made by the first that joins, or by the manager for every partition.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid};
use snin_mad::sa::*;
use snin_mad::{Gid, Hex8, Hex32, PKey, Status};

use super::{FIRST_MLID, MOST_GROUPS, Subject, bit, end_if_unused, rules};
use crate::trust::Requester;
use crate::world::World;
use crate::{info, rates, records};
use snin_sm_database::partitions::{LOCAL, Made, broadcast, key_in_name};
use snin_sm_database::records::{Group, Groups, Ports};

/// What a group's maker must say too.
const NEEDED: ComponentMask =
    ComponentMask::of(&[bit::Q_KEY, bit::TCLASS, bit::P_KEY, bit::FLOW, bit::SL]);
/// The signature in the MGID of a group that the manager names.
const OWN: u16 = 0xA01B;

/// A group as the request describes it, by a port that can follow it.
pub(super) fn make(subject: &Subject<'_>, world: &World<'_>) -> Result<Group, Status> {
    let (wanted, mask, port) = (&subject.wanted, subject.mask, subject.port);
    if !mask.has_all(NEEDED) {
        return Err(SaStatus::INSUFFICIENT_COMPONENTS);
    }
    if !wanted.join_state.keeps_alive() {
        return Err(SaStatus::REQ_INVALID);
    }
    if world.database.all::<Groups>().len() >= MOST_GROUPS {
        return Err(SaStatus::NO_RESOURCES);
    }
    let meant = |bits: [u8; 2], selector| bits.iter().all(|&bit| mask.has(bit)).then_some(selector);
    let mtu = rules::value(
        meant(bit::MTU, wanted.mtu_selector),
        wanted.mtu,
        port.info.neighbor_mtu.code(),
        |code| (1..=5).contains(&code).then_some(code.into()),
        1..=5,
    )?;
    let rate = rules::value(
        meant(bit::RATE, wanted.rate_selector),
        wanted.rate,
        records::rate_code(port),
        rates::speed,
        2..=24,
    )?;
    if !rules::can_follow(subject, mtu, rate, wanted.p_key) {
        return Err(SaStatus::REQ_INVALID);
    }
    let lifetime =
        if mask.has(bit::LIFETIME[1]) { wanted.lifetime } else { world.config.packet_lifetime };
    let mgid = name(subject, world)?;
    if let Some(key) = key_in_name(mgid) {
        follows_broadcast(subject, (mgid, key), world)?;
    }
    let record = McMemberRecord {
        mgid,
        port_gid: Gid([0; 16]),
        q_key: wanted.q_key,
        mlid: free_mlid(mask.has(bit::MLID).then_some(wanted.mlid), world)?,
        mtu_selector: Selector::Exactly,
        mtu,
        traffic_class: wanted.traffic_class,
        p_key: wanted.p_key,
        rate_selector: Selector::Exactly,
        rate,
        lifetime_selector: Selector::Exactly,
        lifetime,
        sl: wanted.sl,
        flow_label: wanted.flow_label,
        hop_limit: if mask.has(bit::HOP) { wanted.hop_limit } else { 0 },
        scope: if mask.has(bit::SCOPE) { wanted.scope } else { mgid.0[1] & 0xF },
        join_state: JoinState::NONE,
        proxy_join: false,
    };
    Ok(Group { record, permanent: false })
}

/// The group's name: as asked for, if that may be one, or a new one.
fn name(subject: &Subject<'_>, world: &World<'_>) -> Result<Gid, Status> {
    let wanted = &subject.wanted;
    if wanted.mgid != Gid([0; 16]) {
        // Names with our signature are given by us, within the subnet at least; of the flags only the lowest
        // means something (IBA 4.1.1).
        let is_ours = wanted.mgid.0[2..4] == OWN.to_be_bytes();
        let own = is_ours && wanted.mgid.0[1] & 0xF == LOCAL;
        let reserved = wanted.mgid.0[1] & 0xE0 != 0 && key_in_name(wanted.mgid).is_none();
        return match wanted.mgid.0[0] == 0xFF && !own && !reserved {
            true => Ok(wanted.mgid),
            false => Err(SaStatus::REQ_INVALID),
        };
    }
    let scope =
        if subject.mask.has(bit::SCOPE) && wanted.scope != 0 { wanted.scope } else { LOCAL };
    let prefix = world.config.subnet_prefix().0.to_be_bytes();
    for number in 0..=MOST_GROUPS as u32 {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1]) = (0xFF, 0x10 | scope);
        mgid[2..4].copy_from_slice(&OWN.to_be_bytes());
        mgid[4..12].copy_from_slice(&prefix);
        mgid[12..16].copy_from_slice(&number.to_be_bytes());
        if world.database.get::<Groups>(&Gid(mgid)).is_none() {
            return Ok(Gid(mgid));
        }
    }
    Err(SaStatus::NO_RESOURCES)
}

/// A group of IP has what the partition's broadcast group has (RFC 4391, 5).
fn follows_broadcast(
    subject: &Subject<'_>,
    (mgid, key): (Gid, PKey),
    world: &World<'_>,
) -> Result<(), Status> {
    let mut name = broadcast(key);
    name.0[1] = mgid.0[1];
    let all = world.database.all::<Groups>();
    let group = all.get(&name).or_else(|| all.get(&broadcast(key))).ok_or(SaStatus::REQ_INVALID)?;
    let same = group.record.q_key == subject.wanted.q_key
        && group.record.p_key.base() == subject.wanted.p_key.base();
    if same { Ok(()) } else { Err(SaStatus::REQ_INVALID) }
}

/// A free address, within what every switch has room for.
fn free_mlid(wanted: Option<Lid>, world: &World<'_>) -> Result<Lid, Status> {
    let taken: BTreeSet<Lid> =
        world.database.all::<Groups>().iter().map(|(_, group)| group.record.mlid).collect();
    let last = last_mlid(world);
    let fits = |lid: &Lid| (FIRST_MLID..=last).contains(lid) && !taken.contains(lid);
    if let Some(wanted) = wanted.filter(|wanted| *wanted != Lid::NONE) {
        return Some(wanted).filter(fits).ok_or(SaStatus::REQ_INVALID);
    }
    (FIRST_MLID.0..=last.0).map(Lid).find(fits).ok_or(SaStatus::NO_RESOURCES)
}

/// The last address of groups that every switch with multicast has an entry for.
fn last_mlid(world: &World<'_>) -> Lid {
    let least = world.sweep.multicast_capacity().unwrap_or(0);
    Lid(FIRST_MLID.0.saturating_add(least).saturating_sub(1).min(0xFFFE))
}

/// Makes the groups of partitions, which their members cannot (IPoIB joins the broadcast group without saying what
/// a maker must say). Those that belong to no partition any more end with their last member; those of partitions
/// that came from another subnet stay.
pub(in super::super) fn found_permanent(world: &mut World<'_>) {
    let now = world.now;
    let plan = world.sweep.partitions();
    let made: BTreeMap<Gid, Made> =
        plan.configured().groups().iter().map(|made| (made.mgid, *made)).collect();
    let brought: BTreeSet<u16> = plan.brought().map(PKey::base).collect();
    let all = world.database.all::<Groups>().iter().filter(|(_, group)| group.permanent);
    let over = all.filter(|(mgid, group)| {
        !made.contains_key(mgid) && !brought.contains(&group.record.p_key.base())
    });
    let over: Vec<(Gid, Group)> = over.map(|(mgid, group)| (*mgid, group.clone())).collect();
    for (mgid, group) in over {
        world.database.put::<Groups>(mgid, Group { permanent: false, ..group }, now);
        end_if_unused(mgid, world);
    }
    for made in made.into_values().rev() {
        if world.database.get::<Groups>(&made.mgid).is_some() {
            continue;
        }
        let Ok(mlid) = free_mlid(None, world) else { continue };
        let group = Group { record: permanent(&made, mlid, world), permanent: true };
        world.database.put::<Groups>(made.mgid, group, now);
        info::note_gid(world, snin_mad::Trap::GroupCreated, made.mgid);
    }
}

fn permanent(made: &Made, mlid: Lid, world: &World<'_>) -> McMemberRecord {
    let scope = made.mgid.0[1] & 0xF;
    McMemberRecord {
        mgid: made.mgid,
        q_key: made.q_key,
        mlid,
        mtu_selector: Selector::Exactly,
        mtu: made.mtu,
        traffic_class: made.traffic_class,
        p_key: made.p_key,
        rate_selector: Selector::Exactly,
        rate: made.rate,
        lifetime_selector: Selector::Exactly,
        lifetime: world.config.packet_lifetime,
        // Without tables of lanes there is one service level.
        sl: if world.config.qos { made.sl } else { 0 },
        flow_label: made.flow_label,
        hop_limit: if scope == LOCAL { 0 } else { u8::MAX },
        scope,
        ..McMemberRecord::default()
    }
}

/// The path to a group: its address.
pub(in super::super) fn path_to(
    requester: &Requester,
    wanted: &PathRecord,
    mask: ComponentMask,
    world: &World<'_>,
) -> Option<PathRecord> {
    let group = world.database.get::<Groups>(&wanted.dgid)?;
    let record = &group.record;
    let key_fits = !mask.has(13) || wanted.p_key.base() == record.p_key.base();
    if !requester.is_in(record.p_key) || !key_fits {
        return None;
    }
    let source = match (mask.has(3), mask.has(5)) {
        (true, _) => world.database.by_guid(wanted.sgid.guid())?.0,
        (false, true) => world.database.by_lid(wanted.slid)?.0,
        (false, false) => requester.place,
    };
    let port = world.database.get::<Ports>(&source)?;
    let sgid = Gid::new(world.config.subnet_prefix(), port.guid.unwrap_or(Guid(0)));
    Some(PathRecord {
        dgid: record.mgid,
        sgid,
        dlid: record.mlid,
        slid: if mask.has(5) { wanted.slid } else { port.base },
        flow_label: Hex32(record.flow_label.0),
        hop_limit: record.hop_limit,
        traffic_class: Hex8(record.traffic_class.0),
        p_key: record.p_key,
        sl: record.sl,
        mtu_selector: Selector::Exactly,
        mtu: record.mtu,
        rate_selector: Selector::Exactly,
        rate: record.rate,
        lifetime_selector: Selector::Exactly,
        lifetime: record.lifetime,
        ..PathRecord::default()
    })
}
