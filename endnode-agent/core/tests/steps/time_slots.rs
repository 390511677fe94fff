//! A collective in a lease: flows to its members send in their time slots and ask for nothing.

use snin_agent_core::{Config, FlowId, Output};
use snin_fabric::{Dlid, Guid, Lid};
use snin_protocol::Time;
use snin_protocol::collective::{Collective, CollectiveKind, Member};
use snin_protocol::message::{AgentMessage, ControllerMessage, FromAgent, Lease};

use crate::support::*;

const SLOT: Time = Time::micros(100);
const SELF: Guid = Guid(1);
const OTHERS: [Guid; 2] = [PEER, Guid(8)];

fn config() -> Config {
    Config { pairs: 4, queue: 8, ..Bench::config() }
}

/// All-to-all of three, this one first, from now on.
fn collective(bench: &Bench) -> Collective {
    let ports = [SELF, OTHERS[0], OTHERS[1]];
    let member = |(place, &port): (usize, &Guid)| Member {
        port,
        dlid: Dlid(Lid(64 + 8 * place as u16 + TREE.0)),
    };
    Collective {
        kind: CollectiveKind::AllToAll,
        members: ports.iter().enumerate().map(member).collect(),
        place: 0,
        tree: TREE,
        origin: bench.now,
        slot: SLOT,
        gap: GUARD,
        from: bench.now,
        until: bench.now + MS * 10,
        rate: 0,
        sl: 0,
    }
}

fn follow(bench: &mut Bench, collective: Option<Collective>) {
    bench.leases += 1;
    let (sequence, heard) = (bench.leases, bench.asks);
    let lease = Lease { sequence, heard, collective, ..Lease::default() };
    bench.controller(ControllerMessage::Lease(lease));
}

fn asks(outputs: &[Output]) -> usize {
    let is_ask = |output: &&Output| {
        matches!(output, Output::Controller(FromAgent { body: AgentMessage::Ask(_), .. }))
    };
    outputs.iter().filter(is_ask).count()
}

/// Two flows with much to send, to both others.
fn two_flows() -> Bench {
    let mut bench = Bench::new(config());
    let all = collective(&bench);
    follow(&mut bench, Some(all));
    for (number, peer) in (0..).zip(OTHERS) {
        bench.open(FlowId(number), peer);
        bench.send(FlowId(number), 0, 1_000_000);
    }
    assert_eq!(asks(&bench.outputs), 0, "they ask for nothing");
    bench
}

/// To whom pieces were posted since the last look, and their bytes.
fn sent(bench: &mut Bench, pairs: &[snin_agent_core::PairId]) -> Vec<(u32, u32)> {
    let posts = bench.posts();
    for post in &posts {
        assert!(pairs.contains(&post.pair));
    }
    posts.iter().map(|post| (post.piece.flow.0, post.piece.bytes)).collect()
}

#[test]
fn each_flow_has_its_time_slot_and_the_guard_is_kept() {
    let mut bench = two_flows();
    let begin = bench.now;
    // The second one's queue pair is made before its time slot comes.
    let pairs = bench.connect_all();
    assert_eq!(pairs.len(), 2);
    let mut per_slot = Vec::new();
    for slot in 0..6 {
        let (mut flows, mut bytes) = (Vec::new(), 0);
        bench.pass(begin + SLOT * slot - bench.now);
        while bench.now < begin + SLOT * (slot + 1) - Time(1) {
            let posts = bench.posts();
            let idle = posts.is_empty();
            for post in posts {
                let end = bench.now + Time(u64::from(post.piece.bytes));
                assert!(end <= begin + SLOT * (slot + 1) - GUARD * 2, "slot {slot}: {end}");
                flows.push(post.piece.flow.0);
                bytes += post.piece.bytes;
                bench.pass(Time(u64::from(post.piece.bytes)));
                bench.done(post.pair, post.ticket);
            }
            if idle {
                bench.pass(Time(100));
            }
        }
        flows.dedup();
        assert_eq!(flows, [(slot % 2) as u32], "slot {slot}");
        per_slot.push(bytes);
    }
    // A byte a nanosecond, pieces of four at a time of 1000.
    assert!(per_slot.iter().all(|&bytes| bytes > 50_000), "{per_slot:?}");
    assert_eq!(bench.counters().overruns, 0);
}

#[test]
fn without_it_flows_stop_at_once_and_ask() {
    let mut bench = two_flows();
    let pairs = bench.connect_all();
    assert!(!sent(&mut bench, &pairs).is_empty());
    follow(&mut bench, None);
    let outputs = bench.take();
    assert_eq!(asks(&outputs), 1, "{outputs:?}");
    assert!(!outputs.contains(&bench.confirms(bench.leases)), "pieces are under way");
    for ticket in 0..4 {
        bench.done(pairs[0], ticket);
    }
    bench.pass(MS);
    let outputs = bench.take();
    assert!(outputs.contains(&bench.confirms(bench.leases)), "{outputs:?}");
    assert!(sent(&mut bench, &pairs).is_empty());
}

#[test]
fn one_that_a_controller_may_not_say_is_counted() {
    let mut bench = Bench::new(config());
    let good = collective(&bench);
    let bad = [
        Collective { place: 3, ..good.clone() },
        Collective { slot: Time::ZERO, ..good.clone() },
        Collective { until: good.from, ..good.clone() },
        Collective { until: good.from + Time::secs(2), ..good.clone() },
        Collective { kind: CollectiveKind::HalvingDoubling, ..good.clone() },
        Collective { members: Vec::new(), ..good },
    ];
    let count = bad.len() as u64;
    bad.into_iter().for_each(|bad| follow(&mut bench, Some(bad)));
    assert_eq!(bench.counters().bad_grants, count);
    bench.open(FLOW, PEER);
    bench.send(FLOW, 0, 10);
    assert_eq!(asks(&bench.take()), 1, "it is covered by none");
}
