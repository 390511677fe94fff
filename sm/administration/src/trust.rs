//! Requesters, and what they may see (IBA 15.4.1.2, 10.9).

use snin_fabric::Guid;
use snin_mad::{PKey, SmKey};

use crate::metrics::Unanswered;
use crate::world::World;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::{Place, Port};

/// The port that asks.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    /// The port's node and number.
    pub(super) place: Place,
    /// Its GUID.
    pub(super) guid: Guid,
    /// Whether it showed the key.
    pub(super) trusted: bool,
    pub(super) origin: Origin,
    keys: Vec<PKey>,
}

impl Requester {
    /// The port that has the address of the request. A wrong key is as good as none at all: it is not
    /// even refused.
    pub(super) fn of(from: &Origin, key: SmKey, world: &World<'_>) -> Result<Self, Unanswered> {
        let trusted = match key {
            SmKey(0) => false,
            key if key == world.config.sa_key() => true,
            _ => return Err(Unanswered::WrongKey),
        };
        let found = world.database.by_lid(from.lid);
        let (place, port) = found.ok_or(Unanswered::UnknownRequester)?;
        let guid = port.guid.ok_or(Unanswered::UnknownRequester)?;
        let keys: Vec<PKey> = port.partitions().collect();
        // The port's own hardware would not let it speak in another's partition.
        if !keys.is_empty() && !keys.iter().any(|key| key.base() == from.p_key.base()) {
            return Err(Unanswered::ForeignPartition);
        }
        Ok(Self { place, guid, trusted, origin: *from, keys })
    }

    /// Whether it may know of a port: the two are in one partition, and not both as limited members.
    pub(super) fn sees(&self, port: &Port) -> bool {
        let other: Vec<PKey> = port.partitions().collect();
        shares(&self.keys, &other)
    }

    /// The same by a partition alone, as of a group.
    pub(super) fn is_in(&self, key: PKey) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|own| own.base() == key.base())
    }
}

/// Whether two tables let their ports talk. A table of which nothing is known keeps no port out.
pub(super) fn shares(a: &[PKey], b: &[PKey]) -> bool {
    a.is_empty() || b.is_empty() || a.iter().any(|&key| meets(key, b))
}

/// Whether the holder of `key` may talk with a holder of one of `others`.
fn meets(key: PKey, others: &[PKey]) -> bool {
    let joins = |other: &PKey| other.base() == key.base() && (other.is_full() || key.is_full());
    others.iter().any(joins)
}

/// Whether two ports may talk, and in which of the partitions that are allowed: the first's key, in the order of
/// its table; the default one where nothing is known.
pub(super) fn common(
    a: &Port,
    b: &Port,
    wanted: Option<PKey>,
    allowed: impl Fn(PKey) -> bool,
) -> Option<PKey> {
    let (own, other): (Vec<_>, Vec<_>) = (a.partitions().collect(), b.partitions().collect());
    if own.is_empty() || other.is_empty() {
        return Some(wanted.unwrap_or(PKey::DEFAULT)).filter(|&key| allowed(key));
    }
    let fits = |key: &&PKey| {
        let is_wanted = wanted.is_none_or(|wanted| wanted.base() == key.base());
        is_wanted && allowed(**key) && meets(**key, &other)
    };
    own.iter().find(fits).copied()
}
