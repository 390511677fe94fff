//! Which partition table a port is to hold: what settings say, in the numbers of now, or what it came with from
//! another subnet.

use snin_fabric::Guid;
use snin_mad::PKey;

use crate::config::Config;
use crate::merge::Lineage;

/// Everything that has a say in it.
#[derive(Clone, Copy)]
pub(crate) struct Partitions<'a> {
    pub(crate) config: &'a Config,
    pub(crate) lineage: &'a Lineage,
    /// The manager's own port.
    pub(crate) manager: Guid,
}

impl Partitions<'_> {
    /// What settings say.
    pub(crate) fn configured(&self) -> Vec<PKey> {
        let keys: Vec<PKey> = self.config.partitions.iter().copied().map(PKey).collect();
        self.lineage.translate(self.manager, &keys)
    }

    /// The first block of a port's table.
    pub(crate) fn block(&self, port: Guid) -> [PKey; 32] {
        let came_with = self.lineage.table(self.manager, port).map(<[PKey]>::to_vec);
        let keys = came_with.unwrap_or_else(|| self.configured());
        std::array::from_fn(|place| keys.get(place).copied().unwrap_or(PKey(0)))
    }
}
