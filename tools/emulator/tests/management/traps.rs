//! Traps: to whom, what they say, how often, and until when (IBA 13.4.9, 14.3).

use snin_emulator::messages::{Message, Messages};
use snin_emulator::{Fault, messages};
use snin_fabric::{Lid, Lmc};
use snin_mad::{Attribute, Mad, Method, Notice, PKey, PKeyTable, Smp, Trap};
use snin_protocol::Time;
use snin_protocol::software_port::messages::Loss;

use crate::support::Lab;

/// The manager has LID 1; leaf0 has 2, leaf1 has 3, and there is a way for all of them.
fn lab() -> Lab {
    let mut lab = Lab::new("clos:2,2,2");
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("leaf0", 0, Lid(2), Lmc::ZERO).value();
    lab.address("leaf1", 0, Lid(3), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 0), (3, 3)]);
    lab.forward("spine0", &[(1, 1), (2, 1), (3, 2)]);
    lab.forward("leaf1", &[(1, 3), (2, 3), (3, 0)]);
    lab
}

/// What came in `time`: time, sender, number, transaction.
fn traps(lab: &mut Lab, time: Time) -> Vec<(Time, u16, u16, u64)> {
    lab.wait(time);
    let trap = |received: snin_emulator::Received| {
        assert_eq!(received.mad.header().method(), Method::Trap);
        let notice: Notice = received.mad.attribute().unwrap();
        assert_eq!(notice.issuer, received.slid);
        assert!(notice.trap().unwrap().is_some(), "a trap that can be read");
        let id = received.mad.header().transaction_id().0;
        (received.at, received.slid.0, notice.trap_number, id)
    };
    lab.received().into_iter().map(trap).collect()
}

fn repress(lab: &mut Lab, to: u16, transaction: u64) {
    let id = snin_mad::TransactionId(transaction);
    let mut smp = Smp::trap().transaction(id).m_key(lab.m_key);
    smp.method = Method::TrapRepress;
    lab.send(&smp.mad(), Lid(to));
}

/// The default: a tenth of a second.
const INTERVAL: Time = Time::millis(100);

#[test]
fn a_trap_is_repeated_until_repressed() {
    let mut lab = lab();
    let port = lab.port("leaf1", 1);
    let begin = lab.emulator.now();
    lab.emulator.inject(Fault::Cut(port), begin);
    let first = traps(&mut lab, INTERVAL * 3 + Time::millis(1));
    let [a, b, c, d] = first[..] else { panic!("{first:?}") };
    assert_eq!((a.1, a.2), (3, 128));
    assert_eq!([b.0 - a.0, c.0 - b.0, d.0 - c.0], [INTERVAL; 3]);
    assert!([b, c, d].iter().all(|trap| (trap.1, trap.2, trap.3) == (a.1, a.2, a.3)));
    // Another transaction, another port: nothing is heard.
    repress(&mut lab, 3, a.3 + 1);
    repress(&mut lab, 2, a.3);
    assert_eq!(traps(&mut lab, INTERVAL).len(), 1);
    repress(&mut lab, 3, a.3);
    assert_eq!(traps(&mut lab, Time::secs(10)), []);
    assert_eq!(lab.emulator.fabric().traps_heard(lab.port("leaf1", 0)), 1);
    assert_eq!(lab.emulator.next_event_time(), None);
}

/// TrapRepress needs the M_Key like a write (IBA 14.2.4).
#[test]
fn only_who_knows_the_key_represses() {
    let mut lab = lab();
    let port0 = lab.port("leaf1", 0);
    lab.emulator.protect(port0, snin_mad::MKey(7), 0, 0);
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    let first = traps(&mut lab, Time::millis(1));
    repress(&mut lab, 3, first[0].3);
    // Repeated, and the wrong key is a story of its own.
    assert_eq!(traps(&mut lab, INTERVAL).len(), 1);
    lab.m_key = snin_mad::MKey(7);
    repress(&mut lab, 3, first[0].3);
    let told = traps(&mut lab, INTERVAL);
    assert!(!told.is_empty() && told.iter().all(|trap| trap.2 == 256), "{told:?}");
}

/// What happens while a trap is under way is told after it, once, with a transaction of its own.
#[test]
fn what_happens_before_the_manager_heard_is_told_again() {
    let mut lab = lab();
    let [one, two] = [lab.port("leaf1", 1), lab.port("leaf1", 2)];
    let now = lab.emulator.now();
    lab.emulator.inject(Fault::Cut(one), now);
    let first = traps(&mut lab, Time::millis(1));
    assert_eq!(first.len(), 1);
    lab.emulator.inject(Fault::Cut(two), Time::ZERO);
    lab.emulator.inject(Fault::Restore(one), Time::ZERO);
    assert_eq!(traps(&mut lab, Time::millis(10)), []);
    repress(&mut lab, 3, first[0].3);
    let second = traps(&mut lab, Time::millis(1));
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].3, first[0].3);
    repress(&mut lab, 3, second[0].3);
    assert_eq!(traps(&mut lab, Time::secs(1)), []);
}

#[test]
fn both_ends_tell_and_who_has_no_manager_is_silent() {
    let mut lab = lab();
    // spine0 forwards and knows a manager but has no LID; spine1 knows no manager: they cannot tell.
    lab.change_port("spine0", 0, |info| info.master_sm_lid = Lid(1)).value();
    lab.change_port("spine1", 0, |info| info.lid = Lid(5)).value();
    let cable = lab.port("leaf0", 4);
    let between = lab.port("leaf0", 3);
    lab.emulator.inject(Fault::Bounce(cable), Time::ZERO);
    lab.emulator.inject(Fault::Bounce(between), Time::secs(1));
    let told = traps(&mut lab, Time::millis(900));
    assert!(!told.is_empty() && told.iter().all(|trap| trap.1 == 2), "{told:?}");
    let told = traps(&mut lab, Time::secs(1));
    assert!(!told.is_empty() && told.iter().all(|trap| (trap.1, trap.2) == (2, 128)), "{told:?}");
}

/// A trap from beyond a dead cable does not arrive; when there is a way again, it does.
#[test]
fn a_trap_without_a_way_is_repeated_into_the_void() {
    let mut lab = lab();
    let cable = lab.port("leaf1", 3);
    lab.emulator.inject(Fault::Cut(cable), Time::ZERO);
    assert_eq!(traps(&mut lab, Time::secs(1)), []);
    assert!(lab.emulator.stats().traps > 9);
    lab.forward("leaf1", &[(1, 4)]);
    lab.forward("spine1", &[(1, 1)]);
    lab.received();
    let told = traps(&mut lab, INTERVAL);
    assert_eq!((told.len(), told[0].1), (1, 3));
}

#[test]
fn the_subnet_timeout_slows_traps_down() {
    let mut lab = lab();
    // 4.096 us times 2 to the 17: 0.537 s.
    lab.change_port("leaf1", 0, |info| info.subnet_timeout = 17).value();
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    let told = traps(&mut lab, Time::secs(2));
    let times: Vec<Time> = told.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(times, [Time(4_096 << 17); 3]);
}

#[test]
fn a_port_whose_capabilities_or_name_change_tells_it() {
    let mut lab = lab();
    lab.emulator.set_manager(lab.client, true);
    lab.wait(Time::millis(1));
    let received = lab.received();
    let notice: Notice = received[0].mad.attribute().unwrap();
    let Ok(Some(Trap::LocalChange(details))) = notice.trap() else { panic!("{notice}") };
    assert_eq!(details.lid, Lid(1));
    assert!(details.capabilities.has(snin_mad::port::Capabilities::SM));
    assert!(!details.other_local_changes && !details.node_description_change);
    repress(&mut lab, 1, received[0].mad.header().transaction_id().0);
    // The same again is no change.
    lab.emulator.set_manager(lab.client, true);
    assert_eq!(traps(&mut lab, Time::secs(1)), []);
    let leaf = lab.node("leaf1");
    lab.emulator.inject(Fault::Rename(leaf, "rack 7".to_owned()), Time::ZERO);
    lab.wait(Time::millis(1));
    let notice: Notice = lab.received()[0].mad.attribute().unwrap();
    let Ok(Some(Trap::LocalChange(details))) = notice.trap() else { panic!("{notice}") };
    assert_eq!(details.lid, Lid(3));
    assert!(details.other_local_changes && details.node_description_change);
    let name = lab.get::<snin_mad::NodeDescription>("leaf1", 0).value();
    assert_eq!(name.text.text(), "rack 7");
}

/// Get(Notice) reads the first, Set(Notice) with its toggle takes it away (IBA 13.4.10).
#[test]
fn notices_can_be_read_and_cleared() {
    let mut lab = lab();
    assert_eq!(lab.get::<Notice>("leaf1", 0).value(), Notice::default());
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    lab.wait(Time::millis(1));
    let mut notice: Notice = lab.get("leaf1", 0).value();
    assert_eq!((notice.trap_number, notice.count), (128, 1));
    notice.toggle = !notice.toggle;
    assert_eq!(lab.set("leaf1", 0, &notice).value().count, 1, "another notice was meant");
    notice.toggle = !notice.toggle;
    assert_eq!(lab.set("leaf1", 0, &notice).value(), Notice::default());
    lab.received();
    assert_eq!(traps(&mut lab, Time::secs(1)), []);
}

/// NoticeToggle turns over from one notice to the next (IBA 13.4.8.2).
#[test]
fn the_toggle_turns_over() {
    let mut lab = lab();
    let mut toggles = Vec::new();
    for port in [1, 2, 1] {
        lab.emulator.inject(Fault::Bounce(lab.port("leaf1", port)), Time::ZERO);
        // Down, then up: two changes, told one after the other.
        for _ in 0..2 {
            lab.wait(Time::millis(10));
            let received = lab.received().remove(0);
            toggles.push(received.mad.attribute::<Notice>().unwrap().toggle);
            repress(&mut lab, 3, received.mad.header().transaction_id().0);
        }
        lab.wait(Time::secs(1));
        lab.received();
    }
    assert_eq!(toggles, [false, true, false, true, false, true]);
}

#[test]
fn a_dead_agent_tells_nothing() {
    let mut lab = lab();
    let leaf = lab.node("leaf1");
    lab.emulator.inject(Fault::Agent(leaf, snin_emulator::Health::Dead), Time::ZERO);
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    assert_eq!(traps(&mut lab, Time::secs(1)), []);
    // Once it is well again it tells what happened.
    lab.emulator.inject(Fault::Agent(leaf, snin_emulator::Health::Well), Time::ZERO);
    assert_eq!(traps(&mut lab, INTERVAL + Time::millis(1)).len(), 1);
}

#[test]
fn a_reboot_forgets_what_was_to_be_told() {
    let mut lab = lab();
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    let leaf = lab.node("leaf1");
    lab.emulator.inject(Fault::Reboot(leaf, Time::millis(1)), Time::secs(1));
    lab.emulator.advance(Time::secs(2));
    let told = lab.received();
    assert!(
        told.iter().all(|trap| trap.at < Time::secs(1) + Time::millis(1) || trap.slid != Lid(3))
    );
    let traps = lab.emulator.stats().traps;
    lab.wait(Time::secs(1));
    let again = lab.received();
    assert!(again.iter().all(|trap| trap.slid != Lid(3)), "{traps}");
}

/// A trap is no more than an LID-routed SMP: Attribute Notice, from the port, to MasterSMLID.
#[test]
fn a_trap_is_an_smp_routed_by_lid() {
    let mut lab = lab();
    lab.emulator.inject(Fault::Cut(lab.port("leaf1", 1)), Time::ZERO);
    lab.wait(Time::millis(1));
    let mad: Mad = lab.received().remove(0).mad;
    let smp = Smp::parse(&mad.0).unwrap();
    assert_eq!((smp.route, smp.attribute), (snin_mad::Route::Lid, Notice::ID));
}

/// Traps 257 and 259 (IBA 14.3.14, 14.3.16): by the port that does not let a packet's partition through, an end
/// port or one of a switch that looks.
#[test]
fn a_foreign_partition_is_counted_and_told() {
    let mut lab = lab();
    lab.address("host1", 1, Lid(4), Lmc::ZERO).value();
    lab.forward("leaf0", &[(4, 2)]);
    lab.activate("leaf0", 1);
    lab.activate("leaf0", 2);
    let (from, to) = (lab.port("host0", 1), Lid(4));
    let refuse = |lab: &mut Lab| lab.emulator.refuse(from, to, lab.emulator.now());
    assert!(lab.emulator.fabric().carry(from, to).is_ok());
    refuse(&mut lab);
    assert_eq!(traps(&mut lab, INTERVAL), [], "what gets through is not told");

    let own: PKeyTable = lab.get("host1", 0).value();
    let other = PKeyTable { keys: own.keys.map(|_| PKey(0x8002)) };
    lab.set("host1", 0, &other).value();
    assert_eq!(lab.emulator.fabric().carry(from, to), Err(Loss::Partition));
    let mut messages = Messages::new(lab.topology.port_count(), messages::Config::default());
    assert!(messages.attach(from));
    let (begin, payload) = (lab.emulator.now(), vec![]);
    let message =
        Message { token: 1, flow: 1, to, path_bits: 0, sl: 0, bytes: 256, begin, payload };
    messages.post(from, message, lab.emulator.fabric(), begin);
    messages.handle_deadline(lab.emulator.fabric(), begin + Time::millis(1));
    assert_eq!(messages.poll_refused(), Some((from, to)));
    assert_eq!(messages.poll_refused(), None);
    refuse(&mut lab);
    let told = traps(&mut lab, Time::millis(1));
    let [(_, 4, 257, id)] = told[..] else { panic!("{told:?}") };
    repress(&mut lab, 4, id);

    // The switch sees it before the host does.
    lab.change_port("leaf0", 2, |info| info.partition_enforcement_outbound = true).value();
    lab.set("leaf0", 2 << 16, &other).value();
    refuse(&mut lab);
    let told = traps(&mut lab, Time::millis(1));
    let [(_, 2, 259, id)] = told[..] else { panic!("{told:?}") };
    repress(&mut lab, 2, id);
    assert_eq!(traps(&mut lab, INTERVAL), []);
    for port in [lab.port("host1", 1), lab.port("leaf0", 2)] {
        assert_eq!(lab.emulator.fabric().port_info(port).p_key_violations, 1);
    }
}
