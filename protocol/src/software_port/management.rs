//! MADs at a software port, in ibsim's words.
//!
//! A client binds `NAME:ctlID` and `NAME:inID`, ID being any number below 2^31 that no other client has (a
//! process id, as a rule). From the first it asks `NAME:ctl` one [`Question`] after the other and reads the
//! answers. Connected, it knows its slot N, and exchanges [`MadFrame`]s between `NAME:inID` and `NAME:outN`.
//!
//! Numbers of a question are in the machine's own order, those of a frame in the network's.
//!
//! - The server writes the slot over the upper 16 bits of a request's transaction id. What comes back has them.
//! - A request without an answer, after all of the server's attempts, comes back with [`TIMED_OUT`] as status.
//! - Requests for a subnet manager, and traps, go to the client of the port that has said [`Ask::SetManager`].

use snin_fabric::Lid;

/// Bytes of a question and of an answer.
pub const QUESTION: usize = 16 + DATA;
/// Bytes of what a question or its answer holds.
pub const DATA: usize = 64;
/// Bytes of a frame.
pub const FRAME: usize = HEAD + MAD;
/// Bytes of a MAD.
pub const MAD: usize = 256;
/// The status of a request without an answer.
pub const TIMED_OUT: u32 = 110;
/// The longest name of a place to connect to, its NUL aside.
pub const LONGEST_PLACE: usize = 31;

const MAGIC: u32 = 0xDEAD_BEEF;
const HEAD: usize = 32;

/// What is asked. The numbers are ibsim's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// The answer's, where the server says no.
    Refused = 0,
    /// To be attached: [`Connect`]. The answer holds the slot.
    Connect = 1,
    /// To be attached no longer.
    Disconnect = 2,
    /// LID (u16) and state (u8) of the port.
    Port = 3,
    /// Vendor and device (u32), hardware (u32), firmware (u64, at 16).
    Vendor = 4,
    /// The port's GID.
    Gid = 5,
    /// The node's GUID.
    Guid = 6,
    /// NodeInfo as it is in a MAD.
    NodeInfo = 7,
    /// PortInfo as it is in a MAD, of the port whose number is in the first byte, 0 being the own.
    PortInfo = 8,
    /// Whether (i32) the client is a subnet manager.
    SetManager = 9,
    /// The first 32 entries of the port's P_Key table.
    PKeys = 10,
}

impl Ask {
    const ALL: [Self; 11] = [
        Self::Refused,
        Self::Connect,
        Self::Disconnect,
        Self::Port,
        Self::Vendor,
        Self::Gid,
        Self::Guid,
        Self::NodeInfo,
        Self::PortInfo,
        Self::SetManager,
        Self::PKeys,
    ];
}

/// A question, or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The client's slot; anything before it has one.
    pub slot: u32,
    /// What is asked; the answer repeats it, or says [`Ask::Refused`].
    pub ask: Ask,
    /// How much of the data counts, as the one who asks says.
    pub length: u32,
    /// What goes with it.
    pub data: [u8; DATA],
}

impl Question {
    /// A question with its data, of which what is too long is cut off.
    pub fn new(slot: u32, ask: Ask, data: &[u8]) -> Self {
        let mut question = Self { slot, ask, length: data.len() as u32, data: [0; DATA] };
        question.put(data);
        question
    }

    /// Writes to the beginning of the data, as far as it goes.
    pub fn put(&mut self, data: &[u8]) {
        let length = data.len().min(DATA);
        self.data[..length].copy_from_slice(&data[..length]);
    }

    /// From the wire; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; QUESTION] = bytes.try_into().ok()?;
        let ask = own_word(bytes, 8) as usize;
        let ask = *Ask::ALL.get(ask).filter(|_| own_word(bytes, 0) == MAGIC)?;
        let mut data = [0; DATA];
        data.copy_from_slice(&bytes[16..]);
        Some(Self { slot: own_word(bytes, 4), ask, length: own_word(bytes, 12), data })
    }

    /// For the wire.
    pub fn bytes(&self) -> [u8; QUESTION] {
        let mut bytes = [0; QUESTION];
        let words = [MAGIC, self.slot, self.ask as u32, self.length];
        for (place, word) in words.into_iter().enumerate() {
            bytes[place * 4..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[16..].copy_from_slice(&self.data);
        bytes
    }
}

/// What [`Ask::Connect`] says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The client's own number; in the answer, its slot.
    pub id: u32,
    /// Whether it is a subnet manager from the start.
    pub manager: bool,
    /// Where to: a node's name; the server's first where it is empty.
    pub place: String,
}

impl Connect {
    /// From a question's data.
    pub fn parse(data: &[u8; DATA]) -> Self {
        let place = &data[12..12 + LONGEST_PLACE + 1];
        let end = place.iter().position(|&byte| byte == 0).unwrap_or(LONGEST_PLACE);
        let place = String::from_utf8_lossy(&place[..end]).into_owned();
        Self { id: own_word(data, 0), manager: own_word(data, 8) != 0, place }
    }

    /// For a question's data. A place that is too long is cut off.
    pub fn bytes(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..4].copy_from_slice(&self.id.to_ne_bytes());
        bytes[8..12].copy_from_slice(&u32::from(self.manager).to_ne_bytes());
        let place = self.place.as_bytes();
        let length = place.len().min(LONGEST_PLACE);
        bytes[12..12 + length].copy_from_slice(&place[..length]);
        bytes
    }
}

/// A MAD and where it goes or comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadFrame {
    /// Where to; 0xFFFF on a directed route.
    pub to: Lid,
    /// Where from; 0 means the port's own address.
    pub from: Lid,
    /// The queue pair it goes to.
    pub to_qp: u32,
    /// The queue pair it comes from.
    pub from_qp: u32,
    /// 0, or [`TIMED_OUT`].
    pub status: u32,
    /// How many bytes of the MAD count, at most [`MAD`].
    pub length: u16,
    /// The MAD.
    pub mad: [u8; MAD],
}

impl MadFrame {
    /// From the wire; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME] = bytes.try_into().ok()?;
        let mut mad = [0; MAD];
        mad.copy_from_slice(&bytes[HEAD..]);
        Some(Self {
            to: lid(bytes, 0),
            from: lid(bytes, 4),
            to_qp: u32::from_be(own_word(bytes, 8)),
            from_qp: u32::from_be(own_word(bytes, 12)),
            status: u32::from_be(own_word(bytes, 16)),
            length: u64::from_be_bytes(*bytes[24..HEAD].first_chunk()?).min(MAD as u64) as u16,
            mad,
        })
    }

    /// For the wire.
    pub fn bytes(&self) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        // A 16 bit number in the network's order, held by a word in the machine's.
        let lid = |lid: Lid| u32::from(lid.0.to_be()).to_ne_bytes();
        bytes[..4].copy_from_slice(&lid(self.to));
        bytes[4..8].copy_from_slice(&lid(self.from));
        bytes[8..12].copy_from_slice(&self.to_qp.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.from_qp.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.status.to_be_bytes());
        bytes[24..HEAD].copy_from_slice(&u64::from(self.length).to_be_bytes());
        bytes[HEAD..].copy_from_slice(&self.mad);
        bytes
    }
}

fn lid(bytes: &[u8], at: usize) -> Lid {
    Lid(u16::from_be(own_word(bytes, at) as u16))
}

fn own_word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |four| u32::from_ne_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let connect = Connect { id: 4711, manager: true, place: "leaf1:2".to_owned() };
        let question = Question::new(3, Ask::Connect, &connect.bytes());
        let read = Question::parse(&question.bytes());
        assert_eq!(read, Some(question));
        assert_eq!(Connect::parse(&question.data), connect);
        let (to, from) = (Lid(7), Lid(0xFFFF));
        let frame = MadFrame {
            to,
            from,
            to_qp: 1,
            from_qp: 2,
            status: TIMED_OUT,
            length: 76,
            mad: [5; MAD],
        };
        assert_eq!(MadFrame::parse(&frame.bytes()), Some(frame));
    }

    #[test]
    fn what_is_neither_is_refused() {
        let good = Question::new(0, Ask::PKeys, &[]).bytes();
        assert!(Question::parse(&good[1..]).is_none());
        for (place, value) in [(0, 0), (8, 11)] {
            let mut bad = good;
            bad[place] = value;
            assert!(Question::parse(&bad).is_none(), "{place}");
        }
        assert!(MadFrame::parse(&[0; FRAME - 1]).is_none());
        // A place without a NUL, and one that is no UTF-8.
        let connect = Connect::parse(&[b'x'; DATA]);
        assert_eq!(connect.place, "x".repeat(LONGEST_PLACE));
        assert!(!Connect::parse(&[0xFF; DATA]).place.is_empty());
    }
}
