//! One flow's queue pair, of whichever kind.

use snin_verbs::{
    AddressHandle, Completion, CompletionQueue, Connected, Depth, Domain, Finished, Gather,
    Initialised, Mtu, NotPosted, Path, QueuePair, Rc, Remote, RemoteMemory, Sending, Shared,
    Signal, Slot, Timing, Uc, Ud, VerbsError,
};

use super::plan::Carrier;

/// Datagrams have to show it.
const Q_KEY: u32 = 0x534e_494e;
/// What comes before a datagram's bytes: its global route.
pub const ROUTE: usize = 40;

/// What queue pairs are made from.
#[derive(Debug)]
pub struct Material<'a> {
    /// The domain.
    pub domain: &'a Domain,
    /// The port's number.
    pub port: u8,
    /// Where sends complete.
    pub sends: &'a CompletionQueue,
    /// Where receives complete.
    pub receives: &'a CompletionQueue,
    /// How many.
    pub depth: Depth,
}

/// A queue pair that is not connected yet.
#[derive(Debug)]
pub enum Loose {
    /// Reliable.
    Rc(QueuePair<Rc, Initialised>),
    /// Unreliable.
    Uc(QueuePair<Uc, Initialised>),
    /// Datagrams.
    Ud(QueuePair<Ud, Initialised>),
}

/// A connected link.
#[derive(Debug)]
pub enum Link {
    /// Reliable.
    Rc(QueuePair<Rc, Sending>),
    /// Unreliable.
    Uc(QueuePair<Uc, Sending>),
    /// Datagrams, to whom, and to which queue pair there.
    Ud(QueuePair<Ud, Sending>, AddressHandle, u32),
}

/// The same for every kind.
macro_rules! each {
    ($of:expr, $pair:ident => $what:expr) => {
        match $of {
            Self::Rc($pair) => $what,
            Self::Uc($pair) => $what,
            Self::Ud($pair, ..) => $what,
        }
    };
}

impl Loose {
    /// Makes one.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn new(carrier: Carrier, from: &Material<'_>) -> Result<Self, VerbsError> {
        let (domain, port, queues, depth) =
            (from.domain, from.port, (from.sends, from.receives), from.depth);
        Ok(match carrier {
            Carrier::Rc => {
                Self::Rc(QueuePair::new(domain, port, queues, depth)?.initialise(true, 0)?)
            }
            Carrier::Uc => {
                Self::Uc(QueuePair::new(domain, port, queues, depth)?.initialise(true, 0)?)
            }
            Carrier::Ud => {
                Self::Ud(QueuePair::new(domain, port, queues, depth)?.initialise(false, Q_KEY)?)
            }
        })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        each!(self, pair => pair.number())
    }

    /// Gives memory to a message that comes; the same may be given to several.
    ///
    /// # Errors
    /// When as many are posted as may be.
    pub fn receive(&mut self, into: &Shared) -> Result<(), VerbsError> {
        each!(self, pair => pair.receive_shared(into, 0))
    }

    /// Connects it.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn connect(
        self,
        from: &Material<'_>,
        path: &Path,
        remote: Remote,
        (mtu, first_packet): (Mtu, u32),
    ) -> Result<Link, VerbsError> {
        let timing = Timing::default();
        Ok(match self {
            Self::Rc(pair) => {
                Link::Rc(pair.connect(path, remote, mtu, &timing)?.start(first_packet, &timing)?)
            }
            Self::Uc(pair) => {
                Link::Uc(pair.connect(path, remote, mtu, &timing)?.start(first_packet, &timing)?)
            }
            Self::Ud(pair) => {
                let to = AddressHandle::new(from.domain, from.port, path)?;
                Link::Ud(pair.open()?.start(first_packet, &timing)?, to, remote.number)
            }
        })
    }
}

fn write<K: Connected>(
    pair: &mut QueuePair<K, Sending>,
    what: Gather<'_>,
    to: RemoteMemory,
    signal: Signal,
) -> Result<(), VerbsError> {
    pair.write(what, (to, 0), 0, signal)
}

impl Link {
    /// Stages a message.
    ///
    /// # Errors
    /// When as many are posted as may be.
    #[inline]
    pub fn send(&mut self, what: Gather<'_>, signal: Signal) -> Result<(), VerbsError> {
        match self {
            Self::Rc(pair) => pair.send(what, None, 0, signal),
            Self::Uc(pair) => pair.send(what, None, 0, signal),
            Self::Ud(pair, to, number) => pair.send_to(what, to, (*number, Q_KEY), 0, signal),
        }
    }

    /// Stages a write to the peer's memory.
    ///
    /// # Errors
    /// When as many are posted as may be, or datagrams are to write.
    #[inline]
    pub fn write(
        &mut self,
        what: Gather<'_>,
        to: RemoteMemory,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        match self {
            Self::Rc(pair) => write(pair, what, to, signal),
            Self::Uc(pair) => write(pair, what, to, signal),
            Self::Ud(..) => Err(VerbsError::QueueFull),
        }
    }

    /// Stages a read of the peer's memory into a slot.
    ///
    /// # Errors
    /// When as many are posted as may be, or the kind cannot read.
    pub fn read(&mut self, into: Slot, from: RemoteMemory) -> Result<(), NotPosted> {
        let length = into.len();
        match self {
            Self::Rc(pair) => pair.read(into, length, (from, 0), 0),
            Self::Uc(..) | Self::Ud(..) => {
                Err(NotPosted { slot: into, error: VerbsError::QueueFull })
            }
        }
    }

    /// Hands over what is staged.
    ///
    /// # Errors
    /// When the device refuses.
    #[inline]
    pub fn ring(&mut self) -> Result<(), VerbsError> {
        each!(self, pair => pair.ring())
    }

    /// Gives memory to a message that comes; the same may be given to several.
    ///
    /// # Errors
    /// When as many are posted as may be.
    pub fn receive(&mut self, into: &Shared) -> Result<(), VerbsError> {
        each!(self, pair => pair.receive_shared(into, 0))
    }

    /// Takes back what a completion says is done.
    #[inline]
    pub fn finish(&mut self, completion: &Completion, finished: impl FnMut(Finished)) {
        each!(self, pair => pair.finish(completion, finished));
    }

    /// How many sends are posted and not finished.
    #[inline]
    pub fn outstanding(&self) -> usize {
        each!(self, pair => pair.outstanding())
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        each!(self, pair => pair.number())
    }
}
