//! Tables of service levels and lanes, as far as they are managed.

use snin_fabric::Lid;
use snin_mad::Inner;
use snin_mad::sa::{SlToVlRecord, VlArbitrationRecord};

use super::Offered;
use crate::administration::World;
use crate::administration::query::RecordQuery;
use crate::qos_tables::{QosTable, QosTableId};

pub(crate) fn mappings(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for ((_, num), port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        for (table, lanes) in &port.qos_tables {
            if let (QosTableId::Mapping(input), QosTable::Mapping(mapping)) = (table, lanes) {
                query.offer(&SlToVlRecord {
                    lid: port.base,
                    input: *input,
                    output: num,
                    table: Inner::of(mapping),
                });
            }
        }
    }
    Ok(())
}

pub(crate) fn arbitrations(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for ((_, num), port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        for (table, lanes) in &port.qos_tables {
            if let (QosTableId::Arbitration(quarter), QosTable::Arbitration(block)) = (table, lanes)
            {
                query.offer(&VlArbitrationRecord {
                    lid: port.base,
                    port: num,
                    block: *quarter,
                    table: Inner::of(block),
                });
            }
        }
    }
    Ok(())
}
