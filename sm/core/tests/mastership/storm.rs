//! Two to five managers in a storm: kills, stops, cut cables, lossy links. When it is calm again one of them is
//! master, the others stand by with copies of its database, and every table is right. Every
//! fifth time they elect the master.
//!
//! `SNIN_STORMS` says how many (200), `SNIN_SEED` from which seed on.

use std::collections::BTreeSet;

use rand::seq::IteratorRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Fault, Noise};
use snin_fabric::PortIndex;
use snin_mad::SmState;
use snin_protocol::Time;
use snin_sm_database::config::Config;

use crate::mirrored::{kept, register};
use crate::subnet::{Subnet, config};

/// After this long without a disturbance every manager knows of every other.
const KNOWN: Time = Time::secs(5);
/// After this long all is as it should be.
const QUIET: Time = Time::secs(40);
/// Things that happen.
const EVENTS: usize = 12;
/// Of a million MADs on a lossy link.
const LOST: u32 = 50_000;

struct Storm {
    election: Option<u8>,
    subnet: Subnet,
    rng: ChaCha8Rng,
    trunks: Vec<PortIndex>,
    cut: Option<PortIndex>,
    noisy: bool,
    /// Of the last disturbance.
    shaken: Time,
    groups: u8,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut subnet = Subnet::new("clos:4,3,3");
        let election = (seed % 5 == 2).then_some(8);
        let count = rng.random_range(2..=5_usize);
        for (n, host) in [0, 3, 6, 9, 11].into_iter().take(count).enumerate() {
            // Some of them are equal.
            subnet.seat(
                &format!("host{host}"),
                Config { election, ..config(1 + ((n as u64 * 7 + seed) % 4) as u8) },
            );
        }
        let topology = &subnet.topology;
        let trunks = topology.switches().flat_map(|switch| topology.cables(switch));
        let joins = |&(_, peer): &(_, PortIndex)| topology.is_switch(topology.port(peer).node);
        let trunks = trunks.filter(joins).map(|(port, _)| port).collect();
        let mut storm = Self {
            election,
            subnet,
            rng,
            trunks,
            cut: None,
            noisy: false,
            shaken: Time::ZERO,
            groups: 0,
        };
        for n in 0..count {
            storm.subnet.start(n);
            storm.join(n);
            let pause = Time::millis(storm.rng.random_range(0..3_000));
            storm.subnet.run(pause);
        }
        storm.shaken = storm.subnet.now();
        storm
    }

    /// It and every other one that lives call each other.
    fn join(&mut self, n: usize) {
        for other in (0..self.subnet.seats.len()).filter(|&other| other != n) {
            if !self.subnet.seats[other].dead {
                self.subnet.call(n, other);
                self.subnet.call(other, n);
            }
        }
    }

    fn happen(&mut self) {
        let seats = 0..self.subnet.seats.len();
        let n = seats.choose(&mut self.rng).unwrap_or(0);
        let alive = self.subnet.seats.iter().filter(|seat| !seat.dead).count();
        let (dead, stopped) = (self.subnet.seats[n].dead, self.subnet.seats[n].stopped);
        self.shaken = self.subnet.now();
        if std::env::var("SNIN_TELL").is_ok() {
            println!(
                "{} {n} dead {dead} stopped {stopped} {:?}",
                self.shaken,
                self.subnet.states()
            );
        }
        match self.rng.random_range(0..6) {
            0 | 1 if dead => self.revive(n),
            0 if alive > 1 => self.subnet.kill(n),
            1 | 2 if !dead => self.subnet.stop(n, !stopped),
            3 => self.cable(),
            4 => self.noise(),
            _ => self.say(),
        }
    }

    fn revive(&mut self, n: usize) {
        let priority = 1 + self.rng.random_range(0..4);
        self.subnet.revive(n, Config { election: self.election, ..config(priority) }, true);
        self.join(n);
    }

    fn cable(&mut self) {
        match self.cut.take() {
            Some(cut) => self.subnet.strike(Fault::Restore(cut)),
            None => {
                self.cut = self.trunks.iter().choose(&mut self.rng).copied();
                self.cut.into_iter().for_each(|cut| self.subnet.strike(Fault::Cut(cut)));
            }
        }
    }

    fn noise(&mut self) {
        self.noisy = !self.noisy;
        let drop = if self.noisy { LOST } else { 0 };
        self.subnet.strike(Fault::Noise(Noise { drop, ..Noise::default() }));
    }

    /// Hosts tell the master something, where there is one that has a view.
    fn say(&mut self) {
        let leads = |n: &usize| {
            let seat = &self.subnet.seats[*n];
            let leads = seat.manager.state() == SmState::Master && seat.manager.view().is_some();
            leads && !seat.stopped && !seat.dead
        };
        if let Some(master) = (0..self.subnet.seats.len()).find(leads) {
            self.groups = self.groups % 5 + 1;
            register(&mut self.subnet, master, self.groups);
        }
    }

    /// Since all could know of each other no manager wrote between another's writes: a manager that handed over
    /// writes no more.
    fn judge_writes(&self, seed: u64) {
        let since = self.shaken + KNOWN;
        let mut turns: Vec<usize> = Vec::new();
        for write in self.subnet.written.iter().filter(|write| write.at >= since) {
            if turns.last() != Some(&write.by) {
                turns.push(write.by);
            }
        }
        let writers: BTreeSet<usize> = turns.iter().copied().collect();
        assert!(writers.len() == turns.len(), "seed {seed}: {turns:?} write after {since}");
    }

    /// No more faults: managers that stand still go on, and cut cables are mended.
    fn calm(&mut self) {
        for n in 0..self.subnet.seats.len() {
            if !self.subnet.seats[n].dead {
                self.subnet.stop(n, false);
            }
        }
        if self.cut.is_some() {
            self.cable();
        }
        if self.noisy {
            self.noise();
        }
        self.shaken = self.subnet.now();
        self.subnet.run(QUIET);
    }

    fn judge(&self, seed: u64) {
        let seats = self.subnet.seats.iter().enumerate().filter(|(_, seat)| !seat.dead);
        let masters: Vec<usize> = seats
            .clone()
            .filter(|(_, seat)| seat.manager.state() == SmState::Master)
            .map(|(n, _)| n)
            .collect();
        let states = self.subnet.states();
        let [master] = masters[..] else { panic!("seed {seed}: {states:?}") };
        self.subnet.check(master);
        let truth = kept(&self.subnet.seats[master].manager);
        for (n, seat) in seats.filter(|(n, _)| *n != master) {
            let copy = kept(&seat.manager);
            let mirrors = (seat.manager.mirrors(), self.subnet.seats[master].manager.mirrors());
            let lens = (copy.len(), truth.len());
            assert!(copy == truth, "seed {seed}: {n} has {lens:?} of {master}'s: {mirrors:?}");
        }
        self.judge_writes(seed);
    }
}

#[test]
fn storms_end_with_one_master_and_copies_of_what_it_knows() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("SNIN_SEED").unwrap_or(0);
    for seed in first..first + number("SNIN_STORMS").unwrap_or(200) {
        println!("SNIN_SEED={seed}");
        let mut storm = Storm::new(seed);
        for _ in 0..EVENTS {
            storm.happen();
            let pause = Time::millis(storm.rng.random_range(0..9_000));
            storm.subnet.run(pause);
            storm.judge_writes(seed);
        }
        storm.calm();
        storm.judge(seed);
    }
}
