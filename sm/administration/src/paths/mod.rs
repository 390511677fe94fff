//! Paths: which addresses lead from one port to another, and what fits through (IBA 15.2.5.16).

mod choice;
mod ends;
mod route;

use snin_mad::sa::*;
use snin_mad::{Gid, Method, Status};

use crate::answer::{Answer, append};
use crate::answer::{SaResult, record};
use crate::membership;
use crate::query::LONGEST;
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::qos_policy::{Level, PathQuery};
use snin_sm_database::records::{Place, Port};

use choice::Wish;
use ends::{Endpoint, between};

/// Between more pairs of ports no paths are looked for in one request: from any port to all of the largest fabric
/// there are fewer. And so many where a request names every port.
const MOST_PAIRS: usize = 16_384;
const MOST_NAMED: usize = 1_024;

/// What a request says of the paths that it wants: of PathRecord and of MultiPathRecord.
struct Wanted {
    path: PathRecord,
    mask: ComponentMask,
}

/// The bits of PathRecord's mask.
mod bit {
    pub(super) const SERVICE_ID: [u8; 2] = [0, 1];
    pub(super) const DGID: u8 = 2;
    pub(super) const SGID: u8 = 3;
    pub(super) const DLID: u8 = 4;
    pub(super) const SLID: u8 = 5;
    pub(super) const RAW: u8 = 6;
    pub(super) const FLOW: u8 = 8;
    pub(super) const TCLASS: u8 = 10;
    pub(super) const NUMB_PATH: u8 = 12;
    pub(super) const P_KEY: u8 = 13;
    pub(super) const QOS_CLASS: u8 = 14;
    pub(super) const SL: u8 = 15;
    pub(super) const MTU: [u8; 2] = [16, 17];
    pub(super) const RATE: [u8; 2] = [18, 19];
    pub(super) const LIFETIME: [u8; 2] = [20, 21];
}

impl Wanted {
    fn of(request: &SaRequest) -> Result<Self, Status> {
        let wanted = Self { path: record(request)?, mask: request.mask };
        wanted.check()
    }

    fn check(self) -> Result<Self, Status> {
        let has = |bits: [u8; 2]| bits.map(|bit| self.mask.has(bit));
        // Both halves of the service, or none; a value and how it is meant, or neither.
        let halves = has(bit::SERVICE_ID);
        if halves[0] != halves[1] {
            return Err(SaStatus::INSUFFICIENT_COMPONENTS);
        }
        if self.mask.has(bit::RAW) && self.path.raw {
            return Err(SaStatus::NO_RECORDS);
        }
        Ok(self)
    }

    /// How a value is meant, where the mask has both of it and it.
    fn selector(&self, bits: [u8; 2], selector: Selector) -> Option<Selector> {
        bits.iter().all(|&bit| self.mask.has(bit)).then_some(selector)
    }

    /// What an operator's policy looks at.
    fn asked(&self) -> PathQuery {
        let Self { path, mask } = self;
        let service = mask.has(bit::SERVICE_ID[0]).then_some(path.service_id);
        PathQuery {
            class: mask.has(bit::QOS_CLASS).then_some(path.qos_class),
            service,
            key: mask.has(bit::P_KEY).then_some(path.p_key),
        }
    }

    /// The most paths for a pair.
    fn most(&self, otherwise: usize) -> usize {
        match self.mask.has(bit::NUMB_PATH) {
            true => usize::from(self.path.numb_path).max(1),
            false => otherwise,
        }
    }
}

/// Get and GetTable of PathRecord.
pub(super) fn paths(requester: &Requester, request: &SaRequest, world: &World<'_>) -> SaResult {
    let wanted = Wanted::of(request)?;
    let get = request.method == Method::Get;
    if wanted.mask.has(bit::DGID) && is_multicast(wanted.path.dgid) {
        let group = membership::path_to(requester, &wanted.path, wanted.mask, world);
        let answer = group.map_or_else(|| Answer::table(0, Vec::new()), |path| Answer::one(&path));
        return if get { answer.only() } else { Ok(answer) };
    }
    let sources = Endpoint::source(&wanted, world)?;
    let destinations = Endpoint::destination(&wanted, world)?;
    if sources.len() * destinations.len() > MOST_PAIRS {
        return Err(if get { SaStatus::TOO_MANY_RECORDS } else { SaStatus::NO_RESOURCES });
    }
    let most = if get { 1 } else { wanted.most(usize::from(u8::MAX >> 1)) };
    let longest = if get { 16 * usize::from(PathRecord::stride()) } else { LONGEST };
    let mut found = Vec::new();
    for source in sources.iter().filter(|end| requester.sees(end.port)) {
        for destination in destinations.iter().filter(|end| requester.sees(end.port)) {
            for path in between(source, destination, &wanted, most, world) {
                if found.len() >= longest {
                    return Err(if get {
                        SaStatus::TOO_MANY_RECORDS
                    } else {
                        SaStatus::NO_RESOURCES
                    });
                }
                append(&mut found, &path);
            }
        }
    }
    let answer = Answer::table(PathRecord::stride(), found);
    if get { answer.only() } else { Ok(answer) }
}

/// GetMulti: paths between several ports, the best of every pair before the second best of any.
pub(super) fn multi_paths(
    requester: &Requester,
    request: &SaRequest,
    world: &World<'_>,
) -> SaResult {
    let multi: MultiPathRecord = record(request)?;
    let mask = request.mask;
    let (sources, destinations) = (usize::from(multi.sources), usize::from(multi.destinations));
    if !mask.has(19) || !mask.has(20) || sources == 0 || destinations == 0 {
        return Err(SaStatus::INSUFFICIENT_COMPONENTS);
    }
    if sources * destinations > MOST_NAMED {
        return Err(SaStatus::NO_RESOURCES);
    }
    let gids: Vec<Gid> = request.data[24..]
        .chunks_exact(16)
        .filter_map(|bytes| bytes.try_into().ok().map(Gid))
        .take(sources + destinations)
        .collect();
    if gids.len() < sources + destinations {
        return Err(SaStatus::REQ_INVALID);
    }
    let wanted = Wanted { path: as_path(&multi), mask: as_path_mask(mask) }.check()?;
    let end = |&gid: &Gid| Endpoint::by_gid(gid, world).ok_or(SaStatus::INVALID_GID);
    let mut ends = gids.iter().map(end).collect::<Result<Vec<Endpoint<'_>>, Status>>()?;
    let mut to = ends.split_off(sources);
    let mut from = ends;
    from.retain(|end| requester.sees(end.port));
    to.retain(|end| requester.sees(end.port));
    let most = wanted.most(usize::from(u8::MAX >> 1));
    let mut all: Vec<std::vec::IntoIter<PathRecord>> = Vec::new();
    for source in &from {
        for destination in &to {
            all.push(between(source, destination, &wanted, most, world).into_iter());
        }
    }
    let (mut data, mut count) = (Vec::new(), 0);
    while count < most {
        let before = count;
        for path in all.iter_mut().filter_map(Iterator::next).take(most - count) {
            append(&mut data, &path);
            count += 1;
        }
        if count == before {
            break;
        }
    }
    Ok(Answer { attribute: Some(PathRecord::ID), ..Answer::table(PathRecord::stride(), data) })
}

/// GetTraceTable: the nodes that the best path passes.
pub(super) fn trace(requester: &Requester, request: &SaRequest, world: &World<'_>) -> SaResult {
    let path = PathRecord::from_bytes(&request.data).map_err(|_| SaStatus::REQ_INVALID)?;
    let wanted = Wanted { path, mask: request.mask }.check()?;
    let sources = Endpoint::source(&wanted, world)?;
    let destinations = Endpoint::destination(&wanted, world)?;
    let (&[source], &[destination]) = (&sources[..], &destinations[..]) else {
        return Err(SaStatus::INSUFFICIENT_COMPONENTS);
    };
    if !requester.sees(source.port) || !requester.sees(destination.port) {
        return Err(SaStatus::NO_RECORDS);
    }
    let path = between(&source, &destination, &wanted, 1, world).into_iter().next();
    let path = path.ok_or(SaStatus::NO_RECORDS)?;
    let records = route::trace(source.place, path.dlid, world);
    Ok(Answer::many(&records))
}

fn is_multicast(gid: Gid) -> bool {
    gid.0[0] == 0xFF
}

/// What MultiPathRecord and PathRecord have in common.
fn as_path(multi: &MultiPathRecord) -> PathRecord {
    PathRecord {
        raw: multi.raw,
        flow_label: multi.flow_label,
        hop_limit: multi.hop_limit,
        traffic_class: multi.traffic_class,
        reversible: multi.reversible,
        numb_path: multi.numb_path,
        p_key: multi.p_key,
        qos_class: multi.qos_class,
        sl: multi.sl,
        mtu_selector: multi.mtu_selector,
        mtu: multi.mtu,
        rate_selector: multi.rate_selector,
        rate: multi.rate,
        lifetime_selector: multi.lifetime_selector,
        lifetime: multi.lifetime,
        ..PathRecord::default()
    }
}

fn as_path_mask(mask: ComponentMask) -> ComponentMask {
    // From MultiPathRecord's bit to PathRecord's.
    const SAME: [(u8, u8); 14] = [
        (0, 6),
        (2, 8),
        (3, 9),
        (4, 10),
        (5, 11),
        (6, 12),
        (7, 13),
        (8, 14),
        (9, 15),
        (10, 16),
        (11, 17),
        (12, 18),
        (13, 19),
        (14, 20),
    ];
    let mut path = 0;
    for (multi, bit) in SAME.into_iter().chain([(15, 21)]) {
        path |= (mask.0 >> multi & 1) << bit;
    }
    ComponentMask(path)
}

/// What fits along a route from one port to another, as codes.
#[derive(Clone, Copy, Debug)]
struct Width {
    mtu: u8,
    rate: u8,
}

impl Width {
    fn of((place, port): At<'_>) -> Self {
        let rate = crate::records::rate_code(port);
        // A port that is no link's end has no neighbour.
        let own = place.1 == snin_fabric::PortNum::ZERO;
        let mtu = if own { port.info.mtu_cap } else { port.info.neighbor_mtu };
        Self { mtu: mtu.code(), rate }
    }

    /// Less, where a level of service is for less.
    fn within(self, level: &Level) -> Self {
        let limit = Self {
            mtu: level.mtu_limit.unwrap_or(self.mtu),
            rate: level.rate_limit.unwrap_or(self.rate),
        };
        self.and(limit)
    }

    /// What fits through both.
    fn and(self, other: Self) -> Self {
        let slower = |a, b| if crate::rates::speed(b) < crate::rates::speed(a) { b } else { a };
        Self { mtu: self.mtu.min(other.mtu), rate: slower(self.rate, other.rate) }
    }
}

/// A port and its place.
type At<'a> = (Place, &'a Port);
