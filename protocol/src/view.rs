//! Messages between a subnet manager and a controller.
//!
//! A view is said in parts: [`ViewBegin`], then [`ViewPart`]s in order. Their bytes together are two texts: the
//! fabric as ibnetdiscover prints it, and the addresses as OpenSM's guid2lid has them. Tables that follow from
//! these are not sent: both ends compute them, and the hash says whether they came out the same. Other tables -
//! routes in lanes, the administrator's own, those that another manager keeps - are a third text. Afterwards
//! only what changes is said: [`ViewChange`] with all unusable pairs, before tables are repaired. The
//! controller answers [`ToManager::Clear`] when nothing is sent along them any more.

mod received;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::dump::{guid2lid, lfts};
use snin_fabric::routing::{Engine, Placement, RoutingError, tables_hash};
use snin_fabric::view::View;
use snin_fabric::{Guid, Lmc, ibnet};

pub use self::received::{Assembly, PublishedView};
use crate::Time;
use crate::message::{MAX_PAIRS, Preferred, UnusablePair, ViewChange, ViewClear};

/// The most bytes of a [`ViewPart`].
pub const MAX_PART: usize = 48 << 10;
/// The most trees of a view.
pub const MAX_TREES: usize = 4096;
/// The greatest service level (IBA 7.6.5).
const MAX_LEVEL: u8 = 15;
/// The most bytes of a view.
pub const MAX_VIEW: usize = 64 << 20;

/// Under [`Policy::Strict`] a controller grants nothing new by a view from so long after its session with the
/// subnet manager ended. A manager whose last controller is gone takes as long, and as long as either of them may
/// take to notice, until it repairs tables without waiting for a controller.
pub const VIEW_LEASE: Time = Time::secs(10);

/// Is non-interference in effect?
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Debug,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Tree 0, which carries all traffic without a grant, is never granted.
    Strict,
    /// All trees are granted: traffic without a grant has a virtual lane of its own.
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
    /// The agent at a port is to show that its link carries messages.
    Test(PortTest),
}

/// Messages are to cross the link of a host's port, if an agent is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortTest {
    /// Its number, which the answer says too.
    pub number: u32,
    /// The host's port.
    pub port: Guid,
    /// How many; 0: only an answer of the agent's is wanted.
    pub messages: u32,
}

/// What came of a [`PortTest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortTested {
    /// Of which test.
    pub number: u32,
    /// How many messages arrived; none: no agent is at that port.
    pub arrived: Option<u32>,
}

/// A view follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewBegin {
    /// Greater than the last one's.
    pub version: u64,
    /// How many parts.
    pub parts: u32,
    /// Bytes of the fabric's text.
    pub topology: u32,
    /// Bytes of the addresses' text. The rest is that of the tables, where they do not follow from the fabric:
    /// routes in lanes stay as they were when a cable is cut.
    pub addresses: u32,
    /// The LMC of every host port.
    pub lmc: Lmc,
    /// How many trees base addresses are spread over; 0 where a base address is a tree's own.
    pub unmanaged_trees: u16,
    /// The service level of what is granted, 0 to 15; 0 where it has no lane of its own.
    pub granted_sl: u8,
    /// How the tables were made.
    pub engine: Engine,
    /// At which offset from a port's base address each tree's address is, by tree; at most [`MAX_TREES`].
    pub places: Vec<u16>,
    /// Where there are no trees: the switches from the top to the bottom, as far as the manager's choice is to be
    /// followed, each by its place in the fabric; at most [`MAX_TREES`].
    pub order: Vec<u16>,
    /// What must not be granted.
    pub unusable: Vec<UnusablePair>,
    /// What [`tables_hash`] says of the manager's tables.
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
    /// Addresses with which queries for paths are to be answered first.
    Preferred(Preferred),
    /// What came of a port's test.
    Tested(PortTested),
}

/// What a controller made of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Computed {
    /// The view's version.
    pub version: u64,
    /// The hash of the tables as the controller computed them; `None`: it has none.
    pub tables: Option<u64>,
}

/// A view that frames cannot say, or frames that are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ViewError {
    /// More than a view may have.
    #[error("the fabric takes {0} bytes, but a view has at most {MAX_VIEW}")]
    TooLarge(usize),
    /// More trees than a view may have.
    #[error("the fabric has {0} trees, but a view has at most {MAX_TREES}")]
    TooManyTrees(usize),
    /// More unusable pairs than a frame holds.
    #[error("{0} pairs of switches and trees are unusable, but a view has at most {MAX_PAIRS}")]
    TooManyPairs(usize),
    /// Parts that do not follow each other.
    #[error("part {number} of view {version} came out of turn")]
    OutOfTurn {
        /// Of which view.
        version: u64,
        /// Which part.
        number: u32,
    },
    /// The text of the fabric.
    #[error("the fabric: {0}")]
    Topology(String),
    /// The text of the addresses.
    #[error("the addresses: {0}")]
    Addresses(String),
    /// The text of the tables is none.
    #[error("the tables: {0}")]
    Tables(String),
    /// No tables can be computed.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Both ends computed tables, and they differ.
    #[error("the manager's tables have the hash {theirs:#018x}, those computed here {ours:#018x}")]
    OtherTables {
        /// The manager's.
        theirs: u64,
        /// The own.
        ours: u64,
    },
}

/// What must not be granted, by the switches' GUIDs.
///
/// # Errors
/// When there are too many for a frame.
pub fn unusable_pairs(view: &dyn View) -> Result<Vec<UnusablePair>, ViewError> {
    let pairs = view.unusable();
    if pairs.len() > MAX_PAIRS {
        return Err(ViewError::TooManyPairs(pairs.len()));
    }
    let topology = view.topology();
    let pair = |&(switch, tree)| UnusablePair { switch: topology.node(switch).guid, tree };
    Ok(pairs.iter().map(pair).collect())
}

/// A fabric of more switches is too large for several orders to be tried: a controller finds the same one.
fn order(view: &dyn View) -> Vec<u16> {
    let order = view.routing().order().iter().map(|switch| switch.0 as u16);
    if order.len() > MAX_TREES { Vec::new() } else { order.collect() }
}

/// The frames that say a view.
///
/// # Errors
/// When it is larger than a view may be.
pub fn frames(view: &dyn View, placement: &Placement) -> Result<Vec<FromManager>, ViewError> {
    let topology = ibnet::write(view.topology());
    let addresses = guid2lid::write(view.topology(), view.addresses());
    let tables = match view.routing().engine {
        Engine::Lanes | Engine::DimensionOrder | Engine::File | Engine::Found => {
            lfts::opensm(view.topology(), view.addresses(), &view.routing().tables).collect()
        }
        _ => String::new(),
    };
    let bytes = [topology.as_bytes(), addresses.as_bytes(), tables.as_bytes()].concat();
    if bytes.len() > MAX_VIEW {
        return Err(ViewError::TooLarge(bytes.len()));
    }
    let places = placement.places().to_vec();
    if places.len() > MAX_TREES {
        return Err(ViewError::TooManyTrees(places.len()));
    }
    let version = view.version();
    let begin = ViewBegin {
        version,
        parts: bytes.len().div_ceil(MAX_PART) as u32,
        topology: topology.len() as u32,
        addresses: addresses.len() as u32,
        lmc: view.routing().plan.lmc(),
        unmanaged_trees: view.routing().plan.unmanaged_trees().len() as u16,
        granted_sl: view.granted_sl(),
        engine: view.routing().engine,
        places,
        order: order(view),
        unusable: unusable_pairs(view)?,
        tables: tables_hash(view.topology(), &view.routing().tables),
    };
    let parts = bytes.chunks(MAX_PART).zip(0..);
    let part = |(bytes, number): (&[u8], u32)| {
        FromManager::Part(ViewPart { version, number, bytes: bytes.to_vec() })
    };
    Ok(std::iter::once(FromManager::Begin(begin)).chain(parts.map(part)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use snin_fabric::generate::Recipe;
    use snin_fabric::routing::Routing;
    use snin_fabric::view::PlannedView;
    use snin_fabric::{Dlid, NodeIndex, TreeId};

    use super::*;

    fn planned(spec: &str) -> PlannedView {
        let topology = spec.parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let leaf = routing.hosts.iter().next().unwrap().1.switch;
        let mut view = PlannedView::new(7, topology, routing);
        view.unusable = BTreeSet::from([(leaf, TreeId(1))]);
        view
    }

    fn assembled(frames: &[FromManager]) -> Result<PublishedView, ViewError> {
        let FromManager::Begin(begin) = &frames[0] else { panic!() };
        let mut assembly = Assembly::new(begin.clone());
        for frame in &frames[1..] {
            let FromManager::Part(part) = frame else { panic!() };
            assembly.add(part)?;
        }
        assembly.finish(1)
    }

    #[test]
    fn a_view_comes_out_as_it_went_in() {
        let view = planned("clos:8,4,4");
        let placement = Placement::new(vec![3, 1, 6, 2], &view.routing.plan);
        let mut moved = view.clone();
        let addresses = view.routing.plan.addresses();
        moved.routing.tables = placement.tables(&view.topology, &view.routing, addresses);
        let came = assembled(&frames(&moved, &placement).unwrap()).unwrap();
        assert_eq!((came.topology(), came.unusable()), (&moved.topology, &moved.unusable));
        assert_eq!(came.routing().tables, moved.routing.tables);
        let port = came.routing().hosts.iter().next().unwrap().1.port;
        let base = came.addresses().base(port).unwrap();
        assert_eq!(came.dlid(port, TreeId(2)), Some(Dlid(snin_fabric::Lid(base.0 + 6))));
    }

    #[test]
    fn other_tables_and_parts_out_of_turn_are_found_out() {
        let view = planned("clos:4,4,2");
        let placement = Placement::planned_by(&view.routing.plan, 4);
        let mut all = frames(&view, &placement).unwrap();
        if let FromManager::Begin(begin) = &mut all[0] {
            begin.places = vec![2, 1, 3, 4];
        }
        assert!(matches!(assembled(&all), Err(ViewError::OtherTables { .. })));
        let doubled = [all[0].clone(), all[1].clone(), all[1].clone()];
        assert!(matches!(assembled(&doubled), Err(ViewError::OutOfTurn { version: 7, number: 0 })));
    }

    /// Routes in lanes may have been chosen for the fabric as it was before: a receiver cannot compute them.
    #[test]
    fn tables_that_do_not_follow_from_the_fabric_are_in_the_view() {
        let mut view = planned("torus:5,4,1");
        view.unusable.clear();
        view.routing = Routing::compute(&view.topology, Engine::Lanes, None).unwrap();
        let (_, lid, _) = view.routing.plan.addresses().iter().last().unwrap();
        let switch = NodeIndex(0);
        let led = view.routing.tables[0].get(lid);
        let mut links = view.topology.switch_links(switch).map(|(link, _)| link);
        let other = links.find(|link| *link != led).unwrap();
        view.routing.tables[0].set(lid, other);
        let placement = Placement::planned_by(&view.routing.plan, 0);
        let mut all = frames(&view, &placement).unwrap();
        let came = assembled(&all).unwrap();
        assert_eq!(came.routing().tables, view.routing.tables);
        assert_eq!(came.routing().engine, Engine::Lanes);

        if let FromManager::Part(part) = &mut all[1] {
            let last = part.bytes.len() - 1;
            part.bytes.truncate(last - 40);
            part.bytes.extend_from_slice(b"\nzz\n");
        }
        assert!(matches!(assembled(&all), Err(ViewError::Tables(_))));
    }
}
