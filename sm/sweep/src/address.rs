//! Which addresses every port gets: as many as possible keep what they have.
//!
//! What was saved holds first, then what ports have already, then the planner's wish; a port that is left takes
//! the lowest block that is free. Addresses that are saved for absent ports stay theirs as long as others
//! are free.

use std::collections::BTreeMap;

use snin_fabric::{Addresses, Guid, Lid, Lmc, PortIndex, Topology};

/// Everything that has a say in it.
pub(crate) struct Wishes<'a> {
    pub(crate) topology: &'a Topology,
    /// The addresses that the planner would give if no port had any yet.
    pub(crate) canonical: &'a Addresses,
    /// By port GUID: what was given in the past.
    pub(crate) saved: &'a BTreeMap<Guid, (Lid, Lmc)>,
    /// By port of the topology: what PortInfo says, [`Lid::NONE`] where nothing.
    pub(crate) held: &'a [Lid],
    /// The highest address that every switch can forward.
    pub(crate) most: Lid,
    /// The manager's own port: no other port takes its address from it.
    pub(crate) own: Option<PortIndex>,
}

/// Gives addresses; ports for which no block is left are listed.
pub(crate) fn keep(wishes: &Wishes<'_>) -> (Addresses, Vec<PortIndex>) {
    let Wishes { topology, canonical, saved, held, most, own } = *wishes;
    let mut ports: Vec<(PortIndex, Lmc)> =
        canonical.iter().map(|(port, _, lmc)| (port, lmc)).collect();
    // A stable order: the own port first, then switches, then end ports as they were planned.
    ports.sort_by_key(|&(port, _)| (Some(port) != own, canonical.base(port)));

    let mut given = Given { addresses: Addresses::none(topology.port_count()), most };
    let saved_lid = |port: PortIndex| saved.get(&topology.port(port).guid).map(|&(lid, _)| lid);
    ports.retain(|&(port, lmc)| !saved_lid(port).is_some_and(|lid| given.give(port, lid, lmc)));

    let reserved = Reserved::of(wishes, &given.addresses);
    let free = |lid: Lid, lmc: Lmc| !reserved.meets(lid, lmc);
    let held_lid = |port: PortIndex| held.get(port.index()).copied().unwrap_or(Lid::NONE);
    for (port, lmc) in best_first(&ports, held_lid) {
        let lid = held_lid(port);
        let _ = free(lid, lmc) && given.give(port, lid, lmc);
    }
    ports.retain(|&(port, _)| given.addresses.base(port).is_none());
    ports.retain(|&(port, lmc)| {
        !canonical.base(port).is_some_and(|lid| free(lid, lmc) && given.give(port, lid, lmc))
    });
    // Absent ports' addresses come last.
    for unreserved in [true, false] {
        let mut next = [1usize; 8];
        ports.retain(|&(port, lmc)| {
            let block = lmc.addresses();
            let from = &mut next[usize::from(lmc.bits())];
            while *from <= most.index() {
                let lid = Lid(from.next_multiple_of(block).min(0xFFFF) as u16);
                *from = lid.index() + block;
                if (!unreserved || free(lid, lmc)) && given.give(port, lid, lmc) {
                    return false;
                }
            }
            true
        });
    }
    (given.addresses, ports.into_iter().map(|(port, _)| port).collect())
}

struct Given {
    addresses: Addresses,
    most: Lid,
}

impl Given {
    fn give(&mut self, port: PortIndex, base: Lid, lmc: Lmc) -> bool {
        base.index() + lmc.addresses() <= self.most.index() + 1
            && self.addresses.assign(port, base, lmc).is_ok()
    }
}

/// Those who hold an address in an order that leaves most of them theirs: within each block of the greatest
/// size either one end port keeps it, or all switches that have an address there, whichever are more.
fn best_first(
    ports: &[(PortIndex, Lmc)],
    held: impl Fn(PortIndex) -> Lid,
) -> Vec<(PortIndex, Lmc)> {
    let block = ports.iter().map(|(_, lmc)| lmc.addresses()).max().unwrap_or(1);
    let mut singles: BTreeMap<usize, Vec<Lid>> = BTreeMap::new();
    for &(port, lmc) in ports.iter().filter(|(_, lmc)| lmc.addresses() < block) {
        let _ = lmc;
        let lids = singles.entry(held(port).index() / block).or_default();
        if !lids.contains(&held(port)) {
            lids.push(held(port));
        }
    }
    let mut order: Vec<_> =
        ports.iter().copied().filter(|&(port, _)| held(port) != Lid::NONE).collect();
    let one_of_many = |port: PortIndex, lmc: Lmc| {
        let many = singles.get(&(held(port).index() / block)).map_or(0, Vec::len) > 1;
        many == (lmc.addresses() < block)
    };
    order.sort_by_key(|&(port, lmc)| !one_of_many(port, lmc));
    order
}

/// Addresses saved for ports that are not there now.
struct Reserved(Vec<bool>);

impl Reserved {
    fn of(wishes: &Wishes<'_>, given: &Addresses) -> Self {
        let mut reserved = vec![false; Lid::MAX_UNICAST.index() + 1];
        let present: BTreeMap<Guid, ()> =
            given.iter().map(|(port, ..)| (wishes.topology.port(port).guid, ())).collect();
        let absent = wishes.saved.iter().filter(|(guid, _)| !present.contains_key(guid));
        for (_, &(lid, lmc)) in absent {
            let end = (lid.index() + lmc.addresses()).min(reserved.len());
            reserved[lid.index().min(end)..end].fill(true);
        }
        Self(reserved)
    }

    fn meets(&self, base: Lid, lmc: Lmc) -> bool {
        let range = base.index()..(base.index() + lmc.addresses()).min(self.0.len());
        self.0.get(range).is_some_and(|range| range.contains(&true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::generate::Recipe;
    use snin_fabric::routing::{Engine, Routing};

    struct Case {
        topology: Topology,
        routing: Routing,
        saved: BTreeMap<Guid, (Lid, Lmc)>,
        held: Vec<Lid>,
        most: Lid,
    }

    /// Two leaves, two spines, two hosts a leaf: switches 1 to 4, hosts from 8 at LMC 2.
    fn case(lmc: u8) -> Case {
        let topology = "clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, Lmc::new(lmc)).unwrap();
        let held = vec![Lid::NONE; topology.port_count()];
        Case { topology, routing, saved: BTreeMap::new(), held, most: Lid::MAX_UNICAST }
    }

    impl Case {
        fn keep(&self) -> (Addresses, Vec<PortIndex>) {
            keep(&Wishes {
                topology: &self.topology,
                canonical: self.routing.plan.addresses(),
                saved: &self.saved,
                held: &self.held,
                most: self.most,
                own: Some(self.host(0)),
            })
        }

        fn host(&self, n: usize) -> PortIndex {
            self.routing.hosts.iter().nth(n).unwrap().1.port
        }

        fn hold(&mut self, port: PortIndex, lid: u16) {
            self.held[port.index()] = Lid(lid);
        }

        fn bases(&self) -> Vec<u16> {
            let (addresses, _) = self.keep();
            (0..4).map(|n| addresses.base(self.host(n)).unwrap_or_default().0).collect()
        }
    }

    #[test]
    fn where_nobody_has_anything_the_plan_holds() {
        for lmc in 0..4 {
            let case = case(lmc);
            assert_eq!(&case.keep().0, case.routing.plan.addresses());
        }
    }

    #[test]
    fn what_ports_hold_stays_where_it_can() {
        let mut case = case(2);
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| case.host(n));
        case.hold(a, 100);
        case.hold(b, 100); // in conflict
        case.hold(c, 101); // misaligned
        case.hold(d, 0xBFFE); // no room for four
        assert_eq!(case.bases(), [100, 12, 16, 20]);
        // One host against two switches within its block.
        let spine = |n: u32| case.topology.port0(snin_fabric::NodeIndex(n));
        let (first, second) = (spine(2), spine(3));
        case.hold(first, 101);
        assert_eq!(case.bases()[0], 100);
        case.hold(second, 102);
        case.hold(a, 0);
        case.hold(b, 100);
        let (addresses, _) = case.keep();
        assert_eq!(
            (addresses.base(first), addresses.base(second)),
            (Some(Lid(101)), Some(Lid(102)))
        );
        assert_eq!(addresses.base(b), Some(Lid(12)));
    }

    #[test]
    fn what_was_saved_holds_before_what_ports_hold() {
        let mut case = case(2);
        let guid = |case: &Case, n| case.topology.port(case.host(n)).guid;
        let (first, second) = (guid(&case, 0), guid(&case, 1));
        let four = Lmc::new(2).unwrap();
        let saved = [(first, 200), (second, 202), (Guid(77), 8)];
        case.saved = saved.map(|(guid, lid)| (guid, (Lid(lid), four))).into();
        let (a, c) = (case.host(0), case.host(2));
        case.hold(a, 300);
        case.hold(c, 200);
        // 202 is misaligned; block 8 is saved for an absent port; 200 is taken.
        assert_eq!(case.bases(), [200, 12, 16, 20]);
    }

    #[test]
    fn absent_ports_lose_theirs_only_when_nothing_else_is_left() {
        let mut case = case(0);
        case.most = Lid(9);
        assert_eq!(case.bases(), [5, 6, 7, 8]);
        case.saved = [(Guid(77), (Lid(6), Lmc::ZERO))].into();
        assert_eq!(case.bases(), [5, 9, 7, 8]);
        case.most = Lid(8);
        assert_eq!(case.bases(), [5, 6, 7, 8]);
        case.most = Lid(7);
        let (_, without) = case.keep();
        assert_eq!(without.len(), 1);
    }
}
