//! Sessions of daemons that poll.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::session::{
    Address, Call, Callers, Count, Credentials, Limits, Listen, Post, Received,
};
use snin_daemon::watch::Watch;
use snin_protocol::codec::Message;
use snin_protocol::greeting::Service;
use snin_protocol::identity::Role;
use snin_protocol::message::{FromAgent, ToAgent};
use snin_protocol::peer::PeerMessage;

use super::support::{PATIENCE, Site, agent, call, controller, question};

/// What happens next. `came`: what came with it, for the next time.
fn next<In: Message + Send + 'static, Out: Message + Send + 'static>(
    post: &mut Post<In, Out>,
    came: &mut VecDeque<Received<In>>,
) -> Received<In> {
    let began = Instant::now();
    loop {
        if let Some(heard) = came.pop_front() {
            return heard;
        }
        let mut watch = Watch::new();
        post.watch(&mut watch);
        watch.wait(Some(Duration::from_secs(1))).unwrap();
        drop(watch);
        came.extend(post.work());
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn they_hear_and_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix://{}/sessions.sock", folder.path().display()).parse().unwrap();
    let mut called: Post<FromAgent, ToAgent> = Post::listen(Listen {
        at: vec![address],
        service: Service::Grants,
        identity: controller(),
        roles: vec![Role::Agent],
        users: Vec::new(),
        group: None,
        limits: Limits::default(),
        credentials: None,
    })
    .unwrap();
    let address = format!("unix://{}/sessions.sock", folder.path().display()).parse().unwrap();
    let mut caller: Post<ToAgent, FromAgent> = Post::call(call(&address, agent(7), None)).unwrap();
    let (mut came, mut came_back) = (VecDeque::new(), VecDeque::new());
    let opened = next(&mut called, &mut came);
    assert!(matches!(opened, Received::Opened(peer) if *peer == agent(7)));
    assert!(
        matches!(next(&mut caller, &mut came_back), Received::Opened(peer) if *peer == controller())
    );
    caller.send(question(3));
    let Received::Said(_, said) = next(&mut called, &mut came) else { panic!() };
    assert_eq!(said, question(3));
    drop(caller);
    let closed = next(&mut called, &mut came);
    assert!(matches!(closed, Received::Closed(peer, _) if *peer == agent(7)));
    assert_eq!(called.tally().get(Count::Opened), 1);
}

type Peer = Post<PeerMessage, PeerMessage>;

/// The agent of a port, at an address.
fn peer(number: u64, at: &str, site: &Site) -> Peer {
    Post::listen(Listen {
        at: vec![at.parse().unwrap()],
        service: Service::Peers,
        identity: agent(number),
        roles: vec![Role::Agent],
        users: Vec::new(),
        group: None,
        limits: Limits::default(),
        credentials: at.starts_with("tls").then(|| site.credentials(&agent(number))),
    })
    .unwrap()
}

/// A call by the agent of port 7 to that of another port.
fn call_peer(number: u64, to: &Address, own: &Option<Arc<Credentials>>) -> Call {
    Call {
        service: Service::Peers,
        role: Role::Agent,
        peer: Some(agent(number)),
        ..call(to, agent(7), own.clone())
    }
}

/// Works until so many things happened. `came`: what happened besides, for the next time.
fn heard(
    callers: &mut Callers<u64, PeerMessage, PeerMessage>,
    came: &mut Vec<String>,
    count: usize,
) -> Vec<String> {
    let began = Instant::now();
    while came.len() < count {
        assert!(began.elapsed() < PATIENCE, "only {came:?}");
        let mut watch = Watch::new();
        callers.watch(&mut watch);
        watch.wait(Some(Duration::from_millis(100))).unwrap();
        drop(watch);
        came.extend(callers.work().into_iter().map(|(number, event)| match event {
            Received::Opened(peer) => format!("{number} is {}", peer.port().unwrap().0),
            Received::Said(_, message) => format!("{number} says {message:?}"),
            Received::Closed(..) => format!("{number} is gone"),
        }));
    }
    let mut heard: Vec<String> = came.drain(..count).collect();
    heard.sort();
    heard
}

#[test]
fn a_daemon_calls_many_and_hears_each_by_itself() {
    for scheme in ["plain", "tls"] {
        let site = Site::new();
        let own = (scheme == "tls").then(|| site.credentials(&agent(7)));
        let at = format!("{scheme}://127.0.0.1:0");
        let mut peers: Vec<Peer> = (1..=4).map(|number| peer(number, &at, &site)).collect();
        let addresses: Vec<Address> =
            peers.iter().map(|peer| peer.addresses()[0].clone()).collect();
        let (mut callers, mut called) = (Callers::start(64).unwrap(), Vec::new());
        for (number, address) in (1..).zip(&addresses[..3]) {
            callers.call(number, call_peer(number, address, &own));
        }
        // The address is that of port 4, whose name is another.
        callers.call(9, call_peer(9, &addresses[3], &own));
        assert_eq!(heard(&mut callers, &mut called, 3), ["1 is 1", "2 is 2", "3 is 3"], "{scheme}");
        callers.send(&2, PeerMessage::Ping(5));
        callers.send(&5, PeerMessage::Ping(6));
        assert_eq!(callers.lost(), 1, "nobody is called 5");
        let mut came = VecDeque::new();
        let opened = next(&mut peers[1], &mut came);
        assert!(matches!(opened, Received::Opened(who) if *who == agent(7)));
        assert!(matches!(next(&mut peers[1], &mut came), Received::Said(_, PeerMessage::Ping(5))));
        peers[1].send_to(&agent(7), PeerMessage::Pong(5));
        peers[2].close(&agent(7));
        let both = ["2 says Pong(5)", "3 is gone"];
        assert_eq!(heard(&mut callers, &mut called, 2), both, "{scheme}");
        // The end that hung up is called again; the one that is given up is not.
        callers.close(&2);
        assert_eq!(heard(&mut callers, &mut called, 1), ["3 is 3"], "{scheme}");
        assert!(matches!(next(&mut peers[1], &mut came), Received::Closed(..)));
        // A daemon that ends leaves its address, and its successor is found there.
        drop(peers.remove(2));
        assert_eq!(heard(&mut callers, &mut called, 1), ["3 is gone"], "{scheme}");
        if let Address::Plain(address) = &addresses[2] {
            let _successor = peer(3, &format!("plain://{address}"), &site);
            assert_eq!(heard(&mut callers, &mut called, 1), ["3 is 3"]);
        }
    }
}
