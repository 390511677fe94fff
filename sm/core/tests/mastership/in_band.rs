//! The mirror without sessions: in-band, by the site's key.

use std::collections::BTreeMap;

use snin_emulator::{Fault, Noise};
use snin_fabric::{Guid, Lid};
use snin_mad::{Mad, SmState};
use snin_protocol::Time;
use snin_sm_core::carrier::{Carried, Carrier, Refused, Topic};
use snin_sm_core::mirror::MirrorReport;
use snin_sm_core::{Config, KeyPolicy, Missing, Report};

use crate::carrier::{carrier, carrier_of, origin};
use crate::mirrored::{assert_equal, begun, blocks, kept, register, seated};
use crate::subnet::{Subnet, config};

fn pair(recipe: &str, config: impl Fn(u8) -> Config) -> Subnet {
    let mut subnet = seated(recipe, config);
    subnet.speak_in_band(0);
    subnet.speak_in_band(1);
    begun(subnet)
}

/// What one said in-band, without headers: one message after the other.
fn said(subnet: &Subnet, n: usize) -> String {
    let mads = subnet.overheard.iter().filter(|(by, _, _)| *by == n);
    let bytes: Vec<u8> = mads.flat_map(|(_, _, mad)| mad.0[40..].to_vec()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_mirror_in_band_is_equal_and_tells_no_key() {
    let guarded = |priority| Config { m_key: 0x1357_9BDF_0246_8ACE, ..config(priority) };
    let mut two = pair("clos:4,2,4", guarded);
    assert_equal(&two, 0, 1);
    let told = said(&two, 0);
    assert!(told.contains("host3") && told.contains("service"), "what is searched is there");
    assert!(!told.contains("13579bdf02468ace") && !told.contains("1468416"), "no M_Key is told");
    // Both stand still in turn, and go on where they were.
    for n in [1, 0] {
        two.stop(n, true);
        two.run(Time::millis(700));
        two.stop(n, false);
        two.run(Time::secs(2));
        register(&mut two, 0, 2 + n as u8);
        two.run(Time::secs(2));
        assert_equal(&two, 0, 1);
    }
    // On a fabric that loses every tenth MAD too.
    two.strike(Fault::Noise(Noise { drop: 100_000, ..Noise::default() }));
    register(&mut two, 0, 5);
    two.run(Time::secs(10));
    two.strike(Fault::Noise(Noise::default()));
    two.run(Time::secs(5));
    two.check(0);
    assert_equal(&two, 0, 1);
}

/// Killed in turn: nothing that hosts said is lost, and no table is written.
#[test]
fn a_failover_from_a_copy_in_band_loses_nothing() {
    let guarded = |priority| Config { m_key: 7, m_key_protect: 1, ..config(priority) };
    let mut two = pair("clos:4,2,4", guarded);
    for turn in 0..2 {
        let (old, new) = (turn % 2, 1 - turn % 2);
        let (before, tables) = (kept(&two.seats[old].manager), blocks(&two.seats[new].manager));
        assert!(before.len() > 30);
        two.kill(old);
        two.run(Time::secs(5));
        two.check(new);
        let took = |report: &Report| matches!(report, Report::TookOver { .. });
        assert!(two.seats[new].reports.iter().any(took), "from the copy");
        assert_eq!(kept(&two.seats[new].manager), before);
        assert_eq!(blocks(&two.seats[new].manager), tables);
        two.revive(old, guarded([5, 1][old]), false);
        two.run(Time::secs(15));
        two.check(0);
        assert_equal(&two, 0, 1);
        two.seats.iter_mut().for_each(|seat| seat.reports.clear());
        if turn == 0 {
            let (event, now) = (snin_sm_core::Event::Priority(9), two.now());
            two.seats[1].manager.handle(event, now);
            two.run(Time::secs(5));
            two.check(1);
            two.seats.iter_mut().for_each(|seat| seat.reports.clear());
        }
    }
}

/// Where M_Keys are generated the secret is not told in-band. The next master has what hosts said, and surveys: at
/// level 0 ports show their keys, and get its own; at level 1 they show none, and are named until they do.
#[test]
fn without_the_secret_the_next_master_has_what_hosts_said_and_asks_ports_for_their_keys() {
    for level in [0, 1] {
        let generated = |priority| Config {
            m_key_policy: KeyPolicy::PerPort,
            m_key_protect: level,
            m_key_lease_s: 2 * u16::from(level),
            ..config(priority)
        };
        let mut two = pair("clos:3,2,2", generated);
        assert_equal(&two, 0, 1);
        assert_ne!(two.seats[0].saved.keys, two.seats[1].saved.keys, "the secret was not told");
        let before = kept(&two.seats[0].manager);
        two.kill(0);
        two.run(Time::secs(3));
        let took = |report: &Report| matches!(report, Report::TookOver { .. });
        assert!(!two.seats[1].reports.iter().any(took), "it surveys");
        if level == 1 {
            let locked = |missing: &Missing| matches!(missing, Missing::Locked { .. });
            let missing = two.seats[1].manager.missing();
            assert!(missing.iter().any(locked), "{missing:?}");
        }
        // When the lease of a wrong key has run out a port shows its own.
        two.run(Time::secs(40));
        assert_eq!(two.seats[1].manager.state(), SmState::Master);
        two.check(1);
        assert_eq!(kept(&two.seats[1].manager), before, "level {level}");
    }
}

/// Managers of another site, without a key, or with sessions only, have no copy.
#[test]
fn another_sites_key_opens_nothing() {
    let mut two = seated("clos:3,2,2", config);
    two.speak_in_band(0);
    two.speak_in_band(1);
    two.seats[1].carrier = Some(carrier_of(0x52, 1));
    let two = begun(two);
    let complete =
        |report: &Report| matches!(report, Report::Mirror(MirrorReport::Complete { .. }));
    assert!(!two.seats[1].reports.iter().any(complete));
    assert_eq!(kept(&two.seats[1].manager).len(), 0);
    for seat in &two.seats {
        let carrier = seat.carrier.as_ref().unwrap();
        assert!(carrier.refused(Refused::Forged) > 0);
        assert_eq!(carrier.refused(Refused::Replayed), 0);
    }
}

/// Two carriers without a fabric.
struct Wire {
    ends: [Carrier; 2],
    now: Time,
    /// Every MAD that passed: to which end.
    passed: Vec<(usize, Mad)>,
    events: [Vec<Carried>; 2],
}

const GUIDS: [Guid; 2] = [Guid(0xA), Guid(0xB)];

fn lid(n: usize) -> Lid {
    Lid(1 + n as u16)
}

impl Wire {
    fn new() -> Self {
        let ends = [carrier(1), carrier(2)];
        let (passed, events) = (Vec::new(), Default::default());
        let mut wire = Self { ends, now: Time::secs(1), passed, events };
        wire.know(0);
        wire.know(1);
        wire.run(Time::secs(1));
        wire
    }

    fn know(&mut self, n: usize) {
        let other = BTreeMap::from([(GUIDS[1 - n], lid(1 - n))]);
        self.ends[n].know(GUIDS[n], &other, self.now);
    }

    fn say(&mut self, from: usize, body: &[u8]) {
        self.ends[from].send(GUIDS[1 - from], Topic(9), body.to_vec(), self.now);
    }

    /// What is sent arrives at once.
    fn settle(&mut self) {
        loop {
            let before = self.passed.len();
            for n in [0, 1] {
                while let Some((to, mad)) = self.ends[n].poll_output() {
                    assert_eq!(to.lid, lid(1 - n));
                    self.passed.push((1 - n, (*mad).clone()));
                    self.ends[1 - n].handle(origin(lid(n)), &mad.0, self.now);
                }
                self.events[n].extend(std::iter::from_fn(|| self.ends[n].next_event()));
            }
            if self.passed.len() == before {
                break;
            }
        }
    }

    fn run(&mut self, time: Time) {
        let end = self.now + time;
        while self.now < end {
            self.settle();
            let due = self.ends.iter().filter_map(Carrier::next_deadline).min();
            self.now = due.unwrap_or(end).max(self.now + Time::millis(1)).min(end);
            self.ends.iter_mut().for_each(|carrier| carrier.handle_deadline(self.now));
        }
        self.settle();
    }

    fn refused(&self, n: usize) -> u64 {
        Refused::ALL.map(|(why, _)| self.ends[n].refused(why)).iter().sum()
    }

    /// What an end heard, as text.
    fn heard(&mut self, n: usize) -> Vec<String> {
        let text = |event| match event {
            Carried::Opened(_) => "opened".to_owned(),
            Carried::Said(_, _, body) => String::from_utf8_lossy(&body).into_owned(),
            Carried::Closed(_) => "closed".to_owned(),
        };
        std::mem::take(&mut self.events[n]).into_iter().map(text).collect()
    }
}

#[test]
fn messages_come_once_and_in_order() {
    let mut wire = Wire::new();
    assert_eq!([wire.heard(0), wire.heard(1)], [["opened"], ["opened"]]);
    let long = "x".repeat(48 << 10);
    wire.say(0, b"one");
    wire.say(0, long.as_bytes());
    wire.say(0, b"three");
    wire.say(1, b"back");
    wire.run(Time::secs(1));
    assert_eq!(wire.heard(1), ["one", &*long, "three"]);
    assert_eq!((wire.heard(0), wire.refused(0), wire.refused(1)), (vec!["back".to_owned()], 0, 0));
    // One that begins anew is known at once, and the old session ends.
    wire.ends[1] = carrier(3);
    wire.know(1);
    wire.run(Time::secs(1));
    wire.say(0, b"again");
    wire.run(Time::secs(1));
    assert_eq!(wire.heard(0), ["closed", "opened"]);
    assert_eq!(wire.heard(1), ["opened", "again"]);
    // One that does not answer ends it too; it begins again when it does.
    wire.ends[1].know(Guid(0xC), &BTreeMap::new(), wire.now);
    wire.say(0, b"lost");
    wire.run(Time::secs(3));
    wire.ends[1] = carrier(4);
    wire.know(1);
    wire.run(Time::secs(9));
    assert_eq!(wire.heard(0), ["closed", "opened"]);
}

/// Everything that passed comes again, changed or not, from the same address or another, now or in a later
/// session: nothing of it is taken, all of it is counted, and what is meant goes on.
#[test]
fn what_is_replayed_forged_or_cut_short_is_refused_and_counted() {
    let mut wire = Wire::new();
    wire.say(0, &[b'y'; 1_000]);
    wire.say(1, b"back");
    wire.run(Time::secs(1));
    let recorded = wire.passed.clone();
    assert!(recorded.len() > 12, "{}", recorded.len());
    for later in [false, true] {
        if later {
            wire.ends[1] = carrier(9);
            wire.know(1);
            wire.run(Time::secs(1));
        }
        let _ = [wire.heard(0), wire.heard(1)];
        let before =
            [wire.ends[0].refused(Refused::Replayed), wire.ends[1].refused(Refused::OtherSession)];
        for from in [None, Some(Lid(77))] {
            for (to, mad) in &recorded {
                let source = origin(from.unwrap_or_else(|| lid(1 - to)));
                wire.ends[*to].handle(source, &mad.0, wire.now);
                // To the one that said it, too.
                wire.ends[1 - to].handle(source, &mad.0, wire.now);
                for end in &mut wire.ends {
                    while end.poll_output().is_some() {}
                }
            }
        }
        wire.run(Time::secs(20));
        assert_eq!([wire.heard(0), wire.heard(1)], [[""; 0], [""; 0]], "later: {later}");
        let after =
            [wire.ends[0].refused(Refused::Replayed), wire.ends[1].refused(Refused::OtherSession)];
        assert!(
            if later { after[1] > before[1] } else { after[0] > before[0] },
            "{before:?} {after:?}"
        );
        wire.say(0, b"goes on");
        wire.run(Time::secs(1));
        assert_eq!(wire.heard(1), ["goes on"]);
    }
    // Each bit of a message, and each length.
    let (to, hello) = recorded[0].clone();
    let single = recorded.iter().find(|(_, mad)| mad.0[26] & 7 == 7).unwrap();
    let mut count = wire.refused(to);
    for bit in (24 * 8..(40 + 76) * 8).step_by(3) {
        let mut mad = hello.clone();
        mad.0[bit / 8] ^= 1 << (bit % 8);
        wire.ends[to].handle(origin(lid(1 - to)), &mad.0, wire.now);
        // A bit that means nothing leaves a hello of an earlier session: it is answered, and changes nothing.
        while wire.ends[to].poll_output().is_some() {}
    }
    assert!(wire.refused(to) > count + 200);
    count = wire.refused(single.0);
    for length in 0..256 {
        let mad = &single.1.0[..length];
        wire.ends[single.0].handle(origin(lid(1 - single.0)), mad, wire.now);
    }
    assert_eq!(wire.refused(single.0), count + 256);
    for length in 1..220_u32 {
        let mut mad = single.1.clone();
        mad.0[32..36].copy_from_slice(&length.to_be_bytes());
        mad.0[12..16].copy_from_slice(&(length << 8).to_be_bytes());
        wire.ends[single.0].handle(origin(lid(1 - single.0)), &mad.0, wire.now);
        while wire.ends[single.0].poll_output().is_some() {}
    }
    assert!(wire.refused(single.0) > count + 256 + 200);
    wire.run(Time::secs(20));
    assert_eq!([wire.heard(0), wire.heard(1)], [[""; 0], [""; 0]]);
    wire.say(1, b"still");
    wire.run(Time::secs(1));
    assert_eq!(wire.heard(0), ["still"]);
}

/// A flood of first segments from everywhere costs a bounded room, and what is meant comes through.
#[test]
fn a_flood_is_bounded() {
    let mut wire = Wire::new();
    wire.say(0, &[b'z'; 1_000]);
    wire.run(Time::secs(1));
    let _ = wire.heard(1);
    let first =
        wire.passed.iter().find(|(to, mad)| *to == 1 && mad.0[26] & 7 == 3).unwrap().1.clone();
    for n in 0..2_000_u32 {
        let mut mad = first.clone();
        mad.0[12..16].copy_from_slice(&(n << 4).to_be_bytes());
        wire.ends[1].handle(origin(Lid(100 + (n % 500) as u16)), &mad.0, wire.now);
        while wire.ends[1].poll_output().is_some() {}
    }
    assert!(wire.ends[1].refused(Refused::Overload) > 500);
    // They go when their time is over.
    wire.run(Time::secs(11));
    assert!(wire.ends[1].refused(Refused::Broken) >= 200);
    wire.say(0, b"through");
    wire.run(Time::secs(1));
    assert_eq!(wire.heard(1), ["through"]);
    // More than may wait ends the session.
    let many = 200;
    (0..many).for_each(|_| wire.ends[0].send(GUIDS[1], Topic(9), vec![0; 60_000], wire.now));
    assert!(wire.ends[0].refused(Refused::Full) == 1);
    assert!(wire.ends[0].refused(Refused::OtherSession) > 100);
}
