//! Groups: made by the first that joins, or by the manager for every partition.

use std::collections::BTreeSet;

use snin_fabric::{Guid, Lid};
use snin_mad::sa::*;
use snin_mad::{Gid, Hex8, Hex32, PKey, QKey, Status};

use super::super::{info, rates, records, trust::Requester};
use super::{FIRST_MLID, MOST_GROUPS, Subject, World, bit, rules};
use crate::database::{Group, Groups, Ports};

/// What a group's maker must say too.
const NEEDED: ComponentMask =
    ComponentMask::of(&[bit::Q_KEY, bit::TCLASS, bit::P_KEY, bit::FLOW, bit::SL]);
/// The key of IP's groups (RFC 4391).
const IP_Q_KEY: QKey = QKey(0x0B1B);
/// Payload of 2,048 bytes, 10 Gbit/s: what every adapter can, and what OpenSM gives IP's groups.
const IP_MTU: u8 = 4;
const IP_RATE: u8 = 3;
/// The subnet.
const LOCAL: u8 = 2;
/// Signatures in an MGID: IPv4, IPv6 (RFC 4391), and groups that the manager names.
const IP: [u16; 2] = [0x401B, 0x601B];
const OWN: u16 = 0xA01B;

fn signature(mgid: Gid) -> u16 {
    u16::from_be_bytes([mgid.0[2], mgid.0[3]])
}

/// The broadcast group of IP in a partition (RFC 4391).
fn broadcast(key: PKey) -> Gid {
    let mut mgid = [0xFF, 0x10 | LOCAL, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    mgid[4..6].copy_from_slice(&(key.0 | 0x8000).to_be_bytes());
    Gid(mgid)
}

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
    if IP.contains(&signature(mgid)) {
        follows_broadcast(subject, mgid, world)?;
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
        let signature = signature(wanted.mgid);
        let own = signature == OWN && wanted.mgid.0[1] & 0xF == LOCAL;
        let reserved = wanted.mgid.0[1] & 0xE0 != 0 && !IP.contains(&signature);
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
fn follows_broadcast(subject: &Subject<'_>, mgid: Gid, world: &World<'_>) -> Result<(), Status> {
    let key = PKey(u16::from_be_bytes([mgid.0[4], mgid.0[5]]));
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

/// Makes the broadcast group of every partition, which its members cannot (IPoIB joins it without saying what
/// a maker must say).
pub(in super::super) fn found_permanent(world: &mut World<'_>) {
    let configured = world.sweep.configured_keys();
    let keys: BTreeSet<u16> = configured.iter().map(|key| key.0 | 0x8000).collect();
    for key in keys.into_iter().rev().map(PKey) {
        let mgid = broadcast(key);
        if world.database.get::<Groups>(&mgid).is_some() {
            continue;
        }
        let Ok(mlid) = free_mlid(None, world) else { continue };
        let record = McMemberRecord {
            mgid,
            q_key: IP_Q_KEY,
            mlid,
            mtu_selector: Selector::Exactly,
            mtu: IP_MTU,
            p_key: key,
            rate_selector: Selector::Exactly,
            rate: IP_RATE,
            lifetime_selector: Selector::Exactly,
            lifetime: world.config.packet_lifetime,
            scope: LOCAL,
            ..McMemberRecord::default()
        };
        let now = world.now;
        world.database.put::<Groups>(mgid, Group { record, permanent: true }, now);
        info::note_gid(world, snin_mad::Trap::GroupCreated, mgid);
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
