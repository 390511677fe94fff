//! The thread that moves frames between the TAPs, by the emulated switches' tables. It sleeps in epoll.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use snin_daemon::clock::Clock;
use snin_emulator::frames::Frames;
use snin_fabric::PortIndex;
use snin_protocol::Time;
use tun_rs::SyncDevice;

use super::error::VerbsLabError;
use super::worker::Worker;

/// A TAP, and the host port that it stands for.
pub(super) struct Tap {
    pub(super) port: PortIndex,
    pub(super) device: SyncDevice,
}

/// The fabric that frames cross in real time. It stops when dropped.
pub(super) struct Wire {
    shared: Arc<Common>,
    worker: Worker,
}

struct Common {
    frames: Mutex<Frames>,
    clock: Clock,
}

/// However little happens, the thread looks that often whether it is to stop.
const LONGEST_SLEEP: Time = Time::millis(100);
/// The most frames taken from a TAP before it is another's turn.
const BATCH: usize = 16;
/// Longer than the TAPs' MTU.
const LONGEST_FRAME: usize = 9216;

impl Wire {
    /// Begins to forward.
    pub(super) fn start(
        taps: Vec<Tap>,
        frames: Frames,
        clock: Clock,
    ) -> Result<Self, VerbsLabError> {
        let shared = Arc::new(Common { frames: Mutex::new(frames), clock });
        let common = Arc::clone(&shared);
        let worker = Worker::start("fabric", move |stops| forward(&taps, &common, stops))?;
        Ok(Self { shared, worker })
    }

    /// The fabric, which stands still as long as this is held.
    pub(super) fn frames(&self) -> MutexGuard<'_, Frames> {
        self.shared.frames()
    }

    /// Whether it forwards still; if not, why.
    pub(super) fn check(&mut self) -> Result<(), VerbsLabError> {
        self.worker.check()
    }
}

impl Common {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forward(taps: &[Tap], common: &Common, stops: &AtomicBool) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, tap) in taps.iter().enumerate() {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&epoll, &tap.device, data, epoll::EventFlags::IN)?;
    }
    let mut ready: Vec<epoll::Event> = Vec::with_capacity(taps.len());
    let mut room = vec![0; LONGEST_FRAME];
    while !stops.load(Ordering::Relaxed) {
        let next = common.frames().next_deadline().unwrap_or(Time::MAX);
        let sleep = (next - common.clock.now()).min(LONGEST_SLEEP);
        let sleep = Timespec { tv_sec: 0, tv_nsec: sleep.nanos() as i64 };
        ready.clear();
        match epoll::wait(&epoll, spare_capacity(&mut ready), Some(&sleep)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut frames = common.frames();
        for event in &ready {
            let tap = &taps[event.data.u64() as usize];
            take_in(tap, &mut frames, common.clock, &mut room)?;
        }
        frames.handle_deadline(common.clock.now());
        let arrived: Vec<_> = std::iter::from_fn(|| frames.poll_output()).collect();
        drop(frames);
        for delivery in arrived {
            if let Some(tap) = taps.iter().find(|tap| tap.port == delivery.port) {
                give_out(tap, &delivery.frame)?;
            }
        }
    }
    Ok(())
}

fn take_in(tap: &Tap, frames: &mut Frames, clock: Clock, room: &mut [u8]) -> io::Result<()> {
    for _ in 0..BATCH {
        match tap.device.recv(room) {
            Ok(length) => {
                let now = clock.now();
                frames.handle_deadline(now);
                frames.send(tap.port, room[..length].to_vec(), now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A host whose interface has no room loses the frame, as on any Ethernet.
fn give_out(tap: &Tap, frame: &[u8]) -> io::Result<()> {
    match tap.device.send(frame) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}
