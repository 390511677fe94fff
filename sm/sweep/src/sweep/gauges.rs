//! Error counters of ports, read by PerfMgt Gets at queue pair 1, beside all other work.
//!
//! A read is asked again like every question, and given up after as many attempts - but for one that may have been
//! lost since tables were written meanwhile: that begins anew, until the port's test runs out of time. There are
//! never more of them than ports under test, which are bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Lid, PortNum};
use snin_mad::{Attribute as _, Class, Mad, Method, PKey, PortCounters, Status, TransactionId};
use snin_protocol::Time;

use super::Sweep;
use crate::events::Output;
use crate::query::PortId;
use snin_sm_database::error::Dropped;
use snin_sm_database::judgement::End;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::Place;

/// One read in flight.
struct Gauge {
    place: Place,
    end: End,
    /// The end's node, and the port whose counters are wanted.
    lid: Lid,
    port: PortNum,
    /// Times that it is still asked.
    again: u8,
    /// Work was under way when it was asked: what leads to the node may not have been written yet.
    unsettled: bool,
    deadline: Time,
}

/// Reads in flight, and what came of those that were.
#[derive(Default)]
pub(super) struct Gauges {
    in_flight: BTreeMap<u32, Gauge>,
    issued: u32,
    /// Reads that wait until it is known who has which address, or that were lost meanwhile.
    waiting: BTreeSet<(Place, End)>,
    read: VecDeque<(Place, End, Option<u32>)>,
}

impl Gauges {
    /// What was read: how many errors, where that could be.
    pub(super) fn next_read(&mut self) -> Option<(Place, End, Option<u32>)> {
        self.read.pop_front()
    }

    /// When the first read runs out of time.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.in_flight.values().map(|gauge| gauge.deadline).min()
    }
}

impl Sweep {
    /// Has the error counters of one end of a port's link read.
    pub(super) fn read_counters(&mut self, place: Place, end: End, now: Time) {
        // A manager that starts finds ports ACTIVE before it has computed anything.
        if self.target.is_none() {
            self.gauges.waiting.insert((place, end));
            return;
        }
        let near = self.graph.find(place.0).map(|node| (node, place.1));
        let port = match end {
            End::Near => near,
            End::Far => near.and_then(|near| Some(self.graph.link(near)?.to)),
        };
        // No packet leads to where it comes from.
        if port == Some(self.graph.own_end()) {
            return self.gauges.read.push_back((place, end, Some(0)));
        }
        let Some((lid, port)) = port.and_then(|port| Some((self.lid_of(port)?, port.1))) else {
            return self.give_up(place, end, !self.is_settled());
        };
        let (again, unsettled) = (self.config.attempts, false);
        self.ask_counters(Gauge { place, end, lid, port, again, unsettled, deadline: now }, now);
    }

    /// It could not be read; it begins anew where that may be since work was under way.
    fn give_up(&mut self, place: Place, end: End, unsettled: bool) {
        if unsettled {
            self.gauges.waiting.insert((place, end));
        } else {
            self.gauges.read.push_back((place, end, None));
        }
    }

    /// Begins the reads that wait, once addresses are known.
    pub(super) fn read_what_waits(&mut self, now: Time) {
        if self.target.is_some() {
            for (place, end) in std::mem::take(&mut self.gauges.waiting) {
                self.read_counters(place, end, now);
            }
        }
    }

    /// Where the node of a port is asked.
    fn lid_of(&self, (node, num): PortId) -> Option<Lid> {
        let addressed = if self.graph.node(node).is_switch() { PortNum::ZERO } else { num };
        let target = self.target.as_ref()?;
        target.addresses.base(target.discovered.port((node, addressed))?)
    }

    fn ask_counters(&mut self, mut gauge: Gauge, now: Time) {
        gauge.unsettled |= !self.is_settled();
        let Some(again) = gauge.again.checked_sub(1) else {
            return self.give_up(gauge.place, gauge.end, gauge.unsettled);
        };
        (gauge.again, gauge.deadline) = (again, now + self.config.timeout());
        self.gauges.issued = self.gauges.issued.wrapping_add(1);
        let id = (self.config.seed as u32).wrapping_add(self.gauges.issued);
        let asked = PortCounters { port: gauge.port, ..PortCounters::default() };
        let id_of_mad = TransactionId(id.into());
        let mad = Mad::performance(Method::Get, PortCounters::ID, 0, id_of_mad).with(&asked);
        let to = Origin { lid: gauge.lid, qp: 1, sl: 0, p_key: PKey::DEFAULT };
        self.metrics.counters_read += 1;
        self.gauges.in_flight.insert(id, gauge);
        let (port, mad) = (self.graph.homes.seat(), Box::new(mad));
        self.outputs.push_back(Output::Answer { port, to, mad });
    }

    /// A MAD at queue pair 1 that is no subnet administration's: an answer, or none of this manager's business.
    pub(super) fn counters_answered(&mut self, from: Lid, bytes: &[u8]) {
        if let Err(why) = self.take_counters(from, bytes) {
            self.metrics.count_dropped(why);
        }
    }

    fn take_counters(&mut self, from: Lid, bytes: &[u8]) -> Result<(), Dropped> {
        let mad = Mad::from_slice(bytes).map_err(|_| Dropped::Truncated)?;
        let header = mad.header();
        if header.class() != Class::Performance || header.method() != Method::GetResp {
            return Err(Dropped::OtherClass);
        }
        let id = header.transaction_id().0 as u32;
        let gauge = self.gauges.in_flight.get(&id).ok_or(Dropped::Unsolicited)?;
        let counters = mad.attribute::<PortCounters>().map_err(|_| Dropped::Malformed)?;
        if gauge.lid != from || gauge.port != counters.port {
            return Err(Dropped::Foreign);
        }
        let errors = errors(&counters).filter(|_| header.status() == Status::OK);
        let read = (gauge.place, gauge.end, errors);
        self.gauges.in_flight.remove(&id);
        self.gauges.read.push_back(read);
        Ok(())
    }

    /// Asks again what was not answered in time.
    pub(super) fn expire_counters(&mut self, now: Time) {
        let late = |gauge: &Gauge| gauge.deadline <= now;
        let ids: Vec<u32> = {
            let all = self.gauges.in_flight.iter();
            all.filter(|(_, gauge)| late(gauge)).map(|(&id, _)| id).collect()
        };
        for id in ids {
            if let Some(gauge) = self.gauges.in_flight.remove(&id) {
                self.ask_counters(gauge, now);
            }
        }
    }
}

/// The errors of a link, together; none where one of the counters has stopped at its maximum (IBA 16.1.3.5).
fn errors(counters: &PortCounters) -> Option<u32> {
    let wide = [counters.symbol_errors, counters.receive_errors];
    let narrow = [counters.link_error_recoveries, counters.link_downed];
    let nibbles = [counters.local_link_integrity_errors, counters.excessive_buffer_overrun_errors];
    let full =
        wide.contains(&u16::MAX) || narrow.contains(&u8::MAX) || nibbles.iter().any(|&n| n >= 15);
    let sum = wide.iter().map(|&n| u32::from(n)).sum::<u32>()
        + narrow.iter().chain(&nibbles).map(|&n| u32::from(n)).sum::<u32>();
    (!full).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_added_up_and_a_full_counter_says_nothing() {
        let some = PortCounters { symbol_errors: 3, link_downed: 2, ..PortCounters::default() };
        assert_eq!(errors(&some), Some(5));
        assert_eq!(errors(&PortCounters { transmit_discards: u16::MAX, ..some.clone() }), Some(5));
        assert_eq!(errors(&PortCounters { symbol_errors: u16::MAX, ..some.clone() }), None);
        assert_eq!(errors(&PortCounters { local_link_integrity_errors: 15, ..some }), None);
    }
}
