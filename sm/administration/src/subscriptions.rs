//! Subscribers, and what they want to be told of (IBA 13.4.8.3, 15.2.5.12).

use snin_fabric::{Guid, Lid};
use snin_mad::notice::NoticeKind;
use snin_mad::sa::*;
use snin_mad::{Gid, Hex32, Inner, Notice, Status};

use crate::answer::Answer;
use crate::answer::{SaResult, record};
use crate::query::RecordQuery;
use crate::trust::Requester;
use crate::world::World;
use snin_sm_database::records::{Subscriber, Subscription, Subscriptions};

/// The most subscriptions.
const MOST: usize = 262_144;
/// In ProducerType: any.
const ANY_PRODUCER: u32 = 0xFF_FFFF;

/// Set(InformInfo): subscribes, or ends a subscription.
pub(super) fn inform(
    requester: &Requester,
    request: &SaRequest,
    world: &mut World<'_>,
) -> SaResult {
    let info: InformInfo = record(request)?;
    let key = key(requester, &info);
    let now = world.now;
    match info.subscribe {
        1 => {
            if is_about_security(&info) && !requester.trusted {
                return Err(SaStatus::REQ_INVALID);
            }
            let all = world.database.all::<Subscriptions>();
            if all.get(&key).is_none() && all.len() >= MOST {
                return Err(SaStatus::NO_RESOURCES);
            }
            let qpn = Hex32(requester.origin.qp);
            let held = InformInfo { qpn, ..info.clone() };
            let (sl, trusted) = (requester.origin.sl, requester.trusted);
            let subscription = Subscription { info: held, sl, trusted };
            world.database.put::<Subscriptions>(key, subscription, now);
        }
        0 => {
            let qpn = Hex32(requester.origin.qp);
            let known = info.qpn == qpn || info.qpn == Hex32(0);
            let removed =
                known.then(|| world.database.remove::<Subscriptions>(&key, now)).flatten();
            removed.ok_or(SaStatus::REQ_INVALID)?;
        }
        _ => return Err(SaStatus::REQ_INVALID),
    }
    Ok(Answer::one(&info))
}

/// Traps 256 to 259 by number: keys that were wrong.
fn is_about_security(info: &InformInfo) -> bool {
    info.is_generic == 1 && (256..=259).contains(&info.trap_number)
}

/// What distinguishes subscriptions of one queue pair: everything but whether it begins or ends.
fn key(requester: &Requester, info: &InformInfo) -> Subscriber {
    let distinct = InformInfo { subscribe: 0, qpn: Hex32(0), response_time: 0, ..info.clone() };
    let (lid, qp) = (requester.origin.lid, requester.origin.qp);
    Subscriber { port: requester.guid, lid, qp, to: distinct.bytes() }
}

/// Get and GetTable of InformInfoRecord.
pub(super) fn read(query: &mut RecordQuery<'_>, world: &World<'_>) -> Result<(), Status> {
    let prefix = world.config.subnet_prefix();
    for (subscriber, subscription) in world.database.all::<Subscriptions>().iter() {
        let port = world.database.by_guid(subscriber.port).map(|(_, port)| port);
        if !port.is_some_and(|port| query.sees(port)) {
            continue;
        }
        let mut info = subscription.info.clone();
        if !query.requester.trusted {
            info.qpn = Hex32(0);
        }
        query.offer(&InformInfoRecord {
            subscriber: Gid::new(prefix, subscriber.port),
            number: 0,
            info: Inner::of(&info),
        });
    }
    Ok(())
}

/// A subscriber to a notice: address and service level.
pub(super) fn listeners<'w>(
    notice: &SaNotice,
    inner: &Notice,
    world: &'w World<'_>,
) -> Vec<(&'w Subscriber, u8)> {
    let all = world.database.all::<Subscriptions>().iter();
    let told = |(subscriber, subscription): (&'w Subscriber, &'w Subscription)| {
        let wants = wants(&subscription.info, notice, inner);
        let security = inner.kind == NoticeKind::Security;
        (wants && (subscription.trusted || !security)).then_some((subscriber, subscription.sl))
    };
    all.filter_map(told).collect()
}

fn wants(info: &InformInfo, notice: &SaNotice, inner: &Notice) -> bool {
    let any = |field: u16| field == ANY_TRAP;
    let issuer = match info.gid {
        Gid(zero) if zero == [0; 16] => {
            let (begin, end) = (info.lid_begin, info.lid_end.max(info.lid_begin));
            begin == ANY_LID || (begin..=end).contains(&inner.issuer) || begin == Lid::NONE
        }
        gid => gid == notice.issuer_gid,
    };
    issuer
        && (info.is_generic == 1) == inner.is_generic
        && (any(info.kind) || info.kind == u16::from(inner.kind.code()))
        && (any(info.trap_number) || info.trap_number == inner.trap_number)
        && (info.producer.0 == ANY_PRODUCER || info.producer == inner.producer)
}

/// Ends every subscription of a port that is gone; whether there was any.
pub(super) fn end_all(guid: Guid, world: &mut World<'_>) -> bool {
    let now = world.now;
    !world.database.retain::<Subscriptions>(now, |subscriber| subscriber.port != guid).is_empty()
}
