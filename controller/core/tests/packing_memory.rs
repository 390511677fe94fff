//! Nothing is allocated after the start, and what is there is compact. One test only: it counts what the
//! whole process allocates.

use std::alloc::System;

use rand::seq::index::sample;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{Certificate, LeafId, Packer, Request, SetId, Shape};
use snin_fabric::TreeId;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// More than the 65,536 hosts of the largest fabric need, with everything that packing takes.
const MOST_BYTES: usize = 24 << 20;

/// Leaves, hosts a leaf, and leaves of a pod in three stages.
const FABRICS: [(u32, u32, Option<u32>); 4] =
    [(36, 18, None), (12, 70, None), (72, 6, Some(6)), (2048, 32, Some(32))];

fn shape((leaves, hosts, pod): (u32, u32, Option<u32>)) -> Shape {
    match pod {
        None => Shape::two_stage(leaves as usize, hosts as usize),
        Some(pod) => {
            let pods = (0..leaves).map(|leaf| leaf / pod).collect();
            Shape::three_stage(pods, (0..hosts * pod).map(|tree| tree / pod).collect())
        }
    }
}

/// A random permutation, less what stays within a leaf.
fn permutation((leaves, hosts, _): (u32, u32, Option<u32>), rng: &mut ChaCha8Rng) -> Vec<Request> {
    let mut to: Vec<u32> = (0..leaves * hosts).collect();
    to.shuffle(rng);
    let request = |(id, to): (u32, u32)| Request::new(id, LeafId(id / hosts), LeafId(to / hosts));
    (0..).zip(to).map(request).filter(|r| r.source != r.destination).collect()
}

/// Runs something that must allocate nothing.
fn allocates_nothing<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let value = run();
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{what}: {change:?}");
    value
}

/// A program without the test harness: its own thread allocates beside a test, which would be counted here.
fn main() {
    for fabric in FABRICS {
        whole_fabrics(fabric);
    }
    for (leaves, hosts, pod) in [(36, 18, None), (72, 6, Some(6))] {
        cut_fabrics((leaves, hosts, pod), 60);
    }
    short_lists();
}

/// Whole patterns, windows of one and of many, certificates.
fn whole_fabrics(fabric: (u32, u32, Option<u32>)) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let patterns = [(); 4].map(|()| permutation(fabric, &mut rng));
    let begin = Region::new(ALLOCATOR);
    let mut packer = Packer::new(shape(fabric));
    let mut certificate = Certificate::default();
    packer.certify(&mut certificate);
    let made = begin.change();
    let held = made.bytes_allocated - made.bytes_deallocated;
    assert!(held < MOST_BYTES, "{held} bytes for {fabric:?}");
    let all = patterns.iter().map(Vec::len).min().unwrap();
    let replaced: Vec<usize> = (0..64).map(|_| rng.random_range(0..all)).collect();
    allocates_nothing(&format!("{fabric:?}"), || {
        for pattern in &patterns {
            packer.clear();
            assert_eq!(packer.apply(&[], pattern).granted.len(), pattern.len());
            replace(&mut packer, pattern, &replaced);
            let half = &pattern[..pattern.len() / 2];
            for request in half {
                packer.apply(&[request.id], &[]);
            }
            assert_eq!(packer.apply(&[], half).granted.len(), half.len());
            packer.certify(&mut certificate);
        }
    });
}

/// Connections that go and come again, one by one.
fn replace(packer: &mut Packer, pattern: &[Request], replaced: &[usize]) {
    for &at in replaced {
        packer.apply(&[pattern[at].id], &[]);
        packer.apply(&[], &pattern[at..=at]);
    }
}

/// More at leaves than they have links for, connections that nothing but the last resort finds a tree for,
/// few addresses, pinned ones in the way, numbers asked for twice.
fn cut_fabrics(fabric: (u32, u32, Option<u32>), cuts: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut shape = shape(fabric);
    let trees = shape.trees();
    for cut in sample(&mut rng, shape.leaves() * trees, cuts) {
        shape.set_unusable(LeafId((cut / trees) as u32), TreeId((cut % trees) as u16));
    }
    let mut set = || sample(&mut rng, trees, trees / 2).into_iter().map(|tree| TreeId(tree as u16));
    let sets: Vec<SetId> = (0..20).map(|_| shape.add_set(set().collect::<Vec<_>>())).collect();
    let mut packer = Packer::new(shape);
    let mut certificate = packer.certificate();
    let mut deferred = 0;
    for round in 0..6 {
        let mut pattern = permutation(fabric, &mut rng);
        for request in &mut pattern {
            if round % 3 > 0 {
                request.allowed = *sets.choose(&mut rng).unwrap();
            }
            if round % 3 > 1 && rng.random_bool(0.1) {
                request.pinned = true;
                request.tree = Some(TreeId(rng.random_range(0..trees) as u16));
            }
        }
        let mut twice = pattern[..pattern.len() / 2].to_vec();
        twice.extend_from_within(..10);
        let replaced: Vec<usize> = (0..64).map(|_| rng.random_range(0..pattern.len())).collect();
        allocates_nothing(&format!("{fabric:?}, {cuts} cuts, round {round}"), || {
            packer.clear();
            deferred += packer.apply(&[], &pattern).deferred.len();
            replace(&mut packer, &pattern, &replaced);
            packer.apply(&[], &twice);
            packer.certify(&mut certificate);
        });
    }
    assert!(deferred > 0, "the last resort was not asked");
}

/// Sets of trees no longer than the larger degree of the leaves: the list colouring theorem must help where
/// nothing else does.
fn short_lists() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (leaves, trees) = (5, 6);
    let mut shape = Shape::two_stage(leaves, trees);
    let sets: Vec<SetId> = (0u32..1 << trees)
        .map(|set| shape.add_set((0..6).filter(|tree| set >> tree & 1 != 0).map(TreeId)))
        .collect();
    let mut packer = Packer::new(shape);
    for round in 0..2000 {
        let mut pattern: Vec<Request> = Vec::new();
        let degree = |pattern: &[Request], leaf, end: fn(&Request) -> LeafId| {
            pattern.iter().filter(|request| end(request) == leaf).count()
        };
        for id in 0..rng.random_range(10..25) {
            let ends = sample(&mut rng, leaves, 2);
            let [source, destination] = [0, 1].map(|end| LeafId(ends.index(end) as u32));
            let full =
                degree(&pattern, source, |r| r.source)
                    .max(degree(&pattern, destination, |r| r.destination))
                    >= 4;
            if !full {
                pattern.push(Request::new(id, source, destination));
            }
        }
        let needs: Vec<usize> = pattern
            .iter()
            .map(|request| {
                let up = degree(&pattern, request.source, |r| r.source);
                up.max(degree(&pattern, request.destination, |r| r.destination))
            })
            .collect();
        for (request, need) in pattern.iter_mut().zip(needs) {
            let set =
                sample(&mut rng, trees, need).into_iter().map(|tree| 1 << tree).sum::<usize>();
            request.allowed = sets[set];
        }
        allocates_nothing(&format!("short lists, round {round}"), || {
            packer.clear();
            assert_eq!(packer.apply(&[], &pattern).granted.len(), pattern.len(), "round {round}");
        });
    }
}
