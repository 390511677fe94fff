//! Cables and switches come and go.

use std::collections::BTreeSet;

use snin_emulator::{Config as Hardware, Fault};
use snin_fabric::{ForwardingTable, Lid};
use snin_mad::{Attribute, LinearForwarding, Method};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::Event;

use crate::support::{Lab, config, fabric};

/// SMPs of a cut and of a restored cable may be this many.
const BUDGETS: [(u8, u64); 2] = [(4, 500), (5, 800)];
/// SMPs until a cut, or a cable that is back, is told.
const TOLD: u64 = 40;

#[test]
fn a_cut_cable_is_told_at_once_and_repaired_with_few_writes() {
    for (lmc, most) in BUDGETS {
        // leaf0 is the transit leaf: when it loses a cable, the ranks change.
        for (leaf, up) in [("leaf3", 19), ("leaf3", 36), ("leaf0", 19)] {
            let mut lab = Lab::new("clos:36,18,18", lmc);
            lab.bring_up();
            let cable = lab.port(leaf, up);
            for fault in [Fault::Cut(cable), Fault::Restore(cable)] {
                let (before, views) = (lab.smps(), lab.views.len());
                let writes = lab.emulator.stats().writes;
                let (held, blocks) = (lab.emulator.fabric().tables(), blocks(&lab));
                let (rewritten, computed) = (lab.sweep.metrics().blocks_rewritten, lab.computed);
                lab.strike(fault.clone());
                lab.run(Time::millis(6));
                lab.settle();
                lab.check();
                let all = lab.smps() - before;
                let (told, sent, written) = lab.views[views].clone();
                let sent = sent - before;
                println!(
                    "LMC {lmc}, {fault:?} at {leaf}: told after {sent} SMPs, done after {all}"
                );
                assert!(all <= most, "done after {all}");
                // Exactly what differs is written; where the transit leaf becomes another, the block of the
                // switches' addresses at the old one is written twice (ARCHITECTURE.md says why it must be).
                let rewritten = lab.sweep.metrics().blocks_rewritten - rewritten;
                assert_eq!(rewritten, u64::from(leaf == "leaf0"));
                let differing = differing(&held, &lab.emulator.fabric().tables());
                assert_eq!(self::blocks(&lab) - blocks, differing + rewritten);
                assert_eq!(lab.sweep.metrics().retries, 0);
                // The tables for what is told at once are those that are written.
                if matches!(fault, Fault::Cut(_)) {
                    assert_eq!(lab.computed - computed, 1);
                }
                assert!(!told.unusable().is_empty(), "the pair is usable when all is written");
                assert!(sent <= TOLD, "told after {sent}");
                // PortStateChange of the first switch is all that was written by then.
                assert_eq!(written - writes, 1);
                if matches!(fault, Fault::Restore(_)) {
                    assert!(lab.view().unusable().is_empty());
                    assert_eq!(told.topology(), &lab.topology, "the cable is there at once");
                }
            }
        }
    }
}

#[test]
fn tables_are_left_alone_until_nobody_uses_what_a_view_takes_away() {
    let wait = 200;
    for controller_says in [Some(Time::millis(30)), None] {
        let config = Config { clear_wait_ms: wait, ..config(2) };
        let mut lab = Lab::of(fabric("clos:6,4,4"), Hardware::default(), config);
        lab.bring_up();
        assert!(lab.now() < Time::millis(100), "nothing was taken away: nobody is waited for");
        let (views, before) = (lab.views.len(), blocks(&lab));
        lab.strike(Fault::Cut(lab.port("leaf3", 5)));
        lab.run(Time::millis(20));
        let (told, now) = (lab.views[views].0.version(), lab.now());
        let (held, longest) = match controller_says {
            Some(after) => (after, after + Time::millis(10)),
            None => (Time::millis(wait.into()) - Time::millis(20), Time::millis(wait.into())),
        };
        lab.run(held - Time(1));
        assert_eq!(blocks(&lab), before, "{controller_says:?}: a view, and no block written");
        assert!(!lab.sweep.is_idle());
        if controller_says.is_some() {
            // An older view's word is not this one's.
            lab.sweep.handle(Event::Clear { version: told - 1 }, lab.now());
            lab.run(Time::millis(5));
            assert_eq!(blocks(&lab), before, "not until this view is clear");
            lab.sweep.handle(Event::Clear { version: told }, lab.now());
        }
        lab.settle();
        assert!(blocks(&lab) > before);
        assert!(lab.now() <= now + longest, "{controller_says:?}: {} after {now}", lab.now());
        lab.check();
    }
}

/// Blocks of forwarding tables written so far.
fn blocks(lab: &Lab) -> u64 {
    let sent = &lab.sweep.metrics().sent;
    sent.get(&(LinearForwarding::ID, Method::Set.code())).copied().unwrap_or(0)
}

/// Blocks of 64 entries in which two sets of tables differ.
fn differing(one: &[ForwardingTable], other: &[ForwardingTable]) -> u64 {
    let blocks = |(a, b): (&ForwardingTable, &ForwardingTable)| {
        let entry = |table: &ForwardingTable, lid: usize| table.get(Lid(lid as u16));
        let entries = a.len().max(b.len());
        let differ = |lid: &usize| entry(a, *lid) != entry(b, *lid);
        let blocks: BTreeSet<usize> = (0..entries).filter(differ).map(|lid| lid / 64).collect();
        blocks.len() as u64
    };
    one.iter().zip(other).map(blocks).sum()
}
