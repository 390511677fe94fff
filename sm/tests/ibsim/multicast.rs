//! Multicast groups on fabrics that ibsim simulates: what others read and follow is what the manager meant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_fabric::multicast::{MulticastTable, PortMask};
use snin_fabric::{Guid, Lid, Mlid, PortNum, ibnet};
use snin_judges::{JudgeError, Simulator, dump_mfts, ibtracert_multicast};
use snin_mad::{Attribute, Method, MulticastForwarding};
use snin_protocol::Time;
use snin_sm::port::{Address, Choice, Options, Port, Sent, open};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, Group, Groups, Output, Sweep};

use crate::support::{PATIENCE, fabric};

/// A core at a port of ibsim's.
struct Manager {
    sweep: Sweep,
    port: Box<dyn Port>,
    begin: std::time::Instant,
    served: Arc<Groups>,
}

impl Manager {
    fn new(simulator: &Simulator) -> Self {
        let choice = Choice::Ibsim { name: simulator.name().to_owned(), host: None };
        let mut port =
            open(&choice, Options { timeout: Time::millis(100), keys: &[], asks_only: false })
                .unwrap();
        port.announce(true).unwrap();
        let config = Config { lmc: Some(0), sweep_interval_s: 0, ..Config::default() };
        let sweep = Sweep::new(config, Saved::default()).unwrap();
        Self { sweep, port, begin: std::time::Instant::now(), served: Arc::default() }
    }

    fn notify(&mut self, event: Event<'_>) {
        let now = self.now();
        self.sweep.handle(event, now);
        self.settle();
    }

    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }

    /// Until nothing is left to be done.
    fn settle(&mut self) {
        let begin = std::time::Instant::now();
        loop {
            while let Some(output) = self.sweep.poll_output() {
                match output {
                    Output::Send { mad, to, .. } => {
                        assert_eq!(to, Destination::Directed);
                        let sent = self.port.send(&mad, &Address::DIRECTED).unwrap();
                        assert_eq!(sent, Sent::Yes);
                    }
                    Output::Compute(job) => {
                        let now = self.now();
                        self.sweep.handle(Event::Computed(Box::new(job.run())), now);
                    }
                    Output::Served(groups) => self.served = groups,
                    _ => {}
                }
            }
            if self.sweep.is_idle() {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.sweep.metrics());
            let wait = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            poll(&mut [PollFd::from_borrowed_fd(self.port.readable(), PollFlags::IN)], Some(&wait))
                .unwrap();
            while let Some(received) = self.port.receive().unwrap() {
                let (port, source, now) = (LocalPort(0), received.from.lid, self.now());
                self.sweep.handle(Event::Mad { port, source, bytes: &received.mad.0 }, now);
            }
            let now = self.now();
            self.sweep.handle_deadline(now);
        }
    }

    fn writes(&self) -> u64 {
        let key = (MulticastForwarding::ID, Method::Set.code());
        self.sweep.metrics().sent.get(&key).copied().unwrap_or(0)
    }
}

/// The tables as `dump_fts -M -n` prints them, by switch: an address and the mask of its ports a line, here for
/// switches of less than 16 ports.
fn tables(printed: &str) -> BTreeMap<Guid, MulticastTable> {
    let mut tables: BTreeMap<Guid, MulticastTable> = BTreeMap::new();
    let mut switch = Guid(0);
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("Multicast mlids") {
            let guid = words.iter().position(|word| *word == "guid").unwrap() + 1;
            switch = words[guid].parse().unwrap();
            tables.entry(switch).or_default();
        } else if let [mlid, mask] = words[..]
            && let Some(mlid) = mlid.strip_prefix("0x")
        {
            let mlid = Mlid::new(u16::from_str_radix(mlid, 16).unwrap()).unwrap();
            let mask = u16::from_str_radix(mask, 16).unwrap();
            let named = (0..16).filter(|port| mask >> port & 1 == 1).map(PortNum);
            tables.get_mut(&switch).unwrap().set(mlid, named.collect::<PortMask>());
        }
    }
    tables
}

#[test]
fn what_is_written_is_read_and_followed_by_others() -> Result<(), JudgeError> {
    for recipe in ["clos:6,3,4", "clos:5,2,3,2", "fattree:4"] {
        let simulator = Simulator::start(&ibnet::write(&fabric(recipe)))?;
        let mut manager = Manager::new(&simulator);
        manager.notify(Event::Start);
        let view = manager.sweep.view().unwrap().clone();
        let (topology, addresses) = (view.topology(), view.addresses());
        let hosts: Vec<(Guid, Lid)> = addresses
            .iter()
            .filter(|&(port, ..)| !topology.is_switch(topology.port(port).node))
            .map(|(port, lid, _)| (topology.port(port).guid, lid))
            .collect();
        let group = |members: &[usize]| Group {
            full: members.iter().map(|&n| hosts[n].0).collect::<BTreeSet<_>>(),
            ..Group::default()
        };
        let last = hosts.len() - 1;
        let members = [vec![0, 5, last], vec![1, 2], (0..=last).collect(), vec![3, 7, 8, last]];
        let mlids = [0, 1, 2, 40].map(|n| Mlid::nth(n).unwrap());
        let groups: Groups =
            mlids.iter().zip(&members).map(|(&mlid, members)| (mlid, group(members))).collect();
        manager.notify(Event::Groups(Arc::new(groups.clone())));
        assert_eq!(*manager.served, groups);
        assert_eq!(manager.sweep.missing(), []);

        let printed = dump_mfts(&simulator)?;
        let read = tables(&printed);
        assert_eq!(read.len(), topology.switch_count(), "{printed}");
        let mut entries = 0;
        for (switch, held) in &read {
            assert_eq!(manager.sweep.multicast_table(*switch), Some(held), "{recipe}: {printed}");
            entries += held.iter().count();
        }
        assert!(entries > topology.switch_count(), "{recipe}: {entries} entries");
        let mut ways = 0;
        for (mlid, members) in mlids.iter().zip(&members).filter(|(_, members)| members.len() < 9) {
            for (&from, &to) in members.iter().flat_map(|a| members.iter().map(move |b| (a, b))) {
                if from != to {
                    let (from, to) = (hosts[from], hosts[to]);
                    let way = ibtracert_multicast(&simulator, mlid.lid().0, from.1.0, to.1.0)?;
                    assert!(way.contains(&format!("lid {}", to.1)), "{way}");
                    ways += 1;
                }
            }
        }
        assert_eq!(ways, 3 * 2 + 2 + 4 * 3);

        // One more on a leaf of its own: a spine and two leaves at most, and others find the way at once.
        let before = manager.writes();
        let mut more = groups;
        more.get_mut(&mlids[1]).unwrap().full.insert(hosts[last].0);
        manager.notify(Event::Groups(Arc::new(more)));
        let writes = manager.writes() - before;
        assert!((2..=5).contains(&writes), "{recipe}: {writes}");
        let way = ibtracert_multicast(&simulator, mlids[1].lid().0, hosts[1].1.0, hosts[last].1.0)?;
        println!("{recipe}: {writes} writes for a join:\n{way}");
    }
    Ok(())
}
