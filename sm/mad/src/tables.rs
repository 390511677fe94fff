//! Attributes that are blocks of tables: partitions, service levels, arbitration, forwarding.

use snin_fabric::{Lid, Lmc, PortNum};

use crate::table::table;
use crate::wire::{Hex16, Octets, PKey};

/// Entries of a block of the linear forwarding table (IBA 14.2.5.10).
pub const LINEAR_BLOCK: usize = 64;
/// Entries of a block of the random forwarding table (IBA 14.2.5.11).
pub const RANDOM_BLOCK: usize = 16;
/// Entries of a block of the multicast forwarding table (IBA 14.2.5.12).
pub const MULTICAST_BLOCK: usize = 32;
/// Entries of a block of the partition table (IBA 14.2.5.7).
pub const PARTITION_BLOCK: usize = 32;

table! {
    /// 32 entries of a port's partition table (IBA 14.2.5.7). The modifier: bits 31-16 the port of a switch,
    /// bits 15-0 the block.
    pub struct PKeyTable("P_KeyTable", 64 bytes) {
        /// The block.
        "P_Key" keys: [PKey; 32] = 0, 16;
    }
}

table! {
    /// Which VL a service level takes (IBA 14.2.5.8). The modifier of a switch: bits 15-8 the input port,
    /// bits 7-0 the output port.
    pub struct SlToVl("SLtoVLMappingTable", 64 bytes) {
        /// By service level; 15: drop.
        "SLtoVL" vls: [u8; 16] = 0, 4;
    }
}

table! {
    /// Half of a port's arbitration table (IBA 14.2.5.9). The modifier: bits 31-16 which half (1 and 2 low,
    /// 3 and 4 high priority), bits 15-0 the port of a switch.
    pub struct VlArbitration("VLArbitrationTable", 64 bytes) {
        /// By entry: whose turn it is.
        "VL" vls: [u8; 32] = 4, 4 step 16;
        /// By entry: how long, in units of 64 bytes; 0: not at all.
        "Weight" weights: [u8; 32] = 8, 8 step 16;
    }
}

table! {
    /// 64 entries of a switch's forwarding table (IBA 14.2.5.10). The modifier is the block: entry 0 is for
    /// LID 64 times block.
    pub struct LinearForwarding("LinearForwardingTable", 64 bytes) {
        /// By LID: the port to leave by; 255: drop.
        "Port" ports: [PortNum; 64] = 0, 8;
    }
}

table! {
    /// 16 entries of a random forwarding table (IBA 14.2.5.11). The modifier is the block.
    pub struct RandomForwarding("RandomForwardingTable", 64 bytes) {
        /// By entry: the address.
        "LID" lids: [Lid; 16] = 0, 16 step 32;
        /// By entry: whether it counts.
        "Valid" valid: [bool; 16] = 16, 1 step 32;
        /// By entry: how many low bits of the address may vary.
        "LMC" lmcs: [Lmc; 16] = 17, 3 step 32;
        /// By entry: the port to leave by.
        "Port" ports: [PortNum; 16] = 24, 8 step 32;
    }
}

table! {
    /// 32 entries of a switch's multicast table, 16 ports wide (IBA 14.2.5.12). The modifier: bits 31-28
    /// which 16 ports, bits 8-0 the block: entry 0 is for LID 0xC000 plus 32 times block.
    pub struct MulticastForwarding("MulticastForwardingTable", 64 bytes) {
        /// By LID: the ports to leave by, the lowest in the lowest bit.
        "PortMask" masks: [Hex16; 32] = 0, 16;
    }
}

table! {
    /// Which speeds go with which widths (IBA 14.2.5.17).
    pub struct LinkSpeedWidthPairs("LinkSpeedWidthPairsTable", 64 bytes) {
        /// How many tables the node has.
        "NumTables" num_tables: u8 = 0, 8;
        /// The ports to which this one applies.
        "PortMask" port_mask: Octets<32> = 8, 256;
        /// Widths at 2.5 Gbaud.
        "SpeedTwoFive" at_sdr: u8 = 264, 8;
        /// Widths at 5 Gbaud.
        "SpeedFive" at_ddr: u8 = 272, 8;
        /// Widths at 10 Gbaud.
        "SpeedTen" at_qdr: u8 = 280, 8;
    }
}

impl LinearForwarding {
    /// All entries drop: what a switch holds before anyone wrote.
    pub const EMPTY: Self = Self { ports: [PortNum::NONE; LINEAR_BLOCK] };
}

impl SlToVl {
    /// The modifier of a switch's table.
    pub const fn modifier(input: PortNum, output: PortNum) -> u32 {
        (input.0 as u32) << 8 | output.0 as u32
    }
}

impl PKeyTable {
    /// The modifier of a block of a switch port's table; adapters have no port there (0).
    pub const fn modifier(port: PortNum, block: u16) -> u32 {
        (port.0 as u32) << 16 | block as u32
    }
}

impl VlArbitration {
    /// The modifier of a quarter of a switch port's table: 1 and 2 are the halves of the low priority table,
    /// 3 and 4 of the high one.
    pub const fn modifier(port: PortNum, quarter: u16) -> u32 {
        (quarter as u32) << 16 | port.0 as u32
    }
}

impl MulticastForwarding {
    /// The modifier of `block` for ports 16 times `position` and up (`position` below 16, `block` below 512).
    pub const fn modifier(position: u8, block: u16) -> u32 {
        (position as u32 & 0xF) << 28 | block as u32 & 0x1FF
    }
}
