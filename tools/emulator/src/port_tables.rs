//! What was written to a port's tables.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_mad::PKey;

/// What was written to a port's tables; most ports hold what they had when they were made.
#[derive(Default)]
pub(crate) struct PortTables {
    pub(crate) guids: BTreeMap<u8, Guid>,
    pub(crate) p_keys: BTreeMap<u16, PKey>,
    /// By input port.
    pub(crate) sl_to_vl: BTreeMap<u8, [u8; 64]>,
    /// By quarter, from 1.
    pub(crate) vl_arbitration: BTreeMap<u16, [u8; 64]>,
}
