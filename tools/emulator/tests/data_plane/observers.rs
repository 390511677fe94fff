//! A checker that watches every transmission: does any directed link ever carry two flows?

use snin_controller_core::plan::plan_window;
use snin_emulator::data::{
    Config, Message, MessageId, Observer, Outcome, Transmission, Transport, Wait,
};
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

/// What an observer is told of messages, and of waits.
#[derive(Default)]
struct Told {
    sent: Vec<(MessageId, Time)>,
    acknowledged: Vec<(MessageId, Time)>,
    completed: Vec<(MessageId, Time)>,
    waits: Vec<Wait>,
    stop_when_sent: bool,
}

impl Observer for Told {
    fn sent(&mut self, message: MessageId, at: Time) {
        self.sent.push((message, at));
    }

    fn acknowledged(&mut self, message: MessageId, at: Time) {
        self.acknowledged.push((message, at));
    }

    fn completed(&mut self, message: MessageId, at: Time) {
        self.completed.push((message, at));
    }

    fn waited(&mut self, wait: &Wait) {
        self.waits.push(*wait);
    }

    fn has_enough(&self) -> bool {
        self.stop_when_sent && !self.sent.is_empty()
    }
}

#[test]
fn a_message_is_sent_then_there_then_acknowledged() {
    let fabric = Fabric::of("clos:2,1,2", Engine::Trees);
    for transport in [Transport::Uc, Transport::Rc] {
        let mut network = fabric.network(Config::default());
        let one = Message { transport, ..Message::new(fabric.port(0), fabric.lid(2), 40_960) };
        let message = network.send(one).unwrap();
        let mut told = Told { stop_when_sent: true, ..Told::default() };
        assert_eq!(network.run_observed(Time::MAX, &mut told), Outcome::Running);
        told.stop_when_sent = false;
        assert_eq!(network.run_observed(Time::MAX, &mut told), Outcome::Finished);
        // Ten packets of 4,122 bytes at 20 ps a byte.
        assert_eq!(told.sent, [(message, Time(825))]);
        let [(_, there)] = told.completed[..] else { panic!("{:?}", told.completed) };
        assert_eq!(Some(there), network.progress(message).completed);
        let back = told.acknowledged.first().map(|&(_, at)| at);
        assert_eq!(back.is_some(), transport == Transport::Rc);
        assert!(back.is_none_or(|back| back > there) && told.waits.is_empty());
    }
}

#[test]
fn a_wait_is_told_with_its_link_flow_and_time() {
    let fabric = Fabric::of("clos:2,1,2", Engine::Trees);
    let mut network = fabric.network(Config::default());
    for (flow, source) in [(7, 0), (8, 1)] {
        // Both go up the one link to the one spine.
        let to = fabric.lid(2 + source);
        network.send(Message { flow, ..Message::new(fabric.port(source), to, 4_096) }).unwrap();
    }
    let mut told = Told::default();
    network.run_observed(Time::MAX, &mut told);
    let [wait] = told.waits[..] else { panic!("{:?}", told.waits) };
    // Behind a packet of 4,122 bytes.
    assert_eq!((wait.here, wait.altogether), (Time(83), Time(83)));
    let leaf = fabric.topology.peer_node(fabric.port(0)).unwrap();
    assert_eq!(fabric.topology.port(wait.port).node, leaf);
    assert!(fabric.topology.is_switch(fabric.topology.peer_node(wait.port).unwrap()));
    assert!([7, 8].contains(&wait.flow));
    // Cable, header, switch, then the other packet.
    assert_eq!(wait.at, Time(50 + 200 + 82));
    assert_eq!(network.statistics().queueing_ns.max(), 83);
}

#[test]
fn a_message_taken_back_sends_no_further_packet() {
    let fabric = Fabric::of("clos:2,1,2", Engine::Trees);
    let mut network = fabric.network(Config::default());
    let message = network.send(Message::new(fabric.port(0), fabric.lid(2), 1 << 20)).unwrap();
    network.run_until(Time::micros(1));
    let sent = network.progress(message).sent;
    network.cancel(message);
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    let progress = network.progress(message);
    assert!(sent > 0 && progress.sent == sent, "{sent} then {progress:?}");
    assert_eq!((progress.delivered, progress.completed), (sent, None));
}
