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
    /// The controller is told before ports are closed or tables written, and the mechanism waits until it has
    /// stopped the flows that have no way.
    Told,
    /// SMPs to ends that old tables still lead to, and back, are routed by LID alone.
    Lid,
    /// SMPs are routed by LID to the last switch on their way that old tables still lead to, and back; then
    /// directed.
    Mixed,
}

impl Factor {
    /// All, in the order in which they are added to each other.
    pub const ALL: [Self; 9] = [
        Self::Traps,
        Self::Region,
        Self::Entries,
        Self::Blocks,
        Self::Overlap,
        Self::Open,
        Self::Told,
        Self::Lid,
        Self::Mixed,
    ];

    /// Those that change nothing unless agents pass directed SMPs on in software.
    pub const ROUTED: [Self; 2] = [Self::Lid, Self::Mixed];

    /// As tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traps => "traps",
            Self::Region => "region-only discovery",
            Self::Entries => "changed routes computed",
            Self::Blocks => "changed blocks written",
            Self::Overlap => "tasks overlapped",
            Self::Open => "no port closed",
            Self::Told => "controller told first",
            Self::Lid => "LID-routed SMPs",
            Self::Mixed => "mixed SMPs",
        }
    }
}

/// Some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Factors(u16);

/// The baseline with some of them.
#[derive(Clone, Debug)]
pub struct Step {
    /// As tables call it.
    pub name: String,
    /// See above.
    pub factors: Factors,
    /// Whether agents pass directed SMPs on in software.
    pub relayed: bool,
}

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

    /// Nothing; each by itself; the first two, three and so on. Then, with directed SMPs passed on in software:
    /// nothing, those that this is for, and all.
    pub fn ladder() -> Vec<Step> {
        let step = |name: &str, factors, relayed| Step { name: name.to_owned(), factors, relayed };
        let mut steps = vec![step("baseline", Self::NONE, false)];
        let each = Factor::ALL.into_iter().filter(|factor| !Factor::ROUTED.contains(factor));
        for factor in each.clone() {
            steps.push(step(factor.name(), Self::NONE.with(factor), false));
        }
        let mut sum = Self::NONE;
        for (factor, place) in each.zip(0..) {
            sum = sum.with(factor);
            if place > 0 {
                steps.push(step(&format!("\u{2026} + {}", factor.name()), sum, false));
            }
        }
        let [by_lid, mixed] = Factor::ROUTED.map(|factor| Self::NONE.with(factor));
        steps.push(step("baseline, passed on in software", Self::NONE, true));
        steps.push(step(Factor::Lid.name(), by_lid, true));
        steps.push(step(Factor::Mixed.name(), mixed, true));
        steps.push(step("LID-routed and mixed SMPs", by_lid.with(Factor::Mixed), true));
        let all = Factor::ROUTED.into_iter().fold(sum, Self::with);
        steps.push(step("everything", all, true));
        steps
    }
}
