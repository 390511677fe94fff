use super::*;
use crate::reconfiguration::{Cause, Factor, Step, clos, irregular, removable};

fn scenario<'a>(topology: &'a Topology, costs: &'a Costs) -> Scenario<'a> {
    let switch = removable(topology, home_switch(topology).unwrap())[0];
    Scenario {
        topology,
        switch,
        change: Change::Removal,
        mechanism: Mechanism::Baseline,
        factors: Factors::NONE,
        costs,
        after_sweep: Time::millis(20),
        rate: 0,
        around: (Time::millis(2), Time::ZERO),
        bin: Time::millis(1),
        seed: 1,
    }
}

#[test]
fn both_mechanisms_leave_a_sound_fabric_whatever_comes_or_goes() {
    let costs = Costs::default();
    let mut fabrics: Vec<Topology> = (1..=3).map(|seed| irregular(8, seed).unwrap()).collect();
    fabrics.push(clos().unwrap());
    for topology in &fabrics {
        for mechanism in Mechanism::ALL {
            for kind in Change::ALL {
                let scenario = Scenario { mechanism, change: kind, ..scenario(topology, &costs) };
                let outcome = change(&scenario).unwrap();
                assert!(outcome.sound, "{mechanism:?} {kind:?}");
                assert_eq!(outcome.marks.last().unwrap().0, Phase::Done);
                assert!(outcome.phases[&Phase::Discovery] > Time::ZERO);
                if mechanism == Mechanism::Ours {
                    assert_eq!(outcome.looping_states, 0, "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn the_baseline_detects_by_its_sweep_and_closes_all_ports_and_ours_does_neither() {
    let costs = Costs::default();
    let topology = irregular(8, 1).unwrap();
    let around = (Time::millis(2), Time::millis(110));
    let base = Scenario { rate: 20_000, around, ..scenario(&topology, &costs) };
    let baseline = change(&base).unwrap();
    let ours = change(&Scenario { mechanism: Mechanism::Ours, ..base.clone() }).unwrap();
    // The sweep comes 80 ms after the change.
    let detection = baseline.phases[&Phase::Detection];
    assert!((Time::millis(80)..Time::millis(82)).contains(&detection), "{detection}");
    assert!(ours.phases[&Phase::Detection] < Time::millis(2));
    assert!(baseline.lost[&Cause::PortInactive] > 0);
    assert_eq!(ours.lost.get(&Cause::PortInactive), None);
    for outcome in [&baseline, &ours] {
        // What is still on its way at the end is neither.
        let lost: u64 = outcome.lost.values().sum();
        let open = outcome.sent.abs_diff(outcome.received + lost);
        assert!(open < 100, "{open} of {}", outcome.sent);
    }
    let sum = |outcome: &Outcome| outcome.lost.values().sum::<u64>();
    assert!(sum(&ours) * 20 < sum(&baseline), "{:?} {:?}", ours.lost, baseline.lost);
    // The same seed, the same bytes.
    assert_eq!(format!("{:?}", change(&base).unwrap()), format!("{baseline:?}"));
}

/// No packet is lost at a port that is closed, since none is sent then; the wait costs others.
#[test]
fn a_controller_that_is_told_first_keeps_packets_from_closed_ports() {
    let costs = Costs::default();
    let topology = irregular(8, 1).unwrap();
    let around = (Time::millis(2), Time::millis(60));
    let base = Scenario { rate: 50_000, around, ..scenario(&topology, &costs) };
    let base = Scenario { after_sweep: Time::millis(90), ..base };
    let told = Scenario { factors: Factors::NONE.with(Factor::Told), ..base.clone() };
    let [base, told] = [base, told].map(|scenario| change(&scenario).unwrap());
    assert!(base.lost[&Cause::PortInactive] > 0 && base.held == 0);
    assert!(told.held > 0 && !told.lost.contains_key(&Cause::PortInactive), "{:?}", told.lost);
}

/// One thing of ours after the other in the baseline: the fabric is as sound, and each does what it is for.
#[test]
fn every_factor_leaves_a_sound_fabric_and_saves_what_it_is_for() {
    let costs = Costs::default();
    let fabrics = [irregular(8, 1).unwrap(), irregular(16, 2).unwrap(), clos().unwrap()];
    for (topology, kind) in fabrics.iter().flat_map(|f| Change::ALL.map(|kind| (f, kind))) {
        let outcomes: BTreeMap<String, Outcome> = Factors::ladder()
            .into_iter()
            .map(|Step { name, factors, relayed }| {
                let relay = if relayed { costs.agent } else { Time::ZERO };
                let costs = Costs { relay, ..costs.clone() };
                let base = scenario(topology, &costs);
                let outcome = change(&Scenario { change: kind, factors, ..base }).unwrap();
                assert!(outcome.sound, "{name}, {kind:?}");
                (name, outcome)
            })
            .collect();
        let with = |factor: Factor| &outcomes[factor.name()];
        let base = &outcomes["baseline"];
        let smps = |outcome: &Outcome, task: Phase| outcome.smps.get(&task).copied().unwrap_or(0);
        assert!(with(Factor::Traps).phases[&Phase::Detection] < base.phases[&Phase::Detection]);
        assert!(smps(with(Factor::Region), Phase::Discovery) < smps(base, Phase::Discovery));
        assert!(with(Factor::Entries).operations <= base.operations);
        // A table of one block may change everywhere.
        assert!(with(Factor::Blocks).blocks <= base.blocks);
        assert!(with(Factor::Overlap).time < base.time);
        assert!(smps(with(Factor::Open), Phase::Activation) < smps(base, Phase::Activation));
        // The controller's window comes before anything is closed.
        assert!(with(Factor::Told).time > base.time + WINDOW);
        // SMPs by LID keep agents free that directed ones would occupy; what only begins by LID saves less.
        let relayed = &outcomes["baseline, passed on in software"];
        let rest = |outcome: &Outcome| outcome.time - outcome.phases[&Phase::Detection];
        assert!(rest(relayed) > rest(base), "{kind:?}");
        for name in [Factor::Lid.name(), Factor::Mixed.name(), "LID-routed and mixed SMPs"] {
            assert!(rest(&outcomes[name]) < rest(relayed), "{name}, {kind:?}");
        }
    }
}
