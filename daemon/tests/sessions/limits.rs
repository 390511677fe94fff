//! Limits on the cost of a peer, and that the others do not pay for it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use snin_daemon::session::{Address, Count, Limits};
use snin_protocol::codec::{MAX_FRAME, VERSION, encode};
use snin_protocol::greeting::{Greet, Service, SessionMessage};

use super::support::{Desk, Good, agent, question};

fn address(desk: &Desk) -> SocketAddr {
    match desk.addresses[0] {
        Address::Plain(address) => address,
        _ => panic!(),
    }
}

/// A caller that greets and then breaks the protocol.
fn rogue(desk: &Desk, number: u64) -> TcpStream {
    let mut socket = TcpStream::connect(address(desk)).unwrap();
    let greet =
        Greet { identity: agent(number), service: Service::Grants, first: VERSION, last: VERSION };
    socket.write_all(&encode(&SessionMessage::Greet(greet)).unwrap()).unwrap();
    socket
}

#[tokio::test]
async fn what_is_no_frame_ends_the_session() {
    let mut desk = Desk::plain(Limits::default());
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    desk.next().await;
    let too_long = ((MAX_FRAME + 1) as u32).to_be_bytes().to_vec();
    let empty = vec![0, 0, 0, 0];
    let other_version = vec![0, 0, 0, 2, VERSION + 9, 1];
    let nonsense = vec![0, 0, 0, 3, VERSION, 0xFF, 0xFF];
    for (number, bytes) in [too_long, empty, other_version, nonsense].into_iter().enumerate() {
        let mut socket = rogue(&desk, 100 + number as u64);
        assert!(desk.next().await.ends_with("is there"));
        socket.write_all(&bytes).unwrap();
        assert!(desk.next().await.contains("is gone"));
        good.asks(number as u64).await;
    }
    assert_eq!(desk.tally.get(Count::Malformed), 4);
    // The same instead of a greeting.
    let mut socket = TcpStream::connect(address(&desk)).unwrap();
    socket.write_all(&[0xFF; 100]).unwrap();
    desk.counts(Count::Malformed, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_slowed_down_and_others_are_answered() {
    let mut desk = Desk::plain(Limits { rate: 200, burst: 50, ..Limits::default() });
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    desk.next().await;
    let mut socket = rogue(&desk, 8);
    socket.set_nonblocking(true).unwrap();
    assert!(desk.next().await.ends_with("is there"));
    let frames = encode(&question(1)).unwrap().repeat(10_000);
    let mut written = 0;
    let mut asked = 0;
    while desk.tally.get(Count::Paced) < 5 {
        written += socket.write(&frames[written % 17..]).unwrap_or(0);
        good.asks(asked).await;
        asked += 1;
    }
    let taken = desk.tally.get(Count::FramesIn);
    assert!(written > 0 && taken < 10_000, "{taken} of {written} bytes were taken");
    good.asks(asked).await;
}

#[tokio::test]
async fn who_greets_slowly_gives_way() {
    let limits = Limits { handshakes: 8, handshake: Duration::from_secs(2), ..Limits::default() };
    let mut desk = Desk::plain(limits);
    let mut slow: Vec<TcpStream> = Vec::new();
    let frame = encode(&SessionMessage::Ping).unwrap();
    for _ in 0..50 {
        let mut socket = TcpStream::connect(address(&desk)).unwrap();
        socket.write_all(&frame[..3]).unwrap();
        slow.push(socket);
    }
    desk.counts(Count::Slow, 42).await;
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    // The rest has had its time.
    desk.counts(Count::Slow, 49).await;
    good.asks(2).await;
    drop(slow);
}

#[tokio::test]
async fn who_does_not_read_is_cut_off() {
    let mut desk =
        Desk::plain(Limits { backlog: 4096, rate: 1 << 30, burst: 1 << 30, ..Limits::default() });
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    desk.next().await;
    let mut socket = rogue(&desk, 8);
    assert!(desk.next().await.ends_with("is there"));
    // It asks and asks, and reads no answer.
    let asking = tokio::task::spawn_blocking(move || {
        let frames = encode(&question(1)).unwrap().repeat(100);
        while socket.write_all(&frames).is_ok() {}
    });
    assert!(desk.next().await.contains("does not read"));
    asking.await.unwrap();
    assert_eq!(desk.tally.get(Count::Unread), 1);
    good.asks(1).await;
}

#[tokio::test]
async fn who_is_silent_is_gone_and_who_answers_pings_is_not() {
    let mut desk = Desk::plain(Limits { idle: Duration::from_millis(300), ..Limits::default() });
    let mut good = Good::call(&desk.addresses[0], agent(7), None);
    good.opened().await;
    desk.next().await;
    let _silent = rogue(&desk, 8);
    assert!(desk.next().await.ends_with("is there"));
    assert!(desk.next().await.contains("0x0000000000000008 is gone: it was silent"));
    assert_eq!(desk.tally.get(Count::Idle), 1);
    good.asks(1).await;
}

#[tokio::test]
async fn there_are_no_more_sessions_than_may_be_until_one_ends() {
    let mut desk = Desk::plain(Limits { sessions: 2, ..Limits::default() });
    let mut first = Good::call(&desk.addresses[0], agent(1), None);
    first.opened().await;
    desk.next().await;
    let _second = rogue(&desk, 2);
    assert!(desk.next().await.ends_with("is there"));
    let mut third = Good::call(&desk.addresses[0], agent(3), None);
    desk.counts(Count::Full, 1).await;
    // A caller that calls again takes its own place, and was never gone.
    let mut again = Good::call(&desk.addresses[0], agent(2), None);
    again.opened().await;
    again.asks(1).await;
    first.asks(2).await;
    let so_far = desk.so_far();
    assert!(so_far.iter().all(|event| event.ends_with("is there")), "{so_far:?}");
    // There is room again, and the third one, which goes on calling, has it.
    drop(first);
    third.opened().await;
    third.asks(3).await;
}
