//! RMPP against another implementation of it: both sides as Linux has them (drivers/infiniband/core/mad_rmpp.c),
//! written from that file's rules and by bytes, without a line of this crate.
//!
//! The kernel itself is asked in the virtual machine (`tools/snin/tests/lat/rmpp.rs`). Here its rules stand, in
//! virtual time: what is lost, doubled and overtaken is of many more kinds.

use std::collections::{BTreeMap, BinaryHeap};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_mad::Mad;
use snin_mad::rmpp::{Expiry, Policy, Progress, Receiver, Sender};
use snin_protocol::Time;

/// Where things lie in a MAD (IBA 13.6.2.1); of administration the data begins at 56.
const TYPE: usize = 25;
const FLAGS: usize = 26;
const STATUS: usize = 27;
const SEGMENT: usize = 28;
const LENGTH: usize = 32;
const DATA: usize = 56;
const ROOM: usize = 200;
/// Bytes of a segment that its length counts: all after the RMPP header.
const COUNTED: usize = 220;
/// A receive queue of 512, an eighth of it.
const WINDOW: u32 = 64;
const TIMEOUT: Time = Time::millis(2_000);
const RETRIES: u32 = 10;

type Bytes = [u8; 256];

fn word(mad: &Bytes, at: usize) -> u32 {
    u32::from_be_bytes(mad[at..at + 4].try_into().unwrap())
}

fn put(mad: &mut Bytes, at: usize, value: u32) {
    mad[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A GetTableResp of administration without data.
fn header() -> Bytes {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, 0x92]);
    mad[8..16].copy_from_slice(&0x1234_5678_9ABC_DEF0_u64.to_be_bytes());
    mad[17] = 0x11;
    mad[45] = 14;
    mad
}

/// `ib_mad_send_wr_private` as far as RMPP goes.
struct LinuxSender {
    data: Vec<u8>,
    segments: u32,
    sent: u32,
    last_ack: u32,
    window: u32,
    due: Time,
    tries: u32,
    done: bool,
}

impl LinuxSender {
    fn new(data: Vec<u8>) -> Self {
        let segments = data.len().div_ceil(ROOM).max(1) as u32;
        let (sent, last_ack, window, due) = (0, 0, 1, Time::ZERO);
        Self { data, segments, sent, last_ack, window, due, tries: 0, done: false }
    }

    /// send_next_seg, as long as the window is open.
    fn go_on(&mut self, now: Time, out: &mut Vec<Bytes>) {
        while !self.done && self.sent < self.window.min(self.segments) {
            self.sent += 1;
            let begin = (self.sent as usize - 1) * ROOM;
            let part = &self.data[begin..self.data.len().min(begin + ROOM)];
            let mut mad = header();
            mad[DATA..DATA + part.len()].copy_from_slice(part);
            (mad[24], mad[TYPE], mad[FLAGS]) = (1, 1, 0x1F << 3 | 1);
            put(&mut mad, SEGMENT, self.sent);
            let pad = self.segments as usize * ROOM - self.data.len();
            if self.sent == 1 {
                mad[FLAGS] |= 2;
                put(&mut mad, LENGTH, (self.segments as usize * COUNTED - pad) as u32);
            }
            if self.sent == self.segments {
                mad[FLAGS] |= 4;
                put(&mut mad, LENGTH, (COUNTED - pad) as u32);
            }
            out.push(mad);
            self.due = now + TIMEOUT;
        }
    }

    /// process_rmpp_ack.
    fn hears(&mut self, ack: &Bytes, now: Time, out: &mut Vec<Bytes>) {
        assert_eq!(
            (ack[3], ack[TYPE], ack[STATUS]),
            (0x12, 2, 0),
            "an ACK has the request's method"
        );
        let (segment, window) = (word(ack, SEGMENT), word(ack, LENGTH));
        assert!(window >= segment, "W2S");
        assert!(segment <= self.segments && segment <= self.window, "S2B");
        if self.done || window < self.window || segment < self.last_ack {
            return;
        }
        if segment > self.last_ack {
            (self.last_ack, self.tries) = (segment, 0);
        }
        self.window = window;
        self.done = self.last_ack == self.segments;
        self.due = now + TIMEOUT;
        self.sent = self.sent.max(segment);
        self.go_on(now, out);
    }

    /// retry_send: back to what was acknowledged.
    fn expires(&mut self, now: Time, out: &mut Vec<Bytes>) {
        if !self.done && now >= self.due {
            self.tries += 1;
            assert!(self.tries <= RETRIES, "too many retries");
            self.sent = self.last_ack;
            self.go_on(now, out);
        }
    }
}

/// `mad_rmpp_recv`.
#[derive(Default)]
struct LinuxReceiver {
    parts: BTreeMap<u32, Bytes>,
    in_order: u32,
    last_ack: u32,
    window: u32,
    last: Option<u32>,
    /// As of Debian's 6.1.0-56: with the last segment its question is over, and what comes then is dropped before
    /// RMPP sees it (ib_mad_recv_done asks ib_find_send_mad first). Before that it acknowledged repeats.
    closes: bool,
}

impl LinuxReceiver {
    /// process_rmpp_data: start_rmpp, continue_rmpp.
    fn hears(&mut self, mad: &Bytes, out: &mut Vec<Bytes>) {
        assert_eq!((mad[24], mad[TYPE], mad[STATUS], mad[3]), (1, 1, 0, 0x92));
        let (segment, flags) = (word(mad, SEGMENT), mad[FLAGS] & 7);
        assert_ne!(flags & 1, 0, "active");
        assert_eq!(flags & 2 != 0, segment == 1, "BadSeg");
        if self.closes && self.is_whole() {
            return;
        }
        if self.window == 0 {
            if segment != 1 {
                return;
            }
            self.window = WINDOW;
        }
        if segment > self.window {
            return;
        }
        if segment <= self.last_ack {
            return self.acknowledge(mad, out);
        }
        if flags & 4 != 0 {
            let length = word(mad, LENGTH);
            assert!((20..=220).contains(&length), "BadLen");
            self.last = Some(segment);
        }
        self.parts.entry(segment).or_insert(*mad);
        while self.parts.contains_key(&(self.in_order + 1)) {
            self.in_order += 1;
        }
        let first = segment == 1 && self.last_ack == 0;
        if first || self.in_order >= self.window || self.is_whole() {
            self.window = self.in_order + WINDOW;
            self.acknowledge(mad, out);
        }
    }

    fn acknowledge(&mut self, mad: &Bytes, out: &mut Vec<Bytes>) {
        self.last_ack = self.in_order;
        let mut ack = *mad;
        ack[DATA - 20..].fill(0);
        ack[3] ^= 0x80;
        (ack[TYPE], ack[FLAGS], ack[STATUS]) = (2, 0x1F << 3 | 1, 0);
        put(&mut ack, SEGMENT, self.in_order);
        put(&mut ack, LENGTH, self.window);
        out.push(ack);
    }

    fn is_whole(&self) -> bool {
        self.last == Some(self.in_order)
    }

    fn data(&self) -> Vec<u8> {
        let bytes = |(&number, mad): (&u32, &Bytes)| match Some(number) == self.last {
            true => mad[DATA..DATA + word(mad, LENGTH) as usize - 20].to_vec(),
            false => mad[DATA..].to_vec(),
        };
        self.parts.iter().flat_map(bytes).collect()
    }
}

/// What happens to datagrams, of a thousand.
#[derive(Clone, Copy)]
struct Way {
    lost: u32,
    doubled: u32,
    delayed: u32,
}

const CLEAN: Way = Way { lost: 0, doubled: 0, delayed: 0 };

/// When and in which order it arrives, the soonest first; to which side; what.
type Underway = (std::cmp::Reverse<(Time, u64)>, bool, Bytes);

/// Carries datagrams in virtual time.
struct Wire {
    way: Way,
    random: ChaCha8Rng,
    /// The earliest first: when, which number, to the sender or to the receiver.
    queue: BinaryHeap<Underway>,
    count: u64,
}

impl Wire {
    fn new(way: Way, seed: u64) -> Self {
        Self { way, random: ChaCha8Rng::seed_from_u64(seed), queue: BinaryHeap::new(), count: 0 }
    }

    fn carry(&mut self, now: Time, to_sender: bool, mads: Vec<Bytes>) {
        for mad in mads {
            let Way { lost, doubled, delayed } = self.way;
            let mut happens = |of: u32| self.random.random_range(0..1_000) < of;
            let copies = if happens(lost) { 0 } else { 1 + u32::from(happens(doubled)) };
            for _ in 0..copies {
                let late = self.random.random_range(0..1_000) < delayed;
                let extra = if late { self.random.random_range(1..400) } else { 0 };
                self.count += 1;
                let at = now + Time::micros(10 + extra);
                self.queue.push((std::cmp::Reverse((at, self.count)), to_sender, mad));
            }
        }
    }
}

fn message(segments: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let length = (segments - 1) * ROOM + random.random_range(1..=ROOM);
    (0..length).map(|_| random.random()).collect()
}

/// Ours sends, Linux's receives, and has it whole; whether the sender was told so.
fn to_linux(data: &[u8], way: Way, seed: u64, closes: bool) -> bool {
    let policy = Policy { retries: RETRIES, unheard: RETRIES, ..Policy::default() };
    let mut sender = Sender::new(&Mad(header()), data.to_vec(), policy, Time::ZERO);
    let mut receiver = LinuxReceiver { closes, ..LinuxReceiver::default() };
    let mut wire = Wire::new(way, seed);
    let (mut now, mut done, mut given_up) = (Time::ZERO, false, false);
    while !done && !given_up {
        let out = std::iter::from_fn(|| sender.poll(now)).map(|mad| mad.0).collect();
        wire.carry(now, false, out);
        let due = sender.deadline();
        match wire.queue.pop() {
            Some((std::cmp::Reverse((at, _)), to_sender, mad)) if at < due => {
                now = at;
                if to_sender {
                    done = sender.receive(&Mad(mad), now).unwrap() == Progress::Done;
                } else {
                    let mut out = Vec::new();
                    receiver.hears(&mad, &mut out);
                    wire.carry(now, true, out);
                }
            }
            taken => {
                wire.queue.extend(taken);
                now = due;
                given_up = matches!(sender.expire(now), Expiry::GivenUp(_));
            }
        }
    }
    assert!(receiver.is_whole(), "seed {seed}");
    assert_eq!(receiver.data(), data);
    done
}

/// Linux's sends, ours receives.
fn from_linux(data: &[u8], way: Way, seed: u64) {
    let policy = Policy { longest: 4 << 20, total: Time::secs(1_000), ..Policy::default() };
    let (mut sender, mut wire) = (LinuxSender::new(data.to_vec()), Wire::new(way, seed));
    let mut receiver: Option<Receiver> = None;
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    sender.go_on(now, &mut out);
    while !sender.done {
        wire.carry(now, false, std::mem::take(&mut out));
        match wire.queue.pop() {
            Some((std::cmp::Reverse((at, _)), to_sender, mad)) if at < sender.due => {
                now = at;
                if to_sender {
                    sender.hears(&mad, now, &mut out);
                    continue;
                }
                let mad = Mad(mad);
                let receiver = receiver.get_or_insert_with(|| Receiver::new(&mad, policy, now));
                let reception = receiver.receive(&mad);
                assert_eq!(reception.ended, None);
                wire.carry(now, true, reception.reply.map(|reply| reply.0).into_iter().collect());
            }
            taken => {
                wire.queue.extend(taken);
                now = sender.due;
                sender.expires(now, &mut out);
            }
        }
    }
    let mut receiver = receiver.unwrap();
    assert!(receiver.is_done());
    assert_eq!(receiver.take().unwrap(), data);
}

#[test]
fn messages_of_every_length_arrive_both_ways() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for segments in [1, 2, 3, 64, 65, 66, 129, 10_000] {
        let data = message(segments, &mut random);
        assert!(to_linux(&data, CLEAN, 0, false), "{segments} segments");
        from_linux(&data, CLEAN, 0);
    }
    // Exactly full, and empty.
    for length in [ROOM, 65 * ROOM, 0] {
        let data = vec![7; length];
        assert!(to_linux(&data, CLEAN, 0, false), "{length} bytes");
        from_linux(&data, CLEAN, 0);
    }
}

#[test]
fn they_arrive_though_segments_are_lost_doubled_and_overtaken() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let ways = [
        Way { lost: 50, ..CLEAN },
        Way { doubled: 300, ..CLEAN },
        Way { delayed: 300, ..CLEAN },
        Way { lost: 50, doubled: 100, delayed: 200 },
    ];
    for way in ways {
        for seed in 0..50 {
            let data = message(65, &mut random);
            // Where time runs out is no fault: at 5 % lost a message of 65 segments takes some 8 s of 40.
            assert!(to_linux(&data, way, seed, false), "seed {seed}");
            from_linux(&data, way, seed);
        }
    }
}

/// The sender cannot know, and ends.
#[test]
fn who_is_deaf_once_it_has_the_message_has_it() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let way = Way { lost: 100, doubled: 100, delayed: 100 };
    let told = (0..100).filter(|&seed| to_linux(&message(65, &mut random), way, seed, true));
    let told = told.count();
    assert!((50..100).contains(&told), "{told} of 100");
}
