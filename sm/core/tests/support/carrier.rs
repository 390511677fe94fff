//! Managers without sessions speak in-band, by the key of their site.

use ring::hmac::{self, HMAC_SHA256, Key};
use snin_fabric::Lid;
use snin_mad::PKey;
use snin_sm_core::Origin;
use snin_sm_core::carrier::{Carrier, Seal, TAG};

struct SiteKey(Key);

impl Seal for SiteKey {
    fn tag(&self, message: &[u8]) -> [u8; TAG] {
        hmac::sign(&self.0, message).as_ref().try_into().unwrap()
    }

    fn fits(&self, message: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

pub(crate) fn origin(lid: Lid) -> Origin {
    Origin { lid, qp: 1, sl: 0, p_key: PKey::DEFAULT }
}

pub(crate) fn carrier_of(site: u8, seed: u64) -> Carrier {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let seal = SiteKey(Key::new(HMAC_SHA256, &[site; 32]));
    Carrier::new(Box::new(seal), bytes, PKey::DEFAULT)
}

pub(crate) fn carrier(seed: u64) -> Carrier {
    carrier_of(0x51, seed)
}
