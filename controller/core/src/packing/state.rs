//! The packed state: the connections, their trees and who owns which link.

use snin_fabric::TreeId;

use super::matrix::{Chain, Matrix, NOBODY};
use super::request::{Deferral, Request};
use super::sets;
use super::shape::{LeafId, SetId, Shape};

/// No tree.
pub(super) const NO_TREE: u16 = u16::MAX;

/// Room of the journal for each connection there is room for. It is abridged when half of that is used, so
/// the other half is for what happens between two looks at it.
const JOURNAL: usize = 8;

/// A connection as the packer knows it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Connection {
    source: u16,
    destination: u16,
    /// Its set of trees, shifted by one, and whether it is pinned: zero where neither keeps it from any
    /// tree.
    limits: u32,
}

impl Connection {
    pub(super) fn of(request: &Request) -> Self {
        let &Request { source, destination, allowed, pinned, .. } = request;
        let limits = allowed.0 << 1 | u32::from(pinned);
        Self { source: source.0 as u16, destination: destination.0 as u16, limits }
    }

    /// One that nothing but cables keeps from any tree.
    pub(super) const fn plain(request: &Request) -> Self {
        let &Request { source, destination, .. } = request;
        Self { source: source.0 as u16, destination: destination.0 as u16, limits: 0 }
    }

    pub(super) const fn source(self) -> usize {
        self.source as usize
    }

    pub(super) const fn destination(self) -> usize {
        self.destination as usize
    }

    /// The leaves at its ends.
    const fn leaves(self) -> (LeafId, LeafId) {
        (LeafId(self.source as u32), LeafId(self.destination as u32))
    }

    pub(super) const fn allowed(self) -> SetId {
        SetId(self.limits >> 1)
    }

    pub(super) const fn pinned(self) -> bool {
        self.limits & 1 != 0
    }

    /// Whether anything but cables keeps it from some tree.
    const fn is_bound(self) -> bool {
        self.limits != 0
    }
}

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
    /// The tree of each connection, `NO_TREE` while it is not packed.
    pub(super) trees: Vec<u16>,
    /// Leaves and their links: to trees in two stages, to groups of trees in three.
    pub(super) leaves: Matrix,
    /// Three stages: for each group of trees the pods' links to the trees.
    pub(super) pods: Vec<Matrix>,
    /// Connections that changed and the tree that each had before, oldest first.
    pub(super) journal: Vec<(u32, u16)>,
    /// By connection, the last time that the journal was abridged with it in it; and that time.
    abridged: Vec<u32>,
    abridgement: u32,
    packed: usize,
    /// How many packed connections are kept from some tree by anything but cables.
    bound: usize,
}

impl State {
    pub(super) fn new(shape: Shape) -> Self {
        let pods = |group| {
            let is_tree = |column| shape.tree_of(group, column) != TreeId(NO_TREE);
            Matrix::new(shape.pods(), shape.largest_group(), |_, column| is_tree(column))
        };
        let groups = if shape.is_three_stage() { shape.groups() } else { 0 };
        let places = shape.places();
        Self {
            leaves: Matrix::new(shape.leaves(), shape.groups(), |l, g| shape.reaches_group(l, g)),
            pods: (0..groups).map(pods).collect(),
            shape,
            connections: Vec::with_capacity(places),
            trees: Vec::with_capacity(places),
            journal: Vec::with_capacity(JOURNAL * places),
            abridged: Vec::with_capacity(places),
            abridgement: 0,
            packed: 0,
            bound: 0,
        }
    }

    /// Removes all connections, at the cost of clearing the tables.
    pub(super) fn clear(&mut self) {
        self.leaves.clear();
        self.pods.iter_mut().for_each(Matrix::clear);
        self.trees.fill(NO_TREE);
        self.journal.clear();
        (self.packed, self.bound) = (0, 0);
    }

    pub(super) fn get(&self, id: u32) -> &Connection {
        &self.connections[id as usize]
    }

    pub(super) fn is_packed(&self, id: u32) -> bool {
        self.trees.get(id as usize).is_some_and(|&tree| tree != NO_TREE)
    }

    /// How many connections are packed.
    pub(super) const fn packed_count(&self) -> usize {
        self.packed
    }

    /// Whether every packed connection may go wherever there is a cable, and in three stages there are
    /// all: then chains need not ask.
    pub(super) const fn is_plain(&self) -> bool {
        self.bound == 0 && (!self.shape.is_three_stage() || self.shape.is_whole())
    }

    /// All packed connections, by number.
    pub(super) fn packed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.trees.len() as u32).filter(|&id| self.is_packed(id))
    }

    /// How many numbers there are.
    pub(super) const fn numbers(&self) -> usize {
        self.trees.len()
    }

    /// Makes room for connections numbered below `numbers`.
    pub(super) fn reserve(&mut self, numbers: usize) {
        if numbers > self.trees.len() {
            self.connections.resize(numbers, Connection::default());
            self.trees.resize(numbers, NO_TREE);
            self.abridged.resize(numbers, 0);
        }
    }

    /// Makes a connection known that is not packed yet; there must be room for its number.
    pub(super) fn learn(&mut self, request: &Request) {
        self.connections[request.id.index()] = Connection::of(request);
    }

    /// The trees that a connection may use, as a set.
    pub(super) fn effective(&self, id: u32) -> impl Iterator<Item = u64> + '_ {
        let c = self.get(id);
        let (source, destination) = c.leaves();
        self.shape.effective(source, destination, c.allowed())
    }

    /// Its trees where it may get by with pushing out one other. In two stages: where one of its links is
    /// free, or what `pusher` leaves.
    pub(super) fn nearly_free(
        &self,
        id: u32,
        pusher: Option<u32>,
    ) -> impl Iterator<Item = u64> + '_ {
        let (c, is_two_stage) = (self.get(id), !self.shape.is_three_stage());
        let (up, down) = (self.leaves.free_up(c.source()), self.leaves.free_down(c.destination()));
        let left = pusher.map_or(NO_TREE, |pusher| self.trees[pusher as usize]);
        let left = usize::from(left);
        self.effective(id).enumerate().map(move |(word, trees): (usize, u64)| {
            let left = if left / 64 == word { 1 << (left % 64) } else { 0 };
            if is_two_stage { trees & (up[word] | down[word] | left) } else { trees }
        })
    }

    /// The trees that a connection may use.
    pub(super) fn allowed_trees(&self, id: u32) -> impl Iterator<Item = usize> + '_ {
        sets::members(self.effective(id)).map(|place| self.shape.tree_at(place).index())
    }

    pub(super) fn allows(&self, id: u32, tree: usize) -> bool {
        let c = self.get(id);
        let (source, destination) = c.leaves();
        self.shape.allows(source, destination, c.allowed(), TreeId(tree as u16))
    }

    /// The leaves where a connection starts and ends.
    pub(super) fn ends(&self, id: u32) -> (usize, usize) {
        let c = self.get(id);
        (c.source(), c.destination())
    }

    /// The pods at both ends, where the connection leaves its pod at all.
    pub(super) fn pods_of(&self, id: u32) -> Option<(usize, usize)> {
        let c = self.get(id);
        self.shape.pods_between(c.source(), c.destination())
    }

    fn group(&self, tree: usize) -> usize {
        self.shape.group_of(TreeId(tree as u16))
    }

    fn column(&self, tree: usize) -> usize {
        self.shape.column_of(TreeId(tree as u16))
    }

    /// The connections, other than itself, whose links `id` would need on `tree`.
    pub(super) fn blockers(&self, id: u32, tree: usize) -> Blockers {
        let (c, group) = (self.get(id), self.group(tree));
        let mut blockers = Blockers::default();
        let mut add = |owner| {
            if owner != id {
                blockers.add(owner);
            }
        };
        add(self.leaves.owner_up(c.source(), group));
        add(self.leaves.owner_down(c.destination(), group));
        if let Some((up, down)) = self.pods_of(id) {
            let column = self.column(tree);
            add(self.pods[group].owner_up(up, column));
            add(self.pods[group].owner_down(down, column));
        }
        blockers
    }

    /// Whether `a` on `tree_a` and `b` on `tree_b` would want one link.
    pub(super) fn collide(&self, a: u32, tree_a: usize, b: u32, tree_b: usize) -> bool {
        let (ca, cb) = (self.get(a), self.get(b));
        let same_leaf = ca.source == cb.source || ca.destination == cb.destination;
        if same_leaf && self.group(tree_a) == self.group(tree_b) {
            return true;
        }
        let same_pod = || match (self.pods_of(a), self.pods_of(b)) {
            (Some((up_a, down_a)), Some((up_b, down_b))) => up_a == up_b || down_a == down_b,
            _ => false,
        };
        tree_a == tree_b && same_pod()
    }

    /// The first allowed tree all of whose links are free.
    pub(super) fn first_free(&self, id: u32) -> Option<usize> {
        let c = self.get(id);
        let common = self.leaves.common(c.source(), c.destination());
        if self.shape.is_three_stage() {
            return sets::members(common).find_map(|group| self.first_free_in_group(id, group));
        }
        let allowed = self.shape.set(c.allowed());
        sets::first(common.zip(allowed).map(|(free, &allowed)| free & allowed))
    }

    /// Three stages: the first allowed tree of a group whose links to the cores are free.
    pub(super) fn first_free_in_group(&self, id: u32, group: usize) -> Option<usize> {
        let wanted = self.effective_in_group(id, group);
        let column = match self.pods_of(id) {
            None => sets::first(wanted),
            Some((up, down)) => {
                let free = self.pods[group].common(up, down);
                sets::first(wanted.zip(free).map(|(wanted, free)| wanted & free))
            }
        };
        column.map(|column| self.shape.tree_of(group, column).index())
    }

    /// Three stages: the trees of a group that a connection may use, as columns.
    pub(super) fn effective_in_group(
        &self,
        id: u32,
        group: usize,
    ) -> impl Iterator<Item = u64> + '_ {
        let c = self.get(id);
        let (source, destination) = c.leaves();
        let part = |set| self.shape.part(set, group).iter();
        let (up, down) = (part(self.shape.usable(source)), part(self.shape.usable(destination)));
        let set = part(self.shape.set(c.allowed()));
        set.zip(up).zip(down).map(|((&set, &up), &down)| set & up & down)
    }

    /// Puts an unpacked connection on a tree whose links are free.
    pub(super) fn place(&mut self, id: u32, tree: usize) {
        self.journal.push((id, NO_TREE));
        self.set_tree(id, tree as u16);
    }

    /// Takes a packed connection off its tree.
    pub(super) fn lift(&mut self, id: u32) {
        self.journal.push((id, self.trees[id as usize]));
        self.set_tree(id, NO_TREE);
    }

    /// Takes a connection off its tree if it has one.
    pub(super) fn lift_if_packed(&mut self, id: u32) {
        if self.is_packed(id) {
            self.lift(id);
        }
    }

    /// Puts an unpacked connection on a tree if its links are free.
    pub(super) fn place_if_free(&mut self, id: u32, tree: usize) -> bool {
        let free = self.blockers(id, tree).ids().is_empty();
        if free {
            self.place(id, tree);
        }
        free
    }

    /// Moves the connections of a chain of leaves, in two stages.
    pub(super) fn exchange_leaves(&mut self, chain: Chain) {
        let Self { leaves, trees, journal, .. } = self;
        let mark = journal.len();
        leaves.exchange(chain, |id, tree| {
            journal.push((id, trees[id as usize]));
            trees[id as usize] = tree as u16;
        });
        self.all_moved_at_once(mark);
    }

    /// Moves the connections of a chain of pods within a group of trees.
    pub(super) fn exchange_pods(&mut self, group: usize, chain: Chain) {
        let Self { shape, pods, trees, journal, .. } = self;
        let mark = journal.len();
        pods[group].exchange(chain, |id, column| {
            journal.push((id, trees[id as usize]));
            trees[id as usize] = shape.tree_of(group, column).0;
        });
        self.all_moved_at_once(mark);
    }

    /// Taken back one by one, those of a chain would meet: all go before any comes back.
    fn all_moved_at_once(&mut self, mark: usize) {
        for at in mark..self.journal.len() {
            self.journal.push((self.journal[at].0, NO_TREE));
        }
    }

    /// Three stages: gives back the links of a group that a connection holds which got no tree there.
    pub(super) fn leave_group(&mut self, id: u32, group: usize) {
        let c = *self.get(id);
        self.trees[id as usize] = NO_TREE;
        self.packed -= 1;
        self.leaves.release(c.source(), c.destination(), group);
    }

    /// Counts connections that were packed matrix by matrix, of which none is bound.
    pub(super) fn count(&mut self, packed: usize) {
        self.packed += packed;
    }

    /// Takes back everything since the journal was `mark` long.
    pub(super) fn roll_back(&mut self, mark: usize) {
        while self.journal.len() > mark {
            if let Some((id, before)) = self.journal.pop() {
                self.set_tree(id, before);
            }
        }
    }

    /// Makes room in the journal where it is short of it: only what it says first of each connection stays.
    /// What came before can then not be rolled back, only [restored](Self::restore).
    pub(super) fn abridge(&mut self) {
        let Self { journal, abridged, abridgement, .. } = self;
        if journal.len() <= journal.capacity() / 2 {
            return;
        }
        *abridgement = abridgement.wrapping_add(1);
        if *abridgement == 0 {
            abridged.fill(0);
            *abridgement = 1;
        }
        journal.retain(|&(id, _)| {
            std::mem::replace(&mut abridged[id as usize], *abridgement) != *abridgement
        });
    }

    /// Puts every connection where a copy of the table of trees has it.
    pub(super) fn restore(&mut self, trees: &[u16]) {
        self.abridge();
        for (id, &tree) in (0..).zip(trees) {
            if self.is_packed(id) && self.trees[id as usize] != tree {
                self.lift(id);
            }
        }
        for (id, &tree) in (0..).zip(trees) {
            if tree != NO_TREE && !self.is_packed(id) {
                self.place(id, tree.into());
            }
        }
    }

    fn set_tree(&mut self, id: u32, tree: u16) {
        let c = *self.get(id);
        let before = std::mem::replace(&mut self.trees[id as usize], tree);
        let pods = self.pods_of(id);
        if before != NO_TREE {
            let tree = usize::from(before);
            let group = self.group(tree);
            self.leaves.release(c.source(), c.destination(), group);
            if let Some((up, down)) = pods {
                let column = self.column(tree);
                self.pods[group].release(up, down, column);
            }
            self.packed -= 1;
            self.bound -= usize::from(c.is_bound());
        }
        if tree != NO_TREE {
            let tree = usize::from(tree);
            let group = self.group(tree);
            self.leaves.take(c.source(), c.destination(), group, id);
            if let Some((up, down)) = pods {
                let column = self.column(tree);
                self.pods[group].take(up, down, column, id);
            }
            self.packed += 1;
            self.bound += usize::from(c.is_bound());
        }
    }

    /// Why an unpacked connection has no tree, in words for a person.
    pub(super) fn why_deferred(&self, id: u32) -> Deferral {
        let c = self.get(id);
        let none = |free: &[u64]| free.iter().all(|&word| word == 0);
        if none(self.leaves.free_up(c.source())) {
            Deferral::SourceFull
        } else if none(self.leaves.free_down(c.destination())) {
            Deferral::DestinationFull
        } else if c.pinned() {
            Deferral::PinnedAway
        } else {
            Deferral::NoTreeFreed
        }
    }
}
