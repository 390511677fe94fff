//! The verbs backend by itself: the machine's one port talks to itself, along every tree that it has an address
//! for.

use snin_fabric::{Dlid, Lid};
use snin_protocol::Time;
use snin_verbs::{
    AddressHandle, AsyncEvents, Batch, CompletionQueue, Depth, Device, Domain, Finished, Gather,
    Held, LocalAddresses, Path, Port, QueuePair, Rc, ReceiveBuffer, Remote, Sending, Service,
    Shared, SharedReceives, Signal, Slot, Source, Timing, Uc, Ud, choose, path,
};

const DEPTH: Depth = Depth { sends: 16, receives: 16, inline: 64 };
const Q_KEY: u32 = 0x1111;

/// A device, a port, and what is made from them.
struct Bench {
    device: Device,
    port: Port,
    domain: Domain,
    sends: CompletionQueue,
    receives: CompletionQueue,
}

impl Bench {
    fn new() -> Self {
        let (device, port) = choose(None, None).unwrap();
        let domain = Domain::new(&device).unwrap();
        let sends = CompletionQueue::new(&device, 64).unwrap();
        let receives = CompletionQueue::new(&device, 64).unwrap();
        Self { device, port, domain, sends, receives }
    }

    /// The ways from the port to itself.
    fn paths(&self) -> Vec<Path> {
        let dlids: Vec<u16> = match &self.port.addresses {
            LocalAddresses::Lids { base, lmc } => {
                (0..lmc.addresses() as u16).map(|offset| base.0 + offset).collect()
            }
            LocalAddresses::Gids { base, table } => {
                let lows = table.iter().map(|(_, gid)| gid.low());
                lows.filter(|&low| low >= base.low()).collect()
            }
        };
        let to = |lid| {
            let dlid = Some(Dlid(Lid(lid)));
            path(&self.port.addresses, self.port.address(), dlid, Service::default()).unwrap()
        };
        dlids.into_iter().map(to).collect()
    }

    fn slots(&self, count: usize, bytes: usize) -> Vec<Slot> {
        Slot::allocate(&self.domain, count, bytes).unwrap()
    }

    /// Waits for a completion and gives back what it finishes.
    fn wait<K, S>(
        &self,
        queue: &CompletionQueue,
        pair: &mut QueuePair<K, S>,
    ) -> (Outcome, Vec<Finished>) {
        let mut batch = Batch::new(1);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while queue.poll(&mut batch).unwrap() == 0 {
            assert!(std::time::Instant::now() < deadline, "nothing completes");
            queue.arm().unwrap();
            if queue.poll(&mut batch).unwrap() > 0 {
                break;
            }
            queue.wait(Time::millis(100)).unwrap();
        }
        let completion = batch.take().unwrap();
        assert_eq!(completion.queue_pair(), pair.number());
        let mut finished = Vec::new();
        pair.finish(&completion, |done| finished.push(done));
        let outcome = completion.outcome().map_err(|failure| failure.to_string());
        (
            Outcome { outcome, bytes: completion.bytes(), immediate: completion.immediate() },
            finished,
        )
    }
}

#[derive(Debug)]
struct Outcome {
    outcome: Result<(), String>,
    bytes: u32,
    immediate: Option<u32>,
}

macro_rules! connect {
    ($bench:expr, $kind:ty, $path:expr) => {{
        let bench: &Bench = $bench;
        let make = || {
            let queues = (&bench.sends, &bench.receives);
            let pair = QueuePair::<$kind, _>::new(&bench.domain, bench.port.number, queues, DEPTH);
            pair.unwrap().initialise(true, 0).unwrap()
        };
        let (a, b) = (make(), make());
        let (number_a, number_b) = (a.number(), b.number());
        let timing = Timing { timeout: 10, ..Timing::default() };
        let end = |pair: QueuePair<$kind, _>, number| {
            let remote = Remote { number, first_packet: 7 };
            let pair = pair.connect($path, remote, bench.port.mtu, &timing).unwrap();
            pair.start(7, &timing).unwrap()
        };
        (end(a, number_b), end(b, number_a))
    }};
}

fn fill(slot: &mut Slot, seed: u8) {
    let mut next = seed;
    slot.bytes_mut().fill_with(|| {
        next = next.wrapping_mul(31).wrapping_add(17);
        next
    });
}

#[test]
#[ignore = "runs in the virtual machine"]
fn messages_arrive_whole_along_every_tree() {
    let bench = Bench::new();
    let paths = bench.paths();
    assert!(!paths.is_empty());
    for path in &paths {
        let (mut a, mut b) = connect!(&bench, Rc, path);
        exchange(&bench, &mut a, &mut b);
        let (mut a, mut b): (QueuePair<Uc, Sending>, _) = connect!(&bench, Uc, path);
        exchange(&bench, &mut a, &mut b);
    }
}

fn exchange<K: snin_verbs::Connected>(
    bench: &Bench,
    a: &mut QueuePair<K, Sending>,
    b: &mut QueuePair<K, Sending>,
) {
    let mut slots = bench.slots(12, 10_000);
    for (round, length) in [0, 1, 64, 4_097, 10_000].into_iter().enumerate() {
        let (mut from, into) = (slots.pop().unwrap(), slots.pop().unwrap());
        fill(&mut from, round as u8);
        let expected = from.bytes()[..length].to_vec();
        b.receive(into, 100).unwrap();
        let from = Source::new(from);
        a.send(Gather::One(&from, length), Some(round as u32), 7, Signal::Yes).unwrap();
        a.ring().unwrap();
        let mut from = from;
        assert!(from.bytes_mut().is_none(), "the queue pair has a share of it");
        let (outcome, mut finished) = bench.wait(&bench.receives, b);
        assert_eq!(outcome.outcome, Ok(()));
        assert_eq!((outcome.bytes as usize, outcome.immediate), (length, Some(round as u32)));
        let into = finished.pop().unwrap();
        assert_eq!(into.token, 100);
        assert_eq!(into.held.own().unwrap().bytes()[..length], expected);
        let (outcome, mut finished) = bench.wait(&bench.sends, a);
        assert_eq!((outcome.outcome, finished.len()), (Ok(()), 1));
        assert!(matches!(finished[0].held, Held::Shared(_, None)), "{finished:?}");
        finished.clear();
        assert!(from.bytes_mut().is_some(), "the device is done with it");
    }
    // Parts beyond the end of a slot, and sums that no number holds, are refused.
    let from = Source::new(bench.slots(1, 64).pop().unwrap());
    for part in [
        Gather::Part(&from, 60, 5),
        Gather::Part(&from, usize::MAX, 2),
        Gather::Two((&from, 1), (&from, usize::MAX, 1)),
        Gather::Two((&from, usize::MAX), (&from, 0, 1)),
    ] {
        assert!(a.send(part, None, 0, Signal::Yes).is_err(), "{part:?}");
    }
    // Copied sends, of which only the last is signalled: it brings all back.
    for (token, slot) in slots.into_iter().enumerate() {
        b.receive(slot, token as u64).unwrap();
    }
    let bytes = b"copied"[..6.min(a.inline_most())].to_vec();
    a.send(Gather::Copy(&bytes), None, 1, Signal::No).unwrap();
    a.send(Gather::Copy(&bytes), None, 2, Signal::Yes).unwrap();
    a.ring().unwrap();
    for token in 0..2 {
        let (outcome, mut finished) = bench.wait(&bench.receives, b);
        assert_eq!(
            (outcome.outcome, outcome.bytes, outcome.immediate),
            (Ok(()), bytes.len() as u32, None)
        );
        assert_eq!(finished[0].token, token);
        assert!(finished.pop().unwrap().held.own().unwrap().bytes().starts_with(&bytes));
    }
    let (_, finished) = bench.wait(&bench.sends, a);
    let tokens: Vec<u64> = finished.iter().map(|done| done.token).collect();
    assert_eq!(tokens, [1, 2]);
}

#[test]
#[ignore = "runs in the virtual machine"]
fn peers_write_and_read_shared_memory() {
    let bench = Bench::new();
    let mut shared = Shared::new(&bench.domain, 4096).unwrap();
    shared.write(100, b"there");
    let (mut a, _b) = connect!(&bench, Rc, &bench.paths()[0]);
    let slot = bench.slots(1, 64).pop().unwrap();
    a.read(slot, 5, (shared.remote(), 100), 1).unwrap();
    a.ring().unwrap();
    let (outcome, mut finished) = bench.wait(&bench.sends, &mut a);
    assert_eq!(outcome.outcome, Ok(()));
    let mut slot = finished.pop().unwrap().held.own().unwrap();
    assert_eq!(&slot.bytes()[..5], b"there");
    slot.bytes_mut()[..4].copy_from_slice(b"here");
    a.write(Gather::One(&Source::new(slot), 4), (shared.remote(), 2000), 2, Signal::Yes).unwrap();
    a.ring().unwrap();
    assert_eq!(bench.wait(&bench.sends, &mut a).0.outcome, Ok(()));
    let mut seen = [0; 4];
    shared.read(2000, &mut seen);
    assert_eq!(&seen, b"here");
    // Beyond the end the peer's device refuses.
    a.write(Gather::Copy(b"x"), (shared.remote(), 1 << 20), 3, Signal::Yes).unwrap();
    a.ring().unwrap();
    let (outcome, _) = bench.wait(&bench.sends, &mut a);
    assert_eq!(outcome.outcome.unwrap_err(), "the peer does not show that memory");
}

#[test]
#[ignore = "runs in the virtual machine"]
fn messages_come_into_the_same_shared_memory_which_stays_as_long_as_one_may_come() {
    let bench = Bench::new();
    let into = Shared::new(&bench.domain, 64).unwrap();
    let (mut a, mut b) = connect!(&bench, Rc, &bench.paths()[0]);
    for token in 0..16 {
        b.receive_shared(&into, token).unwrap();
    }
    assert!(b.receive_shared(&into, 16).is_err(), "there is room for 16");
    let arrives = |a: &mut QueuePair<Rc, Sending>, b: &mut QueuePair<Rc, Sending>, number: u8| {
        a.send(Gather::Copy(&[number; 60]), None, 0, Signal::Yes).unwrap();
        a.ring().unwrap();
        assert_eq!(bench.wait(&bench.sends, a).0.outcome, Ok(()));
        let (outcome, finished) = bench.wait(&bench.receives, b);
        assert_eq!((outcome.outcome, outcome.bytes), (Ok(()), 60));
        assert_eq!((finished.len(), finished[0].token), (1, number.into()));
        assert!(matches!(finished[0].held, Held::DeviceHold(_)));
    };
    let mut seen = [0; 64];
    for number in 0..15 {
        arrives(&mut a, &mut b, number);
        into.read(0, &mut seen);
        assert_eq!((&seen[..60], &seen[60..]), (&[number; 60][..], &[0; 4][..]));
    }
    drop(into);
    arrives(&mut a, &mut b, 15);
}

#[test]
#[ignore = "runs in the virtual machine"]
fn datagrams_arrive_along_every_tree() {
    let bench = Bench::new();
    let queues = (&bench.sends, &bench.receives);
    let pair = QueuePair::<Ud, _>::new(&bench.domain, bench.port.number, queues, DEPTH).unwrap();
    let mut pair = pair.initialise(false, Q_KEY).unwrap().open().unwrap();
    let mut slots = bench.slots(2, 256);
    pair.receive(slots.pop().unwrap(), 0).unwrap();
    let mut pair = pair.start(0, &Timing::default()).unwrap();
    for path in bench.paths() {
        let to = AddressHandle::new(&bench.domain, bench.port.number, &path).unwrap();
        let number = pair.number();
        pair.send_to(Gather::Copy(b"abc"), &to, (number, Q_KEY), 1, Signal::Yes).unwrap();
        pair.ring().unwrap();
        drop(to);
        let (outcome, mut finished) = bench.wait(&bench.receives, &mut pair);
        // 40 bytes of global route come first.
        assert_eq!((outcome.outcome, outcome.bytes), (Ok(()), 43));
        let received = finished.pop().unwrap().held.own().unwrap();
        assert_eq!(&received.bytes()[40..43], b"abc");
        pair.receive(received, 0).unwrap();
        let (outcome, _) = bench.wait(&bench.sends, &mut pair);
        assert_eq!(outcome.outcome, Ok(()));
    }
}

#[test]
#[ignore = "runs in the virtual machine"]
fn silence_and_failure_end_in_finite_time_and_give_everything_back() {
    let bench = Bench::new();
    let (mut a, b) = connect!(&bench, Rc, &bench.paths()[0]);
    drop(b);
    let mut slot = Source::new(bench.slots(1, 1000).pop().unwrap());
    a.send(Gather::One(&slot, 1000), None, 5, Signal::Yes).unwrap();
    a.ring().unwrap();
    let (outcome, finished) = bench.wait(&bench.sends, &mut a);
    assert_eq!(outcome.outcome.unwrap_err(), "the peer does not answer");
    assert_eq!(finished[0].token, 5);
    assert!(slot.bytes_mut().is_none(), "it was given back with the completion");
    drop(finished);
    assert!(slot.bytes_mut().is_some());

    let (mut a, mut b) = connect!(&bench, Rc, &bench.paths()[0]);
    b.receive(bench.slots(1, 64).pop().unwrap(), 6).unwrap();
    b.fail().unwrap();
    let (outcome, finished) = bench.wait(&bench.receives, &mut b);
    assert_eq!(
        (outcome.outcome.unwrap_err().as_str(), finished[0].token),
        ("the queue pair failed before", 6)
    );
    let mut stage = || a.send(Gather::Copy(b""), None, 0, Signal::No);
    assert!((0..DEPTH.sends).all(|_| stage().is_ok()) && stage().is_err());
    let mut given_back = 0;
    a.destroy(|_| given_back += 1);
    assert_eq!(given_back, DEPTH.sends);
}

#[test]
#[ignore = "runs in the virtual machine"]
fn receives_are_shared_by_queue_pairs() {
    let bench = Bench::new();
    let mut shared = SharedReceives::new(&bench.domain, 4).unwrap();
    for slot in bench.slots(4, 2_000) {
        let begins = address(slot.bytes());
        shared.receive(Box::new(ReceiveBuffer::new(slot, begins))).unwrap();
    }
    shared.ring().unwrap();
    let spare = bench.slots(1, 64).pop().unwrap();
    assert!(
        shared.receive(Box::new(ReceiveBuffer::new(spare, 0))).is_err(),
        "there is room for four"
    );
    let pairs: Vec<_> = (0..2).map(|_| connect_sharing(&bench, &shared)).collect();
    for (seed, (mut a, b)) in pairs.into_iter().enumerate() {
        let mut parts = bench.slots(2, 1_500).into_iter();
        let (mut head, mut body) = (parts.next().unwrap(), parts.next().unwrap());
        fill(&mut head, seed as u8);
        fill(&mut body, seed as u8 + 7);
        let (head, body) = (Source::new(head), Source::new(body));
        a.send(Gather::Two((&head, 32), (&body, 100, 1_000)), None, 0, Signal::Yes).unwrap();
        a.ring().unwrap();
        let mut batch = Batch::new(1);
        while bench.receives.poll(&mut batch).unwrap() == 0 {
            std::thread::yield_now();
        }
        let completion = batch.take().unwrap();
        assert_eq!((completion.queue_pair(), completion.bytes()), (b.number(), 1_032));
        let slot = shared.finish(completion).expect("it is one of these");
        assert_eq!(slot.note, address(slot.bytes()), "each keeps its note");
        assert_eq!(slot.bytes()[..32], head.bytes()[..32]);
        assert_eq!(slot.bytes()[32..1_032], body.bytes()[100..1_100]);
        assert_eq!(bench.wait(&bench.sends, &mut a).0.outcome, Ok(()));
    }
    assert_eq!(shared.posted(), 2);
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

fn connect_sharing(
    bench: &Bench,
    shared: &SharedReceives<usize>,
) -> (QueuePair<Rc, Sending>, QueuePair<Rc, Sending>) {
    let queues = (&bench.sends, &bench.receives);
    let (domain, port) = (&bench.domain, bench.port.number);
    let make =
        || QueuePair::<Rc, _>::sharing(domain, port, queues, &shared.queue(), DEPTH).unwrap();
    let [a, b] = [make(), make()].map(|pair| pair.initialise(false, 0).unwrap());
    let numbers = (a.number(), b.number());
    let timing = Timing::default();
    let end = |pair: QueuePair<Rc, _>, number| {
        let remote = Remote { number, first_packet: 7 };
        let pair = pair.connect(&bench.paths()[0], remote, bench.port.mtu, &timing).unwrap();
        pair.start(7, &timing).unwrap()
    };
    (end(a, numbers.1), end(b, numbers.0))
}

#[test]
#[ignore = "runs in the virtual machine"]
fn a_mesh_is_built_and_torn_down_without_a_leak() {
    let bench = Bench::new();
    let descriptors = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or(0);
    let before = descriptors();
    for _ in 0..20 {
        let own = Bench::new();
        let paths = own.paths();
        let mesh: Vec<_> = paths.iter().map(|path| connect!(&own, Rc, path)).collect();
        assert_eq!(mesh.len(), paths.len());
    }
    assert_eq!(descriptors(), before);
    assert!(AsyncEvents::new(&bench.device).unwrap().take().is_none());
}
