//! What happens, whom it is told, and all that follows from it.

use std::sync::Arc;

use snin_agent_core::{Arrival, Event as AgentEvent, PortEvent};
use snin_controller_core::events::{Event as ControllerEvent, Note, Output};
use snin_emulator::data::{MessageId, Transport};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::codec::{decode, encode};
use snin_protocol::message::{FromAgent, ToAgent};

use super::super::wire::{News, UnderWay};
use super::{ScenarioEvent, World};

impl World<'_> {
    /// The network tells of messages.
    pub(super) fn receive(&mut self, news: News) {
        let (News::Sent(message, _)
        | News::Acknowledged(message, _)
        | News::Completed(message, _)
        | News::Lost(message)) = news;
        // A sender without an agent hears nothing, and neither does its receiver.
        if !self.wire.under_way(message).asked {
            return;
        }
        match news {
            News::Sent(message, at) => {
                let UnderWay { transport, .. } = self.wire.under_way(message);
                if transport == Transport::Uc {
                    self.done(message, at);
                }
            }
            News::Acknowledged(message, at) => {
                if self.wire.is_complete(message) {
                    self.done(message, at);
                }
            }
            News::Completed(message, at) => {
                let UnderWay { host, piece, peer, .. } = self.wire.under_way(message);
                let (Some(from), Some(&to)) = (self.hosts.get(&host), self.place.get(&peer)) else {
                    return;
                };
                let arrival = Arrival { peer: from.guid, session: 1, piece };
                self.plan(at, ScenarioEvent::Port(to, PortEvent::Arrived(arrival)));
            }
            News::Lost(message) => {
                let UnderWay { host, .. } = self.wire.under_way(message);
                if let Some(sender) = self.hosts.get_mut(&host) {
                    sender.adapter().lost(message, self.now);
                    self.run_host(host);
                }
            }
        }
    }

    fn done(&mut self, message: MessageId, at: Time) {
        let UnderWay { host, ticket, .. } = self.wire.under_way(message);
        let done = self.hosts.get_mut(&host).and_then(|host| host.adapter().done(message, ticket));
        if let Some(event) = done {
            self.plan(at, ScenarioEvent::Port(host, event));
        }
    }

    pub(super) fn happen(&mut self, happening: ScenarioEvent) {
        match happening {
            ScenarioEvent::ToController(from, bytes) => {
                let from = self.hosts.get(&from).map_or(Guid(0), |host| host.guid);
                if let Ok(Some((message, _))) = decode::<FromAgent>(&bytes) {
                    self.controller.handle(ControllerEvent::Received { from, message }, self.now);
                    self.after_controller();
                }
            }
            ScenarioEvent::ToAgent(place, bytes) => {
                let event = match decode::<ToAgent>(&bytes) {
                    Ok(Some((message, _))) => AgentEvent::Controller(Arc::new(message)),
                    _ => AgentEvent::Malformed,
                };
                self.notify_host(place, event);
            }
            ScenarioEvent::View(view) => {
                self.controller.handle(ControllerEvent::View(view), self.now);
                self.after_controller();
            }
            ScenarioEvent::Clear(version) => {
                self.subnet.run_until(self.now);
                self.subnet.clear(version);
                self.after_subnet();
            }
            ScenarioEvent::Port(place, event) => {
                if let Some(host) = self.hosts.get_mut(&place) {
                    host.adapter().notify(event);
                    self.run_host(place);
                }
            }
            ScenarioEvent::Wake(place) => {
                if self.hosts.get_mut(&place).is_some_and(|host| host.is_due(self.now)) {
                    self.run_host(place);
                }
            }
            ScenarioEvent::Offer(place) => {
                if let Some(host) = self.hosts.get_mut(&place) {
                    host.offer(self.now);
                    self.run_host(place);
                }
            }
            ScenarioEvent::WindowBegins => self.begin_slice(),
            ScenarioEvent::AllSend => self.all_send(),
            ScenarioEvent::SliceEnds => self.end_slice(),
            ScenarioEvent::Strike(number) => self.strike(number),
            ScenarioEvent::Back(node) => self.set_node(node, true),
        }
    }

    fn notify_host(&mut self, place: u32, event: AgentEvent) {
        if let Some(host) = self.hosts.get_mut(&place) {
            host.notify(event);
            self.run_host(place);
        }
    }

    /// Gives a host its turn, and plans all that follows from it.
    pub(super) fn run_host(&mut self, place: u32) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&place) else { return };
        host.run(&mut self.wire, now);
        let (later, said) = (host.adapter().take_later(), host.take_said());
        let (outcomes, wake) = (host.take_outcomes(), host.new_wake());
        for (connection, outcome) in outcomes {
            self.traffic.note(connection, outcome);
        }
        for (at, event) in later {
            self.plan(at, ScenarioEvent::Port(place, event));
        }
        for message in said {
            // What a mesh says is within its own limits.
            let Ok(bytes) = encode(&message) else { continue };
            if let Some(after) = self.channel.carry() {
                self.plan(now + after, ScenarioEvent::ToController(place, bytes));
            }
        }
        if let Some(at) = wake {
            self.plan(at, ScenarioEvent::Wake(place));
        }
    }

    pub(super) fn after_controller(&mut self) {
        while let Some(output) = self.controller.poll_output() {
            match output {
                Output::Send { to, message } => {
                    let (Some(&place), Ok(bytes)) = (self.place.get(&to), encode(&message)) else {
                        continue;
                    };
                    if let Some(after) = self.channel.carry() {
                        self.plan(self.now + after, ScenarioEvent::ToAgent(place, bytes));
                    }
                }
                Output::Clear(clear) => {
                    let after = self.channel.delay();
                    self.plan(self.now + after, ScenarioEvent::Clear(clear.version));
                }
                // No link is tested.
                Output::LinkTested(..) => {}
                Output::Window(report) => {
                    self.reports.insert(report.epoch, report);
                }
                Output::Note(note) => {
                    let failed = matches!(note, Note::Certificate(_));
                    self.totals.certificates_failed += u64::from(failed);
                    self.notes.push(note.to_string());
                }
            }
        }
    }

    /// What the manager did: views for the controller, tables and addresses for the data plane.
    pub(super) fn after_subnet(&mut self) {
        for view in self.subnet.take_views() {
            let after = self.channel.delay();
            self.plan(self.now + after, ScenarioEvent::View(view));
        }
        let written = self.subnet.take_written();
        if written.is_empty() {
            return;
        }
        self.settle_disabled();
        for switch in written.into_iter().filter(|&node| self.topology.is_switch(node)) {
            let table = self.subnet.table(switch);
            self.totals.diverted += self.diverted(switch, &table);
            self.wire.set_table(switch, &table);
            Arc::make_mut(&mut self.tables)[switch.index()] = table;
        }
        if self.levels.are_programmed() {
            self.wire.set_lanes(self.subnet.lanes());
        }
        if let Some(addresses) = self.subnet.addresses().filter(|held| *held != self.addresses) {
            self.wire.set_addresses(&addresses);
            self.addresses = addresses;
        }
    }
}
