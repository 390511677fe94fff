//! What the baseline can be given of ours, one by one and together.

use serde::Serialize;

/// One thing that ours does and the baseline does not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// Traps 128 are heeded and answered by TrapRepress; the sweep stays, for those that are lost.
    Traps,
    /// Only switches that report a change, and the other ends of what they lost or gained, are asked.
    Region,
    /// Only destinations whose routes change are computed.
    Entries,
    /// Only blocks that differ from what was written are written.
    Blocks,
    /// Ports are set to INITIALIZE while tables are computed, and a switch's ports to ACTIVE as soon as its own
    /// table is there.
    Overlap,
    /// No port is set to INITIALIZE: tables are replaced under traffic, in the order of discovery.
    Open,
}

impl Factor {
    /// All, in the order in which they are added to each other.
    pub const ALL: [Self; 6] =
        [Self::Traps, Self::Region, Self::Entries, Self::Blocks, Self::Overlap, Self::Open];

    /// As tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traps => "traps",
            Self::Region => "region-only discovery",
            Self::Entries => "changed routes computed",
            Self::Blocks => "changed blocks written",
            Self::Overlap => "tasks overlapped",
            Self::Open => "no port closed",
        }
    }
}

/// Some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Factors(u8);

impl Factors {
    /// The baseline as it was published.
    pub const NONE: Self = Self(0);

    /// These and one more.
    #[must_use]
    pub const fn with(self, factor: Factor) -> Self {
        Self(self.0 | 1 << factor as u8)
    }

    /// Whether it is one of them.
    pub const fn has(self, factor: Factor) -> bool {
        self.0 & 1 << factor as u8 != 0
    }

    /// Nothing; each by itself; then the first two, three and so on: names and sets.
    pub fn ladder() -> Vec<(String, Self)> {
        let mut rungs = vec![("baseline".to_owned(), Self::NONE)];
        for factor in Factor::ALL {
            rungs.push((factor.name().to_owned(), Self::NONE.with(factor)));
        }
        let mut sum = Self::NONE.with(Factor::ALL[0]);
        for factor in &Factor::ALL[1..] {
            sum = sum.with(*factor);
            rungs.push((format!("\u{2026} + {}", factor.name()), sum));
        }
        rungs
    }
}
