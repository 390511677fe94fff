//! Random sets of databases: the rules hold for each.
//!
//! `SNIN_MERGES` says how many sets (1,000), `SNIN_SEED` from which seed they are drawn.

use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::sa::{ANY_LID, InformInfo, JoinState, McMemberRecord, Record as _, ServiceRecord};
use snin_mad::{Gid, NodeString, PKey, PortInfo, QKey};
use snin_protocol::Time;
use snin_sm_database::merge::check::check;
use snin_sm_database::merge::{
    Entry, MergeError, Merged, Partition, Rules, Snapshot, Table, merge, read, write,
};
use snin_sm_database::records::{Group, Member, Port, Service, Stamp, Subscriber, Subscription};

use crate::two::{NOW, ip};

const YEAR: u64 = 365 * 86_400;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Makes databases that have as many numbers in common as possible.
struct Maker {
    random: ChaCha8Rng,
    /// Counts stamps: one manager makes no two alike.
    count: u32,
}

impl Maker {
    fn entry<V>(&mut self, origin: Guid, wrong: i64, value: V) -> Entry<V> {
        self.count += 1;
        let age = self.random.random_range(0..1_000);
        let time = (NOW - age).saturating_add_signed(wrong);
        let stamp = Stamp { time: Time::secs(time), count: self.count, origin };
        Entry { value: self.random.random_bool(0.9).then_some(value), stamp }
    }

    fn port(&mut self, subnet: u64) -> Guid {
        // Some ports are in the databases of several subnets: they moved, or have a copy.
        let subnet = if self.random.random_bool(0.1) { 9 } else { subnet };
        Guid(0x2000 + subnet * 0x100 + self.random.random_range(1..8))
    }

    /// A subnet's database, whose clock is wrong by so many seconds.
    fn database(&mut self, subnet: u64, wrong: i64) -> Snapshot {
        let master = Guid(0x1000 + subnet);
        let priority = self.random.random_range(0..3);
        let mut made = Snapshot::new(master, &format!("subnet {subnet}"), priority);
        made.clock = Time::secs(NOW.saturating_add_signed(wrong));
        if self.random.random_bool(0.1) {
            made.prefix.0 = 0xFEC0_0000_0000_0000 | subnet;
        }
        self.ports(&mut made, subnet, wrong);
        self.partitions(&mut made, wrong);
        self.groups(&mut made, subnet, wrong);
        self.hosts(&mut made, subnet, wrong);
        made.complete();
        made
    }

    fn ports(&mut self, made: &mut Snapshot, subnet: u64, wrong: i64) {
        let (master, lmc) = (made.master, Lmc::new(self.random.random_range(0..3)).unwrap());
        let mut ports = vec![master];
        ports.extend((0..self.random.random_range(1..6)).map(|_| self.port(subnet)));
        ports.sort();
        ports.dedup();
        ports.shuffle(&mut self.random);
        let first = Lid(1 << lmc.bits());
        for (n, guid) in (0..).zip(ports) {
            let lid = Lid(first.0 + (n << lmc.bits()));
            let info = PortInfo {
                lid,
                lmc,
                gid_prefix: made.prefix,
                master_sm_lid: first,
                m_key: snin_mad::MKey(subnet),
                ..PortInfo::default()
            };
            let mut keys = [PKey(0); 32];
            for key in keys.iter_mut().take(self.random.random_range(0..4)) {
                *key = PKey(self.key() | self.random.random_range(0..2) << 15);
            }
            let mut port = Port::of(info, lid, lmc);
            (port.guid, port.keys) = (Some(guid), vec![keys]);
            let place = (Guid(guid.0 << 8), PortNum(1));
            let entry = self.entry(master, wrong, port);
            if entry.value.is_none() {
                // A port that is gone keeps its address.
                let value = Some((lid, lmc));
                made.lids.insert(guid, Entry { value, stamp: entry.stamp });
            }
            made.ports.insert(place, entry);
            let other = (Guid(self.random.random_range(1..9)), PortNum(1));
            made.links.insert(place, self.entry(master, wrong, other));
        }
    }

    fn key(&mut self) -> u16 {
        *[0x7FFF, 1, 2, 3, 0x10].choose(&mut self.random).unwrap()
    }

    fn partitions(&mut self, made: &mut Snapshot, wrong: i64) {
        for _ in 0..self.random.random_range(0..4) {
            let number = self.key();
            let name = self.random.random_bool(0.5);
            let name = name.then(|| ["storage", "jobs"][self.random.random_range(0..2)].into());
            let common = self.random.random_bool(0.1);
            let entry = self.entry(made.master, wrong, Partition { name, common });
            made.partitions.insert(number, entry);
        }
    }

    fn groups(&mut self, made: &mut Snapshot, subnet: u64, wrong: i64) {
        for n in 0..self.random.random_range(0..5) {
            let key = self.key();
            let mgid = match self.random.random_range(0..3) {
                0 => ip(key, self.random.random_range(1..3)),
                1 => {
                    let mut made_up = [0; 16];
                    made_up[..4].copy_from_slice(&[0xFF, 0x12, 0xA0, 0x1B]);
                    made_up[15] = self.random.random_range(0..3);
                    Gid(made_up)
                }
                _ => Gid([0xFF; 16]),
            };
            let record = McMemberRecord {
                mgid,
                mlid: Lid(0xC000 + n),
                p_key: PKey(0x8000 | key),
                q_key: QKey(self.random.random_range(1..3)),
                ..McMemberRecord::default()
            };
            let entry = self.entry(made.master, wrong, Group { record, permanent: n == 0 });
            made.groups.insert(mgid, entry);
            for _ in 0..self.random.random_range(0..3) {
                let guid = self.port(subnet);
                let port_gid = Gid::new(made.prefix, guid);
                let member = Member { port_gid, state: JoinState::FULL, proxy: false };
                let entry = self.entry(made.master, wrong, member);
                made.members.insert((mgid, guid), entry);
            }
        }
    }

    fn hosts(&mut self, made: &mut Snapshot, subnet: u64, wrong: i64) {
        for n in 0..self.random.random_range(0..3) {
            let (guid, key) = (self.port(subnet), self.key());
            let gid = Gid::new(made.prefix, guid);
            let name = ["files", "mail"][self.random.random_range(0..2)];
            let record = ServiceRecord {
                id: self.random.random_range(1..3),
                gid,
                p_key: PKey(0x8000 | key),
                name: NodeString::new(name),
                ..ServiceRecord::default()
            };
            let key = (record.id, gid, record.p_key.0);
            let until = self.random.random_bool(0.5).then(|| Time::secs(NOW + 60));
            made.services.insert(key, self.entry(made.master, wrong, Service { record, until }));
            // Aliases of one port that two subnets know would be two GUIDs of one entry.
            let alias = Guid(0x5000 + self.random.random_range(0..4));
            if !made.aliases.values().any(|entry| entry.value == Some(alias)) {
                let own = Guid(0x2000 + subnet * 0x100 + n);
                let entry = self.entry(made.master, wrong, alias);
                made.aliases.insert((own, 1), entry);
            }
            let lid_begin = *[Lid(0), Lid(4), ANY_LID].choose(&mut self.random).unwrap();
            let lid_end = Lid(lid_begin.0.saturating_add(self.random.random_range(0..3)));
            let info = InformInfo { gid, lid_begin, lid_end, ..InformInfo::default() };
            let port = *made.lids.keys().next().unwrap_or(&guid);
            let key = Subscriber { port, lid: Lid(4), qp: 1, to: info.bytes() };
            let held = Subscription { info, sl: 0, trusted: false };
            made.subscriptions.insert(key, self.entry(made.master, wrong, held));
        }
    }

    /// Another copy of a database, in which some things happened since.
    fn later(&mut self, of: &Snapshot) -> Snapshot {
        let mut later = of.clone();
        later.clock.0 += 5_000_000_000;
        let master = of.master;
        let count = &mut self.count;
        let random = &mut self.random;
        let mut stamp = || {
            *count += 1;
            Stamp { time: later.clock, count: *count, origin: master }
        };
        age(&mut later.members, random, &mut stamp);
        age(&mut later.links, random, &mut stamp);
        age(&mut later.services, random, &mut stamp);
        later.complete();
        later
    }
}

/// Some records are deleted.
fn age<K: Ord, V>(
    table: &mut Table<K, V>,
    random: &mut ChaCha8Rng,
    stamp: &mut impl FnMut() -> Stamp,
) {
    for entry in table.values_mut().filter(|_| random.random_bool(0.3)) {
        *entry = Entry { value: None, stamp: stamp() };
    }
}

fn set(seed: u64) -> (Vec<Snapshot>, Rules) {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let mut maker = Maker { random, count: 0 };
    let mut all = Vec::new();
    for subnet in 0..maker.random.random_range(1..5) {
        // Clocks off by years, either way.
        let off = maker.random.random_range(-3..=3) * YEAR as i64;
        let wrong = if maker.random.random_bool(0.7) { 0 } else { off };
        all.push(maker.database(subnet, wrong));
    }
    if maker.random.random_bool(0.3) {
        let of = all.choose(&mut maker.random).unwrap().clone();
        all.push(maker.later(&of));
    }
    let mut rules = Rules::at(Time::secs(NOW + 10));
    if maker.random.random_bool(0.2) {
        rules.keep = all.choose(&mut maker.random).map(|database| database.master);
    }
    (all, rules)
}

/// What holds of every merge; what does not.
fn judge(all: &[Snapshot], rules: &Rules, seed: u64) -> Result<Merged, String> {
    let merged = match merge(all, rules) {
        Ok(merged) => merged,
        Err(MergeError::Contradiction { what, .. }) => return Err(format!("refused: {what}")),
        Err(error) => return Err(error.to_string()),
    };
    let wrong = check(all, rules, &merged.snapshot);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let mut other = all.to_vec();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    other.shuffle(&mut random);
    other.push(other[0].clone());
    if merge(&other, rules).as_ref() != Ok(&merged) {
        return Err("another order, another result".to_owned());
    }
    // Again, alone or with some of those that are in it: nothing changes.
    let mut again = vec![merged.snapshot.clone()];
    again.extend(all.iter().filter(|_| random.random_bool(0.5)).cloned());
    let twice = merge(&again, rules).map_err(|error| format!("again: {error}"))?;
    if twice.snapshot != merged.snapshot {
        return Err(format!("again: {}", difference(&twice.snapshot, &merged.snapshot)));
    }
    if read(&write(&merged.snapshot, true)).as_ref() != Ok(&merged.snapshot) {
        return Err("not read as it was written".to_owned());
    }
    // Nothing of a clock that ran ahead is later than now.
    if merged.snapshot.clock > rules.now + rules.tolerance {
        return Err("the future wins".to_owned());
    }
    Ok(merged)
}

fn difference(a: &Snapshot, b: &Snapshot) -> String {
    let (a, b) = (write(a, true), write(b, true));
    let lines = |text: &str, other: &str| -> Vec<String> {
        text.lines().filter(|line| !other.lines().any(|l| l == *line)).map(str::to_owned).collect()
    };
    format!("{:#?} instead of {:#?}", lines(&a, &b), lines(&b, &a))
}

#[test]
fn whatever_is_in_them_the_rules_hold() {
    let (count, first) = (number("SNIN_MERGES", 1_000), number("SNIN_SEED", 1));
    let (mut renumbered, mut replaced, mut unordered, mut ahead) = (0, 0, 0, 0);
    for seed in first..first + count {
        let (all, rules) = set(seed);
        let merged =
            judge(&all, &rules, seed).unwrap_or_else(|why| panic!("SNIN_SEED={seed}: {why}"));
        renumbered += merged.report.renumbered.len();
        replaced += merged.report.replaced.len();
        unordered += merged.report.unordered().count();
        ahead += merged.report.ahead.len();
        if (seed - first) % 100_000 == 99_999 {
            println!("{} sets", seed - first + 1);
        }
    }
    println!(
        "{renumbered} renumbered, {replaced} replaced, {unordered} not ordered, {ahead} ahead"
    );
    assert!(renumbered > 0 && replaced > 0 && unordered > 0 && ahead > 0);
}

#[test]
fn a_clock_that_runs_ahead_does_not_win_for_ever() {
    let random = ChaCha8Rng::seed_from_u64(7);
    let mut maker = Maker { random, count: 0 };
    let (mut right, mut ahead) = (maker.database(0, 0), maker.database(1, 0));
    let key = (Guid(0x77), PortNum(1));
    let entry = |time: u64, origin: Guid, to: u64| {
        let stamp = Stamp { time: Time::secs(time), count: 0, origin };
        Entry { value: Some((Guid(to), PortNum(1))), stamp }
    };
    // Changed an hour ago by a clock that is three years ahead, and ten minutes ago by one that is right.
    ahead.clock = Time::secs(NOW + 3 * YEAR);
    ahead.links.insert(key, entry(NOW + 3 * YEAR - 3_600, ahead.master, 1));
    right.links.insert(key, entry(NOW - 600, right.master, 2));
    let rules = Rules::at(Time::secs(NOW));
    let merged = merge(&[ahead.clone(), right], &rules).unwrap();
    assert_eq!(merged.snapshot.links[&key].value, Some((Guid(2), PortNum(1))));
    assert_eq!(merged.report.ahead[0].manager, ahead.master);
    assert_eq!(merged.report.ahead[0].nanos, 3 * YEAR * 1_000_000_000);
    // It is told that the clocks could not say so.
    let told = merged.report.replaced.iter().find(|one| one.table == "link" && !one.ordered);
    assert!(told.is_some(), "{}", merged.report);
    // Years later its old copy still does not win.
    let later =
        merge(&[merged.snapshot.clone(), ahead], &Rules::at(Time::secs(NOW + YEAR))).unwrap();
    assert_eq!(later.snapshot.links[&key].value, Some((Guid(2), PortNum(1))));
}
