//! Nothing is allocated after the start, and what is there is compact. One test only: it counts what the
//! whole process allocates.

use std::alloc::System;

use rand::RngExt;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use snin_controller::packing::{
    Alone, Certificate, ConnectionId, LeafId, Packer, Request, SetId, Shape, Workers,
};
use snin_controller::threads::Threads;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// More than the 65,536 hosts of the largest fabric need, with everything that packing takes.
const MOST_BYTES: usize = 16 << 20;

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
    let request = |(id, to): (u32, u32)| Request {
        id: ConnectionId(id),
        source: LeafId(id / hosts),
        destination: LeafId(to / hosts),
        allowed: SetId::ALL,
        pinned: false,
        tree: None,
    };
    (0..).zip(to).map(request).filter(|r| r.source != r.destination).collect()
}

#[test]
fn nothing_is_allocated_after_the_start_and_65_536_hosts_fit_into_megabytes() {
    let two = Threads::new(2);
    let workers: [&dyn Workers; 2] = [&Alone, &two];
    for fabric in FABRICS {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let patterns = [(); 4].map(|()| permutation(fabric, &mut rng));
        let begin = Region::new(ALLOCATOR);
        let mut packer = Packer::new(shape(fabric));
        let mut certificate = Certificate::default();
        packer.certify(&mut certificate);
        let made = begin.change();
        let held = made.bytes_allocated - made.bytes_deallocated;
        assert!(held < MOST_BYTES, "{held} bytes for {fabric:?}");
        // What the threads need is there once they were asked.
        two.run(|| ());
        let all = patterns.iter().map(Vec::len).min().unwrap();
        let replaced: Vec<usize> = (0..64).map(|_| rng.random_range(0..all)).collect();
        two.run(|| {
            let after = Region::new(ALLOCATOR);
            for (pattern, workers) in patterns.iter().zip(workers.into_iter().cycle()) {
                packer.clear();
                let granted = packer.apply_with(workers, &[], pattern).granted.len();
                assert_eq!(granted, pattern.len());
                // One by one, and a window of many.
                for &at in &replaced {
                    packer.apply(&[pattern[at].id], &[]);
                    assert_eq!(packer.apply(&[], &pattern[at..=at]).granted.len(), 1);
                }
                let half = &pattern[..pattern.len() / 2];
                for request in half {
                    packer.apply(&[request.id], &[]);
                }
                assert_eq!(packer.apply(&[], half).granted.len(), half.len());
                packer.certify(&mut certificate);
            }
            let change = after.change();
            assert_eq!(
                (change.allocations, change.reallocations),
                (0, 0),
                "{fabric:?}: {change:?}"
            );
        });
    }
}
