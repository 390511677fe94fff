//! Malformed requests: random ones, and good ones with bits changed. Nothing panics, nothing grows
//! beyond its limits, and afterwards the subnet answers as before.
//!
//! `SNIN_FUZZ` says how many (a few by default), `SNIN_SEED` where they begin.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::Lid;
use snin_mad::PKey;
use snin_mad::sa::{NodeRecord, RECORDS};
use snin_protocol::Time;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::{Groups, Members, Services, Subscriptions};

use crate::subnet::{Subnet, config};

#[test]
fn nothing_that_is_asked_panics() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, rounds) = (number("SNIN_SEED").unwrap_or(0), number("SNIN_FUZZ").unwrap_or(20_000));
    let mut subnet = Subnet::new("clos:3,2,2", config());
    let nodes = subnet.table(1, &NodeRecord::default(), &[]);
    for seed in first..first + rounds {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut bytes = [0; 256];
        random.fill_bytes(&mut bytes);
        (bytes[0], bytes[1], bytes[2]) = (1, 3, 2);
        bytes[3] = [1, 2, 6, 0x12, 0x13, 0x14, 0x15, 0x86, 0x92][random.random_range(0..9)];
        let id = RECORDS[random.random_range(0..RECORDS.len())].0;
        bytes[16..18].copy_from_slice(&id.0.to_be_bytes());
        if random.random_bool(0.8) {
            bytes[24..36].fill(0);
        }
        bytes[36..44].fill(0);
        bytes[43] = random.random_range(0..2);
        // A mask of few bits, of the low ones most.
        let bits = (0..random.random_range(0..6)).map(|_| random.random_range(0..24));
        let mask: u64 = bits.fold(0, |mask, bit| mask | 1 << bit);
        bytes[48..56].copy_from_slice(&mask.to_be_bytes());
        if random.random_bool(0.5) {
            let host = random.random_range(1..6);
            bytes[56..72].copy_from_slice(&subnet.gid(host).0);
            let host = random.random_range(1..6);
            bytes[72..88].copy_from_slice(&subnet.gid(host).0);
        }
        let length = if random.random_bool(0.05) { random.random_range(0..256) } else { 256 };
        let lid = if random.random_bool(0.1) { Lid(random.random()) } else { subnet.lid(1) };
        let qp = random.random_range(1..4);
        let id = seed;
        bytes[8..16].copy_from_slice(&id.to_be_bytes());
        subnet.give(Origin { lid, qp, sl: 0, p_key: PKey::DEFAULT }, &bytes[..length]);
        subnet.mail.clear();
        if seed % 1_000 == 999 {
            subnet.run(Time::secs(1));
            subnet.mail.clear();
        }
    }
    subnet.run(Time::secs(60));
    subnet.mail.clear();
    assert_eq!(subnet.table(1, &NodeRecord::default(), &[]), nodes);
    let metrics = subnet.manager.administration();
    println!("{:?} {:?}", metrics.answers, metrics.unanswered);
    // Every request is answered, or counted by the reason why not; the last one asks for all nodes.
    let sum = |counts: &mut dyn Iterator<Item = &u64>| counts.sum::<u64>();
    let answered = sum(&mut metrics.answers.values());
    assert_eq!(answered, sum(&mut metrics.requests.values()));
    // Of a message in parts a part is neither.
    let done = answered + sum(&mut metrics.unanswered.values());
    assert!(done <= rounds + 2 && done * 10 > rounds * 8, "{done} of {rounds}");
    let database = subnet.manager.database();
    let groups = database.all::<Groups>().len();
    assert!(groups <= 16_384 && database.all::<Members>().len() <= 8 * groups.max(1));
    assert!(database.all::<Services>().len() <= 65_536);
    assert!(database.all::<Subscriptions>().len() <= 262_144);
    // All that hosts made survives a restart.
    let counts = |subnet: &Subnet| {
        let database = subnet.manager.database();
        let (groups, members) = (database.all::<Groups>(), database.all::<Members>());
        let (services, others) = (database.all::<Services>(), database.all::<Subscriptions>());
        [groups.len(), members.len(), services.len(), others.len()]
    };
    let before = counts(&subnet);
    assert_eq!(counts(&subnet.restarted(config())), before);
}
