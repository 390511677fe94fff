use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::{credit, walk};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lmc, PortIndex};

use super::*;

/// A fabric on its way from one routing to another.
struct Change {
    topology: Topology,
    new: Routing,
    shadows: Vec<LftShadow>,
}

impl Change {
    /// Some cables are cut before, others after; some switches hold nothing.
    fn new(recipe: &str, engine: Engine, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let whole = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let lmc = Lmc::new(if engine == Engine::Trees { random.random_range(0..3) } else { 0 });
        let mut cut = || -> Vec<PortIndex> {
            let trunks = whole.ports().filter(|&port| {
                let peer = whole.peer_node(port);
                whole.is_switch(whole.port(port).node) && peer.is_some_and(|p| whole.is_switch(p))
            });
            let most = random.random_range(0..4);
            trunks.sample(&mut random, most)
        };
        let (before, topology) = (whole.without_cables(&cut()), whole.without_cables(&cut()));
        let old = Routing::compute(&before, engine, lmc).unwrap();
        let new = Routing::compute(&topology, Engine::Trees, lmc).unwrap();
        let shadow = |table: &ForwardingTable| {
            let empty = random.random_bool(0.1);
            let top = old.plan.addresses().top();
            let mut shadow = LftShadow::unread(if empty { Lid::NONE } else { top });
            (0..=top.0 / BLOCK as u16).for_each(|b| shadow.set_block(b, table.block(b)));
            shadow
        };
        let shadows = old.tables.iter().map(shadow).collect();
        Self { topology, new, shadows }
    }

    fn order(&self) -> Order {
        order(
            &Tables {
                topology: &self.topology,
                ranks: self.new.ranks.as_ref().unwrap(),
                held: self.shadows.iter().collect(),
                wanted: &self.new.tables,
                top: self.new.plan.addresses().top(),
                moved: &BTreeSet::new(),
                replacing: None,
            },
            &[Lid(1)],
        )
    }

    fn write(&mut self, write: &Write) {
        let shadow = &mut self.shadows[write.switch.index()];
        let table = &self.new.tables[write.switch.index()];
        match &write.what {
            What::Block(block) => shadow.set_block(*block, table.block(*block)),
            What::Dropping(block, ports) => shadow.set_block(*block, ports),
            What::Top => shadow.set_top(self.new.plan.addresses().top()),
        }
    }

    #[track_caller]
    fn check(&self) {
        let addresses = self.new.plan.addresses();
        let held = |shadow: &LftShadow| {
            let entries = (0..=addresses.top().0).map(|lid| shadow.forwards(Lid(lid)));
            ForwardingTable::of_entries(&entries.collect::<Vec<u8>>())
        };
        let tables: Vec<ForwardingTable> = self.shadows.iter().map(held).collect();
        assert_eq!(walk(&self.topology, addresses, &tables, 3).looped, 0);
        let credits = credit(&self.topology, addresses, &tables, Traffic::All, |_, _| 0);
        assert!(credits.is_ok(), "{credits}");
    }
}

/// The writes in any order that keeps to what waits for what, each state looked at.
fn play(mut change: Change, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let order = change.order();
    // What another manager left behind may be entangled before the first write.
    let mut left: Vec<&Write> = order.retire.iter().collect();
    while !left.is_empty() {
        let write = left.remove(random.random_range(0..left.len()));
        change.write(write);
    }
    change.check();
    let mut left: BTreeSet<u32> = (0..order.writes.len() as u32).collect();
    while !left.is_empty() {
        let waits =
            |n: u32| order.after.iter().any(|&(first, then)| then == n && left.contains(&first));
        let free = left.iter().copied().filter(|&n| !waits(n));
        let next = free.choose(&mut random).expect("the writes wait for each other in a circle");
        left.remove(&next);
        change.write(&order.writes[next as usize]);
        change.check();
    }
    let (top, tables) = (change.new.plan.addresses().top(), &change.new.tables);
    for (shadow, table) in change.shadows.iter().zip(tables) {
        assert!((0..=top.0).all(|lid| shadow.forwards(Lid(lid)) == table.get(Lid(lid)).0));
    }
}

#[test]
fn no_state_on_the_way_is_entangled() {
    let fabrics = ["clos:4,3,2", "clos:3,2,2,2", "fattree:4", "fattree:4,3"];
    for seed in 0..120 {
        let recipe = fabrics[seed as usize % fabrics.len()];
        play(Change::new(recipe, Engine::Trees, seed), seed);
    }
}

/// Where there are no trees, ranks may be others after a cut; and so may the routes beside gaps of a Clos.
#[test]
fn no_state_on_the_way_is_entangled_without_trees() {
    let fabrics = ["torus:4,3,1", "random:10,4,1,2", "dragonfly:3,2,2", "clos:4,3,2,2"];
    for seed in 0..60 {
        let recipe = fabrics[seed as usize % fabrics.len()];
        play(Change::new(recipe, Engine::Trees, seed), seed);
    }
}

#[test]
fn whatever_another_manager_left_is_retired_first() {
    for seed in 0..60 {
        let recipe = ["clos:4,3,2", "fattree:4"][seed as usize % 2];
        play(Change::new(recipe, Engine::MinHop, seed), seed);
    }
}

#[test]
fn what_is_there_already_is_not_written() {
    let mut change = Change::new("clos:4,3,2", Engine::Trees, 1);
    let order = change.order();
    order.retire.iter().chain(&order.writes).for_each(|write| change.write(write));
    assert_eq!(change.order(), Order::default());
}
