//! Which records answer a request that reads one kind of them.

use snin_mad::Status;
use snin_mad::sa::*;

use crate::answer::SaResult;
use crate::query::RecordQuery;
use crate::trust::Requester;
use crate::world::World;
use crate::{aliases, membership, records, services, subscriptions};

/// Get and GetTable of everything but paths.
pub(super) fn read(requester: &Requester, request: &SaRequest, world: &World<'_>) -> SaResult {
    macro_rules! by_attribute {
        ($($record:ident => $source:path,)*) => {
            match request.attribute {
                $($record::ID => {
                    let mut query = RecordQuery::new::<$record>(requester, request, world);
                    $source(&mut query, world)?;
                    query.answer::<$record>(request.method)
                })*
                _ => Err(Status::BAD_METHOD_ATTRIBUTE),
            }
        };
    }
    by_attribute! {
        NodeRecord => records::nodes,
        PortInfoRecord => records::ports,
        SwitchInfoRecord => records::switches,
        LinearForwardingRecord => records::linear,
        RandomForwardingRecord => records::none,
        MulticastForwardingRecord => records::multicast,
        SmInfoRecord => records::managers,
        LinkRecord => records::links,
        SlToVlRecord => records::lanes::mappings,
        VlArbitrationRecord => records::lanes::arbitrations,
        PKeyTableRecord => records::partitions,
        GuidInfoRecord => aliases::read,
        McMemberRecord => membership::read,
        ServiceRecord => services::read,
        ServiceAssociationRecord => services::associations,
        InformInfoRecord => subscriptions::read,
    }
}
