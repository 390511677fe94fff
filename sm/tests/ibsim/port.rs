//! The native port: it is who ibsim says it is, and leaves nothing behind.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, PortNum, ibnet};
use snin_judges::{JudgeError, Simulator};
use snin_mad::{Attribute as _, DrPath, NodeDescription, NodeInfo, Route, Smp, TransactionId};
use snin_protocol::Time;
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Choice, Options, Port, Received, Sent, open};

fn small() -> Result<(Simulator, Guid), JudgeError> {
    let topology = "clos:4,3,2".parse::<Recipe>().unwrap().build().unwrap();
    let last = topology.nodes().rfind(|&node| !topology.is_switch(node)).unwrap();
    Ok((Simulator::start(&ibnet::write(&topology))?, topology.node(last).guid))
}

fn next(port: &mut dyn Port) -> Option<Received> {
    for _ in 0..100 {
        if let Some(received) = port.receive().unwrap() {
            return Some(received);
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut [PollFd::from_borrowed_fd(port.readable(), PollFlags::IN)], Some(&wait)).unwrap();
    }
    None
}

#[test]
fn it_asks_and_is_answered_and_leaves() -> Result<(), JudgeError> {
    let (simulator, guid) = small()?;
    let choice = Choice::Ibsim {
        name: simulator.name().to_owned(),
        host: Some(format!("H-{:016x}", guid.0)),
    };
    let mut port =
        open(&choice, Options { timeout: Time::millis(100), keys: &[], asks_only: false }).unwrap();
    let info = port.info().clone();
    assert_eq!((info.port, info.lid), (PortNum(1), Lid::NONE));
    assert_eq!(info.name, format!("ibsim:{} H-{:016x}", simulator.name(), guid.0));

    port.announce(true).unwrap();
    let clients = simulator.clients()?;
    assert_eq!(clients.len(), 1);
    assert!(clients[0].manager && clients[0].node == format!("H-{:016x}", guid.0), "{clients:?}");

    // More questions at once than a socket's queue is said to hold, each answered under its number.
    let here = Route::directed(DrPath::new(&[]).unwrap());
    let (heard, numbers) = simulator.receive(|| {
        for number in 0..64 {
            let id = if number % 2 == 0 { NodeInfo::ID } else { NodeDescription::ID };
            let mad = Smp::get(id, 0, here).transaction(TransactionId(number)).mad();
            assert_eq!(port.send(&mad, &Address::DIRECTED).unwrap(), Sent::Yes);
        }
        (0..64).map(|_| next(&mut *port).unwrap()).collect::<Vec<_>>()
    })?;
    for (number, received) in numbers.iter().enumerate() {
        assert_eq!(received.mad.header().transaction_id().0 as u32, number as u32);
        assert_eq!(received.from.lid, snin_mad::PERMISSIVE);
    }
    let own: NodeInfo = numbers[0].mad.attribute().unwrap();
    assert_eq!((own.node_guid, own.port_guid), (guid, info.guid));
    assert_eq!(heard.0.into_iter().collect::<Vec<_>>(), [((1, 0x10), 32), ((1, 0x11), 32)]);
    assert_eq!((port.counters().sent, port.counters().received), (64, 64));

    // What leads nowhere comes back at once and is dropped.
    let nowhere = Route::directed(DrPath::new(&[9]).unwrap());
    let mad = Smp::get(NodeInfo::ID, 0, nowhere).mad();
    assert_eq!(port.send(&mad, &Address::DIRECTED).unwrap(), Sent::Yes);
    while port.counters().undelivered == 0 {
        assert!(port.receive().unwrap().is_none());
    }
    drop(port);
    assert_eq!(simulator.clients()?, []);
    Ok(())
}

#[test]
fn why_there_is_no_port_is_one_line() -> Result<(), JudgeError> {
    let why = |name: &str, host| IbsimPort::attach(name, Some(host)).unwrap_err().to_string();
    let absent = why("snin-nobody", "H-1");
    assert!(absent.starts_with("no ibsim listens at snin-nobody: start it"), "{absent}");
    let (simulator, _) = small()?;
    let refused = why(simulator.name(), "H-1");
    assert!(refused.contains("does not attach a client to H-1: no such node"), "{refused}");
    let long = why(simulator.name(), "a name of more than thirty-one b");
    assert!(long.ends_with("ibsim takes names of at most 31 bytes"), "{long}");
    // A client that was refused is not attached either.
    assert_eq!(simulator.clients()?, []);
    Ok(())
}

/// Clients that are killed keep their place in ibsim until the console frees it.
#[test]
fn ten_clients_and_no_more() -> Result<(), JudgeError> {
    let (simulator, _) = small()?;
    let attach = || IbsimPort::attach(simulator.name(), None);
    let ports: Vec<_> = (0..10).map(|_| attach().unwrap()).collect();
    assert!(attach().is_err());
    // As if killed: the ports do not say good-bye.
    ports.into_iter().for_each(std::mem::forget);
    assert_eq!(simulator.clients()?.len(), 10);
    for client in simulator.clients()? {
        simulator.free(&client)?;
    }
    attach().unwrap();
    Ok(())
}
