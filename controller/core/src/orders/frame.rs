//! A time frame as it is wanted, and why it is refused.

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::Refusal;

/// The most frames, and the most of one owner.
pub const MAX_FRAMES: usize = 4096;
/// The most frames of one owner.
pub const MAX_FRAMES_OF_OWNER: usize = 256;
/// The furthest ahead that a frame may end.
pub const MAX_AHEAD: Time = Time::secs(31 * 24 * 3600);

/// A frame that is wanted. Times are the controller's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Who asked.
    pub owner: String,
    /// The port that sends.
    pub source: Guid,
    /// The port that receives.
    pub destination: Guid,
    /// From then on.
    pub from: Time,
    /// Until then.
    pub until: Time,
}

/// Why a frame is not kept. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// It cannot be granted at any time.
    #[error("{0}")]
    Refused(Refusal),
    /// It is over, or ends before it begins.
    #[error("the time frame is over before it begins")]
    Empty,
    /// Too far ahead.
    #[error("the time frame ends more than 31 days from now")]
    TooFar,
    /// As many as there may be.
    #[error("{MAX_FRAMES} requests are kept, and no more")]
    TooMany,
    /// As many as one owner may have.
    #[error("{0} has {MAX_FRAMES_OF_OWNER} requests, and no more are kept for one owner")]
    TooManyOf(String),
    /// Another frame has one of the ports at that time.
    #[error("request {other} has the {end} port then: it ends in {}", left(.ends))]
    PortTaken {
        /// The other's number.
        other: u64,
        /// Which port.
        end: &'static str,
        /// How long it lasts from now.
        ends: Time,
    },
    /// So many frames that the leaf has no link left.
    #[error("the {0} leaf has no link left for another request at that time")]
    LeafFull(&'static str),
}

fn left(time: &Time) -> String {
    format!("{:.3} s", time.as_secs())
}
