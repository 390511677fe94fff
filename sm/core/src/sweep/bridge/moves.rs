//! The steps of a bridge, one wave after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::lft::BLOCK;
use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::{LinearForwarding, Mad, PortInfo, PortState};

use crate::graph::Graph;
use crate::lft_shadow::NONE;
use crate::query::{NodeId, PortId};
use crate::schedule::{PortWrite, Raise};

type Entries = BTreeMap<Lid, u8>;

/// What is asked or written, and of which port.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Read(NodeId, u16),
    Block(NodeId, u16),
    Top(NodeId),
    Port(PortId, PortWrite),
    Lend(PortId, Lid, Lmc),
}

/// The stages in the order in which they come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Wave {
    Read,
    Drop,
    Lead,
    Arm,
    Activate,
    Lend,
    Built,
}

/// One way, as it is to be.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// What every switch on it is to have for the addresses.
    pub(super) entries: BTreeMap<NodeId, Entries>,
    /// Where this manager's own switches lead its address, if they lead it nowhere.
    pub(super) else_back: BTreeMap<NodeId, u8>,
    /// Cables between switches that it leads over.
    pub(super) links: BTreeSet<[PortId; 2]>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::sweep) struct Bridge {
    /// The managers that it leads to, with the addresses of their ports.
    pub(super) lent: BTreeMap<Guid, (PortId, Lid, Lmc)>,
    /// This manager's address.
    pub(super) own: Lid,
    /// Switches that have it in another meaning.
    pub(super) theirs: Vec<NodeId>,
    pub(super) way: Way,
    /// Blocks as they were read or written.
    pub(super) blocks: BTreeMap<(NodeId, u16), [u8; BLOCK]>,
    pub(super) tops: BTreeMap<NodeId, Lid>,
    pub(super) wave: Wave,
    pub(super) moves: Vec<Move>,
    pub(super) waiting: VecDeque<u32>,
    pub(super) in_flight: usize,
}

impl Move {
    pub(super) const fn end(&self) -> PortId {
        match *self {
            Self::Read(id, _) | Self::Block(id, _) | Self::Top(id) => (id, PortNum::ZERO),
            Self::Port(end, _) | Self::Lend(end, ..) => end,
        }
    }
}

const fn place(lid: Lid) -> (u16, usize) {
    ((lid.index() / BLOCK) as u16, lid.index() % BLOCK)
}

impl Way {
    /// Leads to a port and, in the switches of others, back to this manager's address.
    pub(super) fn lead(
        &mut self,
        graph: &Graph,
        ways: &BTreeMap<NodeId, Option<(PortId, PortNum)>>,
        (end, lid): (PortId, Lid),
        (own, is_ours): (Lid, &dyn Fn(NodeId) -> bool),
    ) -> Option<()> {
        let (mut at, mut out) = match graph.node(end.0).is_switch() {
            true => (end.0, PortNum::ZERO),
            false => graph.link(end)?.to,
        };
        loop {
            let entries = self.entries.entry(at).or_default();
            entries.insert(lid, out.0);
            // By which cable this switch was found: its first one is this manager's own.
            let back = *ways.get(&at)?;
            let Some((before, inward)) = back else { return Some(()) };
            if is_ours(at) {
                self.else_back.insert(at, inward.0);
            } else {
                entries.insert(own, inward.0);
            }
            self.links.insert([before, (at, inward)]);
            (at, out) = before;
        }
    }
}

impl Bridge {
    pub(super) fn begun(mut self) -> Self {
        let mut blocks: BTreeSet<(NodeId, u16)> =
            self.theirs.iter().map(|&id| (id, place(self.own).0)).collect();
        for (&id, entries) in &self.way.entries {
            let top = self.tops.get(&id).copied().unwrap_or(Lid::NONE);
            let needed = entries.keys().copied().max().unwrap_or(Lid::NONE);
            // A switch that forwards more than before forwards nothing that it was not told.
            if needed > top {
                blocks.extend((place(top).0..=place(needed).0).map(|block| (id, block)));
            }
            blocks.extend(entries.keys().map(|lid| (id, place(*lid).0)));
        }
        blocks.extend(self.way.else_back.keys().map(|&id| (id, place(self.own).0)));
        let reads = blocks.into_iter().map(|(id, block)| Move::Read(id, block)).collect();
        self.push(reads);
        self
    }

    fn push(&mut self, moves: Vec<Move>) {
        let first = self.moves.len() as u32;
        self.waiting.extend(first..first + moves.len() as u32);
        self.moves.extend(moves);
    }

    /// What is written next: all before was taken.
    pub(super) fn next_wave(&mut self, graph: &Graph) {
        let (wave, moves) = match self.wave {
            Wave::Read => (Wave::Drop, self.drops()),
            Wave::Drop => (Wave::Lead, self.leads()),
            Wave::Lead => (Wave::Arm, self.raises(graph, Raise::ToArmed)),
            Wave::Arm => (Wave::Activate, self.raises(graph, Raise::ToActive)),
            Wave::Activate => {
                let lend = |&(end, lid, lmc): &(PortId, Lid, Lmc)| Move::Lend(end, lid, lmc);
                (Wave::Lend, self.lent.values().map(lend).collect())
            }
            Wave::Lend | Wave::Built => (Wave::Built, Vec::new()),
        };
        self.wave = wave;
        self.push(moves);
    }

    /// The own address drops where it leads to another port, and so does what lies above the tops of tables.
    fn drops(&mut self) -> Vec<Move> {
        let (own, mut moves) = (place(self.own), Vec::new());
        for (&(id, number), ports) in &mut self.blocks {
            let before = *ports;
            let top = self.tops.get(&id).copied().unwrap_or(Lid::NONE).index();
            for (entry, port) in ports.iter_mut().enumerate() {
                if usize::from(number) * BLOCK + entry > top {
                    *port = NONE;
                }
            }
            let wanted = self.way.entries.get(&id).and_then(|entries| entries.get(&self.own));
            let is_theirs = self.theirs.contains(&id) && number == own.0;
            if is_theirs && Some(&ports[own.1]) != wanted {
                ports[own.1] = NONE;
            }
            if before != *ports {
                moves.push(Move::Block(id, number));
            }
        }
        moves
    }

    fn leads(&mut self) -> Vec<Move> {
        let mut changed = BTreeSet::new();
        for (&id, &inward) in &self.way.else_back {
            let (number, entry) = place(self.own);
            let ports = self.blocks.get_mut(&(id, number));
            if let Some(port) = ports.and_then(|ports| ports.get_mut(entry)).filter(|p| **p == NONE)
            {
                *port = inward;
                changed.insert((id, number));
            }
        }
        for (&id, entries) in &self.way.entries {
            for (&lid, &out) in entries {
                let (number, entry) = place(lid);
                let Some(ports) = self.blocks.get_mut(&(id, number)) else { continue };
                if std::mem::replace(&mut ports[entry], out) != out {
                    changed.insert((id, number));
                }
            }
        }
        changed.into_iter().map(|(id, number)| Move::Block(id, number)).collect()
    }

    /// Tops with the first, since every block below is written by then.
    fn raises(&mut self, graph: &Graph, raise: Raise) -> Vec<Move> {
        let mut moves = Vec::new();
        if raise == Raise::ToArmed {
            for (&id, entries) in &self.way.entries {
                let needed = entries.keys().copied().max().unwrap_or(Lid::NONE);
                let top = self.tops.entry(id).or_insert(Lid::NONE);
                if needed > *top {
                    *top = needed;
                    moves.push(Move::Top(id));
                }
            }
        }
        let write = PortWrite { state: Some(raise), ..PortWrite::default() };
        for &end in self.way.links.iter().flatten() {
            let state = graph.port(end).and_then(|port| port.info.as_ref()).map(|info| info.state);
            let is_due = match raise {
                Raise::ToArmed => state == Some(PortState::Initialize),
                Raise::ToActive => state == Some(PortState::Armed),
            };
            if is_due {
                moves.push(Move::Port(end, write));
            }
        }
        moves
    }

    /// Whether a step was taken, and a port as it is now; `None`: it was not.
    pub(super) fn took(&mut self, number: u32, mad: &Mad) -> Option<Option<(PortId, PortInfo)>> {
        match *self.moves.get(number as usize)? {
            Move::Read(id, block) => {
                let ports = mad.attribute::<LinearForwarding>().ok()?.ports;
                self.blocks.insert((id, block), ports.map(|port| port.0));
                Some(None)
            }
            Move::Block(..) | Move::Top(_) => Some(None),
            Move::Port(end, _) => Some(Some((end, mad.attribute().ok()?))),
            Move::Lend(end, lid, _) => {
                let info: PortInfo = mad.attribute().ok()?;
                (info.lid == lid).then_some(Some((end, info)))
            }
        }
    }
}
