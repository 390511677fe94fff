//! Sessions of daemons that poll.

use std::time::{Duration, Instant};

use snin_daemon::session::{Count, Limits, Listen, Post, Received};
use snin_daemon::watch::Watch;
use snin_protocol::codec::Message;
use snin_protocol::greeting::Service;
use snin_protocol::identity::Role;
use snin_protocol::message::{FromAgent, ToAgent};

use super::lab::{PATIENCE, agent, call, controller, question};

/// What happens next.
fn next<In: Message + Send + 'static, Out: Message + Send + 'static>(
    post: &mut Post<In, Out>,
) -> Received<In> {
    let began = Instant::now();
    loop {
        let mut watch = Watch::new();
        post.watch(&mut watch);
        watch.wait(Some(Duration::from_secs(1))).unwrap();
        drop(watch);
        if let Some(heard) = post.work().pop_front() {
            return heard;
        }
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
        limits: Limits::default(),
        credentials: None,
    })
    .unwrap();
    let address = format!("unix://{}/sessions.sock", folder.path().display()).parse().unwrap();
    let mut caller: Post<ToAgent, FromAgent> = Post::call(call(&address, agent(7), None)).unwrap();
    assert!(matches!(next(&mut called), Received::Opened(peer) if *peer == agent(7)));
    assert!(matches!(next(&mut caller), Received::Opened(peer) if *peer == controller()));
    caller.send(question(3));
    let Received::Said(_, said) = next(&mut called) else { panic!() };
    assert_eq!(said, question(3));
    drop(caller);
    assert!(matches!(next(&mut called), Received::Closed(peer, _) if *peer == agent(7)));
    assert_eq!(called.tally().get(Count::Opened), 1);
}
