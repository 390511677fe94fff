//! Messages as bytes: frames of a length (u32, big endian), a version (u8) and a body.
//!
//! The body is bincode's; no other module knows that. Every list has a limit, every frame has a limit, and
//! bytes from the wire can be refused but cannot do harm.

pub mod serde;
mod table;
mod wire;

use bincode::config::{BigEndian, Configuration, Fixint, Limit};
use bincode::de::Decode;
use bincode::enc::Encode;
use bincode::error::DecodeError;

use crate::greeting::SessionMessage;
use crate::message::{FromAgent, ToAgent, ViewChange, ViewClear};
use crate::mirror::{FromMaster, FromStandby};
use crate::peer::PeerMessage;
use crate::software_port::messages::{FromFabric, ToFabric};
use crate::view::{FromManager, ToManager};
use wire::{Body, BodyRef, Wire};

/// The version of everything in [`message`](crate::message), [`peer`](crate::peer) and [`view`](crate::view).
pub const VERSION: u8 = 9;
/// Every version that is understood: sessions agree on one of them.
pub const VERSIONS: std::ops::RangeInclusive<u8> = VERSION..=VERSION;
/// The version of the session's own frames, in [`greeting`](crate::greeting). It never changes.
pub const SESSION_VERSION: u8 = 0;
/// The most bytes of a frame after its length: version and body.
pub const MAX_FRAME: usize = 64 << 10;

const LENGTH: usize = size_of::<u32>();

/// Integers are written as they are: a frame's length then follows from what is in it.
const CONFIG: Configuration<BigEndian, Fixint, Limit<MAX_FRAME>> = bincode::config::standard()
    .with_big_endian()
    .with_fixed_int_encoding()
    .with_limit::<MAX_FRAME>();

/// What can be sent in a frame.
pub trait Message: Wire {
    /// The version that its frames say.
    const FRAME_VERSION: u8 = VERSION;
}

impl Message for SessionMessage {
    const FRAME_VERSION: u8 = SESSION_VERSION;
}
impl Message for FromManager {}
impl Message for ToManager {}
impl Message for FromAgent {}
impl Message for ToAgent {}
impl Message for ViewChange {}
impl Message for ViewClear {}
impl Message for PeerMessage {}
impl Message for FromMaster {}
impl Message for FromStandby {}
impl Message for ToFabric {}
impl Message for FromFabric {}

/// A message that is no frame, or bytes that are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// More than a frame holds.
    #[error("a frame of {0} bytes, but at most {MAX_FRAME} are possible")]
    TooLong(usize),
    /// A list is longer than its limit.
    #[error("the message does not fit a frame: a list is too long")]
    ListTooLong,
    /// Another version of the protocol.
    #[error("protocol version {0}, but only {VERSION} is understood")]
    Version(u8),
    /// The body is no message.
    #[error("the frame holds no message: {0}")]
    Body(&'static str),
}

/// The message as a frame.
///
/// # Errors
/// When one of its lists is longer than it may be.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, CodecError> {
    let body = bincode::encode_to_vec(BodyRef(message), CONFIG);
    let body = body.map_err(|_| CodecError::ListTooLong)?;
    let length = body.len() + 1;
    if length > MAX_FRAME {
        return Err(CodecError::TooLong(length));
    }
    let mut frame = Vec::with_capacity(LENGTH + length);
    frame.extend_from_slice(&(length as u32).to_be_bytes());
    frame.push(M::FRAME_VERSION);
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// A whole frame, not yet understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Which version it says it has.
    pub version: u8,
    body: &'a [u8],
    /// How many bytes it takes, its length included.
    pub length: usize,
}

impl<'a> Frame<'a> {
    /// The first frame in `bytes`; `None` while it is not all there.
    ///
    /// # Errors
    /// When it is longer than may be, or empty. What comes after it cannot be trusted: a stream ends here.
    pub fn first(bytes: &'a [u8]) -> Result<Option<Self>, CodecError> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(CodecError::TooLong(length));
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        let (&version, body) = frame.split_first().ok_or(CodecError::Body("it is empty"))?;
        Ok(Some(Self { version, body, length: LENGTH + length }))
    }

    /// What it says.
    ///
    /// # Errors
    /// When it says nothing of the kind.
    pub fn message<M: Message>(&self) -> Result<M, CodecError> {
        if self.version == M::FRAME_VERSION {
            decode_body(self.body)
        } else {
            Err(CodecError::Version(self.version))
        }
    }
}

/// The first message in `bytes`, and how many bytes it took; `None` while it is not all there.
///
/// # Errors
/// When the bytes are no frame. What comes after them cannot be trusted: a stream ends here.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<Option<(M, usize)>, CodecError> {
    let frame = Frame::first(bytes)?;
    frame.map(|frame| Ok((frame.message()?, frame.length))).transpose()
}

fn decode_body<M: Message>(body: &[u8]) -> Result<M, CodecError> {
    let decoded = bincode::decode_from_slice::<Body<M>, _>(body, CONFIG);
    match decoded {
        Ok((Body(message), read)) if read == body.len() => Ok(message),
        Ok(_) => Err(CodecError::Body("more bytes than the message has")),
        Err(DecodeError::UnexpectedEnd { .. }) => Err(CodecError::Body("it ends too early")),
        Err(DecodeError::Other(what)) => Err(CodecError::Body(what)),
        Err(_) => Err(CodecError::Body("a value that does not exist")),
    }
}

// What bincode is asked to do is named here, so that `wire` is only about our own types.
fn put_raw<T: Encode, E: bincode::enc::Encoder>(
    value: T,
    to: &mut E,
) -> Result<(), bincode::error::EncodeError> {
    value.encode(to)
}

fn take_raw<T: Decode<()>, D: bincode::de::Decoder<Context = ()>>(
    from: &mut D,
) -> Result<T, DecodeError> {
    T::decode(from)
}
