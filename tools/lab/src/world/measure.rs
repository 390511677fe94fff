//! A window's begin, and what came of what it simulates.

use snin_controller_core::events::WindowReport;
use snin_emulator::data::MessageId;
use snin_fabric::PortIndex;
use snin_fabric::hosts::HostId;
use snin_protocol::Time;

use super::super::wire::UnderWay;
use super::{Carried, ScenarioEvent, Sending, Sent, Window, World};

impl World<'_> {
    pub(super) fn begin_slice(&mut self) {
        self.cables.begin_window(self.now);
        self.longest = self.longest_message();
        self.send_unasked();
        self.plan(self.now + self.setup.skew * 2, ScenarioEvent::AllSend);
    }

    /// The last clock says that the window has begun. Its slice is over when the slowest message is: who was
    /// granted a way with a slow link takes longer than the others.
    pub(super) fn all_send(&mut self) {
        let messages = (self.from..self.wire.messages()).map(MessageId);
        let mtu = u64::from(self.setup.data.mtu);
        let takes = |from: UnderWay| {
            let port = self.hosts_of.get(HostId(from.host)).map_or(PortIndex(0), |host| host.port);
            // A slice counts the packets that begin in it: the last one's end is the drain's.
            let begins = u64::from(from.piece.bytes).saturating_sub(mtu);
            self.wire.paced_time(port, begins, from.rate)
        };
        let slowest = messages.map(|message| takes(self.wire.under_way(message))).max();
        self.longest = self.longest.max(slowest.unwrap_or_default());
        let (granted, unasked) = (self.carried(true), self.carried(false));
        self.sending = Some(Sending::of(self.begun, &granted, &unasked, self.longest));
        self.plan(self.now + self.longest + self.drain, ScenarioEvent::SliceEnds);
    }

    /// How long the longest message takes that an application may send in this window, as far as the links of
    /// the two hosts go.
    fn longest_message(&self) -> Time {
        let sized = self.traffic.open().filter_map(|demand| {
            let port = self.hosts_of.get(demand.source)?.port;
            Some(self.wire.paced_time(port, demand.bytes?, self.rate_between(&demand)))
        });
        sized.max().unwrap_or_else(|| self.setup.slice.min(self.longest_grant()))
    }

    pub(super) fn end_slice(&mut self) {
        let (granted, unasked) = (self.carried(true), self.carried(false));
        let report =
            self.reports.remove(&self.first.after(u64::from(self.begun))).unwrap_or_default();
        let before = &self.packets;
        let packets =
            self.topology.ports().map(|p| self.wire.packets(p) - before[p.index()]).collect();
        self.count(&report);
        self.traffic.count_window();
        let (number, longest) = (self.begun, self.longest);
        self.finished = Some(Window { number, longest, granted, unasked, report, packets });
        self.begun += 1;
        // Hosts whose clocks are ahead begin before the window does: what comes from now on is of the next.
        self.wire.begin_window();
        self.from = self.wire.messages();
        for port in self.topology.ports() {
            self.packets[port.index()] = self.wire.packets(port);
        }
        let next = self.start_of(self.begun);
        self.plan(next, ScenarioEvent::WindowBegins);
        if self.setup.hold > 1 {
            let offers: Vec<(Time, u32)> =
                self.hosts.iter().map(|(&place, host)| (host.common(next), place)).collect();
            offers.into_iter().for_each(|(at, place)| self.plan(at, ScenarioEvent::Offer(place)));
        }
    }

    /// What was sent in the window by those who asked, or by those who did not.
    fn carried(&self, asked: bool) -> Carried {
        let mut carried = Carried::default();
        for message in (self.from..self.wire.messages()).map(MessageId) {
            let from = self.wire.under_way(message);
            if from.asked == asked {
                carried.in_time += self.wire.delivered(message);
                carried.possible += u64::from(from.piece.bytes);
                carried.sent.extend(self.sent(&from));
            }
        }
        carried
    }

    fn sent(&self, from: &UnderWay) -> Option<Sent> {
        let port = self.hosts_of.get(HostId(from.host))?.port;
        let destination = HostId(*self.place.get(&from.peer)?);
        let bytes = u64::from(from.piece.bytes);
        let UnderWay { tree, lid, wanted: rate, .. } = *from;
        Some(Sent { source: HostId(from.host), destination, port, tree, lid, bytes, rate })
    }

    fn count(&mut self, report: &WindowReport) {
        let totals = &mut self.totals;
        totals.deferred += report.deferred.values().map(|&count| u64::from(count)).sum::<u64>();
        totals.moved += u64::from(report.moved);
        totals.paused += u64::from(report.paused);
        let seen = self.wire.watch().most_owners();
        totals.max_link_load = totals.max_link_load.max(report.max_link_load).max(seen);
    }
}
