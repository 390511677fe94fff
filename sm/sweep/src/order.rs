//! In which order tables are written, so that no state on the way has a loop or a deadlock.
//!
//! A packet that goes down in the planner's ranks and then up again is the root of all evil: without such a
//! turn, no mixture of entries has a forwarding loop or a credit loop. So the order sees to it that none
//! ever exists:
//!
//! 1. *Retire.* An address that one port has and another shall have - two subnets were cabled together - drops
//!    wherever its entry changes before it leads anywhere else, so that nothing for the one reaches the other.
//!    And what the switches hold may turn that way in the new ranks (another manager's tables, or the
//!    ranks changed). Those entries drop before anything else is written - or lead straight home, where a
//!    cable that nothing uses yet does.
//! 2. *Downstream first.* A switch is written after the next one on its new route that is written too, so
//!    that what it sends goes on to its end. And a switch that shall send up what it sent down is written
//!    after those above that still send down to it: until then it drops rather than going back up.
//!
//! Where routes are in lanes they turn as they like, and each address has an order of its own that keeps links of
//! one lane from waiting in a circle ([`Replacing`]): any, downstream first without exception, or dropped before
//! anything else is written.
//!
//! A write carries 64 addresses, and what is right for one may be wrong for another: where the writes wait
//! for each other in a circle, those that would only lose packets for a moment stop waiting; where that does
//! not help, a block is written twice, first with what changes dropped.

mod sort;

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::lft::BLOCK;
use snin_fabric::routing::{Ranks, Replacing};
use snin_fabric::{ForwardingTable, Lid, NodeIndex, PortNum, Topology};

use self::sort::{Next, Sorting};
use crate::lft_shadow::{LftShadow, NONE};

/// One write to a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) switch: NodeIndex,
    pub(crate) what: What,
}

/// What is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// The block as it shall be.
    Block(u16),
    /// The block on its way there: some of its entries drop.
    Dropping(u16, Box<[u8; BLOCK]>),
    /// LinearFDBTop: from now on everything up to it is forwarded.
    Top,
}

/// All writes: those of `retire` in any order, then those of `writes`, each after the ones it waits for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Order {
    pub(crate) retire: Vec<Write>,
    pub(crate) writes: Vec<Write>,
    /// The second waits for the first.
    pub(crate) after: Vec<(u32, u32)>,
}

/// How the tables are and how they shall be.
pub(crate) struct Tables<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) ranks: &'a Ranks,
    /// By switch: what it holds.
    pub(crate) held: Vec<&'a LftShadow>,
    /// By switch: what it shall hold.
    pub(crate) wanted: &'a [ForwardingTable],
    /// The highest address.
    pub(crate) top: Lid,
    /// Addresses that some port has and another shall have.
    pub(crate) moved: &'a BTreeSet<Lid>,
    /// Where routes are in lanes: how each address's entries are replaced.
    pub(crate) replacing: Option<&'a BTreeMap<Lid, Replacing>>,
}

impl Tables<'_> {
    /// A block as it shall be.
    fn wanted_block(&self, switch: NodeIndex, block: u16) -> &[u8; BLOCK] {
        self.wanted[switch.index()].block(block)
    }

    /// Blocks that forward now or shall forward.
    fn blocks(&self, switch: usize) -> usize {
        self.top.max(self.held[switch].top()).index() / BLOCK + 1
    }

    /// Whether a block is to be written: not where the switch holds it already.
    fn differs(&self, switch: usize, block: u16) -> bool {
        let wanted = || self.wanted_block(NodeIndex(switch as u32), block);
        usize::from(block) < self.blocks(switch) && self.held[switch].block(block) != Some(wanted())
    }

    fn raises_top(&self, switch: usize) -> bool {
        self.held[switch].top() < self.top
    }

    fn all_blocks(&self) -> impl Iterator<Item = u16> + use<> {
        0..(0..self.held.len()).map(|s| self.blocks(s)).max().unwrap_or(0) as u16
    }

    /// Whether any switch comes to forward any of the block's addresses otherwise.
    fn changes(&self, block: u16) -> bool {
        (0..self.held.len()).any(|s| {
            let inert = usize::from(block + 1) * BLOCK > self.held[s].top().index();
            inert && self.raises_top(s) || self.differs(s, block)
        })
    }
}

/// Finds the order. `urgent` addresses come first among what may be written at the same time.
pub(crate) fn order(tables: &Tables<'_>, urgent: &[Lid]) -> Order {
    if !tables.held.iter().any(|shadow| shadow.is_live()) {
        return Units::of(tables, urgent).sort(tables, Vec::new());
    }
    let wiring = Wiring::of(tables);
    let (retire, retired) = retire(tables, &wiring);
    let held = tables.held.iter().enumerate();
    let held = held.map(|(switch, shadow)| retired.get(&(switch as u32)).unwrap_or(shadow));
    let tables = &Tables { held: held.collect(), ..*tables };
    let mut units = Units::of(tables, urgent);
    for block in tables.all_blocks() {
        constrain(tables, &wiring, block, &mut units);
    }
    units.sort(tables, retire)
}

/// The writes that come before all others, and what the switches concerned hold then.
fn retire(tables: &Tables<'_>, wiring: &Wiring) -> (Vec<Write>, BTreeMap<u32, LftShadow>) {
    let mut retired = Retired::default();
    for block in tables.all_blocks().filter(|&block| tables.changes(block)) {
        for entry in 0..BLOCK {
            let Some(mut column) = Column::of(tables, wiring, block, entry) else { continue };
            let lid = Lid(block * BLOCK as u16 + entry as u16);
            match tables.replacing.map(|replacing| replacing.get(&lid)) {
                _ if tables.moved.contains(&lid) => column.unroute((block, entry), &mut retired),
                None => column.retire(tables, (block, entry), &mut retired),
                Some(Some(Replacing::DroppedFirst)) => {
                    column.unroute((block, entry), &mut retired);
                }
                Some(_) => {}
            }
        }
    }
    let mut writes = Vec::new();
    let mut after: BTreeMap<u32, LftShadow> = BTreeMap::new();
    if tables.replacing.is_some() {
        retire_unread(tables, &mut writes, &mut after);
    }
    for ((switch, block), entries) in retired.entries {
        let held = tables.held[switch as usize];
        let mut ports = held.block(block).copied().unwrap_or([NONE; BLOCK]);
        entries.into_iter().for_each(|(entry, port)| ports[entry] = port);
        after.entry(switch).or_insert_with(|| held.clone()).set_block(block, &ports);
        let switch = NodeIndex(switch);
        let done = &ports == tables.wanted_block(switch, block);
        let what = if done { What::Block(block) } else { What::Dropping(block, Box::new(ports)) };
        writes.push(Write { switch, what });
    }
    (writes, after)
}

/// A block that was not read may hold any old entries: all of it drops, since none of them was weighed.
fn retire_unread(
    tables: &Tables<'_>,
    writes: &mut Vec<Write>,
    after: &mut BTreeMap<u32, LftShadow>,
) {
    for (switch, held) in (0..).zip(&tables.held) {
        for block in held.unread_blocks() {
            let ports = [NONE; BLOCK];
            after.entry(switch).or_insert_with(|| (*held).clone()).set_block(block, &ports);
            let what = What::Dropping(block, Box::new(ports));
            writes.push(Write { switch: NodeIndex(switch), what });
        }
    }
}

/// What takes effect at once: a block, or everything above the old top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Unit {
    Block(u32, u16),
    Top(u32),
}

/// One waits for another: always, or only so that no packet is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wait {
    first: u32,
    then: u32,
    /// `false`: for the sake of packets only.
    always: bool,
}

struct Units {
    units: Vec<Unit>,
    number: BTreeMap<Unit, u32>,
    waits: Vec<Wait>,
}

impl Units {
    fn of(tables: &Tables<'_>, urgent: &[Lid]) -> Self {
        let mut units = Vec::new();
        for switch in 0..tables.held.len() {
            let blocks = 0..tables.blocks(switch) as u16;
            let differing = blocks.filter(|&block| tables.differs(switch, block));
            units.extend(differing.map(|block| Unit::Block(switch as u32, block)));
        }
        let tops = (0..tables.held.len()).filter(|&switch| tables.raises_top(switch));
        units.extend(tops.map(|switch| Unit::Top(switch as u32)));
        let urgent: BTreeSet<u16> = urgent.iter().map(|lid| lid.0 / BLOCK as u16).collect();
        // Block by block over all switches, so that an address works everywhere soon after anywhere.
        units.sort_by_key(|unit| match *unit {
            Unit::Block(switch, block) => (!urgent.contains(&block), block, switch),
            Unit::Top(switch) => (true, u16::MAX, switch),
        });
        let number = units.iter().enumerate().map(|(n, &unit)| (unit, n as u32)).collect();
        let mut all = Self { units, number, waits: Vec::new() };
        for n in 0..all.units.len() as u32 {
            if let Unit::Block(switch, block) = all.units[n as usize]
                && usize::from(block + 1) * BLOCK > tables.held[switch as usize].top().index() + 1
                && let Some(&top) = all.number.get(&Unit::Top(switch))
            {
                all.waits.push(Wait { first: n, then: top, always: true });
            }
        }
        all
    }

    fn wait(&mut self, first: Unit, then: Unit, always: bool, of_block: &mut Vec<Wait>) {
        if first == then {
            return;
        }
        if let (Some(&first), Some(&then)) = (self.number.get(&first), self.number.get(&then)) {
            of_block.push(Wait { first, then, always });
        }
    }

    fn keep(&mut self, of_block: &mut Vec<Wait>) {
        // Of two waits of the same pair the strict one comes last, and stays.
        of_block.sort_unstable();
        of_block.dedup_by(|later, kept| {
            let same = (later.first, later.then) == (kept.first, kept.then);
            kept.always |= same && later.always;
            same
        });
        self.waits.append(of_block);
    }

    /// Kahn's algorithm, with ways out of circles.
    fn sort(self, tables: &Tables<'_>, retire: Vec<Write>) -> Order {
        let mut sorting = Sorting::new(self.units.len(), &self.waits);
        let mut place = vec![u32::MAX; self.units.len()];
        let mut dropping: BTreeMap<u32, u32> = BTreeMap::new();
        let mut writes = Vec::with_capacity(self.units.len());
        while let Some(next) = sorting.next() {
            let number = writes.len() as u32;
            match next {
                Next::Write(n) => {
                    place[n as usize] = number;
                    writes.push(self.write(n));
                }
                Next::Drop(n) => {
                    dropping.insert(n, number);
                    writes.push(self.dropping(n, tables));
                }
            }
        }
        let mut after: Vec<(u32, u32)> = Vec::with_capacity(self.waits.len());
        for wait in &self.waits {
            let (first, then) = (place[wait.first as usize], place[wait.then as usize]);
            if first < then {
                after.push((first, then));
            } else if let Some(&first) = dropping.get(&wait.first) {
                after.push((first, then));
            }
        }
        after.extend(dropping.iter().map(|(&unit, &number)| (number, place[unit as usize])));
        Order { retire, writes, after }
    }

    fn write(&self, n: u32) -> Write {
        match self.units[n as usize] {
            Unit::Block(switch, block) => {
                Write { switch: NodeIndex(switch), what: What::Block(block) }
            }
            Unit::Top(switch) => Write { switch: NodeIndex(switch), what: What::Top },
        }
    }

    fn dropping(&self, n: u32, tables: &Tables<'_>) -> Write {
        let Unit::Block(switch, block) = self.units[n as usize] else { return self.write(n) };
        let wanted = tables.wanted_block(NodeIndex(switch), block);
        let held = tables.held[switch as usize].block(block).copied().unwrap_or([NONE; BLOCK]);
        let ports = std::array::from_fn(|i| if held[i] == wanted[i] { held[i] } else { NONE });
        Write { switch: NodeIndex(switch), what: What::Dropping(block, Box::new(ports)) }
    }
}

/// Which switch is behind each port of each switch.
struct Wiring {
    peers: Vec<Vec<u32>>,
}

const NOBODY: u32 = u32::MAX;

impl Wiring {
    fn of(tables: &Tables<'_>) -> Self {
        let topology = tables.topology;
        let row = |switch: NodeIndex| {
            let mut row = vec![NOBODY; 256];
            topology.switch_links(switch).for_each(|(port, peer)| row[port.index()] = peer.0);
            row
        };
        Self { peers: topology.switches().map(row).collect() }
    }

    /// Where an entry leads; `None` where it leads to no switch.
    fn next(&self, switch: usize, port: u8) -> Option<usize> {
        let peer = self.peers[switch][PortNum(port).index()];
        (peer != NOBODY).then_some(peer as usize)
    }
}

/// Entries that are written before all others.
#[derive(Default)]
struct Retired {
    /// By switch and block: which of its entries, and what they become.
    entries: BTreeMap<(u32, u16), Vec<(usize, u8)>>,
    /// By switch: the ports that it forwards anything by.
    used: BTreeMap<usize, Vec<bool>>,
}

impl Retired {
    /// Whether nothing is forwarded by the port yet: then packets over its cable to its destination there
    /// hold up no others, in any ranks.
    fn is_idle(&mut self, tables: &Tables<'_>, switch: usize, port: u8) -> bool {
        let held = tables.held[switch];
        let used = self.used.entry(switch).or_insert_with(|| {
            let mut used = vec![false; 256];
            (0..=held.top().0).for_each(|lid| used[usize::from(held.forwards(Lid(lid)))] = true);
            used
        });
        !used[usize::from(port)]
    }
}

/// One address's entries, old and new, by switch.
struct Column<'a> {
    wiring: &'a Wiring,
    ranks: &'a Ranks,
    old: Vec<u8>,
    new: Vec<u8>,
    changed: Vec<bool>,
}

impl<'a> Column<'a> {
    /// `None` where nothing changes.
    fn of(tables: &'a Tables<'_>, wiring: &'a Wiring, block: u16, entry: usize) -> Option<Self> {
        let lid = Lid(block * BLOCK as u16 + entry as u16);
        let old: Vec<u8> = tables.held.iter().map(|shadow| shadow.forwards(lid)).collect();
        let new: Vec<u8> = tables.wanted.iter().map(|table| table.get(lid).0).collect();
        let changed: Vec<bool> = old.iter().zip(&new).map(|(old, new)| old != new).collect();
        let ranks = tables.ranks;
        changed.contains(&true).then_some(Self { wiring, ranks, old, new, changed })
    }

    fn goes_down(&self, from: usize, to: usize) -> bool {
        self.ranks.is_above(NodeIndex(from as u32), NodeIndex(to as u32))
    }

    /// Whether the entry sends from `at` to a switch above it.
    fn leads_up(&self, at: usize, port: u8) -> bool {
        self.wiring.next(at, port).is_some_and(|next| self.goes_down(next, at))
    }

    /// Every old entry that changes drops: it means another port.
    fn unroute(&mut self, place: (u16, usize), retired: &mut Retired) {
        for x in (0..self.old.len()).filter(|&x| self.changed[x] && self.old[x] != NONE) {
            let entries = retired.entries.entry((x as u32, place.0)).or_default();
            entries.push((place.1, NONE));
        }
    }

    /// Old entries by which packets go down and up again: one of each two is retired. The first, unless the
    /// address is a switch's: others may send to the second what it rightly sends up. But what goes to
    /// switches is no data, and where the transit leaf becomes another, every other spine sends first and the
    /// old transit leaf alone second: one block to be written twice instead of one a spine.
    fn retire(&mut self, tables: &Tables<'_>, place: (u16, usize), retired: &mut Retired) {
        let to_switch = self.new.contains(&0);
        for x in 0..self.old.len() {
            let Some(y) = self.wiring.next(x, self.old[x]) else { continue };
            if !self.goes_down(x, y) || !self.leads_up(y, self.old[y]) {
                continue;
            }
            if !self.changed[x] && !self.changed[y] {
                continue;
            }
            let mut home = |x: usize| self.leads_home(x) && retired.is_idle(tables, x, self.new[x]);
            let (one, home) = match self.changed[x] {
                true if to_switch => (y, false),
                true => (x, home(x)),
                false => (y, home(y)),
            };
            self.old[one] = if home { self.new[one] } else { NONE };
            self.changed[one] = self.old[one] != self.new[one];
            let entries = retired.entries.entry((one as u32, place.0)).or_default();
            entries.push((place.1, self.old[one]));
        }
    }

    /// Whether the new entry leads to a switch that delivers, and did before.
    fn leads_home(&self, x: usize) -> bool {
        self.wiring.next(x, self.new[x]).is_some_and(|y| {
            let delivers = self.new[y] != NONE && self.wiring.next(y, self.new[y]).is_none();
            delivers && !self.changed[y]
        })
    }

    /// The first switch on the new route from `x` whose entry changes, and whether it is the very next.
    fn downstream(&self, x: usize) -> Option<(usize, bool)> {
        let mut at = self.wiring.next(x, self.new[x])?;
        let next = at;
        for _ in 0..self.new.len() {
            if self.changed[at] {
                return Some((at, at == next));
            }
            at = self.wiring.next(at, self.new[at])?;
        }
        None
    }
}

/// The waits among the writes of one block.
fn constrain(tables: &Tables<'_>, wiring: &Wiring, block: u16, units: &mut Units) {
    if !tables.changes(block) {
        return;
    }
    let mut waits = Vec::new();
    for entry in 0..BLOCK {
        let lid = Lid(block * BLOCK as u16 + entry as u16);
        let Some(column) = Column::of(tables, wiring, block, entry) else { continue };
        let unit = |s: usize| match lid > tables.held[s].top() {
            true => Unit::Top(s as u32),
            false => Unit::Block(s as u32, block),
        };
        if let Some(replacing) = tables.replacing {
            let strict = replacing.get(&lid) == Some(&Replacing::DownstreamFirst);
            for x in (0..column.changed.len()).filter(|&x| column.changed[x]) {
                if let Some((y, _)) = column.downstream(x)
                    && (strict || column.old[x] != NONE || column.old[y] != NONE)
                {
                    units.wait(unit(y), unit(x), strict, &mut waits);
                }
            }
            continue;
        }
        for x in (0..column.changed.len()).filter(|&x| column.changed[x]) {
            if let Some((y, next)) = column.downstream(x) {
                let turns = next && column.goes_down(x, y) && column.leads_up(y, column.old[y]);
                if turns || column.old[x] != NONE || column.old[y] != NONE {
                    units.wait(unit(y), unit(x), turns, &mut waits);
                }
            }
            if let Some(y) = column.wiring.next(x, column.old[x])
                && column.changed[y]
                && column.goes_down(x, y)
                && column.leads_up(y, column.new[y])
            {
                units.wait(unit(x), unit(y), true, &mut waits);
            }
        }
    }
    units.keep(&mut waits);
}

#[cfg(test)]
mod tests;
