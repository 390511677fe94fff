//! What a subnet manager and a controller say to each other.
//!
//! A view is said in parts: [`ViewBegin`], then [`ViewPart`]s in order. Their bytes together are two texts: the
//! fabric as ibnetdiscover prints it, and the addresses as OpenSM's guid2lid has them. No tables are sent: both
//! ends compute them, and the hash says whether they came out the same. Afterwards only what changes is said:
//! [`ViewChange`] with all unusable pairs, before tables are repaired. The controller answers
//! [`ToManager::Clear`] when nothing is sent along them any more.

use snin_fabric::Lmc;

use crate::message::{UnusablePair, ViewChange, ViewClear};

/// The most bytes of a [`ViewPart`].
pub const MAX_PART: usize = 48 << 10;
/// The most trees of a view.
pub const MAX_TREES: usize = 4096;
/// The most bytes of a view.
pub const MAX_VIEW: usize = 64 << 20;

/// Is non-interference in effect?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Policy {
    /// Tree 0, which carries everything that asks nobody, is never granted.
    Strict,
    /// All trees are granted: what asks nobody has a virtual lane of its own.
    #[default]
    Shared,
    /// Nothing is granted.
    Off,
}

impl Policy {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Shared => "shared",
            Self::Off => "off",
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Strict, Self::Shared, Self::Off].into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| format!("`{text:.40}` is no policy: strict, shared or off"))
    }
}

/// What a manager says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromManager {
    /// A view follows.
    Begin(ViewBegin),
    /// The next part of it.
    Part(ViewPart),
    /// The same fabric, but other pairs are unusable.
    Change(ViewChange),
    /// Is non-interference in effect?
    Policy(Policy),
}

/// A view follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewBegin {
    /// Greater than the last one's.
    pub version: u64,
    /// How many parts.
    pub parts: u32,
    /// Bytes of the fabric's text; the rest is the addresses'.
    pub topology: u32,
    /// The LMC of every host port.
    pub lmc: Lmc,
    /// At which offset from a port's base address each tree's address is, by tree; at most [`MAX_TREES`].
    pub places: Vec<u16>,
    /// What must not be granted.
    pub unusable: Vec<UnusablePair>,
    /// What [`tables_hash`](snin_fabric::routing::tables_hash) says of the manager's tables.
    pub tables: u64,
}

/// Some bytes of a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewPart {
    /// The view's version.
    pub version: u64,
    /// Which part, from 0.
    pub number: u32,
    /// At most [`MAX_PART`].
    pub bytes: Vec<u8>,
}

/// What a controller says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToManager {
    /// Nothing is sent any more along what was unusable.
    Clear(ViewClear),
    /// What it computed of a view: the hash of the tables, or that there are none.
    Computed(Computed),
}

/// What a controller made of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Computed {
    /// The view's version.
    pub version: u64,
    /// The hash of the tables as the controller computed them; `None`: it has none.
    pub tables: Option<u64>,
}
