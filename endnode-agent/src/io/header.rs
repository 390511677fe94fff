//! What stands before the bytes of a piece on the wire: a header, or nothing but an immediate where a piece
//! is its flow's next one after the piece before it on the same reliable queue pair. Then the receiver knows
//! the header, and a message of a packet's length is one packet.

use snin_fabric::Guid;

use snin_agent_core::{FlowId, Piece};

/// Its length.
pub(crate) const HEADER: usize = 48;

/// The top bit of the length says that a message ends here.
const LAST: u32 = 1 << 31;

/// The sender of a piece, and the piece's place in its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) peer: Guid,
    pub(crate) session: u64,
    pub(crate) piece: Piece,
}

/// The flow's next piece after `previous`.
pub(crate) const fn follower(previous: &Piece, bytes: u32, last: bool) -> Piece {
    let (message, offset) = if previous.last {
        (previous.message.wrapping_add(1), 0)
    } else {
        (previous.message, previous.offset.wrapping_add(previous.bytes as u64))
    };
    let sequence = previous.sequence.wrapping_add(1);
    Piece { flow: previous.flow, sequence, message, offset, bytes, last }
}

/// What stands instead of a header, if a piece needs none after `previous`: whether a message ends with it.
pub(crate) fn elide(previous: Option<&Piece>, piece: &Piece) -> Option<u32> {
    (follower(previous?, piece.bytes, piece.last) == *piece).then_some(piece.last.into())
}

/// Makes of the piece that came before the one that came with an immediate instead of a header; whether the
/// immediate says that.
pub(crate) fn supply(piece: &mut Piece, immediate: u32, bytes: u32) -> bool {
    let is_one = immediate <= 1;
    if is_one {
        *piece = follower(piece, bytes, immediate == 1);
    }
    is_one
}

impl Header {
    /// All numbers are big endian.
    pub(crate) fn write(&self, to: &mut [u8]) {
        let Piece { flow, sequence, message, offset, bytes, last } = self.piece;
        let length = bytes | if last { LAST } else { 0 };
        to[..8].copy_from_slice(&self.peer.0.to_be_bytes());
        to[8..16].copy_from_slice(&self.session.to_be_bytes());
        to[16..20].copy_from_slice(&flow.0.to_be_bytes());
        to[20..24].copy_from_slice(&length.to_be_bytes());
        to[24..32].copy_from_slice(&sequence.to_be_bytes());
        to[32..40].copy_from_slice(&message.to_be_bytes());
        to[40..48].copy_from_slice(&offset.to_be_bytes());
    }

    /// `None` if it is cut short, or does not say how many bytes follow it.
    pub(crate) fn read(from: &[u8]) -> Option<Self> {
        let (header, body) = from.split_first_chunk::<HEADER>()?;
        let long = |at: usize| header[at..].first_chunk().map(|&bytes| u64::from_be_bytes(bytes));
        let short = |at: usize| header[at..].first_chunk().map(|&bytes| u32::from_be_bytes(bytes));
        let length = short(20)?;
        let piece = Piece {
            flow: FlowId(short(16)?),
            sequence: long(24)?,
            message: long(32)?,
            offset: long(40)?,
            bytes: length & !LAST,
            last: length & LAST != 0,
        };
        let header = Self { peer: Guid(long(0)?), session: long(8)?, piece };
        (piece.bytes as usize == body.len()).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flows_next_piece_needs_no_header() {
        let first =
            Piece { flow: FlowId(7), sequence: 4, message: 3, offset: 9, bytes: 5, last: false };
        let rest = Piece { sequence: 5, offset: 14, bytes: 2, last: true, ..first };
        let next = Piece { sequence: 6, message: 4, offset: 0, bytes: 0, last: true, ..first };
        for (previous, piece) in [(first, rest), (rest, next)] {
            let immediate = elide(Some(&previous), &piece).unwrap();
            let mut came = previous;
            assert!(supply(&mut came, immediate, piece.bytes));
            assert_eq!(came, piece);
        }
        assert_eq!(elide(None, &first), None, "it is the first");
        assert_eq!(elide(Some(&first), &next), None, "one is missing");
        assert_eq!(elide(Some(&first), &Piece { flow: FlowId(8), ..rest }), None, "another flow's");
        let mut came = first;
        assert!(!supply(&mut came, 2, 5));
        assert_eq!(came, first);
    }

    #[test]
    fn headers_come_back_and_wrong_lengths_are_none() {
        let piece = Piece {
            flow: FlowId(7),
            sequence: 1 << 40,
            message: 3,
            offset: 9,
            bytes: 5,
            last: true,
        };
        let header = Header { peer: Guid(0xabc), session: 77, piece };
        let mut bytes = [0; HEADER + 5];
        header.write(&mut bytes);
        assert_eq!(Header::read(&bytes), Some(header));
        assert_eq!(Header::read(&bytes[..HEADER + 4]), None);
        assert_eq!(Header::read(&bytes[..HEADER - 1]), None);
        let open = Header { piece: Piece { last: false, ..piece }, ..header };
        open.write(&mut bytes);
        assert_eq!(Header::read(&bytes), Some(open));
    }
}
