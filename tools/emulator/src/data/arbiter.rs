//! Which VL a port sends on next (IBA 7.6.9): weighted turns within two tables, the one before the other.

/// An entry of an arbitration table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlWeight {
    /// The VL.
    pub vl: u8,
    /// How much it may send in its turn, in units of 64 bytes; 0 is no turn. A packet once begun is sent
    /// whole.
    pub weight: u8,
}

/// VLArbitrationTable of a port, and PortInfo:VLHighLimit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VlArbitration {
    /// Goes first.
    pub high: Vec<VlWeight>,
    /// Goes when `high` has nothing, or has had its limit.
    pub low: Vec<VlWeight>,
    /// How much `high` may send while `low` waits: 0 is one packet, 255 no limit, else units of 4,096
    /// bytes (IBA 7.6.9.2).
    pub limit: u8,
}

const NO_LIMIT: u8 = 255;
const LIMIT_UNIT: u32 = 4_096;
const WEIGHT_UNIT: u32 = 64;

impl VlArbitration {
    /// `first` before `second`, but never more than one packet of it while `second` waits.
    pub fn one_before(first: u8, second: u8) -> Self {
        let entry = |vl| vec![VlWeight { vl, weight: 255 }];
        Self { high: entry(first), low: entry(second), limit: 0 }
    }

    /// Whether `vl` ever gets a turn.
    pub(super) fn serves(&self, vl: u8) -> bool {
        self.high.iter().chain(&self.low).any(|entry| entry.vl == vl && entry.weight > 0)
    }
}

/// The tables, with the VLs that are in each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tables {
    tables: VlArbitration,
    high: u16,
    low: u16,
}

impl Tables {
    pub(super) fn new(tables: VlArbitration) -> Self {
        let vls = |table: &[VlWeight]| {
            let entries = table.iter().filter(|entry| entry.weight > 0);
            entries.fold(0, |vls, entry| vls | 1 << entry.vl)
        };
        Self { high: vls(&tables.high), low: vls(&tables.low), tables }
    }
}

/// Whose turn it is at a port.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Arbiter {
    high: Turn,
    low: Turn,
    /// Bytes of `high` since `low` was last served.
    high_sent: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Turn {
    entry: u8,
    /// Bytes left in this entry's turn.
    left: u32,
}

impl Arbiter {
    /// The next of the `ready` VLs.
    pub(super) fn choose(&mut self, tables: &Tables, ready: u16) -> Option<u8> {
        let (high, low) = (ready & tables.high, ready & tables.low);
        let limit = tables.tables.limit;
        let allowed = match limit {
            NO_LIMIT => true,
            0 => self.high_sent == 0,
            units => self.high_sent < u32::from(units) * LIMIT_UNIT,
        };
        if high != 0 && (allowed || low == 0) {
            return self.high.choose(&tables.tables.high, high);
        }
        self.low.choose(&tables.tables.low, low)
    }

    /// Takes `bytes` on `vl` from the turn of the table that chose it: the high one, where it is in both.
    pub(super) const fn sent(&mut self, tables: &Tables, vl: u8, bytes: u16) {
        let bytes = bytes as u32;
        if tables.high & (1 << vl) != 0 {
            self.high.left = self.high.left.saturating_sub(bytes);
            self.high_sent = self.high_sent.saturating_add(bytes);
        } else {
            self.low.left = self.low.left.saturating_sub(bytes);
            self.high_sent = 0;
        }
    }
}

impl Turn {
    /// The current entry as long as it has something to send and something left, else the next that has
    /// something to send; all of it anew when it comes round to itself.
    fn choose(&mut self, table: &[VlWeight], ready: u16) -> Option<u8> {
        let is_ready = |entry: &VlWeight| entry.weight > 0 && ready & (1 << entry.vl) != 0;
        let current = usize::from(self.entry);
        if self.left > 0 && is_ready(&table[current]) {
            return Some(table[current].vl);
        }
        let mut next = (1..=table.len()).map(|n| (current + n) % table.len());
        let entry = next.find(|&entry| is_ready(&table[entry]))?;
        *self = Self { entry: entry as u8, left: u32::from(table[entry].weight) * WEIGHT_UNIT };
        Some(table[entry].vl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a port sends whose VLs in `ready` always have packets of `bytes`.
    fn order(tables: &VlArbitration, ready: u16, bytes: u16, packets: usize) -> Vec<u8> {
        let tables = Tables::new(tables.clone());
        let mut arbiter = Arbiter::default();
        let mut next = || {
            let vl = arbiter.choose(&tables, ready).unwrap();
            arbiter.sent(&tables, vl, bytes);
            vl
        };
        (0..packets).map(|_| next()).collect()
    }

    #[test]
    fn limit_0_gives_way_after_one_packet() {
        let tables = VlArbitration::one_before(1, 0);
        assert_eq!(order(&tables, 0b11, 30, 5), [1, 0, 1, 0, 1]);
        assert_eq!(order(&tables, 0b10, 30, 3), [1, 1, 1]);
        assert_eq!(order(&tables, 0b01, 30, 2), [0, 0]);
        let mut arbiter = Arbiter::default();
        assert_eq!(arbiter.choose(&Tables::new(tables), 0), None);
    }

    #[test]
    fn other_limits_count_bytes() {
        let tables = VlArbitration { limit: 1, ..VlArbitration::one_before(1, 0) };
        assert_eq!(order(&tables, 0b11, 2_048, 6), [1, 1, 0, 1, 1, 0]);
        let tables = VlArbitration { limit: 255, ..tables };
        assert_eq!(order(&tables, 0b11, 2_048, 40), [1; 40]);
    }

    #[test]
    fn weights_share_a_table() {
        let low = [(0, 2), (1, 0), (2, 1), (0, 1)].map(|(vl, weight)| VlWeight { vl, weight });
        let tables = VlArbitration { high: Vec::new(), low: low.to_vec(), limit: 0 };
        // The first turn begins after entry 0, where nothing was left.
        assert_eq!(order(&tables, 0b101, 64, 8), [2, 0, 0, 0, 2, 0, 0, 0]);
        assert!(!tables.serves(1) && tables.serves(2));
    }
}
