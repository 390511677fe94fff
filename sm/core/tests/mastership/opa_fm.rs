//! A manager by opa-fm's rules, as a script (Esm/ib/src/smi/sm/sm_fsm.c): a standby pings the master by LID and
//! shows itself in the question; a master hands over to one that goes before it, and stays master until that one
//! has said ACKNOWLEDGE; one that was handed over to says so itself; one that discovers refuses all.

use snin_emulator::{Fault, Noise};
use snin_fabric::{Lid, PortIndex};
use snin_mad::{
    Attribute as _, Class, Mad, Method, Route, SmInfo, SmKey, SmState, Smp, TransactionId,
};
use snin_mastership::control::Control;
use snin_protocol::Time;

use crate::subnet::{Subnet, config, port};

/// MasterPingInterval, and MasterPingMaxFail.
const PING: Time = Time::secs(5);
const MOST_FAILED: u32 = 3;
/// How often the script looks at what came.
const STEP: Time = Time::millis(20);
/// A HANDOVER without an ACKNOWLEDGE is said again.
const AGAIN: Time = Time::secs(2);

/// One of ours, of priority 4, at host0, and the script at host5.
struct OpaFm {
    subnet: Subnet,
    at: PortIndex,
    /// What came that the script has seen.
    seen: usize,
    id: u64,
    ping_due: Time,
    /// Pings that were answered by a master, and those in a row that were not.
    answered: u32,
    failed: u32,
    waiting: bool,
    /// It hands over, and says so again at this time.
    handing: Option<Time>,
    /// What ours told it.
    told: Vec<Control>,
}

impl OpaFm {
    fn new(state: SmState, priority: u8) -> Self {
        let mut subnet = Subnet::new("clos:4,2,4");
        subnet.seat("host0", config(4));
        let info = SmInfo { priority, state, sm_key: SmKey(1), ..SmInfo::default() };
        subnet.appoint("host5", info);
        let at = port(&subnet.topology, "host5", 1);
        Self {
            subnet,
            at,
            seen: 0,
            id: 0,
            ping_due: PING,
            answered: 0,
            failed: 0,
            waiting: false,
            handing: None,
            told: Vec::new(),
        }
    }

    fn info(&mut self) -> &mut SmInfo {
        &mut self.subnet.foreign.as_mut().unwrap().info
    }

    fn state(&mut self) -> SmState {
        self.info().state
    }

    /// Says something by LID, as opa-fm does, itself in the data.
    fn say(&mut self, method: Method, modifier: u32, to: Lid) {
        self.id += 1;
        let smp = Smp::get(SmInfo::ID, modifier, Route::Lid).transaction(TransactionId(self.id));
        let info = self.info().clone();
        let mad = Smp { method, ..smp }.mad().with(&info);
        let (client, now) = (self.subnet.foreign.as_ref().unwrap().client, self.subnet.now());
        self.subnet.emulator.send(client, &mad, to, now);
    }

    /// Ours has this address.
    fn ours(&self) -> Lid {
        self.subnet.emulator.fabric().port_info(self.subnet.seats[0].at).lid
    }

    fn run(&mut self, time: Time) {
        let end = self.subnet.now() + time;
        while self.subnet.now() < end {
            self.subnet.run(STEP);
            let heard = &self.subnet.foreign.as_ref().unwrap().heard;
            let came: Vec<Mad> = heard[self.seen..].to_vec();
            self.seen = heard.len();
            came.iter().for_each(|mad| self.hear(mad));
            self.ping();
            if self.handing.is_some_and(|due| due <= self.subnet.now()) {
                self.hand_over();
            }
        }
    }

    fn hear(&mut self, mad: &Mad) {
        let header = mad.header();
        match header.method() {
            Method::Set => {
                let control = Control::of(header.modifier().0).unwrap();
                self.told.push(control);
                let refuses = self.subnet.foreign.as_ref().unwrap().refuses;
                match control {
                    Control::Handover if !refuses => {
                        self.info().state = SmState::Master;
                        let ours = self.ours();
                        self.say(Method::Set, 2, ours);
                    }
                    Control::Acknowledge if self.handing.take().is_some() => {
                        self.info().state = SmState::Standby;
                    }
                    _ => {}
                }
            }
            Method::GetResp if header.class() == Class::Subnet => {
                let is_master = mad.attribute::<SmInfo>().unwrap().state == SmState::Master;
                if std::mem::take(&mut self.waiting) && is_master {
                    (self.answered, self.failed) = (self.answered + 1, 0);
                }
            }
            _ => {}
        }
    }

    /// A standby asks the master that its port names; one that was silent for too long is dead.
    fn ping(&mut self) {
        if self.state() != SmState::Standby || self.subnet.now() < self.ping_due {
            return;
        }
        self.ping_due = self.subnet.now() + PING;
        self.failed += u32::from(self.waiting);
        if self.failed >= MOST_FAILED {
            self.info().state = SmState::Master;
            return;
        }
        let master = self.subnet.emulator.fabric().port_info(self.at).master_sm_lid;
        self.waiting = true;
        self.say(Method::Get, 0, master);
    }

    fn hand_over(&mut self) {
        self.handing = Some(self.subnet.now() + AGAIN);
        let ours = self.ours();
        self.say(Method::Set, 1, ours);
    }
}

#[test]
fn a_master_ping_is_answered_by_lid_and_shows_who_asks() {
    let mut both = OpaFm::new(SmState::Standby, 2);
    both.subnet.start(0);
    both.run(Time::secs(31));
    both.subnet.check(0);
    assert_eq!((both.answered, both.failed, both.state()), (6, 0, SmState::Standby));
    assert_eq!(both.told, []);
    // Its priority rises: the next ping shows that, or a poll before it.
    both.info().priority = 9;
    both.run(Time::secs(6));
    assert_eq!(both.told, [Control::Handover]);
    assert_eq!(both.state(), SmState::Master);
    assert_eq!(both.subnet.states(), [SmState::Standby]);
    // Ours polls it by directed route and by the address that its port names, and does not write.
    let since = both.subnet.now();
    both.run(Time::secs(20));
    assert_eq!(
        (both.subnet.states(), both.subnet.writes_by(0, since)),
        (vec![SmState::Standby], 0)
    );
}

/// An opa-fm that hands over stays master until it is acknowledged: on a fabric that loses what is said, too.
#[test]
fn a_master_that_waits_for_acknowledge_gets_it() {
    for noisy in [false, true] {
        let mut both = OpaFm::new(SmState::Standby, 2);
        both.subnet.start(0);
        both.run(Time::secs(3));
        both.info().priority = 9;
        both.run(Time::secs(6));
        assert_eq!((both.state(), both.subnet.states()), (SmState::Master, vec![SmState::Standby]));
        both.told.clear();
        let drop = if noisy { 200_000 } else { 0 };
        both.subnet.strike(Fault::Noise(Noise { drop, ..Noise::default() }));
        both.info().priority = 1;
        both.hand_over();
        both.run(Time::secs(10));
        both.subnet.strike(Fault::Noise(Noise::default()));
        both.run(Time::secs(20));
        let told = &both.told;
        let acknowledged = told.iter().all(|&told| told == Control::Acknowledge);
        assert!(acknowledged && !told.is_empty(), "noisy: {noisy}, {told:?}");
        assert_eq!(both.state(), SmState::Standby, "noisy: {noisy}");
        both.subnet.check(0);
    }
}

/// One that discovers refuses HANDOVER: ours stays master, and offers it again when it stands by.
#[test]
fn one_that_discovers_is_handed_over_to_later() {
    let mut both = OpaFm::new(SmState::Standby, 2);
    both.subnet.start(0);
    both.run(Time::secs(3));
    both.subnet.foreign.as_mut().unwrap().refuses = true;
    (both.info().state, both.info().priority) = (SmState::Discovering, 9);
    both.run(Time::secs(5));
    both.subnet.check(0);
    both.subnet.foreign.as_mut().unwrap().refuses = false;
    both.info().state = SmState::Standby;
    both.run(Time::secs(30));
    assert_eq!((both.state(), both.subnet.states()), (SmState::Master, vec![SmState::Standby]));
}

/// Ours is killed: after three pings without an answer the other one is master. Ours comes again, and stands by.
#[test]
fn the_one_that_pinged_follows_a_dead_master() {
    let mut both = OpaFm::new(SmState::Standby, 2);
    both.subnet.start(0);
    both.run(Time::secs(11));
    assert_eq!(both.answered, 2);
    both.subnet.kill(0);
    both.run(Time::secs(21));
    assert_eq!((both.state(), both.failed), (SmState::Master, MOST_FAILED));
    let since = both.subnet.now();
    both.subnet.revive(0, config(1), true);
    both.run(Time::secs(10));
    assert_eq!(
        (both.subnet.states(), both.subnet.writes_by(0, since)),
        (vec![SmState::Standby], 0)
    );
}
