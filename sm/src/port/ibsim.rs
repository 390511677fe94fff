//! A port of a fabric that ibsim simulates, spoken to in ibsim's own words: datagrams between abstract Unix
//! sockets, no library in between and nothing preloaded.
//!
//! A client has two sockets. By the first it asks for things (to be attached to a node, to be known as a
//! subnet manager), each question answered before the next. By the second MADs travel, each in a frame that
//! says where it goes. ibsim numbers its clients and writes that number over the upper 16 bits of every
//! transaction id; what cannot be delivered it returns at once, marked as timed out.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::rmpp::handed_on;
use snin_mad::{Attribute, DrPath, MKey, Mad, NodeInfo, PERMISSIVE, PortInfo, QKey, Route, Smp};

use super::{Address, Counters, LocalInfo, Port, PortError, Received, Sent};

/// What ibsim calls its sockets unless `IBSIM_SOCKNAME` says otherwise.
pub const DEFAULT_NAME: &str = "sim";
/// The longest name of a node that fits a question, its NUL aside.
pub const LONGEST_HOST: usize = 31;

/// A question or its answer: four words and room for data.
const CONTROL: usize = 16 + DATA;
const DATA: usize = 64;
const MAGIC: u32 = 0xDEAD_BEEF;
/// A MAD with five words before it, a gap, and its length.
const FRAME: usize = MAD + 256;
const SOURCE: usize = 4;
const SOURCE_QP: usize = 12;
const STATUS: usize = 16;
const LENGTH: usize = 24;
const MAD: usize = 32;
/// The Q_Key of queue pair 1 (IBA 10.2.4).
const GENERAL: QKey = QKey(0x8001_0000);
/// Simulated nodes lose what they are told to lose.
const ATTEMPTS: usize = 100;

#[derive(Clone, Copy)]
enum Question {
    Connect = 1,
    Disconnect = 2,
    SetManager = 9,
}

/// How long ibsim may take to answer a question; it answers between two MADs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clients that one process may have tried to be before another name is given up.
const NAMES: u32 = 64;

/// Why there is no port on a simulated fabric.
#[derive(Debug, thiserror::Error)]
pub enum IbsimError {
    /// No simulator listens.
    #[error("no ibsim listens at {0}: start it with IBSIM_SOCKNAME={0} or name the one that runs")]
    Absent(String),
    /// The name of the node is longer than ibsim takes.
    #[error("{0}: ibsim takes names of at most {LONGEST_HOST} bytes")]
    LongName(String),
    /// ibsim said no, which it does without a reason.
    #[error(
        "ibsim at {name} does not attach a client to {host}: no such node, another subnet manager there, \
         or ten clients already (its console lists them: Attached)"
    )]
    Refused {
        /// ibsim's sockets.
        name: String,
        /// The node that was asked for.
        host: String,
    },
    /// The port itself does not answer.
    #[error(
        "ibsim at {name}: the port of {host} does not answer: where it hides an M_Key that it has from before, \
         set m_key to it, or name it in former_m_keys beside a new m_key"
    )]
    Hidden {
        /// ibsim's sockets.
        name: String,
        /// The node.
        host: String,
    },
    /// The sockets failed.
    #[error("ibsim at {name}: {error}")]
    Socket {
        /// ibsim's sockets.
        name: String,
        /// How.
        error: io::Error,
    },
}

/// A port of a simulated node.
#[derive(Debug)]
pub struct IbsimPort {
    control: UnixDatagram,
    data: UnixDatagram,
    /// The slot in ibsim, once it gave one.
    client: Option<u32>,
    info: LocalInfo,
    counters: Counters,
}

impl IbsimPort {
    /// Attaches to the node called `host` in the netlist, the first by default, of the ibsim whose sockets
    /// are called `name`.
    ///
    /// # Errors
    /// When no ibsim listens, or it refuses.
    pub fn attach(name: &str, host: Option<&str>) -> Result<Self, IbsimError> {
        Self::attach_with(name, host, &[])
    }

    /// The same, where the port may have one of these M_Keys.
    ///
    /// # Errors
    /// As [`attach`](Self::attach), and when the port does not answer.
    pub fn attach_with(name: &str, host: Option<&str>, keys: &[u64]) -> Result<Self, IbsimError> {
        if let Some(host) = host.filter(|host| host.len() > LONGEST_HOST) {
            return Err(IbsimError::LongName(host.to_owned()));
        }
        let broken = |error| IbsimError::Socket { name: name.to_owned(), error };
        let (id, control, data) = sockets(name).map_err(broken)?;
        control.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        data.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        let server = address(&format!("{name}:ctl")).map_err(broken)?;
        control.connect_addr(&server).map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => IbsimError::Absent(name.to_owned()),
            _ => broken(error),
        })?;
        let called = format!("ibsim:{name} {}", host.unwrap_or_default()).trim_end().to_owned();
        let info = LocalInfo { name: called, guid: Guid(0), port: PortNum::ZERO, lid: Lid::NONE };
        let counters = Counters::default();
        let mut port = Self { control, data, client: None, info, counters };
        // Its number, no queue pair of its own, no manager yet, and where.
        let mut client = [0; 44];
        client[..4].copy_from_slice(&id.to_ne_bytes());
        let wanted = host.unwrap_or_default().as_bytes();
        client[12..12 + wanted.len()].copy_from_slice(wanted);
        let Some(answer) = port.ask(Question::Connect, &client).map_err(broken)? else {
            let host = host.unwrap_or("its first node").to_owned();
            return Err(IbsimError::Refused { name: name.to_owned(), host });
        };
        let slot = word(&answer, 0);
        port.client = Some(slot);
        let server = address(&format!("{name}:out{slot}")).map_err(broken)?;
        port.data.connect_addr(&server).map_err(broken)?;
        port.introduce(keys).map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                let host = host.unwrap_or("its first node").to_owned();
                IbsimError::Hidden { name: name.to_owned(), host }
            }
            _ => broken(error),
        })?;
        port.data.set_nonblocking(true).map_err(broken)?;
        Ok(port)
    }

    /// Asks the port who it is.
    fn introduce(&mut self, keys: &[u64]) -> io::Result<()> {
        let node: NodeInfo = self.own(keys)?;
        let port: PortInfo = self.own(keys)?;
        (self.info.guid, self.info.port) = (node.port_guid, node.local_port);
        (self.info.lid, self.counters) = (port.lid, Counters::default());
        Ok(())
    }

    /// An attribute of the port itself. ibsim answers between two MADs, or says that it will not.
    fn own<A: Attribute>(&mut self, keys: &[u64]) -> io::Result<A> {
        let route = Route::directed(DrPath::new(&[]).ok_or(ErrorKind::InvalidInput)?);
        let keys = keys.iter().chain(&[0]).map(|&key| MKey(key)).cycle();
        let until = Instant::now() + PATIENCE;
        for key in keys.take(ATTEMPTS) {
            if Instant::now() >= until {
                break;
            }
            let question = Smp::get(A::ID, 0, route).m_key(key).mad();
            self.data.send(&frame(&question, &Address::DIRECTED))?;
            let mut answer = [0; FRAME];
            let size = self.data.recv(&mut answer)?;
            if let Some(received) = self.arrived(&answer[..size])
                && received.mad.header().attribute() == A::ID
                && let Ok(value) = received.mad.attribute()
            {
                return Ok(value);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// What a frame holds, if it is one.
    fn arrived(&mut self, frame: &[u8]) -> Option<Received> {
        let Some(mad) = frame.get(MAD..).and_then(|bytes| Mad::from_slice(bytes).ok()) else {
            self.counters.dropped += 1;
            return None;
        };
        if word(frame, STATUS) != 0 {
            self.counters.undelivered += 1;
            return None;
        }
        self.counters.received += 1;
        let lid = Lid(u16::from_be(word(frame, SOURCE) as u16));
        let qp = u32::from_be(word(frame, SOURCE_QP));
        let q_key = if qp == 0 { QKey(0) } else { GENERAL };
        // Its protocol knows no partitions.
        let from = Address { lid, qp, sl: 0, q_key, p_key_index: 0 };
        Some(Received { mad: Box::new(mad), from })
    }

    /// Puts a question; `None` where ibsim says no.
    fn ask(&self, question: Question, data: &[u8]) -> io::Result<Option<[u8; DATA]>> {
        let mut packet = [0; CONTROL];
        packet[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        packet[4..8].copy_from_slice(&self.client.unwrap_or_default().to_ne_bytes());
        packet[8..12].copy_from_slice(&(question as u32).to_ne_bytes());
        packet[12..16].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        packet[16..16 + data.len()].copy_from_slice(data);
        self.control.send(&packet)?;
        let size = self.control.recv(&mut packet)?;
        if size != CONTROL || word(&packet, 8) != question as u32 {
            return Ok(None);
        }
        let mut answer = [0; DATA];
        answer.copy_from_slice(&packet[16..]);
        Ok(Some(answer))
    }
}

impl Port for IbsimPort {
    fn info(&self) -> &LocalInfo {
        &self.info
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }

    fn writable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.data.as_fd())
    }

    fn send(&mut self, mad: &Mad, to: &Address) -> Result<Sent, PortError> {
        loop {
            return match self.data.send(&frame(mad, to)) {
                Ok(_) => {
                    self.counters.sent += 1;
                    Ok(Sent::Yes)
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.counters.full += 1;
                    Ok(Sent::Full)
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(PortError::broken(&self.info.name)(error)),
            };
        }
    }

    fn receive(&mut self) -> Result<Option<Received>, PortError> {
        let mut frame = [0; FRAME];
        loop {
            match self.data.recv(&mut frame) {
                Ok(size) => {
                    if let Some(received) = self.arrived(&frame[..size]) {
                        return Ok(Some(received));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(PortError::broken(&self.info.name)(error)),
            }
        }
    }

    fn announce(&mut self, manager: bool) -> Result<(), PortError> {
        let asked = self.ask(Question::SetManager, &u32::from(manager).to_ne_bytes());
        let refused = || io::Error::from(ErrorKind::PermissionDenied);
        asked
            .and_then(|answer| answer.ok_or_else(refused))
            .map_err(PortError::broken(&self.info.name))?;
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// A MAD on its way, as ibsim frames it.
fn frame(mad: &Mad, to: &Address) -> [u8; FRAME] {
    // The answer goes where the question says it is from; ibsim puts the port's own address for 0.
    let from = if to.lid == PERMISSIVE { PERMISSIVE } else { Lid::NONE };
    let own_qp = to.qp.min(1);
    let mut frame = [0; FRAME];
    frame[..4].copy_from_slice(&u32::from(to.lid.0.to_be()).to_ne_bytes());
    frame[SOURCE..][..4].copy_from_slice(&u32::from(from.0.to_be()).to_ne_bytes());
    frame[8..12].copy_from_slice(&to.qp.to_be_bytes());
    frame[SOURCE_QP..][..4].copy_from_slice(&own_qp.to_be_bytes());
    frame[LENGTH..MAD].copy_from_slice(&(handed_on(mad) as u64).to_be_bytes());
    frame[MAD..].copy_from_slice(&mad.0);
    frame
}

/// ibsim keeps the slot of a client that leaves without a word, and the port's IsSM with it.
impl Drop for IbsimPort {
    fn drop(&mut self) {
        if self.client.is_some() {
            // A drop cannot report a failure.
            let _ = self.ask(Question::SetManager, &0_u32.to_ne_bytes());
            let _ = self.ask(Question::Disconnect, &[]);
        }
    }
}

/// A client's number, chosen by itself, and its two sockets, named by it.
fn sockets(name: &str) -> io::Result<(u32, UnixDatagram, UnixDatagram)> {
    static USED: AtomicU32 = AtomicU32::new(0);
    let mut error = io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..NAMES {
        // Processes have numbers below 2^22, ibsim takes numbers below 2^31.
        let nth = USED.fetch_add(1, Ordering::Relaxed) % 512;
        let id = (nth << 22) | (std::process::id() & 0x3F_FFFF);
        let bound = |kind: &str| UnixDatagram::bind_addr(&address(&format!("{name}:{kind}{id}"))?);
        match bound("ctl").and_then(|control| Ok((id, control, bound("in")?))) {
            Err(in_use) if in_use.kind() == ErrorKind::AddrInUse => error = in_use,
            other => return other,
        }
    }
    Err(error)
}

/// ibsim's names are abstract and end with a NUL.
fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |four| u32::from_ne_bytes(*four))
}
