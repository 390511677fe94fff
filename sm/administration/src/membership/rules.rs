//! Whether a port may join a group as it asks to.

use snin_mad::sa::{SaStatus, Selector};
use snin_mad::{PKey, Status};

use super::{Subject, bit};
use crate::{rates, records};
use snin_sm_database::records::{Group, Port};

/// Whether what the request says of a group that exists is so, and the port can follow it.
pub(super) fn agree(subject: &Subject<'_>, group: &Group) -> Result<(), Status> {
    let (wanted, mask, record) = (&subject.wanted, subject.mask, &group.record);
    let same = |bit: u8, same: bool| !mask.has(bit) || same;
    let agrees = same(bit::Q_KEY, wanted.q_key == record.q_key)
        && same(bit::MLID, wanted.mlid == record.mlid || wanted.mlid.0 == 0)
        && same(bit::TCLASS, wanted.traffic_class == record.traffic_class)
        && same(bit::P_KEY, may_meet(wanted.p_key, record.p_key))
        && same(bit::SL, wanted.sl == record.sl)
        && same(bit::FLOW, wanted.flow_label == record.flow_label)
        && same(bit::HOP, wanted.hop_limit == record.hop_limit)
        && same(bit::SCOPE, wanted.scope == record.scope || record.scope == 0);
    let has = |bits: [u8; 2]| bits.iter().all(|&bit| mask.has(bit));
    let speed = |code: u8| rates::speed(code).unwrap_or(0);
    let as_meant = (!has(bit::MTU) || wanted.mtu_selector.admits(record.mtu, wanted.mtu))
        && (!has(bit::RATE) || wanted.rate_selector.admits(speed(record.rate), speed(wanted.rate)));
    if agrees && as_meant && can_follow(subject, record.mtu, record.rate, record.p_key) {
        Ok(())
    } else {
        Err(SaStatus::REQ_INVALID)
    }
}

/// One partition, and not both as limited members.
fn may_meet(a: PKey, b: PKey) -> bool {
    a.base() == b.base() && (a.is_full() || b.is_full())
}

/// Whether the port's link carries the group's packets, and the port is in its partition.
pub(super) fn can_follow(subject: &Subject<'_>, mtu: u8, rate: u8, key: PKey) -> bool {
    let port = subject.port;
    let own_rate = rates::speed(records::rate_code(port));
    is_in(port, key) && port.info.neighbor_mtu.code() >= mtu && own_rate >= rates::speed(rate)
}

/// Whether a port is in a partition, as a full or limited member. A table of which nothing is known keeps no port
/// out.
pub(super) fn is_in(port: &Port, key: PKey) -> bool {
    let mut keys = port.partitions().peekable();
    keys.peek().is_none() || keys.any(|own| own.base() == key.base())
}

/// The value of a new group: the port's own, or what the request says, if the port has as much.
pub(super) fn value(
    selector: Option<Selector>,
    asked: u8,
    own: u8,
    order: impl Fn(u8) -> Option<u32>,
    codes: std::ops::RangeInclusive<u8>,
) -> Result<u8, Status> {
    let refused = SaStatus::REQ_INVALID;
    let Some(selector) = selector else { return Ok(own) };
    let (most, limit) = (order(own).ok_or(refused)?, order(asked));
    match selector {
        Selector::Largest => Ok(own),
        Selector::Exactly => match limit {
            Some(limit) if limit <= most => Ok(asked),
            _ => Err(refused),
        },
        Selector::Greater if most > limit.ok_or(refused)? => Ok(own),
        Selector::Less => {
            let limit = limit.ok_or(refused)?;
            let below = codes.filter(|&code| order(code).is_some_and(|n| n < limit && n <= most));
            below.max_by_key(|&code| order(code)).ok_or(refused)
        }
        _ => Err(refused),
    }
}
