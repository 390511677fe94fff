//! What agents ask for between a view and the window after it.

mod window_support;

use snin_controller_core::Core;
use snin_controller_core::config::{Config, Policy};
use snin_controller_core::events::{Event, Output};
use snin_fabric::Guid;
use snin_fabric::routing::{Routing, RoutingOptions};
use snin_protocol::message::{
    AgentMessage, Ask, Change, ControllerMessage, FromAgent, Grant, Hello, LinkTest, LinkTested,
    Request,
};
use snin_protocol::view::VIEW_LEASE;
use snin_protocol::{ConnectionNumber, Session, Term, Time};
use window_support::fabric::Fabric;
use window_support::life::Life;

fn says(core: &mut Core, from: Guid, body: AgentMessage, now: Time) {
    let message = FromAgent { session: Session(1), body };
    core.handle(Event::Received { from, message }, now);
}

fn hello(port: Guid) -> AgentMessage {
    AgentMessage::Hello(Hello { port, term: Term(0) })
}

/// The grants of the next windows, and who gets them.
fn granted(core: &mut Core) -> Vec<(Guid, Grant)> {
    let mut grants = Vec::new();
    for _ in 0..20 {
        while let Some(output) = core.poll_output() {
            if let Output::Send { to, message } = output
                && let ControllerMessage::Lease(lease) = message.body
            {
                grants.extend(lease.grants.into_iter().map(|grant| (to, grant)));
            }
        }
        let now = core.next_deadline().unwrap();
        core.handle_deadline(now);
    }
    grants
}

/// Hosts have other numbers then, and there may be more of them than there were.
#[test]
fn a_host_that_is_new_may_ask_before_the_next_window() {
    let [few, many] = ["clos:2,2,1", "clos:2,2,2"].map(Fabric::generated);
    let mut core = Core::new(Life::config(), few.view(1), Time::ZERO).unwrap();
    granted(&mut core);
    let now = core.next_deadline().unwrap();
    core.handle(Event::View(many.view(2)), now);
    let ports = many.ports();
    let (from, to) = (*ports.last().unwrap(), ports[0]);
    let request = Request {
        connection: ConnectionNumber(0),
        destination: to,
        windows: 0,
        rate: 0,
        class: 0,
        pinned: false,
        tree: None,
    };
    let changes = vec![Change::Request(request)].into();
    says(&mut core, from, hello(from), now);
    says(&mut core, from, AgentMessage::Ask(Ask { number: 1, changes }), now);
    assert!(!granted(&mut core).is_empty());
}

/// A test of a link goes to the agent that is there, and what it says comes back.
#[test]
fn agents_are_told_to_test_their_links() {
    let fabric = Fabric::generated("clos:2,2,2");
    let mut core = Core::new(Life::config(), fabric.view(1), Time::ZERO).unwrap();
    let ports = fabric.ports();
    let now = Time::micros(1);
    for &port in &ports[..3] {
        says(&mut core, port, hello(port), now);
    }
    assert!(core.has_agent(ports[0]) && !core.has_agent(ports[3]));
    let beside: Vec<Guid> = core.agents_beside(ports[0]).collect();
    assert_eq!(
        beside,
        [ports[1], ports[2]],
        "the same leaf's first, and only those that are heard"
    );
    while core.poll_output().is_some() {}
    let test = LinkTest { number: 9, peer: ports[1], messages: 10, bytes: 64 };
    core.handle(Event::TestLink(ports[3], test), now);
    assert_eq!(core.poll_output(), None, "no agent is there");
    core.handle(Event::TestLink(ports[0], test), now);
    let told = core.poll_output();
    let Some(Output::Send { to, message }) = told else { panic!("{told:?}") };
    assert_eq!((to, message.body), (ports[0], ControllerMessage::LinkTest(test)));
    let tested = LinkTested { number: 9, arrived: 10 };
    says(&mut core, ports[0], AgentMessage::LinkTested(tested), now);
    assert_eq!(core.poll_output(), Some(Output::LinkTested(ports[0], tested)));
}

/// A controller that lost its state begins at term 1: agents heed none of its grants, and it says what it
/// needs. One that says so alone may lie.
#[test]
fn a_controller_whose_agents_know_a_later_term_says_which_one_it_needs() {
    let fabric = Fabric::generated("clos:2,2,2");
    let mut core = Core::new(Life::config(), fabric.view(1), Time::ZERO).unwrap();
    let ports = fabric.ports();
    let (now, own) = (core.next_deadline().unwrap(), Life::config().term.0);
    let greets = |core: &mut Core, port: Guid, term: u64| {
        says(core, port, AgentMessage::Hello(Hello { port, term: Term(term) }), now);
        core.least_term()
    };
    assert_eq!(greets(&mut core, ports[0], own), None);
    assert_eq!(greets(&mut core, ports[1], u64::MAX), None, "one of two");
    assert_eq!(
        greets(&mut core, ports[2], own + 6),
        Some(Term(u64::MAX)),
        "two of three, and two words"
    );
    assert_eq!(greets(&mut core, ports[3], own + 6), Some(Term(own + 7)), "what most say");
    // Another one began meanwhile.
    assert_eq!(greets(&mut core, ports[2], own), None);
}

/// A manager that is not heard may have repaired tables: a link that the last view gives to one tree may carry
/// what goes along another by now.
#[test]
fn a_strict_controller_grants_nothing_new_when_its_manager_was_not_heard_for_long() {
    let mut fabric = Fabric::generated("clos:2,4,2");
    let options = RoutingOptions { unmanaged_trees: 1, ..RoutingOptions::default() };
    fabric.routing = Routing::with(&fabric.topology, &options).unwrap();
    let ports = fabric.ports();
    let asks = |core: &mut Core, from: usize, to: usize| {
        let request = Request {
            connection: ConnectionNumber(0),
            destination: ports[to],
            windows: 0,
            rate: 0,
            class: 0,
            pinned: false,
            tree: None,
        };
        let now = core.next_deadline().unwrap();
        let changes = vec![Change::Request(request)].into();
        says(core, ports[from], hello(ports[from]), now);
        says(core, ports[from], AgentMessage::Ask(Ask { number: 1, changes }), now);
    };
    for policy in [Policy::Shared, Policy::Strict] {
        let config = Config { policy, silence: 10_000, ..Life::config() };
        let mut core = Core::new(config, fabric.view(1), Time::ZERO).unwrap();
        let sends =
            |core: &mut Core, from: usize| granted(core).iter().any(|(to, _)| *to == ports[from]);
        asks(&mut core, 0, 2);
        assert!(sends(&mut core, 0), "{policy:?}");
        let lost = core.next_deadline().unwrap();
        core.handle(Event::Manager(false), lost);
        asks(&mut core, 1, 3);
        assert!(sends(&mut core, 1), "{policy:?}: a moment later");
        while core.next_deadline().unwrap() < lost + VIEW_LEASE {
            granted(&mut core);
        }
        asks(&mut core, 2, 0);
        assert_eq!(sends(&mut core, 2), policy == Policy::Shared, "what is new waits");
        assert!(sends(&mut core, 1), "{policy:?}: what was granted stays");
        let now = core.next_deadline().unwrap();
        core.handle(Event::Manager(true), now);
        assert!(sends(&mut core, 2), "{policy:?}: the manager is back");
    }
}
