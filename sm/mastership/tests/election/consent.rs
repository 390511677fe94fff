//! The cluster's consent, by the numbers of the statements that it comes from.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_mastership::cluster::{
    CHOSEN, ClusterEvent, EXPECTED, Entries, Entry, Limits, Mandate, Verdict,
};
use snin_protocol::Time;

use super::net::guid;
use super::site::Site;

const CALM: Time = Time::secs(12);
const RUNS: u64 = 300;

fn calm(site: &mut Site) {
    site.pass(CALM, |_| ());
}

fn bar(at: usize) -> String {
    format!("blacklist/{}", guid(at))
}

#[test]
fn statements_01_and_26_a_cold_fabric_needs_no_cluster() {
    let mut site = Site::new(2);
    site.members.iter_mut().for_each(|member| member.reaches = false);
    site.pass(CALM, |site| assert!(site.enforcing().is_empty()));
    assert!(site.members[0].priority.master, "mastership asks no cluster");
    assert!(matches!(site.verdict(0), Verdict::Unknown | Verdict::Unreachable(_)));
}

#[test]
fn statement_27_the_master_asks_or_the_cluster_begins() {
    let mut site = Site::new(2);
    calm(&mut site);
    assert_eq!((site.chosen(), site.enforcing()), (Some(guid(0)), vec![0]));
    site.put(CHOSEN, &guid(1).to_string());
    calm(&mut site);
    assert_eq!((site.chosen(), site.enforcing()), (Some(guid(1)), vec![1]));
}

#[test]
fn statement_28_the_present_master_is_preferred_unless_blacklisted() {
    for barred in [false, true] {
        let mut site = Site::led_by(2, 3);
        if barred {
            site.put(&bar(2), "old");
        }
        calm(&mut site);
        assert_eq!(site.chosen(), Some(guid(if barred { 0 } else { 2 })));
    }
}

#[test]
fn statement_29_a_master_that_is_chosen_stays_master_and_may_enforce() {
    let mut site = Site::new(2);
    site.pass(Time::secs(1), |_| ());
    assert_eq!(site.verdict(0), Verdict::Succeeds);
    site.pass(Limits::default().valid, |_| ());
    assert_eq!(site.verdict(0), Verdict::Granted);
    assert_eq!(site.members[0].core.mandate(site.now), Mandate::Held);
    assert_eq!(site.verdict(1), Verdict::Other(guid(0)));
}

#[test]
fn statement_30_a_standby_that_is_chosen_promotes_itself() {
    let mut site = Site::new(2);
    site.promotes = false;
    calm(&mut site);
    site.put(&bar(0), "its disk is failing");
    site.pass(Time::secs(1), |_| ());
    assert_eq!(site.verdict(0), Verdict::Barred("its disk is failing".to_owned()));
    assert_eq!((site.members[1].core.mandate(site.now), site.enforcing()), (Mandate::Held, vec![]));
    site.members[1].priority.master = true;
    calm(&mut site);
    assert_eq!(site.enforcing(), [1]);
}

#[test]
fn statement_31_a_check_is_made_periodically_and_before_enforcing() {
    let mut site = Site::new(1);
    calm(&mut site);
    let (cut, valid) = (site.now, Limits::default().valid);
    site.members[0].reaches = false;
    site.pass(CALM, |site| {
        let old = site.now >= cut + valid;
        assert!(!old || site.enforcing().is_empty(), "{:?} after the cut", site.now - cut);
    });
    site.members[0].reaches = true;
    calm(&mut site);
    assert_eq!(site.enforcing(), [0]);
}

#[test]
fn statement_32_updates_of_others_are_examined() {
    let mut site = Site::new(2);
    calm(&mut site);
    // A newer configuration than this manager has.
    site.put("expected", "4");
    site.pass(Time::secs(1), |_| ());
    assert_eq!(site.verdict(0), Verdict::Outdated { own: 0, newest: 4 });
    assert!(site.enforcing().is_empty());
    let now = site.now;
    site.members[1].core.handle(ClusterEvent::Version(4), now);
    calm(&mut site);
    assert_eq!((site.chosen(), site.enforcing()), (Some(guid(1)), vec![1]));
}

#[test]
fn what_a_manager_enforces_no_older_one_undoes() {
    let mut site = Site::new(2);
    calm(&mut site);
    let now = site.now;
    // Only the one that may enforce names a version.
    site.members[1].core.handle(ClusterEvent::Version(7), now);
    calm(&mut site);
    assert_eq!((site.get(EXPECTED), site.enforcing()), (None, vec![0]));
    let now = site.now;
    site.members[0].core.handle(ClusterEvent::Version(3), now);
    calm(&mut site);
    assert_eq!((site.get(EXPECTED), site.enforcing()), (Some("3"), vec![0]));
    // One that has an older version again, as from an old disk, is followed by another.
    let now = site.now;
    site.members[0].core.handle(ClusterEvent::Version(2), now);
    site.pass(Time::secs(1), |_| ());
    assert_eq!(site.verdict(0), Verdict::Outdated { own: 2, newest: 3 });
    calm(&mut site);
    assert_eq!((site.get(EXPECTED), site.enforcing()), (Some("7"), vec![1]));
}

#[test]
fn statement_33_no_answer_or_blacklisting_ends_what_was_allowed() {
    for key in [bar(0), format!("health/{}", guid(0))] {
        let mut site = Site::new(1);
        calm(&mut site);
        assert_eq!(site.enforcing(), [0]);
        site.put(&key, "its fan has stopped");
        assert!(site.enforcing().is_empty(), "{key}");
        site.put(&format!("health/{}", guid(0)), "ok");
        site.remove(&bar(0));
        calm(&mut site);
        assert_eq!(site.enforcing(), [0]);
    }
    let mut site = Site::new(1);
    calm(&mut site);
    site.members[0].reaches = false;
    site.pass(Limits::default().valid, |_| ());
    assert!(site.enforcing().is_empty(), "it was allowed when it was last told");
    assert!(matches!(site.verdict(0), Verdict::Unreachable(_)), "{:?}", site.verdict(0));
}

#[test]
fn statement_34_a_check_sets_and_clears_the_mandate() {
    let mut site = Site::new(2);
    let mandate = |site: &Site, at: usize| site.members[at].core.mandate(site.now);
    calm(&mut site);
    assert_eq!((mandate(&site, 0), mandate(&site, 1)), (Mandate::Held, Mandate::None));
    site.members[0].reaches = false;
    calm(&mut site);
    // It goes after the other one now, and before all that never were chosen.
    assert_eq!((mandate(&site, 0), mandate(&site, 1)), (Mandate::Lapsed, Mandate::Held));
    site.members[0].reaches = true;
    calm(&mut site);
    assert_eq!((mandate(&site, 0), mandate(&site, 1)), (Mandate::None, Mandate::Held));
}

#[test]
fn what_the_service_holds_is_understood_or_nothing_is_allowed() {
    let read = |key: &str, value: &str| {
        let entry = Entry { key: key.to_owned(), value: value.to_owned(), revision: 1 };
        Entries::read(vec![entry])
    };
    for (key, value, wrong) in [
        (CHOSEN, "leaf", "configuration-manager is `leaf`: a manager's port GUID"),
        ("expected", "x", "expected is `x`: the number of a version"),
        ("managers/0x1", "up", "managers/0x1 is `up`: no state=master|standby ports=N,all|some"),
    ] {
        assert!(read(key, value).unwrap_err().starts_with(wrong), "{:?}", read(key, value));
    }
    assert!(read("blacklist/host", "").unwrap_err().starts_with("blacklist/host: "));
    assert_eq!(read("later/versions", "have more").unwrap(), Entries::default());
    let mut site = Site::new(1);
    calm(&mut site);
    site.put("expected", "many");
    site.pass(CALM, |_| ());
    assert!(site.enforcing().is_empty());
}

/// Managers are cut off, stand still, are blacklisted and come back, in any order. Only a master enforces that is
/// chosen by a check that is not too old (P5).
#[test]
fn two_never_enforce_at_once_and_one_does_when_all_is_calm() {
    for seed in 0..RUNS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut site = Site::new(3);
        for _ in 0..12 {
            let at = random.random_range(0..3);
            match random.random_range(0..8) {
                0 => site.members[at].reaches = false,
                1 => site.members[at].reaches = true,
                2 => site.members[at].runs = false,
                3 => site.members[at].runs = true,
                4 => site.put(&bar(at), "tired"),
                5 => site.remove(&bar(at)),
                6 => site.put(CHOSEN, &guid(at).to_string()),
                _ => site.remove(CHOSEN),
            }
            let span = Time::millis(random.random_range(0..6000));
            site.pass(span, |site| {
                let enforcing = site.enforcing();
                assert!(enforcing.len() <= 1, "seed {seed}: {enforcing:?} at {:?}", site.now);
                assert_eq!(site.unfounded(), [0; 0], "seed {seed}: at {:?}", site.now);
            });
        }
        (0..3).for_each(|at| site.remove(&bar(at)));
        for member in &mut site.members {
            (member.reaches, member.runs) = (true, true);
        }
        calm(&mut site);
        assert_eq!(site.enforcing().len(), 1, "seed {seed}: {:?}", site.chosen());
        let before = site.chosen();
        calm(&mut site);
        assert_eq!(site.chosen(), before, "seed {seed}: it moves without an event");
    }
}
