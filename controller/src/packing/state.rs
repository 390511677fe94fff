//! Who owns which directed link: Paull's matrix, kept per side so that both of a leaf's rows are at
//! hand, with a mask of free links beside each row.

use snin_fabric::TreeId;

use super::request::{ConnectionId, Deferral};
use super::sets;
use super::shape::{LeafId, SetId, Shape};

/// No connection.
pub(super) const NOBODY: u32 = u32::MAX;
/// No tree.
pub(super) const NO_TREE: u16 = u16::MAX;

/// The directed links of one direction of one stage: a row a leaf (or pod), a column a tree (or group).
#[derive(Clone, Debug)]
pub(super) struct Links {
    owners: Vec<u32>,
    free: Vec<u64>,
    columns: usize,
    words: usize,
}

impl Links {
    fn new(rows: usize, columns: usize, exists: impl Fn(usize, usize) -> bool) -> Self {
        let words = sets::words_for(columns);
        let mut free = vec![0; rows * words];
        for (row, free) in free.chunks_mut(words.max(1)).enumerate() {
            let there = (0..columns).filter(|&column| exists(row, column));
            there.for_each(|column| sets::insert(free, column));
        }
        Self { owners: vec![NOBODY; rows * columns], free, columns, words }
    }

    pub(super) fn owner(&self, row: usize, column: usize) -> u32 {
        self.owners[row * self.columns + column]
    }

    pub(super) fn free(&self, row: usize) -> &[u64] {
        &self.free[row * self.words..][..self.words]
    }

    fn take(&mut self, row: usize, column: usize, id: u32) {
        let owner = &mut self.owners[row * self.columns + column];
        debug_assert_eq!(*owner, NOBODY, "two owners of link {row}.{column}");
        *owner = id;
        sets::remove(&mut self.free[row * self.words..][..self.words], column);
    }

    fn release(&mut self, row: usize, column: usize) {
        self.owners[row * self.columns + column] = NOBODY;
        sets::insert(&mut self.free[row * self.words..][..self.words], column);
    }
}

/// The links of one stage, both directions.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) up: Links,
    pub(super) down: Links,
}

impl Grid {
    fn new(rows: usize, columns: usize, exists: impl Fn(usize, usize) -> bool) -> Self {
        let up = Links::new(rows, columns, exists);
        Self { down: up.clone(), up }
    }
}

/// A connection as the packer knows it; `tree` is `NO_TREE` while it is not packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) source: LeafId,
    pub(super) destination: LeafId,
    pub(super) allowed: SetId,
    pub(super) tree: u16,
    pub(super) pinned: bool,
}

const UNKNOWN: Connection = Connection {
    source: LeafId(0),
    destination: LeafId(0),
    allowed: SetId::ALL,
    tree: NO_TREE,
    pinned: false,
};

/// At most four connections stand in another's way: one on each link that it wants.
#[derive(Clone, Copy, Default)]
pub(super) struct Blockers {
    ids: [u32; 4],
    count: usize,
}

impl Blockers {
    fn add(&mut self, id: u32) {
        if id != NOBODY && !self.ids().contains(&id) {
            self.ids[self.count] = id;
            self.count += 1;
        }
    }

    pub(super) fn ids(&self) -> &[u32] {
        &self.ids[..self.count]
    }
}

/// The packed state. Every change is noted in a journal, so that an attempt can be taken back.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) shape: Shape,
    pub(super) connections: Vec<Connection>,
    /// Leaves and their links: to trees in two stages, to groups of trees in three.
    pub(super) leaf: Grid,
    /// Pods and their links to trees; no rows in two stages.
    pub(super) pod: Grid,
    /// Connections that changed and the tree that each had before, oldest first.
    pub(super) journal: Vec<(u32, u16)>,
}

impl State {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            leaf: Grid::new(shape.leaves(), shape.groups(), |l, g| shape.reaches_group(l, g)),
            pod: Grid::new(shape.pods(), shape.trees(), |_, _| true),
            shape,
            connections: Vec::new(),
            journal: Vec::new(),
        }
    }

    pub(super) fn get(&self, id: u32) -> &Connection {
        &self.connections[id as usize]
    }

    pub(super) fn is_packed(&self, id: u32) -> bool {
        self.get(id).tree != NO_TREE
    }

    /// All packed connections, by number.
    pub(super) fn packed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.connections.len() as u32).filter(|&id| self.is_packed(id))
    }

    /// Makes a connection known, not packed yet.
    pub(super) fn learn(&mut self, id: ConnectionId, connection: Connection) {
        if id.index() >= self.connections.len() {
            self.connections.resize(id.index() + 1, UNKNOWN);
        }
        self.connections[id.index()] = connection;
    }

    /// The trees that a connection may use, word by word.
    pub(super) fn effective(&self, id: u32) -> impl Iterator<Item = u64> + '_ {
        let c = self.get(id);
        self.shape.effective(c.source, c.destination, c.allowed)
    }

    pub(super) fn allows(&self, id: u32, tree: usize) -> bool {
        let c = self.get(id);
        sets::contains(self.shape.set(c.allowed), tree)
            && sets::contains(self.shape.usable(c.source), tree)
            && sets::contains(self.shape.usable(c.destination), tree)
    }

    /// The pods at both ends, where the connection leaves its pod at all.
    pub(super) fn pods(&self, id: u32) -> Option<(usize, usize)> {
        let c = self.get(id);
        let up = self.shape.pod_of(c.source)?;
        let down = self.shape.pod_of(c.destination)?;
        (up != down).then_some((up, down))
    }

    fn group(&self, tree: u16) -> usize {
        self.shape.group_of(TreeId(tree))
    }

    /// The connections, other than itself, whose links `id` would need on `tree`.
    pub(super) fn blockers(&self, id: u32, tree: usize) -> Blockers {
        let (c, group) = (self.get(id), self.group(tree as u16));
        let mut blockers = Blockers::default();
        let mut add = |owner| {
            if owner != id {
                blockers.add(owner);
            }
        };
        add(self.leaf.up.owner(c.source.index(), group));
        add(self.leaf.down.owner(c.destination.index(), group));
        if let Some((up, down)) = self.pods(id) {
            add(self.pod.up.owner(up, tree));
            add(self.pod.down.owner(down, tree));
        }
        blockers
    }

    /// Whether `a` on `tree_a` and `b` on `tree_b` would want one link.
    pub(super) fn collide(&self, a: u32, tree_a: usize, b: u32, tree_b: usize) -> bool {
        let (ca, cb) = (self.get(a), self.get(b));
        let same_leaf = ca.source == cb.source || ca.destination == cb.destination;
        if same_leaf && self.group(tree_a as u16) == self.group(tree_b as u16) {
            return true;
        }
        let same_pod = || match (self.pods(a), self.pods(b)) {
            (Some((up_a, down_a)), Some((up_b, down_b))) => up_a == up_b || down_a == down_b,
            _ => false,
        };
        tree_a == tree_b && same_pod()
    }

    /// The first allowed tree all of whose links are free.
    pub(super) fn first_free(&self, id: u32) -> Option<usize> {
        let c = self.get(id);
        let up = self.leaf.up.free(c.source.index());
        let down = self.leaf.down.free(c.destination.index());
        let free = up.iter().zip(down).map(|(&up, &down)| up & down);
        if !self.shape.is_three_stage() {
            let allowed = self.shape.set(c.allowed);
            return sets::members(free.zip(allowed).map(|(free, &allowed)| free & allowed)).next();
        }
        sets::members(free).find_map(|group| self.first_free_in_group(id, group))
    }

    /// The first allowed tree of a group all of whose links to the cores are free.
    pub(super) fn first_free_in_group(&self, id: u32, group: usize) -> Option<usize> {
        let trees = self.shape.trees_of_group(group);
        let wanted = self.effective(id).zip(trees).map(|(allowed, &trees)| allowed & trees);
        match self.pods(id) {
            None => sets::members(wanted).next(),
            Some((up, down)) => {
                let (up, down) = (self.pod.up.free(up), self.pod.down.free(down));
                let free =
                    wanted.zip(up).zip(down).map(|((wanted, &up), &down)| wanted & up & down);
                sets::members(free).next()
            }
        }
    }

    /// Puts an unpacked connection on a tree whose links are free.
    pub(super) fn place(&mut self, id: u32, tree: usize) {
        self.journal.push((id, NO_TREE));
        self.set_tree(id, tree as u16);
    }

    /// Takes a packed connection off its tree.
    pub(super) fn lift(&mut self, id: u32) {
        self.journal.push((id, self.get(id).tree));
        self.set_tree(id, NO_TREE);
    }

    /// Puts an unpacked connection on a tree if its links are free.
    pub(super) fn place_if_free(&mut self, id: u32, tree: usize) -> bool {
        let free = self.blockers(id, tree).ids().is_empty();
        if free {
            self.place(id, tree);
        }
        free
    }

    /// Takes back everything since the journal was `mark` long.
    pub(super) fn roll_back(&mut self, mark: usize) {
        while self.journal.len() > mark {
            if let Some((id, before)) = self.journal.pop() {
                self.set_tree(id, before);
            }
        }
    }

    fn set_tree(&mut self, id: u32, tree: u16) {
        let c = *self.get(id);
        let pods = self.pods(id);
        if c.tree != NO_TREE {
            let group = self.group(c.tree);
            self.leaf.up.release(c.source.index(), group);
            self.leaf.down.release(c.destination.index(), group);
            if let Some((up, down)) = pods {
                self.pod.up.release(up, usize::from(c.tree));
                self.pod.down.release(down, usize::from(c.tree));
            }
        }
        if tree != NO_TREE {
            let group = self.group(tree);
            self.leaf.up.take(c.source.index(), group, id);
            self.leaf.down.take(c.destination.index(), group, id);
            if let Some((up, down)) = pods {
                self.pod.up.take(up, usize::from(tree), id);
                self.pod.down.take(down, usize::from(tree), id);
            }
        }
        self.connections[id as usize].tree = tree;
    }

    /// Why an unpacked connection has no tree, in words for a person.
    pub(super) fn why_deferred(&self, id: u32) -> Deferral {
        let c = self.get(id);
        let none = |free: &[u64]| free.iter().all(|&word| word == 0);
        if none(self.leaf.up.free(c.source.index())) {
            Deferral::SourceFull
        } else if none(self.leaf.down.free(c.destination.index())) {
            Deferral::DestinationFull
        } else if c.pinned {
            Deferral::PinnedAway
        } else {
            Deferral::NoTreeFreed
        }
    }
}
