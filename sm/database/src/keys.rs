//! Where M_Keys come from, and what generated ones follow from.

use std::fmt;

use serde::{Deserialize, Serialize};
use snin_mad::MKey;

/// Where M_Keys come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum KeyPolicy {
    /// From the operator: one for all ports, or none.
    #[default]
    Given,
    /// Generated, one for all ports.
    One,
    /// Generated, one for each port. Only with protection levels 0 and 1: at higher levels the manager could not
    /// ask a port who it is, to know its key.
    PerPort,
}

/// What generated keys follow from. Secret; has to survive a restart.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySecret {
    /// Random bytes, which must be kept secret.
    pub secret: [u8; 32],
    /// How often the keys were changed.
    pub generation: u32,
}

/// The generation of what is no secret but a key that an operator gave.
pub const GIVEN: u32 = u32::MAX;

impl KeySecret {
    /// An operator's key, from which nothing follows but itself.
    pub fn given(key: MKey) -> Self {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&key.0.to_be_bytes());
        Self { secret, generation: GIVEN }
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySecret").field("generation", &self.generation).finish_non_exhaustive()
    }
}
