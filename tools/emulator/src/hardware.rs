//! The parts of a node: its own registers, its switch's tables, its ports.

use snin_fabric::{Guid, Lid, NodeKind, PortNum};
use snin_mad::Hex8;
use snin_mad::hop::Here;
use snin_mad::port::{Capabilities, Capabilities2, LinkDownState};
use snin_mad::{
    GidPrefix, Mtu, NodeString, PhysicalState, PortInfo, PortState, SwitchInfo, Table, View,
    VlCount,
};
use snin_protocol::Time;

use crate::config::{AdapterModel, Noise, SwitchModel};
use crate::counters::Counters;
use crate::notice_queue::Notices;
use crate::port_tables::PortTables;

/// No port at the other end.
pub(crate) const NO_PORT: u32 = u32::MAX;

/// How fast a node's agents are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Health {
    /// As configured.
    #[default]
    Well,
    /// Each MAD takes this long.
    Slow(Time),
    /// MADs come in and nothing comes back. What only passes the node still passes, where hardware passes it on.
    Dead,
}

pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) guid: Guid,
    pub(crate) system_image: Guid,
    pub(crate) vendor: u32,
    pub(crate) device: u32,
    pub(crate) ports: u8,
    /// Index of port 0.
    pub(crate) first_port: u32,
    pub(crate) description: NodeString,
    pub(crate) partition_cap: u16,
    pub(crate) led: bool,
    pub(crate) powered: bool,
    /// Rises with every loss of power: what was planned for an earlier life does not happen.
    pub(crate) life: u32,
    pub(crate) health: Health,
    /// Whether it answers what only its software knows.
    pub(crate) application: bool,
    pub(crate) busy_until: Time,
    pub(crate) waiting: u32,
    pub(crate) switch: Option<Box<Switch>>,
}

pub(crate) struct Switch {
    pub(crate) model: SwitchModel,
    pub(crate) info: SwitchInfo,
    /// By LID, as far as anybody wrote.
    pub(crate) linear: Vec<u8>,
    /// By multicast LID from 0xC000 and 16 ports, as far as anybody wrote.
    pub(crate) multicast: Vec<[u16; 16]>,
}

pub(crate) struct Port {
    pub(crate) node: u32,
    pub(crate) num: u8,
    pub(crate) guid: Guid,
    /// The port at the other end of the cable, or [`NO_PORT`].
    pub(crate) cable: u32,
    pub(crate) cut: bool,
    /// What it was told to rest in, by the link that it then takes down.
    pub(crate) rest: Option<PhysicalState>,
    /// PortInfo as it goes over the wire: the one copy of everything that is in it.
    pub(crate) info: [u8; 64],
    /// Rises whenever the link goes down: a training begun earlier comes to nothing.
    pub(crate) attempt: u32,
    /// Until when the port is busy with sending.
    pub(crate) free_at: Time,
    pub(crate) counters: Counters,
    /// What the counters were when they were last set, by attribute: PortCounters, PortCountersExtended.
    pub(crate) counted_from: Option<Box<[Counters; 2]>>,
    pub(crate) tables: Option<Box<PortTables>>,
    pub(crate) notices: Option<Box<Notices>>,
    /// When the M_Key is given up, unless a manager shows the right one first (IBA 14.2.4.2).
    pub(crate) lease_ends: Option<Time>,
    pub(crate) noise: Noise,
    /// Of a million MADs that it receives, those with a symbol error that does no harm.
    pub(crate) symbol_errors: u32,
    /// It takes no writes; a switch's port 0: none to its tables.
    pub(crate) refuses: bool,
    pub(crate) client: Option<u32>,
    pub(crate) reregistrations: u64,
}

impl Node {
    pub(crate) const fn is_switch(&self) -> bool {
        self.switch.is_some()
    }

    pub(crate) const fn here(&self) -> Here {
        Here { is_switch: self.is_switch(), ports: self.ports }
    }

    /// Index of a port that the node has.
    pub(crate) const fn port(&self, num: u8) -> Option<u32> {
        if num <= self.ports { Some(self.first_port + num as u32) } else { None }
    }
}

impl Switch {
    pub(crate) fn new(model: SwitchModel, enhanced: bool) -> Self {
        let info = SwitchInfo {
            linear_fdb_cap: model.linear_fdb_cap.min(0xC000),
            multicast_fdb_cap: model.multicast_fdb_cap.min(0x3FFF),
            life_time: 18,
            partition_enforcement_cap: model.partition_enforcement_cap,
            inbound_enforcement_cap: model.partition_enforcement_cap > 0,
            outbound_enforcement_cap: model.partition_enforcement_cap > 0,
            enhanced_port_zero: model.enhanced_port0.unwrap_or(enhanced),
            ..SwitchInfo::default()
        };
        Self { model, info, linear: Vec::new(), multicast: Vec::new() }
    }

    /// Where packets to `lid` go; `None`: nowhere (IBA 18.2.4.3.3).
    pub(crate) fn forward(&self, lid: Lid) -> Option<u8> {
        if lid > self.info.linear_fdb_top {
            return None;
        }
        self.linear.get(lid.index()).copied().filter(|&port| port != PortNum::NONE.0)
    }
}

impl Port {
    pub(crate) const fn view(&self) -> View<'_, PortInfo> {
        PortInfo::view(&self.info)
    }

    pub(crate) fn state(&self) -> PortState {
        self.view().state()
    }

    pub(crate) fn set_state(&mut self, state: PortState) {
        PortInfo::edit(&mut self.info).state(state);
    }

    pub(crate) fn physical(&self) -> PhysicalState {
        self.view().physical_state()
    }

    pub(crate) fn set_physical(&mut self, state: PhysicalState) {
        PortInfo::edit(&mut self.info).physical_state(state);
    }

    pub(crate) fn lid(&self) -> Lid {
        self.view().lid()
    }

    /// Whether `lid` is one of the port's 2^LMC addresses (IBA 4.1.3).
    pub(crate) fn answers_to(&self, lid: Lid) -> bool {
        let (base, lmc) = (self.lid(), self.view().lmc().bits());
        base != Lid::NONE && base.0 >> lmc == lid.0 >> lmc
    }

    pub(crate) fn has(&self, capability: Capabilities) -> bool {
        self.view().capabilities().has(capability)
    }
}

/// The part of a port's registers that follows from what it is, as it is after power on.
pub(crate) struct Blank {
    pub(crate) vl_cap: VlCount,
    pub(crate) mtu_cap: Mtu,
    pub(crate) vl_arbitration_cap: u8,
    pub(crate) guid_cap: u8,
    pub(crate) capabilities: Capabilities,
}

const ANYONE: Capabilities = Capabilities::TRAP
    .with(Capabilities::NOTICE)
    .with(Capabilities::SL_MAPPING)
    .with(Capabilities::LED_INFO)
    .with(Capabilities::SYSTEM_IMAGE_GUID)
    .with(Capabilities::EXTENDED_SPEEDS)
    .with(Capabilities::CAPABILITY_MASK2)
    .with(Capabilities::CAPABILITY_MASK_NOTICE)
    .with(Capabilities::OTHER_LOCAL_CHANGES_NOTICE)
    .with(Capabilities::CLIENT_REREGISTRATION);

impl Blank {
    pub(crate) const fn of_switch(model: &SwitchModel, num: u8) -> Self {
        let multicast = if model.multicast_fdb_cap > 0 {
            Capabilities::MULTICAST_FDB_TOP
        } else {
            Capabilities(0)
        };
        Self {
            vl_cap: model.vl_cap,
            mtu_cap: model.mtu_cap,
            vl_arbitration_cap: model.vl_arbitration_cap,
            guid_cap: if num == 0 { 1 } else { 0 },
            // Only port 0 speaks for the switch (IBA 14.2.5.6).
            capabilities: if num == 0 { ANYONE.with(multicast) } else { Capabilities(0) },
        }
    }

    pub(crate) const fn of_adapter(model: &AdapterModel) -> Self {
        Self {
            vl_cap: model.vl_cap,
            mtu_cap: model.mtu_cap,
            vl_arbitration_cap: model.vl_arbitration_cap,
            guid_cap: model.guid_cap,
            capabilities: ANYONE.with(Capabilities::COMMUNICATION_MANAGEMENT),
        }
    }

    pub(crate) fn port_info(&self, num: u8) -> PortInfo {
        PortInfo {
            gid_prefix: GidPrefix(0xfe80_0000_0000_0000),
            capabilities: self.capabilities,
            local_port: PortNum(num),
            state: PortState::Down,
            physical_state: PhysicalState::Polling,
            link_down_default_state: LinkDownState::Polling,
            neighbor_mtu: Mtu::B2048,
            vl_cap: self.vl_cap,
            vl_arbitration_high_cap: self.vl_arbitration_cap.min(64),
            vl_arbitration_low_cap: self.vl_arbitration_cap.min(64),
            init_type_reply: Hex8(0),
            mtu_cap: self.mtu_cap,
            operational_vls: VlCount::Vl0,
            guid_cap: self.guid_cap,
            // 4.096 us times 2 to the 18: a second.
            response_time: 18,
            local_phy_errors: 8,
            overrun_errors: 8,
            capabilities2: Capabilities2(0),
            ..PortInfo::default()
        }
    }
}

pub(crate) fn image(info: &PortInfo) -> [u8; 64] {
    let mut bytes = [0; 64];
    info.emit(&mut bytes);
    bytes
}
