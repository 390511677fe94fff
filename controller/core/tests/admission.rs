//! Patterns are done in their degree, no request waits beyond the bound, links are never overfull: judged
//! window by window by a checker that knows only the requests.

mod admission_checker;

use admission_checker::{Ledger, Wanted};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::admission::{Admission, Ask, HostLinks, Limits, Refused};
use snin_controller_core::packing::ConnectionId;
use snin_fabric::hosts::HostId;
use snin_fabric::traffic::{Pattern, Shape};

const UNIT: u64 = 100;
const NEVER: u64 = 1 << 40;

/// Admission and its ledger, side by side.
struct Both {
    admission: Admission,
    ledger: Ledger,
}

impl Both {
    fn new(rates: Vec<u64>, requests: u32, overdue_after: u64) -> Self {
        let limits = Limits { requests, overdue_after };
        let admission = Admission::new(HostLinks::new(rates.iter().copied()), limits);
        Self { admission, ledger: Ledger::new(rates, overdue_after) }
    }

    fn add(&mut self, id: u32, wanted: Wanted) {
        let ask = Ask {
            source: HostId(wanted.source),
            destination: HostId(wanted.destination),
            arrival: wanted.arrival,
            windows: wanted.windows,
            rate: (wanted.rate != self.ledger.unit).then_some(wanted.rate),
        };
        assert_eq!(self.admission.add(ConnectionId(id), &ask), Ok(()));
        self.ledger.add(id, wanted);
    }

    fn remove(&mut self, id: u32) {
        assert!(self.admission.remove(ConnectionId(id)));
        self.ledger.remove(id);
    }

    /// One window in which everything chosen is served.
    fn window(&mut self, window: u64, thoroughly: bool) -> Vec<u32> {
        let chosen: Vec<u32> = self.admission.choose(window).iter().map(|id| id.0).collect();
        let faults = if thoroughly {
            self.ledger.judge(window, &chosen)
        } else {
            self.ledger.judge_quickly(&chosen, true)
        };
        assert_eq!(faults, [], "window {window}");
        for &id in &chosen {
            self.admission.served(ConnectionId(id));
            self.ledger.serve(id);
        }
        assert_eq!(self.admission.len(), self.ledger.pending.len());
        chosen
    }

    /// Serves everything; the number of windows is the degree, exactly.
    fn drain(&mut self, name: &str, from: u64, thoroughly: bool) {
        let degree = self.ledger.degree();
        for window in from..from + degree {
            assert!(
                !self.window(window, thoroughly).is_empty(),
                "{name}: window {window} is empty"
            );
        }
        assert!(self.admission.is_empty(), "{name}: not done in its degree {degree}");
    }
}

fn unit(source: u32, destination: u32, arrival: u64, windows: u32) -> Wanted {
    Wanted { source, destination, arrival, windows, rate: UNIT }
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Everything asked for at once, and drained.
fn at_once(name: &str, hosts: usize, pairs: &[(u32, u32, u32)], overdue_after: u64, full: bool) {
    let mut both = Both::new(vec![UNIT; hosts], pairs.len() as u32, overdue_after);
    for (id, &(source, destination, windows)) in pairs.iter().enumerate() {
        both.add(id as u32, unit(source, destination, 0, windows));
    }
    both.drain(name, 0, full);
}

fn pattern(hosts: usize, pattern: Pattern, windows: u32) -> Vec<(u32, u32, u32)> {
    let leaf_of: Vec<u32> = (0..hosts as u32).map(|host| host / 18).collect();
    let demands = pattern.generate(Shape { leaf_of: &leaf_of, uplinks: 18 }, 1).unwrap();
    demands.iter().map(|d| (d.source.0, d.destination.0, windows)).collect()
}

#[test]
fn every_pattern_is_done_in_its_degree() {
    let list = [
        Pattern::Permutation,
        Pattern::Shift(7),
        Pattern::Bisection,
        Pattern::Stencil2d,
        Pattern::Stencil3d,
        Pattern::Incast,
        Pattern::AllToAll,
    ];
    for each in list {
        let name = format!("{each:?}");
        // Overdue or not makes no difference to one pattern alone.
        for overdue_after in [NEVER, 5, 0] {
            at_once(&name, 60, &pattern(60, each, 1), overdue_after, true);
        }
        if each != Pattern::AllToAll {
            at_once(&name, 1000, &pattern(1000, each, 3), NEVER, false);
        }
    }
}

#[test]
fn all_to_all_of_a_thousand_hosts_is_done_in_999_windows() {
    let pairs = pattern(1000, Pattern::AllToAll, 1);
    at_once("ascending", 1000, &pairs, NEVER, false);
}

#[test]
fn random_multigraphs_are_done_in_their_degree() {
    for seed in 0..300 {
        let mut rng = rng(seed);
        let hosts = rng.random_range(2..40);
        let pairs = multigraph(hosts, rng.random_range(1..400), 5, &mut rng);
        let overdue_after = [NEVER, 3, 0][seed as usize % 3];
        at_once("multigraph", hosts as usize, &pairs, overdue_after, true);
    }
    let pairs = multigraph(1500, 30_000, 5, &mut rng(1));
    at_once("large multigraph", 1500, &pairs, NEVER, false);
}

fn multigraph(hosts: u32, edges: u32, longest: u32, rng: &mut ChaCha8Rng) -> Vec<(u32, u32, u32)> {
    let mut edge = || {
        let source = rng.random_range(0..hosts);
        let other = rng.random_range(0..hosts - 1);
        let destination = if other >= source { other + 1 } else { other };
        (source, destination, rng.random_range(1..=longest))
    };
    (0..edges).map(|_| edge()).collect()
}

/// Coflows as those of data-parallel jobs are usually described: half of them few and short flows, the
/// others in equal parts wide, long, or both; every sender to every receiver.
fn coflow(hosts: u32, rng: &mut ChaCha8Rng) -> Vec<(u32, u32, u32)> {
    let (wide, long) = match rng.random_range(0..6) {
        0..3 => (false, false),
        3 => (true, false),
        4 => (false, true),
        _ => (true, true),
    };
    let width =
        |rng: &mut ChaCha8Rng| if wide { rng.random_range(8..60) } else { rng.random_range(1..6) };
    let (senders, receivers) = (width(rng), width(rng));
    let mut order: Vec<u32> = (0..hosts).collect();
    order.shuffle(rng);
    let (from, to) = (order[..senders].to_vec(), order[senders..senders + receivers].to_vec());
    let mut length = || if long { rng.random_range(4..40) } else { 1 };
    from.iter()
        .flat_map(|&s| to.iter().map(move |&t| (s, t)))
        .map(|(s, t)| (s, t, length()))
        .collect()
}

#[test]
fn coflow_traces_are_done_in_their_degree() {
    let (hosts, mut rng) = (1200, rng(5));
    let flows: Vec<_> = (0..100).flat_map(|_| coflow(hosts, &mut rng)).collect();
    at_once("coflows at once", hosts as usize, &flows, NEVER, false);

    // Coming one after the other: the last is done in the degree that is left when it comes.
    let mut both = Both::new(vec![UNIT; hosts as usize], 1 << 20, NEVER);
    let (mut id, mut window) = (0, 0);
    for _ in 0..60 {
        for (source, destination, windows) in coflow(hosts, &mut rng) {
            both.add(id, unit(source, destination, window, windows));
            id += 1;
        }
        for _ in 0..rng.random_range(0..4) {
            both.window(window, false);
            window += 1;
        }
    }
    both.drain("coflows one by one", window, false);
}

/// Every multigraph of three hosts with up to two requests a pair, and every graph of four, with every
/// other request coming a window later.
#[test]
fn small_graphs_exhaustively() {
    let pairs = |hosts: u32| {
        (0..hosts).flat_map(move |s| (0..hosts).filter(move |&t| t != s).map(move |t| (s, t)))
    };
    let check = |hosts: u32, counts: &[u32], overdue_after| {
        let mut both = Both::new(vec![UNIT; hosts as usize], 64, overdue_after);
        let mut id = 0;
        let mut later = Vec::new();
        for ((source, destination), &count) in pairs(hosts).zip(counts) {
            for _ in 0..count {
                if overdue_after == 1 && id % 2 == 1 {
                    later.push((id, unit(source, destination, 1, 1)));
                } else {
                    both.add(id, unit(source, destination, 0, 1));
                }
                id += 1;
            }
        }
        if overdue_after != 1 {
            return both.drain(&format!("{counts:?}"), 0, true);
        }
        let mut window = 0;
        both.window(window, true);
        later.iter().for_each(|&(id, wanted)| both.add(id, wanted));
        while !both.admission.is_empty() {
            window += 1;
            both.window(window, true);
        }
    };
    for code in 0..3u32.pow(6) {
        let counts: Vec<u32> = (0..6).map(|place| code / 3u32.pow(place) % 3).collect();
        [NEVER, 0, 1].iter().for_each(|&overdue_after| check(3, &counts, overdue_after));
    }
    for code in 0..1u32 << 12 {
        let counts: Vec<u32> = (0..12).map(|place| code >> place & 1).collect();
        [NEVER, 1].iter().for_each(|&overdue_after| check(4, &counts, overdue_after));
    }
}

/// A stream of requests, more than the links carry: what is overdue is done within its bound, judged
/// every window by the ledger.
fn churn(seed: u64, hosts: u32, overdue_after: u64, rates: Vec<u64>, odd: bool) {
    let mut rng = rng(seed);
    let mut both = Both::new(rates, 4096, overdue_after);
    let mut id = 0;
    for window in 0..120 {
        let overload = rng.random_range(0..=2 * hosts);
        for (source, destination, windows) in multigraph(hosts, overload, 3, &mut rng) {
            let carries =
                both.ledger.rates[source as usize].min(both.ledger.rates[destination as usize]);
            let rate =
                if odd && rng.random_bool(0.4) { rng.random_range(1..=carries) } else { UNIT };
            both.add(id, Wanted { rate, ..unit(source, destination, window, windows) });
            id += 1;
        }
        for id in both.ledger.pending.keys().copied().collect::<Vec<_>>() {
            if rng.random_bool(0.02) {
                both.remove(id);
            }
        }
        both.window(window, true);
    }
}

#[test]
fn nobody_waits_beyond_the_bound_under_overload() {
    for seed in 0..12 {
        for overdue_after in [0, 1, 4, 15] {
            churn(seed, 6, overdue_after, vec![UNIT; 6], false);
            churn(seed, 6, overdue_after, vec![UNIT; 6], true);
            churn(seed, 5, overdue_after, vec![UNIT, 2 * UNIT, 4 * UNIT, 250, UNIT], true);
        }
    }
}

/// One request against an endless stream of younger ones that keep both of its hosts at greatest degree:
/// it is served in the very window in which it becomes overdue, and not before.
#[test]
fn an_endless_stream_of_newer_requests_cannot_starve_an_old_one() {
    let mut both = Both::new(vec![UNIT; 4], 4096, 20);
    both.add(0, unit(0, 1, 0, 1));
    let mut id = 1;
    for window in 0..40 {
        for _ in 0..2 {
            both.add(id, unit(0, 2, window, 1));
            both.add(id + 1, unit(3, 1, window, 1));
            id += 2;
        }
        let chosen = both.window(window, true);
        if chosen.contains(&0) {
            assert!(window <= 20, "window {window}");
        }
    }
    assert!(both.admission.left(ConnectionId(0)) == 0);
}

#[test]
fn slow_requests_share_a_link_up_to_its_capacity() {
    let mut both = Both::new(vec![UNIT; 6], 16, NEVER);
    for (id, rate) in [40, 40, 30, 20].into_iter().enumerate() {
        both.add(id as u32, Wanted { rate, ..unit(0, id as u32 + 1, 0, 1) });
    }
    // 40 + 40 + 20 fit, 30 has to wait: the oldest first.
    let mut first = both.window(0, true);
    first.sort_unstable();
    assert_eq!(first, [0, 1, 3]);
    assert_eq!(both.window(1, true), [2]);
}

#[test]
fn a_link_k_times_as_fast_serves_k_requests_at_once() {
    let mut rates = vec![UNIT; 9];
    rates[0] = 4 * UNIT;
    let mut both = Both::new(rates, 64, NEVER);
    (0..32).for_each(|id| both.add(id, unit(1 + id % 8, 0, 0, 1)));
    for window in 0..8 {
        assert_eq!(both.window(window, true).len(), 4);
    }
    assert!(both.admission.is_empty());
    // A fast request takes several units of both links.
    let mut both = Both::new(vec![UNIT, 4 * UNIT, 4 * UNIT], 8, NEVER);
    both.add(0, Wanted { rate: 3 * UNIT, ..unit(1, 2, 0, 1) });
    both.add(1, Wanted { rate: 2 * UNIT, ..unit(1, 2, 0, 1) });
    assert_eq!(both.window(0, true), [0]);
    assert_eq!(both.window(1, true), [1]);
}

#[test]
fn what_found_no_tree_is_chosen_again() {
    let mut both = Both::new(vec![UNIT; 3], 4, NEVER);
    both.add(2, unit(0, 1, 0, 2));
    for window in 0..3 {
        assert_eq!(both.admission.choose(window), [ConnectionId(2)]);
    }
    both.admission.served(ConnectionId(2));
    assert_eq!(both.admission.left(ConnectionId(2)), 1);
    assert_eq!(both.admission.choose(3), [ConnectionId(2)]);
}

#[test]
fn a_lasting_request_keeps_its_windows_together() {
    // Two requests of one host, ten windows each, and others that do not matter: no taking turns.
    let mut both = Both::new(vec![UNIT; 3], 4, NEVER);
    both.add(0, unit(0, 1, 0, 10));
    both.add(1, unit(0, 2, 0, 10));
    let served: Vec<u32> = (0..20).map(|window| both.window(window, true)[0]).collect();
    assert_eq!(served.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let limits = Limits { requests: 4, overdue_after: NEVER };
    let mut admission = Admission::new(HostLinks::new([100, 400]), limits);
    let ask = Ask { source: HostId(0), destination: HostId(1), arrival: 0, windows: 1, rate: None };
    let mut refused = |id, ask: &Ask| admission.add(ConnectionId(id), ask).unwrap_err();
    assert_eq!(refused(4, &ask), Refused::Number { id: 4, limit: 4 });
    let (host, hosts) = (HostId(2), 2);
    assert_eq!(refused(0, &Ask { source: host, ..ask }), Refused::Host { host, hosts });
    assert_eq!(refused(0, &Ask { destination: HostId(0), ..ask }), Refused::Itself(HostId(0)));
    assert_eq!(refused(0, &Ask { windows: 0, ..ask }), Refused::NoWindow);
    for asked in [0, 101] {
        let error = refused(0, &Ask { rate: Some(asked), ..ask });
        assert_eq!(error, Refused::Rate { asked, carries: 100 });
    }
    assert_eq!(admission.add(ConnectionId(0), &ask), Ok(()));
    assert_eq!(admission.add(ConnectionId(0), &ask), Err(Refused::Known(0)));
    assert!(admission.remove(ConnectionId(0)) && !admission.remove(ConnectionId(0)));
    admission.served(ConnectionId(77));
    assert_eq!((admission.len(), admission.degree()), (0, 0));
}

proptest! {
    #[test]
    fn any_history_is_without_fault(
        seed: u64,
        hosts in 2u32..9,
        overdue_after in 0u64..30,
        fast: bool,
        odd: bool,
    ) {
        let rate = |host: u32| if fast && host.is_multiple_of(3) { 3 * UNIT + 50 } else { UNIT };
        let rates = (0..hosts + 1).map(rate).collect();
        churn(seed, hosts, overdue_after, rates, odd);
    }
}
