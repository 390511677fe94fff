//! Performance management: the counters, read and set (IBA 16.1).

use snin_fabric::PortNum;
use snin_mad::{Attribute, ClassPortInfo, PortCounters, PortCountersExtended, Status};
use snin_mad::{Hex8, Hex16, Hex32};

use super::{Outcome, Request};
use crate::counters::Counters;
use crate::fabric::Fabric;

/// ClassPortInfo:CapabilityMask: AllPortSelect, and PortCountersExtended with all its counters.
const CAPABILITIES: u16 = 0x0100 | 0x0200;
/// PortSelect: all ports of a switch together.
const ALL: PortNum = PortNum(0xFF);

/// Which of the two sets of counters: each is set by itself.
#[derive(Clone, Copy)]
enum Kind {
    Narrow = 0,
    Wide = 1,
}

impl Fabric {
    pub(super) fn performance(&mut self, request: &mut Request<'_>) -> Outcome {
        match request.mad.header().attribute() {
            ClassPortInfo::ID => class_port_info(request),
            PortCounters::ID => self.port_counters(request),
            PortCountersExtended::ID => self.port_counters_extended(request),
            _ => Err(Status::BAD_METHOD_ATTRIBUTE),
        }
    }

    /// IBA 16.1.3.5: narrow counters stop at their maximum.
    fn port_counters(&mut self, request: &mut Request<'_>) -> Outcome {
        let asked = PortCounters::view(PortCounters::data(&request.mad.0));
        let (port, select, select2) = (asked.port(), asked.select().0, asked.select2().0);
        let ports = self.ports_meant(request, port)?;
        if request.set {
            let wanted = Counters {
                symbol_errors: asked.symbol_errors().into(),
                link_downed: asked.link_downed().into(),
                receive_errors: asked.receive_errors().into(),
                receive_switch_relay_errors: asked.receive_switch_relay_errors().into(),
                transmit_discards: asked.transmit_discards().into(),
                qp1_dropped: asked.qp1_dropped().into(),
                vl15_dropped: asked.vl15_dropped().into(),
                transmit_data: asked.transmit_data().into(),
                receive_data: asked.receive_data().into(),
                transmit_packets: asked.transmit_packets().into(),
                receive_packets: asked.receive_packets().into(),
            };
            let selected = u32::from(select2) << 16 | u32::from(select);
            let bits = NARROW.iter().map(|&(bit, field)| (selected >> bit & 1 == 1, field));
            self.set_counters(&ports, Kind::Narrow, &wanted, bits);
        }
        let now = self.counted(&ports, Kind::Narrow);
        request.mad.put(&PortCounters {
            port,
            select: Hex16(select),
            select2: Hex8(select2),
            symbol_errors: narrow(now.symbol_errors),
            link_downed: narrow(now.link_downed),
            receive_errors: narrow(now.receive_errors),
            receive_switch_relay_errors: narrow(now.receive_switch_relay_errors),
            transmit_discards: narrow(now.transmit_discards),
            qp1_dropped: narrow(now.qp1_dropped),
            vl15_dropped: narrow(now.vl15_dropped),
            transmit_data: narrow(now.transmit_data),
            receive_data: narrow(now.receive_data),
            transmit_packets: narrow(now.transmit_packets),
            receive_packets: narrow(now.receive_packets),
            ..PortCounters::default()
        });
        Ok(())
    }

    /// IBA 16.1.4.11: wide counters wrap round.
    fn port_counters_extended(&mut self, request: &mut Request<'_>) -> Outcome {
        let asked = PortCountersExtended::view(PortCountersExtended::data(&request.mad.0));
        let (port, select, select2) = (asked.port(), asked.select().0, asked.select2().0);
        let ports = self.ports_meant(request, port)?;
        if request.set {
            let wanted = Counters {
                transmit_data: asked.transmit_data(),
                receive_data: asked.receive_data(),
                transmit_packets: asked.transmit_packets(),
                receive_packets: asked.receive_packets(),
                symbol_errors: asked.symbol_errors(),
                link_downed: asked.link_downed(),
                receive_errors: asked.receive_errors(),
                receive_switch_relay_errors: asked.receive_switch_relay_errors(),
                transmit_discards: asked.transmit_discards(),
                vl15_dropped: asked.vl15_dropped(),
                qp1_dropped: asked.qp1_dropped(),
            };
            let selected = u64::from(select2) << 16 | u64::from(select);
            let bits = WIDE.iter().map(|&(bit, field)| (selected >> bit & 1 == 1, field));
            self.set_counters(&ports, Kind::Wide, &wanted, bits);
        }
        let now = self.counted(&ports, Kind::Wide);
        request.mad.put(&PortCountersExtended {
            port,
            select: Hex16(select),
            select2: Hex32(select2),
            transmit_data: now.transmit_data,
            receive_data: now.receive_data,
            transmit_packets: now.transmit_packets,
            receive_packets: now.receive_packets,
            unicast_transmit_packets: now.transmit_packets,
            unicast_receive_packets: now.receive_packets,
            symbol_errors: now.symbol_errors,
            link_downed: now.link_downed,
            receive_errors: now.receive_errors,
            receive_switch_relay_errors: now.receive_switch_relay_errors,
            transmit_discards: now.transmit_discards,
            vl15_dropped: now.vl15_dropped,
            qp1_dropped: now.qp1_dropped,
            ..PortCountersExtended::default()
        });
        Ok(())
    }

    /// The ports that PortSelect names.
    fn ports_meant(&self, request: &Request<'_>, select: PortNum) -> Result<Vec<u32>, Status> {
        let node = &self.nodes[request.node as usize];
        let first = u32::from(!node.is_switch());
        match node.port(select.0) {
            _ if select == ALL => Ok(self.ports_of(request.node).skip(first as usize).collect()),
            Some(port) if u32::from(select.0) >= first => Ok(vec![port]),
            _ => Err(Status::BAD_VALUE),
        }
    }

    fn counted(&self, ports: &[u32], kind: Kind) -> Counters {
        let mut sum = Counters::default();
        for &port in ports {
            let port = &self.ports[port as usize];
            let from =
                port.counted_from.as_deref().map_or_else(Counters::default, |c| c[kind as usize]);
            sum = sum.plus(&port.counters.since(&from));
        }
        sum
    }

    fn set_counters(
        &mut self,
        ports: &[u32],
        kind: Kind,
        wanted: &Counters,
        fields: impl Iterator<Item = (bool, fn(&mut Counters) -> &mut u64)>,
    ) {
        let mut wanted = *wanted;
        for (_, field) in fields.filter(|(selected, _)| *selected) {
            let value = *field(&mut wanted);
            for &port in ports {
                let port = &mut self.ports[port as usize];
                let total = *field(&mut port.counters.clone());
                let from = &mut port.counted_from.get_or_insert_default()[kind as usize];
                *field(from) = total.wrapping_sub(value);
            }
        }
    }
}

/// A counter and its bit in CounterSelect.
type Selected = (u32, fn(&mut Counters) -> &mut u64);

/// IBA 16.1.3.5, CounterSelect, and from bit 16 on CounterSelect2.
const NARROW: [Selected; 11] = [
    (0, |c| &mut c.symbol_errors),
    (2, |c| &mut c.link_downed),
    (3, |c| &mut c.receive_errors),
    (5, |c| &mut c.receive_switch_relay_errors),
    (6, |c| &mut c.transmit_discards),
    (11, |c| &mut c.vl15_dropped),
    (12, |c| &mut c.transmit_data),
    (13, |c| &mut c.receive_data),
    (14, |c| &mut c.transmit_packets),
    (15, |c| &mut c.receive_packets),
    (17, |c| &mut c.qp1_dropped),
];

/// IBA 16.1.4.11, CounterSelect, and from bit 16 on CounterSelect2.
const WIDE: [Selected; 11] = [
    (0, |c| &mut c.transmit_data),
    (1, |c| &mut c.receive_data),
    (2, |c| &mut c.transmit_packets),
    (3, |c| &mut c.receive_packets),
    (16, |c| &mut c.symbol_errors),
    (18, |c| &mut c.link_downed),
    (19, |c| &mut c.receive_errors),
    (21, |c| &mut c.receive_switch_relay_errors),
    (22, |c| &mut c.transmit_discards),
    (27, |c| &mut c.vl15_dropped),
    (29, |c| &mut c.qp1_dropped),
];

/// The largest that fits, if it does not.
fn narrow<T: TryFrom<u64> + Bounded>(value: u64) -> T {
    T::try_from(value).unwrap_or(T::MAX)
}

trait Bounded {
    const MAX: Self;
}

macro_rules! bounded {
    ($($type:ty)*) => { $(impl Bounded for $type { const MAX: Self = <$type>::MAX; })* };
}

bounded!(u8 u16 u32);

/// IBA 13.4.8.1.
fn class_port_info(request: &mut Request<'_>) -> Outcome {
    request.only_get()?;
    request.mad.put(&ClassPortInfo {
        base_version: 1,
        class_version: 1,
        capabilities: Hex16(CAPABILITIES),
        response_time: 18,
        ..ClassPortInfo::default()
    });
    Ok(())
}
