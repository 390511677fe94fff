//! A piece of a message as its receiver gets it: its sender and its number. This module does not look at its
//! bytes.

use snin_agent_core::{Arrival, FlowId, Piece};
use snin_fabric::Guid;

/// Bytes of it.
const LENGTH: usize = 8 + 8 + 4 + 8 + 8 + 8 + 4 + 1;

/// For the wire.
pub(crate) fn write(arrival: &Arrival) -> Vec<u8> {
    let Arrival { peer, session, piece } = arrival;
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&peer.0.to_be_bytes());
    bytes.extend_from_slice(&session.to_be_bytes());
    bytes.extend_from_slice(&piece.flow.0.to_be_bytes());
    bytes.extend_from_slice(&piece.sequence.to_be_bytes());
    bytes.extend_from_slice(&piece.message.to_be_bytes());
    bytes.extend_from_slice(&piece.offset.to_be_bytes());
    bytes.extend_from_slice(&piece.bytes.to_be_bytes());
    bytes.push(piece.last.into());
    bytes
}

/// From the wire; `None` if it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Arrival> {
    let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
    let long = |at: usize| bytes[at..].first_chunk().map(|eight| u64::from_be_bytes(*eight));
    let short = |at: usize| bytes[at..].first_chunk().map(|four| u32::from_be_bytes(*four));
    let piece = Piece {
        flow: FlowId(short(16)?),
        sequence: long(20)?,
        message: long(28)?,
        offset: long(36)?,
        bytes: short(44)?,
        last: match bytes[48] {
            0 => false,
            1 => true,
            _ => return None,
        },
    };
    Some(Arrival { peer: Guid(long(0)?), session: long(8)?, piece })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let piece =
            Piece { flow: FlowId(7), sequence: 1, message: 2, offset: 3, bytes: 4, last: true };
        let arrival = Arrival { peer: Guid(5), session: 6, piece };
        let mut bytes = write(&arrival);
        assert_eq!(read(&bytes), Some(arrival));
        assert_eq!(read(&bytes[1..]), None);
        bytes[48] = 2;
        assert_eq!(read(&bytes), None);
    }
}
