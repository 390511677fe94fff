//! Names of groups that have their partition's key in them: those of IP (RFC 4391).

use snin_mad::{Gid, PKey};

/// The scope of groups that say none: the subnet.
pub const LOCAL: u8 = 2;
/// Signatures in an MGID: versions 4 and 6.
const IP: [u16; 2] = [0x401B, 0x601B];

/// The key in a group's name, if it is one of IP.
pub fn key_in_name(mgid: Gid) -> Option<PKey> {
    let word = |at: usize| u16::from_be_bytes([mgid.0[at], mgid.0[at + 1]]);
    (mgid.0[0] == 0xFF && IP.contains(&word(2))).then(|| PKey(word(4)))
}

/// The name of a group of IP with another key in it.
pub fn renamed(mut mgid: Gid, key: PKey) -> Gid {
    mgid.0[4..6].copy_from_slice(&key.0.to_be_bytes());
    mgid
}

/// The broadcast group of IP in a partition.
pub fn broadcast(key: PKey) -> Gid {
    let name = [0xFF, 0x10 | LOCAL, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    renamed(Gid(name), PKey(key.0 | 0x8000))
}
