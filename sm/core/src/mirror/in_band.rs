//! The mirror without sessions: its messages by the [`Carrier`], and what the carrier brings as its events.
//!
//! Each manager is called by every other one and calls it: both in one session of the carrier's, whose link has
//! the other port's GUID as its number.

use snin_fabric::Guid;
use snin_protocol::{Time, codec};

use super::{Link, MirrorEvent, MirrorOutput};
use crate::carrier::{Carried, Carrier, Topic};

/// Says what the mirror wants said.
pub fn say(carrier: &mut Carrier, said: &MirrorOutput, now: Time) {
    let (Link(to), topic, frame) = match said {
        MirrorOutput::ToMaster(link, said) => (*link, Topic::FROM_STANDBY, codec::encode(said)),
        MirrorOutput::ToStandby(link, said) => (*link, Topic::FROM_MASTER, codec::encode(said)),
    };
    // Parts are made to fit a frame.
    if let Ok(frame) = frame {
        carrier.send(Guid(to), topic, frame, now);
    }
}

/// What that is to the mirror. A message that is none of the mirror's, or of a version that this one does not
/// know, is passed over.
pub fn heard(carried: &Carried) -> Vec<MirrorEvent> {
    let link = |guid: &Guid| Link(guid.0);
    match carried {
        Carried::Opened(guid) => {
            vec![MirrorEvent::Called(link(guid)), MirrorEvent::Answered(link(guid))]
        }
        Carried::Closed(guid) => vec![MirrorEvent::Closed(link(guid))],
        Carried::Said(guid, Topic::FROM_STANDBY, frame) => {
            let said = codec::decode(frame).ok().flatten();
            said.map(|(said, _)| MirrorEvent::Asked(link(guid), said)).into_iter().collect()
        }
        Carried::Said(guid, Topic::FROM_MASTER, frame) => {
            let said = codec::decode(frame).ok().flatten();
            said.map(|(said, _)| MirrorEvent::Heard(link(guid), said)).into_iter().collect()
        }
        Carried::Said(..) => Vec::new(),
    }
}
