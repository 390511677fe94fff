//! The cost of a window's certificate beside its packing: to make it, and to check it.

use snin_controller_core::owners::{Granted, check};
use snin_controller_core::packing::{Certificate, Packer, Request, Shape};

use super::patterns::{permutation, requests};
use super::{line, middle, timed};
use crate::{Hash, Outcome, Size};

/// Of the time that packing takes, the certificate takes at most so much.
const SHARE: f64 = 0.1;

pub(super) fn run(size: Size) -> Vec<Outcome> {
    let full = size == Size::Full;
    let runs = if full { 501 } else { 3 };
    let two = |leaves: u32, hosts: u32| {
        (Shape::two_stage(leaves as usize, hosts as usize), leaves, hosts)
    };
    let half = if full { 18 } else { 3 };
    let leaves = 2 * half * half;
    let pods = (0..leaves).map(|leaf| leaf / half).collect();
    let groups = (0..half * half).map(|tree| tree / half).collect();
    let three = (Shape::three_stage(pods, groups), leaves, half);
    let cases = if full { vec![two(36, 18), two(64, 32), three] } else { vec![two(4, 3), three] };
    cases.into_iter().flat_map(|(shape, leaves, hosts)| case(shape, leaves, hosts, runs)).collect()
}

fn case(shape: Shape, leaves: u32, hosts: u32, runs: u64) -> Vec<Outcome> {
    let mut packer = Packer::new(shape);
    let mut certificate = Certificate::default();
    let [mut packing, mut making, mut checking] = [(); 3].map(|()| Vec::new());
    let mut hash = Hash::default();
    for run in 0..runs {
        let requests = requests(&permutation(leaves, hosts, run));
        let (time, _) = timed(|| {
            packer.clear();
            packer.apply(&[], &requests).granted.len()
        });
        packing.push(time.as_secs_f64() * 1e6);
        let (time, ()) = timed(|| packer.certify(&mut certificate));
        making.push(time.as_secs_f64() * 1e6);
        let granted = |&Request { id, source, destination, .. }: &Request| {
            Some(Granted { id, source, destination, tree: packer.tree_of(id)? })
        };
        let granted = requests.iter().filter_map(granted);
        let (time, links) = timed(|| check(packer.shape(), granted, &certificate));
        checking.push(time.as_secs_f64() * 1e6);
        hash.number(links.expect("the certificate is true") as u64);
    }
    let [packing, making, checking] = [packing, making, checking].map(middle);
    let share = |what: &str, ours, peer| {
        let case = format!("certificate of {} hosts, {what}", leaves * hosts);
        line(case, "of pack", ours / packing, peer, hash.0)
    };
    vec![share("made", making, (SHARE, "goal")), share("checked", checking, (1.0, "packing"))]
}
