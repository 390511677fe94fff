//! Faults and repairs of the fabric.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_agent_core::PortEvent;
use snin_emulator::Fault;
use snin_fabric::{NodeIndex, PortIndex};
use snin_protocol::Time;

use super::super::carry::CableChange;
use super::super::event::{Act, REBOOT, When};
use super::{ScenarioEvent, World, WorldError};

impl World<'_> {
    pub(super) fn plan_events(&mut self) -> Result<(), WorldError> {
        for (number, event) in self.setup.events.clone().iter().enumerate() {
            event.act(self.topology).map_err(WorldError::Event)?;
            event.within(self.setup.windows, self.setup.window).map_err(WorldError::Event)?;
            let at = match event.at {
                When::Time(after) => self.start_of(0) + after,
                // While packets are on the links.
                When::Window(window) => self.start_of(window - 1) + self.setup.slice / 2,
            };
            self.plan(at, ScenarioEvent::Strike(number));
        }
        Ok(())
    }

    /// Something happens to the fabric: manager, data plane and hosts each notice in their own way.
    pub(super) fn strike(&mut self, number: usize) {
        // Looked at when the world was made.
        let Ok(act) = self.setup.events[number].act(self.topology) else { return };
        self.subnet.inject(act.clone(), self.now);
        if let Act::Fault(fault) = act {
            self.notice(&fault);
        }
        self.after_subnet();
    }

    /// What a fault does to packets.
    fn notice(&mut self, fault: &Fault) {
        match *fault {
            Fault::Cut(port) => self.set_cable(port, false),
            Fault::Restore(port) => self.set_cable(port, true),
            Fault::PowerOff(node) => self.set_node(node, false),
            Fault::PowerOn(node) => self.set_node(node, true),
            Fault::Reboot(node, _) => {
                self.set_node(node, false);
                self.plan(self.now + REBOOT, ScenarioEvent::Back(node));
            }
            // Users cannot name others.
            _ => {}
        }
    }

    /// The manager disables links, and enables them again.
    pub(super) fn settle_disabled(&mut self) {
        let disabled = self.subnet.disabled();
        let changed: Vec<PortIndex> =
            disabled.symmetric_difference(&self.cables.disabled).copied().collect();
        self.cables.disabled = disabled;
        changed.into_iter().for_each(|port| self.settle_cable(port));
    }

    pub(super) fn set_node(&mut self, node: NodeIndex, alive: bool) {
        if alive {
            self.cables.dark.remove(&node)
        } else {
            self.cables.dark.insert(node)
        };
        let cables: Vec<PortIndex> = self.topology.cables(node).map(|(near, _)| near).collect();
        cables.into_iter().for_each(|port| self.settle_cable(port));
        if self.topology.is_switch(node) {
            // Without power a switch forgets.
            let table = self.subnet.table(node);
            self.wire.set_table(node, &table);
            Arc::make_mut(&mut self.tables)[node.index()] = table;
        }
    }

    fn set_cable(&mut self, port: PortIndex, whole: bool) {
        let cable = self.cable(port);
        if whole {
            self.cables.cut.remove(&cable)
        } else {
            self.cables.cut.insert(cable)
        };
        self.settle_cable(port);
    }

    /// The end of a cable that stands for both.
    fn cable(&self, port: PortIndex) -> PortIndex {
        self.topology.peer(port).map_or(port, |peer| peer.min(port))
    }

    /// A cable carries packets as long as it is not cut, both its ends have power and neither is disabled.
    fn settle_cable(&mut self, port: PortIndex) {
        let cable = self.cable(port);
        let ends = [Some(port), self.topology.peer(port)];
        let dark = |end: PortIndex| self.cables.dark.contains(&self.topology.port(end).node);
        let disabled = |end: PortIndex| self.cables.disabled.contains(&end);
        let mut ends_that_are = ends.into_iter().flatten();
        let whole = !self.cables.cut.contains(&cable)
            && !ends_that_are.any(|end| dark(end) || disabled(end));
        let changed =
            if whole { self.cables.down.remove(&cable) } else { self.cables.down.insert(cable) };
        if !changed {
            return;
        }
        self.wire.set_cable(port, whole);
        let after = self.now.max(self.cables.since) - self.cables.since;
        self.cables.changes.push(CableChange { after: after.max(Time(1)), port: cable, whole });
        let event = if whole { PortEvent::Up } else { PortEvent::Down };
        let place = |end: PortIndex| self.place.get(&self.topology.port(end).guid).copied();
        let places: Vec<u32> = ends.into_iter().flatten().filter_map(place).collect();
        for place in places {
            self.plan(self.now, ScenarioEvent::Port(place, event));
        }
    }

    /// Cables over which nothing can pass now, each by one end.
    pub fn down(&self) -> Vec<PortIndex> {
        self.cables.down.iter().copied().collect()
    }

    /// What became of cables in the window that has begun, those first that were down when it began.
    pub fn cable_changes(&self) -> &[CableChange] {
        &self.cables.changes
    }
}

/// What carries no packets, and why.
#[derive(Debug, Default)]
pub(super) struct Cables {
    /// Cut, each by one end.
    cut: BTreeSet<PortIndex>,
    /// Nodes without power.
    dark: BTreeSet<NodeIndex>,
    /// Ports that the manager has disabled.
    disabled: BTreeSet<PortIndex>,
    /// What follows from all of them.
    down: BTreeSet<PortIndex>,
    /// When the window began, and what has changed since then.
    since: Time,
    changes: Vec<CableChange>,
}

impl Cables {
    /// A window begins.
    pub(super) fn begin_window(&mut self, now: Time) {
        let down = |&port: &PortIndex| CableChange { after: Time::ZERO, port, whole: false };
        self.since = now;
        self.changes = self.down.iter().map(down).collect();
    }
}
