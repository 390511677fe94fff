//! The seen fabric, as far as configuration compares it with the expected one: the sweep shows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Guid, LinkRate, PortNum};

use crate::records::Place;

/// A fabric as the last discovery saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The node at which the manager sits.
    pub manager: Guid,
    /// Every switch that can be reached.
    pub switches: BTreeMap<Guid, SeenSwitch>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSwitch {
    /// Its description.
    pub name: String,
    /// How many cables away it is from the manager.
    pub hops: usize,
    /// Its external ports, from port 1 on.
    pub ports: Vec<SeenPort>,
}

/// A switch's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenPort {
    /// Its link.
    pub link: LinkState,
    /// Whether packets other than the manager's pass.
    pub active: bool,
    /// What the link carries, where it is up.
    pub rate: Option<LinkRate>,
    /// The port at the other end, where it answers.
    pub neighbour: Option<Neighbour>,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// PortPhysicalState is Disabled: it comes up when it is told to.
    Disabled,
    /// It is down, and comes up by itself when a port is at the other end.
    #[default]
    Down,
    /// It is up.
    Up,
}

/// The port at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The node's GUID.
    pub node_guid: Guid,
    /// The port's GUID; a switch's is that of its port 0.
    pub port_guid: Guid,
    /// SystemImageGUID.
    pub system_guid: Guid,
    /// The node's description.
    pub name: String,
    /// The node's vendor.
    pub vendor: u32,
    /// The kind of device.
    pub device: u32,
    /// The number of the port.
    pub port: PortNum,
    /// Whether it is a switch.
    pub is_switch: bool,
}

impl Neighbour {
    /// `host3/1`.
    pub fn port_name(&self) -> String {
        match self.name.is_empty() {
            true => format!("{}/{}", self.node_guid, self.port),
            false => format!("{}/{}", self.name, self.port),
        }
    }
}

impl SeenSwitch {
    /// Its ports and their numbers.
    pub fn ports(&self) -> impl Iterator<Item = (PortNum, &SeenPort)> {
        (1..=u8::MAX).map(PortNum).zip(&self.ports)
    }

    /// A port.
    pub fn port(&self, port: PortNum) -> Option<&SeenPort> {
        self.ports.get(usize::from(port.0).checked_sub(1)?)
    }
}

impl Seen {
    /// A port.
    pub fn port(&self, (switch, port): Place) -> Option<&SeenPort> {
        self.switches.get(&switch)?.port(port)
    }

    /// The port at the other end of its link, as it was last seen.
    pub fn behind(&self, place: Place) -> Option<Place> {
        let neighbour = self.port(place)?.neighbour.as_ref()?;
        Some((neighbour.node_guid, neighbour.port))
    }

    /// `leaf3/20`.
    pub fn port_name(&self, (switch, port): Place) -> String {
        match self.switches.get(&switch).filter(|switch| !switch.name.is_empty()) {
            Some(named) => format!("{}/{port}", named.name),
            None => format!("{switch}/{port}"),
        }
    }

    /// Whether the manager sits behind the port.
    pub fn is_own(&self, place: Place) -> bool {
        let neighbour = self.port(place).and_then(|port| port.neighbour.as_ref());
        !self.switches.contains_key(&self.manager)
            && neighbour.is_some_and(|neighbour| neighbour.node_guid == self.manager)
    }

    /// The ports behind which the manager sits.
    pub fn own_ports(&self) -> BTreeSet<Place> {
        let all = self
            .switches
            .iter()
            .flat_map(|(&guid, switch)| switch.ports().map(move |(num, _)| (guid, num)));
        all.filter(|&place| self.is_own(place)).collect()
    }

    /// The switches that the manager reaches when the links of these ports are down.
    pub fn reached(&self, without: &BTreeSet<Place>) -> BTreeSet<Guid> {
        let is_cut = |place: Place, neighbour: &Neighbour| {
            without.contains(&place) || without.contains(&(neighbour.node_guid, neighbour.port))
        };
        let mut queue: VecDeque<Guid> = VecDeque::new();
        let mut reached = BTreeSet::new();
        if self.switches.contains_key(&self.manager) {
            queue.push_back(self.manager);
        } else {
            let all = self.switches.iter().flat_map(|(&guid, switch)| {
                switch.ports().map(move |(num, port)| ((guid, num), port))
            });
            queue.extend(all.filter_map(|(place, port)| {
                let neighbour = port.neighbour.as_ref()?;
                let home = neighbour.node_guid == self.manager && !is_cut(place, neighbour);
                home.then_some(place.0)
            }));
        }
        while let Some(guid) = queue.pop_front() {
            let Some(switch) = self.switches.get(&guid).filter(|_| reached.insert(guid)) else {
                continue;
            };
            for (num, port) in switch.ports() {
                if let Some(neighbour) = &port.neighbour
                    && self.switches.contains_key(&neighbour.node_guid)
                    && !is_cut((guid, num), neighbour)
                {
                    queue.push_back(neighbour.node_guid);
                }
            }
        }
        reached
    }
}
