//! The two ends of a path, and the records between them.

use snin_fabric::Lid;
use snin_mad::sa::{PathRecord, SaStatus, Selector};
use snin_mad::{Gid, GidPrefix, Hex8, Hex32, PKey, Status};

use super::{Wanted, Width, Wish, bit, choice, route};
use crate::world::World;
use crate::{rates, trust};
use snin_sm_database::qos_policy::{Level, PathQuery, Subject};
use snin_sm_database::records::{Nodes, Place, Port};

/// The prefix of every subnet's own GIDs (IBA 4.1.1).
const LINK_LOCAL: GidPrefix = GidPrefix(0xFE80_0000_0000_0000);

/// A port at an end of a path, and the one of its addresses that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint<'a> {
    pub(super) place: Place,
    pub(super) port: &'a Port,
    gid: Gid,
    lid: Option<Lid>,
}

impl<'a> Endpoint<'a> {
    pub(super) fn source(wanted: &Wanted, world: &'a World<'_>) -> Result<Vec<Self>, Status> {
        let gid = wanted.mask.has(bit::SGID).then_some(wanted.path.sgid);
        let lid = wanted.mask.has(bit::SLID).then_some(wanted.path.slid);
        Self::find(gid, lid, world)
    }

    pub(super) fn destination(wanted: &Wanted, world: &'a World<'_>) -> Result<Vec<Self>, Status> {
        let gid = wanted.mask.has(bit::DGID).then_some(wanted.path.dgid);
        let lid = wanted.mask.has(bit::DLID).then_some(wanted.path.dlid);
        Self::find(gid, lid, world)
    }

    /// The port with both, or every port. A GID that no port has leads nowhere, which is no error.
    fn find(gid: Option<Gid>, lid: Option<Lid>, world: &'a World<'_>) -> Result<Vec<Self>, Status> {
        let by_lid = |lid: Lid| {
            let (place, port) = world.database.by_lid(lid)?;
            let gid = Gid::new(world.config.subnet_prefix(), port.guid?);
            Some(Self { place, port, gid, lid: Some(lid) })
        };
        match (gid, lid) {
            (None, None) => {
                let gid = |port: &Port| Some(Gid::new(world.config.subnet_prefix(), port.guid?));
                let end = |(place, port)| Some(Self { place, port, gid: gid(port)?, lid: None });
                Ok(world.database.ends().filter_map(end).collect())
            }
            (Some(gid), None) => Ok(Self::by_gid(gid, world).into_iter().collect()),
            (None, Some(lid)) => Ok(by_lid(lid).into_iter().collect()),
            (Some(gid), Some(lid)) => match (Self::by_gid(gid, world), by_lid(lid)) {
                (Some(by_gid), Some(by_lid)) if by_gid.place == by_lid.place => {
                    Ok(vec![Self { lid: Some(lid), ..by_gid }])
                }
                (Some(_), Some(_)) => Err(SaStatus::REQ_INVALID),
                _ => Ok(Vec::new()),
            },
        }
    }

    /// The port with this GID, or alias, in this subnet.
    pub(super) fn by_gid(gid: Gid, world: &'a World<'_>) -> Option<Self> {
        let prefix = gid.prefix();
        if prefix != world.config.subnet_prefix() && prefix != LINK_LOCAL {
            return None;
        }
        let (place, port) = world.database.by_guid(gid.guid())?;
        Some(Self { place, port, gid, lid: None })
    }

    fn at(&self) -> super::At<'a> {
        (self.place, self.port)
    }
}

/// At most `most` paths, the best first.
pub(super) fn between(
    from: &Endpoint<'_>,
    to: &Endpoint<'_>,
    wanted: &Wanted,
    most: usize,
    world: &World<'_>,
) -> Vec<PathRecord> {
    let asked = wanted.asked();
    let service = service(from, to, &asked, world);
    let allowed = |key: PKey| service.is_none_or(|service| service.allows(key));
    let Some(key) = trust::common(from.port, to.port, asked.key, allowed) else {
        return Vec::new();
    };
    if !from.port.is_active() && from.place != to.place {
        return Vec::new();
    }
    let wish = Wish { from: from.lid, to: to.lid };
    let own = from.place == to.place;
    let mut paths = Vec::new();
    for (source, destination) in choice::addresses(from.at(), to.at(), wish, world) {
        if paths.len() >= most {
            break;
        }
        let width = if own {
            Some(Width::of(from.at()))
        } else {
            route::width(from.place, destination, world)
        };
        let Some(width) = width else { continue };
        let granted = choice::level(from.at(), to.at(), destination, world);
        let service = service.filter(|_| granted == 0);
        let width = service.map_or(width, |service| width.within(service));
        let lifetime = service.and_then(|service| service.packet_life);
        let lifetime = lifetime.unwrap_or(world.config.packet_lifetime);
        let Some(fits) = fit(wanted, width, if own { 0 } else { lifetime }) else { continue };
        let lane = choice::lane(from.at(), to.at(), world).filter(|_| !own);
        let level = lane.or_else(|| service.and_then(|service| service.sl));
        if wanted.mask.has(bit::SL) && level.is_some_and(|level| level != fits.sl) {
            continue;
        }
        paths.push(PathRecord {
            dgid: to.gid,
            sgid: from.gid,
            dlid: destination,
            slid: source,
            p_key: key,
            preference: paths.len() as u8,
            reversible: true,
            sl: if wanted.mask.has(bit::SL) { fits.sl } else { level.unwrap_or(granted) },
            ..fits
        });
    }
    paths
}

/// The level that the operator's policy gives a path.
fn service<'a>(
    from: &Endpoint<'_>,
    to: &Endpoint<'_>,
    asked: &PathQuery,
    world: &'a World<'_>,
) -> Option<&'a Level> {
    let policy = &world.config.qos_policy;
    if policy.is_empty() {
        return None;
    }
    let own = world.sweep.own_guid();
    let node = |end: &Endpoint<'_>| world.database.get::<Nodes>(&end.place.0);
    let keys = |end: &Endpoint<'_>| end.port.partitions().collect::<Vec<PKey>>();
    let (from_keys, to_keys) = (keys(from), keys(to));
    let (from_node, to_node) = (node(from)?, node(to)?);
    let guid = |end: &Endpoint<'_>| end.port.guid.unwrap_or_default();
    let subject = |end: &Endpoint<'_>| (guid(end), end.place.1, own == end.port.guid);
    let [(guid, num, own), (to_guid, to_num, to_own)] = [subject(from), subject(to)];
    let kind = |node: &snin_sm_database::records::Node| node.info.node_type.kind();
    let from =
        Subject { guid, kind: kind(from_node), name: &from_node.name, num, keys: &from_keys, own };
    let to = Subject {
        guid: to_guid,
        kind: kind(to_node),
        name: &to_node.name,
        num: to_num,
        keys: &to_keys,
        own: to_own,
    };
    policy.level(&from, &to, asked)
}

/// The record of a path through which this fits, if it is what was asked for.
pub(super) fn fit(wanted: &Wanted, width: Width, lifetime: u8) -> Option<PathRecord> {
    let Wanted { path, mask } = wanted;
    // Less is possible too, so that only what is asked to be more than there is cannot be had. A request for
    // less, or for exactly a value, is answered with that value.
    let mtu = match wanted.selector(bit::MTU, path.mtu_selector) {
        Some(selector) => lower(selector, width.mtu, path.mtu, u32::from, 1..=5)?,
        None => width.mtu,
    };
    let rate = match wanted.selector(bit::RATE, path.rate_selector) {
        Some(selector) => {
            let speed = |code| rates::speed(code).unwrap_or(0);
            lower(selector, width.rate, path.rate, speed, 2..=24)?
        }
        None => width.rate,
    };
    let lifetime = match wanted.selector(bit::LIFETIME, path.lifetime_selector) {
        Some(Selector::Greater) if lifetime <= path.lifetime => (path.lifetime + 1).min(63),
        Some(Selector::Less) if lifetime >= path.lifetime => return None,
        Some(Selector::Exactly) if lifetime > path.lifetime => return None,
        Some(Selector::Exactly) => path.lifetime,
        _ => lifetime,
    };
    // What the destination's address adds to that, the caller knows.
    let sl = if mask.has(bit::SL) { path.sl } else { 0 };
    Some(PathRecord {
        service_id: if mask.has(0) { path.service_id } else { 0 },
        flow_label: if mask.has(bit::FLOW) { path.flow_label } else { Hex32(0) },
        traffic_class: if mask.has(bit::TCLASS) { path.traffic_class } else { Hex8(0) },
        sl,
        mtu_selector: Selector::Exactly,
        mtu,
        rate_selector: Selector::Exactly,
        rate,
        lifetime_selector: Selector::Exactly,
        lifetime,
        ..PathRecord::default()
    })
}

/// The greatest code not above `there` that is what was asked for.
fn lower(
    selector: Selector,
    there: u8,
    asked: u8,
    speed: impl Fn(u8) -> u32,
    codes: std::ops::RangeInclusive<u8>,
) -> Option<u8> {
    let (most, value) = (speed(there), speed(asked));
    match selector {
        Selector::Greater => (most > value).then_some(there),
        Selector::Exactly => (most >= value && value > 0).then_some(asked),
        Selector::Less if most < value => Some(there),
        Selector::Less => {
            codes.filter(|&code| (1..value).contains(&speed(code))).max_by_key(|&code| speed(code))
        }
        _ => Some(there),
    }
}
