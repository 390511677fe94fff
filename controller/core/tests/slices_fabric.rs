//! Slices on routed fabrics: jobs send inside their slices, all at once, along the tables' own routes, and
//! the fabric's independent checker finds one owner a link.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{ConnectionId, LeafId, Packer, Request, Shape};
use snin_controller_core::plan::packing_shape;
use snin_controller_core::slices::{JobId, Limits, Slice, Slices};
use snin_fabric::check::owner::{PlannedPath, owner};
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{NodeIndex, PortNum, Topology, TreeId};

struct Fabric {
    topology: Topology,
    routing: Routing,
    shape: Shape,
    leaf_of_host: Vec<LeafId>,
}

impl Fabric {
    fn new(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let (shape, leaf_of_host) = packing_shape(&topology, &routing).unwrap();
        Self { topology, routing, shape, leaf_of_host }
    }

    /// The way of a packet by the tables.
    fn path(&self, from: HostId, to: HostId, tree: TreeId) -> PlannedPath {
        let (source, destination) =
            (self.routing.hosts.get(from).unwrap(), self.routing.hosts.get(to).unwrap());
        let dlid = self.routing.plan.dlid(destination.port, tree).unwrap().0;
        let mut path: Vec<(NodeIndex, PortNum)> = Vec::new();
        let mut switch = source.switch;
        loop {
            let port = self.routing.tables[switch.index()].get(dlid);
            path.push((switch, port));
            let out = self.topology.port_of(switch, port).unwrap();
            let next = self.topology.peer_node(out).unwrap();
            if !self.topology.is_switch(next) {
                return PlannedPath {
                    source: source.port,
                    destination: destination.port,
                    dlid,
                    path,
                };
            }
            switch = next;
        }
    }

    /// A random permutation inside a job, packed on the job's pairs alone.
    fn permute(&self, slices: &Slices, slice: &Slice, rng: &mut ChaCha8Rng) -> Vec<PlannedPath> {
        let pairs = slices.pairs(slice);
        let mut shape = self.shape.clone();
        for leaf in (0..shape.leaves() as u32).map(LeafId) {
            for tree in (0..shape.trees() as u16).map(TreeId) {
                if !pairs.contains(&(leaf, tree)) {
                    shape.set_unusable(leaf, tree);
                }
            }
        }
        let mut to = slice.hosts().to_vec();
        to.shuffle(rng);
        let leaf = |host: HostId| self.leaf_of_host[host.index()];
        let request = |(id, (&from, &to)): (usize, (&HostId, &HostId))| {
            Request::new(id as u32, leaf(from), leaf(to))
        };
        let ends: Vec<(&HostId, &HostId)> = slice.hosts().iter().zip(&to).collect();
        let requests = ends.iter().copied().enumerate().map(request);
        let requests: Vec<Request> = requests.filter(|r| r.source != r.destination).collect();
        let mut packer = Packer::new(shape);
        let outcome = packer.apply(&[], &requests);
        assert_eq!(outcome.granted.len(), requests.len());
        let path = |&(id, tree): &(ConnectionId, TreeId)| {
            let (&from, &to) = ends[id.index()];
            self.path(from, to, tree)
        };
        outcome.granted.iter().map(path).collect()
    }
}

#[test]
fn jobs_never_meet_on_a_link() {
    for recipe in
        ["clos:8,4,4", "clos:6,3,6,2", "clos:5,8,4", "fattree:4", "fattree:6,5", "fattree:8"]
    {
        let fabric = Fabric::new(recipe);
        for seed in 0..10 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut slices =
                Slices::new(&fabric.shape, &fabric.leaf_of_host, Limits::default()).unwrap();
            for job in 0..60 {
                let _ = slices.allocate(JobId(job), rng.random_range(1..14));
                if rng.random_bool(0.4) {
                    slices.release(JobId(rng.random_range(0..=job)));
                }
            }
            let paths: Vec<PlannedPath> =
                slices.iter().flat_map(|(_, s)| fabric.permute(&slices, s, &mut rng)).collect();
            let (plan, tables) = (&fabric.routing.plan, &fabric.routing.tables);
            let report = owner(&fabric.topology, plan.addresses(), tables, &paths, 3);
            assert!(report.is_ok() && report.max_link_load <= 1, "{recipe}, {seed}: {report}");
            assert!(!paths.is_empty(), "{recipe}, {seed}");
        }
    }
}
