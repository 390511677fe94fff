//! Few queue pairs, memory that is all in use, and datagrams that are lost.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use snin_agent::{Agent, Flow, Outgoing};
use snin_agent_core::Notice;
use snin_fabric::Guid;

use crate::controller::Controller;
use crate::host::{message, settings, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends one message, which arrives.
fn arrives(flow: &mut Flow, number: u64, at: &Agent) {
    flow.send(&message(number, 64)).unwrap();
    let came = at.recv_timeout(PATIENCE).unwrap();
    assert_eq!(came[..], message(number, 64)[..]);
    flow.flush(PATIENCE).unwrap();
}

#[test]
#[ignore = "runs in the virtual machine"]
fn the_least_recently_used_queue_pair_gives_way() {
    let controller = Controller::start(1);
    let mut all = settings(4, Some(controller.address), "");
    (all[0].value.pairs, all[0].value.linger_ms) = (2, 200);
    let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
    let held = || {
        let seen = agents[0].snapshot(None).unwrap();
        let peers: Vec<u64> = seen.pairs.iter().map(|pair| pair.peer.0).collect();
        (peers, seen.counters.evicted, seen.counters.connects)
    };
    let visit = |peer: u64| {
        let mut flow = agents[0].connect(Guid(peer)).unwrap();
        arrives(&mut flow, peer, &agents[peer as usize - 1]);
        drop(flow);
        // A queue pair that a flow has a grant for stays.
        until("the flow is closed", PATIENCE, || {
            agents[0].snapshot(None).unwrap().flows.is_empty()
        });
        held()
    };
    assert_eq!(visit(2), (vec![2], 0, 1));
    assert_eq!(visit(3), (vec![2, 3], 0, 2));
    // The one to host 2 is used again and stays; host 3's goes.
    assert_eq!(visit(2), (vec![2, 3], 0, 2));
    assert_eq!(visit(4), (vec![2, 4], 1, 3));
    assert_eq!(visit(3), (vec![3, 4], 2, 4));

    // Three flows at a time take turns, and all of them get through.
    let mut flows: Vec<Flow> = (2..=4).map(|peer| agents[0].connect(Guid(peer)).unwrap()).collect();
    for round in 0..3 {
        flows.iter_mut().for_each(|flow| flow.send(&message(round, 64)).unwrap());
        for agent in &agents[1..] {
            assert_eq!(agent.recv_timeout(PATIENCE).unwrap()[..], message(round, 64)[..]);
        }
        assert!(held().0.len() <= 2);
    }
    let counters = agents[0].snapshot(None).unwrap().counters;
    assert!(counters.starved > 0 && counters.evicted > 2, "{counters:?}");
    let came: Vec<_> =
        agents[1..].iter().map(|agent| agent.snapshot(None).unwrap().counters).collect();
    assert!(came.iter().all(|came| came.repeated == 0 && came.lost == 0), "{came:?}");
}

/// Both ways of sending in turn, along a flow that needs no grant.
#[test]
#[ignore = "runs in the virtual machine"]
fn what_is_written_into_reserved_memory_arrives_and_memory_comes_back() {
    let mut all = settings(3, None, "policy = \"besteffort\"\n");
    (all[0].value.buffers, all[0].value.waiting) = (4, 3);
    // The third host is not there.
    let agents: Vec<Agent> = all[..2].iter().map(|one| Agent::start(one).unwrap()).collect();
    let mut flow = agents[0].connect(Guid(2)).unwrap();
    for number in 0..40 {
        if number % 3 == 0 {
            flow.send(&message(number, 300)).unwrap();
        } else {
            let mut written = agents[0].reserve(300).unwrap();
            written.copy_from_slice(&message(number, 300));
            flow.commit(written).unwrap();
        }
        assert_eq!(agents[1].recv_timeout(PATIENCE).unwrap()[..], message(number, 300)[..]);
        flow.flush(PATIENCE).unwrap();
    }
    let longest = agents[0].longest_message();
    assert_eq!(agents[0].reserve(longest + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    let all_memory = || -> Vec<Outgoing<'_>> {
        std::iter::from_fn(|| agents[0].reserve(longest).ok()).collect()
    };
    let mut held = all_memory();
    assert_eq!(held.len(), 4, "all memory that there is");
    assert_eq!(agents[0].reserve(1).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Another agent's memory, and more than may wait, come back as they were.
    let mut foreign = agents[1].reserve(3).unwrap();
    foreign.copy_from_slice(b"abc");
    let refused = flow.commit(foreign).unwrap_err();
    assert_eq!(
        (refused.error.kind(), &refused.message[..]),
        (ErrorKind::InvalidInput, &b"abc"[..])
    );
    let mut unheard = agents[0].connect(Guid(3)).unwrap();
    held[3].fill(7);
    let last = held.pop().unwrap();
    held.into_iter().for_each(|message| unheard.commit(message).unwrap());
    let refused = unheard.commit(last).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
    assert!(refused.message.iter().all(|&byte| byte == 7));
    drop(refused);
    drop(unheard);
    until("all memory is given back", PATIENCE, || all_memory().len() == 4);
}

#[test]
#[ignore = "runs in the virtual machine"]
fn datagrams_that_nobody_has_room_for_are_counted_as_lost() {
    let controller = Controller::start(1);
    let mut all = settings(2, Some(controller.address), "mode = \"ud\"\n");
    all[1].value.receives = 4;
    let agents: Vec<Agent> = all.iter().map(|one| Agent::start(one).unwrap()).collect();
    let mut flow = agents[0].connect(Guid(2)).unwrap();
    // What one packet carries, and not a byte more.
    let longest = agents[0].longest_message();
    let too_long = flow.try_send(&vec![0; longest + 1]).unwrap_err().to_string();
    assert_eq!(
        too_long,
        format!("a message of {} bytes, but {longest} is the longest", longest + 1)
    );
    flow.send(&message(0, longest)).unwrap();
    assert_eq!(agents[1].recv_timeout(PATIENCE).unwrap()[..], message(0, longest)[..]);
    // An agent that gives a snapshot has posted again the buffers that were given back.
    agents[1].snapshot(None).unwrap();
    // The receiver has four receives, and takes nothing until all have been sent.
    for number in 1..=20 {
        flow.send(&message(number, 64)).unwrap();
        flow.flush(PATIENCE).unwrap();
    }
    let took: Vec<u64> =
        (0..4).map(|_| agents[1].recv_timeout(PATIENCE).unwrap().number()).collect();
    assert_eq!(took, [1, 2, 3, 4]);
    assert!(agents[1].recv_timeout(Duration::from_millis(100)).is_err());
    flow.send(&message(21, 64)).unwrap();
    assert_eq!(agents[1].recv_timeout(PATIENCE).unwrap().number(), 21);
    let counters = agents[1].snapshot(None).unwrap().counters;
    assert_eq!((counters.lost, counters.repeated), (16, 0), "{counters:?}");
    let lost = Notice::Lost { peer: Guid(1), flow: flow.id(), pieces: 16 };
    assert!(std::iter::from_fn(|| agents[1].notice()).any(|notice| notice == lost));
}

/// The sender has every acknowledgement and ends, its queue pairs with it, before the receiver looks.
#[test]
#[ignore = "runs in the virtual machine"]
fn what_was_acknowledged_is_received_though_its_sender_has_ended() {
    let all = settings(2, None, "policy = \"besteffort\"\n");
    for round in 0..3 {
        let (near, mut driver) = Agent::start_driven(&all[0]).unwrap();
        let far = Agent::start(&all[1]).unwrap();
        let mut flow = far.connect(Guid(1)).unwrap();
        let mut answered = false;
        for number in 0..40 {
            flow.try_send(&message(number, 64)).unwrap();
            // The first one shows that the queue pair is there.
            let deadline = Instant::now() + PATIENCE;
            while !answered {
                driver.poll();
                answered = near.try_recv().is_some();
                assert!(Instant::now() < deadline, "round {round}: nothing comes");
            }
        }
        flow.flush(PATIENCE).unwrap();
        drop((flow, far));
        // By then the end of the session is known.
        std::thread::sleep(Duration::from_millis(300));
        let mut came = 1;
        let deadline = Instant::now() + PATIENCE;
        while came < 40 {
            driver.poll();
            while let Some(message) = near.try_recv() {
                assert_eq!(message.number(), came);
                came += 1;
            }
            assert!(Instant::now() < deadline, "round {round}: {came} of 40 came");
        }
    }
}
