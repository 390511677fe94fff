//! Service levels and lanes: which VL a packet takes out of each port, and whose turn it is there, as a manager
//! programmed it (IBA 7.6.6, 7.6.9).

use snin_fabric::PortIndex;

use super::agenda::Agenda;
use super::arbiter::{Arbiter, Tables, VlArbitration};
use super::network::Network;
use super::port::{NO_PORT, Port};

/// The VL of each service level; 15, or a VL that there is not: discarded.
pub type SlToVl = [u8; 16];

/// The tables of a port, for what leaves by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortLanes {
    /// By the number of the port that a packet came in by; port 0 at an end port.
    pub mapping: Vec<SlToVl>,
    /// Which VL sends next.
    pub arbitration: VlArbitration,
}

/// The tables of all ports.
#[derive(Debug)]
pub(super) struct Lanes {
    vls: u8,
    /// What all ports have, as long as no packet takes another lane on its way.
    same: SlToVl,
    /// Otherwise, by port; an end port has no other input than 0.
    each: Option<Vec<Vec<SlToVl>>>,
    /// By port, or one for all.
    arbitration: Vec<Tables>,
}

impl Lanes {
    /// Service level n is VL n, everywhere.
    pub(super) fn new(vls: u8, arbitration: &VlArbitration) -> Self {
        let same = std::array::from_fn(|sl| sl as u8);
        Self { vls, same, each: None, arbitration: vec![Tables::new(arbitration.clone())] }
    }

    /// Whether a packet keeps its lane on its whole way.
    pub(super) const fn are_same(&self) -> bool {
        self.each.is_none()
    }

    /// The VL that a packet takes out of a port, if it takes any.
    pub(super) fn vl(&self, output: u32, input: u8, sl: u8) -> Option<u8> {
        let mapping = match &self.each {
            None => &self.same,
            Some(each) => each[output as usize].get(usize::from(input))?,
        };
        mapping.get(usize::from(sl)).copied().filter(|&vl| vl < self.vls)
    }

    /// Whose turn it is at a port.
    pub(super) fn tables(&self, port: u32) -> &Tables {
        self.arbitration.get(port as usize).unwrap_or(&self.arbitration[0])
    }
}

impl<Q: Agenda> Network<Q> {
    /// From now on ports have these tables, one a port. What waits in a switch keeps its lane out; what an adapter
    /// has begun to send keeps its own.
    ///
    /// # Panics
    /// Where there are not as many as ports.
    pub fn set_lanes(&mut self, ports: Vec<PortLanes>) {
        assert_eq!(ports.len(), self.ports.len(), "tables of every port");
        // What has no cable is passed by nothing.
        let cabled = |port: &&Port| port.peer != NO_PORT;
        let outputs = || self.ports.iter().zip(&ports).filter(|(port, _)| cabled(port));
        let mut all = outputs().flat_map(|(port, lanes)| {
            let passes = |input: u8| match port.of_switch {
                true => input != port.number && cabled(&&self.ports[port.sibling(input) as usize]),
                false => input == 0,
            };
            let mapping = lanes.mapping.iter().take(usize::from(port.last) + 1);
            (0..).zip(mapping).filter(move |&(input, _)| passes(input)).map(|(_, &mapping)| mapping)
        });
        let same = all.next().unwrap_or(self.lanes_of.same);
        // What is on its way has lanes of the tables before.
        let are_same = self.packets.live() == 0 && all.all(|mapping| mapping == same);
        let turns = outputs().next().map(|(_, lanes)| &lanes.arbitration);
        let arbitration = match turns {
            Some(turns) if outputs().all(|(_, lanes)| lanes.arbitration == *turns) => {
                vec![Tables::new(turns.clone())]
            }
            _ => ports.iter().map(|lanes| Tables::new(lanes.arbitration.clone())).collect(),
        };
        let each = (!are_same).then(|| ports.into_iter().map(|lanes| lanes.mapping).collect());
        self.lanes_of = Lanes { vls: self.config.vls, same, each, arbitration };
        for port in 0..self.ports.len() as u32 {
            self.ports[port as usize].arbiter = Arbiter::default();
            self.has_to_decide(port);
        }
    }

    /// The VL on which a port sends what has this service level and comes from its own node; `None` where that is
    /// discarded.
    pub fn lane_of(&self, port: PortIndex, sl: u8) -> Option<u8> {
        self.lanes_of.vl(port.0, 0, sl)
    }
}
