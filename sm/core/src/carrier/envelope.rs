//! A message as bytes: who says it to whom, in which session and as which one, what, and the tag of all that.
//!
//! ```text
//! byte 0         1: the version
//!      1         the topic; 0: a hello
//!      2         1: the session is settled for who says this
//!      4   12    GUIDs of the ports that say it and that it is for
//!     20   28    their challenges; the second is 0 where it is not known
//!     36         the number of the message in its session, from 1; 0: a hello
//!     44         the body
//!   last 32      HMAC-SHA256 of all before, by the site's key
//! ```

use snin_fabric::Guid;

use super::{Refused, Topic};

/// Bytes of a tag.
pub const TAG: usize = 32;
const HEAD: usize = 44;
const VERSION: u8 = 1;
/// Bytes of a message without a body.
pub(super) const LEAST: usize = HEAD + TAG;

/// The site's key, which the core does not see: managers that have it know each other by it.
pub trait Seal: Send {
    /// HMAC-SHA256 of the message.
    fn tag(&self, message: &[u8]) -> [u8; TAG];

    /// Whether that is its tag. Takes as long wherever the two differ.
    fn fits(&self, message: &[u8], tag: &[u8]) -> bool;
}

/// What is said of a message beside its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) topic: Topic,
    pub(super) settled: bool,
    pub(super) from: Guid,
    pub(super) to: Guid,
    /// Of the port that says it.
    pub(super) challenge: u64,
    /// Of the one that it is for.
    pub(super) echo: u64,
    pub(super) number: u64,
}

impl Head {
    /// The message as bytes.
    pub(super) fn close(&self, body: &[u8], seal: &dyn Seal) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEAST + body.len());
        bytes.extend_from_slice(&[VERSION, self.topic.0, u8::from(self.settled), 0]);
        for word in [self.from.0, self.to.0, self.challenge, self.echo, self.number] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(body);
        let tag = seal.tag(&bytes);
        bytes.extend_from_slice(&tag);
        bytes
    }

    /// What bytes say, and the body. Nothing is looked at before the tag.
    pub(super) fn open<'a>(bytes: &'a [u8], seal: &dyn Seal) -> Result<(Self, &'a [u8]), Refused> {
        let (message, tag) = bytes.split_last_chunk::<TAG>().ok_or(Refused::Malformed)?;
        let (head, body) = message.split_first_chunk::<HEAD>().ok_or(Refused::Malformed)?;
        if !seal.fits(message, tag) {
            return Err(Refused::Forged);
        }
        if head[0] != VERSION {
            return Err(Refused::Malformed);
        }
        let word =
            |at: usize| head[at..at + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let head = Self {
            topic: Topic(head[1]),
            settled: head[2] == 1,
            from: Guid(word(4)),
            to: Guid(word(12)),
            challenge: word(20),
            echo: word(28),
            number: word(36),
        };
        Ok((head, body))
    }
}
