//! RMPP with the Linux kernel as the other side: on queue pair 1 of two software RDMA devices, over the cable
//! between them. `tools/vm/programs/umad.c` registers with the kernel's RMPP at one end, and hands single MADs
//! through at the other.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_mad::Mad;
use snin_mad::rmpp::{Expiry, Policy, Progress, Receiver, RmppType, Sender};
use snin_protocol::Time;

/// Devices with the addresses that follow from their cables' hardware addresses. (The kernel does not find the
/// question to an answer that came from an address of IP's version 4.)
const OURS: (&str, &str) = ("rxe0", "fe80:0000:0000:0000:0000:00ff:fe00:0020");
const KERNELS: (&str, &str) = ("rxe1", "fe80:0000:0000:0000:0000:00ff:fe00:0040");
/// Bytes of a segment, behind the header of administration.
const ROOM: usize = 200;
const HEADER: usize = 56;
/// Repeats without an answer, after which what the kernel has is looked at.
const SILENT: u32 = 3;
/// A lost segment is missed soon; nothing is given up while a machine is busy.
const POLICY: Policy = Policy {
    timeout: Time::millis(300),
    retries: 50,
    unheard: 50,
    window: 64,
    total: Time::secs(60),
    longest: 4 << 20,
};

fn umad(at: (&str, &str), peer: (&str, &str), what: &[&str]) -> Child {
    let mut command = Command::new("umad");
    command.args([at.0, at.1, peer.1]).args(what);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The program has begun to listen.
fn is_heard(program: &mut ChildStdout) {
    program.read_exact(&mut [0; 256]).unwrap();
}

/// A program that ends with the value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// Our end of the wire, which loses, doubles and overtakes one MAD in ten each, in either direction.
struct Wire {
    begun: Instant,
    _relay: Ends,
    out: ChildStdin,
    came: Channel<Mad>,
    bad: Option<ChaCha8Rng>,
    held: [VecDeque<Mad>; 2],
    /// The last segment that the kernel has acknowledged, whether that was lost or not.
    said: u32,
    /// Lost, doubled, overtaken.
    faults: [u32; 3],
}

impl Wire {
    fn new(seed: Option<u64>) -> Self {
        let mut relay = umad(OURS, KERNELS, &["relay"]);
        let (out, mut from) = (relay.stdin.take().unwrap(), relay.stdout.take().unwrap());
        let (to, came) = channel();
        is_heard(&mut from);
        std::thread::spawn(move || {
            let mut mad = Mad::ZERO;
            while from.read_exact(&mut mad.0).is_ok() && to.send(mad.clone()).is_ok() {}
        });
        let (bad, held) = (seed.map(ChaCha8Rng::seed_from_u64), Default::default());
        let (begun, faults) = (Instant::now(), [0; 3]);
        Self { begun, _relay: Ends(relay), out, came, bad, held, said: 0, faults }
    }

    fn now(&self) -> Time {
        Time(self.begun.elapsed().as_nanos() as u64)
    }

    /// What becomes of a MAD that passes.
    fn pass(&mut self, mad: Mad, outward: bool) -> Vec<Mad> {
        let held = &mut self.held[usize::from(outward)];
        let Some(random) = &mut self.bad else { return vec![mad] };
        let mut through = match random.random_range(0..10) {
            fault @ 0..=2 => {
                self.faults[fault] += 1;
                match fault {
                    0 => vec![],
                    1 => vec![mad.clone(), mad],
                    _ => {
                        held.push_back(mad);
                        return vec![];
                    }
                }
            }
            _ => vec![mad],
        };
        through.extend(held.pop_front());
        through
    }

    fn send(&mut self, mad: Mad) {
        for mad in self.pass(mad, true) {
            self.out.write_all(&mad.0).unwrap();
        }
    }

    /// What came within a while.
    fn receive(&mut self, limit: Duration) -> Vec<Mad> {
        let Ok(mad) = self.came.recv_timeout(limit) else { return vec![] };
        if mad.rmpp().kind() == RmppType::Ack {
            self.said = self.said.max(mad.rmpp().segment());
        }
        self.pass(mad, false)
    }

    /// A question is no message of RMPP, and is not lost here.
    fn question(&mut self) -> Mad {
        loop {
            let mad =
                self.came.recv_timeout(Duration::from_secs(60)).expect("the kernel's question");
            if mad.0[3] == 0x12 {
                return mad;
            }
        }
    }
}

/// A GetTable of so many segments.
fn question(segments: usize, number: u32) -> Mad {
    let mut mad = Mad::ZERO;
    mad.0[..4].copy_from_slice(&[1, 3, 2, 0x12]);
    mad.0[12..16].copy_from_slice(&number.to_be_bytes());
    mad.0[17] = 0x11;
    mad.0[20..24].copy_from_slice(&(segments as u32).to_be_bytes());
    mad
}

/// The kernel sends, we receive. Gives the faults of the wire.
fn from_kernel(segments: usize, seed: Option<u64>) -> [u32; 3] {
    let mut wire = Wire::new(seed);
    wire.out.write_all(&question(segments, segments as u32 + 1).0).unwrap();
    let mut message: Option<Receiver> = None;
    let data = loop {
        assert!(wire.begun.elapsed() < Duration::from_secs(60), "{segments} segments: not whole");
        for mad in wire.receive(Duration::from_millis(100)) {
            let now = wire.now();
            let message = message.get_or_insert_with(|| Receiver::new(&mad, POLICY, now));
            let reception = message.receive(&mad);
            assert_eq!(reception.ended, None, "{segments} segments");
            if let Some(reply) = reception.reply {
                wire.send(reply);
            }
        }
        if let Some(data) = message.as_mut().and_then(Receiver::take) {
            break data;
        }
    };
    let sent = (0..segments * ROOM).map(|n| (n * 31 + n / ROOM) as u8);
    assert!(data.iter().copied().eq(sent), "{segments} segments: {} other bytes", data.len());
    wire.faults
}

/// We send, the kernel receives.
///
/// A kernel as of 6.1.0-56 acknowledges the last segment once: it looks for the question before it looks at RMPP
/// (`ib_find_send_mad` comes before `ib_process_rmpp_recv_wc`, and then `ib_free_recv_mad`), and with the last
/// segment its question is over. Where the wire takes that acknowledgement the kernel has the message, and the
/// sender cannot know.
fn to_kernel(segments: usize, seed: Option<u64>) -> [u32; 3] {
    let mut wire = Wire::new(seed);
    let mut kernel = Ends(umad(KERNELS, OURS, &["ask", &segments.to_string()]));
    let mut header = wire.question();
    assert_eq!(header.0[20..24], (segments as u32).to_be_bytes());
    header.0[3] |= 0x80;
    // The last segment is not full.
    let data: Vec<u8> = (0..segments * ROOM - 13).map(|n| (n * 7 + n / 251) as u8).collect();
    let mut sender = Sender::new(&header, data.clone(), POLICY, wire.now());
    assert_eq!(sender.segments() as usize, segments);
    let (mut is_done, mut silent) = (false, 0);
    while !is_done && silent < SILENT {
        while let Some(mad) = sender.poll(wire.now()) {
            wire.send(mad);
        }
        for mad in wire.receive(Duration::from_millis(20)) {
            let progress = sender.receive(&mad, wire.now());
            assert!(!matches!(progress, Ok(Progress::Ended(_)) | Err(_)), "{progress:?}");
            is_done |= progress == Ok(Progress::Done);
        }
        let expiry = sender.expire(wire.now());
        assert!(!matches!(expiry, Expiry::GivenUp(_)), "{segments} segments: {expiry:?}");
        silent += u32::from(expiry == Expiry::Again && wire.said as usize == segments);
    }
    if !is_done {
        assert!(seed.is_some(), "the last acknowledgement came, and was not heard");
        println!("{seed:?}: the kernel's last acknowledgement was lost");
    }
    let mut said = Vec::new();
    kernel.0.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    let length = u32::from_le_bytes(said[..4].try_into().unwrap()) as usize;
    assert_eq!(length, HEADER + data.len(), "{segments} segments");
    assert!(said[4 + HEADER..] == data, "{segments} segments: other bytes");
    wire.faults
}

/// `SNIN_SEGMENTS` says how long the longest message is, `SNIN_SEEDS` how often messages are sent on a bad wire.
#[test]
#[ignore = "it runs in the virtual machine, started by another"]
fn the_kernel_is_the_other_side() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (most, seeds) =
        (number("SNIN_SEGMENTS").unwrap_or(1_000), number("SNIN_SEEDS").unwrap_or(3));
    let mut kernel = Ends(umad(KERNELS, OURS, &["serve"]));
    is_heard(kernel.0.stdout.as_mut().unwrap());
    for segments in [1, 2, 65, most] {
        let begun = Instant::now();
        assert_eq!(from_kernel(segments, None), [0; 3]);
        let came = begun.elapsed();
        assert_eq!(to_kernel(segments, None), [0; 3]);
        println!("{segments} segments came in {came:?}, went in {:?}", begun.elapsed() - came);
    }
    let mut faults = [0; 3];
    for seed in 0..seeds {
        for more in [from_kernel(65, Some(seed as u64)), to_kernel(65, Some(seed as u64))] {
            (0..3).for_each(|n| faults[n] += more[n]);
        }
    }
    println!("65 segments {} times: {faults:?} lost, doubled, overtaken", 2 * seeds);
    assert!(faults.iter().all(|&faults| faults > 5), "{faults:?}");
}
