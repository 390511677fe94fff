//! All that follows from how fast links are: messages, times, and what controller and meshes are told.

use snin_agent::core::Config as MeshConfig;
use snin_controller::config::Config as ControllerConfig;
use snin_protocol::Time;

use super::links::DEPTH;

/// Payload of a packet.
const MTU: u32 = 4096;
/// What a frame has besides: Ethernet, IPv4, UDP, the base and RDMA headers, the check sum.
const OVERHEAD: u32 = 14 + 20 + 8 + 12 + 16 + 4;
/// A message's transmission takes about this, so that some fit into a window.
const MESSAGE: Time = Time::millis(13);
/// How late the loop that drives hosts and controller may be.
const LATE: Time = Time::millis(5);

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
        let guard = LATE + self.drain();
        ControllerConfig {
            window: Time::millis(250).max(guard * 5),
            // What was granted for one window only has to be renewed while the host still sends.
            lead: Time::millis(120),
            clock_error: LATE,
            drain: self.drain(),
            guard,
            repeat: Time::millis(100),
            ..ControllerConfig::default()
        }
    }

    pub(super) fn mesh(&self, session: u64) -> MeshConfig {
        MeshConfig {
            session,
            pairs: 256,
            flows: 1,
            inbound: 1,
            queue: 8192,
            depth: DEPTH,
            piece: self.piece,
            mtu: MTU,
            overhead: OVERHEAD,
            rate: self.bandwidth,
            clock_error: Some(Time::micros(100)),
            ask_time: Time::millis(500),
            // The last frame crosses a link at the end, then the acknowledgement comes back.
            acknowledgement: self.drain() + Time::millis(10),
            stall: Time::secs(10),
            connect: Time::secs(5),
            ask_again: Time::millis(200),
            linger: Time::secs(5),
            silence: Time::secs(10),
            histogram: None,
            ..MeshConfig::default()
        }
    }
}
