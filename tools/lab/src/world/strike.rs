//! What happens to the fabric.

use std::sync::Arc;

use snin_agent_core::PortEvent;
use snin_emulator::Fault;
use snin_fabric::{NodeIndex, PortIndex};

use super::super::event::{REBOOT, When};
use super::{Happening, World, WorldError};

impl World<'_> {
    pub(super) fn plan_events(&mut self) -> Result<(), WorldError> {
        for (number, event) in self.setup.events.clone().iter().enumerate() {
            event.fault(self.topology).map_err(WorldError::Event)?;
            let at = match event.at {
                When::Time(after) => self.start_of(0) + after,
                // While packets are on the links.
                When::Window(window) => self.start_of(window - 1) + self.setup.slice / 2,
            };
            self.plan(at, Happening::Strike(number));
        }
        Ok(())
    }

    /// Something happens to the fabric: manager, data plane and hosts each notice in their own way.
    pub(super) fn strike(&mut self, number: usize) {
        // Looked at when the world was made.
        let Ok(fault) = self.setup.events[number].fault(self.topology) else { return };
        self.subnet.inject(fault.clone(), self.now);
        match fault {
            Fault::Cut(port) => self.set_cable(port, false),
            Fault::Restore(port) => self.set_cable(port, true),
            Fault::PowerOff(node) => self.set_node(node, false),
            Fault::PowerOn(node) => self.set_node(node, true),
            Fault::Reboot(node, _) => {
                self.set_node(node, false);
                self.plan(self.now + REBOOT, Happening::Back(node));
            }
            // Users cannot name others.
            _ => {}
        }
        self.after_subnet();
    }

    pub(super) fn set_node(&mut self, node: NodeIndex, alive: bool) {
        let cables: Vec<PortIndex> = self.topology.cables(node).map(|(near, _)| near).collect();
        cables.into_iter().for_each(|port| self.set_cable(port, alive));
        if self.topology.is_switch(node) {
            // Without power a switch forgets.
            let table = self.subnet.table(node);
            self.wire.set_table(node, &table);
            Arc::make_mut(&mut self.tables)[node.index()] = table;
        }
    }

    fn set_cable(&mut self, port: PortIndex, whole: bool) {
        self.wire.set_cable(port, whole);
        let event = if whole { PortEvent::Up } else { PortEvent::Down };
        let ends = [Some(port), self.topology.peer(port)].into_iter().flatten();
        let place = |end: PortIndex| self.place.get(&self.topology.port(end).guid).copied();
        let places: Vec<u32> = ends.filter_map(place).collect();
        for place in places {
            self.plan(self.now, Happening::Port(place, event));
        }
    }
}
