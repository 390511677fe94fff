//! A checker that watches every transmission: does any directed link ever carry two flows?

use snin_controller::plan::plan_window;
use snin_emulator::data::{Config, Message, Observer, Transmission};
use snin_fabric::routing::Engine;
use snin_fabric::traffic::Pattern;
use snin_protocol::Time;

use crate::support::Fabric;

/// The flow that each directed link carries data of, and how often another one came.
struct Owners {
    owner: Vec<Option<u32>>,
    strangers: usize,
    now: Time,
}

impl Owners {
    fn of(fabric: &Fabric) -> Self {
        let owner = vec![None; fabric.topology.port_count()];
        Self { owner, strangers: 0, now: Time::ZERO }
    }
}

impl Observer for Owners {
    fn transmitted(&mut self, transmission: &Transmission) {
        assert!(transmission.begin >= self.now && transmission.end > transmission.begin);
        self.now = transmission.begin;
        let owner = self.owner[transmission.port.index()].get_or_insert(transmission.flow);
        self.strangers += usize::from(*owner != transmission.flow);
    }
}

#[test]
fn granted_flows_own_their_links_and_others_do_not() {
    let fabric = Fabric::of("clos:6,4,4", Engine::Trees);
    let demands = fabric.demands(Pattern::Permutation, 3);
    let plan = plan_window(&fabric.topology, &fabric.routing, &demands);
    for granted in [true, false] {
        let mut network = fabric.network(Config::default());
        for grant in &plan.grants {
            let demand = demands[grant.demand];
            let base = fabric.lid(demand.destination.0);
            let to = if granted { grant.dlid.0 } else { base };
            let flow = grant.demand as u32;
            let message =
                Message { flow, ..Message::new(fabric.port(demand.source.0), to, 100_000) };
            network.send(message).unwrap();
        }
        let mut owners = Owners::of(&fabric);
        network.run_observed(Time::MAX, &mut owners);
        assert_eq!(owners.strangers == 0, granted);
    }
}
