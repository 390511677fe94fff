//! Any traffic of a job fits into its slice and touches no other job's, and what is refused cannot be had.

mod slices_checker;

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use slices_checker::{Fabric, exists, exists_on, jobs, owners, subsets};
use snin_controller_core::packing::{ConnectionId, LeafId, Link, Packer, Request};
use snin_controller_core::slices::{JobId, Limits, Refusal, Slices, generate, replay};
use snin_fabric::hosts::HostId;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn slices(fabric: &Fabric, work: u32) -> Slices {
    let shape = fabric.shape(|leaf, tree| fabric.is_cabled(leaf, tree));
    Slices::new(&shape, &fabric.leaf_of_host(), Limits { work }).unwrap()
}

/// Packs a random permutation of every job's hosts on the job's pairs alone: everything is granted, and no
/// link has two owners, not even across jobs.
fn pack_permutations(fabric: &Fabric, slices: &Slices, rng: &mut ChaCha8Rng) {
    let mut owner: BTreeMap<Link, (JobId, ConnectionId)> = BTreeMap::new();
    for (job, (hosts, pairs)) in jobs(slices) {
        let mut to = hosts.clone();
        to.shuffle(rng);
        let leaf = |host: HostId| LeafId(fabric.leaf_of(host) as u32);
        let between = hosts.iter().zip(&to).filter(|&(&from, &to)| leaf(from) != leaf(to));
        let requests: Vec<Request> = between
            .enumerate()
            .map(|(id, (&from, &to))| Request::new(id as u32, leaf(from), leaf(to)))
            .collect();
        let mut packer = Packer::new(fabric.shape(|leaf, tree| pairs.contains(&(leaf, tree))));
        let outcome = packer.apply(&[], &requests);
        assert_eq!(
            outcome.granted.len(),
            requests.len(),
            "{fabric:?} {job:?} {pairs:?} {outcome:?}"
        );
        let certificate = packer.certificate();
        for (link, connection) in certificate.owners() {
            assert_eq!(owner.insert(link, (job, connection)), None, "{link:?}");
        }
    }
}

fn fabrics() -> Vec<Fabric> {
    vec![
        Fabric::new(1, 4, 3, 3, 1),
        Fabric::new(1, 8, 4, 4, 1),
        Fabric::new(1, 5, 4, 2, 1),
        Fabric::new(1, 6, 2, 5, 1),
        Fabric::new(2, 2, 2, 2, 2),
        Fabric::new(4, 2, 2, 2, 2),
        Fabric::new(3, 3, 3, 3, 3),
        Fabric::new(3, 2, 3, 2, 1),
        Fabric::new(2, 4, 2, 2, 3),
    ]
}

fn cut(fabric: &Fabric, cables: usize, rng: &mut ChaCha8Rng) -> Fabric {
    let mut cut = fabric.clone();
    for _ in 0..cables {
        let leaf = rng.random_range(0..fabric.all_leaves());
        let tree = rng.random_range(0..fabric.trees());
        // Either the leaf's cable or the pod's, and with it what hangs on it.
        if fabric.pods == 1 || rng.random_bool(0.5) {
            let group = tree / fabric.cores;
            cut.missing
                .extend((group * fabric.cores..(group + 1) * fabric.cores).map(|t| (leaf, t)));
        } else {
            let pod = fabric.pod(leaf) * fabric.leaves;
            cut.missing.extend((pod..pod + fabric.leaves).map(|leaf| (leaf, tree)));
        }
    }
    cut
}

/// Jobs come and go. Every slice is judged, and so is every refusal.
fn come_and_go(fabric: &Fabric, seed: u64, steps: usize) -> (usize, usize) {
    let mut rng = rng(seed);
    let mut slices = slices(fabric, Limits::default().work);
    let mut refused = 0;
    let mut granted = 0;
    for step in 0..steps as u64 {
        let known: Vec<JobId> = slices.iter().map(|(job, _)| job).collect();
        if !known.is_empty() && rng.random_bool(0.4) {
            assert!(slices.release(known[rng.random_range(0..known.len())]));
            continue;
        }
        let wanted = rng.random_range(1..=fabric.hosts * 3);
        let free = slices.free_hosts();
        match slices.allocate(JobId(step), wanted as u32) {
            Ok(slice) => {
                assert_eq!(slice.hosts().len(), wanted);
                granted += 1;
                owners(fabric, &slices);
                pack_permutations(fabric, &slices, &mut rng);
            }
            Err(Refusal::TooFewHosts { .. }) => assert!(wanted as u32 > free),
            Err(Refusal::NoLinks) => {
                refused += 1;
                assert!(
                    !exists(fabric, &slices, wanted),
                    "{fabric:?}, step {step}: {wanted} hosts"
                );
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    (granted, refused)
}

#[test]
fn slices_hold_any_traffic_and_refusals_are_right() {
    let (mut granted, mut refused) = (0, 0);
    for fabric in fabrics() {
        for seed in 0..6 {
            let cut = cut(&fabric, seed as usize % 3 * 2, &mut rng(seed));
            let (g, r) = come_and_go(&cut, seed, 60);
            granted += g;
            refused += r;
        }
    }
    assert!(granted > 1000 && refused > 100, "{granted} granted, {refused} refused");
}

/// Hosts chosen elsewhere, well or badly.
#[test]
fn chosen_hosts_get_links_whenever_there_are_any() {
    let (mut granted, mut refused) = (0, 0);
    for fabric in fabrics() {
        for seed in 0..20 {
            let mut rng = rng(seed);
            let fabric = cut(&fabric, seed as usize % 4, &mut rng);
            let mut slices = slices(&fabric, 0);
            let mut order: Vec<HostId> = (0..fabric.all_hosts() as u32).map(HostId).collect();
            order.shuffle(&mut rng);
            let mut job = 0;
            while !order.is_empty() {
                let hosts = order.split_off(order.len() - rng.random_range(1..=order.len().min(7)));
                let mut counts = vec![0; fabric.all_leaves()];
                hosts.iter().for_each(|&host| counts[fabric.leaf_of(host)] += 1);
                let possible = exists_on(&fabric, &slices, &counts);
                job += 1;
                match slices.allocate_on(JobId(job), &hosts).map(drop) {
                    Ok(()) => {
                        assert!(possible, "{fabric:?} {counts:?}");
                        owners(&fabric, &slices);
                        pack_permutations(&fabric, &slices, &mut rng);
                        granted += 1;
                    }
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::NoLinks);
                        assert!(!possible, "{fabric:?} {counts:?}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(granted > 300 && refused > 100, "{granted} granted, {refused} refused");
}

/// In an empty fabric a job has as many links as connections can leave its leaves, and no more.
#[test]
fn as_few_links_as_the_hosts_on_each_leaf_need() {
    let fabric = Fabric::new(1, 8, 4, 4, 1);
    for (hosts, links) in [(1, 0), (4, 0), (5, 2), (6, 4), (8, 8), (9, 9), (11, 11), (32, 32)] {
        let mut slices = slices(&fabric, 1 << 20);
        assert_eq!(slices.allocate(JobId(0), hosts).unwrap().link_count(), links, "{hosts} hosts");
    }
    // In several pods, as many again from pods to cores.
    let mut slices = slices(&Fabric::new(4, 2, 2, 2, 2), 1 << 20);
    assert_eq!(slices.allocate(JobId(0), 16).unwrap().link_count(), 32);
}

#[test]
fn everything_comes_back() {
    for fabric in fabrics() {
        let mut rng = rng(3);
        let mut slices = slices(&fabric, 1 << 16);
        let fresh: Vec<_> = (1..=fabric.all_hosts() as u32)
            .map(|hosts| slices.clone().allocate(JobId(0), hosts).cloned())
            .collect();
        for job in 0..40 {
            let _ = slices.allocate(JobId(job), rng.random_range(1..6));
        }
        let known: Vec<JobId> = slices.iter().map(|(job, _)| job).collect();
        assert!(known.into_iter().all(|job| slices.release(job)));
        assert_eq!(slices.free_hosts() as usize, fabric.all_hosts());
        let again = (1..=fabric.all_hosts() as u32)
            .map(|hosts| slices.clone().allocate(JobId(0), hosts).cloned());
        assert!(again.eq(fresh), "{fabric:?}");
        assert!(!slices.release(JobId(0)));
    }
}

/// Connections beside slices use none of their links.
#[test]
fn connections_go_beside_slices() {
    for fabric in fabrics() {
        for seed in 0..10 {
            let mut rng = rng(seed);
            let mut slices = slices(&fabric, 1 << 16);
            for job in 0..3 {
                let _ = slices.allocate(JobId(job), rng.random_range(1..=fabric.hosts as u32 * 2));
            }
            let (hosts, links) = owners(&fabric, &slices);
            let mut shape = fabric.shape(|_, _| true);
            slices.reserve(&mut shape);
            let mut packer = Packer::new(shape);
            let free = (0..fabric.all_hosts() as u32).filter(|&h| !hosts.contains_key(&HostId(h)));
            let from: Vec<u32> = free.collect();
            let mut to = from.clone();
            to.shuffle(&mut rng);
            let leaf = |host: u32| LeafId(fabric.leaf_of(HostId(host)) as u32);
            let between = from.iter().zip(&to).filter(|&(&from, &to)| leaf(from) != leaf(to));
            let requests: Vec<Request> = between
                .enumerate()
                .map(|(id, (&from, &to))| Request::new(id as u32, leaf(from), leaf(to)))
                .collect();
            packer.apply(&[], &requests);
            for (link, _) in packer.certificate().owners() {
                let link = match link {
                    Link::Leaf(leaf, group, _) => {
                        slices_checker::Link::Leaf(leaf.index(), group as usize)
                    }
                    Link::Pod(pod, tree, _) => {
                        slices_checker::Link::Pod(pod as usize, tree.index())
                    }
                };
                assert_eq!(links.get(&link), None, "{link:?} belongs to a job");
            }
        }
    }
}

#[test]
fn refusals_name_their_reason() {
    let mut slices = slices(&Fabric::new(1, 2, 2, 1, 1), 1 << 10);
    assert_eq!(slices.allocate(JobId(0), 0), Err(Refusal::NoHost));
    assert_eq!(slices.allocate_on(JobId(0), &[]), Err(Refusal::NoHost));
    assert_eq!(slices.allocate(JobId(0), 5), Err(Refusal::TooFewHosts { wanted: 5, free: 4 }));
    let unknown = [HostId(4)];
    assert_eq!(slices.allocate_on(JobId(0), &unknown), Err(Refusal::UnknownHost(HostId(4))));
    let twice = [HostId(1), HostId(0), HostId(1)];
    assert_eq!(slices.allocate_on(JobId(0), &twice), Err(Refusal::HostTaken(HostId(1))));
    // One tree for two hosts a leaf.
    assert_eq!(slices.allocate(JobId(0), 4), Err(Refusal::NoLinks));
    assert!(slices.allocate(JobId(0), 3).is_ok());
    assert_eq!(slices.allocate(JobId(0), 1), Err(Refusal::Known));
    let hosts = slices.get(JobId(0)).unwrap().hosts().to_vec();
    assert_eq!(slices.allocate_on(JobId(1), &hosts[..1]), Err(Refusal::HostTaken(hosts[0])));
}

/// Why the condition leaves over one leaf and not two: beside a leaf of two hosts that has two trees, two
/// leaves of one host cannot do with one tree each, the same or not.
#[test]
fn two_leaves_with_a_part_do_not_hold_all_traffic() {
    let colours = |sets: [&[usize]; 3], edges: &[(usize, usize)]| {
        let choices = sets.iter().flat_map(|set| set.iter()).max().unwrap() + 1;
        subsets(choices * edges.len(), edges.len()).any(|chosen| {
            let colour: Vec<usize> = chosen.iter().map(|place| place % choices).collect();
            let edge: BTreeSet<usize> = chosen.iter().map(|place| place / choices).collect();
            let used = edges
                .iter()
                .zip(&colour)
                .flat_map(|(&(from, to), &colour)| [(0, from, colour), (1, to, colour)]);
            edge.len() == edges.len()
                && edges.iter().zip(&colour).all(|(&(from, to), colour)| {
                    sets[from].contains(colour) && sets[to].contains(colour)
                })
                && used.clone().collect::<BTreeSet<_>>().len() == used.count()
        })
    };
    let out = [(0, 1), (0, 2), (1, 0), (2, 0)];
    assert!(!colours([&[0, 1], &[0], &[0]], &out));
    assert!(!colours([&[0, 1], &[0], &[1]], &[(0, 1), (1, 2), (2, 0)]));
    assert!(colours([&[0, 1], &[0, 1], &[0]], &out));
}

/// A fabric of 512 hosts in three stages, full of jobs in any number of pods.
#[test]
fn slices_of_several_pods_hold_any_traffic() {
    let fabric = Fabric::new(8, 8, 8, 8, 8);
    let mut slices = slices(&fabric, Limits::default().work);
    let mut rng = rng(1);
    let mut in_several_pods = 0;
    for round in 0..30 {
        for job in 0..100 {
            let most = [9, 40, 120][round as usize % 3];
            let _ = slices.allocate(JobId(round * 100 + job), rng.random_range(1..most));
        }
        let links = owners(&fabric, &slices).1;
        let pods = |link: &slices_checker::Link| matches!(link, slices_checker::Link::Pod(..));
        in_several_pods += links.keys().filter(|link| pods(link)).count();
        pack_permutations(&fabric, &slices, &mut rng);
        let known: Vec<JobId> = slices.iter().map(|(job, _)| job).collect();
        known.into_iter().filter(|_| rng.random_bool(0.4)).for_each(|job| {
            slices.release(job);
        });
    }
    assert!(in_several_pods > 1000, "{in_several_pods} links of pods");
}

/// Ten thousand jobs on 11,664 hosts in three stages.
#[test]
fn a_list_of_jobs_keeps_the_fabric_busy() {
    let fabric = Fabric::new(36, 18, 18, 18, 18);
    let mut slices = slices(&fabric, Limits::default().work);
    let replay = replay(&mut slices, &generate(10_000, 1, 11_664));
    assert_eq!((replay.started.len(), replay.impossible.len()), (10_000, 0));
    let utilisation = replay.utilisation().unwrap();
    assert!(utilisation > 0.97, "{utilisation}");
}
