//! All that follows from how fast links are: messages, times, and what controller and agents are told.

use snin_agent::Settings;
use snin_controller_core::config::Config as ControllerConfig;
use snin_protocol::{Term, Time};

/// Payload of a packet.
const MTU: u32 = 4096;
/// What a frame has besides: Ethernet, IPv4, UDP, the base and RDMA headers, the check sum.
const OVERHEAD: u32 = 14 + 20 + 8 + 12 + 16 + 4;
/// A message's transmission takes about this, so that some fit into a window.
const MESSAGE: Time = Time::millis(13);
/// How wrong an agent's clock may be: half of what a question and its answer take on a machine that is emulated.
const CLOCK_ERROR: Time = Time::millis(5);
/// The most messages on a queue pair.
const DEPTH: u32 = 4;
/// Messages that may come in before the application of a host takes them, and that it may have under way.
const ROOM: u32 = 64;
/// The most queue pairs of an agent.
const MOST_PAIRS: u32 = 4096;

/// All that follows from how fast links are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) bandwidth: u64,
    /// Bytes of a message.
    pub(super) piece: u32,
    /// A frame of full size.
    pub(super) frame: Time,
}

impl Rates {
    pub(super) fn new(bandwidth: u64) -> Self {
        let fit = bandwidth * MESSAGE.nanos() / 8_000_000_000 / u64::from(MTU);
        let frame = Time(u64::from(MTU + OVERHEAD) * 8_000_000_000 / bandwidth);
        Self { bandwidth, piece: MTU * (fit.max(1) as u32), frame }
    }

    /// How often a message is due at a load.
    pub(super) fn interval(&self, load: f64) -> Time {
        let frames = f64::from(self.piece / MTU);
        Time((self.frame.nanos() as f64 * frames / load) as u64)
    }

    /// What has left a port is there after this, on a machine that has time.
    fn drain(&self) -> Time {
        self.frame * 2 + Time::millis(10)
    }

    pub(super) fn controller(&self) -> ControllerConfig {
        let guard = CLOCK_ERROR + self.drain();
        ControllerConfig {
            window: Time::millis(250).max(guard * 5),
            // What was granted for one window only has to be renewed while the host still sends.
            lead: Time::millis(120),
            clock_error: CLOCK_ERROR,
            drain: self.drain(),
            guard,
            repeat: Time::millis(100),
            // Before it there is one that forces.
            term: Term(2),
            ..ControllerConfig::default()
        }
    }

    /// What every agent of a lab with so many hosts and trees is told of links, times and sizes.
    pub(super) fn agent(&self, hosts: usize, trees: u16) -> Settings {
        // The last frame crosses a link at the end, then the acknowledgement comes back.
        let acknowledgement = self.drain() + Time::millis(10);
        let pairs = (hosts as u32 * u32::from(trees)).clamp(1, MOST_PAIRS);
        Settings {
            poll: Some("hybrid".to_owned()),
            rate: self.bandwidth,
            pairs,
            inbound_pairs: pairs,
            flows: hosts as u32,
            depth: DEPTH,
            message: self.piece,
            buffers: ROOM.max(hosts as u32),
            receives: ROOM.max(hosts as u32),
            // Links are slow, and every loss is an error of the fabric or of an agent.
            resend_ms: 1000,
            stall_ms: 10_000,
            connect_ms: 5000,
            heartbeat_ms: 5000,
            silence_ms: 10_000,
            linger_ms: 5000,
            acknowledgement_us: acknowledgement.nanos() / 1000,
            ..Settings::default()
        }
    }
}
